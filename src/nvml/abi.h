/*
 * abi - the part of NVML that we use, declared from its documentation: NVIDIA's header cannot be
 * distributed with a program, and the library is loaded at run time.
 *
 * Names are NVML's without their prefixes. Sizes and offsets are those of nvml.h of NVML 13.4, the
 * same on x86-64 and arm64. They are stable: NVML gives an extended structure a new name (_v2).
 * Enumerations and nvmlReturn_t are int, nvmlDevice_t and nvmlEventSet_t pointers.
 */
#ifndef MILLIGPU_NVML_ABI_H
#define MILLIGPU_NVML_ABI_H

#include "milligpu/base/base.h"

/* X(name, code, text). The texts are ours: nvmlErrorString() can hang like any other call. */
#define NVML_CODES(X)                                                                              \
    X(SUCCESS, 0, "success")                                                                       \
    X(UNINITIALIZED, 1, "NVML is not initialized")                                                 \
    X(INVALID_ARGUMENT, 2, "an argument is invalid")                                               \
    X(NOT_SUPPORTED, 3, "the GPU does not support it")                                             \
    X(NO_PERMISSION, 4, "no permission")                                                           \
    X(NOT_FOUND, 6, "not found")                                                                   \
    X(INSUFFICIENT_SIZE, 7, "the buffer is too small")                                             \
    X(INSUFFICIENT_POWER, 8, "the external power cables are not attached properly")                \
    X(DRIVER_NOT_LOADED, 9, "the NVIDIA driver is not loaded")                                     \
    X(TIMEOUT, 10, "timeout")                                                                      \
    X(IRQ_ISSUE, 11, "the kernel detected an interrupt issue with the GPU")                        \
    X(LIBRARY_NOT_FOUND, 12, "a library is missing")                                               \
    X(FUNCTION_NOT_FOUND, 13, "this driver does not have the function")                            \
    X(CORRUPTED_INFOROM, 14, "the GPU's infoROM is corrupted")                                     \
    X(GPU_IS_LOST, 15, "the GPU has fallen off the bus")                                           \
    X(RESET_REQUIRED, 16, "the GPU must be reset before it can be used again")                     \
    X(OPERATING_SYSTEM, 17, "the operating system refused it")                                     \
    X(LIB_RM_VERSION_MISMATCH, 18, "the library is not of the driver's version")                   \
    X(IN_USE, 19, "the GPU is in use")                                                             \
    X(MEMORY, 20, "not enough memory")                                                             \
    X(NO_DATA, 21, "no data")                                                                      \
    X(INSUFFICIENT_RESOURCES, 23, "not enough resources")                                          \
    X(ARGUMENT_VERSION_MISMATCH, 25, "the version of an argument is not supported")                \
    X(NOT_READY, 27, "the system is not ready")                                                    \
    X(GPU_NOT_FOUND, 28, "no GPU was found")                                                       \
    X(UNKNOWN, 999, "an internal error of the driver")

enum nvml_code {
#define X(name, code, words) NVML_##name = (code),
    NVML_CODES(X)
#undef X
};

enum {
    ABI_TEXT_BYTES = 96, /* sufficient for names, UUIDs, and versions */
    ABI_BUS_ID_BYTES = 32,
    ABI_LINKS_MAX = 36, /* maximum number of NVLinks of one GPU */
    ABI_TEMPERATURE_GPU = 0,
    ABI_ECC_CORRECTED = 0,
    ABI_ECC_UNCORRECTED = 1,
    ABI_ECC_VOLATILE = 0, /* counted since the driver was loaded */
    ABI_LINK_TO_GPU = 0,
    ABI_LINK_TO_SWITCH = 2,
    ABI_MEMORY_V2 = 0x02000028, /* version 2, 40 bytes */
    ABI_SAMPLES_GPU = 1,        /* percent of the time in which a kernel ran */
    ABI_VALUE_U32 = 1,
};

/* Types of events. */
#define ABI_EVENT_DOUBLE_BIT_ECC UINT64_C(0x2)
#define ABI_EVENT_XID            UINT64_C(0x8)

