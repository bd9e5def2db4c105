/* Guesses of the next names: which, how many at once, and what is noticed of the list itself. */
#include <malloc.h>
#include <string.h>

#include "milligpu/core/node/name_order.h"

#include "support/core_fixture.h"
#include "support/test.h"

static struct name_order *order; /* of the test that runs */
static struct known_node guess[NAME_GUESSES];
static const struct snapshot *listed;

static int set_up(void **state)
{
    order = name_order_new();
    listed = NULL;
    return core_set_up(state);
}

static int tear_down(void **state)
{
    snapshot_unref(listed);
    name_order_free(order);
    return core_tear_down(state);
}

#define ORDER_TEST(name) TEST_WITH(name, struct core_fixture *core, set_up, tear_down)

static const char *name_of(struct core_fixture *core, uint32_t node)
{
    return arena_printf(&core->arena, "node-%u", node);
}

/* Nodes in the slots of their numbers. */
static void add_nodes(struct core_fixture *core, uint32_t first, uint32_t count)
{
    static const struct core_gpu gpu = {.index = 0, .mib = 16000};

    for (uint32_t i = first; i < count; i++)
        core_show_quickly(core, name_of(core, i), &gpu, 1);
}

static void begin_in(const struct snapshot *snapshot)
{
    name_order_begin(order, snapshot);
    assert_int_equal(name_order_guess(order, guess), 0); /* nothing came */
}

static void begin(struct core_fixture *core)
{
    const struct snapshot *former = listed;

    listed = ledger_publish(core->ledger, NULL, 0);
    begin_in(listed);
    snapshot_unref(former);
}

/* Returns whether the name came for the first time. */
static bool other(const char *name, struct known_node *out)
{
    const struct text text = text_of(name);

    return name_order_other(order, text, text_hash(text), out);
}

static bool other_node(struct core_fixture *core, uint32_t node)
{
    struct known_node known;
    const bool first = other(name_of(core, node), &known);

    assert_int_equal(known.slot, node);
    assert_string_equal(known.node->name->text, name_of(core, node));
    return first;
}

/* The guesses are the nodes from first on. */
static void assert_guesses(struct core_fixture *core, uint32_t first, uint32_t count)
{
    assert_int_equal(name_order_guess(order, guess), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(guess[i].slot, first + i);
        assert_string_equal(guess[i].node->name->text, name_of(core, first + i));
    }
}

ORDER_TEST(guesses__are_twice_as_many_if_all_came)
{
    add_nodes(core, 0, 100);
    begin(core);
    assert_true(other_node(core, 0));
    for (uint32_t count = 1; count <= NAME_GUESSES; count *= 2) {
        assert_guesses(core, count, count);
        assert_true(name_order_came(order, guess, count));
    }
    assert_guesses(core, 64, NAME_GUESSES); /* no more at once */
    assert_true(name_order_came(order, guess, NAME_GUESSES));
    assert_guesses(core, 96, 4); /* all that there are */
    assert_true(name_order_came(order, guess, 4));
    assert_guesses(core, 100, 0);
}

ORDER_TEST(guess__is_one_after_a_name_that_was_not_guessed)
{
    add_nodes(core, 0, 100);
    begin(core);
    assert_true(other_node(core, 0));
    assert_guesses(core, 1, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 2, 2);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 3, 1); /* one of two came */
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 4, 2);
    assert_true(name_order_came(order, guess, 0));
    assert_guesses(core, 4, 1); /* none came: the same again */
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 5, 2);
    assert_true(name_order_came(order, guess, 2));
    assert_true(other_node(core, 50));
    assert_guesses(core, 51, 1); /* another came */
    assert_guesses(core, 51, 1); /* nothing was said of the last one */
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 52, 2);
    begin(core);
    assert_true(other_node(core, 1));
    assert_guesses(core, 2, 1); /* another list */
}

ORDER_TEST(guess__is_one_if_nothing_was_said_of_the_last_ones)
{
    add_nodes(core, 0, 10);
    begin(core);
    assert_true(other_node(core, 4));
    assert_guesses(core, 5, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 6, 2);
    assert_true(name_order_came(order, guess, 2));
    assert_guesses(core, 8, 2); /* all that there are */
    assert_guesses(core, 8, 1);
}

