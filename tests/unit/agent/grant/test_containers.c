/* containers - the table of a node's containers and their GPUs. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "agent/grant/containers.h"
#include "support/scoped.h"
#include "support/test.h"

struct site {
    struct containers *containers;
    struct arena arena;
    struct containers_copy copy;
};

static const struct nri_pod pod = {
    .uid = TEXT("uid"), .name = TEXT("web"), .namespace = TEXT("shop")};
static const struct grant foreign = {.verdict = GRANT_FOREIGN};

static const struct pod_share share_a = {.gpu = "GPU-a", .milli = 300, .mib = 4915};
static const struct pod_share *only_a[] = {&share_a};
static const struct grant granted_a = {.verdict = GRANT_GPUS, .n_shares = 1, .share = only_a};

static int set_up(void **state)
{
    struct site *site = test_calloc(1, sizeof *site);
    arena_init(&site->arena);
    site->containers = containers_new();
    containers_begin(site->containers);
    containers_complete(site->containers);
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    containers_free(site->containers);
    arena_done(&site->arena);
    test_free(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

static const struct containers_copy *look(struct site *site)
{
    containers_copy(site->containers, &site->arena, &site->copy);
    return &site->copy;
}

static enum containers_added add(struct site *site, const char *id, const char *name,
                                 const struct grant *grant)
{
    enum container_right right;
    const struct text env[] = {TEXT("NVIDIA_VISIBLE_DEVICES=0")};
    const struct nri_container container = {
        .id = text_of(id), .name = text_of(name), .env = env, .n_envs = 1};
    return containers_add(site->containers, &pod, &container, grant, &right);
}

static void adds(struct site *site, const struct nri_container *container,
                 const struct grant *grant, enum container_right expected,
                 enum containers_added outcome)
{
    enum container_right right = CONTAINER_RIGHTS;
    assert_int_equal(containers_add(site->containers, &pod, container, grant, &right), outcome);
    assert_int_equal(right, expected);
}

SITE_TEST(containers__record_what_was_granted)
{
    const struct pod_share b = {.gpu = "GPU-b", .milli = 1000};
    const struct pod_share *share[] = {&share_a, &b};
    const struct grant grant = {.verdict = GRANT_GPUS, .n_shares = 2, .share = share};
    const struct nri_container container = {.id = TEXT("0123"),
                                            .name = TEXT("main"),
                                            .state = NRI_RUNNING,
                                            .cgroups_path = TEXT("/kubepods/pod1/0123")};
    adds(site, &container, &grant, RIGHT_SHARE, CONTAINERS_KEPT);
    const struct containers_copy *copy = look(site);
    assert_int_equal(copy->count, 1);
    const struct container_facts *facts = &copy->container[0];
    assert_string_equal(facts->id, "0123");
    assert_string_equal(facts->uid, "uid");
    assert_string_equal(facts->namespace, "shop");
    assert_string_equal(facts->pod, "web");
    assert_string_equal(facts->name, "main");
    assert_string_equal(facts->cgroup, "/kubepods/pod1/0123");
    assert_int_equal(facts->right, RIGHT_SHARE);
    assert_true(facts->is_running);
    assert_int_equal(facts->n_gpus, 2);
    assert_string_equal(facts->gpu[0].name, "GPU-a");
    assert_int_equal(facts->gpu[0].milli, 300);
    assert_int_equal(facts->gpu[0].mib, 4915);
    assert_int_equal(facts->gpu[1].mib, 0);
}

/* A container with 100 or 600 milli of GPU-a, by its name. */
static void shares(struct site *site, const char *uid, const char *id, const char *name,
                   enum nri_state is)
{
    const struct nri_pod owner = {.uid = text_of(uid), .name = TEXT("web")};
    const struct nri_container one = {.id = text_of(id), .name = text_of(name), .state = is};
    const struct pod_share side = {.gpu = "GPU-a", .milli = 100};
    const struct pod_share big = {.gpu = "GPU-a", .milli = 600};
    const struct pod_share *share[] = {strcmp(name, "side") == 0 ? &side : &big};
    const struct grant grant = {.verdict = GRANT_GPUS, .n_shares = 1, .share = share};
    enum container_right right;

