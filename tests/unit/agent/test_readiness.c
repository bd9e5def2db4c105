/* readiness - conditions for handing out the GPUs of a node, and their sentences. */
#include <stdio.h>
#include <string.h>

#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

#include "agent/readiness.h"
#include "support.h"
#include "support/patience.h"
#include "support/scoped.h"
#include "support/test.h"

static struct readiness *readiness;

/* "" if ready, else the reasons. */
static const char *looks(void)
{
    static char said[4096];
    SCOPED_STRBUF(out);

    const bool ready = readiness_look(readiness, &out);
    (void)snprintf(said, sizeof said, "%s", out.data);
    assert_int_equal(ready, said[0] == '\0');
    return said;
}

static void awaits(const char *words)
{
    for (int64_t until_ms = 0; strstr(looks(), words) == NULL;)
        assert_true(patience_left(&until_ms));
}

static void awaits_ready(void)
{
    for (int64_t until_ms = 0; looks()[0] != '\0';)
        assert_true(patience_left(&until_ms));
}

static int set_up(void **state __attribute__((unused)))
{
    log_set(LOG_ERROR, false);
    readiness = readiness_new(NULL);
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    readiness_free(readiness);
    readiness_free(NULL);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

FIXTURE_TEST(readiness__needs_runtime_and_node_at_first)
{
    assert_string_equal(
        looks(), "the container runtime does not ask this agent about each container: see its log\n"
                 "the Node has not yet shown what this agent says of it\n");
    readiness_set(readiness, READY_NODE, NULL);
    assert_non_null(strstr(looks(), "the container runtime does not ask"));
    readiness_set(readiness, READY_RUNTIME, NULL);
    assert_string_equal(looks(), "");
}

/* Each of them alone, by its sentence and by its gauge. */
FIXTURE_TEST(readiness__fails_for_each_condition_alone)
{
    static const enum ready_condition condition[] = {READY_RUNTIME, READY_TABLE,   READY_VALIDATOR,
                                                     READY_NODE,    READY_MACHINE, READY_STAYS};
    static const enum metric_id gauge[] = {COUNT_READY_RUNTIME,   COUNT_READY_TABLE,
                                           COUNT_READY_VALIDATOR, COUNT_READY_NODE,
                                           COUNT_READY_MACHINE,   COUNT_READY_STAYS};
    for (size_t i = 0; i < ARRAY_LEN(condition); i++)
        readiness_set(readiness, condition[i], NULL);
    assert_string_equal(looks(), "");
    for (size_t i = 0; i < ARRAY_LEN(condition); i++) {
        readiness_set(readiness, condition[i], "it is not so");
        assert_string_equal(looks(), "it is not so\n");
        for (size_t j = 0; j < ARRAY_LEN(gauge); j++)
            assert_int_equal(metric_value(gauge[j]), i != j);
        assert_int_equal(metric_value(COUNT_READY_DRIVER), 1);
        readiness_set(readiness, condition[i], NULL);
        assert_string_equal(looks(), "");
    }
}

FIXTURE_TEST(readiness__needs_a_driver_that_answers)
{
    char folder[64];
    folder_make(folder, sizeof folder);
    struct nvml *nvml = driver_open(folder, "init 9\n");
    readiness_free(readiness);
    readiness = readiness_new(nvml);
    readiness_set(readiness, READY_NODE, NULL);
    readiness_set(readiness, READY_RUNTIME, NULL);
    assert_int_equal(metric_value(COUNT_READY_DRIVER), 0);
    awaits("the driver: nvmlInit_v2: ");
    driver_says(folder, "gpu GPU-a T4 16384\n");
    awaits_ready();
    assert_int_equal(metric_value(COUNT_READY_DRIVER), 1);
    /* One GPU that is lost closes that GPU and not the node. */
    driver_says(folder, "gpu GPU-a T4 16384 fail=15\n");
    for (int64_t until_ms = 0;;) {
        const struct gpu_reading *reading = nvml_latest(nvml);
        const bool is_lost = reading->gpu[0].health == GPU_LOST;
        gpu_reading_unref(reading);
        if (is_lost)
            break;
        assert_true(patience_left(&until_ms));
    }
    assert_string_equal(looks(), "");
    driver_says(folder, "count 9\n");
    awaits("the driver: ");
    driver_says(folder, "gpu GPU-a T4 16384\n");
    nvml_release(nvml, true);
    awaits("the driver: milligpu-node has let go of it\n");
    nvml_release(nvml, false);
    awaits_ready();
    readiness_free(readiness);
    readiness = NULL;
    nvml_close(nvml);
    folder_remove(folder);
}

FIXTURE_TEST(readiness_validator__follows_the_setting)
{
    static const struct {
        enum validator_rule rule;
        bool has_one;
        enum nri_validator is;
        const char *why; /* "": it holds */
    } row[] = {
        {VALIDATOR_AUTO, true, NRI_VALIDATOR_ON, ""},
        {VALIDATOR_AUTO, true, NRI_VALIDATOR_UNKNOWN, ""}, /* else nothing might ever show it */
        {VALIDATOR_AUTO, true, NRI_VALIDATOR_OFF, "is off"},
        {VALIDATOR_AUTO, false, NRI_VALIDATOR_UNKNOWN, ""},
        {VALIDATOR_REQUIRE, true, NRI_VALIDATOR_ON, ""},
        {VALIDATOR_REQUIRE, true, NRI_VALIDATOR_UNKNOWN, ""},
        {VALIDATOR_REQUIRE, true, NRI_VALIDATOR_OFF, "is off"},
        {VALIDATOR_REQUIRE, false, NRI_VALIDATOR_UNKNOWN, "has no validator"},
        {VALIDATOR_WAIVE, true, NRI_VALIDATOR_OFF, ""},
        {VALIDATOR_WAIVE, false, NRI_VALIDATOR_UNKNOWN, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *why = readiness_validator(row[i].rule, row[i].has_one, row[i].is);
        assert_int_equal(why == NULL, row[i].why[0] == '\0');
        assert_true(why == NULL || strstr(why, row[i].why) != NULL);
    }
}
