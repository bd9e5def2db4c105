/*
 * Caches judgements between questions: by request and node, with and without what offers take, and
 * for rollout the expected idle GPU by remaining capacity. Used by one caller at a time. A hit
 * never changes an answer: an entry holds for one immutable node object, which cannot be freed
 * while its slot refers to it, and under one policy, seed and set of rules; prices are added when a
 * rank is read. Tables are cleared as a whole when full; of the requests the least recently used is
 * evicted. The table of idle GPUs begins small and grows with use, the others have a fixed size.
 * Parts: the score cache, nodes, requests, losses, ranks, idle GPU.
 */
#include "score_cache.h"

#include <string.h>

#include "milligpu/base/alloc.h"

enum {
    SHAPES_MAX = 256,
    LOSSES_MAX = 255,
    LEVELS_MAX = 256,
    IDLE_ENTRIES_MIN = 1 << 10, /* 52 KiB; most clusters need no more */
    IDLE_ENTRIES_MAX = 1 << 16,
    IDLE_GPUS_MAX = 16, /* larger nodes are not cached */
    BESIDE_ENTRIES = 64,
    ENTRY_BYTES_MAX = SCORE_CACHE_BYTES_MAX - (8 << 20),
};

struct cached_node {
    const struct node *node; /* a reference */
    uint32_t order;          /* rule 4 */
    uint16_t serial;         /* of valid entries for this object; 0: none */
};

/* Values shared by all judged placements of a node; there are few distinct ones. */
struct cached_level {
    uint32_t price;              /* rule a */
    uint32_t raised_milli;       /* as in a rank */
    enum distance distance;      /* rule b */
    const struct policy *policy; /* which judged the node */
    uint64_t head;               /* order_head.level of the above */
};

/* The result for one node and one request. */
struct score_cache_entry {
    /* Merits without prices; LEFT and FREE of a policy that judges by numbers. */
    int32_t base[SCORES_MAX];
    uint16_t serial;
    uint16_t work;
    uint8_t why;
    uint8_t judged;           /* highest bit: not exact */
    uint8_t level;            /* index into cache.level */
    uint8_t loss[SCORES_MAX]; /* index into cache.loss; LOSSES_MAX: none */
};
enum { LEFT, FREE };
static_assert((int)FREE < (int)SCORES_MAX && GPUS_PER_NODE_MAX * GPU_MILLI <= INT32_MAX,
              "numbers fit");
static_assert(LOSSES_MAX <= UINT8_MAX && LEVELS_MAX <= UINT8_MAX + 1, "indexes fit");
static_assert(sizeof(struct score_cache_entry) == 20,
              "there are as many as nodes for each request");

/* The result for one node without what is taken from it. */
struct beside_entry {
    uint32_t slot;
    struct taken taken; /* never empty, unless the entry is free */
    struct score_cache_entry entry;
};

struct cached_request {
    struct request *request; /* owned; NULL: free entry */
    uint32_t hash;
    uint64_t turn;
    struct score_cache_entry *entry; /* by slot */
    struct beside_entry *beside;     /* BESIDE_ENTRIES by slot modulo their number; or NULL */
};

/* The free milli of all GPUs, ascending; all of one kind. */
struct idle_key {
    struct host host;
    uint16_t kind;
    uint16_t gpus;
    uint16_t free[IDLE_GPUS_MAX];
};
static_assert(sizeof(struct idle_key) ==
                  sizeof(struct host) + (2 + IDLE_GPUS_MAX) * sizeof(uint16_t),
              "no padding");

struct idle_entry {
    struct idle_key key;
    uint32_t idle; /* value + 1; 0: free entry */
    uint32_t work;
};

