/*
 * Matches names of GPU models against the globs of pods. Called by request.c for each distinct
 * model of a filter call, and by unschedulable_models.c to suggest models near an unknown one.
 */
#include "milligpu/core/facts/model.h"

#include <string.h>

static const char NVIDIA[] = "NVIDIA-";
enum { NVIDIA_LEN = sizeof NVIDIA - 1 };

static struct text without_first(struct text text, size_t bytes)
{
    must(bytes <= text.len);
    must(text.at != NULL || bytes == 0);
    return (struct text){text.at + bytes, text.len - bytes};
}

struct text model_bare(struct text text, char buf[MODEL_BYTES_MAX])
{
    must(text.len <= MODEL_BYTES_MAX);
    must(buf != NULL);

    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.at[i] == ' ' ? '-' : text.at[i];
        if (c != '-' || len == 0 || buf[len - 1] != '-')
            buf[len++] = c;
    }
    const struct text dashed = {buf, len};
    return text_glob(TEXT("NVIDIA-*"), dashed) ? without_first(dashed, NVIDIA_LEN) : dashed;
}

/* text must have at least that many bytes. */
static struct text last_bytes(struct text text, size_t bytes)
{
    must(bytes <= text.len);
    must(text.at != NULL || bytes == 0);
    return without_first(text, text.len - bytes);
}

/* The length of a leading product line with its dash; 0 if there is none or nothing follows it. */
static size_t line_length(struct text bare)
{
    static const char *const lines[] = {"Tesla-?*", "GeForce-?*", "Quadro-?*", "Jetson-?*"};
    must(bare.at != NULL || bare.len == 0);

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        const size_t len = strlen(lines[i]) - strlen("?*");
        if (!text_glob(text_of(lines[i]), bare))
            continue;
        must(len < bare.len);
        must(bare.at[len - 1] == '-');
        return len;
    }
    return 0;
}

static bool has_wildcard(struct text glob)
{
    must(glob.at != NULL);
    must(glob.len > 0);
    return memchr(glob.at, '*', glob.len) != NULL || memchr(glob.at, '?', glob.len) != NULL;
}

/* A glob such as "NVIDIA*" is compared with the name that includes "NVIDIA-". */
static bool takes_with_maker(struct text glob, struct text model)
{
    char full[NVIDIA_LEN + MODEL_BYTES_MAX];
    must(model.len <= MODEL_BYTES_MAX);
    must(glob.len > 0);

    if (!text_glob(TEXT("NVIDIA*"), glob))
        return false;
    memcpy(full, NVIDIA, NVIDIA_LEN);
    memcpy(full + NVIDIA_LEN, model.at, model.len);
    return text_glob(glob, (struct text){full, NVIDIA_LEN + model.len});
}

/*
 * Parts and guests
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses the leading digits and returns their count; more than five are no amount of memory. */
static size_t count_digits(struct text text, uint32_t *out)
{
    size_t digits = 0;

    must(out != NULL);
    must(text.at != NULL || text.len == 0);
    *out = 0;
    while (digits < text.len && digits < 6 && is_digit(text.at[digits]))
        *out = *out * 10 + (uint32_t)(text.at[digits++] - '0');
    must(digits <= text.len);
    must(*out < 1000000);
    return digits;
}

/* The text after the last '-'; the whole name if there is none. */
static struct text last_word(struct text name)
{
    size_t len = 0;

    must(name.at != NULL || name.len == 0);
    while (len < name.len && name.at[name.len - len - 1] != '-')
        len++;
    must(len <= name.len);
    must(len == name.len || name.at[name.len - len - 1] == '-');
    return last_bytes(name, len);
}

/* The name without its last word and '-'; empty if it has one word only. */
static struct text without_last_word(struct text name)
{
    const size_t word = last_word(name).len;

    must(word <= name.len);
    must(name.at != NULL || name.len == 0);
    return text_first(name, word < name.len ? name.len - word - 1 : 0);
}

enum { MIB_PER_GIB = 1024, MIB_OF_0B = 512 };

/*
 * "24Q", "4C", "8A", "2B", "1B4", "5CME": the profile of a virtual GPU, with its GiB; "0B" is half
 * a GiB.
 */
