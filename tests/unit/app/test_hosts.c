/* CPU and memory that pods leave of a node, from the watch to the snapshot that filter ranks by. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/spine/view.h"

#include "support/test.h"
#include "support_fixture.h"
#include "writer/writer_internal.h"

enum { GIB = 1024 }; /* MiB */

static struct ledger *ledger_of(struct app_fixture *fixture)
{
    return fixture->parts.writer->ledger;
}

/* The workload: so many pods of four cores and half a GPU that those of a test do not matter. */
static void set_policy(struct app_fixture *fixture, enum policy_kind kind)
{
    struct tally *tally = fixture->parts.writer->learning.tally;
    struct want want = {.container = "c", .parts = 1, .milli = 500};
    const struct request request = {.n_wants = 1, .want = &want, .host = {4000, 0}};

    for (uint32_t i = 0; i < TALLY_HALF; i++)
        tally_count(tally, &request);
    struct workload *workload = tally_workload(tally);
    struct policy_context *context = policy_context_new(kind, 1, workload);
    ledger_set_policy_context(ledger_of(fixture), context);
    policy_context_unref(context);
    workload_unref(workload);
}

/* amounts: "\"cpu\":\"8\"" */
static void show_host(struct app_fixture *fixture, const char *node, const char *amounts)
{
    char path[64];
    char body[256];

    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s/status", node);
    (void)snprintf(body, sizeof body, "{\"status\":{\"allocatable\":{%s}}}", amounts);
    fixture_api(fixture, "PATCH", path, body);
}

/* A pod that asks for no GPU, as most do. */
static void plain_pod(struct app_fixture *fixture, const char *name, const char *cpu,
                      const char *memory, const char *node)
{
    char limits[128];

    (void)snprintf(limits, sizeof limits, "\"cpu\":\"%s\",\"memory\":\"%s\"", cpu, memory);
    fixture_pod_of(fixture, name, limits, NULL, node);
}

static uint64_t generation(struct app_fixture *fixture)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    return snapshot->generation;
}

static void assert_left_now(struct app_fixture *fixture, const char *name, uint32_t cpu_milli,
                            uint32_t memory_mib)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, text_of(name));

    assert_non_null(node);
    assert_int_equal(node->host_known ? node->host.cpu_milli : HOST_UNKNOWN, cpu_milli);
    assert_int_equal(node->host_known ? node->host.memory_mib : HOST_UNKNOWN, memory_mib);
}

/* Once all that was shown has been read. */
static void assert_left(struct app_fixture *fixture, const char *name, uint32_t cpu_milli,
                        uint32_t memory_mib)
{
    fixture_run(fixture);
    assert_left_now(fixture, name, cpu_milli, memory_mib);
}

/* n1 and n2 with a GPU, eight cores and 16 GiB each. */
static int set_up(void **state)
{
    struct app_fixture *fixture = fixture_new(fixture_two_nodes);

    *state = fixture;
    show_host(fixture, "n1", "\"cpu\":\"8\",\"memory\":\"16Gi\"");
    show_host(fixture, "n2", "\"cpu\":\"8\",\"memory\":\"16Gi\"");
    set_policy(fixture, POLICY_FGD);
    fixture_run(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, fixture_tear_down)

FIXTURE_TEST(host__is_lowered_by_a_pod_that_another_scheduler_bound)
{
    assert_left(fixture, "n1", 8000, 16 * GIB);
    plain_pod(fixture, "a", "1500m", "1Gi", "n1");
    plain_pod(fixture, "b", "1", "3Gi", "n1");
    plain_pod(fixture, "c", "4", "4Gi", NULL); /* on no node yet */
    assert_left(fixture, "n1", 5500, 12 * GIB);
    assert_left(fixture, "n2", 8000, 16 * GIB);
}

FIXTURE_TEST(host__is_given_back_by_an_ended_or_deleted_pod)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    plain_pod(fixture, "b", "2", "2Gi", "n1");
    plain_pod(fixture, "c", "3", "3Gi", "n1");
    assert_left(fixture, "n1", 2000, 10 * GIB);
    fixture_end_pod(fixture, "a");
    assert_left(fixture, "n1", 3000, 11 * GIB);
    fixture_delete_pod(fixture, "a"); /* freed once */
    fixture_delete_pod(fixture, "b");
    fixture_terminate_pod(fixture, "c"); /* it still runs */
    assert_left(fixture, "n1", 5000, 13 * GIB);
}

