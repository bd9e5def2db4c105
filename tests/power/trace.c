#include "trace.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

#include "store/store_internal.h"
#include "support/core_fixture.h"

enum { PODS = 10, NODES = 3, GPUS = 2, AGE_MS = 60 };
static const int64_t day_ms = INT64_C(24) * 60 * 60 * 1000;

struct load {
    struct trace *trace;
    const struct trace_rules *rules;
    struct core_fixture core;
    struct store *store;
    struct store_ops ops;
    sqlite3 *reader; /* a connection that reads for a while and so holds the log */
    uint64_t chance;
    bool claimed;
    bool migrates;
    uint32_t begun;
    uint32_t learned;
    uint32_t learning;
    uint32_t copies;
};

static uint32_t draw(struct load *load, uint32_t below)
{
    load->chance ^= load->chance << 13;
    load->chance ^= load->chance >> 7;
    load->chance ^= load->chance << 17;
    return (uint32_t)(load->chance >> 16) % below;
}

static void fail(const struct err *err)
{
    (void)fprintf(stderr, "%s\n", err->text);
    must_fail(__FILE__, __LINE__, "the load fails on a healthy disk");
}

uint64_t trace_digest(const struct ledger *ledger)
{
    CLEANUP(xfreep) char *dump = core_dump(ledger);
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (const char *at = dump; *at != '\0'; at++)
        digest = (digest ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return digest;
}

static void take_event(void *user, const struct disk_event *event)
{
    struct load *load = user;
    struct trace *trace = load->trace;
    if (load->rules->unsynced && event->kind == DISK_SYNCED && load->store != NULL)
        return;
    struct trace_event mine = {
        .kind = event->kind,
        .file = event->file,
        .at = event->at,
        .len = event->bytes.len,
        .from = trace->bytes.len,
        .acknowledged = (uint32_t)trace->n_states - 1,
        .begun = load->begun,
        .learned = load->learned,
        .learning = load->learning,
        .copies = load->copies,
        .claimed = load->claimed,
        .migrates = load->migrates,
    };
    strbuf_add(&trace->bytes, event->bytes.at, event->bytes.len);
    if (event->name != NULL)
        strbuf_add(&trace->bytes, event->name, strlen(event->name) + 1);
    mine.other = trace->bytes.len;
    if (event->other != NULL)
        strbuf_add(&trace->bytes, event->other, strlen(event->other) + 1);
    trace->event = xgrow(trace->event, trace->n_events, &trace->event_room, sizeof *trace->event);
    trace->event[trace->n_events++] = mine;
}

static void acknowledge(struct load *load)
{
    struct trace *trace = load->trace;
    trace->state = xgrow(trace->state, trace->n_states, &trace->state_room, sizeof *trace->state);
    trace->state[trace->n_states++] = (struct trace_state){
        .digest = trace_digest(load->core.ledger),
        .seq = load->store != NULL ? load->store->seq_stable : 0,
    };
}

static const char more_things[] =
    "CREATE TABLE extra (a INTEGER) STRICT; CREATE INDEX extra_a ON extra (a);";

const struct store_schema *trace_next_schema(void)
{
    static struct store_migration step = {.sql = more_things};
    static struct store_schema schema;
    static struct strbuf sql;

    if (schema.sql == NULL) {
        strbuf_init(&sql);
        strbuf_str(&sql, store_schema.sql);
        strbuf_str(&sql, more_things);
        step.from = store_schema.version;
        schema = (struct store_schema){
            .version = step.from + 1, .sql = sql.data, .migration = &step, .n_migrations = 1};
    }
    return &schema;
}

static void open_store(struct load *load)
{
    const struct store_rules rules = {.path = load->trace->path, .retention_days = 1};
    struct err err;

    if (store_open_as(&rules, load->migrates ? trace_next_schema() : &store_schema, &load->store,
                      &err) < 0)
        fail(&err);
    store_ops(load->store, &load->ops);
    load->store->limits.wal_soft = 48;
    load->store->limits.wal_hard = 96;
    load->store->limits.fold = 40;
    load->store->limits.retain_ms = 30;
}

static void stop_reading(struct load *load)
{
    must(sqlite3_close(load->reader) == SQLITE_OK);
    load->reader = NULL;
}

static void read_for_a_while(struct load *load)
{
    must(sqlite3_open(load->trace->path, &load->reader) == SQLITE_OK);
    must(sqlite3_exec(load->reader, "BEGIN; SELECT * FROM meta", NULL, NULL, NULL) == SQLITE_OK);
}

static void close_store(struct load *load)
{
    stop_reading(load);
    store_close(load->store);
    load->store = NULL;
}

static void show_node(struct load *load, const char *node)
{
    struct core_gpu gpu[GPUS] = {{.index = 0, .mib = 81920}, {.index = 1, .mib = 81920}};
    gpu[1].sick = draw(load, 3) == 0;
    gpu[1].cordoned = draw(load, 3) == 0;
    (void)core_node(&load->core, node, gpu, GPUS);
}

static const char *const wants[] = {"100", "300", "600x2", "i700+s100+400"};

static void reserve(struct load *load, const char *uid, const char *node)
{
    struct core_fixture *core = &load->core;
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .uid = uid,
                                    .namespace = "default",
                                    .name = "pod",
                                    .node = node,
                                    .request =
                                        core_request(core, wants[draw(load, ARRAY_LEN(wants))]),
                                    .version = (uint64_t)core->now_ms + 1};
    (void)core_do(core, &command);
}

