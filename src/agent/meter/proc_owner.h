/*
 * proc_owner - the container of a process, from /proc.
 *
 * Pure; proc_owner_outside() reads by io.
 */
#ifndef MILLIGPU_AGENT_PROC_OWNER_H
#define MILLIGPU_AGENT_PROC_OWNER_H

#include "meter.h"

enum {
    OWNER_NONE = -1,     /* no container of the table */
    OWNER_DISPUTED = -2, /* ambiguous: its lines name several containers */
};

/*
 * The index in containers of the process's container, or one of the above. cgroup: the content of
 * /proc/PID/cgroup, version 1 or 2, with the names of either cgroup driver:
 *
 *     4:memory:/kubepods/burstable/pod<uid>/<id>
 *     0::/kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<id>.scope
 *
 * In each line, the first part of the path that names a container of the table decides.
 */
int32_t proc_owner(struct text cgroup, const struct containers_copy *containers);

/*
 * For a process of no container: OWNER_DISPUTED if it is one of these MPS daemons or a descendant,
 * or if it cannot be read, usually because it has ended; else OWNER_NONE. Its name is not checked:
 * any process can take it.
 */
int32_t proc_owner_outside(const struct meter_io *io, uint32_t pid,
                           const struct mps_process *daemon, uint32_t daemons);

#endif
