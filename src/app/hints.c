#include "hints.h"

#include <pthread.h>
#include <string.h>

#include "milligpu/alloc.h"

struct offer {
    char *uid;
    int64_t at_ms;
    uint32_t listed;
    uint32_t growth; /* of the next list */
    const struct atom *node;
    uint32_t parts;
    struct ghost_part {
        const struct atom *gpu;
        uint32_t milli;
    } * part;
    struct offer *older;
    struct offer *newer;
};

struct kept {
    struct waiting is; /* uid and strings in this block, request on its own */
    struct request *request;
    uint32_t hash;
};

struct answer {
    struct request *request; /* NULL: free */
    uint32_t hash;
    enum reason reason;
    uint64_t names;
    uint64_t room;
    struct strbuf bytes;
};

struct hints {
    pthread_mutex_t lock; /* guards everything below */
    struct answer answer[ANSWERS_MAX];
    size_t next_answer;
    struct map offers;
    struct offer *oldest;
    struct offer *newest;
    struct map waiting;
};

struct hints *hints_new(void)
{
    struct hints *hints = xcalloc(1, sizeof *hints);

    must(pthread_mutex_init(&hints->lock, NULL) == 0);
    map_init(&hints->offers);
    map_init(&hints->waiting);
    return hints;
}

static void offer_free(struct offer *offer)
{
    xfree(offer->part);
    xfree(offer->uid);
    xfree(offer);
}

static void kept_free(struct kept *kept)
{
    must(kept->request == kept->is.request);

    xfree(kept->request);
    xfree(kept);
}

void hints_free(struct hints *hints)
{
    if (hints == NULL)
        return;
    struct offer *offer;
    for (size_t at = 0; (offer = map_next(&hints->offers, &at)) != NULL;)
        offer_free(offer);
    struct kept *kept;
    for (size_t at = 0; (kept = map_next(&hints->waiting, &at)) != NULL;)
        kept_free(kept);
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        if (hints->answer[i].request == NULL)
            continue;
        xfree(hints->answer[i].request);
        strbuf_done(&hints->answer[i].bytes);
    }
    map_done(&hints->offers);
    map_done(&hints->waiting);
    (void)pthread_mutex_destroy(&hints->lock);
    xfree(hints);
}

static void lock(struct hints *hints)
{
    must(pthread_mutex_lock(&hints->lock) == 0);
}

static void unlock(struct hints *hints)
{
    must(pthread_mutex_unlock(&hints->lock) == 0);
}

/* Offers stand in a list by age, so that the oldest make room and ghosts are found from the
   newest. */
static void offer_unlink(struct hints *hints, struct offer *offer)
{
    *(offer->older != NULL ? &offer->older->newer : &hints->oldest) = offer->newer;
    *(offer->newer != NULL ? &offer->newer->older : &hints->newest) = offer->older;
    offer->older = offer->newer = NULL;
}

static void offer_append(struct hints *hints, struct offer *offer)
{
    must(offer->older == NULL && offer->newer == NULL);
    offer->older = hints->newest;
    *(hints->newest != NULL ? &hints->newest->newer : &hints->oldest) = offer;
    hints->newest = offer;
}

static void offer_drop(struct hints *hints, struct offer *offer)
{
    must(hints->offers.count > 0);

    offer_unlink(hints, offer);
    must(map_take(&hints->offers, text_of(offer->uid)) == offer);
    offer_free(offer);
}

uint32_t hints_shortlist(struct hints *hints, struct text uid, uint32_t shortlist, int64_t now_ms)
{
    must(now_ms >= 0);

    if (shortlist == 0)
        return 0;
    lock(hints);
    struct offer *offer = map_find(&hints->offers, uid);
    uint64_t growth = 1;
    if (offer != NULL) {
        if (offer->listed > 1 && now_ms - offer->at_ms >= OFFER_STALE_MS &&
            offer->growth < NODES_MAX)
            offer->growth *= OFFER_GROWTH;
        growth = offer->growth;
    }
    unlock(hints);
    const uint64_t longer = shortlist * growth;
    must(longer >= shortlist);
    return longer < NODES_MAX ? (uint32_t)longer : NODES_MAX;
}

uint32_t hints_ghosts(struct hints *hints, struct text uid, int64_t now_ms,
                      struct ghost ghost[GHOSTS_MAX])
{
    uint32_t count = 0;

