/*
 * containers - the table of this node's containers with GPUs, as reported by the runtime.
 *
 *     main thread:   synchronize, create, start, stop, remove --> the table
 *     other threads: containers_copy() --> a private copy, and whether it is complete
 *
 * A container of our pods has the shares that it was granted. A container of another pod has GPUs
 * from another source, under the names of that source: a UUID, an index ("0"), or the path of a
 * device node ("/dev/nvidia3"). Containers without GPUs are not kept. Each right has a row limit of
 * its own, so that containers of one right, which any tenant can create, take no rows from another.
 * A new container without a row must be refused; a running one is counted.
 *
 * Sources of the GPUs of another pod's container, the strongest first:
 *   1. devices requested by kubelet (a device plugin, a DRA claim): names of CDI devices of class
 *      "gpu". The container's device nodes with NVIDIA's numbers or the path /dev/nvidia<N> count,
 *      too, if a name is neither a UUID nor an index ("all"), if the vendor uses another class (a
 *      claim), or if there are more such nodes than names;
 *   2. the variable NVIDIA_VISIBLE_DEVICES with UUIDs or indexes, set by a device plugin or by the
 *      author of the pod. "all", "void" and "none" are ignored, because images have them.
 * The GPU operator's own pods (management.nvidia.com/...) and privileged containers see all GPUs,
 * and hold only those that are named.
 *
 * The main thread writes; any thread copies. Calls wait for nothing but a copy.
 */
#ifndef MILLIGPU_CONTAINERS_H
#define MILLIGPU_CONTAINERS_H

#include "milligpu/base/arena.h"
#include "milligpu/nri/nri.h"

#include "grant.h"

enum {
    /* Rows of each right. */
    NODE_SHARES_MAX = 1024,
    NODE_KUBELETS_MAX = 768,
    NODE_VARIABLES_MAX = 256,
    NODE_CONTAINERS_MAX = NODE_SHARES_MAX + NODE_KUBELETS_MAX + NODE_VARIABLES_MAX,
    CONTAINER_GPUS_MAX = 64, /* GPUs of one container; more are ignored */
};

enum container_right {
    RIGHT_SHARE,    /* granted by milligpud */
    RIGHT_KUBELET,  /* devices requested by kubelet */
    RIGHT_VARIABLE, /* NVIDIA_VISIBLE_DEVICES only */
    CONTAINER_RIGHTS,
};

struct container_gpu {
    const char *name;   /* UUID with RIGHT_SHARE; else any of the names above */
    uint32_t milli;     /* of the share; 0 without one */
    uint32_t mib;       /* of the share; 0 if unknown */
    uint32_t pod_milli; /* peak of its pod on it while this container ran; 0 without a share */
};

struct container_facts {
    const char *id;      /* the runtime's id, part of its cgroup's path */
    const char *sandbox; /* the runtime's id of the sandbox */
    const char *uid;
    const char *namespace;
    const char *pod;
    const char *name;
    const char *cgroup; /* cgroups_path of the runtime, in either of runc's two forms */
    enum container_right right;
    bool is_running;    /* reported as started, and not as stopped */
    bool has_ended;     /* reported as stopped: neither running nor about to start */
    bool has_successor; /* a later container of the same pod and name exists */
    bool is_mps;        /* client of our MPS daemon of its GPU */
    uint32_t user;      /* uid of its first process; with is_mps */
    uint32_t n_gpus;
    const struct container_gpu *gpu;
    /*
     * GPUs given whole by kubelet: with RIGHT_KUBELET the same as gpu, with RIGHT_SHARE in addition
     * to the shares. After synchronize they can include the GPUs of its shares.
     */
    uint32_t n_whole;
    const struct container_gpu *whole;
};

struct containers;

struct containers *containers_new(void) MUST_USE;
void containers_free(struct containers *containers); /* NULL is fine */

/*
 * Begins a complete list with an empty table. Until containers_complete(), copies are of the
 * previous table, so that no reader sees a partial list.
 */
void containers_begin(struct containers *containers);
void containers_complete(struct containers *containers);

/*
 * Adds a container that is created or listed. With GRANT_GPUS its GPUs are those of the grant, else
 * they are read from the container. Replaces the container with the same id, and one of the same
 * name and pod that does not run: creation is retried, and the runtime may not report that the
 * first attempt failed.
 */
enum containers_added {
    CONTAINERS_NO_GPUS, /* not added: it has no GPUs */
    CONTAINERS_KEPT,
    CONTAINERS_FULL, /* not added: *out_right has no row left */
};
enum containers_added containers_add(struct containers *containers, const struct nri_pod *pod,
                                     const struct nri_container *container,
                                     const struct grant *grant, enum container_right *out_right);
void containers_started(struct containers *containers, struct text id);
/* Keeps the row: a pod keeps its GPUs between two lives of a container. */
void containers_stopped(struct containers *containers, struct text id);
/* Removes a container that was not created after all. Unknown ids are fine, here and above. */
void containers_gone(struct containers *containers, struct text id);
/* Removes all containers of a sandbox that has ended. */
void containers_pod_gone(struct containers *containers, struct text sandbox);

struct containers_copy {
    bool is_complete; /* false without a connection, or before its first complete list */
    uint64_t number;  /* increases with each change of the table */
    /*
     * Running containers of the last list that got no row, by right. One with shares and whole GPUs
     * counts for both rights.
     */
    uint32_t left_out[CONTAINER_RIGHTS];
    uint32_t count;
    const struct container_facts *container; /* in the order of their addition */
};

/* Allocates *out in arena. Any thread. */
void containers_copy(struct containers *containers, struct arena *arena,
                     struct containers_copy *out);

/*
 * Marks the table as incomplete, after the connection to the runtime is lost, and drops an
 * unfinished list.
 */
void containers_lost(struct containers *containers);

#endif
