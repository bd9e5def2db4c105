/*
 * driver_release - when the agent lets go of NVIDIA's driver, so that it can be replaced.
 *
 *     milligpu-node --release-driver --> STATE_DIR/driver/asked ---+
 *                                                                  +--> cause --> nvml_release(),
 *     label DRIVER_UPGRADE_LABEL of the Node ----------------------+              mps_leave()
 *
 *     STATE_DIR/driver/released <-- no file of the driver is open any more
 *
 * The kernel's modules of the driver cannot be unloaded while a process has the driver open, and
 * NVIDIA's GPU operator, which upgrades drivers node by node, does not evict the agent. So the
 * agent lets go while it is asked to, or while the operator's label says that pods go or that the
 * driver is replaced, and comes back by itself.
 *
 * Both files outlive the agent: one that starts meanwhile does not take the driver before it has
 * read the label.
 */
#ifndef MILLIGPU_DRIVER_RELEASE_H
#define MILLIGPU_DRIVER_RELEASE_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

#define DRIVER_UPGRADE_LABEL "nvidia.com/gpu-driver-upgrade-state"

/*
 * Asks the agent that runs here (same state folder) to let go of the driver, or to take it again;
 * waits at most wait_ms until it has let go, or begins to take it. ERR_TIMEOUT: no agent did; then
 * a request to let go is withdrawn.
 */
int driver_release_ask(const char *state_dir, bool release, int64_t wait_ms,
                       struct err *err) MUST_USE;

enum release_cause {
    RELEASE_NOT,
    RELEASE_UPGRADE, /* the label of the operator */
    RELEASE_TOLD,    /* it was asked to, whatever the label says */
};

struct driver_release;

/* state_dir is borrowed, and exists. */
struct driver_release *driver_release_new(const char *state_dir) MUST_USE;
void driver_release_free(struct driver_release *release); /* NULL is fine */

/*
 * The label of the Node as it is now, "" if there is none. A word that is not known changes
 * nothing. The reporter's thread, like driver_release_turn().
 */
void driver_release_label(struct driver_release *release, struct text label);

/*
 * Looks whether it is asked to let go. has_let_go: nothing of this process has the driver open, as
 * it is to be written down. Returns the cause from now on; a change is logged.
 */
enum release_cause driver_release_turn(struct driver_release *release, bool has_let_go);

/* As of the last turn. Any thread. NULL: RELEASE_NOT. */
enum release_cause driver_release_cause(const struct driver_release *release);

/* The word of milligpu.io/agent, and a sentence without a full stop; NULL for RELEASE_NOT. */
const char *release_cause_word(enum release_cause cause);
const char *release_cause_sentence(enum release_cause cause);

/* Is an upgrade going on by this label, so that it changes soon? Pure, like the next one. */
bool driver_upgrade_goes_on(struct text label);
/* Is the driver let go of by this label, if before it was or was not? */
bool driver_upgrade_releases(struct text label, bool before);

#endif
