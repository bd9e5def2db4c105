/*
 * Handles node events and lists from the informer, called by writer.c. A node is gone after a
 * deletion event or when a complete list lacks it: nodes_seen has the epoch of the last list or
 * event that showed a node. A node that is gone stays in the ledger while pods hold its GPUs.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/sync/node_digests.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

/*
 * Reconciles pods on this node that found too few GPUs, because there may be more now. Collects
 * them first, because reconciling one replaces the node. For pods that the pod cache could not
 * store, the informer lists all pods again, and once more after the next event of the Node.
 */
static bool place_the_unplaced(struct writer *writer, const char *name)
{
    const struct node *node = ledger_node(writer->ledger, text_of(name));
    const struct pod **pods;
    size_t count = 0;
    bool whole = true;

    if (node == NULL || node->n_allocations == 0)
        return true;
    pods = xcalloc(node->n_allocations, sizeof *pods);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation_facts *facts = &node->allocation[i]->facts;
        const struct pod_record *record =
            facts->presumed ? pod_cache_find(writer->app->pod_cache, facts->uid) : NULL;
        if (record != NULL && pod_record_seen(record) != NULL)
            pods[count++] = pod_record_seen(record);
        if (record != NULL && record->is_unstored) {
            atomic_store(&writer->app->watch.list_again, true);
            node_digests_forget(writer->app->node_digests, text_of(name));
        }
    }
    must(count <= node->n_allocations);
    for (size_t i = 0; i < count && whole; i++)
        whole = writer_reconcile(writer, pods[i]);
    xfree(pods);
    return whole;
}

/*
 * A Node without a creation time is younger than all others; of equal age the first by name is
 * older.
 */
static bool nodes_is_older(const struct writer *writer, const struct node_facts *facts,
                           const struct node *than)
{
    const int64_t age = writer_seen_number(&writer->node_list.ages, than->name);

    must(strcmp(facts->name, than->name->text) != 0);
    if (facts->created_ms == age)
        return strcmp(facts->name, than->name->text) < 0;
    return facts->created_ms != 0 && (age == 0 || facts->created_ms < age);
}

/*
 * The first Node that showed a UUID keeps it. With a new ledger that is unknown, and the order of
 * the list proves nothing, so the older Node keeps it: tenants cannot influence the age.
 */
static bool give_way(struct writer *writer, const struct node_facts *facts,
                     const struct inventory *inventory)
{
    bool whole = true;

    must(facts->name[0] != '\0');
    if (!writer_begins_empty(writer))
        return true;
    for (uint32_t i = 0; i < inventory->n_gpus && whole; i++) {
        const struct node *node = ledger_owner(writer->ledger, text_of(inventory->gpu[i].id));
        if (node == NULL || text_is(atom_text(node->name), facts->name) ||
            !nodes_is_older(writer, facts, node))
            continue;
        const struct command command = {.kind = COMMAND_NODE,
                                        .at_ms = writer->wall_ms,
                                        .node = node->name->text,
                                        .first_owner = inventory};
        whole = writer_run(writer, &command);
    }
    return whole;
}

/*
 * If the agent's list of GPUs is missing, labels do not replace it: pods would get GPUs by index.
 * An uninstalled agent does not count.
 */
static struct node_facts facts_shown(const struct writer *writer, const struct node_facts *facts)
{
    struct node_facts shown = *facts;

    must(facts->name[0] != '\0');
    if (agents_lost_gpus(writer->vouching.agents, facts))
        shown.gpus_error = "milligpu.io/gpus: missing, and the agent of this Node wrote it before";
    if (agent_is_uninstalled(facts))
        shown.agent = false;
    return shown;
}

bool writer_handle_node(struct writer *writer, const struct node_facts *facts)
{
    must(facts->name[0] != '\0');

    struct arena arena;
    struct inventory inventory;

    arena_init(&arena);
    const bool first_agent = agents_see_node(writer->vouching.agents, facts);
    const struct node_facts shown = facts_shown(writer, facts);
    inventory_parse(&shown, &writer->app->rules.inventory_rules, &arena, &inventory);
    const struct command command = {
        .kind = COMMAND_NODE,
        .at_ms = writer->wall_ms,
        .node = facts->name,
        .inventory = &inventory,
        .vouch = agents_check(writer->vouching.agents, text_of(facts->name))};
    /*
     * In order: a younger node gives up the UUIDs, this one takes them, UUIDs that this one gave up
     * pass on, and pods without a place get the GPUs.
     */
    const bool whole = give_way(writer, facts, &inventory) && writer_run(writer, &command) &&
                       writer_heal_duplicates(writer) && place_the_unplaced(writer, facts->name) &&
                       (!first_agent || writer_check_agents(writer));
    if (whole)
        writer_queue_advertise(writer, &inventory, facts);
    arena_done(&arena);
    writer_show_host(writer, facts);
    const struct node *node = ledger_node(writer->ledger, text_of(facts->name));
    if (node != NULL)
        writer_see_node(&writer->node_list.nodes_seen, node->name,
                        (int64_t)writer->node_list.node_epoch);
    /* The ledger is full (or safe mode holds): the next event of the Node tries again. */
    if (node == NULL && inventory.n_gpus > 0)
        node_digests_forget(writer->app->node_digests, text_of(facts->name));
    if (node != NULL && writer_begins_empty(writer) && facts->created_ms != 0)
        writer_see_node(&writer->node_list.ages, node->name, facts->created_ms);
    return whole;
}

bool writer_node_gone(struct writer *writer, const char *name)
{
    must(name[0] != '\0');

    const struct command command = {
        .kind = COMMAND_NODE_GONE, .at_ms = writer->wall_ms, .node = name};

    writer_unsee_node(&writer->node_list.nodes_seen, text_of(name));
    host_sums_hide(writer->host_sums, name);
    agents_node_gone(writer->vouching.agents, text_of(name));
    return writer_run(writer, &command);
}

bool writer_end_nodes(struct writer *writer)
{
    must(!writer->batch.lost);

    /* Collected first, because removals change the nodes of the loop. */
    const struct atom **lost = NULL;
    size_t count = 0;
    size_t capacity = 0;
    const struct node *node;
    bool whole = true;

    for (size_t at = 0; (node = ledger_next_node(writer->ledger, &at)) != NULL;) {
        const int64_t epoch = writer_seen_number(&writer->node_list.nodes_seen, node->name);
        if (epoch == (int64_t)writer->node_list.node_epoch || node->gone)
            continue;
        lost = xgrow(lost, count, &capacity, sizeof *lost);
        lost[count++] = node->name;
    }
    for (size_t i = 0; i < count && whole; i++)
        whole = writer_node_gone(writer, lost[i]->text);
    xfree(lost);
    agents_end_nodes(writer->vouching.agents); /* includes nodes unknown to the ledger */
    writer->node_list.nodes_ended = whole;
    return whole;
}
