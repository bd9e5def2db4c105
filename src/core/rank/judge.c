/*
 * What fgd and rollout remember between questions: for each request and node the appraisals, and
 * for what a node may have left the idle GPU that is expected. Belongs to one caller at a time.
 * Nothing here changes an answer: an entry holds for one node object, which never changes and
 * cannot be freed while its slot is remembered, and prices are added when a rank is read. Every
 * table has a fixed size; what is full is forgotten as a whole, except that of the requests the one
 * that was not asked about for longest goes. Parts: the judge, nodes, requests, losses, ranks, idle
 * GPU.
 */
#include "judge.h"

#include <string.h>

#include "milligpu/base/alloc.h"

enum {
    SHAPES_MAX = 256,
    LOSSES_MAX = 255,
    LEVELS_MAX = 256,
    IDLE_ENTRIES = 1 << 16,
    IDLE_GPUS_MAX = 16, /* what larger nodes have left is not remembered */
    ENTRY_BYTES_MAX = JUDGE_BYTES_MAX - (8 << 20),
};

struct judged_node {
    const struct node *node; /* a reference */
    uint32_t order;          /* rule 4 */
    uint16_t serial;         /* of the entries that hold for this object; 0: none */
};

/* What is the same for all placements of a node that are judged; there are few of them. */
struct judged_level {
    uint32_t price;        /* rule a */
    uint32_t raised_milli; /* as in a rank */
    enum apart apart;      /* rule b */
};

/* One node for one request. */
struct judge_entry {
    int32_t base[APPRAISALS_MAX];
    uint16_t serial;
    uint16_t work;
    uint8_t why;
    uint8_t judged;               /* the highest bit: not exact */
    uint8_t level;                /* index into judge.level */
    uint8_t loss[APPRAISALS_MAX]; /* LOSSES_MAX: no more */
};
static_assert(LOSSES_MAX <= UINT8_MAX && LEVELS_MAX <= UINT8_MAX + 1, "indexes fit");
static_assert(sizeof(struct judge_entry) == 20, "there are as many as nodes for each request");

struct judged_request {
    struct request *request; /* NULL: free */
    uint32_t hash;
    uint64_t turn;
    struct judge_entry *entry; /* by slot */
};

/* The free milli in ascending order, all GPUs of one kind. */
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
    uint32_t idle; /* + 1; 0: free */
    uint32_t work;
};

struct judge {
    const struct outlook *outlook; /* a reference; NULL: nothing was judged yet */
    struct kinds kinds;
    uint32_t slots;
    struct judged_node *node;
    uint32_t requests_max; /* as many as fit into ENTRY_BYTES_MAX */
    uint64_t turn;
    struct judged_request request[SHAPES_MAX];
    struct judged_request *now; /* that of the question; NULL: it is not remembered */
    uint32_t levels;
    struct judged_level level[LEVELS_MAX];
    uint32_t losses;
    struct loss loss[LOSSES_MAX];
    int64_t price[LOSSES_MAX];
    struct idle_entry *idle;
    struct judge_counts counts;
};

/*
 * The judge
 */

static void forget_requests(struct judge *judge)
{
    must(judge != NULL);
    for (uint32_t i = 0; i < SHAPES_MAX; i++) {
        xfree(judge->request[i].request);
        xfree(judge->request[i].entry);
        judge->request[i] = (struct judged_request){0};
    }
    judge->losses = 0;
    judge->levels = 0;
}

static void forget_nodes(struct judge *judge)
{
    must(judge->slots == 0 || judge->node != NULL);
    for (uint32_t i = 0; i < judge->slots; i++)
        node_unref(judge->node[i].node);
    xfree(judge->node);
    judge->node = NULL;
    judge->slots = 0;
}

static void forget_kinds(struct judge *judge)
{
    must(judge->outlook != NULL);
    must(judge->idle != NULL);
    kinds_done(&judge->kinds);
    kinds_init(&judge->kinds, judge->outlook->workload);
    memset(judge->idle, 0, IDLE_ENTRIES * sizeof *judge->idle);
}

struct judge *judge_new(void)
{
    struct judge *judge = xcalloc(1, sizeof *judge);
    judge->idle = xcalloc(IDLE_ENTRIES, sizeof *judge->idle);
    must(judge->outlook == NULL);
    must(sizeof *judge + IDLE_ENTRIES * sizeof *judge->idle < JUDGE_BYTES_MAX - ENTRY_BYTES_MAX);
    return judge;
}

