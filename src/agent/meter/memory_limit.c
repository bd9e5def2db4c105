/*
 * Sets the limits of a container in the runtime's StartContainer, on the main thread. Written from
 * the driver's documentation, and tested only with a fake library.
 */
#include "memory_limit.h"

#include "milligpu/run/clock.h"

#include "cgroup_folder.h"
#include "limit_probe.h"

/* True, with err, if no limit can be set now. *out_knows: false if the driver has not answered. */
static bool cannot(const struct memory_limit *limit, bool *out_knows, struct err *err)
{
    const struct gpu_reading *reading = limit->nvml != NULL ? nvml_latest(limit->nvml) : NULL;
    bool is_limited = true;

    *out_knows = reading == NULL || reading->status == NVML_READY;
    if (reading == NULL)
        (void)err_set(err, ERR_UNAVAILABLE, "the agent has no NVML (--nvml)");
    else if (reading->status != NVML_READY)
        (void)err_set(err, ERR_UNAVAILABLE, "%.300s", reading->problem);
    else if (!reading->has_memory_limit)
        (void)err_set(err, ERR_UNAVAILABLE,
                      "the NVIDIA driver %.60s has no memory limits, which came with R615",
                      reading->driver);
    else
        is_limited = false;
    gpu_reading_unref(reading);
    return is_limited;
}

/*
 * Sets hard limits only. A soft limit (a guarantee) is not needed, because the ledger gives each
 * MiB of a GPU to one share only. It would also stay in the parent cgroups when the container's is
 * removed, so that ended containers would use up the GPU's memory.
 */
static int limit_gpus(const struct memory_limit *limit, const struct grant *grant,
                      const char *folder, struct err *err)
{
    int64_t left_ms = LIMIT_WAIT_MS;
    enum nvml_limit_end end;

    for (uint32_t i = 0; i < grant->n_shares; i++) {
        const uint64_t bytes = (uint64_t)grant->share[i]->mib << 20;
        const struct nvml_limit one = {
            .uuid = grant->share[i]->gpu, .cgroup = folder, .hard_bytes = bytes};
        const int64_t from_ns = clock_ns();
        if (bytes == 0)
            continue;
        const int rc = limit_try(limit->nvml, &one, left_ms, &end, err);
        if (limit->probe != NULL)
            limit_probe_note(limit->probe, end);
        if (rc < 0)
            return err_same(err);
        left_ms -= (clock_ns() - from_ns) / 1000000;
        left_ms = left_ms > 0 ? left_ms : 0;
    }
    return 0;
}

static uint32_t shares_sized(const struct grant *grant)
{
    uint32_t sized = 0;

    for (uint32_t i = 0; i < grant->n_shares; i++)
        sized += grant->share[i]->mib > 0 ? 1 : 0;
    return sized;
}

static enum limit_outcome fail(const struct memory_limit *limit, struct err *err)
{
    if (limit->mode == LIMIT_REQUIRE)
        (void)err_wrap(
            err, "its GPU memory cannot be limited, and --memory-limit of the node's agent is "
                 "require: will be retried automatically; the operator can update the driver or "
                 "allow it unlimited (--memory-limit=auto)");
    return LIMIT_FAILED;
}

enum limit_outcome memory_limit_set(const struct memory_limit *limit, const struct grant *grant,
                                    const struct nri_container *container, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf folder;
    const uint32_t sized = shares_sized(grant);
    const bool required = limit->mode == LIMIT_REQUIRE;
    bool knows;

    must(grant->verdict == GRANT_GPUS && grant->n_shares > 0);
    strbuf_init(&folder);
    if (limit->mode == LIMIT_OFF || (sized == 0 && !required))
        return LIMIT_NONE;
    if (required && sized < grant->n_shares) {
        (void)err_set(err, ERR_UNAVAILABLE, "the memory of its share is not known");
        return fail(limit, err);
    }
    /* A driver without limits is not a failure; one that does not answer is. */
    if (cannot(limit, &knows, err))
        return required || !knows ? fail(limit, err) : LIMIT_NONE;
    if (cgroup_folder(limit->cgroup_dir, container->cgroups_path, &folder, err) < 0 ||
        limit_gpus(limit, grant, folder.data, err) < 0)
        return fail(limit, err);
    return LIMIT_SET;
}
