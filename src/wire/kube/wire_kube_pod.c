/*
 * Decodes a Pod object. Called by the informer (its thread), by the outbox for the answers to its
 * GETs, and for webhook bodies (HTTP threads). An object with readable uid, name and node is a pod;
 * any other unreadable value closes or refuses, and frees nothing
 * (docs/why/011-unreadable-objects-still-count.md). Members come in any order, so all are collected
 * first; sums, sizes after a resize and per-container counts follow at the end. The effective
 * request is that of k8s.io/component-helpers/resource, PodRequests.
 */
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/annotations.h"
#include "milligpu/core/facts/advice.h"
#include "milligpu/core/facts/quantity.h"

#include "kube_read.h"

/* Resources per container, in milli, bytes and GPUs. Kubernetes resizes the first two in place. */
enum counted { CPU, MEMORY, WHOLE, COUNTED, RESIZABLE = WHOLE };

/* A ResourceList: the three counted resources, and ours as written. */
struct amounts {
    int64_t value[COUNTED];
    bool given[COUNTED];
    const char *ours;
};

struct container {
    struct pod_container facts;
    /* requests, else limits; the amounts of kube-scheduler after apply_resize() */
    int64_t request[COUNTED];
};

struct pod_containers {
    uint32_t count;
    struct container *item;
};

/* One entry of status.containerStatuses with the resources after a resize. */
struct container_status {
    struct text name;
    bool init;      /* in initContainerStatuses */
    uint32_t index; /* among all that were read */
    struct amounts allocated;
    struct amounts actual;
};

/* An annotation gpu-count.milligpu.io/<container>; it may come before its container. */
struct count_annotation {
    struct text container;
    const char *value;
    bool used; /* true if a container has this name */
};

struct pod_reading {
    const struct wire_rules *rules;
    struct pod *pod;
    const char *annotation; /* milligpu.io/allocation as written; NULL if absent */
    uint32_t n_counts;
    struct count_annotation *count;
    struct pod_containers init;
    struct pod_containers app;
    struct amounts pod_level; /* spec.resources, of the whole pod */
    struct amounts overhead;
    bool reads_init; /* initContainerStatuses are being read */
    uint32_t n_statuses;
    struct container_status *status; /* by name, once each, when the pod has been read */
    bool resize_infeasible;
    const char *init_unreadable; /* the first unreadable part of initContainers; NULL: none */
    bool agent_label;            /* the label of wire_rules.agents is present, with its value */
};

/* The API server limits the bytes of an object, not its numbers of elements. */
enum { ANY_NUMBER = UINT32_MAX / 2 };

/* Saturates: tenants choose the amounts, and a wrapped sum would make a huge pod small. */
static int64_t pod_add(int64_t a, int64_t b)
{
    int64_t sum;
    must(a >= 0 && b >= 0);
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t pod_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Annotations. */

/* An invalid annotation is a fact about the pod; the request is still read. */
static void read_allocation_annotation(struct json_reader *in, struct pod_reading *reading)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;

    if (read_once(in, &reading->annotation))
        return;
    pass_over(in, mark, &why);
    reading->annotation = "";
    reading->pod->note_error = why;
}

/*
 * Keeps the first few, for advice: a tenant may write thousands. Skips a key with a NUL, which the
 * API server refuses.
 */
static void keep_odd_key(struct arena *arena, struct pod *pod, struct text prefix, struct text key)
{
    must(pod->n_odd_keys <= ODD_KEYS_MAX);
    must(key.at != NULL);

    if (pod->n_odd_keys < ODD_KEYS_MAX && memchr(key.at, '\0', key.len) == NULL)
        pod->odd_key[pod->n_odd_keys++] =
            arena_printf(arena, "%.*s%.*s", TEXT_ARG(prefix), TEXT_ARG(key));
}

/* An unreadable signature counts as one of an unknown key. */
static void read_signature(struct json_reader *in, struct pod *pod)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *signature = NULL;
    const char *why = NULL;

    if (!read_once(in, &signature)) {
        pass_over(in, mark, &why);
        return;
    }
    pod->signed_by = signature_key_number(text_of(signature));
    pod->signature = pod->signed_by != 0 ? signature : "";
}

static bool pod_read_agent_label(struct json_reader *in, struct pod_reading *reading)
{
    struct text value;

    must(reading->rules->agents.key.len > 0);
    reading->agent_label =
        json_read_string(in, &value) && text_eq(value, reading->rules->agents.value);
    return !in->failed;
}

