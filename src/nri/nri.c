/*
 * Dispatches the runtime's calls to the handlers. Called through nri_feed(), in the agent's main
 * thread. A session answers each message as soon as it is complete, and keeps no state between
 * calls except the order:
 *
 *     RegisterPlugin ->
 *                    <- Configure      the handler selects the events
 *                    <- Synchronize    once or more
 *                    <- other calls    refused before Synchronize, so that handlers have the
 *                                      complete list
 */
#include "milligpu/nri/nri.h"

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"
#include "milligpu/base/strbuf.h"

#include "codec.h"
#include "mux.h"
#include "ttrpc.h"

enum {
    REGISTER_STREAM = 1,
    KEEP_MAX = 256 * 1024, /* bytes of memory kept after a large message */
    ENVELOPE_MAX = 4096,   /* bytes of an answer besides its payload: status, field headers */
    SHOWN_MAX = 256,
    /* Limits of one call of synchronize: members of one kind, and bytes of their lists. */
    BATCH_MAX = 64,
    BATCH_BYTES_MAX = 1024 * 1024,
};

struct nri_session {
    struct nri_handlers handlers;
    struct err broken; /* the error that ended the session; ERR_NONE while it is usable */
    struct mux mux;
    /* Input of MUX_PLUGIN and of MUX_RUNTIME. */
    struct ttrpc calls;
    struct ttrpc responses;

    struct strbuf output;
    size_t sent;          /* bytes of output that were sent */
    struct arena arena;   /* memory of one message */
    uint32_t last_stream; /* stream number of the runtime's last call */
    bool registered;
    bool configured;
    bool synchronized;
};

/* --- output --- */

static void put(struct nri_session *session, enum mux_connection connection,
                const struct ttrpc_message *message)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    strbuf_init(&bytes);
    ttrpc_put(&bytes, message);
    /* Sent bytes are removed when they outnumber the pending ones. */
    if (session->sent > session->output.len / 2) {
        strbuf_cut(&session->output, 0, session->sent);
        session->sent = 0;
    }
    mux_put(&session->output, connection, (struct text){bytes.data, bytes.len});
}

static void put_register(struct nri_session *session)
{
    CLEANUP(strbuf_done) struct strbuf payload;
    CLEANUP(strbuf_done) struct strbuf data;
    strbuf_init(&payload);
    strbuf_init(&data);
    codec_put_register(&payload);
    const struct codec_request request = {
        TEXT("nri.pkg.api.v1alpha1.Runtime"), TEXT("RegisterPlugin"), {payload.data, payload.len}};
    codec_put_request(&data, &request);
    const struct ttrpc_message message = {
        .stream = REGISTER_STREAM, .type = TTRPC_REQUEST, .data = {data.data, data.len}};
    put(session, MUX_RUNTIME, &message);
}

static void put_answer(struct nri_session *session, uint32_t stream,
                       const struct codec_response *response)
{
    CLEANUP(strbuf_done) struct strbuf data;
    strbuf_init(&data);
    codec_put_response(&data, response);
    const struct ttrpc_message message = {
        .stream = stream, .type = TTRPC_RESPONSE, .data = {data.data, data.len}};
    put(session, MUX_PLUGIN, &message);
}

struct text nri_output(const struct nri_session *session)
{
    must(session->sent <= session->output.len);
    return (struct text){session->output.data + session->sent, session->output.len - session->sent};
}

void nri_sent(struct nri_session *session, size_t bytes)
{
    must(bytes <= nri_output(session).len);

    session->sent += bytes;
    if (session->sent < session->output.len)
        return;
    session->sent = 0;
    strbuf_reset(&session->output);
    if (session->output.capacity > KEEP_MAX) {
        strbuf_done(&session->output);
        strbuf_init(&session->output);
    }
}

/* --- calls of the runtime --- */

/* The code of an error answer; its text is that of err. */
static enum ttrpc_code refuse(const struct err *err)
{
    return err->code == ERR_TOO_LARGE ? TTRPC_RESOURCE_EXHAUSTED : TTRPC_INVALID_ARGUMENT;
}

