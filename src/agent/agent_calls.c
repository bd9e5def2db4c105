/*
 * Handles the runtime's calls: checks the runtime, takes the list of running pods and containers,
 * and judges, limits and records each container. nri_feed() calls the handlers in the agent's main
 * thread.
 */
#include "agent_calls.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/agent/agent.h"
#include "milligpu/base/alloc.h"
#include "milligpu/base/annotations.h"
#include "milligpu/nvml/nvml.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

#include "agent/common/device.h"
#include "agent/grant/overlap.h"

/*
 * A copy of a pod in a synchronize list, since its containers can come in a later call. It has the
 * annotations of a proven allocation, and one for a pod of NVIDIA's operator; other annotations can
 * be long and are not kept.
 */
enum { KEPT_ANNOTATIONS = 3, PROC_DEVICES_BYTES_MAX = 64 * 1024 };
struct met_pod {
    struct met_pod *next;
    struct nri_pod pod;
    struct nri_pair kept[KEPT_ANNOTATIONS];
    bool passes; /* its containers must have been created through the agent */
};

static const char *find_key(void *user, const char *id)
{
    const struct agent_calls *calls = user;
    return public_keys_find(calls->keys, id);
}

static bool find_record(void *user, struct text uid, struct text *out)
{
    const struct agent_calls *calls = user;
    return pod_records_find(calls->records, uid, out);
}

/* A GPU seen once stays in readings, also while it is lost or the driver hangs. */
static bool find_gpu(void *user, const char *uuid)
{
    const struct agent_calls *calls = user;
    bool found = false;

    if (calls->nvml == NULL)
        return true;
    const struct gpu_reading *reading = nvml_latest(calls->nvml);
    for (uint32_t i = 0; i < reading->n_gpus && !found; i++)
        found = strcmp(reading->gpu[i].uuid, uuid) == 0;
    gpu_reading_unref(reading);
    return found;
}

static const char *find_kind(void *user, const char *const *gpu, uint32_t gpus, struct err *err)
{
    struct agent_calls *calls = user;
    enum cdi_kind kind;

    return cdi_find(calls->cdi, gpu, gpus, &kind, err) == 0 ? cdi_kind_name(kind) : NULL;
}

static int find_mps(void *user, const char *gpu, struct mps_place *out, struct err *err)
{
    const struct agent_calls *calls = user;
    return mps_place(calls->mps, gpu, out, err);
}

/* Reads /proc/devices each time, since modules can be loaded at any time; it is short. */
static bool is_gpu_major(void *user, int64_t major)
{
    const struct agent_calls *calls = user;
    char path[PATH_MAX];
    char *bytes = NULL;
    size_t len = 0;
    struct err err;

    const int n = snprintf(path, sizeof path, "%s/devices", calls->proc_dir);
    if (n < 0 || (size_t)n >= sizeof path ||
        file_read(path, PROC_DEVICES_BYTES_MAX, &bytes, &len, &err) < 0)
        return false;
    const bool is_gpu = device_is_gpu_major((struct text){bytes, len}, major);
    xfree(bytes);
    return is_gpu;
}

void agent_calls_init(struct agent_calls *calls)
{
    calls->rules.user = calls;
    calls->rules.public_key = find_key;
    calls->rules.record = find_record;
    calls->rules.gpu = find_gpu;
    calls->rules.kind = find_kind;
    calls->rules.mps = find_mps;
    calls->rules.gpu_major = is_gpu_major;
    calls->proc_dir = "/proc";
    arena_init(&calls->arena);
    arena_init(&calls->sync);
}

void agent_calls_done(struct agent_calls *calls)
{
    arena_done(&calls->arena);
    arena_done(&calls->sync);
}

static void forget_list(struct agent_calls *calls)
{
    calls->in_sync = false;
    calls->met = NULL;
    arena_reset(&calls->sync);
}

void agent_calls_lost(struct agent_calls *calls)
{
    forget_list(calls);
    containers_lost(calls->containers);
}

static void log_container(enum log_level level, const char *what, const struct nri_pod *pod,
                          const struct nri_container *container, const char *why)
{
    log_write(level, what, log_text("namespace", pod->namespace), log_text("pod", pod->name),
              log_text("container", container->name), log_str("why", why));
}

/* --- the beginning --- */

