/* agent_calls - the calls of a container runtime: the first list, new pods, restarts. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/annotations.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/sign/signing.h"

#include "agent/agent_calls.h"
#include "support/patience.h"
#include "support/scoped.h"
#include "support/test.h"
#include "unit/agent/support.h"

#define UID "3f6c1a2e-0000-4000-8000-000000000001"
#define ON(gpu)                                                                                    \
    "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"" gpu                                           \
    "\",\"index\":0,\"milli\":300,\"mib\":4915}]}}"
#define SPEC                                                                                       \
    "{\"cdiVersion\":\"0.5.0\",\"kind\":\"nvidia.com/gpu\",\"devices\":["                          \
    "{\"name\":\"GPU-a\",\"containerEdits\":{\"env\":[\"A=1\"]}},"                                 \
    "{\"name\":\"GPU-b\",\"containerEdits\":{\"env\":[\"B=1\"]}}]}"

struct site {
    char dir[32];
    char path[4][64]; /* state, keys, cdi, the private key */
    struct signing_key *key;
    struct agent_calls calls;
    struct nri_handlers runtime;
    struct nri_pair pair[4];
    struct nri_pod pod;
    char signature[SIGNATURE_TEXT_BYTES];
    struct nri_adjustment out;
    struct err err;
};

/* The agent is started, with whatever its folders hold. */
static void starts(struct site *site)
{
    struct agent_calls *calls = &site->calls;
    *calls = (struct agent_calls){.rules.node = "n1"};
    if (pod_records_open(site->path[0], &calls->records, &site->err) < 0)
        fail_msg("%s", site->err.text);
    calls->keys = public_keys_new(site->path[1]);
    calls->cdi = cdi_new((const char *const[]){site->path[2]}, 1);
    calls->containers = containers_new();
    agent_calls_init(calls);
    agent_calls_handlers(calls, &site->runtime);
}

static void ends(struct site *site)
{
    agent_calls_done(&site->calls);
    containers_free(site->calls.containers);
    cdi_free(site->calls.cdi);
    public_keys_free(site->calls.keys);
    pod_records_close(site->calls.records);
}

static int set_up(void **state)
{
    static const char *const name[] = {"state", "keys", "cdi", "key"};
    struct site *site = test_calloc(1, sizeof *site);

    log_set(LOG_ERROR, false);
    folder_make(site->dir, sizeof site->dir);
    for (size_t i = 0; i < ARRAY_LEN(name); i++)
        (void)snprintf(site->path[i], sizeof site->path[i], "%s/%s", site->dir, name[i]);
    assert_int_equal(mkdir(site->path[1], 0700) + mkdir(site->path[2], 0700), 0);
    file_put(site->path[2], "nvidia.json", SPEC);
    assert_int_equal(signing_key_open(site->path[3], &site->key, &site->err), 0);
    file_put(site->path[1], signing_key_id(site->key), signing_key_public(site->key));
    site->pod = (struct nri_pod){
        .id = TEXT("sandbox"), .name = TEXT("web"), .uid = TEXT(UID), .annotation = site->pair};
    starts(site);
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    ends(site);
    signing_key_free(site->key);
    folder_remove(site->dir);
    test_free(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

static void pod_with(struct site *site, const char *annotation, const char *signed_one)
{
    const struct signed_facts facts = {site->pod.uid, TEXT("n1"), text_of(signed_one),
                                       SIGNED_ALLOCATION};
    site->pod.n_annotations = 1;
    site->pair[0] = (struct nri_pair){TEXT(ANNOTATION_ALLOCATION), text_of(annotation)};
    if (signed_one == NULL)
        return;
    assert_int_equal(signing_sign(site->key, &facts, site->signature, &site->err), 0);
    site->pair[site->pod.n_annotations++] =
        (struct nri_pair){TEXT(ANNOTATION_SIGNATURE), text_of(site->signature)};
}

static void pod_signed(struct site *site, const char *annotation)
{
    pod_with(site, annotation, annotation);
}

static void node_runs(struct site *site, uint32_t pods)
{
    site->runtime.synchronize(&site->calls, &site->pod, pods, NULL, 0, false);
}

static bool creates(struct site *site, const struct nri_pod *pod,
                    const struct nri_container *container)
{
    return site->runtime.create(&site->calls, pod, container, &site->out, &site->err) == 0;
}

static void refuses(struct site *site, const struct nri_pod *pod,
                    const struct nri_container *container, const char *words)
{
    assert_false(creates(site, pod, container));
    assert_says(site->err.text, words);
}

static bool starts_container(struct site *site, const struct nri_container *container)
{
    return site->runtime.start(&site->calls, &site->pod, container, &site->err) == 0;
}

static bool validates(struct site *site, const struct nri_container *container,
                      const struct nri_adjustment *all, enum nri_validator validator)
{
    return site->runtime.validate(&site->calls, &site->pod, container, all, validator,
                                  &site->err) == 0;
}

/* A list of the node's containers: one piece, the last one unless more. */
static void lists(struct site *site, const struct nri_pod *pod, const struct nri_container *list,
                  uint32_t containers, bool more)
{
    site->runtime.synchronize(&site->calls, pod, pod != NULL, list, containers, more);
}

static void stops(struct site *site, const char *id)
{
    const struct nri_container one = {.id = text_of(id)};
    site->runtime.stopped(&site->calls, &site->pod, &one);
}

static void pod_ends(struct site *site, const char *id)
{
    site->runtime.pod_stopped(&site->calls, &(struct nri_pod){.id = text_of(id)});
}

/* A container "main" of the pod. */
#define MAIN_OF(container_id, pod, ...)                                                            \
    {                                                                                              \
        .id = TEXT(container_id), .name = TEXT("main"), .pod_id = TEXT(pod), __VA_ARGS__           \
    }
#define MAIN(container_id, container_state)                                                        \
    MAIN_OF(container_id, "sandbox", .state = container_state)

static const struct nri_pod foreign = {
    .id = TEXT("elsewhere"), .name = TEXT("old"), .uid = TEXT("u2"), .namespace = TEXT("ns")};

static bool created(struct site *site)
{
    return creates(site, &site->pod, &(struct nri_container)MAIN("", NRI_CREATED));
}

static void refused(struct site *site, const char *words)
{
    refuses(site, &site->pod, &(struct nri_container)MAIN("", NRI_CREATED), words);
}

static void key_is_lost(struct site *site)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", site->path[1], signing_key_id(site->key));
    assert_int_equal(unlink(path), 0);
}

static struct containers_copy table_of(struct site *site)
{
    struct containers_copy copy;
    containers_copy(site->calls.containers, &site->calls.arena, &copy);
    return copy;
}

/* "id right gpu" of each container with a GPU. */
static void table_is(struct site *site, const char *expected)
{
    static const char *const right[] = {"share", "kubelet", "variable"};
    const struct containers_copy copy = table_of(site);
    char found[200] = "";
    for (uint32_t i = 0; i < copy.count; i++)
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s %s %s",
                       i > 0 ? ", " : "", copy.container[i].id, right[copy.container[i].right],
                       copy.container[i].gpu[0].name);
    assert_string_equal(found, expected);
}

