/*
 * Converts the pods and pod templates of an object of any kind, then reports resources of other
 * sharers that are left. Called by convert_text.c.
 */
#include <string.h>

#include "convert.h"

static bool is_list_of_objects(const struct document *list)
{
    if (list == NULL || list->kind != DOCUMENT_ARRAY || list->count == 0)
        return false;
    document_each (item, list)
        if (item->kind != DOCUMENT_OBJECT)
            return false;
    return true;
}

static bool is_status(const struct document *value)
{
    return text_is(value->key, "status");
}

/* An object with containers is the spec of a pod; metadata is beside it if its field is `spec`. */
static void find_pods(struct convert_object *in, struct document *value, struct document *parent)
{
    if (is_list_of_objects(document_get(value, "containers"))) {
        const bool beside = parent != NULL && text_is(value->key, "spec");
        convert_pod(&(struct convert_pod){in, value, beside ? parent : NULL});
    }
    for (struct document *at = value->first; at != NULL; at = at->next)
        if (!is_status(at))
            find_pods(in, at, value);
}

static void find_left(struct convert_object *in, const struct document *value)
{
    document_each (at, value) {
        const bool scalar = at->kind == DOCUMENT_STRING || at->kind == DOCUMENT_NUMBER;
        if (scalar && convert_is_word(in, at->key))
            convert_say(in, CONVERT_LOST, at,
                        "this is not a container of a pod: convert it by hand");
        else if (scalar && convert_reads(in, PEER_KAI) && text_is(at->key, "gpu-fraction"))
            convert_say(in, CONVERT_LOST, at,
                        "this is not an annotation of a pod: convert it by hand");
        else if (!is_status(at))
            find_left(in, at);
    }
}

void convert_object(struct convert_object *in)
{
    must(in->root->kind == DOCUMENT_OBJECT);
    find_pods(in, in->root, NULL);
    if (!convert_failed(in))
        find_left(in, in->root);
}
