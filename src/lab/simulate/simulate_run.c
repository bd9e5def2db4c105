/*
 * One run of the command simulate: all arrivals in order on the cluster, or with --churn, random
 * pods while others end. Called by simulate.c. Does in one thread the steps of the webhooks and the
 * writer (filter on a snapshot, reserve, confirm, publish), after kube-scheduler's own filter for
 * CPU and memory. In order: setup, placing and ending one pod, counting, arrivals, churn.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"
#include "milligpu/core/answer/filter.h"
#include "milligpu/core/rules/tally.h"
#include "milligpu/run/clock.h"

#include "simulate.h"

enum { SIMULATE_UID_BYTES = 24 };

/* A running pod, with churn. */
struct simulate_running {
    uint32_t serial;
    uint32_t shape;
    uint32_t node;
};

struct simulation {
    const struct world *world;
    const struct simulate_options *options;
    struct simulate_result *result;
    struct ledger *ledger;
    struct snapshot *snapshot;
    struct score_cache *cache;
    struct tally *tally;         /* NULL if the workload is known from the start */
    struct arena arena;          /* for one decision */
    struct host *left;           /* free CPU and memory of each node */
    struct simulate_seen *seen;  /* each node */
    const struct node **in_slot; /* the nodes of the snapshot */
    /* candidate nodes of one filter call */
    struct text *name;
    struct known_node *known;
    uint32_t *asked; /* indexes of the nodes */
    uint64_t allocated_milli;
    /* separate generators, so that every policy gets the same arrivals */
    uint64_t random_arrivals;
    uint64_t random_ends;
    size_t running;
    size_t running_capacity;
    struct simulate_running *run;
    int64_t report_at_ns; /* time of the next progress report */
    bool is_reported;
};

/* The name and the slot of a node. */
struct simulate_seen {
    struct text name;
    uint32_t slot;
};

/* The place of a pod. */
struct simulate_place {
    bool placed;
    uint32_t node;
    uint64_t milli;
    uint32_t n_gpus;
    uint16_t gpu[GPUS_PER_NODE_MAX]; /* indexes, ascending */
};

/* --- setting up --- */

/* Runs a command that must succeed. */
static void simulate_do(struct simulation *sim, const struct command *command)
{
    struct change change;

    must(ledger_decide(sim->ledger, command, &change) == VERDICT_OK);
    ledger_apply(sim->ledger, &change);
    change_done(&change);
}

/* Updates in_slot. milligpud finds the same nodes while it reads a list (name_order.h). */
static void simulate_publish(struct simulation *sim)
{
    struct snapshot *before = sim->snapshot;
    const struct node *former;
    const struct node *node;
    uint32_t at = 0;

    sim->snapshot = ledger_publish(sim->ledger, NULL, 0);
    must(sim->snapshot != NULL);
    if (before == NULL || before->slots < sim->snapshot->slots)
        sim->in_slot = xrealloc(sim->in_slot, sim->snapshot->slots, sizeof *sim->in_slot);
    while (snapshot_next_change(before, sim->snapshot, &at, &former, &node))
        sim->in_slot[at - 1] = node;
    snapshot_unref(before);
}

static void simulate_find_slots(struct simulation *sim)
{
    const struct world *world = sim->world;
    const struct node *node;

    for (uint32_t i = 0; i < world->n_nodes; i++) {
        struct simulate_seen *seen = &sim->seen[i];
        seen->name = text_of(world->node[i].name);
        snapshot_nodes(sim->snapshot, 1, &seen->name, &world->node[i].hash, &node, &seen->slot);
        must(node != NULL && node == sim->in_slot[seen->slot]);
    }
}

static void simulate_set_policy_context(struct simulation *sim, const struct workload *workload)
{
    const struct policy_choice *policy = sim->result->policy;
    struct policy_context *context = policy_context_of_rulebook(
        policy->book, policy->holding, rulebook_needs_workload(policy->book) ? workload : NULL);

    must(context != NULL);
    ledger_set_policy_context(sim->ledger, context);
    policy_context_unref(context);
}

static void simulate_use_tally(struct simulation *sim)
{
    struct workload *workload = tally_workload(sim->tally);

    must(sim->options->learn);
    simulate_set_policy_context(sim, workload);
    workload_unref(workload);
}

