/*
 * bench_verify - what a background verification costs: its time, the writer's part of it, and
 * memory.
 *
 * The ledger is made in one process and verified in another, so that the peak memory is that of the
 * verification.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster.h"
#include "measure.h"

struct verifier {
    char folder[256];
    char path[300];
    uint32_t nodes;
};

static void say_of(const struct verifier *verifier, const char *what, double value,
                   const char *unit)
{
    char name[128];

    (void)snprintf(name, sizeof name, "verification.%u_nodes.%s", verifier->nodes, what);
    say(name, value, unit);
}

static void make(const struct verifier *verifier)
{
    const struct store_rules rules = {.path = verifier->path};
    struct store *store = NULL;
    struct store_ops ops;
    struct err err;

    must(store_open(&rules, &store, &err) == 0);
    store_ops(store, &ops);
    must(ops.begin(ops.ctx, &err) == 0);
    cluster_write_to(&ops);
    struct ledger *ledger = cluster_ledger(verifier->nodes);
    say_of(verifier, "pods", cluster_fill_half(ledger, verifier->nodes), "pods");
    must(ops.commit(ops.ctx, &err) == 0);
    ledger_free(ledger);
    store_close(store);
}

/* VmHWM counts from here on. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "we");

    (void)malloc_trim(0);
    must(file != NULL && fputs("5", file) >= 0 && fclose(file) == 0);
}

static void measure_ledger(const struct verifier *verifier, const struct ledger *ledger)
{
    struct err err;

    const int64_t began = cpu_ns();
    must(ledger_check(ledger, &err) == 0);
    say_of(verifier, "memory_all", (double)(cpu_ns() - began) / 1e6, "ms");
    const int64_t again = cpu_ns();
    must(ledger_check_some(ledger, 0, 128, &err) == 0);
    say_of(verifier, "memory_128_places", (double)(cpu_ns() - again) / 1e6, "ms");
}

static void measure_file(const struct verifier *verifier, struct store *store,
                         const struct snapshot *snapshot)
{
    const double before = (double)process_kib(getpid(), "VmRSS") / 1024;
    struct store_read *look = NULL;
    enum store_check which;
    struct err err;

    forget_peak();
    must(store_read_open(store, &look, &err) == 0);
    const int64_t pin = wall_ns();
    must(store_read_pin(look, &err) == 0);
    say_of(verifier, "writer_waits", (double)(wall_ns() - pin) / 1e3, "us");
    const int64_t file = cpu_ns();
    must(store_read_verify(look, &which, &err) == 0);
    say_of(verifier, "file_cpu", (double)(cpu_ns() - file) / 1e6, "ms");
    const int64_t compare = cpu_ns();
    must(store_read_compare(look, snapshot, &err) == 0);
    say_of(verifier, "compare_cpu", (double)(cpu_ns() - compare) / 1e6, "ms");
    store_read_close(look);
    say_of(verifier, "rss_before", before, "MiB");
    say_of(verifier, "rss_peak", (double)process_kib(getpid(), "VmHWM") / 1024, "MiB");
}

static void measure(const struct verifier *verifier)
{
    const struct store_rules rules = {.path = verifier->path};
    struct ledger *ledger = ledger_new();
    struct store *store = NULL;
    struct store_facts facts;
    struct err err;

    must(store_open(&rules, &store, &err) == 0);
    must(store_load(store, ledger, &err) == 0);
    must(store_facts(store, &facts, &err) == 0);
    say_of(verifier, "journal", (double)facts.journal_rows, "entries");
    say_of(verifier, "file", (double)facts.bytes / (1024 * 1024), "MiB");
    const struct snapshot *snapshot = ledger_publish(ledger, NULL, 0);
    measure_ledger(verifier, ledger);
    measure_file(verifier, store, snapshot);
    snapshot_unref(snapshot);
    ledger_free(ledger);
    store_close(store);
}

static bool in_a_process(void (*run)(const struct verifier *verifier),
                         const struct verifier *verifier)
{
    int status = -1;

    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        run(verifier);
        (void)fflush(stdout);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool bench(const char *below, uint32_t nodes)
{
    struct verifier verifier = {.nodes = nodes};

    folder_make(below, verifier.folder, sizeof verifier.folder);
    (void)snprintf(verifier.path, sizeof verifier.path, "%s/ledger.db", verifier.folder);
    const bool fine = in_a_process(make, &verifier) && in_a_process(measure, &verifier);
    folder_drop(verifier.folder);
    return fine;
}

int main(int argc, char **argv)
{
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    return bench(options.folder, 1000) && (options.quick || bench(options.folder, 15000)) ? 0 : 1;
}
