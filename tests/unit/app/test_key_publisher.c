/* Our public keys are published to the agents, and no other key is touched. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/run/log.h"
#include "milligpu/sync/key_publisher.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/wire/json/json.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "support/test.h"
#include "support_fixture.h"

#define KEYS "/api/v1/namespaces/milligpu/configmaps"

struct scene {
    struct app_fixture *fixture; /* its API server, its pods, its time */
    struct app *app;
    struct settings settings;
    struct kube_ops real;
    struct kube_ops ops;
    struct key_publisher *publisher;
    struct keyring *keyring;
    struct key_entry key[KEYRING_MAX]; /* as of the last look */
    struct strbuf out;
    char file[64];
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
    assert_true(key_publisher_answer(scene->publisher, scene->fixture->now_ms, answer));
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

/* One request, if it is time for one, and its answer. */
static void run_once(struct scene *scene)
{
    (void)key_publisher_step(scene->publisher, scene->fixture->now_ms);
    if (scene->id != 0)
        answer_all(scene);
    else
        scene->ops.poll(scene->real.ctx, 0, scene, deliver);
}

/* Until there is nothing to do at this time. */
static void run(struct scene *scene)
{
    for (int i = 0; i < 10; i++)
        run_once(scene);
}

static void pass(struct scene *scene, int64_t ms)
{
    scene->fixture->now_ms += ms;
    scene->fixture->wall_ms += ms;
    run(scene);
}

static void begin(struct scene *scene)
{
    scene->publisher = key_publisher_new(scene->app, &scene->ops);
}

static void begin_again(struct scene *scene)
{
    key_publisher_free(scene->publisher);
    begin(scene);
}

enum { WAIT_MS = 120000, AGAIN_MS = WAIT_MS / 2 };

static void open_keyring(struct scene *scene)
{
    const struct keyring_rules rules = {scene->file, WAIT_MS};
    const struct key_times now = {scene->fixture->now_ms, scene->fixture->wall_ms};
    struct err err;

    keyring_free(STEAL(scene->keyring));
    assert_int_equal(keyring_open(&rules, now, &scene->keyring, &err), 0);
    scene->app->keyring = scene->keyring;
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);

    log_set(LOG_ERROR, false);
    (void)snprintf(scene->file, sizeof scene->file, "/tmp/milligpu-publish-%d", (int)getpid());
    scene->fixture = fixture_new(fixture_two_nodes);
    scene->app = &scene->fixture->app;
    open_keyring(scene);
    scene->settings = *scene->app->settings;
    scene->app->settings = &scene->settings;
    scene->settings.keys_namespace = "";
    scene->settings.key_wait_s = WAIT_MS / 1000;
    scene->app->instance.wake_namespace = "milligpu";
    fake_apiserver_ops(scene->app->fake, &scene->real);
    scene->ops = scene->real;
    scene->ops.ctx = scene;
    scene->ops.start = on_start;
    scene->ops.cancel = on_cancel;
    strbuf_init(&scene->out);
    begin(scene);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const end[] = {"", ".next", ".keys"};
    struct scene *scene = *state;
    char file[80];

    key_publisher_free(scene->publisher);
    assert_int_equal(scene->id, 0);
    scene->real.free(scene->real.ctx);
    fixture_free(scene->fixture);
    keyring_free(scene->keyring);
    strbuf_done(&scene->out);
    for (size_t i = 0; i < ARRAY_LEN(end); i++) {
        (void)snprintf(file, sizeof file, "%s%s", scene->file, end[i]);
        (void)unlink(file);
    }
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

static int ask(struct scene *scene, const char *method, const char *path, const char *body)
{
    strbuf_reset(&scene->out);
    return fake_apiserver_request(scene->app->fake, method, path, text_of(body), &scene->out);
}

static struct key_facts facts_of(struct scene *scene)
{
    struct key_facts facts;

    key_publisher_facts(scene->publisher, &facts);
    return facts;
}

