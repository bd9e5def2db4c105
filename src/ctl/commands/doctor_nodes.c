/*
 * doctor --nodes: checks each node with GPUs, by its Node object and its agent's pod. Checks are in
 * the order of an installation.
 */
#include "doctor_nodes.h"

#include <string.h>

#include "milligpu/base/annotations.h"
#include "milligpu/core/facts/agents.h"
#include "milligpu/core/facts/inventory.h"
#include "milligpu/wire/kube/wire_kube.h"

#define WHERE     "docs/NODE.md"
#define RUNTIMES  "docs/operate/nodes.md"
#define AGENT_POD "-n milligpu-node POD" /* with_pod() replaces it by the pod */
#define LOGS      "run kubectl logs " AGENT_POD

static const char INVENTORY[] = "milligpu.io/gpus"; /* annotation of a Node */

struct finding {
    const char *status; /* "ok", "warning", "failed" */
    const char *text;
    const char *fix; /* remedy, in the imperative; "" if none */
};

/* The member of an object whose key has dots and slashes. */
static const char *member(const struct document *node, const char *object, const char *key)
{
    const struct document *value = document_get(document_at(node, object), key);

    return value != NULL && value->kind == DOCUMENT_STRING ? value->shown : NULL;
}

static const char *annotation_of(const struct document *node, const char *key)
{
    return member(node, "metadata.annotations", key);
}

/* True for "8", and also for "8k" or "1.5". */
static bool shows_some(const struct document *node, const char *resource)
{
    const char *amount = member(node, "status.allocatable", resource);

    return amount != NULL && strcmp(amount, "0") != 0;
}

static bool has_gpus(const struct document *node)
{
    return annotation_of(node, INVENTORY) != NULL ||
           annotation_of(node, ANNOTATION_AGENT) != NULL ||
           member(node, "metadata.labels", "nvidia.com/gpu.count") != NULL ||
           member(node, "metadata.labels", "nvidia.com/gpu.present") != NULL ||
           shows_some(node, "nvidia.com/vgpu") || shows_some(node, "nvidia.com/gpu");
}

/* Reads "containerd://2.3.7"; false for another runtime. */
static bool containerd_version(const struct document *node, long *out_major, long *out_minor)
{
    static const char prefix[] = "containerd://";
    const char *runtime = document_str(node, "status.nodeInfo.containerRuntimeVersion");
    char *end;

    *out_major = 0;
    *out_minor = 0;
    if (!text_starts(text_of(runtime), prefix))
        return false;
    *out_major = strtol(runtime + strlen(prefix), &end, 10);
    if (*end == '.')
        *out_minor = strtol(end + 1, NULL, 10);
    return true;
}

/* The agent's pod on this node; NULL if none. */
static const struct document *agent_pod(const struct document *pods, const char *node)
{
    document_each (pod, document_get(pods, "items"))
        if (strcmp(document_str(pod, "spec.nodeName"), node) == 0)
            return pod;
    return NULL;
}

/* The fix with namespace and name of this pod; unchanged for NULL. */
static const char *with_pod(const char *fix, const struct document *pod, struct arena *arena)
{
    const char *at = strstr(fix, AGENT_POD);

    if (at == NULL || pod == NULL || document_str(pod, "metadata.name")[0] == '\0')
        return fix;
    return arena_printf(arena, "%.*s-n %s %s%s", (int)(at - fix), fix,
                        document_shown(pod, "metadata.namespace"),
                        document_shown(pod, "metadata.name"), at + strlen(AGENT_POD));
}

static bool is_ready(const struct document *pod)
{
    document_each (condition, document_at(pod, "status.conditions"))
        if (strcmp(document_str(condition, "type"), "Ready") == 0)
            return strcmp(document_str(condition, "status"), "True") == 0;
    return false;
}

