/*
 * limits - every limit that outside input can reach, by name.
 *
 * Input beyond a limit is refused with an error that names the limit, with two exceptions: a search
 * that stops at PLACE_STEPS_MAX reports it (placement.exact, REASON_UNSEARCHED), and a node keeps
 * at most GPUS_PER_NODE_MAX ids that it showed before. Sized for 15,000 nodes with 8 GPUs each.
 *
 * Limits apply to grants, not to existing objects: an object that the API server accepted is
 * counted, however large it is (pod.h, inventory.h).
 */
#ifndef MILLIGPU_LIMITS_H
#define MILLIGPU_LIMITS_H

enum {
    GPU_MILLI = 1000, /* thousandths of one physical GPU */
    GPUS_PER_NODE_MAX = 64,
    CHARGES_PER_GPU_MAX = 128, /* pods that hold a share of one GPU */
    CONTAINERS_MAX = 128,      /* containers of one pod, init containers included */
    PARTS_MAX = 512,           /* shares of one pod, over all containers and GPUs */
    PLACE_STEPS_MAX = 1024,    /* steps of one search on one node: some microseconds */
    MODELS_MAX = 32,           /* globs in one gpu-model annotation */
    ODD_KEYS_MAX = 4,          /* annotation keys named in the advice for one pod */

    NAME_BYTES_MAX = 253, /* a Kubernetes object name */
    UID_BYTES_MAX = 128,
    GPU_ID_BYTES_MAX = 288, /* a made-up id is a node name and a number */
    MODEL_BYTES_MAX = 128,
    ANNOTATION_BYTES_MAX = 256 * 1024,
    REASON_BYTES_MAX = 256,

    NODES_MAX = 65536,
    JSON_DEPTH_MAX = 96,               /* nesting of parsed values */
    JSON_SKIP_DEPTH_MAX = 10240,       /* nesting of skipped values; Go stops at 10,000 */
    BODY_BYTES_MAX = 64 * 1024 * 1024, /* a webhook body; 413 beyond */
    /* all webhook bodies together: a quarter of the pod's memory; 503 beyond */
    BODIES_BYTES_MAX = 2 * BODY_BYTES_MAX,
    EVENT_BYTES_MAX = 32 * 1024 * 1024,  /* one watch event or list item */
    LEDGER_BYTES_MIN = 64 * 1024 * 1024, /* minimum of the ledger's size limit on disk (store.h) */
};

#endif
