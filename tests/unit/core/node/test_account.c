#include <stdio.h>
#include <string.h>

#include "milligpu/core/node/account.h"

#include "support/atoms.h"
#include "support/test.h"
#include "support/valid.h"
#include "support/walk.h"

enum { SCENE_GPUS = 6, SCENE_PODS = 140 };

/* What a node is built from. */
struct scene {
    struct gpu gpu[SCENE_GPUS];
    uint32_t gpus;
    const struct allocation *pod[SCENE_PODS];
    uint32_t pods;
    bool gone;
    enum inventory_problem problem;
    enum plugin_state plugin;
    enum vouch vouch;
    const struct taints *taints;
    struct gpu_note note[SCENE_GPUS];
    uint32_t notes;
};

static void add_gpu(struct scene *scene, const char *id, unsigned flags)
{
    const uint32_t at = scene->gpus++;
    scene->gpu[at] = (struct gpu){.id = atom(id),
                                  .model = atom("A100"),
                                  .milli = GPU_MILLI,
                                  .mib = 81920,
                                  .index = (uint16_t)at,
                                  .numa = -1,
                                  .flags = (uint16_t)flags};
}

/* by: as in inventory.h. */
static void hold_last(struct scene *scene, const char *by)
{
    scene->note[scene->notes++] =
        (struct gpu_note){.gpu = scene->gpu[scene->gpus - 1].id, .held = by};
}

/* gpu NULL: no share. */
static void add_pod(struct scene *scene, const char *gpu, uint32_t milli, uint32_t held,
                    uint32_t unplaced)
{
    char uid[16];
    const struct share share = {.container = "main",
                                .gpu = atom(gpu != NULL ? gpu : "-"),
                                .milli = milli,
                                .mib = 2 * milli};
    (void)snprintf(uid, sizeof uid, "pod-%u", scene->pods);
    const struct allocation_facts facts = {
        .uid = uid,
        .namespace = "default",
        .name = uid,
        .node = atom("n1"),
        .state = milli % 2 == 0 ? STATE_BOUND : STATE_RESERVED,
        .origin = ORIGIN_ADOPTED,
        .held_gpus = held,
        .unplaced_milli = unplaced,
        .shares = gpu != NULL,
        .share = &share,
    };
    scene->pod[scene->pods++] = allocation_new(&facts);
}

static struct node *node_of(struct scene *scene)
{
    const struct node_build build = {
        .name = atom("n1"),
        .uid = atom("n1-uid"),
        .problem = scene->problem,
        .taints = scene->taints,
        .unusable = taints_close(scene->taints != NULL ? &scene->taints->facts : NULL, NULL),
        .problem_text = atom(""),
        .gone = scene->gone,
        .plugin = {.state = scene->plugin},
        .vouch = scene->vouch,
        .gpus = scene->gpus,
        .gpu = scene->gpu,
        .allocations = scene->pods,
        .allocation = scene->pod,
        .notes = scene->notes,
        .note = scene->note,
    };
    struct node *node = node_new(&build);

    node_assert_valid(node);
    taints_unref(scene->taints);
    while (scene->pods > 0)
        allocation_unref(scene->pod[--scene->pods]);
    return node;
}

/* All GPUs of the node together. */
static struct gpu_account sum_of(const struct node *node)
{
    struct gpu_account sum = {0};

    for (uint32_t i = 0; i < node->gpus; i++) {
        struct gpu_account one;
        gpu_account(node, &node->gpu[i], &one);
        sum.total_milli += one.total_milli;
        sum.beyond_milli += one.beyond_milli;
        for (uint32_t part = 0; part < ACCOUNT_PARTS; part++)
            sum.milli[part] += one.milli[part];
    }
    return sum;
}

static uint64_t sum_of_parts(const struct gpu_account *account)
{
    uint64_t sum = 0;
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++)
        sum += account->milli[part];
    return sum;
}

/* The scene's only GPU, or its first two, in one part each. */
static void falls_into(struct scene *scene, enum account_part part, uint64_t milli)
{
    struct node *node = node_of(scene);
    const struct gpu_account sum = sum_of(node);

    if (sum.milli[part] != milli)
        fail_msg("%s: %llu", account_name(part), (unsigned long long)sum.milli[part]);
    assert_int_equal(sum_of_parts(&sum), sum.total_milli);
    node_unref(node);
    *scene = (struct scene){0};
}

