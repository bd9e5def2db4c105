#include <stdio.h>

#include "milligpu/wire/admin/wire_admin.h"

#include "support.h"
#include "support/core_fixture.h"

static const struct core_gpu two[] = {{.index = 0, .mib = 81920}, {.index = 1, .mib = 81920}};

static const struct node *node_of(const struct core_fixture *core, const char *name)
{
    const struct node *node = ledger_node(core->ledger, text_of(name));
    assert_non_null(node);
    return node;
}

/* The caller xfrees it. */
static char *node_json(const struct node *node, bool pods)
{
    struct strbuf out;
    struct json_writer json;

    strbuf_init(&out);
    json_writer_init(&json, &out);
    admin_node(&json, node, NULL, NULL, pods);
    return strbuf_steal(&out);
}

/* The node's JSON has this part. */
static void assert_node(const struct core_fixture *core, const char *name, const char *part)
{
    CLEANUP(freep) char *json = node_json(node_of(core, name), false);

    assert_has(json, part);
}

CORE_TEST(node_json__has_its_gpus)
{
    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    CLEANUP(freep) char *json = node_json(node_of(core, "n1"), false);
    assert_has(json, "'capacityMilli':2000,'usedMilli':0,'reservedMilli':300,'freeMilli':1700,"
                     "'largestFreeMilli':1000");
    assert_has(json, "'id':'n1/gpu-0','index':0");
    assert_lacks(json, "holders");
    CLEANUP(freep) char *whole = node_json(node_of(core, "n1"), true);
    assert_has(whole, "'state':'reserved','milli':300");
    assert_has(whole, "'holders':[]"); /* the other GPU */
}

CORE_TEST(free_milli__of_a_closed_gpu_is_0)
{
    static const struct core_gpu gpus[] = {{.index = 0, .mib = 10, .sick = true},
                                           {.index = 1, .mib = 10, .cordoned = true},
                                           {.index = 2, .mib = 10, .milli = 500}};

    assert_int_equal(core_node(core, "n1", gpus, 3), VERDICT_OK);
    const struct node *node = node_of(core, "n1");
    assert_string_equal(admin_gpu_state(&node->gpu[0]), "unhealthy");
    assert_string_equal(admin_gpu_state(&node->gpu[1]), "cordoned");
    assert_string_equal(admin_gpu_state(&node->gpu[2]), "ok");
    assert_int_equal(admin_gpu_free(node, &node->gpu[0]), 0);
    assert_int_equal(admin_gpu_free(node, &node->gpu[1]), 0);
    assert_int_equal(admin_gpu_free(node, &node->gpu[2]), 500);
    assert_node(core, "n1", "'cordoned':false,'agent':false,'vouch':'none','capacityMilli':2500");
    assert_node(core, "n1", "'freeMilli':500,'largestFreeMilli':500");
}

CORE_TEST(node_json__has_its_topology)
{
    static const struct core_gpu gpus[] = {
        {.id = "GPU-a", .index = 0, .socket = 1, .peers = 6},
        {.id = "GPU-b", .index = 1, .socket = 3, .peers = 1},
        {.id = "GPU-c", .index = 2, .peers = 1},
        {.id = "GPU-d", .index = 3},
    };

    assert_int_equal(core_node(core, "n1", gpus, 4), VERDICT_OK);
    assert_node(core, "n1", "'cordoned':false,'numa':0,'nvlink':['GPU-b','GPU-c']}");
    assert_node(core, "n1", "'cordoned':false,'numa':2,'nvlink':['GPU-a']}");
    assert_node(core, "n1", "'cordoned':false,'nvlink':['GPU-a']}");
    assert_node(core, "n1", "'cordoned':false}]");
}

CORE_TEST(node_json__has_a_cordon_beside_a_stronger_reason)
{
    static const struct core_gpu gpus[] = {
        {.index = 0, .mib = 10, .sick = true, .cordoned = true},
        {.index = 1, .mib = 10, .sick = true},
    };

    assert_int_equal(core_node(core, "n1", gpus, 2), VERDICT_OK);
    assert_node(core, "n1", "'state':'unhealthy','cordoned':true");
    assert_node(core, "n1", "'state':'unhealthy','cordoned':false");
}

