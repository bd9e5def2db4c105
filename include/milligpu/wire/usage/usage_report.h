/*
 * usage_report - recent GPU usage of the pods of one node, as JSON.
 *
 *     POST /v1/usage
 *     Milligpu-Signature: v1:KEYID:BASE64                                   (signing.h)
 *
 *     {"v":1,"node":"n1","number":17,"seconds":300,"pods":[
 *       {"uid":"...","containers":[
 *         {"name":"main",
 *          "gpus":[{"gpu":"GPU-..","milli":120,"scaled":true,"mib":4000,"peakMib":4915}],
 *          "over":"seen"}]}]}
 *
 * The agent of the node encodes it, milligpud decodes it (docs/why/021). An amount that the driver
 * does not report is left out, and is USAGE_UNKNOWN here, never 0. Decoding is strict about types
 * and bounds, and skips unknown members. So a new member, as "scaled" was, needs no new version: an
 * older milligpud skips it, and an older agent leaves it out.
 *
 * Pure.
 */
#ifndef MILLIGPU_USAGE_REPORT_H
#define MILLIGPU_USAGE_REPORT_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"

#define USAGE_PATH   "/v1/usage"
#define USAGE_HEADER "Milligpu-Signature"

enum {
    USAGE_BODY_BYTES_MAX = 256 * 1024,
    USAGE_PODS_MAX = 256,
    USAGE_SECONDS_MAX = 86400,
    USAGE_UNKNOWN = -1,
};

/* Whether a container held more memory than its share. */
enum usage_over {
    USAGE_OVER_NOT,
    USAGE_OVER_SEEN,
    USAGE_OVER_KILLED, /* it did, and was killed for it */
};
/* "seen", "killed"; NULL for USAGE_OVER_NOT */
const char *usage_over_name(enum usage_over over);

/* Usage of one GPU by one container; amounts may be USAGE_UNKNOWN. */
struct usage_gpu {
    struct text gpu;  /* id, as in the annotation milligpu.io/allocation */
    int32_t milli;    /* average, thousandths of the GPU's time, 0 .. GPU_MILLI */
    int32_t mib;      /* average */
    int32_t peak_mib; /* maximum */
    bool is_scaled;   /* milli is known and includes at least one scaled sample (nvml.h) */
};

struct usage_container {
    struct text name;
    uint32_t n_gpus; /* at most GPUS_PER_NODE_MAX */
    struct usage_gpu *gpu;
    enum usage_over over;
};

struct usage_pod {
    struct text uid;
    uint32_t n_containers; /* at most CONTAINERS_MAX */
    struct usage_container *container;
};

struct usage_report {
    struct text node;
    uint64_t number;  /* sequence number, increasing by node; not 0 */
    uint32_t seconds; /* period of the averages, 1 .. USAGE_SECONDS_MAX */
    uint32_t n_pods;  /* at most USAGE_PODS_MAX */
    struct usage_pod *pod;
};

/* Appends to out; the report must be within the bounds above. */
void usage_report_encode(struct strbuf *out, const struct usage_report *report);

/*
 * *out borrows from body and arena. An error names the member and the valid values: "report.pods[0]
 * .containers[1].gpus[0].milli: 1200 is not within 0 and 1000". Names of pods, of the containers of
 * a pod, and of the GPUs of a container must be distinct.
 */
int usage_report_decode(struct text body, struct arena *arena, struct usage_report *out,
                        struct err *err) MUST_USE;

#endif
