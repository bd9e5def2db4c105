/*
 * host_sums - what the pods of each node leave of its CPU and memory.
 *
 *   Node objects: allocatable --\
 *                                >-- an entry per node --> host_sums_tell_changed(): what is left
 *   bound pods: their requests -/
 *
 * The sums are exact, whatever tenants request: a sum that saturates could not give back. A pod
 * counts from when the watch shows it bound until it has ended or is gone; a reservation on its way
 * does not count yet.
 *
 * Pods are counted only from host_sums_start() to host_sums_stop(), while somebody asks: the
 * default policy does not. There are at most as many entries as nodes with GPUs and bound pods. Not
 * thread-safe: the writer's.
 */
#ifndef MILLIGPU_HOST_SUMS_H
#define MILLIGPU_HOST_SUMS_H

#include "milligpu/base/base.h"
#include "milligpu/core/facts/host.h"

struct host_sums;

struct host_sums *host_sums_new(void) MUST_USE;
void host_sums_free(struct host_sums *sums); /* NULL is fine */

/* From now on pods count, and every node that was shown has changed. */
void host_sums_start(struct host_sums *sums);
/* Forgets the pods. */
void host_sums_stop(struct host_sums *sums);
bool host_sums_started(const struct host_sums *sums);
size_t host_sums_count(const struct host_sums *sums); /* entries */

/* The Node has this much now; each is 0 if it is not known. It has changed, whatever it had. */
void host_sums_show(struct host_sums *sums, const char *node, const struct host *allocatable);
/* There is no such Node, or it has no GPUs. */
void host_sums_hide(struct host_sums *sums, const char *node);

/* A pod is on the node; it leaves with the amounts that it came with. */
void host_sums_come(struct host_sums *sums, const char *node, int64_t cpu_milli,
                    int64_t memory_bytes);
void host_sums_leave(struct host_sums *sums, const char *node, int64_t cpu_milli,
                     int64_t memory_bytes);

/*
 * What is left on each node that may have changed since the last call, once: rounded down, at least
 * nothing, HOST_UNKNOWN if the Node does not show it. changed() must not change the sums.
 */
void host_sums_tell_changed(struct host_sums *sums, void *user,
                            void (*changed)(void *user, const char *node, const struct host *left));

#endif
