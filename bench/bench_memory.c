/*
 * bench_memory - how much memory the parts of the daemon hold for a large cluster.
 *
 * Heap in use, by the allocator's count, part by part as each is filled, and the whole process at
 * the end. Temporary lists are freed before each measurement.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/spine/view.h"
#include "milligpu/store/store.h"
#include "milligpu/sync/pod_cache.h"

#include "cluster.h"
#include "measure.h"

static double heap_mib(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / (1024 * 1024);
}

struct look {
    double heap;
    uint32_t nodes;
};

/* The growth since the last measurement. */
static void say_part(struct look *look, const char *what)
{
    char name[128];
    const double heap = heap_mib();

    (void)snprintf(name, sizeof name, "memory.%u_nodes.%s", look->nodes, what);
    say(name, heap - look->heap, "MiB");
    look->heap = heap;
}

/* Every bound pod, as the watch delivers it. */
static void fill_pods(struct pod_cache *pods, const struct ledger *ledger)
{
    const struct allocation *allocation;
    struct strbuf json;
    struct strbuf note;
    struct arena arena;
    struct err err;

    strbuf_init(&json);
    strbuf_init(&note);
    arena_init(&arena);
    for (size_t at = 0; (allocation = ledger_next(ledger, &at)) != NULL;) {
        const struct allocation_facts *facts = &allocation->facts;
        char amount[16];
        struct pod pod;

        strbuf_reset(&json);
        strbuf_reset(&note);
        arena_reset(&arena);
        annotation_encode(&note, allocation, ledger_node(ledger, atom_text(facts->node)));
        (void)snprintf(amount, sizeof amount, "%u", allocation_milli(allocation));
        cluster_pod_json(&json, &(struct cluster_pod){.name = facts->name,
                                                      .uid = facts->uid,
                                                      .node = facts->node->text,
                                                      .amount = amount,
                                                      .annotations = {note.data, note.len}});
        must(pod_decode((struct text){json.data, json.len}, &cluster_wire, &arena, &pod, &err) ==
             0);
        pod_cache_put(pods, &pod, &cluster_requests, 1);
    }
    arena_done(&arena);
    strbuf_done(&note);
    strbuf_done(&json);
}

static void measure(uint32_t nodes)
{
    struct look look = {.heap = heap_mib(), .nodes = nodes};
    char name[128];

    struct ledger *ledger = cluster_ledger(nodes);
    say_part(&look, "ledger_nodes");
    const uint32_t count = cluster_fill_half(ledger, nodes);
    say_part(&look, "ledger_allocations");
    struct view *view = view_new();
    view_publish(view, ledger_publish(ledger, NULL, 0));
    say_part(&look, "snapshot");
    struct pod_cache *pods = pod_cache_new();
    fill_pods(pods, ledger);
    say_part(&look, "pods");
    (void)snprintf(name, sizeof name, "memory.%u_nodes.pods_bound", nodes);
    say(name, count, "pods");
    (void)malloc_trim(0);
    (void)snprintf(name, sizeof name, "memory.%u_nodes.process", nodes);
    say(name, (double)process_kib(getpid(), "VmRSS") / 1024, "MiB");
    pod_cache_free(pods);
    view_free(view);
    ledger_free(ledger);
}

int main(int argc, char **argv)
{
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    measure(1000);
    measure(15000);
    return 0;
}
