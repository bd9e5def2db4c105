/*
 * agents - the verdict for each node: does its agent vouch for its GPUs?
 *
 *   pods of agents: Ready, on which node --------\
 *   Node: annotation milligpu.io/agent, boot id --+--> agents_check() --> node->vouch
 *   settings: which nodes need an agent ---------/
 *
 * An agent is Ready only while its node's GPUs may be granted (docs/NODE.md), and kubelet and the
 * node controller clear Ready when the agent or its machine is gone. So no clock is needed here,
 * and a slow or unreachable API server changes no verdict. Only the pod that the Node's annotation
 * names counts, for the same Node object and boot: tenants can write neither.
 *
 * An agent vouches for the GPUs that it listed by UUID. If it listed none, GPUs known from labels
 * or an amount take no shares, because an agent assigns no GPU by index.
 *
 * A node needs an agent once one vouched for it or listed its GPUs and, with
 * REQUIRE_WHERE_SELECTED, once any agent was seen in the cluster, if the Node has the label. This
 * memory is stored (store.h).
 *
 * The table has one entry for each Node with such an annotation, the label, or an agent pod. Pure;
 * the writer's thread.
 */
#ifndef MILLIGPU_AGENTS_H
#define MILLIGPU_AGENTS_H

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/pod.h"

/* id, word, help. Verdicts from VOUCH_LEAVING on close the node for new shares. */
#define VOUCH_TABLE(X)                                                                             \
    X(VOUCH_NONE, "none", "no agent is needed here")                                               \
    X(VOUCH_GOOD, "vouched", "its agent is Ready")                                                 \
    X(VOUCH_LEAVING, "leaving", "its agent was told to let go of the GPUs")                        \
    X(VOUCH_NO_AGENT, "no_agent", "no agent has written to the Node yet")                          \
    X(VOUCH_UNNAMED, "unnamed", "its agent does not say which pod it is")                          \
    X(VOUCH_GONE, "gone", "the pod of its agent is gone")                                          \
    X(VOUCH_NOT_READY, "not_ready", "the pod of its agent is not Ready")                           \
    X(VOUCH_OTHER_NODE, "other_node",                                                              \
      "milligpu.io/agent was written to another Node: an earlier one of this name, or one that "   \
      "was copied")                                                                                \
    X(VOUCH_OTHER_BOOT, "other_boot",                                                              \
      "its agent runs on another boot than kubelet: the machine "                                  \
      "has just booted, or two machines have one name")                                            \
    X(VOUCH_CLONED, "cloned", "two pods of agents are Ready here")                                 \
    X(VOUCH_NO_GPUS, "no_gpus", "its agent has not named its GPUs yet")

enum vouch {
#define X(id, word, help) id,
    VOUCH_TABLE(X)
#undef X
        VOUCHES
};

const char *vouch_name(enum vouch vouch);
const char *vouch_help(enum vouch vouch);

/* Does this verdict close the node for new shares? */
static inline bool vouch_closes(enum vouch vouch)
{
    return vouch >= VOUCH_LEAVING;
}

enum agents_required { REQUIRE_WHERE_SELECTED, REQUIRE_ALWAYS, REQUIRE_NEVER };

struct agents_rules {
    enum agents_required required;
    /* setting agents: agents run outside of pods, so an annotation is enough */
    bool by_annotation;
    /* label of the Nodes that need an agent, borrowed; key "": none */
    struct text key;
    struct text value;
};

struct agents;

struct agents *agents_new(const struct agents_rules *rules) MUST_USE;
void agents_free(struct agents *agents); /* NULL is fine */

/* Was the Node's agent uninstalled? If so, the node needs none, except with REQUIRE_ALWAYS. */
bool agent_is_uninstalled(const struct node_facts *facts);

/*
 * Record a Node, a bound agent pod, or their deletion, from the watch. Strings are copied. Returns
 * true if it is the first agent of the cluster, so that every node must be checked again; else only
 * this node.
 */
bool agents_see_node(struct agents *agents, const struct node_facts *facts);
void agents_node_gone(struct agents *agents, struct text node);
/* Begins a list of Nodes. Nodes that are not shown before its end are gone. */
void agents_begin_nodes(struct agents *agents);
void agents_end_nodes(struct agents *agents);
bool agents_see_pod(struct agents *agents, const struct pod *pod);
/* Returns false if it was no agent pod. */
bool agents_pod_gone(struct agents *agents, struct text node, struct text uid);

enum vouch agents_check(const struct agents *agents, struct text node);

/*
 * Did an agent list this Node's GPUs, and does the Node no longer show the list? The GPUs then
 * stay, and labels do not replace them. False after an agent was uninstalled.
 */
bool agents_lost_gpus(const struct agents *agents, const struct node_facts *facts);

/* The stored state of a node. */
struct agent_memory {
    const char *node;
    const char *uid; /* of the Node object */
    bool named_gpus; /* an agent listed its GPUs by UUID */
    bool vouched;    /* an agent pod vouched for it */
};

/* Restore from the store, before the first event. */
void agents_remember_seen(struct agents *agents);
void agents_remember(struct agents *agents, const struct agent_memory *memory);

/* Was an agent ever seen in this cluster? */
bool agents_seen(const struct agents *agents);
/*
 * Iterates over the states that changed since they were stored. Start with *at = 0; returns false
 * at the end. *out is valid until the next call; with both flags false, delete the stored state.
 * agents_stored() drops the first count states from the list.
 */
bool agents_next_changed(const struct agents *agents, size_t *at, struct agent_memory *out);
void agents_stored(struct agents *agents, size_t count);

size_t agents_count(const struct agents *agents); /* entries */

#endif
