#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "milligpu/alloc.h"

#include "app/hints.h"

struct scene {
    struct hints *hints;
    struct names *names;
    struct node *node;
};

static struct want one_want(uint32_t milli)
{
    return (struct want){.container = "c", .kind = CONTAINER_APP, .parts = 1, .milli = milli};
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);

    scene->hints = hints_new();
    scene->names = names_new();
    const struct gpu gpu = {.id = names_intern(scene->names, TEXT("n/gpu-0")),
                            .model = names_intern(scene->names, TEXT("A100")),
                            .milli = 1000,
                            .mib = 81920};
    const struct node_build build = {.name = names_intern(scene->names, TEXT("n")),
                                     .uid = names_intern(scene->names, TEXT("u")),
                                     .problem_text = names_intern(scene->names, TEXT("")),
                                     .source = SOURCE_ALLOCATABLE,
                                     .gpus = 1,
                                     .gpu = &gpu};
    scene->node = node_new(&build);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    hints_free(scene->hints);
    node_unref(scene->node);
    names_free(scene->names);
    xfree(scene);
    return 0;
}

static void offer(struct scene *scene, const char *uid, int64_t now_ms, uint32_t listed,
                  uint32_t milli)
{
    struct want want = one_want(milli);
    const struct request request = {.wants = 1, .want = &want};
    struct placement *placement = xcalloc(1, sizeof *placement);
    placement->parts = 1;
    const struct candidate best = {.node = scene->node, .placement = placement};

    hints_offered(scene->hints, text_of(uid), now_ms, listed, &best, &request);
    xfree(placement);
}

static void an_offer_stands_against_its_place_for_two_seconds(void **state)
{
    struct scene *scene = *state;
    static struct ghost ghost[GHOSTS_MAX];

    offer(scene, "a", 1000, 3, 300);
    assert_int_equal(hints_ghosts(scene->hints, TEXT("b"), 1000, ghost), 1);
    assert_int_equal(ghost[0].milli, 300);
    assert_ptr_equal(ghost[0].gpu, scene->node->gpu[0].id);
    assert_int_equal(hints_ghosts(scene->hints, TEXT("b"), 2999, ghost), 1);
    assert_int_equal(hints_ghosts(scene->hints, TEXT("b"), 3000, ghost), 0);
}

static void a_pod_is_no_ghost_to_itself(void **state)
{
    struct scene *scene = *state;
    static struct ghost ghost[GHOSTS_MAX];

    offer(scene, "a", 1000, 3, 300);
    assert_int_equal(hints_ghosts(scene->hints, TEXT("a"), 1000, ghost), 0);
}

static void a_bound_pod_leaves_no_ghost(void **state)
{
    struct scene *scene = *state;
    static struct ghost ghost[GHOSTS_MAX];

    offer(scene, "a", 1000, 3, 300);
    hints_settled(scene->hints, TEXT("a"));
    assert_int_equal(hints_ghosts(scene->hints, TEXT("b"), 1000, ghost), 0);
}

static void a_list_that_led_to_no_bind_makes_the_next_one_four_times_longer(void **state)
{
    struct scene *scene = *state;

    assert_int_equal(hints_shortlist(scene->hints, TEXT("a"), 16, 0), 16);
    offer(scene, "a", 0, 16, 300);
    assert_int_equal(hints_shortlist(scene->hints, TEXT("a"), 16, 999), 16);
    assert_int_equal(hints_shortlist(scene->hints, TEXT("a"), 16, 1000), 64);
    offer(scene, "a", 1000, 64, 300);
    assert_int_equal(hints_shortlist(scene->hints, TEXT("a"), 16, 2500), 256);
}

static void a_list_of_one_was_no_choice_and_does_not_grow(void **state)
{
    struct scene *scene = *state;

    offer(scene, "a", 0, 1, 300);
    assert_int_equal(hints_shortlist(scene->hints, TEXT("a"), 16, 5000), 16);
}

static void a_list_never_grows_beyond_all_nodes(void **state)
{
    struct scene *scene = *state;

    for (int64_t now = 0; now < 100000; now += 2000) {
        offer(scene, "a", now, 16, 300);
        assert_true(hints_shortlist(scene->hints, TEXT("a"), 16, now + 1500) <= NODES_MAX);
    }
    assert_int_equal(hints_shortlist(scene->hints, TEXT("a"), 0, 200000), 0);
}

static void offers_are_bounded_and_the_oldest_go_first(void **state)
{
    struct scene *scene = *state;
    static struct ghost ghost[GHOSTS_MAX];

    for (int i = 0; i < OFFERS_MAX + 10; i++) {
        char uid[32];
        (void)snprintf(uid, sizeof uid, "pod-%d", i);
        offer(scene, uid, i, 16, 1);
    }
    assert_int_equal(hints_ghosts(scene->hints, TEXT("x"), OFFERS_MAX, ghost), GHOSTS_MAX);
    assert_int_equal(hints_shortlist(scene->hints, TEXT("pod-0"), 16, 100000), 16);
    assert_int_equal(hints_shortlist(scene->hints, TEXT("pod-4000"), 16, 100000), 64);
}

