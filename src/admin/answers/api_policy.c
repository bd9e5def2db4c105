/*
 * The handler for the policy in force. Called by the router in an admin thread. The answer has no
 * ETag, because the next change of rules depends on the clock.
 */
#include "milligpu/spine/policy_reload.h"

#include "admin/api_internal.h"

void api_policy(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    const struct clock_ops *clock = &call->app->clock;
    struct json_writer json;
    char failed[ERR_TEXT_MAX];

    if (snapshot == NULL)
        return;
    must(snapshot->context != NULL);
    struct admin_policy policy = {.context = snapshot->context,
                                  .now_ms = clock->wall_ms(clock->ctx)};
    if (policy_reload_failed(call->app->policy_reload, failed, &policy.failed_ms))
        policy.failed = failed;
    json_writer_init(&json, &call->body);
    admin_policy(&json, &policy);
}
