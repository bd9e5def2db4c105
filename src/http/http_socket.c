/*
 * Opens and removes Unix sockets. Called by http.c when a listener starts and ends. The socket has
 * mode 0600 from its creation, so no other user can connect. Invariant: a file that is no socket,
 * or a socket with a listening process, is never removed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "http_internal.h"

enum { PATH_BYTES = sizeof(((struct sockaddr_un *)NULL)->sun_path) };

const char *socket_path_of(const char *listen)
{
    static const char prefix[] = "unix:";

    must(listen != NULL);
    return strncmp(listen, prefix, strlen(prefix)) == 0 ? listen + strlen(prefix) : NULL;
}

int http_socket_check(const char *path, struct err *err)
{
    if (path[0] != '/' || path[strlen(path) - 1] == '/')
        return err_set(err, ERR_INVALID,
                       "\"%.120s\" is not the absolute path of a file, such as "
                       "/run/milligpu/admin.sock",
                       path);
    if (strlen(path) >= (size_t)PATH_BYTES)
        return err_set(err, ERR_INVALID,
                       "\"%.120s\" has %zu bytes, and the path of a socket at most %zu", path,
                       strlen(path), (size_t)PATH_BYTES - 1);
    return 0;
}

/* Creates only the last folder of the path: a missing one above it is more likely a typo. */
static int make_folder_of(const char *path, struct err *err)
{
    CLEANUP(xfreep) char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');

    must(slash != NULL);
    *slash = '\0';
    if (slash == folder || mkdir(folder, 0700) == 0 || errno == EEXIST)
        return 0;
    return err_set(err, ERR_IO, "folder %s: %m", folder);
}

/* Removes the socket of a killed process, with which bind() would fail. */
static int remove_stale(const struct sockaddr_un *address, struct err *err)
{
    const char *path = address->sun_path;
    struct stat st;

    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : err_set(err, ERR_IO, "%s: %m", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_CONFLICT, "%s is there already, and is no socket", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", path);
    const bool refused = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                         (errno == ECONNREFUSED || errno == ENOENT);
    (void)close(fd); /* nothing was sent */
    if (!refused)
        return err_set(err, ERR_CONFLICT, "%s is in use by another program", path);
    return unlink(path) == 0 || errno == ENOENT ? 0 : err_set(err, ERR_IO, "%s: %m", path);
}

int socket_open(struct http_server *http, const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    must(http->fd < 0 && !http->owns_path);
    if (http_socket_check(path, err) < 0 || make_folder_of(path, err) < 0)
        return -(int)err->code;
    memcpy(address.sun_path, path, strlen(path));
    if (remove_stale(&address, err) < 0)
        return -(int)err->code;
    http->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Linux creates the file with the socket's mode, so it is never open to others. */
    if (http->fd < 0 || fchmod(http->fd, 0600) != 0 ||
        bind(http->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return err_set(err, errno == EADDRINUSE ? ERR_CONFLICT : ERR_IO, "listen on %s: %m", path);
    http->owns_path = true;
    if (listen(http->fd, LISTEN_BACKLOG) != 0)
        return err_set(err, ERR_IO, "listen on %s: %m", path);
    return 0;
}

void socket_remove(struct http_server *http)
{
    if (http->owns_path)
        (void)unlink(socket_path_of(http->rules.listen)); /* may be removed already */
    http->owns_path = false;
}
