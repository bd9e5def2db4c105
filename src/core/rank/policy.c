/*
 * Implements the rules of the policies: the best placement of a node, and the order of nodes.
 * Called by filter and by the ledger (bind, adoption), in their threads; all cluster state is in
 * the immutable policy context, and cached results are in the caller's score cache. binpack,
 * firstfit and spread use the numbers of the search itself. fgd and rollout judge the node as a
 * whole, so every distinct placement is judged (place_each()), within the limits in policy.h.
 * Parts: order of nodes, keys, placements one by one, the question.
 */
#include "milligpu/core/rank/policy.h"

#include "milligpu/base/alloc.h"

#include "score_cache.h"

/*
 * The order of nodes
 */

/* The rules of policy.h, in their order. */
int order_cmp(const struct rank *a, const struct rank *b)
{
    must(a->node != NULL);
    must(b->node != NULL);

    if (a->behind != b->behind)
        return a->behind ? 1 : -1;
    if (a->is_unscored != b->is_unscored)
        return a->is_unscored ? 1 : -1;
    if (a->price != b->price) /* rule a */
        return a->price < b->price ? -1 : 1;
    if (a->distance != b->distance) /* rule b */
        return a->distance < b->distance ? -1 : 1;
    if (a->pool != b->pool) /* rule c */
        return a->pool < b->pool ? -1 : 1;
    for (uint32_t i = 0; i < ARRAY_LEN(a->key); i++) /* rules 1 to 3 */
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    if (a->order != b->order) /* rule 4 */
        return a->order < b->order ? -1 : 1;
    const int names = atom_cmp(a->node, b->node);
    if (names != 0)
        return names;
    must(a->turn != b->turn); /* rule 5 */
    return a->turn < b->turn ? -1 : 1;
}

/*
 * Keys of a placement by its own numbers
 */

/* The policy under this rule (NULL: no rule). */
static const struct policy *policy_asked(const struct policy_question *question,
                                         const struct rule *rule)
{
    must(question->node != NULL);
    must(rule == NULL || question->context != NULL);
    if (question->context == NULL || question->is_unscored)
        return &policy_binpack;
    return policy_of(policy_context_kind(question->context, rule));
}

/*
 * Rule c: keys of different policies are not comparable. Nodes under the document's own policy come
 * first, then those of the first rule that names another one, and so on.
 */
static uint32_t pool_of(const struct rulebook *book, const struct rule *rule)
{
    uint32_t at = 0;

    if (rule == NULL || !rule->has_order || rule->policy == book->policy)
        return 0;
    while (!book->rule[at].has_order || book->rule[at].policy != rule->policy)
        at++;
    must(at < book->n_rules);
    must(&book->rule[at] <= rule);
    return at + 1;
}

static void set_keys(const struct policy *policy, struct rank *rank)
{
    must(rank->key[0] == 0 && rank->key[1] == 0 && rank->key[2] == 0);
    must(rank->charge_milli > 0 || rank->left_milli == 0);
    policy_keys(policy, rank->charge_milli, rank->left_milli, rank->free_milli, rank->key);
}

const struct policy policy_binpack = {
    .name = "binpack",
    .help = "tightest hole, fullest node",
    .choice = PLACE_TIGHTEST,
    .fit = 1,
};

const struct policy policy_spread = {
    .name = "spread",
    .help = "emptiest GPUs, emptiest node",
    .choice = PLACE_LOOSEST,
    .fit = -1,
};

const struct policy policy_firstfit = {
    .name = "firstfit",
    .help = "first node and first GPUs that fit, in a fixed order",
    .shuffles = true,
    .choice = PLACE_FIRST,
};

/*
 * Placements of several wants, one by one: firstfit and spread
 */

struct browsing {
    const struct policy *policy;
    const struct node *node;
    const struct request *request;
    uint32_t gpus; /* GPUs of the room */
    uint32_t seen;
    uint64_t work;
    struct rank best;
    struct placement *placement; /* NULL: not needed */
};

