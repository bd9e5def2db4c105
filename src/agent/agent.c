/*
 * Runs milligpu-node: starts all threads, serves the runtime's connection in one poll loop on the
 * main thread, reconnects when it ends, and stops the threads. main() calls agent_run(). The other
 * threads, NVML's watcher, MPS, meter, reporter, usage sender and probe listener, start before the
 * loop and end after it. The loop waits for them only at locks that are held for a copy, and in
 * StartContainer, where memory_limit_set() waits for the watcher, at most LIMIT_WAIT_MS per
 * container.
 */
#include "milligpu/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/kube/kube.h"
#include "milligpu/nvml/nvml.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/sign/signing.h"

#include "agent/gpu/clear_fault.h"
#include "agent/gpu/driver_release.h"
#include "agent/gpu/gpus_annotation.h"
#include "agent/grant/holders.h"
#include "agent/meter/limit_probe.h"
#include "agent/meter/meter.h"
#include "agent/meter/usage_fill.h"
#include "agent/meter/usage_sender.h"
#include "agent/mps/mps.h"
#include "agent_calls.h"
#include "agent_probe.h"
#include "milligpu_version.h"
#include "readiness.h"
#include "reporter.h"

enum { AGAIN_MS = 1000, UNINSTALL_MS = 10000, READ_BYTES = 64 * 1024, NODE_LOOK_MS = 60 * 1000 };
enum { BOOT_BYTES_MAX = 64 };

struct agent {
    const struct agent_settings *settings;
    struct agent_calls calls;
    struct nri_session *session;           /* of the connection; NULL without one */
    int socket;                            /* -1 if not connected */
    int signals;                           /* signalfd of SIGTERM and SIGINT */
    bool is_reported;                      /* the current connection is synchronized and reported */
    enum nri_validator reported_validator; /* as passed to the reporter */
    char last[ERR_TEXT_MAX];               /* the last logged failure of the connection */
    struct arena arena;                    /* memory for the life of the process */

    /* Used by the reporter's thread only. */
    struct cdi *own_cdi;
    const char *own_folder;    /* the last of --cdi-dirs */
    uint64_t own_reading;      /* number of the reading for which our specification was written */
    char driver[ERR_TEXT_MAX]; /* the last logged state of the driver */

    struct kube_config *config; /* of the API server */
    struct kube_ops ops;
    struct nvml *nvml;   /* NULL: another component writes the inventory */
    struct meter *meter; /* NULL: off */
    struct mps *mps;     /* NULL: off */
    struct limit_probe limits;
    struct reporter *reporter;

    /* Usage reports; unset if none are sent. */
    struct signing_key *report_key;
    struct kube_config *milligpud;
    struct kube_ops report_ops;
    struct usage_sender *sender;
    struct usage_fill *usage; /* source of the reports */

    struct agent_probe *probe;
    struct readiness *readiness;
    struct driver_release *release;
    bool is_reclaiming; /* taking the driver again, before its first answer */
    enum validator_rule validator;
    char boot[BOOT_BYTES_MAX]; /* boot id of this machine; "" if unknown */
};

/* --- the connection --- */

static void hang_up(struct agent *agent)
{
    if (agent->socket >= 0)
        (void)close(agent->socket);
    nri_session_free(agent->session);
    agent->session = NULL;
    agent->socket = -1;
    agent->is_reported = false;
    agent_calls_lost(&agent->calls);
    metric_set(COUNT_CONNECTED, NULL, 0);
    if (agent->readiness != NULL)
        readiness_set(agent->readiness, READY_RUNTIME, READY_UNCONNECTED);
}

/* Logs the failure only when it changes, since the agent reconnects every second. */
static void lost(struct agent *agent, const char *what, const char *why)
{
    char text[ERR_TEXT_MAX];

    (void)snprintf(text, sizeof text, "%s: %.400s", what, why);
    if (strcmp(text, agent->last) != 0)
        log_write(LOG_WARN, "no connection to the container runtime", log_str("why", text));
    (void)snprintf(agent->last, sizeof agent->last, "%s", text);
    hang_up(agent);
}

