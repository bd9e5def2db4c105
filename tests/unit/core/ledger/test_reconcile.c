#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"

#include "support/core_fixture.h"
#include "support/draw.h"
#include "support/test.h"
#include "support/walk.h"

static const struct core_gpu two_a100[] = {{.id = "GPU-a", .index = 0, .mib = 81920},
                                           {.id = "GPU-b", .index = 1, .mib = 81920}};

/* Executes the commands of reconcile and returns them as text: "release(ended) observe". */
static const char *reconcile(struct core_fixture *core, const struct pod *pod, const char *words)
{
    static char said[128];
    struct command command[RECONCILE_MAX];
    const struct request *request = words != NULL ? core_request(core, words) : NULL;
    const size_t count = reconcile_pod(core->ledger, pod, request, ++core->now_ms, command);

    said[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const size_t at = strlen(said);
        (void)snprintf(said + at, sizeof said - at, "%s%s%s%s%s", at > 0 ? " " : "",
                       command_name(command[i].kind), command[i].why != NULL ? "(" : "",
                       command[i].why != NULL ? command[i].why : "",
                       command[i].why != NULL ? ")" : "");
        assert_int_equal(core_do(core, &command[i]), VERDICT_OK);
    }
    return said;
}

static const struct allocation *row(const struct core_fixture *core, const char *uid)
{
    return ledger_find(core->ledger, text_of(uid));
}

/* A name of one letter is a name. */
CORE_TEST(reconcile__confirms_a_reservation_whose_pod_is_bound)
{
    (void)core_node(core, "n", two_a100, 2);
    (void)core_reserve(core, "a", "n", "300");
    assert_string_equal(reconcile(core, core_pod(core, "a", ""), "300"), "");
    struct pod *pod = core_pod(core, "a", "n");
    core_note(core, pod, "c0 GPU-a 300 24576");
    assert_string_equal(reconcile(core, pod, "300"), "confirm");
    assert_int_equal(row(core, "a")->facts.state, STATE_BOUND);
    assert_string_equal(reconcile(core, pod, "300"), "");
    /* An event from before the Binding changes nothing. */
    assert_string_equal(reconcile(core, core_pod(core, "a", ""), "300"), "");
    assert_string_equal(reconcile(core, core_pod(core, "b", ""), "300"), "");
    assert_string_equal(reconcile(core, core_pod(core, "c", "n"), "300"), "observe");
}

CORE_TEST(reconcile__releases_at_the_end_not_at_the_deletion_timestamp)
{
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "a", "n1");
    assert_string_equal(reconcile(core, pod, "300"), "observe");
    pod->terminating_ms = 99;
    assert_string_equal(reconcile(core, pod, "300"), "terminating");
    assert_string_equal(reconcile(core, pod, "300"), "");
    assert_int_equal(row(core, "a")->facts.terminating_ms, 99);
    pod->terminating_ms = 0; /* an old event */
    assert_string_equal(reconcile(core, pod, "300"), "");
    pod->phase = POD_FAILED;
    assert_string_equal(reconcile(core, pod, "300"), "release(ended)");
    assert_string_equal(reconcile(core, pod, "300"), "");
    pod->phase = POD_SUCCEEDED;
    assert_string_equal(reconcile(core, pod, "300"), "");
}

/* Executes the command of reconcile for a pod in a complete list; false: there is none. */
static bool list_unbound(struct core_fixture *core, const char *uid)
{
    struct command command[RECONCILE_MAX];
    const size_t count =
        reconcile_listed_unbound(core->ledger, core_pod(core, uid, ""), ++core->now_ms, command);
    assert_true(count <= 1);
    if (count == 1) {
        assert_int_equal(core_do(core, &command[0]), VERDICT_OK);
        assert_true(core->done[core->n_done - 1].unwritten);
    }
    return count == 1;
}

