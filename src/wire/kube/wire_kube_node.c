/*
 * Decodes a Node object into the facts of its inventory. Called by the informer (its thread) and
 * for extender bodies with whole Nodes (HTTP threads). Unreadable values are reported, and never
 * mean that a GPU is gone (docs/why/011-unreadable-objects-still-count.md). Labels and annotations
 * come in any order, so they are collected first and evaluated at the end; core (inventory.h)
 * decides. In order: labels, annotations, evaluation, spec and status.
 */
#include <string.h>

#include "milligpu/base/annotations.h"
#include "milligpu/core/facts/quantity.h"

#include "kube_read.h"

/* Collected values that are not in node_facts; NULL if the label is absent. */
struct node_reading {
    const struct wire_rules *rules;
    struct node_facts *node;
    const char *gpus; /* text of the annotation */
    const char *mig_strategy;
    const char *mig_capable;
    const char *mig_config;
    const char *mig_profile; /* key of a label nvidia.com/mig-<profile>.count other than 0 */
    const char *sharing;
    const char *replicas;
    const char *mps_capable;
    /* Labels of NVIDIA's operator. */
    const char *deploy_plugin;
    const char *deploy_operands;
    struct label *label; /* node->label, writable */
    uint32_t label_room; /* its capacity */
};

/* Keeps the label, since rules of a policy may match any. Always true. */
static bool keep_label(struct json_reader *in, struct node_reading *reading, struct text key,
                       const char *value)
{
    struct node_facts *node = reading->node;

    must(value != NULL);
    /* The API server refuses such keys; a cluster file may have them. */
    if (key.len == 0 || memchr(key.at, '=', key.len) != NULL || memchr(key.at, 0, key.len) != NULL)
        return true;
    if (node->n_labels == reading->label_room) {
        const uint32_t room = reading->label_room > 0 ? 2 * reading->label_room : 64;
        struct label *label = arena_array(in->arena, room, sizeof *label);
        if (node->n_labels > 0)
            memcpy(label, reading->label, node->n_labels * sizeof *label);
        reading->label = label;
        reading->label_room = room;
        node->label = label;
    }
    reading->label[node->n_labels++] = (struct label){arena_copy(in->arena, key), value};
    return true;
}

/* Skips a label that is no string: no rule can match it, and the API server has none. */
static bool read_other_label(struct json_reader *in, struct node_reading *reading, struct text key)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *value;

    must(reading->node != NULL);
    if (!json_read_cstring(in, &value))
        return json_reader_retreat(in, mark);
    return keep_label(in, reading, key, value);
}

/*
 * With mig.strategy "mixed" there is one such label per profile. Any one of the keys is kept, for
 * the text of the problem.
 */
static bool read_mig_count(struct json_reader *in, struct node_reading *reading, struct text key)
{
    must(key.len > 0);

    const char *count = NULL;
    if (!json_read_cstring(in, &count))
        return false;
    if (strcmp(count, "0") != 0)
        reading->mig_profile = arena_copy(in->arena, key);
    return keep_label(in, reading, key, count);
}

static bool read_label(void *user, struct json_reader *in, struct text key)
{
    must(user != NULL);

    struct node_reading *reading = user;
    struct node_facts *node = reading->node;
    const struct {
        const char *key;
        const char **slot;
    } known[] = {
        {"nvidia.com/gpu.count", &node->label_count},
        {"nvidia.com/gpu.product", &node->label_product},
        {"nvidia.com/gpu.memory", &node->label_memory},
        {"nvidia.com/gpu.sharing-strategy", &reading->sharing},
        {"nvidia.com/gpu.replicas", &reading->replicas},
        {"nvidia.com/mps.capable", &reading->mps_capable},
        {"nvidia.com/gpu.workload.config", &node->label_workload},
        {"nvidia.com/gpu.deploy.device-plugin", &reading->deploy_plugin},
        {"nvidia.com/gpu.deploy.operands", &reading->deploy_operands},
        {"nvidia.com/mig.strategy", &reading->mig_strategy},
        {"nvidia.com/mig.capable", &reading->mig_capable},
        {"nvidia.com/mig.config", &reading->mig_config},
    };
    /* Fast path: nodes have dozens of labels, few with this prefix. */
    if (!text_starts(key, "nvidia.com/"))
        return read_other_label(in, reading, key);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (text_is(key, known[i].key))
            return read_once(in, known[i].slot) && keep_label(in, reading, key, *known[i].slot);
    if (text_starts(key, "nvidia.com/mig-") && text_ends(key, ".count"))
        return read_mig_count(in, reading, key);
    return read_other_label(in, reading, key);
}

