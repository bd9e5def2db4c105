/*
 * uses_gpu MIB SECONDS [works | escapes | faults] - a container that uses its GPU, if any.
 *
 * Prints what it finds, one fact a line (gpus=1), takes so much memory of the first GPU, and stays
 * so long: idle, or works, or faults. One that works says each second how many rounds it has
 * computed (rounds=8), and reads what they made of the memory; escapes: it works, and has taken
 * MPS's limit of memory off first. It speaks to NVIDIA's driver alone (libcuda.so.1), by the
 * documented ABI, so that neither CUDA nor a header of it is needed to build it, and the driver's
 * libraries are all that a container needs.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MULTIPROCESSORS = 16, /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    BLOCKS = 64,
    THREADS = 128,
    ROUNDS = 20000000, /* of one call, a good tenth of a second */
};

/* Each thread counts down, then adds one to *sum, or writes to where nothing is. */
static const char ptx[] = ".version 6.3\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          ".visible .entry work(.param .u64 sum, .param .u32 rounds)\n"
                          "{\n"
                          "  .reg .u64 %at; .reg .u32 %left; .reg .pred %more;\n"
                          "  ld.param.u64 %at, [sum];\n"
                          "  ld.param.u32 %left, [rounds];\n"
                          "again:\n"
                          "  bar.warp.sync 0xffffffff;\n"
                          "  sub.u32 %left, %left, 1;\n"
                          "  setp.ne.u32 %more, %left, 0;\n"
                          "  @%more bra again;\n"
                          "  red.global.add.u32 [%at], 1;\n"
                          "  ret;\n"
                          "}\n";

typedef unsigned long long address;

/* The driver's functions: our name, the name of the version in the library, parameters. */
#define FUNCTIONS(X)                                                                               \
    X(cuInit, "cuInit", unsigned)                                                                  \
    X(cuDeviceGetCount, "cuDeviceGetCount", int *)                                                 \
    X(cuDeviceGet, "cuDeviceGet", int *, int)                                                      \
    X(cuDeviceGetName, "cuDeviceGetName", char *, int, int)                                        \
    X(cuDeviceGetUuid, "cuDeviceGetUuid_v2", unsigned char *, int)                                 \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", int *, int, int)                               \
    X(cuCtxCreate, "cuCtxCreate_v2", void **, unsigned, int)                                       \
    X(cuMemGetInfo, "cuMemGetInfo_v2", size_t *, size_t *)                                         \
    X(cuMemAlloc, "cuMemAlloc_v2", address *, size_t)                                              \
    X(cuMemsetD32, "cuMemsetD32_v2", address, unsigned, size_t)                                    \
    X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", void *, address, size_t)                                    \
    X(cuModuleLoadData, "cuModuleLoadData", void **, const void *)                                 \
    X(cuModuleGetFunction, "cuModuleGetFunction", void **, void *, const char *)                   \
    X(cuLaunchKernel, "cuLaunchKernel", void *, unsigned, unsigned, unsigned, unsigned, unsigned,  \
      unsigned, unsigned, void *, void **, void **)                                                \
    X(cuCtxSynchronize, "cuCtxSynchronize", void)                                                  \
    X(cuGetErrorName, "cuGetErrorName", int, const char **)

#define DECLARE(function, name, ...) static int (*function)(__VA_ARGS__);
FUNCTIONS(DECLARE)

static const struct {
    const char *name;
    void *function;
} functions[] = {
#define LIST(function, name, ...) {name, &function},
    FUNCTIONS(LIST)
#undef LIST
};

static time_t now(void)
{
    struct timespec is;

    (void)clock_gettime(CLOCK_MONOTONIC, &is);
    return is.tv_sec;
}

static bool stay(long seconds)
{
    (void)fflush(stdout);
    (void)sleep((unsigned)seconds);
    return true;
}

static bool works(const char *what, int status)
{
    const char *name = "?";

    if (status == 0)
        return true;
    if (cuGetErrorName != NULL)
        (void)cuGetErrorName(status, &name);
    printf("failed=%s %s\n", what, name);
    return false;
}

static bool load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (library == NULL) {
        printf("gpus=none %s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL) {
            printf("gpus=none %s\n", dlerror());
            return false;
        }
        memcpy(functions[i].function, &found, sizeof found);
    }
    return true;
}

