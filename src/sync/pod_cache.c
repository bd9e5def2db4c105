/*
 * The pods of the cluster by uid, as the watch last showed them, and two indexes: by name, for
 * REST, and of unbound pods that request GPUs. Only the writer changes the tables, so it may read
 * them without the lock; it takes the lock for changes, because HTTP threads copy records under it.
 * Every living pod has an entry, because evidence depends on it; data that tenants can make large
 * is shared or limited (docs/why/014). A record is replaced as a whole, never edited, except for
 * epoch, seen, is_unstored, reported_advice and, once, signature.
 */
#include "milligpu/sync/pod_cache.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/node/allocation.h"
#include "milligpu/run/mutex.h"
#include "milligpu/sign/signing.h"
#include "milligpu/waiting/request_classes.h"
#include "milligpu/wire/kube/wire_kube.h"

enum { OWN_SIGNATURES = 1024, RECORD_TEXTS = 4 };

struct pod_cache {
    struct mutex lock; /* guards the tables */
    struct map by_uid;
    /* records with a name, by "namespace\0name"; of several, the one put last */
    struct map by_name;
    struct map unbound; /* unbound pods that request GPUs, by uid */
    /* of the keyring, and how many pods are known to have a good signature of it */
    struct known_key {
        struct cached_key is;
        uint32_t n_good;
    } * key;
    size_t n_keys;
    /* signed_digest() of the newest signatures of this process, in a ring */
    unsigned char own[OWN_SIGNATURES][SIGNATURE_DIGEST_BYTES];
    size_t n_own; /* ever noted */
    struct request_classes request_classes;
    struct known_demands demands;
    size_t seen_bytes;
    size_t context_bytes;
    struct host_sums *host_sums; /* borrowed from the writer; NULL if no sums are needed */
};

static_assert((int)SIGNATURE_DIGEST_BYTES == (int)SIGNED_DIGEST_BYTES,
              "a pod keeps the whole digest");
static_assert(sizeof(struct pod_record) == 128, "a large cluster has 50,000");
static_assert(ADVICES <= 8, "reported_advice has a bit for each kind");
static_assert(sizeof((struct cached_key *)NULL)->key == PUBLIC_KEY_TEXT_BYTES, "and the whole key");

static const struct pod_particulars *particulars_or_none(const struct pod_record *record)
{
    static const struct pod_particulars none = {.terminating_ms = 0};

    return record->particulars != NULL ? record->particulars : &none;
}

const struct request *pod_record_request(const struct pod_record *record)
{
    return record->request_class != NULL ? record->request_class->request
                                         : particulars_or_none(record)->request;
}

const struct node_demands *pod_record_demands(const struct pod_record *record)
{
    return record->kept != NULL ? record->kept->demands : particulars_or_none(record)->demands;
}

int64_t pod_record_terminating_ms(const struct pod_record *record)
{
    return particulars_or_none(record)->terminating_ms;
}

const char *pod_record_refusal(const struct pod_record *record)
{
    return particulars_or_none(record)->refusal;
}

const char *pod_record_advice(const struct pod_record *record)
{
    return particulars_or_none(record)->advice;
}

const struct pod *pod_record_seen(const struct pod_record *record)
{
    return particulars_or_none(record)->seen;
}

static struct text uid_of_record(const void *value)
{
    const struct pod_record *record = value;
    return text_of(pod_record_uid(record));
}

/* "namespace\0name": the two strings are adjacent in the record. */
static struct text full_name(const struct pod_record *record)
{
    const size_t before_name = (size_t)(record->name_at - record->namespace_at);

    must(before_name == strlen(pod_record_namespace(record)) + 1);
    return (struct text){pod_record_namespace(record),
                         before_name + strlen(pod_record_name(record))};
}

static struct text name_of_record(const void *value)
{
    return full_name(value);
}

struct pod_cache *pod_cache_new(void)
{
    struct pod_cache *pods = xcalloc(1, sizeof *pods);

    mutex_init(&pods->lock);
    map_init_keyed(&pods->by_uid, uid_of_record);
    map_init_keyed(&pods->by_name, name_of_record);
    map_init_keyed(&pods->unbound, uid_of_record);
    known_demands_init(&pods->demands);
    return pods;
}

