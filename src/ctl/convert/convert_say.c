/*
 * Collects the remarks about an object while it is converted, and changes annotations of its pods.
 * Called by convert_object.c, convert_pod.c and convert_share.c.
 */
#include <stdarg.h>
#include <stdio.h>

#include "convert.h"

bool convert_reads(const struct convert_object *in, enum convert_peer peer)
{
    return in->rules->from == PEER_ANY || in->rules->from == peer;
}

void convert_say(struct convert_object *in, enum convert_level level, const struct document *at,
                 const char *fmt, ...)
{
    struct strbuf *line = &in->line[level];
    char text[512];
    va_list arguments;

    must(level < CONVERT_LEVELS && at != NULL);
    if (++in->said[level] > CONVERT_LINES_MAX)
        return; /* skips the path, which needs a walk over the object */
    va_start(arguments, fmt);
    (void)vsnprintf(text, sizeof text, fmt, arguments); /* truncated if too long */
    va_end(arguments);
    document_write_path(line, in->root, at);
    strbuf_str(line, ": ");
    strbuf_shown(line, text_of(text));
    strbuf_char(line, '\n');
}

bool convert_failed(const struct convert_object *in)
{
    return in->said[CONVERT_FAILED] > 0;
}

static struct document *annotations_of(const struct convert_pod *pod)
{
    return document_at(pod->owner, "metadata.annotations");
}

const struct document *convert_annotation_at(const struct convert_pod *pod, const char *key)
{
    return document_get(annotations_of(pod), key);
}

const char *convert_annotation(const struct convert_pod *pod, const char *key)
{
    const struct document *found = convert_annotation_at(pod, key);

    return found != NULL && found->kind == DOCUMENT_STRING && !document_has_nul(found)
               ? found->text.at
               : NULL;
}

void convert_annotate(const struct convert_pod *pod, const struct document *about, const char *key,
                      const char *value)
{
    struct document *metadata = document_get(pod->owner, "metadata");
    const struct document *annotations = document_get(metadata, "annotations");

    must(key[0] != '\0');
    if (pod->owner == NULL || (metadata != NULL && metadata->kind != DOCUMENT_OBJECT) ||
        (annotations != NULL && annotations->kind != DOCUMENT_OBJECT)) {
        convert_say(pod->in, CONVERT_FAILED, about,
                    "it becomes annotation %s, for which the pod has no place", key);
        return;
    }
    if (document_get(annotations, key) != NULL) {
        convert_say(pod->in, CONVERT_FAILED, about, "annotation %s is there already", key);
        return;
    }
    metadata = document_object(pod->in->arena, pod->owner, "metadata");
    document_set_str(pod->in->arena, document_object(pod->in->arena, metadata, "annotations"), key,
                     value);
}

void convert_drop_annotation(const struct convert_pod *pod, const char *key)
{
    struct document *annotations = annotations_of(pod);

    if (annotations == NULL || annotations->kind != DOCUMENT_OBJECT)
        return;
    document_remove(annotations, key);
    if (annotations->count == 0)
        document_remove(document_get(pod->owner, "metadata"), "annotations");
}
