/*
 * gfd_labels - the labels of a node with NVIDIA's operator: all that gpu-feature-discovery, node
 * feature discovery and the operator write there, since a node of the real world has them all
 * (gfd_labels.def).
 */
#ifndef MILLIGPU_TEST_GFD_LABELS_H
#define MILLIGPU_TEST_GFD_LABELS_H

#include "milligpu/base/strbuf.h"

/* Labels that say nothing of number, model and memory; a NULL key ends them. */
struct gfd_label {
    const char *key;
    const char *value;
};
extern const struct gfd_label gfd_labels_fixed[];

/*
 * The members of metadata.labels. changes: pairs of key and value, the last key is NULL; they
 * replace or add a label, and one whose value is NULL is left out. product NULL, mib 0: unknown.
 */
void gfd_labels(struct strbuf *out, uint32_t gpus, const char *product, uint32_t mib,
                const struct gfd_label *changes);

#endif
