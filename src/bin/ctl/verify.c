#include "milligpu/verify.h"

#include "ctl.h"

/* The answer of `verification`, in the shape of doctor's: a list of checks. */
struct verify_answer {
    struct ctl *ctl;
    struct value *checks;
};

static void take_check(void *user, enum store_check check, const char *wrong)
{
    const struct verify_answer *verifier = user;
    struct arena *arena = &verifier->ctl->arena;
    struct value *item = value_new(arena, VALUE_OBJECT);

    must(verifier->checks != NULL);
    value_set_str(arena, item, "name", store_check_name(check));
    value_set_str(arena, item, "status", wrong == NULL ? "ok" : "failed");
    value_set_str(arena, item, "text",
                  wrong == NULL ? store_check_text(check) : arena_copy(arena, text_of(wrong)));
    value_append(verifier->checks, item);
}

int command_verify(struct ctl *ctl)
{
    const char *file = ctl->options.argument[0];
    struct verify_answer verifier = {ctl, value_new(&ctl->arena, VALUE_ARRAY)};
    struct value *answer = value_new(&ctl->arena, VALUE_OBJECT);
    struct err err;

    must(ctl->options.arguments == 1);
    if (store_verify_file(file, &verifier, take_check, &err) < 0)
        return ctl_misused(ctl, &err);
    value_set_str(&ctl->arena, answer, "ledger", file);
    value_set(&ctl->arena, answer, "checks", verifier.checks);
    return show_doctor(ctl, answer);
}
