/*
 * Reads the past of a ledger file: the state at the beginning of the span, and the events in it.
 * Called by backtest.c. The journal is read once, from its oldest entry on, as the only source of
 * past states of nodes. Before the span, the last state of each object is kept as text, and parsed
 * at the beginning; after the span, only ends of pods count. In order: the clock, the initial
 * state, pods, nodes, entries, the end.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/document/document.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "backtest.h"

struct past_reader {
    struct past *past;
    const char *file;
    struct past_span asked;
    struct journal_span span;
    int64_t set_ms; /* sum of clock steps up to this entry */
    int64_t now_ms; /* time of this entry; never goes back */
    bool begun;
    struct map standing[2]; /* before the span: JSON of allocations and of nodes, by name */
    struct map pod_by_uid;  /* index + 1 of pods that have not ended, by uid */
    struct map node_milli;  /* capacity of each node in milli, by name */
    struct map shape_by_hash;
    uint64_t capacity_milli;
    struct arena arena; /* for one entry */
};

/* Requests with the same hash. */
struct past_known {
    uint32_t shape;
    struct past_known *next;
};

/* --- the clock --- */

/* True up to the year 9999, so that no sum overflows. */
static bool past_is_time(int64_t ms)
{
    static const int64_t most = INT64_C(253402300799999);

    must(most > 0);
    return ms >= -most && ms <= most;
}

static int past_outside(const struct past_reader *reader, const char *option, int64_t at_ms,
                        const char *what, int64_t limit_ms, struct err *err)
{
    char at[TIME_TEXT_BYTES];
    char limit[TIME_TEXT_BYTES];

    must(option[0] == '-');
    time_format(at_ms, at);
    time_format(limit_ms, limit);
    return err_set(err, ERR_INVALID, "%s is %s: the journal of %.200s %s at %s%s", option, at,
                   reader->file, what, limit,
                   reader->span.folded > 0 && strcmp(what, "begins") == 0
                       ? "; what was before is folded away (retention_days)"
                       : "");
}

static int past_take_span(void *user, const struct journal_span *span, struct err *err)
{
    struct past_reader *reader = user;
    struct past *past = reader->past;

    must(!reader->begun);
    if (!past_is_time(span->oldest_ms) || !past_is_time(span->newest_ms) ||
        !past_is_time(span->set_ms))
        return err_set(err, ERR_CORRUPT, "%.200s: the times of its journal are none", reader->file);
    const int64_t oldest = span->oldest_ms + span->set_ms;
    reader->span = *span;
    past->set_ms = span->set_ms;
    reader->now_ms = INT64_MIN;
    past->from_ms = reader->asked.from_ms == INT64_MIN ? oldest : reader->asked.from_ms;
    past->to_ms = reader->asked.to_ms < span->newest_ms ? reader->asked.to_ms : span->newest_ms;
    if (past->from_ms < oldest)
        return past_outside(reader, "--from", past->from_ms, "begins", oldest, err);
    if (past->from_ms > span->newest_ms)
        return past_outside(reader, "--from", past->from_ms, "ends", span->newest_ms, err);
    if (past->to_ms < oldest && reader->asked.to_ms != INT64_MAX)
        return past_outside(reader, "--to", past->to_ms, "begins", oldest, err);
    /* The journal has no entry for a clock that was set back while no daemon ran. */
    if (past->to_ms < past->from_ms)
        past->to_ms = past->from_ms;
    return 0;
}

/* Converts a time of the clock at this entry to the clock of the newest entry. */
static int64_t past_moved(const struct past_reader *reader, int64_t at_ms)
{
    must(reader->begun || reader->past->n_pods == 0);
    return at_ms + reader->span.set_ms - reader->set_ms;
}

static int past_take_time(struct past_reader *reader, const struct journal_row *row,
                          const struct document *command, struct err *err)
{
    const bool is_clock = strcmp(row->kind, "clock") == 0;
    const int64_t from = is_clock ? document_int(command, "clock_from_ms") : row->at_ms;

    must(past_is_time(reader->set_ms) && past_is_time(reader->span.set_ms));
    if (!past_is_time(row->at_ms) || !past_is_time(from) ||
        !past_is_time(reader->set_ms + row->at_ms - from))
        return err_set(err, ERR_CORRUPT, "%.200s: journal entry %" PRIu64 ": its time is none",
                       reader->file, row->seq);
    reader->set_ms += row->at_ms - from;
    const int64_t at = row->at_ms + reader->span.set_ms - reader->set_ms;
    reader->now_ms = at > reader->now_ms ? at : reader->now_ms;
    return 0;
}

