/* overlap - pods whose shares of a GPU exceed it together. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/grant/overlap.h"
#include "support/test.h"
#include "unit/agent/support.h"

static struct container_facts container[8];
static struct container_gpu gpus[8][2];
static struct containers_copy copy;

static int begin(void **state __attribute__((unused)))
{
    copy = (struct containers_copy){.container = container};
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, begin, NULL)

/* It runs, and its pod had no more of GPU-a so far than this. */
static struct container_facts *add(const char *id, const char *pod, const char *name,
                                   uint32_t milli, uint32_t pod_milli)
{
    const uint32_t at = copy.count++;

    gpus[at][0] = (struct container_gpu){.name = "GPU-a", .milli = milli, .pod_milli = pod_milli};
    container[at] = (struct container_facts){.id = id, .uid = pod, .pod = pod, .name = name};
    container[at].namespace = "shop";
    container[at].right = RIGHT_SHARE;
    container[at].is_running = true;
    container[at].n_gpus = 1;
    container[at].gpu = gpus[at];
    return &container[at];
}

/* It is about to start. */
static struct container_facts *is_new(struct container_facts *facts)
{
    facts->is_running = false;
    return facts;
}

static void has_ended(struct container_facts *facts)
{
    facts->is_running = false;
    facts->has_ended = true;
}

static void allowed(const char *id)
{
    struct err err;
    assert_outcome(overlap_allow(&copy, text_of(id), &err), &err, NULL);
}

static void refused(const char *id, const char *words)
{
    struct err err;
    assert_int_equal(overlap_allow(&copy, text_of(id), &err), -ERR_UNAVAILABLE);
    assert_says(err.text, words);
}

FIXTURE_TEST(overlap__delays_a_successor_until_the_old_pod_ends)
{
    struct container_facts *old = add("1", "old", "main", 600, 600);
    (void)is_new(add("2", "new", "main", 400, 0));
    allowed("2");
    gpus[1][0].milli = 401;
    refused("2", "GPU GPU-a has no 401 milli free for its pod yet; will be retried automatically. "
                 "Other pods still run there with 600 milli (one that was deleted by force runs "
                 "until kubelet has ended its containers): shop/old (600)");
    has_ended(old);
    allowed("2");
    allowed("nobody");
}

FIXTURE_TEST(overlap__counts_a_container_that_is_about_to_start)
{
    (void)is_new(add("1", "first", "main", 600, 0));
    (void)is_new(add("2", "second", "main", 600, 0));
    refused("2", "shop/first (600)");
    refused("1", "shop/second (600)");
}

FIXTURE_TEST(overlap__counts_each_pod_once_with_its_peak)
{
    (void)add("1", "old", "sidecar", 100, 700);
    has_ended(add("2", "old", "main", 600, 700)); /* between two lives */
    (void)is_new(add("3", "new", "main", 301, 0));
    refused("3", "with 700 milli");
    refused("3", "): shop/old (700)");
    gpus[2][0].milli = 300;
    allowed("3");
    (void)add("4", "old", "more", 650, 700); /* more than it had before: one of them is new */
    refused("3", "with 750 milli");
}

/* Nor because of others that came earlier, or later. */
FIXTURE_TEST(overlap__allows_a_restart_while_the_pod_lives)
{
    (void)add("1", "web", "sidecar", 100, 400);
    (void)add("2", "other", "main", 900, 900);
    (void)is_new(add("3", "web", "main", 300, 0));
    allowed("3");
    gpus[0][0].pod_milli = 399; /* it never had as much */
    refused("3", "no 400 milli free");
    gpus[0][0].pod_milli = 400;
    has_ended(&container[0]); /* nothing of it lives: others may have come meanwhile */
    refused("3", "no 300 milli free");
}

FIXTURE_TEST(overlap__ignores_the_container_itself)
{
    struct container_facts *before = add("1", "web", "main", 600, 600); /* not seen to end yet */
    (void)is_new(add("2", "web", "main", 600, 0));
    (void)add("3", "other", "main", 400, 400);
    refused("2", "no 1200 milli");
    before->has_successor = true;
    allowed("2");
    (void)is_new(add("4", "new", "main", 100, 0));
    refused("4", "shop/web (600), shop/other (400)");
}

FIXTURE_TEST(overlap__delays_the_second_container_like_the_first)
{
    (void)add("1", "old", "main", 600, 600);
    (void)add("2", "new", "a", 300, 300);
    (void)is_new(add("3", "new", "b", 300, 0));
    refused("3", "no 600 milli free for its pod");
    has_ended(&container[1]); /* an init container: they take turns */
    allowed("3");
}

/* Whole GPUs are compared elsewhere (holders). */
FIXTURE_TEST(overlap__compares_shares_of_the_same_gpu)
{
    struct container_facts *other = add("1", "other", "main", 900, 900);
    (void)is_new(add("2", "new", "main", 900, 0));
    refused("2", "shop/other (900)");
    gpus[0][0].name = "GPU-b";
    allowed("2");
    gpus[0][1] = (struct container_gpu){.name = "GPU-a", .milli = 101, .pod_milli = 101};
    other->n_gpus = 2;
    refused("2", "with 101 milli");
    other->right = RIGHT_KUBELET;
    allowed("2");
    other->right = RIGHT_SHARE;
    container[1].right = RIGHT_KUBELET;
    allowed("2");
    container[1].right = RIGHT_SHARE;
    gpus[1][1] = (struct container_gpu){.name = "GPU-b", .milli = 101};
    gpus[1][0].name = "GPU-c";
    container[1].n_gpus = 2;
    refused("2", "GPU GPU-b has no 101 milli free");
}

/* Whatever it has by itself is the ledger's business. */
FIXTURE_TEST(overlap__allows_a_pod_alone)
{
    (void)is_new(add("1", "a", "x", 600, 0));
    (void)is_new(add("2", "a", "y", 600, 0));
    allowed("2");
}

FIXTURE_TEST(overlap__refuses_beside_unknown_shares)
{
    struct err err;
    copy.left_out[RIGHT_KUBELET] = copy.left_out[RIGHT_VARIABLE] = 1;
    (void)is_new(add("1", "new", "main", 100, 0));
    allowed("1");
    copy.left_out[RIGHT_SHARE] = 7;
    assert_int_equal(overlap_allow(&copy, TEXT("1"), &err), -ERR_CONFLICT);
    assert_non_null(strstr(err.text, "the node has 7 more containers with shares of GPUs than"));
    (void)add("2", "new", "side", 100, 200); /* its own restart */
    allowed("1");
}

FIXTURE_TEST(overlap__names_at_most_three_pods)
{
    static const char *const pod[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 3; i++)
        (void)add(pod[i], pod[i], "main", 200, 200);
    (void)is_new(add("new", "new", "main", 500, 0));
    refused("new", "with 600 milli (one that was deleted by force runs until kubelet has ended its "
                   "containers): shop/a (200), shop/b (200), shop/c (200)");
    for (size_t i = 3; i < 5; i++)
        (void)add(pod[i], pod[i], "main", 200, 200);
    refused("new", "shop/c (200) and 2 more");
    refused("new", "with 1000 milli");
}
