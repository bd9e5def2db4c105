/*
 * odd - Nodes at the edges of what an API server accepts.
 *
 * Somebody writes into a Node what cannot be read or cannot be a GPU: then it shows none of its
 * GPUs, and nothing else happens. No pod there loses its share, nothing is granted there, and once
 * it can be read again everything is as before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_run.h"
#include "support/hostile.h"

/* --- what it shows --- */

static void hide(struct model_node *node)
{
    if (node->odd)
        return;
    node->odd = node->was_odd = true;
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        node->hidden[i] = node->is.gpu[i].missing;
        node->is.gpu[i].missing = true;
    }
}

void odd_forget(struct model_node *node)
{
    if (!node->odd)
        return;
    node->odd = false;
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        node->is.gpu[i].missing = node->hidden[i];
}

/* An unreadable list cordons all GPUs, and so does "all" in the list. */
static bool cordons(const json_t *value)
{
    const char *text = json_string_value(value);

    if (text == NULL || strlen(text) != json_string_length(value))
        return text != NULL;
    for (;;) {
        text += strspn(text, " ");
        const size_t bytes = strcspn(text, ",");
        size_t end = bytes;
        while (end > 0 && text[end - 1] == ' ')
            end--;
        if (end == 3 && strncmp(text, "all", 3) == 0)
            return true;
        if (text[bytes] == '\0')
            return false;
        text += bytes + 1;
    }
}

/* proper: the milligpu.io/gpus of a plain node; NULL: none. */
static void read_notes(struct model_node *node, const json_t *object, const char *proper,
                       bool created)
{
    const json_t *notes = json_object_get(json_object_get(object, "metadata"), "annotations");
    const json_t *gpus = json_object_get(notes, "milligpu.io/gpus");
    const json_t *cordon = json_object_get(notes, "milligpu.io/cordon");
    const char *said = json_string_value(gpus);

    if (gpus != NULL ? proper == NULL || said == NULL || strcmp(said, proper) != 0
                     : created && proper != NULL)
        hide(node);
    if (cordon != NULL)
        node->is.cordoned = cordons(cordon);
}

/* --- what is written --- */

static void odd_annotations(struct sim *sim, struct model_node *node, struct draw *draw)
{
    struct strbuf body;

    strbuf_init(&body);
    hostile_node_patch(&body, &(struct hostile_draw){.user = draw, .below = draw_any});
    json_t *object = json_loadb(body.data, body.len, JSON_ALLOW_NUL, NULL);
    if (object == NULL)
        sim_violation(sim, "an odd patch is no JSON");
    read_notes(node, object, NULL, false);
    strbuf_done(&body);
    core_change_node(sim, node, "", object);
}

static void odd_labels(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const struct {
        const char *key;
        const char *value;
    } label[] = {{"nvidia.com/mig.strategy", "mixed"},
                 {"nvidia.com/gpu.sharing-strategy", "time-slicing"},
                 {"nvidia.com/gpu.sharing-strategy", "mps"},
                 {"nvidia.com/gpu.replicas", "4"}};
    const uint32_t which = draw_below(draw, ARRAY_LEN(label));

    if (!node->by_agent) /* which is believed, and not they; before it there is no GPU */
        hide(node);
    core_change_node(
        sim, node, "",
        json_pack("{s:{s:{s:s}}}", "metadata", "labels", label[which].key, label[which].value));
}

static void odd_count(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const char *const count[] = {
        "0", "65", "a.b_c-d.0123456789", "99999999999999999999", "9223372036854775807", "", "0.5"};
    const uint32_t which = draw_below(draw, ARRAY_LEN(count) + 1);

    hide(node);
    core_change_node(sim, node, "",
                     json_pack("{s:{s:{s:s?}}}", "metadata", "labels", "nvidia.com/gpu.count",
                               which < ARRAY_LEN(count) ? count[which] : NULL));
}

static void odd_amount(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const char *const amount[] = {"0",
                                         "-1",
                                         "-9223372036854775808",
                                         "9223372036854775807",
                                         "99999999999999999999",
                                         "64001",
                                         "65k",
                                         "1e19",
                                         "1500m",
                                         "0.5"};
    const uint32_t which = draw_below(draw, ARRAY_LEN(amount) + 1);
    const char *value = which < ARRAY_LEN(amount) ? amount[which] : NULL;

    hide(node);
    core_change_node(sim, node, "/status",
                     json_pack("{s:{s:{s:s?},s:{s:s?}}}", "status", "capacity", "nvidia.com/vgpu",
                               value, "allocatable", "nvidia.com/vgpu", value));
}