static bool check_runtime(const struct document *node, struct arena *arena, struct finding *out)
{
    const char *runtime = document_shown(node, "status.nodeInfo.containerRuntimeVersion");
    long major;
    long minor;

    if (!containerd_version(node, &major, &minor)) {
        *out = (struct finding){
            "warning",
            arena_printf(arena, "%s: the agent was tried with containerd only",
                         runtime[0] != '\0' ? runtime : "its container runtime is not known"),
            "look whether a pod with a share sees its GPU, and tell us (" RUNTIMES ")"};
        return false;
    }
    if (major > 2 || (major == 2 && minor >= 2))
        return true;
    if (major == 2 && minor == 1)
        *out = (struct finding){
            "warning",
            arena_printf(arena, "%s makes containers without the agent while it is away", runtime),
            "update containerd to 2.2 or later"};
    else
        *out = (struct finding){
            "failed", arena_printf(arena, "%s is too old for the agent, which needs 2.1", runtime),
            "update containerd to 2.2 or later; where the GPUs are to be shared without an agent, "
            "set agent_nodes to a label that the node lacks (" RUNTIMES ")"};
    return false;
}

/* The Node as milligpud decodes it; NULL if invalid. */
static struct node_facts *facts_of(const struct document *node, struct arena *arena)
{
    static const struct wire_rules rules = {.resource = "nvidia.com/vgpu",
                                            .whole_resource = "nvidia.com/gpu"};
    CLEANUP(strbuf_done) struct strbuf bytes;
    struct node_facts *facts = arena_alloc(arena, sizeof *facts);
    struct err err;

    strbuf_init(&bytes);
    document_write(&bytes, node);
    const char *copy = arena_copy(arena, (struct text){bytes.data, bytes.len});
    return node_decode(text_of(copy), &rules, arena, facts, &err) == 0 ? facts : NULL;
}

/* Collects all agents' pods once, since there can be thousands. */
static struct agents *see_pods(const struct document *pods)
{
    const struct agents_rules rules = {
        .required = REQUIRE_ALWAYS, .key = TEXT(""), .value = TEXT("")};
    struct agents *agents = agents_new(&rules);

    document_each (pod, document_get(pods, "items")) {
        const bool leaves = document_str(pod, "metadata.deletionTimestamp")[0] != '\0';
        const struct pod facts = {.uid = document_str(pod, "metadata.uid"),
                                  .node = document_str(pod, "spec.nodeName"),
                                  .is_agent = true,
                                  .is_ready = is_ready(pod),
                                  .terminating_ms = leaves};
        if (facts.uid[0] != '\0' && facts.node[0] != '\0')
            (void)agents_see_pod(agents, &facts);
    }
    return agents;
}

static const struct finding vouch_findings[VOUCHES] = {
    [VOUCH_LEAVING] = {"warning", "its agent was told to let go of the GPUs: no new shares",
                       "wait for the end of the driver's upgrade, or run milligpu-node "
                       "--take-driver on the node (" WHERE ")"},
    [VOUCH_NO_AGENT] = {"failed", "no agent: the node takes no new shares where agents are needed",
                        "install the component node (" WHERE
                        "), and label the node nvidia.com/gpu.present=true; if it is to have no "
                        "agent, set agent_nodes to a label that it lacks"},
    [VOUCH_UNNAMED] = {"warning", "its agent does not say which pod it is",
                       "update the DaemonSet: it sets MILLIGPU_NODE_POD_UID"},
    [VOUCH_GONE] = {"failed", "its agent is gone: no container of a pod with a share is made here",
                    "install the component node again, or run milligpu-node --uninstall (" WHERE
                    ")"},
    [VOUCH_NOT_READY] = {"failed", "its agent is not Ready: the node takes no new shares",
                         LOGS ", which says what it lacks"},
    /* explain_other_node() knows more */
    [VOUCH_OTHER_NODE] = {"failed", "its agent wrote to an earlier Node of this name",
                          "wait a minute, then run kubectl delete pod " AGENT_POD},
    [VOUCH_OTHER_BOOT] = {"failed", "its agent runs on another boot than kubelet",
                          "wait a minute if the machine has just booted; if two machines have "
                          "this node's name, give one of them another"},
    [VOUCH_CLONED] = {"failed", "two pods of agents are Ready here: the node takes no new shares",
                      "remove one of the two DaemonSets"},
    [VOUCH_NO_GPUS] = {"failed", "the Node shows no GPU with a UUID (milligpu.io/gpus)",
                       LOGS ": the agent names GPUs where it has the driver's library"},
};

