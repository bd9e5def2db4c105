#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/facts/inventory.h"

#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

struct fixture {
    struct arena arena;
    struct node_facts facts;
    struct gpu_facts gpu[GPUS_PER_NODE_MAX + 1];
    char id[GPUS_PER_NODE_MAX + 1][16];
    struct inventory_rules rules;
    struct inventory out;
};

static struct fixture fixture;

static void start(void)
{
    arena_reset(&fixture.arena);
    fixture.facts = (struct node_facts){.name = "n1", .uid = "node-uid"};
    fixture.facts.gpu = fixture.gpu;
    fixture.rules = (struct inventory_rules){.from_labels = true};
}

static void parse(void)
{
    inventory_parse(&fixture.facts, &fixture.rules, &fixture.arena, &fixture.out);
    assert_string_equal(fixture.out.node, "n1");
    assert_string_equal(fixture.out.uid, "node-uid");
}

/* Adds a valid GPU to the annotation. */
static struct gpu_facts *add(uint32_t index)
{
    const uint32_t i = fixture.facts.n_gpus++;
    (void)snprintf(fixture.id[i], sizeof fixture.id[i], "GPU-%04u", 1000 + index);
    fixture.gpu[i] = (struct gpu_facts){.id = fixture.id[i],
                                        .model = "NVIDIA A100-SXM4-80GB",
                                        .index = index,
                                        .milli = 1000,
                                        .mib = 81920,
                                        .numa = 1};
    fixture.facts.has_gpus = true;
    return &fixture.gpu[i];
}

/* These three functions parse first. */
static void assert_problem(enum inventory_problem problem)
{
    parse();
    assert_string_equal(inventory_problem_name(fixture.out.problem),
                        inventory_problem_name(problem));
}

static void assert_found(enum inventory_source source, uint32_t gpus)
{
    assert_problem(PROBLEM_NONE);
    assert_string_equal(fixture.out.problem_text, "");
    assert_int_equal(fixture.out.source, source);
    assert_int_equal(fixture.out.n_gpus, gpus);
}

static void assert_left_out(enum inventory_problem problem, const char *text)
{
    assert_problem(problem);
    assert_string_equal(fixture.out.problem_text, text);
    assert_int_equal(fixture.out.n_gpus, 0);
    assert_null(fixture.out.gpu);
    assert_int_equal(fixture.out.advertise_milli, 0);
}

TEST(allocatable__is_divided_into_gpus)
{
    static const struct {
        const char *amount;
        uint32_t gpus;
        uint32_t last;
    } row[] = {
        {"0", 0, 0}, {"8000", 8, 1000}, {"8k", 8, 1000},     {"500", 1, 500},
        {"1", 1, 1}, {"2500", 3, 500},  {"64000", 64, 1000}, {"63001", 64, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        fixture.facts.allocatable_milli = row[i].amount;
        assert_found(SOURCE_ALLOCATABLE, row[i].gpus);
        for (uint32_t k = 0; k < row[i].gpus; k++) {
            const struct gpu_facts *gpu = &fixture.out.gpu[k];
            char id[32];
            (void)snprintf(id, sizeof id, "n1/gpu-%u", k);
            assert_string_equal(gpu->id, id);
            assert_null(gpu->alias);
            assert_string_equal(gpu->model, "");
            assert_int_equal(gpu->index, k);
            assert_int_equal(gpu->milli, k + 1 == row[i].gpus ? row[i].last : 1000);
            assert_int_equal(gpu->mib, 0);
            assert_int_equal(gpu->numa, -1);
            assert_true(gpu->healthy);
            assert_false(gpu->cordoned);
        }
    }
}

TEST(labels__give_model_and_memory)
{
    start();
    fixture.facts.allocatable_milli = "2000";
    fixture.facts.label_product = " Tesla T4 ";
    fixture.facts.label_memory = "15360";
    assert_found(SOURCE_ALLOCATABLE, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(fixture.out.gpu[i].model, "Tesla-T4");
        assert_int_equal(fixture.out.gpu[i].mib, 15360);
    }
    static const char *const no_number[] = {"", "lots", "-1", "1.5", "4294967297"};
    for (size_t i = 0; i < ARRAY_LEN(no_number); i++) {
        fixture.facts.label_memory = no_number[i];
        assert_found(SOURCE_ALLOCATABLE, 2);
        assert_int_equal(fixture.out.gpu[0].mib, 0);
    }
    fixture.facts.label_memory = "4294967295";
    static char huge[MODEL_BYTES_MAX + 2];
    memset(huge, 'a', sizeof huge - 1);
    fixture.facts.label_product = huge;
    parse();
    assert_int_equal(fixture.out.gpu[0].mib, UINT32_MAX);
    assert_string_equal(fixture.out.gpu[0].model, "");
    huge[MODEL_BYTES_MAX] = '\0';
    parse();
    assert_string_equal(fixture.out.gpu[0].model, huge);
}

TEST(allocatable__is_a_problem_unless_a_whole_number)
{
    static const char *const bad[] = {"", "-1000", "0.5", "x", "99E"};
    char text[160];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        start();
        fixture.facts.allocatable_milli = bad[i];
        (void)snprintf(text, sizeof text,
                       "status.allocatable: \"%s\" is no whole number of thousandths", bad[i]);
        assert_left_out(PROBLEM_AMOUNT, text);
        assert_int_equal(fixture.out.source, SOURCE_ALLOCATABLE);
    }
}

TEST(inventory__has_at_most_64_gpus)
{
    start();
    fixture.facts.allocatable_milli = "64001";
    assert_left_out(PROBLEM_LIMIT, "status.allocatable: 65 GPUs, at most 64 can be kept");
    fixture.facts.allocatable_milli = "9223372036854775807";
    assert_problem(PROBLEM_LIMIT);
    start();
    fixture.facts.label_count = "65";
    fixture.rules.advertise = true;
    assert_left_out(PROBLEM_LIMIT, "label nvidia.com/gpu.count: 65 GPUs, at most 64 can be kept");
    start();
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        add(i);
    assert_found(SOURCE_ANNOTATION, 64);
    add(64);
    assert_left_out(PROBLEM_LIMIT, "annotation milligpu.io/gpus: 65 GPUs, at most 64 can be kept");
}