static void simulate_start(struct simulation *sim, const struct workload *workload)
{
    const struct world *world = sim->world;

    must(world->n_nodes > 0 && world->n_pods > 0);
    arena_init(&sim->arena);
    sim->ledger = ledger_new();
    sim->cache = score_cache_new();
    sim->tally = sim->options->learn ? tally_new() : NULL;
    sim->left = xcalloc(world->n_nodes, sizeof *sim->left);
    sim->name = xcalloc(world->n_nodes, sizeof *sim->name);
    sim->known = xcalloc(world->n_nodes, sizeof *sim->known);
    sim->seen = xcalloc(world->n_nodes, sizeof *sim->seen);
    sim->asked = xcalloc(world->n_nodes, sizeof *sim->asked);
    sim->random_arrivals = sim->options->seed;
    sim->random_ends = ~(uint64_t)sim->options->seed;
    for (uint32_t i = 0; i < world->n_nodes; i++)
        sim->left[i] = world->node[i].host;
    sim->allocated_milli = simulate_fill(sim->ledger, world, &sim->arena);
    sim->result->held_milli = sim->allocated_milli;
    if (sim->tally != NULL) {
        tally_expect(sim->tally, sim->result->policy->book);
        simulate_use_tally(sim);
    } else {
        simulate_set_policy_context(sim, workload);
    }
    simulate_publish(sim);
    simulate_find_slots(sim);
    sim->report_at_ns = clock_ns() + 1000000000;
}

static void simulate_stop(struct simulation *sim)
{
    snapshot_unref(sim->snapshot);
    score_cache_free(sim->cache);
    tally_free(sim->tally);
    ledger_free(sim->ledger);
    xfree(sim->left);
    xfree(sim->name);
    xfree(sim->known);
    xfree(sim->asked);
    xfree(sim->seen);
    xfree(sim->in_slot);
    xfree(sim->run);
    arena_done(&sim->arena);
}

/* --- one pod --- */

static void simulate_uid(uint32_t serial, char out[SIMULATE_UID_BYTES])
{
    (void)snprintf(out, SIMULATE_UID_BYTES, "pod-%" PRIu32, serial);
}

/* Applies kube-scheduler's own filter, which precedes the extender. */
static uint32_t simulate_in_tree(struct simulation *sim, const struct host *host)
{
    uint32_t names = 0;

    for (uint32_t i = 0; i < sim->world->n_nodes; i++) {
        if (host->cpu_milli > sim->left[i].cpu_milli || host->memory_mib > sim->left[i].memory_mib)
            continue;
        const struct simulate_seen *seen = &sim->seen[i];
        sim->name[names] = seen->name;
        sim->known[names] = (struct known_node){sim->in_slot[seen->slot], seen->slot};
        sim->asked[names] = i;
        names++;
    }
    must(names <= sim->world->n_nodes);
    return names;
}

static void simulate_take(struct simulation *sim, const struct simulate_place *place,
                          const struct world_shape *shape)
{
    struct host *left = &sim->left[place->node];
    const struct host *host = &shape->request.host;

    must(host->cpu_milli <= left->cpu_milli && host->memory_mib <= left->memory_mib);
    left->cpu_milli -= host->cpu_milli;
    left->memory_mib -= host->memory_mib;
    sim->allocated_milli += place->milli;
    must(ledger_set_host(sim->ledger, text_of(sim->world->node[place->node].name), left));
}

static void simulate_give_back(struct simulation *sim, uint32_t node,
                               const struct world_shape *shape)
{
    const struct world_node *world_node = &sim->world->node[node];
    struct host *left = &sim->left[node];

    left->cpu_milli += shape->request.host.cpu_milli;
    left->memory_mib += shape->request.host.memory_mib;
    must(left->cpu_milli <= world_node->host.cpu_milli &&
         left->memory_mib <= world_node->host.memory_mib);
    must(sim->allocated_milli >= shape_milli(shape));
    sim->allocated_milli -= shape_milli(shape);
    must(ledger_set_host(sim->ledger, text_of(world_node->name), left));
}

