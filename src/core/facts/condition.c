/*
 * Parses the message of a PodScheduled condition. Called by REST in admin threads. The words are
 * from the plugins of kube-scheduler 1.29 to 1.37.
 */
#include "milligpu/core/facts/condition.h"

#include <string.h>

#include "milligpu/base/text.h"

const char *condition_word(enum condition_kind kind)
{
    static const char *const words[] = {[CONDITION_NONE] = "",
#define X(code, word) [code] = (word),
                                        CONDITION_TABLE(X)
#undef X
    };

    must((size_t)kind < ARRAY_LEN(words));
    must(words[kind] != NULL);
    return words[kind];
}

/* The first match counts: "pod affinity" before "affinity". */
static const struct {
    const char *words;
    enum condition_kind kind;
} sign[] = {
    {"taint", CONDITION_TAINT},
    {"were unschedulable", CONDITION_CORDONED},
    {"topology spread", CONDITION_SPREAD},
    {"pod affinity", CONDITION_AFFINITY},
    {"anti-affinity", CONDITION_AFFINITY},
    {"olume", CONDITION_VOLUME}, /* volume, Volume, PersistentVolumeClaims */
    {"affinity", CONDITION_SELECTOR},
    {"selector", CONDITION_SELECTOR},
    {"node name", CONDITION_SELECTOR},
    {"resourceclaim", CONDITION_CLAIM},
    {"free ports", CONDITION_PORTS},
    {"Insufficient ", CONDITION_RESOURCES},
    {"Too many pods", CONDITION_RESOURCES},
};

/* Returns the offset of the words; text.len if not found. */
static size_t text_find(struct text text, const char *words)
{
    const size_t len = strlen(words);
    size_t i = 0;

    must(len > 0);
    must(text.at != NULL);
    while (i + len <= text.len && memcmp(text.at + i, words, len) != 0)
        i++;
    return i + len <= text.len ? i : text.len;
}

static enum condition_kind kind_of(struct text part, const char *resource)
{
    static const char missing[] = "Insufficient ";

    must(resource[0] != '\0');
    must(part.at != NULL);
    if (text_starts(part, missing)) {
        const struct text name = {part.at + sizeof missing - 1, part.len - (sizeof missing - 1)};
        if (text_is(name, resource))
            return CONDITION_SHARES;
    }
    for (size_t i = 0; i < ARRAY_LEN(sign); i++)
        if (text_find(part, sign[i].words) < part.len)
            return sign[i].kind;
    return CONDITION_OTHER;
}

/* Cuts off a leading number and blank; returns the number, or 1 if there is none. */
static uint32_t take_count(struct text *part)
{
    enum { DIGITS_MAX = 7 }; /* sums over a clipped message fit 32 bits */
    uint32_t count = 0;
    size_t i = 0;

    must(part->at != NULL);
    for (; i < part->len && i < DIGITS_MAX && part->at[i] >= '0' && part->at[i] <= '9'; i++)
        count = count * 10 + (uint32_t)(part->at[i] - '0');
    if (i == 0 || i == part->len || part->at[i] != ' ')
        return 1;
    must(i < part->len && count < 10000000);
    *part = (struct text){part->at + i + 1, part->len - i - 1};
    return count;
}

/* parts is separated by ", ", without the result of preemption and the final full stop. */
static void count_parts(struct text parts, const char *resource, uint32_t count[CONDITIONS])
{
    must(count[CONDITION_NONE] == 0 && parts.at != NULL);
    parts = text_first(parts, text_find(parts, " preemption:"));
    if (text_ends(parts, "."))
        parts.len--;
    while (parts.len > 0) {
        struct text part = text_first(parts, text_find(parts, ", "));
        const size_t used = part.len < parts.len ? part.len + 2 : part.len;
        must(used > 0 && used <= parts.len);
        parts = (struct text){parts.at + used, parts.len - used};
        const uint32_t nodes = take_count(&part);
        count[kind_of(part, resource)] += nodes;
    }
}

struct condition condition_read(const char *reason, const char *message, const char *resource)
{
    static const char head[] = " nodes are available: ";
    uint32_t count[CONDITIONS] = {0};
    struct condition out = {.kind = CONDITION_OTHER};

    must(resource != NULL && resource[0] != '\0');
    if (reason == NULL)
        return (struct condition){.kind = CONDITION_NONE};
    if (strcmp(reason, "SchedulingGated") == 0) {
        out.is_explained = true;
        return out;
    }
    const char *parts = message != NULL ? strstr(message, head) : NULL;
    if (parts == NULL) {
        out.is_explained =
            message != NULL && strcmp(message, "no nodes available to schedule pods") == 0;
        return out;
    }
    count_parts(text_of(parts + sizeof head - 1), resource, count);
    for (enum condition_kind kind = CONDITION_NONE; kind < CONDITIONS; kind++)
        if (count[kind] > count[out.kind])
            out.kind = kind;
    must(out.kind != CONDITION_NONE && count[CONDITION_NONE] == 0);
    out.is_explained = count[CONDITION_SHARES] == 0;
    return out;
}
