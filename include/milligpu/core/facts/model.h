/*
 * model - names of GPU models, and the names and globs with which pods ask for them.
 *
 * One GPU has several names: a node's label says "NVIDIA-Tesla-T4", nvidia-smi "Tesla T4", people
 * "T4". So blanks equal '-', case is ignored, and the vendor's words are optional: "NVIDIA-", and
 * after it one of "Tesla-", "GeForce-", "Quadro-", "Jetson-".
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
 * A name without wildcards matches exactly, or from the left up to a '-'. From the left it takes
 * neither parts and guests of a GPU (model_part()) nor another product whose name begins with it.
 * A glob with wildcards takes what its letters say, and does not lose its vendor's word:
 * "GeForce-*" would take any GPU.
 */
#ifndef MILLIGPU_MODEL_H
#define MILLIGPU_MODEL_H

#include "milligpu/base/limits.h"
#include "milligpu/base/text.h"

/*
 * The form in which models and globs are compared: a run of blanks and dashes is one dash, and a
 * leading "NVIDIA-" is gone. The result is in buf. text: at most MODEL_BYTES_MAX bytes.
 */
struct text model_bare(struct text text, char buf[MODEL_BYTES_MAX]);

/* Does the glob take the model? Both are bare. */
bool model_takes(struct text glob, struct text model);

/* Is the glob a name without wildcards, and exactly the model's? Both are bare. */
bool model_is_named(struct text glob, struct text model);

/* A model that is less than one GPU: "A100-SXM4-40GB-MIG-1g.5gb", "L40S-24Q", "Tesla-T4-SHARED". */
struct model_part {
    struct text whole; /* the name of the GPU: "A100-SXM4-40GB" */
    uint32_t mib;      /* memory of the part by its name; 0: the name does not say */
};

/* Returns false if the model, which is bare, is a whole GPU. */
bool model_part(struct text model, struct model_part *out);

/* A product that is known by name. */
struct product {
    const char *model; /* a glob, as model_bare() makes it */
    uint32_t price;    /* in hundredths of a T4 */
    uint32_t gib;      /* nominal memory */
};

/* The table of known products, in the order in which they are tried; NULL at the end. */
const struct product *product_at(uint32_t at);
/* The first that takes the model, which is bare; NULL: it is not known. */
const struct product *product_of(struct text model);

/*
 * Does the name look like several products that are joined by something else than a comma: "T4-L4",
 * "A100-or-H100"? It is bare.
 */
bool model_names_several(struct text glob);

/*
 * How much the model's name differs from what the glob asks for, to find the name that was meant:
 * 0 if one contains the other, else the letters to change. Both are bare; the vendor's words and
 * wildcards do not count.
 */
size_t model_distance(struct text glob, struct text model);

#endif
