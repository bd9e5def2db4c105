#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/document/document.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"

#include "admin/api_internal.h"
#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "support_api_fixture.h"

/* --- requests and answers --- */

static size_t size_of(const struct document *document)
{
    return document != NULL ? document->count : 0;
}

static const struct document *nth(const struct document *document, size_t at)
{
    assert_non_null(document);
    assert_int_equal(document->kind, DOCUMENT_ARRAY);
    const struct document *child = document->first;
    for (size_t i = 0; i < at && child != NULL; i++)
        child = child->next;
    if (child == NULL)
        fail_msg("an array of %u has no element %zu", document->count, at);
    return child;
}

/* NULL if it is not a string. */
static const char *string_of(const struct document *document)
{
    return document != NULL && document->kind == DOCUMENT_STRING ? document->text.at : NULL;
}

/* The request is refused with this status, as a problem whose detail contains this part. */
static void refuses(const struct http_server *http, const char *method, const char *target,
                    const char *body, int status, const char *part)
{
    struct answer answer;
    char number[32];

    api_fixture_ask(http, method, target, body, &answer);
    if (answer.status != status || strstr(answer.body.data, part) == NULL)
        fail_msg("%s %s: %d %s", method, target, answer.status, answer.body.data);
    assert_string_equal(answer.type, "application/problem+json");
    (void)snprintf(number, sizeof number, "\"status\":%d,", status);
    assert_non_null(strstr(answer.body.data, number));
    assert_non_null(strstr(answer.body.data, "\"type\":\"about:blank\",\"title\":\""));
    answer_done(&answer);
}

/* A GET of the admin port. */
static void denies(struct api_fixture *fixture, const char *target, int status, const char *part)
{
    refuses(fixture->admin, "GET", target, NULL, status, part);
}

static const char *str(const struct document *object, const char *key)
{
    const char *value = string_of(document_get(object, key));
    if (value == NULL)
        fail_msg("no text %s", key);
    return value != NULL ? value : "";
}

static size_t items(const struct document *list)
{
    const struct document *array = document_get(list, "items");
    assert_non_null(array);
    assert_int_equal(array->kind, DOCUMENT_ARRAY);
    return array->count;
}

static const struct document *item(const struct document *list, size_t at)
{
    return nth(document_get(list, "items"), at);
}

/* Two bound pods, one waiting, one ended, and one that was bound without us. */
static void fill(struct api_fixture *fixture)
{
    api_fixture_pod(fixture, "web-0", "300", "");
    api_fixture_filter(fixture, "web-0");
    api_fixture_bind(fixture, "web-0", "n1");
    api_fixture_pod(fixture, "web-1", "600", "");
    api_fixture_bind(fixture, "web-1", "n2");
    api_fixture_pod(fixture, "past", "250", "");
    api_fixture_bind(fixture, "past", "n2");
    api_fixture_end(fixture, "past");
    api_fixture_pod(fixture, "stray", "200", "n3");
    api_fixture_pod(fixture, "big", "3000", "");
    api_fixture_filter(fixture, "big");
}

static void finds(struct api_fixture *fixture, const char *name, const char *status,
                  const char *part)
{
    const struct document *doctor = api_fixture_get(fixture, "/api/v1/doctor");
    const struct document *checks = document_get(doctor, "checks");
    bool found = false;

    for (const struct document *check = checks->first; check != NULL; check = check->next) {
        const bool good = strcmp(str(check, "status"), "ok") == 0;
        assert_int_equal(good, str(check, "fix")[0] == '\0');
        if (strcmp(str(check, "name"), name) != 0)
            continue;
        found = true;
        if (strcmp(str(check, "status"), status) != 0 || strstr(str(check, "text"), part) == NULL)
            fail_msg("%s: %s: %s", name, str(check, "status"), str(check, "text"));
    }
    if (!found)
        fail_msg("no check %s", name);
}

static void advises(struct api_fixture *fixture, const char *name, const char *part)
{
    const struct document *checks =
        document_get(api_fixture_get(fixture, "/api/v1/doctor"), "checks");

    for (const struct document *check = checks->first; check != NULL; check = check->next)
        if (strcmp(str(check, "name"), name) == 0 && strstr(str(check, "fix"), part) != NULL)
            return;
    fail_msg("%s does not advise: %s", name, part);
}

static int64_t a_minute_ago(void *ctx)
{
    const struct clock_ops *clock = ctx;
    return clock->wall_ms(clock->ctx) - 60000;
}

static void old_pod(struct api_fixture *fixture, const char *name, const char *amount)
{
    struct clock_ops clock;

    clock_real(&clock);
    fake_apiserver_set_clock(fixture->app.fake, a_minute_ago, &clock);
    api_fixture_pod(fixture, name, amount, "");
    fake_apiserver_set_clock(fixture->app.fake, clock.wall_ms, clock.ctx);
}

/* First in the file: the counters of webhook calls belong to the process. */
API_TEST(doctor__reports_a_missing_scheduler)
{
    finds(fixture, "scheduler", "warning", "no scheduler has asked since the start");
    api_fixture_pod(fixture, "young", "100", "");
    finds(fixture, "scheduler", "warning", "no pod waits");
    old_pod(fixture, "lonely", "3000");
    /* Standalone, only play asks. */
    finds(
        fixture, "scheduler", "warning",
        "no scheduler named default-scheduler has asked since the start, and 1 pod waits for one");
    advises(fixture, "scheduler", "milligpuctl play");
    struct fake_apiserver *fake = fixture->app.fake;
    fixture->app.fake = NULL;
    finds(
        fixture, "scheduler", "failed",
        "no scheduler named default-scheduler has asked since the start, and 1 pod waits for one");
    advises(fixture, "scheduler", "urlPrefix");
    fixture->app.fake = fake;
}

/* --- the description compared with the table of routes --- */

