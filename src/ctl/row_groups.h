/*
 * row_groups - rows grouped by text: each text once, with the names of its first rows.
 *
 * Groups are in the order of their first rows. Keys and `said` are borrowed until
 * row_groups_done().
 */
#ifndef MILLIGPU_CTL_ROW_GROUPS_H
#define MILLIGPU_CTL_ROW_GROUPS_H

#include "milligpu/base/map.h"
#include "milligpu/base/strbuf.h"

struct row_group {
    const void *said;    /* content of its first row; borrowed from the caller */
    struct strbuf names; /* names of the first ROW_NAMES_MAX rows: "a, b, c" */
    size_t rows;
};
enum { ROW_NAMES_MAX = 3 };

struct row_groups {
    struct row_group *group;
    size_t count;
    size_t capacity;
    struct map by_key; /* index + 1 of the group, by key */
};

void row_groups_init(struct row_groups *groups);
void row_groups_done(struct row_groups *groups);

/*
 * Counts a row and returns the buffer to append its name to; NULL if the group has enough names.
 * `said` is ignored except for the first row of a key.
 */
struct strbuf *row_groups_add(struct row_groups *groups, const char *key, const void *said);

/* Appends " and 7 more" if the group has rows beyond the named ones. */
void row_group_more(const struct row_group *group, struct strbuf *out);

#endif
