/* A pod that is bound carries a signature that an agent believes, and the same one again. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/rules/rulebook.h"
#include "milligpu/document/document.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/sign/keyring.h"

#include "support/test.h"
#include "support_fixture.h"

struct scene {
    struct app_fixture *fixture;
    struct keyring *keyring;
    char file[64];
    struct arena arena;
};

static struct key_entry signer(const struct scene *scene)
{
    struct key_entry key[KEYRING_MAX];

    assert_int_equal(keyring_list(scene->keyring, key), 1);
    return key[0];
}

static void publish(const struct scene *scene)
{
    const struct key_entry key = signer(scene);
    struct err err;

    assert_int_equal(keyring_published(scene->keyring, &key, 1, (struct key_times){0}, &err), 0);
}

static struct keyring *open_keyring(const char *file)
{
    const struct keyring_rules rules = {file, 120000};
    struct keyring *keyring;
    struct err err;

    assert_int_equal(keyring_open(&rules, (struct key_times){0}, &keyring, &err), 0);
    return keyring;
}

static void remove_keyring(const char *file)
{
    char list[88];

    assert_int_equal(unlink(file), 0);
    (void)snprintf(list, sizeof list, "%s.keys", file);
    (void)unlink(list);
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);

    (void)snprintf(scene->file, sizeof scene->file, "/tmp/milligpu-bind-%d", (int)getpid());
    scene->keyring = open_keyring(scene->file);
    arena_init(&scene->arena);
    scene->fixture = fixture_new(fixture_two_nodes);
    publish(scene);
    scene->fixture->app.keyring = scene->keyring;
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    fixture_free(scene->fixture);
    keyring_free(scene->keyring);
    arena_done(&scene->arena);
    remove_keyring(scene->file);
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

/* metadata of the pod as the API server has it now; in the arena. */
static const struct document *meta_of(struct scene *scene, const char *pod)
{
    CLEANUP(strbuf_done) struct strbuf object;
    struct document *root = NULL;
    struct err err;

    strbuf_init(&object);
    fixture_object(scene->fixture, pod, &object);
    const struct text kept = {arena_copy(&scene->arena, (struct text){object.data, object.len}),
                              object.len};
    assert_int_equal(document_parse_json(kept, "pod", &scene->arena, &root, &err), 0);
    return document_get(root, "metadata");
}

/* An annotation of it; NULL: it has none. */
static const char *note_of(struct scene *scene, const char *pod, const char *key)
{
    const struct document *note =
        document_get(document_get(meta_of(scene, pod), "annotations"), key);

    return note == NULL ? NULL : note->text.at;
}

static bool believes(struct scene *scene, const char *pod, const char *node)
{
    const struct signed_facts what = {
        text_of(document_str(meta_of(scene, pod), "uid")), text_of(node),
        text_of(note_of(scene, pod, "milligpu.io/allocation")), SIGNED_ALLOCATION};

    const struct key_entry key = signer(scene);
    return signature_is_good(text_of(key.key),
                             text_of(note_of(scene, pod, "milligpu.io/signature")), &what);
}

SCENE_TEST(bind__signs_the_allocation)
{
    fixture_grant(scene->fixture, "p", "300", "n1");
    assert_true(believes(scene, "p", "n1"));
    assert_false(believes(scene, "p", "n2"));
    assert_null(note_of(scene, "p", "required-plugins.noderesource.dev/pod"));
}

/* An agent outside of pods, which says this of itself and names the GPU. */
static void agent_comes(struct app_fixture *fixture, const char *word)
{
    char annotations[256];

    (void)snprintf(annotations, sizeof annotations,
                   "\"milligpu.io/agent\":\"%s\",\"milligpu.io/gpus\":\"[{\\\"uuid\\\":"
                   "\\\"GPU-n1\\\",\\\"index\\\":0,\\\"mib\\\":81920}]\"",
                   word);
    fixture_annotate_node(fixture, "n1", annotations);
}

