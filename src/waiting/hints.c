/*
 * The waiting pods and their recent shortlists. Called by webhooks.c on the HTTP threads, by the
 * writer (wake-ups, resolved pods) and by REST. One lock guards everything but the cached answers
 * (hints_answers.c) and is not held while searching. Tables are bounded in entries and bytes
 * (docs/why/014); after an overflow any freed capacity wakes kube-scheduler. In order: states, the
 * table, offers, refusals, wake-ups, the life of entries, REST.
 */
#include "milligpu/waiting/hints.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/waiting/request_classes.h"

#include "hints_internal.h"

enum waiting_pod_state {
    WAITING_POD_IDLE,    /* does not wait: a bind is in progress, or it holds a reservation */
    WAITING_POD_REFUSED, /* waits for capacity */
    WAITING_POD_OFFERED, /* was offered a list less than SHORTLIST_LATE_MS ago */
    WAITING_POD_LATE,    /* no bind followed: another plugin refused the list */
};

/* Guarded by the lock, like the table. */
struct waiting_pod {
    enum waiting_pod_state state;
    /* The names are in the same memory block. */
    const char *uid;
    const char *namespace;
    const char *name;
    uint32_t bytes; /* size of the entry with the longest text */
    uint16_t slot;
    struct request_class *request_class; /* a reference; NULL: unclassed, or request refused */
    bool unclassed;                      /* the table of requests had no room */
    /* The last refusal. */
    struct {
        char *text; /* owned; NULL: none */
        enum reason reason;
    } refusal;
    /* The filter calls. */
    struct {
        int64_t since_ms; /* UTC time of the first */
        int64_t last_ms;  /* UTC time of the last */
        uint64_t n_asks;
        int64_t asked_ms; /* monotonic time of the last */
    } asked;
    /* The last list. */
    struct {
        uint32_t listed;  /* number of listed nodes */
        uint32_t fitting; /* number of fitting nodes */
        uint32_t growth;  /* factor by which the shortlist was longer */
        uint32_t covered; /* sum of nodes over all complete lists of samples */
        /* more nodes may fit: wake kube-scheduler when the offer becomes late */
        bool due;
        uint64_t capacity_generation;
    } list;
    /* The offer of the best place of the last list. */
    struct {
        bool stands;             /* is in the list of offers by age */
        int64_t at_ms;           /* monotonic */
        const struct atom *node; /* a reference; NULL: not known */
        uint64_t first;          /* number of its first entry in struct offers */
        uint32_t count;          /* number of its entries there, one for each GPU */
        struct waiting_pod *older;
        struct waiting_pod *newer;
    } offer;
};

struct hints *hints_new(void)
{
    struct hints *hints = xcalloc(1, sizeof *hints);

    answers_init(&hints->answers);
    hints->schedulers = schedulers_new();
    mutex_init(&hints->lock);
    map_init(&hints->waiting_pods);
    map_init(&hints->resolved.by_uid);
    return hints;
}

void hints_look_with(struct hints *hints, void *user, hints_look *look)
{
    must(hints->waiting_pods.count == 0 || look == NULL);
    hints->look_user = user;
    hints->look = look;
}

struct schedulers *hints_schedulers(const struct hints *hints)
{
    must(hints->schedulers != NULL);
    return hints->schedulers;
}

/* --- states --- */

static bool hints_waits(const struct waiting_pod *pod)
{
    return pod->state == WAITING_POD_REFUSED || pod->state == WAITING_POD_LATE;
}

/* Maintains the counts of waiting pods, so that the writer reads them without a walk. */
static void count_waiting(struct hints *hints, const struct waiting_pod *pod, bool more)
{
    must(more || hints->waiting > 0);
    hints->waiting = more ? hints->waiting + 1 : hints->waiting - 1;
    if (pod->unclassed)
        hints->unclassed = more ? hints->unclassed + 1 : hints->unclassed - 1;
    if (pod->request_class == NULL)
        return;
    if (more)
        request_classes_wait(&hints->request_classes, pod->request_class);
    else
        request_classes_unwait(&hints->request_classes, pod->request_class);
}

/* The only function that changes a state; it updates the counts. */
static void hints_become(struct hints *hints, struct waiting_pod *pod, enum waiting_pod_state state)
{
    if (hints_waits(pod))
        count_waiting(hints, pod, false);
    pod->state = state;
    if (hints_waits(pod))
        count_waiting(hints, pod, true);
    must(hints->waiting <= hints->waiting_pods.count);
}

