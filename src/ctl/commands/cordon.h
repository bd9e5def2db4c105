/*
 * cordon - changes of the annotation milligpu.io/cordon of a Node.
 *
 * The value is "all" or ids of GPUs, separated by commas.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_CORDON_H
#define MILLIGPU_CTL_CORDON_H

#include "milligpu/base/err.h"
#include "milligpu/document/document.h"

struct cordon_change {
    const struct document *node;       /* an answer of /api/v1/nodes/NODE */
    const struct document *const *gpu; /* GPUs of that node; borrowed */
    size_t n_gpus;                     /* 0 for the whole node */
    bool lift;                         /* uncordon instead of cordon */
};

/*
 * *out: the value after the change, "" for no annotation; have: the value before it. Entries that
 * name no GPU of the node are kept, since the GPU can be absent. *out_same: the value is unchanged.
 */
int cordon_merge(const struct cordon_change *change, const char *have, struct strbuf *out,
                 bool *out_same, struct err *err) MUST_USE;

#endif