/* Releases a removed record's shared request and demands, and its part of the byte counts. */
static void pod_cache_let_go(struct pod_cache *pods, struct pod_record *record)
{
    const struct pod_particulars *particulars = particulars_or_none(record);

    must(particulars->request == NULL && particulars->demands == NULL);
    if (record->request_class != NULL)
        request_classes_let_go(&pods->request_classes, record->request_class);
    record->request_class = NULL;
    if (record->kept != NULL)
        known_demands_let_go(&pods->demands, record->kept);
    record->kept = NULL;
    if (record->context != NULL)
        pods->context_bytes -= record->context->bytes;
    if (particulars->memory != NULL)
        pods->seen_bytes -= arena_bytes(particulars->memory);
    if (particulars->advice != NULL)
        pods->seen_bytes -= strlen(particulars->advice) + 1;
}

void pod_cache_free(struct pod_cache *pods)
{
    if (pods == NULL)
        return;
    struct pod_record *record;
    for (size_t at = 0; (record = map_next(&pods->by_uid, &at)) != NULL;) {
        pod_cache_let_go(pods, record);
        pod_record_free(record);
    }
    must(pods->request_classes.bytes == 0 && pods->seen_bytes == 0 && pods->context_bytes == 0);
    known_demands_done(&pods->demands);
    xfree(pods->key);
    map_done(&pods->by_uid);
    map_done(&pods->by_name);
    map_done(&pods->unbound);
    mutex_done(&pods->lock);
    xfree(pods);
}

static void particulars_free(struct pod_particulars *particulars)
{
    if (particulars == NULL)
        return;
    must(particulars->memory != NULL ||
         (particulars->seen == NULL && particulars->demands == NULL));
    xfree(particulars->refusal);
    xfree(particulars->advice);
    xfree(particulars->request);
    if (particulars->memory != NULL)
        arena_done(particulars->memory);
    xfree(particulars->memory);
    xfree(particulars);
}

/* For copies, which own their request, and records after pod_cache_let_go(). */
void pod_record_free(struct pod_record *record)
{
    if (record == NULL)
        return;
    must(record->request_class == NULL && record->kept == NULL);
    xfree(record->context);
    particulars_free(record->particulars);
    xfree(record);
}

/* The record's particulars; makes them if there are none. */
static struct pod_particulars *particulars_of(struct pod_record *record)
{
    if (record->particulars == NULL)
        record->particulars = xcalloc(1, sizeof *record->particulars);
    return record->particulars;
}

/* Frees particulars in which nothing is set any more. */
static void drop_empty_particulars(struct pod_record *record)
{
    const struct pod_particulars *particulars = particulars_or_none(record);

    if (particulars->terminating_ms != 0 || particulars->refusal != NULL ||
        particulars->advice != NULL || particulars->request != NULL || particulars->memory != NULL)
        return;
    particulars_free(STEAL(record->particulars));
}

/* The strings of a record, before they are in its block. */
struct record_texts {
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
};

/* Appends the string to the record's text, which ends at *end; returns its offset. */
static uint16_t lay_text(const struct pod_record *record, char **end, const char *text)
{
    const size_t at = (size_t)(*end - record->text);

    must(at <= UINT16_MAX); /* the decoder limits all four (limits.h) */
    (void)text_lay(end, text);
    return (uint16_t)at;
}

/* Puts a record with these facts and strings into one block; it has no particulars. */
static struct pod_record *record_new(const struct pod_record *facts, struct record_texts texts)
{
    const size_t bytes = strlen(texts.uid) + strlen(texts.namespace) + strlen(texts.name) +
                         strlen(texts.node) + RECORD_TEXTS;
    struct pod_record *record = xmalloc(sizeof *record + bytes);
    char *end = record->text;

    must(texts.uid[0] != '\0');
    *record = *facts;
    record->request_class = NULL;
    record->kept = NULL;
    record->context = NULL;
    record->particulars = NULL;
    (void)lay_text(record, &end, texts.uid); /* at 0 */
    record->namespace_at = lay_text(record, &end, texts.namespace);
    record->name_at = lay_text(record, &end, texts.name);
    record->node_at = lay_text(record, &end, texts.node);
    must(end == record->text + bytes);
    return record;
}

static void copy_demands(const struct node_demands *from, struct pod_particulars *to)
{
    must(to->memory == NULL);
    to->memory = xmalloc(sizeof *to->memory);
    arena_init(to->memory);
    to->demands = node_demands_keep(from, to->memory);
}

