/*
 * quotes - JSON in a C string without backslashes: ' stands for ".
 */
#ifndef MILLIGPU_TESTS_QUOTES_H
#define MILLIGPU_TESTS_QUOTES_H

/* A copy with " for each '. The caller xfrees it. */
char *with_quotes(const char *text);

#endif
