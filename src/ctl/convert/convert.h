/*
 * convert - manifests written for another GPU sharer, as manifests for milligpu.
 *
 *   convert_text     a stream of documents: splits, parses, writes (convert_text.c)
 *   convert_object   one object: finds its pods, and words that were left (convert_object.c)
 *   convert_pod      one pod or pod template (convert_pod.c)
 *   convert_share    an amount of a container (convert_share.c)
 *   convert_say      remarks about it; annotations of a pod (convert_say.c)
 *
 * An object is converted as a whole or stays as it is. Pure.
 */
#ifndef MILLIGPU_CTL_CONVERT_H
#define MILLIGPU_CTL_CONVERT_H

#include "milligpu/document/document.h"

enum {
    CONVERT_BYTES_MAX = 10 * 1024 * 1024, /* of all input */
    CONVERT_GPU_MIB_MAX = 16 * 1024 * 1024,
    CONVERT_LINES_MAX = 20, /* that are said about one object */
};

enum convert_peer { PEER_ANY, PEER_HAMI, PEER_KAI, PEER_ALIYUN };

struct convert_rules {
    const char *resource;   /* milligpu's: "nvidia.com/vgpu" */
    int64_t gpu_mib;        /* memory of one GPU; 0: not known */
    int64_t aliyun_mib;     /* of one unit of aliyun.com/gpu-mem */
    enum convert_peer from; /* PEER_ANY: by the words that are found */
};

/* Remarks about an object, in order of weight. */
enum convert_level {
    CONVERT_NOTE,   /* it is converted */
    CONVERT_LOST,   /* it is converted, except for this */
    CONVERT_FAILED, /* it stays as it is */
    CONVERT_LEVELS
};

/* One object, while it is converted. */
struct convert_object {
    const struct convert_rules *rules;
    struct arena *arena;
    struct document *root; /* the object, which is changed */
    uint32_t said[CONVERT_LEVELS];
    struct strbuf line[CONVERT_LEVELS]; /* "PATH: text\n" */
};

/* at: a value of the object. Beyond CONVERT_LINES_MAX it is only counted. */
void convert_say(struct convert_object *in, enum convert_level level, const struct document *at,
                 const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Has a remark been made by which the object stays as it is? */
bool convert_failed(const struct convert_object *in);
/* Is this sharer one whose words are converted? */
bool convert_reads(const struct convert_object *in, enum convert_peer peer);

/* Changes root; if something is said with CONVERT_FAILED, root is to be thrown away. */
void convert_object(struct convert_object *in);

/* A pod, or the template of one. */
struct convert_pod {
    struct convert_object *in;
    struct document *spec;
    struct document *owner; /* has the pod's metadata; NULL: metadata cannot be written */
};
void convert_pod(const struct convert_pod *pod);
/* The string of an annotation; NULL: there is none, or it is no string. */
const char *convert_annotation(const struct convert_pod *pod, const char *key);
/* The annotation itself, for convert_say(); NULL: there is none. */
const struct document *convert_annotation_at(const struct convert_pod *pod, const char *key);
/* Fails if there is no place for it, or it is there already. about: what it comes from. */
void convert_annotate(const struct convert_pod *pod, const struct document *about, const char *key,
                      const char *value);
void convert_drop_annotation(const struct convert_pod *pod, const char *key);

/* The request of a container, on each of so many GPUs. */
struct convert_share {
    int64_t milli; /* 0 .. 1000 */
    int64_t gpus;  /* 0: it asks for nothing */
};
/* Converts the words of HAMi and Aliyun in the container's resources. hami: see convert_pod.c. */
void convert_container(const struct convert_pod *pod, struct document *container, bool hami);
/* Does a container name a resource that only this sharer has? */
bool convert_names(const struct document *container, enum convert_peer peer);
/* Is it the name of such a resource, perhaps as in a ResourceQuota? NULL: it is none. */
bool convert_is_word(const struct convert_object *in, struct text key);
/* Writes the share as the container's limit. about: what it comes from. */
void convert_put_share(const struct convert_pod *pod, struct document *container,
                       const struct document *about, struct convert_share share);
/* Thousandths of a GPU for this memory, rounded up; fails and returns -1 if it is too much. */
int64_t convert_memory(struct convert_object *in, const struct document *about, int64_t mib);
/* An integer from 0; fails, and returns -1, if it is none. */
int64_t convert_amount(struct convert_object *in, const struct document *value);

struct conversion {
    struct convert_rules rules;
    void *user;
    void (*say)(void *user, const char *line);
    uint32_t unconverted; /* objects and documents of which something was not converted */
};

/* Appends the stream to out. file: for what is said. */
void convert_text(struct conversion *conversion, struct text bytes, const char *file,
                  struct strbuf *out);

#endif
