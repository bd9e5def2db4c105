/* A key signs when verifiers know it, and stays published while they need it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/run/file.h"
#include "milligpu/sign/keyring.h"

#include "support/disk.h"
#include "support/test.h"

enum { KEY_WAIT_MS = 120000 };

struct scene {
    char folder[64];
    char file[96];
    char next[104];
    char list[104];
    struct keyring *keyring;
    struct key_times now;
    struct err err;
    struct key_entry key[KEYRING_MAX];
    size_t count;
};

static void open_again(struct scene *scene)
{
    const struct keyring_rules rules = {scene->file, KEY_WAIT_MS};

    keyring_free(STEAL(scene->keyring));
    const int rc = keyring_open(&rules, scene->now, &scene->keyring, &scene->err);
    if (rc < 0)
        fail_msg("%s", scene->err.text);
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);

    (void)snprintf(scene->folder, sizeof scene->folder, "/tmp/milligpu-keyring-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    (void)snprintf(scene->file, sizeof scene->file, "%s/key", scene->folder);
    (void)snprintf(scene->next, sizeof scene->next, "%s/key.next", scene->folder);
    (void)snprintf(scene->list, sizeof scene->list, "%s/key.keys", scene->folder);
    scene->now = (struct key_times){5000, 1700000000000};
    open_again(scene);
    *state = scene;
    return 0;
}

/* Fails if anything else was left in the folder. */
static int tear_down(void **state)
{
    struct scene *scene = *state;

    keyring_free(scene->keyring);
    (void)unlink(scene->file);
    (void)unlink(scene->next);
    (void)unlink(scene->list);
    assert_int_equal(rmdir(scene->folder), 0);
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

/* "signing next retiring", and each private key where it belongs. */
static void has(struct scene *scene, const char *states)
{
    char said[200] = "";

    scene->count = keyring_list(scene->keyring, scene->key);
    for (size_t i = 0; i < scene->count; i++)
        (void)snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s", i > 0 ? " " : "",
                       key_state_name(scene->key[i].state));
    assert_string_equal(said, states);
    assert_int_equal(access(scene->next, F_OK) == 0, strstr(said, " next") != NULL);
    assert_int_equal(keyring_may_sign(scene->keyring), strncmp(said, "signing", 7) == 0);
}

static void publish(struct scene *scene)
{
    scene->count = keyring_list(scene->keyring, scene->key);
    assert_int_equal(
        keyring_published(scene->keyring, scene->key, scene->count, scene->now, &scene->err), 0);
}

static void pass(struct scene *scene, int64_t ms)
{
    scene->now.now_ms += ms;
    scene->now.wall_ms += ms;
    assert_int_equal(keyring_step(scene->keyring, scene->now, &scene->err), 0);
}

static void replace(struct scene *scene)
{
    assert_int_equal(keyring_replace(scene->keyring, scene->now, &scene->err), 0);
}

static void signs(struct scene *scene, const char *id)
{
    const struct signed_facts what = {TEXT("uid"), TEXT("n1"), TEXT("{}"), SIGNED_ALLOCATION};
    char signature[SIGNATURE_TEXT_BYTES];
    char by[KEY_ID_BYTES];

    assert_int_equal(keyring_sign(scene->keyring, &what, signature, &scene->err), 0);
    assert_true(signature_key_id(text_of(signature), by));
    assert_string_equal(by, id);
    scene->count = keyring_list(scene->keyring, scene->key);
    assert_string_equal(scene->key[0].id, id);
    assert_true(signature_is_good(text_of(scene->key[0].key), text_of(signature), &what));
}

SCENE_TEST(first_key__signs_once_published)
{
    has(scene, "next");
    pass(scene, 10 * KEY_WAIT_MS);
    has(scene, "next");
    open_again(scene);
    has(scene, "next");
    publish(scene);
    has(scene, "signing");
    assert_int_equal(scene->key[0].since_ms, scene->now.wall_ms);
    signs(scene, scene->key[0].id);
    /* The next start knows that it was published. */
    scene->now.wall_ms += 1000;
    open_again(scene);
    has(scene, "signing");
    assert_int_equal(scene->key[0].since_ms, scene->now.wall_ms - 1000);
}

SCENE_TEST(keyring_published__ignores_other_keys)
{
    const struct key_entry other = {.id = "0123456789abcdef"};

    assert_int_equal(keyring_published(scene->keyring, &other, 1, scene->now, &scene->err), 0);
    has(scene, "next");
    publish(scene);
    replace(scene);
    /* The answer is to a request from before there was a next key. */
    scene->count = keyring_list(scene->keyring, scene->key);
    assert_int_equal(keyring_published(scene->keyring, scene->key, 1, scene->now, &scene->err), 0);
    pass(scene, KEY_WAIT_MS);
    has(scene, "signing next");
}

