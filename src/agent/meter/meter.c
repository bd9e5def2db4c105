/*
 * Runs the meter's thread: every every_ms it checks for a new reading or changed containers, and
 * computes a new table. Started and stopped by agent_run(). The lock guards the shown table; /proc
 * is read and processes are killed without it.
 */
#include "meter.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"
#include "milligpu/run/mutex.h"

#include "agent/common/device.h"
#include "meter_table.h"
#include "proc_owner.h"

enum { PROC_BYTES_MAX = 64 * 1024, KEEP_BYTES_MAX = 1024 * 1024 };

struct meter {
    struct meter_rules rules;
    struct meter_io io;
    pthread_t thread;
    struct mutex lock; /* guards the following */
    struct condvar changed;
    bool is_stopping;
    uint64_t number;
    struct meter_table *shown;
    /* Used by the thread only. */
    struct meter_table table[2]; /* one of them is shown */
    struct arena arena;          /* memory of one check */
    struct strbuf text;          /* content of one file */
    uint64_t containers;         /* containers_copy.number at the last check */
    bool has_reported_blind;     /* logged that nothing can be metered */
};

/* --- the machine --- */

static bool proc_read(void *user, uint32_t pid, const char *name, struct strbuf *out)
{
    const struct meter_rules *rules = user;
    char path[512];
    char *bytes;
    size_t len;
    struct err err;

    const int n = snprintf(path, sizeof path, "%s/%u/%s", rules->proc_dir, (unsigned)pid, name);
    if (n < 0 || (size_t)n >= sizeof path ||
        file_read(path, PROC_BYTES_MAX, &bytes, &len, &err) < 0)
        return false;
    strbuf_add(out, bytes, len);
    xfree(bytes);
    return true;
}

