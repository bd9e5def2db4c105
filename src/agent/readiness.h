/*
 * readiness - whether this node's GPUs can be given to containers: /readyz, for kubelet and
 * milligpud.
 *
 * Ready means that all conditions below hold. No condition depends on the content of a pod, because
 * a tenant could then take the whole node out of service. A problem of one GPU closes that GPU in
 * milligpu.io/gpus.
 *
 * A change is logged once, with the sentence of each failed condition, and shown by the gauge
 * milligpu_node_ready.
 *
 * Any thread. Waits for nothing but a copy.
 */
#ifndef MILLIGPU_AGENT_READINESS_H
#define MILLIGPU_AGENT_READINESS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

enum ready_condition {
    READY_RUNTIME,   /* the runtime calls this agent, and has sent the complete list */
    READY_TABLE,     /* each running container with a share has a row (containers.h) */
    READY_DRIVER,    /* the last reading of NVML is NVML_READY */
    READY_VALIDATOR, /* the runtime's validator is as --validator requires */
    READY_NODE,      /* the Node has shown the annotations of this process at least once */
    READY_MACHINE,   /* the boot id of the Node, as last read, is that of this machine */
    READY_STAYS,     /* the agent is not releasing the driver */
    READY_CONDITIONS,
};

/* Reason of READY_RUNTIME while the agent is not connected. */
#define READY_UNCONNECTED                                                                          \
    "the container runtime does not ask this agent about each container: see its log"

struct readiness;

/*
 * Initially READY_RUNTIME, READY_DRIVER and READY_NODE fail. nvml is borrowed; NULL: READY_DRIVER
 * holds.
 */
struct readiness *readiness_new(struct nvml *nvml) MUST_USE;
void readiness_free(struct readiness *readiness); /* NULL is fine */

/*
 * why: a sentence without a full stop, copied; NULL: the condition holds. READY_DRIVER cannot be
 * set: readiness_look() reads it from NVML.
 */
void readiness_set(struct readiness *readiness, enum ready_condition condition, const char *why);

/*
 * Returns true if all conditions hold; else appends one line per failed condition to out. Takes the
 * latest reading of NVML.
 */
bool readiness_look(struct readiness *readiness, struct strbuf *out);

/*
 * The setting --validator. The state of the validator is unknown until a container is created on
 * this connection; unknown counts as on, because a node that is not ready may never get one.
 */
enum validator_rule {
    VALIDATOR_AUTO,    /* must not be off */
    VALIDATOR_REQUIRE, /* must not be off, and the runtime must have one */
    VALIDATOR_WAIVE,   /* is not checked */
};
/*
 * The reason why READY_VALIDATOR fails; NULL if it holds. has_one: *out_closed of
 * agent_runtime_check(). Pure.
 */
const char *readiness_validator(enum validator_rule rule, bool has_one, enum nri_validator is);

#endif
