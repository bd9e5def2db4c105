#include "support.h"

#define POD "'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'u'}}"

static int args(struct fixture *fixture, const char *body, struct extender_args *out)
{
    fixture->err = (struct err){0};
    return extender_args_decode(exact_json(fixture, body), &rules, NULL, &fixture->arena, out,
                                &fixture->err);
}

static struct extender_args good(struct fixture *fixture, const char *body)
{
    struct extender_args out;
    if (args(fixture, body, &out) != 0)
        fail_msg("%s", fixture->err.text);
    return out;
}

WIRE_TEST(args__have_names_with_their_hashes)
{
    const struct extender_args out =
        good(fixture, "{" POD ",'Nodes':null,'NodeNames':['n1', 'n\\u0032','n3']}");
    static const char *const expected[] = {"n1", "n2", "n3"};
    assert_false(out.full_nodes);
    assert_int_equal(out.n_names, 3);
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        assert_true(text_is(out.name[i], expected[i]));
        assert_int_equal(out.hash[i], text_hash(text_of(expected[i])));
    }
    assert_string_equal(out.pod.uid, "u");
}

WIRE_TEST(args__take_keys_in_any_order_and_case)
{
    assert_int_equal(
        good(fixture, "{'nodenames':['n'],'nodes':null,'pod':{'metadata':{'name':'p','uid':'u'}}}")
            .n_names,
        1);
    assert_int_equal(good(fixture, "{'NodeNames':['n']," POD ",'Other':[{}]}").n_names, 1);
    assert_int_equal(good(fixture, "{" POD ",'NodeNames':[]}").n_names, 0);
}

WIRE_TEST(args__keep_full_nodes_as_sent)
{
    const struct extender_args out =
        good(fixture,
             "{'Nodes':{'metadata':{},'items':[{'metadata':{'name':'n1'},'status':{'allocatable':{"
             "'nvidia.com/vgpu':'8k'}}}, {'metadata':{'name':'n2'} } ]},'NodeNames':null," POD "}");
    assert_true(out.full_nodes);
    assert_int_equal(out.n_names, 2);
    assert_true(text_is(out.name[0], "n1"));
    assert_true(text_is(out.name[1], "n2"));
    assert_string_equal(out.node[0].allocatable_milli, "8k");
    assert_true(text_is(out.node_bytes[1], "{\"metadata\":{\"name\":\"n2\"} }"));
    const struct extender_args none = good(fixture, "{" POD ",'Nodes':{'items':null}}");
    assert_true(none.full_nodes);
    assert_int_equal(none.n_names, 0);
}

WIRE_TEST(args__take_five_thousand_names)
{
    enum { NAMES = 5000 };
    struct strbuf body;
    strbuf_init(&body);
    strbuf_str(&body, "{" POD ",'NodeNames':[");
    for (int i = 0; i < NAMES; i++)
        strbuf_printf(&body, "%s\"node-%d\"", i > 0 ? "," : "", i);
    strbuf_str(&body, "]}");
    const struct extender_args out = good(fixture, body.data);
    assert_int_equal(out.n_names, NAMES);
    assert_true(text_is(out.name[0], "node-0"));
    assert_true(text_is(out.name[63], "node-63"));
    assert_true(text_is(out.name[64], "node-64"));
    assert_true(text_is(out.name[NAMES - 1], "node-4999"));
    strbuf_done(&body);
}

