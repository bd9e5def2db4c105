/* Verdicts on agents (enum vouch), the memory of them, and a random walk against a model. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/agents.h"

#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static const struct agents_rules usual = {.key = {"gpu", 3}, .value = {"yes", 3}};

static struct label selected[] = {{"zone", "yes"}, {"gpu", "yes"}};

/* A Node with the label, whose agent names pod "p" of this Node and boot. */
static struct node_facts claimed(const char *node)
{
    return (struct node_facts){.name = node,
                               .uid = "node-uid",
                               .boot = "boot",
                               .agent = true,
                               .claim = {.pod = "p", .node = "node-uid", .boot = "boot"},
                               .n_labels = 2,
                               .label = selected};
}

/* claimed(), and the agent names a GPU. */
static struct node_facts naming(const char *node)
{
    struct node_facts facts = claimed(node);

    facts.has_gpus = true;
    facts.n_gpus = 1;
    return facts;
}

static struct node_facts bare(const char *node)
{
    return (struct node_facts){.name = node, .uid = "node-uid", .n_labels = 2, .label = selected};
}

static bool see_pod(struct agents *agents, const char *node, const char *uid, bool ready)
{
    const struct pod pod = {.uid = uid, .node = node, .is_agent = true, .is_ready = ready};

    return agents_see_pod(agents, &pod);
}

static bool pod_gone(struct agents *agents, const char *node, const char *uid)
{
    return agents_pod_gone(agents, text_of(node), text_of(uid));
}

static enum vouch judged(const struct agents *agents, const char *node)
{
    return agents_check(agents, text_of(node));
}

/* The verdict after this Node was seen. */
static enum vouch shown(struct agents *agents, const struct node_facts *facts)
{
    (void)agents_see_node(agents, facts);
    return judged(agents, facts->name);
}

/* Stores all changes. */
static void store_all(struct agents *agents)
{
    struct agent_memory memory;
    size_t at = 0;

    while (agents_next_changed(agents, &at, &memory))
        assert_true(memory.node[0] != '\0');
    agents_stored(agents, at);
}

static void is_memory(const struct agent_memory *memory, const char *node, const char *uid,
                      bool named_gpus, bool vouched)
{
    assert_string_equal(memory->node, node);
    assert_string_equal(memory->uid, uid);
    assert_int_equal(memory->named_gpus, named_gpus);
    assert_int_equal(memory->vouched, vouched);
}

/* There is exactly one change, for node n. */
static void has_changed(const struct agents *agents, const char *uid, bool named_gpus, bool vouched)
{
    struct agent_memory memory;
    size_t at = 0;

    assert_true(agents_next_changed(agents, &at, &memory));
    is_memory(&memory, "n", uid, named_gpus, vouched);
    assert_int_equal(at, 1);
    assert_false(agents_next_changed(agents, &at, &memory));
    assert_int_equal(at, 1);
}

static bool has_no_changes(const struct agents *agents)
{
    struct agent_memory memory;
    size_t at = 0;

    return !agents_next_changed(agents, &at, &memory);
}

static void is_empty_after(struct agents *agents)
{
    store_all(agents);
    assert_int_equal(agents_count(agents), 0);
}

static int set_up(void **state)
{
    *state = agents_new(&usual);
    return 0;
}

static int tear_down(void **state)
{
    agents_free(*state);
    return 0;
}

#define AGENTS_TEST(name) TEST_WITH(name, struct agents *agents, set_up, tear_down)

/* Replaces the table by a new one with these rules. */
static struct agents *anew(void **state, const struct agents_rules *rules)
{
    agents_free(*state);
    *state = agents_new(rules);
    return *state;
}

TEST(vouch__has_a_name_a_help_and_a_state)
{
    for (int a = 0; a < VOUCHES; a++) {
        const enum vouch vouch = (enum vouch)a;
        assert_true(vouch_name(vouch)[0] != '\0' && vouch_help(vouch)[0] != '\0');
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(vouch_name(vouch), vouch_name((enum vouch)b));
            assert_string_not_equal(vouch_help(vouch), vouch_help((enum vouch)b));
        }
        assert_int_equal(vouch_closes(vouch), vouch != VOUCH_NONE && vouch != VOUCH_GOOD);
    }
    assert_string_equal(vouch_name(VOUCH_NONE), "none");
    assert_string_equal(vouch_name(VOUCH_GOOD), "vouched");
    assert_string_equal(vouch_name(VOUCH_LEAVING), "leaving");
    assert_string_equal(vouch_name(VOUCH_CLONED), "cloned");
    agents_free(NULL);
}

