/*
 * Creates the folder of a diagnostics bundle, <ledger>.safe-mode-<UTC>, beside the ledger. Called
 * once, by the thread that enters safe mode; the verifier's thread fills the folder
 * (diagnostics.c).
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/app.h"
#include "milligpu/spine/safe_mode.h"
#include "milligpu/store/store.h"
#include "milligpu/wire/admin/wire_admin.h"

enum { NAMES_TRIED = 100 };

static const char mark[] = ".safe-mode-";

/* Counts the existing bundles of this ledger. */
static int count_bundles(const char *ledger, uint32_t *out, struct err *err)
{
    const char *slash = strrchr(ledger, '/');
    CLEANUP(xfreep) char *folder = xstrdup(ledger);

    must(slash != NULL); /* the store made it absolute */
    /* A ledger in the root folder keeps its slash. */
    folder[slash == ledger ? 1 : slash - ledger] = '\0';
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return err_set(err, ERR_IO, "%s: %m", folder);
    const size_t bare = strlen(slash + 1);
    *out = 0;
    const struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone */
    while ((entry = readdir(dir)) != NULL)
        *out += strncmp(entry->d_name, slash + 1, bare) == 0 &&
                strncmp(entry->d_name + bare, mark, sizeof mark - 1) == 0;
    (void)closedir(dir); /* it was only read */
    return 0;
}

/*
 * mkdir() creates the folder exclusively, so two processes never share one. Mode 0700: the bundle
 * contains the names of pods.
 */
static int safe_mode_folder_make_folder(const struct app *app, const char *ledger, char *out,
                                        size_t bytes, struct err *err)
{
    char at[TIME_TEXT_BYTES];
    char stamp[TIME_TEXT_BYTES];
    size_t used = 0;

    must(ledger[0] == '/');
    time_format(app->clock.wall_ms(app->clock.ctx), at);
    /* 20260102T030405Z, as in the names of other files beside a ledger. */
    for (const char *from = at; *from != '\0' && *from != '.'; from++)
        if (*from != '-' && *from != ':')
            stamp[used++] = *from;
    stamp[used] = '\0';
    for (unsigned n = 1; n <= NAMES_TRIED; n++) {
        char again[16] = "";
        if (n > 1)
            (void)snprintf(again, sizeof again, ".%u", n);
        const int length = snprintf(out, bytes, "%s%s%sZ%s", ledger, mark, stamp, again);
        if (length < 0 || (size_t)length >= bytes)
            return err_set(err, ERR_INVALID, "none: the name of the folder is too long");
        if (mkdir(out, 0700) == 0)
            return 0;
        if (errno != EEXIST)
            return err_set(err, ERR_IO, "none: %.300s: %m", out);
    }
    return err_set(err, ERR_CONFLICT, "none: every name for the folder is taken");
}

int safe_mode_folder(const struct app *app, char *out, size_t bytes, struct err *err)
{
    /* Also called within a batch, so it must not take the store's lock. */
    const char *ledger = app->store != NULL ? store_path(app->store) : ":memory:";
    uint32_t there = 0;

    must(bytes > 0);
    if (strcmp(ledger, ":memory:") == 0)
        return err_set(err, ERR_NOT_FOUND, "none: the ledger is in memory");
    const int failed = count_bundles(ledger, &there, err);
    if (failed != 0)
        return failed;
    /* A process in a restart loop must not fill the disk of the ledger. */
    if (there >= DIAGNOSTICS_MAX)
        return err_set(err, ERR_FULL, "none: there are %u beside the ledger already", there);
    return safe_mode_folder_make_folder(app, ledger, out, bytes, err);
}
