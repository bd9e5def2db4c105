/* Safe mode: its causes, and that nothing is granted or written afterwards. */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"
#include "milligpu/run/wakeup.h"
#include "milligpu/selfcheck/verifier.h"
#include "milligpu/spine/command_trace.h"
#include "milligpu/store/verify.h"

#include "support/folder.h"
#include "support/test.h"
#include "support_fixture.h"

struct scene {
    struct app_fixture *fixture;
    char folder[64];
    char ledger[96];
};

static struct scene scene;

static void begin_on(const char *ledger)
{
    scene.fixture = fixture_new_on(ledger);
    fixture_node(scene.fixture, "n1", "1000");
    fixture_node(scene.fixture, "n2", "2000");
    fixture_run(scene.fixture);
    scene.fixture->settings.verify_interval_s = 60;
    log_set(LOG_ERROR, false);
}

static void finish(void)
{
    fixture_free(scene.fixture);
}

static int set_up(void **state)
{
    folder_make(scene.folder, sizeof scene.folder);
    (void)snprintf(scene.ledger, sizeof scene.ledger, "%s/ledger.db", scene.folder);
    begin_on(scene.ledger);
    *state = scene.fixture;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    finish();
    folder_remove(scene.folder);
    return 0;
}

#define VERIFIER_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, tear_down)

