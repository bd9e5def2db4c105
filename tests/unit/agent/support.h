/* support - comparisons of texts, and a driver. */
#ifndef MILLIGPU_TESTS_AGENT_SUPPORT_H
#define MILLIGPU_TESTS_AGENT_SUPPORT_H

#include "milligpu/base/err.h"
#include "milligpu/nvml/nvml.h"

#include "support/folder.h"

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
