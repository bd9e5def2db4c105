/*
 * fgd and rollout appraise the placements of one node: what the node has left before and after a
 * placement is compared, by fragment or by idle GPU, and the difference becomes a score. Called by
 * policy.c for each node that its judge does not remember. Every placement that differs is
 * appraised, up to LAYOUTS_MAX; where the walk ends before that, the placement that binpack takes
 * is appraised, too, so that a pod that fits somewhere always gets a place.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "judge.h"

struct appraising {
    const struct outlook *outlook;
    const struct policy *policy;
    struct judge *judge;
    const struct request *request;
    const struct rest *before;
    uint64_t waste; /* before */
    struct slots slots;
    uint32_t own; /* scarce class of the pod itself; WORKLOAD_SCARCE_MAX: none */
    struct appraisals *out;
    int64_t merit;         /* the best so far */
    uint32_t charge_milli; /* of that one */
    struct placement *placement;
};

/* Its work is counted. */
static uint64_t waste_of(const struct appraising *appraising, const struct rest *rest)
{
    must(appraising->outlook->workload != NULL);
    must(appraising->policy->waste != NULL);
    return appraising->policy->waste(appraising->judge, appraising->outlook->workload, rest,
                                     &appraising->out->work);
}

/* Into a loss of nothing. */
static void appraise_loss(const struct appraising *appraising, const struct rest *after,
                          struct loss *out)
{
    const struct workload *workload = appraising->outlook->workload;
    struct slots slots;

    must(workload->scarces <= WORKLOAD_SCARCE_MAX);
    if (!appraising->policy->prices_places)
        return;
    slots_of(workload, after, &slots);
    for (uint32_t i = 0; i < workload->scarces; i++) {
        must(slots.count[i] <= appraising->slots.count[i]);
        const uint32_t lost = (uint32_t)appraising->slots.count[i] - slots.count[i];
        must(lost <= GPUS_PER_NODE_MAX);
        out->count[i] = (uint8_t)(i == appraising->own && lost > 0 ? lost - 1 : lost);
    }
}

/* The best of each loss; the first of equals stays. */
static void add_appraisal(struct appraisals *out, int64_t base, const struct loss *loss)
{
    must(out->count <= APPRAISALS_MAX);
    for (uint32_t i = 0; i < out->count; i++) {
        if (memcmp(&out->best[i].loss, loss, sizeof *loss) != 0)
            continue;
        out->best[i].base = base > out->best[i].base ? base : out->best[i].base;
        return;
    }
    out->more = out->more || out->count == APPRAISALS_MAX;
    if (!out->more)
        out->best[out->count++] = (struct appraisal){base, *loss};
    must(out->count > 0);
}

static bool appraise(void *user, const struct placement *placement)
{
    struct appraising *appraising = user;
    struct rest after = *appraising->before;
    struct loss loss = {0};

    must(appraising->out->judged <= LAYOUTS_MAX);
    appraising->out->work += layout_work(after.gpus, appraising->request, placement) +
                             (uint64_t)after.gpus * appraising->outlook->workload->scarces;
    rest_take(&after, appraising->request, placement);
    const int64_t by = (int64_t)(appraising->waste - waste_of(appraising, &after));
    const int64_t base = appraising->policy->score(appraising->outlook->workload, by, &after);
    appraise_loss(appraising, &after, &loss);
    const int64_t merit = base - loss_price(appraising->outlook, &loss);
    add_appraisal(appraising->out, base, &loss);
    if (appraising->out->judged == 0 || merit > appraising->merit) {
        appraising->merit = merit;
        appraising->charge_milli = placement->charge_milli;
        if (appraising->placement != NULL)
            *appraising->placement = *placement;
    }
    return ++appraising->out->judged < LAYOUTS_MAX;
}