WIRE_TEST(args__that_cannot_be_right_are_refused)
{
    static const struct wire_case bad[] = {
        {"", "body: expected an object, found the end"},
        {"hello", "body: expected an object, found 'h'"},
        {"[]", "body: expected an object, found an array"},
        {"{", "body: expected a key"},
        {"{}", "body: has no \"Pod\""},
        {"{'Pod':null,'NodeNames':['n']}", "body: has no \"Pod\""},
        {"{" POD "}", "body: has neither \"NodeNames\" nor \"Nodes\""},
        {"{" POD ",'Nodes':null,'NodeNames':null}", "has neither"},
        {"{" POD ",'Nodes':{},'NodeNames':['n']}", "exclude each other"},
        {"{" POD ",'NodeNames':['n']} {}", "after the value"},
        {"{" POD ",'NodeNames':['n'],'nodenames':['m']}", "body.nodenames: comes twice"},
        {"{" POD "," POD ",'NodeNames':['n']}", "body.Pod: comes twice"},
        {"{" POD ",'NodeNames':{}}", "body.NodeNames: expected an array"},
        {"{" POD ",'NodeNames':'n'}", "body.NodeNames: expected an array, found a string"},
        {"{" POD ",'NodeNames':['n',7]}", "body.NodeNames[1]: expected a string"},
        {"{" POD ",'NodeNames':['n',null]}", "body.NodeNames[1]: expected a string"},
        {"{" POD ",'NodeNames':['']}", "body.NodeNames[0]: must not be empty"},
        {"{" POD ",'NodeNames':['a\\u0000']}", "body.NodeNames[0]: must not hold a NUL"},
        {"{" POD ",'NodeNames':['\xFF']}", "body.NodeNames[0]: a string that is not UTF-8"},
        {"{" POD ",'NodeNames':['a','b','\\u0061']}", "body: NodeNames: node \"a\" comes twice"},
        {"{" POD ",'Nodes':{'items':[{'metadata':{'name':'a'}},{'metadata':{'name':'a'}}]}}",
         "body: Nodes: node \"a\" comes twice"},
        {"{" POD ",'Nodes':{'items':[{}]}}", "body.Nodes.items[0]: has no metadata.name"},
        {"{" POD ",'Nodes':{'items':[null]}}", "body.Nodes.items[0]: expected an object"},
        {"{" POD ",'Nodes':[]}", "body.Nodes: expected an object"},
        {"{'Pod':[],'NodeNames':[]}", "body.Pod: expected an object"},
        {"{'Pod':{},'NodeNames':[]}", "body.Pod: has no metadata.uid"},
        {"{'Pod':{'metadata':{'uid':'u'}},'NodeNames':[]}", "body.Pod: has no metadata.name"},
        {"{'Pod':{'metadata':{'uid':7}},'NodeNames':[]}",
         "body.Pod.metadata.uid: expected a string, found a number"},
    };
    struct extender_args out;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (args(fixture, bad[i].bytes, &out) != -ERR_INVALID)
            fail_msg("%s was taken", bad[i].bytes);
        assert_says(fixture, bad[i].says);
    }
}

WIRE_TEST(args__take_a_pod_that_is_readable_in_part)
{
    struct extender_args out;
    assert_int_equal(
        args(fixture,
             "{'Pod':{'metadata':{'name':'p','uid':'u','annotations':{"
             "'milligpu.io/gpu-count':'\\u0000'}},'spec':{'containers':[{'name':'c'}]}},"
             "'NodeNames':['n']}",
             &out),
        0);
    assert_string_equal(out.pod.unreadable,
                        "metadata.annotations[\"milligpu.io/gpu-count\"]: must not hold a NUL");
    assert_int_equal(out.n_names, 1);
}

WIRE_TEST(args__with_too_many_names_are_refused_with_the_limit)
{
    struct extender_args out;
    struct strbuf body;
    strbuf_init(&body);
    strbuf_str(&body, "{" POD ",'NodeNames':[");
    for (int i = 0; i <= NODES_MAX; i++)
        strbuf_printf(&body, "%s\"%d\"", i > 0 ? "," : "", i);
    strbuf_str(&body, "]}");
    assert_int_equal(args(fixture, body.data, &out), -ERR_TOO_LARGE);
    assert_says(fixture, "body.NodeNames[65536]: more than 65536 nodes (NODES_MAX)");

    strbuf_reset(&body);
    strbuf_str(&body, "{" POD ",'NodeNames':['");
    for (int i = 0; i <= NAME_BYTES_MAX; i++)
        strbuf_char(&body, 'n');
    strbuf_str(&body, "\"]}");
    assert_int_equal(args(fixture, body.data, &out), -ERR_TOO_LARGE);
    assert_says(fixture, "body.NodeNames[0]: has 254 bytes, more than 253");
    strbuf_done(&body);
}

WIRE_TEST(filter_result__has_chosen_names_in_order_and_empty_maps)
{
    const struct extender_args in = good(fixture, "{" POD ",'NodeNames':['n1','n2','n3']}");
    static const uint32_t choice[] = {2, 0};
    const struct extender_filter_result result = {.chosen = 2, .choice = choice};
    extender_filter_encode(&fixture->out, &in, &result);
    assert_json(
        fixture->out.data,
        "{'Nodes':null,'NodeNames':['n3','n1'],'FailedNodes':{},'FailedAndUnresolvableNodes':{},"
        "'Error':''}");
}