/* A signed pod comes to a node on which nothing runs. */
static void signed_pod(struct site *site, const char *annotation)
{
    node_runs(site, 0);
    pod_signed(site, annotation);
}

/* The attack: the annotation was written before the first agent of the node came. */
SITE_TEST(synchronize__trusts_no_unsigned_pod)
{
    static const char *const forged[] = {ON("GPU-a"), ON("all"), ON("0"), ON("n1/gpu-0")};
    for (size_t i = 0; i < ARRAY_LEN(forged); i++) {
        pod_with(site, forged[i], NULL);
        node_runs(site, 1);
        refused(site, "not signed"); /* a restart of its container */
        assert_int_equal(site->out.n_cdi_devices + site->out.n_envs, 0);
        assert_int_equal(pod_records_count(site->calls.records), 0);
        ends(site);
        starts(site); /* and after one of the agent */
        refused(site, "not signed");
        folder_remove(site->path[0]); /* a node without an agent again */
        ends(site);
        starts(site);
    }
}

SITE_TEST(synchronize__trusts_no_unsigned_pod_of_a_later_list)
{
    node_runs(site, 0);
    pod_with(site, ON("GPU-a"), NULL);
    node_runs(site, 1); /* a later list */
    refused(site, "not signed");
}

/* A file in the folder of an agent that recorded pods without a signature. */
SITE_TEST(create__ignores_a_record_without_proof)
{
    char dir[128];
    char record[256];
    pod_with(site, ON("GPU-a"), NULL);
    ends(site);
    (void)snprintf(dir, sizeof dir, "%s/pods", site->path[0]);
    (void)snprintf(record, sizeof record, "milligpu-node 1 0 %zu\n%s", sizeof ON("GPU-a") - 1,
                   ON("GPU-a"));
    file_put(dir, UID, record);
    starts(site);
    node_runs(site, 1);
    refused(site, "not signed");
}

/* The state folder was lost, or the agent is installed where signed pods run. */
SITE_TEST(synchronize__keeps_a_signed_pod)
{
    const int64_t strangers = metric_value(COUNT_STRANGERS);
    const struct nri_container runs = MAIN("one", NRI_RUNNING);
    pod_signed(site, ON("GPU-a"));
    lists(site, &site->pod, &runs, 1, false);
    assert_int_equal(metric_value(COUNT_STRANGERS), strangers);
    table_is(site, "one share GPU-a");
    key_is_lost(site); /* it was proven, and is recorded */
    assert_true(created(site));
    assert_int_equal(site->out.n_cdi_devices, 1);
}

/* It keeps its foreign GPUs, and is no share of ours: it is not metered or killed. */
SITE_TEST(synchronize__leaves_an_unsigned_running_pod_alone)
{
    const struct text env[] = {TEXT("NVIDIA_VISIBLE_DEVICES=GPU-b")};
    const struct nri_container runs =
        MAIN_OF("one", "sandbox", .state = NRI_RUNNING, .n_envs = 1, .env = env);
    pod_with(site, ON("GPU-a"), NULL);
    lists(site, &site->pod, &runs, 1, false);
    table_is(site, "one variable GPU-b");
    assert_int_equal(table_of(site).container[0].gpu[0].mib, 0);
    assert_true(starts_container(site, &runs));
}

