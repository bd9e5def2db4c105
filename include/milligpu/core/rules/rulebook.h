/*
 * rulebook - what a policy document says: which policy orders placements, what GPU models cost, and
 * the rules by which nodes and namespaces differ.
 *
 *   policy document --------> rulebook --\
 *   clock --> which rules hold now -------+--> policy context (policy.h) --> snapshot
 *   workload ----------------------------/
 *
 *            nodes            namespaces   window     says
 *   rule 1   pool=training    *            nights     whole GPUs only, 2 idle hosts in reserve
 *   rule 2   pool=training    team-*       always     at least 100, in steps of 50
 *
 * Of the rules that hold at the moment, the first whose nodes and namespaces match wins for this
 * pod on this node: all that it says applies, and nothing of any later rule. What a rule says
 * decides new grants only, never what runs. A pod that a rule keeps off a node gets REASON_RULE,
 * which names the rule, or REASON_RESERVE, which passes by itself and names it to people only.
 *
 * A set of rules is a word: bit i is rule i + 1. Which rules match a node is part of the node
 * (node.h), which match a pod is part of its request.
 *
 * Immutable and reference-counted. Pure: which rules hold is asked with a time, and the answer is
 * part of the snapshot, so that the same snapshot gives the same answer.
 */
#ifndef MILLIGPU_RULEBOOK_H
#define MILLIGPU_RULEBOOK_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/core/facts/labels.h"
#include "milligpu/core/facts/rule_set.h"
#include "milligpu/core/rules/policy_kind.h"
#include "milligpu/core/rules/window.h"
#include "milligpu/core/rules/workload.h"

enum {
    RULE_LABELS_MAX = 16, /* of one rule, like the next two */
    RULE_GLOBS_MAX = 64,  /* namespaces, and models */
    RULE_SIZES_MAX = 16,
    RULE_RESERVE_MAX = 1000, /* idle hosts */
    PRICES_MAX = 64,
    PRICE_MAX = 1000000,
    RULEBOOK_SHAPES_MAX = 32,
    SHAPE_WEIGHT_MAX = 500, /* of all shapes together */
};

/* How gpu-memory is met where the share that was asked for comes with too little memory. */
enum memory_mode {
    MEMORY_UNSAID,
    MEMORY_FILTER, /* the GPU does not do */
    MEMORY_RAISE,  /* the share is raised to what the memory needs */
};

struct rule {
    const char *name; /* never empty: "rule 3" if the document gives none */
    /* where it applies */
    uint32_t labels;              /* all must match; 0: every node */
    const struct label *label;    /* no '=' in keys; values are globs; "*": whatever it says */
    uint32_t namespaces;          /* one must match; 0: every namespace */
    const char *const *namespace; /* globs */
    const struct window *window;  /* NULL: always */
    const struct zone *zone;      /* of the window; belongs to the rulebook */
    /* what it says; 0, or what is called unsaid, if nothing */
    bool has_order; /* by policy, instead of by the rulebook's */
    enum policy_kind policy;
    bool whole;          /* whole GPUs only */
    uint32_t reserve;    /* idle hosts that are kept for pods of several GPUs */
    uint32_t min_milli;  /* of each share */
    uint32_t step_milli; /* shares are multiples of it */
    uint32_t sizes;      /* shares that the nodes hand out, ascending */
    uint16_t size[RULE_SIZES_MAX];
    uint32_t models; /* models that may be used: globs, as model_bare() makes them; 0: any */
    const char *const *model;
    enum memory_mode memory;
    enum topology topology; /* demanded of wants of several GPUs, or more by the pod itself */
};

/* The price of a GPU of a model; an exact name counts before the first that matches. */
struct model_price {
    const char *model; /* a glob, as model_bare() makes it */
    uint32_t price;    /* 1 .. PRICE_MAX */
};

enum price_mode {
    PRICES_OFF,   /* all models cost the same */
    PRICES_KNOWN, /* by price[], else by the table of known products, else by memory */
};

/* A shape of several GPUs that is expected although it may come rarely. */
struct expected_shape {
    struct workload_class class; /* its count is not used */
    uint32_t weight;             /* of 1,000 pods; 1 .. SHAPE_WEIGHT_MAX */
};

struct rulebook {
    atomic_uint refs;
    const char *name;   /* of the document, for people: "mixed", "/etc/milligpu/policy.yaml" */
    const char *digest; /* of its bytes, in hexadecimal digits; "": it is bare */
    /* the bytes of a file, as they were read; of a bare or a ready policy it is empty */
    struct text document;
    enum policy_kind policy;
    uint32_t seed; /* of the node order */
    bool raise;    /* memory: raise, where no rule says otherwise */
    enum price_mode prices_by;
    uint32_t prices;
    const struct model_price *price;
    uint32_t shapes;
    const struct expected_shape *shape;
    uint32_t rules;
    const struct rule *rule;
    struct arena arena; /* of everything above */
    uint32_t zones;
    struct zone *zone[RULES_MAX]; /* of the windows, each once */
};

