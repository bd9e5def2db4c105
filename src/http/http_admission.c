/*
 * Decides which connections are accepted, and which are closed for others. A known client has shown
 * a certificate of the client CA or, with has_request_proof, completed a request; all others are
 * strangers. Called by libmicrohttpd's threads and the watch.
 *
 *   Idle strangers are in a list (line) per address, longest idle first; addresses are ranked by
 *   the length of their lists, so that the address with the most idle connections loses one first:
 *
 *     rank 3   10.0.0.9:  c c c
 *     rank 1   10.0.0.7:  c   10.0.0.8:  c
 *
 *   Idle known clients are in one list. Connections that are being answered are in no list, so
 *   finding one to close takes constant time.
 *
 * Strangers from an address that also has known clients rank last (the scheduler's connections are
 * all strangers during the handshake).
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "http_internal.h"

enum {
    SLOTS = 1024,   /* hash slots; there are at most as many addresses as connections */
    LOOKS_MAX = 64, /* limit of examined connections of one line */
    /* Dying connections may exceed the limit of strangers by this: their threads may be busy. */
    DYING_MORE = 64,
    /* ms after which an answer without progress, or an incomplete request, counts as idle */
    SLOW_AFTER = 250,
};

/* A client address; exists while a connection from it counts. */
struct admission_address {
    uint64_t key[2];    /* the IPv6 /64 network in [0], or the IPv4 address in [1] */
    uint32_t strangers; /* number, including those being answered */
    uint32_t known;
    struct idle_list idle; /* idle strangers */
    uint32_t rank;         /* 0 if in no list */
    struct admission_address *slot_next;
    struct admission_address *rank_next;
    struct admission_address *rank_last;
};

/* --- addresses --- */

/* An IPv6 client has 2^64 addresses, so its network counts as the address. */
static void admission_key_of(const struct sockaddr *from, uint64_t key[2])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint32_t number;

    key[0] = key[1] = 0;
    if (from->sa_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        key[1] = UINT64_C(1) << 32 | v4.sin_addr.s_addr;
    } else if (from->sa_family == AF_INET6) {
        memcpy(&v6, from, sizeof v6);
        if (memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0) {
            memcpy(&number, v6.sin6_addr.s6_addr + sizeof mapped, sizeof number);
            key[1] = UINT64_C(1) << 32 | number;
        } else {
            memcpy(&key[0], &v6.sin6_addr, sizeof key[0]);
        }
    }
}

/*
 * Returns the link to the address, or the link to append it to. text_hash() has a random seed, so a
 * client cannot choose addresses that share a slot.
 */
static struct admission_address **admission_slot_of(struct http_admission *admission,
                                                    const uint64_t key[2])
{
    const struct text bytes = {(const char *)key, 2 * sizeof *key};
    struct admission_address **at = &admission->bucket[text_hash(bytes) % SLOTS];

    must(admission->bucket != NULL);
    while (*at != NULL && memcmp((*at)->key, key, sizeof(*at)->key) != 0)
        at = &(*at)->slot_next;
    return at;
}

/* Lowers top over empty ranks: few on average, at most the limit of strangers. */
static void admission_unrank(struct http_admission *admission, struct admission_address *address)
{
    must(address->rank <= admission->top);
    if (address->rank == 0)
        return;
    if (address->rank_last != NULL)
        address->rank_last->rank_next = address->rank_next;
    else
        admission->rank[address->rank] = address->rank_next;
    if (address->rank_next != NULL)
        address->rank_next->rank_last = address->rank_last;
    address->rank_next = address->rank_last = NULL;
    address->rank = 0;
    while (admission->top > 0 && admission->rank[admission->top] == NULL)
        admission->top--;
}

/* Call it after the address's line or number of known clients has changed. */
static void admission_rank(struct http_server *http, struct admission_address *address)
{
    struct http_admission *admission = &http->admission;
    uint32_t to = address->idle.count;

    /* Concurrently accepting threads may exceed the limit by one each. */
    if (to > http->rules.strangers)
        to = http->rules.strangers;
    if (address->known > 0 && to > 1)
        to = 1;
    if (to == address->rank)
        return;
    admission_unrank(admission, address);
    if (to == 0)
        return;
    address->rank = to;
    address->rank_next = admission->rank[to];
    if (address->rank_next != NULL)
        address->rank_next->rank_last = address;
    admission->rank[to] = address;
    if (to > admission->top)
        admission->top = to;
    must(admission->rank[admission->top] != NULL);
}

/* Frees the address if none of its connections counts any more. */
static void drop_address(struct http_admission *admission, struct admission_address *address)
{
    if (address->strangers > 0 || address->known > 0)
        return;
    must(address->idle.count == 0 && address->rank == 0);
    struct admission_address **at = admission_slot_of(admission, address->key);
    must(*at == address);
    *at = address->slot_next;
    xfree(address);
}

/* --- lines --- */

