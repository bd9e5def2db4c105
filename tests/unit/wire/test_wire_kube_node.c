#include "milligpu/base/alloc.h"

#include "support.h"
#include "support/gfd_labels.h"
#include "support/quotes.h"

static struct node_facts decode(struct fixture *fixture, const char *bytes)
{
    struct node_facts node;
    if (node_decode(exact_json(fixture, bytes), &rules, &fixture->arena, &node, &fixture->err) != 0)
        fail_msg("%s", fixture->err.text);
    return node;
}

static void refuse(struct fixture *fixture, const char *bytes, const char *says)
{
    struct node_facts node;
    fixture->err = (struct err){0};
    if (node_decode(exact_json(fixture, bytes), &rules, &fixture->arena, &node, &fixture->err) == 0)
        fail_msg("%s was taken", bytes);
    assert_says(fixture, says);
}

WIRE_TEST(node_decoder__reads_a_whole_node)
{
    const struct node_facts node = decode(
        fixture,
        "{'metadata':{'name':'n1','uid':'u1','resourceVersion':'9',"
        "'creationTimestamp':'2026-11-22T12:00:00Z','labels':{'nvidia.com/gpu.count':'8',"
        "'nvidia.com/gpu.product':'NVIDIA-A100-SXM4-80GB','nvidia.com/gpu.memory':'81920',"
        "'nvidia.com/gpu.replicas':'1','nvidia.com/gpu.sharing-strategy':'none',"
        "'nvidia.com/mig.capable':'true','nvidia.com/mig.config':'all-disabled',"
        "'nvidia.com/mig.strategy':'single','zone':'a'},'annotations':{'milligpu.io/cordon':'all',"
        "'x':'y'}},'spec':{'unschedulable':true,'taints':[]},'status':{'capacity':{'cpu':'64',"
        "'nvidia.com/vgpu':'8k'},'allocatable':{'nvidia.com/vgpu':7000}}}");
    assert_string_equal(node.name, "n1");
    assert_string_equal(node.uid, "u1");
    assert_string_equal(node.resource_version, "9");
    assert_int_equal(node.created_ms, INT64_C(1795348800000));
    assert_true(node.taints.unschedulable);
    assert_string_equal(node.capacity_milli, "8k");
    assert_string_equal(node.allocatable_milli, "7000");
    assert_string_equal(node.label_count, "8");
    assert_string_equal(node.label_product, "NVIDIA-A100-SXM4-80GB");
    assert_string_equal(node.label_memory, "81920");
    assert_null(node.label_mig);
    assert_null(node.label_sharing);
    assert_string_equal(node.cordon, "all");
    assert_false(node.has_gpus);
    assert_null(node.gpus_error);
}

WIRE_TEST(node_decoder__takes_a_bare_node)
{
    const struct node_facts node = decode(
        fixture,
        "{'metadata':{'name':'n','labels':null,'annotations':null},'spec':{'unschedulable':null},"
        "'status':{'capacity':null,'allocatable':{'nvidia.com/vgpu':null}}}");
    assert_string_equal(node.uid, "");
    assert_false(node.taints.unschedulable);
    assert_null(node.capacity_milli);
    assert_null(node.allocatable_milli);
    assert_null(node.label_count);
    assert_null(node.cordon);
    assert_false(node.has_gpus);
    assert_int_equal(node.n_gpus, 0);
}

static struct node_facts with_spec(struct fixture *fixture, const char *spec)
{
    return decode(fixture, arena_printf(&fixture->arena, "{'metadata':{'name':'n'},%s}", spec));
}

WIRE_TEST(taints__are_read_with_their_effects)
{
    const struct node_facts node = with_spec(
        fixture,
        "'spec':{'taints':[{'key':'a','value':'v','effect':'NoSchedule'},{'key':'b','value':null,"
        "'effect':'NoExecute','timeAdded':'x'},{'key':'c','effect':'PreferNoSchedule'},{'key':'d',"
        "'effect':'New'}]}");
    const struct node_taints *taints = &node.taints;

    assert_int_equal(taints->n_taints, 4);
    assert_string_equal(taints->taint[0].key, "a");
    assert_string_equal(taints->taint[0].value, "v");
    assert_int_equal(taints->taint[0].effect, EFFECT_NO_SCHEDULE);
    assert_string_equal(taints->taint[1].value, "");
    assert_int_equal(taints->taint[1].effect, EFFECT_NO_EXECUTE);
    assert_int_equal(taints->taint[2].effect, EFFECT_PREFER_NO_SCHEDULE);
    assert_int_equal(taints->taint[3].effect, EFFECT_OTHER);
    assert_false(taints->unreadable);
    assert_null(node.unreadable);
}