/* All reasons apply at first; they are removed one by one. */
AGENTS_TEST(vouch__is_the_first_reason_that_applies)
{
    struct node_facts facts = claimed("n");

    facts.claim = (struct agent_claim){
        .pod = "missing", .node = "earlier-uid", .boot = "earlier-boot", .leaving = "upgrade"};
    (void)see_pod(agents, "n", "p", true);
    (void)see_pod(agents, "n", "second", true);
    assert_int_equal(shown(agents, &facts), VOUCH_LEAVING);
    facts.claim.leaving = NULL;
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_NODE);
    facts.claim.node = "node-uid";
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_BOOT);
    facts.claim.boot = "boot";
    assert_int_equal(shown(agents, &facts), VOUCH_CLONED);
    (void)see_pod(agents, "n", "p", false);
    assert_int_equal(judged(agents, "n"),
                     VOUCH_GONE); /* the claim does not name the remaining pod */
    (void)see_pod(agents, "n", "second", false);
    facts.claim.pod = "p";
    assert_int_equal(shown(agents, &facts), VOUCH_NOT_READY);
}

/* An empty value counts as absent. */
AGENTS_TEST(claim__without_a_value_contradicts_nothing)
{
    static const char *const nothing[] = {NULL, ""};
    const struct node_facts first = naming("n");

    (void)see_pod(agents, "n", "p", true);
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        struct node_facts facts = first;
        facts.claim.node = nothing[i];
        assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
        facts = first;
        facts.claim.boot = nothing[i];
        assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
        facts = first;
        facts.boot = nothing[i];
        assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
        facts = first;
        facts.claim.leaving = nothing[i];
        assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
        facts = first;
        facts.claim.pod = nothing[i];
        assert_int_equal(shown(agents, &facts), VOUCH_UNNAMED);
        facts = first;
        facts.agent = false; /* without the annotation there is no claim */
        assert_int_equal(shown(agents, &facts), VOUCH_NO_AGENT);
    }
}

TEST_BETWEEN(agents__are_required_on_nodes_with_the_label, set_up, tear_down)
{
    static struct label other_value[] = {{"gpu", "no"}};
    static struct label other_key[] = {{"gpu2", "yes"}};
    static struct label first[] = {{"gpu", "yes"}, {"zone", "yes"}};
    static struct label longer[] = {{"gpu", "yes!"}};
    static struct label letter[] = {{"g", "y"}};
    static struct label empty[] = {{"", ""}};
    static const struct {
        struct agents_rules rules;
        struct label *label;
        uint32_t labels;
        bool required;
    } row[] = {
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, selected, 2, true},
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, first, 2, true},
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, selected, 1, false},
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, NULL, 0, false},
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, other_value, 1, false},
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, other_key, 1, false},
        {{.key = {"gpu", 3}, .value = {"yes", 3}}, longer, 1, false},
        {{.key = {"g", 1}, .value = {"y", 1}}, letter, 1, true},
        {{.key = {"", 0}, .value = {"", 0}}, empty, 1, false}, /* an empty key selects no node */
    };
    struct agents *agents = NULL;

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct node_facts facts = bare("n");
        facts.n_labels = row[i].labels;
        facts.label = row[i].label;
        agents = anew(state, &row[i].rules);
        agents_remember_seen(agents);
        assert_int_equal(shown(agents, &facts), row[i].required ? VOUCH_NO_AGENT : VOUCH_NONE);
        assert_int_equal(agents_count(agents), row[i].required); /* no entry without need */
    }
    const struct node_facts facts = claimed("n");
    assert_int_equal(shown(agents, &facts),
                     VOUCH_GONE); /* its claim shows that there was an agent */
}

