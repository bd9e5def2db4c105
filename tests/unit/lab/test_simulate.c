#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/ledger.h"

#include "lab/simulate/simulate.h"
#include "support/folder.h"
#include "support/scoped.h"
#include "support/shown.h"
#include "support/test.h"
#include "support/valid.h"

static struct err err; /* of the latest call */

#define NODE_HEAD "sn,cpu_milli,memory_mib,gpu,model\n"
#define POD_HEAD  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"

static char folder[32];
static char nodes_file[64];
static char pods_file[64];
static char out_file[64];
static struct shown shown;
static struct world world;

static int set_up(void **state __attribute__((unused)))
{
    folder_make(folder, sizeof folder);
    (void)snprintf(nodes_file, sizeof nodes_file, "%s/n", folder);
    (void)snprintf(pods_file, sizeof pods_file, "%s/a", folder);
    (void)snprintf(out_file, sizeof out_file, "%s/out", folder);
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    folder_remove(folder);
    return 0;
}

/* The bytes that one run writes to the file of this option. */
static char *written_by(const char *option, const char *policy, const char *nodes, const char *pods)
{
    char words[512];

    write_file(nodes_file, nodes);
    write_file(pods_file, pods);
    (void)snprintf(words, sizeof words, "simulate --nodes %s --arrivals %s --policy %s %s %s",
                   nodes_file, pods_file, policy, option, out_file);
    const int status = run_program(&shown, words);
    if (status != CTL_FINE)
        fail_msg("%d: %s", status, shown.err);
    shown_free(&shown);
    return file_text(folder, "out");
}

static void expect_written(const char *option, const char *policy, const char *nodes,
                           const char *pods, const char *expected)
{
    char *written = written_by(option, policy, nodes, pods);
    assert_string_equal(written, expected);
    xfree(written);
}

TEST(policy__binpack_takes_the_tightest_gpu_and_spread_the_emptiest)
{
    static const char nodes[] = NODE_HEAD "a,8000,1000,2,T4\n"
                                          "b,8000,1000,2,T4\n";
    static const char pods[] = POD_HEAD "p,1000,10,1,600,\n"
                                        "q,1000,10,1,400,\n"
                                        "r,1000,10,1,300,\n"
                                        "s,1000,10,2,1000,\n"
                                        "t,1000,10,1,800,\n";
    static const char packed[] = "p,a,0\nq,a,0\nr,a,1\ns,b,0|1\nt,,\n";
    static const char spread[] = "p,a,0\nq,b,0\nr,b,1\ns,,\nt,a,1\n";

    expect_written("--placements", "binpack", nodes, pods, packed);
    expect_written("--placements", "spread", nodes, pods, spread);
}

TEST(fit__depends_on_cpu_memory_and_model)
{
    static const char nodes[] = NODE_HEAD "a,2000,1000,1,T4\n"
                                          "b,9000,100,1,NVIDIA A100\n"
                                          "c,9000,1000,1,G2\n";
    static const char pods[] = POD_HEAD "cpu,3000,500,1,100,\n"
                                        "model,1000,10,1,100,t4|A10\n"
                                        "glob,1000,10,1,100,A1*\n"
                                        "memory,1000,101,1,100,A100\n"
                                        "full,1500,10,1,100,T4\n"
                                        "either,0,0,1,900,G2|T4\n"
                                        "either,0,0,1,900,T4|G2\n"
                                        "either,0,0,1,900,G2|T4\n";

    expect_written("--placements", "binpack", nodes, pods,
                   "cpu,c,0\nmodel,a,0\nglob,b,0\nmemory,,\nfull,,\neither,a,0\neither,c,0\n"
                   "either,,\n");
}