SITE_TEST(create__gives_only_gpus_that_nvml_has_shown)
{
    site->calls.nvml = driver_open(site->dir, "driver 570.1\ngpu GPU-b NVIDIA_T4 16384\n");
    signed_pod(site, ON("GPU-b"));
    for (int64_t until_ms = 0; !created(site);) { /* until the first reading */
        assert_says(site->err.text, "not known to NVIDIA's driver on node n1");
        assert_int_equal(pod_records_count(site->calls.records), 0);
        assert_true(patience_left(&until_ms));
    }
    driver_says(site->dir, "driver 570.1\n");
    assert_true(created(site)); /* a lost GPU stays known */
    site->pod.uid = TEXT("another");
    pod_signed(site, ON("GPU-a"));
    refused(site, "GPU GPU-a is not known to NVIDIA's driver on node n1");
    /* A running container has its share, whatever the driver says now. */
    const struct nri_container runs = MAIN("one", NRI_RUNNING);
    lists(site, &site->pod, &runs, 1, false);
    table_is(site, "one share GPU-a");
    nvml_close(site->calls.nvml);
}

SITE_TEST(create__refuses_a_changed_allocation_for_ever)
{
    signed_pod(site, ON("GPU-a"));
    assert_true(created(site));
    assert_true(text_is(site->out.cdi_device[0], "nvidia.com/gpu=GPU-a"));
    pod_signed(site, ON("GPU-b")); /* even signed */
    refused(site, "was changed");
    ends(site);
    starts(site);
    node_runs(site, 1);
    refused(site, "was changed");
    pod_signed(site, ON("GPU-a"));
    assert_true(created(site));
}

SITE_TEST(create__recovers_when_the_key_is_mounted)
{
    signed_pod(site, ON("GPU-a"));
    key_is_lost(site);
    refused(site, "will be retried automatically");
    file_put(site->path[1], signing_key_id(site->key), "AAAA");
    refused(site, "will be retried automatically");
    file_put(site->path[1], signing_key_id(site->key), signing_key_public(site->key));
    assert_true(created(site));
}

SITE_TEST(create__accepts_no_new_pod_of_a_removed_key)
{
    signed_pod(site, ON("GPU-a"));
    assert_true(created(site));
    key_is_lost(site);
    assert_true(created(site)); /* it was recorded when it proved itself */
    site->pod.uid = TEXT("another");
    pod_signed(site, ON("GPU-a"));
    refused(site, "will be retried automatically");
}

SITE_TEST(strangers__are_counted_in_any_piece_of_a_list)
{
    const struct text env[] = {TEXT("NVIDIA_VISIBLE_DEVICES=void")};
    const struct nri_container passed = MAIN_OF("", "sandbox", .n_envs = 1, .env = env);
    const struct nri_container strange = MAIN("", NRI_CREATED);
    const struct nri_container other = MAIN_OF("", "elsewhere", .state = NRI_CREATED);
    signed_pod(site, ON("GPU-a"));
    const int64_t before = metric_value(COUNT_STRANGERS);
    lists(site, &site->pod, NULL, 0, true);
    lists(site, NULL, &passed, 1, true);
    lists(site, NULL, &other, 1, true);
    assert_int_equal(metric_value(COUNT_STRANGERS), before);
    lists(site, NULL, &strange, 1, false);
    assert_int_equal(metric_value(COUNT_STRANGERS), before + 1);
    /* Its pod is recorded now. */
    lists(site, &site->pod, &strange, 1, false);
    assert_int_equal(metric_value(COUNT_STRANGERS), before + 2);
}

SITE_TEST(table__follows_the_life_of_a_container)
{
    const struct nri_container one = MAIN("one", NRI_CREATED);
    const struct nri_container two = MAIN("two", NRI_CREATED);
    struct nri_adjustment all = {0};
    assert_false(table_of(site).is_complete);
    node_runs(site, 0);
    assert_true(table_of(site).is_complete);
    pod_with(site, ON("GPU-a"), NULL); /* refused: it is not made */
    assert_false(creates(site, &site->pod, &one));
    assert_int_equal(table_of(site).count, 0);
    pod_signed(site, ON("GPU-a"));
    assert_true(creates(site, &site->pod, &one));
    assert_false(table_of(site).container[0].is_running);
    assert_int_equal(table_of(site).container[0].gpu[0].mib, 4915);
    assert_true(starts_container(site, &one));
    assert_true(table_of(site).container[0].is_running);
    stops(site, "one");
    assert_false(table_of(site).container[0].is_running);
    assert_true(creates(site, &site->pod, &two));
    table_is(site, "two share GPU-a"); /* its second life */
    assert_false(validates(site, &two, &all, NRI_VALIDATOR_UNKNOWN));
    assert_int_equal(table_of(site).count, 0);
    assert_true(creates(site, &site->pod, &one));
    stops(site, "one");
    pod_ends(site, "another");
    pod_ends(site, "");
    assert_int_equal(table_of(site).count, 1);
    pod_ends(site, "sandbox");
    assert_int_equal(table_of(site).count, 0);
    agent_calls_lost(&site->calls);
    assert_false(table_of(site).is_complete);
}

