/*
 * gpu_name - which GPU of a node an operator means.
 *
 * The ledger knows GPUs by id only, because indexes move on reboot. People see indexes, so this is
 * where an index becomes an id: the id of the GPU that has it now.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_GPU_NAME_H
#define MILLIGPU_CTL_GPU_NAME_H

#include "milligpu/base/err.h"
#include "milligpu/document/document.h"

enum { GPU_PREFIX_MIN = 8 };

/* May it be the name of a Node? Such a name never looks like an option. */
bool node_name_is_valid(const char *name);
/* The same as a sentence for whoever wrote it. */
int node_name_check(const char *name, struct err *err) MUST_USE;

/* Digits only: an index. */
bool gpu_name_is_index(const char *name);

/*
 * The GPU of node (an answer of /api/v1/nodes/NODE) that name means: its id, its index, or the
 * beginning of its id, if no other begins so. An error says which GPUs there are.
 */
int gpu_name_find(const struct document *node, const char *name, const struct document **out,
                  struct err *err) MUST_USE;

#endif
