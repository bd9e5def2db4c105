#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/waiting/waiting_pods.h"

#include "support/test.h"

struct scene {
    struct waiting_pods *waiting_pods;
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

    scene->waiting_pods = waiting_pods_new();
    scene->names = names_new();
    const struct gpu gpu = {.id = names_intern(scene->names, TEXT("n/gpu-0")),
                            .model = names_intern(scene->names, TEXT("A100")),
                            .milli = 1000,
                            .mib = 81920};
    const struct node_build build = {.name = names_intern(scene->names, TEXT("n")),
                                     .uid = names_intern(scene->names, TEXT("u")),
                                     .problem_text = names_intern(scene->names, TEXT("")),
                                     .source = SOURCE_ALLOCATABLE,
                                     .n_gpus = 1,
                                     .gpu = &gpu};
    scene->node = node_new(&build);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    waiting_pods_free(scene->waiting_pods);
    node_unref(scene->node);
    names_free(scene->names);
    xfree(scene);
    return 0;
}

#define SCENE_TEST(name) TEST_WITH(name, struct scene *scene, set_up, tear_down)

static const char *uid_of(const char *prefix, int number)
{
    static _Thread_local char uid[32];

    (void)snprintf(uid, sizeof uid, "%s-%d", prefix, number);
    return uid;
}

static struct asking_pod who(const char *uid, const struct request *request, int64_t now_ms)
{
    return (struct asking_pod){.uid = uid,
                               .namespace = "default",
                               .name = uid,
                               .request = request,
                               .now_ms = now_ms,
                               .wall_ms = now_ms};
}

/* Offers a list that names listed of the fitting nodes; the best is the scene's node. */
static void offer_of(struct scene *scene, const char *uid, int64_t now_ms, uint32_t listed,
                     uint32_t fitting)
{
    struct want want = one_want(300);
    const struct request request = {.n_wants = 1, .want = &want};
    struct placement *placement = xcalloc(1, sizeof *placement);
    placement->n_parts = 1;
    const struct candidate best = {.node = scene->node, .placement = placement};
    const struct asking_pod asking_pod = who(uid, &request, now_ms);
    const struct shortlist offered = {
        .names = fitting, .fitting = fitting, .listed = listed, .best = &best};

    waiting_pods_shortlisted(scene->waiting_pods, &asking_pod, &offered);
    xfree(placement);
}

static void make_offer(struct scene *scene, const char *uid, int64_t now_ms)
{
    offer_of(scene, uid, now_ms, 16, 300);
}

static void refuse(struct scene *scene, const char *uid, uint32_t milli, int64_t now_ms)
{
    struct want want = one_want(milli);
    const struct request request = {.n_wants = 1, .want = &want};
    const struct asking_pod asking_pod = who(uid, &request, now_ms);

    waiting_pods_refused(scene->waiting_pods, &asking_pod, REASON_ROOM,
                         "no GPU with so many milli free");
}

static bool would_fit(struct scene *scene, int64_t now_ms)
{
    const struct node *node = scene->node;

    return waiting_pods_would_fit(scene->waiting_pods, NULL, now_ms, &node, 1);
}

static bool late(struct scene *scene, int64_t now_ms, uint64_t room)
{
    const struct atom *node;

    const bool wakes = waiting_pods_mark_late(scene->waiting_pods, now_ms, room, &node);

    atom_unref(node);
    return wakes;
}

/* Whether it fits does not depend on the host: else each pod could cost a search of its own. */
/* Else each pod could cost a search of its own. */
SCENE_TEST(request_class__ignores_the_cpu)
{
    struct want want = one_want(300);
    size_t bytes[2];

    for (uint32_t i = 0; i < 2; i++) {
        const struct request request = {.n_wants = 1, .want = &want, .host = {(i + 1) * 1000, 0}};
        const struct asking_pod asking_pod = who(uid_of("pod", (int)i), &request, 1000);
        waiting_pods_refused(scene->waiting_pods, &asking_pod, REASON_ROOM,
                             "no GPU with 300 milli free");
        bytes[i] = waiting_pods_bytes(scene->waiting_pods).request_classes;
    }
    assert_true(bytes[0] > 0);
    assert_int_equal(bytes[1], bytes[0]);
}

