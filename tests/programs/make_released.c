/*
 * make_released - a ledger with everything in it that this version can write: tests/released.
 *
 *   make_released FILE   FILE as an orderly end leaves it, FILE.killed and its log as a kill does;
 *                        prints what both contain (ledger_text.h)
 *
 * Built from the program that is about to be changed (tests/released/README.md), so it uses only
 * what that version has: core_fixture of the tests, and the store's own functions.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/core_fixture.h"
#include "support/ledger_text.h"

static struct err err; /* of the latest call */

static const int64_t day_ms = INT64_C(24) * 60 * 60 * 1000;
static const int64_t first_ms = INT64_C(1793491200000); /* 2026-11-01 */

struct maker {
    struct core_fixture core;
    struct store *store;
    struct store_ops ops;
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "make_released: %s\n", what);
    exit(1);
}

/* One batch of one command, which must change something. */
static void make(struct maker *maker, struct command command)
{
    struct core_fixture *core = &maker->core;

    command.at_ms = core->now_ms += 1500;
    if (core_do(core, &command) != VERDICT_OK)
        fail(command_name(command.kind));
    if (maker->ops.begin(maker->ops.ctx, &err) < 0 ||
        maker->ops.write(maker->ops.ctx, &command, &core->done[core->n_done - 1], &err) !=
            STORE_OK ||
        maker->ops.commit(maker->ops.ctx, &err) < 0)
        fail(err.text);
    core_forget_undo(core);
}

static void node(struct maker *maker, const char *name, const char *uid, const struct core_gpu *gpu,
                 uint32_t gpus)
{
    make(maker, (struct command){.kind = COMMAND_NODE,
                                 .inventory = core_inventory(&maker->core, name, uid, gpu, gpus)});
}

/* Version 2: a Binding names the version of the pod that was evaluated; 0: not known. */
static void reserve_in(struct maker *maker, const char *uid, const char *on, const char *words,
                       uint64_t version)
{
    make(maker, (struct command){.kind = COMMAND_RESERVE,
                                 .uid = uid,
                                 .namespace = "team-a",
                                 .name = arena_printf(&maker->core.arena, "pod-%s", uid),
                                 .node = on,
                                 .request = core_request(&maker->core, words),
                                 .version = version});
}

static void observe(struct maker *maker, const struct pod *pod, const char *words)
{
    struct request *request = words != NULL ? core_request(&maker->core, words) : NULL;
    make(maker, (struct command){.kind = COMMAND_ADOPT,
                                 .uid = pod->uid,
                                 .namespace = pod->namespace,
                                 .name = pod->name,
                                 .node = pod->node,
                                 .pod = pod,
                                 .request = request});
}

static void step(struct maker *maker, enum command_kind kind, const char *uid)
{
    make(maker, (struct command){.kind = kind, .uid = uid, .why = "ended"});
}

static void bind_pod(struct maker *maker, const char *uid, const char *on, const char *words)
{
    reserve_in(maker, uid, on, words, 0);
    step(maker, COMMAND_CONFIRM, uid);
}

static const struct core_gpu two[] = {{.id = "GPU-aaaaaaaa-0001", .index = 0, .mib = 81920},
                                      {.id = "GPU-aaaaaaaa-0002", .index = 1, .mib = 81920}};
static const struct core_gpu counted[] = {{.index = 0, .mib = 40960}, {.index = 1, .mib = 40960}};
static const struct core_gpu named[] = {{.id = "GPU-cccccccc-0001", .index = 0, .mib = 40960},
                                        {.id = "GPU-cccccccc-0002", .index = 1, .mib = 40960}};
static const struct core_gpu copied[] = {{.id = "GPU-aaaaaaaa-0001", .index = 0, .mib = 81920},
                                         {.id = "GPU-dddddddd-0001", .index = 1, .milli = 500}};
static const struct core_gpu shrinking[] = {{.id = "GPU-bbbbbbbb-0001", .index = 0, .mib = 24576},
                                            {.id = "GPU-bbbbbbbb-0002", .index = 1, .mib = 24576}};
static const struct core_gpu claimed[] = {{.id = "GPU-99999999-0001", .index = 0, .mib = 16384},
                                          {.id = "GPU-99999999-0002", .index = 1, .mib = 16384}};
static const struct core_gpu linked[] = {
    {.id = "GPU-77777777-0001", .index = 0, .mib = 40960, .peers = 2},
    {.id = "GPU-77777777-0002", .index = 1, .mib = 40960, .peers = 1}};
static const struct core_gpu sick[] = {
    {.id = "GPU-eeeeeeee-0001", .index = 0, .mib = 16384, .sick = true},
    {.id = "GPU-eeeeeeee-0002", .index = 1, .mib = 16384, .cordoned = true}};

