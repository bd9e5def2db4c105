/* Groups rows by their text, for the notes of a table and for the answers of nodes. */
#include "row_groups.h"

#include "milligpu/base/alloc.h"

void row_groups_init(struct row_groups *groups)
{
    *groups = (struct row_groups){.count = 0};
    map_init(&groups->by_key);
}

void row_groups_done(struct row_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        strbuf_done(&groups->group[i].names);
    map_done(&groups->by_key);
    xfree(groups->group);
}

static size_t row_groups_new(struct row_groups *groups, const char *key, const void *said)
{
    groups->group = xgrow(groups->group, groups->count, &groups->capacity, sizeof *groups->group);
    groups->group[groups->count] = (struct row_group){.said = said};
    strbuf_init(&groups->group[groups->count].names);
    groups->count++;
    must(map_put(&groups->by_key, text_of(key), (void *)(uintptr_t)groups->count) == NULL);
    return groups->count;
}

struct strbuf *row_groups_add(struct row_groups *groups, const char *key, const void *said)
{
    size_t place = (size_t)(uintptr_t)map_find(&groups->by_key, text_of(key));

    if (place == 0)
        place = row_groups_new(groups, key, said);
    struct row_group *group = &groups->group[place - 1];
    if (group->rows++ >= ROW_NAMES_MAX)
        return NULL;
    strbuf_str(&group->names, group->rows > 1 ? ", " : "");
    return &group->names;
}

void row_group_more(const struct row_group *group, struct strbuf *out)
{
    must(group->rows > 0);
    if (group->rows > ROW_NAMES_MAX)
        strbuf_printf(out, " and %zu more", group->rows - ROW_NAMES_MAX);
}
