/*
 * h2 - frames of HTTP/2 over a connection that libcurl has opened. Called by kube_curl.c in the
 * thread of its kube_ops.
 *
 * curl_easy_send() and curl_easy_recv() transport plain bytes through libcurl's TLS. libcurl never
 * uses such a connection for requests of its own.
 *
 * Invariant: while out has unsent bytes it neither grows nor moves, because a TLS library may
 * require that an interrupted write is repeated with the same bytes at the same address.
 */
#include "h2.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "milligpu/base/alloc.h"

enum {
    RECEIVE_BYTES = 16 * 1024, /* a TLS record */
    RECEIVE_TURNS = 64,
    SEND_BYTES = 64 * 1024,     /* frames are gathered up to this size */
    WINDOW_BYTES = 1024 * 1024, /* of the connection and of each stream */
    GREETING_MS = 3000,
    HEADERS_MAX = 10, /* of a request */
};

struct h2 {
    struct handles *handles;
    CURLM *multi;
    const struct h2_receiver *receiver;
    struct curl_handle *handle;
    nghttp2_session *session; /* NULL until libcurl has connected */
    enum h2_state state;
    int64_t begun_ms;
    int64_t limit_ms;
    int fd;
    bool has_more;
    uint32_t n_streams;
    struct strbuf out;
    size_t sent; /* bytes of out */
    struct err err;
    char error[CURL_ERROR_SIZE]; /* libcurl's message */
};

/* ---- the end of a connection ---- */

static bool h2_is_over(const struct h2 *h2)
{
    return h2->state == H2_REFUSED || h2->state == H2_CLOSED;
}

/* The first reason counts. */
static void h2_end(struct h2 *h2, enum h2_state state, enum err_code code, const char *why)
{
    must(state == H2_REFUSED || state == H2_CLOSED);
    if (h2_is_over(h2))
        return;
    (void)err_set(&h2->err, code, "%s: %s", handles_server(h2->handles), why);
    h2->state = state;
    h2->limit_ms = INT64_MAX;
}

void h2_close(struct h2 *h2, enum err_code code, const char *why)
{
    h2_end(h2, H2_CLOSED, code, why);
}

void h2_refuse(struct h2 *h2, const char *why)
{
    must(h2->state == H2_GREETING);
    h2_end(h2, H2_REFUSED, ERR_IO, why);
}

void h2_leave(struct h2 *h2)
{
    if (h2->state == H2_OPEN)
        h2->state = H2_LEAVING;
}

/* Before the server's SETTINGS, a failure may mean that it speaks another protocol. */
static void h2_break(struct h2 *h2, const char *why)
{
    h2_end(h2, h2->state == H2_GREETING ? H2_REFUSED : H2_CLOSED, ERR_IO, why);
}

/* ---- nghttp2's callbacks ---- */

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return id > 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

/* nghttp2 may know the stream longer, if the answer ended before the request. */
static void stream_end(struct h2 *h2, struct h2_stream *stream, bool unsent, const char *failure)
{
    must(stream->id > 0 && h2->session != NULL);
    (void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
    stream->id = 0;
    h2->receiver->end(stream->call, unsent, failure);
}

/* Before the frame is written, so that what may have been sent counts as sent. */
static int before_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_stream *stream = NULL;

    (void)user;
    if (frame->hd.type == NGHTTP2_HEADERS)
        stream = stream_of(session, frame->hd.stream_id);
    if (stream != NULL)
        stream->sent = true;
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2 gives the form */
static ssize_t give_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t bytes,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct h2_stream *stream = stream_of(session, id);

    (void)source, (void)user;
    if (stream == NULL) /* dropped */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    must(stream->given <= stream->body.len);
    const size_t left = stream->body.len - stream->given;
    if (bytes > left)
        bytes = left;
    memcpy(out, stream->body.at + stream->given, bytes);
    stream->given += bytes;
    if (stream->given == stream->body.len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)bytes;
}

