/* Runs place.txt, policy.txt and prices.txt beside it; the language is described at their tops. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rank/policy.h"

#include "core/rank/policy_internal.h"
#include "support/sentences.h"
#include "support/test.h"
#include "support/valid.h"

enum { WORDS_MAX = 96, NODES = 16, GPUS = 8, PODS = 160, CLASSES = 16, PRICES = 16 };

/* The parts of a node, which is rebuilt for every sentence that adds to it. */
struct made {
    const char *name;
    struct gpu gpu[GPUS];
    uint32_t n_gpus;
    struct gpu_note note[GPUS];
    uint32_t n_notes;
    const struct allocation *pod[PODS];
    uint32_t n_pods;
    enum plugin_state plugin;
    enum vouch vouch;
    bool host_known;
    struct host host;
    struct node *node;
};

struct table {
    const char *file;
    struct arena arena; /* for what the sentences say */
    struct names *names;
    struct made made[NODES];
    uint32_t n_nodes;
    uint32_t line;
    const char *word[WORDS_MAX + 1];
    uint32_t at; /* the next word */
    uint32_t reached[REASONS];
    enum policy_kind policy;
    uint32_t seed;
    enum price_mode prices_by;
    struct model_price price[PRICES];
    uint32_t n_prices;
    bool raise;
    struct workload_class class[CLASSES];
    uint32_t n_classes;
};

static void name_line(const struct table *table)
{
    print_error("%s:%u: ", table->file, table->line);
}

static void fail_at_line(const struct table *table)
{
    fail_msg("\n%s:%u", table->file, table->line);
}

#define WRONG(table, ...)                                                                          \
    do {                                                                                           \
        name_line(table);                                                                          \
        print_error(__VA_ARGS__);                                                                  \
        fail_at_line(table);                                                                       \
    } while (0)

static const struct atom *atom(const struct table *table, const char *text)
{
    return names_intern(table->names, text_of(text));
}

/*
 * Words
 */

static bool has_more(const struct table *table)
{
    return table->word[table->at] != NULL;
}

static bool next_is(struct table *table, const char *word)
{
    if (!has_more(table) || strcmp(table->word[table->at], word) != 0)
        return false;
    table->at++;
    return true;
}

static const char *next(struct table *table)
{
    if (!has_more(table))
        WRONG(table, "something is missing at the end");
    return table->word[table->at++];
}

static uint32_t number(struct table *table)
{
    const char *word = next(table);
    char *end = NULL;
    const unsigned long value = strtoul(word, &end, 10);
    if (*end != '\0' || end == word)
        WRONG(table, "'%s' is no number", word);
    return (uint32_t)value;
}

static void need(struct table *table, const char *word)
{
    if (!next_is(table, word))
        WRONG(table, "'%s' was expected, not '%s'", word, has_more(table) ? next(table) : "");
}

/* A comma is a word of its own. */
static void split(struct table *table, char *text)
{
    uint32_t words = 0;
    char *remaining = NULL;
    char *spaced = arena_alloc(&table->arena, 2 * strlen(text) + 1);
    char *out = spaced;

    for (const char *c = text; *c != '\0'; c++) {
        if (*c == ',')
            *out++ = ' ';
        *out++ = *c;
    }
    for (char *word = strtok_r(spaced, " ", &remaining); word != NULL;
         word = strtok_r(NULL, " ", &remaining)) {
        assert_true(words < WORDS_MAX);
        table->word[words++] = word;
    }
    table->word[words] = NULL;
    table->at = 0;
}

/*
 * Nodes
 */

static struct made *find_made(struct table *table, const char *name)
{
    for (uint32_t i = 0; i < table->n_nodes; i++)
        if (strcmp(table->made[i].name, name) == 0)
            return &table->made[i];
    return NULL;
}

