/*
 * Amounts of resources, summed as in kube-scheduler. Called by nodefit.c for the pods of a
 * manifest, and by play_nodes.c for running pods. In order: lists, quantities, requests of a pod.
 */
#include "amounts.h"

#include <string.h>

#include "milligpu/core/facts/quantity.h"

#include "fields.h"

/* --- lists --- */

static bool has_prefix(const char *name, const char *prefix)
{
    must(prefix[0] != '\0');
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* True for an extended resource, which has whole numbers only. */
static bool is_extended_resource(const char *resource)
{
    must(resource != NULL);
    return strchr(resource, '/') != NULL && strstr(resource, "kubernetes.io/") == NULL &&
           !has_prefix(resource, "requests.");
}

bool amount_counts(const char *resource)
{
    must(resource != NULL);
    return strcmp(resource, "cpu") == 0 || strcmp(resource, "memory") == 0 ||
           strcmp(resource, "ephemeral-storage") == 0 || strchr(resource, '/') != NULL ||
           has_prefix(resource, "hugepages-") || has_prefix(resource, "attachable-volumes-");
}

bool amount_is_basic(const char *resource)
{
    must(resource != NULL);
    return strcmp(resource, "cpu") == 0 || strcmp(resource, "memory") == 0 ||
           strcmp(resource, "ephemeral-storage") == 0 || strcmp(resource, "pods") == 0;
}

const struct amount *amounts_find(const struct amount *list, const char *resource)
{
    must(resource != NULL);
    while (list != NULL && strcmp(list->resource, resource) != 0)
        list = list->next;
    return list;
}

int64_t amounts_value(const struct amount *list, const char *resource)
{
    const struct amount *found = amounts_find(list, resource);
    must(found == NULL || found->value >= 0);
    return found != NULL ? found->value : 0;
}

struct amount *amounts_slot(struct arena *arena, struct amount **list, const char *resource)
{
    struct amount **end = list;

    must(resource[0] != '\0');
    while (*end != NULL && strcmp((*end)->resource, resource) != 0)
        end = &(*end)->next;
    if (*end == NULL) {
        *end = arena_alloc(arena, sizeof **end);
        (*end)->resource = arena_copy(arena, text_of(resource));
    }
    return *end;
}

static int64_t amount_plus(int64_t a, int64_t b)
{
    must(a >= 0);
    must(b >= 0);
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

void amounts_add(struct arena *arena, struct amount **to, const struct amount *more)
{
    must(to != NULL);
    for (; more != NULL; more = more->next) {
        struct amount *slot = amounts_slot(arena, to, more->resource);
        slot->value = amount_plus(slot->value, more->value);
    }
}

static void amounts_raise(struct arena *arena, struct amount **to, const struct amount *least)
{
    must(to != NULL);
    for (; least != NULL; least = least->next) {
        struct amount *slot = amounts_slot(arena, to, least->resource);
        if (slot->value < least->value)
            slot->value = least->value;
    }
}

/* --- quantities --- */

/* Rounds up, as kube-scheduler does; amounts beyond 63 bits saturate, since they fit nowhere. */
static int amount_read(const struct document *amount, const char *path, int64_t *out,
                       struct err *err)
{
    const char *resource = amount->key.at;
    char key[FIELD_KEY_BYTES];
    const char *name = field_key(amount, key);
    enum quantity_verdict verdict;

    *out = 0;
    if (amount->kind == DOCUMENT_NULL)
        return 0;
    if (amount->kind != DOCUMENT_STRING && amount->kind != DOCUMENT_NUMBER)
        return err_set(err, ERR_INVALID, "%.200s.%.60s: expected a quantity, found %s", path, name,
                       document_kind_name(amount->kind));
    if (is_extended_resource(resource))
        verdict = quantity_parse(amount->text, 0, out);
    else
        verdict = quantity_ceil(amount->text, strcmp(resource, "cpu") == 0 ? 3 : 0, out);
    if (verdict == QUANTITY_SYNTAX)
        return err_set(
            err, ERR_INVALID,
            "%.200s.%.60s: \"%.60s\" is not a quantity: write one such as 500m, 2 or 4Gi", path,
            name, amount->shown != NULL ? amount->shown : amount->text.at);
    if (verdict == QUANTITY_FRACTION)
        return err_set(err, ERR_INVALID, "%.200s.%.60s: %.60s must be an integer", path, name,
                       amount->text.at);
    if (verdict == QUANTITY_RANGE)
        *out = INT64_MAX;
    if (*out < 0 || (verdict == QUANTITY_RANGE && amount->text.at[0] == '-'))
        return err_set(err, ERR_INVALID, "%.200s.%.60s: %.60s must be greater than or equal to 0",
                       path, name, amount->text.at);
    return 0;
}

int amounts_read(struct arena *arena, const struct document *amounts, const char *path,
                 struct amount **list, struct err *err)
{
    const struct amount *before = *list;

    if (field_expect(amounts, DOCUMENT_OBJECT, path, err) < 0)
        return err_same(err);
    document_each (amount, amounts) {
        int64_t value;
        if (amount_read(amount, path, &value, err) < 0)
            return err_same(err);
        if (field_is_named(amount) && amounts_find(before, amount->key.at) == NULL)
            amounts_slot(arena, list, amount->key.at)->value = value;
    }
    return 0;
}

/* --- what a pod requests --- */

static int amounts_container(struct arena *arena, const struct document *container,
                             const char *path, struct amount **out, struct err *err)
{
    const struct document *resources = document_get(container, "resources");
    char at[FIELD_PATH_BYTES];

    *out = NULL;
    must(path[0] != '\0');
    if (field_expect(container, DOCUMENT_OBJECT, path, err) < 0)
        return err_same(err);
    FIELD_PATH(at, "%.200s.resources", path);
    if (field_expect(resources, DOCUMENT_OBJECT, at, err) < 0)
        return err_same(err);
    FIELD_PATH(at, "%.200s.resources.requests", path);
    if (amounts_read(arena, document_get(resources, "requests"), at, out, err) < 0)
        return err_same(err);
    FIELD_PATH(at, "%.200s.resources.limits", path);
    return amounts_read(arena, document_get(resources, "limits"), at, out, err);
}

static int amounts_sum(struct arena *arena, const struct document *containers, struct amount **out,
                       struct err *err)
{
    unsigned index = 0;

    must(out != NULL);
    document_each (container, containers) {
        struct amount *one;
        char path[FIELD_PATH_BYTES];
        FIELD_PATH(path, "spec.containers[%u]", index++);
        if (amounts_container(arena, container, path, &one, err) < 0)
            return err_same(err);
        amounts_add(arena, out, one);
    }
    return 0;
}

/*
 * Raises *out, the sum of the app's containers, to the peak: sidecars run to the end, and an init
 * container runs beside the sidecars that started before it.
 */
static int amounts_peak(struct arena *arena, const struct document *containers, struct amount **out,
                        struct err *err)
{
    struct amount *sidecars = NULL;
    struct amount *peak = NULL;
    unsigned index = 0;

    must(out != NULL);
    document_each (container, containers) {
        struct amount *one;
        const char *restart = "";
        char path[FIELD_PATH_BYTES];
        FIELD_PATH(path, "spec.initContainers[%u]", index++);
        if (amounts_container(arena, container, path, &one, err) < 0 ||
            field_string(container, path, "restartPolicy", &restart, err) < 0)
            return err_same(err);
        if (strcmp(restart, "Always") == 0) {
            amounts_add(arena, &sidecars, one);
            amounts_raise(arena, &peak, sidecars);
            continue;
        }
        amounts_add(arena, &one, sidecars);
        amounts_raise(arena, &peak, one);
    }
    amounts_add(arena, out, sidecars);
    amounts_raise(arena, out, peak);
    return 0;
}

/*
 * spec.resources applies to the pod as a whole: its requests replace the sum of the containers; its
 * limits count if neither it nor a container has a request. Only for resources that are supported
 * at the level of the pod.
 */
static int amounts_whole_pod(struct arena *arena, const struct document *pod, struct amount **list,
                             struct err *err)
{
    const struct document *requests;
    const struct document *limits;
    struct amount *requested = NULL;
    struct amount *limited = NULL;

    must(list != NULL);
    if (field_member(pod, "spec.resources.requests", DOCUMENT_OBJECT, &requests, err) < 0 ||
        field_member(pod, "spec.resources.limits", DOCUMENT_OBJECT, &limits, err) < 0 ||
        amounts_read(arena, requests, "spec.resources.requests", &requested, err) < 0 ||
        amounts_read(arena, limits, "spec.resources.limits", &limited, err) < 0)
        return err_same(err);
    for (const struct amount *at = requested; at != NULL; at = at->next)
        if (amount_counts(at->resource) && strchr(at->resource, '/') == NULL)
            amounts_slot(arena, list, at->resource)->value = at->value;
    for (const struct amount *at = limited; at != NULL; at = at->next)
        if (amount_counts(at->resource) && strchr(at->resource, '/') == NULL &&
            amounts_find(*list, at->resource) == NULL)
            amounts_slot(arena, list, at->resource)->value = at->value;
    return 0;
}

int amounts_requested(struct arena *arena, const struct document *pod, struct amount **out,
                      struct err *err)
{
    const struct document *containers;
    const struct document *init;
    const struct document *overhead;
    struct amount *more = NULL;

    must(pod != NULL);
    *out = NULL;
    if (field_member(pod, "spec.containers", DOCUMENT_ARRAY, &containers, err) < 0 ||
        field_member(pod, "spec.initContainers", DOCUMENT_ARRAY, &init, err) < 0 ||
        field_member(pod, "spec.overhead", DOCUMENT_OBJECT, &overhead, err) < 0 ||
        amounts_sum(arena, containers, out, err) < 0 || amounts_peak(arena, init, out, err) < 0 ||
        amounts_whole_pod(arena, pod, out, err) < 0 ||
        amounts_read(arena, overhead, "spec.overhead", &more, err) < 0)
        return err_same(err);
    amounts_add(arena, out, more);
    return 0;
}
