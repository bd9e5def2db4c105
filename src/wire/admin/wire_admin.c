/*
 * Encodes facts as JSON, one encoder per shape of src/admin/schemas.json: a member that is added or
 * renamed here changes the REST API. Called by the handlers of the REST API, the metrics page and
 * the diagnostics, on their threads; nodes and allocations are from an immutable snapshot, so no
 * lock is needed. In order: amounts, nodes, allocations, the rest.
 */
#include "milligpu/wire/admin/wire_admin.h"

#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

enum { REQUEST_TEXT_MAX = 512 };

static void put_atom(struct json_writer *json, const char *key, const struct atom *value)
{
    must(value != NULL);
    json_write_key(json, key);
    json_write_text(json, atom_text(value));
}

static void put_u64(struct json_writer *json, const char *key, uint64_t value)
{
    json_write_key(json, key);
    json_write_u64(json, value);
}

static void put_bool(struct json_writer *json, const char *key, bool value)
{
    json_write_key(json, key);
    json_write_bool(json, value);
}

static void put_time(struct json_writer *json, const char *key, int64_t ms)
{
    char text[TIME_TEXT_BYTES];

    must(key != NULL);
    if (ms <= 0)
        return; /* unknown: no timestamp of ours is before 1970 */
    time_format(ms, text);
    json_write_member(json, key, text);
}

/* --- amounts --- */

/* Zero on a closed node or GPU, even if gpu_free() is not: no share can go there. */
uint32_t admin_gpu_free(const struct node *node, const struct gpu *gpu)
{
    must(gpu >= node->gpu && gpu < node->gpu + node->n_gpus);
    if (node->unusable.why != USABLE || node_closed(node) != REASON_NONE ||
        gpu_closed(gpu) != REASON_NONE)
        return 0;
    return gpu_free(gpu);
}

/* An absent GPU has charges, but no capacity. */
void admin_amounts_add(struct admin_amounts *amounts, const struct node *node,
                       const struct gpu *gpu, uint32_t fragment_milli)
{
    const uint32_t milli = admin_gpu_free(node, gpu);
    struct gpu_account account;

    gpu_account(node, gpu, &account);
    must(account.milli[ACCOUNT_FREE] == milli);
    amounts->gpus++;
    if ((gpu->flags & GPU_ABSENT) == 0)
        amounts->capacity_milli += gpu->milli;
    amounts->total_milli += account.total_milli;
    amounts->beyond_milli += account.beyond_milli;
    for (uint32_t part = 0; part < ACCOUNT_PARTS; part++)
        amounts->part_milli[part] += account.milli[part];
    if (milli > amounts->largest_free_milli)
        amounts->largest_free_milli = milli;
    must(fragment_milli <= milli);
    amounts->fragment_milli += fragment_milli;
}

static uint64_t admin_closed_milli(const struct admin_amounts *amounts)
{
    uint64_t milli = 0;

    for (uint32_t part = ACCOUNT_CLOSED_FIRST; part < ACCOUNT_PARTS; part++)
        milli += amounts->part_milli[part];
    must(milli <= amounts->total_milli);
    return milli;
}

void admin_amounts(struct json_writer *json, const struct admin_amounts *amounts)
{
    const uint64_t *part = amounts->part_milli;
    const uint64_t closed = admin_closed_milli(amounts);

    must(amounts->largest_free_milli <= part[ACCOUNT_FREE]);
    must(part[ACCOUNT_FREE] <= amounts->capacity_milli);
    must(amounts->total_milli == part[ACCOUNT_USED] + part[ACCOUNT_RESERVED] + part[ACCOUNT_FREE] +
                                     part[ACCOUNT_HELD] + closed);
    put_u64(json, "capacityMilli", amounts->capacity_milli);
    put_u64(json, "usedMilli", part[ACCOUNT_USED]);
    put_u64(json, "reservedMilli", part[ACCOUNT_RESERVED]);
    put_u64(json, "freeMilli", part[ACCOUNT_FREE]);
    put_u64(json, "largestFreeMilli", amounts->largest_free_milli);
    put_u64(json, "fragmentMilli", amounts->fragment_milli);
    put_u64(json, "totalMilli", amounts->total_milli);
    put_u64(json, "beyondMilli", amounts->beyond_milli);
    put_u64(json, "heldMilli", part[ACCOUNT_HELD]);
    put_u64(json, "closedMilli", closed);
}

