/*
 * One run of milligpuctl: the options, the format of the output, the command. Called by main() and
 * by tests, which pass their own streams and environment.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"

#include "complete.h"
#include "milligpu_version.h"

/* Other formats of kubectl get an error of their own, because users of the plugin try them. */
static int read_format(struct ctl *ctl, struct err *err)
{
    static const char *const of_kubectl[] = {"jsonpath", "custom-columns", "go-template"};
    const char *given = ctl->options.given[OPTION_output];
    size_t format = FORMAT_TABLE;

    must(ctl->format == FORMAT_TABLE);
    if (given == NULL)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(of_kubectl); i++)
        if (text_starts(text_of(given), of_kubectl[i]))
            return err_set(err, ERR_INVALID,
                           "--output %s is not supported: for single fields, use --output json "
                           "with a program such as jq",
                           of_kubectl[i]);
    const int status = options_choice(&ctl->options, OPTION_output, &format, err);
    ctl->format = (enum format)format; /* same order as the words in options.def */
    return status;
}

static int read_bars(struct ctl *ctl, struct err *err)
{
    enum { AUTO, ALWAYS, NEVER };
    size_t when = AUTO;

    must(ctl->screen.out != NULL);
    if (ctl->options.given[OPTION_bars] != NULL &&
        options_choice(&ctl->options, OPTION_bars, &when, err) < 0)
        return -(int)err->code;
    ctl->screen.bars = when == ALWAYS || (when == AUTO && ctl->screen.terminal);
    return 0;
}

static int read_screen(struct ctl *ctl, const struct ctl_environment *environment, struct err *err)
{
    struct clock_ops clock;

    clock_real(&clock);
    ctl->screen.terminal = environment->terminal;
    ctl->screen.colors = environment->terminal && !environment->no_color;
    ctl->screen.utf8 = environment->utf8;
    ctl->screen.width = environment->width;
    ctl->screen.rows = environment->rows;
    ctl->screen.headers = ctl->options.given[OPTION_no_headers] == NULL;
    ctl->screen.sort_by = ctl->options.given[OPTION_sort_by];
    ctl->screen.now_ms = clock.wall_ms(clock.ctx);
    const int status = read_format(ctl, err);
    ctl->screen.wide = ctl->format == FORMAT_WIDE;
    return status < 0 ? status : read_bars(ctl, err);
}

static int say_help(struct ctl *ctl, FILE *where)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(where != NULL);
    strbuf_init(&text);
    options_help(&text, ctl->options.commands, ctl->options.command);
    (void)fputs(text.data, where); /* checked in ctl_finish() */
    return CTL_FINE;
}

/* --help and --version come before the values of other options are checked. */
static int ctl_run(struct ctl *ctl, const struct ctl_environment *environment)
{
    const struct ctl_options *options = &ctl->options;
    struct err err;

    must(environment != NULL);
    if (options->given[OPTION_help] != NULL)
        return say_help(ctl, ctl->screen.out);
    if (options->given[OPTION_version] != NULL) {
        (void)fprintf(ctl->screen.out, "milligpuctl %s (%s)\n", MILLIGPU_VERSION, MILLIGPU_COMMIT);
        return CTL_FINE;
    }
    if (options->command == NULL) {
        (void)say_help(ctl, ctl->err); /* CTL_USAGE is returned instead */
        return CTL_USAGE;
    }
    if (read_screen(ctl, environment, &err) < 0)
        return ctl_misused(ctl, &err);
    return options->command->run(ctl);
}

/* Compares the base name of argv[0], by which kubectl selects a mode of the plugin. */
static bool is_called(const char *program, const char *name)
{
    const char *slash = strrchr(program, '/');

    must(name[0] != '\0');
    return strcmp(slash != NULL ? slash + 1 : program, name) == 0;
}

/*
 * Checks that all output was written: a full disk must not look like success. Frees everything, so
 * that leak checkers can check a whole run.
 */
static int ctl_finish(struct ctl *ctl, int status)
{
    if (fflush(ctl->screen.out) != 0 || ferror(ctl->screen.out) != 0) {
        (void)fprintf(ctl->err, "milligpuctl: cannot write the output: %m\n");
        status = CTL_NO;
    }
    forward_stop(&ctl->forward);
    if (ctl->client != NULL)
        client_free(ctl->client);
    options_done(&ctl->options);
    arena_done(&ctl->arena);
    arena_done(&ctl->kept);
    must(status >= CTL_FINE && status <= CTL_USAGE);
    return status;
}

/* Always ends with ctl_finish(), which also ends a child kubectl. */
int ctl_main(int argc, char *const *argv, const struct ctl_environment *environment, FILE *out,
             FILE *err)
{
    struct ctl ctl = {.err = err,
                      .screen.out = out,
                      .plugin = argc > 0 && is_called(argv[0], "kubectl-milligpu")};
    struct err wrong;

    must(out != NULL && err != NULL);
    if (argc < 1)
        return CTL_USAGE;
    arena_init(&ctl.arena);
    arena_init(&ctl.kept);
    ctl.environment_server = environment->server;
    ctl.measure = environment->measure;
    /* kubectl runs this name to complete the arguments of a plugin. */
    if (is_called(argv[0], "kubectl_complete-milligpu"))
        return ctl_finish(&ctl, complete_line(&ctl, environment->commands, argc, argv, false));
    if (argc > 1 && strcmp(argv[1], COMPLETE_COMMAND) == 0)
        return ctl_finish(&ctl,
                          complete_line(&ctl, environment->commands, argc - 1, argv + 1, true));
    if (options_parse(environment->commands, argc, argv, &ctl.options, &wrong) < 0)
        return ctl_finish(&ctl, ctl_misused(&ctl, &wrong));
    return ctl_finish(&ctl, ctl_run(&ctl, environment));
}
