/*
 * Whatever the API server answers to a Binding, and to the GET that follows a 409, there is exactly
 * one outcome. "Bound" is reported only if a Binding was answered with 201 or the pod carries our
 * uid and node, and always after 201: nothing else proves it.
 *
 * Input: steps, each up to a NUL: a letter, then its data.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"

#include "support.h"

static const struct wire_rules wire = {.resource = "nvidia.com/vgpu",
                                       .whole_resource = "nvidia.com/gpu"};
enum { STEPS_MAX = 24, DEADLINE_MS = 4000 };

struct script {
    struct outbox *outbox;
    uint64_t id; /* of the open request; 0: none */
    bool binding;
    bool success; /* a Binding was answered with 201 */
    bool carried; /* a GET showed our Binding */
    uint32_t n_results;
    enum bind_outcome outcome;
    int64_t now_ms;
};

static int start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct script *script = ctx;
    must(err != NULL && script->id == 0 && request->timeout_ms > 0);
    script->id = request->id;
    script->binding = strcmp(request->method, "POST") == 0;
    must(script->binding == (strstr(request->path, "/binding") != NULL));
    must(!script->binding || text_is(request->body, "{\"kind\":\"Binding\"}"));
    return 0;
}

static void cancel(void *ctx, uint64_t id)
{
    struct script *script = ctx;
    if (script->id == id)
        script->id = 0;
}

static void wake(void *ctx)
{
    must(ctx != NULL);
}

static void result(void *user, struct message *take_message)
{
    struct script *script = user;
    must(take_message->kind == MESSAGE_OUTCOME && strcmp(take_message->outcome.uid, "u1") == 0);
    script->n_results++;
    script->outcome = take_message->outcome.result;
    message_free(take_message);
}

static void deliver(struct script *script, struct kube_answer answer, enum kube_piece piece)
{
    answer.piece = piece;
    outbox_answer(script->outbox, script->now_ms, &answer);
}

static bool is_ours(struct text body)
{
    SCOPED_ARENA(arena);
    struct pod pod;
    struct err err;
    const bool ours = pod_decode(body, &wire, &arena, &pod, &err) == 0 &&
                      strcmp(pod.uid, "u1") == 0 && strcmp(pod.node, "n1") == 0;
    return ours;
}

static int status_of(uint8_t letter)
{
    static const int statuses[] = {200, 201, 400, 403, 404, 409, 422, 429, 500, 503, 504};
    return statuses[letter % ARRAY_LEN(statuses)];
}

static void answer(struct script *script, struct pieces pieces)
{
    struct kube_answer says = {.id = script->id};
    says.status = status_of(pieces_byte(&pieces));
    const uint8_t cut = pieces_byte(&pieces);
    const struct text body = pieces_rest(&pieces);
    script->id = 0;
    script->success |= script->binding && says.status == 201;
    script->carried |= !script->binding && says.status == 200 && is_ours(body);
    deliver(script, says, KUBE_HEAD);
    pieces = pieces_of((const uint8_t *)body.at, body.len);
    while (pieces.left > 0) {
        says.data = pieces_take(&pieces, cut > 0 ? cut : pieces.left);
        deliver(script, says, KUBE_DATA);
    }
    deliver(script, says, KUBE_DONE);
}

static void step(struct script *script, struct text text)
{
    struct pieces pieces = pieces_of((const uint8_t *)text.at, text.len);
    const struct err lost = {ERR_IO, "connection lost"};
    const uint8_t letter = pieces_byte(&pieces);
    if (letter == 't') {
        script->now_ms += 10 * pieces_byte(&pieces);
    } else if (script->id != 0 && (letter == 'l' || letter == 'u')) {
        const struct kube_answer says = {.id = script->id, .unsent = letter == 'u', .err = &lost};
        script->id = 0;
        deliver(script, says, KUBE_FAILED);
    } else if (script->id != 0) {
        answer(script, pieces);
    }
    (void)outbox_step(script->outbox, script->now_ms, script->now_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {.now_ms = 1000};
    struct pieces pieces = pieces_of(data, size);
    struct kube_ops ops = {.ctx = &script, .start = start, .cancel = cancel, .wake = wake};
    const struct outbox_rules rules = {.ops = &ops,
                                       .wire = &wire,
                                       .wake = "off",
                                       .namespace = "ns",
                                       .instance = "fuzz",
                                       .resource = "nvidia.com/vgpu",
                                       .user = &script,
                                       .result = result};
    const struct outbox_binding binding = {.uid = "u1",
                                           .namespace = "ns",
                                           .name = "pod",
                                           .node = "n1",
                                           .body = TEXT("{\"kind\":\"Binding\"}"),
                                           .deadline_ms = script.now_ms + DEADLINE_MS};
    script.outbox = outbox_new(&rules);
    outbox_bind(script.outbox, &binding);
    (void)outbox_step(script.outbox, script.now_ms, script.now_ms);
    for (int i = 0; i < STEPS_MAX && pieces.left > 0; i++)
        step(&script, pieces_until(&pieces, '\0'));
    /* No more answers: the deadline ends it. */
    for (int i = 0; i < 20; i++, script.now_ms += DEADLINE_MS / 10)
        step(&script, TEXT("t"));
    must(script.n_results == 1 && outbox_open(script.outbox) == 0);
    must(script.outcome != OUTCOME_BOUND || script.success || script.carried);
    must(!script.success || script.outcome == OUTCOME_BOUND);
    outbox_free(script.outbox);
    return 0;
}