TEST(account__names_the_remainder_by_its_obstacle)
{
    struct scene scene = {0};

    add_gpu(&scene, "GPU-a", GPU_UNHEALTHY);
    add_pod(&scene, "GPU-a", 300, 0, 0);
    falls_into(&scene, ACCOUNT_UNHEALTHY, 700);
    add_gpu(&scene, "GPU-a", GPU_CORDONED);
    falls_into(&scene, ACCOUNT_CORDONED, 1000);
    add_gpu(&scene, "GPU-a", GPU_DUPLICATE);
    falls_into(&scene, ACCOUNT_DUPLICATE, 1000);
    add_gpu(&scene, "GPU-a", GPU_ABSENT);
    add_pod(&scene, "GPU-a", 300, 0, 0);
    falls_into(&scene, ACCOUNT_ABSENT, 700);
    add_gpu(&scene, "GPU-a", 0);
    add_pod(&scene, NULL, 0, 0, 300);
    falls_into(&scene, ACCOUNT_UNPLACED, 1000);
    scene.gone = true;
    add_gpu(&scene, "GPU-a", 0);
    add_pod(&scene, "GPU-a", 300, 0, 0);
    falls_into(&scene, ACCOUNT_GONE, 700);
    add_gpu(&scene, "GPU-a", 0);
    scene.gpu[0].mib = 500;
    add_pod(&scene, "GPU-a", 300, 0, 0); /* with 600 MiB */
    falls_into(&scene, ACCOUNT_OVER, 700);
    scene.problem = PROBLEM_ANNOTATION; /* then the ledger keeps its GPUs cordoned */
    add_gpu(&scene, "GPU-a", GPU_CORDONED);
    falls_into(&scene, ACCOUNT_UNREADABLE, 1000);
    scene.plugin = PLUGIN_DOWN;
    add_gpu(&scene, "GPU-a", 0);
    add_pod(&scene, "GPU-a", 300, 0, 0);
    falls_into(&scene, ACCOUNT_PLUGIN, 700);
    scene.plugin = PLUGIN_DOWN;
    add_gpu(&scene, "GPU-a", 0);
    add_pod(&scene, NULL, 0, 0, 300);
    falls_into(&scene, ACCOUNT_UNPLACED, 1000);
    scene.plugin = PLUGIN_DOWN;
    add_gpu(&scene, "GPU-a", GPU_CORDONED);
    falls_into(&scene, ACCOUNT_CORDONED, 1000);
    scene.plugin = PLUGIN_UP;
    add_gpu(&scene, "GPU-a", 0);
    falls_into(&scene, ACCOUNT_FREE, 1000);
    for (int vouch = 0; vouch < VOUCHES; vouch++) {
        scene.vouch = (enum vouch)vouch;
        add_gpu(&scene, "GPU-a", 0);
        add_pod(&scene, "GPU-a", 300, 0, 0);
        falls_into(&scene, vouch <= VOUCH_GOOD ? ACCOUNT_FREE : ACCOUNT_AGENT, 700);
    }
    scene.vouch = VOUCH_GONE;
    scene.plugin = PLUGIN_DOWN;
    add_gpu(&scene, "GPU-a", 0);
    falls_into(&scene, ACCOUNT_PLUGIN, 1000);
    scene.vouch = VOUCH_GONE;
    add_gpu(&scene, "GPU-a", GPU_UNHEALTHY);
    falls_into(&scene, ACCOUNT_UNHEALTHY, 1000);
}

