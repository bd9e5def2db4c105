/*
 * kube_read - readers for parts that all Kubernetes objects share.
 *
 * Each function reads the next value; after a failure it does nothing and returns false, so callers
 * can continue and check once at the end.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_KUBE_READ_H
#define MILLIGPU_WIRE_KUBE_READ_H

#include "milligpu/wire/kube/wire_kube.h"

/*
 * metadata, with callbacks for labels, annotations and owners. The object's identity must be
 * present; other unreadable values (of an annotation, for example) are skipped, and unreadable is
 * the first reason.
 */
struct meta_reading {
    struct object_meta meta;
    int64_t created_ms;
    int64_t deleted_ms;     /* UTC; 0 if not deleted, TIME_UNKNOWN_MS if unreadable */
    const char *unreadable; /* NULL if all is readable */
    void *user;
    /* Reads or skips the value of this key. NULL to skip all labels; likewise annotation. */
    bool (*label)(void *user, struct json_reader *in, struct text key);
    bool labels_decide; /* false to ignore unreadable labels */
    bool (*annotation)(void *user, struct json_reader *in, struct text key);
    /* Reads metadata.ownerReferences, ignoring unreadable ones. NULL to skip them. */
    void (*owners)(void *user, struct json_reader *in);
};
void read_meta(struct json_reader *in, struct meta_reading *out);

/*
 * Skips the value at the mark after it has failed. If *why is NULL it is set to the reason, from
 * the object's own field on, always the same text for the same object: "metadata.annotations[...]:
 * must not hold a NUL".
 */
void pass_over(struct json_reader *in, struct json_reader_mark mark, const char **why);

/* Sets the strings to "". */
void meta_clear(struct object_meta *out);

/* Checks that the object is of this kind, if it has one. */
bool read_kind(struct json_reader *in, const char *kind);

/* Reads an object whose keys are data. Nulls are skipped. */
bool read_map(struct json_reader *in, void *user,
              bool (*member)(void *, struct json_reader *, struct text));

/* Reads the string of a map key that may occur once: *slot must be NULL before. */
bool read_once(struct json_reader *in, const char **slot);

/* Reads a NUL-terminated string of at most max bytes; may be empty. */
bool read_string(struct json_reader *in, size_t max, const char **out);

bool read_time(struct json_reader *in, int64_t *out_ms);
/* 9999-12-31T23:59:59.999Z, the latest time of RFC 3339. */
#define TIME_UNKNOWN_MS INT64_C(253402300799999)

/* Reads a quantity as written: a string or a number. */
bool read_amount(struct json_reader *in, const char **out);

/* Reads a number in least .. most. */
bool read_number(struct json_reader *in, int64_t least, int64_t most, int64_t *out);

/* Returns an array with room for count + 1 elements (at most max), and copies the old ones. */
void *arena_grow(struct arena *arena, const void *items, uint32_t count, uint32_t max,
                 size_t bytes);

/* Sets out->gpu, gpus and gpus_error from the text of milligpu.io/gpus. */
void gpus_decode(struct text gpus, struct arena *arena, struct node_facts *out);

/*
 * Read the fields of kube-scheduler's filters (node_filter.h). They fail only for invalid JSON;
 * unreadable values are recorded in *out.
 */
void read_taints(struct json_reader *in, struct node_taints *out);
void read_node_conditions(struct json_reader *in, struct node_taints *out);
void read_tolerations(struct json_reader *in, struct node_demands *out);
void read_node_selector(struct json_reader *in, struct node_demands *out);
void read_affinity(struct json_reader *in, struct node_demands *out);

/* Reads a GPU's id: valid in NVIDIA_VISIBLE_DEVICES and in a comma-separated list. */
bool read_gpu_id(struct json_reader *in, const char **out);

/* Reads the Pod of a webhook body; name and uid are required. */
void extender_pod_read(struct json_reader *in, const struct wire_rules *rules, struct pod *out);

/*
 * Read display-only fields of a waiting pod (struct pod_scheduling, struct pod_owner). No decision
 * depends on them, so unreadable values are ignored and the pod stays readable.
 */
void pod_read_scheduler(struct json_reader *in, struct pod *pod);
void pod_read_gates(struct json_reader *in, struct pod *pod);
void pod_read_owners(struct json_reader *in, struct pod *pod);
bool pod_read_label(struct json_reader *in, struct pod *pod, struct text key);
void pod_note_condition(struct arena *arena, struct pod *pod, struct text reason,
                        struct text message, int64_t since_ms);
/* Call it after labels and owners are read. */
void pod_name_owner(struct arena *arena, struct pod *pod);

/* Fails the reader, naming key, if the required member is missing. */
bool need_field(struct json_reader *in, const struct json_read_fields *fields, int key);

#endif
