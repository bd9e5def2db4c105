/*
 * Checks that all MPS clients of a GPU have the same user. Called by the main thread for each
 * container that is created. A container between two lives counts, too, since its pod keeps the
 * GPU.
 */
#include <string.h>

#include "mps.h"

int mps_allow(const struct containers_copy *containers, struct text id, struct err *err)
{
    const struct container_facts *facts = NULL;

    for (uint32_t i = 0; i < containers->count; i++)
        if (text_is(id, containers->container[i].id))
            facts = &containers->container[i];
    if (facts == NULL || !facts->is_mps)
        return 0;
    must(facts->n_gpus == 1); /* a client has one pipe folder, so one GPU */
    for (uint32_t i = 0; i < containers->count; i++) {
        const struct container_facts *other = &containers->container[i];
        if (!other->is_mps || other->user == facts->user ||
            strcmp(other->gpu[0].name, facts->gpu[0].name) != 0)
            continue;
        return err_set(
            err, ERR_CONFLICT,
            "MPS serves one user on each GPU, and on its GPU %.100s that is user %u, of "
            "pod %.100s/%.100s, while it is user %u: set runAsUser: %u for it, or delete "
            "the pod, so that it gets another GPU",
            facts->gpu[0].name, (unsigned)other->user, other->namespace, other->pod,
            (unsigned)facts->user, (unsigned)other->user);
    }
    return 0;
}
