/*
 * Decodes and encodes the bodies of filter, prioritize and bind. Called by webhooks.c on the HTTP
 * threads; strings stay in the body and the arena of the call. All input is bounded by limits.h;
 * names are not copied, so that a filter call with 5,000 names is cheap. kube-scheduler sends
 * NodeNames if the extender is nodeCacheCapable, else whole Nodes, and expects the same form back.
 * In order: arguments, answers, bind.
 */
#include "milligpu/wire/extender/wire_extender.h"

#include <string.h>

#include "wire/json/distinct.h"
#include "wire/kube/kube_read.h"

/* State of reading: the arrays of *out grow together. */
struct args_reading {
    struct extender_args *out;
    struct arena *arena;
    const struct wire_rules *rules;
    struct name_order *order; /* NULL: names are not guessed */
    uint32_t room;            /* capacity of the arrays of *out, in elements */
    bool may_repeat;          /* the names may not be distinct */
    /* Form of the body; at most one is set. */
    bool has_names;
    bool has_nodes;
};

/* Old arrays stay in the arena until the call ends; their sum is below the size of the last. */
static void *extender_grown(struct arena *arena, const void *items, uint32_t count, uint32_t room,
                            size_t bytes)
{
    void *to = arena_array(arena, room, bytes);
    must(count <= room);
    if (count > 0)
        memcpy(to, items, count * bytes);
    return to;
}

static bool is_guessed(const struct args_reading *reading)
{
    return reading->order != NULL && reading->has_names;
}

/* As many as came last time, and then twice as many. */
static uint32_t next_room(const struct args_reading *reading)
{
    enum { FIRST = 64 };
    const uint32_t former = is_guessed(reading) ? name_order_former(reading->order) : 0;
    const uint32_t first = former > FIRST ? former : FIRST;
    const uint32_t room = reading->room == 0 ? first : reading->room * 2;

    must(reading->room <= NODES_MAX);
    return room < NODES_MAX ? room : NODES_MAX;
}

/*
 * All arrays have the same capacity, and index i is the same node in each. Nodes are large, so they
 * get room only in the form that has them.
 */
static bool extender_make_room(struct json_reader *in, struct args_reading *reading)
{
    must(reading->out->n_names <= reading->room);

    struct extender_args *out = reading->out;
    if (out->n_names < reading->room)
        return true;
    if (out->n_names >= NODES_MAX) {
        json_reader_fail_as(in, ERR_TOO_LARGE, "more than %d nodes (NODES_MAX)", NODES_MAX);
        return false;
    }
    reading->room = next_room(reading);
    out->name =
        extender_grown(reading->arena, out->name, out->n_names, reading->room, sizeof *out->name);
    if (is_guessed(reading)) {
        out->hash = extender_grown(reading->arena, out->hash, out->n_names, reading->room,
                                   sizeof *out->hash);
        out->known = extender_grown(reading->arena, out->known, out->n_names, reading->room,
                                    sizeof *out->known);
    }
    if (reading->has_nodes) {
        out->node = extender_grown(reading->arena, out->node, out->n_names, reading->room,
                                   sizeof *out->node);
        out->node_bytes = extender_grown(reading->arena, out->node_bytes, out->n_names,
                                         reading->room, sizeof *out->node_bytes);
    }
    return true;
}

/* Appends a name; there is room. */
static inline void add_known(struct extender_args *out, struct text name, uint32_t hash,
                             const struct known_node *known)
{
    must(out->name != NULL);
    out->name[out->n_names] = name;
    out->hash[out->n_names] = hash;
    out->known[out->n_names++] = *known;
}

/* Reads the names of a guess as long as they come; returns how many did. */
static uint32_t read_guess(struct json_reader *in, struct args_reading *reading,
                           const struct known_node *guess, uint32_t count)
{
    struct extender_args *out = reading->out;
    uint32_t came = 0;

    /* At the end of a list there may be no room for another name, and no need of it. */
    for (; came < count && out->n_names < reading->room; came++) {
        const struct atom *name = guess[came].node->name;
        if (name->len > NAME_BYTES_MAX || !json_read_expected_element(in, atom_text(name)))
            break;
        const struct text read = {in->at - 1 - name->len, name->len};
        add_known(out, read, name->hash, &guess[came]);
    }
    must(came <= NAME_GUESSES);
    return came;
}

/* Hot loop of filter: reads names as long as each is the expected one. */
static void read_guesses(struct json_reader *in, struct args_reading *reading)
{
    struct known_node guess[NAME_GUESSES];
    uint32_t count;
    uint32_t came;

    must(is_guessed(reading));
    do {
        count = name_order_guess(reading->order, guess);
        came = read_guess(in, reading, guess, count);
        reading->may_repeat |= !name_order_came(reading->order, guess, came);
    } while (count > 0 && came == count);
}

