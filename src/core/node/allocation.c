/*
 * Creates and checks allocations, and computes charges from shares. Called by the ledger, by nodes
 * and by the store, in any thread. An allocation is one immutable, reference-counted block.
 * allocation_new() trusts its input, so callers check outside facts with allocation_fault() first.
 * Parts: charges, faults, the block, counting, comparing, checking.
 */
#include "milligpu/core/node/allocation.h"

#include <string.h>

#include "milligpu/base/alloc.h"

/* The amounts of one pod on one GPU over the pod's life. */
struct life {
    uint32_t sidecars; /* sum of the sidecars started so far, which keep running */
    uint32_t apps;
    uint32_t peak; /* peak so far of the sequential init containers */
};

/* Saturates, because adopted amounts may be absurdly large. */
static uint32_t allocation_sum(uint32_t a, uint32_t b)
{
    uint32_t all;
    return __builtin_add_overflow(a, b, &all) ? UINT32_MAX : all;
}

/*
 * The kubelet runs init containers one by one, beside the sidecars before them, and starts the apps
 * after the last: so an init container adds to the sidecars so far, never to the apps.
 */
static void life_start(struct life *life, enum container_kind kind, uint32_t amount)
{
    uint32_t now;

    switch (kind) {
    case CONTAINER_SIDECAR:
        life->sidecars = allocation_sum(life->sidecars, amount);
        return;
    case CONTAINER_INIT:
        now = allocation_sum(life->sidecars, amount);
        life->peak = now > life->peak ? now : life->peak;
        return;
    case CONTAINER_APP:
        life->apps = allocation_sum(life->apps, amount);
        return;
    }
    must_not_reach("a container is of one of three kinds");
}

static uint32_t life_peak(const struct life *life)
{
    const uint32_t running = allocation_sum(life->sidecars, life->apps);

    must(running >= life->sidecars && running >= life->apps);
    return running > life->peak ? running : life->peak;
}

/* The peak on one GPU, by the formula of request_peak(). Shares must be in order of start. */
static struct charge charge_of(const struct allocation_facts *facts, const struct atom *gpu)
{
    struct life milli = {0};
    struct life mib = {0};

    must(gpu != NULL);
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const struct share *share = &facts->share[i];
        if (share->gpu != gpu)
            continue;
        life_start(&milli, share->kind, share->milli);
        life_start(&mib, share->kind, share->mib);
    }
    must(life_peak(&milli) > 0);
    return (struct charge){gpu, life_peak(&milli), life_peak(&mib)};
}

/* Is this the first share on its GPU? */
static bool opens_gpu(const struct allocation_facts *facts, uint32_t at)
{
    must(at < facts->n_shares);
    for (uint32_t i = 0; i < at; i++)
        if (facts->share[i].gpu == facts->share[at].gpu)
            return false;
    return true;
}

/* Computes one charge per GPU, in order of first appearance in the shares. */
static uint32_t allocation_charges(const struct allocation_facts *facts, struct charge *charge)
{
    uint32_t charges = 0;

    for (uint32_t i = 0; i < facts->n_shares; i++)
        if (opens_gpu(facts, i))
            charge[charges++] = charge_of(facts, facts->share[i].gpu);
    must(charges <= facts->n_shares);
    must((charges == 0) == (facts->n_shares == 0));
    return charges;
}

/* Stable insertion sort: shares are nearly always sorted already. */
static void sort_by_life(struct share *share, uint32_t shares)
{
    for (uint32_t i = 1; i < shares; i++) {
        const struct share moving = share[i];
        uint32_t at = i;
        for (; at > 0 && share[at - 1].order > moving.order; at--)
            share[at] = share[at - 1];
        share[at] = moving;
        must(at == i || share[at].order < share[at + 1].order);
    }
}

/* Compares GPUs (atoms) by address; container names are not interned. */
static bool same_piece(const struct share *a, const struct share *b)
{
    must(a->container != NULL);
    must(b->container != NULL);
    return a->gpu == b->gpu && strcmp(a->container, b->container) == 0;
}

