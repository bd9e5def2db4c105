/*
 * Any body of a webhook is read or refused. What is read is within limits.h and can be answered,
 * and jansson finds the same names, victims and ids in the same bytes.
 */
#include <string.h>

#include "milligpu/wire/extender/wire_extender.h"

#include "support.h"

static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};

static void refused(const struct err *err)
{
    must(strncmp(err->text, "body", strlen("body")) == 0);
}

static bool same(json_t *string, struct text text)
{
    return text_eq(text, (struct text){json_string_value(string), json_string_length(string)});
}

static void same_names(const struct extender_args *args, json_t *root)
{
    json_t *names = second_field(root, "NodeNames");
    json_t *nodes = second_at(root, "Nodes.items");
    must(second_says(second_at(root, "Pod.metadata.uid"), args->pod.uid));
    must(second_says(second_at(root, "Pod.metadata.name"), args->pod.name));
    must(json_array_size(args->full_nodes ? nodes : names) == args->n_names);
    for (uint32_t i = 0; i < args->n_names; i++)
        must(same(args->full_nodes ? second_at(json_array_get(nodes, i), "metadata.name")
                                   : json_array_get(names, i),
                  args->name[i]));
}

/* The chosen names come out unchanged, as valid JSON. */
static void answer_filter(const struct extender_args *args, const uint32_t *choice,
                          struct strbuf *out)
{
    const struct extender_filter_result result = {.chosen = args->n_names, .choice = choice};
    strbuf_reset(out);
    extender_filter_encode(out, args, &result);
    const struct second second = second_read((struct text){out->data, out->len});
    must(!second.refused);
    for (uint32_t i = 0; i < args->n_names && second.value != NULL; i++)
        must(same(json_array_get(second_field(second.value, "NodeNames"), i),
                  args->name[choice[i]]));
    json_decref(second.value);
}

static void answer_scores(const struct extender_args *args, const uint8_t *score,
                          struct strbuf *out)
{
    strbuf_reset(out);
    extender_priorities_encode(out, args, score);
    const struct second second = second_read((struct text){out->data, out->len});
    must(json_array_size(second.value) == args->n_names);
    for (uint32_t i = 0; i < args->n_names; i++) {
        json_t *entry = json_array_get(second.value, i);
        must(same(json_object_get(entry, "Host"), args->name[i]));
        must(json_integer_value(json_object_get(entry, "Score")) == score[i]);
    }
    json_decref(second.value);
}

static void read_args(struct text body, json_t *root, struct arena *arena, struct strbuf *out)
{
    struct extender_args args;
    struct err err;
    if (extender_args_decode(body, &rules, NULL, arena, &args, &err) != 0) {
        refused(&err);
        return;
    }
    uint32_t *choice = arena_array(arena, args.n_names, sizeof *choice);
    uint8_t *score = arena_array(arena, args.n_names, sizeof *score);
    must(args.n_names <= NODES_MAX && args.pod.uid[0] != '\0' && args.pod.name[0] != '\0');
    for (uint32_t i = 0; i < args.n_names; i++) {
        must(args.name[i].len > 0 && args.name[i].len <= NAME_BYTES_MAX);
        must(args.hash[i] == text_hash(args.name[i]));
        for (uint32_t j = 0; j < i; j++)
            must(!text_eq(args.name[i], args.name[j]));
        choice[i] = args.n_names - 1 - i;
        score[i] = (uint8_t)(args.hash[i] % 11);
    }
    if (root != NULL)
        same_names(&args, root);
    answer_filter(&args, choice, out);
    answer_scores(&args, score, out);
}

static void same_victims(const struct extender_preempt *args, json_t *root)
{
    json_t *whole = second_field(root, "NodeNameToVictims");
    json_t *nodes = whole != NULL ? whole : second_field(root, "NodeNameToMetaVictims");
    must(json_object_size(nodes) == args->n_nodes);
    for (uint32_t i = 0; i < args->n_nodes; i++) {
        const struct extender_victims *victims = &args->node[i];
        json_t *theirs = json_object_getn(nodes, victims->node.at, victims->node.len);
        json_t *pods = second_field(theirs, "Pods");
        must(json_array_size(pods) == victims->n_uids);
        for (uint32_t j = 0; j < victims->n_uids; j++)
            must(same(second_at(json_array_get(pods, j), whole != NULL ? "metadata.uid" : "UID"),
                      victims->uid[j]));
    }
}

static void read_preempt(struct text body, json_t *root, struct arena *arena, struct strbuf *out)
{
    struct extender_preempt args;
    struct err err;
    if (extender_preempt_decode(body, &rules, arena, &args, &err) != 0) {
        refused(&err);
        return;
    }
    bool *keep = arena_array(arena, args.n_nodes, sizeof *keep);
    for (uint32_t i = 0; i < args.n_nodes; i++)
        keep[i] = true;
    if (root != NULL)
        same_victims(&args, root);
    strbuf_reset(out);
    extender_preempt_encode(out, &args, keep);
    const struct second second = second_read((struct text){out->data, out->len});
    must(!second.refused);
    must(second.value == NULL ||
         json_object_size(second_field(second.value, "NodeNameToMetaVictims")) == args.n_nodes);
    json_decref(second.value);
}

static void read_bind(struct text body, json_t *root, struct arena *arena)
{
    struct extender_bind bind;
    struct err err;
    if (extender_bind_decode(body, arena, &bind, &err) != 0) {
        refused(&err);
        return;
    }
    must(bind.uid[0] != '\0' && strlen(bind.uid) <= UID_BYTES_MAX);
    must(bind.node[0] != '\0' && strlen(bind.node) <= NAME_BYTES_MAX);
    must(bind.pod[0] != '\0' && strlen(bind.pod) <= NAME_BYTES_MAX);
    if (root == NULL)
        return;
    must(second_says(second_field(root, "PodUID"), bind.uid));
    must(second_says(second_field(root, "PodName"), bind.pod));
    must(second_says(second_field(root, "PodNamespace"), bind.namespace));
    must(second_says(second_field(root, "Node"), bind.node));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text body = {size > 0 ? (const char *)data : "", size};
    const struct second second = second_read(body);
    const size_t before = heap_bytes();
    SCOPED_ARENA(arena);
    SCOPED_STRBUF(out);
    read_args(body, second.value, &arena, &out);
    read_preempt(body, second.value, &arena, &out);
    read_bind(body, second.value, &arena);
    heap_is_bounded(before, size);
    json_decref(second.value);
    return 0;
}
