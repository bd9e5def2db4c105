/*
 * The address of a listener is an IP address and a port; anything else is refused, and the refusal
 * repeats it. An address is loopback exactly if the C library's numeric resolver gives 127.0.0.0/8
 * or ::1.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/http/http.h"

#include "support.h"

/* Uses getaddrinfo in numeric mode, which does no look-up; false if it is not an address. */
static bool resolve(const char *host, const char *port, bool *out_loopback)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &found) != 0)
        return false;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (found->ai_family == AF_INET) {
        memcpy(&v4, found->ai_addr, sizeof v4);
        *out_loopback = ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    } else {
        memcpy(&v6, found->ai_addr, sizeof v6);
        *out_loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    freeaddrinfo(found);
    return true;
}

static void accepted(char *address)
{
    const bool loopback = http_address_is_loopback(address);
    bool second = false;
    char *colon = strrchr(address, ':');
    must(colon != NULL && colon[1] != '\0' && strlen(colon + 1) <= 5);
    must(strspn(colon + 1, "0123456789") == strlen(colon + 1));
    must(strtol(colon + 1, NULL, 10) <= 65535);
    *colon = '\0';
    char *host = address;
    if (host[0] == '[') {
        must(colon[-1] == ']');
        colon[-1] = '\0';
        host++;
    }
    must(resolve(host, colon + 1, &second) && second == loopback);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(xfreep) char *address = xcalloc(size + 1, 1);
    struct err err;
    if (size > 0)
        memcpy(address, data, size);
    if (http_address_check(address, &err) == 0) {
        accepted(address);
    } else {
        must(err.code == ERR_INVALID && err.text[0] == '"');
        must(!http_address_is_loopback(address));
    }
    return 0;
}
