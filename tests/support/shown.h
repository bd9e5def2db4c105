/*
 * shown - recorded answers shown by the real views, and the whole program run on arguments.
 */
#ifndef MILLIGPU_TESTS_SHOWN_H
#define MILLIGPU_TESTS_SHOWN_H

#include "ctl/ctl.h"

/* 2026-01-02T03:04:05Z, the time at which every view is shown. */
#define NOW_MS 1767323045000

struct shown {
    struct ctl ctl;
    char *out; /* complete after shown_end() */
    char *err;
    size_t out_bytes;
    size_t err_bytes;
};

/* As if `milligpuctl words...` ran without a terminal; words are separated by blanks. */
void shown_begin(struct shown *shown, const char *words);
/* Closes the streams. */
void shown_end(struct shown *shown);
void shown_free(struct shown *shown);

/* The answer in the form that a view takes. */
struct document *answer(struct shown *shown, const char *json);

/* Runs the whole program and returns its exit status; its output is in out and err. */
int run_program(struct shown *shown, const char *words);
/* Runs it too, and compares: parts of the outputs, NULL: that output is empty. */
void program_says(const char *words, int status, const char *out, const char *err);

void write_file(const char *file, const char *text);

#endif
