#include "milligpu/names.h"

#include <string.h>

#include "milligpu/alloc.h"
#include "milligpu/arena.h"
#include "milligpu/map.h"

struct names {
    struct map map;
    struct arena arena; /* never reset: atoms live as long as the table */
};

struct names *names_new(void)
{
    struct names *names = xmalloc(sizeof *names);
    map_init(&names->map);
    arena_init(&names->arena);
    must(names->map.count == 0);
    return names;
}

void names_free(struct names *names)
{
    if (names == NULL)
        return;
    must(names->map.count == 0 || names->arena.chunk != NULL);
    map_done(&names->map);
    arena_done(&names->arena);
    xfree(names);
}

const struct atom *names_find(const struct names *names, struct text text)
{
    must(names != NULL);

    const struct atom *atom = map_find(&names->map, text);
    must(atom == NULL || atom->len == text.len);
    return atom;
}

const struct atom *names_intern(struct names *names, struct text text)
{
    must(names != NULL);
    must(text.len <= UINT32_MAX);

    const struct atom *known = names_find(names, text);
    if (known != NULL)
        return known;

    struct atom *atom = arena_alloc(&names->arena, sizeof *atom + text.len + 1);
    atom->hash = text_hash(text);
    atom->len = (uint32_t)text.len;
    if (text.len > 0)
        memcpy(atom->text, text.at, text.len);
    const void *before = map_put(&names->map, atom_text(atom), atom);
    must(before == NULL);
    must(atom->text[atom->len] == '\0');
    return atom;
}
