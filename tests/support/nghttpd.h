/*
 * nghttpd - the server of Debian's nghttp2-server, which speaks HTTP/2 over TLS: a process of its
 * own on loopback. It answers a GET with a file, and a POST with what it got.
 */
#ifndef MILLIGPU_TESTS_SUPPORT_NGHTTPD_H
#define MILLIGPU_TESTS_SUPPORT_NGHTTPD_H

#include <sys/types.h>

#include "milligpu/base/base.h"

struct nghttpd {
    pid_t pid;
    unsigned port;
};

/*
 * With FOLDER/server.key and .crt, the files of htdocs, and this many streams per connection.
 * Returns when it takes connections; false: the program is not there.
 */
bool nghttpd_start(struct nghttpd *out, const char *folder, const char *htdocs,
                   unsigned streams) MUST_USE;
void nghttpd_kill(const struct nghttpd *server);

#endif
