/*
 * The search takes the same steps to the same answers on every machine and in every build: filter,
 * bind and wake-up rely on it (I5). The test hashes the input and the steps of many searches into
 * one number. A change of the search on purpose needs the new number here.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/place/place_internal.h"
#include "support/atoms.h"
#include "support/draw.h"
#include "support/test.h"

enum { QUESTIONS = 700, EDGES = 500, EACH_STEPS = 300 };

struct setting {
    struct room room;
    struct request request;
    struct want want[CONTAINERS_MAX];
    const char *model[1];
};

/* Few sizes, so that equal GPUs occur; sometimes memory runs out before milli. */
static void draw_room(uint64_t *seed, uint32_t gpus, struct room *out)
{
    static const char *const model[] = {"A100", "A100", "A100", "H100", "T4"};

    *out = (struct room){.n_gpus = gpus};
    for (uint32_t i = 0; i < gpus; i++) {
        struct gpu_room *gpu = &out->gpu[i];
        *gpu = (struct gpu_room){.milli = draw_below(seed, 5) == 0 ? 500 : GPU_MILLI,
                                 .model = atom(model[draw_below(seed, ARRAY_LEN(model))])};
        gpu->mib = draw_below(seed, 9) == 0 ? 0 : 997 + 1000 * draw_below(seed, 2);
        gpu->free_milli = gpu->milli * (2 + draw_below(seed, 9)) / 10;
        gpu->free_mib =
            gpu->mib * gpu->free_milli / gpu->milli / (draw_below(seed, 5) == 0 ? 2 : 1);
        gpu->closed = draw_below(seed, 15) == 0 ? REASON_CORDONED : REASON_NONE;
        out->free_milli += gpu->closed == REASON_NONE ? gpu->free_milli : 0;
    }
}

static void draw_request(uint64_t *seed, uint32_t wants, struct setting *out)
{
    const bool alike = draw_below(seed, 2) == 0;
    const uint32_t kinds = 1 + draw_below(seed, 3);
    const uint32_t most = wants > 12 ? 6 : 18;

    out->model[0] = "?100";
    out->request = (struct request){.want = out->want, .model = out->model, .n_wants = wants};
    out->request.whole = draw_below(seed, 4) == 0 ? 1 + draw_below(seed, 2) : 0;
    out->request.n_models = draw_below(seed, 4) == 0;
    out->request.memory_mib = draw_below(seed, 5) == 0 ? 150 : 0;
    for (uint32_t w = 0; w < wants; w++) {
        out->want[w] =
            (struct want){.container = "c",
                          .kind = (enum container_kind)draw_below(seed, kinds),
                          .milli = 50 * (1 + draw_below(seed, most)),
                          .parts = draw_below(seed, 3) == 0 ? 1 + draw_below(seed, 3) : 1};
        if (alike && w > 0)
            out->want[w] = out->want[draw_below(seed, w)];
    }
}

/* Sizes of one milli, memory used up to the last MiB, and the largest possible tables. */
static void draw_edges(uint64_t *seed, struct setting *out)
{
    const bool large = draw_below(seed, 3) == 0;
    const uint32_t wants =
        large ? 16 + draw_below(seed, 2) * draw_below(seed, 25) : 2 + draw_below(seed, 3);

    out->room = (struct room){.n_gpus = large ? 64 : 1 + draw_below(seed, 5)};
    for (uint32_t i = 0; i < out->room.n_gpus; i++) {
        struct gpu_room *gpu = &out->room.gpu[i];
        *gpu = (struct gpu_room){.milli = GPU_MILLI, .model = atom("A100")};
        gpu->mib = large ? 0 : 50 * (2 + draw_below(seed, 3)) * (1 + 9 * draw_below(seed, 2));
        gpu->free_milli = 500 + draw_below(seed, 3);
        gpu->free_mib = gpu->mib / 2 - draw_below(seed, 2);
        out->room.free_milli += gpu->free_milli;
    }
    out->request = (struct request){.want = out->want, .model = out->model, .n_wants = wants};
    out->request.memory_mib = !large && draw_below(seed, 2) == 0 ? 150 : 0;
    const uint32_t sizes = draw_below(seed, 2) == 0 ? 1 : wants;
    const uint32_t least = draw_below(seed, 2) == 0 ? 1 : 150;
    const uint32_t most = draw_below(seed, 2) == 0 ? 6 : 320;
    for (uint32_t w = 0; w < wants; w++)
        out->want[w] =
            (struct want){.container = "c",
                          .kind = large ? CONTAINER_APP : (enum container_kind)draw_below(seed, 3),
                          .milli = large ? least + w % sizes * 7 : 1 + draw_below(seed, most),
                          .parts = 1 + draw_below(seed, 2)};
}

/* --- one number --- */

static void fold(uint64_t *sum, uint64_t number)
{
    *sum = (*sum ^ number) * 0x100000001b3U;
    *sum ^= *sum >> 29;
}

/* By its name, because other reasons may come before it. */
static void fold_reason(uint64_t *sum, enum reason why)
{
    fold(sum, text_hash(text_of(reason_name(why))));
}

