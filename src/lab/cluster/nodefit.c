/*
 * kube-scheduler's own filters, as far as play supports them. Called by play_nodes.c for each pod
 * and each node, so checks allocate nothing. Order and texts are those of kube-scheduler's default
 * profile: the first filter that refuses a node gives the reason. Taints and affinity are evaluated
 * in core (node_filter.h), but parsed and validated here, as in an API server. In order: affinity,
 * tolerations, pods and nodes, checks.
 */
#include "nodefit.h"

#include <string.h>

#include "milligpu/base/alloc.h"

#include "ctl/label_selector.h"
#include "fields.h"

static const char REQUIRED[] = "spec.affinity.nodeAffinity."
                               "requiredDuringSchedulingIgnoredDuringExecution";

/* --- affinity --- */

/* Checks the number of values for the operator. */
static int check_values(const struct document *rule, enum node_rule_operator op, const char *path,
                        struct err *err)
{
    const struct document *values = document_get(rule, "values");
    char at[FIELD_PATH_BYTES];
    uint32_t count = 0;

    must(op < RULE_OTHER);
    FIELD_PATH(at, "%.200s.values", path);
    if (field_expect(values, DOCUMENT_ARRAY, at, err) < 0)
        return err_same(err);
    document_each (value, values) {
        FIELD_PATH(at, "%.200s.values[%u]", path, (unsigned)count++);
        if (field_expect(value, DOCUMENT_STRING, at, err) < 0)
            return err_same(err);
    }
    const char *name = document_str(rule, "operator");
    if ((op == RULE_IN || op == RULE_NOT_IN) && count == 0)
        return err_set(err, ERR_INVALID, "%.200s.values: the operator %s needs at least one value",
                       path, name);
    if ((op == RULE_EXISTS || op == RULE_NOT_EXISTS) && count > 0)
        return err_set(err, ERR_INVALID, "%.200s.values: the operator %s takes no values", path,
                       name);
    if ((op == RULE_GT || op == RULE_LT) && count != 1)
        return err_set(err, ERR_INVALID, "%.200s.values: the operator %s takes exactly one value",
                       path, name);
    return 0;
}

static int check_rule(const struct document *rule, bool field, const char *path, struct err *err)
{
    const char *key = "";
    const char *op = "";

    must(path[0] != '\0');
    if (field_expect(rule, DOCUMENT_OBJECT, path, err) < 0 ||
        field_string(rule, path, "key", &key, err) < 0 ||
        field_string(rule, path, "operator", &op, err) < 0)
        return err_same(err);
    const enum node_rule_operator is = label_rule_operator(rule);
    if (key[0] == '\0')
        return err_set(err, ERR_INVALID, "%.250s.key: a key is required", path);
    if (is == RULE_OTHER)
        return err_set(err, ERR_INVALID,
                       "%.200s.operator: \"%.40s\" is not one of In, NotIn, Exists, DoesNotExist, "
                       "Gt and Lt",
                       path, document_shown(rule, "operator"));
    if (field && strcmp(key, "metadata.name") != 0)
        return err_set(err, ERR_INVALID,
                       "%.200s.key: \"%.60s\" is no field of a node: it is "
                       "metadata.name",
                       path, document_shown(rule, "key"));
    if (check_values(rule, is, path, err) < 0)
        return err_same(err);
    const struct document *values = document_get(rule, "values");
    if (field && ((is != RULE_IN && is != RULE_NOT_IN) || values == NULL || values->count != 1))
        return err_set(err, ERR_INVALID,
                       "%.200s: a field takes the operator In or NotIn with exactly one value",
                       path);
    return 0;
}

static int check_term(const struct document *term, const char *path, struct err *err)
{
    static const char *const list[] = {"matchExpressions", "matchFields"};

    must(path[0] != '\0');
    if (field_expect(term, DOCUMENT_OBJECT, path, err) < 0)
        return err_same(err);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        const struct document *rules = document_get(term, list[i]);
        char at[FIELD_PATH_BYTES];
        unsigned index = 0;
        FIELD_PATH(at, "%.200s.%s", path, list[i]);
        if (field_expect(rules, DOCUMENT_ARRAY, at, err) < 0)
            return err_same(err);
        document_each (rule, rules) {
            FIELD_PATH(at, "%.200s.%s[%u]", path, list[i], index++);
            if (check_rule(rule, i == 1, at, err) < 0)
                return err_same(err);
        }
    }
    return 0;
}

