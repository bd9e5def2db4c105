/*
 * proc_owner - whose process it is, from what /proc says of it.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_PROC_OWNER_H
#define MILLIGPU_AGENT_PROC_OWNER_H

#include "milligpu/containers.h"

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

/* Is it a server or the control daemon of MPS? comm: the content of /proc/PID/comm. */
bool proc_is_mps(struct text comm);

#endif