SCENE_TEST(offer__blocks_its_place_for_two_seconds)
{
    static struct offer offer[OFFERS_MAX];

    make_offer(scene, "a", 1000);
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("b"), 1000, offer), 1);
    assert_int_equal(offer[0].milli, 300);
    assert_ptr_equal(offer[0].gpu, scene->node->gpu[0].id);
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("b"), 2999, offer), 1);
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("b"), 3000, offer), 0);
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("a"), 1000, offer),
                     0); /* its own */
    waiting_pods_resolved(scene->waiting_pods, TEXT("a"));
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("b"), 1000, offer), 0);
}

/* It takes its place itself then. */
SCENE_TEST(offer__ends_with_the_reservation)
{
    static struct offer offer[OFFERS_MAX];

    make_offer(scene, "a", 1000);
    make_offer(scene, "c", 1000);
    waiting_pods_fits(scene->waiting_pods, TEXT("a"));
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("b"), 1000, offer), 1);
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("c"), 1000, offer), 0);
    waiting_pods_fits(scene->waiting_pods, TEXT("a")); /* has none left */
    assert_true(late(scene, 2000, 0));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1); /* c */
}

SCENE_TEST(shortlist__grows_fourfold_without_a_bind)
{
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("a"), 16), 16);
    make_offer(scene, "a", 0);
    for (int i = 0; i < 5; i++) /* looking up the length gives no list */
        assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("a"), 16), 64);
    offer_of(scene, "a", 1, 64, 300);
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("a"), 16), 256);
    offer_of(scene, "b", 0, 12, 12); /* all that fits */
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("b"), 16), 16);
}

SCENE_TEST(shortlist__does_not_grow_after_a_bind)
{
    make_offer(scene, "a", 0);
    waiting_pods_binding(scene->waiting_pods, TEXT("a"));
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("a"), 16), 16);
    assert_false(late(scene, 5000, 0));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 0);
}

SCENE_TEST(shortlist__does_not_grow_beyond_all_nodes)
{
    for (int64_t now = 0; now < 100000; now += 2000) {
        make_offer(scene, "a", now);
        assert_true(waiting_pods_shortlist(scene->waiting_pods, TEXT("a"), 16) <= NODES_MAX);
    }
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("a"), 0), 0);
}

SCENE_TEST(late_offer__is_reported_once_for_each_short_list)
{
    make_offer(scene, "a", 1000);
    offer_of(scene, "b", 1500, 12, 12);
    assert_false(late(scene, 1999, 0));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 0);
    assert_true(late(scene, 2000, 0));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1);
    assert_false(late(scene, 9000, 0)); /* b was offered every node that fits */
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 2);
    offer_of(scene, "a", 9000, 64, 300);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1);
    assert_true(late(scene, 10000, 0));
}

SCENE_TEST(late_offer__has_a_known_time)
{
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 1000), INT64_MAX);
    make_offer(scene, "a", 1000);
    make_offer(scene, "b", 1500);
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 1000), 1000);
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 1999), 1);
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 2000), 0);
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 9000), 0);
    assert_true(late(scene, 2000, 0));
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 2000), 500);
    (void)late(scene, 2500, 0);
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, 2500), INT64_MAX);
}

/* Preemption, and the node that it nominated, lead to questions about one node. */
SCENE_TEST(late_offer__outlasts_a_question_about_one_node)
{
    make_offer(scene, "a", 1000);
    offer_of(scene, "a", 1500, 1, 1);
    assert_true(late(scene, 2500, 0));
    offer_of(scene, "b", 3000, 1, 1);
    assert_false(late(scene, 9000, 0));
}

SCENE_TEST(late_offer__is_short_when_room_came_behind_it)
{
    offer_of(scene, "a", 0, 12, 12);
    assert_true(late(scene, 1000, 1));
}