/* Is key number i of those that we had at the last look in the ConfigMap? */
static bool shows_key(struct scene *scene, size_t i)
{
    char entry[100];

    (void)snprintf(entry, sizeof entry, "\"%s\":\"%s\"", scene->key[i].id, scene->key[i].key);
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 200);
    return strstr(scene->out.data, entry) != NULL;
}

static void is_there(struct scene *scene)
{
    (void)keyring_list(scene->keyring, scene->key);
    if (!shows_key(scene, 0))
        fail_msg("no %s in %s", scene->key[0].id, scene->out.data);
}

SCENE_TEST(key_publisher__creates_the_config_map)
{
    assert_false(facts_of(scene).published);
    run(scene);
    is_there(scene);
    assert_true(facts_of(scene).published);
    assert_string_equal(facts_of(scene).error, "");
    assert_int_equal(scene->requests, 2); /* PATCH, POST */
    assert_int_equal(key_publisher_step(scene->publisher, scene->fixture->now_ms), AGAIN_MS);
}

SCENE_TEST(key_publisher__uses_the_namespace_of_the_agents)
{
    assert_string_equal(keys_namespace(scene->app), "milligpu");
    scene->settings.keys_namespace = "agents";
    run(scene);
    assert_true(facts_of(scene).published);
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 404);
    assert_int_equal(ask(scene, "GET", "/api/v1/namespaces/agents/configmaps/milligpu-keys", ""),
                     200);
}

SCENE_TEST(key_publisher__keeps_keys_of_other_instances)
{
    assert_int_equal(ask(scene, "POST", KEYS,
                         "{\"metadata\":{\"name\":\"milligpu-keys\"},\"data\":{\"a\":\"b\"}}"),
                     201);
    run(scene);
    is_there(scene);
    assert_says(scene->out.data, "\"a\":\"b\"");
    assert_int_equal(scene->requests, 1);
    /* A start later changes nothing. */
    begin_again(scene);
    run(scene);
    is_there(scene);
    assert_says(scene->out.data, "\"a\":\"b\"");
}

/* A late request of before publishes a key again; revoked is "\"true\"", or null: it is not. */
static void publish_late(struct scene *scene, const struct signing_key *key, const char *revoked)
{
    char body[400];

    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"annotations\":{\"revoked-key.milligpu.io/%s\":%s}},"
                   "\"data\":{\"%s\":\"%s\"}}",
                   signing_key_id(key), revoked, signing_key_id(key), signing_key_public(key));
    assert_int_equal(ask(scene, "PATCH", KEYS "/milligpu-keys", body), 200);
    scene->fixture->now_ms += AGAIN_MS;
    run_once(scene);
}

static bool publishes(struct scene *scene, const struct signing_key *key)
{
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 200);
    return strstr(scene->out.data, signing_key_public(key)) != NULL;
}

/*
 * Signatures by another key of the ConfigMap are believed until that key is revoked, although its
 * entry is still there, or taken away. Agents believe whatever is published, so it does not stay.
 */
SCENE_TEST(key_publisher__trusts_published_keys_until_they_are_revoked)
{
    const struct signed_facts what = {TEXT("uid"), TEXT("n1"), TEXT("bytes"), SIGNED_ALLOCATION};
    const struct signed_facts other = {TEXT("uid"), TEXT("n2"), TEXT("bytes"), SIGNED_ALLOCATION};
    char signature[SIGNATURE_TEXT_BYTES];
    char file[80];
    char body[400];
    struct signing_key *key;
    struct err err;

    (void)snprintf(file, sizeof file, "%s-other", scene->file);
    assert_int_equal(signing_key_open(file, &key, &err), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(signing_sign(key, &what, signature, &err), 0);
    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"name\":\"milligpu-keys\"},\"data\":{\"%s\":\"%s\"}}",
                   signing_key_id(key), signing_key_public(key));
    assert_int_equal(ask(scene, "POST", KEYS, body), 201);
    assert_false(keyring_has_signed(scene->keyring, text_of(signature), &what));
    run(scene);
    assert_true(keyring_has_signed(scene->keyring, text_of(signature), &what));
    assert_false(keyring_has_signed(scene->keyring, text_of(signature), &other));
    assert_false(keyring_has_signed(scene->keyring, TEXT("no signature"), &what));
    for (int i = 0; i < 2; i++) {
        publish_late(scene, key, "\"true\"");
        assert_true(publishes(scene, key));
        assert_false(keyring_has_signed(scene->keyring, text_of(signature), &what));
        run_once(scene); /* at once, not at the next look */
        assert_false(publishes(scene, key));
        pass(scene, AGAIN_MS);
        assert_false(keyring_has_signed(scene->keyring, text_of(signature), &what));
        assert_int_equal(facts_of(scene).n_others, 0);
    }
    /* The entry of a key that is no longer revoked stays. */
    publish_late(scene, key, "null");
    run(scene);
    assert_true(publishes(scene, key));
    assert_true(keyring_has_signed(scene->keyring, text_of(signature), &what));
    assert_int_equal(ask(scene, "DELETE", KEYS "/milligpu-keys", ""), 200);
    pass(scene, AGAIN_MS);
    assert_false(keyring_has_signed(scene->keyring, text_of(signature), &what));
    signing_key_free(key);
}

