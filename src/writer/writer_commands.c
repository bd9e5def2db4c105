/*
 * Runs commands of the ledger within the batch, for the other files of the writer. A command that
 * loses the batch returns false, and nothing may be run after it.
 */
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "writer_internal.h"

int64_t writer_now_ms(const struct writer *writer)
{
    return writer->app->clock.now_ms(writer->app->clock.ctx);
}

bool writer_run(struct writer *writer, const struct command *command)
{
    must(command->at_ms != 0);
    must(!writer->batch.lost);

    const struct change *change;
    enum verdict verdict;

    if (batch_run(&writer->batch, command, &verdict, &change, NULL) == BATCH_LOST)
        return false;
    if (change != NULL)
        writer_note_bound(writer, change, writer_now_ms(writer));
    return true;
}

/* Commands depend on the ones before, so none runs after a lost batch. */
bool writer_run_all(struct writer *writer, const struct command *command, size_t count)
{
    must(count <= RECONCILE_MAX);

    for (size_t i = 0; i < count; i++)
        if (!writer_run(writer, &command[i]))
            return false;
    return true;
}

bool writer_heal_duplicates(struct writer *writer)
{
    must(!writer->batch.lost);

    const struct node *node;

    /*
     * Ends after one pass: a node that remains a duplicate of another is not returned twice.
     */
    for (uint32_t i = 0; i < GPUS_PER_NODE_MAX; i++) {
        node = ledger_stale_duplicate(writer->ledger);
        if (node == NULL)
            return true;
        const struct command command = {
            .kind = COMMAND_NODE, .at_ms = writer->wall_ms, .node = node->name->text};
        if (!writer_run(writer, &command))
            return false;
    }
    return true;
}

const struct request *writer_request_of(const struct writer *writer, const struct pod *pod,
                                        const struct pod_record *record, struct arena *arena)
{
    const struct request_rules *rules = &writer->app->rules.request_rules;
    struct refusal refusal;

    if (record == NULL || pod_record_request(record) != NULL || !pod_record_asks(record))
        return record != NULL ? pod_record_request(record) : NULL;
    struct request *request = arena_alloc(arena, sizeof *request);
    /* Same pod, same rules: the verdict equals the recorded one. */
    const enum request_verdict verdict =
        pod->node[0] != '\0' ? request_parse_bound(pod, rules, arena, request, &refusal)
                             : request_parse(pod, rules, arena, request, &refusal);
    must(verdict == record->verdict);
    return request;
}
