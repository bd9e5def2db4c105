/* Rights are reviewed only when they are asked for, and the answer is true at that time. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/sync/rights.h"

#include "support/test.h"

/* kube_ops that only record; the test gives the answers and sets the clock. */
struct scene {
    struct app app;
    struct settings settings;
    struct rights *rights;
    int64_t now_ms;
    uint64_t id; /* in flight; 0: none */
    unsigned asked;
    unsigned woken;
    bool start_fails;
    char body[1024];
    const char *denied; /* a request that contains this is denied */
    int status;         /* the answer instead of 201 */
};

static int64_t now_of(void *ctx)
{
    return ((struct scene *)ctx)->now_ms;
}

static int on_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct scene *scene = ctx;

    if (scene->start_fails)
        return err_set(err, ERR_IO, "no way there");
    assert_int_equal(scene->id, 0); /* one at a time */
    assert_string_equal(request->method, "POST");
    assert_string_equal(request->path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    assert_true(request->timeout_ms > 0);
    (void)snprintf(scene->body, sizeof scene->body, "%.*s", (int)request->body.len,
                   request->body.at);
    scene->id = request->id;
    scene->asked++;
    return 0;
}

static void on_cancel(void *ctx, uint64_t id)
{
    struct scene *scene = ctx;
    assert_int_equal(id, scene->id);
    scene->id = 0;
}

static void on_wake(void *ctx)
{
    ((struct scene *)ctx)->woken++;
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    const struct kube_ops ops = {
        .ctx = scene, .start = on_start, .cancel = on_cancel, .wake = on_wake};

    scene->settings = (struct settings){.wake = "object", .events = true};
    scene->app.settings = &scene->settings;
    scene->settings.keys_namespace = "keys";
    scene->app.instance.wake_namespace = "wakes";
    scene->app.clock = (struct clock_ops){.ctx = scene, .now_ms = now_of};
    scene->now_ms = 5000;
    scene->rights = rights_new(&scene->app, &ops);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    rights_free(scene->rights);
    assert_int_equal(scene->id, 0);
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

static void say(struct scene *scene, enum kube_piece piece, int status, const char *text)
{
    const struct err err = {ERR_TIMEOUT, "not answered"};
    const struct kube_answer answer = {.id = scene->id,
                                       .piece = piece,
                                       .status = status,
                                       .data = text_of(text),
                                       .err = piece == KUBE_FAILED ? &err : NULL};
    if (piece == KUBE_DONE || piece == KUBE_FAILED)
        scene->id = 0;
    assert_true(rights_answer(scene->rights, scene->now_ms, &answer));
}

static void answer_one(struct scene *scene)
{
    const bool denied = scene->denied != NULL && strstr(scene->body, scene->denied) != NULL;
    const int status = scene->status != 0 ? scene->status : 201;

    say(scene, KUBE_HEAD, status, "");
    say(scene, KUBE_DATA, status,
        denied ? "{\"status\":{\"allowed\":false,\"reason\":\"no\"}}"
               : "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":true}}");
    say(scene, KUBE_DONE, status, "");
}

/* Does what the informer's thread does, until nothing is left to do at this time. */
static void run(struct scene *scene)
{
    for (unsigned i = 0; i < 100; i++) {
        const int64_t wait_ms = rights_step(scene->rights, scene->now_ms);
        if (scene->id != 0)
            answer_one(scene);
        else if (wait_ms > 0)
            return;
    }
    fail_msg("it never rests");
}

static struct rights_facts ask(struct scene *scene)
{
    struct rights_facts facts;

    rights_ask(scene->rights, 0, &facts);
    run(scene);
    rights_ask(scene->rights, 0, &facts);
    return facts;
}

/* A denied right is asked about again a second later. */
static struct rights_facts ask_again(struct scene *scene)
{
    (void)ask(scene);
    scene->now_ms += 1000;
    run(scene);
    return ask(scene);
}

SCENE_TEST(rights__are_not_reviewed_before_they_are_asked_for)
{
    struct rights_facts facts;

    run(scene);
    scene->now_ms += 3600000;
    run(scene);
    assert_int_equal(scene->asked, 0);
    rights_ask(scene->rights, 0, &facts);
    assert_int_equal(facts.at_ms, 0);
    assert_int_equal(scene->woken, 1);
    run(scene);
    assert_true(scene->asked > 0);
}

SCENE_TEST(rights__are_reviewed_once_each)
{
    const struct rights_facts facts = ask(scene);

    assert_int_equal(facts.at_ms, scene->now_ms);
    assert_int_equal(facts.asked, 10);
    assert_int_equal(facts.denied, 0);
    assert_string_equal(facts.error, "");
    assert_int_equal(scene->asked, 10);
}

SCENE_TEST(rights__depend_on_the_settings)
{
    scene->settings.wake = "off";
    scene->settings.events = false;
    assert_int_equal(ask(scene).asked,
                     8); /* a new ledger creates the wake-up object all the same */
    scene->now_ms += RIGHTS_FRESH_MS;
    scene->settings.wake = "node";
    scene->settings.advertise = true;
    assert_int_equal(ask(scene).asked, 10);
}

