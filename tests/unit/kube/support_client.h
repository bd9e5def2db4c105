/*
 * support_client - kube_curl, by libcurl or by frames, against one TLS server on loopback, and the
 * answers it received.
 */
#ifndef MILLIGPU_TESTS_UNIT_KUBE_SUPPORT_CLIENT_H
#define MILLIGPU_TESTS_UNIT_KUBE_SUPPORT_CLIENT_H

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"

struct client {
    bool by_frames;   /* kube_calls_new() instead of kube_curl_new() */
    const char *path; /* of the server's address; NULL: none */
    const char *user; /* of the kubeconfig; NULL: a token */
    char folder[64];  /* holds ca.crt, and server.crt and server.key for the server */
    struct kube_config *config;
    struct kube_ops ops;
    struct strbuf text; /* all answers, concatenated */
    unsigned done;
    unsigned failed;
    unsigned unsent;
    int status;
    int64_t retry_after_s;
    unsigned heads;
    unsigned begun;
};

/* Makes a folder of its own with the certificates. */
void client_init(struct client *client);
/* A path in that folder; valid until the call after the next. */
const char *client_at(const struct client *client, const char *name);
void client_connect(struct client *client, unsigned port);
/* GET /version, or POST if there is a body. */
void client_begin(struct client *client, uint64_t id, const char *body, int64_t timeout_ms);
void client_get(struct client *client, uint64_t id, const char *path, int64_t timeout_ms);
/* The same, and polls until all requests so far have ended. */
void client_ask(struct client *client, uint64_t id, const char *body, int64_t timeout_ms);
/* Takes in answers, waiting wait_ms at most. */
void client_poll(struct client *client, int wait_ms);
/* Polls until this many requests have ended, which must take less than half a minute. */
void client_until(struct client *client, unsigned ended);
void client_close(struct client *client);
/* How many sockets kube_curl has opened so far, in the whole process. */
int64_t client_sockets(void);
/* Removes the files of client_init(); no others may be left in the folder. */
void client_remove(struct client *client);

#endif
