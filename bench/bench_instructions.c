/*
 * bench_instructions - a fixed amount of each kind of work, to be counted by callgrind.
 *
 * Times differ from run to run and from machine to machine; the number of instructions hardly does,
 * so a commit can be held to it (bench/instructions). Each kind is a function counted_NAME(), which
 * does it TIMES times, or counted_once_NAME(), with its preparations outside. 1,000 nodes, half of
 * all milli held, the policy that is shipped, the ledger on a file. One thread; the clock stands
 * still.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/spine/message.h"
#include "milligpu/store/store.h"
#include "milligpu/sync/informer.h"
#include "milligpu/wire/kube/kube_protobuf.h"
#include "milligpu/writer/writer.h"

#include "cluster.h"
#include "greedy.h"
#include "half_full.h"
#include "measure.h"
#include "messages.h"
#include "standstill.h"
#include "unlike.h"
#include "webhook_fixture.h"

/* Called once each, and found by name in what callgrind writes. */
#define COUNTED __attribute__((noinline, used)) static void

enum { NODES = 1000, TIMES = 32, PUT_OFF_MS = 10, FEW_NAMES = 16, SETTLING = 4, LEARNED = 140 };

struct counting {
    struct webhook_fixture fixture;
    struct kube_ops watch;
    uint64_t request; /* the last that the informer began */
    struct strbuf body[TIMES];
    struct message *message[TIMES];
    struct message *outcome[TIMES];
};

static void ask(struct counting *counting, const char *path)
{
    struct http_call call;

    http_call_init(&call, path);
    for (uint32_t i = 0; i < TIMES; i++)
        webhook_fixture_ask(&counting->fixture, &call,
                            (struct text){counting->body[i].data, counting->body[i].len});
    http_call_done(&call);
}

COUNTED counted_filter_first(struct counting *counting)
{
    ask(counting, "/scheduler/filter");
}

COUNTED counted_filter(struct counting *counting)
{
    ask(counting, "/scheduler/filter");
}

COUNTED counted_filter_refused(struct counting *counting)
{
    ask(counting, "/scheduler/filter");
}

COUNTED counted_prioritize(struct counting *counting)
{
    ask(counting, "/scheduler/prioritize");
}

static void handle(struct counting *counting)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        must(queue_put(counting->fixture.app.queue, counting->message[i]));
        must(writer_step(counting->fixture.parts.writer, 0) == 1);
    }
}

COUNTED counted_pod_added(struct counting *counting)
{
    handle(counting);
}

COUNTED counted_bind(struct counting *counting)
{
    handle(counting);
}

/* No batch comes in which it could ride, so it takes two steps. */
COUNTED counted_outcome(struct counting *counting)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        must(queue_put(counting->fixture.app.queue, counting->message[i]));
        must(writer_step(counting->fixture.parts.writer, 0) == 0);
        standstill_ms += PUT_OFF_MS;
        must(writer_step(counting->fixture.parts.writer, 0) == 1);
    }
}

/* The outcome of each bind rides in the batch of the next one. */
COUNTED counted_bind_in_turn(struct counting *counting)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        must(queue_put(counting->fixture.app.queue, counting->message[i]));
        must(writer_step(counting->fixture.parts.writer, 0) == (i > 0 ? 2 : 1));
        must(queue_put(counting->fixture.app.queue, counting->outcome[i]));
        must(writer_step(counting->fixture.parts.writer, 0) == 0);
    }
}

COUNTED counted_pod_ended(struct counting *counting)
{
    handle(counting);
}

COUNTED counted_node_same(struct counting *counting)
{
    handle(counting);
}

COUNTED counted_node_changed(struct counting *counting)
{
    handle(counting);
}

COUNTED counted_decode_pod(struct counting *counting)
{
    struct arena arena;
    struct pod pod;
    struct err err;

    arena_init(&arena);
    for (uint32_t i = 0; i < TIMES; i++) {
        const struct text text = {counting->body[i].data, counting->body[i].len};
        must(pod_decode(text, &cluster_wire, &arena, &pod, &err) == 0);
        arena_reset(&arena);
    }
    arena_done(&arena);
}

/* The pod of the file as it comes from the API server, in the first body. */
COUNTED counted_convert_pod(struct counting *counting)
{
    const struct text text = {counting->body[0].data, counting->body[0].len};
    struct strbuf json;
    struct err err;

    strbuf_init(&json);
    for (uint32_t i = 0; i < TIMES; i++) {
        strbuf_reset(&json);
        must(kube_protobuf_object(text, BODY_BYTES_MAX, &json, &err) == 0);
    }
    strbuf_done(&json);
}

