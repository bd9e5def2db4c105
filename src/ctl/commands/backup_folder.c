/*
 * Makes and finds backups in a folder. Called by command_backup.c and command_verify.c in the only
 * thread. A new backup is made in these steps, the first failure of which ends it: lock, remove
 * incomplete backups, copy under a temporary name, verify, rename, remove old backups.
 */
#include "backup_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/store/verify.h"

#include "new_file.h"

enum { NAME_BYTES = 32 };

static const char pattern[] = "ledger-########T######Z.db"; /* # is a digit */

struct backup_folder {
    struct ctl *ctl;
    const char *path;
    int lock;
    char now[NAME_BYTES]; /* name of a backup with the present time */
    /* existing backups, sorted by name and so by time */
    char (*name)[NAME_BYTES];
    size_t count;
    size_t capacity;
    size_t past; /* number of them whose time is not in the future */
    size_t removed;
};

/* True if name is that of a backup plus this suffix. */
static bool is_backup_name(const char *name, const char *suffix)
{
    const size_t length = strlen(pattern);

    must(suffix != NULL);
    for (size_t i = 0; i < length; i++)
        if (pattern[i] == '#' ? name[i] < '0' || name[i] > '9' : name[i] != pattern[i])
            return false;
    return strcmp(name + length, suffix) == 0;
}

static const char *backup_path(const struct backup_folder *folder, const char *name)
{
    return arena_printf(&folder->ctl->arena, "%s/%s", folder->path, name);
}

