/*
 * doctor_nodes - what `doctor --nodes` finds: a check for each node that has GPUs.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_DOCTOR_NODES_H
#define MILLIGPU_CTL_DOCTOR_NODES_H

#include "milligpu/document/document.h"

/* An array of checks: name, status, text, fix. nodes, pods: what kubectl get -o json prints. */
struct document *doctor_nodes(const struct document *nodes, const struct document *pods,
                              struct arena *arena);

#endif
