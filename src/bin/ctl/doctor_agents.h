/*
 * doctor_agents - what `doctor --agents` finds: a check for each node that has GPUs.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_DOCTOR_AGENTS_H
#define MILLIGPU_CTL_DOCTOR_AGENTS_H

#include "milligpu/doc.h"

/* An array of checks: name, status, text, fix. nodes, pods: what kubectl get -o json prints. */
struct doc *doctor_agents(const struct doc *nodes, const struct doc *pods, struct arena *arena);

#endif