static enum ttrpc_code too_early(const char *missing, struct err *err)
{
    (void)err_set(err, ERR_UNAVAILABLE, "called before %s", missing);
    return TTRPC_FAILED_PRECONDITION;
}

static enum ttrpc_code serve_configure(struct nri_session *session, struct text payload,
                                       struct strbuf *answer, struct err *err)
{
    const struct nri_handlers *handlers = &session->handlers;
    struct nri_runtime runtime;
    uint32_t events = NRI_EVENTS;

    session->configured = false;
    session->synchronized = false;
    if (codec_configure(payload, &runtime, err) < 0)
        return refuse(err);
    if (handlers->configure != NULL &&
        handlers->configure(handlers->user, &runtime, &events, err) < 0)
        return TTRPC_UNKNOWN;
    /* The runtime takes 0 as all events. */
    must((events & NRI_EVENTS) != 0);
    codec_put_events(answer, events & NRI_EVENTS);
    session->configured = true;
    return TTRPC_OK;
}

/* Part of a list, so that memory does not depend on its length. */
struct nri_batch {
    uint32_t n_pods;
    uint32_t n_containers;
    struct nri_pod pod[BATCH_MAX];
    struct nri_container container[BATCH_MAX];
};

static void deliver_batch(struct nri_session *session, struct nri_batch *batch, bool more)
{
    const struct nri_handlers *handlers = &session->handlers;

    handlers->synchronize(handlers->user, batch->pod, batch->n_pods, batch->container,
                          batch->n_containers, more);
    batch->n_pods = batch->n_containers = 0;
    arena_reset(&session->arena);
}

/* Passes the batch to the handler if it is full. */
static void make_room(struct nri_session *session, struct nri_batch *batch)
{
    if (batch->n_pods == BATCH_MAX || batch->n_containers == BATCH_MAX ||
        arena_used(&session->arena) > BATCH_BYTES_MAX)
        deliver_batch(session, batch, true);
}

static void deliver_list(struct nri_session *session, struct codec_sync *sync)
{
    struct nri_batch batch;

    batch.n_pods = batch.n_containers = 0;
    while (codec_next_pod(sync, &session->arena, &batch.pod[batch.n_pods])) {
        batch.n_pods++;
        make_room(session, &batch);
    }
    while (codec_next_container(sync, &session->arena, &batch.container[batch.n_containers])) {
        batch.n_containers++;
        make_room(session, &batch);
    }
    deliver_batch(session, &batch, sync->more);
}

/*
 * Refuses only malformed lists: a refusal ends the connection, and the runtime would send the same
 * list again.
 */
static enum ttrpc_code serve_synchronize(struct nri_session *session, struct text payload,
                                         struct strbuf *answer, struct err *err)
{
    struct codec_sync sync;

    if (!session->configured)
        return too_early("Configure", err);
    session->synchronized = false;
    if (codec_synchronize(payload, &sync, err) < 0)
        return refuse(err);
    if (session->handlers.synchronize != NULL)
        deliver_list(session, &sync);
    codec_put_more(answer, sync.more);
    session->synchronized = !sync.more;
    return TTRPC_OK;
}

/* Refuses calls before Synchronize, without a container, or without a required pod. */
static enum ttrpc_code check(const struct nri_session *session, const struct codec_call *call,
                             bool without_pod, struct err *err)
{
    if (!session->synchronized)
        return too_early("Synchronize", err);
    if (call->has_container && (call->has_pod || without_pod))
        return TTRPC_OK;
    (void)err_set(err, ERR_INVALID, "the call names no %s",
                  call->has_container ? "pod" : "container");
    return TTRPC_INVALID_ARGUMENT;
}