    assert_int_equal(containers_add(site->containers, &owner, &one, &grant, &right),
                     CONTAINERS_KEPT);
}

/* "id=100 id=700": the peak of the pod of each; "-": has ended, "<": has a successor. */
static void assert_had(struct site *site, const char *expected)
{
    const struct containers_copy *copy = look(site);
    char had[200] = "";

    for (uint32_t i = 0; i < copy->count; i++) {
        const struct container_facts *facts = &copy->container[i];
        (void)snprintf(had + strlen(had), sizeof had - strlen(had), "%s%s%s%s=%u", i > 0 ? " " : "",
                       facts->has_successor ? "<" : "", facts->has_ended ? "-" : "", facts->id,
                       (unsigned)facts->gpu[0].pod_milli);
    }
    assert_string_equal(had, expected);
}

SITE_TEST(pod_peak__is_the_sum_of_containers_that_ran_together)
{
    struct containers *containers = site->containers;

    shares(site, "x", "1", "side", NRI_CREATED);
    shares(site, "x", "2", "main", NRI_CREATED);
    shares(site, "y", "3", "main", NRI_CREATED);
    assert_had(site, "1=0 2=0 3=0");
    containers_started(containers, TEXT("1"));
    containers_started(containers, TEXT("3"));
    assert_had(site, "1=100 2=0 3=600");
    containers_started(containers, TEXT("2"));
    assert_had(site, "1=700 2=700 3=600");
    containers_stopped(containers, TEXT("2"));
    shares(site, "x", "4", "more", NRI_CREATED);
    containers_stopped(containers, TEXT("4")); /* it was not started */
    assert_had(site, "1=700 -2=700 3=600 -4=0");
    shares(site, "x", "5", "side", NRI_CREATED);
    containers_stopped(containers, TEXT("1"));
    containers_started(containers, TEXT("5"));
    assert_had(site, "<-1=700 -2=700 3=600 -4=0 5=100");
    shares(site, "x", "6", "main",
           NRI_RUNNING); /* a created container does not run, whatever its state says */
    assert_had(site, "<-1=700 3=600 -4=0 5=100 6=0");
}

SITE_TEST(pod_peak__never_falls_when_a_container_restarts)
{
    struct containers *containers = site->containers;

    shares(site, "x", "1", "side", NRI_CREATED);
    containers_started(containers, TEXT("1"));
    shares(site, "x", "2", "main", NRI_CREATED);
    containers_started(containers, TEXT("2"));
    containers_stopped(containers, TEXT("2"));
    shares(site, "x", "3", "side", NRI_CREATED);
    containers_started(containers, TEXT("3"));
    assert_had(site, "<1=700 -2=700 3=100");
    shares(site, "y", "4", "side", NRI_CREATED);
    shares(site, "x", "5", "other", NRI_CREATED);
    assert_had(site, "<1=700 -2=700 3=100 4=0 5=0");
    containers_gone(containers, TEXT("3")); /* not made after all */
    assert_had(site, "1=700 -2=700 4=0 5=0");
}

SITE_TEST(pod_peak__is_taken_from_a_list_of_running_containers)
{
    containers_begin(site->containers);
    shares(site, "x", "1", "side", NRI_RUNNING);
    shares(site, "y", "2", "main", NRI_PAUSED);
    shares(site, "x", "3", "main", NRI_RUNNING);
    shares(site, "x", "4", "more", NRI_CREATED);
    containers_complete(site->containers);
    assert_had(site, "1=700 2=600 3=700 4=0");
}

/* The GPUs of a foreign container, in a line: "right name,name"; "" if it holds none. */
static const char *held_by(struct site *site, const struct nri_pod *owner,
                           const struct nri_container *container)
{
    static const char *const right[] = {"share", "kubelet", "variable"};
    static char line[400];
    size_t len = 0;
    enum container_right found;
    (void)containers_add(site->containers, owner, container, &foreign, &found);
    const struct containers_copy *copy = look(site);
    line[0] = '\0';
    for (uint32_t i = 0; copy->count > 0 && i < copy->container[0].n_gpus; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%s",
                                i == 0 ? right[copy->container[0].right] : "", i == 0 ? " " : ",") +
               (size_t)snprintf(line + strlen(line), sizeof line - strlen(line), "%s",
                                copy->container[0].gpu[i].name);
    containers_gone(site->containers, container->id);
    return line;
}

