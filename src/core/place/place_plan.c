/*
 * Prepares a request for many rooms: merges equal wants into rows, sorts the hardest row first, and
 * matches a model against the globs only once. A plan belongs to one thread and one question.
 * Callers: the users of place.h; place_level.c raises shares.
 */
#include <string.h>

#include "milligpu/core/rules/policy_context.h"

#include "place_internal.h"

static uint32_t count_kind(const struct request *request, enum container_kind kind)
{
    uint32_t count = 0;

    must(request->n_wants == 0 || request->want != NULL);
    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t w = 0; w < request->n_wants; w++)
        count += request->want[w].kind == kind;
    return count;
}

/* Without init containers a sidecar is charged like any other running container. */
static enum container_kind kind_of(const struct want *want, bool inits)
{
    must(inits || want->kind != CONTAINER_INIT);
    return inits ? want->kind : CONTAINER_APP;
}

static struct plan_row place_plan_row_of(const struct plan *plan, const struct want *want,
                                         bool inits)
{
    must(want->parts > 0 && want->parts <= GPUS_PER_NODE_MAX);
    must(want->milli > 0 && want->milli <= GPU_MILLI);
    return (struct plan_row){
        .kind = kind_of(want, inits),
        .milli = plan_milli(plan, want),
        .parts = want->parts,
        .wants = 1,
    };
}

/*
 * The largest parts first, while there is room. With sidecars and init containers, the containers
 * that start the pod come first, in their order.
 */
static bool comes_before(const struct plan *plan, const struct plan_row *a,
                         const struct plan_row *b)
{
    if (plan->mixed_lives && (a->kind != CONTAINER_APP || b->kind != CONTAINER_APP))
        return a->kind != CONTAINER_APP && b->kind == CONTAINER_APP;
    if (a->milli != b->milli)
        return a->milli > b->milli;
    if (a->parts != b->parts)
        return a->parts > b->parts;
    must(a->wants == 1 && b->wants == 1);
    return a->kind < b->kind;
}

static bool place_plan_are_equal(const struct plan_row *a, const struct plan_row *b)
{
    must(a != b);
    must(a->wants > 0 && b->wants > 0);
    return a->kind == b->kind && a->milli == b->milli && a->parts == b->parts;
}

/* One row per want; ties keep the order of the pod. */
static void sort_rows(const struct plan *plan, struct plan_rows *rows)
{
    for (uint32_t i = 1; i < rows->count; i++) {
        const struct plan_row row = rows->row[i];
        const uint16_t want = rows->want[i];
        uint32_t at = i;
        for (; at > 0 && comes_before(plan, &row, &rows->row[at - 1]); at--) {
            rows->row[at] = rows->row[at - 1];
            rows->want[at] = rows->want[at - 1];
        }
        rows->row[at] = row;
        rows->want[at] = want;
    }
    must(rows->count > 0);
    for (uint32_t i = 1; i < rows->count; i++)
        must(!comes_before(plan, &rows->row[i], &rows->row[i - 1]));
}

/* Merges interchangeable wants, so that the walk does not visit their permutations. */
static void merge_rows(struct plan_rows *rows)
{
    uint32_t count = 1;

    must(rows->count > 0);
    for (uint32_t i = 1; i < rows->count; i++) {
        if (place_plan_are_equal(&rows->row[count - 1], &rows->row[i]))
            rows->row[count - 1].wants++;
        else
            rows->row[count++] = rows->row[i];
    }
    must(count <= rows->count);
    rows->count = count;
}

void rows_of_wants(const struct plan *plan, struct plan_rows *out)
{
    const struct request *request = plan->request;
    const bool inits = count_kind(request, CONTAINER_INIT) > 0;

    must(request->n_wants > 0);
    must(request->n_wants <= CONTAINERS_MAX);
    out->count = request->n_wants;
    for (uint32_t w = 0; w < request->n_wants; w++) {
        out->row[w] = place_plan_row_of(plan, &request->want[w], inits);
        out->want[w] = (uint16_t)w;
    }
}

void rows_separate(const struct plan *plan, struct plan_rows *out)
{
    uint32_t wants = 0;

    must(plan->rows.count > 0);
    out->count = 0;
    for (uint32_t r = 0; r < plan->rows.count; r++) {
        const struct plan_row *row = &plan->rows.row[r];
        const bool merged = row->parts == 1;
        for (uint32_t w = 0; w < row->wants; w++) {
            if (w == 0 || !merged) {
                out->row[out->count] = *row;
                out->row[out->count++].wants = merged ? row->wants : 1;
            }
            out->want[wants] = plan->rows.want[wants];
            wants++;
        }
    }
    must(wants == plan->request->n_wants);
}

