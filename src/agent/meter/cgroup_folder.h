/*
 * cgroup_folder - where the cgroup of a container is.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_CGROUP_FOLDER_H
#define MILLIGPU_AGENT_CGROUP_FOLDER_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

/*
 * The folder of a cgroup, of version 2, by its path in the OCI specification: the path below dir of
 * the cgroupfs driver ("/kubepods/pod1/ID"), or what the systemd driver makes of
 * "SLICE:PREFIX:NAME". An error: neither, or it leads out of dir.
 */
int cgroup_folder(const char *dir, struct text path, struct strbuf *out, struct err *err) MUST_USE;

#endif