/* The copy owns its request and demands. */
static struct pod_record *record_copy(const struct pod_record *from)
{
    const struct record_texts texts = {pod_record_uid(from), pod_record_namespace(from),
                                       pod_record_name(from), pod_record_node(from)};
    struct pod_record *record = record_new(from, texts);
    struct pod_particulars *particulars = particulars_of(record);

    must(particulars_or_none(from)->request == NULL);
    if (from->context != NULL)
        record->context = pod_context_clone(from->context);
    particulars->terminating_ms = pod_record_terminating_ms(from);
    if (pod_record_refusal(from) != NULL)
        particulars->refusal = xstrdup(pod_record_refusal(from));
    if (pod_record_advice(from) != NULL)
        particulars->advice = xstrdup(pod_record_advice(from));
    if (pod_record_request(from) != NULL)
        particulars->request = request_clone(pod_record_request(from));
    if (pod_record_demands(from) != NULL)
        copy_demands(pod_record_demands(from), particulars);
    drop_empty_particulars(record);
    return record;
}

static uint64_t pod_cache_version_of(const struct pod *pod)
{
    const uint64_t version = version_number(pod->resource_version);

    return version <= VERSION_MAX ? version : 0;
}

/* Returns true if the pod's context may be shown to people. */
static bool keeps_context(const struct pod_record *record)
{
    must(pod_record_uid(record)[0] != '\0');
    if (pod_record_is_bound(record))
        return record->ours;
    return pod_record_asks(record) || record->verdict == REQUEST_REFUSED;
}

/* Returns the lines of advice, in *out, without the refusal text; NULL if there is none. */
static char *advice_lines(const struct pod *pod, const struct request_rules *rules,
                          const char *refusal, struct strbuf *out)
{
    static const enum advice_kind kinds[] = {ADVICE_AMOUNT, ADVICE_ANNOTATION};
    struct advice advice;

    must(pod->ours);
    must(out->len == 0);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (advice_of(kinds[i], pod, rules, &advice) &&
            (refusal == NULL || strcmp(advice.text, refusal) != 0))
            strbuf_printf(out, "%s%s", out->len > 0 ? "\n" : "", advice.text);
    return out->len > 0 ? out->data : NULL;
}

static void take_signature(struct pod_record *record, const struct pod *pod)
{
    must(pod->signature_verdict != SIGNATURE_UNCHECKED);
    if (!pod->ours || pod->node[0] == '\0')
        return;
    record->signed_by = pod->signed_by;
    record->signature = pod->signature_verdict;
    memcpy(record->signature_digest, pod->signature_digest, sizeof record->signature_digest);
}

/* Evaluates the request of a pod that may have one; the record owns it until it is shared. */
static void take_request(struct pod_record *record, const struct pod *pod,
                         const struct request_rules *rules)
{
    CLEANUP(strbuf_done) struct strbuf advice;
    CLEANUP(arena_done) struct arena arena;
    struct request request;
    struct refusal refusal;

    must(record->particulars == NULL);
    arena_init(&arena);
    strbuf_init(&advice);
    const enum request_verdict verdict =
        pod->node[0] != '\0' ? request_parse_bound(pod, rules, &arena, &request, &refusal)
                             : request_parse(pod, rules, &arena, &request, &refusal);
    record->verdict = verdict;
    if (pod_record_asks(record))
        particulars_of(record)->request = request_clone(&request);
    if (record->verdict == REQUEST_REFUSED)
        particulars_of(record)->refusal = xstrdup(refusal.text);
    const char *lines =
        pod->ours ? advice_lines(pod, rules, pod_record_refusal(record), &advice) : NULL;
    if (lines != NULL)
        particulars_of(record)->advice = xstrdup(lines);
}

/*
 * Called before the lock is taken, because parsing takes long. Most pods request no GPU and get a
 * record without a name.
 */
static struct pod_record *record_of(const struct pod *pod, const struct request_rules *rules,
                                    uint64_t epoch)
{
    const bool named = pod->ours || pod->whole_gpus > 0;
    const struct record_texts texts = {pod->uid, named ? pod->namespace : "",
                                       named ? pod->name : "", pod->node};
    const struct pod_record facts = {
        .phase = pod->phase,
        .ours = pod->ours,
        .whole_gpus = pod->whole_gpus,
        .cpu_milli = pod->cpu_milli,
        .memory_bytes = pod->memory_bytes,
        .epoch = epoch,
        .version = pod_cache_version_of(pod),
        .verdict = REQUEST_NOT_OURS,
    };
    struct pod_record *record = record_new(&facts, texts);

    if (named) {
        record->created_ms = pod->created_ms;
        take_signature(record, pod);
        take_request(record, pod, rules);
        if (pod->terminating_ms != 0)
            particulars_of(record)->terminating_ms = pod->terminating_ms;
    }
    if (keeps_context(record))
        record->context = pod_context_new(pod);
    return record;
}