SCENE_TEST(answer__is_discarded_beyond_its_limit)
{
    struct rights_facts facts;
    CLEANUP(strbuf_done) struct strbuf middle;

    strbuf_init(&middle);
    strbuf_str(&middle, "\"reason\":\"");
    while (middle.len < 64 * 1024)
        strbuf_char(&middle, 'x');
    strbuf_str(&middle, "\",");
    rights_ask(scene->rights, 0, &facts);
    (void)rights_step(scene->rights, scene->now_ms);
    say(scene, KUBE_HEAD, 201, "");
    say(scene, KUBE_DATA, 201, "{\"status\":{");
    say(scene, KUBE_DATA, 201, middle.data);
    say(scene, KUBE_DATA, 201, "\"allowed\":true}}");
    say(scene, KUBE_DONE, 201, "");
    run(scene);
    scene->now_ms += 1000;
    run(scene);
    rights_ask(scene->rights, 0, &facts);
    assert_int_equal(facts.asked, 10); /* by the second round: the first one failed */
    assert_int_equal(scene->asked, 11);
}

SCENE_TEST(wake_right__is_reviewed_in_its_namespace)
{
    scene->denied = "\"verb\":\"patch\",\"group\":\"storage.k8s.io\",\"resource\":"
                    "\"csistoragecapacities\",\"namespace\":\"wakes\",\"name\":\"milligpu-bell\"";
    assert_int_equal(ask(scene).denied, 0); /* not until it was asked again */
    scene->now_ms += 1000;
    run(scene);
    assert_int_equal(ask(scene).denied, 1);
}

/* Which key it is does not matter here. */
SCENE_TEST(key_rights__are_reviewed_when_milligpud_signs)
{
    static const char key;

    scene->app.keyring = (struct keyring *)(uintptr_t)&key;
    scene->denied = "\"resource\":\"configmaps\",\"namespace\":\"keys\"";
    assert_int_equal(ask_again(scene).asked, 12);
    assert_int_equal(ask(scene).denied, 2);
    assert_string_equal(ask(scene).words,
                        "create configmaps (publish_key), patch configmaps (publish_key)");
    scene->denied = "\"resource\":\"configmaps\",\"namespace\":\"keys\",\"name\":\"milligpu-keys\"";
    scene->now_ms += RIGHTS_FRESH_MS;
    assert_string_equal(ask_again(scene).words, "patch configmaps (publish_key)");
}

SCENE_TEST(denial__is_reported_when_it_is_repeated)
{
    scene->denied = "\"subresource\":\"binding\"";
    assert_int_equal(ask(scene).at_ms, 0);
    scene->now_ms += 999;
    run(scene);
    assert_int_equal(scene->asked, 10);
    scene->now_ms += 1;
    run(scene);
    assert_int_equal(scene->asked, 20);
    assert_int_equal(ask(scene).denied, 1);
    assert_string_equal(ask(scene).words, "create pods/binding (bind)");
}

/* As a kube-apiserver does after a restart. */
SCENE_TEST(denial__is_not_reported_when_it_is_gone_a_second_later)
{
    scene->denied = "\"verb\"";
    assert_int_equal(ask(scene).at_ms, 0);
    scene->denied = NULL;
    scene->now_ms += 1000;
    run(scene);
    assert_int_equal(ask(scene).asked, 10);
    assert_int_equal(ask(scene).denied, 0);
}

SCENE_TEST(denial__ends_when_the_right_is_granted)
{
    scene->denied = "\"verb\":\"get\"";
    assert_int_equal(ask_again(scene).denied, 2);
    scene->denied = NULL;
    scene->now_ms += RIGHTS_FRESH_MS;
    assert_int_equal(ask(scene).denied, 0);
}

SCENE_TEST(rights__are_reviewed_once_for_many_questions)
{
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(ask(scene).asked, 10);
        scene->now_ms += 99;
    }
    assert_int_equal(scene->asked, 10);
    scene->now_ms += RIGHTS_FRESH_MS;
    (void)ask(scene);
    assert_int_equal(scene->asked, 20);
}

SCENE_TEST(rights__report_an_error_and_pause)
{
    scene->status = 403;
    assert_string_equal(ask_again(scene).error, "the API server answered 403");
    assert_int_equal(scene->asked, 2);
    scene->now_ms += RIGHTS_FRESH_MS;
    scene->start_fails = true;
    assert_string_equal(ask_again(scene).error, "no way there");
}

SCENE_TEST(rights__report_a_lost_review)
{
    struct rights_facts facts;

    rights_ask(scene->rights, 0, &facts);
    for (unsigned i = 0; i < 2; i++) {
        (void)rights_step(scene->rights, scene->now_ms);
        say(scene, KUBE_FAILED, 0, "");
        scene->now_ms += 1000;
    }
    assert_string_equal(ask(scene).error, "not answered");
}

SCENE_TEST(rights__ignore_answers_to_other_requests)
{
    const struct kube_answer answer = {.id = (uint64_t)2 << 32, .piece = KUBE_HEAD, .status = 200};

    assert_false(rights_answer(scene->rights, scene->now_ms, &answer));
}

/* Nobody answers: the admin thread goes on after the time it was given. */
SCENE_TEST(rights__return_without_an_answer_after_the_timeout)
{
    struct rights_facts facts;

    rights_ask(scene->rights, 20, &facts);
    assert_int_equal(facts.at_ms, 0);
}

SCENE_TEST(rights__cancel_a_review_when_freed)
{
    struct rights_facts facts;

    rights_ask(scene->rights, 0, &facts);
    (void)rights_step(scene->rights, scene->now_ms);
    assert_int_not_equal(scene->id, 0); /* tear_down checks that it is cancelled */
}
