/*
 * Any object that the API server would accept is counted, whatever support/hostile.h makes around a
 * pod, in a list or in a watch: a bound pod has its allocation, no node offers what its pods ask
 * for, and the end and the deletion of a pod are noticed. A hostile node stays, with all that is
 * charged there, and offers no more than it has.
 *
 * Input: for each event on a node of two GPUs one letter, then the bytes that the generator draws
 * from.
 */
#include <string.h>

#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"
#include "support/core_fixture.h"
#include "support/hostile.h"

enum { PODS = 6, STEPS = 12, CAPACITY = 2000, WHOLE = 2 };

static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};
static const struct request_rules judge = {"nvidia.com/vgpu", 1, 1};

/* The request of a pod, as the API server writes it; milli: the most that it costs the node. */
static const struct asked {
    const char *const amount[2];
    uint32_t asking;
    uint32_t whole;
    uint32_t milli;
} asked[] = {
    {{"100"}, 1, 0, 100},
    {{"300", "200"}, 2, 0, 500},
    {{"1500"}, 1, 0, 1500},
    {{"9223372036854775807"}, 1, 0, CAPACITY},
    {{"64k"}, 1, 0, CAPACITY},
    {{NULL}, 0, 1, 0},
    {{"100"}, 1, 1, 100},
    {{NULL}, 0, UINT32_MAX, 0},
    {{"9223372036854775807", "64001"}, 2, UINT32_MAX, CAPACITY},
    {{"0"}, 1, 0, 0},
    {{NULL}, 0, 0, 0},
};

static const char *const names[PODS] = {"p0", "p1", "p2", "p3", "p4", "p5"};

struct cluster {
    struct pieces pieces;
    struct core_fixture core;
    struct strbuf object;
    const struct asked *pod[PODS]; /* NULL: absent or ended */
    uint64_t version;
};

static uint32_t below(void *user, uint32_t bound)
{
    struct cluster *cluster = user;
    uint32_t drawn = pieces_byte(&cluster->pieces);

    if (bound > 1U << 8)
        drawn = drawn << 8 | pieces_byte(&cluster->pieces);
    if (bound > 1U << 16)
        drawn = drawn << 8 | pieces_byte(&cluster->pieces);
    return bound == 0 ? 0 : drawn % bound;
}

static struct hostile_draw draw_of(struct cluster *cluster)
{
    return (struct hostile_draw){cluster, below};
}

static int keep_item(void *user, struct text bytes, struct err *err)
{
    must(err != NULL);
    *(struct text *)user = bytes;
    return 0;
}

/* The object as a watch and a list deliver it: the same bytes. */
static struct text carried(struct cluster *cluster, const char *version)
{
    struct arena *arena = &cluster->core.arena;
    const struct text bytes = {cluster->object.data, cluster->object.len};
    struct watch_event event;
    struct list_page page;
    struct text item = {NULL, 0};
    struct err err;
    const struct text line =
        text_of(arena_printf(arena, "{\"type\":\"MODIFIED\",\"object\":%.*s}", TEXT_ARG(bytes)));
    const struct text list = text_of(arena_printf(
        arena, "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[%.*s]}",
        TEXT_ARG(bytes)));

    must(watch_decode(line, arena, &event, &err) == 0);
    must(strcmp(event.resource_version, version) == 0 && text_eq(event.object, bytes));
    must(list_decode(list, arena, &item, keep_item, &page, &err) == 0);
    must(text_eq(item, bytes));
    return event.object;
}

static void run(struct cluster *cluster, const struct command *command, size_t count)
{
    for (size_t i = 0; i < count; i++)
        must(core_do(&cluster->core, &command[i]) != VERDICT_REFUSED);
    core_forget_undo(&cluster->core);
}

static void pod_comes(struct cluster *cluster, uint32_t slot, const struct asked *asks,
                      const char *phase)
{
    struct arena *arena = &cluster->core.arena;
    const char *version = arena_printf(arena, "%llu", (unsigned long long)++cluster->version);
    const struct hostile_draw draw = draw_of(cluster);
    const struct hostile_pod is = {
        .namespace = "team",
        .name = names[slot],
        .uid = names[slot],
        .version = version,
        .node = "n1",
        .phase = phase,
        .terminating = below(cluster, 4) == 1,
        .resource = rules.resource,
        .whole_resource = rules.whole_resource,
        .amount = asks->amount,
        .asking = asks->asking,
        .whole = asks->whole,
    };
    struct command command[RECONCILE_MAX];
    struct request request;
    struct refusal refusal;
    struct pod pod;
    struct err err;

    strbuf_reset(&cluster->object);
    hostile_pod(&cluster->object, &is, &draw);
    must(pod_decode(carried(cluster, version), &rules, arena, &pod, &err) == 0);
    must(strcmp(pod.uid, is.uid) == 0 && strcmp(pod.name, is.name) == 0);
    must(strcmp(pod.namespace, is.namespace) == 0 && strcmp(pod.node, is.node) == 0);
    must(strcmp(pod.resource_version, version) == 0);
    must((pod.terminating_ms != 0) == is.terminating);
    must(pod_ended(&pod) == (strcmp(phase, "Failed") == 0));
    must(pod.ours == (asks->asking > 0) && pod.whole_gpus == asks->whole);
    const enum request_verdict verdict =
        request_parse_bound(&pod, &judge, arena, &request, &refusal);
    const bool judged = verdict == REQUEST_OK || verdict == REQUEST_WHOLE;
    run(cluster, command,
        reconcile_pod(cluster->core.ledger, &pod, judged ? &request : NULL, 1, command));
    cluster->pod[slot] = pod_ended(&pod) ? NULL : asks;
}

