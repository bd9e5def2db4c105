/*
 * Answers filter, prioritize, bind and preempt. The webhook listener calls webhooks_handle() on its
 * threads; nothing here blocks. filter, prioritize and preempt read snapshots and end in the same
 * call; a bind becomes a message, which the writer answers later (answer_bind()). kube-scheduler
 * reads only bodies with status 200, so errors of filter and bind are in the body; prioritize and
 * preempt have no field for one and answer with another status. Until milligpud is ready, filter,
 * bind and preempt answer errors (docs/why/006). The parts: scratch memory, answering, filter,
 * prioritize, routes.
 */
#include "milligpu/webhook/webhooks.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/problem.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/http/http.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"
#include "milligpu/spine/message.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/webhook/score_caches.h"

/* limit of the arena chunk that is kept: the size up to which chunks double */
enum { SCRATCH_KEEP_BYTES = 1024 * 1024 };

/*
 * Memory of one call, kept for later ones so that a busy thread does not call malloc.
 */
struct scratch {
    struct arena arena;
    struct offer offer[OFFERS_MAX];
    struct name_order *order; /* owned; of the names that filter calls list */
    struct scratch *next;
};

struct webhooks {
    struct app *app;
    struct mutex lock; /* guards the list of scratches */
    struct scratch *free_scratch;
};

struct question {
    struct webhooks *webhooks;
    struct app *app;
    struct http_call *call;
    struct scratch *scratch;
    struct extender_args args;
    const struct snapshot *listed; /* in which args.known[] is; NULL: in none */
    enum request_verdict verdict;
    struct request request;
    struct refusal refusal;
    bool simulated;    /* a simulation of a cluster autoscaler: answered and not remembered */
    bool templates;    /* none of its nodes is in the ledger */
    bool again;        /* not the first attempt: room was freed during the previous one */
    bool last;         /* the last attempt */
    uint32_t n_offers; /* of scratch->offer */
};

/* Returns true for a request of shares or whole GPUs, for which a node may lack a place. */
static bool request_needs_placement(const struct question *question)
{
    must(question->verdict != REQUEST_OK || question->request.n_wants > 0);
    return question->verdict == REQUEST_OK || question->verdict == REQUEST_WHOLE;
}

struct webhooks *webhooks_new(struct app *app)
{
    must(app->view != NULL && app->waiting_pods != NULL);

    struct webhooks *webhooks = xcalloc(1, sizeof *webhooks);

    webhooks->app = app;
    mutex_init(&webhooks->lock);
    return webhooks;
}

void webhooks_free(struct webhooks *webhooks)
{
    if (webhooks == NULL)
        return;
    while (webhooks->free_scratch != NULL) {
        struct scratch *scratch = webhooks->free_scratch;
        webhooks->free_scratch = scratch->next;
        arena_done(&scratch->arena);
        name_order_free(scratch->order);
        xfree(scratch);
    }
    mutex_done(&webhooks->lock);
    xfree(webhooks);
}

/*
 * LIFO: the last one given back is most likely still in the CPU cache. There are as many as calls
 * ever ran at once.
 */
static struct scratch *take_scratch(struct webhooks *webhooks)
{
    mutex_lock(&webhooks->lock);
    struct scratch *scratch = webhooks->free_scratch;
    if (scratch != NULL)
        webhooks->free_scratch = scratch->next;
    mutex_unlock(&webhooks->lock);
    if (scratch == NULL) {
        scratch = xcalloc(1, sizeof *scratch);
        scratch->order = name_order_new();
        arena_init(&scratch->arena);
    }
    return scratch;
}

/* Trims before taking the lock, because free() of a large chunk is slow. */
static void give_scratch(struct webhooks *webhooks, struct scratch *scratch)
{
    arena_trim(&scratch->arena, SCRATCH_KEEP_BYTES);
    mutex_lock(&webhooks->lock);
    scratch->next = webhooks->free_scratch;
    webhooks->free_scratch = scratch;
    mutex_unlock(&webhooks->lock);
}

size_t webhooks_bytes(struct webhooks *webhooks)
{
    size_t bytes = 0;

    mutex_lock(&webhooks->lock);
    for (const struct scratch *at = webhooks->free_scratch; at != NULL; at = at->next)
        bytes += sizeof *at + arena_bytes(&at->arena) + name_order_bytes(at->order);
    mutex_unlock(&webhooks->lock);
    return bytes;
}