static struct waiting waits(const char *uid, const struct request *request, int64_t at_ms)
{
    return (struct waiting){.uid = uid,
                            .namespace = "default",
                            .name = uid,
                            .request = request,
                            .text = "no GPU with 300 milli free",
                            .reason = REASON_ROOM,
                            .last_ms = at_ms};
}

static void a_refused_pod_waits_until_it_is_settled(void **state)
{
    struct scene *scene = *state;
    struct want want = one_want(300);
    const struct request request = {.wants = 1, .want = &want};
    const struct waiting first = waits("a", &request, 5000);
    const struct waiting again = waits("a", &request, 9000);
    struct waiting found;
    struct arena arena;

    hints_refused(scene->hints, &first);
    hints_refused(scene->hints, &again);
    assert_int_equal(hints_waiting(scene->hints), 1);
    arena_init(&arena);
    assert_true(hints_find(scene->hints, TEXT("a"), &arena, &found));
    assert_int_equal(found.since_ms, 5000);
    assert_int_equal(found.last_ms, 9000);
    assert_int_equal(found.asks, 2);
    arena_done(&arena);
    hints_fits(scene->hints, TEXT("a"));
    assert_int_equal(hints_waiting(scene->hints), 0);
}

static void the_bell_has_a_reason_only_where_a_waiting_request_fits(void **state)
{
    struct scene *scene = *state;
    const struct node *node = scene->node;
    struct want small = one_want(300);
    struct want whole = {.container = "c", .kind = CONTAINER_APP, .parts = 2, .milli = 1000};
    const struct request fits = {.wants = 1, .want = &small};
    const struct request never = {.wants = 1, .want = &whole};
    const struct waiting big = waits("big", &never, 0);
    const struct waiting little = waits("little", &fits, 0);

    assert_false(hints_would_fit(scene->hints, &node, 1));
    hints_refused(scene->hints, &big);
    assert_false(hints_would_fit(scene->hints, &node, 1));
    hints_refused(scene->hints, &little);
    assert_true(hints_would_fit(scene->hints, &node, 1));
}

static void the_same_refusal_is_answered_with_the_same_bytes(void **state)
{
    struct scene *scene = *state;
    struct want want = one_want(300);
    struct want other = one_want(301);
    const struct request request = {.wants = 1, .want = &want};
    const struct request another = {.wants = 1, .want = &other};
    const struct refusal_key key = {.request = &request, .names = 7, .room = 3};
    struct refusal_key moved = key;
    struct refusal_key different = key;
    enum reason reason = REASON_NONE;
    struct strbuf out;

    moved.room = 4;
    different.request = &another;
    hints_answer_keep(scene->hints, &key, TEXT("bytes"), REASON_ROOM);
    strbuf_init(&out);
    assert_false(hints_answer_find(scene->hints, &moved, &out, &reason));
    assert_false(hints_answer_find(scene->hints, &different, &out, &reason));
    assert_true(hints_answer_find(scene->hints, &key, &out, &reason));
    assert_string_equal(out.data, "bytes");
    assert_int_equal(reason, REASON_ROOM);
    strbuf_done(&out);
}

/* So it is after a start with a ledger in which nothing has changed since. */
static void room_that_never_came_is_a_key_like_any_other(void **state)
{
    struct scene *scene = *state;
    struct want want = one_want(300);
    const struct request request = {.wants = 1, .want = &want};
    const struct refusal_key key = {.request = &request, .names = 7, .room = 0};
    enum reason reason = REASON_NONE;
    struct strbuf out;

    strbuf_init(&out);
    assert_false(hints_answer_find(scene->hints, &key, &out, &reason));
    hints_answer_keep(scene->hints, &key, TEXT("bytes"), REASON_ROOM);
    assert_true(hints_answer_find(scene->hints, &key, &out, &reason));
    strbuf_done(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_offer_stands_against_its_place_for_two_seconds),
        TEST(a_pod_is_no_ghost_to_itself),
        TEST(a_bound_pod_leaves_no_ghost),
        TEST(a_list_that_led_to_no_bind_makes_the_next_one_four_times_longer),
        TEST(a_list_of_one_was_no_choice_and_does_not_grow),
        TEST(a_list_never_grows_beyond_all_nodes),
        TEST(offers_are_bounded_and_the_oldest_go_first),
        TEST(a_refused_pod_waits_until_it_is_settled),
        TEST(the_bell_has_a_reason_only_where_a_waiting_request_fits),
        TEST(the_same_refusal_is_answered_with_the_same_bytes),
        TEST(room_that_never_came_is_a_key_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
