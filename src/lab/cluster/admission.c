/*
 * Refusals and defaults of an API server for a new pod. Called by play.c and simulate_pods.c, which
 * create no pod that is refused here. In order: amounts, the API server's own rules, LimitRanges as
 * in the plugin LimitRanger, ResourceQuotas, unsupported parts.
 */
#include "admission.h"

#include <inttypes.h>
#include <string.h>

#include "milligpu/core/facts/quantity.h"

#include "amounts.h"
#include "fields.h"

static const char *const container_lists[] = {"spec.containers", "spec.initContainers"};

/* --- amounts --- */

static bool is_extended(const char *resource)
{
    must(resource != NULL);
    return strchr(resource, '/') != NULL && strstr(resource, "kubernetes.io/") == NULL;
}

/* CPU in thousandths, other resources in units. 0 if invalid, which is refused elsewhere. */
static int64_t admission_amount(const struct document *amount, const char *resource)
{
    int64_t value = 0;

    if (amount == NULL || (amount->kind != DOCUMENT_STRING && amount->kind != DOCUMENT_NUMBER))
        return 0;
    must(resource[0] != '\0');
    switch (quantity_ceil(amount->text, strcmp(resource, "cpu") == 0 ? 3 : 0, &value)) {
    case QUANTITY_OK:
    case QUANTITY_FRACTION:
        return value > 0 ? value : 0;
    case QUANTITY_RANGE:
        return INT64_MAX;
    case QUANTITY_SYNTAX:
        break;
    }
    return 0;
}

/* "1500m", "2Gi", "300" */
static void put_amount(struct strbuf *out, const char *resource, int64_t value)
{
    static const char *const suffix[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t unit = 0;

    must(value >= 0);
    if (strcmp(resource, "cpu") == 0 && value % 1000 != 0) {
        strbuf_printf(out, "%" PRId64 "m", value);
        return;
    }
    if (strcmp(resource, "cpu") == 0)
        value /= 1000;
    while (strcmp(resource, "memory") == 0 && value > 0 && value % 1024 == 0 &&
           unit + 1 < ARRAY_LEN(suffix)) {
        value /= 1024;
        unit++;
    }
    strbuf_printf(out, "%" PRId64 "%s", value, suffix[unit]);
}

static int64_t admission_sum(int64_t a, int64_t b)
{
    must(a >= 0 && b >= 0);
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* --- rules of the API server itself --- */

static int check_container(const struct document *container, const char *path, struct err *err)
{
    const struct document *limits = document_at(container, "resources.limits");

    must(path[0] != '\0');
    document_each (request, document_at(container, "resources.requests")) {
        const char *resource = request->key.at;
        char shown[FIELD_KEY_BYTES];
        if (!field_is_named(request) || request->kind == DOCUMENT_NULL || !is_extended(resource))
            continue;
        const struct document *limit = document_get(limits, resource);
        if (limit == NULL)
            return err_set(err, ERR_INVALID,
                           "%s.resources.limits[%s]: Required value: Limit must be set for non "
                           "overcommitable resources",
                           path, field_key(request, shown));
        if (admission_amount(request, resource) != admission_amount(limit, resource))
            return err_set(err, ERR_INVALID,
                           "%s.resources.requests[%s]: Invalid value: \"%.40s\": must be equal to "
                           "%.80s limit of %.40s",
                           path, field_key(request, shown), request->text.at, shown,
                           limit->text.at);
    }
    return 0;
}

/* True for a DNS label. */
static bool is_container_name(const char *name)
{
    const size_t bytes = strlen(name);

    must(name != NULL);
    return bytes > 0 && bytes <= 63 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == bytes && name[0] != '-' &&
           name[bytes - 1] != '-';
}

/* True if a previous container has the same name; those of the app come first here. */
static bool name_is_taken(const struct document *pod, const struct document *own, const char *name)
{
    must(name[0] != '\0');
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++)
        document_each (container, document_at(pod, container_lists[i])) {
            if (container == own)
                return false;
            if (strcmp(document_str(container, "name"), name) == 0)
                return true;
        }
    return false;
}

static int check_name(const struct document *pod, const struct document *container,
                      const char *path, struct err *err)
{
    const char *name = document_str(container, "name");

    must(path[0] != '\0');
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "%s.name: Required value", path);
    if (!is_container_name(name))
        return err_set(err, ERR_INVALID,
                       "%s.name: Invalid value: \"%.80s\": lower case letters, digits and '-' make "
                       "a name",
                       path, document_shown(container, "name"));
    if (name_is_taken(pod, container, name))
        return err_set(err, ERR_INVALID, "%s.name: Duplicate value: \"%s\"", path, name);
    return 0;
}