static void fold_rows(uint64_t *sum, const struct plan *plan)
{
    fold(sum, plan->rows.count);
    fold(sum, plan->running_milli);
    fold(sum, plan->most_parts);
    fold(sum, plan->mixed_lives);
    for (uint32_t r = 0; r < plan->rows.count; r++) {
        const struct plan_row *row = &plan->rows.row[r];
        fold(sum, (uint64_t)row->kind << 48 | (uint64_t)row->milli << 32 | row->parts << 16 |
                      row->wants);
    }
    for (uint32_t w = 0; w < plan->request->n_wants; w++)
        fold(sum, plan->rows.want[w]);
}

static void fold_shape(uint64_t *sum, const struct shape *shape)
{
    fold(sum, shape->n_slots);
    fold(sum, shape->free_milli);
    for (uint32_t i = 0; i < shape->n_slots; i++) {
        const struct slot *slot = &shape->slot[i];
        fold(sum, (uint64_t)slot->free_milli << 32 | slot->least_milli);
        fold(sum, (uint64_t)slot->most_milli << 32 | slot->milli);
        fold(sum, (uint64_t)slot->mib << 32 | slot->free_mib);
        fold(sum, (uint64_t)shape->gpu[i] << 8 | shape->equal_slot[i]);
    }
}

static void fold_way(uint64_t *sum, struct plan *plan, const struct room *room)
{
    struct shape shape;
    uint8_t cell[CELLS_ALL];
    struct result result;

    shape_of(plan, room, true, &shape);
    shape_pair(&shape, NULL);
    fold_shape(sum, &shape);
    shape_of(plan, room, false, &shape);
    if (shape.n_slots < plan->most_parts) /* no search asks for this */
        return;
    shape_sort(&shape);
    shape_pair(&shape, NULL);
    fold_shape(sum, &shape);
    best_way(plan, &shape, cell, &result);
    fold(sum, result.any);
    fold(sum, result.exact);
    fold(sum, result.cost);
    fold(sum, result.steps);
    for (uint32_t i = 0; result.any && i < plan->rows.count * shape.n_slots; i++)
        fold(sum, cell[i]);
}

static bool fold_placement(void *user, const struct placement *placement)
{
    uint64_t *sum = user;

    fold(sum, placement->exact);
    fold(sum, placement->charge_milli);
    fold(sum, placement->left_milli);
    fold(sum, placement->free_milli);
    fold(sum, placement->n_parts);
    for (uint32_t i = 0; i < placement->n_parts; i++)
        fold(sum, (uint64_t)placement->part[i].want << 16 | placement->part[i].gpu);
    return true;
}

static void fold_question(uint64_t *sum, const struct setting *setting, uint32_t steps,
                          uint32_t each_steps)
{
    struct plan plan;
    struct rank rank;
    struct placement placement;

    plan_init(&plan, &setting->request, NULL);
    plan.steps = steps;
    fold_rows(sum, &plan);
    if (setting->request.n_wants > 1)
        fold_way(sum, &plan, &setting->room);
    fold_reason(sum, place_evaluate(&plan, &setting->room, &rank));
    fold(sum, rank.exact);
    fold(sum, rank.steps);
    const enum reason why = place_find(&plan, &setting->room, &rank, &placement);
    fold_reason(sum, why);
    if (why == REASON_NONE)
        (void)fold_placement(sum, &placement);
    if (setting->request.n_wants > 0)
        fold(sum, place_each(&plan, &setting->room, each_steps, sum, fold_placement));
}

TEST(search__takes_the_same_steps_in_every_build)
{
    static const uint32_t steps[] = {PLACE_STEPS_MAX, 90, 1};
    uint64_t seed = 7;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < QUESTIONS; i++) {
        struct setting setting;
        const uint32_t gpus = i % 20 == 0 ? GPUS_PER_NODE_MAX : draw_below(&seed, 10);
        draw_room(&seed, gpus, &setting.room);
        draw_request(&seed, i % 9 == 0 ? draw_below(&seed, 40) : 1 + draw_below(&seed, 7),
                     &setting);
        if (setting.request.n_wants == 0)
            setting.request.whole = 1;
        for (size_t k = 0; k < ARRAY_LEN(steps); k++)
            fold_question(&sum, &setting, steps[k], EACH_STEPS);
    }
    for (uint32_t i = 0; i < EDGES; i++) {
        struct setting setting;
        draw_edges(&seed, &setting);
        fold_question(&sum, &setting, PLACE_STEPS_MAX, 4 * PLACE_STEPS_MAX);
    }
    assert_int_equal(sum, UINT64_C(0xa7b3b7f7f7c51820));
}

/* A plan lives on the stack, so previous contents must not matter. */
TEST(plan__caches_a_model_at_its_hash)
{
    const char *glob[] = {"A*"};
    struct want want = {.container = "c", .parts = 1, .milli = 100};
    const struct request request = {.want = &want, .n_wants = 1, .model = glob, .n_models = 1};
    struct plan plan;

    const struct atom *model = atom("A100");
    memset(&plan, 0xa5, sizeof plan);
    plan_init(&plan, &request, NULL);
    assert_int_equal(plan.most_parts, 1);
    assert_int_equal(plan.running_milli, 100);
    assert_int_equal(plan.rules, 0);
    assert_null(plan.allowed.rule);
    assert_int_equal(plan.price, 0);
    assert_int_equal(plan.raised_milli, 0);
    assert_false(plan.priced);
    for (int i = 0; i < 2; i++) {
        assert_true(plan_takes(&plan, model));
        assert_ptr_equal(plan.model[model->hash % PLAN_MODELS].model, model);
    }
    assert_true(plan.model[model->hash % PLAN_MODELS].can_take);
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
