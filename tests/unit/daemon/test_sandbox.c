/* The rights of a process in the sandbox, each tried in a child of its own. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/sandbox.h"
#include "support/test.h"

enum { SHUT = 40, WRONG = 41 };

static void *nothing(void *user)
{
    return user;
}

/* The exit status of a child that enters the sandbox and then does this; a signal adds 128. */
static int tried(int (*act)(void))
{
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct err err;
        (void)fclose(stderr);
        if (sandbox_calls(&err) < 0)
            _exit(WRONG);
        _exit(act());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int shut(long result)
{
    return result == -1 && errno == ENOSYS ? SHUT : WRONG;
}

static int execute(void)
{
    char *const argv[] = {(char[]){"/bin/true"}, NULL};

    return shut(execv(argv[0], argv));
}

static int make_a_process(void)
{
    const pid_t child = fork();

    if (child == 0)
        _exit(0);
    return shut(child);
}

static int trace(void)
{
    return shut(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int load_a_program_into_the_kernel(void)
{
    return shut(syscall(SYS_bpf, 0, NULL, 0));
}

static int read_anothers_memory(void)
{
    return shut(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
}

static int send_raw_packets(void)
{
    return shut(socket(AF_PACKET, SOCK_RAW, 0));
}

static int be_readable_again(void)
{
    return shut(prctl(PR_SET_DUMPABLE, 1));
}

TEST(sandbox__blocks_unneeded_system_calls)
{
    if (!SANDBOX_BUILT)
        skip();
    assert_int_equal(tried(execute), SHUT);
    assert_int_equal(tried(make_a_process), SHUT);
    assert_int_equal(tried(trace), SHUT);
    assert_int_equal(tried(load_a_program_into_the_kernel), SHUT);
    assert_int_equal(tried(read_anothers_memory), SHUT);
    assert_int_equal(tried(send_raw_packets), SHUT);
    assert_int_equal(tried(be_readable_again), SHUT);
}

static int start_a_thread(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0
               ? 0
               : WRONG;
}

static int listen_and_call(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return bind(server, (struct sockaddr *)&here, len) == 0 && listen(server, 1) == 0 &&
                   getsockname(server, (struct sockaddr *)&here, &len) == 0 &&
                   connect(client, (struct sockaddr *)&here, len) == 0
               ? 0
               : WRONG;
}

static int write_a_file(void)
{
    char name[] = "/tmp/milligpu-sandbox-XXXXXX";
    const int fd = mkstemp(name);

    return fd >= 0 && write(fd, "x", 1) == 1 && fsync(fd) == 0 && unlink(name) == 0 ? 0 : WRONG;
}

static int die_of_a_bug(void)
{
    abort();
}

TEST(sandbox__allows_the_calls_of_the_daemon)
{
    assert_int_equal(tried(start_a_thread), 0);
    assert_int_equal(tried(listen_and_call), 0);
    assert_int_equal(tried(write_a_file), 0);
    assert_int_equal(tried(die_of_a_bug), 128 + SIGABRT);
}

static void *wait_and_execute(void *user)
{
    const int *go = user;
    char byte;

    if (read(go[0], &byte, 1) != 1)
        _exit(WRONG);
    _exit(execute());
}

TEST(sandbox__covers_running_threads)
{
    if (!SANDBOX_BUILT)
        skip();
    const pid_t child = fork();
    if (child == 0) {
        struct err err;
        int go[2];
        pthread_t thread;
        if (pipe(go) < 0 || pthread_create(&thread, NULL, wait_and_execute, go) != 0 ||
            sandbox_calls(&err) < 0 || write(go[1], "x", 1) != 1)
            _exit(WRONG);
        (void)pthread_join(thread, NULL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), SHUT);
}

TEST(sandbox__makes_memory_unreadable_for_the_same_user)
{
    if (!SANDBOX_BUILT)
        skip();
    struct err err;
    assert_int_equal(sandbox_memory(&err), 0);
    assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
}
