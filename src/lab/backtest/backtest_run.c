/*
 * One run of a back-test: replays the events of the past in order of time on a ledger as in
 * milligpud. Placements go through filter_ask() and RESERVE, as in simulate_run.c; nodes, adopted
 * pods and the initial state come from the past. Waiting pods are retried only when room was freed,
 * repaired or added, and of each shape only until one is refused. In order: setup, commands, one
 * pod, waiting, events, the recorded result.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/core/rules/tally.h"

#include "backtest.h"

/* The end of a pod that this run has placed. */
struct backtest_end {
    int64_t at_ms;
    uint32_t pod;
};

struct backtest_sim {
    const struct past *past;
    const struct backtest_options *options;
    const struct policy_choice *policy;
    rule_set holding;    /* rules of the policy that hold at the simulated time */
    int64_t rules_at_ms; /* time of the next change of holding */
    struct backtest_result *result;
    struct ledger *ledger;
    struct snapshot *snapshot;
    struct score_cache *cache;
    struct tally *tally; /* NULL if the workload is known from the start */
    struct arena arena;  /* for one decision */
    struct backtest_meter meter;
    /* candidate nodes of a filter call: all present nodes */
    uint32_t n_names;
    struct text *name;
    uint32_t *hash;
    bool nodes_changed;
    bool published;
    bool has_new_room; /* room was added since the last retry of waiting pods */
    bool *refused;     /* for each shape: refused since room was last added */
    uint32_t waiting;
    uint32_t *wait; /* waiting pods, in the order of arrival */
    size_t n_ends;
    size_t end_capacity;
    struct backtest_end *end; /* heap with the earliest end first */
    size_t events;            /* number of processed events */
};

/* --- setting up --- */

static void backtest_set_policy_context(struct backtest_sim *sim, const struct workload *workload)
{
    const struct rulebook *book = sim->policy->book;
    struct policy_context *context = policy_context_of_rulebook(
        book, sim->holding, rulebook_needs_workload(book) ? workload : NULL);

    must(context != NULL);
    ledger_set_policy_context(sim->ledger, context);
    policy_context_unref(context);
    sim->published = false;
}

static void backtest_read_rules(struct backtest_sim *sim, int64_t now_ms)
{
    sim->holding = rulebook_holding(sim->policy->book, now_ms);
    sim->rules_at_ms = rulebook_next_ms(sim->policy->book, now_ms);
    must(sim->rules_at_ms > now_ms);
}

/* Retries waiting pods, since another rule possibly permits them. */
static void backtest_change_rules(struct backtest_sim *sim, int64_t now_ms)
{
    const struct policy_context *context = ledger_policy_context(sim->ledger);

    backtest_read_rules(sim, now_ms);
    backtest_set_policy_context(sim, context->workload);
    memset(sim->refused, 0, sim->past->world.n_shapes * sizeof *sim->refused);
    sim->has_new_room = true;
}

static void backtest_use_tally(struct backtest_sim *sim)
{
    struct workload *workload = tally_workload(sim->tally);

    must(sim->options->learn);
    backtest_set_policy_context(sim, workload);
    workload_unref(workload);
}

static int backtest_start(struct backtest_sim *sim, const struct workload *workload,
                          struct err *err)
{
    const struct past *past = sim->past;

    must(past->arrived > 0);
    arena_init(&sim->arena);
    sim->ledger = ledger_new();
    sim->cache = score_cache_new();
    sim->name = xcalloc(NODES_MAX, sizeof *sim->name);
    sim->hash = xcalloc(NODES_MAX, sizeof *sim->hash);
    sim->refused = xcalloc(past->world.n_shapes, sizeof *sim->refused);
    sim->wait = xcalloc(past->n_pods, sizeof *sim->wait);
    sim->nodes_changed = true;
    if (sim->options->learn)
        sim->tally = tally_new();
    backtest_read_rules(sim, past->from_ms);
    if (past_restore(past, sim->ledger, err) < 0)
        return err_same(err);
    if (sim->tally != NULL)
        tally_expect(sim->tally, sim->policy->book);
    if (sim->tally != NULL)
        backtest_use_tally(sim);
    else
        backtest_set_policy_context(sim, workload);
    for (uint32_t i = 0; i < past->held; i++)
        sim->meter.granted_milli += past->pod[i].milli;
    sim->meter.capacity_milli = past->capacity_milli;
    sim->meter.now_ms = past->from_ms;
    return 0;
}

