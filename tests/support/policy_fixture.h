/*
 * policy_fixture - a cluster, a workload of nine shapes, policies over it, and a question about it.
 *
 *   cluster_show() --> cluster_set_policy() --> cluster_ask() with a score cache --\
 *                                           \-> cluster_ask() without one ----+
 *                                               assert_same_answers() <------/
 *
 * The cluster has nodes with 1 to 4 GPUs of three models, and with different hosts; of some hosts
 * nothing is known. It is the same each time, and so are the shapes: tests count on their numbers.
 * All of it is in the ledger and the arena of core_fixture; what goes wrong fails the test.
 */
#ifndef MILLIGPU_TESTS_POLICY_FIXTURE_H
#define MILLIGPU_TESTS_POLICY_FIXTURE_H

#include "milligpu/core/answer/filter.h"
#include "milligpu/core/rules/workload.h"

#include "support/core_fixture.h"

enum { NODES = 24, GPUS = 4, SHAPES = 9, SEED = 7 };

/* "n-3" */
const char *cluster_node(struct core_fixture *core, uint32_t node);
struct host cluster_host(uint32_t cpu_milli); /* with 64000 MiB */
/*
 * This node, of this many GPUs from now on, at most GPUS + 1; what is known of its host stays.
 * links: 0: nothing is told; else what is told follows from this number.
 */
void cluster_show_node(struct core_fixture *core, uint32_t node, uint32_t gpus, uint64_t links);
/* All NODES of them. linked: most of them tell which GPUs are linked, and on which NUMA node. */
void cluster_show(struct core_fixture *core, bool linked);

/* One of the SHAPES, the same for the same number; some numbers want only some of the models. */
struct request *cluster_shape(struct core_fixture *core, uint32_t i);
/* The first of the shapes, some commoner than others; yours to unref. */
struct workload *cluster_workload(struct core_fixture *core, uint32_t classes) MUST_USE;

/* In force from now on: the policy with the first shapes as its workload, and SEED. */
void cluster_set_policy(struct core_fixture *core, enum policy_kind kind, uint32_t classes);
/* The same where models have prices and shares are raised. */
void cluster_set_levels(struct core_fixture *core, enum policy_kind kind, uint32_t classes);

/*
 * A question about the nodes of the cluster, by name. There is room for more names, and the
 * question may be changed and asked again, until cluster_ask_done().
 */
struct asked {
    struct arena arena;
    const struct snapshot *snapshot;
    struct text name[2 * NODES];
    struct filter_question question;
    struct filter_answer answer;
};

/* judge: NULL: nothing is remembered */
void cluster_ask(struct asked *asked, struct core_fixture *core, const struct request *request,
                 struct score_cache *cache);
void cluster_ask_done(struct asked *asked);

/*
 * The same candidates in the same order with the same ranks, but for the steps of the search, the
 * same best placement, and the same causes for the first NODES names.
 */
void assert_same_answers(const struct filter_answer *a, const struct filter_answer *b);

#endif