static bool pod_label(void *user, struct json_reader *in, struct text key)
{
    struct pod_reading *reading = user;

    must(reading->pod != NULL);
    if (reading->rules->agents.namespace != NULL && text_eq(key, reading->rules->agents.key))
        return pod_read_agent_label(in, reading);
    return pod_read_label(in, reading->pod, key);
}

static void pod_owners(void *user, struct json_reader *in)
{
    struct pod_reading *reading = user;

    must(reading->pod != NULL);
    pod_read_owners(in, reading->pod);
}

static const char count_prefix[] = "gpu-count.milligpu.io/";

static bool pod_read_annotation(void *user, struct json_reader *in, struct text key)
{
    must(user != NULL);

    struct pod_reading *reading = user;
    struct pod *pod = reading->pod;

    if (text_is(key, "milligpu.io/allocation")) {
        read_allocation_annotation(in, reading);
        return !in->failed;
    }
    if (text_is(key, ANNOTATION_SIGNATURE)) {
        read_signature(in, pod);
        return !in->failed;
    }
    if (text_is(key, "milligpu.io/gpu-count"))
        return read_once(in, &pod->count);
    if (text_is(key, "milligpu.io/gpu-model"))
        return read_once(in, &pod->model);
    if (text_is(key, "milligpu.io/gpu-memory"))
        return read_once(in, &pod->memory);
    if (text_is(key, "milligpu.io/topology"))
        return read_once(in, &pod->topology);
    if (!text_starts(key, count_prefix)) {
        if (annotation_is_odd(key))
            keep_odd_key(in->arena, pod, TEXT(""), key);
        return json_read_skip(in);
    }

    /* sort_counts() detects a second annotation for the same container. */
    struct count_annotation count = {
        .container = {key.at + sizeof count_prefix - 1, key.len - (sizeof count_prefix - 1)}};
    if (!json_read_cstring(in, &count.value))
        return false;
    reading->count = arena_grow(in->arena, reading->count, reading->n_counts, ANY_NUMBER,
                                sizeof *reading->count);
    reading->count[reading->n_counts++] = count;
    return true;
}

/* Amounts. */

/*
 * Rounds up as kube-scheduler does. Saturates beyond 64 bits, because the API server has accepted
 * the pod.
 */
static void read_counted(struct json_reader *in, struct amounts *out, enum counted which)
{
    must(which < COUNTED);

    const char *text = "";
    if (!read_amount(in, &text))
        return;
    int64_t value = 0;
    switch (quantity_ceil(text_of(text), which == CPU ? 3 : 0, &value)) {
    case QUANTITY_OK:
        break;
    case QUANTITY_RANGE:
        value = text[0] == '-' ? -1 : INT64_MAX;
        break;
    default:
        json_reader_fail(in, "is no quantity, such as \"500m\" or \"2Gi\"");
        return;
    }
    if (value < 0)
        json_reader_fail(in, "must not be negative");
    if (out->given[which])
        json_reader_fail(in, "comes twice; a key may come once");
    out->value[which] = pod_max(value, 0);
    out->given[which] = true;
}

/* Keeps our amount as written: request.h parses it and quotes it in refusals. */
static void pod_read_resource(struct json_reader *in, const struct wire_rules *rules,
                              struct text name, struct amounts *out)
{
    must(name.at != NULL);

    if (text_is(name, rules->resource)) {
        if (out->ours != NULL)
            json_reader_fail(in, "comes twice; a key may come once");
        (void)read_amount(in, &out->ours); /* errors stick, here and below */
    } else if (text_is(name, "cpu")) {
        read_counted(in, out, CPU);
    } else if (text_is(name, "memory")) {
        read_counted(in, out, MEMORY);
    } else if (text_is(name, rules->whole_resource)) {
        read_counted(in, out, WHOLE);
    } else {
        (void)json_read_skip(in);
    }
}

static void read_amounts(struct json_reader *in, const struct wire_rules *rules,
                         struct amounts *out)
{
    must(rules->resource != NULL);

    struct text key;
    if (!json_read_object(in))
        return;
    while (json_read_key(in, &key)) {
        /* For Go a null is a present key with the quantity 0: the pod is ours. */
        const bool ours = text_is(key, rules->resource);
        if (!json_read_null(in))
            pod_read_resource(in, rules, key, out);
        else if (ours)
            out->ours = "0";
    }
}

