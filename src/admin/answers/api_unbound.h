/*
 * api_unbound - unbound pods that request shares, and why no scheduler asked about them.
 */
#ifndef MILLIGPU_ADMIN_API_UNBOUND_H
#define MILLIGPU_ADMIN_API_UNBOUND_H

#include "milligpu/core/facts/pod.h"
#include "milligpu/waiting/waiting_pods.h"

#include "admin/api_internal.h"

enum {
    UNBOUND_MAX = 4096,
    ASKED_LATE_MS = 15000, /* age of a pod by which kube-scheduler normally has asked */
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
    bool overflow; /* pods beyond UNBOUND_MAX were left out */
};

/* Collects pods without a reservation that are not being deleted; all in the call's arena. */
void api_unbound(struct api_call *call, const struct snapshot *snapshot, struct unbound_pods *out);

/* spec.schedulerName, or the default scheduler. */
const char *unbound_scheduler(const struct pod_scheduling *scheduling);

/*
 * The schedulers that have asked since the start: "milligpu, default-scheduler"; in the arena,
 * clipped, empty if none. *count: their number.
 */
const char *api_served_names(const struct app *app, struct arena *arena, size_t *count);

/* Values of unasked.by: what keeps schedulers from asking about a pod. */
#define UNASKED_BY_GATE      "gate"
#define UNASKED_BY_SCHEDULER "kube-scheduler"
#define UNASKED_BY_NOBODY    "nobody"

struct unasked {
    const char *by;
    const char *word;   /* reason in one word, as REST shows it */
    bool can_serve;     /* a scheduler of this name has asked about some pod */
    bool has_condition; /* the pod has a condition */
    bool is_explained;  /* the condition or scheduling gates explain it */
    char text[1024];
};
void api_unasked(const struct app *app, const struct pod_scheduling *scheduling,
                 struct unasked *out);

/* A waiting pod that a scheduler asked about, as REST shows it. */
struct admin_waiting api_waiting_view(const struct waiting *pod);

/* For an unbound pod: its scheduler, and the condition that the scheduler wrote. */
struct pod_record;
void api_why_put_scheduling(struct json_writer *json, struct api_call *call,
                            const struct pod_record *record);
/*
 * For a pod that fits nowhere: the older pod of the same owner whose end would make it fit, if
 * there is one.
 */
void api_why_put_predecessor(struct json_writer *json, struct api_call *call,
                             const struct snapshot *snapshot, const struct pod_record *record,
                             const struct request *request);

#endif
