/*
 * zone_file - loads the time zones that tzdata installs.
 *
 * Any thread. Reads one file, so not for the writer's or a web thread's hot path: a policy document
 * loads its zones when it is read.
 */
#ifndef MILLIGPU_ZONE_FILE_H
#define MILLIGPU_ZONE_FILE_H

#include "milligpu/core/rules/zone.h"

/*
 * *out belongs to the caller (zone_free). "UTC" needs no file. ERR_INVALID: not a name of a zone,
 * or what zone_new() refuses; ERR_NOT_FOUND: no such zone, or tzdata is missing; ERR_IO.
 */
int zone_load(const char *name, struct zone **out, struct err *err) MUST_USE;

/* The same from another folder, for tests. */
int zone_load_from(const char *folder, const char *name, struct zone **out,
                   struct err *err) MUST_USE;

#endif
