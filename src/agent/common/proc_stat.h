/*
 * proc_stat - the parent of a process, and when it began, from /proc/PID/stat.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_PROC_STAT_H
#define MILLIGPU_AGENT_PROC_STAT_H

#include "milligpu/base/text.h"

/*
 * Reads /proc/PID/stat: the parent, and when the process began, in ticks since the boot, which
 * tells it from a later one of the same PID. False: it is no such text.
 */
struct proc_stat {
    uint32_t parent;
    uint64_t began;
};
bool proc_stat_read(struct text stat, struct proc_stat *out);

#endif