/*
 * Removes a pod from the list of offers by age, with its entries in struct offers. Advances fresh,
 * so that hints_late() never reads a freed entry.
 */
static void stand_down(struct hints *hints, struct waiting_pod *pod)
{
    if (!pod->offer.stands)
        return;
    offers_drop(&hints->offers, pod->offer.first, pod->offer.count);
    pod->offer.count = 0;
    must(hints->oldest != NULL && hints->newest != NULL);
    if (hints->fresh == pod)
        hints->fresh = pod->offer.newer;
    *(pod->offer.older != NULL ? &pod->offer.older->offer.newer : &hints->oldest) =
        pod->offer.newer;
    *(pod->offer.newer != NULL ? &pod->offer.newer->offer.older : &hints->newest) =
        pod->offer.older;
    pod->offer.older = pod->offer.newer = NULL;
    pod->offer.stands = false;
}

static void hints_stand(struct hints *hints, struct waiting_pod *pod) REQUIRES(hints->lock)
{
    must(!pod->offer.stands && pod->offer.older == NULL && pod->offer.newer == NULL);
    pod->offer.older = hints->newest;
    *(hints->newest != NULL ? &hints->newest->offer.newer : &hints->oldest) = pod;
    hints->newest = pod;
    if (hints->fresh == NULL)
        hints->fresh = pod;
    pod->offer.stands = true;
}

/* --- the table --- */

static size_t hints_strings_of(const struct asking_pod *asking_pod)
{
    must(asking_pod->uid[0] != '\0');
    return strlen(asking_pod->uid) + strlen(asking_pod->namespace) + strlen(asking_pod->name) + 3;
}

/* With the longest text and the allocator's overhead for two blocks. */
static size_t hints_bytes_of(const struct asking_pod *asking_pod)
{
    enum { BLOCK_BYTES = 16 };
    const size_t fixed = sizeof(struct waiting_pod) + REASON_BYTES_MAX + 2 * (size_t)BLOCK_BYTES;

    return fixed + hints_strings_of(asking_pod);
}

/*
 * One block for the entry and its names; the text of a refusal is a second one. bytes includes the
 * longest text, so that a new text never exceeds the limit.
 */
static struct waiting_pod *waiting_pod_new(const struct asking_pod *asking_pod)
{
    must(hints_bytes_of(asking_pod) <= WAITING_PODS_BYTES_MAX);
    struct waiting_pod *pod = xmalloc(sizeof *pod + hints_strings_of(asking_pod));
    char *text = (char *)(pod + 1);

    *pod = (struct waiting_pod){.list.growth = 1,
                                .asked.since_ms = asking_pod->wall_ms,
                                .bytes = (uint32_t)hints_bytes_of(asking_pod)};
    pod->uid = text_lay(&text, asking_pod->uid);
    pod->namespace = text_lay(&text, asking_pod->namespace);
    pod->name = text_lay(&text, asking_pod->name);
    return pod;
}

/* Also updates counts, offers, request class, slot and bytes. */
static void waiting_pod_free(struct hints *hints, struct waiting_pod *pod)
{
    hints_become(hints, pod, WAITING_POD_IDLE);
    stand_down(hints, pod);
    if (pod->request_class != NULL)
        request_classes_let_go(&hints->request_classes, pod->request_class);
    must(hints->slot[pod->slot] == pod && hints->bytes >= pod->bytes);
    hints->slot[pod->slot] = NULL;
    hints->spare[hints->n_spare++] = pod->slot;
    hints->bytes -= pod->bytes;
    atom_unref(pod->offer.node);
    xfree(pod->refusal.text);
    xfree(pod);
}

/* Call hints_make_room() first. */
static void hints_enter(struct hints *hints, struct waiting_pod *pod) REQUIRES(hints->lock)
{
    must(hints->n_spare > 0 || hints->slots < WAITING_MAX);
    pod->slot = hints->n_spare > 0 ? hints->spare[--hints->n_spare] : (uint16_t)hints->slots++;
    must(hints->slot[pod->slot] == NULL);
    hints->slot[pod->slot] = pod;
    hints->bytes += pod->bytes;
    must(hints->bytes <= WAITING_PODS_BYTES_MAX);
    (void)map_put(&hints->waiting_pods, text_of(pod->uid), pod);
}

