/*
 * Reads the fields of kube-scheduler's filters: taints of a Node; tolerations, nodeSelector and
 * required node affinity of a Pod. Called by wire_kube_node.c and wire_kube_pod.c. Unreadable
 * values are recorded, and the rest is still read: the pod is then never shown as allowed on the
 * node (node_filter.h).
 */
#include <string.h>

#include "kube_read.h"

/* The API server limits the bytes of an object, not its numbers of elements. */
enum { ANY_COUNT = UINT32_MAX / 2 };

/* Reads each element by itself; false if one of them, or the list, is unreadable. */
static bool read_each(struct json_reader *in, void *user,
                      bool (*read)(void *user, struct json_reader *in))
{
    const struct json_reader_mark whole = json_reader_mark(in);
    const char *why = NULL;

    must(read != NULL);
    if (json_read_null(in))
        return true;
    if (!json_read_array(in)) {
        pass_over(in, whole, &why);
        return false;
    }
    bool all = true;
    while (json_read_element(in)) {
        const struct json_reader_mark mark = json_reader_mark(in);
        if (read(user, in) && !in->failed)
            continue;
        all = false;
        if (in->failed)
            pass_over(in, mark, &why);
    }
    return all && !in->failed;
}

/* Reads an object of strings into field[], one per key; absent keys leave theirs unchanged. */
static bool read_strings(struct json_reader *in, struct json_read_fields *fields,
                         const char **field)
{
    int key;

    must(field != NULL);
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, fields, &key))
        (void)json_read_cstring(in, &field[key]); /* the error sticks */
    return !in->failed;
}

/* --- nodes --- */

static const char *const taint_keys[] = {"key", "value", "effect"};

static bool read_taint(void *user, struct json_reader *in)
{
    struct json_read_fields fields = JSON_FIELDS(taint_keys);
    struct node_taints *taints = user;
    const char *field[] = {"", "", ""};

    static_assert(ARRAY_LEN(taint_keys) == ARRAY_LEN(field), "each key has its place");
    if (!read_strings(in, &fields, field))
        return false;
    struct taint *grown =
        arena_grow(in->arena, taints->taint, taints->n_taints, ANY_COUNT, sizeof *grown);
    grown[taints->n_taints++] =
        (struct taint){field[0], field[1], taint_effect_of(text_of(field[2]))};
    taints->taint = grown;
    return true;
}

void read_taints(struct json_reader *in, struct node_taints *out)
{
    must(out != NULL);
    if (!read_each(in, out, read_taint))
        out->unreadable = true;
}

static const char *const ready_keys[] = {"type", "status"};

static bool read_ready(void *user, struct json_reader *in)
{
    struct json_read_fields fields = JSON_FIELDS(ready_keys);
    struct text word[] = {TEXT(""), TEXT("")};
    struct node_taints *taints = user;
    int key;

    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key))
        (void)json_read_string(in, &word[key]); /* the error sticks */
    if (!in->failed && text_is(word[0], "Ready"))
        taints->not_ready = !text_is(word[1], "True");
    return !in->failed;
}

/* An unreadable condition is ignored: the node controller's taints show the same. */
void read_node_conditions(struct json_reader *in, struct node_taints *out)
{
    must(out != NULL);
    (void)read_each(in, out, read_ready);
}

/* --- pods --- */

static const char *const toleration_keys[] = {"key", "value", "operator", "effect"};

static bool read_toleration(void *user, struct json_reader *in)
{
    struct json_read_fields fields = JSON_FIELDS(toleration_keys);
    struct node_demands *demands = user;
    const char *field[] = {"", "", "", ""};

    static_assert(ARRAY_LEN(toleration_keys) == ARRAY_LEN(field), "each key has its place");
    if (!read_strings(in, &fields, field))
        return false;
    struct toleration *grown = arena_grow(in->arena, demands->toleration, demands->n_tolerations,
                                          ANY_COUNT, sizeof *grown);
    grown[demands->n_tolerations++] = (struct toleration){
        .key = field[0],
        .value = field[1],
        .op = toleration_operator_of(text_of(field[2])),
        .effect = taint_effect_of(text_of(field[3])),
    };
    demands->toleration = grown;
    return true;
}

