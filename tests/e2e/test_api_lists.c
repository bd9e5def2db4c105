#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/node/account.h"
#include "milligpu/document/document.h"

#include "admin/api_internal.h"
#include "support/test.h"
#include "support_api_fixture.h"

/* n1: 300 used, and a whole GPU beside it; n2: sick, 600 used; n3: cordoned, 200 used. */
static void fill(struct api_fixture *fixture)
{
    api_fixture_pod(fixture, "web-0", "300", "");
    api_fixture_bind(fixture, "web-0", "n1");
    api_fixture_pod(fixture, "web-1", "600", "");
    api_fixture_bind(fixture, "web-1", "n2");
    api_fixture_pod(fixture, "stray", "200", "n3");
    api_fixture_whole_pod(fixture, "train", "1", "n1");
    api_fixture_tell(fixture, "PATCH", "/api/v1/nodes/n2",
                     "{\"metadata\":{\"annotations\":{\"milligpu.io/gpus\":\"[{\\\"uuid\\\":"
                     "\\\"GPU-5f\\\",\\\"index\\\":0,\\\"milli\\\":1000,\\\"mib\\\":81920,"
                     "\\\"model\\\":\\\"A100\\\",\\\"health\\\":\\\"unhealthy\\\"}]\"}}}");
    api_fixture_tell(fixture, "PATCH", "/api/v1/nodes/n3",
                     "{\"metadata\":{\"annotations\":{\"milligpu.io/cordon\":\"all\"}}}");
    api_fixture_run(fixture);
}

/* --- summary --- */

static int64_t sum_of_closed(const struct document *amounts)
{
    int64_t sum = 0;
    uint32_t parts = 0;

    document_each (part, document_get(amounts, "closed")) {
        sum += strtoll(part->text.at, NULL, 10);
        parts++;
    }
    assert_int_equal(parts, ACCOUNT_PARTS - ACCOUNT_CLOSED_FIRST);
    return sum;
}

static void adds_up(const struct document *amounts)
{
    assert_int_equal(number_of(amounts, "totalMilli"),
                     number_of(amounts, "usedMilli") + number_of(amounts, "reservedMilli") +
                         number_of(amounts, "freeMilli") + number_of(amounts, "heldMilli") +
                         number_of(amounts, "closedMilli"));
}

API_TEST(summary__names_what_is_not_free)
{
    int64_t total = 0;

    fill(fixture);
    const struct document *summary = api_fixture_get(fixture, "/api/v1/summary");
    adds_up(summary);
    document_shows(summary, "totalMilli=3500; usedMilli=1100; freeMilli=0; heldMilli=1000; "
                            "heldGpus=1; unplacedMilli=0; closed.mixed=700; closed.unhealthy=400; "
                            "closed.cordoned=300");
    assert_int_equal(sum_of_closed(summary), number_of(summary, "closedMilli"));
    document_each (model, document_get(summary, "models")) {
        adds_up(model);
        assert_int_equal(sum_of_closed(model), number_of(model, "closedMilli"));
        total += number_of(model, "totalMilli");
    }
    assert_int_equal(total, number_of(summary, "totalMilli"));
}

API_TEST(summary__counts_nodes_by_state)
{
    static const char *const some[] = {"cordoned", "mixed", "ok"};
    int64_t nodes = 0;

    fill(fixture);
    const struct document *summary = api_fixture_get(fixture, "/api/v1/summary");
    document_each (entry, document_get(summary, "nodeStates")) {
        bool listed = false;
        for (size_t i = 0; i < ARRAY_LEN(some); i++)
            listed = listed || strcmp(document_shown(entry, "state"), some[i]) == 0;
        assert_int_equal(number_of(entry, "nodes"), listed);
        nodes += number_of(entry, "nodes");
    }
    assert_int_equal(nodes, number_of(summary, "nodes"));
}

