/*
 * Computes the changes of a command. Called by batch.c in the writer thread: ledger_decide() passes
 * each kind of command to one function, which fills a struct change and leaves the ledger
 * unchanged, except for interned names. So a change that the store cannot write is just dropped. A
 * command that would change nothing gives VERDICT_SAME and no row in the journal; so reconciling
 * twice is harmless (I7). Order: steps of an allocation, versions, grants, adoption, nodes.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/place/place_internal.h"
#include "ledger_internal.h"

static enum verdict ledger_decide_refuse(struct change *out, enum reason reason)
{
    must(reason != REASON_NONE);
    must(out->node_after == NULL);
    out->reason = reason;
    return VERDICT_REFUSED;
}

static bool ledger_decide_is_full(const struct ledger *ledger)
{
    must(ledger->slots.count <= NODES_MAX);
    return ledger->slots.count >= NODES_MAX;
}

/*
 * Replaces an allocation, and its node with it. *out takes over the caller's reference to after and
 * adds references to the other three.
 */
static void ledger_decide_replace(struct draft *draft, struct change *out,
                                  const struct allocation *before, const struct allocation *after,
                                  int64_t at_ms)
{
    const bool stays = after != NULL && after->facts.state != STATE_RELEASED;

    out->slot = draft->slot;
    out->before = before != NULL ? allocation_ref(before) : NULL;
    out->after = after;
    out->node_before = draft->old != NULL ? node_ref(draft->old) : NULL;
    out->node_after = draft_node(draft, before, stays ? after : NULL, at_ms);
    must(out->node_after != NULL || !stays);
    must(out->node_after != out->node_before);
    must(before == NULL || before->facts.state != STATE_RELEASED);
}

/* A state change of an allocation; its shares stay. */
static enum verdict ledger_decide_step(const struct ledger *ledger, const struct command *command,
                                       const struct allocation *held,
                                       const struct allocation_facts *facts, struct change *out)
{
    const uint32_t slot = ledger_slot(ledger, atom_text(held->facts.node));
    must(slot != SLOT_NONE);
    must(facts->n_shares == held->facts.n_shares);

    struct draft draft;
    draft_init(&draft, ledger_at(ledger, slot), slot, 0);
    ledger_decide_replace(&draft, out, held, allocation_new(facts), command->at_ms);
    draft_done(&draft);
    return VERDICT_OK;
}

/* The allocation of the command's uid; NULL: none, or on another node than the command's. */
static const struct allocation *ledger_decide_meant(const struct ledger *ledger,
                                                    const struct command *command)
{
    must(command->uid != NULL);

    const struct allocation *held = ledger_find(ledger, text_of(command->uid));
    if (held != NULL && command->node != NULL &&
        !text_is(atom_text(held->facts.node), command->node))
        return NULL;
    return held;
}

/*
 * Late and repeated reports are normal: CONFIRM of a bound pod, or DOUBT of one that is not
 * reserved, is VERDICT_SAME.
 */
static enum verdict decide_step(const struct ledger *ledger, const struct command *command,
                                struct change *out)
{
    const struct allocation *held = ledger_decide_meant(ledger, command);
    if (held == NULL)
        return VERDICT_UNKNOWN;

    const struct allocation_facts was = held->facts;
    struct allocation_facts facts = was;
    switch (command->kind) {
    case COMMAND_CONFIRM:
        if (was.state == STATE_RESERVED) {
            facts.state = STATE_BOUND;
            facts.bound_ms = command->at_ms;
            facts.in_doubt = false;
        }
        break;
    case COMMAND_DOUBT:
        must(!was.in_doubt || was.state == STATE_RESERVED);
        facts.in_doubt = was.state == STATE_RESERVED;
        break;
    case COMMAND_RELEASE:
        facts.state = STATE_RELEASED;
        facts.released_ms = command->at_ms;
        facts.in_doubt = facts.listed_unbound = false;
        break;
    case COMMAND_TERMINATING:
        facts.terminating_ms = command->terminating_ms;
        break;
    default:
        must(command->kind == COMMAND_NOTE);
        facts.annotation_differs = command->differs;
        facts.listed_unbound = command->unbound && was.state == STATE_BOUND;
        break;
    }
    const bool alike = facts.state == was.state && facts.in_doubt == was.in_doubt &&
                       facts.terminating_ms == was.terminating_ms &&
                       facts.annotation_differs == was.annotation_differs;
    if (alike && facts.listed_unbound == was.listed_unbound) {
        out->held = held;
        return VERDICT_SAME;
    }
    out->unwritten = alike;
    return ledger_decide_step(ledger, command, held, &facts, out);
}

