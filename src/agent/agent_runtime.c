/*
 * Decides which container runtimes are supported; called in the agent's main thread. The
 * capabilities of versions were measured and read in their source (docs/operate/nodes.md):
 * containerd 1.7 before 1.7.30 and 2.0 silently drop CDI devices of plugins. Later versions of 1.7
 * do not, but were not tested. Required plugins and validation came with 2.2.
 */
#include <stdlib.h>

#include "milligpu/agent/agent.h"
#include "milligpu/base/text.h"

/* Parses "v2.3.7", "2.2.0-rc.1". */
static bool version_parse(struct text version, long *out_major, long *out_minor)
{
    char text[64];
    char *end;

    text_clip(version, text, sizeof text);
    const char *at = text[0] == 'v' ? text + 1 : text;
    *out_major = strtol(at, &end, 10);
    if (end == at || *end != '.' || *out_major < 0)
        return false;
    at = end + 1;
    *out_minor = strtol(at, &end, 10);
    return end != at && *out_minor >= 0;
}

int agent_runtime_check(struct text name, struct text version, bool *out_closed, struct err *err)
{
    char shown[64];
    long major;
    long minor;

    *out_closed = true;
    if (!text_is(name, "containerd"))
        return 0; /* CRI-O has CDI for plugins since 1.32; not tested */
    text_clip(version, shown, sizeof shown);
    if (!version_parse(version, &major, &minor))
        return err_set(err, ERR_INVALID, "could not parse the version \"%s\" of containerd", shown);
    if (major < 2 || (major == 2 && minor < 1))
        return err_set(err, ERR_INVALID,
                       "containerd %s is too old: milligpu-node needs 2.1, better 2.2 or later",
                       shown);
    *out_closed = major > 2 || minor >= 2;
    return 0;
}
