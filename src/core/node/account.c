/*
 * Divides a GPU into the parts of account.h. Called by the summary, the list of nodes and the
 * metrics page in HTTP threads. Stateless.
 */
#include "milligpu/core/node/account.h"

static_assert(ACCOUNT_CLOSED_FIRST == ACCOUNT_HELD + 1, "closed parts follow those with an owner");

static const char *const account_names[] = {
#define X(code, word) [code] = (word),
    ACCOUNT_TABLE(X)
#undef X
};

const char *account_name(enum account_part part)
{
    must((unsigned)part < ARRAY_LEN(account_names));
    must(account_names[part][0] != '\0');
    return account_names[part];
}

/* Lower is likelier to be held whole: device plugins offer no unhealthy GPU, and few pods mix. */
static uint32_t held_likelihood(const struct gpu *gpu)
{
    must((gpu->flags & GPU_ABSENT) == 0);
    must(gpu->milli > 0);
    if (gpu->charges > 0)
        return 2;
    return (gpu->flags & GPU_UNHEALTHY) != 0 ? 1 : 0;
}

/* A unique rank per GPU: likelihood first, then the position on the node. */
static uint32_t held_rank(const struct node *node, const struct gpu *gpu)
{
    const uint32_t position = (uint32_t)(gpu - node->gpu);
    must(gpu >= node->gpu);
    must(position < node->n_gpus);
    return held_likelihood(gpu) * node->n_gpus + position;
}

/* Is it held by a note, or by rank among the first unnamed_gpus of the other GPUs? */
static bool is_held_whole(const struct node *node, const struct gpu *gpu)
{
    const uint32_t own = held_rank(node, gpu);
    uint32_t before = 0;

    must((gpu->flags & GPU_ABSENT) == 0);
    if ((gpu->flags & GPU_HELD) != 0)
        return true;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if ((node->gpu[i].flags & (GPU_ABSENT | GPU_HELD)) == 0 &&
            held_rank(node, &node->gpu[i]) < own)
            before++;
    must(before < node->n_gpus);
    return before < node->unnamed_gpus;
}

/* The part of free room on an unusable node (node_filter.h). */
static enum account_part part_of_unusable(enum unusable unusable)
{
    must(unusable < UNUSABLES);
    must(unusable != UNUSABLE_AFFINITY && unusable != UNUSABLE_UNKNOWN);
    switch (unusable) {
    case USABLE:
        return ACCOUNT_FREE;
    case UNUSABLE_LEAVING:
        return ACCOUNT_LEAVING;
    case UNUSABLE_CORDONED:
        return ACCOUNT_CORDONED;
    case UNUSABLE_NOT_READY:
        return ACCOUNT_NOT_READY;
    case UNUSABLE_TAINTED:
        return ACCOUNT_TAINTED;
    case UNUSABLE_UNREADABLE:
        return ACCOUNT_TAINTS_UNREADABLE;
    case UNUSABLE_AFFINITY:
    case UNUSABLE_UNKNOWN:
    case UNUSABLES:
        break;
    }
    must_not_reach("the others depend on a pod");
}

/* The part of free room that no new share can take. */
static enum account_part part_of_closed(const struct node *node, const struct gpu *gpu)
{
    static const struct {
        unsigned flag;
        enum account_part part;
    } by_flag[] = {
        {GPU_OVER, ACCOUNT_OVER},
        {GPU_UNHEALTHY, ACCOUNT_UNHEALTHY},
        {GPU_CORDONED, ACCOUNT_CORDONED},
    };

    if (node->gone)
        return ACCOUNT_GONE;
    if ((gpu->flags & GPU_ABSENT) != 0)
        return ACCOUNT_ABSENT;
    if (is_held_whole(node, gpu))
        return ACCOUNT_HELD;
    if ((gpu->flags & GPU_DUPLICATE) != 0)
        return ACCOUNT_DUPLICATE;
    if ((gpu->flags & GPU_UNSURE) != 0)
        return ACCOUNT_UNSURE;
    if (node->problem != PROBLEM_NONE)
        return ACCOUNT_UNREADABLE;
    for (size_t i = 0; i < ARRAY_LEN(by_flag); i++)
        if ((gpu->flags & by_flag[i].flag) != 0)
            return by_flag[i].part;
    if (gpu_closed(gpu) == REASON_CROWDED)
        return ACCOUNT_CROWDED;
    must(gpu_closed(gpu) == REASON_NONE);
    if (node_closed(node) == REASON_MIXED)
        return ACCOUNT_MIXED;
    if (node_closed(node) == REASON_UNPLACED)
        return ACCOUNT_UNPLACED;
    if (node_closed(node) == REASON_PLUGIN)
        return ACCOUNT_PLUGIN;
    must(node_closed(node) == REASON_AGENT);
    must(vouch_closes(node->vouch) && node->plugin.state != PLUGIN_DOWN);
    return ACCOUNT_AGENT;
}

void gpu_account(const struct node *node, const struct gpu *gpu, struct gpu_account *out)
{
    const uint64_t taken = (uint64_t)gpu->used_milli + gpu->reserved_milli;
    const uint32_t left = gpu_free(gpu);
    const bool open = node_closed(node) == REASON_NONE && gpu_closed(gpu) == REASON_NONE;

    must(gpu >= node->gpu && gpu < node->gpu + node->n_gpus);
    must(taken == 0 || gpu->charges > 0);
    must(left <= gpu->milli);
    *out = (struct gpu_account){
        .total_milli = taken + left,
        .beyond_milli = taken > gpu->milli ? taken - gpu->milli : 0,
    };
    out->milli[ACCOUNT_USED] = gpu->used_milli;
    out->milli[ACCOUNT_RESERVED] = gpu->reserved_milli;
    out->milli[open ? part_of_unusable(node->unusable.why) : part_of_closed(node, gpu)] += left;
    must(out->total_milli == gpu->milli + out->beyond_milli);
}
