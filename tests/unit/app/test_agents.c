/* Nodes whose agents vouch for them, or do not: the whole application under an API server. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/admin/api.h"
#include "milligpu/document/document.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/spine/message.h"

#include "support/test.h"
#include "support_fixture.h"
#include "writer/writer_internal.h"

#define PODS  "/api/v1/namespaces/ns/pods"
#define NODES "/api/v1/nodes"

/* FOLDER/NAME and what follows; valid until the next call. */
static const char *path_of(const char *folder, const char *name, const char *suffix)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    return path;
}

static void uid_at(struct app_fixture *fixture, const char *path, char out_uid[64])
{
    CLEANUP(strbuf_done) struct strbuf out;

    strbuf_init(&out);
    fixture_get(fixture, path, &out);
    const char *at = strstr(out.data, "\"uid\":\"");
    assert_non_null(at);
    at += strlen("\"uid\":\"");
    (void)snprintf(out_uid, 64, "%.*s", (int)strcspn(at, "\""), at);
}

/* Sets the Ready condition of an agent pod. */
static void ready(struct app_fixture *fixture, const char *pod, const char *status)
{
    char body[256];

    (void)snprintf(body, sizeof body,
                   "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
                   "\"status\":\"%s\"}]}}",
                   status);
    fixture_api(fixture, "PATCH", path_of(PODS, pod, "/status"), body);
}

static void agent_pod(struct app_fixture *fixture, const char *pod, const char *node,
                      const char *status)
{
    char body[512];

    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"labels\":{"
                   "\"app.kubernetes.io/component\":\"node\"}},\"spec\":{\"nodeName\":\"%s\","
                   "\"containers\":[{\"name\":\"agent\",\"image\":\"none\"}]}}",
                   pod, node);
    fixture_api(fixture, "POST", PODS, body);
    ready(fixture, pod, status);
}

static void pod_ends(struct app_fixture *fixture, const char *pod, int grace_s)
{
    char path[128];

    (void)snprintf(path, sizeof path, PODS "/%s?gracePeriodSeconds=%d", pod, grace_s);
    fixture_api(fixture, "DELETE", path, "");
}

/* The annotation that the agent in this pod writes to the Node. */
static void claim(struct app_fixture *fixture, const char *pod, const char *node)
{
    char pod_uid[64];
    char node_uid[64];
    char body[512];

    uid_at(fixture, path_of(PODS, pod, ""), pod_uid);
    uid_at(fixture, path_of(NODES, node, ""), node_uid);
    (void)snprintf(body, sizeof body,
                   "\"milligpu.io/agent\":\"{\\\"v\\\":1,\\\"pod\\\":{\\\"uid\\\":\\\"%s\\\","
                   "\\\"node\\\":\\\"%s\\\",\\\"boot\\\":\\\"boot\\\"}}\"",
                   pod_uid, node_uid);
    fixture_annotate_node(fixture, node, body);
}

/* Writes the annotation of n: JSON, or "null" for none. */
static void annotate(struct app_fixture *fixture, const char *agent)
{
    char annotation[256];

    (void)snprintf(annotation, sizeof annotation, "\"milligpu.io/agent\":%s", agent);
    fixture_annotate_node(fixture, "n", annotation);
}

#define EMPTY       "\"{}\""
#define LEAVING     "\"{\\\"leaving\\\":\\\"told\\\"}\""
#define UNINSTALLED "\"{\\\"leaving\\\":\\\"uninstalled\\\"}\""
#define GPU_N       "\"[{\\\"uuid\\\":\\\"GPU-n\\\",\\\"index\\\":0,\\\"mib\\\":81920}]\""

static void boots(struct app_fixture *fixture, const char *name, const char *boot_id)
{
    char body[128];

    (void)snprintf(body, sizeof body, "{\"status\":{\"nodeInfo\":{\"bootID\":\"%s\"}}}", boot_id);
    fixture_api(fixture, "PATCH", path_of(NODES, name, "/status"), body);
}

/* One GPU with a UUID, and the label of agent_nodes. */
static void gpu_node(struct app_fixture *fixture, const char *name, const char *uuid)
{
    fixture_node_with(fixture, name, uuid);
    fixture_label_node(fixture, name, "\"nvidia.com/gpu.present\":\"true\"");
    boots(fixture, name, "boot");
}

/* A node with its agent in pod agent-NAME. */
static void agent_node(struct app_fixture *fixture, const char *name)
{
    char gpu[64];
    char pod[64];

    (void)snprintf(gpu, sizeof gpu, "GPU-%s", name);
    (void)snprintf(pod, sizeof pod, "agent-%s", name);
    gpu_node(fixture, name, gpu);
    agent_pod(fixture, pod, name, "True");
    claim(fixture, pod, name);
}

