/*
 * amounts - how much a pod requests, and how much a node has, of each resource.
 *
 * A list in an arena, in the order of the fields: a pod names few resources. CPU is in thousandths,
 * everything else in wholes. Amounts are never negative, and sums stop at INT64_MAX. Pure.
 */
#ifndef MILLIGPU_CTL_AMOUNTS_H
#define MILLIGPU_CTL_AMOUNTS_H

#include "milligpu/document/document.h"

struct amount {
    const char *resource;
    int64_t value;
    struct amount *next;
};

/* Resources that kube-scheduler looks at; of all others it takes no notice. */
bool amount_counts(const char *resource);
/* What a kubelet always names; a file written by hand may not. */
bool amount_is_basic(const char *resource);

/* NULL if the list does not name the resource. */
const struct amount *amounts_find(const struct amount *list, const char *resource);
int64_t amounts_value(const struct amount *list, const char *resource);
/* Creates it at the end of the list. */
struct amount *amounts_slot(struct arena *arena, struct amount **list, const char *resource);
void amounts_add(struct arena *arena, struct amount **to, const struct amount *more);

/*
 * Reads an object such as status.allocatable at path, but nothing of what the list has already: so
 * limits fill in for requests.
 */
int amounts_read(struct arena *arena, const struct document *amounts, const char *path,
                 struct amount **list, struct err *err) MUST_USE;

/* What a pod takes of its node: the peak over its life, and its overhead. */
int amounts_requested(struct arena *arena, const struct document *pod, struct amount **out,
                      struct err *err) MUST_USE;

#endif
