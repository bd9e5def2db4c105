/*
 * filter against the plain way: each name looked up, judged with policy_score() and sorted. Names
 * that are known from another snapshot, hashes, cached judgements and the length of the list change
 * nothing, not even the work that is counted.
 */
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/policy_fixture.h"
#include "support/test.h"
#include "support/walk.h"

enum { NAMES_MAX = 2 * NODES, OFFERS = 12, PODS = 60 };

/* --- the plain way --- */

struct plainly {
    struct plan plan;
    uint64_t work;
    uint32_t fitting;
    struct candidate *fits; /* best first */
    struct cause *cause;
};

static int by_order(const void *a, const void *b)
{
    return order_cmp(&((const struct candidate *)a)->rank, &((const struct candidate *)b)->rank);
}

static bool take_offers(const struct filter_question *question, const struct node *node,
                        struct room *room)
{
    bool any = false;

    room_of(node, room);
    for (uint32_t i = 0; i < question->n_offers; i++)
        for (uint32_t g = 0; g < node->n_gpus; g++)
            if (question->offer[i].node == node->name && question->offer[i].gpu == node->gpu[g].id)
                room_take(room, g, question->offer[i].milli);
    for (uint32_t i = 0; i < question->n_offers; i++)
        any = any || question->offer[i].node == node->name;
    return any;
}

static void pay(struct plainly *plainly, const struct rank *rank, uint32_t paid)
{
    plainly->work += rank->work;
    if (plainly->plan.request->n_wants > 1 && rank->steps > paid)
        plainly->work += policy_steps_work(rank->steps - paid);
}

static enum reason judge(const struct filter_question *question, const struct node *node,
                         struct plainly *plainly, struct rank *out)
{
    const bool spent = plainly->work >= policy_work_max(question->n_names);
    const struct policy_question asked = {.context = question->snapshot->context,
                                          .node = node,
                                          .slot = SNAPSHOT_NO_SLOT,
                                          .is_unscored = spent};
    struct rank beside;
    struct room room;
    const enum reason why = policy_score(&asked, &plainly->plan, out);

    pay(plainly, out, PLACE_STEPS_MAX);
    if (why != REASON_NONE || !take_offers(question, node, &room))
        return why;
    if (spent && question->request->n_wants > 1) {
        out->behind = true;
        return why;
    }
    const enum reason then = policy_score_room(&asked, &plainly->plan, &room, &beside, NULL);
    pay(plainly, &beside, 0);
    if (then == REASON_NONE)
        *out = beside;
    else
        out->behind = true;
    return why;
}

static void ask_plainly(const struct filter_question *question, struct arena *arena,
                        struct plainly *out)
{
    const uint32_t wants = question->request->n_wants;

    out->work = wants > 1 ? (uint64_t)question->n_names * SEARCH_WORK : 0;
    out->fitting = 0;
    out->fits = arena_array(arena, question->n_names, sizeof *out->fits);
    out->cause = arena_array(arena, question->n_names, sizeof *out->cause);
    plan_init(&out->plan, question->request, question->snapshot->context);
    plan_remember(&out->plan, arena);
    for (uint32_t i = 0; i < question->n_names; i++) {
        struct candidate *fits = &out->fits[out->fitting];
        const struct node *node = snapshot_node(question->snapshot, question->name[i]);
        enum reason why = REASON_UNKNOWN_NODE;
        if (node == NULL && question->node != NULL)
            node = question->node[i];
        if (node != NULL)
            why = judge(question, node, out, &fits->rank);
        if (why != REASON_NONE) {
            out->cause[i] = plan_cause(&out->plan, why);
            continue;
        }
        fits->rank.turn = i;
        fits->name = i;
        fits->node = node;
        out->fitting++;
    }
    qsort(out->fits, out->fitting, sizeof *out->fits, by_order);
}

static void assert_rank(const struct rank *a, const struct rank *b)
{
    assert_int_equal(a->exact, b->exact);
    assert_int_equal(a->behind, b->behind);
    assert_int_equal(a->is_unscored, b->is_unscored);
    assert_int_equal(a->price, b->price);
    assert_int_equal(a->distance, b->distance);
    assert_int_equal(a->pool, b->pool);
    assert_memory_equal(a->key, b->key, sizeof a->key);
    assert_int_equal(a->order, b->order);
    assert_int_equal(a->raised_milli, b->raised_milli);
    assert_int_equal(a->charge_milli, b->charge_milli);
    assert_int_equal(a->judged, b->judged);
    assert_int_equal(a->work, b->work);
    assert_int_equal(a->turn, b->turn);
    assert_ptr_equal(a->node, b->node);
}

