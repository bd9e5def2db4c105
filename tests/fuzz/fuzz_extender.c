/* Any body of a webhook is read or refused, and what is read can be answered. */
#include <string.h>

#include "milligpu/wire_extender.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct wire_rules rules = {"nvidia.com/vgpu", "nvidia.com/gpu"};

static void answer_args(struct text body, struct arena *arena, struct strbuf *out)
{
    struct extender_args args;
    struct err err;
    if (extender_args_decode(body, &rules, arena, &args, &err) != 0)
        return;
    uint32_t *choice = arena_array(arena, args.names, sizeof *choice);
    uint8_t *score = arena_array(arena, args.names, sizeof *score);
    for (uint32_t i = 0; i < args.names; i++) {
        choice[i] = args.names - 1 - i;
        score[i] = (uint8_t)(args.hash[i] % 11);
    }
    const struct extender_filter_result result = {.chosen = args.names, .choice = choice};
    extender_filter_encode(out, &args, &result);
    extender_priorities_encode(out, &args, score);
}

static void answer_preempt(struct text body, struct arena *arena, struct strbuf *out)
{
    struct extender_preempt args;
    struct err err;
    if (extender_preempt_decode(body, &rules, arena, &args, &err) != 0)
        return;
    bool *keep = arena_array(arena, args.nodes, sizeof *keep);
    for (uint32_t i = 0; i < args.nodes; i++)
        keep[i] = true;
    extender_preempt_encode(out, &args, keep);
    must(out->len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text body = {(const char *)data, size};
    struct arena arena;
    struct extender_bind bind;
    struct err err;
    CLEANUP(strbuf_done) struct strbuf out;
    arena_init(&arena);
    strbuf_init(&out);
    answer_args(body, &arena, &out);
    answer_preempt(body, &arena, &out);
    if (extender_bind_decode(body, &arena, &bind, &err) == 0)
        must(strlen(bind.uid) > 0 && strlen(bind.node) > 0);
    arena_done(&arena);
    return 0;
}