static int check_whole_pod(const struct document *pod, const char *list, struct err *err)
{
    char path[FIELD_PATH_BYTES];

    FIELD_PATH(path, "spec.resources.%s", list);
    must(pod != NULL);
    document_each (amount, document_at(pod, path)) {
        char shown[FIELD_KEY_BYTES];
        if (text_is(amount->key, "cpu") || text_is(amount->key, "memory") ||
            text_starts(amount->key, "hugepages-"))
            continue;
        return err_set(err, ERR_INVALID,
                       "%s[%s]: Unsupported value: \"%s\": supported values: \"cpu\", "
                       "\"hugepages-\", \"memory\"; write it into a container's resources",
                       path, field_key(amount, shown), shown);
    }
    return 0;
}

int admission_check(const struct document *pod, struct err *err)
{
    must(pod->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++) {
        unsigned index = 0;
        document_each (container, document_at(pod, container_lists[i])) {
            char path[FIELD_PATH_BYTES];
            FIELD_PATH(path, "%s[%u]", container_lists[i], index++);
            if (check_name(pod, container, path, err) < 0 ||
                check_container(container, path, err) < 0)
                return err_same(err);
        }
    }
    if (check_whole_pod(pod, "limits", err) < 0)
        return err_same(err);
    return check_whole_pod(pod, "requests", err);
}

/* --- LimitRanges --- */

struct limit_range {
    const char *namespace;
    const char *name;
    const struct document *items; /* spec.limits */
    struct limit_range *next;
};

/* The source of amounts in a LimitRange; items of type Container also have defaults. */
struct limit_source {
    const char *kept;    /* field of a container's resources */
    const char *from[4]; /* fields of the item, the most explicit first; NULL after the last */
};

static const struct limit_source limit_sources[] = {
    {"limits", {"default", "max", NULL, NULL}},
    {"requests", {"defaultRequest", "default", "max", "min"}},
};

static struct document *resources_list(struct arena *arena, struct document *container,
                                       const char *list)
{
    must(container->kind == DOCUMENT_OBJECT);
    return document_object(arena, document_object(arena, container, "resources"), list);
}

static void add_missing(struct arena *arena, const struct document *amounts, struct document *list)
{
    must(list->kind == DOCUMENT_OBJECT);
    document_each (amount, amounts)
        if (field_is_named(amount) && document_get(list, amount->key.at) == NULL)
            document_set(arena, list, amount->key, document_copy(arena, amount));
}

/* Sets requests to limits where absent, which an API server does before any plugin. */
static void fill_requests(struct arena *arena, struct document *container)
{
    const struct document *limits = document_at(container, "resources.limits");

    must(container->kind == DOCUMENT_OBJECT);
    if (limits != NULL && limits->count > 0)
        add_missing(arena, limits, resources_list(arena, container, "requests"));
}

static void fill_container(const struct limit_range *range, struct arena *arena,
                           struct document *container)
{
    must(container->kind == DOCUMENT_OBJECT);
    document_each (item, range->items) {
        if (strcmp(document_str(item, "type"), "Container") != 0)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(limit_sources); i++)
            for (size_t k = 0; k < ARRAY_LEN(limit_sources[i].from); k++) {
                const char *from = limit_sources[i].from[k];
                const struct document *amounts = from != NULL ? document_get(item, from) : NULL;
                if (amounts != NULL && amounts->count > 0)
                    add_missing(arena, amounts,
                                resources_list(arena, container, limit_sources[i].kept));
            }
    }
}

/* False for values of a wrong type, which are refused later with their path. */
static bool can_be_filled(const struct document *container)
{
    const struct document *resources = document_get(container, "resources");

    must(container != NULL);
    if (container->kind != DOCUMENT_OBJECT ||
        (resources != NULL && resources->kind != DOCUMENT_OBJECT))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(limit_sources); i++) {
        const struct document *list = document_get(resources, limit_sources[i].kept);
        if (list != NULL && list->kind != DOCUMENT_OBJECT)
            return false;
    }
    return true;
}

/* Sets requests (also without LimitRanges, for quotas) and the namespace's LimitRange defaults. */
static void fill_one(const struct admission *admission, struct arena *arena, const char *namespace,
                     struct document *container)
{
    must(namespace[0] != '\0');
    if (!can_be_filled(container))
        return;
    fill_requests(arena, container);
    for (const struct limit_range *at = admission->range; at != NULL; at = at->next)
        if (strcmp(at->namespace, namespace) == 0)
            fill_container(at, arena, container);
}