/* May both GPUs hold parts of one want under the request's topology? */
static bool lie_together(const struct node *node, const struct request *request,
                         const struct gpu *a, const struct gpu *b)
{
    must(a != NULL && b != NULL);
    must(a >= node->gpu && b >= node->gpu);
    if (a == b || request->topology == TOPOLOGY_ANY)
        return true;
    if (request->topology == TOPOLOGY_NUMA)
        return a->numa >= 0 && a->numa == b->numa;
    const size_t at = (size_t)(b - node->gpu);
    return at < GPUS_PER_NODE_MAX && (a->peers >> at & 1) != 0;
}

static bool lies_with_all(const struct node *node, const struct allocation_facts *held,
                          const struct request *request, const char *container,
                          const struct gpu *gpu)
{
    must(container != NULL);
    must(gpu != NULL);
    for (uint32_t i = 0; i < held->n_shares; i++) {
        const struct share *share = &held->share[i];
        const struct gpu *other = node_gpu(node, atom_text(share->gpu));
        must(share->milli > 0);
        if (strcmp(share->container, container) == 0 && other != NULL &&
            !lie_together(node, request, gpu, other))
            return false;
    }
    return true;
}

/* Would this GPU be granted again to a pod that already charges it? That charge may be its last. */
static bool gpu_takes_again(const struct gpu *gpu)
{
    must(gpu != NULL);
    must(gpu->charges > 0);
    const enum reason closed = gpu_closed(gpu);
    return closed == REASON_NONE || (closed == REASON_CROWDED && (gpu->flags & GPU_OVER) == 0 &&
                                     gpu->charges == CHARGES_PER_GPU_MAX);
}

/* Does this container hold its request, on GPUs that would be granted now? */
static bool want_is_met(const struct node *node, const struct allocation_facts *held,
                        const struct request *request, const struct want *want)
{
    uint32_t parts = 0;

    must(want->parts > 0);
    must(want->milli > 0);
    for (uint32_t i = 0; i < held->n_shares; i++) {
        const struct share *share = &held->share[i];
        if (strcmp(share->container, want->container) != 0)
            continue;
        const struct gpu *gpu = node_gpu(node, atom_text(share->gpu));
        if (gpu == NULL || !gpu_takes_again(gpu) || share->kind != want->kind ||
            share->asked != want->milli || share->mib < request->memory_mib ||
            !request_takes_model(request, atom_text(gpu->model)) ||
            !lies_with_all(node, held, request, want->container, gpu))
            return false;
        parts++;
    }
    return parts == want->parts;
}

/* The winning rule at present for this pod and node; NULL: none. */
static const struct rule *ledger_decide_rule(const struct ledger *ledger, const struct node *node,
                                             const struct allocation_facts *held)
{
    const struct policy_context *context = ledger->context;
    const rule_set rules = policy_context_rules(context, text_of(held->namespace)) & node->rules;

    must(held->node == node->name);
    if (rules == 0)
        return NULL;
    must(context != NULL && context->rulebook != NULL);
    return rulebook_first(context->rulebook, rules & context->holding);
}

/*
 * Were shares raised exactly to the amount required by the present memory request? The search
 * raises to the largest need of the GPUs that it takes, or to the next amount that the rule hands
 * out (place_level.c).
 */
static bool raise_is_due(const struct ledger *ledger, const struct node *node,
                         const struct allocation_facts *held, const struct request *request)
{
    uint32_t raised = 0;
    uint32_t need = 0;

    must(held->n_shares <= PARTS_MAX);
    for (uint32_t i = 0; i < held->n_shares; i++) {
        const struct share *share = &held->share[i];
        if (share->milli == share->asked)
            continue;
        const struct gpu *gpu = node_gpu(node, atom_text(share->gpu));
        must(gpu != NULL && gpu->milli > 0); /* request_is_met() found it open */
        const struct gpu_room room = {.milli = gpu->milli, .mib = gpu->mib};
        const uint32_t least = least_with_memory(&room, request->memory_mib);
        need = least > need ? least : need;
        raised = share->milli;
    }
    if (raised == 0)
        return true;
    if (need == 0 || need > GPU_MILLI)
        return false;
    const struct rule *rule = ledger_decide_rule(ledger, node, held);
    return raised == (rule != NULL ? rule_next(rule, need) : need);
}