static void hints_drop(struct hints *hints, struct waiting_pod *pod) REQUIRES(hints->lock)
{
    must(map_find(&hints->waiting_pods, text_of(pod->uid)) == pod);
    hints_become(hints, pod, WAITING_POD_IDLE);
    (void)map_take(&hints->waiting_pods, text_of(pod->uid));
    waiting_pod_free(hints, pod);
}

static void forget_resolved(struct resolved *resolved, size_t at)
{
    must(at < RESOLVED_MAX);
    if (resolved->uid[at] == NULL)
        return;
    must(map_take(&resolved->by_uid, text_of(resolved->uid[at])) != NULL);
    xfree(resolved->uid[at]);
    resolved->uid[at] = NULL;
}

void hints_free(struct hints *hints)
{
    struct waiting_pod *pod;

    if (hints == NULL)
        return;
    for (size_t at = 0; (pod = map_next(&hints->waiting_pods, &at)) != NULL;)
        waiting_pod_free(hints, pod);
    must(hints->waiting == 0 && hints->request_classes.waited == NULL);
    must(hints->bytes == 0 && hints->request_classes.bytes == 0);
    for (size_t i = 0; i < RESOLVED_MAX; i++)
        forget_resolved(&hints->resolved, i);
    answers_done(&hints->answers);
    schedulers_free(hints->schedulers);
    map_done(&hints->waiting_pods);
    map_done(&hints->resolved.by_uid);
    mutex_done(&hints->lock);
    xfree(hints);
}

/*
 * A waiting pod is missing in the table: until kube-scheduler asks about it again, any freed
 * capacity may fit it.
 */
static void hints_note_overflow(struct hints *hints, int64_t now_ms) REQUIRES(hints->lock)
{
    must(now_ms >= 0);
    hints->overflowed = true;
    hints->overflow_ms = now_ms;
}

/*
 * Evicts offers, the oldest first, never refused pods, because only our wake-up ends their wait. An
 * offer that is evicted before it is late counts as late (late_went).
 */
static bool hints_make_room(struct hints *hints, size_t bytes, int64_t now_ms) REQUIRES(hints->lock)
{
    struct waiting_pod *oldest;

    while (hints->waiting_pods.count == WAITING_MAX ||
           bytes > WAITING_PODS_BYTES_MAX - hints->bytes) {
        oldest = hints->oldest;
        if (oldest == NULL)
            return false; /* all entries are refused pods */
        if (oldest->state != WAITING_POD_IDLE)
            hints_note_overflow(hints, now_ms);
        hints->late_went = hints->late_went || oldest->state == WAITING_POD_OFFERED;
        hints_drop(hints, oldest);
    }
    must(hints->waiting_pods.count < WAITING_MAX);
    return true;
}

static bool hints_is_bound(const struct hints *hints, struct text uid) REQUIRES(hints->lock)
{
    must(uid.len > 0);
    return hints->look != NULL && hints->look(hints->look_user, uid) == HINTS_POD_BOUND;
}

/* Finds or adds the pod. NULL: bound or deleted, possibly meanwhile, or the table is full. */
static struct waiting_pod *waiting_pod_of(struct hints *hints, const struct asking_pod *asking_pod)
    REQUIRES(hints->lock)
{
    const struct text uid = text_of(asking_pod->uid);

    must(uid.len > 0);
    /* A filter call may begin before the bind and end after it: do not add the pod again. */
    if (map_find(&hints->resolved.by_uid, uid) != NULL)
        return NULL;
    struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    if (pod == NULL && hints_is_bound(hints, uid))
        return NULL;
    if (pod == NULL && !hints_make_room(hints, hints_bytes_of(asking_pod), asking_pod->now_ms)) {
        hints_note_overflow(hints, asking_pod->now_ms);
        return NULL;
    }
    if (pod == NULL) {
        pod = waiting_pod_new(asking_pod);
        hints_enter(hints, pod);
    }
    return pod;
}

/* Without container names and host: the class is used to check the fit, not to bind or rank. */
static struct request_class *hold_request_class(struct hints *hints, const struct request *request)
    REQUIRES(hints->lock)
{
    struct want want[CONTAINERS_MAX];
    struct request nameless = *request;

    must(request->wants <= CONTAINERS_MAX);
    nameless.host = (struct host){0};
    nameless.want = want;
    for (uint32_t i = 0; i < request->wants; i++) {
        want[i] = request->want[i];
        want[i].container = "";
    }
    return request_classes_hold(&hints->request_classes, &nameless);
}