void admission_fill(const struct admission *admission, struct arena *arena, struct document *pod)
{
    const char *namespace = document_str(pod, "metadata.namespace");

    must(pod->kind == DOCUMENT_OBJECT);
    if (admission->range == NULL && admission->quota == NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++) {
        struct document *list = document_at(pod, container_lists[i]);
        struct document *at = list != NULL && list->kind == DOCUMENT_ARRAY ? list->first : NULL;
        for (; at != NULL; at = at->next)
            fill_one(admission, arena, namespace, at);
    }
}

/* The amounts to compare with a LimitRange: of a container, or of a whole pod. */
struct limited {
    const char *type; /* "Container", "Pod" */
    const struct amount *requests;
    const struct amount *limits;
};

/* True and a text if the amounts break the bound. least: the bound is a minimum, else a maximum. */
static bool limit_broken(const struct limited *what, const struct document *bound, bool least,
                         struct strbuf *out)
{
    const char *resource = bound->key.at;
    const int64_t value = admission_amount(bound, resource);
    const struct amount *amount[] = {amounts_find(what->requests, resource),
                                     amounts_find(what->limits, resource)};
    static const char *const word[] = {"request", "limit"};
    const size_t needed = least ? 0 : 1; /* index of the amount that must be present */

    must(field_is_named(bound));
    strbuf_printf(out, "%s %s usage per %s is %s", least ? "minimum" : "maximum", resource,
                  what->type, bound->text.at);
    if (amount[needed] == NULL) {
        strbuf_printf(out, ".  No %s is specified", word[needed]);
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(amount); i++) {
        const size_t at = least ? i : 1 - i; /* the needed one comes first, as in LimitRanger */
        if (amount[at] == NULL || (least ? amount[at]->value >= value : amount[at]->value <= value))
            continue;
        strbuf_printf(out, ", but %s is ", word[at]);
        put_amount(out, resource, amount[at]->value);
        return true;
    }
    strbuf_reset(out);
    return false;
}

static bool item_broken(const struct document *item, const struct limited *what, struct strbuf *out)
{
    must(out->len == 0);
    if (strcmp(document_str(item, "type"), what->type) != 0)
        return false;
    document_each (bound, document_get(item, "min"))
        if (field_is_named(bound) && limit_broken(what, bound, true, out))
            return true;
    document_each (bound, document_get(item, "max"))
        if (field_is_named(bound) && limit_broken(what, bound, false, out))
            return true;
    return false;
}

/* The sum of the containers, but at least the amount of each init container. */
static void pod_amounts(struct arena *arena, const struct document *pod, const char *list,
                        struct amount **out)
{
    char path[FIELD_PATH_BYTES];

    FIELD_PATH(path, "resources.%s", list);
    *out = NULL;
    must(pod->kind == DOCUMENT_OBJECT);
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++)
        document_each (container, document_at(pod, container_lists[i])) {
            const bool beside =
                i == 0 || strcmp(document_str(container, "restartPolicy"), "Always") == 0;
            document_each (amount, document_at(container, path)) {
                if (!field_is_named(amount))
                    continue;
                struct amount *slot = amounts_slot(arena, out, amount->key.at);
                const int64_t value = admission_amount(amount, amount->key.at);
                if (beside)
                    slot->value = admission_sum(slot->value, value);
                else if (slot->value < value)
                    slot->value = value;
            }
        }
    FIELD_PATH(path, "spec.resources.%s", list);
    document_each (amount, document_at(pod, path))
        if (field_is_named(amount))
            amounts_slot(arena, out, amount->key.at)->value =
                admission_amount(amount, amount->key.at);
}

static void container_amounts(struct arena *arena, const struct document *container,
                              const char *list, struct amount **out)
{
    *out = NULL;
    must(container != NULL);
    document_each (amount, document_get(document_get(container, "resources"), list))
        if (field_is_named(amount))
            amounts_slot(arena, out, amount->key.at)->value =
                admission_amount(amount, amount->key.at);
}

static bool what_is_broken(const struct limit_range *range, const struct limited *what,
                           struct strbuf *out)
{
    must(what->type[0] != '\0');
    document_each (item, range->items)
        if (item_broken(item, what, out))
            return true;
    return false;
}

