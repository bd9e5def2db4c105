/*
 * Creates all parts of milligpud, starts their threads, reloads settings, stops. main() calls
 * daemon_run() in the main thread, which afterwards only waits for signals; the handlers below run
 * in the listeners' threads. Each part is created before the thread that uses it and freed after
 * that thread has ended, so no part checks whether another one still runs. struct daemon is written
 * by the main thread, except for the atomics, err and news. In order: threads, handlers, start,
 * run, stop.
 */
#include "milligpu/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/admin/api.h"
#include "milligpu/admin/events.h"
#include "milligpu/admin/usage/reports.h"
#include "milligpu/base/alloc.h"
#include "milligpu/daemon/assembly.h"
#include "milligpu/document/policy/policy_document.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/http/http.h"
#include "milligpu/kube/kube.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/wakeup.h"
#include "milligpu/selfcheck/verifier.h"
#include "milligpu/sign/keyring.h"
#include "milligpu/spine/app.h"
#include "milligpu/spine/message.h"
#include "milligpu/spine/policy_reload.h"
#include "milligpu/sync/cluster_identity.h"
#include "milligpu/sync/informer.h"
#include "milligpu/sync/key_publisher.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/sync/rights.h"
#include "milligpu/waiting/waiting_pods.h"
#include "milligpu/webhook/webhooks.h"
#include "milligpu/wire/kube/wire_kube.h"
#include "milligpu/wire/usage/usage_report.h"
#include "milligpu/writer/writer.h"

#include "milligpu_version.h"
#include "policy_source.h"
#include "ports.h"
#include "sandbox.h"

enum {
    ADMIN_THREADS = 2,
    ADMIN_BODY_BYTES = 4 * 1024 * 1024,
    /* the only body on the admin listener is a pod's manifest */
    ADMIN_BODIES_BYTES = 4 * ADMIN_BODY_BYTES,
    /* some 50 reports of a few kB arrive per second */
    REPORT_BODIES_BYTES = 16 * USAGE_BODY_BYTES_MAX,
    /* timeout for binds in flight; kubelet waits 30 s (terminationGracePeriodSeconds) */
    DRAIN_MS = 8000,
    DRAIN_LOOK_MS = 100, /* polling interval while draining */
    /* malloc arenas: what one thread frees serves the others; glibc's default is 8 per core */
    HEAPS_MAX = 1,
    /* blocks of this size are mapped one by one, and unmapped by free() */
    LARGE_BYTES = 256 * 1024,
    /* maximum sleep of the writer; its tick is due once a second anyway */
    WRITER_WAIT_MS = 60000,
    /* maximum sleep of the informer: flags that wake nobody (list_again) wait that long */
    INFORMER_WAIT_MS = 5000,
    /* nice value of the thread, a Linux extension */
    VERIFIER_NICE = 10,
    SETTING_TEXT_MAX = 4096,
    FILE_LOOK_MS = 5000, /* interval between checks of certificates and policy */
    WEBHOOK = 0,         /* index of the first port */
    ADMIN = 1,
    PROBE = 2,
    REPORT = 3,
    SOCKET = 4,
    PORTS = PORTS_MAX,
    /* enough for a backup, which is complete before the first byte of its answer */
    SOCKET_REQUEST_MS = 10 * 60 * 1000,
};

/* Ports that may have certificates. */
static const size_t tls_ports[] = {WEBHOOK, REPORT};
static const char *const port_names[PORTS] = {"webhook", "admin", "probe", "report", "socket"};
static const char *const port_settings[PORTS] = {"webhook_listen", "admin_listen", "probe_listen",
                                                 "report_listen", "admin_socket"};

struct daemon {
    struct app app;
    struct app_parts parts;
    int argc;
    char *const *argv;
    char *const *envp;
    /* all sets loaded by SIGHUP, owned until the end: threads may still read old ones */
    struct settings_set **reloaded;
    size_t reloads;
    size_t reload_capacity;
    struct policy_source policy;
    const struct rulebook *rulebook; /* initial policy, a reference */
    struct err
        policy_err; /* error of the policy file if the ledger's copy is used; else ERR_NONE */
    struct kube_config *config;
    struct keyring *keyring; /* NULL under --standalone: nothing is signed */
    /* for the informer thread: cluster identity, reflectors, permissions, public keys */
    struct kube_ops watch_ops;
    /* for the outbox thread; separate connections, so no Binding waits behind a list */
    struct kube_ops call_ops;
    struct http_server *port[PORTS]; /* NULL if not configured */
    char socket_listen[128];         /* "unix:" + admin_socket */
    struct reports *reports;         /* belongs to the report listener's thread */
    /* by port; each listener's watch thread uses its own part */
    struct ports_news news;
    pthread_t main_thread;
    pthread_t writer_thread;
    pthread_t informer_thread;
    pthread_t outbox_thread;
    pthread_t verifier_thread;
    pthread_t events_thread;
    bool writer_runs, informer_runs, outbox_runs, verifier_runs, events_runs;
    atomic_bool stop_io; /* for informer and outbox */
    atomic_bool stop_writer;
    atomic_bool failed; /* fatal error, see err */
    struct err err;     /* written once, before failed is set */
};

/* --- threads: a loop around a step --- */

static int64_t now_of(const struct app *app)
{
    return app->clock.now_ms(app->clock.ctx);
}

static void daemon_pause_ms(int64_t ms)
{
    must(ms >= 0 && ms < 60000);

    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
}

/*
 * Takes messages only after the cluster is identified, because another cluster's ledger must not be
 * changed. A verification does not wait for that.
 */
