/*
 * Which annotations are believed when a bound pod has no row. After the loss of a ledger they are
 * the only record of who holds what; but a tenant can write them, so they may say where a share
 * lies, not how many milli were asked for: the spec says that, which nobody can edit. How far a
 * share was raised is written nowhere else. If our signature covers the annotation, it is believed:
 * whether the pod still demands memory is up to its tenant. Without one it is believed where it
 * could have been granted: the pod demands memory, and all its shares were raised to one amount.
 */
#include <string.h>

#include "ledger_internal.h"

/* Far beyond any GPU, and yet a thousand such pods fit into 32 bits. */
enum { NOTE_MIB_MAX = 1 << 22 };

static_assert((uint64_t)NOTE_MIB_MAX * 1000 <= UINT32_MAX, "used_mib of a GPU does not wrap");

/* "<other node>/gpu-0" is not a GPU of this node and never will be. */
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

/* As many lines as parts, for the size that is requested. */
static bool ledger_believe_answers(const struct pod *pod, const struct want *want)
{
    uint32_t lines = 0;
    must(want->parts > 0);
    must(want->milli > 0);
    for (uint32_t i = 0; i < pod->shares; i++) {
        if (strcmp(pod->share[i].container, want->container) != 0)
            continue;
        if (pod_share_asked(&pod->share[i]) != want->milli)
            return false;
        lines++;
    }
    return lines == want->parts;
}

/*
 * What all smaller shares were raised to. A larger one may be as it was asked for, a smaller one
 * may not.
 */
static bool is_raised_alike(const struct pod *pod, const struct request *request)
{
    uint32_t raised = 0;

    must(pod->annotation == NOTE_OK);
    must(pod->shares <= PARTS_MAX);
    for (uint32_t i = 0; i < pod->shares; i++)
        if (pod->share[i].milli != pod_share_asked(&pod->share[i]))
            raised = pod->share[i].milli;
    if (raised == 0)
        return true;
    for (uint32_t i = 0; i < pod->shares; i++) {
        const uint32_t asked = pod_share_asked(&pod->share[i]);
        if (pod->share[i].milli != (asked > raised ? asked : raised) ||
            pod->share[i].mib < request->memory_mib)
            return false;
    }
    must(raised <= GPU_MILLI);
    return request->memory_mib > 0;
}

/* All or nothing: if one line is wrong, the others are no record of a grant either. */
bool adopt_believes(const struct pod *pod, const struct request *request)
{
    must(pod != NULL);
    must(request != NULL);

    if (pod->annotation != NOTE_OK || pod->shares > PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < pod->shares; i++) {
        const struct pod_share *line = &pod->share[i];
        if (line->mib >= NOTE_MIB_MAX || !could_be_here(pod, line->gpu) ||
            pod_share_repeats(pod, i))
            return false;
    }
    uint32_t parts = 0;
    for (uint32_t w = 0; w < request->wants; w++) {
        if (!ledger_believe_answers(pod, &request->want[w]))
            return false;
        parts += request->want[w].parts;
    }
    /* Nothing for containers that request nothing. */
    if (parts != pod->shares)
        return false;
    return pod->proof == PROOF_SIGNED || is_raised_alike(pod, request);
}