/* nghttp2 has checked the form: three digits, before all other headers. */
/* NOLINTNEXTLINE(readability-function-size): nghttp2 gives the form */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    const struct h2 *h2 = user;
    struct h2_stream *stream = stream_of(session, frame->hd.stream_id);
    const struct text key = {(const char *)name, name_len};

    (void)flags;
    if (stream == NULL || stream->headed) /* or a trailer */
        return 0;
    if (!text_is(key, ":status")) {
        h2->receiver->header(stream->call, key, (struct text){(const char *)value, value_len});
        return 0;
    }
    stream->status = 0;
    for (size_t i = 0; i < value_len && i < 3; i++)
        stream->status = stream->status * 10 + (value[i] - '0');
    return stream->status >= 100 ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets it */
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    const struct h2 *h2 = user;
    const struct h2_stream *stream = stream_of(session, id);

    (void)flags;
    if (stream != NULL)
        h2->receiver->data(stream->call, (struct text){(const char *)data, len});
    return 0;
}

/*
 * The answer is complete. A refusal may come before the server has the whole request (429); a
 * server cannot have accepted what it has not received.
 */
static void answer_ended(struct h2 *h2, struct h2_stream *stream)
{
    const bool cut_short = stream->given < stream->body.len;

    if (cut_short) /* what is left of the body has no stream_of(); it must not be waited for */
        (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    if (cut_short && stream->status < 300)
        stream_end(h2, stream, true, "a successful answer before the request was sent");
    else
        stream_end(h2, stream, false, NULL);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = stream_of(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_SETTINGS && h2->state == H2_GREETING) {
        h2->state = H2_OPEN;
        h2->limit_ms = INT64_MAX;
    }
    if (frame->hd.type == NGHTTP2_GOAWAY)
        h2_leave(h2);
    if (frame->hd.type == NGHTTP2_RST_STREAM && stream != NULL)
        stream->reset = true;
    if (stream == NULL || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->headed && stream->status >= 200) {
        stream->headed = true;
        h2->receiver->head(stream->call, stream->status);
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        answer_ended(h2, stream);
    return 0;
}

/*
 * Without a complete answer. The server has not processed a request that it did not get whole, or
 * whose stream comes after the last one of its GOAWAY; such a GOAWAY after the head of an answer
 * contradicts itself. A REFUSED_STREAM of its own proves nothing: a proxy may have passed the
 * request on.
 */
static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct h2 *h2 = user;
    struct h2_stream *stream = stream_of(session, id);

    must(h2->n_streams > 0);
    h2->n_streams--;
    if (stream != NULL)
        stream_end(h2, stream,
                   h2_is_unsent(stream) ||
                       (code == NGHTTP2_REFUSED_STREAM && !stream->reset && !stream->headed),
                   nghttp2_http2_strerror(code));
    return 0;
}

/* ---- the beginning of a connection ---- */

int h2_new(struct handles *handles, CURLM *multi, const struct h2_receiver *receiver,
           int64_t now_ms, struct h2 **out, struct err *err)
{
    struct curl_handle *handle = NULL;
    int rc = handles_take(handles, now_ms, &handle, err);

    if (rc < 0)
        return rc;
    rc = handle_connect(handles, handle, err);
    if (rc < 0) {
        handles_drop(handles, handle);
        return rc;
    }
    struct h2 *h2 = xcalloc(1, sizeof *h2);
    h2->handles = handles;
    h2->multi = multi;
    h2->receiver = receiver;
    h2->handle = handle;
    h2->begun_ms = now_ms;
    h2->limit_ms = INT64_MAX;
    h2->fd = -1;
    strbuf_init(&h2->out);
    (void)curl_easy_setopt(handle->easy, CURLOPT_PRIVATE, NULL); /* neither can fail */
    (void)curl_easy_setopt(handle->easy, CURLOPT_ERRORBUFFER, h2->error);
    must(curl_multi_add_handle(multi, handle->easy) == CURLM_OK);
    *out = h2;
    return 0;
}

/* libcurl closes a connection of this kind with its handle. */
void h2_free(struct h2 *h2)
{
    if (h2 == NULL)
        return;
    nghttp2_session_del(h2->session);
    (void)curl_multi_remove_handle(h2->multi, h2->handle->easy); /* it was added */
    handles_drop(h2->handles, h2->handle);
    strbuf_done(&h2->out);
    xfree(h2);
}

static int session_new(struct h2 *h2)
{
    static const nghttp2_settings_entry ours[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
    };
    nghttp2_session_callbacks *callbacks = NULL;

    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc != 0)
        return rc;
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, before_frame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    rc = nghttp2_session_client_new(&h2->session, callbacks, h2);
    nghttp2_session_callbacks_del(callbacks);
    if (rc == 0)
        rc = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, ours, ARRAY_LEN(ours));
    if (rc == 0)
        rc = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES);
    return rc;
}

