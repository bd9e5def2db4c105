/*
 * api_unserved - pods that request shares and whose scheduler never asked milligpud.
 *
 * Only once another scheduler has asked. Their scheduler binds them without an allocation, or
 * never.
 */
#ifndef MILLIGPU_ADMIN_API_UNSERVED_H
#define MILLIGPU_ADMIN_API_UNSERVED_H

#include "milligpu/sync/pod_cache.h"

#include "admin/api_internal.h"
#include "api_unbound.h"

struct unserved_pod {
    const char *namespace;
    const char *name;
    const char *scheduler;
    const char *node; /* NULL if unbound */
    /* doctor warns: the scheduler evidently exists, or the pod was bound recently */
    bool is_alarm;
};

struct unserved {
    /* schedulers that asked: "milligpu, default-scheduler"; clipped, empty if none */
    const char *served;
    size_t count;
    size_t alarms; /* at the beginning of pod */
    struct unserved_pod *pod;
};

/*
 * Collects all such bound pods, and those of `unbound` older than ASKED_LATE_MS; alarms first. All
 * in the call's arena.
 */
void api_unserved(struct api_call *call, const struct snapshot *snapshot,
                  const struct unbound_pods *unbound, struct unserved *out);

/* Cause and remedy for one pod as a sentence, in the call's arena; NULL if it is not such a pod. */
const char *api_unserved_why(struct api_call *call, const struct pod_record *record);

#endif
