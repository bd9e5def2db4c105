/*
 * nvml_library - the loaded NVML: its functions, and the texts of its errors.
 *
 * NVML's functions, and opening and closing it, can hang as long as the driver does.
 */
#ifndef MILLIGPU_NVML_LIBRARY_H
#define MILLIGPU_NVML_LIBRARY_H

#include "milligpu/base/err.h"

#include "abi.h"

struct nvml_library {
    void *handle;
/* NULL for optional functions that the library lacks. */
#define X(name, required, arguments) int(*name) arguments; /* NOLINT(bugprone-macro-parentheses) */
    NVML_FUNCTIONS(X)
#undef X
};

/* Loads and initializes NVML. The text of err names the failed function and the reason. */
int nvml_library_open(struct nvml_library *out, const char *name, struct err *err) MUST_USE;
void nvml_library_close(struct nvml_library *library); /* one that is not open is fine */

/* Sets err for a call that returned code; function without "nvml". Returns err_set()'s result. */
int nvml_library_fail(struct err *err, const char *function, int code);
const char *nvml_words(int code); /* the text for NVML's code */

/*
 * Copies a possibly unterminated text of NVML to out, truncated to bytes - 1; other characters than
 * printable ASCII become '?'. Fills the rest of out with NUL.
 */
void nvml_text(char *out, size_t bytes, const char *from, size_t from_bytes);

#endif
