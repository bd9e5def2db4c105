/*
 * Scores the placements of one node for fgd and rollout: the remaining capacity before and after a
 * placement is compared, by fragment or by idle GPU, and the difference becomes a score. Called by
 * policy.c for each node without a cached score. Every distinct placement is scored, up to
 * LAYOUTS_MAX; if the walk ends before that, binpack's placement is scored, too, so that a pod that
 * fits always gets a place.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "score_cache.h"

struct scoring {
    const struct policy_context *context;
    const struct policy *policy;
    struct score_cache *cache;
    const struct request *request;
    const struct remaining *before;
    uint64_t waste; /* before the placement */
    struct places places;
    uint32_t own; /* the pod's own scarce class; WORKLOAD_SCARCE_MAX: none */
    struct placement_scores *out;
    int64_t merit;         /* of the best placement so far */
    uint32_t charge_milli; /* of the same placement */
    struct placement *placement;
};

/* Also adds its work to scoring->out->work. */
static uint64_t waste_of(const struct scoring *scoring, const struct remaining *remaining)
{
    must(scoring->context->workload != NULL);
    must(scoring->policy->waste != NULL);
    return scoring->policy->waste(scoring->cache, scoring->context->workload, remaining,
                                  &scoring->out->work);
}

/* Sets *out, which must be zero. */
static void score_loss(const struct scoring *scoring, const struct remaining *after,
                       struct loss *out)
{
    must(scoring->own <= WORKLOAD_SCARCE_MAX);
    if (!scoring->policy->prices_places)
        return;
    places_lost(scoring->context->workload, &scoring->places, scoring->before, after, out);
    if (scoring->own < WORKLOAD_SCARCE_MAX && out->count[scoring->own] > 0)
        out->count[scoring->own]--;
}

/* Keeps the best score of each loss; ties keep the first. */
static void add_score(struct placement_scores *out, int64_t base, const struct loss *loss)
{
    must(out->count <= SCORES_MAX);
    for (uint32_t i = 0; i < out->count; i++) {
        if (memcmp(&out->best[i].loss, loss, sizeof *loss) != 0)
            continue;
        out->best[i].base = base > out->best[i].base ? base : out->best[i].base;
        return;
    }
    out->more = out->more || out->count == SCORES_MAX;
    if (!out->more)
        out->best[out->count++] = (struct placement_score){base, *loss};
    must(out->count > 0);
}

static bool score_placement(void *user, const struct placement *placement)
{
    struct scoring *scoring = user;
    struct remaining after = *scoring->before;
    struct loss loss = {0};

    must(scoring->out->judged <= LAYOUTS_MAX);
    scoring->out->work += layout_work(after.n_gpus, scoring->request, placement) +
                          (uint64_t)after.n_gpus * scoring->context->workload->n_scarce;
    remaining_take(&after, scoring->request, placement);
    const int64_t by = (int64_t)(scoring->waste - waste_of(scoring, &after));
    const int64_t base = scoring->policy->score(scoring->context->workload, by, &after);
    score_loss(scoring, &after, &loss);
    const int64_t merit = base - loss_price(scoring->context, &loss);
    add_score(scoring->out, base, &loss);
    if (scoring->out->judged == 0 || merit > scoring->merit) {
        scoring->merit = merit;
        scoring->charge_milli = placement->charge_milli;
        if (scoring->placement != NULL)
            *scoring->placement = *placement;
    }
    return ++scoring->out->judged < LAYOUTS_MAX;
}

static uint32_t find_own(const struct workload *workload, const struct request *request)
{
    struct workload_class class;

    must(request != NULL);
    workload_class_of(request, &class);
    for (uint32_t i = 0; i < workload->n_scarce; i++) {
        must(workload->scarce[i] < workload->n_classes);
        if (workload_alike(&workload->class[workload->scarce[i]], &class))
            return i;
    }
    return WORKLOAD_SCARCE_MAX;
}

/* Scores all placements of the walk, and if it did not complete, also the tightest one found. */
static void score_all(struct scoring *scoring, struct plan *plan, const struct room *room)
{
    CLEANUP(xfreep) struct placement *found = NULL;
    enum place_end end = PLACE_OUT_OF_STEPS;
    struct rank rank;

    must(scoring->out->judged == 0);
    if (plan->request->n_wants > 0) {
        end = place_each(plan, room, plan->steps, scoring, score_placement);
        scoring->out->work += (uint64_t)STEP_WORK * plan->walked;
    }
    if (end == PLACE_ALL) {
        must(scoring->out->judged > 0);
        return;
    }
    found = xcalloc(1, sizeof *found);
    must(place_any(plan, room, &rank, found) == REASON_NONE);
    scoring->out->work += (uint64_t)STEP_WORK * rank.steps;
    (void)score_placement(scoring, found);
    scoring->out->exact = plan->request->n_wants == 0;
}

static void score_start(struct scoring *scoring, const struct remaining *before)
{
    const struct workload *workload = scoring->context->workload;

    must(before->n_gpus <= GPUS_PER_NODE_MAX);
    scoring->before = before;
    scoring->waste = waste_of(scoring, before);
    if (!scoring->policy->prices_places)
        return;
    places_of(workload, before, &scoring->request->host, &scoring->places);
    scoring->own = find_own(workload, scoring->request);
    must(scoring->own <= WORKLOAD_SCARCE_MAX);
}

/* left_milli and free_milli are cleared, because they would not be cached. */
static void set_merit(struct rank *out, const struct scoring *scoring)
{
    const struct placement_scores *scores = scoring->out;

    must(scores->why == REASON_NONE);
    must(scores->judged > 0);
    out->exact = scores->exact;
    out->judged = scores->judged;
    out->work = work_of(scores->work);
    out->charge_milli = scoring->charge_milli;
    out->left_milli = 0;
    out->free_milli = 0;
    must(out->key[0] == 0 && out->key[1] == 0 && out->key[2] == 0);
    out->key[0] = -scoring->merit;
}

enum reason score_room(const struct policy_question *question, struct plan *plan,
                       const struct room *room, struct placement_scores *out, struct rank *out_rank,
                       struct placement *out_placement)
{
    /* The names of a node without a slot live only as long as the question: no caching. */
    struct score_cache *cache = question->slot == SNAPSHOT_NO_SLOT ? NULL : question->cache;
    struct scoring scoring = {
        .context = question->context,
        .policy = policy_of(policy_context_kind(question->context, plan->rule)),
        .cache = cache,
        .request = plan->request,
        .out = out,
        .placement = out_placement,
    };
    CLEANUP(kinds_freep) struct kinds *own = NULL;
    struct remaining before;

    must(question->context->workload != NULL);
    plan->choice = PLACE_TIGHTEST; /* the node before may have been under another policy */
    *out = (struct placement_scores){
        .policy = scoring.policy, .why = place_evaluate(plan, room, out_rank), .exact = true};
    out->distance = out_rank->distance;
    if (out->why != REASON_NONE)
        return out->why;
    out->price = out_rank->price;
    out->raised_milli = out_rank->raised_milli;
    if (cache == NULL) {
        own = xmalloc(sizeof *own);
        kinds_init(own, question->context->workload);
    }
    remaining_of(room, own != NULL ? own : score_cache_kinds(cache), &before);
    score_start(&scoring, &before);
    score_all(&scoring, plan, room);
    must(out->count > 0);
    set_merit(out_rank, &scoring);
    must(out_placement == NULL || out_placement->charge_milli == out_rank->charge_milli);
    if (out_placement != NULL)
        out_placement->exact = out->exact;
    return REASON_NONE;
}