static const char *filled(const char *path, char *out, size_t bytes)
{
    size_t used = 0;

    for (; *path != '\0' && used + 8 < bytes; path++) {
        if (*path == '{') {
            used += (size_t)snprintf(out + used, bytes - used, "x%zu", used);
            path += strcspn(path, "}");
        } else {
            out[used++] = *path;
        }
    }
    out[used] = '\0';
    return out;
}

API_TEST(routes__all_answer)
{
    const struct api_route *route;

    for (size_t i = 0; (route = api_route(i)) != NULL; i++) {
        struct answer answer;
        char target[256];
        const bool post = strcmp(route->method, "POST") == 0;
        api_fixture_ask(fixture->admin, route->method, filled(route->path, target, sizeof target),
                        post ? "{}" : NULL, &answer);
        assert_int_not_equal(answer.status, 405);
        assert_int_not_equal(answer.status, 500);
        if (strstr(answer.body.data, "nothing is at") != NULL)
            fail_msg("%s %s is not routed", route->method, route->path);
        if (answer.status < 400)
            assert_int_equal(answer.status, route->status);
        answer_done(&answer);
    }
}

static size_t count_operations(const struct document *paths)
{
    size_t count = 0;

    for (const struct document *path = paths->first; path != NULL; path = path->next)
        count += path->count;
    return count;
}

API_TEST(openapi__names_exactly_the_routes)
{
    const struct document *api = api_fixture_get(fixture, "/openapi.json");
    const struct document *paths = document_get(api, "paths");
    const struct document *schemas = document_at(api, "components.schemas");
    const struct api_route *route;
    size_t routes = 0;

    assert_string_equal(str(api, "openapi"), "3.0.3");
    for (; (route = api_route(routes)) != NULL; routes++) {
        char method[16] = "";
        for (size_t k = 0; route->method[k] != '\0'; k++)
            method[k] = (char)(route->method[k] | 0x20);
        const struct document *operation = document_get(document_get(paths, route->path), method);
        if (operation == NULL)
            fail_msg("%s %s is not described", route->method, route->path);
        assert_string_equal(str(operation, "summary"), route->summary);
        if (route->schema[0] != '\0')
            assert_non_null(document_get(schemas, route->schema));
    }
    assert_int_equal(count_operations(paths), routes);
}

/* Marks the schemas that are referred to; visits each once. */
static void find_refs(const struct document *value, const struct document *schemas, bool *seen)
{
    const char *ref = string_of(document_get(value, "$ref"));

    if (ref != NULL) {
        const char *name = strrchr(ref, '/') + 1;
        if (document_get(schemas, name) == NULL)
            fail_msg("%s is nowhere", ref);
        size_t at = 0;
        for (const struct document *schema = schemas->first; schema != NULL;
             schema = schema->next, at++)
            seen[at] = seen[at] || text_is(schema->key, name);
    }
    for (const struct document *child = value->first; child != NULL; child = child->next)
        find_refs(child, schemas, seen);
}

API_TEST(openapi__uses_every_schema_and_resolves_every_reference)
{
    const struct document *api = api_fixture_get(fixture, "/openapi.json");
    const struct document *schemas = document_at(api, "components.schemas");
    bool seen[64] = {false};
    size_t at = 0;

    assert_true(schemas->count > 0 && schemas->count <= ARRAY_LEN(seen));
    find_refs(api, schemas, seen);
    for (const struct document *schema = schemas->first; schema != NULL;
         schema = schema->next, at++)
        if (!seen[at])
            fail_msg("nothing is a %.*s", TEXT_ARG(schema->key));
}

API_TEST(openapi__lists_every_kind_of_drift)
{
    static const char *const kinds[] = {
#define X(word, help) word,
        DRIFT_KINDS(X)
#undef X
    };
    const struct document *api = api_fixture_get(fixture, "/openapi.json");
    const struct document *schemas = document_at(api, "components.schemas");
    const struct document *drift = document_get(document_get(schemas, "Drift"), "properties");
    const struct document *words = document_get(document_get(drift, "kind"), "enum");

    assert_int_equal(size_of(words), ARRAY_LEN(kinds));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        assert_string_equal(string_of(nth(words, i)), kinds[i]);
}

/* --- how requests are checked --- */

API_TEST(unknown_path__is_404)
{
    denies(fixture, "/", 404, "see /openapi.json");
    denies(fixture, "/api/v1/node", 404, "nothing is at /api/v1/node");
    denies(fixture, "/api/v1/nodesx/", 404, "see /openapi.json");
    denies(fixture, "/api/v1/nodes/n1/gpus", 404, "nothing is at");
    denies(fixture, "/api/v1/pods/default", 404, "nothing is at");
    denies(fixture, "//livez", 404, "nothing is at");
}

API_TEST(trailing_slash__is_404_and_names_the_right_path)
{
    denies(fixture, "/api/v1/nodes/", 404, "it is /api/v1/nodes, without a slash at the end");
    denies(fixture, "/api/v1/nodes/n1//?limit=3", 404,
           "it is /api/v1/nodes/n1, without a slash at the end");
    refuses(fixture->admin, "POST", "/api/v1/standalone/pods/", NULL, 404, "without a slash");
    refuses(fixture->probe, "GET", "/livez/", NULL, 404, "it is /livez, without");
    refuses(fixture->probe, "GET", "/api/v1/nodes/", NULL, 404,
            "/livez, /readyz, /metrics and /metrics/nodes");
}

API_TEST(wrong_method__is_405_and_names_the_right_ones)
{
    struct answer answer;

    refuses(fixture->admin, "POST", "/api/v1/nodes", "{}", 405, "only GET, HEAD");
    refuses(fixture->admin, "DELETE", "/api/v1/summary", NULL, 405, "only GET, HEAD");
    refuses(fixture->admin, "DELETE", "/api/v1/standalone/pods", NULL, 405, "only GET, HEAD, POST");
    refuses(fixture->admin, "POST", "/api/v1/standalone/nodes", "{}", 405, "only GET, HEAD");
    api_fixture_ask(fixture->admin, "PUT", "/api/v1/standalone/pods/a/b", NULL, &answer);
    assert_int_equal(answer.status, 405);
    assert_string_equal(answer.allow, "DELETE");
    answer_done(&answer);
}

