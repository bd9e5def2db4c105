/*
 * Reports each disagreement of cluster and ledger that reconciling leaves, as a sentence. Called by
 * REST in HTTP threads, and by drift_watch.c in the writer thread for the log, Events and metrics.
 * Stateless, so drift ends with its cause.
 */
#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/core/ledger/reconcile.h"

/* The state of reporting one node, and the sentence under construction. */
struct report {
    const struct node *node;
    void *user;
    void (*emit)(void *user, const struct drift *drift);
    struct strbuf text;
};

static const char *const kinds[][2] = {
#define X(word, help) {word, help},
    DRIFT_KINDS(X)
#undef X
};

static_assert(ARRAY_LEN(kinds) == DRIFT_KIND_COUNT, "one row for each kind");

size_t drift_kind_find(struct text word)
{
    size_t kind = 0;

    must(word.len == 0 || word.at != NULL);
    while (kind < DRIFT_KIND_COUNT && !text_is(word, kinds[kind][0]))
        kind++;
    return kind;
}

const char *drift_kind_name(size_t kind)
{
    must(kind < DRIFT_KIND_COUNT);
    must(kinds[kind][0][0] != '\0');
    return kinds[kind][0];
}

const char *drift_kind_help(size_t kind)
{
    must(kind < DRIFT_KIND_COUNT);
    must(kinds[kind][1][0] != '\0');
    return kinds[kind][1];
}

bool drift_is_information(const struct drift *drift, int64_t now_ms)
{
    must(drift->kind != NULL);
    return strcmp(drift->kind, "adopted") == 0 && now_ms - drift->since_ms >= DRIFT_ADOPTED_MS;
}

const char *drift_severity(const struct drift *drift, int64_t now_ms)
{
    must(drift->node != NULL);
    must(drift_kind_find(text_of(drift->kind)) < DRIFT_KIND_COUNT);
    return drift_is_information(drift, now_ms) ? "information" : "warning";
}

/* Emits the sentence in report->text, truncated if too long. */
static void drift_say(struct report *report, const char *kind, struct drift drift)
{
    must(drift_kind_find(text_of(kind)) < DRIFT_KIND_COUNT);
    must(report->text.len > 0);

    text_clip((struct text){report->text.data, report->text.len}, drift.text, sizeof drift.text);
    drift.kind = kind;
    drift.node = report->node;
    must(drift.gpu == NULL || drift.allocation == NULL);
    report->emit(report->user, &drift);
    strbuf_reset(&report->text);
}

static void of_node(struct report *report)
{
    const struct node *node = report->node;
    const struct drift drift = {.since_ms = node->since_ms};
    struct strbuf *text = &report->text;

    must(node->problem_text != NULL);
    if (node->gone) {
        strbuf_printf(text, "the Node object is gone, but %u of its pods %s still there",
                      node->n_allocations, node->n_allocations == 1 ? "is" : "are");
        drift_say(report, "node_gone", drift);
    }
    /* An excluded node (its GPUs are not ours) agrees with the ledger, which has no GPUs for it. */
    if (node->problem != PROBLEM_NONE && node->problem != PROBLEM_NO_SOURCE &&
        !inventory_is_excluded(node->problem)) {
        const bool foreign = node->problem == PROBLEM_FOREIGN_UNITS;
        strbuf_str(text, node->problem_text->len > 0 ? node->problem_text->text
                                                     : inventory_problem_name(node->problem));
        drift_say(report, foreign ? "foreign_units" : "unreadable", drift);
    }
    if (node->plugin.state == PLUGIN_UP && node->plugin.offered < node->plugin.healthy) {
        const uint32_t fewer = node->plugin.healthy - node->plugin.offered;
        strbuf_printf(text, "the device plugin offers %u of %u GPUs: it holds back %u, ",
                      node->plugin.offered, node->plugin.healthy, fewer);
        strbuf_printf(text, "and which is not known; it may be sick, and takes shares");
        drift_say(report, "plugin", drift);
    }
    if (node_misses_agent(node)) {
        strbuf_printf(text, "no new shares: %s", vouch_help(node->vouch));
        drift_say(report, "not_vouched", (struct drift){.since_ms = node->vouch_ms});
    }
    if (node->problem == PROBLEM_NONE && node->problem_text->len > 0) {
        strbuf_str(text, node->problem_text->text);
        drift_say(report, "node_annotation", drift);
    }
    must(text->len == 0);
}

