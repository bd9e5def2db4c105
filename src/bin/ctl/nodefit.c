/*
 * kube-scheduler's own filters, as far as play honors them. Called by play_nodes.c for each pod and
 * each node, so judging allocates nothing. The order of the filters and their words are those of
 * kube-scheduler's default profile: the first filter that refuses a node gives its reason. The
 * parts: affinity, tolerations, pods and nodes, judging.
 */
#include "nodefit.h"

#include <string.h>

#include "fields.h"

static const char REQUIRED[] = "spec.affinity.nodeAffinity."
                               "requiredDuringSchedulingIgnoredDuringExecution";

/* --- affinity --- */

enum fit_operator { OP_IN, OP_NOT_IN, OP_EXISTS, OP_NOT_EXISTS, OP_GT, OP_LT, FIT_OPERATORS };

static const char *const operator_name[FIT_OPERATORS] = {
    [OP_IN] = "In", [OP_NOT_IN] = "NotIn", [OP_EXISTS] = "Exists", [OP_NOT_EXISTS] = "DoesNotExist",
    [OP_GT] = "Gt", [OP_LT] = "Lt",
};

static enum fit_operator operator_of(const struct doc *rule)
{
    const char *name = doc_str(rule, "operator");
    int found = 0;

    while (found < FIT_OPERATORS && strcmp(operator_name[found], name) != 0)
        found++;
    must(found <= FIT_OPERATORS);
    return (enum fit_operator)found;
}

/* As many values as the operator takes. */
static int check_values(const struct doc *rule, enum fit_operator op, const char *path,
                        struct err *err)
{
    const struct doc *values = doc_get(rule, "values");
    char at[FIELD_PATH_BYTES];
    uint32_t count = 0;

    must(op < FIT_OPERATORS);
    FIELD_PATH(at, "%.200s.values", path);
    if (field_expect(values, DOC_ARRAY, at, err) < 0)
        return err_same(err);
    doc_each (value, values) {
        FIELD_PATH(at, "%.200s.values[%u]", path, (unsigned)count++);
        if (field_expect(value, DOC_STRING, at, err) < 0)
            return err_same(err);
    }
    const char *name = operator_name[op];
    if ((op == OP_IN || op == OP_NOT_IN) && count == 0)
        return err_set(err, ERR_INVALID, "%.200s.values: the operator %s needs at least one value",
                       path, name);
    if ((op == OP_EXISTS || op == OP_NOT_EXISTS) && count > 0)
        return err_set(err, ERR_INVALID, "%.200s.values: the operator %s takes no values", path,
                       name);
    if ((op == OP_GT || op == OP_LT) && count != 1)
        return err_set(err, ERR_INVALID, "%.200s.values: the operator %s takes exactly one value",
                       path, name);
    return 0;
}

static int check_rule(const struct doc *rule, bool field, const char *path, struct err *err)
{
    const char *key = "";
    const char *op = "";

    must(path[0] != '\0');
    if (field_expect(rule, DOC_OBJECT, path, err) < 0 ||
        field_string(rule, path, "key", &key, err) < 0 ||
        field_string(rule, path, "operator", &op, err) < 0)
        return err_same(err);
    const enum fit_operator is = operator_of(rule);
    if (key[0] == '\0')
        return err_set(err, ERR_INVALID, "%.250s.key: a key is required", path);
    if (is == FIT_OPERATORS)
        return err_set(err, ERR_INVALID,
                       "%.200s.operator: \"%.40s\" is not one of In, NotIn, Exists, DoesNotExist, "
                       "Gt and Lt",
                       path, doc_shown(rule, "operator"));
    if (field && strcmp(key, "metadata.name") != 0)
        return err_set(err, ERR_INVALID,
                       "%.200s.key: \"%.60s\" is no field of a node: it is "
                       "metadata.name",
                       path, doc_shown(rule, "key"));
    if (check_values(rule, is, path, err) < 0)
        return err_same(err);
    const struct doc *values = doc_get(rule, "values");
    if (field && ((is != OP_IN && is != OP_NOT_IN) || values == NULL || values->count != 1))
        return err_set(err, ERR_INVALID,
                       "%.200s: a field takes the operator In or NotIn with exactly one value",
                       path);
    return 0;
}

