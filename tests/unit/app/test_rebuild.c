/* A ledger that is lost while pods run, and what the new one makes of them. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "support_fixture.h"

#define MILLI(amount) "\"nvidia.com/vgpu\":\"" amount "\""

static const char *const two_gpus[] = {"n1", "2000", NULL};

static int set_up(void **state)
{
    *state = fixture_new(two_gpus);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, fixture_tear_down)

/* "300 300": the sum of the pods on each GPU of n1. */
static const char *taken(struct app_fixture *fixture)
{
    static char text[128];
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n1"));
    size_t at = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < node->n_gpus; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i > 0 ? " " : "",
                               node->gpu[i].used_milli + node->gpu[i].reserved_milli);
    return text;
}

static void lose_ledger(struct app_fixture *fixture)
{
    fixture_lose_ledger(fixture);
    fixture_run(fixture);
    assert_true(app_ready(&fixture->app, NULL));
}

FIXTURE_TEST(new_ledger__trusts_allocations_whatever_the_request_says_now)
{
    static const char *const edit[] = {
        "\"milligpu.io/gpu-count\":null",     "\"milligpu.io/gpu-count\":\"1\"",
        "\"milligpu.io/gpu-count\":\"7\"",    "\"milligpu.io/gpu-count\":\"many\"",
        "\"gpu-count.milligpu.io/c\":\"3\"",  "\"milligpu.io/gpu-model\":\",,\"",
        "\"milligpu.io/gpu-model\":\"H100\"", "\"milligpu.io/gpu-memory\":\"plenty\"",
    };

    for (size_t i = 0; i < sizeof edit / sizeof edit[0]; i++) {
        fixture_pod_of(fixture, "a", MILLI("600"), "\"milligpu.io/gpu-count\":\"2\"", NULL);
        fixture_run(fixture);
        assert_string_equal(fixture_bind(fixture, "a", "n1"), "");
        assert_string_equal(taken(fixture), "300 300");
        fixture_annotate(fixture, "a", edit[i]);
        lose_ledger(fixture);
        assert_string_equal(taken(fixture), "300 300");
        assert_int_equal(fixture_drifts(fixture, "n1", NULL), 0);
        fixture_delete_pod(fixture, "a");
        fixture_run(fixture);
    }
}

FIXTURE_TEST(new_ledger__applies_a_changed_policy_to_new_grants_only)
{
    fixture_pod(fixture, "b", "310");
    fixture_pod(fixture, "c", "500");
    fixture_grant(fixture, "a", "310", "n1");
    fixture->settings.min_milli = 500;
    fixture->settings.step_milli = 100;
    lose_ledger(fixture);
    assert_string_equal(taken(fixture), "310 0");
    assert_int_equal(fixture_drifts(fixture, "n1", NULL), 0);
    assert_says(fixture_bind(fixture, "b", "n1"), "below the minimum of 500");
    assert_string_equal(fixture_bind(fixture, "c", "n1"), "");
    assert_string_equal(taken(fixture), "810 0");
}

FIXTURE_TEST(new_ledger__finds_a_gpu_by_index_when_its_uuid_is_gone)
{
    static const char uuids[] =
        "\"milligpu.io/gpus\":\"[{\\\"uuid\\\":\\\"GPU-a\\\",\\\"index\\\":0,\\\"milli\\\":1000},"
        "{\\\"uuid\\\":\\\"GPU-b\\\",\\\"index\\\":1,\\\"milli\\\":1000}]\"";

    fixture_annotate_node(fixture, "n1", uuids);
    fixture_grant(fixture, "first", "1000", "n1");
    fixture_grant(fixture, "a", "400", "n1");
    fixture_delete_pod(fixture, "first");
    fixture_run(fixture);
    assert_string_equal(taken(fixture), "0 400");
    fixture_annotate_node(fixture, "n1", "\"milligpu.io/gpus\":null");
    lose_ledger(fixture);
    assert_string_equal(taken(fixture), "0 400");
    assert_int_equal(fixture_drifts(fixture, "n1", NULL), 0);
    fixture_pod(fixture, "c", "700");
    fixture_grant(fixture, "b", "1000", "n1");
    assert_string_equal(taken(fixture), "1000 400");
    assert_says(fixture_bind(fixture, "c", "n1"), "no GPU with 700 milli free");
    lose_ledger(fixture);
    assert_string_equal(taken(fixture), "1000 400");
    fixture_annotate_node(fixture, "n1", uuids);
    fixture_run(fixture);
    assert_string_equal(taken(fixture), "1000 400");
    assert_int_equal(fixture_drifts(fixture, "n1", NULL), 0);
}
