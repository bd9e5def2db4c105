/*
 * The table of a Binding, cell by cell and through the outbox itself: for each state of the Binding
 * and each answer, what the outbox does next. The outbox's own table is not read here.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/spine/message.h"
#include "milligpu/sync/outbox.h"

#include "support/test.h"

enum state { POSTED, POSTED_MAYBE_TWICE, ASKED, ASKED_MAYBE_TWICE, STATES };

/* The action of the outbox. */
enum deed {
    NEVER,   /* the answer does not exist in this state */
    BOUND,   /* the outcomes */
    VOID,    /* with REASON_CHANGED */
    GONE,    /* OUTCOME_VOID with REASON_UNKNOWN_POD */
    UNKNOWN, /* with REASON_NONE */
    MOVED,   /* with REASON_CHANGED and the pod */
    ASKS,    /* a GET at once */
    AGAIN,   /* the same request, after a pause */
    DOUBT,   /* the same, and a copy of the Binding may still take effect */
};

/* Beside the statuses: answers that are none. */
enum { LOST = 0, LOST_UNSENT = -1, NOT_TAKEN = -2, LATE_SENT = -3, LATE_WAITS = -4 };

/* The reservation: with a version or without, and is the GET the first request? */
enum how { SENDS, SENDS_UNVERSIONED, ONLY_ASKS, ONLY_ASKS_UNVERSIONED };

struct row {
    const char *name;
    int status;
    const char *pod;  /* in the answer; NULL: a Status is */
    const char *text; /* how the outcome's text begins */
    enum how how;
    enum deed deed[STATES];
};

#define HTTP(code)            #code, code, NULL, "HTTP " #code ": so it says", SENDS
#define NONE(word, text)      #word, word, NULL, text, SENDS
#define POD(pod, text, how)   text, 200, pod, text, how
#define UNBOUND(uid, version) "\"uid\":\"" uid "\",\"resourceVersion\":\"" version "\"},\"spec\":{"
#define ON_NODE(uid, node)    UNBOUND(uid, "191") "\"nodeName\":\"" node "\","
#define LATE                  "the API server did not confirm in time"
#define NOT_BOUND             "the pod is not bound"
#define CONFLICT              NOT_BOUND ": HTTP 409: so it says"
#define REPLACED              "the pod was replaced by one with uid u2"
#define ELSEWHERE             "the pod was bound to node n2 without us"

static const char says[] = "{\"kind\":\"Status\",\"message\":\"so it says\"}";

