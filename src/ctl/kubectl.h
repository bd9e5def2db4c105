/*
 * kubectl - one run of kubectl: arguments and output.
 *
 * No shell is involved. A run is limited in time and output; kubectl's standard error is passed
 * through, unless the run is quiet.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_KUBECTL_H
#define MILLIGPU_CTL_KUBECTL_H

#include <stdio.h>

#include "milligpu/base/err.h"
#include "milligpu/base/strbuf.h"

enum { KUBECTL_WORDS_MAX = 16, KUBECTL_SAID_MAX = 64 * 1024 };

struct kubectl {
    const char *word[KUBECTL_WORDS_MAX + 1]; /* arguments, borrowed; NULL-terminated */
    size_t n_words;
    size_t said_max; /* limit of output in bytes */
    bool quiet;      /* standard error is dropped */
};

/* Starts a command line with these options, unless NULL; said_max becomes KUBECTL_SAID_MAX. */
void kubectl_begin(struct kubectl *out, const char *context, const char *kubeconfig);
void kubectl_add(struct kubectl *kubectl, const char *word);

/* Appends the command line, quoted for a shell. */
void kubectl_line(struct strbuf *out, const struct kubectl *kubectl);
/* Prints the command line and a line feed; write errors stay in the stream. */
void kubectl_print(FILE *out, const struct kubectl *kubectl);

/* ERR_NOT_FOUND if there is no kubectl in PATH. said: kubectl's standard output. */
int kubectl_run(const struct kubectl *kubectl, struct strbuf *said, struct err *err) MUST_USE;

#endif
