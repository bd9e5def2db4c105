/* Which nodes their agents vouch for: each word, the memory, and a walk beside a model. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/agents.h"

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
                               .labels = 2,
                               .label = selected};
}

/* The same, and its agent names a GPU. */
static struct node_facts naming(const char *node)
{
    struct node_facts facts = claimed(node);

    facts.has_gpus = true;
    facts.gpus = 1;
    return facts;
}

static struct node_facts bare(const char *node)
{
    return (struct node_facts){.name = node, .uid = "node-uid", .labels = 2, .label = selected};
}

static bool see_pod(struct agents *agents, const char *node, const char *uid, bool ready)
{
    const struct pod pod = {.uid = uid, .node = node, .is_agent = true, .is_ready = ready};

    return agents_see_pod(agents, &pod);
}

static void see_terminating(struct agents *agents, const char *node, const char *uid)
{
    const struct pod pod = {
        .uid = uid, .node = node, .is_agent = true, .is_ready = true, .terminating_ms = 1};

    assert_false(agents_see_pod(agents, &pod));
}

static bool pod_gone(struct agents *agents, const char *node, const char *uid)
{
    return agents_pod_gone(agents, text_of(node), text_of(uid));
}

static enum vouch judged(const struct agents *agents, const char *node)
{
    return agents_check(agents, text_of(node));
}

/* Shows the Node and judges it. */
static enum vouch shown(struct agents *agents, const struct node_facts *facts)
{
    (void)agents_see_node(agents, facts);
    return judged(agents, facts->name);
}

/* Everything that changed is stored. */
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

/* There is one, and it says this. */
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

/* Another table, by these rules. */
static struct agents *anew(void **state, const struct agents_rules *rules)
{
    agents_free(*state);
    *state = agents_new(rules);
    return *state;
}

TEST(every_word_has_a_sentence_and_a_state)
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

/* The life of one node. */
AGENTS_TEST(every_word_is_reached_and_left)
{
    const struct node_facts without = bare("n");
    const struct node_facts first = naming("n");
    const struct node_facts nameless = claimed("n");
    struct node_facts facts = first;

    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    assert_int_equal(shown(agents, &without), VOUCH_NONE); /* no agent was seen anywhere */
    assert_true(see_pod(agents, "other", "q", false));
    assert_int_equal(judged(agents, "n"), VOUCH_NO_AGENT);
    facts.claim = (struct agent_claim){0};
    assert_int_equal(shown(agents, &facts), VOUCH_NONE); /* as before agents named their pod */
    assert_int_equal(shown(agents, &first), VOUCH_GONE);
    assert_false(see_pod(agents, "n", "p", false));
    assert_int_equal(judged(agents, "n"), VOUCH_NOT_READY);
    assert_false(see_pod(agents, "n", "p", true));
    assert_int_equal(judged(agents, "n"), VOUCH_GOOD);
    assert_int_equal(shown(agents, &facts), VOUCH_UNNAMED);
    assert_int_equal(shown(agents, &first), VOUCH_GOOD);
    assert_false(see_pod(agents, "n", "twin", true));
    assert_int_equal(judged(agents, "n"), VOUCH_CLONED);
    see_terminating(agents, "n", "twin");
    assert_int_equal(judged(agents, "n"), VOUCH_GOOD);
    see_terminating(agents, "n", "p");
    assert_int_equal(judged(agents, "n"), VOUCH_NOT_READY);
    assert_false(see_pod(agents, "n", "p", true));
    facts = first;
    facts.claim.node = "earlier-uid";
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_NODE);
    facts = first;
    facts.boot = "next-boot";
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_BOOT);
    facts.claim.boot = "next-boot";
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    facts.claim.leaving = "driver-upgrade";
    assert_int_equal(shown(agents, &facts), VOUCH_LEAVING);
    assert_int_equal(shown(agents, &without), VOUCH_NO_AGENT);
    facts.claim.leaving = AGENT_UNINSTALLED;
    assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    assert_int_equal(shown(agents, &nameless), VOUCH_NO_GPUS);
    assert_int_equal(shown(agents, &first), VOUCH_GOOD);
    assert_true(pod_gone(agents, "n", "p"));
    assert_int_equal(judged(agents, "n"), VOUCH_GONE);
    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    assert_true(pod_gone(agents, "n", "twin"));
    assert_true(pod_gone(agents, "other", "q"));
    is_empty_after(agents);
}