TEST(allocatable__in_foreign_units_gives_no_gpus)
{
    static const char huge[] = "9223372036854775807";
    static const struct {
        const char *amount;
        const char *count;
        uint32_t gpus; /* 99: foreign */
    } row[] = {
        {"8000", "8", 8}, {"8001", "8", 99}, {"8000", "9", 8},  {"800", "8", 1},
        {"799", "8", 99}, {"1", "1", 99},    {"99", "1", 99},   {"100", "1", 1},
        {"0", "8", 0},    {"0", "0", 0},     {"1000", "0", 99}, {"1", "0", 99},
        {"500", "1", 1},  {"1500", "2", 2},  {"80", "8", 99},   {"640000", "8", 99},
        {"1500", "x", 2}, {"1500", "-1", 2}, {"1", huge, 99},   {huge, "1", 99},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        fixture.facts.allocatable_milli = row[i].amount;
        fixture.facts.label_count = row[i].count;
        parse();
        if (row[i].gpus != 99) {
            assert_found(SOURCE_ALLOCATABLE, row[i].gpus);
            continue;
        }
        char text[160];
        (void)snprintf(text, sizeof text,
                       "status.allocatable says %s, label nvidia.com/gpu.count "
                       "%s: 100 to 1000 for each GPU would be right",
                       row[i].amount, row[i].count);
        assert_left_out(PROBLEM_FOREIGN_UNITS, text);
    }
}

TEST(count_label__is_used_without_allocatable)
{
    start();
    fixture.facts.label_count = "4";
    fixture.facts.label_product = "NVIDIA-A100-SXM4-80GB";
    fixture.facts.label_memory = "81920";
    assert_found(SOURCE_LABEL, 4);
    assert_string_equal(fixture.out.gpu[3].id, "n1/gpu-3");
    assert_string_equal(fixture.out.gpu[3].model, "NVIDIA-A100-SXM4-80GB");
    assert_int_equal(fixture.out.gpu[3].milli, 1000);
    assert_int_equal(fixture.out.gpu[3].mib, 81920);
    assert_int_equal(fixture.out.advertise_milli, 0);

    static const char unused[] = "label nvidia.com/gpu.count is not used: set "
                                 "inventory_from_labels, or show an amount in status.allocatable";
    fixture.rules.from_labels = false;
    assert_left_out(PROBLEM_NO_SOURCE, unused);
    assert_int_equal(fixture.out.source, SOURCE_NONE);

    fixture.rules.from_labels = true;
    fixture.facts.allocatable_milli = "0"; /* a restarting plugin shows the resource as 0 */
    assert_found(SOURCE_ALLOCATABLE, 0);
    fixture.facts.allocatable_milli = NULL;
    fixture.facts.capacity_milli = "4000";
    assert_left_out(PROBLEM_NO_SOURCE, unused);
}

TEST(count_label__is_used_when_we_advertise)
{
    start();
    fixture.rules = (struct inventory_rules){.advertise = true, .from_labels = false};
    fixture.facts.label_count = "4";
    fixture.facts.allocatable_milli = "0";
    fixture.facts.capacity_milli = "0";
    assert_found(SOURCE_LABEL, 4);
    assert_int_equal(fixture.out.advertise_milli, 4000);
    fixture.facts.label_count = "0";
    assert_found(SOURCE_LABEL, 0);
    assert_int_equal(fixture.out.advertise_milli, 0);
    fixture.facts.label_count = "four"; /* unreadable: the next source counts */
    fixture.facts.allocatable_milli = "3000";
    assert_found(SOURCE_ALLOCATABLE, 3);
    assert_int_equal(fixture.out.advertise_milli, 0);
    fixture.facts.allocatable_milli = NULL;
    assert_left_out(PROBLEM_AMOUNT, "label nvidia.com/gpu.count: \"four\" is no whole number");
    assert_int_equal(fixture.out.source, SOURCE_LABEL);
    fixture.facts.label_count = NULL;
    assert_found(SOURCE_NONE, 0);
    assert_int_equal(fixture.out.advertise_milli, 0);
}

TEST(gpus_annotation__comes_before_other_sources)
{
    start();
    add(1)->health = "sick";
    struct gpu_facts *half = add(0);
    half->milli = 500;
    half->mib = 40960;
    half->cordoned = true; /* the annotation cannot cordon */
    fixture.facts.label_count = "7";
    fixture.facts.allocatable_milli = "99999";
    fixture.rules.advertise = true;
    assert_found(SOURCE_ANNOTATION, 2);
    const struct gpu_facts *gpu = fixture.out.gpu;
    assert_string_equal(gpu[0].id, "GPU-1000");
    assert_string_equal(gpu[0].alias, "n1/gpu-0");
    assert_string_equal(gpu[0].model, "NVIDIA-A100-SXM4-80GB");
    assert_int_equal(gpu[0].milli, 500);
    assert_int_equal(gpu[0].mib, 40960);
    assert_int_equal(gpu[0].numa, 1);
    assert_true(gpu[0].healthy);
    assert_false(gpu[0].cordoned);
    assert_string_equal(gpu[1].id, "GPU-1001");
    assert_string_equal(gpu[1].alias, "n1/gpu-1");
    assert_false(gpu[1].healthy);
    assert_int_equal(fixture.out.advertise_milli, 1500); /* all GPUs, healthy or not */
    fixture.facts.n_gpus = 0;                            /* an empty list is a source, too */
    assert_found(SOURCE_ANNOTATION, 0);
}

TEST(gpus_annotation__takes_a_made_up_id_at_its_index_only)
{
    start();
    add(3)->id = "n1/gpu-3";
    add(0)->id = "n2/gpu-3"; /* any other text is an id */
    assert_found(SOURCE_ANNOTATION, 2);
    assert_null(fixture.out.gpu[1].alias);
    assert_string_equal(fixture.out.gpu[0].alias, "n1/gpu-0");
    fixture.gpu[0].id = "n1/gpu-0";
    assert_left_out(PROBLEM_ANNOTATION,
                    "annotation milligpu.io/gpus: [0].uuid: it is the made-up id of another index");
    fixture.gpu[0].id = "n1/gpu-03";
    assert_problem(PROBLEM_ANNOTATION);
    fixture.gpu[0].id = "n1";
    fixture.gpu[1].id = "n1-gpu-3";
    assert_found(SOURCE_ANNOTATION, 2);
}

