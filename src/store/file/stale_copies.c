/*
 * Finds copies beside the ledger: removes unfinished ones at start (called by store.c on the main
 * thread), and sums the sizes of the others (store_facts(), any thread).
 */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "store/store_internal.h"

/* Patterns after "<ledger>.": a copy before a migration with its side files; a backup's folder. */
static const char copy_before[] = "v[0-9]*-*Z*.part-??????*";
static const char backup_folder[] = "part-??????";

/* Removes a folder that contains only a copy of a ledger. True: removed. */
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
            (void)unlinkat(fd, entry->d_name, 0); /* on failure the folder stays, too */
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

/* Iterates over the files beside the ledger: its name, a dot, and a rest. */
struct beside {
    DIR *folder;      /* NULL: not readable */
    char *path;       /* owned: folder, NUL, name of the ledger */
    const char *base; /* the name of the ledger, in path */
};

static struct beside beside_open(const char *ledger)
{
    struct beside beside = {.path = xstrdup(ledger)};
    char *slash = strrchr(beside.path, '/');

    must(slash != NULL); /* file_find() made it absolute */
    beside.base = slash + 1;
    *slash = '\0';
    beside.folder = opendir(beside.path[0] != '\0' ? beside.path : "/");
    return beside;
}

/* The rest of the next name; NULL at the end. *out_name: the name, valid until the next call. */
static const char *beside_next(const struct beside *beside, const char **out_name)
{
    const size_t length = strlen(beside->base);
    DIR *folder = beside->folder;
    struct dirent *entry;

    if (folder == NULL)
        return NULL;
    while ((entry = readdir(folder)) != NULL) /* NOLINT(concurrency-mt-unsafe): it is ours alone */
        if (strncmp(entry->d_name, beside->base, length) == 0 && entry->d_name[length] == '.') {
            *out_name = entry->d_name;
            return entry->d_name + length + 1;
        }
    return NULL;
}

static void beside_done(struct beside *beside)
{
    if (beside->folder != NULL)
        (void)closedir(beside->folder);
    xfree(beside->path);
}

/*
 * We hold the ledger's lock, so the processes that began these copies have ended. Best effort: the
 * copies are harmless, but each is as large as the ledger, and nothing else removes them.
 */
void store_remove_stale_copies(const struct store *store)
{
    struct beside beside = beside_open(store->path);
    const char *name, *rest;

    must(store->lock_fd >= 0);
    while ((rest = beside_next(&beside, &name)) != NULL)
        if (remove_scrap(dirfd(beside.folder), name, rest))
            store_notice(store, "%s: removed, because it is an unfinished copy", name);
    beside_done(&beside);
}

int64_t store_copies_bytes(const char *ledger)
{
    static const char *const copies[] = {"v[0-9]*-*", "corrupt-*", "replaced-*"};
    struct beside beside = beside_open(ledger);
    const char *name, *rest;
    int64_t bytes = 0;
    struct stat st;

    must(ledger[0] == '/');
    while ((rest = beside_next(&beside, &name)) != NULL)
        for (size_t i = 0; i < ARRAY_LEN(copies); i++)
            if (fnmatch(copies[i], rest, 0) == 0 &&
                fstatat(dirfd(beside.folder), name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                bytes += st.st_size;
    beside_done(&beside);
    return bytes;
}
