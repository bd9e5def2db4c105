/*
 * pod_maker - the pods that a manifest's object stands for, as its controller would make them.
 *
 * A Pod stands for itself. Names are those of the controllers, except that what is random there is
 * a number here, so that playing twice gives the same names:
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
#ifndef MILLIGPU_CTL_POD_MAKER_H
#define MILLIGPU_CTL_POD_MAKER_H

#include "milligpu/document/document.h"

enum { WORKLOAD_PODS_MAX = 100000 }; /* in all files together */

enum workload_kind {
    WORKLOAD_POD,
    WORKLOAD_DEPLOYMENT,
    WORKLOAD_REPLICA_SET,
    WORKLOAD_REPLICATION_CONTROLLER,
    WORKLOAD_STATEFUL_SET,
    WORKLOAD_JOB,
    WORKLOAD_CRON_JOB,
    WORKLOAD_DAEMON_SET,
    WORKLOAD_GUESS, /* of an object of any other kind */
    WORKLOAD_KINDS, /* nothing that is played */
};

struct pod_maker {
    enum workload_kind kind;
    const char *word;        /* the object's kind: "Deployment", "RayCluster" */
    const char *api_version; /* of a guess */
    const char *prefix;      /* where the pod's own fields begin: "" or "spec.template." */
    const char *namespace;
    const char *name;
    const char *stem;            /* of a guess: the pods' names before their number */
    const struct document *meta; /* metadata of the pod or of the template; NULL: there is none */
    const struct document *spec; /* of the pod */
    uint32_t pods;
    uint32_t first;   /* of the ordinals in the names */
    bool ordered;     /* the next pod is made when the one before runs */
    bool indexed;     /* a Job whose pods have an index */
    bool has_claims;  /* a StatefulSet that gives each pod volumes of its own */
    const char *hash; /* of a template, as in pod-template-hash */
    /* A DaemonSet: the node of each pod. NULL: not known, and then a pod is for any node. */
    const char *const *node;
    const char *note; /* what is left out of it, for people; NULL: nothing */
    /* The controller of the object itself; "" if none: in a dump, that may be in it as well. */
    const char *owner_kind;
    const char *owner_name;
    struct pod_maker *next;
};

/* By the words kind and apiVersion; apiVersion may be empty. */
enum workload_kind workload_kind_of(const char *kind, const char *api_version);

/* What an object may not say itself. */
struct pod_maker_names {
    const char *namespace;
    uint32_t serial; /* follows the generateName of a Pod that has no name */
};

/* A part of an object of any kind that looks like a pod template. */
struct pod_maker_part {
    const char *kind;
    const char *api_version;
    const char *prefix; /* "spec.workerGroupSpecs[0].template." */
    const char *word;   /* follows the object's name in those of the pods; "": nothing does */
    const char *note;
    const struct document *meta; /* NULL: there is none */
    const struct document *spec;
    uint32_t pods;
};

int pod_maker_read_part(struct arena *arena, const struct document *object,
                        const struct pod_maker_part *part, const struct pod_maker_names *names,
                        struct pod_maker *out, struct err *err) MUST_USE;

/* Borrows from object. */
int pod_maker_read(struct arena *arena, const struct document *object, enum workload_kind kind,
                   const struct pod_maker_names *names, struct pod_maker *out,
                   struct err *err) MUST_USE;

/* The pod with this number, from 0, as the API server would be asked to create it. */
struct document *pod_maker_pod(struct arena *arena, const struct pod_maker *workload,
                               uint32_t at) MUST_USE;

#endif