/* --- answering --- */

/* Latency starts with the complete request; for a bind it includes the wait for the outcome. */
static void webhooks_count(const struct http_call *call, const char *verb, const char *outcome)
{
    must(verb[0] != '\0' && outcome[0] != '\0');
    metric_add(M_WEBHOOK_REQUESTS, LABEL_VALUES(verb, outcome), 1);
    metric_observe_ns(M_WEBHOOK_SECONDS, LABEL_VALUES(verb), clock_ns() - http_began_ns(call));
}

static void answer_json(struct http_call *call, struct strbuf *take_body)
{
    must(take_body->len > 0);

    http_answer(call, 200, "application/json", take_body);
}

/* For calls whose answer has no error field: prioritize, preempt and unknown routes. */
static void answer_problem(struct http_call *call, int status, const char *title,
                           const char *detail)
{
    must(status >= 400 && status < 600);

    struct strbuf body;

    strbuf_init(&body);
    problem_encode(&body, status, title, detail);
    http_answer(call, status, PROBLEM_TYPE, &body);
    strbuf_done(&body);
}

/* The bind_reply of a call. Runs on the thread that has the outcome, usually the writer's. */
static void answer_bind(void *to, const char *error)
{
    struct http_call *call = to;
    struct strbuf body;

    webhooks_count(call, "bind", error == NULL ? "ok" : "error");
    if (error != NULL)
        log_write(LOG_INFO, "bind refused", log_i64("request", http_id(call)),
                  log_str("why", error));
    strbuf_init(&body);
    extender_bind_encode(&body, error);
    answer_json(call, &body);
    strbuf_done(&body);
}

/* On an error kube-scheduler ends this attempt for the pod and retries with backoff. */
static void filter_error(struct http_call *call, const char *error)
{
    must(error[0] != '\0');

    const struct extender_args none = {0};
    const struct extender_filter_result result = {.error = error};
    struct strbuf body;

    webhooks_count(call, "filter", "error");
    log_write(LOG_WARN, "filter answered with an error", log_i64("request", http_id(call)),
              log_str("error", error));
    strbuf_init(&body);
    extender_filter_encode(&body, &none, &result);
    answer_json(call, &body);
    strbuf_done(&body);
}

/* --- filter --- */

static void count_filter(const struct question *question, const char *outcome)
{
    must(outcome[0] != '\0');
    webhooks_count(question->call, "filter", question->simulated ? "simulated" : outcome);
}

/* Answers with the chosen nodes. */
static void send_chosen(struct question *question, const uint32_t *choice, uint32_t chosen)
{
    must(chosen <= question->args.n_names);
    const struct extender_filter_result result = {.chosen = chosen, .choice = choice};
    struct strbuf body;

    count_filter(question, "ok");
    strbuf_init(&body);
    extender_filter_encode(&body, &question->args, &result);
    answer_json(question->call, &body);
    strbuf_done(&body);
}

/* Passes every node: the pod requests nothing of ours. */
static void pass_all(struct question *question)
{
    must(!request_needs_placement(question));

    const uint32_t names = question->args.n_names;
    uint32_t *choice = arena_array(&question->scratch->arena, names + 1, sizeof *choice);

    for (uint32_t i = 0; i < names; i++)
        choice[i] = i;
    send_chosen(question, choice, names);
}

struct refusals {
    struct extender_refusal *refusal;
    uint32_t count;
    struct arena *arena;
};

/* Copies the text, which is valid during this call only. */
static void add_refusal(void *user, struct text name, const char *text)
{
    struct refusals *refusals = user;

    must(text[0] != '\0');
    refusals->refusal[refusals->count++] =
        (struct extender_refusal){name, arena_copy(refusals->arena, text_of(text))};
}

static struct asking_pod asking_pod_of(const struct question *question)
{
    const struct pod *pod = &question->args.pod;
    const struct clock_ops *clock = &question->app->clock;

    must(pod->uid[0] != '\0');
    return (struct asking_pod){
        .uid = pod->uid,
        .namespace = pod->namespace,
        .name = pod->name,
        .request = request_needs_placement(question) ? &question->request : NULL,
        .now_ms = clock->now_ms(clock->ctx),
        .wall_ms = clock->wall_ms(clock->ctx),
        .again = question->again,
    };
}

