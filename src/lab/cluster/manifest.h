/*
 * manifest - objects of JSON and YAML files that are Pods or make Pods, read as in kubectl.
 *
 * Multiple documents and Lists are expanded. The pods of objects of unknown kinds are guessed
 * (guess.h). Objects without pods are reported to skip() and left out.
 */
#ifndef MILLIGPU_LAB_MANIFEST_H
#define MILLIGPU_LAB_MANIFEST_H

#include "pod_maker.h"

struct manifest {
    struct arena *arena;
    const char *namespace; /* for objects without a namespace */
    struct pod_maker *first;
    struct pod_maker *last;
    uint32_t workloads;
    uint32_t pods; /* number of pods of all workloads */
    void *user;
    void (*skip)(void *user, const char *kind, const char *name, const char *why);
    /* Gets the error of an invalid object; NULL: the first one ends the reading. */
    void (*wrong)(void *user, const char *text);
    /* True if the caller itself takes the object, which is no workload; NULL for never. */
    bool (*other)(void *user, const struct document *object);
};

/* file: "-" for standard input. */
int manifest_read(struct manifest *manifest, const char *file, struct err *err) MUST_USE;
/* file: the name for errors. */
int manifest_parse(struct manifest *manifest, struct text bytes, const char *file,
                   struct err *err) MUST_USE;

/*
 * Called after the last file: leaves out objects that another object of the files makes, such as
 * the ReplicaSets and Pods in a dump of Deployments.
 */
void manifest_finish(struct manifest *manifest);

#endif
