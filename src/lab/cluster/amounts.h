/*
 * amounts - amounts of each resource that a pod requests or a node has.
 *
 * A list in an arena, in the order of the fields, since pods name few resources. CPU is in
 * thousandths, other resources in units. Amounts are never negative; sums saturate at INT64_MAX.
 * Pure.
 */
#ifndef MILLIGPU_LAB_AMOUNTS_H
#define MILLIGPU_LAB_AMOUNTS_H

#include "milligpu/document/document.h"

struct amount {
    const char *resource;
    int64_t value;
    struct amount *next;
};

/* True for resources that kube-scheduler considers. */
bool amount_counts(const char *resource);
/* True for resources that a kubelet always reports; files written by hand can lack them. */
bool amount_is_basic(const char *resource);

/* NULL if the resource is not in the list. */
const struct amount *amounts_find(const struct amount *list, const char *resource);
int64_t amounts_value(const struct amount *list, const char *resource);
/* Finds the resource, or adds it at the end of the list. */
struct amount *amounts_slot(struct arena *arena, struct amount **list, const char *resource);
void amounts_add(struct arena *arena, struct amount **to, const struct amount *more);

/*
 * Adds the amounts of an object such as status.allocatable at path; skips resources that the list
 * already has, so that limits fill in for requests.
 */
int amounts_read(struct arena *arena, const struct document *amounts, const char *path,
                 struct amount **list, struct err *err) MUST_USE;

/* The amounts that a pod takes of its node: the peak over its life plus its overhead. */
int amounts_requested(struct arena *arena, const struct document *pod, struct amount **out,
                      struct err *err) MUST_USE;

#endif
