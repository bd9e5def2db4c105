/*
 * Finds out why a node is unusable, for a pod or for sums. Called by drafts of nodes in the
 * writer's thread, by views in admin threads, and by milligpuctl play.
 */
#include "milligpu/core/facts/node_filter.h"

#include <string.h>

#include "milligpu/core/facts/tolerations.h"

static const struct {
    const char *key;
    enum unusable why;
} well_known[] = {
#define X(key, why) {key, why},
    WELL_KNOWN_TAINTS(X)
#undef X
};

/* spec.unschedulable and the condition Ready, as the taints that the node controller derives. */
static const struct taint unschedulable_taint = {"node.kubernetes.io/unschedulable", "",
                                                 EFFECT_NO_SCHEDULE};
static const struct taint not_ready_taint = {"node.kubernetes.io/not-ready", "",
                                             EFFECT_NO_SCHEDULE};

static enum unusable unusable_of(const struct taint *taint)
{
    must(taint_is_hard(taint));
    must(taint->key != NULL);
    for (size_t i = 0; i < ARRAY_LEN(well_known); i++)
        if (strcmp(well_known[i].key, taint->key) == 0)
            return well_known[i].why;
    return UNUSABLE_TAINTED;
}

/* The tolerations to consider: of one pod, or of all known pods. */
struct taint_viewer {
    const struct node_demands *demands; /* NULL: sums */
    const struct tolerations *known;    /* NULL: no tolerations */
};

static bool is_tolerated(const struct taint_viewer *viewer, const struct taint *taint,
                         enum unusable why)
{
    const struct node_demands *demands = viewer->demands;

    must(why != USABLE);
    must(demands == NULL || viewer->known == NULL);
    if (demands == NULL)
        return why == UNUSABLE_TAINTED && viewer->known != NULL &&
               tolerations_cover(viewer->known, taint);
    return node_demands_tolerate(demands, taint);
}

/* Keeps the first reason in table order, with its first taint. */
static void look_at_taint(const struct taint_viewer *viewer, const struct taint *taint,
                          struct unusable_cause *cause)
{
    if (!taint_is_hard(taint))
        return;
    const enum unusable why = unusable_of(taint);
    must(why != USABLE && why <= UNUSABLE_TAINTED);
    must((cause->why == USABLE) == (cause->taint == NULL));
    if ((cause->why == USABLE || why < cause->why) && !is_tolerated(viewer, taint, why))
        *cause = (struct unusable_cause){why, taint};
}

static struct unusable_cause look_at_taints(const struct taint_viewer *viewer,
                                            const struct node_taints *taints)
{
    struct unusable_cause cause = {USABLE, NULL};

    if (taints == NULL)
        return cause;
    must(taints->n_taints == 0 || taints->taint != NULL);
    for (uint32_t i = 0; i < taints->n_taints; i++)
        look_at_taint(viewer, &taints->taint[i], &cause);
    if (taints->unschedulable)
        look_at_taint(viewer, &unschedulable_taint, &cause);
    if (taints->not_ready)
        look_at_taint(viewer, &not_ready_taint, &cause);
    if (cause.why == USABLE && taints->unreadable)
        cause.why = UNUSABLE_UNREADABLE;
    must((cause.taint != NULL) == (cause.why >= UNUSABLE_LEAVING && cause.why <= UNUSABLE_TAINTED));
    return cause;
}

struct unusable_cause taints_bar(const struct node_taints *taints,
                                 const struct node_demands *demands)
{
    const struct taint_viewer viewer = {.demands = demands};

    must(demands != NULL);
    must(demands->n_tolerations == 0 || demands->toleration != NULL);
    return look_at_taints(&viewer, taints);
}

struct unusable_cause taints_close(const struct node_taints *taints,
                                   const struct tolerations *known)
{
    const struct taint_viewer viewer = {.known = known};
    const struct unusable_cause cause = look_at_taints(&viewer, taints);

    must(cause.why < UNUSABLE_AFFINITY);
    must(taints != NULL || cause.why == USABLE);
    return cause;
}
