/*
 * Verifies the ledger while milligpud runs. verifier_step() runs on its own thread; the writer
 * calls verifier_meet() between two batches and verifier_memory() at its tick. One verification is
 * ask, meet, run and part: the verifier opens a read transaction; the writer pins it and takes the
 * snapshot of the same moment; the verifier checks the file, the snapshot, and both against each
 * other, without the writer; and it closes the transaction. Only ERR_CORRUPT and
 * ERR_INTERNAL are findings and begin safe mode, except for damage to ended allocations. After any
 * other error the verification is incomplete.
 */
#include "milligpu/selfcheck/verifier.h"

#include <malloc.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"
#include "milligpu/run/wakeup.h"

#include "diagnostics.h"

enum {
    PLACES_A_TURN = 128,  /* places (nodes) in memory that the writer checks a second */
    FIRST_MS = 60 * 1000, /* the longest wait for the first lists */
};

/* NONE --verifier--> ASKED --writer--> HELD --verifier--> NONE */
enum meeting { MEETING_NONE, MEETING_ASKED, MEETING_HELD };

struct verifier {
    struct app *app;
    struct mutex lock; /* guards the fields below, up to due_ms */
    enum meeting meeting;
    /* NULL between verifications; the writer uses it in verifier_meet() only */
    struct store_read *look;
    const struct snapshot *snapshot;
    bool stopping;
    struct err err; /* result of the pin; ERR_NONE if it succeeded */
    struct verifier_facts facts;
    int64_t due_ms; /* monotonic; INT64_MIN before the first step */
    bool had_one;   /* the first verification has ended */
    bool bundled;
};

struct verifier *verifier_new(struct app *app)
{
    struct verifier *verifier = xcalloc(1, sizeof *verifier);

    must(app->store != NULL && app->view != NULL);
    verifier->app = app;
    app->verifier_wakeup = wakeup_new();
    verifier->due_ms = INT64_MIN;
    mutex_init(&verifier->lock);
    return verifier;
}

/*
 * Ends the verification and closes the read transaction, during which SQLite's log grows. Under the
 * lock, because verifier_stop() may interrupt the transaction. The interval counts from now_ms, the
 * beginning of the step that verified. Returns free pages to the system, because a verification
 * needs a multiple of the memory that stays, and the next one is far away.
 */
static void verifier_part(struct verifier *verifier, int64_t now_ms)
{
    const uint32_t interval_s = atomic_load(&verifier->app->settings)->verify_interval_s;

    mutex_lock(&verifier->lock);
    store_read_close(verifier->look);
    snapshot_unref(verifier->snapshot);
    verifier->look = NULL;
    verifier->snapshot = NULL;
    verifier->meeting = MEETING_NONE;
    mutex_unlock(&verifier->lock);
    verifier->due_ms = interval_s == 0 ? INT64_MAX : now_ms + (int64_t)interval_s * 1000;
    verifier->had_one = true;
    must(verifier->due_ms >= now_ms);
    (void)malloc_trim(0);
}

void verifier_free(struct verifier *verifier)
{
    if (verifier == NULL)
        return;
    store_read_close(verifier->look);
    snapshot_unref(verifier->snapshot);
    mutex_done(&verifier->lock);
    wakeup_free(STEAL(verifier->app->verifier_wakeup));
    xfree(verifier);
}

/* Verifying a large ledger may take long; the interrupt ends SQLite's part of it. */
void verifier_stop(struct verifier *verifier)
{
    if (verifier == NULL)
        return;
    mutex_lock(&verifier->lock);
    verifier->stopping = true;
    if (verifier->look != NULL)
        store_read_interrupt(verifier->look);
    mutex_unlock(&verifier->lock);
    wakeup_signal(verifier->app->verifier_wakeup);
}

void verifier_facts(struct verifier *verifier, struct verifier_facts *out)
{
    mutex_lock(&verifier->lock);
    *out = verifier->facts;
    mutex_unlock(&verifier->lock);
}

/*
 * Delays the writer by the pin only: one small query, or a copy of a ledger in memory. Pin and
 * snapshot are of the same moment, because nothing is written between two batches.
 */