static void offer_sample(struct scene *scene, int64_t now_ms, uint32_t names, uint32_t nodes)
{
    struct want want = one_want(300);
    const struct request request = {.n_wants = 1, .want = &want};
    const struct asking_pod asking_pod = who("a", &request, now_ms);
    const struct shortlist offered = {
        .nodes = nodes, .names = names, .fitting = names, .listed = names};

    waiting_pods_shortlisted(scene->waiting_pods, &asking_pod, &offered);
}

SCENE_TEST(samples__of_a_large_cluster_cover_each_node_before_waking_ends)
{
    int64_t now = 0;

    /* Some samples may be the same: 900 of 300 nodes are offered. */
    for (int i = 0; i < 7; i++, now += 1000) {
        offer_sample(scene, now, 144, 300);
        assert_int_equal(late(scene, now + 1000, 0), i < 6);
    }
    offer_sample(scene, now, 144, 300);
    assert_false(late(scene, now + 1000, 0));
}

/* kube-scheduler leaves out no node where fewer than a hundred fit. */
SCENE_TEST(samples__are_complete_when_few_nodes_fit)
{
    offer_sample(scene, 0, 99, 300);
    assert_false(late(scene, 1000, 0));
}

SCENE_TEST(late_offer__waits_for_room)
{
    offer_of(scene, "a", 0, 12, 12);
    assert_false(would_fit(scene, 0));
    assert_false(late(scene, 1000, 0));
    assert_true(would_fit(scene, 1000));
}

static void fill(struct scene *scene, int64_t from_ms, bool refused)
{
    for (int i = 0; i < WAITING_MAX; i++)
        if (refused)
            refuse(scene, uid_of("pod", i), 1000, from_ms + i);
        else
            make_offer(scene, uid_of("pod", i), from_ms + i);
}

SCENE_TEST(offers__are_limited_and_the_oldest_goes_first)
{
    static struct offer offer[OFFERS_MAX];

    fill(scene, 0, false);
    make_offer(scene, "one-more", WAITING_MAX);
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("x"), WAITING_MAX, offer),
                     OFFERS_MAX);
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("pod-1"), 16), 64);
    /*
     * A pod whose list cannot be remembered gets every node, because its next list would be no
     * longer.
     */
    assert_int_equal(waiting_pods_shortlist(scene->waiting_pods, TEXT("pod-0"), 16), 0);
    assert_true(waiting_pods_overflowed(scene->waiting_pods, WAITING_MAX));
    assert_int_equal(waiting_pods_late_in_ms(scene->waiting_pods, WAITING_MAX),
                     0); /* the one that went */
}

SCENE_TEST(offers__make_room_for_refusals)
{
    struct waiting found;
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    make_offer(scene, "offered", 0);
    fill(scene, 1, true);
    assert_false(waiting_pods_find(scene->waiting_pods, TEXT("offered"), &arena, &found));
    assert_true(waiting_pods_find(scene->waiting_pods, TEXT("pod-16383"), &arena, &found));
    make_offer(scene, "offered", 20000);
    assert_false(waiting_pods_find(scene->waiting_pods, TEXT("offered"), &arena, &found));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), WAITING_MAX);
}

/* Such a pod does not wait, and the watch will show it bound. */
SCENE_TEST(pods_with_a_reservation__make_room_for_refusals)
{
    struct waiting found;
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    make_offer(scene, "reserved", 0);
    waiting_pods_fits(scene->waiting_pods, TEXT("reserved"));
    fill(scene, 1, true);
    assert_true(waiting_pods_find(scene->waiting_pods, TEXT("pod-16383"), &arena, &found));
    assert_false(waiting_pods_overflowed(scene->waiting_pods, WAITING_MAX));
}

