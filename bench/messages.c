#include "messages.h"

#include <stdio.h>

#include "cluster.h"

static uint64_t version; /* resourceVersion of the pod that was made last */

struct pod_words {
    char name[32];
    char uid[40];
};

static struct pod_words words_of(uint32_t pod)
{
    struct pod_words words;

    (void)snprintf(words.name, sizeof words.name, "inference-%06u", pod);
    (void)snprintf(words.uid, sizeof words.uid, "%08x-0000-4000-8000-000000000002", pod);
    return words;
}

/* The message keeps the object, into which the decoded pod points. */
static struct message *message_from(enum message_kind kind, const struct strbuf *json)
{
    struct message *message = message_new(kind);
    const struct text text = {json->data, json->len};
    const struct text kept = {arena_copy(&message->arena, text), json->len};
    struct err err;

    must(pod_decode(kept, &cluster_wire, &message->arena, &message->pod, &err) == 0);
    message->pod.resource_version =
        arena_printf(&message->arena, "%llu", (unsigned long long)++version);
    return message;
}

struct message *message_of_pod(enum message_kind kind, uint32_t pod, const char *node,
                               const char *amount)
{
    const struct pod_words words = words_of(pod);
    const struct cluster_pod shown = {
        .name = words.name, .uid = words.uid, .node = node, .amount = amount};
    struct strbuf json;

    strbuf_init(&json);
    cluster_pod_json(&json, &shown);
    struct message *message = message_from(kind, &json);
    strbuf_done(&json);
    return message;
}

struct message *message_of_listed(const struct allocation *allocation, const struct node *node)
{
    struct strbuf json;

    strbuf_init(&json);
    cluster_bound_json(&json, allocation, node);
    struct message *message = message_from(MESSAGE_POD_LISTED, &json);
    strbuf_done(&json);
    return message;
}

struct message *message_of_node(enum message_kind kind, uint32_t node, const char *cordon)
{
    struct message *message = message_new(kind);
    struct strbuf json;
    struct err err;

    strbuf_init(&json);
    cluster_node_json(&json, node);
    const struct text kept = {arena_copy(&message->arena, (struct text){json.data, json.len}),
                              json.len};
    must(node_decode(kept, &cluster_wire, &message->arena, &message->node, &err) == 0);
    if (cordon != NULL)
        message->node.cordon = cordon;
    strbuf_done(&json);
    return message;
}

struct message *message_of_bind(uint32_t pod, uint32_t node, int64_t now_ms,
                                struct bind_reply reply)
{
    struct message *message = message_new(MESSAGE_BIND);
    const struct pod_words words = words_of(pod);
    char host[NODE_NAME_BYTES];

    cluster_node_name(node, host);
    message->bind.args.pod = arena_copy(&message->arena, text_of(words.name));
    message->bind.args.namespace = arena_copy(&message->arena, TEXT("default"));
    message->bind.args.uid = arena_copy(&message->arena, text_of(words.uid));
    message->bind.args.node = arena_copy(&message->arena, text_of(host));
    message->bind.deadline_ms = now_ms + 30000;
    message->bind.reply = reply;
    return message;
}

struct message *message_of_outcome(uint32_t pod, enum bind_outcome outcome)
{
    struct message *message = message_new(MESSAGE_OUTCOME);
    const struct pod_words words = words_of(pod);

    message->outcome =
        (struct binding_outcome){.uid = arena_copy(&message->arena, text_of(words.uid)),
                                 .result = outcome,
                                 .version = version,
                                 .text = outcome == OUTCOME_BOUND ? NULL : "no answer"};
    return message;
}
