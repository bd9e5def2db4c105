/*
 * Handlers for pods: allocations, and one pod and why it is not placed. Called by the router in an
 * admin thread. Allocations come from the snapshot, requests from the pod cache, waiting times from
 * hints, and past allocations from the history. Tables that filter or the writer needs are locked
 * for a look-up or a copy, never while encoding, which takes milliseconds for thousands of items.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/waiting/waiting_pods.h"

#include "api_unbound.h"
#include "api_unserved.h"

/* --- allocations --- */

/* The node of a list item, with its place in the answer. */
struct allocations_place {
    struct api_call *call;
    const struct node *node;
};

static void put_allocation(struct json_writer *json, struct api_call *call,
                           const struct allocation *allocation, const struct node *node)
{
    const struct admin_measured measured = api_measured(call, node);

    admin_allocation(json, allocation, node, &measured);
    measured_unref(measured.measured);
}

static void encode_allocation(struct json_writer *json, const struct api_item *item)
{
    const struct allocations_place *place = item->where;

    must(item->what != NULL && place != NULL);
    put_allocation(json, place->call, item->what, place->node);
}

/* True if a share of the allocation is known to be idle since that time or earlier. */
static bool is_idle_since(const struct admin_measured *measured, const struct node *node,
                          const struct allocation *allocation, int64_t since_ms)
{
    for (uint32_t i = 0; i < allocation->facts.n_shares; i++) {
        const struct measured_share *share =
            measured_find(measured->measured, node, allocation, &allocation->facts.share[i]);
        if (share != NULL && measured_is_fresh(share, measured->now_ms) &&
            share->idle_since_ms > 0 && share->idle_since_ms <= since_ms)
            return true;
    }
    return false;
}

/* True if a charged GPU has a model of the filter; an allocation without a place has no model. */
static bool holds_model(const struct allocation *allocation, const struct node *node,
                        const struct model_filter *models)
{
    for (uint32_t i = 0; i < allocation->n_charges && models->given; i++) {
        const struct gpu *gpu = node_gpu(node, atom_text(allocation_charge(allocation, i).gpu));
        must(gpu != NULL); /* a node lists every GPU that is charged */
        if (api_model_taken(models, gpu->model))
            return true;
    }
    return !models->given;
}

/* The key ends with the uid: a name exists twice while an old pod of that name holds its share. */
static void add_allocations(struct api_call *call, struct api_list *list, const struct node *node,
                            const struct model_filter *models)
{
    const char *const *value = call->value;
    int64_t since_ms = 0;

    if (!api_is_wanted(value[PARAMETER_node], node->name->text) || node->n_allocations == 0)
        return;
    if (value[PARAMETER_idleSince] != NULL) /* the schema has been checked */
        must(api_time_read(value[PARAMETER_idleSince], &since_ms));
    struct admin_measured measured = {0};
    if (since_ms != 0)
        measured = api_measured(call, node);
    struct allocations_place *place = arena_alloc(&call->arena, sizeof *place);
    *place = (struct allocations_place){call, node};
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        const struct allocation_facts *facts = &allocation->facts;
        must(facts->node == node->name);
        if (api_is_wanted(value[PARAMETER_namespace], facts->namespace) &&
            api_is_wanted(value[PARAMETER_state], allocation_state_name(facts->state)) &&
            holds_model(allocation, node, models) &&
            (value[PARAMETER_idleSince] == NULL ||
             is_idle_since(&measured, node, allocation, since_ms)))
            api_list_add(
                call, list,
                arena_printf(&call->arena, "%s/%s/%s", facts->namespace, facts->name, facts->uid),
                allocation, place);
    }
    measured_unref(measured.measured);
}

static void list_live(struct api_call *call, const struct model_filter *models)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct api_list list = {0};
    const struct node *node;

    if (snapshot == NULL)
        return;
    api_tag_measured(call, snapshot->generation);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        add_allocations(call, &list, node, models);
    must(list.count <= snapshot->allocations);
    api_list_write(call, &list, encode_allocation);
}

/* One route with two sources: the snapshot for live allocations, the database for released ones. */
void api_allocations(struct api_call *call)
{
    const char *state = call->value[PARAMETER_state];
    struct model_filter models;

    must(call->limit > 0);
    if (!api_model_filter(call, &models))
        return;
    if (state == NULL || strcmp(state, "released") != 0)
        list_live(call, &models);
    else if (models.given)
        api_fail(call, 400,
                 "model cannot be asked for with state released: the history does not keep models");
    else if (call->value[PARAMETER_idleSince] != NULL)
        api_fail(call, 400,
                 "idleSince cannot be asked for with state released: nothing runs there");
    else
        api_allocations_released(call);
}

/* --- one pod --- */

