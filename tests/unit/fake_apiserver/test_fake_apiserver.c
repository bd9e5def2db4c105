#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/reflector.h"

#include "support/patience.h"
#include "support/quotes.h"
#include "support/test.h"

struct fixture {
    struct fake_apiserver *fake;
    struct strbuf out;
    int status;
};

static int64_t fixed_wall(void *ctx)
{
    (void)ctx;
    return 1767323045678; /* 2026-01-02T03:04:05.678Z */
}

static int set_up(void **state)
{
    struct fixture *fixture = xcalloc(1, sizeof *fixture);
    fixture->fake = fake_apiserver_new("test");
    fake_apiserver_set_clock(fixture->fake, fixed_wall, NULL);
    strbuf_init(&fixture->out);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    fake_apiserver_free(fixture->fake);
    strbuf_done(&fixture->out);
    xfree(fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct fixture *fixture, set_up, tear_down)

/* The body has ' for ". */
static int ask(struct fixture *fixture, const char *method, const char *path, const char *body)
{
    CLEANUP(xfreep) char *json = with_quotes(body);

    fixture->status =
        fake_apiserver_request(fixture->fake, method, path, text_of(json), &fixture->out);
    return fixture->status;
}

static unsigned count(struct fixture *fixture, const char *part)
{
    CLEANUP(xfreep) char *json = with_quotes(part);
    unsigned found = 0;

    for (const char *at = fixture->out.data; (at = strstr(at, json)) != NULL; at++)
        found++;
    return found;
}

static void expect(struct fixture *fixture, int status, const char *part)
{
    if (fixture->status != status || (part[0] != '\0' && count(fixture, part) == 0))
        fail_msg("expected %d and \"%s\", got %d and %s", status, part, fixture->status,
                 fixture->out.data);
}

static void asks(struct fixture *fixture, const char *method, const char *path, const char *body,
                 int status, const char *part)
{
    (void)ask(fixture, method, path, body);
    expect(fixture, status, part);
}

static void get_says(struct fixture *fixture, const char *path, int status, const char *part)
{
    asks(fixture, "GET", path, "", status, part);
}

static void lacks(struct fixture *fixture, const char *part)
{
    if (count(fixture, part) > 0)
        fail_msg("\"%s\" is in %s", part, fixture->out.data);
}

/* The value of the first "key":"value". */
static const char *field(struct fixture *fixture, const char *key)
{
    static char value[512];
    char sought[64];

    (void)snprintf(sought, sizeof sought, "\"%s\":\"", key);
    const char *at = strstr(fixture->out.data, sought);
    assert_non_null(at);
    at += strlen(sought);
    (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
    return value;
}

static uint64_t version(struct fixture *fixture)
{
    return strtoull(field(fixture, "resourceVersion"), NULL, 10);
}

#define PODS "/api/v1/namespaces/default/pods"

static const char vgpu_pod[] =
    "{'metadata':{'name':'a','labels':{'app':'x'}},'spec':{'containers':[{'name':'c','resources':{"
    "'limits':{'nvidia.com/vgpu':300,'cpu':'500m'}}}]}}";

static void add_pod(struct fixture *fixture, const char *name)
{
    char body[256];
    (void)snprintf(body, sizeof body,
                   "{'metadata':{'name':'%s'},'spec':{'containers':[{'name':'c'}]}}", name);
    assert_int_equal(ask(fixture, "POST", PODS, body), 201);
}

static int bind_to(struct fixture *fixture, const char *name, const char *node)
{
    char path[256];
    char body[512];
    (void)snprintf(path, sizeof path, PODS "/%s/binding", name);
    (void)snprintf(
        body, sizeof body,
        "{'metadata':{'name':'%s','annotations':{'milligpu.io/x':'1'}},'target':{'kind':'Node',"
        "'name':'%s'}}",
        name, node);
    return ask(fixture, "POST", path, body);
}

/* ---- objects ---- */

FIXTURE_TEST(create__adds_the_fields_of_the_api_server)
{
    asks(fixture, "POST", PODS, vgpu_pod, 201, "'phase':'Pending'");
    expect(fixture, 201, "'namespace':'default'");
    expect(fixture, 201, "'creationTimestamp':'2026-01-02T03:04:05Z'");
    expect(fixture, 201, "'schedulerName':'default-scheduler'");
    expect(fixture, 201, "'requests':{'nvidia.com/vgpu':'300','cpu':'500m'}");
    assert_int_equal(strlen(field(fixture, "uid")), 36);
    assert_true(version(fixture) > 1);
    get_says(fixture, PODS "/a", 200, "'kind':'Pod','apiVersion':'v1'");
    asks(fixture, "POST", PODS, vgpu_pod, 409, "pods \\\"a\\\" already exists");
}

FIXTURE_TEST(uid__is_the_same_in_every_run_and_differs_within_one)
{
    void *other = NULL;
    char first[64];

    add_pod(fixture, "a");
    (void)snprintf(first, sizeof first, "%s", field(fixture, "uid"));
    add_pod(fixture, "b");
    assert_string_not_equal(field(fixture, "uid"), first);
    assert_int_equal(set_up(&other), 0);
    add_pod(other, "z");
    assert_string_equal(field(other, "uid"), first);
    (void)tear_down(&other);
}

FIXTURE_TEST(amount__becomes_canonical)
{
    static const struct {
        const char *given;
        const char *stored;
    } row[] = {{"1000", "\"1k\""}, {"\"3e2\"", "\"300\""}, {"\"8000\"", "\"8k\""},
               {"0", "\"0\""},     {"1500", "\"1500\""},   {"\"2M\"", "\"2M\""}};

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char body[512];
        char part[64];
        (void)snprintf(
            body, sizeof body,
            "{'metadata':{'generateName':'p-'},'spec':{'containers':[{'name':'c','resources':{"
            "'limits':{'nvidia.com/vgpu':%s}}}]}}",
            row[i].given);
        ask(fixture, "POST", PODS, body);
        (void)snprintf(part, sizeof part, "'limits':{'nvidia.com/vgpu':%s}", row[i].stored);
        expect(fixture, 201, part);
    }
}

FIXTURE_TEST(amount__is_refused_as_by_the_api_server)
{
    static const struct {
        const char *given;
        int status;
        const char *text;
    } row[] = {
        {"'limits':{'nvidia.com/vgpu':'0.3'}", 422, "must be an integer"},
        {"'limits':{'nvidia.com/vgpu':'300m'}", 422, "must be an integer"},
        {"'limits':{'nvidia.com/vgpu':'-1'}", 422, "greater than or equal to 0"},
        {"'limits':{'nvidia.com/vgpu':'many'}", 400, "quantities must match"},
        {"'limits':{'nvidia.com/vgpu':[]}", 400, "expected a quantity, found an array"},
        {"'requests':{'nvidia.com/vgpu':'1'}", 422, "Limit must be set"},
        {"'limits':{'nvidia.com/vgpu':2},'requests':{'nvidia.com/vgpu':1}", 422,
         "equal to the limit"},
        {"'limits':[]", 400, "expected an object, found an array"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char body[512];
        (void)snprintf(
            body, sizeof body,
            "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','resources':{%s}}]}}",
            row[i].given);
        asks(fixture, "POST", PODS, body, row[i].status, row[i].text);
    }
    get_says(fixture, PODS, 200, "'items':[]");
}

FIXTURE_TEST(body__is_refused_with_a_reason)
{
    static const struct {
        const char *body;
        int status;
        const char *text;
    } row[] = {
        {"", 400, "body"},
        {"{", 400, "body"},
        {"[]", 400, "expected an object, found an array"},
        {"{} x", 400, "body"},
        {"{'a':1,'a':2}", 400, "twice"},
        {"{'metadata':3}", 400, "metadata: expected an object, found a number"},
        {"{'metadata':{'name':3}}", 400, "metadata.name: expected a string"},
        {"{'metadata':{'name':'a','annotations':{'k':1}}}", 400, "annotations"},
        {"{'metadata':{'name':'Upper'}}", 422, "metadata.name"},
        {"{'metadata':{'name':'a'}}", 422, "spec: Required value"},
        {"{'metadata':{'name':'a'},'spec':{'containers':[]}}", 422, "spec.containers"},
        {"{'metadata':{'name':'a'},'spec':{'containers':[{}]}}", 422, "containers[0].name"},
        {"{'kind':'Node','metadata':{'name':'a'}}", 400, "kind: expected"},
        {"{'metadata':{'name':'a','namespace':'other'}}", 400, "does not match"},
        {"{'metadata':{'name':'a\\u0000b'}}", 400, "NUL"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        asks(fixture, "POST", PODS, row[i].body, row[i].status, row[i].text);
    }
}

FIXTURE_TEST(request__for_an_unknown_path_or_method_is_refused)
{
    static const struct {
        const char *method;
        const char *path;
        int status;
    } row[] = {
        {"GET", "/", 404},
        {"GET", "/api/v1", 404},
        {"GET", "/api/v1/services", 404},
        {"GET", "/api/v1/pods/a", 404},
        {"GET", "/api/v1/nodes/none", 404},
        {"GET", "/api/v1/namespaces/default/nodes/n", 404},
        {"GET", PODS "/a/exec", 404},
        {"GET", PODS "/a/b/c", 404},
        {"GET", PODS "/%zz", 404},
        {"PUT", PODS, 405},
        {"DELETE", PODS, 405},
        {"POST", "/api/v1/pods", 405},
        {"POST", PODS "/a", 405},
        {"GET", PODS "/a/binding", 405},
        {"GET", PODS "?limit=x", 400},
        {"GET", PODS "?limit=-1", 400},
        {"GET", PODS "?continue=x", 400},
        {"GET", PODS "?resourceVersion=x", 400},
        {"GET", PODS "?fieldSelector=spec.color%3Dred", 400},
        {"GET", "/api/v1/nodes?fieldSelector=spec.nodeName%3Dx", 400},
        {"GET", PODS "?fieldSelector=x", 400},
        {"GET", PODS "?labelSelector=a", 400},
        {"GET", PODS "?a=%g", 400},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        ask(fixture, row[i].method, row[i].path, "");
        if (fixture->status != row[i].status)
            fail_msg("%s %s: %d", row[i].method, row[i].path, fixture->status);
        expect(fixture, row[i].status, "'kind':'Status'");
    }
}

FIXTURE_TEST(cluster__has_an_identity_and_a_version)
{
    char first[64];
    struct fake_apiserver *other = fake_apiserver_new("other");

    ask(fixture, "GET", "/api/v1/namespaces/kube-system", "");
    (void)snprintf(first, sizeof first, "%s", field(fixture, "uid"));
    assert_int_equal(strlen(first), 36);
    (void)fake_apiserver_request(other, "GET", "/api/v1/namespaces/kube-system", TEXT(""),
                                 &fixture->out);
    assert_string_not_equal(field(fixture, "uid"), first);
    fake_apiserver_free(other);
    get_says(fixture, "/version", 200, "gitVersion");
    asks(fixture, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
         "{'spec':{'resourceAttributes':{'verb':'list'}}}", 201, "'status':{'allowed':true}");
}

/* ---- binding ---- */

FIXTURE_TEST(binding__is_one_write)
{
    add_pod(fixture, "a");
    const uint64_t before = version(fixture);
    bind_to(fixture, "a", "n1");
    expect(fixture, 201, "'status':'Success','code':201");
    char path[128];
    (void)snprintf(path, sizeof path, "/api/v1/pods?watch=1&resourceVersion=%llu",
                   (unsigned long long)before);
    ask(fixture, "GET", path, "");
    assert_int_equal(count(fixture, "'type':'MODIFIED'"), 1);
    assert_int_equal(count(fixture, "\n"), 1);
    expect(fixture, 200, "'nodeName':'n1'");
    expect(fixture, 200, "'annotations':{'milligpu.io/x':'1'}");
    expect(fixture, 200,
           "{'type':'PodScheduled','status':'True','lastTransitionTime':'2026-01-02T03:04:05Z'}");
}

FIXTURE_TEST(binding__merges_its_annotations)
{
    ask(fixture, "POST", PODS,
        "{'metadata':{'name':'a','annotations':{'k':'old','kept':'yes'}},'spec':{'containers':[{"
        "'name':'c'}]}}");
    ask(fixture, "POST", PODS "/a/binding",
        "{'metadata':{'name':'a','annotations':{'k':'new'}},'target':{'name':'n'}}");
    get_says(fixture, PODS "/a", 200, "'annotations':{'k':'new','kept':'yes'}");
}

FIXTURE_TEST(binding__is_refused_for_a_bound_pod)
{
    add_pod(fixture, "a");
    bind_to(fixture, "a", "n1");
    bind_to(fixture, "a", "n1");
    expect(fixture, 409, "pod a is already assigned to node \\\"n1\\\"");
    expect(fixture, 409, "'reason':'Conflict'");
    expect(fixture, 409, "pods/binding");
}

FIXTURE_TEST(binding__for_another_uid_or_version_is_a_conflict)
{
    add_pod(fixture, "a");
    asks(fixture, "POST", PODS "/a/binding",
         "{'metadata':{'name':'a','uid':'other'},'target':{'name':'n'}}", 409,
         "Precondition failed: UID in precondition: other");
    asks(
        fixture, "POST", PODS "/a/binding",
        "{'metadata':{'name':'a','resourceVersion':'1'},'target':{'name':'n'}}", 409,
        "Operation cannot be fulfilled on pods \\'a\\': StorageError: invalid object, Code: 4, Key:"
        " /registry/pods/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
        " ResourceVersion in precondition: 1, ResourceVersion in object meta: ");
    ask(fixture, "GET", PODS "/a", "");
    lacks(fixture, "nodeName");
}

FIXTURE_TEST(binding__is_checked_before_the_pod)
{
    static const struct {
        const char *pod;
        const char *body;
        int status;
        const char *part;
    } row[] = {
        {"none", "{'metadata':{'name':'none'},'target':{'name':'n'}}", 404,
         "pods \\'none\\' not found"},
        {"a", "{'metadata':{'name':'b'},'target':{'name':'n'}}", 400, "name in URL does not match"},
        {"a", "{'metadata':{'name':'a','namespace':'x'},'target':{'name':'n'}}", 400, "namespace"},
        {"a", "{'metadata':{'name':'a'}}", 500, "target.name: Required value"},
        {"a", "{'metadata':{'name':'a'},'target':{'kind':'Pod','name':'n'}}", 500, "target.kind"},
        {"a", "{", 400, "Binding"},
    };
    char path[96];

    add_pod(fixture, "a");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        (void)snprintf(path, sizeof path, PODS "/%s/binding", row[i].pod);
        asks(fixture, "POST", path, row[i].body, row[i].status, row[i].part);
    }
}

FIXTURE_TEST(binding__is_refused_for_a_gated_or_terminating_pod)
{
    ask(fixture, "POST", PODS,
        "{'metadata':{'name':'g'},'spec':{'schedulingGates':[{'name':'x'}],'containers':[{"
        "'name':'c'}]}}");
    bind_to(fixture, "g", "n");
    expect(fixture, 409, "non-empty .spec.schedulingGates");
    add_pod(fixture, "a");
    bind_to(fixture, "a", "n");
    asks(fixture, "DELETE", PODS "/a", "", 200, "'deletionTimestamp':'2026-01-02T03:04:05Z'");
    bind_to(fixture, "a", "n");
    expect(fixture, 409, "is being deleted");
}

/* ---- patches ---- */

FIXTURE_TEST(patch__of_status_leaves_the_rest_alone)
{
    add_pod(fixture, "a");
    asks(fixture, "PATCH", PODS "/a/status",
         "{'status':{'phase':'Running'},'spec':{'nodeName':'x'}}", 200, "'phase':'Running'");
    lacks(fixture, "nodeName");
    asks(fixture, "PATCH", PODS "/a",
         "{'status':{'phase':'Failed'},'metadata':{'name':'b','labels':{'l':'1'}}}", 200,
         "'phase':'Running'");
    expect(fixture, 200, "'labels':{'l':'1'}");
    expect(fixture, 200, "'name':'a'");
    asks(fixture, "PATCH", PODS "/a", "{'metadata':{'labels':{'l':null}}}", 200, "'labels':{}");
}

FIXTURE_TEST(version__grows_with_each_write_and_with_nothing_else)
{
    static const char label[] = "{'metadata':{'annotations':{'k':'1'}}}";

    add_pod(fixture, "a");
    ask(fixture, "PATCH", PODS "/a", label);
    const uint64_t now = fake_apiserver_version(fixture->fake);
    assert_int_equal(now, version(fixture));
    ask(fixture, "GET", PODS "/a", "");
    ask(fixture, "PATCH", PODS "/a", "{}");
    ask(fixture, "PATCH", PODS "/a", label); /* changes nothing */
    assert_int_equal(now, version(fixture));
    ask(fixture, "DELETE", PODS "/b", "");
    assert_int_equal(fake_apiserver_version(fixture->fake), now);
    ask(fixture, "PATCH", PODS "/a", "{'metadata':{'annotations':{'k':'2'}}}");
    assert_int_equal(version(fixture), now + 1);
    bind_to(fixture, "a", "n");
    assert_int_equal(fake_apiserver_version(fixture->fake), now + 2);
}

FIXTURE_TEST(patch__has_preconditions_and_limits)
{
    static const struct {
        const char *path;
        const char *body;
        int status;
        const char *part;
    } row[] = {
        {PODS "/none", "{}", 404, "not found"},
        {PODS "/a", "{'metadata':{'resourceVersion':'1'}}", 409, "has been modified"},
        {PODS "/a", "{'metadata':{'uid':'x'}}", 409, "UID in precondition"},
        {PODS "/a", "{'spec':{'nodeName':'n'}}", 422, "spec: Forbidden"},
        {PODS "/a", "{'metadata':{'annotations':{'k':1}}}", 400, "annotations"},
        {PODS "/a", "[]", 400, "expected an object"},
    };

    add_pod(fixture, "a");
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        asks(fixture, "PATCH", row[i].path, row[i].body, row[i].status, row[i].part);
}

FIXTURE_TEST(capacity__that_is_advertised_shows_in_allocatable)
{
    asks(fixture, "POST", "/api/v1/nodes",
         "{'metadata':{'name':'n1'},'status':{'capacity':{'cpu':'8'}}}", 201,
         "'allocatable':{'cpu':'8'}");
    asks(fixture, "PATCH", "/api/v1/nodes/n1/status",
         "{'status':{'capacity':{'nvidia.com/vgpu':'8k'}}}", 200,
         "'allocatable':{'cpu':'8','nvidia.com/vgpu':'8k'}");
    asks(fixture, "PATCH", "/api/v1/nodes/n1",
         "{'metadata':{'annotations':{'milligpu.io/bell':'1'}}}", 200, "'milligpu.io/bell':'1'");
    asks(fixture, "DELETE", "/api/v1/nodes/n1", "", 200, "");
    get_says(fixture, "/api/v1/nodes/n1", 404, "nodes \\\"n1\\\" not found");
}

FIXTURE_TEST(wake_object__is_created_once_and_patched_often)
{
    static const char path[] = "/apis/storage.k8s.io/v1/namespaces/milligpu/csistoragecapacities";
    static const char body[] = "{'metadata':{'name':'bell'},'storageClassName':'none'}";

    asks(fixture, "POST", path, body, 201, "'kind':'CSIStorageCapacity'");
    asks(fixture, "POST", path, body, 409, "AlreadyExists");
    asks(fixture, "PATCH", "/apis/storage.k8s.io/v1/namespaces/milligpu/csistoragecapacities/bell",
         "{'metadata':{'annotations':{'ring':'2'}}}", 200, "'ring':'2'");
    get_says(fixture, path, 200, "'kind':'CSIStorageCapacityList'");
}

FIXTURE_TEST(config_map__is_patched_with_another_key)
{
    static const char path[] = "/api/v1/namespaces/milligpu/configmaps";

    asks(fixture, "PATCH", "/api/v1/namespaces/milligpu/configmaps/k", "{'data':{'a':'1'}}", 404,
         "configmaps \\\"k\\\" not found");
    asks(fixture, "POST", path, "{'metadata':{'name':'k'},'data':{'a':'1'}}", 201,
         "'kind':'ConfigMap'");
    asks(fixture, "PATCH", "/api/v1/namespaces/milligpu/configmaps/k", "{'data':{'b':'2'}}", 200,
         "'data':{'a':'1','b':'2'}");
}

FIXTURE_TEST(events__are_kept_up_to_a_thousand)
{
    for (int i = 0; i < 1010; i++) {
        char body[128];
        (void)snprintf(body, sizeof body, "{'metadata':{'name':'e%d'},'note':'n'}", i);
        assert_int_equal(
            ask(fixture, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", body), 201);
    }
    ask(fixture, "GET", "/apis/events.k8s.io/v1/namespaces/default/events", "");
    assert_int_equal(count(fixture, "\"note\""), 1000);
    lacks(fixture, "'name':'e9'");
    expect(fixture, 200, "'name':'e10'");
}

static void bind_version(struct fixture *fixture, uint64_t version)
{
    char body[128];

    (void)snprintf(body, sizeof body,
                   "{'metadata':{'name':'a','resourceVersion':'%llu'},'target':{'name':'n'}}",
                   (unsigned long long)version);
    ask(fixture, "POST", PODS "/a/binding", body);
}

static uint64_t version_of_a(struct fixture *fixture)
{
    get_says(fixture, PODS "/a", 200, "");
    return version(fixture);
}

FIXTURE_TEST(binding__lands_on_its_own_resource_version_only)
{
    add_pod(fixture, "a");
    const uint64_t judged = version_of_a(fixture);
    ask(fixture, "PATCH", PODS "/a", "{'metadata':{'annotations':{'x':'1'}}}");
    bind_version(fixture, judged);
    expect(fixture, 409, "ResourceVersion in precondition");
    bind_version(fixture, judged + 100); /* nor with a version still to come */
    expect(fixture, 409, "ResourceVersion in precondition");
    const uint64_t now = version_of_a(fixture);
    assert_true(now > judged);
    bind_version(fixture, now);
    expect(fixture, 201, "");
    bind_version(fixture, now); /* the same again: the precondition is checked first */
    expect(fixture, 409, "ResourceVersion in precondition");
}

/* ---- deletion ---- */

FIXTURE_TEST(delete__of_a_running_pod_takes_two_steps)
{
    add_pod(fixture, "a");
    bind_to(fixture, "a", "n");
    asks(fixture, "DELETE", PODS "/a", "{'preconditions':{'uid':'other'}}", 409,
         "Precondition failed");
    asks(fixture, "DELETE", PODS "/a", "", 200, "'deletionGracePeriodSeconds':30");
    get_says(fixture, PODS "/a", 200, "deletionTimestamp");
    asks(fixture, "DELETE", PODS "/a?gracePeriodSeconds=0", "", 200, "");
    get_says(fixture, PODS "/a", 404, "");
}

FIXTURE_TEST(delete__of_a_pod_without_a_kubelet_is_immediate)
{
    add_pod(fixture, "a");
    asks(fixture, "DELETE", PODS "/a", "", 200, "");
    asks(fixture, "DELETE", PODS "/a", "", 404, "not found");
    add_pod(fixture, "b");
    bind_to(fixture, "b", "n");
    ask(fixture, "DELETE", PODS "/b", "{'gracePeriodSeconds':0}");
    get_says(fixture, PODS "/b", 404, "");
}

/* ---- lists and watches ---- */

FIXTURE_TEST(list__in_pages_is_one_snapshot)
{
    char path[256];

    for (int i = 0; i < 5; i++) {
        const char name[] = {(char)('e' - i), '\0'};
        add_pod(fixture, name);
    }
    ask(fixture, "GET", "/api/v1/pods?limit=2", "");
    assert_int_equal(count(fixture, "'kind':'Pod',"), 2);
    expect(fixture, 200, "'name':'a'");
    const uint64_t before = version(fixture);
    (void)snprintf(path, sizeof path, "/api/v1/pods?limit=2&continue=%s",
                   field(fixture, "continue"));
    ask(fixture, "DELETE", PODS "/d", "");
    add_pod(fixture, "cc");
    get_says(fixture, path, 200, "'name':'c'");
    expect(fixture, 200, "'name':'d'");
    lacks(fixture, "'name':'cc'");
    assert_int_equal(version(fixture), before);
    (void)snprintf(path, sizeof path, "/api/v1/pods?limit=2&continue=%s",
                   field(fixture, "continue"));
    get_says(fixture, path, 200, "'name':'e'");
    lacks(fixture, "continue");
}

FIXTURE_TEST(list__with_an_old_continue_token_is_expired)
{
    char path[256];

    add_pod(fixture, "a");
    add_pod(fixture, "b");
    ask(fixture, "GET", "/api/v1/pods?limit=1", "");
    (void)snprintf(path, sizeof path, "/api/v1/pods?limit=1&continue=%s",
                   field(fixture, "continue"));
    fake_apiserver_compact(fixture->fake);
    get_says(fixture, path, 410, "'reason':'Expired'");
}

FIXTURE_TEST(list__selects_by_field)
{
    add_pod(fixture, "a");
    add_pod(fixture, "b");
    bind_to(fixture, "b", "n1");
    ask(fixture, "PATCH", PODS "/b/status", "{'status':{'phase':'Succeeded'}}");
    ask(fixture, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%21%3D", "");
    lacks(fixture, "'name':'a'");
    expect(fixture, 200, "'name':'b'");
    get_says(fixture,
             "/api/v1/pods?fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed", 200,
             "'name':'a'");
    lacks(fixture, "'name':'b'");
    ask(fixture, "GET", "/api/v1/pods?fieldSelector=metadata.name%3D%3Da", "");
    assert_int_equal(count(fixture, "\"uid\""), 1);
    get_says(fixture, "/api/v1/namespaces/other/pods", 200, "'items':[]");
}

FIXTURE_TEST(watch__reports_an_object_that_leaves_its_selection_as_deleted)
{
    static const char path[] =
        "/api/v1/pods?watch=1&resourceVersion=1&fieldSelector=status.phase!%3DSucceeded";

    add_pod(fixture, "a");
    ask(fixture, "PATCH", PODS "/a/status", "{'status':{'phase':'Succeeded'}}");
    ask(fixture, "PATCH", PODS "/a", "{'metadata':{'labels':{'x':'y'}}}");
    ask(fixture, "GET", path, "");
    assert_int_equal(count(fixture, "\n"), 2);
    expect(fixture, 200, "{'type':'ADDED'");
    expect(fixture, 200, "{'type':'DELETED'");
}

FIXTURE_TEST(watch__from_before_a_compaction_is_gone)
{
    add_pod(fixture, "a");
    fake_apiserver_compact(fixture->fake);
    get_says(fixture, "/api/v1/pods?watch=true&resourceVersion=1", 200, "{'type':'ERROR'");
    expect(fixture, 200, "'reason':'Expired','code':410");
    get_says(fixture, "/api/v1/pods?watch=true", 200, "{'type':'ADDED'");
    get_says(fixture, "/api/v1/pods?watch=true&resourceVersion=99999", 200, "'code':504");
}

FIXTURE_TEST(watch__from_before_the_kept_events_is_gone)
{
    add_pod(fixture, "a");
    for (int i = 0; i <= FAKE_EVENTS_MAX; i++) {
        char body[96];
        (void)snprintf(body, sizeof body, "{'metadata':{'labels':{'i':'%d'}}}", i);
        assert_int_equal(ask(fixture, "PATCH", PODS "/a", body), 200);
    }
    get_says(fixture, "/api/v1/pods?watch=1&resourceVersion=2", 200, "'code':410");
    get_says(fixture, "/api/v1/pods?watch=1&resourceVersion=8000", 200, "MODIFIED");
}

/* ---- kube_ops ---- */

/* A client of the fixture's ops, and its answers. */
struct client {
    struct kube_ops ops;
    struct strbuf text;
    unsigned pieces;
    bool done;
    uint64_t cancel_at_data;
    bool start_more;
};

static void begin(struct client *client, uint64_t id, const char *path)
{
    const struct kube_request request = {.id = id, .method = "GET", .path = path, .body = TEXT("")};
    struct err err;
    assert_int_equal(client->ops.start(client->ops.ctx, &request, &err), 0);
}

static void take(void *user, const struct kube_answer *answer)
{
    struct client *client = user;

    assert_false(client->done);
    client->pieces++;
    if (answer->piece == KUBE_DATA)
        strbuf_text(&client->text, answer->data);
    if (answer->piece == KUBE_DATA && client->cancel_at_data == answer->id)
        client->ops.cancel(client->ops.ctx, answer->id);
    client->done = answer->piece == KUBE_DONE && !client->start_more;
    if (answer->piece == KUBE_DONE && client->start_more) {
        client->start_more = false;
        begin(client, answer->id + 1, "/version");
    }
}

static void client_open(struct client *client, struct fixture *fixture, const char *path)
{
    strbuf_init(&client->text);
    fake_apiserver_ops(fixture->fake, &client->ops);
    assert_string_equal(client->ops.name(client->ops.ctx), "test");
    begin(client, 1, path);
}

static void client_poll(struct client *client, int64_t wait_ms)
{
    client->ops.poll(client->ops.ctx, wait_ms, client, take);
}

static void client_close(struct client *client)
{
    client->ops.free(client->ops.ctx);
    strbuf_done(&client->text);
}

FIXTURE_TEST(ops__answer_in_pieces_and_take_requests_meanwhile)
{
    struct client client = {.start_more = true};

    client_open(&client, fixture, "/api/v1/nodes");
    client_poll(&client, 1000);
    assert_true(client.done);
    assert_int_equal(client.pieces, 6);
    assert_non_null(strstr(client.text.data, "NodeList"));
    assert_non_null(strstr(client.text.data, "gitVersion"));
    client_close(&client);
}

FIXTURE_TEST(ops__report_writes_to_a_watch_until_it_is_cancelled)
{
    struct client client = {.done = false};

    client_open(&client, fixture, "/api/v1/pods?watch=1&resourceVersion=1");
    client_poll(&client, 1000);
    assert_int_equal(client.pieces, 1);
    client_poll(&client, 1);
    assert_int_equal(client.pieces, 1);
    add_pod(fixture, "a");
    client_poll(&client, 60000);
    assert_int_equal(client.pieces, 2);
    client.cancel_at_data = 1;
    add_pod(fixture, "b");
    client_poll(&client, 60000);
    add_pod(fixture, "missed");
    client.ops.wake(client.ops.ctx);
    client_poll(&client, 60000);
    assert_int_equal(client.pieces, 3);
    assert_null(strstr(client.text.data, "missed"));
    assert_false(client.done);
    client_close(&client);
}

FIXTURE_TEST(ops__end_a_watch_at_its_timeout_with_a_bookmark)
{
    struct client client = {.done = false};
    int64_t until_ms = 0;

    client_open(&client, fixture,
                "/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=1&allowWatchBookmarks=true");
    while (!client.done && patience_left(&until_ms))
        client_poll(&client, 1000);
    assert_true(client.done);
    assert_non_null(strstr(client.text.data, "BOOKMARK"));
    client_close(&client);
}

FIXTURE_TEST(ops__fetch_one_request)
{
    const struct kube_request request = {.id = 5,
                                         .method = "GET",
                                         .path = "/api/v1/namespaces/kube-system",
                                         .body = TEXT(""),
                                         .timeout_ms = 1000};
    struct kube_ops ops;
    struct err err;

    fake_apiserver_ops(fixture->fake, &ops);
    assert_int_equal(kube_fetch(&ops, &request, &fixture->out, &err), 200);
    assert_int_equal(strlen(field(fixture, "uid")), 36);
    ops.free(ops.ctx);
}