static void *writer_main(void *user)
{
    struct daemon *daemon = user;

    must(daemon->parts.writer != NULL);
    while (!atomic_load(&daemon->stop_writer)) {
        if (atomic_load(&daemon->app.identified)) {
            (void)writer_step(daemon->parts.writer, WRITER_WAIT_MS);
        } else {
            verifier_meet(daemon->app.verifier);
            daemon_pause_ms(10);
        }
    }
    writer_end(daemon->parts.writer);
    return NULL;
}

static void identity_delivered(void *user, const struct kube_answer *answer)
{
    must(answer->id != 0);

    struct daemon *daemon = user;
    cluster_identity_answer(daemon->parts.identity, now_of(&daemon->app), answer);
}

/* Three users share watch_ops; the informer gets the answers that the other two do not claim. */
static void watch_delivered(void *user, const struct kube_answer *answer)
{
    must(answer->id != 0);

    struct daemon *daemon = user;
    const int64_t now_ms = now_of(&daemon->app);

    if (rights_answer(daemon->app.rights, now_ms, answer))
        return;
    if (daemon->app.key_publisher != NULL &&
        key_publisher_answer(daemon->app.key_publisher, now_ms, answer))
        return;
    informer_answer(daemon->parts.informer, now_ms, answer);
}

static void call_delivered(void *user, const struct kube_answer *answer)
{
    must(answer->id != 0);

    struct daemon *daemon = user;
    outbox_answer(daemon->app.outbox, now_of(&daemon->app), answer);
}

static void poll_watch(struct daemon *daemon, int64_t wait_ms,
                       void (*deliver)(void *user, const struct kube_answer *answer))
{
    must(deliver != NULL && wait_ms >= 0);

    wait_ms = wait_ms < INFORMER_WAIT_MS ? wait_ms : INFORMER_WAIT_MS;
    daemon->watch_ops.poll(daemon->watch_ops.ctx, wait_ms, daemon, deliver);
}

/*
 * First the cluster identity, then the watches: no node and no pod is read before the ledger is
 * known to belong to this cluster. Another cluster's ledger ends the process; err is written before
 * failed is set, and the main thread reads it after this thread has ended.
 */
static void *informer_main(void *user)
{
    struct daemon *daemon = user;

    must(daemon->parts.informer != NULL && daemon->parts.identity != NULL);
    while (!atomic_load(&daemon->stop_io) && !cluster_identity_done(daemon->parts.identity)) {
        poll_watch(daemon, cluster_identity_step(daemon->parts.identity, now_of(&daemon->app)),
                   identity_delivered);
        if (cluster_identity_refused(daemon->parts.identity, &daemon->err)) {
            atomic_store(&daemon->failed, true);
            must(pthread_kill(daemon->main_thread, SIGINT) == 0); /* wakes it */
            return NULL;
        }
    }
    while (!atomic_load(&daemon->stop_io)) {
        const int64_t wait[] = {
            informer_step(daemon->parts.informer, now_of(&daemon->app)),
            rights_step(daemon->app.rights, now_of(&daemon->app)),
            daemon->app.key_publisher == NULL
                ? INFORMER_WAIT_MS
                : key_publisher_step(daemon->app.key_publisher, now_of(&daemon->app))};
        int64_t least = INFORMER_WAIT_MS;
        for (size_t i = 0; i < ARRAY_LEN(wait); i++)
            least = wait[i] < least ? wait[i] : least;
        poll_watch(daemon, least, watch_delivered);
    }
    return NULL;
}

/* New jobs and the stop end the wait through wake(). */
static void *outbox_main(void *user)
{
    struct daemon *daemon = user;
    struct app *app = &daemon->app;

    must(daemon->app.outbox != NULL);
    while (!atomic_load(&daemon->stop_io)) {
        const int64_t wait =
            outbox_step(app->outbox, now_of(app), app->clock.wall_ms(app->clock.ctx));
        daemon->call_ops.poll(daemon->call_ops.ctx, wait, daemon, call_delivered);
    }
    return NULL;
}

/* Runs at low priority: granting comes first. */
static void *verifier_main(void *user)
{
    struct daemon *daemon = user;
    struct app *app = &daemon->app;

    must(app->verifier != NULL);
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), VERIFIER_NICE) != 0)
        log_plain(LOG_DEBUG, "the priority of the verifier cannot be lowered");
    while (!atomic_load(&daemon->stop_io)) {
        verifier_step(app->verifier, now_of(app));
        wakeup_wait(app->verifier_wakeup, verifier_wait_ms(app->verifier, now_of(app)));
    }
    return NULL;
}

static void *events_run(void *user)
{
    struct daemon *daemon = user;

    must(daemon->app.events != NULL);
    events_main(daemon->app.events);
    return NULL;
}

/* --- handlers --- */

static void webhook_call(void *user, struct http_call *call)
{
    struct daemon *daemon = user;
    webhooks_handle(daemon->parts.webhooks, call);
}

static void admin_call(void *user, struct http_call *call)
{
    struct daemon *daemon = user;
    api_handle(&daemon->app, call);
}

static bool webhook_takes_body(void *user, const char *method, const char *path)
{
    const struct daemon *daemon = user;
    return webhooks_takes_body(daemon->parts.webhooks, method, path);
}

/*
 * Called for a new connection, first with "", then with each name in the certificate. Uses the
 * present settings, so a SIGHUP affects new connections only.
 */
static bool webhook_admits(void *user, const char *name)
{
    const struct daemon *daemon = user;
    const struct settings *settings = atomic_load(&daemon->app.settings);
    struct text rest = text_of(settings->webhook_client_names);
    struct text listed;

    if (rest.len == 0)
        return true;
    while (text_cut(&rest, ',', &listed))
        if (name[0] != '\0' && text_is(text_trim(listed), name))
            return true;
    return false;
}

