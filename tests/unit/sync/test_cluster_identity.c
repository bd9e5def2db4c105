#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/log.h"
#include "milligpu/sync/cluster_identity.h"

#include "store/store_internal.h"
#include "support/disk.h"
#include "support/test.h"

struct identity_fixture {
    struct app app;
    struct kube_ops ops;
    struct cluster_identity *identity;
    char folder[64];
    char path[96];
    int64_t now_ms;
};

static void api_fixture_open(struct identity_fixture *fixture)
{
    const struct store_rules rules = {.path = fixture->path};
    struct err err;

    assert_int_equal(store_open(&rules, &fixture->app.store, &err), 0);
}

static int setup(void **state)
{
    static struct identity_fixture fixture;

    fixture = (struct identity_fixture){.now_ms = 1000000};
    log_set(LOG_ERROR, false);
    disk_install();
    (void)snprintf(fixture.folder, sizeof fixture.folder, "/tmp/milligpu-claim-XXXXXX");
    assert_non_null(mkdtemp(fixture.folder));
    (void)snprintf(fixture.path, sizeof fixture.path, "%s/ledger.db", fixture.folder);
    api_fixture_open(&fixture);
    fixture.app.instance.server = "test";
    fixture.app.instance.wake_namespace = "milligpu";
    fixture.app.fake = fake_apiserver_new("claim");
    fake_apiserver_ops(fixture.app.fake, &fixture.ops);
    fixture.identity = cluster_identity_new(&fixture.app, &fixture.ops);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct identity_fixture *fixture = *state;
    char beside[112];

    cluster_identity_free(fixture->identity);
    fixture->ops.free(fixture->ops.ctx);
    fake_apiserver_free(fixture->app.fake);
    store_close(fixture->app.store);
    disk_clear();
    (void)snprintf(beside, sizeof beside, "%s.lock", fixture->path);
    (void)unlink(beside);
    (void)snprintf(beside, sizeof beside, "%s.id", fixture->path);
    (void)unlink(beside);
    (void)unlink(fixture->path);
    return rmdir(fixture->folder);
}

#define IDENTITY_TEST(name) TEST_WITH(name, struct identity_fixture *fixture, setup, teardown)

static void deliver(void *user, const struct kube_answer *answer)
{
    struct identity_fixture *fixture = user;
    cluster_identity_answer(fixture->identity, fixture->now_ms, answer);
}

static void try_once(struct identity_fixture *fixture)
{
    fixture->now_ms += 1000;
    (void)cluster_identity_step(fixture->identity, fixture->now_ms);
    for (int i = 0; i < 10; i++)
        fixture->ops.poll(fixture->ops.ctx, 0, fixture, deliver);
}

/* One step for the uid, one for the wake-up object. */
static void try_twice(struct identity_fixture *fixture)
{
    try_once(fixture);
    try_once(fixture);
}

/* The ledger is new until the first lists are in. */
static void assert_done(struct identity_fixture *fixture, bool new_ledger, bool object_existed)
{
    assert_true(cluster_identity_done(fixture->identity));
    assert_int_equal(atomic_load(&fixture->app.grace.new_ledger), new_ledger);
    assert_int_equal(atomic_load(&fixture->app.grace.wake_object_existed), object_existed);
}

IDENTITY_TEST(identity__gives_a_new_ledger_to_the_first_cluster)
{
    try_twice(fixture);
    assert_done(fixture, true, false);
    assert_true(atomic_load(&fixture->app.identified));
}

/* As after a restart: only the ledger and the cluster are what they were. */
static void start_again(struct identity_fixture *fixture)
{
    cluster_identity_free(fixture->identity);
    atomic_store(&fixture->app.identified, false);
    atomic_store(&fixture->app.grace.new_ledger, false);
    atomic_store(&fixture->app.grace.wake_object_existed, false);
    fixture->identity = cluster_identity_new(&fixture->app, &fixture->ops);
}

IDENTITY_TEST(identity__reports_an_existing_wake_up_object)
{
    try_twice(fixture);
    start_again(fixture);
    try_twice(fixture);
    assert_done(fixture, true, true);
}

IDENTITY_TEST(identity__creates_no_wake_up_object_for_a_known_ledger)
{
    struct err err;

    try_twice(fixture);
    assert_int_equal(store_set_cluster(fixture->app.store, fixture->app.instance.cluster, &err), 0);
    start_again(fixture);
    try_once(fixture);
    assert_done(fixture, false, false);
}

