/*
 * A random walk: the file agrees with the ledger after each step. The default walk is fixed and
 * meets every command; MILLIGPU_SEED=<n> selects another.
 */
#include <stdio.h>

#include "support/test.h"
#include "unit/store/support_shelf.h"

enum { STEPS = 1200, PODS = 24, NODES = 3 };

struct walk {
    struct shelf shelf;
    uint64_t state;
    bool seen[COMMANDS];
    struct tally *tally; /* the last one stored; NULL: none yet */
};

static uint32_t draw(struct walk *walk, uint32_t below)
{
    walk->state ^= walk->state << 13;
    walk->state ^= walk->state >> 7;
    walk->state ^= walk->state << 17;
    return (uint32_t)(walk->state >> 16) % below;
}

static enum verdict show_node(struct walk *walk, const char *node)
{
    struct core_gpu gpu[3] = {
        {.index = 0, .mib = 81920}, {.index = 1, .mib = 81920}, {.index = 2, .mib = 81920}};
    static const char *const ids[] = {"GPU-a", "GPU-b", "GPU-c", "GPU-d"};
    const uint32_t gpus = draw(walk, 4);
    const bool real = draw(walk, 2) == 0;
    const uint32_t first = draw(walk, 2);
    for (uint32_t i = 0; i < gpus; i++) {
        if (real)
            gpu[i].id = ids[i + first];
        gpu[i].sick = draw(walk, 8) == 0;
        gpu[i].cordoned = draw(walk, 8) == 0;
        gpu[i].milli = draw(walk, 8) == 0 ? 500 : 0;
    }
    return core_node(&walk->shelf.core, node, gpu, gpus);
}

static enum verdict see_pod(struct walk *walk, const char *uid, const char *node)
{
    struct pod *pod = core_pod(&walk->shelf.core, uid, node);
    pod->whole_gpus = draw(walk, 8) == 0;
    pod->ours = true;
    if (draw(walk, 2) == 0)
        core_note(&walk->shelf.core, pod, "c0 GPU-b 300 24576");
    return core_adopt(&walk->shelf.core, pod, draw(walk, 6) == 0 ? NULL : "300");
}

/* The version that was judged is drawn, too; 0 is that of an older ledger. */
static enum verdict reserve(struct walk *walk, const char *uid, const char *node, const char *wants)
{
    struct core_fixture *core = &walk->shelf.core;
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .uid = uid,
                                    .namespace = "default",
                                    .name = "pod",
                                    .node = node,
                                    .request = core_request(core, wants),
                                    .version = draw(walk, 4)};
    return core_do(core, &command);
}

static void step(struct walk *walk)
{
    static const char *const wants[] = {"100", "300", "600x2", "i700+s100+400", "1000"};
    struct core_fixture *core = &walk->shelf.core;
    char uid[8];
    char node[8];
    const uint32_t pod = draw(walk, PODS);
    const char *asks = wants[pod % ARRAY_LEN(wants)]; /* the same every time */
    (void)snprintf(uid, sizeof uid, "p%u", pod);
    (void)snprintf(node, sizeof node, "n%u", draw(walk, NODES));
    const struct command others[] = {
        {.kind = COMMAND_NODE_GONE, .node = node},
        {.kind = COMMAND_TERMINATING, .uid = uid, .terminating_ms = 77},
        {.kind = COMMAND_NOTE, .uid = uid, .differs = draw(walk, 2) == 0},
        {.kind = COMMAND_CLOCK, .clock_from_ms = 5},
        {.kind = COMMAND_POLICY},
        {.kind = COMMAND_CONFIRM, .uid = uid},
        {.kind = COMMAND_DOUBT, .uid = uid},
        {.kind = COMMAND_RELEASE, .uid = uid, .why = "ended"},
        {.kind = COMMAND_RELEASE, .uid = uid, .why = "gone"},
        {.kind = COMMAND_VERSION,
         .uid = uid,
         .request = core_request(core, draw(walk, 8) == 0 ? wants[0] : asks),
         .version = 2 + draw(walk, 8)},
    };
    const uint32_t what = draw(walk, 24);
    if (what < 4)
        (void)show_node(walk, node);
    else if (what < 9)
        (void)reserve(walk, uid, node, asks);
    else if (what < 12)
        (void)see_pod(walk, uid, node);
    else
        (void)core_do(core, &others[what < 21 ? what - 12 : 9]);

    /* The heir of a UUID gets its turn, as the writer would give it. */
    const struct node *heir = ledger_stale_duplicate(core->ledger);
    if (heir != NULL) {
        const struct command again = {.kind = COMMAND_NODE, .node = heir->name->text};
        (void)core_do(core, &again);
    }
}