/* The annotation removes GPUs, so an unreadable one removes all. */
static bool read_cordon(struct json_reader *in, struct node_facts *node)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;

    must(node->name != NULL);
    if (read_once(in, &node->cordon))
        return true;
    node->cordon = "all";
    pass_over(in, mark, &why);
    return !in->failed;
}

/* Reads members of the claim; one that is no string fails the whole claim. */
static bool read_claim_pod(struct json_reader *in, struct agent_claim *out)
{
    static const char *const keys[] = {"uid", "node", "boot"};
    const char **const slot[] = {&out->pod, &out->node, &out->boot};
    struct json_read_fields fields = JSON_FIELDS(keys);
    int key;

    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key))
        (void)read_string(in, UID_BYTES_MAX, slot[key]); /* the error sticks */
    return !in->failed;
}

bool agent_claim_decode(struct text value, struct arena *arena, const char **out_key,
                        struct agent_claim *out)
{
    static const char *const keys[] = {"key", "pod", "leaving"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct agent_claim claim = {.pod = NULL};
    const char *found = NULL;
    struct json_reader in;
    struct err err;
    int key;

    must(arena != NULL);
    json_reader_init(&in, value, "agent", arena, &err);
    json_read_object(&in);
    while (json_read_field(&in, &fields, &key)) /* the error sticks */
        if (key == 1)
            (void)read_claim_pod(&in, &claim);
        else
            (void)json_read_cstring(&in, key == 0 ? &found : &claim.leaving);
    if (json_reader_finish(&in) < 0)
        return false;
    *out_key = found;
    *out = claim;
    return true;
}

/*
 * The node has an agent, even if the value is unreadable: so its Bindings demand the agent. Then
 * there is no key, and no agent that vouches for the node.
 */
static bool read_agent(struct json_reader *in, struct node_facts *node)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    struct text value;

    must(node->name != NULL);
    node->agent = true;
    node->agent_key = NULL;
    node->claim = (struct agent_claim){.pod = NULL};
    if (!json_read_string(in, &value))
        return json_reader_retreat(in, mark);
    (void)agent_claim_decode(value, in->arena, &node->agent_key, &node->claim);
    return true;
}

/* gpus is kept as text: it is decoded when the whole object has been read. */
static bool node_read_annotation(void *user, struct json_reader *in, struct text key)
{
    must(user != NULL);

    struct node_reading *reading = user;
    if (text_is(key, "milligpu.io/gpus"))
        return read_once(in, &reading->gpus);
    if (text_is(key, "milligpu.io/cordon"))
        return read_cordon(in, reading->node);
    if (text_is(key, ANNOTATION_AGENT))
        return read_agent(in, reading->node);
    return json_read_skip(in);
}

static bool node_is_set(const char *label, const char *but_not)
{
    must(but_not != NULL);

    return label != NULL && label[0] != '\0' && strcmp(label, but_not) != 0;
}

/* text is NULL for an absent label. */
static bool node_holds(const char *text, const char *word)
{
    must(word[0] != '\0');

    const size_t len = strlen(word);
    for (; text != NULL && *text != '\0'; text++)
        if (strncmp(text, word, len) == 0)
            return true;
    return false;
}

/*
 * mig.strategy is the configuration of the device plugin, so every node has it, even without
 * partitioned GPUs. A partitioned node has another label or, with "single", a product name with
 * -MIG-. With "mixed", replicas are 0 if each GPU is in MIG mode.
 */
static const char *mig_label(const struct node_reading *reading)
{
    const char *product = reading->node->label_product;
    if (node_holds(product, "-MIG-"))
        return product;
    if (reading->mig_profile != NULL)
        return reading->mig_profile;
    if (!node_is_set(reading->mig_strategy, "none"))
        return NULL;
    const bool off =
        (reading->mig_capable != NULL && !node_is_set(reading->mig_capable, "false")) ||
        (reading->mig_config != NULL && !node_is_set(reading->mig_config, "all-disabled"));
    const bool counted = reading->mig_config == NULL && node_is_set(reading->replicas, "0");
    const bool whole = product != NULL && (strcmp(reading->mig_strategy, "single") == 0 || counted);
    return off || whole ? NULL : reading->mig_strategy;
}

/*
 * Time-slicing and MPS multiply the devices that the node shows, so its amounts do not count GPUs.
 * Each of the four labels indicates it.
 */
