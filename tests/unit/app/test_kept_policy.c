/*
 * The policy document in force is kept in the ledger for a start at which its file cannot be read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/document/policy/policy_document.h"
#include "milligpu/document/policy/zone_file.h"
#include "milligpu/run/file.h"

#include "support/test.h"
#include "support_fixture.h"

static struct {
    char folder[64];
    char ledger[96];
} scene;

static int set_up(void **state)
{
    (void)snprintf(scene.folder, sizeof scene.folder, "/tmp/milligpu-kept-XXXXXX");
    assert_non_null(mkdtemp(scene.folder));
    (void)snprintf(scene.ledger, sizeof scene.ledger, "%s/ledger.db", scene.folder);
    *state = fixture_new_on(scene.ledger);
    fixture_node(*state, "n1", "1000");
    fixture_run(*state);
    return 0;
}

static int tear_down(void **state)
{
    fixture_free(*state);
    fixture_remove_ledger(scene.ledger);
    return rmdir(scene.folder);
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct app_fixture *fixture, set_up, tear_down)

/* The documents that the ledger keeps; "" if none. */
static void assert_kept(const char *text)
{
    CLEANUP(arena_done) struct arena arena;
    struct store_policy kept;
    struct err err;

    arena_init(&arena);
    assert_int_equal(store_kept_policy(scene.ledger, &arena, &kept, &err), 0);
    assert_true(text_is(kept.document, text));
    if (text[0] != '\0')
        assert_string_equal(kept.name, "test.yaml");
}

static void decide_by(struct app_fixture *fixture, const char *text, bool is_document)
{
    static const struct policy_edges edges = {.load_zone = zone_load, .read_file = file_read};
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book;
    struct err err;

    strbuf_init(&warnings);
    const int failed = is_document ? policy_keep_document(text_of(text), "test.yaml", &edges, &book,
                                                          &warnings, &err)
                                   : policy_choose(text, &edges, &book, &warnings, &err);
    if (failed < 0)
        fail_msg("%s", err.text);
    fixture_policy(fixture, book);
    fixture_run(fixture);
}

#define BINPACK "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: binpack\n"
#define SPREAD  "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: spread\n"

FIXTURE_TEST(kept_policy__is_the_document_in_force)
{
    assert_kept("");
    decide_by(fixture, BINPACK, true);
    assert_kept(BINPACK);
    decide_by(fixture, SPREAD, true);
    assert_kept(SPREAD);
    fixture_restart_and_run(fixture);
    assert_kept(SPREAD);
}

FIXTURE_TEST(kept_policy__is_empty_for_a_built_in_policy)
{
    decide_by(fixture, BINPACK, true);
    decide_by(fixture, "mixed", false);
    assert_kept("");
}

FIXTURE_TEST(kept_policy__is_written_again_when_the_disk_works)
{
    decide_by(fixture, BINPACK, true);
    fixture_break_store(fixture, POINT_KEEP_POLICY, true);
    decide_by(fixture, SPREAD, true);
    fixture_pass(fixture, 50000);
    assert_int_equal(fixture->struck, 1); /* not at each step */
    fixture_pass(fixture, 11000);
    assert_int_equal(fixture->struck, 2);
    assert_kept(BINPACK);
    /* Another document is kept at once. */
    decide_by(fixture, SPREAD "seed: 9\n", true);
    assert_int_equal(fixture->struck, 3);
    fixture_heal(fixture);
    fixture_pass(fixture, 61000);
    assert_kept(SPREAD "seed: 9\n");
    /* Once is enough. */
    fixture_break_store(fixture, POINT_KEEP_POLICY, true);
    fixture_pass(fixture, 130000);
    assert_int_equal(fixture->met, 0);
}

FIXTURE_TEST(kept_policy__is_not_written_in_safe_mode)
{
    decide_by(fixture, BINPACK, true);
    atomic_store(&fixture->app.health.safe_mode, true);
    decide_by(fixture, SPREAD, true);
    fixture_pass(fixture, 130000);
    assert_kept(BINPACK);
}
