#include "audit.h"

#include <pthread.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"
#include "milligpu/metric.h"

#include "bundle.h"

enum { PLACES_A_TURN = 128 };

enum meeting { MEETING_NONE, MEETING_ASKED, MEETING_HELD };

struct audit {
    struct app *app;
    pthread_mutex_t lock; /* guards what follows, up to due_ms */
    enum meeting meeting;
    struct store_look *look; /* NULL between audits; the writer touches it in audit_meet() only */
    const struct snapshot *snapshot;
    bool stopping;
    struct err err; /* of the pin; code ERR_NONE: it went well */
    struct audit_facts facts;
    int64_t due_ms; /* monotonic */
    bool bundled;
};

struct audit *audit_new(struct app *app)
{
    struct audit *audit = xcalloc(1, sizeof *audit);

    must(app->store != NULL && app->view != NULL);
    audit->app = app;
    audit->due_ms = INT64_MIN;
    must(pthread_mutex_init(&audit->lock, NULL) == 0);
    return audit;
}

static void lock(struct audit *audit)
{
    must(pthread_mutex_lock(&audit->lock) == 0);
}

static void unlock(struct audit *audit)
{
    must(pthread_mutex_unlock(&audit->lock) == 0);
}

/* The next one is asked for by the end of this one. */
static void part(struct audit *audit, int64_t now_ms)
{
    const uint32_t interval_s = atomic_load(&audit->app->settings)->audit_interval_s;

    lock(audit);
    store_look_close(audit->look);
    snapshot_unref(audit->snapshot);
    audit->look = NULL;
    audit->snapshot = NULL;
    audit->meeting = MEETING_NONE;
    unlock(audit);
    audit->due_ms = interval_s == 0 ? INT64_MAX : now_ms + (int64_t)interval_s * 1000;
    must(audit->due_ms >= now_ms);
}

void audit_free(struct audit *audit)
{
    if (audit == NULL)
        return;
    store_look_close(audit->look);
    snapshot_unref(audit->snapshot);
    must(pthread_mutex_destroy(&audit->lock) == 0);
    xfree(audit);
}

void audit_stop(struct audit *audit)
{
    if (audit == NULL)
        return;
    lock(audit);
    audit->stopping = true;
    if (audit->look != NULL)
        store_look_interrupt(audit->look);
    unlock(audit);
}

void audit_facts(struct audit *audit, struct audit_facts *out)
{
    must(audit != NULL && out != NULL);
    lock(audit);
    *out = audit->facts;
    unlock(audit);
}

void audit_meet(struct audit *audit)
{
    if (audit == NULL)
        return;
    lock(audit);
    if (audit->meeting == MEETING_ASKED) {
        audit->err.code = ERR_NONE;
        (void)!store_look_pin(audit->look, &audit->err); /* judged by the audit thread */
        audit->snapshot = view_take(audit->app->view);
        audit->meeting = MEETING_HELD;
        must(audit->snapshot != NULL);
    }
    unlock(audit);
}

void audit_memory(struct app *app, const struct ledger *ledger, uint32_t *place)
{
    struct err err;

    must(place != NULL);
    if (atomic_load(&app->settings)->audit_interval_s == 0)
        return;
    if (*place >= ledger_places(ledger))
        *place = 0;
    if (ledger_check_some(ledger, *place, PLACES_A_TURN, &err) < 0)
        safe_enter(app, SAFE_MEMORY, err.text);
    *place += PLACES_A_TURN;
}

static bool is_finding(const struct err *err)
{
    must(err->code != ERR_NONE);
    return err->code == ERR_CORRUPT || err->code == ERR_INTERNAL;
}

static int check_snapshot(const struct snapshot *snapshot, struct err *err)
{
    const struct node *node;
    uint32_t nodes = 0;
    uint32_t allocations = 0;
    uint32_t at = 0;

    must(snapshot->nodes <= snapshot->slots);
    while ((node = snapshot_next(snapshot, &at)) != NULL) {
        if (node_check(node, err) < 0)
            return -(int)err->code;
        nodes++;
        allocations += node->allocations;
    }
    if (nodes == snapshot->nodes && allocations == snapshot->allocations)
        return 0;
    return err_set(err, ERR_CORRUPT, "readers count %u nodes and %u pods where there are %u and %u",
                   snapshot->nodes, snapshot->allocations, nodes, allocations);
}

