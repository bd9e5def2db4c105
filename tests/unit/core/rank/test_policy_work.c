/* The work of scoring a node, which counts against the budget of its question, by hand. */
#include "milligpu/base/alloc.h"

#include "core/rank/score_cache.h"
#include "support/atoms.h"
#include "support/test.h"

enum { WANTS = 5 };

struct setting {
    struct workload *workload;
    struct policy_context *context;
    struct node *node;
    struct room room;
    struct want want[WANTS];
    struct request request;
    struct plan plan;
    struct rank rank;
};

/* GPUs of one kind, no two with the same room; a workload of two shapes, one of two GPUs. */
static void set_up(struct setting *setting, enum policy_kind kind, uint32_t gpus, uint32_t wants)
{
    const struct workload_class class[] = {{.parts = 1, .milli = 300, .count = 1},
                                           {.parts = 2, .milli = 500, .count = 1}};
    const struct node_build build = {.name = atom("n"), .uid = atom("u"), .problem_text = atom("")};

    *setting = (struct setting){.request = {.n_wants = wants}, .room = {.n_gpus = gpus}};
    setting->request.want = setting->want;
    for (uint32_t w = 0; w < wants; w++)
        setting->want[w] = (struct want){.container = "c", .parts = 1, .milli = 100 + w};
    for (uint32_t i = 0; i < gpus; i++) {
        setting->room.gpu[i] = (struct gpu_room){.milli = GPU_MILLI,
                                                 .mib = 16000,
                                                 .free_milli = 600 + i,
                                                 .free_mib = 16000,
                                                 .model = atom("T4")};
        setting->room.free_milli += 600 + i;
    }
    setting->node = node_new(&build);
    setting->workload = workload_new(class, 2);
    setting->context = policy_context_new(kind, 0, setting->workload);
    plan_init(&setting->plan, &setting->request, NULL);
}

static void tear_down(struct setting *setting)
{
    node_unref(setting->node);
    policy_context_unref(setting->context);
    workload_unref(setting->workload);
}

static void check(struct setting *setting)
{
    const struct policy_question question = {
        .context = setting->context, .node = setting->node, .slot = SNAPSHOT_NO_SLOT};
    assert_int_equal(
        policy_score_room(&question, &setting->plan, &setting->room, &setting->rank, NULL),
        REASON_NONE);
}

static uint32_t units(uint64_t work)
{
    return (uint32_t)((work + 999) / 1000);
}

/* The walk and the placements that it visits: parts, containers and more on each GPU. */
static uint64_t walk_work(const struct setting *setting, uint32_t placements, uint32_t more)
{
    uint32_t on_each = 5 * setting->request.n_wants + more;
    for (uint32_t w = 0; w < setting->request.n_wants; w++)
        on_each += setting->want[w].parts;
    return 8 * (uint64_t)setting->plan.walked +
           placements * (100 + (uint64_t)setting->room.n_gpus * on_each);
}

TEST(work__of_spread_counts_compared_placements)
{
    struct setting setting;
    set_up(&setting, POLICY_SPREAD, 8, 2);
    check(&setting);
    assert_int_equal(setting.rank.work, units(walk_work(&setting, LAYOUTS_MAX, 0)));
    assert_true(setting.rank.work > units(8 * setting.plan.walked));
    tear_down(&setting);
    set_up(&setting, POLICY_SPREAD, 8, 1);
    check(&setting);
    assert_int_equal(setting.rank.work, 0);
    tear_down(&setting);
}

TEST(work__of_firstfit_counts_the_first_placement)
{
    struct setting setting;
    set_up(&setting, POLICY_FIRSTFIT, 8, 2);
    check(&setting);
    assert_true(setting.rank.exact);
    assert_int_equal(setting.rank.work, units(walk_work(&setting, 1, 0)));
    assert_true(setting.rank.work < units(walk_work(&setting, LAYOUTS_MAX, 0)));
    tear_down(&setting);
}

/* The node as it is, each of 8 placements, 2 shapes on 8 GPUs; one of the shapes is scarce. */
TEST(work__of_fgd_counts_shapes_on_gpus)
{
    struct setting setting;
    set_up(&setting, POLICY_FGD, 8, 1);
    assert_int_equal(setting.workload->n_typical, 2);
    assert_int_equal(setting.workload->n_scarce, 1);
    check(&setting);
    assert_int_equal(setting.rank.judged, 8);
    assert_int_equal(setting.rank.work, units(walk_work(&setting, 8, 1) + (1 + 8) * 2 * 8));
    tear_down(&setting);
}

/* Too many placements: that of the search comes last, and its steps are paid for. */
TEST(work__includes_the_steps_of_the_search)
{
    struct setting setting;
    struct placement placement;
    struct rank rank;
    set_up(&setting, POLICY_FGD, 8, WANTS);
    for (uint32_t w = 0; w < WANTS; w++)
        setting.want[w] = (struct want){.container = "c", .parts = 2, .milli = 211 + 37 * w};
    plan_init(&setting.plan, &setting.request, NULL);
    check(&setting);
    assert_int_equal(setting.rank.judged, LAYOUTS_MAX + 1);
    const uint64_t walked = walk_work(&setting, LAYOUTS_MAX + 1, 1);
    assert_int_equal(place_any(&setting.plan, &setting.room, &rank, &placement), REASON_NONE);
    assert_true(rank.steps > 500);
    assert_int_equal(setting.rank.work, units(walked + (uint64_t)(LAYOUTS_MAX + 2) * 2 * 8 +
                                              8 * (uint64_t)rank.steps));
    tear_down(&setting);
}

/* The idle GPU of the node as it is, and after each placement. */
TEST(work__of_rollout_counts_played_pods)
{
    struct setting setting;
    struct kinds *kinds = xmalloc(sizeof *kinds);
    struct remaining remaining;
    uint64_t work = 0;
    set_up(&setting, POLICY_ROLLOUT, 4, 1);
    check(&setting);
    assert_int_equal(setting.rank.judged, 4);
    kinds_init(kinds, setting.workload);
    remaining_of(&setting.room, kinds, &remaining);
    (void)rollout_idle(setting.workload, &remaining, &work);
    for (uint32_t i = 0; i < 4; i++) {
        struct remaining after = remaining;
        after.free[i] -= 100;
        after.free_milli -= 100;
        (void)rollout_idle(setting.workload, &after, &work);
    }
    assert_int_equal(setting.rank.work, units(walk_work(&setting, 4, 1) + work));
    assert_true(setting.rank.work > 2);
    tear_down(&setting);
    kinds_freep(&kinds);
}

TEST(work__of_steps_is_a_unit_for_125)
{
    static const uint32_t steps[][2] = {{0, 0}, {1, 1}, {125, 1}, {126, 2}, {1000, 8}};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        assert_int_equal(policy_steps_work(steps[i][0]), steps[i][1]);
}

/* The work of a node saturates at the most that a score cache can hold. */
TEST(work__saturates_at_node_work_max)
{
    assert_int_equal(work_of(0), 0);
    assert_int_equal(work_of(1), 1);
    assert_int_equal(work_of(1000), 1);
    assert_int_equal(work_of(1001), 2);
    assert_int_equal(work_of((uint64_t)NODE_WORK_MAX * 1000), NODE_WORK_MAX);
    assert_int_equal(work_of((uint64_t)NODE_WORK_MAX * 1000 + 1), NODE_WORK_MAX);
    assert_int_equal(work_of(UINT64_C(1) << 40), NODE_WORK_MAX);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