/* In the order of the states: POSTED, POSTED_MAYBE_TWICE, ASKED, ASKED_MAYBE_TWICE. */
static const struct row rows[] = {
    {"200, no pod",
     200,
     NULL,
     "Pod.kind: is another kind of object",
     SENDS,
     {DOUBT, DOUBT, UNKNOWN, UNKNOWN}},
    {HTTP(201), {BOUND, BOUND, UNKNOWN, UNKNOWN}},
    {HTTP(202), {DOUBT, DOUBT, UNKNOWN, UNKNOWN}},
    {HTTP(299), {DOUBT, DOUBT, UNKNOWN, UNKNOWN}},
    {HTTP(199), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {HTTP(300), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {HTTP(400), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {HTTP(403), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {HTTP(404), {GONE, ASKS, GONE, GONE}},
    {HTTP(409), {ASKS, ASKS, UNKNOWN, UNKNOWN}},
    {HTTP(422), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {HTTP(429), {AGAIN, DOUBT, AGAIN, DOUBT}},
    {HTTP(499), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {HTTP(500), {DOUBT, DOUBT, AGAIN, DOUBT}},
    {HTTP(504), {DOUBT, DOUBT, AGAIN, DOUBT}},
    {NONE(LOST, NULL), {DOUBT, DOUBT, AGAIN, DOUBT}},
    {NONE(LOST_UNSENT, NULL), {AGAIN, DOUBT, AGAIN, DOUBT}},
    {NONE(NOT_TAKEN, NULL), {AGAIN, DOUBT, AGAIN, DOUBT}},
    {NONE(LATE_SENT, LATE), {UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}},
    {NONE(LATE_WAITS, LATE), {VOID, UNKNOWN, UNKNOWN, UNKNOWN}},
    {POD(ON_NODE("u1", "n1"), "bound", SENDS), {DOUBT, DOUBT, BOUND, BOUND}},
    {POD(ON_NODE("u2", "n1"), REPLACED, SENDS), {DOUBT, DOUBT, VOID, VOID}},
    {POD(ON_NODE("u1", "n2"), ELSEWHERE, SENDS), {DOUBT, DOUBT, VOID, VOID}},
    {POD(UNBOUND("u1", "191"), CONFLICT, SENDS), {DOUBT, DOUBT, MOVED, MOVED}},
    {POD(UNBOUND("u1", "190"), CONFLICT, SENDS), {DOUBT, DOUBT, VOID, UNKNOWN}},
    {POD(UNBOUND("u1", "9"), CONFLICT, SENDS), {DOUBT, DOUBT, VOID, UNKNOWN}},
    {POD(UNBOUND("u1", "191"), CONFLICT, SENDS_UNVERSIONED), {DOUBT, DOUBT, VOID, UNKNOWN}},
    {POD(UNBOUND("u1", "191"), NOT_BOUND, ONLY_ASKS), {NEVER, NEVER, NEVER, MOVED}},
    {POD(UNBOUND("u1", "190"), NOT_BOUND, ONLY_ASKS), {NEVER, NEVER, NEVER, UNKNOWN}},
    {POD(UNBOUND("u1", "191"), NOT_BOUND, ONLY_ASKS_UNVERSIONED), {NEVER, NEVER, NEVER, VOID}},
};

struct api {
    struct outbox *outbox;
    uint64_t id;
    char method[16];
    uint32_t started;
    uint32_t cancelled;
    bool takes_nothing;
    struct message *result;
    int64_t now_ms;
};

static int api_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct api *api = ctx;

    api->started++;
    api->id = request->id;
    (void)snprintf(api->method, sizeof api->method, "%s", request->method);
    return api->takes_nothing ? err_set(err, ERR_IO, "connection refused") : 0;
}

static void api_cancel(void *ctx, uint64_t id)
{
    struct api *api = ctx;

    assert_int_equal(id, api->id);
    api->cancelled++;
}

static void api_wake(void *ctx)
{
    (void)ctx;
}

static void api_result(void *user, struct message *take_message)
{
    struct api *api = user;

    assert_null(api->result); /* one outcome */
    api->result = take_message;
}

static void api_step(struct api *api)
{
    (void)outbox_step(api->outbox, api->now_ms, api->now_ms);
}

static void answers(struct api *api, int status, const char *body)
{
    struct kube_answer answer = {.id = api->id, .piece = KUBE_HEAD, .status = status};

    outbox_answer(api->outbox, api->now_ms, &answer);
    answer.piece = KUBE_DATA;
    answer.data = text_of(body);
    outbox_answer(api->outbox, api->now_ms, &answer);
    answer.piece = KUBE_DONE;
    outbox_answer(api->outbox, api->now_ms, &answer);
}

static void answer_row(struct api *api, const struct row *row)
{
    char body[512];
    const struct err lost = {ERR_IO, "connection lost"};
    const struct kube_answer failed = {
        .id = api->id, .piece = KUBE_FAILED, .unsent = row->status == LOST_UNSENT, .err = &lost};

    (void)snprintf(body, sizeof body,
                   "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod\",\"namespace\":\"ns\",%s"
                   "\"containers\":[]},\"status\":{}}",
                   row->pod != NULL ? row->pod : "");
    if (row->status == LATE_SENT) {
        api->now_ms += 4000;
        api_step(api);
        assert_int_equal(api->cancelled, 1);
    } else if (row->status == LOST || row->status == LOST_UNSENT)
        outbox_answer(api->outbox, api->now_ms, &failed);
    else if (row->status > 0)
        answers(api, row->status, row->pod != NULL ? body : says);
}

/* The request of this state is in flight, or waits where the row is about one that waits. */
static void arrive(struct api *api, enum state state, const struct row *row)
{
    const bool twice = state == POSTED_MAYBE_TWICE || state == ASKED_MAYBE_TWICE;
    const bool only_asks = row->how >= ONLY_ASKS;
    const bool versioned = row->how == SENDS || row->how == ONLY_ASKS;
    const struct outbox_binding binding = {.uid = "u1",
                                           .namespace = "ns",
                                           .name = "pod",
                                           .node = "n1",
                                           .body = TEXT("{\"kind\":\"Binding\"}"),
                                           .version = versioned ? 190 : 0,
                                           .deadline_ms = api->now_ms + 4000,
                                           .sending = only_asks ? SENDING_NOTHING
                                                      : twice   ? SENDING_AGAIN
                                                                : SENDING_FIRST};
    const bool get_is_second = state >= ASKED && !only_asks;

    outbox_bind(api->outbox, &binding);
    if (get_is_second) {
        api_step(api);
        assert_string_equal(api->method, "POST");
        answers(api, 409, says);
    }
    if (row->status == LATE_WAITS && !get_is_second) {
        api_step(api);
        answers(api, 429, says);
    }
    api->now_ms += row->status == LATE_WAITS ? 3500 : 0;
    api->takes_nothing = row->status == NOT_TAKEN;
    api_step(api);
    api->takes_nothing = false;
}

static const struct {
    enum bind_outcome outcome;
    enum reason reason;
} outcomes[] = {
    [BOUND] = {OUTCOME_BOUND, REASON_NONE},      [VOID] = {OUTCOME_VOID, REASON_CHANGED},
    [GONE] = {OUTCOME_VOID, REASON_UNKNOWN_POD}, [UNKNOWN] = {OUTCOME_UNKNOWN, REASON_NONE},
    [MOVED] = {OUTCOME_MOVED, REASON_CHANGED},
};

static void expect_outcome(struct api *api, enum deed deed, const char *text)
{
    const uint32_t started = api->started;

    assert_non_null(api->result);
    const struct binding_outcome *outcome = &api->result->outcome;

    assert_int_equal(api->result->kind, MESSAGE_OUTCOME);
    assert_string_equal(outcome->uid, "u1");
    assert_int_equal(outcome->result, outcomes[deed].outcome);
    assert_int_equal(outcome->reason, outcomes[deed].reason);
    if (deed == BOUND)
        assert_null(outcome->text);
    else
        assert_memory_equal(outcome->text, text, strlen(text));
    if (deed == MOVED) {
        assert_string_equal(outcome->pod.uid, "u1");
        assert_string_equal(outcome->pod.resource_version, "191");
    }
    api_step(api);
    assert_int_equal(api->started, started); /* nothing more is sent */
    assert_int_equal(outbox_open(api->outbox), 0);
    assert_int_equal(outbox_bytes(api->outbox), 0);
}

/* A copy may still take effect exactly if a definite refusal does not end the reservation. */
static void expect_doubt(struct api *api, bool maybe)
{
    if (strcmp(api->method, "POST") == 0)
        answers(api, 403, says);
    else
        answers(api, 200,
                "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod\",\"namespace\":\"ns\"," UNBOUND(
                    "u1", "190") "\"containers\":[]},\"status\":{}}");
    assert_non_null(api->result);
    assert_int_equal(api->result->outcome.result, maybe ? OUTCOME_UNKNOWN : OUTCOME_VOID);
}

static void expect(struct api *api, enum state state, const struct row *row)
{
    const enum deed deed = row->deed[state];
    const uint32_t before = api->started;

    if (deed < ASKS) {
        expect_outcome(api, deed, row->text);
        return;
    }
    assert_null(api->result);
    if (deed == AGAIN || deed == DOUBT) {
        api_step(api);
        assert_int_equal(api->started, before); /* not at once */
        api->now_ms += 60;
    }
    api_step(api);
    assert_int_equal(api->started, before + 1);
    assert_string_equal(api->method, deed == ASKS || state >= ASKED ? "GET" : "POST");
    if (deed == ASKS)
        expect_doubt(api, state == POSTED_MAYBE_TWICE);
    else
        expect_doubt(api, deed == DOUBT);
}

static void try_cell(enum state state, const struct row *row)
{
    static const struct wire_rules wire = {.resource = "nvidia.com/vgpu",
                                           .whole_resource = "nvidia.com/gpu"};
    struct api api = {.now_ms = 1000};
    const struct kube_ops ops = {
        .ctx = &api, .start = api_start, .cancel = api_cancel, .wake = api_wake};
    const struct outbox_rules rules = {.ops = &ops,
                                       .wire = &wire,
                                       .wake = "off",
                                       .namespace = "milligpu-system",
                                       .instance = "test",
                                       .resource = "nvidia.com/vgpu",
                                       .user = &api,
                                       .result = api_result};

    print_message("%s, state %d\n", row->name, state);
    api.outbox = outbox_new(&rules);
    arrive(&api, state, row);
    answer_row(&api, row);
    expect(&api, state, row);
    outbox_free(api.outbox);
    message_free(api.result);
}

TEST(binding_table__has_an_action_for_each_state_and_answer)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (enum state at = POSTED; at < STATES; at++)
            if (rows[i].deed[at] != NEVER)
                try_cell(at, &rows[i]);
}