/* Adds the pod to its node's sums, or subtracts it. */
static void pod_cache_sum(struct pod_cache *pods, const struct pod_record *record, bool on)
{
    void (*const count)(struct host_sums *, const char *, int64_t, int64_t) =
        on ? host_sums_come : host_sums_leave;

    must(pod_record_uid(record)[0] != '\0');
    if (pods->host_sums != NULL && pod_record_is_bound(record))
        count(pods->host_sums, pod_record_node(record), record->cpu_milli, record->memory_bytes);
}

/* NULL: unknown. */
static struct known_key *key_named(const struct pod_cache *pods, uint64_t number)
    REQUIRES(pods->lock)
{
    must(number != 0);
    for (size_t i = 0; i < pods->n_keys; i++)
        if (pods->key[i].is.number == number)
            return &pods->key[i];
    return NULL;
}

/*
 * Counts a record with a good signature, or ends to. A key that was unknown for a while counts too
 * few: then more signatures are verified than needed.
 */
static void count_good(struct pod_cache *pods, const struct pod_record *record, bool on)
    REQUIRES(pods->lock)
{
    if (record->signature != SIGNATURE_GOOD)
        return;
    struct known_key *key = key_named(pods, record->signed_by);
    if (key != NULL && (on || key->n_good > 0))
        key->n_good += on ? 1U : -1U;
}

static void pod_cache_enter(struct pod_cache *pods, struct pod_record *record) REQUIRES(pods->lock)
{
    const struct text uid = text_of(pod_record_uid(record));

    must(map_find(&pods->by_uid, uid) == NULL);
    (void)map_put(&pods->by_uid, uid, record);
    if (pod_record_name(record)[0] != '\0')
        (void)map_put(&pods->by_name, full_name(record), record);
    if (pod_record_asks(record) && !pod_record_is_bound(record))
        (void)map_put(&pods->unbound, uid, record);
    pod_cache_sum(pods, record, true);
    count_good(pods, record, true);
}

/* Removes a record from all tables (their keys are part of it); NULL if there is none. */
static struct pod_record *pod_cache_leave(struct pod_cache *pods, const char *uid)
    REQUIRES(pods->lock)
{
    struct pod_record *record = map_take(&pods->by_uid, text_of(uid));

    must(uid[0] != '\0');
    if (record == NULL)
        return NULL;
    (void)map_take(&pods->unbound, text_of(uid));
    /* The entry may be that of a newer pod of the same name. */
    if (pod_record_name(record)[0] != '\0' && map_find(&pods->by_name, full_name(record)) == record)
        (void)map_take(&pods->by_name, full_name(record));
    pod_cache_sum(pods, record, false);
    count_good(pods, record, false);
    pod_cache_let_go(pods, record);
    return record;
}

/*
 * Replaces the record's own request by the shared, equal one, or by NULL if there is no room: a
 * bind then gets the pod from the API server.
 */
static void share_request(struct pod_cache *pods, struct pod_record *record) REQUIRES(pods->lock)
{
    must(record->request_class == NULL);
    if (pod_record_request(record) == NULL)
        return;
    struct request *own = STEAL(record->particulars->request);
    record->request_class = request_classes_hold(&pods->request_classes, own);
    xfree(own);
}

/* A bound pod needs no other node, so only its tolerations are stored. */
static void share_demands(struct pod_cache *pods, struct pod_record *record,
                          const struct node_demands *demands) REQUIRES(pods->lock)
{
    const struct node_demands tolerated = {
        .unreadable = demands->unreadable,
        .n_tolerations = demands->n_tolerations,
        .toleration = demands->toleration,
    };
    const bool bound = pod_record_is_bound(record);

    must(pod_record_demands(record) == NULL);
    if (bound ? record->verdict != REQUEST_OK : !pod_record_asks(record))
        return;
    record->kept = known_demands_hold(&pods->demands, bound ? &tolerated : demands);
}

