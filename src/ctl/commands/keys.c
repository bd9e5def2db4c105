/*
 * The commands keys, replace-key and revoke-key. milligpud shows its keys; kubectl writes requests
 * to replace or revoke one, as its user, to the ConfigMap of the public keys: its RBAC decides who
 * is permitted.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/annotations.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "ctl/kubectl.h"

static const struct table_column keys_columns[] = {
    {"KEY", 0}, {"STATE", 0}, {"PUBLISHED", 0}, {"PODS", COLUMN_RIGHT}, {"SINCE", COLUMN_RIGHT},
};

static void keys_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(keys_columns));
    table_text(table, document_shown(item, "id"));
    table_text(table, document_shown(item, "state"));
    table_text(table, document_true(item, "published") ? "yes" : "no");
    table_number(table, document_int(item, "pods"));
    if (document_get(item, "since") != NULL)
        table_age(table, document_shown(item, "since"));
    else
        table_text(table, "");
}

static void keys_name(struct strbuf *out, const struct document *item)
{
    strbuf_printf(out, "key/%s", document_shown(item, "id"));
}

int show_keys(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {
        keys_columns,
        ARRAY_LEN(keys_columns),
        keys_row,
        keys_name,
        "nothing is signed: milligpud is standalone",
    };
    const int status = ctl_show_list(ctl, list, &view);

    if (document_get(list, "trouble") != NULL)
        (void)fprintf(ctl->err, "The keys cannot change: %s\n", document_shown(list, "trouble"));
    return status;
}

int command_keys(struct ctl *ctl)
{
    struct document *list;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/keys", &list, &err) < 0)
        return ctl_fail(ctl, &err);
    return show_keys(ctl, list);
}

/* Chooses the signing key; an error if a next key is already waiting. */
static int choose_key(const struct document *list, const char **out, struct err *err)
{
    *out = "";
    document_each (key, document_get(list, "items")) {
        const char *state = document_shown(key, "state");
        if (strcmp(state, "next") == 0)
            return err_set(err, ERR_CONFLICT,
                           "key %.40s is next and does not sign yet: wait until it does, see "
                           "milligpuctl keys",
                           document_shown(key, "id"));
        if (strcmp(state, "signing") == 0)
            *out = document_shown(key, "id");
    }
    if ((*out)[0] == '\0')
        return err_set(err, ERR_NOT_FOUND, "no key signs: milligpud is standalone");
    return 0;
}

/* kubectl VERB configmap milligpu-keys --namespace NAMESPACE */
static void begin_change(const struct ctl *ctl, struct kubectl *kubectl, const char *verb,
                         const char *namespace)
{
    const char *const *given = ctl->options.given;

    must(verb[0] != '\0');
    kubectl_begin(kubectl, given[OPTION_context], given[OPTION_kubeconfig]);
    kubectl_add(kubectl, verb);
    kubectl_add(kubectl, "configmap");
    kubectl_add(kubectl, KEYS_CONFIGMAP);
    kubectl_add(kubectl, "--namespace");
    kubectl_add(kubectl, namespace);
}

static void annotate_keys(struct ctl *ctl, struct kubectl *kubectl, const char *namespace,
                          const char *id)
{
    must(id[0] != '\0');
    begin_change(ctl, kubectl, "annotate", namespace);
    kubectl_add(kubectl, arena_printf(&ctl->kept, ANNOTATION_REPLACE_KEY "=%s", id));
    kubectl_add(kubectl, "--overwrite");
}

/* Runs kubectl, or prints its command with --dry-run. */
static int change_keys(struct ctl *ctl, const struct kubectl *kubectl)
{
    CLEANUP(strbuf_done) struct strbuf said;
    struct err err;

    must(kubectl->n_words > 0);
    strbuf_init(&said);
    if (ctl->options.given[OPTION_dry_run] != NULL) {
        kubectl_print(ctl->screen.out, kubectl);
        return CTL_FINE;
    }
    if (kubectl_run(kubectl, &said, &err) < 0) {
        if (err.code == ERR_NOT_FOUND)
            kubectl_print(ctl->screen.out, kubectl);
        return ctl_fail(ctl, &err);
    }
    return CTL_FINE;
}

