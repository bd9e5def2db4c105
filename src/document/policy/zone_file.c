/*
 * Reads the files of tzdata. The folder is fixed: the environment (TZDIR) must not decide when a
 * rule of a policy holds. Called by readers of policy documents, on their thread.
 */
#include "milligpu/document/policy/zone_file.h"

#include <errno.h>
#include <sys/stat.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"

static const char ZONES_FOLDER[] = "/usr/share/zoneinfo";

/* A folder ("Europe") is not a zone. file_read() reports other failures. */
static bool is_missing(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR;
    return !S_ISREG(st.st_mode);
}

static int unknown(const char *folder, const char *name, struct err *err)
{
    struct stat st;
    if (stat(folder, &st) < 0)
        return err_set(err, ERR_NOT_FOUND, "unknown time zone \"%s\": no %s; is tzdata installed?",
                       name, folder);
    return err_set(err, ERR_NOT_FOUND,
                   "unknown time zone \"%s\": write it as tzdata does, such as Europe/Berlin",
                   name);
}

int zone_load_from(const char *folder, const char *name, struct zone **out, struct err *err)
{
    CLEANUP(xfreep) char *bytes = NULL;
    CLEANUP(strbuf_done) struct strbuf path;
    size_t len;

    strbuf_init(&path);
    if (!zone_name_ok(text_of(name)))
        return err_set(err, ERR_INVALID,
                       "\"%s\" is not a time zone: write a name like Europe/Berlin, or UTC", name);
    if (text_is(text_of(name), "UTC")) {
        *out = zone_utc();
        return 0;
    }
    strbuf_printf(&path, "%s/%s", folder, name);
    if (is_missing(path.data))
        return unknown(folder, name, err);
    if (file_read(path.data, ZONE_BYTES_MAX, &bytes, &len, err) < 0)
        return err_wrap(err, "time zone %s", name);
    return zone_new(text_of(name), (struct text){bytes, len}, out, err);
}

int zone_load(const char *name, struct zone **out, struct err *err)
{
    return zone_load_from(ZONES_FOLDER, name, out, err);
}
