#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>

#include "milligpu/alloc.h"
#include "milligpu/clock.h"

#include "web/web_inside.h"

/*
 * Who may come in, and who gives way.  A stranger may be anybody; who is known has shown a
 * certificate of the client CA or, where the rules say so, has brought a request to its end.
 *
 *   idle strangers stand in the line of their address, longest first; the addresses are ranked by
 *   the length of their lines, so that room is made by whoever takes most of it:
 *
 *     rank 3   10.0.0.9:  c c c
 *     rank 1   10.0.0.7:  c   10.0.0.8:  c
 *
 *   idle known ones stand in one line.  Who is being answered stands in none, so finding who gives
 *   way costs the same whatever the number of connections.
 *
 * Behind an address that somebody known came from (the scheduler's, whose connections are all
 * strangers while they shake hands) strangers rank last.
 */

enum {
    SLOTS = 1024,    /* of addresses; there are at most as many of these as connections */
    LOOKS_MAX = 64,  /* at connections of one line */
    DYING_MORE = 64,  /* than strangers may wait to be closed: by threads that do other things */
    SLOW_AFTER = 250, /* ms without taking an answer, or ending a request: it is not being served */
};

struct crowd_address {
    uint64_t key[2];
    uint32_t strangers; /* those that are being answered, too */
    uint32_t known;
    struct line idle; /* of strangers */
    uint32_t rank;    /* 0: in no list */
    struct crowd_address *slot_next;
    struct crowd_address *rank_next;
    struct crowd_address *rank_last;
};

/* --- addresses --- */

/* A client that has one IPv6 address has 2^64 of them: the network counts. */
static void key_of(const struct sockaddr *from, uint64_t key[2])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint32_t number;

    key[0] = key[1] = 0;
    must(from != NULL);
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

static struct crowd_address **slot_of(struct crowd *crowd, const uint64_t key[2])
{
    const struct text bytes = {(const char *)key, 2 * sizeof *key};
    struct crowd_address **at = &crowd->slot[text_hash(bytes) % SLOTS];

    must(crowd->slot != NULL);
    while (*at != NULL && memcmp((*at)->key, key, sizeof(*at)->key) != 0)
        at = &(*at)->slot_next;
    return at;
}

static void unrank(struct crowd *crowd, struct crowd_address *address)
{
    must(address->rank <= crowd->top);
    if (address->rank == 0)
        return;
    if (address->rank_last != NULL)
        address->rank_last->rank_next = address->rank_next;
    else
        crowd->rank[address->rank] = address->rank_next;
    if (address->rank_next != NULL)
        address->rank_next->rank_last = address->rank_last;
    address->rank_next = address->rank_last = NULL;
    address->rank = 0;
    while (crowd->top > 0 && crowd->rank[crowd->top] == NULL)
        crowd->top--;
}

/* After its line or who is known there has changed. */
static void rank(struct web *web, struct crowd_address *address)
{
    struct crowd *crowd = &web->crowd;
    uint32_t to = address->idle.count;

    if (to > web->rules.strangers) /* threads that accept at once go over by one each */
        to = web->rules.strangers;
    if (address->known > 0 && to > 1)
        to = 1;
    if (to == address->rank)
        return;
    unrank(crowd, address);
    if (to == 0)
        return;
    address->rank = to;
    address->rank_next = crowd->rank[to];
    if (address->rank_next != NULL)
        address->rank_next->rank_last = address;
    crowd->rank[to] = address;
    if (to > crowd->top)
        crowd->top = to;
    must(crowd->rank[crowd->top] != NULL);
}

static void drop_address(struct crowd *crowd, struct crowd_address *address)
{
    if (address->strangers > 0 || address->known > 0)
        return;
    must(address->idle.count == 0 && address->rank == 0);
    struct crowd_address **at = slot_of(crowd, address->key);
    must(*at == address);
    *at = address->slot_next;
    xfree(address);
}

/* --- lines --- */

static void stand_in(struct web *web, struct connection *connection)
{
    struct line *line = connection->known ? &web->crowd.idle : &connection->address->idle;

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
        rank(web, connection->address);
}

static void step_out(struct web *web, struct connection *connection)
{
    struct line *line = connection->line;

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
        rank(web, connection->address);
}

/* --- who gives way --- */

/* What came and was not read yet waits for us, not we for it. */
bool connection_waits_for_us(const struct connection *connection)
{
    int unread = 0;

    must(connection->fd >= 0);
    return ioctl(connection->fd, FIONREAD, &unread) == 0 && unread > 0;
}

/* Is nothing being done for it?  Then *out_state is what it was in. */
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

/* It counts no more, though its socket closes a moment later. */
static void give_up(struct web *web, struct connection *connection)
{
    step_out(web, connection);
    must(!connection->gone);
    connection->gone = true;
    web->crowd.dying++;
    if (connection->known) {
        web->crowd.known--;
        connection->address->known--;
    } else {
        web->crowd.strangers--;
        connection->address->strangers--;
    }
    rank(web, connection->address);
    drop_address(&web->crowd, STEAL(connection->address));
}

