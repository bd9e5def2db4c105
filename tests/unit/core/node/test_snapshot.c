#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "core/ledger/ledger_internal.h"
#include "core/node/snapshot_internal.h"
#include "support/core_fixture.h"
#include "support/test.h"

static const struct allocation *snapshot_find(const struct snapshot *snapshot, struct text uid)
{
    const struct node *node;
    uint32_t at = 0;
    while ((node = snapshot_next(snapshot, &at)) != NULL) {
        const struct allocation *allocation = node_allocation(node, uid);
        must(allocation == NULL || allocation->facts.node == node->name);
        if (allocation != NULL)
            return allocation;
    }
    return NULL;
}

static const struct core_gpu two_a100[] = {{.id = NULL, .index = 0, .mib = 81920},
                                           {.id = NULL, .index = 1, .mib = 81920}};

static const struct snapshot *published[128]; /* by the test that runs */
static uint32_t n_published;

static const struct snapshot *publish_without(struct core_fixture *core,
                                              const struct change *const *held, uint32_t n_held)
{
    assert_true(n_published < ARRAY_LEN(published));
    published[n_published] = ledger_publish(core->ledger, held, n_held);
    return published[n_published++];
}

static const struct snapshot *publish(struct core_fixture *core)
{
    return publish_without(core, NULL, 0);
}

static int tear_down(void **state)
{
    while (n_published > 0)
        snapshot_unref(published[--n_published]);
    return core_tear_down(state);
}

#define SNAPSHOT_TEST(name) TEST_WITH(name, struct core_fixture *core, core_set_up, tear_down)

static const char *name_of(struct core_fixture *core, uint32_t node)
{
    return arena_printf(&core->arena, "node-%u", node);
}

static void add_nodes_from(struct core_fixture *core, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < count; i++)
        core_show_quickly(core, name_of(core, i), two_a100, 2);
}

static void add_nodes(struct core_fixture *core, uint32_t count)
{
    add_nodes_from(core, 0, count);
}

static void remove_node(struct core_fixture *core, const char *name)
{
    const struct command gone = {.kind = COMMAND_NODE_GONE, .at_ms = core->now_ms, .node = name};
    assert_int_equal(core_do(core, &gone), VERDICT_OK);
}

static const struct node *shown(const struct snapshot *snapshot, const char *name)
{
    return snapshot_node(snapshot, text_of(name));
}

SNAPSHOT_TEST(snapshot__is_empty_for_an_empty_ledger)
{
    const struct snapshot *snapshot = publish(core);
    uint32_t at = 0;
    assert_int_equal(snapshot->nodes, 0);
    assert_null(snapshot_next(snapshot, &at));
    assert_null(shown(snapshot, "n1"));
    assert_null(shown(snapshot, ""));
    assert_null(snapshot_open(snapshot, TEXT("a")));
    assert_null(snapshot_find(snapshot, TEXT("a")));
    const struct snapshot *again = snapshot_ref(snapshot);
    assert_ptr_equal(again, snapshot);
    snapshot_unref(again);
    snapshot_unref(NULL);
}

SNAPSHOT_TEST(snapshot_node__finds_every_node_over_many_pages)
{
    add_nodes(core, BOOK_NODES + 5);
    const struct snapshot *snapshot = publish(core);
    assert_int_equal(snapshot->nodes, BOOK_NODES + 5);
    assert_int_equal(snapshot->n_books, 2);
    for (uint32_t i = 0; i < snapshot->nodes; i++) {
        const char *name = name_of(core, i);
        assert_string_equal(shown(snapshot, name)->name->text, name);
    }
    assert_null(shown(snapshot, "node-"));
    assert_null(shown(snapshot, "node-9999"));
    uint32_t at = 0;
    uint32_t seen = 0;
    while (snapshot_next(snapshot, &at) != NULL)
        seen++;
    assert_int_equal(seen, snapshot->nodes);
}

enum { ASKED_MAX = 150 };

struct asked {
    struct text name[ASKED_MAX];
    uint32_t hash[ASKED_MAX];
    const struct node *node[ASKED_MAX];
    uint32_t slot[ASKED_MAX];
};

static void add_name(struct core_fixture *core, struct asked *asked, uint32_t at, uint32_t node)
{
    asked->name[at] = text_of(name_of(core, node));
    asked->hash[at] = text_hash(asked->name[at]);
}

