/*
 * Turns the state of a pod in the API server into commands that close the gap to the ledger. Called
 * by the writer for each pod of a list or a watch. An event may be older than the ledger, so only
 * irreversible facts are evidence: the pod is bound, has ended, is being deleted, is gone, or is
 * unbound in a later version. Releasing a row and adopting the pod elsewhere are two commands; the
 * second is decided after the first is applied.
 */
#include "milligpu/core/ledger/reconcile.h"

#include <string.h>

#include "ledger_internal.h"

static struct command reconcile_about(enum command_kind kind, const struct pod *pod, int64_t now_ms)
{
    must(pod->uid[0] != '\0');
    must(pod->namespace != NULL);
    must(pod->name != NULL);
    return (struct command){.kind = kind,
                            .at_ms = now_ms,
                            .uid = pod->uid,
                            .namespace = pod->namespace,
                            .name = pod->name};
}

static struct command reconcile_release(const struct pod *pod, const char *why, int64_t now_ms)
{
    must(why != NULL);
    struct command command = reconcile_about(COMMAND_RELEASE, pod, now_ms);
    command.why = why;
    return command;
}

/* Borrows pod and request, which must outlive the command. */
static struct command reconcile_adopt(const struct pod *pod, const struct request *request,
                                      int64_t now_ms)
{
    must(pod->node[0] != '\0');
    must(!pod_ended(pod));
    struct command command = reconcile_about(COMMAND_ADOPT, pod, now_ms);
    command.node = pod->node;
    command.pod = pod;
    command.request = request;
    return command;
}

/* Number of parts that can be placed on this many GPUs. */
static uint32_t parts_on(const struct request *request, uint32_t gpus)
{
    uint32_t parts = 0;
    must(request->n_wants > 0);
    for (uint32_t w = 0; w < request->n_wants; w++)
        parts += request->want[w].parts < gpus ? request->want[w].parts : gpus;
    must(parts <= PARTS_MAX);
    return parts;
}

bool reconcile_lacks(const struct allocation *row, const struct request *request)
{
    must(row != NULL);
    return row->facts.presumed && request != NULL && request->n_wants > 0 &&
           parts_on(request, GPUS_PER_NODE_MAX) > row->facts.n_shares;
}

/* Has the node GPUs for more parts than the row? Then the row is released and adopted again. */
static bool can_be_placed(const struct node *node, const struct allocation *row,
                          const struct request *request)
{
    uint32_t gpus = 0;
    must(row->facts.node == node->name);
    if (!reconcile_lacks(row, request))
        return false;
    for (uint32_t i = 0; i < node->n_gpus; i++)
        if ((node->gpu[i].flags & GPU_ABSENT) == 0)
            gpus++;
    return parts_on(request, gpus) > row->facts.n_shares;
}

/* The row stays; commands update its facts about the pod. */
static size_t reconcile_follow(const struct node *node, const struct allocation *row,
                               const struct pod *pod, int64_t now_ms,
                               struct command command[RECONCILE_MAX])
{
    const bool bound = pod->node[0] != '\0';
    size_t count = 0;

    must(strcmp(row->facts.uid, pod->uid) == 0);
    must(!bound || text_is(atom_text(row->facts.node), pod->node));
    if (bound && row->facts.state == STATE_RESERVED) {
        command[count] = reconcile_about(COMMAND_CONFIRM, pod, now_ms);
        command[count++].node = pod->node;
    }
    /* A deletion timestamp is irreversible: an event without one is older. */
    if (pod->terminating_ms != 0 && pod->terminating_ms != row->facts.terminating_ms) {
        command[count] = reconcile_about(COMMAND_TERMINATING, pod, now_ms);
        command[count++].terminating_ms = pod->terminating_ms;
    }
    const bool differs = bound && adopt_differs(node, &row->facts, pod);
    if (bound && (differs != row->facts.annotation_differs || row->facts.listed_unbound)) {
        command[count] = reconcile_about(COMMAND_NOTE, pod, now_ms);
        command[count++].differs = differs;
    }
    must(count <= RECONCILE_MAX);
    return count;
}

size_t reconcile_pod(const struct ledger *ledger, const struct pod *pod,
                     const struct request *request, int64_t now_ms,
                     struct command command[RECONCILE_MAX])
{
    must(pod != NULL);
    must(pod->uid[0] != '\0');