/* Reads the indexes of the GPUs that the ledger chose, which are those that filter chose. */
static void simulate_read_gpus(const struct change *change, const struct candidate *best,
                               struct simulate_place *out)
{
    const struct allocation_facts *granted = &change->after->facts;

    must(granted->n_shares == best->placement->n_parts);
    must(granted->n_shares <= GPUS_PER_NODE_MAX);
    out->n_gpus = granted->n_shares;
    for (uint32_t i = 0; i < out->n_gpus; i++) {
        const struct gpu *gpu = &best->node->gpu[best->placement->part[i].gpu];
        out->gpu[i] = gpu->index;
        must(granted->share[i].gpu == gpu->id);
    }
}

/* Does the steps of filter and bind. *change: set if the pod requests a GPU and fits. */
static void simulate_decide(struct simulation *sim, uint32_t serial,
                            const struct world_shape *shape, struct simulate_place *out,
                            struct change *change)
{
    char uid[SIMULATE_UID_BYTES];
    struct filter_answer answer;
    struct request request = shape->request;

    simulate_uid(serial, uid);
    request.rules = policy_context_rules(sim->snapshot->context, text_of(shape->namespace));
    const struct filter_question question = {
        .snapshot = sim->snapshot,
        .request = &request,
        .uid = text_of(uid),
        .n_names = simulate_in_tree(sim, &shape->request.host),
        .name = sim->name,
        .known = sim->known,
        .known_in = sim->snapshot,
        .shortlist = 1,
        .cache = sim->cache,
    };
    const int64_t start_ns = clock_thread_ns(); /* CPU time, so other processes do not count */
    filter_ask(&question, &sim->arena, &answer);
    if (answer.verdict == FILTER_FITS) {
        must(answer.n_candidates == 1);
        out->placed = true;
        out->node = sim->asked[answer.candidate[0].name];
        const struct command reserve = {
            .kind = COMMAND_RESERVE,
            .at_ms = 1,
            .uid = uid,
            .namespace = shape->namespace,
            .name = uid,
            .node = sim->world->node[out->node].name,
            .request = &request,
        };
        if (shape->request.n_wants > 0)
            must(ledger_decide(sim->ledger, &reserve, change) == VERDICT_OK);
    }
    simulate_count_ns(sim->result, clock_thread_ns() - start_ns);
    if (out->placed && shape->request.n_wants > 0) {
        out->milli = allocation_milli(change->after);
        if (sim->options->placements != NULL)
            simulate_read_gpus(change, &answer.candidate[0], out);
    }
    if (!out->placed && sim->world->rounds > 0 && sim->result->refused == 0) {
        const struct simulate_refusal refusal = {sim->world, sim->left, shape, &question, &answer};
        simulate_explain(&refusal, sim->result);
    }
    arena_reset(&sim->arena);
}

/* Learns the arrival before the decision, as in milligpud: the watch shows pods first. */
static void simulate_learn(struct simulation *sim, const struct request *request)
{
    if (sim->tally == NULL || request->n_wants == 0)
        return;
    tally_count(sim->tally, request);
    if (!tally_is_due(sim->tally))
        return;
    simulate_use_tally(sim);
    simulate_publish(sim);
}

static void simulate_place(struct simulation *sim, uint32_t serial, const struct world_shape *shape,
                           struct simulate_place *out)
{
    char uid[SIMULATE_UID_BYTES];
    struct change change;

    *out = (struct simulate_place){.placed = false};
    simulate_learn(sim, &shape->request);
    simulate_decide(sim, serial, shape, out, &change);
    if (!out->placed)
        return;
    if (shape->request.n_wants > 0) {
        ledger_apply(sim->ledger, &change);
        change_done(&change);
        simulate_uid(serial, uid);
        const struct command confirm = {
            .kind = COMMAND_CONFIRM,
            .at_ms = 1,
            .uid = uid,
            .node = sim->world->node[out->node].name,
        };
        simulate_do(sim, &confirm);
    }
    simulate_take(sim, out, shape);
    simulate_publish(sim);
}

