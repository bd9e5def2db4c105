/*
 * command_table - all commands of milligpuctl.
 */
#ifndef MILLIGPU_BIN_COMMAND_TABLE_H
#define MILLIGPU_BIN_COMMAND_TABLE_H

#include "ctl/options.h"

extern const struct ctl_commands milligpuctl_commands;

#endif
