/*
 * The notes of a table on a terminal: a column with long and rare texts (COLUMN_NOTE) is not drawn,
 * but written below the table, each text once with its rows. Called by table_print() in the only
 * thread, before names are cut.
 */
#include <string.h>

#include "row_groups.h"
#include "table.h"

/* "gpu-a/3"; a single number with its heading: "GPU 3". */
static void put_row_name(struct strbuf *out, const struct table *table, const struct cell *row)
{
    bool first = true;

    must(table->n_columns > 0);
    for (size_t i = 0; i < table->n_columns; i++) {
        if ((table->column[i].flags & COLUMN_LABEL) == 0)
            continue;
        if (first && row[i].numeric)
            strbuf_printf(out, "%s ", table->column[i].name);
        strbuf_printf(out, "%s%s", first ? "" : "/", row[i].text);
        first = false;
    }
    must(!first);
}

static void put_note(struct strbuf *out, const struct table *table, const struct row_group *note)
{
    CLEANUP(strbuf_done) struct strbuf line;

    strbuf_init(&line);
    strbuf_str(&line, note->names.data);
    row_group_more(note, &line);
    strbuf_printf(&line, ": %s", (const char *)note->said);
    text_fill_into(out, table->screen, line.data, 0, 2);
}

static void notes_take(struct row_groups *notes, const struct table *table, size_t cell)
{
    must(cell < table->n_cells);

    const char *text = table->cell[cell].text;

    if ((table->column[cell % table->n_columns].flags & COLUMN_NOTE) == 0 || strcmp(text, "-") == 0)
        return;
    struct strbuf *names = row_groups_add(notes, text, text);
    if (names != NULL)
        put_row_name(names, table, &table->cell[cell - cell % table->n_columns]);
}

static size_t lines_in(const char *text)
{
    size_t lines = 0;

    must(text != NULL);
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

size_t table_notes(const struct table *table, size_t lines_max, struct strbuf *out)
{
    CLEANUP(row_groups_done) struct row_groups notes;
    size_t lines = 0;

    must(out->len == 0);
    row_groups_init(&notes);
    if (!table_has_notes(table))
        return 0;
    for (size_t i = 0; i < table->n_cells; i++)
        notes_take(&notes, table, i);
    for (size_t i = 0; i < notes.count; i++) {
        CLEANUP(strbuf_done) struct strbuf text;
        strbuf_init(&text);
        put_note(&text, table, &notes.group[i]);
        if (lines_max > 0 && lines + lines_in(text.data) + 1 > lines_max) {
            strbuf_printf(out, "... and %zu more reasons\n", notes.count - i);
            lines++;
            break;
        }
        strbuf_str(out, text.data);
        lines += lines_in(text.data);
    }
    return lines;
}