/* --- what stood --- */

static const char *past_key(const struct document *state, bool is_node)
{
    return document_str(state, is_node ? "name" : "uid");
}

/* A state as text, preceded by its key in the map. */
struct past_standing {
    size_t key_bytes;
    char text[];
};

static void past_forget_standing(struct past_reader *reader, bool is_node, const char *key)
{
    must(!reader->begun);
    xfree(map_take(&reader->standing[is_node], text_of(key)));
}

static void past_keep_standing(struct past_reader *reader, bool is_node,
                               const struct document *state)
{
    const char *key = past_key(state, is_node);
    CLEANUP(strbuf_done) struct strbuf text;

    must(!reader->begun);
    strbuf_init(&text);
    past_forget_standing(reader, is_node, key);
    if (document_true(state, "removed") || strcmp(document_str(state, "state"), "released") == 0)
        return;
    document_write(&text, state);
    const size_t key_bytes = strlen(key) + 1;
    struct past_standing *standing = xmalloc(sizeof *standing + key_bytes + text.len + 1);
    standing->key_bytes = key_bytes;
    memcpy(standing->text, key, key_bytes);
    memcpy(standing->text + key_bytes, text.data, text.len + 1);
    must(map_put(&reader->standing[is_node], text_of(standing->text), standing) == NULL);
}

static int past_by_key(const void *left, const void *right)
{
    const struct past_standing *const *a = left;
    const struct past_standing *const *b = right;

    must(*a != NULL && *b != NULL);
    return strcmp((*a)->text, (*b)->text);
}

static void past_set_node(struct past_reader *reader, const char *name, uint64_t milli)
{
    char *key = arena_copy(&reader->past->arena, text_of(name));
    const uintptr_t before =
        (uintptr_t)map_put(&reader->node_milli, text_of(key), (void *)(uintptr_t)(milli + 1));

    must(before == 0 || reader->capacity_milli >= before - 1);
    reader->capacity_milli += milli;
    reader->capacity_milli -= before > 0 ? before - 1 : 0;
}

static struct past_pod *past_add_pod(struct past_reader *reader,
                                     const struct allocation_facts *facts, enum past_role role)
{
    struct past *past = reader->past;

    past->pod = xgrow(past->pod, past->n_pods, &past->pod_capacity, sizeof *past->pod);
    struct past_pod *pod = &past->pod[past->n_pods++];
    struct allocation *allocation = allocation_new(facts);
    const uint32_t milli = past_milli(allocation);
    allocation_unref(allocation);
    struct allocation_facts *kept = arena_alloc(&past->arena, sizeof *kept);
    *kept = *facts;
    *pod = (struct past_pod){
        .name = arena_printf(&past->arena, "%s/%s", facts->namespace, facts->name),
        .role = role,
        .bound = facts->state == STATE_BOUND,
        .shape = UINT32_MAX,
        .milli = milli,
        .arrived_ms = past->from_ms,
        .began_ms = past->from_ms,
        .ended_ms = INT64_MAX,
        .facts = kept,
    };
    must(map_put(&reader->pod_by_uid, text_of(facts->uid), (void *)(uintptr_t)past->n_pods) ==
         NULL);
    return pod;
}

static int past_stand(struct past_reader *reader, bool is_node, const char *text, struct err *err)
{
    struct past *past = reader->past;
    struct allocation_facts facts;
    struct document *state;
    int status = document_parse_json(text_of(text), "state", &past->arena, &state, err);

    if (status == 0 && is_node) {
        status = past_read_node(past, state, &past->node[past->n_nodes], err);
        if (status == 0)
            past_set_node(reader, past->node[past->n_nodes].name->text,
                          past_capacity(&past->node[past->n_nodes]));
        past->n_nodes++;
    } else if (status == 0) {
        status = past_read_allocation(past, state, &facts, err);
        if (status == 0)
            (void)past_add_pod(reader, &facts, PAST_HELD);
    }
    return status;
}

