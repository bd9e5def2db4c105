/*
 * gpu_name - finds the GPU of a node that an operator names.
 *
 * The ledger identifies GPUs by id only, because indexes change on reboot. Operators use indexes;
 * an index is converted here to the id of the GPU that has it now.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_GPU_NAME_H
#define MILLIGPU_CTL_GPU_NAME_H

#include "milligpu/base/err.h"
#include "milligpu/document/document.h"

enum { GPU_PREFIX_MIN = 8 };

/* True for a valid name of a Node, which never looks like an option. */
bool node_name_is_valid(const char *name);
/* The same, with an error text for the user. */
int node_name_check(const char *name, struct err *err) MUST_USE;

/* True if the name consists of digits only, as an index does. */
bool gpu_name_is_index(const char *name);

/*
 * Finds the GPU of node (an answer of /api/v1/nodes/NODE) by its id, its index, or a unique prefix
 * of its id. An error lists the GPUs.
 */
int gpu_name_find(const struct document *node, const char *name, const struct document **out,
                  struct err *err) MUST_USE;

#endif
