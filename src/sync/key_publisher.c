/*
 * Writes our public keys into the ConfigMap of all keys. Runs on the informer's thread, beside
 * lists and watches, with one request in flight at a time. Binds to nodes with an agent wait for
 * the first key only: a pod that is bound before its agent's mount shows a key starts a little
 * later. In order: facts, needed keys, requests, handling of answers, the step.
 */
#include "milligpu/sync/key_publisher.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/annotations.h"
#include "milligpu/core/node/allocation.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/wire/kube/wire_kube.h"

enum {
    TIMEOUT_MS = 10000,
    RETRY_MS = 1000, /* the first pause after a failure; doubles */
    RETRY_MAX_MS = 60000,
    VERIFY_AGAIN_MS = 60 * 60 * 1000, /* a list of all pods is expensive, and a key can wait */
    LOOKS = 3, /* failed tries after which pods are listed without the keys of others */
    WATCH_FRESH_MS = 5 * 60 * 1000, /* silence after which the watch of pods is not fresh */
    STRAYS_MAX = 16,                /* revoked keys of others that one request removes */
    /* size of a ConfigMap, at most 1 MiB, plus its metadata */
    ANSWER_MAX = 2 * 1024 * 1024,
};

/* Upper half 3 is shared with cluster_identity.c, whose only request id ends in 0 and is over. */
static const uint64_t id_base = (uint64_t)3 << 32;

struct key_publisher {
    struct app *app;
    struct kube_ops ops;
    struct mutex lock; /* guards facts */
    struct key_facts facts;
    bool creates; /* the next request creates the ConfigMap */
    bool in_flight;
    uint64_t id; /* id of the request in flight */
    uint32_t ids;
    int status;
    uint32_t failures; /* number since the last success */
    bool looked;       /* see key_publisher_has_looked() */
    int64_t due_ms;
    int64_t verify_ms; /* earliest time of the next list to verify signatures */
    int64_t change_ms; /* time at which a next key begins to sign; INT64_MAX if there is none */
    /* Content of the request in flight. */
    struct key_entry sent[KEYRING_MAX];
    bool is_removing[KEYRING_MAX]; /* by index in sent[] */
    size_t n_sent;
    /* ids of our keys that an operator has revoked: removed once they no longer sign */
    char revoked[KEYRING_MAX][KEY_ID_BYTES];
    size_t n_revoked;
    /*
     * Ids of published keys that are revoked and not in the keyring: a late request may have
     * published one of ours again after it was dropped.
     */
    char stray[STRAYS_MAX][KEY_ID_BYTES];
    size_t n_strays;
    struct strbuf answer;
};

const char *keys_namespace(const struct app *app)
{
    const struct settings *settings = atomic_load(&app->settings);

    must(settings != NULL);
    return settings->keys_namespace[0] != '\0' ? settings->keys_namespace
                                               : app->instance.wake_namespace;
}

/* Passes our public keys to the pod cache, to verify pods by. */
static void give_keys(const struct app *app)
{
    struct key_entry key[KEYRING_MAX];
    struct cached_key cached[KEYRING_MAX] = {{.number = 0}};
    const size_t count = keyring_list(app->keyring, key);

    must(app->pod_cache != NULL);
    for (size_t i = 0; i < count; i++) {
        static_assert(sizeof cached->key == sizeof key->key, "a whole public key");
        cached[i].number = key_number(text_of(key[i].id));
        memcpy(cached[i].key, key[i].key, sizeof key[i].key);
        cached[i].is_retiring = key[i].state == KEY_RETIRING;
    }
    pod_cache_set_keys(app->pod_cache, cached, count);
}

struct key_publisher *key_publisher_new(struct app *app, const struct kube_ops *ops)
{
    struct key_publisher *publisher = xcalloc(1, sizeof *publisher);

    must(app->keyring != NULL && ops->start != NULL);
    must(keys_namespace(app)[0] != '\0');
    publisher->app = app;
    publisher->ops = *ops;
    publisher->change_ms = INT64_MAX;
    mutex_init(&publisher->lock);
    strbuf_init(&publisher->answer);
    give_keys(app);
    return publisher;
}

