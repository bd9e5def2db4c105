/*
 * Bindings and GETs: maps each answer to an outcome or the next request. Runs on the outbox thread;
 * outcomes go to the writer as messages. A Binding's outcome is VOID only if no copy of it can take
 * effect; if that is uncertain it is UNKNOWN (docs/why/012).
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/message.h"

#include "outbox_internal.h"

/* --- the table of a Binding --- */

/*
 * The kind of request whose try has ended (POST or GET). Doubtful: a copy sent earlier may still
 * take effect, whatever the result of this try.
 */
enum binding_state { POSTED, POSTED_DOUBTFUL, ASKED, ASKED_DOUBTFUL, BINDING_STATES };

enum binding_next {
    NEVER, /* impossible */
    /* Outcomes. */
    BOUND,
    VOID,    /* no Binding of this reservation has taken effect or ever will */
    GONE,    /* VOID, because the pod does not exist */
    UNKNOWN, /* a Binding may still take effect */
    MOVED,   /* the writer evaluates the pod's new version */
    /* No outcome yet. */
    ASK,   /* send a GET at once */
    RETRY, /* repeat the request later */
    DOUBT, /* same, and the Binding is doubtful from now on */
};

/*
 * The next step, by answer (rows) and state: POSTED, POSTED_DOUBTFUL, ASKED, ASKED_DOUBTFUL.
 * docs/why/012 explains the evidence, docs/why/010 the retries.
 */
#define BINDING_TABLE(X)                                                                           \
    X(ANSWER_CREATED, BOUND, BOUND, UNKNOWN, UNKNOWN)       /* 201 */                              \
    X(ANSWER_OTHER_SUCCESS, DOUBT, RETRY, UNKNOWN, UNKNOWN) /* other 2xx, from a proxy */          \
    X(ANSWER_NOT_FOUND, GONE, ASK, GONE, GONE)              /* 404; a copy may have been first */  \
    X(ANSWER_CONFLICT, ASK, ASK, UNKNOWN, UNKNOWN)          /* 409 */                              \
    X(ANSWER_TOO_MANY, RETRY, RETRY, RETRY, RETRY)          /* 429: refused unprocessed */         \
    X(ANSWER_SERVER_ERROR, DOUBT, RETRY, RETRY, RETRY)      /* 5xx */                              \
    X(ANSWER_REFUSED, VOID, UNKNOWN, UNKNOWN, UNKNOWN)      /* any other status */                 \
    X(ANSWER_LOST, DOUBT, RETRY, RETRY, RETRY)              /* none; may have arrived */           \
    X(ANSWER_LOST_UNSENT, RETRY, RETRY, RETRY, RETRY)       /* none; never sent */                 \
    X(ANSWER_LATE, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)      /* deadline passed in flight */        \
    X(ANSWER_LATE_UNSENT, VOID, UNKNOWN, UNKNOWN, UNKNOWN)  /* deadline passed between tries */    \
    X(ANSWER_UNREADABLE, NEVER, NEVER, UNKNOWN, UNKNOWN)    /* this and below: GET with 200 */     \
    X(ANSWER_REPLACED, NEVER, NEVER, VOID, VOID)            /* the pod has another uid */          \
    X(ANSWER_BOUND, NEVER, NEVER, BOUND, BOUND)             /* to the node of the Binding */       \
    X(ANSWER_BOUND_ELSEWHERE, NEVER, NEVER, VOID, VOID)                                            \
    X(ANSWER_UNBOUND_LATER, NEVER, NEVER, MOVED, MOVED)     /* in a later version */               \
    X(ANSWER_UNBOUND, NEVER, NEVER, VOID, UNKNOWN)          /* in no later version */              \
    X(ANSWER_UNBOUND_TIME_IS_UP, NEVER, NEVER, NEVER, VOID) /* no version, is_query */

enum binding_answer {
#define X(answer, ...) answer,
    BINDING_TABLE(X)
#undef X
};

static const enum binding_next binding_table[][BINDING_STATES] = {
#define X(answer, ...) [answer] = {__VA_ARGS__},
    BINDING_TABLE(X)
#undef X
};