static const char *const resources_keys[] = {"limits", "requests"};

static void read_resources(struct json_reader *in, const struct wire_rules *rules,
                           struct amounts *out_limits, struct amounts *out_requests)
{
    must(out_limits != out_requests);

    struct json_read_fields fields = JSON_FIELDS(resources_keys);
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key))
        read_amounts(in, rules, key == 0 ? out_limits : out_requests);
}

/* Containers. */

static const char *const container_keys[] = {"name", "resources", "restartPolicy"};

/*
 * The API server copies absent requests from the limits; a body from elsewhere may lack them. For
 * our resource the limit counts: the API server requires equal ones for extended resources.
 */
static void take_amounts(const struct amounts *limits, const struct amounts *requests,
                         struct container *out)
{
    must(out->facts.name != NULL);

    out->facts.amount = limits->ours != NULL ? limits->ours : requests->ours;
    for (int i = 0; i < COUNTED; i++) {
        const struct amounts *from = requests->given[i] ? requests : limits;
        out->request[i] = from->value[i];
    }
}

static void read_container(struct json_reader *in, const struct pod_reading *reading, bool init,
                           struct container *out)
{
    must(reading->rules != NULL);

    struct json_read_fields fields = JSON_FIELDS(container_keys);
    struct amounts limits = {.ours = NULL};
    struct amounts requests = {.ours = NULL};
    struct text policy = TEXT("");
    int key;
    *out = (struct container){.facts = {.name = ""}};
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)read_string(in, NAME_BYTES_MAX, &out->facts.name); /* errors stick */
        else if (key == 1)
            read_resources(in, reading->rules, &limits, &requests);
        else
            (void)json_read_string(in, &policy);
    }
    if (!in->failed && out->facts.name[0] == '\0')
        json_reader_fail(in, "has no \"name\"");

    /* An init container with restartPolicy Always is a sidecar. */
    const bool sidecar = init && text_is(policy, "Always");
    out->facts.kind = sidecar ? CONTAINER_SIDECAR : init ? CONTAINER_INIT : CONTAINER_APP;
    take_amounts(&limits, &requests, out);
}

/*
 * A container with our resource makes the pod ours, even with 0; so does an unreadable container,
 * by its amount "".
 */
static void keep_container(struct json_reader *in, struct pod_reading *reading, bool init,
                           const struct container *container)
{
    struct pod_containers *list = init ? &reading->init : &reading->app;

    must(container->facts.name != NULL);
    reading->pod->ours |= container->facts.amount != NULL;
    list->item = arena_grow(in->arena, list->item, list->count, ANY_NUMBER, sizeof *list->item);
    list->item[list->count++] = *container;
}

/* Amount of an unreadable container: not a number, so unknown. */
static const char unreadable_amount[] = "";

/*
 * Adds an unknown container for the unreadable one, so that the pod does not count as requesting
 * nothing.
 */
static void pass_over_container(struct json_reader *in, struct json_reader_mark mark,
                                struct pod_reading *reading, bool init)
{
    const struct container unknown = {
        .facts = {.name = "",
                  .kind = init ? CONTAINER_INIT : CONTAINER_APP,
                  .amount = unreadable_amount},
    };

    pass_over(in, mark, init ? &reading->init_unreadable : &reading->pod->unreadable);
    keep_container(in, reading, init, &unknown);
}

/* If the list itself is unreadable, one unknown container stands for it. */
static void read_containers(struct json_reader *in, struct pod_reading *reading, bool init)
{
    const struct json_reader_mark whole = json_reader_mark(in);
    struct container container;

    if (!json_read_array(in)) {
        pass_over_container(in, whole, reading, init);
        return;
    }
    while (json_read_element(in)) {
        const struct json_reader_mark mark = json_reader_mark(in);
        read_container(in, reading, init, &container);
        if (in->failed)
            pass_over_container(in, mark, reading, init);
        else
            keep_container(in, reading, init, &container);
    }
}

/* spec. */

static const char *const spec_keys[] = {
    "nodeName",    "priority",     "initContainers", "containers",    "overhead",       "resources",
    "tolerations", "nodeSelector", "affinity",       "schedulerName", "schedulingGates"};