/* Nothing that milligpud has to read. */
static void odd_elsewhere(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const char *const key[] = {"example.com/whatever", "node.alpha.kubernetes.io/ttl",
                                      "milligpu.io/of-a-later-version"};
    struct strbuf text;

    strbuf_init(&text);
    hostile_text(&text, 4096, &(struct hostile_draw){.user = draw, .below = draw_any});
    json_t *value = json_loadb(text.data, text.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    if (value == NULL)
        sim_violation(sim, "an odd text is no JSON");
    strbuf_done(&text);
    core_change_node(sim, node, "",
                     json_pack("{s:{s:{s:o}}}", "metadata", "annotations",
                               key[draw_below(draw, ARRAY_LEN(key))], value));
}

/* Created as odd as possible: true; false: what its source shows does not allow it. */
bool odd_create(struct sim *sim, struct model_node *node, struct draw *draw)
{
    const bool annotated = node->source == MODEL_ANNOTATED;
    char amount[16];
    struct strbuf body;

    if (node->source == MODEL_LABELLED || node->by_agent)
        return false;
    json_t *gpus = annotated ? core_gpus(node) : NULL;
    (void)snprintf(amount, sizeof amount, "%u", core_milli(node));
    const struct hostile_node is = {.name = node->name,
                                    .resource = "nvidia.com/vgpu",
                                    .amount = annotated ? NULL : amount,
                                    .gpus = json_string_value(gpus)};
    strbuf_init(&body);
    hostile_node(&body, &is, &(struct hostile_draw){.user = draw, .below = draw_any});
    json_t *object = json_loadb(body.data, body.len, JSON_ALLOW_NUL, NULL);
    if (object == NULL)
        sim_violation(sim, "an odd Node is no JSON");
    read_notes(node, object, is.gpus, true);
    if (sim->rules.ruled)
        json_object_set_new(json_object_get(object, "metadata"), "labels", core_pool(node));
    strbuf_done(&body);
    if (core_request_json(sim, "POST", "/api/v1/nodes", object) != 201)
        sim_violation(sim, "the fake API server does not take an odd Node");
    json_decref(gpus);
    sim_met("odd/created");
    return true;
}

/* --- and read again --- */

void odd_mend(struct sim *sim, struct model_node *node)
{
    const bool counted = node->source != MODEL_LABELLED;
    json_t *notes = json_object();

    odd_forget(node);
    json_t *labels = counted ? json_pack("{s:n}", "nvidia.com/gpu.count") : core_labels(node);
    json_object_set_new(labels, "nvidia.com/mig.strategy", json_null());
    json_object_set_new(labels, "nvidia.com/gpu.sharing-strategy", json_null());
    json_object_set_new(labels, "nvidia.com/gpu.replicas", json_null());
    if (!node->by_agent) /* the agent's words are as they were */
        json_object_set_new(notes, "milligpu.io/gpus",
                            node->source == MODEL_ANNOTATED ? core_gpus(node) : json_null());
    core_change_node(
        sim, node, "",
        json_pack("{s:{s:o,s:o}}", "metadata", "labels", labels, "annotations", notes));
    if (counted && !node->by_agent)
        core_change_node(sim, node, "/status", json_pack("{s:o}", "status", core_amounts(node)));
    model_node_is(sim, node, core_version(sim));
    sim_met("odd/mended");
    sim_say(sim, "node %s can be read again", node->name);
}

void odd_mend_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->model.n_nodes; i++)
        if (sim->model.node[i].odd)
            odd_mend(sim, &sim->model.node[i]);
}

static void odd_change(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const char *const word[] = {"annotations", "labels", "count", "amount", "elsewhere"};
    static void (*const way[])(struct sim *, struct model_node *, struct draw *) = {
        odd_annotations, odd_labels, odd_count, odd_amount, odd_elsewhere};
    uint32_t which = draw_below(draw, ARRAY_LEN(way));

    /* Anything that is not its source may hold any text and changes nothing. */
    if ((which == 2 && node->source != MODEL_LABELLED) ||
        (which == 3 && node->source != MODEL_COUNTED))
        which = 0;
    if (node->by_agent && which == 0)
        which = 1; /* an agent writes its annotations again as soon as there is news */
    way[which](sim, node, draw);
    model_node_is(sim, node, core_version(sim));
    sim_met("odd/%s", word[which]);
    sim_say(sim, "node %s says something odd (%s)%s", node->name, word[which],
            node->odd ? ", its GPUs cannot be read" : "");
}

void core_odd_node(struct sim *sim, struct draw *draw)
{
    struct model_node *node = &sim->model.node[draw_below(draw, sim->model.n_nodes)];

    if (!node->is.there)
        return;
    if (node->odd && draw_chance(draw, 600))
        odd_mend(sim, node);
    else
        odd_change(sim, node, draw);
}

/* --- all is quiet --- */

void oracle_odd_nodes(struct sim *sim, const struct snapshot *snapshot)
{
    for (uint32_t i = 0; i < sim->model.n_nodes; i++) {
        const struct model_node *node = &sim->model.node[i];
        if (!node->odd)
            continue;
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        if (shown == NULL || shown->gone)
            sim_violation(sim, "node %s cannot be read, and the ledger says it is gone",
                          node->name);
        if (shown->free_milli > 0)
            sim_violation(sim, "node %s cannot be read, and the ledger has %u milli free there",
                          node->name, shown->free_milli);
        sim_met(shown->n_allocations > 0 ? "odd/holds" : "odd/quiet");
    }
}
