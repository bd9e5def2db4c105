/*
 * cordon - what becomes of the annotation milligpu.io/cordon of a Node.
 *
 * Its value is "all" or ids of GPUs, separated by commas.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_CORDON_H
#define MILLIGPU_CTL_CORDON_H

#include "milligpu/base/err.h"
#include "milligpu/document/document.h"

struct cordon_change {
    const struct document *node;       /* an answer of /api/v1/nodes/NODE */
    const struct document *const *gpu; /* of that node */
    size_t gpus;                       /* 0: the whole node */
    bool lift;                         /* uncordon */
};

/*
 * The value after the change, "" for no annotation; have: the value before. Entries that name no
 * GPU of the node are kept: a GPU may be away. *out_same: the change changes nothing.
 */
int cordon_merge(const struct cordon_change *change, const char *have, struct strbuf *out,
                 bool *out_same, struct err *err) MUST_USE;

#endif