SCENE_TEST(next_key__signs_two_minutes_after_publication)
{
    struct stat st;

    publish(scene);
    replace(scene);
    has(scene, "signing next");
    assert_int_equal(stat(scene->next, &st), 0);
    assert_int_equal(st.st_mode & 0777U, 0600);
    const struct key_entry first = scene->key[0];
    const struct key_entry second = scene->key[1];
    pass(scene, 10 * KEY_WAIT_MS); /* an unpublished key never signs */
    signs(scene, first.id);
    publish(scene);
    pass(scene, KEY_WAIT_MS - 1);
    publish(scene); /* again: that begins nothing anew */
    has(scene, "signing next");
    signs(scene, first.id);
    pass(scene, 1);
    has(scene, "signing retiring");
    signs(scene, second.id);
    assert_string_equal(scene->key[1].id, first.id);
    assert_int_equal(scene->key[1].due_ms, scene->now.now_ms + KEY_RETIRE_WAITS * KEY_WAIT_MS);
    assert_int_equal(stat(scene->file, &st), 0);
    assert_int_equal(st.st_mode & 0777U, 0600);
    open_again(scene);
    has(scene, "signing retiring");
    signs(scene, second.id);
    assert_int_equal(keyring_forget(scene->keyring, first.id, &scene->err), 0);
    has(scene, "signing");
    open_again(scene);
    has(scene, "signing");
}

/* No clock tells how long a process was away, so a start waits anew. */
SCENE_TEST(next_key__waits_anew_after_a_restart)
{
    publish(scene);
    replace(scene);
    publish(scene);
    pass(scene, KEY_WAIT_MS - 1);
    scene->now.wall_ms -= 3600 * 1000; /* the clock was set back, too */
    open_again(scene);
    has(scene, "signing next");
    const char *first = scene->key[0].id;
    signs(scene, first);
    pass(scene, 10 * KEY_WAIT_MS);
    has(scene, "signing next");
    publish(scene);
    pass(scene, KEY_WAIT_MS - 1);
    has(scene, "signing next");
    pass(scene, 1);
    has(scene, "signing retiring");
}

static void copy_file(const char *from, const char *to)
{
    CLEANUP(xfreep) char *bytes = NULL;
    size_t len;
    struct err err;

    assert_int_equal(file_read(from, 10000, &bytes, &len, &err), 0);
    (void)unlink(to);
    FILE *file = fopen(to, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(to, 0600), 0);
}

/* The crash is after the list was written and before the files were renamed. */
SCENE_TEST(keyring_open__completes_a_replacement_after_a_crash)
{
    char kept[120];

    (void)snprintf(kept, sizeof kept, "%s/kept", scene->folder);
    publish(scene);
    replace(scene);
    publish(scene);
    has(scene, "signing next");
    const struct key_entry second = scene->key[1];
    copy_file(scene->file, kept);
    pass(scene, KEY_WAIT_MS);
    /* The list is new, and the files are those of before. */
    assert_int_equal(rename(scene->file, scene->next), 0);
    assert_int_equal(rename(kept, scene->file), 0);
    open_again(scene);
    has(scene, "signing retiring");
    signs(scene, second.id);
}

SCENE_TEST(keyring_open__keeps_the_public_key_of_a_replaced_file)
{
    publish(scene);
    has(scene, "signing");
    const struct key_entry first = scene->key[0];
    assert_int_equal(unlink(scene->file), 0);
    for (int i = 0; i < 2; i++) {
        open_again(scene);
        has(scene, "next retiring");
        assert_string_equal(scene->key[1].id, first.id);
    }
    publish(scene);
    has(scene, "signing retiring");
}

SCENE_TEST(keyring_replace__refuses_a_second_next_key)
{
    assert_int_equal(keyring_replace(scene->keyring, scene->now, &scene->err), -ERR_CONFLICT);
    publish(scene);
    replace(scene);
    assert_int_equal(keyring_replace(scene->keyring, scene->now, &scene->err), -ERR_CONFLICT);
    assert_non_null(strstr(scene->err.text, "does not sign yet"));
    has(scene, "signing next");
}

