/*
 * What filter remembers between two calls: which pods wait, and their recent shortlists. Called by
 * webhooks.c on the HTTP threads, by the writer (whom to wake, which pods are resolved) and by
 * REST. One lock guards all of it but the cached answers (hints_answers.c); searches run without
 * it. Every table has a bound in entries and bytes (docs/why/014). While a pod that waits may be
 * missing from the tables, any capacity that comes free wakes kube-scheduler. The parts: states,
 * the table, offers, refusals, wake-ups, the life of entries, REST.
 */
#include "milligpu/waiting/hints.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/waiting/request_classes.h"

#include "hints_internal.h"

enum waiting_pod_state {
    WAITING_POD_IDLE,    /* nothing to wait for: it is being bound, or holds a reservation */
    WAITING_POD_REFUSED, /* waits for capacity */
    WAITING_POD_OFFERED, /* was offered a list less than a second ago */
    WAITING_POD_LATE,    /* no bind followed: another plugin refused the list */
};

/* What is remembered of a waiting pod: under the lock, like the table. */
struct waiting_pod {
    enum waiting_pod_state state;
    const char *uid; /* all three are in this block */
    const char *namespace;
    const char *name;
    uint32_t bytes; /* size of an entry with the longest text */
    uint16_t slot;
    struct request_class *request_class; /* NULL: the request itself is refused, or */
    bool unclassed;                      /* there was no room for it */
    /* The last refusal. */
    struct {
        char *text; /* NULL: there was none */
        enum reason reason;
    } refusal;
    /* Its filter calls. */
    struct {
        int64_t since_ms; /* UTC */
        int64_t last_ms;
        uint64_t n_asks;
        int64_t asked_ms; /* monotonic */
    } asked;
    /* The last list, and by what factor that shortlist was longer. */
    struct {
        uint32_t listed; /* of the nodes that fit, how many were listed */
        uint32_t fitting;
        uint32_t growth;
        uint32_t covered; /* nodes in complete lists, all of these lists together */
        /* more nodes may fit: when the offer is late, kube-scheduler has to be woken */
        bool due;
        uint64_t capacity_generation;
    } list;
    /* Its best place, while it stands among the offers. */
    struct {
        bool stands;
        int64_t at_ms;
        const struct atom *node; /* a reference */
        uint64_t first_offer;    /* the first of its offers */
        uint32_t n_offers;
        struct waiting_pod *older;
        struct waiting_pod *newer;
    } first_offer;
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

/* Keeps the sums in step with the states, so that the writer asks what waits without a walk. */
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

/* The only function that changes a state: whatever the old state counted leaves the sums first. */
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
 * Offers stand in a list by age. One that leaves takes its offers along, and fresh
 * moves on, so that hints_late() never meets an entry that is gone.
 */
static void stand_down(struct hints *hints, struct waiting_pod *pod)
{
    if (!pod->first_offer.stands)
        return;
    offers_drop(&hints->offers, pod->first_offer.first_offer, pod->first_offer.n_offers);
    pod->first_offer.n_offers = 0;
    must(hints->oldest != NULL && hints->newest != NULL);
    if (hints->fresh == pod)
        hints->fresh = pod->first_offer.newer;
    *(pod->first_offer.older != NULL ? &pod->first_offer.older->first_offer.newer
                                     : &hints->oldest) = pod->first_offer.newer;
    *(pod->first_offer.newer != NULL ? &pod->first_offer.newer->first_offer.older
                                     : &hints->newest) = pod->first_offer.older;
    pod->first_offer.older = pod->first_offer.newer = NULL;
    pod->first_offer.stands = false;
}

static void hints_stand(struct hints *hints, struct waiting_pod *pod) REQUIRES(hints->lock)
{
    must(!pod->first_offer.stands && pod->first_offer.older == NULL &&
         pod->first_offer.newer == NULL);
    pod->first_offer.older = hints->newest;
    *(hints->newest != NULL ? &hints->newest->first_offer.newer : &hints->oldest) = pod;
    hints->newest = pod;
    if (hints->fresh == NULL)
        hints->fresh = pod;
    pod->first_offer.stands = true;
}

/* --- the table --- */

static size_t hints_strings_of(const struct asking_pod *asking_pod)
{
    must(asking_pod->uid[0] != '\0');
    return strlen(asking_pod->uid) + strlen(asking_pod->namespace) + strlen(asking_pod->name) + 3;
}

/* With its text, and what the allocator adds to two blocks. */
static size_t hints_bytes_of(const struct asking_pod *asking_pod)
{
    enum { BLOCK_BYTES = 16 };
    const size_t fixed = sizeof(struct waiting_pod) + REASON_BYTES_MAX + 2 * (size_t)BLOCK_BYTES;

    return fixed + hints_strings_of(asking_pod);
}

/*
 * One block for the entry and its strings; the text of a refusal is a second one. bytes counts the
 * longest text, so that a new text never needs room.
 */
static struct waiting_pod *kept_new(const struct asking_pod *asking_pod)
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

/*
 * Also takes back what the entry counts for elsewhere: sums, offers, request class, slot and bytes.
 */
static void kept_free(struct hints *hints, struct waiting_pod *pod)
{
    hints_become(hints, pod, WAITING_POD_IDLE);
    stand_down(hints, pod);
    if (pod->request_class != NULL)
        request_classes_let_go(&hints->request_classes, pod->request_class);
    must(hints->slot[pod->slot] == pod && hints->bytes >= pod->bytes);
    hints->slot[pod->slot] = NULL;
    hints->spare[hints->n_spare++] = pod->slot;
    hints->bytes -= pod->bytes;
    atom_unref(pod->first_offer.node);
    xfree(pod->refusal.text);
    xfree(pod);
}

/* For an entry for which hints_make_room() has made room. */
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
    kept_free(hints, pod);
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
        kept_free(hints, pod);
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
 * A pod waits that the table does not know: until kube-scheduler has asked about it again, any
 * capacity that comes free may be what it waits for.
 */
static void hints_note_overflow(struct hints *hints, int64_t now_ms) REQUIRES(hints->lock)
{
    must(now_ms >= 0);
    hints->overflowed = true;
    hints->overflow_ms = now_ms;
}

/*
 * Offers make room, the oldest first. Refused pods never do, because only our wake-up ends their
 * wait. An offer that goes before it is late is reported as late (late_went).
 */
static bool hints_make_room(struct hints *hints, size_t bytes, int64_t now_ms) REQUIRES(hints->lock)
{
    struct waiting_pod *oldest;

    while (hints->waiting_pods.count == WAITING_MAX ||
           bytes > WAITING_PODS_BYTES_MAX - hints->bytes) {
        oldest = hints->oldest;
        if (oldest == NULL)
            return false; /* all were refused: none can be replaced */
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

/* NULL: it is bound, was bound or deleted meanwhile, or the table is full. */
static struct waiting_pod *kept_of(struct hints *hints, const struct asking_pod *asking_pod)
    REQUIRES(hints->lock)
{
    const struct text uid = text_of(asking_pod->uid);

    must(uid.len > 0);
    /* A filter call that began before the bind may end after it: the pod must not come back. */
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
        pod = kept_new(asking_pod);
        hints_enter(hints, pod);
    }
    return pod;
}

/*
 * The request without the containers' names and without the host: it is used to see whether it
 * fits, not for binding or judging.
 */
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

/* It asked again: what it waited for before is obsolete. */
static void note_ask(struct hints *hints, struct waiting_pod *pod,
                     const struct asking_pod *asking_pod) REQUIRES(hints->lock)
{
    must(asking_pod->now_ms >= 0);

    /* Held before the old one is let go: usually it is the same request class. */
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

/* How many times the shortlist the next list may be long. */
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
    /* For a pod that cannot be remembered it will not be known that its list was too short. */
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
    const struct waiting_pod *asking_pod = map_find(&hints->waiting_pods, uid);
    const uint32_t count = offers_copy(&hints->offers, asking_pod, now_ms, offer);
    mutex_unlock(&hints->lock);
    return count;
}

/* Its best place: the milli of all its parts, GPU by GPU. */
struct best_place {
    const struct node *node; /* NULL: not known */
    uint32_t milli[GPUS_PER_NODE_MAX];
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

/* One offer for each GPU; their numbers follow that of the first, so that all go together. */
static void note_place(struct hints *hints, struct waiting_pod *pod, const struct best_place *place)
    REQUIRES(hints->lock)
{
    must(!pod->first_offer.stands && pod->first_offer.n_offers == 0);

    pod->first_offer.first_offer = hints->offers.next;
    atom_unref(pod->first_offer.node);
    pod->first_offer.node = place->node != NULL ? atom_ref(place->node->name) : NULL;
    const uint32_t gpus = place->node != NULL ? place->node->gpus : 0;
    for (uint32_t i = 0; i < gpus && i < GPUS_PER_NODE_MAX; i++) { /* those beyond are absent */
        if (place->milli[i] == 0)
            continue;
        const struct offer offer = {
            .node = pod->first_offer.node, .gpu = place->node->gpu[i].id, .milli = place->milli[i]};
        offers_add(&hints->offers, pod, pod->first_offer.at_ms, offer);
        pod->first_offer.n_offers++;
    }
}

/* Was it everything that fits? If not, asking again leads to other nodes. */
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

/* Notes what the next list and a late offer depend on; growth is the factor of this list. */
static void note_list(struct waiting_pod *pod, uint32_t growth, const struct shortlist *offered)
{
    must(offered->listed > 0 && offered->listed <= offered->fitting);
    must(offered->fitting <= offered->names);

    pod->list.capacity_generation = offered->capacity_generation;
    if (offered->names == 1 && pod->list.listed < pod->list.fitting)
        return; /* the list that was too short is still the last one, and it is late */
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
    struct waiting_pod *pod = kept_of(hints, asking_pod);
    if (pod != NULL) {
        const uint32_t growth = next_growth(pod);
        note_ask(hints, pod, asking_pod);
        note_list(pod, growth, offered);
        pod->first_offer.at_ms = asking_pod->now_ms;
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
    /* From the first offer that was not late at the last look: an offer is examined once. */
    for (pod = hints->fresh; pod != NULL && now_ms - pod->first_offer.at_ms >= SHORTLIST_LATE_MS;
         pod = pod->first_offer.newer) {
        must(pod->first_offer.stands);
        if (pod->state != WAITING_POD_OFFERED)
            continue;
        hints_become(hints, pod, WAITING_POD_LATE);
        if (!pod->list.due && pod->list.capacity_generation == capacity_generation)
            continue;
        wake = true;
        if (pod->first_offer.node == NULL)
            continue;
        atom_unref(*out_node);
        *out_node = atom_ref(pod->first_offer.node);
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
        const int64_t left = hints->fresh->first_offer.at_ms + SHORTLIST_LATE_MS - now_ms;
        wait = left > 0 ? left : 0;
    }
    if (hints->late_went)
        wait = 0;
    mutex_unlock(&hints->lock);
    must(wait >= 0);
    return wait;
}

/* --- refusals --- */

/* Most refusals repeat the text before, and then nothing is allocated. */
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
    struct waiting_pod *pod = kept_of(hints, asking_pod);
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
    /* A pod that was refused after the list that this bind follows still waits. */
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
 * A ring: the oldest uid is forgotten. A filter call lasts for milliseconds, so RESOLVED_MAX binds
 * are enough.
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

/* An overflow counts for UNHEARD_MAX_MS: by then kube-scheduler has asked again about each pod. */
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

/*
 * The same evaluation as in filter, step by step; otherwise pods would be woken in vain, or never.
 */
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
    /*
     * The references keep the requests alive without the lock. One more than the limit shows that
     * there are too many.
     */
    const size_t count = request_classes_waiting(&hints->request_classes, request_class,
                                                 REQUEST_CLASSES_TRIED_MAX + 1);
    mutex_unlock(&hints->lock);
    bool fits = doubt || count > REQUEST_CLASSES_TRIED_MAX;
    uint64_t steps = 0;
    for (size_t i = 0; i < count && !fits; i++)
        /* Out of steps counts as a fit: a wake-up in vain is cheaper than one that is missing. */
        fits = fits_any(context, request_class[i]->request, node, nodes, &steps) ||
               steps >= WAKE_STEPS_MAX;
    mutex_lock(&hints->lock);
    for (size_t i = 0; i < count; i++)
        request_classes_let_go(&hints->request_classes, request_class[i]);
    mutex_unlock(&hints->lock);
    return fits;
}

/* --- entries follow the life of their pods --- */

/*
 * An unknown pod may be one that our watch has not shown yet: it lives if it asked after before_ms.
 */
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

/* Examines a few slots and removes pods that are not alive any more. */
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
    /* Entries that come while the lock is free asked after the list was requested, so they stay. */
    for (size_t first = 0; first < WAITING_MAX; first += SLICE_MAX) {
        mutex_lock(&hints->lock);
        look_after(hints, first, asked_ms, user, look);
        mutex_unlock(&hints->lock);
    }
}

/* --- for people --- */

/* Copies into arena, because the entry may go as soon as the lock is released. */
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

/* "namespace/name/uid": the order in which REST lists and continues. */
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
    /* After the unlock: answers have a lock of their own, and no function holds both. */
    bytes.refusals = answers_bytes(&hints->answers);
    must(bytes.waiting_pods <= WAITING_PODS_BYTES_MAX &&
         bytes.request_classes <= REQUEST_CLASSES_BYTES_MAX);
    return bytes;
}
