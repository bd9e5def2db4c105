/*
 * Finds GPUs for a pod that was bound without a Binding of this ledger. Called by decide for ADOPT,
 * and by reconcile to check whether there is anything to count; all in the writer thread. The pod
 * runs, so its amounts are counted, in this order: by its annotation, if that is believed
 * (ledger_believe.c) and is signed by us or its GPUs have room; by the search; on the GPUs that it
 * overuses least. Only the annotation is a record, the rest is a guess (presumed), and an amount on
 * no GPU closes the node until the pod ends.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/quantity.h"

#include "ledger_internal.h"

/* Capacity of a node; larger amounts count as this, so that sums stay in range. */
enum { UNCHECKED_MAX = GPU_MILLI * GPUS_PER_NODE_MAX };

/* The shares of one observed pod, under construction. */
struct adopted_shares {
    struct share *share;
    uint32_t n_shares;
    uint32_t unplaced_milli;
    bool presumed;
};

/* An amount that is not a number counts with its least possible value. */
static int64_t unchecked_amount(const char *text)
{
    int64_t amount = 0;

    must(text != NULL);
    switch (quantity_ceil(text_of(text), 0, &amount)) {
    case QUANTITY_OK:
        return amount < 0 ? 0 : amount < UNCHECKED_MAX ? amount : UNCHECKED_MAX;
    case QUANTITY_RANGE:
        return text[0] == '-' ? 0 : UNCHECKED_MAX;
    case QUANTITY_SYNTAX:
    case QUANTITY_FRACTION:
        return 1;
    }
    must_not_reach("quantity_ceil has four verdicts");
}

/* The amount of an invalid pod that was bound anyway: 1500, say, with nodeName set. */
static uint32_t unchecked_milli(const struct pod *pod)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < pod->n_containers; i++)
        if (pod->container[i].amount != NULL)
            sum += unchecked_amount(pod->container[i].amount);
    must(sum >= 0);
    must(sum <= (int64_t)UNCHECKED_MAX * pod->n_containers);
    return sum < UNCHECKED_MAX ? (uint32_t)sum : UNCHECKED_MAX;
}

static bool ledger_adopt_asks(const struct request *request)
{
    must(request == NULL || request->n_wants <= CONTAINERS_MAX);
    return request != NULL && request->n_wants > 0;
}

bool adopt_counts(const struct pod *pod, const struct request *request)
{
    must(pod != NULL);
    return ledger_adopt_asks(request) || pod->whole_gpus > 0 ||
           (pod->ours && unchecked_milli(pod) > 0);
}

static const struct gpu *draft_gpu(const struct draft *draft, const char *id)
{
    must(id[0] != '\0');
    must(draft->n_gpus <= draft->capacity);
    return gpu_of_text(draft->gpu, draft->n_gpus, draft->build.name, text_of(id));
}

/* The n-th line of the annotation for a container; NULL: none. */
static const struct pod_share *note_line(const struct pod *pod, const char *container, uint32_t n)
{
    must(pod->annotation == NOTE_OK);
    must(n < pod->n_shares);

    for (uint32_t i = 0; i < pod->n_shares; i++)
        if (strcmp(pod->share[i].container, container) == 0 && n-- == 0)
            return &pod->share[i];
    return NULL;
}

/* Does the container hold this GPU already? Two names (id and alias) may be one GPU. */
static bool ledger_adopt_twice(const struct adopted_shares *places, const struct share *next)
{
    must(next->gpu != NULL);
    must(places->n_shares <= PARTS_MAX);

    for (uint32_t i = 0; i < places->n_shares; i++)
        if (places->share[i].gpu == next->gpu && places->share[i].order == next->order)
            return true;
    return false;
}

/* Does another part of the pod hold a GPU under this name? */
static bool holds_by(const struct adopted_shares *places, const struct atom *name)
{
    must(name != NULL);
    must(places->n_shares <= PARTS_MAX);
    for (uint32_t i = 0; i < places->n_shares; i++)
        if (places->share[i].gpu == name)
            return true;
    return false;
}

