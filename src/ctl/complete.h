/*
 * complete - completion of the word at the cursor.
 *
 * `milligpuctl __complete WORDS... LAST` prints the completions of LAST, one per line, each with a
 * tab and its meaning, and then ":4", or ":0" if the shell is to complete file names. This is the
 * protocol of cobra, which kubectl uses for its plugins: it runs kubectl_complete-milligpu with the
 * words of the line. The scripts of `milligpuctl completion SHELL` use it, too.
 */
#ifndef MILLIGPU_CTL_COMPLETE_H
#define MILLIGPU_CTL_COMPLETE_H

#include "ctl.h"

#define COMPLETE_COMMAND "__complete"

/*
 * argv: an ignored word, then the words of the line up to the cursor. asks: request names from
 * milligpud even if neither the line nor the environment has its address. Errors yield no
 * completions. Returns the exit status.
 */
int complete_line(struct ctl *ctl, const struct ctl_commands *commands, int argc, char *const *argv,
                  bool asks);

#endif