static void assert_found_alike(const struct snapshot *snapshot, uint32_t count, struct asked *asked)
{
    /* just as many, so that the sanitizers see a read past the last */
    CLEANUP(xfreep) uint32_t *hash = xcalloc(count, sizeof *hash);
    memcpy(hash, asked->hash, count * sizeof *hash);
    snapshot_nodes(snapshot, count, asked->name, hash, asked->node, asked->slot);
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(asked->node[i], snapshot_node(snapshot, asked->name[i]));
        if (asked->node[i] != NULL)
            assert_ptr_equal(asked->node[i], slot_node(snapshot->book, asked->slot[i]));
        else
            assert_int_equal(asked->slot[i], SNAPSHOT_NO_SLOT);
    }
}

SNAPSHOT_TEST(snapshot_nodes__agrees_with_single_lookups)
{
    struct asked asked;
    uint32_t known = 0;
    add_nodes(core, 100);
    remove_node(core, "node-3");
    const struct snapshot *snapshot = publish(core);
    for (uint32_t i = 0; i < ASKED_MAX; i++) /* some twice, some that do not exist */
        add_name(core, &asked, i, i * 7 % 130);
    for (uint32_t count = 0; count <= ASKED_MAX; count++)
        assert_found_alike(snapshot, count, &asked);
    for (uint32_t i = 0; i < ASKED_MAX; i++)
        known += asked.node[i] != NULL;
    assert_in_range(known, 100, ASKED_MAX - 1);
}

SNAPSHOT_TEST(snapshot_nodes__works_with_none_and_with_few_nodes)
{
    enum { ASKED = 40, NODES = 20 };
    struct asked asked;
    for (uint32_t i = 0; i < ASKED; i++)
        add_name(core, &asked, i, i);
    for (uint32_t nodes = 0; nodes < NODES; nodes++) {
        const struct snapshot *snapshot = publish(core);
        assert_int_equal(snapshot->nodes, nodes);
        assert_found_alike(snapshot, ASKED, &asked);
        assert_int_equal(core_node(core, name_of(core, nodes), two_a100, 2), VERDICT_OK);
    }
}

SNAPSHOT_TEST(snapshot__shares_unchanged_pages)
{
    add_nodes(core, 2 * BOOK_NODES + 1);
    const struct snapshot *before = publish(core);
    const char *name = name_of(core, BOOK_NODES + PAGE_NODES);
    assert_int_equal(core_reserve(core, "a", name, "300"), VERDICT_OK);
    const struct snapshot *after = publish(core);
    assert_true(after->generation > before->generation);
    assert_ptr_equal(before->book[0], after->book[0]);
    assert_ptr_not_equal(before->book[1], after->book[1]);
    assert_ptr_equal(before->book[2], after->book[2]);
    assert_ptr_equal(before->book[1]->page[0], after->book[1]->page[0]);
    assert_ptr_not_equal(before->book[1]->page[1], after->book[1]->page[1]);
    assert_ptr_equal(before->book[1]->page[2], after->book[1]->page[2]);
    assert_int_equal(shown(before, name)->n_allocations, 0);
    assert_int_equal(shown(after, name)->n_allocations, 1);
    assert_int_equal(before->allocations, 0);
    assert_int_equal(after->allocations, 1);
}

SNAPSHOT_TEST(slot_index__is_shared_when_nodes_come_and_go)
{
    add_nodes(core, 3);
    const struct snapshot *before = publish(core);
    assert_int_equal(core_node(core, "new", two_a100, 2), VERDICT_OK);
    const struct snapshot *more = publish(core);
    remove_node(core, "new");
    const struct snapshot *less = publish(core);
    assert_int_equal(core_node(core, "heir", two_a100, 2), VERDICT_OK);
    const struct snapshot *after = publish(core);
    assert_ptr_equal(before->index, more->index);
    assert_ptr_equal(before->index, after->index);
    assert_null(shown(before, "new"));
    assert_non_null(shown(more, "new"));
    assert_null(shown(more, "heir"));
    assert_null(shown(less, "new"));
    assert_null(shown(after, "new"));
    assert_non_null(shown(after, "heir"));
}

