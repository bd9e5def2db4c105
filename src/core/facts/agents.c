/*
 * The table of agents.h. The writer's thread adds the events of the watch, gets the verdict of the
 * node, and takes the changes to be stored; the simulator's oracle has a table of its own. The
 * facts of a Node are kept, so that a changed pod can be checked without its Node.
 */
#include "milligpu/core/facts/agents.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/map.h"

struct agent_pod {
    char *uid;
    bool serves; /* Ready, and not being deleted */
};

struct agent_entry {
    char *node; /* name, the key */
    char *uid;  /* of the Node object; "" until it is shown */
    /* from the Node */
    bool selected; /* it has the label, and its agent was not uninstalled */
    bool named;    /* it has the annotation of an agent that was not uninstalled */
    bool leaving;
    bool other_node;
    bool other_boot;
    char *claim; /* uid of the agent's pod, owned; NULL: none is named */
    /* stored, for this Node object */
    bool named_gpus;
    bool vouched;
    bool changed;  /* not stored yet: in agents.changed */
    uint64_t list; /* number of the list of Nodes in or after which it was last shown */
    struct agent_pod *pod;
    size_t n_pods;
    size_t capacity;
};

struct agents {
    struct agents_rules rules;
    struct map entries; /* struct agent_entry, by node */
    bool seen;
    uint64_t list; /* number of the latest list of Nodes, from 1 */
    struct agent_entry **changed;
    size_t changes;
    size_t capacity;
};

static const struct {
    const char *name;
    const char *help;
} vouches[] = {
#define X(id, word, help) [id] = {word, help},
    VOUCH_TABLE(X)
#undef X
};

static_assert(VOUCH_NONE == 0, "a node of which nothing is known is open");
static_assert(VOUCH_GOOD < VOUCH_LEAVING, "vouch_closes() asks for the order");

const char *vouch_name(enum vouch vouch)
{
    must((unsigned)vouch < VOUCHES);
    must(vouches[vouch].name[0] != '\0');
    return vouches[vouch].name;
}

const char *vouch_help(enum vouch vouch)
{
    must((unsigned)vouch < VOUCHES);
    must(vouches[vouch].help[0] != '\0');
    return vouches[vouch].help;
}

static struct text node_of_entry(const void *value)
{
    const struct agent_entry *entry = value;
    must(entry->node != NULL);
    return text_of(entry->node);
}

struct agents *agents_new(const struct agents_rules *rules)
{
    struct agents *agents = xcalloc(1, sizeof *agents);

    must(rules->key.at != NULL && rules->value.at != NULL);
    must(rules->required <= REQUIRE_NEVER);
    agents->rules = *rules;
    map_init_keyed(&agents->entries, node_of_entry);
    must(!agents->seen && agents->changes == 0);
    return agents;
}

static void agent_entry_free(struct agent_entry *entry)
{
    must(entry->node != NULL);
    for (size_t i = 0; i < entry->n_pods; i++)
        xfree(entry->pod[i].uid);
    xfree(entry->pod);
    xfree(entry->claim);
    xfree(entry->uid);
    xfree(entry->node);
    xfree(entry);
}

void agents_free(struct agents *agents)
{
    struct agent_entry *entry;

    if (agents == NULL)
        return;
    for (size_t at = 0; (entry = map_next(&agents->entries, &at)) != NULL;)
        agent_entry_free(entry);
    map_done(&agents->entries);
    must(agents->changes <= agents->capacity);
    xfree(agents->changed);
    xfree(agents);
}

/* Checks the invariants of an entry between two events. */
static void agent_entry_assert_valid(const struct agent_entry *entry)
{
    must(entry->node != NULL && entry->node[0] != '\0');
    must(entry->uid != NULL);
    must(!entry->leaving || entry->named);
    must(entry->claim == NULL || entry->named);
    must(entry->claim == NULL || entry->claim[0] != '\0');
    must(entry->n_pods <= entry->capacity);
    must(entry->capacity == 0 || entry->pod != NULL);
}

static struct agent_entry *agents_find(const struct agents *agents, struct text node)
{
    must(node.len > 0);
    must(node.at != NULL);
    return map_find(&agents->entries, node);
}

static struct agent_entry *agents_get(struct agents *agents, const char *node)
{
    struct agent_entry *entry = agents_find(agents, text_of(node));

    if (entry != NULL)
        return entry;
    must(node[0] != '\0');
    entry = xcalloc(1, sizeof *entry);
    entry->node = xstrdup(node);
    entry->uid = xstrdup("");
    (void)map_put(&agents->entries, text_of(entry->node), entry);
    must(entry->n_pods == 0);
    return entry;
}

