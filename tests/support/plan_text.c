#include "support/plan_text.h"

static void add_place(struct strbuf *out, const struct allocation *pod, const struct node *node)
{
    for (uint32_t i = 0; i < pod->n_charges; i++) {
        const struct gpu *gpu = node_gpu(node, atom_text(allocation_charge(pod, i).gpu));
        must(gpu != NULL);
        strbuf_printf(out, "%s%s/%d", i > 0 ? "," : " ", node->name->text, gpu->index);
    }
}

void plan_text_move(struct strbuf *out, const struct allocation *from, const struct node *from_node,
                    const struct allocation *to, const struct node *to_node, uint32_t gain_milli)
{
    strbuf_printf(out, "%s%s", out->len > 0 ? "; " : "", from->facts.uid);
    add_place(out, from, from_node);
    add_place(out, to, to_node);
    strbuf_printf(out, " +%u", gain_milli);
}

void plan_text(struct strbuf *out, const struct defrag_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_moves; i++) {
        const struct defrag_move *move = &plan->move[i];
        plan_text_move(out, move->from, move->from_node, move->to, move->to_node, move->gain_milli);
    }
}
