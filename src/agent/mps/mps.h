/*
 * mps - NVIDIA's MPS for the shares of this node: one control daemon for each GPU, started, watched
 * and started again.
 *
 *     label, reading, containers --> thread --> DIR/GPU-.../{pipe,log,daemon} <-- daemon
 *     CreateContainer --> mps_place(): a copy under a lock --> variables and mounts (grant.h)
 *
 *     down --start--> starting --answers--> up <--> fault (a client's), silent (does not answer)
 *       ^------------------------ends, in any state-----------------------'
 *
 * A daemon serves one GPU and, since each of its servers belongs to the user of its first client,
 * one user (mps_allow). A client that does not reach its daemon runs without MPS, silently and
 * unlimited; so a container that would be a client is refused while the daemon is not up.
 *
 * Daemons outlive this process where its cgroup lets them: the next one finds them by DIR/GPU-.../
 * daemon (pid and the time at which it began) and takes them over. Daemons of GPUs that are not to
 * be shared by MPS any more are told to quit once the runtime knows no client of theirs.
 *
 * What it knows of MPS is what NVIDIA documents; it was tried with a fake of the daemon only.
 */
#ifndef MILLIGPU_MPS_H
#define MILLIGPU_MPS_H

#include "milligpu/nvml/nvml.h"

#include "agent/grant/containers.h"

#define MPS_LABEL "milligpu.io/mps"

struct mps;

struct mps_rules {
    bool by_label;       /* else it is on */
    const char *program; /* nvidia-cuda-mps-control */
    const char *dir;     /* the same path for the runtime, like the next one */
    const char *shm;
    const char *label_file; /* keeps what the label said last */
    int64_t ask_ms;         /* between two questions to a daemon that is up */
    struct nvml *nvml;
    struct containers *containers;
};

/* Texts of rules are borrowed until mps_stop(). */
int mps_start(const struct mps_rules *rules, struct mps **out, struct err *err) MUST_USE;
/* Within a second. The daemons go on. NULL is fine. */
void mps_stop(struct mps *mps);

/* What the label of the Node says now. Any thread. */
void mps_label(struct mps *mps, bool on);

/*
 * The daemons are not needed now, whatever the label says: those without clients quit, and none is
 * started, until the same is called with false. One with clients goes on, and keeps the driver.
 */
void mps_leave(struct mps *mps, bool leaves);

/*
 * 1: a share of this GPU is a client; *out is borrowed until mps_stop(). 0: MPS is off here.
 * Negative: it is on, and no client could be served now. Any thread; waits for nothing but a copy.
 * NULL: off.
 */
int mps_place(struct mps *mps, const char *gpu, struct mps_place *out, struct err *err) MUST_USE;

/* How many GPUs have a daemon that is up, of how many. False: MPS is off. Any thread. */
bool mps_totals(struct mps *mps, uint32_t *out_up, uint32_t *out_all);

/* A process, and no later one of the same PID. */
struct mps_process {
    uint32_t pid;
    uint64_t began; /* by /proc/PID/stat, in ticks since the boot */
};
/* The control daemons that run; their servers are their children. Returns how many. Any thread. */
uint32_t mps_daemons(struct mps *mps, struct mps_process out[GPUS_PER_NODE_MAX]);

/*
 * Has the daemon of a GPU end what its client of this PID computes, so that a kill of the client
 * harms no neighbour. Waits at most wait_ms, and a tenth of a second for each question: for one
 * thread only, and no thread for which somebody waits. Negative: it may compute on.
 */
int mps_end_client(struct mps *mps, const char *gpu, uint32_t pid, int64_t wait_ms,
                   struct err *err) MUST_USE;

/*
 * May the container with this id, which is in the table, be a client beside those of its GPU?
 * Negative: no, they are of another user; the text names the pod of one. Pure.
 */
int mps_allow(const struct containers_copy *containers, struct text id, struct err *err) MUST_USE;

/* Mounts a tmpfs of this size at shm, unless something is mounted there. */
int mps_prepare(const char *shm, int64_t mib, struct err *err) MUST_USE;

#endif
