/*
 * Deep copies of pods, and comparison of their owners. Called by sync, the writer and simulate,
 * in any thread.
 */
#include "milligpu/core/facts/pod.h"

#include <string.h>

/* NULL (absent) stays NULL, because it differs from empty. */
static const char *pod_copy_text(struct arena *arena, const char *text)
{
    return text != NULL ? arena_copy(arena, text_of(text)) : NULL;
}

static struct pod_container *keep_containers(struct arena *arena, const struct pod *pod)
{
    struct pod_container *to = arena_array(arena, pod->n_containers, sizeof *to);

    must(pod->n_containers == 0 || pod->container != NULL);
    for (uint32_t i = 0; i < pod->n_containers; i++) {
        const struct pod_container *from = &pod->container[i];
        must(from->name != NULL);
        to[i] = (struct pod_container){.name = pod_copy_text(arena, from->name),
                                       .kind = from->kind,
                                       .amount = pod_copy_text(arena, from->amount),
                                       .count = pod_copy_text(arena, from->count)};
    }
    return to;
}

static struct pod_share *keep_shares(struct arena *arena, const struct pod *pod)
{
    struct pod_share *to = arena_array(arena, pod->n_shares, sizeof *to);

    must(pod->n_shares == 0 || pod->share != NULL);
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        to[i] = pod->share[i];
        to[i].container = pod_copy_text(arena, pod->share[i].container);
        to[i].gpu = pod_copy_text(arena, pod->share[i].gpu);
    }
    return to;
}

struct pod_scheduling pod_scheduling_keep(const struct pod_scheduling *from, struct arena *arena)
{
    must(from->since_ms >= 0);
    must(from->message == NULL || from->reason != NULL);
    return (struct pod_scheduling){
        .scheduler = pod_copy_text(arena, from->scheduler),
        .gates = pod_copy_text(arena, from->gates),
        .reason = pod_copy_text(arena, from->reason),
        .message = pod_copy_text(arena, from->message),
        .since_ms = from->since_ms,
    };
}

static struct pod_owner keep_owner(struct arena *arena, const struct pod_owner *from)
{
    must((from->kind == NULL) == (from->name == NULL));
    must(from->uid == NULL || from->kind != NULL);
    return (struct pod_owner){
        .kind = pod_copy_text(arena, from->kind),
        .name = pod_copy_text(arena, from->name),
        .uid = pod_copy_text(arena, from->uid),
        .revision = pod_copy_text(arena, from->revision),
        .argo = from->argo,
    };
}

struct pod *pod_keep(const struct pod *pod, struct arena *arena)
{
    struct pod *kept = arena_alloc(arena, sizeof *kept);

    must(pod->n_odd_keys <= ODD_KEYS_MAX);
    must(pod->uid != NULL && pod->namespace != NULL && pod->name != NULL && pod->node != NULL);
    *kept = *pod;
    kept->uid = pod_copy_text(arena, pod->uid);
    kept->namespace = pod_copy_text(arena, pod->namespace);
    kept->name = pod_copy_text(arena, pod->name);
    kept->resource_version = pod_copy_text(arena, pod->resource_version);
    kept->node = pod_copy_text(arena, pod->node);
    kept->unreadable = pod_copy_text(arena, pod->unreadable);
    kept->demands = *node_demands_keep(&pod->demands, arena);
    kept->container = keep_containers(arena, pod);
    kept->count = pod_copy_text(arena, pod->count);
    kept->model = pod_copy_text(arena, pod->model);
    kept->memory = pod_copy_text(arena, pod->memory);
    kept->topology = pod_copy_text(arena, pod->topology);
    kept->scheduling = pod_scheduling_keep(&pod->scheduling, arena);
    kept->owner = keep_owner(arena, &pod->owner);
    for (uint32_t i = 0; i < pod->n_odd_keys; i++)
        kept->odd_key[i] = pod_copy_text(arena, pod->odd_key[i]);
    kept->signature = pod_copy_text(arena, pod->signature);
    kept->note_text = pod_copy_text(arena, pod->note_text);
    kept->note_error = pod_copy_text(arena, pod->note_error);
    kept->share = keep_shares(arena, pod);
    must(strcmp(kept->uid, pod->uid) == 0);
    return kept;
}

bool pod_share_repeats(const struct pod *pod, uint32_t line)
{
    must(line < pod->n_shares);
    must(pod->share != NULL);
    for (uint32_t i = 0; i < line; i++)
        if (strcmp(pod->share[i].container, pod->share[line].container) == 0 &&
            strcmp(pod->share[i].gpu, pod->share[line].gpu) == 0)
            return true;
    return false;
}

/* NULL equals NULL. */
static bool pod_text_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool pod_owner_same(const struct pod_owner *a, const struct pod_owner *b)
{
    must(a->uid == NULL || a->kind != NULL);
    must(b->uid == NULL || b->kind != NULL);
    must((a->kind == NULL) == (a->name == NULL));
    must((b->kind == NULL) == (b->name == NULL));
    return a->kind != NULL && pod_text_same(a->kind, b->kind) && pod_text_same(a->name, b->name) &&
           pod_text_same(a->uid, b->uid);
}

bool pod_owner_replaces(const struct pod_owner *a, const struct pod_owner *b)
{
    must(a->revision == NULL || a->revision[0] != '\0');
    must(b->revision == NULL || b->revision[0] != '\0');
    return pod_owner_same(a, b) && a->revision != NULL && b->revision != NULL &&
           strcmp(a->revision, b->revision) != 0;
}
