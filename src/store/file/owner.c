/*
 * Reads, compares and sets the owner of a ledger, the cluster in meta.cluster. The main thread
 * reads it from a file of an older version before the opening, because a migration writes. Later
 * calls use the writer's connection: store_whose() on the informer thread, before the writer begins
 * its work, and store_set_cluster() in the writer.
 */
#include <string.h>

#include "store/store_internal.h"

/* More than UID_BYTES_MAX, so that a longer owner is truncated to a text that equals no uid. */
enum { OWNER_BYTES = UID_BYTES_MAX + 8 };

/* "": no owner. Also without the column: then it is not a ledger, and the opening fails. */
static int owner_read(sqlite3 *db, char out[OWNER_BYTES], struct err *err)
{
    int64_t columns = 0;

    out[0] = '\0';
    const int failed = db_number(
        db, "SELECT count(*) FROM pragma_table_info('meta') WHERE name = 'cluster'", &columns, err);
    if (failed != 0 || columns == 0)
        return failed;
    return db_sentence(db, "SELECT coalesce(cluster, '') FROM meta", out, OWNER_BYTES, err);
}

static int owner_compare(const struct store *store, const char *owner, const char *cluster,
                         struct err *err)
{
    must(store->path != NULL);
    if (owner[0] == '\0' || strcmp(owner, cluster) == 0)
        return 0;
    return err_set(err, ERR_FOREIGN,
                   "%s: the ledger of another cluster (its kube-system has the uid %s, this "
                   "one's is %s); name another file, or another cluster",
                   store->path, owner, cluster);
}

/* --- before the file is opened --- */

/* False: no ledger, or a read error, which the opening will report. */
static bool owner_look(const char *path, char out[OWNER_BYTES], int64_t *out_version)
{
    struct quiet_file file;
    struct err err;

    int failed = quiet_open_locked(path, &file, out_version, &err);
    if (failed == 0)
        failed = owner_read(file.db, out, &err);
    return quiet_close(&file, &err) == 0 && failed == 0;
}

int owner_confirm(struct store *store, const struct store_rules *rules, struct err *err)
{
    char owner[OWNER_BYTES];
    int64_t version = 0;
    struct err why;

    must(store->db == NULL && store->lock_fd >= 0);
    if (!store->asks_cluster || !owner_look(store->path, owner, &version) || owner[0] == '\0' ||
        version >= store->schema->version)
        return 0;
    int failed = rules->cluster(rules->user, store->cluster, &why);
    if (failed != 0)
        failed = err_set(err, why.code,
                         "%s: the ledger of the cluster whose kube-system has the uid %s, and "
                         "this cluster's is not known: %s",
                         store->path, owner, why.text);
    else
        failed = owner_compare(store, owner, store->cluster, err);
    if (failed != 0)
        return err_wrap(err, "not migrated from version %lld", (long long)version);
    return 0;
}

/*
 * The owner of the open file can differ from that of owner_look(): a read failed temporarily, or
 * SQLite rolled back a rollback journal at the opening (milligpud never leaves one).
 */
int owner_may_migrate(const struct store *store, int64_t version, struct err *err)
{
    char owner[OWNER_BYTES];

    must(store->db != NULL);
    if (!store->asks_cluster || version >= store->schema->version)
        return 0;
    const int failed = owner_read(store->db, owner, err);
    if (failed != 0 || owner[0] == '\0' || strcmp(owner, store->cluster) == 0)
        return failed;
    return err_set(
        err, ERR_BUSY,
        "%s: not migrated from version %lld: its owner could not be read before the file "
        "was opened; start milligpud again",
        store->path, (long long)version);
}

/* --- while it is open --- */

static int store_read_cluster(struct store *store, const char *cluster, enum store_owner *out,
                              struct err *err)
{
    char owner[OWNER_BYTES];
    int64_t is_copy = 0;

    must(!store->in_batch);
    if (cluster == NULL || cluster[0] == '\0' || strlen(cluster) > UID_BYTES_MAX)
        return err_set(err, ERR_INVALID, "the cluster's uid has to have 1 to %d bytes",
                       UID_BYTES_MAX);
    int failed = owner_read(store->db, owner, err);
    if (failed == 0)
        failed = db_number(store->db, "SELECT is_copy FROM meta", &is_copy, err);
    if (failed == 0)
        failed = owner_compare(store, owner, cluster, err);
    if (failed == 0)
        *out = owner[0] == '\0' ? OWNER_NOBODY : is_copy != 0 ? OWNER_THIS_BY_COPY : OWNER_THIS;
    return failed;
}

/* Writes nothing if the ledger already has this owner and is not a copy. */
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
    must(sole_thread_admits(&store->writer));
    store_lock(store);
    const int failed = store_read_cluster(store, cluster, out, err);
    store_unlock(store);
    return failed;
}

int store_set_cluster(struct store *store, const char *cluster, struct err *err)
{
    must(store != NULL);
    must(sole_thread_enter(&store->writer));
    store_lock(store);
    const int failed = store_owned_id(store, cluster, err);
    store_unlock(store);
    return failed;
}