/* Notes a filter call, which ends the previous wait or offer. */
static void note_ask(struct hints *hints, struct waiting_pod *pod,
                     const struct asking_pod *asking_pod) REQUIRES(hints->lock)
{
    must(asking_pod->now_ms >= 0);

    /* Before the old reference is released: usually the class is the same. */
    struct request_class *request_class =
        asking_pod->request != NULL ? hold_request_class(hints, asking_pod->request) : NULL;

    hints_become(hints, pod, WAITING_POD_IDLE);
    stand_down(hints, pod);
    if (pod->request_class != NULL)
        request_classes_let_go(&hints->request_classes, pod->request_class);
    pod->request_class = request_class;
    pod->unclassed = request_class == NULL && asking_pod->request != NULL;
    pod->asked.last_ms = asking_pod->wall_ms;
    pod->asked.asked_ms = asking_pod->now_ms;
    if (!asking_pod->again || pod->asked.n_asks == 0)
        pod->asked.n_asks++;
}

/* --- offers --- */

/* Factor by which the next list may be longer than the shortlist. */
static uint32_t next_growth(const struct waiting_pod *pod)
{
    must(pod->list.growth > 0);
    const bool refused_by_others =
        pod->list.listed < pod->list.fitting && pod->state != WAITING_POD_IDLE;

    return refused_by_others && pod->list.growth < NODES_MAX ? pod->list.growth * SHORTLIST_GROWTH
                                                             : pod->list.growth;
}

uint32_t hints_shortlist(struct hints *hints, struct text uid, uint32_t shortlist)
{
    if (shortlist == 0)
        return 0;
    mutex_lock(&hints->lock);
    const struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    /* No limit (0) if the pod cannot be stored: a list that is too short would go unnoticed. */
    const uint64_t growth = pod != NULL                               ? next_growth(pod)
                            : hints->waiting_pods.count < WAITING_MAX ? 1
                                                                      : 0;
    mutex_unlock(&hints->lock);
    const uint64_t longer = shortlist * growth;
    must(growth == 0 || longer >= shortlist);
    return longer < NODES_MAX ? (uint32_t)longer : NODES_MAX;
}

uint32_t hints_offers(struct hints *hints, struct text uid, int64_t now_ms,
                      struct offer offer[OFFERS_MAX])
{
    must(uid.at != NULL || uid.len == 0);

    mutex_lock(&hints->lock);
    const struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    const uint32_t count = offers_copy(&hints->offers, pod, now_ms, offer);
    mutex_unlock(&hints->lock);
    return count;
}

/* The best place of a list. */
struct best_place {
    const struct node *node;           /* borrowed; NULL: not known */
    uint32_t milli[GPUS_PER_NODE_MAX]; /* sum of the parts on each GPU */
};

/* Runs before the lock is taken: best belongs to the caller's arena and snapshot. */
static void hints_place_of(const struct candidate *best, const struct request *request,
                           struct best_place *out)
{
    *out = (struct best_place){.node = best != NULL ? best->node : NULL};
    if (best == NULL)
        return;
    const struct placement *placement = best->placement;
    must(placement != NULL && placement->parts > 0);
    must(request->wants > 0);
    for (uint32_t i = 0; i < placement->parts; i++) {
        const struct part *part = &placement->part[i];
        must(part->gpu < best->node->gpus);
        out->milli[part->gpu] += placement_milli(placement, &request->want[part->want]);
    }
}

/* Adds one offer for each GPU, with consecutive numbers, so that offers_drop() removes all. */
static void note_place(struct hints *hints, struct waiting_pod *pod, const struct best_place *place)
    REQUIRES(hints->lock)
{
    must(!pod->offer.stands && pod->offer.count == 0);

    pod->offer.first = hints->offers.next;
    atom_unref(pod->offer.node);
    pod->offer.node = place->node != NULL ? atom_ref(place->node->name) : NULL;
    const uint32_t gpus = place->node != NULL ? place->node->gpus : 0;
    for (uint32_t i = 0; i < gpus && i < GPUS_PER_NODE_MAX; i++) { /* further GPUs are absent */
        if (place->milli[i] == 0)
            continue;
        const struct offer offer = {
            .node = pod->offer.node, .gpu = place->node->gpu[i].id, .milli = place->milli[i]};
        offers_add(&hints->offers, pod, pod->offer.at_ms, offer);
        pod->offer.count++;
    }
}