static enum binding_state binding_state_of(const struct outbox_call *call)
{
    must(call->kind == CALL_BIND || call->kind == CALL_CHECK);
    if (call->kind == CALL_BIND)
        return call->binding.maybe_sent ? POSTED_DOUBTFUL : POSTED;
    return call->binding.maybe_sent ? ASKED_DOUBTFUL : ASKED;
}

static enum binding_answer answer_of_status(int status)
{
    switch (status) {
    case 201:
        return ANSWER_CREATED;
    case 404:
        return ANSWER_NOT_FOUND;
    case 409:
        return ANSWER_CONFLICT;
    case 429:
        return ANSWER_TOO_MANY;
    default:
        if (status >= 500)
            return ANSWER_SERVER_ERROR;
        return status >= 200 && status < 300 ? ANSWER_OTHER_SUCCESS : ANSWER_REFUSED;
    }
}

/* A pod in a later version than the Binding's proves that no copy of it can take effect. */
static enum binding_answer answer_of_unbound(const struct outbox_call *call, const struct pod *pod)
{
    must(pod->node[0] == '\0');
    if (call->binding.version > 0 && version_number(pod->resource_version) > call->binding.version)
        return ANSWER_UNBOUND_LATER;
    return call->binding.version == 0 && call->binding.is_query ? ANSWER_UNBOUND_TIME_IS_UP
                                                                : ANSWER_UNBOUND;
}

/*
 * Compares the pod of a GET with the Binding, by uid and node. The annotation is ignored, because
 * users who may write the pod may have changed it already: the pod holds its reservation, just as
 * if the watch had shown it first.
 */
static enum binding_answer check_pod(const struct outbox_call *call, const struct pod *pod,
                                     struct arena *arena, const char **out_text)
{
    must(call->kind == CALL_CHECK && call->binding.node != NULL);

    const char *separator = call->try.last_error[0] != '\0' ? ": " : "";

    if (strcmp(pod->uid, call->binding.uid) != 0) {
        *out_text = arena_printf(arena, "the pod was replaced by one with uid %s", pod->uid);
        return ANSWER_REPLACED;
    }
    if (pod->node[0] == '\0') {
        *out_text =
            arena_printf(arena, "the pod is not bound%s%s", separator, call->try.last_error);
        return answer_of_unbound(call, pod);
    }
    *out_text = arena_printf(arena, "the pod was bound to node %s without us", pod->node);
    return strcmp(pod->node, call->binding.node) == 0 ? ANSWER_BOUND : ANSWER_BOUND_ELSEWHERE;
}

/* --- jobs from other threads --- */

/* Joins the parts of the path: as formats, two of them took 1 % of the instructions of a bind. */
static const char *path_of_pod(struct arena *arena, const char *namespace, const char *pod,
                               const char *rest)
{
    const struct text parts[] = {TEXT("/api/v1/namespaces/"), text_of(namespace), TEXT("/pods/"),
                                 text_of(pod), text_of(rest)};
    size_t bytes = 1;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        bytes += parts[i].len;
    char *path = arena_alloc(arena, bytes);
    char *at = path;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        memcpy(at, parts[i].at, parts[i].len);
        at += parts[i].len;
    }
    must(at + 1 == path + bytes);
    return path;
}

/* Turns the call into a GET for the outcome of the Binding. */
static void become_check(struct outbox_call *call)
{
    must(call->kind == CALL_BIND && call->binding.pod_path != NULL);
    call->kind = CALL_CHECK;
    call->request.method = "GET";
    call->request.path = call->binding.pod_path;
    call->request.content_type = NULL;
    call->request.body = (struct text){NULL, 0};
    call->try.tries = 0;
}

