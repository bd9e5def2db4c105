/* logged - the log lines of an action. */
#ifndef MILLIGPU_TESTS_LOGGED_H
#define MILLIGPU_TESTS_LOGGED_H

#include <stddef.h>

#include "milligpu/run/log.h"

/* Runs the action with this log level, then sets LOG_ERROR. The text is valid until the next
   call. */
const char *logged(enum log_level level, void (*act)(void *user), void *user);

/* How often the text contains the word. */
size_t count_of(const char *text, const char *word);

#endif
