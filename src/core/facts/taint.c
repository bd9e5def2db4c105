/*
 * Taints of Nodes and their match with tolerations, as in
 * k8s.io/component-helpers/scheduling/corev1. Called by drafts of nodes in the writer's thread, and
 * by decoders. Parts: words, the taints of a Node, tolerations.
 */
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/node_filter.h"

#include "integer.h"

/*
 * Words
 */

static const struct {
    const char *name;
    const char *help;
} unusable_rows[] = {
#define X(code, word, help) [code] = {word, help},
    UNUSABLE_TABLE(X)
#undef X
};

const char *unusable_name(enum unusable why)
{
    must((unsigned)why < ARRAY_LEN(unusable_rows));
    must(unusable_rows[why].name[0] != '\0');
    return unusable_rows[why].name;
}

const char *unusable_help(enum unusable why)
{
    must((unsigned)why < ARRAY_LEN(unusable_rows));
    must(unusable_rows[why].help[0] != '\0');
    return unusable_rows[why].help;
}

enum taint_effect taint_effect_of(struct text word)
{
    must(word.at != NULL);
    must(word.len < UINT32_MAX);
    if (word.len == 0)
        return EFFECT_ANY;
    if (text_is(word, "NoSchedule"))
        return EFFECT_NO_SCHEDULE;
    if (text_is(word, "PreferNoSchedule"))
        return EFFECT_PREFER_NO_SCHEDULE;
    return text_is(word, "NoExecute") ? EFFECT_NO_EXECUTE : EFFECT_OTHER;
}

enum toleration_operator toleration_operator_of(struct text word)
{
    must(word.at != NULL);
    must(word.len < UINT32_MAX);
    if (word.len == 0 || text_is(word, "Equal"))
        return TOLERATE_EQUAL;
    if (text_is(word, "Exists"))
        return TOLERATE_EXISTS;
    if (text_is(word, "Gt"))
        return TOLERATE_GT;
    return text_is(word, "Lt") ? TOLERATE_LT : TOLERATE_OTHER;
}

/*
 * The taints of a Node
 */

static size_t taints_text_bytes(const struct node_taints *from)
{
    size_t bytes = 0;

    must(from->n_taints == 0 || from->taint != NULL);
    for (uint32_t i = 0; i < from->n_taints; i++)
        bytes += strlen(from->taint[i].key) + strlen(from->taint[i].value) + 2;
    must(bytes >= 2 * (size_t)from->n_taints);
    return bytes;
}

const struct taints *taints_new(const struct node_taints *from)
{
    const size_t array = from->n_taints * sizeof(struct taint);
    const size_t bytes = array + taints_text_bytes(from);
    const bool fits = bytes <= TAINTS_BYTES_MAX;

    must(bytes >= array);
    if (!from->unschedulable && !from->not_ready && !from->unreadable && from->n_taints == 0)
        return NULL;
    struct taints *taints = xmalloc(sizeof *taints + (fits ? bytes : 0));
    struct taint *taint = (struct taint *)(taints + 1);
    char *text = (char *)taint + array;

    atomic_init(&taints->refs, 1);
    taints->facts = *from;
    taints->facts.unreadable = from->unreadable || !fits;
    taints->facts.n_taints = fits ? from->n_taints : 0;
    taints->facts.taint = taint;
    for (uint32_t i = 0; i < taints->facts.n_taints; i++) {
        taint[i].effect = from->taint[i].effect;
        taint[i].key = text_lay(&text, from->taint[i].key);
        taint[i].value = text_lay(&text, from->taint[i].value);
    }
    must(!fits || text == (char *)(taints + 1) + bytes);
    must(fits || taints->facts.unreadable);
    return taints;
}

/* The reference count is the only part that changes. */
static atomic_uint *taints_refs_of(const struct taints *taints)
{
    must(taints != NULL);
    return (atomic_uint *)(uintptr_t)&taints->refs;
}

const struct taints *taints_ref(const struct taints *taints)
{
    if (taints == NULL)
        return NULL;
    const unsigned before =
        atomic_fetch_add_explicit(taints_refs_of(taints), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    must(taints->facts.n_taints == 0 || taints->facts.taint != NULL);
    return taints;
}

void taints_unref(const struct taints *taints)
{
    if (taints == NULL)
        return;
    /* First: without our reference, another thread may free them. */
    must(taints->facts.n_taints == 0 || taints->facts.taint != NULL);
    const unsigned before =
        atomic_fetch_sub_explicit(taints_refs_of(taints), 1, memory_order_acq_rel);
    must(before > 0);
    if (before == 1)
        xfree((void *)(uintptr_t)taints);
}

bool taints_eq(const struct taints *a, const struct taints *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->facts.n_taints != b->facts.n_taints ||
        a->facts.unschedulable != b->facts.unschedulable ||
        a->facts.not_ready != b->facts.not_ready || a->facts.unreadable != b->facts.unreadable)
        return false;
    must(a->facts.n_taints == 0 || a->facts.taint != NULL);
    must(b->facts.n_taints == 0 || b->facts.taint != NULL);
    for (uint32_t i = 0; i < a->facts.n_taints; i++) {
        const struct taint *left = &a->facts.taint[i];
        const struct taint *right = &b->facts.taint[i];
        if (left->effect != right->effect || strcmp(left->key, right->key) != 0 ||
            strcmp(left->value, right->value) != 0)
            return false;
    }
    return true;
}

/*
 * Tolerations
 */

bool toleration_covers(const struct toleration *toleration, const struct taint *taint)
{
    int64_t have;
    int64_t bound;

    must(taint->key != NULL && taint->value != NULL);
    must(toleration->key != NULL && toleration->value != NULL);
    if (toleration->effect != EFFECT_ANY &&
        (toleration->effect != taint->effect || taint->effect == EFFECT_OTHER))
        return false;
    if (toleration->key[0] != '\0' && strcmp(toleration->key, taint->key) != 0)
        return false;
    switch (toleration->op) {
    case TOLERATE_EQUAL:
        return strcmp(toleration->value, taint->value) == 0;
    case TOLERATE_EXISTS:
        return true;
    case TOLERATE_GT:
    case TOLERATE_LT:
        return integer_parse(text_of(taint->value), &have) &&
               integer_parse(text_of(toleration->value), &bound) &&
               (toleration->op == TOLERATE_GT ? have > bound : have < bound);
    case TOLERATE_OTHER:
        return false;
    }
    must_not_reach("every operator is listed");
}

bool node_demands_tolerate(const struct node_demands *demands, const struct taint *taint)
{
    must(taint->key != NULL);
    must(demands->n_tolerations == 0 || demands->toleration != NULL);
    for (uint32_t i = 0; i < demands->n_tolerations; i++)
        if (toleration_covers(&demands->toleration[i], taint))
            return true;
    return false;
}
