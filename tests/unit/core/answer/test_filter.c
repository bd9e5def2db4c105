#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/placements.h"
#include "support/test.h"

enum { NAMES_MAX = 64, OFFERS = 24 };

/* One question, with everything that it borrows. */
struct asked {
    struct arena arena;
    struct snapshot *snapshot;
    struct text name[NAMES_MAX];
    struct filter_question question;
    struct filter_answer answer;
};

static void ask_init(struct asked *asked, struct core_fixture *core, const char *words)
{
    *asked = (struct asked){.snapshot = ledger_publish(core->ledger, NULL, 0)};
    arena_init(&asked->arena);
    asked->question = (struct filter_question){
        .snapshot = asked->snapshot,
        .request = core_request(core, words),
        .uid = TEXT("asking"),
        .name = asked->name,
    };
}

static void ask_done(struct asked *asked)
{
    snapshot_unref(asked->snapshot);
    arena_done(&asked->arena);
}

static void ask_about(struct asked *asked, const char *name)
{
    assert_true(asked->question.n_names < NAMES_MAX);
    asked->name[asked->question.n_names++] = text_of(name);
}

static void ask(struct asked *asked)
{
    filter_ask(&asked->question, &asked->arena, &asked->answer);
}

static void one_gpu_node(struct core_fixture *core, const char *name, uint32_t milli)
{
    const struct core_gpu gpu = {.index = 0, .milli = milli, .mib = 8000};
    assert_int_equal(core_node(core, name, &gpu, 1), VERDICT_OK);
}

CORE_TEST(filter__uses_node_objects_for_unknown_names_only)
{
    struct asked asked;
    struct names *names = names_new();
    one_gpu_node(core, "n1", 400);
    const struct gpu gpu = {.id = names_intern(names, TEXT("g")),
                            .model = names_intern(names, TEXT("")),
                            .milli = 1000};
    struct node_build build = {.name = names_intern(names, TEXT("n1")),
                               .uid = names_intern(names, TEXT("")),
                               .problem_text = names_intern(names, TEXT("")),
                               .n_gpus = 1,
                               .gpu = &gpu};
    struct node *known = node_new(&build);
    build.name = names_intern(names, TEXT("new"));
    struct node *unknown = node_new(&build);

    const struct node *given[16] = {unknown, known, unknown};
    ask_init(&asked, core, "600");
    ask_about(&asked, "new");
    ask_about(&asked, "n1");
    ask_about(&asked, "new");
    while (asked.question.n_names < ARRAY_LEN(given))
        ask_about(&asked, "newer");
    asked.question.node = given;
    ask(&asked);
    assert_int_equal(asked.answer.n_candidates, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(asked.answer.candidate[i].node, unknown);
        assert_int_equal(asked.answer.candidate[i].name, 2 * i);
    }
    assert_int_equal(asked.answer.cause[1].why, REASON_SMALL); /* the node of the ledger is used */
    assert_int_equal(asked.answer.cause[3].why, REASON_UNKNOWN_NODE);
    ask_done(&asked);
    node_unref(known);
    node_unref(unknown);
    names_free(names);
}

CORE_TEST(reservation__is_looked_for_among_the_asked_names_only)
{
    struct asked asked;
    one_gpu_node(core, "n1", 1000);
    assert_int_equal(core_reserve(core, "asking", "n1", "300"), VERDICT_OK);
    ask_init(&asked, core, "300");
    ask_about(&asked, "n2");
    ask_about(&asked, "n1");
    asked.question.n_names = 1;
    ask(&asked);
    assert_int_equal(asked.answer.verdict, FILTER_HELD_ELSEWHERE);
    assert_int_equal(asked.answer.n_candidates, 0);
    ask_done(&asked);
}

