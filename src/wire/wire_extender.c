#include "milligpu/wire_extender.h"

#include <string.h>

#include "wire/distinct.h"
#include "wire/kube_read.h"

/* The arrays of *out while they grow together. */
struct args_reading {
    struct extender_args *out;
    struct arena *arena;
    const struct wire_rules *rules;
    uint32_t room;
    bool has_names;
    bool has_nodes;
};

static void *grown(struct arena *arena, const void *items, uint32_t count, uint32_t room,
                   size_t bytes)
{
    void *to = arena_array(arena, room, bytes);
    must(count <= room);
    if (count > 0)
        memcpy(to, items, count * bytes);
    return to;
}

static bool make_room(struct jr *in, struct args_reading *reading)
{
    must(reading->out->names <= reading->room);

    enum { FIRST = 64 };
    struct extender_args *out = reading->out;
    if (out->names < reading->room)
        return true;
    if (out->names >= NODES_MAX) {
        jr_fail_as(in, ERR_TOO_LARGE, "more than %d nodes (NODES_MAX)", NODES_MAX);
        return false;
    }
    reading->room = reading->room == 0 ? FIRST : reading->room * 2;
    out->name = grown(reading->arena, out->name, out->names, reading->room, sizeof *out->name);
    if (reading->has_nodes) {
        out->node = grown(reading->arena, out->node, out->names, reading->room, sizeof *out->node);
        out->node_bytes = grown(reading->arena, out->node_bytes, out->names, reading->room,
                                sizeof *out->node_bytes);
    }
    return true;
}

static void read_names(struct jr *in, struct args_reading *reading)
{
    must(reading->has_names && !reading->has_nodes);

    struct extender_args *out = reading->out;
    if (!jr_array(in))
        return;
    struct text name;
    while (jr_string_element(in, &name)) {
        if (!jr_is_name(in, NAME_BYTES_MAX, name) || !make_room(in, reading))
            return;
        out->name[out->names++] = name;
    }
}

static void read_node(struct jr *in, struct args_reading *reading)
{
    must(reading->out->full_nodes);

    struct extender_args *out = reading->out;
    const uint32_t i = out->names;
    if (!make_room(in, reading))
        return;
    (void)jr_peek(in); /* moves to the value's first byte */
    const char *begin = in->at;
    if (!node_read(in, reading->rules, &out->node[i]))
        return;
    out->name[i] = text_of(out->node[i].name);
    out->node_bytes[i] = (struct text){begin, (size_t)(in->at - begin)};
    if (out->name[i].len == 0)
        jr_fail(in, "has no metadata.name");
    out->names++;
}

static const char *const node_list_keys[] = {"items"};

static void read_nodes(struct jr *in, struct args_reading *reading)
{
    must(reading->has_nodes && !reading->has_names);

    struct jr_fields fields = JR_FIELDS(node_list_keys);
    int key;
    reading->out->full_nodes = true;
    if (!jr_object(in))
        return;
    while (jr_field(in, &fields, &key))
        if (jr_array(in))
            while (jr_element(in))
                read_node(in, reading);
}

void extender_pod_read(struct jr *in, const struct wire_rules *rules, struct pod *out)
{
    must(out != NULL);

    if (!pod_read(in, rules, out))
        return;
    if (out->uid[0] == '\0')
        jr_fail(in, "has no metadata.uid");
    if (out->name[0] == '\0')
        jr_fail(in, "has no metadata.name");
}

static void check_distinct(struct jr *in, struct extender_args *out)
{
    must(out->names <= NODES_MAX);
    must(out->names == 0 || out->name != NULL);

    uint32_t second;
    out->hash = arena_array(in->arena, out->names, sizeof *out->hash);
    if (!distinct_names(in->arena, out->name, out->names, out->hash, &second))
        jr_fail(in, "%s: node \"%.*s\" comes twice", out->full_nodes ? "Nodes" : "NodeNames",
                TEXT_ARG(out->name[second]));
}

static const char *const args_keys[] = {"Pod", "Nodes", "NodeNames"};

static bool read_args(struct jr *in, struct args_reading *reading)
{
    must(reading->out->names == 0);

    struct jr_fields fields = JR_FIELDS(args_keys);
    bool has_pod = false;
    int key;
    if (!jr_object(in))
        return false;
    while (jr_field(in, &fields, &key)) {
        has_pod |= key == 0;
        if (key == 0)
            extender_pod_read(in, reading->rules, &reading->out->pod);
        else if (reading->has_names || reading->has_nodes)
            jr_fail(in, "Nodes and NodeNames exclude each other; one of them must be null");
        else if (key == 1) {
            reading->has_nodes = true;
            read_nodes(in, reading);
        } else {
            reading->has_names = true;
            read_names(in, reading);
        }
    }
    if (!has_pod)
        jr_fail(in, "has no \"Pod\"");
    if (!reading->has_names && !reading->has_nodes)
        jr_fail(in, "has neither \"NodeNames\" nor \"Nodes\"");
    return !in->failed;
}

