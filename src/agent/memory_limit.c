/*
 * Called by the runtime's StartContainer. As much as the driver's documentation says of its limits,
 * milligpu was tried with a fake library only.
 */
#include "agent/memory_limit.h"

#include <string.h>

#include "milligpu/clock.h"

static const char SLICE[] = ".slice";

/* One part of a path that stays where it is. */
static bool is_part(struct text part)
{
    return part.len > 0 && !text_is(part, ".") && !text_is(part, "..") &&
           memchr(part.at, '/', part.len) == NULL && memchr(part.at, '\0', part.len) == NULL;
}

static int refuse_path(struct text path, struct err *err)
{
    char shown[200];

    text_clip(path, shown, sizeof shown);
    return err_set(err, ERR_INVALID, "\"%s\" is no path of a cgroup", shown);
}

/* "a-b.slice" lies in "a.slice": a slice names all above it. */
static bool add_slices(struct text slice, struct strbuf *out)
{
    if (text_is(slice, "-.slice"))
        return true; /* the root */
    if (!is_part(slice) || !text_ends(slice, SLICE) || slice.len == strlen(SLICE))
        return false;
    const struct text stem = {slice.at, slice.len - strlen(SLICE)};
    if (stem.at[0] == '-' || stem.at[stem.len - 1] == '-' ||
        memmem(stem.at, stem.len, "--", 2) != NULL)
        return false;
    for (size_t i = 1; i <= stem.len; i++)
        if (i == stem.len || stem.at[i] == '-') {
            strbuf_char(out, '/');
            strbuf_text(out, (struct text){stem.at, i});
            strbuf_str(out, SLICE);
        }
    return true;
}

static bool add_systemd(struct text path, struct strbuf *out)
{
    struct text slice;
    struct text prefix;

    if (!text_cut(&path, ':', &slice) || !text_cut(&path, ':', &prefix) || !is_part(path) ||
        memchr(path.at, ':', path.len) != NULL)
        return false;
    /* runc takes the first where none is named */
    if (!add_slices(slice.len == 0 ? TEXT("system.slice") : slice, out))
        return false;
    if (prefix.len > 0 && !is_part(prefix))
        return false;
    strbuf_char(out, '/');
    strbuf_text(out, prefix);
    if (prefix.len > 0)
        strbuf_char(out, '-');
    strbuf_text(out, path);
    strbuf_str(out, ".scope");
    return true;
}

static bool add_cgroupfs(struct text path, struct strbuf *out)
{
    struct text part;

    must(path.len > 0 && path.at[0] == '/');
    path = (struct text){path.at + 1, path.len - 1};
    while (text_cut(&path, '/', &part)) {
        if (!is_part(part))
            return false;
        strbuf_char(out, '/');
        strbuf_text(out, part);
    }
    return true;
}

int cgroup_folder(const char *dir, struct text path, struct strbuf *out, struct err *err)
{
    strbuf_str(out, dir);
    if (path.len > 0 && (path.at[0] == '/' ? add_cgroupfs(path, out) : add_systemd(path, out)))
        return 0;
    return refuse_path(path, err);
}

/* --- limits --- */

/* Why no limit can be set now; false: one can. */
static bool cannot(const struct memory_limit *limit, bool *out_knows, struct err *err)
{
    const struct gpu_reading *reading = limit->nvml != NULL ? nvml_latest(limit->nvml) : NULL;
    bool is = true;

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
        is = false;
    gpu_reading_unref(reading);
    return is;
}

/*
 * Hard and soft are the same: the ledger gives each MiB of a GPU to one share only, so what a share
 * may take at most is also what it was promised. Without the promise the driver could take memory
 * back from a container that is within its share, for another one without any.
 */
static int limit_gpus(const struct memory_limit *limit, const struct grant *grant,
                      const char *folder, struct err *err)
{
    int64_t left_ms = LIMIT_WAIT_MS;

    for (uint32_t i = 0; i < grant->shares; i++) {
        const uint64_t bytes = (uint64_t)grant->share[i]->mib << 20;
        const struct nvml_limit one = {.uuid = grant->share[i]->gpu,
                                       .cgroup = folder,
                                       .soft_bytes = bytes,
                                       .hard_bytes = bytes};
        const int64_t from_ns = clock_ns();
        if (bytes == 0)
            continue;
        if (nvml_limit_memory(limit->nvml, &one, left_ms, err) < 0)
            return err_same(err);
        left_ms -= (clock_ns() - from_ns) / 1000000;
        left_ms = left_ms > 0 ? left_ms : 0;
    }
    return 0;
}

static uint32_t shares_sized(const struct grant *grant)
{
    uint32_t sized = 0;

    for (uint32_t i = 0; i < grant->shares; i++)
        sized += grant->share[i]->mib > 0 ? 1 : 0;
    return sized;
}

static enum limit_outcome fail(const struct memory_limit *limit, struct err *err)
{
    if (limit->mode == LIMIT_REQUIRE)
        (void)err_wrap(
            err, "its GPU memory cannot be limited, and --memory-limit of the node's agent is "
                 "require: tried again by itself; the operator can update the driver or "
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

    must(grant->verdict == GRANT_GPUS && grant->shares > 0);
    strbuf_init(&folder);
    if (limit->mode == LIMIT_OFF || (sized == 0 && !required))
        return LIMIT_NONE;
    if (required && sized < grant->shares) {
        (void)err_set(err, ERR_UNAVAILABLE, "the memory of its share is not known");
        return fail(limit, err);
    }
    /* A driver that has no limits is no failure, one that does not answer is. */
    if (cannot(limit, &knows, err))
        return required || !knows ? fail(limit, err) : LIMIT_NONE;
    if (cgroup_folder(limit->cgroup_dir, container->cgroups_path, &folder, err) < 0 ||
        limit_gpus(limit, grant, folder.data, err) < 0)
        return fail(limit, err);
    return LIMIT_SET;
}