static void backtest_stop(struct backtest_sim *sim)
{
    snapshot_unref(sim->snapshot);
    score_cache_free(sim->cache);
    tally_free(sim->tally);
    ledger_free(sim->ledger);
    xfree(sim->name);
    xfree(sim->hash);
    xfree(sim->refused);
    xfree(sim->wait);
    xfree(sim->end);
    arena_done(&sim->arena);
}

/* --- commands --- */

static uint64_t backtest_milli(const struct allocation *allocation)
{
    if (allocation == NULL || allocation->facts.state == STATE_RELEASED)
        return 0;
    return past_milli(allocation);
}

static void backtest_apply(struct backtest_sim *sim, struct change *change)
{
    must(sim->meter.granted_milli >= backtest_milli(change->before));
    sim->meter.granted_milli += backtest_milli(change->after);
    sim->meter.granted_milli -= backtest_milli(change->before);
    if (change_gives_room(change)) {
        memset(sim->refused, 0, sim->past->world.n_shapes * sizeof *sim->refused);
        sim->has_new_room = true;
    }
    ledger_apply(sim->ledger, change);
    change_done(change);
    sim->published = false;
}

/*
 * A command of the past can have no effect here: a pod with an empty request, or the end of a pod
 * that was never counted.
 */
static void backtest_do(struct backtest_sim *sim, const struct command *command)
{
    struct change change;

    if (ledger_decide(sim->ledger, command, &change) == VERDICT_OK)
        backtest_apply(sim, &change);
}

/* Resolves duplicate UUIDs: each belongs to one node. */
static void backtest_settle(struct backtest_sim *sim)
{
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        const struct node *node = ledger_stale_duplicate(sim->ledger);
        if (node == NULL)
            return;
        const struct command again = {.kind = COMMAND_NODE, .at_ms = 1, .node = node->name->text};
        backtest_do(sim, &again);
    }
}

static void backtest_publish(struct backtest_sim *sim)
{
    struct snapshot *before = sim->snapshot;
    size_t at = 0;

    if (!sim->published)
        sim->snapshot = ledger_publish(sim->ledger, NULL, 0);
    if (!sim->published)
        snapshot_unref(before);
    sim->published = true;
    if (!sim->nodes_changed)
        return;
    sim->n_names = 0;
    for (const struct node *node = ledger_next_node(sim->ledger, &at); node != NULL;
         node = ledger_next_node(sim->ledger, &at)) {
        must(sim->n_names < NODES_MAX);
        sim->name[sim->n_names] = atom_text(node->name);
        sim->hash[sim->n_names++] = text_hash(atom_text(node->name));
    }
    sim->nodes_changed = false;
}

/* --- one pod --- */

/* Learns the arrival before the decision, as in milligpud: the watch shows pods first. */
static void backtest_learn(struct backtest_sim *sim, uint32_t shape)
{
    if (sim->tally == NULL || shape == UINT32_MAX)
        return;
    const struct request *request = &sim->past->world.shape[shape].request;
    if (request->n_wants == 0)
        return;
    tally_count(sim->tally, request);
    if (tally_is_due(sim->tally))
        backtest_use_tally(sim);
}

