#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "milligpu/log.h"

#include "app/cluster_identity.h"
#include "store/store_internal.h"
#include "support/disk.h"

struct desk {
    struct app app;
    struct kube_ops ops;
    struct cluster_identity *identity;
    char folder[64];
    char path[96];
    int64_t now_ms;
};

static void desk_open(struct desk *desk)
{
    const struct store_rules rules = {.path = desk->path};
    struct err err;

    assert_int_equal(store_open(&rules, &desk->app.store, &err), 0);
}

static int setup(void **state)
{
    static struct desk desk;

    desk = (struct desk){.now_ms = 1000000};
    log_set(LOG_ERROR, false);
    disk_install();
    (void)snprintf(desk.folder, sizeof desk.folder, "/tmp/milligpu-claim-XXXXXX");
    assert_non_null(mkdtemp(desk.folder));
    (void)snprintf(desk.path, sizeof desk.path, "%s/ledger.db", desk.folder);
    desk_open(&desk);
    desk.app.server = "test";
    desk.app.wake_namespace = "milligpu";
    desk.app.fake = fake_apiserver_new("claim");
    fake_apiserver_ops(desk.app.fake, &desk.ops);
    desk.identity = cluster_identity_new(&desk.app, &desk.ops);
    *state = &desk;
    return 0;
}

static int teardown(void **state)
{
    struct desk *desk = *state;
    char lock[112];

    cluster_identity_free(desk->identity);
    desk->ops.free(desk->ops.ctx);
    fake_apiserver_free(desk->app.fake);
    store_close(desk->app.store);
    disk_clear();
    (void)snprintf(lock, sizeof lock, "%s.lock", desk->path);
    (void)unlink(lock);
    (void)unlink(desk->path);
    return rmdir(desk->folder);
}

static void deliver(void *user, const struct kube_answer *answer)
{
    struct desk *desk = user;
    cluster_identity_answer(desk->identity, desk->now_ms, answer);
}

static void try_once(struct desk *desk)
{
    desk->now_ms += 1000;
    (void)cluster_identity_step(desk->identity, desk->now_ms);
    for (int i = 0; i < 10; i++)
        desk->ops.poll(desk->ops.ctx, 0, desk, deliver);
}

/* For the uid, and for the wake-up object. */
static void try_twice(struct desk *desk)
{
    try_once(desk);
    try_once(desk);
}

static void a_new_ledger_is_given_to_the_first_cluster(void **state)
{
    struct desk *desk = *state;

    try_twice(desk);
    assert_true(cluster_identity_done(desk->identity));
    assert_true(atomic_load(&desk->app.claimed));
    assert_true(atomic_load(&desk->app.new_ledger)); /* until its first lists are in */
    assert_false(atomic_load(&desk->app.wake_object_existed));
}

/* As after a start: nothing but the ledger and the cluster is what it was. */
static void start_again(struct desk *desk)
{
    cluster_identity_free(desk->identity);
    atomic_store(&desk->app.claimed, false);
    atomic_store(&desk->app.new_ledger, false);
    atomic_store(&desk->app.wake_object_existed, false);
    desk->identity = cluster_identity_new(&desk->app, &desk->ops);
}

static void whoever_finds_the_wake_up_object_is_not_the_first(void **state)
{
    struct desk *desk = *state;

    try_twice(desk);
    start_again(desk);
    try_twice(desk);
    assert_true(cluster_identity_done(desk->identity));
    assert_true(atomic_load(&desk->app.new_ledger));
    assert_true(atomic_load(&desk->app.wake_object_existed));
}

static void a_ledger_of_this_cluster_asks_for_no_wake_up_object(void **state)
{
    struct desk *desk = *state;
    struct err err;

    try_twice(desk);
    assert_int_equal(store_set_cluster(desk->app.store, desk->app.cluster, &err), 0);
    start_again(desk);
    try_once(desk);
    assert_true(cluster_identity_done(desk->identity));
    assert_false(atomic_load(&desk->app.new_ledger));
    assert_false(atomic_load(&desk->app.wake_object_existed));
}

/* Answer the POST of the wake-up object by this, not by the fake API server. */
static void wake_object_answer(struct desk *desk, int status)
{
    struct err err = {.code = ERR_IO, .text = "cut"};
    const uint64_t id = (uint64_t)3 << 32;

    desk->now_ms += 1000;
    (void)cluster_identity_step(desk->identity, desk->now_ms);
    desk->ops.cancel(desk->ops.ctx, id);
    if (status == 0) {
        cluster_identity_answer(desk->identity, desk->now_ms,
                                &(struct kube_answer){.id = id, .piece = KUBE_FAILED, .err = &err});
        return;
    }
    cluster_identity_answer(desk->identity, desk->now_ms,
                            &(struct kube_answer){.id = id, .piece = KUBE_HEAD, .status = status});
    cluster_identity_answer(desk->identity, desk->now_ms,
                            &(struct kube_answer){.id = id, .piece = KUBE_DONE, .status = status});
}

static void who_may_not_create_the_wake_up_object_assumes_one_before(void **state)
{
    struct desk *desk = *state;

    try_once(desk);
    wake_object_answer(desk, 403);
    assert_true(cluster_identity_done(desk->identity));
    assert_true(atomic_load(&desk->app.wake_object_existed));
    start_again(desk);
    try_once(desk);
    wake_object_answer(desk, 404); /* the namespace is not there */
    assert_true(cluster_identity_done(desk->identity));
    assert_true(atomic_load(&desk->app.wake_object_existed));
}

static void the_wake_up_object_is_tried_until_there_is_an_answer(void **state)
{
    static const int status[] = {0, 401, 429, 500, 503};
    struct desk *desk = *state;

    try_once(desk);
    for (size_t i = 0; i < ARRAY_LEN(status); i++) {
        wake_object_answer(desk, status[i]);
        assert_false(cluster_identity_done(desk->identity));
        assert_false(atomic_load(&desk->app.claimed));
    }
    try_once(desk);
    assert_true(cluster_identity_done(desk->identity));
    assert_false(atomic_load(&desk->app.wake_object_existed));
}

static void the_ledger_of_another_cluster_is_refused_for_good(void **state)
{
    struct desk *desk = *state;
    struct err err;

    assert_int_equal(store_set_cluster(desk->app.store, "somebody-else", &err), 0);
    try_once(desk);
    assert_true(cluster_identity_refused(desk->identity, &err));
    assert_int_equal(err.code, ERR_FOREIGN);
}

static void a_disk_that_cannot_be_read_is_no_other_cluster(void **state)
{
    struct desk *desk = *state;
    struct err err;

    (void)sqlite3_db_release_memory(desk->app.store->db); /* what it has read it need not read */
    disk_fail(DISK_READ, 1, SQLITE_IOERR, true);
    try_once(desk);
    assert_false(cluster_identity_refused(desk->identity, &err));
    assert_false(cluster_identity_done(desk->identity));
    assert_true(atomic_load(&desk->app.disk_broken));
    disk_fail(0, 0, SQLITE_OK, false);
    try_twice(desk);
    assert_true(cluster_identity_done(desk->identity));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_ledger_is_given_to_the_first_cluster),
        TEST(whoever_finds_the_wake_up_object_is_not_the_first),
        TEST(a_ledger_of_this_cluster_asks_for_no_wake_up_object),
        TEST(who_may_not_create_the_wake_up_object_assumes_one_before),
        TEST(the_wake_up_object_is_tried_until_there_is_an_answer),
        TEST(the_ledger_of_another_cluster_is_refused_for_good),
        TEST(a_disk_that_cannot_be_read_is_no_other_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
