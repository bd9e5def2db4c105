/*
 * hostile - objects of support/hostile.h, one per line as JSON, for a real API server to accept.
 *
 *   hostile SEED COUNT pods NAMESPACE NODE   pods h0, h1, ... that ask for 100 each, bound to NODE
 *   hostile SEED COUNT nodes                 nodes h0, h1, ... of 2000 milli
 *   hostile SEED COUNT pod-patches|node-patches
 */
#include "support/hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t below(void *user, uint32_t bound)
{
    uint64_t *state = user;

    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return bound == 0 ? 0 : (uint32_t)(*state >> 33) % bound;
}

static void add_pod(struct strbuf *out, const char *name, char **where,
                    const struct hostile_draw *draw)
{
    static const char *const amount[] = {"100"};
    const struct hostile_pod pod = {
        .namespace = where[0],
        .name = name,
        .node = where[1],
        .resource = "nvidia.com/vgpu",
        .amount = amount,
        .asking = ARRAY_LEN(amount),
    };

    must(where[0][0] != '\0');
    hostile_pod(out, &pod, draw);
}

static void add_node(struct strbuf *out, const char *name, const struct hostile_draw *draw)
{
    const struct hostile_node node = {
        .name = name, .resource = "nvidia.com/vgpu", .amount = "2000"};

    must(name[0] != '\0');
    hostile_node(out, &node, draw);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "hostile SEED COUNT pods|nodes|pod-patches|node-patches ...\n");
        return EXIT_FAILURE;
    }
    uint64_t state = strtoull(argv[1], NULL, 10);
    const unsigned long count = strtoul(argv[2], NULL, 10);
    const char *what = argv[3];
    const struct hostile_draw draw = {&state, below};

    for (unsigned long i = 0; i < count; i++) {
        struct strbuf out;
        char name[32];
        strbuf_init(&out);
        (void)snprintf(name, sizeof name, "h%lu", i);
        if (strcmp(what, "pods") == 0 && argc == 6)
            add_pod(&out, name, argv + 4, &draw);
        else if (strcmp(what, "nodes") == 0)
            add_node(&out, name, &draw);
        else if (strcmp(what, "pod-patches") == 0)
            hostile_pod_patch(&out, &draw);
        else if (strcmp(what, "node-patches") == 0)
            hostile_node_patch(&out, &draw);
        else
            return EXIT_FAILURE;
        (void)puts(out.data);
        strbuf_done(&out);
    }
    return EXIT_SUCCESS;
}
