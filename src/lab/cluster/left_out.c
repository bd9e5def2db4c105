/*
 * Prints the unsupported parts of a manifest. Called by play.c and simulate_pods.c before the first
 * pod.
 */
#include "left_out.h"

#include <string.h>

void left_out_add(void *user, const char *kind, const char *name, const char *why)
{
    struct left_out_list *list = user;
    struct left_out **at = &list->first;

    must(kind[0] != '\0');
    while (*at != NULL && (strcmp((*at)->kind, kind) != 0 || strcmp((*at)->why, why) != 0))
        at = &(*at)->next;
    if (*at == NULL) {
        *at = arena_alloc(list->arena, sizeof **at);
        **at = (struct left_out){.kind = arena_copy(list->arena, text_of(kind)),
                                 .name = arena_copy(list->arena, text_of(name)),
                                 .why = arena_copy(list->arena, text_of(why))};
    }
    (*at)->count++;
}

void left_out_say(const struct left_out_list *list, FILE *out)
{
    for (const struct left_out *at = list->first; at != NULL; at = at->next) {
        must(at->count > 0);
        (void)fprintf(out, "left out: %s %s", at->kind, at->name);
        if (at->count > 1)
            (void)fprintf(out, " and %zu more", at->count - 1);
        (void)fprintf(out, " (%s)\n", at->why);
    }
}

void rule_users_add(struct rule_users *users, const struct pod_maker *workload)
{
    must(workload != NULL);
    if (users->count++ == 0)
        users->first = workload;
}

void rule_users_say(const struct rule_users *users, const char *rule, FILE *out)
{
    if (users->count == 0)
        return;
    must(users->first != NULL);
    (void)fprintf(out, "not considered: %s (%s %s/%s", rule, users->first->word,
                  users->first->namespace, users->first->name);
    if (users->count > 1)
        (void)fprintf(out, " and %u more", (unsigned)users->count - 1);
    (void)fprintf(out, ")\n");
}
