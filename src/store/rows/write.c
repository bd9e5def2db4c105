/*
 * Writes one change: the rows of the node, the allocation with its shares and charges, and the
 * journal entry. Called by store.c in the writer, under the SAVEPOINT of the change, so that a
 * failure undoes all of it. The order follows the triggers of the schema: GPUs before the charges
 * on them, and removals last. Only changed rows are written. Each statement must change exactly one
 * row: no row means that database and ledger in memory disagree, and the change is refused.
 */
#include <string.h>

#include "store/store_internal.h"

/* Refuses the change because database and ledger in memory disagree. */
static int write_disagree(struct err *err, const char *what, const char *name)
{
    must(what[0] != '\0');
    return err_set(err, ERR_CONFLICT,
                   "the database knows %s %s otherwise than the ledger in memory", what, name);
}

static int run_one(struct bind *bind, const char *what, const char *name, struct err *err)
{
    int changed = 0;

    const int failed = bind_run(bind, &changed, err);
    if (failed != 0)
        return err_wrap(err, "%s %s", what, name);
    must(changed <= 1);
    return changed == 1 ? 0 : write_disagree(err, what, name);
}

/* Compares atoms by address, because they are interned. */
static bool same_node_row(const struct node *a, const struct node *b)
{
    must(a->name == b->name);
    return a->uid == b->uid && a->source == b->source && a->problem == b->problem &&
           a->problem_text == b->problem_text && a->gone == b->gone && a->since_ms == b->since_ms;
}

/* Stored fields only: those counted from charges change with each allocation. */
static bool same_gpu_row(const struct gpu *a, const struct gpu *b)
{
    return a->id == b->id && gpu_alias_same(a, b) && a->model == b->model && a->milli == b->milli &&
           a->mib == b->mib && a->index == b->index && a->numa == b->numa && a->peers == b->peers &&
           ((a->flags ^ b->flags) & (unsigned)GPU_FLAGS_KEPT) == 0;
}

static bool same_rows(const struct node *a, const struct node *b)
{
    if (a == NULL || b == NULL || !same_node_row(a, b) || a->n_gpus != b->n_gpus ||
        a->n_owned_ids != b->n_owned_ids)
        return false;
    for (uint32_t i = 0; i < a->n_gpus; i++)
        if (!same_gpu_row(&a->gpu[i], &b->gpu[i]))
            return false;
    for (uint32_t i = 0; i < a->n_owned_ids; i++)
        if (a->owned_id[i] != b->owned_id[i])
            return false;
    return true;
}

static const struct gpu *gpu_of(const struct node *node, const struct atom *id)
{
    must(id != NULL);
    for (uint32_t i = 0; node != NULL && i < node->n_gpus; i++)
        if (node->gpu[i].id == id)
            return &node->gpu[i];
    return NULL;
}

/* Both statements take the key last, so the order of parameters is the same. */
static int put_node(struct store *store, const struct node *before, const struct node *after,
                    struct err *err)
{
    if (before != NULL && same_node_row(before, after))
        return 0;
    must(before == NULL || before->name == after->name);

    struct bind bind = bind_start(store->stmt[before == NULL ? ST_NODE_ADD : ST_NODE_SET]);
    bind_text(&bind, after->uid->text);
    bind_text(&bind, inventory_source_name(after->source));
    bind_text(&bind, inventory_problem_name(after->problem));
    bind_text(&bind, after->problem_text->text);
    bind_number(&bind, after->gone);
    bind_number(&bind, after->since_ms);
    bind_text(&bind, after->name->text);
    return run_one(&bind, "node", after->name->text, err);
}