/* All at once, and one after the other is mended. */
AGENTS_TEST(of_several_reasons_one_is_told)
{
    struct node_facts facts = claimed("n");

    facts.claim = (struct agent_claim){
        .pod = "missing", .node = "earlier-uid", .boot = "earlier-boot", .leaving = "told"};
    (void)see_pod(agents, "n", "p", true);
    (void)see_pod(agents, "n", "twin", true);
    assert_int_equal(shown(agents, &facts), VOUCH_LEAVING);
    facts.claim.leaving = NULL;
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_NODE);
    facts.claim.node = "node-uid";
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_BOOT);
    facts.claim.boot = "boot";
    assert_int_equal(shown(agents, &facts), VOUCH_CLONED);
    (void)see_pod(agents, "n", "p", false);
    assert_int_equal(judged(agents, "n"), VOUCH_GONE); /* the one that is left is not named */
    (void)see_pod(agents, "n", "twin", false);
    facts.claim.pod = "p";
    assert_int_equal(shown(agents, &facts), VOUCH_NOT_READY);
}

/* A side that says nothing contradicts nothing, and an empty word says nothing. */
AGENTS_TEST(what_is_not_said_is_not_compared)
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
        facts.agent = false; /* then there is no claim either, whatever is left of it */
        assert_int_equal(shown(agents, &facts), VOUCH_NO_AGENT);
    }
}

TEST_BETWEEN(a_node_is_selected_by_one_label, set_up, tear_down)
{
    static struct label other_value[] = {{"gpu", "no"}};
    static struct label other_key[] = {{"gpu2", "yes"}};
    static struct label first[] = {{"gpu", "yes"}, {"zone", "yes"}};
    static struct label longer[] = {{"gpu", "yes!"}};
    static struct label empty[] = {{"", ""}};
    static const struct {
        struct label *label;
        uint32_t labels;
        enum vouch vouch;
    } row[] = {{selected, 2, VOUCH_NO_AGENT}, {first, 2, VOUCH_NO_AGENT},
               {selected, 1, VOUCH_NONE},     {NULL, 0, VOUCH_NONE},
               {other_value, 1, VOUCH_NONE},  {other_key, 1, VOUCH_NONE},
               {longer, 1, VOUCH_NONE}};
    struct agents *agents = *state;

    agents_remember_seen(agents);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct node_facts facts = bare("n");
        facts.labels = row[i].labels;
        facts.label = row[i].label;
        assert_int_equal(shown(agents, &facts), row[i].vouch);
        /* What nothing is to be said of has no entry. */
        assert_int_equal(agents_count(agents), row[i].vouch == VOUCH_NONE ? 0 : 1);
    }
    /* A key of one letter is a key. */
    static struct label short_label[] = {{"g", "y"}};
    const struct agents_rules letter = {.key = {"g", 1}, .value = {"y", 1}};
    struct node_facts shorter = bare("n");
    shorter.labels = 1;
    shorter.label = short_label;
    agents = anew(state, &letter);
    agents_remember_seen(agents);
    assert_int_equal(shown(agents, &shorter), VOUCH_NO_AGENT);
    /* The empty setting selects no node, not even one with such a label. */
    const struct agents_rules none = {.key = {"", 0}, .value = {"", 0}};
    struct node_facts facts = bare("n");
    facts.labels = 1;
    facts.label = empty;
    agents = anew(state, &none);
    agents_remember_seen(agents);
    assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    facts = claimed("n");
    assert_int_equal(shown(agents, &facts), VOUCH_GONE); /* there was an agent all the same */
}

TEST_BETWEEN(no_node_needs_an_agent_where_none_is_required, set_up, tear_down)
{
    const struct agents_rules never = {
        .required = REQUIRE_NEVER, .key = usual.key, .value = usual.value};
    struct agents *agents = anew(state, &never);
    struct node_facts facts = claimed("n");

    facts.has_gpus = true;
    facts.gpus = 2;
    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    (void)see_pod(agents, "n", "p", true);
    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    /* That pods vouch counts nowhere, and whose the GPUs are does. */
    has_changed(agents, "node-uid", true, false);
    facts.claim.leaving = "told";
    assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    facts.agent = facts.has_gpus = false;
    facts.gpus = 0;
    assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    assert_true(agents_lost_gpus(agents, &facts));
}

