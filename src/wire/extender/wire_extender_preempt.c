/*
 * Decodes and encodes the body of preempt. Called by webhooks.c on the HTTP threads. kube-scheduler
 * sends the victims' uids if the extender is nodeCacheCapable, else whole pods; it accepts the
 * answer in the short form in both cases.
 */
#include "milligpu/wire/extender/wire_extender.h"

#include "wire/json/distinct.h"
#include "wire/kube/kube_read.h"

static const char *const uid_keys[] = {"UID"};
static const char *const pod_keys[] = {"metadata"};

/* A victim is a whole Pod in one form and {"UID": ...} in the other. */
static void read_uid(struct json_reader *in, bool whole, struct text *out)
{
    struct json_read_fields meta = JSON_FIELDS(uid_keys);
    struct json_read_fields pod = JSON_FIELDS(pod_keys);
    struct meta_reading reading = {.user = NULL};
    int key;
    *out = (struct text){NULL, 0};
    meta_clear(&reading.meta);
    if (!json_read_object(in))
        return;
    /* Only metadata.uid of a whole pod counts; the rest is checked as JSON and skipped. */
    if (whole) {
        while (json_read_field(in, &pod, &key))
            read_meta(in, &reading);
        *out = text_of(reading.meta.uid);
    } else {
        while (json_read_field(in, &meta, &key))
            (void)json_read_name(in, UID_BYTES_MAX, out); /* the error sticks */
    }
    if (out->len == 0)
        json_reader_fail(in, "has no %s", whole ? "metadata.uid" : "\"UID\"");
}

/* The limit is far above the pods of one node; it keeps the count in 32 bits. */
static void read_uids(struct json_reader *in, bool whole, struct extender_victims *out)
{
    must(out->n_uids == 0);

    enum { UIDS_MAX = 1 << 20 };
    struct text uid;
    if (!json_read_array(in))
        return;
    while (json_read_element(in)) {
        read_uid(in, whole, &uid);
        if (in->failed)
            return;
        if (out->n_uids == UIDS_MAX) {
            json_reader_fail_as(in, ERR_TOO_LARGE, "more than %d victims", UIDS_MAX);
            return;
        }
        out->uid = arena_grow(in->arena, out->uid, out->n_uids, UIDS_MAX, sizeof *out->uid);
        out->uid[out->n_uids++] = uid;
    }
}

static const char *const victims_keys[] = {"Pods", "NumPDBViolations"};

/* Null stands for no victims. */
static void read_victims(struct json_reader *in, bool whole, struct extender_victims *out)
{
    must(out->node.at != NULL);

    struct json_read_fields fields = JSON_FIELDS(victims_keys);
    int key;
    if (json_read_null(in) || !json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            read_uids(in, whole, out);
        else
            (void)json_read_i64(in, &out->pdb_violations); /* the error sticks */
    }
}

/*
 * The keys are data, so json_read_field() cannot detect duplicates: they are checked when all keys
 * are known.
 */
static void extender_preempt_read_nodes(struct json_reader *in, bool whole,
                                        struct extender_preempt *out)
{
    must(out->n_nodes == 0);

    struct text key;
    if (!json_read_object(in))
        return;
    while (json_read_key(in, &key)) {
        struct extender_victims victims = {.node = key};
        if (key.len == 0 || key.len > NAME_BYTES_MAX)
            json_reader_fail(in, "a node's name must have 1 to %d bytes", NAME_BYTES_MAX);
        read_victims(in, whole, &victims);
        if (!in->failed && out->n_nodes == NODES_MAX)
            json_reader_fail_as(in, ERR_TOO_LARGE, "more than %d nodes (NODES_MAX)", NODES_MAX);
        if (in->failed)
            return;
        out->node = arena_grow(in->arena, out->node, out->n_nodes, NODES_MAX, sizeof *out->node);
        out->node[out->n_nodes++] = victims;
    }
}

static void extender_preempt_check_distinct(struct json_reader *in,
                                            const struct extender_preempt *out)
{
    uint32_t second;
    uint32_t *hash = arena_array(in->arena, out->n_nodes, sizeof *hash);
    struct text *name = arena_array(in->arena, out->n_nodes, sizeof *name);
    must(out->n_nodes <= NODES_MAX);
    for (uint32_t i = 0; i < out->n_nodes; i++)
        name[i] = out->node[i].node;
    if (!distinct_names(in->arena, name, out->n_nodes, hash, &second))
        json_reader_fail(in, "node \"%.*s\" comes twice", TEXT_ARG(name[second]));
}

static const char *const preempt_keys[] = {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"};

/* Exactly one of the two forms must be present; null counts as absent. */
static void read_preempt(struct json_reader *in, const struct wire_rules *rules,
                         struct extender_preempt *out)
{
    must(out->n_nodes == 0 && out->node == NULL);

    struct json_read_fields fields = JSON_FIELDS(preempt_keys);
    bool has_pod = false;
    bool has_nodes = false;
    int key;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key)) {
        if (key == 0) {
            has_pod = true;
            extender_pod_read(in, rules, &out->pod);
            continue;
        }
        if (has_nodes) {
            json_reader_fail(
                in, "NodeNameToVictims and NodeNameToMetaVictims exclude each other; one of "
                    "them must be null");
            return;
        }
        has_nodes = true;
        extender_preempt_read_nodes(in, key == 1, out);
    }
    if (!has_pod)
        json_reader_fail(in, "has no \"Pod\"");
    if (!has_nodes)
        json_reader_fail(in, "has neither \"NodeNameToMetaVictims\" nor \"NodeNameToVictims\"");
}

int extender_preempt_decode(struct text body, const struct wire_rules *rules, struct arena *arena,
                            struct extender_preempt *out, struct err *err)
{
    struct json_reader in;
    must(rules != NULL);

    *out = (struct extender_preempt){.n_nodes = 0};
    json_reader_init(&in, body, "body", arena, err);
    read_preempt(&in, rules, out);
    if (!in.failed)
        extender_preempt_check_distinct(&in, out);
    return json_reader_finish(&in);
}

/* kube-scheduler ranks the candidates by NumPDBViolations, so it is returned unchanged. */
static void write_victims(struct json_writer *json, const struct extender_victims *victims)
{
    must(victims->n_uids == 0 || victims->uid != NULL);
    json_write_object(json);
    json_write_key(json, "Pods");
    json_write_array(json);
    for (uint32_t i = 0; i < victims->n_uids; i++) {
        json_write_object(json);
        json_write_key(json, "UID");
        json_write_text(json, victims->uid[i]);
        json_write_object_end(json);
    }
    json_write_array_end(json);
    json_write_key(json, "NumPDBViolations");
    json_write_i64(json, victims->pdb_violations);
    json_write_object_end(json);
}

/* Leaving out a node removes it from the candidates. */
void extender_preempt_encode(struct strbuf *out, const struct extender_preempt *args,
                             const bool *keep)
{
    struct json_writer json;
    must(keep != NULL || args->n_nodes == 0);
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "NodeNameToMetaVictims");
    json_write_object(&json);
    for (uint32_t i = 0; i < args->n_nodes; i++)
        if (keep[i]) {
            json_write_key_text(&json, args->node[i].node);
            write_victims(&json, &args->node[i]);
        }
    json_write_object_end(&json);
    json_write_object_end(&json);
}