WIRE_TEST(filter_result__has_refusals_as_unresolvable)
{
    const struct extender_args in = good(fixture, "{" POD ",'NodeNames':['n1','n2']}");
    const struct extender_refusal refusal[] = {{in.name[0], "no GPU with 300 milli free"},
                                               {in.name[1], "say \"no\""}};
    const struct extender_filter_result result = {.n_refusals = 2, .refusal = refusal};
    extender_filter_encode(&fixture->out, &in, &result);
    assert_json(
        fixture->out.data,
        "{'Nodes':null,'NodeNames':[],'FailedNodes':{},'FailedAndUnresolvableNodes':{'n1':'no GPU"
        " with 300 milli free','n2':'say \\'no\\''},'Error':''}");
}

WIRE_TEST(filter_result__returns_full_nodes_as_sent)
{
    const struct extender_args in = good(
        fixture,
        "{" POD
        ",'Nodes':{'items':[{'metadata':{'name':'n1'}},{'metadata':{'name':'n2'},'x': [1e400]}]}}");
    static const uint32_t choice[] = {1};
    const struct extender_filter_result result = {.chosen = 1, .choice = choice};
    extender_filter_encode(&fixture->out, &in, &result);
    assert_json(
        fixture->out.data,
        "{'Nodes':{'metadata':{},'items':[{'metadata':{'name':'n2'},'x': [1e400]}]},'NodeNames':["
        "'n2'],'FailedNodes':{},'FailedAndUnresolvableNodes':{},'Error':''}");
}

WIRE_TEST(filter_result__with_an_error_has_nothing_else)
{
    const struct extender_args in = good(fixture, "{" POD ",'NodeNames':['n1']}");
    static const uint32_t choice[] = {0};
    const struct extender_filter_result result = {
        .chosen = 1, .choice = choice, .error = "not ready"};
    extender_filter_encode(&fixture->out, &in, &result);
    assert_json(fixture->out.data,
                "{'Nodes':null,'NodeNames':null,'FailedNodes':{},'FailedAndUnresolvableNodes':{},"
                "'Error':'not ready'}");
}

WIRE_TEST(filter_result__can_answer_an_unreadable_body)
{
    struct extender_args in;
    assert_int_equal(args(fixture, "{", &in), -ERR_INVALID);
    const struct extender_filter_result result = {.error = fixture->err.text};
    extender_filter_encode(&fixture->out, &in, &result);
    assert_has(fixture->out.data, "'Error':'body: expected a key in quotes");
}

WIRE_TEST(priorities__have_a_score_for_each_name)
{
    const struct extender_args in = good(fixture, "{" POD ",'NodeNames':['n1','n2']}");
    extender_priorities_encode(&fixture->out, &in, (const uint8_t[]){10, 0});
    assert_json(fixture->out.data, "[{'Host':'n1','Score':10},{'Host':'n2','Score':0}]");
}

WIRE_TEST(bind_args__are_read_and_answered)
{
    struct extender_bind bind;
    assert_int_equal(
        extender_bind_decode(
            exact_json(fixture,
                       "{'PodName':'p','PodNamespace':'ns','PodUID':'u','Node':'n','X':1}"),
            &fixture->arena, &bind, &fixture->err),
        0);
    assert_string_equal(bind.pod, "p");
    assert_string_equal(bind.namespace, "ns");
    assert_string_equal(bind.uid, "u");
    assert_string_equal(bind.node, "n");
    extender_bind_encode(&fixture->out, NULL);
    assert_json(fixture->out.data, "{'Error':''}");
    strbuf_reset(&fixture->out);
    extender_bind_encode(&fixture->out, "room: no GPU");
    assert_json(fixture->out.data, "{'Error':'room: no GPU'}");
}