COUNTED counted_decode_node(struct counting *counting)
{
    struct node_facts node;
    struct arena arena;
    struct err err;

    arena_init(&arena);
    for (uint32_t i = 0; i < TIMES; i++) {
        const struct text text = {counting->body[i].data, counting->body[i].len};
        must(node_decode(text, &cluster_wire, &arena, &node, &err) == 0);
        arena_reset(&arena);
    }
    arena_done(&arena);
}

static void answer(struct counting *counting, enum kube_piece piece, struct text data)
{
    informer_answer(counting->fixture.parts.informer, standstill_ms,
                    &(struct kube_answer){
                        .id = counting->request, .piece = piece, .status = 200, .data = data});
}

static void show_nodes(struct counting *counting)
{
    for (uint32_t i = 0; i < TIMES; i++)
        answer(counting, KUBE_DATA, (struct text){counting->body[i].data, counting->body[i].len});
}

/* From the bytes of the watch on. */
COUNTED counted_node_heartbeat(struct counting *counting)
{
    show_nodes(counting);
}

COUNTED counted_start(const char *path)
{
    const struct store_rules rules = {.path = path};
    struct ledger *ledger = ledger_new();
    struct store *store = NULL;
    struct err err;

    must(store_open(&rules, &store, &err) == 0);
    must(store_load(store, ledger, &err) == 0);
    ledger_free(ledger);
    store_close(store);
}

static void ask_unlike(const struct unlike *unlike, const struct greedy *greedy)
{
    struct arena arena;
    struct filter_answer answer;
    struct filter_question question = {.snapshot = unlike->snapshot,
                                       .request = &greedy->request,
                                       .n_names = NODES,
                                       .name = unlike->name,
                                       .shortlist = FEW_NAMES,
                                       .cache = score_cache_new()};

    arena_init(&arena);
    filter_ask(&question, &arena, &answer);
    must(answer.n_candidates == FEW_NAMES);
    arena_done(&arena);
    score_cache_free(question.cache);
}

COUNTED counted_once_worst_share(const struct unlike *unlike, const struct greedy *greedy)
{
    ask_unlike(unlike, greedy);
}

COUNTED counted_once_worst_gpus(const struct unlike *unlike, const struct greedy *greedy)
{
    ask_unlike(unlike, greedy);
}

COUNTED counted_once_worst_containers(const struct unlike *unlike, const struct greedy *greedy)
{
    ask_unlike(unlike, greedy);
}

/* --- what is counted --- */

/* The most expensive requests (bench_worst.c), whose work the limit of a question ends. */
static void count_worst(void)
{
    static struct unlike unlike;
    static struct greedy greedy;

    unlike_init(&unlike, &unlike_fills[UNLIKE_HALF_ALIKE], NODES);
    cluster_set_policy(unlike.ledger, CLUSTER_SHIPPED);
    unlike_publish(&unlike);
    greedy_make_named("one_share", &greedy);
    counted_once_worst_share(&unlike, &greedy);
    greedy_make_named("1_of_4", &greedy);
    counted_once_worst_gpus(&unlike, &greedy);
    greedy_make_named("6_of_2_small", &greedy);
    counted_once_worst_containers(&unlike, &greedy);
    unlike_done(&unlike);
}

/* Questions of pods, about windows of names that move as kube-scheduler's do. */
static void questions(struct counting *counting, const char *amount, uint32_t names)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        char uid[40];
        (void)snprintf(uid, sizeof uid, "%08x-0000-4000-8000-00000000a5ed", i);
        const struct cluster_question question = {.uid = uid,
                                                  .amount = amount,
                                                  .nodes = NODES,
                                                  .first = i * NODES / TIMES,
                                                  .names = names};
        strbuf_reset(&counting->body[i]);
        cluster_question_json(&counting->body[i], &question);
    }
}

static void count_webhooks(struct counting *counting)
{
    questions(counting, "300", NODES);
    counted_filter_first(counting);
    counted_filter(counting);
    questions(counting, "8000", NODES);
    counted_filter_refused(counting);
    questions(counting, "300", FEW_NAMES);
    counted_prioritize(counting);
}

static void read_recorded(struct strbuf *out)
{
    char bytes[4096];
    FILE *file = fopen("tests/golden/protobuf/running.pb", "rbe");

    must(file != NULL); /* in the root of the sources */
    strbuf_reset(out);
    strbuf_add(out, bytes, fread(bytes, 1, sizeof bytes, file));
    must(out->len > 0 && out->len < sizeof bytes);
    must(fclose(file) == 0);
}