AGENTS_TEST(agents_pod_gone__needs_node_and_uid)
{
    const struct node_facts facts = naming("n");

    (void)see_pod(agents, "n", "p", true);
    (void)agents_see_node(agents, &facts);
    assert_false(pod_gone(agents, "n", "another"));
    assert_false(pod_gone(agents, "m", "p"));
    assert_false(pod_gone(agents, "", "p")); /* it was never bound */
    assert_int_equal(judged(agents, "n"), VOUCH_GOOD);
    assert_true(pod_gone(agents, "n", "p"));
    assert_int_equal(judged(agents, "n"), VOUCH_GONE);
    assert_false(pod_gone(agents, "n", "p"));
}

AGENTS_TEST(agent_memory__is_due_when_it_changes)
{
    struct node_facts facts = claimed("n");

    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents));
    facts.has_gpus = true; /* an empty list */
    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents));
    facts.n_gpus = 1;
    (void)agents_see_node(agents, &facts);
    has_changed(agents, "node-uid", true, false);
    store_all(agents);
    assert_true(has_no_changes(agents));
    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents)); /* no change */
    (void)see_pod(agents, "n", "p", true);
    has_changed(agents, "node-uid", true, true);
    (void)see_pod(agents, "n", "p", false); /* vouched stays set */
    has_changed(agents, "node-uid", true, true);
    store_all(agents);
    facts.claim.leaving = AGENT_UNINSTALLED;
    (void)agents_see_node(agents, &facts);
    has_changed(agents, "node-uid", false, false);
    (void)agents_see_node(agents, &facts);
    store_all(agents);
    assert_true(has_no_changes(agents));
    assert_true(pod_gone(agents, "n", "p"));
    agents_node_gone(agents, TEXT("n"));
    is_empty_after(agents);
}

/* The agent is valid otherwise: every other reason comes first. */
AGENTS_TEST(vouch__needs_gpus_that_the_agent_named)
{
    struct node_facts facts = claimed("n");

    assert_int_equal(shown(agents, &facts), VOUCH_GONE);
    (void)see_pod(agents, "n", "p", false);
    assert_int_equal(judged(agents, "n"), VOUCH_NOT_READY);
    (void)see_pod(agents, "n", "p", true);
    assert_int_equal(judged(agents, "n"), VOUCH_NO_GPUS);
    has_changed(agents, "node-uid", false, true); /* vouched is set without GPUs */
    facts.has_gpus = true;                        /* an empty list */
    assert_int_equal(shown(agents, &facts), VOUCH_NO_GPUS);
    facts.has_gpus = false;
    facts.gpus_error = "unreadable";
    assert_int_equal(shown(agents, &facts), VOUCH_NO_GPUS);
    facts = naming("n");
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    facts = claimed("n"); /* the lost GPUs are remembered */
    assert_true(agents_lost_gpus(agents, &facts));
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    facts.uid = facts.claim.node = "next-uid"; /* a new Node has no GPUs yet */
    assert_int_equal(shown(agents, &facts), VOUCH_NO_GPUS);
    facts.claim.leaving = "upgrade";
    assert_int_equal(shown(agents, &facts), VOUCH_LEAVING);
}

/* Without the annotation of an agent, the author of the GPUs is unknown. */
AGENTS_TEST(agent_memory__ignores_gpus_without_an_agent)
{
    struct node_facts facts = bare("n");

    facts.has_gpus = true;
    facts.n_gpus = 1;
    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents));
}

AGENTS_TEST(agent_memory__is_stored_in_batches)
{
    enum { NODES = 5 };
    static const char *const name[NODES] = {"n0", "n1", "n2", "n3", "n4"};
    struct agent_memory memory;
    size_t at = 0;

    for (size_t i = 0; i < NODES; i++) {
        const struct node_facts facts = naming(name[i]);
        (void)agents_see_node(agents, &facts);
    }
    agents_stored(agents, 0);
    assert_true(agents_next_changed(agents, &at, &memory));
    is_memory(&memory, "n0", "node-uid", true, false);
    assert_true(agents_next_changed(agents, &at, &memory));
    agents_stored(agents, at);
    for (size_t i = 2; i < NODES; i++) {
        at = i - 2;
        assert_true(agents_next_changed(agents, &at, &memory));
        is_memory(&memory, name[i], "node-uid", true, false);
    }
    assert_false(agents_next_changed(agents, &at, &memory));
    (void)see_pod(agents, "n0", "p", true); /* stored before, so its change is the last */
    agents_stored(agents, 3);
    at = 0;
    assert_true(agents_next_changed(agents, &at, &memory));
    is_memory(&memory, "n0", "node-uid", true, true);
    for (size_t i = 0; i < NODES; i++)
        agents_node_gone(agents, text_of(name[i]));
    assert_int_equal(agents_count(agents), NODES); /* until their removal is stored */
    assert_true(pod_gone(agents, "n0", "p"));
    agents_stored(agents, 2);
    assert_int_equal(agents_count(agents), NODES - 2);
    is_empty_after(agents);
}