struct score_cache {
    const struct policy_context *context; /* a reference; NULL: not used yet */
    struct kinds kinds;
    uint32_t slots;
    struct cached_node *node;
    uint32_t requests_max; /* number that fits into ENTRY_BYTES_MAX */
    uint64_t turn;
    struct cached_request request[SHAPES_MAX];
    struct cached_request *now; /* entry of the current question; NULL: not cached */
    uint32_t n_levels;
    struct cached_level level[LEVELS_MAX];
    uint32_t n_losses;
    struct loss loss[LOSSES_MAX];
    int64_t loss_price[LOSSES_MAX];
    uint32_t idle_entries;   /* a power of two; 0 unless rollout judged */
    uint32_t idle_used;      /* at most half of them */
    struct idle_entry *idle; /* NULL if there are none */
    struct score_cache_counts counts;
};

/*
 * The score cache
 */

static void forget_requests(struct score_cache *cache)
{
    must(cache != NULL);
    for (uint32_t i = 0; i < SHAPES_MAX; i++) {
        xfree(cache->request[i].request);
        xfree(cache->request[i].entry);
        xfree(cache->request[i].beside);
        cache->request[i] = (struct cached_request){0};
    }
    cache->n_losses = 0;
    cache->n_levels = 0;
}

static void forget_nodes(struct score_cache *cache)
{
    must(cache->slots == 0 || cache->node != NULL);
    for (uint32_t i = 0; i < cache->slots; i++)
        node_unref(cache->node[i].node);
    xfree(cache->node);
    cache->node = NULL;
    cache->slots = 0;
}

static void forget_idle(struct score_cache *cache)
{
    must((cache->idle == NULL) == (cache->idle_entries == 0));
    xfree(cache->idle);
    cache->idle = NULL;
    cache->idle_entries = 0;
    cache->idle_used = 0;
}

/* The workload that judgements depend on; NULL: they depend on none. */
static const struct workload *workload_of(const struct policy_context *context)
{
    must(context != NULL);
    must(context->workload != NULL || !policy_context_needs_workload(context));
    return policy_context_needs_workload(context) ? context->workload : NULL;
}

static void forget_kinds(struct score_cache *cache)
{
    const struct workload *workload = workload_of(cache->context);

    kinds_done(&cache->kinds);
    cache->kinds.workload = NULL;
    if (workload != NULL)
        kinds_init(&cache->kinds, workload);
    forget_idle(cache);
    must(cache->kinds.count == 0);
}

struct score_cache *score_cache_new(void)
{
    struct score_cache *cache = xcalloc(1, sizeof *cache);
    must(cache->context == NULL);
    must(cache->idle == NULL);
    static_assert(sizeof *cache + IDLE_ENTRIES_MAX * sizeof *cache->idle +
                          sizeof(struct beside_entry) * SHAPES_MAX * BESIDE_ENTRIES <
                      SCORE_CACHE_BYTES_MAX - ENTRY_BYTES_MAX,
                  "the entries of requests have the rest");
    return cache;
}

void score_cache_free(struct score_cache *cache)
{
    if (cache == NULL)
        return;

    forget_requests(cache);
    forget_nodes(cache);
    forget_idle(cache);
    kinds_done(&cache->kinds);
    policy_context_unref(cache->context);
    xfree(cache);
}

struct score_cache_counts score_cache_counts(const struct score_cache *cache)
{
    struct score_cache_counts counts = cache->counts;

    must(cache->slots == 0 || cache->node != NULL);
    counts.bytes = sizeof *cache + cache->idle_entries * sizeof *cache->idle +
                   cache->slots * sizeof *cache->node;
    for (uint32_t i = 0; i < SHAPES_MAX; i++) {
        if (cache->request[i].entry != NULL)
            counts.bytes += cache->slots * sizeof *cache->request[i].entry;
        if (cache->request[i].beside != NULL)
            counts.bytes += BESIDE_ENTRIES * sizeof *cache->request[i].beside;
    }
    must(counts.bytes <= SCORE_CACHE_BYTES_MAX);
    return counts;
}

struct kinds *score_cache_kinds(struct score_cache *cache)
{
    must(cache->context != NULL && cache->kinds.workload != NULL);
    if (cache->kinds.count + GPUS_PER_NODE_MAX > KINDS_MAX)
        forget_kinds(cache);
    must(cache->kinds.workload == cache->context->workload);
    return &cache->kinds;
}