/* The index is rebuilt only when more entries were added than it holds: once per doubling. */
SNAPSHOT_TEST(slot_index__is_rebuilt_once_per_doubling)
{
    enum { NODES = 1500 };
    char name[32];
    for (uint32_t i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof name, "come-and-go-%u", i);
        const struct command gone = {.kind = COMMAND_NODE_GONE, .node = name};
        core_show_quickly(core, name, two_a100, 1);
        const struct snapshot *snapshot = ledger_publish(core->ledger, NULL, 0);
        assert_non_null(shown(snapshot, name));
        snapshot_unref(snapshot);
        assert_int_equal(core_do_quickly(core, &gone), VERDICT_OK);
    }
    assert_in_range(core->ledger->indexed, NODES, NODES + 100);
    add_nodes(core, NODES);
    assert_in_range(core->ledger->indexed, 2 * NODES, 5 * NODES);
}

static const struct node *node_at(const struct snapshot *snapshot, uint32_t slot)
{
    return snapshot != NULL && slot < snapshot->slots ? slot_node(snapshot->book, slot) : NULL;
}

/* The changes found match a plain scan; old NULL: from nothing. Returns how many they are. */
static uint32_t assert_changes(const struct snapshot *old, const struct snapshot *new)
{
    const struct node *before;
    const struct node *after;
    uint32_t at = 0;
    uint32_t changes = 0;
    for (uint32_t slot = 0; slot < new->slots; slot++) {
        if (node_at(old, slot) == node_at(new, slot))
            continue;
        assert_true(snapshot_next_change(old, new, &at, &before, &after));
        assert_ptr_equal(before, node_at(old, slot));
        assert_ptr_equal(after, node_at(new, slot));
        changes++;
    }
    assert_false(snapshot_next_change(old, new, &at, &before, &after));
    return changes;
}

SNAPSHOT_TEST(snapshot_next_change__finds_changes_at_page_and_book_edges)
{
    static const uint32_t places[] = {0,
                                      1,
                                      PAGE_NODES - 1,
                                      PAGE_NODES,
                                      BOOK_NODES - 1,
                                      BOOK_NODES,
                                      2 * BOOK_NODES - PAGE_NODES,
                                      2 * BOOK_NODES - 1,
                                      2 * BOOK_NODES,
                                      2 * BOOK_NODES + PAGE_NODES + 7};
    add_nodes(core, 2 * BOOK_NODES);
    const struct snapshot *old = publish(core);
    assert_int_equal(assert_changes(NULL, old), 2 * BOOK_NODES);
    assert_int_equal(assert_changes(old, old), 0);
    add_nodes_from(core, 2 * BOOK_NODES, 2 * BOOK_NODES + 3 * PAGE_NODES); /* in a new book */
    uint32_t changes = 0;
    for (uint32_t set = 1; set < 1U << ARRAY_LEN(places); set = set * 2 + set % 3) {
        for (uint32_t i = 0; i < ARRAY_LEN(places); i++)
            if ((set >> i & 1) != 0)
                core_show_quickly(core, name_of(core, places[i]), two_a100,
                                  set % 2 + places[i] % 2);
        const struct snapshot *new = publish(core);
        changes += assert_changes(old, new);
        old = new;
    }
    assert_true(changes > 3 * PAGE_NODES);
}

/* All snapshots share the index, which names slots that an older snapshot does not have. */
SNAPSHOT_TEST(snapshot__ignores_index_entries_of_later_books)
{
    enum { LATER = 40 };
    struct asked asked;
    add_nodes(core, BOOK_NODES - 4);
    const struct snapshot *old = publish(core);
    add_nodes_from(core, BOOK_NODES - 4, BOOK_NODES + 476);
    (void)core_reserve(core, "late", "node-1400", "300");
    const struct snapshot *new = publish(core);
    assert_ptr_equal(old->index, new->index);
    for (uint32_t i = 0; i < LATER; i++) {
        add_name(core, &asked, i, BOOK_NODES + 3 * i);
        assert_null(snapshot_node(old, asked.name[i]));
        assert_non_null(snapshot_node(new, asked.name[i]));
    }
    snapshot_nodes(old, LATER, asked.name, asked.hash, asked.node, asked.slot);
    for (uint32_t i = 0; i < LATER; i++)
        assert_null(asked.node[i]);
    assert_null(snapshot_open(old, TEXT("late")));
    assert_non_null(snapshot_open(new, TEXT("late")));
}

static struct known_node known_of(const struct snapshot *snapshot, const char *name)
{
    const struct text text = text_of(name);
    const uint32_t hash = text_hash(text);
    struct known_node known;
    snapshot_nodes(snapshot, 1, &text, &hash, &known.node, &known.slot);
    return known;
}