void outbox_bind(struct outbox *outbox, const struct outbox_binding *binding)
{
    struct outbox_call *call = outbox_call_new(CALL_BIND, "POST");

    must(binding->deadline_ms > 0 && binding->body.len > 0);
    call->binding.pod_path = path_of_pod(&call->arena, binding->namespace, binding->name, "");
    call->request.path = path_of_pod(&call->arena, binding->namespace, binding->name, "/binding");
    call->request.content_type = "application/json";
    call->request.body = outbox_keep(&call->arena, binding->body);
    call->binding.uid = arena_copy(&call->arena, text_of(binding->uid));
    call->binding.node = arena_copy(&call->arena, text_of(binding->node));
    call->deadline_ms = binding->deadline_ms;
    call->binding.version = binding->version;
    call->binding.maybe_sent = binding->sending != SENDING_FIRST;
    call->binding.is_query = binding->sending == SENDING_NOTHING;
    call->namespace = arena_copy(&call->arena, text_of(binding->namespace));
    if (binding->sending == SENDING_NOTHING)
        become_check(call);
    outbox_put(outbox, call);
}

void outbox_fetch(struct outbox *outbox, struct bind_call *bind)
{
    must(bind->reply.to != NULL);

    const struct extender_bind *args = &bind->args;
    struct outbox_call *call = outbox_call_new(CALL_FETCH, "GET");
    struct message *fetched = message_new(MESSAGE_FETCHED);

    fetched->fetched.bind = (struct bind_call){
        .args = {.uid = arena_copy(&fetched->arena, text_of(args->uid)),
                 .namespace = arena_copy(&fetched->arena, text_of(args->namespace)),
                 .pod = arena_copy(&fetched->arena, text_of(args->pod)),
                 .node = arena_copy(&fetched->arena, text_of(args->node))},
        .deadline_ms = bind->deadline_ms,
        .reply = bind->reply,
    };
    bind->reply.to = NULL;
    call->fetched = fetched;
    call->request.path = path_of_pod(&call->arena, args->namespace, args->pod, "");
    call->namespace = arena_copy(&call->arena, text_of(args->namespace));
    call->deadline_ms = bind->deadline_ms;
    outbox_put(outbox, call);
}

/* --- the outcome of a Binding --- */

