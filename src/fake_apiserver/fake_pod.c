/*
 * Checks a pod, fills in its requests and binds it, as an API server does. Called by fake_rest.c
 * and fake_file.c under the lock. Texts and statuses that milligpu or a test reads are those of
 * kube-apiserver, as measured. In order: metadata, quantities, admission of a new pod, and the
 * Binding, whose checks have the API server's order.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/core/facts/quantity.h"

#include "fake_internal.h"

/* Looser than RFC 1123: the parts between the dots are not checked. */
bool fake_name_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const size_t len = strlen(name);

    if (len == 0 || len > NAME_BYTES_MAX)
        return false;
    if (strchr(letters, name[0]) == NULL || strchr(letters, name[len - 1]) == NULL)
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len;
}

/* Refuses numbers, as the API server does: in YAML an annotation like 500 is one. */
static int check_string_map(const struct document *meta, const char *key, struct err *err)
{
    must(meta->kind == DOCUMENT_OBJECT);
    const struct document *map = document_get(meta, key);

    if (map == NULL)
        return 0;
    if (map->kind != DOCUMENT_OBJECT)
        return err_set(err, ERR_INVALID, "metadata.%s: expected an object, found %s", key,
                       document_kind_name(map->kind));
    for (const struct document *at = map->first; at != NULL; at = at->next)
        if (at->kind != DOCUMENT_STRING)
            return err_set(err, ERR_INVALID,
                           "metadata.%s[\"%s\"]: expected a string, found %s; put it in quotes",
                           key, at->key.at, document_kind_name(at->kind));
    return 0;
}

int fake_check_metadata(const struct document *object, struct err *err)
{
    static const char *const string[] = {"name", "namespace", "uid", "generateName"};
    const struct document *meta = document_get(object, "metadata");

    must(object->kind == DOCUMENT_OBJECT);
    if (meta == NULL || meta->kind != DOCUMENT_OBJECT)
        return err_set(err, ERR_INVALID, "metadata: expected an object, found %s",
                       meta == NULL ? "nothing" : document_kind_name(meta->kind));
    for (size_t i = 0; i < ARRAY_LEN(string); i++) {
        const struct document *value = document_get(meta, string[i]);
        if (value != NULL && value->kind != DOCUMENT_STRING)
            return err_set(err, ERR_INVALID, "metadata.%s: expected a string, found %s", string[i],
                           document_kind_name(value->kind));
        if (value != NULL && document_has_nul(value))
            return err_set(err, ERR_INVALID, "metadata.%s: must not hold a NUL", string[i]);
    }
    const int rc = check_string_map(meta, "annotations", err);
    return rc < 0 ? rc : check_string_map(meta, "labels", err);
}

/* Sets err and returns the HTTP status. */
static int PRINTF_LIKE(3, 4) pod_refuse(struct err *err, int status, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;

    must(status >= 400);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncation is fine */
    va_end(args);
    (void)err_set(err, ERR_INVALID, "%s", text);
    return status;
}

/* ---- quantities ---- */

/* Returns true for "nvidia.com/vgpu" and the like: whole numbers, with the limit as request. */
static bool is_extended(struct text resource)
{
    must(resource.at != NULL);
    return memchr(resource.at, '/', resource.len) != NULL &&
           !text_starts(resource, "kubernetes.io/") && !text_starts(resource, "requests.");
}

/* The canonical form, as the API server stores it: "1000" becomes "1k". */
static struct text pod_canonical(struct arena *arena, int64_t value)
{
    static const char *const suffix[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t thousands = 0;

    must(value >= 0);
    while (value != 0 && value % 1000 == 0 && thousands + 1 < ARRAY_LEN(suffix)) {
        value /= 1000;
        thousands++;
    }
    return text_of(arena_printf(arena, "%lld%s", (long long)value, suffix[thousands]));
}

/*
 * Checks the syntax, and for extended resources that it is a whole number. A number becomes text,
 * as in the API server's JSON.
 */
static int check_amount(struct arena *arena, const char *where, struct document *amount,
                        struct err *err)
{
    must(arena != NULL);
    const bool extended = is_extended(amount->key);
    int64_t value = 0;