struct abi_device;    /* *: nvmlDevice_t */
struct abi_event_set; /* *: nvmlEventSet_t */

struct abi_memory {
    uint64_t total;
    uint64_t free;
    uint64_t used; /* includes the driver's reservation */
};
static_assert(sizeof(struct abi_memory) == 24, "nvmlMemory_t");
static_assert(offsetof(struct abi_memory, used) == 16, "nvmlMemory_t.used");

struct abi_memory_v2 {
    uint32_t version; /* ABI_MEMORY_V2 */
    uint64_t total;
    uint64_t reserved;
    uint64_t free;
    uint64_t used;
};
static_assert(sizeof(struct abi_memory_v2) == 40, "nvmlMemory_v2_t");
static_assert(offsetof(struct abi_memory_v2, total) == 8, "nvmlMemory_v2_t.total");
static_assert(offsetof(struct abi_memory_v2, used) == 32, "nvmlMemory_v2_t.used");

struct abi_pci {
    char legacy_bus_id[16];
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id;
    uint32_t subsystem_id;
    char bus_id[ABI_BUS_ID_BYTES];
};
static_assert(sizeof(struct abi_pci) == 68, "nvmlPciInfo_t");
static_assert(offsetof(struct abi_pci, domain) == 16, "nvmlPciInfo_t.domain");
static_assert(offsetof(struct abi_pci, bus_id) == 36, "nvmlPciInfo_t.busId");

struct abi_process {
    uint32_t pid;
    uint64_t used_bytes; /* UINT64_MAX if unknown */
    uint32_t gpu_instance;
    uint32_t compute_instance;
};
static_assert(sizeof(struct abi_process) == 24, "nvmlProcessInfo_t");
static_assert(offsetof(struct abi_process, used_bytes) == 8, "nvmlProcessInfo_t.usedGpuMemory");
static_assert(offsetof(struct abi_process, gpu_instance) == 16, "nvmlProcessInfo_t.gpuInstanceId");

struct abi_utilization {
    uint32_t pid;
    uint64_t time_us; /* UTC time of the sample, by the CPU's clock */
    uint32_t sm_percent;
    uint32_t memory_percent;
    uint32_t encoder_percent;
    uint32_t decoder_percent;
};
static_assert(sizeof(struct abi_utilization) == 32, "nvmlProcessUtilizationSample_t");
static_assert(offsetof(struct abi_utilization, time_us) == 8, "nvmlProcessUtilizationSample_t");
static_assert(offsetof(struct abi_utilization, sm_percent) == 16, "nvmlProcessUtilizationSample_t");

struct abi_sample {
    uint64_t time_us; /* UTC time of the sample, by the CPU's clock */
    union {
        uint32_t u32; /* with ABI_VALUE_U32 */
        double real;
        uint64_t u64;
    } value;
};
static_assert(sizeof(struct abi_sample) == 16, "nvmlSample_t");
static_assert(offsetof(struct abi_sample, value) == 8, "nvmlSample_t.sampleValue");

struct abi_event {
    struct abi_device *device;
    uint64_t type;
    uint64_t data; /* number of the XID */
    uint32_t gpu_instance;
    uint32_t compute_instance;
};
static_assert(sizeof(struct abi_event) == 32, "nvmlEventData_t");
static_assert(offsetof(struct abi_event, type) == 8, "nvmlEventData_t.eventType");
static_assert(offsetof(struct abi_event, data) == 16, "nvmlEventData_t.eventData");

struct abi_memory_limits {
    const char *cgroup; /* full path */
    uint64_t soft_bytes;
    uint64_t hard_bytes;
};
static_assert(sizeof(struct abi_memory_limits) == 24, "nvmlSetMemoryLimits_v1_t");
static_assert(offsetof(struct abi_memory_limits, hard_bytes) == 16, "nvmlSetMemoryLimits_v1_t");

struct abi_memory_limits_now {
    const char *cgroup;
    uint64_t soft_bytes;
    uint64_t hard_bytes;
    uint64_t used_bytes;
};
static_assert(sizeof(struct abi_memory_limits_now) == 32, "nvmlGetMemoryLimits_v1_t");
static_assert(offsetof(struct abi_memory_limits_now, used_bytes) == 24, "nvmlGetMemoryLimits_v1_t");

