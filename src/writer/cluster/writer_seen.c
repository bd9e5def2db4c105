/*
 * Numbers by node name, for writer_nodes.c: the last list that showed a node, and its age. An entry
 * holds a reference to the name, because it may outlive its node in the ledger (a lost batch
 * removes the node again).
 */
#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

#include "writer/writer_internal.h"

int64_t writer_seen_number(const struct map *seen, const struct atom *name)
{
    const struct node_seen *entry = map_find(seen, atom_text(name));

    must(entry == NULL || entry->name == name);
    return entry != NULL ? entry->number : 0;
}

void writer_see_node(struct map *seen, const struct atom *name, int64_t number)
{
    struct node_seen *entry = map_find(seen, atom_text(name));

    must(number != 0);
    if (entry == NULL) {
        entry = xmalloc(sizeof *entry);
        entry->name = atom_ref(name);
        (void)map_put(seen, atom_text(name), entry);
    }
    entry->number = number;
}

static void node_seen_free(struct node_seen *entry)
{
    if (entry == NULL)
        return;
    atom_unref(entry->name);
    xfree(entry);
}

void writer_unsee_node(struct map *seen, struct text name)
{
    must(name.len > 0);
    node_seen_free(map_take(seen, name));
}

void writer_done_seen(struct map *seen)
{
    struct node_seen *entry;

    for (size_t at = 0; (entry = map_next(seen, &at)) != NULL;)
        node_seen_free(entry);
    map_done(seen);
}