static enum vouch vouch_of(struct app_fixture *fixture, const char *name)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, text_of(name));
    const enum vouch vouch = node != NULL ? node->vouch : VOUCHES;

    return vouch;
}

/* Once all that was shown of it has been read. */
static void vouch_becomes(struct app_fixture *fixture, const char *node, enum vouch vouch)
{
    fixture_run(fixture);
    assert_int_equal(vouch_of(fixture, node), vouch);
}

static void to_informer(void *user, const struct kube_answer *answer)
{
    struct app_fixture *fixture = user;

    informer_answer(fixture->parts.informer, fixture->now_ms, answer);
}

/* Entries of the writer's table of agents. */
static size_t table(struct app_fixture *fixture)
{
    struct writer_tables tables;

    writer_tables(fixture->parts.writer, &tables);
    return tables.agents;
}

static const char *const no_nodes[] = {NULL};

/* Node n, whose agent is Ready in pod agent-n; pods a, b and c wait for 300 each. */
static int set_up(void **state)
{
    struct app_fixture *fixture = fixture_new(no_nodes);

    agent_node(fixture, "n");
    fixture_pod(fixture, "a", "300");
    fixture_pod(fixture, "b", "300");
    fixture_pod(fixture, "c", "300");
    vouch_becomes(fixture, "n", VOUCH_GOOD);
    *state = fixture;
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, fixture_tear_down)

static int set_up_empty(void **state)
{
    *state = fixture_new(no_nodes);
    return 0;
}

/* No node and no pod yet. */
#define EMPTY_TEST(name)                                                                           \
    TEST_WITH(name, struct app_fixture *fixture, set_up_empty, fixture_tear_down)

/* --- binds, filters and wake-ups --- */

FIXTURE_TEST(vouch__closes_a_node_without_a_ready_agent_and_keeps_its_pods)
{
    assert_string_equal(fixture_bind(fixture, "a", "n"), "");
    assert_true(fixture_fits(fixture, "b", "n"));
    ready(fixture, "agent-n", "False");
    vouch_becomes(fixture, "n", VOUCH_NOT_READY);
    assert_says(fixture_bind(fixture, "b", "n"), "agent");
    assert_string_equal(fixture_where(fixture, "b"), "");
    /* The same text for each reason and each node: the scheduler keeps one for all. */
    char text[4096];
    (void)snprintf(text, sizeof text, "%s", fixture_filter(fixture, "b", "n"));
    assert_null(strstr(text, "\"NodeNames\":[\"n\"]"));
    pod_ends(fixture, "agent-n", 0);
    vouch_becomes(fixture, "n", VOUCH_GONE);
    assert_string_equal(fixture_filter(fixture, "b", "n"), text);
    /* A pod with a share keeps it, and a pod that another scheduler bound is adopted. */
    assert_string_equal(fixture_where(fixture, "a"), "n");
    assert_int_equal(fixture_taken(fixture, "n"), 300);
    fixture_bound_pod(fixture, "x", "200", "n");
    assert_taken(fixture, "n", 500);
    fixture_delete_pod(fixture, "a");
    assert_taken(fixture, "n", 200);
}

/* It was offered before, and the event came in between. */
FIXTURE_TEST(bind__is_refused_behind_the_event_that_closed_the_node)
{
    assert_true(fixture_fits(fixture, "b", "n"));
    ready(fixture, "agent-n", "False");
    (void)informer_step(fixture->parts.informer, fixture->now_ms);
    fixture->watch.ops.poll(fixture->watch.ops.ctx, 0, fixture, to_informer);
    struct fixture_call *call = fixture_bind_begin(fixture, "b", "n");
    fixture_run(fixture); /* both are in one batch */
    assert_says(fixture_error(call), "agent");
    assert_int_equal(fixture->bindings, 0);
}

FIXTURE_TEST(vouch__opens_the_node_and_wakes_when_the_agent_is_ready_again)
{
    ready(fixture, "agent-n", "False");
    assert_false(fixture_fits(fixture, "b", "n"));
    fixture_pass(fixture, 5000);
    ready(fixture, "agent-n", "Unknown"); /* as the node controller says */
    assert_woken(fixture, 5000, 0);
    ready(fixture, "agent-n", "True");
    assert_woken(fixture, 2000, 1);
    assert_string_equal(fixture_bind(fixture, "b", "n"), "");
}

