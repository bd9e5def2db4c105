#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "http_internal.h"

/*
 * Decides which connections are accepted, and which are closed for others. A stranger is any
 * client; a known client has shown a certificate of the client CA or, if the rules say so, has
 * completed a request.
 *
 *   idle strangers stand in the line of their address, longest first; the addresses are ranked by
 *   the length of their lines, so that room is made by whoever takes most of it:
 *
 *     rank 3   10.0.0.9:  c c c
 *     rank 1   10.0.0.7:  c   10.0.0.8:  c
 *
 *   idle known ones stand in one line. Connections that are being answered are in no line, so
 *   finding one to close costs the same for any number of connections.
 *
 * Strangers from an address that also has known clients rank last (the scheduler's connections are
 * all strangers during the handshake).
 */

enum {
    SLOTS = 1024,   /* of addresses; at most as many of these as connections */
    LOOKS_MAX = 64, /* examined connections of one line */
    /* than strangers may wait to be closed, because their threads may be busy */
    DYING_MORE = 64,
    /* ms without accepting data of an answer or ending a request: it is not being served */
    SLOW_AFTER = 250,
};

/* Exists as long as a connection from there counts; made and freed by joining and leaving. */
struct admission_address {
    /* an IPv4 address in the second half, or the network of an IPv6 address in the first */
    uint64_t key[2];
    uint32_t strangers; /* including those that are being answered */
    uint32_t known;
    struct idle_list idle; /* of strangers */
    uint32_t rank;         /* 0: in no list */
    struct admission_address *slot_next;
    struct admission_address *rank_next;
    struct admission_address *rank_last;
};

/* --- addresses --- */

/* A client with one IPv6 address has 2^64 of them, so the network counts. */
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
 * The pointer that points to it, or that would if it existed. text_hash() is seeded at random by
 * milligpud, so nobody can choose addresses that share a slot.
 */
static struct admission_address **admission_slot_of(struct http_admission *admission,
                                                    const uint64_t key[2])
{
    const struct text bytes = {(const char *)key, 2 * sizeof *key};
    struct admission_address **at = &admission->slot[text_hash(bytes) % SLOTS];

    must(admission->slot != NULL);
    while (*at != NULL && memcmp((*at)->key, key, sizeof(*at)->key) != 0)
        at = &(*at)->slot_next;
    return at;
}

/* top moves down over empty ranks: few on average, and never more than there may be strangers. */
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

/* Called after its line or its known clients have changed. */
static void admission_rank(struct http_server *http, struct admission_address *address)
{
    struct http_admission *admission = &http->admission;
    uint32_t to = address->idle.count;

    /* threads that accept at the same time exceed it by one each */
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

/* Called when one of its connections has stopped counting; does nothing while there are others. */
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

/* At the end of the line: the first one has been idle longest. */
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

/* Data that arrived and was not read yet waits for us, not the other way round. */
bool connection_waits_for_us(const struct connection *connection)
{
    int unread = 0;

    must(connection->fd >= 0);
    return ioctl(connection->fd, FIONREAD, &unread) == 0 && unread > 0;
}

/* Is nothing being done for it? Then *out_state is its state. */
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
 * It does not count any more, although its socket closes a moment later: until then it is dying,
 * which has a bound of its own (admission_most).
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
 * libmicrohttpd's own limit is for silence, so one byte a second would keep a connection open
 * forever. The socket is shut down from here: libmicrohttpd then sees the end of the stream and
 * cleans up as usual.
 */
static bool admission_cut_socket(struct connection *connection, enum call_state from, int status)
{
    int expected = (int)from;
    char answer[128];

    must(connection->fd >= 0);
    if (from != CALL_ANSWERED &&
        !atomic_compare_exchange_strong(&connection->call.state, &expected, CALL_CUT))
        return false;
    /* Inside a TLS stream a plain-text message is impossible. */
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

/* The connection that is idle longest in the line, if any is idle. */
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
            continue; /* its request has just been completed */
        atomic_fetch_add(&http->dropped[HTTP_GAVE_WAY], 1);
        return true;
    }
    return false;
}

/* Clients that wait for our threads come last: that they look idle may be our fault. */
static bool make_way_there(struct http_server *http, const struct admission_address *address)
    REQUIRES(http->lock)
{
    const struct idle_list *line = &address->idle;

    must(address->strangers > 0);
    return make_way(http, line, false) || make_way(http, line, true);
}

/* Dying connections may be as many as strangers, plus 64 (docs/why/015). */
uint32_t admission_most(const struct http_rules *rules)
{
    must(rules->strangers > 0);
    return rules->connections + 2 * rules->strangers + DYING_MORE;
}

static bool admission_is_full(const struct http_server *http) REQUIRES(http->lock)
{
    const struct http_admission *admission = &http->admission;

    must(admission->slot != NULL);
    return admission->known + admission->strangers + admission->dying >=
           admission_most(&http->rules);
}

/*
 * A newcomer is a stranger whoever it is. First the bound on all sockets, then that of its address,
 * then that of all strangers, where the address with the longest line gives way.
 */
static bool has_place(struct http_server *http, const struct sockaddr *from) REQUIRES(http->lock)
{
    const struct http_rules *rules = &http->rules;
    struct http_admission *admission = &http->admission;
    uint64_t key[2];

    admission_key_of(from, key);
    const struct admission_address *address = *admission_slot_of(admission, key);
    if (admission_is_full(http))
        return false; /* its threads are behind with closing */
    if (address != NULL && address->strangers >= rules->strangers_each)
        return make_way_there(http, address);
    if (admission->strangers < rules->strangers)
        return true;
    must(admission->top <= rules->strangers);
    return admission->top > 0 && make_way_there(http, admission->rank[admission->top]);
}

/* Runs in the accepting thread before any connection exists; admission_join() counts it. */
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
    must(http->rules.strangers > 0 && http->admission.slot == NULL);
    http->admission.slot = xcalloc(SLOTS, sizeof(void *));
    http->admission.rank = xcalloc((size_t)http->rules.strangers + 1, sizeof(void *));
}

void admission_done(struct http_server *http)
{
    must(http->admission.strangers == 0 && http->admission.known == 0 &&
         http->admission.dying == 0);
    xfree(http->admission.slot);
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

    must(http->admission.slot != NULL);
    if (!connection->gone)
        admission_give_up(http, connection);
    must(http->admission.dying > 0);
    http->admission.dying--;
}

/* False: all known clients are being answered. The caller has taken it out of its line. */
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

/* In the order step out, change, stand in, because the line depends on known. */
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

/* From here to admission_rests() it stands in no line, so it is never closed for another one. */
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

/* It may stand in a line again before its answer was sent: is_idle() spares it for SLOW_AFTER. */
void admission_rests(struct connection *connection)
{
    struct http_server *http = connection->call.http;

    mutex_lock(&http->lock);
    must(connection->gone || connection->address != NULL);
    if (!connection->gone && connection->line == NULL)
        stand_in(http, connection);
    mutex_unlock(&http->lock);
}
