/*
 * Writes a batch of commands to disk and applies it in memory. Writer's thread only:
 * writer_commands.c and writer_binds.c run commands, writer.c ends the batch. Memory and disk agree
 * at every return: a command is written before it is applied, and a lost batch is undone in memory
 * and in the database.
 */
#include "batch.h"

#include <stdio.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"
#include "milligpu/spine/command_trace.h"
#include "milligpu/spine/commits.h"
#include "milligpu/sync/node_digests.h"
#include "milligpu/waiting/waiting_pods.h"

void batch_init(struct batch *batch, struct app *app, struct ledger *ledger)
{
    must(app != NULL && ledger != NULL);
    *batch = (struct batch){.app = app, .ledger = ledger};
}

/* Called after post-commit actions, wake-ups and replies, which read the changes. */
void batch_reset(struct batch *batch)
{
    must(!batch->open);

    for (size_t i = 0; i < batch->n_changes; i++) {
        change_done(batch->change[i]);
        xfree(batch->change[i]);
    }
    batch->n_changes = 0;
    batch->lost = false;
}

void batch_done(struct batch *batch)
{
    must(!batch->open);

    batch_reset(batch);
    xfree(batch->change);
    batch->change = NULL;
}

void batch_publish(struct app *app, struct ledger *ledger)
{
    must(app->view != NULL);

    view_publish(app->view, ledger_publish(ledger, NULL, 0));
}

/* Begins the transaction at the first change, so that a batch without changes needs no COMMIT. */
static bool open_transaction(struct batch *batch)
{
    must(!batch->lost);

    if (batch->open)
        return true;
    if (batch->app->store_ops.begin(batch->app->store_ops.ctx, &batch->err) < 0) {
        batch->lost = true;
        return false;
    }
    batch->open = true;
    return true;
}

/*
 * Enters safe mode: memory allowed a change that the database refuses, so one of them is wrong, and
 * it is unknown which (docs/why/008). Earlier changes of the batch are still committed.
 */
static void batch_contradicted(struct batch *batch, const struct command *command,
                               const struct err *err)
{
    char text[ERR_TEXT_MAX];

    must(err->code != ERR_NONE);
    (void)snprintf(text, sizeof text, "%s %.150s: %.300s", command_name(command->kind),
                   command->uid != NULL    ? command->uid
                   : command->node != NULL ? command->node
                                           : "",
                   err->text);
    safe_mode_enter(batch->app, SAFE_REFUSED, text);
}

/* Keeps the changes in order, because undo runs backwards. */
static void batch_keep(struct batch *batch, struct change *take_change)
{
    must(take_change != NULL);

    batch->change = xgrow(batch->change, batch->n_changes, &batch->capacity, sizeof(void *));
    batch->change[batch->n_changes++] = take_change;
}

/* The next event of a Node whose node of the ledger has changed is handled (node_digests.h). */
static void forget_digest(const struct batch *batch, const struct change *change)
{
    const struct node *node = change->node_after != NULL ? change->node_after : change->node_before;

    if (node != NULL)
        node_digests_forget(batch->app->node_digests, atom_text(node->name));
}

/* Writes the change, unless it has neither a row nor a journal entry. */
static enum store_outcome write_decided(struct batch *batch, const struct command *command,
                                        const struct change *decided, struct err *err)
{
    must(decided->verdict == VERDICT_OK);
    if (decided->unwritten)
        return STORE_OK;
    return batch->app->store_ops.write(batch->app->store_ops.ctx, command, decided, err);
}

/*
 * Decides, writes, applies, in this order: ledger_apply() cannot fail, so a change that the
 * database refuses never reaches memory. out_answer is a copy without references: after a failure
 * only its reason and its held are valid.
 */
static enum batch_result batch_decide(struct batch *batch, const struct command *command,
                                      enum verdict *out_verdict, const struct change **out_change,
                                      struct change *out_answer)
{
    struct change decided;
    struct err err;

    must(!batch->lost);
    *out_verdict = ledger_decide(batch->ledger, command, &decided);
    *out_answer = decided;
    if (*out_verdict != VERDICT_OK)
        return BATCH_DONE;
    if (!open_transaction(batch)) {
        change_done(&decided);
        return BATCH_LOST;
    }
    switch (write_decided(batch, command, &decided, &err)) {
    case STORE_OK:
        break;
    case STORE_REFUSED:
        batch_contradicted(batch, command, &err);
        change_done(&decided);
        batch->err = err;
        return BATCH_CONTRADICTED;
    case STORE_FAILED:
        change_done(&decided);
        batch->err = err;
        batch->lost = true;
        return BATCH_LOST;
    }
    struct change *change = xmalloc(sizeof *change);
    *change = decided;
    must(change->verdict == VERDICT_OK);
    ledger_apply(batch->ledger, change);
    forget_digest(batch, change);
    batch_keep(batch, change);
    *out_change = change;
    return BATCH_DONE;
}