static int past_stand_all(struct past_reader *reader, bool is_node, struct err *err)
{
    struct map *map = &reader->standing[is_node];
    const struct past_standing **standing = xcalloc(map->count + 1, sizeof *standing);
    size_t count = 0;
    size_t at = 0;
    int status = 0;

    for (const struct past_standing *next = map_next(map, &at); next != NULL;
         next = map_next(map, &at))
        standing[count++] = next;
    must(count == map->count);
    qsort(standing, count, sizeof *standing, past_by_key);
    for (size_t i = 0; status == 0 && i < count; i++)
        status = past_stand(reader, is_node, standing[i]->text + standing[i]->key_bytes, err);
    xfree(standing);
    return status;
}

/* Parses the states at the beginning, sorted by name because maps have no order. */
static int past_begin(struct past_reader *reader, struct err *err)
{
    struct past *past = reader->past;

    must(!reader->begun);
    past->node = arena_array(&past->arena, reader->standing[true].count, sizeof *past->node);
    int status = past_stand_all(reader, true, err);
    if (status == 0)
        status = past_stand_all(reader, false, err);
    past->held = past->n_pods;
    past->capacity_milli = reader->capacity_milli;
    reader->begun = true;
    return status;
}

static int past_take_object(void *user, bool is_node, const char *state, struct err *err)
{
    struct past_reader *reader = user;
    struct document *parsed;

    arena_reset(&reader->arena);
    if (document_parse_json(text_of(state), "state", &reader->arena, &parsed, err) < 0)
        return err_wrap(err, "%.200s: the baseline", reader->file);
    past_keep_standing(reader, is_node, parsed);
    return 0;
}

/* --- pods --- */

static void past_add_event(struct past *past, const struct past_event *event)
{
    must(event->at_ms >= past->from_ms);
    past->event = xgrow(past->event, past->n_events, &past->event_capacity, sizeof *past->event);
    past->event[past->n_events++] = *event;
}

static uint32_t past_new_shape(struct world *world, const struct request *request)
{
    char text[REASON_BYTES_MAX];

    world->shape =
        xgrow(world->shape, world->n_shapes, &world->shape_capacity, sizeof *world->shape);
    request_format(request, text, sizeof text);
    world->shape[world->n_shapes] =
        (struct world_shape){.request = *request, .text = arena_copy(&world->arena, text_of(text))};
    must(world->n_shapes < UINT32_MAX);
    return world->n_shapes++;
}

/* The shape of this request, made if new; the names of containers do not matter. */
static uint32_t past_shape(struct past_reader *reader, const struct request *request)
{
    struct world *world = &reader->past->world;
    const uint32_t hash = request_hash(request);
    char *key = arena_alloc(&world->arena, sizeof hash);

    memcpy(key, &hash, sizeof hash);
    struct past_known *first = map_find(&reader->shape_by_hash, (struct text){key, sizeof hash});
    struct past_known *known = first;
    while (known != NULL && !request_eq(&world->shape[known->shape].request, request))
        known = known->next;
    if (known == NULL) {
        known = arena_alloc(&world->arena, sizeof *known);
        *known = (struct past_known){past_new_shape(world, request), first};
        (void)map_put(&reader->shape_by_hash, (struct text){key, sizeof hash}, known);
    }
    must(known->shape < world->n_shapes);
    return known->shape;
}

/* Reads the request; only pods that milligpud placed must have a valid one. */
static int past_set_request(struct past_reader *reader, const struct journal_row *row,
                            struct past_pod *pod, const struct document *command, struct err *err)
{
    struct request request;

    must(pod->role != PAST_HELD);
    if (past_read_request(reader->past, command, pod->facts, &request))
        pod->shape = past_shape(reader, &request);
    else if (pod->role == PAST_ARRIVED)
        return err_set(err, ERR_CORRUPT,
                       "%.200s: journal entry %" PRIu64 ": what pod %.200s asks for is not what a "
                       "daemon writes",
                       reader->file, row->seq, pod->name);
    return 0;
}

