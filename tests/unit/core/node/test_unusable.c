/* Nodes that kube-scheduler may not use, in the ledger and in its reports. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/core/facts/tolerations.h"
#include "milligpu/core/node/account.h"
#include "milligpu/core/rank/policy.h"
#include "milligpu/core/rules/rulebook.h"

#include "support/core_fixture.h"
#include "support/test.h"
#include "support/valid.h"

static const struct core_gpu two[] = {{.index = 0, .mib = 16000}, {.index = 1, .mib = 16000}};
static const struct taint team = {"team", "a", EFFECT_NO_SCHEDULE};
static const struct taint other = {"other", "", EFFECT_NO_EXECUTE};
static const struct node_taints tainted = {.n_taints = 1, .taint = &team};
static const struct node_taints cordoned = {.unschedulable = true};
static const struct node_taints nothing = {0};
static const struct toleration any = {"", "", TOLERATE_EXISTS, EFFECT_ANY};
static const struct toleration one = {"other", "", TOLERATE_EXISTS, EFFECT_ANY};

static enum verdict show(struct core_fixture *core, const char *name,
                         const struct node_taints *taints)
{
    struct inventory *inventory = core_inventory(core, name, "uid", two, 2);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    inventory->taints = *taints;
    return core_do(core, &command);
}

/* With a taint of this key only. */
static void show_taint(struct core_fixture *core, const char *name, const char *key)
{
    const struct taint own = {key, "", EFFECT_NO_SCHEDULE};
    (void)show(core, name, &(struct node_taints){.n_taints = 1, .taint = &own});
}

static const struct node *node_of(const struct core_fixture *core, const char *name)
{
    return ledger_node(core->ledger, text_of(name));
}

static bool gave_room(const struct core_fixture *core)
{
    return change_gives_room(&core->done[core->n_done - 1]);
}

CORE_TEST(taints__are_stored_with_the_node_once)
{
    assert_int_equal(show(core, "a", &nothing), VERDICT_OK);
    assert_null(node_of(core, "a")->taints);
    assert_int_equal(show(core, "a", &tainted), VERDICT_OK);
    assert_true(core->done[core->n_done - 1].unwritten);
    assert_int_equal(node_of(core, "a")->unusable.why, UNUSABLE_TAINTED);
    assert_string_equal(node_of(core, "a")->unusable.taint->key, "team");
    const struct taints *kept = node_of(core, "a")->taints;
    assert_int_equal(show(core, "a", &tainted), VERDICT_SAME);         /* a heartbeat */
    assert_int_equal(core_reserve(core, "p", "a", "300"), VERDICT_OK); /* grants go on */
    assert_ptr_equal(node_of(core, "a")->taints, kept);
    assert_int_equal(node_of(core, "a")->unusable.why, UNUSABLE_TAINTED);
    assert_int_equal(show(core, "a", &cordoned), VERDICT_OK);
    assert_int_equal(node_of(core, "a")->unusable.why, UNUSABLE_CORDONED);
    core_undo(core);
    assert_int_equal(node_of(core, "a")->unusable.why, UNUSABLE_TAINTED);
}

CORE_TEST(taints__give_room_only_when_they_end)
{
    (void)show(core, "a", &cordoned);
    assert_int_equal(core_reserve(core, "p", "a", "300"), VERDICT_OK);
    assert_int_equal(show(core, "a", &tainted), VERDICT_OK);
    assert_false(gave_room(core)); /* for another reason */
    assert_int_equal(show(core, "a", &nothing), VERDICT_OK);
    assert_true(gave_room(core));
    assert_int_equal(show(core, "a", &cordoned), VERDICT_OK);
    assert_false(gave_room(core));
}

CORE_TEST(account__names_room_closed_by_taints)
{
    static const struct taint leaving = {"ToBeDeletedByClusterAutoscaler", "17",
                                         EFFECT_NO_SCHEDULE};
    static const struct {
        struct node_taints taints;
        enum account_part part;
    } cases[] = {
        {{0}, ACCOUNT_FREE},
        {{.unschedulable = true}, ACCOUNT_CORDONED},
        {{.not_ready = true}, ACCOUNT_NOT_READY},
        {{.n_taints = 1, .taint = &team}, ACCOUNT_TAINTED},
        {{.n_taints = 1, .taint = &leaving}, ACCOUNT_LEAVING},
        {{.unreadable = true}, ACCOUNT_TAINTS_UNREADABLE},
    };
    struct gpu_account account;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)show(core, "a", &cases[i].taints);
        const struct node *node = node_of(core, "a");
        gpu_account(node, &node->gpu[0], &account);
        assert_int_equal(account.milli[cases[i].part], GPU_MILLI);
        assert_int_equal(account.total_milli, GPU_MILLI);
        assert_int_equal(node->free_milli, 2 * GPU_MILLI); /* grants are kube-scheduler's choice */
        assert_int_equal(node_is_idle(node), cases[i].part == ACCOUNT_FREE);
    }
}