static const struct node_rule *fit_rules(struct arena *arena, const struct document *rules,
                                         uint32_t *out_count)
{
    struct node_rule *rule = arena_array(arena, rules != NULL ? rules->count : 0, sizeof *rule);

    *out_count = 0;
    document_each (each, rules) {
        const struct document *values = document_get(each, "values");
        const size_t count = values != NULL ? values->count : 0;
        rule[(*out_count)++] = label_rule_of(each, arena_array(arena, count + 1, sizeof(char *)));
    }
    must(*out_count == (rules != NULL ? rules->count : 0));
    return rule;
}

static void take_terms(struct arena *arena, const struct document *terms, struct node_demands *out)
{
    struct node_term *term = arena_array(arena, terms->count, sizeof *term);

    must(out->n_terms == 0);
    document_each (each, terms) {
        struct node_term *next = &term[out->n_terms++];
        next->expression =
            fit_rules(arena, document_get(each, "matchExpressions"), &next->n_expressions);
        next->field = fit_rules(arena, document_get(each, "matchFields"), &next->n_fields);
    }
    out->affine = true;
    out->term = term;
}

static int selector_read(struct arena *arena, const struct document *pod, struct node_demands *out,
                         struct err *err)
{
    const struct document *selector;
    char path[FIELD_PATH_BYTES];

    must(out->n_selectors == 0);
    if (field_member(pod, "spec.nodeSelector", DOCUMENT_OBJECT, &selector, err) < 0)
        return err_same(err);
    struct label *label = arena_array(arena, selector != NULL ? selector->count : 0, sizeof *label);
    document_each (wanted, selector) {
        char key[FIELD_KEY_BYTES];
        FIELD_PATH(path, "spec.nodeSelector[\"%s\"]", field_key(wanted, key));
        if (field_expect(wanted, DOCUMENT_STRING, path, err) < 0)
            return err_same(err);
        label[out->n_selectors++] = (struct label){arena_copy(arena, wanted->key), wanted->text.at};
    }
    out->selector = label;
    return 0;
}

static int affinity_read(struct arena *arena, const struct document *pod, struct node_demands *out,
                         struct err *err)
{
    const struct document *required;
    const struct document *terms;
    char path[FIELD_PATH_BYTES];
    unsigned index = 0;

    if (selector_read(arena, pod, out, err) < 0 ||
        field_member(pod, REQUIRED, DOCUMENT_OBJECT, &required, err) < 0)
        return err_same(err);
    if (required == NULL)
        return 0;
    FIELD_PATH(path, "%s.nodeSelectorTerms", REQUIRED);
    if (field_member(pod, path, DOCUMENT_ARRAY, &terms, err) < 0)
        return err_same(err);
    if (terms == NULL || terms->count == 0)
        return err_set(err, ERR_INVALID, "%s: at least one term is required", path);
    document_each (term, terms) {
        FIELD_PATH(path, "%s.nodeSelectorTerms[%u]", REQUIRED, index++);
        if (check_term(term, path, err) < 0)
            return err_same(err);
    }
    take_terms(arena, terms, out);
    must(out->n_terms == index);
    return 0;
}

static bool affinity_holds(const struct fit_pod *pod, const struct fit_node *node)
{
    const struct label_view labels = {.ctx = node->labels, .find = label_find};

    must(node->name[0] != '\0');
    return node_demands_match(&pod->demands, node->name, &labels);
}

/* --- tolerations --- */

static bool is_effect(const char *effect)
{
    const enum taint_effect word = taint_effect_of(text_of(effect));

    must(effect != NULL);
    return word != EFFECT_ANY && word != EFFECT_OTHER;
}

/* Applies the API server's rules between the fields of a toleration. */
static int toleration_check(const struct document *toleration, const char *path, struct err *err)
{
    const char *key = "";
    const char *op = "";
    const char *value = "";
    const char *effect = "";

    must(path[0] != '\0');
    if (field_expect(toleration, DOCUMENT_OBJECT, path, err) < 0 ||
        field_string(toleration, path, "key", &key, err) < 0 ||
        field_string(toleration, path, "operator", &op, err) < 0 ||
        field_string(toleration, path, "value", &value, err) < 0 ||
        field_string(toleration, path, "effect", &effect, err) < 0)
        return err_same(err);
    const bool exists = strcmp(op, "Exists") == 0;
    const struct document *seconds = document_get(toleration, "tolerationSeconds");
    if (!exists && op[0] != '\0' && strcmp(op, "Equal") != 0)
        return err_set(err, ERR_INVALID,
                       "%.200s.operator: \"%.40s\" is not one of Exists and Equal", path,
                       document_shown(toleration, "operator"));
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
                       path, document_shown(toleration, "effect"));
    if (seconds != NULL && seconds->kind != DOCUMENT_NUMBER)
        return err_set(err, ERR_INVALID, "%.200s.tolerationSeconds: expected a number, found %s",
                       path, document_kind_name(seconds->kind));
    if (seconds != NULL && strcmp(effect, "NoExecute") != 0)
        return err_set(err, ERR_INVALID,
                       "%.200s.effect: it must be NoExecute where tolerationSeconds is set", path);
    return 0;
}