/*
 * Requests
 */

static bool is_request(const struct cached_request *known, const struct request *request,
                       uint32_t hash)
{
    must(request != NULL);
    return known->request != NULL && known->hash == hash &&
           known->request->host.cpu_milli == request->host.cpu_milli &&
           known->request->host.memory_mib == request->host.memory_mib &&
           request_eq(known->request, request);
}

/* The entry of the request, or the least recently used one. */
static struct cached_request *request_place(struct score_cache *cache,
                                            const struct request *request, uint32_t hash)
{
    struct cached_request *oldest = &cache->request[0];

    must(cache->requests_max > 0);
    must(cache->requests_max <= SHAPES_MAX);
    for (uint32_t i = 0; i < cache->requests_max; i++) {
        if (is_request(&cache->request[i], request, hash))
            return &cache->request[i];
        if (cache->request[i].turn < oldest->turn)
            oldest = &cache->request[i];
    }
    return oldest;
}

static uint32_t charge_of(const struct request *request, uint32_t raised_milli)
{
    must(request->n_wants <= 1);
    if (request->n_wants == 0)
        return 0;
    const struct want *want = &request->want[0];
    must(raised_milli <= GPU_MILLI);
    return want->parts * (want->milli > raised_milli ? want->milli : raised_milli);
}

static void find_request(struct score_cache *cache, const struct request *request)
{
    const uint32_t hash = request_hash(request);
    struct cached_request *place = request_place(cache, request, hash);

    must(cache->slots > 0);
    if (!is_request(place, request, hash)) {
        xfree(place->request);
        place->request = request_clone(request);
        place->hash = hash;
        xfree(place->beside);
        place->beside = NULL;
        if (place->entry == NULL)
            place->entry = xcalloc(cache->slots, sizeof *place->entry);
        else
            memset(place->entry, 0, cache->slots * sizeof *place->entry);
    }
    place->turn = ++cache->turn;
    cache->now = place;
    must(is_request(place, request, hash));
}

static void make_room_for(struct score_cache *cache, uint32_t slots)
{
    must(slots > 0);
    must(slots <= NODES_MAX);
    forget_requests(cache);
    forget_nodes(cache);
    cache->slots = slots;
    cache->node = xcalloc(slots, sizeof *cache->node);
    const size_t fit =
        (ENTRY_BYTES_MAX - slots * sizeof *cache->node) / (slots * sizeof *cache->request[0].entry);
    cache->requests_max = fit < SHAPES_MAX ? (uint32_t)fit : SHAPES_MAX;
    must(cache->requests_max > 0);
}

/*
 * Recomputes the prices, which are part of a policy context. All else that judgements depend on is
 * compared by address or value: what another policy judged is forgotten.
 */
static void set_policy_context(struct score_cache *cache, const struct policy_context *context)
{
    const struct policy_context *former = cache->context;

    must(context != NULL);
    if (former == context)
        return;
    cache->context = policy_context_ref(context);
    if (former == NULL || workload_of(former) != workload_of(context) ||
        former->kind != context->kind || former->seed != context->seed ||
        former->rulebook != context->rulebook || former->holding != context->holding) {
        forget_requests(cache);
        forget_nodes(cache);
        forget_kinds(cache);
    }
    policy_context_unref(former);
    for (uint32_t i = 0; i < cache->n_losses; i++)
        cache->loss_price[i] = loss_price(context, &cache->loss[i]);
    must(cache->kinds.workload == workload_of(context));
}

void policy_begin(struct score_cache *cache, const struct snapshot *snapshot,
                  const struct request *request)
{
    if (cache == NULL)
        return;

    must(request->n_wants <= CONTAINERS_MAX);
    cache->now = NULL;
    if (snapshot->context == NULL)
        return;
    set_policy_context(cache, snapshot->context);
    if (snapshot->slots > cache->slots)
        make_room_for(cache, snapshot->slots);
    if (cache->n_losses == LOSSES_MAX || cache->n_levels == LEVELS_MAX)
        forget_requests(cache);
    /* Not cached for several wants, whose charge differs between places. */
    if (cache->node != NULL && request->n_wants <= 1)
        find_request(cache, request);
    must(cache->now == NULL || cache->now->entry != NULL);
}

