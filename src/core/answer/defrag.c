/*
 * Plans moves of pods that leave less fragments, move by move, on a working copy of the nodes.
 * Called by REST in admin threads, on a snapshot that the caller holds. A pod's best place depends
 * on its request only, except that it may also return to its own node: so each distinct request
 * keeps its best nodes, a pod takes the first that is not its own, and only the two nodes of a move
 * are judged again. Parts: steps, nodes, candidates, places, gains, moves, the plan.
 */
#include "milligpu/core/answer/defrag.h"

#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rank/fragment.h"

#include "core/rank/policy_internal.h"
#include "defrag_shapes.h"

/* A node of the working copy. */
struct spot {
    const struct node *node; /* a reference */
    uint32_t fragment_milli;
};

struct ranked {
    uint32_t at; /* index of the spot */
    struct rank rank;
};

/* Number of best nodes kept; with less than two left, all nodes are ranked again. */
enum { RANKED_MAX = 4 };

/* A distinct request of candidates. */
struct aim {
    struct request *request;
    struct plan plan;
    bool all; /* best[] contains every node that fits */
    uint32_t count;
    struct ranked best[RANKED_MAX]; /* best first; no other node is better than the last one */
    /* Cached state of the last spot tried, with one more such pod. */
    bool knows_tried;
    uint32_t tried;
    uint32_t tried_fragment_milli;
    uint32_t tried_taken_milli; /* decrease of the spot's free milli */
};

struct pod_there {
    const struct allocation *allocation; /* borrowed from the snapshot */
    uint32_t at;                         /* index of the present spot */
    uint32_t aim;
    bool moved;
    /* Cached state of its node without the pod, and with the pod placed again. */
    bool knows_home;
    uint32_t left_fragment_milli;
    uint32_t given_milli; /* increase of the node's free milli */
    bool is_returning;    /* fits on its node again */
    struct rank home;
    uint32_t home_fragment_milli;
    uint32_t home_taken_milli;
};

/* A candidate for the next move. */
struct chance {
    struct pod_there *pod; /* NULL: none */
    uint32_t to;           /* index of the spot */
    int64_t gain_milli;
};

struct defrag {
    const struct defrag_question *question;
    struct defrag_plan *plan;
    struct fragments *fragments;
    struct score_cache *cache; /* NULL: not needed by the policy */
    struct spot *spot;
    uint32_t n_spots;
    struct pod_there *pod;
    uint32_t n_pods;
    struct aim *aim;
    uint32_t n_aims;
    uint32_t ranked; /* number of aims that are ranked (the first ones), whose pods may move */
};

/* search steps (place.h) per step of the plan */
enum { STEPS_EACH = 16 };

/*
 * Steps
 */

static void defrag_spend(struct defrag *defrag, uint32_t steps)
{
    must(steps > 0);
    must(defrag->plan->steps <= UINT32_MAX - steps);
    defrag->plan->steps += steps;
}

static bool has_spent(const struct defrag *defrag, uint32_t steps)
{
    must(defrag->plan != NULL);
    must(steps <= defrag->question->steps);
    return defrag->plan->steps >= steps;
}

/*
 * Nodes
 */

static uint32_t measure(struct defrag *defrag, const struct node *node)
{
    uint32_t milli[GPUS_PER_NODE_MAX];
    uint32_t sum = 0;

    must(node->n_gpus > 0);
    fragments_of_node(defrag->fragments, node, milli);
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++)
        sum += milli[i];
    must(sum <= node->free_milli);
    return sum;
}

static int most_fragments_first(const void *a, const void *b)
{
    const struct spot *left = a;
    const struct spot *right = b;

    must(left->node != NULL && right->node != NULL);
    must(left->node != right->node);
    if (left->fragment_milli != right->fragment_milli)
        return left->fragment_milli > right->fragment_milli ? -1 : 1;
    return atom_cmp(left->node->name, right->node->name);
}

/*
 * Skips nodes without free milli, which have no fragments and take no pods, and nodes that
 * kube-scheduler may not use.
 */
static void gather_nodes(struct defrag *defrag)
{
    const struct snapshot *snapshot = defrag->question->snapshot;
    struct defrag_plan *plan = defrag->plan;
    const struct node *node;

    must(defrag->n_spots == 0);
    defrag->spot = xcalloc(snapshot->nodes, sizeof *defrag->spot);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        if (node->free_milli == 0 || node->unusable.why != USABLE)
            continue;
        must(defrag->n_spots < snapshot->nodes);
        struct spot *spot = &defrag->spot[defrag->n_spots++];
        *spot = (struct spot){node_ref(node), measure(defrag, node)};
        plan->free_milli += node->free_milli;
        plan->fragment_milli += spot->fragment_milli;
    }
    plan->fragment_milli_after = plan->fragment_milli;
    qsort(defrag->spot, defrag->n_spots, sizeof *defrag->spot, most_fragments_first);
}

