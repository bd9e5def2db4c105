/* Source of the effective request: k8s.io/component-helpers/resource, PodRequests. */
#include <string.h>

#include "milligpu/quantity.h"

#include "wire/kube_read.h"

/* What we count per container. */
enum counted { CPU, MEMORY, WHOLE, COUNTED, RESIZABLE = WHOLE };

/* A ResourceList: the three that we count, and ours as it is written. */
struct amounts {
    int64_t value[COUNTED];
    bool given[COUNTED];
    const char *ours;
};

struct container {
    struct pod_container is;
    struct amounts limits;
    struct amounts requests;
    int64_t request[COUNTED];
};

struct containers {
    uint32_t count;
    struct container *item;
};

/* One entry of status.containerStatuses: what a resize has made of it. */
struct container_status {
    const char *name;
    bool has_resources;
    struct amounts allocated;
    struct amounts actual;
};

/* An annotation gpu-count.milligpu.io/<container>; it may come before its container. */
struct count_note {
    struct count_note *older;
    struct text container;
    const char *value;
};

struct pod_reading {
    const struct wire_rules *rules;
    struct pod *pod;
    const char *note;
    struct count_note *counts;
    struct containers init;
    struct containers app;
    struct amounts pod_level;
    struct amounts overhead;
    uint32_t statuses;
    struct container_status *status;
    bool resize_infeasible;
};

/*
 * One more than a pod may have, so that whoever judges the pod sees that there are too many; of
 * what comes beyond only the amounts are kept.
 */
enum { KEPT_MAX = CONTAINERS_MAX + 1, STATUSES_MAX = 2 * KEPT_MAX };

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    must(a >= 0 && b >= 0);
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Annotations. */

static bool read_annotation(void *user, struct jr *in, struct text key)
{
    must(user != NULL);

    static const char count_prefix[] = "gpu-count.milligpu.io/";
    struct pod_reading *reading = user;
    struct pod *pod = reading->pod;

    if (text_is(key, "milligpu.io/allocation"))
        return read_once(in, &reading->note);
    if (text_is(key, "milligpu.io/gpu-count"))
        return read_once(in, &pod->count);
    if (text_is(key, "milligpu.io/gpu-model"))
        return read_once(in, &pod->model);
    if (text_is(key, "milligpu.io/gpu-memory"))
        return read_once(in, &pod->memory);
    if (!text_starts(key, count_prefix))
        return jr_skip(in);

    struct count_note *count = arena_alloc(in->arena, sizeof *count);
    *count = (struct count_note){
        .older = reading->counts,
        .container = {key.at + sizeof count_prefix - 1, key.len - (sizeof count_prefix - 1)},
    };
    reading->counts = count;
    return jr_cstring(in, &count->value);
}

/* Amounts. */

static void read_counted(struct jr *in, struct amounts *out, enum counted which)
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
        jr_fail(in, "is no quantity, such as \"500m\" or \"2Gi\"");
        return;
    }
    if (value < 0)
        jr_fail(in, "must not be negative");
    if (out->given[which])
        jr_fail(in, "comes twice; a key may come once");
    out->value[which] = max(value, 0);
    out->given[which] = true;
}

static void read_resource(struct jr *in, const struct wire_rules *rules, struct text name,
                          struct amounts *out)
{
    must(name.at != NULL);

    if (text_is(name, rules->resource)) {
        if (out->ours != NULL)
            jr_fail(in, "comes twice; a key may come once");
        (void)read_amount(in, &out->ours); /* failures stick, here and below */
    } else if (text_is(name, "cpu")) {
        read_counted(in, out, CPU);
    } else if (text_is(name, "memory")) {
        read_counted(in, out, MEMORY);
    } else if (text_is(name, rules->whole_resource)) {
        read_counted(in, out, WHOLE);
    } else {
        (void)jr_skip(in);
    }
}

static void read_amounts(struct jr *in, const struct wire_rules *rules, struct amounts *out)
{
    must(rules->resource != NULL);

    struct text key;
    if (!jr_object(in))
        return;
    while (jr_key(in, &key)) {
        /* To Go a null is the quantity 0, and the key is there: the pod is ours. */
        const bool ours = text_is(key, rules->resource);
        if (!jr_null(in))
            read_resource(in, rules, key, out);
        else if (ours)
            out->ours = "0";
    }
}