/* 200, or 404, or three tries: then a new ledger waits no more for the keys that prove. */
SCENE_TEST(key_publisher__reports_when_it_has_looked_for_keys)
{
    assert_false(key_publisher_has_looked(scene->publisher));
    run(scene); /* there is none */
    assert_true(key_publisher_has_looked(scene->publisher));
    begin_again(scene);
    assert_false(key_publisher_has_looked(scene->publisher));
    scene->refuse = 403;
    run(scene);
    assert_false(key_publisher_has_looked(scene->publisher));
    pass(scene, 1000);
    assert_false(key_publisher_has_looked(scene->publisher));
    pass(scene, 2000);
    assert_true(key_publisher_has_looked(scene->publisher));
    begin_again(scene);
    scene->refuse = 0;
    run(scene);
    assert_true(key_publisher_has_looked(scene->publisher));
    assert_true(facts_of(scene).published);
}

/* The informer asks for pods only then, and only for a ledger that begins. */
SCENE_TEST(new_ledger__lists_no_pods_before_keys_were_looked_for)
{
    struct app_fixture *fixture = scene->fixture;

    fixture_lose_ledger(fixture);
    scene->app->settings = &scene->settings;
    scene->app->keyring = scene->keyring;
    scene->app->key_publisher = scene->publisher;
    const uint32_t lists = fixture->pod_lists;
    fixture_run(fixture);
    assert_int_equal(fixture->pod_lists, lists);
    assert_false(app_ready(scene->app, NULL));
    run(scene);
    fixture_run(fixture);
    assert_true(fixture->pod_lists > lists);
    assert_true(app_ready(scene->app, NULL));
    scene->app->key_publisher = NULL;
}

SCENE_TEST(key_publisher__recreates_a_deleted_config_map)
{
    run(scene);
    assert_int_equal(ask(scene, "DELETE", KEYS "/milligpu-keys", ""), 200);
    pass(scene, AGAIN_MS - 1);
    assert_int_equal(ask(scene, "GET", KEYS "/milligpu-keys", ""), 404);
    pass(scene, 1);
    is_there(scene);
}

/* Retries come after 1, 2, 4 ... 60, 60 seconds. */
SCENE_TEST(key_publisher__retries_with_growing_pauses)
{
    static const int64_t pauses_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};

    scene->refuse = 403;
    run(scene);
    assert_string_equal(facts_of(scene).error, "HTTP 403: because");
    for (size_t i = 0; i < ARRAY_LEN(pauses_ms); i++) {
        assert_int_equal(scene->requests, i + 1);
        assert_int_equal(key_publisher_step(scene->publisher, scene->fixture->now_ms),
                         pauses_ms[i]);
        pass(scene, pauses_ms[i] - 1);
        assert_int_equal(scene->requests, i + 1);
        pass(scene, 1);
    }
    scene->refuse = 0;
    pass(scene, 60000);
    is_there(scene);
    assert_true(facts_of(scene).published);
    assert_string_equal(facts_of(scene).error, "");
    /* The next failure waits for a second again. */
    scene->fixture->now_ms += AGAIN_MS;
    scene->lost = true;
    run(scene);
    assert_string_equal(facts_of(scene).error, "not answered");
    assert_true(facts_of(scene).published);
    assert_int_equal(key_publisher_step(scene->publisher, scene->fixture->now_ms), 1000);
}