/* Does each container hold its request, and nothing without a request? */
static bool wants_are_met(const struct node *node, const struct allocation_facts *held,
                          const struct request *request)
{
    uint32_t parts = 0;

    must(held->n_shares <= PARTS_MAX);
    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++) {
        if (!want_is_met(node, held, request, &request->want[i]))
            return false;
        parts += request->want[i].parts;
    }
    return parts == held->n_shares;
}

/* Would the node accept the pod, if it were not there yet? The shares are on open GPUs. */
static bool node_takes_again(const struct node *node, const struct allocation *held,
                             const struct request *request)
{
    const struct text uid = text_of(held->facts.uid);
    struct room room;

    must(held->n_charges <= held->facts.n_shares);
    must(held->facts.node == node->name);
    room_without(node, &uid, 1, &room);
    return place_weigh_node(&room, request, held->n_charges) == REASON_NONE;
}

/* Would the allocation be a correct placement of this request now? */
static bool request_is_met(const struct node *node, const struct allocation *held,
                           const struct request *request)
{
    must(node != NULL);
    must(request_asks(request));
    return !node->gone && held->facts.held_gpus == request->whole &&
           wants_are_met(node, &held->facts, request) && node_takes_again(node, held, request);
}

/*
 * Never searches for another place: kube-scheduler has chosen the node, and either the place still
 * suits the pod or the version is refused. A new version also ends a doubt, because no Binding that
 * names an earlier one can take effect (docs/why/012-a-binding-names-a-version.md).
 */
static enum verdict decide_version(const struct ledger *ledger, const struct command *command,
                                   struct change *out)
{
    must(command->version > 0);
    must(command->version <= VERSION_MAX);
    must(command->request != NULL);

    const struct allocation *held = ledger_decide_meant(ledger, command);
    if (held == NULL)
        return VERDICT_UNKNOWN;
    if (held->facts.state != STATE_RESERVED || held->facts.version == 0 ||
        held->facts.version >= command->version) {
        out->held = held;
        return VERDICT_SAME;
    }
    const struct node *node = ledger_node(ledger, atom_text(held->facts.node));
    if (!request_is_met(node, held, command->request) ||
        !raise_is_due(ledger, node, &held->facts, command->request))
        return ledger_decide_refuse(out, REASON_CHANGED);

    struct allocation_facts facts = held->facts;
    facts.version = command->version;
    facts.in_doubt = false;
    return ledger_decide_step(ledger, command, held, &facts, out);
}

/*
 * I1 at the moment of granting, recomputed from the node independently of the search: a wrong
 * placement aborts before it reaches the disk.
 */
static void must_fit(const struct node *node, const struct allocation *granted)
{
    for (uint32_t i = 0; i < granted->n_charges; i++) {
        const struct gpu *gpu = node_gpu(node, atom_text(allocation_charge(granted, i).gpu));
        must(gpu != NULL);
        must(gpu->used_milli + gpu->reserved_milli <= gpu->milli);
        must(gpu->mib == 0 || gpu->used_mib <= gpu->mib);
        must((gpu->flags & (GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE)) == 0);
    }
}

/*
 * A gone node keeps the GPUs that pods hold. It is refused as a node without GPUs, because unlike
 * an absent GPU it is not expected back.
 */
static struct cause ledger_decide_search(const struct ledger *ledger, const struct node *node,
                                         const struct command *command, struct placement *placement)
{
    struct request request = *command->request;

    if (node == NULL)
        return (struct cause){.why = REASON_UNKNOWN_NODE};
    if (node->gone)
        return (struct cause){.why = REASON_NO_GPU};

    /* The present rules, which may differ from those of the filter call. */
    request.rules = policy_context_rules(ledger->context, text_of(command->namespace));
    const struct cause cause = ledger_place(ledger, node, &request, placement);
    must(cause.why < REASONS);
    must(cause.why != REASON_UNKNOWN_NODE);
    return cause;
}

/*
 * The row contains the uid of the Node, so that no later Node of the same name inherits a UUID
 * (left_with()).
 */
