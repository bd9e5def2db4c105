/*
 * Parses the command line of milligpuctl and makes its help, from options.def and the table of
 * commands from main(). Called by ctl_main() and by completion. Pure. options_parse() stops at the
 * first error, which names valid values; options_scan() parses an incomplete line in the same way
 * and continues after errors. All texts are borrowed from argv and from the tables.
 */
#include "options.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

static const struct option options[] = {
#define OPTION(id, letter, name, argument, words, help) {#id, name, argument, words, help, letter},
#include "options.def"
#undef OPTION
};

static_assert(ARRAY_LEN(options) == OPTIONS, "one row for each id");

/* Options of every command. */
static const char common[] =
    "output server port_file milligpu_namespace context kubeconfig help version";

static bool has_word(const char *words, const char *word)
{
    struct text rest = text_of(words);
    struct text next;

    must(word[0] != '\0');
    while (text_cut(&rest, ' ', &next))
        if (text_is(next, word))
            return true;
    return false;
}

const struct option *option_info(size_t id)
{
    must(id < OPTIONS);
    return &options[id];
}

bool option_is_of(size_t id, const struct ctl_command *command)
{
    must(id < OPTIONS);
    return has_word(command != NULL ? command->options : common, options[id].id);
}

/* --- the nearest command --- */

enum { NEAR = 3 };

/* A prefix of a name is the best match; otherwise at most two characters differ. */
static const char *options_nearest(const struct ctl_commands *commands, const char *word)
{
    const char *found = NULL;
    size_t best = NEAR;

    for (size_t i = 0; i < commands->count; i++) {
        const bool begins =
            word[0] != '\0' && text_starts(text_of(commands->command[i].name), word);
        const size_t far =
            begins ? 0 : text_distance(text_of(word), text_of(commands->command[i].name));
        if (far < best && far < strlen(commands->command[i].name)) {
            best = far;
            found = commands->command[i].name;
        }
    }
    return found;
}

/* --- parsing --- */

struct option_line {
    char *const *argv;
    int argc;
    int at;
    bool words_only; /* after "--" */
    size_t wants;    /* option at the end of the line that lacks its value; OPTIONS if none */
    struct ctl_options *out;
    struct err *err;
};

static const struct ctl_command *options_find_command(const struct ctl_commands *commands,
                                                      const char *name)
{
    must(name != NULL);
    for (size_t i = 0; i < commands->count; i++)
        if (strcmp(commands->command[i].name, name) == 0)
            return &commands->command[i];
    return NULL;
}

/*
 * The first word is the command, further ones are arguments, which options_check() counts.
 * `argument` has room for all words of the line.
 */
static int take_word(struct option_line *line, const char *word)
{
    struct ctl_options *out = line->out;

    must(word != NULL);
    if (out->command != NULL) {
        out->argument[out->n_arguments++] = word;
        return 0;
    }
    /* `help X` means X --help; `help` alone means --help. */
    if (strcmp(word, "help") == 0) {
        out->given[OPTION_help] = "";
        return 0;
    }
    out->command = options_find_command(out->commands, word);
    if (out->command != NULL)
        return 0;
    const char *near = options_nearest(out->commands, word);
    if (near != NULL)
        return err_set(line->err, ERR_INVALID, "unknown command %.60s; did you mean %s?", word,
                       near);
    return err_set(line->err, ERR_INVALID, "unknown command %.60s; --help lists the commands",
                   word);
}

/*
 * value: NULL to use the next word, if the option needs a value. An empty value is an error,
 * usually an unset variable of a script. The last of repeated options counts.
 */
static int take_option(struct option_line *line, size_t id, const char *value)
{
    const struct option *option = &options[id];

    must(id < OPTIONS);
    if (option->argument[0] == '\0') {
        if (value != NULL)
            return err_set(line->err, ERR_INVALID, "--%s is a switch and takes no value",
                           option->name);
        line->out->given[id] = "";
        return 0;
    }
    if (value == NULL && line->at + 1 < line->argc)
        value = line->argv[++line->at];
    if (value == NULL)
        line->wants = id;
    if (value == NULL || value[0] == '\0')
        return err_set(line->err, ERR_INVALID, "--%s wants %s: %s", option->name, option->argument,
                       option->help);
    line->out->given[id] = value;
    return 0;
}

