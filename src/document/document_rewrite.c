/*
 * Writes the changes of a tree into its YAML source. Called by milligpuctl convert, to keep the
 * user's comments. Each difference of the two trees becomes an edit of the text: lines of a block
 * mapping are removed and inserted, a changed flow mapping is written anew on one line. Only tokens
 * that are in the text literally are edited (no escapes, no folded lines); anything else fails the
 * whole. The result is parsed and compared with the tree, so a bug here costs comments, never
 * content.
 */
#include <string.h>

#include "milligpu/document/document.h"

enum {
    COLUMN_MAX = 4096, /* place_of() is linear in the column */
    PLAIN_KEY_MIN = 6, /* shorter words may be bools: on, n, false */
    INDENT = 2,
};

/* Replaces bytes of the text, or inserts if bytes is 0. */
struct edit {
    struct edit *before;
    struct edit *next;
    size_t at;
    size_t bytes;
    struct text with;
};

struct rewriting {
    struct text bytes;
    struct arena *arena;
    const uint32_t *line; /* offset of each line */
    uint32_t n_lines;
    const char *line_break;
    struct edit *first;
    struct edit *last;
};

/* --- places --- */

/* Returns the length of the line break at this place, by libyaml's rules; 0 if there is none. */
static size_t break_bytes(struct text bytes, size_t at)
{
    static const char *const breaks[] = {"\r\n",     "\n",           "\r",
                                         "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};

    must(at <= bytes.len);
    for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
        const size_t len = strlen(breaks[i]);
        if (bytes.len - at >= len && memcmp(bytes.at + at, breaks[i], len) == 0)
            return len;
    }
    return 0;
}

static void find_lines(struct rewriting *in)
{
    uint32_t count = 1;
    size_t bytes;

    for (size_t at = 0; at<in->bytes.len; at += bytes> 0 ? bytes : 1) {
        bytes = break_bytes(in->bytes, at);
        count += bytes > 0;
    }
    uint32_t *line = arena_array(in->arena, count, sizeof *line);
    in->line_break = "\n";
    for (size_t at = 0; at<in->bytes.len; at += bytes> 0 ? bytes : 1) {
        bytes = break_bytes(in->bytes, at);
        if (bytes == 0)
            continue;
        if (in->n_lines == 0 && bytes == 2 && in->bytes.at[at] == '\r')
            in->line_break = "\r\n";
        line[++in->n_lines] = (uint32_t)(at + bytes);
    }
    in->n_lines++;
    must(in->n_lines == count);
    in->line = line;
}

/* Converts a mark to an offset. libyaml counts characters, without a leading byte order mark. */
static bool place_of(const struct rewriting *in, struct document_mark mark, size_t *out)
{
    if (mark.line == 0 || mark.line > in->n_lines || mark.column > COLUMN_MAX)
        return false;
    size_t at = in->line[mark.line - 1];
    if (mark.line == 1 && text_starts(in->bytes, "\xEF\xBB\xBF"))
        at += 3;
    must(mark.column > 0);
    for (uint32_t i = 1; i < mark.column; i++) {
        const size_t bytes = text_sequence(in->bytes, at);
        if (bytes == 0)
            return false;
        at += bytes;
    }
    *out = at;
    return at <= in->bytes.len;
}

static char byte_at(const struct rewriting *in, size_t at)
{
    return at < in->bytes.len ? in->bytes.at[at] : '\0';
}

/* True if the text is there literally, plain or in quotes; *end is the offset behind it. */
static bool stands_at(const struct rewriting *in, struct text text, size_t at, size_t *end)
{
    const char quote = byte_at(in, at);
    const size_t quotes = (quote == '"' || quote == '\'') ? 1 : 0;

    must(at <= in->bytes.len);
    if (in->bytes.len - at < text.len + 2 * quotes || memchr(text.at, '\n', text.len) != NULL ||
        memcmp(in->bytes.at + at + quotes, text.at, text.len) != 0)
        return false;
    *end = at + text.len + 2 * quotes;
    return quotes == 0 || in->bytes.at[*end - 1] == quote;
}

static bool is_flow(const struct rewriting *in, size_t at)
{
    return byte_at(in, at) == '{' || byte_at(in, at) == '[';
}