static struct allocation *ledger_decide_grant(const struct node *node,
                                              const struct command *command,
                                              const struct placement *placement)
{
    must(placement->n_parts > 0 || command->request->whole > 0);
    must(placement->n_parts <= PARTS_MAX);

    struct share *share = xcalloc(placement->n_parts + 1, sizeof *share);
    place_shares(placement, command->request, node, share);
    const struct allocation_facts facts = {
        .uid = command->uid,
        .namespace = command->namespace,
        .name = command->name,
        .node = node->name,
        .node_uid = node->uid,
        .state = STATE_RESERVED,
        .origin = ORIGIN_GRANTED,
        .held_gpus = command->request->whole,
        .reserved_ms = command->at_ms,
        .version = command->version,
        .n_shares = placement->n_parts,
        .share = share,
    };
    must(allocation_fault(&facts) == NULL);
    struct allocation *allocation = allocation_new(&facts);
    must(allocation->n_charges > 0 || allocation->facts.held_gpus > 0);
    xfree(share);
    return allocation;
}

/* I2: a pod with an allocation gets no second one, whatever it requests. */
static bool held_already(const struct ledger *ledger, const struct command *command,
                         struct change *out, enum verdict *verdict)
{
    must(command->uid != NULL);
    must(command->uid[0] != '\0');
    must(command->node != NULL);
    must(command->namespace != NULL);
    must(command->name != NULL);

    out->held = ledger_find(ledger, text_of(command->uid));
    if (out->held == NULL)
        return false;
    const bool here = text_is(atom_text(out->held->facts.node), command->node);
    *verdict = here ? VERDICT_SAME : VERDICT_ELSEWHERE;
    return true;
}

/*
 * Searches again as filter did: since filter's snapshot, the place may be taken, or a better one
 * free.
 */
static enum verdict decide_reserve(const struct ledger *ledger, const struct command *command,
                                   struct change *out)
{
    must(command->request != NULL);
    must(request_asks(command->request));

    enum verdict verdict;
    if (held_already(ledger, command, out, &verdict))
        return verdict;

    const uint32_t slot = ledger_slot(ledger, text_of(command->node));
    const struct node *node = slot == SLOT_NONE ? NULL : ledger_at(ledger, slot);
    struct placement *placement = xcalloc(1, sizeof *placement);
    const struct cause cause = ledger_decide_search(ledger, node, command, placement);
    if (cause.why == REASON_NONE) {
        struct draft draft;
        draft_init(&draft, node, slot, 0);
        ledger_decide_replace(&draft, out, NULL, ledger_decide_grant(node, command, placement),
                              command->at_ms);
        draft_done(&draft);
        must_fit(out->node_after, out->after);
    }
    xfree(placement);
    out->rule = cause.rule;
    return cause.why == REASON_NONE ? VERDICT_OK : ledger_decide_refuse(out, cause.why);
}

/*
 * The pod runs already, so it is refused only if there is no slot for its node, never for lack of
 * room.
 */
static enum verdict decide_adopt(struct ledger *ledger, const struct command *command,
                                 struct change *out)
{
    must(command->pod != NULL);

    enum verdict verdict;
    if (held_already(ledger, command, out, &verdict))
        return verdict;
    if (!adopt_counts(command->pod, command->request))
        return VERDICT_SAME;
    must(command->node[0] != '\0');

    uint32_t slot = ledger_slot(ledger, text_of(command->node));
    const struct node *node = slot == SLOT_NONE ? NULL : ledger_at(ledger, slot);
    if (node == NULL && ledger_decide_is_full(ledger))
        return ledger_decide_refuse(out, REASON_LIMIT);
    if (node == NULL)
        slot = ledger_free_slot(ledger);

    struct draft draft;
    draft_init(&draft, node, slot, command->pod->n_shares);
    if (node == NULL) {
        const struct atom *empty = names_intern(ledger->names, TEXT(""));
        draft.build.name = names_intern(ledger->names, text_of(command->node));
        draft.build.uid = empty;
        draft.build.problem_text = empty;
    }
    ledger_decide_replace(&draft, out, NULL, adopt_place(ledger, &draft, command), command->at_ms);
    draft_done(&draft);
    must(out->after != NULL);
    must(out->node_after != NULL);
    return VERDICT_OK;
}

/*
 * Kubelets update their Nodes all the time: an update without a relevant change must cost no row.
 */
