/* doctor --nodes - parts that a node lacks, in the order of installation. */
#include <stdio.h>
#include <string.h>

#include "milligpu/core/facts/agents.h"

#include "ctl/commands/doctor_nodes.h"
#include "support/shown.h"
#include "support/test.h"

#define SAYS_POD "\\\"pod\\\":{\\\"uid\\\":\\\"p1\\\"},"

#define MPS(up)                                                                                    \
    "\"milligpu.io/agent\":\"{" SAYS_POD "\\\"version\\\":\\\"0.1.0\\\","                          \
    "\\\"mps\\\":{\\\"gpus\\\":2,\\\"up\\\":" #up "}}\""
#define CDI(cdi)                                                                                   \
    "\"milligpu.io/agent\":\"{" SAYS_POD                                                           \
    "\\\"version\\\":\\\"0.1.0\\\",\\\"driver\\\":\\\"570.1\\\","                                  \
    "\\\"cdi\\\":{" cdi "}}\""
#define AGENT "\"milligpu.io/agent\":\"{" SAYS_POD "\\\"v\\\":1,\\\"version\\\":\\\"0.1.0\\\"}\""
#define GPUS  "\"milligpu.io/gpus\":\"[{\\\"uuid\\\":\\\"GPU-a\\\",\\\"index\\\":0}]\""
#define BAD   "\"milligpu.io/gpus\":\"[{\\\"index\\\":0}]\""

static struct shown shown;

static int set_up(void **state __attribute__((unused)))
{
    shown_begin(&shown, "doctor");
    return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
    shown_end(&shown);
    shown_free(&shown);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

/* A Node with annotations, runtime and allocatable. */
#define ONE_NODE                                                                                   \
    "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"annotations\":{%s},"                           \
    "\"labels\":{\"nvidia.com/gpu.present\":\"true\"}},\"status\":{\"nodeInfo\":{"                 \
    "\"bootID\":\"b1\",\"containerRuntimeVersion\":\"%s\"},\"allocatable\":{%s}}}"

static struct document *node(const char *runtime, const char *annotations, const char *allocatable)
{
    char json[1024];

    (void)snprintf(json, sizeof json, "{\"items\":[" ONE_NODE "]}", annotations, runtime,
                   allocatable);
    return answer(&shown, json);
}

static struct document *pod(const char *name, const char *ready)
{
    char json[512];

    (void)snprintf(json, sizeof json,
                   "{\"items\":[{\"metadata\":{\"uid\":\"p1\"},\"spec\":{\"nodeName\":\"%s\"},"
                   "\"status\":{\"conditions\":["
                   "{\"type\":\"Initialized\",\"status\":\"True\"},"
                   "{\"type\":\"Ready\",\"status\":\"%s\"}]}}]}",
                   name, ready);
    return answer(&shown, json);
}

/* The first word of an instruction. */
static bool is_told_to_do(const char *fix)
{
    static const char *const verbs[] = {"add ",  "copy ", "enable ", "find ", "install ", "keep ",
                                        "look ", "read ", "remove ", "run ",  "update ",  "wait "};

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strncmp(fix, verbs[i], strlen(verbs[i])) == 0)
            return true;
    return false;
}