/* The entry is in the first of 16 slots, and the sanitizer of leaks tells whether it is freed. */
AGENTS_TEST(agents_free__frees_the_first_slot)
{
    char name[16];
    int number = 0;

    do
        (void)snprintf(name, sizeof name, "n%d", number++);
    while (text_hash(text_of(name)) >> 28 != 0);
    const struct node_facts facts = bare(name);
    (void)agents_see_node(agents, &facts);
    assert_int_equal(agents_count(agents), 1);
}

AGENTS_TEST(agents_node_gone__drops_an_entry_without_pods)
{
    const struct node_facts plain = bare("n");
    struct node_facts uninstalled = claimed("n");

    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(agents_count(agents), 0);
    (void)agents_see_node(agents, &plain);
    assert_int_equal(agents_count(agents), 1);
    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(agents_count(agents), 0);
    uninstalled.claim.leaving = AGENT_UNINSTALLED;
    (void)agents_see_node(agents, &uninstalled);
    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(agents_count(agents), 0);
}

/* An unreadable list is reported as an error of its own. */
AGENTS_TEST(agents_lost_gpus__is_false_for_an_unreadable_list)
{
    struct node_facts facts = naming("n");

    (void)agents_see_node(agents, &facts);
    facts.has_gpus = false;
    facts.n_gpus = 0;
    assert_true(agents_lost_gpus(agents, &facts));
    facts.gpus_error = "unreadable";
    assert_false(agents_lost_gpus(agents, &facts));
}

/* --- a random walk against a model --- */

enum { NODES = 4, PODS = 3, UIDS = 3 };

enum says { SAYS_NONE, SAYS_BARE, SAYS_CLAIM, SAYS_LEAVING, SAYS_UNINSTALLED, SAYS };

enum life { LIFE_NONE, LIFE_WAITS, LIFE_READY, LIFE_ENDS, LIVES };

/* A node as the cluster shows it, and the facts that the model keeps of it. */
struct model_node {
    bool there;
    bool label;
    bool gpus;
    unsigned uid;
    unsigned boot;
    enum says note;
    unsigned claims; /* the claim: pod, Node and boot */
    unsigned claims_uid;
    unsigned claims_boot;
    enum life pod[PODS];
    /* Past facts about the Node with this uid: it named GPUs, it was vouched for. */
    unsigned known_uid;
    bool named;
    bool vouched;
};

struct model {
    struct agents_rules rules;
    bool seen;
    struct model_node node[NODES];
};

/* The rows of a store. */
struct stored {
    bool seen;
    bool named[NODES];
    bool vouched[NODES];
    char uid[NODES][16];
};

struct walk {
    uint64_t seed;
    struct agents *agents;
    struct model model;
    struct stored stored;
    uint32_t met[VOUCHES];
};

static const char *const node_name[NODES] = {"n0", "n1", "n2", "n3"};
static const char *const uid_name[UIDS] = {"uid-0", "uid-1", "uid-2"};
static const char *const boot_name[UIDS] = {"boot-0", "boot-1", "boot-2"};
static const char *const pod_name[NODES][PODS] = {
    {"p00", "p01", "p02"}, {"p10", "p11", "p12"}, {"p20", "p21", "p22"}, {"p30", "p31", "p32"}};

static unsigned draw(struct walk *walk, unsigned below)
{
    return draw_below(&walk->seed, below);
}

static unsigned count_ready(const struct model_node *node)
{
    unsigned ready = 0;

    for (unsigned i = 0; i < PODS; i++)
        ready += node->pod[i] == LIFE_READY ? 1 : 0;
    return ready;
}

