/*
 * pod - what we read of a Pod, from the API server or from a webhook body.
 *
 * Plain facts: request.h decides whether the amounts make sense. An object whose uid, name and node
 * can be read is a pod, whatever else it contains. Strings are terminated, never NULL unless said
 * so, and live in the decoder's arena.
 */
#ifndef MILLIGPU_POD_H
#define MILLIGPU_POD_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/core/facts/node_filter.h"

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED, POD_UNKNOWN };

enum container_kind { CONTAINER_APP, CONTAINER_INIT, CONTAINER_SIDECAR };

/* One container, in the order of its life: init containers and sidecars first, as in the spec. */
struct pod_container {
    const char *name;
    enum container_kind kind;
    const char *amount; /* of our resource, as written (limits, else requests); NULL: not named;
                           "": the container cannot be read */
    const char *count;  /* annotation gpu-count.milligpu.io/<name>; NULL: not set */
};

/* One line of the annotation milligpu.io/allocation. */
struct pod_share {
    const char *container;
    const char *gpu;
    uint32_t index;
    uint32_t milli;
    uint32_t mib;
    uint32_t asked; /* what the pod asked for, where that is not milli; else 0 */
};

static inline uint32_t pod_share_asked(const struct pod_share *line)
{
    return line->asked > 0 ? line->asked : line->milli;
}

enum pod_annotation { NOTE_NONE, NOTE_OK, NOTE_BROKEN };

/* Does a signature of ours cover uid, node and the exact bytes of the allocation (signing.h)? */
enum pod_proof { PROOF_UNKNOWN, PROOF_SIGNED, PROOF_UNSIGNED };

/*
 * Why a pod is not scheduled yet, in the words of its author and of its scheduler. For people only;
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
    int64_t since_ms; /* UTC, its lastTransitionTime; 0: unknown */
};

/* A copy whose texts are in the arena. */
struct pod_scheduling pod_scheduling_keep(const struct pod_scheduling *from, struct arena *arena);

/* The controller that made the pod. For people only. NULL: absent. */
enum { OWNER_TEXT_MAX = 254 };
struct pod_owner {
    /* of a ReplicaSet whose name ends in the pod's template hash: of its Deployment or Rollout */
    const char *kind;
    const char *name;
    const char *uid;      /* NULL: that of a Deployment is not known */
    const char *revision; /* template hash of the pod, or controller revision */
    bool argo;            /* the hash is that of an Argo Rollout */
};

/* Were both made by one controller? Their namespace is the same. */
bool pod_owner_same(const struct pod_owner *a, const struct pod_owner *b);
/* Of one controller, and of different revisions. */
bool pod_owner_replaces(const struct pod_owner *a, const struct pod_owner *b);

/* Does the signature cover what the pod says it was granted? (pod_cache_check_signature()) */
enum signature_verdict {
    SIGNATURE_UNCHECKED,
    SIGNATURE_UNKNOWN, /* nothing to verify, or no public key to verify it with */
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
    int64_t scheduled_ms;   /* PodScheduled=True since; 0: not */
    int64_t terminating_ms; /* deletionTimestamp; 0: not */
    int64_t cpu_milli;      /* what kube-scheduler counts (effective request) */
    int64_t memory_bytes;
    bool is_agent; /* in the agents' namespace, with their label (struct agent_selector) */
    bool is_ready; /* condition Ready */
    bool ours;     /* a container names our resource, possibly with 0, or cannot be read */
    /*
     * The part of the request that cannot be read; NULL: all can be read. The fields here may then
     * be less than what the pod asks for.
     */
    const char *unreadable;
    struct node_demands demands; /* what kube-scheduler's filters read */
    uint32_t whole_gpus;         /* of the whole-GPU resource (nvidia.com/gpu), effective request */

    uint32_t containers;
    struct pod_container *container;

    const char *count;    /* annotation milligpu.io/gpu-count; NULL: not set */
    const char *model;    /* annotation milligpu.io/gpu-model */
    const char *memory;   /* annotation milligpu.io/gpu-memory */
    const char *topology; /* annotation milligpu.io/topology */

    /* the first annotations whose keys are nearly ours (annotation_is_odd), for advice only */
    uint32_t odd_keys;
    const char *odd_key[ODD_KEYS_MAX];

    struct pod_scheduling scheduling;
    struct pod_owner owner;

    uint64_t signed_by;    /* key of annotation milligpu.io/signature (key_number()); 0: none */
    const char *signature; /* that annotation; "": it names no key */
    enum signature_verdict signature_verdict;
    unsigned char signature_digest[SIGNATURE_DIGEST_BYTES]; /* with GOOD and BAD */
    enum pod_proof proof;           /* set by the writer, the decoder verifies nothing */
    enum pod_annotation annotation; /* annotation milligpu.io/allocation */
    const char *note_text;
    const char *note_error; /* with NOTE_BROKEN: the reason */
    uint32_t shares;
    struct pod_share *share;
};

/* A copy with all its strings, which needs only the arena. */
struct pod *pod_keep(const struct pod *pod, struct arena *arena) MUST_USE;

/* Does an earlier line of the allocation name the same container and the same GPU? */
bool pod_share_repeats(const struct pod *pod, uint32_t line);

static inline bool pod_ended(const struct pod *pod)
{
    return pod->phase == POD_SUCCEEDED || pod->phase == POD_FAILED;
}

#endif
