/*
 * Keeps an MPS daemon running on each GPU, in a thread of its own. The runtime's handlers, the
 * reporter and the meter read its state under the lock, which is never held while it waits for a
 * process.
 */
#include "mps.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/clock.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

#include "mps_clients.h"
#include "mps_daemon.h"

enum {
    LOOK_MS = 1000,
    AGAIN_MS = 1000,
    AGAIN_MAX_MS = 60 * 1000,
    LOOKS_MAX = 3,  /* unanswered queries until a daemon without clients is killed */
    QUIT_MS = 5000, /* time from quit to SIGTERM, and from SIGTERM to SIGKILL */
    ASK_MS = 2000,  /* timeout of one command */
    LABEL_BYTES_MAX = 16,
};

enum state { STATE_DOWN, STATE_STARTING, STATE_UP, STATE_FAULT, STATE_SILENT, STATE_QUITTING };

struct mps_slot {
    /*
     * Unmarked fields are used by the thread only, except daemon.gpu and daemon.pipe, which are
     * constant. Times are monotonic.
     */
    enum state state;       /* guarded by mps.lock */
    char why[ERR_TEXT_MAX]; /* reason of STATE_DOWN or STATE_SILENT, or ""; guarded by mps.lock */
    struct mps_daemon daemon;
    struct mps_daemon asked; /* copy without a process; used by mps_end_client() only */
    struct mps_process runs; /* the daemon's process, pid 0 if none; guarded by mps.lock */
    bool is_wanted;          /* guarded by mps.lock */
    int64_t since_ms;        /* time of the last change of state */
    int64_t next_ms;         /* time of the next start, query or signal */
    int64_t wait_ms;         /* backoff before the next start */
    int signals;             /* number of signals sent in STATE_QUITTING */
    int unanswered;          /* queries since its start, its adoption or its last answer */
    bool is_found;           /* adopted from a previous agent: it can have clients */
};

enum mps_label { LABEL_UNKNOWN, LABEL_OFF, LABEL_ON };

struct mps {
    struct mps_rules rules;
    pthread_t thread;
    int wake; /* eventfd that ends a wait of the thread */
    atomic_bool stop;
    struct mutex lock; /* guards label, is_leaving, slots, and the marked fields of a slot */
    enum mps_label label;
    bool is_leaving;
    uint32_t n_slots;
    struct mps_slot slot[GPUS_PER_NODE_MAX];
};

static void wake(struct mps *mps)
{
    must(eventfd_write(mps->wake, 1) == 0);
}

/* Other threads must hold the lock. */
static struct mps_slot *slot_of(struct mps *mps, const char *gpu)
{
    for (uint32_t i = 0; i < mps->n_slots; i++)
        if (strcmp(mps->slot[i].daemon.gpu, gpu) == 0)
            return &mps->slot[i];
    return NULL;
}

/* --- for the other threads --- */

static int refuse(const struct mps_slot *slot, const char *gpu, struct err *err)
{
    if (slot == NULL)
        return err_set(err, ERR_UNAVAILABLE,
                       "its GPU %.100s has no MPS daemon: the driver shows no such GPU, or only "
                       "in parts (MIG); will be retried automatically",
                       gpu);
    if (slot->state == STATE_FAULT)
        return err_set(err, ERR_UNAVAILABLE,
                       "a client of MPS on its GPU %.100s had a fatal fault, and none is taken "
                       "until all that use this GPU have ended: delete their pods; will be "
                       "retried automatically",
                       gpu);
    if (slot->state == STATE_SILENT)
        return err_set(
            err, ERR_UNAVAILABLE,
            "the MPS daemon of its GPU %.100s does not answer; will be retried automatically", gpu);
    return err_set(
        err, ERR_UNAVAILABLE,
        "the MPS daemon of its GPU %.100s is not up yet%s%.250s; will be retried automatically",
        gpu, slot->why[0] != '\0' ? ": " : "", slot->why);
}