SITE_TEST(create__refuses_an_unreadable_container_or_pod)
{
    struct nri_container container = MAIN_OF("one", "sandbox", .flaw = NRI_TOO_LONG);
    struct nri_adjustment all = {0};
    struct nri_pod unread = {.id = TEXT("sandbox"), .name = TEXT("a"), .flaw = NRI_TOO_LONG};
    struct nri_pod whole = {.id = TEXT("sandbox"), .name = TEXT("a")};
    const struct nri_handlers *runtime = &site->runtime;
    const int64_t refusals = metric_value(COUNT_REFUSED);
    const int64_t invalid = metric_value(COUNT_INVALID);
    const int64_t pods = metric_value(COUNT_UNREAD_PODS);
    const int64_t containers = metric_value(COUNT_UNREAD_CONTAINERS);
    signed_pod(site, ON("GPU-a"));
    for (int i = 0; i < 2; i++) {
        const struct nri_pod *pod = i == 0 ? &site->pod : &whole;
        assert_false(creates(site, pod, &container));
        assert_string_equal(site->err.text,
                            "milligpu: it has too many environment variables or devices: more than "
                            "can be read (16 MiB): remove some");
        assert_true(runtime->start(&site->calls, pod, &container, &site->err) < 0);
        assert_true(runtime->validate(&site->calls, pod, &container, &all, NRI_VALIDATOR_ON,
                                      &site->err) < 0);
    }
    container.flaw = NRI_WHOLE;
    assert_false(creates(site, &unread, &container));
    assert_string_equal(site->err.text, "milligpu: its pod has too many annotations: more than can "
                                        "be read (16 MiB): remove some");
    assert_int_equal(table_of(site).count, 0);
    assert_int_equal(metric_value(COUNT_REFUSED), refusals + 5);
    assert_int_equal(metric_value(COUNT_INVALID), invalid + 2);
    assert_int_equal(metric_value(COUNT_UNREAD_PODS), pods + 1);
    assert_int_equal(metric_value(COUNT_UNREAD_CONTAINERS), containers + 6);
    assert_true(created(site)); /* and others are */
}

/* A pod with a running share says which GPU it has. */
SITE_TEST(synchronize__skips_unreadable_containers_and_pods)
{
    const struct nri_container runs =
        MAIN_OF("one", "sandbox", .state = NRI_RUNNING, .flaw = NRI_TOO_LONG);
    const struct nri_container lost = {
        .id = TEXT("two"), .pod_id = TEXT("nowhere"), .flaw = NRI_BROKEN};
    const int64_t strangers = metric_value(COUNT_STRANGERS);
    const int64_t pods = metric_value(COUNT_UNREAD_PODS);
    const int64_t containers = metric_value(COUNT_UNREAD_CONTAINERS);
    signed_pod(site, ON("GPU-a"));
    lists(site, &site->pod, (struct nri_container[]){lost, runs}, 2, false);
    table_is(site, "one share GPU-a");
    assert_int_equal(metric_value(COUNT_STRANGERS), strangers); /* its variables are not known */
    assert_int_equal(metric_value(COUNT_UNREAD_CONTAINERS), containers + 2);
    site->pod.flaw = NRI_TOO_LONG;
    site->pod.n_annotations = 0;
    lists(site, &site->pod, &runs, 1, false);
    assert_int_equal(metric_value(COUNT_UNREAD_PODS), pods + 1);
    assert_int_equal(table_of(site).count, 0);
}

/* It is not proven, and a node may have many such pods. */
SITE_TEST(synchronize__drops_long_foreign_annotations)
{
    static const char manages[] = "management.nvidia.com/gpu=all,";
    static char forged[200000];
    memset(forged, 'x', sizeof forged - 1);
    memcpy(forged, manages, sizeof manages - 1);
    pod_with(site, forged, NULL);
    site->pair[site->pod.n_annotations++] =
        (struct nri_pair){TEXT("nvidia.cdi.k8s.io/pod"), text_of(forged)};
    for (int i = 0; i < 20; i++)
        lists(site, &site->pod, NULL, 0, true);
    assert_true(arena_bytes(&site->calls.sync) + arena_bytes(&site->calls.arena) < sizeof forged);
    lists(site, NULL, NULL, 0, false);
    assert_true(table_of(site).is_complete);
}

/* The first pod has a share of GPU-a; kubelet gives GPU-a, or GPU-b, whole to another. */
SITE_TEST(create__refuses_the_second_owner_of_a_gpu)
{
    const struct nri_container share = MAIN("one", NRI_CREATED);
    const struct text device[] = {TEXT("nvidia.com/gpu=GPU-a"), TEXT("nvidia.com/gpu=GPU-b")};
    struct nri_container whole =
        MAIN_OF("w", "elsewhere", .cdi_device = device, .n_cdi_devices = 1);
    signed_pod(site, ON("GPU-a"));
    assert_true(creates(site, &site->pod, &share));
    refuses(site, &foreign, &whole, "milligpu: it would have GPU GPU-a whole");
    assert_int_equal(table_of(site).count, 1);
    whole.cdi_device = &device[1];
    assert_true(creates(site, &foreign, &whole));
    pod_ends(site, "sandbox");
    whole.cdi_device = device;
    assert_true(creates(site, &foreign, &whole));
    refuses(site, &site->pod, &share, "its GPU GPU-a was given whole to pod ns/old");
    site->calls.mixed_gpus = true;
    assert_true(creates(site, &site->pod, &share));
}

#define AMOUNT(milli)                                                                              \
    "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":" #milli          \
    ",\"mib\":9}],"                                                                                \
    "\"side\":[{\"gpu\":\"GPU-a\",\"index\":0,\"milli\":100,\"mib\":9}]}}"

