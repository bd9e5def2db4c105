/* A report is written and read again the same, and whatever is wrong in one is named. */
#include "milligpu/base/alloc.h"
#include "milligpu/wire/usage/usage_report.h"

#include "support.h"

static const char golden[] =
    "{'v':1,'node':'n1','number':17,'seconds':300,'pods':[{'uid':'u-1','containers':[{"
    "'name':'main','gpus':[{'gpu':'GPU-a','milli':120,'mib':4000,'peakMib':4915},{'gpu':'GPU-b'},{"
    "'gpu':'GPU-c','milli':538,'scaled':true}],'over':'seen'},{'name':'side','gpus':[]}]},{"
    "'uid':'u-2','containers':[]}]}";

static int decode(struct fixture *fixture, const char *json, struct usage_report *out)
{
    return usage_report_decode(exact_json(fixture, json), &fixture->arena, out, &fixture->err);
}

WIRE_TEST(usage_report__has_these_bytes)
{
    struct usage_gpu gpu[] = {
        {TEXT("GPU-a"), 120, 4000, 4915, false},
        {TEXT("GPU-b"), USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN, false},
        {TEXT("GPU-c"), 538, USAGE_UNKNOWN, USAGE_UNKNOWN, true},
    };
    struct usage_container container[] = {{TEXT("main"), 3, gpu, USAGE_OVER_SEEN},
                                          {TEXT("side"), 0, NULL, USAGE_OVER_NOT}};
    struct usage_pod pod[] = {{TEXT("u-1"), 2, container}, {TEXT("u-2"), 0, NULL}};
    const struct usage_report report = {TEXT("n1"), 17, 300, 2, pod};

    usage_report_encode(&fixture->out, &report);
    assert_json(fixture->out.data, golden);
}

WIRE_TEST(usage_report__is_read_as_written)
{
    struct usage_report report;

    assert_int_equal(decode(fixture, golden, &report), 0);
    assert_true(text_is(report.node, "n1"));
    assert_int_equal(report.number, 17);
    assert_int_equal(report.seconds, 300);
    assert_int_equal(report.n_pods, 2);
    assert_int_equal(report.pod[0].n_containers, 2);
    const struct usage_container *main = &report.pod[0].container[0];
    assert_int_equal(main->over, USAGE_OVER_SEEN);
    assert_int_equal(main->gpu[0].peak_mib, 4915);
    assert_int_equal(main->gpu[1].milli, USAGE_UNKNOWN);
    assert_int_equal(main->gpu[1].mib, USAGE_UNKNOWN);
    assert_false(main->gpu[0].is_scaled); /* as of an agent that does not know the member */
    assert_false(main->gpu[1].is_scaled);
    assert_true(main->gpu[2].is_scaled);
    usage_report_encode(&fixture->out, &report);
    assert_json(fixture->out.data, golden);
}

WIRE_TEST(usage_report__ignores_unknown_members)
{
    struct usage_report report;
    static const char body[] =
        "{'v':1,'node':'n','later':[1],'number':9223372036854775807,'seconds':1,'pods':[{'uid':'u',"
        "'x':null,'containers':[{'name':'c','gpus':[{'gpu':'g','milli':null,'y':{}}],"
        "'over':null}]}]}";

    assert_int_equal(decode(fixture, body, &report), 0);
    assert_int_equal(report.pod[0].container[0].gpu[0].milli, USAGE_UNKNOWN);
    assert_int_equal(report.pod[0].container[0].over, USAGE_OVER_NOT);
}

static bool is_scaled(struct fixture *fixture, const char *members)
{
    struct usage_report report;
    char body[256];

    (void)snprintf(
        body, sizeof body,
        "{'v':1,'node':'n','number':1,'seconds':1,'pods':[{'uid':'u','containers':[{'name':'c',"
        "'gpus':[{'gpu':'g'%s}]}]}]}",
        members);
    assert_int_equal(decode(fixture, body, &report), 0);
    return report.pod[0].container[0].gpu[0].is_scaled;
}

WIRE_TEST(scaled__needs_an_amount_and_the_word_of_the_report)
{
    assert_true(is_scaled(fixture, ",'milli':0,'scaled':true"));
    assert_true(is_scaled(fixture, ",'scaled':true,'milli':7")); /* in any order */
    assert_false(is_scaled(fixture, ",'milli':7,'scaled':false"));
    assert_false(is_scaled(fixture, ",'milli':7,'scaled':null"));
    assert_false(is_scaled(fixture, ",'milli':7"));
    assert_false(is_scaled(fixture, ",'scaled':true"));
    assert_false(is_scaled(fixture, ",'mib':7,'scaled':true"));
}

#define HEAD "{'v':1,'node':'n','number':1,'seconds':1"
#define POD  HEAD ",'pods':[{'uid':'u','containers':[{'name':'c','gpus':["
#define TAIL "]}]}]}"