static const char *held(struct site *site, const struct nri_container *container)
{
    return held_by(site, &pod, container);
}

static void by_variable(struct site *site, const char *first, const char *last,
                        const char *expected)
{
    const struct text env[] = {text_of(first), TEXT("PATH=/"), text_of(last)};
    assert_string_equal(
        held(site, &(struct nri_container){.id = TEXT("x"), .env = env, .n_envs = 3}), expected);
}

SITE_TEST(containers__read_the_gpus_of_the_variable)
{
    static const char *const nothing[] = {"all", "void", "none", "", "GPU-\\..,1000,-1,0x1, ,GPU"};
    char env[200];
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        (void)snprintf(env, sizeof env, "NVIDIA_VISIBLE_DEVICES=%s", nothing[i]);
        by_variable(site, "A=1", env, "");
    }
    by_variable(site, "A=1", "NVIDIA_VISIBLE_DEVICES=GPU-a, 1,GPU-a,MIG-b",
                "variable GPU-a,1,MIG-b");
    by_variable(site, "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=GPU-a",
                "variable GPU-a");
    by_variable(site, "NVIDIA_VISIBLE_DEVICES=GPU-a", "NVIDIA_VISIBLE_DEVICES=void", "");
}

static void by_kubelet(struct site *site, const char *first, const char *second,
                       const char *expected)
{
    const struct text env[] = {TEXT("NVIDIA_VISIBLE_DEVICES=5")};
    const struct text cdi[] = {text_of(first), text_of(second)};
    const struct nri_device node[] = {{TEXT("/dev/nvidiactl"), TEXT("c"), 195, 255},
                                      {TEXT("/dev/x"), TEXT("c"), 195, 3},
                                      {TEXT("/dev/nvidia"), TEXT("c"), 1, 3},
                                      {TEXT("/dev/nvidia-uvm"), TEXT("c"), 509, 0},
                                      {TEXT("/dev/nvidia12"), TEXT("c"), 1, 3}};
    assert_string_equal(held(site, &(struct nri_container){.id = TEXT("x"),
                                                           .env = env,
                                                           .n_envs = 1,
                                                           .cdi_device = cdi,
                                                           .n_cdi_devices = 2,
                                                           .device = node,
                                                           .n_devices = ARRAY_LEN(node)}),
                        expected);
}

SITE_TEST(containers__prefer_kubelet_devices_to_the_variable)
{
    by_kubelet(site, "nvidia.com/gpu=GPU-a", "nvidia.com/gpu=1", "kubelet GPU-a,1");
    by_kubelet(site, "k8s.device-plugin.nvidia.com/gpu=GPU-b", "x",
               "kubelet GPU-b,/dev/nvidia3,/dev/nvidia12");
    by_kubelet(site, "k8s.gpu.nvidia.com/claim=0123-gpu", "", "kubelet /dev/nvidia3,/dev/nvidia12");
    by_kubelet(site, "nvidia.com/gpu=all", "", "kubelet /dev/nvidia3,/dev/nvidia12");
    /* More than the names say: a device of another vendor is a GPU under another name. */
    by_kubelet(site, "nvidia.com/gpu=GPU-a", "vendor.com/nic=0",
               "kubelet GPU-a,/dev/nvidia3,/dev/nvidia12");
    by_kubelet(site, "vendor.com/nic=0", "gpu", "kubelet /dev/nvidia3,/dev/nvidia12");
    /* A device that no kind of ours has. */
    by_kubelet(site, "management.nvidia.com/gpu=all", "", "variable 5");
}