static bool is_selected(const struct model *model, const struct model_node *node)
{
    return node->there && node->label && model->rules.key.len > 0;
}

static bool is_agents(const struct model_node *node)
{
    return node->there && node->note != SAYS_NONE && node->note != SAYS_UNINSTALLED;
}

/* Tests the last reason first, so the first reason that applies wins. */
static enum vouch expected_of_agent(const struct model *model, const struct model_node *node)
{
    const bool always = model->rules.required == REQUIRE_ALWAYS;
    const enum says note = node->there ? node->note : SAYS_NONE;
    const bool wanted =
        always || (is_selected(model, node) && model->seen) || node->named || node->vouched;
    enum vouch vouch = VOUCH_GOOD;

    if (node->pod[node->claims] != LIFE_READY)
        vouch = VOUCH_NOT_READY;
    if (node->pod[node->claims] == LIFE_NONE)
        vouch = VOUCH_GONE;
    if (count_ready(node) >= 2)
        vouch = VOUCH_CLONED;
    if (node->claims_boot != node->boot)
        vouch = VOUCH_OTHER_BOOT;
    if (node->claims_uid != node->uid)
        vouch = VOUCH_OTHER_NODE;
    if (note == SAYS_BARE)
        vouch = node->vouched ? VOUCH_UNNAMED : VOUCH_NONE;
    if (model->rules.by_annotation)
        vouch = VOUCH_NONE;
    if (note == SAYS_NONE)
        vouch = wanted ? VOUCH_NO_AGENT : VOUCH_NONE;
    if (note == SAYS_LEAVING)
        vouch = VOUCH_LEAVING;
    if (note == SAYS_UNINSTALLED)
        vouch = always ? VOUCH_NO_AGENT : VOUCH_NONE;
    return model->rules.required == REQUIRE_NEVER ? VOUCH_NONE : vouch;
}

static enum vouch expected(const struct model *model, const struct model_node *node)
{
    const enum vouch vouch = expected_of_agent(model, node);
    const bool open = vouch == VOUCH_GOOD || vouch == VOUCH_NONE;

    return open && is_agents(node) && !node->named && model->rules.required != REQUIRE_NEVER
               ? VOUCH_NO_GPUS
               : vouch;
}

/* After an event of the node. */
static void model_learns(struct model *model, struct model_node *node)
{
    if (!node->there || node->uid != node->known_uid || node->note == SAYS_UNINSTALLED)
        node->named = node->vouched = false;
    node->known_uid = node->uid;
    node->named = node->named || (is_agents(node) && node->gpus);
    node->vouched = node->vouched || expected_of_agent(model, node) == VOUCH_GOOD;
}

static bool show_node(struct walk *walk, unsigned at)
{
    struct model_node *node = &walk->model.node[at];
    struct node_facts facts = bare(node_name[at]);
    const bool first = is_agents(node) && !walk->model.seen;

    facts.uid = uid_name[node->uid];
    facts.boot = boot_name[node->boot];
    facts.n_labels = node->label ? 2 : 1;
    facts.has_gpus = node->gpus;
    facts.n_gpus = node->gpus ? 2 : 0;
    facts.agent = node->note != SAYS_NONE;
    if (node->note == SAYS_CLAIM)
        facts.claim = (struct agent_claim){.pod = pod_name[at][node->claims],
                                           .node = uid_name[node->claims_uid],
                                           .boot = boot_name[node->claims_boot]};
    if (node->note == SAYS_LEAVING || node->note == SAYS_UNINSTALLED)
        facts.claim.leaving = node->note == SAYS_LEAVING ? "upgrade" : AGENT_UNINSTALLED;
    assert_int_equal(agents_see_node(walk->agents, &facts), first);
    walk->model.seen = walk->model.seen || first;
    model_learns(&walk->model, node);
    const bool lost = !node->gpus && node->named;
    assert_int_equal(agents_lost_gpus(walk->agents, &facts), lost);
    return first;
}

