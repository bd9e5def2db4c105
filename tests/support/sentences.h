/*
 * sentences - the lines of a table that anybody can read.
 *
 * "#" begins a comment; a line that begins with a space continues the line above; lines without a
 * sentence are skipped.
 */
#ifndef MILLIGPU_TESTS_SENTENCES_H
#define MILLIGPU_TESTS_SENTENCES_H

#include <stdint.h>

/*
 * Calls take for each sentence, without its comment and the spaces behind it; line is the number of
 * its last line, and sentence may be changed. The path is from the root of the tree. Returns the
 * number of sentences; fails the test if the file is absent or a sentence too long.
 */
uint32_t sentences_each(const char *file, void *user,
                        void (*take)(void *user, uint32_t line, char *sentence));

#endif
