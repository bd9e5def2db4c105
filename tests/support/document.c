#include "support/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"

static void document_write(const char *path, struct text text)
{
    FILE *document = fopen(path, "we");

    if (document == NULL)
        fail_msg("%s cannot be written", path);
    assert_int_equal(fwrite(text.at, 1, text.len, document), text.len);
    assert_int_equal(fclose(document), 0);
}

static bool document_is(const char *path, struct text text)
{
    FILE *document = fopen(path, "re");

    if (document == NULL)
        return false;
    CLEANUP(xfreep) char *have = xcalloc(text.len + 1, 1);
    const size_t count = fread(have, 1, text.len + 1, document);
    assert_int_equal(fclose(document), 0);
    return count == text.len && memcmp(have, text.at, count) == 0;
}

void document_equals(const char *file, void (*write)(struct strbuf *out))
{
    const char *source = getenv("MILLIGPU_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    const bool updates = getenv("UPDATE") != NULL;      /* NOLINT(concurrency-mt-unsafe) */
    CLEANUP(strbuf_done) struct strbuf want;
    char path[4096];

    strbuf_init(&want);
    write(&want);
    (void)snprintf(path, sizeof path, "%s/%s", source != NULL ? source : ".", file);
    const struct text text = {want.data, want.len};
    if (updates)
        document_write(path, text);
    else if (!document_is(path, text))
        fail_msg("%s is not what its table says: run this test with UPDATE=1", path);
}

/*
 * A line that begins with a dot or an apostrophe would be a command to roff, and a bare - becomes a
 * hyphen that cannot be pasted as part of an option.
 */
void strbuf_roff(struct strbuf *buf, const char *text)
{
    must(strchr(text, '\n') == NULL);

    if (text[0] == '.' || text[0] == '\'')
        strbuf_str(buf, "\\&"); /* otherwise it would be a request */
    for (; *text != '\0'; text++)
        if (*text == '\\')
            strbuf_str(buf, "\\e");
        else if (*text == '-')
            strbuf_str(buf, "\\-");
        else
            strbuf_char(buf, *text);
}