/* The snapshot still has the pod until the caller publishes. */
static void simulate_end(struct simulation *sim, const struct simulate_running *pod)
{
    const struct world_shape *shape = &sim->world->shape[pod->shape];
    char uid[SIMULATE_UID_BYTES];

    simulate_uid(pod->serial, uid);
    const struct command release = {
        .kind = COMMAND_RELEASE,
        .at_ms = 1,
        .uid = uid,
        .node = sim->world->node[pod->node].name,
        .why = "ended",
    };
    must(pod->node < sim->world->n_nodes);
    if (shape->request.n_wants > 0)
        simulate_do(sim, &release);
    simulate_give_back(sim, pod->node, shape);
}

/* --- counting --- */

static void simulate_count(struct simulation *sim, uint32_t shape, bool placed)
{
    struct simulate_result *result = sim->result;
    const uint64_t milli = shape_milli(&sim->world->shape[shape]);
    const bool multi = sim->world->shape[shape].want.parts > 1;

    must(shape < sim->world->n_shapes);
    result->arrived++;
    result->multi_arrived += multi;
    result->arrived_milli += milli;
    result->shape_arrived[shape]++;
    if (placed)
        return;
    result->refused++;
    result->refused_milli += milli;
    result->shape_refused[shape]++;
    if (multi && !result->multi_was_refused) {
        result->multi_was_refused = true;
        result->first_multi_milli = result->arrived_milli;
    }
    result->multi_refused += multi;
}

/* Reports progress once a second, from the first second on. */
static void simulate_show_progress(struct simulation *sim, uint32_t done, uint32_t pods)
{
    FILE *progress = sim->options->progress;

    must(done <= pods);
    if (progress == NULL || done % 64 != 0 || clock_ns() < sim->report_at_ns)
        return;
    (void)fprintf(progress, "\r%s: %" PRIu32 " of %" PRIu32 " pods ", sim->result->policy->word,
                  done, pods);
    (void)fflush(progress); /* only for people; errors do not matter */
    sim->report_at_ns = clock_ns() + 1000000000;
    sim->is_reported = true;
}

static void simulate_end_progress(const struct simulation *sim)
{
    must(sim->result != NULL);
    if (sim->is_reported)
        (void)fprintf(sim->options->progress, "\r%60s\r", ""); /* errors do not matter */
}

/* --- arrivals --- */

static void simulate_write_placement(FILE *out, struct text name, const struct simulation *sim,
                                     const struct simulate_place *place)
{
    /* stdio keeps write errors, which are checked when the file is closed */
    (void)fprintf(out, "%.*s,%s,", TEXT_ARG(name),
                  place->placed ? sim->world->node[place->node].name : "");
    must(place->placed || place->n_gpus == 0);
    for (uint32_t i = 0; i < place->n_gpus; i++)
        (void)fprintf(out, "%s%u", i > 0 ? "|" : "", (unsigned)place->gpu[i]);
    (void)fputc('\n', out);
}

/* Adds the allocation after an arrival to the level of its load, rounded to whole percent. */
static void simulate_add_level(const struct simulation *sim)
{
    struct simulate_result *result = sim->result;
    const uint64_t capacity = sim->world->gpu_milli;
    const uint64_t percent = (200 * result->arrived_milli + capacity) / (2 * capacity);

    if (!sim->options->curve)
        return;
    if (result->n_levels == 0 || result->level[result->n_levels - 1].percent != percent) {
        result->level =
            xgrow(result->level, result->n_levels, &result->level_capacity, sizeof *result->level);
        result->level[result->n_levels++] = (struct simulate_level){.percent = percent};
    }
    struct simulate_level *level = &result->level[result->n_levels - 1];
    must(level->percent == percent);
    level->count++;
    level->milli += sim->allocated_milli;
}

static void simulate_arrivals(struct simulation *sim)
{
    const struct world *world = sim->world;
    struct simulate_place place;

    must(sim->options->churn_percent == 0);
    for (uint32_t i = 0; i < world->n_pods; i++) {
        const uint32_t shape = world->pod[i].shape;
        simulate_place(sim, i, &world->shape[shape], &place);
        simulate_count(sim, shape, place.placed);
        if (sim->options->placements != NULL)
            simulate_write_placement(sim->options->placements, world->pod[i].name, sim, &place);
        simulate_add_level(sim);
        simulate_show_progress(sim, i + 1, world->n_pods);
    }
}