API_TEST(body__is_taken_where_the_description_has_one)
{
    const struct api_route *route;

    for (size_t i = 0; (route = api_route(i)) != NULL; i++) {
        if (strchr(route->path, '{') != NULL)
            continue;
        assert_int_equal(api_takes_body(route->method, route->path),
                         strcmp(route->method, "POST") == 0);
        assert_false(api_takes_body("PUT", route->path));
    }
    assert_false(api_takes_body("POST", "/api/v1/standalone/pods/a"));
    refuses(fixture->admin, "GET", "/api/v1/nodes", "{}", 413, "GET /api/v1/nodes takes no body");
    refuses(fixture->admin, "GET", "/api/v1/nodes/n1", "{}", 413, "takes no body");
    refuses(fixture->admin, "DELETE", "/api/v1/standalone/pods/a/b", "{}", 413, "takes no body");
    refuses(fixture->probe, "GET", "/livez", "{}", 413, "GET /livez takes no body");
}

API_TEST(head__is_get_without_the_body)
{
    struct answer answer;

    api_fixture_ask(fixture->admin, "HEAD", "/api/v1/nodes", NULL, &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body.len, 0);
    assert_string_equal(answer.type, "application/json");
    assert_null(strstr(answer.head.data, "Content-Length: 0"));
    answer_done(&answer);
}

API_TEST(unknown_parameter__is_refused_by_name)
{
    denies(fixture, "/api/v1/nodes?limt=3", 400, "limt: this takes limit, continue");
    denies(fixture, "/api/v1/nodes?node=n1", 400, "unknown parameter node");
    denies(fixture, "/api/v1/summary?a=1", 400, "this takes none");
    denies(fixture, "/api/v1/nodes?limit=1&limit=2", 400, "limit is given twice");
    denies(fixture, "/api/v1/allocations?state=free", 400,
           "state is free: it is reserved, bound or released");
}

API_TEST(limit__is_refused_when_invalid)
{
    static const char *const bad[] = {"",  "0",    "-1", "1001", "1x",
                                      "x", "0x10", "+5", "%201", "99999999999999999999"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char target[80];
        (void)snprintf(target, sizeof target, "/api/v1/nodes?limit=%s", bad[i]);
        denies(fixture, target, 400, "whole number from 1 to 1000");
    }
    (void)api_fixture_get(fixture, "/api/v1/nodes?limit=1");
    (void)api_fixture_get(fixture, "/api/v1/nodes?limit=1000");
}

API_TEST(continue__is_refused_when_invalid)
{
    static const char *const bad[] = {"", "1", "zz", "00", "6e3", "6E31"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char target[80];
        (void)snprintf(target, sizeof target, "/api/v1/nodes?continue=%s", bad[i]);
        denies(fixture, target, 400, "give back what the last answer said");
    }
    denies(fixture, "/api/v1/history?gpu=GPU-5f&continue=6e31", 400, "a token of the history");
    denies(fixture, "/api/v1/allocations?state=released&continue=30", 400, "of another list");
}

/* --- lists --- */

static const struct document *page(struct api_fixture *fixture, const char *target,
                                   const struct document *before)
{
    char text[1024];
    const char *token = string_of(document_get(before, "continue"));

    (void)snprintf(text, sizeof text, "%s%s%s", target, token != NULL ? "&continue=" : "",
                   token != NULL ? token : "");
    return api_fixture_get(fixture, text);
}

API_TEST(pages__continue_where_the_last_ended)
{
    const struct document *first = page(fixture, "/api/v1/nodes?limit=1", NULL);
    const struct document *second = page(fixture, "/api/v1/nodes?limit=1", first);
    const struct document *third = page(fixture, "/api/v1/nodes?limit=1", second);

    document_shows(first, "items=1; items.0.name=n1");
    document_shows(second, "items=1; items.0.name=n2");
    document_shows(third, "items=1; items.0.name=n3; continue=-");
}

API_TEST(pages__do_not_shift_when_an_item_goes_between_two)
{
    const struct document *first = page(fixture, "/api/v1/nodes?limit=1", NULL);

    api_fixture_tell(fixture, "DELETE", "/api/v1/nodes/n1", "");
    api_fixture_run(fixture);
    const struct document *second = page(fixture, "/api/v1/nodes?limit=1", first);
    assert_string_equal(str(item(second, 0), "name"), "n2");
}

API_TEST(allocations__are_distinguished_by_filters)
{
    fill(fixture);
    api_fixture_shows(
        fixture, "/api/v1/allocations",
        "items=3; items.0.name=stray; items.0.origin=observed; items.0.presumed=true");
    api_fixture_shows(fixture, "/api/v1/allocations?node=n1",
                      "items=1; items.0.name=web-0; items.0.charges.0.milli=300");
    api_fixture_shows(fixture, "/api/v1/allocations?namespace=kube-system", "items=0");
    api_fixture_shows(fixture, "/api/v1/allocations?state=reserved", "items=0");
    api_fixture_shows(fixture, "/api/v1/allocations?state=released",
                      "items=1; items.0.name=past; items.0.state=released");
}

