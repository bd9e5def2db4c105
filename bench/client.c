#include "client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024, TIMEOUT_S = 60 };

bool client_open(struct client *client, unsigned port)
{
    const struct sockaddr_in here = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port),
                                     .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int yes = 1;
    const struct timeval limit = {.tv_sec = TIMEOUT_S};

    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(client->fd >= 0);
    strbuf_init(&client->in);
    if (connect(client->fd, (const struct sockaddr *)&here, sizeof here) != 0) {
        client_close(client);
        return false;
    }
    must(setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
    must(setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    return true;
}

void client_close(struct client *client)
{
    must(close(client->fd) == 0);
    strbuf_done(&client->in);
    client->fd = -1;
}

static void send_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        const ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        must(sent > 0);
        at += sent;
        len -= (size_t)sent;
    }
}

static void receive(struct client *client)
{
    static _Thread_local char chunk[CHUNK];
    const ssize_t got = recv(client->fd, chunk, sizeof chunk, 0);

    must(got > 0);
    strbuf_add(&client->in, chunk, (size_t)got);
}

static size_t content_length(const char *head)
{
    const char *at = strcasestr(head, "\r\nContent-Length:");

    must(at != NULL);
    return strtoul(at + strlen("\r\nContent-Length:"), NULL, 10);
}

int client_ask(struct client *client, const char *path, struct text body, struct text *out_body)
{
    char head[512];
    const char *end;

    const int len =
        snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 body.len > 0 ? "POST" : "GET", path, body.len);
    must(len > 0 && (size_t)len < sizeof head);
    send_all(client->fd, head, (size_t)len);
    send_all(client->fd, body.at, body.len);
    strbuf_reset(&client->in);
    while ((end = strstr(client->in.data, "\r\n\r\n")) == NULL)
        receive(client);
    const size_t from = (size_t)(end - client->in.data) + 4;
    const size_t bytes = content_length(client->in.data);
    while (client->in.len < from + bytes)
        receive(client);
    must(client->in.len == from + bytes);
    *out_body = (struct text){client->in.data + from, bytes};
    return (int)strtol(client->in.data + strlen("HTTP/1.1 "), NULL, 10);
}
