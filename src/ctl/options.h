/*
 * options - the command line and its help, from options.def and a table of commands.
 *
 * Options can stand before and after the command and its arguments. An error names valid values,
 * and for an unknown command the nearest one.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_OPTIONS_H
#define MILLIGPU_CTL_OPTIONS_H

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

struct ctl;

enum option_id {
#define OPTION(id, letter, name, argument, words, help) OPTION_##id,
#include "options.def"
#undef OPTION
    OPTIONS
};

struct option {
    const char *id; /* as in options.def */
    const char *name;
    const char *argument; /* name of its value; "" for a switch */
    const char *words;    /* allowed values, separated by blanks; "" for any */
    const char *help;
    char letter; /* short name; 0 if none */
};

struct ctl_command {
    const char *name;
    const char *arguments;
    const char *options;
    const char *summary;
    const char *help;
    /* number of arguments */
    size_t least;
    size_t most;
    int (*run)(struct ctl *ctl);
};

/* The commands of a program, in the order of its help. Static, because options borrow from it. */
struct ctl_commands {
    const struct ctl_command *command;
    size_t count;
};

struct ctl_options {
    const struct ctl_commands *commands;
    const struct ctl_command *command; /* NULL if the line has none */
    const char *given[OPTIONS];        /* values; NULL if not given, "" for a switch */
    const char **argument;
    size_t n_arguments;
};

/* out borrows from argv, but owns the array of arguments, which options_done() frees. */
int options_parse(const struct ctl_commands *commands, int argc, char *const *argv,
                  struct ctl_options *out, struct err *err) MUST_USE;
void options_done(struct ctl_options *given);
/*
 * Parses an incomplete line for completion, ignoring errors. Returns the option whose value comes
 * next, or OPTIONS.
 */
size_t options_scan(const struct ctl_commands *commands, int argc, char *const *argv,
                    struct ctl_options *out);
/* *out: the index of the given value among the option's words; ERR_INVALID if it is none. */
int options_choice(const struct ctl_options *given, size_t id, size_t *out,
                   struct err *err) MUST_USE;

const struct option *option_info(size_t id);                     /* id < OPTIONS */
bool option_is_of(size_t id, const struct ctl_command *command); /* NULL: common options */

/* Appends the help of a command; for NULL, of all. */
void options_help(struct strbuf *out, const struct ctl_commands *commands,
                  const struct ctl_command *command);

#endif
