/* kube-scheduler's condition of a pod that it refuses, in one word. */
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

/* Messages of kube-scheduler 1.31 to 1.37. */
TEST(each_filter__has_its_word)
{
    assert_kind(AVAILABLE("1 node(s) had untolerated taint {nvidia.com/gpu: present}") PREEMPTION,
                CONDITION_TAINT, true);
    assert_kind(AVAILABLE("9 node(s) had untolerated taint(s)"), CONDITION_TAINT, true);
    assert_kind(AVAILABLE("2 node(s) were unschedulable"), CONDITION_CORDONED, true);
    assert_kind(AVAILABLE("9 node(s) didn't match Pod's node affinity/selector"),
                CONDITION_SELECTOR, true);
    assert_kind(AVAILABLE("9 node(s) didn't match the requested node name"), CONDITION_SELECTOR,
                true);
    assert_kind(AVAILABLE("3 node(s) didn't satisfy plugin(s) selector"), CONDITION_SELECTOR, true);
    assert_kind(AVAILABLE("9 node(s) didn't match pod affinity rules"), CONDITION_AFFINITY, true);
    assert_kind(AVAILABLE("9 node(s) didn't match pod anti-affinity rules"), CONDITION_AFFINITY,
                true);
    assert_kind(AVAILABLE("1 node(s) didn't satisfy existing pods anti-affinity rules"),
                CONDITION_AFFINITY, true);
    assert_kind(AVAILABLE("9 node(s) didn't match pod topology spread constraints"),
                CONDITION_SPREAD, true);
    assert_kind(AVAILABLE("1 node(s) had volume node affinity conflict"), CONDITION_VOLUME, true);
    assert_kind(AVAILABLE("pod has unbound immediate PersistentVolumeClaims"), CONDITION_VOLUME,
                true);
    assert_kind(AVAILABLE("9 node(s) exceed max volume count"), CONDITION_VOLUME, true);
    assert_kind(AVAILABLE("9 cannot allocate all claims, resourceclaim x"), CONDITION_OTHER, true);
    assert_kind(AVAILABLE("waiting for resourceclaim x"), CONDITION_CLAIM, true);
    assert_kind(AVAILABLE("9 node(s) didn't have free ports for the requested pod ports"),
                CONDITION_PORTS, true);
    assert_kind(AVAILABLE("9 Insufficient cpu"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("9 Too many pods"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("9 something new"), CONDITION_OTHER, true);
}

/* An extender that is not configured looks like that: it is no filter that explains it. */
TEST(a_missing_share__is_for_an_extender_to_judge)
{
    assert_kind(AVAILABLE("9 Insufficient nvidia.com/vgpu"), CONDITION_SHARES, false);
    assert_kind(AVAILABLE("9 Insufficient nvidia.com/vgpu") PREEMPTION, CONDITION_SHARES, false);
    assert_kind(AVAILABLE("9 Insufficient nvidia.com/vgpus"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("9 Insufficient nvidia.com/vgp"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("1 Insufficient nvidia.com/vgpu, 8 Insufficient cpu"),
                CONDITION_RESOURCES, false);
    assert_kind("0/1 nodes are available: 1 Insufficient nvidia.com/vgpu", CONDITION_SHARES, false);
}

TEST(the_word__is_that_of_most_nodes)
{
    assert_kind(AVAILABLE("1 node(s) had untolerated taint {a: }, 2 Insufficient cpu, 3 node(s) "
                          "were unschedulable"),
                CONDITION_CORDONED, true);
    assert_kind(AVAILABLE("2 Insufficient cpu, 2 node(s) had untolerated taint {a: }"),
                CONDITION_TAINT, true); /* the first of the table */
    assert_kind(AVAILABLE("1 node(s) had untolerated taint {a: }, 1 node(s) had untolerated taint "
                          "{b: }, 1 Insufficient cpu"),
                CONDITION_TAINT, true);
    assert_kind(AVAILABLE("10 Insufficient cpu, 9 node(s) were unschedulable"), CONDITION_RESOURCES,
                true);
    assert_kind(AVAILABLE("2 Insufficient cpu, Too many taints"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("Insufficient cpu, 2 node(s) were unschedulable"), CONDITION_CORDONED,
                true);
    /* More digits than any cluster has nodes are no count. */
    assert_kind(AVAILABLE("2 Insufficient cpu, 12345678 node(s) were unschedulable"),
                CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("1234568 Insufficient cpu, 1234567 node(s) were unschedulable"),
                CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("9 Insufficient cpu, 2 Insufficient memory, 10 node(s) were "
                          "unschedulable"),
                CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("1 Insufficient cpu, 2 Insufficient memory, 3 node(s) were "
                          "unschedulable"),
                CONDITION_CORDONED, true);
    assert_kind(AVAILABLE(" Insufficient cpu"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("1 Insufficient cpu, x"), CONDITION_OTHER, true);
    assert_kind("0/9 nodes are available: 2 Insufficient cpu, 9 preemption: none",
                CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("2 Insufficient cpu, 9"), CONDITION_RESOURCES, true);
    assert_kind(AVAILABLE("2 Insufficient cpu, 9/ node(s) were unschedulable"), CONDITION_RESOURCES,
                true);
    assert_kind(AVAILABLE("2 Insufficient cpu, 9: node(s) were unschedulable"), CONDITION_RESOURCES,
                true);
}

TEST(other_messages__explain_nothing)
{
    assert_kind("running Filter: Post \"http://127.0.0.1:1/filter\": connection refused",
                CONDITION_OTHER, false);
    assert_kind("", CONDITION_OTHER, false);
    assert_kind(NULL, CONDITION_OTHER, false);
    assert_kind("0/9 nodes are available: ", CONDITION_OTHER, true);
    assert_kind("no nodes available to schedule pods", CONDITION_OTHER, true);
    assert_kind("no nodes available to schedule pods!", CONDITION_OTHER, false);
}

TEST(a_gate__explains_by_its_reason)
{
    const struct condition gated = condition_read("SchedulingGated", NULL, OURS);
    const struct condition none = condition_read(NULL, AVAILABLE("9 Insufficient cpu"), OURS);

    assert_int_equal(gated.kind, CONDITION_OTHER);
    assert_true(gated.is_explained);
    assert_int_equal(none.kind, CONDITION_NONE);
    assert_false(none.is_explained);
}

TEST(every_kind__has_a_word_of_its_own)
{
    assert_string_equal(condition_word(CONDITION_NONE), "");
    assert_string_equal(condition_word(CONDITION_SHARES), "shares");
    assert_string_equal(condition_word(CONDITION_OTHER), "other");
    for (int a = 0; a < CONDITIONS; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(condition_word((enum condition_kind)a),
                                    condition_word((enum condition_kind)b));
}
