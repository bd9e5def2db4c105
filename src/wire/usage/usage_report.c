/*
 * Encodes and decodes usage reports. The agent's sender encodes; milligpud's report listener
 * decodes untrusted bodies: sizes are checked before memory is allocated, against the limits here
 * and the size of the body. In order: encoding, decoding from the inside out.
 */
#include "milligpu/wire/usage/usage_report.h"

#include "milligpu/wire/json/json.h"

#include "wire/json/distinct.h"
#include "wire/kube/kube_read.h"

const char *usage_over_name(enum usage_over over)
{
    /* In the order of the enum. */
    static const char *const names[] = {NULL, "seen", "killed"};

    must((size_t)over < ARRAY_LEN(names));
    return names[over];
}

/* --- encoding --- */

static void put_amount(struct json_writer *json, const char *key, int32_t amount)
{
    must(amount >= USAGE_UNKNOWN);
    if (amount == USAGE_UNKNOWN)
        return;
    json_write_key(json, key);
    json_write_i64(json, amount);
}

static void put_container(struct json_writer *json, const struct usage_container *container)
{
    must(container->n_gpus <= GPUS_PER_NODE_MAX && container->name.len > 0);
    json_write_object(json);
    json_write_key(json, "name");
    json_write_text(json, container->name);
    json_write_key(json, "gpus");
    json_write_array(json);
    for (uint32_t i = 0; i < container->n_gpus; i++) {
        const struct usage_gpu *gpu = &container->gpu[i];
        must(gpu->milli <= GPU_MILLI);
        must(!gpu->is_scaled || gpu->milli != USAGE_UNKNOWN);
        json_write_object(json);
        json_write_key(json, "gpu");
        json_write_text(json, gpu->gpu);
        put_amount(json, "milli", gpu->milli);
        if (gpu->is_scaled) {
            json_write_key(json, "scaled");
            json_write_bool(json, true);
        }
        put_amount(json, "mib", gpu->mib);
        put_amount(json, "peakMib", gpu->peak_mib);
        json_write_object_end(json);
    }
    json_write_array_end(json);
    if (container->over != USAGE_OVER_NOT) {
        json_write_key(json, "over");
        json_write_str(json, usage_over_name(container->over));
    }
    json_write_object_end(json);
}

static void put_pod(struct json_writer *json, const struct usage_pod *pod)
{
    must(pod->n_containers <= CONTAINERS_MAX && pod->uid.len > 0);
    json_write_object(json);
    json_write_key(json, "uid");
    json_write_text(json, pod->uid);
    json_write_key(json, "containers");
    json_write_array(json);
    for (uint32_t i = 0; i < pod->n_containers; i++)
        put_container(json, &pod->container[i]);
    json_write_array_end(json);
    json_write_object_end(json);
}

void usage_report_encode(struct strbuf *out, const struct usage_report *report)
{
    struct json_writer json;

    must(report->n_pods <= USAGE_PODS_MAX && report->number > 0);
    must(report->seconds > 0 && report->seconds <= USAGE_SECONDS_MAX);
    json_writer_init(&json, out);
    json_write_object(&json);
    json_write_key(&json, "v");
    json_write_u64(&json, 1);
    json_write_key(&json, "node");
    json_write_text(&json, report->node);
    json_write_key(&json, "number");
    json_write_u64(&json, report->number);
    json_write_key(&json, "seconds");
    json_write_u64(&json, report->seconds);
    json_write_key(&json, "pods");
    json_write_array(&json);
    for (uint32_t i = 0; i < report->n_pods; i++)
        put_pod(&json, &report->pod[i]);
    json_write_array_end(&json);
    json_write_object_end(&json);
}

/* --- decoding --- */

/* Called behind the object; fails the reader if the member is missing. */
static void demand(struct json_reader *in, bool present, const char *key)
{
    must(key[0] != '\0');
    if (!present)
        json_reader_fail(in, "has no \"%s\"", key);
}

/* Called behind the list; the error names the index of the later of two equal names. */
static void demand_distinct(struct json_reader *in, const struct text *name, uint32_t count)
{
    uint32_t hash[USAGE_PODS_MAX]; /* enough for each of the lists */
    uint32_t second = 0;

    static_assert((int)CONTAINERS_MAX <= (int)USAGE_PODS_MAX &&
                      (int)GPUS_PER_NODE_MAX <= (int)USAGE_PODS_MAX,
                  "there is room for any");
    must(count <= ARRAY_LEN(hash));
    if (!in->failed && !distinct_names(in->arena, name, count, hash, &second))
        json_reader_fail(in, "names \"%.*s\" twice, the second time at [%u]",
                         (int)text_first(name[second], 80).len, name[second].at, second);
}

static void read_usage_amount(struct json_reader *in, int64_t most, int32_t *out)
{
    int64_t value = 0;

    must(most <= INT32_MAX);
    if (read_number(in, 0, most, &value))
        *out = (int32_t)value;
}

static void read_usage_gpu(struct json_reader *in, struct usage_gpu *out)
{
    static const char *const keys[] = {"gpu", "milli", "mib", "peakMib", "scaled"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    int key;

    *out =
        (struct usage_gpu){.milli = USAGE_UNKNOWN, .mib = USAGE_UNKNOWN, .peak_mib = USAGE_UNKNOWN};
    json_read_object(in);
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_name(in, GPU_ID_BYTES_MAX, &out->gpu); /* the error sticks */
        else if (key == 1)
            read_usage_amount(in, GPU_MILLI, &out->milli);
        else if (key == 4)
            (void)json_read_bool(in, &out->is_scaled); /* the error sticks */
        else
            read_usage_amount(in, INT32_MAX, key == 2 ? &out->mib : &out->peak_mib);
    }
    out->is_scaled = out->is_scaled && out->milli != USAGE_UNKNOWN;
    demand(in, out->gpu.len > 0, keys[0]);
}

