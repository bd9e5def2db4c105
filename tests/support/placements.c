#include "support/placements.h"

enum reason place_search(const struct room *room, const struct request *request,
                         struct placement *out)
{
    struct plan plan;
    struct rank rank;

    must(request_asks(request));
    plan_init(&plan, request, NULL);
    return place_find(&plan, room, &rank, out);
}

static int place_compare(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

/* Rule 5. */
static int parts_cmp(const struct placement *a, const struct placement *b)
{
    const uint32_t shorter = a->n_parts < b->n_parts ? a->n_parts : b->n_parts;

    must(shorter <= PARTS_MAX);
    for (uint32_t i = 0; i < shorter; i++) {
        if (a->part[i].want != b->part[i].want)
            return place_compare(a->part[i].want, b->part[i].want);
        if (a->part[i].gpu != b->part[i].gpu)
            return place_compare(a->part[i].gpu, b->part[i].gpu);
    }
    return place_compare(a->n_parts, b->n_parts);
}

int placement_cmp(const struct placement *a, const struct atom *node_a, const struct placement *b,
                  const struct atom *node_b)
{
    must(a->n_parts <= PARTS_MAX);
    must(b->n_parts <= PARTS_MAX);

    if (a->price != b->price) /* rule a */
        return place_compare(a->price, b->price);
    if (a->distance != b->distance) /* rule b */
        return place_compare(a->distance, b->distance);
    if (a->charge_milli != b->charge_milli) /* rule 1 */
        return place_compare(a->charge_milli, b->charge_milli);
    if (a->left_milli != b->left_milli) /* rule 2 */
        return place_compare(a->left_milli, b->left_milli);
    if (a->free_milli != b->free_milli) /* rule 3 */
        return place_compare(a->free_milli, b->free_milli);
    const int names = atom_cmp(node_a, node_b); /* rule 4 */
    if (names != 0)
        return names;
    return parts_cmp(a, b); /* rule 5 */
}
