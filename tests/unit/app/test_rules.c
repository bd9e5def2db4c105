/*
 * Rules of a policy in the whole application: refusals, changes, wake-ups and journal entries. The
 * clock stands at 22:13 UTC on a Tuesday.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/document/policy/policy_document.h"
#include "milligpu/document/policy/zone_file.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/patience.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support_fixture.h"

enum { MINUTE_MS = 60000, HOUR_MS = 60 * MINUTE_MS };

#define NIGHT                                                                                      \
    "rules:\n"                                                                                     \
    "  - name: night\n"                                                                            \
    "    nodes: {pool: night}\n"                                                                   \
    "    when: 20:00-08:00 UTC\n"                                                                  \
    "    whole: true\n"
#define NIGHT_REFUSES "policy rule 1 (night): only whole GPUs here"

static const struct rulebook *document(const char *rules)
{
    static const struct policy_edges edges = {.load_zone = zone_load};
    CLEANUP(strbuf_done) struct strbuf text;
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book;
    struct err err;

    strbuf_init(&text);
    strbuf_init(&warnings);
    strbuf_printf(&text, "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\n%s", rules);
    if (policy_document_read((struct text){text.data, text.len}, "test.yaml", &edges, &book,
                             &warnings, &err) < 0)
        fail_msg("%s", err.text);
    return book;
}

static void decide_by(struct app_fixture *fixture, const char *rules)
{
    fixture_policy(fixture, document(rules));
    fixture_run(fixture);
}

/* n1 is in the pool that the rule is about, n2 is not. */
static int set_up(void **state)
{
    *state = fixture_new(fixture_two_nodes);
    fixture_label_node(*state, "n1", "\"pool\":\"night\"");
    fixture_run(*state);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, fixture_tear_down)

static void assert_refused(struct app_fixture *fixture, const char *pod, const char *node,
                           const char *text)
{
    assert_false(fixture_fits(fixture, pod, node));
    assert_says(fixture_filter(fixture, pod, node), text);
}

enum { SOON_MS = 5000 }; /* wake-ups that are due come within this time */

static void add_object(struct app_fixture *fixture, const char *pod, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf object;

    strbuf_init(&object);
    fixture_object(fixture, pod, &object);
    strbuf_str(out, object.data);
}

/* A webhook about this pod; members: what follows the pod. */
static const char *ask_about(struct app_fixture *fixture, const char *path, const char *pod,
                             const char *members)
{
    CLEANUP(strbuf_done) struct strbuf body;

    fixture_run(fixture);
    strbuf_init(&body);
    strbuf_str(&body, "{\"Pod\":");
    add_object(fixture, pod, &body);
    strbuf_printf(&body, ",%s}", members);
    return fixture_ask(fixture, path, body.data);
}

/* The newest entries of this kind; their commands, one per line. */
struct entries {
    struct strbuf text;
    uint32_t count;
};

static bool note_entry(void *user, const struct journal_row *row)
{
    struct entries *entries = user;

    if (strcmp(row->kind, "policy") == 0) {
        strbuf_printf(&entries->text, "%s %s\n", row->command, row->result);
        entries->count++;
    }
    return true;
}

/* The journal entries about policies. */
static void read_journal(struct app_fixture *fixture, struct entries *out)
{
    const struct store_journal_query query = {.limit = 1000, .user = out, .each = note_entry};
    uint64_t folded;
    struct err err;

    *out = (struct entries){.count = 0};
    strbuf_init(&out->text);
    assert_int_equal(store_journal(fixture->app.store, &query, &folded, &err), 0);
    assert_int_equal(store_replay_check(fixture->app.store, &err), 0);
}

static uint32_t policy_entries(struct app_fixture *fixture)
{
    struct entries entries;

    read_journal(fixture, &entries);
    strbuf_done(&entries.text);
    return entries.count;
}

static void assert_last_entry(struct app_fixture *fixture, const char *part)
{
    struct entries entries;

    read_journal(fixture, &entries);
    assert_true(entries.text.len > 0);
    entries.text.data[entries.text.len - 1] = '\0';
    const char *last = strrchr(entries.text.data, '\n');
    last = last != NULL ? last + 1 : entries.text.data;
    if (strstr(last, part) == NULL)
        fail_msg("%s does not say %s", last, part);
    strbuf_done(&entries.text);
}