CORE_TEST(score__falls_evenly_from_10)
{
    struct asked asked;
    for (uint32_t i = 0; i < 40; i++) {
        char *name = arena_printf(&core->arena, "node-%02u", i);
        one_gpu_node(core, name, 100 + i);
    }
    static const uint32_t counts[] = {1, 2, 3, 11, 21, 40};
    for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
        uint8_t score[NAMES_MAX];
        uint32_t times[11] = {0};
        ask_init(&asked, core, "100");
        ask_about(&asked, "unknown");
        for (uint32_t i = 0; i < counts[c]; i++)
            ask_about(&asked, arena_printf(&core->arena, "node-%02u", counts[c] - 1 - i));
        ask_about(&asked, "unknown too");
        asked.question.shortlist = 1; /* every node gets a score */
        memset(score, 77, sizeof score);
        filter_score(&asked.question, &asked.arena, score);
        assert_int_equal(score[0], 0);
        assert_int_equal(score[counts[c] + 1], 0);
        assert_int_equal(score[counts[c]], 10); /* node-00, the tightest */
        for (uint32_t i = 1; i <= counts[c]; i++) {
            assert_true(score[i] <= 10 && (i == 1 || score[i] >= score[i - 1]));
            times[score[i]]++;
        }
        assert_int_equal(times[10], 1);
        for (uint32_t s = 0; s < 10; s++) /* scores are spread evenly over 0 to 9 */
            assert_in_range(times[s], (counts[c] - 1) / 10, (counts[c] - 1 + 9) / 10);
        ask_done(&asked);
    }
}

struct reported {
    uint32_t count;
    char name[NAMES_MAX][16];
    char text[NAMES_MAX][300];
};

static void report(void *user, struct text name, const char *text)
{
    struct reported *reported = user;
    (void)snprintf(reported->name[reported->count], sizeof reported->name[0], "%.*s",
                   TEXT_ARG(name));
    (void)snprintf(reported->text[reported->count++], sizeof reported->text[0], "%s", text);
}