CORE_TEST(amounts__of_an_absent_gpu_are_its_charges_only)
{
    struct admin_amounts amounts = {0};

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "2000"), VERDICT_OK);
    assert_int_equal(core_node(core, "n1", two, 1), VERDICT_OK);
    const struct node *node = node_of(core, "n1");
    assert_int_equal(node->n_gpus, 2);
    for (uint32_t i = 0; i < node->n_gpus; i++)
        admin_amounts_add(&amounts, node, &node->gpu[i], 0);
    assert_int_equal(amounts.capacity_milli, 1000);
    assert_int_equal(amounts.part_milli[ACCOUNT_RESERVED], 2000);
    assert_int_equal(amounts.part_milli[ACCOUNT_FREE], 0);
    assert_string_equal(admin_gpu_state(&node->gpu[1]), "absent");
}

CORE_TEST(node_state__of_a_closed_node_has_a_reason)
{
    struct pod *whole = core_pod(core, "w", "n1");

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    whole->ours = false;
    whole->whole_gpus = 1;
    assert_int_equal(core_adopt(core, whole, NULL), VERDICT_OK);
    const struct node *node = node_of(core, "n1");
    assert_string_equal(admin_node_state(node), "mixed");
    CLEANUP(freep) char *json = node_json(node, false);
    assert_has(json, "'state':'mixed','stateText':'a pod with whole GPUs");
    assert_has(
        json,
        "'freeMilli':0,'largestFreeMilli':0,'fragmentMilli':0,'totalMilli':2000,'beyondMilli':0,"
        "'heldMilli':1000,'closedMilli':1000,'heldGpus':1");
}

CORE_TEST(held_gpu__names_its_holder)
{
    static const struct core_gpu four[] = {
        {.id = "GPU-a", .index = 0, .mib = 10, .held = "pod:w"},
        {.id = "GPU-b", .index = 1, .mib = 10, .held = "pod:nobody", .sick = true, .ill = "XID 79"},
        {.id = "GPU-c", .index = 2, .mib = 10, .held = "process"},
        {.id = "GPU-d", .index = 3, .mib = 10, .held = "env:x"},
    };
    static const char *const said[] = {
        "'state':'held','cordoned':false,'heldBy':'default/pod-w'",
        "'heldBy':'pod:nobody','healthText':'XID 79'",
        "'heldBy':'process'",
        "'state':'ok','cordoned':false,'heldBy':'env:x'",
        "'freeMilli':1000,'largestFreeMilli':1000",
        "'heldMilli':3000,'closedMilli':0,'heldGpus':1,'unnamedGpus':0"};
    struct pod *whole = core_pod(core, "w", "n1");

    assert_int_equal(core_node(core, "n1", four, 4), VERDICT_OK);
    whole->ours = false;
    whole->whole_gpus = 1;
    assert_int_equal(core_adopt(core, whole, NULL), VERDICT_OK);
    assert_string_equal(admin_node_state(node_of(core, "n1")), "ok");
    for (size_t i = 0; i < ARRAY_LEN(said); i++)
        assert_node(core, "n1", said[i]);
}

CORE_TEST(duplicate_gpu__is_ok_on_the_first_node)
{
    static const struct core_gpu same[] = {{.id = "GPU-a", .index = 0, .mib = 10}};
    const struct command again = {.kind = COMMAND_NODE, .node = "n1"}; /* as the writer does */

    assert_int_equal(core_node(core, "n1", same, 1), VERDICT_OK);
    assert_int_equal(core_node(core, "n2", same, 1), VERDICT_OK);
    assert_int_equal(core_do(core, &again), VERDICT_OK);
    assert_int_equal(node_of(core, "n1")->gpu[0].flags, GPU_CONTESTED);
    assert_string_equal(admin_gpu_state(&node_of(core, "n1")->gpu[0]), "ok");
    assert_string_equal(admin_gpu_state(&node_of(core, "n2")->gpu[0]), "duplicate");
}

/* Each reason has its own sentence; leaving was requested, so it has its own state. */
CORE_TEST(node_state__of_an_unvouched_node_has_a_reason)
{
    char expected[256];

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    for (int i = VOUCH_GOOD; i < VOUCHES; i++) {
        const enum vouch vouch = (enum vouch)i;
        const struct command judge = {
            .kind = COMMAND_NODE, .node = "n1", .has_vouch = true, .vouch = vouch};
        assert_int_equal(core_do(core, &judge), VERDICT_OK);
        const char *word = vouch == VOUCH_GOOD      ? "ok"
                           : vouch == VOUCH_LEAVING ? "agent_leaving"
                                                    : "not_vouched";
        assert_string_equal(admin_node_state(node_of(core, "n1")), word);
        assert_string_equal(admin_node_shown(node_of(core, "n1")), word);
        (void)snprintf(expected, sizeof expected, "'state':'%s','stateText':'%s'", word,
                       vouch == VOUCH_GOOD ? "" : vouch_help(vouch));
        assert_node(core, "n1", expected);
        (void)snprintf(expected, sizeof expected, "'vouch':'%s'", vouch_name(vouch));
        assert_node(core, "n1", expected);
        assert_node(core, "n1", vouch == VOUCH_GOOD ? "'freeMilli':2000," : "'freeMilli':0,");
    }
}