static void add_pod(struct table *table, struct made *made, const struct share *share,
                    uint32_t held, uint32_t unplaced)
{
    const char *uid = arena_printf(&table->arena, "%s-%03u", made->name, made->n_pods);
    const struct allocation_facts facts = {
        .uid = uid,
        .namespace = "default",
        .name = uid,
        .node = atom(table, made->name),
        .state = STATE_BOUND,
        .origin = ORIGIN_ADOPTED,
        .held_gpus = held,
        .unplaced_milli = unplaced,
        .n_shares = share != NULL,
        .share = share,
    };
    assert_true(made->n_pods < PODS);
    made->pod[made->n_pods++] = allocation_new(&facts);
}

static void use(struct table *table, struct made *made, const struct gpu *gpu, uint32_t milli,
                uint32_t mib)
{
    const struct share share = {.container = "c", .gpu = gpu->id, .milli = milli, .mib = mib};
    if (milli > 0)
        add_pod(table, made, &share, 0, 0);
}

static void read_words_of_gpu(struct table *table, struct made *made, struct gpu *gpu,
                              bool *crowded)
{
    static const struct {
        const char *word;
        enum gpu_flag flag;
    } flag[] = {{"absent", GPU_ABSENT},
                {"unhealthy", GPU_UNHEALTHY},
                {"cordoned", GPU_CORDONED},
                {"duplicate", GPU_DUPLICATE}};

    while (has_more(table) && strcmp(table->word[table->at], ",") != 0) {
        if (next_is(table, "crowded")) {
            *crowded = true;
            continue;
        }
        if (next_is(table, "held")) {
            made->note[made->n_notes++] = (struct gpu_note){.gpu = gpu->id, .held = "process"};
            continue;
        }
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(flag) && !known; i++) {
            known = next_is(table, flag[i].word);
            gpu->flags |= known ? (uint16_t)flag[i].flag : 0;
        }
        if (!known)
            gpu->model = atom(table, next(table));
    }
}

static void read_gpu(struct table *table, struct made *made)
{
    struct gpu *gpu = &made->gpu[made->n_gpus];
    const uint32_t free_milli = number(table);
    bool crowded = false;

    *gpu = (struct gpu){.model = atom(table, ""), .milli = GPU_MILLI, .numa = -1};
    gpu->id = atom(table, arena_printf(&table->arena, "%s/gpu-%u", made->name, made->n_gpus));
    gpu->index = (uint16_t)made->n_gpus++;
    if (next_is(table, "of"))
        gpu->milli = number(table);
    if (free_milli > gpu->milli)
        WRONG(table, "more is free than there is");
    const uint32_t used = gpu->milli - free_milli;
    uint32_t used_mib = 0;
    if (next_is(table, "with")) {
        gpu->mib = number(table);
        used_mib = inventory_share_mib(gpu->mib, gpu->milli, used);
        if (next_is(table, "of")) {
            const uint32_t free_mib = gpu->mib;
            gpu->mib = number(table);
            used_mib = gpu->mib - free_mib;
        }
        need(table, "MiB");
        if (used == 0 && used_mib > 0)
            WRONG(table, "nobody holds MiB without milli");
    }
    read_words_of_gpu(table, made, gpu, &crowded);
    const uint32_t others = crowded ? CHARGES_PER_GPU_MAX - 1 : 0;
    for (uint32_t i = 0; i < others; i++)
        use(table, made, gpu, 1, 0);
    use(table, made, gpu, used - others, used_mib);
}

static void rebuild(struct table *table, struct made *made)
{
    const struct node_build build = {
        .name = atom(table, made->name),
        .uid = atom(table, "uid"),
        .problem_text = atom(table, ""),
        .n_gpus = made->n_gpus,
        .gpu = made->gpu,
        .plugin = {.state = made->plugin},
        .vouch = made->vouch,
        .n_notes = made->n_notes,
        .note = made->note,
        .n_allocations = made->n_pods,
        .allocation = made->pod,
        .host_known = made->host_known,
        .host = made->host,
    };
    node_unref(made->node);
    made->node = node_new(&build);
    node_assert_valid(made->node);
}

static struct host read_host(struct table *table)
{
    struct host host;

    host.cpu_milli = number(table);
    need(table, "millicores");
    need(table, "and");
    host.memory_mib = number(table);
    need(table, "MiB");
    return host;
}

