/* support - folders that a test makes for itself. */
#ifndef MILLIGPU_TESTS_AGENT_SUPPORT_H
#define MILLIGPU_TESTS_AGENT_SUPPORT_H

#include <stddef.h>

/* A new folder in /tmp; bytes: at least 32. */
void folder_make(char *out, size_t bytes);
/* With all that is in it. */
void folder_remove(const char *folder);

#endif