static bool range_is_broken(const struct limit_range *range, struct arena *arena,
                            const struct document *pod, struct strbuf *out)
{
    struct limited what = {.type = "Container"};
    struct amount *requests;
    struct amount *limits;

    must(out->len == 0);
    for (size_t i = 0; i < ARRAY_LEN(container_lists); i++)
        document_each (container, document_at(pod, container_lists[i])) {
            container_amounts(arena, container, "requests", &requests);
            container_amounts(arena, container, "limits", &limits);
            what.requests = requests;
            what.limits = limits;
            if (what_is_broken(range, &what, out))
                return true;
        }
    pod_amounts(arena, pod, "requests", &requests);
    pod_amounts(arena, pod, "limits", &limits);
    what = (struct limited){"Pod", requests, limits};
    return what_is_broken(range, &what, out);
}

/* --- ResourceQuotas --- */

enum quota_what { QUOTA_PODS, QUOTA_REQUESTS, QUOTA_LIMITS, QUOTA_OTHER };

struct quota_line {
    const char *key;      /* as in spec.hard: "requests.nvidia.com/vgpu" */
    const char *resource; /* of requests and limits */
    enum quota_what what;
    bool demanded; /* each container must give an amount */
    int64_t hard;
    int64_t used;
};

struct quota {
    const char *namespace;
    const char *name;
    bool scoped; /* has scopes, which are not supported */
    uint32_t n_lines;
    struct quota_line *line;
    struct quota *next;
};

static bool is_compute(const char *resource)
{
    must(resource != NULL);
    return strcmp(resource, "cpu") == 0 || strcmp(resource, "memory") == 0;
}

/* Quotas count extended resources by requests only. */
static void quota_classify(struct quota_line *line)
{
    const bool requests = text_starts(text_of(line->key), "requests.");
    const bool limits = text_starts(text_of(line->key), "limits.");
    const char *rest = line->key + (requests ? strlen("requests.")
                                    : limits ? strlen("limits.")
                                             : 0);
    const bool storage = strcmp(rest, "ephemeral-storage") == 0;
    const bool huge = text_starts(text_of(rest), "hugepages-") && !limits;

    must(line->what == QUOTA_OTHER);
    line->resource = rest;
    if (strcmp(line->key, "pods") == 0 || strcmp(line->key, "count/pods") == 0)
        line->what = QUOTA_PODS;
    else if (is_compute(rest) || storage || huge)
        line->what = limits ? QUOTA_LIMITS : QUOTA_REQUESTS;
    else if (requests && is_extended(rest))
        line->what = QUOTA_REQUESTS;
    line->demanded = is_compute(rest) && line->what != QUOTA_OTHER;
}

static int quota_read(struct admission *admission, const struct document *object, struct quota *out,
                      struct err *err)
{
    const struct document *hard;

    if (field_member(object, "spec.hard", DOCUMENT_OBJECT, &hard, err) < 0)
        return err_same(err);
    out->line =
        arena_array(admission->arena, hard != NULL ? hard->count + 1 : 1, sizeof *out->line);
    document_each (amount, hard) {
        int64_t ignored = 0;
        char shown[FIELD_KEY_BYTES];
        if (!field_is_named(amount))
            continue;
        if ((amount->kind != DOCUMENT_STRING && amount->kind != DOCUMENT_NUMBER) ||
            quantity_ceil(amount->text, 3, &ignored) == QUANTITY_SYNTAX)
            return err_set(err, ERR_INVALID, "spec.hard[%s]: expected a quantity",
                           field_key(amount, shown));
        struct quota_line *line = &out->line[out->n_lines++];
        *line = (struct quota_line){.key = amount->key.at, .what = QUOTA_OTHER};
        quota_classify(line);
        line->hard = admission_amount(amount, line->resource);
    }
    const struct document *scopes = document_at(object, "spec.scopes");
    out->scoped =
        (scopes != NULL && scopes->count > 0) || document_at(object, "spec.scopeSelector") != NULL;
    must(hard == NULL || out->n_lines <= hard->count);
    return 0;
}

struct pod_usage {
    struct amount *requests;
    struct amount *limits;
};

static void pod_usage(struct arena *arena, const struct document *pod, struct pod_usage *out)
{
    struct err ignored;

    must(pod->kind == DOCUMENT_OBJECT);
    if (amounts_requested(arena, pod, &out->requests, &ignored) < 0)
        out->requests = NULL; /* invalid, which is refused elsewhere */
    pod_amounts(arena, pod, "limits", &out->limits);
}