/* Is the entry equivalent to a missing one? */
static bool agent_entry_is_empty(const struct agent_entry *entry)
{
    agent_entry_assert_valid(entry);
    return !entry->selected && !entry->named && entry->n_pods == 0 && !entry->named_gpus &&
           !entry->vouched && !entry->changed;
}

static void drop_if_empty(struct agents *agents, struct agent_entry *entry)
{
    if (!agent_entry_is_empty(entry))
        return;
    must(entry->claim == NULL);
    must(!entry->leaving);
    (void)map_take(&agents->entries, text_of(entry->node));
    agent_entry_free(entry);
}

static void agents_note_change(struct agents *agents, struct agent_entry *entry)
{
    must(entry->uid != NULL);
    if (entry->changed)
        return;
    entry->changed = true;
    agents->changed =
        xgrow(agents->changed, agents->changes, &agents->capacity, sizeof(struct agent_entry *));
    must(agents->changes < agents->capacity);
    agents->changed[agents->changes++] = entry;
    must(agents->changes <= agents->entries.count);
}

static void agents_set_memory(struct agents *agents, struct agent_entry *entry, bool named_gpus,
                              bool vouched)
{
    must(entry->node[0] != '\0');
    if (entry->named_gpus == named_gpus && entry->vouched == vouched)
        return;
    entry->named_gpus = named_gpus;
    entry->vouched = vouched;
    agents_note_change(agents, entry);
    must(entry->changed);
}

static void agents_replace(char **slot, const char *value)
{
    must(slot != NULL);
    xfree(*slot);
    *slot = value != NULL ? xstrdup(value) : NULL;
    must((*slot == NULL) == (value == NULL));
}

/* Returns true for the first agent of the cluster. */
static bool see_any(struct agents *agents, bool agent)
{
    const bool first = agent && !agents->seen;

    agents->seen = agents->seen || agent;
    must(agents->seen || !agent);
    must(!first || agents->seen);
    return first;
}

static size_t n_serving(const struct agent_entry *entry)
{
    size_t count = 0;

    must(entry->n_pods == 0 || entry->pod != NULL);
    for (size_t i = 0; i < entry->n_pods; i++)
        count += entry->pod[i].serves;
    must(count <= entry->n_pods);
    return count;
}

static struct agent_pod *find_pod(const struct agent_entry *entry, struct text uid)
{
    must(uid.len > 0);
    must(uid.at != NULL);
    for (size_t i = 0; i < entry->n_pods; i++)
        if (text_is(uid, entry->pod[i].uid))
            return &entry->pod[i];
    return NULL;
}

/* The verdict for an agent that names its pod. */
static enum vouch check_claim(const struct agent_entry *entry)
{
    must(entry->claim != NULL);
    must(entry->named && !entry->leaving);

    const struct agent_pod *pod = find_pod(entry, text_of(entry->claim));
    if (entry->other_node)
        return VOUCH_OTHER_NODE;
    if (entry->other_boot)
        return VOUCH_OTHER_BOOT;
    if (n_serving(entry) > 1)
        return VOUCH_CLONED;
    if (pod == NULL)
        return VOUCH_GONE;
    return pod->serves ? VOUCH_GOOD : VOUCH_NOT_READY;
}

/*
 * An agent that names no pod (an older one) is accepted by its annotation, unless a pod vouched for
 * this Node before: the annotation may then be stale.
 */
static enum vouch check_agent(const struct agents *agents, const struct agent_entry *entry)
{
    const struct agents_rules *rules = &agents->rules;
    const bool required = rules->required == REQUIRE_ALWAYS || (entry->selected && agents->seen);

    must(rules->required != REQUIRE_NEVER);
    agent_entry_assert_valid(entry);
    if (entry->leaving)
        return VOUCH_LEAVING;
    if (!entry->named)
        return required || entry->named_gpus || entry->vouched ? VOUCH_NO_AGENT : VOUCH_NONE;
    if (rules->by_annotation)
        return VOUCH_NONE;
    if (entry->claim == NULL)
        return entry->vouched ? VOUCH_UNNAMED : VOUCH_NONE;
    return check_claim(entry);
}

/*
 * GPUs from labels or an amount have only indexes, and an agent assigns no GPU by index. So a node
 * with an agent is closed until the agent lists its GPUs; from then on they stay
 * (agents_lost_gpus()).
 */
