/*
 * curl_handle - prepares libcurl's easy handles and tracks the sockets of their connections.
 * Called by kube_curl.c in the thread of its kube_ops: handles_take() returns a handle with the
 * current credentials, handle_ask() sets the request, and handles_give() keeps the handle for the
 * next one. A handle in flight keeps its credentials. In order: sockets, the server's name,
 * credentials, the options of a handle, one request.
 */
#include "curl_handle.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"

enum {
    CONNECT_MS = 10 * 1000, /* timeout of name lookup, TCP and TLS together */
    KEEPALIVE_S = 20,
    USER_TIMEOUT_MS = 10 * 1000, /* timeout for the acknowledgement of sent data */
    BUFFER_BYTES = 8 * 1024,     /* bytes per read; libcurl allocates them with the handle */
    UPLOAD_BYTES = 16 * 1024,    /* libcurl's minimum */
    SPARES_MAX = 32,
};

/* Options shared by all handles with the same credentials; a handle in flight keeps an old one. */
struct makeup {
    uint32_t uses; /* reference count: handles, and handles->now */
    struct auth auth;
    struct curl_slist *headers;
};

/* libcurl 7.88 closes a socket that is still connecting without telling: its number may go on. */
struct tracked {
    int fd;
    uint64_t cookie; /* the kernel's name for the socket, never used again; 0: none */
};

struct handles {
    struct kube_config *config;
    char *base;                    /* prefix of every URL */
    char *host;                    /* Host header, if the URL has another host; or NULL */
    struct curl_slist *connect_to; /* address in that case; or NULL */
    struct makeup *now;            /* options with the latest credentials; NULL before the first */
    /* Free handles, last in first out; at most SPARES_MAX. */
    struct curl_handle *spare;
    uint32_t n_spare;
    struct tracked *socket; /* libcurl's sockets: all open ones, maybe some that are not */
    size_t n_sockets;
    size_t capacity;
};

/* ---- sockets ---- */

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;

    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

static void forget_socket(struct handles *handles, int fd)
{
    size_t at = 0;

    while (at < handles->n_sockets && handles->socket[at].fd != fd)
        at++;
    if (at < handles->n_sockets)
        handles->socket[at] = handles->socket[--handles->n_sockets];
}

/*
 * Opens each socket for libcurl and records it for handles_cut(). The metric counts attempts,
 * including refused connections.
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
    /* Without it a half-open connection is detected later, by the silence timeout. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    forget_socket(handles, fd); /* an earlier one of this number is closed */
    handles->socket =
        xgrow(handles->socket, handles->n_sockets, &handles->capacity, sizeof *handles->socket);
    handles->socket[handles->n_sockets++] = (struct tracked){fd, cookie_of(fd)};
    metric_add(M_API_CONNECTIONS, NULL, 1);
    return fd;
}

/*
 * Closes a socket for libcurl; also runs in curl_multi_cleanup(), so handles_free() must come after
 * that. The linear search is short, because kube_curl.c limits the connections.
 */
static int close_socket(void *arg, curl_socket_t fd)
{
    struct handles *handles = arg;

    must(handles != NULL);
    forget_socket(handles, fd);
    return close(fd);
}

/* Uses shutdown(), not close(): libcurl owns the descriptors, and sees the end of each stream. */
void handles_cut(struct handles *handles)
{
    must(handles->n_sockets <= handles->capacity);
    for (size_t i = 0; i < handles->n_sockets; i++) {
        const struct tracked *one = &handles->socket[i];
        /* A socket that is still connecting is not affected. */
        if (one->cookie != 0 && cookie_of(one->fd) == one->cookie)
            (void)shutdown(one->fd, SHUT_RDWR);
    }
}

/* ---- the server ---- */

const char *handles_server(const struct handles *handles)
{
    return handles->config->server;
}

/* Certificate errors count as refused credentials: the files are then read again. */
enum err_code curl_handle_code_of(CURLcode code)
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

/*
 * With tls-server-name the URL contains that name, while the connection and Host use the server's
 * address.
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
        port = NULL; /* the colon is inside [::1] */
    strbuf_init(&text);
    /* The empty host and port before the address match every request. */
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