/*
 * Replaces the node of a spot; invalidates cached results about the former one. Takes the reference
 * take_node.
 */
static void replace_node(struct defrag *defrag, uint32_t at, const struct node *take_node)
{
    struct spot *spot = &defrag->spot[at];

    must(at < defrag->n_spots);
    must(take_node->name == spot->node->name);
    node_unref(spot->node);
    spot->node = take_node;
    spot->fragment_milli = measure(defrag, take_node);
    for (uint32_t i = 0; i < defrag->n_pods; i++)
        if (defrag->pod[i].at == at)
            defrag->pod[i].knows_home = false;
    for (uint32_t i = 0; i < defrag->n_aims; i++)
        defrag->aim[i].knows_tried = false;
}

/* free + amount; HOST_UNKNOWN stays, and no known amount becomes HOST_UNKNOWN. */
static uint32_t host_more(uint32_t free, uint32_t amount)
{
    must(amount < HOST_UNKNOWN);
    if (free == HOST_UNKNOWN)
        return free;
    return host_amount((int64_t)free + amount);
}

static const struct node *with_host(struct node *take_node, struct host host)
{
    must(take_node != NULL);
    if (!take_node->host_known)
        return take_node;
    struct node *changed = node_with_host(take_node, &host);
    must(changed->free_milli == take_node->free_milli);
    node_unref(take_node);
    return changed;
}

/* The node without the pod. */
static const struct node *node_left(const struct node *node, const struct allocation *pod,
                                    const struct request *request)
{
    const struct host host = {host_more(node->host.cpu_milli, request->host.cpu_milli),
                              host_more(node->host.memory_mib, request->host.memory_mib)};

    must(pod->facts.node == node->name);
    must(node_allocation(node, text_of(pod->facts.uid)) == pod);
    return with_host(node_with(node, pod, NULL), host);
}

/* The node with the pod. */
static const struct node *node_joined(const struct node *node, const struct allocation *pod,
                                      const struct request *request)
{
    const struct host host = {host_less(node->host.cpu_milli, request->host.cpu_milli),
                              host_less(node->host.memory_mib, request->host.memory_mib)};

    must(pod->facts.node == node->name);
    must(node_allocation(node, text_of(pod->facts.uid)) == NULL);
    return with_host(node_with(node, NULL, pod), host);
}

/*
 * Candidates
 */

/* Only reservations are in doubt, and only adopted pods are presumed. */
static bool is_candidate(const struct allocation_facts *facts)
{
    must(facts->uid != NULL);
    must(facts->state != STATE_RELEASED);
    return facts->state == STATE_BOUND && facts->origin == ORIGIN_GRANTED &&
           facts->terminating_ms == 0 && !facts->annotation_differs;
}

static bool is_aim(const struct aim *aim, const struct request *request)
{
    must(aim->request != NULL);
    must(request != NULL);
    return aim->request->host.cpu_milli == request->host.cpu_milli &&
           aim->request->host.memory_mib == request->host.memory_mib &&
           request_eq(aim->request, request);
}

/* Its index, added if new; DEFRAG_REQUESTS_MAX: no space. */
static uint32_t find_aim(struct defrag *defrag, const struct request *request)
{
    uint32_t at = 0;

    must(request->n_wants > 0);
    must(defrag->n_aims <= DEFRAG_REQUESTS_MAX);
    while (at < defrag->n_aims && !is_aim(&defrag->aim[at], request))
        at++;
    if (at < defrag->n_aims || at == DEFRAG_REQUESTS_MAX)
        return at;
    struct aim *aim = &defrag->aim[defrag->n_aims++];
    aim->request = request_clone(request);
    plan_init(&aim->plan, aim->request, defrag->question->snapshot->context);
    return at;
}

