/*
 * schedulers - the schedulers that call this extender, by spec.schedulerName of their pods.
 *
 * A call does not identify its caller. A cluster autoscaler simulates: it asks about the same pods,
 * sends whole Nodes, and only calls filter. So a call with whole Nodes about a pod of a scheduler
 * that sends names is a simulation, until that scheduler calls prioritize with whole Nodes (it was
 * reconfigured) or has sent no names for SIMULATED_MAX_MS.
 *
 * Bounded: names for which only an autoscaler asked (a tenant can invent them) are replaced first,
 * the oldest before others.
 *
 * One lock, held for look-ups. Any thread.
 */
#ifndef MILLIGPU_SCHEDULERS_H
#define MILLIGPU_SCHEDULERS_H

#include "milligpu/base/arena.h"

enum {
    SCHEDULERS_MAX = 64,
    SIMULATED_MAX_MS = 600000, /* kube-scheduler retries every pod within 330 s */
};

enum ask_form { ASK_NAMES, ASK_NODES };

#define SCHEDULER_DEFAULT "default-scheduler"

struct schedulers;

struct schedulers *schedulers_new(void) MUST_USE;
void schedulers_free(struct schedulers *schedulers);

/* Notes a filter call; name NULL: SCHEDULER_DEFAULT. Returns false for a simulation. */
bool schedulers_asked(struct schedulers *schedulers, const char *name, enum ask_form form,
                      int64_t now_ms);
/* Notes a prioritize call, which only schedulers make. */
void schedulers_scored(struct schedulers *schedulers, const char *name, enum ask_form form,
                       int64_t now_ms);

/*
 * Has a scheduler of this name called since the start? True for every name after the table
 * overflowed.
 */
bool schedulers_serves(struct schedulers *schedulers, const char *name);
/* Names of the known schedulers, in the order of their first call; texts are in arena. */
size_t schedulers_served(struct schedulers *schedulers, struct arena *arena,
                         const char *out[SCHEDULERS_MAX]);

#endif