static const char *sharing_label(const struct node_reading *reading)
{
    if (node_is_set(reading->sharing, "none"))
        return reading->sharing;
    if (node_is_set(reading->replicas, "1") && strcmp(reading->replicas, "0") != 0)
        return reading->replicas;
    if (reading->mps_capable != NULL && strcmp(reading->mps_capable, "true") == 0)
        return "mps";
    const char *product = reading->node->label_product;
    return product != NULL && text_ends(text_of(product), "-SHARED") ? product : NULL;
}

/*
 * NVIDIA's operator sets the first label to "paused-for-..." where it has paused the device plugin,
 * and the second to "false" where it has paused all its operands. The first is "true" on all other
 * nodes, with a plugin or without, so "true" means nothing.
 */
static bool plugin_label(const struct node_reading *reading)
{
    must(reading->node != NULL);
    return text_starts(text_of(reading->deploy_plugin), "paused-") ||
           text_is(text_of(reading->deploy_operands), "false");
}

/* In units of 10^-decimals, rounded down; 0 if it is no quantity, or exceeds 63 bits. */
static int64_t quantity_floor(struct text amount, unsigned decimals)
{
    int64_t value = 0;

    switch (quantity_parse(amount, decimals, &value)) {
    case QUANTITY_OK:
        break;
    case QUANTITY_FRACTION:
        if (quantity_ceil(amount, decimals, &value) == QUANTITY_OK)
            value--;
        break;
    case QUANTITY_SYNTAX:
    case QUANTITY_RANGE:
        return 0;
    }
    return value;
}

/*
 * CPU and memory only order placements, so an unreadable one is unknown, and the node stays
 * readable.
 */
static void read_host_amount(struct json_reader *in, struct text key, struct host *out)
{
    const struct json_reader_mark mark = json_reader_mark(in);
    const bool cpu = text_is(key, "cpu");
    const char *amount = NULL;
    const char *why = NULL;

    must(cpu || text_is(key, "memory"));
    *(cpu ? &out->cpu_milli : &out->memory_mib) = 0;
    if (json_read_null(in))
        return;
    if (!read_amount(in, &amount)) {
        pass_over(in, mark, &why);
        return;
    }
    if (cpu)
        out->cpu_milli = host_amount(quantity_floor(text_of(amount), 3));
    else
        out->memory_mib = host_amount(quantity_floor(text_of(amount), 0) / HOST_MIB_BYTES);
}

/* Amounts of a ResourceList, as written; NULL if absent. */
struct resource_amounts {
    const char *ours;
    const char *whole;
    const char *shared; /* whole_resource with ".shared": NVIDIA's plugin renames shared GPUs so */
};

/* Returns the member for an amount of this resource; NULL if it is not kept. */
static const char **amount_slot(const struct wire_rules *rules, struct text key,
                                struct resource_amounts *out)
{
    const size_t whole = strlen(rules->whole_resource);

    must(rules->resource[0] != '\0' && whole > 0);
    if (text_is(key, rules->resource))
        return &out->ours;
    if (!text_starts(key, rules->whole_resource))
        return NULL;
    if (key.len == whole)
        return &out->whole;
    return text_is((struct text){key.at + whole, key.len - whole}, ".shared") ? &out->shared : NULL;
}

/* Skips other resources, except CPU and memory if out_host is not NULL. */
static void read_resources(struct json_reader *in, const struct wire_rules *rules,
                           struct resource_amounts *out, struct host *out_host)
{
    struct text key;

    *out = (struct resource_amounts){0};
    if (!json_read_object(in))
        return;
    while (json_read_key(in, &key)) {
        const char **slot = amount_slot(rules, key, out);
        if (slot == NULL) {
            if (out_host != NULL && (text_is(key, "cpu") || text_is(key, "memory")))
                read_host_amount(in, key, out_host);
            else
                (void)json_read_skip(in); /* errors stick */
            continue;
        }
        if (*slot != NULL)
            json_reader_fail(in, "comes twice; a key may come once");
        if (!json_read_null(in))
            (void)read_amount(in, slot);
    }
}

static const char *const spec_keys[] = {"unschedulable", "taints"};

/* unschedulable is set by kubectl cordon, and absent otherwise. */
static void node_read_spec(struct json_reader *in, struct node_facts *out)
{
    must(!out->taints.unschedulable && out->taints.n_taints == 0);

    struct json_read_fields fields = JSON_FIELDS(spec_keys);
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_bool(in, &out->taints.unschedulable); /* the error sticks */
        else
            read_taints(in, &out->taints);
    }
}

