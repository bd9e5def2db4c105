/*
 * doctor_nodes - the findings of `doctor --nodes`: one check for each node with GPUs.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_DOCTOR_NODES_H
#define MILLIGPU_CTL_DOCTOR_NODES_H

#include "milligpu/document/document.h"

/* An array of checks: name, status, text, fix. nodes, pods: output of kubectl get -o json. */
struct document *doctor_nodes(const struct document *nodes, const struct document *pods,
                              struct arena *arena);

#endif
