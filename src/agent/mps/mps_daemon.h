/*
 * mps_daemon - one process of nvidia-cuda-mps-control: starts, adopts, signals and queries it.
 *
 *     DIR/GPU-.../pipe     its CUDA_MPS_PIPE_DIRECTORY; clients of any user write there
 *     DIR/GPU-.../log      its CUDA_MPS_LOG_DIRECTORY; servers of any user write there
 *     DIR/GPU-.../daemon   "PID BEGAN", with the start time of /proc/PID/stat, as PIDs are reused
 *
 * One thread per struct. Only mps_daemon_ask() waits for the process.
 */
#ifndef MILLIGPU_AGENT_MPS_DAEMON_H
#define MILLIGPU_AGENT_MPS_DAEMON_H

#include <sys/types.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/nvml/nvml.h"

enum { MPS_PATH_BYTES = 128 };

struct mps_daemon {
    const char *program; /* borrowed */
    char gpu[NVML_TEXT_MAX];
    char home[MPS_PATH_BYTES]; /* DIR/GPU-... */
    char pipe[MPS_PATH_BYTES];
    /* The process. */
    int pidfd;      /* -1 if none */
    pid_t pid;      /* 0 if none */
    uint64_t began; /* start time in /proc/PID/stat, in ticks since boot */

    pid_t asked; /* process of an abandoned command that has not ended; 0 if none */
};

/* Sets the paths; starts nothing. Negative: a path is too long for the daemon's sockets. */
int mps_daemon_init(struct mps_daemon *daemon, const char *program, const char *dir,
                    const char *gpu, struct err *err) MUST_USE;
/* Adopts the running daemon of a previous agent; false if there is none. */
bool mps_daemon_adopt(struct mps_daemon *daemon);
/* Starts a daemon. shm must be the same folder as /dev/shm of this process. */
int mps_daemon_start(struct mps_daemon *daemon, const char *shm, struct err *err) MUST_USE;
/* True if the process has ended; clears its fields. Does not wait. */
bool mps_daemon_ended(struct mps_daemon *daemon);
/* Clears the fields of the process, which keeps running. */
void mps_daemon_leave(struct mps_daemon *daemon);
void mps_daemon_signal(const struct mps_daemon *daemon, int number);

/*
 * Sends one command by a client process of the program, and appends the answer to out. ERR_TIMEOUT:
 * no answer within wait_ms, or the client process has not ended 100 ms later. ERR_BUSY: wake, a
 * file descriptor or -1, became readable first.
 */
int mps_daemon_ask(struct mps_daemon *daemon, int wake, int64_t wait_ms, const char *command,
                   struct strbuf *out, struct err *err) MUST_USE;

#endif