static void show_pod(struct walk *walk, unsigned at, unsigned pod)
{
    struct model_node *node = &walk->model.node[at];
    const enum life life = node->pod[pod];
    const struct pod shows = {.uid = pod_name[at][pod],
                              .node = node_name[at],
                              .is_agent = true,
                              .is_ready = life == LIFE_READY || life == LIFE_ENDS,
                              .terminating_ms = life == LIFE_ENDS ? 7 : 0};

    assert_int_equal(agents_see_pod(walk->agents, &shows), !walk->model.seen);
    walk->model.seen = true;
    if (node->there)
        model_learns(&walk->model, node);
}

static void change_pod(struct walk *walk, unsigned at)
{
    struct model_node *node = &walk->model.node[at];
    const unsigned pod = draw(walk, PODS);
    const bool was_there = node->pod[pod] != LIFE_NONE;

    node->pod[pod] = (enum life)draw(walk, LIVES);
    if (node->pod[pod] != LIFE_NONE) {
        show_pod(walk, at, pod);
        return;
    }
    assert_int_equal(pod_gone(walk->agents, node_name[at], pod_name[at][pod]), was_there);
    if (node->there)
        model_learns(&walk->model, node);
}

static void change_node(struct walk *walk, unsigned at)
{
    struct model_node *node = &walk->model.node[at];

    node->there = true;
    switch (draw(walk, 8)) {
    case 0:
        node->label = draw(walk, 2) == 0;
        break;
    case 1:
        node->gpus = draw(walk, 2) == 0;
        break;
    case 2:
        node->uid = draw(walk, UIDS);
        break;
    case 3:
        node->boot = draw(walk, UIDS);
        break;
    case 4:
        node->note = (enum says)draw(walk, SAYS);
        break;
    case 5:
        node->claims = draw(walk, PODS);
        break;
    default: /* the agent writes a valid claim */
        node->note = SAYS_CLAIM;
        node->claims_uid = node->uid;
        node->claims_boot = node->boot;
        break;
    }
    (void)show_node(walk, at);
}

static void delete_node(struct walk *walk, unsigned at)
{
    struct model_node *node = &walk->model.node[at];

    agents_node_gone(walk->agents, text_of(node_name[at]));
    node->there = false;
    node->named = node->vouched = false;
}

static unsigned find_node(const char *name)
{
    for (unsigned i = 0; i < NODES; i++)
        if (strcmp(name, node_name[i]) == 0)
            return i;
    fail_msg("no node %s", name);
    return 0;
}

/* Stores some changes and confirms them, as the store does. */
static void store_some(struct walk *walk, unsigned max)
{
    struct agent_memory memory;
    size_t at = 0;

    while (at < max && agents_next_changed(walk->agents, &at, &memory)) {
        const unsigned node = find_node(memory.node);
        walk->stored.named[node] = memory.named_gpus;
        walk->stored.vouched[node] = memory.vouched;
        (void)snprintf(walk->stored.uid[node], sizeof walk->stored.uid[node], "%s", memory.uid);
    }
    agents_stored(walk->agents, at);
    walk->stored.seen = agents_seen(walk->agents);
}

static void is_stored(const struct walk *walk)
{
    for (unsigned i = 0; i < NODES; i++) {
        const struct model_node *node = &walk->model.node[i];
        assert_int_equal(walk->stored.named[i], node->named);
        assert_int_equal(walk->stored.vouched[i], node->vouched);
        if (node->named || node->vouched)
            assert_string_equal(walk->stored.uid[i], uid_name[node->known_uid]);
    }
}

static void show_nodes(struct walk *walk, const struct model_node *are)
{
    agents_begin_nodes(walk->agents);
    for (unsigned i = 0; i < NODES; i++) {
        walk->model.node[i].there = are[i].there;
        if (are[i].there)
            (void)show_node(walk, i);
    }
    agents_end_nodes(walk->agents);
    for (unsigned i = 0; i < NODES; i++)
        if (!are[i].there)
            walk->model.node[i].named = walk->model.node[i].vouched = false;
}

static void show_pods(struct walk *walk, const struct model_node *are)
{
    for (unsigned i = 0; i < NODES; i++)
        for (unsigned pod = 0; pod < PODS; pod++) {
            walk->model.node[i].pod[pod] = are[i].pod[pod];
            if (are[i].pod[pod] != LIFE_NONE)
                show_pod(walk, i, pod);
        }
}