/* Later calls are about this pod, whose containers have shares of GPU-a. */
static void pod_is(struct site *site, const char *name, const char *annotation)
{
    site->pod.id = site->pod.uid = site->pod.name = text_of(name);
    site->pod.namespace = TEXT("shop");
    pod_with(site, annotation, annotation);
}

static struct nri_container of_pod(struct site *site, const char *id, const char *name,
                                   enum nri_state state)
{
    return (struct nri_container){
        .id = text_of(id), .name = text_of(name), .pod_id = site->pod.id, .state = state};
}

static bool begins(struct site *site, const char *id, const char *name)
{
    const struct nri_container one = of_pod(site, id, name, NRI_CREATED);
    return creates(site, &site->pod, &one) && starts_container(site, &one);
}

/* milligpud has freed the share of the first, which was deleted by force. */
SITE_TEST(create__delays_a_successor_until_the_old_pod_ends)
{
    const int64_t overlaps = metric_value(COUNT_OVERLAPS);
    const int64_t refusals = metric_value(COUNT_REFUSED);
    node_runs(site, 0);
    site->calls.mixed_gpus = true; /* it is about whole GPUs */
    pod_is(site, "old", AMOUNT(600));
    assert_true(begins(site, "1", "main"));
    assert_true(begins(site, "2", "side"));
    pod_is(site, "new", AMOUNT(500));
    assert_false(begins(site, "3", "main"));
    assert_says(site->err.text, "milligpu: GPU GPU-a has no 500 milli free");
    assert_says(site->err.text, "shop/old (700)");
    assert_int_equal(metric_value(COUNT_OVERLAPS), overlaps + 1);
    assert_int_equal(metric_value(COUNT_REFUSED), refusals + 1);
    stops(site, "1");
    assert_false(begins(site, "4", "main")); /* its neighbour lives */
    stops(site, "2");
    assert_true(begins(site, "5", "main"));
    assert_int_equal(table_of(site).count, 3);
    pod_is(site, "old", AMOUNT(600));
    assert_false(begins(site, "6", "main")); /* and not the other way round */
    assert_int_equal(metric_value(COUNT_OVERLAPS), overlaps + 3);
}

/* In a list, a pod has the sum of its running containers. */
SITE_TEST(synchronize__counts_what_runs_when_the_agent_starts)
{
    pod_is(site, "old", AMOUNT(600));
    struct nri_container list[] = {of_pod(site, "1", "main", NRI_RUNNING),
                                   of_pod(site, "2", "side", NRI_RUNNING),
                                   of_pod(site, "3", "main", NRI_STOPPED)};
    lists(site, &site->pod, list, 3, false);
    stops(site, "1");
    pod_is(site, "new", AMOUNT(301));
    assert_false(begins(site, "4", "main"));
    assert_says(site->err.text, "shop/old (700)");
    pod_is(site, "old", AMOUNT(600));
    list[0].state = NRI_STOPPED;
    lists(site, &site->pod, list, 3, false);
    pod_is(site, "new", AMOUNT(900));
    assert_true(begins(site, "5", "main"));
}

/* It may open all devices; the node has two GPUs. */
static bool privileged_created(struct site *site, const char *name)
{
    static const struct nri_device_rule all = {.allow = true,
                                               .type = TEXT("a"),
                                               .major = NRI_ANY_NUMBER,
                                               .minor = NRI_ANY_NUMBER,
                                               .access = TEXT("rwm")};
    static const struct nri_device node[] = {{TEXT("/dev/nvidia0"), TEXT("c"), 195, 0},
                                             {TEXT("/dev/nvidia1"), TEXT("c"), 195, 1}};
    struct nri_container container = of_pod(site, name, name, NRI_CREATED);

    container.n_rules = 1;
    container.rule = &all;
    container.n_devices = 2;
    container.device = node;
    return creates(site, &site->pod, &container);
}

/* The allocation does not name ephemeral containers. */
SITE_TEST(privileged__is_counted_or_refused_in_a_pod_with_shares)
{
    const int64_t warned = metric_value(COUNT_PRIVILEGED_WARNED);
    const int64_t refusals = metric_value(COUNT_PRIVILEGED_REFUSED);

    signed_pod(site, ON("GPU-a"));
    assert_true(privileged_created(site, "main"));
    assert_true(privileged_created(site, "debugger"));
    assert_int_equal(metric_value(COUNT_PRIVILEGED_WARNED), warned + 2);
    site->calls.privileged = PRIVILEGED_REFUSE;
    assert_false(privileged_created(site, "main"));
    assert_says(site->err.text, "milligpu: it is privileged (securityContext.privileged:"
                                " true), so it can open 1 GPU that it was not granted");
    assert_int_equal(table_of(site).count, 0);
    assert_false(privileged_created(site, "debugger"));
    assert_says(site->err.text, "2 GPUs");
    assert_true(created(site));
    assert_int_equal(metric_value(COUNT_PRIVILEGED_REFUSED), refusals + 2);
    site->calls.privileged = PRIVILEGED_ALLOW;
    assert_true(privileged_created(site, "main"));
    assert_int_equal(metric_value(COUNT_PRIVILEGED_WARNED), warned + 2);
}