FIXTURE_TEST(host__is_given_back_when_a_list_lacks_the_pod)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    plain_pod(fixture, "b", "2", "2Gi", "n1");
    fixture_run(fixture);
    fixture_delete_pod(fixture, "a");
    fake_apiserver_compact(fixture->app.fake);
    fixture_pass(fixture, 3000);
    assert_left(fixture, "n1", 6000, 14 * GIB);
}

FIXTURE_TEST(host__is_lowered_by_a_granted_pod_once_the_watch_shows_it)
{
    fixture_pod_of(fixture, "a", "\"nvidia.com/vgpu\":\"300\",\"cpu\":\"2\",\"memory\":\"1Gi\"",
                   NULL, NULL);
    assert_left(fixture, "n1", 8000, 16 * GIB);
    assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
    assert_left(fixture, "n1", 6000, 15 * GIB);
    fixture_end_pod(fixture, "a");
    assert_left(fixture, "n1", 8000, 16 * GIB);
}

FIXTURE_TEST(host__is_unknown_without_a_readable_allocatable)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    show_host(fixture, "n1", "\"cpu\":\"lots\"");
    show_host(fixture, "n2", "\"memory\":null");
    assert_left(fixture, "n1", HOST_UNKNOWN, 15 * GIB);
    assert_left(fixture, "n2", 8000, HOST_UNKNOWN);
    fixture_show_pod(fixture, "p", "300");
    assert_string_equal(fixture_bind(fixture, "p", "n1"), ""); /* it closes nothing */
    show_host(fixture, "n1", "\"cpu\":\"16\"");
    assert_left(fixture, "n1", 15000, 15 * GIB);
}

FIXTURE_TEST(host__is_kept_over_a_node_event)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    fixture_run(fixture);
    fixture_node(fixture, "n1", "2000"); /* a second GPU */
    assert_left(fixture, "n1", 7000, 15 * GIB);
    fixture_annotate_node(fixture, "n1", "\"milligpu.io/cordon\":\"all\"");
    assert_left(fixture, "n1", 7000, 15 * GIB);
}

/* A score cache drops a node that is replaced. */
FIXTURE_TEST(host__replaces_no_node_when_no_amount_changed)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    fixture_run(fixture);
    const struct node *before = node_ref(ledger_node(ledger_of(fixture), TEXT("n1")));
    const uint64_t published = generation(fixture);
    fixture_annotate(fixture, "a", "\"x\":\"y\"");
    fixture_annotate_node(fixture, "n1", "\"x\":\"y\"");
    plain_pod(fixture, "b", "0", "0", "n1");
    plain_pod(fixture, "c", "1", "1Gi", "nowhere");
    fixture_run(fixture);
    assert_ptr_equal(ledger_node(ledger_of(fixture), TEXT("n1")), before);
    assert_int_equal(generation(fixture), published);
    node_unref(before);
}

FIXTURE_TEST(host__ignores_nodes_without_gpus)
{
    fixture_api(
        fixture, "POST", "/api/v1/nodes",
        "{\"metadata\":{\"name\":\"plain\"},\"status\":{\"allocatable\":{\"cpu\":\"64\"}}}");
    fixture_run(fixture);
    const uint64_t published = generation(fixture);
    const size_t sums = host_sums_count(fixture->parts.writer->host_sums);
    plain_pod(fixture, "a", "1", "1Gi", "plain");
    show_host(fixture, "plain", "\"cpu\":\"32\"");
    fixture_run(fixture);
    assert_int_equal(generation(fixture), published);
    fixture_delete_pod(fixture, "a");
    fixture_run(fixture);
    assert_int_equal(host_sums_count(fixture->parts.writer->host_sums), sums);
}

