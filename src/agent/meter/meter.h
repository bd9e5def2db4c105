/*
 * meter - measures each container's usage of its GPUs, and handles containers that use more memory
 * than their share.
 *
 *     reading (nvml.h): PID, MiB, SM time ------+
 *     /proc/PID/cgroup: container of a process -+-> usage of (container, GPU) -> copies, metrics
 *     containers.h: GPUs of containers ---------+        |
 *                                                        +-> over its memory: reported, or killed
 *
 * A thread of its own reads /proc and evaluates each reading of NVML; no other thread waits for it.
 * It needs to see the processes of the host (hostPID). Otherwise all usage is unknown, which is
 * logged once and shown by a gauge.
 *
 *  M1  An unknown value is never shown as 0.
 *  M2  A process belongs to the container of its cgroup; of nested containers to the outermost,
 *      because a container can create cgroups only below its own.
 *  M3  A process is killed only if its container has a share and is over it on that GPU, and if the
 *      process is still in the container's cgroup when its pidfd is open. Process names are not
 *      trusted: MPS is identified by the PIDs of its daemons.
 *  M4  A container is over its memory if the MiB that NVML counts for its processes on a GPU exceed
 *      its share. Memory that NVML does not count is not estimated.
 *  M5  An MPS client is killed only after its daemon was asked to end its work, and has answered or
 *      had METER_END_MS to do so: a kill in the middle of a kernel breaks the other clients.
 */
#ifndef MILLIGPU_METER_H
#define MILLIGPU_METER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nvml/nvml.h"

#include "agent/grant/containers.h"
#include "agent/mps/mps.h"

enum {
    METER_READINGS_OVER = 2,  /* consecutive readings until a container counts as over */
    METER_READINGS_BLIND = 2, /* without a readable process, until the host's count as hidden */
    METER_OUTSIDE_MS = 10000, /* time until processes of no container count */
    METER_END_MS = 5000,      /* to end the work of a container's MPS clients before the kill */
};

enum meter_policy {
    METER_REPORT, /* log and metrics */
    METER_EVENT,  /* and a report to milligpud */
    METER_KILL,   /* and, after grace_ms, its processes on that GPU are killed */
};

/* Metering state of a container: the worst of its GPUs. */
enum meter_over {
    OVER_NOT,
    OVER_SEEN,   /* in the last METER_READINGS_OVER readings */
    OVER_KILLED, /* processes were killed for it; stays until the container is gone */
};

struct meter_gpu {
    const char *uuid;
    uint32_t granted_milli; /* 0 without a share (a container of another pod) */
    uint32_t granted_mib;   /* 0 without a share, or if unknown */
    bool is_known;          /* false: used_mib is only a lower bound */
    uint32_t used_mib;
    uint32_t peak_mib;  /* maximum of used_mib since the container was first seen */
    int32_t used_milli; /* of the GPU's SM time, since the previous reading; -1 if unknown */
    bool is_scaled;     /* used_milli includes a scaled value (gpu_process.is_scaled) */
    /* Integrals of usage over time since the container was first seen, and their known time. */
    int64_t milli_ms;
    int64_t milli_known_ms;
    int64_t scaled_ms; /* the part of milli_known_ms with is_scaled */
    int64_t mib_ms;
    int64_t mib_known_ms;
    bool is_over;          /* its memory, as in OVER_SEEN */
    int64_t over_since_ms; /* UTC time of the first reading over the share; 0 if not over */
};

struct meter_container {
    const char *id;
    const char *uid;
    const char *namespace;
    const char *pod;
    const char *name;
    enum container_right right;
    enum meter_over over;
    uint32_t n_gpus;
    const struct meter_gpu *gpu;
};

struct meter_copy {
    bool is_complete; /* as in containers_copy */
    bool is_metering; /* the host's processes are visible, and NVML reports them */
    bool can_report;  /* policy METER_EVENT or METER_KILL: over is reported to milligpud */
    uint64_t number;  /* increases with each measurement */
    uint32_t count;
    const struct meter_container *container;
};

/* The meter's system calls; all can fail. */
struct meter_io {
    void *user;
    bool sees_host; /* PIDs here are those of the host */
    /* Appends /proc/PID/FILE; false if it cannot be read, usually because the process has ended. */
    bool (*read)(void *user, uint32_t pid, const char *file, struct strbuf *out);
    int (*open)(void *user, uint32_t pid); /* a pidfd, or negative */
    bool (*kill)(void *user, int pidfd);
    void (*close)(void *user, int pidfd);
    struct clock_ops clock;
};

struct meter_rules {
    struct containers *containers;
    struct nvml *nvml;
    const struct meter_io *io; /* NULL: the system's, with proc_dir */
    const char *proc_dir;      /* "/proc" */
    void *user;
    /* Our MPS control daemons, as mps_daemons(). NULL: none. */
    uint32_t (*daemons)(void *user, struct mps_process out[GPUS_PER_NODE_MAX]);
    /*
     * Called before a process of an MPS client is killed: ends its work on the GPU, as
     * mps_end_client(). The process is killed even if it fails. NULL: MPS is off.
     */
    int (*end_client)(void *user, const char *gpu, uint32_t pid, int64_t wait_ms, struct err *err);
    enum meter_policy policy;
    int64_t grace_ms; /* time over its memory until a container is killed */
    int64_t every_ms; /* interval between checks for a new reading or changed containers */
};

struct meter;

/* The pointers in rules are borrowed until meter_stop(). NULL if there is no thread. */
struct meter *meter_start(const struct meter_rules *rules, struct err *err) MUST_USE;
void meter_stop(struct meter *meter); /* NULL is fine */

/* Allocates *out in arena; empty if meter is NULL. Any thread; waits for nothing but a copy. */
void meter_copy(struct meter *meter, struct arena *arena, struct meter_copy *out);

/*
 * GPUs used from outside of Kubernetes: processes of no known container were in two readings
 * METER_OUTSIDE_MS apart and in all between them. Our MPS control daemons and their descendants do
 * not count. The result does not change while the list of containers is incomplete, a container has
 * no row, or NVML reports no processes, since an end could not be seen. Returns the number; *out is
 * in arena. Any thread.
 */
uint32_t meter_outside(struct meter *meter, struct arena *arena, const char *const **out);

#endif