/* True if the pod tolerates this taint itself; otherwise the API server adds a toleration. */
static bool has_own(const struct document *tolerations, const char *taint)
{
    must(taint[0] != '\0');
    document_each (toleration, tolerations) {
        const char *key = document_str(toleration, "key");
        const char *effect = document_str(toleration, "effect");
        if ((key[0] == '\0' || strcmp(key, taint) == 0) &&
            (effect[0] == '\0' || strcmp(effect, "NoExecute") == 0))
            return true;
    }
    return false;
}

/* Borrows texts from the document. */
static struct toleration fit_toleration(const struct document *toleration)
{
    must(toleration != NULL);
    return (struct toleration){
        .key = document_str(toleration, "key"),
        .value = document_str(toleration, "value"),
        .op = toleration_operator_of(text_of(document_str(toleration, "operator"))),
        .effect = taint_effect_of(text_of(document_str(toleration, "effect"))),
    };
}

static int tolerations_read(struct arena *arena, const struct document *pod,
                            struct node_demands *out, struct err *err)
{
    static const char *const given[] = {"node.kubernetes.io/not-ready",
                                        "node.kubernetes.io/unreachable"};
    const struct document *tolerations;
    unsigned index = 0;

    if (field_member(pod, "spec.tolerations", DOCUMENT_ARRAY, &tolerations, err) < 0)
        return err_same(err);
    const size_t count = tolerations != NULL ? tolerations->count : 0;
    struct toleration *to = arena_array(arena, count + ARRAY_LEN(given), sizeof *to);
    document_each (toleration, tolerations) {
        char path[FIELD_PATH_BYTES];
        FIELD_PATH(path, "spec.tolerations[%u]", index++);
        if (toleration_check(toleration, path, err) < 0)
            return err_same(err);
        to[out->n_tolerations++] = fit_toleration(toleration);
    }
    must(index == count);
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        if (!has_own(tolerations, given[i]))
            to[out->n_tolerations++] =
                (struct toleration){given[i], "", TOLERATE_EXISTS, EFFECT_NO_EXECUTE};
    out->toleration = to;
    return 0;
}

bool fit_avoids(const struct fit_pod *pod, const struct fit_node *node)
{
    must(pod != NULL);
    for (uint32_t i = 0; i < node->taints.n_taints; i++) {
        const struct taint *taint = &node->taints.taint[i];
        if (taint->effect == EFFECT_PREFER_NO_SCHEDULE &&
            !node_demands_tolerate(&pod->demands, taint))
            return true;
    }
    return false;
}

/* --- pods and nodes --- */

int fit_pod_read(struct arena *arena, const struct document *pod, struct fit_pod *out,
                 struct err *err)
{
    must(pod != NULL);
    *out = (struct fit_pod){.requests = NULL};
    if (tolerations_read(arena, pod, &out->demands, err) < 0 ||
        affinity_read(arena, pod, &out->demands, err) < 0)
        return err_same(err);
    return amounts_requested(arena, pod, &out->requests, err);
}

static int taints_check(const struct document *taints, struct err *err)
{
    static const char *const field[] = {"key", "value", "effect"};
    const char *ignored;
    unsigned index = 0;

    document_each (taint, taints) {
        char path[FIELD_PATH_BYTES];
        FIELD_PATH(path, "spec.taints[%u]", index++);
        if (field_expect(taint, DOCUMENT_OBJECT, path, err) < 0)
            return err_same(err);
        for (size_t i = 0; i < ARRAY_LEN(field); i++)
            if (field_string(taint, path, field[i], &ignored, err) < 0)
                return err_same(err);
    }
    must(taints == NULL || index == taints->count);
    return 0;
}

/* Copies texts, too, unlike document_copy(), because the page with the node is freed. */
static struct document *fit_keep(struct arena *arena, const struct document *document)
{
    if (document == NULL)
        return NULL;
    struct document *kept = document_new(arena, document->kind);
    kept->key = (struct text){arena_copy(arena, document->key), document->key.len};
    kept->text = (struct text){arena_copy(arena, document->text), document->text.len};
    document_each (child, document)
        document_append(kept, fit_keep(arena, child));
    must(kept->count == document->count);
    return kept;
}

