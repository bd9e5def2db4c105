/*
 * memory_limit - has the driver hold a container to the memory of its shares (drivers from R615).
 *
 * A limit is one of a cgroup, so it is set when the cgroup exists and nothing runs in it yet: when
 * the container starts. It goes with the cgroup. It is read back: one that cannot be read, or is
 * another one, has failed.
 *
 * Main thread; waits for NVML's watcher at most LIMIT_WAIT_MS for each container, since the runtime
 * waits for us.
 */
#ifndef MILLIGPU_AGENT_MEMORY_LIMIT_H
#define MILLIGPU_AGENT_MEMORY_LIMIT_H

#include "milligpu/nvml/nvml.h"

#include "agent/grant/grant.h"

enum limit_mode {
    LIMIT_AUTO,    /* where the driver can; else the container starts and is only metered */
    LIMIT_REQUIRE, /* or it does not start */
    LIMIT_OFF,
};

struct limit_probe;

struct memory_limit {
    enum limit_mode mode;
    struct nvml *nvml;         /* NULL: there is none */
    struct limit_probe *probe; /* hears how each limit ended; NULL: nobody does */
    const char
        *cgroup_dir; /* where cgroups are, as the driver's library sees them in our process */
};

enum limit_outcome {
    LIMIT_NONE, /* nothing to do: the mode, or the driver has no limits */
    LIMIT_SET,  /* each of its GPUs whose MiB are known has one, which was read back */
    LIMIT_FAILED,
};

/*
 * Limits each GPU of a container that was granted GPUs. err is set with LIMIT_FAILED; its text says
 * what the owner of the pod or the operator can do. With LIMIT_REQUIRE the container must not start
 * then, and whatever keeps it from being limited is a failure.
 */
enum limit_outcome memory_limit_set(const struct memory_limit *limit, const struct grant *grant,
                                    const struct nri_container *container, struct err *err);

#endif
