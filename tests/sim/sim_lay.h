/*
 * lay - every way to lay a pod on the GPUs of one node, one by one, and how far apart its GPUs lie.
 *
 * The oracle's own search: written from what place.h and policy/README.md say, without the core's
 * code. A node has few GPUs here and a pod few containers, so nothing is bounded, sorted or
 * remembered.
 *
 * Rule b: a container lies linked if NVLink joins each of its GPUs with each other (or it has one),
 * else on NUMA if all are on one NUMA node that is told, else anywhere. A pod lies as far apart as
 * the container that lies farthest apart.
 */
#ifndef MILLIGPU_TESTS_SIM_LAY_H
#define MILLIGPU_TESTS_SIM_LAY_H

#include "sim_model.h"

enum { LAY_GPUS = 32 };

/* In ascending order: nearer is less. */
enum lay_apart { LAY_LINKED, LAY_NUMA, LAY_ANYWHERE, LAY_NOWHERE };

/* What is left on a GPU, and where it lies. */
struct lay_gpu {
    const char *id;
    const char *model;
    uint32_t milli; /* of the GPU, like mib */
    uint32_t mib;
    uint32_t free_milli;
    uint32_t free_mib;
    bool open;      /* takes shares */
    bool whole;     /* may be the whole GPU beside shares on others */
    uint32_t numa;  /* + 1; 0: not told */
    uint32_t links; /* bits: those that NVLink joins with it, by position here */
};

struct lay_room {
    uint32_t gpus;
    struct lay_gpu gpu[LAY_GPUS];
};

/* MiB of a share of that size. */
uint32_t lay_mib(uint32_t mib, uint32_t milli_all, uint32_t milli);

/* Is it of the right model, and does a share of that size come with enough memory? */
bool lay_suits(const struct shape *shape, const struct lay_gpu *gpu, uint32_t milli);

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