/* Copies the texts. */
static void take_taints(struct arena *arena, const struct document *taints, struct node_taints *out)
{
    struct taint *to = arena_array(arena, taints != NULL ? taints->count : 0, sizeof *to);

    must(out->n_taints == 0);
    document_each (taint, taints)
        to[out->n_taints++] =
            (struct taint){arena_copy(arena, text_of(document_str(taint, "key"))),
                           arena_copy(arena, text_of(document_str(taint, "value"))),
                           taint_effect_of(text_of(document_str(taint, "effect")))};
    out->taint = to;
}

/* True for a condition from which the node controller makes a taint. */
static bool says_not_ready(const struct document *node)
{
    bool not_ready = false;

    must(node != NULL);
    document_each (condition, document_at(node, "status.conditions"))
        if (strcmp(document_str(condition, "type"), "Ready") == 0)
            not_ready = strcmp(document_str(condition, "status"), "True") != 0;
    return not_ready;
}

/* used always contains "pods", which each check reads. */
int fit_node_read(struct arena *arena, const struct document *node, struct fit_node *out,
                  struct err *err)
{
    const struct document *labels;
    const struct document *taints;
    const struct document *cordon;
    const struct document *allocatable;
    const char *name = document_str(node, "metadata.name");

    *out = (struct fit_node){.name = ""};
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "metadata.name: a name is required");
    if (field_member(node, "metadata.labels", DOCUMENT_OBJECT, &labels, err) < 0 ||
        field_member(node, "spec.unschedulable", DOCUMENT_BOOL, &cordon, err) < 0 ||
        field_member(node, "spec.taints", DOCUMENT_ARRAY, &taints, err) < 0 ||
        field_member(node, "status.allocatable", DOCUMENT_OBJECT, &allocatable, err) < 0 ||
        taints_check(taints, err) < 0 ||
        amounts_read(arena, allocatable, "status.allocatable", &out->allocatable, err) < 0)
        return err_same(err);
    out->name = arena_copy(arena, text_of(name));
    out->taints.unschedulable = cordon != NULL && text_is(cordon->text, "true");
    out->taints.not_ready = says_not_ready(node);
    take_taints(arena, taints, &out->taints);
    out->labels = fit_keep(arena, labels);
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
    const struct amount *room = amounts_find(node->allocatable, resource);

    must(wanted >= 0);
    if (room == NULL)
        return amount_is_basic(resource) || wanted == 0;
    const int64_t used = amounts_value(node->used, resource);
    return used <= room->value && wanted <= room->value - used;
}

static void resource_check(const struct fit_node *node, const struct amount *wanted,
                           struct strbuf *why)
{
    must(node->name[0] != '\0');
    if (wanted != NULL && wanted->value > 0 && !has_left(node, wanted->resource, wanted->value))
        fit_lacks(why, "Insufficient ", wanted->resource);
}

/* Appends all lacking resources in kube-scheduler's order: the basic ones first. */
static void resources_check(const struct fit_pod *pod, const struct fit_node *node,
                            const char *managed, struct strbuf *why)
{
    static const char *const first[] = {"cpu", "memory", "ephemeral-storage"};

    must(why->len == 0);
    if (!has_left(node, "pods", 1))
        fit_lacks(why, "Too many pods", "");
    for (size_t i = 0; i < ARRAY_LEN(first); i++)
        resource_check(node, amounts_find(pod->requests, first[i]), why);
    for (const struct amount *at = pod->requests; at != NULL; at = at->next)
        if (!amount_is_basic(at->resource) && amount_counts(at->resource) &&
            strcmp(at->resource, managed) != 0)
            resource_check(node, at, why);
}

bool fit_check(const struct fit_pod *pod, const struct fit_node *node, const char *managed,
               struct strbuf *why)
{
    must(managed[0] != '\0');
    const struct node_taints cordon = {.unschedulable = node->taints.unschedulable};
    struct node_taints taints = node->taints;

    taints.unschedulable = false;
    strbuf_reset(why);
    if (taints_bar(&cordon, &pod->demands).why != USABLE)
        strbuf_str(why, "node(s) were unschedulable");
    else if (taints_bar(&taints, &pod->demands).why != USABLE)
        strbuf_str(why, "node(s) had untolerated taint(s)");
    else if (!affinity_holds(pod, node))
        strbuf_str(why, "node(s) didn't match Pod's node affinity/selector");
    else
        resources_check(pod, node, managed, why);
    return why->len == 0;
}
