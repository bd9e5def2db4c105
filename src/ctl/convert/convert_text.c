/*
 * Converts a stream of YAML or JSON. Called by convert.c. The stream is split into documents first,
 * so that an invalid one does not affect the others. Text that is not converted is copied byte for
 * byte.
 */
#include <stdio.h>
#include <string.h>

#include "convert.h"

/* A document, or several that are separated by "...". */
struct text_piece {
    struct conversion *conversion;
    const char *file;
    struct text bytes;
    uint32_t line;     /* in the file, from 1 */
    uint32_t document; /* number of the next document */
    struct arena arena;
    bool changed;
};

/* --- messages --- */

static const char *const level_text[CONVERT_LEVELS] = {
    [CONVERT_NOTE] = "",
    [CONVERT_LOST] = "no counterpart: ",
    [CONVERT_FAILED] = "not converted: ",
};

static void piece_say(const struct text_piece *piece, uint32_t line, const char *object,
                      const char *text)
{
    CLEANUP(strbuf_done) struct strbuf out;
    char file[256];

    strbuf_init(&out);
    text_clip(text_of(piece->file), file, sizeof file);
    strbuf_printf(&out, "%s: document %u (line %u)%s%s: %s", file, piece->document, line,
                  object[0] != '\0' ? ", " : "", object, text);
    piece->conversion->say(piece->conversion->user, out.data);
}

static void say_level(const struct text_piece *piece, const struct convert_object *in,
                      enum convert_level level)
{
    const char *kind = document_shown(in->root, "kind");
    const char *name = document_shown(in->root, "metadata.name");
    const uint32_t line = piece->line + (in->root->at.line > 0 ? in->root->at.line - 1 : 0);
    struct text rest = {in->line[level].data, in->line[level].len};
    struct text each;
    char object[256];

    (void)snprintf(object, sizeof object, "%.100s%s%.120s", kind, name[0] != '\0' ? " " : "", name);
    while (text_cut(&rest, '\n', &each)) {
        CLEANUP(strbuf_done) struct strbuf text;
        strbuf_init(&text);
        strbuf_str(&text, level_text[level]);
        strbuf_text(&text, each);
        if (each.len > 0)
            piece_say(piece, line, object, text.data);
    }
    if (in->said[level] > CONVERT_LINES_MAX) {
        char more[64];
        (void)snprintf(more, sizeof more, "%s%u more like these", level_text[level],
                       (unsigned)in->said[level] - CONVERT_LINES_MAX);
        piece_say(piece, line, object, more);
    }
}

/* Prints the remarks; for an object that stays unchanged, only the reasons for that. */
static void say_all(const struct text_piece *piece, const struct convert_object *in)
{
    const bool failed = convert_failed(in);

    if (failed || in->said[CONVERT_LOST] > 0)
        piece->conversion->unconverted++;
    for (size_t level = failed ? CONVERT_FAILED : 0; level < CONVERT_LEVELS; level++)
        say_level(piece, in, (enum convert_level)level);
}

/* --- objects --- */

/* Converts a copy, which replaces the object if everything could be converted. */
static void take_object(struct text_piece *piece, struct document *object)
{
    struct convert_object in = {.rules = &piece->conversion->rules,
                                .arena = &piece->arena,
                                .root = document_copy(&piece->arena, object)};

    for (size_t i = 0; i < CONVERT_LEVELS; i++)
        strbuf_init(&in.line[i]);
    convert_object(&in);
    say_all(piece, &in);
    if (!convert_failed(&in) && !document_equal(object, in.root)) {
        piece->changed = true;
        object->first = in.root->first;
        object->last = in.root->last;
        object->count = in.root->count;
    }
    for (size_t i = 0; i < CONVERT_LEVELS; i++)
        strbuf_done(&in.line[i]);
}

static void take_document(struct text_piece *piece, struct document *document)
{
    struct document *items = document_get(document, "items");

    if (document->kind != DOCUMENT_OBJECT)
        return;
    if (!text_ends(text_of(document_str(document, "kind")), "List") || items == NULL ||
        items->kind != DOCUMENT_ARRAY) {
        take_object(piece, document);
        return;
    }
    for (struct document *at = items->first; at != NULL; at = at->next)
        if (at->kind == DOCUMENT_OBJECT)
            take_document(piece, at);
}

/* --- pieces --- */

static bool looks_like_json(struct text bytes)
{
    size_t at = 0;

    while (at < bytes.len && bytes.at[at] != '\0' && strchr(" \t\r\n", bytes.at[at]) != NULL)
        at++;
    return at < bytes.len && bytes.at[at] == '{';
}

