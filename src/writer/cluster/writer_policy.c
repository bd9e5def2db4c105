/*
 * Changes the rules in force when a policy document was reloaded (MESSAGE_POLICY) or a calendar
 * window opens or closes. The writer first commits a batch with only that journal entry, and then
 * sets a new policy context: so the journal shows the rules of each grant, and a snapshot contains
 * the rules by which it answers. Called by writer.c. The document in force is stored in the ledger.
 *
 * Windows follow the wall clock, and at once a step of it in either direction.
 */
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/spine/view.h"

#include "writer/writer_internal.h"

enum { KEEP_RULES_MS = 60000 }; /* pause between tries */

void writer_set_policy_context(struct writer *writer)
{
    must(!writer->batch.open);
    tally_expect(writer->learning.tally, writer->policy.rulebook);
    struct workload *workload = tally_workload(writer->learning.tally);
    struct policy_context *context =
        policy_context_of_rulebook(writer->policy.rulebook, writer->policy.holding, workload);
    ledger_set_policy_context(writer->ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
    metric_set(M_WORKLOAD_CLASSES, NULL, tally_classes(writer->learning.tally));
}

/* Sets the rules that hold, and the period in which no window needs to be checked. */
static void hold_rules(struct writer *writer, int64_t wall_ms)
{
    writer->policy.holding = rulebook_holding(writer->policy.rulebook, wall_ms);
    writer->policy.rules_from_ms = wall_ms;
    writer->policy.rules_until_ms = rulebook_next_ms(writer->policy.rulebook, wall_ms);
    must(writer->policy.rules_until_ms > writer->policy.rules_from_ms);
}

void writer_begin_policy(struct writer *writer)
{
    must(writer->policy.rulebook == NULL && writer->app->rulebook != NULL);
    writer->policy.rulebook = rulebook_ref(writer->app->rulebook);
    hold_rules(writer, writer->app->clock.wall_ms(writer->app->clock.ctx));
}

void writer_end_policy(struct writer *writer)
{
    rulebook_unref(writer->policy.rulebook);
    rulebook_unref(writer->policy.next_book);
    writer->policy.rulebook = writer->policy.next_book = NULL;
}

void writer_handle_policy(struct writer *writer, const struct rulebook *book)
{
    must(book != NULL);
    rulebook_unref(writer->policy.next_book);
    writer->policy.next_book = rulebook_ref(book);
}

int64_t writer_wait_for_rules(const struct writer *writer, int64_t wait_ms)
{
    const int64_t left =
        writer->policy.rules_until_ms - writer->app->clock.wall_ms(writer->app->clock.ctx);

    must(wait_ms >= 0);
    if (atomic_load(&writer->app->health.disk_broken))
        return wait_ms;
    if (!writer->policy.has_reported_rules || writer->policy.next_book != NULL || left <= 0)
        return 0;
    return left < wait_ms ? left : wait_ms;
}

static bool is_outside(const struct writer *writer)
{
    return writer->wall_ms < writer->policy.rules_from_ms ||
           writer->wall_ms >= writer->policy.rules_until_ms;
}

/* Returns the rules of book that hold now. */
static rule_set rules_to_hold(const struct writer *writer, const struct rulebook *book)
{
    if (writer->policy.next_book == NULL && !is_outside(writer))
        return writer->policy.holding;
    return rulebook_holding(book, writer->wall_ms);
}

bool writer_note_policy(struct writer *writer)
{
    const struct rulebook *book =
        writer->policy.next_book != NULL ? writer->policy.next_book : writer->policy.rulebook;
    const struct command command = {.kind = COMMAND_POLICY,
                                    .at_ms = writer->wall_ms,
                                    .rulebook = book,
                                    .holding = rules_to_hold(writer, book)};

    must(!writer->batch.lost);
    writer->policy.rules_change = false;
    /* No grants while the disk is broken, so the entry can wait. */
    if (atomic_load(&writer->app->health.disk_broken))
        return true;
    if (writer->policy.has_reported_rules && book == writer->policy.rulebook &&
        command.holding == writer->policy.holding) {
        if (is_outside(writer))
            hold_rules(writer, writer->wall_ms);
        return true;
    }
    writer->policy.rules_change = true;
    return writer_run(writer, &command);
}

static void report_rule_changes(const struct writer *writer)
{
    CLEANUP(strbuf_done) struct strbuf holding;

    strbuf_init(&holding);
    for (uint32_t i = 0; i < writer->policy.rulebook->n_rules; i++)
        if ((writer->policy.holding & one_rule(i)) != 0)
            strbuf_printf(&holding, "%s%u", holding.len > 0 ? "," : "", i + 1);
    log_write(LOG_INFO, "these rules decide from now on",
              log_str("policy", writer->policy.rulebook->name),
              log_str("digest", writer->policy.rulebook->digest),
              log_str("rules", holding.len > 0 ? holding.data : ""));
}

void writer_match_rules(struct writer *writer)
{
    CLEANUP(strbuf_done) struct strbuf unmatched;
    struct text line;

    strbuf_init(&unmatched);
    if (writer->policy.rules_matched)
        return;
    must(!writer->batch.open);
    writer->policy.rules_matched = true;
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(writer->app->view);
    cluster_unmatched_rules(snapshot, &unmatched);
    struct text rest = {unmatched.data, unmatched.len};
    while (unmatched.len > 0 && text_cut(&rest, '\n', &line)) {
        char text[ERR_TEXT_MAX];
        text_clip(line, text, sizeof text);
        log_write(LOG_WARN, "policy", log_str("warning", text));
    }
}

/*
 * Stores the document, so that a broken file is no outage at the next start (policy_source.h). A
 * built-in policy removes the stored one, so that an old file never returns.
 */
void writer_keep_policy(struct writer *writer)
{
    const struct rulebook *book = writer->policy.rulebook;
    const struct store_policy policy = {
        .name = book->name, .document = book->document, .read_ms = writer->wall_ms};
    const struct store_ops *ops = &writer->app->store_ops;
    struct err err;

    must(!writer->batch.open);
    if (writer->policy.rules_kept || !writer->policy.has_reported_rules ||
        writer_now_ms(writer) < writer->policy.keep_rules_ms)
        return;
    if (atomic_load(&writer->app->health.safe_mode) ||
        atomic_load(&writer->app->health.disk_broken))
        return;
    if (ops->keep_policy(ops->ctx, book->document.len > 0 ? &policy : NULL, &err) < 0) {
        writer->policy.keep_rules_ms = writer_now_ms(writer) + KEEP_RULES_MS;
        log_write(LOG_WARN, "the policy document could not be kept in the ledger",
                  log_str("error", err.text));
        return;
    }
    writer->policy.rules_kept = true;
}

void writer_take_policy(struct writer *writer)
{
    const bool first = !writer->policy.has_reported_rules;
    const rule_set held = writer->policy.holding;
    const struct rulebook *former = writer->policy.rulebook;

    must(!writer->batch.open);
    if (!writer->policy.rules_change)
        return;
    if (writer->policy.next_book != NULL)
        writer->policy.rulebook = STEAL(writer->policy.next_book);
    hold_rules(writer, writer->wall_ms);
    writer->policy.has_reported_rules = true;
    report_rule_changes(writer);
    /* At the start the rules are already in force. */
    if (!first || writer->policy.rulebook != former || writer->policy.holding != held) {
        writer_set_policy_context(writer);
        batch_publish(writer->app, writer->ledger);
        writer_wake(writer, writer_some_node(writer));
    }
    if (writer->policy.rulebook == former)
        return;
    writer->policy.rules_matched = writer->policy.rules_kept = false;
    writer->policy.keep_rules_ms = 0;
    rulebook_unref(former);
}