/* False: the limit of candidates is reached. */
static bool add_candidate(struct defrag *defrag, uint32_t at, const struct allocation *allocation)
{
    const struct defrag_question *question = defrag->question;

    must(at < defrag->n_spots);
    must(defrag->n_pods <= DEFRAG_PODS_MAX);
    if (!is_candidate(&allocation->facts))
        return true;
    const struct request *request = question->request_of(question->user, allocation);
    /* Whole GPUs of the other resource are not ours to place. */
    if (request == NULL || request->n_wants == 0 || request->whole > 0)
        return true;
    struct request asked = *request;
    asked.rules =
        policy_context_rules(question->snapshot->context, text_of(allocation->facts.namespace));
    const uint32_t aim = find_aim(defrag, &asked);
    if (aim == DEFRAG_REQUESTS_MAX) {
        defrag->plan->left_out = true;
        return true;
    }
    if (defrag->n_pods == DEFRAG_PODS_MAX) {
        defrag->plan->left_out = true;
        return false;
    }
    defrag->pod[defrag->n_pods++] =
        (struct pod_there){.allocation = allocation, .at = at, .aim = aim};
    return true;
}

static void gather_pods(struct defrag *defrag)
{
    bool more = true;

    must(defrag->n_pods == 0);
    must(defrag->n_aims == 0);
    defrag->pod = xcalloc(DEFRAG_PODS_MAX, sizeof *defrag->pod);
    defrag->aim = xcalloc(DEFRAG_REQUESTS_MAX, sizeof *defrag->aim);
    for (uint32_t at = 0; more && at < defrag->n_spots; at++) {
        const struct spot *spot = &defrag->spot[at];
        if (spot->fragment_milli == 0)
            break; /* sorted: all later nodes have none either */
        for (uint32_t i = 0; more && i < spot->node->n_allocations; i++)
            more = add_candidate(defrag, at, spot->node->allocation[i]);
    }
    must(defrag->n_pods <= DEFRAG_PODS_MAX);
    must(defrag->n_aims <= defrag->n_pods);
    defrag->plan->pods = defrag->n_pods;
}

/*
 * Places
 */

static bool host_suffices(const struct node *node, const struct request *request)
{
    must(node != NULL);
    must(request != NULL);
    return !node->host_known || (node->host.cpu_milli >= request->host.cpu_milli &&
                                 node->host.memory_mib >= request->host.memory_mib);
}

/*
 * Is it, or may it become, one of the idle hosts that a rule reserves? Their number after the moves
 * is not counted, so none of them takes a pod.
 */
static bool is_in_reserve(const struct aim *aim, const struct node *node)
{
    must(aim->plan.request == aim->request);
    must(node != NULL);
    return node_is_idle(node) &&
           plan_reserve_matters(&aim->plan, plan_rule(&aim->plan, &node->rules));
}

/* The question about this node in its present or a planned state. */
static struct policy_question question_about(const struct defrag *defrag, const struct node *node,
                                             uint32_t at)
{
    must(at < defrag->n_spots);
    must(node->name == defrag->spot[at].node->name);
    return (struct policy_question){
        .context = defrag->question->snapshot->context,
        .cache = defrag->cache,
        .node = node,
        .slot = at, /* the score cache only needs a fixed slot for each spot */
    };
}

/* False: the best nodes are unknown. */
static bool is_ranked(const struct aim *aim)
{
    must(aim->request != NULL);
    must(aim->count <= RANKED_MAX);
    return aim->all || aim->count >= 2; /* a pod may be on one of them */
}

static void keep_ranked(struct aim *aim, const struct ranked *ranked)
{
    uint32_t place = aim->count;

    must(aim->count <= RANKED_MAX);
    while (place > 0 && order_cmp(&ranked->rank, &aim->best[place - 1].rank) < 0)
        place--;
    /* Unknown nodes after the last may be better than this one. */
    if (place == aim->count && (!aim->all || place == RANKED_MAX)) {
        aim->all = false;
        return;
    }
    aim->all = aim->all && aim->count < RANKED_MAX;
    const uint32_t kept = aim->count < RANKED_MAX ? aim->count : RANKED_MAX - 1;
    memmove(&aim->best[place + 1], &aim->best[place], (kept - place) * sizeof *aim->best);
    aim->best[place] = *ranked;
    aim->count = kept + 1;
    must(aim->count <= RANKED_MAX);
}

static void rank_spot(struct defrag *defrag, struct aim *aim, uint32_t at)
{
    const struct node *node = defrag->spot[at].node;
    const struct policy_question question = question_about(defrag, node, at);
    struct ranked ranked = {.at = at};
    enum reason why = REASON_ROOM;

    must(aim->count <= RANKED_MAX);
    must(at < defrag->n_spots);
    if (host_suffices(node, aim->request) && !is_in_reserve(aim, node))
        why = policy_score(&question, &aim->plan, &ranked.rank);
    defrag_spend(defrag, 1 + ranked.rank.steps / STEPS_EACH + ranked.rank.judged);
    if (why == REASON_NONE)
        keep_ranked(aim, &ranked);
}

