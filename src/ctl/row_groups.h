/*
 * row_groups - rows that say the same: each saying once, with the names of its first rows.
 *
 * Groups are in the order of their first rows. Keys and said are borrowed until row_groups_done().
 */
#ifndef MILLIGPU_CTL_ROW_GROUPS_H
#define MILLIGPU_CTL_ROW_GROUPS_H

#include "milligpu/base/map.h"
#include "milligpu/base/strbuf.h"

struct row_group {
    const void *said;    /* by its first row; the caller's */
    struct strbuf names; /* "a, b, c", of the first ROW_NAMES_MAX rows */
    size_t rows;
};
enum { ROW_NAMES_MAX = 3 };

struct row_groups {
    struct row_group *group;
    size_t count;
    size_t capacity;
    struct map by_key; /* the place + 1 of a group */
};

void row_groups_init(struct row_groups *groups);
void row_groups_done(struct row_groups *groups);

/*
 * Counts a row and returns where its name is to be appended; NULL if there are names enough. said
 * counts for the first row of this key only.
 */
struct strbuf *row_groups_add(struct row_groups *groups, const char *key, const void *said);

/* " and 7 more", if the group has rows that are not named. */
void row_group_more(const struct row_group *group, struct strbuf *out);

#endif