void verifier_meet(struct verifier *verifier)
{
    if (verifier == NULL)
        return;
    mutex_lock(&verifier->lock);
    if (verifier->meeting == MEETING_ASKED) {
        verifier->err.code = ERR_NONE;
        (void)!store_read_pin(verifier->look, &verifier->err); /* checked by the verifier thread */
        verifier->snapshot = view_take(verifier->app->view);
        verifier->meeting = MEETING_HELD;
        must(verifier->snapshot != NULL);
        wakeup_signal(verifier->app->verifier_wakeup);
    }
    mutex_unlock(&verifier->lock);
}

/*
 * Checks a few nodes at each tick, so that the writer is never delayed; a round of 15,000 nodes
 * takes two minutes.
 */
void verifier_memory(struct app *app, const struct ledger *ledger, uint32_t *place)
{
    struct err err;

    if (atomic_load(&app->settings)->verify_interval_s == 0)
        return;
    if (*place >= ledger_places(ledger))
        *place = 0;
    if (ledger_check_some(ledger, *place, PLACES_A_TURN, &err) < 0)
        safe_mode_enter(app, SAFE_MEMORY, err.text);
    *place += PLACES_A_TURN;
}

/* Other errors (busy, interrupted, out of memory, a read error of the disk) prove nothing. */
static bool is_finding(const struct err *err)
{
    must(err->code != ERR_NONE);
    return err->code == ERR_CORRUPT || err->code == ERR_INTERNAL;
}

/* Recomputes every node from its allocations, and the counts from the nodes. */
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
        allocations += node->n_allocations;
    }
    if (nodes == snapshot->nodes && allocations == snapshot->allocations)
        return 0;
    return err_set(err, ERR_CORRUPT, "readers count %u nodes and %u pods where there are %u and %u",
                   snapshot->nodes, snapshot->allocations, nodes, allocations);
}

/* Not logged if the stop has interrupted the verification. */
static void log_unfinished(struct verifier *verifier, const struct err *err)
{
    mutex_lock(&verifier->lock);
    const bool stopping = verifier->stopping;
    mutex_unlock(&verifier->lock);
    must(err->code != ERR_NONE);
    metric_add(M_VERIFICATIONS, LABEL_VALUES("unfinished"), 1);
    if (!stopping)
        log_write(LOG_WARN, "a verification of the ledger was not completed",
                  log_str("error", err->text));
}

/*
 * Records the result of a completed verification. If the writer has entered safe mode meanwhile, it
 * counts as failed: the ledger is not sound.
 */
static void verifier_conclude(struct verifier *verifier, bool past_broken, int64_t began_ns)
{
    struct app *app = verifier->app;
    const int64_t took_ns = clock_ns() - began_ns;
    const int64_t at_ms = app->clock.wall_ms(app->clock.ctx);
    const char *outcome = atomic_load(&app->health.safe_mode) ? "failed"
                          : past_broken                       ? "past"
                                                              : "ok";

    must(took_ns >= 0);
    mutex_lock(&verifier->lock);
    verifier->facts = (struct verifier_facts){.at_ms = at_ms, .took_ms = took_ns / 1000000};
    mutex_unlock(&verifier->lock);
    metric_add(M_VERIFICATIONS, LABEL_VALUES(outcome), 1);
    metric_observe_ns(M_VERIFICATION_SECONDS, NULL, took_ns);
    metric_set(M_VERIFICATION_TIME, NULL, at_ms / 1000);
    atomic_store(&app->health.history_checked, true);
}

/* Damage to ended allocations affects no grant: it is logged once and stays visible in doctor. */
static void note_past(struct app *app, const struct err *err)
{
    must(err->code != ERR_NONE);
    if (!atomic_exchange(&app->health.history_broken, true))
        log_write(LOG_ERROR, "the history in the ledger is damaged; granting is not affected",
                  log_str("error", err->text));
}

/*
 * Needs no lock: after the pin, read transaction and snapshot belong to this thread only. Checks
 * the file, then memory, then compares: a difference is meaningful only if both sides are sound.
 */