/* --- the pods of a manifest --- */

/* Ends after a round in which no pod fit: without ends, none will ever fit. */
static void simulate_rounds(struct simulation *sim)
{
    const struct world *world = sim->world;
    struct simulate_result *result = sim->result;
    struct simulate_place place;
    uint32_t fitted = 1;

    must((uint64_t)world->rounds * world->n_pods <= SIMULATE_ARRIVALS_MAX);
    for (uint32_t round = 0; round < world->rounds && fitted > 0; round++) {
        fitted = 0;
        for (uint32_t i = 0; i < world->n_pods; i++) {
            const uint32_t shape = world->pod[i].shape;
            simulate_place(sim, round * world->n_pods + i, &world->shape[shape], &place);
            if (!place.placed && result->refused == 0) {
                result->fitted_before = result->arrived;
                result->first_shape = shape;
            }
            simulate_count(sim, shape, place.placed);
            fitted += place.placed;
            simulate_show_progress(sim, round * world->n_pods + i + 1,
                                   world->rounds * world->n_pods);
        }
    }
    if (result->refused == 0)
        result->fitted_before = result->arrived;
}

/* --- churn --- */

static uint32_t simulate_draw(uint64_t *random, uint32_t below)
{
    must(below > 0);
    return (uint32_t)((random_next(random) >> 32) * below >> 32);
}

/*
 * Ends random pods until the allocation is at most the given part of the capacity. Pods that were
 * bound at the beginning stay.
 */
static void simulate_depart(struct simulation *sim)
{
    const uint64_t most = sim->world->gpu_milli * sim->options->churn_percent / 100;
    bool ended = false;

    while (sim->allocated_milli > most && sim->running > 0) {
        struct simulate_running *pod =
            &sim->run[simulate_draw(&sim->random_ends, (uint32_t)sim->running)];
        simulate_end(sim, pod);
        *pod = sim->run[--sim->running];
        ended = true;
    }
    if (ended)
        simulate_publish(sim);
}

static void simulate_churn(struct simulation *sim)
{
    const struct world *world = sim->world;
    const uint32_t events = sim->options->events;
    struct simulate_place place;

    must(events > 0);
    for (uint32_t i = 0; i < events; i++) {
        const uint32_t shape =
            world->pod[simulate_draw(&sim->random_arrivals, world->n_pods)].shape;
        simulate_place(sim, i, &world->shape[shape], &place);
        if (i >= events / 2)
            simulate_count(sim, shape, place.placed);
        if (place.placed) {
            sim->run = xgrow(sim->run, sim->running, &sim->running_capacity, sizeof *sim->run);
            sim->run[sim->running++] = (struct simulate_running){i, shape, place.node};
            simulate_depart(sim);
        }
        simulate_show_progress(sim, i + 1, events);
    }
}

void simulate_run(const struct world *world, const struct policy_choice *policy,
                  const struct workload *workload, const struct simulate_options *options,
                  struct simulate_result *out)
{
    struct simulation sim = {.world = world, .options = options, .result = out};

    *out = (struct simulate_result){
        .policy = policy,
        .shape_arrived = xcalloc(world->n_shapes, sizeof *out->shape_arrived),
        .shape_refused = xcalloc(world->n_shapes, sizeof *out->shape_refused),
        .latency = xcalloc(SIMULATE_LATENCIES, sizeof *out->latency),
    };
    arena_init(&out->arena);
    out->reasons.arena = &out->arena;
    out->never = "";
    simulate_start(&sim, workload);
    if (world->rounds > 0)
        simulate_rounds(&sim);
    else if (options->churn_percent > 0)
        simulate_churn(&sim);
    else
        simulate_arrivals(&sim);
    out->allocated_milli = sim.allocated_milli;
    out->stranded_milli = simulate_stranded(sim.snapshot, workload);
    simulate_end_progress(&sim);
    simulate_stop(&sim);
    must(out->refused <= out->arrived);
}

void simulate_result_done(struct simulate_result *result)
{
    xfree(result->shape_arrived);
    xfree(result->shape_refused);
    arena_done(&result->arena);
    xfree(result->latency);
    xfree(result->level);
    *result = (struct simulate_result){0};
}