/*
 * Records the refusal, which counts once per call, not per attempt. A pod without a uid is an
 * autoscaler's template, which never needs a wake-up.
 */
static void webhooks_remember(struct question *question, enum reason reason, const char *text)
{
    must(reason != REASON_NONE);
    must(text != NULL);

    if (question->simulated)
        return;
    if (!question->again)
        app_count_refusal(reason);
    if (question->args.pod.uid[0] == '\0')
        return;
    const struct asking_pod asking_pod = asking_pod_of(question);
    waiting_pods_refused(question->app->waiting_pods, &asking_pod, reason, text);
}

/*
 * The common end of every refusal, cached or evaluated: records it first and then reads the
 * generation again, while the writer publishes first and then checks the waiting pods, so no
 * wake-up is lost. Returns false if room was freed in between and the pod must be evaluated again.
 * On the last attempt the refusal stands: its snapshot was taken after the pod was recorded, and
 * the writer wakes the pod for room that was freed later.
 */
static bool refusal_stands(struct question *question, const struct snapshot *snapshot,
                           struct cause cause)
{
    struct refusal refusal;

    if (question->simulated)
        return true; /* no pod waits */
    policy_refuse(snapshot->context, cause, &question->request, &refusal);
    webhooks_remember(question, cause.why, refusal.text);
    app_yield(question->app, YIELD_AFTER_REFUSAL);
    const bool stands = question->last || view_capacity_generation(question->app->view) ==
                                              snapshot->capacity_generation;
    app_yield(question->app, YIELD_AFTER_GENERATION);
    return stands;
}

/* key: for the cache of answers; NULL if the answer depends on more than the key. */
static void send_refusals(struct question *question, const struct refusals *refusals,
                          const struct refusal_key *key, struct cause cause)
{
    must(refusals->count <= question->args.n_names);

    const struct extender_filter_result result = {.n_refusals = refusals->count,
                                                  .refusal = refusals->refusal};
    struct strbuf body;

    count_filter(question, "refused");
    strbuf_init(&body);
    extender_filter_encode(&body, &question->args, &result);
    if (key != NULL)
        waiting_pods_keep_refusal(question->app->waiting_pods, key,
                                  (struct text){body.data, body.len}, cause);
    answer_json(question->call, &body);
    strbuf_done(&body);
}

/*
 * Refuses all nodes with one text, grouped like every refusal: beyond refusal_names, under the
 * first name only.
 */
static void refuse_all(struct question *question, const char *text)
{
    must(text[0] != '\0');
    const uint32_t names = question->args.n_names;
    const uint32_t named = names <= question->app->settings->refusal_names ? names : 1;
    struct refusals refusals = {.arena = &question->scratch->arena};

    if (named < names)
        text = arena_printf(refusals.arena, "%s%s", text, FILTER_SPEAKS_FOR_ALL);
    refusals.refusal = arena_array(refusals.arena, named + 1, sizeof *refusals.refusal);
    for (uint32_t i = 0; i < named && i < names; i++)
        add_refusal(&refusals, question->args.name[i], text);
    send_refusals(question, &refusals, NULL, (struct cause){.why = REASON_NONE});
}

/*
 * Depends on the order of the names, which is that of the answer, and on the form of the call (Node
 * objects or names), which is that of the answer, too.
 */
static uint64_t digest_names(const struct extender_args *args)
{
    must(args->n_names == 0 || args->hash != NULL);

    uint64_t digest = args->full_nodes ? 1 : 0;

    for (uint32_t i = 0; i < args->n_names; i++)
        digest = digest * 0x9e3779b97f4a7c15U + args->hash[i];
    return digest;
}

/* Returns the pod's reason: that of the node that came nearest to fitting. */
static struct cause webhooks_nearest(const struct filter_answer *answer, uint32_t names)
{
    must(answer->verdict == FILTER_NONE || names == 0);

    struct cause last = {.why = REASON_NO_GPU};

    for (uint32_t i = 0; i < names; i++)
        if (answer->cause[i].why > last.why)
            last = answer->cause[i];
    return last;
}

/*
 * Builds the answer of a refusal that refusal_stands() has recorded, and caches it if it depends on
 * the key alone.
 */