enum {
    SPEC_NODE,
    SPEC_PRIORITY,
    SPEC_INIT,
    SPEC_CONTAINERS,
    SPEC_OVERHEAD,
    SPEC_RESOURCES,
    SPEC_TOLERATIONS,
    SPEC_SELECTOR,
    SPEC_AFFINITY,
    SPEC_SCHEDULER,
    SPEC_GATES
};

static void spec_member(struct json_reader *in, struct pod_reading *reading, int key)
{
    struct amounts limits = {.ours = NULL};
    int64_t priority = 0;
    switch (key) {
    case SPEC_NODE:
        (void)read_string(in, NAME_BYTES_MAX, &reading->pod->node); /* errors stick */
        break;
    case SPEC_PRIORITY:
        (void)read_number(in, INT32_MIN, INT32_MAX, &priority);
        reading->pod->priority = (int32_t)priority;
        break;
    case SPEC_INIT:
        read_containers(in, reading, true);
        break;
    case SPEC_CONTAINERS:
        read_containers(in, reading, false);
        break;
    case SPEC_OVERHEAD:
        read_amounts(in, reading->rules, &reading->overhead);
        break;
    case SPEC_RESOURCES:
        read_resources(in, reading->rules, &limits, &reading->pod_level);
        break;
    case SPEC_TOLERATIONS:
        read_tolerations(in, &reading->pod->demands);
        break;
    case SPEC_SELECTOR:
        read_node_selector(in, &reading->pod->demands);
        break;
    case SPEC_AFFINITY:
        read_affinity(in, &reading->pod->demands);
        break;
    case SPEC_SCHEDULER:
        pod_read_scheduler(in, reading->pod);
        break;
    case SPEC_GATES:
        pod_read_gates(in, reading->pod);
        break;
    default:
        must_not_reach("json_read_field gives the keys of its table only");
    }
}

/*
 * A spec that is no object fails the pod, because it contains the node. Of several unreadable
 * parts, initContainers are reported, as they stand first in JSON: in protobuf they do not.
 */
static void pod_read_spec(struct json_reader *in, struct pod_reading *reading)
{
    struct json_read_fields fields = JSON_FIELDS(spec_keys);
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        const struct json_reader_mark mark = json_reader_mark(in);
        spec_member(in, reading, key);
        /* The node is part of the pod's identity, so an unreadable one fails the pod. */
        if (in->failed && key != SPEC_NODE)
            pass_over(in, mark, &reading->pod->unreadable);
    }
    if (reading->init_unreadable != NULL)
        reading->pod->unreadable = reading->init_unreadable;
}

/* status. */

static const char *const condition_keys[] = {"type", "status", "reason", "message",
                                             "lastTransitionTime"};

/*
 * Three conditions count: PodScheduled, for the time of the binding or the reason for none; Ready,
 * of agents; and an infeasible resize, whose requested amount does not count.
 */
static void read_condition(struct json_reader *in, struct pod_reading *reading)
{
    struct json_read_fields fields = JSON_FIELDS(condition_keys);
    struct text word[] = {TEXT(""), TEXT(""), TEXT(""), TEXT("")};
    int64_t since_ms = 0;
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key < (int)ARRAY_LEN(word))
            (void)json_read_string(in, &word[key]); /* errors stick */
        else
            (void)read_time(in, &since_ms);
    }
    if (text_is(word[0], "Ready"))
        reading->pod->is_ready = text_is(word[1], "True");
    if (!text_is(word[1], "True")) {
        if (text_is(word[0], "PodScheduled"))
            pod_note_condition(in->arena, reading->pod, word[2], word[3], since_ms);
        return;
    }
    if (text_is(word[0], "PodScheduled"))
        reading->pod->scheduled_ms = since_ms;
    if (text_is(word[0], "PodResizePending") && text_is(word[2], "Infeasible"))
        reading->resize_infeasible = true;
}

static const char *const container_status_keys[] = {"name", "allocatedResources", "resources"};

/* Without resources, kubelet has reported no resize, and only the spec counts. */
static void read_container_status(struct json_reader *in, struct pod_reading *reading)
{
    must(reading->rules != NULL);

    struct json_read_fields fields = JSON_FIELDS(container_status_keys);
    struct container_status status = {
        .name = TEXT(""), .init = reading->reads_init, .index = reading->n_statuses};
    struct amounts limits = {.ours = NULL};
    bool resized = false;
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_string(in, &status.name); /* errors stick */
        if (key == 1)
            read_amounts(in, reading->rules, &status.allocated);
        if (key == 2) {
            resized = true;
            read_resources(in, reading->rules, &limits, &status.actual);
        }
    }
    if (in->failed || !resized)
        return;
    reading->status = arena_grow(in->arena, reading->status, reading->n_statuses, ANY_NUMBER,
                                 sizeof *reading->status);
    reading->status[reading->n_statuses++] = status;
}

