/*
 * The learned workload is kept in the ledger: stored as a whole, restored as it was, or refused
 * with the row and the right values. The ledger's checks do not look at it.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/store_checks.h"
#include "support/test.h"
#include "unit/store/support_shelf.h"

static void tally_freep(struct tally **tally)
{
    tally_free(*tally);
}

static void count(struct tally *tally, const struct want *want, const struct request *shape)
{
    struct want one = *want;
    struct request request = *shape;

    one.container = "c";
    request.n_wants = 1;
    request.want = &one;
    tally_count(tally, &request);
}

/* Nine classes, three of them with models, and as many pods. */
static struct tally *a_tally(void)
{
    const char *models[] = {"A100-SXM4-80GB", "H100*"};
    struct tally *tally = tally_new();

    count(tally, &(struct want){.parts = 1, .milli = 300}, &(struct request){0});
    count(tally, &(struct want){.parts = 2, .milli = 1},
          &(struct request){.host = {1, 2}, .memory_mib = 3});
    count(tally, &(struct want){.parts = 64, .milli = 1000},
          &(struct request){.host = {UINT32_MAX, UINT32_MAX}, .memory_mib = UINT32_MAX});
    count(tally, &(struct want){.parts = 1, .milli = 300},
          &(struct request){.n_models = 2, .model = models});
    count(tally, &(struct want){.parts = 1, .milli = 300},
          &(struct request){.n_models = 1, .model = models});
    count(tally, &(struct want){.parts = 1, .milli = 500},
          &(struct request){.n_models = 1, .model = models + 1});
    return tally;
}

static void learn(struct shelf *shelf, const struct tally *tally, int64_t until_ms)
{
    struct err err;

    if (shelf->ops.learn(shelf->ops.ctx, tally, until_ms, &err) < 0)
        fail_msg("%s", err.text);
}

static void assert_same(const struct tally *is, const struct tally *should)
{
    assert_non_null(is);
    assert_int_equal(tally_pods(is), tally_pods(should));
    assert_int_equal(tally_classes(is), tally_classes(should));
    for (uint32_t i = 0; i < tally_classes(is); i++) {
        const struct workload_class *a = tally_class(is, i);
        const struct workload_class *b = tally_class(should, i);
        assert_true(workload_alike(a, b));
        assert_int_equal(a->count, b->count);
    }
}

static void assert_learned(struct store *store, const struct tally *should, int64_t until_ms)
{
    CLEANUP(tally_freep) struct tally *is = NULL;
    int64_t until = -1;
    struct err err;

    if (store_learned(store, &is, &until, &err) < 0)
        fail_msg("%s", err.text);
    assert_same(is, should);
    assert_int_equal(until, until_ms);
}

static void assert_refused(struct shelf *shelf, const char *what, const char *says)
{
    struct tally *is = NULL;
    int64_t until_ms;
    struct err err = {0};

    const int failed = store_learned(shelf->store, &is, &until_ms, &err);
    if (failed != -(int)ERR_CORRUPT || strstr(err.text, says) == NULL ||
        strstr(err.text, "the learned workload: ") == NULL ||
        strncmp(err.text, shelf->path, strlen(shelf->path)) != 0)
        fail_msg("%s: %d, %s", what, failed, err.text);
    assert_null(is);
}

/* --- storing --- */

SHELF_TEST(learned__is_absent_in_a_new_ledger)
{
    struct tally *tally = (struct tally *)shelf;
    int64_t until_ms;
    struct err err;

    assert_int_equal(store_learned(shelf->store, &tally, &until_ms, &err), 0);
    assert_null(tally);
}

SHELF_TEST(learned__restores_classes_in_their_order)
{
    CLEANUP(tally_freep) struct tally *tally = a_tally();

    learn(shelf, tally, 1793491200000);
    assert_learned(shelf->store, tally, 1793491200000);
    shelf_turn(shelf);
    assert_learned(shelf->store, tally, 1793491200000);
    assert_learned(shelf->store, tally, 1793491200000); /* as often as one likes */
}

