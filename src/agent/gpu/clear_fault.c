/*
 * Creates and takes request files. Called by milligpu-node --clear-fault, and by the reporter's
 * thread of the running agent.
 */
#include "clear_fault.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/file.h"

#include "agent/common/device.h"

static const char FOLDER[] = "clear-fault";

int clear_fault_ask(const char *state_dir, const char *uuid, int64_t wait_ms, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    const int64_t until_ms = clock_ms() + wait_ms;
    char path[PATH_MAX];

    if (!device_is_uuid(text_of(uuid)) || strchr(uuid, '/') != NULL)
        return err_set(err, ERR_INVALID, "--clear-fault: \"%.100s\" is no UUID of a GPU (GPU-...)",
                       uuid);
    if (snprintf(path, sizeof path, "%s/%s", state_dir, FOLDER) >= (int)sizeof path - NAME_MAX)
        return err_set(err, ERR_INVALID, "--state-dir: too long");
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
    (void)snprintf(path, sizeof path, "%s/%s/%s", state_dir, FOLDER, uuid);
    if (file_replace(path, TEXT("clear-fault\n"), err) < 0)
        return err_same(err);
    while (access(path, F_OK) == 0) {
        if (clock_ms() >= until_ms) {
            (void)unlink(path);
            return err_set(err, ERR_TIMEOUT,
                           "no agent with the state folder %s accepted it: "
                           "is one running, with NVML?",
                           state_dir);
        }
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

void clear_fault_take(const char *state_dir, void *user, void (*act)(void *user, const char *uuid))
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", state_dir, FOLDER) >= (int)sizeof path - NAME_MAX)
        return;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return; /* usually: no request was ever made */
    for (int i = 0; i < CLEAR_FAULT_MAX; i++) {
        const struct dirent *entry = readdir(folder); /* NOLINT(concurrency-mt-unsafe) */
        if (entry == NULL)
            break;
        if (!device_is_uuid(text_of(entry->d_name)))
            continue;
        act(user, entry->d_name);
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    (void)closedir(folder);
}
