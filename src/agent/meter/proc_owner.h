/*
 * proc_owner - whose process it is, from what /proc says of it.
 *
 * Pure; proc_owner_outside() reads by io.
 */
#ifndef MILLIGPU_AGENT_PROC_OWNER_H
#define MILLIGPU_AGENT_PROC_OWNER_H

#include "meter.h"

enum {
    OWNER_NONE = -1,     /* no container of the table */
    OWNER_DISPUTED = -2, /* its lines name several: it belongs to nobody whom we dare to name */
};

/*
 * The place in the table of the container that the process is in, or one of the above. cgroup: the
 * content of /proc/PID/cgroup, of either version, with the names that either driver gives:
 *
 *     4:memory:/kubepods/burstable/pod<uid>/<id>
 *     0::/kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<id>.scope
 *
 * In a line, the first part of the path that is a container of the table decides.
 */
int32_t proc_owner(struct text cgroup, const struct containers_copy *containers);

/*
 * Of a process that is in no container: OWNER_DISPUTED if it is one of these daemons of MPS, or
 * descends from one, or if it cannot be read, mostly since it has ended; else OWNER_NONE. Its name
 * proves nothing: anybody can take it.
 */
int32_t proc_owner_outside(const struct meter_io *io, uint32_t pid,
                           const struct mps_process *daemon, uint32_t daemons);

#endif
