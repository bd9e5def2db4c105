/*
 * Creates and frees the parts of milligpud in one order, for daemon, simulator and tests. Called in
 * one thread before any other runs, and again after all others have ended. Constructors use parts
 * that app_open() created before: the verifier needs the store and the view, the writer the outbox.
 */
#include "milligpu/daemon/assembly.h"

#include <string.h>
#include <sys/random.h>

#include "milligpu/base/alloc.h"
#include "milligpu/selfcheck/verifier.h"
#include "milligpu/spine/command_trace.h"
#include "milligpu/spine/commits.h"
#include "milligpu/spine/message.h"
#include "milligpu/spine/policy_reload.h"
#include "milligpu/sync/cluster_identity.h"
#include "milligpu/sync/informer.h"
#include "milligpu/sync/key_publisher.h"
#include "milligpu/sync/node_digests.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/usage/usage_table.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/webhook/score_caches.h"
#include "milligpu/webhook/webhooks.h"
#include "milligpu/writer/writer.h"

/*
 * The outbox thread blocks here while the queue is full, so that no outcome of a Binding is lost
 * while the daemon runs. Fails only during the stop; then the next start finds the reservation in
 * doubt.
 */
static void queue_result(void *user, struct message *take_message)
{
    struct app *app = user;

    if (!queue_put_wait(app->queue, take_message))
        message_abandon(take_message);
}

static enum plugin_rule plugin_rule_of(const char *word)
{
    must(word != NULL);
    if (strcmp(word, "expect") == 0)
        return PLUGIN_EXPECT;
    must(strcmp(word, "ignore") == 0 || strcmp(word, "auto") == 0);
    return strcmp(word, "ignore") == 0 ? PLUGIN_IGNORE : PLUGIN_AUTO;
}

static enum agents_required agents_required_of(const char *word)
{
    must(word != NULL);
    if (strcmp(word, "always") == 0)
        return REQUIRE_ALWAYS;
    must(strcmp(word, "never") == 0 || strcmp(word, "where-selected") == 0);
    return strcmp(word, "never") == 0 ? REQUIRE_NEVER : REQUIRE_WHERE_SELECTED;
}

/* Splits "key=value", which the settings have checked; an empty setting has no key. */
static void split_label(const char *label, struct text *out_key, struct text *out_value)
{
    struct text rest = text_of(label);

    *out_key = (struct text){label, 0};
    if (rest.len > 0)
        must(text_cut(&rest, '=', out_key));
    *out_value = rest;
    must(rest.len < strlen(label) || label[0] == '\0');
}

/* The namespace of the agents is that of the public keys, which they mount. */
static void fill_agents(struct app *app, const struct settings *settings)
{
    struct agents_rules *rules = &app->rules.agents_rules;
    struct agent_selector *pods = &app->rules.wire_rules.agents;

    rules->required = agents_required_of(settings->require_agent);
    rules->by_annotation = strcmp(settings->agents, "annotation") == 0;
    split_label(settings->agent_nodes, &rules->key, &rules->value);
    pods->namespace = keys_namespace(app);
    split_label(settings->agent_label, &pods->key, &pods->value);
    must(pods->key.len > 0);
}

/*
 * Copies the settings by which requests and inventories are parsed. They change only with a
 * restart, because the ledger was computed from them.
 */
static void fill_rules(struct app *app, const struct settings *settings)
{
    must(settings->resource[0] != '\0');
    app->rules.request_rules = (struct request_rules){.resource = settings->resource,
                                                      .min_milli = settings->min_milli,
                                                      .step_milli = settings->step_milli};
    app->rules.inventory_rules =
        (struct inventory_rules){.advertise = settings->advertise,
                                 .from_labels = settings->inventory_from_labels,
                                 .plugin = plugin_rule_of(settings->plugin)};
    app->rules.wire_rules = (struct wire_rules){.resource = settings->resource,
                                                .whole_resource = settings->whole_resource};
}

