/*
 * reporter - writes what the agent knows onto its own Node: one merge patch, only when it changed.
 *
 *     milligpu.io/agent    {"v":1,"version":"0.1.0","runtime":"containerd v2.3.7","closed":true,
 *                          "validator":true,"key":"...","driver":"570.124.06",
 *                          "cdi":{"gpus":8,"named":8,"kind":"nvidia.com/gpu"},
 *                          "limits":"refused","mps":{"gpus":8,"up":8},
 *                          "leaving":"driver-upgrade",
 *                          "pod":{"uid":"...","node":"...","boot":"..."}}; validator is left out
 *                          until a container has shown whether it is on, leaving unless the agent
 *                          lets go of the driver (driver_release.h), what is not known as well
 *     milligpu.io/gpus     the inventory (nvml.h), where the agent has the driver's library
 *
 * "pod" says which process wrote it: the uid of the agent's pod, the uid of the Node, and the boot
 * of this machine. milligpud believes it as long as that pod is Ready on that Node. The Node's uid
 * is read from the API server's answer, so the first patch has no "pod", and the second follows at
 * once. A Node that was deleted and made again gets a new one.
 *
 * limits: whether the driver can hold containers to their memory here (limit_probe.h):
 *
 *     ok             a limit was set on a scratch cgroup or a container, and read back
 *     absent         this driver has no limits
 *     refused        it has, and the agent may not set them: add the capability SYS_ADMIN
 *     no_controller  the cgroup has no controller for them (dmem, or misc)
 *     differs        another limit was read than was set: something else sets them
 *     unread         a limit was set, and cannot be read
 *     failed         setting one failed otherwise; the agent's log says how
 *     untried        the agent cannot make a scratch cgroup, and no container has shown it yet
 *     off            --memory-limit=off
 *
 * A thread of its own: an API server that is away delays the report and nothing else. A patch that
 * failed is tried again after 1 s, then twice as long each time, up to a minute.
 *
 * Without the annotations, for example after an operator removed them, milligpud would grant by
 * numbers, and to containers that do not pass the agent. So once a minute a patch is sent that
 * changes nothing; its answer is the Node, which the agent needs no other right to see. What is
 * missing there, or is not what was written, is written again at once. In a cluster of 15,000 nodes
 * these are 250 requests a second, and no write. While the GPU operator upgrades the driver of the
 * node, which its label on the Node tells, the agent looks each 5 s.
 */
#ifndef MILLIGPU_AGENT_REPORTER_H
#define MILLIGPU_AGENT_REPORTER_H

#include "milligpu/base/strbuf.h"
#include "milligpu/kube/kube.h"
#include "milligpu/nri/nri.h"
#include "milligpu/nvml/nvml.h"

struct reporter;

struct reporter_driver {
    char version[NVML_TEXT_MAX]; /* "": not known */
    uint32_t gpus;               /* that can be given to containers */
    uint32_t named;              /* of these, by a CDI specification */
    const char *kind;            /* the best kind that names one; NULL: none does */
    const char *limits;          /* one of the words above; NULL: not known */
};

/* The Node, as the API server showed it last. */
struct reporter_node {
    const char *boot;    /* status.nodeInfo.bootID; "": it does not say */
    const char *upgrade; /* the label DRIVER_UPGRADE_LABEL; "": it has none */
    /*
     * The Node has shown what this process wrote, with "pod" where there is one; once true it stays
     * so, however long the API server is away.
     */
    bool is_reported;
};

struct reporter_rules {
    const char *node;
    const char *pod;            /* the uid of the agent's pod; "": it runs outside of one */
    const char *boot;           /* of this machine; "": not known. Without both there is no "pod" */
    const struct kube_ops *ops; /* the reporter's thread uses it, and nobody else */
    const char *key;            /* public, by which reports of usage are signed; NULL: none are */
    void *user;
    /* Writes the value of milligpu.io/gpus. False: leave the annotation as it is. Its thread. */
    bool (*gpus)(void *user, struct strbuf *out);
    void (*driver)(void *user,
                   struct reporter_driver *out); /* its thread; NULL: nothing is known */
    /* Called whenever the API server has answered with the Node. Its thread; NULL: nobody asks. */
    void (*seen)(void *user, const struct reporter_node *node);
    /* Called once a second or so, whatever the runtime says. Its thread; NULL: not needed. */
    void (*turn)(void *user);
    /* The word of release_cause_word(), or NULL. Its thread; NULL: nobody lets go of the driver. */
    const char *(*leaving)(void *user);
    /* How many GPUs have a daemon of MPS that is up, of how many; false: MPS is off. NULL: off. */
    bool (*mps)(void *user, uint32_t *out_up, uint32_t *out_all);
    /*
     * Called whenever the Node was read: is MPS_LABEL "on" there? Not if it could not be read.
     * NULL: it is not read.
     */
    void (*label)(void *user, bool on);
    int64_t label_every_ms; /* between two times that it is read */
    int64_t look_every_ms;  /* between two looks whether the Node shows what was written */
};

int reporter_start(const struct reporter_rules *rules, struct reporter **out,
                   struct err *err) MUST_USE;
void reporter_stop(struct reporter *reporter); /* NULL is fine; within 5 s */

/* What the Node shall say of its agent; nothing is written before the first call. Any thread. */
void reporter_agent(struct reporter *reporter, const char *runtime, bool closed,
                    enum nri_validator validator);

/* The merge patch by which milligpud forgets that the node had an agent (inventory.h). */
void reporter_remove(struct strbuf *out);
/*
 * Sends a merge patch of a Node and waits for the answer, the Node as it is then, which is appended
 * to *out: 0; 404, with err, if there is no such Node; or negative.
 */
int reporter_patch(const struct kube_ops *ops, const char *node, struct text body,
                   int64_t timeout_ms, struct strbuf *out, struct err *err) MUST_USE;

#endif
