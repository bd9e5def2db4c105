/*
 * pod_maker - the pods of a manifest's object, as its controller would make them.
 *
 * A Pod yields itself. Names are those of the controllers, except that random parts are numbers
 * here, so that two plays give the same names:
 *
 *   Deployment web            web-<hash>-0, web-<hash>-1 ...; they belong to ReplicaSet web-<hash>
 *   ReplicaSet, RC, Job web   web-0, web-1 ...
 *   Job web, Indexed          web-0-0, web-1-0 ...
 *   CronJob web               one Job, web-1: web-1-0 ...
 *   StatefulSet web           web-0, web-1 ..., from spec.ordinals.start on
 *   DaemonSet web             web-0, web-1 ..., each for one node, as soon as the nodes are known
 *   a template of RayCluster  ray-gpu-0, ray-gpu-1 ... (guess.h)
 *
 * Pods are made one at a time: a workload of 100,000 takes no more memory than one of 1. Pure.
 */
#ifndef MILLIGPU_LAB_POD_MAKER_H
#define MILLIGPU_LAB_POD_MAKER_H

#include "milligpu/document/document.h"

enum { WORKLOAD_PODS_MAX = 100000 }; /* for all files together */

enum workload_kind {
    WORKLOAD_POD,
    WORKLOAD_DEPLOYMENT,
    WORKLOAD_REPLICA_SET,
    WORKLOAD_REPLICATION_CONTROLLER,
    WORKLOAD_STATEFUL_SET,
    WORKLOAD_JOB,
    WORKLOAD_CRON_JOB,
    WORKLOAD_DAEMON_SET,
    WORKLOAD_GUESS, /* part of an object of another kind */
    WORKLOAD_KINDS, /* not a workload */
};

struct pod_maker {
    enum workload_kind kind;
    const char *word;        /* the object's kind: "Deployment", "RayCluster" */
    const char *api_version; /* for WORKLOAD_GUESS */
    const char *prefix;      /* path of the pod's own fields: "" or "spec.template." */
    const char *namespace;
    const char *name;
    const char *stem;            /* for WORKLOAD_GUESS: the pods' names without their number */
    const struct document *meta; /* metadata of the pod or the template; NULL if none */
    const struct document *spec; /* of the pod or the template */
    uint32_t pods;
    uint32_t first;   /* first ordinal in the names */
    bool ordered;     /* a pod is made only when the previous one runs */
    bool indexed;     /* Job with indexed pods */
    bool has_claims;  /* StatefulSet with volumeClaimTemplates */
    const char *hash; /* of a template, as in pod-template-hash */
    /* for a DaemonSet, the node of each pod; NULL if unknown: then pods are for any node */
    const char *const *node;
    const char *note; /* parts that are left out, for people; NULL if none */
    /* controller of the object itself, which a dump can contain, too; "" if none */
    const char *owner_kind;
    const char *owner_name;
    struct pod_maker *next;
};

/* The kind of workload by kind and apiVersion; apiVersion can be "". */
enum workload_kind workload_kind_of(const char *kind, const char *api_version);

/* Defaults for parts of names that an object can lack. */
struct pod_maker_names {
    const char *namespace;
    uint32_t serial; /* number after the generateName of a Pod without a name */
};

/* A part of an object of any kind that looks like a pod template. */
struct pod_maker_part {
    const char *kind;
    const char *api_version;
    const char *prefix; /* "spec.workerGroupSpecs[0].template." */
    const char *word;   /* part of the pods' names after the object's name; "" if none */
    const char *note;
    const struct document *meta; /* NULL if none */
    const struct document *spec;
    uint32_t pods;
};

int pod_maker_read_part(struct arena *arena, const struct document *object,
                        const struct pod_maker_part *part, const struct pod_maker_names *names,
                        struct pod_maker *out, struct err *err) MUST_USE;

/* out borrows from object. */
int pod_maker_read(struct arena *arena, const struct document *object, enum workload_kind kind,
                   const struct pod_maker_names *names, struct pod_maker *out,
                   struct err *err) MUST_USE;

/* The pod with this index, from 0, as in a create request to an API server. */
struct document *pod_maker_pod(struct arena *arena, const struct pod_maker *workload,
                               uint32_t at) MUST_USE;

#endif