SCENE_TEST(key_publisher__retries_a_request_that_did_not_start)
{
    scene->start_fails = true;
    run(scene);
    assert_string_equal(facts_of(scene).error, "no way there");
    scene->start_fails = false;
    pass(scene, 1000);
    is_there(scene);
}

/* It was created between our PATCH and our POST. */
SCENE_TEST(key_publisher__patches_a_config_map_created_meanwhile)
{
    (void)key_publisher_step(scene->publisher, scene->fixture->now_ms);
    scene->ops.poll(scene->real.ctx, 0, scene, deliver);
    assert_int_equal(scene->requests, 1);
    assert_int_equal(ask(scene, "POST", KEYS,
                         "{\"metadata\":{\"name\":\"milligpu-keys\"},\"data\":{\"a\":\"b\"}}"),
                     201);
    run(scene);
    assert_int_equal(scene->requests, 2);
    assert_says(facts_of(scene).error, "HTTP 409");
    pass(scene, 1000);
    is_there(scene);
    assert_says(scene->out.data, "\"a\":\"b\"");
}

SCENE_TEST(key_publisher__ignores_answers_to_other_requests)
{
    static const uint64_t ids[] = {1, (uint64_t)2 << 32, (uint64_t)3 << 32, (uint64_t)4 << 32,
                                   (uint64_t)6 << 32};

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        const struct kube_answer is = {.id = ids[i], .piece = KUBE_HEAD, .status = 200};
        assert_false(key_publisher_answer(scene->publisher, scene->fixture->now_ms, &is));
    }
    /* Ours, but of a try that is over. */
    const struct kube_answer old = {.id = ((uint64_t)3 << 32) + 7, .piece = KUBE_DONE};
    assert_true(key_publisher_answer(scene->publisher, scene->fixture->now_ms, &old));
    assert_false(facts_of(scene).published);
}

/* --- from one key to the next --- */

static void has(struct scene *scene, const char *states)
{
    char said[200] = "";

    const size_t count = keyring_list(scene->keyring, scene->key);
    for (size_t i = 0; i < count; i++)
        (void)snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s", i > 0 ? " " : "",
                       key_state_name(scene->key[i].state));
    assert_string_equal(said, states);
    assert_string_equal(facts_of(scene).trouble, "");
}

/* After this time. */
static void will_have(struct scene *scene, int64_t ms, const char *states)
{
    pass(scene, ms);
    has(scene, states);
}

/* The annotation of milligpuctl replace-key. */
static void want_replaced(struct scene *scene, const char *id)
{
    char body[160];

    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"annotations\":{\"milligpu.io/replace-key\":\"%s\"}}}", id);
    assert_int_equal(ask(scene, "PATCH", KEYS "/milligpu-keys", body), 200);
}

static void want_first_replaced(struct scene *scene)
{
    is_there(scene);
    want_replaced(scene, scene->key[0].id);
}

/* A pod that the first key signed is bound; then the second key signs. */
static void bind_and_replace(struct scene *scene)
{
    run(scene);
    has(scene, "signing");
    fixture_grant(scene->fixture, "p", "300", "n1");
    want_replaced(scene, scene->key[0].id);
    will_have(scene, AGAIN_MS, "signing next");
    assert_true(shows_key(scene, 0) && shows_key(scene, 1));
    will_have(scene, WAIT_MS - 1, "signing next");
    will_have(scene, 1, "signing retiring");
}

/* An event of the watch of pods. */
static void watch_event(struct scene *scene)
{
    static int pods;

    fixture_show_pod(scene->fixture, fixture_name("event-", pods++), "100");
}

static void end_pod(struct scene *scene)
{
    fixture_delete_pod(scene->fixture, "p");
    fixture_run(scene->fixture);
}