/* All data about the requested pod; each part can be missing. */
struct sought {
    const char *namespace;
    const char *name;
    const struct pod_record *record;
    const struct allocation *allocation; /* borrowed from the snapshot */
    const struct node *node;             /* of the allocation */
};

/* By uid if known: a new pod can have the name while the old one still holds its share. */
static void find_allocation(const struct snapshot *snapshot, struct sought *sought)
{
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++) {
            const struct allocation *allocation = node->allocation[i];
            const bool same =
                sought->record != NULL
                    ? strcmp(allocation->facts.uid, pod_record_uid(sought->record)) == 0
                    : strcmp(allocation->facts.name, sought->name) == 0 &&
                          strcmp(allocation->facts.namespace, sought->namespace) == 0;
            if (!same)
                continue;
            must(allocation->facts.node == node->name);
            sought->allocation = allocation;
            sought->node = node;
            return;
        }
}

/* In the order of enum pod_phase. */
static const char *phase_of(const struct sought *sought)
{
    static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed", "Unknown"};

    if (sought->record == NULL)
        return "Unknown"; /* in the ledger, but not yet shown by the watch */
    must((size_t)sought->record->phase < ARRAY_LEN(names));
    return names[sought->record->phase];
}

static void describe_request(const struct api_call *call, const struct pod_record *record,
                             char *out, size_t bytes)
{
    const struct settings *settings = atomic_load(&call->app->settings);

    must(bytes > 0);
    out[0] = '\0';
    if (record == NULL)
        return;
    switch (record->verdict) {
    case REQUEST_OK:
        if (pod_record_request(record) != NULL)
            request_format(pod_record_request(record), out, bytes);
        else
            (void)snprintf(out, bytes, "%s", ADMIN_UNCLASSED);
        return;
    case REQUEST_REFUSED:
        (void)snprintf(out, bytes, "cannot be granted: %s", pod_record_refusal(record));
        return;
    case REQUEST_ZERO:
        (void)snprintf(out, bytes, "0 milli");
        return;
    case REQUEST_WHOLE:
        (void)snprintf(out, bytes, "%u of %s", record->whole_gpus, settings->whole_resource);
        return;
    case REQUEST_NOT_OURS:
        return;
    }
    must_not_reach("every verdict is listed");
}

/*
 * Writes one node's answer, by the same function as filter. `text` is the text for kube-scheduler;
 * `detail` has the present numbers, which filter leaves out so that its texts stay constant
 * (docs/why/005).
 */
static void put_verdict(struct json_writer *json, const struct policy_context *context,
                        const struct node *node, const struct unschedulable_question *question)
{
    const struct request *request = question->request;
    const struct unusable_cause bar = node_bar(node, question->demands);
    struct refusal refusal = {.text = ""};
    UNSET struct room room;
    UNSET struct plan plan;
    struct rank rank;
    char detail[512];

    room_of(node, &room);
    plan_init(&plan, request, context);
    const struct cause cause = plan_cause(&plan, place_evaluate(&plan, &room, &rank));
    const enum reason why = cause.why;
    if (why != REASON_NONE)
        policy_refuse(context, cause, request, &refusal);
    must((why == REASON_NONE) == (refusal.text[0] == '\0'));
    filter_explain(context, node, request, detail, sizeof detail);
    json_write_object(json);
    json_write_member(json, "name", node->name->text);
    json_write_key(json, "fits");
    json_write_bool(json, why == REASON_NONE && bar.why == USABLE);
    json_write_key(json, "exact");
    json_write_bool(json, rank.exact);
    json_write_member(json, "reason", reason_name(why));
    json_write_member(json, "text", refusal.text);
    json_write_member(json, "detail", detail);
    admin_unusable(json, "unusable", "unusableText", &bar);
    json_write_object_end(json);
}

static int by_node_name(const void *a, const void *b)
{
    const struct node *const *left = a;
    const struct node *const *right = b;
    return strcmp((*left)->name->text, (*right)->name->text);
}

/*
 * Asks filter's question for each node of the cluster: bounded in steps, but too much for a thread
 * that grants.
 */
static void put_verdicts(struct json_writer *json, struct api_call *call,
                         const struct snapshot *snapshot,
                         const struct unschedulable_question *question)
{
    const struct node **all =
        arena_array(&call->arena, (size_t)snapshot->nodes + 1, sizeof(const struct node *));
    const struct node *node;
    size_t count = 0;

    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        all[count++] = node;
    must(count == snapshot->nodes);
    qsort(all, count, sizeof *all, by_node_name);
    json_write_key(json, "nodes");
    json_write_array(json);
    for (size_t i = 0; i < count; i++)
        put_verdict(json, snapshot->context, all[i], question);
    json_write_array_end(json);
}