TEST(account__counts_unshared_gpus_as_held_whole)
{
    struct scene scene = {0};

    add_gpu(&scene, "GPU-a", 0);
    add_gpu(&scene, "GPU-b", GPU_UNHEALTHY);
    add_gpu(&scene, "GPU-c", 0);
    add_gpu(&scene, "GPU-d", 0);
    add_pod(&scene, "GPU-a", 300, 0, 0);
    add_pod(&scene, NULL, 0, 2, 0);
    struct node *node = node_of(&scene);
    const struct gpu_account sum = sum_of(node);
    assert_int_equal(sum.milli[ACCOUNT_USED], 300);
    assert_int_equal(sum.milli[ACCOUNT_HELD], 2000);      /* c and d */
    assert_int_equal(sum.milli[ACCOUNT_UNHEALTHY], 1000); /* b */
    assert_int_equal(sum.milli[ACCOUNT_MIXED], 700);      /* the rest of a */
    assert_int_equal(sum.total_milli, 4000);
    node_unref(node);
    scene = (struct scene){0};
    add_gpu(&scene, "GPU-a", 0); /* shared: the sick one is likelier */
    add_gpu(&scene, "GPU-b", GPU_UNHEALTHY);
    add_gpu(&scene, "GPU-c", GPU_UNHEALTHY);
    add_pod(&scene, "GPU-a", 300, 0, 0);
    add_pod(&scene, NULL, 0, 1, 0);
    node = node_of(&scene);
    struct gpu_account one;
    gpu_account(node, &node->gpu[0], &one);
    assert_int_equal(one.milli[ACCOUNT_MIXED], 700);
    gpu_account(node, &node->gpu[1], &one);
    assert_int_equal(one.milli[ACCOUNT_HELD], 1000);
    gpu_account(node, &node->gpu[2], &one);
    assert_int_equal(one.milli[ACCOUNT_UNHEALTHY], 1000);
    node_unref(node);
    scene = (struct scene){0};
    add_gpu(&scene, "GPU-a", 0); /* of equals the first */
    add_gpu(&scene, "GPU-b", 0);
    add_pod(&scene, NULL, 0, 1, 0);
    falls_into(&scene, ACCOUNT_HELD, 1000);
}

TEST(account__counts_only_the_named_gpu_as_held)
{
    struct scene scene = {0};

    add_gpu(&scene, "GPU-a", 0);
    add_gpu(&scene, "GPU-b", 0);
    hold_last(&scene, "pod:pod-0");
    add_pod(&scene, NULL, 0, 1, 0);
    struct node *node = node_of(&scene);
    struct gpu_account account;
    gpu_account(node, &node->gpu[0], &account);
    assert_int_equal(account.milli[ACCOUNT_FREE], 1000);
    gpu_account(node, &node->gpu[1], &account);
    assert_int_equal(account.milli[ACCOUNT_HELD], 1000);
    node_unref(node);

    scene = (struct scene){0};
    add_gpu(&scene, "GPU-a", 0);
    add_gpu(&scene, "GPU-b", GPU_UNHEALTHY);
    hold_last(&scene, "process");
    add_gpu(&scene, "GPU-c", 0);
    add_pod(&scene, NULL, 0, 1, 0);
    add_pod(&scene, "GPU-b", 300, 0, 0);
    falls_into(&scene, ACCOUNT_HELD, 1700); /* what is left of GPU-b, and one of the others */
    add_gpu(&scene, "GPU-a", 0);
    hold_last(&scene, "env:pod-0");
    add_pod(&scene, "GPU-a", 300, 0, 0);
    falls_into(&scene, ACCOUNT_FREE, 700);
}

TEST(account__counts_charges_beyond_a_size_once)
{
    struct scene scene = {0};

    add_gpu(&scene, "GPU-a", 0);
    add_pod(&scene, "GPU-a", 900, 0, 0);
    add_pod(&scene, "GPU-a", 401, 0, 0);
    add_pod(&scene, "GPU-z", 300, 0, 0); /* its size is not known */
    struct node *node = node_of(&scene);
    const struct gpu_account sum = sum_of(node);
    assert_int_equal(sum.total_milli, 1601);
    assert_int_equal(sum.beyond_milli, 601);
    assert_int_equal(sum.milli[ACCOUNT_USED], 1200);
    assert_int_equal(sum.milli[ACCOUNT_RESERVED], 401);
    node_unref(node);
}

TEST(account_name__is_unique)
{
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++) {
        assert_true(account_name(part)[0] != '\0');
        for (uint32_t other = 0; other < part; other++)
            assert_string_not_equal(account_name(part), account_name(other));
    }
}

/* --- any node whatever --- */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % below;
}

static bool one_in(uint32_t many)
{
    return draw(many) == 0;
}

