/*
 * kube_read - what all decoders of Kubernetes objects read alike.
 *
 * Each function reads the value that the reader stands before; after a failure it does
 * nothing and returns false, so callers may go on and ask at the end.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_KUBE_READ_H
#define MILLIGPU_WIRE_KUBE_READ_H

#include "milligpu/wire/kube/wire_kube.h"

/*
 * metadata, with hooks for callers that want more of it. The object's identity must be present;
 * anything else that cannot be read (a value of an annotation, say) is skipped, and unreadable says
 * why.
 */
struct meta_reading {
    struct object_meta meta;
    int64_t created_ms;
    int64_t deleted_ms; /* 0: not deleted; TIME_UNKNOWN_MS: the time cannot be read */
    const char *unreadable;
    void *user;
    /* Read or json_read_skip() the value of this key. NULL: all are skipped. */
    bool (*label)(void *user, struct json_reader *in, struct text key);
    bool labels_decide; /* false: labels that cannot be read are left out */
    bool (*annotation)(void *user, struct json_reader *in, struct text key);
    /* Reads metadata.ownerReferences; what cannot be read is left out. NULL: skipped. */
    void (*owners)(void *user, struct json_reader *in);
};
void read_meta(struct json_reader *in, struct meta_reading *out);

/*
 * The value at the mark has failed by itself: continue after it. If *why is NULL it receives the
 * reason, from the object's own field on and in the same words for the same object:
 * "metadata.annotations[...]: must not hold a NUL".
 */
void pass_over(struct json_reader *in, struct json_reader_mark mark, const char **why);

/* The strings of object_meta set to "". */
void meta_clear(struct object_meta *out);

/* The object must be of this kind, if it names one. */
bool read_kind(struct json_reader *in, const char *kind);

/* An object whose keys are data. Nulls are omitted. */
bool read_map(struct json_reader *in, void *user,
              bool (*member)(void *, struct json_reader *, struct text));

/* A string of a map key that may occur once: *slot is NULL before. */
bool read_once(struct json_reader *in, const char **slot);

/* A terminated string of at most max bytes; may be empty. */
bool read_string(struct json_reader *in, size_t max, const char **out);

bool read_time(struct json_reader *in, int64_t *out_ms);
/* The latest time that RFC 3339 can express. */
#define TIME_UNKNOWN_MS INT64_C(253402300799999)

/* A quantity as written: a string or a number. */
bool read_amount(struct json_reader *in, const char **out);

/* Numbers with bounds. */
bool read_number(struct json_reader *in, int64_t least, int64_t most, int64_t *out);

/* Room for one more than count elements, at most max of them; the old ones are copied. */
void *arena_grow(struct arena *arena, const void *items, uint32_t count, uint32_t max,
                 size_t bytes);

/* out->gpu and its companions, from the text of milligpu.io/gpus. */
void gpus_decode(struct text gpus, struct arena *arena, struct node_facts *out);

/*
 * Readers of the fields that kube-scheduler's filters use (node_filter.h). They fail only for bytes
 * that are no JSON; unreadable values are noted in *out.
 */
void read_taints(struct json_reader *in, struct node_taints *out);
void read_node_conditions(struct json_reader *in, struct node_taints *out);
void read_tolerations(struct json_reader *in, struct node_demands *out);
void read_node_selector(struct json_reader *in, struct node_demands *out);
void read_affinity(struct json_reader *in, struct node_demands *out);

/* A GPU's id: what is allowed in NVIDIA_VISIBLE_DEVICES and in a comma-separated list. */
bool read_gpu_id(struct json_reader *in, const char **out);

/* The Pod of a webhook body: it has a name and a uid. */
void extender_pod_read(struct json_reader *in, const struct wire_rules *rules, struct pod *out);

/*
 * Readers of what is shown of a waiting pod (struct pod_scheduling, struct pod_owner). None of it
 * decides, so unreadable values are left out, and the pod can be read all the same.
 */
void pod_read_scheduler(struct json_reader *in, struct pod *pod);
void pod_read_gates(struct json_reader *in, struct pod *pod);
void pod_read_owners(struct json_reader *in, struct pod *pod);
bool pod_read_label(struct json_reader *in, struct pod *pod, struct text key);
void pod_note_condition(struct arena *arena, struct pod *pod, struct text reason,
                        struct text message, int64_t since_ms);
/* After labels and owners. */
void pod_name_owner(struct arena *arena, struct pod *pod);

/* Fails the reader, naming key, if the required member is missing. */
bool need_field(struct json_reader *in, const struct json_read_fields *fields, int key);

#endif