SHELF_TEST(learned__outlives_a_kill_and_is_in_a_backup)
{
    struct shelf copy;
    CLEANUP(tally_freep) struct tally *tally = a_tally();

    learn(shelf, tally, 5);
    shelf_open_killed(shelf, &copy);
    assert_learned(copy.store, tally, 5);
    shelf_done(&copy);
    shelf_open_backup(shelf, &copy);
    assert_learned(copy.store, tally, 5);
    shelf_done(&copy);
}

SHELF_TEST(learned__restored_tally_goes_on_learning)
{
    CLEANUP(tally_freep) struct tally *tally = a_tally();
    CLEANUP(tally_freep) struct tally *restored = NULL;
    int64_t until_ms;
    struct err err;

    learn(shelf, tally, 5);
    assert_int_equal(store_learned(shelf->store, &restored, &until_ms, &err), 0);
    for (uint32_t i = 0; i < TALLY_HALF; i++) {
        const struct want want = {.parts = 1 + i % 3, .milli = 1000};
        count(tally, &want, &(struct request){0});
        count(restored, &want, &(struct request){0});
    }
    assert_same(restored, tally);
    learn(shelf, restored, 6);
    assert_learned(shelf->store, tally, 6);
}

SHELF_TEST(learned__takes_any_time_and_number_of_pods)
{
    static const int64_t number[] = {0, 1, INT64_MAX};
    static const int64_t time[] = {INT64_MIN, 0, INT64_MAX};
    const struct workload_class class = {.parts = 1, .milli = 1, .count = 1};
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(number); i++) {
        const struct tally_rows rows = {
            .pods = (uint64_t)number[i], .n_classes = 1, .class = &class};
        CLEANUP(tally_freep) struct tally *tally = NULL;
        assert_int_equal(tally_restore(&rows, &tally, &err), 0);
        learn(shelf, tally, time[i]);
        assert_learned(shelf->store, tally, time[i]);
    }
}

SHELF_TEST(learned__keeps_a_model_to_the_letter)
{
    static const char *const odd[] = {
        "",           " ",       "\"",   "\\", "\\\"]", "[\"x\"]", "',--", "\x01\x1f\x7f",
        "\t\n\r\b\f", "\\u0041", "null", "*",  "Ж",     "表",      "😀",    "\u2028\u202e\ufeff",
        "e\u0301",
    };
    enum { MODELS = 60 };
    char text[MODELS][160];
    const char *model[MODELS];
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    for (uint32_t i = 0; i < MODELS; i++) {
        (void)snprintf(text[i], sizeof text[i], "%s%0*u", odd[i % ARRAY_LEN(odd)], (int)(2 * i), i);
        model[i] = i < ARRAY_LEN(odd) ? odd[i] : text[i];
    }
    for (uint32_t i = 0; i < MODELS; i++)
        count(tally, &(struct want){.parts = 1, .milli = 1},
              &(struct request){.n_models = 1, .model = &model[i]});
    count(tally, &(struct want){.parts = 1, .milli = 1},
          &(struct request){.n_models = MODELS, .model = model});
    learn(shelf, tally, 0);
    assert_learned(shelf->store, tally, 0);
    shelf_turn(shelf);
    assert_learned(shelf->store, tally, 0);
}

SHELF_TEST(learned__takes_as_many_classes_as_there_can_be)
{
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    for (uint32_t i = 0; i < 2 * WORKLOAD_CLASSES_MAX; i++)
        count(tally, &(struct want){.parts = 1, .milli = 1}, &(struct request){.memory_mib = i});
    assert_int_equal(tally_classes(tally), WORKLOAD_CLASSES_MAX);
    learn(shelf, tally, 0);
    assert_learned(shelf->store, tally, 0);
    shelf_spoil(shelf, "INSERT INTO class SELECT 512, 7, memory_mib, parts, milli, share_mib,"
                       " models, weight FROM class WHERE place = 0");
    assert_refused(shelf, "one more", "513 classes: 1 to 512 would be right");
    shelf_spoil(shelf, "INSERT INTO class SELECT 513, 8, memory_mib, parts, milli, share_mib,"
                       " models, weight FROM class WHERE place = 0");
    assert_refused(shelf, "two more", "513 classes: 1 to 512 would be right");
}

