/*
 * The waiting pods and their recent shortlists. Called by webhooks.c on the HTTP threads, by the
 * writer (wake-ups, resolved pods) and by REST. One lock guards everything but the cached answers
 * (waiting_pods_answers.c) and is not held while searching. Tables are bounded in entries and bytes
 * (docs/why/014); after an overflow any freed capacity wakes kube-scheduler. In order: states, the
 * table, offers, refusals, wake-ups, the life of entries, REST.
 */
#include "milligpu/waiting/waiting_pods.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/waiting/request_classes.h"

#include "waiting_pods_internal.h"

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
    uint16_t index;
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

static struct text uid_of_waiting_pod(const void *value)
{
    const struct waiting_pod *pod = value;
    return text_of(pod->uid);
}

struct waiting_pods *waiting_pods_new(void)
{
    struct waiting_pods *waiting_pods = xcalloc(1, sizeof *waiting_pods);

    answers_init(&waiting_pods->answers);
    waiting_pods->schedulers = schedulers_new();
    mutex_init(&waiting_pods->lock);
    map_init_keyed(&waiting_pods->by_uid, uid_of_waiting_pod);
    map_init(&waiting_pods->resolved.by_uid);
    return waiting_pods;
}

void waiting_pods_set_look(struct waiting_pods *waiting_pods, void *user, waiting_pods_look *look)
{
    must(waiting_pods->by_uid.count == 0 || look == NULL);
    waiting_pods->look_user = user;
    waiting_pods->look = look;
}

struct schedulers *waiting_pods_schedulers(const struct waiting_pods *waiting_pods)
{
    must(waiting_pods->schedulers != NULL);
    return waiting_pods->schedulers;
}

/* --- states --- */

static bool waiting_pod_waits(const struct waiting_pod *pod)
{
    return pod->state == WAITING_POD_REFUSED || pod->state == WAITING_POD_LATE;
}

/* Maintains the counts of waiting pods, so that the writer reads them without a walk. */
static void count_waiting(struct waiting_pods *waiting_pods, const struct waiting_pod *pod,
                          bool more)
{
    must(more || waiting_pods->n_waiting > 0);
    waiting_pods->n_waiting = more ? waiting_pods->n_waiting + 1 : waiting_pods->n_waiting - 1;
    if (pod->unclassed)
        waiting_pods->n_unclassed =
            more ? waiting_pods->n_unclassed + 1 : waiting_pods->n_unclassed - 1;
    if (pod->request_class == NULL)
        return;
    if (more)
        request_classes_wait(&waiting_pods->request_classes, pod->request_class);
    else
        request_classes_unwait(&waiting_pods->request_classes, pod->request_class);
}

/* The only function that changes a state; it updates the counts. */
static void waiting_pod_become(struct waiting_pods *waiting_pods, struct waiting_pod *pod,
                               enum waiting_pod_state state)
{
    if (waiting_pod_waits(pod))
        count_waiting(waiting_pods, pod, false);
    pod->state = state;
    if (waiting_pod_waits(pod))
        count_waiting(waiting_pods, pod, true);
    must(waiting_pods->n_waiting <= waiting_pods->by_uid.count);
}

/* The place of the offer does not count as taken any more. */
static void drop_place(struct waiting_pods *waiting_pods, struct waiting_pod *pod)
{
    must(pod->offer.stands || pod->offer.count == 0);
    offers_drop(&waiting_pods->offers, pod->offer.first, pod->offer.count);
    pod->offer.count = 0;
}

/*
 * Removes a pod from the list of offers by age, with its entries in struct offers. Advances fresh,
 * so that waiting_pods_mark_late() never reads a freed entry.
 */
static void withdraw_offer(struct waiting_pods *waiting_pods, struct waiting_pod *pod)
{
    if (!pod->offer.stands)
        return;
    drop_place(waiting_pods, pod);
    must(waiting_pods->oldest != NULL && waiting_pods->newest != NULL);
    if (waiting_pods->fresh == pod)
        waiting_pods->fresh = pod->offer.newer;
    *(pod->offer.older != NULL ? &pod->offer.older->offer.newer : &waiting_pods->oldest) =
        pod->offer.newer;
    *(pod->offer.newer != NULL ? &pod->offer.newer->offer.older : &waiting_pods->newest) =
        pod->offer.older;
    pod->offer.older = pod->offer.newer = NULL;
    pod->offer.stands = false;
}

