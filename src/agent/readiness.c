/*
 * Keeps the conditions under one lock. The main thread and the reporter's thread set them; the
 * reporter's and the listener's thread read them.
 */
#include "readiness.h"

#include <stdio.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

struct readiness {
    struct nvml *nvml;                        /* borrowed; NULL: not checked */
    struct mutex lock;                        /* guards the following */
    char why[READY_CONDITIONS][ERR_TEXT_MAX]; /* reason; "" if the condition holds */
    unsigned lacks;                           /* bit set of failed conditions, as last logged */
};

/* Appends the reasons; returns the bit set of failed conditions. */
static unsigned list(const struct readiness *readiness, const char *between, struct strbuf *out)
    REQUIRES(readiness->lock)
{
    unsigned lacks = 0;

    for (unsigned i = 0; i < READY_CONDITIONS; i++) {
        if (readiness->why[i][0] == '\0')
            continue;
        strbuf_printf(out, "%s%s", lacks != 0 ? between : "", readiness->why[i]);
        lacks |= 1U << i;
    }
    return lacks;
}

static void count(unsigned lacks)
{
    static const enum metric_id gauge[READY_CONDITIONS] = {
        [READY_RUNTIME] = COUNT_READY_RUNTIME, [READY_TABLE] = COUNT_READY_TABLE,
        [READY_DRIVER] = COUNT_READY_DRIVER,   [READY_VALIDATOR] = COUNT_READY_VALIDATOR,
        [READY_NODE] = COUNT_READY_NODE,       [READY_MACHINE] = COUNT_READY_MACHINE,
        [READY_STAYS] = COUNT_READY_STAYS};

    for (unsigned i = 0; i < READY_CONDITIONS; i++)
        metric_set(gauge[i], NULL, (lacks >> i & 1) == 0);
}

/* Logs a change of the set only: reasons can change alone, for example a time in the driver's. */
static void report_change(struct readiness *readiness) REQUIRES(readiness->lock)
{
    CLEANUP(strbuf_done) struct strbuf why;

    strbuf_init(&why);
    const unsigned lacks = list(readiness, "; ", &why);
    if (lacks == readiness->lacks)
        return;
    readiness->lacks = lacks;
    count(lacks);
    if (lacks == 0)
        log_plain(LOG_INFO, "ready: the GPUs of this node may be handed out");
    else
        log_write(LOG_WARN, "not ready: the GPUs of this node may not be handed out",
                  log_str("why", why.data));
}

static void put(struct readiness *readiness, enum ready_condition condition, const char *why)
    REQUIRES(readiness->lock)
{
    must(condition < READY_CONDITIONS && (why == NULL || why[0] != '\0'));
    (void)snprintf(readiness->why[condition], sizeof readiness->why[condition], "%s",
                   why != NULL ? why : "");
}

struct readiness *readiness_new(struct nvml *nvml)
{
    struct readiness *readiness = xcalloc(1, sizeof *readiness);

    mutex_init(&readiness->lock);
    readiness->nvml = nvml;
    mutex_lock(&readiness->lock);
    put(readiness, READY_RUNTIME, READY_UNCONNECTED);
    put(readiness, READY_NODE, "the Node has not yet shown what this agent says of it");
    if (nvml != NULL)
        put(readiness, READY_DRIVER, "the NVIDIA driver has not answered yet");
    report_change(readiness);
    mutex_unlock(&readiness->lock);
    return readiness;
}

void readiness_free(struct readiness *readiness)
{
    if (readiness == NULL)
        return;
    mutex_done(&readiness->lock);
    xfree(readiness);
}

void readiness_set(struct readiness *readiness, enum ready_condition condition, const char *why)
{
    must(condition != READY_DRIVER);
    mutex_lock(&readiness->lock);
    put(readiness, condition, why);
    report_change(readiness);
    mutex_unlock(&readiness->lock);
}

/* Takes the reading under the lock, so that concurrent calls do not store an older one last. */
static void look_at_driver(struct readiness *readiness) REQUIRES(readiness->lock)
{
    char why[ERR_TEXT_MAX];

    if (readiness->nvml == NULL)
        return;
    const struct gpu_reading *reading = nvml_latest(readiness->nvml);
    (void)snprintf(why, sizeof why, "the driver: %.400s", reading->problem);
    put(readiness, READY_DRIVER, reading->status != NVML_READY ? why : NULL);
    gpu_reading_unref(reading);
}

bool readiness_look(struct readiness *readiness, struct strbuf *out)
{
    mutex_lock(&readiness->lock);
    look_at_driver(readiness);
    report_change(readiness);
    const unsigned lacks = list(readiness, "\n", out);
    mutex_unlock(&readiness->lock);
    strbuf_str(out, lacks != 0 ? "\n" : "");
    return lacks == 0;
}

const char *readiness_validator(enum validator_rule rule, bool has_one, enum nri_validator is)
{
    if (rule == VALIDATOR_WAIVE)
        return NULL;
    if (is == NRI_VALIDATOR_OFF)
        return "the validator of the container runtime is off: containers are made without this "
               "agent while it is away (docs/NODE.md, step 2, or --validator=waive)";
    if (!has_one && rule == VALIDATOR_REQUIRE)
        return "the container runtime has no validator, which --validator=require needs: update "
               "containerd to 2.2 or later";
    return NULL;
}
