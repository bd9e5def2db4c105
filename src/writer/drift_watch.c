/*
 * Reports drift once when it begins and once when it ends; many at once in one line. The writer
 * calls drift_watch_step() after each batch. It compares the snapshot whose drift was reported with
 * the newest one, node by node, at most NODES_A_TURN per step, so that no bind waits for a large
 * comparison. The new snapshot replaces the old one, and the metric changes, when the comparison is
 * complete. No list of drift is stored: both sides are computed from the snapshots, so a restart
 * reports all present drift again.
 */
#include "drift_watch.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/arena.h"
#include "milligpu/base/map.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/spine/event_budget.h"
#include "milligpu/sync/outbox.h"

enum {
    LOOK_MS = 2000,
    /* limit of changed nodes per step */
    NODES_A_TURN = 256,
    /* limit of lines for single drifts per comparison; the rest is counted in one line */
    LINES_MAX = 16,
};

struct drift_watch {
    struct app *app;
    /* the snapshot whose drift was reported; NULL: none yet */
    const struct snapshot *reported;
    /* the snapshot being compared with it; NULL between two comparisons */
    const struct snapshot *looks;
    uint32_t position; /* position of the comparison */
    /* earliest time of the next comparison, monotonic */
    int64_t look_ms;
    struct event_budget budget; /* limit of Events; REST and metrics show all drift */
    int64_t now_ms;
    int64_t wall_ms;
    /* number of Events, for their names */
    uint64_t serial;
    /* number of present drifts by kind, up to the position of the comparison */
    uint32_t count[DRIFT_KIND_COUNT];
    /* number of new drifts in this comparison without a line of their own, by kind */
    uint32_t n_unreported[DRIFT_KIND_COUNT];
    uint32_t lines;              /* lines logged in this comparison */
    bool has_unreported_warning; /* n_unreported includes more than information */
    struct drift_watch_work work;
};

/* The comparison of one changed node. */
struct comparison {
    struct drift_watch *watch;
    struct arena arena;
    struct map had; /* keys of the previous drift, by themselves */
};

struct drift_watch *drift_watch_new(struct app *app)
{
    must(app != NULL);

    struct drift_watch *watch = xcalloc(1, sizeof *watch);

    watch->app = app;
    return watch;
}

void drift_watch_free(struct drift_watch *watch)
{
    if (watch == NULL)
        return;
    snapshot_unref(watch->reported);
    snapshot_unref(watch->looks);
    xfree(watch);
}

/*
 * An Event about a Node belongs to the namespace default, because a Node has none. Its name is
 * unique across restarts: it contains the time, and a serial number within one millisecond.
 */
static void send_event(struct drift_watch *watch, const struct drift *drift)
{
    must(drift->node != NULL);

    const struct allocation *pod = drift->allocation;
    char name[64];

    if (!watch->app->settings->events || !event_budget_take(&watch->budget, watch->now_ms))
        return;
    (void)snprintf(name, sizeof name, "milligpu-drift-%llx-%llx",
                   (unsigned long long)watch->wall_ms, (unsigned long long)++watch->serial);
    const struct kube_event_facts facts = {
        .namespace = pod != NULL ? pod->facts.namespace : "default",
        .name = name,
        .kind = pod != NULL ? "Pod" : "Node",
        .regarding = pod != NULL ? pod->facts.name : drift->node->name->text,
        .uid = pod != NULL ? pod->facts.uid : drift->node->uid->text,
        .reason = "GPULedgerDrift",
        .action = drift->kind,
        .note = drift->text,
        .instance = "milligpud",
        .at_ms = watch->wall_ms,
        .warning = true,
    };
    outbox_event(watch->app->outbox, &facts);
}

/*
 * Logs a new drift and sends an Event, unless it is mere information. The first comparison only
 * counts adopted pods: hundreds may run at each start.
 */
static void drift_watch_report(struct drift_watch *watch, const struct drift *drift)
{
    const size_t kind = drift_kind_find(text_of(drift->kind));
    const bool information = drift_is_information(drift, watch->wall_ms);
    const bool at_start = watch->reported == NULL && strcmp(drift->kind, "adopted") == 0;

    must(drift->text[0] != '\0');
    must(kind < DRIFT_KIND_COUNT);
    if (information || at_start || watch->lines >= LINES_MAX) {
        watch->n_unreported[kind]++;
        watch->has_unreported_warning = watch->has_unreported_warning || !information;
    } else {
        watch->lines++;
        log_write(LOG_WARN, "drift", log_str("kind", drift->kind),
                  log_str("node", drift->node->name->text), log_str("text", drift->text));
    }
    if (!information)
        send_event(watch, drift);
}

/* Logs one line for all drift without its own: "300 adopted, 12 over". */
static void drift_watch_sum_up(struct drift_watch *watch)
{
    CLEANUP(strbuf_done) struct strbuf kinds;
    uint32_t sum = 0;

    strbuf_init(&kinds);
    for (size_t i = 0; i < DRIFT_KIND_COUNT; i++) {
        if (watch->n_unreported[i] > 0)
            strbuf_printf(&kinds, "%s%u %s", kinds.len > 0 ? ", " : "", watch->n_unreported[i],
                          drift_kind_name(i));
        sum += watch->n_unreported[i];
        watch->n_unreported[i] = 0;
    }
    must((sum > 0) == (kinds.len > 0));
    if (sum > 0)
        log_write(watch->has_unreported_warning ? LOG_WARN : LOG_INFO,
                  "drift without a line of its own: milligpuctl drift --kind KIND lists it",
                  log_i64("count", sum), log_str("kinds", kinds.data));
    watch->lines = 0;
    watch->has_unreported_warning = false;
}

