/*
 * support_client - kube_curl against one TLS server on loopback, and what it heard of it.
 */
#ifndef MILLIGPU_TESTS_UNIT_KUBE_SUPPORT_CLIENT_H
#define MILLIGPU_TESTS_UNIT_KUBE_SUPPORT_CLIENT_H

#include "milligpu/kube.h"
#include "milligpu/strbuf.h"

struct client {
    char folder[64]; /* with ca.crt, and server.crt and server.key for the server */
    struct kube_config *config;
    struct kube_ops ops;
    struct strbuf text; /* all answers, one behind the other */
    unsigned done;
    unsigned failed;
    unsigned unsent;
    int status;
};

/* A folder of its own with the certificates. */
void client_init(struct client *client);
/* A path in its folder; good until the call after the next. */
const char *client_at(const struct client *client, const char *name);
void client_connect(struct client *client, unsigned port);
/* GET /version, or where there is a body POST. */
void client_begin(struct client *client, uint64_t id, const char *body, int64_t timeout_ms);
void client_get(struct client *client, uint64_t id, const char *path, int64_t timeout_ms);
/* Hears what came, for so long at most. */
void client_poll(struct client *client, int wait_ms);
/* Until so many have ended, which they do within half a minute. */
void client_until(struct client *client, unsigned ended);
void client_close(struct client *client);
/* What client_init() made goes; nothing else may be left there. */
void client_remove(struct client *client);

#endif