TEST(gpus_annotation__names_the_invalid_field)
{
    static const char uuid[] = "uuid: 1 to 288 printable characters without blanks, commas and "
                               "quotes would be right";
    static char huge[GPU_ID_BYTES_MAX + 2];
    memset(huge, 'a', sizeof huge - 1);
    const struct {
        const char *id;
        const char *model;
        uint32_t index;
        uint32_t milli;
        int32_t numa;
        const char *what;
    } row[] = {
        {NULL, "m", 1, 1000, -1, uuid},
        {"", "m", 1, 1000, -1, uuid},
        {"a,b", "m", 1, 1000, -1, uuid},
        {",b", "m", 1, 1000, -1, uuid},
        {"a b", "m", 1, 1000, -1, uuid},
        {"a\"", "m", 1, 1000, -1, uuid},
        {"a\x7F", "m", 1, 1000, -1, uuid},
        {"\xC3\xA4", "m", 1, 1000, -1, uuid},
        {huge, "m", 1, 1000, -1, uuid},
        {"GPU-1000", "m", 1, 1000, -1, "uuid: another entry has it too"},
        {"GPU-1", "m", 0, 1000, -1, "index: another entry has it too"},
        {"GPU-1", "m", 65536, 1000, -1, "index: 0 to 65535 would be right"},
        {"GPU-1", "m", 1, 0, -1, "milli: 1 to 1000 would be right"},
        {"GPU-1", "m", 1, 1001, -1, "milli: 1 to 1000 would be right"},
        {"GPU-1", "m", 1, 1000, -2, "numa: -1 to 32767 would be right"},
        {"GPU-1", "m", 1, 1000, 32768, "numa: -1 to 32767 would be right"},
        {"GPU-1", huge, 1, 1000, -1, "model: at most 128 characters would be right"},
    };
    char text[192];
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        fixture.facts.allocatable_milli = "2000"; /* no fallback: the annotation counts */
        add(0);
        struct gpu_facts *gpu = add(1);
        gpu->id = row[i].id;
        gpu->model = row[i].model;
        gpu->index = row[i].index;
        gpu->milli = row[i].milli;
        gpu->numa = row[i].numa;
        (void)snprintf(text, sizeof text, "annotation milligpu.io/gpus: [1].%s", row[i].what);
        assert_left_out(PROBLEM_ANNOTATION, text);
        assert_int_equal(fixture.out.source, SOURCE_ANNOTATION);
    }
    start();
    add(0)->model = NULL; /* unknown, which is not an error */
    parse();
    assert_string_equal(fixture.out.gpu[0].model, "");
}

TEST(gpus_annotation__is_valid_up_to_the_limits)
{
    static char id[GPU_ID_BYTES_MAX + 1];
    static char model[MODEL_BYTES_MAX + 1];
    memset(id, '~', sizeof id - 1);
    memset(model, 'm', sizeof model - 1);
    start();
    add(0)->milli = 1;
    struct gpu_facts *last = add(1);
    last->id = id;
    last->model = model;
    last->index = 65535;
    last->numa = 32767;
    assert_found(SOURCE_ANNOTATION, 2);
    assert_int_equal(fixture.out.gpu[0].milli, 1);
    assert_string_equal(fixture.out.gpu[1].id, id);
    assert_string_equal(fixture.out.gpu[1].alias, "n1/gpu-65535");
    assert_string_equal(fixture.out.gpu[1].model, model);
    assert_int_equal(fixture.out.gpu[1].numa, 32767);
}

TEST(gpus_annotation__refuses_a_repeated_gpu)
{
    start();
    for (uint32_t i = 0; i < 3; i++)
        add(i);
    fixture.gpu[2].id = fixture.gpu[1].id;
    assert_left_out(PROBLEM_ANNOTATION,
                    "annotation milligpu.io/gpus: [2].uuid: another entry has it too");
    fixture.gpu[2].index = 1;
    assert_left_out(PROBLEM_ANNOTATION,
                    "annotation milligpu.io/gpus: [2].index: another entry has it too");
}

TEST(gpus_annotation__is_a_problem_unless_json)
{
    start();
    fixture.facts.gpus_error = "milligpu.io/gpus[2].milli: want a number";
    fixture.facts.allocatable_milli = "8000";
    assert_left_out(PROBLEM_ANNOTATION, "annotation milligpu.io/gpus[2].milli: want a number");
    assert_int_equal(fixture.out.source, SOURCE_ANNOTATION);
    static char huge[1000];
    memset(huge, 'x', sizeof huge - 1);
    fixture.facts.gpus_error = huge;
    parse();
    assert_int_equal(strlen(fixture.out.problem_text), sizeof fixture.out.problem_text - 1);
}

TEST(inventory__of_an_unreadable_node_is_silent)
{
    start();
    fixture.facts.allocatable_milli = "8000";
    fixture.facts.unreadable = "metadata.labels: expected an object";
    assert_left_out(PROBLEM_ANNOTATION, "metadata.labels: expected an object");
    assert_true(fixture.out.silent);
    start();
    fixture.facts.allocatable_milli = "8000x";
    assert_left_out(PROBLEM_AMOUNT,
                    "status.allocatable: \"8000x\" is no whole number of thousandths");
    assert_true(fixture.out.silent);
    start();
    fixture.facts.allocatable_milli = "65000";
    assert_problem(PROBLEM_LIMIT);
    assert_true(fixture.out.silent);
    start();
    fixture.facts.allocatable_milli = "8000";
    fixture.facts.label_mig = "mixed"; /* readable: MIG is on */
    assert_problem(PROBLEM_MIG);
    assert_false(fixture.out.silent);
}

TEST(partitioned_gpus__are_excluded)
{
    start();
    fixture.facts.allocatable_milli = "8000";
    fixture.facts.label_mig = "mixed";
    fixture.facts.label_sharing = "time-slicing";
    assert_left_out(PROBLEM_MIG, "the node's labels say MIG: \"mixed\"");
    fixture.facts.label_mig = NULL;
    assert_left_out(PROBLEM_SHARING, "the node's labels say time-slicing or MPS: \"time-slicing\"");
    fixture.facts.label_sharing = "2"; /* replicas */
    assert_left_out(PROBLEM_SHARING, "the node's labels say time-slicing or MPS: \"2\"");
    add(0); /* applies to every source */
    assert_problem(PROBLEM_SHARING);
    static const char *const no[] = {"none", "", "false", "0", "1"};
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        fixture.facts.label_sharing = no[i];
        assert_found(SOURCE_ANNOTATION, 1);
    }
}

/* The agent reports MIG for each GPU, labels for the node as a whole. */
TEST(labels__do_not_override_an_agent)
{
    start();
    fixture.facts.label_mig = "mixed";
    fixture.facts.label_sharing = "4";
    fixture.facts.label_count = "2";
    add(0)->held = "mig";
    add(1);
    assert_problem(PROBLEM_MIG); /* the annotation has no agent */
    fixture.facts.agent = true;
    assert_found(SOURCE_ANNOTATION, 2);
    assert_string_equal(fixture.out.gpu[0].held, "mig");
    assert_null(fixture.out.gpu[1].held);

    fixture.facts.gpus_error = "milligpu.io/gpus: no JSON";
    fixture.facts.has_gpus = false;
    fixture.facts.n_gpus = 0;
    assert_problem(PROBLEM_ANNOTATION);
    assert_true(fixture.out.silent); /* the known GPUs stay */
    fixture.facts.gpus_error = NULL; /* the agent has started and not reported yet */
    assert_problem(PROBLEM_MIG);
    fixture.facts.label_mig = NULL;
    assert_problem(PROBLEM_SHARING);
}