static void webhooks_refuse(struct question *question, const struct filter_question *asked,
                            const struct filter_answer *answer)
{
    must(answer->verdict == FILTER_NONE);

    const struct cause cause = webhooks_nearest(answer, asked->n_names);
    const struct refusal_key key = {.request = &question->request,
                                    .names = digest_names(&question->args),
                                    .capacity_generation = asked->snapshot->capacity_generation};
    struct refusals refusals = {.arena = &question->scratch->arena};

    refusals.refusal = arena_array(refusals.arena, asked->n_names + 1, sizeof *refusals.refusal);
    filter_refusals(asked, answer, question->app->settings->refusal_names, &refusals, add_refusal);
    send_refusals(question, &refusals, question->args.full_nodes ? NULL : &key, cause);
}

/* Returns the best candidate unless its node was built for this call only: a hint outlives it. */
static const struct candidate *lasting_best(const struct question *question,
                                            const struct filter_question *asked,
                                            const struct filter_answer *answer)
{
    const struct candidate *best = &answer->candidate[0];

    must(answer->n_candidates > 0);
    if (question->verdict != REQUEST_OK)
        return NULL; /* a request of whole GPUs has no place */
    return snapshot_node(asked->snapshot, atom_text(best->node->name)) == best->node ? best : NULL;
}

/* Not for a pod with a reservation: it does not wait, and its node needs no offer. */
static void remember_shortlist(struct question *question, const struct filter_question *asked,
                               const struct filter_answer *answer)
{
    struct waiting_pods *waiting_pods = question->app->waiting_pods;

    must(question->args.pod.uid[0] != '\0');
    if (answer->verdict == FILTER_RESERVED) {
        waiting_pods_fits(waiting_pods, text_of(question->args.pod.uid));
        return;
    }
    const struct asking_pod asking_pod = asking_pod_of(question);
    const struct shortlist offered = {.nodes = asked->snapshot->nodes,
                                      .names = asked->n_names,
                                      .fitting = answer->fitting,
                                      .listed = answer->n_candidates,
                                      .capacity_generation = asked->snapshot->capacity_generation,
                                      .best = lasting_best(question, asked, answer)};
    waiting_pods_shortlisted(waiting_pods, &asking_pod, &offered);
}

static void answer_shortlist(struct question *question, const struct filter_question *asked,
                             const struct filter_answer *answer)
{
    must(answer->n_candidates > 0 && answer->n_candidates <= question->args.n_names);

    uint32_t *choice = arena_array(&question->scratch->arena, answer->n_candidates, sizeof *choice);

    for (uint32_t i = 0; i < answer->n_candidates; i++)
        choice[i] = answer->candidate[i].name;
    if (question->args.pod.uid[0] != '\0' && !question->simulated && !question->templates)
        remember_shortlist(question, asked, answer);
    send_chosen(question, choice, answer->n_candidates);
}

/*
 * Builds nodes from the Node objects of the call that the ledger does not have (for example an
 * autoscaler's template).
 */
static const struct node *const *nodes_of(struct question *question,
                                          const struct snapshot *snapshot, struct names *names)
{
    must(question->args.full_nodes);

    const struct extender_args *args = &question->args;
    const struct rulebook *book = snapshot->context == NULL ? NULL : snapshot->context->rulebook;
    const struct node **node =
        arena_array(&question->scratch->arena, args->n_names + 1, sizeof *node);

    for (uint32_t i = 0; i < args->n_names; i++) {
        struct inventory inventory;
        if (snapshot_node(snapshot, args->name[i]) != NULL)
            continue;
        inventory_parse(&args->node[i], &question->app->rules.inventory_rules,
                        &question->scratch->arena, &inventory);
        node[i] = node_from_inventory(&inventory, book, names);
    }
    return node;
}

static void drop_nodes(const struct node *const *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        node_unref(node[i]);
}

/* Sets the rules of this snapshot; another one may have others. */
static void set_rules(struct question *question, const struct snapshot *snapshot)
{
    must(snapshot != NULL);
    question->request.rules =
        policy_context_rules(snapshot->context, text_of(question->args.pod.namespace));
}

enum { FILTER_TRIES = 4 };

