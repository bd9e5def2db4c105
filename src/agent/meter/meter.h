/*
 * meter - what each container uses of each of its GPUs, beside what it was granted, and what is
 * done with one that takes more memory than its share.
 *
 *     reading (nvml.h): PID, MiB, SM time --+
 *     /proc/PID/cgroup: whose process ------+-> use of (container, GPU) -> copies, metrics
 *     containers.h: who holds which GPUs ---+        |
 *                                                    +-> over its memory: told, or killed
 *
 * A thread of its own reads /proc and judges, once for each reading of NVML: nobody waits for it.
 * It needs to see the processes of the host (hostPID); where it does not, it says so once in the
 * log and in a gauge, and everything used is unknown.
 *
 *  M1  What is not known is never shown as 0.
 *  M2  A process belongs to the container whose cgroup it is in; of nested ones to the outermost,
 *      since a container can make cgroups only below its own.
 *  M3  Killed is only a process of a container of ours that is over its share on that GPU, and that
 *      still is in the container's cgroup when its pidfd is open.
 *      The name of a process says nothing: MPS is known by its daemons' PIDs.
 *  M4  A container is over its memory if NVML counts more MiB of its processes on a GPU than it was
 *      granted there. What NVML does not count, of a process, is not guessed.
 *  M5  A client of MPS is killed only after its daemon was asked to end its work, and has answered
 *      or had METER_END_MS for it: a kill in the middle of a kernel breaks its neighbours.
 */
#ifndef MILLIGPU_METER_H
#define MILLIGPU_METER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nvml/nvml.h"

#include "agent/grant/containers.h"
#include "agent/mps/mps.h"

enum {
    METER_READINGS_OVER = 2,
    METER_READINGS_BLIND = 2, /* of which no process can be read: those of the host are hidden */
    METER_OUTSIDE_MS = 10000,
    METER_END_MS = 5000, /* for the end of all clients of a container on a GPU, before their kill */
};

enum meter_policy {
    METER_REPORT, /* log and metrics */
    METER_EVENT,  /* and told to milligpud */
    METER_KILL,   /* and, after the grace, its processes on that GPU are killed */
};

/* Of a container, the worst on any of its GPUs. */
enum meter_over {
    OVER_NOT,
    OVER_SEEN,   /* in METER_READINGS_OVER readings one after another, the last included */
    OVER_KILLED, /* processes of it were killed for it; stays until the container is gone */
};

struct meter_gpu {
    const char *uuid;
    uint32_t granted_milli; /* 0: it has no share (a container of another pod) */
    uint32_t granted_mib;   /* 0: none, or not known */
    bool is_known;          /* used_mib; else it is at least that */
    uint32_t used_mib;
    uint32_t peak_mib;  /* since the container was seen first */
    int32_t used_milli; /* of the GPU's SM time, since the reading before; -1: not known */
    bool is_scaled;     /* used_milli is known, and that of one of its processes was (nvml.h) */
    /* Sums since the container was seen first, and the time of which they are: known time. */
    int64_t milli_ms;
    int64_t milli_known_ms;
    int64_t scaled_ms; /* the part of milli_known_ms in which used_milli was scaled */
    int64_t mib_ms;
    int64_t mib_known_ms;
    bool is_over;          /* its memory, as in OVER_SEEN */
    int64_t over_since_ms; /* UTC, of the first such reading; 0: it is not over */
};

struct meter_container {
    const char *id;
    const char *uid;
    const char *namespace;
    const char *pod;
    const char *name;
    enum container_right right;
    enum meter_over over;
    uint32_t gpus;
    const struct meter_gpu *gpu;
};

struct meter_copy {
    bool is_complete; /* the containers are all that run (containers.h) */
    bool is_metering; /* processes of the host can be seen, and NVML tells of them */
    bool can_report;  /* the policy is METER_EVENT or METER_KILL: over is milligpud's business */
    uint64_t number;  /* another one whenever something was measured again */
    uint32_t count;
    const struct meter_container *container;
};

/* What the meter asks of the machine; any of these may fail. */
struct meter_io {
    void *user;
    bool sees_host; /* false: the PIDs here are not those of the host */
    /* /proc/PID/FILE; false: it cannot be read, mostly since the process has ended */
    bool (*read)(void *user, uint32_t pid, const char *file, struct strbuf *out);
    int (*open)(void *user, uint32_t pid); /* a pidfd, or negative */
    bool (*kill)(void *user, int pidfd);
    void (*close)(void *user, int pidfd);
    struct clock_ops clock;
};

struct meter_rules {
    struct containers *containers;
    struct nvml *nvml;
    const struct meter_io *io; /* NULL: the real one, with the folder proc_dir */
    const char *proc_dir;      /* "/proc" */
    void *user;
    /* The control daemons of MPS that are ours, as mps_daemons() tells; NULL: none are. */
    uint32_t (*daemons)(void *user, struct mps_process out[GPUS_PER_NODE_MAX]);
    /*
     * Called before a process of a client of MPS is killed: ends what it computes on the GPU, as
     * mps_end_client() does. Its failure keeps no process alive. NULL: MPS is off.
     */
    int (*end_client)(void *user, const char *gpu, uint32_t pid, int64_t wait_ms, struct err *err);
    enum meter_policy policy;
    int64_t grace_ms; /* over its memory for so long: killed */
    int64_t every_ms; /* between two looks whether NVML or the runtime has something new */
};

struct meter;

/* The rules and what they point to are borrowed until meter_stop(). NULL: no thread. */
struct meter *meter_start(const struct meter_rules *rules, struct err *err) MUST_USE;
void meter_stop(struct meter *meter); /* NULL is fine */

/* *out lives in arena; empty if meter is NULL. Any thread; waits for nothing but a copy. */
void meter_copy(struct meter *meter, struct arena *arena, struct meter_copy *out);

/*
 * The GPUs on which processes of no known container were seen in two readings METER_OUTSIDE_MS
 * apart and in all between them: something uses them that Kubernetes does not know of. The control
 * daemons of MPS that are ours do not count, nor what they started. While the list of containers is
 * not complete, or not all were kept, or NVML tells of no processes, those of before stay and none
 * is added: nobody saw one end. Returns how many; *out lives in arena. Any thread.
 */
uint32_t meter_outside(struct meter *meter, struct arena *arena, const char *const **out);

#endif
