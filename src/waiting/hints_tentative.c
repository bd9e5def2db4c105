#include "milligpu/waiting/hints.h"

#include "hints_internal.h"

static struct tentative_kept *tentative_at(struct tentatives *tentatives, uint64_t number)
{
    must(number < tentatives->next);
    return &tentatives->kept[number % TENTATIVES_KEPT];
}

static void tentative_forget(struct tentative_kept *kept)
{
    if (kept->of == NULL)
        return;
    must(kept->is.node != NULL);
    atom_unref(kept->is.node);
    atom_unref(kept->is.gpu);
    kept->of = NULL;
}

void tentatives_add(struct tentatives *tentatives, const struct kept *of, int64_t at_ms,
                    struct tentative tentative)
{
    must(of != NULL && tentative.node != NULL);
    tentatives->next++;
    struct tentative_kept *kept = tentative_at(tentatives, tentatives->next - 1);
    tentative_forget(kept);
    *kept = (struct tentative_kept){of, at_ms, tentative};
    (void)atom_ref(tentative.node);
    (void)atom_ref(tentative.gpu);
}

void tentatives_drop(struct tentatives *tentatives, uint64_t first, uint32_t count)
{
    must(first + count <= tentatives->next);
    for (uint64_t i = first; i < first + count; i++)
        /* An older number is overwritten, and its place belongs to another pod. */
        if (tentatives->next - i <= TENTATIVES_KEPT)
            tentative_forget(tentative_at(tentatives, i));
}

/* From the newest backwards, so that the limit and the age end the loop. */
uint32_t tentatives_copy(const struct tentatives *tentatives, const struct kept *but,
                         int64_t now_ms, struct tentative out[TENTATIVES_MAX])
{
    uint32_t count = 0;

    for (uint64_t i = tentatives->next; i > 0 && tentatives->next - i < TENTATIVES_KEPT; i--) {
        const struct tentative_kept *kept = &tentatives->kept[(i - 1) % TENTATIVES_KEPT];
        if (count == TENTATIVES_MAX || now_ms - kept->at_ms >= SHORTLIST_LIVE_MS)
            break; /* all further ones are older */
        if (kept->of != NULL && kept->of != but)
            out[count++] = kept->is;
    }
    must(count <= TENTATIVES_MAX);
    return count;
}
