/*
 * bench_worst - the most expensive requests that a tenant can write, on nodes that all differ.
 *
 * CPU time of the calling thread for one filter_ask(); the best of a few runs, so that other load
 * on the machine counts less. Beside it, what does not depend on the machine: the units of work
 * (policy.h) and the steps of the search. The limits, under the policy that is shipped: 20 ms at
 * 1,000 nodes, 60 ms at 5,000. Under a policy that judges nodes, each question meets a score cache
 * that knows nothing. The last lines are the worst of each policy.
 */
#include <stdio.h>

#include "milligpu/base/arena.h"
#include "milligpu/core/answer/filter.h"

#include "cluster.h"
#include "greedy.h"
#include "measure.h"
#include "unlike.h"

enum { ROUNDS = 3, SIZES = 3, MEASURED = POLICIES + 1 };

/* All but the first three are compared on the largest cluster only. */
static const uint32_t policies[MEASURED] = {CLUSTER_SHIPPED, POLICY_BINPACK, POLICY_ROLLOUT,
                                            POLICY_FIRSTFIT, POLICY_SPREAD,  POLICY_FGD};

/* How many nodes, and how many drawn requests: fewer, the longer each takes. */
static const struct size {
    uint32_t nodes;
    uint32_t drawn;
    uint32_t drawn_quick;
} sizes[SIZES] = {{1000, 100, 8}, {5000, 40, 3}, {15000, 20, 1}};

/* The highest figures of several questions; not always of the same one. */
struct cost {
    int64_t ns;
    uint64_t work;
    uint64_t steps;
};

struct scene {
    struct unlike unlike;
    int rounds;
};

static uint32_t policies_at(uint32_t nodes)
{
    return nodes == sizes[SIZES - 1].nodes ? MEASURED : 3;
}

static struct cost ask(const struct scene *scene, const struct request *request, uint32_t nodes)
{
    struct arena arena;
    struct filter_answer answer;
    struct filter_question question = {.snapshot = scene->unlike.snapshot,
                                       .request = request,
                                       .uid = TEXT("asking"),
                                       .n_names = nodes,
                                       .name = scene->unlike.name,
                                       .shortlist = 16};
    struct cost cost = {.ns = INT64_MAX};

    arena_init(&arena);
    for (int i = 0; i < scene->rounds; i++) {
        const int64_t begun = cpu_ns();
        question.cache = score_cache_new(); /* each round is cold */
        filter_ask(&question, &arena, &answer);
        const int64_t took = cpu_ns() - begun;
        cost = (struct cost){took < cost.ns ? took : cost.ns, answer.work, answer.steps};
        score_cache_free(question.cache);
        arena_reset(&arena);
    }
    arena_done(&arena);
    return cost;
}

static struct cost costlier(struct cost a, struct cost b)
{
    return (struct cost){a.ns > b.ns ? a.ns : b.ns, a.work > b.work ? a.work : b.work,
                         a.steps > b.steps ? a.steps : b.steps};
}

static void say_cost(uint32_t nodes, const char *prefix, const char *request, struct cost cost)
{
    char name[160];

    (void)snprintf(name, sizeof name, "worst.%u_nodes.%s.%s", nodes, prefix, request);
    say(name, (double)cost.ns / 1e6, "ms");
    (void)snprintf(name, sizeof name, "worst.%u_nodes.%s.%s.work", nodes, prefix, request);
    say(name, (double)cost.work, "units");
    (void)snprintf(name, sizeof name, "worst.%u_nodes.%s.%s.steps", nodes, prefix, request);
    say(name, (double)cost.steps, "steps");
}

/* Returns the worst of all. */
static struct cost measure(const struct scene *scene, const char *prefix, uint32_t nodes,
                           uint32_t drawn)
{
    static struct greedy greedy;
    struct cost worst = {0};
    struct cost worst_drawn = {0};
    uint64_t seed = 7;
    const char *name;

    for (size_t i = 0; (name = greedy_make(i, &greedy)) != NULL; i++) {
        const struct cost cost = ask(scene, &greedy.request, nodes);
        say_cost(nodes, prefix, name, cost);
        worst = costlier(worst, cost);
    }
    for (uint32_t i = 0; i < drawn; i++) {
        greedy_draw(&greedy, &seed);
        worst_drawn = costlier(worst_drawn, ask(scene, &greedy.request, nodes));
    }
    say_cost(nodes, prefix, "worst_of_those_drawn", worst_drawn);
    return costlier(worst, worst_drawn);
}

static void measure_policies(struct scene *scene, const char *fill, const struct size *size,
                             bool quick, struct cost worst[MEASURED])
{
    char prefix[64];

    for (uint32_t i = 0; i < policies_at(size->nodes); i++) {
        cluster_set_policy(scene->unlike.ledger, policies[i]);
        unlike_publish(&scene->unlike);
        (void)snprintf(prefix, sizeof prefix, "%s.%s", fill, cluster_policy_name(policies[i]));
        worst[i] = costlier(
            worst[i], measure(scene, prefix, size->nodes, quick ? size->drawn_quick : size->drawn));
    }
}

int main(int argc, char **argv)
{
    static struct scene scene;
    struct options options;
    struct cost worst[SIZES][MEASURED] = {0};

    if (!options_read(argc, argv, &options))
        return 2;
    scene.rounds = options.quick ? 1 : ROUNDS;
    for (size_t fill = 0; fill < UNLIKE_FILLS; fill++)
        for (size_t i = 0; i < SIZES; i++) {
            /* The largest cluster takes most of the time. */
            if (options.quick && i + 1 == SIZES && fill + 1 < UNLIKE_FILLS)
                continue;
            unlike_init(&scene.unlike, &unlike_fills[fill], sizes[i].nodes);
            measure_policies(&scene, unlike_fills[fill].name, &sizes[i], options.quick, worst[i]);
            unlike_done(&scene.unlike);
        }
    for (size_t i = 0; i < SIZES; i++)
        for (uint32_t k = 0; k < policies_at(sizes[i].nodes); k++)
            say_cost(sizes[i].nodes, "all", cluster_policy_name(policies[k]), worst[i][k]);
    return 0;
}
