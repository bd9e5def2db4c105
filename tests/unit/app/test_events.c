/*
 * Streams of events, with the thread that feeds them, on a ledger in memory: what a client
 * receives while the writer is between COMMIT and publishing, and after retention went past it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "milligpu/admin/api.h"
#include "milligpu/admin/events.h"
#include "milligpu/store/store.h"

#include "store/store_internal.h"
#include "support/patience.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support_fixture.h"

static const int64_t three_days_ms = INT64_C(3) * 86400 * 1000;

enum { LOOK_MS = 1300 /* longer than the feeder waits without an event */ };

struct watchers {
    struct app_fixture *fixture;
    pthread_t thread;
    bool runs;
    struct http_call call[2];
};

static struct watchers watchers;

static void sleep_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    assert_int_equal(nanosleep(&pause, NULL), 0);
}

static void *feed(void *user)
{
    events_main(user);
    return NULL;
}

static int set_up(void **state)
{
    assert_int_equal(fixture_set_up(state), 0);
    struct app_fixture *fixture = *state;
    watchers = (struct watchers){.fixture = fixture};
    fixture->app.events = events_new(&fixture->app);
    for (size_t i = 0; i < ARRAY_LEN(watchers.call); i++)
        http_call_init(&watchers.call[i], "/api/v1/events");
    return 0;
}

static void start_feeding(void)
{
    must(pthread_create(&watchers.thread, NULL, feed, watchers.fixture->app.events) == 0);
    watchers.runs = true;
}

/* Afterwards the texts of the streams can be read. */
static void stop_feeding(void)
{
    events_stop(watchers.fixture->app.events);
    must(pthread_join(watchers.thread, NULL) == 0);
    watchers.runs = false;
}

static int tear_down(void **state)
{
    if (watchers.runs)
        stop_feeding();
    events_free(watchers.fixture->app.events);
    watchers.fixture->app.events = NULL;
    for (size_t i = 0; i < ARRAY_LEN(watchers.call); i++)
        http_call_done(&watchers.call[i]);
    return fixture_tear_down(state);
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, tear_down)

static void follow(size_t which, const char *query)
{
    struct http_call *call = &watchers.call[which];

    call->method = "GET";
    call->query = query;
    call->content_type = NULL;
    api_handle(&watchers.fixture->app, call);
    must(call->status == 200 && call->streams);
}

static bool comes_to(size_t which, unsigned puts)
{
    int64_t until_ms = 0;

    while (atomic_load(&watchers.call[which].stream.puts) < puts && patience_left(&until_ms))
        continue;
    return atomic_load(&watchers.call[which].stream.puts) >= puts;
}

static bool comes_to_its_end(size_t which)
{
    int64_t until_ms = 0;

    while (!atomic_load(&watchers.call[which].stream.ended) && patience_left(&until_ms))
        continue;
    return atomic_load(&watchers.call[which].stream.ended);
}

static const char *text_for(size_t which)
{
    struct strbuf *text = &watchers.call[which].stream.text;

    assert_true(atomic_load(&watchers.call[which].stream.ended));
    strbuf_char(text, '\0');
    return text->data;
}

static uint64_t before_commit;
static unsigned puts_then[2];

/* The entry is in the journal, and the lists do not show it yet. Asserts come after the batch. */
static int commit_and_linger(void *ctx, struct err *err)
{
    struct app_fixture *fixture = ctx;
    const uint64_t before = store_newest(fixture->app.store);
    const int rc = fixture->real_store.commit(fixture->real_store.ctx, err);

    if (before_commit != 0 || rc < 0)
        return rc;
    before_commit = before;
    must(store_newest(fixture->app.store) > before);
    follow(1, "");
    (void)comes_to(1, 1);
    sleep_ms(LOOK_MS);
    for (size_t i = 0; i < ARRAY_LEN(puts_then); i++)
        puts_then[i] = atomic_load(&watchers.call[i].stream.puts);
    return rc;
}

FIXTURE_TEST(event_stream__sends_an_entry_when_the_lists_show_it)
{
    char start[64];

    fixture_run(fixture);
    follow(0, "since=0");
    start_feeding();
    assert_true(comes_to(0, 2));
    before_commit = 0;
    fixture->app.store_ops.commit = commit_and_linger;
    fixture_bound_pod(fixture, "a", "300", "n1");
    fixture_run(fixture);
    assert_true(before_commit > 0);
    assert_int_equal(puts_then[0], 2); /* the start, and what was there */
    assert_int_equal(puts_then[1], 1);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_true(comes_to(0, 3));
    assert_true(comes_to(1, 2));
    stop_feeding();
    /* A client that began in between, and lists now or then, receives it. */
    (void)snprintf(start, sizeof start, "id: %llu\nevent: start\n",
                   (unsigned long long)before_commit);
    assert_ptr_equal(strstr(text_for(1), start), text_for(1));
    (void)snprintf(start, sizeof start, "id: %llu\nevent: observe\n",
                   (unsigned long long)before_commit + 1);
    assert_says(text_for(1), start);
    assert_says(text_for(0), start);
}

FIXTURE_TEST(event_stream__ends_with_reset_when_retention_passes_a_slow_client)
{
    struct store_ops *ops = &fixture->app.store_ops;
    struct err err;

    fixture_run(fixture);
    store_retain(fixture->app.store, 1);
    follow(0, "since=0");
    follow(1, "");
    atomic_store(&watchers.call[0].stream.lazy, true);
    /* As if the buffer were full. The feeder does not run yet, so this is the test's. */
    for (int i = 0; i < 70000; i++)
        strbuf_char(&watchers.call[0].stream.text, ' ');
    start_feeding();
    assert_true(comes_to(0, 1));
    sleep_ms(LOOK_MS);
    assert_int_equal(atomic_load(&watchers.call[0].stream.puts), 1);
    assert_int_equal(ops->maintain(ops->ctx, fixture->wall_ms + three_days_ms, &err), 0);
    atomic_store(&watchers.call[0].stream.lazy, false);
    assert_true(comes_to_its_end(0));
    assert_false(atomic_load(&watchers.call[1].stream.ended)); /* it has seen everything */
    stop_feeding();
    const char *text = text_for(0);
    const char *reset = strstr(text, "event: reset\ndata: {}\n\n");
    assert_non_null(reset);
    assert_string_equal(reset, "event: reset\ndata: {}\n\n");
    assert_null(strstr(text, "event: node"));
    assert_null(strstr(text_for(1), "reset"));
}

/* The file is damaged: the newest entry is no JSON. */
FIXTURE_TEST(event_stream__ends_with_reset_at_an_unreadable_entry)
{
    struct err err;

    fixture_run(fixture);
    must(db_exec(fixture->app.store->db,
                 "DROP TRIGGER journal_stays;"
                 "UPDATE journal SET result = '{' WHERE seq = (SELECT max(seq) FROM journal)",
                 &err) == 0);
    follow(0, "since=0");
    start_feeding();
    assert_true(comes_to_its_end(0));
    stop_feeding();
    const char *text = text_for(0);
    assert_says(text, "event: node");
    const char *reset = strstr(text, "event: reset");
    assert_non_null(reset);
    assert_string_equal(reset, "event: reset\ndata: {}\n\n");
}
