/*
 * Any pod that is read can be judged, is within limits.h, and its note is whole or broken; jansson
 * finds the same facts in the same bytes, and sums computed from them are equal.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/facts/advice.h"
#include "milligpu/core/facts/condition.h"
#include "milligpu/core/facts/quantity.h"
#include "milligpu/core/facts/request.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support.h"

static const struct wire_rules rules = {
    .resource = "nvidia.com/vgpu",
    .whole_resource = "nvidia.com/gpu",
    .agents = {.namespace = "default", .key = {"app", 3}, .value = {"node", 4}}};

static void check(const struct pod *pod, struct arena *arena)
{
    static const struct request_rules judge = {"nvidia.com/vgpu", 1, 1};
    struct request request;
    struct refusal refusal;
    must(pod->name[0] != '\0' && pod->uid[0] != '\0');
    must(strlen(pod->name) <= NAME_BYTES_MAX && strlen(pod->uid) <= UID_BYTES_MAX);
    must(strlen(pod->node) <= NAME_BYTES_MAX && strlen(pod->namespace) <= NAME_BYTES_MAX);
    must(pod->cpu_milli >= 0 && pod->memory_bytes >= 0);
    must(pod->unreadable == NULL || strstr(pod->unreadable, " at byte ") == NULL);
    must(pod->n_shares <= PARTS_MAX && (pod->annotation == NOTE_OK) == (pod->n_shares > 0));
    must((pod->annotation == NOTE_BROKEN) == (strlen(pod->note_error) > 0));
    const enum request_verdict verdict = request_parse(pod, &judge, arena, &request, &refusal);
    must((pod->ours || pod->whole_gpus > 0) == (verdict != REQUEST_NOT_OURS));
    must(pod->whole_gpus > 0 || verdict != REQUEST_WHOLE);
    must(request.n_wants <= CONTAINERS_MAX || verdict != REQUEST_OK);
    must(pod->unreadable == NULL || verdict != REQUEST_OK);
    must(!pod->is_agent || strcmp(pod->namespace, rules.agents.namespace) == 0);
}

/* A sentence about an unbound pod can be shown to anybody. */
static void advise(const struct pod *pod)
{
    static const struct request_rules judge = {"nvidia.com/vgpu", 20, 10};
    must(pod->n_odd_keys <= ODD_KEYS_MAX);
    for (enum advice_kind kind = 0; kind < ADVICE_MODEL && pod->node[0] == '\0'; kind++) {
        struct advice advice;
        if (!advice_of(kind, pod, &judge, &advice))
            continue;
        must(advice.word[0] != '\0' && advice.text[0] != '\0');
        must(strlen(advice.text) < ADVICE_BYTES_MAX);
        for (const char *at = advice.text; *at != '\0'; at++)
            must((unsigned char)*at >= ' ' && *at != 0x7F);
    }
}

/* Texts for people are clipped, and have nothing that a terminal interprets. */
static void check_text(const char *text, size_t most)
{
    if (text == NULL)
        return;
    must(strlen(text) < most);
    for (const char *at = text; *at != '\0'; at++)
        must((unsigned char)*at >= ' ' && *at != 0x7F);
}

static void check_texts(const struct pod *pod)
{
    const struct pod_scheduling *is = &pod->scheduling;
    const struct condition condition = condition_read(is->reason, is->message, rules.resource);

    check_text(is->scheduler, SCHEDULER_NAME_MAX);
    check_text(is->gates, GATES_TEXT_MAX);
    check_text(is->reason, CONDITION_REASON_MAX);
    check_text(is->message, CONDITION_TEXT_MAX);
    check_text(pod->owner.kind, OWNER_TEXT_MAX);
    check_text(pod->owner.name, OWNER_TEXT_MAX);
    check_text(pod->owner.uid, OWNER_TEXT_MAX);
    check_text(pod->owner.revision, OWNER_TEXT_MAX);
    must((pod->owner.kind == NULL) == (pod->owner.name == NULL));
    must((is->reason == NULL) == (condition.kind == CONDITION_NONE));
    must(is->since_ms >= 0);
    must(pod_owner_same(&pod->owner, &pod->owner) == (pod->owner.kind != NULL));
}

/* A kept pod does not need the bytes that it was read from. */
static void keep(const struct pod *pod)
{
    SCOPED_ARENA(arena);
    const struct pod *kept = pod_keep(pod, &arena);
    must(strcmp(kept->uid, pod->uid) == 0 && strcmp(kept->name, pod->name) == 0);
    must(kept->n_containers == pod->n_containers && kept->n_shares == pod->n_shares);
    must(kept->cpu_milli == pod->cpu_milli && kept->annotation == pod->annotation);
}