/* The later version of the pod has the same request, which is one of these. */
static void judge_again(struct load *load, const char *uid)
{
    struct core_fixture *core = &load->core;
    enum verdict verdict = VERDICT_REFUSED;

    for (size_t i = 0; i < ARRAY_LEN(wants) && verdict == VERDICT_REFUSED; i++) {
        const struct command command = {.kind = COMMAND_VERSION,
                                        .uid = uid,
                                        .request = core_request(core, wants[i]),
                                        .version = (uint64_t)core->now_ms + 1};
        verdict = core_do(core, &command);
    }
    load->trace->versions += verdict == VERDICT_OK;
}

static void one_command(struct load *load)
{
    struct core_fixture *core = &load->core;
    char uid[16];
    char node[16];
    (void)snprintf(uid, sizeof uid, "p%u", draw(load, PODS));
    (void)snprintf(node, sizeof node, "n%u", draw(load, NODES));
    const struct command others[] = {
        {.kind = COMMAND_TERMINATING, .uid = uid, .terminating_ms = 77},
        {.kind = COMMAND_NOTE, .uid = uid, .differs = draw(load, 2) == 0},
        {.kind = COMMAND_CONFIRM, .uid = uid},
        {.kind = COMMAND_CONFIRM, .uid = uid},
        {.kind = COMMAND_DOUBT, .uid = uid},
        {.kind = COMMAND_RELEASE, .uid = uid, .why = "ended"},
        {.kind = COMMAND_RELEASE, .uid = uid, .why = "gone"},
        {.kind = COMMAND_NODE_GONE, .node = node},
        {.kind = COMMAND_POLICY},
    };
    const uint32_t what = draw(load, 23);
    if (what < 2)
        show_node(load, node);
    else if (what < 9)
        reserve(load, uid, node);
    else if (what < 12)
        (void)core_adopt(core, core_pod(core, uid, node), "300");
    else if (what < 14)
        judge_again(load, uid);
    else
        (void)core_do(core, &others[what - 14]);
}

static void write_all(struct load *load)
{
    const struct core_fixture *core = &load->core;
    struct err err;

    for (size_t i = 0; i < core->n_done; i++) {
        const struct change *change = &core->done[i];
        const struct allocation *allocation = change->after;
        const struct node *node =
            change->node_after != NULL ? change->node_after : change->node_before;
        struct command command = {.kind = change->kind, .at_ms = core->now_ms, .why = "test"};
        if (allocation != NULL) {
            command.uid = allocation->facts.uid;
            command.namespace = allocation->facts.namespace;
            command.name = allocation->facts.name;
        }
        if (node != NULL)
            command.node = node->name->text;
        if (load->ops.write(load->ops.ctx, &command, change, &err) != STORE_OK)
            fail(&err);
    }
}

static void maintain(struct load *load)
{
    const int64_t now_ms = load->core.now_ms;
    const int pages = load->store->wal_pages;
    const uint64_t rows = atomic_load(&load->store->journal_rows);
    struct err err;

    if (load->ops.maintain(load->ops.ctx, now_ms - AGE_MS + day_ms, &err) < 0)
        fail(&err);
    load->trace->checkpoints += load->store->wal_pages < pages;
    load->trace->folds += atomic_load(&load->store->journal_rows) < rows;
}

/* One batch, as the writer writes it. */
static void one_batch(struct load *load)
{
    struct err err;
    const uint32_t kind = draw(load, 20);
    const uint32_t most = kind < 13 ? 1 : kind < 19 ? 3 : 12;

    while (load->core.n_done < most)
        one_command(load);
    if (load->ops.begin(load->ops.ctx, &err) < 0)
        fail(&err);
    load->begun = (uint32_t)load->trace->n_states;
    write_all(load);
    if (draw(load, 40) == 0) {
        load->ops.rollback(load->ops.ctx);
        load->begun = (uint32_t)load->trace->n_states - 1;
        while (load->core.n_done > 0)
            core_undo(&load->core);
        return;
    }
    if (load->ops.commit(load->ops.ctx, &err) < 0)
        fail(&err);
    core_forget_undo(&load->core);
    acknowledge(load);
    maintain(load);
}

struct tally *trace_tally(uint32_t nth)
{
    struct workload_class class[9];
    const struct tally_rows rows = {.pods = nth, .n_classes = 1 + nth % 9, .class = class};
    struct tally *tally = NULL;
    struct err err;

