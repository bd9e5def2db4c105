/*
 * Decides which annotations are believed when a bound pod has no row. After the loss of a ledger
 * they are the only record of who holds what; but a tenant can write them, so they may name the GPU
 * of a share, not the milli requested, which the immutable spec says. The amount to which a share
 * was raised is recorded nowhere else. An annotation signed by us is believed whether or not the
 * pod still requests memory, which its tenant can change. An unsigned one is believed if it could
 * have been granted: the pod requests memory, and all its shares were raised to one amount.
 */
#include <string.h>

#include "ledger_internal.h"

/* Far beyond any GPU, but sums of a thousand such pods fit into 32 bits. */
enum { NOTE_MIB_MAX = 1 << 22 };

static_assert((uint64_t)NOTE_MIB_MAX * 1000 <= UINT32_MAX, "used_mib of a GPU does not wrap");

/* False for the made-up id of another node, "<other node>/gpu-0". */
static bool could_be_here(const struct pod *pod, const char *gpu)
{
    must(pod->node != NULL);
    must(gpu != NULL);
    const size_t bytes = strlen(gpu);
    const size_t node = strlen(pod->node);

    if (bytes == 0 || bytes > GPU_ID_BYTES_MAX + NAME_BYTES_MAX)
        return false;
    if (strchr(gpu, '/') == NULL)
        return bytes <= GPU_ID_BYTES_MAX;
    return bytes > node && memcmp(gpu, pod->node, node) == 0 && gpu[node] == '/';
}

/* Does the annotation have one line per part, of the requested size? */
static bool ledger_believe_answers(const struct pod *pod, const struct want *want)
{
    uint32_t lines = 0;
    must(want->parts > 0);
    must(want->milli > 0);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        if (strcmp(pod->share[i].container, want->container) != 0)
            continue;
        if (pod_share_asked(&pod->share[i]) != want->milli)
            return false;
        lines++;
    }
    return lines == want->parts;
}

/* Are all smaller shares raised to one amount? Larger ones stay as requested. */
static bool is_raised_alike(const struct pod *pod, const struct request *request)
{
    uint32_t raised = 0;

    must(pod->annotation == NOTE_OK);
    must(pod->n_shares <= PARTS_MAX);
    for (uint32_t i = 0; i < pod->n_shares; i++)
        if (pod->share[i].milli != pod_share_asked(&pod->share[i]))
            raised = pod->share[i].milli;
    if (raised == 0)
        return true;
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const uint32_t asked = pod_share_asked(&pod->share[i]);
        if (pod->share[i].milli != (asked > raised ? asked : raised) ||
            pod->share[i].mib < request->memory_mib)
            return false;
    }
    must(raised <= GPU_MILLI);
    return request->memory_mib > 0;
}

/* All or nothing: with one wrong line, the others are no record of a grant either. */
bool adopt_believes(const struct pod *pod, const struct request *request)
{
    must(pod != NULL);
    must(request != NULL);

    if (pod->annotation != NOTE_OK || pod->n_shares > PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct pod_share *line = &pod->share[i];
        if (line->mib >= NOTE_MIB_MAX || !could_be_here(pod, line->gpu) ||
            pod_share_repeats(pod, i))
            return false;
    }
    uint32_t parts = 0;
    for (uint32_t w = 0; w < request->n_wants; w++) {
        if (!ledger_believe_answers(pod, &request->want[w]))
            return false;
        parts += request->want[w].parts;
    }
    /* no lines for containers without a request */
    if (parts != pod->n_shares)
        return false;
    return pod->proof == PROOF_SIGNED || is_raised_alike(pod, request);
}
