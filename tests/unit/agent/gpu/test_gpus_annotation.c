/* gpus_annotation - the annotation that the agent writes and the daemon reads. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "agent/gpu/gpus_annotation.h"
#include "support/scoped.h"
#include "support/test.h"

static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};

static struct gpu_reading reading;
static const char *held[GPUS_PER_NODE_MAX];
static const char *why[GPUS_PER_NODE_MAX];

static struct gpu_state *add(const char *uuid, uint32_t index)
{
    struct gpu_state *gpu = &reading.gpu[reading.n_gpus++];
    *gpu = (struct gpu_state){
        .index = index, .mib_total = 81559, .numa = -1, .model = "NVIDIA H100 \"80GB\""};
    (void)snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    return gpu;
}

static struct strbuf text; /* the annotation */
static struct arena arena;
static struct inventory inventory; /* read back from it */

static int begin(void **state __attribute__((unused)))
{
    reading = (struct gpu_reading){.status = NVML_READY};
    memset(held, 0, sizeof held);
    memset(why, 0, sizeof why);
    strbuf_init(&text);
    arena_init(&arena);
    return 0;
}

static int end(void **state __attribute__((unused)))
{
    strbuf_done(&text);
    arena_done(&arena);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, end)

/* Writes the annotation, and reads it back from a Node. */
static void write_and_read(void)
{
    static const struct inventory_rules inventory_rules = {.advertise = false};
    struct node_facts *facts = arena_alloc(&arena, sizeof *facts);
    SCOPED_STRBUF(node);
    struct err err;
    assert_true(gpus_annotation_write(&reading, held, why, &text));
    strbuf_str(&node, "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{"
                      "\"milligpu.io/gpus\":");
    strbuf_json(&node, (struct text){text.data, text.len});
    strbuf_str(&node, "}}}");
    char *bytes = arena_copy(&arena, (struct text){node.data, node.len});
    assert_int_equal(node_decode(text_of(bytes), &rules, &arena, facts, &err), 0);
    assert_null(facts->gpus_error);
    inventory_parse(facts, &inventory_rules, &arena, &inventory);
    assert_int_equal(inventory.problem, PROBLEM_NONE);
    assert_string_equal(inventory.problem_text, "");
}

FIXTURE_TEST(gpus_annotation__is_read_by_the_daemon)
{
    add("GPU-b", 1)->peers = 1 << 1 | 1 << 2;
    add("GPU-a", 0)->numa = 1;
    add("GPU-m", 2)->is_mig = true;
    reading.gpu[1].health = GPU_XID;
    (void)snprintf(reading.gpu[1].reason, NVML_REASON_MAX, "the driver reported XID 79");
    reading.gpu[1].since_ms = 1764014462000;
    write_and_read();
    assert_string_equal(
        text.data,
        "[{\"uuid\":\"GPU-a\",\"index\":0,\"milli\":1000,\"mib\":81559,\"model\":"
        "\"NVIDIA H100 \\\"80GB\\\"\",\"numa\":1,\"health\":\"failed\",\"nvlink\":"
        "[\"GPU-b\"],\"reason\":\"the driver reported XID 79\",\"since\":"
        "\"2025-11-24T20:01:02.000Z\"},{\"uuid\":\"GPU-b\",\"index\":1,\"milli\":1000,"
        "\"mib\":81559,\"model\":\"NVIDIA H100 \\\"80GB\\\"\",\"numa\":-1,\"health\":\"healthy\","
        "\"nvlink\":[\"GPU-m\"]},{\"uuid\":\"GPU-m\",\"index\":2,\"milli\":1000,"
        "\"mib\":81559,\"model\":\"NVIDIA H100 \\\"80GB\\\"\",\"numa\":-1,\"health\":\"healthy\","
        "\"nvlink\":[],\"held\":\"mig\"}]");
    assert_int_equal(inventory.n_gpus, 3);
    assert_string_equal(inventory.gpu[2].held, "mig"); /* closed, and not forgotten */
    assert_null(inventory.gpu[0].held);
    assert_string_equal(inventory.gpu[0].id, "GPU-a");
    assert_int_equal(inventory.gpu[0].milli, GPU_MILLI);
    assert_int_equal(inventory.gpu[0].mib, 81559);
    assert_int_equal(inventory.gpu[0].numa, 1);
    assert_false(inventory.gpu[0].healthy);
    assert_string_equal(inventory.gpu[0].ill,
                        "the driver reported XID 79, since 2025-11-24T20:01:02.000Z");
    assert_true(inventory.gpu[1].healthy);
    assert_int_equal(inventory.gpu[0].peers, 1 << 1);
    assert_int_equal(inventory.gpu[1].peers, 1 << 0 | 1 << 2);
    /* Values that change all the time are not in it. */
    SCOPED_STRBUF(again);
    reading.gpu[0].temperature_c = 90;
    reading.gpu[0].mib_used = 80000;
    reading.number++;
    reading.gpu[1].xids++;
    assert_true(gpus_annotation_write(&reading, held, why, &again));
    assert_string_equal(again.data, text.data);
}

