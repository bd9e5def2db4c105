/*
 * vouched - which nodes take new shares, by a table of the oracle's own.
 *
 *   a decision    of the writer: in a state of the Node and of the pods that milligpud may have
 *                 known then, the node was vouched, or needed no agent
 *   a snapshot    shows of each node what the states say that were delivered last, once the writer
 *                 has applied all of them
 *   all is quiet  milligpud's table has an entry for each node with an agent, and for no other
 *
 * An agent that has named no GPU of this Node vouches for none.
 *
 * A Node without annotations needs an agent if one vouched for it or named its GPUs. What of that
 * milligpud must know is what it was shown since its start, or had stored; what it may know is all
 * that ever was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "sim_run.h"

enum { NOBODY = 1, VOUCHED = 2, LEAVING = 4, CLOSED = 8, OPEN = NOBODY | VOUCHED };

static struct vouch_table *table_of(struct sim *sim, const struct model_node *node)
{
    return &sim->vouched[node - sim->model.node];
}

static const struct vouch_table *looked_at(const struct sim *sim, const struct model_node *node)
{
    return &sim->vouched[node - sim->model.node];
}

/* --- what the API server has --- */

static void copy(char *out, size_t bytes, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    (void)snprintf(out, bytes, "%s", text != NULL ? text : "");
}

static void read_claim(const json_t *note, struct vouch_claim *out)
{
    json_t *said = json_loads(json_string_value(note), 0, NULL);
    const json_t *pod = json_object_get(said, "pod");

    copy(out->pod, sizeof out->pod, pod, "uid");
    copy(out->node, sizeof out->node, pod, "node");
    copy(out->boot, sizeof out->boot, pod, "boot");
    copy(out->leaving, sizeof out->leaving, said, "leaving");
    json_decref(said);
}

static void read_word(const json_t *object, struct vouch_word *out)
{
    const json_t *meta = json_object_get(object, "metadata");
    const json_t *notes = json_object_get(meta, "annotations");
    const json_t *note = json_object_get(notes, "milligpu.io/agent");
    const char *gpus = json_string_value(json_object_get(notes, "milligpu.io/gpus"));
    const char *label = json_string_value(
        json_object_get(json_object_get(meta, "labels"), "nvidia.com/gpu.present"));

    out->there = object != NULL;
    out->selected = label != NULL && strcmp(label, "true") == 0;
    out->named = note != NULL;
    out->gpus = gpus != NULL && strstr(gpus, "uuid") != NULL;
    copy(out->uid, sizeof out->uid, meta, "uid");
    copy(out->boot, sizeof out->boot,
         json_object_get(json_object_get(object, "status"), "nodeInfo"), "bootID");
    if (json_is_string(note))
        read_claim(note, &out->claim);
}

void vouched_node_is(struct sim *sim, const struct model_node *node, uint64_t version)
{
    struct vouch_table *table = table_of(sim, node);
    char path[64];

    if (!sim->rules.agents)
        return;
    (void)snprintf(path, sizeof path, "/api/v1/nodes/%s", node->name);
    json_t *object = model_fetch(sim, path);
    table->word = xgrow(table->word, table->n_words, &table->word_capacity, sizeof *table->word);
    struct vouch_word *word = &table->word[table->n_words++];
    *word = (struct vouch_word){.version = version};
    read_word(object, word);
    json_decref(object);
    sim->agent_seen = sim->agent_seen || word->named;
}

void vouched_pods_are(struct sim *sim, const struct model_node *node, uint64_t version)
{
    struct vouch_table *table = table_of(sim, node);

    table->pods = xgrow(table->pods, table->changes, &table->pod_capacity, sizeof *table->pods);
    struct vouch_pods *pods = &table->pods[table->changes++];
    *pods = (struct vouch_pods){.version = version};
    for (uint32_t i = 0; i < VOUCH_PODS; i++) {
        const struct vouch_pod *pod = &sim->vouch[node - sim->model.node].pod[i];
        if (!pod->there)
            continue;
        memcpy(pods->uid[pods->pods], pod->uid, sizeof pod->uid);
        pods->serves[pods->pods] = pod->ready && !pod->terminating;
        pods->serving += pods->serves[pods->pods++] ? 1 : 0;
    }
    if (pods->serving == 1)
        wakes_vouched(sim);
    sim->changes++;
    sim->agent_seen = true;
}

