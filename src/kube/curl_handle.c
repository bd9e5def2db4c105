/*
 * curl_handle - prepares libcurl's easy handles and owns the sockets of their connections.
 * kube_curl.c calls it in the thread of its kube_ops: handles_take() yields a handle that has the
 * current credentials, handle_ask() sets the request, and handles_give() keeps the handle for the
 * next one. The parts: sockets, the server's name, credentials, the options of a handle, one
 * request. A handle in flight keeps the credentials that it began with.
 */
#include "curl_handle.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

enum {
    /* for name, TCP and TLS together */
    CONNECT_MS = 10 * 1000,
    KEEPALIVE_S = 20,
    /* sent and not acknowledged for this long: the peer is gone */
    USER_TIMEOUT_MS = 10 * 1000,
    /* bytes per read; libcurl allocates them with the handle */
    BUFFER_BYTES = 8 * 1024,
    UPLOAD_BYTES = 16 * 1024, /* libcurl's minimum */
    SPARES_MAX = 32,
};

/* Shared by all handles with the same credentials; a handle in flight keeps an older one alive. */
struct makeup {
    uint32_t uses; /* references by handles, and by handles->now */
    struct auth auth;
    struct curl_slist *headers;
};

struct handles {
    struct kube_config *config;
    char *base;                    /* of every URL */
    char *host;                    /* header, if the URL names another host; or NULL */
    struct curl_slist *connect_to; /* the address in that case; or NULL */
    struct makeup *now;            /* for the latest credentials; NULL: there were none yet */
    /* free handles, the one that was given back last first; at most SPARES_MAX */
    struct curl_handle *spare;
    uint32_t n_spare;
    int *socket; /* the sockets that libcurl has open */
    size_t sockets;
    size_t capacity;
};

/* ---- sockets ---- */

/*
 * libcurl asks for each socket here, so that handles_cut() knows them all. The metric counts
 * attempts: a connection that is refused counts as well.
 */
static curl_socket_t curl_handle_open_socket(void *arg, curlsocktype purpose,
                                             struct curl_sockaddr *address)
{
    struct handles *handles = arg;
    const int timeout_ms = USER_TIMEOUT_MS;

    must(purpose == CURLSOCKTYPE_IPCXN);
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    /* Without it a half-open connection is found later, by its silence. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    handles->socket =
        xgrow(handles->socket, handles->sockets, &handles->capacity, sizeof *handles->socket);
    handles->socket[handles->sockets++] = fd;
    metric_add(M_API_CONNECTIONS, NULL, 1);
    return fd;
}

/*
 * The counterpart; also runs in curl_multi_cleanup(), so handles_free() must come after that. The
 * search is short, because kube_curl.c bounds the number of connections.
 */
static int close_socket(void *arg, curl_socket_t fd)
{
    struct handles *handles = arg;
    size_t at = 0;

    while (at < handles->sockets && handles->socket[at] != fd)
        at++;
    must(at < handles->sockets);
    handles->socket[at] = handles->socket[--handles->sockets];
    return close(fd);
}

/*
 * shutdown() and not close(): the descriptors belong to libcurl, which sees the end of each stream.
 */
void handles_cut(struct handles *handles)
{
    must(handles->sockets <= handles->capacity);
    for (size_t i = 0; i < handles->sockets; i++)
        /* a socket that is still connecting is not affected */
        (void)shutdown(handles->socket[i], SHUT_RDWR);
}

/* ---- the server ---- */

/*
 * With tls-server-name the URL contains that name, the connection goes to the address, and Host is
 * unchanged.
 */
static void name_server(struct handles *handles)
{
    const struct kube_config *config = handles->config;
    const char *host = strstr(config->server, "://");
    struct strbuf text;

    must(host != NULL);
    if (config->tls_name == NULL || strncmp(config->server, "https://", 8) != 0) {
        handles->base = xstrdup(config->server);
        return;
    }
    host += 3;
    const size_t host_len = strcspn(host, "/");
    const char *port = memrchr(host, ':', host_len);
    if (port != NULL && memchr(port, ']', host_len - (size_t)(port - host)) != NULL)
        port = NULL; /* a colon inside [::1] */
    strbuf_init(&text);
    /* An empty host and port in front of the address match every request. */
    strbuf_printf(&text, "::%.*s%s", (int)host_len, host, port == NULL ? ":443" : "");
    handles->connect_to = curl_slist_append(NULL, text.data);
    must(handles->connect_to != NULL);
    strbuf_reset(&text);
    strbuf_printf(&text, "Host: %.*s", (int)host_len, host);
    handles->host = strbuf_steal(&text);
    strbuf_init(&text);
    strbuf_printf(&text, "https://%s", config->tls_name);
    if (port != NULL)
        strbuf_add(&text, port, host_len - (size_t)(port - host));
    strbuf_str(&text, host + host_len);
    handles->base = strbuf_steal(&text);
}

struct handles *handles_new(struct kube_config *config)
{
    struct handles *handles = xcalloc(1, sizeof *handles);