/* Ranks all nodes, until the step limit. */
static void rank_all(struct defrag *defrag, struct aim *aim)
{
    must(!is_ranked(aim));
    must(defrag->n_spots > 0);
    policy_begin(defrag->cache, defrag->question->snapshot, aim->request);
    aim->count = 0;
    aim->all = true;
    for (uint32_t at = 0; at < defrag->n_spots; at++) {
        if (has_spent(defrag, defrag->question->steps))
            return;
        rank_spot(defrag, aim, at);
    }
    must(is_ranked(aim));
}

/* Half of the steps are reserved for the moves. The pods of aims not ranked by then stay. */
static void rank_aims(struct defrag *defrag)
{
    uint32_t ranked = 0;

    must(defrag->n_aims <= DEFRAG_REQUESTS_MAX);
    while (ranked < defrag->n_aims && !has_spent(defrag, defrag->question->steps / 2))
        rank_all(defrag, &defrag->aim[ranked++]);
    must(ranked <= defrag->n_aims);
    defrag->plan->cut_short = ranked < defrag->n_aims;
    defrag->ranked = ranked;
}

/* Ranks this node again after a change. */
static void rank_again(struct defrag *defrag, struct aim *aim, uint32_t at)
{
    uint32_t kept = 0;

    must(at < defrag->n_spots);
    for (uint32_t i = 0; i < aim->count; i++)
        if (aim->best[i].at != at)
            aim->best[kept++] = aim->best[i];
    must(aim->count >= kept);
    must(aim->count - kept <= 1); /* a node is in best[] at most once */
    aim->count = kept;
    policy_begin(defrag->cache, defrag->question->snapshot, aim->request);
    rank_spot(defrag, aim, at);
}

/* The pod on the best GPUs of the question's node; NULL: it does not fit. */
static struct allocation *place_on(struct defrag *defrag, struct aim *aim,
                                   const struct policy_question *question,
                                   const struct allocation *pod, struct rank *out)
{
    CLEANUP(xfreep) struct placement *placement = xmalloc(sizeof *placement);
    CLEANUP(xfreep) struct share *share = xcalloc(PARTS_MAX, sizeof *share);
    UNSET struct room room;

    must(aim->request->n_wants > 0);
    room_of(question->node, &room);
    room.is_leaving = room.idle; /* idle by the move only: not counted in the policy context */
    const enum reason why = policy_score_room(question, &aim->plan, &room, out, placement);
    defrag_spend(defrag, 1 + out->steps / STEPS_EACH + out->judged);
    if (why != REASON_NONE)
        return NULL;
    must(placement->n_parts > 0 && placement->n_parts <= PARTS_MAX);
    place_shares(placement, aim->request, question->node, share);
    struct allocation_facts facts = pod->facts;
    facts.node = question->node->name;
    facts.node_uid = question->node->uid;
    facts.n_shares = placement->n_parts;
    facts.share = share;
    return allocation_new(&facts);
}

/*
 * Gains
 */

/* Computes the effect on its own node if the pod leaves, and perhaps returns. */
static void look_home(struct defrag *defrag, struct pod_there *pod)
{
    const struct spot *spot = &defrag->spot[pod->at];
    struct aim *aim = &defrag->aim[pod->aim];
    const struct node *left = node_left(spot->node, pod->allocation, aim->request);
    const struct policy_question question = question_about(defrag, left, pod->at);

    must(left->free_milli >= spot->node->free_milli);
    must(!pod->moved);
    pod->knows_home = true;
    pod->left_fragment_milli = measure(defrag, left);
    pod->given_milli = left->free_milli - spot->node->free_milli;
    struct allocation *back = place_on(defrag, aim, &question, pod->allocation, &pod->home);
    pod->is_returning = back != NULL;
    if (pod->is_returning) {
        const struct node *joined = node_joined(left, back, aim->request);
        pod->home_fragment_milli = measure(defrag, joined);
        pod->home_taken_milli = left->free_milli - joined->free_milli;
        node_unref(joined);
    }
    allocation_unref(back);
    node_unref(left);
}