/* Appends to the line: the first connection has been idle longest. */
static void stand_in(struct http_server *http, struct connection *connection)
{
    struct idle_list *line = connection->known ? &http->admission.idle : &connection->address->idle;

    must(connection->line == NULL && !connection->gone);
    connection->line = line;
    connection->line_next = NULL;
    connection->line_last = line->last;
    if (line->last != NULL)
        line->last->line_next = connection;
    else
        line->first = connection;
    line->last = connection;
    line->count++;
    if (!connection->known)
        admission_rank(http, connection->address);
}

static void step_out(struct http_server *http, struct connection *connection)
{
    struct idle_list *line = connection->line;

    if (line == NULL)
        return;
    must(line->count > 0);
    if (connection->line_last != NULL)
        connection->line_last->line_next = connection->line_next;
    else
        line->first = connection->line_next;
    if (connection->line_next != NULL)
        connection->line_next->line_last = connection->line_last;
    else
        line->last = connection->line_last;
    line->count--;
    connection->line = NULL;
    if (!connection->known)
        admission_rank(http, connection->address);
}

/* --- closing one for another --- */

/* True if received data is unread: the client waits for us. */
bool connection_waits_for_us(const struct connection *connection)
{
    int unread = 0;

    must(connection->fd >= 0);
    return ioctl(connection->fd, FIONREAD, &unread) == 0 && unread > 0;
}

/* True if the connection is not being served; *out_state is its state then. */
static bool is_idle(const struct connection *connection, int64_t now, enum call_state *out_state)
{
    const enum call_state state = (enum call_state)atomic_load(&connection->call.state);
    const int64_t since = atomic_load(&connection->call.since_ns);
    const bool slow = now - since > SLOW_AFTER * INT64_C(1000000);

    must(!connection->gone);
    *out_state = state;
    if (state == CALL_READING)
        return slow || !connection->known;
    return state == CALL_ANSWERED ? slow : state == CALL_WAITING;
}

/*
 * Stops counting the connection before its socket closes: until then it is dying, which has its own
 * limit (admission_most).
 */
static void admission_give_up(struct http_server *http, struct connection *connection)
{
    step_out(http, connection);
    must(!connection->gone);
    connection->gone = true;
    http->admission.dying++;
    if (connection->known) {
        http->admission.known--;
        connection->address->known--;
    } else {
        http->admission.strangers--;
        connection->address->strangers--;
    }
    admission_rank(http, connection->address);
    drop_address(&http->admission, STEAL(connection->address));
}

static const char *words_of(int status)
{
    must(status == 408 || status == 503);
    return status == 408 ? "408 Request Timeout\r\n"
                         : "503 Service Unavailable\r\nRetry-After: 1\r\n";
}

/*
 * Shuts the socket down: libmicrohttpd then sees the end of the stream and cleans up. Its own
 * timeout is for silence only, so one byte a second would keep a connection open forever.
 */