/* Only the node of one GPU, by its numbers, is in the container. */
static void by_node(struct site *site, const char *path, const char *type, int64_t major,
                    int64_t minor, const char *expected)
{
    const struct nri_device node = {text_of(path), text_of(type), major, minor};
    assert_string_equal(
        held(site, &(struct nri_container){.id = TEXT("x"), .device = &node, .n_devices = 1}),
        expected);
}

SITE_TEST(containers__know_a_gpu_by_its_device_numbers)
{
    by_node(site, "/dev/x1", "c", 195, 1, "kubelet /dev/nvidia1");
    by_node(site, "/dev/nvidia7", "c", 195, 1, "kubelet /dev/nvidia1");
    by_node(site, "/dev/x1", "u", 195, 0, "kubelet /dev/nvidia0");
    by_node(site, "/dev/x1", "c", 195, 253, "kubelet /dev/nvidia253");
    by_node(site, "/dev/x1", "c", 195, 254, "");
    by_node(site, "/dev/x1", "c", 195, 255, "");
    by_node(site, "/dev/x1", "c", 195, -1, "");
    by_node(site, "/dev/x1", "b", 195, 1, "");
    by_node(site, "/dev/x1", "c", 196, 1, "");
}

SITE_TEST(containers__keep_kubelet_devices_beside_a_share)
{
    const struct text named = TEXT("nvidia.com/gpu=GPU-b");
    const struct nri_device node[] = {{TEXT("/dev/x1"), TEXT("c"), 195, 1},
                                      {TEXT("/dev/x2"), TEXT("c"), 195, 2}};
    struct nri_container container = {
        .id = TEXT("x"), .cdi_device = &named, .n_cdi_devices = 1, .device = node, .n_devices = 2};
    adds(site, &container, &granted_a, RIGHT_SHARE, CONTAINERS_KEPT);
    const struct container_facts *facts = &look(site)->container[0];
    assert_int_equal(facts->right, RIGHT_SHARE);
    assert_int_equal(facts->n_gpus, 1);
    assert_string_equal(facts->gpu[0].name, "GPU-a");
    assert_int_equal(facts->gpu[0].milli, 300);
    assert_int_equal(facts->n_whole, 3);
    assert_string_equal(facts->whole[0].name, "GPU-b");
    assert_string_equal(facts->whole[2].name, "/dev/nvidia2");
    adds(site, &container, &foreign, RIGHT_KUBELET, CONTAINERS_KEPT);
    facts = &look(site)->container[0];
    assert_int_equal(facts->right, RIGHT_KUBELET);
    assert_int_equal(facts->n_gpus, 3);
    assert_int_equal(facts->n_whole, 3);
    assert_string_equal(facts->whole[2].name, "/dev/nvidia2");
    (void)add(site, "x", "main", &foreign); /* by a variable */
    assert_int_equal(look(site)->container[0].n_gpus, 1);
    assert_int_equal(site->copy.container[0].n_whole, 0);
}

static void is_held(struct site *site, const struct nri_pod *owner,
                    const struct nri_container *container, const char *expected)
{
    assert_string_equal(held_by(site, owner, container), expected);
}

/* They have the nodes of all GPUs, and would close each node on which they run. */
SITE_TEST(containers__skip_managers_of_all_gpus)
{
    static const struct nri_device_rule all[] = {
        {true, TEXT(""), NRI_ANY_NUMBER, NRI_ANY_NUMBER, TEXT("rwm")},
        {true, TEXT("a"), NRI_ANY_NUMBER, NRI_ANY_NUMBER, TEXT("rwm")},
        {false, TEXT(""), NRI_ANY_NUMBER, NRI_ANY_NUMBER, TEXT("rwm")},
        {true, TEXT("c"), NRI_ANY_NUMBER, NRI_ANY_NUMBER, TEXT("rwm")},
        {true, TEXT(""), 1, NRI_ANY_NUMBER, TEXT("rwm")},
    };
    const struct nri_device node = {TEXT("/dev/nvidia1"), TEXT("c"), 195, 1};
    const struct text named = TEXT("nvidia.com/gpu=all");
    struct nri_pair note = {TEXT("nvidia.cdi.k8s.io/pod"), TEXT("management.nvidia.com/gpu=all")};
    struct nri_pod operators = pod;
    struct nri_container container = {
        .id = TEXT("x"), .device = &node, .n_devices = 1, .n_rules = 1, .cdi_device = &named};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        container.rule = &all[i];
        is_held(site, &pod, &container, i < 2 ? "" : "kubelet /dev/nvidia1");
    }
    container.rule = all;
    container.n_cdi_devices = 1; /* it asked for them, too */
    is_held(site, &pod, &container, "kubelet /dev/nvidia1");
    container.n_cdi_devices = 0;
    container.n_rules = 0;
    operators.annotation = &note;
    operators.n_annotations = 1;
    is_held(site, &operators, &container, "");
    note.value = TEXT("nvidia.com/gpu=all");
    is_held(site, &operators, &container, "kubelet /dev/nvidia1");
    note = (struct nri_pair){TEXT("note"), TEXT("management.nvidia.com/gpu=all")};
    is_held(site, &operators, &container, "kubelet /dev/nvidia1");
}