bool crowd_cut(struct connection *connection, enum call_state from, int status)
{
    must(connection->fd >= 0);
    if (connection->gone || !connection_cut(connection, from, status))
        return false;
    give_up(connection->call.web, connection);
    return true;
}

/* The longest idle of the line, if any is. */
static bool make_way(struct web *web, const struct line *line, bool also_unread)
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
        if (!crowd_cut(connection, state, state == CALL_READING ? 503 : 0))
            continue; /* its request is complete just now */
        atomic_fetch_add(&web->dropped[WEB_GAVE_WAY], 1);
        return true;
    }
    return false;
}

static bool make_way_there(struct web *web, const struct crowd_address *address)
{
    const struct line *line = &address->idle;

    must(address->strangers > 0);
    return make_way(web, line, false) || make_way(web, line, true);
}

uint32_t crowd_most(const struct web_rules *rules)
{
    must(rules->strangers > 0);
    return rules->connections + 2 * rules->strangers + DYING_MORE;
}

static bool is_full(const struct web *web)
{
    const struct crowd *crowd = &web->crowd;

    must(crowd->slot != NULL);
    return crowd->known + crowd->strangers + crowd->dying >= crowd_most(&web->rules);
}

static bool has_place(struct web *web, const struct sockaddr *from)
{
    const struct web_rules *rules = &web->rules;
    struct crowd *crowd = &web->crowd;
    uint64_t key[2];

    key_of(from, key);
    const struct crowd_address *address = *slot_of(crowd, key);
    if (is_full(web))
        return false; /* its threads are behind with closing */
    if (address != NULL && address->strangers >= rules->strangers_each)
        return make_way_there(web, address);
    if (crowd->strangers < rules->strangers)
        return true;
    must(crowd->top <= rules->strangers);
    return crowd->top > 0 && make_way_there(web, crowd->rank[crowd->top]);
}

bool crowd_admits(struct web *web, const struct sockaddr *from)
{
    web_lock(web);
    const bool place = has_place(web, from);
    web_unlock(web);
    if (!place)
        atomic_fetch_add(&web->dropped[WEB_NO_PLACE], 1);
    return place;
}

/* --- coming and going --- */

void crowd_init(struct web *web)
{
    must(web->rules.strangers > 0 && web->crowd.slot == NULL);
    web->crowd.slot = xcalloc(SLOTS, sizeof(void *));
    web->crowd.rank = xcalloc((size_t)web->rules.strangers + 1, sizeof(void *));
}

void crowd_done(struct web *web)
{
    must(web->crowd.strangers == 0 && web->crowd.known == 0 && web->crowd.dying == 0);
    xfree(web->crowd.slot);
    xfree(web->crowd.rank);
}

void crowd_join(struct connection *connection, const struct sockaddr *from)
{
    struct web *web = connection->call.web;
    uint64_t key[2];

    key_of(from, key);
    struct crowd_address **at = slot_of(&web->crowd, key);
    if (*at == NULL) {
        *at = xcalloc(1, sizeof **at);
        memcpy((*at)->key, key, sizeof(*at)->key);
    }
    must(connection->address == NULL);
    connection->address = *at;
    connection->address->strangers++;
    web->crowd.strangers++;
    stand_in(web, connection);
}

void crowd_leave(struct connection *connection)
{
    struct web *web = connection->call.web;

    must(web->crowd.slot != NULL);
    if (!connection->gone)
        give_up(web, connection);
    must(web->crowd.dying > 0);
    web->crowd.dying--;
}

/* False: everybody known is being answered. */
static bool become_known(struct web *web, struct connection *connection)
{
    struct crowd *crowd = &web->crowd;
    struct crowd_address *address = connection->address;

    must(connection->line == NULL && !connection->known);
    if (crowd->known >= web->rules.connections && !make_way(web, &crowd->idle, false))
        return false;
    must(crowd->strangers > 0 && address->strangers > 0);
    crowd->strangers--;
    address->strangers--;
    connection->known = true;
    crowd->known++;
    address->known++;
    rank(web, address);
    return true;
}

bool crowd_greeted(struct connection *connection)
{
    struct web *web = connection->call.web;

    web_lock(web);
    bool place = !connection->gone;
    if (place) {
        step_out(web, connection);
        place = become_known(web, connection);
        stand_in(web, connection);
    }
    web_unlock(web);
    return place;
}

bool crowd_asks(struct connection *connection)
{
    struct web *web = connection->call.web;
    bool place = true;

    must(atomic_load(&connection->call.state) != CALL_HANDLING);
    web_lock(web);
    if (!connection->gone) {
        step_out(web, connection);
        if (web->rules.request_proves && !connection->known)
            place = become_known(web, connection);
    }
    web_unlock(web);
    return place;
}

void crowd_rests(struct connection *connection)
{
    struct web *web = connection->call.web;

    web_lock(web);
    must(connection->gone || connection->address != NULL);
    if (!connection->gone && connection->line == NULL)
        stand_in(web, connection);
    web_unlock(web);
}
