/*
 * standin - an API server in the process: the cluster is a file.
 *
 * Semantics, not looks: uids, resourceVersions that grow, list in pages with continue, watch with
 * bookmarks and 410 after compaction, Binding with its 201, 404, 409 and 500 (measured on real
 * ones), merge patches, delete.  Served over HTTP by a test program it is the fake API server of
 * the fault tests.
 *
 * The file is what `kubectl get nodes,pods -A -o json` (or yaml) prints; it is never written.
 * Thread-safe: one lock; each ops handle belongs to one thread.
 */
#ifndef MILLIGPU_STANDIN_H
#define MILLIGPU_STANDIN_H

#include "milligpu/kube.h"
#include "milligpu/strbuf.h"

struct standin;

/* An empty cluster; kube-system has a fixed made-up uid derived from name. */
struct standin *standin_new(const char *name) MUST_USE;
void standin_free(struct standin *standin);

/* Read a cluster file, JSON or YAML; errors name file, line or item and field. */
int standin_load(struct standin *standin, const char *file, struct err *err) MUST_USE;
int standin_load_text(struct standin *standin, const char *name, struct text text,
                      struct err *err) MUST_USE;

/* What was read from files, and how many items of other kinds were left out. */
struct standin_counts {
    uint64_t nodes;
    uint64_t pods;
    uint64_t ignored;
};
void standin_counts(struct standin *standin, struct standin_counts *out);

/* UTC for creationTimestamp and its like; the real clock unless said. */
void standin_set_clock(struct standin *standin, int64_t (*wall_ms)(void *ctx), void *ctx);

/* A kube_ops on it; several may exist. */
void standin_ops(struct standin *standin, struct kube_ops *out);

/*
 * One request, answered at once: method, path with query, body -> status and JSON.  A watch
 * answers with what there is since its resourceVersion; call again with the last one.  This is
 * what the HTTP test server serves.
 */
int standin_request(struct standin *standin, const char *method, const char *path, struct text body,
                    struct strbuf *out);

/* resourceVersion of the last write: another one means that something was written. */
uint64_t standin_version(struct standin *standin);
/*
 * Count versions on from there, before anything is in it.  Nobody keeps them over a restart, but a
 * ledger on disk remembers those that it has seen: they must not come again.
 */
void standin_set_version(struct standin *standin, uint64_t version);

/* Forget events up to now: watches that start before get 410. */
void standin_compact(struct standin *standin);

/* How many events are kept before the oldest are compacted away. */
enum { STANDIN_EVENTS_MAX = 8192 };

#endif