/* Sets *out behind the last token of a value. */
static bool end_of(const struct rewriting *in, const struct document *value, size_t *out)
{
    size_t at;

    if (!place_of(in, value->at, &at))
        return false;
    if (value->kind != DOCUMENT_OBJECT && value->kind != DOCUMENT_ARRAY)
        return stands_at(in, value->text, at, out);
    const bool flow = is_flow(in, at);
    if (byte_at(in, at) == '&' || byte_at(in, at) == '!')
        return false; /* an anchor or a tag */
    if (value->last != NULL && !end_of(in, value->last, out))
        return false;
    if (!flow)
        return value->last != NULL;
    const char close = byte_at(in, at) == '{' ? '}' : ']';
    size_t end = value->last != NULL ? *out : at + 1;
    for (bool comma = value->last == NULL; end < in->bytes.len; end++) {
        const char c = in->bytes.at[end];
        if (c == close) {
            *out = end + 1;
            return true;
        }
        if (strchr(" \t\r\n", c) == NULL && (c != ',' || comma))
            return false;
        comma |= c == ',';
    }
    return false;
}

/* Sets *out behind the line break, if only a comment follows on the line. */
static bool line_end(const struct rewriting *in, size_t at, size_t *out)
{
    const size_t from = at;

    while (byte_at(in, at) == ' ' || byte_at(in, at) == '\t')
        at++;
    if (byte_at(in, at) == '#' && at > from)
        while (at < in->bytes.len && break_bytes(in->bytes, at) == 0)
            at++;
    if (at < in->bytes.len && break_bytes(in->bytes, at) == 0)
        return false;
    *out = at + (at < in->bytes.len ? break_bytes(in->bytes, at) : 0);
    return true;
}

/* Sets *out to the beginning of the member's line, if only spaces precede its key. */
static bool line_begin(const struct rewriting *in, const struct document *member, size_t *out)
{
    size_t at;

    if (!place_of(in, member->key_at, &at))
        return false;
    const size_t begin = in->line[member->key_at.line - 1];
    for (size_t i = begin; i < at; i++)
        if (in->bytes.at[i] != ' ')
            return false;
    must(begin <= at);
    *out = begin;
    return true;
}

/* --- edits --- */

/* Keeps edits sorted by offset; for equal offsets insertions first, in the order of the calls. */
static void add_edit(struct rewriting *in, size_t at, size_t bytes, struct text with)
{
    struct edit *edit = arena_alloc(in->arena, sizeof *edit);
    struct edit *before = in->last;

    must(at + bytes <= in->bytes.len);
    *edit = (struct edit){.at = at, .bytes = bytes, .with = with};
    while (before != NULL &&
           (before->at > at || (before->at == at && before->bytes > 0 && bytes == 0)))
        before = before->before;
    edit->before = before;
    edit->next = before != NULL ? before->next : in->first;
    if (before != NULL)
        before->next = edit;
    else
        in->first = edit;
    if (edit->next != NULL)
        edit->next->before = edit;
    else
        in->last = edit;
}

static bool apply(const struct rewriting *in, struct strbuf *out)
{
    size_t done = 0;

    for (const struct edit *edit = in->first; edit != NULL; edit = edit->next) {
        if (edit->at < done)
            return false;
        strbuf_add(out, in->bytes.at + done, edit->at - done);
        strbuf_text(out, edit->with);
        done = edit->at + edit->bytes;
    }
    strbuf_add(out, in->bytes.at + done, in->bytes.len - done);
    return true;
}

/* --- what is new --- */

