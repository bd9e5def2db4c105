/*
 * schedulers - which schedulers ask here, by spec.schedulerName of the pods that they ask about.
 *
 * A call does not name its caller. A cluster autoscaler asks about the same pods, to simulate: it
 * sends whole Nodes, and only ever calls filter. So a call with whole Nodes about a pod of a
 * scheduler that sends names is a simulation, until that scheduler calls prioritize with whole
 * Nodes (it was configured anew) or has sent no names for SIMULATED_MAX_MS.
 *
 * Bounded: of names that a tenant made up and only an autoscaler asked about, the oldest is
 * replaced first.
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

/* Notes a filter call; name NULL: the default. Returns false if it is a simulation. */
bool schedulers_asked(struct schedulers *schedulers, const char *name, enum ask_form form,
                      int64_t now_ms);
/* Notes a prioritize call, which only schedulers make. */
void schedulers_scored(struct schedulers *schedulers, const char *name, enum ask_form form,
                       int64_t now_ms);

/*
 * Has a scheduler of this name asked since the start? Also true for every name once more of them
 * asked than can be remembered.
 */
bool schedulers_serves(struct schedulers *schedulers, const char *name);
/* Those of which that is known, in the order of their first call; the texts are in arena. */
size_t schedulers_served(struct schedulers *schedulers, struct arena *arena,
                         const char *out[SCHEDULERS_MAX]);

#endif