/* Answers the POST of the wake-up object with this status, in place of the fake API server. */
static void wake_object_answer(struct identity_fixture *fixture, int status)
{
    struct err err = {.code = ERR_IO, .text = "cut"};
    const uint64_t id = (uint64_t)3 << 32;

    fixture->now_ms += 1000;
    (void)cluster_identity_step(fixture->identity, fixture->now_ms);
    fixture->ops.cancel(fixture->ops.ctx, id);
    if (status == 0) {
        cluster_identity_answer(fixture->identity, fixture->now_ms,
                                &(struct kube_answer){.id = id, .piece = KUBE_FAILED, .err = &err});
        return;
    }
    cluster_identity_answer(fixture->identity, fixture->now_ms,
                            &(struct kube_answer){.id = id, .piece = KUBE_HEAD, .status = status});
    cluster_identity_answer(fixture->identity, fixture->now_ms,
                            &(struct kube_answer){.id = id, .piece = KUBE_DONE, .status = status});
}

IDENTITY_TEST(identity__assumes_an_earlier_object_when_it_cannot_create_one)
{
    try_once(fixture);
    wake_object_answer(fixture, 403);
    assert_done(fixture, true, true);
    start_again(fixture);
    try_once(fixture);
    wake_object_answer(fixture, 404); /* the namespace does not exist */
    assert_done(fixture, true, true);
}

IDENTITY_TEST(identity__retries_the_wake_up_object_until_it_is_answered)
{
    static const int status[] = {0, 401, 429, 500, 503};

    try_once(fixture);
    for (size_t i = 0; i < ARRAY_LEN(status); i++) {
        wake_object_answer(fixture, status[i]);
        assert_false(cluster_identity_done(fixture->identity));
        assert_false(atomic_load(&fixture->app.identified));
    }
    try_once(fixture);
    assert_done(fixture, true, false);
}

IDENTITY_TEST(identity__waits_for_a_backup_without_a_wake_up_object)
{
    struct err err;

    try_twice(fixture);
    assert_int_equal(store_set_cluster(fixture->app.store, fixture->app.instance.cluster, &err), 0);
    assert_int_equal(db_exec(fixture->app.store->db, "UPDATE meta SET is_copy = 1", &err), 0);
    start_again(fixture);
    try_once(fixture);
    assert_done(fixture, true, true);
    assert_true(atomic_load(&fixture->app.grace.restored_ledger));
}

IDENTITY_TEST(identity__refuses_the_ledger_of_another_cluster)
{
    struct err err;

    assert_int_equal(store_set_cluster(fixture->app.store, "somebody-else", &err), 0);
    try_once(fixture);
    assert_true(cluster_identity_refused(fixture->identity, &err));
    assert_int_equal(err.code, ERR_FOREIGN);
}

IDENTITY_TEST(identity__retries_a_disk_that_cannot_be_read)
{
    struct err err;

    (void)sqlite3_db_release_memory(fixture->app.store->db); /* drop its cache: it must read */
    disk_fail(DISK_READ, 1, SQLITE_IOERR, true);
    try_once(fixture);
    assert_false(cluster_identity_refused(fixture->identity, &err));
    assert_false(cluster_identity_done(fixture->identity));
    assert_true(atomic_load(&fixture->app.health.disk_broken));
    disk_fail(0, 0, SQLITE_OK, false);
    try_twice(fixture);
    assert_true(cluster_identity_done(fixture->identity));
}

/* --- asked once, before there is a ledger --- */

/* A kube_ops with one answer. */
struct one_answer {
    int status; /* 0: the request fails */
    const char *body;
    uint64_t id;
    int64_t timeout_ms;
    unsigned requests;
    unsigned cancelled;
};

static int one_start(void *ctx, const struct kube_request *request, struct err *err)
{
    struct one_answer *one = ctx;

    (void)err;
    assert_string_equal(request->method, "GET");
    assert_string_equal(request->path, "/api/v1/namespaces/kube-system");
    one->id = request->id;
    one->timeout_ms = request->timeout_ms;
    one->requests++;
    return 0;
}

static void one_cancel(void *ctx, uint64_t id)
{
    struct one_answer *one = ctx;

    assert_int_equal(id, one->id);
    one->cancelled++;
}

