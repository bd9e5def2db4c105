#include "greedy.h"

#include <string.h>

#include "measure.h"

enum { GPUS = 8, DRAWN_WANTS = 12 };

static void greedy_init(struct greedy *out, uint32_t wants)
{
    *out = (struct greedy){.request = {.n_wants = wants, .want = out->want}};
    for (uint32_t w = 0; w < wants; w++)
        out->want[w] = (struct want){.container = "c", .parts = 1, .milli = 1};
}

/* One amount per want: from, from + step and so on, each with this many parts. */
static void climb(struct greedy *out, uint32_t wants, uint32_t parts, uint32_t from, uint32_t step)
{
    greedy_init(out, wants);
    for (uint32_t w = 0; w < wants; w++) {
        out->want[w].parts = parts;
        out->want[w].milli = from + w * step;
    }
}

static void one_share(struct greedy *out)
{
    climb(out, 1, 1, 300, 0);
}

static void one_share_with_memory(struct greedy *out)
{
    one_share(out);
    out->request.memory_mib = 20000;
}

/* Globs of which each has to be tried in full, and of which only the last one matches. */
static void accept_models(struct greedy *out)
{
    static const char *glob[MODELS_MAX];

    for (uint32_t i = 0; i < MODELS_MAX; i++)
        glob[i] = i + 1 < MODELS_MAX ? "*a*0*0*s*x*m*4*8*0*g*b*x*" : "*0*";
    out->request.n_models = MODELS_MAX;
    out->request.model = glob;
}

static void one_share_with_models(struct greedy *out)
{
    one_share(out);
    accept_models(out);
}

/* One container on four GPUs, which have 70 places on 8 GPUs. */
static void one_of_four(struct greedy *out)
{
    climb(out, 1, 4, 300, 0);
}

static void one_of_four_with_memory(struct greedy *out)
{
    one_of_four(out);
    out->request.memory_mib = 20000;
}

static void one_of_four_with_models(struct greedy *out)
{
    one_of_four(out);
    accept_models(out);
}

static void one_of_four_beside_whole(struct greedy *out)
{
    one_of_four(out);
    out->request.whole = 2;
}

static void six_of_two(struct greedy *out)
{
    climb(out, 6, 2, 211, 37);
}

static void six_of_two_small(struct greedy *out)
{
    climb(out, 6, 2, 60, 1);
}

static void six_of_two_beside_whole(struct greedy *out)
{
    climb(out, 6, 2, 311, 23);
    out->request.whole = 2;
}

static void four_of_eight(struct greedy *out)
{
    climb(out, 4, 8, 70, 7);
}

static void many(struct greedy *out)
{
    climb(out, 120, 1, 2, 1);
}

static void many_of_four(struct greedy *out)
{
    climb(out, CONTAINERS_MAX, 4, 2, 0);
    for (uint32_t w = 0; w < CONTAINERS_MAX; w++)
        out->want[w].milli = 1 + w % 23;
}

static void many_that_do_not_fit(struct greedy *out)
{
    climb(out, 64, 1, 60, 1);
}

static void many_lives(struct greedy *out)
{
    climb(out, CONTAINERS_MAX, 1, 20, 0);
    for (uint32_t w = 0; w < CONTAINERS_MAX; w++) {
        out->want[w].kind = (enum container_kind)(w % 3);
        out->want[w].milli = 11 + w % 53;
    }
}

static void many_with_memory(struct greedy *out)
{
    many(out);
    out->request.memory_mib = 100;
}

static void many_with_models(struct greedy *out)
{
    many(out);
    accept_models(out);
}

static void twelve_that_nearly_fit(struct greedy *out)
{
    climb(out, 12, 1, 401, 13);
}

static const struct {
    const char *name;
    void (*make)(struct greedy *out);
} greedy_table[] = {
    {"one_share", one_share},
    {"one_share_with_memory", one_share_with_memory},
    {"one_share_of_32_globs", one_share_with_models},
    {"1_of_4", one_of_four},
    {"1_of_4_with_memory", one_of_four_with_memory},
    {"1_of_4_of_32_globs", one_of_four_with_models},
    {"1_of_4_beside_whole", one_of_four_beside_whole},
    {"6_of_2", six_of_two},
    {"6_of_2_small", six_of_two_small},
    {"6_of_2_beside_whole", six_of_two_beside_whole},
    {"4_of_8", four_of_eight},
    {"120", many},
    {"128_of_4", many_of_four},
    {"64_too_large", many_that_do_not_fit},
    {"128_of_three_lives", many_lives},
    {"120_with_memory", many_with_memory},
    {"120_with_32_globs", many_with_models},
    {"12_nearly", twelve_that_nearly_fit},
};

const char *greedy_make(size_t at, struct greedy *out)
{
    if (at >= ARRAY_LEN(greedy_table))
        return NULL;
    greedy_table[at].make(out);
    return greedy_table[at].name;
}

void greedy_make_named(const char *name, struct greedy *out)
{
    size_t at = 0;

    while (strcmp(greedy_table[at].name, name) != 0)
        must(++at < ARRAY_LEN(greedy_table));
    greedy_table[at].make(out);
}

void greedy_draw(struct greedy *out, uint64_t *seed)
{
    const uint32_t wants = 1 + draw(seed, draw(seed, 3) > 0 ? DRAWN_WANTS : CONTAINERS_MAX - 1);
    const uint32_t width = 1 + draw(seed, draw(seed, 2) > 0 ? 2 : GPUS);
    const uint32_t most = 16000 / (wants * width) < 990 ? 10 + 16000 / (wants * width) : 1000;
    const bool lives = draw(seed, 4) == 0;

    greedy_init(out, wants);
    for (uint32_t w = 0; w < wants; w++) {
        struct want *want = &out->want[w];
        want->parts = wants * width <= PARTS_MAX ? 1 + draw(seed, width) : 1;
        want->milli = 1 + draw(seed, most);
        want->kind = lives ? (enum container_kind)draw(seed, 3) : CONTAINER_APP;
    }
    out->request.whole = draw(seed, 8) == 0;
    out->request.memory_mib = draw(seed, 8) == 0 ? 1000 : 0;
}