/* "0 1 2, 4 5": the GPUs of each group are linked with each other, or are on a NUMA node. */
static void read_groups(struct table *table, struct made *made, bool linked)
{
    for (int16_t group = 0; has_more(table); group++) {
        uint64_t set = 0;
        do
            set |= (uint64_t)1 << number(table);
        while (has_more(table) && !next_is(table, ","));
        assert_true(set < (uint64_t)1 << made->n_gpus);
        for (uint32_t i = 0; i < made->n_gpus; i++) {
            if ((set >> i & 1) == 0)
                continue;
            if (linked)
                made->gpu[i].peers |= set & ~((uint64_t)1 << i);
            else
                made->gpu[i].numa = group;
        }
    }
}

static void run_node(struct table *table)
{
    const char *name = next(table);
    struct made *made = find_made(table, name);
    if (made == NULL) {
        assert_true(table->n_nodes < NODES);
        made = &table->made[table->n_nodes++];
        *made = (struct made){.name = name};
    }
    if (next_is(table, "leaves")) {
        made->host_known = true;
        made->host = read_host(table);
    } else if (next_is(table, "links")) {
        read_groups(table, made, true);
    } else if (next_is(table, "parts")) {
        read_groups(table, made, false);
    } else if (next_is(table, "misses")) {
        need(table, "its");
        need(table, "plugin");
        made->plugin = PLUGIN_DOWN;
    } else if (next_is(table, "is")) {
        need(table, "not");
        need(table, "vouched");
        need(table, "for");
        made->vouch = VOUCH_GONE;
    } else if (next_is(table, "holds")) {
        if (next_is(table, "other")) {
            need(table, "GPUs");
            add_pod(table, made, NULL, 1, 0);
        } else {
            need(table, "a");
            need(table, "lost");
            need(table, "pod");
            add_pod(table, made, NULL, 0, 300);
        }
    } else {
        need(table, "has");
        if (!next_is(table, "nothing"))
            do
                read_gpu(table, made);
            while (next_is(table, ","));
    }
    rebuild(table, made);
}

static void forget_nodes(struct table *table)
{
    for (uint32_t i = 0; i < table->n_nodes; i++) {
        node_unref(table->made[i].node);
        while (table->made[i].n_pods > 0)
            allocation_unref(table->made[i].pod[--table->made[i].n_pods]);
    }
    table->n_nodes = 0;
}

/*
 * Pods
 */

static void read_want(struct table *table, struct request *request)
{
    struct want *want = &request->want[request->n_wants];
    assert_true(request->n_wants < CONTAINERS_MAX);

    *want = (struct want){.parts = 1};
    want->container = arena_printf(&table->arena, "c%u", request->n_wants++);
    if (next_is(table, "init"))
        want->kind = CONTAINER_INIT;
    else if (next_is(table, "sidecar"))
        want->kind = CONTAINER_SIDECAR;
    want->milli = number(table);
    if (next_is(table, "x")) {
        want->parts = want->milli;
        want->milli = number(table);
    } else if (next_is(table, "whole")) {
        request->whole = want->milli;
        request->n_wants--;
    }
}

static void read_request(struct table *table, struct request *out)
{
    *out = (struct request){.n_wants = 0};
    out->want = arena_array(&table->arena, CONTAINERS_MAX, sizeof *out->want);
    if (!next_is(table, "nothing"))
        do
            read_want(table, out);
        while (next_is(table, "+"));
    if (next_is(table, "needing"))
        out->host = read_host(table);
    if (next_is(table, "on")) {
        out->n_models = 1;
        out->model = arena_array(&table->arena, 1, sizeof(char *));
        out->model[0] = next(table);
    }
    if (next_is(table, "with")) {
        out->memory_mib = number(table);
        need(table, "MiB");
    }
    if (next_is(table, "by"))
        out->topology = next_is(table, "numa") ? TOPOLOGY_NUMA : TOPOLOGY_NVLINK;
    if (out->topology == TOPOLOGY_NVLINK)
        need(table, "nvlink");
}