static void log_unfinished(struct audit *audit, const struct err *err)
{
    lock(audit);
    const bool stopping = audit->stopping;
    unlock(audit);
    must(err->code != ERR_NONE);
    metric_add(M_AUDITS, "outcome=\"unfinished\"", 1);
    if (!stopping)
        log_write(LOG_WARN, "an audit of the ledger did not come to its end",
                  log_str("error", err->text));
}

/* It came to its end, and this is what it found. */
static void conclude(struct audit *audit, bool past_broken, int64_t began_ns)
{
    struct app *app = audit->app;
    const int64_t took_ns = clock_ns() - began_ns;
    const int64_t at_ms = app->clock.wall_ms(app->clock.ctx);
    const char *outcome = atomic_load(&app->safe_mode) ? "outcome=\"failed\""
                          : past_broken                ? "outcome=\"past\""
                                                       : "outcome=\"ok\"";

    must(took_ns >= 0);
    lock(audit);
    audit->facts = (struct audit_facts){.at_ms = at_ms, .took_ms = took_ns / 1000000};
    unlock(audit);
    metric_add(M_AUDITS, outcome, 1);
    metric_observe_ns(M_AUDIT_SECONDS, NULL, took_ns);
    metric_set(M_AUDIT_TIME, NULL, at_ms / 1000);
    atomic_store(&app->history_checked, true);
}

static void note_past(struct app *app, const struct err *err)
{
    must(err->code != ERR_NONE);
    if (!atomic_exchange(&app->history_broken, true))
        log_write(LOG_ERROR, "the history in the ledger is damaged; granting is not affected",
                  log_str("error", err->text));
}

/* The meeting was held: the look and the snapshot are ours alone now. */
static void run(struct audit *audit)
{
    struct app *app = audit->app;
    const int64_t began_ns = clock_ns();
    enum store_check which = STORE_CHECKS;
    enum safe_reason reason = SAFE_DISK;
    struct err err = audit->err;
    bool past_broken = false;

    must(audit->look != NULL && audit->snapshot != NULL);
    int failed =
        err.code == ERR_NONE ? store_look_audit(audit->look, &which, &err) : -(int)err.code;
    if (failed != 0 && which == CHECK_PAST && is_finding(&err)) {
        note_past(app, &err);
        past_broken = true;
        failed = 0;
    }
    if (failed == 0) {
        reason = SAFE_MEMORY;
        failed = check_snapshot(audit->snapshot, &err);
    }
    if (failed == 0) {
        reason = SAFE_DIFFER;
        failed = store_look_compare(audit->look, audit->snapshot, &err);
    }
    if (failed != 0 && !is_finding(&err)) {
        log_unfinished(audit, &err);
        return;
    }
    if (failed != 0)
        safe_enter(app, reason, err.text);
    conclude(audit, past_broken, began_ns);
}

static void ask(struct audit *audit, int64_t now_ms)
{
    struct store_look *look = NULL;
    struct err err;

    must(audit->look == NULL);
    if (store_look_open(audit->app->store, &look, &err) < 0) {
        if (is_finding(&err))
            safe_enter(audit->app, SAFE_DISK, err.text);
        else
            log_unfinished(audit, &err);
        part(audit, now_ms);
        return;
    }
    lock(audit);
    audit->look = look;
    audit->meeting = MEETING_ASKED;
    unlock(audit);
}

/* Once, by the thread that has the time. */
static void fill_bundle(struct audit *audit)
{
    struct app *app = audit->app;
    struct err err;

    audit->bundled = true;
    must(atomic_load(&app->safe_mode));
    if (app->safe.bundle[0] != '\0' && bundle_write(app, &err) < 0)
        log_write(LOG_ERROR, "the bundle is not complete", log_str("error", err.text),
                  log_str("bundle", app->safe.bundle));
}

void audit_step(struct audit *audit, int64_t now_ms)
{
    lock(audit);
    const enum meeting meeting = audit->meeting;
    unlock(audit);

    must(meeting <= MEETING_HELD);
    if (meeting == MEETING_HELD) {
        run(audit);
        part(audit, now_ms);
    }
    if (atomic_load(&audit->app->safe_mode)) {
        if (!audit->bundled)
            fill_bundle(audit);
        return;
    }
    if (meeting == MEETING_NONE && now_ms >= audit->due_ms)
        ask(audit, now_ms);
}
