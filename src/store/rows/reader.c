/*
 * Opens connections for reading. Called by the parts of the store that any thread may call. A
 * ledger in memory has one connection only, so there they lock the writer's.
 */
#include "store/store_internal.h"

/* clang cannot analyse a conditional lock. */
NO_THREAD_SAFETY_ANALYSIS void store_lock(struct store *store)
{
    if (store->memory)
        mutex_lock(&store->mutex);
}

NO_THREAD_SAFETY_ANALYSIS void store_unlock(struct store *store)
{
    if (store->memory)
        mutex_unlock(&store->mutex);
}

NO_THREAD_SAFETY_ANALYSIS int reader_open(struct store *store, struct reader *out, struct err *err)
{
    must(store != NULL);
    *out = (struct reader){.store = store};
    if (!store->memory)
        return db_open(store->path, DB_READ, &out->db, err);
    store_lock(store);
    must(!store->in_batch); /* otherwise a thread reads within its own batch */
    out->db = store->db;
    return 0;
}

NO_THREAD_SAFETY_ANALYSIS void reader_done(struct reader *reader)
{
    must(reader->store != NULL);
    if (reader->store->memory)
        store_unlock(reader->store);
    else
        db_close(reader->db);
    reader->db = NULL;
}