SHELF_TEST(learned__works_in_a_ledger_in_memory)
{
    CLEANUP(tally_freep) struct tally *tally = a_tally();

    shelf_close(shelf);
    shelf->rules.path = ":memory:";
    shelf_open(shelf);
    learn(shelf, tally, 7);
    assert_learned(shelf->store, tally, 7);
}

/* --- it is replaced --- */

SHELF_TEST(learned__is_replaced_as_a_whole)
{
    CLEANUP(tally_freep) struct tally *first = a_tally();
    CLEANUP(tally_freep) struct tally *second = tally_new();

    learn(shelf, first, 1);
    learn(shelf, second, 2);
    assert_learned(shelf->store, second, 2);
    assert_sql(shelf, "SELECT count(*) FROM class", 6);
    learn(shelf, first, 3);
    assert_learned(shelf->store, first, 3);
}

/* A trigger stands for any reason of SQLite to refuse a row. */
SHELF_TEST(learned__keeps_the_former_when_a_write_fails)
{
    static const char *const refusing[] = {
        "BEFORE DELETE ON class",
        "BEFORE DELETE ON learned",
        "BEFORE INSERT ON learned",
        "BEFORE INSERT ON class WHEN NEW.place = 0",
        "BEFORE INSERT ON class WHEN NEW.place = 5",
    };
    CLEANUP(tally_freep) struct tally *first = a_tally();
    CLEANUP(tally_freep) struct tally *second = tally_new();

    learn(shelf, first, 1);
    for (size_t i = 0; i < ARRAY_LEN(refusing); i++) {
        struct err err;
        shelf_refuse(shelf, refusing[i]);
        assert_true(shelf->ops.learn(shelf->ops.ctx, second, 2, &err) < 0);
        assert_non_null(strstr(err.text, "no"));
        assert_learned(shelf->store, first, 1);
        shelf_allow(shelf);
    }
    shelf_turn(shelf);
    assert_learned(shelf->store, first, 1);
    learn(shelf, second, 2);
    assert_learned(shelf->store, second, 2);
}

SHELF_TEST(learned__writes_nothing_while_a_reader_holds_the_log)
{
    struct err err;
    CLEANUP(tally_freep) struct tally *first = a_tally();
    CLEANUP(tally_freep) struct tally *second = tally_new();

    learn(shelf, first, 1);
    shelf->store->limits.wal_max = 0;
    assert_int_equal(shelf->ops.learn(shelf->ops.ctx, second, 2, &err), -(int)ERR_FULL);
    assert_learned(shelf->store, first, 1);
}

/* --- it is input from outside --- */

