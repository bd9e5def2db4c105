/*
 * commands - the functions of milligpuctl's commands, from commands.def.
 *
 * Each returns the exit status.
 */
#ifndef MILLIGPU_CTL_COMMANDS_H
#define MILLIGPU_CTL_COMMANDS_H

struct ctl;

#define COMMAND(handler, name, arguments, least, most, options, summary, help)                     \
    int handler(struct ctl *ctl);
#include "commands.def"
#undef COMMAND

#endif
