/*
 * Any bytes as the ledger's file: opened or refused with a sentence, and if opened, then loaded,
 * asked, checked, written to and closed without ever ending in a must().
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/alloc.h"
#include "milligpu/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void at_exit(void)
{
    static const char *const names[] = {"l.db", "l.db-wal", "l.db-shm", "l.db-journal",
                                        "l.db.lock"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[96];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static const char *fresh_path(void)
{
    static char path[96];
    char log[128];

    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "/dev/shm/milligpu-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL) {
            (void)snprintf(folder, sizeof folder, "/tmp/milligpu-fuzz-XXXXXX");
            must(mkdtemp(folder) != NULL);
        }
        must(atexit(at_exit) == 0);
        (void)snprintf(path, sizeof path, "%s/l.db", folder);
    }
    (void)snprintf(log, sizeof log, "%s-wal", path);
    (void)unlink(log);
    (void)snprintf(log, sizeof log, "%s-shm", path);
    (void)unlink(log);
    return path;
}

static void put(const char *path, const uint8_t *data, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0);
    must(write(fd, data, size) == (ssize_t)size);
    must(close(fd) == 0);
}

static void take(void *user, const struct store_history_row *row)
{
    size_t *bytes = user;
    *bytes += strlen(row->uid) + strlen(row->name) + strlen(row->node) + strlen(row->gpu);
}

/* One more command, as the writer would. */
static void write_to(struct store *store, struct ledger *ledger)
{
    const struct command command = {.kind = COMMAND_CLOCK, .at_ms = 1, .clock_from_ms = 2};
    struct store_ops ops;
    struct change change;
    struct err err;

    store_ops(store, &ops);
    must(ledger_decide(ledger, &command, &change) == VERDICT_OK);
    if (ops.begin(ops.ctx, &err) < 0)
        return;
    if (ops.write(ops.ctx, &command, &change, &err) == STORE_FAILED ||
        ops.commit(ops.ctx, &err) < 0)
        ops.rollback(ops.ctx);
    (void)ops.tend(ops.ctx, INT64_C(4000000000000), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct store_rules rules = {.path = fresh_path(), .retention_days = 1};
    const struct store_history_query query = {.limit = 1000};
    struct store *store = NULL;
    struct err err = {0};
    size_t bytes = 0;

    put(rules.path, data, size);
    if (store_open(&rules, &store, &err) < 0) {
        must(err.text[0] != '\0');
        return 0;
    }
    struct ledger *ledger = ledger_new();
    if (store_load(store, ledger, &err) == 0) {
        ledger_audit(ledger);
        write_to(store, ledger);
    }
    (void)!store_history(store, &query, &bytes, take, &err);
    (void)!store_audit(store, &err);
    store_close(store);
    ledger_free(ledger);
    return 0;
}
