/*
 * manifest - the Pods of JSON and YAML files, as kubectl reads them.
 *
 * Several documents, Lists and PodLists are expanded. Objects of other kinds are reported to skip()
 * and left out: without a cluster a Deployment creates no pods.
 */
#ifndef MILLIGPU_CTL_MANIFEST_H
#define MILLIGPU_CTL_MANIFEST_H

#include "milligpu/doc.h"

struct manifest {
    struct arena *arena;
    const char *namespace; /* for pods without a namespace */
    struct doc *pods;      /* an array */
    void *user;
    void (*skip)(void *user, const char *kind, const char *name);
};

/* "-" is standard input. */
int manifest_read(struct manifest *manifest, const char *file, struct err *err) MUST_USE;
/* file names the bytes in errors. */
int manifest_parse(struct manifest *manifest, struct text bytes, const char *file,
                   struct err *err) MUST_USE;

#endif