/* The pod arrived at its creation, or if that is not recorded, when it was placed. */
static void past_set_arrival(struct past_reader *reader, struct past_pod *pod,
                             const struct document *command)
{
    const int64_t created = document_int(command, "created_ms");

    pod->created_known = created > 0 && past_is_time(created);
    pod->arrived_ms = pod->began_ms;
    if (pod->created_known && past_moved(reader, created) < pod->began_ms)
        pod->arrived_ms = past_moved(reader, created);
    if (pod->arrived_ms < reader->past->from_ms)
        pod->arrived_ms = reader->past->from_ms;
}

static int past_take_new(struct past_reader *reader, const struct journal_row *row,
                         const struct document *command, const struct allocation_facts *facts,
                         struct err *err)
{
    const enum past_role role =
        facts->origin == ORIGIN_GRANTED && facts->reserved_ms != 0 ? PAST_ARRIVED : PAST_ADOPTED;

    if (reader->past->n_pods == BACKTEST_PODS_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "%.200s: more than %d pods: write a shorter time with --from and --to",
                       reader->file, BACKTEST_PODS_MAX);
    struct past_pod *pod = past_add_pod(reader, facts, role);
    pod->began_ms = reader->now_ms;
    pod->arrived_ms = reader->now_ms;
    pod->seq = row->seq;
    if (role == PAST_ARRIVED)
        past_set_arrival(reader, pod, command);
    return past_set_request(reader, row, pod, command, err);
}

/* A new attempt of a pod whose first Binding failed: it waited all the time. */
static int past_take_again(struct past_reader *reader, const struct journal_row *row,
                           struct past_pod *pod, const struct document *command,
                           const struct allocation_facts *facts, struct err *err)
{
    struct allocation_facts *kept = arena_alloc(&reader->past->arena, sizeof *kept);

    must(pod->dropped);
    *kept = *facts;
    pod->facts = kept;
    pod->dropped = false;
    pod->bound = facts->state == STATE_BOUND;
    pod->began_ms = reader->now_ms;
    pod->ended_ms = INT64_MAX;
    return past_set_request(reader, row, pod, command, err);
}

static int past_take_step(struct past_reader *reader, const struct journal_row *row,
                          struct past_pod *pod, const struct document *command,
                          const struct allocation_facts *facts, struct err *err)
{
    if (facts->state == STATE_BOUND)
        pod->bound = true;
    if (facts->state == STATE_RELEASED) {
        pod->ended_ms = reader->now_ms;
        pod->dropped = pod->role == PAST_ARRIVED && !pod->bound;
    }
    must(!pod->dropped || !pod->bound);
    /* The pod was evaluated again, in a later version. */
    if (pod->role == PAST_ARRIVED && strcmp(row->kind, "version") == 0)
        return past_set_request(reader, row, pod, command, err);
    return 0;
}

/* True for a pod that was created in the span and placed after it: it waits at the end. */
static bool past_waits_at_end(const struct past_reader *reader, const struct document *command)
{
    const int64_t created = document_int(command, "created_ms");

    must(reader->now_ms > reader->past->to_ms);
    return created > 0 && past_is_time(created) &&
           past_moved(reader, created) <= reader->past->to_ms;
}

static int past_take_allocation(struct past_reader *reader, const struct journal_row *row,
                                const struct document *command, const struct document *state,
                                struct err *err)
{
    const struct text uid = text_of(document_str(state, "uid"));
    const uintptr_t at = (uintptr_t)map_find(&reader->pod_by_uid, uid);
    const bool over = reader->now_ms > reader->past->to_ms;
    struct past_pod *pod = at != 0 ? &reader->past->pod[at - 1] : NULL;
    struct allocation_facts facts;

    must(reader->begun);
    if (over && pod == NULL && !past_waits_at_end(reader, command))
        return 0;
    if (past_read_allocation(reader->past, state, &facts, err) < 0)
        return err_wrap(err, "%.200s: journal entry %" PRIu64, reader->file, row->seq);
    if (pod == NULL && facts.state == STATE_RELEASED)
        return 0;
    if (pod == NULL)
        return past_take_new(reader, row, command, &facts, err);
    if (pod->dropped && over)
        return 0;
    const int status = pod->dropped && facts.state != STATE_RELEASED
                           ? past_take_again(reader, row, pod, command, &facts, err)
                           : past_take_step(reader, row, pod, command, &facts, err);
    if (status < 0)
        return status;
    /* A uid that recurs after its pod ran is another pod; otherwise it is the same pod. */
    if (facts.state == STATE_RELEASED && !pod->dropped)
        (void)map_take(&reader->pod_by_uid, uid);
    return 0;
}