/* May more nodes fit than were listed? Then a further filter call can lead to other nodes. */
static bool is_short(struct waiting_pod *pod, const struct shortlist *offered)
{
    if (offered->listed < offered->fitting)
        return true;
    const uint32_t enough = SAMPLES_COVER * offered->nodes;
    if (offered->names < SAMPLE_MIN || offered->names >= offered->nodes ||
        pod->list.covered >= enough)
        return false;
    pod->list.covered += offered->names;
    must(pod->list.covered >= offered->names);
    return pod->list.covered < enough;
}

/* Notes the facts for the next list and for a late offer; growth is the factor of this list. */
static void note_list(struct waiting_pod *pod, uint32_t growth, const struct shortlist *offered)
{
    must(offered->listed > 0 && offered->listed <= offered->fitting);
    must(offered->fitting <= offered->names);

    pod->list.capacity_generation = offered->capacity_generation;
    if (offered->names == 1 && pod->list.listed < pod->list.fitting)
        return; /* preemption: the last list stays the one that was too short and is late */
    pod->list.due = is_short(pod, offered);
    pod->list.growth = growth;
    pod->list.listed = offered->listed;
    pod->list.fitting = offered->fitting;
}

void hints_shortlisted(struct hints *hints, const struct asking_pod *asking_pod,
                       const struct shortlist *offered)
{
    must(asking_pod->request != NULL);

    struct best_place place;

    hints_place_of(offered->best, asking_pod->request, &place);
    mutex_lock(&hints->lock);
    struct waiting_pod *pod = waiting_pod_of(hints, asking_pod);
    if (pod != NULL) {
        const uint32_t growth = next_growth(pod);
        note_ask(hints, pod, asking_pod);
        note_list(pod, growth, offered);
        pod->offer.at_ms = asking_pod->now_ms;
        note_place(hints, pod, &place);
        hints_stand(hints, pod);
        hints_become(hints, pod, WAITING_POD_OFFERED);
    }
    mutex_unlock(&hints->lock);
}

bool hints_late(struct hints *hints, int64_t now_ms, uint64_t capacity_generation,
                const struct atom **out_node)
{
    struct waiting_pod *pod;

    *out_node = NULL;
    mutex_lock(&hints->lock);
    bool wake = hints->late_went;
    hints->late_went = false;
    /* Each offer becomes late once: begins at the first one that was not late before. */
    for (pod = hints->fresh; pod != NULL && now_ms - pod->offer.at_ms >= SHORTLIST_LATE_MS;
         pod = pod->offer.newer) {
        must(pod->offer.stands);
        if (pod->state != WAITING_POD_OFFERED)
            continue;
        hints_become(hints, pod, WAITING_POD_LATE);
        if (!pod->list.due && pod->list.capacity_generation == capacity_generation)
            continue;
        wake = true;
        if (pod->offer.node == NULL)
            continue;
        atom_unref(*out_node);
        *out_node = atom_ref(pod->offer.node);
    }
    hints->fresh = pod;
    mutex_unlock(&hints->lock);
    return wake;
}

int64_t hints_late_in_ms(struct hints *hints, int64_t now_ms)
{
    int64_t wait = INT64_MAX;

    must(now_ms >= 0);
    mutex_lock(&hints->lock);
    if (hints->fresh != NULL) {
        const int64_t left = hints->fresh->offer.at_ms + SHORTLIST_LATE_MS - now_ms;
        wait = left > 0 ? left : 0;
    }
    if (hints->late_went)
        wait = 0;
    mutex_unlock(&hints->lock);
    must(wait >= 0);
    return wait;
}

/* --- refusals --- */

/* Allocates nothing if the text is the same as before, as in most refusals. */
static void note_refusal(struct waiting_pod *pod, enum reason reason, const char *text)
{
    char clipped[REASON_BYTES_MAX];

    must(reason != REASON_NONE);
    pod->refusal.reason = reason;
    text_clip(text_of(text), clipped, sizeof clipped);
    if (pod->refusal.text != NULL && strcmp(pod->refusal.text, clipped) == 0)
        return;
    xfree(pod->refusal.text);
    pod->refusal.text = xstrdup(clipped);
}

