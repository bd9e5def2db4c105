/*
 * pod_cache - the pods of the cluster as the watch last showed them, by uid.
 *
 * A pod that requests our resource or whole GPUs is stored with everything needed to place it; any
 * other pod only with its node and its CPU and memory. Ended pods are not stored.
 *
 * Every living pod has an entry, because only evidence about a pod releases its reservation; the
 * number of entries is not limited here. Data that a tenant can make large is limited: equal
 * requests are stored once, in at most REQUEST_CLASSES_BYTES_MAX; so are demands on nodes
 * (known_demands.h); whole pods (pod_cache_remember) and advice take at most REMEMBERED_BYTES_MAX.
 * Beyond these limits a pod is stored without its request: a bind then gets the pod from the API
 * server, and a bound pod is reconciled from the event or list that shows it. Texts for people take
 * at most CONTEXTS_BYTES_MAX and are left out beyond that.
 *
 * One lock guards the tables. It is held for look-ups and copies only, because the writer waits for
 * it, so no reader visits all pods under it. The writer writes; REST reads.
 */
#ifndef MILLIGPU_POD_CACHE_H
#define MILLIGPU_POD_CACHE_H

#include "milligpu/core/facts/advice.h"
#include "milligpu/core/facts/pod.h"
#include "milligpu/core/facts/request.h"
#include "milligpu/sync/host_sums.h"
#include "milligpu/sync/pod_context.h"
#include "milligpu/waiting/known_demands.h"
#include "milligpu/waiting/request_classes.h"

/* Facts that few pods have. The record owns them, and they own what they point to. */
struct pod_particulars {
    int64_t terminating_ms;
    char *refusal; /* refusal text, with REQUEST_REFUSED */
    /* one line per probable mistake in the pod; NULL if none, or no room */
    char *advice;
    struct pod *seen; /* the whole pod, after pod_cache_remember(); else NULL */
    /* set in copies only: records in the cache share them (request_class, kept) */
    struct request *request;
    const struct node_demands *demands;
    struct arena *memory; /* arena of seen; in a copy, arena of demands */
};

/* A record is one block: a bound pod with a uid of 36 bytes and usual names takes 240 bytes. */
struct pod_record {
    int64_t created_ms;
    int64_t cpu_milli;
    int64_t memory_bytes;
    /* epoch of the last list or event that showed it; 0: so far only a GET did */
    uint64_t epoch;
    uint64_t version; /* resourceVersion; 0: not a number */
    /* number of the key of its signature (pod.h); 0 unless the pod is bound and requests shares */
    uint64_t signed_by;
    unsigned char signature_digest[SIGNATURE_DIGEST_BYTES]; /* set with signed_by */
    /* counted references to the request and the demands; NULL in copies */
    struct request_class *request_class;
    struct kept_demands *kept;
    /*
     * Set for unbound pods with a request (even a refused one), and for bound pods of ours that
     * have a controller or that somebody else bound. NULL if there was no room. Owned.
     */
    struct pod_context *context;
    struct pod_particulars *particulars; /* owned; NULL: none of them is set */
    uint32_t whole_gpus;
    /* offsets in text; the uid is at 0 */
    uint16_t namespace_at;
    uint16_t name_at;
    uint16_t node_at;
    enum pod_phase phase : 8;
    enum signature_verdict signature : 8;
    enum request_verdict verdict : 8;
    /* bit set of enum advice_kind: sent about this pod, or not needed */
    uint8_t reported_advice;
    bool ours;
    bool is_unstored; /* pod_cache_remember() found no room */
    char text[];      /* uid, namespace, name and node, each with its NUL */
};

static inline const char *pod_record_uid(const struct pod_record *record)
{
    return record->text;
}

/* "" unless the pod requests shares or whole GPUs; so is the name. */
static inline const char *pod_record_namespace(const struct pod_record *record)
{
    return record->text + record->namespace_at;
}

static inline const char *pod_record_name(const struct pod_record *record)
{
    return record->text + record->name_at;
}

/* "" while unbound. */
static inline const char *pod_record_node(const struct pod_record *record)
{
    return record->text + record->node_at;
}

static inline bool pod_record_is_bound(const struct pod_record *record)
{
    return pod_record_node(record)[0] != '\0';
}

/* Returns true for a request of a share or of whole GPUs. */
static inline bool pod_record_asks(const struct pod_record *record)
{
    return record->verdict == REQUEST_OK || record->verdict == REQUEST_WHOLE;
}

/* Returns the request of REQUEST_OK and REQUEST_WHOLE; NULL if there was no room. Borrowed. */
const struct request *pod_record_request(const struct pod_record *record);
/*
 * Demands on the node of an unbound pod that requests GPUs; only the tolerations of a bound pod
 * with shares. NULL if there was no room. Borrowed from the record.
 */
const struct node_demands *pod_record_demands(const struct pod_record *record);
/* UTC; 0: the pod is not being deleted. */
int64_t pod_record_terminating_ms(const struct pod_record *record);
/* NULL: not set (struct pod_particulars). Borrowed from the record. */
const char *pod_record_refusal(const struct pod_record *record);
const char *pod_record_advice(const struct pod_record *record);
const struct pod *pod_record_seen(const struct pod_record *record);

/* a pod with one container takes 600 bytes */
enum { REMEMBERED_BYTES_MAX = 16 * 1024 * 1024 };
/* a pod that waits takes 300 bytes, or 1,800 with the longest texts */
enum { CONTEXTS_BYTES_MAX = 16 * 1024 * 1024 };