/* The lock ends with the process, so nothing needs cleanup after a kill. */
static int lock_folder(struct backup_folder *folder, struct err *err)
{
    const char *name = backup_path(folder, ".backup.lock");
    struct stat st;

    must(folder->lock < 0);
    if (stat(folder->path, &st) != 0)
        return err_set(err, ERR_IO, "%.300s: %m", folder->path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "%.300s is no folder, and --keep needs one", folder->path);
    folder->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock < 0)
        return err_set(err, ERR_IO, "%.300s: %m", name);
    if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK
               ? err_set(err, ERR_BUSY, "%.300s: another backup into this folder is being made",
                         folder->path)
               : err_set(err, ERR_IO, "%.300s: %m", name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* True for a regular file; links and folders are never backups. */
static bool is_file(const struct backup_folder *folder, const char *name)
{
    struct stat st;

    return lstat(backup_path(folder, name), &st) == 0 && S_ISREG(st.st_mode);
}

/* Calls each() for every regular file with the name of a backup plus this suffix. */
static int each_backup(struct backup_folder *folder, const char *suffix,
                       void (*each)(struct backup_folder *folder, const char *name),
                       struct err *err)
{
    DIR *entries = opendir(folder->path);
    const struct dirent *entry;

    if (entries == NULL)
        return err_set(err, ERR_IO, "%.300s: %m", folder->path);
    errno = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread */
    while ((entry = readdir(entries)) != NULL) {
        if (is_backup_name(entry->d_name, suffix) && is_file(folder, entry->d_name))
            each(folder, entry->d_name);
        errno = 0;
    }
    const int status = errno != 0 ? err_set(err, ERR_IO, "%.300s: %m", folder->path) : 0;
    (void)closedir(entries); /* read-only */
    return status;
}

/* Safe under the lock: no other process writes the file. A failure does no harm. */
static void drop_stale(struct backup_folder *folder, const char *name)
{
    (void)unlink(backup_path(folder, name));
}

static void note_name(struct backup_folder *folder, const char *name)
{
    folder->name = xgrow(folder->name, folder->count, &folder->capacity, sizeof *folder->name);
    (void)snprintf(folder->name[folder->count++], NAME_BYTES, "%s", name);
    folder->past += strcmp(name, folder->now) <= 0;
}

static int list_backups(struct backup_folder *folder, struct err *err)
{
    must(folder->count == 0);
    if (each_backup(folder, "", note_name, err) < 0)
        return err_same(err);
    if (folder->count > 0)
        qsort(folder->name, folder->count, sizeof *folder->name, compare_names);
    return 0;
}

static void note_wrong(void *user, enum store_check check, const char *wrong)
{
    struct err *first = user;

    if (wrong != NULL && first->code == ERR_NONE)
        (void)err_set(first, ERR_CORRUPT, "check \"%s\" failed: %.300s", store_check_name(check),
                      wrong);
}

static int verify_copy(const char *file, struct err *err)
{
    struct err wrong = {.code = ERR_NONE};

    must(file[0] != '\0');
    if (store_verify_file(file, &wrong, note_wrong, err) < 0)
        return err_same(err);
    return wrong.code != ERR_NONE ? err_set(err, wrong.code, "%s", wrong.text) : 0;
}

/* Only verified copies get their final name. */
static int make_backup(struct backup_folder *folder, long long *out_bytes, struct err *err)
{
    struct ctl *ctl = folder->ctl;
    struct new_file copy;
    const char *base;

    if (new_file_open(ctl, backup_path(folder, folder->now), &copy, err) < 0)
        return err->code == ERR_CONFLICT
                   ? err_set(err, ERR_CONFLICT, "%.300s/%s is there already: try again in a second",
                             folder->path, folder->now)
                   : err_same(err);
    if (ctl_base(ctl, &base, err) < 0 ||
        client_download(ctl_client(ctl), base, "/api/v1/backup", copy.file, err) < 0) {
        new_file_drop(&copy);
        return err_same(err);
    }
    *out_bytes = (long long)ftello(copy.file);
    if (new_file_complete(&copy, err) < 0)
        return err_same(err);
    if (verify_copy(copy.made, err) < 0) {
        new_file_drop(&copy);
        return err_wrap(err, "the new backup is not usable, and was removed");
    }
    return new_file_publish(ctl, &copy, err);
}

/* keep includes the new backup. Continues after a file that cannot be removed. */
static int drop_oldest(struct backup_folder *folder, unsigned keep, struct err *err)
{
    int status = list_backups(folder, err);

    must(keep > 0);
    if (status < 0)
        return status;
    for (size_t i = 0; i + keep < folder->past; i++) {
        const char *name = backup_path(folder, folder->name[i]);
        if (unlink(name) == 0)
            folder->removed++;
        else if (status == 0)
            status = err_set(err, ERR_IO, "%.300s cannot be removed: %m", name);
    }
    return status;
}

static void report_backup(const struct backup_folder *folder, long long bytes)
{
    const struct ctl *ctl = folder->ctl;
    const size_t later = folder->count - folder->past;

    (void)fprintf(ctl->screen.out, "%s/%s: %lld bytes, verified; %zu backups, %zu removed\n",
                  folder->path, folder->now, bytes, folder->past - folder->removed,
                  folder->removed);
    if (later > 0)
        (void)fprintf(ctl->err,
                      "milligpuctl: %zu backups in %.300s are named after a later time than now; "
                      "they are not counted\n",
                      later, folder->path);
}

static int name_now(struct backup_folder *folder, struct err *err)
{
    const time_t now = (time_t)(folder->ctl->screen.now_ms / 1000);
    struct tm utc;

    must(gmtime_r(&now, &utc) != NULL);
    if (strftime(folder->now, sizeof folder->now, "ledger-%Y%m%dT%H%M%SZ.db", &utc) > 0 &&
        is_backup_name(folder->now, ""))
        return 0;
    return err_set(err, ERR_INVALID, "the clock of this machine is wrong: the year is %d",
                   utc.tm_year + 1900);
}

static int add_backup(struct backup_folder *folder, unsigned keep, struct err *err)
{
    long long bytes = 0;

    if (name_now(folder, err) < 0 || lock_folder(folder, err) < 0 ||
        each_backup(folder, ".tmp", drop_stale, err) < 0 || make_backup(folder, &bytes, err) < 0)
        return err_same(err);
    const int status = drop_oldest(folder, keep, err);
    report_backup(folder, bytes);
    return status;
}

int backup_folder_add(struct ctl *ctl, const char *path, unsigned keep, struct err *err)
{
    struct backup_folder folder = {.ctl = ctl, .path = path, .lock = -1};

    const int status = add_backup(&folder, keep, err);
    if (folder.lock >= 0)
        (void)close(folder.lock); /* releases the lock */
    xfree(folder.name);
    return status;
}

int backup_folder_newest(struct ctl *ctl, const char *path, const char **out, struct err *err)
{
    struct backup_folder folder = {.ctl = ctl, .path = path, .lock = -1};

    int status = name_now(&folder, err);
    if (status == 0)
        status = list_backups(&folder, err);
    if (status == 0 && folder.past == 0)
        status = err_set(err, ERR_NOT_FOUND,
                         "%.300s has no backup that is named ledger-TIME.db, after a time that is "
                         "not later than now",
                         path);
    if (status == 0)
        *out = backup_path(&folder, folder.name[folder.past - 1]);
    xfree(folder.name);
    return status;
}
