/*
 * GET /api/v1/waiting: pods that were refused or offered nodes (from the table of waiting pods),
 * and pods that no scheduler asked about (from the pod cache). Called by the router in an admin
 * thread. Tables that filter or the writer needs are locked for a look-up or a copy, never while
 * encoding.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/condition.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "api_unbound.h"

struct admin_waiting api_waiting_view(const struct waiting *pod)
{
    must(pod->uid[0] != '\0');
    return (struct admin_waiting){
        .uid = pod->uid,
        .namespace = pod->namespace,
        .name = pod->name,
        .request = pod->request,
        .unclassed = pod->unclassed,
        .by = "milligpu",
        .reason = pod->reason != REASON_NONE ? reason_name(pod->reason) : "offered",
        .text = pod->text,
        .offered = pod->offered,
        .fitting = pod->fitting,
        .since_ms = pod->since_ms,
        .last_ms = pod->last_ms,
        .n_asks = pod->n_asks,
    };
}

/* A pod of the list: one in the table of waiting pods, or one that no scheduler asked about. */
struct waiting_item {
    const char *uid;
    const struct unbound_pod *unasked; /* NULL for a pod in the table */
    const char *by;
    const char *reason;
};

/* Encodes a held item without the lock of the table, which filter waits for. */
static void encode_asked(struct json_writer *json, struct api_call *call,
                         const struct waiting_item *item)
{
    struct waiting_pods *waiting_pods = call->app->waiting_pods;
    struct waiting pod;

    must(item->unasked == NULL);
    if (!waiting_pods_hold(waiting_pods, text_of(item->uid), &call->arena, &pod))
        return; /* no longer waiting */
    struct admin_waiting waiting = api_waiting_view(&pod);
    struct pod_record *record =
        waiting.offered > 0 ? pod_cache_copy(call->app->pod_cache, pod.namespace, pod.name) : NULL;
    /* For an offer without a bind, the condition has kube-scheduler's own reason. */
    if (record != NULL && record->context != NULL && strcmp(pod_record_uid(record), pod.uid) == 0)
        waiting.condition = record->context->scheduling.message;
    admin_waiting(json, &waiting);
    pod_record_free(record);
    waiting_pods_let_go(waiting_pods, &pod);
}

static void encode_unasked(struct json_writer *json, struct api_call *call,
                           const struct waiting_item *item)
{
    const struct unbound_pod *pod = item->unasked;
    struct pod_record *record = pod_cache_copy(call->app->pod_cache, pod->namespace, pod->name);
    struct unasked unasked;

    must(pod->uid == item->uid);
    if (record != NULL && strcmp(pod_record_uid(record), pod->uid) == 0 &&
        !pod_record_is_bound(record)) {
        api_unasked(call->app, &pod->scheduling, &unasked);
        const struct admin_waiting waiting = {
            .uid = pod->uid,
            .namespace = pod->namespace,
            .name = pod->name,
            .request = pod_record_request(record),
            .unclassed = pod_record_request(record) == NULL,
            .by = item->by,
            .reason = item->reason,
            .text = unasked.text,
            .condition = pod->scheduling.message,
            .since_ms = pod->created_ms,
        };
        admin_waiting(json, &waiting);
    }
    pod_record_free(record); /* NULL if the pod was bound or deleted meanwhile */
}

static void encode_waiting(struct json_writer *json, const struct api_item *item)
{
    struct api_call *call = (struct api_call *)(uintptr_t)item->where;
    const struct waiting_item *waiting = item->what;

    must(waiting != NULL);
    if (waiting->unasked != NULL)
        encode_unasked(json, call, waiting);
    else
        encode_asked(json, call, waiting);
}

/* --- counts --- */

enum { WAITING_COUNTS_MAX = 64 };

struct waiting_count {
    const char *by;
    const char *reason;
    uint64_t pods;
};

/* Counts by reason of milligpu or word of a condition; the array has room for all of them. */
struct waiting_counts {
    struct waiting_count item[WAITING_COUNTS_MAX];
    size_t count;
};

static_assert(REASONS + CONDITIONS + 4 <= WAITING_COUNTS_MAX, "each kind has its place");