static bool is_secure(const struct handles *handles)
{
    return strncmp(handles->base, "https://", 8) == 0;
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

/* Moves the texts out of take_auth. */
static struct makeup *makeup_new(const struct handles *handles, struct auth *take_auth)
{
    struct makeup *makeup = xcalloc(1, sizeof *makeup);

    must(take_auth->taken);
    makeup->uses = 1;
    makeup->auth = *take_auth;
    add_header(makeup, "Expect:"); /* 100-continue would cost a second round trip */
    if (makeup->auth.header != NULL)
        add_header(makeup, makeup->auth.header);
    if (handles->host != NULL)
        add_header(makeup, handles->host);
    return makeup;
}

/*
 * Updates handles->now to the current credentials. Costs a lock and a comparison if nothing has
 * changed.
 */
int handles_look(struct handles *handles, int64_t now_ms, struct err *err)
{
    /* Without texts: kube_auth_take() fills them only for a newer generation. */
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

/* Setting an option fails only if libcurl was built without the feature: an error, not a bug. */
struct handle_options {
    CURL *easy;
    CURLcode code;
};

#define SET(options, option, value)                                                                \
    do {                                                                                           \
        if ((options)->code == CURLE_OK)                                                           \
            (options)->code = curl_easy_setopt((options)->easy, (option), (value));                \
    } while (0)

/* Passes the PEM as bytes: libcurl reads no file, so a rotation cannot happen in between. */
static void set_blob(struct handle_options *set, CURLoption option, const char *pem)
{
    struct curl_blob blob = {NULL, 0, CURL_BLOB_COPY};

    if (pem == NULL || set->code != CURLE_OK)
        return;
    CLEANUP(xfreep) char *bytes = xstrdup(pem); /* libcurl's field is not const */
    blob.data = bytes;
    blob.len = strlen(pem);
    set->code = curl_easy_setopt(set->easy, option, &blob);
}

/* libcurl reuses connections only for equal TLS options, so renewed certificates get new ones. */
static void set_tls(struct handle_options *set, const struct handles *handles)
{
    const struct kube_config *config = handles->config;
    const struct auth *auth = &handles->now->auth;

    must(auth->taken);
    SET(set, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(set, CURLOPT_SSL_VERIFYPEER, config->insecure ? 0L : 1L);
    SET(set, CURLOPT_SSL_VERIFYHOST, config->insecure ? 0L : 2L);
    if (auth->ca != NULL) {
        /* Trust only this CA, not the system's folder. */
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

/* Requests HTTP/2, negotiated in the TLS handshake. */
static void set_protocol(struct handle_options *set)
{
    SET(set, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(set, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    /* Redirects are not followed; the path is escaped already. */
    SET(set, CURLOPT_FOLLOWLOCATION, 0L);
    SET(set, CURLOPT_PATH_AS_IS, 1L);
    SET(set, CURLOPT_USERAGENT, "milligpu");
    SET(set, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    SET(set, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BYTES);
}

static void set_connection(struct handle_options *set, struct handles *handles)
{
    const char *proxy = handles->config->proxy;

    /* No signals for timeouts: the process has threads. */
    SET(set, CURLOPT_NOSIGNAL, 1L);
    /* "" ignores the environment: only the kubeconfig can set a proxy for the token. */
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
 * Does nothing for a handle with the current credentials, the common case. If libcurl lacks a
 * feature, the handle has no makeup and must be freed.
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
    set_protocol(&set);
    set_connection(&set, handles);
    set_tls(&set, handles);
    if (set.code != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(set.code));
    handle->makeup = handles->now;
    handle->makeup->uses++;
    return 0;
}

/* ---- handles come and go ---- */

/* Last in, first out: the latest handle most likely has the current credentials. */
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

/* On error *out is unchanged, and there is no handle to give back. */
int handles_take(struct handles *handles, int64_t now_ms, struct curl_handle **out, struct err *err)
{
    int rc = handles_look(handles, now_ms, err);

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
 * The handle must have been removed from the multi handle. CURLOPT_HTTPHEADER still points to its
 * first header, which handle_ask() fills again before the next transfer.
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

void handles_drop(struct handles *handles, struct curl_handle *handle)
{
    must(handle->next == NULL && handles != NULL);
    handle_free(handle);
}

void handles_free(struct handles *handles)
{
    while (handles->spare != NULL)
        handle_free(curl_handle_pick(handles));
    makeup_unref(handles->now);
    curl_slist_free_all(handles->connect_to);
    xfree(handles->socket);
    xfree(handles->base);
    xfree(handles->host);
    xfree(handles);
}

/* ---- a connection without requests of libcurl ---- */

/*
 * Offers HTTP/2 without libcurl's knowledge, which would otherwise put its own HTTP/2 between the
 * application and the bytes. A server that has only HTTP/1.1 may end a handshake without its name.
 */
static CURLcode offer_h2(CURL *easy, void *ssl_ctx, void *arg)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";

    (void)easy, (void)arg;
    return SSL_CTX_set_alpn_protos(ssl_ctx, protocols, sizeof protocols - 1) == 0
               ? CURLE_OK
               : CURLE_OUT_OF_MEMORY;
}

bool handles_can_connect(const struct handles *handles)
{
    const curl_version_info_data *built = curl_version_info(CURLVERSION_NOW);

    /* A proxy with TLS would be offered HTTP/2, too. */
    return handles->config->proxy == NULL && is_secure(handles) && built->ssl_version != NULL &&
           strncmp(built->ssl_version, "OpenSSL/", 8) == 0;
}

int handle_connect(struct handles *handles, struct curl_handle *handle, struct err *err)
{
    struct handle_options set = {handle->easy, CURLE_OK};

    must(handle->makeup != NULL);
    SET(&set, CURLOPT_URL, handles->base);
    SET(&set, CURLOPT_CONNECT_ONLY, 1L);
    SET(&set, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(&set, CURLOPT_SSL_ENABLE_ALPN, 0L);
    SET(&set, CURLOPT_SSL_CTX_FUNCTION, offer_h2);
    if (set.code != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(set.code));
    return 0;
}

static bool same_or_both_null(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool handle_has_current_tls(const struct handles *handles, const struct curl_handle *handle)
{
    must(handle->makeup != NULL && handles->now != NULL);
    const struct auth *a = &handle->makeup->auth;
    const struct auth *b = &handles->now->auth;
    return a == b || (same_or_both_null(a->ca, b->ca) && same_or_both_null(a->cert, b->cert) &&
                      same_or_both_null(a->key, b->key));
}

/* "https://HOST:PORT/PATH", where a header may override HOST:PORT. */
struct handle_target handles_target(const struct handles *handles)
{
    static const char host_header[] = "Host: ";
    const char *host = strstr(handles->base, "://");

    must(host != NULL && handles->now != NULL);
    host += 3;
    const size_t len = strcspn(host, "/");
    const char *authorization = handles->now->auth.header;
    if (authorization != NULL)
        authorization = strchr(authorization, ':') + 2;
    return (struct handle_target){
        .authority = handles->host != NULL ? text_of(handles->host + sizeof host_header - 1)
                                           : (struct text){host, len},
        .path = text_of(host + len),
        .authorization = authorization,
    };
}

/* ---- one request ---- */

bool handle_sent_body(const struct curl_handle *handle)
{
    curl_off_t bytes = 0;

    must(curl_easy_getinfo(handle->easy, CURLINFO_SIZE_UPLOAD_T, &bytes) == CURLE_OK);
    return bytes >= (curl_off_t)handle->body.len;
}

/* A callback supplies the body, because libcurl could rewind a buffer by itself (never_again()). */
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

/* Called for a connection, and again for another one if nothing of the body was sent. */
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
 * Refuses to rewind the body: if a connection breaks, libcurl would otherwise send a second copy of
 * the request on a new one without our knowledge.
 */
static int never_again(void *arg, curl_off_t offset, int origin)
{
    (void)offset;
    (void)origin;
    must(arg != NULL);
    return CURL_SEEKFUNC_FAIL;
}

/* The handle may have had another method before, so each branch sets all options of a method. */
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
    /* Without a body libcurl must not call read_body(); with one, it must not use a buffer. */
    SET(set, CURLOPT_POSTFIELDS, request->body.len > 0 ? NULL : "");
    SET(set, CURLOPT_READFUNCTION, read_body);
    SET(set, CURLOPT_READDATA, handle);
    SET(set, CURLOPT_PREREQFUNCTION, begin_body);
    SET(set, CURLOPT_PREREQDATA, handle);
    SET(set, CURLOPT_SEEKFUNCTION, never_again);
    SET(set, CURLOPT_SEEKDATA, handle);
}

static const char accept_json[] = "Accept: application/json";
static const char accept_protobuf[] =
    "Accept: application/vnd.kubernetes.protobuf, application/json";

/*
 * Sets the options of one request. Its own headers are separate list nodes before the shared ones;
 * an empty Content-Type removes libcurl's default type for a POST.
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
    handle->accept = (struct curl_slist){
        (char *)(uintptr_t)(request->takes_protobuf ? accept_protobuf : accept_json),
        request->header != NULL ? &handle->second : handle->makeup->headers};
    handle->first = (struct curl_slist){strbuf_steal(&text), &handle->accept};
    SET(&set, CURLOPT_HTTPHEADER, &handle->first);
    /* Wait for the result of a TLS handshake instead of starting another one. */
    const bool waits = is_secure(handles) && !request->waits_for_none;
    SET(&set, CURLOPT_PIPEWAIT, waits ? 1L : 0L);
    set_method(&set, handle, request);
    /* No compression for watches, which would delay events, nor for answers to writes: small. */
    const bool large = !request->watch && request->body.len == 0;
    SET(&set, CURLOPT_ACCEPT_ENCODING, large ? "gzip" : NULL);
    if (set.code != CURLE_OK)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(set.code));
    return 0;
}