static void set_rows(struct plan *plan)
{
    must(plan->raised_milli <= GPU_MILLI);
    rows_of_wants(plan, &plan->rows);
    plan->most_parts = 0;
    plan->running_milli = 0;
    /* Rows are not merged yet: each is one want. */
    for (uint32_t i = 0; i < plan->rows.count; i++) {
        const struct plan_row *row = &plan->rows.row[i];
        plan->running_milli += row->kind == CONTAINER_INIT ? 0 : row->parts * row->milli;
        plan->most_parts = row->parts > plan->most_parts ? row->parts : plan->most_parts;
    }
    sort_rows(plan, &plan->rows);
    merge_rows(&plan->rows);
    must(plan->running_milli <= PARTS_MAX * GPU_MILLI);
}

static bool has_prices(const struct policy_context *context)
{
    const struct rulebook *book = context != NULL ? context->rulebook : NULL;

    must(book == NULL || book->prices_by == PRICES_OFF || book->prices_by == PRICES_KNOWN);
    return book != NULL && book->prices_by != PRICES_OFF;
}

void plan_init(struct plan *out, const struct request *request,
               const struct policy_context *context)
{
    must(request->n_wants <= CONTAINERS_MAX);

    out->request = request;
    out->choice = PLACE_TIGHTEST;
    out->topology = request->topology;
    out->steps = PLACE_STEPS_MAX;
    out->walked = 0;
    out->most_parts = 0;
    out->several = request_is_of_several(request);
    out->running_milli = 0;
    out->mixed_lives =
        count_kind(request, CONTAINER_INIT) > 0 && count_kind(request, CONTAINER_SIDECAR) > 0;
    out->shapes = NULL;
    out->context = context;
    out->rules = context != NULL ? context->holding & request->rules : 0;
    out->rule = NULL;
    out->allowed.rule = NULL;
    out->priced = has_prices(context);
    out->skips_tiers = false;
    out->usable = ~(gpu_set)0;
    out->price = 0;
    out->raised_milli = 0;
    out->rows.count = 0;
    memset(out->model, 0, sizeof out->model);
    if (request->n_wants > 0)
        set_rows(out);
}

void plan_raise(struct plan *plan, uint32_t milli)
{
    must(plan->request->n_wants > 0);
    must(milli <= GPU_MILLI);
    must(plan->rows.count > 0);
    if (plan->raised_milli == milli)
        return;
    plan->raised_milli = milli;
    set_rows(plan);
}

/* Cached, because globs are expensive and models few. NULL: the cache is full. */
static struct plan_model *model_of(struct plan *plan, const struct atom *model)
{
    must(model != NULL);
    for (uint32_t i = 0; i < PLAN_MODELS; i++) {
        struct plan_model *known = &plan->model[(model->hash + i) % PLAN_MODELS];
        if (known->model == model)
            return known;
        if (known->model != NULL)
            continue;
        known->model = model;
        known->can_take = request_takes_model(plan->request, atom_text(model));
        return known;
    }
    must(plan->model[0].model != NULL);
    return NULL;
}

bool plan_asks_for(struct plan *plan, const struct atom *model)
{
    must(model != NULL);
    if (plan->request->n_models == 0)
        return true;
    const struct plan_model *known = model_of(plan, model);
    must(known == NULL || known->model == model);
    return known != NULL ? known->can_take : request_takes_model(plan->request, atom_text(model));
}

/* The memory of a part of a GPU is scaled up to the whole GPU. */
uint32_t plan_price(struct plan *plan, const struct gpu_room *gpu)
{
    const struct rulebook *book = plan->context->rulebook;
    struct plan_model *known = model_of(plan, gpu->model);

    must(plan->priced);
    must(book != NULL);
    must(gpu->milli > 0);
    const uint64_t mib = (uint64_t)gpu->mib * GPU_MILLI / gpu->milli;
    const uint32_t whole = mib < UINT32_MAX ? (uint32_t)mib : UINT32_MAX;
    if (known == NULL)
        return rulebook_price(book, atom_text(gpu->model), whole);
    if (!known->named) {
        known->named = true;
        known->price = rulebook_known_price(book, gpu->model);
    }
    return price_by_memory(&known->price, whole);
}
