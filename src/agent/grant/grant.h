/*
 * grant - which GPUs a container gets: what the agent decides, and why.
 *
 *     annotations of the sandbox --+
 *     first allocation of the uid -+--> grant: foreign | nothing | GPUs | refused
 *     public keys -----------------+
 *
 * Nothing is guessed. An allocation is believed if milligpud signed it for this pod uid and this
 * node, or if it is the one that was recorded for the uid when its signature was verified; a uid
 * never gets another one. A tenant who edits the annotations of his own pod gets no other
 * GPU, also after his sandbox died and was made again, and also on a node whose agent is new.
 *
 *  G1  A container of a pod of ours gets exactly the GPUs of its shares, or is not created.
 *  G2  A container of a pod of ours without a share gets no GPU.
 *  G3  Containers of other pods are not changed.
 *  G4  No other plugin may add a GPU: to a pod of ours never, to others unless the rules allow it.
 *      A device node is known by its numbers, whatever its path, and also a rule by which a
 *      container could open one adds it.
 *  G5  The only device names are UUIDs of GPUs that NVML has shown on this node.
 *
 * The texts of refusals are what the owner of the pod reads in an event: they say what to do.
 *
 * Pure; the functions of grant_rules may read files.
 */
#ifndef MILLIGPU_GRANT_H
#define MILLIGPU_GRANT_H

#include "milligpu/base/arena.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/nri/nri.h"

enum grant_verdict {
    GRANT_FOREIGN, /* not a pod of ours */
    GRANT_NOTHING, /* a pod of ours, and this container has no share */
    GRANT_GPUS,
    GRANT_REFUSED,
};

/* Why the allocation is believed. */
enum grant_proof {
    PROOF_NONE,
    PROOF_SIGNATURE,
    PROOF_RECORD, /* its signature was verified before */
};

/* In a client of MPS: where its GPU's pipe folder is mounted, and the variable that says so. */
#define MPS_FOLDER "/run/milligpu/mps"
#define MPS_PIPES  "CUDA_MPS_PIPE_DIRECTORY"

/* What a client of MPS is given of the host; borrowed for the call. */
struct mps_place {
    const char *pipe; /* mounted at MPS_FOLDER */
    const char *shm;  /* mounted at /dev/shm */
};

struct grant_rules {
    const char *node;
    /* Accept a GPU that another plugin adds to a pod that is none of ours? */
    bool foreign_gpus;
    void *user;
    /* The public key with this id, in base64; NULL: not known on this node. */
    const char *(*public_key)(void *user, const char *id);
    /* The allocation recorded for this uid. False: none. */
    bool (*record)(void *user, struct text uid, struct text *out_annotation);
    /* Has NVML ever shown a GPU with this UUID on this node? True without NVML. */
    bool (*gpu)(void *user, const char *uuid);
    /* The CDI kind that names all these GPUs; NULL with err: none does. */
    const char *(*kind)(void *user, const char *const *gpu, uint32_t gpus, struct err *err);
    /*
     * Has the driver of NVIDIA's GPUs this major number now? NULL: only the one that never changes
     * is known.
     */
    bool (*gpu_major)(void *user, int64_t major);
    /*
     * 1: a share of this GPU is a client of MPS. 0: MPS is off. Negative with err: it is on, and no
     * client can be served now.
     */
    int (*mps)(void *user, const char *gpu, struct mps_place *out, struct err *err);
};

enum grant_mps {
    GRANT_MPS_AS_IT_RUNS, /* not decided here: a container that runs shows it */
    GRANT_MPS_NONE,
    GRANT_MPS_CLIENT,
};

struct grant {
    enum grant_verdict verdict;
    enum grant_proof proof;
    struct text annotation; /* the allocation; borrowed from the pod */
    uint32_t shares;        /* of this container; each on a GPU of its own */
    const struct pod_share **share;
    enum grant_mps mps;
    struct err why; /* with GRANT_REFUSED */
};

/* *out lives in arena and borrows from pod. */
void grant_check(const struct grant_rules *rules, const struct nri_pod *pod, struct text container,
                 struct arena *arena, struct grant *out);

/*
 * What is changed of the container: the CDI devices of its GPUs, and the variables by which a
 * container could ask for others or for more, set to what it was granted. Where its GPU is shared
 * by MPS, also what makes it a client, and grant->mps says so; a GPU that it has whole needs no
 * MPS. Negative: refused.
 */
int grant_adjust(const struct grant_rules *rules, struct grant *grant,
                 const struct nri_container *container, struct arena *arena,
                 struct nri_adjustment *out, struct err *err) MUST_USE;

/*
 * Is this, from all plugins together, what the grant says? Negative: no, and the text names the
 * device, or the GPU that is missing. Devices that kubelet asked for are a device plugin's, and are
 * left alone.
 */
int grant_validate(const struct grant_rules *rules, const struct grant *grant,
                   const struct nri_container *container, const struct nri_adjustment *all,
                   struct err *err) MUST_USE;

/*
 * Is it a client of MPS, by grant->mps or, where that does not say, by the environment with which
 * it was made? It has one GPU then.
 */
bool grant_is_client(const struct grant *grant, const struct nri_container *container);

/* Does the container that runs see the GPUs of its grant? False: with others, or without. */
bool grant_is_seen(const struct grant *grant, const struct nri_container *container);

#endif