static bool dial(struct agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = agent->settings->nri_socket;
    struct nri_handlers handlers;

    must(agent->socket < 0 && strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    agent->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (agent->socket < 0 ||
        connect(agent->socket, (const struct sockaddr *)&address, sizeof address) != 0) {
        lost(agent, path, strerrordesc_np(errno));
        return false;
    }
    agent_calls_handlers(&agent->calls, &handlers);
    agent->session = nri_session_new(&handlers);
    metric_add(COUNT_CONNECTIONS, NULL, 1);
    return true;
}

static bool push(struct agent *agent)
{
    const struct text out = nri_output(agent->session);

    if (out.len == 0)
        return true;
    const ssize_t n = send(agent->socket, out.at, out.len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        lost(agent, "send", strerrordesc_np(errno));
        return false;
    }
    if (n > 0)
        nri_sent(agent->session, (size_t)n);
    return true;
}

static void report_runtime(struct agent *agent)
{
    const struct agent_calls *calls = &agent->calls;

    agent->reported_validator = calls->validator;
    readiness_set(agent->readiness, READY_TABLE,
                  calls->left_out > 0
                      ? "more containers with shares run than the agent can tell apart: end some, "
                        "then restart it"
                      : NULL);
    readiness_set(agent->readiness, READY_VALIDATOR,
                  readiness_validator(agent->validator, calls->closed, calls->validator));
    readiness_set(agent->readiness, READY_RUNTIME, NULL);
    if (agent->reporter != NULL)
        reporter_agent(agent->reporter, calls->runtime, calls->closed, calls->validator);
}

/* The runtime makes one call at a time, so one read per turn is sufficient. */
static bool pull(struct agent *agent)
{
    static char bytes[READ_BYTES];
    struct err err;

    const ssize_t n = recv(agent->socket, bytes, sizeof bytes, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ||
               (lost(agent, "receive", strerrordesc_np(errno)), false);
    if (n == 0) {
        lost(agent, "the runtime",
             agent->is_reported || agent->calls.runtime[0] == '\0'
                 ? "closed the connection"
                 : "closed the connection before it had told what runs; containerd does so if "
                   "eight pods and containers are larger than 4 MiB together (docs/NODE.md)");
        return false;
    }
    if (nri_feed(agent->session, (struct text){bytes, (size_t)n}, &err) < 0) {
        lost(agent, "the runtime", err.text);
        return false;
    }
    if (nri_is_synchronized(agent->session) && !agent->is_reported) {
        agent->is_reported = true;
        agent->last[0] = '\0';
        metric_set(COUNT_CONNECTED, NULL, 1);
        log_write(LOG_INFO, "asked about each container from now on",
                  log_str("runtime", agent->calls.runtime));
        report_runtime(agent);
    }
    if (agent->is_reported && agent->calls.validator != agent->reported_validator)
        report_runtime(agent);
    return push(agent);
}

/* Waits once for bytes, a signal, or the timeout. False after SIGTERM or SIGINT. */
static bool agent_turn(struct agent *agent, int64_t wait_ms)
{
    struct pollfd fds[] = {{.fd = agent->signals, .events = POLLIN},
                           {.fd = agent->socket, .events = POLLIN}};

    if (agent->session != NULL && nri_output(agent->session).len > 0)
        fds[1].events |= POLLOUT;
    const int n = poll(fds, ARRAY_LEN(fds), (int)wait_ms);
    if (n < 0 && errno != EINTR)
        must_not_reach("poll() of two files of ours fails by a signal only");
    if (n <= 0)
        return true;
    if ((fds[0].revents & POLLIN) != 0)
        return false;
    if (agent->session != NULL && (fds[1].revents & POLLOUT) != 0 && !push(agent))
        return true;
    if (agent->session != NULL && (fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        (void)pull(agent);
    return true;
}

static void agent_loop(struct agent *agent)
{
    int64_t next_ms = 0; /* monotonic time of the next attempt to connect */

    for (;;) {
        const int64_t now_ms = clock_ms();
        if (agent->session == NULL && now_ms >= next_ms) {
            next_ms = now_ms + AGAIN_MS;
            (void)dial(agent);
        }
        const int64_t wait_ms = next_ms > now_ms ? next_ms - now_ms : 0;
        if (!agent_turn(agent, agent->session != NULL ? -1 : wait_ms))
            return;
    }
}

/* --- start and stop --- */

static int open_signals(struct err *err)
{
    sigset_t set;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL) ==
         0); /* before the first thread, so that all inherit it */
    const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_set(err, ERR_IO, "no signals: %s", strerrordesc_np(errno));
    return fd;
}

/*
 * Splits --cdi-dirs ("DIR,DIR", in ascending priority). Our own specification goes to the last
 * folder.
 */
static void open_cdi(struct agent *agent)
{
    const char *folder[CDI_FOLDERS_MAX];
    struct text rest = text_of(agent->settings->cdi_dirs);
    struct text one;
    uint32_t folders = 0;

    while (text_cut(&rest, ',', &one)) {
        must(folders < CDI_FOLDERS_MAX); /* checked by agent_settings_load() */
        folder[folders++] = arena_copy(&agent->arena, text_trim(one));
    }
    must(folders > 0); /* checked there, too */
    agent->own_folder = folder[folders - 1];
    agent->calls.cdi = cdi_new(folder, folders);
    agent->own_cdi = cdi_new(folder, folders);
}

/* Current CDI specifications have no GPUs in MIG mode and no lost ones. */
static bool can_be_given(const struct gpu_state *gpu)
{
    return !gpu->is_mig && gpu->health != GPU_LOST;
}

/* Reporter's thread, which has a struct cdi of its own. */
static void write_own_cdi(struct agent *agent, const struct gpu_reading *reading)
{
    struct cdi_gpu gpu[GPUS_PER_NODE_MAX];
    const char *root = agent->settings->driver_root;
    struct cdi_own own = {.folder = agent->own_folder, .gpu = gpu};
    uint32_t written = 0;
    struct err err;

    if (root[0] == '\0' || reading->status != NVML_READY || reading->number == agent->own_reading)
        return;
    agent->own_reading = reading->number; /* reading the driver's large folders is slow */
    own.root = strcmp(root, "/") == 0 ? "" : root;
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (can_be_given(&reading->gpu[i]))
            gpu[own.n_gpus++] = (struct cdi_gpu){reading->gpu[i].uuid, reading->gpu[i].minor};
    if (cdi_write_own(agent->own_cdi, &own, &written, &err) < 0)
        log_write(LOG_WARN, "no CDI specification of our own", log_str("why", err.text));
}

/* Reporter's thread. The health changes with the next reading. */
static void clear_fault(void *user, const char *uuid)
{
    const struct agent *agent = user;
    struct err err;

    if (nvml_clear_fault(agent->nvml, uuid, &err) < 0)
        log_write(LOG_WARN, "cannot clear the fault of a GPU", log_str("gpu", uuid),
                  log_str("why", err.text));
    else
        log_write(LOG_INFO, "GPU fault cleared by operator", log_str("gpu", uuid));
}

/* Marks free GPUs as held "unknown" from the release of the driver until it answers again. */
static void close_released(const struct agent *agent, const struct gpu_reading *reading,
                           struct holders *holders, const char *why[GPUS_PER_NODE_MAX])
{
    if (driver_release_cause(agent->release) == RELEASE_NOT && reading->status != NVML_RELEASED)
        return;
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (holders->by[i] == NULL) {
            holders->by[i] = "unknown";
            why[i] = "the agent of its node lets go of the driver";
        }
}

/*
 * Marks GPUs that no CDI specification names as held "unknown", because the runtime could not
 * resolve them. Reporter's thread.
 */
static void close_unnamed(struct agent *agent, const struct gpu_reading *reading,
                          struct holders *holders, const char *why[GPUS_PER_NODE_MAX])
{
    enum cdi_kind kind;

    for (uint32_t i = 0; i < reading->n_gpus; i++) {
        const char *uuid = reading->gpu[i].uuid;
        if (holders->by[i] != NULL || !can_be_given(&reading->gpu[i]) ||
            cdi_named(agent->own_cdi, &uuid, 1, &kind) > 0)
            continue;
        holders->by[i] = "unknown";
        why[i] = "no CDI specification of its node names it";
    }
}

/* Reporter's thread. Logs the state of the driver when it changes. */
static bool write_gpus(void *user, struct strbuf *out)
{
    struct agent *agent = user;
    CLEANUP(arena_done) struct arena arena;
    struct containers_copy containers;
    struct holders holders;
    const char *why[GPUS_PER_NODE_MAX] = {NULL};
    char description[ERR_TEXT_MAX];

    arena_init(&arena);
    const struct gpu_reading *reading = nvml_latest(agent->nvml);
    containers_copy(agent->calls.containers, &arena, &containers);
    const char *const *outside = NULL;
    const uint32_t outsides = meter_outside(agent->meter, &arena, &outside);
    holders_find(reading, &containers, outside, outsides, &arena, &holders);
    write_own_cdi(agent, reading);
    close_released(agent, reading, &holders, why);
    close_unnamed(agent, reading, &holders, why);
    const bool good = gpus_annotation_write(reading, holders.by, why, out);
    const bool blind = reading->status == NVML_READY && !reading->has_events;
    (void)snprintf(description, sizeof description, "%s: %.300s%s",
                   nvml_status_name(reading->status), reading->problem,
                   blind ? "it does not report XIDs, so they are not seen" : "");
    gpu_reading_unref(reading);
    if (strcmp(description, agent->driver) != 0)
        log_write(good && !blind ? LOG_INFO : LOG_WARN, "NVIDIA's driver",
                  log_str("is", description));
    (void)snprintf(agent->driver, sizeof agent->driver, "%s", description);
    return good;
}

/* Reporter's thread. */
static void describe_driver(void *user, struct reporter_driver *out)
{
    struct agent *agent = user;
    limit_probe_look(&agent->limits);
    const struct gpu_reading *reading = nvml_latest(agent->nvml);
    const char *uuid[GPUS_PER_NODE_MAX];
    enum cdi_kind kind;

    (void)snprintf(out->version, sizeof out->version, "%s", reading->driver);
    for (uint32_t i = 0; i < reading->n_gpus; i++)
        if (can_be_given(&reading->gpu[i]))
            uuid[out->gpus++] = reading->gpu[i].uuid;
    out->named = cdi_named(agent->own_cdi, uuid, out->gpus, &kind);
    out->kind = kind < CDI_KINDS ? cdi_kind_name(kind) : NULL;
    if (reading->status == NVML_READY)
        out->limits = limit_state_word(limit_probe_state(&agent->limits));
    gpu_reading_unref(reading);
}

static int open_nvml(struct agent *agent, struct err *err)
{
    struct nvml_settings settings;

    if (agent->settings->nvml[0] == '\0')
        return 0;
    nvml_defaults(&settings);
    settings.library = agent->settings->nvml;
    settings.every_ms = (int64_t)agent->settings->inventory_s * 1000;
    settings.quiet_ms = (int64_t)agent->settings->quiet_s * 1000;
    settings.is_released = driver_release_cause(agent->release) != RELEASE_NOT;
    agent->nvml = nvml_open(&settings, err);
    return agent->nvml != NULL ? 0 : err_same(err);
}

/* The index of a CHOICE setting's word. */
static uint32_t choice_of(const char *const word[], uint32_t words, const char *setting)
{
    uint32_t at = 0;

    while (at < words && strcmp(word[at], setting) != 0)
        at++;
    must(at < words);
    return at;
}

/* Meter's thread. */
static uint32_t list_daemons(void *user, struct mps_process out[GPUS_PER_NODE_MAX])
{
    const struct agent *agent = user;
    return mps_daemons(agent->mps, out);
}

/* Meter's thread. */
static int end_client(void *user, const char *gpu, uint32_t pid, int64_t wait_ms, struct err *err)
{
    const struct agent *agent = user;
    return mps_end_client(agent->mps, gpu, pid, wait_ms, err);
}

static int open_meter(struct agent *agent, struct err *err)
{
    static const char *const policy[] = {
        [METER_REPORT] = "report", [METER_EVENT] = "event", [METER_KILL] = "kill"};
    const struct agent_settings *settings = agent->settings;
    struct meter_rules rules = {.containers = agent->calls.containers,
                                .nvml = agent->nvml,
                                .proc_dir = settings->proc_dir,
                                .user = agent,
                                .daemons = agent->mps != NULL ? list_daemons : NULL,
                                .end_client = agent->mps != NULL ? end_client : NULL,
                                .grace_ms = (int64_t)settings->over_grace_s * 1000,
                                .every_ms = (int64_t)settings->meter_s * 1000};

    if (agent->nvml == NULL || settings->meter_s == 0)
        return 0;
    rules.policy = choice_of(policy, ARRAY_LEN(policy), settings->over_memory);
    agent->meter = meter_start(&rules, err);
    return agent->meter != NULL ? 0 : err_same(err);
}

static int open_mps(struct agent *agent, struct err *err)
{
    const struct agent_settings *settings = agent->settings;

    if (strcmp(settings->mps, "off") == 0)
        return 0;
    const struct mps_rules rules = {.by_label = strcmp(settings->mps, "label") == 0,
                                    .program = settings->mps_control,
                                    .dir = settings->mps_dir,
                                    .shm = settings->mps_shm,
                                    .label_file =
                                        arena_printf(&agent->arena, "%s/mps", settings->state_dir),
                                    .ask_ms = (int64_t)settings->mps_look_s * 1000,
                                    .nvml = agent->nvml,
                                    .containers = agent->calls.containers};
    return mps_start(&rules, &agent->mps, err);
}

/* Reporter's thread. */
static void take_label(void *user, bool on)
{
    const struct agent *agent = user;
    mps_label(agent->mps, on);
}

/* Reporter's thread. */
static bool count_mps(void *user, uint32_t *out_up, uint32_t *out_all)
{
    const struct agent *agent = user;
    return mps_totals(agent->mps, out_up, out_all);
}

static void set_validator(struct agent *agent)
{
    static const char *const rule[] = {
        [VALIDATOR_AUTO] = "auto", [VALIDATOR_REQUIRE] = "require", [VALIDATOR_WAIVE] = "waive"};

    agent->validator = choice_of(rule, ARRAY_LEN(rule), agent->settings->validator);
}

/* The kernel's boot id, which is the same in all containers. */
static void read_boot(struct agent *agent)
{
    char path[PATH_MAX];
    char *bytes = NULL;
    size_t len = 0;
    struct err err;

    const int n =
        snprintf(path, sizeof path, "%s/sys/kernel/random/boot_id", agent->settings->proc_dir);
    if (n < 0 || (size_t)n >= sizeof path ||
        file_read(path, BOOT_BYTES_MAX, &bytes, &len, &err) < 0)
        return;
    text_clip((struct text){bytes, strcspn(bytes, "\n")}, agent->boot, sizeof agent->boot);
    xfree(bytes);
}

static void open_readiness(struct agent *agent)
{
    agent->readiness = readiness_new(agent->nvml);
    set_validator(agent);
    read_boot(agent);
    if (agent->settings->pod_uid[0] != '\0' && agent->boot[0] == '\0')
        readiness_set(agent->readiness, READY_NODE,
                      "sys/kernel/random/boot_id cannot be read in --proc-dir, so the Node cannot "
                      "be told which machine this is");
}

/*
 * Reporter's thread. The kubelet and the agent of a machine cloned with its name write to the Node
 * of the original; the boot id detects that. An agent outside of a pod can serve a Node without a
 * kubelet, so there an unknown boot id is accepted.
 */
static void see_node(void *user, const struct reporter_node *node)
{
    const struct agent *agent = user;
    const bool in_pod = agent->settings->pod_uid[0] != '\0';
    const bool is_same = strcmp(agent->boot, node->boot) == 0 ||
                         (!in_pod && (agent->boot[0] == '\0' || node->boot[0] == '\0'));
    char why[ERR_TEXT_MAX];

    (void)snprintf(why, sizeof why,
                   "the Node says that its machine has boot id \"%.64s\", and this machine has "
                   "\"%.64s\": do two machines have the name %.200s?",
                   node->boot, agent->boot, agent->settings->node);
    readiness_set(agent->readiness, READY_MACHINE, is_same ? NULL : why);
    driver_release_label(agent->release, text_of(node->upgrade));
    if (node->is_reported)
        readiness_set(agent->readiness, READY_NODE, NULL);
}

static enum nvml_status driver_status(const struct agent *agent)
{
    if (agent->nvml == NULL)
        return NVML_RELEASED; /* this process never loads the driver */
    const struct gpu_reading *reading = nvml_latest(agent->nvml);
    const enum nvml_status status = reading->status;
    gpu_reading_unref(reading);
    return status;
}

/*
 * In a pod, exits if the driver cannot be loaded again, so that kubelet recreates the container:
 * the runtime has mounted the libraries of the old driver into it. The next agent does not exit
 * again, because it is not reclaiming.
 */
static void renew_container(struct agent *agent, enum nvml_status status)
{
    if (!agent->is_reclaiming || (status != NVML_NO_DRIVER && status != NVML_READY))
        return;
    agent->is_reclaiming = false;
    if (status == NVML_READY || agent->settings->pod_uid[0] == '\0')
        return;
    log_plain(LOG_WARN, "could not open the driver again with the libraries that this container "
                        "has: the agent exits, so that its container is recreated");
    (void)kill(getpid(), SIGTERM);
}

static void stay_or_leave(struct agent *agent)
{
    struct mps_process runs[GPUS_PER_NODE_MAX];
    const enum nvml_status status = driver_status(agent);
    const uint32_t daemons = agent->mps != NULL ? mps_daemons(agent->mps, runs) : 0;
    const enum release_cause before = driver_release_cause(agent->release);
    const enum release_cause cause =
        driver_release_turn(agent->release, status == NVML_RELEASED && daemons == 0);
    const bool leaves = cause != RELEASE_NOT;
    char why[ERR_TEXT_MAX];

    if (agent->nvml != NULL)
        nvml_release(agent->nvml, leaves);
    if (agent->mps != NULL)
        mps_leave(agent->mps, leaves);
    agent->is_reclaiming = !leaves && (agent->is_reclaiming || before != RELEASE_NOT);
    renew_container(agent, status);
    (void)snprintf(why, sizeof why, "%s%s", leaves ? release_cause_sentence(cause) : "",
                   daemons > 0 ? "; MPS daemons run, which keep the driver while they have clients"
                               : "");
    readiness_set(agent->readiness, READY_STAYS, leaves ? why : NULL);
}

static const char *explain_leaving(void *user)
{
    const struct agent *agent = user;
    return release_cause_word(driver_release_cause(agent->release));
}

/*
 * Reporter's thread, about every second, so that a change is logged soon. It needs neither the API
 * server nor the runtime; requests that hang delay it (CLEAR_FAULT_WAIT_MS).
 */
static void look_around(void *user)
{
    struct agent *agent = user;
    CLEANUP(strbuf_done) struct strbuf unused;

    strbuf_init(&unused);
    stay_or_leave(agent);
    if (agent->nvml != NULL)
        clear_fault_take(agent->settings->state_dir, agent, clear_fault);
    (void)readiness_look(agent->readiness, &unused);
}

static void set_limit(struct agent *agent)
{
    static const char *const mode[] = {
        [LIMIT_AUTO] = "auto", [LIMIT_REQUIRE] = "require", [LIMIT_OFF] = "off"};
    const struct agent_settings *settings = agent->settings;

    agent->calls.limit =
        (struct memory_limit){.mode = choice_of(mode, ARRAY_LEN(mode), settings->memory_limit),
                              .nvml = agent->nvml,
                              .probe = &agent->limits,
                              .cgroup_dir = settings->cgroup_dir};
    agent->limits.nvml = agent->nvml;
    agent->limits.cgroup_dir = settings->cgroup_dir;
    agent->limits.proc_dir = settings->proc_dir;
    agent->limits.is_off = agent->calls.limit.mode == LIMIT_OFF;
}

static int open_cluster(struct agent *agent, struct err *err)
{
    const char *file = agent->settings->kubeconfig;

    if (kube_config_load(file[0] != '\0' ? file : NULL, NULL, &agent->config, err) < 0)
        return err_same(err);
    return kube_curl_new(agent->config, &agent->ops, err);
}

static void close_cluster(struct agent *agent)
{
    if (agent->ops.free != NULL)
        agent->ops.free(agent->ops.ctx);
    if (agent->config != NULL)
        kube_config_free(agent->config);
}

/* Failures are logged, and the agent runs without usage reports: pods do not depend on them. */
static void open_report_key(struct agent *agent)
{
    struct err err;

    if (agent->settings->report_url[0] == '\0' || agent->settings->report_s == 0)
        return;
    const char *file = arena_printf(&agent->arena, "%s/report.key", agent->settings->state_dir);
    if (signing_key_open(file, &agent->report_key, &err) < 0)
        log_write(LOG_ERROR, "usage is not reported", log_str("why", err.text));
}

static void open_sender(struct agent *agent)
{
    const struct agent_settings *settings = agent->settings;
    struct err err;

    if (agent->report_key == NULL)
        return;
    if (agent->meter == NULL) {
        log_plain(LOG_WARN, "usage is not reported: nothing is metered (--nvml, --meter-s)");
        return;
    }
    agent->usage = usage_fill_new(agent->meter, (int64_t)settings->report_s * 1000);
    const struct usage_sender_rules rules = {.node = settings->node,
                                             .key = agent->report_key,
                                             .ops = &agent->report_ops,
                                             .every_ms = (int64_t)settings->report_s * 1000,
                                             .user = agent->usage,
                                             .fill = usage_fill_report,
                                             .urgent = usage_fill_is_urgent,
                                             .taken = usage_fill_taken};
    if (kube_config_plain(settings->report_url, settings->report_ca, &agent->milligpud, &err) < 0 ||
        kube_curl_new(agent->milligpud, &agent->report_ops, &err) < 0 ||
        usage_sender_start(&rules, &agent->sender, &err) < 0)
        log_write(LOG_ERROR, "usage is not reported", log_str("why", err.text));
}

static void close_sender(struct agent *agent)
{
    usage_sender_stop(agent->sender);
    usage_fill_free(agent->usage);
    if (agent->report_ops.free != NULL)
        agent->report_ops.free(agent->report_ops.ctx);
    if (agent->milligpud != NULL)
        kube_config_free(agent->milligpud);
    signing_key_free(agent->report_key);
}

static enum privileged_mode privileged_of(const struct agent_settings *settings)
{
    static const char *const mode[] = {
        [PRIVILEGED_WARN] = "warn", [PRIVILEGED_REFUSE] = "refuse", [PRIVILEGED_ALLOW] = "allow"};

    return choice_of(mode, ARRAY_LEN(mode), settings->privileged);
}

static int open_parts(struct agent *agent, struct err *err)
{
    const struct agent_settings *settings = agent->settings;
    struct agent_calls *calls = &agent->calls;

    arena_init(&agent->arena);
    agent_calls_init(calls);
    calls->containers = containers_new();
    agent->signals = open_signals(err);
    if (agent->signals < 0 || pod_records_open(settings->state_dir, &calls->records, err) < 0)
        return err_same(err);
    open_cdi(agent);
    calls->keys = public_keys_new(settings->keys_dir);
    calls->rules.node = settings->node;
    calls->rules.foreign_gpus = strcmp(settings->foreign_gpus, "allow") == 0;
    calls->proc_dir = settings->proc_dir;
    calls->mixed_gpus = strcmp(settings->mixed_gpus, "allow") == 0;
    calls->privileged = privileged_of(settings);

    agent->release = driver_release_new(settings->state_dir);
    if (open_cluster(agent, err) < 0 || open_nvml(agent, err) < 0 || open_mps(agent, err) < 0 ||
        open_meter(agent, err) < 0)
        return err_same(err);
    calls->nvml = agent->nvml;
    calls->mps = agent->mps;
    calls->release = agent->release;
    set_limit(agent);
    open_readiness(agent);
    open_report_key(agent);
    const struct reporter_rules rules = {
        .node = settings->node,
        .pod = settings->pod_uid,
        .boot = agent->boot,
        .ops = &agent->ops,
        .key = agent->report_key != NULL ? signing_key_public(agent->report_key) : NULL,
        .user = agent,
        .seen = see_node,
        .turn = look_around,
        .leaving = explain_leaving,
        .gpus = agent->nvml != NULL ? write_gpus : NULL,
        .driver = agent->nvml != NULL ? describe_driver : NULL,
        .mps = agent->mps != NULL ? count_mps : NULL,
        .label = strcmp(settings->mps, "label") == 0 ? take_label : NULL,
        .label_every_ms = (int64_t)settings->mps_look_s * 1000,
        .look_every_ms = NODE_LOOK_MS};
    if (reporter_start(&rules, &agent->reporter, err) < 0)
        return err_same(err);
    open_sender(agent);
    const struct agent_metrics metrics = {.nvml = agent->nvml,
                                          .meter = agent->meter,
                                          .has_containers =
                                              strcmp(settings->container_metrics, "on") == 0};
    return agent_probe_start(settings->probe_listen, settings->port_file, &metrics,
                             agent->readiness, &agent->probe, err);
}

static void close_parts(struct agent *agent)
{
    agent_probe_stop(agent->probe);
    reporter_stop(agent->reporter);
    hang_up(agent); /* before close_sender(): the runtime must not wait for milligpud */
    close_sender(agent);
    meter_stop(agent->meter);
    mps_stop(agent->mps); /* after its callers, the meter and the reporter */
    nvml_close(agent->nvml);
    agent_calls_done(&agent->calls);
    containers_free(agent->calls.containers);
    cdi_free(agent->calls.cdi);
    cdi_free(agent->own_cdi);
    arena_done(&agent->arena);
    public_keys_free(agent->calls.keys);
    pod_records_close(agent->calls.records);
    close_cluster(agent);
    readiness_free(agent->readiness);
    driver_release_free(agent->release);
    if (agent->signals >= 0)
        (void)close(agent->signals);
}

int agent_run(const struct agent_settings *settings, struct err *err)
{
    struct agent agent = {.settings = settings, .socket = -1, .signals = -1};
    enum log_level level;

    must(log_level_parse(settings->log_level, &level));
    log_set(level, strcmp(settings->log_format, "json") == 0);
    int rc = open_parts(&agent, err);
    if (rc == 0) {
        log_write(LOG_INFO, "started", log_str("version", MILLIGPU_VERSION),
                  log_str("node", settings->node),
                  log_i64("pods", pod_records_count(agent.calls.records)),
                  log_i64("keys", public_keys_count(agent.calls.keys)));
        agent_loop(&agent);
        log_plain(LOG_INFO, "stopped");
    }
    close_parts(&agent);
    return rc;
}

int agent_uninstall(const struct agent_settings *settings, struct err *err)
{
    struct agent agent = {.settings = settings, .socket = -1, .signals = -1};
    CLEANUP(strbuf_done) struct strbuf body;
    CLEANUP(strbuf_done) struct strbuf answer;

    strbuf_init(&body);
    strbuf_init(&answer);
    reporter_remove(&body);
    int rc = open_cluster(&agent, err);
    if (rc == 0)
        rc = reporter_patch(&agent.ops, settings->node, (struct text){body.data, body.len},
                            UNINSTALL_MS, &answer, err);
    close_cluster(&agent);
    return rc < 0 ? rc : 0; /* a Node that is gone has no annotations either */
}