void key_publisher_free(struct key_publisher *publisher)
{
    if (publisher == NULL)
        return;
    if (publisher->in_flight)
        publisher->ops.cancel(publisher->ops.ctx, publisher->id);
    mutex_done(&publisher->lock);
    strbuf_done(&publisher->answer);
    xfree(publisher);
}

void key_publisher_facts(struct key_publisher *publisher, struct key_facts *out)
{
    mutex_lock(&publisher->lock);
    *out = publisher->facts;
    mutex_unlock(&publisher->lock);
}

/* Interval between successful requests; a patch that changes nothing costs no write. */
static int64_t again_ms(const struct app *app)
{
    const struct settings *settings = atomic_load(&app->settings);

    must(settings->key_wait_s > 0);
    return (int64_t)settings->key_wait_s * 1000 / 2;
}

/* Stores the error text; returns true if it is new and should be logged. */
static bool note(struct key_publisher *publisher, char *slot, size_t bytes, const char *why)
{
    char text[256];

    must(bytes == sizeof text);
    text_clip(text_of(why), text, sizeof text);
    mutex_lock(&publisher->lock);
    const bool news = strcmp(slot, text) != 0;
    memcpy(slot, text, sizeof text);
    mutex_unlock(&publisher->lock);
    return news;
}

static void publish_failed(struct key_publisher *publisher, int64_t now_ms, const char *why)
{
    int64_t pause_ms = RETRY_MS;

    must(why[0] != '\0' && !publisher->in_flight);
    for (uint32_t i = 0; i < publisher->failures && pause_ms < RETRY_MAX_MS; i++)
        pause_ms *= 2;
    publisher->failures++;
    publisher->looked = publisher->looked || publisher->failures >= LOOKS;
    publisher->due_ms = now_ms + (pause_ms < RETRY_MAX_MS ? pause_ms : RETRY_MAX_MS);
    if (note(publisher, publisher->facts.error, sizeof publisher->facts.error, why))
        log_write(LOG_WARN, "the signing keys cannot be published, so agents do not know them",
                  log_str("namespace", keys_namespace(publisher->app)), log_str("error", why));
}

/* err NULL clears the error after a successful change. */
static void change_failed(struct key_publisher *publisher, const struct err *err)
{
    const char *why = err != NULL ? err->text : "";

    if (note(publisher, publisher->facts.trouble, sizeof publisher->facts.trouble, why) &&
        why[0] != '\0')
        log_write(LOG_WARN, "the signing keys cannot change", log_str("error", why));
}

static struct key_times times_of(const struct key_publisher *publisher, int64_t now_ms)
{
    const struct clock_ops *clock = &publisher->app->clock;

    must(now_ms >= 0);
    return (struct key_times){.now_ms = now_ms, .wall_ms = clock->wall_ms(clock->ctx)};
}

/* --- which keys are needed --- */

/* The Binding of a reservation in doubt may still take effect, with its old signature. */
static bool is_in_doubt(const struct snapshot *snapshot)
{
    const struct node *node;

    if (snapshot->n_opens == 0)
        return false;
    for (uint32_t at = 0; (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++)
            if (node->allocation[i]->facts.in_doubt)
                return true;
    return false;
}

/* Returns true if all pods that our keys may have signed are known. */
static bool knows_pods(const struct app *app, int64_t now_ms)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(app->view);

    return snapshot != NULL && atomic_load(&app->watch.pods_synced) &&
           !atomic_load(&app->health.safe_mode) &&
           now_ms - atomic_load(&app->watch.pods_seen_ms) < WATCH_FRESH_MS &&
           !is_in_doubt(snapshot);
}

static void count_pod(const struct app *app, const struct allocation *allocation,
                      struct key_pods *pods, size_t count)
{
    const struct pod_signer signer = pod_cache_signer(
        app->pod_cache, text_of(allocation->facts.uid), atom_text(allocation->facts.node));

