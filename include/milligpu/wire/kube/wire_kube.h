/*
 * wire_kube - Kubernetes objects: bytes to facts and back.
 *
 * The input comes from the API server or kube-scheduler; null and a missing key mean the same. A
 * decoder fails only if the object cannot be identified: it is not JSON, or its name, uid or node
 * cannot be read. Any other unreadable value becomes a fact about the object (unreadable,
 * NOTE_BROKEN, gpus_error); *err may be set then, too. Strings live in the arena or in the input:
 * keep both.
 *
 * Pure.
 */
#ifndef MILLIGPU_WIRE_KUBE_H
#define MILLIGPU_WIRE_KUBE_H

#include "milligpu/base/siphash.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/core/node/node.h"
#include "milligpu/wire/json/json.h"

/* Namespace and label of the agents' pods. */
struct agent_selector {
    const char *namespace;
    struct text key;
    struct text value;
};

/* Names from the settings. */
struct wire_rules {
    const char *resource;         /* "nvidia.com/vgpu" */
    const char *whole_resource;   /* "nvidia.com/gpu" */
    struct agent_selector agents; /* namespace is NULL if no pod is an agent */
};

/* A missing name or uid is an error; so are bytes after the object. */
int pod_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
               struct pod *out, struct err *err) MUST_USE;
int node_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                struct node_facts *out, struct err *err) MUST_USE;
/*
 * The same for an object that bytes begin with, in one pass: nobody has to find its end first.
 * Return its length; 0 if it cannot be decoded so: then decode the object by itself, which also
 * says why.
 */
size_t pod_decode_first(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                        struct pod *out) MUST_USE;
size_t node_decode_first(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                         struct node_facts *out) MUST_USE;
/*
 * Decodes the value of annotation milligpu.io/agent, borrowed or in the arena. False: unreadable;
 * then neither is set. A member that is absent is NULL.
 */
bool agent_claim_decode(struct text value, struct arena *arena, const char **out_key,
                        struct agent_claim *out);

/* The digest of one watch event of a Node. name and bytes are not 0. */
struct node_digest {
    uint64_t name;       /* node_digest_name() */
    uint64_t bytes;      /* of the event, without the values that a heartbeat changes */
    const char *version; /* resourceVersion of the object */
};

/*
 * Two events of one digest have the same type, and node_decode() gives their objects the same
 * facts, except resource_version. False: the line has no digest; it may be another event, or none.
 */
bool node_digest(struct text line, const struct siphash_key *key, struct arena *arena,
                 struct node_digest *out) MUST_USE;
uint64_t node_digest_name(struct text name, const struct siphash_key *key);

/*
 * Decodes the text of milligpu.io/allocation: sets out->annotation, note_error and the shares,
 * which are unset before.
 */
void annotation_decode(struct text annotation, struct arena *arena, struct pod *out);

/* Read the next value of a webhook body as a Pod or a Node. Missing names are "". */
bool pod_read(struct json_reader *in, const struct wire_rules *rules, struct pod *out);
bool node_read(struct json_reader *in, const struct wire_rules *rules, struct node_facts *out);

/* Returns a resourceVersion as a number, greater is newer; 0 if it is not a number. */
uint64_t version_number(const char *resource_version);

/*
 * Return the id of a signing key (signing.h), 16 lower-case hexadecimal digits, as a number; 0 if
 * the text has none. A signature begins with "v1:", the id of its key and ":".
 */
enum { KEY_ID_DIGITS = 16 };
uint64_t key_number(struct text id);
uint64_t signature_key_number(struct text signature);

/* metadata of any object: enough to route it. Missing members are "". */
struct object_meta {
    const char *kind;
    const char *name;
    const char *namespace;
    const char *uid;
    const char *resource_version;
};
int meta_decode(struct text bytes, struct arena *arena, struct object_meta *out,
                struct err *err) MUST_USE;

/*
 * Decodes one page of a list: item() gets the bytes of each item, in order; its negative return
 * stops the decoder and is returned.
 */
struct list_page {
    const char *resource_version;
    const char *continue_token; /* "" on the last page */
};
int list_decode(struct text bytes, struct arena *arena, void *user,
                int (*item)(void *user, struct text bytes, struct err *err), struct list_page *out,
                struct err *err) MUST_USE;
/*
 * The same, and begin() gets each object first, with all bytes behind it. It may decode it: then it
 * returns its length, by which the decoder goes on. 0: nothing was done, and item() gets it.
 */
struct list_items {
    void *user;
    size_t (*begin)(void *user, struct text rest); /* NULL: item() gets all */
    int (*item)(void *user, struct text bytes, struct err *err);
};
int list_decode_items(struct text bytes, struct arena *arena, const struct list_items *items,
                      struct list_page *out, struct err *err) MUST_USE;