/* The quantity at a key of a ResourceList, rounded up; *out_given as our reader sets it. */
static int64_t amount(json_t *list, const char *key, unsigned decimals, bool *out_given)
{
    json_t *value = json_object_get(list, key); /* a key that is data, so case matters */
    char digits[32];
    const char *text = json_string_value(value);
    int64_t number = 0;
    *out_given = value != NULL && !json_is_null(value);
    if (json_is_integer(value)) {
        (void)snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(value));
        text = digits;
    }
    if (text != NULL && quantity_ceil(text_of(text), decimals, &number) == QUANTITY_RANGE)
        number = INT64_MAX;
    return number;
}

static int64_t request_of(json_t *container, const char *key, unsigned decimals)
{
    bool asked;
    bool limited;
    const int64_t request =
        amount(second_at(container, "resources.requests"), key, decimals, &asked);
    const int64_t limit = amount(second_at(container, "resources.limits"), key, decimals, &limited);
    return asked ? request : limit;
}

static bool is_sidecar(json_t *container)
{
    return second_says(second_field(container, "restartPolicy"), "Always");
}

static int64_t plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Kubernetes' effective request: the demand at each moment of the pod's life, then the largest. */
static int64_t effective(json_t *spec, const char *key, unsigned decimals, bool pod_level)
{
    json_t *init = second_field(spec, "initContainers");
    json_t *app = second_field(spec, "containers");
    bool given = false;
    int64_t sidecars = 0;
    int64_t most = 0;
    int64_t together = 0;
    for (size_t i = 0; i < json_array_size(init); i++) {
        json_t *container = json_array_get(init, i);
        const int64_t moment = plus(sidecars, request_of(container, key, decimals));
        if (is_sidecar(container))
            sidecars = moment;
        most = moment > most ? moment : most;
    }
    for (size_t i = 0; i < json_array_size(app); i++)
        together = plus(together, request_of(json_array_get(app, i), key, decimals));
    together = plus(together, sidecars);
    most = together > most ? together : most;
    const int64_t all = amount(second_at(spec, "resources.requests"), key, decimals, &given);
    if (pod_level && given)
        most = all;
    return plus(most, amount(second_field(spec, "overhead"), key, decimals, &given));
}

/* jansson reads amounts such as 1.5 or 1e3 as doubles: their digits are lost. */
static bool has_real(json_t *value)
{
    const char *name;
    json_t *member;
    size_t i;
    if (json_is_object(value))
        json_object_foreach (value, name, member)
            if (has_real(member))
                return true;
    json_array_foreach (value, i, member)
        if (has_real(member))
            return true;
    return json_is_real(value);
}

static void same_sums(const struct pod *pod, json_t *root)
{
    json_t *spec = second_field(root, "spec");
    const int64_t whole = effective(spec, "nvidia.com/gpu", 0, false);
    must(pod->whole_gpus == (whole < UINT32_MAX ? whole : UINT32_MAX));
    /* A resize is read from the status, and has its own tables in the unit tests. */
    if (second_at(root, "status.containerStatuses") != NULL ||
        second_at(root, "status.initContainerStatuses") != NULL)
        return;
    must(pod->cpu_milli == effective(spec, "cpu", 3, true));
    must(pod->memory_bytes == effective(spec, "memory", 0, true));
}

static bool says_ours(json_t *containers)
{
    bool ours = false;
    for (size_t i = 0; i < json_array_size(containers); i++) {
        json_t *container = json_array_get(containers, i);
        json_t *limits = second_at(container, "resources.limits");
        json_t *requests = second_at(container, "resources.requests");
        ours |= json_object_get(limits, rules.resource) != NULL ||
                json_object_get(requests, rules.resource) != NULL;
    }
    return ours;
}

static void same_text(const char *ours, json_t *theirs)
{
    must((ours == NULL) == (theirs == NULL || json_is_null(theirs)));
    must(ours == NULL || second_says(theirs, ours));
}

/* Members that are read even if the rest is unreadable. */
static void same_identity(const struct pod *pod, json_t *root)
{
    must(second_says(second_at(root, "metadata.name"), pod->name));
    must(second_says(second_at(root, "metadata.namespace"), pod->namespace));
    must(second_says(second_at(root, "metadata.uid"), pod->uid));
    must(second_says(second_at(root, "metadata.resourceVersion"), pod->resource_version));
    must(second_says(second_at(root, "spec.nodeName"), pod->node));
    must((second_at(root, "metadata.deletionTimestamp") != NULL) || pod->terminating_ms == 0);
    if (second_says(second_at(root, "status.phase"), "Succeeded"))
        must(pod_ended(pod));
}

