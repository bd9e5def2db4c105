/* The kind of kube-scheduler's condition PodScheduled, read from its message. */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/facts/condition.h"

#include "support/test.h"

#define OURS             "nvidia.com/vgpu"
#define AVAILABLE(parts) "0/9 nodes are available: " parts "."
#define PREEMPTION                                                                                 \
    " preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling."

static void assert_kind(const char *message, enum condition_kind kind, bool is_explained)
{
    const struct condition condition = condition_read("Unschedulable", message, OURS);

    if (condition.kind != kind)
        fail_msg("%s: %s", message, condition_word(condition.kind));
    if (condition.is_explained != is_explained)
        fail_msg("%s: %d", message, condition.is_explained);
}

/* The message consists of the words of filters. */
static void explained(enum condition_kind kind, const char *nodes)
{
    char message[256];

    (void)snprintf(message, sizeof message, "0/9 nodes are available: %s.", nodes);
    assert_kind(message, kind, true);
}

/* Messages of kube-scheduler 1.31 to 1.37. */
TEST(condition__has_a_kind_for_each_filter)
{
    assert_kind(AVAILABLE("1 node(s) had untolerated taint {nvidia.com/gpu: present}") PREEMPTION,
                CONDITION_TAINT, true);
    explained(CONDITION_TAINT, "9 node(s) had untolerated taint(s)");
    explained(CONDITION_CORDONED, "2 node(s) were unschedulable");
    explained(CONDITION_SELECTOR, "9 node(s) didn't match Pod's node affinity/selector");
    explained(CONDITION_SELECTOR, "9 node(s) didn't match the requested node name");
    explained(CONDITION_SELECTOR, "3 node(s) didn't satisfy plugin(s) selector");
    explained(CONDITION_AFFINITY, "9 node(s) didn't match pod affinity rules");
    explained(CONDITION_AFFINITY, "9 node(s) didn't match pod anti-affinity rules");
    explained(CONDITION_AFFINITY, "1 node(s) didn't satisfy existing pods anti-affinity rules");
    explained(CONDITION_SPREAD, "9 node(s) didn't match pod topology spread constraints");
    explained(CONDITION_VOLUME, "1 node(s) had volume node affinity conflict");
    explained(CONDITION_VOLUME, "pod has unbound immediate PersistentVolumeClaims");
    explained(CONDITION_VOLUME, "9 node(s) exceed max volume count");
    explained(CONDITION_OTHER, "9 cannot allocate all claims, resourceclaim x");
    explained(CONDITION_CLAIM, "waiting for resourceclaim x");
    explained(CONDITION_PORTS, "9 node(s) didn't have free ports for the requested pod ports");
    explained(CONDITION_RESOURCES, "9 Insufficient cpu");
    explained(CONDITION_RESOURCES, "9 Too many pods");
    explained(CONDITION_OTHER, "9 something new");
}

/* The message is the same without a configured extender, so filters do not explain it. */
TEST(condition__of_missing_shares_is_left_to_the_extender)
{
    assert_kind(AVAILABLE("9 Insufficient nvidia.com/vgpu"), CONDITION_SHARES, false);
    assert_kind(AVAILABLE("9 Insufficient nvidia.com/vgpu") PREEMPTION, CONDITION_SHARES, false);
    explained(CONDITION_RESOURCES, "9 Insufficient nvidia.com/vgpus");
    explained(CONDITION_RESOURCES, "9 Insufficient nvidia.com/vgp");
    assert_kind(AVAILABLE("1 Insufficient nvidia.com/vgpu, 8 Insufficient cpu"),
                CONDITION_RESOURCES, false);
    assert_kind("0/1 nodes are available: 1 Insufficient nvidia.com/vgpu", CONDITION_SHARES, false);
}

TEST(condition__is_that_of_most_nodes)
{
    explained(
        CONDITION_CORDONED,
        "1 node(s) had untolerated taint {a: }, 2 Insufficient cpu, 3 node(s) were unschedulable");
    /* The first of the table, of equals. */
    explained(CONDITION_TAINT, "2 Insufficient cpu, 2 node(s) had untolerated taint {a: }");
    explained(CONDITION_TAINT,
              "1 node(s) had untolerated taint {a: }, 1 node(s) had untolerated taint {b: }, "
              "1 Insufficient cpu");
    explained(CONDITION_RESOURCES, "10 Insufficient cpu, 9 node(s) were unschedulable");
    explained(CONDITION_RESOURCES, "2 Insufficient cpu, Too many taints");
    explained(CONDITION_CORDONED, "Insufficient cpu, 2 node(s) were unschedulable");
    /* A count has at most seven digits. */
    explained(CONDITION_RESOURCES, "2 Insufficient cpu, 12345678 node(s) were unschedulable");
    explained(CONDITION_RESOURCES, "1234568 Insufficient cpu, 1234567 node(s) were unschedulable");
    explained(CONDITION_RESOURCES,
              "9 Insufficient cpu, 2 Insufficient memory, 10 node(s) were unschedulable");
    explained(CONDITION_CORDONED,
              "1 Insufficient cpu, 2 Insufficient memory, 3 node(s) were unschedulable");
    explained(CONDITION_RESOURCES, " Insufficient cpu");
    explained(CONDITION_OTHER, "1 Insufficient cpu, x");
    assert_kind("0/9 nodes are available: 2 Insufficient cpu, 9 preemption: none",
                CONDITION_RESOURCES, true);
    explained(CONDITION_RESOURCES, "2 Insufficient cpu, 9");
    explained(CONDITION_RESOURCES, "2 Insufficient cpu, 9/ node(s) were unschedulable");
    explained(CONDITION_RESOURCES, "2 Insufficient cpu, 9: node(s) were unschedulable");
}

TEST(condition__of_another_message_explains_nothing)
{
    assert_kind("running Filter: Post \"http://127.0.0.1:1/filter\": connection refused",
                CONDITION_OTHER, false);
    assert_kind("", CONDITION_OTHER, false);
    assert_kind(NULL, CONDITION_OTHER, false);
    assert_kind("0/9 nodes are available: ", CONDITION_OTHER, true);
    assert_kind("no nodes available to schedule pods", CONDITION_OTHER, true);
    assert_kind("no nodes available to schedule pods!", CONDITION_OTHER, false);
}

TEST(condition__of_a_gate_is_explained)
{
    const struct condition gated = condition_read("SchedulingGated", NULL, OURS);
    const struct condition none = condition_read(NULL, AVAILABLE("9 Insufficient cpu"), OURS);

    assert_int_equal(gated.kind, CONDITION_OTHER);
    assert_true(gated.is_explained);
    assert_int_equal(none.kind, CONDITION_NONE);
    assert_false(none.is_explained);
}

TEST(condition_word__is_unique)
{
    assert_string_equal(condition_word(CONDITION_NONE), "");
    assert_string_equal(condition_word(CONDITION_SHARES), "shares");
    assert_string_equal(condition_word(CONDITION_OTHER), "other");
    for (int a = 0; a < CONDITIONS; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(condition_word((enum condition_kind)a),
                                    condition_word((enum condition_kind)b));
}