FIXTURE_TEST(vouch__coalesces_the_wake_ups_of_a_flapping_agent)
{
    enum { FLAPS = 200, WAKE_UP_MS = 250 };

    ready(fixture, "agent-n", "False");
    assert_false(fixture_fits(fixture, "b", "n"));
    fixture_pass(fixture, 5000);
    const uint32_t wake_ups = fixture->wake_ups;
    const uint32_t commits = fixture->commits;
    const int64_t from_ms = fixture->now_ms;
    for (int i = 0; i < FLAPS; i++) {
        ready(fixture, "agent-n", i % 2 == 0 ? "True" : "False");
        fixture->now_ms += 25;
        fixture_run(fixture);
    }
    const uint32_t most = (uint32_t)((fixture->now_ms - from_ms) / WAKE_UP_MS) + 1;
    assert_true(fixture->wake_ups > wake_ups);
    assert_true(fixture->wake_ups - wake_ups <= most);
    assert_true(fixture->commits - commits <= FLAPS);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_NOT_READY);
    assert_int_equal(fixture_allocations(fixture), 0);
}

/* --- the end of an agent --- */

FIXTURE_TEST(vouch__follows_the_agent_pod)
{
    pod_ends(fixture, "agent-n", 30);
    vouch_becomes(fixture, "n", VOUCH_NOT_READY); /* Ready, and being deleted */
    pod_ends(fixture, "agent-n", 0);
    vouch_becomes(fixture, "n", VOUCH_GONE);
    agent_pod(fixture, "agent-2", "n", "True");
    vouch_becomes(fixture, "n", VOUCH_GONE); /* the claim lags behind */
    claim(fixture, "agent-2", "n");
    vouch_becomes(fixture, "n", VOUCH_GOOD);
    agent_pod(fixture, "agent-3", "n", "True");
    vouch_becomes(fixture, "n", VOUCH_CLONED);
    fixture_api(fixture, "PATCH", PODS "/agent-3",
                "{\"metadata\":{\"labels\":{\"app.kubernetes.io/component\":null}}}");
    vouch_becomes(fixture, "n", VOUCH_GOOD); /* it is no agent any more */
    fixture_api(fixture, "PATCH", PODS "/agent-2/status", "{\"status\":{\"phase\":\"Failed\"}}");
    vouch_becomes(fixture, "n", VOUCH_GONE);
}

/* The watch leaves out ended pods; an ended pod that is shown counts as ended. */
FIXTURE_TEST(vouch__ends_with_the_agent_pod)
{
    struct message *message = message_new(MESSAGE_POD);
    CLEANUP(strbuf_done) struct strbuf out;
    struct err err;

    strbuf_init(&out);
    fixture_get(fixture, PODS "/agent-n", &out);
    assert_int_equal(pod_decode((struct text){out.data, out.len}, &fixture->app.rules.wire_rules,
                                &message->arena, &message->pod, &err),
                     0);
    message->pod = *pod_keep(&message->pod, &message->arena);
    assert_true(message->pod.is_agent && message->pod.is_ready);
    message->pod.phase = POD_SUCCEEDED;
    assert_true(queue_put(fixture->app.queue, message));
    vouch_becomes(fixture, "n", VOUCH_GONE);
}

FIXTURE_TEST(vouch__follows_the_node)
{
    boots(fixture, "n", "next");
    vouch_becomes(fixture, "n", VOUCH_OTHER_BOOT);
    boots(fixture, "n", "boot");
    vouch_becomes(fixture, "n", VOUCH_GOOD);
    annotate(fixture, UNINSTALLED);
    vouch_becomes(fixture, "n", VOUCH_NONE);
    claim(fixture, "agent-n", "n");
    vouch_becomes(fixture, "n", VOUCH_GOOD);
}

/* A claim that names no pod at all must not stop milligpud. */
FIXTURE_TEST(vouch__survives_an_empty_claim)
{
    annotate(fixture, "\"{\\\"pod\\\":{\\\"uid\\\":\\\"\\\"}}\"");
    vouch_becomes(fixture, "n", VOUCH_UNNAMED);
    assert_true(app_ready(&fixture->app, NULL));
}

FIXTURE_TEST(vouch__needs_a_new_agent_on_a_recreated_node)
{
    fixture_delete_node(fixture, "n");
    fixture_run(fixture);
    assert_int_equal(table(fixture), 1); /* the pod is still there */
    gpu_node(fixture, "n", "GPU-n");
    vouch_becomes(fixture, "n", VOUCH_NO_AGENT);
    assert_false(fixture_fits(fixture, "b", "n"));
    claim(fixture, "agent-n", "n");
    assert_true(fixture_fits(fixture, "b", "n"));
    fixture_delete_node(fixture, "n");
    pod_ends(fixture, "agent-n", 0);
    fixture_run(fixture);
    assert_int_equal(table(fixture), 0);
}

