#include "support_h2.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

bool h2_take(gnutls_session_t session, unsigned char *out, size_t count)
{
    while (count > 0) {
        const ssize_t got = gnutls_record_recv(session, out, count);
        if (got <= 0)
            return false;
        out += got;
        count -= (size_t)got;
    }
    return true;
}

void h2_frame(struct h2_frames *frames, unsigned type, unsigned flags, unsigned stream,
              struct text payload)
{
    const unsigned char head[FRAME_HEAD_BYTES] = {0,
                                                  (unsigned char)(payload.len >> 8),
                                                  (unsigned char)payload.len,
                                                  (unsigned char)type,
                                                  (unsigned char)flags,
                                                  0,
                                                  0,
                                                  0,
                                                  (unsigned char)stream};

    assert_true(frames->len + sizeof head + payload.len <= sizeof frames->bytes);
    assert_true(stream <= UINT8_MAX);
    memcpy(frames->bytes + frames->len, head, sizeof head);
    if (payload.len > 0)
        memcpy(frames->bytes + frames->len + sizeof head, payload.at, payload.len);
    frames->len += sizeof head + payload.len;
}

void h2_send_frames(gnutls_session_t session, struct h2_frames *frames)
{
    (void)gnutls_record_send(session, frames->bytes, frames->len); /* the peer may be gone */
    frames->len = 0;
}

void h2_give(gnutls_session_t session, unsigned type, unsigned flags, unsigned stream,
             struct text payload)
{
    struct h2_frames frames = {.len = 0};

    h2_frame(&frames, type, flags, stream, payload);
    h2_send_frames(session, &frames);
}

static void serve_one(struct h2_server *server, int fd)
{
    static const gnutls_datum_t h2 = {(unsigned char *)(uintptr_t) "h2", 2};
    static const struct linger abruptly = {1, 0};
    gnutls_session_t session;

    assert_int_equal(gnutls_init(&session, GNUTLS_SERVER), 0);
    assert_int_equal(gnutls_set_default_priority(session), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, server->credentials),
                     0);
    if (!server->http1)
        assert_int_equal(gnutls_alpn_set_protocols(session, &h2, 1, 0), 0);
    gnutls_transport_set_int(session, fd);
    if (gnutls_handshake(session) == 0)
        server->converse(server->user, session);
    if (server->abruptly) /* a reset, not an orderly end */
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &abruptly, sizeof abruptly);
    gnutls_deinit(session);
    (void)close(fd);
}

static void *h2_serve(void *arg)
{
    struct h2_server *server = arg;
    int fd;

    while ((fd = accept(server->listener, NULL, NULL)) >= 0)
        serve_one(server, fd);
    return NULL;
}

void h2_start(struct h2_server *server, const struct client *client)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;

    assert_int_equal(gnutls_certificate_allocate_credentials(&server->credentials), 0);
    assert_int_equal(
        gnutls_certificate_set_x509_key_file(server->credentials, client_at(client, "server.crt"),
                                             client_at(client, "server.key"), GNUTLS_X509_FMT_PEM),
        0);
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&here, &len), 0);
    assert_int_equal(listen(server->listener, 8), 0);
    server->port = ntohs(here.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, h2_serve, server), 0);
}

void h2_stop(struct h2_server *server)
{
    (void)shutdown(server->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    (void)close(server->listener);
    gnutls_certificate_free_credentials(server->credentials);
}

void h2_take_frames(gnutls_session_t session, struct text settings, void *user,
                    bool (*take)(void *user, gnutls_session_t session, const struct h2_head *head))
{
    unsigned char bytes[FRAME_HEAD_BYTES];
    unsigned char payload[1024];

    if (!h2_take(session, payload, PREFACE_BYTES))
        return;
    h2_give(session, FRAME_SETTINGS, 0, 0, settings);
    while (h2_take(session, bytes, sizeof bytes)) {
        const size_t len = (size_t)bytes[1] << 8 | bytes[2];
        const struct h2_head head = {bytes[3], bytes[4], bytes[8], {(const char *)payload, len}};
        assert_true(len <= sizeof payload);
        if (len > 0 && !h2_take(session, payload, len))
            return;
        if (head.type == FRAME_SETTINGS && head.flags != FLAG_ACK)
            h2_give(session, FRAME_SETTINGS, FLAG_ACK, 0, TEXT(""));
        if (!take(user, session, &head))
            return;
    }
}

void h2_pair_done(struct h2_pair *pair)
{
    client_close(&pair->client);
    h2_stop(&pair->server);
    client_remove(&pair->client);
}
