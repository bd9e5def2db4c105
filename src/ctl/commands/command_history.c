/*
 * The command history: determines whether the argument is a GPU or a pod; lists.c shows the table.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/wire/kube/wire_kube.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "gpu_name.h"

/* --- whose history --- */

struct history_question {
    struct ctl *ctl;
    const char *argument;
    const char *at; /* RFC 3339; NULL for the whole history */
};

static int history_ask_server(const struct history_question *question, const char *key,
                              const char *value, struct document **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;

    must(value != NULL);
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/history");
    url_query(&path, key, value);
    url_query(&path, "at", question->at);
    return ctl_list(question->ctl, path.data, out, err);
}

static int ask_for_pod(const struct history_question *question, struct document **out,
                       struct err *err)
{
    struct pod_name pod;

    must(question->argument != NULL);
    if (ctl_pod_name(question->ctl, question->argument, &pod, err) < 0)
        return err_same(err);
    return history_ask_server(question, "pod",
                              arena_printf(&question->ctl->arena, "%s/%s", pod.namespace, pod.name),
                              out, err);
}

static bool history_is_empty(const struct document *list)
{
    const struct document *items = document_get(list, "items");

    must(list != NULL);
    return items == NULL || items->count == 0;
}

static bool node_has(const struct document *node, const char *gpu)
{
    document_each (item, document_get(node, "gpus")) {
        const char *id = document_shown(item, "id");
        const char *name = document_shown(node, "name");
        const size_t length = strlen(name);
        if (strcmp(id, gpu) == 0 || (strncmp(gpu, name, length) == 0 && gpu[length] == '/' &&
                                     strcmp(gpu + length + 1, id) == 0))
            return true;
    }
    return false;
}

/*
 * True if the GPU or pod exists without a history; then the answer is an empty history and no
 * error. Errors count as "no": the history itself could be read, so the server is reachable.
 */
static bool history_exists(const struct history_question *question, bool as_gpu, bool as_pod)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct pod_name pod;
    struct document *found;
    struct err ignored;

    must(as_gpu || as_pod);
    strbuf_init(&path);
    if (as_gpu && ctl_list(question->ctl, "/api/v1/nodes", &found, &ignored) == 0)
        document_each (node, document_get(found, "items"))
            if (node_has(node, question->argument))
                return true;
    if (!as_pod || ctl_pod_name(question->ctl, question->argument, &pod, &ignored) < 0)
        return false;
    strbuf_str(&path, "/api/v1/pods/");
    url_escape(&path, pod.namespace);
    strbuf_char(&path, '/');
    url_escape(&path, pod.name);
    return ctl_get(question->ctl, path.data, &found, &ignored) == 0;
}

/*
 * Replaces NODE/INDEX by the id of the GPU that has the index now, as the history has only ids.
 * Unchanged without such a node: it is possibly a pod whose name is a number.
 */
static int resolve_index(struct history_question *question, struct err *err)
{
    struct ctl *ctl = question->ctl;
    const char *slash = strrchr(question->argument, '/');
    CLEANUP(strbuf_done) struct strbuf path;
    struct document *node;
    const struct document *gpu;

    strbuf_init(&path);
    if (slash == NULL || !gpu_name_is_index(slash + 1))
        return 0;
    const char *name = arena_copy(
        &ctl->kept, text_first(text_of(question->argument), (size_t)(slash - question->argument)));
    if (!node_name_is_valid(name))
        return 0;
    strbuf_str(&path, "/api/v1/nodes/");
    url_escape(&path, name);
    const int status = ctl_get(ctl, path.data, &node, err);
    if (status < 0)
        return err->code == ERR_NOT_FOUND ? 0 : status;
    if (gpu_name_find(node, slash + 1, &gpu, err) < 0)
        return err_same(err);
    question->argument = arena_copy(&ctl->kept, text_of(document_shown(gpu, "id")));
    (void)fprintf(ctl->err, "milligpuctl: GPU %s of node %s is %s now\n", slash + 1, name,
                  question->argument);
    return 0;
}