/* --- which nodes need one --- */

EMPTY_TEST(vouch__takes_an_annotated_node_for_the_first_agent)
{
    gpu_node(fixture, "n", "GPU-n");
    gpu_node(fixture, "m", "GPU-m");
    vouch_becomes(fixture, "m", VOUCH_NONE);
    annotate(fixture, EMPTY);
    vouch_becomes(fixture, "m", VOUCH_NO_AGENT);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_NONE); /* as before agents named their pod */
}

EMPTY_TEST(vouch__closes_other_nodes_at_the_first_agent)
{
    gpu_node(fixture, "n", "GPU-n");
    gpu_node(fixture, "m", "GPU-m");
    fixture_node(fixture, "unselected", "1000");
    fixture_show_pod(fixture, "a", "300");
    assert_true(fixture_fits(fixture, "a", "n") && fixture_fits(fixture, "a", "m"));
    agent_pod(fixture, "agent-m", "m", "False");
    vouch_becomes(fixture, "n", VOUCH_NO_AGENT);
    assert_int_equal(vouch_of(fixture, "m"), VOUCH_NO_AGENT);
    assert_false(fixture_fits(fixture, "a", "n") || fixture_fits(fixture, "a", "m"));
    assert_true(fixture_fits(fixture, "a", "unselected"));
    /* A node that an autoscaler adds waits for its agent. */
    gpu_node(fixture, "late", "GPU-late");
    assert_false(fixture_fits(fixture, "a", "late"));
    agent_pod(fixture, "agent-late", "late", "False");
    claim(fixture, "agent-late", "late");
    assert_false(fixture_fits(fixture, "a", "late"));
    ready(fixture, "agent-late", "True");
    assert_true(fixture_fits(fixture, "a", "late"));
}

/* The pods of a Node outlive it in the ledger, and so may the agent's. */
FIXTURE_TEST(vouch__ignores_a_deleted_node_when_all_need_an_agent)
{
    fixture->settings.require_agent = "always";
    fixture_restart(fixture);
    fixture_run_until_idle(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n"), "");
    fixture_delete_node(fixture, "n");
    fixture_run(fixture);
    ready(fixture, "agent-n", "False");
    vouch_becomes(fixture, "n", VOUCH_NONE);
    assert_int_equal(fixture_taken(fixture, "n"), 300);
    gpu_node(fixture, "n", "GPU-n");
    vouch_becomes(fixture, "n", VOUCH_NO_AGENT);
}

/* An unbound pod is the agent of no node. */
EMPTY_TEST(vouch__ignores_an_unbound_agent_pod)
{
    gpu_node(fixture, "n", "GPU-n");
    fixture_api(fixture, "POST", PODS,
                "{\"metadata\":{\"name\":\"agent\",\"namespace\":\"ns\",\"labels\":{"
                "\"app.kubernetes.io/component\":\"node\"}},\"spec\":{\"containers\":["
                "{\"name\":\"c\",\"image\":\"none\"}]}}");
    vouch_becomes(fixture, "n", VOUCH_NONE);
    pod_ends(fixture, "agent", 0);
    fixture_run(fixture);
    assert_true(app_ready(&fixture->app, NULL));
}

FIXTURE_TEST(vouch__counts_the_annotation_of_agents_outside_of_pods)
{
    fixture->settings.agents = "annotation";
    fixture_restart(fixture);
    pod_ends(fixture, "agent-n", 0);
    fixture_run_until_idle(fixture);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_NONE);
    assert_true(fixture_fits(fixture, "a", "n"));
    annotate(fixture, "null");
    vouch_becomes(fixture, "n", VOUCH_NO_AGENT);
}

/* --- GPUs that an agent named --- */

static void assert_only_gpu(struct app_fixture *fixture, const char *id)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    const struct node *node = snapshot_node(snapshot, TEXT("n"));

    assert_non_null(node);
    assert_int_equal(node->n_gpus, 1);
    assert_string_equal(node->gpu[0].id->text, id);
}

static void keeps_its_uuid(struct app_fixture *fixture)
{
    fixture_run(fixture);
    assert_only_gpu(fixture, "GPU-n");
    assert_int_equal(fixture_taken(fixture, "n"), 300);
    assert_false(fixture_fits(fixture, "b", "n"));
    assert_string_not_equal(fixture_bind(fixture, "b", "n"), "");
}

/* The labels of GPU feature discovery on node n. */
static void labels_count(struct app_fixture *fixture)
{
    fixture_label_node(fixture, "n",
                       "\"nvidia.com/gpu.count\":\"1\",\"nvidia.com/gpu.memory\":\"81920\","
                       "\"nvidia.com/gpu.product\":\"A100\"");
}

