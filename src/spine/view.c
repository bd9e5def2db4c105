/* The current snapshot behind a lock. The writer publishes; any thread takes references. */
#include "milligpu/spine/view.h"

#include "milligpu/base/alloc.h"
#include "milligpu/run/mutex.h"

struct view {
    struct mutex lock; /* guards the pointer, not what it points to */
    const struct snapshot *current;
};

struct view *view_new(void)
{
    struct view *view = xcalloc(1, sizeof *view);

    mutex_init(&view->lock);
    return view;
}

void view_free(struct view *view)
{
    if (view == NULL)
        return;
    snapshot_unref(view->current);
    mutex_done(&view->lock);
    xfree(view);
}

const struct snapshot *view_take(struct view *view)
{
    mutex_lock(&view->lock);
    const struct snapshot *taken = view->current != NULL ? snapshot_ref(view->current) : NULL;
    mutex_unlock(&view->lock);
    return taken;
}

/* Called by the writer only, so generations grow. */
void view_publish(struct view *view, struct snapshot *take_snapshot)
{
    must(take_snapshot != NULL);

    mutex_lock(&view->lock);
    const struct snapshot *before = view->current;
    must(before == NULL || before->generation < take_snapshot->generation);
    view->current = take_snapshot;
    mutex_unlock(&view->lock);
    snapshot_unref(before); /* outside the lock: it may free many pages */
}

uint64_t view_capacity_generation(struct view *view)
{
    mutex_lock(&view->lock);
    const uint64_t capacity_generation =
        view->current != NULL ? view->current->capacity_generation : 0;
    mutex_unlock(&view->lock);
    return capacity_generation;
}