/* No abbreviations: one that is unique now can become ambiguous in a later version. */
static int take_long(struct option_line *line, const char *word)
{
    const size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : NULL;

    const struct ctl_command *command = line->out->command;
    size_t found = OPTIONS;
    for (size_t id = 0; id < OPTIONS; id++)
        if (strncmp(options[id].name, word, length) == 0 && options[id].name[length] == '\0' &&
            (found == OPTIONS || (command != NULL && has_word(command->options, options[id].id))))
            found = id;
    if (found < OPTIONS)
        return take_option(line, found, value);
    return err_set(line->err, ERR_INVALID, "unknown option --%.*s; --help lists the options",
                   (int)(length < 60 ? length : 60), word);
}

/*
 * -A, -n x, -nx, -n=x, -Aw. Recurses for the letter after a switch, at most once for each letter of
 * the word.
 */
static int take_short(struct option_line *line, const char *letters)
{
    size_t id = 0;

    must(letters[0] != '\0');
    while (id < OPTIONS && options[id].letter != letters[0])
        id++;
    if (id == OPTIONS)
        return err_set(line->err, ERR_INVALID, "unknown option -%c; --help lists the options",
                       letters[0] >= ' ' && letters[0] <= '~' ? letters[0] : '?');
    if (letters[1] == '\0')
        return take_option(line, id, NULL);
    if (options[id].argument[0] != '\0')
        return take_option(line, id, letters + (letters[1] == '=' ? 2 : 1));
    const int status = take_option(line, id, NULL);
    return status < 0 ? status : take_short(line, letters + 1);
}

/* "-" alone is a word that means standard input. */
static int options_take(struct option_line *line, const char *word)
{
    if (line->words_only || word[0] != '-' || word[1] == '\0')
        return take_word(line, word);
    if (strcmp(word, "--") == 0) {
        line->words_only = true;
        return 0;
    }
    return word[1] == '-' ? take_long(line, word + 2) : take_short(line, word + 1);
}

/*
 * Called after all words, since options can stand before the command. --help needs no other
 * arguments.
 */
static int options_check(const struct ctl_options *given, struct err *err)
{
    const struct ctl_command *command = given->command;

    must(err != NULL);
    if (command == NULL)
        return 0;
    for (size_t id = 0; id < OPTIONS; id++)
        if (given->given[id] != NULL && !has_word(common, options[id].id) &&
            !has_word(command->options, options[id].id))
            return err_set(err, ERR_INVALID, "%s knows no --%s; %s --help lists what it knows",
                           command->name, options[id].name, command->name);
    if (given->given[OPTION_help] != NULL)
        return 0;
    if (given->n_arguments < command->least)
        return err_set(err, ERR_INVALID, "%s wants %s", command->name, command->arguments);
    if (given->n_arguments > command->most && command->most == 0)
        return err_set(err, ERR_INVALID, "%s takes no arguments, but got %.60s", command->name,
                       given->argument[0]);
    if (given->n_arguments > command->most)
        return err_set(err, ERR_INVALID, "%s takes %s and nothing more, but got %.60s, too",
                       command->name, command->arguments, given->argument[command->most]);
    return 0;
}

/* *out is set only on success, and then owns the array of arguments. */
int options_parse(const struct ctl_commands *commands, int argc, char *const *argv,
                  struct ctl_options *out, struct err *err)
{
    struct ctl_options parsed = {.commands = commands,
                                 .argument = xcalloc((size_t)argc + 1, sizeof *parsed.argument)};
    struct option_line line = {
        .argv = argv, .argc = argc, .at = 1, .wants = OPTIONS, .out = &parsed, .err = err};
    int status = 0;

    must(argc > 0);
    for (; status == 0 && line.at < argc; line.at++)
        status = options_take(&line, argv[line.at]);
    if (status == 0)
        status = options_check(&parsed, err);
    if (status == 0)
        *out = parsed;
    else
        options_done(&parsed);
    return status;
}

size_t options_scan(const struct ctl_commands *commands, int argc, char *const *argv,
                    struct ctl_options *out)
{
    struct err err;

