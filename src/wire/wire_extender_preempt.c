#include "milligpu/wire_extender.h"

#include "wire/distinct.h"
#include "wire/kube_read.h"

static const char *const uid_keys[] = {"UID"};
static const char *const pod_keys[] = {"metadata"};

/* A victim is a whole Pod in one form and {"UID": ...} in the other. */
static void read_uid(struct jr *in, bool whole, struct text *out)
{
    must(out != NULL);

    struct jr_fields meta = JR_FIELDS(uid_keys);
    struct jr_fields pod = JR_FIELDS(pod_keys);
    struct meta_reading reading = {.user = NULL};
    int key;
    *out = (struct text){NULL, 0};
    meta_clear(&reading.is);
    if (!jr_object(in))
        return;
    if (whole) {
        while (jr_field(in, &pod, &key))
            read_meta(in, &reading);
        *out = text_of(reading.is.uid);
    } else {
        while (jr_field(in, &meta, &key))
            (void)jr_name(in, UID_BYTES_MAX, out); /* a failure sticks */
    }
    if (out->len == 0)
        jr_fail(in, "has no %s", whole ? "metadata.uid" : "\"UID\"");
}

static void read_uids(struct jr *in, bool whole, struct extender_victims *out)
{
    must(out->uids == 0);

    enum { UIDS_MAX = 1 << 20 };
    struct text uid;
    if (!jr_array(in))
        return;
    while (jr_element(in)) {
        read_uid(in, whole, &uid);
        if (in->failed)
            return;
        if (out->uids == UIDS_MAX) {
            jr_fail_as(in, ERR_TOO_LARGE, "more than %d victims", UIDS_MAX);
            return;
        }
        out->uid = arena_grow(in->arena, out->uid, out->uids, UIDS_MAX, sizeof *out->uid);
        out->uid[out->uids++] = uid;
    }
}

static const char *const victims_keys[] = {"Pods", "NumPDBViolations"};

static void read_victims(struct jr *in, bool whole, struct extender_victims *out)
{
    must(out->node.at != NULL);

    struct jr_fields fields = JR_FIELDS(victims_keys);
    int key;
    if (jr_null(in) || !jr_object(in))
        return;
    while (jr_field(in, &fields, &key)) {
        if (key == 0)
            read_uids(in, whole, out);
        else
            (void)jr_i64(in, &out->pdb_violations); /* a failure sticks */
    }
}

static void read_nodes(struct jr *in, bool whole, struct extender_preempt *out)
{
    must(out->nodes == 0);

    struct text key;
    if (!jr_object(in))
        return;
    while (jr_key(in, &key)) {
        struct extender_victims victims = {.node = key};
        if (key.len == 0 || key.len > NAME_BYTES_MAX)
            jr_fail(in, "a node's name must have 1 to %d bytes", NAME_BYTES_MAX);
        read_victims(in, whole, &victims);
        if (!in->failed && out->nodes == NODES_MAX)
            jr_fail_as(in, ERR_TOO_LARGE, "more than %d nodes (NODES_MAX)", NODES_MAX);
        if (in->failed)
            return;
        out->node = arena_grow(in->arena, out->node, out->nodes, NODES_MAX, sizeof *out->node);
        out->node[out->nodes++] = victims;
    }
}

static void check_distinct(struct jr *in, const struct extender_preempt *out)
{
    uint32_t second;
    uint32_t *hash = arena_array(in->arena, out->nodes, sizeof *hash);
    struct text *name = arena_array(in->arena, out->nodes, sizeof *name);
    must(out->nodes <= NODES_MAX);
    for (uint32_t i = 0; i < out->nodes; i++)
        name[i] = out->node[i].node;
    if (!distinct_names(in->arena, name, out->nodes, hash, &second))
        jr_fail(in, "node \"%.*s\" comes twice", TEXT_ARG(name[second]));
}

static const char *const preempt_keys[] = {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"};

static void read_preempt(struct jr *in, const struct wire_rules *rules,
                         struct extender_preempt *out)
{
    must(out->nodes == 0 && out->node == NULL);

    struct jr_fields fields = JR_FIELDS(preempt_keys);
    bool has_pod = false;
    bool has_nodes = false;
    int key;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key)) {
        if (key == 0) {
            has_pod = true;
            extender_pod_read(in, rules, &out->pod);
            continue;
        }
        if (has_nodes) {
            jr_fail(in, "NodeNameToVictims and NodeNameToMetaVictims exclude each other; one of "
                        "them must be null");
            return;
        }
        has_nodes = true;
        read_nodes(in, key == 1, out);
    }
    if (!has_pod)
        jr_fail(in, "has no \"Pod\"");
    if (!has_nodes)
        jr_fail(in, "has neither \"NodeNameToMetaVictims\" nor \"NodeNameToVictims\"");
}

int extender_preempt_decode(struct text body, const struct wire_rules *rules, struct arena *arena,
                            struct extender_preempt *out, struct err *err)
{
    struct jr in;
    must(rules != NULL);

    *out = (struct extender_preempt){.nodes = 0};
    jr_init(&in, body, "body", arena, err);
    read_preempt(&in, rules, out);
    if (!in.failed)
        check_distinct(&in, out);
    return jr_finish(&in);
}

static void write_victims(struct jw *jw, const struct extender_victims *victims)
{
    must(victims->uids == 0 || victims->uid != NULL);
    jw_object(jw);
    jw_key(jw, "Pods");
    jw_array(jw);
    for (uint32_t i = 0; i < victims->uids; i++) {
        jw_object(jw);
        jw_key(jw, "UID");
        jw_text(jw, victims->uid[i]);
        jw_object_end(jw);
    }
    jw_array_end(jw);
    jw_key(jw, "NumPDBViolations");
    jw_i64(jw, victims->pdb_violations);
    jw_object_end(jw);
}

void extender_preempt_encode(struct strbuf *out, const struct extender_preempt *args,
                             const bool *keep)
{
    struct jw jw;
    must(keep != NULL || args->nodes == 0);
    jw_init(&jw, out);
    jw_object(&jw);
    jw_key(&jw, "NodeNameToMetaVictims");
    jw_object(&jw);
    for (uint32_t i = 0; i < args->nodes; i++)
        if (keep[i]) {
            jw_key_text(&jw, args->node[i].node);
            write_victims(&jw, &args->node[i]);
        }
    jw_object_end(&jw);
    jw_object_end(&jw);
}