/* All parts, including those of 0 milli: clients need not check for presence. */
void admin_closed(struct json_writer *json, const struct admin_amounts *amounts)
{
    json_write_key(json, "closed");
    json_write_object(json);
    for (uint32_t part = ACCOUNT_CLOSED_FIRST; part < ACCOUNT_PARTS; part++)
        put_u64(json, account_name(part), amounts->part_milli[part]);
    json_write_object_end(json);
}

/* --- nodes --- */

/* In order of precedence. */
static const struct {
    unsigned flag;
    const char *word;
} gpu_states[] = {
    {GPU_ABSENT, "absent"},     {GPU_DUPLICATE, "duplicate"}, {GPU_UNSURE, "unsure"},
    {GPU_OVER, "over"},         {GPU_HELD, "held"},           {GPU_UNHEALTHY, "unhealthy"},
    {GPU_CORDONED, "cordoned"},
};

const char *admin_gpu_state(const struct gpu *gpu)
{
    for (size_t i = 0; i < ARRAY_LEN(gpu_states); i++)
        if ((gpu->flags & gpu_states[i].flag) != 0)
            return gpu_states[i].word;
    /* The first owner of a UUID keeps granting; the duplicate is reported as drift. */
    must((gpu->flags & ~(unsigned)GPU_CONTESTED) == 0);
    return "ok";
}

/* A node without GPUs has no room anyway. */
static bool is_unusable(const struct node *node)
{
    must(node->unusable.why < UNUSABLES);
    return node->n_gpus > 0 && node->unusable.why != USABLE;
}

/* gone and problem take precedence over the reason why the node is closed. */
const char *admin_node_state(const struct node *node)
{
    if (node->gone)
        return "gone";
    if (node->problem == PROBLEM_FOREIGN_UNITS)
        return "foreign_units";
    if (node->problem == PROBLEM_NO_SOURCE)
        return "no_source";
    if (node->problem != PROBLEM_NONE)
        return inventory_is_excluded(node->problem) ? "excluded" : "unreadable";
    switch (node_closed(node)) {
    case REASON_MIXED:
        return "mixed";
    case REASON_UNPLACED:
        return "unplaced";
    case REASON_PLUGIN:
        return "plugin";
    case REASON_AGENT:
        return node->vouch == VOUCH_LEAVING ? "agent_leaving" : "not_vouched";
    default:
        return is_unusable(node) ? unusable_name(node->unusable.why) : "ok";
    }
}

/* True if no present GPU takes shares because of the cordon; absent GPUs do not count. */
static bool admin_is_cordoned(const struct node *node)
{
    bool cordoned = false;

    for (uint32_t i = 0; i < node->n_gpus; i++) {
        if ((node->gpu[i].flags & (GPU_CORDONED | GPU_ABSENT)) == 0)
            return false;
        cordoned = cordoned || (node->gpu[i].flags & GPU_ABSENT) == 0;
    }
    return cordoned;
}

/* A new state needs a row here and a word in the enum of schemas.json. */
static const char *const node_words[] = {
    "ok",        "cordoned",   "gone",          "excluded",
    "no_source", "unreadable", "foreign_units", "mixed",
    "unplaced",  "plugin",     "not_vouched",   "agent_leaving",
    "leaving",   "not_ready",  "tainted",       "taints_unreadable"};

const char *admin_node_word(size_t at)
{
    return at < ARRAY_LEN(node_words) ? node_words[at] : NULL;
}