/* The node of this name is looked up in a snapshot by its slot in another one. */
static const struct node *again(const struct snapshot *in, const struct snapshot *from,
                                const char *name)
{
    const struct known_node known = known_of(from, name);
    return snapshot_node_again(in, &known);
}

SNAPSHOT_TEST(snapshot_node_again__finds_a_node_in_its_slot_only)
{
    add_nodes(core, 3);
    const struct snapshot *before = publish(core);
    (void)core_reserve(core, "a", "node-1", "300");
    remove_node(core, "node-2");
    const struct snapshot *less = publish(core);
    assert_int_equal(core_node(core, "heir", two_a100, 2), VERDICT_OK);
    const struct snapshot *after = publish(core);
    assert_ptr_equal(again(after, before, "node-0"), shown(before, "node-0"));
    assert_ptr_equal(again(after, before, "node-1"), shown(after, "node-1"));
    assert_ptr_not_equal(shown(after, "node-1"), shown(before, "node-1"));
    assert_ptr_equal(again(before, after, "node-1"), shown(before, "node-1"));
    assert_null(again(less, before, "node-2"));
    assert_int_equal(known_of(after, "heir").slot, known_of(before, "node-2").slot);
    assert_null(again(after, before, "node-2"));
    assert_null(again(before, after, "heir"));
    assert_null(again(after, before, "nobody"));
}

SNAPSHOT_TEST(snapshot_node_again__finds_none_in_a_slot_of_a_later_book)
{
    add_nodes(core, BOOK_NODES);
    const struct snapshot *before = publish(core);
    add_nodes_from(core, BOOK_NODES, BOOK_NODES + 2);
    const struct snapshot *after = publish(core);
    const char *last = name_of(core, BOOK_NODES - 1);
    const char *first = name_of(core, BOOK_NODES);
    assert_int_equal(known_of(after, first).slot, before->slots);
    assert_ptr_equal(again(before, after, last), shown(before, last));
    assert_null(again(before, after, first));
    assert_null(again(before, after, name_of(core, BOOK_NODES + 1)));
    assert_ptr_equal(again(after, after, first), shown(after, first));
}

TEST(slot_index__fills_to_three_quarters_and_counts_doubles_once)
{
    struct slot_index *index = slot_index_new(0);
    for (uint32_t i = 0; i < 768; i++) {
        assert_true(slot_index_has_room(index, 768 - i));
        assert_false(slot_index_has_room(index, 769 - i));
        slot_index_add(index, i * 7, i);
        slot_index_add(index, i * 7, i);
    }
    assert_true(slot_index_has_room(index, 0));
    assert_false(slot_index_has_room(index, 1));
    slot_index_unref(index);
    index = slot_index_new(1000);
    assert_true(slot_index_has_room(index, 1000));
    slot_index_unref(index);
}

SNAPSHOT_TEST(snapshot__keeps_its_content_after_later_changes)
{
    add_nodes(core, 2);
    (void)core_reserve(core, "a", "node-1", "300");
    const struct snapshot *snapshot = publish(core);
    CLEANUP(xfreep) char *before = core_dump_snapshot(snapshot);
    (void)core_step(core, COMMAND_RELEASE, "a");
    remove_node(core, "node-1");
    core_forget_undo(core);
    CLEANUP(xfreep) char *after = core_dump_snapshot(snapshot);
    assert_string_equal(before, after);
    assert_non_null(shown(snapshot, "node-1"));
}

SNAPSHOT_TEST(snapshot_open__lists_only_open_reservations)
{
    add_nodes(core, 2);
    (void)core_reserve(core, "a", "node-0", "300");
    (void)core_reserve(core, "b", "node-1", "300");
    (void)core_reserve(core, "c", "node-1", "300");
    (void)core_step(core, COMMAND_CONFIRM, "a");
    const struct snapshot *snapshot = publish(core);
    assert_int_equal(snapshot->n_opens, 2);
    assert_null(snapshot_open(snapshot, TEXT("a")));
    assert_string_equal(snapshot_open(snapshot, TEXT("b"))->facts.uid, "b");
    assert_string_equal(snapshot_open(snapshot, TEXT("c"))->facts.uid, "c");
    assert_string_equal(snapshot_find(snapshot, TEXT("a"))->facts.node->text, "node-0");
    assert_null(snapshot_find(snapshot, TEXT("d")));
    const struct command note = {.kind = COMMAND_NOTE, .uid = "a", .unbound = true};
    assert_int_equal(core_do(core, &note), VERDICT_OK);
    snapshot = publish(core);
    assert_int_equal(snapshot->n_opens, 3);
    assert_string_equal(snapshot_open(snapshot, TEXT("a"))->facts.uid, "a");
    core_undo(core);
    snapshot = publish(core);
    assert_int_equal(snapshot->n_opens, 2);
    assert_null(snapshot_open(snapshot, TEXT("a")));
}

