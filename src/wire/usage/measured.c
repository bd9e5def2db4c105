/*
 * Merges usage reports into the measured usage of a node. The report listener merges and publishes,
 * REST and metrics read. A merge costs one lookup per bound share of the node. In order: names,
 * merging, over a restart, reading.
 */
#include "milligpu/wire/usage/measured.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

/* --- names --- */

static uint64_t key_with(uint64_t key, struct text part)
{
    return (uint64_t)text_hash_by(part, key) << 32 | text_hash_by(part, ~key);
}

/* Uses the GPU's current id: an allocation may have an older one. */
static uint64_t key_of(const struct allocation *allocation, const struct share *share,
                       const struct gpu *gpu)
{
    const struct text uid = text_of(allocation->facts.uid);
    const uint64_t pod = (uint64_t)text_hash(uid) << 32 | text_hash_by(uid, text_hash(uid));

    return key_with(key_with(pod, text_of(share->container)), atom_text(gpu->id));
}

static const struct measured_share *by_key(const struct measured *measured, uint64_t key)
{
    for (uint32_t i = 0; measured != NULL && i < measured->n_shares; i++)
        if (measured->share[i].key == key)
            return &measured->share[i];
    return NULL;
}

/* --- merging --- */

struct merging {
    const struct measured *before;
    const struct node *node;
    const struct usage_report *report;
    const struct measured_how *how;
    struct measured *after;
};

static const struct usage_container *container_of(const struct usage_pod *pod, const char *name)
{
    for (uint32_t i = 0; pod != NULL && i < pod->n_containers; i++)
        if (text_is(pod->container[i].name, name))
            return &pod->container[i];
    return NULL;
}

/* The agent uses the GPU id of the pod's annotation; the allocation may have an alias. */
static const struct usage_gpu *gpu_of(const struct merging *merging,
                                      const struct usage_container *container,
                                      const struct gpu *gpu)
{
    for (uint32_t i = 0; container != NULL && i < container->n_gpus; i++)
        if (node_gpu(merging->node, container->gpu[i].gpu) == gpu)
            return &container->gpu[i];
    return NULL;
}

/* Returns 0 also while the wall clock is before the binding of the pod. */
static int64_t idle_since(const struct measured_share *was, const struct allocation *allocation,
                          int32_t milli, int64_t now_ms)
{
    must(now_ms > 0);
    if (milli == USAGE_UNKNOWN || milli >= MEASURED_IDLE_MILLI ||
        now_ms < allocation->facts.bound_ms)
        return 0;
    return was != NULL && was->idle_since_ms > 0 && was->idle_since_ms <= now_ms &&
                   measured_is_fresh(was, now_ms)
               ? was->idle_since_ms
               : now_ms;
}

/*
 * If the listener cannot record the end of an idle time, its stored start would also count for the
 * next one: so the next one begins only after that has succeeded.
 */
static void report_idle(const struct measured_how *how, const struct measured_idle *idle,
                        struct measured_share *now)
{
    const bool keep = now->idle_since_ms > 0 && now->at_ms - now->idle_since_ms >= MEASURED_KEPT_MS;

    must(idle->since_ms == 0);
    if (how->idle == NULL || keep == now->kept)
        return;
    struct measured_idle reported = *idle;
    reported.since_ms = keep ? now->idle_since_ms : 0;
    if (how->idle(how->user, &reported))
        now->kept = keep;
    else if (!keep)
        now->idle_since_ms = 0;
}

/* A container with several GPUs has several shares; new_over is reported with the first. */
static bool is_first_share(const struct allocation *allocation, const struct share *share)
{
    for (const struct share *at = allocation->facts.share; at < share; at++)
        if (strcmp(at->container, share->container) == 0)
            return false;
    return true;
}