const char *admin_node_shown(const struct node *node)
{
    const char *state = admin_node_state(node);

    must(state[0] != '\0');
    return strcmp(state, "ok") == 0 && admin_is_cordoned(node) ? "cordoned" : state;
}

/* Words of nodes, then of GPUs; "cordoned" is both, and listed once. */
const char *admin_node_filter(size_t at)
{
    static const char *const both[] = {"open", "closed"};
    const size_t of_nodes = ARRAY_LEN(both) + ARRAY_LEN(node_words);

    if (at < ARRAY_LEN(both))
        return both[at];
    if (at < of_nodes)
        return node_words[at - ARRAY_LEN(both)];
    must(strcmp(gpu_states[ARRAY_LEN(gpu_states) - 1].word, "cordoned") == 0);
    return at - of_nodes + 1 < ARRAY_LEN(gpu_states) ? gpu_states[at - of_nodes].word : NULL;
}

bool admin_node_is(const struct node *node, const char *word)
{
    const bool ok = strcmp(admin_node_state(node), "ok") == 0;
    bool open = false;
    bool found = strcmp(admin_node_shown(node), word) == 0;

    must(word[0] != '\0');
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        const char *state = admin_gpu_state(&node->gpu[i]);
        open = open || (ok && strcmp(state, "ok") == 0);
        found = found || (strcmp(state, "ok") != 0 && strcmp(state, word) == 0);
    }
    if (strcmp(word, "open") == 0)
        return open;
    return strcmp(word, "closed") == 0 ? !open : found;
}

/* For example "a taint that is not tolerated: dedicated=a:NoSchedule". */
static void put_unusable_text(struct json_writer *json, const char *key,
                              const struct unusable_cause *cause)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(cause->why != USABLE);
    strbuf_init(&text);
    strbuf_str(&text, unusable_help(cause->why));
    if (cause->taint != NULL)
        strbuf_printf(&text, ": %s%s%s:%s", cause->taint->key,
                      cause->taint->value[0] != '\0' ? "=" : "", cause->taint->value,
                      cause->taint->effect == EFFECT_NO_EXECUTE ? "NoExecute" : "NoSchedule");
    json_write_member(json, key, text.data);
}

void admin_unusable(struct json_writer *json, const char *key, const char *text_key,
                    const struct unusable_cause *cause)
{
    must(cause->why < UNUSABLES);
    if (cause->why == USABLE)
        return;
    json_write_member(json, key, unusable_name(cause->why));
    put_unusable_text(json, text_key, cause);
}

/* The member is always present. For an open node it has ignored input of the node, mostly none. */
static void put_node_text(struct json_writer *json, const struct node *node)
{
    const enum reason closed = node_closed(node);

    must(closed == REASON_NONE || reason_class(closed) != REASON_CLASS_STATE);
    if (node->gone)
        json_write_member(json, "stateText", "the Node object is gone, its pods are not");
    else if (node->problem == PROBLEM_NONE && closed == REASON_NONE && is_unusable(node))
        put_unusable_text(json, "stateText", &node->unusable);
    else if (node->problem != PROBLEM_NONE || closed == REASON_NONE)
        put_atom(json, "stateText", node->problem_text);
    else
        json_write_member(json, "stateText",
                          closed == REASON_AGENT ? vouch_help(node->vouch) : reason_help(closed));
}

/* Models are interned, so equal pointers are equal names. */
static bool is_first_of_model(const struct node *node, uint32_t gpu)
{
    must(gpu < node->n_gpus);
    for (uint32_t i = 0; i < gpu; i++)
        if (node->gpu[i].model == node->gpu[gpu].model)
            return false;
    return node->gpu[gpu].model->len > 0;
}

