#include "milligpu/view.h"

#include <pthread.h>

#include "milligpu/alloc.h"

struct view {
    pthread_mutex_t lock; /* guards the pointer, not what it points to */
    const struct snapshot *current;
};

struct view *view_new(void)
{
    struct view *view = xcalloc(1, sizeof *view);

    must(pthread_mutex_init(&view->lock, NULL) == 0);
    return view;
}

void view_free(struct view *view)
{
    if (view == NULL)
        return;
    snapshot_unref(view->current);
    (void)pthread_mutex_destroy(&view->lock);
    xfree(view);
}

const struct snapshot *view_take(struct view *view)
{
    must(pthread_mutex_lock(&view->lock) == 0);
    const struct snapshot *taken = view->current != NULL ? snapshot_ref(view->current) : NULL;
    must(pthread_mutex_unlock(&view->lock) == 0);
    return taken;
}

/* Only the writer publishes, so generations grow. */
void view_publish(struct view *view, struct snapshot *take_snapshot)
{
    must(take_snapshot != NULL);

    must(pthread_mutex_lock(&view->lock) == 0);
    const struct snapshot *before = view->current;
    must(before == NULL || before->generation < take_snapshot->generation);
    view->current = take_snapshot;
    must(pthread_mutex_unlock(&view->lock) == 0);
    snapshot_unref(before); /* outside the lock: it may free many pages */
}

uint64_t view_capacity_generation(struct view *view)
{
    must(pthread_mutex_lock(&view->lock) == 0);
    const uint64_t capacity_generation =
        view->current != NULL ? view->current->capacity_generation : 0;
    must(pthread_mutex_unlock(&view->lock) == 0);
    return capacity_generation;
}