static bool browse(void *user, const struct placement *placement)
{
    struct browsing *browsing = user;
    struct rank rank = {
        .charge_milli = placement->charge_milli,
        .left_milli = placement->left_milli,
        .free_milli = placement->free_milli,
        .turn = browsing->seen,
        .node = browsing->node->name,
    };

    must(browsing->seen < LAYOUTS_MAX);
    must(placement->n_parts > 0);
    browsing->work += layout_work(browsing->gpus, browsing->request, placement);
    set_keys(browsing->policy, &rank);
    if (browsing->seen == 0 || order_cmp(&rank, &browsing->best) < 0) {
        browsing->best = rank;
        if (browsing->placement != NULL)
            *browsing->placement = *placement;
    }
    browsing->seen++;
    return browsing->policy->fit != 0 && browsing->seen < LAYOUTS_MAX;
}

/* If no placement is visited within the steps, *out keeps the result of the search. */
static void browse_all(const struct policy *policy, const struct node *node, struct plan *plan,
                       const struct room *room, struct rank *out, struct placement *out_placement)
{
    struct browsing browsing = {
        .policy = policy,
        .node = node,
        .request = plan->request,
        .gpus = room->n_gpus,
        .placement = out_placement,
    };

    must(plan->request->n_wants > 1);
    const enum place_end end = place_each(plan, room, plan->steps, &browsing, browse);
    out->work = work_of(browsing.work + (uint64_t)STEP_WORK * plan->walked);
    out->exact = end == PLACE_ALL || (end == PLACE_STOPPED && policy->fit == 0);
    if (browsing.seen > 0) {
        must(browsing.best.charge_milli > 0);
        out->charge_milli = browsing.best.charge_milli;
        out->left_milli = browsing.best.left_milli;
    }
    if (out_placement != NULL)
        out_placement->exact = out->exact;
}

uint32_t policy_steps_work(uint32_t steps)
{
    return work_of((uint64_t)steps * STEP_WORK);
}

void policy_say_reserve(const struct policy_context *context, uint32_t rule, struct strbuf *out)
{
    must(context->rulebook != NULL && rule < context->rulebook->n_rules);

    const struct rule *keeper = &context->rulebook->rule[rule];
    const uint32_t idle = context->idle[rule];
    must(keeper->reserve > 0);
    must(idle <= keeper->reserve);
    strbuf_printf(out,
                  "policy rule %u (%s): keeps %u idle %s for pods of several GPUs, and %u %s idle",
                  rule + 1, keeper->name, keeper->reserve, keeper->reserve == 1 ? "host" : "hosts",
                  idle, idle == 1 ? "is" : "are");
}

void policy_refuse(const struct policy_context *context, struct cause cause,
                   const struct request *request, struct refusal *out)
{
    must(cause.why > REASON_NONE);
    if (cause.why != REASON_RULE) {
        request_refuse(request, cause.why, out);
        return;
    }
    must(cause.rule < context->rulebook->n_rules);
    rulebook_refuse(context->rulebook, &context->rulebook->rule[cause.rule], request, out);
}

/*
 * The question
 */

static void set_order(const struct policy_question *question, const struct policy *policy,
                      const struct rule *rule, struct rank *out)
{
    must(question->context != NULL || policy == &policy_binpack);
    out->node = question->node->name;
    out->is_unscored = question->is_unscored;
    out->order = policy_node_order(question->context, policy, question->node->name);
    out->pool = rule == NULL || out->is_unscored ? 0 : pool_of(question->context->rulebook, rule);
    must(!out->is_unscored || out->order == 0);
}

/* For what is cached: only those of one container have all that their rank has. */
static void scores_of_rank(const struct policy *policy, enum reason why, const struct rank *rank,
                           struct placement_scores *out)
{
    must(policy->waste == NULL);
    *out = (struct placement_scores){
        .policy = policy,
        .why = why,
        .exact = rank->exact,
        .distance = rank->distance,
        .price = rank->price,
        .raised_milli = rank->raised_milli,
        .left_milli = rank->left_milli,
        .free_milli = rank->free_milli,
    };
    must(rank->judged == 0);
}

/* Judges by the numbers of a placement. The search is the same with and without out_placement. */
static enum reason score_plainly(const struct policy *policy, const struct node *node,
                                 struct plan *plan, const struct room *room, struct rank *out,
                                 struct placement *out_placement)
{
    plan->choice = policy->choice;
    const enum reason why = out_placement == NULL ? place_evaluate(plan, room, out)
                                                  : place_find(plan, room, out, out_placement);
    if (out_placement != NULL)
        out->exact = out_placement->exact;
    if (why != REASON_NONE)
        return why;
    if (policy->choice != PLACE_TIGHTEST && plan->request->n_wants > 1)
        browse_all(policy, node, plan, room, out, out_placement);
    set_keys(policy, out);
    must(out_placement == NULL || out_placement->charge_milli == out->charge_milli);
    return REASON_NONE;
}

