/*
 * The handler of plans of moves. Called by the router in an admin thread, which it can keep busy
 * for about a second (defrag.h limits its steps): so one plan is made at a time, and the other
 * admin thread stays free. The plan follows from one snapshot and from the requests of its pods in
 * the pod cache.
 */
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/answer/defrag.h"
#include "milligpu/sync/pod_cache.h"

#include "admin/api_internal.h"

enum { MOVES_DEFAULT = 10, MIN_GAIN_DEFAULT = 100 };

struct defrag_call {
    struct pod_cache *pods;
    struct pod_record *record; /* record of the pod in the last question; owned, or NULL */
};

/* True if the watch shows the pod of the allocation as bound there and not terminating. */
static bool is_same_pod(const struct pod_record *record, const struct allocation *pod)
{
    must(pod->facts.state == STATE_BOUND);
    return strcmp(pod_record_uid(record), pod->facts.uid) == 0 &&
           strcmp(pod_record_node(record), pod->facts.node->text) == 0 &&
           pod_record_terminating_ms(record) == 0;
}

static const struct request *request_of_pod(void *user, const struct allocation *pod)
{
    struct defrag_call *asking = user;

    pod_record_free(asking->record);
    asking->record = pod_cache_copy(asking->pods, pod->facts.namespace, pod->facts.name);
    if (asking->record == NULL || !is_same_pod(asking->record, pod))
        return NULL;
    return pod_record_request(asking->record);
}

static void write_defrag_plan(struct api_call *call, const struct snapshot *snapshot)
{
    const char *min_gain = call->value[PARAMETER_minGain];
    struct defrag_call asking = {.pods = call->app->pod_cache};
    const struct defrag_question question = {
        .snapshot = snapshot,
        .moves = call->value[PARAMETER_limit] != NULL ? call->limit : MOVES_DEFAULT,
        .min_gain_milli =
            min_gain != NULL ? (uint32_t)strtoul(min_gain, NULL, 10) : MIN_GAIN_DEFAULT,
        .steps = DEFRAG_STEPS_MAX,
        .user = &asking,
        .request_of = request_of_pod,
    };
    CLEANUP(defrag_plan_freep) struct defrag_plan *plan = defrag_plan_new(&question);
    struct json_writer json;

    pod_record_free(asking.record);
    must(plan->n_moves <= question.moves);
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_key(&json, "generation");
    json_write_u64(&json, snapshot->generation);
    admin_defrag(&json, plan);
    json_write_object_end(&json);
}

void api_defrag(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);

    if (snapshot == NULL)
        return;
    if (atomic_exchange(&call->app->planning, true)) {
        api_fail(call, 503, "another plan of moves is being made: try again");
        return;
    }
    write_defrag_plan(call, snapshot);
    atomic_store(&call->app->planning, false);
}
