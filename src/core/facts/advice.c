/*
 * Detects probable mistakes in requests and formats advice. wire checks annotation keys while it
 * reads a pod; the writer gets the advice, once per pod. All input is from tenants: the time per
 * key is bounded, and keys are clipped.
 */
#include "milligpu/core/facts/advice.h"

#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/quantity.h"

/* Maximum edit distance of a misspelled word. */
enum { SLIPS_MAX = 2 };

/* Limits of the bytes of a key or a name quoted in a sentence. */
enum { KEY_SHOWN_MAX = 80, NAME_SHOWN_MAX = 72 };

/* Keys of pods under milligpu.io/. Common mistakes: a missing "gpu-", or an extra one. */
static const char *const read_words[] = {"gpu-count", "gpu-model", "gpu-memory", "topology"};
enum { GPU_LEN = sizeof "gpu-" - 1, BEGIN_MIN = sizeof "gpu-me" - 1 };

/* Keys under milligpu.io/ of milligpud, the agent or an operator, which pods may have copied. */
static const char *const written_words[] = {"allocation", "visible-devices", "gpus", "cordon",
                                            "bell"};

/* The parts of "gpu-count.milligpu.io/web". */
struct key_parts {
    struct text prefix; /* "gpu-count.milligpu.io" */
    struct text label;  /* "gpu-count" */
    struct text domain; /* "milligpu.io" */
    struct text name;   /* "web" */
};

/* Returns false for a key without a prefix, which is not ours. */
static bool key_cut(struct text key, struct key_parts *out)
{
    must(key.at != NULL || key.len == 0);

    *out = (struct key_parts){.name = key};
    if (!text_cut(&out->name, '/', &out->prefix) || out->prefix.len == key.len)
        return false;
    out->domain = out->prefix;
    (void)text_cut(&out->domain, '.', &out->label);
    must(out->label.len <= out->prefix.len);
    must(out->domain.len <= out->prefix.len);
    must(out->prefix.len + 1 + out->name.len == key.len);
    return true;
}

static bool is_near(struct text text, const char *word, size_t most)
{
    must(most <= SLIPS_MAX);
    must(word != NULL);
    must(word[0] != '\0');
    return text_slips(text, text_of(word), most) != TEXT_FAR;
}

static struct text without_gpu(struct text text)
{
    must(text.at != NULL || text.len == 0);
    return text_starts(text, "gpu-") ? (struct text){text.at + GPU_LEN, text.len - GPU_LEN} : text;
}

/* Matches "gpu_model" by edit distance, "gpu-mem" as a prefix, "model" without "gpu-". */
static bool means_word(struct text text, const char *word)
{
    const struct text begin = text_first(text_of(word), text.len);
    const struct text bare = without_gpu(text_of(word));

    must(strlen(word) > BEGIN_MIN);
    must(begin.len <= text.len);
    if (text.len >= BEGIN_MIN && text_slips(text, begin, 0) == 0)
        return true;
    if (bare.len == strlen(word))
        return is_near(without_gpu(text), word, SLIPS_MAX);
    /* Edit distance 1 for a short word, which has many neighbors. */
    return is_near(text, word, SLIPS_MAX) || is_near(text, bare.at, 1);
}

/* The intended word under milligpu.io/; NULL: none. No text is near two words. */
static const char *nearest_word(struct text text)
{
    must(text.at != NULL || text.len == 0);

    for (size_t i = 0; i < ARRAY_LEN(read_words); i++)
        if (means_word(text, read_words[i]))
            return read_words[i];
    return NULL;
}

static bool is_among(struct text name, const char *const *words, size_t count)
{
    must(words != NULL);
    must(count > 0);

    for (size_t i = 0; i < count; i++)
        if (text_is(name, words[i]))
            return true;
    return false;
}