static void merge_share(struct merging *merging, const struct allocation *allocation,
                        const struct share *share, const struct usage_pod *pod)
{
    const struct gpu *gpu = node_gpu(merging->node, atom_text(share->gpu));
    const struct usage_container *container = container_of(pod, share->container);

    must(gpu != NULL); /* a node lists every GPU that is charged on it */
    const struct usage_gpu *said = gpu_of(merging, container, gpu);
    const struct measured_idle idle = {.allocation = allocation, .share = share};
    const uint64_t key = key_of(allocation, share, gpu);
    const struct measured_share *was = by_key(merging->before, key);
    struct measured_share *now = &merging->after->share[merging->after->n_shares];
    if (said == NULL && was != NULL) {
        *now = *was;
        merging->after->n_shares++;
        if (!measured_is_fresh(now, merging->how->now_ms))
            now->idle_since_ms = 0;
        report_idle(merging->how, &idle, now);
    }
    if (said == NULL)
        return;
    *now = (struct measured_share){
        .key = key,
        .at_ms = merging->how->now_ms,
        .idle_since_ms = idle_since(was, allocation, said->milli, merging->how->now_ms),
        .milli = said->milli,
        .mib = said->mib,
        .peak_mib = said->peak_mib,
        .over = (uint8_t)container->over,
        .is_scaled = said->is_scaled,
        .kept = was != NULL && was->kept,
    };
    merging->after->n_shares++;
    report_idle(merging->how, &idle, now);
    const uint8_t over = was != NULL ? was->over : USAGE_OVER_NOT;
    const struct measured_fact fact = {
        .allocation = allocation,
        .share = share,
        .gpu = gpu,
        .measured = now,
        .new_over =
            now->over > over && is_first_share(allocation, share) ? now->over : USAGE_OVER_NOT,
    };
    if (merging->how->fact != NULL)
        merging->how->fact(merging->how->user, &fact);
}

static uint32_t bound_shares(const struct node *node)
{
    uint32_t shares = 0;

    for (uint32_t i = 0; i < node->n_allocations; i++)
        if (node->allocation[i]->facts.state == STATE_BOUND)
            shares += node->allocation[i]->facts.n_shares;
    return shares;
}

struct measured *measured_merge(const struct measured *before, const struct node *node,
                                const struct usage_report *report, const struct measured_how *how,
                                uint32_t *out_unknown)
{
    const size_t room = (size_t)bound_shares(node) * sizeof(struct measured_share);
    struct merging merging = {before, node, report, how,
                              xcalloc(1, sizeof(struct measured) + room)};
    uint32_t known = 0;
    struct map pods;

    must(report->n_pods <= USAGE_PODS_MAX);
    map_init(&pods);
    for (uint32_t i = 0; i < report->n_pods; i++)
        (void)map_put(&pods, report->pod[i].uid, &report->pod[i]);
    merging.after->refs = 1;
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        if (allocation->facts.state != STATE_BOUND)
            continue;
        const struct usage_pod *pod = map_find(&pods, text_of(allocation->facts.uid));
        known += pod != NULL;
        for (uint32_t k = 0; k < allocation->facts.n_shares; k++)
            merge_share(&merging, allocation, &allocation->facts.share[k], pod);
    }
    map_done(&pods);
    must(known <= report->n_pods);
    *out_unknown = report->n_pods - known;
    return merging.after;
}

/* --- over a restart --- */

struct measured *measured_resume(const struct node *node, const struct measured_idle *idle,
                                 uint32_t count, int64_t reported_ms, int64_t now_ms)
{
    const int64_t last_ms = reported_ms < now_ms ? reported_ms : now_ms;
    struct measured *measured =
        xcalloc(1, sizeof *measured + (size_t)count * sizeof(struct measured_share));

    measured->refs = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct allocation *allocation = idle[i].allocation;
        const struct gpu *gpu = node_gpu(node, atom_text(idle[i].share->gpu));
        const int64_t since_ms = idle[i].since_ms;
        must(allocation->facts.state == STATE_BOUND && gpu != NULL);
        measured->share[measured->n_shares++] = (struct measured_share){
            .key = key_of(allocation, idle[i].share, gpu),
            .at_ms = reported_ms > 0 ? reported_ms : 1,
            .idle_since_ms =
                allocation->facts.bound_ms <= since_ms && since_ms <= last_ms ? since_ms : 0,
            .milli = USAGE_UNKNOWN,
            .mib = USAGE_UNKNOWN,
            .peak_mib = USAGE_UNKNOWN,
            .over = USAGE_OVER_NOT,
            .kept = true,
        };
    }
    return measured;
}

