#include "milligpu/verify.h"

#include "ctl.h"

/* The result of a verification in the shape of doctor's answer: a list of checks. */
struct verify_answer {
    struct ctl *ctl;
    struct doc *checks;
};

static void take_check(void *user, enum store_check check, const char *wrong)
{
    const struct verify_answer *verifier = user;
    struct arena *arena = &verifier->ctl->arena;
    struct doc *item = doc_new(arena, DOC_OBJECT);

    must(verifier->checks != NULL);
    doc_set_str(arena, item, "name", store_check_name(check));
    doc_set_str(arena, item, "status", wrong == NULL ? "ok" : "failed");
    doc_set_str(arena, item, "text",
                wrong == NULL ? store_check_text(check) : arena_copy(arena, text_of(wrong)));
    doc_append(verifier->checks, item);
}

/*
 * A file that cannot be checked at all is wrong usage (2), one that fails a check is a finding (1).
 */
int command_verify(struct ctl *ctl)
{
    const char *file = ctl->options.argument[0];
    struct verify_answer verifier = {ctl, doc_new(&ctl->arena, DOC_ARRAY)};
    struct doc *answer = doc_new(&ctl->arena, DOC_OBJECT);
    struct err err;

    must(ctl->options.arguments == 1);
    if (store_verify_file(file, &verifier, take_check, &err) < 0)
        return ctl_misused(ctl, &err);
    doc_set_str(&ctl->arena, answer, "ledger", file);
    doc_set(&ctl->arena, answer, TEXT("checks"), verifier.checks);
    return show_doctor(ctl, answer);
}