SCENE_TEST(bind__requires_the_agent_on_its_node)
{
    agent_comes(scene->fixture, "");
    fixture_pod(scene->fixture, "p", "300");
    fixture_pod(scene->fixture, "q", "300");
    fixture_show_pod(scene->fixture, "zero", "0");
    const uint32_t woken = scene->fixture->wake_ups;
    assert_string_equal(fixture_bind(scene->fixture, "p", "n1"), "");
    assert_true(believes(scene, "p", "n1"));
    assert_string_equal(note_of(scene, "p", "required-plugins.noderesource.dev/pod"),
                        "[\"milligpu\"]");
    assert_string_equal(note_of(scene, "p", "required-plugins.noderesource.dev/container.c"),
                        "[\"milligpu\"]");
    assert_string_equal(fixture_bind(scene->fixture, "zero", "n1"), "");
    assert_null(note_of(scene, "zero", "milligpu.io/signature"));
    assert_null(note_of(scene, "zero", "required-plugins.noderesource.dev/pod"));
    /* It was uninstalled. */
    fixture_annotate_node(scene->fixture, "n1",
                          "\"milligpu.io/agent\":\"{\\\"leaving\\\":\\\"uninstalled\\\"}\","
                          "\"milligpu.io/gpus\":null");
    fixture_run(scene->fixture);
    assert_int_equal(scene->fixture->wake_ups, woken);
    assert_string_equal(fixture_bind(scene->fixture, "q", "n1"), "");
    assert_true(believes(scene, "q", "n1"));
    assert_null(note_of(scene, "q", "required-plugins.noderesource.dev/pod"));
}

/* A pod that asks, with an init container and one more container beside it. */
static void post_with(struct scene *scene, const char *pod, const char *beside)
{
    CLEANUP(strbuf_done) struct strbuf body;
    CLEANUP(strbuf_done) struct strbuf answer;

    strbuf_init(&body);
    strbuf_init(&answer);
    strbuf_printf(&body,
                  "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\",\"annotations\":{"
                  "\"required-plugins.noderesource.dev/container.%s\":\"[]\"}},\"spec\":{"
                  "\"initContainers\":[{\"name\":\"first\",\"image\":\"none\"}],\"containers\":["
                  "{\"name\":\"c\",\"image\":\"none\",\"resources\":{\"limits\":{"
                  "\"nvidia.com/vgpu\":\"300\"}}},{\"name\":\"%s\",\"image\":\"none\"}]}}",
                  pod, beside, beside);
    assert_int_equal(fake_apiserver_request(scene->fixture->app.fake, "POST",
                                            "/api/v1/namespaces/default/pods",
                                            (struct text){body.data, body.len}, &answer),
                     201);
}

static void demands(struct scene *scene, const char *pod, const char *what)
{
    char key[100];

    (void)snprintf(key, sizeof key, "required-plugins.noderesource.dev/%s", what);
    assert_string_equal(note_of(scene, pod, key), "[\"milligpu\"]");
}

/*
 * NRI looks for the container's own key first, and the author of the pod may write one. The pods
 * ask for the same, and each has its own containers.
 */
SCENE_TEST(bind__requires_the_agent_for_containers_without_a_share)
{
    agent_comes(scene->fixture, "");
    post_with(scene, "p", "log");
    post_with(scene, "q", "web");
    fixture_run(scene->fixture);
    assert_string_equal(fixture_bind(scene->fixture, "p", "n1"), "");
    assert_string_equal(fixture_bind(scene->fixture, "q", "n1"), "");
    demands(scene, "p", "container.log");
    demands(scene, "q", "container.web");
    for (size_t i = 0; i < 2; i++) {
        const char *pod = i == 0 ? "p" : "q";
        assert_true(believes(scene, pod, "n1"));
        demands(scene, pod, "pod");
        demands(scene, pod, "container.c");
        demands(scene, pod, "container.first");
    }
}