static enum vouch agents_check_entry(const struct agents *agents, const struct agent_entry *entry)
{
    const enum vouch vouch = check_agent(agents, entry);

    must(vouch < VOUCHES);
    must(vouch != VOUCH_GOOD || entry->named);
    return entry->named && !entry->named_gpus && !vouch_closes(vouch) ? VOUCH_NO_GPUS : vouch;
}

enum vouch agents_check(const struct agents *agents, struct text node)
{
    const struct agent_entry *entry = agents_find(agents, node);

    must(entry == NULL || text_is(node, entry->node));
    if (agents->rules.required == REQUIRE_NEVER)
        return VOUCH_NONE;
    if (entry == NULL)
        return agents->rules.required == REQUIRE_ALWAYS ? VOUCH_NO_AGENT : VOUCH_NONE;
    return agents_check_entry(agents, entry);
}

/* Remembers that a pod vouched, with or without GPUs: the annotation alone is then not enough. */
static void remember_verdict(struct agents *agents, struct agent_entry *entry)
{
    must(entry != NULL);
    must(entry->node[0] != '\0');
    if (agents->rules.required != REQUIRE_NEVER && check_agent(agents, entry) == VOUCH_GOOD)
        agents_set_memory(agents, entry, entry->named_gpus, true);
}

static bool agents_is_selected(const struct agents *agents, const struct node_facts *facts)
{
    must(facts->n_labels == 0 || facts->label != NULL);
    must(agents->rules.key.at != NULL);
    for (uint32_t i = 0; i < facts->n_labels && agents->rules.key.len > 0; i++)
        if (text_is(agents->rules.key, facts->label[i].key) &&
            text_is(agents->rules.value, facts->label[i].value))
            return true;
    return false;
}

/* An empty word counts as missing. */
static bool is_said(const char *word)
{
    return word != NULL && word[0] != '\0';
}

static bool differ(const char *claimed, const char *shown)
{
    return is_said(claimed) && is_said(shown) && strcmp(claimed, shown) != 0;
}

bool agent_is_uninstalled(const struct node_facts *facts)
{
    must(facts->name != NULL);
    return is_said(facts->claim.leaving) && strcmp(facts->claim.leaving, AGENT_UNINSTALLED) == 0;
}

static void agents_take_facts(struct agents *agents, struct agent_entry *entry,
                              const struct node_facts *facts)
{
    const struct agent_claim *claim = &facts->claim;

    must(facts->name != NULL);
    must(strcmp(entry->node, facts->name) == 0);
    entry->selected = agents_is_selected(agents, facts) && !agent_is_uninstalled(facts);
    entry->named = facts->agent && !agent_is_uninstalled(facts);
    entry->leaving = entry->named && is_said(claim->leaving);
    entry->other_node = differ(claim->node, facts->uid);
    entry->other_boot = differ(claim->boot, facts->boot);
    agents_replace(&entry->claim, entry->named && is_said(claim->pod) ? claim->pod : NULL);
}

bool agents_see_node(struct agents *agents, const struct node_facts *facts)
{
    const char *uid = facts->uid != NULL ? facts->uid : "";
    must(facts->name[0] != '\0');
    must(facts->n_gpus == 0 || facts->has_gpus);

    struct agent_entry *entry = agents_get(agents, facts->name);
    entry->list = agents->list;
    agents_take_facts(agents, entry, facts);
    /* Another Node object: drops the memory of the former one. */
    if (strcmp(entry->uid, uid) != 0)
        agents_set_memory(agents, entry, false, false);
    agents_replace(&entry->uid, uid);
    if (agent_is_uninstalled(facts))
        agents_set_memory(agents, entry, false, false);
    else if (entry->named && facts->has_gpus && facts->n_gpus > 0)
        agents_set_memory(agents, entry, true, entry->vouched);
    remember_verdict(agents, entry);
    const bool first = see_any(agents, entry->named);
    must(!entry->changed || agents->changes > 0);
    drop_if_empty(agents, entry);
    return first;
}

/* Clears the facts and the memory of its Node. */
static void agents_forget_node(struct agents *agents, struct agent_entry *entry)
{
    entry->selected = false;
    entry->named = false;
    entry->leaving = false;
    agents_replace(&entry->claim, NULL);
    agents_set_memory(agents, entry, false, false);
    must(agents->changes <= agents->entries.count);
}