API_TEST(released_allocations__come_in_pages)
{
    const struct document *last = NULL;
    size_t seen = 0;

    for (int i = 0; i < 5; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "p%d", i);
        api_fixture_pod(fixture, name, "2000", "");
        api_fixture_bind(fixture, name, "n1");
        api_fixture_end(fixture, name);
    }
    for (int i = 0; i < 5; i++) {
        const struct document *now =
            page(fixture, "/api/v1/allocations?state=released&node=n1&limit=2", last);
        last = now;
        for (size_t k = 0; k < items(now); k++, seen++) {
            char name[16];
            (void)snprintf(name, sizeof name, "p%zu", 4 - seen);
            assert_string_equal(str(item(now, k), "name"), name);
            assert_int_equal(size_of(document_get(item(now, k), "charges")), 2);
        }
        if (document_get(now, "continue") == NULL)
            break;
    }
    assert_int_equal(seen, 5);
    assert_null(document_get(last, "continue"));
}

/* --- views --- */

API_TEST(summary__adds_up)
{
    fill(fixture);
    api_fixture_shows(
        fixture, "/api/v1/summary",
        "cluster=0b8f; mode=standalone; ready=true; nodes=3; gpus=4; capacityMilli=3500; "
        "usedMilli=1100; freeMilli=2400; largestFreeMilli=1000; allocations.bound=3; "
        "allocations.reserved=0; waitingPods=1; models=2; models.0.model=A100; models.0.gpus=3; "
        "drift=1"); /* the adopted pod */
}

API_TEST(fragments__add_up)
{
    int64_t nodes = 0;
    int64_t gpus = 0;

    fill(fixture);
    const struct document *summary = api_fixture_get(fixture, "/api/v1/summary");
    document_each (node, document_get(api_fixture_get(fixture, "/api/v1/nodes"), "items")) {
        nodes += number_of(node, "fragmentMilli");
        assert_true(number_of(node, "fragmentMilli") <= number_of(node, "freeMilli"));
        document_each (gpu, document_get(node, "gpus"))
            gpus += number_of(gpu, "fragmentMilli");
    }
    assert_true(gpus > 0);
    assert_int_equal(nodes, gpus);
    assert_int_equal(number_of(summary, "fragmentMilli"), gpus);
    const struct document *models = document_get(summary, "models");
    assert_int_equal(number_of(nth(models, 0), "fragmentMilli") +
                         number_of(nth(models, 1), "fragmentMilli"),
                     gpus);
    /* Pods of several GPUs, which a cold start expects, cannot use half of a T4. */
    const struct document *n3 = api_fixture_get(fixture, "/api/v1/nodes/n3");
    assert_true(number_of(n3, "fragmentMilli") > 0);
}

API_TEST(node__shows_its_holders)
{
    fill(fixture);
    api_fixture_shows(fixture, "/api/v1/nodes/n2",
                      "source=annotation; state=ok; gpus.0.id=GPU-5f; gpus.0.usedMilli=600; "
                      "gpus.0.freeMilli=400; gpus.0.holders.0.name=web-1; "
                      "gpus.0.holders.0.milli=600");
    denies(fixture, "/api/v1/nodes/n9", 404, "does not know a node n9");
}

API_TEST(cordoned_gpu__has_nothing_free)
{
    api_fixture_tell(fixture, "PATCH", "/api/v1/nodes/n1",
                     "{\"metadata\":{\"annotations\":{\"milligpu.io/cordon\":\"all\"}}}");
    api_fixture_run(fixture);
    api_fixture_shows(fixture, "/api/v1/nodes/n1",
                      "cordoned=true; freeMilli=0; capacityMilli=2000; gpus.0.state=cordoned");
}

API_TEST(waiting_pod__shows_the_reason_of_each_node)
{
    fill(fixture);
    api_fixture_filter(fixture, "big");
    const struct document *pod = api_fixture_shows(
        fixture, "/api/v1/pods/default/big",
        "phase=Pending; node=; request=3 whole GPUs; allocation=-; waiting.asks=2; nodes=3; "
        "nodes.0.name=n1; nodes.0.fits=false; nodes.0.reason=few");
    assert_true(strlen(str(nth(document_get(pod, "nodes"), 0), "detail")) > 0);
}

API_TEST(waiting_pod__shows_where_it_fits)
{
    api_fixture_pod(fixture, "new", "600", "");
    api_fixture_shows(fixture, "/api/v1/pods/default/new",
                      "waiting=-; nodes.0.fits=true; nodes.0.reason=fits; nodes.0.text=; "
                      "nodes.2.reason=small");
}

API_TEST(impossible_request__is_explained)
{
    api_fixture_pod(fixture, "odd", "1500", "");
    api_fixture_filter(fixture, "odd");
    const struct document *pod = api_fixture_shows(fixture, "/api/v1/pods/default/odd", "nodes=-");
    assert_non_null(strstr(str(pod, "request"), "2000"));
    api_fixture_shows(fixture, "/api/v1/waiting", "items.0.request=cannot be granted anywhere");
}

API_TEST(ended_pod__is_remembered_and_an_unknown_one_is_404)
{
    fill(fixture);
    const struct document *pod = api_fixture_shows(
        fixture, "/api/v1/pods/default/past", "phase=Ended; node=n2; allocation.state=released");
    assert_non_null(document_at(pod, "allocation.releasedAt"));
    denies(fixture, "/api/v1/pods/default/none", 404, "no pod none in namespace default");
    denies(fixture, "/api/v1/pods/none/past", 404, "in namespace none");
}

/* --- history --- */

API_TEST(history__finds_a_gpu_by_each_of_its_names)
{
    fill(fixture);
    static const char two[] = "items=2; items.0.name=past; items.1.name=web-1; items.1.milli=600";
    api_fixture_shows(fixture, "/api/v1/history?gpu=GPU-5f", two);
    api_fixture_shows(fixture, "/api/v1/history?gpu=n2/GPU-5f", two);
    api_fixture_shows(fixture, "/api/v1/history?gpu=n2/gpu-0", two);
    api_fixture_shows(fixture, "/api/v1/history?gpu=n3/gpu-0", "items.0.name=stray");
    api_fixture_shows(fixture, "/api/v1/history?gpu=GPU-none", "items=0");
}