static bool admin_takes_body(void *user, const char *method, const char *path)
{
    (void)user;
    return api_takes_body(method, path);
}

static void probe_call(void *user, struct http_call *call)
{
    struct daemon *daemon = user;
    api_handle_probe(&daemon->app, call);
}

static void report_call(void *user, struct http_call *call)
{
    struct daemon *daemon = user;
    reports_handle(daemon->reports, call);
}

static bool report_takes_body(void *user, const char *method, const char *path)
{
    (void)user;
    return reports_takes_body(method, path);
}

/*
 * Runs in any thread of a listener. Only 403 is a warning, because it shows a misconfigured client
 * (an unlisted certificate or Host); anyone who reaches the port can cause the others at will.
 */
static void turned_away(void *user, int status, const char *why)
{
    must(why != NULL);

    char code[16];

    (void)user;
    (void)snprintf(code, sizeof code, "%d", status);
    metric_add(M_HTTP_REFUSED, LABEL_VALUES(code), 1);
    log_write(status == 403 ? LOG_WARN : LOG_DEBUG, "request refused", log_i64("status", status),
              log_str("why", why));
}

static void daemon_dropped(void *user, const char *name, enum http_cause cause, uint32_t count)
{
    struct daemon *daemon = user;
    size_t port = 0;

    while (port < PORTS && strcmp(port_names[port], name) != 0)
        port++;
    must(port < PORTS);
    ports_dropped(&daemon->news, port, name, cause, count);
}

static void daemon_noticed(void *user, const char *text)
{
    must(text != NULL);

    (void)user;
    log_write(LOG_WARN, "ledger", log_str("notice", text));
}

/* --- start --- */

static const char *file_or_null(const char *file)
{
    return file[0] != '\0' ? file : NULL;
}

static void set_log(const struct settings *settings)
{
    enum log_level level = LOG_INFO;

    /* checked with the settings */
    must(log_level_parse(settings->log_level, &level));
    log_set(level, strcmp(settings->log_format, "json") == 0);
}

/*
 * Under --standalone without a configured ledger, the ledger is in memory, so that a trial leaves
 * no file behind.
 */
static const char *path_of_ledger(const struct settings_set *set)
{
    const struct settings *settings = settings_get(set);

    must(settings->ledger[0] != '\0');
    return settings->standalone[0] != '\0' &&
                   settings_source(set, SETTING_ledger) == SETTING_DEFAULT
               ? ":memory:"
               : settings->ledger;
}

/*
 * Reads the policy at the start. why: set to the error of the file, even if the ledger's copy is
 * used instead; otherwise unchanged.
 */
static int read_policy(const struct settings_set *set, struct policy_source *source,
                       const struct rulebook **out, struct err *why)
{
    must(why->code == ERR_NONE);
    if (policy_source_read(source, settings_get(set)->policy, out, why) == 0)
        return 0;
    return policy_source_read_kept(source, path_of_ledger(set), out, why);
}

/* By default beside the ledger; backups of the ledger do not contain it. */
static void signing_key_file(const struct settings *settings, struct strbuf *out)
{
    must(settings->standalone[0] == '\0' && settings->ledger[0] != '\0');
    if (settings->signing_key[0] != '\0')
        strbuf_str(out, settings->signing_key);
    else
        strbuf_printf(out, "%s.key", settings->ledger);
}

/* Called with the ledger's lock held: two daemons that start at once must not create two keys. */
static int open_keyring(struct daemon *daemon, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf file;

    must(daemon->keyring == NULL && daemon->app.store != NULL);
    strbuf_init(&file);
    signing_key_file(daemon->app.settings, &file);
    const struct clock_ops *clock = &daemon->app.clock;
    const struct key_times now = {now_of(&daemon->app), clock->wall_ms(clock->ctx)};
    const struct keyring_rules rules = {file.data,
                                        (int64_t)daemon->app.settings->key_wait_s * 1000};
    return keyring_open(&rules, now, &daemon->keyring, err);
}

static int open_fake_apiserver(struct daemon *daemon, struct err *err)
{
    must(daemon->app.settings->standalone[0] != '\0');

    struct app *app = &daemon->app;

    app->fake = fake_apiserver_new("standalone");
    /*
     * Versions start at the time in microseconds and never repeat: a file has fewer objects than
     * microseconds pass while it is read.
     */
    fake_apiserver_set_version(app->fake, (uint64_t)app->clock.wall_ms(app->clock.ctx) * 1000);
    const int rc = fake_apiserver_load(app->fake, app->settings->standalone, err);
    if (rc < 0)
        return rc;
    fake_apiserver_ops(app->fake, &daemon->watch_ops);
    fake_apiserver_ops(app->fake, &daemon->call_ops);
    app->instance.server = "standalone";
    return 0;
}

static int open_cluster(struct daemon *daemon, struct err *err)
{
    must(daemon->app.settings->standalone[0] == '\0');

    struct app *app = &daemon->app;
    int rc = kube_config_load(file_or_null(app->settings->kubeconfig),
                              file_or_null(app->settings->context), &daemon->config, err);
    if (rc == 0)
        rc = kube_curl_new(daemon->config, &daemon->watch_ops, err);
    if (rc == 0)
        rc = kube_calls_new(daemon->config, &daemon->call_ops, err);
    if (rc == 0)
        app->instance.server = kube_config_server(daemon->config);
    return rc;
}

/* Runs once: before the ledger is opened if its owner must be compared, else after. */
static int open_api_server(struct daemon *daemon, struct err *err)
{
    if (daemon->call_ops.start != NULL)
        return 0;
    return daemon->app.settings->standalone[0] != '\0' ? open_fake_apiserver(daemon, err)
                                                       : open_cluster(daemon, err);
}