/* The work of the verification thread and the writer in about a minute. */
static void verifier(struct app_fixture *fixture)
{
    for (int i = 0; i < 3; i++) {
        verifier_step(fixture->app.verifier, fixture->now_ms);
        fixture_run(fixture);
    }
    verifier_step(fixture->app.verifier, fixture->now_ms);
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(scene.ledger, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static long long number(const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(scene.ledger, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    const long long is = sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return is;
}

static uint32_t bundles(void)
{
    DIR *dir = opendir(scene.folder);
    struct dirent *entry;
    uint32_t count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        count += strstr(entry->d_name, ".safe-mode-") != NULL;
    (void)closedir(dir);
    return count;
}

static struct verifier_facts facts(const struct app_fixture *fixture)
{
    struct verifier_facts is;

    verifier_facts(fixture->app.verifier, &is);
    return is;
}

VERIFIER_TEST(verifier__trusts_a_sound_ledger)
{
    fixture_grant(fixture, "a", "300", "n1");
    verifier(fixture);
    assert_true(atomic_load(&fixture->app.health.history_checked));
    assert_false(atomic_load(&fixture->app.health.safe_mode));
    assert_true(facts(fixture).at_ms == fixture->wall_ms);
}

static unsigned trims;

/* Replaces that of libc. */
int malloc_trim(size_t pad)
{
    (void)pad;
    trims++;
    return 0;
}

VERIFIER_TEST(verifier__returns_its_memory)
{
    verifier_step(fixture->app.verifier, fixture->now_ms);
    fixture_run(fixture);
    trims = 0;
    verifier_step(fixture->app.verifier, fixture->now_ms);
    assert_int_equal(trims, 1);
}

VERIFIER_TEST(verifier__runs_again_after_the_interval)
{
    verifier(fixture);
    const int64_t first = facts(fixture).at_ms;
    fixture_pass(fixture, 58000);
    verifier(fixture);
    assert_true(facts(fixture).at_ms == first);
    fixture_pass(fixture, 3000);
    verifier(fixture);
    assert_true(facts(fixture).at_ms > first);
}

VERIFIER_TEST(verifier__runs_once_without_an_interval)
{
    fixture->settings.verify_interval_s = 0;
    verifier(fixture);
    const int64_t first = facts(fixture).at_ms;
    assert_true(first != 0);
    fixture_pass(fixture, 100000);
    verifier(fixture);
    assert_true(facts(fixture).at_ms == first);
}

VERIFIER_TEST(safe_mode__grants_and_writes_nothing)
{
    fixture_pod(fixture, "b", "300");
    fixture_grant(fixture, "a", "300", "n1");
    fixture_show_pod(fixture, "d", "300");
    fixture->contradict = true;
    struct fixture_call *in_one_batch = fixture_bind_begin(fixture, "d", "n1");
    assert_says(fixture_bind(fixture, "b", "n1"), "safe mode");
    assert_says(fixture_error(in_one_batch), "safe mode: the database refused");
    assert_true(atomic_load(&fixture->app.health.safe_mode));
    assert_int_equal(fixture->app.health.safe.reason, SAFE_REFUSED);
    assert_says(fixture->app.health.safe.text, "reserve");
    const long long journal = number("SELECT max(seq) FROM journal");
    fixture_delete_pod(fixture, "a");
    fixture_node(fixture, "n3", "1000");
    fixture_bound_pod(fixture, "c", "500", "n2");
    fixture_pass(fixture, 200000); /* also what comes with time: doubts, retention */
    assert_int_equal(number("SELECT max(seq) FROM journal"), journal);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    assert_int_equal(fixture_taken(fixture, "n2"), 0);
    assert_says(fixture_filter(fixture, "b", "n1 n2"), "safe mode");
    assert_says(fixture_bind(fixture, "b", "n2"), "safe mode");
}

/* A Binding that was on its way is answered by what the API server says. */
VERIFIER_TEST(safe_mode__answers_a_binding_in_flight)
{
    fixture_show_pod(fixture, "a", "300");
    struct fixture_call *call = fixture_bind_begin(fixture, "a", "n1");
    (void)writer_step(fixture->parts.writer, 0);
    safe_mode_enter(&fixture->app, SAFE_DISK, "a test");
    fixture_run(fixture);
    assert_string_equal(fixture_error(call), "");
    assert_string_equal(fixture_where(fixture, "a"), "n1");
    assert_int_equal(number("SELECT count(*) FROM allocation WHERE state = 'reserved'"), 1);
}

VERIFIER_TEST(safe_mode__keeps_the_first_reason)
{
    safe_mode_enter(&fixture->app, SAFE_MEMORY, "the first");
    safe_mode_enter(&fixture->app, SAFE_DISK, "the second");
    assert_string_equal(fixture->app.health.safe.text, "the first");
    assert_string_equal(safe_mode_word(&fixture->app), "memory");
    assert_int_equal(bundles(), 1);
}

VERIFIER_TEST(verifier__finds_damage_in_the_file)
{
    fixture_grant(fixture, "a", "300", "n1");
    sql("DROP TRIGGER charge_stays; UPDATE charge SET milli = 200");
    verifier(fixture);
    assert_true(atomic_load(&fixture->app.health.safe_mode));
    assert_int_equal(fixture->app.health.safe.reason, SAFE_DISK);
    assert_says(fixture->app.health.safe.text, "the charge of allocation");
    assert_int_equal(bundles(), 1);
}

/* n2 as readers see it, so that a test can damage it. */
static struct node *seen_node(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    return (struct node *)(uintptr_t)snapshot_node(snapshot, TEXT("n2"));
}

VERIFIER_TEST(verifier__finds_damage_in_memory)
{
    struct node *node = seen_node(fixture);

    node->free_milli--;
    fixture_pass(fixture, 1000); /* the writer's own check */
    node->free_milli++;
    assert_true(atomic_load(&fixture->app.health.safe_mode));
    assert_int_equal(fixture->app.health.safe.reason, SAFE_MEMORY);
    assert_says(fixture->app.health.safe.text, "node n2");
}

VERIFIER_TEST(verifier__checks_the_snapshot_of_readers)
{
    struct node *node = seen_node(fixture);

    verifier_step(fixture->app.verifier, fixture->now_ms);
    verifier_meet(fixture->app.verifier);
    node->free_milli--;
    verifier_step(fixture->app.verifier, fixture->now_ms);
    node->free_milli++;
    assert_int_equal(fixture->app.health.safe.reason, SAFE_MEMORY);
    assert_true(atomic_load(&fixture->app.health.safe_mode));
}

VERIFIER_TEST(verifier__waits_until_milligpud_is_ready)
{
    atomic_store(&fixture->app.watch.pods_synced, false);
    verifier(fixture);
    assert_int_equal(verifier_wait_ms(fixture->app.verifier, fixture->now_ms), 60 * 1000);
    assert_true(facts(fixture).at_ms == 0);
    wakeup_wait(fixture->app.verifier_wakeup, 0); /* forgets earlier signals */
    atomic_store(&fixture->app.watch.pods_synced, true);
    fixture_run(fixture);
    wakeup_wait(fixture->app.verifier_wakeup, INT64_MAX); /* the test would hang */
    assert_int_equal(verifier_wait_ms(fixture->app.verifier, fixture->now_ms), 0);
    verifier(fixture);
    assert_true(facts(fixture).at_ms == fixture->wall_ms);
    /* only the first one */
    atomic_store(&fixture->app.watch.pods_synced, false);
    assert_true(verifier_wait_ms(fixture->app.verifier, fixture->now_ms) > 0);
    atomic_store(&fixture->app.watch.pods_synced, true);
    assert_true(verifier_wait_ms(fixture->app.verifier, fixture->now_ms) > 0);
}

VERIFIER_TEST(verifier__waits_a_minute_at_most)
{
    atomic_store(&fixture->app.watch.pods_synced, false);
    verifier(fixture);
    fixture_pass(fixture, 59000);
    verifier(fixture);
    assert_true(facts(fixture).at_ms == 0);
    fixture_pass(fixture, 1000);
    verifier(fixture);
    assert_true(facts(fixture).at_ms == fixture->wall_ms);
}

/* The verifier thread sleeps this long, unless its bell wakes it. */
VERIFIER_TEST(verifier__sleeps_until_something_is_due)
{
    struct verifier *verifying = fixture->app.verifier;

    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms), 0);
    verifier_step(verifying, fixture->now_ms);
    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms), WAKEUP_WAIT_MS_MAX);
    verifier_meet(verifying);
    wakeup_wait(fixture->app.verifier_wakeup, INT64_MAX); /* the test would hang */
    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms), 0);
    verifier_step(verifying, fixture->now_ms);
    const int64_t interval_ms = (int64_t)fixture->app.settings->verify_interval_s * 1000;
    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms), interval_ms);
    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms + interval_ms + 1), 0);

    safe_mode_enter(&fixture->app, SAFE_MEMORY, "a test");
    wakeup_wait(fixture->app.verifier_wakeup, INT64_MAX);
    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms), 0); /* for the diagnostics */
    verifier_step(verifying, fixture->now_ms);
    assert_int_equal(verifier_wait_ms(verifying, fixture->now_ms), WAKEUP_WAIT_MS_MAX);
    verifier_stop(verifying);
    wakeup_wait(fixture->app.verifier_wakeup, INT64_MAX);
}