struct measured *measured_without_idle(const struct measured *measured)
{
    const size_t room = (size_t)measured->n_shares * sizeof(struct measured_share);
    struct measured *after = xcalloc(1, sizeof *after + room);

    after->refs = 1;
    after->n_shares = measured->n_shares;
    for (uint32_t i = 0; i < measured->n_shares; i++) {
        after->share[i] = measured->share[i];
        after->share[i].idle_since_ms = 0;
        after->share[i].kept = false;
    }
    return after;
}

bool measured_keeps(const struct measured *measured)
{
    for (uint32_t i = 0; i < measured->n_shares; i++)
        if (measured->share[i].kept)
            return true;
    return false;
}

/* --- reading --- */

static struct measured *writable(const struct measured *measured)
{
    return (struct measured *)(uintptr_t)measured; /* the reference count is not const */
}

const struct measured *measured_ref(const struct measured *measured)
{
    const unsigned before = atomic_fetch_add(&writable(measured)->refs, 1);

    must(before > 0);
    return measured;
}

void measured_unref(const struct measured *measured)
{
    if (measured != NULL && atomic_fetch_sub(&writable(measured)->refs, 1) == 1)
        xfree(writable(measured));
}

const struct measured_share *measured_find(const struct measured *measured, const struct node *node,
                                           const struct allocation *allocation,
                                           const struct share *share)
{
    const struct gpu *gpu = measured != NULL ? node_gpu(node, atom_text(share->gpu)) : NULL;

    return gpu != NULL ? by_key(measured, key_of(allocation, share, gpu)) : NULL;
}

bool measured_is_fresh(const struct measured_share *share, int64_t now_ms)
{
    must(share->at_ms > 0);
    return now_ms - share->at_ms <= MEASURED_FRESH_MS; /* true if the clock was set back */
}

/* An unknown amount makes the sum unknown: clients of MPS would count as idle otherwise. */
static int64_t add_amount(const struct measured_sum *sum, int64_t of_sum, int64_t amount)
{
    if (sum->shares == 0)
        return amount;
    return of_sum == USAGE_UNKNOWN || amount == USAGE_UNKNOWN ? USAGE_UNKNOWN : of_sum + amount;
}

static void add_known(struct measured_sum *sum, const struct measured_share *share)
{
    sum->milli = add_amount(sum, sum->milli, share->milli);
    sum->is_scaled = sum->milli != USAGE_UNKNOWN && (sum->is_scaled || share->is_scaled);
    sum->mib = add_amount(sum, sum->mib, share->mib);
    if (sum->shares == 0 || share->at_ms < sum->at_ms)
        sum->at_ms = share->at_ms;
    const bool idle = share->idle_since_ms > 0 && (sum->shares == 0 || sum->idle_since_ms > 0);
    if (!idle)
        sum->idle_since_ms = 0;
    else if (share->idle_since_ms > sum->idle_since_ms)
        sum->idle_since_ms = share->idle_since_ms;
    sum->shares++;
}

void measured_sum(const struct measured *measured, const struct node *node, const struct gpu *gpu,
                  int64_t now_ms, struct measured_sum *out)
{
    bool unknown = false;

    *out = (struct measured_sum){.milli = USAGE_UNKNOWN, .mib = USAGE_UNKNOWN};
    for (uint32_t i = 0; measured != NULL && i < node->n_allocations; i++) {
        const struct allocation *allocation = node->allocation[i];
        for (uint32_t k = 0; k < allocation->facts.n_shares; k++) {
            const struct share *share = &allocation->facts.share[k];
            if (node_gpu(node, atom_text(share->gpu)) != gpu)
                continue;
            const struct measured_share *now = measured_find(measured, node, allocation, share);
            if (now != NULL && measured_is_fresh(now, now_ms))
                add_known(out, now);
            else
                unknown = true;
        }
    }
    if (unknown)
        out->idle_since_ms = 0; /* a share without a fresh report may not be idle */
}
