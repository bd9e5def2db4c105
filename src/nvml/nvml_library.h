/*
 * nvml_library - NVML, loaded: its functions, and their errors in words.
 *
 * Every function here can hang for as long as the driver does.
 */
#ifndef MILLIGPU_NVML_LIBRARY_H
#define MILLIGPU_NVML_LIBRARY_H

#include "milligpu/base/err.h"

#include "abi.h"

struct nvml_library {
    void *handle;
/* Functions that are not required may be NULL. */
#define X(name, required, arguments) int(*name) arguments; /* NOLINT(bugprone-macro-parentheses) */
    NVML_FUNCTIONS(X)
#undef X
};

/* Loads and initializes it. The text of err says which function failed, and why. */
int nvml_library_open(struct nvml_library *out, const char *name, struct err *err) MUST_USE;
void nvml_library_close(struct nvml_library *library); /* one that is not open is fine */

/* err_set() for a call that returned this; function without "nvml". Returns -code of err. */
int nvml_library_fail(struct err *err, const char *function, int code);
const char *nvml_words(int code); /* NVML's code in words */

/*
 * Copies a text of NVML that may be unterminated, in bytes of at least NVML_TEXT_MAX: what is not
 * printable ASCII becomes '?'.
 */
void nvml_text(char *out, size_t bytes, const char *from, size_t from_bytes);

#endif