/* All objects of the cluster that a node is compared with. */
struct scene {
    const struct document *nodes;
    const struct document *pods;
    struct agents *agents; /* has seen pods */
    struct arena *arena;
};

/* The name of the Node with this uid; NULL if none. Linear, and asked for few nodes only. */
static const char *name_of(const struct document *nodes, const char *uid)
{
    document_each (node, document_get(nodes, "items"))
        if (strcmp(document_str(node, "metadata.uid"), uid) == 0)
            return document_shown(node, "metadata.name");
    return NULL;
}

/*
 * The annotation of another Node: that of an earlier one of this name, or copied with a manifest.
 * An agent that runs here replaces it within a minute; milligpud goes on waiting for one, also
 * without the annotation, until it reads that the agent was uninstalled.
 */
static void explain_other_node(const struct scene *scene, const struct node_facts *facts,
                               struct finding *out)
{
    const char *from = name_of(scene->nodes, facts->claim.node);

    if (from != NULL)
        out->text = arena_printf(scene->arena,
                                 "milligpu.io/agent was copied here from Node %s, and says nothing "
                                 "of this node: no new shares",
                                 from);
    if (agent_pod(scene->pods, facts->name) != NULL)
        return;
    if (from == NULL)
        out->text = "milligpu.io/agent is that of another Node object, and no agent runs here: no "
                    "new shares";
    out->fix = arena_printf(scene->arena,
                            "install the component node (" WHERE
                            "), whose agent replaces the annotation; if the node "
                            "is to have no agent, run kubectl annotate node %s --overwrite "
                            "milligpu.io/agent='{\"leaving\":\"uninstalled\"}' %s-",
                            facts->name, INVENTORY);
}

/* Judges the agent by milligpud's rules, as if every node needed one. */
static bool check_agent(const struct document *node, const struct node_facts *facts,
                        const struct scene *scene, struct finding *out)
{
    struct agents *agents = scene->agents;
    enum vouch vouch = VOUCH_NONE;

    if (facts != NULL) {
        (void)agents_see_node(agents, facts);
        vouch = agents_check(agents, text_of(facts->name));
    }
    /* GPUs are checked later, in check_inventory(). */
    if (vouch == VOUCH_NO_GPUS)
        vouch = facts->claim.pod != NULL ? VOUCH_GOOD : VOUCH_NONE;
    *out = vouch_findings[vouch];
    if (vouch == VOUCH_OTHER_NODE)
        explain_other_node(scene, facts, out);
    if (vouch != VOUCH_NONE && vouch != VOUCH_NO_AGENT)
        return vouch == VOUCH_GOOD;
    /* The claim names no pod: the agent is an older version, or runs outside of pods. */
    const struct document *pod = agent_pod(scene->pods, document_str(node, "metadata.name"));
    if (vouch == VOUCH_NONE && pod != NULL && !is_ready(pod))
        *out = vouch_findings[VOUCH_NOT_READY];
    else if (vouch == VOUCH_NONE && pod == NULL)
        *out = vouch_findings[facts != NULL && agent_is_uninstalled(facts) ? VOUCH_NO_AGENT
                                                                           : VOUCH_GONE];
    else if (vouch == VOUCH_NO_AGENT && pod != NULL)
        *out = (struct finding){"failed", "its agent cannot write to the Node",
                                LOGS ", which says why"};
    return out->text == NULL;
}

/* milligpud closes the node for this only if a pod vouched before, which is not known here. */
static bool check_name(const struct node_facts *facts, const struct document *pod,
                       struct finding *out)
{
    if (pod == NULL || facts->claim.pod != NULL)
        return true;
    *out = vouch_findings[VOUCH_UNNAMED];
    return false;
}