/* Computes the effect on another node if a pod of this aim joins. */
static void look_there(struct defrag *defrag, struct aim *aim, uint32_t at,
                       const struct allocation *pod)
{
    const struct spot *spot = &defrag->spot[at];
    const struct policy_question question = question_about(defrag, spot->node, at);
    struct rank rank;

    must(at < defrag->n_spots);
    if (aim->knows_tried && aim->tried == at)
        return;
    struct allocation *there = place_on(defrag, aim, &question, pod, &rank);
    must(there != NULL);
    const struct node *joined = node_joined(spot->node, there, aim->request);
    aim->knows_tried = true;
    aim->tried = at;
    aim->tried_fragment_milli = measure(defrag, joined);
    aim->tried_taken_milli = spot->node->free_milli - joined->free_milli;
    must(joined->free_milli <= spot->node->free_milli);
    node_unref(joined);
    allocation_unref(there);
}

static const struct ranked *best_elsewhere(const struct aim *aim, uint32_t at)
{
    must(is_ranked(aim));
    for (uint32_t i = 0; i < aim->count; i++)
        if (aim->best[i].at != at)
            return &aim->best[i];
    must(aim->all);
    return NULL;
}

/*
 * The best move of the pod. A move that changes the total free milli gains nothing: it comes from a
 * closed GPU, or closes one.
 */
static struct chance chance_of(struct defrag *defrag, struct pod_there *pod)
{
    const struct spot *spot = &defrag->spot[pod->at];
    struct aim *aim = &defrag->aim[pod->aim];
    const struct ranked *best = best_elsewhere(aim, pod->at);

    must(pod->aim < defrag->ranked);
    if (!pod->knows_home)
        look_home(defrag, pod);
    must(pod->knows_home);
    struct chance chance = {.pod = pod, .to = pod->at};
    must(!pod->moved);
    if (pod->is_returning && (best == NULL || order_cmp(&pod->home, &best->rank) < 0)) {
        if (pod->home_taken_milli == pod->given_milli)
            chance.gain_milli = (int64_t)spot->fragment_milli - pod->home_fragment_milli;
    } else if (best != NULL) {
        chance.to = best->at;
        look_there(defrag, aim, best->at, pod->allocation);
        if (aim->tried_taken_milli == pod->given_milli)
            chance.gain_milli = (int64_t)spot->fragment_milli - pod->left_fragment_milli +
                                defrag->spot[best->at].fragment_milli - aim->tried_fragment_milli;
    }
    return chance;
}

/* Candidates are in order, so ties keep the first. */
static bool is_better(const struct chance *chance, const struct chance *than)
{
    must(chance->pod != NULL && than->pod != NULL);
    must(chance->pod != than->pod);
    const int64_t more = chance->gain_milli - than->gain_milli;
    return more > 0 || (more == 0 && chance->pod->given_milli < than->pod->given_milli);
}

static struct chance best_chance(struct defrag *defrag)
{
    const struct defrag_question *question = defrag->question;
    struct chance best = {.pod = NULL};

    must(question->min_gain_milli > 0);
    for (uint32_t i = 0; i < defrag->n_pods; i++) {
        struct pod_there *pod = &defrag->pod[i];
        if (pod->moved || pod->aim >= defrag->ranked)
            continue;
        if (!is_ranked(&defrag->aim[pod->aim]))
            rank_all(defrag, &defrag->aim[pod->aim]);
        if (has_spent(defrag, question->steps))
            break;
        const struct chance chance = chance_of(defrag, pod);
        if (chance.gain_milli >= question->min_gain_milli &&
            (best.pod == NULL || is_better(&chance, &best)))
            best = chance;
    }
    must(best.pod == NULL || best.gain_milli > 0);
    return best;
}

/*
 * Moves
 */

static void change_nodes(struct defrag *defrag, const struct chance *chance,
                         const struct node *take_left, const struct node *joined)
{
    const uint32_t from = chance->pod->at;

    must(chance->pod->moved);
    must(defrag->ranked <= defrag->n_aims);
    if (from == chance->to)
        node_unref(take_left);
    else
        replace_node(defrag, from, take_left);
    replace_node(defrag, chance->to, node_ref(joined));
    for (uint32_t i = 0; i < defrag->ranked; i++) {
        rank_again(defrag, &defrag->aim[i], from);
        if (from != chance->to)
            rank_again(defrag, &defrag->aim[i], chance->to);
    }
}