/*
 * For store_open(). Uses watch_ops, whose informer thread does not exist yet. Signals stay pending
 * until the start is complete.
 */
static int name_cluster(void *user, char out_uid[UID_BYTES_MAX + 1], struct err *err)
{
    struct daemon *daemon = user;
    const int rc = open_api_server(daemon, err);

    must(daemon->app.store == NULL);
    return rc < 0 ? rc : cluster_identity_ask(&daemon->watch_ops, out_uid, err);
}

/*
 * Comes first: the lock on the ledger file stops a second daemon before it reaches the cluster. An
 * older ledger may need the API server, because another cluster's ledger must not be migrated.
 */
static int open_store(struct daemon *daemon, struct err *err)
{
    must(daemon->app.store == NULL);

    const struct settings *settings = daemon->app.settings;
    const struct store_rules rules = {
        .path = path_of_ledger(daemon->app.set),
        .on_corrupt =
            strcmp(settings->on_corrupt, "rebuild") == 0 ? STORE_MOVE_ASIDE : STORE_REFUSE,
        .retention_days = settings->retention_days,
        .max_bytes = settings->ledger_max_bytes,
        .has_ballast = true,
        .checks_beside = true,
        .checkpoints_beside = true,
        .user = daemon,
        .notice = daemon_noticed,
        .cluster = name_cluster,
    };

    const int rc = store_open(&rules, &daemon->app.store, err);
    if (rc == 0)
        store_ops(daemon->app.store, &daemon->app.store_ops);
    return rc;
}

/* Default: the pod's own namespace, where the Role of the manifests allows the object. */
static const char *wake_namespace(const struct daemon *daemon)
{
    must(daemon->app.settings != NULL);

    const struct settings *settings = daemon->app.settings;

    if (settings->namespace[0] != '\0')
        return settings->namespace;
    if (daemon->config != NULL && kube_config_namespace(daemon->config)[0] != '\0')
        return kube_config_namespace(daemon->config);
    return "default";
}

static void make_parts(struct daemon *daemon)
{
    struct app *app = &daemon->app;

    must(daemon->call_ops.start != NULL && daemon->watch_ops.start != NULL);
    /* None under --standalone: the fake API server gets no Bindings of other processes. */
    const int64_t grace_ms = (int64_t)app->settings->grace_period_s * 1000;
    const struct app_edges edges = {.clock = app->clock,
                                    .store = app->store,
                                    .rulebook = daemon->rulebook,
                                    .fake = app->fake,
                                    .watch = &daemon->watch_ops,
                                    .calls = &daemon->call_ops,
                                    .grace_ms = app->fake != NULL ? 0 : grace_ms,
                                    .server = app->instance.server,
                                    .wake_namespace = wake_namespace(daemon),
                                    .keyring = daemon->keyring,
                                    .instance = "milligpud"};
    app_open(app, app->settings, &edges, &daemon->parts);
    app->rights = rights_new(app, &daemon->watch_ops);
    if (app->keyring != NULL)
        app->key_publisher = key_publisher_new(app, &daemon->watch_ops);
    app->events = events_new(app);
    daemon->reports = reports_new(app);
}

/* Replaces the port of "127.0.0.1:0" by the port that was bound. */
static void daemon_address_of(const char *listen, uint16_t port, char *out, size_t bytes)
{
    must(port > 0);

    const char *colon = strrchr(listen, ':');
    const size_t host = colon != NULL ? (size_t)(colon - listen) : strlen(listen);

    (void)snprintf(out, bytes, "%.*s:%u", (int)host, listen, (unsigned)port);
}

/*
 * Host is checked on loopback, which web pages in a browser can reach, and if names are configured;
 * elsewhere the client certificate is checked (docs/why/013).
 */
static struct http_rules webhook_rules(struct daemon *daemon)
{
    const struct settings *settings = daemon->app.settings;
    struct http_rules rules = {
        .name = port_names[WEBHOOK],
        .listen = settings->webhook_listen,
        .threads = settings->webhook_threads,
        .takes_body = webhook_takes_body,
        .body_bytes_max = BODY_BYTES_MAX,
        .bodies_bytes_max = BODIES_BYTES_MAX,
        .cert_file = file_or_null(settings->webhook_cert),
        .key_file = file_or_null(settings->webhook_key),
        .client_ca_file = file_or_null(settings->webhook_client_ca),
        .admits = webhook_admits,
        .known_hosts_only = http_address_is_loopback(settings->webhook_listen) ||
                            settings->webhook_hosts[0] != '\0',
        .hosts = settings->webhook_hosts,
        .user = daemon,
        .handler = webhook_call,
        .refused = turned_away,
        .dropped = daemon_dropped,
    };

    must(daemon->parts.webhooks != NULL);
    ports_limits(&rules, settings->webhook_connections);
    return rules;
}

/* REST is unauthenticated: the settings allow loopback only, and Host is always checked. */
static struct http_rules admin_rules(struct daemon *daemon)
{
    const struct settings *settings = daemon->app.settings;
    struct http_rules rules = {
        .name = port_names[ADMIN],
        .listen = settings->admin_listen,
        .threads = ADMIN_THREADS,
        .takes_body = admin_takes_body,
        .body_bytes_max = ADMIN_BODY_BYTES,
        .bodies_bytes_max = ADMIN_BODIES_BYTES,
        .known_hosts_only = true,
        .hosts = settings->admin_hosts,
        .user = daemon,
        .handler = admin_call,
        .refused = turned_away,
        .dropped = daemon_dropped,
    };

