#include "support_ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"
#include "milligpu/store/store.h"

#include "support/store_checks.h"
#include "support/valid.h"
#include "support_pool.h"

static struct err err; /* of the latest call */

static char folder[64];

static void at_exit(void)
{
    static const char *const names[] = {"l.db",         "l.db-wal",  "l.db-shm",
                                        "l.db-journal", "l.db.lock", "l.db.id"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[96];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void make_folder(void)
{
    (void)snprintf(folder, sizeof folder, "/dev/shm/milligpu-fuzz-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        (void)snprintf(folder, sizeof folder, "/tmp/milligpu-fuzz-XXXXXX");
        must(mkdtemp(folder) != NULL);
    }
    must(atexit(at_exit) == 0);
    sqlite_use_pool();
}

const char *ledger_path(void)
{
    static char path[96];
    static const char *const logs[] = {"-wal", "-shm", "-journal"};
    if (folder[0] == '\0')
        make_folder();
    (void)snprintf(path, sizeof path, "%s/l.db", folder);
    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        char log[128];
        (void)snprintf(log, sizeof log, "%s%s", path, logs[i]);
        (void)unlink(log);
    }
    return path;
}

void ledger_put(struct text bytes)
{
    const int fd = open(ledger_path(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0);
    must(write(fd, bytes.at, bytes.len) == (ssize_t)bytes.len);
    must(close(fd) == 0);
}

/* --- a good ledger --- */

struct maker {
    struct store_ops ops;
    struct ledger *ledger;
    int64_t at_ms;
};

static void command(struct maker *maker, struct command command)
{
    struct change change;
    command.at_ms = maker->at_ms += 1000;
    must(ledger_decide(maker->ledger, &command, &change) == VERDICT_OK);
    must(maker->ops.begin(maker->ops.ctx, &err) == 0);
    must(maker->ops.write(maker->ops.ctx, &command, &change, &err) == STORE_OK);
    must(maker->ops.commit(maker->ops.ctx, &err) == 0);
    ledger_apply(maker->ledger, &change);
    change_done(&change);
}

static void add_node(struct maker *maker, const char *node, const char *const ids[2])
{
    struct gpu_facts gpu[] = {
        {.id = ids[0], .model = "A100", .milli = 1000, .mib = 40960, .healthy = true},
        {.id = ids[1], .model = "", .index = 1, .milli = 500, .mib = 8000, .numa = 1}};
    const struct inventory inventory = {.node = node,
                                        .uid = "node-uid",
                                        .source = SOURCE_ANNOTATION,
                                        .n_gpus = ARRAY_LEN(gpu),
                                        .gpu = gpu};
    command(maker, (struct command){.kind = COMMAND_NODE, .node = node, .inventory = &inventory});
}

static void reserve(struct maker *maker, const char *uid, const char *node, uint32_t milli)
{
    struct want want[] = {{.container = "c", .parts = 1, .milli = milli},
                          {.container = "d", .parts = 1, .milli = 50}};
    const struct request request = {.n_wants = ARRAY_LEN(want), .want = want};
    command(maker, (struct command){.kind = COMMAND_RESERVE,
                                    .uid = uid,
                                    .namespace = "default",
                                    .name = uid,
                                    .node = node,
                                    .request = &request});
}

static void step(struct maker *maker, enum command_kind kind, const char *uid)
{
    command(maker, (struct command){.kind = kind, .uid = uid, .why = "ended"});
}

static void fill(struct maker *maker)
{
    add_node(maker, "n1", (const char *const[]){"GPU-a", "GPU-b"});
    add_node(maker, "n2", (const char *const[]){"n2/gpu-0", "n2/gpu-1"});
    reserve(maker, "u1", "n1", 300);
    step(maker, COMMAND_CONFIRM, "u1");
    reserve(maker, "u2", "n1", 200);
    step(maker, COMMAND_DOUBT, "u2");
    reserve(maker, "u3", "n2", 700);
    step(maker, COMMAND_CONFIRM, "u3");
    reserve(maker, "u4", "n2", 100);
    step(maker, COMMAND_CONFIRM, "u4");
    step(maker, COMMAND_RELEASE, "u4");
    reserve(maker, "u5", "n2", 100);
    step(maker, COMMAND_RELEASE, "u5");
}

/* Some of the classes name models. */
static void learn(struct maker *maker)
{
    static const char *model[] = {"A100*", "\"H100\""};
    struct want want = {.container = "c", .parts = 1, .milli = 300};
    struct tally *tally = tally_new();

    for (uint32_t i = 0; i <= ARRAY_LEN(model); i++) {
        const struct request request = {.n_wants = 1, .want = &want, .n_models = i, .model = model};
        tally_count(tally, &request);
    }
    must(maker->ops.learn(maker->ops.ctx, tally, maker->at_ms, &err) == 0);
    tally_free(tally);
}

static const struct agents_rules agents_rules = {.key = {"", 0}, .value = {"", 0}};

/* An agent that named GPUs, and an agent whose pod vouched. */
static void remember(struct maker *maker)
{
    const struct node_facts names = {
        .name = "n1", .uid = "node-uid", .agent = true, .has_gpus = true, .n_gpus = 1};
    const struct node_facts vouched = {
        .name = "n2", .uid = "node-uid", .agent = true, .claim = {.pod = "agent"}};
    const struct pod pod = {.uid = "agent", .node = "n2", .is_agent = true, .is_ready = true};
    struct agents *agents = agents_new(&agents_rules);
    size_t count = 0;

    must(agents_see_node(agents, &names));
    must(!agents_see_node(agents, &vouched) && !agents_see_pod(agents, &pod));
    must(maker->ops.remember(maker->ops.ctx, agents, 2, &count, &err) == 0 && count == 2);
    agents_free(agents);
}

/* Small pages, so that a larger part of the bytes matters. */
static void pack(const char *path)
{
    sqlite3 *db = NULL;
    must(sqlite3_open(path, &db) == SQLITE_OK);
    must(sqlite3_exec(db, "PRAGMA journal_mode=DELETE; PRAGMA page_size=512; VACUUM", NULL, NULL,
                      NULL) == SQLITE_OK);
    must(sqlite3_close(db) == SQLITE_OK);
}

static void make(void)
{
    struct store *store = NULL;
    struct maker maker = {.ledger = ledger_new(), .at_ms = 1700000000000};
    const struct store_rules rules = {.path = ledger_path()};
    (void)unlink(rules.path);
    must(store_open(&rules, &store, &err) == 0);
    must(store_set_cluster(store, "cluster", &err) == 0);
    store_ops(store, &maker.ops);
    fill(&maker);
    learn(&maker);
    remember(&maker);
    must(store_verify(store, &err) == 0);
    store_close(store);
    ledger_free(maker.ledger);
    pack(rules.path);
}

struct text ledger_template(void)
{
    enum { BYTES_MAX = 1 << 20 };
    static char bytes[BYTES_MAX];
    static size_t size;
    if (size == 0) {
        make();
        const int fd = open(ledger_path(), O_RDONLY | O_CLOEXEC);
        must(fd >= 0);
        const ssize_t got = read(fd, bytes, sizeof bytes);
        must(got > 0 && (size_t)got < sizeof bytes && close(fd) == 0);
        size = (size_t)got;
    }
    return (struct text){bytes, size};
}

/* --- checks of any ledger --- */

static void take(void *user, const struct history_row *row)
{
    size_t *bytes = user;
    *bytes += strlen(row->uid) + strlen(row->name) + strlen(row->node) + strlen(row->gpu);
}

static void describe(const struct ledger *ledger, struct strbuf *out)
{
    const struct node *node;
    const struct allocation *allocation;
    size_t at = 0;
    while ((node = ledger_next_node(ledger, &at)) != NULL) {
        strbuf_printf(out, "%s %s %u\n", node->name->text, node->uid->text, node->n_allocations);
        for (uint32_t i = 0; i < node->n_gpus; i++)
            strbuf_printf(out, " %s %u %u %u\n", node->gpu[i].id->text, node->gpu[i].milli,
                          node->gpu[i].used_milli, node->gpu[i].reserved_milli);
    }
    at = 0;
    while ((allocation = ledger_next(ledger, &at)) != NULL)
        strbuf_printf(out, "%s %s %d %u %u\n", allocation->facts.uid, allocation->facts.node->text,
                      allocation->facts.state, allocation->facts.n_shares,
                      allocation_milli(allocation));
}

/* One more command, as the writer does it. False: refused or failed, and nothing of it stays. */
static bool write_to(struct store *store, struct ledger *ledger)
{
    const struct command one = {.kind = COMMAND_CLOCK, .at_ms = 1, .clock_from_ms = 2};
    struct store_ops ops;
    struct change change;

    store_ops(store, &ops);
    must(ledger_decide(ledger, &one, &change) == VERDICT_OK);
    if (ops.begin(ops.ctx, &err) < 0)
        return false;
    const bool good =
        ops.write(ops.ctx, &one, &change, &err) != STORE_FAILED && ops.commit(ops.ctx, &err) == 0;
    if (!good)
        ops.rollback(ops.ctx);
    change_done(&change);
    return ops.maintain(ops.ctx, INT64_C(1800000000000), &err) == 0 && good;
}

/*
 * Refused with a sentence, or a tally that is stored and restored as it is. Its rows are no reason
 * to call the ledger unsound.
 */
static void restore_learned(struct store *store, bool writes)
{
    struct tally *tally = NULL;
    struct tally *again = NULL;
    struct store_ops ops;
    int64_t until_ms = 0;
    err = (struct err){0};

    const int failed = store_learned(store, &tally, &until_ms, &err);
    must(failed == 0 || (tally == NULL && strstr(err.text, "l.db: ") != NULL));
    store_ops(store, &ops);
    if (tally != NULL && writes && ops.learn(ops.ctx, tally, until_ms, &err) == 0) {
        must(store_learned(store, &again, &until_ms, &err) == 0);
        must(tally_pods(again) == tally_pods(tally));
        must(tally_classes(again) == tally_classes(tally));
        for (uint32_t i = 0; i < tally_classes(tally); i++)
            must(workload_alike(tally_class(again, i), tally_class(tally, i)));
    }
    tally_free(again);
    tally_free(tally);
}

/*
 * Whatever the rows say, the agents can be used; after a refusal they count as seen. What is
 * remembered then can be stored and is read again.
 */
static void restore_agents(struct store *store, bool writes)
{
    const struct node_facts node = {
        .name = "n3", .uid = "node-uid", .agent = true, .has_gpus = true, .n_gpus = 1};
    struct agents *agents = agents_new(&agents_rules);
    struct agents *again = agents_new(&agents_rules);
    struct store_ops ops;
    size_t count = 0;
    err = (struct err){0};

    const int failed = store_agents(store, agents, &err);
    must(failed == 0 || (agents_seen(agents) && strstr(err.text, "l.db: ") != NULL));
    (void)agents_check(agents, text_of("n1"));
    (void)!agents_see_node(agents, &node);
    store_ops(store, &ops);
    if (writes && ops.remember(ops.ctx, agents, 1, &count, &err) == 0) {
        const int refused = store_agents(store, again, &err);
        must(failed != 0 || refused == 0);
        must(agents_seen(again));
    }
    agents_free(again);
    agents_free(agents);
}

static bool is_sound(struct store *store)
{
    return store_verify(store, &err) == 0;
}

bool ledger_thorough(struct text input)
{
    unsigned sum = 0;
    for (size_t i = 0; i < input.len; i++)
        sum += (unsigned char)input.at[i];
    return sum % 8 == 0;
}

/* Open the ledger and describe its present state in out; NULL if it is refused. */
static struct store *open_and_load(struct ledger *ledger, struct strbuf *out)
{
    const struct store_rules rules = {.path = ledger_path(), .retention_days = 1};
    struct store *store = NULL;
    err = (struct err){0};
    if (store_open(&rules, &store, &err) < 0) {
        must(strstr(err.text, "l.db") != NULL && store == NULL);
        return NULL;
    }
    if (store_load(store, ledger, &err) < 0) {
        must(err.text[0] != '\0');
        store_close(store);
        return NULL;
    }
    ledger_assert_valid(ledger);
    restore_learned(store, false);
    restore_agents(store, false);
    describe(ledger, out);
    return store;
}

void ledger_use(bool thorough)
{
    const struct store_history_query query = {.limit = 1000};
    struct ledger *ledger = ledger_new();
    struct ledger *again = ledger_new();
    SCOPED_STRBUF(before);
    SCOPED_STRBUF(after);
    size_t bytes = 0;
    struct store *store = open_and_load(ledger, &before);
    if (store != NULL && thorough) {
        bool sound = is_sound(store);
        (void)!store_history(store, &query, &bytes, take, &err);
        restore_learned(store, true);
        restore_agents(store, true);
        const bool wrote = write_to(store, ledger);
        sound = sound && store_replay_check(store, &err) == 0;
        store_close(store);
        store = open_and_load(again, &after);
        must(!sound || !wrote || store != NULL);
        must(store == NULL || strcmp(before.data, after.data) == 0);
    }
    store_close(store);
    ledger_free(ledger);
    ledger_free(again);
}