SHELF_TEST(learned__names_a_row_that_no_tally_contains)
{
    static const struct {
        const char *sql;
        const char *says;
    } wrong[] = {
        {"DELETE FROM learned", "classes without a row in table learned: one would be right"},
        {"INSERT INTO learned VALUES (2, 0, 0)", "several rows in table learned: one would"},
        {"UPDATE learned SET pods = -1", "table learned: pods: a number from 0 on would be right"},
        {"DELETE FROM class", "0 classes: 1 to 512 would be right"},
        {"DELETE FROM class WHERE place = 0", "class 1: place: 0 would be right"},
        {"DELETE FROM class WHERE place = 7", "class 8: place: 7 would be right"},
        {"UPDATE class SET place = -1 WHERE place = 0", "class -1: place: 0 would be right"},
        {"UPDATE class SET cpu_milli = -1 WHERE place = 3",
         "class 3: cpu_milli: 0 to 4294967295 would be right"},
        {"UPDATE class SET memory_mib = 4294967296 WHERE place = 3",
         "class 3: memory_mib: 0 to 4294967295 would be right"},
        {"UPDATE class SET parts = 0 WHERE place = 3", "class 3: parts: 1 to 64 would be right"},
        {"UPDATE class SET parts = 65 WHERE place = 3", "class 3: parts: 1 to 64 would be right"},
        {"UPDATE class SET milli = 0 WHERE place = 4", "class 4: milli: 1 to 1000 would be right"},
        {"UPDATE class SET milli = 1001 WHERE place = 4",
         "class 4: milli: 1 to 1000 would be right"},
        {"UPDATE class SET share_mib = 4294967296 WHERE place = 3",
         "class 3: share_mib: 0 to 4294967295 would be right"},
        {"UPDATE class SET weight = 0 WHERE place = 3",
         "class 3: weight: 1 to 131072 would be right"},
        {"UPDATE class SET weight = 131073 WHERE place = 3",
         "class 3: weight: 1 to 131072 would be right"},
        {"UPDATE class SET weight = 131072 WHERE place = 3", "the weights add up to"},
        {"UPDATE class SET milli = 500 WHERE place = 0", "class 1 is like class 0"},
        {"UPDATE class SET models = '' WHERE place = 3", "class 3: models: a JSON array of texts"},
        {"UPDATE class SET models = 'A100' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[\"a\"' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '\"a\"' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = 'null' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '{\"a\":\"b\"}' WHERE place = 3", "class 3: models: a JSON"},
        {"UPDATE class SET models = '[\"a\",1]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[null]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[true]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[[\"a\"]]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[{}]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[ \"a\"]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[\"\\ud800\"]' WHERE place = 3", "class 3: models: a JSON"},
        {"UPDATE class SET models = '[\"a\",]' WHERE place = 3", "class 3: models: a JSON array"},
        {"UPDATE class SET models = CAST(x'5b22ff225d' AS TEXT) WHERE place = 3",
         "class 3: models: a JSON array"},
        {"UPDATE class SET models = '[\"a\\u0000b\"]' WHERE place = 3", "class 3: models: a JSON"},
        {"UPDATE class SET models = CAST(x'5b226100225d' AS TEXT) WHERE place = 3",
         "class 3: models: a JSON array"},
        {"UPDATE class SET models = CAST(x'5b5d005b5d' AS TEXT) WHERE place = 3",
         "class 3: models: a JSON array"},
        {"UPDATE class SET models = printf('[\"%.*c\"]', 65533, 'x') WHERE place = 3",
         "class 3: models: a JSON array of texts, of at most 65536 bytes, would be right"},
    };
    CLEANUP(tally_freep) struct tally *tally = a_tally();

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        learn(shelf, tally, 1); /* it also mends the row before */
        assert_learned(shelf->store, tally, 1);
        shelf_spoil(shelf, wrong[i].sql);
        assert_refused(shelf, wrong[i].sql, wrong[i].says);
        assert_refused(shelf, wrong[i].sql, wrong[i].says);
    }
}

SHELF_TEST(learned__takes_the_longest_models)
{
    struct err err;
    CLEANUP(tally_freep) struct tally *tally = tally_new();
    CLEANUP(tally_freep) struct tally *longer = tally_new();
    CLEANUP(xfreep) char *text = xmalloc(65536);
    const char *model = text;

    memset(text, 'x', 65532);
    text[65532] = '\0';
    count(tally, &(struct want){.parts = 1, .milli = 1},
          &(struct request){.n_models = 1, .model = &model});
    learn(shelf, tally, 1);
    assert_learned(shelf->store, tally, 1);
    text[65532] = 'x';
    text[65533] = '\0';
    count(longer, &(struct want){.parts = 1, .milli = 1},
          &(struct request){.n_models = 1, .model = &model});
    assert_int_equal(shelf->ops.learn(shelf->ops.ctx, longer, 2, &err), -(int)ERR_CONFLICT);
    assert_non_null(strstr(err.text, "class 6"));
    assert_learned(shelf->store, tally, 1);
}