int mps_place(struct mps *mps, const char *gpu, struct mps_place *out, struct err *err)
{
    int rc = 1;

    if (mps == NULL)
        return 0;
    mutex_lock(&mps->lock);
    const struct mps_slot *slot = slot_of(mps, gpu);
    if (mps->label == LABEL_OFF)
        rc = 0;
    else if (mps->label == LABEL_UNKNOWN)
        rc = err_set(err, ERR_UNAVAILABLE,
                     "it is not known yet whether this node has the label " MPS_LABEL
                     "=on: the API server was not reached; will be retried automatically");
    else if (slot == NULL || slot->state != STATE_UP)
        rc = refuse(slot, gpu, err);
    else
        *out = (struct mps_place){slot->daemon.pipe, mps->rules.shm};
    mutex_unlock(&mps->lock);
    return rc;
}

bool mps_totals(struct mps *mps, uint32_t *out_up, uint32_t *out_all)
{
    *out_up = 0;
    *out_all = 0;
    if (mps == NULL)
        return false;
    mutex_lock(&mps->lock);
    const bool on = mps->label == LABEL_ON;
    for (uint32_t i = 0; i < mps->n_slots; i++) {
        *out_all += mps->slot[i].is_wanted;
        *out_up += mps->slot[i].is_wanted && mps->slot[i].state == STATE_UP;
    }
    mutex_unlock(&mps->lock);
    return on;
}

uint32_t mps_daemons(struct mps *mps, struct mps_process out[GPUS_PER_NODE_MAX])
{
    uint32_t count = 0;

    mutex_lock(&mps->lock);
    for (uint32_t i = 0; i < mps->n_slots; i++)
        if (mps->slot[i].runs.pid != 0)
            out[count++] = mps->slot[i].runs;
    mutex_unlock(&mps->lock);
    return count;
}

/*
 * Runs in the caller's thread, since the MPS thread can be waiting for a daemon that hangs. Slots
 * never move, so the pointer stays valid without the lock.
 */
int mps_end_client(struct mps *mps, const char *gpu, uint32_t pid, int64_t wait_ms, struct err *err)
{
    mutex_lock(&mps->lock);
    struct mps_slot *slot = slot_of(mps, gpu);
    const bool answers = slot != NULL && (slot->state == STATE_UP || slot->state == STATE_FAULT);
    mutex_unlock(&mps->lock);
    if (!answers)
        return err_set(err, ERR_UNAVAILABLE, "the MPS daemon of the GPU is not up");
    return mps_client_terminate(&slot->asked, pid, wait_ms, err);
}

void mps_label(struct mps *mps, bool on)
{
    const enum mps_label label = on ? LABEL_ON : LABEL_OFF;
    struct err err;

    mutex_lock(&mps->lock);
    const bool is_new = mps->rules.by_label && mps->label != label;
    if (is_new)
        mps->label = label;
    mutex_unlock(&mps->lock);
    if (!is_new)
        return;
    log_write(LOG_INFO, "MPS, by the label of the node", log_str("is", on ? "on" : "off"));
    if (file_replace(mps->rules.label_file, on ? TEXT("on\n") : TEXT("off\n"), &err) < 0)
        log_write(LOG_WARN, "the label is asked for again after a restart",
                  log_str("why", err.text));
    wake(mps);
}

void mps_leave(struct mps *mps, bool leaves)
{
    mutex_lock(&mps->lock);
    const bool is_new = mps->is_leaving != leaves;
    mps->is_leaving = leaves;
    mutex_unlock(&mps->lock);
    if (is_new)
        wake(mps);
}

/* --- one daemon --- */

/* why: NULL keeps the reason of the former state. */
static void become(struct mps *mps, struct mps_slot *slot, enum state state, const char *why)
{
    mutex_lock(&mps->lock);
    slot->state = state;
    if (why != NULL)
        (void)snprintf(slot->why, sizeof slot->why, "%s", why);
    mutex_unlock(&mps->lock);
    slot->since_ms = clock_ms();
}