/* --- nodes --- */

static int past_take_node(struct past_reader *reader, const struct journal_row *row,
                          const struct document *state, struct err *err)
{
    struct past *past = reader->past;
    struct past_event event = {.at_ms = reader->now_ms, .seq = row->seq};
    struct node_build node;

    must(reader->begun);
    if (document_true(state, "removed")) {
        event.kind = PAST_NODE_GONE;
        event.node = arena_copy(&past->arena, text_of(document_str(state, "name")));
        past_set_node(reader, event.node, 0);
    } else {
        if (past_read_node(past, state, &node, err) < 0)
            return err_wrap(err, "%.200s: journal entry %" PRIu64, reader->file, row->seq);
        event.kind = node.gone ? PAST_NODE_GONE : PAST_NODE;
        event.node = node.name->text;
        event.inventory = node.gone ? NULL : past_inventory(past, &node);
        past_set_node(reader, event.node, past_capacity(&node));
    }
    event.capacity_milli = reader->capacity_milli;
    /* Only commands about nodes: the replay itself adds and removes nodes of adopted pods. */
    if (event.node[0] != '\0' && text_starts(text_of(row->kind), "node"))
        past_add_event(past, &event);
    return 0;
}

/* --- entries --- */

static int past_take_result(struct past_reader *reader, const struct journal_row *row,
                            const struct document *command, const struct document *result,
                            struct err *err)
{
    const struct document *allocation = document_get(result, "allocation");
    const struct document *node = document_get(result, "node");

    if (reader->now_ms >= reader->past->from_ms && !reader->begun && past_begin(reader, err) < 0)
        return err_wrap(err, "%.200s", reader->file);
    if (!reader->begun) {
        if (node != NULL)
            past_keep_standing(reader, true, node);
        if (allocation != NULL)
            past_keep_standing(reader, false, allocation);
        return 0;
    }
    int status = 0;
    if (node != NULL && reader->now_ms <= reader->past->to_ms)
        status = past_take_node(reader, row, node, err);
    if (status == 0 && allocation != NULL)
        status = past_take_allocation(reader, row, command, allocation, err);
    return status;
}

static int past_take_entry(void *user, const struct journal_row *row, struct err *err)
{
    struct past_reader *reader = user;
    struct document *command;
    struct document *result;

    must(row->seq > 0);
    arena_reset(&reader->arena);
    if (document_parse_json(text_of(row->command), "command", &reader->arena, &command, err) < 0 ||
        document_parse_json(text_of(row->result), "result", &reader->arena, &result, err) < 0)
        return err_wrap(err, "%.200s: journal entry %" PRIu64, reader->file, row->seq);
    if (past_take_time(reader, row, command, err) < 0)
        return err_same(err);
    return past_take_result(reader, row, command, result, err);
}

/* --- the end --- */

static int past_by_time(const void *left, const void *right)
{
    const struct past_event *a = left;
    const struct past_event *b = right;

    must(a->kind <= PAST_ENDS && b->kind <= PAST_ENDS);
    if (a->at_ms != b->at_ms)
        return a->at_ms < b->at_ms ? -1 : 1;
    /* Ends come before other events of the same time, because they free room. */
    if ((a->kind == PAST_ENDS) != (b->kind == PAST_ENDS))
        return a->kind == PAST_ENDS ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return (a->pod > b->pod) - (a->pod < b->pod);
}

static void past_count(struct past *past, const struct past_pod *pod)
{
    if (pod->role == PAST_ADOPTED)
        past->adopted++;
    if (pod->shape != UINT32_MAX)
        past->world.shape[pod->shape].count++;
    if (pod->role != PAST_ARRIVED)
        return;
    must(pod->arrived_ms <= pod->began_ms);
    past->arrived++;
    past->unknown_arrivals += !pod->created_known;
    past->unknown_ends += pod->ended_ms == INT64_MAX;
}