TEST(fit__of_a_pod_without_gpus_needs_cpu_and_memory)
{
    static const char nodes[] = NODE_HEAD "plain,1000,10,0,\n"
                                          "gpus,2000,100,1,T4\n";
    static const char pods[] = POD_HEAD "large,2000,10,0,0,\n"
                                        "small,1000,10,0,0,\n"
                                        "none,1,1,0,0,\n"
                                        "gpu,0,0,1,1000,\n"
                                        "late,1,0,1,1,\n";

    for (int i = 0; i < POLICIES; i++)
        expect_written("--placements", policy_name((enum policy_kind)i), nodes, pods,
                       "large,gpus,\nsmall,plain,\nnone,,\ngpu,gpus,0\nlate,,\n");
}

TEST(fit__shares_each_of_several_gpus)
{
    static const char nodes[] = NODE_HEAD "a,9000,1000,3,T4\n";
    static const char pods[] = POD_HEAD "p,0,0,2,500,\n"
                                        "q,0,0,3,500,\n"
                                        "r,0,0,3,100,\n";

    expect_written("--placements", "binpack", nodes, pods, "p,a,0|1\nq,a,0|1|2\nr,,\n");
}

/* 1,000 milli of capacity: one milli is 0.1 %; the second and the third arrival round to 2 %. */
TEST(curve__has_the_mean_of_each_percent)
{
    static const char nodes[] = NODE_HEAD "a,5,5,1,T4\n";
    static const char pods[] = POD_HEAD "p,1,0,1,10,\n"
                                        "q,1,0,1,5,\n"
                                        "r,1,0,1,9,\n"
                                        "s,9,0,1,976,\n";

    expect_written("--csv", "binpack,spread", nodes, pods,
                   "policy,load_percent,allocated_percent\n"
                   "binpack,1,1.0000\n"
                   "binpack,2,1.9500\n"
                   "binpack,100,2.4000\n"
                   "spread,1,1.0000\n"
                   "spread,2,1.9500\n"
                   "spread,100,2.4000\n");
}

/* The report has these members, which are separated by semicolons. */
static void reports(const char *nodes, const char *pods, const char *members)
{
    char words[512];
    char part[128];
    struct text rest = text_of(members);
    struct text member;

    write_file(nodes_file, nodes);
    write_file(pods_file, pods);
    (void)snprintf(words, sizeof words,
                   "simulate --nodes %s --arrivals %s --policy binpack -o json", nodes_file,
                   pods_file);
    assert_int_equal(run_program(&shown, words), CTL_FINE);
    while (text_cut(&rest, ';', &member)) {
        text_clip(member, part, sizeof part);
        if (strstr(shown.out, part) == NULL)
            fail_msg("%s is missing: %s", part, shown.out);
    }
    shown_free(&shown);
}

TEST(report__counts_refusals)
{
    reports(NODE_HEAD "a,10,10,2,T4\nb,10,10,2,G2\n",
            POD_HEAD "p,0,0,1,100,T4\nq,0,0,2,1000,G2\nr,0,0,2,500,G2\ns,0,0,1,1000,T4\n"
                     "s,0,0,0,0,\n",
            "\"gpus\": 4;\"arrivals\": 5;\"loadPercent\": 102.5000;\"allocatedPercent\": 77.5000;"
            "\"idlePercent\": 22.5000;\"strandedPercent\": 0.0000;\"refused\": 1,;"
            "\"multiArrived\": 2,;\"multiRefused\": 1,;"
            "\"firstMultiRefusalLoadPercent\": 77.5000;\"demandRefusedPercent\": 24.3902;"
            "\"multiRefusedPercent\": 50.0000;"
            "\"shape\": \"2 x 500 milli of G2, 0m CPU, 0 MiB\";\"source\": \"arrivals\";"
            "\"shapes\": 5");
}

/* 400 and 1000 are free at the end on a, 300 and 1000 on b, nothing on c. */
TEST(stranded__is_unusable_by_any_arriving_pod)
{
    /* a: 400 (too little for 600). b: nothing, because 100 fits on both of its GPUs. */
    reports(NODE_HEAD "a,10,10,2,T4\nb,1,1,2,G2\nc,10,10,1,A10\n",
            POD_HEAD "p,0,0,1,600,T4\np,0,0,1,100,A10\np,0,0,1,900,A10\nq,0,0,1,100,G2\n"
                     "q,1,0,1,600,G2\nq,1,0,2,500,G2\n",
            "\"idlePercent\": 54.0000;\"strandedPercent\": 8.0000");
}