static void log_daemon(enum log_level level, const char *what, const struct mps_slot *slot,
                       const char *why)
{
    log_write(level, what, log_str("gpu", slot->daemon.gpu), log_str("why", why));
}

/* Schedules a restart with exponential backoff, which is reset after AGAIN_MAX_MS of uptime. */
static void falls(struct mps *mps, struct mps_slot *slot, const char *why)
{
    const bool held_out = slot->state != STATE_STARTING && slot->state != STATE_DOWN &&
                          clock_ms() - slot->since_ms >= AGAIN_MAX_MS;

    slot->wait_ms = held_out || slot->wait_ms == 0 ? AGAIN_MS : 2 * slot->wait_ms;
    if (slot->wait_ms > AGAIN_MAX_MS)
        slot->wait_ms = AGAIN_MAX_MS;
    if (strcmp(slot->why, why) != 0)
        log_daemon(LOG_WARN, "no MPS daemon", slot, why);
    become(mps, slot, STATE_DOWN, why);
    slot->next_ms = clock_ms() + slot->wait_ms;
}

static void begin(struct mps *mps, struct mps_slot *slot)
{
    struct err err;

    if (mps_daemon_start(&slot->daemon, mps->rules.shm, &err) < 0) {
        falls(mps, slot, err.text);
        return;
    }
    metric_add(COUNT_MPS_STARTS, NULL, 1);
    slot->is_found = false;
    slot->unanswered = 0;
    become(mps, slot, STATE_STARTING, NULL);
    slot->next_ms = clock_ms();
}

/* Sets *out_fault if one of its servers is in the state FAULT. Negative: no answer. */
static int ask_servers(struct mps *mps, struct mps_slot *slot, bool *out_fault, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf list;
    CLEANUP(strbuf_done) struct strbuf answer;
    uint32_t server[MPS_SERVERS_MAX];
    char command[64];

    *out_fault = false;
    strbuf_init(&list);
    strbuf_init(&answer);
    if (mps_daemon_ask(&slot->daemon, mps->wake, ASK_MS, "get_server_list", &list, err) < 0)
        return err_same(err);
    const uint32_t servers = mps_pids_read((struct text){list.data, list.len}, server);
    for (uint32_t i = 0; i < servers; i++) {
        (void)snprintf(command, sizeof command, "get_server_status %u", (unsigned)server[i]);
        strbuf_reset(&answer);
        if (mps_daemon_ask(&slot->daemon, mps->wake, ASK_MS, command, &answer, err) < 0)
            return err_same(err);
        *out_fault = *out_fault || strstr(answer.data, "FAULT") != NULL;
    }
    return 0;
}

/* True also if the clients are unknown. */
static bool has_clients(struct mps *mps, const char *gpu)
{
    CLEANUP(arena_done) struct arena arena;
    struct containers_copy copy;

    arena_init(&arena);
    containers_copy(mps->rules.containers, &arena, &copy);
    if (!copy.is_complete || copy.left_out[RIGHT_SHARE] > 0)
        return true;
    for (uint32_t i = 0; i < copy.count; i++)
        if (copy.container[i].is_mps && strcmp(copy.container[i].gpu[0].name, gpu) == 0)
            return true;
    return false;
}

/* A server recovers when all clients have ended; the daemon of one that does not is killed. */
static void still_faulty(struct mps *mps, struct mps_slot *slot)
{
    if (clock_ms() - slot->since_ms < LOOKS_MAX * mps->rules.ask_ms ||
        has_clients(mps, slot->daemon.gpu))
        return;
    log_daemon(LOG_WARN, "an MPS daemon without clients is ended", slot, "its server takes none");
    mps_daemon_signal(&slot->daemon, SIGKILL);
}