static const char *const resources_keys[] = {"limits", "requests"};

static void read_resources(struct jr *in, const struct wire_rules *rules,
                           struct amounts *out_limits, struct amounts *out_requests)
{
    must(out_limits != out_requests);

    struct jr_fields fields = JR_FIELDS(resources_keys);
    int key;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key))
        read_amounts(in, rules, key == 0 ? out_limits : out_requests);
}

/* Containers. */

static const char *const container_keys[] = {"name", "resources", "restartPolicy"};

static void read_container(struct jr *in, const struct pod_reading *reading, bool init,
                           struct container *out)
{
    must(reading->rules != NULL);

    struct jr_fields fields = JR_FIELDS(container_keys);
    struct text policy = TEXT("");
    int key;
    *out = (struct container){.is = {.name = ""}};
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key)) {
        if (key == 0)
            (void)read_string(in, NAME_BYTES_MAX, &out->is.name); /* failures stick */
        else if (key == 1)
            read_resources(in, reading->rules, &out->limits, &out->requests);
        else
            (void)jr_string(in, &policy);
    }
    if (!in->failed && out->is.name[0] == '\0')
        jr_fail(in, "has no \"name\"");

    const bool sidecar = init && text_is(policy, "Always");
    out->is.kind = sidecar ? CONTAINER_SIDECAR : init ? CONTAINER_INIT : CONTAINER_APP;
    out->is.amount = out->limits.ours != NULL ? out->limits.ours : out->requests.ours;
    for (int i = 0; i < COUNTED; i++) {
        const struct amounts *from = out->requests.given[i] ? &out->requests : &out->limits;
        out->request[i] = from->value[i];
    }
}

static void keep_container(struct jr *in, struct containers *list,
                           const struct container *container)
{
    must(list->count <= KEPT_MAX);
    must(container->is.name != NULL);

    if (list->count < KEPT_MAX) {
        list->item = arena_grow(in->arena, list->item, list->count, KEPT_MAX, sizeof *list->item);
        list->item[list->count++] = *container;
        return;
    }
    struct container *last = &list->item[list->count - 1];
    for (int i = 0; i < COUNTED; i++)
        last->request[i] = add(last->request[i], container->request[i]);
}

static void read_containers(struct jr *in, struct pod_reading *reading, bool init)
{
    must(reading->pod != NULL);

    struct container container;
    if (!jr_array(in))
        return;
    while (jr_element(in)) {
        read_container(in, reading, init, &container);
        if (in->failed)
            return;
        reading->pod->ours |= container.is.amount != NULL;
        keep_container(in, init ? &reading->init : &reading->app, &container);
    }
}

/* spec. */

static const char *const spec_keys[] = {"nodeName",   "schedulerName", "priority", "initContainers",
                                        "containers", "overhead",      "resources"};
enum {
    SPEC_NODE,
    SPEC_SCHEDULER,
    SPEC_PRIORITY,
    SPEC_INIT,
    SPEC_CONTAINERS,
    SPEC_OVERHEAD,
    SPEC_RESOURCES
};

static void spec_member(struct jr *in, struct pod_reading *reading, int key)
{
    struct amounts limits = {.ours = NULL};
    int64_t priority = 0;
    switch (key) {
    case SPEC_NODE:
        (void)read_string(in, NAME_BYTES_MAX, &reading->pod->node); /* failures stick */
        break;
    case SPEC_SCHEDULER:
        (void)read_string(in, NAME_BYTES_MAX, &reading->pod->scheduler);
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
    default:
        must_not_reach("jr_field gives the keys of its table only");
    }
}

static void read_spec(struct jr *in, struct pod_reading *reading)
{
    must(reading->pod != NULL);

    struct jr_fields fields = JR_FIELDS(spec_keys);
    int key;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key))
        spec_member(in, reading, key);
}

/* status. */

static const char *const condition_keys[] = {"type", "status", "reason", "lastTransitionTime"};

static void read_condition(struct jr *in, struct pod_reading *reading)
{
    must(reading->pod != NULL);

    struct jr_fields fields = JR_FIELDS(condition_keys);
    struct text word[] = {TEXT(""), TEXT(""), TEXT("")};
    int64_t since_ms = 0;
    int key;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key)) {
        if (key < (int)ARRAY_LEN(word))
            (void)jr_string(in, &word[key]); /* failures stick */
        else
            (void)read_time(in, &since_ms);
    }
    if (!text_is(word[1], "True"))
        return;
    if (text_is(word[0], "PodScheduled"))
        reading->pod->scheduled_ms = since_ms;
    if (text_is(word[0], "PodResizePending") && text_is(word[2], "Infeasible"))
        reading->resize_infeasible = true;
}

