/*
 * Stores the labels of a Node as atoms "key=value", because nodes of one pool share nearly all.
 * Created by the owner of the name table; read by any thread.
 */
#include "milligpu/core/facts/labels.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

static const struct atom *intern_label(const struct label *label, struct names *names)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(label->key[0] != '\0');
    must(strchr(label->key, '=') == NULL);
    strbuf_init(&text);
    strbuf_str(&text, label->key);
    strbuf_char(&text, '=');
    strbuf_str(&text, label->value);
    return names_intern(names, (struct text){text.data, text.len});
}

const struct labels *labels_new(const struct label *label, uint32_t count, struct names *names)
{
    must(count == 0 || label != NULL);
    must(names != NULL);
    if (count == 0)
        return NULL;

    struct labels *labels = xcalloc(1, sizeof *labels + count * sizeof(struct atom *));
    atomic_init(&labels->refs, 1);
    for (uint32_t i = 0; i < count; i++)
        labels->text[i] = atom_ref(intern_label(&label[i], names));
    labels->count = count;
    must(labels->text[count - 1] != NULL);
    return labels;
}

/* Only the reference count is mutable. */
static atomic_uint *labels_refs_of(const struct labels *labels)
{
    must(labels != NULL);
    return (atomic_uint *)(uintptr_t)&labels->refs;
}

const struct labels *labels_ref(const struct labels *labels)
{
    if (labels == NULL)
        return NULL;
    const unsigned before =
        atomic_fetch_add_explicit(labels_refs_of(labels), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return labels;
}

void labels_unref(const struct labels *labels)
{
    if (labels == NULL)
        return;
    must(labels->count > 0); /* first: without our reference, another thread may free them */
    const unsigned before =
        atomic_fetch_sub_explicit(labels_refs_of(labels), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    for (uint32_t i = 0; i < labels->count; i++)
        atom_unref(labels->text[i]);
    xfree((void *)(uintptr_t)labels);
}

bool labels_eq(const struct labels *a, const struct labels *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->count != b->count)
        return false;
    must(a->count > 0);
    for (uint32_t i = 0; i < a->count; i++)
        if (a->text[i] != b->text[i])
            return false;
    return true;
}

bool labels_find(const struct labels *labels, const char *key, struct text *out)
{
    const size_t bytes = strlen(key);

    must(bytes > 0);
    must(labels == NULL || labels->count > 0);
    for (uint32_t i = 0; labels != NULL && i < labels->count; i++) {
        const struct text text = atom_text(labels->text[i]);
        if (text.len <= bytes || text.at[bytes] != '=' || memcmp(text.at, key, bytes) != 0)
            continue;
        *out = (struct text){text.at + bytes + 1, text.len - bytes - 1};
        return true;
    }
    return false;
}

bool labels_match(const struct labels *labels, const struct label *demand)
{
    struct text value;

    must(demand->key[0] != '\0');
    must(demand->value != NULL);
    return labels_find(labels, demand->key, &value) && text_glob(text_of(demand->value), value);
}