/* Names are borrowed from the body. */
static void extender_read_names(struct json_reader *in, struct args_reading *reading)
{
    must(reading->has_names && !reading->has_nodes);

    struct extender_args *out = reading->out;
    if (!json_read_array(in))
        return;
    struct text name;
    while (json_read_string_element(in, &name)) {
        if (!json_read_is_name(in, NAME_BYTES_MAX, name) || !extender_make_room(in, reading))
            return;
        if (!is_guessed(reading)) {
            out->name[out->n_names++] = name;
            continue;
        }
        struct known_node known;
        const uint32_t hash = text_hash(name);
        reading->may_repeat |= !name_order_other(reading->order, name, hash, &known);
        add_known(out, name, hash, &known);
        read_guesses(in, reading);
    }
}

/* Keeps the bytes beside the facts: the answer returns the objects as sent. */
static void extender_read_node(struct json_reader *in, struct args_reading *reading)
{
    must(reading->out->full_nodes);

    struct extender_args *out = reading->out;
    const uint32_t i = out->n_names;
    if (!extender_make_room(in, reading))
        return;
    (void)json_read_peek(in); /* moves to the value's first byte */
    const char *begin = in->at;
    if (!node_read(in, reading->rules, &out->node[i]))
        return;
    out->name[i] = text_of(out->node[i].name);
    out->node_bytes[i] = (struct text){begin, (size_t)(in->at - begin)};
    if (out->name[i].len == 0)
        json_reader_fail(in, "has no metadata.name");
    out->n_names++;
}

static const char *const node_list_keys[] = {"items"};

static void extender_read_nodes(struct json_reader *in, struct args_reading *reading)
{
    must(reading->has_nodes && !reading->has_names);

    struct json_read_fields fields = JSON_FIELDS(node_list_keys);
    int key;
    reading->out->full_nodes = true;
    if (!json_read_object(in))
        return;
    while (json_read_field(in, &fields, &key))
        if (json_read_array(in))
            while (json_read_element(in))
                extender_read_node(in, reading);
}

/*
 * kube-scheduler sends the pod from its cache, so name and uid are always present. Without a uid
 * the answer could not be recorded for the pod.
 */
void extender_pod_read(struct json_reader *in, const struct wire_rules *rules, struct pod *out)
{
    if (!pod_read(in, rules, out))
        return;
    if (out->uid[0] == '\0')
        json_reader_fail(in, "has no metadata.uid");
    if (out->name[0] == '\0')
        json_reader_fail(in, "has no metadata.name");
}

/* Keeps the hashes: webhooks.c uses them to look up each name in the snapshot, and for a digest. */
static void extender_check_distinct(struct json_reader *in, struct extender_args *out)
{
    must(out->n_names <= NODES_MAX);
    must(out->n_names == 0 || out->name != NULL);

    uint32_t second;
    out->hash = arena_array(in->arena, out->n_names, sizeof *out->hash);
    if (!distinct_names(in->arena, out->name, out->n_names, out->hash, &second))
        json_reader_fail(in, "%s: node \"%.*s\" comes twice",
                         out->full_nodes ? "Nodes" : "NodeNames", TEXT_ARG(out->name[second]));
}

static const char *const args_keys[] = {"Pod", "Nodes", "NodeNames"};

static bool read_args(struct json_reader *in, struct args_reading *reading)
{
    must(reading->out->n_names == 0);

    struct json_read_fields fields = JSON_FIELDS(args_keys);
    bool has_pod = false;
    int key;
    if (!json_read_object(in))
        return false;
    while (json_read_field(in, &fields, &key)) {
        /* A null counts as absent, so {"Nodes": null, "NodeNames": [...]} is the usual body. */
        has_pod |= key == 0;
        if (key == 0)
            extender_pod_read(in, reading->rules, &reading->out->pod);
        else if (reading->has_names || reading->has_nodes)
            json_reader_fail(in,
                             "Nodes and NodeNames exclude each other; one of them must be null");
        else if (key == 1) {
            reading->has_nodes = true;
            extender_read_nodes(in, reading);
        } else {
            reading->has_names = true;
            extender_read_names(in, reading);
        }
    }
    if (!has_pod)
        json_reader_fail(in, "has no \"Pod\"");
    if (!reading->has_names && !reading->has_nodes)
        json_reader_fail(in, "has neither \"NodeNames\" nor \"Nodes\"");
    return !in->failed;
}

/* The check for duplicates comes last, because it needs all names; its error names the list. */
int extender_args_decode(struct text body, const struct wire_rules *rules, struct name_order *order,
                         struct arena *arena, struct extender_args *out, struct err *err)
{
    struct json_reader in;
    struct args_reading reading = {.out = out, .arena = arena, .rules = rules, .order = order};
    must(rules != NULL);

    *out = (struct extender_args){.n_names = 0};
    json_reader_init(&in, body, "body", arena, err);
    if (read_args(&in, &reading) && (!is_guessed(&reading) || reading.may_repeat))
        extender_check_distinct(&in, out);
    return json_reader_finish(&in);
}