/*
 * The GPU of a UUID on a node that shows counts, by the annotation's index. The first such UUID
 * becomes the GPU's alias; any other is just a reference to the index.
 */
static const struct gpu *ledger_adopt_by_index(struct draft *draft, struct ledger *ledger,
                                               const struct pod_share *line,
                                               const struct adopted_shares *places)
{
    must(draft->n_gpus <= draft->capacity);
    must(line->gpu[0] != '\0');
    if (strchr(line->gpu, '/') != NULL)
        return NULL;
    for (uint32_t i = 0; i < draft->n_gpus; i++) {
        struct gpu *gpu = &draft->gpu[i];
        if (gpu->index != line->index || gpu_id_is_real(gpu->id, atom_text(draft->build.name)))
            continue;
        if (!gpu_has_alias(gpu) && !holds_by(places, gpu->id))
            gpu_set_alias(gpu, draft->build.name, text_of(line->gpu), ledger->names);
        return gpu;
    }
    return NULL;
}

/* One name per GPU and pod, preferably the UUID rather than the made-up id. */
static const struct atom *name_on(const struct draft *draft, const struct gpu *gpu,
                                  const struct pod_share *line, const struct adopted_shares *places)
{
    must(gpu >= draft->gpu && gpu < draft->gpu + draft->n_gpus);
    must(gpu->alias != gpu->id);
    if (holds_by(places, gpu->id))
        return gpu->id;
    if (gpu->alias == NULL || !gpu_id_is_real(gpu->alias, atom_text(draft->build.name)))
        return gpu->id;
    const bool by_alias = holds_by(places, gpu->alias) || text_is(atom_text(gpu->alias), line->gpu);
    return by_alias ? gpu->alias : gpu->id;
}

/* Is the UUID a claim of this Node: shown first by it, but not now? */
static bool ledger_adopt_owned_ids(const struct node *node, const struct atom *id)
{
    must(id->len > 0);
    for (uint32_t i = 0; node != NULL && i < node->n_owned_ids; i++)
        if (node->owned_id[i] == id)
            return true;
    return false;
}

/*
 * Adds the annotation's GPU as absent. Claims no new UUID, which would take the GPU from the node
 * that has it. NULL: no capacity.
 */
static const struct gpu *come_absent(struct draft *draft, struct ledger *ledger,
                                     const struct pod_share *line)
{
    if (draft->n_gpus >= GPUS_PER_NODE_MAX || draft->n_gpus == draft->capacity)
        return NULL;
    const struct atom *id = names_intern(ledger->names, text_of(line->gpu));
    const struct gpu gpu = {
        .id = id,
        .flags = gpu_id_is_real(id, atom_text(draft->build.name)) &&
                         !ledger_adopt_owned_ids(draft->old, id)
                     ? GPU_DUPLICATE
                     : 0,
        .model = names_intern(ledger->names, TEXT("")),
        .milli = GPU_MILLI,
        .index = line->index <= UINT16_MAX ? (uint16_t)line->index : 0,
        .numa = -1,
    };
    draft_absent(draft, &gpu);
    must(draft->n_gpus <= draft->capacity);
    must(draft->gpu[draft->n_gpus - 1].id == gpu.id);
    return &draft->gpu[draft->n_gpus - 1];
}

/* False: the line cannot be counted, so the whole annotation is ignored. */
static bool add_line(struct draft *draft, struct ledger *ledger, const struct want *want,
                     uint32_t order, const struct pod_share *line, struct adopted_shares *places)
{
    must(pod_share_asked(line) == want->milli);
    must(order <= UINT16_MAX);

    const struct gpu *gpu = draft_gpu(draft, line->gpu);
    if (gpu == NULL)
        gpu = ledger_adopt_by_index(draft, ledger, line, places);
    if (gpu == NULL)
        gpu = come_absent(draft, ledger, line);
    if (gpu == NULL)
        return false;
    const struct share share = {
        .container = want->container,
        .kind = want->kind,
        .order = (uint16_t)order,
        .gpu = name_on(draft, gpu, line, places),
        .milli = line->milli,
        .asked = want->milli,
        .mib = line->mib,
    };
    if (ledger_adopt_twice(places, &share))
        return false;
    must(places->n_shares < PARTS_MAX);
    places->share[places->n_shares++] = share;
    return true;
}

