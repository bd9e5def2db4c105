/*
 * Finds the nodes that fit a request, and orders them: for filter, prioritize, preempt and the view
 * of one pod. Called by webhooks.c and api_pods.c in HTTP threads, on a snapshot that the caller
 * holds and with memory from its arena. Whether a node fits depends on snapshot and request alone;
 * offers only change the order. A question names up to thousands of nodes, so each costs
 * one look-up and one judgement, only the best are kept, and only the very best is placed. Parts:
 * offers, judging, ranking, asking, texts for people, refusals.
 */
#include "milligpu/core/answer/filter.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/answer/unschedulable.h"

const char FILTER_SPEAKS_FOR_ALL[] = " (one entry for all such nodes)";

/* Offers by node: a hash table with chaining. */
struct offer_index {
    uint32_t mask;  /* table length - 1, a power of two minus 1; 0: no offers */
    uint32_t *head; /* index of an offer + 1; 0: end of the chain */
    uint32_t *next;
};

/* An element of the heap of candidates, with what most comparisons need. */
struct listed {
    struct order_head head;
    uint32_t at; /* index of the candidate */
};

/* State shared by all node names of one question. */
struct filter_call {
    const struct filter_question *question;
    struct policy_question policy; /* node and slot are those of the current name */
    struct offer_index index;
    struct plan plan;
    uint64_t steps;
    uint64_t work; /* of judgements, in units of policy.h */
    uint64_t work_max;
    uint32_t most; /* maximum length of the list */
    struct listed *heap;
    uint32_t recalled; /* nodes judged by their cached judgement alone */
};

/*
 * Hashes the address only: an offer may have ended since it was copied, and its node's name may
 * have been freed. The snapshot is older than the copy, so an equal address is the same node.
 */
static uint32_t place_in_index(const struct offer_index *index, const struct atom *node)
{
    must(node != NULL);
    return (uint32_t)((uintptr_t)node / 16) & index->mask;
}

/* A table, because offers are looked up for each node. */
static void index_offers(const struct filter_question *question, struct arena *arena,
                         struct offer_index *out)
{
    uint32_t slots = 16;

    *out = (struct offer_index){0};
    must(question->n_offers == 0 || question->offer != NULL);
    must(question->n_offers < UINT32_MAX / 4);
    if (question->n_offers == 0)
        return;
    while (slots < 2 * question->n_offers)
        slots *= 2;
    out->mask = slots - 1;
    must((out->mask & slots) == 0);
    out->head = arena_array(arena, slots, sizeof *out->head);
    out->next = arena_array(arena, question->n_offers, sizeof *out->next);
    for (uint32_t i = 0; i < question->n_offers; i++) {
        uint32_t *head = &out->head[place_in_index(out, question->offer[i].node)];
        out->next[i] = *head;
        *head = i + 1;
    }
}

/* False: the node has no offers. */
static bool may_have_offers(const struct filter_call *asking, const struct node *node)
{
    const struct offer_index *index = &asking->index;

    must(node != NULL);
    return index->mask != 0 && index->head[place_in_index(index, node->name)] > 0;
}

/* Sets *out to what the node's offers take from it; false, with *out unset, if nothing. */
static bool taken_by_offers(const struct filter_call *asking, const struct node *node,
                            struct taken *out)
{
    const struct offer_index *index = &asking->index;
    const uint32_t gpus = node_room_gpus(node);

    if (!may_have_offers(asking, node))
        return false;
    *out = (struct taken){0};
    uint32_t at = index->head[place_in_index(index, node->name)];
    for (; at > 0; at = index->next[at - 1]) {
        must(at <= asking->question->n_offers);
        const struct offer *offer = &asking->question->offer[at - 1];
        if (offer->node != node->name)
            continue;
        for (uint32_t i = 0; i < gpus; i++)
            if (node->gpu[i].id == offer->gpu)
                taken_add(out, i, offer->milli);
    }
    return out->count > 0;
}

/* paid: steps that the question has paid for in advance. */
static void count_work(struct filter_call *asking, const struct rank *rank, uint32_t paid)
{
    must(rank->work <= NODE_WORK_MAX);
    must(asking->plan.request != NULL);
    asking->steps += rank->steps;
    asking->work += rank->work;
    /* The steps for one container are few, and unknown if its judgement was cached. */
    if (rank->steps > paid && asking->plan.request->n_wants > 1)
        asking->work += policy_steps_work(rank->steps - paid);
}

