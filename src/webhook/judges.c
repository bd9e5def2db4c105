/*
 * The pool of judges. Taken and given by webhook threads, once for each filter and prioritize; the
 * metrics page reads the size. Judges are made and freed outside of the lock, because that takes
 * longer than a look at a few places.
 */
#include "milligpu/webhook/judges.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

struct pooled_judge {
    bool taken;                  /* by a question, which may be about to make the judge */
    struct judge *judge;         /* NULL: none */
    uint64_t turn;               /* when it was given back last; 0: never, or none */
    struct judge_counts counted; /* as of then */
};

struct judges {
    struct mutex lock; /* guards the places, not the judges that are taken */
    uint32_t max;
    uint64_t turn; /* judges that were given back so far */
    struct pooled_judge place[JUDGES_MAX];
};

struct judges *judges_new(uint32_t max)
{
    must(max > 0 && max <= JUDGES_MAX);

    struct judges *judges = xcalloc(1, sizeof *judges);

    judges->max = max;
    mutex_init(&judges->lock);
    return judges;
}

void judges_free(struct judges *judges)
{
    if (judges == NULL)
        return;
    for (uint32_t i = 0; i < judges->max; i++) {
        must(!judges->place[i].taken);
        judge_free(judges->place[i].judge);
    }
    mutex_done(&judges->lock);
    xfree(judges);
}

/* The free place whose judge was used last, or one without a judge; NULL: there is none. */
static struct pooled_judge *take_place(struct judges *judges) REQUIRES(judges->lock)
{
    struct pooled_judge *best = NULL;

    for (uint32_t i = 0; i < judges->max; i++) {
        struct pooled_judge *place = &judges->place[i];
        if (!place->taken && (best == NULL || place->turn > best->turn))
            best = place;
    }
    if (best != NULL) {
        must((best->judge != NULL) == (best->turn > 0));
        best->taken = true;
    }
    return best;
}

/* Moves out the judges that no question has, if no question needs one or they are long unused. */
static void drop_unused(struct judges *judges, bool needed, struct judge *out[JUDGES_MAX])
    REQUIRES(judges->lock)
{
    for (uint32_t i = 0; i < judges->max; i++) {
        struct pooled_judge *place = &judges->place[i];
        must(place->turn <= judges->turn);
        if (place->taken || (needed && judges->turn - place->turn <= JUDGES_UNUSED))
            continue;
        out[i] = place->judge;
        *place = (struct pooled_judge){0};
    }
}

static struct judge *fill_place(struct judges *judges, struct pooled_judge *place)
{
    struct judge *judge = judge_new();

    mutex_lock(&judges->lock);
    must(place->taken && place->judge == NULL);
    place->judge = judge;
    mutex_unlock(&judges->lock);
    return judge;
}

struct judge *judges_take(struct judges *judges, const struct snapshot *snapshot)
{
    const bool needed = outlook_needs_workload(snapshot->outlook);
    struct judge *unused[JUDGES_MAX] = {NULL};
    struct judge *judge = NULL;

    mutex_lock(&judges->lock);
    struct pooled_judge *place = needed ? take_place(judges) : NULL;
    if (place != NULL)
        judge = place->judge;
    drop_unused(judges, needed, unused);
    mutex_unlock(&judges->lock);
    for (uint32_t i = 0; i < JUDGES_MAX; i++)
        judge_free(unused[i]);
    return place != NULL && judge == NULL ? fill_place(judges, place) : judge;
}

void judges_give(struct judges *judges, struct judge *judge)
{
    struct judge_counts before = {0};
    bool known = false;

    if (judge == NULL)
        return;
    const struct judge_counts now = judge_counts(judge);
    mutex_lock(&judges->lock);
    for (uint32_t i = 0; i < judges->max && !known; i++) {
        struct pooled_judge *place = &judges->place[i];
        known = place->taken && place->judge == judge;
        if (!known)
            continue;
        before = place->counted;
        place->counted = now;
        place->turn = ++judges->turn;
        place->taken = false;
    }
    mutex_unlock(&judges->lock);
    must(known);
    must(now.found >= before.found && now.made >= before.made);
    metric_add(M_JUDGED_NODES, LABEL_VALUES("found"), now.found - before.found);
    metric_add(M_JUDGED_NODES, LABEL_VALUES("made"), now.made - before.made);
}

size_t judges_bytes(struct judges *judges)
{
    size_t bytes = 0;

    mutex_lock(&judges->lock);
    for (uint32_t i = 0; i < judges->max; i++)
        bytes += judges->place[i].counted.bytes;
    mutex_unlock(&judges->lock);
    must(bytes <= (size_t)JUDGES_MAX * JUDGE_BYTES_MAX);
    return bytes;
}
