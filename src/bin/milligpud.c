/* main() of milligpud, the service: reads the settings and runs it. */
#include <stdio.h>

#include "milligpu/daemon/daemon.h"

#include "milligpu_version.h"

/* Differs from EXIT_FAILURE (a daemon that failed), so that a unit file can tell them apart. */
enum { WRONG_SETTINGS = 2 };

extern char **environ;

static int milligpud_say(void (*write)(struct strbuf *out))
{
    struct strbuf out;

    strbuf_init(&out);
    write(&out);
    (void)fputs(out.data, stdout);
    strbuf_done(&out);
    return EXIT_SUCCESS;
}

static int print_settings(const struct settings_set *set)
{
    struct strbuf out;

    strbuf_init(&out);
    settings_print(&out, set);
    (void)fputs(out.data, stdout);
    strbuf_done(&out);
    return EXIT_SUCCESS;
}

static int milligpud_act(int argc, char **argv, enum settings_action action,
                         const struct settings_set *set)
{
    struct err err;

    if ((action == SETTINGS_CHECK || action == SETTINGS_RUN) &&
        daemon_check(set, action == SETTINGS_RUN, &err) < 0) {
        (void)fprintf(stderr, "milligpud: %s\n", err.text);
        return WRONG_SETTINGS;
    }
    switch (action) {
    case SETTINGS_HELP:
        return milligpud_say(settings_help);
    case SETTINGS_VERSION:
        (void)printf("milligpud %s (%s)\n", MILLIGPU_VERSION, MILLIGPU_COMMIT);
        return EXIT_SUCCESS;
    case SETTINGS_CHECK:
        (void)puts("the settings are fine");
        return EXIT_SUCCESS;
    case SETTINGS_PRINT:
        return print_settings(set);
    case SETTINGS_RUN:
        break;
    }
    if (daemon_run(argc, argv, environ, set, &err) == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "milligpud: %s\n", err.text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct settings_set *set;
    enum settings_action action;
    struct err err;

    if (settings_load(argc, argv, environ, &set, &action, &err) < 0) {
        (void)fprintf(stderr, "milligpud: %s\ntry --help\n", err.text);
        return WRONG_SETTINGS;
    }
    const int status = milligpud_act(argc, argv, action, set);
    settings_free(set);
    return status;
}