/* The simulator and the fault tests interpose their own store_ops. */
static void fill_edges(struct app *app, const struct app_edges *edges)
{
    app->clock = edges->clock;
    app->yield = edges->yield;
    app->store = edges->store;
    app->rulebook = rulebook_ref(edges->rulebook);
    if (edges->store_ops.begin != NULL)
        app->store_ops = edges->store_ops;
    else
        store_ops(app->store, &app->store_ops);
    app->fake = edges->fake;
    app->grace.grace_ms = edges->grace_ms;
    app->instance.server = edges->server;
    app->instance.wake_namespace = edges->wake_namespace;
    app->keyring = edges->keyring;
}

/* Kubelets write Nodes, so none must know a collision. */
static struct node_digests *secret_digests(void)
{
    struct siphash_key key;

    must(getrandom(&key, sizeof key, 0) == sizeof key);
    return node_digests_new(&key);
}

void app_open(struct app *app, const struct settings *settings, const struct app_edges *edges,
              struct app_parts *out)
{
    must(app->queue == NULL && edges->store != NULL && edges->rulebook != NULL);
    atomic_store(&app->settings, settings);
    fill_rules(app, settings);
    fill_edges(app, edges);
    fill_agents(app, settings);
    must(getrandom(&app->instance.start_id, sizeof app->instance.start_id, 0) ==
         sizeof app->instance.start_id);
    app->instance.began_wall_ms = app->clock.wall_ms(app->clock.ctx);
    app->queue = queue_new(QUEUE_MAX);
    app->view = view_new();
    app->commits = commits_new();
    app->policy_reload = policy_reload_new();
    app->pod_cache = pod_cache_new();
    app->node_digests = secret_digests();
    app->waiting_pods = waiting_pods_new();
    app->score_caches = score_caches_new(SCORE_CACHES_MAX);
    app->usage_table = usage_table_new(&app->clock);
    app->command_trace = command_trace_new();
    app->verifier = verifier_new(app);
    const struct outbox_rules rules = {.ops = edges->calls,
                                       .wire = &app->rules.wire_rules,
                                       .wake = settings->wake,
                                       .namespace = app->instance.wake_namespace,
                                       .instance = edges->instance,
                                       .resource = settings->resource,
                                       .user = app,
                                       .result = queue_result};
    app->outbox = outbox_new(&rules);
    *out = (struct app_parts){.writer = writer_new(app),
                              .identity = cluster_identity_new(app, edges->watch),
                              .informer = informer_new(app, edges->watch),
                              .webhooks = webhooks_new(app)};
}

/*
 * Called after all producers and the writer have ended and the listener has answered the calls of
 * the messages.
 */
static void free_queue(struct queue *queue)
{
    void *item;

    if (queue == NULL)
        return;
    while (queue_take(queue, &item, 1, 0) == 1)
        message_abandon(item);
    queue_free(queue);
}

static void free_tables(struct app *app)
{
    usage_table_free(STEAL(app->usage_table));
    score_caches_free(STEAL(app->score_caches));
    waiting_pods_free(STEAL(app->waiting_pods));
    node_digests_free(STEAL(app->node_digests));
    pod_cache_free(STEAL(app->pod_cache));
}

/*
 * Frees users before their dependencies: every producer of messages before the queue. STEAL leaves
 * NULL behind, which makes a second call harmless.
 */
void app_close(struct app *app, struct app_parts *parts)
{
    cluster_identity_free(STEAL(parts->identity));
    informer_free(STEAL(parts->informer));
    outbox_free(STEAL(app->outbox));
    writer_free(STEAL(parts->writer));
    verifier_free(STEAL(app->verifier));
    command_trace_free(STEAL(app->command_trace));
    webhooks_free(STEAL(parts->webhooks));
    free_queue(STEAL(app->queue));
    free_tables(app);
    policy_reload_free(STEAL(app->policy_reload));
    commits_free(STEAL(app->commits));
    view_free(STEAL(app->view));
    rulebook_unref(STEAL(app->rulebook));
}
