/*
 * kube_exec - runs an exec plugin and reads the ExecCredential that it prints. kube_auth.c calls it
 * in a thread of its own, without a lock; the plugin's description does not change meanwhile,
 * except for stop. The plugin gets an empty stdin, no files of ours and EXEC_TIMEOUT_MS in all, and
 * it leads a process group, so that it can be killed with its children. The order: start, read both
 * pipes until they end, await the exit, judge the status, decode.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/alloc.h"
#include "milligpu/doc.h"
#include "milligpu/wire_kube.h"

#include "kube/config.h"

/* A child with its two pipes. */
struct child {
    pid_t pid;
    /* monotonic */
    int64_t deadline_ms;
    /* the read ends of the pipes for stdout and stderr; -1: closed */
    int out;
    int complaints;
    struct strbuf text;
    struct strbuf said; /* from stderr, for the error text */
};

enum {
    SAID_BYTES_MAX = 256,
    /* longest time until a request to stop is seen */
    STOP_LOOK_MS = 100,
    END_LOOK_MS = 5, /* it exits right after its last byte, or it lingers */
};

static int64_t kube_exec_clock_now_ms(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void kube_exec_close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* a pipe that was only read */
    *fd = -1;
}

/* The plugin's variables come last and must win: an older value of the same name is removed. */
static bool is_replaced(const struct exec_plugin *plugin, const char *entry)
{
    must(plugin->command != NULL);
    static const char info[] = "KUBERNETES_EXEC_INFO=";
    const size_t name = strcspn(entry, "=") + 1;

    if (strncmp(entry, info, sizeof info - 1) == 0)
        return true;
    for (uint32_t i = 0; i < plugin->envs; i++)
        if (strncmp(plugin->env[i], entry, name) == 0)
            return true;
    return false;
}

/* The entries are borrowed from environ, plugin and info; only the list is the caller's. */
static char **make_environment(const struct exec_plugin *plugin, char *info)
{
    size_t count = 0;
    size_t made = 0;

    while (environ[count] != NULL)
        count++;
    char **list = xcalloc(count + plugin->envs + 2, sizeof *list);
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(plugin, environ[i]))
            list[made++] = environ[i];
    for (uint32_t i = 0; i < plugin->envs; i++)
        list[made++] = plugin->env[i];
    list[made++] = info;
    must(made <= count + plugin->envs + 1);
    return list;
}

/*
 * The child inherits nothing: no files, no blocked or ignored signals; its process group can be
 * killed.
 */
static int kube_exec_spawn(const struct exec_plugin *plugin, const char *program,
                           const int pipes[4], pid_t *out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigset_t all;
    char *argv[EXEC_ARGS_MAX + 2] = {plugin->command};

    must(plugin->args <= EXEC_ARGS_MAX);
    memcpy(argv + 1, plugin->arg, plugin->args * sizeof plugin->arg[0]);
    CLEANUP(xfreep) char *info = NULL;
    struct strbuf text;
    strbuf_init(&text);
    strbuf_printf(&text, "KUBERNETES_EXEC_INFO=%s", plugin->info);
    info = strbuf_steal(&text);
    CLEANUP(xfreep) char **envp = make_environment(plugin, info);

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&how);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                       POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, pipes[1], 1);
    posix_spawn_file_actions_adddup2(&files, pipes[3], 2);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    const int rc = posix_spawnp(out, program, &files, &how, argv, envp);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return rc;
}

/*
 * A relative command with a slash belongs to the kubeconfig's folder, as in client-go; a bare name
 * is looked up in PATH. After a failure the caller closes the pipes.
 */