/* GPUs with ids made from indexes have no device. */
static bool check_inventory(const struct node_facts *facts, struct finding *out)
{
    if (facts != NULL && facts->has_gpus && facts->n_gpus > 0)
        return true;
    *out = vouch_findings[VOUCH_NO_GPUS];
    if (facts == NULL)
        out->text = "its Node cannot be read";
    else if (facts->gpus_error != NULL)
        out->text = facts->gpus_error;
    return false;
}

static bool check_neighbor(const struct document *node, struct arena *arena, struct finding *out)
{
    if (!shows_some(node, "nvidia.com/gpu"))
        return true;
    *out = (struct finding){
        "warning",
        arena_printf(arena, "NVIDIA's device plugin hands out whole GPUs here, too: %s",
                     member(node, "status.allocatable", "nvidia.com/gpu")),
        "keep whole GPUs and shares on different nodes: the plugin may choose a GPU that has "
        "shares, and that pod is not created"};
    return false;
}

/* The agent's annotation, whose form depends on its version; NULL if absent or invalid. */
static const struct document *agent_words(const struct document *node, struct arena *arena)
{
    struct document *agent;
    struct err err;
    const char *text = annotation_of(node, ANNOTATION_AGENT);

    return text != NULL &&
                   document_parse_json(text_of(text), ANNOTATION_AGENT, arena, &agent, &err) == 0
               ? agent
               : NULL;
}

static const char *agent_version(const struct document *agent)
{
    return agent != NULL && document_shown(agent, "version")[0] != '\0'
               ? document_shown(agent, "version")
               : "of an unknown version";
}

/* ", driver 570.124.06, CDI nvidia.com/gpu" */
static const char *driver_shown(const struct document *agent, struct arena *arena)
{
    const char *driver = document_shown(agent, "driver");
    const char *kind = document_shown(agent, "cdi.kind");

    return arena_printf(arena, "%s%s%s%s", driver[0] != '\0' ? ", driver " : "", driver,
                        kind[0] != '\0' ? ", CDI " : "", kind);
}

static bool check_cdi(const struct document *agent, struct arena *arena, struct finding *out)
{
    const struct document *cdi = document_get(agent, "cdi");
    const int64_t gpus = cdi != NULL ? document_int(cdi, "gpus") : 0;
    const int64_t named = cdi != NULL ? document_int(cdi, "named") : 0;

    if (named == gpus)
        return true;
    *out = (struct finding){
        "failed",
        arena_printf(arena, "no CDI specification names %lld of %lld GPUs: no share of them starts",
                     (long long)(gpus - named), (long long)gpus),
        "run nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml on the node, or set the "
        "agent's --driver-root (" WHERE ")"};
    return false;
}

/* ", MPS on 8 GPUs" */
static const char *mps_shown(const struct document *agent, struct arena *arena)
{
    const struct document *mps = document_get(agent, "mps");

    if (mps == NULL)
        return "";
    return arena_printf(arena, ", MPS on %lld GPUs", (long long)document_int(mps, "gpus"));
}

static bool check_mps(const struct document *agent, struct arena *arena, struct finding *out)
{
    const struct document *mps = document_get(agent, "mps");
    const int64_t gpus = mps != NULL ? document_int(mps, "gpus") : 0;
    const int64_t up = mps != NULL ? document_int(mps, "up") : 0;

    if (up == gpus)
        return true;
    *out = (struct finding){
        "failed",
        arena_printf(arena, "MPS is up on %lld of %lld GPUs: no share of the others starts",
                     (long long)up, (long long)gpus),
        LOGS ", which says why (" WHERE ")"};
    return false;
}

/* True also if unknown, because no container was created since the agent connected. */
static bool check_validator(const struct document *agent, struct finding *out)
{
    if (agent == NULL || document_get(agent, "validator") == NULL ||
        document_true(agent, "validator"))
        return true;
    *out = (struct finding){
        "warning",
        "the runtime's validator is off: while the agent is away, containers of pods with a share "
        "are made without it",
        "copy manifests/node/milligpu-nri.toml into /etc/containerd/conf.d/, then restart "
        "containerd"};
    return false;
}

