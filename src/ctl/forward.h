/*
 * forward - runs `kubectl port-forward` to the pod of milligpud while it is needed.
 *
 * The child uses a free local port, has 20 seconds to become ready, and is ended by its pid. If
 * this process dies first, the kernel ends the child.
 *
 * One thread.
 */
#ifndef MILLIGPU_CTL_FORWARD_H
#define MILLIGPU_CTL_FORWARD_H

#include <sys/types.h>

#include "milligpu/base/err.h"

struct forward {
    pid_t pid; /* of kubectl; 0 if none */
    int out;   /* descriptor of its standard output */
    char address[64];
};

struct forward_options {
    const char *namespace;
    const char *context;    /* NULL for the current one */
    const char *kubeconfig; /* NULL for kubectl's default */
};

int forward_start(struct forward *forward, const struct forward_options *options,
                  struct err *err) MUST_USE;
void forward_stop(struct forward *forward);

/* Reads the local address from a line of kubectl's output; false if there is none. */
bool forward_read_line(const char *line, char *out, size_t bytes);

#endif