    must(config->server != NULL);
    handles->config = config;
    name_server(handles);
    return handles;
}

/* ---- credentials ---- */

static void makeup_unref(struct makeup *makeup)
{
    if (makeup == NULL || --makeup->uses > 0)
        return;
    curl_slist_free_all(makeup->headers);
    kube_auth_done(&makeup->auth);
    xfree(makeup);
}

static void add_header(struct makeup *makeup, const char *header)
{
    struct curl_slist *list = curl_slist_append(makeup->headers, header);
    must(list != NULL);
    makeup->headers = list;
}

/* Takes over the texts of take_auth. */
static struct makeup *makeup_new(const struct handles *handles, struct auth *take_auth)
{
    struct makeup *makeup = xcalloc(1, sizeof *makeup);

    must(take_auth->taken);
    makeup->uses = 1;
    makeup->auth = *take_auth;
    add_header(makeup, "Accept: application/json");
    add_header(makeup, "Expect:"); /* would cost a second round trip */
    if (makeup->auth.header != NULL)
        add_header(makeup, makeup->auth.header);
    if (handles->host != NULL)
        add_header(makeup, handles->host);
    return makeup;
}

/*
 * Afterwards handles->now has the current credentials, unless there are none.
 * Costs a lock and a comparison when nothing has changed.
 */
static int curl_handle_look(struct handles *handles, int64_t now_ms, struct err *err)
{
    /* Without its texts: only a newer generation fills them. */
    struct auth auth = {.taken = handles->now != NULL};

    must(handles->config != NULL);
    if (auth.taken)
        auth.generation = handles->now->auth.generation;
    const int rc = kube_auth_take(handles->config, now_ms, &auth, err);
    if (rc < 0 || (handles->now != NULL && auth.generation == handles->now->auth.generation))
        return rc;
    makeup_unref(handles->now);
    handles->now = makeup_new(handles, &auth);
    return 0;
}

/* ---- options that are set once per handle ---- */

/* Options fail only if curl was built without the feature: an error, not a bug. */
struct handle_options {
    CURL *easy;
    CURLcode code;
};

#define SET(options, option, value)                                                                \
    do {                                                                                           \
        if ((options)->code == CURLE_OK)                                                           \
            (options)->code = curl_easy_setopt((options)->easy, (option), (value));                \
    } while (0)

/*
 * The PEM goes into libcurl as bytes: no file is read there, so a rotation cannot happen in
 * between.
 */
static void set_blob(struct handle_options *set, CURLoption option, const char *pem)
{
    struct curl_blob blob = {NULL, 0, CURL_BLOB_COPY};

    if (pem == NULL || set->code != CURLE_OK)
        return;
    CLEANUP(xfreep) char *bytes = xstrdup(pem); /* curl's field is not const */
    blob.data = bytes;
    blob.len = strlen(pem);
    set->code = curl_easy_setopt(set->easy, option, &blob);
}

/* libcurl reuses a connection only for equal TLS options, so renewed certificates get a new one. */
static void set_tls(struct handle_options *set, const struct handles *handles)
{
    const struct kube_config *config = handles->config;
    const struct auth *auth = &handles->now->auth;

    must(auth->taken);
    SET(set, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(set, CURLOPT_SSL_VERIFYPEER, config->insecure ? 0L : 1L);
    SET(set, CURLOPT_SSL_VERIFYHOST, config->insecure ? 0L : 2L);
    if (auth->ca != NULL) {
        /* Only that CA; otherwise the system's folder would be used as well. */
        SET(set, CURLOPT_CAPATH, (char *)NULL);
        set_blob(set, CURLOPT_CAINFO_BLOB, auth->ca);
    }
    if (auth->cert != NULL) {
        SET(set, CURLOPT_SSLCERTTYPE, "PEM");
        SET(set, CURLOPT_SSLKEYTYPE, "PEM");
        set_blob(set, CURLOPT_SSLCERT_BLOB, auth->cert);
        set_blob(set, CURLOPT_SSLKEY_BLOB, auth->key);
    }
}

/*
 * HTTP/2 if the server agrees to it in the TLS handshake; requests that come meanwhile wait for
 * that result instead of starting a handshake of their own.
 */
static void set_protocol(struct handle_options *set, const struct handles *handles)
{
    const bool secure = strncmp(handles->base, "https://", 8) == 0;

    SET(set, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(set, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(set, CURLOPT_PIPEWAIT, secure ? 1L : 0L);
    /* A redirect is an answer like any other, and the path is escaped already. */
    SET(set, CURLOPT_FOLLOWLOCATION, 0L);
    SET(set, CURLOPT_PATH_AS_IS, 1L);
    SET(set, CURLOPT_USERAGENT, "milligpu");
    SET(set, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    SET(set, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BYTES);
}

static void set_connection(struct handle_options *set, struct handles *handles)
{
    const char *proxy = handles->config->proxy;

    /* This process has threads: libcurl must not use signals for its timeouts. */
    SET(set, CURLOPT_NOSIGNAL, 1L);
    /* "" ignores the environment: only the kubeconfig decides through whom the token travels */
    SET(set, CURLOPT_PROXY, proxy != NULL ? proxy : "");
    SET(set, CURLOPT_NOPROXY, "");
    SET(set, CURLOPT_CONNECT_TO, handles->connect_to);
    SET(set, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(set, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(set, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    SET(set, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S / 2);
    SET(set, CURLOPT_OPENSOCKETFUNCTION, curl_handle_open_socket);
    SET(set, CURLOPT_OPENSOCKETDATA, handles);
    SET(set, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(set, CURLOPT_CLOSESOCKETDATA, handles);
}

/*
 * Does nothing for a handle that has the current credentials already, which is the common case. If
 * libcurl lacks a feature, the handle has no makeup and must be freed.
 */
static int curl_handle_make_up(struct handles *handles, struct curl_handle *handle, struct err *err)
{
    struct handle_options set = {handle->easy, CURLE_OK};

    must(handles->now != NULL);
    if (handle->makeup == handles->now)
        return 0;
    curl_easy_reset(handle->easy);
    makeup_unref(handle->makeup);
    handle->makeup = NULL;
    set_protocol(&set, handles);
    set_connection(&set, handles);
    set_tls(&set, handles);
    if (set.code != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(set.code));
    handle->makeup = handles->now;
    handle->makeup->uses++;
    return 0;
}

/* ---- handles come and go ---- */

/* The handle that was given back last most likely has the current credentials. */
static struct curl_handle *curl_handle_pick(struct handles *handles)
{
    struct curl_handle *handle = handles->spare;

    if (handle != NULL) {
        must(handles->n_spare > 0);
        handles->spare = handle->next;
        handles->n_spare--;
        handle->next = NULL;
        return handle;
    }
    handle = xcalloc(1, sizeof *handle);
    handle->easy = curl_easy_init();
    return handle;
}

static void handle_free(struct curl_handle *handle)
{
    curl_easy_cleanup(handle->easy);
    makeup_unref(handle->makeup);
    xfree(handle->first.data);
    xfree(handle);
}

/* An error leaves *out alone; nothing has to be given back then. */
int handles_take(struct handles *handles, int64_t now_ms, struct curl_handle **out, struct err *err)
{
    int rc = curl_handle_look(handles, now_ms, err);

    if (rc < 0)
        return rc;
    must(handles->now != NULL);
    struct curl_handle *handle = curl_handle_pick(handles);
    rc = curl_handle_make_up(handles, handle, err);
    if (rc < 0) {
        handle_free(handle);
        return rc;
    }
    *out = handle;
    return 0;
}

/*
 * The handle was removed from the multi handle before. CURLOPT_HTTPHEADER still points to its first
 * header, which handle_ask() fills again before the next transfer.
 */
void handles_give(struct handles *handles, struct curl_handle *handle)
{
    must(handle->next == NULL);
    xfree(handle->first.data);
    handle->first.data = NULL;
    if (handles->n_spare >= SPARES_MAX) {
        handle_free(handle);
        return;
    }
    handle->next = handles->spare;
    handles->spare = handle;
    handles->n_spare++;
}

void handles_free(struct handles *handles)
{
    while (handles->spare != NULL)
        handle_free(curl_handle_pick(handles));
    must(handles->sockets == 0);
    makeup_unref(handles->now);
    curl_slist_free_all(handles->connect_to);
    xfree(handles->socket);
    xfree(handles->base);
    xfree(handles->host);
    xfree(handles);
}

/* ---- one request ---- */

bool handle_sent_body(const struct curl_handle *handle)
{
    curl_off_t bytes = 0;

    must(curl_easy_getinfo(handle->easy, CURLINFO_SIZE_UPLOAD_T, &bytes) == CURLE_OK);
    return bytes >= (curl_off_t)handle->body.len;
}

/* The body is read by a callback because libcurl could rewind a buffer by itself (never_again). */
static size_t read_body(char *out, size_t size, size_t count, void *arg)
{
    struct curl_handle *handle = arg;

    must(handle->given <= handle->body.len);
    const size_t left = handle->body.len - handle->given;
    const size_t bytes = left < size * count ? left : size * count;
    if (bytes > 0)
        memcpy(out, handle->body.at + handle->given, bytes);
    handle->given += bytes;
    return bytes;
}

/* Called for a connection, also for another one if nothing of the body was sent on the first. */
/* NOLINTNEXTLINE(readability-non-const-parameter): curl gives the form */
static int begin_body(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct curl_handle *handle = arg;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    must(handle->given <= handle->body.len);
    handle->given = 0;
    return CURL_PREREQFUNC_OK;
}

/*
 * If a connection breaks, libcurl would send the request again on a new one, and there would be two
 * copies without our knowledge. For that it has to rewind the body, which is refused here.
 */
static int never_again(void *arg, curl_off_t offset, int origin)
{
    (void)offset;
    (void)origin;
    must(arg != NULL);
    return CURL_SEEKFUNC_FAIL;
}

/*
 * A handle was perhaps used for another method before, so each branch sets all that distinguishes
 * them.
 */
static void set_method(struct handle_options *set, struct curl_handle *handle,
                       const struct handle_request *request)
{
    const bool bare = strcmp(request->method, "GET") == 0;

    must(!bare || request->body.len == 0);
    handle->body = request->body;
    handle->given = 0;
    if (bare) {
        SET(set, CURLOPT_CUSTOMREQUEST, (char *)NULL);
        SET(set, CURLOPT_HTTPGET, 1L);
        return;
    }
    SET(set, CURLOPT_POST, 1L);
    SET(set, CURLOPT_CUSTOMREQUEST, request->method);
    SET(set, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    /* Without a body libcurl must not call read_body(); with one, it must not look for a buffer. */
    SET(set, CURLOPT_POSTFIELDS, request->body.len > 0 ? NULL : "");
    SET(set, CURLOPT_READFUNCTION, read_body);
    SET(set, CURLOPT_READDATA, handle);
    SET(set, CURLOPT_PREREQFUNCTION, begin_body);
    SET(set, CURLOPT_PREREQDATA, handle);
    SET(set, CURLOPT_SEEKFUNCTION, never_again);
    SET(set, CURLOPT_SEEKDATA, handle);
}

/*
 * Sets what differs between requests. Content-Type is a list node of its own in front of the shared
 * headers; an empty one removes the type that libcurl would invent for a POST.
 */
int handle_ask(struct handles *handles, struct curl_handle *handle,
               const struct handle_request *request, struct err *err)
{
    struct handle_options set = {handle->easy, CURLE_OK};
    struct strbuf text;

    must(handle->makeup != NULL && handle->first.data == NULL);
    strbuf_init(&text);
    strbuf_str(&text, handles->base);
    strbuf_str(&text, request->path);
    SET(&set, CURLOPT_URL, text.data);
    strbuf_reset(&text);
    strbuf_printf(&text, "Content-Type:%s%s", request->content_type != NULL ? " " : "",
                  request->content_type != NULL ? request->content_type : "");
    handle->second =
        (struct curl_slist){(char *)(uintptr_t)request->header, handle->makeup->headers};
    handle->first = (struct curl_slist){
        strbuf_steal(&text), request->header != NULL ? &handle->second : handle->makeup->headers};
    SET(&set, CURLOPT_HTTPHEADER, &handle->first);
    set_method(&set, handle, request);
    /* An event must not wait until a compressed block is full, and answers to writes are small. */
    const bool large = !request->watch && request->body.len == 0;
    SET(&set, CURLOPT_ACCEPT_ENCODING, large ? "gzip" : NULL);
    if (set.code != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(set.code));
    return 0;
}