TEST_BETWEEN(every_node_needs_an_agent_where_that_is_always_required, set_up, tear_down)
{
    const struct agents_rules always = {
        .required = REQUIRE_ALWAYS, .key = usual.key, .value = usual.value};
    struct agents *agents = anew(state, &always);
    struct node_facts plain = {.name = "n", .uid = "node-uid"};
    struct node_facts facts = naming("n");

    assert_int_equal(judged(agents, "n"), VOUCH_NO_AGENT);
    assert_int_equal(shown(agents, &plain), VOUCH_NO_AGENT);
    (void)see_pod(agents, "n", "p", true);
    assert_int_equal(judged(agents, "n"), VOUCH_NO_AGENT); /* no Node names it */
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    /* Uninstalled or not, selected or not: every node. */
    facts.claim.leaving = AGENT_UNINSTALLED;
    assert_int_equal(shown(agents, &facts), VOUCH_NO_AGENT);
    assert_true(pod_gone(agents, "n", "p"));
    facts.labels = 0;
    assert_int_equal(shown(agents, &facts), VOUCH_NO_AGENT);
    facts.claim = (struct agent_claim){0};
    assert_int_equal(shown(agents, &facts), VOUCH_NONE); /* an agent outside of pods */
}

TEST_BETWEEN(an_annotation_is_enough_where_agents_run_outside_of_pods, set_up, tear_down)
{
    const struct agents_rules rules = {
        .by_annotation = true, .key = usual.key, .value = usual.value};
    struct agents *agents = anew(state, &rules);
    struct node_facts facts = naming("n");
    const struct node_facts without = bare("n");

    assert_true(agents_see_node(agents, &facts));
    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    (void)see_pod(agents, "n", "p", true);
    (void)see_pod(agents, "n", "twin", true);
    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    has_changed(agents, "node-uid", true, false); /* no pod vouched */
    facts.claim.leaving = "told";
    assert_int_equal(shown(agents, &facts), VOUCH_LEAVING);
    assert_int_equal(shown(agents, &without), VOUCH_NO_AGENT);
}

TEST_BETWEEN(the_first_agent_of_the_cluster_is_told_once, set_up, tear_down)
{
    struct node_facts facts = claimed("n");
    const struct node_facts without = bare("n");
    struct agents *agents = *state;

    assert_false(agents_see_node(agents, &without));
    facts.claim.leaving = AGENT_UNINSTALLED;
    assert_false(agents_see_node(agents, &facts)); /* it is no agent any more */
    assert_false(agents_seen(agents));
    facts.claim.leaving = NULL;
    assert_true(agents_see_node(agents, &facts));
    assert_true(agents_seen(agents));
    assert_false(agents_see_node(agents, &facts));
    assert_false(see_pod(agents, "n", "p", true));
    agents_node_gone(agents, TEXT("n"));
    assert_true(pod_gone(agents, "n", "p"));
    assert_true(agents_seen(agents)); /* for ever */
    is_empty_after(agents);

    agents = anew(state, &usual);
    assert_true(see_pod(agents, "n", "p", false));
    assert_false(see_pod(agents, "m", "q", false));

    agents = anew(state, &usual);
    agents_remember_seen(agents);
    assert_true(agents_seen(agents));
    assert_false(see_pod(agents, "n", "p", true));
    assert_false(agents_see_node(agents, &facts));
}

AGENTS_TEST(the_end_of_a_pod_is_known_by_its_node_and_uid)
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

/* The DaemonSet makes the next pod while the former one ends. */
TEST_BETWEEN(of_two_agents_the_one_that_is_left_vouches, set_up, tear_down)
{
    static const char *const ends[] = {"p", "twin"};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct agents *agents = anew(state, &usual);
        struct node_facts facts = naming("n");
        facts.claim.pod = ends[1 - i];
        (void)see_pod(agents, "n", "p", true);
        (void)see_pod(agents, "n", "twin", true);
        assert_int_equal(shown(agents, &facts), VOUCH_CLONED);
        has_changed(agents, "node-uid", true, false);
        assert_true(pod_gone(agents, "n", ends[i]));
        assert_int_equal(judged(agents, "n"), VOUCH_GOOD);
        has_changed(agents, "node-uid", true, true);
    }
}