static void make_move(struct defrag *defrag, const struct chance *chance)
{
    struct defrag_plan *plan = defrag->plan;
    struct defrag_move *move = &plan->move[plan->n_moves++];
    struct aim *aim = &defrag->aim[chance->pod->aim];
    const struct node *from = defrag->spot[chance->pod->at].node;
    const struct node *left = node_left(from, chance->pod->allocation, aim->request);
    const struct node *onto = chance->to == chance->pod->at ? left : defrag->spot[chance->to].node;
    const struct policy_question question = question_about(defrag, onto, chance->to);
    struct rank rank;

    must(plan->n_moves <= DEFRAG_MOVES_MAX);
    move->from = chance->pod->allocation;
    move->from_node = node_ref(from);
    move->to = place_on(defrag, aim, &question, chance->pod->allocation, &rank);
    must(move->to != NULL);
    move->to_node = node_joined(onto, move->to, aim->request);
    move->gain_milli = (uint32_t)chance->gain_milli;
    must(move->gain_milli >= defrag->question->min_gain_milli);
    must(move->gain_milli <= plan->fragment_milli_after);
    chance->pod->moved = true;
    plan->fragment_milli_after -= move->gain_milli;
    change_nodes(defrag, chance, left, move->to_node);
}

static void make_moves(struct defrag *defrag)
{
    const struct defrag_question *question = defrag->question;
    struct defrag_plan *plan = defrag->plan;
    bool more = true;

    must(plan->n_moves == 0);
    must(question->moves > 0 && question->moves <= DEFRAG_MOVES_MAX);
    rank_aims(defrag);
    while (more && plan->n_moves < question->moves) {
        const struct chance chance = best_chance(defrag);
        const bool spent = has_spent(defrag, question->steps);
        plan->cut_short = plan->cut_short || spent;
        if (chance.pod != NULL)
            make_move(defrag, &chance);
        more = chance.pod != NULL && !spent;
    }
}

/*
 * The plan
 */

static void count_shapes(struct defrag *defrag, bool after)
{
    struct defrag_plan *plan = defrag->plan;
    CLEANUP(xfreep) struct shape_counter *counter = xmalloc(sizeof *counter);
    uint64_t count[DEFRAG_SHAPES] = {0};

    must(plan->learned);
    shape_counter_init(counter, defrag->question->snapshot->context->workload);
    for (uint32_t at = 0; at < defrag->n_spots; at++)
        shape_counter_add(counter, defrag->spot[at].node, count);
    plan->n_shapes = counter->n_shapes;
    must(plan->n_shapes <= DEFRAG_SHAPES);
    for (uint32_t i = 0; i < plan->n_shapes; i++) {
        plan->shape[i].class = shape_counter_class(counter, i);
        *(after ? &plan->shape[i].after : &plan->shape[i].before) = count[i];
    }
    shape_counter_done(counter);
}

static void defrag_done(struct defrag *defrag)
{
    must(defrag->plan != NULL);
    must(defrag->n_pods <= DEFRAG_PODS_MAX);
    for (uint32_t i = 0; i < defrag->n_spots; i++)
        node_unref(defrag->spot[i].node);
    for (uint32_t i = 0; i < defrag->n_aims; i++)
        xfree(defrag->aim[i].request);
    xfree(defrag->spot);
    xfree(defrag->pod);
    xfree(defrag->aim);
    fragments_free(defrag->fragments);
    score_cache_free(defrag->cache);
}

struct defrag_plan *defrag_plan_new(const struct defrag_question *question)
{
    const struct policy_context *context = question->snapshot->context;
    struct defrag defrag = {.question = question, .plan = xcalloc(1, sizeof *defrag.plan)};

    must(question->request_of != NULL);
    must(question->min_gain_milli > 0);
    defrag.fragments = fragments_new_for(question->snapshot);
    defrag.plan->learned = defrag.fragments != NULL;
    gather_nodes(&defrag);
    if (defrag.plan->learned) {
        if (policy_context_needs_workload(context))
            defrag.cache = score_cache_new();
        count_shapes(&defrag, false);
        gather_pods(&defrag);
        make_moves(&defrag);
        count_shapes(&defrag, true);
    }
    defrag_done(&defrag);
    return defrag.plan;
}

void defrag_plan_free(struct defrag_plan *plan)
{
    if (plan == NULL)
        return;
    must(plan->n_moves <= DEFRAG_MOVES_MAX);
    must(plan->fragment_milli_after <= plan->fragment_milli);
    for (uint32_t i = 0; i < plan->n_moves; i++) {
        allocation_unref(plan->move[i].to);
        node_unref(plan->move[i].from_node);
        node_unref(plan->move[i].to_node);
    }
    xfree(plan);
}
