/*
 * cgroup_folder - the folder of a container's cgroup.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_CGROUP_FOLDER_H
#define MILLIGPU_AGENT_CGROUP_FOLDER_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

/*
 * Appends the folder of a cgroup (version 2) for its path in the OCI specification: a path below
 * dir with the cgroupfs driver ("/kubepods/pod1/ID"), or the folder that the systemd driver creates
 * for "SLICE:PREFIX:NAME". Fails if it is neither, or leads out of dir.
 */
int cgroup_folder(const char *dir, struct text path, struct strbuf *out, struct err *err) MUST_USE;

#endif
