/*
 * nvml - the GPUs of this machine and their health, read from NVIDIA's management library.
 *
 *     driver <- NVML <- the watcher thread -> struct gpu_reading -> any number of readers
 *
 * NVML hangs as long as the driver does. So only the watcher, a thread of its own, calls it: it
 * publishes a reading every few seconds, and at once after an event (XID, double-bit ECC). Readers
 * take a reference to the latest reading and never wait for NVML. The watcher loads the library by
 * dlopen() and retries until that succeeds. A process that has it loaded keeps the kernel modules
 * of the driver from being unloaded, so nvml_release() unloads it.
 *
 * Invariants:
 *   1. A reading is immutable. Its GPUs have distinct UUIDs of letters, digits, '-' and '_', which
 *      are valid names in CDI, too.
 *   2. reading.gpu[] is in the order in which the UUIDs were first seen. A GPU that was seen once
 *      stays, as last seen, also when it or the driver is gone; a new one replaces a lost one only
 *      when there are more than GPUS_PER_NODE_MAX. Bit i of peers is gpu[i].
 *   3. The UUID identifies a GPU. An index is the last that NVML reported; a present GPU can have
 *      the index of a lost one.
 *   4. Health is the worst known state, in the order of enum gpu_health.
 *   5. A reading older than silent_ms is never returned as is: the driver counts as hung, and every
 *      GPU's health is unknown.
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
    NVML_TEXT_MAX = 97, /* NVML's texts have up to 96 bytes, not always terminated */
    NVML_REASON_MAX = 160,
    NVML_PROCESSES_MAX = 1024, /* per kind and GPU; beyond, only their number is known */
    NVML_COMMANDS_MAX = 64,    /* commands queued for the watcher */
};

/*
 * From best to worst: constant, name in metrics, word in milligpu.io/gpus (one of HEALTH_WORDS),
 * meaning.
 */
#define GPU_HEALTH_TABLE(X)                                                                        \
    X(GPU_HEALTHY, "healthy", "healthy", "no fault in the last quiet_ms")                          \
    X(GPU_XID, "xid", "failed", "a critical XID (nvml_xid_is_critical) in the last quiet_ms")      \
    X(GPU_ECC, "ecc", "degraded", "uncorrected memory errors in the last quiet_ms")                \
    X(GPU_RESET_REQUIRED, "reset_required", "failed", "reported by NVML")                          \
    X(GPU_LOST, "lost", "lost", "fallen off the bus, or no longer shown by the driver")            \
    X(GPU_UNKNOWN, "unknown", "unknown", "the driver hangs or was unloaded")

enum gpu_health {
#define X(health, name, word, meaning) health,
    GPU_HEALTH_TABLE(X)
#undef X
};

/* Facts that NVML reported about a GPU: bits of gpu_state.known. */
enum gpu_fact {
    GPU_KNOWS_TEMPERATURE = 1 << 0,
    GPU_KNOWS_POWER = 1 << 1,
    GPU_KNOWS_CLOCKS = 1 << 2,
    GPU_KNOWS_ECC = 1 << 3,
    GPU_KNOWS_PROCESSES = 1 << 4,
};

struct gpu_process {
    uint32_t pid;  /* in the PID namespace of the host */
    uint32_t mib;  /* 0 if unknown */
    bool is_known; /* whether mib is known */
    bool is_mps;   /* client of an MPS server; NVML can count its memory for the server */
    /*
     * Thousandths of the GPU's SM time, averaged since the previous reading; -1 if unknown. The sum
     * over the processes of a GPU is at most the utilization of the GPU: NVML also counts time in
     * which a process waits for its turn, so its numbers are scaled down.
     */
    int32_t sm_milli;
    bool is_scaled; /* sm_milli was scaled down from NVML's number */
};

struct gpu_state {
    char uuid[NVML_TEXT_MAX];
    char model[NVML_TEXT_MAX]; /* "NVIDIA H100 80GB HBM3"; printable ASCII */
    char bus_id[33];           /* "00000000:3B:00.0" */
    uint32_t index;            /* NVML's index; can change at a reboot */
    int32_t minor;             /* of /dev/nvidia<minor>; -1 if unknown */
    int32_t numa;              /* NUMA node; -1 if none or unknown */
    uint32_t mib_total;
    uint32_t mib_used; /* without the driver's reservation, where NVML reports it separately */
    bool is_mig;       /* in MIG mode; not used for shares */
    /*
     * GPUs joined to this one by an active NVLink, directly or through NVSwitches (all GPUs with a
     * link to a switch count as one fabric). Bit i is gpu[i]. The number of links, links to a CPU
     * and links between machines are ignored.
     */
    uint64_t peers;

    uint32_t known; /* bits of enum gpu_fact, for the fields up to health */
    uint32_t temperature_c;
    uint32_t power_mw;
    uint64_t clock_reasons; /* reasons for reduced clocks: bits of nvmlClocksEventReasons */
    /* ECC errors since the driver was loaded. */
    uint64_t ecc_corrected;
    uint64_t ecc_uncorrected;

    uint32_t process; /* its processes are reading.process[process .. process + processes) */
    uint32_t processes;
    uint32_t processes_left_out;

    enum gpu_health health;
    char reason[NVML_REASON_MAX]; /* a sentence; "" if healthy */
    int64_t since_ms;             /* UTC time of the last change of health */
    /* XIDs since the watcher started. */
    uint64_t xids;             /* critical ones */
    uint64_t application_xids; /* the others */
    uint64_t xid;              /* the last critical one; 0 if none */
};