/* The table is full of requests for whole GPUs; the one not remembered asked for less. */
SCENE_TEST(full_table__is_woken_by_any_room_until_all_asked_again)
{
    struct want want = {.container = "c", .kind = CONTAINER_APP, .parts = 2, .milli = 1000};
    const struct request never = {.n_wants = 1, .want = &want};

    for (int i = 0; i < WAITING_MAX; i++) {
        const struct asking_pod asking_pod = who(uid_of("pod", i), &never, 0);
        waiting_pods_refused(scene->waiting_pods, &asking_pod, REASON_FEW, "too few");
    }
    assert_false(would_fit(scene, 1000));
    assert_false(waiting_pods_overflowed(scene->waiting_pods, 1000));
    refuse(scene, "one-more", 300, 1000);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), WAITING_MAX);
    assert_true(waiting_pods_overflowed(scene->waiting_pods, 2000));
    assert_true(would_fit(scene, 2000));
    assert_false(waiting_pods_would_fit(scene->waiting_pods, NULL, 2000, NULL, 0));
    assert_true(would_fit(scene, 1000 + SILENT_MAX_MS - 1));
    assert_false(would_fit(scene, 1000 + SILENT_MAX_MS));
}

SCENE_TEST(refused_pod__waits_until_it_is_resolved)
{
    struct waiting found;
    CLEANUP(arena_done) struct arena arena;

    refuse(scene, "a", 300, 5000);
    refuse(scene, "a", 300, 9000);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1);
    arena_init(&arena);
    assert_true(waiting_pods_find(scene->waiting_pods, TEXT("a"), &arena, &found));
    assert_int_equal(found.since_ms, 5000);
    assert_int_equal(found.last_ms, 9000);
    assert_int_equal(found.n_asks, 2);
    waiting_pods_fits(scene->waiting_pods, TEXT("a"));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 0);
    refuse(scene, "a", 300, 9500);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1);
    waiting_pods_resolved(scene->waiting_pods, TEXT("a"));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 0);
}

static size_t named(struct scene *scene, struct arena *arena)
{
    struct waiting_names names;
    size_t count = 0;

    for (size_t place = 0; waiting_pods_names(scene->waiting_pods, &place, arena, &names);)
        count += names.count;
    return count;
}

SCENE_TEST(held_pod__is_readable_after_it_was_resolved)
{
    struct waiting a;
    struct waiting b;
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    refuse(scene, "a", 300, 1000);
    make_offer(scene, "b", 1000);
    assert_int_equal(named(scene, &arena), 1); /* b is not late yet */
    assert_false(waiting_pods_hold(scene->waiting_pods, TEXT("b"), &arena, &b));
    (void)late(scene, 2000, 0);
    assert_int_equal(named(scene, &arena), 2);
    assert_true(waiting_pods_hold(scene->waiting_pods, TEXT("a"), &arena, &a));
    assert_true(waiting_pods_hold(scene->waiting_pods, TEXT("b"), &arena, &b));
    waiting_pods_resolved(scene->waiting_pods, TEXT("a"));
    waiting_pods_resolved(scene->waiting_pods, TEXT("b"));
    assert_int_equal(a.request->want[0].milli, 300);
    assert_int_equal(b.request->want[0].milli, 300);
    assert_int_equal(a.offered, 0);
    assert_int_equal(b.offered, 16);
    assert_string_equal(a.text, "no GPU with so many milli free");
    assert_string_equal(b.text, "offered 16 of 300, not bound");
    waiting_pods_let_go(scene->waiting_pods, &a);
    waiting_pods_let_go(scene->waiting_pods, &b);
    assert_false(waiting_pods_hold(scene->waiting_pods, TEXT("a"), &arena, &a));
    assert_int_equal(named(scene, &arena), 0);
}

/* Filter calls come in between, and other pods come and go. */
SCENE_TEST(waiting_names__name_a_pod_once)
{
    enum { OTHERS = 3 * SLICE_MAX };
    struct waiting_names names;
    CLEANUP(arena_done) struct arena arena;
    unsigned seen = 0;

    arena_init(&arena);
    for (int i = 0; i < OTHERS; i++)
        refuse(scene, i == OTHERS / 2 ? "stays" : uid_of("pod", i), 300, 0);
    for (size_t place = 0; waiting_pods_names(scene->waiting_pods, &place, &arena, &names);) {
        for (size_t i = 0; i < names.count; i++)
            seen += strcmp(names.uid[i], "stays") == 0;
        for (int i = 0; i < 100; i++) {
            waiting_pods_resolved(scene->waiting_pods,
                                  text_of(uid_of("pod", (int)(place % OTHERS) + i)));
            refuse(scene, uid_of("new", (int)place * 100 + i), 300, 0);
        }
    }
    assert_int_equal(seen, 1);
}