void vouched_end(struct sim *sim)
{
    for (uint32_t n = 0; n < MODEL_NODES; n++) {
        xfree(sim->vouched[n].word);
        xfree(sim->vouched[n].pods);
    }
}

/* --- what that means --- */

static bool differ(const char *said, const char *is)
{
    return said[0] != '\0' && is[0] != '\0' && strcmp(said, is) != 0;
}

/* Did an agent ever name GPUs of this Node object, or may its pod have vouched for it? */
static bool may_remember(const struct vouch_table *table, const struct vouch_word *now, bool pods)
{
    for (size_t i = 0; i < table->n_words; i++) {
        const struct vouch_word *word = &table->word[i];
        if (word->named && strcmp(word->uid, now->uid) == 0 &&
            (pods ? word->claim.pod[0] != '\0' : word->gpus || word->claim.pod[0] != '\0'))
            return true;
    }
    return false;
}

static bool must_remember(const struct vouch_table *table, const struct vouch_word *now, bool pods)
{
    return strcmp(table->sure.uid, now->uid) == 0 &&
           (table->sure.vouched || (!pods && table->sure.named_gpus));
}

static unsigned either(bool surely, bool maybe)
{
    return surely ? CLOSED : maybe ? CLOSED | NOBODY : NOBODY;
}

static bool is_uninstalled(const struct vouch_word *word)
{
    return word->named && strcmp(word->claim.leaving, "uninstalled") == 0;
}

static unsigned check_claim(const struct vouch_word *word, const struct vouch_pods *pods)
{
    if (differ(word->claim.node, word->uid) || differ(word->claim.boot, word->boot))
        return CLOSED;
    for (uint32_t i = 0; pods != NULL && i < pods->pods; i++)
        if (strcmp(pods->uid[i], word->claim.pod) == 0)
            return pods->serves[i] && pods->serving == 1 ? VOUCHED : CLOSED;
    return CLOSED;
}

/* About the same Node, at any time. */
static bool may_have_named(const struct vouch_table *table, const struct vouch_word *now)
{
    for (size_t i = 0; i < table->n_words; i++)
        if (table->word[i].named && table->word[i].gpus &&
            strcmp(table->word[i].uid, now->uid) == 0)
            return true;
    return false;
}

/* Nobody vouches for numbers. */
static unsigned check_gpus(const struct vouch_table *table, const struct vouch_word *word,
                           unsigned bits)
{
    if ((bits & OPEN) == 0 || word->gpus ||
        (table->sure.named_gpus && strcmp(table->sure.uid, word->uid) == 0))
        return bits;
    return may_have_named(table, word) ? bits | CLOSED : CLOSED;
}

/* pods NULL: there never was one. */
static unsigned check(const struct sim *sim, const struct vouch_table *table,
                      const struct vouch_word *word, const struct vouch_pods *pods)
{
    const bool always = sim->rules.required == REQUIRE_ALWAYS;

    if (sim->rules.required == REQUIRE_NEVER || !word->there)
        return NOBODY;
    if (is_uninstalled(word))
        return always ? CLOSED : NOBODY;
    if (word->named && word->claim.leaving[0] != '\0')
        return LEAVING;
    if (!word->named)
        return either(always || (word->selected && sim->agent_known) ||
                          must_remember(table, word, false),
                      (word->selected && sim->agent_seen) || may_remember(table, word, false));
    if (sim->rules.by_annotation)
        return check_gpus(table, word, NOBODY);
    if (word->claim.pod[0] == '\0')
        return check_gpus(
            table, word, either(must_remember(table, word, true), may_remember(table, word, true)));
    return check_gpus(table, word, check_claim(word, pods));
}

/* In any of the states that milligpud may have known. */
static unsigned could_be(const struct sim *sim, const struct vouch_table *table)
{
    const struct sim_daemon *daemon = &sim->daemon;
    unsigned bits = 0;
    size_t w = 0;
    size_t first = 0;

    while (w + 1 < table->n_words && table->word[w + 1].version <= daemon->applied_nodes)
        w++;
    while (first + 1 < table->changes && table->pods[first + 1].version <= daemon->applied_pods)
        first++;
    for (size_t from = w; w < table->n_words; w++) {
        if (w > from && table->word[w].version > daemon->told_nodes)
            break;
        /* Before the first one there was none. */
        if (table->changes == 0 || table->pods[first].version > daemon->applied_pods)
            bits |= check(sim, table, &table->word[w], NULL);
        for (size_t p = first; p < table->changes; p++)
            if (p == first || table->pods[p].version <= daemon->told_pods)
                bits |= check(sim, table, &table->word[w], &table->pods[p]);
    }
    return bits;
}