CORE_TEST(listed_unbound__marks_a_bound_row_until_its_pod_is_bound)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    assert_false(list_unbound(core, "b"));
    assert_false(list_unbound(core, "a")); /* its Binding may be on its way */
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-b 300 24576");
    assert_string_equal(reconcile(core, pod, "300"), "confirm note");
    assert_false(row(core, "a")->facts.listed_unbound);
    assert_true(list_unbound(core, "a"));
    assert_false(list_unbound(core, "a"));
    assert_true(row(core, "a")->facts.listed_unbound);
    assert_true(row(core, "a")->facts.annotation_differs);
    assert_int_equal(row(core, "a")->facts.state, STATE_BOUND);
    assert_int_equal(core_gpu(core, "n1", "GPU-a")->used_milli, 300);
    assert_string_equal(reconcile(core, core_pod(core, "a", ""), "300"), "");
    assert_string_equal(reconcile(core, pod, "300"), "note");
    assert_true(core->done[core->n_done - 1].unwritten);
    assert_false(row(core, "a")->facts.listed_unbound);
    assert_true(row(core, "a")->facts.annotation_differs);
    assert_string_equal(reconcile(core, pod, "300"), "");
    /* Both at once: the annotation is written. */
    assert_true(list_unbound(core, "a"));
    core_note(core, pod, "c0 GPU-a 300 24576");
    assert_string_equal(reconcile(core, pod, "300"), "note");
    assert_false(core->done[core->n_done - 1].unwritten);
    assert_false(row(core, "a")->facts.listed_unbound || row(core, "a")->facts.annotation_differs);
}

CORE_TEST(listed_unbound__ends_with_the_row)
{
    const struct command note = {.kind = COMMAND_NOTE, .uid = "c", .unbound = true};
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", two_a100, 2);
    assert_string_equal(reconcile(core, core_pod(core, "a", "n1"), "300"), "observe");
    assert_string_equal(reconcile(core, core_pod(core, "b", "n1"), "300"), "observe");
    assert_true(list_unbound(core, "a"));
    assert_true(list_unbound(core, "b"));
    struct pod *pod = core_pod(core, "a", "");
    pod->phase = POD_FAILED;
    assert_string_equal(reconcile(core, pod, "300"), "release(ended)");
    assert_false(core->done[core->n_done - 1].unwritten);
    assert_false(core->done[core->n_done - 1].after->facts.listed_unbound);
    assert_string_equal(reconcile(core, core_pod(core, "b", "n2"), "300"),
                        "release(elsewhere) observe");
    assert_false(row(core, "b")->facts.listed_unbound);
    (void)core_reserve(core, "c", "n1", "300");
    assert_int_equal(core_do(core, &note), VERDICT_SAME); /* a reservation is not marked */
}

CORE_TEST(reconcile__releases_a_deleted_pod)
{
    struct command command[RECONCILE_MAX];
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    assert_int_equal(reconcile_gone(core->ledger, "a", 5000, command), 1);
    assert_string_equal(command[0].why, "gone");
    assert_string_equal(command[0].name, "pod");
    assert_int_equal(core_do(core, &command[0]), VERDICT_OK);
    assert_int_equal(core->done[core->n_done - 1].after->facts.released_ms, 5000);
    assert_int_equal(reconcile_gone(core->ledger, "a", 5000, command), 0);
}

CORE_TEST(reconcile__follows_the_node_of_the_api_server)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_node(core, "n2", NULL, 0);
    (void)core_reserve(core, "a", "n1", "300");
    struct pod *pod = core_pod(core, "a", "n2");
    assert_string_equal(reconcile(core, pod, "300"), "release(elsewhere) observe");
    assert_string_equal(row(core, "a")->facts.node->text, "n2");
    assert_int_equal(row(core, "a")->facts.origin, ORIGIN_ADOPTED);
    assert_string_equal(reconcile(core, pod, "300"), "");
    assert_string_equal(reconcile(core, core_pod(core, "a", "n1"), NULL), "release(elsewhere)");
}