static void count_decoding(struct counting *counting)
{
    read_recorded(&counting->body[0]);
    counted_convert_pod(counting);
    for (uint32_t i = 0; i < TIMES; i++) {
        strbuf_reset(&counting->body[i]);
        cluster_pod_json(&counting->body[i],
                         &(struct cluster_pod){
                             .name = "inference", .uid = "an-uid", .node = "", .amount = "300"});
    }
    counted_decode_pod(counting);
    for (uint32_t i = 0; i < TIMES; i++) {
        strbuf_reset(&counting->body[i]);
        cluster_node_json(&counting->body[i], i);
    }
    counted_decode_node(counting);
}

static void bound(void *to, const char *error)
{
    uint32_t *count = to;
    must(error == NULL);
    (*count)++;
}

/* So many that the next ones change nothing in what the policy expects (tally_is_due). */
static void warm_up(struct counting *counting, uint32_t first)
{
    for (uint32_t i = 0; i < LEARNED; i++) {
        struct message *message = message_of_pod(MESSAGE_POD, first + i, "", "10");
        must(queue_put(counting->fixture.app.queue, message));
        must(writer_step(counting->fixture.parts.writer, 0) == 1);
    }
}

static void end_pods(struct counting *counting, uint32_t first)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        char host[NODE_NAME_BYTES];
        cluster_node_name(i, host);
        counting->message[i] = message_of_pod(MESSAGE_POD, first + i, host, "10");
        counting->message[i]->pod.phase = POD_SUCCEEDED;
    }
}

/* TIMES pods, one on each of as many nodes, from their first event to their end. */
static void count_pods(struct counting *counting, uint32_t first)
{
    struct message **message = counting->message;
    uint32_t count = 0;

    for (uint32_t i = 0; i < TIMES; i++)
        message[i] = message_of_pod(MESSAGE_POD, first + i, "", "10");
    counted_pod_added(counting);
    for (uint32_t i = 0; i < TIMES; i++)
        message[i] =
            message_of_bind(first + i, i, standstill_ms, (struct bind_reply){bound, &count});
    counted_bind(counting);
    for (uint32_t i = 0; i < TIMES; i++)
        message[i] = message_of_outcome(first + i, OUTCOME_BOUND);
    counted_outcome(counting);
    must(count == TIMES);
    end_pods(counting, first);
    counted_pod_ended(counting);
}

/* The same on the same nodes, bound one after the other. */
static void count_binds_in_turn(struct counting *counting, uint32_t first)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < TIMES; i++) {
        struct message *added = message_of_pod(MESSAGE_POD, first + i, "", "10");
        must(queue_put(counting->fixture.app.queue, added));
        must(writer_step(counting->fixture.parts.writer, 0) == 1);
        counting->message[i] =
            message_of_bind(first + i, i, standstill_ms, (struct bind_reply){bound, &count});
        counting->outcome[i] = message_of_outcome(first + i, OUTCOME_BOUND);
    }
    counted_bind_in_turn(counting);
    must(count == TIMES);
    standstill_ms += PUT_OFF_MS;
    must(writer_step(counting->fixture.parts.writer, 0) == 1);
    end_pods(counting, first);
    handle(counting);
}

static void count_nodes(struct counting *counting)
{
    for (uint32_t round = 0; round < 2; round++) { /* labels, for one, are only known when shown */
        for (uint32_t i = 0; i < TIMES; i++)
            counting->message[i] = message_of_node(MESSAGE_NODE, i, NULL);
        if (round == 0)
            handle(counting);
    }
    counted_node_same(counting);
    for (uint32_t i = 0; i < TIMES; i++)
        counting->message[i] = message_of_node(MESSAGE_NODE, i, "all");
    counted_node_changed(counting);
}

/* As kubelet writes it. */
static void add_managed_fields(struct strbuf *out, uint32_t round)
{
    strbuf_printf(out,
                  "\"managedFields\":[{\"manager\":\"kubelet\",\"operation\":\"Update\","
                  "\"apiVersion\":\"v1\",\"time\":\"2026-11-21T01:5%u:00Z\",\"fieldsType\":"
                  "\"FieldsV1\",\"fieldsV1\":{\"f:status\":{\"f:conditions\":{",
                  round);
    for (unsigned i = 0; i < 4; i++)
        strbuf_printf(out,
                      "%s\"k:{\\\"type\\\":\\\"%u\\\"}\":{\".\":{},\"f:lastHeartbeatTime\":{},"
                      "\"f:lastTransitionTime\":{},\"f:message\":{},\"f:reason\":{}}",
                      i > 0 ? "," : "", i);
    strbuf_str(out, "}}},\"subresource\":\"status\"}],");
}