void judge_free(struct judge *judge)
{
    if (judge == NULL)
        return;

    must(judge->idle != NULL);
    forget_requests(judge);
    forget_nodes(judge);
    kinds_done(&judge->kinds);
    outlook_unref(judge->outlook);
    xfree(judge->idle);
    xfree(judge);
}

struct judge_counts judge_counts(const struct judge *judge)
{
    struct judge_counts counts = judge->counts;

    must(judge->idle != NULL);
    counts.bytes =
        sizeof *judge + IDLE_ENTRIES * sizeof *judge->idle + judge->slots * sizeof *judge->node;
    for (uint32_t i = 0; i < SHAPES_MAX; i++)
        if (judge->request[i].entry != NULL)
            counts.bytes += judge->slots * sizeof *judge->request[i].entry;
    must(counts.bytes <= JUDGE_BYTES_MAX);
    return counts;
}

struct kinds *judge_kinds(struct judge *judge)
{
    must(judge->outlook != NULL);
    if (judge->kinds.count + GPUS_PER_NODE_MAX > KINDS_MAX)
        forget_kinds(judge);
    must(judge->kinds.workload == judge->outlook->workload);
    return &judge->kinds;
}

/*
 * Requests
 */

static bool is_request(const struct judged_request *known, const struct request *request,
                       uint32_t hash)
{
    must(request != NULL);
    return known->request != NULL && known->hash == hash &&
           known->request->host.cpu_milli == request->host.cpu_milli &&
           known->request->host.memory_mib == request->host.memory_mib &&
           request_eq(known->request, request);
}

/* Its place, or the one that was not used for longest. */
static struct judged_request *request_place(struct judge *judge, const struct request *request,
                                            uint32_t hash)
{
    struct judged_request *oldest = &judge->request[0];

    must(judge->requests_max > 0);
    must(judge->requests_max <= SHAPES_MAX);
    for (uint32_t i = 0; i < judge->requests_max; i++) {
        if (is_request(&judge->request[i], request, hash))
            return &judge->request[i];
        if (judge->request[i].turn < oldest->turn)
            oldest = &judge->request[i];
    }
    return oldest;
}

static uint32_t charge_of(const struct request *request, uint32_t raised_milli)
{
    must(request->wants <= 1);
    if (request->wants == 0)
        return 0;
    const struct want *want = &request->want[0];
    must(raised_milli <= GPU_MILLI);
    return want->parts * (want->milli > raised_milli ? want->milli : raised_milli);
}

static void find_request(struct judge *judge, const struct request *request)
{
    const uint32_t hash = request_hash(request);
    struct judged_request *place = request_place(judge, request, hash);

    must(judge->slots > 0);
    if (!is_request(place, request, hash)) {
        xfree(place->request);
        place->request = request_clone(request);
        place->hash = hash;
        if (place->entry == NULL)
            place->entry = xcalloc(judge->slots, sizeof *place->entry);
        else
            memset(place->entry, 0, judge->slots * sizeof *place->entry);
    }
    place->turn = ++judge->turn;
    judge->now = place;
    must(is_request(place, request, hash));
}

static void make_room_for(struct judge *judge, uint32_t slots)
{
    must(slots > 0);
    must(slots <= NODES_MAX);
    forget_requests(judge);
    forget_nodes(judge);
    judge->slots = slots;
    judge->node = xcalloc(slots, sizeof *judge->node);
    const size_t fit =
        (ENTRY_BYTES_MAX - slots * sizeof *judge->node) / (slots * sizeof *judge->request[0].entry);
    judge->requests_max = fit < SHAPES_MAX ? (uint32_t)fit : SHAPES_MAX;
    must(judge->requests_max > 0);
}

/* Prices are part of an outlook, so another one has others. */
static void set_outlook(struct judge *judge, const struct outlook *outlook)
{
    const struct outlook *former = judge->outlook;

    must(outlook->workload != NULL);
    if (former == outlook)
        return;
    judge->outlook = outlook_ref(outlook);
    if (former == NULL || former->workload != outlook->workload || former->kind != outlook->kind ||
        former->seed != outlook->seed || former->rulebook != outlook->rulebook ||
        former->holding != outlook->holding) {
        forget_nodes(judge); /* and thereby, in policy_begin(), the requests */
        forget_kinds(judge);
    }
    outlook_unref(former);
    for (uint32_t i = 0; i < judge->losses; i++)
        judge->price[i] = loss_price(outlook, &judge->loss[i]);
    must(judge->kinds.workload == outlook->workload);
}