/* Returns the word for the command trace; for a refusal, its reason. */
static const char *outcome_name(enum batch_result result, enum verdict verdict,
                                const struct change *answer)
{
    switch (result) {
    case BATCH_LOST:
        return "lost";
    case BATCH_CONTRADICTED:
        return "contradicted";
    case BATCH_DONE:
        break;
    }
    must(answer->verdict == verdict);
    return verdict == VERDICT_REFUSED ? reason_name(answer->reason) : verdict_name(verdict);
}

enum batch_result batch_run(struct batch *batch, const struct command *command,
                            enum verdict *out_verdict, const struct change **out_change,
                            struct change *out_answer)
{
    struct change answer = {0};

    must(!batch->lost);
    *out_change = NULL;
    /*
     * Checked for each command: the verifier's thread or the previous command may have entered safe
     * mode.
     */
    if (atomic_load(&batch->app->health.safe_mode)) {
        command_trace_add(batch->app->command_trace, command, "not done: safe mode");
        return BATCH_CONTRADICTED;
    }
    const enum batch_result result = batch_decide(batch, command, out_verdict, out_change, &answer);
    command_trace_add(batch->app->command_trace, command,
                      outcome_name(result, *out_verdict, &answer));
    if (out_answer != NULL)
        *out_answer = answer;
    return result;
}

/*
 * Undoes backwards, because each change restores the node that it found. Publishes even if this
 * batch had published nothing: undoing a grant frees room, and pods that were refused because of it
 * must be evaluated again.
 */
static void batch_undo(struct batch *batch)
{
    must(batch->err.code != ERR_NONE);
    for (size_t i = batch->n_changes; i > 0; i--)
        ledger_undo(batch->ledger, batch->change[i - 1]);
    if (batch->open)
        batch->app->store_ops.rollback(batch->app->store_ops.ctx);
    batch->open = false;
    metric_add(M_COMMIT_FAILURES, NULL, 1);
    batch_publish(batch->app, batch->ledger);
}

/* Returns the changes that free room, in order; the caller frees the array. */
static const struct change **batch_givers(const struct batch *batch, size_t *out_count)
{
    must(batch->open);
    const struct change **gives = xcalloc(batch->n_changes + 1, sizeof *gives);

    *out_count = 0;
    for (size_t i = 0; i < batch->n_changes; i++)
        if (change_gives_room(batch->change[i]))
            gives[(*out_count)++] = batch->change[i];
    return gives;
}

/* Once readers see the reservations, they take the places of their offers. */
static void end_offers(const struct batch *batch)
{
    must(batch->app->waiting_pods != NULL);
    for (size_t i = 0; i < batch->n_changes; i++) {
        const struct change *change = batch->change[i];
        if (change->before == NULL && change->after != NULL &&
            change->after->facts.state == STATE_RESERVED)
            waiting_pods_fits(batch->app->waiting_pods, text_of(change->after->facts.uid));
    }
}

/* Takes about one fsync, for which every bind of the batch waits. */
static bool batch_commit(struct batch *batch)
{
    const int64_t began = clock_ns();

    must(batch->open && !batch->lost);
    if (batch->app->store_ops.commit(batch->app->store_ops.ctx, &batch->err) < 0)
        return false;
    metric_observe_ns(M_COMMIT_SECONDS, NULL, clock_ns() - began);
    metric_observe(M_COMMIT_BATCH, NULL, batch->n_changes);
    return true;
}

bool batch_end(struct batch *batch)
{
    must(batch->lost || batch->open || batch->n_changes == 0);

    size_t gives;

    if (!batch->lost && !batch->open)
        return true; /* nothing changed */
    if (batch->lost) {
        batch_undo(batch);
        return false;
    }
    /*
     * Readers see a grant before it is on disk, so that filter stops offering the room, but a
     * release only afterwards: a failed COMMIT would take offered room back. That holds back a
     * grant on the same node, too.
     */
    const struct change **give = batch_givers(batch, &gives);
    if (gives < batch->n_changes)
        view_publish(batch->app->view, ledger_publish(batch->ledger, give, gives));
    xfree(give);
    if (gives == 0)
        end_offers(batch);
    if (!batch_commit(batch)) {
        batch_undo(batch);
        return false;
    }
    batch->open = false;
    if (gives > 0) {
        batch_publish(batch->app, batch->ledger);
        end_offers(batch);
    }
    /* After the publication, so that woken readers find the change in the snapshot. */
    commits_post(batch->app->commits, store_newest(batch->app->store));
    return true;
}
