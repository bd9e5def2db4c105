/*
 * Evaluates a policy document: which nodes and namespaces a rule matches, when it holds, and what
 * it demands of a request. Rulebooks are made by policy_document.c, and read by any thread. After
 * sharing they are immutable, except for the prices that prices.c caches.
 */
#include "milligpu/core/rules/rulebook.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/model.h"

/*
 * Life
 */

struct rulebook *rulebook_new(enum policy_kind policy, const char *name)
{
    struct rulebook *book = xcalloc(1, sizeof *book);

    must(policy < POLICIES);
    atomic_init(&book->refs, 1); /* a zeroed arena is empty */
    book->policy = policy;
    book->name = arena_copy(&book->arena, text_of(name));
    book->digest = "";
    must(book->name[0] != '\0');
    must(book->n_rules == 0);
    return book;
}

/* The reference count is mutable, like known_price. */
static atomic_uint *rulebook_refs_of(const struct rulebook *book)
{
    must(book != NULL);
    return (atomic_uint *)(uintptr_t)&book->refs;
}

const struct rulebook *rulebook_ref(const struct rulebook *book)
{
    const unsigned before =
        atomic_fetch_add_explicit(rulebook_refs_of(book), 1, memory_order_relaxed);
    must(before > 0 && before < UINT32_MAX);
    return book;
}

void rulebook_unref(const struct rulebook *book)
{
    if (book == NULL)
        return;
    const unsigned before =
        atomic_fetch_sub_explicit(rulebook_refs_of(book), 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1)
        return;
    struct rulebook *own = (struct rulebook *)(uintptr_t)book;
    struct arena arena = own->arena;
    rulebook_forget_prices(own);
    for (uint32_t i = 0; i < own->n_zones; i++)
        zone_free(own->zone[i]);
    arena_done(&arena);
    xfree(own);
}

/* These determine the rest of a rulebook. */
bool rulebook_alike(const struct rulebook *a, const struct rulebook *b)
{
    must(a != NULL && b != NULL);
    if (strcmp(a->name, b->name) != 0 || strcmp(a->digest, b->digest) != 0 ||
        !text_eq(a->document, b->document) || a->n_zones != b->n_zones)
        return false;
    for (uint32_t i = 0; i < a->n_zones; i++)
        if (!zone_alike(a->zone[i], b->zone[i]))
            return false;
    return true;
}

/*
 * Matching
 */

static bool is_about_node(const struct rule *rule, const struct labels *labels)
{
    must(rule->n_labels <= RULE_LABELS_MAX);
    must(rule->n_labels == 0 || rule->label != NULL);
    for (uint32_t i = 0; i < rule->n_labels; i++)
        if (!labels_match(labels, &rule->label[i]))
            return false;
    return true;
}

rule_set rulebook_of_node(const struct rulebook *book, const struct labels *labels)
{
    rule_set rules = 0;

    must(book == NULL || book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; book != NULL && i < book->n_rules; i++)
        rules |= is_about_node(&book->rule[i], labels) ? one_rule(i) : 0;
    must(book != NULL || rules == 0);
    return rules;
}

static bool is_about_namespace(const struct rule *rule, struct text namespace)
{
    must(rule->n_namespaces <= RULE_GLOBS_MAX);
    must(rule->n_namespaces == 0 || rule->namespace != NULL);
    for (uint32_t i = 0; i < rule->n_namespaces; i++)
        if (text_glob(text_of(rule->namespace[i]), namespace))
            return true;
    return rule->n_namespaces == 0;
}

rule_set rulebook_of_namespace(const struct rulebook *book, struct text namespace)
{
    rule_set rules = 0;

    must(book == NULL || book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; book != NULL && i < book->n_rules; i++)
        rules |= is_about_namespace(&book->rule[i], namespace) ? one_rule(i) : 0;
    must(book != NULL || rules == 0);
    return rules;
}

uint32_t rulebook_number(const struct rulebook *book, const struct rule *rule)
{
    must(rule >= book->rule);
    must(rule < book->rule + book->n_rules);
    return (uint32_t)(rule - book->rule) + 1;
}

bool rulebook_has_windows(const struct rulebook *book)
{
    bool has = false;

    must(book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; i < book->n_rules; i++)
        has = has || book->rule[i].window != NULL;
    return has;
}

rule_set rulebook_holding(const struct rulebook *book, int64_t now_ms)
{
    rule_set rules = 0;

    must(book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; i < book->n_rules; i++) {
        const struct rule *rule = &book->rule[i];
        must(rule->window == NULL || rule->zone != NULL);
        if (rule->window == NULL || window_holds(rule->window, rule->zone, now_ms))
            rules |= one_rule(i);
    }
    return rules;
}

int64_t rulebook_next_ms(const struct rulebook *book, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    must(book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; i < book->n_rules; i++) {
        const struct rule *rule = &book->rule[i];
        if (rule->window == NULL)
            continue;
        const int64_t changes_ms = window_next_ms(rule->window, rule->zone, now_ms);
        must(changes_ms > now_ms);
        next_ms = changes_ms < next_ms ? changes_ms : next_ms;
    }
    return next_ms;
}