void policy_begin_rooms(struct score_cache *cache, const struct policy_context *context)
{
    if (cache == NULL)
        return;
    must(policy_context_needs_workload(context));
    must(cache->now == NULL);
    set_policy_context(cache, context);
    must(cache->kinds.workload == context->workload);
}

/*
 * Losses
 */

/* The index of this loss, added if new; LOSSES_MAX: the table is full. Linear: there are few. */
static uint32_t index_loss(struct score_cache *cache, const struct loss *loss)
{
    uint32_t at = 0;

    must(cache->n_losses <= LOSSES_MAX);
    while (at < cache->n_losses && memcmp(&cache->loss[at], loss, sizeof *loss) != 0)
        at++;
    if (at == cache->n_losses && at < LOSSES_MAX) {
        cache->loss[at] = *loss;
        cache->loss_price[at] = loss_price(cache->context, loss);
        cache->n_losses++;
    }
    must(at <= LOSSES_MAX);
    return at;
}

/* The same for a level; LEVELS_MAX: the table is full. */
static uint32_t index_level(struct score_cache *cache, const struct cached_level *level)
{
    uint32_t at = 0;

    must(cache->n_levels <= LEVELS_MAX);
    must(level->price <= PRICE_MAX);
    must(level->raised_milli <= GPU_MILLI);
    must(level->policy != NULL);
    while (at < cache->n_levels && (cache->level[at].price != level->price ||
                                    cache->level[at].distance != level->distance ||
                                    cache->level[at].raised_milli != level->raised_milli ||
                                    cache->level[at].policy != level->policy))
        at++;
    if (at == cache->n_levels && at < LEVELS_MAX) {
        const struct rank rank = {.price = level->price, .distance = level->distance};
        cache->level[at] = *level;
        cache->level[at].head = order_head_of(&rank).level;
        cache->n_levels++;
    }
    must(at <= LEVELS_MAX);
    return at;
}

/*
 * Ranks
 */

enum { NOT_EXACT = 1 << 7 };
static_assert(LAYOUTS_MAX + 1 < NOT_EXACT, "the number of judged placements fits beside the bit");
static_assert(NODE_WORK_MAX <= UINT16_MAX, "the work of a node fits");

/* The entry for the current request; NULL: not cached. */
static struct score_cache_entry *entry_at_slot(const struct score_cache *cache, uint32_t slot)
{
    if (cache == NULL || cache->now == NULL || slot == SNAPSHOT_NO_SLOT)
        return NULL;
    must(cache->now->entry != NULL);
    must(slot < cache->slots);
    return &cache->now->entry[slot];
}

/* The place of a node that something is taken from, in a table that there is. */
static struct beside_entry *beside_at_slot(struct beside_entry *table, uint32_t slot)
{
    must((BESIDE_ENTRIES & (BESIDE_ENTRIES - 1)) == 0);
    must(table != NULL);
    return &table[slot & (BESIDE_ENTRIES - 1)];
}

/* entry_at_slot() without what is taken. */
static struct score_cache_entry *entry_beside(const struct score_cache *cache, uint32_t slot,
                                              const struct taken *taken)
{
    must(taken->count > 0);
    if (entry_at_slot(cache, slot) == NULL || cache->now->beside == NULL)
        return NULL;
    struct beside_entry *place = beside_at_slot(cache->now->beside, slot);
    const bool same = place->slot == slot && memcmp(&place->taken, taken, sizeof *taken) == 0;
    return same ? &place->entry : NULL;
}

static void keep_beside(struct cached_request *request, uint32_t slot, const struct taken *taken,
                        const struct score_cache_entry *kept)
{
    must(kept->serial > 0);
    if (request->beside == NULL)
        request->beside = xcalloc(BESIDE_ENTRIES, sizeof *request->beside);
    *beside_at_slot(request->beside, slot) =
        (struct beside_entry){.slot = slot, .taken = *taken, .entry = *kept};
}