/* An unreadable boot id is unknown. */
static void read_node_info(struct json_reader *in, struct node_facts *out)
{
    static const char *const keys[] = {"bootID"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    const struct json_reader_mark mark = json_reader_mark(in);
    const char *why = NULL;
    int key;

    if (json_read_object(in))
        while (json_read_field(in, &fields, &key))
            (void)read_string(in, UID_BYTES_MAX, &out->boot); /* the error sticks */
    if (!in->failed)
        return;
    out->boot = NULL;
    pass_over(in, mark, &why);
}

static const char *const status_keys[] = {"capacity", "allocatable", "conditions", "nodeInfo"};

static void node_read_status(struct json_reader *in, const struct wire_rules *rules,
                             struct node_facts *out)
{
    must(out->capacity_milli == NULL && out->allocatable_milli == NULL);

    struct json_read_fields fields = JSON_FIELDS(status_keys);
    struct resource_amounts amounts;
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 2)
            read_node_conditions(in, &out->taints);
        if (key == 3)
            read_node_info(in, out);
        if (key >= 2)
            continue;
        read_resources(in, rules, &amounts, key == 0 ? NULL : &out->host);
        *(key == 0 ? &out->capacity_milli : &out->allocatable_milli) = amounts.ours;
        *(key == 0 ? &out->whole_capacity : &out->whole_allocatable) = amounts.whole;
        /* Keep either of the two, preferably one other than 0. */
        if (amounts.shared != NULL &&
            (out->whole_shared == NULL || strcmp(amounts.shared, "0") != 0))
            out->whole_shared = amounts.shared;
    }
}

static const char *const node_keys[] = {"kind", "metadata", "spec", "status"};
enum { NODE_KIND, NODE_META, NODE_SPEC, NODE_STATUS };

/* A member other than the identity fails by itself. read_meta() skips single values. */
static void node_member(struct json_reader *in, struct meta_reading *meta,
                        struct node_reading *reading, int key)
{
    const struct json_reader_mark mark = json_reader_mark(in);

    switch (key) {
    case NODE_KIND:
        (void)read_kind(in, "Node"); /* the error sticks */
        return;
    case NODE_META:
        read_meta(in, meta);
        return;
    case NODE_SPEC:
        node_read_spec(in, reading->node);
        break;
    case NODE_STATUS:
        node_read_status(in, reading->rules, reading->node);
        break;
    default:
        must_not_reach("json_read_field gives the keys of its table only");
    }
    if (!in->failed)
        return;
    reading->node->taints.unreadable = reading->node->taints.unreadable || key == NODE_SPEC;
    pass_over(in, mark, &reading->node->unreadable);
}

/* If several parts are unreadable, metadata is reported, whatever the order of the members. */
static void node_take_meta(struct node_facts *out, const struct meta_reading *meta)
{
    must(meta->meta.name != NULL && meta->meta.uid != NULL);

    out->name = meta->meta.name;
    out->uid = meta->meta.uid;
    out->resource_version = meta->meta.resource_version;
    out->created_ms = meta->created_ms;
    if (meta->unreadable != NULL)
        out->unreadable = meta->unreadable;
}

/* If the reader fails, *out is incomplete and must not be used. */
bool node_read(struct json_reader *in, const struct wire_rules *rules, struct node_facts *out)
{
    must(rules->resource != NULL && rules->whole_resource != NULL);

    struct json_read_fields fields = JSON_FIELDS(node_keys);
    struct node_reading reading = {.rules = rules, .node = out};
    struct meta_reading meta = {.user = &reading,
                                .label = read_label,
                                .labels_decide = true,
                                .annotation = node_read_annotation};
    int key;
    *out = (struct node_facts){.name = ""};
    meta_clear(&meta.meta);
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key))
        node_member(in, &meta, &reading, key);
    if (in->failed)
        return false;
    node_take_meta(out, &meta);
    out->label_mig = mig_label(&reading);
    out->label_sharing = sharing_label(&reading);
    out->plugin_paused = plugin_label(&reading);
    if (reading.gpus != NULL)
        gpus_decode(text_of(reading.gpus), in->arena, out);
    return true;
}

static void read_named_node(struct json_reader *in, const struct wire_rules *rules,
                            struct node_facts *out)
{
    if (node_read(in, rules, out) && out->name[0] == '\0')
        json_reader_fail(in, "has no metadata.name");
}

int node_decode(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                struct node_facts *out, struct err *err)
{
    struct json_reader in;
    json_reader_init(&in, bytes, "Node", arena, err);
    read_named_node(&in, rules, out);
    return json_reader_finish(&in);
}

size_t node_decode_first(struct text bytes, const struct wire_rules *rules, struct arena *arena,
                         struct node_facts *out)
{
    UNSET struct json_reader in;
    struct err ignored;
    json_reader_init(&in, bytes, "Node", arena, &ignored);
    read_named_node(&in, rules, out);
    return json_reader_stop(&in);
}