static void note_validator(struct agent_calls *calls, enum nri_validator validator)
{
    const bool news = calls->validator != validator;

    calls->validator = validator;
    metric_set(COUNT_VALIDATOR_ON, NULL, validator == NRI_VALIDATOR_ON);
    metric_set(COUNT_VALIDATOR_OFF, NULL, validator == NRI_VALIDATOR_OFF);
    if (news && validator == NRI_VALIDATOR_OFF)
        log_plain(LOG_WARN, "the runtime's validator is off: while this agent is away, containers "
                            "are made without it (docs/NODE.md, step 2)");
}

static int agent_configure(void *user, const struct nri_runtime *runtime, uint32_t *out_events,
                           struct err *err)
{
    struct agent_calls *calls = user;

    if (agent_runtime_check(runtime->name, runtime->version, &calls->closed, err) < 0) {
        /* Logged once per reason, since the agent reconnects every second. */
        if (strcmp(err->text, calls->refused) != 0)
            log_write(LOG_ERROR, "this container runtime cannot be served",
                      log_str("why", err->text));
        (void)snprintf(calls->refused, sizeof calls->refused, "%s", err->text);
        return err_same(err);
    }
    calls->refused[0] = '\0';
    char name[32];
    char version[40];
    text_clip(runtime->name, name, sizeof name);
    text_clip(runtime->version, version, sizeof version);
    (void)snprintf(calls->runtime, sizeof calls->runtime, "%s %s", name, version);
    note_validator(calls, NRI_VALIDATOR_UNKNOWN);   /* the runtime's settings can have changed */
    *out_events &= ~(uint32_t)NRI_REMOVE_CONTAINER; /* NRI_STOP_POD is used instead */
    if (calls->closed)
        return 0;
    *out_events &= ~(uint32_t)NRI_VALIDATE_ADJUSTMENT;
    log_write(LOG_WARN,
              "containerd before 2.2 starts containers without this agent while it is away: "
              "update it",
              log_str("runtime", calls->runtime));
    return 0;
}

/* Keeps one short annotation for a pod of NVIDIA's operator, instead of its own ones. */
static void met_keep_devices(struct met_pod *met, const struct nri_pod *pod)
{
    static const struct nri_pair manages = {TEXT(DEVICE_ANNOTATION), TEXT(DEVICE_MANAGES)};

    must(met->pod.n_annotations == 0);
    for (uint32_t i = 0; i < pod->n_annotations && met->pod.n_annotations == 0; i++)
        if (device_annotation_manages(&pod->annotation[i]))
            met->kept[met->pod.n_annotations++] = manages;
}

static struct met_pod *met_new(struct agent_calls *calls, const struct nri_pod *pod)
{
    struct met_pod *met = arena_alloc(&calls->sync, sizeof *met);

    *met = (struct met_pod){.next = calls->met};
    met->pod.id = text_of(arena_copy(&calls->sync, pod->id));
    met->pod.uid = text_of(arena_copy(&calls->sync, pod->uid));
    met->pod.namespace = text_of(arena_copy(&calls->sync, pod->namespace));
    met->pod.name = text_of(arena_copy(&calls->sync, pod->name));
    met->pod.annotation = met->kept;
    met_keep_devices(met, pod);
    calls->met = met;
    return met;
}

static void met_keep(struct agent_calls *calls, struct met_pod *met, const struct nri_pod *pod)
{
    static const char *const key[] = {ANNOTATION_ALLOCATION, ANNOTATION_SIGNATURE};
    struct text value;

    must(met->pod.n_annotations + ARRAY_LEN(key) <= KEPT_ANNOTATIONS);
    for (size_t i = 0; i < ARRAY_LEN(key); i++)
        if (nri_annotation(pod, key[i], &value))
            met->kept[met->pod.n_annotations++] =
                (struct nri_pair){text_of(key[i]), text_of(arena_copy(&calls->sync, value))};
}

static const char *flaw_words(enum nri_flaw flaw)
{
    return flaw == NRI_BROKEN ? "the runtime's data about it is not a valid NRI message"
                              : "it has more annotations, variables and devices than are read";
}

/* A listed pod or container with a flaw keeps running; its unreadable fields count as absent. */
static void report_unread(enum metric_id kind, const struct nri_pod *pod, struct text container,
                          enum nri_flaw flaw)
{
    metric_add(kind, NULL, 1);
    log_write(LOG_WARN, "a pod or container is only partly readable, and gets no GPU from the rest",
              log_text("namespace", pod->namespace), log_text("pod", pod->name),
              log_text("container", container), log_str("why", flaw_words(flaw)));
}