static void enter_offer(struct waiting_pods *waiting_pods, struct waiting_pod *pod)
    REQUIRES(waiting_pods->lock)
{
    must(!pod->offer.stands && pod->offer.older == NULL && pod->offer.newer == NULL);
    pod->offer.older = waiting_pods->newest;
    *(waiting_pods->newest != NULL ? &waiting_pods->newest->offer.newer : &waiting_pods->oldest) =
        pod;
    waiting_pods->newest = pod;
    if (waiting_pods->fresh == NULL)
        waiting_pods->fresh = pod;
    pod->offer.stands = true;
}

/* --- the table --- */

static size_t waiting_pod_string_bytes(const struct asking_pod *asking_pod)
{
    must(asking_pod->uid[0] != '\0');
    return strlen(asking_pod->uid) + strlen(asking_pod->namespace) + strlen(asking_pod->name) + 3;
}

/* With the longest text and the allocator's overhead for two blocks. */
static size_t waiting_pod_bytes(const struct asking_pod *asking_pod)
{
    enum { BLOCK_BYTES = 16 };
    const size_t fixed = sizeof(struct waiting_pod) + REASON_BYTES_MAX + 2 * (size_t)BLOCK_BYTES;

    return fixed + waiting_pod_string_bytes(asking_pod);
}

/*
 * One block for the entry and its names; the text of a refusal is a second one. bytes includes the
 * longest text, so that a new text never exceeds the limit.
 */
static struct waiting_pod *waiting_pod_new(const struct asking_pod *asking_pod)
{
    must(waiting_pod_bytes(asking_pod) <= WAITING_PODS_BYTES_MAX);
    struct waiting_pod *pod = xmalloc(sizeof *pod + waiting_pod_string_bytes(asking_pod));
    char *text = (char *)(pod + 1);

    *pod = (struct waiting_pod){.list.growth = 1,
                                .asked.since_ms = asking_pod->wall_ms,
                                .bytes = (uint32_t)waiting_pod_bytes(asking_pod)};
    pod->uid = text_lay(&text, asking_pod->uid);
    pod->namespace = text_lay(&text, asking_pod->namespace);
    pod->name = text_lay(&text, asking_pod->name);
    return pod;
}

/* Also updates counts, offers, request class, slot and bytes. */
static void waiting_pod_free(struct waiting_pods *waiting_pods, struct waiting_pod *pod)
{
    waiting_pod_become(waiting_pods, pod, WAITING_POD_IDLE);
    withdraw_offer(waiting_pods, pod);
    if (pod->request_class != NULL)
        request_classes_let_go(&waiting_pods->request_classes, pod->request_class);
    must(waiting_pods->entry[pod->index] == pod && waiting_pods->bytes >= pod->bytes);
    waiting_pods->entry[pod->index] = NULL;
    waiting_pods->spare[waiting_pods->n_spare++] = pod->index;
    waiting_pods->bytes -= pod->bytes;
    atom_unref(pod->offer.node);
    xfree(pod->refusal.text);
    xfree(pod);
}

/* Call waiting_pods_make_room() first. */
static void waiting_pods_add(struct waiting_pods *waiting_pods, struct waiting_pod *pod)
    REQUIRES(waiting_pods->lock)
{
    must(waiting_pods->n_spare > 0 || waiting_pods->n_entries < WAITING_MAX);
    pod->index = waiting_pods->n_spare > 0 ? waiting_pods->spare[--waiting_pods->n_spare]
                                           : (uint16_t)waiting_pods->n_entries++;
    must(waiting_pods->entry[pod->index] == NULL);
    waiting_pods->entry[pod->index] = pod;
    waiting_pods->bytes += pod->bytes;
    must(waiting_pods->bytes <= WAITING_PODS_BYTES_MAX);
    (void)map_put(&waiting_pods->by_uid, text_of(pod->uid), pod);
}