static void assert_as_plainly(const struct filter_question *question,
                              const struct filter_answer *answer, const struct plainly *plainly)
{
    const uint32_t most = question->shortlist > 0 ? question->shortlist : question->n_names;

    assert_int_equal(answer->verdict, plainly->fitting > 0 ? FILTER_FITS : FILTER_NONE);
    assert_int_equal(answer->fitting, plainly->fitting);
    assert_int_equal(answer->work, plainly->work);
    assert_int_equal(answer->n_candidates, plainly->fitting < most ? plainly->fitting : most);
    assert_memory_equal(answer->cause, plainly->cause, question->n_names * sizeof *answer->cause);
    for (uint32_t i = 0; i < answer->n_candidates; i++) {
        assert_int_equal(answer->candidate[i].name, plainly->fits[i].name);
        assert_ptr_equal(answer->candidate[i].node, plainly->fits[i].node);
        assert_rank(&answer->candidate[i].rank, &plainly->fits[i].rank);
        assert_int_equal(answer->candidate[i].placement != NULL, i == 0);
    }
}

/* --- what is asked --- */

/* A cluster whose nodes are in three pools, or in none, and change from question to question. */
struct scene {
    struct core_fixture *core;
    struct score_cache *cache;
    struct rulebook *book;
    const struct snapshot *before; /* the names are known from it */
    const struct snapshot *now;
    uint64_t seed;
    uint32_t pods;
    struct arena arena; /* of one question */
    struct known_node known[NAMES_MAX];
    struct text name[NAMES_MAX];
    uint32_t hash[NAMES_MAX];
    struct offer offer[OFFERS];
    struct filter_question question;
    struct plainly plainly;
    /* How often each was met. */
    uint32_t dismissed;
    uint32_t refused;
    uint32_t behind;
    uint32_t moved;
    uint32_t pools;
};

static uint32_t below(struct scene *scene, uint32_t most)
{
    return draw_below(&scene->seed, most);
}

static void show(struct scene *scene, uint32_t node)
{
    static const char *const model[] = {"T4", "L40S", "A100", "H100"};
    static const struct label pool[] = {{"pool", "a"}, {"pool", "b"}, {"pool", "c"}};
    struct core_gpu gpu[GPUS];
    const uint32_t gpus = 1 + below(scene, GPUS);

    for (uint32_t i = 0; i < gpus; i++)
        gpu[i] = (struct core_gpu){.index = i, .mib = 16000};
    struct inventory *inventory =
        core_inventory(scene->core, cluster_node(scene->core, node),
                       arena_printf(&scene->core->arena, "uid"), gpu, gpus);
    for (uint32_t i = 0; i < gpus; i++)
        inventory->gpu[i].model = model[(node + (node % 3 == 0 ? i : 0)) % ARRAY_LEN(model)];
    inventory->label = &pool[node % 4 % 3];
    inventory->n_labels = node % 4 < 3;
    const struct command command = {
        .kind = COMMAND_NODE, .node = inventory->node, .inventory = inventory, .at_ms = 1};
    (void)core_do_quickly(scene->core, &command);
}

static void happen(struct scene *scene)
{
    static const char *const words[] = {"200", "300", "500", "1000", "600x2"};
    struct core_fixture *core = scene->core;
    const char *node = cluster_node(core, below(scene, NODES));
    const char *uid = arena_printf(&core->arena, "pod-%u", below(scene, PODS));
    const struct command gone = {.kind = COMMAND_NODE_GONE, .at_ms = 1, .node = node};

    switch (below(scene, 6)) {
    case 0:
        show(scene, below(scene, NODES));
        break;
    case 1:
        (void)core_do_quickly(core, &gone);
        break;
    case 2:
        (void)core_step(core, COMMAND_RELEASE, uid);
        break;
    default:
        (void)core_reserve(core, uid, node, words[below(scene, ARRAY_LEN(words))]);
        break;
    }
    core_forget_undo(core);
}