SCENE_TEST(keyring_replace__refuses_more_than_keyring_max)
{
    publish(scene);
    for (int i = 1; i < KEYRING_MAX; i++) {
        replace(scene);
        publish(scene);
        pass(scene, KEY_WAIT_MS);
    }
    open_again(scene);
    assert_int_equal(keyring_list(scene->keyring, scene->key), KEYRING_MAX);
    assert_int_equal(keyring_replace(scene->keyring, scene->now, &scene->err), -ERR_CONFLICT);
    assert_non_null(strstr(scene->err.text, "15 former keys are still published"));
    assert_int_equal(keyring_forget(scene->keyring, scene->key[7].id, &scene->err), 0);
    replace(scene);
}

/* A folder in place of the list: nothing can be written there. */
static void block_list(struct scene *scene)
{
    (void)unlink(scene->list);
    assert_int_equal(mkdir(scene->list, 0700), 0);
}

static void unblock_list(struct scene *scene)
{
    assert_int_equal(rmdir(scene->list), 0);
}

SCENE_TEST(keyring__keeps_its_state_when_the_list_cannot_be_written)
{
    block_list(scene);
    scene->count = keyring_list(scene->keyring, scene->key);
    assert_true(keyring_published(scene->keyring, scene->key, 1, scene->now, &scene->err) < 0);
    has(scene, "next");
    unblock_list(scene);
    publish(scene);
    block_list(scene);
    assert_true(keyring_replace(scene->keyring, scene->now, &scene->err) < 0);
    has(scene, "signing");
    unblock_list(scene);
    replace(scene);
    publish(scene);
    block_list(scene);
    scene->now.now_ms += KEY_WAIT_MS;
    assert_true(keyring_step(scene->keyring, scene->now, &scene->err) < 0);
    has(scene, "signing next");
    unblock_list(scene);
    pass(scene, 0);
    has(scene, "signing retiring");
    block_list(scene);
    assert_true(keyring_forget(scene->keyring, scene->key[1].id, &scene->err) < 0);
    has(scene, "signing retiring");
    unblock_list(scene);
}

/* The file is in its place already then, and FILE.next is gone. */
SCENE_TEST(next_key__signs_only_after_its_move_is_synced)
{
    disk_install();
    publish(scene);
    replace(scene);
    publish(scene);
    const struct key_entry before = scene->key[0];
    const struct key_entry next = scene->key[1];
    scene->now.now_ms += KEY_WAIT_MS;
    disk_fail(DISK_SYNC, 1, SQLITE_IOERR, true); /* of the folder */
    for (int i = 0; i < 2; i++) {
        assert_true(keyring_step(scene->keyring, scene->now, &scene->err) < 0);
        assert_non_null(strstr(scene->err.text, "its folder cannot be written"));
        signs(scene, before.id);
    }
    disk_fail(0, 0, 0, false);
    pass(scene, 0);
    signs(scene, next.id);
    open_again(scene);
    signs(scene, next.id);
    has(scene, "signing retiring");
    replace(scene);
    publish(scene);
    pass(scene, KEY_WAIT_MS);
    has(scene, "signing retiring retiring");
}

SCENE_TEST(key_list__reports_the_line_that_cannot_be_read)
{
    static const char *const line[] = {
        "nonsense",
        "dead 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= 5\n",
        "signing 39f713d0a644253e PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= 5\n",
        "signing 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= 5 6\n",
        "signing 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= -5\n",
        "signing 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= \n",
        "signing 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n",
        "signing 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= 1234567890123456\n",
        "\n\n",
    };
    const struct keyring_rules rules = {scene->file, KEY_WAIT_MS};
    struct keyring *none = NULL;

    for (size_t i = 0; i < ARRAY_LEN(line); i++) {
        assert_int_equal(file_replace(scene->list, text_of(line[i]), &scene->err), 0);
        assert_int_equal(keyring_check(scene->file, &scene->err), -ERR_INVALID);
        assert_int_equal(keyring_open(&rules, scene->now, &none, &scene->err), -ERR_INVALID);
        assert_non_null(strstr(scene->err.text, "key.keys line 1: must be a state"));
    }
    const char *const good =
        "retiring 39f713d0a644253f PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw= 5\n";
    struct strbuf twice;
    strbuf_init(&twice);
    strbuf_str(&twice, good);
    strbuf_str(&twice, good);
    assert_int_equal(file_replace(scene->list, text_of(twice.data), &scene->err), 0);
    strbuf_done(&twice);
    assert_int_equal(keyring_check(scene->file, &scene->err), -ERR_INVALID);
    assert_non_null(strstr(scene->err.text, "key.keys line 2"));
    assert_int_equal(file_replace(scene->list, text_of(good), &scene->err), 0);
    assert_int_equal(keyring_check(scene->file, &scene->err), 0);
    open_again(scene);
    has(scene, "next retiring");
    assert_int_equal(scene->key[1].since_ms, 5);
}