    for (uint32_t i = 0; i < rows.n_classes; i++)
        class[i] = (struct workload_class){.parts = 1 + i, .milli = 1 + nth % 1000, .count = 1 + i};
    if (tally_restore(&rows, &tally, &err) < 0)
        fail(&err);
    return tally;
}

/* One more of everything that one transaction stores; the hour is younger than any history. */
static void measure(struct load *load)
{
    const struct store_measured row = {.hour_ms = INT64_C(1139568) * STORE_HOUR_MS,
                                       .namespace = "power",
                                       .model = "A100",
                                       .milli_s = 1};
    const struct store_chunk chunk = {.row = &row, .n_rows = 1, .reported_ms = load->learning};
    struct err err;

    if (load->ops.measure(load->ops.ctx, &chunk, &err) < 0)
        fail(&err);
}

/* Two nodes in one transaction, each with the count of learned workloads as uid. */
static void remember(struct load *load)
{
    static const struct agents_rules rules = {.key = {"", 0}, .value = {"", 0}};
    struct agents *agents = agents_new(&rules);
    char uid[16];
    size_t count = 0;
    struct err err;

    (void)snprintf(uid, sizeof uid, "%u", load->learning);
    for (int i = 0; i < 2; i++) {
        const struct node_facts node = {
            .name = i == 0 ? "a" : "b", .uid = uid, .agent = true, .has_gpus = true, .n_gpus = 1};
        (void)!agents_see_node(agents, &node);
    }
    if (load->ops.remember(load->ops.ctx, agents, 2, &count, &err) < 0)
        fail(&err);
    must(count == 2);
    agents_free(agents);
}

static void learn(struct load *load)
{
    struct tally *tally = trace_tally(++load->learning);
    struct err err;

    if (load->ops.learn(load->ops.ctx, tally, load->learning, &err) < 0)
        fail(&err);
    load->learned = load->learning;
    tally_free(tally);
    measure(load);
    remember(load);
}

static void back_up(struct load *load)
{
    struct trace *trace = load->trace;
    struct strbuf name;
    struct err err;

    strbuf_init(&name);
    strbuf_printf(&name, "%s/copy-%zu.db", trace->folder, trace->n_copies);
    trace->copy = xgrow(trace->copy, trace->n_copies, &trace->copy_room, sizeof *trace->copy);
    trace->copy[trace->n_copies++] =
        (struct trace_copy){.name = strbuf_steal(&name), .state = (uint32_t)trace->n_states - 1};
    if (store_backup(load->store, trace->copy[trace->n_copies - 1].name, &err) < 0)
        fail(&err);
    load->copies++;
}

static void live(struct load *load)
{
    const uint32_t commits = load->rules->commits;
    const uint32_t reopen = commits / 9 + 2;
    const uint32_t copy = commits / 4 + 3;
    uint32_t last = 0;

    while (load->trace->n_states <= commits) {
        one_batch(load);
        const uint32_t done = (uint32_t)load->trace->n_states - 1;
        if (load->reader != NULL && draw(load, 12) == 0)
            stop_reading(load);
        else if (load->reader == NULL && draw(load, 60) == 0)
            read_for_a_while(load);
        if (done == last)
            continue;
        last = done;
        if (done % 3 == 0)
            learn(load);
        if (done % copy == 0)
            back_up(load);
        if (done % reopen != 0)
            continue;
        close_store(load);
        load->migrates |= done > commits / 2;
        open_store(load);
        load->trace->reopenings++;
    }
}

void trace_record(struct trace *trace, const struct trace_rules *rules)
{
    struct load load = {.trace = trace, .rules = rules, .chance = rules->seed * 2 + 1};
    struct err err;

    *trace = (struct trace){.folder = "/dev/shm/milligpu-power-XXXXXX"};
    if (mkdtemp(trace->folder) == NULL) {
        *trace = (struct trace){.folder = "/tmp/milligpu-power-XXXXXX"};
        must(mkdtemp(trace->folder) != NULL);
    }
    (void)snprintf(trace->path, sizeof trace->path, "%s/ledger.db", trace->folder);
    strbuf_init(&trace->bytes);
    core_init(&load.core);
    disk_install();
    disk_clear();
    acknowledge(&load);
    disk_watch(&load, take_event);
    open_store(&load);
    if (store_set_cluster(load.store, "a-cluster", &err) < 0)
        fail(&err);
    load.claimed = true;
    live(&load);
    close_store(&load);
    disk_watch(NULL, NULL);
    core_done(&load.core);
}

static void remove_folder(const char *name)
{
    DIR *folder = opendir(name);
    const struct dirent *entry;
    must(folder != NULL);
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            must(unlinkat(dirfd(folder), entry->d_name, 0) == 0);
    (void)closedir(folder);
    must(rmdir(name) == 0);
}

void trace_done(struct trace *trace)
{
    remove_folder(trace->folder);
    for (size_t i = 0; i < trace->n_copies; i++)
        xfree(trace->copy[i].name);
    xfree(trace->copy);
    xfree(trace->state);
    xfree(trace->event);
    strbuf_done(&trace->bytes);
}
