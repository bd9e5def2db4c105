/* folder - a folder of a test, and the files in it. */
#ifndef MILLIGPU_TESTS_FOLDER_H
#define MILLIGPU_TESTS_FOLDER_H

#include <stddef.h>

/* A new folder in /tmp; bytes: at least 32. */
void folder_make(char *out, size_t bytes);
/* With all that is in it. */
void folder_remove(const char *folder);

/* Writes a file of the folder. */
void file_put(const char *folder, const char *name, const char *text);
/* The content of a file of the folder, to be freed; "" if it is absent. */
char *file_text(const char *folder, const char *name);

#endif