struct pod_cache;

struct pod_cache *pod_cache_new(void) MUST_USE;
void pod_cache_free(struct pod_cache *pods);

/*
 * Inserts or replaces a pod and evaluates its request by rules. If the pod is stored in a later
 * version, only its epoch is updated, and false is returned.
 */
bool pod_cache_put(struct pod_cache *pods, const struct pod *pod, const struct request_rules *rules,
                   uint64_t epoch);
/* Same, for the result of a GET; also returns false if this version is already stored. */
bool pod_cache_put_fetched(struct pod_cache *pods, const struct pod *pod,
                           const struct request_rules *rules);
void pod_cache_remove(struct pod_cache *pods, const char *uid);
/* Stores the whole pod until it is put again or removed; sets is_unstored if there is no room. */
void pod_cache_remember(struct pod_cache *pods, const struct pod *pod);

/* Marks advice of this kind as sent or not needed, for as long as the pod has an entry. */
void pod_cache_advised(struct pod_cache *pods, const char *uid, enum advice_kind kind);

/*
 * Writer only (no other thread changes the table). Borrowed until the next put or remove of that
 * uid.
 */
const struct pod_record *pod_cache_find(struct pod_cache *pods, const char *uid);
/*
 * Removes the pods missing from the list of this epoch, a snapshot at this version, after calling
 * gone() for each. A pod stored in a later version than the snapshot stays: the watch that begins
 * there will report it. Writer only.
 */
struct pod_cache_list {
    uint64_t epoch;
    uint64_t version; /* 0: not a number */
};
void pod_cache_remove_stale(struct pod_cache *pods, struct pod_cache_list list, void *user,
                            void (*gone)(void *user, const struct pod_record *record));

/* Finishes the growth of the tables (map_settle()), by this many slots of each. Writer only. */
void pod_cache_settle(struct pod_cache *pods, size_t slots);

/*
 * Adds the present bound pods to host_sums and keeps it up to date from then on; NULL ends that.
 * Writer only; borrowed until then.
 */
void pod_cache_sum_into(struct pod_cache *pods, struct host_sums *host_sums);

/*
 * Returns a copy without seen, to be freed with pod_record_free(); NULL if unknown. Only pods that
 * request GPUs can be found by name; of several with the same name, the last one put is returned.
 * Any thread.
 */
struct pod_record *pod_cache_copy(struct pod_cache *pods, const char *namespace,
                                  const char *name) MUST_USE;
void pod_record_free(struct pod_record *record);
/* Any thread. */
enum pod_cache_state { PODS_UNKNOWN, PODS_UNBOUND, PODS_BOUND };
enum pod_cache_state pod_cache_look(struct pod_cache *pods, struct text uid);
size_t pod_cache_count(struct pod_cache *pods);

/* Replaces the public keys of the keyring. Any thread. */
struct cached_key {
    uint64_t number; /* key_number() of its id */
    char key[45];    /* public, base64 */
    bool is_retiring;
};
void pod_cache_set_keys(struct pod_cache *pods, const struct cached_key *key, size_t count);
/*
 * Finds whether the signature of a decoded pod is good: it is if this process has made it.
 * Verifying takes 0.18 ms, and 50,000 pods are listed after a start, so only signatures of a
 * retiring key are verified, once for the same bytes, and only while fewer than SIGNATURES_ENOUGH
 * pods are known to have a good one: one keeps the key. Others stay SIGNATURE_UNKNOWN.
 * pod_cache_put() checks a pod that was not passed here. Any thread.
 */
enum { SIGNATURES_ENOUGH = 64 };
void pod_cache_check_signature(struct pod_cache *pods, struct pod *pod);

/* Notes a signature that this process has just made; the newest 1,024 are known. Any thread. */
struct signed_facts;
void pod_cache_note_signature(struct pod_cache *pods, struct text signature,
                              const struct signed_facts *what);
/* Returns the signer of the pod with this uid, if it is bound to that node. Any thread. */
struct pod_signer {
    uint64_t key; /* key number named by the pod; 0: unknown pod, another node, or not signed */
    enum signature_verdict verdict;
};
struct pod_signer pod_cache_signer(struct pod_cache *pods, struct text uid, struct text node);

/* Returns the tolerations of pods that wait for shares or hold them. Writer only; borrowed. */
const struct tolerations *pod_cache_tolerations(const struct pod_cache *pods);

/*
 * Returns whether the pod with this uid is a predecessor of owner's waiting pod: bound, with the
 * same controller, and of another revision or terminating. Any thread.
 */
struct pod_predecessor {
    bool exists;
    bool terminating;
};
struct pod_predecessor pod_cache_predecessor(struct pod_cache *pods, struct text uid,
                                             const struct pod_owner *owner);

/*
 * Returns the pod's schedulerName, copied into the arena; NULL if unknown. For bound pods it is
 * known only if somebody else bound them. Any thread.
 */
const char *pod_cache_scheduler(struct pod_cache *pods, struct text uid,
                                struct arena *arena) MUST_USE;

struct pod_cache_bytes {
    size_t requests;
    size_t seen; /* whole pods and advice */
    size_t demands;
    size_t contexts;
};
struct pod_cache_bytes pod_cache_bytes(struct pod_cache *pods);
/* Visits unbound pods that request GPUs. visit() runs under the lock and must copy its data. */
void pod_cache_each_unbound(struct pod_cache *pods, void *user,
                            void (*visit)(void *user, const struct pod_record *record));

#endif
