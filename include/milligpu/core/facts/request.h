/*
 * request - what a pod asks for, validated and in numbers.
 *
 *   limits: nvidia.com/vgpu: 300      one want: 1 part  of  300
 *   limits: nvidia.com/vgpu: 2000     one want: 2 parts of 1000
 *   ... and gpu-count: "2" with 600   one want: 2 parts of  300
 *
 * Invariants of a request:
 *   1. wants > 0 or whole > 0; each want has 1 .. GPUS_PER_NODE_MAX parts of 1 .. GPU_MILLI; the
 *      parts of all wants are at most PARTS_MAX.
 *   2. Wants are in the order of pod.container, without containers that ask for nothing or 0.
 *   3. The parts of one want are on different GPUs; different wants may share a GPU.
 *   4. Of a waiting pod, others are its containers without a want, at most CONTAINERS_MAX, in the
 *      same order; of a bound pod there are none, since only a Binding names them.
 *
 * What a pod takes on one GPU, its charge, is the peak over its life:
 *   max(sum(app) + sum(sidecars), max over init i of (init_i + sidecars started before i)).
 * Source: effective request of a pod, k8s.io/component-helpers/resource.
 */
#ifndef MILLIGPU_REQUEST_H
#define MILLIGPU_REQUEST_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/host.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/core/facts/reason.h"
#include "milligpu/core/facts/rule_set.h"

/* Settings that decide which requests are allowed. */
struct request_rules {
    const char *resource; /* for messages: "nvidia.com/vgpu" */
    uint32_t min_milli;   /* 1: no minimum */
    uint32_t step_milli;  /* 1: any amount */
};

/*
 * Amounts that nearly always count whole GPUs: who writes 2 means 2000. They are granted as they
 * are written, but somebody should say so (advice.h).
 */
enum { MEANT_GPUS_MAX = 16 };

struct want {
    const char *container;
    enum container_kind kind;
    uint32_t parts;
    uint32_t milli; /* of each part */
};

/*
 * How the GPUs of each want of several parts must lie on their node; which of the others are
 * preferred, place.h says.
 */
#define TOPOLOGY_TABLE(X)                                                                          \
    X(TOPOLOGY_ANY, "any", "")                                                                     \
    X(TOPOLOGY_NUMA, "numa", "on one NUMA node")                                                   \
    X(TOPOLOGY_NVLINK, "nvlink", "all linked by NVLink")

enum topology {
#define X(code, word, text) code,
    TOPOLOGY_TABLE(X)
#undef X
        TOPOLOGIES
};

const char *topology_name(enum topology topology);
const char *topology_text(enum topology topology); /* behind "2 GPUs, ": "on one NUMA node" */

struct request {
    uint32_t wants;
    struct want *want;
    uint32_t others;
    const char **other;  /* names */
    uint32_t models;     /* 0: any */
    const char **model;  /* globs, as model_bare() makes them */
    uint32_t memory_mib; /* least memory of each share; 0: any */
    /* a demand; ANY where no want has several parts, for one GPU lies together by itself */
    enum topology topology;
    /* what kube-scheduler counts, rounded up; only judged, never granted; 0: none */
    struct host host;
    uint32_t whole; /* whole GPUs, of the other resource, which a device plugin hands out */
    /* rules of the policy that match the pod's namespace (rulebook.h); request_parse() sets none */
    rule_set rules;
};

enum request_verdict {
    REQUEST_OK,
    REQUEST_WHOLE,    /* nothing of ours, only whole GPUs: wants is 0 */
    REQUEST_NOT_OURS, /* no container names either resource */
    /* names it and asks for 0: fits everywhere, and is bound without an allocation */
    REQUEST_ZERO,
    /* can be granted nowhere: why and text say what to write instead */
    REQUEST_REFUSED,
};

struct refusal {
    enum reason why;
    char text[REASON_BYTES_MAX];
};

/* Evaluates a waiting pod. *out lives in arena and borrows container names from pod. */
enum request_verdict request_parse(const struct pod *pod, const struct request_rules *rules,
                                   struct arena *arena, struct request *out,
                                   struct refusal *out_refusal) MUST_USE;

/*
 * What a bound pod holds, by the amounts of its spec. Policy (minimum, step) applies to new grants
 * only, never to what already runs. An amount is split as the allocation annotation says if its
 * parts are equal and add up to the amount, else as the gpu-count annotations say; one that cannot
 * be used is ignored, and so is a demand for a topology. If part of the pod cannot be read and the
 * allocation does not decide, the result is REQUEST_REFUSED: the pod is counted on no GPU, and so
 * its node takes no new shares.
 */
enum request_verdict request_parse_bound(const struct pod *pod, const struct request_rules *rules,
                                         struct arena *arena, struct request *out,
                                         struct refusal *out_refusal) MUST_USE;

/* Does it ask for anything? */
static inline bool request_asks(const struct request *request)
{
    return request->wants > 0 || request->whole > 0;
}

/* A copy in one block, strings included; xfree() it. */
struct request *request_clone(const struct request *request) MUST_USE;
size_t request_bytes(const struct request *request); /* of that block */
/*
 * Do both ask the ledger for the same, so that both fit or neither, for the same reason? The names
 * of the containers and the host do not matter: whoever stores a request to bind or to judge by it
 * compares these as well (request_classes.c, score_cache.c).
 */
bool request_eq(const struct request *a, const struct request *b);
uint32_t request_hash(const struct request *request);

/* "300 milli of one GPU", "2 whole GPUs", "2 x 300 milli and 700 milli (init)": for people. */
void request_format(const struct request *request, char *out, size_t bytes);

/* Its models, of which there is at least one: "A100* or H100*". */
void request_add_models(struct strbuf *buf, const struct request *request);
/* A hint that ends a refusal, if a name looks like several without a comma between them. */
void request_add_comma_hint(struct strbuf *buf, const struct request *request);

/* The text for a reason, made from the request's numbers only. */
void request_refuse(const struct request *request, enum reason why, struct refusal *out);

/*
 * Reads models or globs, separated by commas, as in annotation milligpu.io/gpu-model, into a
 * request that names none yet. Returns what is wrong with them ("has an empty entry"); NULL: they
 * are fine. They are in arena.
 */
const char *request_read_models(struct text list, struct arena *arena,
                                struct request *out) MUST_USE;

/* Does this one of its models take the GPU's model (model.h)? */
bool request_name_takes(const struct request *request, uint32_t name, struct text model);
/* Is it one of the request's models, or does the request name none? */
bool request_takes_model(const struct request *request, struct text model);

/* The peak on one GPU. amount[i] is what want i (in order of life) takes there, 0 if nothing. */
uint32_t request_peak(const struct request *request, const uint32_t *amount);
/* Does it need two GPUs or more at a time, as it asks? For parts, a peak or whole GPUs. */
bool request_is_of_several(const struct request *request);

#endif
