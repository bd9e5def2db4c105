/*
 * support - a node whose NVIDIA driver is tests/fake_nvml, and the watcher on it.
 */
#ifndef MILLIGPU_TESTS_UNIT_NVML_SUPPORT_H
#define MILLIGPU_TESTS_UNIT_NVML_SUPPORT_H

#include "milligpu/nvml/nvml.h"

/* Sets FAKE_NVML to a file in a folder of this process; before the first thread. */
void fake_start(void);
void fake_stop(void);
/* Replaces the driver's lines. NULL: there is no driver. */
void fake_say(const char *lines);
const char *fake_file(void);
/* Whole path of a variant: "libnvidia-ml.so.1". */
const char *fake_library(const char *name);

/* Short times, for tests. */
struct nvml *watch(void);
struct nvml *watch_by(const char *library, int64_t silent_ms, int64_t quiet_ms);

typedef bool condition(const struct gpu_reading *reading);
/* The first reading that is so; fails the test after 20 s. */
const struct gpu_reading *await_reading(struct nvml *nvml, condition *is_so);
const struct gpu_state *gpu_of(const struct gpu_reading *reading, const char *uuid); /* or NULL */
bool is_ready(const struct gpu_reading *reading);

#endif
