/*
 * agent_settings_document - the documents that are written from agent_settings.def.
 */
#ifndef MILLIGPU_TESTS_AGENT_SETTINGS_DOCUMENT_H
#define MILLIGPU_TESTS_AGENT_SETTINGS_DOCUMENT_H

#include "milligpu/base/strbuf.h"

void agent_settings_markdown(struct strbuf *out); /* a table of docs/NODE_REFERENCE.md */
void agent_settings_man(struct strbuf *out);      /* docs/man/milligpu-node.8 */

#endif