AGENTS_TEST(what_is_remembered_is_told_when_it_changes)
{
    struct node_facts facts = claimed("n");

    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents));
    facts.has_gpus = true; /* which names none */
    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents));
    facts.gpus = 1;
    (void)agents_see_node(agents, &facts);
    has_changed(agents, "node-uid", true, false);
    store_all(agents);
    assert_true(has_no_changes(agents));
    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents)); /* nothing new */
    (void)see_pod(agents, "n", "p", true);
    has_changed(agents, "node-uid", true, true);
    (void)see_pod(agents, "n", "p", false); /* it vouched once */
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

/* Of a node whose agent is as it should be otherwise; every other reason comes first. */
AGENTS_TEST(an_agent_vouches_for_no_gpus_that_it_did_not_name)
{
    struct node_facts facts = claimed("n");

    assert_int_equal(shown(agents, &facts), VOUCH_GONE);
    (void)see_pod(agents, "n", "p", false);
    assert_int_equal(judged(agents, "n"), VOUCH_NOT_READY);
    (void)see_pod(agents, "n", "p", true);
    assert_int_equal(judged(agents, "n"), VOUCH_NO_GPUS);
    has_changed(agents, "node-uid", false, true); /* a pod vouched all the same */
    facts.has_gpus = true;                        /* an empty list */
    assert_int_equal(shown(agents, &facts), VOUCH_NO_GPUS);
    facts.has_gpus = false;
    facts.gpus_error = "unreadable";
    assert_int_equal(shown(agents, &facts), VOUCH_NO_GPUS);
    facts = naming("n");
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    facts = claimed("n"); /* they are lost, and stay */
    assert_true(agents_lost_gpus(agents, &facts));
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    facts.uid = facts.claim.node = "next-uid"; /* another Node has none yet */
    assert_int_equal(shown(agents, &facts), VOUCH_NO_GPUS);
    facts.claim.leaving = "told";
    assert_int_equal(shown(agents, &facts), VOUCH_LEAVING);
}

/* An agent that names no pod vouches no more than that. */
TEST_BETWEEN(an_annotation_vouches_for_no_gpus_that_it_did_not_name, set_up, tear_down)
{
    static const struct agents_rules rules[] = {
        {.key = {"gpu", 3}, .value = {"yes", 3}},
        {.required = REQUIRE_ALWAYS, .key = {"gpu", 3}, .value = {"yes", 3}},
        {.by_annotation = true, .key = {"gpu", 3}, .value = {"yes", 3}},
        {.required = REQUIRE_NEVER, .key = {"gpu", 3}, .value = {"yes", 3}}};

    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const bool never = rules[i].required == REQUIRE_NEVER;
        struct agents *agents = anew(state, &rules[i]);
        struct node_facts facts = claimed("n");
        facts.claim = (struct agent_claim){0};
        assert_int_equal(shown(agents, &facts), never ? VOUCH_NONE : VOUCH_NO_GPUS);
        facts = naming("n");
        facts.claim = (struct agent_claim){0};
        assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    }
}

/* Without the annotation of an agent, whoever wrote them is not known. */
AGENTS_TEST(gpus_that_no_agent_named_are_not_remembered)
{
    struct node_facts facts = bare("n");

    facts.has_gpus = true;
    facts.gpus = 1;
    (void)agents_see_node(agents, &facts);
    assert_true(has_no_changes(agents));
}

