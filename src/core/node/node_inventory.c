/* Builds nodes outside the ledger from Node objects in webhook bodies; HTTP threads. */
#include "milligpu/core/node/node.h"
#include "milligpu/core/rules/rulebook.h"

/* Unlike shown_gpu() of the ledger, keeps ids as shown, because no pod holds a GPU here. */
static struct gpu gpu_from(const struct gpu_facts *facts, const struct atom *node,
                           struct names *names)
{
    struct gpu gpu = {
        .id = names_intern(names, text_of(facts->id)),
        .model = names_intern(names, text_of(facts->model)),
        .milli = facts->milli,
        .mib = facts->mib,
        .index = (uint16_t)facts->index,
        .numa = (int16_t)facts->numa,
        .peers = facts->peers,
    };

    must(facts->milli > 0);
    if (facts->alias != NULL)
        gpu_set_alias(&gpu, node, text_of(facts->alias), names);
    if (!facts->healthy)
        gpu.flags |= GPU_UNHEALTHY;
    if (facts->cordoned)
        gpu.flags |= GPU_CORDONED;
    return gpu;
}

struct node *node_from_inventory(const struct inventory *inventory, const struct rulebook *book,
                                 struct names *names)
{
    struct gpu gpu[GPUS_PER_NODE_MAX];
    struct gpu_note note[GPUS_PER_NODE_MAX];
    const struct atom *name = names_intern(names, text_of(inventory->node));
    uint32_t notes = 0;

    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    must(inventory->node[0] != '\0');
    for (uint32_t i = 0; i < inventory->n_gpus; i++) {
        gpu[i] = gpu_from(&inventory->gpu[i], name, names);
        if (inventory->gpu[i].held != NULL || inventory->gpu[i].ill != NULL)
            note[notes++] =
                (struct gpu_note){gpu[i].id, inventory->gpu[i].held, inventory->gpu[i].ill};
    }
    const struct labels *labels = labels_new(inventory->label, inventory->n_labels, names);
    const struct taints *taints = taints_new(&inventory->taints);
    const struct node_build build = {
        .name = name,
        .uid = names_intern(names, text_of(inventory->uid)),
        .source = inventory->source,
        .problem = inventory->problem,
        .problem_text = names_intern(names, text_of(inventory->problem_text)),
        .agent = inventory->agent,
        .plugin = plugin_judged(&inventory->plugin, PLUGIN_NONE),
        .labels = labels,
        .taints = taints,
        .unusable = taints_close(taints != NULL ? &taints->facts : NULL, NULL),
        .rules = rulebook_of_node(book, labels),
        .n_gpus = inventory->n_gpus,
        .gpu = gpu,
        .n_notes = notes,
        .note = note,
    };
    struct node *node = node_new(&build);
    labels_unref(labels);
    taints_unref(taints);
    return node;
}

static bool find_label(const void *ctx, const char *key, struct text *out)
{
    const struct node *node = ctx;

    must(node->name != NULL);
    must(key != NULL);
    return key[0] != '\0' && labels_find(node->labels, key, out);
}

struct unusable_cause node_bar(const struct node *node, const struct node_demands *demands)
{
    const struct label_view labels = {.ctx = node, .find = find_label};

    must(node->name->len > 0);
    must(node->taints != NULL || node->unusable.why == USABLE);
    if (demands == NULL || demands->unreadable)
        return (struct unusable_cause){.why = UNUSABLE_UNKNOWN};
    const struct unusable_cause cause =
        taints_bar(node->taints != NULL ? &node->taints->facts : NULL, demands);
    if (cause.why != USABLE)
        return cause;
    const bool matches = node_demands_match(demands, node->name->text, &labels);
    return (struct unusable_cause){.why = matches ? USABLE : UNUSABLE_AFFINITY};
}

bool node_has_shares(const struct node *node)
{
    must(node->n_gpus == 0 || node->gpu != NULL);

    for (uint32_t i = 0; i < node->n_gpus; i++)
        if (node->gpu[i].charges > 0)
            return true;
    return node->unplaced_milli > 0;
}

bool node_is_idle(const struct node *node)
{
    uint32_t open = 0;

    if (node->unusable.why != USABLE || node_closed(node) != REASON_NONE || node_has_shares(node) ||
        node->held_gpus > 0)
        return false;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        open += gpu_closed(&node->gpu[i]) == REASON_NONE;
    must(open <= node->n_gpus);
    return open > 1;
}
