#include "hints_inside.h"

static struct ghost_kept *at(struct ghosts *ghosts, uint64_t number)
{
    must(number < ghosts->next);
    return &ghosts->kept[number % GHOSTS_KEPT];
}

void ghosts_add(struct ghosts *ghosts, const struct kept *of, int64_t at_ms, struct ghost ghost)
{
    must(of != NULL && ghost.node != NULL);
    ghosts->next++;
    *at(ghosts, ghosts->next - 1) = (struct ghost_kept){of, at_ms, ghost};
}

void ghosts_lay(struct ghosts *ghosts, uint64_t first, uint32_t count)
{
    must(first + count <= ghosts->next);
    for (uint64_t i = first; i < first + count; i++)
        if (ghosts->next - i <= GHOSTS_KEPT)
            at(ghosts, i)->of = NULL;
}

uint32_t ghosts_copy(const struct ghosts *ghosts, const struct kept *but, int64_t now_ms,
                     struct ghost out[GHOSTS_MAX])
{
    uint32_t count = 0;

    for (uint64_t i = ghosts->next; i > 0 && ghosts->next - i < GHOSTS_KEPT; i--) {
        const struct ghost_kept *kept = &ghosts->kept[(i - 1) % GHOSTS_KEPT];
        if (count == GHOSTS_MAX || now_ms - kept->at_ms >= OFFER_LIVE_MS)
            break; /* all further ones are older still */
        if (kept->of != NULL && kept->of != but)
            out[count++] = kept->is;
    }
    must(count <= GHOSTS_MAX);
    return count;
}
