/* logged - the log lines of an action. */
#ifndef MILLIGPU_TESTS_LOGGED_H
#define MILLIGPU_TESTS_LOGGED_H

#include "milligpu/run/log.h"

/* Runs the action with this log level, then sets LOG_ERROR. The text is valid until the next
   call. */
const char *logged(enum log_level level, void (*act)(void *user), void *user);

#endif
