/*
 * nvml_devices - records of all GPUs ever seen and their state, the source of readings.
 *
 * nvml_devices_round() reads everything from NVML, once per reading; events arrive in between. Both
 * update the records, from which nvml_health.h derives the health. Watcher's thread only.
 */
#ifndef MILLIGPU_NVML_DEVICES_H
#define MILLIGPU_NVML_DEVICES_H

#include "milligpu/nvml/nvml.h"

#include "nvml_library.h"

enum nvml_presence {
    PRESENT,
    MISSING, /* no longer shown by the driver */
    /* Reported by NVML. */
    LOST,
    NEEDS_RESET,
};

struct nvml_record {
    struct gpu_state state;
    struct abi_device *device; /* handle from the last round that saw it; NULL if none */
    enum nvml_presence presence;
    bool was_gone; /* not PRESENT in the previous round */
    bool has_links_to_switch;
    bool is_registered;   /* with the event set of the watcher */
    enum gpu_health sick; /* worst fault since it was healthy: GPU_XID, GPU_ECC; or GPU_HEALTHY */
    int64_t sick_ms;      /* monotonic time of the last fault */
    bool has_ecc;         /* ecc was read */
    uint64_t ecc;         /* last value of the counter of uncorrected errors */
    /* UTC times of the newest samples, of its processes and of the GPU. */
    uint64_t sampled_us;
    uint64_t busy_us;
};

/* Drivers keep about a hundred samples, of 17 to 20 seconds. */
enum { NVML_SAMPLES_MAX = 256 };

struct nvml_devices {
    int64_t quiet_ms;
    uint32_t gpus;
    struct nvml_record record[GPUS_PER_NODE_MAX];
    char driver[NVML_TEXT_MAX];
    char library[NVML_TEXT_MAX];
    uint32_t left_out;
    char left_out_why[NVML_REASON_MAX];
    struct gpu_process *process; /* all processes of the last round; owned */
    uint32_t n_processes;
    size_t process_capacity;
    /* Scratch buffers. */
    struct abi_process *scratch;     /* owned */
    struct abi_utilization *samples; /* owned */
    struct abi_sample busy[NVML_SAMPLES_MAX];
};

/* The current time. */
struct nvml_now {
    int64_t ms;      /* monotonic */
    int64_t wall_ms; /* UTC */
};

void nvml_devices_init(struct nvml_devices *devices, int64_t quiet_ms);
void nvml_devices_done(struct nvml_devices *devices);

/* Reads everything. On an error NVML does not work any more, and must be loaded again. */
int nvml_devices_round(struct nvml_devices *devices, const struct nvml_library *nvml,
                       struct nvml_now now, struct err *err) MUST_USE;
/* NVML does not work: the health of all GPUs becomes GPU_UNKNOWN, with why as the reason. */
void nvml_devices_no_driver(struct nvml_devices *devices, const char *why, struct nvml_now now);

/* NVML was unloaded by nvml_release(): GPUs and health stay as last read. */
void nvml_devices_let_go(struct nvml_devices *devices);

/* Takes an event. An event with device NULL, from a GPU unknown to NVML, counts for all GPUs. */
void nvml_devices_event(struct nvml_devices *devices, const struct abi_event *event,
                        struct nvml_now now);
/* Clears the faults of a GPU; false if there is no such GPU. */
bool nvml_devices_clear_fault(struct nvml_devices *devices, const char *uuid);
/* NULL if there is no such GPU, or it is not PRESENT. */
struct nvml_record *nvml_devices_find(struct nvml_devices *devices, const char *uuid);
bool nvml_devices_misses_any(const struct nvml_devices *devices);

/* Copies GPUs and versions, but not the processes. */
void nvml_devices_write(const struct nvml_devices *devices, struct gpu_reading *out);

#endif
