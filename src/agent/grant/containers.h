/*
 * containers - the containers of this node that have GPUs, as the runtime tells of them.
 *
 *     main thread:   what runs (synchronize), created, started, stopped, removed --> the table
 *     other threads: containers_copy() --> a copy of their own, with how far it is believed
 *
 * A container of ours has the shares that it was granted; one of another pod has the GPUs that
 * somebody else gave it, by the names under which they were given: a UUID, an index ("0"), or the
 * path of a device node ("/dev/nvidia3"). Containers without GPUs are not kept. Each right has rows
 * of its own in the table, so that containers of one, as every tenant can create them, take none
 * from another. One for which there is no row is to be refused; one that runs already is counted.
 *
 * What gives a container of another pod its GPUs, the strongest first:
 *   1. devices for which kubelet asked (a device plugin, a DRA claim): names of CDI devices of
 *      class "gpu", and where such a name is neither a UUID nor an index ("all"), or the vendor
 *      hands out GPUs by another class (a claim), or there are more nodes of GPUs than names, the
 *      nodes that the container has: what has NVIDIA's numbers, or the path /dev/nvidia<N>;
 *   2. the variable NVIDIA_VISIBLE_DEVICES, with UUIDs or indexes: a device plugin may have set it,
 *      and so may the author of the pod. "all", "void" and "none" say nothing: images carry them.
 * The operator's own pods (management.nvidia.com/...) see all GPUs and hold none, and so do
 * privileged containers, except for what is named.
 *
 * The main thread writes; any thread copies. No call waits for anything but a copy.
 */
#ifndef MILLIGPU_CONTAINERS_H
#define MILLIGPU_CONTAINERS_H

#include "milligpu/base/arena.h"
#include "milligpu/nri/nri.h"

#include "grant.h"

enum {
    NODE_SHARES_MAX = 1024,   /* containers with shares */
    NODE_KUBELETS_MAX = 768,  /* with devices for which kubelet asked */
    NODE_VARIABLES_MAX = 256, /* with GPUs by a variable only */
    NODE_CONTAINERS_MAX = NODE_SHARES_MAX + NODE_KUBELETS_MAX + NODE_VARIABLES_MAX,
    CONTAINER_GPUS_MAX = 64, /* of one container; beyond, they are not looked at */
};

enum container_right {
    RIGHT_SHARE,    /* ours: granted by milligpud */
    RIGHT_KUBELET,  /* kubelet asked for the devices */
    RIGHT_VARIABLE, /* a variable only */
    CONTAINER_RIGHTS,
};

struct container_gpu {
    const char *name;   /* of a container of ours: its UUID */
    uint32_t milli;     /* of the share; 0 for containers of others */
    uint32_t mib;       /* of the share; 0: not known */
    uint32_t pod_milli; /* the most that its pod had of it while this container ran; 0: not ours */
};

struct container_facts {
    const char *id;      /* the runtime's: a part of the path of its cgroup */
    const char *sandbox; /* the runtime's id of it */
    const char *uid;
    const char *namespace;
    const char *pod;
    const char *name;
    const char *cgroup; /* cgroups_path, as the runtime gives it: either of runc's two forms */
    enum container_right right;
    bool is_running; /* started, as far as the runtime told, and not stopped */
    bool has_ended;  /* stopped, as far as the runtime told: neither running nor about to start */
    bool has_successor; /* the same container of its pod was made again since */
    bool is_mps;        /* a client of the MPS of its GPU, which is one of ours */
    uint32_t user;      /* with is_mps: of its first process */
    uint32_t gpus;
    const struct container_gpu *gpu;
    /*
     * Those that kubelet gave it whole: with RIGHT_KUBELET the same, with RIGHT_SHARE what it got
     * beside its shares. In a list of what runs, GPUs of its shares may be among the latter.
     */
    uint32_t n_whole;
    const struct container_gpu *whole;
};

struct containers;

struct containers *containers_new(void) MUST_USE;
void containers_free(struct containers *containers); /* NULL is fine */

/*
 * A list of everything that runs begins: the table is empty. Until containers_complete() a copy is
 * the one from before, so that nobody takes a half list for the whole.
 */
void containers_begin(struct containers *containers);
void containers_complete(struct containers *containers);

/*
 * The container was made (or is in the list). grant: what it was judged; of ours if GRANT_GPUS.
 * Otherwise what others gave it is read from the container. A known id is replaced, and so is a
 * container of the same name in the same pod that does not run: it is tried again, and the runtime
 * may never tell that the first was not made after all.
 */
enum containers_added {
    CONTAINERS_NO_GPUS, /* and it is not in the table */
    CONTAINERS_KEPT,
    CONTAINERS_FULL, /* *out_right has no row left: it is not in the table, either */
};
enum containers_added containers_add(struct containers *containers, const struct nri_pod *pod,
                                     const struct nri_container *container,
                                     const struct grant *grant, enum container_right *out_right);
void containers_started(struct containers *containers, struct text id);
/* It stays in the table, not running: between two lives of a container its pod keeps its GPUs. */
void containers_stopped(struct containers *containers, struct text id);
/* Not made after all; an id that is not known is fine, here and above. */
void containers_gone(struct containers *containers, struct text id);
/* The sandbox of a pod has ended, and with it everything that its containers had. */
void containers_pod_gone(struct containers *containers, struct text sandbox);

struct containers_copy {
    /* false: no complete list was seen on this connection yet, or there is no connection */
    bool is_complete;
    uint64_t number; /* another one whenever the table has changed */
    /*
     * Of the last list, by their right: they run, and there was no row for them. One with shares
     * that has GPUs whole, too, counts for both.
     */
    uint32_t left_out[CONTAINER_RIGHTS];
    uint32_t count;
    const struct container_facts *container; /* in the order in which they came */
};

/* *out lives in arena. Any thread. */
void containers_copy(struct containers *containers, struct arena *arena,
                     struct containers_copy *out);

/*
 * The connection to the runtime is lost: the copy from before stays, and is not complete. A list
 * that had begun is forgotten.
 */
void containers_lost(struct containers *containers);

#endif
