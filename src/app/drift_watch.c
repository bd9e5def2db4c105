#include "drift_watch.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/log.h"
#include "milligpu/map.h"
#include "milligpu/metric.h"
#include "milligpu/reconcile.h"

enum {
    LOOK_MS = 2000,
    EVENTS_PER_MINUTE = 30, /* more drift at once is in REST and metrics */
    MINUTE_MS = 60000,
};

static const char *const kinds[] = {
#define X(word, help) word,
    DRIFT_KINDS(X)
#undef X
};

/* A drift that was told; the mark says in which look it was last seen. */
struct told {
    char *key;
    uint64_t mark;
};

struct drift_watch {
    struct app *app;
    struct map told;
    uint64_t generation;
    uint64_t mark;
    int64_t look_ms;
    int64_t minute_ms;
    uint32_t events;
    int64_t now_ms;
    int64_t wall_ms;
    uint64_t serial;
    uint32_t count[ARRAY_LEN(kinds)];
};

struct drift_watch *drift_watch_new(struct app *app)
{
    must(app != NULL);

    struct drift_watch *watch = xcalloc(1, sizeof *watch);

    watch->app = app;
    map_init(&watch->told);
    return watch;
}

static void told_free(struct told *told)
{
    xfree(told->key);
    xfree(told);
}

void drift_watch_free(struct drift_watch *watch)
{
    struct told *told;

    if (watch == NULL)
        return;
    for (size_t at = 0; (told = map_next(&watch->told, &at)) != NULL;)
        told_free(told);
    map_done(&watch->told);
    xfree(watch);
}

static bool may_send(struct drift_watch *watch)
{
    must(watch->now_ms >= watch->minute_ms);

    if (watch->now_ms - watch->minute_ms >= MINUTE_MS) {
        watch->minute_ms = watch->now_ms;
        watch->events = 0;
    }
    return watch->events++ < EVENTS_PER_MINUTE && watch->app->settings->events;
}

static void send_event(struct drift_watch *watch, const struct drift *drift)
{
    must(drift->node != NULL);

    const struct allocation *pod = drift->allocation;
    char name[64];

    if (!may_send(watch))
        return;
    (void)snprintf(name, sizeof name, "milligpu-drift-%llx-%llx",
                   (unsigned long long)watch->wall_ms, (unsigned long long)++watch->serial);
    const struct kube_event_facts facts = {
        .namespace = pod != NULL ? pod->is.namespace : "default",
        .name = name,
        .kind = pod != NULL ? "Pod" : "Node",
        .regarding = pod != NULL ? pod->is.name : drift->node->name->text,
        .uid = pod != NULL ? pod->is.uid : drift->node->uid->text,
        .reason = "GPULedgerDrift",
        .action = drift->kind,
        .note = drift->text,
        .instance = "milligpud",
        .at_ms = watch->wall_ms,
        .warning = true,
    };
    outbox_event(watch->app->outbox, &facts);
}

static void tell(struct drift_watch *watch, const struct drift *drift, char *take_key)
{
    must(drift->text[0] != '\0');
    struct told *told = xcalloc(1, sizeof *told);

    told->key = take_key;
    told->mark = watch->mark;
    (void)map_put(&watch->told, text_of(told->key), told);
    log_write(LOG_WARN, "drift", log_str("kind", drift->kind),
              log_str("node", drift->node->name->text), log_str("text", drift->text));
    send_event(watch, drift);
}

static void seen(void *user, const struct drift *drift)
{
    struct drift_watch *watch = user;
    struct strbuf key;

    size_t known = 0;
    while (strcmp(kinds[known], drift->kind) != 0) {
        known++;
        must(known < ARRAY_LEN(kinds)); /* the list is closed */
    }
    watch->count[known]++;
    strbuf_init(&key);
    strbuf_printf(&key, "%s/%s/%s/%s", drift->kind, drift->node->name->text,
                  drift->gpu != NULL ? drift->gpu->id->text : "",
                  drift->allocation != NULL ? drift->allocation->is.uid : "");
    struct told *told = map_find(&watch->told, (struct text){key.data, key.len});
    if (told != NULL)
        told->mark = watch->mark;
    else
        tell(watch, drift, strbuf_steal(&key));
    strbuf_done(&key);
}

static void forget_healed(struct drift_watch *watch)
{
    must(watch->mark > 0);

    struct told *told;

    for (size_t at = 0; (told = map_next(&watch->told, &at)) != NULL;) {
        if (told->mark == watch->mark)
            continue;
        (void)map_take(&watch->told, text_of(told->key));
        log_write(LOG_INFO, "drift is gone", log_str("what", told->key));
        told_free(told);
        at = 0; /* the table may have moved */
    }
}

static void expose(const struct drift_watch *watch)
{
    must(watch->mark > 0);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        char labels[64];
        (void)snprintf(labels, sizeof labels, "kind=\"%s\"", kinds[i]);
        metric_set(M_DRIFT, labels, watch->count[i]);
    }
}

void drift_watch_step(struct drift_watch *watch, int64_t now_ms, int64_t wall_ms)
{
    must(now_ms >= 0);

    const struct node *node;

    if (now_ms < watch->look_ms || !app_ready(watch->app, NULL))
        return;
    watch->look_ms = now_ms + LOOK_MS;
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(watch->app->view);
    if (snapshot->generation == watch->generation)
        return;
    watch->generation = snapshot->generation;
    watch->now_ms = now_ms;
    watch->wall_ms = wall_ms;
    watch->mark++;
    memset(watch->count, 0, sizeof watch->count);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        drift_of(node, watch, seen);
    forget_healed(watch);
    expose(watch);
}