static int write_put_gpu(struct store *store, const struct node *node, const struct gpu *before,
                         const struct gpu *after, struct err *err)
{
    UNSET char alias[GPU_ALIAS_BYTES];

    if (before != NULL && same_gpu_row(before, after))
        return 0;
    must(after->milli > 0);

    struct bind bind = bind_start(store->stmt[before == NULL ? ST_GPU_ADD : ST_GPU_SET]);
    bind_text(&bind, gpu_alias(after, node->name, alias));
    bind_text(&bind, after->model->text);
    bind_number(&bind, after->milli);
    bind_number(&bind, after->mib);
    bind_number(&bind, after->index);
    bind_number(&bind, after->numa);
    bind_number(&bind, after->flags & (unsigned)GPU_FLAGS_KEPT);
    bind_number(&bind, (int64_t)after->peers);
    bind_text(&bind, node->name->text);
    bind_text(&bind, after->id->text);
    return run_one(&bind, "GPU", after->id->text, err);
}

static bool write_owned_ids(const struct node *node, const struct atom *id)
{
    must(id != NULL);
    for (uint32_t i = 0; node != NULL && i < node->n_owned_ids; i++)
        if (node->owned_id[i] == id)
            return true;
    return false;
}

/* Runs a statement on table claim for each owned id of `of` that `but` does not have. */
static int each_owned_id(struct store *store, enum statement statement, const struct node *node,
                         const struct node *but, struct err *err)
{
    int failed = 0;

    must(node->n_owned_ids <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; failed == 0 && i < node->n_owned_ids; i++) {
        if (write_owned_ids(but, node->owned_id[i]))
            continue;
        struct bind bind = bind_start(store->stmt[statement]);
        bind_text(&bind, node->name->text);
        bind_text(&bind, node->owned_id[i]->text);
        failed = run_one(&bind, "the claim of GPU", node->owned_id[i]->text, err);
    }
    return failed;
}

/* Call before the allocation is written: a charge needs the row of its GPU. */
static int put_inventory(struct store *store, const struct node *before, const struct node *after,
                         struct err *err)
{
    must(after != NULL);

    int failed = put_node(store, before, after, err);
    for (uint32_t i = 0; failed == 0 && i < after->n_gpus; i++)
        failed = write_put_gpu(store, after, gpu_of(before, after->gpu[i].id), &after->gpu[i], err);
    if (failed == 0 && before != NULL)
        failed = each_owned_id(store, ST_OWNED_ID_DROP, before, after, err);
    if (failed == 0)
        failed = each_owned_id(store, ST_OWNED_ID_ADD, after, before, err);
    return failed;
}

/* Call after the allocation is written: a charged GPU cannot be removed. */
static int drop_inventory(struct store *store, const struct node *before, const struct node *after,
                          struct err *err)
{
    int failed = 0;

    must(before != NULL);
    for (uint32_t i = 0; failed == 0 && i < before->n_gpus; i++) {
        const struct atom *id = before->gpu[i].id;
        if (gpu_of(after, id) != NULL)
            continue;
        struct bind bind = bind_start(store->stmt[ST_GPU_DROP]);
        bind_text(&bind, before->name->text);
        bind_text(&bind, id->text);
        failed = run_one(&bind, "GPU", id->text, err);
    }
    if (failed != 0 || after != NULL)
        return failed;
    struct bind bind = bind_start(store->stmt[ST_NODE_DROP]);
    bind_text(&bind, before->name->text);
    return run_one(&bind, "node", before->name->text, err);
}

static int add_shares(struct store *store, int64_t id, const struct allocation *allocation,
                      struct err *err)
{
    int failed = 0;

    must(allocation->facts.n_shares <= PARTS_MAX);
    for (uint32_t i = 0; failed == 0 && i < allocation->facts.n_shares; i++) {
        const struct share *share = &allocation->facts.share[i];
        struct bind bind = bind_start(store->stmt[ST_SHARE_ADD]);
        bind_number(&bind, id);
        bind_number(&bind, i);
        bind_text(&bind, share->container);
        bind_text(&bind, container_kind_name(share->kind));
        bind_number(&bind, share->order);
        bind_text(&bind, share->gpu->text);
        bind_number(&bind, share->milli);
        bind_number(&bind, share->mib);
        bind_number(&bind, share->asked);
        bind_number(&bind, share->milli);
        failed = run_one(&bind, "share of", share->gpu->text, err);
    }
    return failed;
}