AGENTS_TEST(what_changed_is_stored_some_at_a_time)
{
    enum { NODES = 5 };
    static const char *const name[NODES] = {"n0", "n1", "n2", "n3", "n4"};
    struct agent_memory memory;
    size_t at = 0;

    for (size_t i = 0; i < NODES; i++) {
        struct node_facts facts = claimed(name[i]);
        facts.has_gpus = true;
        facts.gpus = 1;
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
    (void)see_pod(agents, "n0", "p", true); /* stored before, so it is the last now */
    agents_stored(agents, 3);
    at = 0;
    assert_true(agents_next_changed(agents, &at, &memory));
    is_memory(&memory, "n0", "node-uid", true, true);
    for (size_t i = 0; i < NODES; i++)
        agents_node_gone(agents, text_of(name[i]));
    assert_int_equal(agents_count(agents), NODES); /* that they are gone is not stored yet */
    assert_true(pod_gone(agents, "n0", "p"));
    agents_stored(agents, 2);
    assert_int_equal(agents_count(agents), NODES - 2);
    is_empty_after(agents);
}

AGENTS_TEST(another_node_of_the_name_begins_anew)
{
    struct node_facts facts = claimed("n");
    struct node_facts next = bare("n");

    facts.has_gpus = true;
    facts.gpus = 1;
    (void)see_pod(agents, "n", "p", true);
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    store_all(agents);
    next.uid = "next-uid";
    next.labels = 0;
    assert_int_equal(shown(agents, &next), VOUCH_NONE);
    has_changed(agents, "next-uid", false, false);
    assert_false(agents_lost_gpus(agents, &next));
    facts.uid = "next-uid"; /* and the annotations were copied */
    assert_int_equal(shown(agents, &facts), VOUCH_OTHER_NODE);
    has_changed(agents, "next-uid", true, false);
    facts.claim.node = "next-uid";
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    has_changed(agents, "next-uid", true, true);
}

TEST_BETWEEN(a_node_that_is_gone_leaves_its_pods, set_up, tear_down)
{
    struct node_facts facts = claimed("n");
    struct agents *agents = *state;

    agents_node_gone(agents, TEXT("n")); /* nobody knows it */
    assert_int_equal(agents_count(agents), 0);
    facts.has_gpus = true;
    facts.gpus = 1;
    facts.claim.leaving = "told";
    (void)see_pod(agents, "n", "p", true);
    (void)agents_see_node(agents, &facts);
    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(judged(agents, "n"), VOUCH_NONE);
    has_changed(agents, "node-uid", false, false);
    facts.claim.leaving = NULL;
    assert_int_equal(shown(agents, &facts), VOUCH_GOOD);
    agents_node_gone(agents, TEXT("n"));
    assert_true(pod_gone(agents, "n", "p"));
    is_empty_after(agents);
    agents = anew(state, &usual);
    const struct node_facts plain = bare("n"); /* of which nothing has to be stored */
    (void)agents_see_node(agents, &plain);
    assert_int_equal(agents_count(agents), 1);
    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(agents_count(agents), 0);
    facts.claim.leaving = AGENT_UNINSTALLED;
    (void)agents_see_node(agents, &facts);
    agents_node_gone(agents, TEXT("n"));
    assert_int_equal(agents_count(agents), 0);
}

/* A list shows no end of what it does not show. */
AGENTS_TEST(what_a_list_of_nodes_does_not_show_is_gone)
{
    const struct agent_memory memory = {"unshown", "uid", true, false};
    const struct node_facts kept = claimed("n");
    const struct node_facts lost = claimed("m");
    const struct node_facts late = claimed("late");

    agents_remember(agents, &memory); /* its Node was deleted while nobody watched */
    assert_int_equal(judged(agents, "unshown"), VOUCH_NO_AGENT);
    (void)agents_see_node(agents, &kept);
    (void)agents_see_node(agents, &lost);
    (void)see_pod(agents, "m", "p", true);
    agents_begin_nodes(agents);
    (void)agents_see_node(agents, &late);
    (void)agents_see_node(agents, &kept);
    agents_end_nodes(agents);
    assert_int_equal(judged(agents, "n"), VOUCH_GONE);
    assert_int_equal(judged(agents, "late"), VOUCH_GONE);
    assert_int_equal(judged(agents, "m"), VOUCH_NONE);
    assert_int_equal(judged(agents, "unshown"), VOUCH_NONE);
    agents_end_nodes(agents); /* again, after a batch that was lost */
    assert_int_equal(judged(agents, "n"), VOUCH_GONE);
    store_all(agents);
    assert_int_equal(agents_count(agents), 3);
    assert_true(pod_gone(agents, "m", "p"));
    agents_begin_nodes(agents);
    agents_end_nodes(agents);
    is_empty_after(agents);
}

AGENTS_TEST(what_was_remembered_closes_until_the_agent_is_back)
{
    static const struct agent_memory memory[] = {{"named", "node-uid", true, false},
                                                 {"vouched", "node-uid", false, true}};

    agents_remember(agents, &memory[0]);
    agents_remember(agents, &memory[1]);
    assert_true(has_no_changes(agents));
    assert_int_equal(agents_count(agents), 2);
    assert_false(agents_seen(agents)); /* that is remembered by itself */
    for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
        struct node_facts facts = bare(memory[i].node);
        facts.labels = 0;
        assert_int_equal(judged(agents, facts.name), VOUCH_NO_AGENT);
        assert_int_equal(shown(agents, &facts), VOUCH_NO_AGENT);
        assert_int_equal(agents_lost_gpus(agents, &facts), memory[i].named_gpus);
        facts.agent = true;
        assert_int_equal(shown(agents, &facts), memory[i].vouched ? VOUCH_UNNAMED : VOUCH_NONE);
        facts.uid = "next-uid";
        facts.agent = false;
        assert_false(agents_lost_gpus(agents, &facts)); /* also before it is shown */
        assert_int_equal(shown(agents, &facts), VOUCH_NONE);
    }
    is_empty_after(agents);
}