SNAPSHOT_TEST(capacity_generation__grows_when_room_is_freed)
{
    add_nodes(core, 1);
    const struct snapshot *first = publish(core);
    assert_int_equal(first->capacity_generation, first->generation); /* a node came */
    (void)core_reserve(core, "a", "node-0", "300");
    const struct snapshot *less = publish(core);
    assert_int_equal(less->capacity_generation, first->capacity_generation);
    core_undo(core); /* taking back the grant frees capacity, too */
    const struct snapshot *undone = publish(core);
    assert_int_equal(undone->capacity_generation, undone->generation);
    const struct snapshot *same = publish(core);
    assert_int_equal(same->capacity_generation, undone->capacity_generation);
    assert_true(same->generation > undone->generation);
}

SNAPSHOT_TEST(ledger_publish__holds_back_uncommitted_room)
{
    add_nodes(core, 2);
    (void)core_reserve(core, "a", "node-0", "1000");
    (void)core_reserve(core, "b", "node-1", "1000");
    const struct snapshot *first = publish(core);
    core_forget_undo(core);

    (void)core_step(core, COMMAND_RELEASE, "a");
    (void)core_reserve(core, "c", "node-1", "300");
    (void)core_node(core, "new", two_a100, 2);
    const struct change *const held[] = {&core->done[0], &core->done[2]};
    assert_true(change_gives_room(held[0]));
    assert_true(change_gives_room(held[1]));
    const struct snapshot *less = publish_without(core, held, 2);
    assert_int_equal(less->capacity_generation, first->capacity_generation);
    assert_non_null(node_allocation(shown(less, "node-0"), TEXT("a")));
    assert_non_null(node_allocation(shown(less, "node-1"), TEXT("c")));
    assert_null(shown(less, "new"));
    assert_int_equal(less->nodes, 2);
    assert_int_equal(less->allocations, 3);

    const struct snapshot *all = publish(core);
    assert_int_equal(all->capacity_generation, all->generation);
    assert_null(node_allocation(shown(all, "node-0"), TEXT("a")));
    assert_non_null(shown(all, "new"));
    assert_int_equal(all->nodes, 3);
    assert_int_equal(all->allocations, 2);
}

SNAPSHOT_TEST(ledger_publish__shows_a_node_before_its_first_held_change)
{
    add_nodes(core, 1);
    (void)core_reserve(core, "a", "node-0", "300");
    (void)core_reserve(core, "b", "node-0", "300");
    core_forget_undo(core);
    (void)core_step(core, COMMAND_RELEASE, "a");
    (void)core_step(core, COMMAND_RELEASE, "b");
    const struct change *const held[] = {&core->done[0], &core->done[1]};
    const struct snapshot *snapshot = publish_without(core, held, 2);
    assert_int_equal(shown(snapshot, "node-0")->n_allocations, 2);
    assert_int_equal(snapshot->allocations, 2);
    assert_non_null(snapshot_open(snapshot, TEXT("a"))); /* the node still shows it */
    assert_int_equal(snapshot->n_opens, 0);
}

SNAPSHOT_TEST(ledger_publish__needs_no_new_index_to_hold_back_a_release)
{
    const struct command clock = {.kind = COMMAND_CLOCK, .clock_from_ms = 9};
    add_nodes(core, 2);
    (void)core_reserve(core, "a", "node-1", "300");
    core_forget_undo(core);
    (void)core_step(core, COMMAND_RELEASE, "a");
    assert_int_equal(core_do(core, &clock), VERDICT_OK); /* not of a node: nothing to hold */
    const struct change *const held[] = {&core->done[0], &core->done[1]};
    const struct snapshot *less = publish_without(core, held, 2);
    const struct snapshot *all = publish(core);
    assert_ptr_equal(less->index, all->index);
    assert_non_null(node_allocation(shown(less, "node-1"), TEXT("a")));
    assert_int_equal(less->allocations, 1);
    assert_int_equal(all->allocations, 0);
}

