/*
 * plan_text - a plan of moves as text: "a n1/0 n2/0 +1000; b n2/1,n2/2 n3/0,n3/1 +600".
 */
#ifndef MILLIGPU_TESTS_PLAN_TEXT_H
#define MILLIGPU_TESTS_PLAN_TEXT_H

#include "milligpu/base/strbuf.h"
#include "milligpu/core/answer/defrag.h"

/* Adds a move to the text; the nodes have the pod, or had it. */
void plan_text_move(struct strbuf *out, const struct allocation *from, const struct node *from_node,
                    const struct allocation *to, const struct node *to_node, uint32_t gain_milli);
void plan_text(struct strbuf *out, const struct defrag_plan *plan);

#endif