/* By syscall(): C libraries got the functions years after the kernel. */
static int proc_open(void *user, uint32_t pid)
{
    (void)user;
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

static bool proc_kill(void *user, int pidfd)
{
    (void)user;
    return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

static void proc_close(void *user, int pidfd)
{
    (void)user;
    (void)close(pidfd);
}

/* PID 1 means a container without hostPID, whose PIDs are not those of NVML. */
static void real_io(struct meter *meter)
{
    meter->io = (struct meter_io){.user = &meter->rules,
                                  .sees_host = getpid() != 1,
                                  .read = proc_read,
                                  .open = proc_open,
                                  .kill = proc_kill,
                                  .close = proc_close};
    clock_real(&meter->io.clock);
}

static bool read_proc(struct meter *meter, uint32_t pid, const char *name, struct text *out)
{
    strbuf_reset(&meter->text);
    if (!meter->io.read(meter->io.user, pid, name, &meter->text))
        return false;
    *out = (struct text){meter->text.data, meter->text.len};
    return true;
}

/* --- whose processes --- */

/* Our MPS control daemons. */
struct daemons {
    uint32_t count;
    struct mps_process process[GPUS_PER_NODE_MAX];
};

/* A process that cannot be read has usually ended, so it does not count as a stray. */
static int32_t owner_of(struct meter *meter, uint32_t pid, const struct containers_copy *containers,
                        const struct daemons *daemons, bool *out_read)
{
    struct text text;

    if (!read_proc(meter, pid, "cgroup", &text))
        return OWNER_DISPUTED;
    *out_read = true;
    const int32_t owner = proc_owner(text, containers);
    return owner != OWNER_NONE
               ? owner
               : proc_owner_outside(&meter->io, pid, daemons->process, daemons->count);
}

/* NULL if no process can be read. */
static const int32_t *find_owners(struct meter *meter, const struct gpu_reading *reading,
                                  const struct containers_copy *containers)
{
    int32_t *owner = arena_array(&meter->arena, reading->n_processes + 1, sizeof *owner);
    bool any_read = reading->n_processes == 0;
    struct daemons daemons = {.count = 0};

    if (!meter->io.sees_host)
        return NULL;
    if (meter->rules.daemons != NULL)
        daemons.count = meter->rules.daemons(meter->rules.user, daemons.process);
    must(daemons.count <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < reading->n_processes; i++)
        owner[i] = owner_of(meter, reading->process[i].pid, containers, &daemons, &any_read);
    return any_read ? owner : NULL;
}

/* --- containers that are over their memory --- */

static void log_over(enum log_level level, const char *what, const struct meter_row *row,
                     const struct meter_gpu *gpu)
{
    log_write(level, what, log_str("namespace", row->container.namespace),
              log_str("pod", row->container.pod), log_str("container", row->container.name),
              log_str("gpu", gpu->uuid), log_i64("used_mib", gpu->used_mib),
              log_i64("granted_mib", gpu->granted_mib));
}

/* Killing the processes of one container on one GPU. */
struct killing {
    const struct meter_facts *facts;
    const char *gpu;
    int32_t owner;
    int64_t until_ms; /* monotonic deadline to end the work of MPS clients */
    uint32_t killed;
    uint32_t unended; /* MPS clients whose work was not ended before the kill */
    struct err why;   /* error of the first of them */
};

/*
 * True if the work of an MPS client was ended. A client that does not end in time is killed
 * anyway, since it uses memory of other pods.
 */
static bool end_work(const struct meter *meter, uint32_t pid, struct killing *killing)
{
    const struct meter_rules *rules = &meter->rules;
    const int64_t left_ms = killing->until_ms - clock_ms();
    struct err err;

    if (rules->end_client == NULL || !killing->facts->containers->container[killing->owner].is_mps)
        return false;
    if (rules->end_client(rules->user, killing->gpu, pid, left_ms > 0 ? left_ms : 0, &err) == 0) {
        metric_add(COUNT_MPS_CLIENT_ENDED, NULL, 1);
        return true;
    }
    metric_add(COUNT_MPS_CLIENT_UNENDED, NULL, 1);
    if (killing->unended++ == 0)
        killing->why = err;
    return false;
}

static bool is_of(struct meter *meter, uint32_t pid, const struct killing *killing)
{
    struct text text;

    return read_proc(meter, pid, "cgroup", &text) &&
           proc_owner(text, killing->facts->containers) == killing->owner;
}

/*
 * PIDs are reused, so the cgroup is read again after the pidfd is open: the process that is killed
 * is the one that was checked.
 */
static void kill_process(struct meter *meter, uint32_t pid, struct killing *killing)
{
    const struct meter_io *io = &meter->io;

    if (pid <= 1 || pid > INT32_MAX || pid == (uint32_t)getpid())
        return;
    const int pidfd = io->open(io->user, pid);
    if (pidfd < 0)
        return;
    if (is_of(meter, pid, killing)) {
        const bool ended = end_work(meter, pid, killing);
        /* A program can exit before the kill because its work was ended. */
        if (io->kill(io->user, pidfd) || (ended && !is_of(meter, pid, killing)))
            killing->killed++;
    }
    io->close(io->user, pidfd);
}

static void kill_over(struct meter *meter, const struct meter_facts *facts, uint32_t place,
                      struct meter_row *row, struct meter_cell *cell)
{
    const struct gpu_state *gpu = device_gpu(facts->reading, cell->gpu.uuid);
    struct killing killing = {.facts = facts,
                              .gpu = cell->gpu.uuid,
                              .owner = (int32_t)place,
                              .until_ms = clock_ms() + METER_END_MS};

    must(facts->owner != NULL && gpu != NULL); /* otherwise it would not be due */
    must(row->container.right == RIGHT_SHARE && cell->gpu.used_mib > cell->gpu.granted_mib);
    for (uint32_t i = gpu->process; i < gpu->process + gpu->processes; i++)
        if (facts->owner[i] == (int32_t)place && !meter_is_repeated(facts->reading, gpu, i))
            kill_process(meter, facts->reading->process[i].pid, &killing);
    cell->readings = 0; /* its next excess gets a new grace period */
    cell->is_due = false;
    if (killing.unended > 0)
        log_write(LOG_WARN,
                  "clients of MPS were killed in the middle of their work: the other clients of "
                  "their GPU may fail",
                  log_str("pod", row->container.pod), log_str("gpu", cell->gpu.uuid),
                  log_i64("clients", killing.unended), log_str("why", killing.why.text));
    if (killing.killed == 0) {
        log_over(LOG_ERROR,
                 "a container uses more of a GPU's memory than its share, and cannot be killed: "
                 "the agent needs hostPID and the capability KILL",
                 row, &cell->gpu);
        return;
    }
    row->container.over = OVER_KILLED;
    metric_add(COUNT_OVER_KILLED, NULL, 1);
    log_over(LOG_WARN, "killed: a container used more of a GPU's memory than its share", row,
             &cell->gpu);
}

/* Reports and kills containers over their memory, before the table is shown. */
static void act(struct meter *meter, const struct meter_facts *facts,
                const struct meter_table *before, struct meter_table *next)
{
    if (next->reading == before->reading)
        return;
    for (uint32_t i = 0; i < next->count; i++) {
        struct meter_row *row = &next->row[i];
        for (uint32_t j = 0; j < row->n_cells; j++) {
            struct meter_cell *cell = &row->cell[j];
            if (cell->readings == METER_READINGS_OVER) {
                metric_add(COUNT_OVER_SEEN, NULL, 1);
                log_over(LOG_WARN, "a container uses more of a GPU's memory than its share", row,
                         &cell->gpu);
            }
            if (cell->is_due)
                kill_over(meter, facts, i, row, cell);
        }
    }
}

/* --- the thread --- */

static void report_metering(struct meter *meter, const struct gpu_reading *reading,
                            const struct meter_table *table)
{
    metric_set(COUNT_METERING, NULL, table->is_metering ? 1 : 0);
    if (reading->status != NVML_READY)
        return; /* the reporter logs the state of the driver */
    if (!table->is_metering && !meter->has_reported_blind)
        log_plain(LOG_WARN, "usage of containers cannot be metered: the processes of the host are "
                            "not seen (set hostPID for the agent, or --meter-s=0)");
    if (table->is_metering && meter->has_reported_blind)
        log_plain(LOG_INFO, "usage of containers is metered again");
    meter->has_reported_blind = !table->is_metering;
}

static void show(struct meter *meter, struct meter_table *table)
{
    mutex_lock(&meter->lock);
    meter->shown = table;
    meter->number++;
    mutex_unlock(&meter->lock);
}

static void look(struct meter *meter)
{
    struct meter_table *before = meter->shown; /* only this thread changes it */
    struct meter_table *next = &meter->table[before == &meter->table[0] ? 1 : 0];
    const struct gpu_reading *reading = nvml_latest(meter->rules.nvml);
    struct containers_copy containers;

    /* Copied after the reading, so that the containers of its processes are in, if they run. */
    arena_trim(&meter->arena, KEEP_BYTES_MAX);
    containers_copy(meter->rules.containers, &meter->arena, &containers);
    if (reading->number != before->reading || containers.number != meter->containers) {
        const struct meter_facts facts = {
            .reading = reading,
            .containers = &containers,
            .owner = find_owners(meter, reading, &containers),
            .sees_host = meter->io.sees_host,
            .policy = meter->rules.policy,
            .grace_ms = meter->rules.grace_ms,
            .wall_ms = meter->io.clock.wall_ms(meter->io.clock.ctx),
        };
        meter_table_done(next);
        meter_table_init(next);
        meter_table_check(before, &facts, next);
        act(meter, &facts, before, next);
        report_metering(meter, reading, next);
        meter->containers = containers.number;
        show(meter, next);
    }
    gpu_reading_unref(reading);
}

static void *meter_main(void *user)
{
    struct meter *meter = user;

    mutex_lock(&meter->lock);
    while (!meter->is_stopping) {
        mutex_unlock(&meter->lock);
        look(meter);
        const struct timespec until = clock_deadline(meter->rules.every_ms);
        mutex_lock(&meter->lock);
        while (!meter->is_stopping && condvar_wait_until(&meter->changed, &meter->lock, &until))
            ;
    }
    mutex_unlock(&meter->lock);
    return NULL;
}

static void meter_free(struct meter *meter)
{
    meter_table_done(&meter->table[0]);
    meter_table_done(&meter->table[1]);
    arena_done(&meter->arena);
    strbuf_done(&meter->text);
    condvar_done(&meter->changed);
    mutex_done(&meter->lock);
    xfree(meter);
}

struct meter *meter_start(const struct meter_rules *rules, struct err *err)
{
    struct meter *meter = xcalloc(1, sizeof *meter);

    must(rules->containers != NULL && rules->nvml != NULL && rules->every_ms > 0);
    meter->rules = *rules;
    real_io(meter);
    if (rules->io != NULL)
        meter->io = *rules->io;
    meter_table_init(&meter->table[0]);
    meter_table_init(&meter->table[1]);
    meter->shown = &meter->table[0];
    arena_init(&meter->arena);
    strbuf_init(&meter->text);
    mutex_init(&meter->lock);
    condvar_init(&meter->changed);
    const int rc = pthread_create(&meter->thread, NULL, meter_main, meter);
    if (rc == 0)
        return meter;
    meter_free(meter);
    (void)err_set(err, ERR_IO, "no thread for the meter: %s", strerrordesc_np(rc));
    return NULL;
}

void meter_stop(struct meter *meter)
{
    if (meter == NULL)
        return;
    mutex_lock(&meter->lock);
    meter->is_stopping = true;
    condvar_signal(&meter->changed);
    mutex_unlock(&meter->lock);
    must(pthread_join(meter->thread, NULL) == 0);
    meter_free(meter);
}

/* --- copies --- */

void meter_copy(struct meter *meter, struct arena *arena, struct meter_copy *out)
{
    *out = (struct meter_copy){0};
    if (meter == NULL)
        return;
    mutex_lock(&meter->lock);
    meter_table_copy(meter->shown, arena, out);
    out->number = meter->number;
    mutex_unlock(&meter->lock);
    out->can_report = meter->rules.policy != METER_REPORT;
}

uint32_t meter_outside(struct meter *meter, struct arena *arena, const char *const **out)
{
    const char **uuid = arena_array(arena, GPUS_PER_NODE_MAX, sizeof *uuid);
    uint32_t count = 0;

    *out = uuid;
    if (meter == NULL)
        return 0;
    mutex_lock(&meter->lock);
    const struct meter_table *table = meter->shown;
    for (uint32_t i = 0; i < table->n_strays; i++)
        if (meter_stray_counts(&table->stray[i]))
            uuid[count++] = arena_copy(arena, text_of(table->stray[i].uuid));
    mutex_unlock(&meter->lock);
    return count;
}