    must(signer.key != 0 || signer.verdict <= SIGNATURE_UNKNOWN);
    for (size_t i = 0; signer.key != 0 && i < count; i++) {
        if (pods[i].number != signer.key)
            continue;
        pods[i].naming++;
        pods[i].needing += signer.verdict != SIGNATURE_BAD;
        pods[i].good += signer.verdict == SIGNATURE_GOOD;
    }
}

void key_pods_count(const struct app *app, struct key_pods *pods, size_t count)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(app->view);
    const struct node *node;

    must(app->pod_cache != NULL);
    for (size_t i = 0; i < count; i++)
        pods[i].good = pods[i].needing = pods[i].naming = 0;
    for (uint32_t at = 0; snapshot != NULL && (node = snapshot_next(snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_allocations; i++)
            count_pod(app, node->allocation[i], pods, count);
}

void all_keys_read(const struct app *app, struct all_keys *out)
{
    must(app->keyring != NULL && app->key_publisher != NULL);
    key_publisher_facts(app->key_publisher, &out->facts);
    out->count = keyring_list(app->keyring, out->key);
    const size_t sum = out->count + out->facts.n_others;
    for (size_t i = 0; i < sum; i++)
        out->pods[i].number =
            key_number(text_of(i < out->count ? out->key[i].id : out->facts.other[i - out->count]));
    key_pods_count(app, out->pods, sum);
}

static bool has_id(const char ids[][KEY_ID_BYTES], size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

static bool is_revoked(const struct key_publisher *publisher, const char *id)
{
    must(publisher->n_revoked <= KEYRING_MAX);
    return has_id(publisher->revoked, publisher->n_revoked, id);
}

/* The next list of pods verifies some signatures of retiring keys. */
static void verify_again(struct key_publisher *publisher, int64_t now_ms)
{
    must(publisher->app->keyring != NULL);
    if (now_ms < publisher->verify_ms)
        return;
    publisher->verify_ms = now_ms + VERIFY_AGAIN_MS;
    atomic_store(&publisher->app->watch.list_again, true);
}

/* Sets is_removing[] for the keys of sent[] that no pod needs or an operator has revoked. */
static void find_spent(struct key_publisher *publisher, int64_t now_ms)
{
    struct key_pods pods[KEYRING_MAX];
    size_t n_due = 0;
    bool doubtful = false;

    must(publisher->n_sent <= KEYRING_MAX);
    for (size_t i = 0; i < publisher->n_sent; i++) {
        const struct key_entry *key = &publisher->sent[i];
        publisher->is_removing[i] = key->state == KEY_RETIRING && is_revoked(publisher, key->id);
        pods[i] = (struct key_pods){.number = key_number(text_of(key->id))};
        n_due += key->state == KEY_RETIRING && now_ms >= key->due_ms;
    }
    if (n_due == 0 || !knows_pods(publisher->app, now_ms))
        return;
    key_pods_count(publisher->app, pods, publisher->n_sent);
    for (size_t i = 0; i < publisher->n_sent; i++) {
        const struct key_entry *key = &publisher->sent[i];
        if (key->state != KEY_RETIRING || now_ms < key->due_ms)
            continue;
        publisher->is_removing[i] |= pods[i].needing == 0;
        doubtful |= !publisher->is_removing[i] && pods[i].good == 0;
    }
    if (doubtful)
        verify_again(publisher, now_ms);
}

/* --- requests and answers --- */

static void publish(struct key_publisher *publisher, int64_t now_ms)
{
    const char *namespace = keys_namespace(publisher->app);
    struct published_key key[KEYRING_MAX + STRAYS_MAX];
    struct arena arena;
    struct strbuf body;
    struct err err;

    must(!publisher->in_flight);
    arena_init(&arena);
    strbuf_init(&body);
    publisher->n_sent = keyring_list(publisher->app->keyring, publisher->sent);
    find_spent(publisher, now_ms);
    for (size_t i = 0; i < publisher->n_sent; i++) {
        const struct key_entry *entry = &publisher->sent[i];
        key[i] = (struct published_key){entry->id, publisher->is_removing[i] ? NULL : entry->key};
    }
    const char *path = configmaps_path(&arena, namespace);
    for (size_t i = 0; i < publisher->n_strays; i++)
        key[publisher->n_sent + i] = (struct published_key){publisher->stray[i], NULL};
    if (publisher->creates)
        keys_encode(&body, namespace, key, publisher->n_sent);
    else
        keys_patch(&body, key, publisher->n_sent + publisher->n_strays);
    const struct kube_request request = {
        .id = id_base + ++publisher->ids,
        .method = publisher->creates ? "POST" : "PATCH",
        .path = publisher->creates ? path : arena_printf(&arena, "%s/%s", path, KEYS_CONFIGMAP),
        .content_type = publisher->creates ? "application/json" : "application/merge-patch+json",
        .body = {body.data, body.len},
        .timeout_ms = TIMEOUT_MS};
    strbuf_reset(&publisher->answer);
    publisher->status = 0;
    publisher->id = request.id;
    publisher->in_flight = publisher->ops.start(publisher->ops.ctx, &request, &err) == 0;
    if (!publisher->in_flight)
        publish_failed(publisher, now_ms, err.text);
    strbuf_done(&body);
    arena_done(&arena);
}

static void count_publishing(int status)
{
    char code[16];

    must(status >= 0);
    (void)snprintf(code, sizeof code, "%d", status);
    metric_add(M_API_REQUESTS, LABEL_VALUES("publish_key", code), 1);
}

/* --- what follows from an answer --- */

/* Drops the removed keys from the keyring; returns false on an error. */
static bool forget_keys(struct key_publisher *publisher)
{
    struct err err;

    for (size_t i = 0; i < publisher->n_sent; i++) {
        if (!publisher->is_removing[i])
            continue;
        if (keyring_forget(publisher->app->keyring, publisher->sent[i].id, &err) < 0) {
            change_failed(publisher, &err);
            return false;
        }
        log_write(LOG_INFO,
                  is_revoked(publisher, publisher->sent[i].id)
                      ? "an operator has revoked this former signing key: it is removed"
                      : "no pod needs this former signing key: it is no longer published",
                  log_str("key", publisher->sent[i].id));
        give_keys(publisher->app);
    }
    return true;
}

static bool names_as_revoked(const struct keys_read *read, const char *id)
{
    for (size_t i = 0; i < read->n_revoked; i++)
        if (strcmp(read->revoked[i], id) == 0)
            return true;
    return false;
}

/* Keys of the ConfigMap are accepted as proof, except for revoked ones. */
static void learn_keys(const struct key_publisher *publisher, const struct keys_read *read)
{
    const char *key[KEYS_READ_MAX];
    size_t count = 0;

    must(read->n_keys <= KEYS_READ_MAX);
    for (size_t i = 0; i < read->n_keys; i++) {
        const bool revoked = names_as_revoked(read, read->key[i].id);
        if (!revoked)
            key[count++] = read->key[i].key;
    }
    keyring_learn(publisher->app->keyring, key, count);
}

/* Creates a next key if the operator's annotation names the signing key; false on an error. */
static bool replace_key(struct key_publisher *publisher, int64_t now_ms, const char *replace)
{
    struct key_entry key[KEYRING_MAX];
    const size_t count = keyring_list(publisher->app->keyring, key);
    const bool has_next = count > 1 && key[1].state == KEY_NEXT;
    struct err err;

    if (strcmp(replace, key[0].id) != 0 || has_next)
        return true;
    if (keyring_replace(publisher->app->keyring, times_of(publisher, now_ms), &err) < 0) {
        change_failed(publisher, &err);
        return false;
    }
    give_keys(publisher->app);
    publisher->due_ms = now_ms; /* publish it */
    log_write(LOG_INFO, "a signing key is to be replaced; the next one is made",
              log_str("key", key[0].id));
    return true;
}

static bool has_entry(const struct key_entry *key, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(key[i].id, id) == 0)
            return true;
    return false;
}

/* Stores which of our keys are revoked; retiring ones are removed by a request at once. */
static void note_revoked(struct key_publisher *publisher, int64_t now_ms,
                         const struct keys_read *read)
{
    struct key_entry key[KEYRING_MAX];
    const size_t count = keyring_list(publisher->app->keyring, key);

    publisher->n_revoked = 0;
    for (size_t i = 0; i < read->n_revoked && publisher->n_revoked < KEYRING_MAX; i++)
        if (has_entry(key, count, read->revoked[i]) && !is_revoked(publisher, read->revoked[i]))
            memcpy(publisher->revoked[publisher->n_revoked++], read->revoked[i], KEY_ID_BYTES);
    for (size_t i = 0; i < count; i++)
        if (key[i].state == KEY_RETIRING && is_revoked(publisher, key[i].id))
            publisher->due_ms = now_ms;
}

/* Requests the removal at once; a client that keeps publishing it causes one request each time. */
static void hurry_for_stray(struct key_publisher *publisher, int64_t now_ms, const char *id)
{
    if (has_id(publisher->stray, publisher->n_strays, id))
        return;
    publisher->due_ms = now_ms;
    log_write(LOG_WARN, "a revoked signing key is published again: it is removed",
              log_str("key", id));
}

/* Agents accept every published key, so a revoked one is removed by the next request. */
static void note_strays(struct key_publisher *publisher, int64_t now_ms,
                        const struct keys_read *read)
{
    char stray[STRAYS_MAX][KEY_ID_BYTES];
    struct key_entry key[KEYRING_MAX];
    const size_t count = keyring_list(publisher->app->keyring, key);
    size_t strays = 0;

    for (size_t i = 0; i < read->n_keys && strays < STRAYS_MAX; i++) {
        const char *id = read->key[i].id;
        if (!names_as_revoked(read, id) || has_entry(key, count, id))
            continue;
        hurry_for_stray(publisher, now_ms, id);
        memcpy(stray[strays++], id, KEY_ID_BYTES);
    }
    memcpy(publisher->stray, stray, strays * sizeof stray[0]);
    publisher->n_strays = strays;
}

/* Stores keys of the ConfigMap that belong to another milligpud or to a lost keyring. */
static void note_others(struct key_publisher *publisher, const struct keys_read *read)
{
    struct key_entry key[KEYRING_MAX];
    const size_t count = keyring_list(publisher->app->keyring, key);

    mutex_lock(&publisher->lock);
    struct key_facts *facts = &publisher->facts;
    facts->n_others = 0;
    for (size_t i = 0; i < read->n_keys && facts->n_others < OTHER_KEYS_MAX; i++)
        if (!has_entry(key, count, read->key[i].id) &&
            public_key_has_id(text_of(read->key[i].key), read->key[i].id))
            memcpy(facts->other[facts->n_others++], read->key[i].id, KEY_ID_BYTES);
    mutex_unlock(&publisher->lock);
}

/* Handles the content of the ConfigMap; returns false on an error. */
static bool obey(struct key_publisher *publisher, int64_t now_ms)
{
    struct arena arena;
    struct err err;

    arena_init(&arena);
    struct keys_read *read = arena_alloc(&arena, sizeof *read);
    const struct text answer = {publisher->answer.data, publisher->answer.len};
    bool done = keys_decode(answer, &arena, read, &err) == 0;
    if (done) {
        note_revoked(publisher, now_ms, read);
        note_strays(publisher, now_ms, read);
        note_others(publisher, read);
        learn_keys(publisher, read);
        done = replace_key(publisher, now_ms, read->replace);
    } else {
        change_failed(publisher, &err);
    }
    arena_done(&arena);
    return done;
}

/* Sets change_ms to the time at which the published next key begins to sign. */
static void plan_change(struct key_publisher *publisher)
{
    struct key_entry key[KEYRING_MAX];
    const size_t count = keyring_list(publisher->app->keyring, key);

    publisher->change_ms = INT64_MAX;
    for (size_t i = 1; i < count; i++)
        if (key[i].state == KEY_NEXT && key[i].published)
            publisher->change_ms = key[i].due_ms;
}

static void published(struct key_publisher *publisher, int64_t now_ms)
{
    struct key_entry kept[KEYRING_MAX];
    size_t count = 0;
    struct err err;

    must(!publisher->in_flight);
    publisher->failures = 0;
    publisher->looked = true;
    publisher->due_ms = now_ms + again_ms(publisher->app);
    for (size_t i = 0; i < publisher->n_sent; i++)
        if (!publisher->is_removing[i])
            kept[count++] = publisher->sent[i];
    mutex_lock(&publisher->lock);
    const bool news = !publisher->facts.published || publisher->facts.error[0] != '\0';
    publisher->facts.published = true;
    publisher->facts.error[0] = '\0';
    mutex_unlock(&publisher->lock);
    if (news)
        log_write(LOG_INFO, "the signing keys are published", log_str("key", publisher->sent[0].id),
                  log_str("namespace", keys_namespace(publisher->app)));
    if (keyring_published(publisher->app->keyring, kept, count, times_of(publisher, now_ms), &err) <
        0)
        change_failed(publisher, &err);
    else if (forget_keys(publisher) && obey(publisher, now_ms))
        change_failed(publisher, NULL);
    plan_change(publisher);
}

static void change_keys(struct key_publisher *publisher, int64_t now_ms)
{
    struct err err;

    if (keyring_step(publisher->app->keyring, times_of(publisher, now_ms), &err) < 0) {
        change_failed(publisher, &err);
        publisher->change_ms = now_ms + RETRY_MAX_MS;
        return;
    }
    change_failed(publisher, NULL);
    give_keys(publisher->app); /* the former one is retiring */
    plan_change(publisher);
    log_write(LOG_INFO, "the next signing key signs from now on");
}

/* After a 409 to the POST (the ConfigMap exists by now) the next try is a PATCH. */
static void publish_answered(struct key_publisher *publisher, int64_t now_ms)
{
    const bool created = publisher->creates;
    struct arena arena;
    struct status status;
    char why[300];

    must(publisher->in_flight);
    publisher->in_flight = false;
    publisher->creates = false;
    count_publishing(publisher->status);
    if (publisher->status == (created ? 201 : 200)) {
        published(publisher, now_ms);
        return;
    }
    if (publisher->status == 404 && !created) {
        publisher->creates = true;
        publisher->looked = true;
        publisher->due_ms = now_ms;
        return;
    }
    arena_init(&arena);
    status_decode((struct text){publisher->answer.data, publisher->answer.len}, &arena, &status);
    (void)snprintf(why, sizeof why, "HTTP %d: %.250s", publisher->status, status.message);
    publish_failed(publisher, now_ms, why);
    arena_done(&arena);
}

bool key_publisher_answer(struct key_publisher *publisher, int64_t now_ms,
                          const struct kube_answer *answer)
{
    if (answer->id <= id_base || answer->id - id_base > UINT32_MAX)
        return false;
    if (!publisher->in_flight || answer->id != publisher->id)
        return true;
    switch (answer->piece) {
    case KUBE_HEAD:
        publisher->status = answer->status;
        break;
    case KUBE_DATA:
        strbuf_text(&publisher->answer,
                    text_first(answer->data, ANSWER_MAX - publisher->answer.len));
        break;
    case KUBE_DONE:
        publish_answered(publisher, now_ms);
        break;
    case KUBE_FAILED:
        publisher->in_flight = false;
        publisher->creates = false;
        count_publishing(0);
        publish_failed(publisher, now_ms, answer->err != NULL ? answer->err->text : "no answer");
        break;
    }
    return true;
}

bool key_publisher_has_looked(const struct key_publisher *publisher)
{
    must(publisher->app->keyring != NULL);
    return publisher->looked;
}

int64_t key_publisher_step(struct key_publisher *publisher, int64_t now_ms)
{
    must(now_ms >= 0);
    if (now_ms >= publisher->change_ms)
        change_keys(publisher, now_ms);
    if (!publisher->in_flight && now_ms >= publisher->due_ms)
        publish(publisher, now_ms);
    int64_t wait_ms = TIMEOUT_MS;
    if (!publisher->in_flight)
        wait_ms = publisher->due_ms > now_ms ? publisher->due_ms - now_ms : 0;
    return publisher->change_ms - now_ms < wait_ms ? publisher->change_ms - now_ms : wait_ms;
}