static void backtest_note_place(struct backtest_sim *sim, uint32_t pod, const struct node *node,
                                const struct allocation *granted)
{
    CLEANUP(strbuf_done) struct strbuf gpus;
    struct arena *arena = &sim->result->arena;

    strbuf_init(&gpus);
    if (sim->result->placement == NULL)
        return;
    must(granted->n_charges <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < node->n_gpus; i++)
        for (uint32_t c = 0; c < granted->n_charges; c++)
            if (allocation_charge(granted, c).gpu == node->gpu[i].id)
                strbuf_printf(&gpus, "%s%u", gpus.len > 0 ? "|" : "", node->gpu[i].index);
    sim->result->placement[pod] = (struct backtest_placement){
        .node = arena_copy(arena, atom_text(node->name)),
        .gpus = arena_copy(arena, (struct text){gpus.data, gpus.len}),
    };
}

/* Binds the pod to the node that filter chose. */
static void backtest_bind(struct backtest_sim *sim, uint32_t pod, const char *uid,
                          const struct node *node)
{
    const struct past_pod *recorded = &sim->past->pod[pod];
    const struct command reserve = {
        .kind = COMMAND_RESERVE,
        .at_ms = 1,
        .uid = uid,
        .namespace = recorded->facts->namespace,
        .name = recorded->facts->name,
        .node = node->name->text,
        .request = &sim->past->world.shape[recorded->shape].request,
    };
    const struct command confirm = {
        .kind = COMMAND_CONFIRM, .at_ms = 1, .uid = uid, .node = node->name->text};
    struct change change;

    must(ledger_decide(sim->ledger, &reserve, &change) == VERDICT_OK);
    backtest_note_place(sim, pod, node, change.after);
    backtest_apply(sim, &change);
    backtest_do(sim, &confirm);
}

static void backtest_push_end(struct backtest_sim *sim, int64_t at_ms, uint32_t pod);

/* Returns false if the pod fits nowhere. */
static bool backtest_place(struct backtest_sim *sim, uint32_t pod)
{
    const struct past_pod *recorded = &sim->past->pod[pod];
    struct request request = sim->past->world.shape[recorded->shape].request;
    struct filter_answer answer;
    char uid[PAST_UID_BYTES];

    must(recorded->role == PAST_ARRIVED && recorded->shape < sim->past->world.n_shapes);
    if (sim->refused[recorded->shape])
        return false;
    backtest_publish(sim);
    past_uid(pod, uid);
    request.rules =
        policy_context_rules(sim->snapshot->context, text_of(recorded->facts->namespace));
    const struct filter_question question = {
        .snapshot = sim->snapshot,
        .request = &request,
        .uid = text_of(uid),
        .n_names = sim->n_names,
        .name = sim->name,
        .hash = sim->hash,
        .shortlist = 1,
        .cache = sim->cache,
    };
    filter_ask(&question, &sim->arena, &answer);
    const bool fits = answer.verdict == FILTER_FITS;
    if (fits)
        backtest_bind(sim, pod, uid, answer.candidate[0].node);
    /* With rules, the refusal can depend on the namespace, so it is not true of the whole shape. */
    sim->refused[recorded->shape] = !fits && sim->policy->book->n_rules == 0;
    arena_reset(&sim->arena);
    if (!fits)
        return false;
    backtest_count(sim->past, pod, sim->meter.now_ms, sim->result);
    backtest_push_end(sim,
                      recorded->ended_ms == INT64_MAX
                          ? INT64_MAX
                          : sim->meter.now_ms + (recorded->ended_ms - recorded->began_ms),
                      pod);
    return true;
}

/* --- waiting --- */

static void backtest_retry(struct backtest_sim *sim)
{
    uint32_t kept = 0;

    if (!sim->has_new_room)
        return;
    sim->has_new_room = false;
    for (uint32_t i = 0; i < sim->waiting; i++)
        if (!backtest_place(sim, sim->wait[i]))
            sim->wait[kept++] = sim->wait[i];
    must(kept <= sim->waiting);
    sim->waiting = kept;
}

/* --- ends --- */

static bool backtest_ends_earlier(const struct backtest_end *a, const struct backtest_end *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->pod < b->pod;
}

