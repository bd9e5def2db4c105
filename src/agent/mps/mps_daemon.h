/*
 * mps_daemon - one process of nvidia-cuda-mps-control, and what it is asked.
 *
 *     DIR/GPU-.../pipe     its CUDA_MPS_PIPE_DIRECTORY; clients of any user write there
 *     DIR/GPU-.../log      its CUDA_MPS_LOG_DIRECTORY; servers of any user write there
 *     DIR/GPU-.../daemon   "PID BEGAN": BEGAN of /proc/PID/stat, so that no other process is meant
 *
 * One thread for each struct. It never waits for the process, except mps_daemon_ask().
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
    int pidfd;      /* -1: there is none */
    pid_t pid;      /* 0: there is none */
    uint64_t began; /* by /proc/PID/stat */
    pid_t asked;    /* a question that was given up and has not ended; 0: none */
};

/* The paths; nothing is started. Negative: one would be too long for the daemon's sockets. */
int mps_daemon_init(struct mps_daemon *daemon, const char *program, const char *dir,
                    const char *gpu, struct err *err) MUST_USE;
/* A daemon of an agent before this one. False: none lives. */
bool mps_daemon_adopt(struct mps_daemon *daemon);
/* shm must be what this process sees at /dev/shm. */
int mps_daemon_start(struct mps_daemon *daemon, const char *shm, struct err *err) MUST_USE;
/* True: it has ended, and is forgotten. */
bool mps_daemon_ended(struct mps_daemon *daemon);
/* Forgets it; it goes on. */
void mps_daemon_leave(struct mps_daemon *daemon);
void mps_daemon_signal(const struct mps_daemon *daemon, int number);

/*
 * Sends one command, and appends the answer to out. ERR_TIMEOUT: there is none within wait_ms, and
 * a tenth of a second for the end of the program that asks; ERR_BUSY: wake became readable, and the
 * question was given up. wake -1: nothing ends it early.
 */
int mps_daemon_ask(struct mps_daemon *daemon, int wake, int64_t wait_ms, const char *command,
                   struct strbuf *out, struct err *err) MUST_USE;

#endif