/* Labels give the GPUs a number each, and a pod would be granted one by it. */
FIXTURE_TEST(agent_gpus__never_become_numbers)
{
    static const char *const required[] = {"where-selected", "always", "never"};

    labels_count(fixture);
    fixture_run(fixture);
    assert_string_equal(fixture_bind(fixture, "a", "n"), "");
    fixture_annotate_node(fixture, "n", "\"milligpu.io/gpus\":null");
    keeps_its_uuid(fixture);
    annotate(fixture, "null");
    keeps_its_uuid(fixture);
    pod_ends(fixture, "agent-n", 0);
    keeps_its_uuid(fixture);
    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        fixture->settings.require_agent = required[i];
        /* As if no pod had vouched for it before. */
        annotate(fixture, UNINSTALLED);
        fixture_run_until_idle(fixture);
        annotate(fixture, EMPTY ",\"milligpu.io/gpus\":" GPU_N);
        fixture_restart(fixture);
        fixture_run_until_idle(fixture);
        assert_true(fixture_fits(fixture, "b", "n"));
        annotate(fixture, "null,\"milligpu.io/gpus\":null");
        keeps_its_uuid(fixture);
    }
}

/* Its agent is Ready, and gives no container a GPU by a number. */
static void a_number_is_granted_on_no_node_with_an_agent(struct app_fixture *fixture)
{
    agent_pod(fixture, "agent-n", "n", "True");
    claim(fixture, "agent-n", "n");
    fixture_pod(fixture, "a", "300");
    vouch_becomes(fixture, "n", VOUCH_NO_GPUS);
    assert_only_gpu(fixture, "n/gpu-0");
    assert_false(fixture_fits(fixture, "a", "n"));
    assert_says(fixture_bind(fixture, "a", "n"), "agent");
    fixture_pass(fixture, 5000);
    fixture_annotate_node(fixture, "n", "\"milligpu.io/gpus\":" GPU_N);
    assert_woken(fixture, 2000, 1);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GOOD);
    assert_string_equal(fixture_bind(fixture, "a", "n"), "");
    assert_only_gpu(fixture, "GPU-n");
    assert_int_equal(fixture_taken(fixture, "n"), 300);
}

TEST(agent_gpus__are_not_granted_by_number_where_an_agent_vouches)
{
    for (int by_labels = 0; by_labels <= 1; by_labels++) {
        struct app_fixture *fixture = fixture_new(no_nodes);
        if (by_labels) {
            gpu_node(fixture, "n", "GPU-n");
            fixture_annotate_node(fixture, "n", "\"milligpu.io/gpus\":null");
            labels_count(fixture);
        } else {
            fixture_node(fixture, "n", "1000");
        }
        a_number_is_granted_on_no_node_with_an_agent(fixture);
        fixture_free(fixture);
    }
}

/* After a restart, too; and where no node needs an agent, the operator wants it so. */
EMPTY_TEST(agent_gpus__are_granted_by_number_as_set_after_a_restart)
{
    static const struct {
        const char *required;
        const char *agents;
        enum vouch vouch;
    } row[] = {{"where-selected", "pods", VOUCH_NO_GPUS},
               {"always", "pods", VOUCH_NO_GPUS},
               {"where-selected", "annotation", VOUCH_NO_GPUS},
               {"never", "pods", VOUCH_NONE}};

    fixture_node(fixture, "n", "1000");
    agent_pod(fixture, "agent-n", "n", "True");
    claim(fixture, "agent-n", "n");
    fixture_pod(fixture, "a", "300");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        fixture->settings.require_agent = row[i].required;
        fixture->settings.agents = row[i].agents;
        fixture_restart(fixture);
        fixture_run_until_idle(fixture);
        assert_int_equal(vouch_of(fixture, "n"), row[i].vouch);
        assert_int_equal(fixture_fits(fixture, "a", "n"), row[i].vouch == VOUCH_NONE);
    }
}

FIXTURE_TEST(agent_gpus__come_from_labels_again_after_uninstall)
{
    labels_count(fixture);
    pod_ends(fixture, "agent-n", 0);
    annotate(fixture, UNINSTALLED ",\"milligpu.io/gpus\":null");
    fixture_run(fixture);
    assert_only_gpu(fixture, "n/gpu-0");
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(fixture->app.view);
    assert_false(snapshot_node(snapshot, TEXT("n"))->agent); /* no Binding names a plugin there */
    assert_string_equal(fixture_bind(fixture, "b", "n"), "");
}

/* --- doctor --- */