static_assert(sizeof(int) == 4 && sizeof(unsigned) == 4, "nvmlReturn_t and counts");

/* X(name of the function, whether it is required, its arguments) */
#define NVML_FUNCTIONS(X)                                                                          \
    X(Init_v2, true, (void))                                                                       \
    X(Shutdown, true, (void))                                                                      \
    X(SystemGetDriverVersion, true, (char *text, unsigned bytes))                                  \
    X(SystemGetNVMLVersion, false, (char *text, unsigned bytes))                                   \
    X(DeviceGetCount_v2, true, (unsigned *count))                                                  \
    X(DeviceGetHandleByIndex_v2, true, (unsigned index, struct abi_device **device))               \
    X(DeviceGetUUID, true, (struct abi_device * device, char *text, unsigned bytes))               \
    X(DeviceGetName, false, (struct abi_device * device, char *text, unsigned bytes))              \
    X(DeviceGetMinorNumber, false, (struct abi_device * device, unsigned *minor))                  \
    X(DeviceGetMemoryInfo, true, (struct abi_device * device, struct abi_memory * memory))         \
    X(DeviceGetMemoryInfo_v2, false, (struct abi_device * device, struct abi_memory_v2 * memory))  \
    X(DeviceGetPciInfo_v3, false, (struct abi_device * device, struct abi_pci * pci))              \
    X(DeviceGetNumaNodeId, false, (struct abi_device * device, unsigned *node))                    \
    X(DeviceGetMigMode, false, (struct abi_device * device, unsigned *now, unsigned *pending))     \
    X(DeviceGetNvLinkState, false, (struct abi_device * device, unsigned link, int *active))       \
    X(DeviceGetNvLinkRemotePciInfo_v2, false,                                                      \
      (struct abi_device * device, unsigned link, struct abi_pci *pci))                            \
    X(DeviceGetNvLinkRemoteDeviceType, false,                                                      \
      (struct abi_device * device, unsigned link, int *type))                                      \
    X(DeviceGetTemperature, false, (struct abi_device * device, int sensor, unsigned *celsius))    \
    X(DeviceGetPowerUsage, false, (struct abi_device * device, unsigned *milliwatts))              \
    X(DeviceGetCurrentClocksEventReasons, false, (struct abi_device * device, uint64_t * reasons)) \
    X(DeviceGetTotalEccErrors, false,                                                              \
      (struct abi_device * device, int type, int counter, uint64_t *count))                        \
    X(DeviceGetComputeRunningProcesses_v3, false,                                                  \
      (struct abi_device * device, unsigned *count, struct abi_process *process))                  \
    X(DeviceGetMPSComputeRunningProcesses_v3, false,                                               \
      (struct abi_device * device, unsigned *count, struct abi_process *process))                  \
    X(DeviceGetProcessUtilization, false,                                                          \
      (struct abi_device * device, struct abi_utilization * sample, unsigned *count,               \
       uint64_t since_us))                                                                         \
    X(DeviceGetSamples, false,                                                                     \
      (struct abi_device * device, int what, uint64_t since_us, int *type, unsigned *count,        \
       struct abi_sample *sample))                                                                 \
    X(EventSetCreate, false, (struct abi_event_set * *set))                                        \
    X(DeviceRegisterEvents, false,                                                                 \
      (struct abi_device * device, uint64_t types, struct abi_event_set * set))                    \
    X(EventSetWait_v2, false,                                                                      \
      (struct abi_event_set * set, struct abi_event * event, unsigned wait_ms))                    \
    X(EventSetFree, false, (struct abi_event_set * set))                                           \
    X(DeviceSetMemoryLimits_v1, false,                                                             \
      (struct abi_device * device, struct abi_memory_limits * limits))                             \
    X(DeviceGetMemoryLimits_v1, false,                                                             \
      (struct abi_device * device, struct abi_memory_limits_now * limits))

#endif