/* As many as 65536 bytes of JSON can name. */
SHELF_TEST(learned__takes_the_most_models)
{
    enum { MOST = (65536 - 1) / 3 };
    static const char *model[MOST];
    CLEANUP(tally_freep) struct tally *tally = tally_new();

    for (size_t i = 0; i < MOST; i++)
        model[i] = "";
    count(tally, &(struct want){.parts = 1, .milli = 1},
          &(struct request){.n_models = MOST, .model = model});
    learn(shelf, tally, 1);
    assert_learned(shelf->store, tally, 1);
}

/* The workload orders placements only: no allocation depends on it. */
SHELF_TEST(learned__with_a_contradiction_does_not_make_the_ledger_corrupt)
{
    static const char *const wrong[] = {
        "DELETE FROM learned",
        "DELETE FROM class WHERE place = 2",
        "UPDATE class SET weight = 131072 WHERE place = 3",
        "UPDATE class SET models = '[1]' WHERE place = 3",
    };
    CLEANUP(tally_freep) struct tally *tally = a_tally();

    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char uid[16];
        learn(shelf, tally, 1);
        shelf_spoil(shelf, wrong[i]);
        shelf_turn(shelf);
        assert_refused(shelf, wrong[i], "would be right");
        (void)snprintf(uid, sizeof uid, "pod-%zu", i);
        assert_int_equal(core_reserve(core, uid, "n1", "100"), VERDICT_OK);
        shelf_save_and_turn(shelf);
    }
}

/* --- it is no part of the ledger's present --- */

SHELF_TEST(learned__is_not_in_the_journal)
{
    CLEANUP(tally_freep) struct tally *tally = a_tally();
    struct store_facts before, after;
    struct err err;

    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    const uint64_t newest = store_newest(shelf->store);
    assert_int_equal(store_facts(shelf->store, &before, &err), 0);
    learn(shelf, tally, 1);
    assert_int_equal(store_newest(shelf->store), newest);
    assert_int_equal(store_facts(shelf->store, &after, &err), 0);
    assert_int_equal(after.journal_rows, before.journal_rows);
    assert_int_equal(store_replay_check(shelf->store, &err), 0);
    (void)core_reserve(core, "a", "n1", "100");
    shelf_save(shelf);
    assert_int_equal(store_newest(shelf->store), newest + 1);
    shelf_turn(shelf);
    assert_learned(shelf->store, tally, 1);
}

SHELF_TEST(learned__is_not_compared_with_memory)
{
    CLEANUP(tally_freep) struct tally *tally = a_tally();
    struct store_read *look = NULL;
    enum store_check which;
    struct err err;

    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    learn(shelf, tally, 1);
    assert_int_equal(store_read_open(shelf->store, &look, &err), 0);
    assert_int_equal(store_read_pin(look, &err), 0);
    const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
    assert_int_equal(store_read_compare(look, snapshot, &err), 0);
    assert_int_equal(store_read_verify(look, &which, &err), 0);
    snapshot_unref(snapshot);
    store_read_close(look);
}

/* After a step of the transaction failed, the connection is free for the next batch. */
SHELF_TEST(learned__failing_leaves_the_connection_to_batches)
{
    struct err err;
    CLEANUP(tally_freep) struct tally *tally = a_tally();

    shelf_run(shelf,
              "CREATE TRIGGER odd BEFORE INSERT ON learned BEGIN SELECT RAISE(ABORT, 'no'); END");
    assert_true(shelf->ops.learn(shelf->ops.ctx, tally, 1, &err) < 0);
    (void)core_node(core, "n1", two_a100, 2);
    shelf_save(shelf);
    shelf_allow(shelf);
    learn(shelf, tally, 1);
    (void)core_reserve(core, "a", "n1", "100");
    shelf_save_and_turn(shelf);
    assert_learned(shelf->store, tally, 1);
}
