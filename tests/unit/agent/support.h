/* support - folders that a test makes for itself, and a driver. */
#ifndef MILLIGPU_TESTS_AGENT_SUPPORT_H
#define MILLIGPU_TESTS_AGENT_SUPPORT_H

#include <stddef.h>

#include "milligpu/nvml/nvml.h"

/* A new folder in /tmp; bytes: at least 32. */
void folder_make(char *out, size_t bytes);
/* With all that is in it. */
void folder_remove(const char *folder);

/* An NVIDIA driver (tests/fake_nvml) with these lines, in a file of the folder; and its watcher. */
struct nvml *driver_open(const char *folder, const char *lines);
/* What it says from now on. */
void driver_says(const char *folder, const char *lines);

#endif