/* The best of the entry's placements, at the prices of now. */
static int64_t merit_of(const struct score_cache *cache, const struct score_cache_entry *entry)
{
    must(entry->loss[0] < LOSSES_MAX);
    must_debug(entry->why == REASON_NONE && entry->loss[0] < cache->n_losses);

    int64_t merit = entry->base[0] - cache->loss_price[entry->loss[0]];
    for (uint32_t i = 1; i < SCORES_MAX && entry->loss[i] < LOSSES_MAX; i++) {
        const int64_t other = entry->base[i] - cache->loss_price[entry->loss[i]];
        merit = other > merit ? other : merit;
    }
    return merit;
}

/* Sets the keys of an entry that fits, under a policy that judges by numbers. */
static void keys_of(const struct score_cache *cache, const struct score_cache_entry *entry,
                    int64_t key[3])
{
    const struct cached_level *level = &cache->level[entry->level];

    must(entry->why == REASON_NONE && entry->loss[0] == LOSSES_MAX);
    must(entry->level < cache->n_levels);
    policy_keys(level->policy, charge_of(cache->now->request, level->raised_milli),
                (uint32_t)entry->base[LEFT], (uint32_t)entry->base[FREE], key);
}

/* The node order of all policies that have one is the same. */
static uint32_t order_of(const struct policy *policy, const struct cached_node *node)
{
    must(policy != NULL);
    must(node->node != NULL);
    return policy->shuffles ? node->order : 0;
}

/* Values that all nodes share stay in registers here: a question has thousands. */
void score_cache_briefs(const struct score_cache *cache, uint32_t count,
                        const struct node *const *node, const uint32_t *slot,
                        struct policy_brief *out)
{
    const struct score_cache_entry *entries =
        cache == NULL || cache->now == NULL ? NULL : cache->now->entry;

    must(out != NULL);
    for (uint32_t i = 0; i < count; i++) {
        out[i].known = false;
        if (entries == NULL || node[i] == NULL || slot[i] == SNAPSHOT_NO_SLOT)
            continue;
        must(slot[i] < cache->slots);
        const struct score_cache_entry *entry = &entries[slot[i]];
        const struct cached_node *seen = &cache->node[slot[i]];
        if (seen->node != node[i] || seen->serial != entry->serial)
            continue;
        out[i].known = true;
        out[i].why = (enum reason)entry->why;
        if (entry->why != REASON_NONE)
            continue;
        const struct cached_level *level = &cache->level[entry->level];
        int64_t key[3] = {0};
        out[i].order = seen->order;
        if (entry->loss[0] < LOSSES_MAX) {
            key[0] = -merit_of(cache, entry);
        } else {
            keys_of(cache, entry, key);
            out[i].order = order_of(level->policy, seen);
        }
        out[i].work = entry->work;
        out[i].head = order_head_with(level->head, key, out[i].order);
    }
}

void score_cache_count(struct score_cache *cache, uint32_t count)
{
    must(cache->now != NULL);
    must(count <= NODES_MAX);
    cache->counts.found += count;
}

bool score_cache_find(const struct policy_question *question, const struct taken *taken,
                      enum reason *out_why, struct rank *out)
{
    struct score_cache *cache = question->cache;
    const struct score_cache_entry *entry = taken == NULL
                                                ? entry_at_slot(cache, question->slot)
                                                : entry_beside(cache, question->slot, taken);

