#include "support/store_checks.h"

#include "store/store_internal.h"

int store_verify(struct store *store, struct err *err)
{
    struct store_read *read = NULL;
    enum store_check which;

    int failed = store_read_open(store, &read, err);
    if (failed == 0)
        failed = store_read_pin(read, err);
    if (failed == 0)
        failed = store_read_verify(read, &which, err);
    store_read_close(read);
    return failed;
}

int store_replay_check(struct store *store, struct err *err)
{
    struct reader reader;

    int failed = reader_open(store, &reader, err);
    if (failed != 0)
        return failed;
    failed = db_exec(reader.db, "BEGIN", err);
    if (failed == 0)
        failed = check_one(reader.db, store->schema, CHECK_REPLAY, err);
    db_rollback(reader.db);
    reader_done(&reader);
    return failed;
}

void store_retain(struct store *store, uint32_t days)
{
    must(store != NULL);
    atomic_store(&store->retention_days, days);
}
