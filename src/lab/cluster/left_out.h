/*
 * left_out - the unsupported parts of a manifest, reported once for each reason.
 *
 * "left out: Service web and 3 more (...)", "not considered: host ports (Pod default/web)".
 */
#ifndef MILLIGPU_LAB_LEFT_OUT_H
#define MILLIGPU_LAB_LEFT_OUT_H

#include <stdio.h>

#include "pod_maker.h"

/* Objects of one kind that are left out for one reason; a dump has thousands. */
struct left_out {
    const char *kind;
    const char *name; /* of the first object */
    const char *why;
    size_t count;
    struct left_out *next;
};

struct left_out_list {
    struct arena *arena;
    struct left_out *first;
};

/* The skip() of a manifest; user: a struct left_out_list. */
void left_out_add(void *user, const char *kind, const char *name, const char *why);
/* Prints the objects that are left out. */
void left_out_say(const struct left_out_list *list, FILE *out);

/* The workloads that use a rule that is not considered. */
struct rule_users {
    const struct pod_maker *first;
    uint32_t count;
};

void rule_users_add(struct rule_users *users, const struct pod_maker *workload);
/* Prints the rule with its users; nothing without users. */
void rule_users_say(const struct rule_users *users, const char *rule, FILE *out);

#endif
