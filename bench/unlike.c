#include "unlike.h"

#include <stdio.h>

#include "measure.h"

const struct unlike_fill unlike_fills[UNLIKE_FILLS] = {
    {"empty", 900, 100, false, false},      {"half", 300, 600, false, false},
    {"any", 0, 1000, false, false},         {"tight", 300, 700, false, true},
    {"empty_alike", 900, 100, true, false}, {"half_alike", 300, 600, true, false},
};

static const char *const models[] = {"A100-SXM4-80GB", "A100-SXM4-40GB", "H100-80GB-HBM3", "L40S"};

static void set_gpu(struct unlike *unlike, uint32_t node, uint16_t index, uint32_t model,
                    struct gpu *out)
{
    char id[32];

    (void)snprintf(id, sizeof id, "GPU-%05u-%u", node, index);
    *out = (struct gpu){
        .id = names_intern(ledger_names(unlike->ledger), text_of(id)),
        .model =
            names_intern(ledger_names(unlike->ledger), text_of(models[model % ARRAY_LEN(models)])),
        .milli = GPU_MILLI,
        .mib = 81920,
        .index = index,
        .numa = -1,
    };
}

/* One pod with a share of a different size on each GPU. */
static void add_pod(struct unlike *unlike, const struct unlike_fill *fill, const struct atom *node,
                    const struct gpu *gpu, uint64_t *seed)
{
    struct share share[UNLIKE_GPUS];
    struct err err;

    for (uint16_t i = 0; i < UNLIKE_GPUS; i++) {
        const uint32_t free = fill->from + draw(seed, fill->range);
        const uint32_t milli = free < GPU_MILLI ? GPU_MILLI - free : 1;
        const uint32_t more = fill->tight ? draw(seed, free + 1) : 0;
        share[i] = (struct share){
            .container = "c", .gpu = gpu[i].id, .milli = milli, .mib = 81 * (milli + more)};
    }
    const struct allocation_facts facts = {.uid = node->text,
                                           .namespace = "default",
                                           .name = "p",
                                           .node = node,
                                           .node_uid = node,
                                           .state = STATE_BOUND,
                                           .origin = ORIGIN_ADOPTED,
                                           .n_shares = UNLIKE_GPUS,
                                           .share = share};
    must(ledger_restore(unlike->ledger, &facts, &err) == 0);
}

static void add_node(struct unlike *unlike, const struct unlike_fill *fill, uint32_t number,
                     uint64_t *seed)
{
    struct names *names = ledger_names(unlike->ledger);
    struct err err;
    char name[32];
    struct gpu gpu[UNLIKE_GPUS];

    (void)snprintf(name, sizeof name, "node-%05u", number);
    const struct atom *node = names_intern(names, text_of(name));
    for (uint16_t i = 0; i < UNLIKE_GPUS; i++)
        set_gpu(unlike, number, i, fill->alike ? number : number + i, &gpu[i]);
    const struct node_build build = {.name = node,
                                     .uid = names_intern(names, text_of(name)),
                                     .problem_text = names_intern(names, TEXT("")),
                                     .source = SOURCE_ANNOTATION,
                                     .n_gpus = UNLIKE_GPUS,
                                     .gpu = gpu};
    must(ledger_restore_node(unlike->ledger, &build, &err) == 0);
    add_pod(unlike, fill, node, gpu, seed);
    unlike->name[number] = atom_text(node);
}

void unlike_init(struct unlike *unlike, const struct unlike_fill *fill, uint32_t nodes)
{
    uint64_t seed = 42;

    must(nodes <= UNLIKE_NODES_MAX);
    unlike->ledger = ledger_new();
    for (uint32_t i = 0; i < nodes; i++)
        add_node(unlike, fill, i, &seed);
    unlike->snapshot = ledger_publish(unlike->ledger, NULL, 0);
}

void unlike_publish(struct unlike *unlike)
{
    snapshot_unref(unlike->snapshot);
    unlike->snapshot = ledger_publish(unlike->ledger, NULL, 0);
}

void unlike_done(struct unlike *unlike)
{
    snapshot_unref(unlike->snapshot);
    ledger_free(unlike->ledger);
}
