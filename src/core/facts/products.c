/*
 * The table of known GPU products with prices and memory. Called by prices.c for each model of a
 * filter call, and by request.c to detect several names in one. Prices are in hundredths of a T4,
 * rounded from the list prices and the performance of a class: only their order matters, not the
 * differences, and a policy document overrides them.
 */
#include "milligpu/core/facts/model.h"

/* The first match counts, so special names come before general ones. */
static const struct product known[] = {
    /* data centers, by generation */
    {"GB300*", 5500, 288},
    {"B300*", 5000, 288},
    {"GB200*", 4500, 192},
    {"B200*", 4000, 192},
    {"GH200*", 2800, 96},
    {"H200*", 2500, 141},
    {"H100*PCIE*", 1600, 80},
    {"H100*NVL*", 1800, 94},
    {"H100*", 2000, 80},
    {"H800*", 1900, 80},
    {"H20-3e", 1400, 141},
    {"H20", 1200, 96},
    {"A100*80GB*", 900, 80},
    {"A100D*", 900, 80}, /* name of a virtual GPU */
    {"A100*", 700, 40},
    {"A800*", 850, 80},
    {"A40", 350, 48},
    {"A30", 300, 24},
    {"A16", 120, 16},
    {"A10", 200, 24},
    {"A10?", 200, 24}, /* A10G, A10M */
    {"A2", 60, 16},
    {"L40S", 480, 48},
    {"L40", 420, 48},
    {"L20", 380, 48},
    {"L4", 150, 24},
    {"L2", 140, 24},
    {"V100*32*", 280, 32},
    {"V100D*", 280, 32}, /* name of a virtual GPU */
    {"V100*", 240, 16},
    {"P100*", 110, 16},
    {"P40", 90, 24},
    {"P4", 70, 8},
    {"T4", 100, 16},
    {"T4G", 100, 16},
    {"M60", 50, 8},
    {"K80", 30, 12},
    /* workstations */
    {"RTX-PRO-6000", 800, 96},
    {"RTX-6000-Ada", 450, 48},
    {"RTX-5000-Ada", 280, 32},
    {"RTX-4000-Ada", 145, 20},
    {"RTX-2000-Ada", 105, 16},
    {"RTX-A6000", 320, 48},
    {"RTX-A5000", 190, 24},
    {"RTX-A4000", 110, 16},
    {"RTX-8000", 220, 48},
    {"RTX-6000", 180, 24},
    {"GB10", 250, 128},
    /* consumer */
    {"RTX-5090*", 310, 32},
    {"RTX-4090-D", 205, 24},
    {"RTX-4090", 210, 24},
    {"RTX-3090*", 140, 24},
    {"RTX-3080-Ti", 115, 12},
    {"TITAN-RTX", 160, 24},
    {"TITAN-V", 130, 12},
    /* Jetson */
    {"Orin", 40, 32},
    /* other vendors */
    {"*MI355X*", 4200, 288},
    {"*MI325X*", 2400, 256},
    {"*MI300*", 2200, 192},
    {"*MI250*", 900, 128},
};

const struct product *product_at(uint32_t at)
{
    must(at <= UINT16_MAX);
    if (at >= ARRAY_LEN(known))
        return NULL;
    must(known[at].price > 0 && known[at].gib > 0);
    return &known[at];
}

const struct product *product_of(struct text model)
{
    must(model.len <= MODEL_BYTES_MAX);
    must(model.at != NULL || model.len == 0);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (model_takes(text_of(known[i].model), model))
            return &known[i];
    return NULL;
}

/* Separators used by mistake instead of a comma; blanks are already '-'. */
static bool is_joint(char c)
{
    return c == '-' || c == '/' || c == '+' || c == '&' || c == ':';
}

static struct text without_star(struct text glob)
{
    must(glob.at != NULL);
    must(glob.len <= MODEL_BYTES_MAX);
    return text_ends(glob, "*") ? text_first(glob, glob.len - 1) : glob;
}

/* Does text begin with a known name, followed by a joint, a wildcard or the end? */
static bool begins_product(struct text text)
{
    must(text.at != NULL || text.len == 0);
    must(text.len <= MODEL_BYTES_MAX);
    for (size_t len = 1; len <= text.len; len++)
        if ((len == text.len || text.at[len] == '*' || is_joint(text.at[len])) &&
            product_of(text_first(text, len)) != NULL)
            return true;
    return false;
}

bool model_names_several(struct text glob)
{
    must(glob.len > 0);
    must(glob.len <= MODEL_BYTES_MAX);
    for (size_t i = 1; i < glob.len; i++) {
        const struct text before = text_first(glob, i - 1);
        if (is_joint(glob.at[i - 1]) && product_of(without_star(before)) != NULL &&
            begins_product((struct text){glob.at + i, glob.len - i})) {
            must(before.len < glob.len);
            return true;
        }
    }
    return false;
}