/* A sick GPU of a cordoned node is sick. */
CORE_TEST(account__prefers_the_obstacle_of_the_gpu)
{
    static const struct core_gpu sick[] = {{.index = 0, .mib = 16000, .sick = true}};
    struct inventory *inventory = core_inventory(core, "a", "uid", sick, 1);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};
    struct gpu_account account;

    inventory->taints = cordoned;
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    gpu_account(node_of(core, "a"), &node_of(core, "a")->gpu[0], &account);
    assert_int_equal(account.milli[ACCOUNT_UNHEALTHY], GPU_MILLI);
}

static uint32_t idle_of(const struct core_fixture *core)
{
    return ledger_policy_context(core->ledger)->idle[0];
}

/* reserve: 1 of each node, as a document would say it. */
static void keep_one(struct core_fixture *core)
{
    static struct rule rule = {.name = "keep-one", .reserve = 1};
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "test");

    book->n_rules = 1;
    book->rule = &rule;
    core_obey(core, book, RULES_ALL, NULL);
}

CORE_TEST(reserve_rule__does_not_count_unusable_hosts)
{
    keep_one(core);
    (void)show(core, "good", &nothing);
    (void)show(core, "bad", &cordoned);
    assert_int_equal(idle_of(core), 1);
    assert_int_equal(core_reserve(core, "single", "good", "1000"), VERDICT_REFUSED);
    assert_int_equal(core->reason, REASON_RESERVE);
    assert_int_equal(show(core, "bad", &nothing), VERDICT_OK);
    assert_int_equal(idle_of(core), 2);
    assert_int_equal(core_reserve(core, "single", "good", "1000"), VERDICT_OK);
    assert_int_equal(idle_of(core), 1);
    core_undo(core);
    assert_int_equal(show(core, "bad", &tainted), VERDICT_OK);
    assert_int_equal(idle_of(core), 1);
    assert_int_equal(core_reserve(core, "quad", "good", "2000"), VERDICT_OK);
    assert_int_equal(idle_of(core), 0);
    ledger_assert_valid(core->ledger);
}

static uint64_t capacity_of(struct core_fixture *core)
{
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    const uint64_t generation = snapshot->capacity_generation;

    snapshot_unref(snapshot);
    return generation;
}

/* A pod's demands of labels, on a node that only a question knows. */
CORE_TEST(node_bar__matches_the_labels_of_a_node)
{
    static const struct label label[] = {{"a", "1"}, {"pool", "x"}};
    static const struct {
        struct label wants;
        enum unusable why;
    } row[] = {
        {{"a", "1"}, USABLE},
        {{"pool", "x"}, USABLE},
        {{"pool", "y"}, UNUSABLE_AFFINITY},
        {{"none", "x"}, UNUSABLE_AFFINITY},
        {{"", ""}, UNUSABLE_AFFINITY},
    };
    struct inventory *inventory = core_inventory(core, "seen", "uid", two, 2);
    struct names *names = ledger_names(core->ledger);

    inventory->n_labels = 2;
    inventory->label = label;
    inventory->taints = tainted;
    struct node *node = node_from_inventory(inventory, NULL, names);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct node_demands demands = {
            .n_tolerations = 1, .toleration = &any, .n_selectors = 1, .selector = &row[i].wants};
        assert_int_equal(node_bar(node, &demands).why, row[i].why);
    }
    node_unref(node);
}

/* The loop over the nodes includes slot 0. */
CORE_TEST(tolerations__apply_to_the_first_node)
{
    struct tolerations *known = tolerations_new();

    (void)show(core, "team", &tainted);
    core_forget_undo(core);
    struct known_toleration *kept = tolerations_add(known, &any);
    assert_int_equal(ledger_set_tolerations(core->ledger, known), 1);
    tolerations_drop(known, kept);
    (void)ledger_set_tolerations(core->ledger, NULL);
    tolerations_free(known);
}