/* Nearly every node has one model; several become a list. */
static void admin_put_models(struct json_writer *json, const struct node *node)
{
    CLEANUP(strbuf_done) struct strbuf models;

    strbuf_init(&models);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        if (!is_first_of_model(node, i))
            continue;
        if (models.len > 0)
            strbuf_str(&models, ", ");
        strbuf_text(&models, atom_text(node->gpu[i].model));
    }
    json_write_member(json, "model", models.data);
}

/*
 * A charge may name the GPU by its alias, so GPUs are compared by node_gpu(), not by id. Linear in
 * the node's allocations: only views of single nodes and the diagnostics request it.
 */
static void put_holders(struct json_writer *json, const struct node *node, const struct gpu *gpu)
{
    json_write_key(json, "holders");
    json_write_array(json);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        for (uint32_t k = 0; k < allocation->n_charges; k++) {
            const struct charge charge = allocation_charge(allocation, k);
            if (node_gpu(node, atom_text(charge.gpu)) != gpu)
                continue;
            must(charge.milli > 0);
            json_write_object(json);
            json_write_member(json, "uid", allocation->facts.uid);
            json_write_member(json, "namespace", allocation->facts.namespace);
            json_write_member(json, "name", allocation->facts.name);
            json_write_member(json, "state", allocation_state_name(allocation->facts.state));
            put_u64(json, "milli", charge.milli);
            put_u64(json, "mib", charge.mib);
            json_write_object_end(json);
        }
    }
    json_write_array_end(json);
}

/* Writes the topology that the node reported; nothing if it reported none. */
static void put_topology(struct json_writer *json, const struct node *node, const struct gpu *gpu)
{
    if (gpu->numa >= 0)
        put_u64(json, "numa", (uint64_t)gpu->numa);
    if (gpu->peers == 0)
        return;
    json_write_key(json, "nvlink");
    json_write_array(json);
    for (uint32_t i = 0; i < node->n_gpus && i < GPUS_PER_NODE_MAX; i++)
        if ((gpu->peers >> i & 1) != 0)
            json_write_text(json, atom_text(node->gpu[i].id));
    json_write_array_end(json);
}

/* Writes the pod's name if the ledger has the pod, else the text of the Node. */
static void put_held_by(struct json_writer *json, const struct node *node, const char *held)
{
    CLEANUP(strbuf_done) struct strbuf name;
    enum hold_kind kind;
    struct text uid;

    strbuf_init(&name);
    const struct allocation *pod = hold_kind(held, &kind, &uid) ? node_allocation(node, uid) : NULL;
    if (pod != NULL)
        strbuf_printf(&name, "%s/%s", pod->facts.namespace, pod->facts.name);
    json_write_member(json, "heldBy", pod != NULL ? name.data : held);
}

static void put_note(struct json_writer *json, const struct node *node, const struct gpu *gpu)
{
    const struct gpu_note *note = node_note_of(node, gpu);

    if (note != NULL && note->held != NULL)
        put_held_by(json, node, note->held);
    if (note != NULL && note->ill != NULL)
        json_write_member(json, "healthText", note->ill);
}

static void put_known(struct json_writer *json, const char *key, int64_t amount)
{
    if (amount != USAGE_UNKNOWN)
        put_u64(json, key, (uint64_t)amount);
}

/* "scaled" is true or absent: older agents do not report it, so false is not certain. */
static void put_measured_milli(struct json_writer *json, int64_t milli, bool scaled)
{
    must(!scaled || milli != USAGE_UNKNOWN);
    put_known(json, "measuredMilli", milli);
    if (scaled)
        put_bool(json, "scaled", true);
}

/* Writes nothing without a fresh report. */
static void put_measured_sum(struct json_writer *json, const struct node *node,
                             const struct gpu *gpu, const struct admin_measured *measured)
{
    struct measured_sum sum;

    if (measured == NULL || measured->measured == NULL)
        return;
    measured_sum(measured->measured, node, gpu, measured->now_ms, &sum);
    if (sum.shares == 0)
        return;
    put_measured_milli(json, sum.milli, sum.is_scaled);
    put_known(json, "measuredMib", sum.mib);
    put_time(json, "measuredAt", sum.at_ms);
    put_time(json, "idleSince", sum.idle_since_ms);
}

