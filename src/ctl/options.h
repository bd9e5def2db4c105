/*
 * options - the command line and its help, from options.def and a table of commands.
 *
 * Options may stand before and after the command and its arguments. A mistake is an error that says
 * what would be right; for an unknown command it suggests the nearest.
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
    const char *id; /* as in the table */
    const char *name;
    const char *argument; /* "": a switch */
    const char *words;    /* values that are allowed, between blanks; "": any */
    const char *help;
    char letter; /* 0: none */
};

struct ctl_command {
    const char *name;
    const char *arguments;
    const char *options;
    const char *summary;
    const char *help;
    /* how many arguments it takes */
    size_t least;
    size_t most;
    int (*run)(struct ctl *ctl);
};

/* The commands of a program, in the order of its help. Static: options borrow from it. */
struct ctl_commands {
    const struct ctl_command *command;
    size_t count;
};

struct ctl_options {
    const struct ctl_commands *commands;
    const struct ctl_command *command; /* NULL: none was named */
    const char *given[OPTIONS];        /* NULL: not given; "": a switch */
    const char **argument;
    size_t arguments;
};

/* out borrows from argv, except for the list of arguments: options_done(). */
int options_parse(const struct ctl_commands *commands, int argc, char *const *argv,
                  struct ctl_options *out, struct err *err) MUST_USE;
void options_done(struct ctl_options *given);
/*
 * For completion, of an incomplete line: uses whatever can be parsed. Returns the option whose
 * value comes next, or OPTIONS.
 */
size_t options_scan(const struct ctl_commands *commands, int argc, char *const *argv,
                    struct ctl_options *out);
/* The index of the given value among the option's words. ERR_INVALID if it is none of them. */
int options_choice(const struct ctl_options *given, size_t id, size_t *out,
                   struct err *err) MUST_USE;

const struct option *option_info(size_t id);                     /* id < OPTIONS */
bool option_is_of(size_t id, const struct ctl_command *command); /* NULL: of every command */

/* command NULL: all of them. */
void options_help(struct strbuf *out, const struct ctl_commands *commands,
                  const struct ctl_command *command);

#endif
