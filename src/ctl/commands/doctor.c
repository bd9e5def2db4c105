/*
 * The commands doctor and check-config. show_doctor() also shows the result of verify, which has
 * the same form.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/settings/settings.h"

#include "ctl/commands.h"
#include "ctl/kubectl.h"
#include "ctl/policies.h"
#include "doctor_nodes.h"

enum { TEXT_BEGIN = 21 };               /* column of the texts of checks */
enum { OBJECTS_BYTES_MAX = 512 << 20 }; /* enough for 15,000 Nodes with kubelet's status */

/* --- doctor --- */

struct look {
    const char *word;
    const char *color;
};

/* An unknown status (from a newer milligpud) counts as failed. */
static struct look look_of(const struct screen *screen, const char *status)
{
    must(screen->out != NULL);
    if (strcmp(status, "ok") == 0)
        return (struct look){"ok", screen->colors ? "\033[32m" : ""};
    if (strcmp(status, "warning") == 0)
        return (struct look){"WARNING", screen->colors ? "\033[33m" : ""};
    return (struct look){"FAILED", screen->colors ? "\033[31m" : ""};
}

static void doctor_put_check(const struct ctl *ctl, const struct document *check)
{
    FILE *out = ctl->screen.out;
    const struct look look = look_of(&ctl->screen, document_shown(check, "status"));
    const char *fix = document_shown(check, "fix");

    must(check != NULL);
    (void)fprintf(out, "%s%-7s%s  %-10s  ", look.color, look.word,
                  look.color[0] != '\0' ? "\033[0m" : "", document_shown(check, "name"));
    text_fill(&ctl->screen, document_shown(check, "text"), TEXT_BEGIN, TEXT_BEGIN);
    if (fix[0] == '\0')
        return;
    (void)fprintf(out, "%*sdo: ", TEXT_BEGIN, ""); /* errors are checked in ctl_finish() */
    text_fill(&ctl->screen, fix, TEXT_BEGIN + strlen("do: "), TEXT_BEGIN + strlen("do: "));
}

/*
 * Warnings do not change the exit status, so that scripts can alert on failures only. An answer
 * without checks is a failure.
 */
int show_doctor(struct ctl *ctl, const struct document *doctor)
{
    const struct document *checks = document_get(doctor, "checks");
    bool failed = checks == NULL || checks->count == 0;
    const bool document = ctl_document(ctl, doctor);

    must(doctor != NULL);
    document_each (check, checks) {
        if (strcmp(document_shown(check, "status"), "ok") != 0 &&
            strcmp(document_shown(check, "status"), "warning") != 0)
            failed = true;
        if (ctl->format == FORMAT_NAME)
            (void)fprintf(ctl->screen.out, "check/%s\n", document_shown(check, "name"));
        else if (!document)
            doctor_put_check(ctl, check);
    }
    return failed ? CTL_NO : CTL_FINE;
}

/* A missing answer becomes a finding. */
static struct document *not_reached(struct ctl *ctl, const struct err *err)
{
    struct document *doctor = document_new(&ctl->arena, DOCUMENT_OBJECT);
    struct document *checks = document_new(&ctl->arena, DOCUMENT_ARRAY);
    struct document *check = document_new(&ctl->arena, DOCUMENT_OBJECT);

    must(err->text[0] != '\0');
    document_set_str(&ctl->arena, check, "name", "daemon");
    document_set_str(&ctl->arena, check, "status", "failed");
    document_set_str(&ctl->arena, check, "text", err->text);
    document_set_str(&ctl->arena, check, "fix",
                     "start milligpud, or say where its admin listener is: --server ADDRESS");
    document_append(checks, check);
    document_set(&ctl->arena, doctor, TEXT("checks"), checks);
    return doctor;
}

/* Reads all objects of one kind with kubectl. */
static int ask_objects(struct ctl *ctl, const char *kind, const char *selector,
                       struct document **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf said;
    const char *const *given = ctl->options.given;
    struct kubectl kubectl;

    must(kind[0] != '\0');
    strbuf_init(&said);
    kubectl_begin(&kubectl, given[OPTION_context], given[OPTION_kubeconfig]);
    kubectl.said_max = OBJECTS_BYTES_MAX;
    kubectl_add(&kubectl, "get");
    kubectl_add(&kubectl, kind);
    kubectl_add(&kubectl, "--all-namespaces");
    kubectl_add(&kubectl, "--output=json");
    if (selector != NULL)
        kubectl_add(&kubectl, selector);
    if (kubectl_run(&kubectl, &said, err) < 0)
        return err_same(err);
    const char *kept = arena_copy(&ctl->arena, (struct text){said.data, said.len});
    return document_parse_json((struct text){kept, said.len}, kind, &ctl->arena, out, err);
}

/* milligpud has no data about agents' pods; kubectl reads them from the API server. */
static int doctor_of_nodes(struct ctl *ctl)
{
    struct document *doctor = document_new(&ctl->arena, DOCUMENT_OBJECT);
    struct document *nodes = NULL;
    struct document *pods = NULL;
    struct err err;

    must(ctl->options.given[OPTION_node_checks] != NULL);
    if (ask_objects(ctl, "nodes", NULL, &nodes, &err) < 0 ||
        ask_objects(ctl, "pods",
                    "--selector=app.kubernetes.io/name=milligpu,app.kubernetes.io/component=node",
                    &pods, &err) < 0)
        return ctl_fail(ctl, &err);
    document_set(&ctl->arena, doctor, TEXT("checks"), doctor_nodes(nodes, pods, &ctl->arena));
    return show_doctor(ctl, doctor);
}

int command_doctor(struct ctl *ctl)
{
    struct document *doctor;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl->options.given[OPTION_node_checks] != NULL)
        return doctor_of_nodes(ctl);
    if (ctl_get(ctl, "/api/v1/doctor", &doctor, &err) < 0)
        doctor = not_reached(ctl, &err);
    return show_doctor(ctl, doctor);
}

/* --- check-config --- */

/* A policy document is a file of milligpud's machine; check-policy checks it. */
static int check_policy_word(const char *word, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book = NULL;

    strbuf_init(&warnings);
    if (policy_is_path(word))
        return 0;
    const int rc = policies_choose(word, &book, &warnings, err);
    rulebook_unref(book);
    return rc < 0 ? err_wrap(err, "policy") : 0;
}

int command_check_config(struct ctl *ctl)
{
    const char *file = ctl->options.argument[0];
    struct settings_set *set;
    struct err err;

    must(ctl->options.n_arguments == 1);
    if (settings_check_file(file, &set, &err) < 0)
        return ctl_fail(ctl, &err);
    const int rc = check_policy_word(settings_get(set)->policy, &err);
    settings_free(set);
    if (rc < 0)
        return ctl_fail(ctl, &err);
    (void)fprintf(ctl->screen.out, "%s: the settings are fine\n", file);
    return CTL_FINE;
}
