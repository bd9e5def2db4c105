/*
 * Counts, over all nodes of a snapshot, why a request does not fit, and finds out whether it never
 * can. Called by REST in admin threads, and in part by filter_explain(). Stateless.
 */
#include "milligpu/core/answer/unschedulable.h"

#include <stdlib.h>
#include <string.h>

#include "milligpu/core/rank/policy.h"

/* --- the moment --- */

void moment_add(struct moment *moment, const struct room *room, enum unusable unusable,
                const struct request *request)
{
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    must(request_asks(request));
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const struct gpu_room *gpu = &room->gpu[i];
        if (!request_takes_model(request, atom_text(gpu->model)))
            continue;
        /* Free milli on a closed node do not count as free, as in every other view. */
        const enum reason closed = gpu->closed != REASON_NONE ? gpu->closed : room->closed;
        moment->gpus++;
        moment->closed[closed]++;
        if (closed == REASON_NONE)
            moment->unusable[unusable]++;
        if (closed != REASON_NONE || unusable != USABLE || gpu->free_milli == 0)
            continue;
        moment->open++;
        moment->free_milli += gpu->free_milli;
        if (gpu->free_milli > moment->piece_milli)
            moment->piece_milli = gpu->free_milli;
        if (gpu->free_mib > moment->piece_mib)
            moment->piece_mib = gpu->free_mib;
    }
    must(moment->open <= moment->gpus);
    must(moment->piece_milli <= moment->free_milli);
}

void moment_format(struct strbuf *out, const struct moment *moment)
{
    must(moment->open <= moment->gpus);
    must(moment->open > 0 || moment->free_milli == 0);
    strbuf_printf(out, "largest free piece %u milli, %llu milli free on %llu of %llu GPUs",
                  moment->piece_milli, (unsigned long long)moment->free_milli,
                  (unsigned long long)moment->open, (unsigned long long)moment->gpus);
    if (moment->piece_mib > 0)
        strbuf_printf(out, ", at most %u MiB on one", moment->piece_mib);
    for (enum reason closed = REASON_MIXED; closed < REASON_ROOM; closed++)
        if (moment->closed[closed] > 0)
            strbuf_printf(out, ", %llu %s", (unsigned long long)moment->closed[closed],
                          reason_name(closed));
    for (enum unusable why = UNUSABLE_LEAVING; why < UNUSABLES; why++)
        if (moment->unusable[why] > 0)
            strbuf_printf(out, ", %llu unusable (%s)", (unsigned long long)moment->unusable[why],
                          unusable_name(why));
}

bool unschedulable_has_moment(enum reason why)
{
    must(why < REASONS);
    return why == REASON_NONE || reason_class(why) == REASON_CLASS_MOMENT;
}

/* --- never --- */

/* The best that the nodes could offer, for the sentence. */
struct best_fit {
    struct cause nearest; /* best reason of all nodes, if each were empty; NONE: no nodes */
    bool fits;            /* some node fits when empty, or may: the search was incomplete */
    uint32_t milli;       /* largest GPU of a requested model */
    uint32_t mib;         /* maximum memory of the smallest part, raised if allowed */
    bool raises;          /* some node raises shares */
    uint32_t gpus;        /* maximum number of GPUs on one node that fit the smallest part */
};

/*
 * Sets the room as if all pods were gone and all GPUs repaired, present and open. free_milli of the
 * room is not updated: it only ranks nodes.
 */
static void empty_room(struct room *room)
{
    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    room->closed = room->n_gpus == 0 ? REASON_NO_GPU : REASON_NONE;
    room->shared = false;
    room->idle = false; /* a host does not stay reserved */
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        struct gpu_room *gpu = &room->gpu[i];
        gpu->free_milli = gpu->milli;
        gpu->free_mib = gpu->mib;
        gpu->closed = REASON_NONE;
        must(gpu->milli <= GPU_MILLI);
    }
}

static uint32_t smallest_part(const struct request *request)
{
    uint32_t least = GPU_MILLI;

    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++)
        least = request->want[i].milli < least ? request->want[i].milli : least;
    must(least > 0);
    return least;
}

static void best_fit_add_gpus(struct best_fit *best_fit, const struct room *room,
                              const struct plan *plan)
{
    const struct request *request = plan->request;
    const uint32_t least = smallest_part(request);
    const bool raises = plan_raises(plan);
    uint32_t gpus = 0;

    must(room->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < room->n_gpus; i++) {
        const struct gpu_room *gpu = &room->gpu[i];
        if (!request_takes_model(request, atom_text(gpu->model)))
            continue;
        best_fit->milli = gpu->milli > best_fit->milli ? gpu->milli : best_fit->milli;
        if (gpu->milli < least)
            continue;
        const uint32_t mib = raises ? gpu->mib : inventory_share_mib(gpu->mib, gpu->milli, least);
        best_fit->mib = mib > best_fit->mib ? mib : best_fit->mib;
        gpus += mib >= request->memory_mib;
    }
    best_fit->gpus = gpus > best_fit->gpus ? gpus : best_fit->gpus;
    best_fit->raises = best_fit->raises || raises;
    must(best_fit->gpus <= GPUS_PER_NODE_MAX);
}

