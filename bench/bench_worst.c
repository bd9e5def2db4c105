/*
 * bench_worst - the most expensive requests that a tenant can write, on nodes that all differ.
 *
 * CPU time of the calling thread for one filter_ask(); the best of a few runs, so that other load
 * on the machine counts less. The limits: 20 ms at 1,000 nodes, 60 ms at 5,000. Then all policies
 * at 15,000 nodes: under one that judges nodes, each question meets a score cache that knows
 * nothing. The last lines are the worst of each policy.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/core/ledger/ledger.h"

#include "cluster.h"
#include "measure.h"

enum { GPUS = 8, NODES = 15000, DRAWN = 200, ROUNDS = 3, DRAWN_WANTS = 12 };

/* Free milli of each GPU: from, plus a random number below range. */
struct fill {
    const char *name;
    uint32_t from;
    uint32_t range;
    bool alike; /* the GPUs of a node are of one model */
    bool tight; /* the pod holds more MiB than its milli are worth */
};

static const struct fill fills[] = {
    {"empty", 900, 100, false, false},      {"half", 300, 600, false, false},
    {"any", 0, 1000, false, false},         {"tight", 300, 700, false, true},
    {"empty_alike", 900, 100, true, false}, {"half_alike", 300, 600, true, false},
};

struct scene {
    struct ledger *ledger;
    const struct snapshot *snapshot;
    bool cold; /* with a new score cache for each question */
    struct text name[NODES];
};

struct request_class {
    struct request request;
    struct want want[CONTAINERS_MAX];
};

static const char *const models[] = {"A100-SXM4-80GB", "A100-SXM4-40GB", "H100-80GB-HBM3", "L40S"};

static void set_gpu(struct scene *scene, uint32_t node, uint16_t index, uint32_t model,
                    struct gpu *out)
{
    char id[32];

    (void)snprintf(id, sizeof id, "GPU-%05u-%u", node, index);
    *out = (struct gpu){
        .id = names_intern(ledger_names(scene->ledger), text_of(id)),
        .model =
            names_intern(ledger_names(scene->ledger), text_of(models[model % ARRAY_LEN(models)])),
        .milli = GPU_MILLI,
        .mib = 81920,
        .index = index,
        .numa = -1,
    };
}

/* One pod with a share of a different size on each GPU. */
static void add_pod(struct scene *scene, const struct fill *fill, const struct atom *node,
                    const struct gpu *gpu, uint64_t *seed)
{
    struct share share[GPUS];
    struct err err;

    for (uint16_t i = 0; i < GPUS; i++) {
        const uint32_t free = fill->from + draw(seed, fill->range);
        const uint32_t milli = free < GPU_MILLI ? GPU_MILLI - free : 1;
        const uint32_t more = fill->tight ? draw(seed, free + 1) : 0;
        share[i] = (struct share){
            .container = "c", .gpu = gpu[i].id, .milli = milli, .mib = 81 * (milli + more)};
    }
    const struct allocation_facts facts = {.uid = node->text,
                                           .namespace = "default",
                                           .name = "p",
                                           .node = node,
                                           .node_uid = node,
                                           .state = STATE_BOUND,
                                           .origin = ORIGIN_ADOPTED,
                                           .n_shares = GPUS,
                                           .share = share};
    must(ledger_restore(scene->ledger, &facts, &err) == 0);
}

static void add_node(struct scene *scene, const struct fill *fill, uint32_t number, uint64_t *seed)
{
    struct names *names = ledger_names(scene->ledger);
    struct err err;
    char name[32];
    struct gpu gpu[GPUS];

    (void)snprintf(name, sizeof name, "node-%05u", number);
    const struct atom *node = names_intern(names, text_of(name));
    for (uint16_t i = 0; i < GPUS; i++)
        set_gpu(scene, number, i, fill->alike ? number : number + i, &gpu[i]);
    const struct node_build build = {.name = node,
                                     .uid = names_intern(names, text_of(name)),
                                     .problem_text = names_intern(names, TEXT("")),
                                     .source = SOURCE_ANNOTATION,
                                     .n_gpus = GPUS,
                                     .gpu = gpu};
    must(ledger_restore_node(scene->ledger, &build, &err) == 0);
    add_pod(scene, fill, node, gpu, seed);
    scene->name[number] = atom_text(node);
}

