/*
 * Starts, adopts and queries the daemon. Called by the thread of mps.c, and by the meter's thread
 * for a struct without a process. Processes are held by pidfds and polled for their end, never
 * waited for: a process that hangs in the driver cannot be killed.
 */
#include "mps_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/file.h"

#include "agent/common/device.h"
#include "agent/common/proc_stat.h"

enum {
    ANSWER_BYTES_MAX = 4096,
    STAT_BYTES_MAX = 4096,
    SOCKET_PATH_MAX = 107,
};

/* The longest name that the daemon creates in its pipe folder. */
static const char LONGEST[] = "/control_privileged";

int mps_daemon_init(struct mps_daemon *daemon, const char *program, const char *dir,
                    const char *gpu, struct err *err)
{
    *daemon = (struct mps_daemon){.program = program, .pidfd = -1};
    if (!device_is_uuid(text_of(gpu)) || strchr(gpu, '/') != NULL)
        return err_set(err, ERR_INVALID, "\"%.100s\" is no UUID of a GPU", gpu);
    const int n = snprintf(daemon->pipe, sizeof daemon->pipe, "%s/%s/pipe", dir, gpu);
    if (n < 0 || (size_t)n >= sizeof daemon->pipe || (size_t)n + strlen(LONGEST) > SOCKET_PATH_MAX)
        return err_set(err, ERR_INVALID, "--mps-dir: too long for the sockets of MPS: %.200s", dir);
    (void)snprintf(daemon->home, sizeof daemon->home, "%.*s", n - (int)strlen("/pipe"),
                   daemon->pipe);
    (void)snprintf(daemon->gpu, sizeof daemon->gpu, "%s", gpu);
    return 0;
}

/* --- processes --- */

/* The start time of a process, in ticks since boot; 0 if there is none. */
static uint64_t began(pid_t pid)
{
    char path[64];
    char *bytes = NULL;
    size_t len = 0;
    struct proc_stat stat;
    struct err err;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read(path, STAT_BYTES_MAX, &bytes, &len, &err) < 0)
        return 0;
    const bool is_read = proc_stat_read((struct text){bytes, len}, &stat);
    xfree(bytes);
    return is_read ? stat.began : 0;
}

/* Opens the pidfd, then reads the start time, so that the caller can detect a reused PID. */
static bool hold(struct mps_daemon *daemon, pid_t pid)
{
    daemon->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    daemon->pid = daemon->pidfd >= 0 ? pid : 0;
    daemon->began = daemon->pidfd >= 0 ? began(pid) : 0;
    return daemon->pidfd >= 0;
}

void mps_daemon_leave(struct mps_daemon *daemon)
{
    if (daemon->pidfd >= 0)
        (void)close(daemon->pidfd);
    daemon->pidfd = -1;
    daemon->pid = 0;
    daemon->began = 0;
}

static bool has_ended(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

bool mps_daemon_ended(struct mps_daemon *daemon)
{
    must(daemon->pidfd >= 0);
    if (!has_ended(daemon->pidfd))
        return false;
    (void)waitpid(daemon->pid, NULL, WNOHANG); /* an adopted one is not our child */
    mps_daemon_leave(daemon);
    return true;
}

void mps_daemon_signal(const struct mps_daemon *daemon, int number)
{
    must(daemon->pidfd >= 0);
    (void)syscall(SYS_pidfd_send_signal, daemon->pidfd, number, NULL, 0); /* it may have ended */
}

/* --- a process of the program --- */

struct spawn {
    const char *argument; /* NULL if none */
    /* File descriptors, or -1 for /dev/null. */
    int in;
    int out;
    bool is_daemon;
};

/* The environment of this process without CUDA_ variables, plus set. */
static char **environment(char *const *set, size_t sets)
{
    size_t count = 0;
    size_t kept = 0;

    while (environ[count] != NULL)
        count++;
    char **out = xcalloc(count + sets + 1, sizeof *out);
    for (size_t i = 0; i < count; i++)
        if (!text_starts(text_of(environ[i]), "CUDA_"))
            out[kept++] = environ[i];
    for (size_t i = 0; i < sets; i++)
        out[kept++] = set[i];
    return out;
}

static int add_files(posix_spawn_file_actions_t *actions, const struct spawn *spawn)
{
    int rc = spawn->in >= 0
                 ? posix_spawn_file_actions_adddup2(actions, spawn->in, 0)
                 : posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = spawn->out >= 0
                 ? posix_spawn_file_actions_adddup2(actions, spawn->out, 1)
                 : posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
    return rc;
}

static int spawn_with(const struct mps_daemon *daemon, const struct spawn *spawn, char *const *set,
                      size_t sets, pid_t *out_pid)
{
    char word[] = "nvidia-cuda-mps-control";
    char argument[8] = "";
    char *argv[] = {word, spawn->argument != NULL ? argument : NULL, NULL};
    char **environment_set = environment(set, sets);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;

    if (spawn->argument != NULL)
        (void)snprintf(argument, sizeof argument, "%s", spawn->argument);
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    must(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attributes) == 0);
    if (spawn->is_daemon)
        flags |= POSIX_SPAWN_SETSID; /* signals to the agent's session do not reach it */
    int rc = add_files(&actions, spawn);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&attributes, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&attributes, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(&attributes, flags);
    if (rc == 0)
        rc = posix_spawnp(out_pid, daemon->program, &actions, &attributes, argv, environment_set);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    xfree(environment_set);
    return rc;
}