VERIFIER_TEST(bundle__is_not_made_of_a_ledger_in_memory)
{
    finish();
    begin_on(":memory:");
    fixture = scene.fixture;

    verifier(fixture);
    assert_false(atomic_load(&fixture->app.health.safe_mode));
    fixture_show_pod(fixture, "a", "300");
    fixture->contradict = true;
    assert_says(fixture_bind(fixture, "a", "n1"), "safe mode");
    verifier(fixture);
    assert_string_equal(fixture->app.health.safe.folder, "");
    assert_says(fixture->app.health.safe.why_none, "in memory");
}

VERIFIER_TEST(bundle__is_made_four_times_at_most)
{
    for (uint32_t made = 1; made <= 5; made++) {
        safe_mode_enter(&fixture->app, SAFE_DISK, "a test");
        verifier(fixture);
        assert_int_equal(bundles(), made < 5 ? made : 4);
        if (made == 5)
            assert_says(scene.fixture->app.health.safe.why_none, "4 beside the ledger already");
        finish();
        begin_on(scene.ledger);
        fixture = scene.fixture;
    }
}

VERIFIER_TEST(bundle__may_fail_without_effect)
{
    safe_mode_enter(&fixture->app, SAFE_DISK, "a test");
    assert_int_equal(rmdir(fixture->app.health.safe.folder), 0);
    verifier(fixture);
    assert_true(atomic_load(&fixture->app.health.safe_mode));
    assert_int_equal(bundles(), 0);
}

TEST(command_trace__keeps_the_last_thousand_in_order)
{
    struct command_trace *command_trace = command_trace_new();
    CLEANUP(strbuf_done) struct strbuf out;
    char uid[200];

    for (int i = 0; i < RECENT_MAX + 5; i++) {
        (void)snprintf(uid, sizeof uid, i == RECENT_MAX ? "%0150d" : "%d", i);
        const struct command command = {.kind = COMMAND_CONFIRM, .at_ms = i, .uid = uid};
        command_trace_add(command_trace, &command, "ok");
    }
    strbuf_init(&out);
    command_trace_write(command_trace, &out);
    static const char first[] =
        "{\"atMs\":5,\"command\":\"confirm\",\"outcome\":\"ok\",\"uid\":\"5\"}\n";
    assert_memory_equal(out.data, first, strlen(first));
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_int_equal(lines, RECENT_MAX);
    assert_says(out.data, "...\"}\n"); /* a name that is too long is cut */
    command_trace_free(command_trace);
}