/*
 * The continue token of a page, without a look at its items: "" if the page is the last one, if its
 * metadata comes behind its items, or if what comes before them is no list.
 */
const char *list_continue(struct text page, struct arena *arena);

enum watch_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

struct status {
    int code; /* 0 if missing */
    const char *reason;
    const char *message;
    int64_t retry_after_s; /* details.retryAfterSeconds; 0 if missing */
};

struct watch_event {
    enum watch_type type;
    struct text object;
    const char *resource_version; /* metadata.resourceVersion of object; "" for WATCH_ERROR */
    struct status status;         /* set only for WATCH_ERROR */
};
int watch_decode(struct text line, struct arena *arena, struct watch_event *out,
                 struct err *err) MUST_USE;

/* Decodes a Status body; any other body gives code 0 and its first bytes as message. */
void status_decode(struct text bytes, struct arena *arena, struct status *out);

/* RFC 3339 to UTC milliseconds, and back as "2026-01-02T03:04:05.678Z". */
bool time_parse(struct text text, int64_t *out_ms);
enum { TIME_TEXT_BYTES = 32 };
void time_format(int64_t ms, char out[TIME_TEXT_BYTES]);

/*
 * Writes the annotations of an allocation's pod, as a JSON object. node supplies the GPU index and
 * says whether an id is a device's; for a made-up id, visible-devices contains the index.
 */
void annotation_encode(struct strbuf *out, const struct allocation *allocation,
                       const struct node *node);
/*
 * Signs a Binding (signing.h, which wire cannot include): appends at least one byte to out, the
 * same for the same arguments.
 */
struct binding_signer {
    const void *ctx;
    int (*sign)(const void *ctx, struct text uid, struct text node, struct text annotation,
                struct strbuf *out, struct err *err);
};
/* Contents of a Binding besides the allocation; pointers are borrowed. */
struct binding_terms {
    const struct binding_signer *signer; /* NULL: the allocation is not signed */
    const struct request *request;       /* names containers without a share; NULL if unknown */
    uint64_t version; /* resourceVersion of the evaluated pod; 0 if unknown (older ledger) */
};
/*
 * Writes the Binding, with uid and version of the evaluated pod as preconditions: the API server
 * binds exactly that pod. If the node has an agent, the Binding demands it for the pod and for each
 * container (annotations.h). Checks keys and sizes.
 */
int binding_encode(struct strbuf *out, const struct allocation *allocation, const struct node *node,
                   const struct binding_terms *terms, struct err *err) MUST_USE;

/* Writes the value of milligpu.io/allocation. */
void note_value(struct strbuf *out, const struct allocation *allocation, const struct node *node);

struct kube_event_facts {
    const char *namespace;
    const char *name; /* unique name of the Event object */
    /* The object that the Event is about. */
    const char *kind; /* "Pod", "Node" */
    const char *regarding;
    const char *uid;
    const char *reason;
    const char *action;
    const char *note; /* clipped to 1000 bytes */
    const char *instance;
    int64_t at_ms;
    bool warning;
};
void event_encode(struct strbuf *out, const struct kube_event_facts *facts);

/* JSON merge patch of an object's annotations; a value whose at is NULL removes its key. */
struct annotation_change {
    const char *key;
    struct text value;
};
void annotations_patch(struct strbuf *out, const struct annotation_change *change, size_t count);

/*
 * The wake-up object: its path, its creation, and the merge patch that wakes kube-scheduler. It is
 * never deleted, so its presence shows that a milligpud has run in the cluster before.
 */
extern const char WAKE_OBJECT_NAME[];
const char *wake_objects_path(struct arena *arena, const char *namespace);
void wake_object_encode(struct strbuf *out, const char *namespace);
void wake_object_patch(struct strbuf *out, uint64_t wake_up, int64_t at_ms);
/*
 * The ConfigMap of all public keys (annotations.h): its creation, and a merge patch that adds keys,
 * removes entries whose key is NULL, and leaves the others. The API server answers both with the
 * ConfigMap. keys_decode() keeps the first KEYS_READ_MAX keys and as many revocations: an account
 * that can write more of them can sign anyway.
 */
struct published_key {
    const char *id;
    const char *key;
};
enum { KEYS_READ_MAX = 256 };
struct keys_read {
    const char *replace; /* id of the key to replace, by an operator's annotation; "" if none */
    size_t n_revoked;
    const char *revoked[KEYS_READ_MAX]; /* key ids as written */
    size_t n_keys;
    struct published_key key[KEYS_READ_MAX]; /* entries whose name is a key id */
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
 * SelfSubjectAccessReview: asks whether our account is allowed to do this. A NULL or empty member
 * is left out, which means every namespace or every name. An answer without "allowed" is an error.
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
