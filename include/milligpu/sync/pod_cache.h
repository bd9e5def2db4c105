/*
 * pod_cache - the pods of the cluster as the watch last showed them, by uid.
 *
 * A pod that asks for our resource or for whole GPUs is stored with everything that placing it
 * needs; any other pod only with its node and what CPU and memory it takes. Ended pods are not
 * kept.
 *
 * Every living pod has an entry, because only evidence about a pod releases its reservation; the
 * number of entries has no limit here. What a tenant can make large has one: equal requests are
 * stored once, and all of them take at most REQUEST_CLASSES_BYTES_MAX; so are demands on nodes
 * (known_demands.h); whole pods (pod_cache_remember) and advice take at most SEEN_BYTES_MAX. Beyond
 * that, a pod is stored without its request: a bind then gets the pod from the API server, and a
 * bound pod is reconciled from the event or list that shows it. What is only told to people takes
 * at most CONTEXTS_BYTES_MAX; beyond that it is left out.
 *
 * One lock guards the tables. It is held for look-ups and copies only, because the writer waits for
 * it, so no reader goes through all pods. The writer writes; REST reads.
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

struct pod_record {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node; /* "" while unbound */
    enum pod_phase phase;
    bool ours;
    uint32_t whole_gpus;
    int64_t created_ms;
    int64_t terminating_ms;
    int64_t cpu_milli;
    int64_t memory_bytes;
    /* of the last list that contained it; 0: a GET found it, and no list or event has since */
    uint64_t epoch;
    uint64_t version; /* resourceVersion; 0: not a number */
    /* The key of its signature (pod.h); 0 unless the pod is bound and asks for shares. */
    uint64_t signed_by;
    enum signature_verdict signature;
    unsigned char signature_digest[SIGNATURE_DIGEST_BYTES]; /* with SIGNATURE_GOOD and BAD */
    enum request_verdict verdict;
    const struct request *request; /* REQUEST_OK, REQUEST_WHOLE; NULL: no room for it */
    struct request_class
        *request_class; /* of a record in the table: holds a reference to the request */
    char *refusal;      /* REQUEST_REFUSED: the text */
    /*
     * Of an unbound pod that asks, what it demands of its node; of a bound one with shares, what it
     * tolerates. NULL: no room for it. A copy has its own, in memory.
     */
    const struct node_demands *demands;
    struct kept_demands *kept; /* of a record in the table: holds a reference to demands */
    /*
     * Of unbound pods that ask, and of bound pods of ours that have a controller or that somebody
     * else bound; NULL: no room.
     */
    struct pod_context *context;
    /* the whole pod, if pod_cache_remember() was called for it; else NULL */
    struct pod *seen;
    struct arena *memory; /* of told, or in a copy of demands */
    bool is_unstored;     /* it should have been remembered, and there was no room */
    /* what pod says that is probably meant otherwise, a line for each; NULL: nothing, or no room */
    char *advice;
    /* one bit for each enum advice_kind that was sent about this pod, or need not be */
    uint32_t reported_advice;
};

/* Does it ask for a share or for whole GPUs? */
static inline bool pod_record_asks(const struct pod_record *record)
{
    return record->verdict == REQUEST_OK || record->verdict == REQUEST_WHOLE;
}

/* a pod with one container takes 600 bytes */
enum { SEEN_BYTES_MAX = 16 * 1024 * 1024 };
/* a pod that waits takes 300 bytes, or 1,800 with the longest texts */
enum { CONTEXTS_BYTES_MAX = 16 * 1024 * 1024 };

struct pod_cache;

struct pod_cache *pod_cache_new(void) MUST_USE;
void pod_cache_free(struct pod_cache *pods);

/*
 * Inserts or replaces a pod and evaluates its request by rules. The table never goes back: for a
 * pod that it knows in a later version it only notes that the list of this epoch contains it, and
 * returns false.
 */
bool pod_cache_put(struct pod_cache *pods, const struct pod *pod, const struct request_rules *rules,
                   uint64_t epoch);
/* The same for the result of a GET. */
bool pod_cache_put_fetched(struct pod_cache *pods, const struct pod *pod,
                           const struct request_rules *rules);
