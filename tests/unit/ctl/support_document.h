/*
 * support_document - the documents that are written from commands.def and options.def.
 */
#ifndef MILLIGPU_TESTS_CTL_SUPPORT_DOCUMENT_H
#define MILLIGPU_TESTS_CTL_SUPPORT_DOCUMENT_H

#include "milligpu/base/strbuf.h"

/* Appends the output of the command's example: whole lines, at least one. */
typedef void options_example(struct strbuf *out, const char *command);
void options_markdown(struct strbuf *out, options_example *example); /* docs/CLI.md */
void options_man(struct strbuf *out);                                /* docs/man/milligpuctl.1 */

#endif