static void backtest_push_end(struct backtest_sim *sim, int64_t at_ms, uint32_t pod)
{
    must(at_ms >= sim->meter.now_ms);
    sim->end = xgrow(sim->end, sim->n_ends, &sim->end_capacity, sizeof *sim->end);
    size_t at = sim->n_ends++;
    const struct backtest_end end = {at_ms, pod};
    for (; at > 0 && backtest_ends_earlier(&end, &sim->end[(at - 1) / 2]); at = (at - 1) / 2)
        sim->end[at] = sim->end[(at - 1) / 2];
    sim->end[at] = end;
}

static uint32_t backtest_pop_end(struct backtest_sim *sim)
{
    const uint32_t first = sim->end[0].pod;
    size_t at = 0;

    must(sim->n_ends > 0);
    const struct backtest_end last = sim->end[--sim->n_ends];
    for (size_t next = 1; next < sim->n_ends; next = 2 * at + 1) {
        if (next + 1 < sim->n_ends && backtest_ends_earlier(&sim->end[next + 1], &sim->end[next]))
            next++;
        if (!backtest_ends_earlier(&sim->end[next], &last))
            break;
        sim->end[at] = sim->end[next];
        at = next;
    }
    sim->end[at] = last;
    return first;
}

static void backtest_end_pod(struct backtest_sim *sim, uint32_t pod)
{
    char uid[PAST_UID_BYTES];

    must(pod < sim->past->n_pods);
    past_uid(pod, uid);
    const struct command release = {
        .kind = COMMAND_RELEASE, .at_ms = 1, .uid = uid, .why = "ended"};
    backtest_do(sim, &release);
}

/* --- events --- */

/* Adopts the pod with the annotation that its recorded place yields. */
static void backtest_observe(struct backtest_sim *sim, uint32_t pod)
{
    const struct past_pod *recorded = &sim->past->pod[pod];
    const struct allocation_facts *facts = recorded->facts;
    struct pod_share *line = arena_array(&sim->arena, facts->n_shares, sizeof *line);
    struct pod_container container = {.name = "unplaced"};
    char uid[PAST_UID_BYTES];

    past_uid(pod, uid);
    struct pod adopted = {
        .uid = uid,
        .namespace = facts->namespace,
        .name = facts->name,
        .node = facts->node->text,
        .phase = POD_RUNNING,
        .whole_gpus = facts->held_gpus,
        .annotation = facts->n_shares > 0 && !facts->presumed ? NOTE_OK : NOTE_NONE,
        .n_shares = facts->n_shares,
        .share = line,
    };
    for (uint32_t i = 0; i < facts->n_shares; i++)
        line[i] = (struct pod_share){facts->share[i].container,
                                     facts->share[i].gpu->text,
                                     gpu_id_index(atom_text(facts->share[i].gpu)),
                                     facts->share[i].milli,
                                     facts->share[i].mib,
                                     facts->share[i].asked};
    if (recorded->shape == UINT32_MAX && facts->unplaced_milli > 0) {
        container.amount = arena_printf(&sim->arena, "%u", facts->unplaced_milli);
        adopted.ours = true;
        adopted.n_containers = 1;
        adopted.container = &container;
    }
    const struct command command = {
        .kind = COMMAND_ADOPT,
        .at_ms = 1,
        .uid = uid,
        .namespace = facts->namespace,
        .name = facts->name,
        .node = adopted.node,
        .pod = &adopted,
        .request =
            recorded->shape != UINT32_MAX ? &sim->past->world.shape[recorded->shape].request : NULL,
    };
    backtest_do(sim, &command);
    sim->nodes_changed = true; /* the pod possibly made its node */
    arena_reset(&sim->arena);
}

/* The number of pods that this run has placed on a node that is being removed. */
static uint32_t backtest_standing(const struct backtest_sim *sim, const char *name)
{
    const struct node *node = ledger_node(sim->ledger, text_of(name));
    uint32_t count = 0;

    for (size_t i = 0; node != NULL && !node->gone && i < sim->n_ends; i++) {
        char uid[PAST_UID_BYTES];
        past_uid(sim->end[i].pod, uid);
        count += node_allocation(node, text_of(uid)) != NULL;
    }
    must(node == NULL || count <= node->n_allocations);
    return count;
}

