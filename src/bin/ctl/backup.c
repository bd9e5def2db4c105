/*
 * The command backup: GET /api/v1/backup into a file. The copy is written beside its final name,
 * synced, and renamed, so that a file of that name is always complete and survives a power loss.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

/* First the bytes must be on disk, then the name, then success is reported. */
static int flush_to_disk(FILE *file, const char *name, struct err *err)
{
    must(file != NULL);
    if (fflush(file) != 0 || fsync(fileno(file)) != 0)
        return err_set(err, ERR_IO, "%.300s: %m", name);
    return 0;
}

/* Without this, a power loss after the success message could undo the rename. */
static int sync_folder(struct ctl *ctl, const char *name, struct err *err)
{
    const char *slash = strrchr(name, '/');
    /* With its slash, so that "/x" is in "/". */
    const struct text before = {name, slash != NULL ? (size_t)(slash - name) + 1 : 0};
    const char *path = slash != NULL ? arena_copy(&ctl->arena, before) : ".";
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    must(name[0] != '\0');
    if (folder < 0)
        return err_set(err, ERR_IO, "folder of %.300s: %m", name);
    /* Some file systems cannot sync a folder, and need not. */
    const int status = fsync(folder) != 0 && errno != EINVAL
                           ? err_set(err, ERR_IO, "folder of %.300s: %m", name)
                           : 0;
    (void)close(folder); /* only synced */
    return status;
}

/*
 * Without --force, a file that appeared meanwhile is not overwritten. EINVAL: the file system does
 * not know RENAME_NOREPLACE; then the check in command_backup() has to be enough.
 */
static bool backup_move(const char *made, const char *name, bool force)
{
    must(strcmp(made, name) != 0);
    if (!force && renameat2(AT_FDCWD, made, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
        return true;
    return (force || errno == EINVAL) && rename(made, name) == 0;
}

static int backup_publish(struct ctl *ctl, const char *made, const char *name, struct err *err)
{
    must(name[0] != '\0');
    if (!backup_move(made, name, ctl->options.given[OPTION_force] != NULL))
        return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, "%.300s: %m", name);
    return sync_folder(ctl, name, err);
}

/*
 * O_NOFOLLOW: in a folder that others can write to, a link must not lead the copy elsewhere. A copy
 * that an interrupted backup left is overwritten.
 */
static int backup_download(struct ctl *ctl, const char *made, struct err *err)
{
    const char *base;

    if (ctl_base(ctl, &base, err) < 0)
        return err_same(err);
    must(base != NULL);
    /* A ledger contains names of pods: only the owner may read it. */
    const int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        const int status = err_set(err, ERR_IO, "%.300s: %m", made);
        if (fd >= 0)
            (void)close(fd); /* nothing was written */
        return status;
    }
    int status = client_download(ctl_client(ctl), base, "/api/v1/backup", file, err);
    if (status == 0)
        status = flush_to_disk(file, made, err);
    if (fclose(file) != 0 && status == 0)
        status = err_set(err, ERR_IO, "%.300s: %m", made);
    return status;
}

/* The check for an existing file comes first, before a large download that would be in vain. */
int command_backup(struct ctl *ctl)
{
    const char *name = ctl->options.argument[0];
    const char *made = arena_printf(&ctl->arena, "%s.tmp", name);
    struct stat there;
    struct err err;

    must(ctl->options.arguments == 1);
    if (name[0] == '\0') {
        (void)err_set(&err, ERR_INVALID, "the name of the file is empty");
        return ctl_misused(ctl, &err);
    }
    if (ctl->options.given[OPTION_force] == NULL && lstat(name, &there) == 0) {
        (void)err_set(&err, ERR_CONFLICT, "%.300s is there already: --force replaces it", name);
        return ctl_fail(ctl, &err);
    }
    if (backup_download(ctl, made, &err) < 0 || backup_publish(ctl, made, name, &err) < 0) {
        (void)unlink(made); /* half a copy is useless */
        return ctl_fail(ctl, &err);
    }
    (void)fprintf(ctl->screen.out, "%s: %lld bytes\n", name,
                  lstat(name, &there) == 0 ? (long long)there.st_size : 0);
    return CTL_FINE;
}