static bool is_profile(struct text word, uint32_t *out_mib)
{
    static const char *const kinds[] = {"Q", "C", "A", "B", "B4", "CME"};
    uint32_t gib;
    const size_t digits = count_digits(word, &gib);
    const struct text kind = without_first(word, digits);

    must(out_mib != NULL);
    must(digits + kind.len == word.len);
    if (digits == 0 || digits > 3)
        return false;
    *out_mib = gib == 0 ? MIB_OF_0B : gib * MIB_PER_GIB;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (text_glob(text_of(kinds[i]), kind))
            return true;
    return false;
}

/* "1" in "A100-1-5C": the number of MIG slices of a virtual GPU. */
static bool is_slices(struct text word)
{
    must(word.at != NULL || word.len == 0);
    return word.len == 1 && is_digit(word.at[0]);
}

/* "1g.5gb", "1c.3g.20gb", "1g.10gb.me": the memory is the last number before "gb". */
static uint32_t mib_of_slice(struct text slice)
{
    uint32_t mib = 0;
    struct text piece;

    must(slice.at != NULL);
    must(slice.len > 0);
    while (text_cut(&slice, '.', &piece)) {
        uint32_t gib;
        const size_t digits = count_digits(piece, &gib);
        const struct text unit = without_first(piece, digits);
        if (digits > 0 && digits <= 3 && text_first(unit, 2).len == 2 &&
            text_glob(TEXT("gb"), text_first(unit, 2)))
            mib = gib * MIB_PER_GIB;
    }
    return mib;
}

/* Cuts the name at "-MIG-", with a non-empty text before it. */
static bool cut_slice(struct text name, struct model_part *out)
{
    static const char mig[] = "-MIG-";
    enum { MIG_LEN = sizeof mig - 1 };

    must(name.at != NULL || name.len == 0);
    must(out != NULL);
    for (size_t i = 1; i + MIG_LEN < name.len; i++) {
        const struct text rest = without_first(name, i);
        if (!text_glob(TEXT("-MIG-"), text_first(rest, MIG_LEN)))
            continue;
        must(rest.len > MIG_LEN);
        out->whole = text_first(name, i);
        out->mib = mib_of_slice(without_first(rest, MIG_LEN));
        return true;
    }
    return false;
}

/* "GRID-T4-16Q": a prefix of virtual GPUs only. */
static struct text without_grid(struct text name)
{
    static const char grid[] = "GRID-";
    must(name.at != NULL || name.len == 0);
    return text_glob(TEXT("GRID-?*"), name) ? without_first(name, sizeof grid - 1) : name;
}

bool model_part(struct text model, struct model_part *out)
{
    must(model.len <= MODEL_BYTES_MAX);
    must(out != NULL);

    *out = (struct model_part){.whole = model};
    const bool shared = text_glob(TEXT("?*-SHARED"), model);
    if (shared)
        out->whole = without_last_word(model);
    if (cut_slice(out->whole, out))
        return true;
    const struct text before = without_last_word(out->whole);
    uint32_t mib;
    if (before.len == 0 || !is_profile(last_word(out->whole), &mib))
        return shared;
    out->mib = mib;
    const struct text gpu = without_last_word(before);
    out->whole = without_grid(gpu.len > 0 && is_slices(last_word(before)) ? gpu : before);
    must(out->whole.len > 0 && out->whole.len < model.len);
    return true;
}

/*
 * Names
 */

/* Product names that extend another product's name: that name, and the rest after the '-'. */
static const struct {
    const char *name;
    const char *rest;
} other_product[] = {
    {"H20", "3e"},
    {"H20", "3e-*"},
    {"*", "D"}, /* RTX-4090-D */
    {"*", "D-*"},
    {"*", "Ti"},
    {"*", "Ti-*"},
    {"*", "SUPER"},
    {"*", "SUPER-*"},
    /* reused names of Quadro RTX */
    {"RTX-3000", "Ada-*"},
    {"RTX-4000", "Ada-*"},
    {"RTX-5000", "Ada-*"},
    {"RTX-6000", "Ada-*"},
    /* smaller or low-power chips */
    {"*", "SFF-*"},
    {"*", "*-SFF-*"},
    {"*", "Laptop-*"},
    {"*", "*-Laptop-*"},
    {"*", "Embedded-*"},
    {"*", "*-Embedded-*"},
    {"*", "with-*"}, /* GeForce-RTX-2080-with-Max-Q-Design */
    {"*", "Max-Q"},
};

