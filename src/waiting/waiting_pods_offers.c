/*
 * The ring buffer of offers: best places of recent shortlists, which ranking treats as taken.
 * Called by waiting_pods.c under its lock.
 */
#include "milligpu/waiting/waiting_pods.h"

#include "waiting_pods_internal.h"

static struct kept_offer *offer_at(struct offers *offers, uint64_t number)
{
    must(number < offers->next);
    return &offers->entry[number % OFFERS_KEPT];
}

static void offer_forget(struct kept_offer *entry)
{
    if (entry->pod == NULL)
        return;
    must(entry->offer.node != NULL);
    atom_unref(entry->offer.node);
    atom_unref(entry->offer.gpu);
    entry->pod = NULL;
}

void offers_add(struct offers *offers, const struct waiting_pod *pod, int64_t at_ms,
                struct offer offer)
{
    must(pod != NULL && offer.node != NULL);
    offers->next++;
    struct kept_offer *entry = offer_at(offers, offers->next - 1);
    offer_forget(entry);
    *entry = (struct kept_offer){pod, at_ms, offer};
    (void)atom_ref(offer.node);
    (void)atom_ref(offer.gpu);
}

void offers_drop(struct offers *offers, uint64_t first, uint32_t count)
{
    must(first + count <= offers->next);
    for (uint64_t i = first; i < first + count; i++)
        /* The slot of an older number was overwritten by another offer. */
        if (offers->next - i <= OFFERS_KEPT)
            offer_forget(offer_at(offers, i));
}

/* From the newest backwards, so that the loop ends at the limit or at the first old offer. */
uint32_t offers_copy(const struct offers *offers, const struct waiting_pod *but, int64_t now_ms,
                     struct offer out[OFFERS_MAX])
{
    uint32_t count = 0;

    for (uint64_t i = offers->next; i > 0 && offers->next - i < OFFERS_KEPT; i--) {
        const struct kept_offer *entry = &offers->entry[(i - 1) % OFFERS_KEPT];
        if (count == OFFERS_MAX || now_ms - entry->at_ms >= SHORTLIST_LIVE_MS)
            break; /* the remaining offers are older */
        if (entry->pod != NULL && entry->pod != but)
            out[count++] = entry->offer;
    }
    must(count <= OFFERS_MAX);
    return count;
}