TEST(whole_gpus__more_than_the_node_has_are_shared_elsewhere)
{
    static const struct {
        const char *count;
        const char *milli;
        const char *capacity;
        const char *allocatable;
        uint32_t shown; /* whole GPUs */
        uint32_t gpus;
        enum inventory_source source; /* NONE: they are shared elsewhere */
    } row[] = {
        {"1", NULL, "4", "4", 4, 1, SOURCE_NONE},
        {"1", NULL, "4", "0", 4, 1, SOURCE_NONE}, /* the plugin restarts */
        {"1", NULL, NULL, "4", 4, 1, SOURCE_NONE},
        {"3", NULL, NULL, "4", 4, 3, SOURCE_NONE},
        {"0", NULL, NULL, "4", 4, 0, SOURCE_NONE},
        {"4", NULL, NULL, "4", 4, 4, SOURCE_LABEL},
        {NULL, "500", NULL, "4", 4, 1, SOURCE_NONE}, /* the amount alone counts the GPUs */
        {NULL, "4000", NULL, "4", 4, 4, SOURCE_ALLOCATABLE},
        {"8", "4000", NULL, "8", 8, 4, SOURCE_ALLOCATABLE}, /* half of the GPUs are for shares */
        {"many", "4000", NULL, "8", 8, 4, SOURCE_NONE},     /* the label counts nothing */
    };
    static const struct inventory_rules rules[] = {
        {.from_labels = true},
        {.from_labels = true, .advertise = true},
        {.from_labels = true, .plugin = PLUGIN_IGNORE},
    };
    char shared[128];

    start();
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        fixture.facts.label_count = row[i].count;
        fixture.facts.allocatable_milli = row[i].milli;
        fixture.facts.whole_capacity = row[i].capacity;
        fixture.facts.whole_allocatable = row[i].allocatable;
        (void)snprintf(shared, sizeof shared,
                       "the device plugin shows %u GPUs, and the node has %u: somebody else shares "
                       "them (time-slicing, MPS)",
                       row[i].shown, row[i].gpus);
        for (size_t k = 0; k < ARRAY_LEN(rules); k++) {
            fixture.rules = rules[k];
            if (row[i].source != SOURCE_NONE && !rules[k].advertise)
                assert_found(row[i].source, row[i].gpus);
            if (row[i].source != SOURCE_NONE)
                continue;
            assert_left_out(PROBLEM_FOREIGN_UNITS, shared);
            assert_int_equal(fixture.out.plugin.state, PLUGIN_NONE);
        }
    }
}

TEST(whole_gpus__more_than_the_agent_names_are_shared_elsewhere)
{
    start();
    fixture.facts.agent = true;
    add(0);
    add(1);
    fixture.facts.whole_capacity = fixture.facts.whole_allocatable = "8";
    assert_left_out(PROBLEM_FOREIGN_UNITS,
                    "the device plugin shows 8 GPUs, and the node has 2: somebody else shares them "
                    "(time-slicing, MPS)");
    assert_int_equal(fixture.out.source, SOURCE_ANNOTATION);
    fixture.facts.whole_capacity = fixture.facts.whole_allocatable = "2";
    assert_found(SOURCE_ANNOTATION, 2);
    fixture.facts.whole_capacity = fixture.facts.whole_allocatable = "14"; /* parts of MIG */
    fixture.facts.label_count = "14";
    assert_found(SOURCE_ANNOTATION, 2);
}

TEST(shared_resource__excludes_the_node)
{
    start();
    fixture.facts.label_count = "1";
    fixture.facts.whole_shared = "4";
    assert_left_out(PROBLEM_SHARING, "status shows GPUs shared by time-slicing or MPS: \"4\" of "
                                     "the resource whose name ends in .shared");
    fixture.facts.agent = true;
    add(0);
    assert_problem(PROBLEM_SHARING);
    fixture.facts.whole_shared = "some";
    assert_problem(PROBLEM_SHARING);
    fixture.facts.whole_shared = "0"; /* left behind by kubelet */
    assert_found(SOURCE_ANNOTATION, 1);
}

TEST(virtual_machines__exclude_the_node)
{
    static const char *const no[] = {"container", "", "vm", "none"};
    start();
    fixture.facts.label_count = "2";
    fixture.facts.label_workload = "vm-passthrough";
    fixture.facts.label_mig = "mixed";
    assert_left_out(PROBLEM_VIRTUAL_MACHINES, "label nvidia.com/gpu.workload.config gives the GPUs "
                                              "to virtual machines: \"vm-passthrough\"");
    assert_false(fixture.out.silent);
    fixture.facts.label_mig = NULL;
    fixture.facts.label_workload = "vm-vgpu";
    fixture.facts.agent = true; /* the host sees these GPUs */
    add(0);
    assert_problem(PROBLEM_VIRTUAL_MACHINES);
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        fixture.facts.label_workload = no[i];
        assert_found(SOURCE_ANNOTATION, 1);
    }
    assert_true(inventory_is_excluded(PROBLEM_VIRTUAL_MACHINES));
    assert_true(inventory_is_excluded(PROBLEM_MIG));
    assert_true(inventory_is_excluded(PROBLEM_SHARING));
    assert_false(inventory_is_excluded(PROBLEM_NO_SOURCE));
    assert_false(inventory_is_excluded(PROBLEM_NONE));
}