int command_replace_key(struct ctl *ctl)
{
    struct kubectl kubectl;
    const char *id;
    struct document *list;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/keys", &list, &err) < 0 || choose_key(list, &id, &err) < 0)
        return ctl_fail(ctl, &err);
    annotate_keys(ctl, &kubectl, document_shown(list, "namespace"), id);
    const int status = change_keys(ctl, &kubectl);
    if (status == CTL_FINE && ctl->options.given[OPTION_dry_run] == NULL)
        (void)fprintf(ctl->screen.out,
                      "key %s is to be replaced: milligpud makes the next one within a minute\n",
                      id);
    return status;
}

/* --- revoking --- */

/* Finds a key that no longer signs, or one that is not of this milligpud. */
static int find_revocable(const struct document *list, const char *id, const struct document **out,
                          struct err *err)
{
    const struct document *found = NULL;

    document_each (key, document_get(list, "items"))
        if (strcmp(document_shown(key, "id"), id) == 0)
            found = key;
    if (found == NULL)
        return err_set(err, ERR_NOT_FOUND,
                       "milligpud has seen no key %.40s in the ConfigMap; milligpuctl keys shows "
                       "all, within a minute of a change",
                       id);
    const char *state = document_shown(found, "state");
    if (strcmp(state, "signing") == 0)
        return err_set(err, ERR_CONFLICT,
                       "key %s signs: run milligpuctl replace-key first, and revoke this key once "
                       "milligpuctl keys shows it as retiring",
                       id);
    if (strcmp(state, "next") == 0)
        return err_set(err, ERR_CONFLICT,
                       "key %s is next: wait until milligpuctl keys shows that it signs, then run "
                       "milligpuctl replace-key, and revoke this key once it is retiring",
                       id);
    *out = found;
    return 0;
}

static void say_cost(FILE *out, const struct document *key)
{
    const long long pods = (long long)document_int(key, "pods");
    const char *state = document_shown(key, "state");
    const bool other = strcmp(state, "other") == 0;
    /* Some signatures by a retiring key are not verified. */
    const bool at_most = pods > 0 && (other || strcmp(state, "retiring") == 0);

    must(pods >= 0);
    (void)fprintf(out, "key %s: %s%lld running pod%s will not restart containers without it\n",
                  document_shown(key, "id"), at_most ? "up to " : "", pods, pods == 1 ? "" : "s");
    if (other)
        (void)fprintf(out,
                      "It is not one of this milligpud's keys: pods of another one may need it.\n");
}

/* One merge patch removes the key and marks it as revoked, so that it is not published again. */
static void patch_keys(struct ctl *ctl, struct kubectl *kubectl, const char *namespace,
                       const char *id)
{
    must(id[0] != '\0');
    begin_change(ctl, kubectl, "patch", namespace);
    kubectl_add(kubectl, "--type=merge");
    kubectl_add(kubectl, "--patch");
    kubectl_add(kubectl, arena_printf(&ctl->kept,
                                      "{\"metadata\":{\"annotations\":{\"" ANNOTATION_REVOKED_KEY
                                      "%s\":\"true\"}},\"data\":{\"%s\":null}}",
                                      id, id));
}

int command_revoke_key(struct ctl *ctl)
{
    const char *id = ctl->options.argument[0];
    const struct document *key = NULL;
    struct kubectl kubectl;
    struct document *list;
    struct err err;

    must(id != NULL);
    if (ctl_get(ctl, "/api/v1/keys", &list, &err) < 0 || find_revocable(list, id, &key, &err) < 0)
        return ctl_fail(ctl, &err);
    /* With --dry-run, standard output has only the command. */
    say_cost(ctl->options.given[OPTION_dry_run] != NULL ? ctl->err : ctl->screen.out, key);
    patch_keys(ctl, &kubectl, document_shown(list, "namespace"), document_shown(key, "id"));
    if (ctl->options.given[OPTION_yes] == NULL && ctl->options.given[OPTION_dry_run] == NULL) {
        (void)fprintf(ctl->screen.out, "Nothing is changed; to revoke it, add --yes.\n");
        return CTL_FINE;
    }
    const int status = change_keys(ctl, &kubectl);
    if (status == CTL_FINE && ctl->options.given[OPTION_dry_run] == NULL)
        (void)fprintf(ctl->screen.out,
                      "key %s is revoked: agents trust it no more within two minutes\n",
                      document_shown(key, "id"));
    return status;
}
