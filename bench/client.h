/*
 * client - HTTP as kube-scheduler speaks it: keep-alive, one request at a time on a connection.
 */
#ifndef MILLIGPU_BENCH_CLIENT_H
#define MILLIGPU_BENCH_CLIENT_H

#include "milligpu/base/strbuf.h"

struct client {
    int fd;
    struct strbuf in; /* head and body of the last answer */
};

/* Loopback only. False if nobody listens. */
bool client_open(struct client *client, unsigned port) MUST_USE;
void client_close(struct client *client);

/* POST, or GET without a body. Returns the status; *out_body is borrowed until the next request. */
int client_ask(struct client *client, const char *path, struct text body, struct text *out_body);

#endif