/* Drops pods whose Bindings all failed. */
static void past_drop(struct past *past)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < past->n_pods; i++) {
        if (past->pod[i].dropped)
            past->dropped++;
        else
            past->pod[kept++] = past->pod[i];
    }
    must(kept + past->dropped == past->n_pods);
    past->n_pods = kept;
}

static void past_drop_shapes(struct past *past)
{
    struct world *world = &past->world;
    uint32_t *place = xcalloc(world->n_shapes + 1, sizeof *place);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < world->n_shapes; i++) {
        place[i] = kept;
        if (world->shape[i].count > 0)
            world->shape[kept++] = world->shape[i];
    }
    for (uint32_t i = 0; i < past->n_pods; i++)
        if (past->pod[i].shape != UINT32_MAX)
            past->pod[i].shape = place[past->pod[i].shape];
    must(kept <= world->n_shapes);
    world->n_shapes = kept;
    xfree(place);
}

static void past_make_events(struct past *past)
{
    for (uint32_t i = 0; i < past->n_pods; i++) {
        const struct past_pod *pod = &past->pod[i];
        struct past_event event = {.at_ms = pod->arrived_ms, .seq = pod->seq, .pod = i};
        past_count(past, pod);
        event.kind = pod->role == PAST_ARRIVED ? PAST_ARRIVES : PAST_BOUND;
        if (pod->role != PAST_HELD)
            past_add_event(past, &event);
        event.kind = PAST_ENDS;
        event.at_ms = pod->ended_ms;
        if (pod->role != PAST_ARRIVED && pod->ended_ms <= past->to_ms)
            past_add_event(past, &event);
    }
    if (past->n_events > 0)
        qsort(past->event, past->n_events, sizeof *past->event, past_by_time);
}

static int past_finish(struct past_reader *reader, struct err *err)
{
    struct past *past = reader->past;
    char from[TIME_TEXT_BYTES];
    char to[TIME_TEXT_BYTES];

    if (!reader->begun && past_begin(reader, err) < 0)
        return err_wrap(err, "%.200s", reader->file);
    past_drop(past);
    past_make_events(past);
    past_drop_shapes(past);
    if (past->arrived > 0)
        return 0;
    time_format(past->from_ms, from);
    time_format(past->to_ms, to);
    return err_set(
        err, ERR_INVALID,
        "%.200s: milligpud placed no pod from %s to %s, so there is nothing to play again",
        reader->file, from, to);
}

static void past_free_standing(struct map *map)
{
    struct past_standing *standing;
    size_t at = 0;

    must(map != NULL);
    while ((standing = map_next(map, &at)) != NULL)
        xfree(standing);
    map_done(map);
}

int past_read(struct past *past, const char *file, const struct past_span *span, struct err *err)
{
    struct past_reader reader = {.past = past, .file = file, .asked = *span};
    const struct journal_file_reader journal = {
        .user = &reader,
        .span = past_take_span,
        .object = past_take_object,
        .entry = past_take_entry,
    };

    must(past->n_pods == 0 && span->from_ms <= span->to_ms);
    map_init(&reader.standing[false]);
    map_init(&reader.standing[true]);
    map_init(&reader.pod_by_uid);
    map_init(&reader.node_milli);
    map_init(&reader.shape_by_hash);
    arena_init(&reader.arena);
    int status = store_journal_file(file, &journal, err);
    if (status == 0)
        status = past_finish(&reader, err);
    past_free_standing(&reader.standing[false]);
    past_free_standing(&reader.standing[true]);
    map_done(&reader.pod_by_uid);
    map_done(&reader.node_milli);
    map_done(&reader.shape_by_hash);
    arena_done(&reader.arena);
    return status;
}

void past_init(struct past *past)
{
    *past = (struct past){.names = names_new()};
    arena_init(&past->arena);
    world_init(&past->world);
}

void past_done(struct past *past)
{
    must(past->names != NULL);
    world_done(&past->world);
    xfree(past->pod);
    xfree(past->event);
    names_free(past->names);
    arena_done(&past->arena);
}
