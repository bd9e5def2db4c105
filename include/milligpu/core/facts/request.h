/*
 * request - a pod's request for GPUs, validated and in numbers.
 *
 *   limits: nvidia.com/vgpu: 300      one want: 1 part  of  300
 *   limits: nvidia.com/vgpu: 2000     one want: 2 parts of 1000
 *   ... and gpu-count: "2" with 600   one want: 2 parts of  300
 *
 * Invariants of a request:
 *   1. wants > 0 or whole > 0; each want has 1 .. GPUS_PER_NODE_MAX parts of 1 .. GPU_MILLI; the
 *      parts of all wants are at most PARTS_MAX.
 *   2. Wants are in the order of pod.container; containers that request nothing or 0 have none.
 *   3. The parts of one want are on different GPUs; different wants may share a GPU.
 *   4. others are the containers of a waiting pod without a want, at most CONTAINERS_MAX, in the
 *      same order; a bound pod has none, since only a Binding names them.
 *
 * The charge of a pod on one GPU is its peak there over the pod's life:
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

/* Settings that restrict requests. */
struct request_rules {
    const char *resource; /* borrowed; for messages: "nvidia.com/vgpu" */
    uint32_t min_milli;   /* 1: no minimum */
    uint32_t step_milli;  /* 1: any amount */
};

/*
 * Amounts up to this one nearly always mean whole GPUs: 2 for 2000. They are granted as written,
 * with advice (advice.h).
 */
enum { MEANT_GPUS_MAX = 16 };

struct want {
    const char *container;
    enum container_kind kind;
    uint32_t parts;
    uint32_t milli; /* of each part */
};

/* The topology demanded of the GPUs of each want of several parts. Preferences are in place.h. */
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
const char *topology_text(enum topology topology); /* follows "2 GPUs, " */

struct request {
    uint32_t n_wants;
    struct want *want;
    uint32_t n_others;
    const char **other;     /* names */
    uint32_t n_models;      /* 0: any */
    const char **model;     /* globs, as model_bare() makes them */
    uint32_t memory_mib;    /* minimum memory of each share; 0: any */
    enum topology topology; /* demanded; ANY if no want has several parts */
    /* as counted by kube-scheduler, rounded up; 0: none; orders placements, is never granted */
    struct host host;
    uint32_t whole; /* whole GPUs of the other resource, handed out by a device plugin */
    rule_set rules; /* match the pod's namespace (rulebook.h); request_parse() sets none */
};

enum request_verdict {
    REQUEST_OK,
    REQUEST_WHOLE,    /* only whole GPUs, none of our resource: wants is 0 */
    REQUEST_NOT_OURS, /* no container names either resource */
    REQUEST_ZERO,     /* requests 0: fits everywhere, and is bound without an allocation */
    REQUEST_REFUSED,  /* can never be granted: the refusal says how to correct it */
};

struct refusal {
    enum reason why;
    char text[REASON_BYTES_MAX];
};

/* Parses a waiting pod. *out lives in arena and borrows container names from pod. */
enum request_verdict request_parse(const struct pod *pod, const struct request_rules *rules,
                                   struct arena *arena, struct request *out,
                                   struct refusal *out_refusal) MUST_USE;

/*
 * Parses a bound pod: the amounts of its spec, without minimum and step, which restrict new grants
 * only. An amount is split by the allocation annotation if its parts are equal and add up to the
 * amount, else by the gpu-count annotations. Invalid annotations and a demanded topology are
 * ignored. Returns REQUEST_REFUSED if part of the pod is unreadable and the allocation does not
 * replace it: the pod is then counted on no GPU, and its node takes no new shares.
 */
enum request_verdict request_parse_bound(const struct pod *pod, const struct request_rules *rules,
                                         struct arena *arena, struct request *out,
                                         struct refusal *out_refusal) MUST_USE;

static inline bool request_asks(const struct request *request)
{
    return request->n_wants > 0 || request->whole > 0;
}

/* Returns a deep copy in one block, owned by the caller (xfree). */
struct request *request_clone(const struct request *request) MUST_USE;
size_t request_bytes(const struct request *request); /* of that block */
/*
 * Are both equal to the ledger, so that both fit or neither, for the same reason? Ignores container
 * names and host: request_classes.c also compares both, score_cache.c the host.
 */
bool request_eq(const struct request *a, const struct request *b);
uint32_t request_hash(const struct request *request);

/* "300 milli of one GPU", "2 whole GPUs", "2 x 300 milli and 700 milli (init)", for display. */
void request_format(const struct request *request, char *out, size_t bytes);

/* Appends the models, at least one: "A100* or H100*". */
void request_add_models(struct strbuf *buf, const struct request *request);
/* Appends a hint to a refusal if a name looks like several without commas. */
void request_add_comma_hint(struct strbuf *buf, const struct request *request);

/* Makes the refusal for a reason; its text depends on the request alone. */
void request_refuse(const struct request *request, enum reason why, struct refusal *out);

/*
 * Parses models or globs separated by commas, as in annotation milligpu.io/gpu-model, into a
 * request without models. Returns NULL, or an error text ("has an empty entry"). The models are in
 * arena.
 */
const char *request_read_models(struct text list, struct arena *arena,
                                struct request *out) MUST_USE;

/* Does model number `name` of the request take the GPU's model (model.h)? */
bool request_name_takes(const struct request *request, uint32_t name, struct text model);
/* Does any of its models take the GPU's model, or has it none? */
bool request_takes_model(const struct request *request, struct text model);

/* The peak on one GPU. amount[i]: amount of want i there, in order of start; 0 if none. */
uint32_t request_peak(const struct request *request, const uint32_t *amount);
/* Does it need several GPUs at a time: for parts, a peak or whole GPUs? */
bool request_is_of_several(const struct request *request);

#endif
