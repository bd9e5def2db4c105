/*
 * nvml - what the GPUs of this machine are and how they are, by NVIDIA's management library.
 *
 *     driver <- NVML <- the watcher thread -> struct gpu_reading -> any number of readers
 *
 * NVML can hang for as long as a driver is stuck. So only the watcher, a thread of its own, calls
 * it; it collects a reading every some seconds and at once after an event (XID, double-bit ECC),
 * and publishes it. A reader takes the latest reading by reference and never waits for NVML. The
 * library is loaded by dlopen() in the watcher, and loaded again as long as that fails. A process
 * that has it loaded keeps the kernel's modules of the driver from being unloaded, so the watcher
 * lets go of it when it is told to.
 *
 * Invariants:
 *   1. A reading does not change. Its GPUs have distinct UUIDs, made of letters, digits, '-' and
 *      '_', which also are names in CDI.
 *   2. reading.gpu[] is in the order in which the UUIDs were first seen, and a GPU once seen stays,
 *      as last seen, also when it or the driver is gone; only when there are more than
 *      GPUS_PER_NODE_MAX does a new one take the place of a lost one. Bit i of peers is gpu[i].
 *   3. GPUs are known by UUID; an index is what NVML said last and may be that of a present GPU
 *      while its own is lost.
 *   4. Health is the worst of what is known, in the order of enum gpu_health.
 *   5. A reading that is older than silent_ms is never handed out as it is: then the driver hangs,
 *      and every GPU's health is unknown.
 *
 * Any thread.
 */
#ifndef MILLIGPU_NVML_H
#define MILLIGPU_NVML_H

#include "milligpu/base/err.h"
#include "milligpu/base/limits.h"
#include "milligpu/run/clock.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

enum {
    NVML_TEXT_MAX = 97, /* NVML's texts have up to 96 bytes and need not be terminated */
    NVML_REASON_MAX = 160,
    NVML_PROCESSES_MAX = 1024, /* of one kind on one GPU; beyond, only their number is known */
    NVML_COMMANDS_MAX = 64,    /* that wait for the watcher */
};

/* From the best to the worst. */
enum gpu_health {
    GPU_HEALTHY,
    GPU_XID,            /* a critical XID (nvml_xid_is_critical), until it was quiet for quiet_ms */
    GPU_ECC,            /* memory errors that were not corrected, likewise */
    GPU_RESET_REQUIRED, /* says NVML */
    GPU_LOST,           /* fallen off the bus, or no longer shown by the driver */
    GPU_UNKNOWN,        /* the driver hangs or was unloaded */
};

/* What NVML did tell of a GPU: bits of gpu_state.known. */
enum gpu_fact {
    GPU_KNOWS_TEMPERATURE = 1 << 0,
    GPU_KNOWS_POWER = 1 << 1,
    GPU_KNOWS_CLOCKS = 1 << 2,
    GPU_KNOWS_ECC = 1 << 3,
    GPU_KNOWS_PROCESSES = 1 << 4,
};

struct gpu_process {
    uint32_t pid;  /* in the PID namespace of the host */
    uint32_t mib;  /* 0 if it is not known */
    bool is_known; /* mib */
    bool is_mps;   /* a client of an MPS server, whose memory NVML may count for the server */
    /*
     * Thousandths of the GPU's SM time, averaged since the reading before; -1: not known. All of a
     * GPU together have at most what the GPU itself was used: NVML counts time in which a process
     * waits for its turn, so its numbers are scaled down to that.
     */
    int32_t sm_milli;
    bool is_scaled; /* sm_milli was: NVML's number is greater */
};

struct gpu_state {
    char uuid[NVML_TEXT_MAX];
    char model[NVML_TEXT_MAX]; /* "NVIDIA H100 80GB HBM3"; printable ASCII */
    char bus_id[33];           /* "00000000:3B:00.0" */
    uint32_t index;            /* NVML's; another one after a reboot */
    int32_t minor;             /* /dev/nvidia<minor>; -1: not known */
    int32_t numa;              /* -1: none, or not known */
    uint32_t mib_total;
    uint32_t mib_used; /* without what the driver reserves, if it tells that apart */
    bool is_mig;       /* cut up by MIG: none of ours */
    /*
     * The GPUs that an active NVLink joins with this one: directly, or both with an NVSwitch (then
     * all that have a link to a switch are taken to be on the same fabric). How many links there
     * are, links to a CPU, and links between machines are left out.
     */
    uint64_t peers;

    uint32_t known; /* of the following: enum gpu_fact */
    uint32_t temperature_c;
    uint32_t power_mw;
    uint64_t clock_reasons; /* why it is clocked down: bits of nvmlClocksEventReasons */
    uint64_t ecc_corrected; /* both since the driver was loaded */
    uint64_t ecc_uncorrected;
    uint32_t process; /* its processes are reading.process[process .. process + processes) */
    uint32_t processes;
    uint32_t processes_left_out;

    enum gpu_health health;
    char reason[NVML_REASON_MAX]; /* a sentence; "" if healthy */
    int64_t since_ms;             /* UTC: since when its health is this one */
    uint64_t xids;                /* critical XIDs since we run */
    uint64_t application_xids;    /* the others */
    uint64_t xid;                 /* the last of them; 0: none */
};

enum nvml_status {
    NVML_STARTING,  /* nothing is known yet */
    NVML_NO_DRIVER, /* the library or the driver cannot be loaded: problem says why */
    NVML_READY,
    NVML_SILENT,   /* the driver hangs */
    NVML_RELEASED, /* nvml_release(): the library is unloaded, GPUs and health are as last read */
};