/* An unreadable toleration tolerates nothing. */
void read_tolerations(struct json_reader *in, struct node_demands *out)
{
    must(out != NULL);
    if (!read_each(in, out, read_toleration))
        out->unreadable = true;
}

static bool read_selector(void *user, struct json_reader *in, struct text key)
{
    struct node_demands *demands = user;
    const char *value = NULL;

    must(demands != NULL);
    if (!json_read_cstring(in, &value))
        return false;
    struct label *grown =
        arena_grow(in->arena, demands->selector, demands->n_selectors, ANY_COUNT, sizeof *grown);
    grown[demands->n_selectors++] = (struct label){arena_copy(in->arena, key), value};
    demands->selector = grown;
    return true;
}

void read_node_selector(struct json_reader *in, struct node_demands *out)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;

    must(out != NULL);
    if (read_map(in, out, read_selector))
        return;
    out->unreadable = true;
    pass_over(in, mark, &why);
}

struct rule_list {
    uint32_t count;
    struct node_rule *rule;
};

struct value_list {
    uint32_t count;
    const char **value;
};

static bool read_value(void *user, struct json_reader *in)
{
    struct value_list *list = user;
    const char *value = NULL;

    if (!json_read_cstring(in, &value))
        return false;
    list->value = arena_grow(in->arena, list->value, list->count, ANY_COUNT, sizeof *list->value);
    list->value[list->count++] = value;
    must(list->count > 0);
    return true;
}

static const char *const rule_keys[] = {"key", "operator", "values"};

static bool read_rule(void *user, struct json_reader *in)
{
    struct json_read_fields fields = JSON_FIELDS(rule_keys);
    struct rule_list *list = user;
    struct value_list values = {0};
    struct text op = TEXT("");
    const char *label = "";
    bool whole = true;
    int key;

    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_cstring(in, &label); /* errors stick */
        else if (key == 1)
            (void)json_read_string(in, &op);
        else
            whole = read_each(in, &values, read_value);
    }
    if (in->failed || !whole || label[0] == '\0')
        return false;
    list->rule = arena_grow(in->arena, list->rule, list->count, ANY_COUNT, sizeof *list->rule);
    list->rule[list->count++] =
        (struct node_rule){label, node_rule_operator_of(op), values.count, values.value};
    return true;
}

static const char *const term_keys[] = {"matchExpressions", "matchFields"};

static bool read_term(void *user, struct json_reader *in)
{
    struct json_read_fields fields = JSON_FIELDS(term_keys);
    struct node_demands *demands = user;
    struct rule_list list[ARRAY_LEN(term_keys)] = {{0}};
    bool whole = true;
    int key;

    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key))
        whole = read_each(in, &list[key], read_rule) && whole;
    if (in->failed)
        return false;
    struct node_term *grown =
        arena_grow(in->arena, demands->term, demands->n_terms, ANY_COUNT, sizeof *grown);
    grown[demands->n_terms++] =
        (struct node_term){list[0].count, list[0].rule, list[1].count, list[1].rule};
    demands->term = grown;
    return whole;
}

/* Path to the terms, outermost member first. */
static const char *const affinity_path[] = {
    "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"};

/* Descends into one member of the path; other members are not requirements. */
static bool read_affinity_at(struct json_reader *in, struct node_demands *out, size_t depth)
{
    struct json_read_fields fields = {.key = &affinity_path[depth], .n_keys = 1};
    bool whole = true;
    int key;

    must(depth < ARRAY_LEN(affinity_path));
    if (!json_read_object(in))
        return false;
    /* If required... is present, one of its terms has to match, even if it has none. */
    out->affine = out->affine || depth == 2;
    while (json_read_field(in, &fields, &key))
        whole =
            (depth < 2 ? read_affinity_at(in, out, depth + 1) : read_each(in, out, read_term)) &&
            whole;
    return whole && !in->failed;
}

void read_affinity(struct json_reader *in, struct node_demands *out)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;

    must(!out->affine);
    if (read_affinity_at(in, out, 0))
        return;
    out->unreadable = true;
    if (in->failed)
        pass_over(in, mark, &why);
}