/*
 * Refusals
 */

FIXTURE_TEST(rule__applies_in_filter_and_bind)
{
    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "part", "300");
    fixture_pod(fixture, "whole", "1000");
    assert_refused(fixture, "part", "n1", NIGHT_REFUSES);
    assert_true(fixture_fits(fixture, "part", "n2"));
    assert_true(fixture_fits(fixture, "whole", "n1"));
    /* kube-scheduler may bring any node. */
    assert_says(fixture_bind(fixture, "part", "n1"), NIGHT_REFUSES);
    assert_string_equal(fixture_bind(fixture, "whole", "n1"), "");
    assert_string_equal(fixture_bind(fixture, "part", "n2"), "");
}

FIXTURE_TEST(rule__applies_to_its_namespaces)
{
    fixture_show_pod(fixture, "a", "300");
    decide_by(fixture, "rules:\n  - {name: others, namespaces: [ml-*], whole: true}\n");
    assert_true(fixture_fits(fixture, "a", "n1"));
    decide_by(fixture, "rules:\n  - {name: ours, namespaces: [def*], min: 400}\n");
    assert_refused(fixture, "a", "n1", "policy rule 1 (ours): shares of at least 400 milli here");
}

FIXTURE_TEST(rule__applies_in_prioritize)
{
    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "a", "300");
    const char *answer = ask_about(fixture, "/scheduler/prioritize", "a",
                                   "\"Nodes\":null,\"NodeNames\":[\"n1\",\"n2\"]");
    assert_says(answer, "{\"Host\":\"n1\",\"Score\":0}");
    assert_says(answer, "{\"Host\":\"n2\",\"Score\":10}");
}

/* A victim gives room, and the rule stays. */
FIXTURE_TEST(rule__applies_in_preempt)
{
    CLEANUP(strbuf_done) struct strbuf victims;

    fixture_bound_pod(fixture, "on-1", "1000", "n1");
    fixture_bound_pod(fixture, "on-2", "1000", "n2");
    fixture_pod(fixture, "a", "300");
    decide_by(fixture, NIGHT);
    strbuf_init(&victims);
    strbuf_str(&victims,
               "\"NodeNameToMetaVictims\":null,\"NodeNameToVictims\":{\"n1\":{\"Pods\":[");
    add_object(fixture, "on-1", &victims);
    strbuf_str(&victims, "]},\"n2\":{\"Pods\":[");
    add_object(fixture, "on-2", &victims);
    strbuf_str(&victims, "]}}");
    const char *answer = ask_about(fixture, "/scheduler/preempt", "a", victims.data);
    assert_null(strstr(answer, "\"n1\""));
    assert_says(answer, "\"n2\"");
}

/* An autoscaler's template, which the ledger does not know, has labels like every Node. */
FIXTURE_TEST(rule__applies_to_a_node_that_only_the_question_has)
{
    char nodes[512];

    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "a", "300");
    for (int night = 0; night <= 1; night++) {
        (void)snprintf(
            nodes, sizeof nodes,
            "\"NodeNames\":null,\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"new\",\"labels\":{"
            "\"pool\":\"%s\",\"nvidia.com/gpu.product\":\"A100\"}},\"status\":{"
            "\"capacity\":{\"nvidia.com/vgpu\":\"1000\"},"
            "\"allocatable\":{\"nvidia.com/vgpu\":\"1000\"}}}]}",
            night ? "night" : "day");
        const char *answer = ask_about(fixture, "/scheduler/filter", "a", nodes);
        assert_int_equal(strstr(answer, NIGHT_REFUSES) != NULL, night);
    }
}

FIXTURE_TEST(rule__leaves_running_pods_alone)
{
    fixture_grant(fixture, "a", "300", "n1");
    decide_by(fixture, NIGHT);
    assert_int_equal(fixture_taken(fixture, "n1"), 300);
    fixture_bound_pod(fixture, "by-hand", "200", "n1"); /* adopted, not granted */
    assert_taken(fixture, "n1", 500);
    fixture_restart_and_run(fixture);
    assert_int_equal(fixture_taken(fixture, "n1"), 500);
}

