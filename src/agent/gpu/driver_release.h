/*
 * driver_release - when the agent releases NVIDIA's driver, so that it can be replaced.
 *
 *     milligpu-node --release-driver --> STATE_DIR/driver/asked ---+
 *                                                                  +--> cause --> nvml_release(),
 *     label DRIVER_UPGRADE_LABEL of the Node ----------------------+              mps_leave()
 *
 *     STATE_DIR/driver/released <-- no file of the driver is open any more
 *
 * The driver's kernel modules cannot be unloaded while a process has the driver open, and NVIDIA's
 * GPU operator, which upgrades drivers node by node, does not evict the agent. So the agent
 * releases the driver on request, or while the operator's label is in a state from the deletion of
 * pods to the restart of the driver's pod. Afterwards it takes the driver again.
 *
 * Both files outlive the agent: an agent that starts during a release does not load the driver
 * before it has read the label.
 */
#ifndef MILLIGPU_DRIVER_RELEASE_H
#define MILLIGPU_DRIVER_RELEASE_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

#define DRIVER_UPGRADE_LABEL "nvidia.com/gpu-driver-upgrade-state"

/*
 * Asks the agent with this state folder to release the driver, or to take it again. Waits at most
 * wait_ms until the driver is released, or the agent begins to take it. ERR_TIMEOUT: no agent did;
 * a request to release is withdrawn.
 */
int driver_release_ask(const char *state_dir, bool release, int64_t wait_ms,
                       struct err *err) MUST_USE;

enum release_cause {
    RELEASE_NOT,
    RELEASE_UPGRADE, /* by the label of the GPU operator */
    RELEASE_ORDERED, /* by --release-driver, regardless of the label */
};

struct driver_release;

/* state_dir is borrowed, and must exist. */
struct driver_release *driver_release_new(const char *state_dir) MUST_USE;
void driver_release_free(struct driver_release *release); /* NULL is fine */

/*
 * Takes the current value of the Node's label, "" if absent. An unknown value changes nothing.
 * Reporter's thread.
 */
void driver_release_label(struct driver_release *release, struct text label);

/*
 * Checks for a request, logs a change, and returns the new cause. has_let_go: neither this process
 * nor its MPS daemons have the driver open; written to STATE_DIR/driver/released. Reporter's
 * thread.
 */
enum release_cause driver_release_turn(struct driver_release *release, bool has_let_go);

/* The cause as of the last turn; RELEASE_NOT if release is NULL. Any thread. */
enum release_cause driver_release_cause(const struct driver_release *release);

/* The word in milligpu.io/agent, and a sentence without a full stop; NULL for RELEASE_NOT. */
const char *release_cause_word(enum release_cause cause);
const char *release_cause_sentence(enum release_cause cause);

/* True if this label means an upgrade in progress, so that it changes soon. Pure. */
bool driver_upgrade_goes_on(struct text label);
/* True if this label requires a release; before, if the label is unknown. Pure. */
bool driver_upgrade_releases(struct text label, bool before);

#endif
