/*
 * node_digests - which Nodes the watch showed last, so that a heartbeat costs nothing but a look.
 *
 *   informer --remember, has--> [ table ] <--forget-- writer
 *
 * A watch event of a Node that equals the last one, except in what node_digest() leaves out, needs
 * no handling: handling it again would change nothing (invariant I7 of docs/ARCHITECTURE.md). That
 * holds only while the ledger's node is as the last handling left it. So the writer forgets the
 * digest with each change of a node, for any reason, and where it left something undone that the
 * next event would repair. The informer forgets it at a deletion, and all digests when a list
 * begins. The rules of decoding change with a restart only; a new policy needs no Node, because the
 * ledger has the labels.
 *
 * The informer remembers an event before it puts the message, so that a forget() by the handling of
 * that message always comes later. A lost batch keeps its messages, so it forgets nothing.
 *
 * One slot of 16 bytes for each Node, and at most NODES_MAX Nodes: 2 MiB. If the table is full, a
 * Node is not remembered, and each of its events is handled. One lock guards the table; it is held
 * for a look-up, and now and then to build a larger table.
 */
#ifndef MILLIGPU_NODE_DIGESTS_H
#define MILLIGPU_NODE_DIGESTS_H

#include "milligpu/wire/kube/wire_kube.h"

struct node_digests;

/* key: random, and secret: it is what makes digests trustworthy. */
struct node_digests *node_digests_new(const struct siphash_key *key) MUST_USE;
void node_digests_free(struct node_digests *digests); /* NULL is fine */

const struct siphash_key *node_digests_key(const struct node_digests *digests);

/* Called by the informer. */
bool node_digests_has(struct node_digests *digests, const struct node_digest *digest);
void node_digests_remember(struct node_digests *digests, const struct node_digest *digest);
void node_digests_clear(struct node_digests *digests);

/* The next event of this Node is handled. Any thread. */
void node_digests_forget(struct node_digests *digests, struct text name);

#endif