/* Time of binding or, before that, of the reservation. Adopted pods were never reserved. */
static int64_t came_ms(const struct allocation_facts *facts)
{
    must(facts->state != STATE_RELEASED);
    return facts->bound_ms != 0 ? facts->bound_ms : facts->reserved_ms;
}

/* Upper bound: the latest arrival of a pod with whole GPUs or with a share of this GPU. */
static int64_t mixed_since(const struct node *node, const struct gpu *gpu)
{
    int64_t since = 0;

    must(gpu->charges > 0);
    must((gpu->flags & GPU_HELD) != 0);
    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation *pod = node->allocation[i];
        bool on = pod->facts.held_gpus > 0;
        for (uint32_t k = 0; k < pod->n_charges && !on; k++)
            on = node_gpu(node, atom_text(allocation_charge(pod, k).gpu)) == gpu;
        const int64_t came = came_ms(&pod->facts);
        since = on && came > since ? came : since;
    }
    return since;
}

/* Each kind of drift of a GPU is reported separately, because each ends separately. */
static void of_gpu(struct report *report, const struct gpu *gpu)
{
    const struct drift drift = {.gpu = gpu, .since_ms = report->node->since_ms};
    const uint32_t milli = gpu->used_milli + gpu->reserved_milli;
    struct strbuf *text = &report->text;

    if ((gpu->flags & GPU_OVER) != 0) {
        must(gpu->charges > 0);
        strbuf_printf(text, "charged %u of %u milli and %u of %u MiB", milli, gpu->milli,
                      gpu->used_mib, gpu->mib);
        drift_say(report, "over", drift);
    }
    if ((gpu->flags & GPU_ABSENT) != 0) {
        must(gpu->charges > 0);
        strbuf_printf(text, "%u %s %u milli of a GPU that the node does not show",
                      (unsigned)gpu->charges, gpu->charges == 1 ? "pod holds" : "pods hold", milli);
        drift_say(report, "absent", drift);
    }
    if ((gpu->flags & (GPU_DUPLICATE | GPU_ABSENT)) == GPU_DUPLICATE) {
        strbuf_str(text, "another node showed this UUID first; nothing is granted here until "
                         "that Node is gone and no pod holds it there");
        drift_say(report, "duplicate_gpu", drift);
    }
    if ((gpu->flags & GPU_UNSURE) != 0) {
        must((gpu->flags & GPU_ABSENT) == 0);
        strbuf_str(text, "indexes moved, and pods hold a GPU of this node by its index: it may be "
                         "this one; nothing is granted here until they have ended");
        drift_say(report, "unsure_gpu", drift);
    }
    if ((gpu->flags & GPU_HELD) != 0 && gpu->charges > 0) {
        strbuf_printf(text, "%u %s shares of a GPU that %s holds whole", (unsigned)gpu->charges,
                      gpu->charges == 1 ? "pod has" : "pods have",
                      node_note_of(report->node, gpu)->held);
        drift_say(report, "mixed",
                  (struct drift){.gpu = gpu, .since_ms = mixed_since(report->node, gpu)});
    }
    if ((gpu->flags & GPU_CONTESTED) != 0) {
        must((gpu->flags & GPU_DUPLICATE) == 0);
        strbuf_str(text, "another node shows this UUID, too; this one was the first and goes on");
        drift_say(report, "duplicate_gpu", drift);
    }
    must(text->len == 0);
}

static bool shares_gpus(const struct allocation_facts *facts)
{
    must(facts->n_shares <= PARTS_MAX);
    return facts->n_shares > 0 || facts->unplaced_milli > 0;
}