FIXTURE_TEST(gpus_annotation__names_the_holder_of_a_whole_gpu)
{
    add("GPU-b", 1);
    add("GPU-a", 0);
    add("GPU-c", 2);
    held[0] = "pod:4f1d";
    held[2] = "process";
    write_and_read();
    assert_null(inventory.gpu[0].held);
    assert_string_equal(inventory.gpu[1].id, "GPU-b");
    assert_string_equal(inventory.gpu[1].held, "pod:4f1d");
    assert_string_equal(inventory.gpu[2].held, "process");
}

/* The reason of a failed GPU is its own, independent of its holder. */
FIXTURE_TEST(gpus_annotation__closes_an_uninjectable_gpu_with_its_reason)
{
    add("GPU-a", 0);
    add("GPU-b", 1)->health = GPU_LOST;
    (void)snprintf(reading.gpu[1].reason, NVML_REASON_MAX, "it fell off the bus");
    add("GPU-c", 2);
    held[0] = held[1] = "unknown";
    why[0] = why[1] = "nothing \"names\" it";
    write_and_read();
    assert_non_null(strstr(text.data, "\"health\":\"healthy\",\"nvlink\":[],\"reason\":\"nothing "
                                      "\\\"names\\\" it\",\"held\":\"unknown\"}"));
    assert_non_null(strstr(text.data, "\"reason\":\"it fell off the bus\",\"since\":"));
    assert_string_equal(inventory.gpu[0].held, "unknown");
    assert_true(inventory.gpu[0].healthy);
    assert_null(inventory.gpu[2].held);
}

FIXTURE_TEST(gpus_annotation__gives_the_index_of_a_lost_gpu_to_another)
{
    add("GPU-lost", 0)->health = GPU_LOST;
    add("GPU-x", 0)->peers = 1 << 0;
    add("GPU-y", 1)->health = GPU_UNKNOWN;
    write_and_read();
    assert_int_equal(inventory.n_gpus, 3);
    assert_string_equal(inventory.gpu[0].id, "GPU-x");
    assert_string_equal(inventory.gpu[2].id, "GPU-lost");
    assert_string_equal(inventory.gpu[2].health, "lost");
}

FIXTURE_TEST(gpus_annotation__uses_the_health_words_of_the_daemon)
{
    for (enum gpu_health health = GPU_HEALTHY; health <= GPU_UNKNOWN; health++) {
        int known = 0;
#define X(word, good)                                                                              \
    if (strcmp(gpu_health_word(health), word) == 0) {                                              \
        known++;                                                                                   \
        assert_int_equal(good, health == GPU_HEALTHY);                                             \
    }
        HEALTH_WORDS(X)
#undef X
        assert_int_equal(known, 1);
    }
}

FIXTURE_TEST(gpus_annotation__is_not_written_before_a_reading)
{
    assert_true(gpus_annotation_write(&reading, held, why, &text)); /* a driver without GPUs */
    assert_string_equal(text.data, "[]");
    strbuf_reset(&text);
    reading.status = NVML_STARTING;
    assert_false(gpus_annotation_write(&reading, held, why, &text));
    reading.status = NVML_NO_DRIVER;
    assert_false(gpus_annotation_write(&reading, held, why, &text));
    assert_int_equal(text.len, 0);
    add("GPU-a", 0)->health = GPU_UNKNOWN;
    assert_true(gpus_annotation_write(&reading, held, why, &text));
}

FIXTURE_TEST(gpus_annotation__holds_the_most_gpus_of_a_node)
{
    char uuid[NVML_TEXT_MAX];
    char by[HOLD_BYTES_MAX + 1] = "pod:";
    memset(by + 4, 'u', UID_BYTES_MAX);
    by[HOLD_BYTES_MAX] = '\0';
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        (void)snprintf(uuid, sizeof uuid, "GPU-%u%.*s", i, 80,
                       "00000000000000000000000000000000000000000000000000000000000000000000000000"
                       "000000");
        struct gpu_state *gpu = add(uuid, i);
        gpu->peers = ~(UINT64_C(1) << i);
        memset(gpu->model, 'M', sizeof gpu->model - 1);
        gpu->health = i % 2 == 0 ? GPU_LOST : GPU_HEALTHY;
        memset(gpu->reason, '"', sizeof gpu->reason - 1);
        held[i] = by;
    }
    write_and_read();
    assert_true(text.len > 32 * 63 * 85);
    assert_int_equal(inventory.n_gpus, GPUS_PER_NODE_MAX);
}