/*
 * Only a signature proves an allocation, also in the first list of a new agent. A pod without one
 * keeps running, and is logged. Pods in the first list of a new folder can be older than the agent,
 * so their containers need not have been created through it.
 */
static void meet_pod(struct agent_calls *calls, const struct nri_pod *pod)
{
    struct met_pod *met = met_new(calls, pod);
    struct text allocation;
    struct text recorded;
    struct grant grant;

    if (pod->flaw != NRI_WHOLE)
        report_unread(COUNT_UNREAD_PODS, pod, TEXT(""), pod->flaw);
    if (!nri_annotation(pod, ANNOTATION_ALLOCATION, &allocation) || !pod_records_takes(pod->uid))
        return;
    grant_check(&calls->rules, pod, TEXT(""), &calls->arena, &grant);
    if (grant.verdict != GRANT_REFUSED)
        met_keep(calls, met, pod);
    if (pod_records_find(calls->records, pod->uid, &recorded)) {
        met->passes = grant.verdict != GRANT_REFUSED;
        pod_records_runs(calls->records, pod->uid);
    } else if (grant.proof == PROOF_SIGNATURE) {
        met->passes = !pod_records_are_new(calls->records);
        pod_records_add(calls->records, pod->uid, allocation);
    } else {
        log_write(LOG_WARN, "a pod runs with GPUs that milligpud did not sign",
                  log_text("namespace", pod->namespace), log_text("pod", pod->name),
                  log_str("why", grant.why.text));
    }
}

static const struct met_pod *met_of(const struct agent_calls *calls, struct text id)
{
    for (const struct met_pod *met = calls->met; met != NULL; met = met->next)
        if (text_eq(met->pod.id, id))
            return met;
    return NULL;
}

/* Reports a container that was created without the agent, while that was away. */
static void check_passed(const struct met_pod *met, const struct nri_container *container)
{
    const struct grant passed = {.verdict = GRANT_NOTHING};

    if (!met->passes || grant_is_seen(&passed, container))
        return;
    metric_add(COUNT_STRANGERS, NULL, 1);
    log_container(LOG_WARN, "a container runs that did not pass the agent", &met->pod, container,
                  "it was created while the agent was down: delete its pod");
}

static void meet_container(struct agent_calls *calls, const struct nri_container *container)
{
    static const struct nri_pod unknown = {.name = {"", 0}, .namespace = {"", 0}};
    const struct met_pod *met = met_of(calls, container->pod_id);
    enum container_right right;
    struct grant grant;

    if (container->flaw != NRI_WHOLE)
        report_unread(COUNT_UNREAD_CONTAINERS, met != NULL ? &met->pod : &unknown, container->name,
                      container->flaw);
    if (met == NULL)
        return;
    if (container->flaw == NRI_WHOLE)
        check_passed(met, container);
    if (container->state == NRI_STOPPED)
        return;
    grant_check(&calls->rules, &met->pod, container->name, &calls->arena, &grant);
    (void)containers_add(calls->containers, &met->pod, container, &grant, &right);
}

/* Reports running containers without a row; they stay unknown until the next list. */
static void report_left_out(struct agent_calls *calls)
{
    struct containers_copy copy;

    containers_copy(calls->containers, &calls->arena, &copy);
    const uint32_t *left_out = copy.left_out;
    calls->left_out = left_out[RIGHT_SHARE];
    metric_set(COUNT_LEFT_OUT_SHARES, NULL, left_out[RIGHT_SHARE]);
    metric_set(COUNT_LEFT_OUT_KUBELET, NULL, left_out[RIGHT_KUBELET]);
    metric_set(COUNT_LEFT_OUT_VARIABLE, NULL, left_out[RIGHT_VARIABLE]);
    if (left_out[RIGHT_SHARE] + left_out[RIGHT_KUBELET] + left_out[RIGHT_VARIABLE] > 0)
        log_write(LOG_WARN,
                  "more containers with GPUs run than the agent can tell apart: some are not "
                  "metered, and containers that would have to be compared with them are refused",
                  log_i64("shares", left_out[RIGHT_SHARE]),
                  log_i64("kubelet", left_out[RIGHT_KUBELET]),
                  log_i64("variable", left_out[RIGHT_VARIABLE]));
}