static uint32_t find_own(const struct workload *workload, const struct request *request)
{
    struct workload_class class;

    must(request != NULL);
    workload_class_of(request, &class);
    for (uint32_t i = 0; i < workload->scarces; i++) {
        must(workload->scarce[i] < workload->classes);
        if (workload_alike(&workload->class[workload->scarce[i]], &class))
            return i;
    }
    return WORKLOAD_SCARCE_MAX;
}

/* The walk, and if it did not end by itself, what the search for the tightest place has found. */
static void appraise_all(struct appraising *appraising, struct plan *plan, const struct room *room)
{
    CLEANUP(xfreep) struct placement *found = NULL;
    enum place_end end = PLACE_OUT_OF_STEPS;
    struct rank rank;

    must(appraising->out->judged == 0);
    if (plan->request->wants > 0) {
        end = place_each(plan, room, plan->steps, appraising, appraise);
        appraising->out->work += (uint64_t)STEP_WORK * plan->walked;
    }
    if (end == PLACE_ALL) {
        must(appraising->out->judged > 0);
        return;
    }
    found = xcalloc(1, sizeof *found);
    must(place_any(plan, room, &rank, found) == REASON_NONE);
    appraising->out->work += (uint64_t)STEP_WORK * rank.steps;
    (void)appraise(appraising, found);
    appraising->out->exact = plan->request->wants == 0;
}

static void appraise_start(struct appraising *appraising, const struct rest *before)
{
    const struct workload *workload = appraising->outlook->workload;

    must(before->gpus <= GPUS_PER_NODE_MAX);
    appraising->before = before;
    appraising->waste = waste_of(appraising, before);
    if (!appraising->policy->prices_places)
        return;
    slots_of(workload, before, &appraising->slots);
    appraising->own = find_own(workload, appraising->request);
    must(appraising->own <= WORKLOAD_SCARCE_MAX);
}

/* left_milli and free_milli are of no use here: they would not be remembered. */
static void set_merit(struct rank *out, const struct appraising *appraising)
{
    const struct appraisals *appraisals = appraising->out;

    must(appraisals->why == REASON_NONE);
    must(appraisals->judged > 0);
    out->exact = appraisals->exact;
    out->judged = appraisals->judged;
    out->work = work_of(appraisals->work);
    out->charge_milli = appraising->charge_milli;
    out->left_milli = 0;
    out->free_milli = 0;
    must(out->key[0] == 0 && out->key[1] == 0 && out->key[2] == 0);
    out->key[0] = -appraising->merit;
}

enum reason appraise_room(const struct policy_question *question, struct plan *plan,
                          const struct room *room, struct appraisals *out, struct rank *out_rank,
                          struct placement *out_placement)
{
    /* A node that only the question knows has names that end with it: no judge keeps them. */
    struct judge *judge = question->slot == SNAPSHOT_NO_SLOT ? NULL : question->judge;
    struct appraising appraising = {
        .outlook = question->outlook,
        .policy = policy_of(outlook_kind(question->outlook, plan->rule)),
        .judge = judge,
        .request = plan->request,
        .out = out,
        .placement = out_placement,
    };
    CLEANUP(kinds_freep) struct kinds *own = NULL;
    struct rest before;

    must(question->outlook->workload != NULL);
    plan->choice = PLACE_TIGHTEST; /* the node before may have been under another policy */
    *out = (struct appraisals){.why = place_judge(plan, room, out_rank), .exact = true};
    out->apart = out_rank->apart;
    if (out->why != REASON_NONE)
        return out->why;
    out->price = out_rank->price;
    out->raised_milli = out_rank->raised_milli;
    if (judge == NULL) {
        own = xmalloc(sizeof *own);
        kinds_init(own, question->outlook->workload);
    }
    rest_of(room, own != NULL ? own : judge_kinds(judge), &before);
    appraise_start(&appraising, &before);
    appraise_all(&appraising, plan, room);
    must(out->count > 0);
    set_merit(out_rank, &appraising);
    must(out_placement == NULL || out_placement->charge_milli == out_rank->charge_milli);
    if (out_placement != NULL)
        out_placement->exact = out->exact;
    return REASON_NONE;
}
