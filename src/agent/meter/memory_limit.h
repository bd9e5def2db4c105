/*
 * memory_limit - limits the GPU memory of a container to its shares, by the driver (from R615).
 *
 * A limit belongs to a cgroup. It is set in StartContainer, when the cgroup exists and is still
 * empty, and ends with the cgroup. It is read back: a limit that cannot be read back, or has
 * another value, counts as failed.
 *
 * Main thread; waits for NVML's watcher, at most LIMIT_WAIT_MS per container, because the runtime
 * waits for the agent.
 */
#ifndef MILLIGPU_AGENT_MEMORY_LIMIT_H
#define MILLIGPU_AGENT_MEMORY_LIMIT_H

#include "milligpu/nvml/nvml.h"

#include "agent/grant/grant.h"

enum limit_mode {
    LIMIT_AUTO,    /* if the driver can; else the container starts and is only metered */
    LIMIT_REQUIRE, /* without a limit the container does not start */
    LIMIT_OFF,
};

struct limit_probe;

struct memory_limit {
    enum limit_mode mode;
    struct nvml *nvml;         /* borrowed; NULL if there is none */
    struct limit_probe *probe; /* gets the outcome of each limit; borrowed; NULL if unused */
    const char *cgroup_dir;    /* mount point of the cgroups in the agent's container; borrowed */
};

enum limit_outcome {
    LIMIT_NONE, /* nothing to do: by the mode, or because the driver has no limits */
    LIMIT_SET,  /* set and read back on each of its GPUs whose share has known MiB */
    LIMIT_FAILED,
};

/*
 * Limits each GPU of a container with GRANT_GPUS. LIMIT_FAILED sets err, with the remedy for the
 * owner of the pod or the operator. With LIMIT_REQUIRE anything that prevents a limit is a failure,
 * and the container must not start.
 */
enum limit_outcome memory_limit_set(const struct memory_limit *limit, const struct grant *grant,
                                    const struct nri_container *container, struct err *err);

#endif