static void finds(const struct document *nodes, const struct document *pods, const char *status,
                  const char *words)
{
    const struct document *checks = doctor_nodes(nodes, pods, &shown.ctl.arena);
    char text[1024];

    assert_int_equal(checks->count, 1);
    (void)snprintf(text, sizeof text, "%s: %s", document_str(checks->first, "text"),
                   document_str(checks->first, "fix"));
    assert_string_equal(document_str(checks->first, "status"), status);
    const bool is_ok = strcmp(status, "ok") == 0;
    const char *fix = document_str(checks->first, "fix");
    if (is_ok ? fix[0] != '\0' : !is_told_to_do(fix))
        fail_msg("\"%s\" is no instruction", fix);
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

#define VALIDATOR(value)                                                                           \
    "\"milligpu.io/agent\":\"{" SAYS_POD "\\\"version\\\":\\\"0.1.0\\\",\\\"validator\\\":" value  \
    "}\""

static void finds_on(const char *runtime, const char *annotations, const struct document *pods,
                     const char *status, const char *words)
{
    finds(node(runtime, annotations, ""), pods, status, words);
}

#define NEW   "containerd://2.3.7"
#define WHOLE AGENT "," GPUS

FIXTURE_TEST(doctor__names_missing_parts_in_installation_order)
{
    const struct document *none = answer(&shown, "{\"items\":[]}");
    const struct document *ready = pod("n1", "True");

    finds_on("cri-o://1.34", "", none, "failed", "no agent");
    finds_on("cri-o://1.34", AGENT, ready, "failed", "no GPU with a UUID");
    finds_on("cri-o://1.34", WHOLE, ready, "warning", "containerd only");
    finds_on("", WHOLE, ready, "warning", "not known");
    finds_on("containerd://2.1.6", "", none, "failed", "no agent");
    finds_on("containerd://1.6.36", "", none, "failed", "1.6.36 is too old for the agent");
    finds_on("containerd://1.7.29", "", none, "failed", "needs 2.1: update containerd to");
    finds_on("containerd://1.7.30", WHOLE, ready, "failed", "1.7.30 is too old");
    finds_on("containerd://2.0.5", "", ready, "failed", "set agent_nodes to a label");
    finds_on("containerd://2.1.6", WHOLE, ready, "warning", "while it is away");
    finds_on(NEW, "", none, "failed", "install the component node");
    finds_on(NEW, "", pod("n2", "True"), "failed", "no agent");
    finds_on(NEW, AGENT, none, "failed", "its agent is gone");
    finds_on(NEW, AGENT, pod("n1", "False"), "failed", "not Ready");
    finds_on(NEW, "", ready, "failed", "cannot write to the Node");
    finds_on(NEW, AGENT, ready, "failed", "no GPU with a UUID");
    finds_on(NEW, AGENT "," BAD, ready, "failed", "uuid");
    finds(node(NEW, AGENT "," GPUS, "\"nvidia.com/gpu\":\"4\""), ready, "warning",
          "whole GPUs here, too: 4");
    finds(node(NEW, AGENT "," GPUS, "\"nvidia.com/gpu\":\"0\""), ready, "ok",
          "containerd://2.3.7, agent 0.1.0");
    finds_on(NEW, "\"milligpu.io/agent\":\"{" SAYS_POD "\\\"v\\\":1}\"," GPUS, ready, "ok",
             "agent of an unknown version");
    finds_on(NEW, "\"milligpu.io/agent\":\"true\"," GPUS, ready, "warning",
             "does not say which pod it is: update the DaemonSet");
    finds_on(NEW, CDI("\\\"gpus\\\":8,\\\"named\\\":0") "," GPUS, ready, "failed",
             "no CDI specification names 8 of 8 GPUs: no share of them starts: run nvidia-ctk");
    finds(node(NEW,
               CDI("\\\"gpus\\\":8,\\\"named\\\":8,\\\"kind\\\":\\\"nvidia.com/gpu\\\"") "," GPUS,
               ""),
          ready, "ok", "agent 0.1.0, driver 570.1, CDI nvidia.com/gpu, validator not known");
    finds_on(NEW, MPS(1) "," GPUS, ready, "failed", "MPS is up on 1 of 2 GPUs");
    finds_on(NEW, MPS(2) "," GPUS, ready, "ok", "MPS on 2 GPUs");
    finds_on("containerd://3.0.0", WHOLE, ready, "ok", "containerd://3.0.0");
    finds_on(NEW, WHOLE, ready, "ok", "validator not known until a container is made");
    finds_on(NEW, VALIDATOR("true") "," GPUS, ready, "ok", "agent 0.1.0, validator on");
    finds_on(NEW, VALIDATOR("false") "," GPUS, ready, "warning",
             "validator is off: while the agent is away, containers of pods with a share are made "
             "without it: copy manifests/node/milligpu-nri.toml");
}

#define SAYS(members)                                                                              \
    "\"milligpu.io/agent\":\"{\\\"v\\\":1,\\\"version\\\":\\\"0.2.0\\\"," members "}\""
#define CLAIMS(pod, node, boot)                                                                    \
    SAYS("\\\"pod\\\":{\\\"uid\\\":\\\"" pod "\\\",\\\"node\\\":\\\"" node                         \
         "\\\",\\\"boot\\\":\\\"" boot "\\\"}")
#define CLAIMS_MORE(members) SAYS("\\\"pod\\\":{\\\"uid\\\":\\\"p1\\\"}," members)
#define POD(uid, condition)                                                                        \
    "{\"metadata\":{\"uid\":\"" uid "\"},\"spec\":{\"nodeName\":\"n1\"},"                          \
    "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"" condition "\"}]}}"

static void finds_claim(const char *annotation, const char *pods, const char *status,
                        const char *words)
{
    char annotations[512];
    char items[1024];

    (void)snprintf(annotations, sizeof annotations, "%s,%s", annotation, GPUS);
    (void)snprintf(items, sizeof items, "{\"items\":[%s]}", pods);
    finds(node("containerd://2.3.7", annotations, ""), answer(&shown, items), status, words);
}

FIXTURE_TEST(doctor__compares_an_agent_with_its_pod_and_node)
{
    const char *good = CLAIMS("p1", "u", "b1");

    finds_claim(good, POD("p1", "True"), "ok", "agent 0.2.0");
    finds_claim(good, "", "failed", "its agent is gone");
    finds_claim(good, POD("p2", "True"), "failed", "its agent is gone");
    finds_claim(good, POD("p1", "False"), "failed", "not Ready");
    finds_claim(good, POD("p1", "True") "," POD("p2", "True"), "failed", "two pods of agents");
    finds_claim(good, POD("p1", "True") "," POD("p2", "False"), "ok", "agent 0.2.0");
    finds_claim(CLAIMS("p1", "former", "b1"), POD("p1", "True"), "failed", "an earlier Node");
    finds_claim(CLAIMS("p1", "u", "b2"), POD("p1", "True"), "failed", "another boot");
    finds_claim(SAYS("\\\"leaving\\\":\\\"driver-upgrade\\\""), POD("p1", "False"), "warning",
                "told to let go");
    finds_claim(CLAIMS_MORE("\\\"limits\\\":\\\"ok\\\""), POD("p1", "True"), "ok", "agent 0.2.0");
    finds_claim(CLAIMS_MORE("\\\"limits\\\":\\\"absent\\\""), POD("p1", "True"), "ok", "agent");
    finds_claim(CLAIMS_MORE("\\\"limits\\\":\\\"refused\\\""), POD("p1", "True"), "warning",
                "may not set them: add the capability SYS_ADMIN");
    finds_claim(CLAIMS_MORE("\\\"limits\\\":\\\"no_controller\\\""), POD("p1", "True"), "warning",
                "no controller");
    finds_claim(SAYS("\\\"leaving\\\":\\\"uninstalled\\\""), "", "failed", "no agent");
}

#define OTHER_NODE(name, uid) ",{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" uid "\"}}"

/* The node n1 with the annotation of a Node "former", and this Node beside it. */
static void finds_copied(const char *beside, const char *pods, const char *text, const char *fix)
{
    char annotations[512];
    char items[1024];
    char all[1536];

    (void)snprintf(annotations, sizeof annotations, "%s,%s", CLAIMS("p1", "former", "b1"), GPUS);
    (void)snprintf(items, sizeof items, "{\"items\":[%s]}", pods);
    (void)snprintf(all, sizeof all, "{\"items\":[" ONE_NODE "%s]}", annotations,
                   "containerd://2.3.7", "", beside);
    const struct document *checks =
        doctor_nodes(answer(&shown, all), answer(&shown, items), &shown.ctl.arena);
    assert_int_equal(checks->count, 1);
    assert_string_equal(document_str(checks->first, "status"), "failed");
    assert_string_equal(document_str(checks->first, "text"), text);
    assert_string_equal(document_str(checks->first, "fix"), fix);
}

#define NO_AGENT_FIX                                                                               \
    "install the component node (docs/NODE.md), whose agent replaces the annotation; if the node " \
    "is to have no agent, run kubectl annotate node n1 --overwrite "                               \
    "milligpu.io/agent='{\"leaving\":\"uninstalled\"}' milligpu.io/gpus-"
#define COPIED                                                                                     \
    "milligpu.io/agent was copied here from Node a, and says nothing of this node: no new shares"

FIXTURE_TEST(doctor__names_the_node_from_which_annotations_were_copied)
{
    finds_copied(OTHER_NODE("a", "former"), "", COPIED, NO_AGENT_FIX);
    finds_copied(OTHER_NODE("a", "former"), POD("p7", "True"), COPIED,
                 "wait a minute, then run kubectl delete pod -n milligpu-node POD");
    finds_copied(OTHER_NODE("a", "another"), "",
                 "milligpu.io/agent is that of another Node object, and no agent runs here: no new "
                 "shares",
                 NO_AGENT_FIX);
    finds_copied(OTHER_NODE("a", "another"), POD("p7", "True"),
                 "its agent wrote to an earlier Node of this name",
                 "wait a minute, then run kubectl delete pod -n milligpu-node POD");
}

#define NAMED(uid, condition)                                                                      \
    "{\"metadata\":{\"name\":\"agent-" uid "\",\"namespace\":\"agents\",\"uid\":\"" uid "\"},"     \
    "\"spec\":{\"nodeName\":\"n1\"},"                                                              \
    "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"" condition "\"}]}}"

/* One node of each word, as an operator reads it. */
static const struct {
    const char *annotations;
    const char *pods;
    const char *status;
    const char *text;
    const char *fix;
} vouch_row[VOUCHES] = {
    [VOUCH_NONE] = {SAYS("\\\"leaving\\\":\\\"uninstalled\\\"") "," GPUS, "", "failed",
                    "no agent: the node takes no new shares where agents are needed",
                    "install the component node (docs/NODE.md), and label the node "
                    "nvidia.com/gpu.present=true; if it is to have no agent, set agent_nodes to a "
                    "label that it lacks"},
    [VOUCH_GOOD] = {CLAIMS("p1", "u", "b1") "," GPUS, NAMED("p1", "True"), "ok",
                    "containerd://2.3.7, agent 0.2.0, validator not known until a container is "
                    "made",
                    ""},
    [VOUCH_LEAVING] = {SAYS("\\\"leaving\\\":\\\"driver-upgrade\\\"") "," GPUS,
                       NAMED("p1", "False"), "warning",
                       "its agent was told to let go of the GPUs: no new shares",
                       "wait for the end of the driver's upgrade, or run milligpu-node "
                       "--take-driver on the node (docs/NODE.md)"},
    [VOUCH_NO_AGENT] = {GPUS, "", "failed",
                        "no agent: the node takes no new shares where agents are needed",
                        "install the component node (docs/NODE.md), and label the node "
                        "nvidia.com/gpu.present=true; if it is to have no agent, set agent_nodes "
                        "to a label that it lacks"},
    [VOUCH_UNNAMED] = {SAYS("\\\"validator\\\":true") "," GPUS, NAMED("p1", "True"), "warning",
                       "its agent does not say which pod it is",
                       "update the DaemonSet: it sets MILLIGPU_NODE_POD_UID"},
    [VOUCH_GONE] = {CLAIMS("p1", "u", "b1") "," GPUS, NAMED("p2", "True"), "failed",
                    "its agent is gone: no container of a pod with a share is made here",
                    "install the component node again, or run milligpu-node --uninstall "
                    "(docs/NODE.md)"},
    [VOUCH_NOT_READY] = {CLAIMS("p1", "u", "b1") "," GPUS, NAMED("p1", "False"), "failed",
                         "its agent is not Ready: the node takes no new shares",
                         "run kubectl logs -n agents agent-p1, which says what it lacks"},
    [VOUCH_OTHER_NODE] = {CLAIMS("p1", "former", "b1") "," GPUS, NAMED("p1", "True"), "failed",
                          "its agent wrote to an earlier Node of this name",
                          "wait a minute, then run kubectl delete pod -n agents agent-p1"},
    [VOUCH_OTHER_BOOT] =
        {CLAIMS("p1", "u", "b2") "," GPUS, NAMED("p1", "True"), "failed",
         "its agent runs on another boot than kubelet",
         "wait a minute if the machine has just booted; if two machines have this node's name, "
         "give one of them another"},
    [VOUCH_CLONED] = {CLAIMS("p1", "u", "b1") "," GPUS, NAMED("p1", "True") "," NAMED("p2", "True"),
                      "failed", "two pods of agents are Ready here: the node takes no new shares",
                      "remove one of the two DaemonSets"},
    [VOUCH_NO_GPUS] = {CLAIMS("p1", "u", "b1"), NAMED("p1", "True"), "failed",
                       "the Node shows no GPU with a UUID (milligpu.io/gpus)",
                       "run kubectl logs -n agents agent-p1: the agent names GPUs where it has the "
                       "driver's library"},
};

FIXTURE_TEST(doctor__has_a_remedy_for_each_agent_state)
{
    for (int i = 0; i < VOUCHES; i++) {
        char items[1024];
        (void)snprintf(items, sizeof items, "{\"items\":[%s]}", vouch_row[i].pods);
        const struct document *checks =
            doctor_nodes(node("containerd://2.3.7", vouch_row[i].annotations, ""),
                         answer(&shown, items), &shown.ctl.arena);
        assert_string_equal(document_str(checks->first, "status"), vouch_row[i].status);
        assert_string_equal(document_str(checks->first, "text"), vouch_row[i].text);
        assert_string_equal(document_str(checks->first, "fix"), vouch_row[i].fix);
    }
}

FIXTURE_TEST(doctor__reports_limit_states_that_need_a_remedy)
{
    static const char *const word[] = {"differs", "unread", "failed"};
    static const char *const words[] = {"names the container", "cannot be read back: run kubectl",
                                        "cannot be set: run kubectl"};
    char annotation[256];

    for (size_t i = 0; i < ARRAY_LEN(word); i++) {
        (void)snprintf(annotation, sizeof annotation, CLAIMS_MORE("\\\"limits\\\":\\\"%s\\\""),
                       word[i]);
        finds_claim(annotation, POD("p1", "True"), "warning", words[i]);
    }
}

FIXTURE_TEST(doctor__leaves_out_nodes_without_gpus)
{
    const struct document *none = answer(&shown, "{\"items\":[]}");
    const struct document *plain =
        answer(&shown, "{\"items\":[{\"metadata\":{\"name\":\"n1\"},\"status\":{}}]}");

    finds(plain, none, "failed", "no node shows GPUs");
    finds(none, none, "failed", "nvidia.com/gpu.present=true");
}