static bool is_plain_yaml_key(struct text key)
{
    for (size_t i = 0; i < key.len; i++) {
        const char c = text_lower(key.at[i]);
        const bool letter = c >= 'a' && c <= 'z';
        const bool inner = (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-' || c == '_';
        if (!letter && (!inner || i == 0))
            return false;
    }
    return key.len >= PLAIN_KEY_MIN;
}

static void put_key(struct strbuf *out, struct text key)
{
    if (is_plain_yaml_key(key))
        strbuf_text(out, key);
    else
        strbuf_json(out, key);
    strbuf_str(out, ": ");
}

static void put_flow(struct strbuf *out, const struct document *value)
{
    if (value->kind != DOCUMENT_OBJECT) {
        document_write(out, value);
        return;
    }
    strbuf_char(out, '{');
    document_each (child, value) {
        put_key(out, child->key);
        put_flow(out, child);
        if (child->next != NULL)
            strbuf_str(out, ", ");
    }
    strbuf_char(out, '}');
}

static void put_indent(struct strbuf *out, uint32_t indent)
{
    for (uint32_t i = 0; i < indent; i++)
        strbuf_char(out, ' ');
}

/* Writes the lines of a member of a block mapping. */
static void put_block(const struct rewriting *in, struct strbuf *out, const struct document *member,
                      uint32_t indent)
{
    put_indent(out, indent);
    put_key(out, member->key);
    if (member->kind != DOCUMENT_OBJECT || member->count == 0) {
        put_flow(out, member);
        strbuf_str(out, in->line_break);
        return;
    }
    must(out->len > 0);
    strbuf_cut(out, out->len - 1, 1); /* the space behind the colon */
    strbuf_str(out, in->line_break);
    document_each (child, member)
        put_block(in, out, child, indent + INDENT);
}

static struct text kept(const struct rewriting *in, const struct strbuf *text)
{
    return (struct text){arena_copy(in->arena, (struct text){text->data, text->len}), text->len};
}

/* --- differences --- */

/*
 * Returns the member with this key, or NULL. The search begins at *hint, which becomes the member
 * behind the one found: keys are mostly in the same order, so all lookups take linear time.
 */
static const struct document *member_of(const struct document *object, struct text key,
                                        const struct document **hint)
{
    const struct document *found = *hint;

    must(object->kind == DOCUMENT_OBJECT);
    if (found == NULL || !text_eq(found->key, key)) {
        found = object->first;
        while (found != NULL && !text_eq(found->key, key))
            found = found->next;
    }
    if (found != NULL)
        *hint = found->next;
    return found;
}

static bool put_changed_flow(const struct rewriting *in, const struct document *before,
                             const struct document *after, struct strbuf *out);

static bool put_changed_items(const struct rewriting *in, const struct document *before,
                              const struct document *after, struct strbuf *out)
{
    const struct document *old = before->first;

    must(before->count == after->count);
    strbuf_char(out, '[');
    document_each (item, after) {
        if (!put_changed_flow(in, old, item, out))
            return false;
        if (item->next != NULL)
            strbuf_str(out, ", ");
        old = old->next;
    }
    strbuf_char(out, ']');
    return true;
}

static bool put_changed_members(const struct rewriting *in, const struct document *before,
                                const struct document *after, struct strbuf *out)
{
    const struct document *hint = before->first;
    size_t begin;
    size_t end;

    must(before->kind == DOCUMENT_OBJECT);
    strbuf_char(out, '{');
    document_each (member, after) {
        const struct document *old = member_of(before, member->key, &hint);
        if (old == NULL) {
            put_key(out, member->key);
        } else {
            if (!place_of(in, old->key_at, &begin) || !stands_at(in, old->key, begin, &end))
                return false;
            strbuf_add(out, in->bytes.at + begin, end - begin);
            strbuf_str(out, ": ");
        }
        if (!put_changed_flow(in, old, member, out))
            return false;
        if (member->next != NULL)
            strbuf_str(out, ", ");
    }
    strbuf_char(out, '}');
    return true;
}

/*
 * Writes a flow value anew; unchanged parts keep their bytes. before may be NULL.
 */
static bool put_changed_flow(const struct rewriting *in, const struct document *before,
                             const struct document *after, struct strbuf *out)
{
    size_t begin;
    size_t end;

    if (before != NULL && document_equal(before, after) && place_of(in, before->at, &begin) &&
        end_of(in, before, &end)) {
        strbuf_add(out, in->bytes.at + begin, end - begin);
        return true;
    }
    if (before != NULL && before->kind == DOCUMENT_OBJECT && after->kind == DOCUMENT_OBJECT)
        return put_changed_members(in, before, after, out);
    if (before != NULL && before->kind == DOCUMENT_ARRAY && after->kind == DOCUMENT_ARRAY &&
        before->count == after->count)
        return put_changed_items(in, before, after, out);
    put_flow(out, after);
    return true;
}

/* Only a flow value of several lines can have a comment. A '#' in a string counts, too. */
static bool may_have_comment(struct text text)
{
    return memchr(text.at, '\n', text.len) != NULL && memchr(text.at, '#', text.len) != NULL;
}

/* Replaces a scalar or a flow value. */
static bool replace_value(struct rewriting *in, const struct document *before,
                          const struct document *after)
{
    CLEANUP(strbuf_done) struct strbuf text;
    size_t at;
    size_t end;

    strbuf_init(&text);
    if (!place_of(in, before->at, &at) || !end_of(in, before, &end) ||
        may_have_comment((struct text){in->bytes.at + at, end - at}))
        return false;
    if (end == at)
        strbuf_char(&text, ' '); /* the value was empty: "key:" */
    if (!put_changed_flow(in, before, after, &text))
        return false;
    add_edit(in, at, end - at, kept(in, &text));
    return true;
}

/* Offset and indent of lines with new members. */
struct gap {
    size_t at;
    uint32_t indent;
    bool found;
};

static bool remove_member(struct rewriting *in, const struct document *member, struct gap *gap)
{
    size_t begin;
    size_t end;

    if (!line_begin(in, member, &begin) || !end_of(in, member, &end) || !line_end(in, end, &end))
        return false;
    add_edit(in, begin, end - begin, TEXT(""));
    if (!gap->found)
        *gap = (struct gap){begin, member->key_at.column - 1, true};
    return true;
}

/* Finds the gap behind the last member, else before the first that begins its line. */
static bool find_gap(const struct rewriting *in, const struct document *before, struct gap *gap)
{
    size_t end;

    must(before->first != NULL && !gap->found);
    gap->indent = before->first->key_at.column - 1;
    if (end_of(in, before->last, &end) && line_end(in, end, &gap->at))
        return true;
    document_each (member, before)
        if (line_begin(in, member, &gap->at))
            return true;
    return false;
}

static bool insert_members(struct rewriting *in, const struct document *before,
                           const struct document *after, struct gap *gap)
{
    CLEANUP(strbuf_done) struct strbuf lines;
    const struct document *hint = before->first;

    strbuf_init(&lines);
    document_each (member, after) {
        if (member_of(before, member->key, &hint) != NULL)
            continue;
        if (!gap->found && !find_gap(in, before, gap))
            return false;
        gap->found = true;
        put_block(in, &lines, member, gap->indent);
    }
    if (after->count == 0) {
        put_indent(&lines, gap->indent);
        strbuf_str(&lines, "{}");
        strbuf_str(&lines, in->line_break);
    }
    if (lines.len == 0)
        return true;
    /* The last line of the text may have no break. */
    const char last = gap->at > 0 ? in->bytes.at[gap->at - 1] : '\n';
    if (last != '\n' && gap->at == in->bytes.len)
        add_edit(in, gap->at, 0, text_of(in->line_break));
    add_edit(in, gap->at, 0, kept(in, &lines));
    return true;
}

static bool change(struct rewriting *in, const struct document *before,
                   const struct document *after);

static bool change_block(struct rewriting *in, const struct document *before,
                         const struct document *after)
{
    const struct document *hint = after->first;
    struct gap gap = {0};

    must(before->kind == DOCUMENT_OBJECT);
    document_each (member, before) {
        const struct document *now = member_of(after, member->key, &hint);
        if (now != NULL ? !change(in, member, now) : !remove_member(in, member, &gap))
            return false;
    }
    return insert_members(in, before, after, &gap);
}

static bool change_items(struct rewriting *in, const struct document *before,
                         const struct document *after)
{
    const struct document *now = after->first;

    must(before->kind == DOCUMENT_ARRAY);
    if (after->kind != DOCUMENT_ARRAY || after->count != before->count)
        return false;
    document_each (item, before) {
        if (!change(in, item, now))
            return false;
        now = now->next;
    }
    return true;
}

static bool change(struct rewriting *in, const struct document *before,
                   const struct document *after)
{
    size_t at;

    if (document_equal(before, after))
        return true;
    if (before->kind == DOCUMENT_ARRAY)
        return change_items(in, before, after);
    if (before->kind == DOCUMENT_OBJECT && after->kind == DOCUMENT_OBJECT) {
        if (!place_of(in, before->at, &at) || byte_at(in, at) == '&' || byte_at(in, at) == '!')
            return false;
        if (!is_flow(in, at))
            return change_block(in, before, after);
    }
    return replace_value(in, before, after);
}

static bool is_read_as(const struct strbuf *text, const struct document *after, struct arena *arena)
{
    struct document *again = NULL;
    struct err err;

    must(after->kind == DOCUMENT_ARRAY);
    return document_parse_yaml((struct text){text->data, text->len}, arena, &again, &err) == 0 &&
           document_equal(again, after);
}

bool document_rewrite_yaml(struct text bytes, const struct document *before,
                           const struct document *after, struct arena *arena, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct rewriting in = {.bytes = bytes, .arena = arena};

    must(before->kind == DOCUMENT_ARRAY && after->kind == DOCUMENT_ARRAY);
    strbuf_init(&text);
    if (bytes.len >= UINT32_MAX)
        return false;
    find_lines(&in);
    if (!change(&in, before, after) || !apply(&in, &text) || !is_read_as(&text, after, arena))
        return false;
    strbuf_add(out, text.data, text.len);
    return true;
}