SCENE_TEST(key__stays_published_while_a_pod_needs_it)
{
    bind_and_replace(scene);
    for (int i = 0; i < 3; i++) {
        pass(scene, KEY_RETIRE_WAITS * WAIT_MS);
        watch_event(scene);
        has(scene, "signing retiring");
        assert_true(shows_key(scene, 0) && shows_key(scene, 1));
    }
    end_pod(scene);
    pass(scene, AGAIN_MS);
    assert_true(shows_key(scene, 0));
    assert_false(shows_key(scene, 1));
    has(scene, "signing");
    /* The annotation names a key that signs no more: it asks for nothing. */
    will_have(scene, 10 * AGAIN_MS, "signing");
}

SCENE_TEST(key__stays_for_some_time_after_its_last_pod)
{
    bind_and_replace(scene);
    end_pod(scene);
    for (int64_t ms = AGAIN_MS; ms < KEY_RETIRE_WAITS * WAIT_MS; ms += AGAIN_MS) {
        watch_event(scene);
        will_have(scene, AGAIN_MS, "signing retiring");
    }
    watch_event(scene);
    will_have(scene, AGAIN_MS, "signing");
}

SCENE_TEST(key__stays_while_not_all_pods_are_known)
{
    bind_and_replace(scene);
    end_pod(scene);
    pass(scene, KEY_RETIRE_WAITS * WAIT_MS); /* and the watch was silent */
    has(scene, "signing retiring");
    watch_event(scene);
    atomic_store(&scene->app->watch.pods_synced, false);
    will_have(scene, AGAIN_MS, "signing retiring");
    atomic_store(&scene->app->watch.pods_synced, true);
    atomic_store(&scene->app->health.safe_mode, true);
    will_have(scene, AGAIN_MS, "signing retiring");
    atomic_store(&scene->app->health.safe_mode, false);
    will_have(scene, AGAIN_MS, "signing");
}

/* Its Binding may still take effect, with the signature of before. */
SCENE_TEST(key__stays_while_a_reservation_is_in_doubt)
{
    run(scene);
    fixture_show_pod(scene->fixture, "doubt", "300");
    scene->fixture->lose_requests = true;
    (void)fixture_bind_begin(scene->fixture, "doubt", "n1");
    fixture_pass(scene->fixture, 5000);
    scene->fixture->lose_requests = false;
    bind_and_replace(scene);
    end_pod(scene);
    pass(scene, KEY_RETIRE_WAITS * WAIT_MS);
    watch_event(scene);
    will_have(scene, AGAIN_MS, "signing retiring");
    assert_int_equal(fixture_reserved(scene->fixture, "n1"), 300);
    fixture_delete_pod(scene->fixture, "doubt");
    fixture_run(scene->fixture);
    will_have(scene, AGAIN_MS, "signing");
}

SCENE_TEST(key_replacement__goes_on_after_a_restart)
{
    run(scene);
    want_first_replaced(scene);
    will_have(scene, AGAIN_MS, "signing next");
    for (int i = 0; i < 2; i++) { /* before and after the next key signs */
        open_keyring(scene);
        begin_again(scene);
        has(scene, i == 0 ? "signing next" : "signing retiring");
        /* The ConfigMap was deleted meanwhile. */
        assert_int_equal(ask(scene, "DELETE", KEYS "/milligpu-keys", ""), 200);
        run(scene);
        assert_true(shows_key(scene, 0) && shows_key(scene, 1));
        will_have(scene, WAIT_MS, "signing retiring");
    }
}

SCENE_TEST(next_key__does_not_sign_before_it_is_published)
{
    run(scene);
    want_first_replaced(scene);
    scene->fixture->now_ms += AGAIN_MS;
    (void)key_publisher_step(scene->publisher, scene->fixture->now_ms);
    scene->ops.poll(scene->real.ctx, 0, scene, deliver); /* the annotation is read */
    scene->refuse = 403;
    will_have(scene, 10 * WAIT_MS, "signing next");
    assert_string_equal(facts_of(scene).error, "HTTP 403: because");
    scene->refuse = 0;
    pass(scene, 60000);
    will_have(scene, WAIT_MS - 1, "signing next");
    will_have(scene, 1, "signing retiring");
}

