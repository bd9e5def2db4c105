/*
 * complete - which words can stand at the cursor.
 *
 * `milligpuctl __complete WORDS... LAST` prints the words that LAST can become, one per line, each
 * with a tab and its meaning, and then ":4", or ":0" if a file name belongs there. This is the
 * protocol of cobra, which kubectl uses for its plugins: it runs kubectl_complete-milligpu with the
 * words of the line. The scripts of `milligpuctl completion SHELL` call the same.
 */
#ifndef MILLIGPU_CTL_COMPLETE_H
#define MILLIGPU_CTL_COMPLETE_H

#include "ctl.h"

#define COMPLETE_COMMAND "__complete"

/*
 * argv: any word, then those of the line up to the cursor. asks: ask milligpud for names even if
 * neither the line nor the environment says where it is. Nothing is ever an error: at worst no word
 * fits. Returns the exit status.
 */
int complete_line(struct ctl *ctl, const struct ctl_commands *commands, int argc, char *const *argv,
                  bool asks);

#endif