int vouched_fit(const struct sim *sim, const struct model_node *node)
{
    const struct vouch_table *table = looked_at(sim, node);

    if (!sim->rules.agents || table->n_words == 0)
        return FIT_YES;
    const unsigned is = check(sim, table, &table->word[table->n_words - 1],
                              table->changes > 0 ? &table->pods[table->changes - 1] : NULL);
    if ((is & OPEN) == 0)
        return FIT_NO;
    return (is & CLOSED) != 0 ? FIT_UNSURE : FIT_YES;
}

/* Its agent has named the GPUs of the Node that is there in every state that may be known. */
static bool must_name(const struct vouch_table *table)
{
    const struct vouch_word *word = &table->word[table->n_words - 1];

    return table->sure.named_gpus && strcmp(table->sure.uid, word->uid) == 0;
}

static void oracle_named(const struct sim *sim, const struct allocation *granted)
{
    for (uint32_t i = 0; i < granted->facts.n_shares; i++)
        if (strncmp(granted->facts.share[i].gpu->text, "GPU-", 4) != 0)
            sim_violation(sim, "%s is granted %s, and an agent has named the GPUs of %s",
                          granted->facts.name, granted->facts.share[i].gpu->text,
                          granted->facts.node->text);
}

void vouched_reserved(struct sim *sim, const struct allocation *granted)
{
    const struct model_node *node = model_node(&sim->model, granted->facts.node->text);

    if (!sim->rules.agents || node == NULL || (node->was_odd && !node->by_agent) ||
        granted->facts.n_shares == 0)
        return;
    const unsigned bits = could_be(sim, looked_at(sim, node));
    if ((bits & OPEN) == 0)
        sim_violation(sim, "a share of %s is granted, and nothing that was shown vouches for it",
                      node->name);
    if (must_name(looked_at(sim, node)))
        oracle_named(sim, granted);
    if ((bits & VOUCHED) != 0)
        sim_met("vouch/grant");
    else if (sim->rules.vouches)
        sim_met("vouch/grant_%s", sim->rules.required == REQUIRE_NEVER ? "never"
                                  : sim->rules.by_annotation           ? "by_annotation"
                                                                       : "unneeded");
}

/* --- what is shown --- */

/*
 * Facts that milligpud must remember from now on. A report since the last judgement may have ended
 * them.
 */
static void remember(const struct sim *sim, struct vouch_table *table,
                     const struct vouch_word *word, unsigned is)
{
    for (size_t i = table->n_words; i > 0 && table->word[i - 1].version > table->judged; i--)
        if (!table->word[i - 1].there || is_uninstalled(&table->word[i - 1]))
            table->sure.uid[0] = '\0';
    table->judged = sim->daemon.applied_nodes;
    if (!word->there || strcmp(table->sure.uid, word->uid) != 0) {
        table->sure = (struct vouch_memory){.named_gpus = false};
        memcpy(table->sure.uid, word->uid, sizeof word->uid);
    }
    table->sure.named_gpus =
        table->sure.named_gpus || (word->named && word->gpus && !is_uninstalled(word));
    table->sure.vouched = table->sure.vouched || is == VOUCHED;
}

static void oracle_word(const struct sim *sim, const struct model_node *node, enum vouch vouch,
                        unsigned bits)
{
    const unsigned shown = vouch == VOUCH_NONE      ? NOBODY
                           : vouch == VOUCH_GOOD    ? VOUCHED
                           : vouch == VOUCH_LEAVING ? LEAVING
                                                    : CLOSED;

    sim_met("vouch/is_%s", vouch_name(vouch));
    if ((shown & bits) == 0)
        sim_violation(sim, "node %s is shown as %s, what was delivered says otherwise (%x)",
                      node->name, vouch_name(vouch), bits);
}

