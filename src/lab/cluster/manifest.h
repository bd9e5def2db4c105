/*
 * manifest - the objects of JSON and YAML files that are Pods or make Pods, as kubectl reads them.
 *
 * Several documents and Lists are expanded. The pods of objects whose kind is not known are guessed
 * (guess.h). Objects without pods are reported to skip() and left out.
 */
#ifndef MILLIGPU_CTL_MANIFEST_H
#define MILLIGPU_CTL_MANIFEST_H

#include "pod_maker.h"

struct manifest {
    struct arena *arena;
    const char *namespace; /* for objects without a namespace */
    struct pod_maker *first;
    struct pod_maker *last;
    uint32_t workloads;
    uint32_t pods; /* that all of them make */
    void *user;
    void (*skip)(void *user, const char *kind, const char *name, const char *why);
    /* An object that cannot be read; the others are. NULL: it ends the reading. */
    void (*wrong)(void *user, const char *text);
    /* Is the object, which is no workload, one that the caller wants itself? NULL: none is. */
    bool (*other)(void *user, const struct document *object);
};

/* "-" is standard input. */
int manifest_read(struct manifest *manifest, const char *file, struct err *err) MUST_USE;
/* file names the bytes in errors. */
int manifest_parse(struct manifest *manifest, struct text bytes, const char *file,
                   struct err *err) MUST_USE;

/*
 * After the last file: what another object of the files makes is left out, as the ReplicaSets and
 * Pods in a dump of Deployments.
 */
void manifest_finish(struct manifest *manifest);

#endif
