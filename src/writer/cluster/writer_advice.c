/*
 * Sends Events about probable mistakes in the requests of waiting pods (advice.h). Called by
 * writer_pods.c for each pod that the watch or a list shows. The Event stays visible on the pod
 * even if it is placed a moment later. Bound pods get no advice.
 */
#include <stdio.h>

#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/facts/advice.h"
#include "milligpu/run/log.h"
#include "milligpu/spine/view.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"

#include "writer/writer_internal.h"

/*
 * The name depends only on the pod and the kind of advice, so after a restart the API server
 * rejects a duplicate.
 */
static void send_advice(struct writer *writer, const struct pod *pod, const char *kind,
                        const struct advice *advice)
{
    char name[UID_BYTES_MAX + 64];

    must(pod->uid[0] != '\0' && advice->text[0] != '\0');
    (void)snprintf(name, sizeof name, "milligpu-%s-%s", kind, pod->uid);
    const struct kube_event_facts facts = {
        .namespace = pod->namespace,
        .name = name,
        .kind = "Pod",
        .regarding = pod->name,
        .uid = pod->uid,
        .reason = "GPURequestAdvice",
        .action = advice->word,
        .note = advice->text,
        .instance = "milligpud",
        .at_ms = writer->wall_ms,
        .warning = true,
    };
    log_write(LOG_INFO, "advice", log_str("pod", pod->name), log_str("namespace", pod->namespace),
              log_str("kind", advice->word), log_str("text", advice->text));
    outbox_event(writer->app->outbox, &facts);
}

/*
 * Scans all GPUs until one matches, so scans are limited to a few a minute and one per pod. Not
 * before all nodes are known, when every model seems to be missing.
 */
static bool advise_on_model(struct writer *writer, const struct pod_record *record,
                            struct advice *out)
{
    const struct request *request = pod_record_request(record);

    if (request == NULL || request->n_models == 0 || !app_ready(writer->app, NULL) ||
        !event_budget_take(&writer->advice.model_looks, writer_now_ms(writer)))
        return false;
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(writer->app->view);
    must(snapshot != NULL);
    out->word = "model";
    unschedulable_missing_model(snapshot, request, out->text, sizeof out->text);
    if (out->text[0] == '\0')
        pod_cache_advised(writer->app->pod_cache, pod_record_uid(record), ADVICE_MODEL);
    return out->text[0] != '\0';
}

/* Once per pod and kind. If the budget is used up, the next event of the pod retries. */
void writer_advise(struct writer *writer, const struct pod *pod)
{
    static const char *const kind_names[] = {
        [ADVICE_AMOUNT] = "amount", [ADVICE_ANNOTATION] = "annotation", [ADVICE_MODEL] = "model"};
    static_assert(ARRAY_LEN(kind_names) == ADVICES, "each kind has a name");
    const struct app *app = writer->app;
    const struct pod_record *record = pod_cache_find(app->pod_cache, pod->uid);

    must(record != NULL);
    const bool asks = record->verdict == REQUEST_OK || record->verdict == REQUEST_REFUSED;
    if (!asks || pod->node[0] != '\0' || !app->settings->events)
        return;
    for (enum advice_kind kind = 0; kind < ADVICES; kind++) {
        struct advice advice;
        if ((record->reported_advice & 1U << kind) != 0)
            continue;
        const bool given = kind == ADVICE_MODEL
                               ? advise_on_model(writer, record, &advice)
                               : advice_of(kind, pod, &app->rules.request_rules, &advice);
        if (!given || !event_budget_take(&writer->advice.advice_budget, writer_now_ms(writer)))
            continue;
        pod_cache_advised(app->pod_cache, pod->uid, kind);
        send_advice(writer, pod, kind_names[kind], &advice);
    }
}
