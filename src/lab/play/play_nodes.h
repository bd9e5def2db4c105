/*
 * play_nodes - the nodes of the standalone cluster with the amounts that their pods request.
 *
 * Read once, before the first pod; pods that play places are added. One thread.
 */
#ifndef MILLIGPU_LAB_PLAY_NODES_H
#define MILLIGPU_LAB_PLAY_NODES_H

#include "milligpu/base/map.h"

#include "ctl/client.h"
#include "lab/cluster/nodefit.h"
#include "lab/cluster/reasons.h"

struct play_nodes {
    struct arena *arena;
    struct fit_node **node; /* sorted by name */
    size_t count;
    size_t capacity;
    struct map by_name;
};

void play_nodes_init(struct play_nodes *nodes, struct arena *arena);
void play_nodes_done(struct play_nodes *nodes);

/* base: address of the admin listener. */
int play_nodes_fetch(struct play_nodes *nodes, struct client *client, const char *base,
                     struct err *err) MUST_USE;
/* Both copy from their document: a Node, and a Pod, which is ignored if it is not on a node. */
int play_nodes_add(struct play_nodes *nodes, const struct document *node, struct err *err) MUST_USE;
int play_nodes_run(struct play_nodes *nodes, const struct document *pod, struct err *err) MUST_USE;

/* The names of the nodes on which the pod fits; adds the reasons of the others to reasons. */
struct document *play_nodes_feasible(const struct play_nodes *nodes, const struct fit_pod *pod,
                                     const char *managed, struct node_reasons *reasons) MUST_USE;
/* Sets *out to the nodes whose labels and taints permit the pod, in arena; returns their number. */
size_t play_nodes_matching(const struct play_nodes *nodes, const struct fit_pod *pod,
                           struct arena *arena, const char *const **out);
/* True if a node has a taint PreferNoSchedule that the pod does not tolerate. */
bool play_nodes_avoided(const struct play_nodes *nodes, const struct fit_pod *pod);
/* Adds the pod to this node. */
void play_nodes_take(struct play_nodes *nodes, const char *name, const struct fit_pod *pod);

#endif