/* Writes nothing for 0 nodes. */
static void put_reason(struct json_writer *json, const struct policy_context *context,
                       const struct request *request, struct cause cause, uint32_t nodes,
                       const char *detail)
{
    char text[REASON_BYTES_MAX];

    must(cause.why < REASONS);
    if (nodes == 0)
        return;
    unschedulable_reason_text(context, request, cause, text);
    json_write_object(json);
    json_write_member(json, "reason", reason_name(cause.why));
    json_write_key(json, "nodes");
    json_write_u64(json, nodes);
    json_write_member(json, "text", text);
    json_write_member(json, "detail", detail);
    json_write_object_end(json);
}

static void put_reason_of_rule(struct json_writer *json, const struct policy_context *context,
                               const struct request *request, struct cause cause,
                               const struct unschedulable *unschedulable)
{
    CLEANUP(strbuf_done) struct strbuf detail;
    const struct unschedulable_reserved *kept = &unschedulable->reserved[cause.rule];

    must(cause.why == REASON_RULE || cause.why == REASON_RESERVE);
    strbuf_init(&detail);
    if (cause.why == REASON_RULE) {
        put_reason(json, context, request, cause, unschedulable->rule_nodes[cause.rule], "");
        return;
    }
    moment_format(&detail, &kept->moment);
    put_reason(json, context, request, cause, kept->nodes, detail.data);
}