/* As in a ledger of these nodes. */
static void set_prices(const struct table *table, struct policy_context *context)
{
    struct supply supply = {.nodes = table->n_nodes};
    struct kinds *kinds = xmalloc(sizeof *kinds);
    struct room room;
    struct remaining remaining;
    struct class_capacity slots;

    kinds_init(kinds, context->workload);
    for (uint32_t i = 0; i < table->n_nodes; i++) {
        room_of(table->made[i].node, &room);
        remaining_of(&room, kinds, &remaining);
        class_capacity_of(context->workload, &remaining, &slots);
        supply.free_milli += remaining.free_milli;
        for (uint32_t c = 0; c < context->workload->n_scarce; c++)
            supply.slots[c] += slots.count[c];
    }
    scarcity_prices(context->workload, &supply, context->scarcity_price);
    kinds_freep(&kinds);
}

static struct policy_context *policy_context_of(const struct table *table)
{
    struct workload *workload = workload_new(table->class, table->n_classes);
    struct rulebook *book = rulebook_new(table->policy, "table");

    book->seed = table->seed;
    book->prices_by = table->prices_by;
    book->n_prices = table->n_prices;
    book->price = table->price;
    book->raise = table->raise;
    struct policy_context *context = policy_context_of_rulebook(book, 0, workload);
    if (policy_needs_workload(table->policy))
        set_prices(table, context);
    rulebook_unref(book);
    workload_unref(workload);
    return context;
}

static enum reason search(const struct policy_context *context, const struct node *node,
                          const struct request *request, struct rank *rank, struct placement *out)
{
    const struct policy_question question = {
        .context = context, .node = node, .slot = SNAPSHOT_NO_SLOT};
    struct plan plan;
    struct room room;

    room_of(node, &room);
    plan_init(&plan, request, context);
    return policy_score_room(&question, &plan, &room, rank, out);
}

static const char *places_of(struct table *table, const struct node *node,
                             const struct placement *placement)
{
    const char *said = "";
    for (uint32_t i = 0; i < placement->n_parts; i++)
        said = arena_printf(&table->arena, "%s%s%s/%u", said, i > 0 ? " " : "", node->name->text,
                            placement->part[i].gpu);
    if (placement->raised_milli > 0)
        said = arena_printf(&table->arena, "%s raised to %u", said, placement->raised_milli);
    return said;
}

static void expect_places(struct table *table, const struct request *request)
{
    const struct node *best_node = NULL;
    struct policy_context *context = policy_context_of(table);
    struct placement best;
    struct placement placement;
    struct rank best_rank;
    struct rank rank;
    const char *expected = "";

    while (has_more(table))
        expected = arena_printf(&table->arena, "%s%s%s", expected, *expected != '\0' ? " " : "",
                                next(table));
    for (uint32_t i = 0; i < table->n_nodes; i++) {
        const struct node *node = table->made[i].node;
        if (search(context, node, request, &rank, &placement) != REASON_NONE)
            continue;
        if (best_node == NULL || order_cmp(&rank, &best_rank) < 0) {
            best_node = node;
            best_rank = rank;
            best = placement;
        }
    }
    policy_context_unref(context);
    const char *found = best_node != NULL ? places_of(table, best_node, &best) : "nowhere";
    if (best_node != NULL && best.n_parts == 0)
        found = best_node->name->text;
    if (strcmp(found, expected) != 0)
        WRONG(table, "goes to %s, not to %s", found, expected);
    table->reached[REASON_NONE]++;
}

static void expect_reason(struct table *table, const struct node *node,
                          const struct request *request, const char *expected)
{
    struct policy_context *context = policy_context_of(table);
    struct placement placement;
    struct rank rank;
    const enum reason why = search(context, node, request, &rank, &placement);
    policy_context_unref(context);
    if (strcmp(reason_name(why), expected) != 0)
        WRONG(table, "node %s: %s, not %s", node->name->text, reason_name(why), expected);
    table->reached[why]++;
}