/* The check "agents" in full. */
static void doctor_says(struct app_fixture *fixture, const char *status, const char *text,
                        const char *fix)
{
    struct http_call call;
    CLEANUP(arena_done) struct arena arena;
    struct document *doctor;
    struct err err;
    bool found = false;

    fixture->app.instance.server = "standalone"; /* which needs no rights */
    arena_init(&arena);
    http_call_init(&call, "/api/v1/doctor");
    call.method = "GET";
    api_handle(&fixture->app, &call);
    assert_int_equal(call.status, 200);
    assert_int_equal(document_parse_json((struct text){call.answer.data, call.answer.len}, "doctor",
                                         &arena, &doctor, &err),
                     0);
    document_each (check, document_get(doctor, "checks")) {
        if (strcmp(document_str(check, "name"), "agents") != 0)
            continue;
        found = true;
        assert_string_equal(document_str(check, "status"), status);
        assert_string_equal(document_str(check, "text"), text);
        assert_string_equal(document_str(check, "fix"), fix);
    }
    assert_true(found);
    http_call_done(&call);
}

#define DO_NODES                                                                                   \
    "run milligpuctl doctor --nodes, which shows the fix for each node; milligpuctl nodes "        \
    "--state not_vouched lists them (docs/NODE.md)"
#define DO_LABEL                                                                                   \
    "; for nodes that are to have no agent, set agent_nodes to a label that they lack "            \
    "(docs/operate/nodes.md)"
#define DO_SELECT "; if some nodes are to have no agent, set require_agent to where-selected"

/* Node n is closed for this reason. */
static void doctor_complains(struct app_fixture *fixture, enum vouch vouch, const char *fix)
{
    char text[256];

    vouch_becomes(fixture, "n", vouch);
    (void)snprintf(text, sizeof text,
                   "the agents of 1 node do not vouch for their GPUs, which take no new shares; "
                   "node n: %s",
                   vouch_help(vouch));
    doctor_says(fixture, "warning", text, fix);
}

#define POD(members) "\"{\\\"pod\\\":{\\\"uid\\\":\\\"x\\\"" members "}}\""

/* Each verdict that an annotation can cause. */
FIXTURE_TEST(doctor__explains_each_verdict)
{
    static const struct {
        enum vouch vouch;
        const char *word;
    } row[] = {{VOUCH_UNNAMED, EMPTY},
               {VOUCH_GONE, POD("")},
               {VOUCH_OTHER_NODE, POD(",\\\"node\\\":\\\"former\\\"")},
               {VOUCH_OTHER_BOOT, POD(",\\\"boot\\\":\\\"former\\\"")}};

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        annotate(fixture, row[i].word);
        doctor_complains(fixture, row[i].vouch, DO_NODES);
    }
    annotate(fixture, "null");
    doctor_complains(fixture, VOUCH_NO_AGENT, DO_NODES DO_LABEL);
    claim(fixture, "agent-n", "n");
    ready(fixture, "agent-n", "False");
    doctor_complains(fixture, VOUCH_NOT_READY, DO_NODES);
    ready(fixture, "agent-n", "True");
    agent_pod(fixture, "second", "n", "True");
    doctor_complains(fixture, VOUCH_CLONED, DO_NODES);
    pod_ends(fixture, "second", 0);
    labels_count(fixture);
    fixture_annotate_node(fixture, "n", "\"milligpu.io/gpus\":null");
    annotate(fixture, UNINSTALLED);
    vouch_becomes(fixture, "n", VOUCH_NONE);
    doctor_says(fixture, "ok", "no node needs an agent", "");
    claim(fixture, "agent-n", "n");
    doctor_complains(fixture, VOUCH_NO_GPUS, DO_NODES);
}

#define LET_GO "; those of 1 node were told to let go of them"

/* The four states of a node, alone and beside each other. */
FIXTURE_TEST(doctor__counts_nodes_by_state)
{
    doctor_says(fixture, "ok", "the agents of 1 node vouch for their GPUs", "");
    annotate(fixture, LEAVING);
    vouch_becomes(fixture, "n", VOUCH_LEAVING);
    doctor_says(fixture, "ok", "the agents of 0 nodes vouch for their GPUs" LET_GO, "");
    agent_node(fixture, "m");
    fixture_node(fixture, "unselected", "1000"); /* needs none */
    fixture_run(fixture);
    doctor_says(fixture, "ok", "the agents of 1 node vouch for their GPUs" LET_GO, "");
    claim(fixture, "agent-n", "n");
    fixture_run(fixture);
    doctor_says(fixture, "ok", "the agents of 2 nodes vouch for their GPUs", "");
    ready(fixture, "agent-n", "False");
    ready(fixture, "agent-m", "False");
    gpu_node(fixture, "o", "GPU-o");
    fixture_run(fixture);
    doctor_says(fixture, "warning",
                "the agents of 3 nodes do not vouch for their GPUs, which take no new shares; "
                "node n: the pod of its agent is not Ready",
                DO_NODES DO_LABEL);
}