    lock(hints);
    must(hints->offers.count <= OFFERS_MAX);
    for (const struct offer *offer = hints->newest; offer != NULL; offer = offer->older) {
        if (now_ms - offer->at_ms >= OFFER_LIVE_MS)
            break; /* all further ones are older still */
        if (text_is(uid, offer->uid))
            continue;
        for (uint32_t i = 0; i < offer->parts && count < GHOSTS_MAX; i++)
            ghost[count++] = (struct ghost){
                .node = offer->node, .gpu = offer->part[i].gpu, .milli = offer->part[i].milli};
    }
    unlock(hints);
    return count;
}

static struct offer *offer_of(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    struct offer *offer = map_find(&hints->offers, uid);

    if (offer != NULL) {
        offer_unlink(hints, offer);
        return offer;
    }
    if (hints->offers.count == OFFERS_MAX)
        offer_drop(hints, hints->oldest);
    offer = xcalloc(1, sizeof *offer);
    offer->uid = xmalloc(uid.len + 1);
    memcpy(offer->uid, uid.at, uid.len);
    offer->uid[uid.len] = '\0';
    offer->growth = 1;
    (void)map_put(&hints->offers, text_of(offer->uid), offer);
    return offer;
}

void hints_offered(struct hints *hints, struct text uid, int64_t now_ms, uint32_t listed,
                   const struct candidate *best, const struct request *request)
{
    const struct placement *placement = best->placement;

    must(listed > 0);
    must(placement != NULL && placement->parts > 0);
    lock(hints);
    struct offer *offer = offer_of(hints, uid);
    offer->at_ms = now_ms;
    offer->listed = listed;
    offer->node = best->node->name;
    offer->parts = placement->parts;
    offer->part = xrealloc(offer->part, placement->parts, sizeof *offer->part);
    for (uint32_t i = 0; i < placement->parts; i++) {
        const struct part *part = &placement->part[i];
        offer->part[i].gpu = best->node->gpu[part->gpu].id;
        offer->part[i].milli = request->want[part->want].milli;
    }
    offer_append(hints, offer);
    unlock(hints);
}

static struct kept *kept_new(const struct waiting *waiting)
{
    must(waiting->uid[0] != '\0' && waiting->text != NULL);
    const size_t bytes = strlen(waiting->uid) + strlen(waiting->namespace) + strlen(waiting->name) +
                         strlen(waiting->text) + 4;
    struct kept *kept = xmalloc(sizeof *kept + bytes);
    char *text = (char *)(kept + 1);

    kept->is = *waiting;
    kept->is.uid = text_lay(&text, waiting->uid);
    kept->is.namespace = text_lay(&text, waiting->namespace);
    kept->is.name = text_lay(&text, waiting->name);
    kept->is.text = text_lay(&text, waiting->text);
    kept->request = waiting->request != NULL ? request_clone(waiting->request) : NULL;
    kept->hash = waiting->request != NULL ? request_hash(waiting->request) : 0;
    kept->is.request = kept->request;
    return kept;
}

void hints_refused(struct hints *hints, const struct waiting *waiting)
{
    must(waiting->reason != REASON_NONE);

    struct kept *kept = kept_new(waiting);

    lock(hints);
    struct kept *before = map_take(&hints->waiting, text_of(kept->is.uid));
    if (before != NULL) {
        kept->is.since_ms = before->is.since_ms;
        kept->is.asks = before->is.asks + 1;
        kept_free(before);
    } else {
        kept->is.since_ms = waiting->last_ms;
        kept->is.asks = 1;
    }
    if (hints->waiting.count < WAITING_MAX) {
        (void)map_put(&hints->waiting, text_of(kept->is.uid), kept);
        kept = NULL;
    }
    unlock(hints);
    if (kept != NULL)
        kept_free(kept); /* beyond the bound a waiting pod is only not remembered */
}

static bool answers(const struct answer *answer, const struct refusal_key *key, uint32_t hash)
{
    must(key->request != NULL);

    return answer->request != NULL && answer->hash == hash && answer->room == key->room &&
           answer->names == key->names && request_eq(answer->request, key->request);
}

bool hints_answer_find(struct hints *hints, const struct refusal_key *key, struct strbuf *out,
                       enum reason *out_reason)
{
    const uint32_t hash = request_hash(key->request);
    bool found = false;

