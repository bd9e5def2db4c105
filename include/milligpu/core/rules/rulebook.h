/*
 * rulebook - a policy document in memory: the policy, the prices of GPU models, and the rules.
 *
 *   policy document --------> rulebook --\
 *   clock --> which rules hold now -------+--> policy context (policy_context.h) --> snapshot
 *   workload ----------------------------/
 *
 *            nodes            namespaces   window     effect
 *   rule 1   pool=training    *            nights     whole GPUs only, 2 idle hosts in reserve
 *   rule 2   pool=training    team-*       always     at least 100, in steps of 50
 *
 * The first rule that holds now and matches both node and namespace wins for this pod on this node:
 * it applies completely, and later rules do not. Rules restrict new grants only, never running
 * pods. A pod that a rule keeps off a node gets REASON_RULE, whose text names the rule, or
 * REASON_RESERVE, which is temporary and names the rule for display only.
 *
 * The node stores the set of rules that match it (node.h), and the request the set that match its
 * pod.
 *
 * Immutable, except for its cache of prices, and reference-counted. Pure: the caller passes the
 * time, and the set of rules that hold is part of the snapshot, so that the same snapshot gives the
 * same answer.
 */
#ifndef MILLIGPU_RULEBOOK_H
#define MILLIGPU_RULEBOOK_H

#include "milligpu/base/arena.h"
#include "milligpu/base/limits.h"
#include "milligpu/core/facts/labels.h"
#include "milligpu/core/facts/names.h"
#include "milligpu/core/facts/rule_set.h"
#include "milligpu/core/rules/policy_kind.h"
#include "milligpu/core/rules/window.h"
#include "milligpu/core/rules/workload.h"

enum {
    RULE_LABELS_MAX = 16,    /* labels of a rule */
    RULE_GLOBS_MAX = 64,     /* namespaces of a rule, and models of a rule */
    RULE_SIZES_MAX = 16,     /* sizes of a rule */
    RULE_RESERVE_MAX = 1000, /* idle hosts */
    PRICES_MAX = 64,
    PRICE_MAX = 1000000,
    KNOWN_PRICES = 64,
    RULEBOOK_SHAPES_MAX = 32,
    SHAPE_WEIGHT_MAX = 500, /* of all shapes together */
};

/* The effect of gpu-memory on a GPU where the requested share has too little memory. */
enum memory_mode {
    MEMORY_UNSAID,
    MEMORY_FILTER, /* excludes the GPU */
    MEMORY_RAISE,  /* raises the share until its memory suffices */
};

struct rule {
    const char *name; /* never empty: "rule 3" if unset in the document */
    /* where it applies */
    uint32_t n_labels;            /* all must match; 0: every node */
    const struct label *label;    /* no '=' in keys; values are globs; "*": any value */
    uint32_t n_namespaces;        /* one must match; 0: every namespace */
    const char *const *namespace; /* globs */
    const struct window *window;  /* NULL: always */
    const struct zone *zone;      /* of the window; owned by the rulebook */
    /* its effects; zero (MEMORY_UNSAID, TOPOLOGY_ANY): none */
    bool has_order; /* orders by policy below, instead of by the rulebook's */
    enum policy_kind policy;
    bool whole;          /* whole GPUs only */
    uint32_t reserve;    /* idle hosts kept for pods of several GPUs */
    uint32_t min_milli;  /* minimum of each share */
    uint32_t step_milli; /* shares are multiples of it */
    uint32_t n_sizes;    /* allowed shares in milli, ascending */
    uint16_t size[RULE_SIZES_MAX];
    uint32_t n_models; /* allowed models: bare globs (model_bare()); 0: any */
    const char *const *model;
    enum memory_mode memory;
    enum topology topology; /* minimum for wants of several GPUs; a pod may demand more */
};

/* The price of GPUs of a model; an exact name takes precedence over the first match. */
struct model_price {
    const char *model; /* a bare glob (model_bare()) */
    uint32_t price;    /* 1 .. PRICE_MAX */
};

/* The price of a model by its name alone. */
struct named_price {
    uint32_t price;     /* 0: the name is unknown */
    uint32_t whole_mib; /* for a part of a GPU: memory of the whole GPU with this price; else 0 */
    uint32_t part_mib;  /* memory of the part, from its name; 0: unknown */
};

/* A cached price. Immutable. */
struct known_price {
    const struct atom *model; /* a reference */
    struct named_price price;
};

enum price_mode {
    PRICES_OFF,   /* all models cost the same */
    PRICES_KNOWN, /* from price[], else the table of known products, else memory */
};

/* A shape of several GPUs that counts as expected even if it comes rarely. */
struct expected_shape {
    struct workload_class class; /* its count is unused */
    uint32_t weight;             /* of 1,000 pods; 1 .. SHAPE_WEIGHT_MAX */
};

