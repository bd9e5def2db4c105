#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"
#include "support/core_fixture.h"
#include "support/store_checks.h"

static struct err err; /* of the latest call */

static void PRINTF_LIKE(2, 3) broken(struct check_found *found, const char *fmt, ...)
{
    va_list args;
    if (found->broken)
        return;
    va_start(args, fmt);
    (void)vsnprintf(found->text, sizeof found->text, fmt, args);
    va_end(args);
    found->broken = true;
}

/* Finds the state by the end of its journal, which grows with every commit. */
static bool find_state(const struct trace *trace, uint64_t seq, uint32_t *out)
{
    size_t low = 0;
    size_t high = trace->n_states;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (trace->state[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    *out = (uint32_t)low;
    return low < trace->n_states && trace->state[low].seq == seq;
}

/* The workload that is there is one of those that were learned, and all of it. */
static void look_at_learned(struct store *store, struct check_found *found)
{
    struct tally *tally = NULL;
    int64_t nth = 0;

    if (store_learned(store, &tally, &nth, &err) < 0)
        broken(found, "learned: %s", err.text);
    if (tally == NULL)
        return;
    struct tally *should = trace_tally((uint32_t)nth);
    bool same = tally_pods(tally) == (uint64_t)nth && tally_classes(tally) == tally_classes(should);
    for (uint32_t i = 0; same && i < tally_classes(should); i++)
        same = workload_alike(tally_class(tally, i), tally_class(should, i)) &&
               tally_class(tally, i)->count == tally_class(should, i)->count;
    if (!same)
        broken(found, "the workload is not what was learned");
    found->learned = (uint32_t)nth;
    tally_free(should);
    tally_free(tally);
}

#define REPORTED "SELECT coalesce(max(until_ms), 0) FROM reported"

/* Stored after the learned workload, one more each time, with the time of its reports. */
static void look_at_measured(struct store *store, struct check_found *found)
{
    int64_t sum = 0;
    int64_t reported = 0;

    if (db_number(store->db, "SELECT coalesce(sum(milli_s), 0) FROM measured", &sum, &err) < 0 ||
        db_number(store->db, REPORTED, &reported, &err) < 0)
        broken(found, "measured: %s", err.text);
    else if (sum != reported)
        broken(found, "half of what was measured is there: %lld, until %lld", (long long)sum,
               (long long)reported);
    else if (reported != found->learned && reported + 1 != found->learned)
        broken(found, "%lld times it was measured, and %u times learned", (long long)reported,
               found->learned);
}

/*
 * It was stored after what was measured: both nodes or neither, and nothing acknowledged is lost.
 * The rows themselves are compared; store_agents() must take them.
 */
static void look_at_remembered(struct store *store, struct check_found *found)
{
    static const struct agents_rules rules = {.key = {"", 0}, .value = {"", 0}};
    struct agents *agents = agents_new(&rules);
    int64_t first = 0;
    int64_t last = 0;
    int64_t reported = 0;

    if (db_number(store->db, "SELECT coalesce(min(CAST(uid AS INTEGER)), 0) FROM agent", &first,
                  &err) < 0 ||
        db_number(store->db, "SELECT coalesce(max(CAST(uid AS INTEGER)), 0) FROM agent", &last,
                  &err) < 0 ||
        db_number(store->db, REPORTED, &reported, &err) < 0 ||
        store_agents(store, agents, &err) < 0)
        broken(found, "remembered: %s", err.text);
    else if (first != last || agents_count(agents) != (last > 0 ? 2 : 0) ||
             agents_seen(agents) != (last > 0))
        broken(found, "half of what is remembered is there: %lld, %lld", (long long)first,
               (long long)last);
    else if (last != reported && last + 1 != reported)
        broken(found, "%lld times it was remembered, and %lld times measured", (long long)last,
               (long long)reported);
    agents_free(agents);
}

static void look(const struct trace *trace, struct store *store, struct check_found *found)
{
    char cluster[64];
    struct ledger *ledger = ledger_new();

    if (!find_state(trace, store->seq, &found->state))
        broken(found, "its journal ends with entry %llu, in the middle of a batch",
               (unsigned long long)store->seq);
    else if (store_load(store, ledger, &err) < 0)
        broken(found, "load: %s", err.text);
    else if (trace_digest(ledger) != trace->state[found->state].digest)
        broken(found, "it is not what it was after commit %u", found->state);
    else if (db_sentence(store->db, "SELECT coalesce(cluster, '') FROM meta", cluster,
                         sizeof cluster, &err) < 0)
        broken(found, "meta: %s", err.text);
    else
        found->claimed = strcmp(cluster, "a-cluster") == 0;
    look_at_learned(store, found);
    if (!found->broken)
        look_at_measured(store, found);
    if (!found->broken)
        look_at_remembered(store, found);
    ledger_free(ledger);
}

/* A migration copies the old ledger first: remove the copy from the real folder. */
static void take_notice(void *user, const char *text)
{
    static const char words[] = "the backup is ";
    const char *name = strstr(text, words);
    (void)user;
    if (name != NULL)
        (void)unlink(name + strlen(words));
}

static struct store *open_it(const struct store_schema *schema, const char *path,
                             struct check_found *found)
{
    const struct store_rules rules = {.path = path, .user = found, .notice = take_notice};
    struct store *store = NULL;

    if (store_open_as(&rules, schema, &store, &err) < 0)
        broken(found, "open: %s", err.text);
    return store;
}

/* The disk has the ledger and its logs as the image has them, and nothing else. */
static void put(const struct disk_image *image, const char *path)
{
    static const char *const suffix[] = {"", "-wal", "-journal"};
    disk_clear();
    for (size_t i = 0; i < ARRAY_LEN(suffix); i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "%s%s", path, suffix[i]);
        const struct disk_image_file *file = disk_image_find(image, name);
        if (file != NULL)
            disk_put(name, (struct text){file->now, file->now_len});
    }
}

static void verify(struct store *store, const char *when, struct check_found *found)
{
    if (store_verify(store, &err) < 0)
        broken(found, "verification%s: %s", when, err.text);
}

/* Work goes on: after a commit and an orderly close, the ledger is complete. */
static void go_on(struct store **store, const struct store_schema *schema, const char *path,
                  struct check_found *found)
{
    struct ledger *ledger = ledger_new();
    const struct command command = {
        .kind = COMMAND_CLOCK, .at_ms = INT64_C(1) << 40, .clock_from_ms = INT64_C(1) << 41};
    struct store_ops ops;
    struct change change;

    const enum verdict verdict = ledger_decide(ledger, &command, &change);
    must(verdict == VERDICT_OK);
    store_ops(*store, &ops);
    const uint64_t seq = (*store)->seq;
    if (ops.begin(ops.ctx, &err) < 0 || ops.write(ops.ctx, &command, &change, &err) != STORE_OK ||
        ops.commit(ops.ctx, &err) < 0)
        broken(found, "one more batch: %s", err.text);
    change_done(&change);
    ledger_free(ledger);
    store_close(*store);
    *store = open_it(schema, path, found);
    if (*store == NULL)
        return;
    if ((*store)->seq != seq + 1)
        broken(found, "one more batch is lost after an orderly end");
    verify(*store, " after one more batch", found);
}

void check_ledger(const struct disk_image *image, const struct trace_event *at,
                  enum check_depth depth, struct check_found *out)
{
    const struct trace *trace = image->trace;
    const struct store_schema *schema = at->migrates ? trace_next_schema() : &store_schema;

    *out = (struct check_found){.broken = false};
    put(image, trace->path);
    struct store *store = open_it(schema, trace->path, out);
    if (store != NULL)
        look(trace, store, out);
    if (store != NULL && depth >= CHECK_AUDIT)
        verify(store, "", out);
    if (store != NULL && depth == CHECK_GOES_ON && !out->broken)
        go_on(&store, schema, trace->path, out);
    disk_cut(); /* an orderly close is not under test here, and takes longer */
    store_close(store);
}

void check_copy(const struct disk_image *image, const char *name, struct check_found *out)
{
    *out = (struct check_found){.broken = false};
    put(image, name);
    struct store *store = open_it(trace_next_schema(), name, out);
    if (store != NULL) {
        look(image->trace, store, out);
        verify(store, "", out);
    }
    disk_cut();
    store_close(store);
}
