/*
 * commands - all commands of milligpuctl.
 */
#ifndef MILLIGPU_BIN_COMMANDS_H
#define MILLIGPU_BIN_COMMANDS_H

#include "ctl/options.h"

extern const struct ctl_commands milligpuctl_commands;

#endif