struct gpu_reading {
    enum nvml_status status;
    char problem[ERR_TEXT_MAX]; /* a sentence, unless NVML_READY */
    char driver[NVML_TEXT_MAX]; /* versions, as last seen; "": not known */
    char library[NVML_TEXT_MAX];
    bool has_events;       /* else XIDs are not seen */
    bool has_memory_limit; /* nvml_limit_memory() can work */
    uint64_t number;       /* another one for each reading; rises */
    uint64_t loads;        /* how often the library was loaded: the driver may be another one */
    int64_t taken_ms;      /* monotonic */
    uint32_t gpus;
    struct gpu_state gpu[GPUS_PER_NODE_MAX];
    uint32_t left_out; /* GPUs that are not in gpu[], and why the first of them is not */
    char left_out_why[NVML_REASON_MAX];
    uint32_t processes;
    const struct gpu_process *process;
};

struct nvml_settings {
    const char *library; /* for dlopen(); borrowed until nvml_open() returns */
    int64_t every_ms;    /* between readings */
    int64_t retry_ms;    /* between attempts to load the driver; six of them while a GPU is lost */
    int64_t quiet_ms;    /* after the last critical XID or ECC error, a GPU is healthy again */
    int64_t
        silent_ms;    /* without a reading: the driver hangs; raised to 3 x every_ms and retry_ms */
    int64_t stop_ms;  /* nvml_close() waits no longer */
    bool is_released; /* as if nvml_release() had been called before anything was loaded */
    struct clock_ops clock;
};

/*
 * NVML_LIBRARY, 10 s, 10 s, 10 min, 40 s, 2 s, the real clock. Ten minutes: a GPU that threw a
 * critical XID and then works on without another one is more probably good than bad, and a pod that
 * finds out takes less than the whole GPU; what does not heal (lost, reset required) is seen as
 * such whatever the time.
 */
void nvml_defaults(struct nvml_settings *out);

struct nvml;

/* Starts the watcher; whether there is a driver is seen in the readings. NULL: no thread. */
struct nvml *nvml_open(const struct nvml_settings *settings, struct err *err) MUST_USE;

/*
 * Stops the watcher. If it hangs in the driver, it is left behind after stop_ms, and frees what it
 * holds should it ever wake up. No other call may be going on, and none may follow. NULL is fine.
 * Readings that were taken stay valid.
 */
void nvml_close(struct nvml *nvml);

/*
 * Lets go of the driver, until the same is called with false: NVML is shut down and its library
 * unloaded, so that this process has none of its files open or mapped. It has when a reading has
 * the status NVML_RELEASED; a driver that hangs is let go of when it answers. Taken again, the
 * library is loaded anew, which may be another one then, and as often as that fails. Does not wait.
 */
void nvml_release(struct nvml *nvml, bool released);

/* The latest reading; give it back with gpu_reading_unref(). Never waits for NVML. */
const struct gpu_reading *nvml_latest(struct nvml *nvml) MUST_USE;
void gpu_reading_unref(const struct gpu_reading *reading); /* NULL is fine */

/*
 * An operator's word: whatever XIDs and ECC errors this GPU had, it is healthy now. Takes effect
 * with the next reading. ERR_NOT_FOUND, or ERR_BUSY if too much waits for the watcher.
 */
int nvml_clear_fault(struct nvml *nvml, const char *uuid, struct err *err) MUST_USE;

/* How a limit of memory ended, and what that says of the driver. */
enum nvml_limit_end {
    NVML_LIMIT_HOLDS,         /* it was set, and read back as it was set */
    NVML_LIMIT_ABSENT,        /* the driver has no limits, or none on this GPU */
    NVML_LIMIT_REFUSED,       /* the driver lets only a process with more rights set it */
    NVML_LIMIT_NO_CONTROLLER, /* the driver does not find what it needs in the cgroup */
    NVML_LIMIT_DIFFERS,       /* it was set, and another one is read */
    NVML_LIMIT_UNREAD,        /* it was set, and cannot be read */
    NVML_LIMIT_FAILED,
};

/*
 * Limits what the processes of a cgroup may take of a GPU's memory (drivers from R615), and reads
 * the hard limit back; cgroup is its full path. Negative if *out is not NVML_LIMIT_HOLDS. Waits at
 * most wait_ms for the watcher, mostly a tenth of a second: ERR_TIMEOUT, and then it may still
 * happen, unless it had not begun. ERR_NOT_FOUND: no such GPU, or the driver has no limits.
 *
 * With the kernel's dmem, a soft limit is added to all cgroups above, and stays there when the
 * cgroup is removed. So it is 0, unless you set it back to 0 before.
 */
struct nvml_limit {
    const char *uuid;
    const char *cgroup;
    uint64_t soft_bytes; /* promised; 0: nothing is */
    uint64_t hard_bytes; /* not more; all bits: no limit */
};
int nvml_limit_memory(struct nvml *nvml, const struct nvml_limit *limit, int64_t wait_ms,
                      enum nvml_limit_end *out, struct err *err) MUST_USE;

const char *gpu_health_name(enum gpu_health health);
const char *nvml_status_name(enum nvml_status status);

/* False: applications cause it, and it says nothing of the GPU. */
bool nvml_xid_is_critical(uint64_t xid);

#endif
