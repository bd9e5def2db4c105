/*
 * nri - the plugin side of the Node Resource Interface (0.8 to 0.12), without I/O: the caller feeds
 * bytes from the socket, handlers are called, and bytes for the socket collect in a buffer.
 *
 *     socket -> nri_feed() -> mux frames -> ttrpc messages -> handlers
 *     socket <- nri_output() <- mux frames of at most 4,096 bytes <- their answers
 *
 * A session is one connection: it registers, is configured, gets the list of running pods and
 * containers (synchronize), and then one call per container event. The runtime makes these calls
 * under one lock for the whole node, so handlers must be fast. Sources of the wire format and the
 * field numbers: containerd/nri pkg/net/multiplex and pkg/api/api.proto, containerd/ttrpc;
 * measurements: docs/NODE.md.
 *
 * A handler refuses a container by failing; the pod's owner reads the text of err in an event.
 * Bytes that are not NRI end the session with an error; no input from the socket reaches a must().
 * All texts are borrowed for the call of the handler.
 *
 * Pure; one thread per session.
 */
#ifndef MILLIGPU_NRI_H
#define MILLIGPU_NRI_H

#include "milligpu/base/err.h"
#include "milligpu/base/text.h"

/* The runtime identifies plugins by name and calls them in the order of the two-digit index. */
#define NRI_PLUGIN_NAME  "milligpu"
#define NRI_PLUGIN_INDEX "20"

enum {
    NRI_FRAME_MAX = 4096,              /* payload bytes of a mux frame that we send */
    NRI_MESSAGE_MAX = 4 * 1024 * 1024, /* bytes of a ttrpc message; ttrpc's own limit */
    NRI_OUTPUT_MAX = 8 * 1024 * 1024,  /* bytes of pending output */
    NRI_CDI_DEVICES_MAX = 64,          /* devices added by one adjustment */
    /*
     * Bytes of list members of one pod or container: a million variables, more than a program can
     * be started with. The kernel limits arguments and environment to 6 MiB, and each takes nine
     * bytes or more.
     */
    NRI_LISTS_BYTES_MAX = 16 * 1024 * 1024,
};

struct nri_pair {
    struct text key;
    struct text value;
};

/*
 * Whether a pod or container was read completely. The lists of one pod or container take at most
 * NRI_LISTS_BYTES_MAX of memory; fields without a member in these structs are skipped.
 */
enum nri_flaw {
    NRI_WHOLE,
    NRI_TOO_LONG, /* lists beyond the limit are empty */
    NRI_BROKEN,   /* only in synchronize: not a valid message; unreadable fields are empty */
};

/* A pod sandbox. Its annotations date from its creation. */
struct nri_pod {
    enum nri_flaw flaw;
    struct text id;
    struct text name;
    struct text uid;
    struct text namespace;
    uint32_t n_annotations;
    const struct nri_pair *annotation;
};

/* A device node. The kernel identifies the device by type and numbers, not by path. */
struct nri_device {
    struct text path; /* "-/dev/x" in an adjustment removes /dev/x */
    struct text type; /* "c", "b", "u", "p" */
    int64_t major;
    int64_t minor;
};

/* A rule of the device cgroup: which devices can be opened. The last matching rule decides. */
enum { NRI_ANY_NUMBER = -1 };
struct nri_device_rule {
    bool allow;
    struct text type; /* "c", "b"; "a" or "": any */
    /* Device numbers, or NRI_ANY_NUMBER. */
    int64_t major;
    int64_t minor;
    struct text access; /* letters of "rwm" (read, write, mknod); "": all of them */
};

/* Values of api.ContainerState. */
enum nri_state { NRI_UNKNOWN, NRI_CREATED, NRI_PAUSED, NRI_RUNNING, NRI_STOPPED };

struct nri_container {
    enum nri_flaw flaw;
    struct text id;
    struct text pod_id; /* id of its sandbox */
    struct text name;
    enum nri_state state;
    uint32_t pid;             /* 0 if none */
    struct text cgroups_path; /* linux.cgroupsPath of the OCI specification */
    uint32_t n_envs;
    const struct text *env; /* "NAME=value", as the container will see it */
    uint32_t n_cdi_devices;
    const struct text *cdi_device; /* requested by kubelet: "nvidia.com/gpu=GPU-..." */
    uint32_t n_devices;
    const struct nri_device *device; /* nodes in the container, including its CDI devices' */
    uint32_t n_rules;
    const struct nri_device_rule *rule;
    bool has_user; /* false with containerd before 2.2 */
    uint32_t user; /* uid of its first process */
};

