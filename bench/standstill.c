#include "standstill.h"

int64_t standstill_ms;

static int64_t hand_now(void *ctx)
{
    (void)ctx;
    return standstill_ms;
}

static int64_t hand_wall(void *ctx)
{
    (void)ctx;
    return 1795000000000 + standstill_ms;
}

struct clock_ops standstill_clock(void)
{
    return (struct clock_ops){.now_ms = hand_now, .wall_ms = hand_wall};
}

static int swallow(void *ctx, const struct kube_request *request, struct err *err)
{
    (void)ctx;
    (void)request;
    (void)err;
    return 0;
}

static void cancel(void *ctx, uint64_t id)
{
    (void)ctx;
    (void)id;
}

static void wake(void *ctx)
{
    (void)ctx;
}

struct kube_ops standstill_server(void)
{
    return (struct kube_ops){.start = swallow, .cancel = cancel, .wake = wake};
}