static void verifier_run(struct verifier *verifier)
{
    struct app *app = verifier->app;
    const int64_t began_ns = clock_ns();
    enum store_check which = STORE_CHECKS;
    enum safe_mode_reason reason = SAFE_DISK;
    struct err err = verifier->err;
    bool past_broken = false;

    must(verifier->look != NULL && verifier->snapshot != NULL);
    int failed =
        err.code == ERR_NONE ? store_read_verify(verifier->look, &which, &err) : -(int)err.code;
    if (failed != 0 && which == CHECK_PAST && is_finding(&err)) {
        note_past(app, &err);
        past_broken = true;
        failed = 0;
    }
    if (failed == 0) {
        reason = SAFE_MEMORY;
        failed = check_snapshot(verifier->snapshot, &err);
    }
    if (failed == 0) {
        reason = SAFE_DIFFER;
        failed = store_read_compare(verifier->look, verifier->snapshot, &err);
    }
    if (failed != 0 && !is_finding(&err)) {
        log_unfinished(verifier, &err);
        return;
    }
    if (failed != 0)
        safe_mode_enter(app, reason, err.text);
    verifier_conclude(verifier, past_broken, began_ns);
}

/*
 * If the store cannot be opened for reading and is not corrupt, retries after the usual interval.
 */
static void verifier_ask(struct verifier *verifier, int64_t now_ms)
{
    struct store_read *look = NULL;
    struct err err;

    must(verifier->look == NULL);
    if (store_read_open(verifier->app->store, &look, &err) < 0) {
        if (is_finding(&err))
            safe_mode_enter(verifier->app, SAFE_DISK, err.text);
        else
            log_unfinished(verifier, &err);
        verifier_part(verifier, now_ms);
        return;
    }
    mutex_lock(&verifier->lock);
    verifier->look = look;
    verifier->meeting = MEETING_ASKED;
    mutex_unlock(&verifier->lock);
    queue_wake(verifier->app->queue); /* wakes the writer for verifier_meet() */
}

/*
 * Writes the bundle once, on this thread, because the writer, which may have found the fault, must
 * go on answering. Not retried after a failure: it would fail in the same way.
 */
static void fill_bundle(struct verifier *verifier)
{
    struct app *app = verifier->app;
    struct err err;

    verifier->bundled = true;
    must(atomic_load(&app->health.safe_mode));
    if (app->health.safe.folder[0] != '\0' && diagnostics_write(app, &err) < 0)
        log_write(LOG_ERROR, "the diagnostics are not complete", log_str("error", err.text),
                  log_str("diagnostics", app->health.safe.folder));
}

/*
 * The first lists of a large cluster keep two cores busy and replace most nodes, so the first
 * verification waits for them: nothing is granted before milligpud is ready.
 */
static int64_t verifier_due_ms(const struct verifier *verifier)
{
    return !verifier->had_one && app_ready(verifier->app, NULL) ? INT64_MIN : verifier->due_ms;
}

/*
 * In safe mode no verification begins: the result is known, and the file must stay unchanged. A
 * pinned one is still completed, so that its transaction is closed.
 */
void verifier_step(struct verifier *verifier, int64_t now_ms)
{
    mutex_lock(&verifier->lock);
    const enum meeting meeting = verifier->meeting;
    mutex_unlock(&verifier->lock);

    must(meeting <= MEETING_HELD);
    if (meeting == MEETING_HELD) {
        verifier_run(verifier);
        verifier_part(verifier, now_ms);
    }
    if (atomic_load(&verifier->app->health.safe_mode)) {
        if (!verifier->bundled)
            fill_bundle(verifier);
        return;
    }
    if (verifier->due_ms == INT64_MIN)
        verifier->due_ms = now_ms + FIRST_MS;
    if (meeting == MEETING_NONE && now_ms >= verifier_due_ms(verifier))
        verifier_ask(verifier, now_ms);
}

int64_t verifier_wait_ms(struct verifier *verifier, int64_t now_ms)
{
    mutex_lock(&verifier->lock);
    const enum meeting meeting = verifier->meeting;
    mutex_unlock(&verifier->lock);

    must(meeting <= MEETING_HELD);
    if (meeting == MEETING_HELD)
        return 0;
    if (atomic_load(&verifier->app->health.safe_mode))
        return verifier->bundled ? WAKEUP_WAIT_MS_MAX : 0;
    if (meeting == MEETING_ASKED)
        return WAKEUP_WAIT_MS_MAX;
    const int64_t due_ms = verifier_due_ms(verifier);
    return due_ms > now_ms ? due_ms - now_ms : 0;
}
