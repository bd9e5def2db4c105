/*
 * json - a strict pull reader, and a small writer.
 *
 * The reader walks the bytes once, allocates nothing but escaped strings, and believes nothing:
 * RFC 8259 grammar, valid UTF-8, bounded depth, no bytes after the value.  Strings without escapes
 * are borrowed from the input, others are decoded into the arena.
 *
 * The first error sticks: every later call returns "no", so a decoder may run to its end and ask
 * once.  The text of an error begins with the path: "Pod.spec.containers[2].name: ...".
 *
 *     struct text key;
 *     json_object(&in);
 *     while (json_key(&in, &key))
 *         if (text_is(key, "PodName"))
 *             json_string(&in, &name);
 *         else
 *             json_skip(&in);
 *     return json_finish(&in);
 *
 * Pure; one thread at a time.
 */
#ifndef MILLIGPU_JSON_H
#define MILLIGPU_JSON_H

#include "milligpu/arena.h"
#include "milligpu/err.h"
#include "milligpu/limits.h"
#include "milligpu/strbuf.h"

enum json_type {
    JSON_END,
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_BAD
};

struct json_level {
    struct text key; /* of the member that is being read; at NULL in an array */
    uint32_t index;  /* of the element */
    bool array;
    bool first;
};

struct json {
    const char *begin;
    const char *at;
    const char *end;
    struct arena *arena;
    const char *root; /* first word of every path: "Pod", "body" */
    struct err *err;  /* set once */
    bool failed;
    uint32_t depth;
    struct json_level level[JSON_DEPTH_MAX];
};

void json_init(struct json *in, struct text bytes, const char *root, struct arena *arena,
               struct err *err);

/* After the top value: nothing may follow.  0, or negative with err set. */
int json_finish(struct json *in) MUST_USE;
/* As json_finish, but returns the bytes that were consumed; more may follow: a stream of values. */
int json_consumed(struct json *in, size_t *out_bytes) MUST_USE;

enum json_type json_peek(struct json *in);

/* Enter; then call json_key or json_element until it is false, which leaves the level again. */
bool json_object(struct json *in);
bool json_key(struct json *in, struct text *out_key);
bool json_array(struct json *in);
bool json_element(struct json *in);

/* Values.  A wrong type is an error that names the path and what was expected. */
bool json_string(struct json *in, struct text *out);
bool json_cstring(struct json *in, const char **out); /* terminated; an inner NUL is an error */
bool json_i64(struct json *in, int64_t *out);         /* integers only, also 3e2 and 300.0 */
bool json_bool(struct json *in, bool *out);
bool json_skip(struct json *in);                  /* any value, fully checked */
bool json_raw(struct json *in, struct text *out); /* any value, checked, as its bytes */
bool json_null(struct json *in);                  /* true and consumed if the next value is null */

/*
 * json_fail(in, fmt, ...): make the reader fail here; the path comes before the text.  Does nothing
 * if it has failed already.  `in` is evaluated more than once.
 */
#define json_fail(in, ...) json_fail_as(in, ERR_INVALID, __VA_ARGS__)
#define json_fail_as(in, code, ...)                                                                \
    do {                                                                                           \
        if (!(in)->failed) {                                                                       \
            (void)err_set((in)->err, (code), __VA_ARGS__);                                         \
            json_fail_here(in);                                                                    \
        }                                                                                          \
    } while (0)

/* in->err is written: put the path before it and stop. */
void json_fail_here(struct json *in);

/*
 * The keys of an object that somebody cares for.  All others are checked and skipped; a known
 * key in another case will do if none is exact, as in Go; the same key twice is an error; a null is
 * the same as no key.
 *
 *     static const char *const keys[] = {"name", "uid"};
 *     struct json_fields fields = JSON_FIELDS(keys);
 *     int key;
 *     json_object(&in);
 *     while (json_field(&in, &fields, &key)) ...      key is 0 or 1, and its value is next
 */
enum { JSON_FIELDS_MAX = 32 };
struct json_fields {
    const char *const *key;
    uint32_t keys; /* at most JSON_FIELDS_MAX */
    uint32_t seen; /* bit per key that has come, null or not */
};
#define JSON_FIELDS(names)                                                                         \
    {                                                                                              \
        .key = (names), .keys = (uint32_t)ARRAY_LEN(names)                                         \
    }
bool json_field(struct json *in, struct json_fields *fields, int *out_key);

/* json_element() and json_string() in one, for long lists of names. */
bool json_string_element(struct json *in, struct text *out);

/* As json_string, but refused beyond max bytes, with an inner NUL, and when empty. */
bool json_name(struct json *in, size_t max, struct text *out);
/* The same question of a string that was just read. */
bool json_is_name(struct json *in, size_t max, struct text name);

/*
 * The writer: commas and quotes, nothing else.  jw_key() inside objects only; keys are literals.
 */
struct jw {
    struct strbuf *out;
    bool comma;
};

void jw_init(struct jw *jw, struct strbuf *out);
void jw_object(struct jw *jw);
void jw_object_end(struct jw *jw);
void jw_array(struct jw *jw);
void jw_array_end(struct jw *jw);
void jw_key(struct jw *jw, const char *key);
void jw_key_text(struct jw *jw, struct text key);
void jw_text(struct jw *jw, struct text value);
void jw_str(struct jw *jw, const char *value);
void jw_u64(struct jw *jw, uint64_t value);
void jw_i64(struct jw *jw, int64_t value);
void jw_bool(struct jw *jw, bool value);
void jw_null(struct jw *jw);
void jw_raw(struct jw *jw, struct text json); /* a value that is JSON already */

#endif
