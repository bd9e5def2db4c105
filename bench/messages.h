/*
 * messages - what the informer, the webhooks and the outbox send to the writer, made from the
 * objects of cluster.h. Each pod that is made is newer than those before.
 */
#ifndef MILLIGPU_BENCH_MESSAGES_H
#define MILLIGPU_BENCH_MESSAGES_H

#include "milligpu/spine/message.h"

struct message *message_of_pod(enum message_kind kind, uint32_t pod, const char *node,
                               const char *amount) MUST_USE;
/* A message of a list: the pod is bound. */
struct message *message_of_listed(const struct allocation *allocation,
                                  const struct node *node) MUST_USE;
/* cordon: the annotation, or NULL. */
struct message *message_of_node(enum message_kind kind, uint32_t node, const char *cordon) MUST_USE;
/* The scheduler wants the pod on this node until 30 s after now_ms. */
struct message *message_of_bind(uint32_t pod, uint32_t node, int64_t now_ms,
                                struct bind_reply reply) MUST_USE;
/* For the latest pod. */
struct message *message_of_outcome(uint32_t pod, enum bind_outcome outcome) MUST_USE;

#endif
