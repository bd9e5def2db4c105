/* The manual page of milligpuctl, docs/man/milligpuctl.1. Called by the test that compares it. */
#include "options.h"

static void man_option(struct strbuf *out, size_t id)
{
    const struct option *option = option_info(id);

    strbuf_str(out, ".TP\n.B ");
    if (option->letter != 0)
        strbuf_printf(out, "\\-%c, ", option->letter);
    strbuf_str(out, "\\-\\-");
    strbuf_roff(out, option->name);
    if (option->argument[0] != '\0')
        strbuf_printf(out, " \\fI%s\\fR", option->argument);
    strbuf_char(out, '\n');
    strbuf_roff(out, option->help);
    strbuf_str(out, "\n");
}

/* command NULL: those of every command. Without those of several commands. */
static void man_options(struct strbuf *out, const struct ctl_commands *commands,
                        const struct ctl_command *command)
{
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_of(id, command) && !option_is_shared(commands, id))
            man_option(out, id);
}

/* A line that names the command's options of several commands, if it knows any. */
static void man_shared_options(struct strbuf *out, const struct ctl_commands *commands,
                               const struct ctl_command *command)
{
    const char *before = ".PP\nSee OPTIONS for ";

    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_of(id, command) && option_is_shared(commands, id)) {
            strbuf_str(out, before);
            strbuf_str(out, "\\-\\-");
            strbuf_roff(out, option_info(id)->name);
            before = ", ";
        }
    if (before[0] == ',')
        strbuf_str(out, ".\n");
}

static void man_command(struct strbuf *out, const struct ctl_commands *commands,
                        const struct ctl_command *command)
{
    strbuf_str(out, ".SS milligpuctl ");
    strbuf_roff(out, command->name);
    if (command->arguments[0] != '\0')
        strbuf_printf(out, " %s", command->arguments);
    strbuf_str(out, "\nThe command ");
    strbuf_roff(out, command->summary);
    strbuf_str(out, ".\n.PP\n");
    strbuf_roff(out, command->help);
    strbuf_char(out, '\n');
    man_options(out, commands, command);
    man_shared_options(out, commands, command);
}

/*
 * All help texts go through strbuf_roff(), because a line that begins with a dot is a request. The
 * unit test compares the file with this text.
 */
void options_man(struct strbuf *out, const struct ctl_commands *commands)
{
    strbuf_str(out,
               ".\\\" Written by UPDATE=1 unit.ctl.options from commands.def and options.def.\n"
               ".TH MILLIGPUCTL 1\n"
               ".SH NAME\n"
               "milligpuctl, kubectl\\-milligpu \\- query and steer the GPU ledger of milligpu\n"
               ".SH SYNOPSIS\n"
               ".B milligpuctl\n.I COMMAND\n.RI [ OPTIONS ]\n.br\n"
               ".B kubectl milligpu\n.I COMMAND\n.RI [ OPTIONS ]\n"
               ".SH DESCRIPTION\n"
               "milligpuctl shows who holds which part of which GPU, and why a pod is not placed.\n"
               "Amounts are thousandths of one GPU.\n"
               "As a kubectl plugin without a server named, it starts kubectl port\\-forward to\n"
               "the pod of milligpud and ends it again.\n"
               ".SH COMMANDS\n");
    for (size_t i = 0; i < commands->count; i++)
        man_command(out, commands, &commands->command[i]);
    strbuf_str(out, ".SH OPTIONS\nThese belong to every command.\n");
    man_options(out, commands, NULL);
    strbuf_str(out, ".PP\nThese belong to the commands that name them above.\n");
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_shared(commands, id))
            man_option(out, id);
    strbuf_str(out, ".SH EXIT STATUS\n"
                    "0 fine; 1 refused, not found or unhealthy; 2 wrong usage.\n"
                    ".SH ENVIRONMENT\n"
                    ".TP\n.B MILLIGPU_SERVER\naddress of the admin listener\n"
                    ".TP\n.B NO_COLOR\nno colours on a terminal\n"
                    ".SH SEE ALSO\n.BR milligpud (8)\n");
}
