/*
 * fake_apiserver - an API server inside the process, whose objects come from a cluster file.
 *
 * It has the behavior that clients depend on: uids, growing resourceVersions, lists in pages with
 * continue, watches with bookmarks and 410 after compaction, Bindings with 201, 404, 409 and 500
 * (as measured on real servers), merge patches, deletes. A test program serves it over HTTP for the
 * fault tests.
 *
 * The file has the output format of `kubectl get nodes,pods -A -o json` (or yaml) and is never
 * written. Thread-safe: one lock; each ops handle belongs to one thread.
 */
#ifndef MILLIGPU_FAKE_APISERVER_H
#define MILLIGPU_FAKE_APISERVER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"

struct fake_apiserver;

/* Creates an empty cluster; the uid of kube-system is derived from name. */
struct fake_apiserver *fake_apiserver_new(const char *name) MUST_USE;
void fake_apiserver_free(struct fake_apiserver *fake);

/* Reads a cluster file, JSON or YAML; errors name the file, the line or item, and the field. */
int fake_apiserver_load(struct fake_apiserver *fake, const char *file, struct err *err) MUST_USE;
int fake_apiserver_load_text(struct fake_apiserver *fake, const char *name, struct text text,
                             struct err *err) MUST_USE;

/* Numbers of objects in the files that were loaded. */
struct fake_apiserver_counts {
    uint64_t nodes;
    uint64_t pods;
    uint64_t ignored; /* objects of other kinds */
};
void fake_apiserver_counts(struct fake_apiserver *fake, struct fake_apiserver_counts *out);

/* Sets the UTC clock for creationTimestamp and similar fields; default is the real clock. */
void fake_apiserver_set_clock(struct fake_apiserver *fake, int64_t (*wall_ms)(void *ctx),
                              void *ctx);

/* Sets *out to a kube_ops for this API server; several may exist. */
void fake_apiserver_ops(struct fake_apiserver *fake, struct kube_ops *out);

/*
 * Answers one request at once: appends JSON to out and returns the status. path includes the query.
 * A watch returns the events since its resourceVersion; call again with the last one. Used by the
 * HTTP test server.
 */
int fake_apiserver_request(struct fake_apiserver *fake, const char *method, const char *path,
                           struct text body, struct strbuf *out);

/* Returns the resourceVersion of the last write. */
uint64_t fake_apiserver_version(struct fake_apiserver *fake);
/*
 * Sets the last used version; to be called before any object exists. Versions are lost at a
 * restart, but a ledger on disk stores the ones it has seen, so none may be reused.
 */
void fake_apiserver_set_version(struct fake_apiserver *fake, uint64_t version);

/* Discards all events up to now: watches from earlier versions get 410. */
void fake_apiserver_compact(struct fake_apiserver *fake);

/* Capacity of the event log; beyond it the oldest are compacted. */
enum { FAKE_EVENTS_MAX = 8192 };

#endif