static void draw_gpus(struct scene *scene)
{
    static const char *const id[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-d", "n1/gpu-4", "n1/gpu-5"};
    static const unsigned flags[] = {
        0, 0, 0, 0, GPU_UNHEALTHY, GPU_CORDONED, GPU_DUPLICATE, GPU_ABSENT, GPU_CONTESTED};
    const uint32_t gpus = draw(SCENE_GPUS + 1);
    const bool silent = one_in(8);

    for (uint32_t i = 0; i < gpus; i++) {
        const unsigned first = flags[draw(ARRAY_LEN(flags))];
        const unsigned second = one_in(4) ? flags[draw(ARRAY_LEN(flags))] : 0;
        add_gpu(scene, id[i], first | second | (silent ? GPU_CORDONED : 0));
        scene->gpu[i].mib = one_in(3) ? 0 : 1024;
        scene->gpu[i].milli = one_in(4) ? 500 : GPU_MILLI;
        if (scene->gpu[i].mib == 0 && i % 2 == 1)
            hold_last(scene, i == 1 ? "pod:pod-3" : "process");
    }
    scene->problem = silent ? PROBLEM_ANNOTATION : PROBLEM_NONE;
}

static void draw_pods(struct scene *scene)
{
    static const char *const id[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-x", "n1/gpu-4", "n1/gpu-9"};
    const uint32_t pods = one_in(16) ? SCENE_PODS - 2 : draw(8);

    for (uint32_t i = 0; i < pods; i++) {
        const uint32_t gpu = pods > 8 ? 0 : draw(ARRAY_LEN(id));
        const uint32_t milli = pods > 8 ? 2 : 1 + draw(400);
        add_pod(scene, id[gpu], milli, 0, 0);
    }
    if (one_in(4))
        add_pod(scene, NULL, 0, 1 + draw(SCENE_GPUS + 1), 0);
    if (one_in(6))
        add_pod(scene, NULL, 0, 0, 1 + draw(2000));
    scene->gone = one_in(12);
    scene->plugin = one_in(8) ? PLUGIN_DOWN : PLUGIN_NONE;
    scene->vouch = one_in(4) ? draw(VOUCHES) : VOUCH_NONE;
}

static void draw_taints(struct scene *scene)
{
    static const struct taint leaving = {"karpenter.sh/disrupted", "", EFFECT_NO_SCHEDULE};
    static const struct taint team = {"team", "a", EFFECT_NO_EXECUTE};
    const struct node_taints drawn = {
        .unschedulable = one_in(3),
        .not_ready = one_in(3),
        .unreadable = one_in(3),
        .taints = draw(2),
        .taint = one_in(2) ? &leaving : &team,
    };

    scene->taints = one_in(2) ? taints_new(&drawn) : NULL;
}

/* One GPU: it lies in used, in reserved, and what is left of it in one part only. */
static void adds_up(const struct node *node, const struct gpu *gpu, uint32_t *seen)
{
    const uint64_t taken = (uint64_t)gpu->used_milli + gpu->reserved_milli;
    struct gpu_account account;
    uint32_t others = 0;

    gpu_account(node, gpu, &account);
    assert_int_equal(account.total_milli, taken > gpu->milli ? taken : gpu->milli);
    assert_int_equal(sum_of_parts(&account), account.total_milli);
    assert_int_equal(account.milli[ACCOUNT_USED], gpu->used_milli);
    assert_int_equal(account.milli[ACCOUNT_RESERVED], gpu->reserved_milli);
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++) {
        seen[part] += account.milli[part] > 0;
        others += part > ACCOUNT_RESERVED && account.milli[part] > 0;
    }
    assert_true(others <= 1);
}

TEST(account__adds_up_on_every_node)
{
    const char *given = getenv("ACCOUNT_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    const int steps = walk_steps(20000, 2000);
    uint32_t seen[ACCOUNT_PARTS] = {0};

    seed = given != NULL ? strtoull(given, NULL, 10) : 42;
    print_message("ACCOUNT_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < steps; i++) {
        struct scene scene = {0};
        draw_gpus(&scene);
        draw_pods(&scene);
        draw_taints(&scene);
        struct node *node = node_of(&scene);
        for (uint32_t gpu = 0; gpu < node->gpus; gpu++)
            adds_up(node, &node->gpu[gpu], seen);
        assert_int_equal(sum_of(node).milli[ACCOUNT_FREE],
                         node->unusable.why == USABLE ? node->free_milli : 0);
        assert_true(node->held_gpus + node->notes > 0 || sum_of(node).milli[ACCOUNT_HELD] == 0);
        node_unref(node);
    }
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++)
        if (seen[part] == 0)
            fail_msg("the walk never met %s", account_name(part));
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
