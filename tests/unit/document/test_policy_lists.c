/* Each text that lists the policies lists those of the table, in its order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/core/rules/policy_kind.h"

#include "support/document.h"
#include "support/test.h"

struct list {
    const char *file;
    const char *before;
    const char *quote; /* around each name */
    const char *after;
    bool baselines; /* all policies, or those that milligpud takes as they are */
};

static const struct list *list;

static void read_source(const char *file, struct strbuf *out)
{
    const char *source = getenv("MILLIGPU_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    char path[4096];
    char some[4096];
    size_t count;

    (void)snprintf(path, sizeof path, "%s/%s", source != NULL ? source : ".", file);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        fail_msg("%s cannot be read", path);
    while ((count = fread(some, 1, sizeof some, stream)) > 0)
        strbuf_text(out, (struct text){some, count});
    assert_int_equal(fclose(stream), 0);
}

/* The file, with the names of the table in place of those that it lists. */
static void write_list(struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf have;

    strbuf_init(&have);
    read_source(list->file, &have);
    const char *at = strstr(have.data, list->before);
    const char *end = at != NULL ? strstr(at, list->after) : NULL;
    if (end == NULL)
        fail_msg("%s: nothing between \"%s\" and \"%s\"", list->file, list->before, list->after);
    at += strlen(list->before);
    assert_null(strstr(at, list->before));
    strbuf_text(out, (struct text){have.data, (size_t)(at - have.data)});
    const char *comma = "";
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        if (!list->baselines && policy_served(kind) != kind)
            continue;
        strbuf_printf(out, "%s%s%s%s", comma, list->quote, policy_name(kind), list->quote);
        comma = ", ";
    }
    strbuf_text(out, text_of(end));
}

TEST(policy_lists__equal_the_table)
{
    static const struct list lists[] = {
        {"policy/policy.schema.json", "\"policy\": {\"enum\": [", "\"", "]", true},
        {"src/admin/schemas.json", "\"policy\": {\"type\": \"string\", \"enum\": [", "\"", "]",
         false},
        {"src/ctl/options.def", "policies, separated by commas: ", "", " (default: these)", true},
        {"include/milligpu/settings/settings.def", "the policy (policy/README.md): ", "",
         ", inference", false},
        {"bench/placement", "\nPOLICIES = (", "\"", ")", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        list = &lists[i];
        document_equals(list->file, write_list);
    }
}
