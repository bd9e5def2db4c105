/*
 * reporter - annotates the agent's own Node with its state: one merge patch, only after a change.
 *
 *     milligpu.io/agent    {"v":1,"version":"0.1.0","runtime":"containerd v2.3.7","closed":true,
 *                          "validator":true,"key":"...","driver":"570.124.06",
 *                          "cdi":{"gpus":8,"named":8,"kind":"nvidia.com/gpu"},
 *                          "limits":"refused","mps":{"gpus":8,"up":8},
 *                          "leaving":"driver-upgrade",
 *                          "pod":{"uid":"...","node":"...","boot":"..."}}; unknown members are
 *                          left out, and so are validator until a container shows its state, and
 *                          leaving unless the agent releases the driver (driver_release.h)
 *     milligpu.io/gpus     the inventory (nvml.h), where the agent has the driver's library
 *
 * "pod" identifies the writer: the uid of the agent's pod, the uid of the Node, and the boot id of
 * this machine. milligpud trusts the annotation while that pod is Ready on that Node. The uid of
 * the Node comes from the API server's answer, so the first patch has no "pod", and a second one
 * follows at once. A Node that is deleted and created again has a new uid.
 *
 * limits: whether the driver can limit the GPU memory of containers here (limit_probe.h):
 *
 *     ok             a limit was set on a scratch cgroup or a container, and read back
 *     absent         this driver has no limits
 *     refused        the driver has limits, but the agent lacks the capability SYS_ADMIN
 *     no_controller  the cgroup has no controller for them (dmem, or misc)
 *     differs        another value was read than was set: another program sets limits
 *     unread         a limit was set, but cannot be read back
 *     failed         setting one failed otherwise; the agent's log has the error
 *     untried        the agent cannot create a scratch cgroup, and no container was limited yet
 *     off            --memory-limit=off
 *
 * Runs in a thread of its own, so that an unreachable API server delays only the report. A failed
 * patch is retried with exponential backoff, from 1 s to a minute.
 *
 * Without the annotations, for example after an operator removed them, milligpud would grant GPUs
 * by index, and to containers that the agent does not check. So once a minute an empty patch is
 * sent; the answer is the Node, and no permission besides patch is needed. Annotations that are
 * missing there or differ are written again at once. In a cluster of 15,000 nodes these are 250
 * requests a second, without writes. While the Node's label shows a driver upgrade by the GPU
 * operator, the interval is 5 s.
 */
#ifndef MILLIGPU_AGENT_REPORTER_H
#define MILLIGPU_AGENT_REPORTER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"
#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

struct reporter;

struct reporter_driver {
    char version[NVML_TEXT_MAX]; /* "" if unknown */
    uint32_t gpus;               /* GPUs that can be given to containers */
    uint32_t named;              /* those of them that a CDI specification names */
    const char *kind;            /* the best CDI kind that names one; NULL if none does */
    const char *limits;          /* one of the words above; NULL if unknown */
};

/* The Node in the last answer of the API server. */
struct reporter_node {
    const char *boot;    /* status.nodeInfo.bootID; "" if absent */
    const char *upgrade; /* value of the label DRIVER_UPGRADE_LABEL; "" if absent */
    /*
     * True once the Node has shown the annotations of this process, with "pod" unless the agent
     * runs outside of one. Stays true while the API server is unreachable.
     */
    bool is_reported;
};

/* Callbacks run in the reporter's thread; NULL leaves their part out. */
struct reporter_rules {
    const char *node;
    /* The annotation has "pod" only if pod and boot are known. */
    const char *pod;            /* uid of the agent's pod; "" if it runs outside of one */
    const char *boot;           /* boot id of this machine; "" if unknown */
    const struct kube_ops *ops; /* borrowed; used by the reporter's thread only */
    const char *key;            /* public key of usage reports; NULL if none are sent */
    void *user;
    /* Writes the value of milligpu.io/gpus. Returns false to leave the annotation unchanged. */
    bool (*gpus)(void *user, struct strbuf *out);
    void (*driver)(void *user, struct reporter_driver *out);
    /* Called after each answer of the API server with the Node. */
    void (*seen)(void *user, const struct reporter_node *node);
    /* Called about once a second, also without a connection to the runtime. */
    void (*turn)(void *user);
    /* The release_cause_word(); NULL if the driver is not being released. */
    const char *(*leaving)(void *user);
    /* How many of how many GPUs have an MPS daemon that is up. Returns false if MPS is off. */
    bool (*mps)(void *user, uint32_t *out_up, uint32_t *out_all);
    /* Called after each successful read of the Node; on: whether MPS_LABEL is "on". */
    void (*label)(void *user, bool on);
    int64_t label_every_ms; /* interval between reads of the label */
    int64_t look_every_ms;  /* interval between checks that the Node has the annotations */
};

int reporter_start(const struct reporter_rules *rules, struct reporter **out,
                   struct err *err) MUST_USE;
void reporter_stop(struct reporter *reporter); /* takes up to 5 s; NULL is fine */

/* Sets the runtime's part of milligpu.io/agent; nothing is written before it. Any thread. */
void reporter_agent(struct reporter *reporter, const char *runtime, bool closed,
                    enum nri_validator validator);

/* Appends the merge patch that marks the agent as uninstalled (inventory.h). */
void reporter_remove(struct strbuf *out);
/*
 * Sends a merge patch of a Node, and appends the answer (the patched Node) to *out. Returns 0; 404,
 * with err, if there is no such Node; or negative.
 */
int reporter_patch(const struct kube_ops *ops, const char *node, struct text body,
                   int64_t timeout_ms, struct strbuf *out, struct err *err) MUST_USE;

#endif