TEST(inventory__misses_gpus_that_no_source_names)
{
    static const char missing[] = "no source of shares: label nvidia.com/gpu.count (from feature "
                                  "discovery) or annotation milligpu.io/gpus (from milligpu-node) "
                                  "is missing";
    static const char plugin[] = "the device plugin shows 8 GPUs, and the source of shares ";
    static struct label absent[] = {{"a", "true"}, {"nvidia.com/gpu.present", "false"}};
    static struct label present[] = {{"a", "true"}, {"nvidia.com/gpu.present", "true"}};
    static const struct {
        struct node_facts facts;
        const char *text; /* NULL: none is missing */
        const char *end;
    } row[] = {
        {{.whole_capacity = "8"}, missing, ""},
        {{.whole_allocatable = "8"}, missing, ""},
        /* a plugin ran there, which proves no GPU */
        {{.whole_capacity = "0", .whole_allocatable = "0"}, NULL, ""},
        {{.whole_capacity = "0", .whole_allocatable = "0", .label_product = "T4"}, missing, ""},
        /* NVIDIA's operator found GPUs, and its programs do not run yet */
        {{.n_labels = 2, .label = absent}, NULL, ""},
        {{.n_labels = 2, .label = present}, missing, ""},
        {{.n_labels = 1, .label = &present[1]}, missing, ""},
        {{.n_labels = 1, .label = present}, NULL, ""},
        {{.agent = true}, missing, ""},
        {{.agent = true, .has_gpus = true}, NULL, ""}, /* the agent reports no GPUs */
        {{.agent = true, .has_gpus = true, .whole_allocatable = "8"}, plugin, "(annotation) none"},
        {{.allocatable_milli = "0", .whole_allocatable = "8"}, plugin, "(allocatable) none"},
    };
    char text[200];

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        fixture.facts = row[i].facts;
        fixture.facts.name = "n1";
        fixture.facts.uid = "node-uid";
        if (row[i].text == NULL) {
            assert_found(row[i].facts.has_gpus ? SOURCE_ANNOTATION : SOURCE_NONE, 0);
            continue;
        }
        (void)snprintf(text, sizeof text, "%s%s", row[i].text, row[i].end);
        assert_left_out(PROBLEM_NO_SOURCE, text);
        assert_int_equal(fixture.out.source == SOURCE_NONE, row[i].text == missing);
        assert_false(fixture.out.silent);
    }
}

static enum plugin_state plugin_shown(const char *capacity, const char *allocatable)
{
    fixture.facts.whole_capacity = capacity;
    fixture.facts.whole_allocatable = allocatable;
    assert_problem(PROBLEM_NONE);
    return fixture.out.plugin.state;
}

/* auto, expect, ignore */
static void assert_plugin(const char *capacity, const char *allocatable, const char *states)
{
    static const char letter[] = {'-', 'z', 'u', 'd'};
    static_assert(PLUGIN_NONE == 0 && PLUGIN_ZERO == 1 && PLUGIN_UP == 2 && PLUGIN_DOWN == 3,
                  "the letters are those of the states");
    for (int rule = PLUGIN_AUTO; rule <= PLUGIN_IGNORE; rule++) {
        fixture.rules.plugin = (enum plugin_rule)rule;
        const char shown = letter[plugin_shown(capacity, allocatable)];
        if (shown != states[rule])
            fail_msg("%s, %s, %d: %c", capacity, allocatable, rule, shown);
    }
}

TEST(plugin__without_an_offer_closes_a_node_without_agent)
{
    start();
    fixture.facts.label_count = "2";
    assert_plugin(NULL, NULL, "-d-");
    assert_plugin("2", "2", "uu-");
    assert_plugin("2", "1", "uu-");
    assert_plugin(NULL, "1", "uu-");
    assert_plugin("2", "0", "dd-");
    assert_plugin("2", NULL, "dd-");
    assert_plugin("0", "0", "zd-");
    assert_plugin("0", NULL, "zd-");
    assert_plugin("x", "0", "zd-");
    fixture.facts.plugin_paused = true; /* by labels of NVIDIA's operator */
    assert_plugin("0", "0", "dd-");
    assert_plugin(NULL, NULL, "-d-");
    assert_plugin("2", "1", "uu-");
    fixture.facts.agent = true; /* the agent has not named GPUs yet */
    assert_plugin("2", "0", "dd-");
    add(0);
    add(1);
    assert_plugin("2", "0", "---");
    fixture.facts.agent = false;
    assert_plugin("2", "0", "dd-");
    start();
    fixture.rules.plugin = PLUGIN_EXPECT;
    assert_int_equal(plugin_shown(NULL, NULL), PLUGIN_NONE); /* no GPUs, so nothing to close */
}

TEST(plugin__with_an_unreadable_amount_closes_the_node)
{
    start();
    fixture.facts.label_count = "2";
    fixture.facts.whole_capacity = "2";
    fixture.facts.whole_allocatable = "two";
    assert_left_out(PROBLEM_AMOUNT, "status.allocatable of whole GPUs: \"two\" is no whole number");
    assert_true(fixture.out.silent);
    assert_int_equal(fixture.out.plugin.state, PLUGIN_NONE);
    fixture.rules.plugin = PLUGIN_IGNORE;
    assert_found(SOURCE_LABEL, 2);
    fixture.rules.plugin = PLUGIN_AUTO;
    fixture.facts.agent = true;
    add(0);
    add(1);
    assert_found(SOURCE_ANNOTATION, 2);
}

TEST(plugin__offers_the_healthy_gpus)
{
    static const struct {
        const char *capacity;
        const char *allocatable;
        uint32_t offered;
        uint32_t healthy; /* of three, one of which is known to be sick */
    } row[] = {
        {"3", "2", 2, 2}, {"3", "1", 1, 2},  {"3", "3", 3, 2}, {"2", "2", 2, 2},
        {"1", "1", 1, 2}, {NULL, "1", 1, 2}, {"4", "3", 3, 3}, {"99999999999", "3", 3, UINT32_MAX},
    };
    start();
    for (uint32_t i = 0; i < 3; i++)
        add(i);
    fixture.gpu[1].health = "sick";
    fixture.facts.label_count = "99999999999";
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(plugin_shown(row[i].capacity, row[i].allocatable), PLUGIN_UP);
        assert_int_equal(fixture.out.plugin.offered, row[i].offered);
        assert_int_equal(fixture.out.plugin.healthy, row[i].healthy);
    }
    fixture.gpu[0].health = fixture.gpu[2].health = "sick"; /* so none should be offered */
    assert_int_equal(plugin_shown("3", "1"), PLUGIN_UP);
    assert_int_equal(fixture.out.plugin.healthy, 0);
    assert_int_equal(plugin_shown("3", "99999999999"), PLUGIN_UP);
    assert_int_equal(fixture.out.plugin.offered, UINT32_MAX);
}

TEST(plugin__at_zero_is_judged_by_its_last_state)
{
    const struct plugin_report zero = {.state = PLUGIN_ZERO};
    const struct plugin_report up = {.state = PLUGIN_UP, .offered = 7, .healthy = 8};
    assert_int_equal(plugin_judged(&zero, PLUGIN_NONE).state, PLUGIN_NONE);
    assert_int_equal(plugin_judged(&zero, PLUGIN_UP).state, PLUGIN_DOWN);
    assert_int_equal(plugin_judged(&zero, PLUGIN_DOWN).state, PLUGIN_DOWN);
    assert_int_equal(plugin_judged(&up, PLUGIN_DOWN).state, PLUGIN_UP);
    assert_int_equal(plugin_judged(&up, PLUGIN_NONE).offered, 7);
    assert_int_equal(plugin_judged(&up, PLUGIN_NONE).healthy, 8);
}