SCENE_TEST(key_replacement__reports_a_folder_that_is_not_writable)
{
    char list[80];

    run(scene);
    want_first_replaced(scene);
    (void)snprintf(list, sizeof list, "%s.keys", scene->file);
    assert_int_equal(unlink(list), 0);
    assert_int_equal(mkdir(list, 0700), 0);
    pass(scene, AGAIN_MS);
    assert_says(facts_of(scene).trouble, list);
    assert_true(facts_of(scene).published);
    assert_int_equal(rmdir(list), 0);
    will_have(scene, AGAIN_MS, "signing next");
}

/* --- pods that only pretend to need a key --- */

/* A pod with the allocation of p, and that signature unless another is given. */
static void put_copy(struct scene *scene, const char *name, const char *signature, const char *node)
{
    CLEANUP(strbuf_done) struct strbuf object;
    CLEANUP(arena_done) struct arena arena;
    struct pod pod;
    struct err err;

    strbuf_init(&object);
    arena_init(&arena);
    fixture_object(scene->fixture, "p", &object);
    assert_int_equal(pod_decode((struct text){object.data, object.len},
                                &scene->app->rules.wire_rules, &arena, &pod, &err),
                     0);
    CLEANUP(strbuf_done) struct strbuf annotations;
    strbuf_init(&annotations);
    strbuf_str(&annotations, "\"milligpu.io/allocation\":");
    struct json_writer json;
    json_writer_init(&json, &annotations);
    json_write_str(&json, pod.note_text);
    strbuf_printf(&annotations, ",\"milligpu.io/signature\":\"%s\"",
                  signature != NULL ? signature : pod.signature);
    fixture_pod_of(scene->fixture, name, "\"nvidia.com/vgpu\":\"300\"", annotations.data, node);
    fixture_run(scene->fixture);
}

static const char *made_up_with(const char *id)
{
    static char text[SIGNATURE_TEXT_BYTES];

    (void)snprintf(text, sizeof text, "v1:%s:%086d==", id, 0);
    return text;
}

static const char *made_up(struct scene *scene)
{
    return made_up_with(scene->key[1].id);
}

/* It goes although pods name it: in vain, or unbound. */
SCENE_TEST(key__is_not_kept_by_unbound_or_forged_pods)
{
    bind_and_replace(scene);
    put_copy(scene, "unbound", NULL, NULL);
    put_copy(scene, "unbound-made-up", made_up(scene), NULL);
    put_copy(scene, "bound-made-up", made_up(scene), "n1");
    put_copy(scene, "bound-copied", NULL, "n1");
    end_pod(scene);
    pass(scene, KEY_RETIRE_WAITS * WAIT_MS - 1);
    watch_event(scene);
    has(scene, "signing retiring");
    will_have(scene, AGAIN_MS, "signing");
    assert_false(shows_key(scene, 1));
}

/* The cache forgets p and the signatures that were made before, as after a start. */
static void forget_signatures(struct scene *scene)
{
    struct pod_record *p = pod_cache_copy(scene->app->pod_cache, "default", "p");
    char uid[24];

    pod_cache_remove(scene->app->pod_cache, pod_record_uid(p));
    pod_record_free(p);
    for (int i = 0; i < 1024; i++) {
        (void)snprintf(uid, sizeof uid, "other-%d", i);
        const struct signed_facts what = {
            .uid = text_of(uid), .node = TEXT("n1"), .bytes = TEXT("x")};
        pod_cache_note_signature(scene->app->pod_cache, TEXT("v1"), &what);
    }
}

/* The informer's list, for which the publisher asks. */
static void list_again(struct scene *scene)
{
    assert_true(atomic_load(&scene->app->watch.list_again));
    fixture_pass(scene->fixture, 10000);
    assert_false(atomic_load(&scene->app->watch.list_again));
}

