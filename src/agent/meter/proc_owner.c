/*
 * Finds the container of a process. Called by the meter's thread for each process of a reading, and
 * again before a process is killed.
 */
#include "proc_owner.h"

#include <string.h>

#include "agent/common/proc_stat.h"

enum {
    PARTS_OF_PATH_MAX = 64,
    ANCESTORS_MAX = 4, /* from an MPS server to its daemon, which is usually its parent */
};

/* True for "ID", or the systemd driver's "cri-containerd-ID.scope". */
static bool is_of(struct text part, const char *id)
{
    static const char scope[] = ".scope";
    const size_t len = strlen(id);

    if (len == 0)
        return false;
    if (text_is(part, id))
        return true;
    if (!text_ends(part, scope))
        return false;
    part.len -= strlen(scope);
    return part.len > len && text_ends(part, id) && part.at[part.len - len - 1] == '-';
}

static int32_t owner_of_path(struct text path, const struct containers_copy *containers)
{
    struct text part;

    for (int i = 0; i < PARTS_OF_PATH_MAX && text_cut(&path, '/', &part); i++)
        for (uint32_t j = 0; part.len > 0 && j < containers->count; j++)
            if (is_of(part, containers->container[j].id))
                return (int32_t)j;
    return OWNER_NONE;
}

int32_t proc_owner(struct text cgroup, const struct containers_copy *containers)
{
    int32_t owner = OWNER_NONE;
    struct text before = {"", 0}; /* the previous path; with version 1 most lines have the same */
    struct text line;
    struct text field;

    while (text_cut(&cgroup, '\n', &line)) {
        bool is_path = text_cut(&line, ':', &field); /* number of the hierarchy */
        is_path = is_path && text_cut(&line, ':', &field);
        if (!is_path || text_eq(line, before))
            continue;
        before = line;
        const int32_t found = owner_of_path(line, containers);
        if (found == OWNER_NONE)
            continue;
        if (owner != OWNER_NONE && owner != found)
            return OWNER_DISPUTED;
        owner = found;
    }
    must(owner >= OWNER_NONE && owner < (int32_t)containers->count);
    return owner;
}

static bool is_daemon(const struct mps_process *daemon, uint32_t daemons, uint32_t pid,
                      uint64_t began)
{
    for (uint32_t i = 0; i < daemons; i++)
        if (daemon[i].pid == pid && daemon[i].began == began)
            return true;
    return false;
}

int32_t proc_owner_outside(const struct meter_io *io, uint32_t pid,
                           const struct mps_process *daemon, uint32_t daemons)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct proc_stat stat;

    strbuf_init(&text);
    for (int i = 0; i <= ANCESTORS_MAX && pid > 1; i++) {
        strbuf_reset(&text);
        if (!io->read(io->user, pid, "stat", &text) ||
            !proc_stat_read((struct text){text.data, text.len}, &stat))
            return i == 0 ? OWNER_DISPUTED : OWNER_NONE;
        if (is_daemon(daemon, daemons, pid, stat.began))
            return OWNER_DISPUTED;
        pid = stat.parent;
    }
    return OWNER_NONE;
}
