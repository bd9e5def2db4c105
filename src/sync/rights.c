/*
 * Asks the API server which permissions milligpud has, for doctor. An admin thread requests a round
 * and waits with a timeout; the informer thread sends one SelfSubjectAccessReview after the other
 * and wakes it. A round that ends in a denial or an error is repeated as a whole a second later,
 * and only the second counts. Only doctor uses the result.
 */
#include "milligpu/sync/rights.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/annotations.h"
#include "milligpu/base/limits.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/mutex.h"
#include "milligpu/sync/key_publisher.h"
#include "milligpu/wire/kube/wire_kube.h"

enum {
    TIMEOUT_MS = 2500, /* per review */
    CONFIRM_MS = 1000, /* pause before a denial is confirmed */
    IDLE_MS = 60000,
    ANSWER_BYTES_MAX = 64 * 1024,
};

/* 1 to 4 are used by lists, watches and the cluster identity */
static const uint64_t id_base = (uint64_t)5 << 32;
static const char reviews[] = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/* The setting under which a right is needed. */
enum need {
    NEED_ALWAYS,
    NEED_EVENTS,
    NEED_NAMESPACE, /* always, in the namespace of the wake-up object */
    NEED_WAKE_OBJECT,
    NEED_WAKE_ON_NODE,
    NEED_ADVERTISE,
    NEED_CONFIGMAPS, /* if allocations are signed, in the namespace of the keys */
    NEED_KEYS
};

struct right {
    enum need need;
    struct review_facts review; /* without namespace and name of our own objects */
    const char *what_for;
};

static const struct right rights_needed[] = {
    {NEED_ALWAYS, {.verb = "list", .resource = "nodes"}, "which GPUs there are"},
    {NEED_ALWAYS, {.verb = "watch", .resource = "nodes"}, "which GPUs there are"},
    {NEED_ALWAYS, {.verb = "list", .resource = "pods"}, "who holds them"},
    {NEED_ALWAYS, {.verb = "watch", .resource = "pods"}, "who holds them"},
    {NEED_ALWAYS, {.verb = "get", .resource = "pods"}, "fetch and check"},
    {NEED_ALWAYS,
     {.verb = "get", .resource = "namespaces", .name = "kube-system"},
     "which cluster it is"},
    {NEED_ALWAYS, {.verb = "create", .resource = "pods", .subresource = "binding"}, "bind"},
    {NEED_EVENTS, {.verb = "create", .group = "events.k8s.io", .resource = "events"}, "event"},
    {NEED_NAMESPACE,
     {.verb = "create", .group = "storage.k8s.io", .resource = "csistoragecapacities"},
     "create_wake_object"},
    {NEED_WAKE_OBJECT,
     {.verb = "patch", .group = "storage.k8s.io", .resource = "csistoragecapacities"},
     "wake_up"},
    {NEED_WAKE_ON_NODE, {.verb = "patch", .resource = "nodes"}, "wake_up"},
    {NEED_ADVERTISE, {.verb = "patch", .resource = "nodes", .subresource = "status"}, "advertise"},
    {NEED_CONFIGMAPS, {.verb = "create", .resource = "configmaps"}, "publish_key"},
    {NEED_KEYS, {.verb = "patch", .resource = "configmaps"}, "publish_key"},
};

struct rights {
    struct app *app;
    struct kube_ops ops;
    struct mutex lock;   /* guards the fields below, up to last */
    struct condvar came; /* signaled at the end of a round */
    bool wanted;
    uint64_t rounds; /* completed rounds */
    struct rights_facts last;

    struct rights_facts now; /* the round in progress */
    size_t next;             /* index of its current right */
    bool is_running;
    bool again; /* this round confirms a denial or an error */
    bool in_flight;
    uint64_t id; /* id of the review in flight; answers to older ones are ignored */
    uint32_t ids;
    int status;
    int64_t due_ms;
    struct strbuf body;
    struct arena arena;
};

struct rights *rights_new(struct app *app, const struct kube_ops *ops)
{
    struct rights *rights = xcalloc(1, sizeof *rights);

    must(app != NULL && ops->start != NULL);
    rights->app = app;
    rights->ops = *ops;
    mutex_init(&rights->lock);
    condvar_init(&rights->came);
    strbuf_init(&rights->body);
    arena_init(&rights->arena);
    return rights;
}

