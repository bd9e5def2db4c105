#include "support_document.h"

#include "bin/command_table.h"
#include "support/document.h"

/* Several commands know it, not all. */
static bool option_is_shared(size_t id)
{
    size_t know = 0;

    for (size_t i = 0; i < milligpuctl_commands.count; i++)
        know += option_is_of(id, &milligpuctl_commands.command[i]);
    return know > 1;
}

/* --- docs/CLI.md --- */

/* A bar would end the cell of a table. */
static void put_cell(struct strbuf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            strbuf_char(out, '\\');
        strbuf_char(out, *text);
    }
}

static void put_option_row(struct strbuf *out, const struct option *option)
{
    strbuf_str(out, "| `");
    if (option->letter != 0)
        strbuf_printf(out, "-%c, ", option->letter);
    strbuf_printf(out, "--%s%s%s` | ", option->name, option->argument[0] != '\0' ? " " : "",
                  option->argument);
    put_cell(out, option->help);
    strbuf_str(out, " |\n");
}

/* Those of the command (NULL: of every command) that only it knows, or that several know. */
static size_t count_options(const struct ctl_command *command, bool shared)
{
    size_t count = 0;

    for (size_t id = 0; id < OPTIONS; id++)
        count += option_is_of(id, command) && option_is_shared(id) == shared;
    return count;
}

static void put_option_rows(struct strbuf *out, const struct ctl_command *command)
{
    must(count_options(command, false) > 0);
    strbuf_str(out, "\n| option | meaning |\n| --- | --- |\n");
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_of(id, command) && !option_is_shared(id))
            put_option_row(out, option_info(id));
}

static void put_every_shared_option(struct strbuf *out)
{
    must(out != NULL);
    strbuf_str(out, "\n## Options of several commands\n\n"
                    "Each command below names those that it knows.\n"
                    "\n| option | meaning |\n| --- | --- |\n");
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_shared(id))
            put_option_row(out, option_info(id));
}

/* One line that names the command's options of several commands. */
static void put_shared_options(struct strbuf *out, const struct ctl_command *command)
{
    const char *before = "\n[Shared options](#options-of-several-commands): ";

    must(count_options(command, true) > 0);
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_of(id, command) && option_is_shared(id)) {
            strbuf_printf(out, "%s`--%s`", before, option_info(id)->name);
            before = ", ";
        }
    strbuf_str(out, ".\n");
}

static void put_command_section(struct strbuf *out, const struct ctl_command *command,
                                options_example *example)
{
    must(command->name[0] != '\0');
    strbuf_printf(out, "\n## %s\n\n`milligpuctl %s%s%s [OPTIONS]`: %s\n\n%s\n\n```\n",
                  command->name, command->name, command->arguments[0] != '\0' ? " " : "",
                  command->arguments, command->summary, command->help);
    example(out, command->name);
    strbuf_str(out, "```\n");
    if (count_options(command, false) > 0)
        put_option_rows(out, command);
    if (count_options(command, true) > 0)
        put_shared_options(out, command);
}

void options_markdown(struct strbuf *out, options_example *example)
{
    must(example != NULL);
    strbuf_str(
        out,
        "# milligpuctl\n\n"
        "Generated from `src/ctl/commands.def`, `options.def` and `docs/output` with UPDATE=1 "
        "in the environment\nof the test unit.ctl.options, which compares. The examples are of "
        "the demo's cluster; the test e2e.output\nruns them.\n\n"
        "The same binary installed as `kubectl-milligpu` is a kubectl plugin: `kubectl "
        "milligpu top`. Without a server\nnamed, the plugin starts `kubectl port-forward` to "
        "the pod of milligpud and ends it again.\n\n"
        "Exit status: 0 fine; 1 refused, not found or unhealthy; 2 wrong usage. Colours and "
        "bars appear only on a terminal;\n`NO_COLOR` is honoured. Amounts are thousandths of "
        "one GPU.\n\n## Options of every command\n");
    put_option_rows(out, NULL);
    put_every_shared_option(out);
    for (size_t i = 0; i < milligpuctl_commands.count; i++)
        put_command_section(out, &milligpuctl_commands.command[i], example);
}

/* --- docs/man/milligpuctl.1 --- */

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
static void man_options(struct strbuf *out, const struct ctl_command *command)
{
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_of(id, command) && !option_is_shared(id))
            man_option(out, id);
}

/* A line that names the command's options of several commands, if it knows any. */
static void man_shared_options(struct strbuf *out, const struct ctl_command *command)
{
    const char *before = ".PP\nSee OPTIONS for ";

    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_of(id, command) && option_is_shared(id)) {
            strbuf_str(out, before);
            strbuf_str(out, "\\-\\-");
            strbuf_roff(out, option_info(id)->name);
            before = ", ";
        }
    if (before[0] == ',')
        strbuf_str(out, ".\n");
}

static void man_command(struct strbuf *out, const struct ctl_command *command)
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
    man_options(out, command);
    man_shared_options(out, command);
}

/* All help texts go through strbuf_roff(), because a line that begins with a dot is a request. */
void options_man(struct strbuf *out)
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
    for (size_t i = 0; i < milligpuctl_commands.count; i++)
        man_command(out, &milligpuctl_commands.command[i]);
    strbuf_str(out, ".SH OPTIONS\nThese belong to every command.\n");
    man_options(out, NULL);
    strbuf_str(out, ".PP\nThese belong to the commands that name them above.\n");
    for (size_t id = 0; id < OPTIONS; id++)
        if (option_is_shared(id))
            man_option(out, id);
    strbuf_str(out, ".SH EXIT STATUS\n"
                    "0 fine; 1 refused, not found or unhealthy; 2 wrong usage.\n"
                    ".SH ENVIRONMENT\n"
                    ".TP\n.B MILLIGPU_SERVER\naddress of the admin listener\n"
                    ".TP\n.B NO_COLOR\nno colours on a terminal\n"
                    ".SH SEE ALSO\n.BR milligpud (8)\n");
}