API_TEST(metrics__name_what_is_not_free)
{
    static const char *const lines[] = {
        "milligpu_total_milli{model=\"A100\"} 3000\n",
        "milligpu_closed_milli{reason=\"held\",model=\"A100\"} 1000\n",
        "milligpu_closed_milli{reason=\"mixed\",model=\"A100\"} 700\n",
        "milligpu_closed_milli{reason=\"unhealthy\",model=\"A100\"} 400\n",
        "milligpu_closed_milli{reason=\"cordoned\",model=\"A100\"} 0\n",
        "milligpu_closed_milli{reason=\"cordoned\",model=\"T4\"} 300\n",
    };
    struct answer answer;

    fill(fixture);
    api_fixture_ask(fixture->probe, "GET", "/metrics", NULL, &answer);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (strstr(answer.body.data, lines[i]) == NULL)
            fail_msg("no %s in\n%s", lines[i], answer.body.data);
    answer_done(&answer);
}

/* --- filters --- */

/* The names of the items, separated by blanks, as this page has them. */
static const char *names_of(struct api_fixture *fixture, const char *target)
{
    CLEANUP(strbuf_done) struct strbuf names;

    strbuf_init(&names);
    document_each (item, document_get(api_fixture_get(fixture, target), "items"))
        strbuf_printf(&names, "%s%s", names.len > 0 ? " " : "", document_shown(item, "name"));
    return arena_copy(&fixture->arena, (struct text){names.data, names.len});
}

/* Rows of a target and its names_of(). */
static void finds_names(struct api_fixture *fixture, const char *const (*row)[2], size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        if (strcmp(names_of(fixture, row[i][0]), row[i][1]) != 0)
            fail_msg("%s: %s", row[i][0], names_of(fixture, row[i][0]));
}

static void refuses(struct api_fixture *fixture, const char *target, const char *part)
{
    struct answer answer;

    api_fixture_ask(fixture->admin, "GET", target, NULL, &answer);
    if (answer.status != 400 || strstr(answer.body.data, part) == NULL)
        fail_msg("%s: %d %s", target, answer.status, answer.body.data);
    answer_done(&answer);
}

#define NODES "/api/v1/nodes?"

API_TEST(nodes__are_filtered_by_model_state_and_namespace)
{
    static const char *const found[][2] = {
        {NODES, "n1 n2 n3"},
        {NODES "model=a100", "n1 n2"},
        {NODES "model=NVIDIA-T4", "n3"},
        {NODES "model=T4,A1*", "n1 n2 n3"},
        {NODES "model=H100*", ""},
        {NODES "state=ok", "n2"},
        {NODES "state=open", ""},
        {NODES "state=closed", "n1 n2 n3"},
        {NODES "state=mixed", "n1"},
        {NODES "state=unhealthy", "n2"},
        {NODES "state=cordoned", "n3"},
        {NODES "state=gone", ""},
        {NODES "namespace=default", "n1 n2 n3"},
        {NODES "namespace=kube-system", ""},
        {NODES "model=A100&state=unhealthy&namespace=default", "n2"},
        {NODES "model=T4&state=unhealthy", ""},
    };

    assert_string_equal(names_of(fixture, NODES "state=open"), "n1 n2 n3");
    fill(fixture);
    finds_names(fixture, found, ARRAY_LEN(found));
}

API_TEST(allocations__are_filtered_by_model)
{
    fill(fixture);
    assert_string_equal(names_of(fixture, "/api/v1/allocations?model=A100"), "web-0 web-1");
    assert_string_equal(names_of(fixture, "/api/v1/allocations?model=t*"), "stray");
    assert_string_equal(names_of(fixture, "/api/v1/allocations?model=A100&node=n2"), "web-1");
    assert_string_equal(names_of(fixture, "/api/v1/allocations"), "stray train web-0 web-1");
    refuses(fixture, "/api/v1/allocations?model=A100&state=released", "keep models");
}