static int run(const struct mps_daemon *daemon, const struct spawn *spawn, pid_t *out_pid,
               struct err *err)
{
    char pipes[MPS_PATH_BYTES + 32];
    char logs[MPS_PATH_BYTES + 32];
    char gpu[NVML_TEXT_MAX + 32];
    char *const set[] = {pipes, logs, gpu};

    (void)snprintf(pipes, sizeof pipes, "CUDA_MPS_PIPE_DIRECTORY=%s", daemon->pipe);
    (void)snprintf(logs, sizeof logs, "CUDA_MPS_LOG_DIRECTORY=%s/log", daemon->home);
    (void)snprintf(gpu, sizeof gpu, "CUDA_VISIBLE_DEVICES=%s", daemon->gpu);
    const int rc = spawn_with(daemon, spawn, set, ARRAY_LEN(set), out_pid);
    if (rc != 0)
        return err_set(err, ERR_UNAVAILABLE, "%.200s: %s", daemon->program, strerrordesc_np(rc));
    return 0;
}

/* --- the daemon --- */

static void record_path(const struct mps_daemon *daemon, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/daemon", daemon->home);
}

bool mps_daemon_adopt(struct mps_daemon *daemon)
{
    char path[PATH_MAX];
    char *bytes = NULL;
    char *end = NULL;
    size_t len = 0;
    struct err err;

    must(daemon->pidfd < 0);
    record_path(daemon, path);
    if (file_read(path, ANSWER_BYTES_MAX, &bytes, &len, &err) < 0)
        return false;
    const long pid = strtol(bytes, &end, 10);
    const unsigned long long ticks = strtoull(end, NULL, 10);
    xfree(bytes);
    if (pid <= 1 || pid > INT_MAX || ticks == 0 || !hold(daemon, (pid_t)pid))
        return false;
    if (daemon->began == ticks && !has_ended(daemon->pidfd))
        return true;
    mps_daemon_leave(daemon);
    return false;
}

static int make_folder(const char *path, mode_t mode, struct err *err)
{
    if ((mkdir(path, 0755) != 0 && errno != EEXIST) || chmod(path, mode) != 0)
        return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
    return 0;
}

/*
 * Creates the folders. They are sticky (01777): clients and servers write there as any user, and
 * cannot remove each other's files. The pipe folder is mounted in running containers, so it is
 * kept, and only the files of an ended daemon are removed.
 */
static int make_folders(const struct mps_daemon *daemon, struct err *err)
{
    static const char *const left[] = {"control", "control_lock", "control_privileged", "log",
                                       "nvidia-cuda-mps-control.pid"};
    char path[PATH_MAX];

    if (file_make_above(daemon->home, err) < 0 || make_folder(daemon->home, 0755, err) < 0 ||
        make_folder(daemon->pipe, 01777, err) < 0)
        return err_same(err);
    (void)snprintf(path, sizeof path, "%s/log", daemon->home);
    if (make_folder(path, 01777, err) < 0)
        return err_same(err);
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", daemon->pipe, left[i]);
        (void)unlink(path);
    }
    return 0;
}

static int check_shm(const char *shm, struct err *err)
{
    struct stat theirs;
    struct stat ours;

    if (stat(shm, &theirs) != 0)
        return err_set(err, ERR_UNAVAILABLE, "--mps-shm: %.200s: %s", shm, strerrordesc_np(errno));
    if (stat("/dev/shm", &ours) == 0 && ours.st_dev == theirs.st_dev &&
        ours.st_ino == theirs.st_ino)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "--mps-shm: %.200s is not what the agent has at /dev/shm, so a daemon would not "
                   "meet its clients there: mount it",
                   shm);
}