/* The report of a run with --churn about one policy, without the times. */
static char *churned(const char *more)
{
    char words[512];

    (void)snprintf(words, sizeof words,
                   "simulate --nodes %s --arrivals %s --policy binpack --churn 50 %s -o json",
                   nodes_file, pods_file, more);
    const int status = run_program(&shown, words);
    if (status != CTL_FINE)
        fail_msg("%d: %s", status, shown.err);
    char *end = strstr(shown.out, "\"decisionMeanUs\"");
    assert_non_null(end);
    *end = '\0';
    char *text = xstrdup(shown.out);
    shown_free(&shown);
    return text;
}

TEST(churn__ends_pods_so_that_others_fit)
{
    write_file(nodes_file, NODE_HEAD "a,100,100,2,T4\n");
    write_file(pods_file, POD_HEAD "p,50,50,1,700,\nq,50,50,1,600,\n");
    char *once = churned("--events 100");
    char *again = churned("--events 100");
    char *other = churned("--events 100 --seed 1");
    /* The cap leaves one pod, and beside one pod there is always room for another. */
    assert_non_null(strstr(once, "\"arrived\": 50,"));
    assert_non_null(strstr(once, "\"refused\": 0,"));
    assert_non_null(strstr(once, "\"churnPercent\": 50"));
    assert_string_equal(once, again);
    assert_string_not_equal(once, other);
    xfree(once);
    xfree(again);
    xfree(other);
}

TEST(churn__counts_an_unreachable_cap_as_refusals)
{
    write_file(nodes_file, NODE_HEAD "a,100,100,2,T4\n");
    write_file(pods_file, POD_HEAD "p,100,100,1,500,\n");
    char *said = churned("--events 10");
    assert_non_null(strstr(said, "\"allocatedPercent\": 25.0000"));
    assert_non_null(strstr(said, "\"refused\": 5,"));
    assert_non_null(strstr(said, "\"demandRefusedPercent\": 100.0000"));
    xfree(said);
}

static const char cluster_text[] =
    "kind: Node\n"
    "metadata: {name: a, labels: {nvidia.com/gpu.count: '2', nvidia.com/gpu.product: T4}}\n"
    "status: {allocatable: {cpu: '4', memory: 2Gi}}\n"
    "---\n"
    "kind: Pod\n"
    "metadata: {name: p}\n"
    "spec:\n"
    "  nodeName: a\n"
    "  containers:\n"
    "  - {name: c, resources: {limits: {nvidia.com/vgpu: 300, cpu: 1500m, memory: 1Gi}}}\n";

TEST(cluster__begins_with_what_its_pods_hold)
{
    SCOPED_ARENA(arena);

    write_file(nodes_file, cluster_text);
    world_init(&world);
    assert_int_equal(world_read_cluster(&world, nodes_file, stderr, &err), 0);
    assert_int_equal(world.n_nodes, 1);
    assert_int_equal(world.n_gpus, 2);
    assert_int_equal(world.gpu_milli, 2000);
    assert_int_equal(world.n_held, 1);
    assert_int_equal(world.node[0].host.cpu_milli, 2500);
    assert_int_equal(world.node[0].host.memory_mib, 1024);

    struct ledger *ledger = ledger_new();
    assert_int_equal(simulate_fill(ledger, &world, &arena), 300);
    ledger_assert_valid(ledger);
    const struct node *node = ledger_node(ledger, TEXT("a"));
    assert_int_equal(node->host.cpu_milli, 2500);
    assert_int_equal(simulate_node_idle(node), 1700);
    ledger_free(ledger);
    world_done(&world);
}

