/*
 * Sums the shares of pods on a GPU. Called by the main thread for each new container with shares,
 * and under the table's lock when one starts.
 */
#include "overlap.h"

#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"

enum { NAMED_MAX = 3 }; /* pods named in a refusal */

/* Pointers to the containers of a node. */
struct container_list {
    uint32_t count;
    const struct container_facts *container[NODE_CONTAINERS_MAX];
};

static const struct container_gpu *share_of(const struct container_facts *facts, const char *gpu)
{
    for (uint32_t i = 0; facts->right == RIGHT_SHARE && !facts->has_ended && i < facts->n_gpus; i++)
        if (strcmp(facts->gpu[i].name, gpu) == 0)
            return &facts->gpu[i];
    return NULL;
}

static bool is_same_pod(const struct container_facts *a, const char *uid)
{
    return strcmp(a->uid, uid) == 0;
}

uint32_t overlap_of_pod(const struct container_facts *const *container, uint32_t containers,
                        const char *uid, const char *gpu)
{
    uint32_t milli = 0;

    for (uint32_t i = 0; i < containers; i++) {
        const struct container_gpu *share =
            is_same_pod(container[i], uid) ? share_of(container[i], gpu) : NULL;
        if (share != NULL && !container[i]->has_successor)
            milli += share->milli;
    }
    return milli;
}

/* The peak of a pod on the GPU, as recorded in its live containers. */
static uint32_t most_of(const struct container_list *view, const char *uid, const char *gpu)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < view->count; i++) {
        const struct container_gpu *share =
            is_same_pod(view->container[i], uid) ? share_of(view->container[i], gpu) : NULL;
        if (share != NULL && share->pod_milli > most)
            most = share->pod_milli;
    }
    return most;
}

/* True for the first live container of its pod on the GPU. */
static bool is_first(const struct container_list *view, uint32_t at, const char *gpu)
{
    bool first = share_of(view->container[at], gpu) != NULL;

    for (uint32_t i = 0; first && i < at; i++)
        first = !is_same_pod(view->container[i], view->container[at]->uid) ||
                share_of(view->container[i], gpu) == NULL;
    return first;
}

/* The sum of the other live pods on the GPU, in milli; appends their names. */
static uint32_t others_on(const struct container_list *view, const char *uid, const char *gpu,
                          struct strbuf *names)
{
    uint32_t milli = 0;
    uint32_t pods = 0;

    for (uint32_t i = 0; i < view->count; i++) {
        const struct container_facts *other = view->container[i];
        if (is_same_pod(other, uid) || !is_first(view, i, gpu))
            continue;
        const uint32_t most = most_of(view, other->uid, gpu);
        const uint32_t now = overlap_of_pod(view->container, view->count, other->uid, gpu);
        const uint32_t has = most > now ? most : now;
        milli += has;
        if (pods++ < NAMED_MAX)
            strbuf_printf(names, "%s%.63s/%.63s (%u)", pods > 1 ? ", " : "", other->namespace,
                          other->pod, (unsigned)has);
    }
    if (pods > NAMED_MAX)
        strbuf_printf(names, " and %u more", (unsigned)(pods - NAMED_MAX));
    return milli;
}

/* left_out: running containers with shares that are not in view */
static int check_gpu(const struct container_list *view, const struct container_facts *facts,
                     const char *gpu, uint32_t left_out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf names;

    strbuf_init(&names);
    const uint32_t wants = overlap_of_pod(view->container, view->count, facts->uid, gpu);
    if (wants <= most_of(view, facts->uid, gpu))
        return 0;
    if (left_out > 0)
        return err_set(err, ERR_CONFLICT,
                       "the node has %u more containers with shares of GPUs than its agent can "
                       "compare with it: keep the pod off this node until the agent has started "
                       "again with fewer",
                       (unsigned)left_out);
    const uint32_t others = others_on(view, facts->uid, gpu, &names);
    if (others == 0 || others + wants <= GPU_MILLI)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "GPU %.60s has no %u milli free for its pod yet; will be retried automatically. "
                   "Other pods still run there with %u milli (one that was deleted by force runs "
                   "until kubelet has ended its containers): %s",
                   gpu, (unsigned)wants, (unsigned)others, names.data);
}

int overlap_allow(const struct containers_copy *containers, struct text id, struct err *err)
{
    struct container_list view = {.count = containers->count};
    const struct container_facts *facts = NULL;

    must(containers->count <= NODE_CONTAINERS_MAX);
    for (uint32_t i = 0; i < containers->count; i++) {
        view.container[i] = &containers->container[i];
        if (text_is(id, view.container[i]->id))
            facts = view.container[i];
    }
    for (uint32_t i = 0; facts != NULL && i < facts->n_gpus; i++)
        if (check_gpu(&view, facts, facts->gpu[i].name, containers->left_out[RIGHT_SHARE], err) < 0)
            return err_same(err);
    return 0;
}