    must(request_asks(key->request));
    lock(hints);
    for (size_t i = 0; i < ANSWERS_MAX && !found; i++) {
        const struct answer *answer = &hints->answer[i];
        found = answers(answer, key, hash);
        if (found) {
            strbuf_text(out, (struct text){answer->bytes.data, answer->bytes.len});
            *out_reason = answer->reason;
        }
    }
    unlock(hints);
    return found;
}

void hints_answer_keep(struct hints *hints, const struct refusal_key *key, struct text bytes,
                       enum reason reason)
{
    must(bytes.len > 0 && reason != REASON_NONE);

    const uint32_t hash = request_hash(key->request);

    lock(hints);
    /* The oldest goes; an answer about an older room goes first by being overtaken. */
    struct answer *answer = &hints->answer[hints->next_answer++ % ANSWERS_MAX];
    if (answer->request == NULL)
        strbuf_init(&answer->bytes);
    xfree(answer->request);
    answer->request = request_clone(key->request);
    answer->hash = hash;
    answer->names = key->names;
    answer->room = key->room;
    answer->reason = reason;
    strbuf_reset(&answer->bytes);
    strbuf_text(&answer->bytes, bytes);
    unlock(hints);
}

static void drop_waiting(struct hints *hints, struct text uid)
{
    must(uid.at != NULL);

    struct kept *kept = map_take(&hints->waiting, uid);

    if (kept != NULL)
        kept_free(kept);
}

void hints_settled(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    lock(hints);
    struct offer *offer = map_find(&hints->offers, uid);
    if (offer != NULL)
        offer_drop(hints, offer);
    drop_waiting(hints, uid);
    unlock(hints);
}

void hints_fits(struct hints *hints, struct text uid)
{
    must(uid.len > 0);

    lock(hints);
    drop_waiting(hints, uid);
    unlock(hints);
}

size_t hints_waiting(struct hints *hints)
{
    lock(hints);
    const size_t count = hints->waiting.count;
    unlock(hints);
    return count;
}

/* Distinct requests, newest knowledge irrelevant: whoever asks the same fits alike. */
enum { DISTINCT_MAX = 64 };

static bool fits_any(const struct request *request, const struct node *const *node, size_t nodes)
{
    struct placement *placement = xmalloc(sizeof *placement);
    bool fits = false;

    must(request_asks(request));
    for (size_t i = 0; i < nodes && !fits; i++) {
        struct room room;
        room_of(node[i], &room);
        fits = place_search(&room, request, placement) == REASON_NONE;
    }
    xfree(placement);
    return fits;
}

bool hints_would_fit(struct hints *hints, const struct node *const *node, size_t nodes)
{
    must(nodes == 0 || node != NULL);

    const struct kept *tried[DISTINCT_MAX];
    size_t count = 0;
    bool fits = false;
    const struct kept *kept;

    lock(hints);
    for (size_t at = 0; !fits && (kept = map_next(&hints->waiting, &at)) != NULL;) {
        size_t i = 0;
        if (kept->request == NULL)
            continue;
        while (i < count &&
               (tried[i]->hash != kept->hash || !request_eq(tried[i]->request, kept->request)))
            i++;
        if (i < count)
            continue;
        if (count == DISTINCT_MAX) {
            fits = true; /* too many kinds to try them all here: a ring too many does no harm */
            break;
        }
        tried[count++] = kept;
        fits = fits_any(kept->request, node, nodes);
    }
    unlock(hints);
    return fits;
}

void hints_each(struct hints *hints, void *user,
                void (*visit)(void *user, const struct waiting *waiting))
{
    must(visit != NULL);

    const struct kept *kept;

    lock(hints);
    for (size_t at = 0; (kept = map_next(&hints->waiting, &at)) != NULL;)
        visit(user, &kept->is);
    unlock(hints);
}

bool hints_find(struct hints *hints, struct text uid, struct arena *arena, struct waiting *out)
{
    must(out != NULL);

    lock(hints);
    const struct kept *kept = map_find(&hints->waiting, uid);
    if (kept != NULL) {
        *out = kept->is;
        out->uid = arena_copy(arena, text_of(kept->is.uid));
        out->namespace = arena_copy(arena, text_of(kept->is.namespace));
        out->name = arena_copy(arena, text_of(kept->is.name));
        out->text = arena_copy(arena, text_of(kept->is.text));
        out->request = NULL; /* stays under the lock */
    }
    unlock(hints);
    return kept != NULL;
}