/* Reports the first unhealthy GPU of the pod; GPUs that the node does not show are absent. */
static void of_health(struct report *report, const struct allocation *allocation)
{
    const struct node *node = report->node;

    must(report->text.len == 0);
    must(allocation->facts.node == node->name);
    for (uint32_t i = 0; i < allocation->n_charges; i++) {
        const struct gpu *gpu = node_gpu(node, atom_text(allocation_charge(allocation, i).gpu));
        must(gpu != NULL); /* a node lists all GPUs charged on it */
        if ((gpu->flags & (GPU_UNHEALTHY | GPU_ABSENT)) != GPU_UNHEALTHY)
            continue;
        const struct gpu_note *note = node_note_of(node, gpu);
        strbuf_printf(&report->text, "its GPU %s is unhealthy", gpu->id->text);
        if (note != NULL && note->ill != NULL)
            strbuf_printf(&report->text, ": %s", note->ill);
        drift_say(report, "unhealthy",
                  (struct drift){.allocation = allocation, .since_ms = node->since_ms});
        return;
    }
}

static void of_allocation(struct report *report, const struct allocation *allocation)
{
    const struct allocation_facts *facts = &allocation->facts;
    const struct drift drift = {.allocation = allocation, .since_ms = came_ms(facts)};
    struct strbuf *text = &report->text;

    must(facts->node == report->node->name);
    /* A believed annotation is no disagreement: after the loss of a ledger all pods are adopted. */
    if (facts->presumed) {
        must(facts->origin == ORIGIN_ADOPTED && shares_gpus(facts));
        strbuf_str(text, "bound without us, with no annotation that can be believed: which GPUs "
                         "it uses is a guess");
        drift_say(report, "adopted", drift);
    }
    if (facts->unplaced_milli > 0) {
        must(facts->origin == ORIGIN_ADOPTED);
        strbuf_printf(text, "%u milli are on no GPU that is known", facts->unplaced_milli);
        drift_say(report, "unplaced", drift);
    }
    if (facts->annotation_differs) {
        strbuf_str(text, "its annotation milligpu.io/allocation differs from the ledger");
        drift_say(report, "annotation", drift);
    }
    if (facts->listed_unbound) {
        must(facts->state == STATE_BOUND);
        strbuf_str(text, "it was bound, and the API server lists it unbound, as after a restore of "
                         "etcd; its container may run still: its share stays charged, and it is "
                         "not bound again until it is deleted");
        drift_say(report, "unbound", drift);
    }
    must(text->len == 0);
    of_health(report, allocation);
}

/* Reports shares beside whole GPUs that no source names: the pods may use the same GPU. */
static void of_mixture(struct report *report)
{
    const struct node *node = report->node;
    struct drift drift = {.since_ms = 0};
    uint32_t sharing = 0;

    for (uint32_t i = 0; i < node->n_allocations; i++) {
        const struct allocation_facts *facts = &node->allocation[i]->facts;
        const int64_t since = came_ms(facts);
        if (shares_gpus(facts))
            sharing++;
        if (since > drift.since_ms)
            drift.since_ms = since; /* upper bound: the latest arrival */
    }
    must(sharing <= node->n_allocations);
    if (node->unnamed_gpus == 0 || sharing == 0)
        return;
    strbuf_printf(&report->text, "%u %s with shares beside %u whole %s of another resource",
                  sharing, sharing == 1 ? "pod" : "pods", node->unnamed_gpus,
                  node->unnamed_gpus == 1 ? "GPU" : "GPUs");
    drift_say(report, "mixed", drift);
}

void drift_of(const struct node *node, void *user,
              void (*emit)(void *user, const struct drift *drift))
{
    must(node != NULL);
    must(emit != NULL);

    struct report report = {.node = node, .user = user, .emit = emit};
    strbuf_init(&report.text);
    of_node(&report);
    of_mixture(&report);
    for (uint32_t i = 0; i < node->n_gpus; i++)
        of_gpu(&report, &node->gpu[i]);
    for (uint32_t i = 0; i < node->n_allocations; i++)
        of_allocation(&report, node->allocation[i]);
    strbuf_done(&report.text);
}