/* The GPUs are read all the same; closing the node errs to the safe side. */
WIRE_TEST(taints__that_cannot_be_read_are_noted)
{
    static const char *const odd[] = {
        ("'spec':{'taints':[{'key':7,'effect':'NoSchedule'},{'key':'b','effect':'NoExecute'}]}"),
        "'spec':{'taints':[null,{'key':'b','effect':'NoExecute'}]}",
        "'spec':{'taints':[[],{'key':'b','effect':'NoExecute'}]}",
    };

    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        const struct node_facts node = with_spec(fixture, odd[i]);
        assert_true(node.taints.unreadable);
        assert_int_equal(node.taints.n_taints, 1);
        assert_string_equal(node.taints.taint[0].key, "b");
        assert_null(node.unreadable);
    }
    assert_true(with_spec(fixture, "'spec':{'taints':{}}").taints.unreadable);
    assert_true(with_spec(fixture, "'spec':{'unschedulable':1}").taints.unreadable);
    assert_true(with_spec(fixture, "'spec':[]").taints.unreadable);
    assert_false(with_spec(fixture, "'spec':{'taints':null}").taints.unreadable);
    assert_false(with_spec(fixture, "'status':{'capacity':7}").taints.unreadable);
}

WIRE_TEST(not_ready__is_that_of_the_ready_condition)
{
    static const struct {
        const char *conditions;
        bool not_ready;
    } cases[] = {
        {"[]", false},
        {"null", false},
        {"[{'type':'Ready','status':'True'}]", false},
        {"[{'type':'Ready','status':'False'}]", true},
        {"[{'status':'Unknown','type':'Ready'}]", true},
        {"[{'type':'Ready'}]", true},
        {"[{'type':'DiskPressure','status':'False'}]", false},
        {"[{'type':'Ready','status':'False'},{'type':'PIDPressure','status':'True'}]", true},
        {"[7,{'type':'Ready','status':'False'}]", true},
        {"7", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct node_facts node =
            with_spec(fixture, arena_printf(&fixture->arena, "'status':{'conditions':%s}",
                                            cases[i].conditions));
        assert_int_equal(node.taints.not_ready, cases[i].not_ready);
        assert_false(node.taints.unreadable);
        assert_null(node.unreadable);
    }
}

static struct node_facts labelled(struct fixture *fixture, const char *labels)
{
    return decode(fixture,
                  arena_printf(&fixture->arena, "{'metadata':{'name':'n','labels':{%s}}}", labels));
}

#define MIG(word)      "\"nvidia.com/mig." word
#define PRODUCT(word)  "'nvidia.com/gpu.product':'" word "\""
#define REPLICAS(word) "'nvidia.com/gpu.replicas':'" word "\""

WIRE_TEST(label_mig__is_set_where_mig_is_and_only_there)
{
    static const char *const yes[] = {
        PRODUCT("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
        MIG("strategy':'mixed'"),
        MIG("strategy':'single'"),
        "'nvidia.com/mig-1g.10gb.count':'7'",
        PRODUCT("NVIDIA-H100") "," MIG("strategy':'mixed'"),
        PRODUCT("NVIDIA-H100") "," MIG("config':'all-1g.10gb',") MIG("strategy':'mixed'"),
        PRODUCT("NVIDIA-H100") "," MIG("strategy':'mixed',") REPLICAS("0"),
        MIG("strategy':'mixed',") REPLICAS("1"),
        PRODUCT("NVIDIA-H100") "," MIG("config':'all-1g.10gb',") MIG("strategy':'mixed',")
            REPLICAS("1"),
        PRODUCT("NVIDIA-H100") "," MIG("strategy':'mixed',")
            REPLICAS("1") ",'nvidia.com/mig-1g.10gb.count':'7'",
    };
    static const char *const no[] = {
        "",
        PRODUCT("Tesla-T4"),
        MIG("strategy':'none'"),
        MIG("strategy':''"),
        MIG("capable':'false',") MIG("strategy':'mixed'"),
        MIG("config':'all-disabled',") MIG("strategy':'mixed'"),
        PRODUCT("NVIDIA-H100-80GB-HBM3") "," MIG("strategy':'single'"),
        "'nvidia.com/mig-1g.10gb.count':'0'",
        MIG("capable':'true'"),
        PRODUCT("NVIDIA-H100") "," MIG("strategy':'mixed',") REPLICAS("1"), /* no MIG device */
    };
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (labelled(fixture, yes[i]).label_mig == NULL)
            fail_msg("%s is not MIG", yes[i]);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (labelled(fixture, no[i]).label_mig != NULL)
            fail_msg("%s is MIG", no[i]);
}

WIRE_TEST(label_sharing__is_set_for_time_slicing_and_mps)
{
#define GPU(word) "\"nvidia.com/gpu." word
    assert_string_equal(labelled(fixture, GPU("sharing-strategy':'time-slicing'")).label_sharing,
                        "time-slicing");
    assert_string_equal(labelled(fixture, GPU("sharing-strategy':'mps'")).label_sharing, "mps");
    assert_string_equal(labelled(fixture, GPU("replicas':'4'")).label_sharing, "4");
    assert_string_equal(labelled(fixture, PRODUCT("Tesla-T4-SHARED")).label_sharing,
                        "Tesla-T4-SHARED");
    assert_null(labelled(fixture, GPU("sharing-strategy':'none'")).label_sharing);
    assert_null(labelled(fixture, GPU("replicas':'1'")).label_sharing);
    assert_null(labelled(fixture, GPU("replicas':'0'")).label_sharing);
    assert_string_equal(labelled(fixture, "'nvidia.com/mps.capable':'true'").label_sharing, "mps");
    assert_null(labelled(fixture, "'nvidia.com/mps.capable':'false'").label_sharing);
}

/*
 * Read as the node of eight A100 with all labels of NVIDIA's operator, then judged. Changes are
 * words: mig.strategy=mixed sets nvidia.com/mig.strategy, -gpu.count removes nvidia.com/gpu.count.
 */
static struct inventory judged(struct fixture *fixture, const char *changes, const char *more)
{
    struct gfd_label label[6] = {{0}};
    struct text rest = text_of(changes);
    struct text word;
    static const struct inventory_rules from_labels = {.from_labels = true};
    struct inventory inventory;
    struct strbuf bytes;

    for (size_t i = 0; text_cut(&rest, ' ', &word); i++) {
        const size_t minus = word.at[0] == '-';
        const size_t len = strcspn(word.at, "= ") - minus;
        assert_true(i + 1 < ARRAY_LEN(label));
        label[i].key = arena_printf(&fixture->arena, "nvidia.com/%.*s", (int)len, word.at + minus);
        if (minus == 0)
            label[i].value =
                arena_printf(&fixture->arena, "%.*s", (int)(word.len - len - 1), word.at + len + 1);
    }
    strbuf_init(&bytes);
    strbuf_str(&bytes, "{'metadata':{'name':'n','labels':{");
    gfd_labels(&bytes, 8, "NVIDIA-A100-SXM4-80GB", 81920, label);
    strbuf_printf(&bytes, "}%s}", more);
    const struct node_facts node = decode(fixture, bytes.data);
    strbuf_done(&bytes);
    assert_null(node.unreadable);
    inventory_parse(&node, &from_labels, &fixture->arena, &inventory);
    return inventory;
}

#define AMOUNTS(capacity, allocatable)                                                             \
    "},'status':{'capacity':{'nvidia.com/gpu':'" capacity                                          \
    "'},'allocatable':{'nvidia.com/gpu':'" allocatable "\"}}"

static const struct {
    const char *changes;
    const char *more;
    enum inventory_problem problem;
    enum plugin_state plugin;
} judgement[] = {
    {"", AMOUNTS("8", "8"), PROBLEM_NONE, PLUGIN_UP},
    {"", AMOUNTS("8", "0"), PROBLEM_NONE, PLUGIN_DOWN},
    {"", AMOUNTS("0", "0"), PROBLEM_NONE, PLUGIN_ZERO},
    {"", "}", PROBLEM_NONE, PLUGIN_NONE},
    {"gpu.deploy.device-plugin=paused-for-driver-upgrade", AMOUNTS("0", "0"), PROBLEM_NONE,
     PLUGIN_DOWN},
    {"gpu.deploy.device-plugin=false", AMOUNTS("0", "0"), PROBLEM_NONE, PLUGIN_ZERO},
    {"-gpu.deploy.device-plugin", AMOUNTS("0", "0"), PROBLEM_NONE, PLUGIN_ZERO},
    {"-gpu.deploy.device-plugin gpu.deploy.operands=false", AMOUNTS("0", "0"), PROBLEM_NONE,
     PLUGIN_DOWN},
    {"-gpu.deploy.device-plugin gpu.deploy.operands=true", AMOUNTS("0", "0"), PROBLEM_NONE,
     PLUGIN_ZERO},
    {"", AMOUNTS("32", "32"), PROBLEM_FOREIGN_UNITS, PLUGIN_NONE},
    {"gpu.count=1", AMOUNTS("4", "4"), PROBLEM_FOREIGN_UNITS, PLUGIN_NONE},
    {"-gpu.count", AMOUNTS("8", "8"), PROBLEM_NO_SOURCE, PLUGIN_NONE},
    {"gpu.workload.config=vm-vgpu", AMOUNTS("8", "8"), PROBLEM_VIRTUAL_MACHINES, PLUGIN_NONE},
    {"gpu.workload.config=container", AMOUNTS("8", "8"), PROBLEM_NONE, PLUGIN_UP},
    {"gpu.replicas=4 gpu.sharing-strategy=time-slicing gpu.product=NVIDIA-A100-SXM4-80GB-SHARED",
     AMOUNTS("32", "32"), PROBLEM_SHARING, PLUGIN_NONE},
    {"mig.strategy=mixed mig.config=custom mig-1g.10gb.count=14"
     " mig-1g.10gb.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
     AMOUNTS("6", "6"), PROBLEM_MIG, PLUGIN_NONE},
    {"gpu.count=56 gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb mig.config=all-1g.10gb",
     AMOUNTS("56", "56"), PROBLEM_MIG, PLUGIN_NONE},
    {"",
     "},'status':{'capacity':{'nvidia.com/gpu.shared':'32'},'allocatable':{"
     "'nvidia.com/gpu.shared':'0'}}",
     PROBLEM_SHARING, PLUGIN_NONE},
    {"",
     "},'status':{'capacity':{'nvidia.com/gpu.shared':'0'},'allocatable':{"
     "'nvidia.com/gpu.shared':32}}",
     PROBLEM_SHARING, PLUGIN_NONE},
    {"",
     "},'status':{'capacity':{'nvidia.com/gpu.shared':'0'},'allocatable':{"
     "'nvidia.com/gpu.shared':'0','nvidia.com/gpu.sharedx':'8','nvidia.com/gp':'8'}}",
     PROBLEM_NONE, PLUGIN_NONE},
};

WIRE_TEST(labels__of_nvidias_operator_are_judged_together)
{
    for (size_t i = 0; i < ARRAY_LEN(judgement); i++) {
        const struct inventory is = judged(fixture, judgement[i].changes, judgement[i].more);
        if (is.problem != judgement[i].problem || is.plugin.state != judgement[i].plugin)
            fail_msg("%zu: %s, plugin %d: %s", i, inventory_problem_name(is.problem),
                     is.plugin.state, is.problem_text);
        assert_int_equal(is.n_gpus, judgement[i].problem == PROBLEM_NONE ? 8 : 0);
    }
}

/* MIG has two of eight; the labels speak of the node, and the agent of each GPU. */
WIRE_TEST(agent__takes_precedence_over_the_labels_of_its_node)
{
    static const char mixed[] = "mig.strategy=mixed mig.config=custom mig-1g.10gb.count=14";
    static const char agent[] =
        ",'annotations':{'milligpu.io/agent':'{}','milligpu.io/gpus':'[{\\'uuid\\':\\'GPU-a\\',"
        "\\'index\\':0,\\'held\\':\\'mig\\'},{\\'uuid\\':\\'GPU-b\\',\\'index\\':1}]'}" AMOUNTS(
            "6", "0");
    struct inventory is = judged(fixture, mixed, agent);

    assert_string_equal(is.problem_text, "");
    assert_int_equal(is.problem, PROBLEM_NONE);
    assert_int_equal(is.n_gpus, 2);
    assert_string_equal(is.gpu[0].held, "mig");
    assert_null(is.gpu[1].held);
    assert_int_equal(is.plugin.state, PLUGIN_NONE);
}

/* An unreadable amount, of our resource or of NVIDIA's, closes the node without other effects. */
WIRE_TEST(whole_gpu_amounts__are_read_once)
{
    const struct node_facts twice =
        decode(fixture, "{'metadata':{'name':'n'},'status':{'allocatable':{'nvidia.com/gpu':1,"
                        "'nvidia.com/gpu':2}}}");
    const struct node_facts odd =
        decode(fixture, "{'metadata':{'name':'n'},'status':{'capacity':{'nvidia.com/gpu':[1]}}}");
    const struct node_facts none = decode(
        fixture,
        "{'metadata':{'name':'n'},'status':{'capacity':{'nvidia.com/gpu':null},'allocatable':{"
        "'nvidia.com/gpu':8}}}");
    assert_string_equal(twice.unreadable,
                        "status.allocatable[\"nvidia.com/gpu\"]: comes twice; a key may come once");
    assert_non_null(odd.unreadable);
    assert_null(none.unreadable);
    assert_null(none.whole_capacity);
    assert_string_equal(none.whole_allocatable, "8");
    assert_null(none.allocatable_milli);
    assert_null(none.whole_shared);
}

static struct node_facts with_gpus(struct fixture *fixture, const char *gpus)
{
    CLEANUP(xfreep) char *json = with_quotes(gpus);
    struct strbuf bytes;
    strbuf_init(&bytes);
    strbuf_str(&bytes, "{'metadata':{'name':'n','annotations':{'milligpu.io/gpus':");
    strbuf_json(&bytes, text_of(json));
    strbuf_str(&bytes, "}}}");
    const struct node_facts node = decode(fixture, bytes.data);
    strbuf_done(&bytes);
    return node;
}

WIRE_TEST(gpus_annotation__is_read)
{
    const struct node_facts node = with_gpus(
        fixture,
        "[{'uuid':'GPU-a','index':1,'milli':500,'mib':40536,'model':'NVIDIA A100','numa':1,"
        "'health':'Healthy','serial':{}},{'uuid':'GPU-b','index':0,'health':'Unhealthy'},{"
        "'uuid':'GPU-c','index':2,'milli':null,'mib':null,'model':null,'numa':null,'health':null},{"
        "'uuid':'GPU-d','index':7,'numa':-1,'health':'healthy'}]");
    assert_null(node.gpus_error);
    assert_true(node.has_gpus);
    assert_int_equal(node.n_gpus, 4);
    assert_string_equal(node.gpu[0].id, "GPU-a");
    assert_int_equal(node.gpu[0].index, 1);
    assert_int_equal(node.gpu[0].milli, 500);
    assert_int_equal(node.gpu[0].mib, 40536);
    assert_string_equal(node.gpu[0].model, "NVIDIA A100");
    assert_int_equal(node.gpu[0].numa, 1);
    assert_string_equal(node.gpu[0].health, "Healthy");
    assert_string_equal(node.gpu[1].health, "Unhealthy");
    assert_int_equal(node.gpu[1].milli, GPU_MILLI);
    assert_int_equal(node.gpu[1].mib, 0);
    assert_int_equal(node.gpu[1].numa, -1);
    assert_null(node.gpu[1].model);
    assert_null(node.gpu[2].health);
    assert_int_equal(node.gpu[2].milli, GPU_MILLI);
    assert_string_equal(node.gpu[3].health, "healthy");

    const struct node_facts empty = with_gpus(fixture, " [ ] ");
    assert_true(empty.has_gpus);
    assert_int_equal(empty.n_gpus, 0);
}

WIRE_TEST(nvlink__is_read_as_far_as_possible)
{
    static const struct {
        const char *nvlink;
        uint32_t names; /* "GPU-1", then "GPU-2" */
        bool odd;
    } row[] = {
        {"['GPU-1','GPU-2']", 2, false},
        {"[]", 0, false},
        {"null", 0, false},
        {"\"GPU-1\"", 0, true},
        {"7", 0, true},
        {"{'GPU-1':[1]}", 0, true},
        {"[7,'GPU-1',null,['GPU-9',[]],'GPU-2', {} ]", 2, true},
        {"['GPU-1','\\u0000']", 1, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct node_facts node = with_gpus(
            fixture, arena_printf(&fixture->arena, "[{'nvlink': %s, 'uuid':'GPU-a','index':4}]",
                                  row[i].nvlink));
        assert_null(node.gpus_error);
        assert_int_equal(node.n_gpus, 1);
        assert_int_equal(node.gpu[0].index, 4);
        assert_int_equal(node.gpu[0].n_nvlinks, row[i].names);
        assert_int_equal(node.gpu[0].nvlink_odd, row[i].odd);
        for (uint32_t k = 0; k < row[i].names; k++)
            assert_string_equal(node.gpu[0].nvlink[k], k == 0 ? "GPU-1" : "GPU-2");
    }
}

WIRE_TEST(gpu_facts__of_an_agent_are_read_as_written)
{
    const struct node_facts node = with_gpus(
        fixture,
        "[{'uuid':'GPU-a','index':0,'held':'pod:4f'},{'uuid':'GPU-b','index':1},{'uuid':'GPU-c',"
        "'index':2,'held':''}]");
    assert_null(node.gpus_error);
    assert_string_equal(node.gpu[0].held, "pod:4f");
    assert_null(node.gpu[1].held);
    assert_string_equal(node.gpu[2].held, "");
    const struct node_facts sick =
        with_gpus(fixture, "[{'uuid':'GPU-a','index':0,'reason':'XID 79','since':'noon'}]");
    assert_string_equal(sick.gpu[0].reason, "XID 79");
    assert_string_equal(sick.gpu[0].since, "noon");
    const struct node_facts odd = with_gpus(fixture, "[{'uuid':'GPU-a','index':0,'held':true}]");
    assert_has(odd.gpus_error, "[0].held: ");
}

WIRE_TEST(nvlink__keeps_the_first_of_too_many)
{
    for (uint32_t count = 64; count <= 65; count++) {
        struct strbuf gpus;
        strbuf_init(&gpus);
        strbuf_str(&gpus, "[{'uuid':'GPU-a','index':0,'nvlink':['GPU-0'");
        for (uint32_t i = 1; i < count; i++)
            strbuf_printf(&gpus, ",\"GPU-%u\"", i);
        strbuf_str(&gpus, "]}]");
        const struct node_facts node = with_gpus(fixture, gpus.data);
        strbuf_done(&gpus);
        assert_true(node.has_gpus);
        assert_int_equal(node.gpu[0].n_nvlinks, 64);
        assert_string_equal(node.gpu[0].nvlink[63], "GPU-63");
        assert_int_equal(node.gpu[0].nvlink_odd, count > 64);
    }
}

WIRE_TEST(gpus_annotation__error_names_the_field)
{
    static const struct wire_case cases[] = {
        {"", "milligpu.io/gpus: expected an array, found the end"},
        {"{}", "milligpu.io/gpus: expected an array, found an object"},
        {"[", "found the end"},
        {"[1]", "milligpu.io/gpus[0]: expected an object"},
        {"[null]", "milligpu.io/gpus[0]: expected an object"},
        {"[{}]", "[0]: has no \"uuid\""},
        {"[{'uuid':'a'}]", "[0]: has no \"index\""},
        {"[{'uuid':null,'index':0}]", "[0]: has a null where uuid should be"},
        {"[{'uuid':'','index':0}]", "[0].uuid: must not be empty"},
        {"[{'uuid':'a,b','index':0}]", "[0].uuid: must be printable ASCII"},
        {"[{'uuid':7,'index':0}]", "[0].uuid: expected a string"},
        {"[{'uuid':'a','index':-1}]", "[0].index: is -1, but must be 0 to 65535"},
        {"[{'uuid':'a','index':'0'}]", "[0].index: expected a whole number"},
        {"[{'milli':0}]", "[0].milli: is 0, but must be 1 to 1000"},
        {"[{'milli':1001}]", "[0].milli: is 1001"},
        {"[{'milli':-5}]", "[0].milli: is -5"},
        {"[{'milli':1e99}]", "[0].milli: is 1e99, beyond"},
        {"[{'mib':-1}]", "[0].mib: is -1"},
        {"[{'mib':1.5}]", "[0].mib: is 1.5, but must be a whole number"},
        {"[{'numa':32768}]", "[0].numa: is 32768"},
        {"[{'health':true}]", "[0].health: expected a string"},
        {"[{'model':[]}]", "[0].model: expected a string"},
        {"[{'nvlink':[}]", "[0].nvlink[0]: expected a value"},
        {"[{'nvlink':['a'", "found the end"},
        {"[{'nvlink':[],'nvlink':[]}]", "[0].nvlink: comes twice"},
        {"[{'uuid':'a','index':0},{'uuid':'a','index':1}]", "[1]: has the uuid of another GPU"},
        {"[{'uuid':'a','index':0},{'uuid':'b','index':0}]", "[1]: has the index of another GPU"},
        {"[{'uuid':'a','uuid':'a','index':0}]", "[0].uuid: comes twice"},
        {"[] []", "after the value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct node_facts node = with_gpus(fixture, cases[i].bytes);
        assert_false(node.has_gpus);
        assert_int_equal(node.n_gpus, 0);
        assert_non_null(node.gpus_error);
        assert_memory_equal(node.gpus_error, "milligpu.io/gpus", strlen("milligpu.io/gpus"));
        if (strstr(node.gpus_error, cases[i].says) == NULL)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, node.gpus_error, cases[i].says);
    }
}

WIRE_TEST(gpus_annotation__with_too_many_gpus_is_recognizable)
{
    struct strbuf gpus;
    strbuf_init(&gpus);
    for (int i = 0; i < 200; i++)
        strbuf_printf(&gpus, "%s{'uuid':'GPU-%d','index':%d}", i > 0 ? "," : "[", i, i);
    strbuf_str(&gpus, "]");
    const struct node_facts node = with_gpus(fixture, gpus.data);
    assert_true(node.has_gpus);
    assert_int_equal(node.n_gpus, GPUS_PER_NODE_MAX + 1);
    strbuf_done(&gpus);
}

WIRE_TEST(node_decoder__refuses_other_objects)
{
    static const struct wire_case cases[] = {
        {"", "Node: expected an object, found the end"},
        {"{}", "Node: has no metadata.name"},
        {"{'kind':'Pod'}", "Node.kind: is another kind of object, not \"Node\""},
        {"{'metadata':{'name':7}}", "Node.metadata.name: expected a string"},
        {"{'metadata':{'name':'n'}}}", "1 bytes after the value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        refuse(fixture, cases[i].bytes, cases[i].says);
}

/* The node is present and reports that it is unreadable. */
WIRE_TEST(node_decoder__keeps_a_node_with_unreadable_fields)
{
    static const struct {
        const char *meta;
        const char *rest;
        const char *says;
    } cases[] = {
        {",'labels':[]", "", "metadata.labels: expected an object"},
        {",'labels':{'nvidia.com/gpu.count':8}", "",
         "metadata.labels[\"nvidia.com/gpu.count\"]: expected a string, found a number"},
        {",'labels':{'nvidia.com/gpu.count':'8','nvidia.com/gpu.count':'9'}", "", "comes twice"},
        {",'annotations':{'milligpu.io/gpus':'[]\\u0000'}", "",
         "metadata.annotations[\"milligpu.io/gpus\"]: must not hold a NUL"},
        {"", ",'spec':{'unschedulable':'yes'}", "spec.unschedulable: expected true or false"},
        {"", ",'status':{'capacity':{'nvidia.com/vgpu':{}}}",
         "status.capacity[\"nvidia.com/vgpu\"]: expected a quantity"},
        {"", ",'status':{'capacity':{'nvidia.com/vgpu':1,'nvidia.com/vgpu':1}}", "comes twice"},
        {"", ",'status':[]", "status: expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct node_facts node =
            decode(fixture, arena_printf(&fixture->arena, "{'metadata':{'name':'n'%s,'uid':'u'}%s}",
                                         cases[i].meta, cases[i].rest));
        assert_string_equal(node.name, "n");
        assert_string_equal(node.uid, "u");
        if (node.unreadable == NULL || strstr(node.unreadable, cases[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", node.unreadable, cases[i].says);
    }
}

WIRE_TEST(cordon__that_cannot_be_read_is_all)
{
    const struct node_facts node = decode(
        fixture,
        "{'metadata':{'annotations':{'milligpu.io/cordon':'n/gpu-0\\u0000','milligpu.io/gpus':'["
        "]'},'name':'n'}}");
    assert_string_equal(node.cordon, "all");
    assert_true(node.has_gpus);
    assert_null(node.unreadable);
}

WIRE_TEST(agent_annotation__means_an_agent_whatever_its_value)
{
    static const struct {
        const char *annotations;
        bool agent;
    } cases[] = {
        {"", false},
        {"'milligpu.io/agents':'1'", false},
        {"'milligpu.io/agent':'1.0'", true},
        {"'milligpu.io/agent':''", true},
        {"'milligpu.io/agent':'false','milligpu.io/agent':'x'", true},
        {"'milligpu.io/agent':'\\u0000'", true},
        {"'milligpu.io/agent':{'a':[1]}", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct node_facts node = decode(
            fixture, arena_printf(&fixture->arena, "{'metadata':{'annotations':{%s},'name':'n'}}",
                                  cases[i].annotations));
        assert_int_equal(node.agent, cases[i].agent);
        assert_null(node.unreadable);
    }
}

WIRE_TEST(agent_key__is_read_where_possible)
{
    static const struct {
        const char *value;
        const char *key;
    } cases[] = {
        {"'{\\'v\\':1,\\'closed\\':true,\\'key\\':\\'PUAX=\\'}'", "PUAX="},
        {"'{\\'v\\':1}'", NULL},
        {"'{\\'key\\':7}'", NULL},
        {"'{\\'key\\':null}'", NULL},
        {"'{\\'key\\':\\'a\\''", NULL},
        {"\"1.0\"", NULL},
        {"{'key':'a'}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char bytes[256];
        (void)snprintf(bytes, sizeof bytes,
                       "{'metadata':{'annotations':{'milligpu.io/agent':%s},'name':'n'}}",
                       cases[i].value);
        const struct node_facts node = decode(fixture, bytes);
        assert_true(node.agent);
        assert_null(node.unreadable);
        if (cases[i].key == NULL)
            assert_null(node.agent_key);
        else
            assert_string_equal(node.agent_key, cases[i].key);
    }
}

/* agent: the JSON in the annotation. */
static struct node_facts claiming(struct fixture *fixture, const char *agent)
{
    struct strbuf bytes;

    strbuf_init(&bytes);
    strbuf_str(&bytes, "{'metadata':{'name':'n','annotations':{'milligpu.io/agent':'");
    for (; *agent != '\0'; agent++)
        strbuf_printf(&bytes, *agent == '\'' || *agent == '\\' ? "\\%c" : "%c", *agent);
    strbuf_str(&bytes, "\"}}}");
    const struct node_facts node = decode(fixture, bytes.data);
    strbuf_done(&bytes);
    return node;
}

static bool says(const char *is, const char *expected)
{
    return expected == NULL ? is == NULL : is != NULL && strcmp(is, expected) == 0;
}

WIRE_TEST(agent_claim__is_read)
{
    static const struct {
        const char *agent;
        struct agent_claim claim;
    } row[] = {
        {"{'pod':{'uid':'p','node':'n','boot':'b'},'leaving':'told'}", {"p", "n", "b", "told"}},
        {"{'leaving':'uninstalled','v':1,'version':['0.2']}", {.leaving = "uninstalled"}},
        {"{}", {0}},
        {"{'pod':{}}", {0}},
        {"{'pod':{'uid':'p'}}", {.pod = "p"}},
        {"{'pod':{'node':'n'}}", {.node = "n"}},
        {"{'pod':{'boot':'b','name':[{}],'uid':''}}", {.boot = "b", .pod = ""}},
        {"{'pod':null,'leaving':null,'key':null}", {0}},
        {"{'pod':{'uid':'p','node':null,'boot':null}}", {.pod = "p"}},
        {"{'pod':{'uid':null,'node':'n'}}", {.node = "n"}},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct node_facts node = claiming(fixture, row[i].agent);
        assert_true(node.agent);
        if (!says(node.claim.pod, row[i].claim.pod) || !says(node.claim.node, row[i].claim.node) ||
            !says(node.claim.boot, row[i].claim.boot) ||
            !says(node.claim.leaving, row[i].claim.leaving))
            fail_msg("%s", row[i].agent);
    }
    /* Members outside of pod, and an earlier annotation of the same name, do not count. */
    const struct node_facts node =
        decode(fixture, "{'metadata':{'name':'n','annotations':{'milligpu.io/agent':'{\\'pod\\':{"
                        "\\'uid\\':\\'p\\'}}','milligpu.io/agent':'{\\'uid\\':\\'q\\'}'}}}");
    assert_null(node.claim.pod);
    const struct node_facts none = decode(fixture, "{'metadata':{'name':'n'}}");
    assert_null(none.claim.pod);
    assert_null(none.claim.leaving);
    assert_null(none.boot);
}

/* No agent vouches then: a claim counts as a whole or not at all. */
WIRE_TEST(agent_claim__that_cannot_be_read_is_absent)
{
    static const char *const broken[] = {
        "{'leaving':'told','key':'k','pod':{'uid':'p','node':7}}",
        "{'leaving':'told','key':'k','pod':{'uid':['p']}}",
        "{'leaving':'told','key':'k','pod':{'boot':{}}}",
        "{'leaving':'told','key':'k','pod':'p'}",
        "{'leaving':'told','key':'k','pod':[]}",
        "{'pod':{'uid':'p'},'key':'k','leaving':true}",
        "{'pod':{'uid':'p'},'leaving':'told','key':7}",
        "{'pod':{'uid':'p'},'leaving':'told','key':'k'",
        "{'pod':{'uid':'p'},'leaving':'told','key':'k'}x",
        "{'pod':{'uid':'p','uid':'q'},'leaving':'told','key':'k'}",
        "[{'pod':{'uid':'p'}}]",
        "null",
        "",
    };

    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        const struct node_facts node = claiming(fixture, broken[i]);
        assert_true(node.agent);
        assert_null(node.unreadable);
        if (node.claim.pod != NULL || node.claim.node != NULL || node.claim.boot != NULL ||
            node.claim.leaving != NULL || node.agent_key != NULL)
            fail_msg("%s", broken[i]);
    }
}

WIRE_TEST(agent_claim__ids_are_bounded)
{
    static const char *const member[] = {"uid", "node", "boot"};
    char id[UID_BYTES_MAX + 2];
    char agent[UID_BYTES_MAX + 64];

    for (size_t i = 0; i < ARRAY_LEN(member); i++)
        for (size_t more = 0; more <= 1; more++) {
            memset(id, 'x', sizeof id);
            id[UID_BYTES_MAX + more] = '\0';
            (void)snprintf(agent, sizeof agent, "{'pod':{'%s':'%s'}}", member[i], id);
            const struct node_facts node = claiming(fixture, agent);
            const char *const read[] = {node.claim.pod, node.claim.node, node.claim.boot};
            assert_true(says(read[i], more == 0 ? id : NULL));
        }
}

/* info: the JSON of status.nodeInfo. */
static struct node_facts booted(struct fixture *fixture, const char *info)
{
    char bytes[2 * UID_BYTES_MAX + 256];

    (void)snprintf(
        bytes, sizeof bytes,
        "{'metadata':{'name':'n'},'status':{'nodeInfo':%s,'capacity':{'nvidia.com/vgpu':'1000'}}}",
        info);
    return decode(fixture, bytes);
}

WIRE_TEST(boot_id__is_read_where_possible)
{
    static const struct {
        const char *info;
        const char *boot;
    } row[] = {
        {"{'bootID':'b-1'}", "b-1"},
        {"{'machineID':'m','bootID':'','kernelVersion':{'a':[1]}}", ""},
        {"{}", NULL},
        {"null", NULL},
        {"{'bootID':null}", NULL},
        {"{'bootID':7}", NULL},
        {"{'bootID':'b','bootID':'c'}", NULL},
        {"\"b\"", NULL},
        {"[{'bootID':'b'}]", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const struct node_facts node = booted(fixture, row[i].info);
        if (!says(node.boot, row[i].boot))
            fail_msg("%s: %s", row[i].info, node.boot);
        /* The rest of the status counts all the same. */
        assert_null(node.unreadable);
        assert_string_equal(node.capacity_milli, "1000");
    }
    char info[UID_BYTES_MAX + 32];
    (void)snprintf(info, sizeof info, "{'bootID':'%0*d'}", UID_BYTES_MAX, 0);
    assert_int_equal(strlen(booted(fixture, info).boot), UID_BYTES_MAX);
    (void)snprintf(info, sizeof info, "{'bootID':'%0*d'}", UID_BYTES_MAX + 1, 0);
    assert_null(booted(fixture, info).boot);
}

static struct node_facts allocatable(struct fixture *fixture, const char *amounts)
{
    char bytes[1024];
    (void)snprintf(bytes, sizeof bytes,
                   "{'metadata':{'name':'n'},'status':{'allocatable':{%s},'capacity':{'cpu':'999',"
                   "'memory':'999Gi'}}}",
                   amounts);
    return decode(fixture, bytes);
}

WIRE_TEST(cpu_and_memory__are_read_and_rounded_down)
{
    static const struct {
        const char *amounts;
        struct host host;
    } cases[] = {
        {"'cpu':'63','memory':'16Gi'", {63000, 16384}},
        {"'cpu':8,'memory':1048576", {8000, 1}},
        {"'cpu':'63900m'", {63900, 0}},
        {"'cpu':'1.0015'", {1001, 0}},
        {"'cpu':'1500u'", {1, 0}},
        {"'memory':'1048575'", {0, 0}},
        {"'memory':'2097151'", {0, 1}},
        {"'memory':'3145727.5'", {0, 2}},
        {"'memory':'3145728.5'", {0, 3}},
        {"'memory':'263856Mi'", {0, 263856}},
        {"'cpu':'4294967.294','memory':'4294967294Mi'", {HOST_UNKNOWN - 1, HOST_UNKNOWN - 1}},
        {"'cpu':'4294967.295','memory':'4294967295Mi'", {HOST_UNKNOWN - 1, HOST_UNKNOWN - 1}},
        {"'cpu':'9223372036854775','memory':'9223372036854775807'",
         {HOST_UNKNOWN - 1, HOST_UNKNOWN - 1}},
        {"'memory':'1Gi','nvidia.com/vgpu':7,'ephemeral-storage':1,'cpu':1", {1000, 1024}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct node_facts node = allocatable(fixture, cases[i].amounts);
        assert_null(node.unreadable);
        if (node.host.cpu_milli != cases[i].host.cpu_milli ||
            node.host.memory_mib != cases[i].host.memory_mib)
            fail_msg("case %zu: %u, %u", i, node.host.cpu_milli, node.host.memory_mib);
    }
}

/* The amounts only order placements, so they close no node. */
WIRE_TEST(cpu_and_memory__that_cannot_be_read_are_unknown)
{
    static const char *const amounts[] = {
        "",
        "'cpu':null,'memory':null",
        "'cpu':'lots','memory':''",
        "'cpu':[1],'memory':{'cpu':1}",
        "'cpu':true,'memory':false",
        "'cpu':'8\\u0000','memory':'8Gi\\u0000'",
        "'cpu':-8,'memory':'-8Gi'",
        "'cpu':'-1.0005','memory':'-0.5'",
        "'cpu':'0.0005','memory':'0.5'",
        "'cpu':'1e99','memory':'1e99'",
        "'cpu':'9223372036854775.8075','memory':'9223372036854775808'",
        "'cpu':'8','memory':'8Gi','cpu':[],'memory':null",
    };
    for (size_t i = 0; i < ARRAY_LEN(amounts); i++) {
        const struct node_facts node =
            allocatable(fixture, arena_printf(&fixture->arena, "%s%s'nvidia.com/vgpu':'7000'",
                                              amounts[i], i > 0 ? "," : ""));
        assert_null(node.unreadable);
        assert_string_equal(node.allocatable_milli, "7000");
        if (node.host.cpu_milli != 0 || node.host.memory_mib != 0)
            fail_msg("case %zu: %u, %u", i, node.host.cpu_milli, node.host.memory_mib);
    }
}
