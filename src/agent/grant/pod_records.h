/*
 * pod_records - the first allocation of each pod uid whose signature this node verified, on disk.
 *
 *     DIR/born              exists after the first complete Synchronize
 *     DIR/pods/UID          "milligpu-node 2 NUMBER LENGTH\n", then the annotation
 *
 * A record is proof: the caller verifies the signature before it adds one. Records of format 1 can
 * come from pods without a signature, so they are dropped when the folder is opened; a pod with a
 * signature gets a new record.
 *
 * A record is written once and never changed: a uid has one allocation for life. The last
 * RECORDS_MAX pods are in memory and on disk (a node has a few hundred); records of running pods
 * are never evicted. No clock is read. A full or lying disk only loses records at a restart, and
 * allocations are signed: a record that cannot be written stays in memory, is counted, and is
 * retried.
 *
 * One thread.
 */
#ifndef MILLIGPU_POD_RECORDS_H
#define MILLIGPU_POD_RECORDS_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

enum { RECORDS_MAX = 1024 };

struct pod_records;

/* True for 1 to UID_BYTES_MAX letters, digits and '-': a uid that is a valid file name. */
bool pod_records_takes(struct text uid);

/*
 * Creates the folder with mode 0700, and reads its records. A damaged record is dropped; one that
 * cannot be read stays on disk, and its pod has none until the next start. Both are logged.
 */
int pod_records_open(const char *dir, struct pod_records **out, struct err *err) MUST_USE;
void pod_records_close(struct pod_records *records); /* NULL is fine */
DEFINE_FREEP(struct pod_records, pod_records_close);

/* True if no agent with this folder has ever received the complete list. */
bool pod_records_are_new(const struct pod_records *records);
/* Marks the folder as not new. When it returns 0, the mark and all records are on disk. */
int pod_records_born(struct pod_records *records, struct err *err) MUST_USE;

/* Sets *out, valid until the record is evicted; false if there is no record. */
bool pod_records_find(const struct pod_records *records, struct text uid, struct text *out);

/*
 * Adds a record, after the signature was verified; the uid must be valid and have none. Evicts the
 * oldest pod that does not run if there are RECORDS_MAX.
 */
void pod_records_add(struct pod_records *records, struct text uid, struct text annotation);

/* Called before a complete list, and for each pod of it: running pods are never evicted. */
void pod_records_none_run(struct pod_records *records);
void pod_records_runs(struct pod_records *records, struct text uid);

/* Retries failed writes. Returns the number of records that are in memory only. */
size_t pod_records_flush(struct pod_records *records);

size_t pod_records_count(const struct pod_records *records);

#endif