static int check_term(const struct doc *term, const char *path, struct err *err)
{
    static const char *const list[] = {"matchExpressions", "matchFields"};

    must(path[0] != '\0');
    if (field_expect(term, DOC_OBJECT, path, err) < 0)
        return err_same(err);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        const struct doc *rules = doc_get(term, list[i]);
        char at[FIELD_PATH_BYTES];
        unsigned index = 0;
        FIELD_PATH(at, "%.200s.%s", path, list[i]);
        if (field_expect(rules, DOC_ARRAY, at, err) < 0)
            return err_same(err);
        doc_each (rule, rules) {
            FIELD_PATH(at, "%.200s.%s[%u]", path, list[i], index++);
            if (check_rule(rule, i == 1, at, err) < 0)
                return err_same(err);
        }
    }
    return 0;
}

static int affinity_read(const struct doc *pod, struct fit_pod *out, struct err *err)
{
    const struct doc *required;
    char path[FIELD_PATH_BYTES];
    unsigned index = 0;

    if (field_member(pod, "spec.nodeSelector", DOC_OBJECT, &out->selector, err) < 0 ||
        field_member(pod, REQUIRED, DOC_OBJECT, &required, err) < 0)
        return err_same(err);
    doc_each (wanted, out->selector) {
        char key[FIELD_KEY_BYTES];
        FIELD_PATH(path, "spec.nodeSelector[\"%s\"]", field_key(wanted, key));
        if (field_expect(wanted, DOC_STRING, path, err) < 0)
            return err_same(err);
    }
    if (required == NULL)
        return 0;
    FIELD_PATH(path, "%s.nodeSelectorTerms", REQUIRED);
    if (field_member(pod, path, DOC_ARRAY, &out->terms, err) < 0)
        return err_same(err);
    if (out->terms == NULL || out->terms->count == 0)
        return err_set(err, ERR_INVALID, "%s: at least one term is required", path);
    doc_each (term, out->terms) {
        FIELD_PATH(path, "%s.nodeSelectorTerms[%u]", REQUIRED, index++);
        if (check_term(term, path, err) < 0)
            return err_same(err);
    }
    return 0;
}