/*
 * Follows the order of the request, because share.order is the position in the pod's life; the
 * annotation may list the containers in any order.
 */
static bool copy_annotation(struct draft *draft, struct ledger *ledger,
                            const struct command *command, struct adopted_shares *places)
{
    const struct request *request = command->request;
    must(places->n_shares == 0);
    for (uint32_t w = 0; w < request->n_wants; w++) {
        const struct want *want = &request->want[w];
        for (uint32_t n = 0; n < want->parts; n++) {
            const struct pod_share *line = note_line(command->pod, want->container, n);
            must(line != NULL); /* believed: as many lines as parts */
            if (!add_line(draft, ledger, want, w, line, places))
                return false;
        }
    }
    must(places->n_shares == command->pod->n_shares);
    return true;
}

/* Room beside the present charges; an absent GPU counts with its former size. */
static bool ledger_adopt_has_room(const struct gpu *gpu, const struct charge *charge)
{
    must(charge->milli > 0);
    must(gpu->milli > 0);
    const uint32_t mib_free = gpu->mib > gpu->used_mib ? gpu->mib - gpu->used_mib : 0;
    return charge->milli <= gpu_free(gpu) && (gpu->mib == 0 || charge->mib <= mib_free);
}

/* Compares charges, not shares: containers that never run together may use the same milli. */
static bool ledger_adopt_within(const struct draft *draft, const struct allocation *allocation)
{
    must(allocation->n_charges > 0);
    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct charge charge = allocation_charge(allocation, i);
        const struct gpu *gpu = draft_gpu(draft, charge.gpu->text);
        must(gpu != NULL);
        if (!ledger_adopt_has_room(gpu, &charge))
            return false;
    }
    return true;
}

/*
 * bound_ms is the pod's own time if it shows one, so that after the loss of a ledger the pod does
 * not seem new.
 */
static struct allocation *ledger_adopt_make(const struct draft *draft,
                                            const struct command *command,
                                            const struct adopted_shares *places)
{
    const struct pod *pod = command->pod;
    struct allocation_facts facts = {
        .uid = command->uid,
        .namespace = command->namespace,
        .name = command->name,
        .node = draft->build.name,
        .node_uid = draft->build.uid,
        .state = STATE_BOUND,
        .origin = ORIGIN_ADOPTED,
        .presumed = places->presumed,
        .held_gpus = pod->whole_gpus,
        .unplaced_milli = places->unplaced_milli,
        .bound_ms = pod->scheduled_ms > 0 ? pod->scheduled_ms : command->at_ms,
        .terminating_ms = pod->terminating_ms,
        .n_shares = places->n_shares,
        .share = places->share,
    };
    must(draft->build.name != NULL);
    must(allocation_fault(&facts) == NULL);
    facts.annotation_differs = adopt_differs(draft->old, &facts, pod);
    return allocation_new(&facts);
}

static struct allocation *ledger_adopt_believe(struct ledger *ledger, struct draft *draft,
                                               const struct command *command,
                                               struct adopted_shares *places)
{
    must(places->n_shares == 0);
    must(!places->presumed);
    if (!adopt_believes(command->pod, command->request))
        return NULL;

    const uint32_t gpus = draft->n_gpus;
    /* A backup: copying the annotation may set aliases and add absent GPUs. */
    CLEANUP(xfreep) struct gpu *before = xcalloc(gpus + 1, sizeof *before);
    for (uint32_t i = 0; i < gpus; i++)
        before[i] = draft->gpu[i];
    struct allocation *allocation = NULL;
    if (copy_annotation(draft, ledger, command, places))
        allocation = ledger_adopt_make(draft, command, places);
    /* A signed grant is charged even if an unsigned pod was counted on that GPU before. */
    if (allocation != NULL &&
        (command->pod->proof == PROOF_SIGNED || ledger_adopt_within(draft, allocation)))
        return allocation;