CORE_TEST(tolerations__open_and_close_nodes)
{
    struct tolerations *known = tolerations_new();

    keep_one(core);
    (void)show(core, "plain", &nothing);
    (void)show(core, "team", &tainted);
    (void)show(core, "bad", &cordoned);
    (void)show(core, "both",
               &(struct node_taints){.n_taints = 2, .taint = (struct taint[]){team, other}});
    core_forget_undo(core);
    assert_int_equal(ledger_set_tolerations(core->ledger, known), 0);
    assert_int_equal(idle_of(core), 1);
    struct known_toleration *first = tolerations_add(known, &one);
    const uint64_t before = capacity_of(core);
    assert_int_equal(ledger_set_tolerations(core->ledger, known), 0);
    assert_int_equal(capacity_of(core), before);
    struct known_toleration *second = tolerations_add(known, &any);
    assert_int_equal(ledger_set_tolerations(core->ledger, known), 2);
    assert_int_equal(ledger_set_tolerations(core->ledger, known), 0);
    assert_true(capacity_of(core) > before);
    assert_int_equal(node_of(core, "team")->unusable.why, USABLE);
    assert_int_equal(node_of(core, "bad")->unusable.why, UNUSABLE_CORDONED);
    assert_int_equal(idle_of(core), 3);
    /* The same tolerations apply to a Node that is shown later. */
    assert_int_equal(show(core, "new", &tainted), VERDICT_OK);
    assert_int_equal(node_of(core, "new")->unusable.why, USABLE);
    assert_int_equal(idle_of(core), 4);
    core_forget_undo(core);
    const uint64_t open = capacity_of(core);
    tolerations_drop(known, second);
    assert_int_equal(ledger_set_tolerations(core->ledger, known), 3);
    assert_int_equal(capacity_of(core), open); /* nothing came free */
    assert_int_equal(idle_of(core), 1);
    assert_string_equal(node_of(core, "both")->unusable.taint->key, "team");
    tolerations_drop(known, first);
    assert_int_equal(ledger_set_tolerations(core->ledger, NULL), 0);
    ledger_assert_valid(core->ledger);
    tolerations_free(known);
}

static const struct unschedulable *unschedulable_for(struct core_fixture *core,
                                                     const struct node_demands *demands)
{
    struct unschedulable *out = arena_alloc(&core->arena, sizeof *out);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    const struct unschedulable_question question = {core_request(core, "600"), demands};

    unschedulable_of(snapshot, &question, &core->arena, out);
    snapshot_unref(snapshot);
    return out;
}

CORE_TEST(unschedulable__counts_unusable_nodes_by_reason)
{
    const struct node_demands plain = {0};
    const struct node_demands tolerant = {.n_tolerations = 1, .toleration = &any};
    const struct node_demands unread = {.n_tolerations = 1, .toleration = &any, .unreadable = true};
    const struct label zone = {"zone", "a"};
    const struct node_demands zoned = {
        .n_tolerations = 1, .toleration = &any, .n_selectors = 1, .selector = &zone};

    (void)show(core, "free", &nothing);
    (void)show(core, "c1", &cordoned);
    for (uint32_t i = 0; i < 4; i++)
        (void)show(core, arena_printf(&core->arena, "t%u", i), &tainted);
    (void)show(core, "full", &tainted);
    assert_int_equal(core_reserve(core, "p", "full", "900x2"), VERDICT_OK);
    const struct unschedulable *unschedulable = unschedulable_for(core, &plain);
    assert_int_equal(unschedulable->nodes[REASON_NONE], 1);
    assert_int_equal(unschedulable->nodes[REASON_ROOM], 1);
    assert_int_equal(unschedulable_barred(unschedulable), 5);
    assert_int_equal(unschedulable->n_bars, 2);
    assert_int_equal(unschedulable->bar[0].why, UNUSABLE_TAINTED); /* most nodes first */
    assert_string_equal(unschedulable->bar[0].taint, "team");
    assert_int_equal(unschedulable->bar[0].nodes, 4);
    assert_int_equal(unschedulable->bar[0].n_names, UNSCHEDULABLE_NAMES_MAX);
    assert_int_equal(unschedulable->bar[1].why, UNUSABLE_CORDONED);
    assert_int_equal(unschedulable->bar[1].n_names, 1);
    assert_string_equal(unschedulable->bar[1].name[0]->text, "c1");
    assert_int_equal(unschedulable->moment[REASON_NONE].gpus, 12);
    assert_int_equal(unschedulable->moment[REASON_NONE].open, 2);
    assert_int_equal(unschedulable->moment[REASON_NONE].free_milli, 2000);
    assert_int_equal(unschedulable->moment[REASON_NONE].unusable[UNUSABLE_TAINTED], 8);
    assert_false(unschedulable->never);
    unschedulable = unschedulable_for(core, &tolerant);
    assert_int_equal(unschedulable->nodes[REASON_NONE], 6);
    assert_int_equal(unschedulable->n_bars, 0);
    assert_int_equal(unschedulable_barred(unschedulable), 0);
    unschedulable = unschedulable_for(core, &unread);
    assert_int_equal(unschedulable->bar[0].why, UNUSABLE_UNKNOWN);
    assert_int_equal(unschedulable_barred(unschedulable), 6);
    unschedulable = unschedulable_for(core, NULL);
    assert_int_equal(unschedulable->bar[0].why, UNUSABLE_UNKNOWN);
    assert_null(unschedulable->bar[0].taint);
    unschedulable = unschedulable_for(core, &zoned);
    assert_int_equal(unschedulable->bar[0].why, UNUSABLE_AFFINITY);
    assert_int_equal(unschedulable->n_bars, 1);
}