/* A device plugin, for example. */
SITE_TEST(privileged__is_allowed_in_other_pods)
{
    const int64_t warned = metric_value(COUNT_PRIVILEGED_WARNED);

    node_runs(site, 0);
    assert_true(privileged_created(site, "main"));
    assert_int_equal(metric_value(COUNT_PRIVILEGED_WARNED), warned);
    site->calls.privileged = PRIVILEGED_REFUSE;
    assert_true(privileged_created(site, "main"));
    assert_int_equal(site->out.n_envs + site->out.n_cdi_devices, 0);
}

SITE_TEST(privileged__sees_as_many_gpus_as_nvml_reads)
{
    site->calls.privileged = PRIVILEGED_REFUSE;
    site->calls.nvml = driver_open(site->dir, "gpu GPU-a NVIDIA_T4 16384\n"
                                              "gpu GPU-b NVIDIA_T4 16384\n"
                                              "gpu GPU-c NVIDIA_T4 16384\n"
                                              "gpu GPU-d NVIDIA_T4 16384\n");
    signed_pod(site, ON("GPU-a"));
    for (int64_t until_ms = 0;;) { /* until the first reading */
        assert_false(privileged_created(site, "main"));
        if (strstr(site->err.text, "3 GPUs") != NULL)
            break;
        assert_true(patience_left(&until_ms));
    }
    nvml_close(site->calls.nvml);
    site->calls.nvml = NULL;
}

/* A container of a pod of others, by number. */
static bool foreign_created(struct site *site, int number, const char *env, bool runs)
{
    const struct text variable[] = {text_of(env)};
    char id[16];

    (void)snprintf(id, sizeof id, "f%d", number);
    const struct nri_container container = {.id = text_of(id),
                                            .name = text_of(id),
                                            .pod_id = foreign.id,
                                            .state = runs ? NRI_RUNNING : NRI_CREATED,
                                            .env = variable,
                                            .n_envs = 1};
    if (runs)
        lists(site, &foreign, &container, 1, true);
    return runs ||
           site->runtime.create(&site->calls, &foreign, &container, &site->out, &site->err) == 0;
}

/* The attack: containers with a variable, which anybody may make, fill the table. */
SITE_TEST(table__refuses_when_full_and_has_rows_for_shares)
{
    int made = 0;

    node_runs(site, 0);
    while (made < 3000 && foreign_created(site, made, "NVIDIA_VISIBLE_DEVICES=GPU-b", false))
        made++;
    assert_int_equal(made, NODE_VARIABLES_MAX);
    assert_string_equal(site->err.text,
                        "milligpu: the node has as many containers with GPUs by the variable "
                        "NVIDIA_VISIBLE_DEVICES as its agent can tell apart: delete the pod, or "
                        "others that have them");
    assert_true(foreign_created(site, made, "HOME=/", false));
    pod_signed(site, ON("GPU-a"));
    assert_true(created(site));
    const struct containers_copy copy = table_of(site);
    assert_int_equal(copy.count, NODE_VARIABLES_MAX + 1);
    assert_int_equal(copy.container[NODE_VARIABLES_MAX].right, RIGHT_SHARE);
    assert_int_equal(metric_value(COUNT_LEFT_OUT_VARIABLE), 0);
    for (int i = 0; i < NODE_VARIABLES_MAX + 2; i++)
        (void)foreign_created(site, i, "NVIDIA_VISIBLE_DEVICES=GPU-b", true);
    node_runs(site, 0);
    assert_int_equal(metric_value(COUNT_LEFT_OUT_VARIABLE), 2);
    assert_int_equal(metric_value(COUNT_LEFT_OUT_SHARES), 0);
    assert_int_equal(metric_value(COUNT_LEFT_OUT_KUBELET), 0);
    assert_true(created(site));
    node_runs(site, 0);
    assert_int_equal(metric_value(COUNT_LEFT_OUT_VARIABLE), 0);
}

/* Both when it is made, and when it was made before. Pods of others go on. */
SITE_TEST(release__starts_no_share_while_the_driver_is_released)
{
    const struct nri_container container = MAIN("one", NRI_CREATED);
    const struct nri_container beside = {
        .id = TEXT("two"), .name = TEXT("beside"), .pod_id = TEXT("sandbox")};
    struct driver_release *release = driver_release_new(site->dir);
    const int64_t refusals = metric_value(COUNT_REFUSED);

    site->calls.release = release;
    signed_pod(site, ON("GPU-a"));
    assert_true(created(site));
    driver_release_label(release, TEXT("drain-required"));
    assert_int_equal(driver_release_turn(release, false), RELEASE_UPGRADE);
    refused(site,
            "milligpu: no container with a share of a GPU starts now: the NVIDIA driver of this "
            "node is being upgraded (label nvidia.com/gpu-driver-upgrade-state); will be "
            "retried automatically");
    assert_false(starts_container(site, &container));
    assert_says(site->err.text, "milligpu: no container with a share of a GPU starts");
    assert_int_equal(metric_value(COUNT_REFUSED), refusals + 2);
    assert_true(site->runtime.create(&site->calls, &site->pod, &beside, &site->out, &site->err) ==
                0); /* it has no share */
    driver_release_label(release, TEXT(""));
    assert_int_equal(driver_release_turn(release, false), RELEASE_NOT);
    assert_true(created(site));
    assert_true(starts_container(site, &container));
    site->calls.release = NULL;
    driver_release_free(release);
}