void policy_begin(struct judge *judge, const struct snapshot *snapshot,
                  const struct request *request)
{
    if (judge == NULL)
        return;

    must(request->wants <= CONTAINERS_MAX);
    judge->now = NULL;
    if (!outlook_needs_workload(snapshot->outlook))
        return;
    set_outlook(judge, snapshot->outlook);
    if (snapshot->slots > judge->slots)
        make_room_for(judge, snapshot->slots);
    if (judge->losses == LOSSES_MAX || judge->levels == LEVELS_MAX)
        forget_requests(judge);
    /* The charge of several wants is not the same in every place. */
    if (judge->node != NULL && request->wants <= 1)
        find_request(judge, request);
    must(judge->now == NULL || judge->now->entry != NULL);
}

/*
 * Losses
 */

/* The index of this loss, new or known; LOSSES_MAX: the table is full. There are few. */
static uint32_t index_loss(struct judge *judge, const struct loss *loss)
{
    uint32_t at = 0;

    must(judge->losses <= LOSSES_MAX);
    while (at < judge->losses && memcmp(&judge->loss[at], loss, sizeof *loss) != 0)
        at++;
    if (at == judge->losses && at < LOSSES_MAX) {
        judge->loss[at] = *loss;
        judge->price[at] = loss_price(judge->outlook, loss);
        judge->losses++;
    }
    must(at <= LOSSES_MAX);
    return at;
}

/* The same of a level; LEVELS_MAX: the table is full. */
static uint32_t index_level(struct judge *judge, const struct judged_level *level)
{
    uint32_t at = 0;

    must(judge->levels <= LEVELS_MAX);
    must(level->price <= PRICE_MAX);
    must(level->raised_milli <= GPU_MILLI);
    while (at < judge->levels &&
           (judge->level[at].price != level->price || judge->level[at].apart != level->apart ||
            judge->level[at].raised_milli != level->raised_milli))
        at++;
    if (at == judge->levels && at < LEVELS_MAX)
        judge->level[judge->levels++] = *level;
    must(at <= LEVELS_MAX);
    return at;
}

/*
 * Ranks
 */

enum { NOT_EXACT = 1 << 7 };
static_assert(LAYOUTS_MAX + 1 < NOT_EXACT, "the number of judged placements fits beside the bit");
static_assert(NODE_WORK_MAX <= UINT16_MAX, "the work of a node fits");

/* Of the present request; NULL: the node is not to be remembered. */
static struct judge_entry *entry_at_slot(const struct judge *judge, uint32_t slot)
{
    if (judge == NULL || judge->now == NULL || slot == SNAPSHOT_NO_SLOT)
        return NULL;
    must(judge->now->entry != NULL);
    must(slot < judge->slots);
    return &judge->now->entry[slot];
}

bool judge_knows(const struct judge *judge, const struct node *node, uint32_t slot)
{
    const struct judge_entry *entry = entry_at_slot(judge, slot);

    must(node != NULL);
    return entry != NULL && judge->node[slot].node == node &&
           judge->node[slot].serial == entry->serial;
}

bool judge_find(const struct policy_question *question, enum reason *out_why, struct rank *out)
{
    struct judge *judge = question->judge;

    if (!judge_knows(judge, question->node, question->slot))
        return false;
    must(question->outlook == judge->outlook);
    must(judge->node[question->slot].serial > 0); /* what is known was seen */
    const struct judge_entry *entry = &judge->now->entry[question->slot];
    const struct judged_node *seen = &judge->node[question->slot];
    judge->counts.found++;
    *out_why = (enum reason)entry->why;
    *out = (struct rank){.exact = (entry->judged & NOT_EXACT) == 0,
                         .order = seen->order,
                         .node = question->node->name};
    if (*out_why != REASON_NONE)
        return true;
    must(entry->loss[0] < LOSSES_MAX);
    must(entry->level < judge->levels);
    const struct judged_level *level = &judge->level[entry->level];
    out->apart = level->apart;
    int64_t merit = entry->base[0] - judge->price[entry->loss[0]];
    for (uint32_t i = 1; i < APPRAISALS_MAX && entry->loss[i] < LOSSES_MAX; i++) {
        const int64_t other = entry->base[i] - judge->price[entry->loss[i]];
        merit = other > merit ? other : merit;
    }
    out->price = level->price;
    out->raised_milli = level->raised_milli;
    out->charge_milli = charge_of(judge->now->request, out->raised_milli);
    out->judged = entry->judged & ~(uint32_t)NOT_EXACT;
    out->work = entry->work;
    out->key[0] = -merit;
    return true;
}