CORE_TEST(node_shown__is_in_the_table_of_words)
{
    static const struct core_gpu cordoned[] = {{.index = 0, .mib = 10, .cordoned = true}};
    size_t words = 0;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_node(core, "n2", cordoned, 1), VERDICT_OK);
    assert_string_equal(admin_node_shown(node_of(core, "n1")), "ok");
    assert_string_equal(admin_node_state(node_of(core, "n2")), "ok");
    assert_string_equal(admin_node_shown(node_of(core, "n2")), "cordoned");
    while (admin_node_word(words) != NULL)
        words++;
    assert_int_equal(words, 16);
    struct inventory *inventory = core_inventory(core, "n3", "uid", cordoned, 1);
    inventory->plugin.state = PLUGIN_DOWN;
    const struct command down = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(core, &down), VERDICT_OK);
    assert_string_equal(admin_node_shown(node_of(core, "n3")), "plugin");
    inventory = core_inventory(core, "n4", "uid", NULL, 0);
    inventory->problem = PROBLEM_NO_SOURCE;
    const struct command bare = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(core, &bare), VERDICT_OK);
    assert_string_equal(admin_node_shown(node_of(core, "n4")), "no_source");
    assert_string_equal(admin_node_word(1), "cordoned");
}

/* Only for nodes with GPUs: a control plane is tainted, and has no room to offer. */
CORE_TEST(node_state__of_a_tainted_node_has_a_reason)
{
    static const struct taint team = {"team", "a", EFFECT_NO_EXECUTE};
    static const struct taint plain = {"plain", "", EFFECT_NO_SCHEDULE};
    struct inventory *inventory = core_inventory(core, "n1", "uid", two, 2);
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory};

    inventory->taints = (struct node_taints){.n_taints = 1, .taint = &team};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_string_equal(admin_node_state(node_of(core, "n1")), "tainted");
    assert_string_equal(admin_node_shown(node_of(core, "n1")), "tainted");
    assert_true(admin_node_is(node_of(core, "n1"), "closed"));
    assert_true(admin_node_is(node_of(core, "n1"), "tainted"));
    assert_int_equal(admin_gpu_free(node_of(core, "n1"), &node_of(core, "n1")->gpu[0]), 0);
    assert_node(core, "n1",
                "'state':'tainted','stateText':'a taint that is not tolerated: team=a:NoExecute'");
    assert_node(core, "n1", "'freeMilli':0,'largestFreeMilli':0");
    inventory->taints = (struct node_taints){.n_taints = 1, .taint = &plain};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_node(core, "n1", "not tolerated: plain:NoSchedule\"");
    inventory->taints = (struct node_taints){.unreadable = true};
    assert_int_equal(core_do(core, &command), VERDICT_OK);
    assert_node(core, "n1", "'stateText':'its taints cannot be read'");
    inventory = core_inventory(core, "cpu", "uid", two, 0);
    inventory->taints = (struct node_taints){.unschedulable = true};
    const struct command bare = {.kind = COMMAND_NODE, .inventory = inventory};
    assert_int_equal(core_do(core, &bare), VERDICT_OK);
    assert_string_equal(admin_node_state(node_of(core, "cpu")), "ok");
}

CORE_TEST(allocation_json__leaves_out_unknown_times)
{
    CLEANUP(strbuf_done) struct strbuf out;
    struct json_writer json;

    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "300x2"), VERDICT_OK);
    const struct allocation *allocation = ledger_find(core->ledger, text_of("a"));
    strbuf_init(&out);
    json_writer_init(&json, &out);
    admin_allocation(&json, allocation, node_of(core, "n1"), NULL);
    assert_has(out.data, "'state':'reserved','origin':'granted'");
    assert_has(out.data, "'reservedAt':'");
    assert_lacks(out.data, "boundAt");
    assert_lacks(out.data, "terminatingSince");
    assert_has(out.data, "'kind':'app','gpu':'n1/gpu-0','index':0,'milli':");
    assert_has(out.data, "'gpu':'n1/gpu-1','index':1");
}

