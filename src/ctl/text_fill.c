/*
 * Sentences on a terminal: the width of a text, and line breaks. Called by tables and by views that
 * print sentences. Pure, except for text_fill(), which prints.
 */
#include <stdio.h>

#include "table.h"

size_t text_columns(struct text text)
{
    size_t count = 0;

    must(text.len == 0 || text.at != NULL);
    for (size_t i = 0; i < text.len; i++)
        if (((unsigned char)text.at[i] & 0xc0) != 0x80)
            count++;
    return count;
}

size_t text_line_bytes(struct text text, size_t width)
{
    size_t bytes = 0;
    size_t space = 0;

    must(width > 0);
    for (size_t count = 0; bytes < text.len; bytes++) {
        if (((unsigned char)text.at[bytes] & 0xc0) == 0x80)
            continue;
        if (text.at[bytes] == ' ')
            space = bytes;
        if (count++ == width)
            return space > 0 ? space : bytes;
    }
    return bytes;
}

void text_fill_into(struct strbuf *out, const struct screen *screen, const char *text, size_t from,
                    size_t indent)
{
    struct text rest = text_of(text);
    size_t begin = from;

    must(out != NULL);
    while (screen->terminal && screen->width > begin + WRAP_MIN &&
           text_columns(rest) > screen->width - begin) {
        const size_t bytes = text_line_bytes(rest, screen->width - begin);
        must(bytes > 0);
        strbuf_text(out, text_first(rest, bytes));
        strbuf_printf(out, "\n%*s", (int)indent, "");
        rest = text_trim((struct text){rest.at + bytes, rest.len - bytes});
        begin = indent;
    }
    strbuf_text(out, rest);
    strbuf_char(out, '\n');
}

void text_fill(const struct screen *screen, const char *text, size_t from, size_t indent)
{
    CLEANUP(strbuf_done) struct strbuf lines;

    must(screen->out != NULL);
    strbuf_init(&lines);
    text_fill_into(&lines, screen, text, from, indent);
    (void)fwrite(lines.data, 1, lines.len, screen->out); /* checked in ctl_finish() */
}