static void scene_open(struct scene *scene, const struct fill *fill)
{
    uint64_t seed = 42;

    scene->ledger = ledger_new();
    for (uint32_t i = 0; i < NODES; i++)
        add_node(scene, fill, i, &seed);
    scene->snapshot = ledger_publish(scene->ledger, NULL, 0);
}

static void set_policy(struct scene *scene, enum policy_kind kind)
{
    snapshot_unref(scene->snapshot);
    cluster_set_policy(scene->ledger, kind);
    scene->snapshot = ledger_publish(scene->ledger, NULL, 0);
    scene->cold = policy_needs_workload(kind);
}

static void scene_close(struct scene *scene)
{
    snapshot_unref(scene->snapshot);
    ledger_free(scene->ledger);
}

static int64_t ask(const struct scene *scene, const struct request *request, uint32_t nodes)
{
    struct arena arena;
    struct filter_answer answer;
    struct filter_question question = {.snapshot = scene->snapshot,
                                       .request = request,
                                       .uid = TEXT("asking"),
                                       .n_names = nodes,
                                       .name = scene->name,
                                       .shortlist = 16};
    int64_t best = INT64_MAX;

    arena_init(&arena);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t begun = cpu_ns();
        question.cache = scene->cold ? score_cache_new() : NULL;
        filter_ask(&question, &arena, &answer);
        const int64_t took = cpu_ns() - begun;
        best = took < best ? took : best;
        score_cache_free(question.cache);
        arena_reset(&arena);
    }
    arena_done(&arena);
    return best;
}

/*
 * The requests
 */

static void request_class_init(struct request_class *request_class, uint32_t wants)
{
    *request_class =
        (struct request_class){.request = {.n_wants = wants, .want = request_class->want}};
    for (uint32_t w = 0; w < wants; w++)
        request_class->want[w] = (struct want){.container = "c", .parts = 1, .milli = 1};
}

/* One amount per want: from, from + step and so on, each with this many parts. */
static void climb(struct request_class *request_class, uint32_t wants, uint32_t parts,
                  uint32_t from, uint32_t step)
{
    request_class_init(request_class, wants);
    for (uint32_t w = 0; w < wants; w++) {
        request_class->want[w].parts = parts;
        request_class->want[w].milli = from + w * step;
    }
}

static void one_share(struct request_class *request_class)
{
    climb(request_class, 1, 1, 300, 0);
}

static void six_of_two(struct request_class *request_class)
{
    climb(request_class, 6, 2, 211, 37);
}

static void six_of_two_small(struct request_class *request_class)
{
    climb(request_class, 6, 2, 60, 1);
}

static void six_of_two_beside_whole(struct request_class *request_class)
{
    climb(request_class, 6, 2, 311, 23);
    request_class->request.whole = 2;
}

static void four_of_eight(struct request_class *request_class)
{
    climb(request_class, 4, 8, 70, 7);
}

static void many(struct request_class *request_class)
{
    climb(request_class, 120, 1, 2, 1);
}

static void many_of_four(struct request_class *request_class)
{
    climb(request_class, CONTAINERS_MAX, 4, 2, 0);
    for (uint32_t w = 0; w < CONTAINERS_MAX; w++)
        request_class->want[w].milli = 1 + w % 23;
}

static void many_that_do_not_fit(struct request_class *request_class)
{
    climb(request_class, 64, 1, 60, 1);
}

static void many_lives(struct request_class *request_class)
{
    climb(request_class, CONTAINERS_MAX, 1, 20, 0);
    for (uint32_t w = 0; w < CONTAINERS_MAX; w++) {
        request_class->want[w].kind = (enum container_kind)(w % 3);
        request_class->want[w].milli = 11 + w % 53;
    }
}

static void many_with_memory(struct request_class *request_class)
{
    many(request_class);
    request_class->request.memory_mib = 100;
}