int mps_daemon_start(struct mps_daemon *daemon, const char *shm, struct err *err)
{
    const struct spawn spawn = {.argument = "-f", .in = -1, .out = -1, .is_daemon = true};
    char path[PATH_MAX];
    char record[64];
    pid_t pid = 0;

    must(daemon->pidfd < 0);
    if (check_shm(shm, err) < 0 || make_folders(daemon, err) < 0 ||
        run(daemon, &spawn, &pid, err) < 0)
        return err_same(err);
    if (!hold(daemon, pid)) {
        const int why = errno;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, WNOHANG);
        return err_set(err, ERR_IO, "the daemon cannot be held: %s", strerrordesc_np(why));
    }
    record_path(daemon, path);
    const int n =
        snprintf(record, sizeof record, "%d %llu\n", (int)pid, (unsigned long long)daemon->began);
    if (file_replace(path, (struct text){record, (size_t)n}, err) == 0)
        return 0;
    /* Without a record the next agent could not find it, and it would block that agent's daemon. */
    mps_daemon_signal(daemon, SIGKILL);
    return err_same(err);
}

/* --- questions --- */

struct mps_question {
    int in[2];
    int out[2];
    pid_t pid;
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void question_done(struct mps_question *question)
{
    for (int i = 0; i < 2; i++) {
        close_end(&question->in[i]);
        close_end(&question->out[i]);
    }
}

static int question_put(const struct mps_daemon *daemon, const char *command,
                        struct mps_question *question, struct err *err)
{
    *question = (struct mps_question){.in = {-1, -1}, .out = {-1, -1}};
    if (pipe2(question->in, O_CLOEXEC) != 0 || pipe2(question->out, O_CLOEXEC) != 0)
        return err_set(err, ERR_IO, "no pipe: %s", strerrordesc_np(errno));
    const struct spawn spawn = {.in = question->in[0], .out = question->out[1]};
    if (run(daemon, &spawn, &question->pid, err) < 0)
        return err_same(err);
    close_end(&question->in[0]);
    close_end(&question->out[1]);
    /* Does not block: the command fits into the pipe's buffer. */
    if (!file_write(question->in[1], text_of(command)) || !file_write(question->in[1], TEXT("\n")))
        return err_set(err, ERR_UNAVAILABLE, "it takes no command: %s", strerrordesc_np(errno));
    close_end(&question->in[1]);
    return 0;
}

/* Reads the answer up to the end of the output. */
static int question_read(const struct mps_question *question, int wake, int64_t until_ms,
                         struct strbuf *out, struct err *err)
{
    char bytes[512];

    for (;;) {
        struct pollfd fds[] = {{.fd = question->out[0], .events = POLLIN},
                               {.fd = wake, .events = POLLIN}};
        const int64_t left_ms = until_ms - clock_ms();
        if (left_ms <= 0)
            return err_set(err, ERR_TIMEOUT, "it does not answer");
        if (poll(fds, ARRAY_LEN(fds), (int)left_ms) <= 0)
            continue;
        if (fds[1].revents != 0)
            return err_set(err, ERR_BUSY, "it was not asked to the end");
        const ssize_t n = read(question->out[0], bytes, sizeof bytes);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return err_set(err, ERR_IO, "its answer: %s", strerrordesc_np(errno));
        if (n > 0 && out->len < ANSWER_BYTES_MAX)
            strbuf_add(out, bytes, (size_t)n);
    }
}

/* Polls for the end of the process, for 100 ms; false if it still runs. */
static bool question_ended(pid_t pid, int *out_status)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    for (int i = 0; i < 20; i++) {
        if (waitpid(pid, out_status, WNOHANG) != 0)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

int mps_daemon_ask(struct mps_daemon *daemon, int wake, int64_t wait_ms, const char *command,
                   struct strbuf *out, struct err *err)
{
    const int64_t until_ms = clock_ms() + wait_ms;
    struct mps_question question;
    int status = 0;

    if (daemon->asked != 0 && waitpid(daemon->asked, NULL, WNOHANG) == 0)
        return err_set(err, ERR_TIMEOUT, "it does not answer");
    daemon->asked = 0;
    int rc = question_put(daemon, command, &question, err);
    if (rc == 0)
        rc = question_read(&question, wake, until_ms, out, err);
    question_done(&question);
    if (question.pid == 0)
        return rc;
    if (rc < 0)
        (void)kill(question.pid, SIGKILL);
    if (!question_ended(question.pid, &status)) {
        daemon->asked = question.pid;
        (void)kill(question.pid, SIGKILL);
        return rc < 0 ? rc : err_set(err, ERR_TIMEOUT, "it does not answer");
    }
    if (rc == 0 && status != 0)
        return err_set(err, ERR_UNAVAILABLE, "it does not take commands");
    return rc;
}
