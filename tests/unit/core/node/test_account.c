#include <stdio.h>
#include <string.h>

#include "milligpu/core/node/account.h"

#include "support/draw.h"
#include "support/node_scene.h"
#include "support/walk.h"

/* A share of the next pod: "pod-0", "pod-1", ... Odd amounts are reserved. */
static void add_share(struct node_scene *scene, const char *gpu, uint32_t milli)
{
    char uid[16];
    (void)snprintf(uid, sizeof uid, "pod-%u", scene->build.n_allocations);
    scene_add(scene, scene_pod(uid, gpu, milli, milli % 2 == 0 ? STATE_BOUND : STATE_RESERVED));
}

static void add_adopted(struct node_scene *scene, uint32_t held_gpus, uint32_t unplaced_milli)
{
    char uid[16];
    (void)snprintf(uid, sizeof uid, "pod-%u", scene->build.n_allocations);
    scene_adopt(scene, uid, held_gpus, unplaced_milli);
}

/* All GPUs of the node together. */
static struct gpu_account sum_of(const struct node *node)
{
    struct gpu_account sum = {0};

    for (uint32_t i = 0; i < node->n_gpus; i++) {
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

static void assert_part(const struct node *node, uint32_t gpu, enum account_part part,
                        uint64_t milli)
{
    struct gpu_account account;

    gpu_account(node, &node->gpu[gpu], &account);
    if (account.milli[part] != milli)
        fail_msg("GPU %u, %s: %llu", gpu, account_name(part),
                 (unsigned long long)account.milli[part]);
    assert_int_equal(sum_of_parts(&account), account.total_milli);
}

TEST(account__names_the_remainder_by_its_obstacle)
{
    static const struct {
        unsigned flags;
        uint32_t charged, unplaced;
        struct node_build build;
        enum account_part part; /* of the remainder */
    } row[] = {
        {GPU_UNHEALTHY, 300, 0, {0}, ACCOUNT_UNHEALTHY},
        {GPU_CORDONED, 0, 0, {0}, ACCOUNT_CORDONED},
        {GPU_DUPLICATE, 0, 0, {0}, ACCOUNT_DUPLICATE},
        {GPU_ABSENT, 300, 0, {0}, ACCOUNT_ABSENT},
        {0, 0, 300, {0}, ACCOUNT_UNPLACED},
        {0, 300, 0, {.gone = true}, ACCOUNT_GONE},
        /* The ledger keeps the GPUs of such a node cordoned. */
        {GPU_CORDONED, 0, 0, {.problem = PROBLEM_ANNOTATION}, ACCOUNT_UNREADABLE},
        {0, 300, 0, {.plugin.state = PLUGIN_DOWN}, ACCOUNT_PLUGIN},
        {0, 0, 300, {.plugin.state = PLUGIN_DOWN}, ACCOUNT_UNPLACED},
        {GPU_CORDONED, 0, 0, {.plugin.state = PLUGIN_DOWN}, ACCOUNT_CORDONED},
        {0, 0, 0, {.plugin.state = PLUGIN_UP}, ACCOUNT_FREE},
        {0, 0, 0, {.vouch = VOUCH_GONE, .plugin.state = PLUGIN_DOWN}, ACCOUNT_PLUGIN},
        {GPU_UNHEALTHY, 0, 0, {.vouch = VOUCH_GONE}, ACCOUNT_UNHEALTHY},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct node_scene *scene = node_scene_new();
        scene->build.gone = row[i].build.gone;
        scene->build.problem = row[i].build.problem;
        scene->build.plugin = row[i].build.plugin;
        scene->build.vouch = row[i].build.vouch;
        scene_add_gpu(scene, "GPU-a", row[i].flags);
        if (row[i].charged > 0)
            add_share(scene, "GPU-a", row[i].charged);
        if (row[i].unplaced > 0)
            add_adopted(scene, 0, row[i].unplaced);
        assert_part(scene_node(scene), 0, row[i].part, GPU_MILLI - row[i].charged);
        node_scene_free(scene);
    }
}

NODE_TEST(account__names_the_remainder_by_the_vouch_of_its_node)
{
    scene_add_gpu(scene, "GPU-a", 0);
    add_share(scene, "GPU-a", 300);
    for (int vouch = 0; vouch < VOUCHES; vouch++) {
        scene->build.vouch = (enum vouch)vouch;
        assert_part(scene_node(scene), 0, vouch <= VOUCH_GOOD ? ACCOUNT_FREE : ACCOUNT_AGENT, 700);
    }
}

NODE_TEST(account__names_the_remainder_of_a_gpu_that_is_over)
{
    scene_add_gpu(scene, "GPU-a", 0)->mib = 500;
    add_share(scene, "GPU-a", 300); /* with 600 MiB */
    assert_part(scene_node(scene), 0, ACCOUNT_OVER, 700);
}

NODE_TEST(account__counts_unshared_gpus_as_held_whole)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_add_gpu(scene, "GPU-b", GPU_UNHEALTHY);
    scene_add_gpu(scene, "GPU-c", 0);
    scene_add_gpu(scene, "GPU-d", 0);
    add_share(scene, "GPU-a", 300);
    add_adopted(scene, 2, 0);
    const struct node *node = scene_node(scene);
    assert_part(node, 0, ACCOUNT_USED, 300);
    assert_part(node, 0, ACCOUNT_MIXED, 700);
    assert_part(node, 1, ACCOUNT_UNHEALTHY, 1000);
    assert_part(node, 2, ACCOUNT_HELD, 1000);
    assert_part(node, 3, ACCOUNT_HELD, 1000);
}

/* GPU-a is shared, so a sick one is the likelier. */
NODE_TEST(account__counts_an_unhealthy_gpu_as_held_before_a_shared_one)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_add_gpu(scene, "GPU-b", GPU_UNHEALTHY);
    scene_add_gpu(scene, "GPU-c", GPU_UNHEALTHY);
    add_share(scene, "GPU-a", 300);
    add_adopted(scene, 1, 0);
    const struct node *node = scene_node(scene);
    assert_part(node, 0, ACCOUNT_MIXED, 700);
    assert_part(node, 1, ACCOUNT_HELD, 1000); /* the first of equals */
    assert_part(node, 2, ACCOUNT_UNHEALTHY, 1000);
}