/* Each list: 0, 7, 3, then on in the order of the slots. */
ORDER_TEST(guess__is_the_name_that_came_next_before)
{
    static const uint32_t list[] = {0, 7, 3};

    add_nodes(core, 0, 10);
    begin(core);
    for (uint32_t i = 0; i < ARRAY_LEN(list); i++)
        assert_true(other_node(core, list[i]));
    begin(core);
    assert_true(other_node(core, 0));
    assert_guesses(core, 7, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_int_equal(name_order_guess(order, guess), 2);
    assert_int_equal(guess[0].slot, 3);
    assert_int_equal(guess[1].slot, 4);
    assert_true(name_order_came(order, guess, 1));
    assert_true(other_node(core, 9)); /* after the 3 that came as a guess */
    begin(core);
    assert_true(other_node(core, 3));
    assert_guesses(core, 9, 1);
}

ORDER_TEST(guess__is_none_after_an_unknown_name)
{
    struct known_node known;

    add_nodes(core, 0, 10);
    begin(core);
    assert_true(other_node(core, 2));
    assert_false(other("nobody", &known)); /* a second one would go unnoticed */
    assert_null(known.node);
    assert_int_equal(known.slot, SNAPSHOT_NO_SLOT);
    assert_int_equal(name_order_guess(order, guess), 0);
    assert_true(name_order_came(order, guess, 0));
    assert_true(other_node(core, 6));
    assert_guesses(core, 7, 1);
    begin(core);
    assert_true(other_node(core, 2));
    assert_guesses(core, 3, 1); /* neither "nobody" nor what came after it */
}

ORDER_TEST(guesses__end_at_a_free_slot)
{
    const struct command gone = {.kind = COMMAND_NODE_GONE, .at_ms = 1, .node = "node-5"};

    add_nodes(core, 0, 10);
    begin(core);
    assert_true(other_node(core, 2));
    assert_guesses(core, 3, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
    begin(core);
    assert_true(other_node(core, 2));
    assert_guesses(core, 3, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 4, 1); /* of two */
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 5, 0);
}

/* Nothing is learned of what comes before and behind an unknown name. */
static bool other_alone(struct core_fixture *core, uint32_t node)
{
    struct known_node known;

    assert_false(other("nobody", &known));
    const bool first = other_node(core, node);
    assert_false(other("nobody", &known));
    return first;
}

/* Two names come as guesses; one of them, or neither, came before. */
static void come_again(struct core_fixture *core, uint32_t again, bool first_time)
{
    begin(core);
    assert_true(other_alone(core, again));
    assert_false(other_alone(core, again));
    assert_true(other_node(core, 3));
    assert_guesses(core, 4, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 5, 2);
    assert_int_equal(name_order_came(order, guess, 2), first_time);
    assert_false(other_alone(core, 4));
    assert_false(other_alone(core, 6));
}

ORDER_TEST(name__is_noticed_if_it_comes_again)
{
    add_nodes(core, 0, 20);
    come_again(core, 5, false);
    come_again(core, 6, false);
    come_again(core, 7, true);
}

/* Slots of new memory, which is filled with the number of a later list if the allocator can. */
ORDER_TEST(name__is_new_in_a_new_slot)
{
    enum { FILL = 0x01, LIST = 0x0101 };

    add_nodes(core, 0, 3);
    (void)mallopt(M_PERTURB, FILL ^ 0xFF);
    begin(core);
    (void)mallopt(M_PERTURB, 0);
    for (uint32_t list = 1; list < LIST; list++)
        name_order_begin(order, listed);
    assert_true(other_node(core, 1));
    assert_false(other_node(core, 1));
}

/* The numbers of lists are short: after 65,535 of them they start again. */
ORDER_TEST(name__is_not_taken_for_one_of_an_old_list)
{
    enum { NAMED = 600, LISTS = UINT16_MAX };

    add_nodes(core, 0, NAMED);
    begin(core);
    for (uint32_t i = 0; i < NAMED; i++)
        assert_true(other_node(core, i));
    for (uint32_t list = 1; list < LISTS; list++)
        name_order_begin(order, listed);
    for (uint32_t list = 0; list < NAMED; list++) {
        begin_in(listed);
        assert_true(other_node(core, NAMED - 1 - list));
        assert_false(other_node(core, NAMED - 1 - list));
    }
}

ORDER_TEST(former__is_the_number_of_names_of_the_last_list)
{
    struct known_node known;

    add_nodes(core, 0, 10);
    begin(core);
    assert_int_equal(name_order_former(order), 0);
    assert_true(other_node(core, 0));
    assert_false(other("nobody", &known));
    assert_true(other_node(core, 4));
    assert_guesses(core, 5, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, 6, 2);
    assert_true(name_order_came(order, guess, 2));
    assert_int_equal(name_order_former(order), 0);
    begin(core);
    assert_int_equal(name_order_former(order), 6);
    assert_true(other_node(core, 0));
    begin(core);
    assert_int_equal(name_order_former(order), 1);
    begin(core);
    assert_int_equal(name_order_former(order), 0);
}

/* Knowledge of slots stays when there are more of them, and when there are fewer. */
ORDER_TEST(order__grows_with_the_ledger)
{
    const size_t empty = name_order_bytes(order);

    assert_in_range(empty, 1, 200);
    assert_int_equal(empty % sizeof(void *), 0);
    add_nodes(core, 0, BOOK_NODES);
    begin(core);
    assert_int_equal(name_order_bytes(order), empty + (size_t)BOOK_NODES * 6);
    assert_true(other_node(core, 700));
    assert_true(other_node(core, 900));
    assert_true(other_node(core, BOOK_NODES - 1));
    assert_guesses(core, 0, 0); /* there is no next slot */
    const struct snapshot *old = snapshot_ref(listed);
    add_nodes(core, BOOK_NODES, BOOK_NODES + 3);
    begin(core);
    assert_int_equal(name_order_bytes(order), empty + (size_t)2 * BOOK_NODES * 6);
    assert_true(other_node(core, 700));
    assert_guesses(core, 900, 1);
    assert_true(other_node(core, BOOK_NODES - 1));
    assert_guesses(core, BOOK_NODES, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, BOOK_NODES + 1, 2);
    assert_true(name_order_came(order, guess, 2));
    begin_in(old);
    assert_int_equal(name_order_bytes(order), empty + (size_t)2 * BOOK_NODES * 6);
    assert_true(other_node(core, BOOK_NODES - 2));
    assert_guesses(core, BOOK_NODES - 1, 1);
    assert_true(name_order_came(order, guess, 1));
    assert_guesses(core, BOOK_NODES, 0);
    snapshot_unref(old);
    name_order_free(NULL);
}
