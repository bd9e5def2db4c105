#include "cluster.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/annotations.h"
#include "milligpu/core/rules/tally.h"
#include "milligpu/document/policy/policy_document.h"
#include "milligpu/document/policy/zone_file.h"
#include "milligpu/settings/settings.h"
#include "milligpu/sign/signing.h"

#include "measure.h"

enum { NOW_MS_BASE = 1700000000 }; /* seconds; the only time used here */

const struct wire_rules cluster_wire = {.resource = "nvidia.com/vgpu",
                                        .whole_resource = "nvidia.com/gpu"};
const struct request_rules cluster_requests = {
    .resource = "nvidia.com/vgpu", .min_milli = 1, .step_milli = 1};
const struct inventory_rules cluster_inventory = {.from_labels = true};

static int64_t now_ms(void)
{
    return (int64_t)NOW_MS_BASE * 1000;
}

void cluster_node_name(uint32_t node, char out[NODE_NAME_BYTES])
{
    (void)snprintf(out, NODE_NAME_BYTES, "gpu-a100-%05u.zone-%u.cluster.internal", node, node % 3);
}

/* --- objects --- */

static void add_gpus(struct strbuf *out, uint32_t node)
{
    strbuf_str(out, "[");
    for (unsigned i = 0; i < NODE_GPUS; i++)
        strbuf_printf(out,
                      "%s{\\\"uuid\\\":\\\"GPU-%08x-5eed-4a10-8000-%012x\\\",\\\"index\\\":%u,"
                      "\\\"milli\\\":1000,\\\"mib\\\":81920,"
                      "\\\"model\\\":\\\"NVIDIA-A100-SXM4-80GB\\\",\\\"numa\\\":%u,"
                      "\\\"health\\\":\\\"healthy\\\"}",
                      i > 0 ? "," : "", node * 2654435761U, node * NODE_GPUS + i, i, i / 4);
    strbuf_str(out, "]");
}