static int write_add_charges(struct store *store, int64_t id, const struct allocation *allocation,
                             struct err *err)
{
    int failed = 0;

    must(allocation->n_charges <= allocation->facts.n_shares);
    for (uint32_t i = 0; failed == 0 && i < allocation->n_charges; i++) {
        const struct charge charge = allocation_charge(allocation, i);
        struct bind bind = bind_start(store->stmt[ST_CHARGE_ADD]);
        bind_number(&bind, id);
        bind_number(&bind, i);
        bind_text(&bind, allocation->facts.node->text);
        bind_text(&bind, charge.gpu->text);
        bind_number(&bind, charge.milli);
        bind_number(&bind, charge.mib);
        bind_number(&bind, allocation->facts.state != STATE_RELEASED);
        failed = run_one(&bind, "charge of", charge.gpu->text, err);
    }
    return failed;
}

/* The allocation first: the triggers on charges read its origin and node. */
static int write_add_allocation(struct store *store, const struct allocation *allocation,
                                struct err *err)
{
    const struct allocation_facts *facts = &allocation->facts;

    must(facts->state != STATE_RELEASED);
    must(facts->version <= VERSION_MAX);
    must(store->last_id < HISTORY_ID_MAX);
    const int64_t id = ++store->last_id;
    struct bind bind = bind_start(store->stmt[ST_ALLOCATION_ADD]);
    bind_number(&bind, id);
    bind_text(&bind, facts->uid);
    bind_text(&bind, facts->namespace);
    bind_text(&bind, facts->name);
    bind_text(&bind, facts->node->text);
    bind_text(&bind, facts->node_uid->text);
    bind_text(&bind, allocation_state_name(facts->state));
    bind_text(&bind, allocation_origin_name(facts->origin));
    bind_number(&bind, facts->presumed);
    bind_number(&bind, facts->in_doubt);
    bind_number(&bind, facts->annotation_differs);
    bind_number(&bind, facts->held_gpus);
    bind_number(&bind, facts->unplaced_milli);
    bind_number(&bind, facts->reserved_ms);
    bind_number(&bind, facts->bound_ms);
    bind_number(&bind, facts->released_ms);
    bind_number(&bind, facts->terminating_ms);
    bind_number(&bind, (int64_t)facts->version);
    int failed = run_one(&bind, "allocation", facts->uid, err);
    if (failed == 0)
        failed = add_shares(store, id, allocation, err);
    if (failed == 0)
        failed = write_add_charges(store, id, allocation, err);
    return failed;
}

/*
 * Shares and charges never change. The WHERE contains the previous state, so that an allocation
 * with another state in the database is refused; a trigger ends the charges of a released one. Only
 * the end sets bytes, because what sets it writes the indexes of live rows.
 */
static int step_allocation(struct store *store, const struct allocation *before,
                           const struct allocation *after, struct err *err)
{
    must(strcmp(before->facts.uid, after->facts.uid) == 0);
    must(after->facts.version <= VERSION_MAX);
    must_debug(allocation_same_shares(before, after));
    const bool ends = after->facts.state == STATE_RELEASED;
    const int64_t bytes = ends ? past_bytes_of(after) : 0;
    bool is_other = false;

    const int failed = ends ? past_count(store, after->facts.namespace, bytes, &is_other, err) : 0;
    if (failed != 0)
        return failed;
    must(ends == (bytes > 0));
    must(ends || after->facts.released_ms == before->facts.released_ms);
    struct bind bind = bind_start(store->stmt[ends ? ST_ALLOCATION_END : ST_ALLOCATION_SET]);
    bind_text(&bind, allocation_state_name(after->facts.state));
    bind_number(&bind, after->facts.in_doubt);
    bind_number(&bind, after->facts.annotation_differs);
    bind_number(&bind, after->facts.reserved_ms);
    bind_number(&bind, after->facts.bound_ms);
    bind_number(&bind, after->facts.terminating_ms);
    bind_number(&bind, (int64_t)after->facts.version);
    if (ends) {
        bind_number(&bind, after->facts.released_ms);
        bind_number(&bind, bytes);
        bind_number(&bind, is_other);
    }
    bind_text(&bind, after->facts.uid);
    bind_text(&bind, after->facts.node->text);
    bind_text(&bind, allocation_state_name(before->facts.state));
    return run_one(&bind, "allocation", after->facts.uid, err);
}

