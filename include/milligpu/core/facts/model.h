/*
 * model - names of GPU models, and the names and globs in which pods request them.
 *
 * One GPU has several names: "NVIDIA-Tesla-T4" in a node's label, "Tesla T4" in nvidia-smi, and
 * "T4" in manifests. So blanks equal '-', case is ignored, and the vendor's words are optional:
 * "NVIDIA-", followed by one of "Tesla-", "GeForce-", "Quadro-", "Jetson-".
 *
 *   glob             takes                                   does not take
 *   T4               T4, Tesla-T4, NVIDIA-Tesla-T4           T4G, T40
 *   Tesla-T4         the same                                Quadro-T4
 *   A100             A100-SXM4-80GB, A100-PCIE-40GB          A1000, A100X, A100-...-MIG-1g.10gb
 *   H20              H20                                     H200, H20-3e
 *   RTX-*            GeForce-RTX-3090, Quadro-RTX-8000       GTX-1080
 *   GeForce-RTX-*    GeForce-RTX-3090                        RTX-6000-Ada, Quadro-RTX-8000
 *   NVIDIA*          everything: all GPUs are NVIDIA's
 *
 * A name without wildcards matches exactly, or as a prefix up to a '-'. As a prefix it matches
 * neither parts and guests of a GPU (model_part()) nor another product whose name begins with it.
 * A glob with wildcards matches literally and keeps its vendor's word: without it, "GeForce-*"
 * would take any GPU.
 */
#ifndef MILLIGPU_MODEL_H
#define MILLIGPU_MODEL_H

#include "milligpu/base/limits.h"
#include "milligpu/base/text.h"

/*
 * Normalizes a model or glob for comparison ("bare"): a run of blanks and dashes becomes one dash,
 * and a leading "NVIDIA-" is removed. The result is in buf. text: at most MODEL_BYTES_MAX bytes.
 */
struct text model_bare(struct text text, char buf[MODEL_BYTES_MAX]);

/* Does the glob take the model? Both are bare. */
bool model_takes(struct text glob, struct text model);

/* Is the glob a name without wildcards that equals the model's? Both are bare. */
bool model_is_named(struct text glob, struct text model);

/* A model that is a part of a GPU: "A100-SXM4-40GB-MIG-1g.5gb", "L40S-24Q", "Tesla-T4-SHARED". */
struct model_part {
    struct text whole; /* name of the GPU: "A100-SXM4-40GB" */
    uint32_t mib;      /* memory of the part, from its name; 0: unknown */
};

/* Returns false if the (bare) model is a whole GPU. */
bool model_part(struct text model, struct model_part *out);

/* A row of the table of known products. */
struct product {
    const char *model; /* a glob, as model_bare() makes it */
    uint32_t price;    /* in hundredths of a T4 */
    uint32_t gib;      /* nominal memory */
};

/* Returns known product number at, in the order of matching; NULL at the end. */
const struct product *product_at(uint32_t at);
/* Returns the first product that takes the (bare) model; NULL: unknown. */
const struct product *product_of(struct text model);

/*
 * Does the (bare) name look like several products that are not joined by a comma: "T4-L4",
 * "A100-or-H100"?
 */
bool model_names_several(struct text glob);

/*
 * The edit distance between the model's name and the glob, to suggest the intended name: 0 if one
 * contains the other. Both are bare; the vendor's words and wildcards do not count.
 */
size_t model_distance(struct text glob, struct text model);

#endif