static void add_conditions(struct strbuf *out)
{
    static const char *const kind[] = {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"};

    strbuf_str(out, "\"conditions\":[");
    for (size_t i = 0; i < ARRAY_LEN(kind); i++)
        strbuf_printf(out,
                      "%s{\"type\":\"%s\",\"status\":\"%s\",\"lastHeartbeatTime\":"
                      "\"2026-11-21T01:50:00Z\",\"lastTransitionTime\":\"2026-11-20T01:50:00Z\","
                      "\"reason\":\"Kubelet%s\",\"message\":\"kubelet has a word on %s\"}",
                      i > 0 ? "," : "", kind[i], i == 3 ? "True" : "False", kind[i], kind[i]);
    strbuf_str(out, "]");
}

void cluster_node_json(struct strbuf *out, uint32_t node)
{
    char name[NODE_NAME_BYTES];
    static const char amounts[] =
        "{\"cpu\":\"128\",\"ephemeral-storage\":\"1855425871872\",\"hugepages-2Mi\":\"0\","
        "\"memory\":\"1056270304Ki\",\"nvidia.com/vgpu\":\"8000\",\"pods\":\"110\"}";

    cluster_node_name(node, name);
    strbuf_printf(out,
                  "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\","
                  "\"uid\":\"%08x-0000-4000-8000-000000000001\",\"creationTimestamp\":"
                  "\"2026-11-20T01:50:00Z\",\"labels\":{\"kubernetes.io/arch\":\"amd64\","
                  "\"kubernetes.io/os\":\"linux\",\"kubernetes.io/hostname\":\"%s\","
                  "\"topology.kubernetes.io/zone\":\"zone-%u\",\"nvidia.com/gpu.count\":\"8\","
                  "\"nvidia.com/gpu.product\":\"NVIDIA-A100-SXM4-80GB\","
                  "\"nvidia.com/gpu.memory\":\"81920\"},\"annotations\":{\"milligpu.io/gpus\":\"",
                  name, node, name, node % 3);
    add_gpus(out, node);
    strbuf_printf(out,
                  "\"}},\"spec\":{\"podCIDR\":\"10.%u.%u.0/24\"},\"status\":{\"capacity\":%s,"
                  "\"allocatable\":%s,",
                  node / 256 % 256, node % 256, amounts, amounts);
    add_conditions(out);
    strbuf_str(out, ",\"nodeInfo\":{\"architecture\":\"amd64\",\"kubeletVersion\":\"v1.36.3\","
                    "\"osImage\":\"Debian GNU/Linux 12 (bookworm)\"}}}");
}

void cluster_pod_json(struct strbuf *out, const struct cluster_pod *pod)
{
    const bool bound = pod->node[0] != '\0';

    strbuf_printf(out,
                  "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
                  "\"namespace\":\"default\",\"uid\":\"%s\",\"creationTimestamp\":"
                  "\"2026-11-21T01:50:00Z\",\"labels\":{\"app\":\"inference\"},\"annotations\":",
                  pod->name, pod->uid);
    strbuf_text(out, pod->annotations.len > 0 ? pod->annotations : TEXT("{}"));
    strbuf_str(out, "},\"spec\":{");
    if (bound)
        strbuf_printf(out, "\"nodeName\":\"%s\",", pod->node);
    strbuf_printf(
        out,
        "\"containers\":[{\"name\":\"c\",\"image\":\"registry.internal/inference:1.4.2\",\"env\":[{"
        "\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":\"v1\","
        "\"fieldPath\":\"metadata.annotations['milligpu.io/visible-devices']\"}}}],\"resources\":{"
        "\"limits\":{\"cpu\":\"4\",\"memory\":\"16Gi\",\"nvidia.com/vgpu\":\"%s\"},"
        "\"requests\":{\"cpu\":\"4\",\"memory\":\"16Gi\",\"nvidia.com/vgpu\":\"%s\"}},"
        "\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\","
        "\"imagePullPolicy\":\"IfNotPresent\"}],\"restartPolicy\":\"Always\","
        "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\",\"securityContext\":{}"
        ",\"schedulerName\":\"milligpu-scheduler\",\"tolerations\":[{\"key\":"
        "\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":300},{\"key\":\"node.kubernetes.io/unreachable\",\"operator\":"
        "\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300}],\"priority\":0,"
        "\"enableServiceLinks\":true,\"preemptionPolicy\":\"PreemptLowerPriority\"},"
        "\"status\":{\"phase\":\"%s\",\"qosClass\":\"Burstable\"}}",
        pod->amount, pod->amount, bound ? "Running" : "Pending");
}

void cluster_question_json(struct strbuf *out, const struct cluster_question *question)
{
    const struct cluster_pod pod = {
        .name = question->uid, .uid = question->uid, .node = "", .amount = question->amount};
    char name[NODE_NAME_BYTES];

    strbuf_str(out, "{\"Pod\":");
    cluster_pod_json(out, &pod);
    strbuf_str(out, ",\"Nodes\":null,\"NodeNames\":[");
    for (uint32_t i = 0; i < question->names; i++) {
        cluster_node_name((question->first + i) % question->nodes, name);
        strbuf_printf(out, "%s\"%s\"", i > 0 ? "," : "", name);
    }
    strbuf_str(out, "]}");
}

/* --- the ledger --- */

static const struct store_ops *written;

void cluster_write_to(const struct store_ops *ops)
{
    written = ops;
}

/* False: it does not fit. */
static bool apply(struct ledger *ledger, const struct command *command)
{
    struct change change;
    struct err err;

    const bool fits = ledger_decide(ledger, command, &change) == VERDICT_OK;
    if (fits && written != NULL)
        must(written->write(written->ctx, command, &change, &err) == STORE_OK);
    if (fits)
        ledger_apply(ledger, &change);
    change_done(&change);
    return fits;
}

struct store *cluster_store(const char *path, bool checkpoints_beside)
{
    const struct store_rules rules = {.path = path, .checkpoints_beside = checkpoints_beside};
    struct store *store = NULL;
    struct err err;

    must(store_open(&rules, &store, &err) == 0);
    must(store_set_cluster(store, "bench", &err) == 0);
    if (path[0] == ':')
        return store;
    /* Opened again, so that another thread than the caller may be the one that writes. */
    store_close(store);
    must(store_open(&rules, &store, &err) == 0);
    return store;
}

struct ledger *cluster_ledger(uint32_t nodes)
{
    struct ledger *ledger = ledger_new();
    struct arena arena;
    struct strbuf json;
    struct err err;

    arena_init(&arena);
    strbuf_init(&json);
    for (uint32_t i = 0; i < nodes; i++) {
        struct node_facts facts;
        struct inventory inventory;

        strbuf_reset(&json);
        arena_reset(&arena);
        cluster_node_json(&json, i);
        must(node_decode((struct text){json.data, json.len}, &cluster_wire, &arena, &facts, &err) ==
             0);
        inventory_parse(&facts, &cluster_inventory, &arena, &inventory);
        must(inventory.n_gpus == NODE_GPUS);
        const struct command command = {
            .kind = COMMAND_NODE, .at_ms = now_ms(), .node = facts.name, .inventory = &inventory};
        must(apply(ledger, &command));
    }
    strbuf_done(&json);
    arena_done(&arena);
    return ledger;
}

/* False: it does not fit there. */
static bool cluster_place_pod(struct ledger *ledger, uint32_t pod, uint32_t node,
                              const struct request *request)
{
    char uid[40];
    char name[32];
    char host[NODE_NAME_BYTES];

    (void)snprintf(uid, sizeof uid, "%08x-0000-4000-8000-000000000002", pod);
    (void)snprintf(name, sizeof name, "inference-%06u", pod);
    cluster_node_name(node, host);
    struct command command = {.kind = COMMAND_RESERVE,
                              .at_ms = now_ms(),
                              .uid = uid,
                              .namespace = "default",
                              .name = name,
                              .node = host,
                              .request = request};
    if (!apply(ledger, &command))
        return false;
    command.kind = COMMAND_CONFIRM;
    must(apply(ledger, &command));
    return true;
}

uint32_t cluster_fill_half(struct ledger *ledger, uint32_t nodes)
{
    static const uint32_t amount[] = {200, 300, 500, 500, 1000, 1000, 2000, 2000, 4000};
    uint64_t seed = 42;
    uint64_t left = (uint64_t)nodes * NODE_GPUS * GPU_MILLI / 2;
    uint32_t pods = 0;

    while (left > 0) {
        uint32_t milli = amount[draw(&seed, ARRAY_LEN(amount))];
        milli = milli < left ? milli : (uint32_t)left;
        struct want want = {.container = "c",
                            .parts = milli > GPU_MILLI ? milli / GPU_MILLI : 1,
                            .milli = milli > GPU_MILLI ? GPU_MILLI : milli};
        const struct request request = {.n_wants = 1, .want = &want};
        if (cluster_place_pod(ledger, pods, draw(&seed, nodes), &request)) {
            left -= (uint64_t)want.parts * want.milli;
            pods++;
        }
    }
    return pods;
}

void cluster_fill_up(struct ledger *ledger, uint32_t nodes)
{
    struct want want = {.container = "c", .parts = NODE_GPUS, .milli = 800};
    const struct request request = {.n_wants = 1, .want = &want};

    for (uint32_t i = 0; i < nodes; i++)
        must(cluster_place_pod(ledger, i, i, &request));
}

enum { CLASSES = 100 };

/* Small shapes and those of one GPU come most often. */
static void cluster_classes(struct workload_class out[CLASSES])
{
    static const uint32_t milli[] = {1000, 500, 250, 100, 300, 750, 200, 400, 600, 333, 450, 820};
    static const uint32_t parts[] = {1, 2, 4, 8};
    static const uint32_t cores[] = {4, 8, 16, 1, 12, 32, 6, 64};
    static const char *model[] = {"*H100*"};

    for (uint32_t i = 0; i < CLASSES; i++) {
        const uint32_t width = i % 4 == 3 ? parts[1 + i / 4 % 3] : 1;
        out[i] = (struct workload_class){
            .host = {1000 * cores[i / 12 % ARRAY_LEN(cores)], 4096 * (1 + i)},
            .parts = width,
            .milli = width > 1 ? GPU_MILLI : milli[i % ARRAY_LEN(milli)],
            .n_models = i % 10 == 9 ? 1 : 0,
            .model = model,
            .count = 1 + 2000 / (i + 1),
        };
    }
}

static const char *shipped_name(void)
{
    static char name[64];
    char program[] = "bench";
    char *argv[] = {program, NULL};
    char *envp[] = {NULL};
    struct settings_set *set = NULL;
    enum settings_action action;
    struct err err;

    must(settings_load(1, argv, envp, &set, &action, &err) == 0);
    must((size_t)snprintf(name, sizeof name, "%s", settings_get(set)->policy) < sizeof name);
    settings_free(set);
    return name;
}

struct rulebook *cluster_shipped(void)
{
    const struct policy_edges edges = {.load_zone = zone_load};
    const char *name = shipped_name();
    struct rulebook *book = NULL;
    struct strbuf warnings;
    struct err err;

    strbuf_init(&warnings);
    must(policy_document_find(text_of(name)) != NULL);
    must(policy_document_read(text_of(policy_document_find(text_of(name))), name, &edges, &book,
                              &warnings, &err) == 0);
    strbuf_done(&warnings);
    return book;
}

static void set_shipped(struct ledger *ledger)
{
    struct workload_class class[CLASSES];
    const struct tally_rows rows = {.pods = 2 * TALLY_HALF, .n_classes = CLASSES, .class = class};
    struct rulebook *book = cluster_shipped();
    struct tally *tally = NULL;
    struct err err;

    cluster_classes(class);
    must(tally_restore(&rows, &tally, &err) == 0);
    tally_expect(tally, book);
    struct workload *workload = tally_workload(tally);
    struct policy_context *context = policy_context_of_rulebook(book, 0, workload);
    must(book->n_rules == 0); /* with rules, the nodes would have to be matched, too */
    ledger_set_policy_context(ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
    tally_free(tally);
    rulebook_unref(book);
}

void cluster_set_policy(struct ledger *ledger, uint32_t policy)
{
    struct workload_class class[CLASSES];

    if (policy == CLUSTER_SHIPPED) {
        set_shipped(ledger);
        return;
    }
    const enum policy_kind kind = (enum policy_kind)policy;
    cluster_classes(class);
    struct workload *workload = policy_needs_workload(kind) ? workload_new(class, CLASSES) : NULL;
    struct policy_context *context = policy_context_new(kind, 0, workload);
    ledger_set_policy_context(ledger, context);
    policy_context_unref(context);
    workload_unref(workload);
}

const char *cluster_policy_name(uint32_t policy)
{
    return policy == CLUSTER_SHIPPED ? shipped_name() : policy_name((enum policy_kind)policy);
}

static const struct signing_key *signing_key;

void cluster_sign_with(const struct signing_key *key)
{
    signing_key = key;
}

/* Adds the signature to the annotations. */
static void sign_note(struct strbuf *note, const struct allocation_facts *facts)
{
    char signature[SIGNATURE_TEXT_BYTES];
    json_t *all = json_loadb(note->data, note->len, 0, NULL);
    const char *value = json_string_value(json_object_get(all, ANNOTATION_ALLOCATION));
    struct err err;

    must(value != NULL);
    const struct signed_facts what = {text_of(facts->uid), atom_text(facts->node), text_of(value),
                                      SIGNED_ALLOCATION};
    must(signing_sign(signing_key, &what, signature, &err) == 0);
    must(json_object_set_new(all, ANNOTATION_SIGNATURE, json_string(signature)) == 0);
    char *text = json_dumps(all, JSON_COMPACT);
    must(text != NULL);
    strbuf_reset(note);
    strbuf_str(note, text);
    free(text); /* of jansson */
    json_decref(all);
}

void cluster_bound_json(struct strbuf *out, const struct allocation *allocation,
                        const struct node *node)
{
    const struct allocation_facts *facts = &allocation->facts;
    struct strbuf note;
    char amount[16];

    strbuf_init(&note);
    annotation_encode(&note, allocation, node);
    if (signing_key != NULL)
        sign_note(&note, facts);
    (void)snprintf(amount, sizeof amount, "%u", allocation_milli(allocation));
    const struct cluster_pod pod = {.name = facts->name,
                                    .uid = facts->uid,
                                    .node = facts->node->text,
                                    .amount = amount,
                                    .annotations = {note.data, note.len}};
    cluster_pod_json(out, &pod);
    strbuf_done(&note);
}

void cluster_pods_json(struct strbuf *out, const struct ledger *ledger)
{
    const struct allocation *allocation;

    for (size_t at = 0; (allocation = ledger_next(ledger, &at)) != NULL;) {
        strbuf_char(out, ',');
        cluster_bound_json(out, allocation, ledger_node(ledger, atom_text(allocation->facts.node)));
    }
}
