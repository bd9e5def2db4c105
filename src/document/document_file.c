/*
 * Parses a file as JSON or YAML, by its first character. Called by the readers of policy documents
 * and of the agent's CDI specs, on their thread.
 */
#include <string.h>

#include "document_internal.h"

static bool begins_as_json(struct text bytes)
{
    size_t at = 0;

    while (at < bytes.len && strchr(" \t\r\n", bytes.at[at]) != NULL && bytes.at[at] != '\0')
        at++;
    must(at <= bytes.len);
    return at < bytes.len && bytes.at[at] == '{';
}

int document_parse_file(struct text bytes, const char *file, struct arena *arena,
                        struct document **out, struct err *err)
{
    struct document_fault fault = {.at = {.line = 1, .column = 1}};
    struct document *documents = document_new(arena, DOCUMENT_ARRAY);
    struct document *only = NULL;
    int rc;

    must(file[0] != '\0');
    if (begins_as_json(bytes)) {
        rc = document_json_parse(bytes, "JSON", arena, &only, &fault.at, err);
        if (rc == 0)
            document_append(documents, only);
    } else {
        rc = document_yaml_parse(bytes, arena, &documents, &fault, err);
    }
    if (rc < 0)
        return err_wrap(err, "%.200s:%u:%u", file, fault.at.line, fault.at.column);
    *out = documents;
    return 0;
}
