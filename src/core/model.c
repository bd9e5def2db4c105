/*
 * Compares the names of GPU models with the globs of pods. Called by request.c for each distinct
 * model of a question, and by filter.c to name models near a wrong one.
 */
#include "milligpu/model.h"

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

    for (size_t i = 0; i < text.len; i++)
        buf[i] = text.at[i] == ' ' ? '-' : text.at[i];
    const struct text dashed = {buf, text.len};
    return text_glob(TEXT("NVIDIA-*"), dashed) ? without_first(dashed, NVIDIA_LEN) : dashed;
}

/*
 * The length of the product line at the start of a name, with its dash. 0: there is none, or
 * nothing follows it.
 */
static size_t line_length(struct text bare)
{
    static const char *const lines[] = {"Tesla-?*", "GeForce-?*", "Quadro-?*"};
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

/* "NVIDIA*" names the maker, so such a glob is compared with the name that has its maker. */
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

bool model_takes(struct text glob, struct text model)
{
    must(glob.len > 0);
    must(model.len <= MODEL_BYTES_MAX);

    if (text_glob(glob, model) || takes_with_maker(glob, model))
        return true;
    const size_t of_glob = line_length(glob);
    const size_t of_model = line_length(model);
    if (of_model != 0)
        return of_glob == 0 && text_glob(glob, without_first(model, of_model));
    const struct text rest = without_first(glob, of_glob);
    must(rest.len > 0);
    return !has_wildcard(rest) && text_glob(rest, model);
}

/* What a person means by the name: lower case, without the product line and wildcards. */
static struct text model_core(struct text bare, char buf[TEXT_DISTANCE_MAX])
{
    const struct text rest = without_first(bare, line_length(bare));
    size_t len = 0;

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

/* "A100" of "A100-SXM4-80GB": most people mistake this part, or leave out the others. */
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