WIRE_TEST(bind_args__that_cannot_be_right_are_refused)
{
    static const struct wire_case bad[] = {
        {"", "body: expected an object"},
        {"{}", "body: has no \"PodName\""},
        {"{'PodName':'p'}", "has no \"PodNamespace\""},
        {"{'PodName':'p','PodNamespace':'s','PodUID':null,'Node':'n'}", "has no \"PodUID\""},
        {"{'PodName':'p','PodNamespace':'s','PodUID':'u'}", "has no \"Node\""},
        {"{'PodName':''}", "body.PodName: must not be empty"},
        {"{'PodName':1}", "body.PodName: expected a string, found a number"},
        {"{'PodUID':'a','podUid':'b'}", "body.podUid: comes twice"},
        {"{'Node':'n\\u0000'}", "body.Node: must not hold a NUL"},
        {"{'PodName':'p','PodNamespace':'s','PodUID':'u','Node':'n'}!", "after the value"},
    };
    struct extender_bind bind;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(extender_bind_decode(exact_json(fixture, bad[i].bytes), &fixture->arena,
                                              &bind, &fixture->err),
                         -ERR_INVALID);
        assert_says(fixture, bad[i].says);
    }
}

static int preempt(struct fixture *fixture, const char *body, struct extender_preempt *out)
{
    return extender_preempt_decode(exact_json(fixture, body), &rules, &fixture->arena, out,
                                   &fixture->err);
}

WIRE_TEST(preempt_args__are_read_in_both_forms_and_returned_in_order)
{
    static const char *const bodies[] = {
        "{" POD
        ",'NodeNameToVictims':null,'NodeNameToMetaVictims':{'n1':{'Pods':[{'UID':'b'},{'UID':'a'}],"
        "'NumPDBViolations':1},'n2':{'Pods':null,'NumPDBViolations':0},'n3':null}}",
        "{" POD
        ",'NodeNameToMetaVictims':null,'NodeNameToVictims':{'n1':{'Pods':[{'metadata':{'uid':'b'},"
        "'spec':{}},{'metadata':{'uid':'a'}}],'NumPDBViolations':1},'n2':{'Pods':[]},'n3':{}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct extender_preempt out;
        if (preempt(fixture, bodies[i], &out) != 0)
            fail_msg("%s", fixture->err.text);
        assert_string_equal(out.pod.uid, "u");
        assert_int_equal(out.n_nodes, 3);
        assert_int_equal(out.node[0].n_uids, 2);
        assert_true(text_is(out.node[0].uid[0], "b"));
        assert_int_equal(out.node[1].n_uids, 0);
        strbuf_reset(&fixture->out);
        extender_preempt_encode(&fixture->out, &out, (const bool[]){true, false, true});
        assert_json(fixture->out.data,
                    "{'NodeNameToMetaVictims':{'n1':{'Pods':[{'UID':'b'},{'UID':'a'}],"
                    "'NumPDBViolations':1},'n3':{'Pods':[],'NumPDBViolations':0}}}");
    }
}

WIRE_TEST(preempt_args__that_cannot_be_right_are_refused)
{
#define META_VICTIMS(nodes) "{" POD ",'NodeNameToMetaVictims':{" nodes "}}"
    static const struct wire_case bad[] = {
        {"", "body: expected an object"},
        {"{'NodeNameToMetaVictims':{}}", "has no \"Pod\""},
        {"{" POD "}", "has neither"},
        {"{" POD ",'NodeNameToMetaVictims':{'n':{}},'NodeNameToVictims':{}}", "exclude each other"},
        {META_VICTIMS("'n':{},'n':{}"), "node \"n\" comes twice"},
        {META_VICTIMS("'':{}"), "a node's name must have 1 to 253 bytes"},
        {META_VICTIMS("'n':[]"), "body.NodeNameToMetaVictims.n: expected an object"},
        {META_VICTIMS("'n':{'Pods':{}}"), "n.Pods: expected an array"},
        {META_VICTIMS("'n':{'Pods':[null]}"), "n.Pods[0]: expected an object"},
        {META_VICTIMS("'n':{'Pods':[{}]}"), "n.Pods[0]: has no \"UID\""},
        {META_VICTIMS("'n':{'Pods':[{'UID':''}]}"), "n.Pods[0].UID: must not be empty"},
        {META_VICTIMS("'n':{'NumPDBViolations':1.5}"), "NumPDBViolations: is 1.5"},
        {"{" POD ",'NodeNameToVictims':{'n':{'Pods':[{'metadata':{}}]}}}",
         "n.Pods[0]: has no metadata.uid"},
        {META_VICTIMS("") "1", "after the value"},
    };
    struct extender_preempt out;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fixture->err = (struct err){0};
        if (preempt(fixture, bad[i].bytes, &out) != -ERR_INVALID)
            fail_msg("%s was taken", bad[i].bytes);
        assert_says(fixture, bad[i].says);
    }
}