static void flush_records(struct pod_records *records)
{
    metric_set(COUNT_UNWRITTEN, NULL, (int64_t)pod_records_flush(records));
    metric_set(COUNT_RECORDS, NULL, (int64_t)pod_records_count(records));
}

static void end_list(struct agent_calls *calls)
{
    struct err err;

    if (pod_records_are_new(calls->records) && pod_records_born(calls->records, &err) < 0)
        log_write(LOG_ERROR, "the first scan of this node was not recorded, and is repeated",
                  log_str("why", err.text));
    flush_records(calls->records);
    containers_complete(calls->containers);
    report_left_out(calls);
    forget_list(calls);
}

static void agent_synchronize(void *user, const struct nri_pod *pod, uint32_t pods,
                              const struct nri_container *container, uint32_t containers, bool more)
{
    struct agent_calls *calls = user;

    if (!calls->in_sync) {
        pod_records_none_run(calls->records);
        containers_begin(calls->containers);
    }
    calls->in_sync = true;
    for (uint32_t i = 0; i < pods; i++)
        meet_pod(calls, &pod[i]);
    for (uint32_t i = 0; i < containers; i++)
        meet_container(calls, &container[i]);
    if (!more)
        end_list(calls);
    arena_reset(&calls->arena);
}

/* --- containers --- */

static void count_verdict(enum grant_verdict verdict)
{
    static const enum metric_id count[] = {[GRANT_FOREIGN] = COUNT_FOREIGN,
                                           [GRANT_NOTHING] = COUNT_NOTHING,
                                           [GRANT_GPUS] = COUNT_GPUS,
                                           [GRANT_REFUSED] = COUNT_REFUSED};

    must((size_t)verdict < ARRAY_LEN(count));
    metric_add(count[verdict], NULL, 1);
}

/*
 * Refuses a pod or container that is too long to be read, because its request is not known; counts
 * and logs the refusal.
 */
static int check_whole(const struct nri_pod *pod, const struct nri_container *container,
                       enum metric_id refused, struct err *err)
{
    if (pod->flaw == NRI_WHOLE && container->flaw == NRI_WHOLE)
        return 0;
    const bool is_pod = pod->flaw != NRI_WHOLE;
    (void)err_set(err, ERR_TOO_LARGE, "milligpu: %s: more than can be read (%d MiB): remove some",
                  is_pod ? "its pod has too many annotations"
                         : "it has too many environment variables or devices",
                  NRI_LISTS_BYTES_MAX >> 20);
    metric_add(is_pod ? COUNT_UNREAD_PODS : COUNT_UNREAD_CONTAINERS, NULL, 1);
    metric_add(refused, NULL, 1);
    log_container(LOG_WARN, "container refused", pod, container, err->text);
    return err_same(err);
}

/* Records the allocation with a pod's first accepted container, before the answer is sent. */
static void keep_record(struct agent_calls *calls, const struct nri_pod *pod,
                        const struct grant *grant)
{
    if (grant->proof != PROOF_SIGNATURE || grant->verdict == GRANT_REFUSED)
        return;
    pod_records_add(calls->records, pod->uid, grant->annotation);
    flush_records(calls->records);
}

static const struct gpu_reading nothing_read;

/* A reference to the latest reading; NULL without NVML. */
static const struct gpu_reading *latest(const struct agent_calls *calls)
{
    return calls->nvml != NULL ? nvml_latest(calls->nvml) : NULL;
}

/*
 * Refuses or logs a container that can open GPUs beyond its grant. Pods without an allocation are
 * not checked, so that pods that manage GPUs keep working.
 */
static int check_privileged(struct agent_calls *calls, const struct nri_pod *pod,
                            const struct nri_container *container, const struct grant *grant,
                            struct err *err)
{
    uint32_t gpus = 0;
    struct err why;