/* The labels of a node come with the watch; they alone change nothing on disk. */
FIXTURE_TEST(rule__follows_the_labels_of_a_node)
{
    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "a", "300");
    assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
    fixture_pass(fixture, SOON_MS);
    const uint64_t newest = store_newest(fixture->app.store);
    fixture_label_node(fixture, "n1", "\"pool\":\"day\"");
    assert_woken(fixture, SOON_MS, 1);
    assert_int_equal(store_newest(fixture->app.store), newest);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
}

/*
 * Changes
 */

FIXTURE_TEST(window__wakes_waiting_pods_when_it_ends)
{
    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "a", "300");
    assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
    assert_last_entry(fixture, "\"holding\":[1]");
    const uint32_t entries = policy_entries(fixture);
    fixture->wall_ms = INT64_C(1700035200000) - 500; /* 08:00 */
    assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
    assert_woken(fixture, 500, 1);
    assert_int_equal(policy_entries(fixture), entries + 1);
    assert_last_entry(fixture, "\"holding\":[]} {}");
    assert_true(fixture_fits(fixture, "a", "n1"));
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
}

FIXTURE_TEST(window__begins_again_each_day_and_follows_the_wall_clock)
{
    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "a", "300");
    for (int64_t day = 0; day < 3; day++) {
        fixture->wall_ms = INT64_C(1700035200000) + day * 24 * HOUR_MS;
        assert_true(fixture_fits(fixture, "a", "n1"));
        fixture->wall_ms += 12 * (int64_t)HOUR_MS;
        assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
    }
    assert_int_equal(policy_entries(fixture), 2 + 6);
    fixture->wall_ms -= 12 * (int64_t)HOUR_MS; /* a step back is followed at once, too */
    assert_true(fixture_fits(fixture, "a", "n1"));
}

FIXTURE_TEST(window__ends_the_sleep_of_the_writer)
{
    decide_by(fixture, NIGHT);
    fixture->wall_ms = INT64_C(1700035200000) - 3;
    (void)writer_step(fixture->parts.writer, 0);
    const int64_t began_ns = clock_ns();
    (void)writer_step(fixture->parts.writer,
                      10 * PATIENCE_MS); /* the clock of the test stands still */
    assert_true(clock_ns() - began_ns < PATIENCE_S * INT64_C(1000000000));
}

/* A bind that comes with the new rules is decided by them. */
FIXTURE_TEST(rule__applies_to_binds_behind_a_change)
{
    fixture_pod(fixture, "a", "300");
    fixture_show_pod(fixture, "b", "300");
    struct fixture_call *before = fixture_bind_begin(fixture, "a", "n1");
    fixture_policy(fixture, document(NIGHT));
    fixture_run(fixture);
    struct fixture_call *behind = fixture_bind_begin(fixture, "b", "n1");
    fixture_run(fixture);
    assert_string_equal(fixture_error(before), "");
    assert_says(fixture_error(behind), NIGHT_REFUSES);
}

FIXTURE_TEST(policy_change__is_recorded_and_wakes_waiting_pods)
{
    decide_by(fixture, NIGHT);
    fixture_pod(fixture, "a", "300");
    assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
    fixture_pass(fixture, SOON_MS);
    const uint32_t wake_ups = fixture->wake_ups;
    const uint32_t entries = policy_entries(fixture);
    decide_by(fixture, "rules:\n  - {name: pool, nodes: {pool: night}, step: 100}\n");
    fixture_pass(fixture, SOON_MS);
    assert_int_equal(fixture->wake_ups, wake_ups + 1);
    assert_int_equal(policy_entries(fixture), entries + 1);
    assert_last_entry(fixture, "\"policy\":\"test.yaml\",\"digest\":\"");
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    fixture_pod(fixture, "b", "250");
    assert_refused(fixture, "b", "n1", "policy rule 1 (pool): shares in steps of 100 milli here");
}

FIXTURE_TEST(policy__is_recorded_when_a_process_begins)
{
    assert_int_equal(policy_entries(fixture), 1);
    assert_last_entry(fixture, "{\"kind\":\"policy\",\"policy\":\"binpack\"} {}");
    decide_by(fixture, NIGHT);
    fixture_restart_and_run(fixture);
    assert_int_equal(policy_entries(fixture), 3);
    assert_last_entry(fixture, "\"holding\":[1]");
    fixture_pod(fixture, "a", "300");
    assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
}