static void waiting_pods_remove(struct waiting_pods *waiting_pods, struct waiting_pod *pod)
    REQUIRES(waiting_pods->lock)
{
    must(map_find(&waiting_pods->by_uid, text_of(pod->uid)) == pod);
    waiting_pod_become(waiting_pods, pod, WAITING_POD_IDLE);
    (void)map_take(&waiting_pods->by_uid, text_of(pod->uid));
    waiting_pod_free(waiting_pods, pod);
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

void waiting_pods_free(struct waiting_pods *waiting_pods)
{
    struct waiting_pod *pod;

    if (waiting_pods == NULL)
        return;
    for (size_t at = 0; (pod = map_next(&waiting_pods->by_uid, &at)) != NULL;)
        waiting_pod_free(waiting_pods, pod);
    must(waiting_pods->n_waiting == 0 && waiting_pods->request_classes.waited == NULL);
    must(waiting_pods->bytes == 0 && waiting_pods->request_classes.bytes == 0);
    for (size_t i = 0; i < RESOLVED_MAX; i++)
        forget_resolved(&waiting_pods->resolved, i);
    answers_done(&waiting_pods->answers);
    schedulers_free(waiting_pods->schedulers);
    map_done(&waiting_pods->by_uid);
    map_done(&waiting_pods->resolved.by_uid);
    mutex_done(&waiting_pods->lock);
    xfree(waiting_pods);
}

/*
 * A waiting pod is missing in the table: until kube-scheduler asks about it again, any freed
 * capacity may fit it.
 */
static void waiting_pods_note_overflow(struct waiting_pods *waiting_pods, int64_t now_ms)
    REQUIRES(waiting_pods->lock)
{
    must(now_ms >= 0);
    waiting_pods->overflowed = true;
    waiting_pods->overflow_ms = now_ms;
}

/*
 * Evicts offers, the oldest first, never refused pods, because only our wake-up ends their wait. An
 * offer that is evicted before it is late counts as late (late_went).
 */
static bool waiting_pods_make_room(struct waiting_pods *waiting_pods, size_t bytes, int64_t now_ms)
    REQUIRES(waiting_pods->lock)
{
    struct waiting_pod *oldest;

    while (waiting_pods->by_uid.count == WAITING_MAX ||
           bytes > WAITING_PODS_BYTES_MAX - waiting_pods->bytes) {
        oldest = waiting_pods->oldest;
        if (oldest == NULL)
            return false; /* all entries are refused pods */
        if (oldest->state != WAITING_POD_IDLE)
            waiting_pods_note_overflow(waiting_pods, now_ms);
        waiting_pods->has_lost_late =
            waiting_pods->has_lost_late || oldest->state == WAITING_POD_OFFERED;
        waiting_pods_remove(waiting_pods, oldest);
    }
    must(waiting_pods->by_uid.count < WAITING_MAX);
    return true;
}

static bool waiting_pods_is_bound(const struct waiting_pods *waiting_pods, struct text uid)
    REQUIRES(waiting_pods->lock)
{
    must(uid.len > 0);
    return waiting_pods->look != NULL &&
           waiting_pods->look(waiting_pods->look_user, uid) == WATCHED_POD_BOUND;
}

/* Finds or adds the pod. NULL: bound or deleted, possibly meanwhile, or the table is full. */
static struct waiting_pod *waiting_pod_of(struct waiting_pods *waiting_pods,
                                          const struct asking_pod *asking_pod)
    REQUIRES(waiting_pods->lock)
{
    const struct text uid = text_of(asking_pod->uid);

    must(uid.len > 0);
    /* A filter call may begin before the bind and end after it: do not add the pod again. */
    if (map_find(&waiting_pods->resolved.by_uid, uid) != NULL)
        return NULL;
    struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    if (pod == NULL && waiting_pods_is_bound(waiting_pods, uid))
        return NULL;
    if (pod == NULL &&
        !waiting_pods_make_room(waiting_pods, waiting_pod_bytes(asking_pod), asking_pod->now_ms)) {
        waiting_pods_note_overflow(waiting_pods, asking_pod->now_ms);
        return NULL;
    }
    if (pod == NULL) {
        pod = waiting_pod_new(asking_pod);
        waiting_pods_add(waiting_pods, pod);
    }
    return pod;
}

/* Without container names and host: the class is used to check the fit, not to bind or rank. */
static struct request_class *hold_request_class(struct waiting_pods *waiting_pods,
                                                const struct request *request)
    REQUIRES(waiting_pods->lock)
{
    struct want want[CONTAINERS_MAX];
    struct request nameless = *request;

    must(request->n_wants <= CONTAINERS_MAX);
    nameless.host = (struct host){0};
    nameless.want = want;
    for (uint32_t i = 0; i < request->n_wants; i++) {
        want[i] = request->want[i];
        want[i].container = "";
    }
    return request_classes_hold(&waiting_pods->request_classes, &nameless);
}

/* Notes a filter call, which ends the previous wait or offer. */
static void note_ask(struct waiting_pods *waiting_pods, struct waiting_pod *pod,
                     const struct asking_pod *asking_pod) REQUIRES(waiting_pods->lock)
{
    must(asking_pod->now_ms >= 0);

    /* Before the old reference is released: usually the class is the same. */
    struct request_class *request_class =
        asking_pod->request != NULL ? hold_request_class(waiting_pods, asking_pod->request) : NULL;

    waiting_pod_become(waiting_pods, pod, WAITING_POD_IDLE);
    withdraw_offer(waiting_pods, pod);
    if (pod->request_class != NULL)
        request_classes_let_go(&waiting_pods->request_classes, pod->request_class);
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

uint32_t waiting_pods_shortlist(struct waiting_pods *waiting_pods, struct text uid,
                                uint32_t shortlist)
{
    if (shortlist == 0)
        return 0;
    mutex_lock(&waiting_pods->lock);
    const struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    /* No limit (0) if the pod cannot be stored: a list that is too short would go unnoticed. */
    const uint64_t growth = pod != NULL                                ? next_growth(pod)
                            : waiting_pods->by_uid.count < WAITING_MAX ? 1
                                                                       : 0;
    mutex_unlock(&waiting_pods->lock);
    const uint64_t longer = shortlist * growth;
    must(growth == 0 || longer >= shortlist);
    return longer < NODES_MAX ? (uint32_t)longer : NODES_MAX;
}

uint32_t waiting_pods_offers(struct waiting_pods *waiting_pods, struct text uid, int64_t now_ms,
                             struct offer offer[OFFERS_MAX])
{
    must(uid.at != NULL || uid.len == 0);

    mutex_lock(&waiting_pods->lock);
    const struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    const uint32_t count = offers_copy(&waiting_pods->offers, pod, now_ms, offer);
    mutex_unlock(&waiting_pods->lock);
    return count;
}

/* The best place of a list. */
struct best_place {
    const struct node *node;           /* borrowed; NULL: not known */
    uint32_t milli[GPUS_PER_NODE_MAX]; /* sum of the parts on each GPU */
};

/* Runs before the lock is taken: best belongs to the caller's arena and snapshot. */
static void best_place_of(const struct candidate *best, const struct request *request,
                          struct best_place *out)
{
    *out = (struct best_place){.node = best != NULL ? best->node : NULL};
    if (best == NULL)
        return;
    const struct placement *placement = best->placement;
    must(placement != NULL && placement->n_parts > 0);
    must(request->n_wants > 0);
    for (uint32_t i = 0; i < placement->n_parts; i++) {
        const struct part *part = &placement->part[i];
        must(part->gpu < best->node->n_gpus);
        out->milli[part->gpu] += placement_milli(placement, &request->want[part->want]);
    }
}

/* Adds one offer for each GPU, with consecutive numbers, so that offers_drop() removes all. */
static void note_place(struct waiting_pods *waiting_pods, struct waiting_pod *pod,
                       const struct best_place *place) REQUIRES(waiting_pods->lock)
{
    must(!pod->offer.stands && pod->offer.count == 0);

    pod->offer.first = waiting_pods->offers.next;
    atom_unref(pod->offer.node);
    pod->offer.node = place->node != NULL ? atom_ref(place->node->name) : NULL;
    const uint32_t gpus = place->node != NULL ? place->node->n_gpus : 0;
    for (uint32_t i = 0; i < gpus && i < GPUS_PER_NODE_MAX; i++) { /* further GPUs are absent */
        if (place->milli[i] == 0)
            continue;
        const struct offer offer = {
            .node = pod->offer.node, .gpu = place->node->gpu[i].id, .milli = place->milli[i]};
        offers_add(&waiting_pods->offers, pod, pod->offer.at_ms, offer);
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

void waiting_pods_shortlisted(struct waiting_pods *waiting_pods,
                              const struct asking_pod *asking_pod, const struct shortlist *offered)
{
    must(asking_pod->request != NULL);

    struct best_place place;

    best_place_of(offered->best, asking_pod->request, &place);
    mutex_lock(&waiting_pods->lock);
    struct waiting_pod *pod = waiting_pod_of(waiting_pods, asking_pod);
    if (pod != NULL) {
        const uint32_t growth = next_growth(pod);
        note_ask(waiting_pods, pod, asking_pod);
        note_list(pod, growth, offered);
        pod->offer.at_ms = asking_pod->now_ms;
        note_place(waiting_pods, pod, &place);
        enter_offer(waiting_pods, pod);
        waiting_pod_become(waiting_pods, pod, WAITING_POD_OFFERED);
    }
    mutex_unlock(&waiting_pods->lock);
}

bool waiting_pods_mark_late(struct waiting_pods *waiting_pods, int64_t now_ms,
                            uint64_t capacity_generation, const struct atom **out_node)
{
    struct waiting_pod *pod;

    *out_node = NULL;
    mutex_lock(&waiting_pods->lock);
    bool wake = waiting_pods->has_lost_late;
    waiting_pods->has_lost_late = false;
    /* Each offer becomes late once: begins at the first one that was not late before. */
    for (pod = waiting_pods->fresh; pod != NULL && now_ms - pod->offer.at_ms >= SHORTLIST_LATE_MS;
         pod = pod->offer.newer) {
        must(pod->offer.stands);
        if (pod->state != WAITING_POD_OFFERED)
            continue;
        waiting_pod_become(waiting_pods, pod, WAITING_POD_LATE);
        if (!pod->list.due && pod->list.capacity_generation == capacity_generation)
            continue;
        wake = true;
        if (pod->offer.node == NULL)
            continue;
        atom_unref(*out_node);
        *out_node = atom_ref(pod->offer.node);
    }
    waiting_pods->fresh = pod;
    mutex_unlock(&waiting_pods->lock);
    return wake;
}

int64_t waiting_pods_late_in_ms(struct waiting_pods *waiting_pods, int64_t now_ms)
{
    int64_t wait = INT64_MAX;

    must(now_ms >= 0);
    mutex_lock(&waiting_pods->lock);
    if (waiting_pods->fresh != NULL) {
        const int64_t left = waiting_pods->fresh->offer.at_ms + SHORTLIST_LATE_MS - now_ms;
        wait = left > 0 ? left : 0;
    }
    if (waiting_pods->has_lost_late)
        wait = 0;
    mutex_unlock(&waiting_pods->lock);
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

void waiting_pods_refused(struct waiting_pods *waiting_pods, const struct asking_pod *asking_pod,
                          enum reason reason, const char *text)
{
    must(text != NULL);

    mutex_lock(&waiting_pods->lock);
    struct waiting_pod *pod = waiting_pod_of(waiting_pods, asking_pod);
    if (pod != NULL) {
        note_ask(waiting_pods, pod, asking_pod);
        note_refusal(pod, reason, text);
        waiting_pod_become(waiting_pods, pod, WAITING_POD_REFUSED);
    }
    mutex_unlock(&waiting_pods->lock);
}

void waiting_pods_binding(struct waiting_pods *waiting_pods, struct text uid)
{
    mutex_lock(&waiting_pods->lock);
    struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    /* A pod that was refused after the list of this bind still waits. */
    if (pod != NULL && pod->state != WAITING_POD_REFUSED)
        waiting_pod_become(waiting_pods, pod, WAITING_POD_IDLE);
    mutex_unlock(&waiting_pods->lock);
}

void waiting_pods_fits(struct waiting_pods *waiting_pods, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&waiting_pods->lock);
    struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    if (pod != NULL) {
        waiting_pod_become(waiting_pods, pod, WAITING_POD_IDLE);
        drop_place(waiting_pods, pod); /* stays in the list by age, so it can be evicted */
    }
    mutex_unlock(&waiting_pods->lock);
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

void waiting_pods_resolved(struct waiting_pods *waiting_pods, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&waiting_pods->lock);
    struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    if (pod != NULL)
        waiting_pods_remove(waiting_pods, pod);
    remember_resolved(&waiting_pods->resolved, uid);
    mutex_unlock(&waiting_pods->lock);
}

/* --- which pods are woken --- */

size_t waiting_pods_count(struct waiting_pods *waiting_pods)
{
    mutex_lock(&waiting_pods->lock);
    const size_t count = waiting_pods->n_waiting;
    mutex_unlock(&waiting_pods->lock);
    return count;
}

/* An overflow lasts for SILENT_MAX_MS: by then kube-scheduler has retried each pod. */
static bool has_overflow(const struct waiting_pods *waiting_pods, int64_t now_ms)
    REQUIRES(waiting_pods->lock)
{
    return waiting_pods->n_unclassed > 0 ||
           (waiting_pods->overflowed && now_ms - waiting_pods->overflow_ms < SILENT_MAX_MS);
}

bool waiting_pods_overflowed(struct waiting_pods *waiting_pods, int64_t now_ms)
{
    mutex_lock(&waiting_pods->lock);
    const bool does = has_overflow(waiting_pods, now_ms);
    mutex_unlock(&waiting_pods->lock);
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

bool waiting_pods_would_fit(struct waiting_pods *waiting_pods, const struct policy_context *context,
                            int64_t now_ms, const struct node *const *node, size_t nodes)
{
    struct request_class *request_class[REQUEST_CLASSES_TRIED_MAX + 1];

    if (nodes == 0)
        return false;
    mutex_lock(&waiting_pods->lock);
    const bool doubt = has_overflow(waiting_pods, now_ms);
    /* References keep the requests alive without the lock. One above the limit detects excess. */
    const size_t count = request_classes_waiting(&waiting_pods->request_classes, request_class,
                                                 REQUEST_CLASSES_TRIED_MAX + 1);
    mutex_unlock(&waiting_pods->lock);
    bool fits = doubt || count > REQUEST_CLASSES_TRIED_MAX;
    uint64_t steps = 0;
    for (size_t i = 0; i < count && !fits; i++)
        /* Out of steps counts as a fit: a spurious wake-up is cheaper than a lost one. */
        fits = fits_any(context, request_class[i]->request, node, nodes, &steps) ||
               steps >= WAKE_STEPS_MAX;
    mutex_lock(&waiting_pods->lock);
    for (size_t i = 0; i < count; i++)
        request_classes_let_go(&waiting_pods->request_classes, request_class[i]);
    mutex_unlock(&waiting_pods->lock);
    return fits;
}

/* --- entries follow the life of their pods --- */

/* An unknown pod that asked since before_ms counts: the watch may not have shown it yet. */
static bool waiting_pod_lives(const struct waiting_pod *pod, int64_t before_ms, void *user,
                              waiting_pods_look *look)
{
    switch (look(user, text_of(pod->uid))) {
    case WATCHED_POD_UNBOUND:
        return true;
    case WATCHED_POD_BOUND:
        return false;
    case WATCHED_POD_UNKNOWN:
        return pod->asked.asked_ms >= before_ms;
    }
    must_not_reach("every state is listed");
}

/* Examines SLICE_MAX slots and removes pods that are not alive. */
static void look_after(struct waiting_pods *waiting_pods, size_t first, int64_t before_ms,
                       void *user, waiting_pods_look *look) REQUIRES(waiting_pods->lock)
{
    must(look != NULL && first % SLICE_MAX == 0);
    for (size_t i = first; i < first + SLICE_MAX && i < waiting_pods->n_entries; i++)
        if (waiting_pods->entry[i] != NULL &&
            !waiting_pod_lives(waiting_pods->entry[i], before_ms, user, look))
            waiting_pods_remove(waiting_pods, waiting_pods->entry[i]);
}

void waiting_pods_maintain(struct waiting_pods *waiting_pods, int64_t now_ms, void *user,
                           waiting_pods_look *look)
{
    must(look != NULL);
    mutex_lock(&waiting_pods->lock);
    look_after(waiting_pods, waiting_pods->next_entry, now_ms - SILENT_MAX_MS, user, look);
    waiting_pods->next_entry += SLICE_MAX;
    if (waiting_pods->next_entry >= waiting_pods->n_entries)
        waiting_pods->next_entry = 0;
    mutex_unlock(&waiting_pods->lock);
}

void waiting_pods_listed(struct waiting_pods *waiting_pods, int64_t asked_ms, void *user,
                         waiting_pods_look *look)
{
    must(look != NULL);
    /* Entries added while the lock is released asked after the list's request, so they stay. */
    for (size_t first = 0; first < WAITING_MAX; first += SLICE_MAX) {
        mutex_lock(&waiting_pods->lock);
        look_after(waiting_pods, first, asked_ms, user, look);
        mutex_unlock(&waiting_pods->lock);
    }
}

/* --- for people --- */

/* Copies into arena, because the entry may be freed once the lock is released. */
static void waiting_pod_show(const struct waiting_pod *pod, struct arena *arena,
                             struct waiting *out)
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
static char *waiting_pod_key(const struct waiting_pod *pod, struct arena *arena)
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

bool waiting_pods_names(struct waiting_pods *waiting_pods, size_t *place, struct arena *arena,
                        struct waiting_names *out)
{
    must(*place % SLICE_MAX == 0);

    out->count = 0;
    if (*place >= WAITING_MAX)
        return false;
    mutex_lock(&waiting_pods->lock);
    for (size_t i = *place; i < *place + SLICE_MAX && i < waiting_pods->n_entries; i++) {
        const struct waiting_pod *pod = waiting_pods->entry[i];
        if (pod == NULL || !waiting_pod_waits(pod))
            continue;
        out->key[out->count] = waiting_pod_key(pod, arena);
        out->uid[out->count++] = arena_copy(arena, text_of(pod->uid));
    }
    mutex_unlock(&waiting_pods->lock);
    *place += SLICE_MAX;
    return true;
}

bool waiting_pods_hold(struct waiting_pods *waiting_pods, struct text uid, struct arena *arena,
                       struct waiting *out)
{
    mutex_lock(&waiting_pods->lock);
    const struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    const bool found = pod != NULL && waiting_pod_waits(pod);
    if (found) {
        waiting_pod_show(pod, arena, out);
        if (pod->request_class != NULL)
            out->request_class =
                request_classes_hold(&waiting_pods->request_classes, pod->request_class->request);
        out->request = out->request_class != NULL ? out->request_class->request : NULL;
    }
    mutex_unlock(&waiting_pods->lock);
    return found;
}

void waiting_pods_let_go(struct waiting_pods *waiting_pods, struct waiting *waiting)
{
    must(waiting->uid != NULL);
    if (waiting->request_class == NULL)
        return;
    mutex_lock(&waiting_pods->lock);
    request_classes_let_go(&waiting_pods->request_classes, waiting->request_class);
    mutex_unlock(&waiting_pods->lock);
    waiting->request_class = NULL;
    waiting->request = NULL;
}

/* Waiting pods of one slice of the table, each with a reference to its request. */
struct brief_slice {
    size_t count;
    struct waiting_brief brief[SLICE_MAX];
    struct request_class *request_class[SLICE_MAX]; /* NULL: none */
};

static void take_briefs(struct waiting_pods *waiting_pods, size_t first, struct brief_slice *out)
    REQUIRES(waiting_pods->lock)
{
    must(first % SLICE_MAX == 0);
    out->count = 0;
    for (size_t i = first; i < first + SLICE_MAX && i < waiting_pods->n_entries; i++) {
        const struct waiting_pod *pod = waiting_pods->entry[i];
        if (pod == NULL || !waiting_pod_waits(pod))
            continue;
        struct request_class *held =
            pod->request_class != NULL
                ? request_classes_hold(&waiting_pods->request_classes, pod->request_class->request)
                : NULL;
        out->request_class[out->count] = held;
        out->brief[out->count++] = (struct waiting_brief){
            .reason = pod->state == WAITING_POD_REFUSED ? pod->refusal.reason : REASON_NONE,
            .since_ms = pod->asked.since_ms,
            .request = held != NULL ? held->request : NULL,
        };
    }
}

void waiting_pods_visit(struct waiting_pods *waiting_pods, void *user,
                        void (*visit)(void *user, const struct waiting_brief *brief))
{
    CLEANUP(xfreep) struct brief_slice *slice = xcalloc(1, sizeof *slice);

    must(visit != NULL);
    for (size_t first = 0; first < WAITING_MAX; first += SLICE_MAX) {
        mutex_lock(&waiting_pods->lock);
        take_briefs(waiting_pods, first, slice);
        mutex_unlock(&waiting_pods->lock);
        for (size_t i = 0; i < slice->count; i++)
            visit(user, &slice->brief[i]);
        mutex_lock(&waiting_pods->lock);
        for (size_t i = 0; i < slice->count; i++)
            if (slice->request_class[i] != NULL)
                request_classes_let_go(&waiting_pods->request_classes, slice->request_class[i]);
        mutex_unlock(&waiting_pods->lock);
    }
}

bool waiting_pods_has_verdict(struct waiting_pods *waiting_pods, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&waiting_pods->lock);
    const struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    const bool found = pod != NULL && pod->state != WAITING_POD_IDLE;
    mutex_unlock(&waiting_pods->lock);
    return found;
}

bool waiting_pods_has_asked(struct waiting_pods *waiting_pods, struct text uid)
{
    must(uid.len > 0);

    mutex_lock(&waiting_pods->lock);
    const bool found = map_find(&waiting_pods->by_uid, uid) != NULL;
    mutex_unlock(&waiting_pods->lock);
    return found;
}

bool waiting_pods_find(struct waiting_pods *waiting_pods, struct text uid, struct arena *arena,
                       struct waiting *out)
{
    must(out != NULL);

    mutex_lock(&waiting_pods->lock);
    const struct waiting_pod *pod = map_find(&waiting_pods->by_uid, uid);
    const bool found = pod != NULL && pod->state != WAITING_POD_IDLE;
    if (found)
        waiting_pod_show(pod, arena, out);
    mutex_unlock(&waiting_pods->lock);
    return found;
}

struct waiting_pods_bytes waiting_pods_bytes(struct waiting_pods *waiting_pods)
{
    mutex_lock(&waiting_pods->lock);
    struct waiting_pods_bytes bytes = {.waiting_pods = waiting_pods->bytes,
                                       .request_classes = waiting_pods->request_classes.bytes};
    mutex_unlock(&waiting_pods->lock);
    /* After the unlock: answers have a lock of their own, and no function holds both locks. */
    bytes.refusals = answers_bytes(&waiting_pods->answers);
    must(bytes.waiting_pods <= WAITING_PODS_BYTES_MAX &&
         bytes.request_classes <= REQUEST_CLASSES_BYTES_MAX);
    return bytes;
}
