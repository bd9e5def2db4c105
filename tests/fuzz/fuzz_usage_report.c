/*
 * A report of usage is any bytes: it is refused with its path, or within its bounds, and then it is
 * the same when it is written and read again.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/usage/usage_report.h"

#include "support.h"

static void within_bounds(const struct usage_report *report)
{
    must(report->number > 0 && report->number <= INT64_MAX);
    must(report->seconds > 0 && report->seconds <= USAGE_SECONDS_MAX);
    must(report->node.len > 0 && report->node.len <= NAME_BYTES_MAX);
    must(report->n_pods <= USAGE_PODS_MAX);
    for (uint32_t i = 0; i < report->n_pods; i++) {
        must(report->pod[i].uid.len > 0 && report->pod[i].n_containers <= CONTAINERS_MAX);
        for (uint32_t k = 0; k < report->pod[i].n_containers; k++) {
            const struct usage_container *container = &report->pod[i].container[k];
            must(container->name.len > 0 && container->n_gpus <= GPUS_PER_NODE_MAX);
            for (uint32_t m = 0; m < container->n_gpus; m++)
                must(container->gpu[m].gpu.len > 0 && container->gpu[m].milli >= USAGE_UNKNOWN &&
                     container->gpu[m].milli <= GPU_MILLI &&
                     container->gpu[m].mib >= USAGE_UNKNOWN &&
                     (!container->gpu[m].is_scaled || container->gpu[m].milli != USAGE_UNKNOWN));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t before = heap_bytes();
    struct usage_report report;
    SCOPED_STRBUF(first);
    SCOPED_STRBUF(second);
    SCOPED_ARENA(arena);
    struct err err;

    const int rc =
        usage_report_decode((struct text){(const char *)data, size}, &arena, &report, &err);
    heap_is_bounded(before, size);
    if (rc < 0) {
        must(strncmp(err.text, "report", 6) == 0);
    } else {
        within_bounds(&report);
        usage_report_encode(&first, &report);
        must(usage_report_decode((struct text){first.data, first.len}, &arena, &report, &err) == 0);
        usage_report_encode(&second, &report);
        must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    }
    return 0;
}