/* Offers only affect the rank, never whether the request fits. */
static enum reason filter_evaluate(struct filter_call *asking, struct candidate *candidate)
{
    const struct node *node = candidate->node;
    UNSET struct rank beside_offers;
    UNSET struct taken taken;

    must(node != NULL);
    asking->policy.node = node;
    asking->policy.slot = candidate->slot;
    asking->policy.is_unscored = asking->work >= asking->work_max;
    const enum reason why = policy_score(&asking->policy, &asking->plan, &candidate->rank);
    count_work(asking, &candidate->rank, PLACE_STEPS_MAX);
    if (why != REASON_NONE || !taken_by_offers(asking, node, &taken))
        return why;
    /* No second search once the work is used up. */
    if (asking->policy.is_unscored && asking->plan.request->n_wants > 1) {
        candidate->rank.behind = true;
        return REASON_NONE;
    }
    candidate->rank.behind =
        policy_score_beside(&asking->policy, &asking->plan, &taken, &beside_offers) != REASON_NONE;
    count_work(asking, &beside_offers, 0);
    if (!candidate->rank.behind)
        candidate->rank = beside_offers;
    must(candidate->rank.charge_milli > 0 || asking->plan.request->n_wants == 0);
    return REASON_NONE;
}

/* Places the request on the best candidate, on which it fits. */
static void filter_place(struct filter_call *asking, struct candidate *best, struct placement *out)
{
    struct rank rank;
    UNSET struct taken taken;
    UNSET struct room room;

    must(best->placement == NULL);
    must(best->node != NULL);
    room_of(best->node, &room);
    if (!best->rank.behind && taken_by_offers(asking, best->node, &taken))
        room_take_all(&room, &taken);
    asking->policy.node = best->node;
    asking->policy.slot = best->slot;
    asking->policy.is_unscored = best->rank.is_unscored;
    must(policy_score_room(&asking->policy, &asking->plan, &room, &rank, out) == REASON_NONE);
    must(out->charge_milli == best->rank.charge_milli);
    must(rank.key[0] == best->rank.key[0] && rank.order == best->rank.order);
    must(out->distance == best->rank.distance);
    best->placement = out;
}

/*
 * The best candidates so far: a heap with the worst of them at the root. Its elements are small,
 * because candidates are large and most elements are moved several times.
 */

static bool is_worse(const struct filter_answer *out, const struct listed *a,
                     const struct listed *b)
{
    must(a->at != b->at);
    must_debug(a->at <= out->n_candidates && b->at <= out->n_candidates);
    const int heads = order_head_cmp(&a->head, &b->head);
    if (heads != 0)
        return heads > 0;
    return order_cmp(&out->candidate[a->at].rank, &out->candidate[b->at].rank) > 0;
}

/* Sifts the root down. */
static void filter_sink(const struct filter_answer *out, struct listed *heap, uint32_t count)
{
    must(count > 0);
    must(count <= out->n_candidates);

    const struct listed root = heap[0];
    uint32_t at = 0;

    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_worse(out, &heap[child + 1], &heap[child]))
            child++;
        if (!is_worse(out, &heap[child], &root))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = root;
}