AGENTS_TEST(gpus_are_lost_if_an_agent_named_them_and_nothing_does_now)
{
    struct node_facts facts = claimed("n");
    struct node_facts without = bare("n");

    assert_false(agents_lost_gpus(agents, &without));
    (void)agents_see_node(agents, &facts);
    assert_false(agents_lost_gpus(agents, &without)); /* it named none yet */
    facts.has_gpus = true;
    facts.gpus = 1;
    (void)agents_see_node(agents, &facts);
    assert_false(agents_lost_gpus(agents, &facts));
    assert_true(agents_lost_gpus(agents, &without));
    facts.has_gpus = false;
    facts.gpus = 0;
    (void)agents_see_node(agents, &facts);
    assert_true(agents_lost_gpus(agents, &facts)); /* though the agent is there */
    facts.gpus_error = "unreadable";
    assert_false(agents_lost_gpus(agents, &facts)); /* which says so by itself */
    facts.gpus_error = NULL;
    facts.claim.leaving = AGENT_UNINSTALLED;
    (void)agents_see_node(agents, &facts);
    assert_false(agents_lost_gpus(agents, &facts));
}

/* --- a walk beside a model --- */

enum { NODES = 4, PODS = 3, UIDS = 3 };

enum says { SAYS_NONE, SAYS_BARE, SAYS_CLAIM, SAYS_LEAVING, SAYS_UNINSTALLED, SAYS };

enum life { LIFE_NONE, LIFE_WAITS, LIFE_READY, LIFE_ENDS, LIVES };

/* What the cluster shows of a node, and what the model knows of it. */
struct model_node {
    bool there;
    bool label;
    bool gpus;
    unsigned uid;
    unsigned boot;
    enum says note;
    unsigned claims; /* which pod, Node and boot */
    unsigned claims_uid;
    unsigned claims_boot;
    enum life pod[PODS];
    /* Facts of the past: the Node with this uid named GPUs, or was vouched for. */
    unsigned known_uid;
    bool named;
    bool vouched;
};

struct model {
    struct agents_rules rules;
    bool seen;
    struct model_node node[NODES];
};

/* What a store would hold. */
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
    walk->seed = walk->seed * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(walk->seed >> 33) % below;
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

/* From the last reason to the first, so that the first that applies is what is left. */
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
    facts.labels = node->label ? 2 : 1;
    facts.has_gpus = node->gpus;
    facts.gpus = node->gpus ? 2 : 0;
    facts.agent = node->note != SAYS_NONE;
    if (node->note == SAYS_CLAIM)
        facts.claim = (struct agent_claim){.pod = pod_name[at][node->claims],
                                           .node = uid_name[node->claims_uid],
                                           .boot = boot_name[node->claims_boot]};
    if (node->note == SAYS_LEAVING || node->note == SAYS_UNINSTALLED)
        facts.claim.leaving = node->note == SAYS_LEAVING ? "told" : AGENT_UNINSTALLED;
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
    default: /* the agent writes what is so */
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

/* As the store does: some of them, and then those are dropped. */
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

/* By two lists, in either order: what they have not shown yet is not there. */
static void show_all(struct walk *walk)
{
    struct model_node are[NODES];

    memcpy(are, walk->model.node, sizeof are);
    for (unsigned i = 0; i < NODES; i++) {
        are[i].there = are[i].there && draw(walk, 4) > 0; /* it went while nobody watched */
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

/* The process ends with all stored, and another is shown the cluster by two lists. */
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

/* The watch of Nodes was interrupted, and one of them went meanwhile. */
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

TEST(any_cluster_is_judged_as_the_model_judges_it)
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
