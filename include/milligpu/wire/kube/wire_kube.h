/*
 * wire_kube - Kubernetes objects: bytes to facts and back.
 *
 * Decoders read what the API server or kube-scheduler wrote; null and a missing key mean the same.
 * An error means that the object cannot be identified: it is not JSON, or its name, uid or node
 * cannot be read. Anything else that cannot be read becomes a fact about the object (unreadable,
 * NOTE_BROKEN, gpus_error), and *err may be set then, too, because the object was seen. Strings
 * live in the arena or in the input: keep both.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_KUBE_H
#define MILLIGPU_WIRE_KUBE_H

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/core/node/node.h"
#include "milligpu/wire/json/json.h"

/* Which pods are agents. */
struct agent_selector {
    const char *namespace;
    struct text key; /* of the label */
    struct text value;
};

/* Names that settings decide. */
struct wire_rules {
    const char *resource;         /* "nvidia.com/vgpu" */
    const char *whole_resource;   /* "nvidia.com/gpu" */
    struct agent_selector agents; /* namespace NULL: no pod is one */
};

/* A pod without name or uid is an error; so are bytes after the object. */
int pod_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
               struct pod *out, struct err *err) MUST_USE;
int node_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                struct node_facts *out, struct err *err) MUST_USE;

/*
 * The text of milligpu.io/allocation alone: sets out->annotation, note_error and the shares; *out
 * has none of them yet.
 */
void annotation_decode(struct text annotation, struct arena *arena, struct pod *out);

/* A Pod or a Node that is the next value of the reader (webhook bodies). Missing names are "". */
bool pod_read(struct json_reader *in, const struct wire_rules *rules, struct pod *out);
bool node_read(struct json_reader *in, const struct wire_rules *rules, struct node_facts *out);

/* A resourceVersion as a number, greater is newer; 0 if it is none. */
uint64_t version_number(const char *resource_version);

/*
 * The id of a signing key (signing.h), 16 hexadecimal digits in lower case, as a number; 0 if it is
 * none. A signature begins with "v1:", the id of its key and ":".
 */
enum { KEY_ID_DIGITS = 16 };
uint64_t key_number(struct text id);
uint64_t signature_key_number(struct text signature);

/* metadata of any object: enough to route it. */
struct object_meta {
    const char *kind; /* "" if missing; so are the others */
    const char *name;
    const char *namespace;
    const char *uid;
    const char *resource_version;
};
int meta_decode(struct text bytes, struct arena *arena, struct object_meta *out,
                struct err *err) MUST_USE;

/*
 * One page of a list, item by item: item() gets the bytes of each, in order; a negative return
 * stops and is returned. continue_token is "" on the last page.
 */
struct list_page {
    const char *resource_version;
    const char *continue_token;
};
int list_decode(struct text bytes, struct arena *arena, void *user,
                int (*item)(void *user, struct text bytes, struct err *err), struct list_page *out,
                struct err *err) MUST_USE;

enum watch_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

struct status {
    int code; /* 0: missing */
    const char *reason;
    const char *message;
    int64_t retry_after_s; /* details.retryAfterSeconds; 0: missing */
};

struct watch_event {
    enum watch_type type;
    struct text object;
    const char *resource_version; /* of the object; "" for ERROR */
    struct status status;         /* with WATCH_ERROR */
};
int watch_decode(struct text line, struct arena *arena, struct watch_event *out,
                 struct err *err) MUST_USE;

/* A Status body; anything else gives code 0 and the first bytes as message. Never fails. */
void status_decode(struct text bytes, struct arena *arena, struct status *out);

/* RFC 3339 to UTC milliseconds; and back, with milliseconds: "2026-01-02T03:04:05.678Z". */
bool time_parse(struct text text, int64_t *out_ms);
enum { TIME_TEXT_BYTES = 32 };
void time_format(int64_t ms, char out[TIME_TEXT_BYTES]);

/*
 * The annotations that an allocation gives its pod, as a JSON object. The GPU index, and whether an
 * id is a real device, come from the node; a made-up id is no device, so visible-devices then
 * contains the index.
 */
void annotation_encode(struct strbuf *out, const struct allocation *allocation,
                       const struct node *node);