/* Judges by the policy under plan->rule. */
static enum reason score_anew(const struct policy_question *question, struct plan *plan,
                              const struct room *room, struct placement_scores *scores,
                              struct rank *out, struct placement *out_placement)
{
    const struct policy *policy = policy_asked(question, plan->rule);

    must(out != NULL);
    /* One container is searched faster than an exception is worth. */
    plan->skips_tiers = question->is_unscored && plan->request->n_wants > 1;
    const enum reason why =
        policy->waste != NULL
            ? score_room(question, plan, room, scores, out, out_placement)
            : score_plainly(policy, question->node, plan, room, out, out_placement);
    if (policy->waste == NULL)
        scores_of_rank(policy, why, out, scores);
    set_order(question, policy, plan->rule, out);
    return why;
}

enum reason policy_score_room(const struct policy_question *question, struct plan *plan,
                              const struct room *room, struct rank *out,
                              struct placement *out_placement)
{
    struct placement_scores scores;

    must(room != NULL);
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    plan_obey(plan, plan_rule(plan, &question->node->rules));
    return score_anew(question, plan, room, &scores, out, out_placement);
}

/*
 * Not cached under a reserve: the number of idle hosts is no property of the node. Nor beyond the
 * limit of work, where another policy judges.
 */
static bool is_remembered(const struct policy_question *question, const struct plan *plan,
                          const struct rule *rule)
{
    must(plan->request != NULL);
    return question->context != NULL && !question->is_unscored && !plan_reserve_matters(plan, rule);
}

/* Without the rule: a node is cached only under rules that let it be (is_remembered). */
void policy_recall(const struct score_cache *cache, const struct plan *plan, uint32_t count,
                   const struct node *const *node, const uint32_t *slot, struct policy_brief *out)
{
    must(count == 0 || (node != NULL && slot != NULL));
    score_cache_briefs(cache, count, node, slot, out);
    if (plan->rules == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (out[i].known && out[i].why == REASON_NONE)
            out[i].head.level += pool_of(plan->context->rulebook, plan_rule(plan, &node[i]->rules));
}

void policy_recalled(struct score_cache *cache, uint32_t count)
{
    must(cache != NULL || count == 0);
    must(count <= NODES_MAX);
    if (count > 0)
        score_cache_count(cache, count);
}

bool policy_is_behind(const struct policy_brief *brief, const struct node *node,
                      const struct order_head *worst_head, const struct rank *worst)
{
    const int heads = order_head_cmp(&brief->head, worst_head);

    must(brief->known && brief->why == REASON_NONE);
    if (heads != 0)
        return heads > 0;
    if (brief->order != worst->order)
        return brief->order > worst->order;
    return atom_cmp(node->name, worst->node) > 0; /* a name that comes twice is judged */
}

/* taken: NULL, or shares that the room lacks. */
static enum reason score_or_recall(const struct policy_question *question, struct plan *plan,
                                   const struct taken *taken, struct rank *out)
{
    const struct rule *rule = plan_rule(plan, &question->node->rules);
    const bool remembered = is_remembered(question, plan, rule);
    UNSET struct placement_scores scores;
    UNSET struct room room;
    enum reason why;

    must(out != NULL);
    plan_obey(plan, rule);
    if (remembered && score_cache_find(question, taken, &why, out)) {
        out->pool = pool_of(question->context->rulebook, rule);
        return why;
    }
    room_of(question->node, &room);
    if (taken != NULL)
        room_take_all(&room, taken);
    why = score_anew(question, plan, &room, &scores, out, NULL);
    if (remembered)
        score_cache_keep(question, taken, &scores);
    must(room.n_gpus <= GPUS_PER_NODE_MAX);
    return why;
}

enum reason policy_score(const struct policy_question *question, struct plan *plan,
                         struct rank *out)
{
    must(plan != NULL);
    must(out != NULL);
    return score_or_recall(question, plan, NULL, out);
}

enum reason policy_score_beside(const struct policy_question *question, struct plan *plan,
                                const struct taken *taken, struct rank *out)
{
    must(taken != NULL);
    must(taken->count > 0);
    return score_or_recall(question, plan, taken, out);
}