FIXTURE_TEST(doctor__names_the_setting_that_applies)
{
    annotate(fixture, "null");
    fixture->settings.require_agent = "always";
    fixture_restart(fixture);
    fixture_run_until_idle(fixture);
    doctor_complains(fixture, VOUCH_NO_AGENT, DO_NODES DO_SELECT);
    fixture->settings.require_agent = "never";
    fixture_restart(fixture);
    fixture_run_until_idle(fixture);
    doctor_says(fixture, "ok", "no node needs an agent", "");
}

/* --- lists and restarts --- */

FIXTURE_TEST(vouch__is_decided_by_the_first_lists_after_a_restart)
{
    fixture_restart(fixture);
    assert_true(fixture_pass_until_ready(fixture, 60000));
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GOOD);
    assert_string_equal(fixture_bind(fixture, "a", "n"), "");
    fixture_restart(fixture);
    ready(fixture, "agent-n", "False");
    assert_true(fixture_pass_until_ready(fixture, 60000));
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_NOT_READY);
    assert_false(fixture_fits(fixture, "b", "n"));
    fixture_restart(fixture);
    pod_ends(fixture, "agent-n", 0);
    assert_true(fixture_pass_until_ready(fixture, 60000));
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GONE);
    assert_false(fixture_fits(fixture, "b", "n"));
    assert_int_equal(fixture_taken(fixture, "n"), 300);
}

/* Its deletion is in no event, only missing from the next list. */
FIXTURE_TEST(vouch__ends_when_a_list_lacks_the_agent_pod)
{
    pod_ends(fixture, "agent-n", 0);
    fake_apiserver_compact(fixture->app.fake);
    fixture_pass(fixture, 10000);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GONE);
    assert_says(fixture_bind(fixture, "a", "n"), "agent");
}

/*
 * A kill came when the ledger had written that the Node is gone, and what is remembered of its
 * agent had not been dropped yet: of that Node only the list says that there is none.
 */
FIXTURE_TEST(agent_memory__is_dropped_when_no_node_is_listed)
{
    const struct agent_memory memory = {"gone", "uid", true, true};

    fixture_restart(fixture);
    agents_remember(fixture->parts.writer->vouching.agents, &memory);
    assert_int_equal(table(fixture), 2);
    assert_true(fixture_pass_until_ready(fixture, 60000));
    fixture_run(fixture);
    assert_int_equal(table(fixture), 1);
    assert_int_equal(agents_check(fixture->parts.writer->vouching.agents, TEXT("gone")),
                     VOUCH_NONE);
}

/* --- a disk that fails --- */

static void breaks_once(struct app_fixture *fixture)
{
    fixture_break_store(fixture, POINT_COMMIT, false);
}

/* Until the lost batch was tried again. */
static void heals(struct app_fixture *fixture)
{
    fixture_run(fixture);
    assert_int_equal(fixture->struck, 1);
    fixture_pass(fixture, 10000);
    assert_true(app_ready(&fixture->app, NULL));
}

FIXTURE_TEST(vouch__is_right_after_a_lost_batch)
{
    static const enum vouch vouch[] = {VOUCH_NOT_READY, VOUCH_GOOD, VOUCH_UNNAMED};

    for (int i = 0; i < 3; i++) {
        if (i < 2)
            ready(fixture, "agent-n", i == 0 ? "False" : "True");
        else
            annotate(fixture, EMPTY);
        fixture_bound_pod(fixture, fixture_name("x", i), "100",
                          "n"); /* something is written, too */
        breaks_once(fixture);
        heals(fixture);
        assert_int_equal(vouch_of(fixture, "n"), vouch[i]);
    }
    assert_int_equal(fixture_taken(fixture, "n"), 300);
}

/* The sweep removed the pod from the cache, and the list that is tried again sweeps nothing. */
FIXTURE_TEST(vouch__is_right_after_a_lost_batch_with_the_end_of_a_list)
{
    pod_ends(fixture, "agent-n", 0);
    fixture_bound_pod(fixture, "x", "100", "n");
    fake_apiserver_compact(fixture->app.fake);
    breaks_once(fixture);
    fixture_pass(fixture, 10000);
    heals(fixture);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GONE);
}