CORE_TEST(reconcile__prefers_the_row_to_the_annotation)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "a", "n1", "300");
    struct pod *pod = core_pod(core, "a", "n1");
    core_note(core, pod, "c0 GPU-b 300 24576");
    assert_string_equal(reconcile(core, pod, "300"), "confirm note");
    assert_true(row(core, "a")->facts.annotation_differs);
    assert_int_equal(core_gpu(core, "n1", "GPU-b")->used_milli, 0);
    assert_string_equal(reconcile(core, pod, "300"), "");
    core_note(core, pod, "c0 n1/gpu-0 300 24576"); /* the same GPU by its other name */
    assert_string_equal(reconcile(core, pod, "300"), "note");
    assert_false(row(core, "a")->facts.annotation_differs);
    pod->annotation = NOTE_BROKEN;
    assert_string_equal(reconcile(core, pod, "300"), "note");
    pod->annotation = NOTE_NONE; /* granted pods always have one */
    assert_string_equal(reconcile(core, pod, "300"), "");
    core_note(core, pod, "c0 GPU-a 300 24576,c1 GPU-b 1 1");
    assert_string_equal(reconcile(core, pod, "300"), "");
    core_note(core, pod, "c0 GPU-a 300 24576");
    assert_string_equal(reconcile(core, pod, "300"), "note");
}

CORE_TEST(reconcile__ignores_a_pod_without_gpus)
{
    (void)core_node(core, "n1", two_a100, 2);
    struct pod *pod = core_pod(core, "a", "n1");
    assert_string_equal(reconcile(core, pod, NULL), "");
    pod->whole_gpus = 1;
    assert_string_equal(reconcile(core, pod, NULL), "observe");
    assert_string_equal(reconcile(core, pod, NULL), "");
}

CORE_TEST(reconcile__needs_no_annotation_for_whole_gpus)
{
    (void)core_node(core, "n1", two_a100, 2);
    const struct request whole = {.whole = 1};
    assert_int_equal(core_reserve_for(core, "a", "n1", &whole), VERDICT_OK);
    struct pod *pod = core_pod(core, "a", "n1");
    pod->whole_gpus = 1;
    assert_string_equal(reconcile(core, pod, NULL), "confirm");
    assert_string_equal(reconcile(core, pod, NULL), "");
}

CORE_TEST(reconcile__places_an_unplaced_pod_on_new_gpus)
{
    struct pod *pod = core_pod(core, "a", "n1");
    assert_string_equal(reconcile(core, pod, "300x2"), "observe");
    assert_int_equal(row(core, "a")->facts.unplaced_milli, 600);
    (void)core_node(core, "n1", two_a100, 1);
    assert_string_equal(reconcile(core, pod, "300x2"), "release(placed) observe");
    assert_int_equal(row(core, "a")->facts.unplaced_milli, 0);
    assert_int_equal(row(core, "a")->n_charges, 1); /* it cannot have more than the node has */
    assert_string_equal(reconcile(core, pod, "300x2"), "");
    (void)core_node(core, "n1", two_a100, 2);
    assert_string_equal(reconcile(core, pod, "300x2"), "release(placed) observe");
    assert_int_equal(row(core, "a")->n_charges, 2);
    assert_true(row(core, "a")->facts.presumed);
    assert_string_equal(reconcile(core, pod, "300x2"), "");
    (void)core_node(core, "n1", two_a100, 1);
    assert_string_equal(reconcile(core, pod, "300x2"), ""); /* fewer GPUs do not move a row */
}

CORE_TEST(reconcile__places_each_container_on_new_gpus)
{
    struct pod *pod = core_pod(core, "a", "n1");
    assert_string_equal(reconcile(core, pod, "300+200x2"), "observe");
    (void)core_node(core, "n1", two_a100, 1);
    assert_string_equal(reconcile(core, pod, "300+200x2"), "release(placed) observe");
    assert_int_equal(row(core, "a")->facts.n_shares, 2);
    assert_string_equal(reconcile(core, pod, "300+200x2"), "");
    (void)core_node(core, "n1", two_a100, 2);
    assert_string_equal(reconcile(core, pod, "300+200x2"), "release(placed) observe");
    assert_int_equal(row(core, "a")->facts.n_shares, 3);
}