void agents_node_gone(struct agents *agents, struct text node)
{
    struct agent_entry *entry = agents_find(agents, node);

    if (entry == NULL)
        return;
    agents_forget_node(agents, entry);
    drop_if_empty(agents, entry);
}

void agents_begin_nodes(struct agents *agents)
{
    agents->list++;
    must(agents->list > 0);
    must(agents->changes <= agents->entries.count);
}

/* Callback of map_retain(). */
static bool agent_entry_remains(void *user, void *value)
{
    struct agents *agents = user;
    struct agent_entry *entry = value;

    must(entry->list <= agents->list);
    must(entry->node[0] != '\0');
    if (entry->list == agents->list)
        return true;
    agents_forget_node(agents, entry);
    if (!agent_entry_is_empty(entry))
        return true;
    agent_entry_free(entry);
    return false;
}

void agents_end_nodes(struct agents *agents)
{
    (void)map_retain(&agents->entries, agents, agent_entry_remains);
    must(agents->changes <= agents->entries.count);
}

bool agents_see_pod(struct agents *agents, const struct pod *pod)
{
    must(pod->uid[0] != '\0');
    must(pod->node[0] != '\0');
    must(pod->is_agent);

    struct agent_entry *entry = agents_get(agents, pod->node);
    struct agent_pod *known = find_pod(entry, text_of(pod->uid));
    if (known == NULL) {
        entry->pod = xgrow(entry->pod, entry->n_pods, &entry->capacity, sizeof *entry->pod);
        known = &entry->pod[entry->n_pods++];
        *known = (struct agent_pod){.uid = xstrdup(pod->uid)};
    }
    known->serves = pod->is_ready && pod->terminating_ms == 0;
    must(entry->n_pods > 0 && entry->n_pods <= entry->capacity);
    must(known->uid[0] != '\0');
    remember_verdict(agents, entry);
    return see_any(agents, true);
}

bool agents_pod_gone(struct agents *agents, struct text node, struct text uid)
{
    struct agent_entry *entry = node.len > 0 ? agents_find(agents, node) : NULL;
    struct agent_pod *pod = entry != NULL ? find_pod(entry, uid) : NULL;

    if (pod == NULL)
        return false;
    must(entry->n_pods > 0);
    must(text_is(uid, pod->uid));
    xfree(pod->uid);
    *pod = entry->pod[--entry->n_pods];
    remember_verdict(agents, entry); /* one of two agents may remain */
    drop_if_empty(agents, entry);
    return true;
}

bool agents_lost_gpus(const struct agents *agents, const struct node_facts *facts)
{
    const struct agent_entry *entry = agents_find(agents, text_of(facts->name));

    if (entry == NULL || facts->has_gpus || facts->gpus_error != NULL)
        return false;
    must(facts->uid != NULL);
    must(entry->uid != NULL);
    return entry->named_gpus && strcmp(entry->uid, facts->uid) == 0;
}

void agents_remember_seen(struct agents *agents)
{
    must(agents->changes == 0);
    must(agents->list == 0);
    agents->seen = true;
}

void agents_remember(struct agents *agents, const struct agent_memory *memory)
{
    struct agent_entry *entry = agents_get(agents, memory->node);

    must(memory->named_gpus || memory->vouched);
    must(entry->n_pods == 0 && !entry->named);
    agents_replace(&entry->uid, memory->uid);
    entry->named_gpus = memory->named_gpus;
    entry->vouched = memory->vouched;
    must(!entry->changed);
}

bool agents_seen(const struct agents *agents)
{
    must(agents != NULL);
    return agents->seen;
}

bool agents_next_changed(const struct agents *agents, size_t *at, struct agent_memory *out)
{
    must(*at <= agents->changes);
    if (*at == agents->changes)
        return false;
    const struct agent_entry *entry = agents->changed[(*at)++];
    must(entry->changed);
    must(entry->node[0] != '\0');
    *out = (struct agent_memory){entry->node, entry->uid, entry->named_gpus, entry->vouched};
    return true;
}

void agents_stored(struct agents *agents, size_t count)
{
    must(count <= agents->changes);
    must(agents->changes <= agents->entries.count);
    for (size_t i = 0; i < count; i++) {
        agents->changed[i]->changed = false;
        drop_if_empty(agents, agents->changed[i]);
    }
    agents->changes -= count;
    if (agents->changes > 0)
        memmove(agents->changed, &agents->changed[count],
                agents->changes * sizeof(struct agent_entry *));
}

size_t agents_count(const struct agents *agents)
{
    must(agents->changes <= agents->entries.count);
    return agents->entries.count;
}