    must(question->node != NULL);
    if (entry == NULL || cache->node[question->slot].node != question->node ||
        cache->node[question->slot].serial != entry->serial)
        return false;
    must(question->context == cache->context);
    must(cache->node[question->slot].serial > 0); /* an entry implies a node */
    score_cache_count(cache, 1);
    must(entry->level < cache->n_levels);
    const struct cached_level *level = &cache->level[entry->level];
    *out_why = (enum reason)entry->why;
    *out = (struct rank){.exact = (entry->judged & NOT_EXACT) == 0,
                         .order = order_of(level->policy, &cache->node[question->slot]),
                         .node = question->node->name};
    if (*out_why != REASON_NONE)
        return true;
    out->distance = level->distance;
    out->price = level->price;
    out->raised_milli = level->raised_milli;
    out->charge_milli = charge_of(cache->now->request, out->raised_milli);
    out->judged = entry->judged & ~(uint32_t)NOT_EXACT;
    out->work = entry->work;
    if (entry->loss[0] < LOSSES_MAX) {
        out->key[0] = -merit_of(cache, entry);
        return true;
    }
    out->left_milli = (uint32_t)entry->base[LEFT];
    out->free_milli = (uint32_t)entry->base[FREE];
    keys_of(cache, entry, out->key);
    return true;
}

/* Resets the slot's entries, so that no serial is reused while an entry has it. */
static void start_serials_again(struct score_cache *cache, uint32_t slot)
{
    must(slot < cache->slots);
    must(cache->node[slot].serial == UINT16_MAX);
    for (uint32_t i = 0; i < cache->requests_max; i++) {
        if (cache->request[i].entry != NULL)
            cache->request[i].entry[slot].serial = 0;
        if (cache->request[i].beside == NULL)
            continue;
        struct beside_entry *beside = beside_at_slot(cache->request[i].beside, slot);
        if (beside->slot == slot)
            beside->entry.serial = 0;
    }
    cache->node[slot].serial = 0;
}

/* Replaces the node object of a slot, which invalidates the entries of the former one. */
static uint16_t see_node(struct score_cache *cache, uint32_t slot, const struct node *node)
{
    struct cached_node *seen = &cache->node[slot];

    must(slot < cache->slots);
    if (seen->node != node) {
        node_unref(seen->node);
        seen->node = node_ref(node);
        if (seen->serial == UINT16_MAX)
            start_serials_again(cache, slot);
        seen->serial++;
        seen->order = policy_node_order(cache->context, &policy_rollout, node->name);
    }
    must(seen->serial > 0);
    return seen->serial;
}

void score_cache_keep(const struct policy_question *question, const struct taken *taken,
                      const struct placement_scores *scores)
{
    struct score_cache_entry *entry = entry_at_slot(question->cache, question->slot);
    struct score_cache *cache = question->cache;
    struct score_cache_entry kept;

    must(question->node != NULL);
    if (cache != NULL)
        cache->counts.made++;
    if (entry == NULL || scores->more)
        return;
    must(scores->count <= SCORES_MAX);
    const struct cached_level wanted = {.price = scores->price,
                                        .raised_milli = scores->raised_milli,
                                        .distance = scores->distance,
                                        .policy = scores->policy};
    const uint32_t level = index_level(cache, &wanted);
    if (level == LEVELS_MAX)
        return;
    kept = (struct score_cache_entry){
        .serial = see_node(cache, question->slot, question->node),
        .why = (uint8_t)scores->why,
        .judged = (uint8_t)(scores->judged | (scores->exact ? 0U : NOT_EXACT)),
        .work = (uint16_t)work_of(scores->work),
        .level = (uint8_t)level,
        .loss = {LOSSES_MAX, LOSSES_MAX},
    };
    if (scores->policy->waste == NULL) {
        kept.base[LEFT] = (int32_t)scores->left_milli;
        kept.base[FREE] = (int32_t)scores->free_milli;
    }
    static_assert(ARRAY_LEN(kept.loss) == 2, "all are named");
    for (uint32_t i = 0; i < scores->count; i++) {
        const uint32_t loss = index_loss(cache, &scores->best[i].loss);
        if (loss == LOSSES_MAX)
            return;
        kept.base[i] = (int32_t)scores->best[i].base;
        kept.loss[i] = (uint8_t)loss;
        must(kept.base[i] == scores->best[i].base);
    }
    if (taken == NULL)
        *entry = kept;
    else
        keep_beside(cache->now, question->slot, taken, &kept);
}

