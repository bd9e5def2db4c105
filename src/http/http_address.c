/*
 * Parses listen addresses of the settings: IPv4 or IPv6 with a port, or localhost, which always
 * means 127.0.0.1. Names are not resolved, because a listener must not depend on a name server.
 * Called when a listener starts, and by the checks of settings.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "http_internal.h"

static int address_wrong(struct err *err, const char *address, const char *what)
{
    must(what != NULL);
    return err_set(err, ERR_INVALID,
                   "\"%s\" %s: write an address and a port, like 127.0.0.1:8910 or [::1]:0",
                   address, what);
}

/* Parses decimal digits, 0 to 65535; false for anything else. */
static bool port_parse(const char *text, uint16_t *out)
{
    uint32_t number = 0;

    if (*text == '\0' || strlen(text) > 5)
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = number * 10 + (uint32_t)(*text - '0');
    }
    if (number > UINT16_MAX)
        return false;
    *out = (uint16_t)number;
    return true;
}

/* Copies the host without brackets; returns the colon behind it, NULL if there is none. */
static const char *address_split(const char *address, char *host, size_t bytes)
{
    const bool bracketed = address[0] == '[';
    const char *from = address + (bracketed ? 1 : 0);
    const char *to = strchr(from, bracketed ? ']' : ':');

    must(bytes > INET6_ADDRSTRLEN);
    if (to == NULL || (size_t)(to - from) >= bytes)
        return NULL;
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    if (bracketed)
        to++;
    return *to == ':' ? to : NULL;
}

static bool host_parse(const char *host, bool six, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    must(host != NULL);
    memset(out, 0, sizeof *out);
    if (six) {
        if (inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
            return false;
        memcpy(out, &v6, sizeof v6);
        return true;
    }
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4.sin_addr) != 1)
        return false;
    memcpy(out, &v4, sizeof v4);
    return true;
}

int address_parse(const char *address, struct sockaddr_storage *out, socklen_t *out_bytes,
                  struct err *err)
{
    char host[64];
    uint16_t port;

    must(out != NULL);
    const char *colon = address_split(address, host, sizeof host);
    const bool six = address[0] == '[';
    if (colon == NULL)
        return address_wrong(err, address, "has no port");
    if (!six && strchr(colon + 1, ':') != NULL)
        return address_wrong(err, address, "is an IPv6 address without brackets");
    if (!port_parse(colon + 1, &port))
        return address_wrong(err, address, "has a port that is not 0 to 65535");
    if (host[0] == '\0')
        return address_wrong(err, address, "has no address (0.0.0.0 means every one)");
    if (!host_parse(host, six, port, out))
        return address_wrong(err, address, "has a name where an IP address or localhost should be");
    *out_bytes = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return 0;
}

int http_address_check(const char *address, struct err *err)
{
    struct sockaddr_storage parsed = {0};
    socklen_t bytes;

    must(err != NULL);
    return address_parse(address, &parsed, &bytes, err);
}

bool http_address_is_loopback(const char *address)
{
    struct sockaddr_storage parsed = {0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    socklen_t bytes;
    struct err err;

    must(address != NULL);
    if (address_parse(address, &parsed, &bytes, &err) < 0)
        return false;
    if (parsed.ss_family == AF_INET) {
        memcpy(&v4, &parsed, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    memcpy(&v6, &parsed, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}