/* For /readyz: only shares that are left out of the table count. */
SITE_TEST(left_out__counts_only_shares_for_readiness)
{
    static char id[NODE_SHARES_MAX + 2][16];
    static struct nri_container runs[NODE_SHARES_MAX + 2];

    pod_signed(site, ON("GPU-a"));
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        (void)snprintf(id[i], sizeof id[i], "id%zu", i);
        runs[i] = (struct nri_container){.id = text_of(id[i]),
                                         .name = TEXT("main"),
                                         .pod_id = site->pod.id,
                                         .state = NRI_RUNNING};
    }
    lists(site, &site->pod, runs, NODE_SHARES_MAX, false);
    assert_int_equal(site->calls.left_out, 0);
    site->runtime.synchronize(&site->calls, &site->pod, 1, runs, ARRAY_LEN(runs), false);
    assert_int_equal(site->calls.left_out, 2);
    for (int i = 0; i < NODE_VARIABLES_MAX + 2; i++)
        (void)foreign_created(site, i, "NVIDIA_VISIBLE_DEVICES=GPU-b", true);
    node_runs(site, 0);
    assert_int_equal(metric_value(COUNT_LEFT_OUT_VARIABLE), 2);
    assert_int_equal(site->calls.left_out, 0);
}

/* A pod with a share of GPU-a gets GPU-b under another name; another pod has a share of it. */
SITE_TEST(create__compares_renamed_gpus_with_shares)
{
    const struct nri_device node = {TEXT("/dev/x1"), TEXT("c"), 195, 1};
    struct nri_container one = MAIN("one", NRI_CREATED);
    const struct nri_container two = MAIN_OF("two", "elsewhere", .state = NRI_CREATED);
    const struct nri_pod first = site->pod;
    site->calls.nvml = driver_open(site->dir, "gpu GPU-a NVIDIA_T4 16384\n"
                                              "gpu GPU-b NVIDIA_T4 16384\n");
    driver_await(site->calls.nvml, NVML_READY);
    node_runs(site, 0);
    site->pod.uid = TEXT("u2");
    site->pod.id = TEXT("elsewhere");
    pod_signed(site, ON("GPU-b"));
    assert_true(creates(site, &site->pod, &two));
    site->pod = first;
    pod_signed(site, ON("GPU-a"));
    one.n_devices = 1;
    one.device = &node;
    refuses(site, &site->pod, &one, "it would have GPU /dev/nvidia1 whole");
    one.n_devices = 0;
    assert_true(creates(site, &site->pod, &one));
    nvml_close(site->calls.nvml);
    site->calls.nvml = NULL;
}

SITE_TEST(synchronize__joins_the_pieces_of_a_list)
{
    const struct text env[] = {TEXT("NVIDIA_VISIBLE_DEVICES=GPU-b")};
    const struct nri_container runs = MAIN("one", NRI_RUNNING);
    const struct nri_container ended = MAIN("old", NRI_STOPPED);
    const struct nri_container other =
        MAIN_OF("two", "elsewhere", .state = NRI_RUNNING, .env = env, .n_envs = 1);
    pod_signed(site, ON("GPU-a"));
    lists(site, &site->pod, NULL, 0, true);
    lists(site, &foreign, &other, 1, true);
    assert_int_equal(table_of(site).count, 0);
    lists(site, NULL, (struct nri_container[]){ended, runs}, 2, false);
    table_is(site, "two variable GPU-b, one share GPU-a");
    const struct containers_copy copy = table_of(site);
    assert_true(copy.is_complete);
    assert_string_equal(copy.container[0].namespace, "ns");
    assert_int_equal(copy.container[1].gpu[0].milli, 300);
}

SITE_TEST(validate__judges_the_adjustments_of_all_plugins)
{
    const struct nri_container container = MAIN("", NRI_CREATED);
    struct text list[] = {TEXT("nvidia.com/gpu=GPU-a"), TEXT("nvidia.com/gpu=GPU-b")};
    struct nri_pair none[] = {{TEXT("NVIDIA_VISIBLE_DEVICES"), TEXT("void")}};
    struct nri_adjustment all = {.cdi_device = list, .n_cdi_devices = 1, .env = none, .n_envs = 1};
    signed_pod(site, ON("GPU-a"));
    assert_true(created(site));
    assert_int_equal(site->calls.validator, NRI_VALIDATOR_UNKNOWN);
    assert_true(validates(site, &container, &all, NRI_VALIDATOR_ON));
    assert_int_equal(site->calls.validator, NRI_VALIDATOR_ON);
    assert_int_equal(metric_value(COUNT_VALIDATOR_ON), 1);
    all.n_cdi_devices = 2;
    assert_false(validates(site, &container, &all, NRI_VALIDATOR_OFF));
    assert_says(site->err.text, "nvidia.com/gpu=GPU-b");
    all.n_cdi_devices = 0;
    assert_false(validates(site, &container, &all, NRI_VALIDATOR_OFF));
    assert_says(site->err.text, "without its GPU GPU-a");
    assert_int_equal(site->calls.validator, NRI_VALIDATOR_OFF);
    assert_int_equal(metric_value(COUNT_VALIDATOR_ON), 0);
    assert_int_equal(metric_value(COUNT_VALIDATOR_OFF), 1);
    /* A restarted runtime may have another configuration. */
    const struct nri_runtime runtime = {.name = TEXT("containerd"), .version = TEXT("v2.3.7")};
    uint32_t events = NRI_EVENTS;
    assert_int_equal(site->runtime.configure(&site->calls, &runtime, &events, &site->err), 0);
    assert_int_equal(site->calls.validator, NRI_VALIDATOR_UNKNOWN);
    assert_int_equal(metric_value(COUNT_VALIDATOR_OFF), 0);
}

