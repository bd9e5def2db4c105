/*
 * agent_calls - answers the runtime: what nri.h calls, with the state that it needs.
 *
 * Main thread only. No handler waits for anything but a small file.
 */
#ifndef MILLIGPU_AGENT_AGENT_CALLS_H
#define MILLIGPU_AGENT_AGENT_CALLS_H

#include <stdatomic.h>

#include "agent/gpu/cdi.h"
#include "agent/gpu/driver_release.h"
#include "agent/grant/containers.h"
#include "agent/grant/grant.h"
#include "agent/grant/holders.h"
#include "agent/grant/pod_records.h"
#include "agent/grant/privileged.h"
#include "agent/grant/public_keys.h"
#include "agent/meter/memory_limit.h"
#include "agent/mps/mps.h"

struct agent_calls {
    struct grant_rules rules;
    struct pod_records *records;
    struct public_keys *keys;
    struct cdi *cdi;
    struct containers *containers;
    struct nvml *nvml;                    /* NULL: GPUs are known by UUID only */
    const struct driver_release *release; /* NULL: the driver is never let go of */
    struct mps *mps;                      /* NULL: off */
    bool mixed_gpus;                      /* may a GPU have shares and a pod that has it whole? */
    enum privileged_mode privileged;      /* containers of our pods that see GPUs of others */
    const char *proc_dir;                 /* "/proc" */
    struct memory_limit limit;
    struct arena arena;  /* of one call */
    struct arena sync;   /* of one list of everything that runs */
    struct met_pod *met; /* the pods of that list so far */
    bool in_sync;
    char runtime[80];           /* "containerd v2.3.7" */
    char refused[ERR_TEXT_MAX]; /* why the last runtime is not served; "": it is */
    bool closed;                /* nothing runs without us, if the runtime's validator is on */
    uint32_t left_out; /* containers with shares of the last list for which there was no row */
    /* as of the last container of this connection */
    enum nri_validator validator;
};

/*
 * Sets the rest: all but rules.node, rules.foreign_gpus, mixed_gpus, privileged, nvml, mps, and
 * what records to limit are; proc_dir to "/proc".
 */
void agent_calls_init(struct agent_calls *calls);
void agent_calls_done(struct agent_calls *calls);
/* The connection is lost: a list that it left unfinished is forgotten. */
void agent_calls_lost(struct agent_calls *calls);
void agent_calls_handlers(struct agent_calls *calls, struct nri_handlers *out);

#endif