static void answered(struct mps *mps, struct mps_slot *slot, bool fault)
{
    const enum state state = fault ? STATE_FAULT : STATE_UP;

    slot->next_ms = clock_ms() + mps->rules.ask_ms;
    slot->unanswered = 0;
    if (slot->state == state) {
        if (fault)
            still_faulty(mps, slot);
        return;
    }
    if (fault)
        log_daemon(LOG_WARN, "an MPS server takes no clients", slot,
                   "one of its clients had a fatal fault: delete the pods that use this GPU");
    else
        log_daemon(LOG_INFO, "an MPS daemon is up", slot, "it answers");
    become(mps, slot, state, "");
}

/*
 * Kills a daemon without clients after LOOKS_MAX queries and their time; one that can have clients
 * is kept. The time alone proves nothing: on a busy machine, two timeouts can take as long.
 */
static void unanswered(struct mps *mps, struct mps_slot *slot, const char *why)
{
    const bool was_up = slot->state == STATE_UP || slot->state == STATE_FAULT;
    const bool serves =
        (slot->is_found || slot->state == STATE_SILENT) && has_clients(mps, slot->daemon.gpu);

    slot->next_ms = clock_ms() + (slot->state == STATE_STARTING ? AGAIN_MS : mps->rules.ask_ms);
    slot->unanswered++;
    if (!was_up && (slot->unanswered < LOOKS_MAX ||
                    clock_ms() - slot->since_ms < LOOKS_MAX * mps->rules.ask_ms))
        return;
    if (was_up || (serves && slot->state == STATE_STARTING)) {
        log_daemon(LOG_WARN, "an MPS daemon does not answer", slot, why);
        become(mps, slot, STATE_SILENT, why);
    } else if (!serves) {
        log_write(LOG_WARN, "an MPS daemon without clients is ended",
                  log_str("gpu", slot->daemon.gpu), log_str("why", why),
                  log_i64("unanswered", slot->unanswered));
        mps_daemon_signal(&slot->daemon, SIGKILL);
    }
}

static void ask(struct mps *mps, struct mps_slot *slot)
{
    struct err err;
    bool fault;

    const int rc = ask_servers(mps, slot, &fault, &err);
    if (rc == 0) {
        answered(mps, slot, fault);
        return;
    }
    if (err.code == ERR_BUSY)
        slot->next_ms = clock_ms();
    else
        unanswered(mps, slot, err.text);
}

static void quit(struct mps *mps, struct mps_slot *slot)
{
    CLEANUP(strbuf_done) struct strbuf answer;
    struct err err;

    strbuf_init(&answer);
    if (slot->state != STATE_QUITTING) {
        log_daemon(LOG_INFO, "an MPS daemon is told to quit", slot, "it is not needed any more");
        become(mps, slot, STATE_QUITTING, "");
        slot->signals = 0;
        if (mps_daemon_ask(&slot->daemon, mps->wake, ASK_MS, "quit", &answer, &err) < 0)
            log_daemon(LOG_WARN, "an MPS daemon gets a signal next", slot, err.text);
    } else {
        mps_daemon_signal(&slot->daemon, slot->signals == 0 ? SIGTERM : SIGKILL);
        slot->signals++;
    }
    slot->next_ms = clock_ms() + QUIT_MS;
}

static void ended(struct mps *mps, struct mps_slot *slot)
{
    if (slot->state == STATE_QUITTING) {
        log_daemon(LOG_INFO, "an MPS daemon has quit", slot, "it was told to");
        become(mps, slot, STATE_DOWN, "");
        slot->wait_ms = 0;
        slot->next_ms = clock_ms();
        return;
    }
    metric_add(COUNT_MPS_ENDS, NULL, 1);
    falls(mps, slot,
          slot->state == STATE_STARTING ? "it ended before it answered: its log, "
                                          "control.log in --mps-dir, may say why"
                                        : "it ended: clients that ran have lost it");
}

static void show_process(struct mps *mps, struct mps_slot *slot)
{
    mutex_lock(&mps->lock);
    slot->runs = (struct mps_process){(uint32_t)slot->daemon.pid, slot->daemon.began};
    mutex_unlock(&mps->lock);
}

