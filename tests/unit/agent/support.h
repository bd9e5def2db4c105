/* support - folders that a test makes for itself, and a driver. */
#ifndef MILLIGPU_TESTS_AGENT_SUPPORT_H
#define MILLIGPU_TESTS_AGENT_SUPPORT_H

#include <stddef.h>

#include "milligpu/base/err.h"
#include "milligpu/nvml/nvml.h"

/* A new folder in /tmp; bytes: at least 32. */
void folder_make(char *out, size_t bytes);
/* With all that is in it. */
void folder_remove(const char *folder);

/* Writes a file of the folder. */
void file_put(const char *folder, const char *name, const char *text);
/* The content of a file of the folder, to be freed; "" if it is absent. */
char *file_text(const char *folder, const char *name);

/* Fails unless text contains words. */
void assert_says(const char *text, const char *words);
/* Fails unless rc is 0 (words NULL), or not 0 with an error that contains words. */
void assert_outcome(int rc, const struct err *err, const char *words);

/* An NVIDIA driver (tests/fake_nvml) with these lines, in a file of the folder; and its watcher. */
struct nvml *driver_open(const char *folder, const char *lines);
/* Replaces these lines. */
void driver_says(const char *folder, const char *lines);
/* Waits for a reading with this status. */
void driver_await(struct nvml *nvml, enum nvml_status status);

#endif
