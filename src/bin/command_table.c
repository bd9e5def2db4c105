/* The table of milligpuctl's commands. main() and the tests pass it to ctl_main(). */
#include "command_table.h"

#include "ctl/commands.h"

static const struct ctl_command commands[] = {
#define COMMAND(handler, name, arguments, least, most, options, summary, help)                     \
    {name, arguments, options, summary, help, least, most, handler},
#include "ctl/commands.def"
#undef COMMAND
};

const struct ctl_commands milligpuctl_commands = {commands, ARRAY_LEN(commands)};