SCENE_TEST(resolved_pod__does_not_wait_again)
{
    waiting_pods_resolved(scene->waiting_pods, TEXT("a"));
    refuse(scene, "a", 300, 1000);
    make_offer(scene, "a", 1000);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 0);
    assert_false(late(scene, 3000, 0));
    for (int i = 0; i < RESOLVED_MAX; i++) /* only this many are remembered */
        waiting_pods_resolved(scene->waiting_pods, text_of(uid_of("pod", i)));
    refuse(scene, "a", 300, 1000);
    refuse(scene, "pod-0", 300, 1000);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1);
}

static enum watched_pod only_b_is_there(void *user, struct text uid)
{
    (void)user;
    return text_is(uid, "b")   ? WATCHED_POD_UNBOUND
           : text_is(uid, "c") ? WATCHED_POD_BOUND
                               : WATCHED_POD_UNKNOWN;
}

SCENE_TEST(list__ends_the_wait_of_older_unknown_pods)
{
    struct waiting found;
    CLEANUP(arena_done) struct arena arena;

    arena_init(&arena);
    refuse(scene, "a", 300, 1000);
    refuse(scene, "b", 300, 1000);
    refuse(scene, "c", 300, 1000);
    make_offer(scene, "d", 1000);
    refuse(scene, "e", 300, 2000);
    waiting_pods_listed(scene->waiting_pods, 2000, NULL, only_b_is_there);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 2);
    assert_true(waiting_pods_find(scene->waiting_pods, TEXT("b"), &arena, &found));
    assert_true(waiting_pods_find(scene->waiting_pods, TEXT("e"), &arena,
                                  &found)); /* newer than the list */
    assert_false(waiting_pods_find(scene->waiting_pods, TEXT("d"), &arena, &found));
}

SCENE_TEST(unknown_pod__is_forgotten_when_kube_scheduler_has_forgotten_it)
{
    for (int i = 0; i < 3 * SLICE_MAX; i++)
        refuse(scene, uid_of("pod", i), 300, 0);
    refuse(scene, "b", 300, 0);
    for (int i = 0; i < 4; i++)
        waiting_pods_maintain(scene->waiting_pods, SILENT_MAX_MS, NULL, only_b_is_there);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 3 * SLICE_MAX + 1);
    for (int i = 0; i < 8; i++) /* a few per call */
        waiting_pods_maintain(scene->waiting_pods, SILENT_MAX_MS + 1, NULL, only_b_is_there);
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 1);
}

SCENE_TEST(wake__needs_a_waiting_request_that_fits)
{
    struct want whole = {.container = "c", .kind = CONTAINER_APP, .parts = 2, .milli = 1000};
    const struct request never = {.n_wants = 1, .want = &whole};
    const struct asking_pod big = who("big", &never, 0);

    assert_false(would_fit(scene, 0));
    waiting_pods_refused(scene->waiting_pods, &big, REASON_FEW, "too few");
    assert_false(would_fit(scene, 0));
    refuse(scene, "little", 300, 0);
    assert_true(would_fit(scene, 0));
}

/* Requests of many different sizes, none of which any node can fit. */
static void refuse_kinds(struct scene *scene, int kinds, int pods)
{
    for (int i = 0; i < pods; i++) {
        struct want want = {.container = "c",
                            .kind = CONTAINER_APP,
                            .parts = 2,
                            .milli = (uint32_t)(1 + i % kinds)};
        const struct request request = {.n_wants = 1, .want = &want};
        const struct asking_pod asking_pod = who(uid_of("kind", i), &request, 0);
        waiting_pods_refused(scene->waiting_pods, &asking_pod, REASON_FEW, "too few");
    }
}