static void slot_turn(struct mps *mps, struct mps_slot *slot)
{
    if (slot->daemon.pidfd >= 0 && mps_daemon_ended(&slot->daemon))
        ended(mps, slot);
    if (clock_ms() < slot->next_ms && slot->is_wanted == (slot->state != STATE_QUITTING))
        return;
    if (slot->daemon.pidfd < 0) {
        if (slot->is_wanted && clock_ms() >= slot->next_ms)
            begin(mps, slot);
    } else if (slot->state == STATE_QUITTING) {
        if (clock_ms() >= slot->next_ms)
            quit(mps, slot);
    } else if (!slot->is_wanted && !has_clients(mps, slot->daemon.gpu))
        quit(mps, slot);
    else if (clock_ms() >= slot->next_ms)
        ask(mps, slot);
}

/* --- all of them --- */

/* Also adopts the daemon of a previous agent, even if MPS is off now. */
static void add_slot(struct mps *mps, const char *gpu)
{
    struct mps_slot slot = {.state = STATE_DOWN};
    struct err err;

    if (mps->n_slots == GPUS_PER_NODE_MAX ||
        mps_daemon_init(&slot.daemon, mps->rules.program, mps->rules.dir, gpu, &err) < 0)
        return; /* mps_start() has checked the length of the folder */
    slot.asked = slot.daemon;
    if (mps_daemon_adopt(&slot.daemon)) {
        slot.state = STATE_STARTING;
        slot.is_found = true;
        slot.since_ms = clock_ms();
        slot.runs = (struct mps_process){(uint32_t)slot.daemon.pid, slot.daemon.began};
        log_daemon(LOG_INFO, "an MPS daemon was found, and is kept", &slot, "it runs");
    }
    mutex_lock(&mps->lock);
    mps->slot[mps->n_slots++] = slot;
    mutex_unlock(&mps->lock);
}

/* The daemon of a lost GPU is kept, but not restarted until the GPU is back. */
static void choose(struct mps *mps)
{
    const struct gpu_reading *reading = nvml_latest(mps->rules.nvml);

    mutex_lock(&mps->lock);
    const enum mps_label label = mps->label;
    const bool leaves = mps->is_leaving;
    mutex_unlock(&mps->lock);
    for (uint32_t i = 0; i < reading->n_gpus; i++) {
        const struct gpu_state *gpu = &reading->gpu[i];
        if (slot_of(mps, gpu->uuid) == NULL)
            add_slot(mps, gpu->uuid);
        struct mps_slot *slot = slot_of(mps, gpu->uuid);
        if (slot == NULL)
            continue;
        const bool runs = slot->daemon.pidfd >= 0;
        const bool on = label == LABEL_ON || (label == LABEL_UNKNOWN && runs);
        mutex_lock(&mps->lock);
        slot->is_wanted = on && !leaves && !gpu->is_mig && (gpu->health != GPU_LOST || runs);
        mutex_unlock(&mps->lock);
    }
    gpu_reading_unref(reading);
}

static void count(struct mps *mps)
{
    int64_t states[3] = {0};

    for (uint32_t i = 0; i < mps->n_slots; i++) {
        const struct mps_slot *slot = &mps->slot[i];
        if (slot->is_wanted || slot->daemon.pidfd >= 0)
            states[slot->state == STATE_UP ? 0 : slot->state == STATE_FAULT ? 1 : 2]++;
    }
    metric_set(COUNT_MPS_UP, NULL, states[0]);
    metric_set(COUNT_MPS_FAULT, NULL, states[1]);
    metric_set(COUNT_MPS_DOWN, NULL, states[2]);
}

