/* Cost for the writer when a GPU becomes free while pods wait and none of them fits. */
#include <stdio.h>

#include "milligpu/waiting/waiting_pods.h"

#include "measure.h"

/* A node with 8 GPUs, one fewer than the parts that every waiting pod asks for. */
static struct node *freed_node(struct names *names)
{
    struct gpu gpu[8];

    for (uint16_t i = 0; i < ARRAY_LEN(gpu); i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "GPU-%u", i);
        gpu[i] = (struct gpu){.id = names_intern(names, text_of(id)),
                              .model = names_intern(names, TEXT("A100")),
                              .milli = 1000,
                              .mib = 81920,
                              .index = i,
                              .numa = -1};
    }
    const struct node_build build = {.name = names_intern(names, TEXT("n")),
                                     .uid = names_intern(names, TEXT("u")),
                                     .problem_text = names_intern(names, TEXT("")),
                                     .source = SOURCE_ANNOTATION,
                                     .n_gpus = ARRAY_LEN(gpu),
                                     .gpu = gpu};
    return node_new(&build);
}

static void fill(struct waiting_pods *waiting_pods, uint32_t pods, uint32_t kinds)
{
    for (uint32_t i = 0; i < pods; i++) {
        char uid[40];
        struct want want = {
            .container = "c", .kind = CONTAINER_APP, .parts = 9, .milli = 1 + i % kinds};
        const struct request request = {.n_wants = 1, .want = &want};
        const struct asking_pod asking_pod = {
            .uid = uid, .namespace = "default", .name = uid, .request = &request, .wall_ms = 1};
        (void)snprintf(uid, sizeof uid, "%08x-0000-4000-8000-000000000000", i);
        waiting_pods_refused(waiting_pods, &asking_pod, REASON_FEW, "too few");
    }
    must(waiting_pods_count(waiting_pods) == pods);
}

static void measure(const struct node *node, uint32_t pods, uint32_t kinds, uint32_t rounds)
{
    struct waiting_pods *waiting_pods = waiting_pods_new();
    struct series series;
    char name[128];

    fill(waiting_pods, pods, kinds);
    series_init(&series);
    for (uint32_t i = 0; i < rounds; i++) {
        const int64_t begun = cpu_ns();
        must(!waiting_pods_would_fit(waiting_pods, NULL, 1, &node, 1));
        series_add(&series, cpu_ns() - begun);
    }
    (void)snprintf(name, sizeof name, "waiting.%u_pods.%u_kinds.freed_gpu", pods, kinds);
    series_say(&series, name);
    series_done(&series);
    waiting_pods_free(waiting_pods);
}

int main(int argc, char **argv)
{
    struct options options;

    if (!options_read(argc, argv, &options))
        return 2;
    struct names *names = names_new();
    const struct node *node = freed_node(names);
    const uint32_t rounds = options.quick ? 200 : 2000;
    measure(node, 1000, 1, rounds);
    measure(node, WAITING_MAX, 1, rounds);
    measure(node, WAITING_MAX, REQUEST_CLASSES_TRIED_MAX, rounds);
    node_unref(node);
    names_free(names);
    return 0;
}