/* An empty rulebook of one policy, to be filled before it is shared. One reference. */
struct rulebook *rulebook_new(enum policy_kind policy, const char *name) MUST_USE;
const struct rulebook *rulebook_ref(const struct rulebook *book);
void rulebook_unref(const struct rulebook *book); /* NULL is fine */

/* Do both have the same name, come from the same bytes, and know their zones by the same bytes? */
bool rulebook_alike(const struct rulebook *a, const struct rulebook *b);

/* The rules whose labels match; a node without labels (NULL) matches where none are demanded. */
rule_set rulebook_of_node(const struct rulebook *book, const struct labels *labels);
rule_set rulebook_of_namespace(const struct rulebook *book, struct text namespace);
/*
 * The rules that hold at this time, and the first moment at which one of them begins or ends
 * (INT64_MAX: never). UTC.
 */
rule_set rulebook_holding(const struct rulebook *book, int64_t now_ms);
int64_t rulebook_next_ms(const struct rulebook *book, int64_t now_ms);
/* Does any rule have one? */
bool rulebook_has_windows(const struct rulebook *book);

/* Does its own policy, or that of any rule, need a workload? */
bool rulebook_needs_workload(const struct rulebook *book);

/*
 * The price of a GPU, 1 .. PRICE_MAX; 0 with PRICES_OFF. mib: of the whole physical GPU, 0 if not
 * known. The first of these that has one: the rulebook, the table of known products (model.h), the
 * memory, at a T4's price for 16 GiB. A part of a known GPU costs its part by memory. A GPU of
 * which neither is known costs PRICE_MAX, so that it comes last.
 */
uint32_t rulebook_price(const struct rulebook *book, struct text model, uint32_t mib);

/* The price by name alone, with PRICES_KNOWN. */
struct named_price {
    uint32_t price;     /* 0: the name is not known */
    uint32_t whole_mib; /* of a part of a GPU: memory of the GPU that has this price; else 0 */
    uint32_t part_mib;  /* of the part, by its name; 0: not known */
};
struct named_price rulebook_named_price(const struct rulebook *book, struct text model);
/* And the price, with the GPU's memory; mib: 0 if not known. */
uint32_t price_by_memory(const struct named_price *named, uint32_t mib);

/* The winner among rules; NULL: the set is empty. */
static inline const struct rule *rulebook_first(const struct rulebook *book, rule_set rules)
{
    return rules == 0 ? NULL : &book->rule[rules_first(rules)];
}

/* The rule's number, as people write it: from 1. */
uint32_t rulebook_number(const struct rulebook *book, const struct rule *rule);

/*
 * May a pod with this request get shares where the rule applies, as far as the request alone tells?
 * Models and reserve depend on the node (place.h).
 */
bool rule_takes(const struct rule *rule, const struct request *request);
bool rule_takes_model(const struct rule *rule, struct text model);
/* The smallest share from this one on that the rule hands out; 0: there is none. */
uint32_t rule_next(const struct rule *rule, uint32_t milli);

/* How many nodes of a cluster a rule matches, by each of its fields. */
struct rule_matches {
    uint32_t nodes;                  /* that have all of its labels */
    uint32_t allowed;                /* of these, with a GPU of any of its models */
    uint32_t label[RULE_LABELS_MAX]; /* that have this label */
    uint32_t model[RULE_GLOBS_MAX];  /* with a GPU that this one takes */
};

/* Counts one node: its labels (NULL: none), and the models of its GPUs. */
void rule_match_node(const struct rule *rule, const struct labels *labels,
                     const struct atom *const *model, uint32_t models, struct rule_matches *out);
/*
 * A line for each field that matches nothing, without a newline at the end: "rule 1 (night), nodes:
 * pool=traning matches 0 nodes".
 */
void rule_add_unmatched(struct strbuf *out, const struct rulebook *book, const struct rule *rule,
                        const struct rule_matches *matches);

/* Why a pod does not get a node. */
struct cause {
    enum reason why;
    uint32_t rule; /* with REASON_RULE and REASON_RESERVE: its position in the rulebook */
};
/* In words, for people: "pool=training, disk=ssd*"; "all". */
void rule_add_nodes(struct strbuf *out, const struct rule *rule);
void rule_add_namespaces(struct strbuf *out, const struct rule *rule);
/* "only whole GPUs; keeps 2 idle hosts" */
void rule_add_demands(struct strbuf *out, const struct rule *rule);

/* What the rule wants instead, for REASON_RULE: "rule 2 (night): only whole GPUs". */
void rulebook_refuse(const struct rulebook *book, const struct rule *rule,
                     const struct request *request, struct refusal *out);

#endif
