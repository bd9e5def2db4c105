/*
 * Copies the texts about a pod that people see into one block. Called by the pod cache, which keeps
 * one per record, on the thread that puts or copies the record.
 */
#include "milligpu/sync/pod_context.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/text.h"

enum { CONTEXT_TEXTS = 8 };

/* Sets out_text to the addresses of all text members, in their order in the block. */
static void texts_of(struct pod_context *context, const char **out_text[CONTEXT_TEXTS])
{
    struct pod_scheduling *scheduling = &context->scheduling;
    struct pod_owner *owner = &context->owner;
    const char **const text[] = {
        &scheduling->scheduler, &scheduling->gates, &scheduling->reason, &scheduling->message,
        &owner->kind,           &owner->name,       &owner->uid,         &owner->revision,
    };

    static_assert(ARRAY_LEN(text) == CONTEXT_TEXTS, "each has its place");
    memcpy(out_text, text, sizeof text);
}

struct pod_context *pod_context_clone(const struct pod_context *from)
{
    struct pod_context copy = *from;
    const char **text[CONTEXT_TEXTS];
    size_t bytes = sizeof copy;

    texts_of(&copy, text);
    for (size_t i = 0; i < CONTEXT_TEXTS; i++)
        bytes += *text[i] != NULL ? strlen(*text[i]) + 1 : 0;
    struct pod_context *context = xmalloc(bytes);
    char *at = (char *)(context + 1);
    *context = copy;
    context->bytes = (uint32_t)bytes;
    texts_of(context, text);
    for (size_t i = 0; i < CONTEXT_TEXTS; i++)
        if (*text[i] != NULL)
            *text[i] = text_lay(&at, *text[i]);
    must(at == (char *)context + bytes);
    return context;
}

struct pod_context *pod_context_new(const struct pod *pod)
{
    const bool bound = pod->node[0] != '\0';
    struct pod_context facts = {.scheduling = pod->scheduling, .owner = pod->owner};

    must((facts.owner.kind == NULL) == (facts.owner.name == NULL));
    /* The annotation is written by milligpud's Binding. */
    if (bound)
        facts.scheduling = (struct pod_scheduling){
            .scheduler = pod->annotation != NOTE_OK ? pod->scheduling.scheduler : NULL};
    if (bound && facts.owner.kind == NULL && facts.scheduling.scheduler == NULL)
        return NULL;
    return pod_context_clone(&facts);
}
