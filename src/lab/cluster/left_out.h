/*
 * left_out - what a command does not do with a manifest, said once for each reason.
 *
 * "left out: Service web and 3 more (...)", "not considered: host ports (Pod default/web)".
 */
#ifndef MILLIGPU_CTL_LEFT_OUT_H
#define MILLIGPU_CTL_LEFT_OUT_H

#include <stdio.h>

#include "pod_maker.h"

/* Objects of one kind that are left out for one reason; a dump has thousands of them. */
struct left_out {
    const char *kind;
    const char *name; /* of the first */
    const char *why;
    size_t count;
    struct left_out *next;
};

struct left_out_list {
    struct arena *arena;
    struct left_out *first;
};

/* user is a list: this is a manifest's skip(). */
void left_out_add(void *user, const char *kind, const char *name, const char *why);
/* Named, so that nobody waits for what is not there. */
void left_out_say(const struct left_out_list *list, FILE *out);

/* Who uses a rule that is not looked at. */
struct rule_users {
    const struct pod_maker *first;
    uint32_t count;
};

void rule_users_add(struct rule_users *users, const struct pod_maker *workload);
/* Nothing without users. */
void rule_users_say(const struct rule_users *users, const char *rule, FILE *out);

#endif
