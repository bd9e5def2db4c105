#include <stdarg.h>
#include <stdio.h>

#include "milligpu/reconcile.h"

/* Where the drift of one node goes. */
struct report {
    const struct node *node;
    void *user;
    void (*emit)(void *user, const struct drift *drift);
};

static void say(const struct report *report, struct drift drift, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static void say(const struct report *report, struct drift drift, const char *fmt, ...)
{
    must(drift.kind != NULL);
    must(report->emit != NULL);

    va_list args;
    va_start(args, fmt);
    const int length = vsnprintf(drift.text, sizeof drift.text, fmt, args);
    va_end(args);
    must(length > 0);
    drift.node = report->node;
    report->emit(report->user, &drift);
}

static void of_node(const struct report *report)
{
    const struct node *node = report->node;
    const struct drift at = {.since_ms = node->since_ms};
    struct drift drift = at;

    if (node->gone) {
        drift.kind = "node_gone";
        say(report, drift, "the Node object is gone, %u of its pods are not", node->allocations);
    }
    if (node->problem != PROBLEM_NONE) {
        drift.kind = node->problem == PROBLEM_FOREIGN_UNITS ? "foreign_units" : "excluded";
        say(report, drift, "%s",
            node->problem_text->len > 0 ? node->problem_text->text
                                        : inventory_problem_name(node->problem));
    }
}

static void of_gpu(const struct report *report, const struct gpu *gpu)
{
    struct drift drift = {.gpu = gpu, .since_ms = report->node->since_ms};
    const unsigned milli = gpu->used_milli + gpu->reserved_milli;

    if ((gpu->flags & GPU_OVER) != 0) {
        drift.kind = "over";
        say(report, drift, "charged %u of %u milli and %u of %u MiB", milli, gpu->milli,
            gpu->used_mib, gpu->mib);
    }
    if ((gpu->flags & GPU_ABSENT) != 0) {
        drift.kind = "absent";
        say(report, drift, "%u pods hold %u milli of a GPU that the node does not show",
            (unsigned)gpu->charges, milli);
    }
    if ((gpu->flags & GPU_DUPLICATE) != 0) {
        drift.kind = "duplicate_gpu";
        say(report, drift, "another node showed this UUID first; nothing is granted here");
    }
}

static void of_allocation(const struct report *report, const struct allocation *allocation)
{
    const struct allocation_facts *is = &allocation->is;
    struct drift drift = {.allocation = allocation,
                          .since_ms = is->bound_ms != 0 ? is->bound_ms : is->reserved_ms};

    if (is->origin == ORIGIN_OBSERVED && (is->shares > 0 || is->unplaced_milli > 0)) {
        drift.kind = "adopted";
        say(report, drift, "bound without us; %s",
            is->presumed ? "it had no annotation that could be believed"
                         : "its annotation was believed");
    }
    if (is->presumed) {
        drift.kind = "presumed";
        say(report, drift, "which GPUs it uses is a guess");
    }
    if (is->unplaced_milli > 0) {
        drift.kind = "unplaced";
        say(report, drift, "%u milli are on no GPU that is known", is->unplaced_milli);
    }
    if (is->note_differs) {
        drift.kind = "annotation";
        say(report, drift, "its annotation milligpu.io/allocation differs from the ledger");
    }
}

/* Whole GPUs that no source names, beside shares: the pods may use the same GPU. */
static void of_mixture(const struct report *report)
{
    const struct node *node = report->node;
    struct drift drift = {.kind = "mixed"};
    uint32_t sharing = 0;

    for (uint32_t i = 0; i < node->allocations; i++) {
        const struct allocation_facts *is = &node->allocation[i]->is;
        const int64_t since = is->bound_ms != 0 ? is->bound_ms : is->reserved_ms;
        if (is->shares > 0 || is->unplaced_milli > 0)
            sharing++;
        if (since > drift.since_ms)
            drift.since_ms = since; /* since the last of them came, at the latest */
    }
    if (node->held_gpus > 0 && sharing > 0)
        say(report, drift, "%u pods with shares beside %u whole GPUs of another resource", sharing,
            node->held_gpus);
}

void drift_of(const struct node *node, void *user,
              void (*emit)(void *user, const struct drift *drift))
{
    must(node != NULL);
    must(emit != NULL);

    const struct report report = {.node = node, .user = user, .emit = emit};
    of_node(&report);
    of_mixture(&report);
    for (uint32_t i = 0; i < node->gpus; i++)
        of_gpu(&report, &node->gpu[i]);
    for (uint32_t i = 0; i < node->allocations; i++)
        of_allocation(&report, node->allocation[i]);
}
