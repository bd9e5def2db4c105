/* meter - owners of processes, their use of GPUs, and reports or kills above a share. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

#include "agent/common/proc_stat.h"
#include "agent/meter/meter_table.h"
#include "agent/meter/proc_owner.h"
#include "support/patience.h"
#include "support/test.h"
#include "unit/agent/support.h"

#define ID_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID_B "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

/* --- owners of processes --- */

static const struct container_gpu gpu_a = {.name = "GPU-a", .milli = 300, .mib = 1000};
static const struct container_gpu by_index = {.name = "1"};
static const struct container_facts two[] = {
    {ID_A, .uid = "u1", .namespace = "ns", .pod = "web", .name = "main", .n_gpus = 1,
     .gpu = &gpu_a},
    {ID_B, .uid = "u2", .namespace = "ns", .pod = "old", .name = "x", .n_gpus = 1, .gpu = &by_index,
     .right = RIGHT_VARIABLE},
};
static const struct containers_copy both = {
    .is_complete = true, .number = 1, .count = 2, .container = two};

TEST(proc_owner__is_the_container_of_the_cgroup)
{
    static const struct {
        const char *cgroup;
        int32_t owner;
    } row[] = {
        {"0::/kubepods/burstable/pod1/" ID_A "\n", 0},
        {"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID_B ".scope\n", 1},
        {"0::/../../kubepods-pod1.slice/crio-" ID_B ".scope/init.scope\n", 1},
        {"12:cpu,cpuacct:/kubepods/pod1/" ID_A "\n1:name=systemd:/kubepods/pod1/" ID_A "\n", 0},
        {"2:pids:/kubepods/pod1/" ID_A "\n1:cpu:/\n", 0},
        /* Cgroups that a container makes below its own do not hide the owner. */
        {"0::/kubepods/pod1/" ID_A "/" ID_B "\n", 0},
        {"2:pids:/kubepods/pod1/" ID_A "\n1:cpu:/kubepods/pod1/" ID_B "\n", OWNER_DISPUTED},
        {"0::/user.slice/session-1.scope\n", OWNER_NONE},
        {"0::/kubepods/pod1/x" ID_A "\n", OWNER_NONE},
        {"0::/kubepods/pod1/cri-containerd-" ID_A "\n", OWNER_NONE},
        {"0::/kubepods/pod1/" ID_A ".scope2\n", OWNER_NONE},
        {"", OWNER_NONE},
        {"\n:\n::\n0:\n", OWNER_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        if (proc_owner(text_of(row[i].cgroup), &both) != row[i].owner)
            fail_msg("%s", row[i].cgroup);
}

#define STAT_TAIL " -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 "

TEST(proc_stat__reads_parent_and_start_time)
{
    static const char *const bad[] = {"",
                                      "7",
                                      "7 (a",
                                      "7 (a) S",
                                      "7 (a) S 1 7 7 0" STAT_TAIL,
                                      "7 (a) S -1 7 7 0" STAT_TAIL "99 1",
                                      "7 (a) S 4294967296 7 7 0" STAT_TAIL "99 1",
                                      "7 (a) S 1 7 7 0" STAT_TAIL "99999999999999999999 1",
                                      "7 (a) S 1 7 7 0" STAT_TAIL "x 1"};
    struct proc_stat stat;
    assert_true(proc_stat_read(TEXT("7 (a) S 12 7 7 0" STAT_TAIL "99 123 1\n"), &stat));
    assert_int_equal(stat.parent, 12);
    assert_int_equal(stat.began, 99);
    assert_true(proc_stat_read(TEXT("7 (a) S 1 )) R 4294967295 7 7 0" STAT_TAIL "0"), &stat));
    assert_int_equal(stat.parent, 4294967295);
    assert_int_equal(stat.began, 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (proc_stat_read(text_of(bad[i]), &stat))
            fail_msg("%s", bad[i]);
}

/* --- use of GPUs --- */

struct world {
    struct gpu_reading reading;
    struct gpu_process process[8];
    int32_t owner[8];
    struct meter_facts facts;
    struct meter_table table[2];
    int at; /* the table judged last */
};

static int begin(void **state)
{
    struct world *world = test_calloc(1, sizeof *world);
    struct gpu_reading *reading = &world->reading;
    log_set(LOG_ERROR, false);
    reading->status = NVML_READY;
    reading->process = world->process;
    reading->n_gpus = 2;
    for (uint32_t i = 0; i < 2; i++) {
        (void)snprintf(reading->gpu[i].uuid, sizeof reading->gpu[i].uuid, "GPU-%c", 'a' + (int)i);
        reading->gpu[i].known = GPU_KNOWS_PROCESSES;
        reading->gpu[i].index = i;
        reading->gpu[i].minor = (int32_t)i;
    }
    world->facts = (struct meter_facts){.reading = reading,
                                        .containers = &both,
                                        .owner = world->owner,
                                        .sees_host = true,
                                        .policy = METER_KILL,
                                        .grace_ms = 30000,
                                        .wall_ms = 1700000000000};
    meter_table_init(&world->table[0]);
    meter_table_init(&world->table[1]);
    *state = world;
    return 0;
}

static int end(void **state)
{
    struct world *world = *state;
    meter_table_done(&world->table[0]);
    meter_table_done(&world->table[1]);
    test_free(world);
    return 0;
}

#define WORLD_TEST(name) TEST_WITH(name, struct world *world, begin, end)

/* On the first GPU, if no other was used yet. */
static void runs(struct world *world, uint32_t gpu, int32_t owner, uint32_t mib)
{
    struct gpu_state *on = &world->reading.gpu[gpu];
    if (on->processes == 0)
        on->process = world->reading.n_processes;
    world->owner[world->reading.n_processes] = owner;
    world->process[world->reading.n_processes] = (struct gpu_process){
        .pid = 100 + world->reading.n_processes, .mib = mib, .is_known = true, .sm_milli = 100};
    world->reading.n_processes++;
    on->processes++;
}

static void nothing_runs(struct world *world)
{
    world->reading.n_processes = 0;
    world->reading.gpu[0].process = world->reading.gpu[1].process = 0;
    world->reading.gpu[0].processes = world->reading.gpu[1].processes = 0;
}

static const struct meter_table *read_after(struct world *world, int64_t ms)
{
    struct meter_table *before = &world->table[world->at];
    struct meter_table *next = &world->table[1 - world->at];
    world->reading.number += ms > 0 ? 1 : 0; /* 0: only the containers may have changed */
    world->reading.taken_ms += ms;
    meter_table_done(next);
    meter_table_init(next);
    meter_table_check(before, &world->facts, next);
    world->at = 1 - world->at;
    return next;
}

/* The row of container 0 on GPU-a, after one more reading. */
static const struct meter_gpu *gpu_after(struct world *world, int64_t ms)
{
    return &read_after(world, ms)->row[0].cell[0].gpu;
}

WORLD_TEST(use__is_the_sum_of_the_processes)
{
    runs(world, 0, 0, 300);
    runs(world, 0, 0, 400);
    runs(world, 0, 1, 5000);
    runs(world, 1, 1, 50);
    world->process[1].sm_milli = 150;
    const struct meter_table *table = read_after(world, 1);
    const struct meter_gpu *a = &table->row[0].cell[0].gpu;
    assert_string_equal(a->uuid, "GPU-a");
    assert_int_equal(a->granted_milli, 300);
    assert_int_equal(a->granted_mib, 1000);
    assert_int_equal(a->used_mib, 700);
    assert_int_equal(a->used_milli, 250);
    assert_true(a->is_known);
    assert_string_equal(table->row[1].cell[0].gpu.uuid, "GPU-b"); /* by its index */
    assert_int_equal(table->row[1].cell[0].gpu.used_mib, 50);
    assert_int_equal(table->row[1].cell[0].gpu.granted_mib, 0);
    nothing_runs(world);
    table = read_after(world, 1);
    assert_int_equal(table->row[0].cell[0].gpu.used_mib, 0);
    assert_int_equal(table->row[0].cell[0].gpu.used_milli, 0);
    assert_int_equal(table->row[0].cell[0].gpu.peak_mib, 700);
}

static void scaled(struct world *world, bool first, bool second)
{
    world->process[0].is_scaled = first;
    world->process[1].is_scaled = second;
}

/* One process of several is enough. */
WORLD_TEST(use__is_scaled_while_that_of_a_process_is)
{
    static const struct {
        bool is_scaled[2];
        int64_t ms; /* 0: no new reading */
        int64_t scaled_ms;
    } steps[] = {
        {{true, false}, 100, 0}, /* of the time before the first reading nothing is known */
        {{false, false}, 10, 0}, {{false, true}, 20, 20}, {{false, true}, 0, 20},
        {{true, false}, 40, 60}, {{true, true}, 80, 140}, {{false, false}, 160, 140},
    };

    runs(world, 0, 0, 300);
    runs(world, 0, 0, 400);
    runs(world, 1, 1, 50);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        scaled(world, steps[i].is_scaled[0], steps[i].is_scaled[1]);
        const struct meter_table *table = read_after(world, steps[i].ms);
        const struct meter_gpu *a = &table->row[0].cell[0].gpu;
        assert_int_equal(a->is_scaled, steps[i].is_scaled[0] || steps[i].is_scaled[1]);
        assert_int_equal(a->scaled_ms, steps[i].scaled_ms);
        assert_false(table->row[1].cell[0].gpu.is_scaled); /* its neighbour */
        assert_int_equal(table->row[1].cell[0].gpu.scaled_ms, 0);
    }
}

WORLD_TEST(scaled__is_false_for_unknown_use)
{
    runs(world, 0, 0, 300);
    runs(world, 0, 0, 400);
    scaled(world, true, true);
    assert_true(gpu_after(world, 1)->is_scaled);
    for (int unknown = 0; unknown < 2; unknown++) { /* the first is -1, or the second */
        world->process[unknown].sm_milli = -1;
        const struct meter_gpu *a = gpu_after(world, 1);
        assert_int_equal(a->used_milli, -1);
        assert_false(a->is_scaled);
        assert_int_equal(a->scaled_ms, 0);
        world->process[unknown].sm_milli = 100;
    }
    world->reading.gpu[0].known = 0;
    assert_false(gpu_after(world, 1)->is_scaled);
}

WORLD_TEST(use__counts_a_gpu_with_several_names_once)
{
    static const struct container_gpu name[] = {
        {.name = "GPU-b"}, {.name = "/dev/nvidia1"}, {.name = "/dev/nvidia0"}, {.name = "0"}};
    struct container_facts one = two[1];
    one.gpu = name;
    one.n_gpus = ARRAY_LEN(name);
    const struct containers_copy copy = {.is_complete = true, .count = 1, .container = &one};
    world->facts.containers = &copy;
    const struct meter_row *row = read_after(world, 1)->row;
    assert_int_equal(row->n_cells, 2);
    assert_string_equal(row->cell[0].gpu.uuid, "GPU-b");
    assert_string_equal(row->cell[1].gpu.uuid, "GPU-a");
}

WORLD_TEST(use__is_unknown_rather_than_zero)
{
    runs(world, 0, 0, 300);
    runs(world, 0, 0, 0);
    world->process[1].is_known = false;
    world->process[1].sm_milli = -1;
    const struct meter_gpu *a = gpu_after(world, 1);
    assert_false(a->is_known);
    assert_int_equal(a->used_mib, 300); /* at least */
    assert_int_equal(a->used_milli, -1);
    world->reading.gpu[0].known = 0;
    a = gpu_after(world, 1);
    assert_false(a->is_known);
    assert_int_equal(a->used_milli, -1);
    world->reading.gpu[0].known = GPU_KNOWS_PROCESSES;
    world->facts.owner = NULL; /* no processes of the host */
    assert_false(gpu_after(world, 1)->is_known);
    world->facts.owner = world->owner;
    world->reading.status = NVML_SILENT;
    assert_false(gpu_after(world, 1)->is_known);
}

WORLD_TEST(metering__survives_processes_that_end_after_a_reading)
{
    runs(world, 0, 0, 300);
    assert_true(read_after(world, 1)->is_metering);
    world->facts.owner = NULL; /* none of this reading is there any more */
    assert_true(read_after(world, 1)->is_metering);
    assert_true(read_after(world, 0)->is_metering); /* the same reading once more */
    world->facts.owner = world->owner;
    assert_true(read_after(world, 1)->is_metering);
    world->facts.owner = NULL;
    assert_true(read_after(world, 1)->is_metering);
    assert_false(read_after(world, 1)->is_metering); /* the next one has some, and none is there */
    world->facts.owner = world->owner;
    assert_true(read_after(world, 1)->is_metering);
    world->facts.sees_host = false;
    assert_false(read_after(world, 1)->is_metering);
}

WORLD_TEST(use__counts_a_client_in_both_lists_once)
{
    runs(world, 0, 0, 300);
    runs(world, 0, 0, 300);
    world->process[1].pid = world->process[0].pid;
    world->process[1].is_mps = true;
    assert_int_equal(gpu_after(world, 1)->used_mib, 300);
}

static bool is_due(struct world *world, int64_t ms)
{
    return read_after(world, ms)->row[0].cell[0].is_due;
}

WORLD_TEST(over__is_due_after_the_whole_grace)
{
    runs(world, 0, 0, 1001);
    const struct meter_cell *a = &read_after(world, 10000)->row[0].cell[0];
    assert_int_equal(a->gpu.over_since_ms, 1700000000000);
    assert_false(a->gpu.is_over || a->is_due);
    a = &read_after(world, 0)->row[0].cell[0]; /* the same reading is not a second one */
    assert_false(a->gpu.is_over);
    a = &read_after(world, 10000)->row[0].cell[0];
    assert_true(a->gpu.is_over && !a->is_due);
    assert_int_equal(world->table[world->at].row[0].container.over, OVER_SEEN);
    assert_int_equal(world->table[world->at].row[1].container.over, OVER_NOT);
    assert_false(is_due(world, 10000));
    assert_true(is_due(world, 10000));
    assert_false(is_due(world, 0));
    world->process[0].mib = 1000; /* exactly its share */
    a = &read_after(world, 10000)->row[0].cell[0];
    assert_false(a->gpu.is_over || a->is_due);
    assert_int_equal(a->gpu.over_since_ms, 0);
    assert_int_equal(world->table[world->at].row[0].container.over, OVER_NOT);
}

WORLD_TEST(over__restarts_the_grace_after_an_incomplete_reading)
{
    runs(world, 0, 0, 5000);
    runs(world, 1, 1, 5000); /* has no share, so it is not over it */
    (void)read_after(world, 20000);
    (void)read_after(world, 20000);
    world->reading.gpu[0].processes_left_out = 7;
    (void)read_after(world, 20000);
    world->reading.gpu[0].processes_left_out = 0;
    assert_false(is_due(world, 20000));
    assert_false(is_due(world, 20000));
    assert_true(is_due(world, 20000));
    assert_false(world->table[world->at].row[1].cell[0].gpu.is_over);
    world->facts.policy = METER_EVENT;
    assert_false(is_due(world, 20000));
}

static bool is_outside(struct world *world, int64_t ms)
{
    const struct meter_table *table = read_after(world, ms);
    return table->n_strays > 0 && meter_stray_counts(&table->stray[0]);
}

WORLD_TEST(stray__counts_after_ten_seconds)
{
    struct containers_copy part = both;
    runs(world, 1, OWNER_NONE, 10);
    assert_false(is_outside(world, 10000));
    assert_false(is_outside(world, 5000));
    assert_true(is_outside(world, 5000));
    assert_string_equal(world->table[world->at].stray[0].uuid, "GPU-b");
    part.is_complete = false; /* its end was not seen */
    world->facts.containers = &part;
    assert_true(is_outside(world, 5000));
    nothing_runs(world);
    assert_true(is_outside(world, 5000));
    world->facts.containers = &both;
    assert_false(is_outside(world, 10000));
    runs(world, 1, OWNER_NONE, 10);
    world->facts.containers = &part; /* perhaps it is of a container that is not known yet */
    assert_false(is_outside(world, 10000) || is_outside(world, 10000));
    world->facts.containers = &both;
    assert_false(is_outside(world, 5000));
    assert_true(is_outside(world, 10000));
    nothing_runs(world);
    assert_false(is_outside(world, 10000));
    runs(world, 1, OWNER_DISPUTED, 10);
    assert_false(is_outside(world, 10000) || is_outside(world, 10000));
    nothing_runs(world);
    runs(world, 1, OWNER_NONE, 10);
    part.is_complete = true;
    world->facts.containers = &part;
    for (uint32_t right = 0; right < RIGHT_VARIABLE; right++) {
        memset(part.left_out, 0, sizeof part.left_out);
        part.left_out[right] = 1; /* perhaps it is of that container */
        assert_false(is_outside(world, 10000) || is_outside(world, 10000));
    }
    memset(part.left_out, 0, sizeof part.left_out);
    part.left_out[RIGHT_VARIABLE] = 1; /* the GPU was not given to it */
    assert_false(is_outside(world, 10000));
    assert_true(is_outside(world, 10000));
}

/* --- the thread, on a machine of this file --- */

#define GPU "gpu GPU-a NVIDIA_T4 16384\n"

enum { ENDS_SLOWLY_MS = 30 };

struct machine {
    char dir[32];
    struct containers *containers;
    struct nvml *nvml;
    struct meter *meter;
    struct meter_io io;
    pthread_mutex_t lock; /* guards the following */
    bool moved;           /* while its pidfd is open, a PID is another process */
    bool may_not;         /* kill() fails */
    uint32_t opened, opens, killed[8], kills;
    uint32_t closed;   /* the last one; 0: something was read since */
    bool opened_again; /* the last one, and nothing was read since */
    int ends;          /* result of end_client() */
    bool exits;        /* a client whose work is ended is gone before it is killed */
    uint32_t ended[8], all_ended;
};

/*
 * PIDs from 200 are of the container, from 300 the host's. The daemon of MPS is 300, which began at
 * 5; 301 is its server, and 302 its server's child; 303 has the name of one. The parent of 310 is
 * 311, and so on, up to 316, whose parent is the daemon.
 */
static uint32_t parent_of(uint32_t pid)
{
    return pid == 301 || pid == 316  ? 300
           : pid == 302              ? 301
           : pid >= 310 && pid < 316 ? pid + 1
                                     : 1;
}

static void locked(struct machine *machine)
{
    assert_int_equal(pthread_mutex_lock(&machine->lock), 0);
}

static void unlocked(struct machine *machine)
{
    assert_int_equal(pthread_mutex_unlock(&machine->lock), 0);
}

static bool machine_read(void *user, uint32_t pid, const char *file, struct strbuf *out)
{
    struct machine *machine = user;
    locked(machine);
    const bool away = machine->moved && machine->opened == pid;
    machine->closed = 0;
    unlocked(machine);
    if (pid >= 500)
        return false;
    if (strcmp(file, "stat") == 0)
        strbuf_printf(out, "%u (%s) S %u 1 1 0" STAT_TAIL "5 0\n", pid,
                      pid >= 300 && pid <= 303 ? "nvidia-cuda-mps" : "python3", parent_of(pid));
    else
        strbuf_str(out, pid < 300 && !away ? "0::/kubepods/pod1/" ID_A "\n" : "0::/\n");
    return true;
}

static int machine_open(void *user, uint32_t pid)
{
    struct machine *machine = user;
    locked(machine);
    machine->opened_again |= machine->closed == pid;
    machine->opened = pid;
    machine->opens++;
    unlocked(machine);
    return (int)pid;
}

static bool machine_kill(void *user, int pidfd)
{
    struct machine *machine = user;
    locked(machine);
    if (machine->kills < 8)
        machine->killed[machine->kills++] = (uint32_t)pidfd;
    const bool kills = !machine->may_not;
    unlocked(machine);
    return kills;
}

/* Before the kill of the same process, while its pidfd is open. */
static int machine_end(void *user, const char *gpu, uint32_t pid, int64_t wait_ms, struct err *err)
{
    struct machine *machine = user;
    assert_string_equal(gpu, "GPU-a");
    assert_true(wait_ms <= METER_END_MS);
    locked(machine);
    assert_int_equal(machine->opened, pid);
    assert_int_equal(machine->kills, machine->all_ended);
    if (machine->all_ended < 8)
        machine->ended[machine->all_ended++] = pid;
    if (machine->exits)
        machine->moved = true;
    unlocked(machine);
    if (machine->ends == 0)
        return 0;
    const struct timespec slow = {0, ENDS_SLOWLY_MS * 1000000};
    (void)nanosleep(&slow, NULL);
    /* The second client has the rest of the first one's time. */
    assert_true(pid == 200 || wait_ms <= METER_END_MS - ENDS_SLOWLY_MS);
    return err_set(err, ERR_TIMEOUT, "it does not answer");
}

static void machine_close(void *user, int pidfd)
{
    struct machine *machine = user;
    locked(machine);
    assert_int_equal(pidfd, machine->opened);
    machine->opened = 0;
    machine->closed = (uint32_t)pidfd;
    if (machine->exits)
        machine->moved = false;
    unlocked(machine);
}

static int machine_of(void **state, enum grant_mps mps)
{
    struct machine *machine = test_calloc(1, sizeof *machine);
    const struct pod_share share = {.gpu = "GPU-a", .milli = 300, .mib = 1000};
    const struct pod_share *shares[] = {&share};
    const struct grant grant = {.verdict = GRANT_GPUS, .n_shares = 1, .share = shares, .mps = mps};
    const struct nri_pod pod = {.uid = TEXT("u1"), .name = TEXT("web"), .namespace = TEXT("ns")};
    const struct nri_container container = {.id = TEXT(ID_A), .name = TEXT("main")};

    log_set(LOG_ERROR, false);
    folder_make(machine->dir, sizeof machine->dir);
    machine->nvml = driver_open(machine->dir, GPU);
    machine->containers = containers_new();
    containers_begin(machine->containers);
    enum container_right right;
    (void)containers_add(machine->containers, &pod, &container, &grant, &right);
    containers_complete(machine->containers);
    assert_int_equal(pthread_mutex_init(&machine->lock, NULL), 0);
    machine->io = (struct meter_io){.user = machine,
                                    .sees_host = true,
                                    .read = machine_read,
                                    .open = machine_open,
                                    .kill = machine_kill,
                                    .close = machine_close};
    clock_real(&machine->io.clock);
    *state = machine;
    return 0;
}

static int machine_start(void **state)
{
    return machine_of(state, GRANT_MPS_NONE);
}

static int machine_of_a_client(void **state)
{
    return machine_of(state, GRANT_MPS_CLIENT);
}

static int machine_stop(void **state)
{
    struct machine *machine = *state;
    meter_stop(machine->meter);
    nvml_close(machine->nvml);
    containers_free(machine->containers);
    assert_int_equal(pthread_mutex_destroy(&machine->lock), 0);
    folder_remove(machine->dir);
    test_free(machine);
    return 0;
}

#define MACHINE_OF_A_CLIENT_TEST(name)                                                             \
    TEST_WITH(name, struct machine *machine, machine_of_a_client, machine_stop)

#define MACHINE_TEST(name) TEST_WITH(name, struct machine *machine, machine_start, machine_stop)

static void meter(struct machine *machine, enum meter_policy policy)
{
    struct err err;
    const struct meter_rules rules = {.containers = machine->containers,
                                      .user = machine,
                                      .end_client = machine_end,
                                      .nvml = machine->nvml,
                                      .io = &machine->io,
                                      .proc_dir = "/proc",
                                      .policy = policy,
                                      .every_ms = 5};
    machine->meter = meter_start(&rules, &err);
    assert_non_null(machine->meter);
}

typedef bool seen(const struct meter_copy *copy);

static void await(struct machine *machine, seen *is_so)
{
    struct meter_copy copy;
    struct arena arena;
    bool is = false;
    arena_init(&arena);
    for (int64_t until_ms = 0; !is && patience_left(&until_ms);) {
        arena_reset(&arena);
        meter_copy(machine->meter, &arena, &copy);
        is = is_so(&copy);
    }
    arena_done(&arena);
    assert_true(is);
}

static bool is_measured(const struct meter_copy *copy)
{
    return copy->is_metering && copy->is_complete && copy->count == 1 &&
           copy->container[0].gpu[0].used_mib == 500;
}

static bool is_killed(const struct meter_copy *copy)
{
    return copy->count == 1 && copy->container[0].over == OVER_KILLED;
}

static bool is_seen_over(const struct meter_copy *copy)
{
    return copy->can_report && copy->count == 1 && copy->container[0].over == OVER_SEEN;
}

static bool is_blind(const struct meter_copy *copy)
{
    return !copy->is_metering && copy->count == 1 && !copy->container[0].gpu[0].is_known;
}

MACHINE_TEST(meter__kills_only_the_container_over_its_share)
{
    driver_says(machine->dir, GPU "process GPU-a 200 500\nprocess GPU-a 400 9000\n");
    meter(machine, METER_KILL);
    await(machine, is_measured);
    assert_int_equal(machine->kills, 0);
    driver_says(machine->dir,
                GPU "process GPU-a 200 500\nprocess GPU-a 201 600 mps\n"
                    "process GPU-a 300 9\nprocess GPU-a 400 9000\nprocess GPU-a 1 9000\n"
                    "process GPU-a 500 9000\n");
    await(machine, is_killed);
    locked(machine);
    assert_true(machine->kills >= 2);
    for (uint32_t i = 0; i < machine->kills; i++)
        assert_true(machine->killed[i] == 200 || machine->killed[i] == 201);
    assert_int_equal(machine->all_ended, 0); /* it is no client of MPS */
    unlocked(machine);
}

static void clients_are_killed(struct machine *machine)
{
    driver_says(machine->dir, GPU "process GPU-a 200 500 mps\nprocess GPU-a 201 600 mps\n"
                                  "process GPU-a 300 9\n");
    meter(machine, METER_KILL);
    await(machine, is_killed);
    locked(machine);
    assert_true(machine->kills >= 2);
    assert_true(machine->all_ended >= machine->kills);
    for (uint32_t i = 0; i < machine->kills; i++)
        assert_int_equal(machine->ended[i], machine->killed[i]);
    unlocked(machine);
}

MACHINE_OF_A_CLIENT_TEST(meter__ends_the_work_of_a_client_before_the_kill)
{
    const int64_t before = metric_value(COUNT_MPS_CLIENT_ENDED);
    clients_are_killed(machine);
    assert_true(metric_value(COUNT_MPS_CLIENT_ENDED) >= before + 2);
}

MACHINE_OF_A_CLIENT_TEST(meter__counts_a_client_that_exits_as_killed)
{
    machine->may_not = machine->exits = true;
    clients_are_killed(machine);
}

MACHINE_OF_A_CLIENT_TEST(meter__does_not_count_a_client_that_goes_on)
{
    machine->may_not = true;
    driver_says(machine->dir, GPU "process GPU-a 200 5000 mps\n");
    meter(machine, METER_KILL);
    bool ended = false;
    for (int64_t until_ms = 0; !ended && patience_left(&until_ms);) {
        locked(machine);
        ended = machine->all_ended > 1; /* the first one was judged */
        unlocked(machine);
    }
    assert_true(ended);
    await(machine, is_seen_over);
}

MACHINE_OF_A_CLIENT_TEST(meter__kills_a_client_whose_work_cannot_be_ended)
{
    const int64_t ended = metric_value(COUNT_MPS_CLIENT_ENDED);
    const int64_t before = metric_value(COUNT_MPS_CLIENT_UNENDED);
    machine->ends = -1;
    clients_are_killed(machine);
    assert_true(metric_value(COUNT_MPS_CLIENT_UNENDED) >= before + 2);
    assert_int_equal(metric_value(COUNT_MPS_CLIENT_ENDED), ended);
}

/* Each reading reads the owners: a kill without one in between is of the same reading. */
MACHINE_OF_A_CLIENT_TEST(meter__ends_a_client_in_both_lists_once)
{
    driver_says(machine->dir, GPU "process GPU-a 200 5000\nprocess GPU-a 200 5000 mps\n");
    meter(machine, METER_KILL);
    await(machine, is_killed);
    locked(machine);
    assert_true(machine->kills > 0);
    assert_false(machine->opened_again);
    unlocked(machine);
}

MACHINE_TEST(meter__spares_a_reused_pid)
{
    machine->moved = true;
    driver_says(machine->dir, GPU "process GPU-a 200 5000\n");
    meter(machine, METER_KILL);
    await(machine, is_seen_over);
    const struct timespec wait = {0, 200000000};
    (void)nanosleep(&wait, NULL);
    await(machine, is_seen_over);
    locked(machine);
    assert_true(machine->opens > 0);
    assert_int_equal(machine->kills, 0);
    unlocked(machine);
}

static bool is_stray(const struct machine *machine, uint32_t pid, const struct mps_process *daemon)
{
    return proc_owner_outside(&machine->io, pid, daemon, daemon != NULL ? 1 : 0) == OWNER_NONE;
}

MACHINE_TEST(proc_owner__knows_mps_by_its_daemon)
{
    struct mps_process daemon = {300, 5};
    assert_false(is_stray(machine, 300, &daemon));
    assert_false(is_stray(machine, 301, &daemon));
    assert_false(is_stray(machine, 302, &daemon));
    assert_true(is_stray(machine, 303, &daemon));
    assert_false(is_stray(machine, 313, &daemon)); /* four ancestors up */
    assert_true(is_stray(machine, 312, &daemon));
    assert_false(is_stray(machine, 500, &daemon)); /* it has ended */
    assert_true(is_stray(machine, 400, &daemon));
    for (uint32_t pid = 300; pid < 304; pid++)
        assert_true(is_stray(machine, pid, NULL)); /* MPS is off */
    daemon.began = 6;                              /* the PID is another process by now */
    assert_true(is_stray(machine, 300, &daemon));
    assert_true(is_stray(machine, 301, &daemon));
}

MACHINE_TEST(meter__reports_and_spares_by_default)
{
    driver_says(machine->dir, GPU "process GPU-a 200 5000\n");
    meter(machine, METER_EVENT);
    await(machine, is_seen_over);
    assert_int_equal(machine->opens, 0);
}

MACHINE_TEST(meter__claims_nothing_without_host_processes)
{
    struct arena arena;
    const char *const *uuid;
    driver_says(machine->dir, GPU "process GPU-a 500 5000\nprocess GPU-a 501 5000\n");
    meter(machine, METER_KILL);
    await(machine, is_blind);
    arena_init(&arena);
    assert_int_equal(meter_outside(machine->meter, &arena, &uuid), 0);
    assert_int_equal(meter_outside(NULL, &arena, &uuid), 0);
    arena_done(&arena);
    meter_stop(machine->meter);
    machine->io.sees_host = false;
    driver_says(machine->dir, GPU "process GPU-a 200 5000\n");
    meter(machine, METER_KILL);
    await(machine, is_blind);
}
