/*
 * Filters that lists of REST share. Called by handlers in an admin thread. A filter is applied
 * before an item is added to a list, so pages are as long as the limit allows, and the next one
 * continues behind the last match. An invalid filter is a 400 that names it.
 */
#include <string.h>

#include "milligpu/base/strbuf.h"

#include "api_internal.h"

bool api_is_wanted(const char *filter, const char *value)
{
    must(value != NULL);
    return filter == NULL || strcmp(filter, value) == 0;
}

bool api_model_filter(struct api_call *call, struct model_filter *out)
{
    const char *given = call->value[PARAMETER_model];

    must(call->status < 400);
    *out = (struct model_filter){.given = given != NULL};
    if (given == NULL)
        return true;
    const char *fault = request_read_models(text_of(given), &call->arena, &out->models);
    if (fault != NULL)
        api_fail(call, 400,
                 "model is \"%.60s\", which %s: it is a list of names or globs, such as "
                 "A100-SXM4-80GB,H100*",
                 given, fault);
    return fault == NULL;
}

bool api_model_taken(const struct model_filter *filter, const struct atom *model)
{
    must(model != NULL);
    return !filter->given || request_takes_model(&filter->models, atom_text(model));
}
