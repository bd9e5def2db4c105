/*
 * nri - the side of a container runtime's plugin (Node Resource Interface 0.8 to 0.12), without
 * I/O: bytes from the socket go in, calls come out to handlers, bytes for the socket are left in a
 * buffer.
 *
 *     socket -> nri_feed() -> mux frames -> ttrpc messages -> handlers
 *     socket <- nri_output() <- mux frames of at most 4,096 bytes <- their answers
 *
 * A session is one connection: it registers, is configured, is told what runs (synchronize), and is
 * then asked about each container, one at a time: the runtime holds one lock for the whole node, so
 * no handler may do anything slow. Wire format, field numbers and traps: containerd/nri
 * pkg/net/multiplex, containerd/ttrpc, pkg/api/api.proto; measured, docs/NODE.md.
 *
 * A handler that fails refuses its container: the text of err is what the pod's owner reads in an
 * event. Bytes that are no NRI end the session with an error; nothing from the socket reaches a
 * must(). All texts are borrowed for the call of the handler.
 *
 * Pure; one thread for each session.
 */
#ifndef MILLIGPU_NRI_H
#define MILLIGPU_NRI_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

/* Plugins are known by name and are called in the order of their index, two digits. */
#define NRI_PLUGIN_NAME  "milligpu"
#define NRI_PLUGIN_INDEX "20"

enum {
    NRI_FRAME_MAX = 4096,              /* of a mux frame that we send, its head not counted */
    NRI_MESSAGE_MAX = 4 * 1024 * 1024, /* of a ttrpc message, as in ttrpc */
    NRI_OUTPUT_MAX = 8 * 1024 * 1024,  /* that waits to be sent */
    NRI_CDI_DEVICES_MAX = 64,          /* that an adjustment adds */
    /*
     * A million variables: more than a program can be started with. The kernel gives arguments and
     * environment at most 6 MiB, of which each takes nine bytes or more.
     */
    NRI_LISTS_BYTES_MAX = 16 * 1024 * 1024,
};

struct nri_pair {
    struct text key;
    struct text value;
};

/*
 * Whether a pod or container was read completely. List fields take memory for each member, limited
 * to NRI_LISTS_BYTES_MAX for one pod or container; fields without a member here are skipped and
 * take none.
 */
enum nri_flaw {
    NRI_WHOLE,
    NRI_TOO_LONG, /* lists that do not fit are empty */
    NRI_BROKEN,   /* only in synchronize: no such message; what could not be read is empty */
};

/* A pod sandbox: its annotations are those of the moment when it was made. */
struct nri_pod {
    enum nri_flaw flaw;
    struct text id;
    struct text name;
    struct text uid;
    struct text namespace;
    uint32_t annotations;
    const struct nri_pair *annotation;
};

/* A device node. The kernel knows the device by its type and numbers, whatever its path is. */
struct nri_device {
    struct text path; /* "-/dev/x": an adjustment takes /dev/x away */
    struct text type; /* "c", "b", "u", "p" */
    int64_t major;
    int64_t minor;
};

/* A rule of the device cgroup: which devices may be opened. The last that fits a device decides. */
enum { NRI_ANY_NUMBER = -1 };
struct nri_device_rule {
    bool allow;
    struct text type; /* "c", "b"; "a" or "": any */
    int64_t major;    /* or NRI_ANY_NUMBER, like minor */
    int64_t minor;
    struct text access; /* "rwm": read, write, make a node; "": all of them */
};

/* api.ContainerState */
enum nri_state { NRI_UNKNOWN, NRI_CREATED, NRI_PAUSED, NRI_RUNNING, NRI_STOPPED };

struct nri_container {
    enum nri_flaw flaw;
    struct text id;
    struct text pod_id; /* of its sandbox */
    struct text name;
    enum nri_state state;
    uint32_t pid;             /* 0: none */
    struct text cgroups_path; /* as in the OCI specification */
    uint32_t envs;
    const struct text *env; /* "NAME=value", as the container will see it */
    uint32_t cdi_devices;
    const struct text *cdi_device; /* that kubelet asked for: "nvidia.com/gpu=GPU-..." */
    uint32_t devices;
    const struct nri_device *device; /* nodes in the container, also those of its CDI devices */
    uint32_t rules;
    const struct nri_device_rule *rule;
    bool has_user; /* containerd before 2.2 does not say it */
    uint32_t user; /* of its first process */
};

/*
 * What one or all plugins want to change of a container. Other changes are not looked at. A key of
 * env that begins with "-" takes away what another plugin set; it does nothing to the pod's own.
 */
struct nri_adjustment {
    uint32_t envs;
    struct nri_pair *env; /* sets: a variable of the pod is replaced */
    uint32_t cdi_devices;
    struct text *cdi_device;
    uint32_t devices;
    struct nri_device *device; /* in an answer of ours: none */
    uint32_t rules;
    struct nri_device_rule *rule; /* likewise */
    uint32_t mounts;
    struct nri_mount *mount;
};