static void expect_refusals(struct table *table, const struct request *request)
{
    const char *word = next(table);
    if (!has_more(table)) {
        assert_true(table->n_nodes > 0);
        for (uint32_t i = 0; i < table->n_nodes; i++)
            expect_reason(table, table->made[i].node, request, word);
        return;
    }
    for (;; word = next(table)) {
        const struct made *made = find_made(table, word);
        if (made == NULL) {
            WRONG(table, "there is no node %s", word);
            return;
        }
        expect_reason(table, made->node, request, next(table));
        if (!next_is(table, ","))
            break;
    }
}

static void run_pod(struct table *table)
{
    struct request request;

    need(table, "pod");
    need(table, "of");
    read_request(table, &request);
    if (next_is(table, "goes")) {
        need(table, "to");
        expect_places(table, &request);
        return;
    }
    need(table, "is");
    need(table, "refused:");
    expect_refusals(table, &request);
}

static void run_policy(struct table *table)
{
    const char *name = next(table);
    if (!policy_of_name(text_of(name), &table->policy))
        WRONG(table, "there is no policy %s", name);
    table->seed = next_is(table, "seed") ? number(table) : 0;
}

/* "prices off", "prices known", "prices known but A100* 5, T4 7": PRICES_KNOWN with these first */
static void run_prices(struct table *table)
{
    table->n_prices = 0;
    table->prices_by = next_is(table, "off") ? PRICES_OFF : PRICES_KNOWN;
    if (table->prices_by == PRICES_OFF)
        return;
    need(table, "known");
    if (!next_is(table, "but"))
        return;
    do {
        assert_true(table->n_prices < PRICES);
        struct model_price *price = &table->price[table->n_prices++];
        price->model = next(table);
        price->price = number(table);
    } while (next_is(table, ","));
}

static void run_memory(struct table *table)
{
    need(table, "is");
    table->raise = next_is(table, "raised");
    if (!table->raise)
        need(table, "filtered");
}

static void run_workload(struct table *table)
{
    struct request request;

    table->n_classes = 0;
    do {
        assert_true(table->n_classes < CLASSES);
        struct workload_class *class = &table->class[table->n_classes++];
        const uint32_t count = number(table);
        need(table, "of");
        read_request(table, &request);
        workload_class_of(&request, class);
        class->count = count;
    } while (next_is(table, ","));
}

static void run_line(struct table *table)
{
    if (next_is(table, "node")) {
        run_node(table);
    } else if (next_is(table, "policy")) {
        run_policy(table);
    } else if (next_is(table, "workload")) {
        run_workload(table);
    } else if (next_is(table, "prices")) {
        run_prices(table);
    } else if (next_is(table, "memory")) {
        run_memory(table);
    } else if (next_is(table, "a")) {
        run_pod(table);
    } else {
        need(table, "forget");
        need(table, "the");
        need(table, "nodes");
        forget_nodes(table);
    }
    if (has_more(table))
        WRONG(table, "'%s' is one word too many", next(table));
}

static void run_sentence(void *user, uint32_t line, char *sentence)
{
    struct table *table = user;

    table->line = line;
    split(table, sentence);
    run_line(table);
}

static void run_file(struct table *table, const char *file)
{
    *table = (struct table){.file = file};
    arena_init(&table->arena);
    table->names = names_new();
    assert_true(sentences_each(file, table, run_sentence) > 40);
    assert_true(table->reached[REASON_NONE] > 0);
    forget_nodes(table);
    names_free(table->names);
    arena_done(&table->arena);
}

TEST(place_table__holds)
{
    static struct table table;
    run_file(&table, "tests/table/place.txt");
    /* every reason that placement can give; unit.core.rulebook has those of rules */
    for (enum reason why = REASON_NO_GPU; why <= REASON_ROOM; why++)
        assert_true(table.reached[why] > 0 || why == REASON_RULE || why == REASON_RESERVE);
}

TEST(policy_table__holds)
{
    static struct table table;
    run_file(&table, "tests/table/policy.txt");
}

TEST(price_table__holds)
{
    static struct table table;
    run_file(&table, "tests/table/prices.txt");
}
