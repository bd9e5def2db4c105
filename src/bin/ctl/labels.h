/*
 * labels - a label selector, as kubectl --selector takes it.
 *
 *   zone=a, zone==a, zone!=a, zone in (a,b), zone notin (a,b), zone, !zone, rank>3, rank<3
 *
 * Rules are separated by commas, and all of them have to hold. Pure.
 */
#ifndef MILLIGPU_CTL_LABELS_H
#define MILLIGPU_CTL_LABELS_H

#include "milligpu/doc.h"

/*
 * Reads a selector into rules for fit_labels_hold() (nodefit.h): an array of key, operator and
 * values, as in matchExpressions. An error quotes what cannot be read.
 */
int labels_read(const char *selector, struct arena *arena, struct doc **out,
                struct err *err) MUST_USE;

#endif
