/*
 * limit_probe - whether a limit of GPU memory by the driver holds on this node.
 *
 *     scratch cgroup: set, read back, removed --+
 *                                               +--> a word on the Node (reporter.h), the log
 *     containers that start (memory_limit.h) ---+
 *
 * The setter is privileged, and a cgroup may lack the controller, so a driver that has limits says
 * nothing of whether one can be set here. The scratch cgroup lies beside the agent's own, since one
 * below it would have no controllers while a process is in the agent's; else in cgroup_dir. It is
 * tried when the driver was loaded (again), and each minute while it has not worked. The limits of
 * containers count more.
 */
#ifndef MILLIGPU_AGENT_LIMIT_PROBE_H
#define MILLIGPU_AGENT_LIMIT_PROBE_H

#include <stdatomic.h>

#include "milligpu/nvml/nvml.h"

/* For all GPUs of a container, and for a scratch. */
enum { LIMIT_WAIT_MS = 500 };

enum limit_state {
    LIMITS_UNKNOWN,       /* the driver has not answered yet */
    LIMITS_OK,            /* a limit was set and read back */
    LIMITS_ABSENT,        /* this driver has no limits */
    LIMITS_REFUSED,       /* the driver has limits, and the agent may not set them */
    LIMITS_NO_CONTROLLER, /* the cgroup has no controller for them */
    LIMITS_DIFFER,        /* another limit was read than was set */
    LIMITS_UNREAD,        /* one was set, and could not be read */
    LIMITS_FAILED,        /* setting it failed otherwise */
    LIMITS_UNTRIED,       /* no scratch cgroup can be made here, and no container has shown it */
    LIMITS_OFF,           /* --memory-limit=off */
};

/* As the Node has it: "ok", "no_controller". NULL: LIMITS_UNKNOWN, for which there is no word. */
const char *limit_state_word(enum limit_state state);

struct limit_probe {
    struct nvml *nvml;      /* NULL: there is none */
    const char *cgroup_dir; /* borrowed, like the next one */
    const char *proc_dir;
    bool is_off;
    atomic_int by_scratch; /* enum limit_state, like the next one */
    atomic_int by_container;
    /* of limit_probe_look() */
    uint64_t loads; /* of the library, for which the above was found */
    int64_t next_ms;
    enum limit_state reported; /* by the log */
};

/*
 * Tries it if it is due, and logs what has changed. Waits for NVML's watcher half a second at most.
 * One thread, for which the runtime does not wait.
 */
void limit_probe_look(struct limit_probe *probe);

/* The end of a container's limit. Any thread, like the next one. */
void limit_probe_note(struct limit_probe *probe, enum nvml_limit_end end);
enum limit_state limit_probe_state(const struct limit_probe *probe);

/*
 * nvml_limit_memory(), and a failure in a cgroup without a controller is told as such. The text of
 * err ends in what the operator can do, if that is known.
 */
int limit_try(struct nvml *nvml, const struct nvml_limit *limit, int64_t wait_ms,
              enum nvml_limit_end *out, struct err *err) MUST_USE;

#endif
