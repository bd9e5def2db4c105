/*
 * Runs kubectl as a child and waits for its end. Called by commands and selector.c in the only
 * thread; forward.c runs its kubectl in the background instead. A second pipe, which is closed by a
 * successful exec, reports a failed exec to the parent.
 */
#include "kubectl.h"

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
    RUN_MS_MAX = 60000, /* long enough for a login of kubectl */
    /* poll interval; END_LOOKS of them are two seconds from the end of its output to its exit */
    END_LOOK_MS = 20,
    END_LOOKS = 100,
};

void kubectl_begin(struct kubectl *out, const char *context, const char *kubeconfig)
{
    *out = (struct kubectl){.said_max = KUBECTL_SAID_MAX};
    kubectl_add(out, "kubectl");
    if (context != NULL) {
        kubectl_add(out, "--context");
        kubectl_add(out, context);
    }
    if (kubeconfig != NULL) {
        kubectl_add(out, "--kubeconfig");
        kubectl_add(out, kubeconfig);
    }
    must(out->n_words > 0);
}

void kubectl_add(struct kubectl *kubectl, const char *word)
{
    must(word != NULL);
    must(kubectl->n_words < KUBECTL_WORDS_MAX);
    kubectl->word[kubectl->n_words++] = word;
    kubectl->word[kubectl->n_words] = NULL;
}

/* In single quotes, unless no character is special to any shell. */
static void put_word(struct strbuf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=,@%+";

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        strbuf_str(out, word);
        return;
    }
    strbuf_char(out, '\'');
    for (; *word != '\0'; word++)
        if (*word == '\'')
            strbuf_str(out, "'\\''");
        else
            strbuf_char(out, *word);
    strbuf_char(out, '\'');
}

void kubectl_line(struct strbuf *out, const struct kubectl *kubectl)
{
    must(kubectl->n_words > 0);
    for (size_t i = 0; i < kubectl->n_words; i++) {
        if (i > 0)
            strbuf_char(out, ' ');
        put_word(out, kubectl->word[i]);
    }
}

void kubectl_print(FILE *out, const struct kubectl *kubectl)
{
    CLEANUP(strbuf_done) struct strbuf line;

    strbuf_init(&line);
    kubectl_line(&line, kubectl);
    (void)fprintf(out, "%s\n", line.data);
}

struct kubectl_child {
    pid_t pid;
    int out;    /* read end of its standard output */
    int failed; /* read end of the pipe with the errno of a failed exec */
};

/* Runs between fork and exec; never returns. */
static _Noreturn void become(const struct kubectl *kubectl, int out, int failed, pid_t parent)
{
    char *const *list;
    const void *untyped = kubectl->word;

    /* Ends with the parent; getppid() covers a parent that exited before prctl(). */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(126);
    if (dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    if (kubectl->quiet) {
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0)
            _exit(126);
    }
    memcpy(&list, &untyped, sizeof list); /* exec does not modify the strings */
    (void)execvp(list[0], list);          /* returns on failure only */
    const int why = errno;
    (void)!write(failed, &why, sizeof why);
    _exit(127);
}

static int start_child(const struct kubectl *kubectl, struct kubectl_child *child, struct err *err)
{
    int out[2];
    int failed[2];
    const pid_t self = getpid();

    if (pipe2(out, O_CLOEXEC) != 0)
        return err_set(err, ERR_IO, "pipe: %m");
    if (pipe2(failed, O_CLOEXEC) != 0) {
        (void)close(out[0]);
        (void)close(out[1]);
        return err_set(err, ERR_IO, "pipe: %m");
    }
    child->pid = fork();
    if (child->pid == 0)
        become(kubectl, out[1], failed[1], self);
    (void)close(out[1]); /* write ends of the child */
    (void)close(failed[1]);
    child->out = out[0];
    child->failed = failed[0];
    if (child->pid >= 0)
        return 0;
    (void)close(child->out);
    (void)close(child->failed);
    return err_set(err, ERR_IO, "fork: %m");
}

/* Reads until the child closes its output; fails at the limit of time or size. */
static int read_output(const struct kubectl_child *child, size_t most, struct strbuf *said,
                       struct err *err)
{
    struct clock_ops clock;
    char bytes[4096];

    clock_real(&clock);
    const int64_t until_ms = clock.now_ms(clock.ctx) + RUN_MS_MAX;
    while (said->len < most) {
        struct pollfd ready = {.fd = child->out, .events = POLLIN};
        const int64_t left_ms = until_ms - clock.now_ms(clock.ctx);
        const int polled = left_ms > 0 ? poll(&ready, 1, (int)left_ms) : 0;
        if (polled == 0)
            return err_set(err, ERR_TIMEOUT, "kubectl did not end within %d s", RUN_MS_MAX / 1000);
        if (polled < 0 && errno == EINTR)
            continue;
        const ssize_t got = read(child->out, bytes, sizeof bytes);
        if (got <= 0)
            return 0;
        strbuf_add(said, bytes, (size_t)got);
    }
    return err_set(err, ERR_TOO_LARGE, "kubectl printed more than %zu bytes", most);
}

/* Waits for the child's exit; with wanted false, kills it immediately. */
static int end_child(const struct kubectl_child *child, bool wanted)
{
    int status = -1;
    pid_t found = 0;

    must(child->pid > 0);
    for (int i = 0; wanted && found == 0 && i < END_LOOKS; i++) {
        found = waitpid(child->pid, &status, WNOHANG);
        if (found == 0)
            (void)poll(NULL, 0, END_LOOK_MS); /* an early wake-up does no harm */
    }
    if (found != 0)
        return status;
    (void)kill(child->pid, SIGKILL);
    (void)waitpid(child->pid, &status, 0); /* SIGKILL cannot be blocked */
    return status;
}

int kubectl_run(const struct kubectl *kubectl, struct strbuf *said, struct err *err)
{
    struct kubectl_child child = {0};
    int why = 0;

    must(kubectl->n_words > 1);
    if (start_child(kubectl, &child, err) < 0)
        return err_same(err);
    const int read_rc = read_output(&child, kubectl->said_max, said, err);
    const int status = end_child(&child, read_rc == 0);
    const bool started = read(child.failed, &why, sizeof why) != sizeof why;
    (void)close(child.failed);
    (void)close(child.out); /* read-only */
    if (!started && why == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no kubectl in PATH");
    if (!started)
        return err_set(err, ERR_IO, "kubectl cannot be started: %s", strerrordesc_np(why));
    if (read_rc < 0)
        return read_rc;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_UNAVAILABLE, "kubectl failed; its message is above");
    return 0;
}
