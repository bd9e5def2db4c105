/*
 * api_unbound - pods that ask for shares and are not bound, and why no scheduler asked about them.
 */
#ifndef MILLIGPU_ADMIN_API_UNBOUND_H
#define MILLIGPU_ADMIN_API_UNBOUND_H

#include "milligpu/core/facts/pod.h"
#include "milligpu/waiting/hints.h"

#include "admin/api_internal.h"

enum {
    UNBOUND_MAX = 4096,
    ASKED_LATE_MS = 15000, /* kube-scheduler asks about a new pod long before */
};

struct unbound_pod {
    const char *uid;
    const char *namespace;
    const char *name;
    int64_t created_ms;
    struct pod_scheduling scheduling;
};

struct unbound_pods {
    struct arena *arena;
    struct unbound_pod *pod;
    size_t count;
    bool overflow; /* there are more */
};

/* Those that hold no reservation and are not about to be deleted; all is in the call's arena. */
void api_unbound(struct api_call *call, const struct snapshot *snapshot, struct unbound_pods *out);

/* spec.schedulerName, or the default. */
const char *unbound_scheduler(const struct pod_scheduling *scheduling);

/*
 * The schedulers that have asked since the start, in the arena: "milligpu, default-scheduler";
 * clipped; empty if there is none. *count: how many there are.
 */
const char *api_served_names(const struct app *app, struct arena *arena, size_t *count);

/* Returns what keeps schedulers from asking about a pod that none has asked about. */
#define UNASKED_BY_GATE      "gate"
#define UNASKED_BY_SCHEDULER "kube-scheduler"
#define UNASKED_BY_NOBODY    "nobody"

struct unasked {
    const char *by;
    const char *word;
    bool can_serve;    /* a scheduler of this name has asked about some pod */
    bool is_told;      /* the pod has a condition */
    bool is_explained; /* by the condition, or by scheduling gates */
    char text[1024];
};
void api_unasked(const struct app *app, const struct pod_scheduling *scheduling,
                 struct unasked *out);

/* A pod that asked, as REST shows it. */
struct admin_waiting api_waiting_view(const struct waiting *is);

/* Of a pod that is not bound: who should schedule it, and what that wrote on it. */
struct pod_record;
void api_why_put_scheduling(struct json_writer *json, struct api_call *call,
                            const struct pod_record *record);
/*
 * Of a pod that fits nowhere: the older pod of the same owner whose end would make it fit. Nothing
 * if there is none.
 */
void api_why_put_predecessor(struct json_writer *json, struct api_call *call,
                             const struct snapshot *snapshot, const struct pod_record *record,
                             const struct request *request);

#endif