    /*
     * No room: treated as if there were no annotation. Restores the names; GPUs were not charged.
     */
    allocation_unref(allocation);
    for (uint32_t i = 0; i < gpus; i++)
        draft->gpu[i] = before[i];
    places->n_shares = 0;
    return NULL;
}

/* Milli beyond the size of the GPU: overuse is compared, not forbidden. */
static uint32_t ledger_adopt_over(const struct gpu *gpu, uint32_t taken, uint32_t part)
{
    const uint32_t sum = taken + part;
    must(part > 0);
    must(part <= GPU_MILLI);
    return sum > gpu->milli ? sum - gpu->milli : 0;
}

/* The present GPU that this part overuses least; ties go to the emptier one. */
static const struct gpu *least_over(const struct draft *draft, const uint32_t *taken,
                                    const struct share *part, const struct adopted_shares *places)
{
    const struct gpu *best = NULL;
    must(part->gpu == NULL);
    must(part->milli > 0);
    for (uint32_t i = 0; i < draft->n_gpus; i++) {
        const struct gpu *gpu = &draft->gpu[i];
        struct share on = *part;
        on.gpu = gpu->id;
        if ((gpu->flags & GPU_ABSENT) != 0 || ledger_adopt_twice(places, &on))
            continue;
        if (best == NULL) {
            best = gpu;
            continue;
        }
        const uint32_t over_best = ledger_adopt_over(best, taken[best - draft->gpu], part->milli);
        const uint32_t over_this = ledger_adopt_over(gpu, taken[i], part->milli);
        if (over_this < over_best ||
            (over_this == over_best && taken[i] < taken[best - draft->gpu]))
            best = gpu;
    }
    return best;
}

/* Total milli of the GPUs that are present. */
static uint32_t shown_milli(const struct draft *draft)
{
    uint32_t milli = 0;
    must(draft->n_gpus <= draft->capacity);
    for (uint32_t i = 0; i < draft->n_gpus; i++)
        milli += (draft->gpu[i].flags & GPU_ABSENT) == 0 ? draft->gpu[i].milli : 0;
    must(milli <= UNCHECKED_MAX);
    return milli;
}

/*
 * Nothing fits, but the pod runs there: puts it on the GPUs that it overuses least. It takes at
 * most the capacity of the node; parts beyond the number of GPUs are placed nowhere.
 */
static void ledger_adopt_squeeze(const struct draft *draft, const struct request *request,
                                 struct adopted_shares *places)
{
    const uint32_t there = shown_milli(draft);
    uint32_t *taken = xcalloc(draft->n_gpus + 1, sizeof *taken);
    for (uint32_t i = 0; i < draft->n_gpus; i++)
        taken[i] = draft->gpu[i].used_milli + draft->gpu[i].reserved_milli;

    for (uint32_t w = 0; w < request->n_wants; w++) {
        const struct want *want = &request->want[w];
        for (uint32_t n = 0; n < want->parts; n++) {
            struct share share = {.container = want->container,
                                  .kind = want->kind,
                                  .order = (uint16_t)w,
                                  .milli = want->milli};
            const struct gpu *gpu = least_over(draft, taken, &share, places);
            if (gpu == NULL) {
                places->unplaced_milli += there == 0 ? want->milli : 0;
                continue;
            }
            share.gpu = gpu->id;
            share.mib = inventory_share_mib(gpu->mib, gpu->milli, want->milli);
            taken[gpu - draft->gpu] += want->milli;
            must(places->n_shares < PARTS_MAX);
            must((gpu->flags & GPU_ABSENT) == 0);
            places->share[places->n_shares++] = share;
        }
    }
    xfree(taken);
}