CORE_TEST(reconcile_lacks__needs_a_presumed_pod_with_too_few_parts)
{
    struct pod *pod = core_pod(core, "a", "n1");
    const struct request *request = core_request(core, "300x2");
    (void)core_node(core, "n1", two_a100, 1);
    assert_string_equal(reconcile(core, pod, "300x2"), "observe");
    assert_true(reconcile_lacks(row(core, "a"), request));
    assert_false(reconcile_lacks(row(core, "a"), NULL)); /* its request is refused */
    assert_false(reconcile_lacks(row(core, "a"), &(struct request){.whole = 1}));
    assert_false(reconcile_lacks(row(core, "a"), core_request(core, "600")));
    pod = core_pod(core, "b", "n1");
    core_note(core, pod, "c0 GPU-a 300 1");
    assert_string_equal(reconcile(core, pod, "300"), "observe");
    assert_false(reconcile_lacks(row(core, "b"), request)); /* its annotation lists the shares */
}

CORE_TEST(reconcile__reads_no_container_past_the_last)
{
    struct command command[RECONCILE_MAX];
    struct pod *pod = core_pod(core, "a", "n1");
    assert_string_equal(reconcile(core, pod, "300"), "observe");
    (void)core_node(core, "n1", two_a100, 1);
    struct request *exact = request_clone(core_request(core, "300"));
    assert_int_equal(reconcile_pod(core->ledger, pod, exact, 5000, command), 2);
    xfree(exact);
}

CORE_TEST(reconcile_order__is_rows_then_annotations_then_time)
{
    (void)core_node(core, "n1", two_a100, 2);
    (void)core_reserve(core, "row", "n1", "300");
    struct pod *rowed = core_pod(core, "row", "n1");
    struct pod *noted = core_pod(core, "x-noted", "n1");
    core_note(core, noted, "c0 GPU-a 300 1");
    struct pod *early = core_pod(core, "z", "n1");
    early->scheduled_ms = 10;
    struct pod *late = core_pod(core, "c", "n1");
    late->scheduled_ms = 20;
    struct pod *equal_slot = core_pod(core, "d", "n1");
    equal_slot->scheduled_ms = 20;
    struct pod *never = core_pod(core, "b", "n1");
    struct pod *broken = core_pod(core, "zz", "n1");
    broken->annotation = NOTE_BROKEN;
    rowed->scheduled_ms = 900; /* its row counts, not its time */
    noted->scheduled_ms = 800;
    struct pod *first = core_pod(core, "zzz", "n1");
    first->scheduled_ms = 1; /* 1 is a time; 0 means none */
    struct pod *proven = core_pod(core, "y-signed", "n1");
    core_note(core, proven, "c0 GPU-a 300 1");
    proven->proof = PROOF_SIGNED;
    proven->scheduled_ms = 850;
    noted->proof = PROOF_UNSIGNED;
    early->proof = PROOF_SIGNED; /* without an annotation */
    const struct pod *order[] = {rowed, proven,     noted, first, early,
                                 late,  equal_slot, never, broken};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        for (size_t k = 0; k < ARRAY_LEN(order); k++) {
            const int cmp = reconcile_order(core->ledger, order[i], order[k]);
            assert_true(i < k ? cmp < 0 : i > k ? cmp > 0 : cmp == 0);
        }
}

static uint64_t seed;

static const char *const walk_words[] = {"300", "500x2", "2000", "400+i700"};