    const struct allocation *row = ledger_find(ledger, text_of(pod->uid));
    size_t count = 0;
    if (pod_ended(pod)) {
        if (row != NULL)
            command[count++] = reconcile_release(pod, "ended", now_ms);
        return count;
    }
    const bool bound = pod->node[0] != '\0';
    if (row != NULL) {
        const struct node *node = ledger_node(ledger, atom_text(row->facts.node));
        must(node != NULL);
        /* An unbound pod proves nothing: its Binding may be in flight, or the event may be old. */
        const bool elsewhere = bound && !text_is(atom_text(row->facts.node), pod->node);
        if (!elsewhere && !(bound && can_be_placed(node, row, request)))
            return reconcile_follow(node, row, pod, now_ms, command);
        command[count++] = reconcile_release(pod, elsewhere ? "elsewhere" : "placed", now_ms);
    }
    if (bound && adopt_counts(pod, request))
        command[count++] = reconcile_adopt(pod, request, now_ms);
    must(count <= RECONCILE_MAX);
    return count;
}

static struct command release_row(const struct allocation *row, const char *uid, const char *why,
                                  int64_t now_ms)
{
    must(strcmp(row->facts.uid, uid) == 0);
    must(why[0] != '\0');
    return (struct command){.kind = COMMAND_RELEASE,
                            .at_ms = now_ms,
                            .uid = uid,
                            .namespace = row->facts.namespace,
                            .name = row->facts.name,
                            .why = why};
}

size_t reconcile_unbound(const struct ledger *ledger, const char *uid, uint64_t version,
                         int64_t now_ms, struct command command[RECONCILE_MAX])
{
    must(uid != NULL);
    must(uid[0] != '\0');

    const struct allocation *row = ledger_find(ledger, text_of(uid));
    if (row == NULL || row->facts.state != STATE_RESERVED || row->facts.version == 0 ||
        version <= row->facts.version)
        return 0;
    must(row->facts.origin == ORIGIN_GRANTED);
    command[0] = release_row(row, uid, "unbound", now_ms);
    return 1;
}

size_t reconcile_listed_unbound(const struct ledger *ledger, const struct pod *pod, int64_t now_ms,
                                struct command command[RECONCILE_MAX])
{
    must(pod->uid[0] != '\0');
    must(pod->node[0] == '\0' && !pod_ended(pod));

    const struct allocation *row = ledger_find(ledger, text_of(pod->uid));
    if (row == NULL || row->facts.state != STATE_BOUND || row->facts.listed_unbound)
        return 0;
    command[0] = reconcile_about(COMMAND_NOTE, pod, now_ms);
    command[0].differs = row->facts.annotation_differs;
    command[0].unbound = true;
    return 1;
}

size_t reconcile_gone(const struct ledger *ledger, const char *uid, int64_t now_ms,
                      struct command command[RECONCILE_MAX])
{
    must(uid != NULL);
    must(uid[0] != '\0');

    const struct allocation *row = ledger_find(ledger, text_of(uid));
    if (row == NULL)
        return 0;
    command[0] = release_row(row, uid, "gone", now_ms);
    return 1;
}

/*
 * Pods with a row come first, because they claim nothing new; then pods with an annotation, which
 * names their GPUs: signed before unsigned ones; last the pods whose GPUs must be guessed from the
 * rest.
 */
static int reconcile_rank(const struct ledger *ledger, const struct pod *pod)
{
    must(pod->uid != NULL);
    if (ledger_find(ledger, text_of(pod->uid)) != NULL)
        return 0;
    if (pod->annotation != NOTE_OK)
        return 3;
    return pod->proof == PROOF_SIGNED ? 1 : 2;
}

int reconcile_order(const struct ledger *ledger, const struct pod *a, const struct pod *b)
{
    must(a != NULL);
    must(b != NULL);

    const int rank_a = reconcile_rank(ledger, a);
    const int rank_b = reconcile_rank(ledger, b);
    if (rank_a != rank_b)
        return rank_a < rank_b ? -1 : 1;
    /* Pods without a time sort last. */
    const int64_t at_a = a->scheduled_ms > 0 ? a->scheduled_ms : INT64_MAX;
    const int64_t at_b = b->scheduled_ms > 0 ? b->scheduled_ms : INT64_MAX;
    if (at_a != at_b)
        return at_a < at_b ? -1 : 1;
    return strcmp(a->uid, b->uid);
}
