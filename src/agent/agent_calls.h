/*
 * agent_calls - the NRI handlers of the agent (nri.h) and their state.
 *
 * Main thread only. Handlers wait for small files (with fsync once in the life of the state folder,
 * pod_records_born), for locks held for a copy, and in StartContainer for NVML, at most
 * LIMIT_WAIT_MS per container (memory_limit.h).
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
    struct nvml *nvml;                    /* borrowed; NULL: GPUs are identified by UUID only */
    const struct driver_release *release; /* borrowed; NULL: the driver is never released */
    struct mps *mps;                      /* borrowed; NULL: off */
    bool mixed_gpus;                      /* a GPU can have shares and be held whole */
    enum privileged_mode privileged;      /* for our pods' containers that see other GPUs */
    const char *proc_dir;                 /* "/proc" */
    struct memory_limit limit;
    struct arena arena;  /* memory of one call */
    struct arena sync;   /* memory of one synchronize list */
    struct met_pod *met; /* the pods of that list so far; in sync */
    bool in_sync;
    char runtime[80];           /* "containerd v2.3.7" */
    char refused[ERR_TEXT_MAX]; /* why the last runtime is not supported; "" if it is */
    bool closed;       /* with the validator on, no container is created without the agent */
    uint32_t left_out; /* containers with shares of the last list that got no row */
    enum nri_validator validator; /* as of the last container of this connection */
};

/*
 * Sets the callbacks of rules, the arenas, and proc_dir ("/proc"). The caller sets rules.node,
 * rules.foreign_gpus, and the fields from records to limit.
 */
void agent_calls_init(struct agent_calls *calls);
void agent_calls_done(struct agent_calls *calls);
/* Forgets an unfinished list, after the connection is lost. */
void agent_calls_lost(struct agent_calls *calls);
void agent_calls_handlers(struct agent_calls *calls, struct nri_handlers *out);

#endif