/*
 * Looks for a GPU, then for a pod, unless an option selects one. The id of a GPU such as "n1/gpu-0"
 * also has the form of a pod's name, so only the history distinguishes them.
 */
static int history_find(const struct history_question *question, struct document **out,
                        struct err *err)
{
    const char *const *given = question->ctl->options.given;
    const bool as_gpu = given[OPTION_pod] == NULL && given[OPTION_namespace] == NULL;
    const bool as_pod = given[OPTION_gpu] == NULL;
    struct pod_name pod;
    struct err ignored;

    must(as_gpu || as_pod || given[OPTION_namespace] != NULL);
    if (as_gpu || !as_pod) {
        if (history_ask_server(question, "gpu", question->argument, out, err) < 0)
            return err_same(err);
        if (!history_is_empty(*out) || !as_pod)
            return 0;
    }
    /* Keeps the answer for the GPU if its name is not a valid pod name. */
    if (as_gpu && (ctl_pod_name(question->ctl, question->argument, &pod, &ignored) < 0 ||
                   !node_name_is_valid(pod.name)))
        return 0;
    return ask_for_pod(question, out, err);
}

/* Names the GPU and the pod that were searched, to show a forgotten namespace. */
static int fail_unknown(struct ctl *ctl, const char *argument)
{
    const char *const *given = ctl->options.given;
    const bool only_gpu = given[OPTION_gpu] != NULL;
    const bool only_pod = given[OPTION_pod] != NULL || given[OPTION_namespace] != NULL;
    struct pod_name pod;
    struct err err;

    if (!only_gpu && strchr(argument, '/') == NULL && ctl_pod_name(ctl, argument, &pod, &err) == 0)
        (void)err_set(&err, ERR_NOT_FOUND,
                      "%s %.200s in namespace %.100s is known, now or in the past",
                      only_pod ? "no pod" : "no GPU and no pod", argument, pod.namespace);
    else
        (void)err_set(&err, ERR_NOT_FOUND, "%s %.200s is known, now or in the past",
                      only_gpu   ? "no GPU"
                      : only_pod ? "no pod"
                                 : "no GPU and no pod",
                      argument);
    return ctl_fail(ctl, &err);
}

/* With --at, an empty answer is no error: there was no holder at that time. */
int command_history(struct ctl *ctl)
{
    const char *const *given = ctl->options.given;
    struct history_question question = {.ctl = ctl, .argument = ctl->options.argument[0]};
    char at[AGE_BYTES + 32];
    struct document *list = NULL;
    struct err err;

    must(ctl->options.n_arguments == 1);
    if (given[OPTION_gpu] != NULL && given[OPTION_pod] != NULL) {
        (void)err_set(&err, ERR_INVALID, "--gpu and --pod contradict each other");
        return ctl_misused(ctl, &err);
    }
    if (given[OPTION_at] != NULL) {
        at_format(given[OPTION_at], ctl->screen.now_ms, at);
        question.at = at;
        if (at[0] == '\0') {
            (void)at_refuse(ctl, OPTION_at, &err);
            return ctl_misused(ctl, &err);
        }
    }
    if (question.argument[0] == '\0') {
        (void)err_set(&err, ERR_INVALID, "the argument is empty: it is a GPU or a pod");
        return ctl_misused(ctl, &err);
    }
    if (given[OPTION_pod] == NULL && given[OPTION_namespace] == NULL &&
        resolve_index(&question, &err) < 0)
        return ctl_fail(ctl, &err);
    if (history_find(&question, &list, &err) < 0)
        return ctl_fail(ctl, &err);
    if (history_is_empty(list) && question.at == NULL &&
        !history_exists(&question, given[OPTION_pod] == NULL, given[OPTION_gpu] == NULL))
        return fail_unknown(ctl, question.argument);
    return show_history(ctl, list);
}
