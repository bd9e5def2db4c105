/*
 * kubectl - one run of kubectl: its words, and what it prints.
 *
 * No shell sees the words. A run is bounded in time and output; its errors go to standard error
 * unchanged, unless it is quiet.
 */
#ifndef MILLIGPU_CTL_KUBECTL_H
#define MILLIGPU_CTL_KUBECTL_H

#include <stdio.h>

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

enum { KUBECTL_WORDS_MAX = 16, KUBECTL_SAID_MAX = 64 * 1024 };

struct kubectl {
    const char *word[KUBECTL_WORDS_MAX + 1]; /* borrowed; ended by NULL */
    size_t words;
    size_t said_max; /* bytes that it may print */
    bool quiet;      /* its errors are not shown */
};

/* kubectl with these options, unless they are NULL; may print KUBECTL_SAID_MAX bytes. */
void kubectl_begin(struct kubectl *out, const char *context, const char *kubeconfig);
void kubectl_add(struct kubectl *kubectl, const char *word);

/* As a line for a shell. */
void kubectl_line(struct strbuf *out, const struct kubectl *kubectl);
/* The same, with its end; the stream is judged at the end. */
void kubectl_print(FILE *out, const struct kubectl *kubectl);

/* ERR_NOT_FOUND: there is no kubectl in PATH. said: its standard output. */
int kubectl_run(const struct kubectl *kubectl, struct strbuf *said, struct err *err) MUST_USE;

#endif