    must(daemon->app.queue != NULL);
    ports_limits(&rules, settings->admin_connections);
    return rules;
}

/*
 * The probe listener accepts no body. Host is not checked: the names used by kubelet and Prometheus
 * are unknown.
 */
static struct http_rules probe_rules(struct daemon *daemon)
{
    const struct settings *settings = daemon->app.settings;
    struct http_rules rules = admin_rules(daemon);

    must(settings->probe_listen[0] != '\0');
    rules.name = port_names[PROBE];
    rules.listen = settings->probe_listen;
    rules.threads = 1;
    rules.takes_body = NULL;
    rules.known_hosts_only = http_address_is_loopback(settings->probe_listen);
    rules.handler = probe_call;
    ports_limits(&rules, settings->admin_connections);
    return rules;
}

/*
 * Host is not checked: agents use the unknown name of a Service, and sign their reports. One
 * thread: reports are merged one at a time.
 */
static struct http_rules report_rules(struct daemon *daemon)
{
    const struct settings *settings = daemon->app.settings;
    struct http_rules rules = probe_rules(daemon);

    must(daemon->reports != NULL && settings->report_listen[0] != '\0');
    rules.name = port_names[REPORT];
    rules.listen = settings->report_listen;
    rules.takes_body = report_takes_body;
    rules.body_bytes_max = USAGE_BODY_BYTES_MAX;
    rules.bodies_bytes_max = REPORT_BODIES_BYTES;
    rules.cert_file = file_or_null(settings->report_cert);
    rules.key_file = file_or_null(settings->report_key);
    rules.known_hosts_only = http_address_is_loopback(settings->report_listen);
    rules.handler = report_call;
    ports_limits(&rules, settings->admin_connections);
    return rules;
}

/*
 * Serves the routes of the admin listener to processes of our own user. Timeouts allow a large
 * backup; connections are few.
 */
static struct http_rules socket_rules(struct daemon *daemon)
{
    struct http_rules rules = admin_rules(daemon);

    must(daemon->socket_listen[0] != '\0');
    rules.name = port_names[SOCKET];
    rules.listen = daemon->socket_listen;
    ports_limits(&rules, PORTS_CONNECTIONS_LEAST);
    rules.request_ms = SOCKET_REQUEST_MS;
    return rules;
}

/* Returns "" if the listener is off. */
static const char *listen_of(const struct settings *settings, size_t port)
{
    const char *const listen[PORTS] = {settings->webhook_listen, settings->admin_listen,
                                       settings->probe_listen, settings->report_listen,
                                       settings->admin_socket};

    must(port < PORTS);
    return listen[port];
}

static void note_certificate(const struct daemon *daemon, size_t port)
{
    must(port < PORTS && daemon->port[port] != NULL);
    const int64_t ends_s = http_certificate_ends_s(daemon->port[port]);
    if (ends_s != 0)
        metric_set(M_CERTIFICATE_ENDS, LABEL_VALUES(port_names[port]), ends_s);
}

/*
 * Collects all rules first, because ports_fit() shrinks them together to the limit of open files.
 * Listeners accept at once: webhooks answer with an error until milligpud is ready.
 */