static void same_facts(const struct pod *pod, json_t *root)
{
    json_t *notes = second_at(root, "metadata.annotations");
    must(json_integer_value(second_at(root, "spec.priority")) == pod->priority);
    same_text(pod->count, json_object_get(notes, "milligpu.io/gpu-count"));
    same_text(pod->model, json_object_get(notes, "milligpu.io/gpu-model"));
    same_text(pod->memory, json_object_get(notes, "milligpu.io/gpu-memory"));
    same_text(pod->topology, json_object_get(notes, "milligpu.io/topology"));
    json_t *note = json_object_get(notes, "milligpu.io/allocation");
    must((pod->annotation != NOTE_NONE) == (note != NULL && !json_is_null(note)));
    const size_t all = json_array_size(second_at(root, "spec.containers")) +
                       json_array_size(second_at(root, "spec.initContainers"));
    must(pod->n_containers == all);
    must(pod->ours == (says_ours(second_at(root, "spec.containers")) ||
                       says_ours(second_at(root, "spec.initContainers"))));
}

/* Only a condition of this type makes it Ready, and only the label makes it an agent. */
static void same_agent(const struct pod *pod, json_t *root)
{
    json_t *conditions = second_at(root, "status.conditions");
    json_t *label = json_object_get(second_at(root, "metadata.labels"), "app");
    bool ready = false;

    for (size_t i = 0; i < json_array_size(conditions); i++) {
        json_t *one = json_array_get(conditions, i);
        ready |= second_says(second_field(one, "type"), "Ready") &&
                 second_says(second_field(one, "status"), "True");
    }
    must(!pod->is_ready || ready);
    must(!pod->is_agent || second_says(label, "node"));
}

/* Nested so deeply that an object must be read by itself. */
static bool may_be_deep(struct text bytes)
{
    size_t brackets = 0;
    for (size_t i = 0; i < bytes.len; i++)
        brackets += bytes.at[i] == '[' || bytes.at[i] == '{';
    return brackets > JSON_DEPTH_MAX;
}

/*
 * Whether its end is known or not, the same bytes are the same pod; what follows them does not
 * matter. pod: NULL if bytes are no pod.
 */
static void same_first(struct text bytes, const struct pod *pod, struct arena *arena)
{
    CLEANUP(freep) char *more = malloc(bytes.len + 1);
    struct pod first;
    struct err err;
    must(more != NULL);
    memcpy(more, bytes.at, bytes.len);
    more[bytes.len] = ',';
    const size_t len = pod_decode_first((struct text){more, bytes.len + 1}, &rules, arena, &first);
    must(len <= bytes.len);
    must(len > 0 || pod == NULL || may_be_deep(bytes));
    if (len == 0)
        return;
    struct pod alone;
    must(pod_decode((struct text){bytes.at, len}, &rules, arena, &alone, &err) == 0);
    must(strcmp(first.uid, alone.uid) == 0 && strcmp(first.node, alone.node) == 0);
    must(first.n_containers == alone.n_containers && first.n_shares == alone.n_shares);
    must((first.unreadable == NULL) == (alone.unreadable == NULL));
    must(first.unreadable == NULL || strcmp(first.unreadable, alone.unreadable) == 0);
    must(pod == NULL || strcmp(first.uid, pod->uid) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text bytes = {size > 0 ? (const char *)data : "", size};
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    struct pod pod;
    struct err err;
    const int result = pod_decode(bytes, &rules, &arena, &pod, &err);
    heap_is_bounded(before, size);
    same_first(bytes, result == 0 ? &pod : NULL, &arena);
    if (result == 0) {
        check(&pod, &arena);
        advise(&pod);
        check_texts(&pod);
        keep(&pod);
        const struct second second = second_read(bytes);
        must(!second.refused);
        if (second.value != NULL && !has_real(second.value)) {
            same_identity(&pod, second.value);
            if (pod.unreadable == NULL) {
                same_facts(&pod, second.value);
                same_agent(&pod, second.value);
                same_sums(&pod, second.value);
            }
        }
        json_decref(second.value);
    } else {
        must(strncmp(err.text, "Pod", strlen("Pod")) == 0);
    }
    return 0;
}
