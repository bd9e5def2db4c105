/*
 * The pool of score caches. Webhook threads take and give one for each filter and prioritize; the
 * metrics page reads the size. Score caches are created and freed outside of the lock, which is
 * held only to scan a few places.
 */
#include "milligpu/webhook/score_caches.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

struct pooled_cache {
    bool taken; /* in use by a call, which may still have to create the score cache */
    struct score_cache *cache;         /* owned; NULL if none */
    uint64_t turn;                     /* value of the pool's turn at its last return; 0 if none */
    struct score_cache_counts counted; /* counts at its last return */
};

struct score_caches {
    struct mutex lock; /* guards the places, not the score caches in use */
    uint32_t max;
    uint64_t turn; /* number of returns so far */
    struct pooled_cache pooled[SCORE_CACHES_MAX];
};

struct score_caches *score_caches_new(uint32_t max)
{
    must(max > 0 && max <= SCORE_CACHES_MAX);

    struct score_caches *score_caches = xcalloc(1, sizeof *score_caches);

    score_caches->max = max;
    mutex_init(&score_caches->lock);
    return score_caches;
}

void score_caches_free(struct score_caches *score_caches)
{
    if (score_caches == NULL)
        return;
    for (uint32_t i = 0; i < score_caches->max; i++) {
        must(!score_caches->pooled[i].taken);
        score_cache_free(score_caches->pooled[i].cache);
    }
    mutex_done(&score_caches->lock);
    xfree(score_caches);
}

/*
 * Takes the free place whose score cache was used last, or one without a score cache; NULL if all
 * are taken.
 */
static struct pooled_cache *take_pooled(struct score_caches *score_caches)
    REQUIRES(score_caches->lock)
{
    struct pooled_cache *best = NULL;

    for (uint32_t i = 0; i < score_caches->max; i++) {
        struct pooled_cache *place = &score_caches->pooled[i];
        if (!place->taken && (best == NULL || place->turn > best->turn))
            best = place;
    }
    if (best != NULL) {
        must((best->cache != NULL) == (best->turn > 0));
        best->taken = true;
    }
    return best;
}

/* Moves out those not used for SCORE_CACHES_UNUSED calls, for the caller to free. */
static void drop_unused(struct score_caches *score_caches,
                        struct score_cache *out[SCORE_CACHES_MAX]) REQUIRES(score_caches->lock)
{
    for (uint32_t i = 0; i < score_caches->max; i++) {
        struct pooled_cache *place = &score_caches->pooled[i];
        must(place->turn <= score_caches->turn);
        if (place->taken || score_caches->turn - place->turn <= SCORE_CACHES_UNUSED)
            continue;
        out[i] = place->cache;
        *place = (struct pooled_cache){0};
    }
}

static struct score_cache *fill_pooled(struct score_caches *score_caches,
                                       struct pooled_cache *place)
{
    struct score_cache *cache = score_cache_new();

    mutex_lock(&score_caches->lock);
    must(place->taken && place->cache == NULL);
    place->cache = cache;
    mutex_unlock(&score_caches->lock);
    return cache;
}

struct score_cache *score_caches_take(struct score_caches *score_caches)
{
    struct score_cache *unused[SCORE_CACHES_MAX] = {NULL};
    struct score_cache *cache = NULL;

    mutex_lock(&score_caches->lock);
    struct pooled_cache *place = take_pooled(score_caches);
    if (place != NULL)
        cache = place->cache;
    drop_unused(score_caches, unused);
    mutex_unlock(&score_caches->lock);
    for (uint32_t i = 0; i < SCORE_CACHES_MAX; i++)
        score_cache_free(unused[i]);
    return place != NULL && cache == NULL ? fill_pooled(score_caches, place) : cache;
}

void score_caches_give(struct score_caches *score_caches, struct score_cache *cache)
{
    struct score_cache_counts before = {0};
    bool known = false;

    if (cache == NULL)
        return;
    const struct score_cache_counts now = score_cache_counts(cache);
    mutex_lock(&score_caches->lock);
    for (uint32_t i = 0; i < score_caches->max && !known; i++) {
        struct pooled_cache *place = &score_caches->pooled[i];
        known = place->taken && place->cache == cache;
        if (!known)
            continue;
        before = place->counted;
        place->counted = now;
        place->turn = ++score_caches->turn;
        place->taken = false;
    }
    mutex_unlock(&score_caches->lock);
    must(known);
    must(now.found >= before.found && now.made >= before.made);
    metric_add(M_JUDGED_NODES, LABEL_VALUES("found"), now.found - before.found);
    metric_add(M_JUDGED_NODES, LABEL_VALUES("made"), now.made - before.made);
}

size_t score_caches_bytes(struct score_caches *score_caches)
{
    size_t bytes = 0;

    mutex_lock(&score_caches->lock);
    for (uint32_t i = 0; i < score_caches->max; i++)
        bytes += score_caches->pooled[i].counted.bytes;
    mutex_unlock(&score_caches->lock);
    must(bytes <= (size_t)SCORE_CACHES_MAX * SCORE_CACHE_BYTES_MAX);
    return bytes;
}
