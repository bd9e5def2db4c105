/* Derives the folder of a cgroup. Called by the main thread to limit a container's memory. */
#include "cgroup_folder.h"

#include <string.h>

static const char SLICE[] = ".slice";

/* True for one component of a path, except "." and "..". */
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

/* Appends the slice and its parents: "a-b.slice" is in "a.slice". */
static bool add_slices(struct text slice, struct strbuf *out)
{
    if (text_is(slice, "-.slice"))
        return true; /* the root slice */
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
    /* runc's default is system.slice */
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
