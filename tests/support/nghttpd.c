#include "nghttpd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "patience.h"

enum { PATH_BYTES = 4200 };

static unsigned free_port(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    must(bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
    must(getsockname(fd, (struct sockaddr *)&here, &len) == 0);
    must(close(fd) == 0);
    return ntohs(here.sin_port);
}

static bool answers(unsigned port)
{
    const struct sockaddr_in there = {.sin_family = AF_INET,
                                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                                      .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool connected = connect(fd, (const struct sockaddr *)&there, sizeof there) == 0;

    must(close(fd) == 0);
    return connected;
}

bool nghttpd_start(struct nghttpd *out, const char *folder, const char *htdocs, unsigned streams)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    char *const env[] = {path, NULL};
    char port[16], most[64], root[PATH_BYTES], key[PATH_BYTES], crt[PATH_BYTES];
    posix_spawn_file_actions_t files;
    int64_t until_ms = 0;

    out->port = free_port();
    (void)snprintf(port, sizeof port, "%u", out->port);
    (void)snprintf(most, sizeof most, "--max-concurrent-streams=%u", streams);
    (void)snprintf(root, sizeof root, "--htdocs=%s", htdocs);
    (void)snprintf(key, sizeof key, "%s/server.key", folder);
    (void)snprintf(crt, sizeof crt, "%s/server.crt", folder);
    const char *const args[] = {
        "nghttpd", "--address=127.0.0.1", "--echo-upload", most, root, port, key, crt, NULL};
    union {
        const char *const *given;
        char *const *wanted;
    } argv = {args};
    must(posix_spawn_file_actions_init(&files) == 0);
    must(posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) == 0);
    must(posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) == 0);
    must(setenv("PATH", path + 5, 1) == 0); /* where Debian puts it */
    const int failed = posix_spawnp(&out->pid, "nghttpd", &files, NULL, argv.wanted, env);
    must(posix_spawn_file_actions_destroy(&files) == 0);
    if (failed != 0)
        return false;
    while (!answers(out->port))
        must(patience_left(&until_ms));
    return true;
}

void nghttpd_kill(const struct nghttpd *server)
{
    int status;

    must(kill(server->pid, SIGKILL) == 0);
    must(waitpid(server->pid, &status, 0) == server->pid);
}