void rights_free(struct rights *rights)
{
    if (rights == NULL)
        return;
    if (rights->in_flight)
        rights->ops.cancel(rights->ops.ctx, rights->id);
    condvar_done(&rights->came);
    mutex_done(&rights->lock);
    strbuf_done(&rights->body);
    arena_done(&rights->arena);
    xfree(rights);
}

/* --- one round --- */

/* Reads the settings for each right: a reload may change them within a round. */
static bool is_needed(const struct app *app, const struct right *right)
{
    const struct settings *settings = atomic_load(&app->settings);

    must(settings != NULL);
    switch (right->need) {
    case NEED_ALWAYS:
        return true;
    case NEED_EVENTS:
        return settings->events;
    case NEED_NAMESPACE:
        return true; /* a new ledger creates the object under any setting wake */
    case NEED_WAKE_OBJECT:
        return strcmp(settings->wake, "off") != 0 && strcmp(settings->wake, "node") != 0;
    case NEED_WAKE_ON_NODE:
        return strcmp(settings->wake, "node") == 0;
    case NEED_ADVERTISE:
        return settings->advertise;
    case NEED_CONFIGMAPS:
    case NEED_KEYS:
        return app->keyring != NULL;
    }
    must_not_reach("every need is listed");
}

static void begin_round(struct rights *rights)
{
    must(!rights->in_flight);
    rights->now = (struct rights_facts){.asked = 0};
    rights->next = 0;
    rights->is_running = true;
}

/* Begins a second round if needed: an API server that has just started denies everything. */
static void end_round(struct rights *rights, int64_t now_ms)
{
    const bool unsure = rights->now.denied > 0 || rights->now.error[0] != '\0';

    must(rights->is_running && !rights->in_flight);
    rights->is_running = false;
    if (unsure && !rights->again) {
        rights->again = true;
        rights->due_ms = now_ms + CONFIRM_MS;
        begin_round(rights);
        return;
    }
    rights->again = false;
    rights->now.at_ms = now_ms;
    mutex_lock(&rights->lock);
    rights->last = rights->now;
    rights->rounds++;
    rights->wanted = false;
    condvar_broadcast(&rights->came);
    mutex_unlock(&rights->lock);
}

/* Ends the round without a result. */
static void rights_give_up(struct rights *rights, int64_t now_ms, const char *why)
{
    must(why[0] != '\0');
    text_clip(text_of(why), rights->now.error, sizeof rights->now.error);
    end_round(rights, now_ms);
}

static bool is_in_namespace(enum need need)
{
    must(need <= NEED_KEYS);
    return need == NEED_WAKE_OBJECT || need == NEED_NAMESPACE || need == NEED_CONFIGMAPS ||
           need == NEED_KEYS;
}

static void ask_next(struct rights *rights, int64_t now_ms)
{
    const struct right *right = &rights_needed[rights->next];
    struct review_facts facts = right->review;
    struct strbuf body;
    struct err err;

    must(rights->next < ARRAY_LEN(rights_needed));
    /* RBAC cannot restrict create to a name, so such a review has only the namespace. */
    if (is_in_namespace(right->need))
        facts.namespace = right->need == NEED_CONFIGMAPS || right->need == NEED_KEYS
                              ? keys_namespace(rights->app)
                              : rights->app->instance.wake_namespace;
    if (right->need == NEED_WAKE_OBJECT)
        facts.name = WAKE_OBJECT_NAME;
    if (right->need == NEED_KEYS)
        facts.name = KEYS_CONFIGMAP;
    strbuf_init(&body);
    review_encode(&body, &facts);
    const struct kube_request request = {.id = id_base + rights->ids++,
                                         .method = "POST",
                                         .path = reviews,
                                         .content_type = "application/json",
                                         .body = {body.data, body.len},
                                         .timeout_ms = TIMEOUT_MS};
    strbuf_reset(&rights->body);
    rights->status = 0;
    rights->id = request.id;
    rights->in_flight = rights->ops.start(rights->ops.ctx, &request, &err) == 0;
    strbuf_done(&body);
    if (!rights->in_flight)
        rights_give_up(rights, now_ms, err.text);
}

