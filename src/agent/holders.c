/*
 * Reads from the table of containers who has a GPU whole. Called by the reporter's thread for the
 * annotation, and by the main thread for each container that would get GPUs.
 */
#include "milligpu/holders.h"

#include <string.h>

#include "milligpu/inventory.h"

/* "12"; false: no number, or beyond what a node has. */
static bool read_number(struct text text, uint32_t *out)
{
    uint32_t number = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || number > UINT16_MAX)
            return false;
        number = 10 * number + (uint32_t)(text.at[i] - '0');
    }
    *out = number;
    return text.len > 0;
}

uint32_t holders_gpu(const struct gpu_reading *reading, struct text name)
{
    static const struct text node = TEXT("/dev/nvidia");
    const bool by_minor = text_starts(name, node.at);
    uint32_t number = 0;
    const bool by_number = read_number(
        by_minor ? (struct text){name.at + node.len, name.len - node.len} : name, &number);

    must(reading->gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < reading->gpus; i++) {
        const struct gpu_state *gpu = &reading->gpu[i];
        /* The number of a lost GPU may be that of one that is there. */
        const bool is_it =
            by_number ? gpu->health != GPU_LOST &&
                            (by_minor ? gpu->minor == (int64_t)number : gpu->index == number)
                      : text_is(name, gpu->uuid);
        if (is_it)
            return i;
    }
    return GPUS_PER_NODE_MAX;
}

/* Names what is not named yet. */
static void name_holders(const struct gpu_reading *reading,
                         const struct containers_copy *containers, enum container_right right,
                         const char *prefix, struct arena *arena, struct holders *out)
{
    for (uint32_t i = 0; i < containers->count; i++) {
        const struct container_facts *facts = &containers->container[i];
        for (uint32_t k = 0; facts->right == right && k < facts->gpus; k++) {
            const uint32_t gpu = holders_gpu(reading, text_of(facts->gpu[k].name));
            if (gpu < GPUS_PER_NODE_MAX && out->by[gpu] == NULL &&
                text_of(facts->uid).len <= UID_BYTES_MAX)
                out->by[gpu] = arena_printf(arena, "%s%s", prefix, facts->uid);
        }
    }
}

void holders_find(const struct gpu_reading *reading, const struct containers_copy *containers,
                  const char *const *outside, uint32_t outsides, struct arena *arena,
                  struct holders *out)
{
    *out = (struct holders){0};
    name_holders(reading, containers, RIGHT_KUBELET, "pod:", arena, out);
    name_holders(reading, containers, RIGHT_VARIABLE, "env:", arena, out);
    for (uint32_t i = 0; i < outsides; i++) {
        const uint32_t gpu = holders_gpu(reading, text_of(outside[i]));
        if (gpu < GPUS_PER_NODE_MAX && out->by[gpu] == NULL)
            out->by[gpu] = "process";
    }
}

/* --- whoever comes second --- */

/* A GPU is the same by its UUID also where nothing is read of it. */
static bool is_same_gpu(const struct gpu_reading *reading, const char *a, const char *b)
{
    const uint32_t gpu = holders_gpu(reading, text_of(a));

    return strcmp(a, b) == 0 ||
           (gpu < GPUS_PER_NODE_MAX && gpu == holders_gpu(reading, text_of(b)));
}

/* The GPU of facts that the other has, too; NULL: none. */
static const char *common_gpu(const struct gpu_reading *reading,
                              const struct container_facts *facts,
                              const struct container_facts *other)
{
    for (uint32_t i = 0; i < facts->gpus; i++)
        for (uint32_t k = 0; k < other->gpus; k++)
            if (is_same_gpu(reading, facts->gpu[i].name, other->gpu[k].name))
                return facts->gpu[i].name;
    return NULL;
}

static int refuse(const struct container_facts *facts, const struct container_facts *other,
                  const char *gpu, struct err *err)
{
    if (facts->right == RIGHT_SHARE)
        return err_set(err, ERR_CONFLICT,
                       "its GPU %.100s was given whole to pod %.100s/%.100s: delete the pod, so "
                       "that it is scheduled again",
                       gpu, other->namespace, other->pod);
    return err_set(err, ERR_CONFLICT,
                   "it would have GPU %.100s whole, of which pods have shares (one is "
                   "%.100s/%.100s): delete the pod, so that it gets another one; milligpu keeps "
                   "such pods off nodes with shares where it also manages their resource",
                   gpu, other->namespace, other->pod);
}

int holders_allow(const struct gpu_reading *reading, const struct containers_copy *containers,
                  struct text id, struct err *err)
{
    const struct container_facts *facts = NULL;

    for (uint32_t i = 0; i < containers->count; i++)
        if (text_is(id, containers->container[i].id))
            facts = &containers->container[i];
    for (uint32_t i = 0; facts != NULL && i < containers->count; i++) {
        const struct container_facts *other = &containers->container[i];
        const bool shares = facts->right == RIGHT_SHARE;
        /* A variable alone takes no GPU away from a share that milligpud granted. */
        if (strcmp(other->uid, facts->uid) == 0 ||
            other->right != (shares ? RIGHT_KUBELET : RIGHT_SHARE))
            continue;
        const char *gpu = common_gpu(reading, facts, other);
        if (gpu != NULL)
            return refuse(facts, other, gpu, err);
    }
    return 0;
}