static void waiting_pod(struct api_fixture *fixture, const char *name, const char *amount,
                        const char *model)
{
    char body[512];

    api_fixture_pod(fixture, name, amount, "");
    if (model != NULL) {
        char path[128];
        (void)snprintf(path, sizeof path, "/api/v1/namespaces/default/pods/%s", name);
        (void)snprintf(body, sizeof body,
                       "{\"metadata\":{\"annotations\":{\"milligpu.io/gpu-model\":\"%s\"}}}",
                       model);
        api_fixture_tell(fixture, "PATCH", path, body);
        api_fixture_run(fixture);
    }
    api_fixture_filter(fixture, name);
}

static void three_wait(struct api_fixture *fixture)
{
    waiting_pod(fixture, "any", "3000", NULL);
    waiting_pod(fixture, "big-t4", "600", "T4");
    waiting_pod(fixture, "none", "100", "H100*");
}

#define WAITING "/api/v1/waiting?"

API_TEST(waiting_pods__are_filtered_by_reason_and_request)
{
    static const char *const found[][2] = {
        {WAITING, "any big-t4 none"},
        {WAITING "model=A100", "any"},
        {WAITING "model=T4", "any big-t4"},
        {WAITING "model=H100", "none"},
        {WAITING "model=h1*", "none"},
        {WAITING "model=V100", ""},
        {WAITING "state=refused", "any big-t4 none"},
        {WAITING "state=offered", ""},
        {WAITING "namespace=default&model=T4", "any big-t4"},
        {WAITING "namespace=other", ""},
    };

    three_wait(fixture);
    finds_names(fixture, found, ARRAY_LEN(found));
}

/* Every item that matches is on one of the pages, and no page but the last is short. */
API_TEST(filter__applies_to_every_page)
{
    fill(fixture);
    const struct document *page = api_fixture_get(fixture, NODES "model=A100&limit=1");
    assert_int_equal(document_get(page, "items")->count, 1);
    const char *next = arena_printf(&fixture->arena, NODES "model=A100&limit=1&continue=%s",
                                    document_shown(page, "continue"));
    assert_string_equal(names_of(fixture, next), "n2");
    assert_null(document_get(api_fixture_get(fixture, next), "continue"));
    three_wait(fixture);
    page = api_fixture_get(fixture, WAITING "model=T4,H100&limit=2");
    assert_int_equal(document_get(page, "items")->count, 2);
    next = arena_printf(&fixture->arena, WAITING "model=T4,H100&limit=2&continue=%s",
                        document_shown(page, "continue"));
    assert_string_equal(names_of(fixture, next), "none");
}

API_TEST(filter__is_refused_by_name_when_invalid)
{
    refuses(fixture, NODES "state=opened", "state is opened: it is open, closed, ok, cordoned");
    refuses(fixture, NODES "state=", "state is empty: it is open, closed");
    refuses(fixture, "/api/v1/allocations?state=open", "it is reserved, bound or released");
    refuses(fixture, WAITING "state=bound", "it is refused, offered or unasked");
    refuses(fixture, NODES "model=", "model is empty: it is a list of names or globs");
    refuses(fixture, WAITING "model=A100,,T4", "model is A100,,T4: it is a list of names or globs");
    refuses(fixture, "/api/v1/allocations?model=A%0A", "it is a list of names or globs");
    refuses(fixture, NODES "model=nvidia-", "has an empty entry");
}

/* The words are listed by hand in routes.def. */
TEST(openapi__names_every_state_of_a_node)
{
    CLEANUP(strbuf_done) struct strbuf schema;
    const char *word;

    strbuf_init(&schema);
    strbuf_str(&schema, "{\"type\":\"string\",\"enum\":[");
    for (size_t i = 0; (word = admin_node_filter(i)) != NULL; i++)
        strbuf_printf(&schema, "%s\"%s\"", i > 0 ? "," : "", word);
    strbuf_str(&schema, "]}");
    for (size_t i = 0; api_route(i) != NULL; i++)
        if (strcmp(api_route(i)->name, "api_nodes") == 0)
            assert_string_equal(api_parameter_schema(api_route(i), PARAMETER_state), schema.data);
}

/* --- why a pod waits --- */

