/*
 * wire_extender - decodes and encodes the bodies of kube-scheduler's extender v1 protocol.
 *
 * Keys match exactly first, then case-insensitively, as in Go; a known key that occurs twice, in
 * any spelling, is an error. Answers use the exact capitalised names. Sources: reference of
 * k8s.io/kube-scheduler/extender/v1; recorded bytes in tests/golden.
 *
 * Scores are 0 .. 10 here and nowhere else. Pure.
 */
#ifndef MILLIGPU_WIRE_EXTENDER_H
#define MILLIGPU_WIRE_EXTENDER_H

#include "milligpu/core/node/name_order.h"
#include "milligpu/wire/kube/wire_kube.h"

/* ExtenderArgs of filter and prioritize. */
struct extender_args {
    struct pod pod;
    bool full_nodes; /* the body has Nodes instead of NodeNames, and so has the answer */
    /* Arrays of names elements in the arena; NULL: node and node_bytes unless full_nodes. */
    uint32_t n_names;
    struct text *name;        /* distinct */
    uint32_t *hash;           /* text_hash() of name[] */
    struct known_node *known; /* of name[] in the snapshot of the name_order; NULL: not looked up */
    struct node_facts *node;
    struct text *node_bytes; /* the objects as sent */
};
/*
 * order: guesses NodeNames, and looks them up in the snapshot that it was begun with; NULL: without
 * guesses. The result is the same, except for known[].
 */
int extender_args_decode(struct text body, const struct wire_rules *rules, struct name_order *order,
                         struct arena *arena, struct extender_args *out, struct err *err) MUST_USE;

/* One refused node, or one that stands for a group with the same text. */
struct extender_refusal {
    struct text name;
    const char *text;
};

struct extender_filter_result {
    uint32_t chosen;
    const uint32_t *choice; /* indexes into args.name, best first */
    uint32_t n_refusals;
    const struct extender_refusal *refusal; /* FailedAndUnresolvableNodes */
    const char *error;                      /* Error text, replaces all others; or NULL */
};
void extender_filter_encode(struct strbuf *out, const struct extender_args *args,
                            const struct extender_filter_result *result);

void extender_priorities_encode(struct strbuf *out, const struct extender_args *args,
                                const uint8_t *score);

struct extender_bind {
    const char *pod;
    const char *namespace;
    const char *uid;
    const char *node;
};
int extender_bind_decode(struct text body, struct arena *arena, struct extender_bind *out,
                         struct err *err) MUST_USE;
/* error is NULL if the pod is bound. */
void extender_bind_encode(struct strbuf *out, const char *error);

struct extender_victims {
    struct text node;
    uint32_t n_uids;
    struct text *uid;
    int64_t pdb_violations;
};
struct extender_preempt {
    struct pod pod;
    uint32_t n_nodes;
    struct extender_victims *node;
};
int extender_preempt_decode(struct text body, const struct wire_rules *rules, struct arena *arena,
                            struct extender_preempt *out, struct err *err) MUST_USE;
/* keep[i] says whether node i stays a candidate, with its victims unchanged and in order. */
void extender_preempt_encode(struct strbuf *out, const struct extender_preempt *args,
                             const bool *keep);

#endif