static void backtest_change_node(struct backtest_sim *sim, const struct past_event *event)
{
    const struct command command = {
        .kind = event->kind == PAST_NODE ? COMMAND_NODE : COMMAND_NODE_GONE,
        .at_ms = 1,
        .node = event->node,
        .inventory = event->inventory,
    };

    must((event->kind == PAST_NODE) == (event->inventory != NULL));
    if (event->kind == PAST_NODE_GONE)
        sim->result->displaced += backtest_standing(sim, event->node);
    backtest_do(sim, &command);
    backtest_settle(sim);
    sim->nodes_changed = true;
    sim->meter.capacity_milli = event->capacity_milli;
}

static void backtest_take(struct backtest_sim *sim, const struct past_event *event)
{
    switch (event->kind) {
    case PAST_NODE:
    case PAST_NODE_GONE:
        backtest_change_node(sim, event);
        break;
    case PAST_BOUND:
        backtest_learn(sim, sim->past->pod[event->pod].shape);
        backtest_observe(sim, event->pod);
        backtest_settle(sim);
        break;
    case PAST_ENDS:
        backtest_end_pod(sim, event->pod);
        break;
    case PAST_ARRIVES:
        backtest_learn(sim, sim->past->pod[event->pod].shape);
        /* Earlier arrivals come first. */
        backtest_retry(sim);
        if (!backtest_place(sim, event->pod))
            sim->wait[sim->waiting++] = event->pod;
        break;
    }
}

/* The time of the next event or end; INT64_MAX if none. */
static int64_t backtest_next(const struct backtest_sim *sim)
{
    const struct past *past = sim->past;
    int64_t next = sim->n_ends > 0 ? sim->end[0].at_ms : INT64_MAX;

    must(sim->events <= past->n_events);
    if (sim->events < past->n_events && past->event[sim->events].at_ms < next)
        next = past->event[sim->events].at_ms;
    /* Changes of rules have no effect without waiting or arriving pods. */
    if (sim->rules_at_ms < next && (sim->waiting > 0 || next != INT64_MAX))
        next = sim->rules_at_ms;
    return next;
}

static void backtest_play(struct backtest_sim *sim)
{
    const struct past *past = sim->past;

    for (int64_t next = backtest_next(sim); next <= past->to_ms; next = backtest_next(sim)) {
        backtest_measure(&sim->meter, next, sim->result);
        if (next >= sim->rules_at_ms)
            backtest_change_rules(sim, next);
        while (sim->n_ends > 0 && sim->end[0].at_ms == next)
            backtest_end_pod(sim, backtest_pop_end(sim));
        while (sim->events < past->n_events && past->event[sim->events].at_ms == next)
            backtest_take(sim, &past->event[sim->events++]);
        backtest_retry(sim);
    }
    backtest_measure(&sim->meter, past->to_ms, sim->result);
    for (uint32_t i = 0; i < sim->waiting; i++)
        backtest_count(past, sim->wait[i], INT64_MAX, sim->result);
}

/* --- results --- */

void backtest_measure(struct backtest_meter *meter, int64_t at_ms, struct backtest_result *out)
{
    const uint64_t more_ms = (uint64_t)(at_ms - meter->now_ms);

    must(at_ms >= meter->now_ms);
    meter->now_ms = at_ms;
    if (more_ms == 0)
        return;
    out->granted += (backtest_area)meter->granted_milli * more_ms;
    out->capacity += (backtest_area)meter->capacity_milli * more_ms;
    const uint64_t part = simulate_ten_thousandths(meter->granted_milli, meter->capacity_milli);
    if (part > out->peak)
        out->peak = part;
}

void backtest_count(const struct past *past, uint32_t pod, int64_t placed_ms,
                    struct backtest_result *out)
{
    const bool never = placed_ms == INT64_MAX;
    const int64_t wait = (never ? past->to_ms : placed_ms) - past->pod[pod].arrived_ms;