static bool is_known(const struct key_parts *key)
{
    must(key != NULL);
    must(key->prefix.at != NULL);
    if (text_is(key->prefix, "milligpu.io"))
        return is_among(key->name, read_words, ARRAY_LEN(read_words)) ||
               is_among(key->name, written_words, ARRAY_LEN(written_words));
    return text_is(key->prefix, "gpu-count.milligpu.io") ||
           text_is(key->prefix, "visible-devices.milligpu.io");
}

/* Is the prefix our domain or a subdomain of it? */
static bool is_ours(struct text prefix)
{
    must(prefix.at != NULL);
    return text_glob(TEXT("milligpu.io"), prefix) || text_glob(TEXT("*.milligpu.io"), prefix);
}

/* "milligpu.com", "milli-gpu.io", "milligpu" */
static bool is_near_domain(struct text domain)
{
    struct text label = TEXT("");

    (void)text_cut(&domain, '.', &label); /* a prefix of one label has no domain */
    must(label.at != NULL);
    return is_near(label, "milligpu", SLIPS_MAX);
}

/* "gpucount.milligpu.io/web", "gpu-count.milligpu.com/web" */
static bool means_container(const struct key_parts *key)
{
    must(key != NULL);
    must(key->label.len <= key->prefix.len);
    return is_near(key->label, "gpu-count", SLIPS_MAX) && is_near_domain(key->domain);
}

bool annotation_is_odd(struct text text)
{
    struct key_parts key;

    if (!key_cut(text, &key) || is_known(&key))
        return false;
    if (is_ours(key.prefix) || means_container(&key))
        return true;
    return is_near_domain(key.prefix) && nearest_word(key.name) != NULL;
}

/* Sentences. */

/* Appends tenant text, clipped and escaped. */
static void advice_add_shown(struct strbuf *buf, struct text text, size_t most)
{
    char shown[KEY_SHOWN_MAX];
    must(most <= sizeof shown);
    must(buf != NULL);

    text_clip(text, shown, most);
    strbuf_str(buf, shown);
}

/* The requesting container with the nearest name; NULL: none is near. */
static const char *nearest_container(const struct pod *pod, struct text name)
{
    const char *best = NULL;
    size_t least = TEXT_FAR;

    must(pod->n_containers == 0 || pod->container != NULL);
    for (uint32_t i = 0; i < pod->n_containers && i < CONTAINERS_MAX; i++) {
        const struct pod_container *container = &pod->container[i];
        if (container->amount == NULL || strlen(container->name) > TEXT_DISTANCE_MAX)
            continue;
        const size_t slips = text_slips(name, text_of(container->name), SLIPS_MAX);
        if (slips < least) {
            least = slips;
            best = container->name;
        }
    }
    must((best == NULL) == (least == TEXT_FAR));
    return best;
}

static void add_container_key(struct strbuf *buf, struct text name)
{
    must(buf->len > 0);
    must(name.at != NULL);

    strbuf_str(buf, "; did you mean gpu-count.milligpu.io/");
    advice_add_shown(buf, name, NAME_SHOWN_MAX);
    strbuf_char(buf, '?');
}

/* "annotation milligpu.io/gpu_model has no effect; did you mean milligpu.io/gpu-model?" */
static void add_odd_key(struct strbuf *buf, const struct pod *pod, struct text text)
{
    struct key_parts key;

    must(text.len > 0);
    strbuf_str(buf, "annotation ");
    advice_add_shown(buf, text, KEY_SHOWN_MAX);
    const bool cut = key_cut(text, &key);
    must(cut);
    if (text_is(key.prefix, "gpu-count.milligpu.io")) {
        const char *container = nearest_container(pod, key.name);
        strbuf_str(buf, " names no container of the pod");
        if (container != NULL)
            add_container_key(buf, text_of(container));
        return;
    }
    strbuf_str(buf, " has no effect");
    if (means_container(&key)) {
        add_container_key(buf, key.name);
        return;
    }
    const char *word = nearest_word(key.name);
    if (word == NULL)
        word = nearest_word(key.label); /* "gpu-model.milligpu.io/web" */
    if (word != NULL)
        strbuf_printf(buf, "; did you mean milligpu.io/%s?", word);
    else
        strbuf_str(buf,
                   "; milligpu reads milligpu.io/gpu-count, gpu-model, gpu-memory and topology, "
                   "and gpu-count.milligpu.io/CONTAINER");
}