API_TEST(waiting_pod__has_each_reason_once)
{
    int64_t nodes = 0;

    fill(fixture);
    waiting_pod(fixture, "big-t4", "600", "T4");
    waiting_pod(fixture, "any", "900", NULL);
    const struct document *pod = api_fixture_get(fixture, "/api/v1/pods/default/any");
    assert_null(document_get(pod, "never"));
    document_each (reason, document_get(pod, "reasons")) {
        nodes += number_of(reason, "nodes");
        if (strcmp(document_shown(reason, "reason"), "unhealthy") == 0) {
            assert_string_equal(document_shown(reason, "text"), "the GPU is reported unhealthy");
            assert_non_null(
                strstr(document_shown(reason, "detail"), "0 milli free on 0 of 1 GPUs"));
        }
    }
    assert_int_equal(nodes, document_get(pod, "nodes")->count);
    assert_int_equal(document_get(pod, "reasons")->count, 3); /* small, unhealthy, mixed */
    pod = api_fixture_get(fixture, "/api/v1/pods/default/big-t4");
    assert_string_equal(
        document_shown(pod, "never"),
        "no node of this cluster, as it is, can ever serve it: no GPU of 600 milli; "
        "the largest has 500 milli");
}

/* --- usage --- */

static void totals_are_those_of_the_summary(struct api_fixture *fixture)
{
    const struct document *total = document_get(api_fixture_get(fixture, "/api/v1/usage"), "total");
    const struct document *summary = api_fixture_get(fixture, "/api/v1/summary");

    assert_int_equal(number_of(total, "boundMilli"), number_of(summary, "usedMilli"));
    assert_int_equal(number_of(total, "reservedMilli"), number_of(summary, "reservedMilli"));
    assert_int_equal(number_of(total, "heldGpus"), number_of(summary, "heldGpus"));
    assert_int_equal(number_of(total, "unplacedMilli"), number_of(summary, "unplacedMilli"));
}

API_TEST(usage__adds_up_to_the_summary)
{
    totals_are_those_of_the_summary(fixture); /* nothing */
    fill(fixture);
    api_fixture_pod(fixture, "too-large", "900", "n3"); /* bound by others, and no GPU has it */
    totals_are_those_of_the_summary(fixture);
    api_fixture_shows(fixture, "/api/v1/usage",
                      "items=2; items.0.namespace=default; items.0.model=A100; items.0.pods=3; "
                      "items.0.gpus=2; items.0.boundMilli=900; items.0.reservedMilli=0; "
                      "items.0.heldGpus=1; items.0.mib=73728; total.pods=5; total.gpus=3");
}

/* Two pods of one namespace on one GPU, and a third of another: one GPU each, and one in total. */
API_TEST(usage__counts_a_shared_gpu_once)
{
    api_fixture_pod(fixture, "a", "100", "n2");
    api_fixture_pod(fixture, "b", "100", "n2");
    api_fixture_tell(fixture, "POST", "/api/v1/namespaces/other/pods",
                     "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"c\","
                     "\"namespace\":\"other\"},\"spec\":{\"nodeName\":\"n2\",\"containers\":[{"
                     "\"name\":\"c\",\"image\":\"none\",\"resources\":{\"limits\":{"
                     "\"nvidia.com/vgpu\":\"300\"},\"requests\":{\"nvidia.com/vgpu\":\"300\"}}}]},"
                     "\"status\":{\"phase\":\"Running\"}}");
    api_fixture_run(fixture);
    const struct document *usage = api_fixture_shows(
        fixture, "/api/v1/usage?limit=1",
        "items.0.namespace=default; items.0.model=A100; items.0.pods=2; items.0.gpus=1; "
        "items.0.boundMilli=200; items.0.reservedMilli=0; items.0.heldGpus=0; "
        "total.gpus=1; total.boundMilli=500"); /* of all pages */
    api_fixture_shows(fixture,
                      arena_printf(&fixture->arena, "/api/v1/usage?limit=1&continue=%s",
                                   document_shown(usage, "continue")),
                      "items.0.namespace=other; items.0.model=A100; items.0.pods=1; "
                      "items.0.gpus=1; items.0.boundMilli=300; items.0.reservedMilli=0; "
                      "items.0.heldGpus=0; continue=-");
    api_fixture_shows(fixture, "/api/v1/usage?namespace=other&model=a100",
                      "items=1; total.boundMilli=300");
    api_fixture_shows(fixture, "/api/v1/usage?model=T4", "items=0");
}

