/*
 * support_h2 - an HTTP/2 server over TLS on loopback that sends the frames of its test: one thread,
 * one connection at a time.
 */
#ifndef MILLIGPU_TESTS_UNIT_KUBE_SUPPORT_H2_H
#define MILLIGPU_TESTS_UNIT_KUBE_SUPPORT_H2_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <gnutls/gnutls.h>

#include "milligpu/base/text.h"

#include "support_client.h"

enum { PREFACE_BYTES = 24, FRAME_HEAD_BYTES = 9 };
enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RST = 3, FRAME_SETTINGS = 4, FRAME_GOAWAY = 7 };
enum { FLAG_ACK = 1, FLAG_END = 1, FLAG_END_HEADERS = 4 };

/* HPACK: ":status: 200"; ":status: 429", "retry-after: 1"; ":status: 201" */
#define HEAD_200 "\x88"
#define HEAD_429                                                                                   \
    "\x08\x03"                                                                                     \
    "429\x0f\x26\x01"                                                                              \
    "1"
#define HEAD_201                                                                                   \
    "\x08\x03"                                                                                     \
    "201"

struct h2_server {
    /* Serves one connection until it is of no more use. */
    void (*converse)(void *user, gnutls_session_t session);
    void *user;
    bool abruptly; /* end connections by a reset */
    bool http1;    /* do not offer HTTP/2 */

    int listener;
    unsigned port;
    pthread_t thread;
    gnutls_certificate_credentials_t credentials;
};

/* Frames in sequence: those sent together fill one TLS record of up to 16 KiB. */
struct h2_frames {
    unsigned char bytes[16 * 1024];
    size_t len;
};

/* converse and user are set; the certificate comes from the client's folder. */
void h2_start(struct h2_server *server, const struct client *client);
void h2_stop(struct h2_server *server);

/* The beginning of a fixture. */
struct h2_pair {
    struct client client;
    struct h2_server server;
};

void h2_pair_done(struct h2_pair *pair);

struct h2_head {
    unsigned type;
    unsigned flags;
    unsigned stream;
    struct text payload; /* valid during the call of take */
};

/*
 * The server's side of a connection: takes the preface, sends these settings, then takes frames,
 * and acknowledges settings, until take returns false or the peer is gone.
 */
void h2_take_frames(gnutls_session_t session, struct text settings, void *user,
                    bool (*take)(void *user, gnutls_session_t session, const struct h2_head *head));

/* False: the peer is gone. */
bool h2_take(gnutls_session_t session, unsigned char *out, size_t count);
void h2_frame(struct h2_frames *frames, unsigned type, unsigned flags, unsigned stream,
              struct text payload);
void h2_send_frames(gnutls_session_t session, struct h2_frames *frames);
void h2_give(gnutls_session_t session, unsigned type, unsigned flags, unsigned stream,
             struct text payload);

#endif
