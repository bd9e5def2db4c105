/*
 * agents - which nodes their agents vouch for.
 *
 *   pods of agents: Ready, on which node --------\
 *   Node: annotation milligpu.io/agent, boot id --+--> agents_check() --> node->vouch
 *   settings: which nodes need an agent ---------/
 *
 * An agent is Ready only while its node's GPUs may be handed out (docs/NODE.md), and kubelet and
 * the node controller turn Ready off when it, or its machine, is gone. So no clock is needed here,
 * and an API server that is slow or away changes nothing. The pod counts that the Node's annotation
 * names, for this very Node object and boot: tenants can write neither.
 *
 * An agent vouches for the GPUs that it named by UUIDs. Where it named none, those of labels or of
 * an amount take no shares, because it gives no container a GPU by a number.
 *
 * A node needs an agent once one vouched for it or named its GPUs and, with REQUIRE_WHERE_SELECTED,
 * once any agent was seen in the cluster, if the Node has the label. What is remembered outlives a
 * restart (store.h).
 *
 * One entry for each Node that has such an annotation, the label, or a pod of an agent. Pure; the
 * writer's thread.
 */
#ifndef MILLIGPU_AGENTS_H
#define MILLIGPU_AGENTS_H

#include "milligpu/core/facts/inventory.h"
#include "milligpu/core/facts/pod.h"

/* id, word, help. Those from VOUCH_LEAVING on close the node for new shares. */
#define VOUCH_TABLE(X)                                                                             \
    X(VOUCH_NONE, "none", "no agent is needed here")                                               \
    X(VOUCH_GOOD, "vouched", "its agent is Ready")                                                 \
    X(VOUCH_LEAVING, "leaving", "its agent was told to let go of the GPUs")                        \
    X(VOUCH_NO_AGENT, "no_agent", "no agent has written to the Node yet")                          \
    X(VOUCH_UNNAMED, "unnamed", "its agent does not say which pod it is")                          \
    X(VOUCH_GONE, "gone", "the pod of its agent is gone")                                          \
    X(VOUCH_NOT_READY, "not_ready", "the pod of its agent is not Ready")                           \
    X(VOUCH_OTHER_NODE, "other_node", "its agent wrote to an earlier Node of this name")           \
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

/* Does the node take no new shares for this reason? */
static inline bool vouch_closes(enum vouch vouch)
{
    return vouch >= VOUCH_LEAVING;
}

enum agents_required { REQUIRE_WHERE_SELECTED, REQUIRE_ALWAYS, REQUIRE_NEVER };

struct agents_rules {
    enum agents_required required;
    /* The setting agents: an annotation is enough, since agents run outside of pods. */
    bool by_annotation;
    /* The label of Nodes that need one; key "": none. Borrowed. */
    struct text key;
    struct text value;
};

struct agents;

struct agents *agents_new(const struct agents_rules *rules) MUST_USE;
void agents_free(struct agents *agents); /* NULL is fine */

/* Has the agent of the Node been uninstalled? Then the node needs none, unless all nodes do. */
bool agent_is_uninstalled(const struct node_facts *facts);

/*
 * The watch shows a Node, a bound pod of an agent, or their end. Strings are copied. True: it was
 * the first agent of the cluster, so every node has to be judged anew; else only this one.
 */
bool agents_see_node(struct agents *agents, const struct node_facts *facts);
void agents_node_gone(struct agents *agents, struct text node);
/* A list of Nodes begins. Those that are not shown before its end are gone. */
void agents_begin_nodes(struct agents *agents);
void agents_end_nodes(struct agents *agents);
bool agents_see_pod(struct agents *agents, const struct pod *pod);
/* False: it was no agent's. */
bool agents_pod_gone(struct agents *agents, struct text node, struct text uid);

enum vouch agents_check(const struct agents *agents, struct text node);

/*
 * Did an agent name this Node's GPUs, and does the Node not show them any more? Then they stay, and
 * labels do not count in their place. Not after an agent was uninstalled.
 */
bool agents_lost_gpus(const struct agents *agents, const struct node_facts *facts);

/* A node as it is remembered. */
struct agent_memory {
    const char *node;
    const char *uid; /* of the Node object */
    bool named_gpus; /* an agent named its GPUs by UUIDs */
    bool vouched;    /* a pod of an agent vouched for it */
};

/* From the store, before anything is seen. */
void agents_remember_seen(struct agents *agents);
void agents_remember(struct agents *agents, const struct agent_memory *memory);

/* Was any agent ever seen in this cluster? */
bool agents_seen(const struct agents *agents);
/*
 * The memories that changed since they were stored: *at starts at 0; false at the end. With both
 * false nothing is remembered of the node. Borrowed until the next call. agents_stored() drops the
 * first of them.
 */
bool agents_next_changed(const struct agents *agents, size_t *at, struct agent_memory *out);
void agents_stored(struct agents *agents, size_t count);

size_t agents_count(const struct agents *agents); /* entries */

#endif