/* Drops the context if there is no room: no decision depends on it. */
static void count_context(struct pod_cache *pods, struct pod_record *record) REQUIRES(pods->lock)
{
    must(pods->context_bytes <= CONTEXTS_BYTES_MAX);
    if (record->context == NULL)
        return;
    if (record->context->bytes <= CONTEXTS_BYTES_MAX - pods->context_bytes)
        pods->context_bytes += record->context->bytes;
    else
        xfree(STEAL(record->context));
}

/* Drops the advice if there is no room: it is only for people. */
static void count_advice(struct pod_cache *pods, struct pod_record *record) REQUIRES(pods->lock)
{
    const char *advice = pod_record_advice(record);

    must(pods->seen_bytes <= REMEMBERED_BYTES_MAX);
    if (advice == NULL)
        return;
    if (strlen(advice) < REMEMBERED_BYTES_MAX - pods->seen_bytes)
        pods->seen_bytes += strlen(advice) + 1;
    else
        xfree(STEAL(record->particulars->advice));
}

/* Removes and inserts in one critical section, so that no reader misses the pod. */
static void pod_cache_replace(struct pod_cache *pods, struct pod_record *record,
                              const struct node_demands *demands)
{
    must(pod_record_uid(record)[0] != '\0');
    must(pod_record_asks(record) == (pod_record_request(record) != NULL));
    mutex_lock(&pods->lock);
    struct pod_record *before = pod_cache_leave(pods, pod_record_uid(record));
    record->reported_advice = before != NULL ? before->reported_advice : 0;
    share_request(pods, record);
    share_demands(pods, record, demands);
    count_context(pods, record);
    count_advice(pods, record);
    drop_empty_particulars(record);
    pod_cache_enter(pods, record);
    mutex_unlock(&pods->lock);
    pod_record_free(before);
}

void pod_cache_set_keys(struct pod_cache *pods, const struct cached_key *key, size_t count)
{
    struct known_key *known = xcalloc(count + 1, sizeof *known);

    must(count == 0 || key != NULL);
    for (size_t i = 0; i < count; i++)
        known[i].is = key[i];
    mutex_lock(&pods->lock);
    for (size_t i = 0; i < count; i++) {
        const struct known_key *same = key_named(pods, key[i].number);
        known[i].n_good = same != NULL ? same->n_good : 0;
    }
    struct known_key *before = pods->key;
    pods->key = known;
    pods->n_keys = count;
    mutex_unlock(&pods->lock);
    xfree(before);
}

void pod_cache_note_signature(struct pod_cache *pods, struct text signature,
                              const struct signed_facts *what)
{
    unsigned char digest[SIGNATURE_DIGEST_BYTES];

    must(signature.len > 0 && what->bytes.len > 0);
    signed_digest(signature, what, digest);
    mutex_lock(&pods->lock);
    memcpy(pods->own[pods->n_own++ % OWN_SIGNATURES], digest, sizeof digest);
    mutex_unlock(&pods->lock);
}

/* Newest first: the event of a Binding follows soon. */
static bool is_own(const struct pod_cache *pods, const unsigned char *digest) REQUIRES(pods->lock)
{
    const size_t oldest = pods->n_own > OWN_SIGNATURES ? pods->n_own - OWN_SIGNATURES : 0;

    for (size_t i = pods->n_own; i > oldest; i--)
        if (memcmp(pods->own[(i - 1) % OWN_SIGNATURES], digest, SIGNATURE_DIGEST_BYTES) == 0)
            return true;
    return false;
}

/* The digest covers the signature, the uid, the node and the allocation. */
static bool has_same_signature(const struct pod_record *record, const struct pod *pod)
{
    must(pod->signed_by != 0);
    return record->signed_by == pod->signed_by &&
           memcmp(record->signature_digest, pod->signature_digest, SIGNATURE_DIGEST_BYTES) == 0;
}

/*
 * The verdict on the same bytes, or on a signature of this process; else SIGNATURE_UNKNOWN. Such a
 * signature was noted before its pod was bound, so it need not be looked for again.
 */
static enum signature_verdict known_verdict(const struct pod_cache *pods, const struct pod *pod,
                                            const struct known_key *key) REQUIRES(pods->lock)
{
    const struct pod_record *record = map_find(&pods->by_uid, text_of(pod->uid));

    if (record != NULL && has_same_signature(record, pod))
        return record->signature;
    return key != NULL && is_own(pods, pod->signature_digest) ? SIGNATURE_GOOD : SIGNATURE_UNKNOWN;
}