/* Compares the share with all earlier shares, at most PARTS_MAX. */
static const char *share_fault(const struct allocation_facts *facts, uint32_t at)
{
    must(at < facts->n_shares);
    const struct share *share = &facts->share[at];

    if (share->container == NULL || share->container[0] == '\0')
        return "a share without a container";
    if (share->gpu == NULL)
        return "a share of no GPU";
    if (share->milli == 0)
        return "a share of 0 milli";
    if (share->asked > share->milli)
        return "a share of less than was asked for";
    for (uint32_t i = 0; i < at; i++)
        if (same_piece(&facts->share[i], share))
            return "two shares of one container on one GPU";
    return NULL;
}

const char *allocation_fault(const struct allocation_facts *facts)
{
    if (facts->uid == NULL || facts->uid[0] == '\0')
        return "an allocation without a pod's uid";
    if (facts->namespace == NULL || facts->name == NULL)
        return "an allocation without a pod's name";
    if (facts->node == NULL)
        return "an allocation on no node";
    if (facts->n_shares > PARTS_MAX)
        return "more shares than one pod may hold";
    must(facts->n_shares == 0 || facts->share != NULL);
    if (facts->origin == ORIGIN_GRANTED && facts->n_shares == 0 && facts->held_gpus == 0)
        return "a grant without a share";
    if (facts->origin == ORIGIN_GRANTED && facts->unplaced_milli > 0)
        return "a grant whose GPU is not known";
    if (facts->version > VERSION_MAX)
        return "a version beyond 63 bits";
    if (facts->origin == ORIGIN_ADOPTED && facts->version > 0)
        return "a version of a Binding that we never sent";
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const char *fault = share_fault(facts, i);
        if (fault != NULL)
            return fault;
    }
    return NULL;
}

static size_t text_bytes(const struct allocation_facts *facts)
{
    size_t bytes = strlen(facts->uid) + strlen(facts->namespace) + strlen(facts->name) + 3;
    for (uint32_t i = 0; i < facts->n_shares; i++)
        bytes += strlen(facts->share[i].container) + 1;
    must(bytes >= 4); /* a uid is never empty */
    return bytes;
}

/* Copies a string to the end of the block. */
static const char *lay_down(char **at, const char *text)
{
    must(text != NULL);
    const size_t bytes = strlen(text) + 1;
    char *here = memcpy(*at, text, bytes);

    *at += bytes;
    return here;
}

/* The number of charges. */
static uint32_t allocation_gpus(const struct allocation_facts *facts)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < facts->n_shares; i++)
        gpus += opens_gpu(facts, i);
    must(gpus <= facts->n_shares);
    return gpus;
}

/* Block layout: the allocation, its shares, the charges that are no shares, the strings. */
struct allocation *allocation_new(const struct allocation_facts *facts)
{
    must(facts->uid != NULL && facts->node != NULL);
    must(facts->n_shares <= PARTS_MAX);
    must_debug(allocation_fault(facts) == NULL);

    const uint32_t gpus = allocation_gpus(facts);
    const uint32_t kept = gpus < facts->n_shares ? gpus : 0; /* charges */
    const size_t share_bytes = facts->n_shares * sizeof(struct share);
    const size_t charge_bytes = kept * sizeof(struct charge);
    const size_t bytes = sizeof(struct allocation) + share_bytes + charge_bytes + text_bytes(facts);
    struct allocation *made = xmalloc(bytes);
    struct share *share = (struct share *)(made + 1);
    struct charge *charge = (struct charge *)(share + facts->n_shares);
    char *text = (char *)(charge + kept);

    made->facts = *facts;
    (void)atom_ref(facts->node);
    (void)atom_ref(facts->node_uid);
    made->facts.uid = lay_down(&text, facts->uid);
    made->facts.namespace = lay_down(&text, facts->namespace);
    made->facts.name = lay_down(&text, facts->name);
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        share[i] = facts->share[i];
        (void)atom_ref(share[i].gpu); /* covers the GPUs of charges */
        share[i].container = lay_down(&text, facts->share[i].container);
        share[i].asked = share[i].asked > 0 ? share[i].asked : share[i].milli;
    }
    must(text == (char *)made + bytes);
    /* Before the charges: charge_of() needs shares in order of start. */
    sort_by_life(share, facts->n_shares);
    made->facts.share = share;
    made->n_charges = gpus;
    if (kept > 0)
        must(allocation_charges(&made->facts, charge) == kept);
    atomic_init(&made->refs, 1);
    return made;
}

/* Only the reference count is mutable. */
static atomic_uint *allocation_refs_of(const struct allocation *allocation)
{
    must(allocation != NULL);
    return (atomic_uint *)(uintptr_t)&allocation->refs;
}

