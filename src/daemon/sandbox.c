/*
 * The seccomp filter: an allow list of system calls by purpose (docs/why/016). daemon.c calls
 * sandbox_memory() before it reads any secret and sandbox_calls() after every thread has started,
 * in the main thread. Calls that a new library version needs must be added; they fail with ENOSYS.
 */
#include "sandbox.h"

#if SANDBOX_BUILT

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Names, because a call may not exist on every kernel and architecture. */
static const char *const memory_calls[] = {"brk",    "mmap",     "mmap2",  "munmap",
                                           "mremap", "mprotect", "madvise"};

/* Without clone3, whose flags a filter cannot see; the C library falls back to clone. */
static const char *const thread_calls[] = {
    "futex",       "futex_time64",    "set_robust_list",
    "rseq",        "set_tid_address", "gettid",
    "getpid",      "tgkill",          "exit",
    "exit_group",  "sched_yield",     "sched_getaffinity",
    "getpriority", "setpriority",     "restart_syscall",
    "membarrier",
};

static const char *const signal_calls[] = {
    "rt_sigaction",           "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait",
    "rt_sigtimedwait_time64", "sigaltstack",    "sigreturn",
};

static const char *const time_calls[] = {
    "clock_gettime",       "clock_gettime64", "clock_getres",
    "clock_getres_time64", "clock_nanosleep", "clock_nanosleep_time64",
    "nanosleep",           "gettimeofday",    "time",
};

/* The ledger, its copies and backups, certificates, tokens, settings and the resolver's files. */
static const char *const file_calls[] = {
    "open",        "openat",    "close",    "read",       "write",     "readv",      "writev",
    "pread64",     "pwrite64",  "preadv",   "pwritev",    "lseek",     "_llseek",    "stat",
    "stat64",      "lstat",     "lstat64",  "fstat",      "fstat64",   "fstatat64",  "newfstatat",
    "statx",       "statfs",    "statfs64", "fstatfs",    "fstatfs64", "access",     "faccessat",
    "faccessat2",  "fcntl",     "fcntl64",  "flock",      "fsync",     "fdatasync",  "ftruncate",
    "ftruncate64", "fallocate", "unlink",   "unlinkat",   "rename",    "renameat",   "renameat2",
    "mkdir",       "mkdirat",   "rmdir",    "getdents64", "readlink",  "readlinkat", "getcwd",
    "fchmod",      "fchmodat",  "chmod",    "fchown",     "fchown32",  "umask",      "sendfile",
    "sendfile64",  "utimensat", "link",     "linkat",
};

static const char *const wait_calls[] = {
    "poll",         "ppoll",         "ppoll_time64", "select",    "pselect6",   "pselect6_time64",
    "_newselect",   "epoll_create1", "epoll_create", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "eventfd2",      "pipe",         "pipe2",     "socketpair", "dup",
};

/* socket() itself is below, limited by address family. */
static const char *const network_calls[] = {
    "bind",     "listen",          "accept",      "accept4",    "connect",
    "shutdown", "getsockname",     "getpeername", "setsockopt", "getsockopt",
    "sendto",   "recvfrom",        "sendmsg",     "recvmsg",    "sendmmsg",
    "recvmmsg", "recvmmsg_time64", "send",        "recv",
};

static const char *const self_calls[] = {
    "getuid",    "getuid32",  "geteuid",    "geteuid32", "getgid",  "getgid32",
    "getegid",   "getegid32", "getppid",    "uname",     "sysinfo", "getrusage",
    "getrandom", "getrlimit", "ugetrlimit", "prlimit64",
};

static const struct {
    const char *const *name;
    size_t count;
} list[] = {
    {memory_calls, ARRAY_LEN(memory_calls)},   {thread_calls, ARRAY_LEN(thread_calls)},
    {signal_calls, ARRAY_LEN(signal_calls)},   {time_calls, ARRAY_LEN(time_calls)},
    {file_calls, ARRAY_LEN(file_calls)},       {wait_calls, ARRAY_LEN(wait_calls)},
    {network_calls, ARRAY_LEN(network_calls)}, {self_calls, ARRAY_LEN(self_calls)},
};

/* Calls allowed only for some values of an argument. */
static const struct {
    const char *name;
    unsigned argument;
    uint64_t mask; /* bits to compare */
    uint64_t value;
} part[] = {
    {"clone", 0, CLONE_THREAD, CLONE_THREAD}, /* a thread, not a process */
    {"socket", 0, UINT32_MAX, AF_INET},
    {"socket", 0, UINT32_MAX, AF_INET6},
    {"socket", 0, UINT32_MAX, AF_UNIX},
    /* the resolver detects the configured address families */
    {"socket", 0, UINT32_MAX, AF_NETLINK},
    {"ioctl", 1, UINT32_MAX, FIONBIO},
    {"ioctl", 1, UINT32_MAX, FIONREAD},
    {"prctl", 0, UINT32_MAX, PR_SET_NAME},
    {"prctl", 0, UINT32_MAX, PR_GET_DUMPABLE},
};

/*
 * Returns 0 or a negative errno. Skips calls that this architecture lacks (an unknown name, or EDOM
 * from libseccomp).
 */
static int allow_all(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        for (size_t k = 0; k < list[i].count; k++) {
            const int call = seccomp_syscall_resolve_name(list[i].name[k]);
            const int rc =
                call == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
            if (rc < 0 && rc != -EDOM)
                return rc;
        }
    return 0;
}

/* A call is allowed if any of its rules matches. */
static int allow_parts(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        const struct scmp_arg_cmp chosen = {.arg = part[i].argument,
                                            .op = SCMP_CMP_MASKED_EQ,
                                            .datum_a = part[i].mask,
                                            .datum_b = part[i].value};
        const int call = seccomp_syscall_resolve_name(part[i].name);
        must(call != __NR_SCMP_ERROR);
        const int rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &chosen);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int sandbox_memory(struct err *err)
{
    /*
     * Not dumpable: /proc/<pid> belongs to root, other processes of this user cannot attach with
     * ptrace, and there is no core file.
     */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return err_set(err, ERR_IO, "the memory cannot be protected: errno %d", errno);
    return 0;
}

int sandbox_calls(struct err *err)
{
    /*
     * TSYNC applies the filter to all threads or to none; without it only the calling thread would
     * be limited. Nothing is in force before seccomp_load().
     */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rc = filter != NULL ? 0 : -ENOMEM;

    if (rc == 0)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rc == 0)
        rc = allow_all(filter);
    if (rc == 0)
        rc = allow_parts(filter);
    if (rc == 0)
        rc = seccomp_load(filter);
    if (filter != NULL)
        seccomp_release(filter);
    if (rc < 0)
        return err_set(err, ERR_IO, "the kernel refuses the filter: errno %d", -rc);
    return 0;
}

#else

int sandbox_memory(struct err *err)
{
    (void)err;
    return 0;
}

int sandbox_calls(struct err *err)
{
    (void)err;
    return 0;
}

#endif