/* Ends the call with an outcome. Copies text and pod, because the call is freed before the send. */
static void bind_ends(struct outbox *outbox, struct outbox_call *call, enum binding_next end,
                      const struct pod *pod, const char *text)
{
    static const struct {
        enum bind_outcome is;
        enum reason reason;
    } ends[] = {
        [BOUND] = {OUTCOME_BOUND, REASON_NONE},      [VOID] = {OUTCOME_VOID, REASON_CHANGED},
        [GONE] = {OUTCOME_VOID, REASON_UNKNOWN_POD}, [UNKNOWN] = {OUTCOME_UNKNOWN, REASON_NONE},
        [MOVED] = {OUTCOME_MOVED, REASON_CHANGED},
    };
    struct message *result = message_new(MESSAGE_OUTCOME);

    must(end == BOUND || text != NULL);
    must(end != MOVED || strcmp(pod->uid, call->binding.uid) == 0);
    result->outcome = (struct binding_outcome){
        .uid = arena_copy(&result->arena, text_of(call->binding.uid)),
        .result = ends[end].is,
        .version = call->binding.version,
        .reason = ends[end].reason,
        .text = end != BOUND ? arena_copy(&result->arena, text_of(text)) : NULL,
    };
    if (end == MOVED)
        result->outcome.pod = *pod_keep(pod, &result->arena);
    outbox_drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

/* Applies the table. pod: from a GET with 200, else NULL; text: error text of an outcome. */
static void bind_follow(struct outbox *outbox, struct outbox_call *call, enum binding_answer answer,
                        const struct pod *pod, const char *text, int64_t now_ms)
{
    const enum binding_next next = binding_table[answer][binding_state_of(call)];

    switch (next) {
    case BOUND:
    case VOID:
    case GONE:
    case UNKNOWN:
    case MOVED:
        bind_ends(outbox, call, next, pod, text);
        return;
    case ASK:
        become_check(call);
        outbox_goes_on(outbox, call, now_ms);
        return;
    case RETRY:
    case DOUBT:
        call->binding.maybe_sent = call->binding.maybe_sent || next == DOUBT;
        outbox_retry(outbox, call, now_ms);
        return;
    case NEVER:
        break;
    }
    must_not_reach("the table has a cell for each answer to what was sent");
}

static void check_found(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    struct arena arena;
    struct pod pod;
    struct err err;
    const char *text = err.text;
    enum binding_answer answer = ANSWER_UNREADABLE;

    arena_init(&arena);
    if (pod_decode((struct text){call->response.answer.data, call->response.answer.len},
                   outbox->rules.wire, &arena, &pod, &err) == 0)
        answer = check_pod(call, &pod, &arena, &text);
    bind_follow(outbox, call, answer, &pod, text, now_ms);
    arena_done(&arena);
}

/* --- the pod that a bind needs --- */

/* Ends without a pod: it does not exist, or the GET failed. */
static void fetch_ends(struct outbox *outbox, struct outbox_call *call, enum reason reason,
                       const char *trouble)
{
    must(call->kind == CALL_FETCH && call->fetched != NULL);

    struct message *result = STEAL(call->fetched);
    struct fetched_pod *fetched = &result->fetched;

    fetched->found = false;
    fetched->reason = reason;
    fetched->text = trouble != NULL ? arena_copy(&result->arena, text_of(trouble)) : NULL;
    outbox_drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

static void fetch_found(struct outbox *outbox, struct outbox_call *call)
{
    must(call->kind == CALL_FETCH && call->fetched != NULL);

    struct message *result = call->fetched;
    struct err err;
    /* The decoded pod points into the body, so the message keeps a copy. */
    const struct text body = outbox_keep(
        &result->arena, (struct text){call->response.answer.data, call->response.answer.len});

    if (pod_decode(body, outbox->rules.wire, &result->arena, &result->fetched.pod, &err) < 0) {
        fetch_ends(outbox, call, REASON_NONE, err.text);
        return;
    }
    call->fetched = NULL;
    result->fetched.found = true;
    outbox_drop_call(outbox, call);
    outbox->rules.result(outbox->rules.user, result);
}

static void fetch_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->kind == CALL_FETCH && call->try.flying);
    if (call->response.status == 200) {
        fetch_found(outbox, call);
        return;
    }
    outbox_note_status(call);
    if (outbox_passing(call->response.status))
        outbox_retry(outbox, call, now_ms);
    else if (call->response.status == 404)
        fetch_ends(outbox, call, REASON_UNKNOWN_POD, "there is no such pod");
    else
        fetch_ends(outbox, call, REASON_NONE, call->try.last_error);
}

/* --- the ends of a try --- */

void outbox_bind_answered(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->try.flying);
    if (call->kind == CALL_FETCH) {
        fetch_answered(outbox, call, now_ms);
        return;
    }
    if (call->kind == CALL_CHECK && call->response.status == 200) {
        check_found(outbox, call, now_ms);
        return;
    }
    if (call->kind == CALL_CHECK || call->response.status != 201)
        outbox_note_status(call);
    bind_follow(outbox, call, answer_of_status(call->response.status), NULL, call->try.last_error,
                now_ms);
}

void outbox_bind_failed(struct outbox *outbox, struct outbox_call *call, int64_t now_ms,
                        bool unsent)
{
    must(call->try.flying);
    if (call->kind == CALL_FETCH)
        outbox_retry(outbox, call, now_ms);
    else
        bind_follow(outbox, call, unsent ? ANSWER_LOST_UNSENT : ANSWER_LOST, NULL,
                    call->try.last_error, now_ms);
}

void outbox_give_up(struct outbox *outbox, struct outbox_call *call, int64_t now_ms)
{
    must(call->deadline_ms > 0);

    char text[400];

    if (call->kind == CALL_FETCH) {
        fetch_ends(outbox, call, REASON_NONE,
                   call->try.last_error[0] != '\0' ? call->try.last_error : "it did not answer");
        return;
    }
    (void)snprintf(text, sizeof text, "the API server did not confirm in time%s%s",
                   call->try.last_error[0] != '\0' ? ": " : "", call->try.last_error);
    bind_follow(outbox, call, call->try.flying ? ANSWER_LATE : ANSWER_LATE_UNSENT, NULL, text,
                now_ms);
}