/* The text may be truncated; the count is exact. */
static void note_denied(struct rights *rights, const struct right *right)
{
    struct rights_facts *now = &rights->now;
    const size_t used = strlen(now->words);
    const char *sub = right->review.subresource;

    must(used < sizeof now->words);
    now->denied++;
    (void)snprintf(now->words + used, sizeof now->words - used, "%s%s %s%s%s (%s)",
                   used > 0 ? ", " : "", right->review.verb, right->review.resource,
                   sub != NULL ? "/" : "", sub != NULL ? sub : "", right->what_for);
}

/* An unreadable answer is neither allowed nor denied: the round ends with an error. */
static void review_came(struct rights *rights, int64_t now_ms)
{
    const struct text bytes = {rights->body.data, rights->body.len};
    char text[ERR_TEXT_MAX];
    bool allowed = false;
    struct err err;

    must(!rights->in_flight);
    arena_reset(&rights->arena);
    if (rights->status != 201 && rights->status != 200) {
        (void)snprintf(text, sizeof text, "the API server answered %d", rights->status);
        rights_give_up(rights, now_ms, text);
        return;
    }
    if (review_decode(bytes, &rights->arena, &allowed, &err) < 0) {
        rights_give_up(rights, now_ms, err.text);
        return;
    }
    rights->now.asked++;
    if (!allowed)
        note_denied(rights, &rights_needed[rights->next]);
    rights->next++;
}

/* --- the informer's thread --- */

static bool rights_is_wanted(struct rights *rights)
{
    mutex_lock(&rights->lock);
    const bool wanted = rights->wanted;
    mutex_unlock(&rights->lock);
    return wanted;
}

int64_t rights_step(struct rights *rights, int64_t now_ms)
{
    must(now_ms >= 0);
    if (!rights->is_running && rights_is_wanted(rights))
        begin_round(rights);
    if (!rights->is_running || rights->in_flight)
        return IDLE_MS;
    if (now_ms < rights->due_ms)
        return rights->due_ms - now_ms;
    while (rights->next < ARRAY_LEN(rights_needed) &&
           !is_needed(rights->app, &rights_needed[rights->next]))
        rights->next++;
    if (rights->next == ARRAY_LEN(rights_needed))
        end_round(rights, now_ms);
    else
        ask_next(rights, now_ms);
    return rights->in_flight ? IDLE_MS : 0;
}

/* Called by daemon.c with each answer, before the informer: true for every id of ours. */
bool rights_answer(struct rights *rights, int64_t now_ms, const struct kube_answer *answer)
{
    if (answer->id < id_base || answer->id - id_base > UINT32_MAX)
        return false;
    if (!rights->in_flight || answer->id != rights->id)
        return true;
    switch (answer->piece) {
    case KUBE_HEAD:
        rights->status = answer->status;
        break;
    case KUBE_DATA:
        /* Truncated at the end: a gap could change the meaning of the rest. */
        strbuf_text(&rights->body, text_first(answer->data, ANSWER_BYTES_MAX - rights->body.len));
        break;
    case KUBE_DONE:
        rights->in_flight = false;
        review_came(rights, now_ms);
        break;
    case KUBE_FAILED:
        rights->in_flight = false;
        rights_give_up(rights, now_ms, answer->err != NULL ? answer->err->text : "no answer");
        break;
    }
    return true;
}

/* --- who asks --- */

/*
 * The condition uses the monotonic clock, so a step of the wall clock cannot prolong the wait.
 * After a timeout the result is that of the last round, which may be old or none.
 */
void rights_ask(struct rights *rights, int64_t wait_ms, struct rights_facts *out)
{
    const int64_t now_ms = rights->app->clock.now_ms(rights->app->clock.ctx);
    const struct timespec until = clock_deadline(wait_ms);

    must(wait_ms >= 0);
    mutex_lock(&rights->lock);
    const bool fresh = rights->last.at_ms > 0 && now_ms - rights->last.at_ms < RIGHTS_FRESH_MS;
    const uint64_t rounds = rights->rounds;
    if (!fresh) {
        rights->wanted = true;
        rights->ops.wake(rights->ops.ctx);
    }
    while (!fresh && rights->rounds == rounds &&
           condvar_wait_until(&rights->came, &rights->lock, &until))
        ;
    *out = rights->last;
    mutex_unlock(&rights->lock);
}