struct rulebook {
    atomic_uint refs;
    const char *name;     /* of the document: "mixed", "/etc/milligpu/policy.yaml" */
    const char *digest;   /* of the document, hexadecimal; "": a bare policy */
    struct text document; /* bytes of the file, as read; empty for a bare or a ready policy */
    enum policy_kind policy;
    uint32_t seed; /* of the node order */
    bool raise;    /* default memory mode is MEMORY_RAISE */
    enum price_mode prices_by;
    uint32_t n_prices;
    const struct model_price *price;
    uint32_t n_shapes;
    const struct expected_shape *shape;
    uint32_t n_rules;
    const struct rule *rule;
    struct arena arena; /* owns everything above */
    uint32_t n_zones;
    struct zone *zone[RULES_MAX]; /* the distinct zones of the windows, owned */
    /* The cache of rulebook_known_price(), owned. Threads fill free places and replace none. */
    struct known_price *_Atomic known_price[KNOWN_PRICES];
};

/* Returns an empty rulebook with one reference, to be filled before it is shared. */
struct rulebook *rulebook_new(enum policy_kind policy, const char *name) MUST_USE;
const struct rulebook *rulebook_ref(const struct rulebook *book);
void rulebook_unref(const struct rulebook *book); /* NULL is fine */

/* Have both the same name, document bytes and zone file bytes? */
bool rulebook_alike(const struct rulebook *a, const struct rulebook *b);

/* The rules whose labels match. labels NULL: none, which matches rules without labels. */
rule_set rulebook_of_node(const struct rulebook *book, const struct labels *labels);
rule_set rulebook_of_namespace(const struct rulebook *book, struct text namespace);
/*
 * rulebook_holding() returns the rules that hold at now_ms; rulebook_next_ms() the next time at
 * which a window begins or ends (INT64_MAX: never). UTC.
 */
rule_set rulebook_holding(const struct rulebook *book, int64_t now_ms);
int64_t rulebook_next_ms(const struct rulebook *book, int64_t now_ms);
/* Does any rule have a window? */
bool rulebook_has_windows(const struct rulebook *book);

/* Does its policy, or the policy of any rule, need a workload? */
bool rulebook_needs_workload(const struct rulebook *book);

/*
 * The price of a GPU, 1 .. PRICE_MAX; 0 with PRICES_OFF. mib: of the whole physical GPU, 0 if
 * unknown. Taken from the rulebook, else from the table of known products (model.h), else from the
 * memory, at a T4's price for 16 GiB. A part of a known GPU is priced by its fraction of the
 * memory. A GPU of unknown model and memory costs PRICE_MAX, so that it is used last.
 */
uint32_t rulebook_price(const struct rulebook *book, struct text model, uint32_t mib);

/* The price by name alone, with PRICES_KNOWN. Each call compares the name with all globs. */
struct named_price rulebook_named_price(const struct rulebook *book, struct text model);
/*
 * The same, cached for the first KNOWN_PRICES models; the rulebook keeps a reference to each of
 * them for its life. Any thread may call it.
 */
struct named_price rulebook_known_price(const struct rulebook *book, const struct atom *model);
/* Frees the cached prices, for rulebook_unref(). */
void rulebook_forget_prices(struct rulebook *book);
/* The price from both name and memory; mib: 0 if unknown. */
uint32_t price_by_memory(const struct named_price *named, uint32_t mib);

/* The winning rule of a set; NULL: the set is empty. */
static inline const struct rule *rulebook_first(const struct rulebook *book, rule_set rules)
{
    return rules == 0 ? NULL : &book->rule[rules_first(rules)];
}

/* The rule's number, from 1. */
uint32_t rulebook_number(const struct rulebook *book, const struct rule *rule);

/*
 * Does the rule allow the request, apart from models and reserve, which depend on the node
 * (place.h)?
 */
bool rule_takes(const struct rule *rule, const struct request *request);
bool rule_takes_model(const struct rule *rule, struct text model);
/* The smallest share >= milli that the rule allows; 0: none. */
uint32_t rule_next(const struct rule *rule, uint32_t milli);

/* Numbers of nodes in a cluster that a rule matches, by each of its fields. */
struct rule_matches {
    uint32_t nodes;                  /* nodes with all of its labels */
    uint32_t allowed;                /* nodes of these with a GPU of any of its models */
    uint32_t label[RULE_LABELS_MAX]; /* nodes with this label */
    uint32_t model[RULE_GLOBS_MAX];  /* nodes with a GPU of this model */
};

/* Adds one node to *out. labels NULL: none. model: of its GPUs. */
void rule_match_node(const struct rule *rule, const struct labels *labels,
                     const struct atom *const *model, uint32_t models, struct rule_matches *out);
/*
 * Appends a line for each field that matches nothing, without a trailing newline: "rule 1 (night),
 * nodes: pool=traning matches 0 nodes".
 */
void rule_add_unmatched(struct strbuf *out, const struct rulebook *book, const struct rule *rule,
                        const struct rule_matches *matches);

/* The cause of a refusal. */
struct cause {
    enum reason why;
    uint32_t rule; /* with REASON_RULE and REASON_RESERVE: its position in the rulebook */
};
/* Append text for display: "pool=training, disk=ssd*"; "all". */
void rule_add_nodes(struct strbuf *out, const struct rule *rule);
void rule_add_namespaces(struct strbuf *out, const struct rule *rule);
/* "only whole GPUs; keeps 2 idle hosts" */
void rule_add_demands(struct strbuf *out, const struct rule *rule);

/* Makes the refusal for REASON_RULE: "rule 2 (night): only whole GPUs". */
void rulebook_refuse(const struct rulebook *book, const struct rule *rule,
                     const struct request *request, struct refusal *out);

#endif
