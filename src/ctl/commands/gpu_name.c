/*
 * Finds the GPU that an operator names. Called by cordon.c and command_history.c with a node from
 * milligpud. An id takes precedence over an index, and an index over a prefix of an id. An
 * ambiguous name is an error that lists its GPUs.
 */
#include "gpu_name.h"

#include <stdlib.h>
#include <string.h>

#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"

/* Limit of GPUs in an error. */
enum { NAMED_MAX = 8 };

static bool is_name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool node_name_is_valid(const char *name)
{
    const size_t len = strlen(name);

    if (len == 0 || len > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_name_letter(name[i]) && name[i] != '-' && name[i] != '.')
            return false;
    return is_name_letter(name[0]) && is_name_letter(name[len - 1]);
}

int node_name_check(const char *name, struct err *err)
{
    if (node_name_is_valid(name))
        return 0;
    return err_set(err, ERR_INVALID, "%.60s is no name of a node; `nodes` lists them",
                   name[0] != '\0' ? name : "\"\"");
}

bool gpu_name_is_index(const char *name)
{
    return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

static bool has_id(const struct document *gpu, const char *name)
{
    return strcmp(document_shown(gpu, "id"), name) == 0;
}

/* Ignores leading zeros; at most nine digits, so that nothing overflows. */
static bool has_index(const struct document *gpu, const char *name)
{
    return gpu_name_is_index(name) && strlen(name) <= 9 &&
           document_int(gpu, "index") == strtoll(name, NULL, 10);
}

static bool id_begins(const struct document *gpu, const char *name)
{
    return strlen(name) >= GPU_PREFIX_MIN && text_starts(text_of(document_shown(gpu, "id")), name);
}

typedef bool (*gpu_matches)(const struct document *gpu, const char *name);

/* "0 (GPU-1a2b), 1 (GPU-3c4d, absent)": the GPUs that match, or all. */
static void put_gpus(struct strbuf *out, const struct document *node, const char *name,
                     gpu_matches matches)
{
    size_t named = 0;

    document_each (gpu, document_get(node, "gpus")) {
        const char *state = document_shown(gpu, "state");
        if (matches != NULL && !matches(gpu, name))
            continue;
        if (named == NAMED_MAX) {
            strbuf_str(out, " and more");
            return;
        }
        strbuf_printf(out, "%s%lld (%.60s%s)", named++ > 0 ? ", " : "",
                      (long long)document_int(gpu, "index"), document_shown(gpu, "id"),
                      strcmp(state, "absent") == 0 ? ", absent" : "");
    }
}

/* True for a prefix that is too short, although kubectl and docker would accept it. */
static bool begins_too_short(const struct document *node, const char *name)
{
    document_each (gpu, document_get(node, "gpus"))
        if (strlen(name) < GPU_PREFIX_MIN && text_starts(text_of(document_shown(gpu, "id")), name))
            return true;
    return false;
}

static int refuse_gpu(const struct document *node, const char *name, gpu_matches matches,
                      struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf gpus;

    strbuf_init(&gpus);
    put_gpus(&gpus, node, name, matches);
    if (matches != NULL)
        return err_set(err, ERR_INVALID,
                       "%.60s means several GPUs of node %.100s, name one by its "
                       "id: %s",
                       name, document_shown(node, "name"), gpus.data);
    if (gpus.len == 0)
        return err_set(err, ERR_NOT_FOUND, "node %.100s has no GPU %.60s: it has none",
                       document_shown(node, "name"), name);
    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "the name of a GPU is empty; node %.100s has %s",
                       document_shown(node, "name"), gpus.data);
    if (begins_too_short(node, name))
        return err_set(err, ERR_INVALID,
                       "%.60s is too short for the beginning of an id, which needs %d letters; "
                       "node %.100s has %s",
                       name, GPU_PREFIX_MIN, document_shown(node, "name"), gpus.data);
    return err_set(err, ERR_NOT_FOUND, "node %.100s has no GPU %.60s; it has %s",
                   document_shown(node, "name"), name, gpus.data);
}

int gpu_name_find(const struct document *node, const char *name, const struct document **out,
                  struct err *err)
{
    static const gpu_matches ways[] = {has_id, has_index, id_begins};

    must(name != NULL);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        size_t found = 0;
        document_each (gpu, document_get(node, "gpus")) {
            if (!ways[i](gpu, name))
                continue;
            *out = gpu;
            found++;
        }
        if (found == 1)
            return 0;
        if (found > 1)
            return refuse_gpu(node, name, ways[i], err);
    }
    return refuse_gpu(node, name, NULL, err);
}
