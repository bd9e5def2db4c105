/*
 * jr - a strict JSON reader that is pulled; jw - a small writer.
 *
 * The reader walks the bytes once, allocates nothing but escaped strings, and believes nothing:
 * RFC 8259 grammar, bounded depth, valid UTF-8 in what is read, no bytes after the value.  Strings
 * without escapes are borrowed from the input, others are decoded into the arena.
 *
 * The first error sticks: every later call returns "no", so a decoder may run to its end and ask
 * once.  The text of an error begins with the path: "Pod.spec.containers[2].name: ...".
 *
 *     struct text key;
 *     jr_object(&in);
 *     while (jr_key(&in, &key))
 *         if (text_is(key, "PodName"))
 *             jr_string(&in, &name);
 *         else
 *             jr_skip(&in);
 *     return jr_finish(&in);
 *
 * Pure; one thread at a time.
 */
#ifndef MILLIGPU_JR_H
#define MILLIGPU_JR_H

#include "milligpu/arena.h"
#include "milligpu/err.h"
#include "milligpu/limits.h"
#include "milligpu/strbuf.h"

enum jr_type {
    JR_END,
    JR_OBJECT,
    JR_ARRAY,
    JR_STRING,
    JR_NUMBER,
    JR_TRUE,
    JR_FALSE,
    JR_NULL,
    JR_BAD
};

struct jr_level {
    struct text key; /* of the member that is being read; at NULL in an array */
    uint32_t index;  /* of the element */
    bool array;
    bool first;
};

struct jr {
    const char *begin;
    const char *at;
    const char *end;
    struct arena *arena;
    const char *root; /* first word of every path: "Pod", "body" */
    struct err *err;  /* set once */
    bool failed;
    uint32_t depth;
    struct jr_level level[JSON_DEPTH_MAX];
};

void jr_init(struct jr *in, struct text bytes, const char *root, struct arena *arena,
             struct err *err);

/* After the top value: nothing may follow.  0, or negative with err set. */
int jr_finish(struct jr *in) MUST_USE;
/* As jr_finish, but returns the bytes that were consumed; more may follow: a stream of values. */
int jr_consumed(struct jr *in, size_t *out_bytes) MUST_USE;

enum jr_type jr_peek(struct jr *in);

/* Enter; then call jr_key or jr_element until it is false, which leaves the level again. */
bool jr_object(struct jr *in);
bool jr_key(struct jr *in, struct text *out_key);
bool jr_array(struct jr *in);
bool jr_element(struct jr *in);

/* Values.  A wrong type is an error that names the path and what was expected. */
bool jr_string(struct jr *in, struct text *out);
bool jr_cstring(struct jr *in, const char **out); /* terminated; an inner NUL is an error */
bool jr_i64(struct jr *in, int64_t *out);         /* integers only, also 3e2 and 300.0 */
bool jr_bool(struct jr *in, bool *out);
bool jr_skip(struct jr *in);                  /* any value; of its strings the grammar only */
bool jr_raw(struct jr *in, struct text *out); /* the same, as its bytes */
bool jr_null(struct jr *in);                  /* true and consumed if the next value is null */

/*
 * jr_fail(in, fmt, ...): make the reader fail here; the path comes before the text.  Does nothing
 * if it has failed already.  `in` is evaluated more than once.
 */
#define jr_fail(in, ...) jr_fail_as(in, ERR_INVALID, __VA_ARGS__)
#define jr_fail_as(in, code, ...)                                                                  \
    ((in)->failed ? (void)0 : ((void)err_set((in)->err, (code), __VA_ARGS__), jr_fail_here(in)))

/* in->err is written: put the path before it and stop. */
void jr_fail_here(struct jr *in);

/*
 * A value that may fail by itself, as what it stands in goes on: mark the place before it, and
 * when the reader has failed go back and pass it over.  in->err tells why until the next failure.
 * False: it is no JSON; that is a failure of the whole.
 */
struct jr_mark {
    const char *at;
    uint32_t depth;
};
static inline struct jr_mark jr_mark(const struct jr *in)
{
    return (struct jr_mark){in->at, in->depth};
}
bool jr_retreat(struct jr *in, struct jr_mark mark);

/*
 * The keys of an object that somebody cares for.  All others are checked and skipped; a known
 * key in another case will do if none is exact, as in Go; the same key twice is an error; a null is
 * the same as no key.
 *
 *     static const char *const keys[] = {"name", "uid"};
 *     struct jr_fields fields = JR_FIELDS(keys);
 *     int key;
 *     jr_object(&in);
 *     while (jr_field(&in, &fields, &key)) ...      key is 0 or 1, and its value is next
 */
enum { JR_FIELDS_MAX = 32 };
struct jr_fields {
    const char *const *key;
    uint32_t keys; /* at most JR_FIELDS_MAX */
    uint32_t seen; /* bit per key that has come, null or not */
};
#define JR_FIELDS(names)                                                                           \
    {                                                                                              \
        .key = (names), .keys = (uint32_t)ARRAY_LEN(names)                                         \
    }
bool jr_field(struct jr *in, struct jr_fields *fields, int *out_key);

/* jr_element() and jr_string() in one, for long lists of names. */
bool jr_string_element(struct jr *in, struct text *out);

/* As jr_string, but refused beyond max bytes, with an inner NUL, and when empty. */
bool jr_name(struct jr *in, size_t max, struct text *out);
/* The same question of a string that was just read. */
bool jr_is_name(struct jr *in, size_t max, struct text name);

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
void jw_text(struct jw *jw, struct text text);
void jw_str(struct jw *jw, const char *text);
void jw_u64(struct jw *jw, uint64_t number);
void jw_i64(struct jw *jw, int64_t number);
void jw_bool(struct jw *jw, bool flag);
void jw_null(struct jw *jw);
void jw_raw(struct jw *jw, struct text json); /* a value that is JSON already */

#endif