static void put_measured_share(struct json_writer *json, const struct measured_share *share,
                               int64_t now_ms)
{
    if (share == NULL)
        return;
    put_time(json, "measuredAt", share->at_ms);
    if (!measured_is_fresh(share, now_ms))
        return; /* stale: only the time is shown */
    put_measured_milli(json, share->milli, share->is_scaled);
    put_known(json, "measuredMib", share->mib);
    put_known(json, "peakMib", share->peak_mib);
    put_time(json, "idleSince", share->idle_since_ms);
    if (share->over != USAGE_OVER_NOT)
        json_write_member(json, "over", usage_over_name(share->over));
}

/* "pods" counts charges, including reservations. */
static void admin_put_gpu(struct json_writer *json, const struct node *node, const struct gpu *gpu,
                          uint32_t fragment_milli, const struct admin_measured *measured, bool pods)
{
    must(gpu->id->len > 0);
    json_write_object(json);
    put_atom(json, "id", gpu->id);
    put_u64(json, "index", gpu->index);
    put_atom(json, "model", gpu->model);
    put_u64(json, "mib", gpu->mib);
    put_u64(json, "milli", gpu->milli);
    put_u64(json, "usedMilli", gpu->used_milli);
    put_u64(json, "reservedMilli", gpu->reserved_milli);
    put_u64(json, "usedMib", gpu->used_mib);
    put_u64(json, "freeMilli", admin_gpu_free(node, gpu));
    put_u64(json, "fragmentMilli", fragment_milli);
    put_u64(json, "pods", gpu->charges);
    json_write_member(json, "state", admin_gpu_state(gpu));
    put_bool(json, "cordoned", (gpu->flags & GPU_CORDONED) != 0);
    put_note(json, node, gpu);
    put_topology(json, node, gpu);
    put_measured_sum(json, node, gpu, measured);
    if (pods)
        put_holders(json, node, gpu);
    json_write_object_end(json);
}

void admin_node(struct json_writer *json, const struct node *node, struct fragments *fragments,
                const struct admin_measured *measured, bool pods)
{
    struct admin_amounts amounts = {0};
    uint32_t fragment[GPUS_PER_NODE_MAX];

    must(node->name != NULL);
    fragments_of_node(fragments, node, fragment);
    /* The sum is not checked here: safe mode shows wrong ones, too. */
    for (uint32_t i = 0; i < node->n_gpus; i++)
        admin_amounts_add(&amounts, node, &node->gpu[i], fragment_at(fragment, i));
    json_write_object(json);
    put_atom(json, "name", node->name);
    put_atom(json, "uid", node->uid);
    admin_put_models(json, node);
    json_write_member(json, "source", inventory_source_name(node->source));
    json_write_member(json, "state", admin_node_state(node));
    put_node_text(json, node);
    put_bool(json, "cordoned", admin_is_cordoned(node));
    put_bool(json, "agent", node->agent);
    json_write_member(json, "vouch", vouch_name(node->vouch));
    admin_amounts(json, &amounts);
    put_u64(json, "heldGpus", node->held_gpus);
    put_u64(json, "unnamedGpus", node->unnamed_gpus);
    json_write_key(json, "gpus");
    json_write_array(json);
    for (uint32_t i = 0; i < node->n_gpus; i++)
        admin_put_gpu(json, node, &node->gpu[i], fragment_at(fragment, i), measured, pods);
    json_write_array_end(json);
    json_write_object_end(json);
}

/* --- allocations --- */

/* Writes the GPU's current id: an allocation may have an older one, from before its UUID. */
static void admin_put_place(struct json_writer *json, const struct node *node,
                            const struct atom *id)
{
    const struct gpu *gpu = node != NULL ? node_gpu(node, atom_text(id)) : NULL;

    must(id->len > 0);
    put_atom(json, "gpu", gpu != NULL ? gpu->id : id);
    put_u64(json, "index", gpu != NULL ? gpu->index : 0);
}