enum nvml_status {
    NVML_STARTING,  /* no reading yet */
    NVML_NO_DRIVER, /* the library or the driver cannot be loaded; problem has the reason */
    NVML_READY,
    NVML_SILENT,   /* the driver hangs */
    NVML_RELEASED, /* unloaded by nvml_release(); GPUs and health are as last read */
};

struct gpu_reading {
    enum nvml_status status;
    char problem[ERR_TEXT_MAX]; /* a sentence; "" with NVML_READY */
    /* Versions, as last read; "" if unknown. */
    char driver[NVML_TEXT_MAX];
    char library[NVML_TEXT_MAX];

    bool has_events;       /* false: XIDs are not detected */
    bool has_memory_limit; /* the driver has the function behind nvml_limit_memory() */
    uint64_t number;       /* increases with each reading */
    uint64_t loads;        /* times the library was loaded; the driver can change with each */
    int64_t taken_ms;      /* monotonic */
    uint32_t n_gpus;
    struct gpu_state gpu[GPUS_PER_NODE_MAX];
    uint32_t left_out;                  /* GPUs missing from gpu[] */
    char left_out_why[NVML_REASON_MAX]; /* the reason for the first of them */
    uint32_t n_processes;
    const struct gpu_process *process;
};

struct nvml_settings {
    const char *library; /* for dlopen(); borrowed until nvml_open() returns */
    int64_t every_ms;    /* interval between readings */
    int64_t retry_ms; /* interval between attempts to load NVML; six times that if a GPU is lost */
    int64_t quiet_ms; /* time without critical XIDs and ECC errors until a GPU is healthy again */
    /* Age of a reading at which the driver counts as hung; at least 3 * max(every_ms, retry_ms). */
    int64_t silent_ms;
    int64_t stop_ms;  /* timeout of nvml_close() */
    bool is_released; /* starts as after nvml_release(nvml, true): nothing is loaded */
    struct clock_ops clock;
};

/*
 * Sets NVML_LIBRARY, 10 s, 10 s, 10 min, 40 s, 2 s, not released, the real clock. Ten minutes of
 * quiet: a GPU that keeps working after a critical XID is more likely good than bad, and a pod that
 * finds out otherwise has only a share of it. States that do not heal (lost, reset required) are
 * detected independently.
 */
void nvml_defaults(struct nvml_settings *out);

struct nvml;

/* Starts the watcher; readings show whether there is a driver. NULL if there is no thread. */
struct nvml *nvml_open(const struct nvml_settings *settings, struct err *err) MUST_USE;

/*
 * Stops the watcher. If it hangs in the driver, it is abandoned after stop_ms, and frees its memory
 * if it ever returns. No other call can be in progress or follow. References to readings stay
 * valid. NULL is fine.
 */
void nvml_close(struct nvml *nvml);

/*
 * true: shuts NVML down and unloads its library, so that this process has no file of the driver
 * open or mapped. It is done when a reading has the status NVML_RELEASED; with a driver that hangs,
 * once that answers. false: loads the library again, possibly another version, and retries until
 * that succeeds. Does not wait.
 */
void nvml_release(struct nvml *nvml, bool released);

/* The latest reading, to be released by gpu_reading_unref(). Never waits for NVML. */
const struct gpu_reading *nvml_latest(struct nvml *nvml) MUST_USE;
void gpu_reading_unref(const struct gpu_reading *reading); /* NULL is fine */

/*
 * Clears the XIDs and ECC errors of a GPU, for an operator. Takes effect with the next reading.
 * ERR_NOT_FOUND: no such GPU; ERR_BUSY: the command queue of the watcher is full.
 */
int nvml_clear_fault(struct nvml *nvml, const char *uuid, struct err *err) MUST_USE;

/* Outcome of setting a memory limit. */
enum nvml_limit_end {
    NVML_LIMIT_HOLDS,         /* set, and read back with the same value */
    NVML_LIMIT_ABSENT,        /* not supported by the driver, or on this GPU */
    NVML_LIMIT_REFUSED,       /* the process lacks the permission */
    NVML_LIMIT_NO_CONTROLLER, /* the cgroup lacks the controller that the driver needs */
    NVML_LIMIT_DIFFERS,       /* set, but another value was read back */
    NVML_LIMIT_UNREAD,        /* set, but could not be read back */
    NVML_LIMIT_FAILED,
};

/*
 * Limits the GPU memory of the processes of a cgroup (drivers from R615), and reads the hard limit
 * back. Returns negative if *out is not NVML_LIMIT_HOLDS. Waits at most wait_ms for the watcher,
 * usually up to 100 ms. ERR_TIMEOUT: not done in time; a command that the watcher has begun can
 * still take effect. ERR_NOT_FOUND: no such GPU, or the driver has no limits.
 *
 * With the kernel's dmem, a soft limit is added to all parent cgroups and stays there when the
 * cgroup is removed. So use 0, or reset it to 0 before.
 */
struct nvml_limit {
    const char *uuid;
    const char *cgroup;  /* full path */
    uint64_t soft_bytes; /* guaranteed memory; 0 if none */
    uint64_t hard_bytes; /* maximum; UINT64_MAX: no limit */
};
int nvml_limit_memory(struct nvml *nvml, const struct nvml_limit *limit, int64_t wait_ms,
                      enum nvml_limit_end *out, struct err *err) MUST_USE;

const char *gpu_health_name(enum gpu_health health);
const char *gpu_health_word(enum gpu_health health);
const char *nvml_status_name(enum nvml_status status);

/* False for XIDs caused by applications, which say nothing about the GPU. */
bool nvml_xid_is_critical(uint64_t xid);

#endif