static enum verdict decide_node_change(struct draft *draft, const struct command *command,
                                       struct change *out)
{
    const struct node *old = draft->old;
    struct node *node = draft_node(draft, NULL, NULL, command->at_ms);
    const bool alike = old != NULL && node != NULL && node_alike(old, node);
    if (alike && old->agent == node->agent && old->rules == node->rules &&
        node_notes_alike(old, node) && node_plugins_alike(old, node) && old->vouch == node->vouch &&
        labels_eq(old->labels, node->labels) && unusable_eq(&old->unusable, &node->unusable) &&
        old->taints == node->taints) {
        node_unref(node);
        return VERDICT_SAME;
    }
    out->unwritten = alike;
    out->slot = draft->slot;
    out->node_before = old != NULL ? node_ref(old) : NULL;
    out->node_after = node;
    must(out->node_before != NULL || out->node_after != NULL);
    must(old == NULL || node == NULL || node->n_allocations == old->n_allocations);
    return VERDICT_OK;
}

static enum verdict decide_node(struct ledger *ledger, const struct command *command,
                                struct change *out)
{
    const struct inventory *inventory = command->inventory;
    const char *name = inventory != NULL ? inventory->node : command->node;
    must(name != NULL);
    must(name[0] != '\0');
    must(inventory == NULL || command->node == NULL || strcmp(command->node, name) == 0);
    must(inventory == NULL || command->first_owner == NULL);

    uint32_t slot = ledger_slot(ledger, text_of(name));
    if (slot == SLOT_NONE) {
        if (inventory == NULL)
            return VERDICT_UNKNOWN;
        if (ledger_decide_is_full(ledger))
            return ledger_decide_refuse(out, REASON_LIMIT);
        slot = ledger_free_slot(ledger);
    }
    struct draft draft;
    draft_init(&draft, ledger_at(ledger, slot), slot, inventory != NULL ? inventory->n_gpus : 0);
    if (inventory != NULL)
        draft_inventory(&draft, ledger, inventory);
    if (inventory != NULL || command->has_vouch)
        draft_vouch(&draft, command->vouch, command->at_ms);
    /* After the inventory, because it judges the GPUs that the node shows. */
    draft_assign_owner(&draft, ledger, command->first_owner);
    const enum verdict verdict = decide_node_change(&draft, command, out);
    draft_done(&draft);
    return verdict;
}

/*
 * The pods of a Node outlive the Node object in the API server. Their GPUs stay, as absent ones; a
 * node without pods leaves the ledger.
 */
static enum verdict decide_node_gone(struct ledger *ledger, const struct command *command,
                                     struct change *out)
{
    must(command->node != NULL);
    must(command->inventory == NULL);

    const uint32_t slot = ledger_slot(ledger, text_of(command->node));
    if (slot == SLOT_NONE)
        return VERDICT_UNKNOWN;

    struct draft draft;
    draft_init(&draft, ledger_at(ledger, slot), slot, 0);
    draft_forget_gpus(&draft);
    draft.build.gone = true;
    draft.build.source = SOURCE_NONE;
    draft.build.plugin = (struct plugin_report){0};
    draft_vouch(&draft, VOUCH_NONE, command->at_ms);
    draft.build.problem = PROBLEM_NONE;
    draft.build.problem_text = names_intern(ledger->names, TEXT(""));
    const enum verdict verdict = decide_node_change(&draft, command, out);
    draft_done(&draft);
    return verdict;
}

enum verdict ledger_decide(struct ledger *ledger, const struct command *command, struct change *out)
{
    must(ledger != NULL);
    must((unsigned)command->kind < COMMANDS);

    *out = (struct change){.kind = command->kind, .slot = SLOT_NONE};
    switch (command->kind) {
    case COMMAND_RESERVE:
        out->verdict = decide_reserve(ledger, command, out);
        break;
    case COMMAND_VERSION:
        out->verdict = decide_version(ledger, command, out);
        break;
    case COMMAND_ADOPT:
        out->verdict = decide_adopt(ledger, command, out);
        break;
    case COMMAND_NODE:
        out->verdict = decide_node(ledger, command, out);
        break;
    case COMMAND_NODE_GONE:
        out->verdict = decide_node_gone(ledger, command, out);
        break;
    case COMMAND_CLOCK:
    case COMMAND_POLICY:
    case COMMAND_OVER:
        out->verdict = VERDICT_OK;
        break;
    default:
        out->verdict = decide_step(ledger, command, out);
        break;
    }
    must(out->verdict == VERDICT_OK || (out->node_after == NULL && out->after == NULL));
    must((out->verdict == VERDICT_REFUSED) == (out->reason != REASON_NONE));
    must(out->verdict != VERDICT_ELSEWHERE || out->held != NULL);
    return out->verdict;
}