SCENE_TEST(wake__costs_the_distinct_requests_only)
{
    refuse_kinds(scene, REQUEST_CLASSES_TRIED_MAX, 5000);
    assert_false(would_fit(scene, 0));
    refuse_kinds(scene, REQUEST_CLASSES_TRIED_MAX + 1,
                 5000); /* too many kinds to try: in doubt, wake */
    assert_true(would_fit(scene, 0));
    for (int i = REQUEST_CLASSES_TRIED_MAX; i < 5000; i += REQUEST_CLASSES_TRIED_MAX + 1)
        waiting_pods_resolved(scene->waiting_pods,
                              text_of(uid_of("kind", i))); /* its kind goes with the last */
    assert_false(would_fit(scene, 0));
}

/* Expensive waiting requests must not hold up the writer: past a bound it wakes without looking. */
SCENE_TEST(wake__has_a_limited_search)
{
    enum { NODES = 5000, FEW = 100, SMALL = 126 };
    struct want want[SMALL];
    /* Each share fits alone, but with all of them no GPU is left for the whole one. */
    const struct request request = {.n_wants = SMALL, .want = want, .whole = 1};
    const struct asking_pod asking_pod = who("dear", &request, 0);
    const struct node **node = xcalloc(NODES, sizeof *node);
    for (uint32_t w = 0; w < SMALL; w++)
        want[w] = one_want(1);
    for (uint32_t i = 0; i < NODES; i++)
        node[i] = scene->node;
    waiting_pods_refused(scene->waiting_pods, &asking_pod, REASON_ROOM, "no");
    assert_false(waiting_pods_would_fit(scene->waiting_pods, NULL, 0, node, FEW));
    assert_true(waiting_pods_would_fit(scene->waiting_pods, NULL, 0, node, NODES));
    xfree(node);
}

/*
 * Filter refused it because the steps ran out; the waker must search no further, or it would wake
 * the pod for ever.
 */
SCENE_TEST(wake__evaluates_as_filter_does)
{
    struct want want[3] = {one_want(600), one_want(300), one_want(101)};
    const struct request request = {.n_wants = 3, .want = want};
    const struct asking_pod asking_pod = who("several", &request, 0);
    struct room room;
    struct plan plan;
    struct rank rank;
    waiting_pods_refused(scene->waiting_pods, &asking_pod, REASON_ROOM, "no");
    for (int fits = 0; fits < 2; fits++) {
        want[2].milli = fits == 0 ? 101 : 100;
        const struct asking_pod again = who("several", &request, 0);
        waiting_pods_refused(scene->waiting_pods, &again, REASON_ROOM, "no");
        room_of(scene->node, &room);
        plan_init(&plan, &request, NULL);
        assert_int_equal(place_evaluate(&plan, &room, &rank) == REASON_NONE, fits);
        assert_int_equal(would_fit(scene, 0), fits);
    }
}

struct changer {
    struct scene *scene;
    atomic_bool over;
};

/* Kinds of requests come and go all the time. */
static void *come_and_go(void *user)
{
    struct changer *changer = user;

    for (int i = 0; !atomic_load(&changer->over); i++) {
        const char *uid = uid_of("pod", i % 200);
        if (i % 3 == 0)
            make_offer(changer->scene, uid, i);
        else
            refuse(changer->scene, uid, (uint32_t)(1 + i % 70), i);
        if (i % 5 == 0)
            waiting_pods_fits(changer->scene->waiting_pods, text_of(uid));
    }
    return NULL;
}

SCENE_TEST(request_classes__may_change_during_a_search)
{
    struct changer changer = {.scene = scene};
    pthread_t thread[2];

    for (size_t i = 0; i < ARRAY_LEN(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, &changer), 0);
    for (int i = 0; i < 3000; i++) {
        (void)would_fit(scene, i);
        (void)late(scene, i, 0);
    }
    atomic_store(&changer.over, true);
    for (size_t i = 0; i < ARRAY_LEN(thread); i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 200; i++)
        waiting_pods_resolved(scene->waiting_pods, text_of(uid_of("pod", i)));
    assert_int_equal(waiting_pods_count(scene->waiting_pods), 0);
    assert_false(would_fit(scene, 0));
}