    must(argc > 0);
    *out = (struct ctl_options){.commands = commands,
                                .argument = xcalloc((size_t)argc + 1, sizeof *out->argument)};
    struct option_line line = {
        .argv = argv, .argc = argc, .at = 1, .wants = OPTIONS, .out = out, .err = &err};
    for (; line.at < argc; line.at++)
        (void)options_take(&line, argv[line.at]); /* the line is incomplete, so errors are normal */
    return line.wants;
}

int options_choice(const struct ctl_options *given, size_t id, size_t *out, struct err *err)
{
    const struct option *option = &options[id];
    struct text rest = text_of(option->words);
    struct text word;
    size_t at = 0;

    must(given->given[id] != NULL && option->words[0] != '\0');
    for (; text_cut(&rest, ' ', &word); at++)
        if (text_is(word, given->given[id])) {
            *out = at;
            return 0;
        }
    return err_set(err, ERR_INVALID, "--%s is %.60s: it must be one of: %s", option->name,
                   given->given[id], option->words);
}

void options_done(struct ctl_options *given)
{
    xfree(given->argument);
    *given = (struct ctl_options){0};
}

/* --- help --- */

enum { HELP_COLUMNS = 78 };

static void put_wrapped(struct strbuf *out, const char *text, size_t from, size_t indent)
{
    struct text rest = text_of(text);
    struct text word;
    size_t column = from;
    bool first = true;

    must(indent < HELP_COLUMNS);
    while (text_cut(&rest, ' ', &word)) {
        if (!first && column + 1 + word.len > HELP_COLUMNS) {
            strbuf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            strbuf_char(out, ' ');
            column++;
        }
        strbuf_text(out, word);
        column += word.len;
        first = false;
    }
    strbuf_char(out, '\n');
}

static void option_usage(char out[64], const struct option *option)
{
    char letter[8] = "    ";

    must(strlen(option->name) + strlen(option->argument) < 48);
    if (option->letter != 0)
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    (void)snprintf(out, 64, "%s--%s%s%s", letter, option->name,
                   option->argument[0] != '\0' ? " " : "", option->argument);
}

static void put_option(struct strbuf *out, const struct option *option)
{
    enum { INDENT = 38 };
    char usage[64];

    option_usage(usage, option);
    must(strlen(usage) + 4 <= INDENT);
    strbuf_printf(out, "  %-*s", INDENT - 2, usage);
    put_wrapped(out, option->help, INDENT, INDENT);
}

static void put_options(struct strbuf *out, const char *title, const char *names)
{
    must(title[0] != '\0');
    strbuf_printf(out, "\n%s:\n", title);
    for (size_t id = 0; id < OPTIONS; id++)
        if (has_word(names, options[id].id))
            put_option(out, &options[id]);
}

static void put_usage_line(struct strbuf *out, const struct ctl_command *command)
{
    must(command->name[0] != '\0');
    strbuf_printf(out, "milligpuctl %s%s%s [OPTIONS]", command->name,
                  command->arguments[0] != '\0' ? " " : "", command->arguments);
}

static void put_overview(struct strbuf *out, const struct ctl_commands *commands)
{
    must(out != NULL);
    strbuf_str(out,
               "usage: milligpuctl COMMAND [OPTIONS]\n"
               "Look into the ledger of milligpu: who holds which part of which GPU, and why not.\n"
               "As kubectl plugin: kubectl milligpu COMMAND.\n\ncommands:\n");
    for (size_t i = 0; i < commands->count; i++)
        strbuf_printf(out, "  %-13s %-13s %s\n", commands->command[i].name,
                      commands->command[i].arguments, commands->command[i].summary);
    put_options(out, "options of every command", common);
    strbuf_str(out, "\nmilligpuctl COMMAND --help says more about one of them.\n"
                    "exit status: 0 fine, 1 refused, not found or unhealthy, 2 wrong usage\n");
}

void options_help(struct strbuf *out, const struct ctl_commands *commands,
                  const struct ctl_command *command)
{
    if (command == NULL) {
        put_overview(out, commands);
        return;
    }
    strbuf_str(out, "usage: ");
    put_usage_line(out, command);
    strbuf_printf(out, "\n%s\n\n", command->summary);
    put_wrapped(out, command->help, 0, 0);
    if (command->options[0] != '\0')
        put_options(out, "options", command->options);
    put_options(out, "options of every command", common);
}