FIXTURE_TEST(host__is_published_once_for_many_pods)
{
    const uint64_t published = generation(fixture);

    for (int i = 0; i < 20; i++)
        plain_pod(fixture, fixture_name("p", i), "100m", "1Mi", i % 2 == 0 ? "n1" : "n2");
    assert_left(fixture, "n1", 7000, 16 * GIB - 10);
    assert_left(fixture, "n2", 7000, 16 * GIB - 10);
    assert_int_equal(generation(fixture), published + 1);
}

/* At a start, for example: the memory of all former nodes at once would stay in the heap. */
FIXTURE_TEST(host__is_published_in_parts_for_many_nodes)
{
    set_policy(fixture, POLICY_BINPACK);
    for (int i = 0; i < 300; i++) {
        fixture_node(fixture, fixture_name("m", i), "1000");
        show_host(fixture, fixture_name("m", i), "\"cpu\":\"4\",\"nvidia.com/vgpu\":\"1000\"");
    }
    fixture_run(fixture);
    const uint64_t published = generation(fixture);
    set_policy(fixture, POLICY_FGD);
    fixture_run(fixture);
    assert_left_now(fixture, "m0", 4000, HOST_UNKNOWN);
    assert_left_now(fixture, "m299", 4000, HOST_UNKNOWN);
    assert_int_equal(generation(fixture), published + 2);
}

FIXTURE_TEST(host__is_not_counted_for_a_policy_that_ignores_hosts)
{
    set_policy(fixture, POLICY_BINPACK);
    fixture_run(fixture);
    const uint64_t published = generation(fixture);
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    show_host(fixture, "n2", "\"cpu\":\"4\"");
    fixture_run(fixture);
    assert_false(host_sums_started(fixture->parts.writer->host_sums));
    assert_left(fixture, "n1", 8000, 16 * GIB);
    assert_left(fixture, "n2", 8000, 16 * GIB);
    assert_int_equal(generation(fixture), published);
}

FIXTURE_TEST(host__is_recounted_when_a_policy_needs_hosts_again)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    plain_pod(fixture, "b", "2", "2Gi", "n2");
    fixture_run(fixture);
    set_policy(fixture, POLICY_SPREAD);
    fixture_run(fixture);
    fixture_delete_pod(fixture, "a"); /* n1 has no pod any more */
    plain_pod(fixture, "c", "3", "3Gi", "n2");
    assert_left(fixture, "n1", 7000, 15 * GIB);
    const uint64_t published = generation(fixture);
    set_policy(fixture, POLICY_ROLLOUT);
    assert_left(fixture, "n1", 8000, 16 * GIB);
    assert_left(fixture, "n2", 3000, 11 * GIB);
    assert_int_equal(generation(fixture), published + 1);
}

FIXTURE_TEST(host__is_known_before_a_restarted_process_is_ready)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    fixture_run(fixture);
    fixture_restart(fixture);
    set_policy(fixture, POLICY_FGD);
    assert_false(app_ready(&fixture->app, NULL));
    assert_left_now(fixture, "n1", HOST_UNKNOWN, HOST_UNKNOWN);
    (void)writer_step(fixture->parts.writer, 0); /* no list has come yet */
    assert_false(host_sums_started(fixture->parts.writer->host_sums));
    fixture->list_takes_ms = 2000;
    fixture_run(fixture);
    assert_true(atomic_load(&fixture->app.watch.nodes_synced)); /* but nothing is known of pods */
    assert_false(host_sums_started(fixture->parts.writer->host_sums));
    assert_true(fixture_pass_until_ready(fixture, 5000));
    assert_left(fixture, "n1", 7000, 15 * GIB);
    assert_left(fixture, "n2", 8000, 16 * GIB);
}

FIXTURE_TEST(host__is_read_anew_from_a_recreated_node)
{
    plain_pod(fixture, "a", "1", "1Gi", "n1");
    fixture_run(fixture);
    fixture_delete_node(fixture, "n1");
    fixture_delete_node(fixture, "n2");
    fixture_run(fixture);
    assert_int_equal(host_sums_count(fixture->parts.writer->host_sums), 1); /* a is still there */
    fixture_node(fixture, "n1", "1000");
    assert_left(fixture, "n1", HOST_UNKNOWN, HOST_UNKNOWN);
    show_host(fixture, "n1", "\"cpu\":\"4\",\"memory\":\"8Gi\"");
    assert_left(fixture, "n1", 3000, 7 * GIB);
}