/* The JSON of the only share, and of its GPU. */
static void shows_measured(struct core_fixture *core, struct usage_gpu *said, int64_t age_ms,
                           const char *of_share, const char *of_gpu)
{
    const struct node *node = node_of(core, "n1");
    const struct allocation *allocation = ledger_find(core->ledger, text_of("a"));
    struct usage_container container = {TEXT("main"), 1, said, USAGE_OVER_NOT};
    struct usage_pod pod = {TEXT("a"), 1, &container};
    const struct usage_report report = {TEXT("n1"), 1, 300, 1, &pod};
    const struct measured_how how = {.now_ms = 1700000000000};
    CLEANUP(strbuf_done) struct strbuf out;
    struct json_writer json;
    uint32_t unknown = 0;

    container.name = text_of(allocation->facts.share[0].container);
    said->gpu = atom_text(allocation->facts.share[0].gpu);
    struct admin_measured measured = {measured_merge(NULL, node, &report, &how, &unknown),
                                      how.now_ms + age_ms};
    assert_int_equal(unknown, 0);
    strbuf_init(&out);
    json_writer_init(&json, &out);
    admin_allocation(&json, allocation, node, &measured);
    assert_has(out.data, of_share);
    strbuf_reset(&out);
    json_writer_init(&json, &out);
    admin_node(&json, node, NULL, &measured, false);
    assert_has(out.data, of_gpu);
    measured_unref(measured.measured);
}

CORE_TEST(scaled_usage__is_marked)
{
    static const char at[] = "'measuredAt':'2023-11-14T22:13:20.000Z'";
    struct usage_gpu said = {.milli = 538, .mib = 9, .peak_mib = 12, .is_scaled = true};
    char scaled[128];
    char plain[128];

    assert_int_equal(core_node(core, "n1", two, 1), VERDICT_OK);
    assert_int_equal(core_reserve(core, "a", "n1", "300"), VERDICT_OK);
    assert_int_equal(core_step(core, COMMAND_CONFIRM, "a"), VERDICT_OK);
    (void)snprintf(scaled, sizeof scaled, "%s,'measuredMilli':538,'scaled':true,'measuredMib':9",
                   at);
    (void)snprintf(plain, sizeof plain, "%s,'measuredMilli':538,'measuredMib':9", at);
    shows_measured(core, &said, 0, scaled, "'measuredMilli':538,'scaled':true,'measuredMib':9,");
    shows_measured(core, &said, MEASURED_FRESH_MS + 1, "'measuredAt':'2023-11-14T22:13:20.000Z'}",
                   "'state':'ok','cordoned':false}");
    said.is_scaled = false;
    shows_measured(core, &said, 0, plain, "'measuredMilli':538,'measuredMib':9,");
}

CORE_TEST(released_json__lists_gpus_with_a_name)
{
    const struct history_row rows[] = {
        {.uid = "u",
         .namespace = "d",
         .name = "p",
         .node = "n",
         .node_uid = "x",
         .gpu = "GPU-a",
         .state = "released",
         .milli = 300,
         .mib = 10,
         .bound_ms = 1000,
         .released_ms = 2000},
        {.uid = "u",
         .namespace = "d",
         .name = "p",
         .node = "n",
         .node_uid = "x",
         .gpu = "",
         .state = "released",
         .milli = 100},
    };
    CLEANUP(strbuf_done) struct strbuf out;
    struct json_writer json;

    strbuf_init(&out);
    json_writer_init(&json, &out);
    admin_released(&json, rows, 2);
    assert_json(
        out.data,
        "{'uid':'u','namespace':'d','name':'p','node':'n','state':'released',"
        "'boundAt':'1970-01-01T00:00:01.000Z','releasedAt':'1970-01-01T00:00:02.000Z','charges':[{"
        "'gpu':'GPU-a','milli':300,'mib':10}],'shares':[]}");
}

/* Pods made up GPUs before the node reported its own: it lists more than it may report. */
CORE_TEST(node_json__may_list_more_gpus_than_a_node_may_report)
{
    core_make_up_gpus(core, "n1", GPUS_PER_NODE_MAX);
    assert_int_equal(core_node(core, "n1", two, 2), VERDICT_OK);
    assert_true(node_of(core, "n1")->n_gpus > GPUS_PER_NODE_MAX);
    CLEANUP(freep) char *json = node_json(node_of(core, "n1"), true);
    assert_has(json, "GPU-made-up-63");
    assert_has(json, "'fragmentMilli':0");
}