void h2_connected(struct h2 *h2, CURLcode code, int64_t now_ms)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    must(h2->session == NULL);
    if (h2_is_over(h2))
        return;
    if (code != CURLE_OK) {
        h2_end(h2, H2_CLOSED, curl_handle_code_of(code),
               h2->error[0] != '\0' ? h2->error : curl_easy_strerror(code));
        return;
    }
    must(h2->state == H2_CONNECTING);
    if (curl_easy_getinfo(h2->handle->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
        fd == CURL_SOCKET_BAD) {
        h2_end(h2, H2_CLOSED, ERR_IO, "the connection is closed");
        return;
    }
    const int rc = session_new(h2);
    if (rc != 0) {
        h2_end(h2, H2_CLOSED, ERR_INTERNAL, nghttp2_strerror(rc));
        return;
    }
    h2->fd = fd;
    h2->has_more = true; /* the TLS library may have read ahead */
    h2->state = H2_GREETING;
    h2->limit_ms = now_ms + GREETING_MS;
}

/* ---- requests ---- */

static nghttp2_nv header_of(struct text name, struct text value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.at,
                        .namelen = name.len,
                        .value = (uint8_t *)(uintptr_t)value.at,
                        .valuelen = value.len,
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

/* "Name: value" as a header; the name is lowered in a copy that the caller owns. */
static nghttp2_nv header_of_line(const char *line, struct strbuf *name)
{
    const size_t len = strcspn(line, ":");
    const char *value = line + len + (line[len] == ':');

    for (size_t i = 0; i < len; i++)
        strbuf_char(name, line[i] >= 'A' && line[i] <= 'Z' ? (char)(line[i] + 32) : line[i]);
    return header_of((struct text){name->data, name->len}, text_of(value + strspn(value, " \t")));
}

void h2_ask(struct h2 *h2, struct h2_stream *stream, const struct handle_request *request,
            void *call)
{
    const struct handle_target target = handles_target(h2->handles);
    const nghttp2_data_provider body = {.read_callback = give_body};
    nghttp2_nv header[HEADERS_MAX];
    struct strbuf path, name, length;
    size_t n = 0;

    must(h2->state == H2_OPEN && stream->id == 0);
    strbuf_init(&path);
    strbuf_init(&name);
    strbuf_init(&length);
    strbuf_text(&path, target.path);
    strbuf_str(&path, request->path);
    strbuf_u64(&length, request->body.len);
    header[n++] = header_of(TEXT(":method"), text_of(request->method));
    header[n++] = header_of(TEXT(":scheme"), TEXT("https"));
    header[n++] = header_of(TEXT(":authority"), target.authority);
    header[n++] = header_of(TEXT(":path"), (struct text){path.data, path.len});
    header[n++] = header_of(TEXT("accept"), TEXT("application/json"));
    header[n++] = header_of(TEXT("user-agent"), TEXT("milligpu"));
    if (target.authorization != NULL)
        header[n++] = header_of(TEXT("authorization"), text_of(target.authorization));
    if (request->content_type != NULL)
        header[n++] = header_of(TEXT("content-type"), text_of(request->content_type));
    if (request->body.len > 0)
        header[n++] = header_of(TEXT("content-length"), (struct text){length.data, length.len});
    if (request->header != NULL)
        header[n++] = header_of_line(request->header, &name);
    must(n <= HEADERS_MAX);
    const int32_t id = nghttp2_submit_request(h2->session, NULL, header, n,
                                              request->body.len > 0 ? &body : NULL, stream);
    strbuf_done(&path);
    strbuf_done(&name);
    strbuf_done(&length);
    if (id < 0) { /* the numbers of streams are used up */
        h2_leave(h2);
        return;
    }
    *stream = (struct h2_stream){.id = id, .body = request->body, .call = call};
    h2->n_streams++;
}

void h2_drop(struct h2 *h2, struct h2_stream *stream)
{
    if (stream->id == 0)
        return;
    must(h2->session != NULL);
    (void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
    (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    stream->id = 0;
    h2->has_more = true; /* the reset is not sent yet, and streams may wait for its room */
}

/* ---- bytes ---- */

static bool h2_is_connected(const struct h2 *h2)
{
    return h2->session != NULL && !h2_is_over(h2);
}

/* Only after unsent bytes are gone: see the invariant. */
static void fill_out(struct h2 *h2)
{
    if (h2->sent < h2->out.len)
        return;
    strbuf_reset(&h2->out);
    h2->sent = 0;
    while (h2->out.len < SEND_BYTES) {
        const uint8_t *bytes = NULL;
        const ssize_t len = nghttp2_session_mem_send(h2->session, &bytes);
        if (len < 0)
            h2_break(h2, nghttp2_strerror((int)len));
        if (len <= 0)
            return;
        strbuf_add(&h2->out, bytes, (size_t)len);
    }
}

void h2_send(struct h2 *h2)
{
    while (h2_is_connected(h2)) {
        size_t sent = 0;
        fill_out(h2);
        if (h2->out.len == 0 || !h2_is_connected(h2))
            break;
        const CURLcode code = curl_easy_send(h2->handle->easy, h2->out.data + h2->sent,
                                             h2->out.len - h2->sent, &sent);
        if (code == CURLE_AGAIN)
            return;
        if (code != CURLE_OK) {
            h2_break(h2, curl_easy_strerror(code));
            return;
        }
        h2->sent += sent;
    }
    /* After a GOAWAY of either side and the last stream. */
    if (h2_is_connected(h2) && nghttp2_session_want_read(h2->session) == 0 &&
        nghttp2_session_want_write(h2->session) == 0)
        h2_break(h2, "the HTTP/2 connection has ended");
}

void h2_receive(struct h2 *h2)
{
    uint8_t bytes[RECEIVE_BYTES];

    h2->has_more = false;
    for (unsigned turn = 0; turn < RECEIVE_TURNS; turn++) {
        size_t len = 0;
        if (!h2_is_connected(h2))
            return;
        const CURLcode code = curl_easy_recv(h2->handle->easy, bytes, sizeof bytes, &len);
        if (code == CURLE_AGAIN)
            return;
        if (code != CURLE_OK || len == 0) {
            h2_break(h2, len == 0 && code == CURLE_OK ? "the server closed the connection"
                                                      : curl_easy_strerror(code));
            return;
        }
        const ssize_t read = nghttp2_session_mem_recv(h2->session, bytes, len);
        if (read < 0) {
            h2_break(h2, nghttp2_strerror((int)read));
            return;
        }
    }
    h2->has_more = true;
}

int h2_socket(const struct h2 *h2)
{
    return h2_is_connected(h2) ? h2->fd : -1;
}

bool h2_wants_to_send(const struct h2 *h2)
{
    must(h2_is_connected(h2));
    return h2->sent < h2->out.len;
}

bool h2_has_more(const struct h2 *h2)
{
    return h2->has_more && h2_is_connected(h2);
}

/* ---- its state ---- */

enum h2_state h2_state(const struct h2 *h2)
{
    return h2->state;
}

int64_t h2_begun_ms(const struct h2 *h2)
{
    return h2->begun_ms;
}

int64_t h2_limit_ms(const struct h2 *h2)
{
    return h2->limit_ms;
}

uint32_t h2_n_streams(const struct h2 *h2)
{
    return h2->n_streams;
}

const struct err *h2_error(const struct h2 *h2)
{
    must(h2_is_over(h2));
    return &h2->err;
}

bool h2_is_outdated(const struct h2 *h2)
{
    return !handle_has_current_tls(h2->handles, h2->handle);
}
