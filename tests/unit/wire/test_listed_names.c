/*
 * Names that are recognised (name_order.h) and nodes that are judged by what is cached: against the
 * plain way, on random lists, while nodes come, go, change and take the slots of others.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"

#include "support.h"
#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/policy_fixture.h"

enum { CASES = 20000, POOL = 40, LIST_MAX = POOL + 4, UIDS = 12, NAME_MAX = 48 };

struct scene {
    uint64_t seed;
    struct core_fixture core;
    struct name_order *order;
    struct score_cache *cache;
    struct request *request[SHAPES];
    char name[POOL][NAME_MAX];
    uint32_t n_listed;
    uint32_t listed[LIST_MAX]; /* indexes into name; POOL: a name that is unknown */
    struct strbuf body;
    struct text exact; /* the same bytes, with nothing behind them */
    /* How often each was met. */
    uint32_t guessed;
    uint32_t moved;
    uint32_t repeated;
    uint32_t dismissed;
};

static uint32_t below(struct scene *scene, uint32_t most)
{
    return draw_below(&scene->seed, most);
}

/* Short and long names, some of a whole number of blocks, and some that JSON has to escape. */
static void name_all(struct scene *scene)
{
    static const char *const around[][2] = {
        {"n", ""},      {"gpu-a100-", ".zone-1.cluster.internal"}, {"sixteen-bytes-", ""},
        {"q\",\"", ""}, {"back\\", "-and-some-more-bytes-here"},   {"k\xC3\xB6ln-", ""}};
    for (uint32_t i = 0; i < POOL; i++)
        (void)snprintf(scene->name[i], NAME_MAX, "%s%02u%s", around[i % ARRAY_LEN(around)][0], i,
                       around[i % ARRAY_LEN(around)][1]);
}

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.seed = 1};
    core_init(&scene->core);
    scene->order = name_order_new();
    scene->cache = score_cache_new();
    strbuf_init(&scene->body);
    name_all(scene);
    for (uint32_t i = 0; i < SHAPES; i++)
        scene->request[i] = cluster_shape(&scene->core, i);
}

static void scene_done(struct scene *scene)
{
    strbuf_done(&scene->body);
    score_cache_free(scene->cache);
    name_order_free(scene->order);
    core_done(&scene->core);
}

/* --- what happens in the cluster --- */

static void show(struct scene *scene, const char *name)
{
    struct core_gpu gpu[GPUS] = {{.index = 0}};
    const uint32_t gpus = 1 + below(scene, GPUS);

    for (uint32_t i = 0; i < gpus; i++)
        gpu[i] = (struct core_gpu){.index = i, .mib = 16000};
    core_show_quickly(&scene->core, name, gpu, gpus);
}

static void happen(struct scene *scene)
{
    const char *name = scene->name[below(scene, POOL)];
    const struct command gone = {.kind = COMMAND_NODE_GONE, .at_ms = 1, .node = name};
    char uid[16];

    (void)snprintf(uid, sizeof uid, "pod-%u", below(scene, UIDS));
    switch (below(scene, 5)) {
    case 0:
    case 1:
        show(scene, name);
        return;
    case 2:
        (void)core_do_quickly(&scene->core, &gone);
        return;
    case 3:
        (void)core_reserve(&scene->core, uid, name, below(scene, 2) == 0 ? "300" : "1000");
        break;
    default:
        (void)core_step(&scene->core, COMMAND_RELEASE, uid);
        break;
    }
    core_forget_undo(&scene->core);
}

static const struct snapshot *publish(struct scene *scene)
{
    return ledger_publish(scene->core.ledger, NULL, 0);
}

/* --- the list --- */

/* A window of the pool in its order, from anywhere; some are then exchanged, unknown or twice. */
static void draw_list(struct scene *scene)
{
    const uint32_t first = below(scene, POOL);

    scene->n_listed = below(scene, 4) == 0 ? below(scene, POOL + 1) : POOL;
    for (uint32_t i = 0; i < scene->n_listed; i++)
        scene->listed[i] = (first + i) % POOL;
    for (uint32_t more = below(scene, 4); more > 1 && scene->n_listed > 1; more--) {
        const uint32_t a = below(scene, scene->n_listed);
        const uint32_t b = below(scene, scene->n_listed);
        const uint32_t was = scene->listed[a];
        scene->listed[a] = scene->listed[b];
        scene->listed[b] = was;
    }
    if (below(scene, 8) == 0)
        scene->listed[scene->n_listed++] = POOL;
    if (below(scene, 12) == 0 && scene->n_listed > 0) {
        const uint32_t again = below(scene, scene->n_listed);
        scene->listed[scene->n_listed++] = scene->listed[again];
    }
}

