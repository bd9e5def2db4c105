/*
 * json - a strict JSON pull reader, and a small writer.
 *
 * The reader makes one pass and allocates only for strings with escapes. It enforces the grammar of
 * RFC 8259, a bounded depth, valid UTF-8 in the strings that it returns, and the end of input after
 * the value. Strings without escapes are borrowed from the input, others are decoded into the
 * arena.
 *
 * The first error sticks: every later call returns false, so a decoder may run to its end and check
 * once. The text of an error begins with the path: "Pod.spec.containers[2].name: ...".
 *
 *     struct text key;
 *     json_read_object(&in);
 *     while (json_read_key(&in, &key))
 *         if (text_is(key, "PodName"))
 *             json_read_string(&in, &name);
 *         else
 *             json_read_skip(&in);
 *     return json_reader_finish(&in);
 *
 * Pure; one thread at a time.
 */
#ifndef MILLIGPU_JSON_H
#define MILLIGPU_JSON_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"

enum json_reader_type {
    JSON_TYPE_END,
    JSON_TYPE_OBJECT,
    JSON_TYPE_ARRAY,
    JSON_TYPE_STRING,
    JSON_TYPE_NUMBER,
    JSON_TYPE_TRUE,
    JSON_TYPE_FALSE,
    JSON_TYPE_NULL,
    JSON_TYPE_BAD
};

struct json_reader_level {
    struct text key; /* key of the current member; in an array key.at is NULL */
    uint32_t index;  /* index of the current element */
    bool array;
    bool first;
};

struct json_reader {
    const char *begin;
    const char *at;
    const char *end;
    struct arena *arena;
    const char *root; /* first word of every path: "Pod", "body" */
    struct err *err;  /* set once, by the first error */
    bool failed;
    bool deep; /* a value was skipped that is nested deeper than level[] */
    uint32_t depth;
    struct json_reader_level level[JSON_DEPTH_MAX];
};

void json_reader_init(struct json_reader *in, struct text bytes, const char *root,
                      struct arena *arena, struct err *err);

/* Checks that no bytes follow the top-level value. Returns 0, or negative with err set. */
int json_reader_finish(struct json_reader *in) MUST_USE;

/*
 * Where the bytes may go on after the top-level value: returns the length of the value, with what
 * stood before it. 0 if the reader has failed, or the value is nested very deeply: then its bytes
 * must be read again by themselves, for json_reader_finish().
 */
size_t json_reader_stop(struct json_reader *in);
/* Passes over a value that begins here and that another reader has read: json_reader_stop(). */
void json_read_past(struct json_reader *in, size_t bytes);

enum json_reader_type json_read_peek(struct json_reader *in);

/*
 * Enter an object or array; then call json_read_key() or json_read_element() until it returns
 * false, which also leaves the level.
 */
bool json_read_object(struct json_reader *in);
bool json_read_key(struct json_reader *in, struct text *out_key);
bool json_read_array(struct json_reader *in);
bool json_read_element(struct json_reader *in);

/* Values. A wrong type is an error that names the path and the expected type. */
bool json_read_string(struct json_reader *in, struct text *out);
/* *out is NUL-terminated; a NUL inside is an error. */
bool json_read_cstring(struct json_reader *in, const char **out);
bool json_read_i64(struct json_reader *in, int64_t *out); /* integers only; also 3e2 and 300.0 */
bool json_read_bool(struct json_reader *in, bool *out);
bool json_read_skip(struct json_reader *in); /* any value; strings are checked for grammar only */
bool json_read_raw(struct json_reader *in, struct text *out); /* skips; *out is the value's bytes */
bool json_read_null(struct json_reader *in); /* consumes a null; false: the next value is none */

/*
 * json_reader_fail(in, fmt, ...): sets the error, with the path before the text. Does nothing if
 * the reader has failed already. `in` is evaluated more than once.
 */
#define json_reader_fail(in, ...) json_reader_fail_as(in, ERR_INVALID, __VA_ARGS__)
#define json_reader_fail_as(in, code, ...)                                                         \
    ((in)->failed ? (void)0                                                                        \
                  : ((void)err_set((in)->err, (code), __VA_ARGS__), json_reader_fail_here(in)))

/* Stops the reader; in->err is set, and gets the path before its text. */
void json_reader_fail_here(struct json_reader *in);

/*
 * A mark before a value that may be invalid without failing its document. If the reader has failed,
 * json_reader_retreat() returns to the mark and skips the value; in->err keeps the reason until the
 * next failure. Returns false if the value is not even JSON: then the document fails.
 */
struct json_reader_mark {
    const char *at;
    uint32_t depth;
};
static inline struct json_reader_mark json_reader_mark(const struct json_reader *in)
{
    return (struct json_reader_mark){in->at, in->depth};
}
bool json_reader_retreat(struct json_reader *in, struct json_reader_mark mark);

/*
 * Reads the listed keys of an object; others are checked and skipped. Keys match exactly first,
 * then case-insensitively, as in Go. A listed key that occurs twice is an error. A null counts as
 * an absent key.
 *
 *     static const char *const keys[] = {"name", "uid"};
 *     struct json_read_fields fields = JSON_FIELDS(keys);
 *     int key;
 *     json_read_object(&in);
 *     while (json_read_field(&in, &fields, &key)) ...      key is 0 or 1, and its value is next
 */
enum { JSON_FIELDS_MAX = 32 };
struct json_read_fields {
    const char *const *key;
    uint32_t n_keys; /* at most JSON_FIELDS_MAX */
    uint32_t seen;   /* bit per present key, null or not */
};
#define JSON_FIELDS(names)                                                                         \
    {                                                                                              \
        .key = (names), .n_keys = (uint32_t)ARRAY_LEN(names)                                       \
    }
bool json_read_field(struct json_reader *in, struct json_read_fields *fields, int *out_key);

/* json_read_element() and json_read_string() in one call, for long lists of names. */
bool json_read_string_element(struct json_reader *in, struct text *out);

/*
 * json_read_string_element() for a string that is expected: false, with nothing read, unless it
 * follows as ,"expected" and is plain: not empty, ASCII, without escapes, blanks and '!'.
 */
bool json_read_expected_element(struct json_reader *in, struct text expected);

/* Like json_read_string(); a string that is empty, longer than max or has a NUL is an error. */
bool json_read_name(struct json_reader *in, size_t max, struct text *out);
/* The check of json_read_name(), for a string that was just read. */
bool json_read_is_name(struct json_reader *in, size_t max, struct text name);

/*
 * The writer adds only commas and quotes. json_write_key() is for objects; its keys are literals.
 * Texts must not point into out, which may move.
 */
struct json_writer {
    struct strbuf *out;
    bool comma;
};

void json_writer_init(struct json_writer *json, struct strbuf *out);
void json_write_object(struct json_writer *json);
void json_write_object_end(struct json_writer *json);
void json_write_array(struct json_writer *json);
void json_write_array_end(struct json_writer *json);
void json_write_key(struct json_writer *json, const char *key);
void json_write_key_text(struct json_writer *json, struct text key);
void json_write_text(struct json_writer *json, struct text text);
void json_write_str(struct json_writer *json, const char *text);
/* json_write_key() and json_write_str() */
void json_write_member(struct json_writer *json, const char *key, const char *text);
void json_write_u64(struct json_writer *json, uint64_t number);
void json_write_i64(struct json_writer *json, int64_t number);
void json_write_bool(struct json_writer *json, bool flag);
void json_write_null(struct json_writer *json);
/* Writes a value that is JSON already. */
void json_write_raw(struct json_writer *json, struct text literal);

#endif
