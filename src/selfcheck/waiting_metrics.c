/*
 * Metrics of waiting pods: number, age and reasons, and pods that wait despite room. A pod waits
 * with room when the free milli of all GPUs of the models that it accepts add up to its request:
 * then another cause keeps it waiting, such as fragmentation or another plugin of kube-scheduler.
 * Called by metrics_page().
 */
#include "waiting_metrics.h"

#include "milligpu/run/metric.h"

/*
 * Limit of comparisons of requests' models with the cluster's models per scrape, some 50 ms.
 * Tenants choose the number of models and of pods.
 */
enum { COMPARISONS_MAX = 1 << 17 };

struct waiting_sums {
    const struct amounts_by_model *models;
    uint64_t comparisons;
    uint64_t pods[REASONS];
    int64_t since_ms[REASONS];  /* UTC start of the longest wait; INT64_MAX if no pod waits */
    int64_t with_room_since_ms; /* same, for pods that wait with room */
};

/* Peak sum of the request's milli over all its GPUs. */
static uint64_t request_sum_milli(const struct request *request)
{
    uint32_t amount[CONTAINERS_MAX];

    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++)
        amount[i] = request->want[i].parts * request->want[i].milli;
    return (request->n_wants > 0 ? request_peak(request, amount) : 0) +
           (uint64_t)request->whole * GPU_MILLI;
}

/* Returns false if the budget is used up, too: an unchecked pod raises no alarm. */
static bool has_room(struct waiting_sums *sums, const struct request *request)
{
    const uint64_t needs_milli = request_sum_milli(request);
    uint64_t free_milli = 0;

    for (size_t i = 0; i < sums->models->count; i++) {
        const struct model_amounts *model = &sums->models->model[i];
        sums->comparisons += request->n_models;
        if (sums->comparisons > COMPARISONS_MAX)
            return false;
        if (request_takes_model(request, atom_text(model->model)))
            free_milli += model->amounts.part_milli[ACCOUNT_FREE];
    }
    must(needs_milli > 0);
    return free_milli >= needs_milli;
}

static void add_waiting(void *user, const struct waiting_brief *brief)
{
    struct waiting_sums *sums = user;

    must(brief->reason < REASONS);
    sums->pods[brief->reason]++;
    if (brief->since_ms < sums->since_ms[brief->reason])
        sums->since_ms[brief->reason] = brief->since_ms;
    if (brief->request != NULL && brief->since_ms < sums->with_room_since_ms &&
        has_room(sums, brief->request))
        sums->with_room_since_ms = brief->since_ms;
}

/* Not negative after a step back of the wall clock. */
static int64_t waited_s(int64_t since_ms, int64_t wall_ms)
{
    return since_ms < wall_ms ? (wall_ms - since_ms) / 1000 : 0;
}

/* False for reasons that only bind gives: they make no pod wait. */
static bool can_wait_for(enum reason reason)
{
    return reason == REASON_NONE || reason_class(reason) != REASON_CLASS_STATE;
}

/* Sets all reasons, even without a pod: a series that comes and goes is hard to query. */
void waiting_metrics_set(struct waiting_pods *waiting_pods, int64_t wall_ms,
                         const struct amounts_by_model *models)
{
    struct waiting_sums sums = {.models = models, .with_room_since_ms = INT64_MAX};

    for (size_t i = 0; i < REASONS; i++)
        sums.since_ms[i] = INT64_MAX;
    waiting_pods_visit(waiting_pods, &sums, add_waiting);
    for (enum reason reason = REASON_NONE; reason < REASONS; reason++) {
        if (!can_wait_for(reason))
            continue;
        must((sums.pods[reason] > 0) == (sums.since_ms[reason] != INT64_MAX));
        const char *word = reason == REASON_NONE ? "offered" : reason_name(reason);
        metric_set(M_WAITING_PODS, LABEL_VALUES(word), (int64_t)sums.pods[reason]);
        metric_set(M_WAITING_OLDEST, LABEL_VALUES(word), waited_s(sums.since_ms[reason], wall_ms));
    }
    metric_set(M_WAITING_WITH_ROOM, NULL, waited_s(sums.with_room_since_ms, wall_ms));
}
