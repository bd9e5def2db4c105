/*
 * node_scene - what a node is built from, and the nodes that are built from it.
 *
 * GPUs are whole A100s of 2000 MiB; a share has 2 MiB for each milli. All is node "n1", and the
 * atoms are those of support/atoms.h. A test changes the GPUs and the build before it makes a node.
 */
#ifndef MILLIGPU_TESTS_NODE_SCENE_H
#define MILLIGPU_TESTS_NODE_SCENE_H

#include "milligpu/core/node/node.h"

#include "support/atoms.h"
#include "support/test.h"

enum { SCENE_GPUS = GPUS_PER_NODE_MAX + 1, SCENE_PODS = 140, SCENE_MIB = 2000 };

struct node_scene {
    struct gpu gpu[SCENE_GPUS];
    struct gpu_note note[SCENE_GPUS];
    const struct allocation *pod[SCENE_PODS];
    const struct node *made[16];
    uint32_t n_made;
    struct node_build build; /* with the numbers of GPUs, notes and pods */
};

struct node_scene *node_scene_new(void) MUST_USE;
void node_scene_free(struct node_scene *scene); /* with its pods and nodes */

/* Between these, a test has an empty scene. */
int node_scene_set_up(void **state);
int node_scene_tear_down(void **state);
#define NODE_TEST(name)                                                                            \
    TEST_WITH(name, struct node_scene *scene, node_scene_set_up, node_scene_tear_down)

/* Its index is the number of GPUs before it. */
struct gpu *scene_add_gpu(struct node_scene *scene, const char *id, unsigned flags);
/* Also known by this name. */
void scene_call(const struct node_scene *scene, struct gpu *gpu, const char *alias);
void scene_add_gpus(struct node_scene *scene, uint32_t gpus); /* GPU-a, GPU-b, ... */
/* by: as in inventory.h; keeps the pointer */
void scene_hold(struct node_scene *scene, const struct gpu *gpu, const char *by);

/* These facts, for the pod "default/UID" of this node. */
struct allocation_facts scene_facts(const char *uid, const struct share *share, uint32_t shares);
/* One share on one GPU. */
const struct allocation *scene_pod(const char *uid, const char *gpu, uint32_t milli,
                                   enum allocation_state state) MUST_USE;

/* Takes the allocation over. */
void scene_add(struct node_scene *scene, const struct allocation *pod);
void scene_bind(struct node_scene *scene, const char *uid, const char *gpu, uint32_t milli);
/* A pod without shares: with whole GPUs of another resource, or on GPUs that are not known. */
void scene_adopt(struct node_scene *scene, const char *uid, uint32_t held_gpus,
                 uint32_t unplaced_milli);

/* Both are valid, and end with the scene. */
struct node *scene_node(struct node_scene *scene);
struct node *scene_with(struct node_scene *scene, const struct node *node,
                        const struct allocation *before, const struct allocation *after);

#endif