/* Result of one attempt. */
enum ending {
    ENDING_NONE, /* no cached answer: evaluate */
    ENDING_ANSWERED,
    ENDING_OVERTAKEN, /* a refusal, but room was freed meanwhile: retry */
};

/* Answers with the cached refusal of an equal call at the same capacity generation. */
static enum ending answer_again(struct question *question, const struct snapshot *snapshot)
{
    must(request_needs_placement(question));

    const struct refusal_key key = {.request = &question->request,
                                    .names = digest_names(&question->args),
                                    .capacity_generation = snapshot->capacity_generation};
    enum ending ending = ENDING_NONE;
    struct cause cause;
    struct strbuf body;

    strbuf_init(&body);
    if (waiting_pods_find_refusal(question->app->waiting_pods, &key, &body, &cause))
        ending = refusal_stands(question, snapshot, cause) ? ENDING_ANSWERED : ENDING_OVERTAKEN;
    if (ending == ENDING_ANSWERED) {
        count_filter(question, "refused");
        answer_json(question->call, &body);
    }
    strbuf_done(&body);
    return ending;
}

/*
 * No shortlist for a pod that requests whole GPUs only: milligpud cannot rank those GPUs.
 */
static uint32_t shortlist_of(const struct question *question)
{
    struct app *app = question->app;

    must(request_needs_placement(question));
    if (question->verdict == REQUEST_WHOLE || question->simulated)
        return 0; /* an autoscaler compares all nodes itself */
    return waiting_pods_shortlist(app->waiting_pods, text_of(question->args.pod.uid),
                                  app->settings->shortlist);
}

/*
 * Holds the score cache during the search only, so that the next call can use it meanwhile.
 */
static void ask_with_cache(struct question *question, struct filter_question *asked,
                           struct filter_answer *out)
{
    must(asked->cache == NULL);
    asked->cache = score_caches_take(question->app->score_caches);
    filter_ask(asked, &question->scratch->arena, out);
    score_caches_give(question->app->score_caches, STEAL(asked->cache));
}

/* After the offers, as waiting_pods_offers() asks. NULL before the first publication. */
static const struct snapshot *take_snapshot(struct question *question)
{
    const struct app *app = question->app;

    must(question->scratch != NULL);
    question->n_offers =
        waiting_pods_offers(app->waiting_pods, text_of(question->args.pod.uid),
                            app->clock.now_ms(app->clock.ctx), question->scratch->offer);
    must(question->n_offers <= OFFERS_MAX);
    return view_take(app->view);
}

/* Evaluates on one snapshot. Nodes built for the call are freed at the end. */
static enum ending webhooks_evaluate(struct question *question, const struct snapshot *snapshot)
{
    must(request_needs_placement(question));

    struct names *names = question->args.full_nodes ? names_new() : NULL;
    struct filter_question asked = {
        .snapshot = snapshot,
        .request = &question->request,
        .uid = text_of(question->args.pod.uid),
        .n_names = question->args.n_names,
        .name = question->args.name,
        .hash = question->args.hash,
        .known = question->args.known,
        .known_in = question->listed,
        .node = names != NULL ? nodes_of(question, snapshot, names) : NULL,
        .shortlist = shortlist_of(question),
        .n_offers = question->n_offers,
        .offer = question->scratch->offer,
    };
    struct filter_answer answer;
    struct refusal refusal;
    enum ending ending = ENDING_ANSWERED;

    ask_with_cache(question, &asked, &answer);
    switch (answer.verdict) {
    case FILTER_FITS:
    case FILTER_RESERVED:
        answer_shortlist(question, &asked, &answer);
        break;
    case FILTER_HELD_ELSEWHERE:
        (void)snprintf(refusal.text, sizeof refusal.text,
                       "elsewhere: the pod holds a reservation on node %.180s",
                       answer.held->facts.node->text);
        filter_error(question->call, refusal.text);
        break;
    case FILTER_LISTED_UNBOUND:
        (void)snprintf(refusal.text, sizeof refusal.text, LISTED_UNBOUND,
                       answer.held->facts.node->text);
        filter_error(question->call, refusal.text);
        break;
    case FILTER_NONE:
        if (refusal_stands(question, snapshot, webhooks_nearest(&answer, asked.n_names)))
            webhooks_refuse(question, &asked, &answer);
        else
            ending = ENDING_OVERTAKEN;
        break;
    }
    if (names != NULL) {
        drop_nodes(asked.node, asked.n_names);
        names_free(names);
    }
    return ending;
}