static bool admission_cut_socket(struct connection *connection, enum call_state from, int status)
{
    int expected = (int)from;
    char answer[128];

    must(connection->fd >= 0);
    if (from != CALL_ANSWERED &&
        !atomic_compare_exchange_strong(&connection->call.state, &expected, CALL_CUT))
        return false;
    /* A plain-text message is impossible in a TLS stream. */
    if (from != CALL_ANSWERED && connection->tls == NULL && status != 0) {
        const int len =
            snprintf(answer, sizeof answer,
                     "HTTP/1.1 %sConnection: close\r\nContent-Length: 0\r\n\r\n", words_of(status));
        (void)send(connection->fd, answer, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    (void)shutdown(connection->fd, SHUT_RDWR);
    return true;
}

bool admission_cut(struct connection *connection, enum call_state from, int status)
{
    must(connection->fd >= 0);
    if (connection->gone || !admission_cut_socket(connection, from, status))
        return false;
    admission_give_up(connection->call.http, connection);
    return true;
}

/* Closes the longest idle connection of the line; false if none is idle. */
static bool make_way(struct http_server *http, const struct idle_list *line, bool also_unread)
    REQUIRES(http->lock)
{
    const int64_t now = clock_ns();
    struct connection *at = line->first;
    enum call_state state;

    must(line->count == 0 || at != NULL);
    for (int looks = 0; at != NULL && looks < LOOKS_MAX; looks++) {
        struct connection *connection = at;
        at = at->line_next;
        if (!is_idle(connection, now, &state) ||
            (!also_unread && connection_waits_for_us(connection)))
            continue;
        if (!admission_cut(connection, state, state == CALL_READING ? 503 : 0))
            continue; /* its request has just become complete */
        atomic_fetch_add(&http->dropped[HTTP_GAVE_WAY], 1);
        return true;
    }
    return false;
}

/* Clients that wait for our threads come last: they may look idle only because of us. */
static bool make_way_there(struct http_server *http, const struct admission_address *address)
    REQUIRES(http->lock)
{
    const struct idle_list *line = &address->idle;

    must(address->strangers > 0);
    return make_way(http, line, false) || make_way(http, line, true);
}

/* Includes as many dying connections as strangers, plus DYING_MORE (docs/why/015). */
uint32_t admission_most(const struct http_rules *rules)
{
    must(rules->strangers > 0);
    return rules->connections + 2 * rules->strangers + DYING_MORE;
}

static bool admission_is_full(const struct http_server *http) REQUIRES(http->lock)
{
    const struct http_admission *admission = &http->admission;

    must(admission->bucket != NULL);
    return admission->known + admission->strangers + admission->dying >=
           admission_most(&http->rules);
}

/*
 * New connections count as strangers. Applies the limit on all sockets, then the per-address limit,
 * then the limit of strangers, for which the address with the longest line loses a connection.
 */
static bool has_place(struct http_server *http, const struct sockaddr *from) REQUIRES(http->lock)
{
    const struct http_rules *rules = &http->rules;
    struct http_admission *admission = &http->admission;
    uint64_t key[2];

    admission_key_of(from, key);
    const struct admission_address *address = *admission_slot_of(admission, key);
    if (admission_is_full(http))
        return false; /* the threads are behind with closing */
    if (address != NULL && address->strangers >= rules->strangers_each)
        return make_way_there(http, address);
    if (admission->strangers < rules->strangers)
        return true;
    must(admission->top <= rules->strangers);
    return admission->top > 0 && make_way_there(http, admission->rank[admission->top]);
}

/* Runs in the accepting thread, before the struct connection exists; admission_join() counts it. */
bool admission_admits(struct http_server *http, const struct sockaddr *from)
{
    mutex_lock(&http->lock);
    const bool place = has_place(http, from);
    mutex_unlock(&http->lock);
    if (!place)
        atomic_fetch_add(&http->dropped[HTTP_NO_PLACE], 1);
    return place;
}

/* --- arrival and end --- */

void admission_init(struct http_server *http)
{
    must(http->rules.strangers > 0 && http->admission.bucket == NULL);
    http->admission.bucket = xcalloc(SLOTS, sizeof(void *));
    http->admission.rank = xcalloc((size_t)http->rules.strangers + 1, sizeof(void *));
}

void admission_done(struct http_server *http)
{
    must(http->admission.strangers == 0 && http->admission.known == 0 &&
         http->admission.dying == 0);
    xfree(http->admission.bucket);
    xfree(http->admission.rank);
}

void admission_join(struct connection *connection, const struct sockaddr *from)
{
    struct http_server *http = connection->call.http;
    uint64_t key[2];

    admission_key_of(from, key);
    struct admission_address **at = admission_slot_of(&http->admission, key);
    if (*at == NULL) {
        *at = xcalloc(1, sizeof **at);
        memcpy((*at)->key, key, sizeof(*at)->key);
    }
    must(connection->address == NULL);
    connection->address = *at;
    connection->address->strangers++;
    http->admission.strangers++;
    stand_in(http, connection);
}

void admission_leave(struct connection *connection)
{
    struct http_server *http = connection->call.http;

    must(http->admission.bucket != NULL);
    if (!connection->gone)
        admission_give_up(http, connection);
    must(http->admission.dying > 0);
    http->admission.dying--;
}

/* Returns false at the limit, if all known clients are being answered. It must be in no line. */
static bool become_known(struct http_server *http, struct connection *connection)
    REQUIRES(http->lock)
{
    struct http_admission *admission = &http->admission;
    struct admission_address *address = connection->address;

    must(connection->line == NULL && !connection->known);
    if (admission->known >= http->rules.connections && !make_way(http, &admission->idle, false))
        return false;
    must(admission->strangers > 0 && address->strangers > 0);
    admission->strangers--;
    address->strangers--;
    connection->known = true;
    admission->known++;
    address->known++;
    admission_rank(http, address);
    return true;
}

/* Steps out, changes, stands in: the line depends on known. */
bool admission_greeted(struct connection *connection)
{
    struct http_server *http = connection->call.http;

    mutex_lock(&http->lock);
    bool place = !connection->gone;
    if (place) {
        step_out(http, connection);
        place = become_known(http, connection);
        stand_in(http, connection);
    }
    mutex_unlock(&http->lock);
    return place;
}

/* Until admission_rests() it is in no line, so it is never closed for another one. */
bool admission_asks(struct connection *connection)
{
    struct http_server *http = connection->call.http;
    bool place = true;

    must(atomic_load(&connection->call.state) != CALL_HANDLING);
    mutex_lock(&http->lock);
    if (!connection->gone) {
        step_out(http, connection);
        if (http->rules.has_request_proof && !connection->known)
            place = become_known(http, connection);
    }
    mutex_unlock(&http->lock);
    return place;
}

/* It may be in a line again before its answer is sent: is_idle() protects it for SLOW_AFTER. */
void admission_rests(struct connection *connection)
{
    struct http_server *http = connection->call.http;

    mutex_lock(&http->lock);
    must(connection->gone || connection->address != NULL);
    if (!connection->gone && connection->line == NULL)
        stand_in(http, connection);
    mutex_unlock(&http->lock);
}
