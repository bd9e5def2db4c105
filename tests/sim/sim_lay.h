/*
 * lay - every way to lay a pod on the GPUs of one node, one by one, and how far apart its GPUs lie.
 *
 * The oracle's own search: written from what place.h and policy/README.md say, without the core's
 * code. A node has few GPUs here and a pod few containers, so nothing is bounded, sorted or
 * remembered.
 *
 * Rule b: a container lies linked if NVLink joins each of its GPUs with each other (or it has one),
 * else on NUMA if all are on one known NUMA node, else anywhere. A pod lies as its container with
 * the weakest of these does.
 */
#ifndef MILLIGPU_TESTS_SIM_LAY_H
#define MILLIGPU_TESTS_SIM_LAY_H

#include "sim_model.h"

enum { LAY_GPUS = 32 };

/* In ascending order: nearer is less. */
enum lay_apart { LAY_LINKED, LAY_NUMA, LAY_ANYWHERE, LAY_NOWHERE };

/* The rest of a GPU, and where it lies. */
struct lay_gpu {
    const char *id;
    const char *model;
    uint32_t milli; /* of the GPU, like mib */
    uint32_t mib;
    uint32_t free_milli;
    uint32_t free_mib;
    bool open;      /* takes shares */
    bool whole;     /* may be the whole GPU beside shares on others */
    uint32_t numa;  /* + 1; 0: not known */
    uint32_t links; /* bits: those that NVLink joins with it, by position here */
    uint32_t price; /* 0: nothing has one */
};

/* How shares are raised whose memory would be too little, by the rule (0: none) that wins. */
struct lay_raise {
    bool may;
    bool whole;
    uint32_t min_milli;
    uint32_t step_milli;
};

struct lay_room {
    struct lay_raise raise;
    uint32_t n_gpus;
    struct lay_gpu gpu[LAY_GPUS];
};

/* MiB of a share of that size. */
uint32_t lay_mib(uint32_t mib, uint32_t milli_all, uint32_t milli);

/* Is it of the right model, and does a share of that size come with enough memory? */
bool lay_suits(const struct shape *shape, const struct lay_gpu *gpu, uint32_t milli);

/* The least share of the GPU that comes with the memory; 0: none does. */
uint32_t lay_need(const struct lay_gpu *gpu, uint32_t memory_mib);

/* The least share from this one on that may be handed out; 0: none. */
uint32_t lay_next(const struct lay_raise *raise, uint32_t milli);

/*
 * The amount to which the smaller shares of the pod are raised, so that it fits: the first one, of
 * those that are the need of any GPU. 0: it fits as it asks; LAY_NEVER: it does not fit.
 */
#define LAY_NEVER UINT32_MAX
uint32_t lay_raised(const struct lay_room *room, const struct shape *shape, enum model_lie demand);

/* Which GPUs lie where, as this state of the node says; the others say nothing. */
void lay_tell(struct lay_room *room, const struct model_version *version);

/*
 * How near the pod can lie where each container lies as demanded; LAY_NOWHERE: there is no way to
 * lay it.
 */
enum lay_apart lay_nearest(const struct lay_room *room, const struct shape *shape,
                           enum model_lie demand);
/* The same without an answer to how near. */
bool lay_fits(const struct lay_room *room, const struct shape *shape, enum model_lie demand);

/*
 * Shuts GPUs for shares that are dearer than the lowest price up to which the pod fits (rule a). It
 * fits. True: some were shut.
 */
bool lay_cheapest(struct lay_room *room, const struct shape *shape, enum model_lie demand);

/*
 * Could each container lie as demanded, by itself, on GPUs that are large enough and suit, whatever
 * they hold and whether they take shares now?
 */
bool lay_ever(const struct lay_room *room, const struct shape *shape, enum model_lie demand);

/* Do these GPUs (bits) of one container lie as demanded, and how far apart? */
bool lay_obeys(const struct lay_room *room, uint32_t gpus, enum model_lie demand);
enum lay_apart lay_apart(const struct lay_room *room, uint32_t gpus);

/* Does milligpu search its way to the end, whatever the GPUs hold? */
bool lay_is_searched(const struct shape *shape, uint32_t gpus);

#endif