/* Pools with policies of their own, with a smallest share, and with a reserve. */
static void set_rules(struct scene *scene, enum policy_kind kind)
{
    static const struct label pool[] = {{"pool", "a"}, {"pool", "b"}, {"pool", "c"}};
    static struct rule rule[ARRAY_LEN(pool)];
    struct rulebook *book = rulebook_new(kind, "pools");
    struct workload *workload = cluster_workload(scene->core, SHAPES);

    for (uint32_t i = 0; i < ARRAY_LEN(pool); i++)
        rule[i] = (struct rule){.name = "rule", .n_labels = 1, .label = &pool[i]};
    rule[0].has_order = true;
    rule[0].policy = (enum policy_kind)below(scene, POLICIES);
    rule[1].has_order = below(scene, 2) == 0;
    rule[1].policy = POLICY_ROLLOUT;
    rule[1].min_milli = 300;
    rule[2].reserve = 2;
    book->rule = rule;
    book->n_rules = ARRAY_LEN(rule);
    book->seed = SEED;
    struct policy_context *context = policy_context_of_rulebook(book, RULES_ALL, workload);
    ledger_set_policy_context(scene->core->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
    rulebook_unref(scene->book);
    scene->book = book;
}

static void draw_policy(struct scene *scene)
{
    static const enum policy_kind kinds[] = {POLICY_ROLLOUT, POLICY_FGD,      POLICY_ROLLOUT,
                                             POLICY_BINPACK, POLICY_FIRSTFIT, POLICY_SPREAD};
    const enum policy_kind kind = kinds[below(scene, ARRAY_LEN(kinds))];

    switch (below(scene, 3)) {
    case 0:
        cluster_set_policy(scene->core, kind, SHAPES);
        break;
    case 1:
        cluster_set_levels(scene->core, kind, SHAPES);
        break;
    default:
        set_rules(scene, kind);
        break;
    }
}

/* In the order of another list, with names that are unknown or come twice. */
static void draw_names(struct scene *scene)
{
    const uint32_t first = below(scene, NODES);
    const uint32_t names = below(scene, 8) == 0 ? below(scene, NAMES_MAX) : NODES + 1;

    for (uint32_t i = 0; i < names; i++) {
        const uint32_t node = below(scene, 10) == 0 ? below(scene, NODES + 1) : (first + i) % NODES;
        scene->name[i] = text_of(cluster_node(scene->core, node));
        scene->hash[i] = text_hash(scene->name[i]);
        snapshot_nodes(scene->before, 1, &scene->name[i], &scene->hash[i], &scene->known[i].node,
                       &scene->known[i].slot);
        scene->moved += scene->known[i].node != snapshot_node(scene->now, scene->name[i]);
    }
    scene->question.n_names = names;
}

static void draw_offers(struct scene *scene)
{
    uint32_t count = 0;

    for (uint32_t i = below(scene, 3) == 0 ? OFFERS : 0; i > 0; i--) {
        const struct node *node =
            snapshot_node(scene->now, text_of(cluster_node(scene->core, below(scene, NODES))));
        if (node != NULL && node->n_gpus > 0)
            scene->offer[count++] = (struct offer){
                node->name, node->gpu[below(scene, node->n_gpus)].id, 100 + below(scene, 900)};
    }
    scene->question.n_offers = count;
}

static void draw_question(struct scene *scene)
{
    static const uint32_t shortlist[] = {1, 2, 5, 16, 0};
    struct request *request = cluster_shape(scene->core, below(scene, 2 * SHAPES));

    if (below(scene, 3) == 0)
        request->memory_mib = 4000;
    if (below(scene, 12) == 0)
        request->n_wants = 0;
    request->rules = RULES_ALL;
    scene->question = (struct filter_question){
        .snapshot = scene->now,
        .request = request,
        .uid = TEXT("asking"),
        .name = scene->name,
        .shortlist = shortlist[below(scene, ARRAY_LEN(shortlist))],
        .offer = scene->offer,
    };
    draw_names(scene);
    draw_offers(scene);
}

static void ask_as_plainly(struct scene *scene)
{
    struct filter_answer answer;

    filter_ask(&scene->question, &scene->arena, &answer);
    assert_as_plainly(&scene->question, &answer, &scene->plainly);
    const struct rank *last =
        answer.n_candidates > 0 ? &answer.candidate[answer.n_candidates - 1].rank : NULL;
    scene->behind += last != NULL && last->behind;
    scene->pools += last != NULL && last->pool > 0;
}

static void one_question(struct scene *scene)
{
    arena_init(&scene->arena);
    scene->before = ledger_publish(scene->core->ledger, NULL, 0);
    for (uint32_t i = below(scene, 4); i > 0; i--)
        happen(scene);
    scene->now = ledger_publish(scene->core->ledger, NULL, 0);
    draw_question(scene);
    ask_plainly(&scene->question, &scene->arena, &scene->plainly);
    ask_as_plainly(scene);
    scene->question.cache = scene->cache;
    ask_as_plainly(scene); /* some are remembered from other questions */
    const uint64_t found = score_cache_counts(scene->cache).found;
    const uint64_t made = score_cache_counts(scene->cache).made;
    scene->question.known = scene->known;
    scene->question.known_in = scene->before;
    scene->question.hash = below(scene, 2) == 0 ? scene->hash : NULL;
    ask_as_plainly(scene);
    if (scene->question.request->n_wants <= 1 && score_cache_counts(scene->cache).made == made) {
        const uint64_t used = score_cache_counts(scene->cache).found - found;
        scene->dismissed += scene->question.shortlist == 1 && used > 3;
        scene->refused += used > scene->plainly.fitting;
    }
    for (uint32_t i = 0; i < scene->question.n_names; i++)
        snapshot_nodes(scene->now, 1, &scene->name[i], &scene->hash[i], &scene->known[i].node,
                       &scene->known[i].slot);
    scene->question.known_in = scene->now;
    ask_as_plainly(scene);
    snapshot_unref(scene->before);
    snapshot_unref(scene->now);
    arena_done(&scene->arena);
}

CORE_TEST(filter__equals_the_plain_way_whatever_is_remembered)
{
    struct scene scene = {.core = core, .seed = 1, .cache = score_cache_new()};
    const int questions = walk_steps(2000, 250);

    for (uint32_t i = 0; i < NODES; i++)
        show(&scene, i);
    for (int i = 0; i < questions; i++) {
        if (i % 10 == 0)
            draw_policy(&scene);
        one_question(&scene);
    }
    assert_true(scene.dismissed > 5 && scene.refused > 5 && scene.behind > 5);
    assert_true(scene.moved > 20 && scene.pools > 5);
    score_cache_free(scene.cache);
    ledger_set_policy_context(core->ledger, NULL);
    rulebook_unref(scene.book);
}

/* --- at the limit of work --- */

enum { LARGE_GPUS = 12, LARGE_NODES = 5 };

/* Equal nodes of many GPUs, of which each has another size: judging one takes much work. */
static void show_large(struct core_fixture *core)
{
    struct core_gpu gpu[LARGE_GPUS];

    for (uint32_t i = 0; i < LARGE_GPUS; i++)
        gpu[i] = (struct core_gpu){.index = i, .milli = 1000 - 30 * i, .mib = 16000};
    for (uint32_t i = 0; i < LARGE_NODES; i++)
        core_show_quickly(core, cluster_node(core, i), gpu, LARGE_GPUS);
}

/* The large nodes in turn, this often. */
static void name_in_turn(struct core_fixture *core, struct filter_question *question,
                         uint32_t names)
{
    struct text *name = arena_array(&core->arena, names, sizeof *name);

    for (uint32_t i = 0; i < names; i++)
        name[i] = text_of(cluster_node(core, i % LARGE_NODES));
    question->name = name;
    question->n_names = names;
}

/* The units of one node. */
static uint32_t work_of_one(struct core_fixture *core, const struct filter_question *question)
{
    struct filter_question one = *question;
    struct filter_answer answer;

    name_in_turn(core, &one, 1);
    filter_ask(&one, &core->arena, &answer);
    assert_int_equal(answer.n_candidates, 1);
    return answer.candidate[0].rank.work;
}

static uint64_t paid_for(const struct filter_question *question, uint32_t names)
{
    return question->request->n_wants > 1 ? (uint64_t)names * SEARCH_WORK : 0;
}

/* So many names that this rest of the work is left after as many nodes as possible. */
static void name_for_rest(struct core_fixture *core, struct filter_question *question, uint32_t one,
                          uint32_t rest)
{
    uint32_t names = WORK_NAMES - 1;

    while ((policy_work_max(names) - paid_for(question, names)) % one != rest)
        names++;
    name_in_turn(core, question, names);
}

/* The first names are scored, up to the limit. */
static void ask_to_limit(struct core_fixture *core, struct filter_question *question, uint32_t one)
{
    const uint64_t paid = paid_for(question, question->n_names);
    const uint64_t scored = (policy_work_max(question->n_names) - paid + one - 1) / one;
    struct filter_answer answer;

    assert_in_range(scored, 2, question->n_names - 1);
    filter_ask(question, &core->arena, &answer);
    assert_int_equal(answer.fitting, question->n_names);
    assert_int_equal(answer.work, paid + scored * one);
    for (uint32_t i = 0; i < answer.n_candidates; i++) {
        const struct candidate *candidate = &answer.candidate[i];
        assert_int_equal(candidate->rank.is_unscored, i >= scored);
        assert_int_equal(candidate->name < scored, i < scored);
        assert_int_equal(candidate->rank.work, i < scored ? one : 0);
        assert_true(i == 0 || order_cmp(&candidate[-1].rank, &candidate->rank) < 0);
    }
    if (question->cache == NULL)
        return;
    /* Each scored name is counted, and is one judgement that is remembered. */
    const struct score_cache_counts before = score_cache_counts(question->cache);
    question->shortlist = 3;
    filter_ask(question, &core->arena, &answer);
    assert_int_equal(answer.n_candidates, 3);
    assert_int_equal(answer.work, scored * one);
    assert_int_equal(score_cache_counts(question->cache).made, before.made);
    assert_int_equal(score_cache_counts(question->cache).found, before.found + scored);
    question->shortlist = 0;
}

static void ask_for_rests(struct core_fixture *core, enum policy_kind kind, const char *words,
                          struct score_cache *cache)
{
    cluster_set_policy(core, kind, SHAPES);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    struct filter_question question = {
        .snapshot = snapshot, .request = core_request(core, words), .cache = cache};
    const uint32_t one = work_of_one(core, &question);

    name_for_rest(core, &question, one, 0);
    ask_to_limit(core, &question, one);
    name_for_rest(core, &question, one, 1);
    ask_to_limit(core, &question, one);
    snapshot_unref(snapshot);
}

CORE_TEST(work__of_one_container_ends_at_the_limit)
{
    struct score_cache *cache = score_cache_new();

    show_large(core);
    ask_for_rests(core, POLICY_ROLLOUT, "250", cache);
    ask_for_rests(core, POLICY_FGD, "100x2", cache);
    ask_for_rests(core, POLICY_FGD, "100x2", NULL);
    score_cache_free(cache);
}

CORE_TEST(work__of_several_containers_ends_at_the_limit)
{
    show_large(core);
    ask_for_rests(core, POLICY_ROLLOUT, "50+60+70", NULL);
    ask_for_rests(core, POLICY_FGD, "50+60+70", NULL);
}

/* A search beside offers counts, too; beyond the limit there is none. */
static void ask_with_offers(struct core_fixture *core, const char *words, struct score_cache *cache)
{
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    const struct node *node[] = {snapshot_node(snapshot, text_of(cluster_node(core, 1))),
                                 snapshot_node(snapshot, text_of(cluster_node(core, 3)))};
    const struct offer offer[] = {{node[0]->name, node[0]->gpu[0].id, 100},
                                  {node[1]->name, node[1]->gpu[1].id, 200}};
    struct filter_question question = {.snapshot = snapshot,
                                       .request = core_request(core, words),
                                       .cache = cache,
                                       .n_offers = ARRAY_LEN(offer),
                                       .offer = offer};
    struct filter_answer answer;
    struct plainly plainly;

    name_in_turn(core, &question, 1000);
    ask_plainly(&question, &core->arena, &plainly);
    assert_true(plainly.work >= WORK_MIN && plainly.work < WORK_MIN + 2 * NODE_WORK_MAX);
    for (question.shortlist = 0; question.shortlist <= 3; question.shortlist += 3) {
        filter_ask(&question, &core->arena, &answer);
        assert_as_plainly(&question, &answer, &plainly);
    }
    snapshot_unref(snapshot);
}

CORE_TEST(work__counts_what_is_judged_beside_offers)
{
    struct score_cache *cache = score_cache_new();

    show_large(core);
    cluster_set_policy(core, POLICY_ROLLOUT, SHAPES);
    ask_with_offers(core, "250", cache);
    cluster_set_levels(core, POLICY_FGD, SHAPES);
    ask_with_offers(core, "50+60+70", NULL);
    score_cache_free(cache);
}

/* GPUs of four models, and prices: whatever fits is searched with cheaper GPUs, too. */
static void show_models(struct core_fixture *core)
{
    static const char *const model[] = {"T4", "L40S", "A100-SXM4-40GB", "H100-80GB-HBM3"};
    struct core_gpu gpu[8];

    for (uint32_t i = 0; i < ARRAY_LEN(gpu); i++)
        gpu[i] = (struct core_gpu){.index = i, .milli = 1000 - 37 * i * i % 400, .mib = 16000};
    for (uint32_t n = 0; n < LARGE_NODES; n++) {
        struct inventory *inventory =
            core_inventory(core, cluster_node(core, n), "uid", gpu, ARRAY_LEN(gpu) - n % 2);
        for (uint32_t i = 0; i < inventory->n_gpus; i++)
            inventory->gpu[i].model = model[i % ARRAY_LEN(model)];
        const struct command command = {
            .kind = COMMAND_NODE, .node = inventory->node, .inventory = inventory, .at_ms = 1};
        assert_int_equal(core_do_quickly(core, &command), VERDICT_OK);
    }
}

/* The first search is paid in advance, the others when they are done. */
CORE_TEST(work__counts_the_steps_of_further_searches)
{
    struct filter_answer answer;
    struct plainly plainly;
    uint32_t longer = 0;

    show_models(core);
    cluster_set_levels(core, POLICY_BINPACK, SHAPES);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    struct filter_question question = {
        .snapshot = snapshot, .request = core_request(core, "211x2+248x2+285x2+322x2+359x2+396x2")};
    name_in_turn(core, &question, LARGE_NODES);
    ask_plainly(&question, &core->arena, &plainly);
    filter_ask(&question, &core->arena, &answer);
    assert_as_plainly(&question, &answer, &plainly);
    uint64_t work = (uint64_t)LARGE_NODES * SEARCH_WORK;
    for (uint32_t i = 0; i < answer.n_candidates; i++) {
        const uint32_t steps = answer.candidate[i].rank.steps;
        longer += steps > PLACE_STEPS_MAX;
        work += steps > PLACE_STEPS_MAX ? ((steps - PLACE_STEPS_MAX) * 8 + 999) / 1000 : 0;
    }
    assert_true(longer > 0);
    assert_int_equal(answer.work, work);
    snapshot_unref(snapshot);
}

/* It searches for GPUs that are linked; what is remembered of it does not tell how long. */
CORE_TEST(work__leaves_out_the_steps_of_one_container)
{
    const struct core_gpu gpu[] = {{.index = 0, .peers = 2},
                                   {.index = 1, .peers = 1},
                                   {.index = 2, .peers = 8},
                                   {.index = 3, .peers = 4}};
    struct offer offer = {.milli = 100};
    struct filter_answer answer;

    assert_int_equal(core_node(core, cluster_node(core, 0), gpu, ARRAY_LEN(gpu)), VERDICT_OK);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    struct filter_question question = {
        .snapshot = snapshot, .request = core_request(core, "600x2"), .offer = &offer};
    name_in_turn(core, &question, 1);
    const struct node *node = snapshot_node(snapshot, question.name[0]);
    offer.node = node->name;
    offer.gpu = node->gpu[0].id;
    filter_ask(&question, &core->arena, &answer);
    const uint64_t steps = answer.steps;
    question.n_offers = 1;
    filter_ask(&question, &core->arena, &answer);
    assert_true(steps > 0 && answer.steps > steps);
    assert_int_equal(answer.work, 0);
    snapshot_unref(snapshot);
}