void hints_refused(struct hints *hints, const struct asking_pod *asking_pod, enum reason reason,
                   const char *text)
{
    must(text != NULL);

    mutex_lock(&hints->lock);
    struct waiting_pod *pod = waiting_pod_of(hints, asking_pod);
    if (pod != NULL) {
        note_ask(hints, pod, asking_pod);
        note_refusal(pod, reason, text);
        hints_become(hints, pod, WAITING_POD_REFUSED);
    }
    mutex_unlock(&hints->lock);
}

void hints_binding(struct hints *hints, struct text uid)
{
    mutex_lock(&hints->lock);
    struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    /* A pod that was refused after the list of this bind still waits. */
    if (pod != NULL && pod->state != WAITING_POD_REFUSED)
        hints_become(hints, pod, WAITING_POD_IDLE);
    mutex_unlock(&hints->lock);
}

void hints_fits(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&hints->lock);
    struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    if (pod != NULL)
        hints_become(hints, pod, WAITING_POD_IDLE);
    mutex_unlock(&hints->lock);
}

/*
 * A ring buffer. A filter call lasts for milliseconds, so its size of RESOLVED_MAX pods is enough.
 */
static void remember_resolved(struct resolved *resolved, struct text uid)
{
    if (map_find(&resolved->by_uid, uid) != NULL)
        return;

    const size_t at = resolved->next++ % RESOLVED_MAX;
    forget_resolved(resolved, at);
    resolved->uid[at] = xmalloc(uid.len + 1);
    memcpy(resolved->uid[at], uid.at, uid.len);
    resolved->uid[at][uid.len] = '\0';
    (void)map_put(&resolved->by_uid, text_of(resolved->uid[at]), resolved->uid[at]);
    must(resolved->by_uid.count <= RESOLVED_MAX);
}

void hints_resolved(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&hints->lock);
    struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    if (pod != NULL)
        hints_drop(hints, pod);
    remember_resolved(&hints->resolved, uid);
    mutex_unlock(&hints->lock);
}

/* --- which pods are woken --- */

size_t hints_waiting(struct hints *hints)
{
    mutex_lock(&hints->lock);
    const size_t count = hints->waiting;
    mutex_unlock(&hints->lock);
    return count;
}

/* An overflow lasts for UNHEARD_MAX_MS: by then kube-scheduler has retried each pod. */
static bool hints_overflows(const struct hints *hints, int64_t now_ms) REQUIRES(hints->lock)
{
    return hints->unclassed > 0 ||
           (hints->overflowed && now_ms - hints->overflow_ms < UNHEARD_MAX_MS);
}

bool hints_overflow(struct hints *hints, int64_t now_ms)
{
    mutex_lock(&hints->lock);
    const bool does = hints_overflows(hints, now_ms);
    mutex_unlock(&hints->lock);
    return does;
}

/* Must evaluate exactly like filter; otherwise wake-ups would be spurious or lost. */
static bool fits_any(const struct policy_context *context, const struct request *request,
                     const struct node *const *node, size_t nodes, uint64_t *steps)
{
    UNSET struct plan plan;
    struct rank rank;
    bool fits = false;

    must(request_asks(request));
    plan_init(&plan, request, context);
    for (size_t i = 0; i < nodes && !fits && *steps < WAKE_STEPS_MAX; i++) {
        UNSET struct room room;
        room_of(node[i], &room);
        fits = place_evaluate(&plan, &room, &rank) == REASON_NONE;
        *steps += rank.steps;
    }
    return fits;
}

bool hints_would_fit(struct hints *hints, const struct policy_context *context, int64_t now_ms,
                     const struct node *const *node, size_t nodes)
{
    struct request_class *request_class[REQUEST_CLASSES_TRIED_MAX + 1];

    if (nodes == 0)
        return false;
    mutex_lock(&hints->lock);
    const bool doubt = hints_overflows(hints, now_ms);
    /* References keep the requests alive without the lock. One above the limit detects excess. */
    const size_t count = request_classes_waiting(&hints->request_classes, request_class,
                                                 REQUEST_CLASSES_TRIED_MAX + 1);
    mutex_unlock(&hints->lock);
    bool fits = doubt || count > REQUEST_CLASSES_TRIED_MAX;
    uint64_t steps = 0;
    for (size_t i = 0; i < count && !fits; i++)
        /* Out of steps counts as a fit: a spurious wake-up is cheaper than a lost one. */
        fits = fits_any(context, request_class[i]->request, node, nodes, &steps) ||
               steps >= WAKE_STEPS_MAX;
    mutex_lock(&hints->lock);
    for (size_t i = 0; i < count; i++)
        request_classes_let_go(&hints->request_classes, request_class[i]);
    mutex_unlock(&hints->lock);
    return fits;
}

