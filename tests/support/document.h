/*
 * document - a file of docs/ that is generated from a table and must equal it.
 */
#ifndef MILLIGPU_TESTS_DOCUMENT_H
#define MILLIGPU_TESTS_DOCUMENT_H

#include "milligpu/base/strbuf.h"

/*
 * Fails the test if the file (below MILLIGPU_SOURCE_DIR, else the working folder) is not what write
 * produces. With UPDATE in the environment it writes the file instead.
 */
void document_equals(const char *file, void (*write)(struct strbuf *out));

/* One paragraph of a manual page: what roff would interpret is escaped. text has no line breaks. */
void strbuf_roff(struct strbuf *buf, const char *text);

#endif