/* Sets the known verdict. Sets *out to the key to verify by; false: there is no need to verify. */
static bool must_verify(struct pod_cache *pods, struct pod *pod, struct cached_key *out)
{
    mutex_lock(&pods->lock);
    const struct known_key *key = key_named(pods, pod->signed_by);
    pod->signature_verdict = known_verdict(pods, pod, key);
    const bool needed = pod->signature_verdict == SIGNATURE_UNKNOWN && key != NULL &&
                        key->is.is_retiring && key->n_good < SIGNATURES_ENOUGH;
    if (needed)
        *out = key->is;
    mutex_unlock(&pods->lock);
    return needed;
}

void pod_cache_check_signature(struct pod_cache *pods, struct pod *pod)
{
    const struct signed_facts what = {
        .uid = text_of(pod->uid), .node = text_of(pod->node), .bytes = text_of(pod->note_text)};
    struct cached_key key;

    must(pod->signature_verdict == SIGNATURE_UNCHECKED);
    pod->signature_verdict = SIGNATURE_UNKNOWN;
    if (!pod->ours || pod->node[0] == '\0' || pod->signed_by == 0)
        return;
    signed_digest(text_of(pod->signature), &what, pod->signature_digest);
    if (!must_verify(pods, pod, &key))
        return;
    const bool good = signature_is_good(text_of(key.key), text_of(pod->signature), &what);
    pod->signature_verdict = good ? SIGNATURE_GOOD : SIGNATURE_BAD;
}

/* Returns a new record; checks the signature if that was not done before. */
static struct pod_record *checked_record(struct pod_cache *pods, const struct pod *pod,
                                         const struct request_rules *rules, uint64_t epoch)
{
    if (pod->signature_verdict != SIGNATURE_UNCHECKED)
        return record_of(pod, rules, epoch);
    struct pod checked = *pod;
    pod_cache_check_signature(pods, &checked);
    return record_of(&checked, rules, epoch);
}

/* The stored pod is newer, but has the same signature: it was verified now. */
static void take_verdict(struct pod_cache *pods, struct pod_record *record, const struct pod *pod)
    REQUIRES(pods->lock)
{
    must(record->version > 0);
    if (record->signature != SIGNATURE_UNKNOWN || pod->signature_verdict <= SIGNATURE_UNKNOWN ||
        !has_same_signature(record, pod))
        return;
    record->signature = pod->signature_verdict;
    count_good(pods, record, true);
}

/* Returns true if the pod is stored in a later version; updates its epoch and its verdict only. */
static bool is_old(struct pod_cache *pods, const struct pod *pod, uint64_t epoch)
{
    const uint64_t version = pod_cache_version_of(pod);
    bool old = false;

    mutex_lock(&pods->lock); /* other threads copy records */
    struct pod_record *record = map_find(&pods->by_uid, text_of(pod->uid));
    if (record != NULL && version > 0 && record->version > version) {
        old = true;
        record->epoch = epoch > 0 ? epoch : record->epoch;
        take_verdict(pods, record, pod);
    }
    mutex_unlock(&pods->lock);
    return old;
}

bool pod_cache_put(struct pod_cache *pods, const struct pod *pod, const struct request_rules *rules,
                   uint64_t epoch)
{
    must(epoch > 0);
    if (is_old(pods, pod, epoch))
        return false;
    pod_cache_replace(pods, checked_record(pods, pod, rules, epoch), &pod->demands);
    return true;
}

/* Stored with epoch 0 (in no list yet), which pod_cache_spare() lets pass. */
bool pod_cache_put_fetched(struct pod_cache *pods, const struct pod *pod,
                           const struct request_rules *rules)
{
    const struct pod_record *record = pod_cache_find(pods, pod->uid);

    if (is_old(pods, pod, 0) || (record != NULL && record->version == pod_cache_version_of(pod)))
        return false;
    pod_cache_replace(pods, checked_record(pods, pod, rules, 0), &pod->demands);
    return true;
}

void pod_cache_remove(struct pod_cache *pods, const char *uid)
{
    must(uid != NULL);
    mutex_lock(&pods->lock);
    struct pod_record *record = pod_cache_leave(pods, uid);
    mutex_unlock(&pods->lock);
    pod_record_free(record);
}

