/* The newest idle change of a share waits for the writer, within a bound; no failure loses it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/usage/idle_changes.h"

#include "support/test.h"

static struct store_idle share(const char *node, const char *uid, int64_t since_ms)
{
    return (struct store_idle){node, uid, "c", "GPU-a", since_ms};
}

static struct store_idle all_of(const char *node)
{
    return (struct store_idle){node, "", "", "", 0};
}

static void put(struct idle_changes *changes, struct store_idle idle)
{
    assert_true(idle_changes_put(changes, &idle));
}

struct took {
    struct store_idle idle[64];
    uint32_t count;
    struct arena arena;
};

static int by_name(const void *a, const void *b)
{
    const struct store_idle *left = a;
    const struct store_idle *right = b;
    const int nodes = strcmp(left->node, right->node);

    return nodes != 0 ? nodes : strcmp(left->uid, right->uid);
}

/* "n1/a 5, n1/ 0" */
static void assert_taken(struct idle_changes *changes, struct took *took, const char *should)
{
    char is[256] = "";

    arena_init(&took->arena);
    took->count = idle_changes_take(changes, took->idle, ARRAY_LEN(took->idle), &took->arena);
    qsort(took->idle, took->count, sizeof *took->idle, by_name);
    for (uint32_t i = 0; i < took->count; i++) {
        const size_t len = strlen(is);
        (void)snprintf(is + len, sizeof is - len, "%s%s/%s %d", i > 0 ? ", " : "",
                       took->idle[i].node, took->idle[i].uid, (int)took->idle[i].since_ms);
        assert_string_equal(took->idle[i].gpu, took->idle[i].uid[0] != '\0' ? "GPU-a" : "");
    }
    assert_string_equal(is, should);
}

static void took_done(struct took *took)
{
    arena_done(&took->arena);
}

static void assert_takes(struct idle_changes *changes, const char *should)
{
    CLEANUP(took_done) struct took took;

    assert_taken(changes, &took, should);
}

TEST(idle_changes__keep_the_newest_of_each_share)
{
    struct idle_changes *changes = idle_changes_new();

    put(changes, share("n1", "a", 5));
    put(changes, share("n1", "b", 6));
    put(changes, share("n1", "a", 0));
    assert_takes(changes, "n1/a 0, n1/b 6");
    assert_takes(changes, "");
    idle_changes_free(changes);
    idle_changes_free(NULL);
}

TEST(idle_changes__of_a_node_replace_those_of_its_shares)
{
    struct idle_changes *changes = idle_changes_new();

    put(changes, share("n1", "a", 5));
    put(changes, share("n2", "a", 6));
    put(changes, all_of("n1"));
    put(changes, share("n1", "b", 7));
    assert_takes(changes, "n1/ 0, n1/b 7, n2/a 6");
    idle_changes_free(changes);
}

TEST(idle_changes__put_back_are_older_than_later_ones)
{
    struct idle_changes *changes = idle_changes_new();
    struct took took;

    put(changes, all_of("n1"));
    put(changes, share("n1", "a", 1)); /* newer than its node */
    put(changes, share("n2", "b", 2));
    put(changes, share("n3", "c", 3));
    put(changes, share("n4", "d", 4));
    assert_taken(changes, &took, "n1/ 0, n1/a 1, n2/b 2, n3/c 3, n4/d 4");
    put(changes, share("n2", "b", 0));
    put(changes, all_of("n3"));
    idle_changes_put_back(changes, took.idle, took.count);
    took_done(&took); /* the names were copied */
    assert_takes(changes, "n1/ 0, n1/a 1, n2/b 0, n3/ 0, n4/d 4");
    idle_changes_free(changes);
}

TEST(idle_changes__refuse_other_shares_when_full)
{
    struct idle_changes *changes = idle_changes_new();
    const struct store_idle one_more = share("n1", "x", 1);
    struct took took;
    uint32_t count = 0;
    char uid[16];

    for (int i = 0; i < IDLE_CHANGES_MAX; i++) {
        (void)snprintf(uid, sizeof uid, "%d", i);
        put(changes, share("n1", uid, 1));
    }
    assert_false(idle_changes_put(changes, &one_more));
    put(changes, share("n1", "7", 2));
    put(changes, all_of("n2"));
    idle_changes_put_back(changes, &one_more, 1); /* it was taken before, so it has its place */
    do {
        arena_init(&took.arena);
        took.count = idle_changes_take(changes, took.idle, ARRAY_LEN(took.idle), &took.arena);
        count += took.count;
        took_done(&took);
    } while (took.count > 0 && count <= IDLE_CHANGES_MAX + 2);
    assert_int_equal(count, IDLE_CHANGES_MAX + 2);
    idle_changes_free(changes);
}
