/*
 * model - names of GPU models, and the globs with which pods ask for them.
 *
 * One card has several names: a node's label says "NVIDIA-Tesla-T4", nvidia-smi "Tesla T4", people
 * "T4". So blanks equal '-', case is ignored, and the vendor's words are optional: "NVIDIA-", and
 * after it one of "Tesla-", "GeForce-", "Quadro-".
 *
 *   glob             takes                                   does not take
 *   T4               T4, Tesla-T4, NVIDIA-Tesla-T4           T4G
 *   Tesla-T4         the same                                Quadro-T4
 *   RTX-*            GeForce-RTX-3090, Quadro-RTX-8000       GTX-1080
 *   GeForce-RTX-*    GeForce-RTX-3090                        RTX-6000-Ada, Quadro-RTX-8000
 *   NVIDIA*          everything: all GPUs are NVIDIA's
 *
 * A glob with wildcards does not lose its vendor's word: "GeForce-*" would take any GPU.
 */
#ifndef MILLIGPU_MODEL_H
#define MILLIGPU_MODEL_H

#include "milligpu/limits.h"
#include "milligpu/text.h"

/*
 * The form in which models and globs are compared: blanks are '-', a leading "NVIDIA-" is gone. The
 * result is in buf. text: at most MODEL_BYTES_MAX bytes.
 */
struct text model_bare(struct text text, char buf[MODEL_BYTES_MAX]);

/* Does the glob take the model? Both are bare. */
bool model_takes(struct text glob, struct text model);

/*
 * How much the model's name differs from what the glob asks for, to find the name that was meant:
 * 0 if one contains the other, else the letters to change. Both are bare; the vendor's words and
 * wildcards do not count.
 */
size_t model_distance(struct text glob, struct text model);

#endif