NODE_TEST(account__counts_only_the_named_gpu_as_held)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_hold(scene, scene_add_gpu(scene, "GPU-b", 0), "pod:pod-0");
    add_adopted(scene, 1, 0);
    const struct node *node = scene_node(scene);
    assert_part(node, 0, ACCOUNT_FREE, 1000);
    assert_part(node, 1, ACCOUNT_HELD, 1000);
}

NODE_TEST(account__counts_the_rest_of_a_named_gpu_and_another_as_held)
{
    scene_add_gpu(scene, "GPU-a", 0);
    scene_hold(scene, scene_add_gpu(scene, "GPU-b", GPU_UNHEALTHY), "process");
    scene_add_gpu(scene, "GPU-c", 0);
    add_adopted(scene, 1, 0);
    add_share(scene, "GPU-b", 300);
    const struct node *node = scene_node(scene);
    assert_part(node, 1, ACCOUNT_HELD, 700);
    assert_int_equal(sum_of(node).milli[ACCOUNT_HELD], 1700);
}

NODE_TEST(account__ignores_a_holder_that_has_only_shares)
{
    scene_hold(scene, scene_add_gpu(scene, "GPU-a", 0), "env:pod-0");
    add_share(scene, "GPU-a", 300);
    assert_part(scene_node(scene), 0, ACCOUNT_FREE, 700);
}

NODE_TEST(account__counts_charges_beyond_a_size_once)
{
    scene_add_gpu(scene, "GPU-a", 0);
    add_share(scene, "GPU-a", 900);
    add_share(scene, "GPU-a", 401);
    add_share(scene, "GPU-z", 300); /* of unknown size */
    const struct gpu_account sum = sum_of(scene_node(scene));
    assert_int_equal(sum.total_milli, 1601);
    assert_int_equal(sum.beyond_milli, 601);
    assert_int_equal(sum.milli[ACCOUNT_USED], 1200);
    assert_int_equal(sum.milli[ACCOUNT_RESERVED], 401);
}

TEST(account_name__is_unique)
{
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++) {
        assert_true(account_name(part)[0] != '\0');
        for (uint32_t other = 0; other < part; other++)
            assert_string_not_equal(account_name(part), account_name(other));
    }
}

