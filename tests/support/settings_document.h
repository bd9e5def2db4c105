/*
 * settings_document - the documents that are written from settings.def.
 */
#ifndef MILLIGPU_TESTS_SETTINGS_DOCUMENT_H
#define MILLIGPU_TESTS_SETTINGS_DOCUMENT_H

#include "milligpu/base/strbuf.h"

void settings_markdown(struct strbuf *out); /* docs/CONFIG.md */
void settings_man(struct strbuf *out);      /* docs/man/milligpud.8 */

#endif
