#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/alloc.h"

#include "store/store_internal.h"

/*
 * What follows "<ledger>.": a copy before a migration with its side files; the folder of a backup.
 */
static const char copy_before[] = "v[0-9]*-*Z*.part-??????*";
static const char backup_folder[] = "part-??????";

/* True if it was a folder with only a copy of a ledger in it, and is removed. */
static bool remove_folder(int above, const char *name)
{
    struct dirent *entry;

    must(name[0] != '\0');
    const int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        (void)close(fd);
        return false;
    }
    while ((entry = readdir(folder)) != NULL) /* NOLINT(concurrency-mt-unsafe): it is ours alone */
        if (fnmatch("ledger.db*", entry->d_name, 0) == 0)
            (void)unlinkat(fd, entry->d_name, 0); /* if it stays, so does the folder */
    (void)closedir(folder);
    return unlinkat(above, name, AT_REMOVEDIR) == 0;
}

static bool remove_scrap(int folder, const char *name, const char *rest)
{
    must(rest > name);
    if (fnmatch(backup_folder, rest, 0) == 0)
        return remove_folder(folder, name);
    return fnmatch(copy_before, rest, 0) == 0 && unlinkat(folder, name, 0) == 0;
}

/*
 * We hold the ledger's lock, so whoever began these copies is dead. Best effort: they do no harm,
 * but each is as large as the ledger, and nobody else would ever remove them.
 */
void store_remove_stale_copies(const struct store *store)
{
    CLEANUP(xfreep) char *path = xstrdup(store->path);
    char *slash = strrchr(path, '/');
    struct dirent *entry;

    must(slash != NULL && store->lock_fd >= 0);
    const char *base = slash + 1;
    const size_t length = strlen(base);
    *slash = '\0';
    DIR *folder = opendir(path[0] != '\0' ? path : "/");
    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL) /* NOLINT(concurrency-mt-unsafe): it is ours alone */
        if (strncmp(entry->d_name, base, length) == 0 && entry->d_name[length] == '.' &&
            remove_scrap(dirfd(folder), entry->d_name, entry->d_name + length + 1))
            store_notice(store, "%s: removed, because it is an unfinished copy", entry->d_name);
    (void)closedir(folder);
}