static void write_name(struct scene *scene, const char *name)
{
    bool escapes = below(scene, 40) == 0;

    strbuf_str(&scene->body, "\"");
    for (const char *at = name; *at != '\0'; at++) {
        if (escapes && (unsigned char)*at < 0x80)
            strbuf_printf(&scene->body, "\\u%04x", (unsigned)*at);
        else
            strbuf_printf(&scene->body, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
        escapes = false;
    }
    strbuf_str(&scene->body, "\"");
}

static void write_body(struct scene *scene)
{
    strbuf_reset(&scene->body);
    strbuf_str(&scene->body,
               "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"}},\"NodeNames\":[");
    for (uint32_t i = 0; i < scene->n_listed; i++) {
        if (i > 0)
            strbuf_str(&scene->body, below(scene, 60) == 0 ? ", " : ",");
        write_name(scene, scene->listed[i] == POOL ? "nobody" : scene->name[scene->listed[i]]);
    }
    if (below(scene, 30) != 0) /* else it is cut off */
        strbuf_str(&scene->body, "]}");
    char *bytes = xmalloc(scene->body.len);
    memcpy(bytes, scene->body.data, scene->body.len);
    scene->exact = (struct text){bytes, scene->body.len};
}

/* Decodes both ways; false if neither could. */
static bool decode(struct scene *scene, const struct snapshot *snapshot, struct arena *arena,
                   struct extender_args *out)
{
    struct extender_args plain;
    struct err plain_err = {0};
    struct err err = {0};

    name_order_begin(scene->order, snapshot);
    const int failed = extender_args_decode(scene->exact, &rules, scene->order, arena, out, &err);
    assert_int_equal(extender_args_decode(scene->exact, &rules, NULL, arena, &plain, &plain_err),
                     failed);
    assert_string_equal(err.text, plain_err.text);
    scene->repeated += strstr(err.text, "twice") != NULL;
    if (failed != 0)
        return false;
    assert_int_equal(out->n_names, plain.n_names);
    for (uint32_t i = 0; i < plain.n_names; i++) {
        const struct node *node = snapshot_node(snapshot, plain.name[i]);
        assert_true(text_eq(out->name[i], plain.name[i]));
        assert_int_equal(out->hash[i], plain.hash[i]);
        assert_ptr_equal(out->known[i].node, node);
        scene->guessed += node != NULL;
    }
    return true;
}

/* --- the question --- */

static uint32_t draw_offers(struct scene *scene, const struct snapshot *snapshot,
                            struct offer offer[8])
{
    uint32_t count = 0;

    for (uint32_t i = below(scene, 3) == 0 ? 8 : 0; i > 0; i--) {
        const struct node *node = snapshot_node(snapshot, text_of(scene->name[below(scene, POOL)]));
        if (node != NULL && node->n_gpus > 0)
            offer[count++] = (struct offer){node->name, node->gpu[0].id, 100 + below(scene, 900)};
    }
    return count;
}

static void assert_alike(const struct filter_answer *a, const struct filter_answer *b,
                         uint32_t names)
{
    assert_int_equal(a->verdict, b->verdict);
    assert_int_equal(a->fitting, b->fitting);
    assert_int_equal(a->n_candidates, b->n_candidates);
    for (uint32_t i = 0; i < names; i++) {
        assert_int_equal(a->cause[i].why, b->cause[i].why);
        assert_int_equal(a->cause[i].rule, b->cause[i].rule);
    }
    for (uint32_t i = 0; i < a->n_candidates; i++) {
        assert_int_equal(a->candidate[i].name, b->candidate[i].name);
        assert_ptr_equal(a->candidate[i].node, b->candidate[i].node);
        assert_int_equal(a->candidate[i].rank.behind, b->candidate[i].rank.behind);
        assert_memory_equal(a->candidate[i].rank.key, b->candidate[i].rank.key,
                            sizeof a->candidate[i].rank.key);
    }
    if (a->verdict == FILTER_FITS)
        assert_int_equal(a->candidate[0].placement->charge_milli,
                         b->candidate[0].placement->charge_milli);
}

