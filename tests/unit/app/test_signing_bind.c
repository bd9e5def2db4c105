/* A pod that is bound carries a signature that an agent believes, and the same one again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "milligpu/alloc.h"
#include "milligpu/doc.h"
#include "milligpu/fake_apiserver.h"
#include "milligpu/keyring.h"

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

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct err err;

    (void)snprintf(scene->file, sizeof scene->file, "/tmp/milligpu-bind-%d", (int)getpid());
    const struct keyring_rules rules = {scene->file, 120000};
    assert_int_equal(keyring_open(&rules, (struct key_times){0}, &scene->keyring, &err), 0);
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
    assert_int_equal(unlink(scene->file), 0);
    (void)snprintf(scene->file, sizeof scene->file, "/tmp/milligpu-bind-%d.keys", (int)getpid());
    (void)unlink(scene->file);
    xfree(scene);
    return 0;
}

/* metadata of the pod as the API server has it now; in the arena. */
static const struct doc *meta_of(struct scene *scene, const char *pod)
{
    struct strbuf object;
    struct doc *root = NULL;
    struct err err;

    strbuf_init(&object);
    fixture_object(scene->fixture, pod, &object);
    const struct text kept = {arena_copy(&scene->arena, (struct text){object.data, object.len}),
                              object.len};
    strbuf_done(&object);
    assert_int_equal(doc_parse_json(kept, "pod", &scene->arena, &root, &err), 0);
    return doc_get(root, "metadata");
}

/* An annotation of it; NULL: it has none. */
static const char *note_of(struct scene *scene, const char *pod, const char *key)
{
    const struct doc *note = doc_get(doc_get(meta_of(scene, pod), "annotations"), key);

    return note == NULL ? NULL : note->text.at;
}

static bool believes(struct scene *scene, const char *pod, const char *node)
{
    const struct signed_facts what = {text_of(doc_str(meta_of(scene, pod), "uid")), text_of(node),
                                      text_of(note_of(scene, pod, "milligpu.io/allocation")),
                                      SIGNED_ALLOCATION};

    const struct key_entry key = signer(scene);
    return signature_is_good(text_of(key.key),
                             text_of(note_of(scene, pod, "milligpu.io/signature")), &what);
}

static void a_bound_pod_is_signed(void **state)
{
    struct scene *scene = *state;

    fixture_pod(scene->fixture, "p", "300");
    fixture_run(scene->fixture);
    assert_string_equal(fixture_bind(scene->fixture, "p", "n1"), "");
    assert_true(believes(scene, "p", "n1"));
    assert_false(believes(scene, "p", "n2"));
    assert_null(note_of(scene, "p", "required-plugins.noderesource.dev/pod"));
}

static void on_a_node_with_an_agent_it_demands_the_agent(void **state)
{
    struct scene *scene = *state;

    fixture_annotate_node(scene->fixture, "n1", "\"milligpu.io/agent\":\"\"");
    fixture_pod(scene->fixture, "p", "300");
    fixture_pod(scene->fixture, "q", "300");
    fixture_pod(scene->fixture, "zero", "0");
    fixture_run(scene->fixture);
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
    fixture_annotate_node(scene->fixture, "n1", "\"milligpu.io/agent\":null");
    fixture_run(scene->fixture);
    assert_int_equal(scene->fixture->wake_ups, woken);
    assert_string_equal(fixture_bind(scene->fixture, "q", "n1"), "");
    assert_true(believes(scene, "q", "n1"));
    assert_null(note_of(scene, "q", "required-plugins.noderesource.dev/pod"));
}

/* A pod that asks, with an init container and one more container beside it. */
static void post_with(struct scene *scene, const char *pod, const char *beside)
{
    struct strbuf body;
    struct strbuf answer;

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
    strbuf_done(&body);
    strbuf_done(&answer);
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
static void it_demands_the_agent_for_containers_without_a_share_too(void **state)
{
    struct scene *scene = *state;

    fixture_annotate_node(scene->fixture, "n1", "\"milligpu.io/agent\":\"\"");
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
static void a_restart_signs_the_same(void **state)
{
    struct scene *scene = *state;
    struct app_fixture *fixture = scene->fixture;

    fixture_annotate_node(fixture, "n1", "\"milligpu.io/agent\":\"1.0\"");
    fixture_pod(fixture, "p", "300");
    fixture_run(fixture);
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
static void a_key_that_is_not_published_signs_nothing(void **state)
{
    struct scene *scene = *state;
    struct app_fixture *fixture = scene->fixture;
    const struct keyring_rules rules = {scene->file, 120000};
    struct err err;

    keyring_free(STEAL(scene->keyring));
    assert_int_equal(unlink(scene->file), 0);
    char list[80];
    (void)snprintf(list, sizeof list, "%s.keys", scene->file);
    assert_int_equal(unlink(list), 0);
    assert_int_equal(keyring_open(&rules, (struct key_times){0}, &scene->keyring, &err), 0);
    fixture->app.keyring = scene->keyring;
    fixture_annotate_node(fixture, "n1", "\"milligpu.io/agent\":\"\"");
    fixture_pod(fixture, "p", "300");
    fixture_pod(fixture, "q", "300");
    fixture_pod(fixture, "zero", "0");
    fixture_run(fixture);
    assert_non_null(strstr(fixture_bind(fixture, "p", "n1"), "not ready: the node has an agent"));
    assert_string_equal(fixture_bind(fixture, "zero", "n1"), "");
    assert_string_equal(fixture_bind(fixture, "q", "n2"), "");
    assert_null(note_of(scene, "q", "milligpu.io/signature"));
    publish(scene);
    assert_string_equal(fixture_bind(fixture, "p", "n1"), "");
    assert_true(believes(scene, "p", "n1"));
}

static void without_a_key_nothing_is_signed(void **state)
{
    struct scene *scene = *state;

    scene->fixture->app.keyring = NULL;
    fixture_pod(scene->fixture, "p", "300");
    fixture_run(scene->fixture);
    assert_string_equal(fixture_bind(scene->fixture, "p", "n1"), "");
    assert_non_null(note_of(scene, "p", "milligpu.io/allocation"));
    assert_null(note_of(scene, "p", "milligpu.io/signature"));
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_bound_pod_is_signed),
        TEST(on_a_node_with_an_agent_it_demands_the_agent),
        TEST(it_demands_the_agent_for_containers_without_a_share_too),
        TEST(a_restart_signs_the_same),
        TEST(a_key_that_is_not_published_signs_nothing),
        TEST(without_a_key_nothing_is_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