static bool is_other_product(struct text name, struct text rest)
{
    must(name.len > 0);
    must(rest.at != NULL);
    for (size_t i = 0; i < ARRAY_LEN(other_product); i++)
        if (text_glob(text_of(other_product[i].name), name) &&
            text_glob(text_of(other_product[i].rest), rest))
            return true;
    return false;
}

/* Prefix match: "A100" and "A100-SXM4-80GB". Both without their product lines. */
static bool takes_from_left(struct text name, struct text model)
{
    struct model_part part;
    must(name.len > 0);
    must(model.len == 0 || model.at != NULL);
    must(!has_wildcard(name));

    if (model.len <= name.len || model.at[name.len] != '-' ||
        !text_glob(name, text_first(model, name.len)))
        return false;
    if (model_part(model, &part) && model.at + name.len <= part.whole.at + part.whole.len)
        return false;
    return !is_other_product(name, without_first(model, name.len + 1));
}

bool model_takes(struct text glob, struct text model)
{
    must(glob.len > 0);
    must(model.len <= MODEL_BYTES_MAX);

    if (text_glob(glob, model) || takes_with_maker(glob, model))
        return true;
    const size_t of_glob = line_length(glob);
    const size_t of_model = line_length(model);
    const struct text name = without_first(glob, of_glob);
    const struct text rest = without_first(model, of_model);
    must(name.len > 0);
    must(rest.len > 0 || model.len == 0);
    if (has_wildcard(name))
        return of_model != 0 && of_glob == 0 && text_glob(name, rest);
    if (of_glob != 0 && of_model != 0 &&
        !text_glob(text_first(glob, of_glob), text_first(model, of_model)))
        return false;
    return text_glob(name, rest) || takes_from_left(name, rest);
}

bool model_is_named(struct text glob, struct text model)
{
    must(glob.len > 0);
    must(model.len <= MODEL_BYTES_MAX);
    const struct text name = without_first(glob, line_length(glob));
    const struct text rest = without_first(model, line_length(model));
    return !has_wildcard(glob) && name.len == rest.len && model_takes(glob, model);
}

/* The name in lower case, without product line and wildcards. */
static struct text model_core(struct text bare, char buf[TEXT_DISTANCE_MAX])
{
    const struct text rest = without_first(bare, line_length(bare));
    size_t len = 0;

    must(rest.len == 0 || rest.at != NULL);
    for (size_t i = 0; i < rest.len && len < TEXT_DISTANCE_MAX; i++)
        if (rest.at[i] != '*' && rest.at[i] != '?')
            buf[len++] = text_lower(rest.at[i]);
    must(len <= rest.len);
    must(len <= TEXT_DISTANCE_MAX);
    return (struct text){buf, len};
}

static bool model_contains(struct text text, struct text part)
{
    must(text.at != NULL);
    must(part.at != NULL);
    for (size_t i = 0; i + part.len <= text.len; i++)
        if (memcmp(text.at + i, part.at, part.len) == 0)
            return true;
    return false;
}

/* "A100" of "A100-SXM4-80GB": most often misspelled, or given alone. */
static struct text first_word(struct text text)
{
    struct text word = text;
    must(text.len > 0);
    (void)text_cut(&text, '-', &word);
    must(word.len <= TEXT_DISTANCE_MAX);
    return word;
}

size_t model_distance(struct text glob, struct text model)
{
    char asked_buf[TEXT_DISTANCE_MAX];
    char shown_buf[TEXT_DISTANCE_MAX];
    const struct text asked = model_core(glob, asked_buf);
    const struct text shown = model_core(model, shown_buf);

    must(asked.len <= glob.len);
    must(shown.len <= model.len);
    if (model_contains(shown, asked) || model_contains(asked, shown))
        return 0;
    const size_t whole = text_distance(asked, shown);
    must(whole > 0);
    const size_t word = 1 + text_distance(first_word(asked), first_word(shown));
    return whole < word ? whole : word;
}