/*
 * A pod with a reservation never gets a cached answer: it fits on its node even when the same
 * request of other pods is refused.
 */
static enum ending filter_once(struct question *question, const struct snapshot *snapshot)
{
    enum ending ending = ENDING_NONE;

    must(snapshot != NULL); /* milligpud is ready */
    set_rules(question, snapshot);
    if (!question->args.full_nodes &&
        snapshot_open(snapshot, text_of(question->args.pod.uid)) == NULL)
        ending = answer_again(question, snapshot);
    return ending != ENDING_NONE ? ending : webhooks_evaluate(question, snapshot);
}

/*
 * Retries with a newer snapshot when room was freed. The attempts are limited, because on a busy
 * cluster room may be freed all the time.
 */
static void filter_placed(struct question *question)
{
    must(request_needs_placement(question));

    for (int i = 1;; i++) {
        CLEANUP(snapshot_unrefp)
        const struct snapshot *snapshot = take_snapshot(question);
        question->again = i > 1;
        question->last = i == FILTER_TRIES;
        app_yield(question->app, YIELD_AFTER_SNAPSHOT);
        if (filter_once(question, snapshot) == ENDING_ANSWERED)
            return;
    }
}

static void webhooks_filter(struct question *question)
{
    must(question->args.n_names == 0 || question->args.name != NULL);

    switch (question->verdict) {
    case REQUEST_OK:
    case REQUEST_WHOLE:
        filter_placed(question);
        return;
    case REQUEST_REFUSED:
        /* The request itself is invalid: only a change of the pod helps. */
        webhooks_remember(question, question->refusal.why, question->refusal.text);
        refuse_all(question, question->refusal.text);
        return;
    case REQUEST_NOT_OURS:
    case REQUEST_ZERO:
        pass_all(question);
        return;
    }
    must_not_reach("every verdict is listed");
}

/* --- prioritize --- */

/*
 * Scores only order nodes that filter has passed, and kube-scheduler ignores errors here, so
 * without a snapshot all nodes get 0. Stores nothing in the table of waiting pods.
 */
static void webhooks_prioritize(struct question *question)
{
    CLEANUP(snapshot_unrefp)
    const struct snapshot *snapshot =
        question->verdict == REQUEST_OK ? take_snapshot(question) : NULL;
    struct app *app = question->app;
    uint8_t *score = arena_array(&question->scratch->arena, question->args.n_names + 1, 1);
    struct strbuf body;

    if (snapshot != NULL) {
        const struct text uid = text_of(question->args.pod.uid);
        set_rules(question, snapshot);
        const struct filter_question asked = {
            .snapshot = snapshot,
            .cache = score_caches_take(app->score_caches),
            .request = &question->request,
            .uid = uid,
            .n_names = question->args.n_names,
            .name = question->args.name,
            .hash = question->args.hash,
            .n_offers = question->n_offers,
            .offer = question->scratch->offer,
        };
        filter_score(&asked, &question->scratch->arena, score);
        score_caches_give(app->score_caches, asked.cache);
    }
    webhooks_count(question->call, "prioritize", "ok");
    strbuf_init(&body);
    extender_priorities_encode(&body, &question->args, score);
    answer_json(question->call, &body);
    strbuf_done(&body);
}

/* --- routes --- */

static void check_request(struct question *question)
{
    must(question->scratch != NULL);

    question->verdict =
        request_parse(&question->args.pod, &question->app->rules.request_rules,
                      &question->scratch->arena, &question->request, &question->refusal);
}

/* Returns true if the ledger has none of the nodes, as for an autoscaler's templates. */
static bool asks_for_templates(const struct question *question)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(question->app->view);
    const struct extender_args *args = &question->args;

    must(args->full_nodes);
    if (args->n_names == 0 || snapshot == NULL)
        return false;
    for (uint32_t i = 0; i < args->n_names; i++)
        if (snapshot_node(snapshot, args->name[i]) != NULL)
            return false;
    return true;
}

/*
 * Counts the call for its scheduler and detects simulations. A call about unknown nodes is no
 * simulation if the pod has no verdict yet: kube-scheduler may have seen a new node before our
 * watch, and a refused pod must be woken.
 */
