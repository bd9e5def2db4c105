/* Makes usage reports from copies of the meter. Called by the sender's thread. */
#include "usage_fill.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "usage_kills.h"

/* A copy of the meter and its time. */
struct usage_mark {
    struct arena arena;
    int64_t at_ms; /* monotonic */
    struct meter_copy copy;
};

struct usage_fill {
    struct meter *meter;
    int64_t every_ms;
    struct usage_mark *older;    /* start of the window */
    struct usage_mark *newer;    /* start of the next window */
    struct usage_mark *reported; /* at the last report, for containers over their memory */
    struct usage_kills kills;
};

static struct usage_mark *mark_new(struct meter *meter)
{
    struct usage_mark *mark = xcalloc(1, sizeof *mark);

    arena_init(&mark->arena);
    mark->at_ms = clock_ms();
    meter_copy(meter, &mark->arena, &mark->copy);
    return mark;
}

static void mark_free(struct usage_mark *mark)
{
    if (mark == NULL)
        return;
    arena_done(&mark->arena);
    xfree(mark);
}

struct usage_fill *usage_fill_new(struct meter *meter, int64_t every_ms)
{
    struct usage_fill *fill = xcalloc(1, sizeof *fill);

    must(every_ms > 0);
    fill->meter = meter;
    fill->every_ms = every_ms;
    fill->older = mark_new(meter);
    fill->newer = mark_new(meter);
    fill->reported = mark_new(meter);
    fill->reported->copy.count = 0; /* nothing was reported yet */
    return fill;
}

void usage_fill_free(struct usage_fill *fill)
{
    if (fill == NULL)
        return;
    mark_free(fill->older);
    mark_free(fill->newer);
    mark_free(fill->reported);
    usage_kills_done(&fill->kills);
    xfree(fill);
}

/* --- the report --- */

static const struct meter_container *same_container(const struct meter_copy *copy, const char *id)
{
    for (uint32_t i = 0; i < copy->count; i++)
        if (strcmp(copy->container[i].id, id) == 0)
            return &copy->container[i];
    return NULL;
}

/* The GPU's values then; all 0 if it is absent. */
static struct meter_gpu gpu_then(const struct meter_container *then, const char *uuid)
{
    for (uint32_t i = 0; then != NULL && i < then->n_gpus; i++)
        if (strcmp(then->gpu[i].uuid, uuid) == 0)
            return then->gpu[i];
    return (struct meter_gpu){.uuid = uuid};
}

/* The sum is negative if a container was missing from the runtime's list for a while. */
static int32_t average(int64_t sum, int64_t ms, int32_t most)
{
    if (ms <= 0 || sum < 0)
        return USAGE_UNKNOWN;
    const int64_t mean = sum / ms;
    return mean < most ? (int32_t)mean : most;
}

static struct usage_gpu gpu_between(const struct meter_gpu *then, const struct meter_gpu *now)
{
    const bool known = now->mib_known_ms > 0;
    const int32_t milli = average(now->milli_ms - then->milli_ms,
                                  now->milli_known_ms - then->milli_known_ms, GPU_MILLI);

    return (struct usage_gpu){
        .gpu = text_of(now->uuid),
        .milli = milli,
        .mib =
            average(now->mib_ms - then->mib_ms, now->mib_known_ms - then->mib_known_ms, INT32_MAX),
        .peak_mib = !known                      ? USAGE_UNKNOWN
                    : now->peak_mib < INT32_MAX ? (int32_t)now->peak_mib
                                                : INT32_MAX,
        .is_scaled = milli != USAGE_UNKNOWN && now->scaled_ms > then->scaled_ms,
    };
}

static uint32_t count_containers(const struct meter_copy *copy, const char *uid)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < copy->count; i++)
        count += strcmp(copy->container[i].uid, uid) == 0;
    return count < CONTAINERS_MAX ? count : CONTAINERS_MAX;
}

/* The entry of a pod, added if it is new; NULL if the report is full. */
static struct usage_pod *pod_of(struct usage_report *out, const struct meter_copy *copy,
                                const char *uid, struct arena *arena)
{
    for (uint32_t i = 0; i < out->n_pods; i++)
        if (text_is(out->pod[i].uid, uid))
            return &out->pod[i];
    if (out->n_pods == USAGE_PODS_MAX)
        return NULL;
    struct usage_pod *pod = &out->pod[out->n_pods++];
    *pod = (struct usage_pod){
        .uid = text_of(uid),
        .container = arena_array(arena, count_containers(copy, uid), sizeof *pod->container)};
    return pod;
}

