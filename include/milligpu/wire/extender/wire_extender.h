/*
 * wire_extender - the extender v1 bodies of kube-scheduler, both ways.
 *
 * Keys are matched exactly first and then ignoring case, as Go does; a known key that occurs twice,
 * in any spelling, is an error. Answers contain the exact capitalised names. Sources: reference of
 * k8s.io/kube-scheduler/extender/v1; recorded bytes in tests/golden.
 *
 * Scores are 0 .. 10 here and nowhere else. Pure.
 */
#ifndef MILLIGPU_WIRE_EXTENDER_H
#define MILLIGPU_WIRE_EXTENDER_H

#include "milligpu/wire/kube/wire_kube.h"

/* ExtenderArgs of filter and prioritize. */
struct extender_args {
    struct pod pod;
    bool full_nodes; /* the Nodes form: nodes are in node[], and the answer has Nodes too */
    uint32_t names;
    struct text *name;       /* distinct; both forms */
    uint32_t *hash;          /* per name: its text_hash() */
    struct node_facts *node; /* full_nodes: per name */
    struct text *node_bytes; /* full_nodes: per name, the object as it was sent */
};
int extender_args_decode(struct text body, const struct wire_rules *rules, struct arena *arena,
                         struct extender_args *out, struct err *err) MUST_USE;

/* One refused node, or the first of a group with the same text. */
struct extender_refusal {
    struct text name;
    const char *text;
};

/*
 * choice[]: indexes into args.name, in order. error: NULL or the Error text (then nothing else
 * counts).
 */
struct extender_filter_result {
    uint32_t chosen;
    const uint32_t *choice;
    uint32_t refusals;
    const struct extender_refusal *refusal; /* FailedAndUnresolvableNodes */
    const char *error;
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
/* error NULL: bound. */
void extender_bind_encode(struct strbuf *out, const char *error);

struct extender_victims {
    struct text node;
    uint32_t uids;
    struct text *uid;
    int64_t pdb_violations;
};
struct extender_preempt {
    struct pod pod;
    uint32_t nodes;
    struct extender_victims *node;
};
int extender_preempt_decode(struct text body, const struct wire_rules *rules, struct arena *arena,
                            struct extender_preempt *out, struct err *err) MUST_USE;
/* keep[i]: node i stays, with its victims unchanged and in their order. */
void extender_preempt_encode(struct strbuf *out, const struct extender_preempt *args,
                             const bool *keep);

#endif