/*
 * Changes to a container, by this plugin or by all. Other kinds of changes are not read. An env key
 * with the prefix "-" removes a variable that another plugin set, but not one of the pod.
 */
struct nri_adjustment {
    uint32_t n_envs;
    struct nri_pair *env; /* replaces variables of the pod */
    uint32_t n_cdi_devices;
    struct text *cdi_device;
    /* Devices and rules are empty in our answers. */
    uint32_t n_devices;
    struct nri_device *device;
    uint32_t n_rules;
    struct nri_device_rule *rule;

    uint32_t n_mounts;
    struct nri_mount *mount;
};

struct nri_mount {
    struct text destination;
    struct text source;
    struct text type;
    uint32_t n_options;
    const struct text *option;
};

struct nri_runtime {
    struct text name;    /* "containerd" */
    struct text version; /* "v2.3.7" */
    struct text nri;     /* "v0.12.0"; empty from older runtimes */
};

/*
 * State of the runtime's default validator. containerd lists the plugins that it called for a
 * container, and its validator is among them if it is on.
 */
enum nri_validator { NRI_VALIDATOR_UNKNOWN, NRI_VALIDATOR_OFF, NRI_VALIDATOR_ON };

/*
 * Handlers return 0, or negative with err to refuse the container. Texts and arrays that create()
 * leaves in *out must live until nri_feed() returns. A NULL handler accepts.
 *
 * Handlers are called in order whatever the runtime sends: configure, then synchronize, then the
 * others; a call that comes too early is refused without a handler. Runtimes have two calls for
 * start, stopped and removed, and use only one of them for a container.
 */
struct nri_handlers {
    void *user;
    /*
     * *out_events: the calls to subscribe to; NRI_EVENTS on entry, can be reduced, but not to 0. A
     * runtime refuses a plugin that subscribes to an event unknown to it. Fails if the runtime is
     * not supported; it gets the error and closes the connection.
     */
    int (*configure)(void *user, const struct nri_runtime *runtime, uint32_t *out_events,
                     struct err *err);
    /*
     * All running pods and containers, in one or more calls; more is true for all but the last,
     * which can be empty. The pod of a container (pod_id) can come in an earlier call. A pod or
     * container with a flaw is included, with the fields that could be read.
     */
    void (*synchronize)(void *user, const struct nri_pod *pod, uint32_t pods,
                        const struct nri_container *container, uint32_t containers, bool more);
    int (*create)(void *user, const struct nri_pod *pod, const struct nri_container *container,
                  struct nri_adjustment *out, struct err *err);
    /* The cgroup of the container exists; its program has not been executed yet. */
    int (*start)(void *user, const struct nri_pod *pod, const struct nri_container *container,
                 struct err *err);
    /* For stopped and removed, pod is empty if the runtime no longer has it. */
    void (*stopped)(void *user, const struct nri_pod *pod, const struct nri_container *container);
    void (*removed)(void *user, const struct nri_pod *pod, const struct nri_container *container);
    /* The sandbox of the pod has ended: it has no containers and gets no more. */
    void (*pod_stopped)(void *user, const struct nri_pod *pod);
    /* all: the combined adjustments of all plugins. On an error the container is not created. */
    int (*validate)(void *user, const struct nri_pod *pod, const struct nri_container *container,
                    const struct nri_adjustment *all, enum nri_validator validator,
                    struct err *err);
};

/* Event n of api.proto is bit n - 1. */
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

/* Copies the handlers. The output of the session begins with RegisterPlugin. */
struct nri_session *nri_session_new(const struct nri_handlers *handlers) MUST_USE;
void nri_session_free(struct nri_session *session); /* NULL is fine */

/*
 * Takes any number of bytes, cut anywhere. Returns negative if the runtime refused the registration
 * (ERR_FORBIDDEN), does not read our answers, or does not speak NRI; then the connection must be
 * closed, and later calls return the same error. A malformed or unknown call is answered with an
 * error, and the session continues. Must not be called from a handler.
 */
int nri_feed(struct nri_session *session, struct text bytes, struct err *err) MUST_USE;

/* The pending output, borrowed until the next call; nri_sent() consumes it. */
struct text nri_output(const struct nri_session *session);
void nri_sent(struct nri_session *session, size_t bytes);

/* True once the runtime has configured the plugin and sent the complete list. */
bool nri_is_synchronized(const struct nri_session *session);

/* Sets *out to the value of an annotation. Returns false, and an empty *out, if it is absent. */
bool nri_annotation(const struct nri_pod *pod, const char *key, struct text *out);

#endif
