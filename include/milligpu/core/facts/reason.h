/*
 * reason - the closed list of reasons to refuse a pod.
 *
 * kube-scheduler writes our text into the pod's status, and that write makes it retry the pod: a
 * text that changes would cause a hot loop. So a text depends on the request alone. The class
 * selects the text:
 *
 *   request   no node can grant the request: the text says how to correct it
 *   kind      this kind of node can never grant it: a text of its own
 *   moment    may change while the pod waits: one text for all these reasons
 *   state     answers of bind; never in the maps of filter
 *
 * The word is the label in metrics and the "reason" in REST. Rows are in order of precedence: if
 * the GPUs of a node are refused for several reasons, the last of these in the table is the reason
 * of the node, because it is nearest to fitting. Kind reasons come before moment reasons.
 */
#ifndef MILLIGPU_REASON_H
#define MILLIGPU_REASON_H

#include "milligpu/base/base.h"

#define REASON_TABLE(X)                                                                            \
    X(REASON_AMOUNT, "amount", REQUEST, "amount is neither at most 1000 nor a multiple of 1000")   \
    X(REASON_MINIMUM, "minimum", REQUEST, "amount is below min_milli")                             \
    X(REASON_STEP, "step", REQUEST, "amount is no multiple of step_milli")                         \
    X(REASON_COUNT, "count", REQUEST, "gpu-count annotation cannot be used")                       \
    X(REASON_MODEL_SYNTAX, "model_syntax", REQUEST, "gpu-model annotation cannot be used")         \
    X(REASON_MEMORY_SYNTAX, "memory_syntax", REQUEST, "gpu-memory annotation cannot be used")      \
    X(REASON_TOPOLOGY_SYNTAX, "topology_syntax", REQUEST, "topology annotation cannot be used")    \
    X(REASON_LIMIT, "limit", REQUEST, "more containers or parts than one pod may ask for")         \
    X(REASON_UNREADABLE, "unreadable", REQUEST, "what the pod asks for cannot be read")            \
    X(REASON_UNKNOWN_NODE, "unknown_node", KIND, "the ledger does not know the node")              \
    X(REASON_NO_GPU, "no_gpu", KIND, "the node has no GPUs to share")                              \
    X(REASON_MODEL, "model", KIND, "no GPU of the node is of a model that was asked for")          \
    X(REASON_SMALL, "small", KIND, "every GPU of the node is smaller than one part")               \
    X(REASON_MEMORY, "memory", KIND, "on no GPU of the node the part comes with enough memory")    \
    X(REASON_MEMORY_UNKNOWN, "memory_unknown", KIND, "the node does not tell the memory of GPUs")  \
    X(REASON_RULE, "rule", KIND, "a rule of the policy does not allow it there")                   \
    X(REASON_FEW, "few", KIND, "the node has fewer suitable GPUs than one container asks for")     \
    X(REASON_TOPOLOGY, "topology", KIND, "no suitable GPUs of the node lie as the pod demands")    \
    X(REASON_MIXED, "mixed", MOMENT, "a pod with whole GPUs of another resource lives there")      \
    X(REASON_UNPLACED, "unplaced", MOMENT, "a pod lives there whose GPUs are not known")           \
    X(REASON_PLUGIN, "plugin", MOMENT, "the node's device plugin offers no GPU now")               \
    X(REASON_AGENT, "agent", MOMENT, "the node's agent does not vouch for its GPUs now")           \
    X(REASON_HELD, "held", MOMENT, "something other than shares holds the GPU whole")              \
    X(REASON_ABSENT, "absent", MOMENT, "the GPU is missing from the node's inventory")             \
    X(REASON_UNHEALTHY, "unhealthy", MOMENT, "the GPU is reported unhealthy")                      \
    X(REASON_CORDONED, "cordoned", MOMENT, "the GPU is cordoned")                                  \
    X(REASON_CROWDED, "crowded", MOMENT, "CHARGES_PER_GPU_MAX pods share the GPU already")         \
    X(REASON_RESERVE, "reserve", MOMENT, "the node is kept idle for pods of several GPUs")         \
    X(REASON_ROOM, "room", MOMENT, "not enough milli or MiB left in one piece")                    \
    X(REASON_UNSEARCHED, "unsearched", MOMENT, "no place was found, not searched to the end")      \
    X(REASON_ELSEWHERE, "elsewhere", STATE, "the pod holds a reservation on another node")         \
    X(REASON_CHANGED, "changed", STATE, "the pod was deleted, bound or replaced meanwhile")        \
    X(REASON_UNKNOWN_POD, "unknown_pod", STATE, "no such pod, or another uid")                     \
    X(REASON_NOT_OURS, "not_ours", STATE, "the pod does not name the resource")

enum reason_class {
    REASON_CLASS_REQUEST,
    REASON_CLASS_KIND,
    REASON_CLASS_MOMENT,
    REASON_CLASS_STATE
};

enum reason {
    REASON_NONE, /* it fits */
#define X(code, word, class, help) code,
    REASON_TABLE(X)
#undef X
        REASONS
};

const char *reason_name(enum reason reason); /* "fits" for REASON_NONE */
const char *reason_help(enum reason reason);
enum reason_class reason_class(enum reason reason);

#endif
