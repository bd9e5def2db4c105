/* Keeps kills until they are reported. Called by usage_fill.c in the sender's thread. */
#include "usage_kills.h"

#include <string.h>

#include "milligpu/base/alloc.h"

static void drop(struct usage_kills *kills, uint32_t at)
{
    must(at < kills->count);
    xfree(kills->kill[at].id);
    xfree(kills->kill[at].uid);
    xfree(kills->kill[at].name);
    kills->kill[at] = kills->kill[--kills->count];
}

void usage_kills_done(struct usage_kills *kills)
{
    while (kills->count > 0)
        drop(kills, kills->count - 1);
}

static bool shows(const struct meter_copy *copy, const char *id)
{
    for (uint32_t i = 0; i < copy->count; i++)
        if (strcmp(copy->container[i].id, id) == 0)
            return true;
    return false;
}

static bool knows(const struct usage_kills *kills, const char *id)
{
    for (uint32_t i = 0; i < kills->count; i++)
        if (strcmp(kills->kill[i].id, id) == 0)
            return true;
    return false;
}

void usage_kills_note(struct usage_kills *kills, const struct meter_copy *copy)
{
    for (uint32_t i = kills->count; i > 0; i--)
        if (kills->kill[i - 1].is_taken && !shows(copy, kills->kill[i - 1].id))
            drop(kills, i - 1);
    for (uint32_t i = 0; i < copy->count && kills->count < USAGE_KILLS_MAX; i++) {
        const struct meter_container *container = &copy->container[i];
        if (copy->can_report && container->over == OVER_KILLED && !knows(kills, container->id))
            kills->kill[kills->count++] = (struct usage_kill){.id = xstrdup(container->id),
                                                              .uid = xstrdup(container->uid),
                                                              .name = xstrdup(container->name)};
    }
}

bool usage_kills_are_news(const struct usage_kills *kills)
{
    for (uint32_t i = 0; i < kills->count; i++)
        if (!kills->kill[i].is_taken)
            return true;
    return false;
}

static void put_kill(const struct usage_kill *kill, struct usage_container *container)
{
    if (container->over == USAGE_OVER_KILLED || !text_is(container->name, kill->name))
        return;
    container->over = USAGE_OVER_KILLED;
    for (uint32_t i = 0; i < container->n_gpus; i++)
        container->gpu[i].peak_mib = USAGE_UNKNOWN;
}

void usage_kills_put(const struct usage_kills *kills, const struct usage_report *out)
{
    for (uint32_t i = 0; i < kills->count; i++)
        for (uint32_t j = 0; !kills->kill[i].is_taken && j < out->n_pods; j++)
            for (uint32_t k = 0; k < out->pod[j].n_containers; k++)
                if (text_is(out->pod[j].uid, kills->kill[i].uid))
                    put_kill(&kills->kill[i], &out->pod[j].container[k]);
}

void usage_kills_taken(struct usage_kills *kills)
{
    for (uint32_t i = 0; i < kills->count; i++)
        kills->kill[i].is_taken = true;
}
