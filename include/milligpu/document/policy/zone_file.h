/*
 * zone_file - loads time zones from the files of tzdata.
 *
 * Any thread. Reads one file, so keep it off the hot paths of the writer and the HTTP threads: a
 * policy document loads its zones when it is read.
 */
#ifndef MILLIGPU_ZONE_FILE_H
#define MILLIGPU_ZONE_FILE_H

#include "milligpu/core/rules/zone.h"

/*
 * *out is owned by the caller (zone_free). "UTC" needs no file. Returns ERR_INVALID for an invalid
 * name or a file that zone_new() refuses, ERR_NOT_FOUND if the zone or tzdata is missing, or
 * ERR_IO.
 */
int zone_load(const char *name, struct zone **out, struct err *err) MUST_USE;

/* Loads from another folder, for tests. */
int zone_load_from(const char *folder, const char *name, struct zone **out,
                   struct err *err) MUST_USE;

#endif