/* --- entries follow the life of their pods --- */

/* An unknown pod that asked since before_ms counts: the watch may not have shown it yet. */
static bool hints_lives(const struct waiting_pod *pod, int64_t before_ms, void *user,
                        hints_look *look)
{
    switch (look(user, text_of(pod->uid))) {
    case HINTS_POD_UNBOUND:
        return true;
    case HINTS_POD_BOUND:
        return false;
    case HINTS_POD_UNKNOWN:
        return pod->asked.asked_ms >= before_ms;
    }
    must_not_reach("every state is listed");
}

/* Examines SLICE_MAX slots and removes pods that are not alive. */
static void look_after(struct hints *hints, size_t first, int64_t before_ms, void *user,
                       hints_look *look) REQUIRES(hints->lock)
{
    must(look != NULL && first % SLICE_MAX == 0);
    for (size_t i = first; i < first + SLICE_MAX && i < hints->slots; i++)
        if (hints->slot[i] != NULL && !hints_lives(hints->slot[i], before_ms, user, look))
            hints_drop(hints, hints->slot[i]);
}

void hints_maintain(struct hints *hints, int64_t now_ms, void *user, hints_look *look)
{
    must(look != NULL);
    mutex_lock(&hints->lock);
    look_after(hints, hints->next_slot, now_ms - UNHEARD_MAX_MS, user, look);
    hints->next_slot += SLICE_MAX;
    if (hints->next_slot >= hints->slots)
        hints->next_slot = 0;
    mutex_unlock(&hints->lock);
}

void hints_listed(struct hints *hints, int64_t asked_ms, void *user, hints_look *look)
{
    must(look != NULL);
    /* Entries added while the lock is released asked after the list's request, so they stay. */
    for (size_t first = 0; first < WAITING_MAX; first += SLICE_MAX) {
        mutex_lock(&hints->lock);
        look_after(hints, first, asked_ms, user, look);
        mutex_unlock(&hints->lock);
    }
}

/* --- for people --- */

/* Copies into arena, because the entry may be freed once the lock is released. */
static void hints_show(const struct waiting_pod *pod, struct arena *arena, struct waiting *out)
{
    const bool refused = pod->state == WAITING_POD_REFUSED;

    must(pod->asked.n_asks > 0);
    must(!refused || pod->refusal.text != NULL);
    *out = (struct waiting){
        .uid = arena_copy(arena, text_of(pod->uid)),
        .namespace = arena_copy(arena, text_of(pod->namespace)),
        .name = arena_copy(arena, text_of(pod->name)),
        .text = refused ? arena_copy(arena, text_of(pod->refusal.text))
                        : arena_printf(arena, "offered %u of %u, not bound", pod->list.listed,
                                       pod->list.fitting),
        .unclassed = pod->unclassed,
        .reason = refused ? pod->refusal.reason : REASON_NONE,
        .offered = refused ? 0 : pod->list.listed,
        .fitting = refused ? 0 : pod->list.fitting,
        .since_ms = pod->asked.since_ms,
        .last_ms = pod->asked.last_ms,
        .n_asks = pod->asked.n_asks,
    };
}

/* "namespace/name/uid": the sort key of REST's lists and pages. */
static char *hints_key_of(const struct waiting_pod *pod, struct arena *arena)
{
    const char *const part[] = {pod->namespace, pod->name, pod->uid};
    size_t bytes = 0;

    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        bytes += strlen(part[i]) + 1;
    char *key = arena_alloc(arena, bytes);
    char *end = key;
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        (void)text_lay(&end, part[i]);
        end[-1] = i + 1 < ARRAY_LEN(part) ? '/' : '\0';
    }
    must(end == key + bytes);
    return key;
}

bool hints_names(struct hints *hints, size_t *place, struct arena *arena, struct waiting_names *out)
{
    must(*place % SLICE_MAX == 0);

    out->count = 0;
    if (*place >= WAITING_MAX)
        return false;
    mutex_lock(&hints->lock);
    for (size_t i = *place; i < *place + SLICE_MAX && i < hints->slots; i++) {
        const struct waiting_pod *pod = hints->slot[i];
        if (pod == NULL || !hints_waits(pod))
            continue;
        out->key[out->count] = hints_key_of(pod, arena);
        out->uid[out->count++] = arena_copy(arena, text_of(pod->uid));
    }
    mutex_unlock(&hints->lock);
    *place += SLICE_MAX;
    return true;
}