    if (grant->verdict == GRANT_FOREIGN || calls->privileged == PRIVILEGED_ALLOW)
        return 0;
    const struct gpu_reading *reading = latest(calls);
    const bool sees = privileged_sees(grant, container, reading != NULL ? reading : &nothing_read,
                                      &calls->arena, &gpus);
    gpu_reading_unref(reading);
    if (!sees)
        return 0;
    const int rc = privileged_error(gpus, &why);
    if (calls->privileged == PRIVILEGED_REFUSE) {
        metric_add(COUNT_PRIVILEGED_REFUSED, NULL, 1);
        *err = why;
        return rc;
    }
    metric_add(COUNT_PRIVILEGED_WARNED, NULL, 1);
    log_write(LOG_WARN, "a privileged container sees GPUs that it was not granted",
              log_text("namespace", pod->namespace), log_text("pod", pod->name),
              log_text("container", container->name), log_i64("gpus", gpus),
              log_str("why", why.text));
    return 0;
}

/*
 * Pods on one GPU must all have shares, their sum must not exceed the GPU, and with MPS they must
 * have the same user. The container is in the table already.
 */
static int check_beside(struct agent_calls *calls, const struct nri_container *container,
                        struct err *err)
{
    struct containers_copy copy;

    containers_copy(calls->containers, &calls->arena, &copy);
    if (overlap_allow(&copy, container->id, err) < 0) {
        metric_add(COUNT_OVERLAPS, NULL, 1);
        return err_same(err);
    }
    if (mps_allow(&copy, container->id, err) < 0)
        return err_same(err);
    if (calls->mixed_gpus)
        return 0;
    const struct gpu_reading *reading = latest(calls);
    const int rc =
        holders_allow(reading != NULL ? reading : &nothing_read, &copy, container->id, err);
    gpu_reading_unref(reading);
    return rc;
}

/*
 * Adds the container to the table. Containers without GPUs, which are most, skip the copy and the
 * checks. A container with GPUs but without a row is refused: it could not be compared or metered.
 */
static int take_row(struct agent_calls *calls, const struct nri_pod *pod,
                    const struct nri_container *container, const struct grant *grant,
                    struct err *err)
{
    static const char *const with[CONTAINER_RIGHTS] = {
        [RIGHT_SHARE] = "shares of GPUs",
        [RIGHT_KUBELET] = "whole GPUs",
        [RIGHT_VARIABLE] = "GPUs by the variable NVIDIA_VISIBLE_DEVICES"};
    enum container_right right;

    switch (containers_add(calls->containers, pod, container, grant, &right)) {
    case CONTAINERS_NO_GPUS:
        return 0;
    case CONTAINERS_KEPT:
        return check_beside(calls, container, err);
    case CONTAINERS_FULL:
        break;
    }
    return err_set(err, ERR_TOO_LARGE,
                   "the node has as many containers with %s as its agent can tell apart: delete "
                   "the pod, or others that have them",
                   with[right]);
}

/* A new container would block the replacement of the driver, and break after it. */
static int check_driver(const struct agent_calls *calls, const struct grant *grant, struct err *err)
{
    const enum release_cause cause = driver_release_cause(calls->release);

    if (cause == RELEASE_NOT || grant->verdict != GRANT_GPUS)
        return 0;
    return err_set(
        err, ERR_UNAVAILABLE,
        "no container with a share of a GPU starts now: %s; will be retried automatically",
        release_cause_sentence(cause));
}

static int agent_create(void *user, const struct nri_pod *pod,
                        const struct nri_container *container, struct nri_adjustment *out,
                        struct err *err)
{
    struct agent_calls *calls = user;
    struct grant grant;

    arena_reset(&calls->arena); /* nri_feed() has encoded the previous answer */
    if (check_whole(pod, container, COUNT_REFUSED, err) < 0)
        return err_same(err);
    grant_check(&calls->rules, pod, container->name, &calls->arena, &grant);
    int rc = check_driver(calls, &grant, err);
    if (rc == 0)
        rc = grant_adjust(&calls->rules, &grant, container, &calls->arena, out, err);
    if (rc == 0)
        rc = take_row(calls, pod, container, &grant, err);
    if (rc == 0)
        rc = check_privileged(calls, pod, container, &grant, err);
    if (rc < 0) {
        containers_gone(calls->containers, container->id);
        (void)err_wrap(err, "milligpu");
        metric_add(COUNT_REFUSED, NULL, 1);
        log_container(LOG_WARN, "container refused", pod, container, err->text);
        return err_same(err);
    }
    keep_record(calls, pod, &grant);
    count_verdict(grant.verdict);
    if (grant.verdict == GRANT_GPUS)
        log_write(LOG_INFO, "container gets its GPUs", log_text("namespace", pod->namespace),
                  log_text("pod", pod->name), log_text("container", container->name),
                  log_i64("gpus", grant.n_shares), log_text("first", out->cdi_device[0]));
    return 0;
}