/* The process ends before the Binding is sent; the next one sends what this one would have. */
SCENE_TEST(bind__signs_the_same_after_a_restart)
{
    struct app_fixture *fixture = scene->fixture;

    agent_comes(fixture, "1.0");
    fixture_show_pod(fixture, "p", "300");
    fixture->lose_requests = true;
    (void)fixture_bind_begin(fixture, "p", "n1");
    fixture_run(fixture);
    assert_null(note_of(scene, "p", "milligpu.io/signature"));
    fixture->lose_requests = false;
    fixture_restart(fixture);
    fixture->app.keyring = scene->keyring;
    assert_true(fixture_pass_until_ready(fixture, 60000));
    assert_string_equal(fixture_bind(fixture, "p", "n1"), "");
    assert_true(believes(scene, "p", "n1"));
    assert_non_null(note_of(scene, "p", "required-plugins.noderesource.dev/pod"));
}

/* Nobody knows it: an agent would refuse the containers of a pod that is bound. */
SCENE_TEST(bind__does_not_sign_with_an_unpublished_key)
{
    struct app_fixture *fixture = scene->fixture;

    keyring_free(STEAL(scene->keyring));
    remove_keyring(scene->file);
    scene->keyring = open_keyring(scene->file);
    fixture->app.keyring = scene->keyring;
    agent_comes(fixture, "");
    fixture_pod(fixture, "p", "300");
    fixture_pod(fixture, "q", "300");
    fixture_show_pod(fixture, "zero", "0");
    assert_says(fixture_bind(fixture, "p", "n1"), "not ready: the node has an agent");
    assert_string_equal(fixture_bind(fixture, "zero", "n1"), "");
    assert_string_equal(fixture_bind(fixture, "q", "n2"), "");
    assert_null(note_of(scene, "q", "milligpu.io/signature"));
    publish(scene);
    assert_string_equal(fixture_bind(fixture, "p", "n1"), "");
    assert_true(believes(scene, "p", "n1"));
}

SCENE_TEST(bind__does_not_sign_without_a_key)
{
    scene->fixture->app.keyring = NULL;
    fixture_grant(scene->fixture, "p", "300", "n1");
    assert_non_null(note_of(scene, "p", "milligpu.io/allocation"));
    assert_null(note_of(scene, "p", "milligpu.io/signature"));
}

/* A share of 100 is raised to the 750 that come with 60 GiB. */
static void raise_shares(struct scene *scene)
{
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "raise");

    book->raise = true;
    fixture_policy(scene->fixture, book);
    fixture_run(scene->fixture);
}

static void raise_pod(struct scene *scene, const char *pod)
{
    fixture_pod_of(scene->fixture, pod, "\"nvidia.com/vgpu\":\"100\"",
                   "\"milligpu.io/gpu-memory\":\"60Gi\"", NULL);
    fixture_run(scene->fixture);
    assert_string_equal(fixture_bind(scene->fixture, pod, "n1"), "");
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 750);
    fixture_annotate(scene->fixture, pod, "\"milligpu.io/gpu-memory\":null");
    fixture_run(scene->fixture);
}

static void lose_ledger(struct scene *scene, struct keyring *keyring)
{
    fixture_lose_ledger(scene->fixture);
    scene->fixture->app.keyring = keyring;
    fixture_run(scene->fixture);
    assert_true(app_ready(&scene->fixture->app, NULL));
}

SCENE_TEST(signature__proves_the_allocation_to_a_new_ledger)
{
    raise_shares(scene);
    raise_pod(scene, "p");
    fixture_annotate(scene->fixture, "p",
                     "\"milligpu.io/gpu-count\":\"7\",\"milligpu.io/gpu-model\":\"H100\"");
    lose_ledger(scene, scene->keyring);
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 750);
    fixture_show_pod(scene->fixture, "next", "900");
    assert_says(fixture_bind(scene->fixture, "next", "n1"), "no GPU with 900 milli");
    /* Without a key nothing is proven: it is adopted by what it asks for. */
    lose_ledger(scene, NULL);
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 100);
}