static struct pod *walk_pod(struct core_fixture *core, uint32_t number)
{
    static const char *const node[] = {"", "n1", "n2", "n3"};
    static const char *const note[] = {"c0 GPU-a 300 1024", "c0 n1/gpu-1 300 0",
                                       "c0 GPU-a 500 1024,c0 GPU-b 500 1024", "c0 GPU-z 300 1",
                                       "c0 GPU-b 400 1,c1 GPU-b 700 1"};
    char uid[16];
    (void)snprintf(uid, sizeof uid, "pod-%u", number);
    const uint32_t where = draw_below(&seed, ARRAY_LEN(node));
    const uint32_t noted = draw_below(&seed, ARRAY_LEN(note) + 3);
    const uint32_t phase = draw_below(&seed, 8);
    const uint32_t dying = draw_below(&seed, 6);
    const uint32_t whole = draw_below(&seed, 12);
    const uint32_t time = draw_below(&seed, 5);
    struct pod *pod = core_pod(core, uid, node[where]);
    if (noted < ARRAY_LEN(note))
        core_note(core, pod, note[noted]);
    else if (noted == ARRAY_LEN(note))
        pod->annotation = NOTE_BROKEN;
    if (phase == 0)
        pod->phase = POD_SUCCEEDED;
    pod->terminating_ms = dying == 0 ? 77 : 0;
    pod->whole_gpus = whole == 0;
    pod->scheduled_ms = time;
    return pod;
}

static void walk_nodes(struct core_fixture *core)
{
    static const char *const node[] = {"n1", "n2", "n3"};
    const uint32_t which = draw_below(&seed, ARRAY_LEN(node));
    const uint32_t gone = draw_below(&seed, 6);
    const uint32_t counted = draw_below(&seed, 3);
    const uint32_t gpus = draw_below(&seed, 3);
    struct core_gpu gpu[] = {two_a100[0], two_a100[1]};
    if (counted == 0)
        gpu[0].id = gpu[1].id = NULL;
    const struct command leave = {.kind = COMMAND_NODE_GONE, .node = node[which]};
    if (gone == 0)
        (void)core_do(core, &leave);
    else
        (void)core_node(core, node[which], gpu, gpus);
}

static struct ledger *ordered; /* qsort passes no context */

static int by_order(const void *a, const void *b)
{
    const struct pod *const *pod_a = a;
    const struct pod *const *pod_b = b;
    return reconcile_order(ordered, *pod_a, *pod_b);
}

/* I7. */
CORE_TEST(reconcile__changes_nothing_the_second_time)
{
    const char *given = getenv("RECONCILE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    seed = given != NULL ? strtoull(given, NULL, 10) : 7;
    print_message("RECONCILE_SEED=%llu\n", (unsigned long long)seed);

    uint32_t met[COMMANDS] = {0};
    for (int round = 0; round < walk_steps(4000, 300); round++) {
        struct pod *pod[10];
        const char *words[ARRAY_LEN(pod)];
        const uint32_t changes = draw_below(&seed, 3);
        for (uint32_t i = 0; i < changes; i++)
            walk_nodes(core);
        const uint32_t reserved = draw_below(&seed, ARRAY_LEN(pod));
        char uid[16];
        (void)snprintf(uid, sizeof uid, "pod-%u", reserved);
        (void)core_reserve(core, uid, "n1", "300");
        for (uint32_t i = 0; i < ARRAY_LEN(pod); i++)
            pod[i] = walk_pod(core, i);
        ordered = core->ledger;
        qsort(pod, ARRAY_LEN(pod), sizeof pod[0], by_order);
        for (size_t i = 0; i < ARRAY_LEN(pod); i++) {
            const uint32_t asks = draw_below(&seed, ARRAY_LEN(walk_words) + 1);
            words[i] = asks < ARRAY_LEN(walk_words) ? walk_words[asks] : NULL;
        }
        for (int pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < ARRAY_LEN(pod); i++) {
                const size_t dones = core->n_done;
                const char *said = reconcile(core, pod[i], words[i]);
                if (pass == 1 && said[0] != '\0')
                    fail_msg("%s again: %s", pod[i]->uid, said);
                for (size_t k = dones; k < core->n_done; k++)
                    met[core->done[k].kind]++;
            }
        core_forget_undo(core);
        arena_reset(&core->arena);
    }
    static const enum command_kind expected[] = {COMMAND_CONFIRM, COMMAND_RELEASE, COMMAND_ADOPT,
                                                 COMMAND_TERMINATING, COMMAND_NOTE};
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_true(met[expected[i]] > 0);
}
