/*
 * proc_stat - the parent and the start time of a process, from /proc/PID/stat.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_PROC_STAT_H
#define MILLIGPU_AGENT_PROC_STAT_H

#include "milligpu/base/text.h"

/*
 * Parses the content of /proc/PID/stat; false if it is malformed. PID and start time together
 * identify a process, since PIDs are reused.
 */
struct proc_stat {
    uint32_t parent;
    uint64_t began; /* start time, in ticks since boot */
};
bool proc_stat_read(struct text stat, struct proc_stat *out);

#endif