static void write_chosen(struct json_writer *json, const struct extender_args *args,
                         const struct extender_filter_result *result)
{
    json_write_array(json);
    for (uint32_t i = 0; i < result->chosen; i++) {
        must(result->choice[i] < args->n_names);
        json_write_text(json, args->name[result->choice[i]]);
    }
    json_write_array_end(json);
}

/* Writes the objects as they were sent. */
static void write_nodes(struct json_writer *json, const struct extender_args *args,
                        const struct extender_filter_result *result)
{
    must(args->full_nodes);
    json_write_object(json);
    json_write_key(json, "metadata");
    json_write_object(json);
    json_write_object_end(json);
    json_write_key(json, "items");
    json_write_array(json);
    for (uint32_t i = 0; i < result->chosen; i++) {
        must(result->choice[i] < args->n_names);
        json_write_raw(json, args->node_bytes[result->choice[i]]);
    }
    json_write_array_end(json);
    json_write_object_end(json);
}

/* kube-scheduler does not try to preempt on these nodes, unlike on those in FailedNodes. */
static void write_refusals(struct json_writer *json, const struct extender_filter_result *result)
{
    must(result->n_refusals == 0 || result->refusal != NULL);
    json_write_object(json);
    for (uint32_t i = 0; i < result->n_refusals; i++) {
        json_write_key_text(json, result->refusal[i].name);
        json_write_str(json, result->refusal[i].text);
    }
    json_write_object_end(json);
}

/* All five members are always present, as Go writes them; with Error the others are empty. */
void extender_filter_encode(struct strbuf *out, const struct extender_args *args,
                            const struct extender_filter_result *result)
{
    must(args->n_names >= result->chosen || result->error != NULL);

    struct json_writer json;
    const bool good = result->error == NULL;
    must(good || result->error[0] != '\0');

    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "Nodes");
    if (good && args->full_nodes)
        write_nodes(&json, args, result);
    else
        json_write_null(&json);
    json_write_key(&json, "NodeNames");
    if (good)
        write_chosen(&json, args, result);
    else
        json_write_null(&json);
    json_write_key(&json, "FailedNodes");
    json_write_object(&json);
    json_write_object_end(&json);
    json_write_key(&json, "FailedAndUnresolvableNodes");
    if (good) {
        write_refusals(&json, result);
    } else {
        json_write_object(&json);
        json_write_object_end(&json);
    }
    json_write_key(&json, "Error");
    json_write_str(&json, good ? "" : result->error);
    json_write_object_end(&json);
}

/* The extender protocol has scores from 0 to 10, which kube-scheduler scales. */
void extender_priorities_encode(struct strbuf *out, const struct extender_args *args,
                                const uint8_t *score)
{
    must(score != NULL || args->n_names == 0);

    enum { SCORE_MAX = 10 };
    struct json_writer json;
    json_writer_init(&json, out);
    json_write_array(&json);
    for (uint32_t i = 0; i < args->n_names; i++) {
        must(score[i] <= SCORE_MAX);
        json_write_object(&json);
        json_write_key(&json, "Host");
        json_write_text(&json, args->name[i]);
        json_write_key(&json, "Score");
        json_write_u64(&json, score[i]);
        json_write_object_end(&json);
    }
    json_write_array_end(&json);
}

static const char *const bind_keys[] = {"PodName", "PodNamespace", "PodUID", "Node"};

/*
 * All four members are required: the uid prevents binding a new pod of the same name with the
 * shares of an old one. slot[] and most[] are in the order of bind_keys.
 */
int extender_bind_decode(struct text body, struct arena *arena, struct extender_bind *out,
                         struct err *err)
{
    static const size_t most[] = {NAME_BYTES_MAX, NAME_BYTES_MAX, UID_BYTES_MAX, NAME_BYTES_MAX};
    const char **const slot[] = {&out->pod, &out->namespace, &out->uid, &out->node};
    struct json_read_fields fields = JSON_FIELDS(bind_keys);
    struct json_reader in;
    int key;
    *out = (struct extender_bind){.pod = NULL};
    json_reader_init(&in, body, "body", arena, err);
    if (json_read_object(&in))
        while (json_read_field(&in, &fields, &key)) {
            struct text value;
            must(key < (int)ARRAY_LEN(slot));
            if (json_read_name(&in, most[key], &value))
                *slot[key] = arena_copy(arena, value);
        }
    for (size_t i = 0; i < ARRAY_LEN(slot); i++)
        if (*slot[i] == NULL)
            json_reader_fail(&in, "has no \"%s\"", bind_keys[i]);
    return json_reader_finish(&in);
}

void extender_bind_encode(struct strbuf *out, const char *error)
{
    struct json_writer json;
    must(error == NULL || error[0] != '\0');
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "Error");
    json_write_str(&json, error != NULL ? error : "");
    json_write_object_end(&json);
}
