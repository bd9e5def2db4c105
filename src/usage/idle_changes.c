/*
 * Idle changes between the report listener, which puts, and the writer, which takes. In order:
 * changes, putting, taking.
 */
#include "milligpu/usage/idle_changes.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/run/mutex.h"

/* --- changes --- */

struct idle_change {
    struct store_idle idle; /* its names are in text */
    uint32_t key_len;
    char text[]; /* the key: node, uid, container and GPU, each with a NUL */
};

struct idle_changes {
    struct mutex lock; /* guards everything below */
    struct map changes;
};

struct idle_changes *idle_changes_new(void)
{
    struct idle_changes *changes = xcalloc(1, sizeof *changes);

    mutex_init(&changes->lock);
    map_init(&changes->changes);
    return changes;
}

void idle_changes_free(struct idle_changes *changes)
{
    struct idle_change *left;

    if (changes == NULL)
        return;
    for (size_t at = 0; (left = map_next(&changes->changes, &at)) != NULL;)
        xfree(left);
    map_done(&changes->changes);
    mutex_done(&changes->lock);
    xfree(changes);
}

static struct idle_change *change_new(const struct store_idle *idle)
{
    const char *const name[] = {idle->node, idle->uid, idle->container, idle->gpu};
    const char *copy[ARRAY_LEN(name)];
    size_t bytes = 0;

    for (size_t i = 0; i < ARRAY_LEN(name); i++)
        bytes += strlen(name[i]) + 1;
    struct idle_change *change = xcalloc(1, sizeof *change + bytes);
    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        copy[i] = change->text + change->key_len;
        memcpy(change->text + change->key_len, name[i], strlen(name[i]) + 1);
        change->key_len += (uint32_t)strlen(name[i]) + 1;
    }
    change->idle = (struct store_idle){copy[0], copy[1], copy[2], copy[3], idle->since_ms};
    return change;
}

/* --- putting --- */

static struct text key_of(const struct idle_change *change)
{
    must(change->key_len > 0);
    return (struct text){change->text, change->key_len};
}

static bool is_of_node(const struct store_idle *idle)
{
    must(idle->node[0] != '\0' && (idle->uid[0] != '\0' || idle->since_ms == 0));
    return idle->uid[0] == '\0';
}

static bool is_elsewhere(void *user, void *value)
{
    const struct store_idle *node = user;
    struct idle_change *change = value;

    if (strcmp(change->idle.node, node->node) != 0)
        return true;
    xfree(change);
    return false;
}

bool idle_changes_put(struct idle_changes *changes, const struct store_idle *idle)
{
    const bool of_node = is_of_node(idle);
    struct idle_change *change = change_new(idle);
    struct store_idle node = *idle;

    mutex_lock(&changes->lock);
    if (of_node)
        (void)map_retain(&changes->changes, &node, is_elsewhere);
    struct idle_change *waits = map_find(&changes->changes, key_of(change));
    const bool taken = waits != NULL || of_node || changes->changes.count < IDLE_CHANGES_MAX;
    if (waits != NULL)
        waits->idle.since_ms = idle->since_ms;
    else if (taken)
        must(map_put(&changes->changes, key_of(change), change) == NULL);
    mutex_unlock(&changes->lock);
    if (waits != NULL || !taken)
        xfree(change);
    return taken;
}

static void put_back(struct idle_changes *changes, const struct store_idle *idle)
    REQUIRES(changes->lock)
{
    const struct store_idle node = {.node = idle->node, .uid = "", .container = "", .gpu = ""};
    struct idle_change *change = change_new(idle);
    struct idle_change *of_node = change_new(&node);

    if (map_find(&changes->changes, key_of(change)) == NULL &&
        map_find(&changes->changes, key_of(of_node)) == NULL) {
        must(map_put(&changes->changes, key_of(change), change) == NULL);
        change = NULL;
    }
    xfree(of_node);
    xfree(change);
}

/* Nodes last: entries of their shares that were taken together with them are newer. */
void idle_changes_put_back(struct idle_changes *changes, const struct store_idle *idle,
                           uint32_t count)
{
    mutex_lock(&changes->lock);
    for (uint32_t i = 0; i < count; i++)
        if (!is_of_node(&idle[i]))
            put_back(changes, &idle[i]);
    for (uint32_t i = 0; i < count; i++)
        if (is_of_node(&idle[i]))
            put_back(changes, &idle[i]);
    mutex_unlock(&changes->lock);
}

/* --- taking --- */

struct idle_taking {
    struct store_idle *out;
    uint32_t count;
    uint32_t most;
    struct arena *arena;
};

static bool leave_change(void *user, void *value)
{
    struct idle_taking *taking = user;
    struct idle_change *change = value;

    if (taking->count == taking->most)
        return true;
    const struct store_idle *idle = &change->idle;
    taking->out[taking->count++] = (struct store_idle){
        .node = arena_copy(taking->arena, text_of(idle->node)),
        .uid = arena_copy(taking->arena, text_of(idle->uid)),
        .container = arena_copy(taking->arena, text_of(idle->container)),
        .gpu = arena_copy(taking->arena, text_of(idle->gpu)),
        .since_ms = idle->since_ms,
    };
    xfree(change);
    return false;
}

uint32_t idle_changes_take(struct idle_changes *changes, struct store_idle *out, uint32_t most,
                           struct arena *arena)
{
    struct idle_taking taking = {.out = out, .most = most, .arena = arena};

    mutex_lock(&changes->lock);
    (void)map_retain(&changes->changes, &taking, leave_change);
    mutex_unlock(&changes->lock);
    must(taking.count <= most);
    return taking.count;
}