/* Copies into one block of exact size: tens of thousands of pods may lack a place for a while. */
static struct pod *keep_tightly(const struct pod *pod, struct arena *out, size_t *out_bytes)
{
    struct arena loose;

    arena_init(&loose);
    must(pod_keep(pod, &loose) != NULL);
    arena_init_of(out, arena_used(&loose));
    arena_done(&loose);
    struct pod *kept = pod_keep(pod, out);
    *out_bytes = arena_bytes(out);
    return kept;
}

/* Copies before taking the lock; frees the copy if there is no room. */
void pod_cache_remember(struct pod_cache *pods, const struct pod *pod)
{
    struct arena *memory = xmalloc(sizeof *memory);
    size_t bytes;
    struct pod *seen = keep_tightly(pod, memory, &bytes);
    mutex_lock(&pods->lock); /* other threads copy records */
    struct pod_record *record = map_find(&pods->by_uid, text_of(pod->uid));
    must(record != NULL && pod_record_seen(record) == NULL);
    const bool fits = bytes <= REMEMBERED_BYTES_MAX - pods->seen_bytes;
    record->is_unstored = !fits;
    if (fits) {
        struct pod_particulars *particulars = particulars_of(record);
        particulars->seen = seen;
        particulars->memory = memory;
        pods->seen_bytes += bytes;
    }
    mutex_unlock(&pods->lock);
    if (fits)
        return;
    arena_done(memory);
    xfree(memory);
}

void pod_cache_advised(struct pod_cache *pods, const char *uid, enum advice_kind kind)
{
    must(kind < ADVICES);
    mutex_lock(&pods->lock); /* other threads copy records */
    struct pod_record *record = map_find(&pods->by_uid, text_of(uid));
    must(record != NULL);
    record->reported_advice = (uint8_t)(record->reported_advice | 1U << kind);
    mutex_unlock(&pods->lock);
}

const struct tolerations *pod_cache_tolerations(const struct pod_cache *pods)
{
    must(pods->demands.tolerations != NULL);
    return pods->demands.tolerations;
}

struct pod_cache_bytes pod_cache_bytes(struct pod_cache *pods)
{
    mutex_lock(&pods->lock);
    const struct pod_cache_bytes bytes = {.requests = pods->request_classes.bytes,
                                          .seen = pods->seen_bytes,
                                          .demands = pods->demands.bytes,
                                          .contexts = pods->context_bytes};
    mutex_unlock(&pods->lock);
    must(bytes.requests <= REQUEST_CLASSES_BYTES_MAX && bytes.seen <= REMEMBERED_BYTES_MAX);
    must(bytes.contexts <= CONTEXTS_BYTES_MAX);
    return bytes;
}

const struct pod_record *pod_cache_find(struct pod_cache *pods, const char *uid)
{
    must(uid != NULL);

    mutex_lock(&pods->lock);
    const struct pod_record *record = map_find(&pods->by_uid, text_of(uid));
    mutex_unlock(&pods->lock);
    return record;
}

/* Returns true if the pod is newer than the list; the next list must then contain it. */
static bool pod_cache_spare(struct pod_cache *pods, struct pod_record *record,
                            struct pod_cache_list list)
{
    must(record->epoch < list.epoch);

    const bool comparable = record->version > 0 && list.version > 0;

    if (comparable ? record->version <= list.version : record->epoch != 0)
        return false;
    mutex_lock(&pods->lock); /* other threads copy records */
    record->epoch = list.epoch;
    mutex_unlock(&pods->lock);
    return true;
}

void pod_cache_remove_stale(struct pod_cache *pods, struct pod_cache_list list, void *user,
                            void (*gone)(void *user, const struct pod_record *record))
{
    must(gone != NULL);

    struct pod_record **old = NULL;
    size_t count = 0;
    size_t capacity = 0;
    struct pod_record *record;

    /* Collected first, because removing changes the table. */
    for (size_t at = 0; (record = map_next(&pods->by_uid, &at)) != NULL;) {
        if (record->epoch >= list.epoch || pod_cache_spare(pods, record, list))
            continue;
        old = xgrow(old, count, &capacity, sizeof *old);
        old[count++] = record;
    }
    for (size_t i = 0; i < count; i++) {
        must(old[i]->epoch < list.epoch);
        gone(user, old[i]);
        pod_cache_remove(pods, pod_record_uid(old[i]));
    }
    xfree(old);
}

