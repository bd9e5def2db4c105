/*
 * Write-and-rename of new files. Called by command_backup.c, command_diagnostics.c and
 * backup_folder.c in the only thread. In order: sync and rename, open, complete, publish, drop.
 */
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the rename durable: a power loss could undo it otherwise. */
static int sync_folder(struct ctl *ctl, const char *name, struct err *err)
{
    const char *slash = strrchr(name, '/');
    /* Includes the slash, so that the folder of "/x" is "/". */
    const struct text before = {name, slash != NULL ? (size_t)(slash - name) + 1 : 0};
    const char *path = slash != NULL ? arena_copy(&ctl->arena, before) : ".";
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    must(name[0] != '\0');
    if (folder < 0)
        return err_set(err, ERR_IO, "folder of %.300s: %m", name);
    /* EINVAL: the file system cannot sync a folder and does not need it. */
    const int status = fsync(folder) != 0 && errno != EINVAL
                           ? err_set(err, ERR_IO, "folder of %.300s: %m", name)
                           : 0;
    (void)close(folder); /* already synced */
    return status;
}

/*
 * Without force, does not overwrite a file that was created meanwhile. EINVAL: the file system does
 * not support RENAME_NOREPLACE; then only the check in new_file_open() protects the file.
 */
static bool move_into_place(const char *made, const char *name, bool force)
{
    must(strcmp(made, name) != 0);
    if (!force && renameat2(AT_FDCWD, made, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
        return true;
    return (force || errno == EINVAL) && rename(made, name) == 0;
}

/*
 * O_NOFOLLOW: in a folder that others can write to, a symbolic link must not redirect the file. A
 * temporary file of an interrupted command is overwritten.
 */
int new_file_open(struct ctl *ctl, const char *name, struct new_file *out, struct err *err)
{
    const bool force = ctl->options.given[OPTION_force] != NULL;
    struct stat there;

    if (name[0] == '\0')
        return err_set(err, ERR_INVALID, "the name of the file is empty");
    if (!force && lstat(name, &there) == 0)
        return err_set(err, ERR_CONFLICT, "%.300s is there already: --force replaces it", name);
    *out = (struct new_file){.name = name, .made = arena_printf(&ctl->arena, "%s.tmp", name)};
    const int fd = open(out->made, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    out->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out->file != NULL)
        return 0;
    const int status = err_set(err, ERR_IO, "%.300s: %m", out->made);
    if (fd >= 0)
        (void)close(fd); /* empty */
    return status;
}

int new_file_complete(struct new_file *file, struct err *err)
{
    int status = 0;

    must(file->file != NULL);
    if (fflush(file->file) != 0 || fsync(fileno(file->file)) != 0)
        status = err_set(err, ERR_IO, "%.300s: %m", file->made);
    if (fclose(STEAL(file->file)) != 0 && status == 0)
        status = err_set(err, ERR_IO, "%.300s: %m", file->made);
    if (status < 0)
        new_file_drop(file);
    return status;
}

/* Order: sync the content, rename, sync the folder, report success. */
int new_file_publish(struct ctl *ctl, struct new_file *file, struct err *err)
{
    const bool force = ctl->options.given[OPTION_force] != NULL;
    int status = 0;

    if (file->file != NULL && new_file_complete(file, err) < 0)
        return err_same(err);
    if (!move_into_place(file->made, file->name, force))
        status = err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, "%.300s: %m", file->name);
    if (status == 0)
        return sync_folder(ctl, file->name, err);
    new_file_drop(file);
    return status;
}

void new_file_drop(struct new_file *file)
{
    must(file->made != NULL);
    if (file->file != NULL)
        (void)fclose(STEAL(file->file)); /* discarded */
    (void)unlink(file->made);
}