/* No serial is given twice while an entry may have it. */
static void start_serials_again(struct judge *judge, uint32_t slot)
{
    must(slot < judge->slots);
    must(judge->node[slot].serial == UINT16_MAX);
    for (uint32_t i = 0; i < judge->requests_max; i++)
        if (judge->request[i].entry != NULL)
            judge->request[i].entry[slot].serial = 0;
    judge->node[slot].serial = 0;
}

/* Another object in the slot: what was known of the former one is void. */
static uint16_t see_node(struct judge *judge, uint32_t slot, const struct node *node)
{
    struct judged_node *seen = &judge->node[slot];

    must(slot < judge->slots);
    if (seen->node != node) {
        node_unref(seen->node);
        seen->node = node_ref(node);
        if (seen->serial == UINT16_MAX)
            start_serials_again(judge, slot);
        seen->serial++;
        /* fgd and rollout have the same one. */
        seen->order = policy_node_order(judge->outlook, &policy_rollout, node->name);
    }
    must(seen->serial > 0);
    return seen->serial;
}

void judge_keep(const struct policy_question *question, const struct appraisals *appraisals)
{
    struct judge_entry *entry = entry_at_slot(question->judge, question->slot);
    struct judge *judge = question->judge;
    struct judge_entry kept;

    must(question->node != NULL);
    if (judge != NULL)
        judge->counts.made++;
    if (entry == NULL || appraisals->more)
        return;
    must(appraisals->count <= APPRAISALS_MAX);
    const struct judged_level is = {appraisals->price, appraisals->raised_milli, appraisals->apart};
    const uint32_t level = index_level(judge, &is);
    if (level == LEVELS_MAX)
        return;
    kept = (struct judge_entry){
        .serial = see_node(judge, question->slot, question->node),
        .why = (uint8_t)appraisals->why,
        .judged = (uint8_t)(appraisals->judged | (appraisals->exact ? 0U : NOT_EXACT)),
        .work = (uint16_t)work_of(appraisals->work),
        .level = (uint8_t)level,
        .loss = {LOSSES_MAX, LOSSES_MAX},
    };
    static_assert(ARRAY_LEN(kept.loss) == 2, "all are named");
    for (uint32_t i = 0; i < appraisals->count; i++) {
        const uint32_t loss = index_loss(judge, &appraisals->best[i].loss);
        if (loss == LOSSES_MAX)
            return;
        kept.base[i] = (int32_t)appraisals->best[i].base;
        kept.loss[i] = (uint8_t)loss;
        must(kept.base[i] == appraisals->best[i].base);
    }
    *entry = kept;
}

/*
 * Idle GPU
 */

/* False: too many GPUs, or of several kinds. */
static bool idle_key_of(const struct rest *rest, struct idle_key *out)
{
    must(rest->gpus <= GPUS_PER_NODE_MAX);
    if (rest->gpus > IDLE_GPUS_MAX)
        return false;
    /* What is not named is 0: keys are compared bytewise. */
    *out = (struct idle_key){.host = rest->host, .gpus = (uint16_t)rest->gpus};
    for (uint32_t i = 0; i < rest->gpus; i++) {
        uint32_t at = i;
        if (rest->kind[i] != rest->kind[0])
            return false;
        for (; at > 0 && out->free[at - 1] > rest->free[i]; at--)
            out->free[at] = out->free[at - 1];
        out->free[at] = rest->free[i];
        out->kind = rest->kind[i];
    }
    return true;
}

uint64_t judge_idle(struct judge *judge, const struct workload *workload, const struct rest *rest,
                    uint64_t *work)
{
    struct idle_key key;
    uint64_t its_work = 0;

    must(judge == NULL || judge->kinds.workload == workload);
    if (judge == NULL || !idle_key_of(rest, &key))
        return rollout_idle(workload, rest, work);
    const struct text bytes = {(const char *)&key, sizeof key};
    struct idle_entry *entry = &judge->idle[text_hash(bytes) % IDLE_ENTRIES];
    if (entry->idle > 0 && memcmp(&entry->key, &key, sizeof key) == 0) {
        judge->counts.idle_found++;
        *work += entry->work;
        return entry->idle - 1;
    }
    const uint64_t idle = rollout_idle(workload, rest, &its_work);
    must(idle <= (uint64_t)WORKLOAD_SEQUENCES * IDLE_GPUS_MAX * GPU_MILLI);
    must(its_work <= UINT32_MAX);
    *entry = (struct idle_entry){key, (uint32_t)idle + 1, (uint32_t)its_work};
    *work += its_work;
    judge->counts.idle_made++;
    return idle;
}