static bool describe(int device)
{
    unsigned char uuid[16];
    char name[100];
    int multiprocessors = 0;
    size_t left = 0;
    size_t all = 0;

    if (!works("cuDeviceGetName", cuDeviceGetName(name, sizeof name, device)) ||
        !works("cuDeviceGetUuid", cuDeviceGetUuid(uuid, device)) ||
        !works("cuDeviceGetAttribute",
               cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSORS, device)) ||
        !works("cuMemGetInfo", cuMemGetInfo(&left, &all)))
        return false;
    printf("name=%s\nuuid=GPU-", name);
    for (int i = 0; i < 16; i++)
        printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
    printf("\nmultiprocessors=%d\nmib=%zu\nfree=%zu\n", multiprocessors, all >> 20, left >> 20);
    return true;
}

static bool compute(void *function, address sum, unsigned rounds)
{
    void *arguments[] = {&sum, &rounds};

    return works("cuLaunchKernel",
                 cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL)) &&
           works("cuCtxSynchronize", cuCtxSynchronize());
}

/* Round after round, so that nearly always a kernel runs. The first was computed before. */
static bool work(void *function, address memory, long seconds)
{
    const time_t end = now() + seconds;
    time_t said = now();
    unsigned sum = 0;

    for (unsigned rounds = 1; now() < end; rounds++) {
        if (!compute(function, memory, ROUNDS) ||
            !works("cuMemcpyDtoH", cuMemcpyDtoH(&sum, memory, sizeof sum)))
            return false;
        /* A context that another client broke lets each launch succeed, and computes nothing. */
        if (sum != (rounds + 1) * BLOCKS * THREADS) {
            printf("failed=sum %u after %u rounds\n", sum, rounds);
            return false;
        }
        if (now() != said)
            printf("rounds=%u\n", rounds);
        (void)fflush(stdout);
        said = now();
    }
    return true;
}

static bool use(size_t mib, long seconds, const char *how)
{
    address memory = 0;
    unsigned sum = 0;
    void *module = NULL;
    void *function = NULL;

    if (!works("cuMemAlloc", cuMemAlloc(&memory, mib << 20)) ||
        !works("cuMemsetD32", cuMemsetD32(memory, 0, mib << 18)) ||
        !works("cuModuleLoadData", cuModuleLoadData(&module, ptx)) ||
        !works("cuModuleGetFunction", cuModuleGetFunction(&function, module, "work")) ||
        !compute(function, memory, 1) ||
        !works("cuMemcpyDtoH", cuMemcpyDtoH(&sum, memory, sizeof sum)))
        return false;
    printf("took=%zu\ncomputed=%s\n", mib, sum == BLOCKS * THREADS ? "ok" : "something else");
    (void)fflush(stdout);
    if (strcmp(how, "faults") == 0)
        return compute(function, 16, 1);
    if (strcmp(how, "works") != 0 && strcmp(how, "escapes") != 0)
        return stay(seconds);
    return work(function, memory, seconds);
}

/* Describes the GPU and uses it. False: no GPU, or a failure. */
static bool run(size_t mib, long seconds, const char *how)
{
    void *context = NULL;
    int device = 0;
    int count = 0;

    if (!load())
        return false;
    const int status = cuInit(0);
    if (status != 0) {
        printf("gpus=none cuInit %d\n", status);
        return false;
    }
    if (!works("cuDeviceGetCount", cuDeviceGetCount(&count)))
        return false;
    printf("gpus=%d\n", count);
    return works("cuDeviceGet", cuDeviceGet(&device, 0)) &&
           works("cuCtxCreate", cuCtxCreate(&context, 0, device)) && describe(device) &&
           use(mib, seconds, how);
}

int main(int argc, char **argv)
{
    const char *variable = getenv("NVIDIA_VISIBLE_DEVICES");

    if (argc < 3) {
        (void)fprintf(stderr, "usage: uses_gpu MIB SECONDS [works | escapes | faults]\n");
        return 2;
    }
    const long seconds = strtol(argv[2], NULL, 10);
    if (argc > 3 && strcmp(argv[3], "escapes") == 0)
        (void)unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    printf("variable=%s\n", variable != NULL ? variable : "");
    if (run((size_t)strtoul(argv[1], NULL, 10), seconds, argc > 3 ? argv[3] : ""))
        return 0;
    (void)fflush(stdout);
    if (cuInit == NULL)
        (void)stay(seconds); /* without a GPU: its pod shall not end */
    return 1;
}