API_TEST(history__outlives_the_node)
{
    fill(fixture);
    api_fixture_end(fixture, "web-1");
    api_fixture_tell(fixture, "DELETE", "/api/v1/nodes/n2", "");
    api_fixture_run(fixture);
    denies(fixture, "/api/v1/nodes/n2", 404, "does not know");
    api_fixture_shows(fixture, "/api/v1/history?gpu=n2/GPU-5f", "items=2");
    api_fixture_shows(fixture, "/api/v1/history?gpu=GPU-5f", "items=2");
}

API_TEST(history__shows_a_pod_and_a_moment)
{
    char now[TIME_TEXT_BYTES];
    char target[200];

    fill(fixture);
    api_fixture_shows(fixture, "/api/v1/history?pod=default/past",
                      "items=1; items.0.state=released; items.0.gpu=GPU-5f");
    time_format(fixture->app.clock.wall_ms(fixture->app.clock.ctx) + 1000, now);
    (void)snprintf(target, sizeof target, "/api/v1/history?gpu=GPU-5f&at=%s", now);
    api_fixture_shows(fixture, target, "items=1; items.0.name=web-1");
    /* An offset whose '+' was not escaped. */
    api_fixture_shows(fixture, "/api/v1/history?gpu=GPU-5f&at=2001-01-02T03:04:05+02:00",
                      "items=0");
}

API_TEST(history__comes_in_pages)
{
    fill(fixture);
    const struct document *first = page(fixture, "/api/v1/history?gpu=GPU-5f&limit=1", NULL);
    const struct document *second = page(fixture, "/api/v1/history?gpu=GPU-5f&limit=1", first);
    document_shows(first, "items.0.name=past");
    document_shows(second, "items.0.name=web-1; continue=-");
    assert_non_null(document_get(first, "continue"));
}

API_TEST(history__refuses_wrong_parameters)
{
    denies(fixture, "/api/v1/history", 400, "gpu=ID (or NODE/ID), or pod=NAMESPACE/NAME");
    denies(fixture, "/api/v1/history?gpu=a&pod=b/c", 400, "not both");
    denies(fixture, "/api/v1/history?gpu=", 400, "gpu is empty");
    denies(fixture, "/api/v1/history?pod=web", 400, "such as default/web-0");
    denies(fixture, "/api/v1/history?pod=/web", 400, "such as default/web-0");
    denies(fixture, "/api/v1/history?pod=default/", 400, "such as default/web-0");
    denies(fixture, "/api/v1/history?gpu=a&at=yesterday", 400, "such as 2026-01-02T14:05:00Z");
    denies(fixture, "/api/v1/history?gpu=a&at=2026-01-02", 400, "at is 2026-01-02");
}

/* --- probes and metrics --- */

static void says(const struct http_server *http, const char *target, int status, const char *part)
{
    struct answer answer;

    api_fixture_ask(http, "GET", target, NULL, &answer);
    if (answer.status != status || strstr(answer.body.data, part) == NULL)
        fail_msg("%s: %d %s", target, answer.status, answer.body.data);
    assert_memory_equal(answer.type, "text/plain", strlen("text/plain"));
    answer_done(&answer);
}