SITE_TEST(containers__show_a_list_when_it_is_complete)
{
    (void)add(site, "old", "a", &foreign);
    const uint64_t before = look(site)->number;
    containers_begin(site->containers);
    (void)add(site, "new", "a", &foreign);
    (void)add(site, "more", "b", &foreign);
    containers_started(site->containers, TEXT("more"));
    assert_int_equal(look(site)->count, 1);
    assert_string_equal(site->copy.container[0].id, "old");
    containers_complete(site->containers);
    assert_int_equal(look(site)->count, 2);
    assert_string_equal(site->copy.container[0].id, "new");
    assert_true(site->copy.container[1].is_running);
    assert_true(site->copy.number != before);
}

SITE_TEST(containers__keep_the_last_list_after_a_lost_connection)
{
    (void)add(site, "one", "a", &foreign);
    containers_begin(site->containers);
    (void)add(site, "half", "a", &foreign);
    containers_lost(site->containers);
    containers_lost(site->containers);
    assert_false(look(site)->is_complete);
    assert_int_equal(site->copy.count, 1);
    containers_begin(site->containers);
    assert_false(look(site)->is_complete);
    containers_complete(site->containers);
    assert_true(look(site)->is_complete);
    assert_int_equal(site->copy.count, 0);
}

SITE_TEST(containers__replace_an_earlier_attempt)
{
    (void)add(site, "first", "a", &foreign);
    (void)add(site, "second", "a", &foreign);
    assert_int_equal(look(site)->count, 1);
    assert_string_equal(site->copy.container[0].id, "second");
    containers_started(site->containers, TEXT("second"));
    containers_started(site->containers, TEXT("nobody"));
    (void)add(site, "third", "a", &foreign); /* the second did not end yet */
    assert_int_equal(look(site)->count, 2);
    (void)add(site, "third", "a", &foreign);
    assert_int_equal(look(site)->count, 2);
    containers_gone(site->containers, TEXT("second"));
    containers_gone(site->containers, TEXT("second"));
    assert_int_equal(look(site)->count, 1);
    assert_string_equal(site->copy.container[0].id, "third");
}

/* A container with a share of GPU-a, with a device of kubelet, or with a variable. */
static enum containers_added add_of(struct site *site, enum container_right right, int number)
{
    const struct text device[] = {TEXT("nvidia.com/gpu=0")};
    const struct text env[] = {TEXT("NVIDIA_VISIBLE_DEVICES=0")};
    enum container_right found = CONTAINER_RIGHTS;
    char id[32];

    (void)snprintf(id, sizeof id, "%d-%d", (int)right, number);
    const struct nri_container container = {.id = text_of(id),
                                            .name = text_of(id),
                                            .env = env,
                                            .n_envs = 1,
                                            .cdi_device = device,
                                            .n_cdi_devices = right == RIGHT_KUBELET};
    const enum containers_added added = containers_add(
        site->containers, &pod, &container, right == RIGHT_SHARE ? &granted_a : &foreign, &found);
    assert_int_equal(found, right);
    return added;
}