/* The second key signs; the first one is due, and pods name it. */
static void replace_and_wait(struct scene *scene)
{
    want_replaced(scene, scene->key[0].id);
    will_have(scene, AGAIN_MS, "signing next");
    will_have(scene, WAIT_MS, "signing retiring");
    pass(scene, KEY_RETIRE_WAITS * WAIT_MS);
    watch_event(scene);
}

/* The pod was listed before the key was retiring, so its signature was not verified. */
SCENE_TEST(key__is_kept_by_a_forged_pod_until_pods_are_listed_again)
{
    run(scene);
    has(scene, "signing");
    fixture_grant(scene->fixture, "p", "300", "n1");
    put_copy(scene, "forged", made_up_with(scene->key[0].id), "n1");
    end_pod(scene);
    replace_and_wait(scene);
    for (int i = 0; i < 3; i++) { /* the first list fails; there is one an hour */
        will_have(scene, AGAIN_MS, "signing retiring");
        assert_int_equal(atomic_load(&scene->app->watch.list_again), i == 0);
        atomic_store(&scene->app->watch.list_again, false);
        pass(scene, i == 2 ? 3600000 : 0);
        watch_event(scene);
    }
    will_have(scene, AGAIN_MS, "signing retiring");
    list_again(scene);
    watch_event(scene);
    will_have(scene, AGAIN_MS, "signing");
}

SCENE_TEST(key__is_kept_by_a_pod_that_was_bound_before_the_start)
{
    run(scene);
    has(scene, "signing");
    fixture_grant(scene->fixture, "p", "300", "n1");
    forget_signatures(scene);
    fixture_annotate(scene->fixture, "p", "\"an\":\"event\"");
    fixture_run(scene->fixture);
    replace_and_wait(scene);
    for (int i = 0; i < 3; i++) {
        will_have(scene, AGAIN_MS, "signing retiring");
        if (i == 0)
            list_again(scene);
        assert_false(atomic_load(&scene->app->watch.list_again)); /* one list is enough */
        watch_event(scene);
    }
    end_pod(scene);
    will_have(scene, AGAIN_MS, "signing");
}

/* Its annotations are damaged, so no agent starts it again anyway. */
SCENE_TEST(key__is_not_kept_by_a_pod_with_an_overwritten_signature)
{
    char annotation[200];

    bind_and_replace(scene);
    (void)snprintf(annotation, sizeof annotation, "\"milligpu.io/signature\":\"%s\"",
                   made_up(scene));
    pass(scene, KEY_RETIRE_WAITS * WAIT_MS);
    watch_event(scene);
    will_have(scene, AGAIN_MS, "signing retiring");
    fixture_annotate(scene->fixture, "p", annotation);
    fixture_run(scene->fixture);
    will_have(scene, AGAIN_MS, "signing");
}

SCENE_TEST(key_pods__are_counted_by_the_key_they_need)
{
    bind_and_replace(scene);
    put_copy(scene, "bound-made-up", made_up(scene), "n1");
    fixture_grant(scene->fixture, "after", "100", "n2");
    struct key_pods pods[] = {{.number = key_number(text_of(scene->key[0].id)), .needing = 9},
                              {.number = key_number(text_of(scene->key[1].id)), .naming = 9},
                              {.number = 5, .good = 9, .needing = 9, .naming = 9}};
    key_pods_count(scene->app, pods, ARRAY_LEN(pods));
    assert_int_equal(pods[0].needing, 1);
    assert_int_equal(pods[0].naming, 1);
    assert_int_equal(pods[1].good, 1);
    assert_int_equal(pods[1].needing, 1);
    assert_int_equal(pods[1].naming, 2);
    assert_int_equal(pods[2].good, 0);
    assert_int_equal(pods[2].needing, 0);
    assert_int_equal(pods[2].naming, 0);
}

/* --- revoking --- */

/* The ConfigMap as milligpuctl revoke-key has kubectl write it. */
static void write_revoked(struct scene *scene, const char *id)
{
    char body[200];

    (void)snprintf(body, sizeof body,
                   "{\"metadata\":{\"annotations\":{\"revoked-key.milligpu.io/%s\":\"true\"}},"
                   "\"data\":{\"%s\":null}}",
                   id, id);
    assert_int_equal(ask(scene, "PATCH", KEYS "/milligpu-keys", body), 200);
}