static void note_scheduler(struct question *question, bool scoring)
{
    struct app *app = question->app;
    struct schedulers *schedulers = waiting_pods_schedulers(app->waiting_pods);
    const struct pod *pod = &question->args.pod;
    const enum ask_form form = question->args.full_nodes ? ASK_NODES : ASK_NAMES;
    const int64_t now_ms = app->clock.now_ms(app->clock.ctx);

    if (!request_needs_placement(question) && question->verdict != REQUEST_REFUSED)
        return; /* requests nothing of ours */
    if (scoring) {
        schedulers_scored(schedulers, pod->scheduling.scheduler, form, now_ms);
    } else {
        question->templates = question->args.full_nodes && asks_for_templates(question);
        question->simulated =
            !schedulers_asked(schedulers, pod->scheduling.scheduler, form, now_ms) ||
            (question->templates && pod->uid[0] != '\0' &&
             waiting_pods_has_verdict(app->waiting_pods, text_of(pod->uid)));
    }
}

/*
 * For filter only, which has a snapshot: prioritize lists names in filter's order, which tells
 * nothing about the next. NULL: no names are guessed.
 */
static struct name_order *order_for(struct question *question, const struct snapshot *listed)
{
    if (listed == NULL)
        return NULL;
    name_order_begin(question->scratch->order, listed);
    return question->scratch->order;
}

/*
 * Handles filter and prioritize, which have the same body. Scratch memory is given back once the
 * call is answered, and so is the snapshot in which the names were recognised: the nodes of
 * args.known[] are borrowed from it.
 */
static void open_args(struct webhooks *webhooks, struct http_call *call, bool scoring)
{
    struct question question = {.webhooks = webhooks, .app = webhooks->app, .call = call};
    struct err err;
    const char *why;

    if (!app_ready(webhooks->app, &why) && !scoring) {
        char text[200];
        (void)snprintf(text, sizeof text, "milligpu is not ready: %.150s", why);
        filter_error(call, text);
        return;
    }
    CLEANUP(snapshot_unrefp)
    const struct snapshot *listed = scoring ? NULL : view_take(webhooks->app->view);
    must(scoring || listed != NULL); /* milligpud is ready */
    question.listed = listed;
    question.scratch = take_scratch(webhooks);
    if (extender_args_decode(http_body(call), &webhooks->app->rules.wire_rules,
                             order_for(&question, listed), &question.scratch->arena, &question.args,
                             &err) < 0) {
        if (scoring) {
            webhooks_count(call, "prioritize", "error");
            answer_problem(call, 400, "the body cannot be read", err.text);
        } else {
            filter_error(call, err.text);
        }
    } else {
        check_request(&question);
        note_scheduler(&question, scoring);
        if (scoring)
            webhooks_prioritize(&question);
        else
            webhooks_filter(&question);
    }
    give_scratch(webhooks, question.scratch);
}

static void open_filter(struct webhooks *webhooks, struct http_call *call)
{
    open_args(webhooks, call, false);
}

static void open_prioritize(struct webhooks *webhooks, struct http_call *call)
{
    open_args(webhooks, call, true);
}

/*
 * Queues the bind; the connection is suspended until the writer answers. If the queue is full the
 * call gets an error at once, because an HTTP thread must not wait.
 */
static void open_bind(struct webhooks *webhooks, struct http_call *call)
{
    struct app *app = webhooks->app;
    struct message *message = message_new(MESSAGE_BIND);
    struct bind_call *bind = &message->bind;
    struct err err;
    const char *why;

    if (extender_bind_decode(http_body(call), &message->arena, &bind->args, &err) < 0) {
        answer_bind(call, err.text);
        message_free(message);
        return;
    }
    /* Even if the bind fails: it shows that no other plugin refused the shortlist. */
    waiting_pods_binding(app->waiting_pods, text_of(bind->args.uid));
    /* A fifth of kube-scheduler's timeout is left for the answer: later it would not be read. */
    bind->deadline_ms =
        app->clock.now_ms(app->clock.ctx) + (int64_t)app->settings->http_timeout_ms * 8 / 10;
    bind->reply = (struct bind_reply){answer_bind, call};
    bool ready = app_ready(app, &why);
    if (ready && atomic_load(&app->draining)) {
        /* While stopping, new binds would prolong the drain without end. */
        ready = false;
        why = "it is stopping";
    }
    if (ready && queue_put(app->queue, message))
        return;
    /* The call is answered below. */
    message_abandon(message);
    char text[200];
    (void)snprintf(text, sizeof text, "milligpu is not ready: %.150s",
                   ready ? "too many binds wait already" : why);
    answer_bind(call, text);
}