static const int most[] = {[RIGHT_SHARE] = NODE_SHARES_MAX,
                           [RIGHT_KUBELET] = NODE_KUBELETS_MAX,
                           [RIGHT_VARIABLE] = NODE_VARIABLES_MAX};

/* Anybody may make containers with a variable. */
SITE_TEST(containers__have_separate_rows_for_each_right)
{
    for (int right = CONTAINER_RIGHTS - 1; right >= 0; right--) {
        for (int i = 0; i < most[right]; i++)
            assert_int_equal(add_of(site, (enum container_right)right, i), CONTAINERS_KEPT);
        for (int i = 0; i < 3; i++)
            assert_int_equal(add_of(site, (enum container_right)right, most[right] + i),
                             CONTAINERS_FULL);
        assert_int_equal(add_of(site, (enum container_right)right, 0), CONTAINERS_KEPT); /* again */
    }
    assert_int_equal(look(site)->count, NODE_CONTAINERS_MAX);
    for (int right = 0; right < CONTAINER_RIGHTS; right++)
        assert_int_equal(site->copy.left_out[right], 0); /* they are refused */
    containers_gone(site->containers, TEXT("2-7"));
    assert_int_equal(add_of(site, RIGHT_VARIABLE, -1), CONTAINERS_KEPT);
    assert_int_equal(add_of(site, RIGHT_VARIABLE, -2), CONTAINERS_FULL);
}

SITE_TEST(containers__count_running_ones_without_a_row)
{
    containers_begin(site->containers);
    for (int right = 0; right < CONTAINER_RIGHTS; right++)
        for (int i = 0; i < most[right] + 1 + right; i++)
            (void)add_of(site, (enum container_right)right, i);
    containers_complete(site->containers);
    assert_int_equal(look(site)->count, NODE_CONTAINERS_MAX);
    for (uint32_t right = 0; right < CONTAINER_RIGHTS; right++)
        assert_int_equal(site->copy.left_out[right], 1 + right);
    containers_begin(site->containers);
    containers_complete(site->containers);
    for (int right = 0; right < CONTAINER_RIGHTS; right++)
        assert_int_equal(look(site)->left_out[right], 0);
}

/* It would be compared with both sides. */
SITE_TEST(containers__count_a_share_with_a_whole_gpu_for_both_rights)
{
    const struct text device[] = {TEXT("nvidia.com/gpu=1")};
    const struct nri_container container = {
        .id = TEXT("x"), .name = TEXT("x"), .cdi_device = device, .n_cdi_devices = 1};

    containers_begin(site->containers);
    for (int i = 0; i < NODE_SHARES_MAX; i++)
        (void)add_of(site, RIGHT_SHARE, i);
    adds(site, &container, &granted_a, RIGHT_SHARE, CONTAINERS_FULL);
    containers_complete(site->containers);
    assert_int_equal(look(site)->left_out[RIGHT_SHARE], 1);
    assert_int_equal(site->copy.left_out[RIGHT_KUBELET], 1);
    assert_int_equal(site->copy.left_out[RIGHT_VARIABLE], 0);
}

/* For the thread sanitizer; a torn copy would have other ids. */
static void *copy_often(void *user)
{
    SCOPED_ARENA(arena);
    struct containers_copy copy;
    for (int i = 0; i < 2000; i++) {
        arena_reset(&arena);
        containers_copy(user, &arena, &copy);
        for (uint32_t j = 0; j < copy.count; j++)
            must(strncmp(copy.container[j].id, "id-", 3) == 0);
    }
    return NULL;
}

SITE_TEST(containers__copy_while_another_thread_changes_them)
{
    pthread_t thread;
    char id[32];
    assert_int_equal(pthread_create(&thread, NULL, copy_often, site->containers), 0);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(id, sizeof id, "id-%d", i % 20);
        if (i % 100 == 0)
            containers_begin(site->containers);
        (void)add(site, id, id, &foreign);
        containers_started(site->containers, text_of(id));
        if (i % 3 == 0)
            containers_gone(site->containers, text_of(id));
        if (i % 100 == 99)
            containers_complete(site->containers);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}
