/*
 * measure - clocks, percentiles and the one output format: "name value unit", one per line.
 *
 * Single-threaded, unless a function says otherwise.
 */
#ifndef MILLIGPU_BENCH_MEASURE_H
#define MILLIGPU_BENCH_MEASURE_H

#include <sys/types.h>

#include "milligpu/base/base.h"

/* False, after a message, if there is an unknown word. */
struct options {
    bool quick;         /* --quick */
    const char *folder; /* --folder DIR: where files are made; "." by default */
    const char *daemon; /* --daemon FILE: milligpud */
};
bool options_read(int argc, char **argv, struct options *out) MUST_USE;

/* CPU time that this thread has used. */
int64_t cpu_ns(void);
int64_t wall_ns(void);

void say(const char *name, double value, const char *unit);

struct series {
    int64_t *ns;
    size_t count;
    size_t capacity;
};

void series_init(struct series *series);
void series_done(struct series *series);
void series_add(struct series *series, int64_t ns);
/* name.mean, name.p50 and name.p99, in us. At least one value. */
void series_say(struct series *series, const char *name);

/* A field of /proc/PID/status in KiB: "VmRSS", "VmHWM". */
int64_t process_kib(pid_t pid, const char *field);
/* CPU time of all threads of a process, user and system, also of those that have ended. */
int64_t process_cpu_ns(pid_t pid);
/* How often its threads slept and went on so far; none of them may end meanwhile. */
int64_t process_wakeups(pid_t pid);

/* How many writes of 4 KiB, each followed by fdatasync, this folder takes per second. */
double sync_rate(const char *folder, uint32_t writes);

/* A new folder below another, for the ledger; folder_drop() removes it with its files. */
void folder_make(const char *below, char *out, size_t bytes);
void folder_drop(const char *folder);

/* Pseudo-random numbers, the same in every run. */
uint32_t draw(uint64_t *seed, uint32_t below);

#endif
