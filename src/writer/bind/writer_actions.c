/*
 * Post-commit actions, Bindings and advertised capacity, collected while the batch is open.
 * writer.c runs them after the COMMIT or drops them with a lost batch. A Binding sent before its
 * reservation is on disk could take effect after a crash without a trace in the ledger.
 */
#include <stdio.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/quantity.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/writer/writer.h"

#include "writer/writer_internal.h"

void writer_action_done(struct post_commit_action *action)
{
    must(action->uid != NULL);

    xfree(action->uid);
    xfree(action->namespace);
    xfree(action->name);
    xfree(action->node);
    strbuf_done(&action->body);
}

/* The limit: one message, listed pod, node or bind in flight adds at most one action. */
static struct post_commit_action *add_action(struct writer *writer)
{
    must(writer->after_commit.n_actions <= BATCH_MAX + writer->pod_list.n_listed +
                                               writer->node_list.nodes_seen.count +
                                               writer->binds.inflight.count);

    writer->after_commit.action =
        xgrow(writer->after_commit.action, writer->after_commit.n_actions,
              &writer->after_commit.action_capacity, sizeof *writer->after_commit.action);
    struct post_commit_action *action =
        &writer->after_commit.action[writer->after_commit.n_actions++];
    *action = (struct post_commit_action){0};
    strbuf_init(&action->body);
    return action;
}

/*
 * Deterministic: the same text for the same allocation while the same key signs. The pod's event
 * will show it, and is not verified.
 */
static int sign_binding(const void *ctx, struct text uid, struct text node, struct text annotation,
                        struct strbuf *out, struct err *err)
{
    const struct signed_facts what = {.uid = uid, .node = node, .bytes = annotation};
    char text[SIGNATURE_TEXT_BYTES];

    const struct app *app = ctx;

    must(app->keyring != NULL && out->len == 0);
    if (keyring_sign(app->keyring, &what, text, err) < 0)
        return err_same(err);
    pod_cache_note_signature(app->pod_cache, text_of(text), &what);
    strbuf_str(out, text);
    return 0;
}

int writer_queue_binding(struct writer *writer, const struct allocation *allocation,
                         struct dispatch how, struct err *err)
{
    const struct node *node = ledger_node(writer->ledger, atom_text(allocation->facts.node));
    struct post_commit_action *action = add_action(writer);

    must(node != NULL);
    action->kind = ACTION_BIND;
    action->uid = xstrdup(allocation->facts.uid);
    action->namespace = xstrdup(allocation->facts.namespace);
    action->name = xstrdup(allocation->facts.name);
    action->node = xstrdup(allocation->facts.node->text);
    action->version = how.version;
    action->deadline_ms = how.deadline_ms;
    action->sending = how.sending;
    /*
     * Encoded now, because later commands of the batch may replace the allocation and its node. Not
     * signed while the key is unpublished, which happens only on nodes without an agent.
     */
    struct keyring *keyring = writer->app->keyring;
    const bool signs = keyring != NULL && keyring_may_sign(keyring);
    const struct binding_signer signer = {writer->app, sign_binding};
    const struct binding_terms terms = {
        .signer = signs ? &signer : NULL, .request = how.request, .version = how.version};
    const int rc = binding_encode(&action->body, allocation, node, &terms, err);
    if (rc < 0) {
        writer_action_done(action);
        writer->after_commit.n_actions--;
    }
    return rc;
}

void writer_queue_advertise(struct writer *writer, const struct inventory *inventory,
                            const struct node_facts *facts)
{
    must(inventory->advertise_milli <= GPUS_PER_NODE_MAX * GPU_MILLI);

    if (inventory->advertise_milli == 0)
        return;
    const struct node *node = ledger_node(writer->ledger, text_of(facts->name));
    const uint64_t held = node != NULL ? node_held_milli(node) : 0;
    const uint64_t wanted = held > inventory->advertise_milli ? held : inventory->advertise_milli;
    int64_t shown;
    /* Skip writes without a change, which would cost a request for each event of each node. */
    if (facts->capacity_milli != NULL &&
        quantity_parse(text_of(facts->capacity_milli), 0, &shown) == QUANTITY_OK &&
        shown == (int64_t)wanted)
        return;
    struct post_commit_action *action = add_action(writer);
    action->kind = ACTION_ADVERTISE;
    action->uid = xstrdup(facts->name);
    action->milli = wanted < UINT32_MAX ? (uint32_t)wanted : UINT32_MAX;
}

void writer_run_actions(struct writer *writer)
{
    must(!writer->batch.open);

    for (size_t i = 0; i < writer->after_commit.n_actions; i++) {
        struct post_commit_action *action = &writer->after_commit.action[i];
        if (action->kind == ACTION_BIND) {
            const struct outbox_binding binding = {.uid = action->uid,
                                                   .namespace = action->namespace,
                                                   .name = action->name,
                                                   .node = action->node,
                                                   .body = {action->body.data, action->body.len},
                                                   .version = action->version,
                                                   .deadline_ms = action->deadline_ms,
                                                   .sending = action->sending};
            /* The outbox copies the Binding, and its thread sends it. */
            outbox_bind(writer->app->outbox, &binding);
        } else {
            outbox_advertise(writer->app->outbox, action->uid, action->milli);
        }
        writer_action_done(action);
    }
    writer->after_commit.n_actions = 0;
}

void writer_drop_actions(struct writer *writer)
{
    must(!writer->batch.open);

    char text[ERR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "the ledger cannot be written: %.400s",
                   writer->batch.err.text);
    for (size_t i = 0; i < writer->after_commit.n_actions; i++) {
        if (writer->after_commit.action[i].kind == ACTION_BIND)
            inflight_end(writer, writer->after_commit.action[i].uid, text);
        writer_action_done(&writer->after_commit.action[i]);
    }
    writer->after_commit.n_actions = 0;
}