const struct allocation *allocation_ref(const struct allocation *allocation)
{
    const unsigned before =
        atomic_fetch_add_explicit(allocation_refs_of(allocation), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return allocation;
}

void allocation_unref(const struct allocation *allocation)
{
    if (allocation == NULL)
        return;
    const unsigned before =
        atomic_fetch_sub_explicit(allocation_refs_of(allocation), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    atom_unref(allocation->facts.node);
    atom_unref(allocation->facts.node_uid);
    for (uint32_t i = 0; i < allocation->facts.n_shares; i++)
        atom_unref(allocation->facts.share[i].gpu);
    xfree((void *)(uintptr_t)allocation);
}

uint32_t allocation_milli(const struct allocation *allocation)
{
    uint32_t milli = 0;
    for (uint32_t i = 0; i < allocation->n_charges; i++)
        milli = allocation_sum(milli, allocation_charge(allocation, i).milli);
    must(allocation->n_charges == 0 || milli > 0);
    return milli;
}

static bool has_share(const struct allocation_facts *facts, const struct share *wanted)
{
    must(wanted->gpu != NULL);
    must(wanted->milli > 0);
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const struct share *share = &facts->share[i];
        if (same_piece(share, wanted))
            return share->kind == wanted->kind && share->order == wanted->order &&
                   share->milli == wanted->milli && share->asked == wanted->asked &&
                   share->mib == wanted->mib;
    }
    return false;
}

bool allocation_same_shares(const struct allocation *a, const struct allocation *b)
{
    must(a->facts.node != NULL);
    must(b->facts.node != NULL);
    if (a->facts.node != b->facts.node || a->facts.n_shares != b->facts.n_shares)
        return false;
    /* Shares are distinct, so with equal counts the sets are equal if every share is found. */
    for (uint32_t i = 0; i < a->facts.n_shares; i++)
        if (!has_share(&b->facts, &a->facts.share[i]))
            return false;
    must(a->n_charges == b->n_charges);
    return true;
}

static bool in_order(const struct allocation_facts *facts)
{
    must(facts->n_shares <= PARTS_MAX);
    must(facts->n_shares == 0 || facts->share != NULL);
    for (uint32_t i = 1; i < facts->n_shares; i++)
        if (facts->share[i - 1].order > facts->share[i].order)
            return false;
    return true;
}

/* Compares the stored charges, which nodes add up, with recomputed ones. */
static bool charges_fit(const struct allocation *allocation)
{
    struct charge charge[PARTS_MAX];

    must(allocation->facts.n_shares <= PARTS_MAX);
    must(allocation->n_charges <= PARTS_MAX);
    if (allocation_charges(&allocation->facts, charge) != allocation->n_charges)
        return false;
    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct charge is = allocation_charge(allocation, i);
        if (is.gpu != charge[i].gpu || is.milli != charge[i].milli || is.mib != charge[i].mib)
            return false;
    }
    return true;
}

const char *allocation_unsound(const struct allocation *allocation)
{
    must(allocation != NULL);
    must(atomic_load_explicit(allocation_refs_of(allocation), memory_order_relaxed) > 0);
    const char *fault = allocation_fault(&allocation->facts);
    if (fault != NULL)
        return fault;
    if (!in_order(&allocation->facts))
        return "its shares are not in the order of their lives";
    return charges_fit(allocation) ? NULL : "its charges are not what its shares come to";
}

const char *allocation_state_name(enum allocation_state state)
{
    switch (state) {
    case STATE_RESERVED:
        return "reserved";
    case STATE_BOUND:
        return "bound";
    case STATE_RELEASED:
        return "released";
    }
    must_not_reach("an allocation is in one of three states");
}

const char *allocation_origin_name(enum allocation_origin origin)
{
    switch (origin) {
    case ORIGIN_GRANTED:
        return "granted";
    case ORIGIN_ADOPTED:
        return "observed";
    }
    must_not_reach("an allocation is granted or observed");
}

const char *container_kind_name(enum container_kind kind)
{
    switch (kind) {
    case CONTAINER_APP:
        return "app";
    case CONTAINER_INIT:
        return "init";
    case CONTAINER_SIDECAR:
        return "sidecar";
    }
    must_not_reach("a container is of one of three kinds");
}
