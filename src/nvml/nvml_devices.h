/*
 * nvml_devices - all GPUs that were ever seen, and how they are: what readings are made of.
 *
 * A round is one reading: nvml_devices_round() asks NVML for everything. In between, events say
 * what happened to a GPU. Health is derived in one place, from what the round and the events left
 * in the records. Owned by the watcher.
 */
#ifndef MILLIGPU_NVML_DEVICES_H
#define MILLIGPU_NVML_DEVICES_H

#include "milligpu/nvml/nvml.h"

#include "nvml_library.h"

enum nvml_presence {
    PRESENT,
    MISSING, /* the driver does not show it any more */
    LOST,    /* says NVML, like the next */
    NEEDS_RESET,
};

struct nvml_record {
    struct gpu_state state;
    struct abi_device *device; /* of the last round that saw it */
    enum nvml_presence presence;
    bool was_gone; /* already in the round before */
    bool has_links_to_switch;
    bool is_registered; /* with the event set of the watcher */
    /* The last event that makes it sick, and what it was. */
    enum gpu_health sick; /* GPU_HEALTHY: none */
    int64_t sick_ms;      /* monotonic */
    bool has_ecc;         /* ecc_uncorrected was read in a round */
    uint64_t ecc;
    uint64_t sampled_us; /* the newest sample of what its processes use */
    uint64_t busy_us;    /* the newest sample of its own use */
};

/* Drivers keep about a hundred, of 17 to 20 seconds. */
enum { NVML_SAMPLES_MAX = 256 };

struct nvml_devices {
    int64_t quiet_ms;
    uint32_t gpus;
    struct nvml_record record[GPUS_PER_NODE_MAX];
    char driver[NVML_TEXT_MAX];
    char library[NVML_TEXT_MAX];
    uint32_t left_out;
    char left_out_why[NVML_REASON_MAX];
    struct gpu_process *process; /* of the last round */
    uint32_t processes;
    size_t process_capacity;
    struct abi_process *scratch;
    struct abi_utilization *samples; /* scratch, too, like the next one */
    struct abi_sample busy[NVML_SAMPLES_MAX];
};

/* What it is now: both clocks. */
struct nvml_now {
    int64_t ms;
    int64_t wall_ms;
};

void nvml_devices_init(struct nvml_devices *devices, int64_t quiet_ms);
void nvml_devices_done(struct nvml_devices *devices);

/* Asks for everything. An error: NVML does not work any more, and must be loaded again. */
int nvml_devices_round(struct nvml_devices *devices, const struct nvml_library *nvml,
                       struct nvml_now now, struct err *err) MUST_USE;
/* NVML does not work: whatever GPUs were seen, nothing is known of them. */
void nvml_devices_no_driver(struct nvml_devices *devices, const char *why, struct nvml_now now);

/* NVML is unloaded on purpose: the GPUs and their health stay as last read. */
void nvml_devices_let_go(struct nvml_devices *devices);

/* An event. device NULL: of a GPU that NVML cannot name, so it counts for all of them. */
void nvml_devices_event(struct nvml_devices *devices, const struct abi_event *event,
                        struct nvml_now now);
/* False: no such GPU. */
bool nvml_devices_clear_fault(struct nvml_devices *devices, const char *uuid);
/* NULL: no such GPU, or it is not there. */
struct nvml_record *nvml_devices_find(struct nvml_devices *devices, const char *uuid);
bool nvml_devices_misses_any(const struct nvml_devices *devices);

/* Copies GPUs and versions; the processes stay those of the device list. */
void nvml_devices_write(const struct nvml_devices *devices, struct gpu_reading *out);

#endif
