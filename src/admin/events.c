/*
 * Feeds the streams of events. events_main() runs in a thread of its own; events_open() in an admin
 * thread. One lock guards the table of streams; it is held while the journal is read, about
 * EVENTS_BYTES of text for each stream and round. The writer never waits for it.
 *
 * The piece of the journal that was read last is cached: streams that are up to date all need the
 * same piece, which is therefore read once.
 */
#include "milligpu/admin/events.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/http/http.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"
#include "milligpu/run/wakeup.h"
#include "milligpu/spine/commits.h"
#include "milligpu/wire/kube/wire_kube.h"

enum {
    EVENTS_ROWS = 256,
    EVENTS_BYTES = 64 * 1024, /* a piece ends with the entry that reaches this size */
    EVENTS_PAUSE_MS = 50,     /* between two rounds */
    EVENTS_LOOK_MS = 1000,    /* interval of checks for disconnected clients */
    EVENTS_BEAT_MS = 15000,   /* interval of keepalive comments, for proxies with idle timeouts */
    EVENTS_SLOW_MS = 30000,   /* timeout of a client that reads nothing */
};

struct event_client {
    struct http_stream *stream; /* NULL for a free slot */
    uint64_t sent;              /* number of the last entry that was put */
    int64_t put_ms;             /* monotonic time of the last put */
    int64_t drained_ms;         /* monotonic time of the last progress of the client */
    size_t waits;               /* unsent bytes at the last check */
};

/* A piece of the journal, as text of the stream. */
struct event_piece {
    struct strbuf text;
    uint64_t after; /* number of the entry before the piece */
    uint64_t last;  /* number of its last entry */
    uint64_t most;  /* number of the newest published entry, which limits the piece */
    uint32_t count;
    bool broken; /* entries are missing: folded by retention, or invalid in a damaged file */
    bool read;
};

struct events {
    struct app *app;
    struct mutex lock; /* guards client and piece */
    struct event_client client[EVENTS_STREAMS_MAX];
    struct event_piece piece;
    struct wakeup *wakeup; /* signaled when a stream begins, and by events_stop() */
    atomic_bool is_stopping;
};

struct events *events_new(struct app *app)
{
    struct events *events = xcalloc(1, sizeof *events);

    must(app->store != NULL && app->commits != NULL);
    events->app = app;
    mutex_init(&events->lock);
    strbuf_init(&events->piece.text);
    events->wakeup = wakeup_new();
    return events;
}

void events_free(struct events *events)
{
    if (events == NULL)
        return;
    for (size_t i = 0; i < EVENTS_STREAMS_MAX; i++)
        must(events->client[i].stream == NULL);
    strbuf_done(&events->piece.text);
    wakeup_free(events->wakeup);
    mutex_done(&events->lock);
    xfree(events);
}

static int64_t events_now(const struct events *events)
{
    return events->app->clock.now_ms(events->app->clock.ctx);
}

/* --- the text of an entry --- */

/* Replaces line ends, which would end the event; the JSON has them only in a damaged file. */
static void event_put_json(struct strbuf *out, const char *json)
{
    must(json != NULL);
    for (; *json != '\0'; json++)
        strbuf_char(out, (unsigned char)*json < ' ' ? ' ' : *json);
}

/* Replaces an invalid kind (damaged file) by "change". */
static const char *event_kind(const struct journal_row *row)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";

    must(row->kind != NULL);
    return row->kind[0] != '\0' && strspn(row->kind, letters) == strlen(row->kind) ? row->kind
                                                                                   : "change";
}

static bool event_add(void *user, const struct journal_row *row)
{
    struct event_piece *piece = user;
    struct strbuf *out = &piece->text;
    char at[TIME_TEXT_BYTES];

    if (row->seq > piece->most)
        return false;
    if (row->seq != piece->last + 1) {
        piece->broken = true;
        return false;
    }
    time_format(row->at_ms, at);
    strbuf_printf(out, "id: %llu\nevent: %s\ndata: {\"seq\":%llu,\"at\":\"%s\",\"command\":",
                  (unsigned long long)row->seq, event_kind(row), (unsigned long long)row->seq, at);
    event_put_json(out, row->command);
    strbuf_str(out, ",\"result\":");
    event_put_json(out, row->result);
    strbuf_str(out, "}\n\n");
    piece->last = row->seq;
    piece->count++;
    return out->len < EVENTS_BYTES;
}

/* Reads the piece behind this entry, unless it is cached. */
static bool events_read(struct events *events, uint64_t after, uint64_t newest)
    REQUIRES(events->lock)
{
    struct event_piece *piece = &events->piece;
    const struct store_journal_query query = {
        .after = after, .limit = EVENTS_ROWS, .user = piece, .each = event_add};
    uint64_t folded = 0;
    struct err err;

    if (piece->read && piece->after == after)
        return true;
    strbuf_reset(&piece->text);
    *piece =
        (struct event_piece){.text = piece->text, .after = after, .last = after, .most = newest};
    if (store_journal(events->app->store, &query, &folded, &err) < 0) {
        log_write(LOG_WARN, "a stream of events cannot read the journal",
                  log_str("error", err.text));
        return false;
    }
    must(after < newest);
    piece->broken = piece->broken || folded > after || piece->count == 0;
    piece->read = true;
    must(piece->last >= after);
    return true;
}

