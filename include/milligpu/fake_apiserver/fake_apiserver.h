/*
 * fake_apiserver - an API server in this process: the cluster is a file.
 *
 * It reproduces what clients depend on: uids, growing resourceVersions, lists in pages with
 * continue, watches with bookmarks and 410 after compaction, Bindings with 201, 404, 409 and 500
 * (as measured on real servers), merge patches, deletes. A test program serves it over HTTP as the
 * fake API server of the fault tests.
 *
 * The file is what `kubectl get nodes,pods -A -o json` (or yaml) prints; it is never written.
 * Thread-safe: one lock; each ops handle belongs to one thread.
 */
#ifndef MILLIGPU_FAKE_APISERVER_H
#define MILLIGPU_FAKE_APISERVER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"

struct fake_apiserver;

/* An empty cluster; kube-system has a fixed uid derived from name. */
struct fake_apiserver *fake_apiserver_new(const char *name) MUST_USE;
void fake_apiserver_free(struct fake_apiserver *fake);

/* Reads a cluster file, JSON or YAML; errors name the file, the line or item, and the field. */
int fake_apiserver_load(struct fake_apiserver *fake, const char *file, struct err *err) MUST_USE;
int fake_apiserver_load_text(struct fake_apiserver *fake, const char *name, struct text text,
                             struct err *err) MUST_USE;

/* How many objects were read from files, and how many of other kinds were skipped. */
struct fake_apiserver_counts {
    uint64_t nodes;
    uint64_t pods;
    uint64_t ignored;
};
void fake_apiserver_counts(struct fake_apiserver *fake, struct fake_apiserver_counts *out);

/* UTC for creationTimestamp and similar fields; default is the real clock. */
void fake_apiserver_set_clock(struct fake_apiserver *fake, int64_t (*wall_ms)(void *ctx),
                              void *ctx);

/* A kube_ops for this API server; several may exist. */
void fake_apiserver_ops(struct fake_apiserver *fake, struct kube_ops *out);

/*
 * Answers one request at once: method, path with query, body -> status and JSON. A watch returns
 * the events since its resourceVersion; call again with the last one. The HTTP test server uses
 * this.
 */
int fake_apiserver_request(struct fake_apiserver *fake, const char *method, const char *path,
                           struct text body, struct strbuf *out);

/* The resourceVersion of the last write: if it changed, something was written. */
uint64_t fake_apiserver_version(struct fake_apiserver *fake);
/*
 * Continues versions from this one; call it before any object exists. Versions are not kept over a
 * restart, but a ledger on disk remembers those that it has seen, so none may be used again.
 */
void fake_apiserver_set_version(struct fake_apiserver *fake, uint64_t version);

/* Forgets all events up to now: watches that start earlier get 410. */
void fake_apiserver_compact(struct fake_apiserver *fake);

/* How many events are kept before the oldest are compacted away. */
enum { FAKE_EVENTS_MAX = 8192 };

#endif
