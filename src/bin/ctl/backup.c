/* The command backup: GET /api/v1/backup into a file that is complete or not there. */
#include <stdio.h>

#include "ctl.h"
#include "new_file.h"

/* An existing file is refused first, before a large download that would be in vain. */
int command_backup(struct ctl *ctl)
{
    const char *name = ctl->options.argument[0];
    struct new_file copy;
    const char *base;
    struct err err;

    must(ctl->options.arguments == 1);
    if (new_file_open(ctl, name, &copy, &err) < 0)
        return err.code == ERR_INVALID ? ctl_misused(ctl, &err) : ctl_fail(ctl, &err);
    if (ctl_base(ctl, &base, &err) < 0 ||
        client_download(ctl_client(ctl), base, "/api/v1/backup", copy.file, &err) < 0) {
        new_file_drop(&copy); /* half a copy is useless */
        return ctl_fail(ctl, &err);
    }
    const long long bytes = (long long)ftello(copy.file);
    if (new_file_publish(ctl, &copy, &err) < 0)
        return ctl_fail(ctl, &err);
    (void)fprintf(ctl->screen.out, "%s: %lld bytes\n", name, bytes);
    return CTL_FINE;
}
