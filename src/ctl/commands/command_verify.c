/* The commands verify and restore, which work on a ledger file without milligpud. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "milligpu/base/alloc.h"
#include "milligpu/store/verify.h"

#include "backup_folder.h"
#include "ctl/commands.h"

/* The result of a verification in the form of doctor's answer: a list of checks. */
struct verification {
    struct ctl *ctl;
    struct document *checks;
};

static void take_check(void *user, enum store_check check, const char *wrong)
{
    const struct verification *verifier = user;
    struct arena *arena = &verifier->ctl->arena;
    struct document *item = document_new(arena, DOCUMENT_OBJECT);

    must(verifier->checks != NULL);
    document_set_str(arena, item, "name", store_check_name(check));
    document_set_str(arena, item, "status", wrong == NULL ? "ok" : "failed");
    document_set_str(arena, item, "text",
                     wrong == NULL ? store_check_text(check) : arena_copy(arena, text_of(wrong)));
    document_append(verifier->checks, item);
}

static int verify_answer(struct ctl *ctl, const char *file, struct document **out, struct err *err)
{
    struct verification verifier = {ctl, document_new(&ctl->arena, DOCUMENT_ARRAY)};

    if (store_verify_file(file, &verifier, take_check, err) < 0)
        return err_same(err);
    *out = document_new(&ctl->arena, DOCUMENT_OBJECT);
    document_set_str(&ctl->arena, *out, "ledger", file);
    document_set(&ctl->arena, *out, TEXT("checks"), verifier.checks);
    return 0;
}

/* A file that cannot be checked is wrong usage (2); a failed check is a finding (1). */
int command_verify(struct ctl *ctl)
{
    struct document *answer = NULL;
    struct err err;

    must(ctl->options.n_arguments == 1);
    if (verify_answer(ctl, ctl->options.argument[0], &answer, &err) < 0)
        return ctl_misused(ctl, &err);
    return show_doctor(ctl, answer);
}

/* For a folder, uses the newest backup in it. */
static int name_backup(struct ctl *ctl, const char **out, struct err *err)
{
    const char *argument = ctl->options.argument[0];
    struct stat st;

    must(argument != NULL);
    *out = argument;
    if (stat(argument, &st) != 0 || !S_ISDIR(st.st_mode))
        return 0; /* errors of the file are reported by the verification */
    return backup_folder_newest(ctl, argument, out, err);
}

/* Changes nothing unless the backup passes every check. */
int command_restore(struct ctl *ctl)
{
    const char *backup;
    const char *ledger = ctl->options.argument[1];
    struct restored restored = {NULL};
    struct document *answer = NULL;
    struct err err;

    must(ctl->options.n_arguments == 2);
    if (name_backup(ctl, &backup, &err) < 0 || verify_answer(ctl, backup, &answer, &err) < 0)
        return ctl_misused(ctl, &err);
    const int status = show_doctor(ctl, answer);
    if (status != CTL_FINE)
        return status;
    const int failed = store_restore(backup, ledger, &restored, &err);
    CLEANUP(xfreep) char *aside = restored.aside;
    if (failed != 0)
        return ctl_fail(ctl, &err);
    (void)fprintf(stderr,
                  "%s: restored from %s; the former ledger is kept as %s. Start milligpud: it "
                  "grants after the grace period (grace_period_s).\n",
                  ledger, backup, aside);
    return CTL_FINE;
}
