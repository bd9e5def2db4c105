/*
 * Runs `kubectl port-forward` as a child and reads the local port from its first line. Called by
 * ctl_base() only as a kubectl plugin without a given server. kubectl's errors go to standard error
 * unchanged.
 */
#include "forward.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/run/clock.h"

enum {
    WAIT_MS_MAX = 20000, /* long enough for a login of kubectl */
    SAID_BYTES_MAX = 1024,
    ARGUMENTS_MAX = 16,
    /* poll interval; STOP_LOOKS of them are two seconds between SIGTERM and SIGKILL */
    STOP_LOOK_MS = 20,
    STOP_LOOKS = 100,
};

/*
 * Reads "Forwarding from 127.0.0.1:43211 -> 8911". The blank after the digits proves that the
 * number is complete, since a read from a pipe can end within a line.
 */
bool forward_read_line(const char *line, char *out, size_t bytes)
{
    static const char sign[] = "Forwarding from 127.0.0.1:";
    const char *at = strstr(line, sign);

    must(bytes > sizeof "127.0.0.1:65535");
    if (at == NULL)
        return false;
    at += strlen(sign);
    const size_t digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 5 || at[digits] != ' ')
        return false;
    (void)snprintf(out, bytes, "127.0.0.1:%.*s", (int)digits, at);
    return true;
}

/* ":8911" makes kubectl choose a free local port, so that several commands can run at once. */
static void fill_arguments(const struct forward_options *options, const char **argument)
{
    size_t count = 0;

    must(options->namespace != NULL);
    argument[count++] = "kubectl";
    if (options->context != NULL) {
        argument[count++] = "--context";
        argument[count++] = options->context;
    }
    if (options->kubeconfig != NULL) {
        argument[count++] = "--kubeconfig";
        argument[count++] = options->kubeconfig;
    }
    argument[count++] = "--namespace";
    argument[count++] = options->namespace;
    argument[count++] = "port-forward";
    /* The workload and not a Service: the admin port is on loopback and in no Service. */
    argument[count++] = "statefulset/milligpu";
    argument[count++] = ":8911";
    argument[count] = NULL;
    must(count < ARGUMENTS_MAX);
}

/*
 * Runs between fork and exec; never returns. The signal on the parent's death ends the tunnel to
 * the admin port if milligpuctl is killed.
 */
static _Noreturn void become_kubectl(const struct forward_options *options, int out, pid_t parent)
{
    const char *argument[ARGUMENTS_MAX];
    char *const *list;

    must(parent > 0);
    fill_arguments(options, argument);
    /* Ends with the parent; getppid() covers a parent that exited before prctl(). */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(126);
    if (dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    const void *untyped = argument;
    memcpy(&list, &untyped, sizeof list); /* exec does not modify the strings */
    (void)execvp("kubectl", list);        /* returns on failure only */
    (void)dprintf(STDERR_FILENO, "kubectl: %m\n");
    _exit(127);
}

static int wait_for_address(struct forward *forward, struct err *err)
{
    struct clock_ops clock;
    char said[SAID_BYTES_MAX + 1] = "";
    size_t bytes = 0;

    clock_real(&clock);
    const int64_t until_ms = clock.now_ms(clock.ctx) + WAIT_MS_MAX;
    must(forward->out >= 0);
    while (bytes < SAID_BYTES_MAX) {
        struct pollfd ready = {.fd = forward->out, .events = POLLIN};
        const int64_t left_ms = until_ms - clock.now_ms(clock.ctx);
        const int polled = left_ms > 0 ? poll(&ready, 1, (int)left_ms) : 0;
        if (polled == 0)
            return err_set(err, ERR_TIMEOUT, "kubectl port-forward was not ready within %d s",
                           WAIT_MS_MAX / 1000);
        if (polled < 0 && errno == EINTR)
            continue;
        const ssize_t got = read(forward->out, said + bytes, SAID_BYTES_MAX - bytes);
        if (got <= 0)
            break;
        bytes += (size_t)got;
        said[bytes] = '\0';
        if (forward_read_line(said, forward->address, sizeof forward->address))
            return 0;
    }
    return err_set(err, ERR_UNAVAILABLE,
                   "kubectl port-forward did not start; its message is above (or name the "
                   "listener: --server ADDRESS)");
}

/* A failure leaves no child. */
int forward_start(struct forward *forward, const struct forward_options *options, struct err *err)
{
    int ends[2];
    const pid_t self = getpid();

    must(forward->pid == 0);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, ERR_IO, "pipe: %m");
    forward->pid = fork();
    if (forward->pid == 0)
        become_kubectl(options, ends[1], self);
    (void)close(ends[1]); /* the child's write end */
    forward->out = ends[0];
    if (forward->pid < 0) {
        forward->pid = 0;
        (void)close(ends[0]);
        return err_set(err, ERR_IO, "fork: %m");
    }
    const int status = wait_for_address(forward, err);
    if (status < 0)
        forward_stop(forward);
    return status;
}

/* True if the child has ended; reaps it. */
static bool has_ended(pid_t pid)
{
    pid_t found;

    must(pid > 0);
    do {
        found = waitpid(pid, NULL, WNOHANG);
    } while (found < 0 && errno == EINTR);
    return found != 0;
}

void forward_stop(struct forward *forward)
{
    bool ended = false;

    must(forward->pid >= 0);
    if (forward->pid == 0)
        return;
    (void)kill(forward->pid, SIGTERM); /* no effect on a child that already ended */
    for (int i = 0; i < STOP_LOOKS && !(ended = has_ended(forward->pid)); i++)
        (void)poll(NULL, 0, STOP_LOOK_MS); /* an early wake-up does no harm */
    if (!ended) {
        (void)kill(forward->pid, SIGKILL);
        (void)waitpid(forward->pid, NULL, 0); /* SIGKILL cannot be blocked */
    }
    (void)close(forward->out); /* read-only */
    forward->pid = 0;
}