FIXTURE_TEST(host__is_not_counted_on_a_node_that_lost_its_gpus)
{
    const struct host_sums *sums = fixture->parts.writer->host_sums;

    assert_int_equal(host_sums_count(sums), 2);
    fixture_node(fixture, "n1", "0");
    fixture_run(fixture);
    assert_int_equal(host_sums_count(sums), 1);
    fixture_node(fixture, "n1", "1000");
    fixture_run(fixture);
    assert_int_equal(host_sums_count(sums), 2);
    assert_left(fixture, "n1", 8000, 16 * GIB);
}

FIXTURE_TEST(host__is_set_once_the_node_of_a_lost_batch_is_written)
{
    fixture->disk_full = true;
    fixture_node(fixture, "n3", "1000");
    show_host(fixture, "n3", "\"cpu\":\"4\",\"memory\":\"8Gi\"");
    plain_pod(fixture, "a", "1", "1Gi", "n3");
    plain_pod(fixture, "b", "1", "1Gi", "n1");
    fixture_run(fixture);
    fixture->disk_full = false;
    fixture_pass(fixture, 3000);
    assert_true(app_ready(&fixture->app, NULL));
    assert_left(fixture, "n3", 3000, 7 * GIB);
    assert_left(fixture, "n1", 7000, 15 * GIB);
}

/*
 * No pod of the workload can reach the GPU of n2 any more, so what lies there takes no room that
 * such a pod could use.
 */
FIXTURE_TEST(rank__prefers_the_node_whose_cpu_has_run_out)
{
    fixture->settings.shortlist = 1;
    for (int other = 1; other <= 2; other++) {
        const char *full = other == 1 ? "n1" : "n2";
        const char *name = other == 1 ? "p1" : "p2";
        plain_pod(fixture, "a", "7", "1Gi", full);
        fixture_show_pod(fixture, name, "500");
        const char *answer = fixture_filter(fixture, name, "n1 n2");
        assert_says(answer, full);
        assert_null(strstr(answer, other == 1 ? "n2" : "n1"));
        fixture_delete_pod(fixture, name);
        fixture_delete_pod(fixture, "a");
        fixture_run(fixture);
    }
}

/* The node gets two GPUs: one without shares, and then one with 400 milli left. */
static void make_a_hole(struct app_fixture *fixture, const char *node)
{
    fixture_node(fixture, node, "2000");
    fixture_pod(fixture, "whole", "1000");
    fixture_show_pod(fixture, node, "600");
    assert_string_equal(fixture_bind(fixture, "whole", node), "");
    assert_string_equal(fixture_bind(fixture, node, node), "");
    fixture_delete_pod(fixture, "whole");
    fixture_run(fixture);
}

static uint32_t used_of(struct app_fixture *fixture, const char *node, uint32_t gpu)
{
    return ledger_node(ledger_of(fixture), text_of(node))->gpu[gpu].used_milli;
}

/*
 * The pod with one core fills the hole, since the workload cannot. The one with seven leaves no CPU
 * for the workload, so to it all places are alike. Their requests differ in nothing else, and both
 * wait when they are bound.
 */
FIXTURE_TEST(rank__uses_the_cpu_of_the_pod_itself)
{
    make_a_hole(fixture, "n1");
    make_a_hole(fixture, "n2");
    fixture_pod_of(fixture, "one", "\"nvidia.com/vgpu\":\"300\",\"cpu\":\"1\"", NULL, NULL);
    fixture_pod_of(fixture, "seven", "\"nvidia.com/vgpu\":\"300\",\"cpu\":\"7\"", NULL, NULL);
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "seven", "n1"), "");
    assert_string_equal(fixture_bind(fixture, "one", "n2"), "");
    assert_int_equal(used_of(fixture, "n1", 0), 300);
    assert_int_equal(used_of(fixture, "n1", 1), 600);
    assert_int_equal(used_of(fixture, "n2", 0), 0);
    assert_int_equal(used_of(fixture, "n2", 1), 900);
}