/* A tenant names containers as it likes, and whether a request fits does not depend on the host. */
SCENE_TEST(refusal__is_answered_with_the_same_bytes)
{
    static const struct {
        uint32_t milli;
        const char *container;
        struct host host;
        uint64_t names;
        uint64_t capacity_generation;
        bool found;
    } row[] = {{300, "c", {1000, 64}, 7, 3, true},       {300, "c", {1000, 64}, 7, 4, false},
               {300, "c", {1000, 64}, 8, 3, false},      {301, "c", {1000, 64}, 7, 3, false},
               {300, "another", {1000, 64}, 7, 3, true}, {300, "c", {2000, 0}, 7, 3, true}};
    struct want want = one_want(300);
    struct request request = {.n_wants = 1, .want = &want, .host = {1000, 64}};
    struct refusal_key key = {.request = &request, .names = 7, .capacity_generation = 3};

    waiting_pods_keep_refusal(scene->waiting_pods, &key, TEXT("bytes"),
                              (struct cause){.why = REASON_UNSEARCHED});
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        CLEANUP(strbuf_done) struct strbuf out;
        struct cause cause = {.why = REASON_NONE};
        strbuf_init(&out);
        want = one_want(row[i].milli);
        want.container = row[i].container;
        request.host = row[i].host;
        key.names = row[i].names;
        key.capacity_generation = row[i].capacity_generation;
        assert_int_equal(waiting_pods_find_refusal(scene->waiting_pods, &key, &out, &cause),
                         row[i].found);
        if (row[i].found)
            assert_string_equal(out.data, "bytes");
        assert_int_equal(cause.why, row[i].found ? REASON_UNSEARCHED : REASON_NONE);
    }
}

/* The generation is 0 after a start with a ledger in which nothing has changed since. */
SCENE_TEST(refusal__is_kept_in_generation_0)
{
    CLEANUP(strbuf_done) struct strbuf out;
    struct want want = one_want(300);
    const struct request request = {.n_wants = 1, .want = &want};
    const struct refusal_key key = {.request = &request, .names = 7, .capacity_generation = 0};
    struct cause cause = {.why = REASON_NONE};

    strbuf_init(&out);
    assert_false(waiting_pods_find_refusal(scene->waiting_pods, &key, &out, &cause));
    waiting_pods_keep_refusal(scene->waiting_pods, &key, TEXT("bytes"),
                              (struct cause){.why = REASON_ROOM});
    assert_true(waiting_pods_find_refusal(scene->waiting_pods, &key, &out, &cause));
}

/* The names that hints keep, beside those of the node. */
SCENE_TEST(waiting_pods__keep_the_names_of_a_freed_node)
{
    struct offer offer[OFFERS_MAX];
    const struct atom *node;

    make_offer(scene, "a", 1000);
    make_offer(scene, "b", 1000);
    make_offer(scene, "b", 1001); /* the place before goes, and its names stay counted once */
    node_unref(scene->node);
    scene->node = NULL;
    names_sweep(scene->names, SIZE_MAX / 4);
    assert_int_equal(names_count(scene->names), 2); /* node and GPU */
    assert_int_equal(waiting_pods_offers(scene->waiting_pods, TEXT("c"), 1002, offer), 2);
    assert_ptr_equal(offer[0].gpu, names_find(scene->names, TEXT("n/gpu-0")));
    assert_true(waiting_pods_mark_late(scene->waiting_pods, 1000000, 0, &node)); /* both are late */
    waiting_pods_free(scene->waiting_pods);
    scene->waiting_pods = NULL;
    names_sweep(scene->names, SIZE_MAX / 4);
    assert_int_equal(names_count(scene->names), 1);
    assert_string_equal(node->text, "n");
    atom_unref(node);
    names_sweep(scene->names, SIZE_MAX / 4);
    assert_int_equal(names_count(scene->names), 0);
}