/* The watch events of all nodes: in each round another version and another time of heartbeats. */
static void heartbeats(struct counting *counting, uint32_t round)
{
    static const char begin[] = "\"metadata\":{";
    static const char beat[] = "\"lastHeartbeatTime\":\"2026-11-21T01:5";
    struct strbuf node;

    for (uint32_t i = 0; i < TIMES; i++) {
        struct strbuf *out = &counting->body[i];
        strbuf_init(&node);
        cluster_node_json(&node, i);
        for (char *at = node.data; (at = strstr(at, beat)) != NULL; at += sizeof beat)
            at[sizeof beat - 1] = (char)('0' + round);
        const char *rest = strstr(node.data, begin) + sizeof begin - 1;
        strbuf_reset(out);
        strbuf_str(out, "{\"type\":\"MODIFIED\",\"object\":");
        strbuf_text(out, (struct text){node.data, (size_t)(rest - node.data)});
        strbuf_printf(out, "\"resourceVersion\":\"%u\",", 1000 + round * TIMES + i);
        add_managed_fields(out, round);
        strbuf_str(out, rest);
        strbuf_str(out, "}\n");
        strbuf_done(&node);
    }
}

static size_t taken(struct counting *counting)
{
    size_t sum = 0;
    size_t count;

    while ((count = writer_step(counting->fixture.parts.writer, 0)) > 0)
        sum += count;
    return sum;
}

/* The first events of the nodes change them, the second ones are handled, too. */
static void count_heartbeats(struct counting *counting)
{
    (void)informer_step(counting->fixture.parts.informer, standstill_ms);
    answer(counting, KUBE_HEAD, TEXT(""));
    answer(counting, KUBE_DATA, TEXT("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}"));
    answer(counting, KUBE_DONE, TEXT(""));
    (void)informer_step(counting->fixture.parts.informer, standstill_ms);
    answer(counting, KUBE_HEAD, TEXT(""));
    (void)taken(counting);
    for (uint32_t round = 0; round < 2; round++) {
        heartbeats(counting, round);
        show_nodes(counting);
        must(taken(counting) == TIMES);
    }
    heartbeats(counting, 2);
    counted_node_heartbeat(counting);
    must(taken(counting) == 0);
}

/* Notes the request that the informer waits for: the nodes' is its first. */
static int note_request(void *ctx, const struct kube_request *request, struct err *err)
{
    struct counting *counting = ctx;

    (void)err;
    if (strncmp(request->path, "/api/v1/nodes", 13) == 0)
        counting->request = request->id;
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct counting counting = {.message = {NULL}};
    char path[4096];
    struct err err;

    if (!options_read(argc, argv, &options))
        return 2;
    text_seed(1);
    standstill_ms = 1000;
    must((size_t)snprintf(path, sizeof path, "%s/instructions.db", options.folder) < sizeof path);
    struct store *store = cluster_store(path, false);
    struct kube_ops nowhere = standstill_server();
    counting.watch = nowhere;
    counting.watch.ctx = &counting;
    counting.watch.start = note_request;
    const struct app_edges edges = {
        .clock = standstill_clock(), .store = store, .watch = &counting.watch, .calls = &nowhere};
    webhook_fixture_init(&counting.fixture, &edges);
    counting.fixture.settings.events = false;
    const uint32_t pods = half_full(&counting.fixture.app, NODES);
    must(writer_load(counting.fixture.parts.writer, &err) == 0);
    must(queue_put(counting.fixture.app.queue, message_new(MESSAGE_NODES_BEGIN)));
    for (uint32_t i = 0; i < SETTLING; i++) /* the policy goes into the journal */
        (void)writer_step(counting.fixture.parts.writer, 0);
    for (uint32_t i = 0; i < TIMES; i++)
        strbuf_init(&counting.body[i]);

    count_worst();
    count_decoding(&counting);
    count_webhooks(&counting);
    warm_up(&counting, pods);
    count_pods(&counting, pods + LEARNED);
    count_binds_in_turn(&counting, pods + LEARNED + TIMES);
    count_nodes(&counting);
    count_heartbeats(&counting);

    for (uint32_t i = 0; i < TIMES; i++)
        strbuf_done(&counting.body[i]);
    webhook_fixture_done(&counting.fixture);
    store_close(store);
    counted_start(path);
    return 0;
}