static const char *const container_status_keys[] = {"name", "allocatedResources", "resources"};

static void read_container_status(struct jr *in, struct pod_reading *reading)
{
    must(reading->statuses <= STATUSES_MAX);

    struct jr_fields fields = JR_FIELDS(container_status_keys);
    struct container_status status = {.name = ""};
    struct amounts limits = {.ours = NULL};
    int key;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key)) {
        if (key == 0)
            (void)read_string(in, NAME_BYTES_MAX, &status.name); /* failures stick */
        if (key == 1)
            read_amounts(in, reading->rules, &status.allocated);
        if (key == 2) {
            status.has_resources = true;
            read_resources(in, reading->rules, &limits, &status.actual);
        }
    }
    if (in->failed || reading->statuses == STATUSES_MAX)
        return;
    reading->status = arena_grow(in->arena, reading->status, reading->statuses, STATUSES_MAX,
                                 sizeof *reading->status);
    reading->status[reading->statuses++] = status;
}

static void each(struct jr *in, struct pod_reading *reading,
                 void (*read)(struct jr *, struct pod_reading *))
{
    must(read != NULL);

    if (!jr_array(in))
        return;
    while (jr_element(in))
        if (!jr_null(in))
            read(in, reading);
}

static void read_phase(struct jr *in, struct pod *pod)
{
    must(pod->phase == POD_PENDING);

    static const char *const name[] = {
        [POD_PENDING] = "Pending", [POD_RUNNING] = "Running", [POD_SUCCEEDED] = "Succeeded",
        [POD_FAILED] = "Failed",   [POD_UNKNOWN] = "Unknown",
    };
    struct text phase;
    if (!jr_string(in, &phase))
        return;
    pod->phase = phase.len == 0 ? POD_PENDING : POD_UNKNOWN;
    for (size_t i = 0; i < ARRAY_LEN(name); i++)
        if (text_is(phase, name[i]))
            pod->phase = (enum pod_phase)i;
}

static const char *const status_keys[] = {"phase", "conditions", "containerStatuses",
                                          "initContainerStatuses"};

static void read_status(struct jr *in, struct pod_reading *reading)
{
    must(reading->statuses == 0);

    struct jr_fields fields = JR_FIELDS(status_keys);
    int key;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key)) {
        if (key == 0)
            read_phase(in, reading->pod);
        else
            each(in, reading, key == 1 ? read_condition : read_container_status);
    }
}

/* The whole, once everything is read. */

static const struct container_status *status_of(const struct pod_reading *reading, const char *name)
{
    must(reading->statuses == 0 || reading->status != NULL);

    for (uint32_t i = 0; i < reading->statuses; i++)
        if (strcmp(reading->status[i].name, name) == 0)
            return &reading->status[i];
    return NULL;
}

/* A resize in place counts with the largest of what is asked, granted and in force. */
static void apply_resize(const struct pod_reading *reading, struct container *container)
{
    must(container->is.name != NULL);

    const struct container_status *status = status_of(reading, container->is.name);
    if (status == NULL || !status->has_resources || container->is.kind == CONTAINER_INIT)
        return;
    for (int i = 0; i < RESIZABLE; i++) {
        const int64_t asked = reading->resize_infeasible ? 0 : container->request[i];
        container->request[i] =
            max(asked, max(status->allocated.value[i], status->actual.value[i]));
    }
}

static int64_t effective(const struct pod_reading *reading, enum counted which)
{
    must(which < COUNTED);

    int64_t together = 0;
    int64_t sidecars = 0;
    int64_t peak = 0;
    for (uint32_t i = 0; i < reading->app.count; i++)
        together = add(together, reading->app.item[i].request[which]);
    for (uint32_t i = 0; i < reading->init.count; i++) {
        const struct container *container = &reading->init.item[i];
        const int64_t asked = container->request[which];
        if (container->is.kind == CONTAINER_SIDECAR) {
            together = add(together, asked);
            sidecars = add(sidecars, asked);
            peak = max(peak, sidecars);
        } else {
            peak = max(peak, add(asked, sidecars));
        }
    }
    int64_t all = max(together, peak);
    if (which < RESIZABLE && reading->pod_level.given[which])
        all = reading->pod_level.value[which];
    return add(all, reading->overhead.value[which]);
}