API_TEST(unreadable_history__is_an_error_and_denies_no_pod)
{
    sqlite3 *db = NULL;

    denies(fixture, "/api/v1/pods/default/never", 404, "no pod never");
    assert_int_equal(sqlite3_open(fixture->ledger, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "ALTER TABLE allocation RENAME TO lost", NULL, NULL, NULL),
                     SQLITE_OK);
    denies(fixture, "/api/v1/pods/default/never", 500, "no such table");
    assert_int_equal(sqlite3_exec(db, "ALTER TABLE lost RENAME TO allocation", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

API_TEST(readyz__names_the_missing_conditions)
{
    atomic_bool *const bad[] = {&fixture->app.health.disk_broken, &fixture->app.health.safe_mode,
                                &fixture->app.draining};
    static const char *const words[] = {"[-]ledger failed: the ledger cannot be written",
                                        "[-]consistency failed: ", "[-]shutdown failed: "};

    says(fixture->admin, "/readyz", 200, "ok");
    says(fixture->admin, "/readyz?verbose", 200, "[+]nodes ok\n[+]pods ok\n[+]ledger ok\n");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        atomic_store(bad[i], true);
        says(fixture->admin, "/readyz", 503, words[i]);
        says(fixture->probe, "/readyz", 503, "readyz check failed");
        says(fixture->admin, "/livez", 200, "ok"); /* liveness depends on nothing */
        atomic_store(bad[i], false);
    }
    atomic_store(&fixture->app.identified, false);
    says(fixture->probe, "/readyz", 503, "[-]api-server failed: ");
    says(fixture->probe, "/livez?verbose", 200, "livez check passed");
}

API_TEST(probe_port__has_four_paths)
{
    says(fixture->probe, "/livez", 200, "ok");
    says(fixture->probe, "/metrics", 200, "milligpu_ready 1\n");
    says(fixture->probe, "/metrics/nodes", 200, "milligpu_node_free_milli{node=\"n1\"} 2000\n");
    refuses(fixture->probe, "GET", "/api/v1/nodes", NULL, 404, "/readyz, /metrics and /metrics/n");
    refuses(fixture->probe, "GET", "/openapi.json", NULL, 404, "/readyz, /metrics and /metrics/n");
    refuses(fixture->probe, "POST", "/livez", "{}", 405, "only GET, HEAD");
}

API_TEST(metrics__show_the_current_state)
{
    static const char *const lines[] = {
        "milligpu_allocated_milli{model=\"A100\"} 900\n",
        "milligpu_namespace_milli{namespace=\"default\"} 1100\n",
        "milligpu_namespace_milli{namespace=\"other\"} 0\n",
        "milligpu_free_milli{model=\"A100\"} 2100\n",
        "milligpu_free_milli{model=\"T4\"} 300\n",
        "milligpu_largest_free_milli{model=\"T4\"} 300\n",
        "milligpu_queue_depth 0\n",
        "milligpu_waiting_pods{reason=\"few\"} 1\n",
        "milligpu_waiting_pods{reason=\"offered\"} 0\n",
        "milligpu_safe_mode 0\n",
        "milligpu_ready 1\n",
        "milligpu_watch_age_seconds{resource=\"pods\"} 0\n",
        "milligpu_build_info{version=\"",
        "# TYPE milligpu_free_milli gauge\n",
    };
    struct answer answer;

    fill(fixture);
    api_fixture_ask(fixture->probe, "GET", "/metrics", NULL, &answer);
    assert_string_equal(answer.type, "text/plain; version=0.0.4; charset=utf-8");
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (strstr(answer.body.data, lines[i]) == NULL)
            fail_msg("no %s in\n%s", lines[i], answer.body.data);
    assert_null(strstr(answer.body.data, "web-0")); /* pod names are only for the admin port */
    answer_done(&answer);
}

static int64_t metric_of(struct api_fixture *fixture, const char *series)
{
    struct answer answer;
    char line[128];
    long long value = -1;

    api_fixture_ask(fixture->probe, "GET", "/metrics", NULL, &answer);
    (void)snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(answer.body.data, line);
    if (at == NULL)
        fail_msg("no %s in\n%s", series, answer.body.data);
    assert_int_equal(sscanf(at + strlen(line), "%lld", &value), 1);
    answer_done(&answer);
    return value;
}

/* As much as the file system says, up to what others write meanwhile. */
API_TEST(metrics__show_the_space_left_on_the_volume)
{
    const int64_t shown = metric_of(fixture, "milligpu_ledger_bytes{of=\"volume_free\"}");
    struct statvfs volume;

    assert_int_equal(statvfs(fixture->folder, &volume), 0);
    const int64_t free = (int64_t)(volume.f_bavail * volume.f_frsize);
    assert_in_range(shown, free / 2, free * 2);
}

/* --- doctor --- */

API_TEST(doctor__is_ok_for_a_healthy_daemon)
{
    finds(fixture, "daemon", "ok", "3 nodes");
    finds(fixture, "ledger", "ok", fixture->ledger);
    finds(fixture, "history", "ok", "in the background");
    finds(fixture, "api", "ok", "standalone, last answer 0 s ago");
    finds(fixture, "nodes", "ok", "complete");
    finds(fixture, "pods", "ok", "complete");
    finds(fixture, "rights", "ok", "a cluster file needs no permissions");
    finds(fixture, "signing", "ok", "allocations are not signed");
    finds(fixture, "wake", "ok", "through namespace wakes");
    finds(fixture, "webhooks", "ok", "only this machine or pod can reach it");
    finds(fixture, "gpus", "ok", "none of 4 GPUs is reported unhealthy");
    finds(fixture, "drift", "ok", "agree");
}

API_TEST(doctor__reports_failures)
{
    atomic_store(&fixture->app.health.history_checked, true);
    finds(fixture, "history", "ok", "verified");
    atomic_store(&fixture->app.health.history_broken, true);
    finds(fixture, "history", "failed", "damaged");
    atomic_store(&fixture->app.health.disk_broken, true);
    finds(fixture, "ledger", "failed", "cannot be written");
    finds(fixture, "daemon", "failed", "not ready");
    atomic_store(&fixture->app.health.safe_mode, true);
    finds(fixture, "ledger", "failed", "nothing has been granted");
    atomic_store(&fixture->app.watch.nodes_synced, false);
    finds(fixture, "nodes", "failed", "no complete list of nodes");
    atomic_store(&fixture->app.watch.pods_seen_ms, 1);
    finds(fixture, "pods", "warning", "has not answered a watch of pods for");
    atomic_store(&fixture->app.watch.nodes_seen_ms, 1);
    atomic_store(&fixture->app.watch.api_error_ms,
                 fixture->app.clock.now_ms(fixture->app.clock.ctx));
    finds(fixture, "api", "warning", "a call failed 0 s ago");
    atomic_store(&fixture->app.watch.nodes_seen_ms, 0);
    atomic_store(&fixture->app.watch.pods_seen_ms, 0);
    finds(fixture, "api", "failed", "has not answered yet");
    atomic_store(&fixture->app.draining, true);
    finds(fixture, "daemon", "warning", "stopping");
}

/* The limit of the ledger, as the writer would find it. */
API_TEST(doctor__reports_a_full_ledger_and_its_remedy)
{
    struct store *store = fixture->app.store;

    atomic_store(&store->trimmed_ms, 1);
    finds(fixture, "ledger", "ok", "journal entries");
    finds(fixture, "ledger-size", "warning", "so its history goes back 0 days and 0 hours only");
    atomic_store(&store->space, SPACE_LIMIT);
    finds(fixture, "ledger", "failed", "the ledger has reached its limit (ledger_max_bytes)");
    finds(fixture, "daemon", "failed", "not ready: the ledger has reached its limit");
    says(fixture->admin, "/readyz", 503, "[-]ledger-size failed: the ledger has reached its limit");
    says(fixture->probe, "/metrics", 200, "milligpu_ready 0\n");
    atomic_store(&store->space, SPACE_DISK);
    finds(fixture, "ledger", "failed", "the disk of the ledger is full");
    atomic_store(&store->space, SPACE_ENOUGH);
    says(fixture->probe, "/metrics", 200, "milligpu_ledger_bytes{of=\"copies\"} 0\n");
    says(fixture->probe, "/metrics", 200, "milligpu_ledger_max_bytes ");
    says(fixture->admin, "/readyz?verbose", 200, "[+]ledger-size ok\n");
}

API_TEST(doctor__reports_exposed_webhooks)
{
    fixture->settings.webhook_listen = "0.0.0.0:8910";
    finds(fixture, "webhooks", "failed", "plain HTTP; anyone who can reach it");
    fixture->settings.webhook_cert = "/etc/tls.crt";
    finds(fixture, "webhooks", "failed", "without client certificates");
    fixture->settings.webhook_client_ca = "/etc/ca.crt";
    finds(fixture, "webhooks", "warning",
          "any client with a certificate of /etc/ca.crt can bind pods");
    fixture->settings.webhook_client_names = "kube-scheduler";
    finds(fixture, "webhooks", "ok",
          "for client certificates of /etc/ca.crt that contain one of these names: kube-scheduler");
    fixture->settings.wake = "off";
    finds(fixture, "wake", "warning", "330 s");
}

API_TEST(unasked_pod__waits_for_its_scheduler)
{
    api_fixture_pod(fixture, "asked", "3000", "");
    api_fixture_filter(fixture, "asked");
    old_pod(fixture, "lonely", "3000");
    /* Its scheduler asks about others: its turn has not come. */
    finds(fixture, "scheduler", "ok", "filter calls");
    api_fixture_shows(fixture, "/api/v1/pods/default/lonely",
                      "scheduling.text=default-scheduler has not asked about it yet");
    api_fixture_shows(fixture, "/api/v1/waiting?state=unasked",
                      "items=1; items.0.name=lonely; items.0.reason=unasked; "
                      "items.0.request=3 whole GPUs");
    api_fixture_filter(fixture, "lonely");
    api_fixture_shows(fixture, "/api/v1/waiting?state=unasked", "items=0");
    finds(fixture, "scheduler", "ok", "filter calls");
}

API_TEST(doctor__reports_a_pod_offered_nodes_but_not_bound)
{
    api_fixture_pod(fixture, "quick", "100", "");
    api_fixture_filter(fixture, "quick");
    api_fixture_bind(fixture, "quick", "n1");
    finds(fixture, "scheduler", "ok", "filter calls");
    old_pod(fixture, "shunned", "100");
    finds(fixture, "scheduler", "ok", "filter calls");
    api_fixture_filter(fixture, "shunned");
    finds(fixture, "scheduler", "warning",
          "1 pod was offered nodes with room and not bound, among them default/shunned");
    api_fixture_bind(fixture, "shunned", "n1");
    finds(fixture, "scheduler", "ok", "filter calls");
}

API_TEST(doctor__counts_drift)
{
    api_fixture_pod(fixture, "stray", "200", "n3");
    finds(fixture, "drift", "warning", "in 1 place: 1 adopted");
}

/* The same words wherever they stand, or a kind could be neither asked for nor read. */
API_TEST(drift__is_filtered_by_each_kind)
{
    CLEANUP(strbuf_done) struct strbuf path;

    strbuf_init(&path);
    api_fixture_pod(fixture, "stray", "200", "n3");
    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++) {
        strbuf_reset(&path);
        strbuf_printf(&path, "/api/v1/drift?kind=%s", drift_kind_name(kind));
        const struct document *list = api_fixture_get(fixture, path.data);
        const bool adopted = strcmp(drift_kind_name(kind), "adopted") == 0;
        assert_int_equal(items(list), adopted ? 1 : 0);
        const struct document *count = nth(document_get(list, "counts"), kind);
        assert_string_equal(str(count, "kind"), drift_kind_name(kind));
        assert_string_equal(str(count, "meaning"), drift_kind_help(kind));
        assert_int_equal(number_of(count, "warnings"), adopted ? 1 : 0);
    }
    api_fixture_shows(fixture, "/api/v1/drift?kind=over,adopted", "items=1");
    denies(fixture, "/api/v1/drift?kind=over,", 400, "one or more of adopted");
    denies(fixture, "/api/v1/drift?kind=adopt", 400, "one or more of adopted");
    api_fixture_shows(fixture, "/api/v1/drift?node=n1", "items=0; counts.0.warnings=0");
    api_fixture_shows(fixture, "/api/v1/drift?node=n3", "items=1");
}

static int64_t a_day_later(void *ctx)
{
    struct clock_ops real;

    (void)ctx;
    clock_real(&real);
    return real.wall_ms(real.ctx) + DRIFT_ADOPTED_MS;
}

/* A day after the pod was bound, without a new snapshot: the ETag is another one, too. */
API_TEST(adopted_pod__becomes_information_after_a_day)
{
    api_fixture_pod(fixture, "stray", "200", "n3");
    api_fixture_shows(fixture, "/api/v1/drift", "items=1; items.0.severity=warning");
    fixture->app.clock.wall_ms = a_day_later;
    api_fixture_shows(fixture, "/api/v1/drift?severity=warning",
                      "items=0; counts.0.warnings=0; counts.0.information=1");
    api_fixture_shows(fixture, "/api/v1/drift?severity=information&kind=over", "items=0");
    api_fixture_shows(fixture, "/api/v1/drift?severity=information", "items=1");
    api_fixture_shows(fixture, "/api/v1/drift", "items.0.severity=information");
    api_fixture_shows(fixture, "/api/v1/summary", "drift=0; driftInformation=1");
    finds(fixture, "drift", "ok", "agree; 1 adopted pod was bound more than a day ago");
}

/* --- settings, backup, standalone --- */

API_TEST(settings__show_their_source)
{
    const struct document *list = api_fixture_get(fixture, "/api/v1/settings?limit=1000");
    bool found = false;

    assert_int_equal(items(list), SETTINGS);
    for (size_t i = 0; i < items(list); i++) {
        if (strcmp(str(item(list, i), "name"), "namespace") != 0)
            continue;
        found = true;
        assert_string_equal(str(item(list, i), "value"), "wakes");
        assert_string_equal(str(item(list, i), "source"), "flag");
        assert_true(strlen(str(item(list, i), "text")) > 0);
    }
    assert_true(found);
}

API_TEST(backup__is_a_ledger_that_opens)
{
    struct answer answer;
    struct store *copy = NULL;
    struct err err;
    char file[120];

    fill(fixture);
    const int64_t before_s = fixture->app.clock.wall_ms(fixture->app.clock.ctx) / 1000;
    api_fixture_ask(fixture->admin, "GET", "/api/v1/backup", NULL, &answer);
    assert_int_equal(answer.status, 200);
    assert_in_range(metric_of(fixture, "milligpu_backup_timestamp_seconds"), before_s,
                    fixture->app.clock.wall_ms(fixture->app.clock.ctx) / 1000);
    assert_string_equal(answer.type, "application/vnd.sqlite3");
    assert_memory_equal(answer.body.data, "SQLite format 3", 16);
    (void)snprintf(file, sizeof file, "%s/copy.db", fixture->folder);
    FILE *out = fopen(file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(answer.body.data, 1, answer.body.len, out), answer.body.len);
    assert_int_equal(fclose(out), 0);
    const struct store_rules rules = {.path = file};
    assert_int_equal(store_open(&rules, &copy, &err), 0);
    assert_int_equal(store_verify(copy, &err), 0);
    store_close(copy);
    answer_done(&answer);
    assert_int_equal(unlink(file), 0);
    (void)snprintf(file, sizeof file, "%s/copy.db.lock", fixture->folder);
    assert_int_equal(unlink(file), 0);
    (void)snprintf(file, sizeof file, "%s/copy.db.id", fixture->folder);
    assert_int_equal(unlink(file), 0);
    /* api_fixture_free() checks that nothing else is left in the folder. */
}

static const char pod_body[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"played\"},\"spec\":{"
    "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":{"
    "\"nvidia.com/vgpu\":\"100\"}}}]}}";

static void create(struct api_fixture *fixture, const char *body)
{
    struct answer answer;

    api_fixture_ask(fixture->admin, "POST", "/api/v1/standalone/pods", body, &answer);
    if (answer.status != 201)
        fail_msg("%d %s", answer.status, answer.body.data);
    document_shows(document_get(api_fixture_parse(fixture, &answer), "metadata"),
                   body == pod_body ? "name=played" : "name=later");
    answer_done(&answer);
}

static void remove_played(struct api_fixture *fixture)
{
    struct answer answer;

    api_fixture_ask(fixture->admin, "DELETE", "/api/v1/standalone/pods/default/played", NULL,
                    &answer);
    assert_int_equal(answer.status, 200);
    answer_done(&answer);
}

API_TEST(standalone__creates_and_deletes_pods)
{
    create(fixture, pod_body);
    api_fixture_run(fixture);
    (void)api_fixture_get(fixture, "/api/v1/pods/default/played");
    refuses(fixture->admin, "POST", "/api/v1/standalone/pods", pod_body, 409, "played");
    remove_played(fixture);
    api_fixture_run(fixture);
    denies(fixture, "/api/v1/pods/default/played", 404, "no pod played");
    refuses(fixture->admin, "DELETE", "/api/v1/standalone/pods/default/played", NULL, 404,
            "played");
}

API_TEST(standalone_objects__come_in_pages_of_one_moment)
{
    const struct document *first = page(fixture, "/api/v1/standalone/nodes?limit=2", NULL);
    const struct document *second = page(fixture, "/api/v1/standalone/nodes?limit=2", first);
    document_shows(first, "items=2; items.0.metadata.name=n1; items.0.kind=Node");
    assert_non_null(document_at(item(first, 0), "status.allocatable"));
    document_shows(second, "items=1; continue=-");
    create(fixture, pod_body);
    create(fixture,
           "{\"metadata\":{\"name\":\"later\"},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}");
    first = page(fixture, "/api/v1/standalone/pods?limit=1", NULL);
    document_shows(first, "items.0.metadata.name=later");
    remove_played(fixture);
    second = page(fixture, "/api/v1/standalone/pods?limit=1", first);
    document_shows(second, "items.0.metadata.name=played; continue=-");
    api_fixture_run(fixture);
    denies(fixture, "/api/v1/standalone/nodes?continue=6e31", 400, "it is a token of this list");
    denies(fixture, "/api/v1/standalone/nodes?continue=372e30", 410, "too old");
}

API_TEST(standalone__refuses_invalid_pods)
{
    static const char path[] = "/api/v1/standalone/pods";

    refuses(fixture->admin, "POST", path, "", 400, "the body is not a Pod");
    refuses(fixture->admin, "POST", path, "{", 400, "the body is not a Pod");
    refuses(fixture->admin, "POST", path, "[]", 400, "the body is not a Pod");
    refuses(fixture->admin, "POST", path, "{\"kind\":\"Node\",\"metadata\":{\"name\":\"a\"}}", 400,
            "kind is Node: it is Pod");
    refuses(fixture->admin, "POST", path,
            "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"a/../b\"}}", 400,
            "metadata.namespace is");
    refuses(fixture->admin, "DELETE", "/api/v1/standalone/pods/default/a%3Fb", NULL, 400,
            "name is");
    refuses(fixture->admin, "DELETE", "/api/v1/standalone/pods/default/%2e%2e", NULL, 400,
            "name is");
}

API_TEST(standalone__is_absent_in_a_cluster)
{
    struct fake_apiserver *fake = fixture->app.fake;

    fixture->app.fake = NULL;
    refuses(fixture->admin, "POST", "/api/v1/standalone/pods", pod_body, 404, "use kubectl");
    refuses(fixture->admin, "DELETE", "/api/v1/standalone/pods/default/a", NULL, 404,
            "use kubectl");
    denies(fixture, "/api/v1/standalone/pods", 404, "use kubectl");
    denies(fixture, "/api/v1/standalone/nodes", 404, "use kubectl");
    api_fixture_shows(fixture, "/api/v1/summary", "mode=cluster");
    fixture->app.fake = fake;
}
