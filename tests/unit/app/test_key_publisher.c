/* The public key gets to the agents, whatever stands in the way, and no other key is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "milligpu/alloc.h"
#include "milligpu/fake_apiserver.h"
#include "milligpu/key_publisher.h"
#include "milligpu/log.h"
#include "milligpu/signing.h"

#define KEYS "/api/v1/namespaces/milligpu/configmaps"

struct scene {
    struct app app;
    struct settings settings;
    struct kube_ops real;
    struct kube_ops ops;
    struct key_publisher *publisher;
    struct signing_key *key;
    struct strbuf out;
    char file[64];
    int64_t now_ms;
    int refuse; /* the status of every answer; 0: what the fake says */
    bool start_fails;
    bool lost;
    unsigned requests;
    uint64_t id; /* in flight, and not passed on to the fake */
};

static int on_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct scene *scene = ctx;

    scene->requests++;
    if (scene->start_fails)
        return err_set(err, ERR_IO, "no way there");
    if (scene->refuse == 0 && !scene->lost)
        return scene->real.start(scene->real.ctx, request, err);
    scene->id = request->id;
    return 0;
}

static void on_cancel(void *ctx, uint64_t id)
{
    struct scene *scene = ctx;

    if (scene->id == id)
        scene->id = 0;
    else
        scene->real.cancel(scene->real.ctx, id);
}

static void deliver(void *user, const struct kube_answer *answer)
{
    struct scene *scene = user;
    assert_true(key_publisher_answer(scene->publisher, scene->now_ms, answer));
}

static void answer(struct scene *scene, enum kube_piece piece, const char *text)
{
    const struct err err = {ERR_TIMEOUT, "not answered"};
    const struct kube_answer is = {.id = scene->id,
                                   .piece = piece,
                                   .status = scene->refuse,
                                   .data = text_of(text),
                                   .err = piece == KUBE_FAILED ? &err : NULL};
    deliver(scene, &is);
}

static void answer_all(struct scene *scene)
{
    if (scene->lost) {
        answer(scene, KUBE_FAILED, "");
    } else {
        answer(scene, KUBE_HEAD, "");
        answer(scene, KUBE_DATA,
               "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"message\":\"because\",\"code\":403}");
        answer(scene, KUBE_DONE, "");
    }
    scene->id = 0;
}

/* Until there is nothing to do at this time. */
static void run(struct scene *scene)
{
    for (int i = 0; i < 10; i++) {
        (void)key_publisher_step(scene->publisher, scene->now_ms);
        if (scene->id != 0)
            answer_all(scene);
        else
            scene->ops.poll(scene->real.ctx, 0, scene, deliver);
    }
}

static void begin(struct scene *scene)
{
    scene->publisher = key_publisher_new(&scene->app, &scene->ops);
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct err err;

    log_set(LOG_ERROR, false);
    (void)snprintf(scene->file, sizeof scene->file, "/tmp/milligpu-publish-%d", (int)getpid());
    assert_int_equal(signing_key_open(scene->file, &scene->key, &err), 0);
    scene->app.settings = &scene->settings;
    scene->settings.keys_namespace = "";
    scene->app.wake_namespace = "milligpu";
    scene->app.signing_key = scene->key;
    scene->app.fake = fake_apiserver_new("publish");
    fake_apiserver_ops(scene->app.fake, &scene->real);
    scene->ops = scene->real;
    scene->ops.ctx = scene;
    scene->ops.start = on_start;
    scene->ops.cancel = on_cancel;
    scene->now_ms = 5000;
    strbuf_init(&scene->out);
    begin(scene);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    key_publisher_free(scene->publisher);
    assert_int_equal(scene->id, 0);
    scene->real.free(scene->real.ctx);
    fake_apiserver_free(scene->app.fake);
    signing_key_free(scene->key);
    strbuf_done(&scene->out);
    assert_int_equal(unlink(scene->file), 0);
    xfree(scene);
    return 0;
}

static int ask(struct scene *scene, const char *method, const char *path, const char *body)
{
    strbuf_reset(&scene->out);
    return fake_apiserver_request(scene->app.fake, method, path, text_of(body), &scene->out);
}

static struct key_facts facts_of(struct scene *scene)
{
    struct key_facts facts;

    key_publisher_facts(scene->publisher, &facts);
    assert_string_equal(facts.id, signing_key_id(scene->key));
    return facts;
}

static void is_there(struct scene *scene)
{
    char entry[100];

    (void)snprintf(entry, sizeof entry, "\"%s\":\"%s\"", signing_key_id(scene->key),
                   signing_key_public(scene->key));
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 200);
    if (strstr(scene->out.data, entry) == NULL)
        fail_msg("no %s in %s", entry, scene->out.data);
}

static void the_config_map_is_made_where_there_is_none(void **state)
{
    struct scene *scene = *state;

    assert_false(facts_of(scene).published);
    run(scene);
    is_there(scene);
    assert_true(facts_of(scene).published);
    assert_string_equal(facts_of(scene).error, "");
    assert_int_equal(scene->requests, 2); /* PATCH, POST */
    assert_int_equal(key_publisher_step(scene->publisher, scene->now_ms), 600000);
}

