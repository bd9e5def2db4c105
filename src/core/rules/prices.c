/*
 * Prices GPU models by the policy document, else by the table of known products, else by memory, so
 * that cheap GPUs are used before expensive ones. Called by place_plan.c once for each model of a
 * question. Comparing globs is slow, so a rulebook caches the price of each model.
 */
#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/model.h"
#include "milligpu/core/rules/rulebook.h"

enum { PRICE_T4 = 100, PRICE_T4_MIB = 16384, MIB_OF_GIB = 1024 };

/* The document's price of exactly this name; 0: none. */
static uint32_t price_named(const struct rulebook *book, struct text bare)
{
    must(book->n_prices == 0 || book->price != NULL);
    must(bare.len > 0);
    for (uint32_t i = 0; i < book->n_prices; i++) {
        must(book->price[i].price > 0 && book->price[i].price <= PRICE_MAX);
        if (model_is_named(text_of(book->price[i].model), bare))
            return book->price[i].price;
    }
    return 0;
}

/* The document's price of the exact name, else of the first matching glob; 0: none. */
static uint32_t price_said(const struct rulebook *book, struct text bare)
{
    const uint32_t named = price_named(book, bare);

    must(named <= PRICE_MAX);
    must(bare.len > 0);
    for (uint32_t i = 0; named == 0 && i < book->n_prices; i++)
        if (model_takes(text_of(book->price[i].model), bare))
            return book->price[i].price;
    return named;
}

/* A part of a GPU costs a fraction of the GPU, unless the document prices the part. */
static struct named_price price_part(const struct rulebook *book, struct text bare,
                                     const struct model_part *part)
{
    const struct product *product = product_of(part->whole);
    const uint32_t said = price_said(book, part->whole);

    must(part->whole.len > 0);
    if (price_named(book, bare) > 0 || (said == 0 && price_said(book, bare) > 0))
        return (struct named_price){.price = price_said(book, bare)};
    if (product == NULL)
        return (struct named_price){.price = said};
    must(product->gib > 0);
    return (struct named_price){
        .price = said > 0 ? said : product->price,
        .whole_mib = product->gib * MIB_OF_GIB,
        .part_mib = part->mib,
    };
}

struct named_price rulebook_named_price(const struct rulebook *book, struct text model)
{
    struct model_part part;
    char dashed[MODEL_BYTES_MAX];

    must(book->prices_by == PRICES_KNOWN);
    must(book->n_prices <= PRICES_MAX);
    if (model.len > sizeof dashed)
        return (struct named_price){0};
    const struct text bare = model_bare(model, dashed);
    if (bare.len == 0)
        return (struct named_price){0}; /* an empty name matches nothing */
    if (model_part(bare, &part))
        return price_part(book, bare, &part);
    const uint32_t said = price_said(book, bare);
    const struct product *product = said == 0 ? product_of(bare) : NULL;
    return (struct named_price){.price = product != NULL ? product->price : said};
}

static struct known_price *price_new(const struct rulebook *book, const struct atom *model)
{
    struct known_price *price = xmalloc(sizeof *price);

    *price = (struct known_price){.model = atom_ref(model),
                                  .price = rulebook_named_price(book, atom_text(model))};
    must(price->price.price <= PRICE_MAX);
    must(price->model == model);
    return price;
}

static void price_free(struct known_price *price)
{
    if (price == NULL)
        return;
    must(price->model != NULL);
    must(price->price.price <= PRICE_MAX);
    atom_unref(price->model);
    xfree(price);
}

/* Compares texts, too: a node outside the snapshot has atoms of its own. */
static bool is_price_of(const struct known_price *price, const struct atom *model)
{
    must(price->model != NULL);
    must(model != NULL);
    return price->model == model || text_eq(atom_text(price->model), atom_text(model));
}

/* Returns NULL if no price is cached, with *out_free the place for it (NULL: all are taken). */
static const struct known_price *price_at(const struct rulebook *book, const struct atom *model,
                                          struct known_price *_Atomic **out_free)
{
    struct rulebook *own = (struct rulebook *)(uintptr_t)book;

    must(model != NULL);
    *out_free = NULL;
    for (uint32_t i = 0; i < KNOWN_PRICES; i++) {
        struct known_price *_Atomic *place = &own->known_price[(model->hash + i) % KNOWN_PRICES];
        const struct known_price *found = atomic_load_explicit(place, memory_order_acquire);
        if (found != NULL && is_price_of(found, model))
            return found;
        if (found == NULL) {
            *out_free = place;
            return NULL;
        }
    }
    return NULL;
}

/* The price is not cached if another thread takes the place first; the next call tries again. */
struct named_price rulebook_known_price(const struct rulebook *book, const struct atom *model)
{
    struct known_price *_Atomic *place;
    struct known_price *none = NULL;
    const struct known_price *found = price_at(book, model, &place);

    must(book->prices_by == PRICES_KNOWN);
    if (found != NULL)
        return found->price;
    struct known_price *price = price_new(book, model);
    const struct named_price named = price->price;
    if (place == NULL || !atomic_compare_exchange_strong_explicit(
                             place, &none, price, memory_order_acq_rel, memory_order_relaxed))
        price_free(price);
    must(named.price <= PRICE_MAX);
    return named;
}

void rulebook_forget_prices(struct rulebook *book)
{
    must(book->n_prices <= PRICES_MAX);
    for (uint32_t i = 0; i < KNOWN_PRICES; i++)
        price_free(atomic_exchange_explicit(&book->known_price[i], NULL, memory_order_acq_rel));
    must(atomic_load(&book->known_price[0]) == NULL);
}

/*
 * A GPU of unknown model and memory may be expensive: it is used last, and never counts as a T4.
 */
static uint32_t price_of_memory(uint32_t mib)
{
    const uint64_t price = (uint64_t)mib * PRICE_T4 / PRICE_T4_MIB;

    must(price < mib || mib == 0);
    if (mib == 0 || price > PRICE_MAX)
        return PRICE_MAX;
    return price == 0 ? 1 : (uint32_t)price;
}

uint32_t price_by_memory(const struct named_price *named, uint32_t mib)
{
    must(named->price <= PRICE_MAX);
    must(named->price > 0 || named->whole_mib == 0);
    if (named->price == 0)
        return price_of_memory(mib);
    const uint32_t part_mib = mib > 0 ? mib : named->part_mib;
    if (named->whole_mib == 0 || part_mib == 0 || part_mib >= named->whole_mib)
        return named->price;
    const uint64_t price = (uint64_t)named->price * part_mib / named->whole_mib;
    return price == 0 ? 1 : (uint32_t)price;
}

uint32_t rulebook_price(const struct rulebook *book, struct text model, uint32_t mib)
{
    must(book != NULL);
    if (book->prices_by == PRICES_OFF)
        return 0;
    const struct named_price named = rulebook_named_price(book, model);
    const uint32_t price = price_by_memory(&named, mib);
    must(price > 0);
    must(price <= PRICE_MAX);
    return price;
}
