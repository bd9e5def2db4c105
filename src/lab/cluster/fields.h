/*
 * fields - fields of a manifest, read as strictly as in an API server.
 *
 * An error has the path of the field and the expected kind. Pure.
 */
#ifndef MILLIGPU_LAB_FIELDS_H
#define MILLIGPU_LAB_FIELDS_H

#include <stdio.h>

#include "milligpu/document/document.h"

/* Longer paths are truncated; they are for people only. */
enum { FIELD_PATH_BYTES = 256 };
#define FIELD_PATH(out, ...) ((void)snprintf((out), FIELD_PATH_BYTES, __VA_ARGS__))

/* The key of a value, which is foreign text, made safe to show in a path. */
enum { FIELD_KEY_BYTES = 96 };
const char *field_key(const struct document *value, char out[FIELD_KEY_BYTES]);

/* True if the value has a key without NUL bytes; items of arrays have no key. */
static inline bool field_is_named(const struct document *value)
{
    return value->key.len > 0 && value->key.at[0] != '\0';
}

/* Fails for a value of another kind; absent and null are valid. */
int field_expect(const struct document *value, enum document_kind kind, const char *path,
                 struct err *err) MUST_USE;
/* The string at key of the object at path; "" if absent. */
int field_string(const struct document *object, const char *path, const char *key, const char **out,
                 struct err *err) MUST_USE;
/* The value at path, such as spec.tolerations; NULL if absent. */
int field_member(const struct document *root, const char *path, enum document_kind kind,
                 const struct document **out, struct err *err) MUST_USE;

#endif