/* History that retention will fold into the baseline; it will drop "early". */
static void make_past(struct maker *maker)
{
    node(maker, "honest", "uid-honest", two, 2);
    node(maker, "counted", "uid-counted", counted, 2);
    node(maker, "copier", "uid-copier", copied, 2);
    bind_pod(maker, "early", "honest", "400");
    bind_pod(maker, "long", "honest", "i700+s100+400+300x2");
    bind_pod(maker, "by-index", "counted", "500");
    step(maker, COMMAND_RELEASE, "early");
    node(maker, "shrinking", "uid-shrinking", shrinking, 2);
    bind_pod(maker, "on-both", "shrinking", "600x2");
    bind_pod(maker, "later", "copier", "500");
}

static void observe_all(struct maker *maker)
{
    struct core_fixture *core = &maker->core;
    struct pod *believed = core_pod(core, "believed", "old-node");
    core_note(core, believed, "c0 GPU-ffffffff-0001 250 1000");
    observe(maker, believed, "250"); /* on an unknown node: its GPU is absent */
    observe(maker, core_pod(core, "presumed", "honest"), "200");
    struct pod *whole = core_pod(core, "whole", "counted");
    whole->whole_gpus = 1;
    observe(maker, whole, NULL);
    observe(maker, core_pod(core, "crowd", "sick"), "3000"); /* more than the node has */
    /* nothing is known of its node: unplaced */
    observe(maker, core_pod(core, "unplaced", "unknown-node"), "600");
}

/* Version 2: UUIDs that a Node showed first and does not show now. */
static void make_claim(struct maker *maker)
{
    node(maker, "claimer", "uid-claimer", claimed, 2);
    node(maker, "claimer", "uid-claimer", claimed, 1);
}

/* Version 4: GPUs that NVLink joins, and a share that was raised. */
static void make_linked(struct maker *maker)
{
    struct request *request = core_request(&maker->core, "250");

    node(maker, "linked", "uid-linked", linked, 2);
    request->memory_mib = 12288; /* of 40960: 300 milli */
    struct rulebook *book = rulebook_new(POLICY_BINPACK, "raise");
    book->raise = true;
    core_obey(&maker->core, book, 0, NULL);
    make(maker, (struct command){.kind = COMMAND_RESERVE,
                                 .uid = "raised",
                                 .namespace = "team-a",
                                 .name = "pod-raised",
                                 .node = "linked",
                                 .request = request});
}

/* Version 7: history in a pack, here of one allocation. */
static void make_pack(struct maker *maker)
{
    struct store *store = maker->store;
    const int64_t piece = store->limits.piece;
    int rows = 0;

    bind_pod(maker, "packed", "shrinking", "i300+100+s50");
    step(maker, COMMAND_RELEASE, "packed");
    store->limits.piece = 1; /* else so little history is not packed */
    if (db_run(store->stmt[ST_BEGIN], &err) < 0 || packs_add(store, &rows, &err) < 0 ||
        db_run(store->stmt[ST_COMMIT], &err) < 0)
        fail(err.text);
    if (rows != 1)
        fail("the pack has not the one allocation");
    store->limits.piece = piece;
}

static void make_present(struct maker *maker)
{
    make_pack(maker);
    node(maker, "counted", "uid-counted", named, 2); /* UUIDs replace counts; by-index stays */
    node(maker, "sick", "uid-sick", sick, 2);
    node(maker, "second-copier", "uid-second-copier", copied, 1);
    node(maker, "shrinking", "uid-shrinking", shrinking, 1); /* the other is absent but charged */
    observe_all(maker);
    step(maker, COMMAND_RELEASE, "later");
    make_claim(maker);
    make_linked(maker);
    reserve_in(maker, "on-its-way", "honest", "100", 4711);
    make(maker, (struct command){.kind = COMMAND_VERSION,
                                 .uid = "on-its-way",
                                 .request = core_request(&maker->core, "100"),
                                 .version = 4712});
    reserve_in(maker, "in-doubt", "honest", "50", INT64_MAX);
    step(maker, COMMAND_DOUBT, "in-doubt");
    bind_pod(maker, "ending", "copier", "300");
    make(maker, (struct command){
                    .kind = COMMAND_TERMINATING, .uid = "ending", .terminating_ms = first_ms});
    make(maker, (struct command){.kind = COMMAND_NOTE, .uid = "long", .differs = true});
    bind_pod(maker, "orphan", "copier", "200");
    /* The log that the kill leaves begins here. */
    if (db_exec(maker->store->db, "PRAGMA wal_checkpoint(TRUNCATE)", &err) < 0)
        fail(err.text);
    make(maker, (struct command){.kind = COMMAND_NODE_GONE, .node = "copier"});
    make(maker, (struct command){.kind = COMMAND_CLOCK, .clock_from_ms = first_ms + 50 * day_ms});
    struct rulebook *book = rulebook_new(POLICY_ROLLOUT, "rollout");
    make(maker, (struct command){.kind = COMMAND_POLICY, .rulebook = book});
    rulebook_unref(book);
}