/* The same cluster without the pod. */
TEST(cluster__is_filled_like_the_same_nodes)
{
    static const char pods[] = POD_HEAD "p,1000,512,1,700,\nq,1000,512,1,300,\nr,2000,1024,1,1,\n";
    char words[512];

    char *expected = written_by("--placements", "binpack", NODE_HEAD "a,4000,2048,2,T4\n", pods);
    char *text = xstrdup(cluster_text);
    *strstr(text, "---") = '\0';
    write_file(nodes_file, text);
    (void)snprintf(words, sizeof words,
                   "simulate --cluster %s --arrivals %s --policy binpack --placements %s",
                   nodes_file, pods_file, out_file);
    assert_int_equal(run_program(&shown, words), CTL_FINE);
    char *bytes = file_text(folder, "out");
    assert_string_equal(bytes, expected);
    assert_string_equal(bytes, "p,a,0\nq,a,0\nr,a,1\n");
    shown_free(&shown);
    xfree(bytes);
    xfree(text);
    xfree(expected);
}

#define WEB(name, replicas, milli)                                                                 \
    "kind: Deployment\n"                                                                           \
    "apiVersion: apps/v1\n"                                                                        \
    "metadata: {name: " name "}\n"                                                                 \
    "spec:\n"                                                                                      \
    "  replicas: " replicas "\n"                                                                   \
    "  selector: {matchLabels: {a: b}}\n"                                                          \
    "  template:\n"                                                                                \
    "    metadata: {labels: {a: b}}\n"                                                             \
    "    spec:\n"                                                                                  \
    "      containers:\n"                                                                          \
    "      - {name: c, resources: {limits: {nvidia.com/vgpu: " milli ", memory: 1500Ki}}}\n"

TEST(manifest__is_one_round_with_equal_pods_in_one_class)
{
    uint32_t dropped;

    write_file(pods_file, WEB("web", "2", "300") "---\n" WEB("api", "3", "500") "---\n" WEB(
                              "old", "0", "700") "---\n" WEB("more", "4", "300"));
    world_init(&world);
    assert_int_equal(world_read_manifest(&world, pods_file, 0, stderr, &err), 0);
    assert_int_equal(world.n_pods, 9);
    assert_int_equal(world.n_shapes, 3);
    assert_int_equal(world.rounds, SIMULATE_ROUNDS);
    assert_string_equal(world.shape[world.pod[2].shape].text, "Deployment default/api");
    assert_int_equal(world.shape[0].request.host.memory_mib, 2); /* rounded up */
    struct workload *workload = world_manifest_workload(&world, &dropped);
    assert_int_equal(dropped, 0);
    assert_int_equal(workload->n_classes, 2);
    assert_int_equal(workload->class[0].milli, 300);
    assert_int_equal(workload->class[0].count, 6);
    assert_int_equal(workload->class[1].milli, 500);
    assert_int_equal(workload->class[1].count, 3);
    workload_unref(workload);
    world_done(&world);
}

/* Many pods have fewer rounds than usual, else a run takes hours. */
TEST(manifest__bounds_the_rounds_of_many_pods)
{
    write_file(pods_file, WEB("web", "100000", "300"));
    world_init(&world);
    assert_int_equal(world_read_manifest(&world, pods_file, 0, stderr, &err), 0);
    assert_int_equal(world.rounds, SIMULATE_ARRIVALS_MAX / 100000);
    world_done(&world);
    world_init(&world);
    assert_int_equal(world_read_manifest(&world, pods_file, 101, stderr, &err), -1);
    assert_non_null(strstr(err.text, "write at most 100"));
    world_done(&world);
}