WIRE_TEST(usage_report__error_names_the_field)
{
    static const struct wire_case cases[] = {
        {"", "report"},
        {"[]", "report"},
        {"{}", "report: has no \"v\""},
        {"{'v':2}", "report.v: is 2, and this milligpud knows 1 only"},
        {"{'v':1}", "report: has no \"node\""},
        {"{'v':1,'node':''}", "report.node: must not be empty"},
        {"{'v':1,'node':'n'}", "report: has no \"number\""},
        {"{'v':1,'node':'n','number':0}", "report.number: is 0, but must be 1 to"},
        {"{'v':1,'node':'n','number':'1'}", "report.number: "},
        {"{'v':1,'node':'n','number':1,'seconds':86401}", "report.seconds: is 86401"},
        {HEAD ",'pods':{}}", "report.pods: "},
        {HEAD ",'pods':[{}]}", "report.pods[0]: has no \"uid\""},
        {HEAD ",'pods':[{'uid':'u'},{'uid':'u'}]}", "names \"u\" twice"},
        {HEAD "} ", ""},
        {HEAD "}x", "report"},
        {POD "{}" TAIL, "report.pods[0].containers[0].gpus[0]: has no \"gpu\""},
        {POD "{'gpu':'g','milli':1001}" TAIL, "gpus[0].milli: is 1001, but must be 0 to 1000"},
        {POD "{'gpu':'g','milli':-1}" TAIL, "gpus[0].milli: is -1"},
        {POD "{'gpu':'g','mib':1.5}" TAIL, "gpus[0].mib: "},
        {POD "{'gpu':'g','peakMib':2147483648}" TAIL, "gpus[0].peakMib: is 2147483648"},
        {POD "{'gpu':'g','milli':1,'scaled':1}" TAIL, "gpus[0].scaled: "},
        {POD "{'gpu':'g','milli':1,'scaled':'true'}" TAIL, "gpus[0].scaled: "},
        {POD "{'gpu':'g'},{'gpu':'g'}" TAIL, "names \"g\" twice, the second time at [1]"},
        {HEAD ",'pods':[{'uid':'u','containers':[{'name':'c','over':'yes'}]}]}",
         "containers[0].over: must be \"seen\" or \"killed\""},
        {HEAD ",'pods':[{'uid':'u','containers':[{'name':'c'},{'name':'c'}]}]}",
         "names \"c\" twice"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct usage_report report;
        const int rc = decode(fixture, cases[i].bytes, &report);
        if (cases[i].says[0] == '\0')
            assert_int_equal(rc, 0);
        else if (rc == 0 || strstr(fixture->err.text, cases[i].says) == NULL)
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].bytes, rc == 0 ? "" : fixture->err.text,
                     cases[i].says);
    }
}

/* count times a member with distinct names. */
static int decode_many(struct fixture *fixture, const char *before, const char *each,
                       uint32_t count)
{
    struct usage_report report;

    strbuf_reset(&fixture->out);
    strbuf_str(&fixture->out, before);
    for (uint32_t i = 0; i < count; i++)
        strbuf_printf(&fixture->out, "%s{'%s':'x%u'}", i > 0 ? "," : "", each, i);
    strbuf_str(&fixture->out, strcmp(each, "uid") == 0    ? "]}"
                              : strcmp(each, "name") == 0 ? "]}]}"
                                                          : TAIL);
    return decode(fixture, fixture->out.data, &report);
}

WIRE_TEST(usage_report__bounds_each_list)
{
    static const char containers[] = HEAD ",'pods':[{'uid':'u','containers':[";

    assert_int_equal(decode_many(fixture, HEAD ",'pods':[", "uid", USAGE_PODS_MAX), 0);
    assert_int_equal(decode_many(fixture, HEAD ",'pods':[", "uid", USAGE_PODS_MAX + 1),
                     -ERR_TOO_LARGE);
    assert_has(fixture->err.text, "report.pods[256]: is one more than the 256");
    assert_int_equal(decode_many(fixture, containers, "name", CONTAINERS_MAX), 0);
    assert_int_equal(decode_many(fixture, containers, "name", CONTAINERS_MAX + 1), -ERR_TOO_LARGE);
    assert_int_equal(decode_many(fixture, POD, "gpu", GPUS_PER_NODE_MAX), 0);
    assert_int_equal(decode_many(fixture, POD, "gpu", GPUS_PER_NODE_MAX + 1), -ERR_TOO_LARGE);
    CLEANUP(xfreep) char *large = xcalloc(USAGE_BODY_BYTES_MAX + 1, 1);
    struct usage_report report;
    assert_int_equal(usage_report_decode((struct text){large, USAGE_BODY_BYTES_MAX + 1},
                                         &fixture->arena, &report, &fixture->err),
                     -ERR_TOO_LARGE);
}