/* Rules that the journal could not name do not decide yet, and nothing is granted meanwhile. */
FIXTURE_TEST(policy_change__waits_for_the_disk)
{
    fixture_show_pod(fixture, "a", "300");
    fixture->disk_full = true;
    decide_by(fixture, NIGHT);
    assert_false(app_ready(&fixture->app, NULL));
    assert_int_equal(policy_entries(fixture), 1);
    fixture->disk_full = false;
    fixture_pass(fixture, 3000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_int_equal(policy_entries(fixture), 2);
    assert_refused(fixture, "a", "n1", NIGHT_REFUSES);
}

/*
 * Idle hosts in reserve
 */

#define RESERVE "rules:\n  - {name: big, nodes: {pool: big}, reserve: 1}\n"

static uint32_t idle_hosts(struct app_fixture *fixture)
{
    fixture_run(fixture);
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    return snapshot->context->idle[0];
}

/* Two hosts with two GPUs each: a and b. */
static int set_up_hosts(void **state)
{
    static const char *const none[] = {NULL};
    struct app_fixture *fixture = fixture_new(none);

    fixture_node_with(fixture, "a", "GPU-a0 GPU-a1");
    fixture_node_with(fixture, "b", "GPU-b0 GPU-b1");
    fixture_label_node(fixture, "a", "\"pool\":\"big\"");
    fixture_label_node(fixture, "b", "\"pool\":\"big\"");
    fixture_run(fixture);
    *state = fixture;
    return 0;
}

#define HOSTS_TEST(name)                                                                           \
    TEST_WITH(name, struct app_fixture *fixture, set_up_hosts, fixture_tear_down)

HOSTS_TEST(reserve__keeps_the_last_idle_host_for_pods_of_several_gpus)
{
    decide_by(fixture, RESERVE);
    assert_int_equal(idle_hosts(fixture), 2);
    fixture_pod(fixture, "q", "300");
    fixture_pod(fixture, "big", "2000");
    fixture_grant(fixture, "p", "300", "a");
    assert_int_equal(idle_hosts(fixture), 1);
    assert_says(fixture_bind(fixture, "q", "b"), "reserve: ");
    assert_false(fixture_fits(fixture, "q", "b"));
    assert_true(fixture_fits(fixture, "big", "b"));
    assert_string_equal(fixture_bind(fixture, "q", "a"), ""); /* it is not idle */
    assert_string_equal(fixture_bind(fixture, "big", "b"), "");
    assert_int_equal(idle_hosts(fixture), 0);
}

#define A100(index)                                                                                \
    "{\\\"uuid\\\":\\\"GPU-b" index "\\\",\\\"index\\\":" index ",\\\"mib\\\":81920,"              \
    "\\\"model\\\":\\\"A100\\\"}"

/* The pod that waits may fit on another host than the one that became idle. */
HOSTS_TEST(reserve__wakes_waiting_pods_when_any_host_becomes_idle)
{
    fixture_annotate_node(fixture, "b", "\"milligpu.io/gpus\":\"[" A100("0") "," A100("1") "]\"");
    fixture_bound_pod(fixture, "p", "300", "a");
    decide_by(fixture, RESERVE);
    assert_int_equal(idle_hosts(fixture), 1);
    fixture_pod_of(fixture, "q", "\"nvidia.com/vgpu\":\"300\"",
                   "\"milligpu.io/gpu-model\":\"A100\"", NULL);
    assert_false(fixture_fits(fixture, "q", "b"));
    fixture_pass(fixture, SOON_MS);
    fixture_end_pod(fixture, "p");
    assert_woken(fixture, SOON_MS, 1);
    assert_int_equal(idle_hosts(fixture), 2);
    assert_false(fixture_fits(fixture, "q", "a"));
    assert_true(fixture_fits(fixture, "q", "b"));
    assert_string_equal(fixture_bind(fixture, "q", "b"), "");
}

HOSTS_TEST(reserve__counts_idle_hosts_through_the_life_of_nodes)
{
    decide_by(fixture, RESERVE);
    assert_int_equal(idle_hosts(fixture), 2);
    fixture_annotate_node(fixture, "a", "\"milligpu.io/cordon\":\"all\"");
    assert_int_equal(idle_hosts(fixture), 1);
    fixture_annotate_node(fixture, "a", "\"milligpu.io/cordon\":null");
    assert_int_equal(idle_hosts(fixture), 2);
    fixture_label_node(fixture, "a", "\"pool\":\"small\"");
    assert_int_equal(idle_hosts(fixture), 1);
    fixture_delete_node(fixture, "b");
    assert_int_equal(idle_hosts(fixture), 0);
    fixture_label_node(fixture, "a", "\"pool\":\"big\"");
    fixture_restart_and_run(fixture);
    assert_int_equal(idle_hosts(fixture), 1);
}

#define TAINTED "\"taints\":[{\"key\":\"team\",\"value\":\"a\",\"effect\":\"NoSchedule\"}]"

/* b is the only other idle host: a is kept while no pod may use b, and offered when that ends. */
static void kept_while(struct app_fixture *fixture, const char *begins, const char *ends)
{
    decide_by(fixture, RESERVE);
    fixture_change_node(fixture, "b", begins);
    fixture_pod(fixture, "p", "300");
    assert_int_equal(idle_hosts(fixture), 1);
    assert_says(fixture_bind(fixture, "p", "a"), "reserve: ");
    assert_false(fixture_fits(fixture, "p", "a"));
    fixture_pass(fixture, 2 * SOON_MS); /* what was owed goes first */
    fixture_annotate_node(fixture, "b", "\"heartbeat\":\"1\"");
    assert_woken(fixture, SOON_MS, 0); /* nothing new */
    fixture_change_node(fixture, "b", ends);
    assert_woken(fixture, SOON_MS, 1);
    assert_int_equal(idle_hosts(fixture), 2);
    assert_true(fixture_fits(fixture, "p", "a"));
    assert_string_equal(fixture_bind(fixture, "p", "a"), "");
}

HOSTS_TEST(reserve__excludes_a_cordoned_host)
{
    kept_while(fixture, "\"unschedulable\":true", "\"unschedulable\":null");
}

HOSTS_TEST(reserve__excludes_a_tainted_host)
{
    kept_while(fixture, TAINTED, "\"taints\":null");
}

/* Grants are kube-scheduler's choice: it asks only about nodes that the pod may use. */
HOSTS_TEST(reserve__grants_a_cordoned_host)
{
    decide_by(fixture, RESERVE);
    fixture_change_node(fixture, "b", "\"unschedulable\":true");
    fixture_pod(fixture, "p", "300");
    assert_true(fixture_fits(fixture, "p", "b"));
    assert_string_equal(fixture_bind(fixture, "p", "b"), "");
}

HOSTS_TEST(reserve__includes_a_host_whose_taint_a_pod_tolerates)
{
    decide_by(fixture, RESERVE);
    fixture_change_node(fixture, "b", TAINTED);
    fixture_pod(fixture, "p", "300");
    fixture_pod(fixture, "q", "300");
    assert_false(fixture_fits(fixture, "p", "a"));
    fixture_pass(fixture, 2 * SOON_MS); /* what was owed goes first */
    fixture_change_pod(fixture, "q",
                       "\"tolerations\":[{\"key\":\"team\",\"operator\":\"Exists\"}]");
    assert_woken(fixture, SOON_MS, 1);
    assert_int_equal(idle_hosts(fixture), 2);
    assert_true(fixture_fits(fixture, "p", "a"));
    /* Bound or not, it is a pod that holds a share. */
    assert_string_equal(fixture_bind(fixture, "q", "b"), "");
    fixture_run(fixture);
    fixture_delete_pod(fixture, "q");
    assert_int_equal(idle_hosts(fixture), 1);
    assert_false(fixture_fits(fixture, "p", "a"));
}

HOSTS_TEST(reserve__counts_the_host_of_a_lost_grant_as_idle)
{
    decide_by(fixture, RESERVE);
    fixture_show_pod(fixture, "p", "300");
    fixture->disk_full = true;
    assert_string_not_equal(fixture_bind(fixture, "p", "a"), "");
    assert_int_equal(idle_hosts(fixture), 2);
    fixture->disk_full = false;
    fixture_pass(fixture, 3000);
    assert_string_equal(fixture_bind(fixture, "p", "a"), "");
    assert_int_equal(idle_hosts(fixture), 1);
}