static void many_with_models(struct request_class *request_class)
{
    static const char *glob[MODELS_MAX];

    many(request_class);
    for (uint32_t i = 0; i < MODELS_MAX; i++)
        glob[i] = i + 1 < MODELS_MAX ? "*a*0*0*s*x*m*4*8*0*g*b*x*" : "*0*";
    request_class->request.n_models = MODELS_MAX;
    request_class->request.model = glob;
}

static void twelve_that_nearly_fit(struct request_class *request_class)
{
    climb(request_class, 12, 1, 401, 13);
}

static const struct {
    const char *name;
    void (*make)(struct request_class *request_class);
} request_classes[] = {
    {"one_share", one_share},
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

/* Anything that a pod may ask for, in sizes of which some fit and some do not. */
static void draw_request_class(struct request_class *request_class, uint64_t *seed)
{
    const uint32_t wants = 2 + draw(seed, draw(seed, 3) > 0 ? DRAWN_WANTS : CONTAINERS_MAX - 1);
    const uint32_t width = 1 + draw(seed, draw(seed, 2) > 0 ? 2 : GPUS);
    const uint32_t most = 16000 / (wants * width) < 990 ? 10 + 16000 / (wants * width) : 1000;
    const bool lives = draw(seed, 4) == 0;

    request_class_init(request_class, wants);
    for (uint32_t w = 0; w < wants; w++) {
        struct want *want = &request_class->want[w];
        want->parts = wants * width <= PARTS_MAX ? 1 + draw(seed, width) : 1;
        want->milli = 1 + draw(seed, most);
        want->kind = lives ? (enum container_kind)draw(seed, 3) : CONTAINER_APP;
    }
    request_class->request.whole = draw(seed, 8) == 0;
    request_class->request.memory_mib = draw(seed, 8) == 0 ? 1000 : 0;
}

static void say_ms(const char *fill, uint32_t nodes, const char *request_class, int64_t ns)
{
    char name[128];

    (void)snprintf(name, sizeof name, "worst.%u_nodes.%s.%s", nodes, fill, request_class);
    say(name, (double)ns / 1e6, "ms");
}

/* Returns the worst of all. */
static int64_t measure(const struct scene *scene, const char *fill, uint32_t nodes, uint32_t drawn)
{
    static struct request_class request_class;
    uint64_t seed = 7;
    int64_t worst = 0;
    int64_t worst_drawn = 0;

    for (size_t i = 0; i < ARRAY_LEN(request_classes); i++) {
        request_classes[i].make(&request_class);
        const int64_t took = ask(scene, &request_class.request, nodes);
        say_ms(fill, nodes, request_classes[i].name, took);
        worst = took > worst ? took : worst;
    }
    for (uint32_t i = 0; i < drawn; i++) {
        draw_request_class(&request_class, &seed);
        const int64_t took = ask(scene, &request_class.request, nodes);
        worst_drawn = took > worst_drawn ? took : worst_drawn;
    }
    say_ms(fill, nodes, "worst_of_those_drawn", worst_drawn);
    return worst_drawn > worst ? worst_drawn : worst;
}

static void measure_policies(struct scene *scene, const char *fill, uint32_t drawn,
                             int64_t worst[POLICIES])
{
    char prefix[64];

    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        set_policy(scene, kind);
        (void)snprintf(prefix, sizeof prefix, "%s.%s", fill, policy_name(kind));
        const int64_t took = measure(scene, prefix, NODES, drawn);
        worst[kind] = took > worst[kind] ? took : worst[kind];
    }
}

int main(int argc, char **argv)
{
    static struct scene scene;
    struct options options;
    int64_t worst[POLICIES] = {0};

    if (!options_read(argc, argv, &options))
        return 2;
    for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
        scene_open(&scene, &fills[i]);
        (void)measure(&scene, fills[i].name, 1000, options.quick ? DRAWN / 10 : DRAWN);
        (void)measure(&scene, fills[i].name, 5000, options.quick ? DRAWN / 20 : DRAWN / 2);
        measure_policies(&scene, fills[i].name, options.quick ? 4 : DRAWN / 10, worst);
        scene_close(&scene);
    }
    for (enum policy_kind kind = 0; kind < POLICIES; kind++)
        say_ms("all", NODES, policy_name(kind), worst[kind]);
    return 0;
}
