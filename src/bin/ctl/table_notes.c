/*
 * The notes of a table on a terminal: a column whose texts are long and rare (COLUMN_NOTE) is not
 * drawn, but written below the table, each text once with the rows that it is about. Called by
 * table_print() in the only thread, before names are cut.
 */
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/map.h"

#include "table.h"

enum { ROWS_NAMED = 3 };

/* Rows with one text. */
struct note {
    const char *text;
    struct strbuf rows; /* the names of the first of them */
    size_t count;
};

struct notes {
    struct note *note;
    size_t count;
    size_t capacity;
    struct map by_text; /* the place + 1 of a note, by its text */
};

/* "gpu-a/3"; a number alone with its heading: "GPU 3". */
static void put_row_name(struct strbuf *out, const struct table *table, const struct cell *row)
{
    bool first = true;

    must(table->columns > 0);
    for (size_t i = 0; i < table->columns; i++) {
        if ((table->column[i].flags & COLUMN_LABEL) == 0)
            continue;
        if (first && row[i].numeric)
            strbuf_printf(out, "%s ", table->column[i].name);
        strbuf_printf(out, "%s%s", first ? "" : "/", row[i].text);
        first = false;
    }
    must(!first);
}

static void notes_add(struct notes *notes, const struct table *table, const struct cell *row,
                      const char *text)
{
    size_t place = (size_t)(uintptr_t)map_find(&notes->by_text, text_of(text));

    if (place == 0) {
        notes->note = xgrow(notes->note, notes->count, &notes->capacity, sizeof *notes->note);
        notes->note[notes->count] = (struct note){.text = text};
        strbuf_init(&notes->note[notes->count].rows);
        place = ++notes->count;
        must(map_put(&notes->by_text, text_of(text), (void *)(uintptr_t)place) == NULL);
    }
    struct note *note = &notes->note[place - 1];
    if (note->count++ >= ROWS_NAMED)
        return;
    strbuf_str(&note->rows, note->count > 1 ? ", " : "");
    put_row_name(&note->rows, table, row);
}

static void notes_done(struct notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        strbuf_done(&notes->note[i].rows);
    map_done(&notes->by_text);
    xfree(notes->note);
}

static void put_note(struct strbuf *out, const struct table *table, const struct note *note)
{
    CLEANUP(strbuf_done) struct strbuf line;

    must(note->count > 0);
    strbuf_init(&line);
    strbuf_str(&line, note->rows.data);
    if (note->count > ROWS_NAMED)
        strbuf_printf(&line, " and %zu more", note->count - ROWS_NAMED);
    strbuf_printf(&line, ": %s", note->text);
    text_fill_into(out, table->screen, line.data, 0, 2);
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
    struct notes notes = {.count = 0};
    size_t lines = 0;

    must(out->len == 0);
    if (!table_has_notes(table))
        return 0;
    map_init(&notes.by_text);
    for (size_t i = 0; i < table->cells; i++)
        if ((table->column[i % table->columns].flags & COLUMN_NOTE) != 0 &&
            strcmp(table->cell[i].text, "-") != 0)
            notes_add(&notes, table, &table->cell[i - i % table->columns], table->cell[i].text);
    for (size_t i = 0; i < notes.count; i++) {
        CLEANUP(strbuf_done) struct strbuf text;
        strbuf_init(&text);
        put_note(&text, table, &notes.note[i]);
        if (lines_max > 0 && lines + lines_in(text.data) + 1 > lines_max) {
            strbuf_printf(out, "... and %zu more reasons\n", notes.count - i);
            lines++;
            break;
        }
        strbuf_str(out, text.data);
        lines += lines_in(text.data);
    }
    notes_done(&notes);
    return lines;
}