static int start_ports(struct daemon *daemon, struct err *err)
{
    static struct http_rules (*const rules_of[PORTS])(struct daemon *) = {
        webhook_rules, admin_rules, probe_rules, report_rules, socket_rules};
    const struct settings *settings = daemon->app.settings;
    struct http_rules rules[PORTS];
    size_t port[PORTS];
    size_t count = 0;

    must(daemon->port[WEBHOOK] == NULL);
    (void)snprintf(daemon->socket_listen, sizeof daemon->socket_listen, "unix:%s",
                   settings->admin_socket);
    for (size_t i = 0; i < PORTS; i++) {
        if (listen_of(settings, i)[0] == '\0')
            continue;
        port[count] = i;
        rules[count++] = rules_of[i](daemon);
    }
    must(port[WEBHOOK] == WEBHOOK); /* never off */
    if (ports_fit(rules, count, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < count; i++) {
        if (http_start(&rules[i], &daemon->port[port[i]], err) < 0)
            return err_wrap(err, "%s", port_settings[port[i]]);
        note_certificate(daemon, port[i]);
    }
    daemon_address_of(settings->webhook_listen, http_port(daemon->port[WEBHOOK]),
                      daemon->app.instance.webhook_address,
                      sizeof daemon->app.instance.webhook_address);
    if (rules[WEBHOOK].client_ca_file != NULL && settings->webhook_client_names[0] == '\0')
        log_plain(LOG_WARN, "any client with a certificate of webhook_client_ca can bind pods: set "
                            "webhook_client_names to a name in kube-scheduler's certificate");
    return 0;
}

static void listening_address(const struct daemon *daemon, size_t port, char *out, size_t bytes)
{
    must(daemon->port[port] != NULL);
    if (port == SOCKET)
        (void)snprintf(out, bytes, "%s", daemon->socket_listen);
    else
        daemon_address_of(listen_of(daemon->app.settings, port), http_port(daemon->port[port]), out,
                          bytes);
}

/*
 * Reports the bound ports after a start with port 0, for tests and `milligpuctl --port-file`.
 * Written under a temporary name and renamed, so readers see a complete file or none.
 */
static int write_ports(struct daemon *daemon, struct err *err)
{
    must(daemon->port[0] != NULL && daemon->port[1] != NULL);

    const struct settings *settings = daemon->app.settings;
    char address[300];
    struct strbuf text;

    strbuf_init(&text);
    for (size_t i = 0; i < PORTS; i++) {
        if (daemon->port[i] == NULL)
            continue;
        listening_address(daemon, i, address, sizeof address);
        /* not the socket: readers of the file expect a port */
        if (i != SOCKET)
            strbuf_printf(&text, "%s %s\n", port_names[i], address);
        log_write(LOG_INFO, "listening", log_str("port", port_names[i]),
                  log_str("address", address));
    }
    int rc = 0;
    if (settings->port_file[0] != '\0' &&
        file_replace(settings->port_file, (struct text){text.data, text.len}, err) < 0)
        rc = err_wrap(err, "port_file");
    strbuf_done(&text);
    return rc;
}

static bool daemon_spawn(pthread_t *thread, void *(*run)(void *), struct daemon *daemon)
{
    must(thread != NULL);

    return pthread_create(thread, NULL, run, daemon) == 0;
}

/* On failure, daemon_stop() ends the threads whose flag is set. */
static int daemon_start_threads(struct daemon *daemon, struct err *err)
{
    must(!daemon->writer_runs);

    daemon->writer_runs = daemon_spawn(&daemon->writer_thread, writer_main, daemon);
    daemon->informer_runs = daemon_spawn(&daemon->informer_thread, informer_main, daemon);
    daemon->outbox_runs = daemon_spawn(&daemon->outbox_thread, outbox_main, daemon);
    daemon->verifier_runs = daemon_spawn(&daemon->verifier_thread, verifier_main, daemon);
    daemon->events_runs = daemon_spawn(&daemon->events_thread, events_run, daemon);
    if (daemon->writer_runs && daemon->informer_runs && daemon->outbox_runs &&
        daemon->verifier_runs && daemon->events_runs)
        return 0;
    return err_set(err, ERR_INTERNAL, "a thread cannot be created");
}

static void report_kept_policy(const struct daemon *daemon)
{
    char read[TIME_TEXT_BYTES];

    must(daemon->rulebook != NULL);
    time_format(daemon->policy.kept_ms, read);
    log_write(LOG_ERROR,
              "the policy could not be read; the last good document, which the ledger has kept, "
              "decides until the file is correct",
              log_str("error", daemon->policy_err.text), log_str("kept", daemon->rulebook->name),
              log_str("digest", daemon->rulebook->digest), log_str("since", read));
}

/*
 * Steps that can fail because of the operator's input come first, before writer, informer and
 * outbox run: the policy, the ledger and its lock, the cluster's configuration (for an older ledger
 * while it is opened), loading, the ports. On failure daemon_stop() frees the parts that exist.
 */
static int daemon_start(struct daemon *daemon, struct err *err)
{
    must(daemon->parts.writer == NULL);

    struct app *app = &daemon->app;
    int rc = read_policy(app->set, &daemon->policy, &daemon->rulebook, &daemon->policy_err);

    if (rc < 0)
        *err = daemon->policy_err;
    if (rc < 0 || (rc = open_store(daemon, err)) < 0)
        return rc;
    if (daemon->policy_err.code != ERR_NONE)
        report_kept_policy(daemon);
    if (app->settings->standalone[0] == '\0' && (rc = open_keyring(daemon, err)) < 0)
        return rc;
    if ((rc = open_api_server(daemon, err)) < 0)
        return rc;
    make_parts(daemon);
    if (daemon->policy_err.code != ERR_NONE)
        policy_reload_report(app->policy_reload, daemon->policy_err.text,
                             app->clock.wall_ms(app->clock.ctx));
    if ((rc = writer_load(daemon->parts.writer, err)) < 0 || (rc = start_ports(daemon, err)) < 0 ||
        (rc = write_ports(daemon, err)) < 0)
        return rc;
    log_write(LOG_INFO, "started", log_str("server", app->instance.server),
              log_str("version", MILLIGPU_VERSION));
    return daemon_start_threads(daemon, err);
}

/* --- run and stop --- */

/*
 * Old certificates stay in use if the new ones do not load, so a half-written file has no effect;
 * the next check finds the complete one.
 */
static bool reload_certificates(struct daemon *daemon, size_t port)
{
    struct err err;

    must(port < PORTS);
    if (daemon->port[port] == NULL)
        return true;
    if (http_reload(daemon->port[port], &err) < 0) {
        log_write(LOG_ERROR, "certificates were not reloaded; the old ones stay in use",
                  log_str("port", port_names[port]), log_str("error", err.text));
        return false;
    }
    note_certificate(daemon, port);
    log_write(LOG_INFO, "certificates reloaded", log_str("port", port_names[port]));
    return true;
}

static void policy_not_reloaded(struct daemon *daemon, const char *error)
{
    struct app *app = &daemon->app;

    log_write(LOG_ERROR, "the policy was not reloaded; the old one stays in force",
              log_str("error", error));
    policy_reload_report(app->policy_reload, error, app->clock.wall_ms(app->clock.ctx));
}

/*
 * Reads the document and sends it to the writer, which puts it into force between two batches; an
 * unchanged one is not sent. If it is broken the old one stays in force, and the next check finds
 * the repaired file. If the queue is full it is read again at the next check, because this thread
 * must not block: it waits for signals.
 */
static bool reload_policy(struct daemon *daemon)
{
    struct app *app = &daemon->app;
    const struct settings *settings = atomic_load(&app->settings);
    const struct rulebook *book = NULL;
    struct err err;

    must(app->queue != NULL);
    if (policy_source_read(&daemon->policy, settings->policy, &book, &err) < 0) {
        policy_not_reloaded(daemon, err.text);
        return false;
    }
    if (book == NULL) {
        policy_reload_report(app->policy_reload, NULL, 0);
        return true;
    }
    struct message *message = message_new(MESSAGE_POLICY);
    message->rulebook = book;
    if (queue_put(app->queue, message)) {
        policy_reload_report(app->policy_reload, NULL, 0);
        return true;
    }
    message_abandon(message);
    policy_source_again(&daemon->policy);
    policy_not_reloaded(daemon, "the queue of the writer is full: will be retried");
    return false;
}

/* Restores a setting that needs a restart, so that REST shows the value in force. */
static void keep_setting(struct daemon *daemon, struct settings_set *set, enum setting_id id)
{
    must(id < SETTINGS);

    char was[SETTING_TEXT_MAX];
    char is[SETTING_TEXT_MAX];

    settings_value(daemon->app.set, id, was, sizeof was);
    settings_value(set, id, is, sizeof is);
    if (strcmp(was, is) == 0 || settings_reloadable(id))
        return;
    log_write(LOG_WARN, "a changed setting takes effect only after a restart",
              log_str("setting", settings_name(id)));
    settings_keep(set, daemon->app.set, id);
}

/*
 * The old set is not freed while the daemon runs, because threads read it without a lock; a SIGHUP
 * costs a few KiB. Rules built at the start do not change: see keep_setting().
 */
static void take_settings(struct daemon *daemon, struct settings_set *take_set)
{
    must(take_set != daemon->app.set);

    for (int id = 0; id < SETTINGS; id++)
        keep_setting(daemon, take_set, (enum setting_id)id);
    daemon->reloaded =
        xgrow(daemon->reloaded, daemon->reloads, &daemon->reload_capacity, sizeof(void *));
    daemon->reloaded[daemon->reloads++] = take_set;
    atomic_store(&daemon->app.set, take_set);
    atomic_store(&daemon->app.settings, settings_get(take_set));
    set_log(settings_get(take_set));
}

/* Reloads certificates and policy even if the settings are invalid. */
static void daemon_reload(struct daemon *daemon)
{
    must(daemon->argc >= 0 && daemon->argv != NULL);

    struct settings_set *set;
    enum settings_action action;
    struct err err;

    const bool taken =
        settings_load(daemon->argc, daemon->argv, daemon->envp, &set, &action, &err) >= 0;
    if (taken)
        take_settings(daemon, set);
    else
        log_write(LOG_ERROR, "settings were not reloaded; the old ones stay in use",
                  log_str("error", err.text));
    bool all = reload_policy(daemon);
    for (size_t i = 0; i < ARRAY_LEN(tls_ports); i++)
        all = reload_certificates(daemon, tls_ports[i]) && all;
    if (taken)
        log_plain(LOG_INFO, all ? "settings reloaded"
                                : "settings reloaded, except for what could not be read (above)");
}

/* Detects changed files: kubelet updates a mounted Secret or ConfigMap without a signal. */
static void look_at_files(struct daemon *daemon)
{
    must(daemon->port[WEBHOOK] != NULL);
    for (size_t i = 0; i < ARRAY_LEN(tls_ports); i++)
        if (daemon->port[tls_ports[i]] != NULL && http_files_changed(daemon->port[tls_ports[i]]))
            (void)reload_certificates(daemon, tls_ports[i]);
    if (policy_source_changed(&daemon->policy))
        (void)reload_policy(daemon);
}

/* Returns true if no bind seems to be in flight; a heuristic, because all threads still run. */
static bool daemon_quiet(struct daemon *daemon)
{
    must(daemon->port[0] != NULL);

    return http_pending(daemon->port[0]) == 0 && outbox_open(daemon->app.outbox) == 0 &&
           queue_depth(daemon->app.queue) == 0;
}

static int wait_for_signal(const sigset_t *signals, int64_t wait_ms)
{
    must(wait_ms > 0);

    const struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    return sigtimedwait(signals, NULL, &wait);
}

/*
 * The main thread's loop. Signals are blocked in every thread and fetched here, so there are no
 * signal handlers. While draining, the listeners still answer: binds in flight get their outcome,
 * new ones an error, and /readyz fails.
 */
static void wait_for_end(struct daemon *daemon, const sigset_t *signals)
{
    must(daemon->writer_runs && daemon->informer_runs && daemon->outbox_runs);

    int64_t files_ms = now_of(&daemon->app) + FILE_LOOK_MS;
    int64_t drain_until = 0;

    for (;;) {
        const int signal =
            wait_for_signal(signals, drain_until != 0 ? DRAIN_LOOK_MS : FILE_LOOK_MS);
        if (atomic_load(&daemon->failed))
            return;
        if (now_of(&daemon->app) >= files_ms) {
            look_at_files(daemon);
            files_ms = now_of(&daemon->app) + FILE_LOOK_MS;
        }
        if (signal == SIGHUP) {
            daemon_reload(daemon);
        } else if (signal == SIGTERM || signal == SIGINT) {
            if (drain_until != 0)
                return; /* the second signal */
            log_plain(LOG_INFO, "stopping: waiting for in-flight binds");
            atomic_store(&daemon->app.draining, true);
            drain_until = now_of(&daemon->app) + DRAIN_MS;
        }
        if (drain_until != 0 && (daemon_quiet(daemon) || now_of(&daemon->app) >= drain_until))
            return;
    }
}

static void daemon_join(bool *runs, pthread_t thread)
{
    if (*runs)
        must(pthread_join(thread, NULL) == 0);
    *runs = false;
}

/* Ends all streams, as http_stop() requires, even if the events thread never ran. */
static void stop_events(struct daemon *daemon)
{
    struct events *events = daemon->app.events;

    if (events == NULL)
        return;
    events_stop(events);
    daemon_join(&daemon->events_runs, daemon->events_thread);
    events_main(events);
    must(!daemon->events_runs);
}

/*
 * Idempotent. The queue is closed first, so that blocked producers return. stop_io is set before
 * verifier_stop(), so that no verification begins after the interrupt. The writer ends after its
 * producers, informer and outbox; the verifier last, because a diagnostics bundle may take a while.
 */
static void stop_threads(struct daemon *daemon)
{
    if (daemon->app.queue != NULL)
        queue_close(daemon->app.queue);
    atomic_store(&daemon->stop_io, true);
    verifier_stop(daemon->app.verifier);
    if (daemon->informer_runs)
        daemon->watch_ops.wake(daemon->watch_ops.ctx);
    if (daemon->outbox_runs)
        daemon->call_ops.wake(daemon->call_ops.ctx);
    daemon_join(&daemon->informer_runs, daemon->informer_thread);
    daemon_join(&daemon->outbox_runs, daemon->outbox_thread);
    atomic_store(&daemon->stop_writer, true);
    if (daemon->writer_runs)
        queue_wake(daemon->app.queue);
    daemon_join(&daemon->writer_runs, daemon->writer_thread);
    daemon_join(&daemon->verifier_runs, daemon->verifier_thread);
    stop_events(daemon);
}

static void drop_ops(struct kube_ops *ops)
{
    if (ops->free != NULL)
        ops->free(ops->ctx);
}

/*
 * In reverse order of daemon_start(). http_stop() answers waiting calls with 503; only then are the
 * queue and its messages freed. The store is closed after all its readers, with a checkpoint.
 */
static void daemon_stop(struct daemon *daemon)
{
    must(!daemon->writer_runs || daemon->app.queue != NULL);

    struct app *app = &daemon->app;

    stop_threads(daemon);
    for (size_t i = 0; i < PORTS; i++)
        http_stop(daemon->port[i]);
    reports_free(daemon->reports);
    events_free(STEAL(app->events));
    rights_free(app->rights);
    key_publisher_free(app->key_publisher);
    app_close(app, &daemon->parts);
    drop_ops(&daemon->watch_ops);
    drop_ops(&daemon->call_ops);
    kube_config_free(daemon->config);
    keyring_free(daemon->keyring);
    fake_apiserver_free(app->fake);
    store_close(app->store);
    rulebook_unref(daemon->rulebook);
    policy_source_done(&daemon->policy);
    for (size_t i = 0; i < daemon->reloads; i++)
        settings_free(daemon->reloaded[i]);
    xfree(daemon->reloaded);
}

/*
 * Called before any key or token is read. A failure is logged and does not stop the daemon.
 */
static void keep_memory(const struct settings *settings)
{
    struct err err;

    if (settings->sandbox && sandbox_memory(&err) < 0)
        log_write(LOG_WARN, "other processes of this user can read the memory of milligpud",
                  log_str("error", err.text));
}

/*
 * Called when all files are open and all threads run: from here on the process only answers
 * requests, calls the API server and writes files.
 */
static void keep_calls(const struct daemon *daemon)
{
    struct err err;

    if (daemon->app.settings->sandbox && sandbox_calls(&err) < 0)
        log_write(LOG_WARN, "system calls cannot be limited", log_str("error", err.text));
}

/* Seed of the hash tables, so that users cannot choose keys that collide. */
static uint64_t random_seed(void)
{
    uint64_t seed = 0;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)clock_ns();
    return seed;
}