/* A cluster with another taint on each node must not get a line for each. */
CORE_TEST(unschedulable__counts_taints_beyond_the_limit_together)
{
    enum { MORE = 3 };
    const struct node_demands plain = {0};

    for (uint32_t i = 0; i < UNSCHEDULABLE_BARS_MAX + MORE; i++)
        show_taint(core, arena_printf(&core->arena, "n%02u", i),
                   arena_printf(&core->arena, "k%02u", i));
    (void)show(core, "z", &cordoned);
    const struct unschedulable *unschedulable = unschedulable_for(core, &plain);
    assert_int_equal(unschedulable->n_bars, UNSCHEDULABLE_BARS_MAX + 2);
    assert_int_equal(unschedulable->bar[0].nodes, MORE);
    assert_null(unschedulable->bar[0].taint);
    assert_int_equal(unschedulable->bar[1].why, UNUSABLE_CORDONED);
    for (uint32_t i = 2; i < unschedulable->n_bars; i++) {
        assert_int_equal(unschedulable->bar[i].nodes, 1);
        assert_string_equal(unschedulable->bar[i].taint,
                            arena_printf(&core->arena, "k%02u", (unsigned)i - 2));
    }
    assert_int_equal(unschedulable_barred(unschedulable), UNSCHEDULABLE_BARS_MAX + MORE + 1);
}

/* Taints of equally many nodes are sorted by key; the sum of the others is last. */
CORE_TEST(unschedulable__sorts_equal_taints_by_key)
{
    const struct node_demands plain = {0};

    for (uint32_t i = 0; i <= UNSCHEDULABLE_BARS_MAX; i++)
        show_taint(core, arena_printf(&core->arena, "n%02u", i),
                   arena_printf(&core->arena, "k%02u", UNSCHEDULABLE_BARS_MAX - i));
    const struct unschedulable *unschedulable = unschedulable_for(core, &plain);
    assert_int_equal(unschedulable->n_bars, UNSCHEDULABLE_BARS_MAX + 1);
    for (uint32_t i = 0; i < UNSCHEDULABLE_BARS_MAX; i++)
        assert_string_equal(unschedulable->bar[i].taint,
                            arena_printf(&core->arena, "k%02u", (unsigned)i + 1));
    assert_null(unschedulable->bar[UNSCHEDULABLE_BARS_MAX].taint);
    assert_int_equal(unschedulable->bar[UNSCHEDULABLE_BARS_MAX].nodes, 1);
    struct unschedulable first = *unschedulable;
    first.n_bars = 1; /* entries behind the last do not count */
    assert_int_equal(unschedulable_barred(&first), 1);
}

CORE_TEST(moment_format__lists_unusable_gpus)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct moment moment = {.gpus = 8, .open = 1, .free_milli = 400, .piece_milli = 400};

    moment.unusable[USABLE] = 1;
    moment.unusable[UNUSABLE_LEAVING] = 2;
    moment.unusable[UNUSABLE_CORDONED] = 1;
    moment.unusable[UNUSABLE_UNKNOWN] = 5;
    strbuf_init(&text);
    moment_format(&text, &moment);
    assert_string_equal(text.data,
                        "largest free piece 400 milli, 400 milli free on 1 of 8 GPUs, "
                        "2 unusable (leaving), 1 unusable (cordoned), 5 unusable (unknown)");
}

CORE_TEST(node_check__reports_an_unusable_node_without_taints)
{
    struct err err;

    (void)show(core, "a", &cordoned);
    struct node *odd =
        node_with_unusable(node_of(core, "a"), (struct unusable_cause){.why = UNUSABLE_TAINTED});
    assert_int_equal(node_check(odd, &err), 0);
    assert_int_equal(odd->unusable.why, UNUSABLE_TAINTED);
    taints_unref(odd->taints);
    odd->taints = NULL;
    assert_true(node_check(odd, &err) < 0);
    assert_non_null(strstr(err.text, "it is unusable, and says nothing"));
    node_unref(odd);
}