static bool advise_on_annotations(const struct pod *pod, struct strbuf *buf)
{
    must(pod->n_odd_keys <= ODD_KEYS_MAX);
    must(buf->len == 0);

    for (uint32_t i = 0; i < pod->n_odd_keys; i++) {
        if (i > 0)
            strbuf_str(buf, "; ");
        add_odd_key(buf, pod, text_of(pod->odd_key[i]));
    }
    return pod->n_odd_keys > 0;
}

/* "container web: nvidia.com/vgpu: 1 is 1 thousandth of a GPU; ...", for the first one only. */
static bool advise_on_tiny(const struct pod *pod, const char *resource, struct strbuf *buf)
{
    must(resource != NULL);
    must(buf->len == 0);

    for (uint32_t i = 0; i < pod->n_containers; i++) {
        const struct pod_container *container = &pod->container[i];
        const struct text written = text_of(container->amount);
        int64_t amount = 0;
        if (quantity_parse(written, 0, &amount) != QUANTITY_OK || amount < 1 ||
            amount > MEANT_GPUS_MAX)
            continue;
        strbuf_str(buf, "container ");
        advice_add_shown(buf, text_of(container->name), NAME_SHOWN_MAX);
        strbuf_printf(buf, ": %s: ", resource);
        advice_add_shown(buf, written, NAME_SHOWN_MAX);
        strbuf_printf(buf,
                      " is %lld thousandth%s of a GPU; 1000 is one whole GPU; did you mean %lld?",
                      (long long)amount, amount > 1 ? "s" : "", (long long)amount * GPU_MILLI);
        return true;
    }
    return false;
}

/* Advice on a refused or tiny amount. Other refusals are already shown by kube-scheduler. */
static bool advise_on_amount(const struct pod *pod, const struct request_rules *rules,
                             const char **out_word, struct strbuf *buf)
{
    struct request request;
    struct refusal refusal;

    must(out_word != NULL);
    must(buf->len == 0);

    CLEANUP(arena_done) struct arena arena;
    arena_init(&arena);
    switch (request_parse(pod, rules, &arena, &request, &refusal)) {
    case REQUEST_OK:
        *out_word = "tiny";
        return advise_on_tiny(pod, rules->resource, buf);
    case REQUEST_REFUSED:
        if (pod->node[0] != '\0')
            return false; /* already granted */
        *out_word = reason_name(refusal.why);
        strbuf_str(buf, refusal.text);
        return refusal.why == REASON_AMOUNT || refusal.why == REASON_MINIMUM ||
               refusal.why == REASON_STEP;
    case REQUEST_WHOLE:
    case REQUEST_NOT_OURS:
    case REQUEST_ZERO:
        return false;
    }
    must_not_reach("every verdict is listed");
}

bool advice_of(enum advice_kind kind, const struct pod *pod, const struct request_rules *rules,
               struct advice *out)
{
    CLEANUP(strbuf_done) struct strbuf buf;

    must(kind == ADVICE_AMOUNT || kind == ADVICE_ANNOTATION);
    must(pod != NULL && rules != NULL);
    strbuf_init(&buf);
    *out = (struct advice){.word = "annotation"};
    const bool given = kind == ADVICE_AMOUNT ? advise_on_amount(pod, rules, &out->word, &buf)
                                             : advise_on_annotations(pod, &buf);
    must(!given || buf.len > 0);
    must(out->word != NULL);
    if (given)
        text_clip((struct text){buf.data, buf.len}, out->text, sizeof out->text);
    return given;
}
