#include "support/node_scene.h"

#include "milligpu/base/alloc.h"

#include "support/valid.h"

struct node_scene *node_scene_new(void)
{
    struct node_scene *scene = xcalloc(1, sizeof *scene);

    scene->build = (struct node_build){.name = atom("n1"),
                                       .uid = atom("n1-uid"),
                                       .problem_text = atom(""),
                                       .since_ms = 17,
                                       .gpu = scene->gpu,
                                       .note = scene->note,
                                       .allocation = scene->pod};
    return scene;
}

void node_scene_free(struct node_scene *scene)
{
    while (scene->n_made > 0)
        node_unref(scene->made[--scene->n_made]);
    while (scene->build.n_allocations > 0)
        allocation_unref(scene->pod[--scene->build.n_allocations]);
    xfree(scene);
}

int node_scene_set_up(void **state)
{
    *state = node_scene_new();
    return 0;
}

int node_scene_tear_down(void **state)
{
    node_scene_free(*state);
    return 0;
}

struct gpu *scene_add_gpu(struct node_scene *scene, const char *id, unsigned flags)
{
    const uint32_t at = scene->build.n_gpus++;

    assert_true(at < SCENE_GPUS);
    scene->gpu[at] = (struct gpu){.id = atom(id),
                                  .model = atom("A100"),
                                  .milli = GPU_MILLI,
                                  .mib = SCENE_MIB,
                                  .index = (uint16_t)at,
                                  .numa = -1,
                                  .flags = (uint16_t)flags};
    return &scene->gpu[at];
}

void scene_call(const struct node_scene *scene, struct gpu *gpu, const char *alias)
{
    gpu_set_alias(gpu, scene->build.name, text_of(alias), atoms);
}

void scene_add_gpus(struct node_scene *scene, uint32_t gpus)
{
    for (char id[] = "GPU-a"; gpus > 0; gpus--, id[4]++)
        (void)scene_add_gpu(scene, id, 0);
}

void scene_hold(struct node_scene *scene, const struct gpu *gpu, const char *by)
{
    scene->note[scene->build.n_notes++] = (struct gpu_note){.gpu = gpu->id, .held = by};
}

struct allocation_facts scene_facts(const char *uid, const struct share *share, uint32_t shares)
{
    return (struct allocation_facts){.uid = uid,
                                     .namespace = "default",
                                     .name = uid,
                                     .node = atom("n1"),
                                     .state = STATE_BOUND,
                                     .n_shares = shares,
                                     .share = share};
}

const struct allocation *scene_pod(const char *uid, const char *gpu, uint32_t milli,
                                   enum allocation_state state)
{
    const struct share share = {
        .container = "main", .gpu = atom(gpu), .milli = milli, .mib = 2 * milli};
    struct allocation_facts facts = scene_facts(uid, &share, 1);

    facts.state = state;
    return allocation_new(&facts);
}

void scene_add(struct node_scene *scene, const struct allocation *pod)
{
    assert_true(scene->build.n_allocations < SCENE_PODS);
    scene->pod[scene->build.n_allocations++] = pod;
}

void scene_bind(struct node_scene *scene, const char *uid, const char *gpu, uint32_t milli)
{
    scene_add(scene, scene_pod(uid, gpu, milli, STATE_BOUND));
}

void scene_adopt(struct node_scene *scene, const char *uid, uint32_t held_gpus,
                 uint32_t unplaced_milli)
{
    struct allocation_facts facts = scene_facts(uid, NULL, 0);

    facts.origin = ORIGIN_ADOPTED;
    facts.held_gpus = held_gpus;
    facts.unplaced_milli = unplaced_milli;
    scene_add(scene, allocation_new(&facts));
}

static struct node *keep(struct node_scene *scene, struct node *node)
{
    assert_true(scene->n_made < ARRAY_LEN(scene->made));
    scene->made[scene->n_made++] = node;
    node_assert_valid(node);
    return node;
}

struct node *scene_node(struct node_scene *scene)
{
    return keep(scene, node_new(&scene->build));
}

struct node *scene_with(struct node_scene *scene, const struct node *node,
                        const struct allocation *before, const struct allocation *after)
{
    return keep(scene, node_with(node, before, after));
}
