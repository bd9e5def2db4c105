#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <curl/curl.h>

#include "milligpu/alloc.h"
#include "milligpu/kube.h"

#include "kube/config.h"

/*
 * HTTP/1.1, a connection for each request in flight: measured faster than one h2 connection for
 * many in flight, and a slow list is no other request's trouble.  So fresh needs nothing.
 *
 * libcurl forbids to add or remove handles inside its callbacks, and answers are delivered from
 * them: start() only queues, cancel() only marks, and poll() does both before and after.
 */

enum {
    CONNECT_MS = 10 * 1000,
    KEEPALIVE_S = 20,
    USER_TIMEOUT_MS = 30 * 1000, /* sent and not acknowledged: the peer is gone */
    AUTH_LOOK_MS = 20,
    IDLE_CONNECTIONS = 16,
    RETRY_AFTER_MAX_S = 3600,
};

enum call_state { CALL_QUEUED, CALL_ACTIVE, CALL_ENDED };

struct call {
    struct call *next;
    struct curl_kube *kube;
    uint64_t id;
    enum call_state state;
    bool cancelled;
    bool retried; /* after a 401 */
    bool swallow; /* this answer is a 401 that will be tried again */
    bool headed;  /* HEAD was delivered */
    bool watch;
    int status;
    int64_t retry_after_s;
    int64_t deadline_ms; /* 0: none */
    int64_t silence_ms;
    int64_t heard_ms;
    char *method;
    char *path;
    char *content_type;
    struct strbuf body;
    CURL *easy;
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    struct auth auth;
    char error[CURL_ERROR_SIZE];
};

struct curl_kube {
    CURLM *multi;
    struct kube_config *config;
    struct call *calls;
    unsigned inside; /* depth of curl's callbacks */
    uint64_t delivered;
    void *user;
    void (*deliver)(void *user, const struct kube_answer *answer);
};