CORE_TEST(refusals__are_one_per_node_or_one_per_text)
{
    struct asked asked;
    struct reported reported = {0};
    struct refusal room;
    const struct core_gpu sick = {.index = 0, .mib = 8000, .sick = true};
    one_gpu_node(core, "n1", 1000);
    one_gpu_node(core, "n2", 600);
    one_gpu_node(core, "n3", 400);
    assert_int_equal(core_reserve(core, "a", "n1", "600"), VERDICT_OK);
    assert_int_equal(core_reserve(core, "b", "n2", "200"), VERDICT_OK);
    assert_int_equal(core_node(core, "n4", &sick, 1), VERDICT_OK);
    ask_init(&asked, core, "500");
    static const char *const names[] = {"n3", "n1", "n2", "n4", "nobody"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ask_about(&asked, names[i]);
    ask(&asked);
    assert_int_equal(asked.answer.verdict, FILTER_NONE);
    request_refuse(asked.question.request, REASON_ROOM, &room);

    filter_refusals(&asked.question, &asked.answer, 5, &reported, report);
    assert_int_equal(reported.count, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_string_equal(reported.name[i], names[i]);
    assert_string_equal(reported.text[1], room.text);
    assert_string_equal(reported.text[3], room.text); /* unhealthy is temporary: the same text */

    reported.count = 0;
    filter_refusals(&asked.question, &asked.answer, 4, &reported, report);
    assert_int_equal(reported.count, 3);
    assert_string_equal(reported.name[0], "n3");
    assert_string_equal(reported.name[1], "n1");
    assert_string_equal(reported.name[2], "nobody");
    assert_memory_equal(reported.text[1], room.text, strlen(room.text));
    assert_string_equal(reported.text[1] + strlen(room.text), " (one entry for all such nodes)");

    reported.count = 0;
    assert_int_equal(core_step(core, COMMAND_RELEASE, "a"), VERDICT_OK);
    snapshot_unref(asked.snapshot);
    asked.snapshot = ledger_publish(core->ledger, NULL, 0);
    asked.question.snapshot = asked.snapshot;
    ask(&asked);
    filter_refusals(&asked.question, &asked.answer, 100, &reported, report);
    assert_int_equal(reported.count, 0); /* something fits: the others are not reported */
    ask_done(&asked);
}

/*
 * Compared with an oracle that ranks all names one by one
 */

struct judged {
    uint32_t name;
    const struct node *node;
    bool behind;
    struct placement placement;
};

static int judged_cmp(const void *left, const void *right)
{
    const struct judged *a = left;
    const struct judged *b = right;
    if (a->behind != b->behind)
        return a->behind - b->behind;
    return placement_cmp(&a->placement, a->node->name, &b->placement, b->node->name);
}

static uint32_t judge_all(const struct asked *asked, struct judged *judged)
{
    const struct filter_question *question = &asked->question;
    uint32_t fitting = 0;

    for (uint32_t i = 0; i < question->n_names; i++) {
        struct judged *one = &judged[fitting];
        struct room room;
        *one =
            (struct judged){.name = i, .node = snapshot_node(asked->snapshot, question->name[i])};
        if (one->node == NULL)
            continue;
        room_of(one->node, &room);
        if (place_search(&room, question->request, &one->placement) != REASON_NONE)
            continue;
        for (uint32_t g = 0; g < question->n_offers; g++)
            for (uint32_t k = 0; k < one->node->n_gpus; k++)
                if (question->offer[g].node == one->node->name &&
                    question->offer[g].gpu == one->node->gpu[k].id)
                    room_take(&room, k, question->offer[g].milli);
        struct placement touched;
        if (place_search(&room, question->request, &touched) == REASON_NONE)
            one->placement = touched;
        else
            one->behind = true;
        fitting++;
    }
    qsort(judged, fitting, sizeof *judged, judged_cmp);
    return fitting;
}

static void draw_world(uint64_t *seed, struct core_fixture *core, uint32_t nodes)
{
    for (uint32_t n = 0; n < nodes; n++) {
        struct core_gpu gpu[4];
        const uint32_t gpus = draw_below(seed, 5);
        for (uint32_t i = 0; i < gpus; i++) {
            gpu[i] = (struct core_gpu){.index = i, .mib = 8000};
            gpu[i].sick = draw_below(seed, 15) == 0;
            gpu[i].cordoned = draw_below(seed, 15) == 0;
            if (draw_below(seed, 6) == 0)
                gpu[i].milli = 500;
        }
        const char *name = arena_printf(&core->arena, "node-%02u", n);
        (void)core_node(core, name, gpu, gpus);
        for (uint32_t p = 0; p < 4; p++) {
            const uint32_t milli = 100 * (1 + draw_below(seed, 6));
            (void)core_reserve(core, arena_printf(&core->arena, "%s-%u", name, p), name,
                               arena_printf(&core->arena, "%u", milli));
        }
    }
}

static void draw_question(uint64_t *seed, struct asked *asked, struct offer *offer)
{
    const uint32_t names = 1 + draw_below(seed, 30);
    for (uint32_t i = 0; i < names; i++)
        ask_about(asked, arena_printf(&asked->arena, "node-%02u", (i * 7 + names) % 32));
    asked->question.offer = offer;
    const uint32_t offers = draw_below(seed, 2) * draw_below(seed, OFFERS + 1);
    for (uint32_t i = 0; i < offers; i++) {
        const uint32_t at = draw_below(seed, names);
        const struct node *node = snapshot_node(asked->snapshot, asked->name[at]);
        if (node == NULL || node->n_gpus == 0)
            continue;
        const struct gpu *gpu = &node->gpu[draw_below(seed, node->n_gpus)];
        const uint32_t milli = 100 * (1 + draw_below(seed, 9));
        offer[asked->question.n_offers++] = (struct offer){node->name, gpu->id, milli};
    }
}

static void assert_as_judged(const struct asked *asked, const struct judged *judged,
                             uint32_t fitting)
{
    const struct filter_answer *answer = &asked->answer;
    const uint32_t shortlist = asked->question.shortlist;
    const uint32_t listed = shortlist > 0 && shortlist < fitting ? shortlist : fitting;

    assert_int_equal(answer->fitting, fitting);
    assert_int_equal(answer->n_candidates, listed);
    assert_int_equal(answer->verdict, fitting > 0 ? FILTER_FITS : FILTER_NONE);
    for (uint32_t i = 0; i < listed; i++) {
        assert_int_equal(answer->candidate[i].name, judged[i].name);
        assert_int_equal(answer->candidate[i].rank.behind, judged[i].behind);
        assert_int_equal(answer->candidate[i].rank.charge_milli, judged[i].placement.charge_milli);
        assert_int_equal(answer->candidate[i].rank.left_milli, judged[i].placement.left_milli);
    }
    if (listed > 0)
        assert_int_equal(placement_cmp(answer->candidate[0].placement, judged[0].node->name,
                                       &judged[0].placement, judged[0].node->name),
                         0);
}

CORE_TEST(filter__equals_a_plain_ranking)
{
    static const char *const request_classes[] = {
        "100",     "300",          "600",   "1000",    "2000",          "300x2",
        "400+400", "i700+400+400", "200x3", "900+100", "s100+i500+300", "4000"};
    static struct judged judged[NAMES_MAX];
    const char *env = getenv("FILTER_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 42;
    print_message("FILTER_SEED=%llu\n", (unsigned long long)seed);
    draw_world(&seed, core, 28);

    uint32_t seen[2] = {0};
    uint32_t behind = 0;
    uint32_t reordered = 0;
    for (int i = 0; i < 3000; i++) {
        struct asked asked;
        struct offer offer[OFFERS];
        uint32_t hash[NAMES_MAX];
        ask_init(&asked, core, request_classes[draw_below(&seed, ARRAY_LEN(request_classes))]);
        draw_question(&seed, &asked, offer);
        asked.question.shortlist = draw_below(&seed, 6);
        const uint32_t fitting = judge_all(&asked, judged);
        ask(&asked);
        assert_as_judged(&asked, judged, fitting);
        const struct filter_answer first = asked.answer;
        for (uint32_t k = 0; k < asked.question.n_names; k++)
            hash[k] = text_hash(asked.name[k]);
        asked.question.hash = hash;
        ask(&asked); /* I5: the same question, the same answer; hashes change nothing */
        assert_as_judged(&asked, judged, fitting);
        assert_memory_equal(first.cause, asked.answer.cause,
                            asked.question.n_names * sizeof first.cause[0]);
        asked.question.n_offers = 0; /* offers change only the order */
        ask(&asked);
        assert_int_equal(asked.answer.fitting, fitting);
        assert_memory_equal(first.cause, asked.answer.cause,
                            asked.question.n_names * sizeof first.cause[0]);
        seen[fitting > 0]++;
        behind += fitting > 0 && judged[fitting - 1].behind;
        reordered += fitting > 0 && asked.answer.candidate[0].name != first.candidate[0].name;
        ask_done(&asked);
    }
    assert_true(seen[0] > 100 && seen[1] > 1000 && behind > 100 && reordered > 100);
}

/*
 * No request is expensive (counted in steps; bench/bench_worst.c measures the time)
 */

enum { UNLIKE_NODES = 5000, UNLIKE_GPUS = 8 };

struct unlike {
    struct snapshot *snapshot;
    const struct node *node[UNLIKE_NODES];
    struct text name[UNLIKE_NODES];
};

static const struct node *unlike_node(struct core_fixture *core, const struct atom *name,
                                      uint64_t *seed)
{
    struct names *names = ledger_names(core->ledger);
    static const char *const model[] = {"T4", "L40S", "A100-SXM4-40GB", "H100-80GB-HBM3"};
    struct gpu gpu[UNLIKE_GPUS];
    struct share share[UNLIKE_GPUS];

    for (uint16_t i = 0; i < UNLIKE_GPUS; i++) {
        gpu[i] = (struct gpu){
            .id = names_intern(names,
                               text_of(arena_printf(&core->arena, "%s-gpu-%u", name->text, i))),
            .model = names_intern(names, text_of(model[i % ARRAY_LEN(model)])),
            .milli = GPU_MILLI,
            .mib = 81920,
            .index = i,
            .numa = -1};
        share[i] =
            (struct share){.container = "c", .gpu = gpu[i].id, .milli = 1 + draw_below(seed, 400)};
    }
    const struct allocation_facts facts = {.uid = "u",
                                           .namespace = "default",
                                           .name = "p",
                                           .node = name,
                                           .state = STATE_BOUND,
                                           .origin = ORIGIN_ADOPTED,
                                           .n_shares = UNLIKE_GPUS,
                                           .share = share};
    const struct allocation *pod = allocation_new(&facts);
    const struct node_build build = {.name = name,
                                     .uid = names_intern(names, TEXT("u")),
                                     .problem_text = names_intern(names, TEXT("")),
                                     .n_gpus = UNLIKE_GPUS,
                                     .gpu = gpu,
                                     .n_allocations = 1,
                                     .allocation = &pod};
    const struct node *node = node_new(&build);
    allocation_unref(pod);
    return node;
}

static struct unlike *unlike_new(struct core_fixture *core)
{
    struct unlike *unlike = xcalloc(1, sizeof *unlike);
    uint64_t seed = 42;

    unlike->snapshot = ledger_publish(core->ledger, NULL, 0);
    for (uint32_t i = 0; i < UNLIKE_NODES; i++) {
        const char *name = arena_printf(&core->arena, "unlike-%u", i);
        unlike->node[i] =
            unlike_node(core, names_intern(ledger_names(core->ledger), text_of(name)), &seed);
        unlike->name[i] = text_of(name);
    }
    return unlike;
}

static void unlike_free(struct unlike *unlike)
{
    for (uint32_t i = 0; i < UNLIKE_NODES; i++)
        node_unref(unlike->node[i]);
    snapshot_unref(unlike->snapshot);
    xfree(unlike);
}

static void ask_unlike(const struct unlike *unlike, const struct request *request, uint32_t names,
                       struct arena *arena, struct filter_answer *out)
{
    const struct filter_question question = {.snapshot = unlike->snapshot,
                                             .request = request,
                                             .n_names = names,
                                             .name = unlike->name,
                                             .node = unlike->node,
                                             .shortlist = 16};

    filter_ask(&question, arena, out);
    assert_true(out->verdict == FILTER_FITS || out->verdict == FILTER_NONE);
}

/*
 * For any request, the greedy pass and the bound look at each GPU once per container, or the search
 * stays within its budget.
 */
CORE_TEST(steps__of_the_dearest_requests_are_bounded)
{
    static const struct {
        uint32_t wants;
        uint32_t parts;
        uint32_t milli;
        uint32_t step;
    } dear[] = {{6, 2, 211, 37}, {6, 2, 60, 1},  {4, 8, 70, 7},    {120, 1, 2, 1},
                {128, 4, 1, 0},  {64, 1, 60, 1}, {12, 1, 401, 13}, {12, 2, 215, 20}};
    static const uint32_t nodes[] = {1000, UNLIKE_NODES};
    struct unlike *unlike = unlike_new(core);
    struct want want[CONTAINERS_MAX];
    struct arena arena;
    uint64_t most = 0;

    arena_init(&arena);
    for (size_t i = 0; i < ARRAY_LEN(dear); i++) {
        const struct request request = {.n_wants = dear[i].wants, .want = want};
        for (uint32_t w = 0; w < dear[i].wants; w++)
            want[w] = (struct want){.container = "c",
                                    .parts = dear[i].parts,
                                    .milli = dear[i].milli + w * dear[i].step};
        const uint64_t greedy = 1 + dear[i].wants * (2 * UNLIKE_GPUS + dear[i].parts);
        const uint64_t each = greedy > PLACE_STEPS_MAX ? greedy : PLACE_STEPS_MAX;
        for (size_t k = 0; k < ARRAY_LEN(nodes); k++) {
            struct filter_answer answer;
            struct filter_answer again;
            ask_unlike(unlike, &request, nodes[k], &arena, &answer);
            assert_true(answer.steps > 0 && answer.steps <= nodes[k] * each);
            most = answer.steps > most ? answer.steps : most;
            ask_unlike(unlike, &request, nodes[k], &arena, &again);
            assert_int_equal(again.fitting, answer.fitting); /* the same answer in the same steps */
            assert_int_equal(again.steps, answer.steps);
            arena_reset(&arena);
        }
    }
    assert_true(most > (uint64_t)UNLIKE_NODES * PLACE_STEPS_MAX / 4);
    arena_done(&arena);
    unlike_free(unlike);
}

/* On some of the nodes, the search for it ends before it is exact, or finds nothing. */
static const struct request *unlike_request(struct core_fixture *core)
{
    struct request *request = core_request(core, NULL);

    for (; request->n_wants < 12; request->n_wants++)
        request->want[request->n_wants] = (struct want){.container = "c",
                                                        .parts = 1 + request->n_wants % 3,
                                                        .milli = 160 + 17 * request->n_wants};
    return request;
}

/*
 * The later searches are as strong as filter's: bind finds what filter accepted on a node, and
 * wake-up accepts what filter accepts.
 */
CORE_TEST(bind__finds_each_place_that_filter_accepts)
{
    struct unlike *unlike = unlike_new(core);
    const struct request *request = unlike_request(core);
    struct arena arena;
    struct filter_answer answer;
    uint32_t inexact = 0;
    uint32_t unsearched = 0;

    arena_init(&arena);
    ask_unlike(unlike, request, 1000, &arena, &answer);
    for (uint32_t i = 0; i < 1000; i++) {
        struct room room;
        struct placement placement;
        room_of(unlike->node[i], &room);
        const enum reason why = place_search(&room, request, &placement);
        assert_int_equal(why, answer.cause[i].why);
        inexact += why == REASON_NONE && !placement.exact;
        unsearched += why == REASON_UNSEARCHED;
    }
    assert_true(inexact > 0 && unsearched > 0);
    arena_done(&arena);
    unlike_free(unlike);
}

/* Six containers on two GPUs each, which do not fit on the cheaper GPUs of a node alone. */
static const struct request *dear_request(struct core_fixture *core)
{
    struct request *request = core_request(core, NULL);

    for (; request->n_wants < 6; request->n_wants++)
        request->want[request->n_wants] =
            (struct want){.container = "c", .parts = 2, .milli = 211 + 37 * request->n_wants};
    return request;
}

static void know_prices(struct core_fixture *core)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "prices");

    book->prices_by = PRICES_KNOWN;
    core_obey(core, book, 0, NULL);
}

/* Searches with cheaper GPUs only order nodes: they end with the work, and nothing else changes. */
CORE_TEST(steps__with_prices_end_with_the_work_of_the_question)
{
    const uint64_t work_max = policy_work_max(UNLIKE_NODES);
    const uint64_t paid = (uint64_t)UNLIKE_NODES * SEARCH_WORK;
    const struct request *request = dear_request(core);
    struct filter_answer answer;
    struct filter_answer plain;
    struct arena arena;
    struct unlike *unlike = unlike_new(core);

    arena_init(&arena);
    ask_unlike(unlike, request, UNLIKE_NODES, &arena, &plain);
    unlike_free(unlike);
    know_prices(core);
    unlike = unlike_new(core);
    ask_unlike(unlike, request, UNLIKE_NODES, &arena, &answer);
    assert_true(answer.work >= work_max && answer.work < work_max + 100);
    assert_true(answer.steps > plain.steps);
    assert_true(answer.steps < plain.steps + (answer.work - paid + UNLIKE_NODES) * 125);
    assert_true(answer.steps < plain.steps * 3 / 2);
    assert_true(answer.fitting > 0);
    assert_int_equal(answer.fitting, plain.fitting);
    for (uint32_t i = 0; i < UNLIKE_NODES; i++)
        assert_int_equal(answer.cause[i].why, plain.cause[i].why);
    arena_done(&arena);
    unlike_free(unlike);
}

/* The last node is not searched again beside its offer, but comes behind the others. */
CORE_TEST(offers__cost_no_steps_once_the_work_is_used_up)
{
    know_prices(core);
    struct unlike *unlike = unlike_new(core);
    struct offer offer = {.milli = 1};
    struct filter_question question = {.snapshot = unlike->snapshot,
                                       .request = dear_request(core),
                                       .n_names = UNLIKE_NODES,
                                       .name = unlike->name,
                                       .node = unlike->node,
                                       .offer = &offer};
    struct filter_answer answer;
    struct filter_answer again;
    struct arena arena;
    uint32_t last = UNLIKE_NODES;

    arena_init(&arena);
    filter_ask(&question, &arena, &answer);
    while (answer.cause[--last].why != REASON_NONE)
        ;
    offer.node = unlike->node[last]->name;
    offer.gpu = unlike->node[last]->gpu[0].id;
    question.n_offers = 1;
    filter_ask(&question, &arena, &again);
    assert_int_equal(again.steps, answer.steps);
    assert_int_equal(again.fitting, answer.fitting);
    const struct candidate *behind = &again.candidate[again.n_candidates - 1];
    assert_int_equal(behind->name, last);
    assert_true(behind->rank.behind && behind->rank.is_unscored);
    arena_done(&arena);
    unlike_free(unlike);
}

/* Three GPUs whose pods still run were replaced, and the node shows as many others as may be. */
CORE_TEST(offers__on_gpus_that_a_room_leaves_out_change_nothing)
{
    struct core_gpu gpu[GPUS_PER_NODE_MAX];
    struct asked asked;
    struct offer offer = {.milli = 1000};

    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        gpu[i] = (struct core_gpu){.id = arena_printf(&core->arena, "GPU-a%u", i), .index = i};
    core_show_quickly(core, "n", gpu, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(core_reserve(core, gpu[i].id, "n", "1000"), VERDICT_OK);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        gpu[i].id = arena_printf(&core->arena, "GPU-b%u", i);
    core_show_quickly(core, "n", gpu, GPUS_PER_NODE_MAX);
    const struct node *node = ledger_node(core->ledger, TEXT("n"));
    assert_int_equal(node->n_gpus, GPUS_PER_NODE_MAX + 3);
    ask_init(&asked, core, "300");
    ask_about(&asked, "n");
    offer.node = node->name;
    asked.question.n_offers = 1;
    asked.question.offer = &offer;
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        offer.gpu = node->gpu[i].id;
        ask(&asked);
        assert_int_equal(asked.answer.n_candidates, 1);
        assert_false(asked.answer.candidate[0].rank.behind);
    }
    ask_done(&asked);
}

CORE_TEST(steps__are_of_one_search_for_equal_nodes)
{
    struct asked asked;
    for (uint32_t n = 0; n < 20; n++) {
        const struct core_gpu gpu[] = {{.index = 0}, {.index = 1}, {.index = 2}};
        char *node = arena_printf(&core->arena, "n%02u", n);
        assert_int_equal(core_node(core, node, gpu, 3), VERDICT_OK);
    }
    ask_init(&asked, core, "300+600");
    ask_about(&asked, "n00");
    ask(&asked);
    const uint64_t one = asked.answer.steps;
    assert_true(one > 0);
    for (uint32_t n = 1; n < 20; n++)
        ask_about(&asked, arena_printf(&core->arena, "n%02u", n));
    ask(&asked);
    assert_int_equal(asked.answer.fitting, 20);
    assert_int_equal(asked.answer.steps, one);
    assert_int_equal(asked.answer.work, 20 * SEARCH_WORK); /* paid for each name */
    const struct node *touched = snapshot_node(asked.snapshot, TEXT("n07"));
    struct offer offer = {touched->name, touched->gpu[0].id, 300};
    asked.question.n_offers = 1;
    asked.question.offer = &offer;
    ask(&asked); /* offers make it a different room */
    assert_in_range(asked.answer.steps, one + 1, PLACE_STEPS_MAX);
    ask_done(&asked);
}

CORE_TEST(steps__are_0_for_one_container)
{
    struct asked asked;
    const struct core_gpu gpu[] = {{.index = 0}, {.index = 1}};

    assert_int_equal(core_node(core, "n1", gpu, 2), VERDICT_OK);
    ask_init(&asked, core, "300");
    ask_about(&asked, "n1");
    ask(&asked);
    assert_int_equal(asked.answer.fitting, 1);
    assert_int_equal(asked.answer.steps, 0);
    assert_int_equal(asked.answer.work, 0);
    ask_done(&asked);
}

CORE_TEST(explanation__says_that_the_search_was_cut_short)
{
    struct unlike *unlike = unlike_new(core);
    const struct request *request = unlike_request(core);
    bool fits = false;
    bool refused = false;
    for (uint32_t i = 0; i < 1000; i++) {
        char text[256];
        filter_explain(NULL, unlike->node[i], request, text, sizeof text);
        fits = fits || strstr(text, "fits, not searched to the end: there may be a tighter "
                                    "place; largest free piece ") == text;
        refused = refused || strstr(text, "unsearched: no place was found, not searched to the "
                                          "end; largest free piece ") == text;
    }
    assert_true(fits && refused);
    unlike_free(unlike);
}