struct nri_mount {
    struct text destination;
    struct text source;
    struct text type;
    uint32_t options;
    const struct text *option;
};

struct nri_runtime {
    struct text name;    /* "containerd" */
    struct text version; /* "v2.3.7" */
    struct text nri;     /* "v0.12.0", or empty: older runtimes do not say it */
};

/*
 * Does the runtime's default validator look at containers? containerd names the plugins that were
 * asked about one, and its validator is among them if it is on.
 */
enum nri_validator { NRI_VALIDATOR_UNKNOWN, NRI_VALIDATOR_OFF, NRI_VALIDATOR_ON };

/*
 * 0, or negative with err: a refusal of this container. The texts and arrays that create() leaves
 * in *out must live until the call of nri_feed() returns. A handler that is NULL agrees.
 *
 * The order is kept whatever the runtime does: configure, then synchronize, then the others; what
 * comes too early is refused without a handler. Runtimes tell of start, stopped and removed in two
 * ways, and only one of them is used for a container.
 */
struct nri_handlers {
    void *user;
    /*
     * *out_events: which calls we want; it is NRI_EVENTS, and may become a part of it, not nothing.
     * A runtime refuses a plugin that wants what it does not know. An error: we serve no such
     * runtime; it is told, and closes the connection.
     */
    int (*configure)(void *user, const struct nri_runtime *runtime, uint32_t *out_events,
                     struct err *err);
    /*
     * Everything that runs; in several calls if it is much, more is true for all but the last,
     * which may be empty. Containers name their pod by pod_id; that may have come in an earlier
     * call. A pod or container that has a flaw is there, with what could be read of it.
     */
    void (*synchronize)(void *user, const struct nri_pod *pod, uint32_t pods,
                        const struct nri_container *container, uint32_t containers, bool more);
    int (*create)(void *user, const struct nri_pod *pod, const struct nri_container *container,
                  struct nri_adjustment *out, struct err *err);
    /* Its cgroup exists, and its program was not executed yet. */
    int (*start)(void *user, const struct nri_pod *pod, const struct nri_container *container,
                 struct err *err);
    /* Their pod is empty if the runtime has forgotten it. */
    void (*stopped)(void *user, const struct nri_pod *pod, const struct nri_container *container);
    void (*removed)(void *user, const struct nri_pod *pod, const struct nri_container *container);
    /* The sandbox of a pod has ended: it has no containers any more, and gets none. */
    void (*pod_stopped)(void *user, const struct nri_pod *pod);
    /* all: the adjustments of all plugins together, ours included. An error: not created. */
    int (*validate)(void *user, const struct nri_pod *pod, const struct nri_container *container,
                    const struct nri_adjustment *all, enum nri_validator validator,
                    struct err *err);
};

/* Bit n - 1 for event n of api.proto. */
enum nri_event {
    NRI_STOP_POD = 1 << 1,
    NRI_CREATE_CONTAINER = 1 << 3,
    NRI_START_CONTAINER = 1 << 5,
    NRI_STOP_CONTAINER = 1 << 9,
    NRI_REMOVE_CONTAINER = 1 << 10,
    NRI_VALIDATE_ADJUSTMENT = 1 << 13, /* containerd 2.2 and later */
    NRI_EVENTS = NRI_STOP_POD | NRI_CREATE_CONTAINER | NRI_START_CONTAINER | NRI_STOP_CONTAINER |
                 NRI_REMOVE_CONTAINER | NRI_VALIDATE_ADJUSTMENT,
};

struct nri_session;

/* Its output begins with RegisterPlugin. The handlers are copied. */
struct nri_session *nri_session_new(const struct nri_handlers *handlers) MUST_USE;
void nri_session_free(struct nri_session *session); /* NULL is fine */

/*
 * Any number of bytes, cut anywhere. Negative: the runtime refused to register us
 * (ERR_FORBIDDEN), does not read what we answer, or this is no NRI; the connection must be closed,
 * and each later call says the same. A call that we cannot read or do not know is answered with an
 * error and ends nothing. Not from inside a handler.
 */
int nri_feed(struct nri_session *session, struct text bytes, struct err *err) MUST_USE;

/* What is to be sent; nri_sent() says how much of it was. */
struct text nri_output(const struct nri_session *session);
void nri_sent(struct nri_session *session, size_t bytes);

/* Configured, and told everything that runs. */
bool nri_is_synchronized(const struct nri_session *session);

/* The value of an annotation; *out is empty if it has none. False: no such annotation. */
bool nri_annotation(const struct nri_pod *pod, const char *key, struct text *out);

#endif
