/*
 * convert - manifests written for another GPU sharer, as manifests for milligpu.
 *
 *   convert_text     a stream of documents: splits, parses, writes (convert_text.c)
 *   convert_object   one object: its pods, and unconverted resources (convert_object.c)
 *   convert_pod      one pod or pod template (convert_pod.c)
 *   convert_share    the resources of a container (convert_share.c)
 *   convert_say      remarks; annotations of a pod (convert_say.c)
 *
 * An object is converted as a whole or stays unchanged. Pure.
 */
#ifndef MILLIGPU_CTL_CONVERT_H
#define MILLIGPU_CTL_CONVERT_H

#include "milligpu/document/document.h"

enum {
    CONVERT_BYTES_MAX = 10 * 1024 * 1024, /* for all input together */
    CONVERT_GPU_MIB_MAX = 16 * 1024 * 1024,
    CONVERT_LINES_MAX = 20, /* remarks printed for one object */
};

enum convert_peer { PEER_ANY, PEER_HAMI, PEER_KAI, PEER_ALIYUN };

struct convert_rules {
    const char *resource;   /* milligpu's resource: "nvidia.com/vgpu" */
    int64_t gpu_mib;        /* memory of one GPU in MiB; 0 if unknown */
    int64_t aliyun_mib;     /* MiB in one unit of aliyun.com/gpu-mem */
    enum convert_peer from; /* sharer of the input; PEER_ANY to detect it */
};

/* Remarks about an object, in order of weight. */
enum convert_level {
    CONVERT_NOTE,   /* the object is converted */
    CONVERT_LOST,   /* the object is converted, except for this value */
    CONVERT_FAILED, /* the object stays unchanged */
    CONVERT_LEVELS
};

/* One object, while it is converted. */
struct convert_object {
    const struct convert_rules *rules;
    struct arena *arena;
    struct document *root; /* the object, modified in place */
    uint32_t said[CONVERT_LEVELS];
    struct strbuf line[CONVERT_LEVELS]; /* "PATH: text\n" */
};

/* Adds a remark about a value of the object; beyond CONVERT_LINES_MAX, only counts it. */
void convert_say(struct convert_object *in, enum convert_level level, const struct document *at,
                 const char *fmt, ...) PRINTF_LIKE(4, 5);
/* True after a remark of CONVERT_FAILED. */
bool convert_failed(const struct convert_object *in);
/* True if resources of this sharer are converted. */
bool convert_reads(const struct convert_object *in, enum convert_peer peer);

/* Modifies root; after a remark of CONVERT_FAILED, the caller discards root. */
void convert_object(struct convert_object *in);

/* A pod, or the template of one. */
struct convert_pod {
    struct convert_object *in;
    struct document *spec;
    struct document *owner; /* parent of the pod's metadata; NULL if metadata cannot be written */
};
void convert_pod(const struct convert_pod *pod);
/* The value of an annotation; NULL if absent or not a string. */
const char *convert_annotation(const struct convert_pod *pod, const char *key);
/* The annotation itself, for convert_say(); NULL if absent. */
const struct document *convert_annotation_at(const struct convert_pod *pod, const char *key);
/*
 * Adds an annotation; a remark of CONVERT_FAILED if metadata cannot be written or the annotation
 * exists. about: the source of the value.
 */
void convert_annotate(const struct convert_pod *pod, const struct document *about, const char *key,
                      const char *value);
void convert_drop_annotation(const struct convert_pod *pod, const char *key);

/* The request of a container: milli on each of `gpus` GPUs. */
struct convert_share {
    int64_t milli; /* 0 .. 1000 */
    int64_t gpus;  /* 0 for no request */
};
/*
 * Converts the resources of HAMi and Aliyun of a container. hami: nvidia.com/gpu is a number of
 * shares, as in HAMi.
 */
void convert_container(const struct convert_pod *pod, struct document *container, bool hami);
/* True if the container requests a resource that only this sharer has. */
bool convert_names(const struct document *container, enum convert_peer peer);
/* True if key names a resource of a converted sharer, also as in a ResourceQuota. */
bool convert_is_word(const struct convert_object *in, struct text key);
/* Writes the share as the container's limit. about: the source of the value. */
void convert_put_share(const struct convert_pod *pod, struct document *container,
                       const struct document *about, struct convert_share share);
/* Milli for this memory, rounded up; -1 and a remark of CONVERT_FAILED if it is too much. */
int64_t convert_memory(struct convert_object *in, const struct document *about, int64_t mib);
/* The value as an integer from 0; -1 and a remark of CONVERT_FAILED if it is none. */
int64_t convert_amount(struct convert_object *in, const struct document *value);

struct conversion {
    struct convert_rules rules;
    void *user;
    void (*say)(void *user, const char *line);
    uint32_t unconverted; /* objects and documents that were not converted completely */
};

/* Appends the converted stream to out. file: the name for remarks. */
void convert_text(struct conversion *conversion, struct text bytes, const char *file,
                  struct strbuf *out);

#endif