    must(wait >= 0 && past->pod[pod].role == PAST_ARRIVED);
    out->wait[pod] = never ? -1 : wait;
    if (never)
        out->never++;
    else if (wait < BACKTEST_AT_ONCE_MS)
        out->at_once++;
    else
        out->waited++;
    if (never || wait >= BACKTEST_AT_ONCE_MS)
        out->wait_ms += (uint64_t)wait;
}

static void backtest_result_init(const struct past *past, struct backtest_result *out)
{
    *out = (struct backtest_result){.wait = xcalloc(past->n_pods, sizeof *out->wait)};
    arena_init(&out->arena);
}

int backtest_run(const struct past *past, const struct policy_choice *policy,
                 const struct workload *workload, const struct backtest_options *options,
                 struct backtest_result *out, struct err *err)
{
    struct backtest_sim sim = {.past = past, .options = options, .policy = policy, .result = out};

    backtest_result_init(past, out);
    out->policy = policy;
    if (options->placements)
        out->placement = arena_array(&out->arena, past->n_pods, sizeof *out->placement);
    const int status = backtest_start(&sim, workload, err);
    if (status == 0)
        backtest_play(&sim);
    backtest_stop(&sim);
    must(status != 0 || out->at_once + out->waited + out->never == past->arrived);
    return status;
}

void backtest_result_done(struct backtest_result *result)
{
    xfree(result->wait);
    arena_done(&result->arena);
    *result = (struct backtest_result){0};
}

/* --- as it was --- */

struct backtest_step {
    int64_t at_ms;
    int64_t granted_milli; /* change of the grants */
};

static int backtest_by_time(const void *left, const void *right)
{
    const struct backtest_step *a = left;
    const struct backtest_step *b = right;

    must(a != NULL && b != NULL);
    return (a->at_ms > b->at_ms) - (a->at_ms < b->at_ms);
}

static size_t backtest_add_steps(const struct past *past, struct backtest_step *step)
{
    size_t steps = 0;

    for (uint32_t i = 0; i < past->n_pods; i++) {
        const struct past_pod *pod = &past->pod[i];
        if (pod->began_ms > past->to_ms)
            continue;
        step[steps++] = (struct backtest_step){.at_ms = pod->began_ms, .granted_milli = pod->milli};
        if (pod->ended_ms <= past->to_ms)
            step[steps++] = (struct backtest_step){.at_ms = pod->ended_ms,
                                                   .granted_milli = -(int64_t)pod->milli};
    }
    if (steps > 0)
        qsort(step, steps, sizeof *step, backtest_by_time);
    return steps;
}

void backtest_record(const struct past *past, struct backtest_result *out)
{
    struct backtest_step *step = xcalloc(2 * (size_t)past->n_pods + 1, sizeof *step);
    const size_t steps = backtest_add_steps(past, step);
    struct backtest_meter meter = {.now_ms = past->from_ms, .capacity_milli = past->capacity_milli};
    uint32_t events = 0;

    backtest_result_init(past, out);
    out->recorded = true;
    for (size_t i = 0; i <= steps; i++) {
        const int64_t at_ms = i < steps ? step[i].at_ms : past->to_ms;
        for (; events < past->n_events && past->event[events].at_ms <= at_ms; events++) {
            const struct past_event *event = &past->event[events];
            if (event->kind != PAST_NODE && event->kind != PAST_NODE_GONE)
                continue;
            backtest_measure(&meter, event->at_ms, out);
            meter.capacity_milli = event->capacity_milli;
        }
        backtest_measure(&meter, at_ms, out);
        meter.granted_milli += i < steps ? (uint64_t)step[i].granted_milli : 0;
    }
    for (uint32_t i = past->held; i < past->n_pods; i++) {
        const int64_t began_ms = past->pod[i].began_ms;
        if (past->pod[i].role == PAST_ARRIVED)
            backtest_count(past, i, began_ms <= past->to_ms ? began_ms : INT64_MAX, out);
    }
    xfree(step);
}