static void drop_batch(struct walk *walk)
{
    struct shelf *shelf = &walk->shelf;
    struct err err;
    shelf_begin(shelf);
    if (shelf_write(shelf, &err) != STORE_OK)
        fail_msg("%s", err.text);
    shelf->ops.rollback(shelf->ops.ctx);
    while (shelf->core.n_done > 0)
        core_undo(&shelf->core);
    shelf->written = 0;
}

static void maintain(struct walk *walk)
{
    struct shelf *shelf = &walk->shelf;
    struct err err;
    const int64_t day = 24 * 60 * 60 * 1000;
    /* Half of the history is more than a day old now, so it is folded. */
    if (shelf->ops.maintain(shelf->ops.ctx, shelf->core.now_ms / 2 + day, &err) < 0)
        fail_msg("%s", err.text);
}

/* Between batches; the rest of the ledger must not notice. */
static void learn(struct walk *walk)
{
    struct shelf *shelf = &walk->shelf;
    struct err err;
    struct tally *stored = NULL;
    int64_t until_ms = 0;

    if (walk->tally == NULL)
        walk->tally = tally_new();
    const uint32_t pods = draw(walk, 20);
    for (uint32_t i = 0; i < pods; i++)
        tally_count(walk->tally, core_request(&shelf->core, draw(walk, 2) == 0 ? "300" : "700x2"));
    if (shelf->ops.learn(shelf->ops.ctx, walk->tally, shelf->core.now_ms, &err) < 0 ||
        store_learned(shelf->store, &stored, &until_ms, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(tally_pods(stored), tally_pods(walk->tally));
    assert_int_equal(until_ms, shelf->core.now_ms);
    tally_free(walk->tally);
    walk->tally = stored;
}

static void walk_on(struct walk *walk)
{
    struct shelf *shelf = &walk->shelf;
    shelf_open(shelf);
    for (int i = 0; i < STEPS; i++) {
        const uint32_t batch = 1 + draw(walk, 6);
        for (uint32_t k = 0; k < batch; k++)
            step(walk);
        for (size_t k = 0; k < shelf->core.n_done; k++)
            walk->seen[shelf->core.done[k].kind] = true;
        const uint32_t end = draw(walk, 40);
        if (end == 0)
            drop_batch(walk);
        else
            shelf_save(shelf);
        if (end == 1)
            shelf_turn(shelf);
        if (end == 2)
            maintain(walk);
        if (end == 3)
            learn(walk);
        if (end < 6)
            shelf_same(shelf);
    }
    shelf_turn(shelf);
    for (size_t i = 0; i < COMMAND_OVER; i++) /* which is written as the last of these */
        if (!walk->seen[i] && getenv("MILLIGPU_SEED") == NULL)
            fail_msg("the walk never met %s", command_name((enum command_kind)i));
}

TEST(store__agrees_with_memory_on_a_random_walk)
{
    static struct walk walk;
    const char *given = getenv("MILLIGPU_SEED");
    const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 1;
    printf("MILLIGPU_SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    walk.state = seed | 1;
    shelf_init(&walk.shelf);
    walk.shelf.rules.retention_days = 1;
    walk_on(&walk);
    assert_non_null(walk.tally);
    tally_free(walk.tally);
    shelf_done(&walk.shelf);
}