/*
 * Signs what a Binding says (signing.h, of which wire knows nothing): appends to out, the same for
 * the same arguments, at least one byte.
 */
struct binding_signer {
    const void *ctx;
    int (*sign)(const void *ctx, struct text uid, struct text node, struct text annotation,
                struct strbuf *out, struct err *err);
};
/* What a Binding says besides the allocation. */
struct binding_terms {
    const struct binding_signer *signer; /* NULL: the allocation is not signed */
    const struct request *request;       /* names the containers without a share; NULL: unknown */
    uint64_t version;                    /* 0: unknown, for a reservation of an older ledger */
};
/*
 * The Binding. uid and version of the evaluated pod are preconditions for the API server, so
 * exactly that pod is bound. Where the node has an agent, the Binding demands it for the pod and
 * for each container (annotations.h). Checks keys and sizes.
 */
int binding_encode(struct strbuf *out, const struct allocation *allocation, const struct node *node,
                   const struct binding_terms *terms, struct err *err) MUST_USE;

/* The value of milligpu.io/allocation alone. */
void note_value(struct strbuf *out, const struct allocation *allocation, const struct node *node);

struct kube_event_facts {
    const char *namespace;
    const char *name; /* of the event object, unique */
    const char *kind; /* of the object it is about: "Pod", "Node" */
    const char *regarding;
    const char *uid;
    const char *reason;
    const char *action;
    const char *annotation; /* cut at 1000 bytes */
    const char *instance;
    int64_t at_ms;
    bool warning;
};
void event_encode(struct strbuf *out, const struct kube_event_facts *facts);

/* JSON merge patch of an object's annotations; a value whose at is NULL takes its key away. */
struct annotation_change {
    const char *key;
    struct text value;
};
void annotations_patch(struct strbuf *out, const struct annotation_change *change, size_t count);

/*
 * The wake-up object: where it is created, and the merge patch that wakes kube-scheduler up. It is
 * never deleted, so if it exists, another milligpud was here before.
 */
extern const char WAKE_OBJECT_NAME[];
const char *wake_objects_path(struct arena *arena, const char *namespace);
void wake_object_encode(struct strbuf *out, const char *namespace);
void wake_object_patch(struct strbuf *out, uint64_t wake_up, int64_t at_ms);
/*
 * The ConfigMap of all public keys (annotations.h): to create it, and the merge patch that adds
 * keys, takes away those whose key is NULL, and leaves all others. The answer to either is the
 * ConfigMap. Of its entries and annotations keys_decode() keeps the first KEYS_READ_MAX that it
 * asks about; whoever may write more can sign.
 */
struct published_key {
    const char *id;
    const char *key;
};
enum { KEYS_READ_MAX = 256 };
struct keys_read {
    const char *replace; /* the key that somebody wants to have replaced; "": none */
    size_t n_revoked;
    const char *revoked[KEYS_READ_MAX]; /* ids of keys, as written */
    size_t n_keys;
    struct published_key key[KEYS_READ_MAX]; /* entries whose name is the id of a key */
};
const char *configmaps_path(struct arena *arena, const char *namespace);
void keys_encode(struct strbuf *out, const char *namespace, const struct published_key *key,
                 size_t count);
void keys_patch(struct strbuf *out, const struct published_key *key, size_t count);
int keys_decode(struct text bytes, struct arena *arena, struct keys_read *out,
                struct err *err) MUST_USE;
/* JSON merge patch of a Node's annotation milligpu.io/bell (wake=node). */
void node_wake_patch(struct strbuf *out, uint64_t wake_up, int64_t at_ms);
/* JSON merge patch of nodes/status: capacity[resource] = milli. */
void advertise_patch(struct strbuf *out, const char *resource, uint32_t milli);

/*
 * SelfSubjectAccessReview: may we do this? A member that is NULL or empty is left out: every
 * namespace, every name. An answer that does not say is an error.
 */
struct review_facts {
    const char *verb;
    const char *group;
    const char *resource;
    const char *subresource;
    const char *namespace;
    const char *name;
};
void review_encode(struct strbuf *out, const struct review_facts *facts);
int review_decode(struct text bytes, struct arena *arena, bool *out_allowed,
                  struct err *err) MUST_USE;

#endif
