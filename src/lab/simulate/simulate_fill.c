/*
 * Fills the ledger at the beginning of a run, as in milligpud after it has listed nodes and pods.
 * Called by simulate_run.c. Bound pods are handled as in the writer's first list: by their
 * annotation, else adopted.
 */
#include "milligpu/core/ledger/reconcile.h"

#include "simulate.h"

/* The command can have no effect, since a pod can request 0. */
static void fill_do(struct ledger *ledger, const struct command *command)
{
    struct change change;
    const enum verdict verdict = ledger_decide(ledger, command, &change);

    must(verdict == VERDICT_OK || verdict == VERDICT_SAME);
    if (verdict != VERDICT_OK)
        return;
    ledger_apply(ledger, &change);
    change_done(&change);
}

/* Resolves duplicate UUIDs: each belongs to one node. */
static void fill_settle(struct ledger *ledger)
{
    const struct node *node;

    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        node = ledger_stale_duplicate(ledger);
        if (node == NULL)
            return;
        const struct command again = {.kind = COMMAND_NODE, .at_ms = 1, .node = node->name->text};
        fill_do(ledger, &again);
    }
}

static void fill_node(struct ledger *ledger, const struct world_node *node)
{
    const struct command command = {
        .kind = COMMAND_NODE, .at_ms = 1, .inventory = node->inventory, .vouch = node->vouch};

    fill_do(ledger, &command);
    fill_settle(ledger);
    must(ledger_set_host(ledger, text_of(node->name), &node->host));
}

static void fill_pod(struct ledger *ledger, const struct pod *pod, struct arena *arena)
{
    static const struct request_rules rules = {
        .resource = SIMULATE_RESOURCE, .min_milli = 1, .step_milli = 1};
    struct command command[RECONCILE_MAX];
    struct refusal refusal;
    struct request request;

    must(pod->node[0] != '\0');
    const enum request_verdict verdict =
        request_parse_bound(pod, &rules, arena, &request, &refusal);
    const bool asks = verdict == REQUEST_OK || verdict == REQUEST_WHOLE;
    const size_t count = reconcile_pod(ledger, pod, asks ? &request : NULL, 1, command);
    for (size_t i = 0; i < count; i++)
        fill_do(ledger, &command[i]);
    fill_settle(ledger);
    arena_reset(arena);
}

uint64_t simulate_node_idle(const struct node *node)
{
    const uint64_t whole = (uint64_t)node->held_gpus * GPU_MILLI;
    uint64_t idle = 0;

    for (uint32_t i = 0; i < node->n_gpus; i++)
        if ((node->gpu[i].flags & GPU_ABSENT) == 0)
            idle += gpu_free(&node->gpu[i]);
    must(idle <= (uint64_t)GPU_MILLI * node->n_gpus);
    return idle > whole ? idle - whole : 0;
}

uint64_t simulate_fill(struct ledger *ledger, const struct world *world, struct arena *arena)
{
    uint64_t idle = 0;
    size_t at = 0;

    for (uint32_t i = 0; i < world->n_nodes; i++)
        fill_node(ledger, &world->node[i]);
    for (uint32_t i = 0; i < world->n_held; i++)
        fill_pod(ledger, world->held[i], arena);
    for (const struct node *node = ledger_next_node(ledger, &at); node != NULL;
         node = ledger_next_node(ledger, &at))
        idle += simulate_node_idle(node);
    must(idle <= world->gpu_milli);
    return world->gpu_milli - idle;
}