static int limit_memory(struct agent_calls *calls, const struct nri_pod *pod,
                        const struct nri_container *container, const struct grant *grant,
                        struct err *err)
{
    const enum limit_outcome outcome = memory_limit_set(&calls->limit, grant, container, err);
    if (outcome == LIMIT_SET)
        metric_add(COUNT_LIMITED, NULL, 1);
    if (outcome != LIMIT_FAILED)
        return 0;
    if (calls->limit.mode == LIMIT_REQUIRE) {
        (void)err_wrap(err, "milligpu");
        metric_add(COUNT_LIMIT_REFUSED, NULL, 1);
        log_container(LOG_WARN, "container refused at its start", pod, container, err->text);
        return err_same(err);
    }
    metric_add(COUNT_UNLIMITED, NULL, 1);
    log_container(LOG_WARN, "a container starts without a limit of its GPU memory", pod, container,
                  err->text);
    return 0;
}

/*
 * Checks again at the start what can have changed since the container was created: the driver is
 * being released, or the client's MPS daemon has ended.
 */
static int check_again(struct agent_calls *calls, const struct nri_pod *pod,
                       const struct nri_container *container, const struct grant *grant,
                       struct err *err)
{
    struct mps_place place;

    if (check_driver(calls, grant, err) == 0 &&
        (!grant_is_client(grant, container) ||
         mps_place(calls->mps, grant->share[0]->gpu, &place, err) >= 0))
        return 0;
    (void)err_wrap(err, "milligpu");
    metric_add(COUNT_REFUSED, NULL, 1);
    log_container(LOG_WARN, "container refused at its start", pod, container, err->text);
    return err_same(err);
}

static int agent_start(void *user, const struct nri_pod *pod, const struct nri_container *container,
                       struct err *err)
{
    struct agent_calls *calls = user;
    struct grant grant;

    arena_reset(&calls->arena);
    if (check_whole(pod, container, COUNT_REFUSED, err) < 0)
        return err_same(err);
    grant_check(&calls->rules, pod, container->name, &calls->arena, &grant);
    /* Containers without GPUs were judged completely in agent_create(). */
    if (grant.verdict == GRANT_GPUS && (check_again(calls, pod, container, &grant, err) < 0 ||
                                        limit_memory(calls, pod, container, &grant, err) < 0))
        return err_same(err);
    containers_started(calls->containers, container->id);
    return 0;
}

static void agent_stopped(void *user, const struct nri_pod *pod,
                          const struct nri_container *container)
{
    const struct agent_calls *calls = user;

    (void)pod;
    containers_stopped(calls->containers, container->id);
}

static void agent_pod_stopped(void *user, const struct nri_pod *pod)
{
    const struct agent_calls *calls = user;

    containers_pod_gone(calls->containers, pod->id);
}

static int agent_validate(void *user, const struct nri_pod *pod,
                          const struct nri_container *container, const struct nri_adjustment *all,
                          enum nri_validator validator, struct err *err)
{
    struct agent_calls *calls = user;
    struct grant grant;

    if (validator != NRI_VALIDATOR_UNKNOWN)
        note_validator(calls, validator);
    arena_reset(&calls->arena);
    if (check_whole(pod, container, COUNT_INVALID, err) < 0)
        return err_same(err);
    grant_check(&calls->rules, pod, container->name, &calls->arena, &grant);
    if (grant_validate(&calls->rules, &grant, container, all, err) == 0) {
        metric_add(COUNT_VALID, NULL, 1);
        return 0;
    }
    (void)err_wrap(err, "milligpu");
    containers_gone(calls->containers,
                    container->id); /* it is not created, and no later call reports that */
    metric_add(COUNT_INVALID, NULL, 1);
    log_container(LOG_WARN, "container refused after all plugins", pod, container, err->text);
    return err_same(err);
}

void agent_calls_handlers(struct agent_calls *calls, struct nri_handlers *out)
{
    *out = (struct nri_handlers){.user = calls,
                                 .configure = agent_configure,
                                 .synchronize = agent_synchronize,
                                 .create = agent_create,
                                 .start = agent_start,
                                 .stopped = agent_stopped,
                                 .pod_stopped = agent_pod_stopped,
                                 .validate = agent_validate};
}