static void the_agents_may_have_a_namespace_of_their_own(void **state)
{
    struct scene *scene = *state;

    assert_string_equal(keys_namespace(&scene->app), "milligpu");
    scene->settings.keys_namespace = "agents";
    run(scene);
    assert_true(facts_of(scene).published);
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 404);
    assert_int_equal(ask(scene, "GET", "/api/v1/namespaces/agents/configmaps/milligpu-keys", ""),
                     200);
}

static void keys_of_others_stay(void **state)
{
    struct scene *scene = *state;

    assert_int_equal(ask(scene, "POST", KEYS,
                         "{\"metadata\":{\"name\":\"milligpu-keys\"},\"data\":{\"a\":\"b\"}}"),
                     201);
    run(scene);
    is_there(scene);
    assert_non_null(strstr(scene->out.data, "\"a\":\"b\""));
    assert_int_equal(scene->requests, 1);
    /* A start later changes nothing. */
    key_publisher_free(scene->publisher);
    begin(scene);
    run(scene);
    is_there(scene);
    assert_non_null(strstr(scene->out.data, "\"a\":\"b\""));
}

static void a_config_map_that_is_deleted_comes_back(void **state)
{
    struct scene *scene = *state;

    run(scene);
    assert_int_equal(ask(scene, "DELETE", KEYS "/milligpu-keys", ""), 200);
    scene->now_ms += 599999;
    run(scene);
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 404);
    scene->now_ms += 1;
    run(scene);
    is_there(scene);
}

/* What fails is tried again after 1, 2, 4 ... 60, 60 seconds. */
static void it_is_tried_until_it_succeeds(void **state)
{
    static const int64_t pauses_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    struct scene *scene = *state;

    scene->refuse = 403;
    run(scene);
    assert_string_equal(facts_of(scene).error, "HTTP 403: because");
    for (size_t i = 0; i < ARRAY_LEN(pauses_ms); i++) {
        assert_int_equal(scene->requests, i + 1);
        assert_int_equal(key_publisher_step(scene->publisher, scene->now_ms), pauses_ms[i]);
        scene->now_ms += pauses_ms[i] - 1;
        run(scene);
        assert_int_equal(scene->requests, i + 1);
        scene->now_ms += 1;
        run(scene);
    }
    scene->refuse = 0;
    scene->now_ms += 60000;
    run(scene);
    is_there(scene);
    assert_true(facts_of(scene).published);
    assert_string_equal(facts_of(scene).error, "");
    /* The next failure waits for a second again. */
    scene->now_ms += 600000;
    scene->lost = true;
    run(scene);
    assert_string_equal(facts_of(scene).error, "not answered");
    assert_true(facts_of(scene).published);
    assert_int_equal(key_publisher_step(scene->publisher, scene->now_ms), 1000);
}

static void a_request_that_cannot_even_start_is_tried_again(void **state)
{
    struct scene *scene = *state;

    scene->start_fails = true;
    run(scene);
    assert_string_equal(facts_of(scene).error, "no way there");
    scene->start_fails = false;
    scene->now_ms += 1000;
    run(scene);
    is_there(scene);
}

/* Somebody made it between our PATCH and our POST. */
static void a_config_map_that_came_meanwhile_is_patched(void **state)
{
    struct scene *scene = *state;

    (void)key_publisher_step(scene->publisher, scene->now_ms);
    scene->ops.poll(scene->real.ctx, 0, scene, deliver);
    assert_int_equal(scene->requests, 1);
    assert_int_equal(ask(scene, "POST", KEYS,
                         "{\"metadata\":{\"name\":\"milligpu-keys\"},\"data\":{\"a\":\"b\"}}"),
                     201);
    run(scene);
    assert_int_equal(scene->requests, 2);
    assert_non_null(strstr(facts_of(scene).error, "HTTP 409"));
    scene->now_ms += 1000;
    run(scene);
    is_there(scene);
    assert_non_null(strstr(scene->out.data, "\"a\":\"b\""));
}

static void an_answer_of_somebody_else_is_not_ours(void **state)
{
    static const uint64_t ids[] = {1, (uint64_t)2 << 32, (uint64_t)3 << 32, (uint64_t)4 << 32,
                                   (uint64_t)6 << 32};
    struct scene *scene = *state;

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        const struct kube_answer is = {.id = ids[i], .piece = KUBE_HEAD, .status = 200};
        assert_false(key_publisher_answer(scene->publisher, scene->now_ms, &is));
    }
    /* Ours, but of a try that is over. */
    const struct kube_answer old = {.id = ((uint64_t)3 << 32) + 7, .piece = KUBE_DONE};
    assert_true(key_publisher_answer(scene->publisher, scene->now_ms, &old));
    assert_false(facts_of(scene).published);
}

static void a_request_in_flight_ends_with_us(void **state)
{
    struct scene *scene = *state;

    scene->lost = true;
    (void)key_publisher_step(scene->publisher, scene->now_ms);
    assert_int_not_equal(scene->id, 0); /* tear_down checks that it is cancelled */
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_config_map_is_made_where_there_is_none),
        TEST(the_agents_may_have_a_namespace_of_their_own),
        TEST(keys_of_others_stay),
        TEST(a_config_map_that_is_deleted_comes_back),
        TEST(it_is_tried_until_it_succeeds),
        TEST(a_request_that_cannot_even_start_is_tried_again),
        TEST(a_config_map_that_came_meanwhile_is_patched),
        TEST(an_answer_of_somebody_else_is_not_ours),
        TEST(a_request_in_flight_ends_with_us),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
