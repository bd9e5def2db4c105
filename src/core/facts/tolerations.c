/*
 * A counted set of distinct tolerations. Changed by the pod cache and read by drafts of nodes, both
 * in the writer's thread. The set is small: look-ups are linear.
 */
#include "milligpu/core/facts/tolerations.h"

#include <string.h>

#include "milligpu/base/alloc.h"

struct known_toleration {
    struct toleration toleration; /* its texts are in the same block */
    uint64_t pods;
};

struct tolerations {
    uint64_t version;
    uint32_t count;
    struct known_toleration *known[TOLERATIONS_MAX];
};

struct tolerations *tolerations_new(void)
{
    struct tolerations *tolerations = xcalloc(1, sizeof *tolerations);

    must(tolerations->count == 0);
    must(tolerations->version == 0);
    return tolerations;
}

void tolerations_free(struct tolerations *tolerations)
{
    if (tolerations == NULL)
        return;
    must(tolerations->count <= TOLERATIONS_MAX);
    must(tolerations->count == 0 || tolerations->known[0]->pods > 0);
    for (uint32_t i = 0; i < tolerations->count; i++)
        xfree(tolerations->known[i]);
    xfree(tolerations);
}

static bool toleration_eq(const struct toleration *a, const struct toleration *b)
{
    must(a->key != NULL && b->key != NULL);
    must(a->value != NULL && b->value != NULL);
    return a->op == b->op && a->effect == b->effect && strcmp(a->key, b->key) == 0 &&
           strcmp(a->value, b->value) == 0;
}

static struct known_toleration *known_new(const struct toleration *toleration, size_t bytes)
{
    struct known_toleration *known = xmalloc(sizeof *known + bytes);
    char *text = (char *)(known + 1);

    must(bytes <= TOLERATION_BYTES_MAX);
    known->pods = 0;
    known->toleration = *toleration;
    known->toleration.key = text_lay(&text, toleration->key);
    known->toleration.value = text_lay(&text, toleration->value);
    must(text == (char *)(known + 1) + bytes);
    return known;
}

struct known_toleration *tolerations_add(struct tolerations *tolerations,
                                         const struct toleration *toleration)
{
    const size_t bytes = strlen(toleration->key) + strlen(toleration->value) + 2;
    uint32_t at = 0;

    must(tolerations->count <= TOLERATIONS_MAX);
    while (at < tolerations->count &&
           !toleration_eq(&tolerations->known[at]->toleration, toleration))
        at++;
    if (at == TOLERATIONS_MAX || bytes > TOLERATION_BYTES_MAX)
        return NULL;
    if (at == tolerations->count) {
        tolerations->known[tolerations->count++] = known_new(toleration, bytes);
        tolerations->version++;
    }
    must(toleration_eq(&tolerations->known[at]->toleration, toleration));
    tolerations->known[at]->pods++;
    return tolerations->known[at];
}

void tolerations_drop(struct tolerations *tolerations, struct known_toleration *known)
{
    uint32_t at = 0;

    must(known->pods > 0);
    if (--known->pods > 0)
        return;
    while (tolerations->known[at] != known)
        at++;
    must(at < tolerations->count);
    tolerations->known[at] = tolerations->known[--tolerations->count];
    tolerations->version++;
    xfree(known);
}

uint64_t tolerations_version(const struct tolerations *tolerations)
{
    must(tolerations->count <= TOLERATIONS_MAX);
    must(tolerations->count <= tolerations->version);
    return tolerations->version;
}

bool tolerations_cover(const struct tolerations *tolerations, const struct taint *taint)
{
    must(taint->key != NULL);
    must(tolerations->count <= TOLERATIONS_MAX);
    for (uint32_t i = 0; i < tolerations->count; i++)
        if (toleration_covers(&tolerations->known[i]->toleration, taint))
            return true;
    return false;
}