SCENE_TEST(revoked_key__goes_although_pods_need_it)
{
    bind_and_replace(scene);
    write_revoked(scene, scene->key[1].id);
    assert_false(shows_key(scene, 1));
    pass(scene, AGAIN_MS);
    assert_false(shows_key(scene, 1));
    has(scene, "signing");
    /* Nor does it come back. */
    for (int i = 0; i < 3; i++) {
        pass(scene, AGAIN_MS);
        assert_false(shows_key(scene, 1));
    }
    assert_int_equal(facts_of(scene).n_others, 0);
}

/* The annotation was written while no milligpud ran. */
SCENE_TEST(revoked_key__goes_at_the_start_when_revoked_meanwhile)
{
    bind_and_replace(scene);
    key_publisher_free(scene->publisher);
    write_revoked(scene, scene->key[1].id);
    open_keyring(scene);
    begin(scene);
    has(scene, "signing retiring");
    run(scene);
    assert_false(shows_key(scene, 1));
    has(scene, "signing");
}

SCENE_TEST(revoked_key__goes_on_signing_until_it_is_replaced)
{
    run(scene);
    has(scene, "signing");
    write_revoked(scene, scene->key[0].id);
    will_have(scene, AGAIN_MS, "signing");
    is_there(scene);
    bind_and_replace(scene);
    will_have(scene, AGAIN_MS, "signing");
    assert_false(shows_key(scene, 1));
}

SCENE_TEST(key_publisher__reports_other_keys_of_the_config_map)
{
    static const char others[] =
        "{\"data\":{\"21fe31dfa154a261\":\"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\","
        "\"31fe31dfa154a261\":\"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\",\"a\":\"b\"}}";

    run(scene);
    assert_int_equal(facts_of(scene).n_others, 0);
    assert_int_equal(ask(scene, "PATCH", KEYS "/milligpu-keys", others), 200);
    pass(scene, AGAIN_MS);
    assert_int_equal(facts_of(scene).n_others, 1); /* the second is not what its id says */
    assert_string_equal(facts_of(scene).other[0], "21fe31dfa154a261");
    write_revoked(scene, "21fe31dfa154a261");
    pass(scene, AGAIN_MS);
    assert_int_equal(facts_of(scene).n_others, 0);
    has(scene, "signing");
}

/* Each of them is needed; one that is revoked makes room. */
SCENE_TEST(full_keyring__has_room_again_after_a_revocation)
{
    struct key_entry key[KEYRING_MAX];

    run(scene);
    for (int n = 1; n < KEYRING_MAX; n++) {
        fixture_grant(scene->fixture, fixture_name("p", n), "10", "n1");
        (void)keyring_list(scene->keyring, key);
        want_replaced(scene, key[0].id);
        pass(scene, AGAIN_MS);
        pass(scene, WAIT_MS);
        const size_t count = keyring_list(scene->keyring, key);
        assert_int_equal(count, n + 1);
        assert_int_equal(key[0].state, KEY_SIGNING);
    }
    want_replaced(scene, key[0].id);
    pass(scene, AGAIN_MS);
    assert_says(facts_of(scene).trouble, "15 former keys");
    assert_says(facts_of(scene).trouble, "milligpuctl revoke-key");
    write_revoked(scene, key[KEYRING_MAX - 1].id);
    pass(scene, AGAIN_MS);
    assert_string_equal(facts_of(scene).trouble, "");
    const size_t count = keyring_list(scene->keyring, key);
    assert_int_equal(count, KEYRING_MAX);
    assert_int_equal(key[1].state, KEY_NEXT);
}

SCENE_TEST(key_publisher__cancels_its_request_when_freed)
{
    scene->lost = true;
    (void)key_publisher_step(scene->publisher, scene->fixture->now_ms);
    assert_int_not_equal(scene->id, 0); /* tear_down checks that it is cancelled */
}