bool rulebook_needs_workload(const struct rulebook *book)
{
    bool needs = policy_needs_workload(book->policy);

    must(book->n_rules <= RULES_MAX);
    must(book->n_rules == 0 || book->rule != NULL);
    for (uint32_t i = 0; i < book->n_rules; i++)
        needs = needs || (book->rule[i].has_order && policy_needs_workload(book->rule[i].policy));
    return needs;
}

/*
 * Demands
 */

static bool is_size(const struct rule *rule, uint32_t milli)
{
    must(rule->n_sizes <= RULE_SIZES_MAX);
    must(milli <= GPU_MILLI);
    for (uint32_t i = 0; i < rule->n_sizes; i++)
        if (rule->size[i] == milli)
            return true;
    return rule->n_sizes == 0;
}

static bool takes_share(const struct rule *rule, uint32_t milli)
{
    must(milli > 0 && milli <= GPU_MILLI);
    must(rule->min_milli <= GPU_MILLI);
    if (rule->whole && milli != GPU_MILLI)
        return false;
    if (milli < rule->min_milli || (rule->step_milli > 0 && milli % rule->step_milli != 0))
        return false;
    return is_size(rule, milli);
}

bool rule_takes(const struct rule *rule, const struct request *request)
{
    must(request->n_wants == 0 || request->want != NULL);
    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++)
        if (!takes_share(rule, request->want[i].milli))
            return false;
    return true;
}

uint32_t rule_next(const struct rule *rule, uint32_t milli)
{
    must(milli > 0 && milli <= GPU_MILLI);
    must(rule->n_sizes <= RULE_SIZES_MAX);
    if (rule->whole)
        milli = GPU_MILLI;
    milli = milli < rule->min_milli ? rule->min_milli : milli;
    for (uint32_t i = 0; i < rule->n_sizes; i++)
        if (rule->size[i] >= milli && takes_share(rule, rule->size[i]))
            return rule->size[i];
    if (rule->n_sizes > 0)
        return 0;
    const uint32_t over = rule->step_milli > 0 ? milli % rule->step_milli : 0;
    milli += over > 0 ? rule->step_milli - over : 0;
    must(milli > GPU_MILLI || takes_share(rule, milli));
    return milli > GPU_MILLI ? 0 : milli;
}

bool rule_takes_model(const struct rule *rule, struct text model)
{
    char dashed[MODEL_BYTES_MAX];

    must(rule->n_models <= RULE_GLOBS_MAX);
    must(rule->n_models == 0 || rule->model != NULL);
    if (rule->n_models == 0)
        return true;
    if (model.len > sizeof dashed)
        return false;
    const struct text bare = model_bare(model, dashed);
    for (uint32_t i = 0; i < rule->n_models; i++)
        if (model_takes(text_of(rule->model[i]), bare))
            return true;
    return false;
}

static void add_sizes(struct strbuf *text, const struct rule *rule)
{
    must(rule->n_sizes > 0);
    must(rule->n_sizes <= RULE_SIZES_MAX);
    for (uint32_t i = 0; i < rule->n_sizes; i++)
        strbuf_printf(text, "%s%u",
                      i == 0                  ? ""
                      : i + 1 < rule->n_sizes ? ", "
                                              : " or ",
                      (unsigned)rule->size[i]);
}

static void add_rule_models(struct strbuf *text, const struct rule *rule)
{
    must(rule->n_models > 0);
    must(rule->n_models <= RULE_GLOBS_MAX);
    for (uint32_t i = 0; i < rule->n_models; i++)
        strbuf_printf(text, "%s%s", i == 0 ? "" : " or ", rule->model[i]);
}

/* Appends the first demand that the request does not meet, without the pod's shares. */
static void add_demand(struct strbuf *text, const struct rule *rule, const struct request *request)
{
    struct rule part = {.whole = rule->whole};

    must(request_asks(request));
    if (!rule_takes(&part, request)) {
        strbuf_str(text, "only whole GPUs here");
        return;
    }
    part.min_milli = rule->min_milli;
    if (!rule_takes(&part, request)) {
        strbuf_printf(text, "shares of at least %u milli here", rule->min_milli);
        return;
    }
    part.step_milli = rule->step_milli;
    if (!rule_takes(&part, request)) {
        strbuf_printf(text, "shares in steps of %u milli here", rule->step_milli);
        return;
    }
    if (!rule_takes(rule, request)) {
        strbuf_str(text, "shares of ");
        add_sizes(text, rule);
        strbuf_str(text, " milli here");
        return;
    }
    must(rule->n_models > 0 || rule->topology != TOPOLOGY_ANY);
    strbuf_str(text, rule->n_models > 0 ? "only GPUs of model " : "GPUs of one container");
    if (rule->n_models > 0)
        add_rule_models(text, rule);
    if (rule->topology != TOPOLOGY_ANY)
        strbuf_printf(text, ", %s", topology_text(rule->topology));
}

void rulebook_refuse(const struct rulebook *book, const struct rule *rule,
                     const struct request *request, struct refusal *out)
{
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    must(request_asks(request));
    must(rule->name[0] != '\0');
    strbuf_printf(&text, "policy rule %u (%s): ", rulebook_number(book, rule), rule->name);
    add_demand(&text, rule, request);
    out->why = REASON_RULE;
    text_clip((struct text){text.data, text.len}, out->text, sizeof out->text);
    must(out->text[0] != '\0');
}
