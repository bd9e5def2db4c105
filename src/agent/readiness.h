/*
 * readiness - may this node's GPUs be handed out? /readyz says so, for kubelet and for milligpud.
 *
 * The answer is yes while each condition below holds. No condition depends on what a pod contains,
 * because a tenant who could take one away would have a switch for the node. What concerns one GPU
 * closes that GPU in milligpu.io/gpus.
 *
 * A change is logged once, with the sentence of each condition that does not hold, and shown by the
 * gauge milligpu_node_ready.
 *
 * Any thread. Waits for nothing but a copy.
 */
#ifndef MILLIGPU_AGENT_READINESS_H
#define MILLIGPU_AGENT_READINESS_H

#include "milligpu/base/strbuf.h"
#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

enum ready_condition {
    READY_RUNTIME,   /* it asks this agent about each container, and has told what runs */
    READY_TABLE,     /* each container with a share that runs has a row (containers.h) */
    READY_DRIVER,    /* the last reading of NVML is a good one, and not too old (nvml.h) */
    READY_VALIDATOR, /* as --validator wants it */
    READY_NODE,      /* the Node has shown what this process wrote, once */
    READY_MACHINE,   /* the Node is this machine, as far as the API server told last */
    READY_STAYS,     /* the agent is not letting go of the driver */
    READY_CONDITIONS,
};

/* The sentence of READY_RUNTIME while the agent is not connected. */
#define READY_UNCONNECTED                                                                          \
    "the container runtime does not ask this agent about each container: see its log"

struct readiness;

/*
 * At first the runtime's, the driver's and the Node's conditions do not hold. nvml: borrowed; NULL:
 * the driver is not asked, and its condition holds.
 */
struct readiness *readiness_new(struct nvml *nvml) MUST_USE;
void readiness_free(struct readiness *readiness); /* NULL is fine */

/*
 * why: a sentence without a full stop, which is copied; NULL: the condition holds. READY_DRIVER is
 * not set but looked at.
 */
void readiness_set(struct readiness *readiness, enum ready_condition condition, const char *why);

/* All hold; else false, and out has a line for each that does not. Asks for the latest reading. */
bool readiness_look(struct readiness *readiness, struct strbuf *out);

/*
 * What --validator wants. Whether the validator is on is not known before a container was made on
 * this connection; that counts as on, because a node that is not ready may never get a container.
 */
enum validator_rule {
    VALIDATOR_AUTO,    /* not off */
    VALIDATOR_REQUIRE, /* not off, and the runtime has one */
    VALIDATOR_WAIVE,
};
/*
 * The sentence for READY_VALIDATOR; NULL: it holds. has_one: closed of agent_runtime_check(). Pure.
 */
const char *readiness_validator(enum validator_rule rule, bool has_one, enum nri_validator is);

#endif