/* The entry of a container; its later life overwrites an earlier one. NULL if the pod is full. */
static struct usage_container *container_of(struct usage_pod *pod, const char *name)
{
    must(pod->container != NULL);
    for (uint32_t i = 0; i < pod->n_containers; i++)
        if (text_is(pod->container[i].name, name))
            return &pod->container[i];
    return pod->n_containers < CONTAINERS_MAX ? &pod->container[pod->n_containers++] : NULL;
}

static enum usage_over over_of(const struct meter_copy *copy,
                               const struct meter_container *container)
{
    static const enum usage_over over[] = {[OVER_NOT] = USAGE_OVER_NOT,
                                           [OVER_SEEN] = USAGE_OVER_SEEN,
                                           [OVER_KILLED] = USAGE_OVER_KILLED};

    must((size_t)container->over < ARRAY_LEN(over));
    return copy->can_report ? over[container->over] : USAGE_OVER_NOT;
}

void usage_fill_between(const struct meter_copy *then, const struct meter_copy *now,
                        struct arena *arena, struct usage_report *out)
{
    out->n_pods = 0;
    out->pod = arena_array(arena, USAGE_PODS_MAX, sizeof *out->pod);
    for (uint32_t i = 0; i < now->count; i++) {
        const struct meter_container *metered = &now->container[i];
        const struct meter_container *was = same_container(then, metered->id);
        struct usage_pod *pod = metered->right == RIGHT_SHARE && metered->n_gpus > 0
                                    ? pod_of(out, now, metered->uid, arena)
                                    : NULL;
        struct usage_container *container = pod != NULL ? container_of(pod, metered->name) : NULL;
        if (container == NULL)
            continue;
        *container =
            (struct usage_container){.name = text_of(metered->name), .over = over_of(now, metered)};
        container->gpu = arena_array(arena, metered->n_gpus, sizeof *container->gpu);
        for (uint32_t k = 0; k < metered->n_gpus && k < GPUS_PER_NODE_MAX; k++) {
            const struct meter_gpu before = gpu_then(was, metered->gpu[k].uuid);
            container->gpu[container->n_gpus++] = gpu_between(&before, &metered->gpu[k]);
        }
    }
}

bool usage_fill_report(void *user, struct usage_report *out, struct arena *arena)
{
    struct usage_fill *fill = user;
    struct usage_mark *now = mark_new(fill->meter);

    if (!now->copy.is_metering) {
        mark_free(now);
        return false;
    }
    if (now->at_ms - fill->newer->at_ms >= fill->every_ms) {
        mark_free(fill->older);
        fill->older = fill->newer;
        fill->newer = mark_new(fill->meter);
    }
    const int64_t seconds = (now->at_ms - fill->older->at_ms + 999) / 1000;
    out->seconds = seconds < 1                   ? 1
                   : seconds < USAGE_SECONDS_MAX ? (uint32_t)seconds
                                                 : USAGE_SECONDS_MAX;
    usage_fill_between(&fill->older->copy, &now->copy, arena, out);
    usage_kills_note(&fill->kills, &now->copy);
    usage_kills_put(&fill->kills, out);
    mark_free(fill->reported);
    fill->reported = now; /* the report borrows from it until the next report */
    return true;
}

bool usage_fill_is_urgent(void *user)
{
    struct usage_fill *fill = user;
    struct usage_mark *now = mark_new(fill->meter);

    usage_kills_note(&fill->kills, &now->copy);
    bool urgent = usage_kills_are_news(&fill->kills);
    for (uint32_t i = 0; i < now->copy.count && !urgent; i++) {
        const struct meter_container *container = &now->copy.container[i];
        const struct meter_container *reported =
            same_container(&fill->reported->copy, container->id);
        urgent = over_of(&now->copy, container) >
                 (reported != NULL ? over_of(&fill->reported->copy, reported) : USAGE_OVER_NOT);
    }
    mark_free(now);
    return urgent;
}

void usage_fill_taken(void *user)
{
    struct usage_fill *fill = user;

    usage_kills_taken(&fill->kills);
}
