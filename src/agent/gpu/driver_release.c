/*
 * Derives the cause of a release from the request file and the label. Called by milligpu-node
 * --release-driver and --take-driver, and by the reporter's thread of the running agent.
 */
#include "driver_release.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"

enum { PATH_BYTES = 512 };

/* States of NVIDIA's k8s-operator-libs, pkg/upgrade, in the order of an upgrade. */
static const struct {
    const char *word;
    bool releases;
    bool goes_on;
} states[] = {
    {"", false, false},
    {"upgrade-required", false, true},
    {"cordon-required", false, true},
    {"wait-for-jobs-required", false, true},
    {"pod-deletion-required", true, true},
    {"drain-required", true, true},
    {"node-maintenance-required", true, true},
    {"post-maintenance-required", true, true},
    {"pod-restart-required", true, true},
    {"validation-required", false, true},
    {"uncordon-required", false, true},
    {"upgrade-done", false, false},
    {"upgrade-failed", false, false},
};

bool driver_upgrade_goes_on(struct text label)
{
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (text_is(label, states[i].word))
            return states[i].goes_on;
    return true;
}

bool driver_upgrade_releases(struct text label, bool before)
{
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (text_is(label, states[i].word))
            return states[i].releases;
    return before;
}

const char *release_cause_word(enum release_cause cause)
{
    static const char *const word[] = {
        [RELEASE_NOT] = NULL, [RELEASE_UPGRADE] = "driver-upgrade", [RELEASE_ORDERED] = "told"};

    must((size_t)cause < ARRAY_LEN(word));
    return word[cause];
}

const char *release_cause_sentence(enum release_cause cause)
{
    static const char *const sentence[] = {
        [RELEASE_NOT] = NULL,
        [RELEASE_UPGRADE] = "the NVIDIA driver of this node is being upgraded (label "
                            "" DRIVER_UPGRADE_LABEL ")",
        [RELEASE_ORDERED] = "the agent of this node was told to let go of the NVIDIA driver "
                            "(milligpu-node --release-driver)"};

    must((size_t)cause < ARRAY_LEN(sentence));
    return sentence[cause];
}

/* --- files --- */

/* False if the path is too long. */
static bool path_of(const char *state_dir, const char *name, char out[PATH_BYTES])
{
    return snprintf(out, PATH_BYTES, "%s/driver%s%s", state_dir, name[0] != '\0' ? "/" : "", name) <
           PATH_BYTES;
}

static bool is_there(const char *state_dir, const char *name)
{
    char path[PATH_BYTES];

    return path_of(state_dir, name, path) && access(path, F_OK) == 0;
}

static int put(const char *state_dir, const char *name, struct err *err)
{
    char path[PATH_BYTES];

    if (!path_of(state_dir, "", path) || !path_of(state_dir, "released", path))
        return err_set(err, ERR_INVALID, "--state-dir: too long");
    (void)path_of(state_dir, "", path);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
    (void)path_of(state_dir, name, path);
    return file_replace(path, TEXT("yes\n"), err);
}

static int take_away(const char *state_dir, const char *name, struct err *err)
{
    char path[PATH_BYTES];

    if (!path_of(state_dir, name, path))
        return err_set(err, ERR_INVALID, "--state-dir: too long");
    if (unlink(path) != 0 && errno != ENOENT)
        return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
    return 0;
}

int driver_release_ask(const char *state_dir, bool release, int64_t wait_ms, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    const int64_t until_ms = clock_ms() + wait_ms;
    struct err unused;

    const int rc = release ? put(state_dir, "asked", err) : take_away(state_dir, "asked", err);
    if (rc < 0)
        return err_same(err);
    while (is_there(state_dir, "released") != release) {
        if (clock_ms() >= until_ms) {
            if (release)
                (void)take_away(state_dir, "asked", &unused);
            return err_set(err, ERR_TIMEOUT,
                           "no agent with the state folder %s %s: does it run, and what does its "
                           "log say?",
                           state_dir, release ? "let go of the driver" : "takes the driver again");
        }
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

/* --- in the agent --- */

struct driver_release {
    const char *state_dir;
    bool is_upgrading; /* the last label requires a release */
    bool has_let_go;   /* STATE_DIR/driver/released exists */
    atomic_int cause;  /* enum release_cause */
};

static enum release_cause check(const struct driver_release *release)
{
    if (is_there(release->state_dir, "asked"))
        return RELEASE_ORDERED;
    return release->is_upgrading ? RELEASE_UPGRADE : RELEASE_NOT;
}

/* If the previous agent had released the driver without a request, it was because of the label. */
struct driver_release *driver_release_new(const char *state_dir)
{
    struct driver_release *release = xcalloc(1, sizeof *release);

    release->state_dir = state_dir;
    release->has_let_go = is_there(state_dir, "released");
    release->is_upgrading = release->has_let_go && !is_there(state_dir, "asked");
    atomic_init(&release->cause, (int)check(release));
    return release;
}

void driver_release_free(struct driver_release *release)
{
    xfree(release);
}

void driver_release_label(struct driver_release *release, struct text label)
{
    release->is_upgrading = driver_upgrade_releases(label, release->is_upgrading);
}

static void log_change(const struct driver_release *release, enum release_cause before)
{
    const enum release_cause cause = driver_release_cause(release);

    if (cause == before)
        return;
    if (cause == RELEASE_NOT)
        log_plain(LOG_INFO, "the NVIDIA driver is taken again");
    else
        log_write(LOG_WARN, "the NVIDIA driver is let go of",
                  log_str("why", release_cause_sentence(cause)));
}

/* Creates or removes STATE_DIR/driver/released after a change; retried in the next turn. */
static void write_down(struct driver_release *release, bool has_let_go)
{
    struct err err;

    if (has_let_go == release->has_let_go)
        return;
    const int rc = has_let_go ? put(release->state_dir, "released", &err)
                              : take_away(release->state_dir, "released", &err);
    if (rc < 0) {
        log_write(LOG_WARN, "who waits for the driver cannot be told", log_str("why", err.text));
        return;
    }
    release->has_let_go = has_let_go;
    if (has_let_go)
        log_plain(LOG_INFO, "nothing of this agent has the NVIDIA driver open");
}

enum release_cause driver_release_turn(struct driver_release *release, bool has_let_go)
{
    const enum release_cause before = driver_release_cause(release);
    const enum release_cause cause = check(release);

    atomic_store(&release->cause, (int)cause);
    log_change(release, before);
    write_down(release, cause != RELEASE_NOT && (has_let_go || release->has_let_go));
    return cause;
}

enum release_cause driver_release_cause(const struct driver_release *release)
{
    return release != NULL ? (enum release_cause)atomic_load(&release->cause) : RELEASE_NOT;
}
