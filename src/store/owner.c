/*
 * Whose ledger it is: the cluster in meta.cluster. Over the writer's connection: store_whose() runs
 * on the informer thread before the writer begins its work, store_set_cluster() in the writer.
 */
#include <string.h>

#include "store/store_internal.h"

static int store_read_cluster(struct store *store, const char *cluster, enum store_owner *out,
                              struct err *err)
{
    char owner[UID_BYTES_MAX + 8];
    int64_t is_copy = 0;

    must(!store->in_batch);
    if (cluster == NULL || cluster[0] == '\0' || strlen(cluster) > UID_BYTES_MAX)
        return err_set(err, ERR_INVALID, "the cluster's uid has to have 1 to %d bytes",
                       UID_BYTES_MAX);
    int failed =
        db_sentence(store->db, "SELECT coalesce(cluster, '') FROM meta", owner, sizeof owner, err);
    if (failed == 0)
        failed = db_number(store->db, "SELECT is_copy FROM meta", &is_copy, err);
    if (failed != 0)
        return failed;
    if (owner[0] != '\0' && strcmp(owner, cluster) != 0)
        return err_set(err, ERR_FOREIGN,
                       "%s: the ledger of another cluster (its kube-system has the uid %s, this "
                       "one's is %s); name another file, or another cluster",
                       store->path, owner, cluster);
    *out = owner[0] == '\0' ? OWNER_NOBODY : is_copy != 0 ? OWNER_THIS_BY_COPY : OWNER_THIS;
    return 0;
}

/* For a ledger that has this owner already and is no copy, it changes nothing. */
static int store_owned_id(struct store *store, const char *cluster, struct err *err)
{
    CLEANUP(stmt_donep) sqlite3_stmt *stmt = NULL;
    enum store_owner owner = OWNER_NOBODY;

    must(store->db != NULL);
    int failed = store_read_cluster(store, cluster, &owner, err);
    if (failed != 0 || owner == OWNER_THIS)
        return failed;
    failed = db_prepare(store->db, "UPDATE meta SET cluster = ?, is_copy = 0", &stmt, err);
    if (failed != 0)
        return failed;
    struct bind bind = bind_start(stmt);
    bind_text(&bind, cluster);
    return bind_run(&bind, NULL, err);
}

int store_whose(struct store *store, const char *cluster, enum store_owner *out, struct err *err)
{
    must(out != NULL);
    store_lock(store);
    const int failed = store_read_cluster(store, cluster, out, err);
    store_unlock(store);
    return failed;
}

int store_set_cluster(struct store *store, const char *cluster, struct err *err)
{
    must(store != NULL);
    store_lock(store);
    const int failed = store_owned_id(store, cluster, err);
    store_unlock(store);
    return failed;
}