struct pod_record *pod_cache_copy(struct pod_cache *pods, const char *namespace, const char *name)
{
    must(namespace != NULL && name != NULL);

    char key[512];
    const int bytes = snprintf(key, sizeof key, "%s%c%s", namespace, '\0', name);
    if (bytes < 0 || (size_t)bytes >= sizeof key)
        return NULL; /* longer than any name */
    mutex_lock(&pods->lock);
    const struct pod_record *record = map_find(&pods->by_name, (struct text){key, (size_t)bytes});
    struct pod_record *copy = record != NULL ? record_copy(record) : NULL;
    mutex_unlock(&pods->lock);
    return copy;
}

struct pod_signer pod_cache_signer(struct pod_cache *pods, struct text uid, struct text node)
{
    struct pod_signer signer = {.key = 0};

    must(uid.len > 0 && node.len > 0);
    mutex_lock(&pods->lock);
    const struct pod_record *record = map_find(&pods->by_uid, uid);
    if (record != NULL && text_is(node, pod_record_node(record)))
        signer = (struct pod_signer){record->signed_by, record->signature};
    mutex_unlock(&pods->lock);
    return signer;
}

struct pod_predecessor pod_cache_predecessor(struct pod_cache *pods, struct text uid,
                                             const struct pod_owner *owner)
{
    struct pod_predecessor answer = {.exists = false};

    must(uid.len > 0);
    mutex_lock(&pods->lock);
    const struct pod_record *record = map_find(&pods->by_uid, uid);
    if (record != NULL && record->context != NULL && pod_record_is_bound(record) &&
        pod_owner_same(&record->context->owner, owner)) {
        answer.terminating = pod_record_terminating_ms(record) != 0;
        answer.exists = answer.terminating || pod_owner_replaces(&record->context->owner, owner);
    }
    mutex_unlock(&pods->lock);
    return answer;
}

const char *pod_cache_scheduler(struct pod_cache *pods, struct text uid, struct arena *arena)
{
    const char *scheduler = NULL;

    must(uid.len > 0);
    mutex_lock(&pods->lock);
    const struct pod_record *record = map_find(&pods->by_uid, uid);
    if (record != NULL && record->context != NULL && record->context->scheduling.scheduler != NULL)
        scheduler = arena_copy(arena, text_of(record->context->scheduling.scheduler));
    mutex_unlock(&pods->lock);
    return scheduler;
}

enum pod_cache_state pod_cache_look(struct pod_cache *pods, struct text uid)
{
    enum pod_cache_state state = PODS_UNKNOWN;

    must(uid.len > 0);
    mutex_lock(&pods->lock);
    const struct pod_record *record = map_find(&pods->by_uid, uid);
    if (record != NULL)
        state = pod_record_is_bound(record) ? PODS_BOUND : PODS_UNBOUND;
    mutex_unlock(&pods->lock);
    return state;
}

/* Reads without the lock, as the writer may. On NULL the caller drops the sums. */
void pod_cache_sum_into(struct pod_cache *pods, struct host_sums *host_sums)
{
    const struct pod_record *record;

    must(pods->host_sums == NULL || host_sums == NULL);
    pods->host_sums = host_sums;
    for (size_t at = 0; host_sums != NULL && (record = map_next(&pods->by_uid, &at)) != NULL;)
        pod_cache_sum(pods, record, true);
}

void pod_cache_settle(struct pod_cache *pods, size_t slots)
{
    struct map *const maps[] = {&pods->by_uid, &pods->by_name, &pods->unbound};

    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        mutex_lock(&pods->lock);
        map_settle(maps[i], slots);
        mutex_unlock(&pods->lock);
    }
}

size_t pod_cache_count(struct pod_cache *pods)
{
    mutex_lock(&pods->lock);
    const size_t count = pods->by_uid.count;
    mutex_unlock(&pods->lock);
    return count;
}

void pod_cache_each_unbound(struct pod_cache *pods, void *user,
                            void (*visit)(void *user, const struct pod_record *record))
{
    must(visit != NULL);

    const struct pod_record *record;

    mutex_lock(&pods->lock);
    for (size_t at = 0; (record = map_next(&pods->unbound, &at)) != NULL;)
        visit(user, record);
    mutex_unlock(&pods->lock);
}
