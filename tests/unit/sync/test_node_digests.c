/* The table of Nodes as the watch showed them last. */
#include <stdio.h>

#include "milligpu/sync/node_digests.h"

#include "support/test.h"

static const struct siphash_key key = {{3, 5}};

static int set_up(void **state)
{
    *state = node_digests_new(&key);
    return 0;
}

static int tear_down(void **state)
{
    node_digests_free(*state);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, struct node_digests *digests, set_up, tear_down)

/* "n7" of 7. */
static struct text name_of(unsigned number)
{
    static char name[16];

    (void)snprintf(name, sizeof name, "n%u", number);
    return text_of(name);
}

static struct node_digest digest_of(unsigned number, uint64_t bytes)
{
    return (struct node_digest){.name = node_digest_name(name_of(number), &key), .bytes = bytes};
}

static void remember(struct node_digests *digests, unsigned number, uint64_t bytes)
{
    const struct node_digest digest = digest_of(number, bytes);

    node_digests_remember(digests, &digest);
}

static bool has(struct node_digests *digests, unsigned number, uint64_t bytes)
{
    const struct node_digest digest = digest_of(number, bytes);

    return node_digests_has(digests, &digest);
}

FIXTURE_TEST(node_digests__have_the_last_digest_of_each_node)
{
    assert_false(has(digests, 1, 10));
    remember(digests, 1, 10);
    remember(digests, 2, 20);
    assert_true(has(digests, 1, 10));
    assert_false(has(digests, 1, 20));
    assert_true(has(digests, 2, 20));
    remember(digests, 1, 11);
    assert_true(has(digests, 1, 11));
    assert_false(has(digests, 1, 10));
}

FIXTURE_TEST(node_digests__forget_one_or_all)
{
    node_digests_forget(digests, name_of(1));
    remember(digests, 1, 10);
    remember(digests, 2, 20);
    node_digests_forget(digests, name_of(1));
    node_digests_forget(digests, name_of(3));
    assert_false(has(digests, 1, 10));
    assert_true(has(digests, 2, 20));
    remember(digests, 1, 10);
    assert_true(has(digests, 1, 10));
    node_digests_clear(digests);
    assert_false(has(digests, 1, 10));
    assert_false(has(digests, 2, 20));
}

FIXTURE_TEST(node_digests__remember_a_limited_number)
{
    for (unsigned i = 0; i < NODES_MAX; i++)
        remember(digests, i, 1 + i);
    for (unsigned i = 0; i < NODES_MAX; i++)
        assert_true(has(digests, i, 1 + i));
    remember(digests, NODES_MAX, 7);
    assert_false(has(digests, NODES_MAX, 7));
    remember(digests, 0, 7); /* a known one may change */
    assert_true(has(digests, 0, 7));
}

/* Nodes that come and go under ever new names take no room. */
FIXTURE_TEST(node_digests__give_the_room_of_forgotten_nodes_to_others)
{
    for (unsigned i = 0; i < 4 * NODES_MAX; i++) {
        remember(digests, i, 1 + i);
        assert_true(has(digests, i, 1 + i));
        node_digests_forget(digests, name_of(i));
        assert_false(has(digests, i, 1 + i));
    }
    for (unsigned round = 0; round < 3; round++) {
        const unsigned first = round * NODES_MAX;
        for (unsigned i = 0; i < NODES_MAX; i++)
            remember(digests, first + i, 7);
        for (unsigned i = 0; i < NODES_MAX; i++) {
            assert_true(has(digests, first + i, 7));
            node_digests_forget(digests, name_of(first + i));
        }
    }
}
