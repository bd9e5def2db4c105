/*
 * What a GPU of a model costs, so that cheap GPUs serve what they can before dear ones do: by the
 * policy document, else by a table of known models, else by memory. Called by place_level.c once
 * for each model of a question. The numbers are in hundredths of a T4. They follow from what cards
 * of a class are listed at and what they get done, rounded: only their order matters, never by how
 * much two of them differ, and a policy document overrides any of them.
 */
#include "milligpu/alloc.h"
#include "milligpu/model.h"
#include "milligpu/rulebook.h"

enum { PRICE_T4 = 100, PRICE_T4_MIB = 16384 };

/* The first that takes the model counts, so what is special stands before what is general. */
static const struct model_price known[] = {
    /* data centers, by generation */
    {"GB300*", 5500},
    {"B300*", 5000},
    {"GB200*", 4500},
    {"B200*", 4000},
    {"GH200*", 2800},
    {"H200*", 2500},
    {"H100*PCIE*", 1600},
    {"H100*NVL*", 1800},
    {"H100*", 2000},
    {"H800*", 1900},
    {"H20", 1200},
    {"H20-*", 1200},
    {"A100*80GB*", 900},
    {"A100*", 700},
    {"A800*", 850},
    {"A40", 350},
    {"A40-*", 350},
    {"A30", 300},
    {"A30-*", 300},
    {"A16", 120},
    {"A16-*", 120},
    {"A10*", 200},
    {"A2", 60},
    {"A2-*", 60},
    {"L40S*", 480},
    {"L40*", 420},
    {"L4", 150},
    {"L4-*", 150},
    {"V100*32*", 280},
    {"V100*", 240},
    {"P100*", 110},
    {"P40", 90},
    {"P40-*", 90},
    {"P4", 70},
    {"P4-*", 70},
    {"T4", PRICE_T4},
    {"T4-*", PRICE_T4},
    {"T4G*", PRICE_T4},
    {"M60*", 50},
    {"K80*", 30},
    /* workstations */
    {"RTX-PRO-6000*", 800},
    {"RTX-6000-Ada*", 450},
    {"RTX-5000-Ada*", 280},
    {"RTX-A6000*", 320},
    {"RTX-A5000*", 190},
    {"RTX-A4000*", 110},
    {"RTX-8000*", 220},
    {"RTX-6000*", 180},
    /* people */
    {"RTX-5090*", 300},
    {"RTX-4090*", 210},
    {"RTX-3090*", 140},
    /* others */
    {"*MI355X*", 4200},
    {"*MI325X*", 2400},
    {"*MI300*", 2200},
    {"*MI250*", 900},
};

bool known_price(uint32_t at, struct model_price *out)
{
    must(out != NULL);
    must(at <= UINT16_MAX);
    if (at >= ARRAY_LEN(known))
        return false;
    *out = known[at];
    must(out->price > 0 && out->price <= PRICE_MAX);
    return true;
}

/* 0: none of these takes it. */
static uint32_t price_among(const struct model_price *price, uint32_t count, struct text bare)
{
    must(count == 0 || price != NULL);
    must(bare.len > 0);
    for (uint32_t i = 0; i < count; i++) {
        must(price[i].price > 0 && price[i].price <= PRICE_MAX);
        if (model_takes(text_of(price[i].model), bare))
            return price[i].price;
    }
    return 0;
}

uint32_t rulebook_named_price(const struct rulebook *book, struct text model)
{
    char dashed[MODEL_BYTES_MAX];

    must(book->prices_by == PRICES_KNOWN);
    must(book->prices <= PRICES_MAX);
    if (model.len == 0 || model.len > sizeof dashed)
        return 0;
    const struct text bare = model_bare(model, dashed);
    const uint32_t said = price_among(book->price, book->prices, bare);
    return said > 0 ? said : price_among(known, ARRAY_LEN(known), bare);
}

uint32_t price_of_memory(uint32_t mib)
{
    const uint64_t price = (uint64_t)mib * PRICE_T4 / PRICE_T4_MIB;

    must(price < mib || mib == 0);
    if (mib == 0)
        return PRICE_T4;
    if (price > PRICE_MAX)
        return PRICE_MAX;
    return price == 0 ? 1 : (uint32_t)price;
}

uint32_t rulebook_price(const struct rulebook *book, struct text model, uint32_t mib)
{
    must(book != NULL);
    if (book->prices_by == PRICES_OFF)
        return 0;
    const uint32_t named = rulebook_named_price(book, model);
    must(named <= PRICE_MAX);
    return named > 0 ? named : price_of_memory(mib);
}