/* --- plans of moves --- */

/* The GPUs of n1 have 500 and 400 free, that of n2 has 500; a stranger is on n3. */
static void scatter(struct api_fixture *fixture)
{
    api_fixture_pod(fixture, "a", "500", "");
    api_fixture_bind(fixture, "a", "n1");
    api_fixture_pod(fixture, "b", "600", "");
    api_fixture_bind(fixture, "b", "n1");
    api_fixture_pod(fixture, "c", "500", "");
    api_fixture_bind(fixture, "c", "n2");
    api_fixture_pod(fixture, "stray", "100", "n3");
    api_fixture_run(fixture);
}

API_TEST(defrag__moves_pods_to_where_bind_places_them)
{
    scatter(fixture);
    const struct document *plan = api_fixture_get(fixture, "/api/v1/defrag?limit=1&minGain=1");
    const struct document *move = document_get(plan, "moves")->first;
    const struct document *summary = api_fixture_get(fixture, "/api/v1/summary");
    assert_int_equal(number_of(plan, "generation"), number_of(summary, "generation"));
    assert_int_equal(number_of(plan, "fragmentMilli"), number_of(summary, "fragmentMilli"));
    assert_int_equal(number_of(plan, "freeMilli"), number_of(summary, "freeMilli"));
    document_shows(plan, "pods=3; moves=1; moves.0.name=a; moves.0.from.node=n1; "
                         "moves.0.to.node=n2; moves.0.to.charges.0.gpu=GPU-5f; "
                         "moves.0.to.charges.0.milli=500");
    assert_int_equal(number_of(plan, "fragmentMilli") - number_of(move, "gainMilli"),
                     number_of(plan, "fragmentMilliAfter"));
    assert_true(document_get(plan, "shapes")->count > 0);
    api_fixture_end(fixture, "a");
    api_fixture_pod(fixture, "again", "500", "");
    api_fixture_bind(fixture, "again", "n2");
    api_fixture_shows(fixture, "/api/v1/pods/default/again", "allocation.charges.0.gpu=GPU-5f");
}

API_TEST(defrag__requires_a_gain_of_100_milli_by_default)
{
    const struct document *plan;

    scatter(fixture);
    plan = api_fixture_shows(fixture, "/api/v1/defrag?minGain=1000000", "moves=0");
    assert_int_equal(number_of(plan, "fragmentMilli"), number_of(plan, "fragmentMilliAfter"));
    plan = api_fixture_get(fixture, "/api/v1/defrag");
    document_each (move, document_get(plan, "moves"))
        assert_true(number_of(move, "gainMilli") >= 100);
}

API_TEST(defrag__moves_no_terminating_pod)
{
    scatter(fixture);
    api_fixture_tell(fixture, "DELETE", "/api/v1/namespaces/default/pods/c", "");
    api_fixture_run(fixture);
    const struct document *plan = api_fixture_get(fixture, "/api/v1/defrag?minGain=1");
    assert_int_equal(number_of(plan, "pods"), 2);
    document_each (move, document_get(plan, "moves"))
        assert_string_not_equal(document_shown(move, "name"), "c");
}

API_TEST(defrag__makes_one_plan_at_a_time)
{
    struct answer answer;

    atomic_store(&fixture->app.planning, true);
    api_fixture_ask(fixture->admin, "GET", "/api/v1/defrag", NULL, &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.body.data, "another plan of moves is being made: try again"));
    answer_done(&answer);
    atomic_store(&fixture->app.planning, false);
    for (int i = 0; i < 2; i++)
        assert_non_null(document_get(api_fixture_get(fixture, "/api/v1/defrag"), "moves"));
}
