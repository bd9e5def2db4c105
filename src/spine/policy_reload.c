/*
 * Result of the last attempt to read the policy document. Written by the main thread, read by admin
 * threads.
 */
#include "milligpu/spine/policy_reload.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/text.h"
#include "milligpu/run/mutex.h"

struct policy_reload {
    struct mutex lock; /* guards the rest */
    bool failed;
    int64_t at_ms;
    char error[ERR_TEXT_MAX];
};

struct policy_reload *policy_reload_new(void)
{
    struct policy_reload *reload = xcalloc(1, sizeof *reload);

    mutex_init(&reload->lock);
    return reload;
}

void policy_reload_free(struct policy_reload *reload)
{
    if (reload == NULL)
        return;
    mutex_done(&reload->lock);
    xfree(reload);
}

void policy_reload_report(struct policy_reload *reload, const char *error, int64_t at_ms)
{
    mutex_lock(&reload->lock);
    if (error != NULL && !reload->failed)
        reload->at_ms = at_ms;
    reload->failed = error != NULL;
    text_clip(text_of(error != NULL ? error : ""), reload->error, sizeof reload->error);
    mutex_unlock(&reload->lock);
}

bool policy_reload_failed(struct policy_reload *reload, char out_error[ERR_TEXT_MAX],
                          int64_t *out_at_ms)
{
    mutex_lock(&reload->lock);
    const bool failed = reload->failed;
    *out_at_ms = reload->at_ms;
    memcpy(out_error, reload->error, ERR_TEXT_MAX);
    mutex_unlock(&reload->lock);
    return failed;
}