void pod_cache_remove(struct pod_cache *pods, const char *uid);
/*
 * Keeps the whole pod from now on, until it is put again or removed; if there is no room, that is
 * noted.
 */
void pod_cache_remember(struct pod_cache *pods, const struct pod *pod);

/* Notes that advice of this kind is done; remembered as long as the pod is known. */
void pod_cache_advised(struct pod_cache *pods, const char *uid, enum advice_kind kind);

/*
 * For the writer, the only one that changes the table: borrowed until the next put or remove of
 * that uid.
 */
const struct pod_record *pod_cache_find(struct pod_cache *pods, const char *uid);
/*
 * Removes the pods that the list of this epoch, a snapshot of this version, did not contain; gone()
 * is called for each first. A pod that is known in a later version than the snapshot stays: the
 * watch that begins there will report it. Writer only.
 */
struct pod_cache_list {
    uint64_t epoch;
    uint64_t version; /* 0: not a number */
};
void pod_cache_remove_stale(struct pod_cache *pods, struct pod_cache_list list, void *user,
                            void (*gone)(void *user, const struct pod_record *record));

/*
 * From now on the sums follow the bound pods, the present ones included; NULL: no more. Writer
 * only; borrowed until then.
 */
void pod_cache_sum_into(struct pod_cache *pods, struct host_sums *host_sums);

/*
 * A copy for any thread, without told; NULL if unknown; free it with pod_record_free(). Only pods
 * that ask for something can be found by name; if several have the same name, the one that was put
 * last is returned.
 */
struct pod_record *pod_cache_copy(struct pod_cache *pods, const char *namespace,
                                  const char *name) MUST_USE;
void pod_record_free(struct pod_record *record);
/* Any thread. */
enum pod_cache_state { PODS_UNKNOWN, PODS_UNBOUND, PODS_BOUND };
enum pod_cache_state pod_cache_look(struct pod_cache *pods, struct text uid);
size_t pod_cache_count(struct pod_cache *pods);

/*
 * The public keys by which signatures are verified from now on; replaces those of before. Any
 * thread.
 */
struct cached_key {
    uint64_t number; /* key_number() of its id */
    char key[45];    /* public, base64 */
};
void pod_cache_set_keys(struct pod_cache *pods, const struct cached_key *key, size_t count);
/*
 * Verifies the signature of a decoded pod, once: takes about 0.25 ms, or a hash only if the record
 * has a verdict on the same bytes. Any thread. A pod that was not checked before it is put is
 * checked then.
 */
void pod_cache_check_signature(struct pod_cache *pods, struct pod *pod);
/* Returns the signer of the pod with this uid, if it is bound to that node. Any thread. */
struct pod_signer {
    uint64_t key; /* as the pod says; 0: unknown pod, another node, or not signed */
    bool is_verified;
};
struct pod_signer pod_cache_signer(struct pod_cache *pods, struct text uid, struct text node);

/* Tolerations of the pods that wait for shares or hold them. Writer only; borrowed. */
const struct tolerations *pod_cache_tolerations(const struct pod_cache *pods);

/*
 * Does this pod hold what a newer pod of that controller waits for? That is, is it bound, made by
 * the same controller, and of another revision or on its way out? Any thread.
 */
struct pod_predecessor {
    bool exists;
    bool terminating;
};
struct pod_predecessor pod_cache_predecessor(struct pod_cache *pods, struct text uid,
                                             const struct pod_owner *owner);

/*
 * The scheduler that a pod names, in the arena; NULL: not known. Of bound pods it is known only if
 * somebody else bound them. Any thread.
 */
const char *pod_cache_scheduler(struct pod_cache *pods, struct text uid,
                                struct arena *arena) MUST_USE;

/* Bytes of requests, of whole pods and advice, of demands, and of contexts. */
struct pod_cache_bytes {
    size_t requests;
    size_t seen;
    size_t demands;
    size_t contexts;
};
struct pod_cache_bytes pod_cache_bytes(struct pod_cache *pods);
/* Visits pods that ask for a share and are not bound. Runs under the lock: copy what you need. */
void pod_cache_each_unbound(struct pod_cache *pods, void *user,
                            void (*visit)(void *user, const struct pod_record *record));

#endif
