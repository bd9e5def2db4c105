/*
 * options - the command line, its help and its manual, from options.def and commands.def.
 *
 * Options may stand before and after the command and its arguments. A mistake is an error that says
 * what would be right; for an unknown command it suggests the nearest.
 *
 * Pure.
 */
#ifndef MILLIGPU_CTL_OPTIONS_H
#define MILLIGPU_CTL_OPTIONS_H

#include "milligpu/err.h"
#include "milligpu/strbuf.h"

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

struct ctl_options {
    const struct ctl_command *command; /* NULL: none was named */
    const char *given[OPTIONS];        /* NULL: not given; "": a switch */
    const char **argument;
    size_t arguments;
};

/* out borrows from argv, except for the list of arguments: options_done(). */
int options_parse(int argc, char *const *argv, struct ctl_options *out, struct err *err) MUST_USE;
void options_done(struct ctl_options *given);
/*
 * For completion, of an incomplete line: uses whatever can be parsed. Returns the option whose
 * value comes next, or OPTIONS.
 */
size_t options_scan(int argc, char *const *argv, struct ctl_options *out);
/* The index of the given value among the option's words. ERR_INVALID if it is none of them. */
int options_choice(const struct ctl_options *given, size_t id, size_t *out,
                   struct err *err) MUST_USE;

/* The tables. */
const struct option *option_info(size_t id);                      /* id < OPTIONS */
const struct ctl_command *option_command(size_t at);              /* NULL behind the last one */
const struct ctl_command *options_find_command(const char *name); /* NULL: there is none */
bool option_is_of(size_t id, const struct ctl_command *command);  /* NULL: of every command */
bool option_is_shared(size_t id); /* several commands know it, not all */

void options_help(struct strbuf *out, const struct ctl_command *command); /* NULL: all of them */
/* Appends what the command prints in its example: whole lines, at least one. */
typedef void options_example(struct strbuf *out, const char *command);
void options_markdown(struct strbuf *out, options_example *example); /* docs/CLI.md */
void options_man(struct strbuf *out);                                /* docs/man/milligpuctl.1 */

#define COMMAND(handler, name, arguments, least, most, options, summary, help)                     \
    int handler(struct ctl *ctl);
#include "commands.def"
#undef COMMAND

#endif
