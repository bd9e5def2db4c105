/*
 * The table of schedulers that call milligpud. Called by webhooks.c on the HTTP threads for each
 * filter and prioritize call, and by REST. Linear search, because the table is small.
 */
#include "milligpu/waiting/schedulers.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/run/mutex.h"

/* Times are monotonic plus 1, so that 0 means never. */
struct asking_scheduler {
    char name[SCHEDULER_NAME_MAX];
    int64_t names_ms;  /* last call with names */
    int64_t nodes_ms;  /* last filter call with whole Nodes, also by an autoscaler */
    int64_t scored_ms; /* last prioritize call with whole Nodes */
};

struct schedulers {
    struct mutex lock; /* guards the rest */
    size_t count;
    struct asking_scheduler item[SCHEDULERS_MAX];
    bool overflowed; /* a certain scheduler was evicted */
};

struct schedulers *schedulers_new(void)
{
    struct schedulers *schedulers = xcalloc(1, sizeof *schedulers);

    mutex_init(&schedulers->lock);
    return schedulers;
}

void schedulers_free(struct schedulers *schedulers)
{
    if (schedulers == NULL)
        return;
    mutex_done(&schedulers->lock);
    xfree(schedulers);
}

static struct asking_scheduler *scheduler_find(struct schedulers *schedulers, const char *name)
    REQUIRES(schedulers->lock)
{
    must(schedulers->count <= SCHEDULERS_MAX);
    for (size_t i = 0; i < schedulers->count; i++)
        if (strcmp(schedulers->item[i].name, name) == 0)
            return &schedulers->item[i];
    return NULL;
}

/* An autoscaler neither sends names nor calls prioritize. */
static bool is_scheduler(const struct asking_scheduler *item)
{
    return item->names_ms > 0 || item->scored_ms > 0;
}

static int64_t scheduler_last(const struct asking_scheduler *item)
{
    const int64_t own_ms = item->names_ms > item->scored_ms ? item->names_ms : item->scored_ms;

    return own_ms > item->nodes_ms ? own_ms : item->nodes_ms;
}

/* Eviction order: possible schedulers before certain ones, then by the time of the last call. */
static bool goes_first(const struct asking_scheduler *a, const struct asking_scheduler *b)
{
    if (is_scheduler(a) != is_scheduler(b))
        return !is_scheduler(a);
    return scheduler_last(a) < scheduler_last(b);
}

static struct asking_scheduler *scheduler_place(struct schedulers *schedulers)
    REQUIRES(schedulers->lock)
{
    struct asking_scheduler *place = &schedulers->item[0];

    if (schedulers->count < SCHEDULERS_MAX)
        return &schedulers->item[schedulers->count++];
    for (size_t i = 1; i < SCHEDULERS_MAX; i++)
        if (goes_first(&schedulers->item[i], place))
            place = &schedulers->item[i];
    schedulers->overflowed = schedulers->overflowed || is_scheduler(place);
    return place;
}

/* The decoder truncates names to SCHEDULER_NAME_MAX. */
static const char *scheduler_name(const char *name)
{
    must(name == NULL || strlen(name) < SCHEDULER_NAME_MAX);
    return name != NULL ? name : SCHEDULER_DEFAULT;
}

static struct asking_scheduler *scheduler_of(struct schedulers *schedulers, const char *name)
    REQUIRES(schedulers->lock)
{
    struct asking_scheduler *item = scheduler_find(schedulers, name);

    if (item == NULL) {
        item = scheduler_place(schedulers);
        *item = (struct asking_scheduler){.names_ms = 0};
        memcpy(item->name, name, strlen(name) + 1);
    }
    return item;
}

bool schedulers_asked(struct schedulers *schedulers, const char *name, enum ask_form form,
                      int64_t now_ms)
{
    const int64_t at_ms = now_ms + 1;

    must(now_ms >= 0);
    mutex_lock(&schedulers->lock);
    struct asking_scheduler *item = scheduler_of(schedulers, scheduler_name(name));
    const bool simulated = form == ASK_NODES && item->names_ms > item->scored_ms &&
                           at_ms - item->names_ms <= SIMULATED_MAX_MS;
    if (form == ASK_NAMES)
        item->names_ms = at_ms;
    else
        item->nodes_ms = at_ms;
    mutex_unlock(&schedulers->lock);
    return !simulated;
}

void schedulers_scored(struct schedulers *schedulers, const char *name, enum ask_form form,
                       int64_t now_ms)
{
    const int64_t at_ms = now_ms + 1;

    must(now_ms >= 0);
    mutex_lock(&schedulers->lock);
    struct asking_scheduler *item = scheduler_of(schedulers, scheduler_name(name));
    if (form == ASK_NAMES)
        item->names_ms = at_ms;
    else
        item->scored_ms = at_ms;
    mutex_unlock(&schedulers->lock);
}

/*
 * If any scheduler sends names, a call with whole Nodes proves nothing: an autoscaler asks about
 * the pods of every scheduler.
 */
static bool scheduler_serves(const struct schedulers *schedulers,
                             const struct asking_scheduler *item) REQUIRES(schedulers->lock)
{
    for (size_t i = 0; i < schedulers->count; i++)
        if (schedulers->item[i].names_ms > 0)
            return is_scheduler(item);
    return true;
}

bool schedulers_serves(struct schedulers *schedulers, const char *name)
{
    mutex_lock(&schedulers->lock);
    const struct asking_scheduler *item = scheduler_find(schedulers, scheduler_name(name));
    const bool serves =
        schedulers->overflowed || (item != NULL && scheduler_serves(schedulers, item));
    mutex_unlock(&schedulers->lock);
    return serves;
}

size_t schedulers_served(struct schedulers *schedulers, struct arena *arena,
                         const char *out[SCHEDULERS_MAX])
{
    size_t count = 0;

    mutex_lock(&schedulers->lock);
    for (size_t i = 0; i < schedulers->count; i++)
        if (scheduler_serves(schedulers, &schedulers->item[i]))
            out[count++] = arena_copy(arena, text_of(schedulers->item[i].name));
    mutex_unlock(&schedulers->lock);
    return count;
}