static void too_many(struct json_reader *in, uint32_t most)
{
    must(most > 0);
    json_reader_fail_as(in, ERR_TOO_LARGE, "is one more than the %u that are allowed here", most);
}

static void read_usage_gpus(struct json_reader *in, struct usage_container *out)
{
    struct text name[GPUS_PER_NODE_MAX];

    json_read_array(in);
    while (json_read_element(in)) {
        if (out->n_gpus == GPUS_PER_NODE_MAX) {
            too_many(in, GPUS_PER_NODE_MAX);
            return;
        }
        out->gpu =
            arena_grow(in->arena, out->gpu, out->n_gpus, GPUS_PER_NODE_MAX, sizeof *out->gpu);
        read_usage_gpu(in, &out->gpu[out->n_gpus]);
        name[out->n_gpus] = out->gpu[out->n_gpus].gpu;
        out->n_gpus++;
    }
    demand_distinct(in, name, out->n_gpus);
}

static void read_over(struct json_reader *in, enum usage_over *out)
{
    struct text word = {NULL, 0};

    if (!json_read_string(in, &word))
        return;
    for (int over = USAGE_OVER_SEEN; over <= USAGE_OVER_KILLED; over++)
        if (text_is(word, usage_over_name((enum usage_over)over))) {
            *out = (enum usage_over)over;
            return;
        }
    json_reader_fail(in, "must be \"seen\" or \"killed\", or left out");
}

static void read_usage_container(struct json_reader *in, struct usage_container *out)
{
    static const char *const keys[] = {"name", "gpus", "over"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    int key;

    *out = (struct usage_container){.n_gpus = 0};
    json_read_object(in);
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_name(in, NAME_BYTES_MAX, &out->name); /* the error sticks */
        else if (key == 1)
            read_usage_gpus(in, out);
        else
            read_over(in, &out->over);
    }
    demand(in, out->name.len > 0, keys[0]);
}

static void read_usage_containers(struct json_reader *in, struct usage_pod *out)
{
    struct text name[CONTAINERS_MAX];

    json_read_array(in);
    while (json_read_element(in)) {
        if (out->n_containers == CONTAINERS_MAX) {
            too_many(in, CONTAINERS_MAX);
            return;
        }
        out->container = arena_grow(in->arena, out->container, out->n_containers, CONTAINERS_MAX,
                                    sizeof *out->container);
        read_usage_container(in, &out->container[out->n_containers]);
        name[out->n_containers] = out->container[out->n_containers].name;
        out->n_containers++;
    }
    demand_distinct(in, name, out->n_containers);
}

static void read_usage_pod(struct json_reader *in, struct usage_pod *out)
{
    static const char *const keys[] = {"uid", "containers"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    int key;

    *out = (struct usage_pod){.n_containers = 0};
    json_read_object(in);
    while (json_read_field(in, &fields, &key)) {
        if (key == 0)
            (void)json_read_name(in, UID_BYTES_MAX, &out->uid); /* the error sticks */
        else
            read_usage_containers(in, out);
    }
    demand(in, out->uid.len > 0, keys[0]);
}

static void read_usage_pods(struct json_reader *in, struct usage_report *out)
{
    struct text name[USAGE_PODS_MAX];

    json_read_array(in);
    while (json_read_element(in)) {
        if (out->n_pods == USAGE_PODS_MAX) {
            too_many(in, USAGE_PODS_MAX);
            return;
        }
        out->pod = arena_grow(in->arena, out->pod, out->n_pods, USAGE_PODS_MAX, sizeof *out->pod);
        read_usage_pod(in, &out->pod[out->n_pods]);
        name[out->n_pods] = out->pod[out->n_pods].uid;
        out->n_pods++;
    }
    demand_distinct(in, name, out->n_pods);
}

static void read_report_member(struct json_reader *in, int key, struct usage_report *out)
{
    int64_t value = 0;

    switch (key) {
    case 0:
        if (json_read_i64(in, &value) && value != 1)
            json_reader_fail(in, "is %lld, and this milligpud knows 1 only", (long long)value);
        return;
    case 1:
        (void)json_read_name(in, NAME_BYTES_MAX, &out->node); /* the error sticks */
        return;
    case 2:
        if (read_number(in, 1, INT64_MAX, &value))
            out->number = (uint64_t)value;
        return;
    case 3:
        if (read_number(in, 1, USAGE_SECONDS_MAX, &value))
            out->seconds = (uint32_t)value;
        return;
    default:
        read_usage_pods(in, out);
    }
}

int usage_report_decode(struct text body, struct arena *arena, struct usage_report *out,
                        struct err *err)
{
    static const char *const keys[] = {"v", "node", "number", "seconds", "pods"};
    struct json_read_fields fields = JSON_FIELDS(keys);
    struct json_reader in;
    int key;

    *out = (struct usage_report){.n_pods = 0};
    if (body.len > USAGE_BODY_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE, "report: has %zu bytes, more than %d", body.len,
                       USAGE_BODY_BYTES_MAX);
    json_reader_init(&in, body, "report", arena, err);
    json_read_object(&in);
    while (json_read_field(&in, &fields, &key))
        read_report_member(&in, key, out);
    (void)need_field(&in, &fields, 0); /* the error sticks */
    demand(&in, out->node.len > 0, keys[1]);
    demand(&in, out->number > 0, keys[2]);
    demand(&in, out->seconds > 0, keys[3]);
    return json_reader_finish(&in);
}
