/*
 * hostile - Pods and Nodes that the API server would accept and a careless reader would not.
 *
 * The caller decides who a pod is, where it is, its phase and what it requests. Everything else is
 * drawn from what the API server accepts: strings of any characters, NUL among them, where it
 * checks none (values of annotations, schedulerName, commands, status), every field at its
 * extremes, hundreds of containers, annotations up to their limit, unknown fields. So the result
 * has to be counted like the plain pod.
 *
 * A draw of 0 is always the plain choice: an exhausted source gives a plain object.
 */
#ifndef MILLIGPU_TESTS_HOSTILE_H
#define MILLIGPU_TESTS_HOSTILE_H

#include "milligpu/base/strbuf.h"

/* The source of chance: below(user, n) is 0 .. n - 1, and 0 for 0. */
struct hostile_draw {
    void *user;
    uint32_t (*below)(void *user, uint32_t bound);
};

struct hostile_pod {
    const char *namespace;
    const char *name;
    const char *uid;     /* NULL: as a client sends it, without what the API server adds */
    const char *version; /* with a uid: metadata.resourceVersion */
    const char *node;    /* "": not bound */
    const char *phase;   /* with a uid: "Pending", ... */
    bool terminating;    /* with a uid */
    const char *resource;
    const char *whole_resource;
    const char *const *amount; /* of resource, for each container that requests it; as written */
    uint32_t asking;           /* 0: the pod requests nothing of ours */
    uint32_t whole;            /* of whole_resource */
};
void hostile_pod(struct strbuf *out, const struct hostile_pod *pod,
                 const struct hostile_draw *draw);

struct hostile_node {
    const char *name;
    const char *uid;      /* NULL: as kubelet registers it */
    const char *version;  /* with a uid */
    const char *resource; /* in status */
    const char *amount;   /* its phase; NULL: none */
    const char *gpus;     /* the proper annotation milligpu.io/gpus; NULL: none */
};
void hostile_node(struct strbuf *out, const struct hostile_node *node,
                  const struct hostile_draw *draw);

/*
 * A merge patch of our annotations, as a tenant (or kubelet, for nodes) may send at any time: of a
 * pod {gpu-count, gpu-model, gpu-memory, allocation}, of a node {gpus, cordon}.
 */
void hostile_pod_patch(struct strbuf *out, const struct hostile_draw *draw);
void hostile_node_patch(struct strbuf *out, const struct hostile_draw *draw);

/*
 * A JSON string, with its quotes, of characters that the API server does not check; at most this
 * many bytes of JSON.
 */
void hostile_text(struct strbuf *out, size_t most, const struct hostile_draw *draw);

#endif