/*
 * Keeps a node if the pod fits there without the victims. A pod that requests nothing of ours keeps
 * all nodes, a pod with an invalid request none.
 */
static void preempt_ask_all(struct question *question, const struct extender_preempt *args,
                            bool *keep)
{
    must(args->n_nodes == 0 || args->node != NULL);

    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = view_take(question->app->view);
    const struct allocation *held = snapshot_open(snapshot, text_of(args->pod.uid));

    if (request_needs_placement(question))
        set_rules(question, snapshot);
    for (uint32_t i = 0; i < args->n_nodes; i++) {
        const struct extender_victims *victims = &args->node[i];
        const struct node *node = snapshot_node(snapshot, victims->node);
        if (request_needs_placement(question))
            keep[i] = node != NULL && preempt_ask(snapshot->context, node, &question->request, held,
                                                  victims->uid, victims->n_uids) == REASON_NONE;
        else
            keep[i] = question->verdict != REQUEST_REFUSED;
    }
}

/* kube-scheduler has chosen the victims without regard to shares, so each node is checked. */
static void open_preempt(struct webhooks *webhooks, struct http_call *call)
{
    struct question question = {.webhooks = webhooks, .app = webhooks->app, .call = call};
    struct extender_preempt args;
    struct err err;
    const char *why;

    if (!app_ready(webhooks->app, &why)) {
        webhooks_count(call, "preempt", "error");
        answer_problem(call, 503, "milligpu is not ready", why);
        return;
    }
    question.scratch = take_scratch(webhooks);
    struct arena *arena = &question.scratch->arena;
    if (extender_preempt_decode(http_body(call), &webhooks->app->rules.wire_rules, arena, &args,
                                &err) < 0) {
        webhooks_count(call, "preempt", "error");
        answer_problem(call, 400, "the body cannot be read", err.text);
    } else {
        struct strbuf body;
        bool *keep = arena_array(arena, args.n_nodes + 1, sizeof *keep);
        question.args.pod = args.pod;
        check_request(&question);
        preempt_ask_all(&question, &args, keep);
        webhooks_count(call, "preempt", "ok");
        strbuf_init(&body);
        extender_preempt_encode(&body, &args, keep);
        answer_json(call, &body);
        strbuf_done(&body);
    }
    give_scratch(webhooks, question.scratch);
}

static const struct {
    const char *verb;
    void (*open)(struct webhooks *webhooks, struct http_call *call);
} routes[] = {
    {"/filter", open_filter},
    {"/prioritize", open_prioritize},
    {"/bind", open_bind},
    {"/preempt", open_preempt},
};

/* Returns the index of the route, or the number of routes. */
static size_t route_at(const struct webhooks *webhooks, const char *path)
{
    const char *base = webhooks->app->settings->base_path;
    const size_t length = strlen(base);
    size_t at = 0;

    must(length > 0 && path != NULL);
    if (strncmp(path, base, length) != 0)
        return ARRAY_LEN(routes);
    while (at < ARRAY_LEN(routes) && strcmp(path + length, routes[at].verb) != 0)
        at++;
    return at;
}

bool webhooks_takes_body(const struct webhooks *webhooks, const char *method, const char *path)
{
    must(method != NULL);
    return strcmp(method, "POST") == 0 && route_at(webhooks, path) < ARRAY_LEN(routes);
}

void webhooks_handle(struct webhooks *webhooks, struct http_call *call)
{
    const size_t at = route_at(webhooks, http_path(call));

    if (at == ARRAY_LEN(routes)) {
        answer_problem(call, 404, "not found",
                       "webhooks are filter, prioritize, bind and preempt below base_path");
    } else if (strcmp(http_method(call), "POST") != 0) {
        http_set_header(call, "Allow", "POST");
        answer_problem(call, 405, "method not allowed", "webhooks are called by POST");
    } else {
        routes[at].open(webhooks, call);
    }
}
