/*
 * Agents' reports, for answers about nodes and allocations. Called by handlers in an admin thread.
 * Reports arrive between two snapshots, so the ETag contains the version of the usage table, and
 * the minute for which the age of reports is judged, since old reports are left out.
 */
#include "milligpu/usage/usage_table.h"

#include "admin/api_internal.h"

enum { MINUTE_MS = 60000 };

static int64_t moment_of(struct api_call *call)
{
    const struct clock_ops *clock = &call->app->clock;
    const int64_t now_ms = clock->wall_ms(clock->ctx);

    if (call->measured_ms == 0)
        call->measured_ms = now_ms - now_ms % MINUTE_MS;
    return call->measured_ms;
}

void api_tag_measured(struct api_call *call, uint64_t generation)
{
    const uint64_t version = usage_table_version(call->app->usage_table);

    must(call->etag == NULL);
    api_tag(call, generation,
            version == 0 ? ""
                         : arena_printf(&call->arena, "-u%llu-%lld", (unsigned long long)version,
                                        (long long)(moment_of(call) / MINUTE_MS)));
}

struct admin_measured api_measured(struct api_call *call, const struct node *node)
{
    return (struct admin_measured){
        .measured = usage_table_measured(call->app->usage_table, atom_text(node->name)),
        .now_ms = moment_of(call),
    };
}