/* No share depends on a status entry, so an unreadable one is skipped. */
static void pod_each(struct json_reader *in, struct pod_reading *reading,
                     void (*read)(struct json_reader *, struct pod_reading *))
{
    const struct json_reader_mark whole = json_reader_mark(in);
    const char *why = NULL;

    must(read != NULL);
    if (!json_read_array(in)) {
        pass_over(in, whole, &why);
        return;
    }
    while (json_read_element(in)) {
        const struct json_reader_mark mark = json_reader_mark(in);
        if (json_read_null(in))
            continue;
        read(in, reading);
        if (in->failed)
            pass_over(in, mark, &why);
    }
}

/* An unknown or unreadable phase never means that the pod has ended: its share stays. */
static void read_phase(struct json_reader *in, struct pod *pod)
{
    must(pod->phase == POD_PENDING);

    static const char *const name[] = {
        [POD_PENDING] = "Pending", [POD_RUNNING] = "Running", [POD_SUCCEEDED] = "Succeeded",
        [POD_FAILED] = "Failed",   [POD_UNKNOWN] = "Unknown",
    };
    const struct json_reader_mark mark = json_reader_mark(in);
    struct text phase;
    if (!json_read_string(in, &phase)) {
        pod->phase = POD_UNKNOWN;
        pass_over(in, mark, &pod->unreadable);
        return;
    }
    pod->phase = phase.len == 0 ? POD_PENDING : POD_UNKNOWN;
    for (size_t i = 0; i < ARRAY_LEN(name); i++)
        if (text_is(phase, name[i]))
            pod->phase = (enum pod_phase)i;
}

static const char *const status_keys[] = {"phase", "conditions", "containerStatuses",
                                          "initContainerStatuses"};
enum { STATUS_PHASE, STATUS_CONDITIONS, STATUS_CONTAINERS, STATUS_INIT };

/* If status is no object, the pod is unreadable and counts as not ended. */
static void pod_read_status(struct json_reader *in, struct pod_reading *reading)
{
    must(reading->n_statuses == 0);

    const struct json_reader_mark mark = json_reader_mark(in);
    struct json_read_fields fields = JSON_FIELDS(status_keys);
    int key;
    if (!json_read_object(in)) {
        reading->pod->phase = POD_UNKNOWN;
        pass_over(in, mark, &reading->pod->unreadable);
        return;
    }
    while (json_read_field(in, &fields, &key)) {
        reading->reads_init = key == STATUS_INIT;
        if (key == STATUS_PHASE)
            read_phase(in, reading->pod);
        else
            pod_each(in, reading,
                     key == STATUS_CONDITIONS ? read_condition : read_container_status);
    }
}

/* Evaluation, when everything has been read. */