static void count_requests(struct pod_reading *reading)
{
    struct pod *pod = reading->pod;
    for (uint32_t i = 0; i < reading->init.count; i++)
        apply_resize(reading, &reading->init.item[i]);
    for (uint32_t i = 0; i < reading->app.count; i++)
        apply_resize(reading, &reading->app.item[i]);

    const int64_t whole = effective(reading, WHOLE);
    pod->cpu_milli = effective(reading, CPU);
    pod->memory_bytes = effective(reading, MEMORY);
    pod->whole_gpus = whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX;
    must(pod->cpu_milli >= 0 && pod->memory_bytes >= 0);
}

static void attach_counts(struct jr *in, const struct pod_reading *reading,
                          struct pod_container *container)
{
    must(container->count == NULL);

    for (const struct count_note *note = reading->counts; note != NULL; note = note->older) {
        if (!text_is(note->container, container->name))
            continue;
        if (container->count != NULL)
            jr_fail(in, "annotation gpu-count.milligpu.io/%s comes twice", container->name);
        container->count = note->value;
    }
}

/* In the order of life: init containers and sidecars as in the spec, then the others. */
static void join_containers(struct jr *in, const struct pod_reading *reading)
{
    must(reading->init.count <= KEPT_MAX && reading->app.count <= KEPT_MAX);

    struct pod *pod = reading->pod;
    const uint32_t all = reading->init.count + reading->app.count;
    const uint32_t kept = all < KEPT_MAX ? all : KEPT_MAX;
    pod->container = arena_array(in->arena, kept, sizeof *pod->container);
    for (pod->containers = 0; pod->containers < kept; pod->containers++) {
        const uint32_t i = pod->containers;
        const bool init = i < reading->init.count;
        const struct container *from =
            init ? &reading->init.item[i] : &reading->app.item[i - reading->init.count];
        pod->container[i] = from->is;
        attach_counts(in, reading, &pod->container[i]);
    }
}

static void take_meta(struct pod *out, const struct meta_reading *meta)
{
    must(meta->is.uid != NULL && meta->is.name != NULL);
    out->uid = meta->is.uid;
    out->namespace = meta->is.namespace;
    out->name = meta->is.name;
    out->resource_version = meta->is.resource_version;
    out->created_ms = meta->created_ms;
    out->terminating_ms = meta->deleted_ms;
}

static const char *const pod_keys[] = {"kind", "metadata", "spec", "status"};

bool pod_read(struct jr *in, const struct wire_rules *rules, struct pod *out)
{
    must(rules->resource != NULL && rules->whole_resource != NULL);

    struct jr_fields fields = JR_FIELDS(pod_keys);
    struct pod_reading reading = {.rules = rules, .pod = out};
    struct meta_reading meta = {.user = &reading, .annotation = read_annotation};
    int key;
    *out = (struct pod){.node = "", .scheduler = "", .note_text = "", .note_error = ""};
    meta_clear(&meta.is);
    if (!jr_object(in))
        return false;
    while (jr_field(in, &fields, &key)) {
        if (key == 0)
            (void)read_kind(in, "Pod"); /* a failure sticks */
        if (key == 1)
            read_meta(in, &meta);
        if (key == 2)
            read_spec(in, &reading);
        if (key == 3)
            read_status(in, &reading);
    }
    if (in->failed)
        return false;
    take_meta(out, &meta);
    count_requests(&reading);
    join_containers(in, &reading);
    if (reading.note != NULL) {
        out->note_text = reading.note;
        note_decode(text_of(reading.note), in->arena, out);
    }
    return !in->failed;
}

int pod_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
               struct pod *out, struct err *err)
{
    must(out != NULL);

    struct jr in;
    jr_init(&in, bytes, "Pod", arena, err);
    if (pod_read(&in, rules, out)) {
        if (out->name[0] == '\0')
            jr_fail(&in, "has no metadata.name");
        if (out->uid[0] == '\0')
            jr_fail(&in, "has no metadata.uid");
    }
    return jr_finish(&in);
}