/* Checks the words of src/agent/reporter.h; words that are not listed need no action. */
static bool check_limits(const struct document *agent, struct finding *out)
{
    static const struct {
        const char *word;
        const char *text;
        const char *fix;
    } rows[] = {
        {"refused", "the driver has limits of GPU memory, and the agent may not set them",
         "add the capability SYS_ADMIN to the agent, or set --memory-limit=off (" WHERE ")"},
        {"no_controller", "the cgroups have no controller for limits of GPU memory",
         "enable dmem (or misc) in the parents of the pods' cgroups, or set --memory-limit=off"},
        {"differs", "another limit of GPU memory is in force than the agent set",
         "find out who else sets limits there; " LOGS ", which names the container"},
        {"unread", "limits of GPU memory cannot be read back", LOGS ", which says why"},
        {"failed", "limits of GPU memory cannot be set", LOGS ", which says why"},
    };
    const char *word = agent != NULL ? document_str(agent, "limits") : "";

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(word, rows[i].word) == 0) {
            *out = (struct finding){"warning", rows[i].text, rows[i].fix};
            return false;
        }
    return true;
}

static const char *validator_words(const struct document *agent)
{
    return agent != NULL && document_get(agent, "validator") != NULL
               ? ", validator on"
               : ", validator not known until a container is made";
}

static void judge_node(const struct document *node, const struct scene *scene,
                       struct document *checks)
{
    struct arena *arena = scene->arena;
    const struct document *agent = agent_words(node, arena);
    const struct node_facts *facts = facts_of(node, arena);
    const struct document *pod = agent_pod(scene->pods, document_str(node, "metadata.name"));
    struct document *check = document_new(arena, DOCUMENT_OBJECT);
    struct finding runtime = {.status = "ok"};
    struct finding finding;

    const bool was_tried = check_runtime(node, arena, &runtime);
    const bool can = was_tried || strcmp(runtime.status, "failed") != 0;
    const bool has_all = can && check_agent(node, facts, scene, &finding) &&
                         check_inventory(facts, &finding) && check_cdi(agent, arena, &finding) &&
                         check_mps(agent, arena, &finding);
    if (!can || (has_all && !was_tried))
        finding = runtime;
    else if (has_all && check_name(facts, pod, &finding) && check_validator(agent, &finding) &&
             check_limits(agent, &finding) && check_neighbor(node, arena, &finding))
        finding = (struct finding){
            "ok",
            arena_printf(arena, "%s, agent %s%s%s%s",
                         document_shown(node, "status.nodeInfo.containerRuntimeVersion"),
                         agent_version(agent), driver_shown(agent, arena), mps_shown(agent, arena),
                         validator_words(agent)),
            ""};
    document_set_str(arena, check, "name", document_shown(node, "metadata.name"));
    document_set_str(arena, check, "status", finding.status);
    document_set_str(arena, check, "text", finding.text);
    document_set_str(arena, check, "fix", with_pod(finding.fix, pod, arena));
    document_append(checks, check);
}

struct document *doctor_nodes(const struct document *nodes, const struct document *pods,
                              struct arena *arena)
{
    struct document *checks = document_new(arena, DOCUMENT_ARRAY);
    const struct scene scene = {nodes, pods, see_pods(pods), arena};

    document_each (node, document_get(nodes, "items"))
        if (has_gpus(node))
            judge_node(node, &scene, checks);
    agents_free(scene.agents);
    if (checks->count > 0)
        return checks;
    struct document *check = document_new(arena, DOCUMENT_OBJECT);
    document_set_str(arena, check, "name", "nodes");
    document_set_str(arena, check, "status", "failed");
    document_set_str(arena, check, "text", "no node shows GPUs");
    document_set_str(
        arena, check, "fix",
        "install GPU feature discovery, which labels nodes nvidia.com/gpu.present=true");
    document_append(checks, check);
    return checks;
}
