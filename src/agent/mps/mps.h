/*
 * mps - NVIDIA's MPS for the shares of this node: starts, monitors and restarts one control daemon
 * per GPU.
 *
 *     label, reading, containers --> thread --> DIR/GPU-.../{pipe,log,daemon} <-- daemon
 *     CreateContainer --> mps_place(): a copy under a lock --> variables and mounts (grant.h)
 *
 *     down --start--> starting --answers--> up <--> fault (a client's), silent (does not answer)
 *       ^------------------------ends, in any state-----------------------'
 *
 * A daemon serves one GPU and one user, since each of its servers belongs to the user of its first
 * client (mps_allow). A client that cannot reach its daemon silently runs without MPS and without
 * limits; so a container is refused while the daemon of its GPU is not up.
 *
 * Daemons outlive this process if its cgroup does: the next agent finds them by DIR/GPU-.../daemon
 * (PID and start time) and adopts them. The daemon of a GPU that is no longer shared by MPS is told
 * to quit once the runtime reports no client of it.
 *
 * Written from NVIDIA's documentation, and tested only with a fake daemon.
 */
#ifndef MILLIGPU_MPS_H
#define MILLIGPU_MPS_H

#include "milligpu/nvml/nvml.h"

#include "agent/grant/containers.h"

#define MPS_LABEL "milligpu.io/mps"

struct mps;

struct mps_rules {
    bool by_label;       /* on by the label of the Node; false: always on */
    const char *program; /* nvidia-cuda-mps-control */
    /* Folders, at the same paths on the host. */
    const char *dir;
    const char *shm;

    const char *label_file; /* file with the last known value of the label */
    int64_t ask_ms;         /* interval between status queries of a daemon that is up */
    struct nvml *nvml;
    struct containers *containers;
};

/* The pointers in rules are borrowed until mps_stop(). */
int mps_start(const struct mps_rules *rules, struct mps **out, struct err *err) MUST_USE;
/* Takes up to a second; the daemons keep running. NULL is fine. */
void mps_stop(struct mps *mps);

/* Sets the current value of the Node's label. Any thread. */
void mps_label(struct mps *mps, bool on);

/*
 * true: stops daemons without clients, regardless of the label, and starts none until it is called
 * with false. A daemon with clients keeps running, and keeps the driver open. Any thread.
 */
void mps_leave(struct mps *mps, bool leaves);

/*
 * Returns 1 if shares of this GPU are MPS clients; *out is borrowed until mps_stop(). 0: MPS is
 * off, or mps is NULL. Negative: it is on, but not available now. Any thread; waits for nothing but
 * a copy.
 */
int mps_place(struct mps *mps, const char *gpu, struct mps_place *out, struct err *err) MUST_USE;

/* How many of how many GPUs have a daemon that is up. False if MPS is off. Any thread. */
bool mps_totals(struct mps *mps, uint32_t *out_up, uint32_t *out_all);

/* Identifies a process, since PIDs are reused. */
struct mps_process {
    uint32_t pid;
    uint64_t began; /* start time in /proc/PID/stat, in ticks since boot */
};
/* The running control daemons; their servers are their children. Returns the number. Any thread. */
uint32_t mps_daemons(struct mps *mps, struct mps_process out[GPUS_PER_NODE_MAX]);

/*
 * Has the daemon of a GPU end the work of its client with this PID, so that killing the client does
 * not harm other clients. Waits at most wait_ms, and 100 ms more for each command. One thread
 * only, and not one that others wait for. Negative: the work may continue.
 */
int mps_end_client(struct mps *mps, const char *gpu, uint32_t pid, int64_t wait_ms,
                   struct err *err) MUST_USE;

/*
 * Checks that the container with this id has the same user as the other clients of its GPU.
 * Negative: refused; err names the pod of another user. A container that is not in the table, or is
 * no client, is accepted. Pure.
 */
int mps_allow(const struct containers_copy *containers, struct text id, struct err *err) MUST_USE;

/* Mounts a tmpfs of mib MiB at shm, unless something is mounted there. */
int mps_prepare(const char *shm, int64_t mib, struct err *err) MUST_USE;

#endif