/*
 * Guesses with the search of a bind, so that the guess is where the pod might have been granted. A
 * gone or unknown node cannot be searched.
 */
static void ledger_adopt_guess(const struct ledger *ledger, const struct draft *draft,
                               const struct request *request, struct adopted_shares *places)
{
    const struct node *node = draft->old;

    must(places->n_shares == 0);
    places->presumed = true;
    if (node != NULL && !node->gone) {
        struct placement *placement = xcalloc(1, sizeof *placement);
        must(request->rules == 0); /* rules do not apply to running pods */
        if (ledger_place(ledger, node, request, placement).why == REASON_NONE) {
            must(placement->n_parts <= PARTS_MAX);
            place_shares(placement, request, node, places->share);
            places->n_shares = placement->n_parts;
        }
        xfree(placement);
    }
    if (places->n_shares == 0)
        ledger_adopt_squeeze(draft, request, places);
    must(places->n_shares > 0 || places->unplaced_milli > 0);
}

struct allocation *adopt_place(struct ledger *ledger, struct draft *draft,
                               const struct command *command)
{
    must(command->pod != NULL);
    must(strcmp(command->uid, command->pod->uid) == 0);
    must(strcmp(command->node, command->pod->node) == 0);

    if (!adopt_counts(command->pod, command->request))
        return NULL;

    struct adopted_shares places = {.share = xcalloc(PARTS_MAX, sizeof(struct share))};
    struct allocation *allocation = NULL;
    if (ledger_adopt_asks(command->request)) {
        allocation = ledger_adopt_believe(ledger, draft, command, &places);
        if (allocation == NULL)
            ledger_adopt_guess(ledger, draft, command->request, &places);
    } else if (command->pod->ours) {
        const uint32_t asked = unchecked_milli(command->pod);
        const uint32_t there = shown_milli(draft);
        places.unplaced_milli = there > 0 && there < asked ? there : asked;
        places.presumed = asked > 0;
    }
    if (allocation == NULL)
        allocation = ledger_adopt_make(draft, command, &places);
    must(allocation->facts.state == STATE_BOUND);
    must(allocation->facts.origin == ORIGIN_ADOPTED);
    xfree(places.share);
    return allocation;
}

/* Compares GPUs by either of their names. */
static bool same_gpu(const struct node *node, const struct atom *ours, const char *theirs)
{
    const struct text text = text_of(theirs);
    must(ours != NULL);
    if (text_eq(atom_text(ours), text))
        return true;
    if (node == NULL)
        return false;
    const struct gpu *a = node_gpu(node, atom_text(ours));
    return a != NULL && a == node_gpu(node, text);
}

/* Does any line of the annotation describe this share? GPUs may be named by either name. */
static bool ledger_adopt_notes(const struct node *node, const struct pod *pod,
                               const struct share *share)
{
    must(pod->annotation == NOTE_OK);
    must(share->milli > 0);

    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct pod_share *line = &pod->share[i];
        if (line->milli == share->milli && line->mib == share->mib &&
            pod_share_asked(line) == (share->asked > 0 ? share->asked : share->milli) &&
            strcmp(line->container, share->container) == 0 && same_gpu(node, share->gpu, line->gpu))
            return true;
    }
    return false;
}

bool adopt_differs(const struct node *node, const struct allocation_facts *facts,
                   const struct pod *pod)
{
    must(facts != NULL);
    must(pod != NULL);

    /* A pod adopted without an annotation is another kind of drift. */
    if (pod->annotation == NOTE_NONE)
        return facts->origin == ORIGIN_GRANTED && facts->n_shares > 0;
    if (pod->annotation == NOTE_BROKEN || pod->n_shares != facts->n_shares)
        return true;
    must(pod->annotation == NOTE_OK);
    for (uint32_t i = 0; i < facts->n_shares; i++)
        if (!ledger_adopt_notes(node, pod, &facts->share[i]))
            return true;
    return false;
}