/* listed: the snapshot in which the names were recognised */
static void ask_both_ways(struct scene *scene, const struct snapshot *listed,
                          const struct snapshot *snapshot, struct arena *arena,
                          const struct extender_args *args)
{
    static const uint32_t shortlist[] = {0, 1, 3, 16};
    struct offer offer[8];
    struct filter_answer plain_answer;
    struct filter_answer answer;
    struct filter_question question = {
        .snapshot = snapshot,
        .request = scene->request[below(scene, SHAPES)],
        .uid = TEXT("asking"),
        .n_names = args->n_names,
        .name = args->name,
        .shortlist = shortlist[below(scene, ARRAY_LEN(shortlist))],
        .n_offers = draw_offers(scene, snapshot, offer),
        .offer = offer,
    };

    filter_ask(&question, arena, &plain_answer);
    question.known = args->known;
    question.known_in = listed;
    question.hash = args->hash;
    question.cache = scene->cache;
    const uint64_t found = score_cache_counts(scene->cache).found;
    filter_ask(&question, arena, &answer);
    scene->dismissed += score_cache_counts(scene->cache).found - found > answer.n_candidates;
    assert_alike(&answer, &plain_answer, args->n_names);
}

static void draw_policy(struct scene *scene)
{
    const enum policy_kind kind = (enum policy_kind)below(scene, POLICIES);

    if (below(scene, 2) == 0)
        cluster_set_policy(&scene->core, kind, SHAPES);
    else
        cluster_set_levels(&scene->core, kind, SHAPES);
}

static void one_case(struct scene *scene)
{
    struct arena arena;
    struct extender_args args;

    arena_init(&arena);
    for (uint32_t i = below(scene, 3); i > 0; i--)
        happen(scene);
    const struct snapshot *before = publish(scene);
    draw_list(scene);
    write_body(scene);
    const bool decoded = decode(scene, before, &arena, &args);
    for (uint32_t i = below(scene, 6); i > 2; i--)
        happen(scene);
    const struct snapshot *after = publish(scene);
    if (decoded) {
        ask_both_ways(scene, before, below(scene, 2) == 0 ? before : after, &arena, &args);
        for (uint32_t i = 0; i < args.n_names; i++)
            scene->moved += args.known[i].node != NULL &&
                            args.known[i].node != snapshot_node(after, args.name[i]);
    }
    snapshot_unref(before);
    snapshot_unref(after);
    xfree((char *)(uintptr_t)scene->exact.at);
    arena_done(&arena);
}

TEST(listed_names__answer_alike_however_they_are_found)
{
    static struct scene scene;

    scene_init(&scene);
    for (uint32_t i = 0; i < POOL; i += 2)
        show(&scene, scene.name[i]);
    for (uint32_t i = 0; i < CASES; i++) {
        if (i % 50 == 0)
            draw_policy(&scene);
        one_case(&scene);
    }
    assert_true(scene.guessed > CASES);
    assert_true(scene.moved > CASES / 10);
    assert_true(scene.repeated > CASES / 100);
    assert_true(scene.dismissed > CASES / 20);
    scene_done(&scene);
}

/* The ledger has a name that reads, unescaped, like two names of a list. */
TEST(listed_names__are_not_joined_by_an_odd_name)
{
    static const char *const list[] = {"[\"a\",\"q\\\",\\\"r\"]", "[\"a\",\"q\",\"r\"]"};
    static struct scene scene;
    struct extender_args args;
    struct arena arena;

    scene_init(&scene);
    arena_init(&arena);
    show(&scene, "a");
    show(&scene, "q\",\"r");
    const struct snapshot *snapshot = publish(&scene);
    for (uint32_t i = 0; i < ARRAY_LEN(list); i++) {
        strbuf_reset(&scene.body);
        strbuf_printf(&scene.body,
                      "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"}},\"NodeNames\":%s}",
                      list[i]);
        scene.exact = (struct text){scene.body.data, scene.body.len};
        assert_true(decode(&scene, snapshot, &arena, &args));
        assert_int_equal(args.n_names, 2 + i);
    }
    snapshot_unref(snapshot);
    arena_done(&arena);
    scene_done(&scene);
}
