/* The command backup: GET /api/v1/backup into a file that is complete or absent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup_folder.h"
#include "ctl/commands.h"
#include "new_file.h"

enum { KEEP_MAX = 10000 };

static int keep_of(const char *given, unsigned *out, struct err *err)
{
    const size_t digits = strspn(given, "0123456789");
    const unsigned long number = digits > 0 && digits < 6 ? strtoul(given, NULL, 10) : 0;

    must(given[0] != '\0');
    if (given[digits] != '\0' || number == 0 || number > KEEP_MAX)
        return err_set(err, ERR_INVALID, "--keep is %.60s: write a whole number from 1 to %d",
                       given, KEEP_MAX);
    *out = (unsigned)number;
    return 0;
}

static int back_up_to_folder(struct ctl *ctl, const char *given)
{
    unsigned keep = 0;
    struct err err;

    if (ctl->options.given[OPTION_force] != NULL) {
        (void)err_set(&err, ERR_INVALID, "--keep replaces no file, so leave out --force");
        return ctl_misused(ctl, &err);
    }
    if (keep_of(given, &keep, &err) < 0)
        return ctl_misused(ctl, &err);
    return backup_folder_add(ctl, ctl->options.argument[0], keep, &err) < 0 ? ctl_fail(ctl, &err)
                                                                            : CTL_FINE;
}

/* Refuses an existing file before the download, which can be large. */
int command_backup(struct ctl *ctl)
{
    const char *name = ctl->options.argument[0];
    const char *keep = ctl->options.given[OPTION_keep];
    struct new_file copy;
    const char *base;
    struct err err;

    must(ctl->options.n_arguments == 1);
    if (keep != NULL)
        return back_up_to_folder(ctl, keep);
    if (new_file_open(ctl, name, &copy, &err) < 0)
        return err.code == ERR_INVALID ? ctl_misused(ctl, &err) : ctl_fail(ctl, &err);
    if (ctl_base(ctl, &base, &err) < 0 ||
        client_download(ctl_client(ctl), base, "/api/v1/backup", copy.file, &err) < 0) {
        new_file_drop(&copy); /* incomplete */
        return ctl_fail(ctl, &err);
    }
    const long long bytes = (long long)ftello(copy.file);
    if (new_file_publish(ctl, &copy, &err) < 0)
        return ctl_fail(ctl, &err);
    (void)fprintf(ctl->screen.out, "%s: %lld bytes\n", name, bytes);
    return CTL_FINE;
}