static enum ttrpc_code started(struct nri_session *session, const struct codec_call *call,
                               struct err *err)
{
    const struct nri_handlers *handlers = &session->handlers;
    const enum ttrpc_code code = check(session, call, false, err);
    if (code != TTRPC_OK || handlers->start == NULL)
        return code;
    return handlers->start(handlers->user, &call->pod, &call->container, err) < 0 ? TTRPC_UNKNOWN
                                                                                  : TTRPC_OK;
}

typedef void (*ended_fn)(void *user, const struct nri_pod *pod,
                         const struct nri_container *container);

/* The pod is optional: the runtime can drop it before its containers. */
static enum ttrpc_code ended(struct nri_session *session, const struct codec_call *call,
                             ended_fn handler, struct err *err)
{
    const enum ttrpc_code code = check(session, call, true, err);
    if (code == TTRPC_OK && handler != NULL)
        handler(session->handlers.user, &call->pod, &call->container);
    return code;
}

static enum ttrpc_code pod_ended(struct nri_session *session, const struct codec_call *call,
                                 struct err *err)
{
    const struct nri_handlers *handlers = &session->handlers;

    if (!session->synchronized)
        return too_early("Synchronize", err);
    if (!call->has_pod) {
        (void)err_set(err, ERR_INVALID, "the call names no pod");
        return TTRPC_INVALID_ARGUMENT;
    }
    if (handlers->pod_stopped != NULL)
        handlers->pod_stopped(handlers->user, &call->pod);
    return TTRPC_OK;
}

static enum ttrpc_code serve_create(struct nri_session *session, struct text payload,
                                    struct strbuf *answer, struct err *err)
{
    const struct nri_handlers *handlers = &session->handlers;
    struct nri_adjustment adjust = {0};
    struct codec_call call;