/* Version 3: classes with and without models, in the order of arrival. */
static void learn(struct maker *maker)
{
    static const char *const words[] = {"300", "600x2", "i700+s100+400+300x2", "4000"};
    static const char *model[] = {"A100-SXM4-80GB", "H100*"};
    struct tally *tally = tally_new();

    for (uint32_t i = 0; i < 40; i++) {
        struct request *request = core_request(&maker->core, words[i % 4]);
        request->host = (struct host){.cpu_milli = i % 3 * 1000, .memory_mib = i % 3 * 4096};
        request->memory_mib = i % 5 * 1024;
        request->n_models = i % 3;
        request->model = model;
        tally_count(tally, request);
    }
    if (maker->ops.learn(maker->ops.ctx, tally, maker->core.now_ms, &err) < 0)
        fail(err.text);
    tally_free(tally);
}

/* Additions of version 5: a measured hour, an idle share, and memory over a share. */
static void measure(struct maker *maker)
{
    static const struct store_measured hour = {.hour_ms = 1793491200000,
                                               .namespace = "team-a",
                                               .model = "A100",
                                               .milli_s = 360000,
                                               .of_milli_s = 1080000,
                                               .mib_s = 3600000,
                                               .of_mib_s = 7200000};
    const struct store_idle idle = {.node = "honest",
                                    .uid = "long",
                                    .container = "c3",
                                    .gpu = "GPU-aaaaaaaa-0001",
                                    .since_ms = maker->core.now_ms - day_ms};
    const struct store_chunk chunk = {
        .row = &hour, .n_rows = 1, .n_idle = 1, .idle = &idle, .reported_ms = maker->core.now_ms};

    if (maker->ops.measure(maker->ops.ctx, &chunk, &err) < 0)
        fail(err.text);
    make(maker, (struct command){.kind = COMMAND_OVER,
                                 .uid = idle.uid,
                                 .namespace = "team-a",
                                 .name = "pod-long",
                                 .node = idle.node,
                                 .container = idle.container,
                                 .gpu = idle.gpu,
                                 .why = "seen",
                                 .mib = 1000,
                                 .peak_mib = 1200});
}

/* Version 6: the policy document that decides. */
static void keep_policy(struct maker *maker)
{
    const struct store_policy policy = {.name = "/etc/milligpu/policy.yaml",
                                        .document = TEXT("policy: binpack\n"),
                                        .read_ms = maker->core.now_ms};

    if (maker->ops.keep_policy(maker->ops.ctx, &policy, &err) < 0)
        fail(err.text);
}

/* Version 8: of one agent, its pod and the UUIDs that it named, of another one the UUIDs alone. */
static void remember_agents(struct maker *maker)
{
    static const struct agents_rules rules = {.key = {"", 0}, .value = {"", 0}};
    static const struct node_facts vouching = {.name = "honest",
                                               .uid = "uid-honest",
                                               .agent = true,
                                               .claim = {.pod = "agent"},
                                               .has_gpus = true,
                                               .n_gpus = 1};
    static const struct node_facts naming = {
        .name = "sick", .uid = "uid-sick", .agent = true, .has_gpus = true, .n_gpus = 1};
    static const struct pod pod = {
        .uid = "agent", .node = "honest", .is_agent = true, .is_ready = true};
    struct agents *agents = agents_new(&rules);
    size_t stored = 0;

    (void)!agents_see_node(agents, &vouching);
    (void)!agents_see_pod(agents, &pod);
    (void)!agents_see_node(agents, &naming);
    if (maker->ops.remember(maker->ops.ctx, agents, 10, &stored, &err) < 0)
        fail(err.text);
    if (stored != 2)
        fail("two agents should be remembered");
    agents_free(agents);
}

static void copy_killed(const char *path)
{
    static const char *const suffix[] = {"", "-wal"};

    for (size_t i = 0; i < ARRAY_LEN(suffix); i++) {
        char from[512], to[512];
        int fd = -1;
        (void)snprintf(from, sizeof from, "%s%s", path, suffix[i]);
        (void)snprintf(to, sizeof to, "%s.killed%s", path, suffix[i]);
        if (backup_bytes(from, to, &fd, &err) < 0)
            fail(err.text); /* fd stays open: closing it would drop SQLite's locks */
    }
}

int main(int argc, char **argv)
{
    struct maker maker = {0};

    if (argc != 2) {
        (void)fprintf(stderr, "make_released: see the head of its source\n");
        return 2;
    }
    const struct store_rules rules = {.path = argv[1], .retention_days = 30};
    core_init(&maker.core);
    maker.core.now_ms = first_ms;
    if (store_open(&rules, &maker.store, &err) < 0 ||
        store_set_cluster(maker.store, "uid-of-kube-system", &err) < 0)
        fail(err.text);
    store_ops(maker.store, &maker.ops);
    make_past(&maker);
    maker.core.now_ms += 40 * day_ms;
    maker.store->limits.retain_ms = 0;
    if (maker.ops.maintain(maker.ops.ctx, maker.core.now_ms, &err) < 0)
        fail(err.text);
    make_present(&maker);
    learn(&maker);
    measure(&maker);
    keep_policy(&maker);
    remember_agents(&maker);
    copy_killed(argv[1]);
    store_close(maker.store);
    core_done(&maker.core);
    CLEANUP(xfreep) char *text = ledger_text(argv[1], argv[1]);
    (void)fputs(text, stdout);
    return 0;
}