/* --- streams --- */

static void events_end(struct event_client *client, const char *why)
{
    must(client->stream != NULL);
    http_stream_end(client->stream);
    *client = (struct event_client){0};
    metric_add(M_STREAMS_ENDED, LABEL_VALUES(why), 1);
}

static void events_put(struct event_client *client, struct text text, int64_t now)
{
    must(text.len > 0);
    if (client->waits == 0)
        client->drained_ms = now;
    client->waits += text.len;
    client->put_ms = now;
    http_stream_put(client->stream, text);
}

/* Returns false if the client disconnected, or timed out and was ended. */
static bool events_look(struct event_client *client, int64_t now)
{
    size_t waits = 0;

    if (!http_stream_waits(client->stream, &waits)) {
        events_end(client, "gone");
        return false;
    }
    if (waits < client->waits || waits == 0)
        client->drained_ms = now;
    client->waits = waits;
    if (waits > 0 && now - client->drained_ms >= EVENTS_SLOW_MS) {
        events_end(client, "slow");
        return false;
    }
    return true;
}

/* Returns true if the journal has more for this client and its buffer has room. */
static bool events_feed(struct events *events, struct event_client *client, uint64_t newest,
                        int64_t now) REQUIRES(events->lock)
{
    const struct event_piece *piece = &events->piece;

    if (client->stream == NULL || !events_look(client, now))
        return false;
    bool behind = client->sent < newest && client->waits < EVENTS_BYTES;
    if (behind && !events_read(events, client->sent, newest))
        behind = false; /* retried in the next round */
    if (behind) {
        if (piece->count > 0) {
            events_put(client, (struct text){piece->text.data, piece->text.len}, now);
            client->sent = piece->last;
            metric_add(M_STREAM_EVENTS, NULL, piece->count);
        } else if (piece->broken) {
            events_put(client, TEXT("event: reset\ndata: {}\n\n"), now);
            events_end(client, "reset");
            return false;
        }
    }
    if (now - client->put_ms >= EVENTS_BEAT_MS && client->waits == 0)
        events_put(client, TEXT(":\n\n"), now);
    return behind && client->sent < newest;
}

/* *out_count: number of streams. Returns true if some client is behind. */
static bool events_round(struct events *events, size_t *out_count)
{
    /* Entries are sent only once they are published, as lists do not show them before. */
    const uint64_t newest = commits_newest(events->app->commits);
    const int64_t now = events_now(events);
    bool behind = false;
    size_t count = 0;

    mutex_lock(&events->lock);
    events->piece.read = false;
    for (size_t i = 0; i < EVENTS_STREAMS_MAX; i++) {
        behind = events_feed(events, &events->client[i], newest, now) || behind;
        count += events->client[i].stream != NULL;
    }
    metric_set(M_STREAMS, NULL, (int64_t)count);
    mutex_unlock(&events->lock);
    *out_count = count;
    return behind;
}

bool events_open(struct events *events, struct http_call *call, uint64_t after)
{
    CLEANUP(strbuf_done) struct strbuf hello;
    bool opened = false;

    strbuf_init(&hello);
    strbuf_printf(&hello, "id: %llu\nevent: start\ndata: {\"seq\":%llu}\n\n",
                  (unsigned long long)after, (unsigned long long)after);
    mutex_lock(&events->lock);
    for (size_t i = 0; i < EVENTS_STREAMS_MAX && !opened && !atomic_load(&events->is_stopping);
         i++) {
        struct event_client *client = &events->client[i];
        if (client->stream != NULL)
            continue;
        *client = (struct event_client){.sent = after};
        http_set_header(call, "Cache-Control", "no-store");
        client->stream = http_answer_stream(call, 200, "text/event-stream");
        events_put(client, (struct text){hello.data, hello.len}, events_now(events));
        opened = true;
    }
    mutex_unlock(&events->lock);
    wakeup_signal(events->wakeup);
    return opened;
}

/* --- the thread --- */

void events_main(struct events *events)
{
    uint64_t reported = 0;
    size_t count = 0;

    while (!atomic_load(&events->is_stopping)) {
        const bool behind = events_round(events, &count);
        if (count == 0) {
            wakeup_wait(events->wakeup, WAKEUP_WAIT_MS_MAX);
            continue;
        }
        (void)poll(NULL, 0, EVENTS_PAUSE_MS); /* limits the rate of rounds */
        if (!behind)
            reported = commits_wait(events->app->commits, reported, EVENTS_LOOK_MS);
    }
    mutex_lock(&events->lock);
    for (size_t i = 0; i < EVENTS_STREAMS_MAX; i++)
        if (events->client[i].stream != NULL)
            events_end(&events->client[i], "stop");
    metric_set(M_STREAMS, NULL, 0);
    mutex_unlock(&events->lock);
}

/* events_open() checks is_stopping under the lock, so no stream begins after the last has ended. */
void events_stop(struct events *events)
{
    must(events != NULL);
    atomic_store(&events->is_stopping, true);
    wakeup_signal(events->wakeup);
    commits_end(events->app->commits);
}