/* As Go's ParseInt: a sign, digits, 64 bits. */
static bool fit_integer(struct text text, int64_t *out)
{
    const bool negative = text_starts(text, "-");
    const size_t sign = negative || text_starts(text, "+") ? 1 : 0;
    uint64_t value = 0;

    if (text.len == sign || text.len - sign > 100)
        return false;
    for (size_t i = sign; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        const uint64_t digit = (uint64_t)(text.at[i] - '0');
        if (value > ((uint64_t)INT64_MAX + negative - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    must(value <= (uint64_t)INT64_MAX + negative);
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static bool value_among(struct text have, const struct doc *values)
{
    must(have.at != NULL);
    doc_each (value, values)
        if (text_eq(value->text, have))
            return true;
    return false;
}

/* have NULL: the node has no such label. */
static bool rule_holds(const struct doc *rule, const struct text *have)
{
    const struct doc *values = doc_get(rule, "values");
    int64_t number;
    int64_t bound;

    switch (operator_of(rule)) {
    case OP_IN:
        return have != NULL && value_among(*have, values);
    case OP_NOT_IN:
        return have == NULL || !value_among(*have, values);
    case OP_EXISTS:
        return have != NULL;
    case OP_NOT_EXISTS:
        return have == NULL;
    case OP_GT:
        return have != NULL && fit_integer(*have, &number) &&
               fit_integer(values->first->text, &bound) && number > bound;
    case OP_LT:
        return have != NULL && fit_integer(*have, &number) &&
               fit_integer(values->first->text, &bound) && number < bound;
    case FIT_OPERATORS:
        break;
    }
    must_not_reach("check_rule() lets known operators pass");
}

static const struct doc *fit_label(const struct doc *labels, struct text key)
{
    doc_each (label, labels)
        if (text_eq(label->key, key))
            return label;
    must(key.len > 0);
    return NULL;
}

bool fit_labels_hold(const struct doc *rules, const struct doc *labels)
{
    doc_each (rule, rules) {
        const struct doc *label = fit_label(labels, text_of(doc_str(rule, "key")));
        if (!rule_holds(rule, label != NULL ? &label->text : NULL))
            return false;
    }
    return true;
}

/* A term without rules matches nothing. */
static bool term_holds(const struct doc *term, const struct fit_node *node)
{
    const struct doc *expressions = doc_get(term, "matchExpressions");
    const struct doc *fields = doc_get(term, "matchFields");
    const struct text name = text_of(node->name);

    if ((expressions == NULL || expressions->count == 0) && (fields == NULL || fields->count == 0))
        return false;
    if (!fit_labels_hold(expressions, node->labels))
        return false;
    doc_each (rule, fields)
        if (!rule_holds(rule, &name))
            return false;
    must(name.len > 0);
    return true;
}

static bool affinity_holds(const struct fit_pod *pod, const struct fit_node *node)
{
    must(node->name[0] != '\0');
    doc_each (wanted, pod->selector) {
        const struct doc *label = fit_label(node->labels, wanted->key);
        if (label == NULL || !text_eq(label->text, wanted->text))
            return false;
    }
    if (pod->terms == NULL)
        return true;
    doc_each (term, pod->terms)
        if (term_holds(term, node))
            return true;
    return false;
}

/* --- tolerations --- */

static bool is_effect(const char *effect)
{
    must(effect != NULL);
    return strcmp(effect, "NoSchedule") == 0 || strcmp(effect, "PreferNoSchedule") == 0 ||
           strcmp(effect, "NoExecute") == 0;
}

/* The rules of the API server between the fields of one toleration. */
static int toleration_check(const struct doc *toleration, const char *path, struct err *err)
{
    const char *key = "";
    const char *op = "";
    const char *value = "";
    const char *effect = "";

    must(path[0] != '\0');
    if (field_expect(toleration, DOC_OBJECT, path, err) < 0 ||
        field_string(toleration, path, "key", &key, err) < 0 ||
        field_string(toleration, path, "operator", &op, err) < 0 ||
        field_string(toleration, path, "value", &value, err) < 0 ||
        field_string(toleration, path, "effect", &effect, err) < 0)
        return err_same(err);
    const bool exists = strcmp(op, "Exists") == 0;
    const struct doc *seconds = doc_get(toleration, "tolerationSeconds");
    if (!exists && op[0] != '\0' && strcmp(op, "Equal") != 0)
        return err_set(err, ERR_INVALID,
                       "%.200s.operator: \"%.40s\" is not one of Exists and Equal", path,
                       doc_shown(toleration, "operator"));
    if (key[0] == '\0' && !exists)
        return err_set(err, ERR_INVALID,
                       "%.200s.operator: it must be Exists where the key is empty", path);
    if (exists && value[0] != '\0')
        return err_set(err, ERR_INVALID,
                       "%.200s.value: it must be empty where the operator is Exists", path);
    if (effect[0] != '\0' && !is_effect(effect))
        return err_set(err, ERR_INVALID,
                       "%.200s.effect: \"%.40s\" is not one of NoSchedule, PreferNoSchedule and "
                       "NoExecute",
                       path, doc_shown(toleration, "effect"));
    if (seconds != NULL && seconds->kind != DOC_NUMBER)
        return err_set(err, ERR_INVALID, "%.200s.tolerationSeconds: expected a number, found %s",
                       path, doc_kind_name(seconds->kind));
    if (seconds != NULL && strcmp(effect, "NoExecute") != 0)
        return err_set(err, ERR_INVALID,
                       "%.200s.effect: it must be NoExecute where tolerationSeconds is set", path);
    return 0;
}

/* The API server adds a toleration for this taint, unless the pod has one of its own. */
static bool has_own(const struct doc *tolerations, const char *taint)
{
    must(taint[0] != '\0');
    doc_each (toleration, tolerations) {
        const char *key = doc_str(toleration, "key");
        const char *effect = doc_str(toleration, "effect");
        if ((key[0] == '\0' || strcmp(key, taint) == 0) &&
            (effect[0] == '\0' || strcmp(effect, "NoExecute") == 0))
            return true;
    }
    return false;
}

static const char NOT_READY[] = "node.kubernetes.io/not-ready";
static const char UNREACHABLE[] = "node.kubernetes.io/unreachable";
static const char UNSCHEDULABLE[] = "node.kubernetes.io/unschedulable";

static int tolerations_read(const struct doc *pod, struct fit_pod *out, struct err *err)
{
    unsigned index = 0;

    if (field_member(pod, "spec.tolerations", DOC_ARRAY, &out->tolerations, err) < 0)
        return err_same(err);
    doc_each (toleration, out->tolerations) {
        char path[FIELD_PATH_BYTES];
        FIELD_PATH(path, "spec.tolerations[%u]", index++);
        if (toleration_check(toleration, path, err) < 0)
            return err_same(err);
    }
    must(out->tolerations == NULL || index == out->tolerations->count);
    out->stays_not_ready = !has_own(out->tolerations, NOT_READY);
    out->stays_unreachable = !has_own(out->tolerations, UNREACHABLE);
    return 0;
}

static bool covers(const struct doc *toleration, const char *key, const char *value,
                   const char *effect)
{
    const char *own_key = doc_str(toleration, "key");
    const char *own_effect = doc_str(toleration, "effect");

    must(is_effect(effect));
    if (own_effect[0] != '\0' && strcmp(own_effect, effect) != 0)
        return false;
    if (own_key[0] != '\0' && strcmp(own_key, key) != 0)
        return false;
    if (strcmp(doc_str(toleration, "operator"), "Exists") == 0)
        return true;
    return strcmp(doc_str(toleration, "value"), value) == 0;
}

static bool tolerates(const struct fit_pod *pod, const char *key, const char *value,
                      const char *effect)
{
    must(pod != NULL);
    doc_each (toleration, pod->tolerations)
        if (covers(toleration, key, value, effect))
            return true;
    if (strcmp(effect, "NoExecute") != 0)
        return false;
    return (pod->stays_not_ready && strcmp(key, NOT_READY) == 0) ||
           (pod->stays_unreachable && strcmp(key, UNREACHABLE) == 0);
}

/* hard: the effects that keep a pod away; else PreferNoSchedule. */
static bool tolerates_all(const struct fit_pod *pod, const struct fit_node *node, bool hard)
{
    must(node->name[0] != '\0');
    doc_each (taint, node->taints) {
        const char *effect = doc_str(taint, "effect");
        if (is_effect(effect) && (strcmp(effect, "PreferNoSchedule") != 0) == hard &&
            !tolerates(pod, doc_str(taint, "key"), doc_str(taint, "value"), effect))
            return false;
    }
    return true;
}

bool fit_avoids(const struct fit_pod *pod, const struct fit_node *node)
{
    must(pod != NULL);
    return !tolerates_all(pod, node, false);
}

/* --- pods and nodes --- */

int fit_pod_read(struct arena *arena, const struct doc *pod, struct fit_pod *out, struct err *err)
{
    must(pod != NULL);
    *out = (struct fit_pod){.requests = NULL};
    if (tolerations_read(pod, out, err) < 0 || affinity_read(pod, out, err) < 0)
        return err_same(err);
    return amounts_requested(arena, pod, &out->requests, err);
}

static int taints_check(const struct doc *taints, struct err *err)
{
    static const char *const field[] = {"key", "value", "effect"};
    const char *ignored;
    unsigned index = 0;

    doc_each (taint, taints) {
        char path[FIELD_PATH_BYTES];
        FIELD_PATH(path, "spec.taints[%u]", index++);
        if (field_expect(taint, DOC_OBJECT, path, err) < 0)
            return err_same(err);
        for (size_t i = 0; i < ARRAY_LEN(field); i++)
            if (field_string(taint, path, field[i], &ignored, err) < 0)
                return err_same(err);
    }
    must(taints == NULL || index == taints->count);
    return 0;
}

/* With texts of its own, unlike doc_copy(): the page that the node came in is freed. */
static struct doc *fit_keep(struct arena *arena, const struct doc *doc)
{
    if (doc == NULL)
        return NULL;
    struct doc *kept = doc_new(arena, doc->kind);
    kept->key = (struct text){arena_copy(arena, doc->key), doc->key.len};
    kept->text = (struct text){arena_copy(arena, doc->text), doc->text.len};
    doc_each (child, doc)
        doc_append(kept, fit_keep(arena, child));
    must(kept->count == doc->count);
    return kept;
}

/* "pods" is always in used: each judgement reads it. */
int fit_node_read(struct arena *arena, const struct doc *node, struct fit_node *out,
                  struct err *err)
{
    const struct doc *labels;
    const struct doc *taints;
    const struct doc *cordon;
    const struct doc *allocatable;
    const char *name = doc_str(node, "metadata.name");

    *out = (struct fit_node){.name = ""};
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "metadata.name: a name is required");
    if (field_member(node, "metadata.labels", DOC_OBJECT, &labels, err) < 0 ||
        field_member(node, "spec.unschedulable", DOC_BOOL, &cordon, err) < 0 ||
        field_member(node, "spec.taints", DOC_ARRAY, &taints, err) < 0 ||
        field_member(node, "status.allocatable", DOC_OBJECT, &allocatable, err) < 0 ||
        taints_check(taints, err) < 0 ||
        amounts_read(arena, allocatable, "status.allocatable", &out->room, err) < 0)
        return err_same(err);
    out->name = arena_copy(arena, text_of(name));
    out->unschedulable = cordon != NULL && text_is(cordon->text, "true");
    out->labels = fit_keep(arena, labels);
    out->taints = fit_keep(arena, taints);
    amounts_slot(arena, &out->used, "pods")->value = 0;
    return 0;
}

void fit_node_take(struct arena *arena, struct fit_node *node, const struct amount *requests)
{
    struct amount *pods = amounts_slot(arena, &node->used, "pods");

    must(pods->value >= 0);
    pods->value++;
    amounts_add(arena, &node->used, requests);
}

/* --- judging --- */

static void fit_lacks(struct strbuf *why, const char *what, const char *resource)
{
    must(what[0] != '\0');
    strbuf_printf(why, "%s%s", why->len > 0 ? ", " : "", what);
    strbuf_shown(why, text_of(resource));
}

static bool has_left(const struct fit_node *node, const char *resource, int64_t wanted)
{
    const struct amount *room = amounts_find(node->room, resource);

    must(wanted >= 0);
    if (room == NULL)
        return amount_is_basic(resource) || wanted == 0;
    const int64_t used = amounts_value(node->used, resource);
    return used <= room->value && wanted <= room->value - used;
}

static void resource_judge(const struct fit_node *node, const struct amount *wanted,
                           struct strbuf *why)
{
    must(node->name[0] != '\0');
    if (wanted != NULL && wanted->value > 0 && !has_left(node, wanted->resource, wanted->value))
        fit_lacks(why, "Insufficient ", wanted->resource);
}

/* All that is lacking, in kube-scheduler's order: first what every node has. */
static void resources_judge(const struct fit_pod *pod, const struct fit_node *node,
                            const char *managed, struct strbuf *why)
{
    static const char *const first[] = {"cpu", "memory", "ephemeral-storage"};

    must(why->len == 0);
    if (!has_left(node, "pods", 1))
        fit_lacks(why, "Too many pods", "");
    for (size_t i = 0; i < ARRAY_LEN(first); i++)
        resource_judge(node, amounts_find(pod->requests, first[i]), why);
    for (const struct amount *at = pod->requests; at != NULL; at = at->next)
        if (!amount_is_basic(at->resource) && amount_counts(at->resource) &&
            strcmp(at->resource, managed) != 0)
            resource_judge(node, at, why);
}

bool fit_judge(const struct fit_pod *pod, const struct fit_node *node, const char *managed,
               struct strbuf *why)
{
    must(managed[0] != '\0');
    strbuf_reset(why);
    if (node->unschedulable && !tolerates(pod, UNSCHEDULABLE, "", "NoSchedule"))
        strbuf_str(why, "node(s) were unschedulable");
    else if (!tolerates_all(pod, node, true))
        strbuf_str(why, "node(s) had untolerated taint(s)");
    else if (!affinity_holds(pod, node))
        strbuf_str(why, "node(s) didn't match Pod's node affinity/selector");
    else
        resources_judge(pod, node, managed, why);
    return why->len == 0;
}