bool hints_hold(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out)
{
    mutex_lock(&hints->lock);
    const struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    const bool found = pod != NULL && hints_waits(pod);
    if (found) {
        hints_show(pod, arena, out);
        if (pod->request_class != NULL)
            out->held = request_classes_hold(&hints->request_classes, pod->request_class->request);
        out->request = out->held != NULL ? out->held->request : NULL;
    }
    mutex_unlock(&hints->lock);
    return found;
}

void hints_let_go(struct hints *hints, struct waiting *waiting)
{
    must(waiting->uid != NULL);
    if (waiting->held == NULL)
        return;
    mutex_lock(&hints->lock);
    request_classes_let_go(&hints->request_classes, waiting->held);
    mutex_unlock(&hints->lock);
    waiting->held = NULL;
    waiting->request = NULL;
}

/* Waiting pods of one slice of the table, each with a reference to its request. */
struct brief_slice {
    size_t count;
    struct waiting_brief brief[SLICE_MAX];
    struct request_class *held[SLICE_MAX]; /* NULL: none */
};

static void take_briefs(struct hints *hints, size_t first, struct brief_slice *out)
    REQUIRES(hints->lock)
{
    must(first % SLICE_MAX == 0);
    out->count = 0;
    for (size_t i = first; i < first + SLICE_MAX && i < hints->slots; i++) {
        const struct waiting_pod *pod = hints->slot[i];
        if (pod == NULL || !hints_waits(pod))
            continue;
        struct request_class *held =
            pod->request_class != NULL
                ? request_classes_hold(&hints->request_classes, pod->request_class->request)
                : NULL;
        out->held[out->count] = held;
        out->brief[out->count++] = (struct waiting_brief){
            .reason = pod->state == WAITING_POD_REFUSED ? pod->refusal.reason : REASON_NONE,
            .since_ms = pod->asked.since_ms,
            .request = held != NULL ? held->request : NULL,
        };
    }
}

void hints_visit(struct hints *hints, void *user,
                 void (*visit)(void *user, const struct waiting_brief *is))
{
    CLEANUP(xfreep) struct brief_slice *slice = xcalloc(1, sizeof *slice);

    must(visit != NULL);
    for (size_t first = 0; first < WAITING_MAX; first += SLICE_MAX) {
        mutex_lock(&hints->lock);
        take_briefs(hints, first, slice);
        mutex_unlock(&hints->lock);
        for (size_t i = 0; i < slice->count; i++)
            visit(user, &slice->brief[i]);
        mutex_lock(&hints->lock);
        for (size_t i = 0; i < slice->count; i++)
            if (slice->held[i] != NULL)
                request_classes_let_go(&hints->request_classes, slice->held[i]);
        mutex_unlock(&hints->lock);
    }
}

bool hints_has_verdict(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&hints->lock);
    const struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    const bool found = pod != NULL && pod->state != WAITING_POD_IDLE;
    mutex_unlock(&hints->lock);
    return found;
}

bool hints_has_asked(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&hints->lock);
    const bool found = map_find(&hints->waiting_pods, uid) != NULL;
    mutex_unlock(&hints->lock);
    return found;
}

bool hints_find(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out)
{
    must(out != NULL);

    mutex_lock(&hints->lock);
    const struct waiting_pod *pod = map_find(&hints->waiting_pods, uid);
    const bool found = pod != NULL && pod->state != WAITING_POD_IDLE;
    if (found)
        hints_show(pod, arena, out);
    mutex_unlock(&hints->lock);
    return found;
}

struct hints_bytes hints_bytes(struct hints *hints)
{
    mutex_lock(&hints->lock);
    struct hints_bytes bytes = {.waiting_pods = hints->bytes,
                                .request_classes = hints->request_classes.bytes};
    mutex_unlock(&hints->lock);
    /* After the unlock: answers have a lock of their own, and no function holds both locks. */
    bytes.refusals = answers_bytes(&hints->answers);
    must(bytes.waiting_pods <= WAITING_PODS_BYTES_MAX &&
         bytes.request_classes <= REQUEST_CLASSES_BYTES_MAX);
    return bytes;
}
