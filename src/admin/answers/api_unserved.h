/*
 * api_unserved - pods that ask for shares and name a scheduler that has not asked milligpud, while
 * another one has. A call about them never comes: their scheduler binds them without an allocation,
 * or never.
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
    const char *node; /* NULL: not bound */
    /* The scheduler exists, and milligpud was there before the pod was bound. */
    bool is_alarm;
};

struct unserved {
    /* names of the schedulers that asked: "milligpu, default-scheduler"; clipped; empty: none */
    const char *served;
    size_t count;
    size_t alarms;
    struct unserved_pod *pod;
};

/*
 * All such pods that are bound, and those of unbound that have waited for ASKED_LATE_MS; alarms
 * first. Everything is in the call's arena.
 */
void api_unserved(struct api_call *call, const struct snapshot *snapshot,
                  const struct unbound_pods *unbound, struct unserved *out);

/* The sentence about one pod, with what to do, in the call's arena; NULL: it is not such a pod. */
const char *api_unserved_why(struct api_call *call, const struct pod_record *record);

#endif