/*
 * Idle GPU
 */

/* False: too many GPUs, or several kinds. */
static bool idle_key_of(const struct remaining *remaining, struct idle_key *out)
{
    must(remaining->n_gpus <= GPUS_PER_NODE_MAX);
    if (remaining->n_gpus > IDLE_GPUS_MAX)
        return false;
    /* Unused fields are 0: keys are compared bytewise. */
    *out = (struct idle_key){.host = remaining->host, .gpus = (uint16_t)remaining->n_gpus};
    for (uint32_t i = 0; i < remaining->n_gpus; i++) {
        uint32_t at = i;
        if (remaining->kind[i] != remaining->kind[0])
            return false;
        for (; at > 0 && out->free[at - 1] > remaining->free[i]; at--)
            out->free[at] = out->free[at - 1];
        out->free[at] = remaining->free[i];
        out->kind = remaining->kind[i];
    }
    return true;
}

/* The entry of this key, or the free one for it. */
static struct idle_entry *idle_place(const struct score_cache *cache, const struct idle_key *key)
{
    const struct text bytes = {(const char *)key, sizeof *key};
    const uint32_t mask = cache->idle_entries - 1;
    uint32_t at = text_hash(bytes) & mask;

    must((cache->idle_entries & mask) == 0);
    must(cache->idle_used < cache->idle_entries);
    while (cache->idle[at].idle > 0 && memcmp(&cache->idle[at].key, key, sizeof *key) != 0)
        at = (at + 1) & mask;
    return &cache->idle[at];
}

/* The first entries, or twice as many. */
static void grow_idle(struct score_cache *cache)
{
    struct idle_entry *former = cache->idle;
    const uint32_t entries = cache->idle_entries;

    must(entries < IDLE_ENTRIES_MAX);
    must(entries == 0 || former != NULL);
    cache->idle_entries = entries > 0 ? 2 * entries : IDLE_ENTRIES_MIN;
    cache->idle = xcalloc(cache->idle_entries, sizeof *cache->idle);
    must(cache->idle_entries <= IDLE_ENTRIES_MAX);
    for (uint32_t i = 0; i < entries; i++)
        if (former[i].idle > 0)
            *idle_place(cache, &former[i].key) = former[i];
    xfree(former);
}

/* place: the free one for this key. */
static void keep_idle(struct score_cache *cache, struct idle_entry *place,
                      const struct idle_entry *entry)
{
    must(entry->idle > 0);
    must(place->idle == 0);
    if (cache->idle_used == cache->idle_entries / 2) {
        if (cache->idle_entries == IDLE_ENTRIES_MAX)
            forget_idle(cache);
        grow_idle(cache);
        place = idle_place(cache, &entry->key);
    }
    *place = *entry;
    cache->idle_used++;
    must(cache->idle_used <= cache->idle_entries / 2);
}

uint64_t score_cache_idle(struct score_cache *cache, const struct workload *workload,
                          const struct remaining *remaining, uint64_t *work)
{
    struct idle_key key;
    uint64_t its_work = 0;

    must(cache == NULL || cache->kinds.workload == workload);
    if (cache == NULL || !idle_key_of(remaining, &key))
        return rollout_idle(workload, remaining, work);
    if (cache->idle == NULL)
        grow_idle(cache);
    struct idle_entry *entry = idle_place(cache, &key);
    if (entry->idle > 0) {
        cache->counts.idle_found++;
        *work += entry->work;
        return entry->idle - 1;
    }
    const uint64_t idle = rollout_idle(workload, remaining, &its_work);
    must(idle <= (uint64_t)WORKLOAD_SEQUENCES * IDLE_GPUS_MAX * GPU_MILLI);
    must(its_work <= UINT32_MAX);
    keep_idle(cache, entry, &(struct idle_entry){key, (uint32_t)idle + 1, (uint32_t)its_work});
    *work += its_work;
    cache->counts.idle_made++;
    return idle;
}