static int64_t usage_of(const struct pod_usage *usage, const struct quota_line *line)
{
    must(line->key[0] != '\0');
    switch (line->what) {
    case QUOTA_PODS:
        return 1;
    case QUOTA_REQUESTS:
        return amounts_value(usage->requests, line->resource);
    case QUOTA_LIMITS:
        return amounts_value(usage->limits, line->resource);
    case QUOTA_OTHER:
        break;
    }
    return 0;
}

/* A quota of CPU or memory requires an amount in each container. */
static bool quota_misses(const struct quota *quota, const struct document *pod, struct strbuf *out)
{
    must(out->len == 0);
    for (uint32_t i = 0; i < quota->n_lines; i++) {
        const struct quota_line *line = &quota->line[i];
        const char *list = line->what == QUOTA_LIMITS ? "limits" : "requests";
        for (size_t k = 0; line->demanded && k < ARRAY_LEN(container_lists); k++)
            document_each (container, document_at(pod, container_lists[k])) {
                if (document_get(document_get(document_get(container, "resources"), list),
                                 line->resource) != NULL)
                    continue;
                strbuf_printf(out, "failed quota: %s: must specify %s for: %s", quota->name,
                              line->key, document_shown(container, "name"));
                return true;
            }
    }
    return false;
}

static bool is_exceeded(const struct quota_line *line, int64_t more)
{
    must(more >= 0 && line->used >= 0);
    return line->what != QUOTA_OTHER && more > 0 && admission_sum(line->used, more) > line->hard;
}

static void put_exceeded(const struct quota *quota, const struct pod_usage *usage,
                         const char *title, struct strbuf *out)
{
    const char *between = "";

    strbuf_printf(out, ", %s: ", title);
    must(quota->n_lines > 0);
    for (uint32_t i = 0; i < quota->n_lines; i++) {
        const struct quota_line *line = &quota->line[i];
        const int64_t more = usage_of(usage, line);
        if (!is_exceeded(line, more))
            continue;
        strbuf_printf(out, "%s%s=", between, line->key);
        put_amount(out, line->resource,
                   title[0] == 'r'   ? more
                   : title[0] == 'u' ? line->used
                                     : line->hard);
        between = ",";
    }
}

static bool quota_is_exceeded(const struct quota *quota, const struct pod_usage *usage,
                              struct strbuf *out)
{
    bool exceeded = false;

    must(out->len == 0);
    for (uint32_t i = 0; i < quota->n_lines; i++)
        exceeded |= is_exceeded(&quota->line[i], usage_of(usage, &quota->line[i]));
    if (!exceeded)
        return false;
    strbuf_printf(out, "exceeded quota: %s", quota->name);
    put_exceeded(quota, usage, "requested", out);
    put_exceeded(quota, usage, "used", out);
    put_exceeded(quota, usage, "limited", out);
    return true;
}

static bool counts_for(const struct quota *quota, const struct document *pod)
{
    must(quota->namespace[0] != '\0');
    return !quota->scoped && strcmp(quota->namespace, document_str(pod, "metadata.namespace")) == 0;
}