int extender_args_decode(struct text body, const struct wire_rules *rules, struct arena *arena,
                         struct extender_args *out, struct err *err)
{
    struct jr in;
    struct args_reading reading = {.out = out, .arena = arena, .rules = rules};
    must(rules != NULL);

    *out = (struct extender_args){.names = 0};
    jr_init(&in, body, "body", arena, err);
    if (read_args(&in, &reading))
        check_distinct(&in, out);
    return jr_finish(&in);
}

static void write_chosen(struct jw *jw, const struct extender_args *args,
                         const struct extender_filter_result *result)
{
    jw_array(jw);
    for (uint32_t i = 0; i < result->chosen; i++) {
        must(result->choice[i] < args->names);
        jw_text(jw, args->name[result->choice[i]]);
    }
    jw_array_end(jw);
}

/* The objects as they were sent. */
static void write_nodes(struct jw *jw, const struct extender_args *args,
                        const struct extender_filter_result *result)
{
    must(args->full_nodes);
    jw_object(jw);
    jw_key(jw, "metadata");
    jw_object(jw);
    jw_object_end(jw);
    jw_key(jw, "items");
    jw_array(jw);
    for (uint32_t i = 0; i < result->chosen; i++) {
        must(result->choice[i] < args->names);
        jw_raw(jw, args->node_bytes[result->choice[i]]);
    }
    jw_array_end(jw);
    jw_object_end(jw);
}

static void write_refusals(struct jw *jw, const struct extender_filter_result *result)
{
    must(result->refusals == 0 || result->refusal != NULL);
    jw_object(jw);
    for (uint32_t i = 0; i < result->refusals; i++) {
        jw_key_text(jw, result->refusal[i].name);
        jw_str(jw, result->refusal[i].text);
    }
    jw_object_end(jw);
}

void extender_filter_encode(struct strbuf *out, const struct extender_args *args,
                            const struct extender_filter_result *result)
{
    must(args->names >= result->chosen || result->error != NULL);

    struct jw jw;
    const bool good = result->error == NULL;
    must(good || result->error[0] != '\0');

    jw_init(&jw, out);
    jw_object(&jw);
    jw_key(&jw, "Nodes");
    if (good && args->full_nodes)
        write_nodes(&jw, args, result);
    else
        jw_null(&jw);
    jw_key(&jw, "NodeNames");
    if (good)
        write_chosen(&jw, args, result);
    else
        jw_null(&jw);
    jw_key(&jw, "FailedNodes");
    jw_object(&jw);
    jw_object_end(&jw);
    jw_key(&jw, "FailedAndUnresolvableNodes");
    if (good) {
        write_refusals(&jw, result);
    } else {
        jw_object(&jw);
        jw_object_end(&jw);
    }
    jw_key(&jw, "Error");
    jw_str(&jw, good ? "" : result->error);
    jw_object_end(&jw);
}

void extender_priorities_encode(struct strbuf *out, const struct extender_args *args,
                                const uint8_t *score)
{
    must(score != NULL || args->names == 0);

    enum { SCORE_MAX = 10 };
    struct jw jw;
    jw_init(&jw, out);
    jw_array(&jw);
    for (uint32_t i = 0; i < args->names; i++) {
        must(score[i] <= SCORE_MAX);
        jw_object(&jw);
        jw_key(&jw, "Host");
        jw_text(&jw, args->name[i]);
        jw_key(&jw, "Score");
        jw_u64(&jw, score[i]);
        jw_object_end(&jw);
    }
    jw_array_end(&jw);
}

static const char *const bind_keys[] = {"PodName", "PodNamespace", "PodUID", "Node"};

int extender_bind_decode(struct text body, struct arena *arena, struct extender_bind *out,
                         struct err *err)
{
    static const size_t most[] = {NAME_BYTES_MAX, NAME_BYTES_MAX, UID_BYTES_MAX, NAME_BYTES_MAX};
    const char **const slot[] = {&out->pod, &out->namespace, &out->uid, &out->node};
    struct jr_fields fields = JR_FIELDS(bind_keys);
    struct jr in;
    int key;
    *out = (struct extender_bind){.pod = NULL};
    jr_init(&in, body, "body", arena, err);
    if (jr_object(&in))
        while (jr_field(&in, &fields, &key)) {
            struct text value;
            must(key < (int)ARRAY_LEN(slot));
            if (jr_name(&in, most[key], &value))
                *slot[key] = arena_copy(arena, value);
        }
    for (size_t i = 0; i < ARRAY_LEN(slot); i++)
        if (*slot[i] == NULL)
            jr_fail(&in, "has no \"%s\"", bind_keys[i]);
    return jr_finish(&in);
}

void extender_bind_encode(struct strbuf *out, const char *error)
{
    struct jw jw;
    must(error == NULL || error[0] != '\0');
    jw_init(&jw, out);
    jw_object(&jw);
    jw_key(&jw, "Error");
    jw_str(&jw, error != NULL ? error : "");
    jw_object_end(&jw);
}
