/*
 * grant - decides which GPUs a container gets, and why.
 *
 *     annotations of the sandbox --+
 *     first allocation of the uid -+--> grant: foreign | nothing | GPUs | refused
 *     public keys -----------------+
 *
 * An allocation is accepted if milligpud signed it for this pod uid and this node, or if it equals
 * the one recorded for the uid when its signature was verified; the allocation of a uid never
 * changes. So tenants who edit the annotations of their pods get no other GPU, also after the
 * sandbox is created again, and on a node with a new agent.
 *
 *  G1  A container of our pods gets exactly the GPUs of its shares, or is not created.
 *  G2  A container of our pods without a share gets no GPU.
 *  G3  Containers of other pods are not changed.
 *  G4  Another plugin cannot add a GPU to our pods, and to other pods only if the rules allow it.
 *      A device node is identified by its numbers, not its path. A device rule that lets a
 *      container open a GPU counts as adding it.
 *  G5  The only device names are UUIDs of GPUs that NVML has shown on this node.
 *
 * The owner of the pod reads the texts of refusals in an event, so they say what to do.
 *
 * Pure, except that the callbacks of grant_rules can read files.
 */
#ifndef MILLIGPU_GRANT_H
#define MILLIGPU_GRANT_H

#include "milligpu/base/arena.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/nri/nri.h"

enum grant_verdict {
    GRANT_FOREIGN, /* a pod without an allocation of milligpud */
    GRANT_NOTHING, /* a container without a share, in a pod with an allocation */
    GRANT_GPUS,
    GRANT_REFUSED,
};

/* Why the allocation is accepted. */
enum grant_proof {
    PROOF_NONE,
    PROOF_SIGNATURE,
    PROOF_RECORD, /* recorded when its signature was verified */
};

/* In a client of MPS: mount point of its GPU's pipe folder, and the variable that names it. */
#define MPS_FOLDER "/run/milligpu/mps"
#define MPS_PIPES  "CUDA_MPS_PIPE_DIRECTORY"

/* Folders of the host that an MPS client gets; borrowed for the call. */
struct mps_place {
    const char *pipe; /* mounted at MPS_FOLDER */
    const char *shm;  /* mounted at /dev/shm */
};

struct grant_rules {
    const char *node;
    bool foreign_gpus; /* accept GPUs that another plugin adds to pods without an allocation */
    void *user;
    /* The public key with this id, in base64; NULL if unknown on this node. */
    const char *(*public_key)(void *user, const char *id);
    /* The allocation recorded for this uid; false if none. */
    bool (*record)(void *user, struct text uid, struct text *out_annotation);
    /* True if NVML has ever shown a GPU with this UUID on this node, or without NVML. */
    bool (*gpu)(void *user, const char *uuid);
    /* The CDI kind that names all these GPUs; NULL with err if none does. */
    const char *(*kind)(void *user, const char *const *gpu, uint32_t gpus, struct err *err);
    /* True if the GPU driver has this major number now. NULL: only DEVICE_MAJOR counts. */
    bool (*gpu_major)(void *user, int64_t major);
    /*
     * Returns 1 if shares of this GPU are MPS clients, 0 if MPS is off, negative with err if MPS is
     * on but not available now. NULL: off.
     */
    int (*mps)(void *user, const char *gpu, struct mps_place *out, struct err *err);
};

enum grant_mps {
    GRANT_MPS_AS_IT_RUNS, /* undecided: read it from the running container */
    GRANT_MPS_NONE,
    GRANT_MPS_CLIENT,
};

struct grant {
    enum grant_verdict verdict;
    enum grant_proof proof;
    struct text annotation; /* the allocation; borrowed from the pod */
    uint32_t n_shares;      /* of this container, on distinct GPUs */
    const struct pod_share **share;
    enum grant_mps mps;
    struct err why; /* with GRANT_REFUSED */
};

/* Judges a container. Allocates *out in arena; it borrows from pod. */
void grant_check(const struct grant_rules *rules, const struct nri_pod *pod, struct text container,
                 struct arena *arena, struct grant *out);

/*
 * Sets *out to the changes of the container: the CDI devices of its GPUs, and the granted values of
 * variables that could request other or more GPUs. A share of a GPU with MPS also gets the mounts
 * and variables of an MPS client, and grant->mps is set; a whole GPU needs no MPS. Negative:
 * refused.
 */
int grant_adjust(const struct grant_rules *rules, struct grant *grant,
                 const struct nri_container *container, struct arena *arena,
                 struct nri_adjustment *out, struct err *err) MUST_USE;

/*
 * Checks the combined adjustments of all plugins against the grant. Negative: refused; err names
 * the extra device or the missing GPU. Devices requested by kubelet belong to a device plugin, and
 * are accepted.
 */
int grant_validate(const struct grant_rules *rules, const struct grant *grant,
                   const struct nri_container *container, const struct nri_adjustment *all,
                   struct err *err) MUST_USE;

/*
 * True if it is an MPS client, by grant->mps or, if that is undecided, by the environment that it
 * was created with. A client has one GPU.
 */
bool grant_is_client(const struct grant *grant, const struct nri_container *container);

/*
 * True if the running container passed the agent, by the variable NVIDIA_VISIBLE_DEVICES that
 * grant_adjust() sets.
 */
bool grant_is_seen(const struct grant *grant, const struct nri_container *container);

#endif
