/* mps_clients - finds the server of a client and ends its work in bounded time. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/file.h"

#include "agent/mps/mps_clients.h"
#include "support/patience.h"
#include "support/test.h"
#include "unit/agent/support.h"

TEST(mps_pids__skip_other_lines)
{
    uint32_t pid[MPS_SERVERS_MAX];
    assert_int_equal(mps_pids_read(TEXT(""), pid), 0);
    assert_int_equal(mps_pids_read(TEXT("\n\nno\n-1\n0\n12x\n1 2\n1234567890\n \n"), pid), 0);
    assert_int_equal(mps_pids_read(TEXT("12\n  345 \nno\n999999999"), pid), 3);
    assert_int_equal(pid[0], 12);
    assert_int_equal(pid[1], 345);
    assert_int_equal(pid[2], 999999999);
    static const char many[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n";
    assert_int_equal(mps_pids_read(text_of(many), pid), MPS_SERVERS_MAX);
    assert_int_equal(pid[MPS_SERVERS_MAX - 1], MPS_SERVERS_MAX);
    assert_true(
        mps_pids_have(text_of(many), 18)); /* more clients than servers are looked through */
    assert_false(mps_pids_have(text_of(many), 19));
    assert_false(mps_pids_have(TEXT("no\n12x\n"), 0));
    assert_false(mps_pids_have(TEXT("no\n12x\n"), 12));
}

struct site {
    char dir[32];
    char program[64];
    struct mps_daemon daemon;
    struct err err;
};

/* The control program: it logs each question, and answers by these lines of a shell. */
static void answers(struct site *site, const char *lines)
{
    FILE *out = fopen(site->program, "we");
    assert_non_null(out);
    assert_true(fprintf(out, "#!/bin/sh\nread -r asked\necho \"$asked\" >>%s/asked\n%s", site->dir,
                        lines) > 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(site->program, 0700), 0);
}

static void was_asked(const struct site *site, const char *lines)
{
    char path[64];
    char *asked;
    size_t len;
    struct err err;
    (void)snprintf(path, sizeof path, "%s/asked", site->dir);
    assert_int_equal(file_read(path, 4096, &asked, &len, &err), 0);
    assert_string_equal(asked, lines);
    xfree(asked);
    assert_int_equal(remove(path), 0);
}

static int set_up(void **state)
{
    struct site *site = test_calloc(1, sizeof *site);
    folder_make(site->dir, sizeof site->dir);
    (void)snprintf(site->program, sizeof site->program, "%s/control", site->dir);
    assert_int_equal(mps_daemon_init(&site->daemon, site->program, site->dir, "GPU-a", &site->err),
                     0);
    *state = site;
    return 0;
}

static int tear_down(void **state)
{
    struct site *site = *state;
    folder_remove(site->dir);
    test_free(site);
    return 0;
}

#define SITE_TEST(name) TEST_WITH(name, struct site *site, set_up, tear_down)

SITE_TEST(mps_client__is_terminated_through_its_server)
{
    answers(site, "case $asked in\n"
                  "get_server_list) echo 10; echo 11;;\n"
                  "'get_client_list 10') echo 100;;\n"
                  "'get_client_list 11') echo 101; echo 102;;\n"
                  "esac\n");
    assert_int_equal(mps_client_terminate(&site->daemon, 102, PATIENCE_MS, &site->err), 0);
    was_asked(site, "get_server_list\nget_client_list 10\nget_client_list 11\n"
                    "terminate_client 11 102\n");
    assert_int_equal(mps_client_terminate(&site->daemon, 100, PATIENCE_MS, &site->err), 0);
    was_asked(site, "get_server_list\nget_client_list 10\nterminate_client 10 100\n");
    assert_int_equal(mps_client_terminate(&site->daemon, 103, PATIENCE_MS, &site->err),
                     -ERR_NOT_FOUND);
    assert_non_null(strstr(site->err.text, "the client 103"));
    was_asked(site, "get_server_list\nget_client_list 10\nget_client_list 11\n");
}

SITE_TEST(mps_client__fails_when_any_answer_fails)
{
    static const char *const refuses[] = {"get_server_list", "get_client_list", "terminate_client"};
    char lines[256];
    for (size_t i = 0; i < ARRAY_LEN(refuses); i++) {
        (void)snprintf(lines, sizeof lines,
                       "case $asked in\n%s*) exit 1;;\nget_server_list) echo 10;;\n"
                       "get_client_list*) echo 100;;\nesac\n",
                       refuses[i]);
        answers(site, lines);
        assert_int_equal(mps_client_terminate(&site->daemon, 100, PATIENCE_MS, &site->err),
                         -ERR_UNAVAILABLE);
    }
    site->daemon.program = "/nowhere/control";
    assert_int_equal(mps_client_terminate(&site->daemon, 100, PATIENCE_MS, &site->err),
                     -ERR_UNAVAILABLE);
}

SITE_TEST(mps_client__times_out)
{
    answers(site, "case $asked in\n"
                  "get_server_list) echo 10;;\n"
                  "get_client_list*) echo 100;;\n"
                  "*) exec sleep 600;;\n"
                  "esac\n");
    const int64_t from_ms = clock_ms();
    assert_int_equal(mps_client_terminate(&site->daemon, 100, 400, &site->err), -ERR_TIMEOUT);
    assert_true(clock_ms() - from_ms >= 390);
    assert_int_equal(mps_client_terminate(&site->daemon, 100, 0, &site->err), -ERR_TIMEOUT);
}