/* NVIDIA's NRI plugin gave one of two pods with device nodes all of them, to look after. */
SITE_TEST(synchronize__skips_managers_of_gpus)
{
    struct nri_pair note[] = {
        {TEXT("nvidia.cdi.k8s.io/container.main"), TEXT("nvidia.com/gpu=1")},
        {TEXT("nvidia.cdi.k8s.io/pod"), TEXT("management.nvidia.com/gpu=all")}};
    const struct nri_device node = {TEXT("/dev/x1"), TEXT("c"), 195, 1};
    const struct nri_container container[] = {
        MAIN_OF("one", "p1", .state = NRI_RUNNING, .n_devices = 1, .device = &node),
        MAIN_OF("two", "p2", .state = NRI_RUNNING, .n_devices = 1, .device = &node)};
    const struct nri_pod pod[] = {
        {.id = TEXT("p1"), .uid = TEXT("u1"), .annotation = note, .n_annotations = 2},
        {.id = TEXT("p2"), .uid = TEXT("u2"), .annotation = note, .n_annotations = 1}};
    site->runtime.synchronize(&site->calls, pod, 2, container, 2, false);
    table_is(site, "two kubelet /dev/nvidia1");
}

/* Both kinds of annotations are kept of such a pod. */
SITE_TEST(synchronize__allows_a_manager_with_a_share)
{
    const struct nri_device node = {TEXT("/dev/x1"), TEXT("c"), 195, 1};
    const struct nri_container container =
        MAIN_OF("one", "sandbox", .state = NRI_RUNNING, .n_devices = 1, .device = &node);

    pod_signed(site, ON("GPU-a"));
    for (int i = 0; i < 2; i++) {
        lists(site, &site->pod, &container, 1, false);
        table_is(site, "one share GPU-a");
        assert_int_equal(table_of(site).container[0].n_whole, i == 0 ? 1 : 0);
        site->pair[site->pod.n_annotations++] =
            (struct nri_pair){TEXT("nvidia.cdi.k8s.io/pod"), TEXT("management.nvidia.com/gpu=all")};
    }
}

static bool allows_major(struct site *site, int64_t major)
{
    const struct nri_container container = MAIN("", NRI_CREATED);
    struct nri_device node = {TEXT("/dev/x"), TEXT("c"), major, 0};
    struct nri_adjustment all = {.n_devices = 1, .device = &node};
    return validates(site, &container, &all, NRI_VALIDATOR_ON);
}

/* The kernel gives the driver's other modules numbers when they are loaded. */
SITE_TEST(gpu_major__is_read_from_proc_devices)
{
    node_runs(site, 0);
    site->calls.proc_dir = site->dir;
    assert_false(allows_major(site, 195));
    assert_true(allows_major(site, 511)); /* nothing can be read */
    file_put(site->dir, "devices",
             "Character devices:\n  1 mem\n195 nvidia\n508 nvidia-uvm\n511 nvidia-caps\n\n"
             "Block devices:\n259 blkext\n253 nvidia-disk\n");
    assert_false(allows_major(site, 511));
    assert_false(allows_major(site, 508));
    assert_true(allows_major(site, 1));
    assert_true(allows_major(site, 51));
    assert_true(allows_major(site, 253));
    file_put(site->dir, "devices", "Character devices:\n511 other\n"); /* unloaded */
    assert_true(allows_major(site, 511));
}

SITE_TEST(configure__asks_for_what_the_runtime_supports)
{
    const struct nri_runtime old = {TEXT("containerd"), TEXT("v2.0.5"), TEXT("")};
    const struct nri_runtime open = {TEXT("containerd"), TEXT("v2.1.6"), TEXT("")};
    const struct nri_runtime closed = {TEXT("containerd"), TEXT("v2.3.7"), TEXT("")};
    uint32_t events = NRI_EVENTS;
    assert_true(site->runtime.configure(&site->calls, &old, &events, &site->err) < 0);
    assert_int_equal(site->runtime.configure(&site->calls, &open, &events, &site->err), 0);
    assert_int_equal(events, NRI_EVENTS & ~(NRI_VALIDATE_ADJUSTMENT | NRI_REMOVE_CONTAINER));
    events = NRI_EVENTS;
    assert_int_equal(site->runtime.configure(&site->calls, &closed, &events, &site->err), 0);
    assert_int_equal(events, NRI_EVENTS & ~NRI_REMOVE_CONTAINER);
    assert_string_equal(site->calls.runtime, "containerd v2.3.7");
}

SITE_TEST(metrics__name_each_family_once)
{
    SCOPED_STRBUF(out);
    metric_expose(&out, node_metrics, METRIC_PLAIN);
    const char *first = strstr(out.data, "# TYPE milligpu_node_containers_total counter\n");
    assert_non_null(first);
    assert_null(strstr(first + 1, "# TYPE milligpu_node_containers_total"));
    assert_non_null(strstr(out.data, "\nmilligpu_node_containers_total{outcome=\"refused\"} "));
    assert_non_null(strstr(out.data, "\nmilligpu_node_connected 0\n"));
}