TEST(cordon__names_gpus_or_all)
{
    static const struct {
        const char *cordon;
        const char *which; /* indexes */
        const char *slip;  /* NULL: every entry names a GPU */
    } row[] = {
        {NULL, "", NULL},
        {"", "", NULL},
        {"all", "012", NULL},
        {" all ", "012", NULL},
        {"GPU-1001", "1", NULL},
        {"n1/gpu-1", "1", NULL},
        {"GPU-1000, GPU-1002", "02", NULL},
        {"GPU-1001,n1/gpu-1", "1", NULL},
        {",, ,", "", NULL},
        {"n1/gpu-2,all", "012", NULL},
        {"GPU-100", "", "\"GPU-100\" names no GPU: ids of this node or \"all\" would be right"},
        {"gpu-1001", "", "\"gpu-1001\" names no GPU: ids of this node or \"all\" would be right"},
        {"GPU-1001 GPU-1002", "",
         "\"GPU-1001 GPU-1002\" names no GPU: ids of this node or \"all\" would be right"},
        {"n1/gpu-7", "", "\"n1/gpu-7\" names no GPU: ids of this node or \"all\" would be right"},
        {"0", "", "\"0\" names no GPU: the GPU with this index is GPU-1000"},
        {"1", "", "\"1\" names no GPU: the GPU with this index is GPU-1001"},
        {"3", "", "\"3\" names no GPU: ids of this node or \"all\" would be right"},
        {"-1", "", "\"-1\" names no GPU: ids of this node or \"all\" would be right"},
        {"All", "", "\"All\" names no GPU: ids of this node or \"all\" would be right"},
        {"GPU-1000, 2 ,GPU-1001", "01", "\"2\" names no GPU: the GPU with this index is GPU-1002"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char slip[160] = "";
        start();
        for (uint32_t k = 0; k < 3; k++)
            add(k);
        fixture.facts.cordon = row[i].cordon;
        assert_problem(PROBLEM_NONE);
        assert_int_equal(fixture.out.n_gpus, 3);
        if (row[i].slip != NULL)
            (void)snprintf(slip, sizeof slip, "annotation milligpu.io/cordon: %s", row[i].slip);
        assert_string_equal(fixture.out.problem_text, slip);
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(fixture.out.gpu[k].cordoned,
                             strchr(row[i].which, (int)('0' + k)) != NULL);
    }
    start();
    fixture.facts.allocatable_milli = "2000";
    fixture.facts.cordon = "n1/gpu-1,x";
    parse();
    assert_false(fixture.out.gpu[0].cordoned);
    assert_true(fixture.out.gpu[1].cordoned);
    assert_string_equal(fixture.out.problem_text,
                        "annotation milligpu.io/cordon: \"x\" names no "
                        "GPU: ids of this node or \"all\" would be right");
    fixture.facts.allocatable_milli = "1000"; /* a single GPU */
    fixture.facts.cordon = "n1/gpu-0";
    parse();
    assert_true(fixture.out.gpu[0].cordoned);
    fixture.facts.allocatable_milli = "0"; /* while a plugin restarts there is nothing to name */
    assert_found(SOURCE_ALLOCATABLE, 0);
}

TEST(health__has_the_usual_words)
{
    static const struct {
        const char *word;
        bool healthy;
        bool known;
    } row[] = {
        {NULL, true, true},         {"Healthy", true, true},
        {"healthy", true, true},    {"OK", true, true},
        {" ok ", true, true},       {"good", true, true},
        {"Ready", true, true},      {"up", true, true},
        {"Unhealthy", false, true}, {"UNKNOWN", false, true},
        {"bad", false, true},       {"degraded", false, true},
        {"down", false, true},      {"error", false, true},
        {"failed", false, true},    {"lost", false, true},
        {"sick", false, true},      {"", false, false},
        {"okay", false, false},     {"healthy!", false, false},
        {"*", false, false},        {"not healthy", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char slip[160] = "";
        start();
        add(0);
        add(1)->health = row[i].word;
        assert_problem(PROBLEM_NONE);
        assert_true(fixture.out.gpu[0].healthy);
        assert_int_equal(fixture.out.gpu[1].healthy, row[i].healthy);
        if (!row[i].known)
            (void)snprintf(slip, sizeof slip,
                           "annotation milligpu.io/gpus: [1].health: \"%s\" is no known word and "
                           "closes the GPU: \"healthy\" or \"unhealthy\" would be right",
                           row[i].word);
        assert_string_equal(fixture.out.problem_text, slip);
    }
}

static void link(uint32_t entry, const char **names, uint32_t count)
{
    fixture.gpu[entry].nvlink = names;
    fixture.gpu[entry].n_nvlinks = count;
}

TEST(nvlink__is_named_by_either_gpu)
{
    static const char *first[] = {"GPU-1003"};
    static const char *second[] = {"GPU-1003", "n1/gpu-0", "GPU-1003"}; /* one by its made-up id */
    start();
    add(3);
    add(0);
    add(1);
    add(2);
    fixture.gpu[0].peers = UINT64_MAX; /* overwritten by the parser */
    link(1, first, 1);
    link(3, second, 3);
    assert_found(SOURCE_ANNOTATION, 4);
    /* in the order of the indexes */
    assert_int_equal(fixture.out.gpu[0].peers, 1 << 3 | 1 << 2);
    assert_int_equal(fixture.out.gpu[1].peers, 0);
    assert_int_equal(fixture.out.gpu[2].peers, 1 << 3 | 1 << 0);
    assert_int_equal(fixture.out.gpu[3].peers, 1 << 0 | 1 << 2);
}

TEST(nvlink__is_named_by_the_first_gpu_alone)
{
    static const char *names[] = {"GPU-1001"};
    start();
    add(0);
    add(1);
    link(0, names, 1);
    assert_found(SOURCE_ANNOTATION, 2);
    assert_int_equal(fixture.out.gpu[0].peers, 1 << 1);
    assert_int_equal(fixture.out.gpu[1].peers, 1 << 0);
}

TEST(nvlink__to_no_gpu_is_reported_and_closes_nothing)
{
    static const struct {
        const char *name;
        const char *slip;
    } row[] = {
        {"GPU-1001", "[1].nvlink: \"GPU-1001\" is the GPU itself"},
        {"n1/gpu-1", "[1].nvlink: \"n1/gpu-1\" is the GPU itself"},
        {"GPU-9", "[1].nvlink: \"GPU-9\" names no GPU of the node: uuids of this annotation would "
                  "be right"},
        {"", "[1].nvlink: \"\" names no GPU of the node: uuids of this annotation would be right"},
        {NULL, "[1].nvlink: a list of at most 64 uuids would be right"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *names[] = {row[i].name, "GPU-1000"};
        char slip[160];
        start();
        add(0);
        add(1)->nvlink_odd = row[i].name == NULL;
        link(1, row[i].name != NULL ? names : &names[1], row[i].name != NULL ? 2 : 1);
        parse();
        (void)snprintf(slip, sizeof slip, "annotation milligpu.io/gpus: %s", row[i].slip);
        assert_string_equal(fixture.out.problem_text, slip);
        assert_int_equal(fixture.out.problem, PROBLEM_NONE);
        assert_int_equal(fixture.out.n_gpus, 2);
        assert_true(fixture.out.gpu[1].healthy);
        assert_int_equal(fixture.out.gpu[0].peers, 2);
        assert_int_equal(fixture.out.gpu[1].peers, 1);
    }
}

TEST(held__is_one_of_five_words)
{
    static char longest[HOLD_BYTES_MAX + 1];
    static char longer[HOLD_BYTES_MAX + 2];
    static const struct {
        const char *word;
        const char *read;
    } row[] = {
        {NULL, NULL},           {"pod:4f1d-22", "pod:4f1d-22"},
        {"env:a", "env:a"},     {"process", "process"},
        {"unknown", "unknown"}, {longest, longest},
        {"mig", "mig"},         {"mig:1", "unknown"},
        {longer, "unknown"},    {"", "unknown"},
        {"pod:", "unknown"},    {"env:", "unknown"},
        {"Pod:a", "unknown"},   {"process:1", "unknown"},
        {"none", "unknown"},
    };
    memset(longest, 'u', sizeof longest - 1);
    memcpy(longest, "pod:", 4);
    memset(longer, 'u', sizeof longer - 1);
    memcpy(longer, "env:", 4);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const bool slip = row[i].word != NULL && strcmp(row[i].read, row[i].word) != 0;
        start();
        add(0);
        add(1)->held = row[i].word;
        assert_problem(PROBLEM_NONE);
        assert_int_equal(fixture.out.n_gpus, 2);
        assert_null(fixture.out.gpu[0].held);
        if (row[i].read == NULL)
            assert_null(fixture.out.gpu[1].held);
        else
            assert_string_equal(fixture.out.gpu[1].held, row[i].read);
        char text[200] = "";
        char shown[48];
        text_clip(text_of(row[i].word), shown, sizeof shown);
        if (slip)
            (void)snprintf(text, sizeof text,
                           "annotation milligpu.io/gpus: [1].held: \"%s\" is no known word and "
                           "closes the GPU: \"pod:UID\", \"env:UID\", \"process\" or \"mig\" would "
                           "be right",
                           shown);
        char clipped[sizeof fixture.out.problem_text];
        text_clip(text_of(text), clipped, sizeof clipped);
        assert_string_equal(fixture.out.problem_text, clipped);
    }
}

TEST(unhealthy_gpu__has_a_reason_and_a_time)
{
    static const struct {
        const char *health;
        const char *reason;
        const char *since;
        const char *ill;
    } row[] = {
        {"failed", "XID 79", "2026-11-24T20:01:02Z", "XID 79, since 2026-11-24T20:01:02Z"},
        {"failed", "XID 79", NULL, "XID 79"},
        {"failed", "XID 79", "", "XID 79"},
        {"failed", NULL, "2026-11-24T20:01:02Z", NULL},
        {"failed", "", "2026-11-24T20:01:02Z", NULL},
        {"nonsense", "who\nknows", NULL, "who\\nknows"},
        {"healthy", "it was", "yesterday", NULL},
        {NULL, "it was", "yesterday", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        start();
        struct gpu_facts *gpu = add(0);
        gpu->health = row[i].health;
        gpu->reason = row[i].reason;
        gpu->since = row[i].since;
        parse();
        if (row[i].ill == NULL)
            assert_null(fixture.out.gpu[0].ill);
        else
            assert_string_equal(fixture.out.gpu[0].ill, row[i].ill);
    }
    static char long_text[1000];
    memset(long_text, 'r', sizeof long_text - 1);
    start();
    struct gpu_facts *gpu = add(0);
    gpu->health = "failed";
    gpu->reason = long_text;
    gpu->since = long_text;
    parse();
    assert_int_equal(strlen(fixture.out.gpu[0].ill), 127 + strlen(", since ") + 39);
}

TEST(gpus_annotation__is_ignored_unless_it_is_the_source)
{
    static const char *names[] = {"n1/gpu-1", "none"};
    start();
    add(0);
    link(0, names, 2);
    fixture.gpu[0].health = "fine";
    fixture.facts.has_gpus = false;
    fixture.facts.label_count = "2";
    assert_found(SOURCE_LABEL, 2);
    assert_true(fixture.out.gpu[0].healthy);
    assert_int_equal(fixture.out.gpu[0].peers | fixture.out.gpu[1].peers, 0);
}

TEST(nvlink__joins_up_to_64_gpus)
{
    const char *names[64];
    start();
    for (uint32_t i = 0; i < 64; i++)
        names[i] = add(i)->id;
    for (uint32_t i = 0; i < 64; i++)
        link(i, names, i); /* to all earlier GPUs: links are mutual */
    assert_found(SOURCE_ANNOTATION, 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(fixture.out.gpu[i].peers, ~((uint64_t)1 << i));
}

TEST(problem_text__counts_mistakes_and_names_the_first)
{
    start();
    add(0)->health = "fine";
    add(1)->health = "fine, too";
    fixture.gpu[2].health = "not of this node";
    fixture.facts.cordon = "0,GPU-9,GPU-1001";
    assert_problem(PROBLEM_NONE);
    assert_string_equal(
        fixture.out.problem_text,
        "4 mistakes, the first: annotation milligpu.io/gpus: [0].health: \"fine\" is "
        "no known word and closes the GPU: \"healthy\" or \"unhealthy\" would be "
        "right");
    assert_false(fixture.out.gpu[0].cordoned);
    assert_true(fixture.out.gpu[1].cordoned);
    fixture.facts.gpu[0].milli = 0; /* a problem comes first */
    assert_left_out(PROBLEM_ANNOTATION,
                    "annotation milligpu.io/gpus: [0].milli: 1 to 1000 would be right");
}

TEST(inventory_share_mib__rounds_down)
{
    assert_int_equal(inventory_share_mib(16384, 1000, 300), 4915);
    assert_int_equal(inventory_share_mib(81920, 1000, 1000), 81920);
    assert_int_equal(inventory_share_mib(40960, 500, 500), 40960);
    assert_int_equal(inventory_share_mib(40960, 500, 250), 20480);
    assert_int_equal(inventory_share_mib(0, 1000, 300), 0);
    assert_int_equal(inventory_share_mib(999, 1000, 1), 0);
    assert_int_equal(inventory_share_mib(UINT32_MAX, 1000, 1000), UINT32_MAX);
    assert_int_equal(inventory_share_mib(UINT32_MAX, 1, 1000), UINT32_MAX);
    assert_int_equal(inventory_share_mib(1000, 500, 1000), 2000); /* adopted, then shrunk */
    assert_int_equal(inventory_share_mib(1000, 0, 5), 0);
}

TEST(inventory_names__are_those_of_the_tables)
{
    assert_string_equal(inventory_problem_name(PROBLEM_NONE), "none");
    assert_string_equal(inventory_problem_name(PROBLEM_LIMIT), "limit");
    assert_string_equal(inventory_source_name(SOURCE_NONE), "none");
    assert_string_equal(inventory_source_name(SOURCE_ALLOCATABLE), "allocatable");
}

static void assert_keeps_its_word(const struct inventory *out)
{
    uint32_t milli = 0;
    assert_true(out->n_gpus <= GPUS_PER_NODE_MAX);
    assert_true(out->problem == PROBLEM_NONE || out->problem_text[0] != '\0');
    if (out->problem != PROBLEM_NONE)
        assert_int_equal(out->n_gpus, 0);
    assert_true(out->problem != PROBLEM_NONE || !out->silent);
    for (uint32_t i = 0; i < out->n_gpus; i++) {
        const struct gpu_facts *gpu = &out->gpu[i];
        assert_in_range(gpu->milli, 1, GPU_MILLI);
        assert_non_null(gpu->model);
        milli += gpu->milli;
        for (uint32_t k = 0; k < i; k++) {
            assert_true(out->gpu[k].index < gpu->index);
            assert_string_not_equal(out->gpu[k].id, gpu->id);
            if (gpu->alias != NULL)
                assert_string_not_equal(out->gpu[k].id, gpu->alias);
        }
    }
    assert_true(out->advertise_milli == 0 || out->advertise_milli == milli);
}

TEST(inventory__of_any_node_is_consistent)
{
    static const char *const amount[] = {NULL, "", "0", "500", "8000", "64000", "x", "-1", "1e9"};
    static const char *const word[] = {NULL,  NULL, NULL, "",   "none",
                                       "all", "1",  "8",  "T4", "GPU-1001"};
    static const char *const id[] = {NULL, "", "n1/gpu-0", "n1/gpu-1", "GPU-a", "GPU-b", "GPU-c"};
    const char *env = getenv("INVENTORY_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) : 9;
    print_message("INVENTORY_SEED=%llu\n", (unsigned long long)seed);
    uint32_t problem[PROBLEM_LIMIT + 1] = {0};
    uint32_t source[SOURCE_ALLOCATABLE + 1] = {0};
    uint32_t plugin[PLUGIN_DOWN + 1] = {0};
    for (int i = 0; i < walk_steps(50000, 2500); i++) {
        start();
        fixture.rules.advertise = draw_below(&seed, 2) > 0;
        fixture.rules.from_labels = draw_below(&seed, 2) > 0;
        fixture.facts.capacity_milli = amount[draw_below(&seed, ARRAY_LEN(amount))];
        fixture.facts.allocatable_milli = amount[draw_below(&seed, ARRAY_LEN(amount))];
        fixture.facts.label_count = word[draw_below(&seed, ARRAY_LEN(word))];
        fixture.facts.label_memory = word[draw_below(&seed, ARRAY_LEN(word))];
        fixture.facts.label_product = word[draw_below(&seed, ARRAY_LEN(word))];
        fixture.facts.cordon = word[draw_below(&seed, ARRAY_LEN(word))];
        fixture.facts.label_mig = draw_below(&seed, 9) == 0 ? "single" : NULL;
        fixture.facts.label_sharing = draw_below(&seed, 9) == 0 ? "mps" : NULL;
        fixture.facts.label_workload = draw_below(&seed, 20) == 0 ? "vm-vgpu" : NULL;
        fixture.facts.whole_shared =
            draw_below(&seed, 9) == 0 ? word[draw_below(&seed, ARRAY_LEN(word))] : NULL;
        fixture.facts.whole_capacity = word[draw_below(&seed, ARRAY_LEN(word))];
        fixture.facts.whole_allocatable = amount[draw_below(&seed, 3)];
        if (draw_below(&seed, 4) == 0)
            fixture.facts.whole_allocatable = word[draw_below(&seed, ARRAY_LEN(word))];
        fixture.facts.plugin_paused = draw_below(&seed, 3) == 0;
        fixture.facts.agent = draw_below(&seed, 3) == 0;
        fixture.rules.plugin = (enum plugin_rule)draw_below(&seed, 3);
        fixture.facts.gpus_error = draw_below(&seed, 9) == 0 ? "not JSON" : NULL;
        fixture.facts.has_gpus = draw_below(&seed, 2) > 0;
        const uint32_t gpus = fixture.facts.has_gpus ? draw_below(&seed, 3) : 0;
        for (uint32_t k = 0; k < gpus; k++) {
            struct gpu_facts *gpu = add(draw_below(&seed, 3));
            if (draw_below(&seed, 2) > 0)
                gpu->id = id[draw_below(&seed, ARRAY_LEN(id))];
            gpu->milli = draw_below(&seed, 1010);
        }
        parse();
        assert_keeps_its_word(&fixture.out);
        problem[fixture.out.problem]++;
        source[fixture.out.source]++;
        plugin[fixture.out.plugin.state]++;
        assert_true(fixture.out.plugin.state == PLUGIN_NONE || fixture.out.n_gpus > 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(plugin); i++)
        assert_true(plugin[i] > 10);
    for (size_t i = 0; i < ARRAY_LEN(problem); i++)
        assert_true(problem[i] > 10);
    for (size_t i = 0; i < ARRAY_LEN(source); i++)
        assert_true(source[i] > 10);
}

static int clean(void **state)
{
    (void)state;
    arena_done(&fixture.arena);
    return 0;
}

TEST_GROUP(NULL, clean)