static int child_start(const struct exec_plugin *plugin, struct child *child, struct err *err)
{
    int pipes[4] = {-1, -1, -1, -1};
    CLEANUP(xfreep) char *program = NULL;
    struct strbuf path;

    strbuf_init(&path);
    if (strchr(plugin->command, '/') != NULL && plugin->command[0] != '/')
        strbuf_printf(&path, "%s/", plugin->folder);
    strbuf_str(&path, plugin->command);
    program = strbuf_steal(&path);

    int rc = pipe2(pipes, O_CLOEXEC) < 0 || pipe2(pipes + 2, O_CLOEXEC) < 0 ? errno : 0;
    if (rc == 0)
        rc = kube_exec_spawn(plugin, program, pipes, &child->pid);
    /* The child has copies; while these are open, its pipes never end. */
    kube_exec_close_fd(&pipes[1]);
    kube_exec_close_fd(&pipes[3]);
    child->out = pipes[0];
    child->complaints = pipes[2];
    if (rc == 0)
        return 0;
    errno = rc;
    return err_set(err, rc == EAGAIN ? ERR_UNAVAILABLE : ERR_INVALID, "%s: %m%s%s", program,
                   plugin->hint[0] != '\0' ? "; " : "", plugin->hint);
}

/*
 * Returns false at the end of the pipe. Bytes beyond max are read and dropped, because a plugin
 * that finds its pipe full would wait forever.
 */
static bool kube_exec_drain(int *fd, struct strbuf *into, size_t max)
{
    char bytes[4096];
    const ssize_t got = read(*fd, bytes, sizeof bytes);

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got <= 0) {
        kube_exec_close_fd(fd);
        return false;
    }
    if (into->len <= max)
        strbuf_add(into, bytes, (size_t)got);
    return true;
}

/* How long it may still take; negative: its time is over. */
static int64_t child_may(const struct child *child, const atomic_bool *stop, struct err *err)
{
    must(child->deadline_ms > 0);
    const int64_t left = child->deadline_ms - kube_exec_clock_now_ms();

    if (left <= 0)
        return err_set(err, ERR_TIMEOUT, "no end after %d s", EXEC_TIMEOUT_MS / 1000);
    if (atomic_load(stop))
        return err_set(err, ERR_UNAVAILABLE, "stopping");
    return left;
}

/*
 * Both pipes at once, for the same reason. poll() ignores the negative descriptor of a pipe that
 * has ended. A process that the plugin left behind with an open pipe counts as the plugin.
 */
static int child_read(struct child *child, const atomic_bool *stop, struct err *err)
{
    must(child->text.data != NULL);

    while (child->out >= 0 || child->complaints >= 0) {
        struct pollfd fds[2] = {{.fd = child->out, .events = POLLIN},
                                {.fd = child->complaints, .events = POLLIN}};
        const int64_t left = child_may(child, stop, err);
        if (left < 0)
            return -1;
        if (poll(fds, 2, left < STOP_LOOK_MS ? (int)left : STOP_LOOK_MS) < 0 && errno != EINTR)
            return err_set(err, ERR_IO, "poll: %m");
        if (fds[0].revents != 0)
            kube_exec_drain(&child->out, &child->text, EXEC_BYTES_MAX);
        if (fds[1].revents != 0)
            kube_exec_drain(&child->complaints, &child->said, SAID_BYTES_MAX);
        if (child->text.len > EXEC_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE, "more than %d bytes of answer", EXEC_BYTES_MAX);
    }
    return 0;
}

/*
 * A plugin that has closed both pipes may still run. waitpid() has no time limit, hence the loop.
 */
static int child_await(const struct child *child, const atomic_bool *stop, int *status,
                       struct err *err)
{
    must(child->pid > 0);

    for (;;) {
        const pid_t ended = waitpid(child->pid, status, WNOHANG);
        if (ended == child->pid)
            return 0;
        if (ended < 0 && errno != EINTR)
            return err_set(err, ERR_IO, "waitpid: %m");
        if (child_may(child, stop, err) < 0)
            return -1;
        (void)poll(NULL, 0, END_LOOK_MS);
    }
}