/*
 * Limits malloc's arenas, because threads free each other's messages and nodes, and every arena
 * keeps its peak size. The fixed mmap threshold returns every large list page to the system (glibc
 * would raise the threshold after the first one).
 */
static void keep_heaps_small(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): there is no other thread yet */
    /* fails harmlessly under a sanitizer's allocator */
    (void)mallopt(M_ARENA_MAX, HEAPS_MAX);
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

int daemon_check(const struct settings_set *set, bool starts, struct err *err)
{
    const struct settings *settings = settings_get(set);
    struct policy_source source = {.quiet = starts};
    const struct rulebook *book = NULL;
    struct err why = {.code = ERR_NONE};

    CLEANUP(strbuf_done) struct strbuf file;

    int rc = starts ? read_policy(set, &source, &book, &why)
                    : policy_source_read(&source, settings->policy, &book, &why);
    rulebook_unref(book);
    policy_source_done(&source);
    strbuf_init(&file);
    if (rc < 0)
        *err = why;
    if (rc == 0 && settings->standalone[0] == '\0') {
        signing_key_file(settings, &file);
        rc = keyring_check(file.data, err);
    }
    return rc;
}

int daemon_run(int argc, char *const *argv, char *const *envp, const struct settings_set *set,
               struct err *err)
{
    keep_heaps_small();

    struct daemon *daemon = xcalloc(1, sizeof *daemon);
    sigset_t signals;

    /* Once, before the first hash table: existing tables become invalid with another seed. */
    text_seed(random_seed());
    daemon->main_thread = pthread_self();
    daemon->argc = argc;
    daemon->argv = argv;
    daemon->envp = envp;
    daemon->app.set = set;
    daemon->app.settings = settings_get(set);
    clock_real(&daemon->app.clock);
    set_log(daemon->app.settings);
    keep_memory(daemon->app.settings);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    /* before any thread is created */
    must(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    must(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    /* a file size limit is handled like a full disk */
    must(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    int rc = daemon_start(daemon, err);
    if (rc == 0) {
        keep_calls(daemon);
        wait_for_end(daemon, &signals);
        stop_threads(daemon);
        /* The thread that wrote err has ended. */
        if (atomic_load(&daemon->failed)) {
            *err = daemon->err;
            rc = -(int)err->code;
        }
    }
    daemon_stop(daemon);
    log_plain(LOG_INFO, "stopped");
    xfree(daemon);
    return rc;
}