/* A node without a Node object is not part of the present cluster. */
static void best_fit_add(struct best_fit *best_fit, struct plan *plan, const struct node *node)
{
    UNSET struct room room;
    struct rank rank;

    must(plan->request != NULL);
    if (best_fit->fits || node->gone)
        return;
    room_of(node, &room);
    empty_room(&room);
    const struct cause cause = plan_cause(plan, place_evaluate(plan, &room, &rank));
    const enum reason why = cause.why;
    best_fit_add_gpus(best_fit, &room, plan);
    if (why > best_fit->nearest.why)
        best_fit->nearest = cause;
    /* A rule with a window may let it in later. */
    best_fit->fits = why == REASON_NONE || why == REASON_UNSEARCHED ||
                     (why == REASON_RULE && rulebook_has_windows(plan->context->rulebook));
    must(best_fit->fits || reason_class(why) == REASON_CLASS_KIND || why == REASON_ROOM);
}

static uint32_t most_parts(const struct request *request)
{
    uint32_t most = 0;

    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++)
        most = request->want[i].parts > most ? request->want[i].parts : most;
    must(most > 0 || request->n_wants == 0);
    return most;
}

/* The nearest reason: the first that would have to change. */
static void unschedulable_say_never(const struct best_fit *best_fit,
                                    const struct snapshot *snapshot, const struct request *request,
                                    struct strbuf *out)
{
    struct refusal refusal = {.text = ""};
    char models[UNSCHEDULABLE_TEXT_MAX];

    must(!best_fit->fits);
    must(out->len == 0);
    if (best_fit->nearest.why == REASON_NONE || best_fit->nearest.why == REASON_NO_GPU) {
        strbuf_str(out, "no node of this cluster has GPUs to share");
        return;
    }
    if (best_fit->nearest.why == REASON_MODEL) {
        unschedulable_missing_model(snapshot, request, models, sizeof models);
        must(models[0] != '\0');
        strbuf_str(out, models);
        return;
    }
    strbuf_str(out, "no node of this cluster, as it is, can ever serve it: ");
    policy_refuse(snapshot->context, best_fit->nearest, request, &refusal);
    strbuf_str(out, refusal.text);
    if (best_fit->nearest.why == REASON_SMALL) {
        strbuf_printf(out, "; the largest has %u milli", best_fit->milli);
    } else if (best_fit->nearest.why == REASON_MEMORY && best_fit->raises) {
        strbuf_printf(out, ", raised or not; the most that one has is %u MiB", best_fit->mib);
    } else if (best_fit->nearest.why == REASON_MEMORY) {
        strbuf_printf(out, "; the most that comes with %u milli is %u MiB", smallest_part(request),
                      best_fit->mib);
    } else if (best_fit->nearest.why == REASON_MEMORY_UNKNOWN) {
        strbuf_str(out, "; label nvidia.com/gpu.memory would tell it, or mib in milligpu.io/gpus");
    } else if (best_fit->nearest.why == REASON_FEW) {
        strbuf_printf(out, "; one container asks for %u, and no node has more than %u that suit it",
                      most_parts(request), best_fit->gpus);
    } else if (best_fit->nearest.why != REASON_RULE) {
        strbuf_str(out, ", even if a node were empty");
    }
}

/* --- who may not be used --- */

static bool is_same_bar(const struct unschedulable_bar *bar, enum unusable why, const char *taint)
{
    must(bar->nodes > 0);
    must(why != USABLE);
    if (bar->why != why || (bar->taint == NULL) != (taint == NULL))
        return false;
    return taint == NULL || strcmp(bar->taint, taint) == 0;
}

static struct unschedulable_bar *find_bar(struct unschedulable *unschedulable, enum unusable why,
                                          const char *taint)
{
    must(unschedulable->n_bars <= ARRAY_LEN(unschedulable->bar));
    must(why != USABLE && why < UNUSABLES);
    for (uint32_t i = 0; i < unschedulable->n_bars; i++)
        if (is_same_bar(&unschedulable->bar[i], why, taint))
            return &unschedulable->bar[i];
    return NULL;
}