    if (codec_call(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    const enum ttrpc_code code = check(session, &call, false, err);
    if (code != TTRPC_OK || handlers->create == NULL)
        return code;
    if (handlers->create(handlers->user, &call.pod, &call.container, &adjust, err) < 0)
        return TTRPC_UNKNOWN;
    codec_put_created(&session->arena, &adjust, answer);
    return TTRPC_OK;
}

static enum ttrpc_code serve_validate(struct nri_session *session, struct text payload,
                                      struct strbuf *answer, struct err *err)
{
    const struct nri_handlers *handlers = &session->handlers;
    struct codec_call call;

    if (codec_call(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    const enum ttrpc_code code = check(session, &call, false, err);
    if (code != TTRPC_OK || handlers->validate == NULL)
        return code;
    if (handlers->validate(handlers->user, &call.pod, &call.container, &call.adjust, call.validator,
                           err) < 0) {
        CLEANUP(strbuf_done) struct strbuf reason;
        strbuf_init(&reason);
        strbuf_shown(&reason, text_of(err->text));
        codec_put_rejected(answer, (struct text){reason.data, reason.len});
    }
    return TTRPC_OK;
}

static enum ttrpc_code serve_start(struct nri_session *session, struct text payload,
                                   struct strbuf *answer, struct err *err)
{
    struct codec_call call;

    must(answer->len == 0);
    if (codec_call(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    return started(session, &call, err);
}

static enum ttrpc_code serve_stop(struct nri_session *session, struct text payload,
                                  struct strbuf *answer, struct err *err)
{
    struct codec_call call;

    must(answer->len == 0);
    if (codec_call(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    return ended(session, &call, session->handlers.stopped, err);
}

static enum ttrpc_code serve_remove(struct nri_session *session, struct text payload,
                                    struct strbuf *answer, struct err *err)
{
    struct codec_call call;

    must(answer->len == 0);
    if (codec_call(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    return ended(session, &call, session->handlers.removed, err);
}

static enum ttrpc_code serve_stop_pod(struct nri_session *session, struct text payload,
                                      struct strbuf *answer, struct err *err)
{
    struct codec_call call;

    must(answer->len == 0);
    if (codec_call(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    return pod_ended(session, &call, err);
}

/* Replaces the four calls above in runtimes before NRI 0.12. */
static enum ttrpc_code serve_state_change(struct nri_session *session, struct text payload,
                                          struct strbuf *answer, struct err *err)
{
    enum { STOP_POD = 2, START = 6, STOP = 10, REMOVE = 11 };
    struct codec_call call;

    must(answer->len == 0);
    if (codec_state_change(&session->arena, payload, &call, err) < 0)
        return refuse(err);
    switch (call.event) {
    case STOP_POD:
        return pod_ended(session, &call, err);
    case START:
        return started(session, &call, err);
    case STOP:
        return ended(session, &call, session->handlers.stopped, err);
    case REMOVE:
        return ended(session, &call, session->handlers.removed, err);
    default: /* events after a call, or without a handler */
        return TTRPC_OK;
    }
}

/* Needs no action: the runtime closes the connection itself. */
static enum ttrpc_code serve_shutdown(struct nri_session *session, struct text payload,
                                      struct strbuf *answer, struct err *err)
{
    (void)session;
    (void)payload;
    (void)answer;
    (void)err;
    return TTRPC_OK;
}

static const struct method {
    const char *name;
    enum ttrpc_code (*serve)(struct nri_session *session, struct text payload,
                             struct strbuf *answer, struct err *err);
} methods[] = {
    {"Configure", serve_configure},      {"Synchronize", serve_synchronize},
    {"CreateContainer", serve_create},   {"StartContainer", serve_start},
    {"StopContainer", serve_stop},       {"RemoveContainer", serve_remove},
    {"StateChange", serve_state_change}, {"ValidateContainerAdjustment", serve_validate},
    {"StopPodSandbox", serve_stop_pod},  {"Shutdown", serve_shutdown},
};

static enum ttrpc_code unimplemented(const struct codec_request *request, struct err *err)
{
    char service[SHOWN_MAX / 2];
    char method[SHOWN_MAX / 2];

    text_clip(request->service, service, sizeof service);
    text_clip(request->method, method, sizeof method);
    (void)err_set(err, ERR_NOT_FOUND, "no such method: /%s/%s", service, method);
    return TTRPC_UNIMPLEMENTED;
}

static enum ttrpc_code serve(struct nri_session *session, const struct ttrpc_message *message,
                             struct strbuf *answer, struct err *err)
{
    struct codec_request request;

    if (message->stream % 2 == 0 || message->stream <= session->last_stream) {
        (void)err_set(err, ERR_INVALID, "stream %u after stream %u", message->stream,
                      session->last_stream);
        return TTRPC_INVALID_ARGUMENT;
    }
    session->last_stream = message->stream;
    if (codec_request(message->data, &request, err) < 0)
        return refuse(err);
    if (!text_is(request.service, "nri.pkg.api.v1alpha1.Plugin") ||
        (message->flags & TTRPC_REMOTE_OPEN) != 0)
        return unimplemented(&request, err);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (text_is(request.method, methods[i].name))
            return methods[i].serve(session, request.payload, answer, err);
    return unimplemented(&request, err);
}

/* Error texts are escaped, since the runtime rejects an answer with invalid UTF-8. */
static void take_call(struct nri_session *session, const struct ttrpc_message *message)
{
    struct err err = {.code = ERR_NONE};
    CLEANUP(strbuf_done) struct strbuf answer;
    CLEANUP(strbuf_done) struct strbuf text;
    strbuf_init(&answer);
    strbuf_init(&text);

    enum ttrpc_code code = serve(session, message, &answer, &err);
    if (answer.len > NRI_MESSAGE_MAX - ENVELOPE_MAX) {
        (void)err_set(&err, ERR_TOO_LARGE, "the answer is too large: %zu bytes", answer.len);
        code = TTRPC_RESOURCE_EXHAUSTED;
    }
    struct codec_response response = {.code = (int32_t)code, .message = TEXT("")};
    if (code != TTRPC_OK) {
        must(err.code != ERR_NONE);
        strbuf_shown(&text, text_of(err.text));
        response.message = (struct text){text.data, text.len};
    } else {
        response.payload = (struct text){answer.data, answer.len};
    }
    put_answer(session, message->stream, &response);
}

/* --- the answer of the runtime --- */

static int take_response(struct nri_session *session, const struct ttrpc_message *message,
                         struct err *err)
{
    struct codec_response response;
    char text[SHOWN_MAX];

    if (session->registered || message->stream != REGISTER_STREAM)
        return 0;
    if (codec_response(message->data, &response, err) < 0)
        return err_wrap(err, "the answer to RegisterPlugin");
    session->registered = true;
    if (response.code == 0)
        return 0;
    text_clip(response.message, text, sizeof text);
    return err_set(err, ERR_FORBIDDEN, "the runtime refuses the plugin: %s", text);
}

/* --- input --- */

/* Skips messages of another type than the connection's, as the runtime does. */
static int take_message(struct nri_session *session, enum mux_connection connection,
                        const struct ttrpc_message *message, struct err *err)
{
    int result = 0;

    if (connection == MUX_PLUGIN && message->type == TTRPC_REQUEST)
        take_call(session, message);
    else if (connection == MUX_RUNTIME && message->type == TTRPC_RESPONSE)
        result = take_response(session, message, err);
    arena_trim(&session->arena, KEEP_MAX);
    if (result == 0 && nri_output(session).len > NRI_OUTPUT_MAX)
        return err_set(err, ERR_TOO_LARGE, "the runtime calls, but does not read the answers");
    return result;
}

static int take_piece(struct nri_session *session, struct mux_piece piece, struct err *err)
{
    struct ttrpc_message message;

    if (piece.connection != MUX_PLUGIN && piece.connection != MUX_RUNTIME)
        return 0;
    const enum mux_connection connection = (enum mux_connection)piece.connection;
    struct ttrpc *ttrpc = connection == MUX_PLUGIN ? &session->calls : &session->responses;
    int got;
    while ((got = ttrpc_next(ttrpc, &piece.bytes, &message, err)) > 0)
        if (take_message(session, connection, &message, err) < 0)
            return err_same(err);
    must(got < 0 || piece.bytes.len == 0);
    return got;
}

static int take(struct nri_session *session, struct text bytes, struct err *err)
{
    struct mux_piece piece;
    int got;

    while ((got = mux_next(&session->mux, &bytes, &piece, err)) > 0)
        if (take_piece(session, piece, err) < 0)
            return err_same(err);
    return got;
}

int nri_feed(struct nri_session *session, struct text bytes, struct err *err)
{
    if (session->broken.code == ERR_NONE && take(session, bytes, &session->broken) == 0)
        return 0;
    must(session->broken.code != ERR_NONE);
    session->synchronized = false;
    *err = session->broken;
    return err_same(err);
}

/* --- the session --- */

struct nri_session *nri_session_new(const struct nri_handlers *handlers)
{
    struct nri_session *session = xcalloc(1, sizeof *session);
    session->handlers = *handlers;
    ttrpc_init(&session->calls);
    ttrpc_init(&session->responses);
    strbuf_init(&session->output);
    arena_init(&session->arena);
    put_register(session);
    return session;
}

void nri_session_free(struct nri_session *session)
{
    if (session == NULL)
        return;
    ttrpc_done(&session->calls);
    ttrpc_done(&session->responses);
    strbuf_done(&session->output);
    arena_done(&session->arena);
    xfree(session);
}

bool nri_is_synchronized(const struct nri_session *session)
{
    return session->synchronized;
}

/* Searched from the end: of duplicate keys in a protobuf map, the last one counts. */
bool nri_annotation(const struct nri_pod *pod, const char *key, struct text *out)
{
    *out = TEXT("");
    for (uint32_t i = pod->n_annotations; i > 0; i--) {
        if (!text_is(pod->annotation[i - 1].key, key))
            continue;
        *out = pod->annotation[i - 1].value;
        return true;
    }
    return false;
}