/* The row of an adopted pod is gone, and the pod comes by the watch. */
SCENE_TEST(signature__proves_its_own_pod_node_and_bytes_only)
{
    struct app_fixture *fixture = scene->fixture;
    char notes[1024];

    raise_shares(scene);
    raise_pod(scene, "p");
    const char *allocation = note_of(scene, "p", "milligpu.io/allocation");
    const char *signature = note_of(scene, "p", "milligpu.io/signature");
    CLEANUP(strbuf_done) struct strbuf escaped;
    strbuf_init(&escaped);
    for (const char *at = allocation; *at != '\0'; at++)
        strbuf_printf(&escaped, "%s%c", *at == '"' ? "\\" : "", *at);
    (void)snprintf(notes, sizeof notes,
                   "\"milligpu.io/allocation\":\"%s\",\"milligpu.io/signature\":\"%s\"",
                   escaped.data, signature);
    fixture_delete_pod(fixture, "p");
    fixture_pod_of(fixture, "copy", "\"nvidia.com/vgpu\":\"100\"", notes, "n1");
    assert_taken(fixture, "n1", 100);
    lose_ledger(scene, scene->keyring);
    assert_int_equal(fixture_taken(fixture, "n1"), 100);
    fixture_delete_pod(fixture, "copy");
    /* The pod itself, with one byte more. */
    fixture_run(fixture);
    raise_pod(scene, "q");
    (void)snprintf(notes, sizeof notes, "\"milligpu.io/allocation\":\"%s \"", escaped.data);
    fixture_annotate(fixture, "q", notes);
    lose_ledger(scene, scene->keyring);
    assert_int_equal(fixture_taken(fixture, "n1"), 100);
}

/* A volume that is lost takes the key with it; the ConfigMap still shows its public half. */
SCENE_TEST(signature__is_proven_by_a_key_of_the_config_map)
{
    const struct key_entry old = signer(scene);
    const char *const shown[] = {"no key", old.key};
    char file[80];

    (void)snprintf(file, sizeof file, "%s-fresh", scene->file);
    struct keyring *fresh = open_keyring(file);
    raise_shares(scene);
    raise_pod(scene, "p");
    lose_ledger(scene, fresh);
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 100);
    keyring_learn(fresh, shown, ARRAY_LEN(shown));
    lose_ledger(scene, fresh);
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 750);
    keyring_learn(fresh, shown, 1); /* it was taken away */
    lose_ledger(scene, fresh);
    assert_int_equal(fixture_taken(scene->fixture, "n1"), 100);
    scene->fixture->app.keyring = NULL;
    keyring_free(fresh);
    remove_keyring(file);
}

/* It was raised for a demand that is gone before its Binding takes effect. */
SCENE_TEST(bind__drops_a_raise_when_the_pod_requires_no_memory_any_more)
{
    struct app_fixture *fixture = scene->fixture;

    raise_shares(scene);
    fixture_pod_of(fixture, "p", "\"nvidia.com/vgpu\":\"100\"",
                   "\"milligpu.io/gpu-memory\":\"60Gi\"", NULL);
    fixture_run(fixture);
    fixture->lose_requests = true;
    (void)fixture_bind_begin(fixture, "p", "n1");
    fixture_run(fixture);
    assert_int_equal(fixture_reserved(fixture, "n1"), 750);
    fixture_annotate(fixture, "p", "\"milligpu.io/gpu-memory\":null");
    fixture->lose_requests = false;
    fixture_run_until_idle(fixture);
    assert_string_equal(fixture_bind(fixture, "p", "n1"), "");
    assert_int_equal(fixture_taken(fixture, "n1"), 100);
    assert_true(believes(scene, "p", "n1"));
    lose_ledger(scene, scene->keyring);
    assert_int_equal(fixture_taken(fixture, "n1"), 100);
}
