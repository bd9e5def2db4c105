/*
 * Resolves a word to a policy: a bare policy, a ready policy that is built in, or a file. Called at
 * start, at a reload, and by the command line.
 */
#include <string.h>

#include "milligpu/base/alloc.h"

#include "policy_reader.h"

/* policy/<name>.yaml, embedded. */
extern const char document_inference_yaml[];
extern const char document_mixed_yaml[];
extern const char document_training_yaml[];

bool policy_ready(size_t at, struct policy_ready *out)
{
    const struct policy_ready ready[] = {
        {"inference", text_of(document_inference_yaml)},
        {"mixed", text_of(document_mixed_yaml)},
        {"training", text_of(document_training_yaml)},
    };

    must(out != NULL);
    if (at >= ARRAY_LEN(ready))
        return false;
    *out = ready[at];
    return true;
}

const char *policy_document_find(struct text name)
{
    struct policy_ready ready;

    must(name.at != NULL || name.len == 0);
    for (size_t i = 0; policy_ready(i, &ready); i++)
        if (text_is(name, ready.name))
            return ready.bytes.at;
    return NULL;
}

static bool ends_in(const char *word, const char *end)
{
    const size_t len = strlen(word);
    const size_t tail = strlen(end);

    must(tail > 0);
    return len > tail && strcmp(word + len - tail, end) == 0;
}

bool policy_is_path(const char *word)
{
    must(word != NULL);
    return strchr(word, '/') != NULL || ends_in(word, ".yaml") || ends_in(word, ".yml") ||
           ends_in(word, ".json");
}

static int unknown_policy(const char *word, const struct policy_edges *edges, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf known;
    struct policy_ready ready;
    const char *comma = "";
    char shown[64];

    strbuf_init(&known);
    text_clip(text_of(word), shown, sizeof shown);
    for (size_t i = 0; policy_ready(i, &ready); i++)
        strbuf_printf(&known, "%s, ", ready.name);
    for (enum policy_kind kind = 0; kind < POLICIES; kind++) {
        if (policy_is_replaced(edges, kind))
            continue;
        strbuf_printf(&known, "%s%s", comma, policy_name(kind));
        comma = ", ";
    }
    must(known.len > 0);
    return err_set(err, ERR_INVALID,
                   "there is no policy \"%s\"; there are %s, and files, whose names contain '/' or "
                   "end in .yaml",
                   shown, known.data);
}

int policy_keep_document(struct text bytes, const char *file, const struct policy_edges *edges,
                         struct rulebook **out, struct strbuf *warnings, struct err *err)
{
    if (policy_document_read(bytes, file, edges, out, warnings, err) < 0)
        return err_same(err);
    struct rulebook *book = *out;
    must(bytes.len <= POLICY_BYTES_MAX && book->document.len == 0);
    book->document = (struct text){arena_copy(&book->arena, bytes), bytes.len};
    return 0;
}

int policy_choose(const char *word, const struct policy_edges *edges, struct rulebook **out,
                  struct strbuf *warnings, struct err *err)
{
    CLEANUP(xfreep) char *bytes = NULL;
    enum policy_kind kind;
    size_t len = 0;

    must(word != NULL && edges->read_file != NULL);
    if (policy_is_path(word)) {
        if (edges->read_file(word, POLICY_BYTES_MAX, &bytes, &len, err) < 0)
            return err_same(err);
        return policy_keep_document((struct text){bytes, len}, word, edges, out, warnings, err);
    }
    if (policy_of_name(text_of(word), &kind)) {
        if (policy_is_replaced(edges, kind)) {
            strbuf_printf(warnings, POLICY_REPLACED "\n", word, policy_name(policy_served(kind)));
            kind = policy_served(kind);
        }
        *out = rulebook_new(kind, policy_name(kind));
        return 0;
    }
    const char *ready = policy_document_find(text_of(word));
    if (ready == NULL)
        return unknown_policy(word, edges, err);
    return policy_document_read(text_of(ready), word, edges, out, warnings, err);
}