static void one_poll(void *ctx, int64_t wait_ms, void *user,
                     void (*give)(void *user, const struct kube_answer *answer))
{
    const struct one_answer *one = ctx;
    const struct err cut = {.code = ERR_TIMEOUT, .text = "no byte arrived"};

    (void)wait_ms;
    if (one->status == 0) {
        give(user, &(struct kube_answer){.id = one->id, .piece = KUBE_FAILED, .err = &cut});
        return;
    }
    give(user, &(struct kube_answer){.id = one->id, .piece = KUBE_HEAD, .status = one->status});
    give(user,
         &(struct kube_answer){
             .id = one->id, .piece = KUBE_DATA, .status = one->status, .data = text_of(one->body)});
    give(user, &(struct kube_answer){.id = one->id, .piece = KUBE_DONE, .status = one->status});
}

static const char *one_name(void *ctx)
{
    (void)ctx;
    return "https://api:6443";
}

static int ask(struct one_answer *one, char uid[UID_BYTES_MAX + 1], struct err *err)
{
    const struct kube_ops ops = {
        .ctx = one, .start = one_start, .cancel = one_cancel, .poll = one_poll, .name = one_name};
    const int failed = cluster_identity_ask(&ops, uid, err);

    /* One request with a bound, and nothing in flight afterwards. */
    assert_int_equal(one->requests, 1);
    assert_int_equal(one->timeout_ms, 5000);
    assert_int_equal(one->cancelled, 1);
    return failed;
}

IDENTITY_TEST(ask__returns_the_uid_of_the_ledger)
{
    char uid[UID_BYTES_MAX + 1] = "";
    struct err err;

    assert_int_equal(cluster_identity_ask(&fixture->ops, uid, &err), 0);
    try_twice(fixture);
    assert_true(uid[0] != '\0');
    assert_string_equal(uid, fixture->app.instance.cluster);
}

#define UID_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(ask__limits_the_length_of_the_uid)
{
    struct one_answer longest = {.status = 200,
                                 .body = "{\"metadata\":{\"uid\":\"" UID_64 UID_64 "\"}}"};
    struct one_answer longer = {.status = 200,
                                .body = "{\"metadata\":{\"uid\":\"" UID_64 UID_64 "0\"}}"};
    char uid[UID_BYTES_MAX + 1] = "";
    struct err err;

    assert_int_equal(ask(&longest, uid, &err), 0);
    assert_string_equal(uid, UID_64 UID_64);
    assert_int_equal(ask(&longer, uid, &err), -(int)ERR_UNAVAILABLE);
}

TEST(ask__names_the_request_and_the_remedy_on_error)
{
    static const struct {
        int status;
        const char *body;
        enum err_code code;
        const char *words;
        const char *remedy;
    } row[] = {
        {0, "", ERR_UNAVAILABLE, "no byte arrived", "start milligpud again"},
        {401, "{}", ERR_UNAUTHORIZED, "HTTP 401", "credentials that the API server accepts"},
        {403, "{}", ERR_FORBIDDEN, "HTTP 403", "allow milligpud to get the namespace kube-system"},
        {404, "not here", ERR_UNAVAILABLE, "HTTP 404: not here", "start milligpud again"},
        {503, "soon", ERR_UNAVAILABLE, "HTTP 503: soon", "start milligpud again"},
        {200, "nonsense", ERR_UNAVAILABLE, "", "start milligpud again"},
        {200, "{\"metadata\":{\"uid\":\"\"}}", ERR_UNAVAILABLE, "no usable uid",
         "start milligpud again"},
        /* A uid in an answer that is a refusal is no uid. */
        {500, "{\"metadata\":{\"uid\":\"u\"}}", ERR_UNAVAILABLE, "HTTP 500",
         "start milligpud again"},
    };

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct one_answer one = {.status = row[i].status, .body = row[i].body};
        char uid[UID_BYTES_MAX + 1] = "";
        struct err err = {0};

        assert_int_equal(ask(&one, uid, &err), -(int)row[i].code);
        assert_non_null(strstr(err.text, "GET https://api:6443/api/v1/namespaces/kube-system: "));
        if (strstr(err.text, row[i].words) == NULL || strstr(err.text, row[i].remedy) == NULL)
            fail_msg("HTTP %d: %s", row[i].status, err.text);
        assert_string_equal(uid, "");
    }
}
