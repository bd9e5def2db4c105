#include <stdio.h>
#include <string.h>

#include "milligpu/settings.h"

#include "ctl.h"

/* --- doctor --- */

struct look {
    const char *word;
    const char *color;
};

static struct look look_of(const struct screen *screen, const char *status)
{
    must(screen->out != NULL);
    if (strcmp(status, "ok") == 0)
        return (struct look){"ok", screen->colors ? "\033[32m" : ""};
    if (strcmp(status, "warning") == 0)
        return (struct look){"WARNING", screen->colors ? "\033[33m" : ""};
    return (struct look){"FAILED", screen->colors ? "\033[31m" : ""};
}

static void put_check(const struct ctl *ctl, const struct value *check)
{
    FILE *out = ctl->screen.out;
    const struct look look = look_of(&ctl->screen, value_str(check, "status"));
    const char *fix = value_str(check, "fix");

    must(check != NULL);
    (void)fprintf(out, "%s%-7s%s  %-10s  ", look.color, look.word,
                  look.color[0] != '\0' ? "\033[0m" : "", value_str(check, "name"));
    (void)fputs(value_str(check, "text"), out);
    if (fix[0] != '\0')
        (void)fprintf(out, "\n%21sdo: %s", "", fix);
    (void)fputc('\n', out); /* judged at the end, as all output is */
}

int show_doctor(struct ctl *ctl, const struct value *doctor)
{
    const struct value *checks = value_get(doctor, "checks");
    bool failed = checks == NULL || checks->count == 0;
    const bool document = ctl_document(ctl, doctor);

    must(doctor != NULL);
    value_each(check, checks)
    {
        if (strcmp(value_str(check, "status"), "ok") != 0 &&
            strcmp(value_str(check, "status"), "warning") != 0)
            failed = true;
        if (ctl->format == FORMAT_NAME)
            (void)fprintf(ctl->screen.out, "check/%s\n", value_str(check, "name"));
        else if (!document)
            put_check(ctl, check);
    }
    return failed ? CTL_NO : CTL_FINE;
}

/* Nobody answers: that, too, is a finding, and the first one to mend. */
static struct value *not_reached(struct ctl *ctl, const struct err *err)
{
    struct value *doctor = value_new(&ctl->arena, VALUE_OBJECT);
    struct value *checks = value_new(&ctl->arena, VALUE_ARRAY);
    struct value *check = value_new(&ctl->arena, VALUE_OBJECT);

    must(err->text[0] != '\0');
    value_set_str(&ctl->arena, check, "name", "daemon");
    value_set_str(&ctl->arena, check, "status", "failed");
    value_set_str(&ctl->arena, check, "text", err->text);
    value_set_str(&ctl->arena, check, "fix",
                  "start milligpud, or say where its admin listener is: --server ADDRESS");
    value_append(checks, check);
    value_set(&ctl->arena, doctor, "checks", checks);
    return doctor;
}

int command_doctor(struct ctl *ctl)
{
    struct value *doctor;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/doctor", &doctor, &err) < 0)
        doctor = not_reached(ctl, &err);
    return show_doctor(ctl, doctor);
}

/* --- check-config --- */

int command_check_config(struct ctl *ctl)
{
    const char *file = ctl->options.argument[0];
    struct err err;

    must(ctl->options.arguments == 1);
    if (settings_check_file(file, &err) < 0)
        return ctl_fail(ctl, &err);
    (void)fprintf(ctl->screen.out, "%s: the settings are fine\n", file);
    return CTL_FINE;
}
