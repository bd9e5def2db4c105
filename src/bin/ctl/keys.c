/*
 * The commands keys and replace-key. milligpud shows its keys; that one of them is to be replaced
 * kubectl writes, as the user that it is, because whoever may write the ConfigMap of the public
 * keys may say so.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/annotations.h"

#include "ctl.h"
#include "kubectl.h"

static const struct table_column keys_columns[] = {
    {"KEY", 0}, {"STATE", 0}, {"PUBLISHED", 0}, {"PODS", COLUMN_RIGHT}, {"SINCE", COLUMN_RIGHT},
};

static void keys_row(struct table *table, const struct doc *item)
{
    must(table->columns == ARRAY_LEN(keys_columns));
    table_text(table, doc_shown(item, "id"));
    table_text(table, doc_shown(item, "state"));
    table_text(table, doc_true(item, "published") ? "yes" : "no");
    table_number(table, doc_int(item, "pods"));
    table_age(table, doc_shown(item, "since"));
}

static void keys_name(struct strbuf *out, const struct doc *item)
{
    strbuf_printf(out, "key/%s", doc_shown(item, "id"));
}

int show_keys(struct ctl *ctl, const struct doc *list)
{
    static const struct list_view view = {
        keys_columns,
        ARRAY_LEN(keys_columns),
        keys_row,
        keys_name,
        "nothing is signed: milligpud is standalone",
    };
    const int status = ctl_show_list(ctl, list, &view);

    if (doc_get(list, "trouble") != NULL)
        (void)fprintf(ctl->err, "The keys cannot change: %s\n", doc_shown(list, "trouble"));
    return status;
}

int command_keys(struct ctl *ctl)
{
    struct doc *list;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/keys", &list, &err) < 0)
        return ctl_fail(ctl, &err);
    return show_keys(ctl, list);
}

/* The one that signs is the first; an error if a next one waits already. */
static int choose_key(const struct doc *list, const char **out, struct err *err)
{
    *out = "";
    doc_each (key, doc_get(list, "items")) {
        const char *state = doc_shown(key, "state");
        if (strcmp(state, "next") == 0)
            return err_set(err, ERR_CONFLICT,
                           "key %.40s is next and does not sign yet: wait until it does, see "
                           "milligpuctl keys",
                           doc_shown(key, "id"));
        if (strcmp(state, "signing") == 0)
            *out = doc_shown(key, "id");
    }
    if ((*out)[0] == '\0')
        return err_set(err, ERR_NOT_FOUND, "no key signs: milligpud is standalone");
    return 0;
}

static void annotate_keys(struct ctl *ctl, struct kubectl *kubectl, const char *namespace,
                          const char *id)
{
    const char *const *given = ctl->options.given;

    must(id[0] != '\0');
    kubectl_begin(kubectl, given[OPTION_context], given[OPTION_kubeconfig]);
    kubectl_add(kubectl, "annotate");
    kubectl_add(kubectl, "configmap");
    kubectl_add(kubectl, KEYS_CONFIGMAP);
    kubectl_add(kubectl, "--namespace");
    kubectl_add(kubectl, namespace);
    kubectl_add(kubectl, arena_printf(&ctl->kept, ANNOTATION_REPLACE_KEY "=%s", id));
    kubectl_add(kubectl, "--overwrite");
}

int command_replace_key(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf said;
    struct kubectl kubectl;
    const char *id;
    struct doc *list;
    struct err err;

    must(ctl->options.command != NULL);
    strbuf_init(&said);
    if (ctl_get(ctl, "/api/v1/keys", &list, &err) < 0 || choose_key(list, &id, &err) < 0)
        return ctl_fail(ctl, &err);
    annotate_keys(ctl, &kubectl, doc_shown(list, "namespace"), id);
    if (ctl->options.given[OPTION_dry_run] != NULL) {
        kubectl_print(ctl->screen.out, &kubectl);
        return CTL_FINE;
    }
    if (kubectl_run(&kubectl, &said, &err) < 0) {
        if (err.code == ERR_NOT_FOUND)
            kubectl_print(ctl->screen.out, &kubectl);
        return ctl_fail(ctl, &err);
    }
    (void)fprintf(ctl->screen.out,
                  "key %s is to be replaced: milligpud makes the next one within a minute\n", id);
    return CTL_FINE;
}