/* Taint keys are unbounded: those beyond the limit are counted together. */
static void unschedulable_add_bar(struct unschedulable *unschedulable, const struct node *node,
                                  const struct unusable_cause *cause)
{
    const char *taint = cause->taint != NULL ? cause->taint->key : NULL;
    struct unschedulable_bar *bar = find_bar(unschedulable, cause->why, taint);

    must(cause->why != USABLE);
    if (bar == NULL && unschedulable->n_bars >= UNSCHEDULABLE_BARS_MAX) {
        taint = NULL;
        bar = find_bar(unschedulable, cause->why, NULL);
    }
    if (bar == NULL) {
        bar = &unschedulable->bar[unschedulable->n_bars++];
        *bar = (struct unschedulable_bar){.why = cause->why, .taint = taint};
    }
    if (bar->nodes++ < UNSCHEDULABLE_NAMES_MAX)
        bar->name[bar->n_names++] = node->name;
    must(unschedulable->n_bars <= ARRAY_LEN(unschedulable->bar));
}

static int most_nodes_first(const void *a, const void *b)
{
    const struct unschedulable_bar *left = a;
    const struct unschedulable_bar *right = b;

    if (left->nodes != right->nodes)
        return left->nodes > right->nodes ? -1 : 1;
    if (left->why != right->why)
        return left->why < right->why ? -1 : 1;
    must(left->why != USABLE);
    must(left == right || left->taint != right->taint);
    if (left->taint == NULL || right->taint == NULL)
        return (left->taint == NULL) - (right->taint == NULL);
    return strcmp(left->taint, right->taint);
}

uint32_t unschedulable_barred(const struct unschedulable *unschedulable)
{
    uint32_t nodes = 0;

    must(unschedulable->n_bars <= ARRAY_LEN(unschedulable->bar));
    for (uint32_t i = 0; i < unschedulable->n_bars; i++)
        nodes += unschedulable->bar[i].nodes;
    must(nodes >= unschedulable->n_bars);
    return nodes;
}

/* --- all nodes --- */

void unschedulable_of(const struct snapshot *snapshot,
                      const struct unschedulable_question *question, struct arena *arena,
                      struct unschedulable *out)
{
    const struct request *request = question->request;
    CLEANUP(strbuf_done) struct strbuf text;
    UNSET struct room room;
    UNSET struct plan plan;
    struct best_fit best_fit = {.nearest = {.why = REASON_NONE}};
    struct rank rank;
    const struct node *node;

    must(request_asks(request));
    strbuf_init(&text);
    *out = (struct unschedulable){0};
    plan_init(&plan, request, snapshot->context);
    plan_remember(&plan, arena);
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;) {
        room_of(node, &room);
        const enum reason why = place_evaluate(&plan, &room, &rank);
        must(why < REASONS);
        const struct cause cause = plan_cause(&plan, why);
        const struct unusable_cause bar = node_bar(node, question->demands);
        if (why == REASON_NONE && bar.why != USABLE)
            unschedulable_add_bar(out, node, &bar);
        else
            out->nodes[cause.why]++;
        if (cause.why == REASON_RULE)
            out->rule_nodes[cause.rule]++;
        if (why == REASON_RESERVE)
            out->reserved[cause.rule].nodes++;
        moment_add(why == REASON_RESERVE ? &out->reserved[cause.rule].moment : &out->moment[why],
                   &room, bar.why, request);
        best_fit.fits = best_fit.fits || why == REASON_NONE;
        best_fit_add(&best_fit, &plan, node);
    }
    qsort(out->bar, out->n_bars, sizeof *out->bar, most_nodes_first);
    out->never = !best_fit.fits;
    if (!out->never)
        return;
    unschedulable_say_never(&best_fit, snapshot, request, &text);
    must(text.len > 0);
    text_clip((struct text){text.data, text.len}, out->never_text, sizeof out->never_text);
}

void unschedulable_reason_text(const struct policy_context *context, const struct request *request,
                               struct cause cause, char out[REASON_BYTES_MAX])
{
    CLEANUP(strbuf_done) struct strbuf kept;
    const enum reason why = cause.why;
    struct refusal refusal = {.text = ""};

    must(why < REASONS);
    out[0] = '\0';
    strbuf_init(&kept);
    if (why == REASON_NONE)
        return;
    if (why == REASON_RESERVE) {
        policy_say_reserve(context, cause.rule, &kept);
        text_clip((struct text){kept.data, kept.len}, out, REASON_BYTES_MAX);
        return;
    }
    const bool lacks = reason_class(why) != REASON_CLASS_MOMENT || why == REASON_ROOM;
    if (lacks)
        policy_refuse(context, cause, request, &refusal);
    text_clip(text_of(lacks ? refusal.text : reason_help(why)), out, REASON_BYTES_MAX);
    must(out[0] != '\0');
}