/* Waits until a daemon ends, wake() is called, or LOOK_MS have passed. */
static void rest(struct mps *mps)
{
    struct pollfd fds[1 + GPUS_PER_NODE_MAX] = {{.fd = mps->wake, .events = POLLIN}};
    eventfd_t calls;

    for (uint32_t i = 0; i < mps->n_slots; i++)
        fds[1 + i] = (struct pollfd){.fd = mps->slot[i].daemon.pidfd, .events = POLLIN};
    (void)poll(fds, 1 + mps->n_slots, LOOK_MS);
    if (fds[0].revents != 0)
        (void)eventfd_read(mps->wake, &calls);
}

static void *mps_main(void *user)
{
    struct mps *mps = user;

    while (!atomic_load(&mps->stop)) {
        choose(mps);
        for (uint32_t i = 0; i < mps->n_slots && !atomic_load(&mps->stop); i++) {
            slot_turn(mps, &mps->slot[i]);
            show_process(mps, &mps->slot[i]);
        }
        count(mps);
        if (!atomic_load(&mps->stop))
            rest(mps);
    }
    return NULL;
}

/* --- start and stop --- */

/* The last known value of the label, since the API server can be unreachable now. */
static enum mps_label label_of_file(const char *file)
{
    char *bytes = NULL;
    size_t len = 0;
    struct err err;

    if (file_read(file, LABEL_BYTES_MAX, &bytes, &len, &err) < 0)
        return LABEL_UNKNOWN;
    const enum mps_label label = strcmp(bytes, "on\n") == 0    ? LABEL_ON
                                 : strcmp(bytes, "off\n") == 0 ? LABEL_OFF
                                                               : LABEL_UNKNOWN;
    xfree(bytes);
    return label;
}

int mps_start(const struct mps_rules *rules, struct mps **out, struct err *err)
{
    static const char example[] = "GPU-00000000-0000-0000-0000-000000000000";
    struct mps_daemon daemon;

    if (mps_daemon_init(&daemon, rules->program, rules->dir, example, err) < 0)
        return err_same(err);
    struct mps *mps = xcalloc(1, sizeof *mps);
    mps->rules = *rules;
    mps->label = rules->by_label ? label_of_file(rules->label_file) : LABEL_ON;
    mutex_init(&mps->lock);
    mps->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int rc = mps->wake < 0 ? errno : pthread_create(&mps->thread, NULL, mps_main, mps);
    if (rc != 0) {
        if (mps->wake >= 0)
            (void)close(mps->wake);
        mutex_done(&mps->lock);
        xfree(mps);
        return err_set(err, ERR_IO, "no thread for MPS: %s", strerrordesc_np(rc));
    }
    *out = mps;
    return 0;
}

void mps_stop(struct mps *mps)
{
    if (mps == NULL)
        return;
    atomic_store(&mps->stop, true);
    wake(mps);
    must(pthread_join(mps->thread, NULL) == 0);
    for (uint32_t i = 0; i < mps->n_slots; i++)
        mps_daemon_leave(&mps->slot[i].daemon);
    (void)close(mps->wake);
    mutex_done(&mps->lock);
    xfree(mps);
}

int mps_prepare(const char *shm, int64_t mib, struct err *err)
{
    char path[512];
    char options[64];
    struct stat here;
    struct stat above;

    if (snprintf(path, sizeof path, "%s/..", shm) >= (int)sizeof path)
        return err_set(err, ERR_INVALID, "--mps-shm: too long");
    if (file_make_above(path, err) < 0)
        return err_wrap(err, "--mps-shm");
    if (stat(shm, &here) != 0 || stat(path, &above) != 0)
        return err_set(err, ERR_IO, "--mps-shm: %s: %s", shm, strerrordesc_np(errno));
    if (here.st_dev != above.st_dev)
        return 0;
    (void)snprintf(options, sizeof options, "size=%lldm,mode=1777", (long long)mib);
    if (mount("milligpu-mps", shm, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
        return err_set(err, ERR_IO, "--mps-shm: no tmpfs at %s: %s", shm, strerrordesc_np(errno));
    return 0;
}
