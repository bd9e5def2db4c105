/*
 * limit_probe - whether the driver's GPU memory limits work on this node.
 *
 *     scratch cgroup: set, read back, removed --+
 *                                               +--> a word on the Node (reporter.h), the log
 *     containers that start (memory_limit.h) ---+
 *
 * A driver with limits is not sufficient: setting one is privileged, and the cgroup can lack the
 * controller. The scratch cgroup is a sibling of the agent's own, because a child would have no
 * controllers while the agent's has a process; otherwise it is in cgroup_dir. It is tried each time
 * the library is loaded, and every minute until it works. The results of containers take
 * precedence.
 */
#ifndef MILLIGPU_AGENT_LIMIT_PROBE_H
#define MILLIGPU_AGENT_LIMIT_PROBE_H

#include <stdatomic.h>

#include "milligpu/nvml/nvml.h"

/* Timeout for all GPUs of a container, and for a scratch cgroup. */
enum { LIMIT_WAIT_MS = 500 };

enum limit_state {
    LIMITS_UNKNOWN,       /* no answer of the driver yet */
    LIMITS_OK,            /* a limit was set and read back */
    LIMITS_ABSENT,        /* this driver has no limits */
    LIMITS_REFUSED,       /* the agent lacks the permission */
    LIMITS_NO_CONTROLLER, /* the cgroup has no controller for them */
    LIMITS_DIFFER,        /* another value was read than was set */
    LIMITS_UNREAD,        /* a limit was set, but could not be read back */
    LIMITS_FAILED,        /* setting it failed otherwise */
    LIMITS_UNTRIED,       /* no scratch cgroup can be created, and no container was limited yet */
    LIMITS_OFF,           /* --memory-limit=off */
};

/* The word on the Node: "ok", "no_controller"; NULL for LIMITS_UNKNOWN. */
const char *limit_state_word(enum limit_state state);

struct limit_probe {
    struct nvml *nvml; /* borrowed; NULL if there is none */
    /* Borrowed. */
    const char *cgroup_dir;
    const char *proc_dir;

    bool is_off;
    /* Results, enum limit_state. */
    atomic_int by_scratch;
    atomic_int by_container;

    /* Used by limit_probe_look() only. */
    uint64_t loads;            /* gpu_reading.loads of the results */
    int64_t next_ms;           /* monotonic; time of the next attempt */
    enum limit_state reported; /* last state in the log */
};

/*
 * Tries a scratch cgroup if it is due, and logs a change. Waits for NVML's watcher, at most
 * LIMIT_WAIT_MS. One thread, not the one that serves the runtime.
 */
void limit_probe_look(struct limit_probe *probe);

/* Records the outcome of a container's limit. Any thread. */
void limit_probe_note(struct limit_probe *probe, enum nvml_limit_end end);
/* The result of containers, else of the scratch cgroup. Any thread. */
enum limit_state limit_probe_state(const struct limit_probe *probe);

/*
 * Calls nvml_limit_memory(), and detects a failure because the cgroup has no controller. The text
 * of err ends with the operator's remedy, if one is known.
 */
int limit_try(struct nvml *nvml, const struct nvml_limit *limit, int64_t wait_ms,
              enum nvml_limit_end *out, struct err *err) MUST_USE;

#endif