static void put_amount(struct json_writer *json, uint32_t milli, uint32_t mib)
{
    put_u64(json, "milli", milli);
    put_u64(json, "mib", mib);
}

static void admin_charges(struct json_writer *json, const struct allocation *allocation,
                          const struct node *node)
{
    json_write_key(json, "charges");
    json_write_array(json);
    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct charge charge = allocation_charge(allocation, i);
        json_write_object(json);
        admin_put_place(json, node, charge.gpu);
        put_amount(json, charge.milli, charge.mib);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

/*
 * Shares are per container, charges per GPU: two containers on one GPU have two shares and one
 * charge.
 */
static void put_shares(struct json_writer *json, const struct allocation *allocation,
                       const struct node *node, const struct admin_measured *measured)
{
    must(allocation->facts.n_shares <= PARTS_MAX);
    json_write_key(json, "shares");
    json_write_array(json);
    for (uint32_t i = 0; i < allocation->facts.n_shares; i++) {
        const struct share *share = &allocation->facts.share[i];
        json_write_object(json);
        json_write_member(json, "container", share->container);
        json_write_member(json, "kind", container_kind_name(share->kind));
        admin_put_place(json, node, share->gpu);
        put_amount(json, share->milli, share->mib);
        if (share->asked != share->milli)
            put_u64(json, "asked", share->asked);
        if (measured != NULL && node != NULL)
            put_measured_share(json, measured_find(measured->measured, node, allocation, share),
                               measured->now_ms);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

void admin_allocation(struct json_writer *json, const struct allocation *allocation,
                      const struct node *node, const struct admin_measured *measured)
{
    const struct allocation_facts *facts = &allocation->facts;

    must(node == NULL || node->name == facts->node);
    json_write_object(json);
    json_write_member(json, "uid", facts->uid);
    json_write_member(json, "namespace", facts->namespace);
    json_write_member(json, "name", facts->name);
    put_atom(json, "node", facts->node);
    json_write_member(json, "state", allocation_state_name(facts->state));
    json_write_member(json, "origin", allocation_origin_name(facts->origin));
    put_bool(json, "presumed", facts->presumed);
    put_bool(json, "inDoubt", facts->in_doubt);
    put_time(json, "reservedAt", facts->reserved_ms);
    put_time(json, "boundAt", facts->bound_ms);
    put_time(json, "releasedAt", facts->released_ms);
    put_time(json, "terminatingSince", facts->terminating_ms);
    put_u64(json, "heldGpus", facts->held_gpus);
    put_u64(json, "unplacedMilli", facts->unplaced_milli);
    admin_charges(json, allocation, node);
    put_shares(json, allocation, node, measured);
    json_write_object_end(json);
}

/*
 * One row for each GPU of the allocation. The history has no containers, so shares is empty; it is
 * there for clients that read both kinds.
 */
void admin_released(struct json_writer *json, const struct history_row *row, size_t rows)
{
    must(rows > 0);
    json_write_object(json);
    json_write_member(json, "uid", row->uid);
    json_write_member(json, "namespace", row->namespace);
    json_write_member(json, "name", row->name);
    json_write_member(json, "node", row->node);
    json_write_member(json, "state", row->state);
    put_time(json, "reservedAt", row->reserved_ms);
    put_time(json, "boundAt", row->bound_ms);
    put_time(json, "releasedAt", row->released_ms);
    json_write_key(json, "charges");
    json_write_array(json);
    for (size_t i = 0; i < rows; i++) {
        must(strcmp(row[i].uid, row->uid) == 0);
        if (row[i].gpu[0] == '\0')
            continue; /* it held no GPU with a name */
        json_write_object(json);
        json_write_member(json, "gpu", row[i].gpu);
        put_amount(json, row[i].milli, row[i].mib);
        json_write_object_end(json);
    }
    json_write_array_end(json);
    json_write_key(json, "shares");
    json_write_array(json);
    json_write_array_end(json);
    json_write_object_end(json);
}

/* --- the rest --- */

void admin_usage(struct json_writer *json, const struct admin_usage *usage)
{
    must(usage->gpus > 0 || usage->bound_milli + usage->reserved_milli == 0);
    put_u64(json, "pods", usage->pods);
    put_u64(json, "gpus", usage->gpus);
    put_u64(json, "boundMilli", usage->bound_milli);
    put_u64(json, "reservedMilli", usage->reserved_milli);
    put_u64(json, "mib", usage->mib);
    put_u64(json, "heldGpus", usage->held_gpus);
    put_u64(json, "unplacedMilli", usage->unplaced_milli);
}

/* --- plans of moves --- */

static void put_move_place(struct json_writer *json, const char *key,
                           const struct allocation *allocation, const struct node *node)
{
    must(node->name == allocation->facts.node);
    json_write_key(json, key);
    json_write_object(json);
    put_atom(json, "node", node->name);
    admin_charges(json, allocation, node);
    json_write_object_end(json);
}

static void put_move(struct json_writer *json, const struct defrag_move *move)
{
    must(move->gain_milli > 0);
    json_write_object(json);
    json_write_member(json, "uid", move->from->facts.uid);
    json_write_member(json, "namespace", move->from->facts.namespace);
    json_write_member(json, "name", move->from->facts.name);
    put_move_place(json, "from", move->from, move->from_node);
    put_move_place(json, "to", move->to, move->to_node);
    put_u64(json, "gainMilli", move->gain_milli);
    json_write_object_end(json);
}

static void put_shape(struct json_writer *json, const struct defrag_shape *shape)
{
    CLEANUP(strbuf_done) struct strbuf models;

    strbuf_init(&models);
    must(shape->class->parts > 0);
    for (uint32_t i = 0; i < shape->class->n_models; i++)
        strbuf_printf(&models, "%s%s", i > 0 ? "," : "", shape->class->model[i]);
    json_write_object(json);
    put_u64(json, "gpus", shape->class->parts);
    put_u64(json, "milli", shape->class->milli);
    json_write_member(json, "models", models.data);
    put_u64(json, "before", shape->before);
    put_u64(json, "after", shape->after);
    json_write_object_end(json);
}

void admin_defrag(struct json_writer *json, const struct defrag_plan *plan)
{
    must(plan->fragment_milli_after <= plan->fragment_milli);
    put_bool(json, "learned", plan->learned);
    put_bool(json, "cutShort", plan->cut_short);
    put_bool(json, "leftOut", plan->left_out);
    put_u64(json, "pods", plan->pods);
    put_u64(json, "freeMilli", plan->free_milli);
    put_u64(json, "fragmentMilli", plan->fragment_milli);
    put_u64(json, "fragmentMilliAfter", plan->fragment_milli_after);
    json_write_key(json, "moves");
    json_write_array(json);
    for (uint32_t i = 0; i < plan->n_moves; i++)
        put_move(json, &plan->move[i]);
    json_write_array_end(json);
    json_write_key(json, "shapes");
    json_write_array(json);
    for (uint32_t i = 0; i < plan->n_shapes; i++)
        put_shape(json, &plan->shape[i]);
    json_write_array_end(json);
}

/* --- the rest --- */

/* gpu and allocation are present only if the drift concerns one. */
void admin_drift(struct json_writer *json, const struct drift *drift, int64_t now_ms)
{
    const struct allocation *allocation = drift->allocation;

    must(drift->kind != NULL);
    must(drift->node != NULL);
    json_write_object(json);
    json_write_member(json, "kind", drift->kind);
    put_atom(json, "node", drift->node->name);
    if (drift->gpu != NULL)
        put_atom(json, "gpu", drift->gpu->id);
    if (allocation != NULL) {
        json_write_member(json, "namespace", allocation->facts.namespace);
        json_write_member(json, "name", allocation->facts.name);
        json_write_member(json, "uid", allocation->facts.uid);
    }
    json_write_member(json, "text", drift->text);
    put_time(json, "since", drift->since_ms);
    json_write_member(json, "severity", drift_severity(drift, now_ms));
    json_write_object_end(json);
}

/* since and asks restart when the table evicts the pod. */
static void admin_put_waiting(struct json_writer *json, const struct admin_waiting *waiting)
{
    must(waiting->n_asks > 0 || waiting->last_ms == 0);
    put_time(json, "since", waiting->since_ms);
    if (waiting->n_asks > 0)
        put_time(json, "lastAsked", waiting->last_ms);
    put_u64(json, "asks", waiting->n_asks);
    json_write_member(json, "by", waiting->by);
    json_write_member(json, "reason", waiting->reason);
    json_write_member(json, "text", waiting->text);
    if (waiting->condition != NULL)
        json_write_member(json, "condition", waiting->condition);
    if (waiting->offered == 0)
        return;
    must(waiting->offered <= waiting->fitting);
    put_u64(json, "offered", waiting->offered);
    put_u64(json, "fitting", waiting->fitting);
}

void admin_waiting_brief(struct json_writer *json, const struct admin_waiting *waiting)
{
    must(waiting->text != NULL);
    json_write_object(json);
    admin_put_waiting(json, waiting);
    json_write_object_end(json);
}

/* A request is missing for one of two reasons; the text says which. */
void admin_waiting(struct json_writer *json, const struct admin_waiting *waiting)
{
    char request[REQUEST_TEXT_MAX] = "cannot be granted anywhere";

    must(waiting->uid != NULL);
    must(waiting->request == NULL || !waiting->unclassed);
    if (waiting->request != NULL)
        request_format(waiting->request, request, sizeof request);
    else if (waiting->unclassed)
        text_clip(text_of(ADMIN_UNCLASSED), request, sizeof request);
    json_write_object(json);
    json_write_member(json, "uid", waiting->uid);
    json_write_member(json, "namespace", waiting->namespace);
    json_write_member(json, "name", waiting->name);
    json_write_member(json, "request", request);
    admin_put_waiting(json, waiting);
    json_write_object_end(json);
}

static void put_over_events(struct json_writer *json, const struct history_row *row)
{
    must(row->n_over_events == 0 || row->over_event != NULL);
    json_write_key(json, "over");
    json_write_array(json);
    for (uint32_t i = 0; i < row->n_over_events; i++) {
        const struct history_over_event *over = &row->over_event[i];
        json_write_object(json);
        put_time(json, "at", over->at_ms);
        json_write_member(json, "container", over->container);
        json_write_member(json, "gpu", over->gpu);
        json_write_member(json, "how", over->how);
        put_u64(json, "mib", over->mib);
        if (over->peak_mib > 0)
            put_u64(json, "peakMib", over->peak_mib);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

void admin_history(struct json_writer *json, const struct history_row *row)
{
    must(row->uid != NULL);
    json_write_object(json);
    json_write_member(json, "uid", row->uid);
    json_write_member(json, "namespace", row->namespace);
    json_write_member(json, "name", row->name);
    json_write_member(json, "node", row->node);
    json_write_member(json, "nodeUid", row->node_uid);
    json_write_member(json, "gpu", row->gpu);
    put_u64(json, "milli", row->milli);
    put_u64(json, "mib", row->mib);
    json_write_member(json, "state", row->state);
    put_time(json, "reservedAt", row->reserved_ms);
    put_time(json, "boundAt", row->bound_ms);
    put_time(json, "releasedAt", row->released_ms);
    if (row->has_over_events)
        put_over_events(json, row);
    json_write_object_end(json);
}
