/*
 * Sums of CPU and memory by node, on the writer's thread. The pod cache adds and removes pods, the
 * writer sets nodes. An entry lives while its node is shown, has a pod, or is marked as changed.
 */
#include "milligpu/sync/host_sums.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

/* Holds the sum of any possible number of amounts below 2^63. */
__extension__ typedef unsigned __int128 wide_sum;

struct host_sum {
    /* Sums of the pods' requests. */
    wide_sum cpu_milli;
    wide_sum memory_bytes;
    size_t pods;
    struct host shown; /* allocatable of the Node; 0: unknown */
    bool changed;
    struct host_sum *next; /* in the list of changed ones */
    char node[];           /* the key */
};

struct host_sums {
    struct map by_node;
    struct host_sum *changed;
    bool started;
};

static struct text node_of_sum(const void *value)
{
    const struct host_sum *sum = value;
    return text_of(sum->node);
}

struct host_sums *host_sums_new(void)
{
    struct host_sums *sums = xcalloc(1, sizeof *sums);

    map_init_keyed(&sums->by_node, node_of_sum);
    return sums;
}

void host_sums_free(struct host_sums *sums)
{
    if (sums == NULL)
        return;

    struct host_sum *sum;
    for (size_t at = 0; (sum = map_next(&sums->by_node, &at)) != NULL;)
        xfree(sum);
    map_done(&sums->by_node);
    xfree(sums);
}

static struct host_sum *sum_of(struct host_sums *sums, const char *node)
{
    const struct text name = text_of(node);
    struct host_sum *sum = map_find(&sums->by_node, name);

    must(name.len > 0);
    if (sum != NULL)
        return sum;
    sum = xcalloc(1, sizeof *sum + name.len + 1);
    memcpy(sum->node, name.at, name.len);
    (void)map_put(&sums->by_node, text_of(sum->node), sum);
    return sum;
}

/* Returns true if the entry is empty and not in the list of changed ones. */
static bool host_sums_is_idle(const struct host_sum *sum)
{
    must(sum->pods > 0 || (sum->cpu_milli == 0 && sum->memory_bytes == 0));
    return sum->pods == 0 && sum->shown.cpu_milli == 0 && sum->shown.memory_mib == 0 &&
           !sum->changed;
}

static void drop_if_idle(struct host_sums *sums, struct host_sum *sum)
{
    if (!host_sums_is_idle(sum))
        return;
    must(map_take(&sums->by_node, text_of(sum->node)) == sum);
    xfree(sum);
}

/* Marks the entry as changed, except before host_sums_start(). */
static void note_change(struct host_sums *sums, struct host_sum *sum)
{
    if (!sums->started) {
        drop_if_idle(sums, sum);
        return;
    }
    if (sum->changed)
        return;
    sum->changed = true;
    sum->next = sums->changed;
    sums->changed = sum;
}

void host_sums_start(struct host_sums *sums)
{
    struct host_sum *sum;

    must(!sums->started && sums->changed == NULL);
    sums->started = true;
    for (size_t at = 0; (sum = map_next(&sums->by_node, &at)) != NULL;)
        note_change(sums, sum);
}

/* For map_retain(): keeps only the amounts of Nodes. */
static bool forget_pods(void *user, void *value)
{
    struct host_sum *sum = value;

    must(user == NULL);
    sum->cpu_milli = sum->memory_bytes = 0;
    sum->pods = 0;
    sum->changed = false;
    if (!host_sums_is_idle(sum))
        return true;
    xfree(sum);
    return false;
}

void host_sums_stop(struct host_sums *sums)
{
    must(sums->started);
    sums->started = false;
    sums->changed = NULL;
    (void)map_retain(&sums->by_node, NULL, forget_pods);
}

bool host_sums_started(const struct host_sums *sums)
{
    return sums->started;
}

size_t host_sums_count(const struct host_sums *sums)
{
    return sums->by_node.count;
}

void host_sums_settle(struct host_sums *sums, size_t slots)
{
    map_settle(&sums->by_node, slots);
}

void host_sums_show(struct host_sums *sums, const char *node, const struct host *allocatable)
{
    struct host_sum *sum = sum_of(sums, node);

    sum->shown = *allocatable;
    note_change(sums, sum);
}

void host_sums_hide(struct host_sums *sums, const char *node)
{
    const struct host nothing = {0};

    if (map_find(&sums->by_node, text_of(node)) != NULL)
        host_sums_show(sums, node, &nothing);
}

void host_sums_come(struct host_sums *sums, const char *node, int64_t cpu_milli,
                    int64_t memory_bytes)
{
    struct host_sum *sum = sum_of(sums, node);

    must(sums->started);
    must(cpu_milli >= 0 && memory_bytes >= 0);
    sum->cpu_milli += (uint64_t)cpu_milli;
    sum->memory_bytes += (uint64_t)memory_bytes;
    sum->pods++;
    note_change(sums, sum);
}

void host_sums_leave(struct host_sums *sums, const char *node, int64_t cpu_milli,
                     int64_t memory_bytes)
{
    struct host_sum *sum = sum_of(sums, node);

    must(sums->started && sum->pods > 0);
    must(cpu_milli >= 0 && (uint64_t)cpu_milli <= sum->cpu_milli);
    must(memory_bytes >= 0 && (uint64_t)memory_bytes <= sum->memory_bytes);
    sum->cpu_milli -= (uint64_t)cpu_milli;
    sum->memory_bytes -= (uint64_t)memory_bytes;
    sum->pods--;
    note_change(sums, sum);
}

/* Amount left, in the Node's unit. unit: number of the pods' units in one unit of the Node. */
static uint32_t left_of(uint32_t shown, wide_sum taken, uint32_t unit)
{
    const wide_sum all = (wide_sum)shown * unit;

    must(shown != HOST_UNKNOWN);
    if (shown == 0)
        return HOST_UNKNOWN;
    return taken < all ? (uint32_t)((all - taken) / unit) : 0;
}

void host_sums_report_changed(struct host_sums *sums, void *user,
                              void (*changed)(void *user, const char *node,
                                              const struct host *left))
{
    must(changed != NULL);

    while (sums->changed != NULL) {
        struct host_sum *sum = sums->changed;
        const struct host left = {
            left_of(sum->shown.cpu_milli, sum->cpu_milli, 1),
            left_of(sum->shown.memory_mib, sum->memory_bytes, HOST_MIB_BYTES),
        };
        sums->changed = sum->next;
        sum->changed = false;
        changed(user, sum->node, &left);
        drop_if_idle(sums, sum);
    }
}