static int64_t clock_now_ms(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- answers ---- */

static void deliver(struct call *call, enum kube_piece piece, struct text data, bool unsent,
                    const struct err *err)
{
    struct curl_kube *kube = call->kube;
    const struct kube_answer answer = {
        .id = call->id,
        .piece = piece,
        .status = call->status,
        .retry_after_s = call->retry_after_s,
        .data = data,
        .unsent = unsent,
        .err = err,
    };

    if (call->cancelled)
        return;
    must(call->state != CALL_ENDED && kube->deliver != NULL);
    must(piece == KUBE_FAILED || call->headed);
    kube->delivered++;
    if (piece == KUBE_DONE || piece == KUBE_FAILED)
        call->state = CALL_ENDED;
    kube->deliver(kube->user, &answer);
}

static void fail(struct call *call, bool unsent, const struct err *err)
{
    must(call->kube != NULL);
    deliver(call, KUBE_FAILED, TEXT(""), unsent, err);
    call->state = CALL_ENDED;
}

/* ---- curl's callbacks ---- */

static int64_t parse_seconds(const char *at, size_t len)
{
    must(at != NULL || len == 0);
    int64_t seconds = 0;

    while (len > 0 && (*at == ' ' || *at == '\t'))
        at++, len--;
    for (; len > 0 && *at >= '0' && *at <= '9' && seconds < RETRY_AFTER_MAX_S; at++, len--)
        seconds = seconds * 10 + (*at - '0');
    return seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S;
}

static void head_is_complete(struct call *call)
{
    long status = 0;

    must(curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK);
    if (status < 200)
        return; /* 100 Continue and its like: the real one follows */
    call->status = (int)status;
    if (status == 401 && !call->retried &&
        kube_auth_refuse(call->kube->config, call->auth.generation, call->heard_ms)) {
        call->swallow = true;
        return;
    }
    call->headed = true;
    deliver(call, KUBE_HEAD, TEXT(""), false, NULL);
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    static const char retry_after[] = "retry-after:";
    struct call *call = arg;
    const size_t len = size * count;

    must(size == 1);
    call->heard_ms = clock_now_ms();
    if (len > sizeof retry_after - 1 && curl_strnequal(data, retry_after, sizeof retry_after - 1))
        call->retry_after_s =
            parse_seconds(data + sizeof retry_after - 1, len - (sizeof retry_after - 1));
    if (!call->headed && (len == 0 || data[0] == '\r' || data[0] == '\n')) {
        call->kube->inside++;
        head_is_complete(call);
        call->kube->inside--;
    }
    return call->cancelled ? 0 : len;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): curl gives the form */
static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct call *call = arg;
    const size_t len = size * count;

    must(size == 1);
    call->heard_ms = clock_now_ms();
    if (call->swallow || call->cancelled)
        return call->cancelled ? 0 : len;
    call->kube->inside++;
    deliver(call, KUBE_DATA, (struct text){data, len}, false, NULL);
    call->kube->inside--;
    return call->cancelled ? 0 : len;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    const int timeout_ms = USER_TIMEOUT_MS;

    (void)arg;
    (void)purpose;
    /* Without it a half-open connection is found by its silence, later. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    return CURL_SOCKOPT_OK;
}

/* ---- a request becomes a handle ---- */

static void add_header(struct call *call, const char *header)
{
    struct curl_slist *list = curl_slist_append(call->headers, header);
    must(list != NULL);
    call->headers = list;
}

static void set_headers(struct call *call)
{
    struct strbuf text;

    strbuf_init(&text);
    strbuf_printf(&text, "Content-Type:%s%s", call->content_type != NULL ? " " : "",
                  call->content_type != NULL ? call->content_type : "");
    add_header(call, text.data);
    strbuf_done(&text);
    add_header(call, "Accept: application/json");
    add_header(call, "Expect:"); /* a second round trip for nothing */
    if (call->auth.header != NULL)
        add_header(call, call->auth.header);
    must(curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK);
}

/* Options fail only when curl was built without the feature: an error, no bug. */
struct options {
    CURL *easy;
    CURLcode code;
};

#define SET(options, option, value)                                                                \
    do {                                                                                           \
        if ((options)->code == CURLE_OK)                                                           \
            (options)->code = curl_easy_setopt((options)->easy, (option), (value));                \
    } while (0)

static void set_blob(struct options *set, CURLoption option, const char *pem)
{
    must(set->easy != NULL);
    struct curl_blob blob = {NULL, 0, CURL_BLOB_COPY};

    if (pem == NULL || set->code != CURLE_OK)
        return;
    CLEANUP(xfreep) char *bytes = xstrdup(pem); /* curl's field is not const */
    blob.data = bytes;
    blob.len = strlen(pem);
    set->code = curl_easy_setopt(set->easy, option, &blob);
}

static void set_tls(struct options *set, const struct call *call)
{
    must(call->kube != NULL);
    const struct kube_config *config = call->kube->config;

    SET(set, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(set, CURLOPT_SSL_VERIFYPEER, config->insecure ? 0L : 1L);
    SET(set, CURLOPT_SSL_VERIFYHOST, config->insecure ? 0L : 2L);
    if (call->auth.ca != NULL) {
        /* That CA and no other: the system's folder would be asked as well. */
        SET(set, CURLOPT_CAPATH, (char *)NULL);
        set_blob(set, CURLOPT_CAINFO_BLOB, call->auth.ca);
    }
    if (call->auth.cert != NULL) {
        SET(set, CURLOPT_SSLCERTTYPE, "PEM");
        SET(set, CURLOPT_SSLKEYTYPE, "PEM");
        set_blob(set, CURLOPT_SSLCERT_BLOB, call->auth.cert);
        set_blob(set, CURLOPT_SSLKEY_BLOB, call->auth.key);
    }
}

/* With tls-server-name the URL names that, the connection goes to the address, Host stays. */
static void set_url(struct options *set, struct call *call)
{
    const struct kube_config *config = call->kube->config;
    const char *server = config->server;
    struct strbuf url;

    strbuf_init(&url);
    const char *host = strstr(server, "://");
    must(host != NULL);
    host += 3;
    const size_t host_len = strcspn(host, "/");
    const char *port = memrchr(host, ':', host_len);
    if (port != NULL && memchr(port, ']', host_len - (size_t)(port - host)) != NULL)
        port = NULL; /* a colon inside [::1] */
    if (config->tls_name != NULL && strncmp(server, "https://", 8) == 0) {
        strbuf_printf(&url, "::%.*s%s", (int)host_len, host, port == NULL ? ":443" : "");
        call->connect_to = curl_slist_append(NULL, url.data);
        must(call->connect_to != NULL);
        SET(set, CURLOPT_CONNECT_TO, call->connect_to);
        strbuf_reset(&url);
        strbuf_printf(&url, "Host: %.*s", (int)host_len, host);
        add_header(call, url.data);
        strbuf_reset(&url);
        strbuf_printf(&url, "https://%s", config->tls_name);
        if (port != NULL)
            strbuf_add(&url, port, host_len - (size_t)(port - host));
        strbuf_str(&url, host + host_len);
    } else {
        strbuf_str(&url, server);
    }
    strbuf_str(&url, call->path);
    SET(set, CURLOPT_URL, url.data);
    strbuf_done(&url);
}

static void set_method(struct options *set, const struct call *call)
{
    must(call->kube != NULL);
    const bool bare = strcmp(call->method, "GET") == 0;

    if (bare) {
        SET(set, CURLOPT_HTTPGET, 1L);
        return;
    }
    SET(set, CURLOPT_POST, 1L);
    SET(set, CURLOPT_CUSTOMREQUEST, call->method);
    SET(set, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
    SET(set, CURLOPT_POSTFIELDS, call->body.data);
}

static void set_transport(struct options *set, const struct call *call)
{
    must(call->kube != NULL);
    const char *proxy = call->kube->config->proxy;

    SET(set, CURLOPT_NOSIGNAL, 1L);
    SET(set, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(set, CURLOPT_FOLLOWLOCATION, 0L);
    SET(set, CURLOPT_PATH_AS_IS, 1L);
    SET(set, CURLOPT_PROXY, proxy != NULL ? proxy : ""); /* "" keeps the environment out */
    SET(set, CURLOPT_NOPROXY, "");
    SET(set, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(set, CURLOPT_USERAGENT, "milligpu");
    SET(set, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(set, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(set, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    SET(set, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S / 2);
    SET(set, CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (!call->watch) /* an event must not wait for a block to be full */
        SET(set, CURLOPT_ACCEPT_ENCODING, "gzip");
}

static int set_all(struct call *call, struct err *err)
{
    struct options set = {call->easy, CURLE_OK};

    must(call->easy != NULL && call->headers == NULL);
    SET(&set, CURLOPT_PRIVATE, call);
    SET(&set, CURLOPT_ERRORBUFFER, call->error);
    SET(&set, CURLOPT_HEADERFUNCTION, on_header);
    SET(&set, CURLOPT_HEADERDATA, call);
    SET(&set, CURLOPT_WRITEFUNCTION, on_body);
    SET(&set, CURLOPT_WRITEDATA, call);
    set_transport(&set, call);
    set_tls(&set, call);
    set_url(&set, call);
    set_method(&set, call);
    set_headers(call);
    if (set.code != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(set.code));
    return 0;
}

/* ---- the life of a call ---- */

static void drop_handle(struct call *call)
{
    must(call->kube != NULL);
    if (call->easy != NULL) {
        if (call->state == CALL_ACTIVE)
            (void)curl_multi_remove_handle(call->kube->multi, call->easy); /* it was added */
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->connect_to);
    call->easy = NULL;
    call->headers = NULL;
    call->connect_to = NULL;
    kube_auth_done(&call->auth);
}

static void call_free(struct call *call)
{
    must(call->easy == NULL);
    strbuf_done(&call->body);
    xfree(call->method);
    xfree(call->path);
    xfree(call->content_type);
    xfree(call);
}

static void end_with_handle(struct call *call)
{
    must(call->kube != NULL);
    if (call->easy != NULL)
        (void)curl_multi_remove_handle(call->kube->multi, call->easy); /* fine if it is not in */
    call->state = CALL_ENDED;
    drop_handle(call);
}

static void begin(struct call *call, int64_t now_ms)
{
    struct err err;

    must(call->state == CALL_QUEUED && call->easy == NULL);
    const enum auth_verdict verdict = kube_auth_take(call->kube->config, now_ms, &call->auth, &err);
    if (verdict == AUTH_WAIT)
        return;
    if (verdict == AUTH_FAILED) {
        (void)err_wrap(&err, "%s", call->kube->config->server);
        fail(call, true, &err);
        return;
    }
    call->easy = curl_easy_init();
    must(call->easy != NULL);
    call->error[0] = '\0';
    if (set_all(call, &err) < 0) {
        fail(call, true, &err);
        return;
    }
    must(curl_multi_add_handle(call->kube->multi, call->easy) == CURLM_OK);
    call->state = CALL_ACTIVE;
}

static bool nothing_was_sent(const struct call *call)
{
    long bytes = 0;

    if (call->easy == NULL)
        return true;
    /* Counted over curl's own second tries, so 0 is certain. */
    must(curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &bytes) == CURLE_OK);
    return bytes == 0;
}

static enum err_code code_of(CURLcode code)
{
    must(code != CURLE_OK);
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return ERR_TIMEOUT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return ERR_UNAVAILABLE;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return ERR_UNAUTHORIZED;
    default:
        return ERR_IO;
    }
}

static void transfer_failed(struct call *call, CURLcode code)
{
    struct err err;

    must(code != CURLE_OK);
    if (code_of(code) == ERR_UNAUTHORIZED) /* perhaps the CA was renewed: read it again */
        (void)kube_auth_refuse(call->kube->config, call->auth.generation, clock_now_ms());
    (void)err_set(&err, code_of(code), "%s: %s", call->kube->config->server,
                  call->error[0] != '\0' ? call->error : curl_easy_strerror(code));
    fail(call, nothing_was_sent(call), &err);
}

static void transfer_ended(struct call *call, CURLcode code)
{
    struct err err;

    must(call->state == CALL_ACTIVE);
    if (call->cancelled)
        return;
    if (call->swallow && !call->retried) {
        drop_handle(call);
        call->swallow = false;
        call->retried = true;
        call->status = 0;
        call->retry_after_s = 0;
        call->state = CALL_QUEUED;
        return;
    }
    if (code != CURLE_OK) {
        transfer_failed(call, code);
    } else if (!call->headed) {
        (void)err_set(&err, ERR_IO, "%s: an answer without a head", call->kube->config->server);
        fail(call, false, &err);
    } else {
        deliver(call, KUBE_DONE, TEXT(""), false, NULL);
    }
}

static void expire(struct call *call, int64_t now_ms)
{
    const int64_t silent_since_ms = call->heard_ms;
    struct err err;

    must(call->state != CALL_ENDED);
    if (call->deadline_ms != 0 && now_ms >= call->deadline_ms)
        (void)err_set(&err, ERR_TIMEOUT, "%s: no complete answer in time",
                      call->kube->config->server);
    else if (call->silence_ms != 0 && now_ms - silent_since_ms >= call->silence_ms)
        (void)err_set(&err, ERR_TIMEOUT, "%s: not a byte for %lld ms", call->kube->config->server,
                      (long long)(now_ms - silent_since_ms));
    else
        return;
    fail(call, nothing_was_sent(call), &err);
}

static void sweep(struct curl_kube *kube)
{
    must(kube->multi != NULL);
    for (struct call **at = &kube->calls; *at != NULL;) {
        struct call *call = *at;
        if (call->state != CALL_ENDED && !call->cancelled) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        end_with_handle(call);
        call_free(call);
    }
}

/* New calls are put at the end, so walking on while answers start others is fine. */
static void begin_queued(struct curl_kube *kube)
{
    must(kube->multi != NULL);
    for (struct call *call = kube->calls; call != NULL; call = call->next)
        if (call->state == CALL_QUEUED && !call->cancelled)
            begin(call, clock_now_ms());
}

static void reap(struct curl_kube *kube)
{
    int left;
    const CURLMsg *message;

    while ((message = curl_multi_info_read(kube->multi, &left)) != NULL) {
        char *private = NULL;
        const CURLcode code = message->data.result;
        must(message->msg == CURLMSG_DONE);
        must(curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK);
        /* An alignment that curl's char pointer hides: it is the call that was put in. */
        transfer_ended((struct call *)(void *)private, code);
    }
}

static void turn(struct curl_kube *kube)
{
    int running;

    begin_queued(kube);
    const CURLMcode code = curl_multi_perform(kube->multi, &running);
    must(code == CURLM_OK || code == CURLM_CALL_MULTI_PERFORM);
    reap(kube);
    const int64_t now_ms = clock_now_ms();
    for (struct call *call = kube->calls; call != NULL; call = call->next)
        if (call->state != CALL_ENDED && !call->cancelled)
            expire(call, now_ms);
    sweep(kube);
}

static int64_t wait_at_most(const struct curl_kube *kube, int64_t wait_ms)
{
    must(kube->multi != NULL);
    const int64_t now_ms = clock_now_ms();

    for (const struct call *call = kube->calls; call != NULL; call = call->next) {
        int64_t until = INT64_MAX;
        if (call->state == CALL_QUEUED)
            until = now_ms + AUTH_LOOK_MS;
        if (call->deadline_ms != 0 && call->deadline_ms < until)
            until = call->deadline_ms;
        if (call->silence_ms != 0 && call->heard_ms + call->silence_ms < until)
            until = call->heard_ms + call->silence_ms;
        if (until - now_ms < wait_ms)
            wait_ms = until > now_ms ? until - now_ms : 0;
    }
    return wait_ms;
}

/* ---- kube_ops ---- */

static int kube_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct curl_kube *kube = ctx;
    struct call **end = &kube->calls;

    must(request->id != 0 && request->path[0] == '/');
    must((request->content_type != NULL) == (request->body.len > 0));
    if (strpbrk(request->path, " \t\r\n") != NULL)
        return err_set(err, ERR_INVALID, "path \"%s\": a blank inside", request->path);
    for (; *end != NULL; end = &(*end)->next)
        must((*end)->id != request->id || (*end)->cancelled || (*end)->state == CALL_ENDED);

    struct call *call = xcalloc(1, sizeof *call);
    call->kube = kube;
    call->id = request->id;
    call->state = CALL_QUEUED;
    call->heard_ms = clock_now_ms();
    call->deadline_ms = request->timeout_ms > 0 ? call->heard_ms + request->timeout_ms : 0;
    call->silence_ms = request->silence_ms;
    call->method = xstrdup(request->method);
    call->path = xstrdup(request->path);
    call->content_type = request->content_type != NULL ? xstrdup(request->content_type) : NULL;
    call->watch = strstr(request->path, "watch=") != NULL;
    strbuf_init(&call->body);
    strbuf_text(&call->body, request->body);
    *end = call;
    return 0;
}

static void kube_cancel(void *ctx, uint64_t id)
{
    struct curl_kube *kube = ctx;

    must(id != 0);
    for (struct call *call = kube->calls; call != NULL; call = call->next)
        if (call->id == id)
            call->cancelled = true;
}

static void kube_poll(void *ctx, int64_t wait_ms, void *user,
                      void (*deliver_to)(void *user, const struct kube_answer *answer))
{
    struct curl_kube *kube = ctx;

    must(kube->inside == 0 && kube->deliver == NULL);
    kube->user = user;
    kube->deliver = deliver_to;
    const uint64_t before = kube->delivered;
    turn(kube);
    const int64_t wait = wait_at_most(kube, wait_ms);
    if (kube->delivered == before && wait > 0) {
        const int timeout = wait < INT32_MAX ? (int)wait : INT32_MAX;
        must(curl_multi_poll(kube->multi, NULL, 0, timeout, NULL) == CURLM_OK);
        turn(kube);
    }
    kube->deliver = NULL;
}

static void kube_wake(void *ctx)
{
    struct curl_kube *kube = ctx;
    must(curl_multi_wakeup(kube->multi) == CURLM_OK);
}

static const char *kube_name(void *ctx)
{
    must(ctx != NULL);
    const struct curl_kube *kube = ctx;
    return kube_config_server(kube->config);
}

static void kube_free(void *ctx)
{
    struct curl_kube *kube = ctx;

    must(kube->inside == 0);
    for (struct call *call = kube->calls; call != NULL; call = call->next)
        call->cancelled = true;
    sweep(kube);
    must(kube->calls == NULL);
    (void)curl_multi_cleanup(kube->multi); /* no handle is left in it */
    xfree(kube);
}

static CURLcode global_code = CURLE_FAILED_INIT;

static void global_init(void)
{
    global_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int kube_curl_new(struct kube_config *config, struct kube_ops *out, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    must(config->server != NULL);
    must(pthread_once(&once, global_init) == 0);
    CURLM *multi = global_code == CURLE_OK ? curl_multi_init() : NULL;
    if (multi == NULL)
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    must(curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) == CURLM_OK);
    must(curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS) == CURLM_OK);

    struct curl_kube *kube = xcalloc(1, sizeof *kube);
    kube->multi = multi;
    kube->config = config;
    *out = (struct kube_ops){.ctx = kube,
                             .start = kube_start,
                             .cancel = kube_cancel,
                             .poll = kube_poll,
                             .wake = kube_wake,
                             .name = kube_name,
                             .free = kube_free};
    return 0;
}