/* The first agent comes once; the other nodes are evaluated again all the same. */
TEST(vouch__closes_nodes_after_a_lost_batch_with_the_first_agent)
{
    for (int i = 0; i < 4; i++) {
        const bool by_node = i % 2 == 1;
        const struct fixture_fault once = {.point = i < 2 ? POINT_COMMIT : POINT_BEGIN, .nth = 1};
        struct app_fixture *fixture = fixture_new(no_nodes);
        gpu_node(fixture, "m", "GPU-m");
        gpu_node(fixture, "n", "GPU-n");
        gpu_node(fixture, "o", "GPU-o");
        vouch_becomes(fixture, "m", VOUCH_NONE);
        if (by_node)
            annotate(fixture, EMPTY);
        else
            agent_pod(fixture, "agent-n", "n", "False");
        fixture_bound_pod(fixture, "x", "100", "n");
        fixture_break(fixture, &once);
        heals(fixture);
        assert_int_equal(vouch_of(fixture, "m"), VOUCH_NO_AGENT);
        assert_int_equal(vouch_of(fixture, "o"), VOUCH_NO_AGENT);
        fixture_free(fixture);
    }
}

FIXTURE_TEST(agent_memory__is_stored_again_once_a_minute)
{
    fixture_break_store(fixture, POINT_REMEMBER, true);
    fixture_pass(fixture, 5000);
    assert_int_equal(fixture->met, 0); /* nothing changed */
    agent_node(fixture, "m");
    fixture_pass(fixture, 30000);
    assert_int_equal(fixture->struck, 1);
    fixture_pass(fixture, 31000);
    assert_int_equal(fixture->struck, 2);
    assert_true(app_ready(&fixture->app, NULL)); /* it is not worth less */
    assert_int_equal(vouch_of(fixture, "m"), VOUCH_GOOD);
    fixture_heal(fixture);
    fixture_pass(fixture, 61000);
    fixture_break_store(fixture, POINT_REMEMBER, true);
    fixture_pass(fixture, 61000);
    assert_int_equal(fixture->met, 0); /* all is stored */
}

/* Counts the calls of the store from now on. */
static void watch_store(struct app_fixture *fixture)
{
    const struct fixture_fault never = {.point = POINT_REMEMBER, .nth = UINT32_MAX};

    fixture_break(fixture, &never);
}

EMPTY_TEST(agent_memory__is_stored_at_the_first_agent)
{
    gpu_node(fixture, "n", "GPU-n");
    fixture_run(fixture);
    watch_store(fixture);
    agent_pod(fixture, "agent-n", "n", "False");
    fixture_pass(fixture, 2000);
    assert_int_equal(fixture->met, 1);
}

/* A file that contradicts itself, or may be another cluster's, is not changed. */
FIXTURE_TEST(agent_memory__is_not_stored_in_safe_mode_or_an_unidentified_ledger)
{
    for (int safe = 0; safe <= 1; safe++) {
        atomic_store(safe ? &fixture->app.health.safe_mode : &fixture->app.identified, safe != 0);
        watch_store(fixture);
        annotate(fixture, safe ? EMPTY : UNINSTALLED);
        fixture_pass(fixture, 5000);
        assert_int_equal(fixture->met, 0);
        atomic_store(safe ? &fixture->app.health.safe_mode : &fixture->app.identified, safe == 0);
        fixture_pass(fixture, 1000);
        assert_int_equal(fixture->met, 1);
    }
}

static size_t drifts(struct app_fixture *fixture)
{
    struct writer_tables tables;

    writer_tables(fixture->parts.writer, &tables);
    return tables.drifts;
}

/* Until then no agent is Ready, and that is no disagreement. */
FIXTURE_TEST(drift__is_not_reported_before_the_first_list_of_pods)
{
    fixture->list_takes_ms = 60000;
    fixture_restart(fixture);
    for (int i = 0; i < 50; i++) {
        fixture_pass(fixture, 1000);
        assert_int_equal(drifts(fixture), 0);
    }
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GONE);
    fixture_pass(fixture, 20000);
    assert_int_equal(vouch_of(fixture, "n"), VOUCH_GOOD);
    assert_int_equal(drifts(fixture), 0);
    ready(fixture, "agent-n", "False");
    fixture_pass(fixture, 10000);
    assert_int_equal(drifts(fixture), 1);
    ready(fixture, "agent-n", "True");
    fixture_pass(fixture, 10000);
    assert_int_equal(drifts(fixture), 0);
}

FIXTURE_TEST(agent_memory__is_not_stored_before_the_first_list_of_pods)
{
    agent_node(fixture, "m");
    fixture->list_takes_ms = 20000;
    fixture_restart(fixture);
    watch_store(fixture);
    fixture_pass(fixture, 15000);
    assert_int_equal(fixture->met, 0);
    fixture_pass(fixture, 15000);
    assert_true(fixture->met > 0);
}