static void filter_rise(const struct filter_answer *out, struct listed *heap, uint32_t at)
{
    const struct listed risen = heap[at];

    while (at > 0 && is_worse(out, &risen, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = risen;
    must_debug(at == 0 || !is_worse(out, &heap[at], &heap[(at - 1) / 2]));
}

/* The worst of a full list: a candidate behind it is not listed. NULL: there is room. */
static const struct listed *worst_listed(const struct filter_call *asking,
                                         const struct filter_answer *out)
{
    must(out->n_candidates <= asking->most);
    must(asking->heap != NULL);
    return out->n_candidates < asking->most ? NULL : &asking->heap[0];
}

/* A candidate worse than the worst one kept costs one comparison. */
static void filter_consider(struct filter_call *asking, struct filter_answer *out,
                            const struct candidate *candidate)
{
    const struct listed *worst = worst_listed(asking, out);
    const struct order_head head = order_head_of(&candidate->rank);

    must(asking->most > 0);
    if (worst == NULL) {
        out->candidate[out->n_candidates] = *candidate;
        asking->heap[out->n_candidates] = (struct listed){head, out->n_candidates};
        filter_rise(out, asking->heap, out->n_candidates++);
        return;
    }
    const int heads = order_head_cmp(&head, &worst->head);
    if (heads > 0 ||
        (heads == 0 && order_cmp(&candidate->rank, &out->candidate[worst->at].rank) > 0))
        return;
    out->candidate[worst->at] = *candidate;
    asking->heap[0].head = head;
    filter_sink(out, asking->heap, out->n_candidates);
}

/* Moves each candidate once, along the circles of the permutation: i gets that of sorted[i]. */
static void move_candidates(struct candidate *candidate, struct listed *sorted, uint32_t count)
{
    must(count == 0 || candidate != NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (sorted[i].at == i)
            continue;
        const struct candidate first = candidate[i];
        uint32_t at = i;
        while (sorted[at].at != i) {
            const uint32_t from = sorted[at].at;
            must(from < count);
            candidate[at] = candidate[from];
            sorted[at].at = at;
            at = from;
        }
        candidate[at] = first;
        sorted[at].at = at;
        must(sorted[i].at == i);
    }
}

/* The second half of a heap sort: moves the worst, at the root, to the end. */
static void sort_best_first(struct filter_answer *out, struct listed *heap)
{
    must(out->n_candidates == 0 || heap[0].at < out->n_candidates);
    for (uint32_t rest = out->n_candidates; rest > 1; rest--) {
        const struct listed worst = heap[0];
        heap[0] = heap[rest - 1];
        filter_sink(out, heap, rest - 1);
        heap[rest - 1] = worst;
    }
    move_candidates(out->candidate, heap, out->n_candidates);
    for (uint32_t i = 1; i < out->n_candidates; i++)
        must_debug(order_cmp(&out->candidate[i - 1].rank, &out->candidate[i].rank) < 0);
}

enum { AT_ONCE = 32, CACHE_LINE = 64 };

/* The next nodes of a question. */
struct name_batch {
    uint32_t count;
    const struct node *node[AT_ONCE];
    uint32_t slot[AT_ONCE];
    struct policy_brief brief[AT_ONCE];
};

/* Prefetches the GPUs of the nodes without a cached judgement. */
static void send_for_gpus(const struct name_batch *batch)
{
    must(batch->count > 0);
    must(batch->count <= AT_ONCE);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct node *node = batch->node[i];
        if (node == NULL || batch->brief[i].known)
            continue;
        for (size_t at = 0; at < node->n_gpus * sizeof node->gpu[0]; at += CACHE_LINE)
            __builtin_prefetch((const char *)node->gpu + at);
    }
}

/* Returns the number of names, from first on, whose nodes are in the same slots as when known. */
static uint32_t find_known(const struct filter_question *question, uint32_t first, uint32_t count,
                           const struct node **node, uint32_t *slot)
{
    uint32_t found = 0;

    must(count <= AT_ONCE);
    if (question->known == NULL)
        return 0;
    must(question->known_in != NULL);
    const bool same = question->known_in == question->snapshot;
    for (; found < count; found++) {
        const struct known_node *known = &question->known[first + found];
        node[found] = same ? known->node : snapshot_node_again(question->snapshot, known);
        if (node[found] == NULL)
            break;
        slot[found] = known->slot;
    }
    return found;
}

/*
 * Looks up at most AT_ONCE names from first on. Batched, because a look-up mostly waits for memory
 * (snapshot_nodes()).
 */
static void find_nodes(const struct filter_call *asking, uint32_t first, struct name_batch *out)
{
    const struct filter_question *question = asking->question;
    const uint32_t left = question->n_names - first;
    const uint32_t count = left < AT_ONCE ? left : AT_ONCE;
    uint32_t hash[AT_ONCE];

    must(first < question->n_names);
    out->count = count;
    const uint32_t known = find_known(question, first, count, out->node, out->slot);
    must(known <= count);
    for (uint32_t i = known; i < count; i++)
        hash[i] = question->hash != NULL ? question->hash[first + i]
                                         : text_hash(question->name[first + i]);
    if (known < count)
        snapshot_nodes(question->snapshot, count - known, &question->name[first + known],
                       &hash[known], &out->node[known], &out->slot[known]);
    for (uint32_t i = 0; i < count && question->node != NULL; i++)
        if (out->node[i] == NULL)
            out->node[i] = question->node[first + i];
    policy_recall(question->cache, &asking->plan, count, out->node, out->slot, out->brief);
    send_for_gpus(out);
}

/* Is the node behind all that are listed? Not if it has offers, which change its rank. */
static bool is_behind_list(const struct filter_call *asking, const struct filter_answer *out,
                           const struct node *node, const struct policy_brief *brief)
{
    const struct listed *worst = worst_listed(asking, out);

    must_debug(brief->known && brief->why == REASON_NONE);
    return worst != NULL &&
           policy_is_behind(brief, node, &worst->head, &out->candidate[worst->at].rank) &&
           !may_have_offers(asking, node);
}

/*
 * Judges a node by its cached judgement alone, if that is enough: most nodes come behind those that
 * are listed already, or refuse. Beyond the limit of work, cached judgements are not used.
 */
static bool filter_dismiss(struct filter_call *asking, const struct filter_answer *out,
                           const struct node *node, const struct policy_brief *brief,
                           enum reason *out_why)
{
    must(node != NULL);
    if (!brief->known || asking->work >= asking->work_max)
        return false;
    if (brief->why != REASON_NONE)
        plan_obey(&asking->plan, plan_rule(&asking->plan, &node->rules)); /* for plan_cause() */
    else if (is_behind_list(asking, out, node, brief))
        asking->work += brief->work;
    else
        return false;
    asking->recalled++;
    must(asking->recalled <= asking->question->n_names);
    *out_why = brief->why;
    return true;
}

/* Evaluates a node, and lists it if it is among the best. */
static enum reason filter_weigh(struct filter_call *asking, uint32_t name, const struct node *node,
                                uint32_t slot, struct filter_answer *out)
{
    UNSET struct candidate candidate; /* its rank is set by filter_evaluate() */

    candidate.name = name;
    candidate.slot = slot;
    candidate.node = node;
    candidate.placement = NULL;
    must(name < asking->question->n_names);
    const enum reason why = filter_evaluate(asking, &candidate);
    if (why != REASON_NONE)
        return why;
    candidate.rank.turn = name; /* a name may be given twice */
    filter_consider(asking, out, &candidate);
    return REASON_NONE;
}

/*
 * Judges every name although only the best are kept: fitting counts all nodes, and if none fits
 * each name needs its reason.
 */
static void ask_all(struct filter_call *asking, struct filter_answer *out)
{
    const uint32_t names = asking->question->n_names;
    struct name_batch batch = {.count = 0};

    for (uint32_t first = 0; first < names; first += AT_ONCE) {
        find_nodes(asking, first, &batch);
        for (uint32_t i = 0; i < batch.count; i++) {
            const struct node *node = batch.node[i];
            enum reason why = REASON_UNKNOWN_NODE;
            if (node != NULL && !filter_dismiss(asking, out, node, &batch.brief[i], &why))
                why = filter_weigh(asking, first + i, node, batch.slot[i], out);
            if (why == REASON_NONE)
                out->fitting++; /* its cause is unset: REASON_NONE */
            else
                out->cause[first + i] = plan_cause(&asking->plan, why);
        }
    }
    policy_recalled(asking->question->cache, asking->recalled);
    must(out->n_candidates == (out->fitting < asking->most ? out->fitting : asking->most));
    sort_best_first(out, asking->heap);
}
static_assert(REASON_NONE == 0, "a cause in zeroed memory");

/* A pod with a reservation can only go to its node. */
static void ask_held(const struct filter_question *question, struct placement *placement,
                     struct filter_answer *out)
{
    must(out->held != NULL);
    must(allocation_is_open(out->held));
    const bool disputed = out->held->facts.listed_unbound;
    out->verdict = disputed ? FILTER_LISTED_UNBOUND : FILTER_HELD_ELSEWHERE;
    for (uint32_t i = 0; i < question->n_names; i++) {
        out->cause[i].why = REASON_ELSEWHERE;
        if (disputed || out->n_candidates > 0 ||
            !text_eq(question->name[i], atom_text(out->held->facts.node)))
            continue;
        out->verdict = FILTER_RESERVED;
        out->cause[i].why = REASON_NONE;
        out->fitting = 1;
        out->n_candidates = 1;
        out->candidate[0] = (struct candidate){
            .name = i,
            .slot = SNAPSHOT_NO_SLOT, /* nothing is judged */
            .node = snapshot_node(question->snapshot, question->name[i]),
            .placement = placement,
        };
        must(out->candidate[0].node !=
             NULL); /* a snapshot contains the nodes of all open reservations */
    }
    *placement = (struct placement){.charge_milli = allocation_milli(out->held)};
    must(placement->charge_milli > 0 || out->held->facts.held_gpus > 0);
}

/* filter_ask(), with the placement of the best candidate only if places is set. */
static void ask(const struct filter_question *question, struct arena *arena, bool places,
                struct filter_answer *out)
{
    UNSET struct filter_call asking;
    const bool bounded = question->shortlist > 0 && question->shortlist < question->n_names;
    const uint32_t most = bounded ? question->shortlist : question->n_names;
    struct placement *placement = arena_alloc(arena, sizeof *placement);

    must(question->snapshot != NULL);
    must(question->n_names == 0 || question->name != NULL);
    *out = (struct filter_answer){
        .cause = arena_array(arena, question->n_names, sizeof *out->cause),
        .candidate = arena_array(arena, most, sizeof *out->candidate),
        .held = question->uid.len > 0 ? snapshot_open(question->snapshot, question->uid) : NULL,
    };
    /* No search: the Binding of the reservation may still take effect. */
    if (out->held != NULL) {
        ask_held(question, placement, out);
        return;
    }
    asking.question = question;
    asking.policy =
        (struct policy_question){.context = question->snapshot->context, .cache = question->cache};
    asking.steps = 0;
    asking.most = most;
    asking.heap = arena_array(arena, most, sizeof *asking.heap);
    asking.recalled = 0;
    /* The search for several containers is paid in advance for each name. */
    asking.work = question->request->n_wants > 1 ? (uint64_t)question->n_names * SEARCH_WORK : 0;
    asking.work_max = policy_work_max(question->n_names);
    policy_begin(question->cache, question->snapshot, question->request);
    plan_init(&asking.plan, question->request, question->snapshot->context);
    plan_remember(&asking.plan, arena);
    index_offers(question, arena, &asking.index);
    ask_all(&asking, out);
    out->steps = asking.steps;
    out->work = asking.work;
    out->verdict = out->n_candidates > 0 ? FILTER_FITS : FILTER_NONE;
    if (out->verdict != FILTER_NONE && places)
        filter_place(&asking, &out->candidate[0], placement);
}

void filter_ask(const struct filter_question *question, struct arena *arena,
                struct filter_answer *out)
{
    must(question->request != NULL);
    must(out != NULL);
    ask(question, arena, true, out);
}

void filter_score(const struct filter_question *question, struct arena *arena, uint8_t *score)
{
    struct filter_question all = *question;
    struct filter_answer answer;

    must(question->n_names == 0 || score != NULL);
    /* kube-scheduler expects a score for each name. */
    all.shortlist = 0;
    ask(&all, arena, false, &answer);
    must(answer.n_candidates == answer.fitting);
    for (uint32_t i = 0; i < question->n_names; i++)
        score[i] = 0;
    for (uint32_t i = 0; i < answer.n_candidates; i++) {
        const uint64_t behind = i > 0 ? (uint64_t)(i - 1) * 10 / (answer.n_candidates - 1) : 0;
        must(behind <= 9);
        score[answer.candidate[i].name] = (uint8_t)(i == 0 ? 10 : 9 - behind);
    }
}

enum reason preempt_ask(const struct policy_context *context, const struct node *node,
                        const struct request *request, const struct allocation *held,
                        const struct text *victims, uint32_t count)
{
    UNSET struct room room;
    UNSET struct plan plan;
    struct rank rank;

    must(request_asks(request));
    if (held != NULL)
        return held->facts.node == node->name && !held->facts.listed_unbound ? REASON_NONE
                                                                             : REASON_ELSEWHERE;
    room_without(node, victims, count, &room);
    must(room.n_gpus <= GPUS_PER_NODE_MAX);
    plan_init(&plan, request, context);
    return place_evaluate(&plan, &room, &rank);
}

void filter_explain(const struct policy_context *context, const struct node *node,
                    const struct request *request, char *out, size_t bytes)
{
    CLEANUP(strbuf_done) struct strbuf text;
    UNSET struct room room;
    UNSET struct plan plan;
    struct rank rank;
    struct moment moment = {0};
    struct refusal refusal;

    must(out != NULL);
    must(bytes > 0);
    room_of(node, &room);
    plan_init(&plan, request, context);
    const struct cause cause = plan_cause(&plan, place_evaluate(&plan, &room, &rank));
    const enum reason why = cause.why;
    moment_add(&moment, &room, node->unusable.why, request);
    strbuf_init(&text);
    strbuf_str(&text, reason_name(why));
    if (why == REASON_RULE) {
        policy_refuse(context, cause, request, &refusal);
        strbuf_printf(&text, ": %s", refusal.text);
    } else if (why == REASON_RESERVE) {
        strbuf_str(&text, ": ");
        policy_say_reserve(context, cause.rule, &text);
    } else if (why != REASON_NONE) {
        strbuf_printf(&text, ": %s", reason_help(why));
    } else if (!rank.exact) {
        strbuf_str(&text, ", not searched to the end: there may be a tighter place");
    }
    /* Current numbers are allowed here, because no pod's condition contains this text. */
    if (unschedulable_has_moment(why)) {
        strbuf_str(&text, "; ");
        moment_format(&text, &moment);
    }
    must(text.len > 0);
    text_clip((struct text){text.data, text.len}, out, bytes);
}

/*
 * The texts of one answer: one per reason, for any number of names, then one for each rule of
 * REASON_RULE.
 */
enum { TEXTS_MAX = REASONS + RULES_MAX };
struct texts {
    const struct filter_question *question;
    bool made[TEXTS_MAX];
    bool spoken[TEXTS_MAX];
    struct refusal refusal[TEXTS_MAX];
};

/* The index of the text for this name. */
static uint32_t text_at(const struct filter_answer *answer, uint32_t name)
{
    const struct cause cause = answer->cause[name];

    must(cause.why > REASON_NONE);
    must(cause.why < REASONS);
    must(cause.rule < RULES_MAX);
    return cause.why == REASON_RULE ? REASONS + cause.rule : (uint32_t)cause.why;
}

static const char *text_for(struct texts *texts, uint32_t at)
{
    const struct cause cause = at < REASONS ? (struct cause){.why = (enum reason)at}
                                            : (struct cause){REASON_RULE, at - REASONS};

    must(at < TEXTS_MAX);
    if (!texts->made[at]) {
        policy_refuse(texts->question->snapshot->context, cause, texts->question->request,
                      &texts->refusal[at]);
        texts->made[at] = true;
    }
    must(texts->refusal[at].text[0] != '\0');
    return texts->refusal[at].text;
}

/* True the first time that this text appears, for any reason. */
static bool first_to_say(struct texts *texts, uint32_t at)
{
    must(at > REASON_NONE);
    must(at < TEXTS_MAX);
    if (texts->spoken[at])
        return false;
    const char *text = text_for(texts, at);
    texts->spoken[at] = true;
    for (uint32_t other = REASON_NONE + 1; other < TEXTS_MAX; other++)
        if (other != at && texts->spoken[other] && strcmp(texts->refusal[other].text, text) == 0)
            return false;
    return true;
}

void filter_refusals(const struct filter_question *question, const struct filter_answer *answer,
                     uint32_t names_max, void *user,
                     void (*emit)(void *user, struct text name, const char *text))
{
    CLEANUP(xfreep) struct texts *texts = xcalloc(1, sizeof *texts);
    char spoken[REASON_BYTES_MAX + sizeof FILTER_SPEAKS_FOR_ALL];

    must(emit != NULL);
    if (answer->verdict != FILTER_NONE)
        return;
    must(answer->fitting == 0);
    must(question->n_names == 0 || answer->cause != NULL);
    texts->question = question;
    /* In a large cluster, one entry per node would repeat one sentence for megabytes. */
    const bool each = question->n_names <= names_max;
    for (uint32_t i = 0; i < question->n_names; i++) {
        const uint32_t at = text_at(answer, i);
        if (each) {
            emit(user, question->name[i], text_for(texts, at));
        } else if (first_to_say(texts, at)) {
            const char *text = text_for(texts, at);
            const size_t len = strlen(text);
            must(len + sizeof FILTER_SPEAKS_FOR_ALL <= sizeof spoken);
            memcpy(spoken, text, len);
            memcpy(spoken + len, FILTER_SPEAKS_FOR_ALL, sizeof FILTER_SPEAKS_FOR_ALL);
            emit(user, question->name[i], spoken);
        }
    }
}
