/*
 * fields - the fields of a manifest, read as strictly as an API server reads them.
 *
 * An error names the path of the field, and what was expected there. Pure.
 */
#ifndef MILLIGPU_CTL_FIELDS_H
#define MILLIGPU_CTL_FIELDS_H

#include <stdio.h>

#include "milligpu/document/document.h"

/* A path that is longer is cut off: it is for people only. */
enum { FIELD_PATH_BYTES = 256 };
#define FIELD_PATH(out, ...) ((void)snprintf((out), FIELD_PATH_BYTES, __VA_ARGS__))

/* A key is somebody else's text: this is what people may see of it, for a path. */
enum { FIELD_KEY_BYTES = 96 };
const char *field_key(const struct document *value, char out[FIELD_KEY_BYTES]);

/* Has it a key that a C string can hold? Items of arrays have none. */
static inline bool field_is_named(const struct document *value)
{
    return value->key.len > 0 && value->key.at[0] != '\0';
}

/* Absent and null are fine: callers give them a meaning. */
int field_expect(const struct document *value, enum document_kind kind, const char *path,
                 struct err *err) MUST_USE;
/* The string at key, where object is at path; "" if there is none. */
int field_string(const struct document *object, const char *path, const char *key, const char **out,
                 struct err *err) MUST_USE;
/* The value at path, such as spec.tolerations; NULL if there is none. */
int field_member(const struct document *root, const char *path, enum document_kind kind,
                 const struct document **out, struct err *err) MUST_USE;

#endif
