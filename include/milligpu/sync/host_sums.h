/*
 * host_sums - the CPU and memory that the pods of each node leave free.
 *
 *   Node objects: allocatable --\
 *                                >-- an entry per node --> host_sums_report_changed(): the rest
 *   bound pods: their requests -/
 *
 * The sums are exact for any requests: a saturated sum could not be reduced again. A pod counts
 * from the moment the watch shows it bound until it has ended or is gone; a reservation whose
 * Binding is in flight does not count yet.
 *
 * Pods are counted only between host_sums_start() and host_sums_stop(), under a policy that uses
 * the sums (the default one does not). There are at most as many entries as nodes with GPUs and
 * bound pods. Not thread-safe: belongs to the writer.
 */
#ifndef MILLIGPU_HOST_SUMS_H
#define MILLIGPU_HOST_SUMS_H

#include "milligpu/base/base.h"
#include "milligpu/core/facts/host.h"

struct host_sums;

struct host_sums *host_sums_new(void) MUST_USE;
void host_sums_free(struct host_sums *sums); /* NULL is fine */

/* Begins to count pods and marks every shown node as changed. */
void host_sums_start(struct host_sums *sums);
/* Drops the sums of the pods. */
void host_sums_stop(struct host_sums *sums);
bool host_sums_started(const struct host_sums *sums);
size_t host_sums_count(const struct host_sums *sums); /* entries */
/* Finishes the growth of the table (map_settle()), by this many slots. */
void host_sums_settle(struct host_sums *sums, size_t slots);

/* Sets the node's allocatable amounts (0: unknown), and marks it as changed even if equal. */
void host_sums_show(struct host_sums *sums, const char *node, const struct host *allocatable);
/* Drops a Node that is gone or has no GPUs. */
void host_sums_hide(struct host_sums *sums, const char *node);

/* Adds a pod to its node; host_sums_leave() must get the same amounts. */
void host_sums_come(struct host_sums *sums, const char *node, int64_t cpu_milli,
                    int64_t memory_bytes);
void host_sums_leave(struct host_sums *sums, const char *node, int64_t cpu_milli,
                     int64_t memory_bytes);

/*
 * Calls changed() once for each node that may have changed since the last call. left: rounded down,
 * not below 0, HOST_UNKNOWN if the Node does not show it. changed() must not change the sums.
 */
void host_sums_report_changed(struct host_sums *sums, void *user,
                              void (*changed)(void *user, const char *node,
                                              const struct host *left));

#endif