static bool take_json(struct text_piece *piece, struct strbuf *out, struct err *err)
{
    struct document *document;

    if (!looks_like_json(piece->bytes) ||
        document_parse_json(piece->bytes, "document", &piece->arena, &document, err) < 0)
        return false;
    take_document(piece, document);
    piece->document++;
    if (!piece->changed) {
        strbuf_text(out, piece->bytes);
        return true;
    }
    document_write_pretty(out, document);
    return true;
}

/* Writes documents as a whole, if their text cannot be edited in place. */
static void write_whole(struct text_piece *piece, const struct document *documents,
                        struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf line;
    bool first = true;

    strbuf_init(&line);
    strbuf_printf(&line, "%s: line %u: written anew: comments and layout of this document are lost",
                  piece->file, piece->line);
    piece->conversion->say(piece->conversion->user, line.data);
    document_each (document, documents) {
        if (!first || text_starts(piece->bytes, "---"))
            strbuf_str(out, "---\n");
        first = false;
        document_write_yaml(out, document);
    }
}

static void take_yaml(struct text_piece *piece, struct strbuf *out)
{
    struct document *before;
    struct err json_err = {0};
    struct err err;

    if (take_json(piece, out, &json_err))
        return;
    if (document_parse_yaml(piece->bytes, &piece->arena, &before, &err) < 0) {
        char text[ERR_TEXT_MAX + 64];
        (void)snprintf(text, sizeof text, "not converted: %s%s",
                       json_err.code != ERR_NONE ? "" : "counted from there, ",
                       json_err.code != ERR_NONE ? json_err.text : err.text);
        piece_say(piece, piece->line, "", text);
        piece->conversion->unconverted++;
        piece->document++;
        strbuf_text(out, piece->bytes);
        return;
    }
    struct document *after = document_copy(&piece->arena, before);
    for (struct document *at = after->first; at != NULL; at = at->next) {
        take_document(piece, at);
        piece->document += at->kind != DOCUMENT_NULL;
    }
    if (!piece->changed)
        strbuf_text(out, piece->bytes);
    else if (!document_rewrite_yaml(piece->bytes, before, after, &piece->arena, out))
        write_whole(piece, after, out);
}

/* --- the stream --- */

static struct text line_of(struct text rest)
{
    const char *end = memchr(rest.at, '\n', rest.len);

    return end != NULL ? (struct text){rest.at, (size_t)(end - rest.at) + 1} : rest;
}

/* True for a line that begins a YAML document. */
static bool begins_document(struct text line)
{
    return text_starts(line, "---") && (line.len == 3 || strchr(" \t\r\n", line.at[3]) != NULL);
}

/* True for a YAML directive, which belongs to the next document. */
static bool is_directive(struct text line)
{
    return line.len > 0 && line.at[0] == '%';
}

static bool is_empty(struct text line)
{
    const struct text trimmed = text_trim(line);

    return trimmed.len == 0 || trimmed.at[0] == '#' || trimmed.at[0] == '\r' ||
           trimmed.at[0] == '\n';
}

/* The bytes before the next document, and the number of their lines. */
static struct text next_piece(struct text rest, uint32_t *lines)
{
    bool waits = true; /* no content yet, only comments and directives */
    bool directives = false;
    size_t at = 0;

    must(rest.len > 0);
    *lines = 0;
    while (at < rest.len) {
        const struct text line = line_of((struct text){rest.at + at, rest.len - at});
        if (at > 0 && begins_document(line) && !(waits && directives))
            break;
        directives |= is_directive(line);
        waits = waits && (is_directive(line) || is_empty(line));
        at += line.len;
        ++*lines;
    }
    return (struct text){rest.at, at};
}

void convert_text(struct conversion *conversion, struct text bytes, const char *file,
                  struct strbuf *out)
{
    uint32_t document = 1;
    uint32_t line = 1;
    uint32_t lines;

    must(bytes.len <= CONVERT_BYTES_MAX);
    while (bytes.len > 0) {
        struct text_piece piece = {.conversion = conversion,
                                   .file = file,
                                   .bytes = next_piece(bytes, &lines),
                                   .line = line,
                                   .document = document};
        arena_init(&piece.arena);
        take_yaml(&piece, out);
        arena_done(&piece.arena);
        document = piece.document;
        line += lines;
        bytes.at += piece.bytes.len;
        bytes.len -= piece.bytes.len;
    }
}