/* Two lists in either order; objects that are not listed yet count as absent. */
static void show_all(struct walk *walk)
{
    struct model_node are[NODES];

    memcpy(are, walk->model.node, sizeof are);
    for (unsigned i = 0; i < NODES; i++) {
        are[i].there = are[i].there && draw(walk, 4) > 0; /* deleted without an event */
        walk->model.node[i].there = false;
        memset(walk->model.node[i].pod, 0, sizeof walk->model.node[i].pod);
    }
    if (draw(walk, 2) == 0) {
        show_nodes(walk, are);
        show_pods(walk, are);
    } else {
        show_pods(walk, are);
        show_nodes(walk, are);
    }
}

/* Stores all changes, then a new process lists the cluster. */
static void restart(struct walk *walk)
{
    store_some(walk, UINT32_MAX);
    is_stored(walk);
    agents_free(walk->agents);
    walk->agents = agents_new(&walk->model.rules);
    if (walk->stored.seen)
        agents_remember_seen(walk->agents);
    for (unsigned i = 0; i < NODES; i++) {
        const struct agent_memory memory = {node_name[i], walk->stored.uid[i],
                                            walk->stored.named[i], walk->stored.vouched[i]};
        if (memory.named_gpus || memory.vouched)
            agents_remember(walk->agents, &memory);
    }
    show_all(walk);
}

/* Lists the Nodes again; one was deleted without an event. */
static void list_again(struct walk *walk, unsigned lost)
{
    struct model_node are[NODES];

    memcpy(are, walk->model.node, sizeof are);
    are[lost].there = false;
    show_nodes(walk, are);
}

static void step(struct walk *walk)
{
    const unsigned at = draw(walk, NODES);

    switch (draw(walk, 64)) {
    case 0:
        delete_node(walk, at);
        break;
    case 1:
        restart(walk);
        break;
    case 2:
        list_again(walk, at);
        break;
    case 3:
    case 4:
        store_some(walk, draw(walk, 4));
        break;
    default:
        if (draw(walk, 2) == 0)
            change_node(walk, at);
        else
            change_pod(walk, at);
        break;
    }
    for (unsigned i = 0; i < NODES; i++) {
        const enum vouch vouch = judged(walk->agents, node_name[i]);
        assert_int_equal(vouch, expected(&walk->model, &walk->model.node[i]));
        walk->met[vouch]++;
    }
    assert_int_equal(agents_seen(walk->agents), walk->model.seen);
    assert_true(agents_count(walk->agents) <= NODES);
}

static void end_walk(struct walk *walk)
{
    for (unsigned i = 0; i < NODES; i++) {
        delete_node(walk, i);
        for (unsigned pod = 0; pod < PODS; pod++)
            (void)pod_gone(walk->agents, node_name[i], pod_name[i][pod]);
    }
    store_some(walk, UINT32_MAX);
    is_stored(walk);
    assert_int_equal(agents_count(walk->agents), 0);
    agents_free(walk->agents);
}

TEST(agents__judge_any_cluster_like_the_model)
{
    static const struct agents_rules rules[] = {
        {.key = {"gpu", 3}, .value = {"yes", 3}},
        {.key = {"", 0}, .value = {"", 0}},
        {.required = REQUIRE_ALWAYS, .key = {"gpu", 3}, .value = {"yes", 3}},
        {.required = REQUIRE_NEVER, .key = {"gpu", 3}, .value = {"yes", 3}},
        {.by_annotation = true, .key = {"gpu", 3}, .value = {"yes", 3}},
    };
    const char *given = getenv("AGENTS_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    struct walk walk = {.seed = given != NULL ? strtoull(given, NULL, 10) : 42};

    print_message("AGENTS_SEED=%llu\n", (unsigned long long)walk.seed);
    for (int i = 0; i < walk_steps(2000, 100); i++) {
        walk.model = (struct model){.rules = rules[(unsigned)i % ARRAY_LEN(rules)]};
        walk.stored = (struct stored){0};
        walk.agents = agents_new(&walk.model.rules);
        for (int steps = 0; steps < 200; steps++)
            step(&walk);
        end_walk(&walk);
    }
    for (int vouch = 0; vouch < VOUCHES; vouch++)
        if (walk.met[vouch] == 0)
            fail_msg("the walk never met %s", vouch_name((enum vouch)vouch));
}