TEST(percent__is_rounded_and_never_overflows)
{
    static const struct {
        uint64_t part;
        uint64_t whole;
        const char *text;
    } row[] = {
        {0, 0, "0.0000"},
        {1, 3, "33.3333"},
        {2, 3, "66.6667"},
        {1, 1, "100.0000"},
        {13, 10, "130.0000"},
        {1, 1000000, "0.0001"},
        {1, 2000000, "0.0001"},
        {1, 2000001, "0.0000"},
        {999999999, 1000000000, "100.0000"},
        {40000000000000000, 42000000000000000, "95.2381"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char text[SIMULATE_PERCENT_BYTES];
        simulate_percent(row[i].part, row[i].whole, text);
        assert_string_equal(text, row[i].text);
    }
}

TEST(last_mean__covers_the_last_thousand_decisions)
{
    struct simulate_result result = {.latency =
                                         xcalloc(SIMULATE_LATENCIES, sizeof *result.latency)};

    assert_int_equal(simulate_last_mean(&result), 0);
    simulate_count_ns(&result, 7000);
    simulate_count_ns(&result, 9000);
    assert_int_equal(simulate_last_mean(&result), 8000);
    for (int64_t ns = 1; ns <= 1500; ns++)
        simulate_count_ns(&result, ns * 10);
    assert_int_equal(simulate_last_mean(&result), (501 + 1500) * 10 / 2);
    for (int i = 0; i < SIMULATE_LAST; i++)
        simulate_count_ns(&result, INT64_MAX);
    assert_int_equal(simulate_last_mean(&result), UINT32_MAX);
    xfree(result.latency);
}

TEST(p99__is_known_to_a_sixteenth)
{
    struct simulate_result result = {.latency =
                                         xcalloc(SIMULATE_LATENCIES, sizeof *result.latency)};

    assert_int_equal(simulate_p99(&result), 0);
    for (int64_t ns = 1; ns <= 1000; ns++)
        simulate_count_ns(&result, ns * 1000);
    assert_int_equal(result.decisions, 1000);
    assert_int_equal(result.decision_ns, 1000 * UINT64_C(1001) / 2 * 1000);
    const uint64_t p99 = simulate_p99(&result);
    assert_in_range(p99, 990000 - 990000 / 16, 990000);
    simulate_count_ns(&result, INT64_MAX);
    xfree(result.latency);
}

/* A shape that comes twice, and 600 that come once. */
TEST(workload__keeps_the_most_common_shapes)
{
    FILE *out = fopen(pods_file, "we");
    uint32_t dropped;

    assert_non_null(out);
    (void)fputs(POD_HEAD, out);
    for (int i = 0; i < 600; i++)
        (void)fprintf(out, "p,%d,0,1,10,\n", i);
    (void)fputs("p,599,0,1,10,\n", out);
    assert_int_equal(fclose(out), 0);
    write_file(nodes_file, NODE_HEAD "a,9000,9000,1,T4\n");
    world_init(&world);
    assert_int_equal(world_read_nodes(&world, nodes_file, &err), 0);
    assert_int_equal(world_read_arrivals(&world, pods_file, stderr, &err), 0);
    assert_int_equal(world.n_shapes, 600);
    struct workload *workload = world_workload(&world, &dropped);
    assert_int_equal(workload->n_classes, WORKLOAD_CLASSES_MAX);
    assert_int_equal(dropped, 600 - WORKLOAD_CLASSES_MAX);
    assert_int_equal(workload->class[0].host.cpu_milli, 0);
    assert_int_equal(workload->class[WORKLOAD_CLASSES_MAX - 1].host.cpu_milli, 599);
    assert_int_equal(workload->class[WORKLOAD_CLASSES_MAX - 1].count, 2);
    workload_unref(workload);
    world_done(&world);
}

TEST(workload__scales_counts_to_its_limit)
{
    struct world_shape shape[2] = {
        {.want = {.container = "main", .parts = 1, .milli = 500}, .count = 3000000},
        {.want = {.container = "main", .parts = 1, .milli = 600}, .count = 1},
    };
    const struct world small = {.n_shapes = 2, .shape = shape};
    uint32_t dropped;

    struct workload *workload = world_workload(&small, &dropped);
    assert_int_equal(dropped, 0);
    assert_in_range(workload->class[0].count, WORKLOAD_COUNT_MAX - WORKLOAD_CLASSES_MAX - 2,
                    WORKLOAD_COUNT_MAX - 1);
    assert_int_equal(workload->class[1].count, 1);
    workload_unref(workload);
}

TEST_GROUP(set_up, tear_down)