/* --- any node --- */

enum { WALK_GPUS = 6 };

static uint64_t seed;

static bool one_in(uint32_t many)
{
    return draw_below(&seed, many) == 0;
}

static void draw_gpus(struct node_scene *scene)
{
    static const char *const id[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-d", "n1/gpu-4", "n1/gpu-5"};
    static const unsigned flags[] = {
        0, 0, 0, 0, GPU_UNHEALTHY, GPU_CORDONED, GPU_DUPLICATE, GPU_ABSENT, GPU_CONTESTED};
    const uint32_t gpus = draw_below(&seed, WALK_GPUS + 1);
    const bool silent = one_in(8);

    for (uint32_t i = 0; i < gpus; i++) {
        const unsigned first = flags[draw_below(&seed, ARRAY_LEN(flags))];
        const unsigned second = one_in(4) ? flags[draw_below(&seed, ARRAY_LEN(flags))] : 0;
        scene_add_gpu(scene, id[i], first | second | (silent ? GPU_CORDONED : 0));
        scene->gpu[i].mib = one_in(3) ? 0 : 1024;
        scene->gpu[i].milli = one_in(4) ? 500 : GPU_MILLI;
        if (scene->gpu[i].mib == 0 && i % 2 == 1)
            scene_hold(scene, &scene->gpu[i], i == 1 ? "pod:pod-3" : "process");
    }
    scene->build.problem = silent ? PROBLEM_ANNOTATION : PROBLEM_NONE;
}

static void draw_pods(struct node_scene *scene)
{
    static const char *const id[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-x", "n1/gpu-4", "n1/gpu-9"};
    const uint32_t pods = one_in(16) ? SCENE_PODS - 2 : draw_below(&seed, 8);

    for (uint32_t i = 0; i < pods; i++) {
        const uint32_t gpu = pods > 8 ? 0 : draw_below(&seed, ARRAY_LEN(id));
        const uint32_t milli = pods > 8 ? 2 : 1 + draw_below(&seed, 400);
        add_share(scene, id[gpu], milli);
    }
    if (one_in(4))
        add_adopted(scene, 1 + draw_below(&seed, WALK_GPUS + 1), 0);
    if (one_in(6))
        add_adopted(scene, 0, 1 + draw_below(&seed, 2000));
    scene->build.gone = one_in(12);
    scene->build.plugin.state = one_in(8) ? PLUGIN_DOWN : PLUGIN_NONE;
    scene->build.vouch = one_in(4) ? draw_below(&seed, VOUCHES) : VOUCH_NONE;
}

static void draw_taints(struct node_scene *scene)
{
    static const struct taint leaving = {"karpenter.sh/disrupted", "", EFFECT_NO_SCHEDULE};
    static const struct taint team = {"team", "a", EFFECT_NO_EXECUTE};
    const struct node_taints drawn = {
        .unschedulable = one_in(3),
        .not_ready = one_in(3),
        .unreadable = one_in(3),
        .n_taints = draw_below(&seed, 2),
        .taint = one_in(2) ? &leaving : &team,
    };
    const struct taints *taints = one_in(2) ? taints_new(&drawn) : NULL;

    scene->build.taints = taints;
    scene->build.unusable = taints_close(taints != NULL ? &taints->facts : NULL, NULL);
}

/* One GPU: used, reserved, and its remainder in one part only. */
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
        struct node_scene *scene = node_scene_new();
        draw_gpus(scene);
        draw_pods(scene);
        draw_taints(scene);
        const struct node *node = scene_node(scene);
        for (uint32_t gpu = 0; gpu < node->n_gpus; gpu++)
            adds_up(node, &node->gpu[gpu], seen);
        assert_int_equal(sum_of(node).milli[ACCOUNT_FREE],
                         node->unusable.why == USABLE ? node->free_milli : 0);
        assert_true(node->held_gpus + node->n_notes > 0 || sum_of(node).milli[ACCOUNT_HELD] == 0);
        taints_unref(scene->build.taints);
        node_scene_free(scene);
    }
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++)
        if (seen[part] == 0)
            fail_msg("the walk never met %s", account_name(part));
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
