/*
 * forward - runs `kubectl port-forward` to the pod of milligpud while it is needed.
 *
 * It uses a free local port, is waited for at most twenty seconds, and is ended by its pid. If this
 * process dies first, the kernel ends it.
 */
#ifndef MILLIGPU_CTL_FORWARD_H
#define MILLIGPU_CTL_FORWARD_H

#include <sys/types.h>

#include "milligpu/base/err.h"

struct forward {
    pid_t pid; /* 0: none */
    int out;   /* its output */
    char address[64];
};

struct forward_options {
    const char *namespace;
    const char *context;    /* NULL: the current one */
    const char *kubeconfig; /* NULL: kubectl's default */
};

int forward_start(struct forward *forward, const struct forward_options *options,
                  struct err *err) MUST_USE;
void forward_stop(struct forward *forward);

/* Finds the local address in a line of kubectl's output; false if there is none. */
bool forward_read_line(const char *line, char *out, size_t bytes);

#endif