/* Bytewise; a prefix orders before longer names. */
static int text_order(struct text a, struct text b)
{
    const int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int pod_by_name(const void *a, const void *b)
{
    const struct container_status *left = a;
    const struct container_status *right = b;
    must(left->name.at != NULL && right->name.at != NULL);
    return text_order(left->name, right->name);
}

/* Of equal names, that of containerStatuses first, then the earlier one. */
static int by_name_and_place(const void *a, const void *b)
{
    const struct container_status *left = a;
    const struct container_status *right = b;
    const int order = pod_by_name(a, b);

    if (order != 0)
        return order;
    if (left->init != right->init)
        return left->init ? 1 : -1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/*
 * The API server takes two statuses of one name; the first counts, as in kube-scheduler 1.37 (up to
 * 1.36, the last). JSON has the two lists in another order than protobuf.
 */
static void sort_statuses(struct pod_reading *reading)
{
    uint32_t kept = 0;

    must(reading->n_statuses == 0 || reading->status != NULL);
    if (reading->n_statuses < 2)
        return;
    qsort(reading->status, reading->n_statuses, sizeof *reading->status, by_name_and_place);
    for (uint32_t i = 1; i < reading->n_statuses; i++)
        if (pod_by_name(&reading->status[kept], &reading->status[i]) != 0)
            reading->status[++kept] = reading->status[i];
    reading->n_statuses = kept + 1;
}

/* A binary search: both lists may have thousands of entries. */
static const struct container_status *status_of(const struct pod_reading *reading, const char *name)
{
    const struct container_status wanted = {.name = text_of(name)};

    must(reading->n_statuses == 0 || reading->status != NULL);
    if (reading->n_statuses == 0)
        return NULL;
    return bsearch(&wanted, reading->status, reading->n_statuses, sizeof wanted, pod_by_name);
}

/* A resize in place counts with the maximum of the requested, allocated and actual amounts. */
static void apply_resize(const struct pod_reading *reading, struct container *container)
{
    must(container->facts.name != NULL);

    const struct container_status *status = status_of(reading, container->facts.name);
    if (status == NULL || container->facts.kind == CONTAINER_INIT)
        return;
    for (int i = 0; i < RESIZABLE; i++) {
        const int64_t asked = reading->resize_infeasible ? 0 : container->request[i];
        container->request[i] =
            pod_max(asked, pod_max(status->allocated.value[i], status->actual.value[i]));
    }
}

/*
 * App containers and sidecars run together; before that, each init container runs with the sidecars
 * started earlier. The maximum of both phases counts; amounts for the whole pod replace it, and the
 * overhead of the runtime class is added.
 */
static int64_t pod_effective(const struct pod_reading *reading, enum counted which)
{
    must(which < COUNTED);

    int64_t together = 0;
    int64_t sidecars = 0;
    int64_t peak = 0;
    for (uint32_t i = 0; i < reading->app.count; i++)
        together = pod_add(together, reading->app.item[i].request[which]);
    for (uint32_t i = 0; i < reading->init.count; i++) {
        const struct container *container = &reading->init.item[i];
        const int64_t asked = container->request[which];
        if (container->facts.kind == CONTAINER_SIDECAR) {
            together = pod_add(together, asked);
            sidecars = pod_add(sidecars, asked);
            peak = pod_max(peak, sidecars);
        } else {
            peak = pod_max(peak, pod_add(asked, sidecars));
        }
    }
    int64_t all = pod_max(together, peak);
    if (which < RESIZABLE && reading->pod_level.given[which])
        all = reading->pod_level.value[which];
    return pod_add(all, reading->overhead.value[which]);
}

/* Sorts statuses for status_of(), and applies resizes before the sums. */
static void count_requests(struct pod_reading *reading)
{
    struct pod *pod = reading->pod;
    sort_statuses(reading);
    for (uint32_t i = 0; i < reading->init.count; i++)
        apply_resize(reading, &reading->init.item[i]);
    for (uint32_t i = 0; i < reading->app.count; i++)
        apply_resize(reading, &reading->app.item[i]);

    const int64_t whole = pod_effective(reading, WHOLE);
    pod->cpu_milli = pod_effective(reading, CPU);
    pod->memory_bytes = pod_effective(reading, MEMORY);
    pod->whole_gpus = whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX;
    must(pod->cpu_milli >= 0 && pod->memory_bytes >= 0);
}

/* Compares only names: in bsearch() one side is the search key, without a value. */
static int by_container(const void *a, const void *b)
{
    const struct count_annotation *left = a;
    const struct count_annotation *right = b;
    must(left->value != NULL || right->value != NULL);
    return text_order(left->container, right->container);
}

static const char *pod_count_of(struct pod_reading *reading, const char *name)
{
    const struct count_annotation wanted = {.container = text_of(name)};

    must(reading->n_counts == 0 || reading->count != NULL);
    if (reading->n_counts == 0)
        return NULL;
    struct count_annotation *annotation =
        bsearch(&wanted, reading->count, reading->n_counts, sizeof wanted, by_container);
    if (annotation == NULL)
        return NULL;
    annotation->used = true;
    return annotation->value;
}

/* Annotations without a container have no effect. Call it when all containers are known. */
static void keep_odd_counts(struct arena *arena, const struct pod_reading *reading)
{
    must(reading->n_counts == 0 || reading->count != NULL);

    for (uint32_t i = 0; i < reading->n_counts; i++)
        if (!reading->count[i].used)
            keep_odd_key(arena, reading->pod, text_of(count_prefix), reading->count[i].container);
}

/* Sorts, so that duplicates for one container are adjacent: these are ambiguous. */
static void sort_counts(struct pod_reading *reading)
{
    if (reading->n_counts > 1)
        qsort(reading->count, reading->n_counts, sizeof *reading->count, by_container);
    for (uint32_t i = 1; i < reading->n_counts; i++)
        if (by_container(&reading->count[i - 1], &reading->count[i]) == 0)
            reading->pod->unreadable =
                "metadata.annotations: a key with gpu-count.milligpu.io/ comes twice";
}

/* In start order: init containers and sidecars as in the spec, then the others. */
static void join_containers(struct json_reader *in, struct pod_reading *reading)
{
    struct pod *pod = reading->pod;
    const uint32_t all = reading->init.count + reading->app.count;

    must(pod->n_containers == 0);
    sort_counts(reading);
    pod->container = arena_array(in->arena, all, sizeof *pod->container);
    for (pod->n_containers = 0; pod->n_containers < all; pod->n_containers++) {
        const uint32_t i = pod->n_containers;
        const bool init = i < reading->init.count;
        const struct container *from =
            init ? &reading->init.item[i] : &reading->app.item[i - reading->init.count];
        pod->container[i] = from->facts;
        pod->container[i].count = pod_count_of(reading, from->facts.name);
    }
    keep_odd_counts(in->arena, reading);
}

/* If several parts are unreadable, metadata is reported, whatever the order of the members. */
static void pod_take_meta(struct pod *out, const struct meta_reading *meta)
{
    must(meta->meta.uid != NULL && meta->meta.name != NULL);
    out->uid = meta->meta.uid;
    out->namespace = meta->meta.namespace;
    out->name = meta->meta.name;
    out->resource_version = meta->meta.resource_version;
    out->created_ms = meta->created_ms;
    out->terminating_ms = meta->deleted_ms;
    if (meta->unreadable != NULL)
        out->unreadable = meta->unreadable;
}

static void pod_take_annotation(struct arena *arena, const struct pod_reading *reading)
{
    struct pod *pod = reading->pod;

    must(pod->annotation == NOTE_NONE);
    if (reading->annotation == NULL)
        return;
    pod->note_text = reading->annotation;
    if (pod->note_error[0] != '\0')
        pod->annotation = NOTE_BROKEN;
    else
        annotation_decode(text_of(reading->annotation), arena, pod);
}

static const char *const pod_keys[] = {"kind", "metadata", "spec", "status"};

/* If the reader fails, *out is incomplete and must not be used. */
bool pod_read(struct json_reader *in, const struct wire_rules *rules, struct pod *out)
{
    must(rules->resource != NULL && rules->whole_resource != NULL);

    struct json_read_fields fields = JSON_FIELDS(pod_keys);
    struct pod_reading reading = {.rules = rules, .pod = out};
    struct meta_reading meta = {.user = &reading,
                                .label = pod_label,
                                .annotation = pod_read_annotation,
                                .owners = pod_owners};
    int key;
    *out = (struct pod){.node = "", .signature = "", .note_text = "", .note_error = ""};
    meta_clear(&meta.meta);
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)read_kind(in, "Pod"); /* the error sticks */
        if (key == 1)
            read_meta(in, &meta);
        if (key == 2)
            pod_read_spec(in, &reading);
        if (key == 3)
            pod_read_status(in, &reading);
    }
    if (in->failed)
        return false;
    pod_take_meta(out, &meta);
    out->is_agent = reading.agent_label && strcmp(out->namespace, rules->agents.namespace) == 0;
    pod_name_owner(in->arena, out);
    count_requests(&reading);
    join_containers(in, &reading);
    pod_take_annotation(in->arena, &reading);
    return !in->failed;
}

static void read_named_pod(struct json_reader *in, const struct wire_rules *rules, struct pod *out)
{
    if (!pod_read(in, rules, out))
        return;
    if (out->name[0] == '\0')
        json_reader_fail(in, "has no metadata.name");
    if (out->uid[0] == '\0')
        json_reader_fail(in, "has no metadata.uid");
}

int pod_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
               struct pod *out, struct err *err)
{
    struct json_reader in;
    json_reader_init(&in, bytes, "Pod", arena, err);
    read_named_pod(&in, rules, out);
    return json_reader_finish(&in);
}

size_t pod_decode_first(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                        struct pod *out)
{
    UNSET struct json_reader in;
    struct err ignored;
    json_reader_init(&in, bytes, "Pod", arena, &ignored);
    read_named_pod(&in, rules, out);
    return json_reader_stop(&in);
}