/* The same pod, unbound: whatever is wrong with it, it is refused and never ignored. */
static void pod_waits(struct cluster *cluster, const struct asked *asks)
{
    struct arena *arena = &cluster->core.arena;
    const struct hostile_draw draw = draw_of(cluster);
    const struct hostile_pod is = {.namespace = "team",
                                   .name = "waits",
                                   .uid = "waits",
                                   .version = "1",
                                   .node = "",
                                   .phase = "Pending",
                                   .resource = rules.resource,
                                   .whole_resource = rules.whole_resource,
                                   .amount = asks->amount,
                                   .asking = asks->asking,
                                   .whole = asks->whole};
    struct request request;
    struct refusal refusal;
    struct pod pod;
    struct err err;

    strbuf_reset(&cluster->object);
    hostile_pod(&cluster->object, &is, &draw);
    must(pod_decode(carried(cluster, "1"), &rules, arena, &pod, &err) == 0);
    const enum request_verdict verdict = request_parse(&pod, &judge, arena, &request, &refusal);
    must((verdict == REQUEST_NOT_OURS) == (asks->asking == 0 && asks->whole == 0));
    must(pod.unreadable == NULL || verdict != REQUEST_OK);
    must(verdict != REQUEST_REFUSED || refusal.text[0] != '\0');
}

static void node_comes(struct cluster *cluster)
{
    struct arena *arena = &cluster->core.arena;
    const char *version = arena_printf(arena, "%llu", (unsigned long long)++cluster->version);
    const struct hostile_draw draw = draw_of(cluster);
    const struct inventory_rules how = {.from_labels = true};
    const struct hostile_node is = {.name = "n1",
                                    .uid = "node-uid",
                                    .version = version,
                                    .resource = rules.resource,
                                    .amount = "2000"};
    struct inventory inventory;
    struct node_facts facts;
    struct err err;

    strbuf_reset(&cluster->object);
    hostile_node(&cluster->object, &is, &draw);
    must(node_decode(carried(cluster, version), &rules, arena, &facts, &err) == 0);
    must(strcmp(facts.name, is.name) == 0 && strcmp(facts.uid, is.uid) == 0);
    inventory_parse(&facts, &how, arena, &inventory);
    const struct command command = {.kind = COMMAND_NODE, .inventory = &inventory};
    run(cluster, &command, 1);
}

static void pod_goes(struct cluster *cluster, uint32_t slot)
{
    struct command command[RECONCILE_MAX];

    run(cluster, command, reconcile_gone(cluster->core.ledger, names[slot], 1, command));
    cluster->pod[slot] = NULL;
}

/* Milli charged beyond what a GPU has: two parts of one pod never share a GPU. */
static uint32_t too_much(const struct node *node)
{
    uint32_t milli = 0;

    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (node->gpu[i].used_milli > node->gpu[i].milli)
            milli += node->gpu[i].used_milli - node->gpu[i].milli;
    return milli;
}

/* Offer and requests of the pods are at most the node's capacity, excess on a GPU aside. */
static void all_is_counted(struct cluster *cluster)
{
    const struct node *node = ledger_node(cluster->core.ledger, TEXT("n1"));
    uint32_t taken = 0;
    uint32_t whole = 0;

    must(node != NULL && !node->gone);
    for (uint32_t i = 0; i < PODS; i++) {
        const struct allocation *held = ledger_find(cluster->core.ledger, text_of(names[i]));
        const struct asked *asks = cluster->pod[i];
        const bool counts = asks != NULL && (asks->milli > 0 || asks->whole > 0);
        must((held != NULL) == counts);
        if (held == NULL)
            continue;
        must(asks->milli == 0 || allocation_milli(held) > 0 || held->facts.unplaced_milli > 0);
        must(held->facts.held_gpus == asks->whole);
        taken += asks->milli;
        whole = whole > UINT32_MAX - asks->whole ? UINT32_MAX : whole + asks->whole;
    }
    must(node->held_gpus == whole);
    const uint32_t offered = node_closed(node) == REASON_NONE ? node->free_milli : 0;
    must(offered == 0 || offered + taken <= CAPACITY + too_much(node));
}

static void happen(struct cluster *cluster)
{
    const uint8_t what = pieces_byte(&cluster->pieces);
    const uint32_t slot = below(cluster, PODS);
    const struct asked *asks = cluster->pod[slot];

    if (asks == NULL) /* a pod that is present keeps its spec */
        asks = &asked[below(cluster, ARRAY_LEN(asked))];
    switch (what) {
    case 'n':
        node_comes(cluster);
        break;
    case 'w':
        pod_waits(cluster, asks);
        break;
    case 'e':
        pod_comes(cluster, slot, asks, "Failed");
        break;
    case 'd':
        pod_goes(cluster, slot);
        break;
    default:
        pod_comes(cluster, slot, asks, what == 'u' ? "Unknown" : "Running");
    }
    all_is_counted(cluster);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster cluster = {.pieces = pieces_of(data, size)};
    const struct core_gpu gpus[WHOLE] = {{.index = 0}, {.index = 1}};

    core_init(&cluster.core);
    strbuf_init(&cluster.object);
    must(core_node(&cluster.core, "n1", gpus, WHOLE) == VERDICT_OK);
    for (int i = 0; i < STEPS && cluster.pieces.left > 0; i++)
        happen(&cluster);
    strbuf_done(&cluster.object);
    core_done(&cluster.core);
    return 0;
}
