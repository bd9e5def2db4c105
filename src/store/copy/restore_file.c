/*
 * Replaces a ledger by a backup. The former file is moved aside with its log, which SQLite would
 * otherwise replay into the backup. Called by milligpuctl. An interruption leaves both ledgers
 * complete: the backup is copied under a temporary name, the former files are moved aside, then the
 * copy is renamed. The copy keeps its version: a milligpud of that version opens it, a newer one
 * migrates it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

/* Older versions have no mark for a copy, so a restored ledger would not wait before it grants. */
enum { MARKED_VERSION_MIN = 6 };

static void restore_unlock(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* releases the lock */
}

/* Makes a complete, checked and synced copy, marked as one (backup_to()). */
static int restore_copy(const char *from, const char *to, struct err *err)
{
    struct quiet_file file;
    int64_t version = 0;
    struct err later;

    must(strcmp(from, to) != 0);
    int failed = quiet_open(from, &file, &version, err);
    if (failed == 0 && version < MARKED_VERSION_MIN)
        failed = err_set(err, ERR_INVALID,
                         "%s: version %lld of a ledger; only versions from %d on can be restored, "
                         "since older ones do not say that they are copies",
                         from, (long long)version, MARKED_VERSION_MIN);
    if (failed == 0)
        failed = backup_to(file.db, to, err);
    if (quiet_close(&file, &later) < 0 && failed == 0)
        failed = err_set(err, later.code, "%s", later.text);
    return failed;
}

/* Keeps the former file's owner, so that the daemon can open a ledger that root has restored. */
static int give_to_owner(const char *path, const char *copy, struct err *err)
{
    struct stat st;

    must(copy[0] == '/');
    if (geteuid() != 0 || stat(path, &st) < 0)
        return 0;
    if (chown(copy, st.st_uid, st.st_gid) < 0)
        return err_set(err, ERR_IO, "%s: %m", copy);
    return 0;
}

int store_restore(const char *backup, const char *path, struct restored *out, struct err *err)
{
    CLEANUP(xfreep) char *ledger = NULL;
    CLEANUP(restore_unlock) int lock = -1;

    must(out != NULL);
    int failed = file_find(path, &ledger, err);
    if (failed == 0)
        failed = file_lock(ledger, &lock, err);
    if (failed != 0)
        return failed;
    CLEANUP(xfreep) char *copy = file_free_name(ledger, "restored");
    failed = restore_copy(backup, copy, err);
    if (failed != 0)
        return failed;
    failed = give_to_owner(ledger, copy, err);
    if (failed == 0)
        failed = file_move_aside(ledger, "replaced", &out->aside, err);
    if (failed == 0 && rename(copy, ledger) < 0)
        failed = err_set(err, ERR_IO, "%s: %m; the restored ledger is %s", ledger, copy);
    if (failed == 0)
        failed = file_sync_folder(ledger, err);
    return failed;
}