static int put_allocation(struct store *store, const struct allocation *before,
                          const struct allocation *after, struct err *err)
{
    if (after == NULL) {
        must(before == NULL); /* an allocation leaves the ledger in state released */
        return 0;
    }
    return before == NULL ? write_add_allocation(store, after, err)
                          : step_allocation(store, before, after, err);
}

/* Omits a node whose rows do not change: each new allocation makes a new node object. */
static void describe_result(struct strbuf *out, const struct change *change)
{
    must(change->verdict == VERDICT_OK);
    strbuf_reset(out);
    strbuf_char(out, '{');
    if (change->after != NULL) {
        strbuf_str(out, "\"allocation\":");
        if (change->before == NULL)
            state_allocation(out, &change->after->facts);
        else
            state_step(out, &change->after->facts);
    }
    if (!same_rows(change->node_before, change->node_after) &&
        (change->node_before != NULL || change->node_after != NULL)) {
        strbuf_str(out, change->after != NULL ? ",\"node\":" : "\"node\":");
        if (change->node_after != NULL) {
            const struct node_build build = state_build_of(change->node_after);
            state_node(out, &build);
        } else {
            state_node_removed(out, change->node_before->name);
        }
    }
    strbuf_char(out, '}');
}

static int add_journal(struct store *store, const struct command *command,
                       const struct change *change, struct err *err)
{
    strbuf_reset(&store->command);
    state_command(&store->command, command);
    describe_result(&store->result, change);

    must(store->seq < INT64_MAX);
    struct bind bind = bind_start(store->stmt[ST_JOURNAL_ADD]);
    /* store.c sets store->seq to this number when the whole change is written. */
    bind_number(&bind, (int64_t)store->seq + 1);
    bind_number(&bind, command->at_ms);
    bind_text(&bind, store->command.data);
    bind_text(&bind, store->result.data);
    return run_one(&bind, "journal entry", command_name(command->kind), err);
}

/* For the next start, which then doubts the clock for an hour again (wallclock.h). */
static int note_step(struct store *store, const struct command *command, struct err *err)
{
    const int64_t step = command->at_ms - command->clock_from_ms;

    must(command->kind == COMMAND_CLOCK);
    if (step <= STORE_CLOCK_STEP_MS && step >= -STORE_CLOCK_STEP_MS)
        return 0;
    struct bind bind = bind_start(store->stmt[ST_STEPPED]);
    bind_number(&bind, command->at_ms);
    return run_one(&bind, "the table", "meta", err);
}

int write_change(struct store *store, const struct command *command, const struct change *change,
                 struct err *err)
{
    const bool same = same_rows(change->node_before, change->node_after);
    int failed = 0;

    must(change->verdict == VERDICT_OK);
    must(change->kind == command->kind);
    if (change->node_after != NULL && !same)
        failed = put_inventory(store, change->node_before, change->node_after, err);
    if (failed == 0)
        failed = put_allocation(store, change->before, change->after, err);
    if (failed == 0 && change->node_before != NULL && !same)
        failed = drop_inventory(store, change->node_before, change->node_after, err);
    if (failed == 0 && command->kind == COMMAND_CLOCK)
        failed = note_step(store, command, err);
    if (failed == 0)
        failed = add_journal(store, command, change, err);
    return failed;
}