static uint32_t *drift_watch_counter(struct drift_watch *watch, const struct drift *drift)
{
    const size_t kind = drift_kind_find(text_of(drift->kind));

    must(kind < DRIFT_KIND_COUNT);
    watch->work.drifts++;
    return &watch->count[kind];
}

/*
 * Identity of a drift. It excludes the text, whose amounts change while the drift stays.
 */
static struct text drift_watch_key_of(struct comparison *comparison, const struct drift *drift)
{
    const char *key =
        arena_printf(&comparison->arena, "%s/%s/%s/%s", drift->kind, drift->node->name->text,
                     drift->gpu != NULL ? drift->gpu->id->text : "",
                     drift->allocation != NULL ? drift->allocation->facts.uid : "");
    must(key[0] != '\0');
    return text_of(key);
}

/*
 * For drift_of() on the old node. The keys, in the comparison's arena, are also the values, so that
 * the remaining ones can be logged.
 */
static void drift_watch_had(void *user, const struct drift *drift)
{
    struct comparison *comparison = user;
    const struct text key = drift_watch_key_of(comparison, drift);
    uint32_t *count = drift_watch_counter(comparison->watch, drift);

    must(*count > 0);
    (*count)--;
    (void)map_put(&comparison->had, key, (void *)(uintptr_t)key.at);
}

/* For drift_of() on the new node, after the old one: reports drift that the old one lacks. */
static void drift_watch_has(void *user, const struct drift *drift)
{
    struct comparison *comparison = user;
    uint32_t *count = drift_watch_counter(comparison->watch, drift);

    (*count)++;
    must(*count > 0);
    if (map_take(&comparison->had, drift_watch_key_of(comparison, drift)) == NULL)
        drift_watch_report(comparison->watch, drift);
}

/*
 * All drift of a node is a function of that node, so the reported drift is recomputed from the
 * previous node: drift of the old node only is resolved, drift of the new node only is new.
 */
static void drift_watch_compare(struct drift_watch *watch, const struct node *before,
                                const struct node *after)
{
    struct comparison comparison = {.watch = watch};
    const char *healed;

    must(before != NULL || after != NULL);
    watch->work.nodes++;
    arena_init(&comparison.arena);
    map_init(&comparison.had);
    if (before != NULL)
        drift_of(before, &comparison, drift_watch_had);
    if (after != NULL)
        drift_of(after, &comparison, drift_watch_has);
    for (size_t at = 0; (healed = map_next(&comparison.had, &at)) != NULL;)
        log_write(LOG_INFO, "drift is gone", log_str("what", healed));
    map_done(&comparison.had);
    arena_done(&comparison.arena);
}

/* Sets all kinds, even with 0, because a gauge keeps its last value. */
static void drift_watch_expose(const struct drift_watch *watch)
{
    must(watch->reported != NULL);

    for (size_t i = 0; i < DRIFT_KIND_COUNT; i++)
        metric_set(M_DRIFT, LABEL_VALUES(drift_kind_name(i)), watch->count[i]);
}

/* Continues the comparison; returns true at its end. */
static bool look_on(struct drift_watch *watch)
{
    const struct node *before;
    const struct node *after;

    must(watch->looks != NULL);
    for (uint32_t i = 0; i < NODES_A_TURN; i++) {
        if (!snapshot_next_change(watch->reported, watch->looks, &watch->position, &before, &after))
            return true;
        drift_watch_compare(watch, before, after);
    }
    return false;
}

static bool begin_look(struct drift_watch *watch)
{
    must(watch->looks == NULL);
    /* Before the lists are complete, missing events would look like drift. */
    if (watch->now_ms < watch->look_ms || !app_ready(watch->app, NULL))
        return false;
    watch->look_ms = watch->now_ms + LOOK_MS;
    watch->looks = view_take(watch->app->view);
    watch->position = 0;
    if (watch->reported == NULL || watch->reported->generation != watch->looks->generation)
        return true;
    snapshot_unref(watch->looks);
    watch->looks = NULL;
    return false;
}

void drift_watch_step(struct drift_watch *watch, int64_t now_ms, int64_t wall_ms)
{
    must(now_ms >= 0);

    watch->now_ms = now_ms;
    watch->wall_ms = wall_ms;
    if (watch->looks == NULL && !begin_look(watch))
        return;
    if (!look_on(watch))
        return;
    snapshot_unref(watch->reported);
    watch->reported = watch->looks;
    watch->looks = NULL;
    drift_watch_sum_up(watch);
    drift_watch_expose(watch);
}

size_t drift_watch_reported(const struct drift_watch *watch)
{
    size_t sum = 0;

    for (size_t i = 0; i < DRIFT_KIND_COUNT; i++)
        sum += watch->count[i];
    return sum;
}

void drift_watch_work(const struct drift_watch *watch, struct drift_watch_work *out)
{
    *out = watch->work;
}