void admission_count(struct admission *admission, const struct document *pod)
{
    CLEANUP(arena_done) struct arena arena;
    const char *phase = document_str(pod, "status.phase");
    struct pod_usage usage;

    must(pod->kind == DOCUMENT_OBJECT);
    arena_init(&arena);
    if (admission->quota == NULL || strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
        return;
    pod_usage(&arena, pod, &usage);
    for (struct quota *at = admission->quota; at != NULL; at = at->next)
        for (uint32_t i = 0; counts_for(at, pod) && i < at->n_lines; i++)
            at->line[i].used = admission_sum(at->line[i].used, usage_of(&usage, &at->line[i]));
}

/* --- both --- */

bool admission_is_rule(const struct document *object)
{
    const char *kind = document_str(object, "kind");

    must(object->kind == DOCUMENT_OBJECT);
    return strcmp(document_str(object, "apiVersion"), "v1") == 0 &&
           (strcmp(kind, "LimitRange") == 0 || strcmp(kind, "ResourceQuota") == 0);
}

static int range_read(const struct document *object, struct limit_range *out, struct err *err)
{
    static const char *const lists[] = {"max", "min", "default", "defaultRequest"};
    unsigned index = 0;

    if (field_member(object, "spec.limits", DOCUMENT_ARRAY, &out->items, err) < 0)
        return err_same(err);
    document_each (item, out->items) {
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
            document_each (amount, document_get(item, lists[i])) {
                int64_t ignored = 0;
                char shown[FIELD_KEY_BYTES];
                if ((amount->kind == DOCUMENT_STRING || amount->kind == DOCUMENT_NUMBER) &&
                    quantity_ceil(amount->text, 3, &ignored) != QUANTITY_SYNTAX)
                    continue;
                return err_set(err, ERR_INVALID, "spec.limits[%u].%s[%s]: expected a quantity",
                               index, lists[i], field_key(amount, shown));
            }
        index++;
    }
    must(out->items == NULL || index == out->items->count);
    return 0;
}

/* Keeps rules in the order of the files; an API server sorts them by name. */
int admission_add(struct admission *admission, const struct document *object, struct err *err)
{
    struct arena *arena = admission->arena;
    const char *given = document_shown(object, "metadata.namespace");
    const char *namespace = given[0] != '\0' ? given : admission->namespace;
    const char *name = document_shown(object, "metadata.name");

    must(admission_is_rule(object));
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "metadata.name: a name is required");
    if (strcmp(document_str(object, "kind"), "LimitRange") == 0) {
        struct limit_range *range = arena_alloc(arena, sizeof *range);
        *range =
            (struct limit_range){.namespace = namespace, .name = name, .next = admission->range};
        if (range_read(object, range, err) < 0)
            return err_same(err);
        admission->range = range;
        return 0;
    }
    struct quota *quota = arena_alloc(arena, sizeof *quota);
    *quota = (struct quota){.namespace = namespace, .name = name, .next = admission->quota};
    if (quota_read(admission, object, quota, err) < 0)
        return err_same(err);
    admission->quota = quota;
    return 0;
}

int admission_review(const struct admission *admission, const struct document *pod, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf why;
    CLEANUP(arena_done) struct arena arena;
    const char *name = document_shown(pod, "metadata.name");
    struct pod_usage usage;

    must(pod->kind == DOCUMENT_OBJECT);
    strbuf_init(&why);
    arena_init(&arena);
    for (const struct limit_range *at = admission->range; at != NULL; at = at->next)
        if (strcmp(at->namespace, document_str(pod, "metadata.namespace")) == 0 &&
            range_is_broken(at, &arena, pod, &why))
            return err_set(err, ERR_FORBIDDEN,
                           "pods \"%.100s\" is forbidden: %s (LimitRange %.80s)", name, why.data,
                           at->name);
    if (admission->quota != NULL)
        pod_usage(&arena, pod, &usage);
    for (const struct quota *at = admission->quota; at != NULL; at = at->next)
        if (counts_for(at, pod) &&
            (quota_misses(at, pod, &why) || quota_is_exceeded(at, &usage, &why)))
            return err_set(err, ERR_FORBIDDEN, "pods \"%.100s\" is forbidden: %s", name, why.data);
    return 0;
}

/* --- what is not considered --- */

static bool is_quantity_of_container(const char *key)
{
    must(key != NULL);
    return strchr(key, '/') != NULL && !text_starts(text_of(key), "count/") &&
           !text_starts(text_of(key), "requests.");
}

static void quota_say(const struct quota *quota, bool counts, FILE *out)
{
    must(quota->name[0] != '\0');
    if (!counts || quota->scoped) {
        (void)fprintf(
            out, "not considered: ResourceQuota %s/%s (%s)\n", quota->namespace, quota->name,
            !counts ? "asked is how many pods fit, not how many may be made" : "it has scopes");
        return;
    }
    for (uint32_t i = 0; i < quota->n_lines; i++)
        if (quota->line[i].what == QUOTA_OTHER)
            (void)fprintf(out, "not considered: ResourceQuota %s/%s: %s%s%s\n", quota->namespace,
                          quota->name, quota->line[i].key,
                          is_quantity_of_container(quota->line[i].key)
                              ? ", of which an API server counts nothing: write requests."
                              : "",
                          is_quantity_of_container(quota->line[i].key) ? quota->line[i].resource
                                                                       : "");
}

void admission_say(const struct admission *admission, bool counts, FILE *out)
{
    must(out != NULL);
    for (const struct quota *at = admission->quota; at != NULL; at = at->next)
        quota_say(at, counts, out);
    for (const struct limit_range *at = admission->range; at != NULL; at = at->next)
        document_each (item, at->items) {
            const struct document *ratio = document_get(item, "maxLimitRequestRatio");
            if (ratio != NULL && ratio->count > 0)
                (void)fprintf(out, "not considered: LimitRange %s/%s: maxLimitRequestRatio\n",
                              at->namespace, at->name);
        }
}