SNAPSHOT_TEST(ledger_publish__shows_a_node_whose_removal_is_held)
{
    add_nodes(core, 2);
    core_forget_undo(core);
    remove_node(core, "node-0");
    assert_int_equal(core_node(core, "heir", two_a100, 2), VERDICT_OK); /* takes the freed slot */
    (void)core_reserve(core, "a", "heir", "300");
    assert_int_equal(core->done[0].slot, core->done[1].slot);
    const struct change *const held[] = {&core->done[0], &core->done[1]};
    const struct snapshot *snapshot = publish_without(core, held, 2);
    assert_non_null(shown(snapshot, "node-0"));
    assert_null(shown(snapshot, "heir"));
    assert_null(snapshot_open(snapshot, TEXT("a"))); /* its node is not shown */
    assert_int_equal(snapshot->nodes, 2);
}

/* The number of a uid that hashes to the first slot of every table. */
static uint32_t first_pod(void)
{
    char uid[16];
    for (uint32_t i = 0;; i++) {
        (void)snprintf(uid, sizeof uid, "pod-%u", i);
        if (text_hash(text_of(uid)) % 8192 == 0)
            return i;
    }
}

/* Reserves until there are `most` pods, and checks that all of them are found. */
static void reserve_up_to(struct core_fixture *core, uint32_t *pods, uint32_t most)
{
    const uint32_t first = first_pod();
    char uid[16];
    for (; *pods < most; ++*pods) {
        (void)snprintf(uid, sizeof uid, "pod-%u", first + *pods);
        const struct command command = {.kind = COMMAND_RESERVE,
                                        .uid = uid,
                                        .namespace = "default",
                                        .name = uid,
                                        .node = name_of(core, *pods % 40),
                                        .request = core_request(core, "1")};
        assert_int_equal(core_do_quickly(core, &command), VERDICT_OK);
    }
    const struct snapshot *snapshot = publish(core);
    assert_int_equal(snapshot->n_opens, *pods);
    for (uint32_t i = 0; i < *pods; i++) {
        (void)snprintf(uid, sizeof uid, "pod-%u", first + i);
        assert_non_null(snapshot_open(snapshot, text_of(uid)));
    }
}

/* Ended pods take space in the index, too; the table of open pods is not growing at that point. */
SNAPSHOT_TEST(open_index__is_rebuilt_when_full)
{
    enum { ENDED = 100, ROOM = 768 - ENDED };
    struct slot_index *index = slot_index_ref(core->ledger->open_index);
    uint32_t pods = 0;
    size_t at = 0;
    add_nodes(core, 40);
    for (uint32_t i = 0; i < ENDED; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof uid, "ended-%u", i);
        assert_int_equal(core_reserve(core, uid, "node-0", "1"), VERDICT_OK);
        assert_int_equal(core_step(core, COMMAND_RELEASE, uid), VERDICT_OK);
    }
    reserve_up_to(core, &pods, ROOM);
    assert_ptr_equal(core->ledger->open_index, index);
    assert_non_null(map_next(&core->ledger->open, &at));
    assert_int_equal(at, 1);
    reserve_up_to(core, &pods, ROOM + 1);
    assert_ptr_not_equal(core->ledger->open_index, index);
    slot_index_unref(index);
}

SNAPSHOT_TEST(slot_index__is_rebuilt_when_full)
{
    struct slot_index *index = slot_index_ref(core->ledger->index);
    add_nodes(core, 768);
    assert_ptr_equal(core->ledger->index, index);
    core_show_quickly(core, "one-more", two_a100, 2);
    assert_ptr_not_equal(core->ledger->index, index);
    slot_index_unref(index);
}

SNAPSHOT_TEST(slot_index__has_room_for_held_back_nodes)
{
    struct slot_index *index = slot_index_ref(core->ledger->index);
    add_nodes(core, 768);
    remove_node(core, "node-0");
    assert_ptr_equal(core->ledger->index, index);
    const struct change *const held[] = {&core->done[0]};
    const struct snapshot *snapshot = publish_without(core, held, 1);
    assert_ptr_not_equal(core->ledger->index, index); /* rebuilt without the node that left */
    assert_non_null(shown(snapshot, "node-0"));
    slot_index_unref(index);
}
