/* Safe mode: what ends granting, and that nothing is granted or written after. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"
#include "milligpu/verify.h"

#include "app/command_trace.h"
#include "app/verifier.h"
#include "support_rig.h"

struct scene {
    struct rig *rig;
    char folder[64];
    char ledger[96];
};

static struct scene scene;

static void begin_on(const char *ledger)
{
    static const char *const nodes[] = {"n1", "1000", "n2", "2000", NULL};

    scene.rig = rig_new_on(ledger);
    for (size_t i = 0; nodes[i] != NULL; i += 2)
        rig_node(scene.rig, nodes[i], nodes[i + 1]);
    rig_run(scene.rig);
    scene.rig->settings.verify_interval_s = 60;
    scene.rig->app.command_trace = command_trace_new();
    scene.rig->app.verifier = verifier_new(&scene.rig->app);
    log_set(LOG_ERROR, false);
}

static void finish(void)
{
    verifier_free(scene.rig->app.verifier);
    command_trace_free(scene.rig->app.command_trace);
    rig_free(scene.rig);
}

static int set_up(void **state)
{
    (void)snprintf(scene.folder, sizeof scene.folder, "/tmp/milligpu-verification-XXXXXX");
    assert_non_null(mkdtemp(scene.folder));
    (void)snprintf(scene.ledger, sizeof scene.ledger, "%s/ledger.db", scene.folder);
    begin_on(scene.ledger);
    *state = scene.rig;
    return 0;
}

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char inner[512];

    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(inner) != 0) {
            empty(inner);
            assert_int_equal(rmdir(inner), 0);
        }
    }
    (void)closedir(dir);
}

static int tear_down(void **state)
{
    (void)state;
    finish();
    empty(scene.folder);
    assert_int_equal(rmdir(scene.folder), 0);
    return 0;
}

/* As much as the verification thread and the writer would do in a minute or so. */
static void verifier(struct rig *rig)
{
    for (int i = 0; i < 3; i++) {
        verifier_step(rig->app.verifier, rig->now_ms);
        rig_run(rig);
    }
    verifier_step(rig->app.verifier, rig->now_ms);
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

static struct verifier_facts facts(const struct rig *rig)
{
    struct verifier_facts is;

    verifier_facts(rig->app.verifier, &is);
    return is;
}

static void a_sound_ledger_stays_trusted(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    verifier(rig);
    assert_true(atomic_load(&rig->app.history_checked));
    assert_false(atomic_load(&rig->app.safe_mode));
    assert_true(facts(rig).at_ms == rig->wall_ms);
}

static void the_next_audit_comes_after_the_interval(void **state)
{
    struct rig *rig = *state;

    verifier(rig);
    const int64_t first = facts(rig).at_ms;
    rig_pass(rig, 58000);
    verifier(rig);
    assert_true(facts(rig).at_ms == first);
    rig_pass(rig, 3000);
    verifier(rig);
    assert_true(facts(rig).at_ms > first);
}

static void without_an_interval_there_is_the_first_audit_only(void **state)
{
    struct rig *rig = *state;

    rig->settings.verify_interval_s = 0;
    verifier(rig);
    const int64_t first = facts(rig).at_ms;
    assert_true(first != 0);
    rig_pass(rig, 100000);
    verifier(rig);
    assert_true(facts(rig).at_ms == first);
}

static void in_safe_mode_nothing_is_granted_and_nothing_written(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_pod(rig, "b", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    rig->contradict = true;
    assert_non_null(strstr(rig_bind(rig, "b", "n1"), "safe mode: the database refused"));
    assert_int_equal(rig->app.safe.reason, SAFE_REFUSED);
    assert_non_null(strstr(rig->app.safe.text, "reserve"));
    const long long journal = number("SELECT max(seq) FROM journal");
    rig_delete_pod(rig, "a");
    rig_node(rig, "n3", "1000");
    rig_bound_pod(rig, "c", "500", "n2");
    rig_pass(rig, 200000); /* also what time does: doubts, retention */
    assert_int_equal(number("SELECT max(seq) FROM journal"), journal);
    assert_int_equal(rig_taken(rig, "n1"), 300);
    assert_int_equal(rig_taken(rig, "n2"), 0);
    assert_non_null(strstr(rig_filter(rig, "b", "n1 n2"), "safe mode"));
    assert_non_null(strstr(rig_bind(rig, "b", "n2"), "safe mode"));
}

/* A Binding that was on its way is answered as the API server has it. */
static void what_was_promised_before_is_kept(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    struct rig_call *call = rig_bind_begin(rig, "a", "n1");
    (void)writer_step(rig->writer, 0);
    safe_mode_enter(&rig->app, SAFE_DISK, "a test");
    rig_run(rig);
    assert_string_equal(rig_error(call), "");
    assert_string_equal(rig_where(rig, "a"), "n1");
    assert_int_equal(number("SELECT count(*) FROM allocation WHERE state = 'reserved'"), 1);
}

static void the_first_reason_stays(void **state)
{
    struct rig *rig = *state;

    safe_mode_enter(&rig->app, SAFE_MEMORY, "the first");
    safe_mode_enter(&rig->app, SAFE_DISK, "the second");
    assert_string_equal(rig->app.safe.text, "the first");
    assert_string_equal(safe_mode_word(&rig->app), "memory");
    assert_int_equal(bundles(), 1);
}

static void damage_in_the_file_is_found(void **state)
{
    struct rig *rig = *state;

    rig_pod(rig, "a", "300");
    rig_run(rig);
    assert_string_equal(rig_bind(rig, "a", "n1"), "");
    sql("DROP TRIGGER charge_stays; UPDATE charge SET milli = 200");
    verifier(rig);
    assert_true(atomic_load(&rig->app.safe_mode));
    assert_int_equal(rig->app.safe.reason, SAFE_DISK);
    assert_non_null(strstr(rig->app.safe.text, "the charge of allocation"));
    assert_int_equal(bundles(), 1);
}

static void damage_in_memory_is_found(void **state)
{
    struct rig *rig = *state;

    const struct snapshot *snapshot = view_take(rig->app.view);
    struct node *node = (struct node *)(uintptr_t)snapshot_node(snapshot, TEXT("n2"));
    snapshot_unref(snapshot);
    node->free_milli--;
    rig_pass(rig, 1000); /* the writer's own round */
    node->free_milli++;
    assert_true(atomic_load(&rig->app.safe_mode));
    assert_int_equal(rig->app.safe.reason, SAFE_MEMORY);
    assert_non_null(strstr(rig->app.safe.text, "node n2"));
}

static void what_readers_see_is_audited_too(void **state)
{
    struct rig *rig = *state;

    const struct snapshot *snapshot = view_take(rig->app.view);
    struct node *node = (struct node *)(uintptr_t)snapshot_node(snapshot, TEXT("n2"));
    snapshot_unref(snapshot);
    verifier_step(rig->app.verifier, rig->now_ms);
    audit_meet(rig->app.verifier);
    node->free_milli--;
    verifier_step(rig->app.verifier, rig->now_ms);
    node->free_milli++;
    assert_int_equal(rig->app.safe.reason, SAFE_MEMORY);
    assert_true(atomic_load(&rig->app.safe_mode));
}

static void a_ledger_in_memory_has_no_bundle(void **state)
{
    finish();
    begin_on(":memory:");
    struct rig *rig = *state = scene.rig;

    verifier(rig);
    assert_false(atomic_load(&rig->app.safe_mode));
    rig_pod(rig, "a", "300");
    rig_run(rig);
    rig->contradict = true;
    assert_non_null(strstr(rig_bind(rig, "a", "n1"), "safe mode"));
    verifier(rig);
    assert_string_equal(rig->app.safe.bundle, "");
    assert_non_null(strstr(rig->app.safe.why_none, "in memory"));
}

static void a_fifth_bundle_is_not_made(void **state)
{
    for (uint32_t made = 1; made <= 5; made++) {
        safe_mode_enter(&((struct rig *)*state)->app, SAFE_DISK, "a test");
        verifier(*state);
        assert_int_equal(bundles(), made < 5 ? made : 4);
        if (made == 5)
            assert_non_null(strstr(scene.rig->app.safe.why_none, "4 beside the ledger already"));
        finish();
        begin_on(scene.ledger);
        *state = scene.rig;
    }
}

static void a_bundle_that_cannot_be_written_hinders_nothing(void **state)
{
    struct rig *rig = *state;

    safe_mode_enter(&rig->app, SAFE_DISK, "a test");
    assert_int_equal(rmdir(rig->app.safe.bundle), 0);
    verifier(rig);
    assert_true(atomic_load(&rig->app.safe_mode));
    assert_int_equal(bundles(), 0);
}

static void the_last_thousand_commands_are_kept_in_order(void **state)
{
    struct command_trace *command_trace = command_trace_new();
    struct strbuf out;
    char uid[200];

    (void)state;
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
    assert_non_null(strstr(out.data, "...\"}\n")); /* too long a name is cut */
    strbuf_done(&out);
    command_trace_free(command_trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define IN_A_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        IN_A_RIG(a_sound_ledger_stays_trusted),
        IN_A_RIG(the_next_audit_comes_after_the_interval),
        IN_A_RIG(without_an_interval_there_is_the_first_audit_only),
        IN_A_RIG(in_safe_mode_nothing_is_granted_and_nothing_written),
        IN_A_RIG(what_was_promised_before_is_kept),
        IN_A_RIG(the_first_reason_stays),
        IN_A_RIG(damage_in_the_file_is_found),
        IN_A_RIG(damage_in_memory_is_found),
        IN_A_RIG(what_readers_see_is_audited_too),
        IN_A_RIG(a_ledger_in_memory_has_no_bundle),
        IN_A_RIG(a_fifth_bundle_is_not_made),
        IN_A_RIG(a_bundle_that_cannot_be_written_hinders_nothing),
        cmocka_unit_test(the_last_thousand_commands_are_kept_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