/* The child is not reaped yet, so its number cannot belong to another process. */
static void child_kill(const struct child *child)
{
    must(child->pid > 0);
    (void)kill(-child->pid, SIGKILL); /* it may have exited already */
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/*
 * A failed plugin counts as missing credentials, and the error quotes the beginning of its stderr.
 */
static int child_verdict(const struct child *child, int status, struct err *err)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    size_t len = child->said.len < SAID_BYTES_MAX ? child->said.len : SAID_BYTES_MAX;
    while (len > 0 && child->said.data[len - 1] == '\n')
        len--;
    return err_set(err, ERR_UNAUTHORIZED, "ended with %s %d%s%.*s",
                   WIFEXITED(status) ? "status" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), len > 0 ? ": " : "",
                   (int)len, child->said.data);
}

static char *kube_exec_copy_or_null(const char *text)
{
    return text[0] != '\0' ? xstrdup(text) : NULL;
}

/*
 * As in client-go: the version must be the one that was asked for, and certificate and key are PEM
 * text, not base64. *out is set only if everything is right.
 */
static int read_credential(struct text text, const char *api_version, struct exec_answer *out,
                           struct err *err)
{
    must(text.at != NULL);
    struct arena arena;
    struct doc *doc = NULL;

    arena_init(&arena);
    int rc = doc_parse_json(text, "ExecCredential", &arena, &doc, err);
    if (rc == 0 && strcmp(doc_str(doc, "kind"), "ExecCredential") != 0)
        rc = err_set(err, ERR_INVALID, "kind: expected \"ExecCredential\", got \"%s\"",
                     doc_str(doc, "kind"));
    if (rc == 0 && strcmp(doc_str(doc, "apiVersion"), api_version) != 0)
        rc = err_set(err, ERR_INVALID, "apiVersion: expected \"%s\", got \"%s\"", api_version,
                     doc_str(doc, "apiVersion"));
    struct exec_answer got = {NULL, NULL, NULL, 0};
    if (rc == 0) {
        got.token = kube_exec_copy_or_null(doc_str(doc, "status.token"));
        got.cert = kube_exec_copy_or_null(doc_str(doc, "status.clientCertificateData"));
        got.key = kube_exec_copy_or_null(doc_str(doc, "status.clientKeyData"));
        const char *expires = doc_str(doc, "status.expirationTimestamp");
        if (expires[0] != '\0' && !time_parse(text_of(expires), &got.expires_ms))
            rc = err_set(err, ERR_INVALID, "status.expirationTimestamp: \"%s\" is not a time",
                         expires);
        else if ((got.cert == NULL) != (got.key == NULL) || (got.token == NULL && got.cert == NULL))
            rc = err_set(err, ERR_INVALID,
                         "status: expected a token, or clientCertificateData and clientKeyData");
    }
    arena_done(&arena);
    if (rc < 0)
        kube_exec_answer_done(&got);
    else
        *out = got;
    return rc;
}

/* The child is always reaped here, killed or not. */
static int child_talk(struct child *child, const atomic_bool *stop, struct err *err)
{
    int status = 0;

    child->deadline_ms = kube_exec_clock_now_ms() + EXEC_TIMEOUT_MS;
    if (child_read(child, stop, err) < 0 || child_await(child, stop, &status, err) < 0) {
        child_kill(child);
        return -1;
    }
    return child_verdict(child, status, err);
}

int kube_exec_run(const struct exec_plugin *plugin, struct exec_answer *out, struct err *err)
{
    struct child child = {.out = -1, .complaints = -1};

    strbuf_init(&child.text);
    strbuf_init(&child.said);
    int rc = child_start(plugin, &child, err);
    if (rc == 0)
        rc = child_talk(&child, &plugin->stop, err);
    if (rc == 0)
        rc = read_credential((struct text){child.text.data, child.text.len}, plugin->api_version,
                             out, err);
    kube_exec_close_fd(&child.out);
    kube_exec_close_fd(&child.complaints);
    strbuf_done(&child.text);
    strbuf_done(&child.said);
    return rc < 0 ? err_wrap(err, "exec plugin %s", plugin->command) : 0;
}

void kube_exec_answer_done(struct exec_answer *answer)
{
    xfree(answer->token);
    xfree(answer->cert);
    xfree(answer->key);
    *answer = (struct exec_answer){NULL, NULL, NULL, 0};
}
