/*
 * pod_records - the first allocation of each pod uid that this node saw proven by a signature, kept
 * on disk.
 *
 *     DIR/born              exists after the first complete Synchronize
 *     DIR/pods/UID          "milligpu-node 2 NUMBER LENGTH\n", then the annotation
 *
 * A record is proof: the caller verifies the signature before it adds one. Records of format 1 may
 * come from pods without a signature, so they are dropped when the folder is opened; a pod with a
 * signature gets a new record.
 *
 * A record is written once and never changed: a uid has one allocation for its life. In memory and
 * on disk are the RECORDS_MAX pods that were seen last (a node has some hundred); pods that run are
 * never forgotten. No clock is read. A disk that is full, or that lies, costs the protection of a
 * restart and nothing else, since allocations are signed: what cannot be written stays in memory,
 * is counted, and is tried again.
 *
 * One thread.
 */
#ifndef MILLIGPU_POD_RECORDS_H
#define MILLIGPU_POD_RECORDS_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum { RECORDS_MAX = 1024 };

struct pod_records;

/* Letters, digits and '-', 1 to UID_BYTES_MAX of them: a uid that can be the name of a file. */
bool pod_records_takes(struct text uid);

/*
 * Makes the folder, mode 0700, and reads what is there. A record that is damaged is dropped; one
 * that cannot be read stays, and its pod has none until then. Both are logged.
 */
int pod_records_open(const char *dir, struct pod_records **out, struct err *err) MUST_USE;
void pod_records_close(struct pod_records *records); /* NULL is fine */
DEFINE_FREEP(struct pod_records, pod_records_close);

/* Did an agent with this folder never see everything that runs? */
bool pod_records_are_new(const struct pod_records *records);
/* From now on it did. On disk, with all records before it, when this returns 0. */
int pod_records_born(struct pod_records *records, struct err *err) MUST_USE;

/* *out stays valid until the pod is forgotten. False: no record. */
bool pod_records_find(const struct pod_records *records, struct text uid, struct text *out);

/*
 * A uid that is taken and has none, after its signature was verified. The oldest pod that does not
 * run gives way.
 */
void pod_records_add(struct pod_records *records, struct text uid, struct text annotation);

/* Before and for each pod of a list of everything that runs: these are never forgotten. */
void pod_records_none_run(struct pod_records *records);
void pod_records_runs(struct pod_records *records, struct text uid);

/* Writes what could not be written before. Returns how many records are in memory only. */
size_t pod_records_flush(struct pod_records *records);

size_t pod_records_count(const struct pod_records *records);

#endif