/* The last state that was delivered. */
static const struct vouch_word *last_told(const struct sim *sim, const struct vouch_table *table)
{
    size_t w = 0;

    while (w + 1 < table->n_words && table->word[w + 1].version <= sim->daemon.told_nodes)
        w++;
    return &table->word[w];
}

void oracle_vouched(struct sim *sim, const struct snapshot *snapshot)
{
    if (!sim->rules.agents || sim->daemon.disk_heals_ms != 0)
        return;
    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct model_node *node = &sim->model.node[n];
        struct vouch_table *table = table_of(sim, node);
        const struct node *shown = snapshot_node(snapshot, text_of(node->name));
        if (table->n_words == 0 || (node->was_odd && !node->by_agent))
            continue;
        const unsigned bits = could_be(sim, table);
        if (shown != NULL)
            oracle_word(sim, node, shown->vouch, bits);
        const struct vouch_word *word = last_told(sim, table);
        sim->agent_known =
            sim->agent_known || (word->there && word->named && !is_uninstalled(word));
        remember(sim, table, word, bits);
    }
}

/* --- what outlives a milligpud --- */

void vouched_loaded(struct sim *sim)
{
    sim->agent_known = sim->agent_kept;
    if (sim->rules.vouches && sim->agent_kept)
        sim_met("vouch/restart");
    for (uint32_t n = 0; n < MODEL_NODES; n++) {
        sim->vouched[n].sure = sim->vouched[n].kept;
        sim->vouched[n].judged = 0;
    }
}

void vouched_lost(struct sim *sim)
{
    if (sim->rules.vouches && sim->agent_kept)
        sim_met("vouch/forgotten");
    sim->agent_kept = false;
    for (uint32_t n = 0; n < MODEL_NODES; n++)
        sim->vouched[n].kept = (struct vouch_memory){.named_gpus = false};
}

/* A write that failed, or died with its process, may have been kept or not. */
void vouched_stored(struct sim *sim, const struct agents *agents, size_t count, bool stored)
{
    struct agent_memory memory;
    size_t at = 0;

    while ((!stored || at < count) && agents_next_changed(agents, &at, &memory)) {
        const struct model_node *node = model_node(&sim->model, memory.node);
        if (node == NULL)
            continue;
        struct vouch_memory *kept = &table_of(sim, node)->kept;
        *kept = (struct vouch_memory){.named_gpus = stored && memory.named_gpus,
                                      .vouched = stored && memory.vouched};
        (void)snprintf(kept->uid, sizeof kept->uid, "%s", memory.uid);
    }
    if (stored && count == 0 && sim->agent_kept)
        sim_violation(sim, "what is known of agents is stored, and nothing of it is new");
    sim->agent_kept = sim->agent_kept || (stored && agents_seen(agents));
    if (stored)
        sim_met("vouch/stored");
}

bool vouched_is_kept(const struct sim *sim, const struct model_node *node)
{
    const struct vouch_table *table = looked_at(sim, node);

    return table->n_words > 0 && !sim->rules.loses && table->kept.named_gpus &&
           strcmp(table->kept.uid, table->word[table->n_words - 1].uid) == 0;
}

/* --- entries --- */

size_t vouched_pods(const struct sim *sim)
{
    size_t count = 0;

    for (uint32_t n = 0; n < MODEL_NODES; n++) {
        const struct vouch_table *table = &sim->vouched[n];
        count += table->changes > 0 ? table->pods[table->changes - 1].pods : 0;
    }
    return count;
}

static size_t entries(const struct sim *sim, bool maybe)
{
    size_t count = 0;

    for (uint32_t n = 0; n < sim->model.n_nodes; n++) {
        const struct vouch_table *table = &sim->vouched[n];
        if (table->n_words == 0)
            continue;
        const struct vouch_word *word = &table->word[table->n_words - 1];
        const bool pods = table->changes > 0 && table->pods[table->changes - 1].pods > 0;
        const bool says = word->there && (word->selected || word->named) && !is_uninstalled(word);
        count += pods || says || (maybe && word->there && may_remember(table, word, false)) ||
                         (maybe && sim->model.node[n].was_odd)
                     ? 1
                     : 0;
    }
    return count;
}

size_t vouched_least(const struct sim *sim)
{
    return entries(sim, false);
}

size_t vouched_most(const struct sim *sim)
{
    return sim->rules.agents ? entries(sim, true) : sim->model.n_nodes;
}