static void count_item(struct waiting_counts *counts, const struct waiting_item *item)
{
    size_t at = 0;

    while (at < counts->count && (strcmp(counts->item[at].by, item->by) != 0 ||
                                  strcmp(counts->item[at].reason, item->reason) != 0))
        at++;
    must(at < WAITING_COUNTS_MAX);
    if (at == counts->count)
        counts->item[counts->count++] = (struct waiting_count){item->by, item->reason, 0};
    counts->item[at].pods++;
}

/* Largest first. */
static int by_pods(const void *a, const void *b)
{
    const struct waiting_count *left = a;
    const struct waiting_count *right = b;

    if (left->pods != right->pods)
        return left->pods < right->pods ? 1 : -1;
    const int by = strcmp(right->by, left->by); /* milligpu comes before kube-scheduler */
    return by != 0 ? by : strcmp(left->reason, right->reason);
}

static void write_counts(struct json_writer *json, const void *user)
{
    const struct waiting_counts *counts = user;

    json_write_key(json, "counts");
    json_write_array(json);
    for (size_t i = 0; i < counts->count; i++) {
        must(counts->item[i].pods > 0);
        json_write_object(json);
        json_write_key(json, "by");
        json_write_str(json, counts->item[i].by);
        json_write_key(json, "reason");
        json_write_str(json, counts->item[i].reason);
        json_write_key(json, "pods");
        json_write_u64(json, counts->item[i].pods);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

/* --- what is wanted --- */

/* The models of the cluster that match the filter, each once. */
struct waiting_filter {
    struct model_filter models;
    const char *state;
    const char *namespace;
    const struct atom **model;
    size_t count;
    size_t capacity;
};

static void add_model(struct waiting_filter *filter, const struct atom *model)
{
    must(model != NULL);
    for (size_t i = 0; i < filter->count; i++)
        if (filter->model[i] == model)
            return;
    filter->model =
        xgrow(filter->model, filter->count, &filter->capacity, sizeof(const struct atom *));
    filter->model[filter->count++] = model;
}

static void find_models_of_cluster(const struct snapshot *snapshot, struct waiting_filter *filter)
{
    const struct atom *last = NULL; /* adjacent GPUs nearly always have the same model */
    const struct node *node;

    must(filter->count == 0);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus; i++)
            if (node->gpu[i].model != last) {
                last = node->gpu[i].model;
                if (api_model_taken(&filter->models, last))
                    add_model(filter, last);
            }
}

/*
 * Compares the names of models in the request with those of the filter, to find pods that request a
 * model that no node has. Both can be globs, so each is matched against the other.
 */
static bool names_same_model(const struct request *request, const struct request *wanted)
{
    if (request->n_models == 0)
        return false; /* any model will do */
    for (uint32_t k = 0; k < wanted->n_models; k++)
        if (request_takes_model(request, text_of(wanted->model[k])))
            return true;
    for (uint32_t i = 0; i < request->n_models; i++)
        if (request_takes_model(wanted, text_of(request->model[i])))
            return true;
    return false;
}

static bool would_take_model(const struct request *request, const struct waiting_filter *filter)
{
    if (!filter->models.given)
        return true;
    if (request == NULL)
        return false; /* request not known */
    for (size_t i = 0; i < filter->count; i++)
        if (request_takes_model(request, atom_text(filter->model[i])))
            return true;
    return names_same_model(request, &filter->models.models);
}

/* Looks up one pod under the lock of the table of waiting pods; scratch is reset after each pod. */
static bool asked_is_wanted(struct api_call *call, const struct waiting_filter *filter,
                            struct waiting_item *item, struct arena *scratch)
{
    struct waiting_pods *waiting_pods = call->app->waiting_pods;
    struct waiting pod;

    arena_reset(scratch);
    if (!waiting_pods_hold(waiting_pods, text_of(item->uid), scratch, &pod))
        return false;
    const struct admin_waiting view = api_waiting_view(&pod);
    const bool wanted = api_is_wanted(filter->namespace, pod.namespace) &&
                        api_is_wanted(filter->state, pod.offered > 0 ? "offered" : "refused") &&
                        would_take_model(pod.request, filter);
    item->by = view.by; /* static text, like the reason */
    item->reason = view.reason;
    waiting_pods_let_go(waiting_pods, &pod);
    return wanted;
}

/*
 * Copies uids in slices, then looks up one pod after the other: no lock is held while pods are
 * sorted or encoded. encode_waiting() leaves out pods that are bound in between.
 */
static void add_asked(struct api_call *call, struct api_list *list,
                      const struct waiting_filter *filter, struct waiting_counts *counts)
{
    struct waiting_names *names = arena_alloc(&call->arena, sizeof *names);
    struct waiting_item item;
    struct arena scratch;

    arena_init(&scratch);
    for (size_t place = 0;
         waiting_pods_names(call->app->waiting_pods, &place, &call->arena, names);)
        for (size_t i = 0; i < names->count; i++) {
            item = (struct waiting_item){.uid = names->uid[i]};
            if (!asked_is_wanted(call, filter, &item, &scratch))
                continue;
            count_item(counts, &item);
            struct waiting_item *kept = arena_alloc(&call->arena, sizeof *kept);
            *kept = item;
            api_list_add(call, list, names->key[i], kept, call);
        }
    arena_done(&scratch);
}

/* False for a young pod: its scheduler normally has not asked yet. */
static bool unasked_waits(const struct api_call *call, const struct unbound_pod *pod,
                          const struct unasked *unasked)
{
    const struct app *app = call->app;

    if (waiting_pods_has_asked(app->waiting_pods, text_of(pod->uid)))
        return false;
    return unasked->has_condition || unasked->is_explained ||
           app->clock.wall_ms(app->clock.ctx) - pod->created_ms >= ASKED_LATE_MS;
}

static bool unasked_takes_model(struct api_call *call, const struct waiting_filter *filter,
                                const struct unbound_pod *pod)
{
    if (!filter->models.given)
        return true;
    struct pod_record *record = pod_cache_copy(call->app->pod_cache, pod->namespace, pod->name);
    const bool takes = record != NULL && would_take_model(pod_record_request(record), filter);
    pod_record_free(record);
    return takes;
}

/* Adds pods that no scheduler asked about: their scheduler found no node or does not exist. */
static void add_unasked(struct api_call *call, const struct snapshot *snapshot,
                        struct api_list *list, const struct waiting_filter *filter,
                        struct waiting_counts *counts)
{
    struct unbound_pods unbound;
    struct unasked *unasked = arena_alloc(&call->arena, sizeof *unasked);

    if (!api_is_wanted(filter->state, "unasked"))
        return;
    api_unbound(call, snapshot, &unbound);
    list->overflow = list->overflow || unbound.overflow;
    for (size_t i = 0; i < unbound.count; i++) {
        const struct unbound_pod *pod = &unbound.pod[i];
        if (!api_is_wanted(filter->namespace, pod->namespace))
            continue;
        api_unasked(call->app, &pod->scheduling, unasked);
        if (!unasked_waits(call, pod, unasked) || !unasked_takes_model(call, filter, pod))
            continue;
        struct waiting_item *item = arena_alloc(&call->arena, sizeof *item);
        *item = (struct waiting_item){pod->uid, pod, unasked->by, unasked->word};
        count_item(counts, item);
        api_list_add(call, list,
                     arena_printf(&call->arena, "%s/%s/%s", pod->namespace, pod->name, pod->uid),
                     item, call);
    }
}

static void list_waiting(struct api_call *call, const struct snapshot *snapshot,
                         const struct waiting_filter *filter)
{
    struct app *app = call->app;
    struct waiting_counts counts = {.count = 0};
    struct api_list list = {
        .overflow = waiting_pods_overflowed(app->waiting_pods, app->clock.now_ms(app->clock.ctx)),
        .about = write_counts,
        .user = &counts,
    };

    must(call->status == 200);
    add_asked(call, &list, filter, &counts);
    add_unasked(call, snapshot, &list, filter, &counts);
    qsort(counts.item, counts.count, sizeof counts.item[0], by_pods);
    api_list_write(call, &list, encode_waiting);
}

void api_waiting(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct waiting_filter filter = {.state = call->value[PARAMETER_state],
                                    .namespace = call->value[PARAMETER_namespace]};

    if (snapshot == NULL || !api_model_filter(call, &filter.models))
        return;
    if (filter.models.given)
        find_models_of_cluster(snapshot, &filter);
    list_waiting(call, snapshot, &filter);
    xfree(filter.model);
}