/* The causes that exclude nodes on which the pod would fit; most nodes first. */
static void put_bars(struct json_writer *json, const struct unschedulable *unschedulable)
{
    must(unschedulable->n_bars == 0 || unschedulable_barred(unschedulable) > 0);
    json_write_key(json, "unusable");
    json_write_array(json);
    for (uint32_t i = 0; i < unschedulable->n_bars; i++) {
        const struct unschedulable_bar *bar = &unschedulable->bar[i];
        json_write_object(json);
        json_write_member(json, "reason", unusable_name(bar->why));
        if (bar->taint != NULL)
            json_write_member(json, "taint", bar->taint);
        json_write_key(json, "nodes");
        json_write_u64(json, bar->nodes);
        json_write_member(json, "text", unusable_help(bar->why));
        json_write_key(json, "names");
        json_write_array(json);
        for (uint32_t k = 0; k < bar->n_names; k++)
            json_write_text(json, atom_text(bar->name[k]));
        json_write_array_end(json);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

/*
 * Writes one entry for each reason and rule, nearest to fitting first; with the nodes that the pod
 * is excluded from, the counts add up to the nodes of the cluster. Returns true if the pod fits on
 * a node that it is not excluded from.
 */
static bool put_reasons(struct json_writer *json, struct api_call *call,
                        const struct snapshot *snapshot,
                        const struct unschedulable_question *question)
{
    const struct request *request = question->request;
    CLEANUP(strbuf_done) struct strbuf detail;
    struct unschedulable *unschedulable = arena_alloc(&call->arena, sizeof *unschedulable);

    strbuf_init(&detail);
    unschedulable_of(snapshot, question, &call->arena, unschedulable);
    must(unschedulable->never == (unschedulable->never_text[0] != '\0'));
    if (unschedulable->never)
        json_write_member(json, "never", unschedulable->never_text);
    json_write_key(json, "reasons");
    json_write_array(json);
    for (uint32_t at = 0; at < REASONS; at++) {
        const enum reason why = at == 0 ? REASON_NONE : (enum reason)(REASONS - at);
        const bool by_rule = why == REASON_RULE || why == REASON_RESERVE;
        for (uint32_t rule = 0; by_rule && rule < RULES_MAX; rule++)
            put_reason_of_rule(json, snapshot->context, request, (struct cause){why, rule},
                               unschedulable);
        if (by_rule)
            continue;
        strbuf_reset(&detail);
        if (unschedulable_has_moment(why))
            moment_format(&detail, &unschedulable->moment[why]);
        put_reason(json, snapshot->context, request, (struct cause){.why = why},
                   unschedulable->nodes[why], detail.data);
    }
    json_write_array_end(json);
    put_bars(json, unschedulable);
    return unschedulable->nodes[REASON_NONE] > 0;
}

/*
 * Writes nothing if the pod is not in the table of waiting pods: kube-scheduler has not asked yet,
 * a bind is in progress, or the table was full.
 */
static void api_pods_put_waiting(struct json_writer *json, struct api_call *call, const char *uid)
{
    struct waiting found;

    must(uid[0] != '\0');
    if (!waiting_pods_find(call->app->waiting_pods, text_of(uid), &call->arena, &found))
        return;
    const struct admin_waiting waiting = api_waiting_view(&found);
    json_write_key(json, "waiting");
    admin_waiting_brief(json, &waiting);
}

/* For each name of the annotation gpu-model, the models of the cluster that match. */
static void put_models(struct json_writer *json, const struct snapshot *snapshot,
                       const struct request *request)
{
    struct cluster_models models;

    must(request->n_models > 0);
    cluster_models(snapshot, &models);
    json_write_key(json, "models");
    json_write_array(json);
    for (uint32_t name = 0; name < request->n_models; name++) {
        json_write_object(json);
        json_write_member(json, "name", request->model[name]);
        json_write_key(json, "standsFor");
        json_write_array(json);
        for (uint32_t i = 0; i < models.count; i++)
            if (request_name_takes(request, name, atom_text(models.model[i])))
                json_write_str(json, models.model[i]->text);
        json_write_array_end(json);
        json_write_object_end(json);
    }
    json_write_array_end(json);
}

static void put_advice(struct json_writer *json, struct text lines)
{
    struct text line;

    must(lines.len > 0);
    json_write_key(json, "advice");
    json_write_array(json);
    while (text_cut(&lines, '\n', &line))
        json_write_text(json, line);
    json_write_array_end(json);
}

/*
 * Writes the allocation if there is one; for an unbound pod, why it is not placed; for a bound pod
 * without an allocation, only its node.
 */
static void put_pod(struct api_call *call, const struct snapshot *snapshot,
                    const struct sought *sought)
{
    const struct pod_record *record = sought->record;
    const struct allocation *allocation = sought->allocation;
    /* While the watch shows a reserved pod as unbound, the allocation below has the node. */
    const char *node = record != NULL ? pod_record_node(record) : allocation->facts.node->text;
    const struct request *request = record != NULL ? pod_record_request(record) : NULL;
    char described[1024];
    struct json_writer json;

    describe_request(call, record, described, sizeof described);
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_member(&json, "namespace", sought->namespace);
    json_write_member(&json, "name", sought->name);
    json_write_member(&json, "uid",
                      record != NULL ? pod_record_uid(record) : allocation->facts.uid);
    json_write_member(&json, "phase", phase_of(sought));
    json_write_member(&json, "node", node);
    json_write_member(&json, "request", described);
    if (record != NULL && pod_record_advice(record) != NULL)
        put_advice(&json, text_of(pod_record_advice(record)));
    const char *unserved = record != NULL ? api_unserved_why(call, record) : NULL;
    if (unserved != NULL)
        json_write_member(&json, "otherScheduler", unserved);
    if (request != NULL && request->n_models > 0)
        put_models(&json, snapshot, request);
    if (allocation != NULL) {
        json_write_key(&json, "allocation");
        put_allocation(&json, call, allocation, sought->node);
    } else if (node[0] == '\0') {
        must(record != NULL);
        api_pods_put_waiting(&json, call, pod_record_uid(record));
        api_why_put_scheduling(&json, call, record);
        if (request != NULL) {
            struct request asked = *request;
            asked.rules =
                policy_context_rules(snapshot->context, text_of(pod_record_namespace(record)));
            const struct unschedulable_question question = {&asked, pod_record_demands(record)};
            if (!put_reasons(&json, call, snapshot, &question))
                api_why_put_predecessor(&json, call, snapshot, record, &asked);
            put_verdicts(&json, call, snapshot, &question);
        }
    }
    json_write_object_end(&json);
}

/* For a pod that is in neither cluster nor ledger: looks in the history. */
static void put_past(struct api_call *call)
{
    struct history_row row[GPUS_PER_NODE_MAX];
    struct err err;
    struct json_writer json;
    size_t rows;

    if (api_history_last(call, call->segment[0], call->segment[1], row, &rows, &err) < 0) {
        api_fail_err(call, &err); /* an unreadable history is not an empty one */
        return;
    }
    must(rows <= GPUS_PER_NODE_MAX);
    if (rows == 0) {
        api_fail(call, 404, "no pod %.253s in namespace %.253s that asks for GPUs",
                 call->segment[1], call->segment[0]);
        return;
    }
    json_writer_init(&json, &call->body);
    json_write_object(&json);
    json_write_member(&json, "namespace", row->namespace);
    json_write_member(&json, "name", row->name);
    json_write_member(&json, "uid", row->uid);
    json_write_member(&json, "phase", "Ended");
    json_write_member(&json, "node", row->node);
    json_write_member(&json, "request", "");
    json_write_key(&json, "allocation");
    admin_released(&json, row, rows);
    json_write_object_end(&json);
}

/* Looks in ledger and pod cache independently: either can have the pod before the other. */
void api_pod(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);

    if (snapshot == NULL)
        return;
    struct pod_record *record =
        pod_cache_copy(call->app->pod_cache, call->segment[0], call->segment[1]);
    struct sought sought = {
        .namespace = call->segment[0], .name = call->segment[1], .record = record};
    find_allocation(snapshot, &sought);
    must(sought.allocation == NULL || sought.node != NULL);
    if (record != NULL || sought.allocation != NULL)
        put_pod(call, snapshot, &sought);
    else
        put_past(call);
    pod_record_free(record);
}
