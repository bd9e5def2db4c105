/*
 * The options that filter lists: --node, --namespace, --model, --state, --idle. Called by the
 * commands that list, by top and by completion, in the only thread.
 */
#include <string.h>

#include "milligpu/wire/admin/wire_admin.h"

#include "ctl.h"

const char *ctl_state_word(const struct ctl_command *command, size_t at)
{
    static const char *const waiting[] = {"refused", "offered"};

    must(option_is_of(OPTION_state, command));
    if (strcmp(command->name, "waiting") == 0)
        return at < ARRAY_LEN(waiting) ? waiting[at] : NULL;
    if (strcmp(command->name, "allocations") == 0)
        return at <= STATE_RELEASED ? allocation_state_name((enum allocation_state)at) : NULL;
    return admin_node_filter(at);
}

int ctl_check_filters(struct ctl *ctl, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf known;
    const char *const *given = ctl->options.given;
    const char *state = given[OPTION_state];
    const char *fault = NULL;
    const char *next;
    struct request models = {0};

    strbuf_init(&known);
    if (ctl_check_selector(ctl, err) < 0)
        return err_same(err);
    if (given[OPTION_model] != NULL)
        fault = request_read_models(text_of(given[OPTION_model]), &ctl->arena, &models);
    if (fault != NULL)
        return err_set(err, ERR_INVALID, "--model %.60s %s; write names or globs: A100*,H100*",
                       given[OPTION_model], fault);
    int64_t idle_ms; /* unused: only the syntax is checked */
    if (at_read(ctl, OPTION_idle, &idle_ms, err) < 0)
        return err_same(err);
    if (given[OPTION_namespace] != NULL && given[OPTION_all_namespaces] != NULL)
        return err_set(err, ERR_INVALID, "--namespace and --all-namespaces contradict each other");
    for (size_t i = 0; state != NULL && (next = ctl_state_word(ctl->options.command, i)) != NULL;
         i++) {
        if (strcmp(state, next) == 0)
            return 0;
        strbuf_printf(&known, "%s%s", i > 0 ? ", " : "", next);
    }
    must((state == NULL) == (known.len == 0));
    return state == NULL
               ? 0
               : err_set(err, ERR_INVALID, "--state is %.60s: it is one of %s", state, known.data);
}

void ctl_add_filters(const struct ctl *ctl, struct strbuf *path)
{
    const char *const *given = ctl->options.given;

    must(path->len > 0);
    url_query(path, "node", given[OPTION_node]);
    url_query(path, "namespace", given[OPTION_namespace]);
    url_query(path, "state", given[OPTION_state]);
    url_query(path, "model", given[OPTION_model]);
    if (given[OPTION_idle] != NULL) { /* already checked */
        char since[AGE_BYTES + 32];
        at_format(given[OPTION_idle], ctl->screen.now_ms, since);
        url_query(path, "idleSince", since);
    }
}