    if (amount->kind != DOCUMENT_STRING && amount->kind != DOCUMENT_NUMBER)
        return pod_refuse(err, 400, "%s.%s: expected a quantity, found %s", where, amount->key.at,
                          document_kind_name(amount->kind));
    amount->kind = DOCUMENT_STRING;
    const enum quantity_verdict verdict = quantity_parse(amount->text, extended ? 0 : 9, &value);
    if (verdict == QUANTITY_SYNTAX)
        return pod_refuse(err, 400,
                          "%s.%s: \"%s\": quantities must match the regular expression "
                          "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                          where, amount->key.at, amount->text.at);
    if (!extended)
        return 0;
    if (verdict != QUANTITY_OK || value < 0)
        return pod_refuse(err, 422, "%s[%s]: Invalid value: \"%s\": must be %s", where,
                          amount->key.at, amount->text.at,
                          verdict == QUANTITY_OK ? "greater than or equal to 0" : "an integer");
    if (memchr(amount->text.at, 'i', amount->text.len) == NULL)
        amount->text = pod_canonical(arena, value);
    return 0;
}

static int pod_check_amounts(struct arena *arena, const char *where, struct document *amounts,
                             struct err *err)
{
    must(where[0] != '\0');
    int status = 0;

    if (amounts == NULL)
        return 0;
    if (amounts->kind != DOCUMENT_OBJECT)
        return pod_refuse(err, 400, "%s: expected an object, found %s", where,
                          document_kind_name(amounts->kind));
    for (struct document *at = amounts->first; at != NULL && status == 0; at = at->next)
        status = check_amount(arena, where, at, err);
    return status;
}

/* Compares values: 1Ki equals 1024. */
static bool is_equal(const struct document *a, const struct document *b)
{
    int64_t value[2];

    must(a != NULL && b != NULL);
    return quantity_parse(a->text, 0, &value[0]) == QUANTITY_OK &&
           quantity_parse(b->text, 0, &value[1]) == QUANTITY_OK && value[0] == value[1];
}

/* Extended resources cannot be overcommitted: the request equals the limit. */
static int check_overcommit(const char *where, const struct document *limits,
                            const struct document *requests, struct err *err)
{
    must(requests->kind == DOCUMENT_OBJECT || requests->count == 0);
    for (const struct document *at = requests->first; at != NULL; at = at->next) {
        const struct document *limit = document_get(limits, at->key.at);
        if (!is_extended(at->key) || (limit != NULL && is_equal(limit, at)))
            continue;
        return pod_refuse(err, 422,
                          limit == NULL ? "%s.limits[%s]: Required value: Limit must be set for "
                                          "non overcommitable resources"
                                        : "%s.requests[%s]: Invalid value: must be equal to "
                                          "the limit",
                          where, at->key.at);
    }
    return 0;
}

/*
 * The API server's defaulting: a limit without a request becomes the request. strict: also checks
 * the amounts, as for a new pod but not for a pod of a file.
 */
static int fill_container(struct arena *arena, const char *where, struct document *container,
                          bool strict, struct err *err)
{
    must(arena != NULL);
    struct document *resources = document_get(container, "resources");
    struct document *limits = document_get(resources, "limits");
    char at_limits[96];
    char at_requests[96];

    if (resources == NULL || resources->kind != DOCUMENT_OBJECT)
        return 0;
    (void)snprintf(at_limits, sizeof at_limits, "%s.resources.limits", where);       /* fits */
    (void)snprintf(at_requests, sizeof at_requests, "%s.resources.requests", where); /* fits */
    int status = strict ? pod_check_amounts(arena, at_limits, limits, err) : 0;
    if (status == 0 && strict)
        status = pod_check_amounts(arena, at_requests, document_get(resources, "requests"), err);
    if (status != 0)
        return status;
    const bool limited = limits != NULL && limits->kind == DOCUMENT_OBJECT;
    struct document *requests = limited ? document_object(arena, resources, "requests")
                                        : document_get(resources, "requests");
    for (const struct document *at = limited ? limits->first : NULL; at != NULL; at = at->next)
        if (document_get(requests, at->key.at) == NULL)
            document_set(arena, requests, at->key, document_copy(arena, at));
    return strict && requests != NULL ? check_overcommit(where, limits, requests, err) : 0;
}

int fake_pod_fill_requests(struct arena *arena, struct document *pod, bool strict, struct err *err)
{
    static const char *const list[] = {"initContainers", "containers"};
    int status = 0;

    must(pod->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        const struct document *containers = document_get(document_get(pod, "spec"), list[i]);
        unsigned index = 0;
        if (containers == NULL || containers->kind != DOCUMENT_ARRAY)
            continue;
        for (struct document *at = containers->first; at != NULL && status == 0; at = at->next) {
            char where[48];
            (void)snprintf(where, sizeof where, "spec.%s[%u]", list[i], index++); /* fits */
            status = fill_container(arena, where, at, strict, err);
        }
    }
    return status;
}

/* Checks the required fields that a test could forget. */
static int check_containers(const struct document *spec, struct err *err)
{
    must(spec->kind == DOCUMENT_OBJECT);
    const struct document *containers = document_get(spec, "containers");
    unsigned index = 0;

    if (containers == NULL || containers->kind != DOCUMENT_ARRAY || containers->count == 0)
        return pod_refuse(err, 422, "spec.containers: Required value");
    for (const struct document *at = containers->first; at != NULL; at = at->next, index++)
        if (document_str(at, "name")[0] == '\0')
            return pod_refuse(err, 422, "spec.containers[%u].name: Required value", index);
    return 0;
}

/* Pod-level amounts exist for few resources; extended ones only for containers. */
static int check_pod_level(struct arena *arena, const struct document *spec, struct err *err)
{
    static const char *const list[] = {"limits", "requests"};

    must(spec->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        char where[32];
        struct document *amounts = document_get(document_get(spec, "resources"), list[i]);
        (void)snprintf(where, sizeof where, "spec.resources.%s", list[i]); /* fits */
        const int status = pod_check_amounts(arena, where, amounts, err);
        if (status != 0)
            return status;
        document_each (at, amounts)
            if (!text_is(at->key, "cpu") && !text_is(at->key, "memory") &&
                !text_starts(at->key, "hugepages-"))
                return pod_refuse(err, 422,
                                  "%s[%s]: Unsupported value: \"%s\": supported values: \"cpu\", "
                                  "\"hugepages-\", \"memory\"",
                                  where, at->key.at, at->key.at);
    }
    return 0;
}

/* In the API server's order: required fields, amounts, defaults. */
int fake_pod_admit(struct arena *arena, struct document *pod, struct err *err)
{
    struct document *spec = document_get(pod, "spec");

    must(pod->kind == DOCUMENT_OBJECT);
    if (spec == NULL || spec->kind != DOCUMENT_OBJECT)
        return pod_refuse(err, 422, "spec: Required value");
    int status = check_containers(spec, err);
    if (status == 0)
        status = fake_pod_fill_requests(arena, pod, true, err);
    if (status == 0)
        status = check_pod_level(arena, spec, err);
    if (status != 0)
        return status;
    if (document_str(spec, "schedulerName")[0] == '\0')
        document_set_str(arena, spec, "schedulerName", "default-scheduler");
    /* A status from the client is ignored. */
    document_set(arena, pod, TEXT("status"), document_new(arena, DOCUMENT_OBJECT));
    document_set_str(arena, document_object(arena, pod, "status"), "phase", "Pending");
    return 0;
}

/* ---- binding ---- */

/* Replaces the condition in which kube-scheduler explained why the pod did not fit. */
static void fake_pod_set_scheduled(struct arena *arena, struct document *pod, const char *now)
{
    struct document *status = document_object(arena, pod, "status");
    struct document *conditions = document_get(status, "conditions");
    struct document *found = NULL;

    if (conditions == NULL || conditions->kind != DOCUMENT_ARRAY) {
        document_set(arena, status, TEXT("conditions"), document_new(arena, DOCUMENT_ARRAY));
        conditions = document_get(status, "conditions");
    }
    must(conditions != NULL);
    for (struct document *at = conditions->first; at != NULL; at = at->next)
        if (strcmp(document_str(at, "type"), "PodScheduled") == 0)
            found = at;
    if (found == NULL) {
        found = document_new(arena, DOCUMENT_OBJECT);
        document_append(conditions, found);
    }
    document_set_str(arena, found, "type", "PodScheduled");
    document_set_str(arena, found, "status", "True");
    document_set_str(arena, found, "lastTransitionTime", now);
    document_remove(found, "reason");
    document_remove(found, "message");
}

/* The outbox distinguishes this 409 from precondition_failed() by a GET, not by the text. */
static int pod_conflict(struct ask *in, const char *message)
{
    return fake_answer_status(in, 409, "Conflict",
                              "Operation cannot be fulfilled on pods/binding \"%s\": %s", in->name,
                              message);
}

/* The text is that of the API server's storage layer. */
static int precondition_failed(struct ask *in, const char *what, const char *wanted,
                               const char *found)
{
    must(strcmp(wanted, found) != 0);
    return fake_answer_status(
        in, 409, "Conflict",
        "Operation cannot be fulfilled on pods \"%s\": StorageError: invalid object, Code: 4, Key: "
        "/registry/pods/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s in "
        "precondition: %s, %s in object meta: %s",
        in->name, in->namespace, in->name, what, wanted, what, found);
}

/* Checks that do not depend on the pod. */
static int check_binding(struct ask *in, const struct document *binding)
{
    const char *namespace = document_str(binding, "metadata.namespace");
    const char *kind = document_str(binding, "target.kind");

    if (strcmp(document_str(binding, "metadata.name"), in->name) != 0)
        return fake_answer_status(in, 400, "BadRequest",
                                  "name in URL does not match name in Binding object");
    if (namespace[0] != '\0' && strcmp(namespace, in->namespace) != 0)
        return fake_answer_status(in, 400, "BadRequest",
                                  "the namespace of the provided object does not match the "
                                  "namespace sent on the request");
    if (kind[0] != '\0' && strcmp(kind, "Node") != 0)
        return fake_answer_status(
            in, 500, "InternalError",
            "target.kind: Unsupported value: \"%s\": supported values: \"Node\"", kind);
    if (document_str(binding, "target.name")[0] == '\0')
        return fake_answer_status(in, 500, "InternalError", "target.name: Required value");
    return 0;
}

/*
 * Checks in the API server's order (preconditions, deletion, node, gates), so that the answer for a
 * pod that is both newer and bound is the same.
 */
static int pod_check_unbound(struct ask *in, const struct document *binding,
                             const struct document *pod)
{
    const char *uid = document_str(binding, "metadata.uid");
    const char *rv = document_str(binding, "metadata.resourceVersion");
    const char *node = document_str(pod, "spec.nodeName");
    const struct document *gates = document_at(pod, "spec.schedulingGates");

    if (uid[0] != '\0' && strcmp(uid, document_str(pod, "metadata.uid")) != 0)
        return precondition_failed(in, "UID", uid, document_str(pod, "metadata.uid"));
    if (rv[0] != '\0' && strcmp(rv, document_str(pod, "metadata.resourceVersion")) != 0)
        return precondition_failed(in, "ResourceVersion", rv,
                                   document_str(pod, "metadata.resourceVersion"));
    if (document_str(pod, "metadata.deletionTimestamp")[0] != '\0')
        return pod_conflict(
            in, arena_printf(in->arena, "pod %s is being deleted, cannot be assigned to a host",
                             in->name));
    if (node[0] != '\0')
        return pod_conflict(in, arena_printf(in->arena, "pod %s is already assigned to node \"%s\"",
                                             in->name, node));
    if (gates != NULL && gates->count > 0)
        return pod_conflict(
            in, arena_printf(in->arena, "pod %s has non-empty .spec.schedulingGates", in->name));
    return 0;
}

/*
 * Copies a Binding's annotations and labels to the pod, in the same write as its node
 * (docs/why/003).
 */
static void merge_map(struct ask *in, struct document *pod, const struct document *binding,
                      const char *key)
{
    struct document *from = document_get(document_get(binding, "metadata"), key);

    if (from == NULL || from->kind != DOCUMENT_OBJECT || from->count == 0)
        return;
    document_merge(in->arena,
                   document_object(in->arena, document_object(in->arena, pod, "metadata"), key),
                   from);
}

/* One write, so that no watch shows the node without the annotations. */
int fake_answer_binding(struct ask *in)
{
    struct document *binding;
    struct document *pod;
    struct err err;

    must(in->resource->id == RES_PODS && in->name[0] != '\0');
    if (document_parse_json(in->body, "Binding", in->arena, &binding, &err) < 0)
        return fake_answer_status(in, 400, "BadRequest", "%s", err.text);
    int status = check_binding(in, binding);
    if (status != 0)
        return status;
    const struct object *object = fake_shelf_find(in->fake, RES_PODS, in->namespace, in->name);
    if (object == NULL)
        return fake_answer_status(in, 404, "NotFound", "pods \"%s\" not found", in->name);
    must(document_parse_json(object->text, "Pod", in->arena, &pod, &err) == 0);
    status = pod_check_unbound(in, binding, pod);
    if (status != 0)
        return status;
    document_set_str(in->arena, document_object(in->arena, pod, "spec"), "nodeName",
                     document_str(binding, "target.name"));
    merge_map(in, pod, binding, "annotations");
    merge_map(in, pod, binding, "labels");
    document_remove(document_object(in->arena, pod, "status"), "nominatedNodeName");
    fake_pod_set_scheduled(in->arena, pod, fake_time(in->fake, in->arena));
    (void)fake_shelf_put(in->fake, RES_PODS, pod, in->arena);
    return fake_answer_status(in, 201, "", "%s", "");
}
