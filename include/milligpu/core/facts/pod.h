/*
 * pod - the facts of a Pod that we read, from the API server or from a webhook body.
 *
 * request.h validates the amounts. An object with a readable uid, name and node is a pod, whatever
 * else it contains. Strings are NUL-terminated, never NULL unless noted, and live in the decoder's
 * arena.
 */
#ifndef MILLIGPU_POD_H
#define MILLIGPU_POD_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/core/facts/node_filter.h"

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED, POD_UNKNOWN };

enum container_kind { CONTAINER_APP, CONTAINER_INIT, CONTAINER_SIDECAR };

/* Containers are in order of start: init containers and sidecars first, as in the spec. */
struct pod_container {
    const char *name;
    enum container_kind kind;
    /* of our resource, as written (limits, else requests); NULL: unset; "": unreadable container */
    const char *amount;
    const char *count; /* annotation gpu-count.milligpu.io/<name>; NULL: not set */
};

/* One line of the annotation milligpu.io/allocation. */
struct pod_share {
    const char *container;
    const char *gpu;
    uint32_t index;
    uint32_t milli;
    uint32_t mib;
    uint32_t asked; /* requested milli if it differs from milli, else 0 */
};

static inline uint32_t pod_share_asked(const struct pod_share *line)
{
    return line->asked > 0 ? line->asked : line->milli;
}

enum pod_annotation { NOTE_NONE, NOTE_OK, NOTE_BROKEN };

/* Does our signature cover the uid, the node and the bytes of the allocation (signing.h)? */
enum pod_proof { PROOF_UNKNOWN, PROOF_SIGNED, PROOF_UNSIGNED };

/*
 * Why a pod is not scheduled yet, as written by its author and its scheduler. For display only;
 * texts are clipped (text_clip). NULL: absent.
 */
enum {
    SCHEDULER_NAME_MAX = 254,
    GATES_TEXT_MAX = 256,
    CONDITION_REASON_MAX = 64,
    CONDITION_TEXT_MAX = 512
};
struct pod_scheduling {
    const char *scheduler; /* spec.schedulerName */
    const char *gates;     /* names in spec.schedulingGates: "a, b" */
    /* condition PodScheduled, unless its status is True */
    const char *reason;
    const char *message;
    int64_t since_ms; /* its lastTransitionTime, UTC; 0: unknown */
};

/* Returns a deep copy in arena. */
struct pod_scheduling pod_scheduling_keep(const struct pod_scheduling *from, struct arena *arena);

/* The controller that created the pod. For display only. NULL: absent. */
enum { OWNER_TEXT_MAX = 254 };
struct pod_owner {
    /* the Deployment or Rollout, if the ReplicaSet's name ends in the pod's template hash */
    const char *kind;
    const char *name;
    const char *uid;      /* NULL: unknown, for a Deployment or Rollout */
    const char *revision; /* template hash of the pod, or controller revision */
    bool argo;            /* revision is the hash of an Argo Rollout */
};

/* Have both the same controller? They must be in one namespace. */
bool pod_owner_same(const struct pod_owner *a, const struct pod_owner *b);
/* Have both the same controller, but different revisions? */
bool pod_owner_replaces(const struct pod_owner *a, const struct pod_owner *b);

/* Is the signature of the pod's allocation valid (pod_cache_check_signature())? */
enum signature_verdict {
    SIGNATURE_UNCHECKED,
    SIGNATURE_UNKNOWN, /* no signature, no public key to verify it, or no need to */
    SIGNATURE_BAD,
    SIGNATURE_GOOD,
};
enum { SIGNATURE_DIGEST_BYTES = 32 };

struct pod {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *resource_version;
    const char *node; /* spec.nodeName; "" while unbound */
    enum pod_phase phase;
    int32_t priority;
    int64_t created_ms;     /* UTC; 0: unknown */
    int64_t scheduled_ms;   /* since when PodScheduled=True, UTC; 0: it is not */
    int64_t terminating_ms; /* deletionTimestamp, UTC; 0: none */
    int64_t cpu_milli;      /* effective request, as counted by kube-scheduler */
    int64_t memory_bytes;   /* effective request, as counted by kube-scheduler */
    bool is_agent;          /* in the agents' namespace, with their label (struct agent_selector) */
    bool is_ready;          /* condition Ready */
    bool ours;              /* a container names our resource, also with 0, or is unreadable */
    /*
     * The unreadable part of the request; NULL: none. If set, the pod may request more than these
     * fields say.
     */
    const char *unreadable;
    struct node_demands demands; /* input of kube-scheduler's node filters */
    uint32_t whole_gpus;         /* effective request of the whole-GPU resource (nvidia.com/gpu) */

    uint32_t n_containers;
    struct pod_container *container;

    const char *count;    /* annotation milligpu.io/gpu-count; NULL: not set */
    const char *model;    /* annotation milligpu.io/gpu-model */
    const char *memory;   /* annotation milligpu.io/gpu-memory */
    const char *topology; /* annotation milligpu.io/topology */

    /* the first misspelled annotation keys (annotation_is_odd), for advice only */
    uint32_t n_odd_keys;
    const char *odd_key[ODD_KEYS_MAX];

    struct pod_scheduling scheduling;
    struct pod_owner owner;

    uint64_t signed_by;    /* id of the signing key (key_number()); 0: none */
    const char *signature; /* annotation milligpu.io/signature; "": it names no key */
    enum signature_verdict signature_verdict;
    unsigned char signature_digest[SIGNATURE_DIGEST_BYTES]; /* only set with GOOD and BAD */
    enum pod_proof proof;           /* set by the writer; the decoder verifies nothing */
    enum pod_annotation annotation; /* annotation milligpu.io/allocation */
    const char *note_text;
    const char *note_error; /* with NOTE_BROKEN: the reason */
    uint32_t n_shares;
    struct pod_share *share;
};

/* Returns a deep copy in arena. */
struct pod *pod_keep(const struct pod *pod, struct arena *arena) MUST_USE;

/* Does an earlier line of the allocation name the same container and the same GPU? */
bool pod_share_repeats(const struct pod *pod, uint32_t line);

static inline bool pod_ended(const struct pod *pod)
{
    return pod->phase == POD_SUCCEEDED || pod->phase == POD_FAILED;
}

#endif
