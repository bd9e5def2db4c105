/* A listener on a Unix socket: its permissions, and the files that it replaces or leaves alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/patience.h"
#include "support/test.h"
#include "support_visit.h"

static char folder[] = "/tmp/milligpu-socket-XXXXXX";
static char path[80]; /* in a folder that does not exist */
static char listen_at[96];

static int prepare(void **state)
{
    (void)snprintf(folder, sizeof folder, "/tmp/milligpu-socket-XXXXXX");
    must(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/run/admin.sock", folder);
    (void)snprintf(listen_at, sizeof listen_at, "unix:%s", path);
    const int failed = set_up(state);
    site.rules.listen = listen_at;
    site.rules.known_hosts_only = true;
    return failed;
}

static int clean_up(void **state)
{
    char run[80];

    const int failed = tear_down(state);
    (void)snprintf(run, sizeof run, "%s/run", folder);
    (void)unlink(path);
    (void)rmdir(run);
    must(rmdir(folder) == 0);
    return failed;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, prepare, clean_up)

static void make_run(void)
{
    char run[80];

    (void)snprintf(run, sizeof run, "%s/run", folder);
    assert_int_equal(mkdir(run, 0700), 0);
}

static struct sockaddr_un address(void)
{
    struct sockaddr_un is = {.sun_family = AF_UNIX};

    memcpy(is.sun_path, path, strlen(path));
    return is;
}

static int connect_there(void)
{
    const struct sockaddr_un to = address();
    const struct timeval limit = {.tv_sec = PATIENCE_S};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0);
    must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return client_keep(fd);
    must(close(fd) == 0);
    return -1;
}

/* A socket file; fd stays open if it listens. */
static int make_socket(bool listens)
{
    const struct sockaddr_un at = address();
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0);
    must(bind(fd, (const struct sockaddr *)&at, sizeof at) == 0);
    if (listens)
        must(listen(fd, 1) == 0);
    return client_keep(fd);
}

static void assert_answers(void)
{
    const int fd = connect_there();

    assert_true(fd >= 0);
    for (int i = 0; i < 3; i++) {
        client_ask(fd, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD "abc", &answer);
        assert_status(200);
        assert_non_null(strstr(answer.data, "\r\n\r\nabc"));
    }
}

static void assert_refused(int code, const char *says)
{
    struct err err = {.code = ERR_NONE};

    assert_int_equal(http_start(&site.rules, &site.http, &err), -code);
    if (strstr(err.text, says) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", says, err.text);
    assert_null(site.http);
}

FIXTURE_TEST(socket__answers_and_is_private_to_its_user)
{
    struct stat st;
    char run[80];

    const mode_t before = umask(0);
    site_start(&site);
    (void)umask(before);
    assert_answers();
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    (void)snprintf(run, sizeof run, "%s/run", folder);
    assert_int_equal(stat(run, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    site_stop(&site);
    assert_int_equal(stat(path, &st), -1);
    assert_int_equal(errno, ENOENT);
}

FIXTURE_TEST(socket__refuses_a_host_that_is_no_loopback_name)
{
    site_start(&site);
    const int fd = connect_there();
    client_ask(fd, "GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", &answer);
    assert_status(403);
}

FIXTURE_TEST(socket__closes_idle_connections_beyond_its_limit)
{
    int fd[6];

    site.rules.threads = 1;
    site.rules.strangers = 3;
    site.rules.strangers_each = 3;
    site_start(&site);
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = connect_there();
        client_ask(fd[i], "GET /hello HTTP/1.1\r\n" HEAD, &answer);
        assert_status(200);
    }
}

FIXTURE_TEST(socket__cuts_off_a_silent_and_a_slow_client)
{
    site.rules.first_ms = 100;
    site.rules.request_ms = 100;
    site_start(&site);
    const int silent = connect_there();
    const int slow = connect_there();
    client_send(slow, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD "a");
    client_read_end(silent, &answer);
    assert_string_equal(answer.data, "");
    client_read_end(slow, &answer);
    assert_status(408);
}

FIXTURE_TEST(socket__of_a_killed_process_is_replaced)
{
    make_run();
    client_close(make_socket(true));
    assert_int_equal(connect_there(), -1);
    site_start(&site);
    assert_answers();
}

FIXTURE_TEST(socket__in_use_is_left_alone)
{
    make_run();
    (void)make_socket(true);
    assert_refused(ERR_CONFLICT, "in use by another program");
    assert_true(connect_there() >= 0);
}

/* Also when its backlog is full, so that connect() fails with EAGAIN. */
FIXTURE_TEST(socket__with_a_full_backlog_is_left_alone)
{
    int client[8];
    size_t count = 0;

    make_run();
    (void)make_socket(true);
    const struct sockaddr_un to = address();
    do {
        client[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)client_keep(client[count]);
    } while (connect(client[count++], (const struct sockaddr *)&to, sizeof to) == 0 &&
             count < ARRAY_LEN(client));
    assert_refused(ERR_CONFLICT, "in use by another program");
    assert_int_equal(access(path, F_OK), 0);
}

FIXTURE_TEST(socket__path_with_another_file_is_left_alone)
{
    make_run();
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fclose(file);
    assert_refused(ERR_CONFLICT, "is no socket");
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/nowhere", path), 0);
    assert_refused(ERR_CONFLICT, "is no socket");
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
}

FIXTURE_TEST(socket__folder_that_cannot_be_used_is_named)
{
    site.rules.listen = "unix:/nowhere/deeper/admin.sock";
    assert_refused(ERR_IO, "folder /nowhere/deeper: No such file or directory");
    site.rules.listen = "unix:/dev/null/admin.sock";
    assert_refused(ERR_IO, "/dev/null/admin.sock: Not a directory");
    site.rules.listen = "unix:/proc/admin.sock";
    assert_refused(ERR_IO, "listen on /proc/admin.sock");
    assert_int_equal(access("/proc/admin.sock", F_OK), -1);
}

FIXTURE_TEST(socket__path_must_be_absolute_and_short)
{
    struct err err;
    char longest[109];

    for (size_t i = 0; i < 4; i++) {
        static const char *const wrong[] = {"", "run/admin.sock", "/run/", "/"};
        assert_int_equal(http_socket_check(wrong[i], &err), -ERR_INVALID);
        assert_non_null(strstr(err.text, "absolute path of a file"));
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[0] = '/';
    longest[108] = '\0';
    assert_int_equal(http_socket_check(longest, &err), -ERR_INVALID);
    assert_non_null(strstr(err.text, "108 bytes"));
    assert_non_null(strstr(err.text, "at most 107"));
    longest[107] = '\0';
    assert_int_equal(http_socket_check(longest, &err), 0);
    site.rules.listen = "unix:admin.sock";
    assert_refused(ERR_INVALID, "absolute path");
}

TEST_GROUP(test_ignore_sigpipe, NULL)
