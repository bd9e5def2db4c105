/*
 * Reads the GPUs of a Node object from its annotation, its labels or its allocatable. Called by the
 * writer for each Node from the informer, and by webhooks.c in HTTP threads for Nodes in a webhook
 * body. Device plugins, node agents and people write these values, so each is checked before use,
 * and the first error stops the parse. Unreadable values become a problem, never a node without
 * GPUs (docs/why/011-unreadable-objects-still-count.md). An invalid word that leaves the GPUs
 * usable is a slip, which drift shows. Parts: problems, GPUs known by number, each source, the
 * choice among them, slips.
 */
#include "milligpu/core/facts/inventory.h"

#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/quantity.h"

/* Limit of the bytes of foreign text quoted in an error message. */
enum { QUOTE_MAX = 48 };

/* node.h stores both in 16 bits. */
enum { INDEX_MAX = UINT16_MAX, NUMA_MAX = INT16_MAX };
static_assert((int)GPUS_PER_NODE_MAX <= (int)INDEX_MAX, "made-up indexes fit too");

struct inventory_reading {
    const struct node_facts *facts;
    const struct inventory_rules *rules;
    struct arena *arena;
    struct inventory *out;
};

/*
 * Leaves out all GPUs, with the text in buf, which is released. Sets silent if the GPUs exist but
 * are unreadable, so that the GPUs known before stay; with the other problems they are not ours to
 * share.
 */
static void leave_out(struct inventory_reading *reading, enum inventory_problem problem,
                      struct strbuf *buf)
{
    must(problem != PROBLEM_NONE);
    must(reading->out->problem == PROBLEM_NONE); /* the first error ends the parse */
    must(reading->out->n_gpus == 0 && reading->out->gpu == NULL);
    must(buf->len > 0);

    reading->out->problem = problem;
    reading->out->silent =
        problem == PROBLEM_ANNOTATION || problem == PROBLEM_AMOUNT || problem == PROBLEM_LIMIT;
    text_clip((struct text){buf->data, buf->len}, reading->out->problem_text,
              sizeof reading->out->problem_text);
    strbuf_done(buf);
}

static void add_quoted(struct strbuf *buf, const char *text)
{
    must(text != NULL);

    char shown[QUOTE_MAX];
    text_clip(text_of(text), shown, sizeof shown);
    strbuf_printf(buf, "\"%s\"", shown);
    must(buf->len >= 2);
}

/* Feature discovery also writes labels with the value "false". */
static bool says_yes(const char *label)
{
    const struct text text = text_of(label);
    return text.len > 0 && !text_is(text, "none") && !text_is(text, "false") &&
           !text_is(text, "0") && !text_is(text, "1");
}

/* Parses a non-negative integer from foreign text. */
static bool parse_whole(const char *text, uint64_t *out)
{
    int64_t value = 0;
    must(out != NULL);
    if (text == NULL || quantity_parse(text_of(text), 0, &value) != QUANTITY_OK || value < 0)
        return false;
    must(value >= 0);
    *out = (uint64_t)value;
    return true;
}

/* An agent reports MIG for each GPU, and labels only for the whole node. */
static bool agent_names_gpus(const struct node_facts *facts)
{
    must(facts->n_gpus == 0 || facts->gpu != NULL);
    must(facts->name != NULL);
    return facts->agent && (facts->has_gpus || facts->gpus_error != NULL);
}

/* A GPU shared by MIG or time-slicing would be granted a second time by us. */
static bool leave_out_partitioned(struct inventory_reading *reading)
{
    const struct node_facts *facts = reading->facts;
    const bool mig = says_yes(facts->label_mig);
    must(reading->out->source == SOURCE_NONE);
    if (agent_names_gpus(facts) || (!mig && !says_yes(facts->label_sharing)))
        return false;
    must(mig || facts->label_sharing != NULL);

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf, "the node's labels say %s: ", mig ? "MIG" : "time-slicing or MPS");
    add_quoted(&buf, mig ? facts->label_mig : facts->label_sharing);
    leave_out(reading, mig ? PROBLEM_MIG : PROBLEM_SHARING, &buf);
    return true;
}

/*
 * Excludes a node, with any source of GPUs, if NVIDIA's operator binds them to the driver of
 * virtual machines, or if the device plugin renamed its resource because it hands out parts.
 */
static bool leave_out_given_away(struct inventory_reading *reading)
{
    const struct node_facts *facts = reading->facts;
    const bool machines = text_starts(text_of(facts->label_workload), "vm-");
    uint64_t shared = facts->whole_shared != NULL; /* an unreadable amount counts as 1 */
    (void)parse_whole(facts->whole_shared, &shared);
    must(reading->out->source == SOURCE_NONE);
    if (!machines && shared == 0)
        return false;

    struct strbuf buf;
    strbuf_init(&buf);
    if (machines) {
        must(facts->label_workload != NULL);
        strbuf_str(&buf,
                   "label nvidia.com/gpu.workload.config gives the GPUs to virtual machines: ");
        add_quoted(&buf, facts->label_workload);
    } else {
        strbuf_str(&buf, "status shows GPUs shared by time-slicing or MPS: ");
        add_quoted(&buf, facts->whole_shared);
        strbuf_str(&buf, " of the resource whose name ends in .shared");
    }
    leave_out(reading, machines ? PROBLEM_VIRTUAL_MACHINES : PROBLEM_SHARING, &buf);
    return true;
}

static bool leave_out_limit(struct inventory_reading *reading, const char *field, uint64_t gpus)
{
    must(field != NULL);
    must(reading->out->n_gpus == 0);
    if (gpus <= GPUS_PER_NODE_MAX)
        return false;

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf, "%s: %llu GPUs, at most %d can be kept", field, (unsigned long long)gpus,
                  GPUS_PER_NODE_MAX);
    leave_out(reading, PROBLEM_LIMIT, &buf);
    return true;
}

/* Model names in the spelling of labels: blanks become '-'. */
static const char *inventory_model_of(struct arena *arena, const char *given)
{
    const struct text text = text_trim(text_of(given));
    if (text.len > MODEL_BYTES_MAX)
        return "";
    char *model = arena_copy(arena, text);
    for (char *c = model; *c != '\0'; c++)
        if (*c == ' ' || *c == '\t')
            *c = '-';
    must(model[text.len] == '\0');
    must(strchr(model, ' ') == NULL);
    return model;
}

/*
 * Unique in the cluster, because node names contain no '/'. Avoids printf, because it runs for each
 * GPU at each heartbeat.
 */
static const char *made_up_id(const struct inventory_reading *reading, uint32_t index)
{
    CLEANUP(strbuf_done) struct strbuf id;

    must(reading->facts->name != NULL);
    must(index <= INDEX_MAX);
    strbuf_init(&id);
    strbuf_str(&id, reading->facts->name);
    strbuf_str(&id, "/gpu-");
    strbuf_u64(&id, index);
    return arena_copy(reading->arena, (struct text){id.data, id.len});
}

/* Makes up GPUs known only by a count: all equal, except that the last may be smaller. */
static void inventory_make_up(struct inventory_reading *reading, uint32_t whole,
                              uint32_t last_milli)
{
    struct inventory *out = reading->out;
    must(out->n_gpus == 0);
    must(last_milli < GPU_MILLI);
    must(whole + (last_milli > 0) <= GPUS_PER_NODE_MAX);

    uint64_t mib = 0;
    if (!parse_whole(reading->facts->label_memory, &mib) || mib > UINT32_MAX)
        mib = 0;
    const char *model = inventory_model_of(reading->arena, reading->facts->label_product);
    out->n_gpus = whole + (last_milli > 0);
    out->gpu = arena_array(reading->arena, out->n_gpus, sizeof *out->gpu);
    for (uint32_t i = 0; i < out->n_gpus; i++)
        out->gpu[i] = (struct gpu_facts){.id = made_up_id(reading, i),
                                         .model = model,
                                         .index = i,
                                         .milli = i < whole ? GPU_MILLI : last_milli,
                                         .mib = (uint32_t)mib,
                                         .numa = -1,
                                         .healthy = true};
}

/* Returns false, for `return`. */
static bool leave_out_entry(struct inventory_reading *reading, uint32_t entry, const char *what)
{
    struct strbuf buf;
    must(what != NULL);
    must(entry < reading->facts->n_gpus);
    strbuf_init(&buf);
    strbuf_printf(&buf, "annotation milligpu.io/gpus: [%u].%s", entry, what);
    leave_out(reading, PROBLEM_ANNOTATION, &buf);
    return false;
}

/* Ids appear in comma-separated lists, in logs and in NVIDIA_VISIBLE_DEVICES. */
static bool is_id(struct text id)
{
    must(id.at != NULL || id.len == 0);

    if (id.len == 0 || id.len > GPU_ID_BYTES_MAX)
        return false;
    for (size_t i = 0; i < id.len; i++)
        if (id.at[i] <= ' ' || id.at[i] > '~' || id.at[i] == ',' || id.at[i] == '"')
            return false;
    return true;
}

/* An entry may contain a made-up id of this node only at the matching index. */
static bool id_suits_index(const struct inventory_reading *reading, const struct gpu_facts *gpu)
{
    const struct text node = text_of(reading->facts->name);
    const struct text id = text_of(gpu->id);
    must(gpu->id != NULL);
    must(gpu->index <= INDEX_MAX);

    if (!text_starts(id, reading->facts->name) || id.len == node.len || id.at[node.len] != '/')
        return true;
    return text_is(id, made_up_id(reading, gpu->index));
}

/* Checks one entry of the annotation. Returns false after leaving out all GPUs. */
static bool check_entry(struct inventory_reading *reading, uint32_t entry)
{
    const struct gpu_facts *gpu = &reading->facts->gpu[entry];
    must(entry < reading->facts->n_gpus);
    static_assert(GPU_ID_BYTES_MAX == 288 && MODEL_BYTES_MAX == 128 && GPU_MILLI == 1000 &&
                      INDEX_MAX == 65535 && NUMA_MAX == 32767,
                  "the texts below say these numbers");

    if (!is_id(text_of(gpu->id)))
        return leave_out_entry(reading, entry,
                               "uuid: 1 to 288 printable characters without blanks, commas and "
                               "quotes would be right");
    if (gpu->index > INDEX_MAX)
        return leave_out_entry(reading, entry, "index: 0 to 65535 would be right");
    if (!id_suits_index(reading, gpu))
        return leave_out_entry(reading, entry, "uuid: it is the made-up id of another index");
    if (gpu->milli < 1 || gpu->milli > GPU_MILLI)
        return leave_out_entry(reading, entry, "milli: 1 to 1000 would be right");
    if (gpu->numa < -1 || gpu->numa > NUMA_MAX)
        return leave_out_entry(reading, entry, "numa: -1 to 32767 would be right");
    if (text_of(gpu->model).len > MODEL_BYTES_MAX)
        return leave_out_entry(reading, entry, "model: at most 128 characters would be right");
    return true;
}

/* Checks that no two entries name the same GPU. */
static bool inventory_check_distinct(struct inventory_reading *reading, uint32_t entry)
{
    const struct gpu_facts *gpu = reading->facts->gpu;
    must(entry < reading->facts->n_gpus);
    must(gpu[entry].id != NULL);

    for (uint32_t i = 0; i < entry; i++) {
        if (gpu[i].index == gpu[entry].index)
            return leave_out_entry(reading, entry, "index: another entry has it too");
        if (strcmp(gpu[i].id, gpu[entry].id) == 0)
            return leave_out_entry(reading, entry, "uuid: another entry has it too");
    }
    return true;
}

static int inventory_by_index(const void *left, const void *right)
{
    const struct gpu_facts *a = left;
    const struct gpu_facts *b = right;
    must(a->id != NULL && b->id != NULL);
    return (a->index > b->index) - (a->index < b->index);
}

static const struct health_word {
    const char *word;
    bool healthy;
} health_words[] = {
#define X(word, healthy) {word, healthy},
    HEALTH_WORDS(X)
#undef X
};

/* Returns NULL if the word is not one of HEALTH_WORDS. */
static const struct health_word *find_health(const char *word)
{
    const struct text said = text_trim(text_of(word));
    must(word != NULL);
    must(said.len <= strlen(word));
    for (size_t i = 0; i < ARRAY_LEN(health_words); i++)
        if (text_glob(text_of(health_words[i].word), said))
            return &health_words[i];
    return NULL;
}

/* An unknown word closes the GPU: it is unlikely to mean healthy. */
static bool is_healthy(const char *word)
{
    if (word == NULL)
        return true;
    const struct health_word *known = find_health(word);
    return known != NULL && known->healthy;
}

bool hold_kind(const char *word, enum hold_kind *out, struct text *out_uid)
{
    static const struct {
        const char *word;
        enum hold_kind kind;
        bool names_pod;
    } row[] = {{"pod:", HOLD_POD, true},
               {"env:", HOLD_VARIABLE, true},
               {"process", HOLD_PROCESS, false},
               {"mig", HOLD_MIG, false},
               {"unknown", HOLD_UNKNOWN, false}};
    const struct text said = text_of(word);

    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const size_t len = strlen(row[i].word);
        if (!text_starts(said, row[i].word) || (said.len > len) != row[i].names_pod ||
            said.len > HOLD_BYTES_MAX)
            continue;
        *out = row[i].kind;
        *out_uid = (struct text){said.at + len, said.len - len};
        return true;
    }
    must(word != NULL);
    return false;
}

/* An unknown word closes the GPU, as an unknown word for its health. */
static const char *read_hold(const char *word)
{
    enum hold_kind kind;
    struct text uid;

    if (word == NULL)
        return NULL;
    const bool known = hold_kind(word, &kind, &uid);
    must(!known || text_of(word).len <= HOLD_BYTES_MAX);
    return known ? word : "unknown";
}

/* Formats the untrusted reason and since for display; NULL if there is no reason. */
static const char *read_illness(const struct inventory_reading *reading,
                                const struct gpu_facts *given)
{
    enum { REASON_SHOWN = 128, SINCE_SHOWN = 40 };
    char reason[REASON_SHOWN];
    char since[SINCE_SHOWN];

    must(reading->arena != NULL);
    must(!is_healthy(given->health));
    if (given->reason == NULL || given->reason[0] == '\0')
        return NULL;
    text_clip(text_of(given->reason), reason, sizeof reason);
    if (given->since == NULL || given->since[0] == '\0')
        return arena_copy(reading->arena, text_of(reason));
    text_clip(text_of(given->since), since, sizeof since);
    must(since[0] != '\0');
    return arena_printf(reading->arena, "%s, since %s", reason, since);
}

/* An entry with only a made-up id has no alias. */
static void inventory_copy_entry(const struct inventory_reading *reading,
                                 const struct gpu_facts *given, struct gpu_facts *gpu)
{
    const char *made_up = made_up_id(reading, given->index);
    must(given->milli >= 1 && given->milli <= GPU_MILLI);
    must(given->numa >= -1 && given->numa <= NUMA_MAX);

    *gpu = *given;
    gpu->alias = strcmp(made_up, given->id) == 0 ? NULL : made_up;
    gpu->model = inventory_model_of(reading->arena, given->model);
    gpu->healthy = is_healthy(given->health);
    gpu->held = read_hold(given->held);
    gpu->ill = gpu->healthy ? NULL : read_illness(reading, given);
    gpu->cordoned = false; /* set later by check_cordon() */
    gpu->peers = 0;        /* set later by check_nvlink(), from the facts */
    gpu->n_nvlinks = 0;
    gpu->nvlink = NULL;
}

/* Takes all entries or none: with a part of them, the other GPUs would seem to be gone. */
static void inventory_take_annotation(struct inventory_reading *reading)
{
    const struct node_facts *facts = reading->facts;
    struct inventory *out = reading->out;
    must(facts->n_gpus == 0 || facts->gpu != NULL);

    out->source = SOURCE_ANNOTATION;
    if (leave_out_limit(reading, "annotation milligpu.io/gpus", facts->n_gpus))
        return;
    for (uint32_t i = 0; i < facts->n_gpus; i++)
        if (!check_entry(reading, i) || !inventory_check_distinct(reading, i))
            return;
    out->n_gpus = facts->n_gpus;
    out->gpu = arena_array(reading->arena, out->n_gpus, sizeof *out->gpu);
    for (uint32_t i = 0; i < out->n_gpus; i++)
        inventory_copy_entry(reading, &facts->gpu[i], &out->gpu[i]);
    qsort(out->gpu, out->n_gpus, sizeof *out->gpu, inventory_by_index);
    must(out->n_gpus < 2 || out->gpu[0].index < out->gpu[1].index);
}

static void take_label(struct inventory_reading *reading, uint64_t count)
{
    must(reading->facts->label_count != NULL);
    must(count <= INT64_MAX);

    reading->out->source = SOURCE_LABEL;
    if (!leave_out_limit(reading, "label nvidia.com/gpu.count", count))
        inventory_make_up(reading, (uint32_t)count, 0);
}

/* More than 1000 milli per GPU, or implausibly little: the author used another unit. */
static bool leave_out_foreign(struct inventory_reading *reading, uint64_t milli)
{
    static const uint64_t least_milli = 100;
    uint64_t count = 0;
    if (!parse_whole(reading->facts->label_count, &count))
        return false;
    must(count <= INT64_MAX);
    must(milli <= INT64_MAX);
    /* Divides, because products of untrusted labels may overflow. */
    const bool too_much = milli / GPU_MILLI + (milli % GPU_MILLI != 0) > count;
    const bool too_little = milli > 0 && milli / least_milli < count;
    if (!too_much && !too_little)
        return false;

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf, "status.allocatable says %llu, label nvidia.com/gpu.count %llu: ",
                  (unsigned long long)milli, (unsigned long long)count);
    strbuf_str(&buf, "100 to 1000 for each GPU would be right");
    leave_out(reading, PROBLEM_FOREIGN_UNITS, &buf);
    return true;
}

/* The last source, and the only one whose unit may be foreign. */
static void take_allocatable(struct inventory_reading *reading)
{
    uint64_t milli = 0;
    must(reading->facts->allocatable_milli != NULL);

    reading->out->source = SOURCE_ALLOCATABLE;
    if (!parse_whole(reading->facts->allocatable_milli, &milli)) {
        struct strbuf buf;
        strbuf_init(&buf);
        strbuf_str(&buf, "status.allocatable: ");
        add_quoted(&buf, reading->facts->allocatable_milli);
        strbuf_str(&buf, " is no whole number of thousandths");
        leave_out(reading, PROBLEM_AMOUNT, &buf);
        return;
    }
    /* The remainder becomes one smaller GPU. */
    const uint64_t gpus = milli / GPU_MILLI + (milli % GPU_MILLI != 0);
    must(gpus <= milli);
    if (leave_out_foreign(reading, milli) || leave_out_limit(reading, "status.allocatable", gpus))
        return;
    inventory_make_up(reading, (uint32_t)(milli / GPU_MILLI), (uint32_t)(milli % GPU_MILLI));
}

/* Reports an unreadable label that should have been the source. */
static void leave_out_label(struct inventory_reading *reading)
{
    struct strbuf buf;
    must(reading->facts->label_count != NULL);
    must(reading->out->source == SOURCE_NONE);

    reading->out->source = SOURCE_LABEL;
    strbuf_init(&buf);
    strbuf_str(&buf, "label nvidia.com/gpu.count: ");
    add_quoted(&buf, reading->facts->label_count);
    strbuf_str(&buf, " is no whole number");
    leave_out(reading, PROBLEM_AMOUNT, &buf);
}

static void leave_out_unreadable(struct inventory_reading *reading, enum inventory_source source,
                                 const char *what, const char *why)
{
    struct strbuf buf;
    must(reading->out->source == SOURCE_NONE);
    must(why[0] != '\0');

    reading->out->source = source;
    strbuf_init(&buf);
    strbuf_printf(&buf, "%s%s", what, why);
    leave_out(reading, PROBLEM_ANNOTATION, &buf);
}

/*
 * Chooses the best source. Unreadable values are checked first: an invalid annotation must not be
 * replaced by a label, which may count other GPUs.
 */
static void take_source(struct inventory_reading *reading)
{
    const struct node_facts *facts = reading->facts;
    const bool shown = facts->capacity_milli != NULL || facts->allocatable_milli != NULL;
    const bool label_counts = reading->rules->advertise || (!shown && reading->rules->from_labels);
    uint64_t count = 0;
    must(reading->out->source == SOURCE_NONE);
    must(reading->out->problem == PROBLEM_NONE);

    if (facts->gpus_error != NULL) {
        leave_out_unreadable(reading, SOURCE_ANNOTATION, "annotation ", facts->gpus_error);
    } else if (facts->unreadable != NULL) {
        leave_out_unreadable(reading, SOURCE_NONE, "", facts->unreadable);
    } else if (facts->has_gpus) {
        inventory_take_annotation(reading);
    } else if (label_counts && parse_whole(facts->label_count, &count)) {
        take_label(reading, count);
    } else if (facts->allocatable_milli != NULL) {
        take_allocatable(reading);
    } else if (label_counts && facts->label_count != NULL) {
        leave_out_label(reading);
    }
}

/* Drops the GPUs taken from a source, because they are not ours to share. */
static void take_back(struct inventory_reading *reading, enum inventory_problem problem,
                      struct strbuf *buf)
{
    must(reading->out->n_gpus <= GPUS_PER_NODE_MAX);
    must(buf->len > 0);
    reading->out->n_gpus = 0;
    reading->out->gpu = NULL;
    leave_out(reading, problem, buf);
}

/* The amounts of whole GPUs; 0: absent or unreadable. */
struct whole {
    uint64_t capacity;
    uint64_t allocatable;
    uint64_t units; /* the larger */
};

static struct whole read_whole(const struct node_facts *facts)
{
    struct whole whole = {0};

    (void)parse_whole(facts->whole_capacity, &whole.capacity);
    (void)parse_whole(facts->whole_allocatable, &whole.allocatable);
    whole.units = whole.capacity > whole.allocatable ? whole.capacity : whole.allocatable;
    must(whole.units <= INT64_MAX);
    must(whole.allocatable <= whole.units);
    return whole;
}

/*
 * Detects time-slicing and MPS by the multiplied amount of the device plugin, because labels may be
 * stale: a feature discovery started before the plugin's configuration changed shows replicas of 1.
 */
static void check_units(struct inventory_reading *reading, const struct whole *whole)
{
    struct inventory *out = reading->out;
    uint64_t known = 0;
    const bool counted = parse_whole(reading->facts->label_count, &known);

    must(out->problem == PROBLEM_NONE);
    known = known < out->n_gpus ? out->n_gpus : known;
    if ((!counted && out->n_gpus == 0) || whole->units <= known)
        return;
    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf, "the device plugin shows %llu GPUs, and the node has %llu: ",
                  (unsigned long long)whole->units, (unsigned long long)known);
    strbuf_str(&buf, "somebody else shares them (time-slicing, MPS)");
    must(whole->units > 0);
    take_back(reading, PROBLEM_FOREIGN_UNITS, &buf);
}

/* Has it labels or an annotation that only nodes with GPUs have? */
static bool has_gpu_labels(const struct node_facts *facts)
{
    must(facts->n_labels == 0 || facts->label != NULL);
    must(facts->name != NULL);
    for (uint32_t i = 0; i < facts->n_labels; i++)
        if (strcmp(facts->label[i].key, "nvidia.com/gpu.present") == 0 &&
            strcmp(facts->label[i].value, "true") == 0)
            return true;
    return facts->label_product != NULL || facts->label_count != NULL || facts->agent;
}

/* Reports a node with GPUs, by its plugin, labels or agent, without a source that names any. */
static void check_no_source(struct inventory_reading *reading, const struct whole *whole)
{
    const struct node_facts *facts = reading->facts;
    const struct inventory *out = reading->out;
    const bool named = out->source != SOURCE_NONE;

    must(out->problem == PROBLEM_NONE);
    if (out->n_gpus > 0 || (whole->units == 0 && (named || !has_gpu_labels(facts))))
        return;
    struct strbuf buf;
    strbuf_init(&buf);
    if (named)
        strbuf_printf(&buf, "the device plugin shows %llu GPUs, and the source of shares (%s) none",
                      (unsigned long long)whole->units, inventory_source_name(out->source));
    else if (facts->label_count != NULL)
        strbuf_str(&buf, "label nvidia.com/gpu.count is not used: set inventory_from_labels, or "
                         "show an amount in status.allocatable");
    else
        strbuf_str(&buf, "no source of shares: label nvidia.com/gpu.count (from feature "
                         "discovery) or annotation milligpu.io/gpus (from milligpu-node) is "
                         "missing");
    must(out->source != SOURCE_NONE || !named);
    take_back(reading, PROBLEM_NO_SOURCE, &buf);
}

/* An unreadable amount does not prove that the plugin is up. */
static bool leave_out_unread_plugin(struct inventory_reading *reading)
{
    const char *amount = reading->facts->whole_allocatable;
    uint64_t value;

    must(reading->out->problem == PROBLEM_NONE);
    must(!agent_names_gpus(reading->facts));
    if (amount == NULL || parse_whole(amount, &value))
        return false;
    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_str(&buf, "status.allocatable of whole GPUs: ");
    add_quoted(&buf, amount);
    strbuf_str(&buf, " is no whole number");
    take_back(reading, PROBLEM_AMOUNT, &buf);
    return true;
}

static uint32_t count_healthy(const struct inventory *inventory)
{
    uint32_t healthy = 0;

    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        healthy += inventory->gpu[i].healthy;
    must(healthy <= inventory->n_gpus);
    return healthy;
}

/* The state at 0 offered GPUs: kubelet also keeps 0 for ever after the plugin was uninstalled. */
static enum plugin_state state_of_none(const struct inventory_reading *reading,
                                       const struct whole *whole)
{
    const struct node_facts *facts = reading->facts;
    const bool shown = facts->whole_capacity != NULL || facts->whole_allocatable != NULL;

    must(whole->allocatable == 0);
    if (reading->rules->plugin == PLUGIN_EXPECT || whole->capacity > 0)
        return PLUGIN_DOWN;
    must(whole->units == 0);
    if (!shown)
        return PLUGIN_NONE;
    return facts->plugin_paused ? PLUGIN_DOWN : PLUGIN_ZERO;
}

/*
 * Without an agent, the device plugin monitors the GPUs: a GPU that it does not offer may be
 * unhealthy or have no driver.
 */
static void check_plugin(struct inventory_reading *reading, const struct whole *whole)
{
    struct inventory *out = reading->out;
    const uint32_t own = count_healthy(out);
    const uint32_t sick = out->n_gpus - own;

    must(out->problem == PROBLEM_NONE);
    if (out->n_gpus == 0 || agent_names_gpus(reading->facts) ||
        reading->rules->plugin == PLUGIN_IGNORE || leave_out_unread_plugin(reading))
        return;
    if (whole->allocatable == 0) {
        out->plugin.state = state_of_none(reading, whole);
        return;
    }
    /* check_units() limits capacity to the count of a source, but labels may contain any number. */
    const uint64_t rest = whole->capacity > sick ? whole->capacity - sick : 0;
    const uint64_t healthy = rest > own ? rest : own;
    out->plugin = (struct plugin_report){
        .state = PLUGIN_UP,
        .offered = whole->allocatable < UINT32_MAX ? (uint32_t)whole->allocatable : UINT32_MAX,
        .healthy = healthy < UINT32_MAX ? (uint32_t)healthy : UINT32_MAX,
    };
    must(out->plugin.offered > 0);
}

/* The invalid words of a node: the text of the first slip, and their count. */
struct slips {
    uint32_t count;
    struct strbuf text;
};

/* Counts a slip. Returns the buffer for its text; NULL if it is not the first. */
static struct strbuf *add_slip(struct slips *slips)
{
    must(slips->count < UINT32_MAX);
    must((slips->count == 0) == (slips->text.len == 0));
    return slips->count++ == 0 ? &slips->text : NULL;
}

/* As add_slip(), for a field of an entry of the annotation. */
static struct strbuf *add_entry_slip(struct slips *slips, uint32_t entry, const char *field,
                                     const char *word)
{
    struct strbuf *text = add_slip(slips);

    must(field[0] != '\0');
    must(text == NULL || text->len == 0);
    if (text == NULL)
        return NULL;
    strbuf_printf(text, "annotation milligpu.io/gpus: [%u].%s: ", entry, field);
    if (word != NULL)
        add_quoted(text, word);
    return text;
}

/* Checks the words of health and of holders. */
static void check_words(const struct inventory_reading *reading, struct slips *slips)
{
    const struct node_facts *facts = reading->facts;
    enum hold_kind kind;
    struct text uid;

    must(slips->count == 0); /* runs first, so that the text is about the words */
    must(reading->out->problem == PROBLEM_NONE);
    if (reading->out->source != SOURCE_ANNOTATION)
        return;
    must(facts->n_gpus == reading->out->n_gpus);
    for (uint32_t i = 0; i < facts->n_gpus; i++) {
        const struct gpu_facts *gpu = &facts->gpu[i];
        struct strbuf *text = NULL;
        if (gpu->health != NULL && find_health(gpu->health) == NULL)
            text = add_entry_slip(slips, i, "health", gpu->health);
        if (text != NULL)
            strbuf_str(text, " is no known word and closes the GPU: \"healthy\" or \"unhealthy\" "
                             "would be right");
        text = NULL;
        if (gpu->held != NULL && !hold_kind(gpu->held, &kind, &uid))
            text = add_entry_slip(slips, i, "held", gpu->held);
        if (text != NULL)
            strbuf_str(text, " is no known word and closes the GPU: \"pod:UID\", \"env:UID\", "
                             "\"process\" or \"mig\" would be right");
    }
}

/* Returns NULL, for `return`. */
static struct gpu_facts *report_nvlink_slip(struct slips *slips, uint32_t entry, const char *name,
                                            const char *what)
{
    struct strbuf *text = add_entry_slip(slips, entry, "nvlink", name);
    must(what != NULL);
    if (text != NULL)
        strbuf_str(text, what);
    return NULL;
}

/* Returns the named peer of the GPU at position own; NULL after a slip. */
static struct gpu_facts *find_peer(const struct inventory_reading *reading, uint32_t entry,
                                   uint32_t own, const char *name, struct slips *slips)
{
    const struct inventory *out = reading->out;

    must(own < out->n_gpus);
    must(name != NULL);
    for (uint32_t i = 0; i < out->n_gpus; i++) {
        struct gpu_facts *gpu = &out->gpu[i];
        if (strcmp(gpu->id, name) != 0 && (gpu->alias == NULL || strcmp(gpu->alias, name) != 0))
            continue;
        return i != own ? gpu : report_nvlink_slip(slips, entry, name, " is the GPU itself");
    }
    return report_nvlink_slip(slips, entry, name,
                              " names no GPU of the node: uuids of this annotation would be right");
}

static uint32_t place_of_entry(const struct inventory_reading *reading, uint32_t entry)
{
    uint32_t at = 0;

    must(entry < reading->facts->n_gpus);
    while (reading->out->gpu[at].index != reading->facts->gpu[entry].index)
        at++;
    must(at < reading->out->n_gpus);
    return at;
}

/* A link listed by either side counts for both. An invalid name is a slip, and the GPU stays. */
static void check_nvlink(struct inventory_reading *reading, struct slips *slips)
{
    const struct node_facts *facts = reading->facts;
    struct inventory *out = reading->out;

    if (out->source != SOURCE_ANNOTATION)
        return;
    must(facts->n_gpus == out->n_gpus);
    for (uint32_t i = 0; i < facts->n_gpus; i++) {
        const uint32_t own = place_of_entry(reading, i);
        must(facts->gpu[i].n_nvlinks <= GPUS_PER_NODE_MAX);
        if (facts->gpu[i].nvlink_odd)
            (void)report_nvlink_slip(slips, i, NULL, "a list of at most 64 uuids would be right");
        for (uint32_t k = 0; k < facts->gpu[i].n_nvlinks; k++) {
            struct gpu_facts *peer = find_peer(reading, i, own, facts->gpu[i].nvlink[k], slips);
            if (peer == NULL)
                continue;
            peer->peers |= (uint64_t)1 << own;
            out->gpu[own].peers |= (uint64_t)1 << (peer - out->gpu);
        }
    }
}

/* meant: the GPU with the written index, which is not accepted, because indexes move. */
static void report_cordon_slip(struct slips *slips, const char *entry,
                               const struct gpu_facts *meant)
{
    struct strbuf *text = add_slip(slips);
    must(entry[0] != '\0');
    must(meant == NULL || strcmp(entry, meant->id) != 0);
    if (text == NULL)
        return;
    strbuf_str(text, "annotation milligpu.io/cordon: ");
    add_quoted(text, entry);
    strbuf_str(text, " names no GPU: ");
    if (meant != NULL)
        strbuf_printf(text, "the GPU with this index is %s", meant->id);
    else
        strbuf_str(text, "ids of this node or \"all\" would be right");
}

static bool names_gpu(struct text entry, const struct gpu_facts *gpu)
{
    must(gpu->alias == NULL || strcmp(gpu->alias, gpu->id) != 0);
    must(entry.len > 0);
    return text_is(entry, "all") || text_is(entry, gpu->id) ||
           (gpu->alias != NULL && text_is(entry, gpu->alias));
}

static void check_cordon_entry(struct inventory_reading *reading, struct text entry,
                               struct slips *slips)
{
    struct inventory *out = reading->out;
    const char *written = arena_copy(reading->arena, entry);
    const struct gpu_facts *meant = NULL;
    bool named = false;
    uint64_t index = 0;
    const bool is_index = parse_whole(written, &index);

    must(out->n_gpus > 0);
    must(out->problem == PROBLEM_NONE);
    for (uint32_t i = 0; i < out->n_gpus; i++) {
        struct gpu_facts *gpu = &out->gpu[i];
        if (names_gpu(entry, gpu))
            gpu->cordoned = named = true;
        else if (is_index && gpu->index == index)
            meant = gpu;
    }
    if (!named)
        report_cordon_slip(slips, written, meant);
}

static void check_cordon(struct inventory_reading *reading, struct slips *slips)
{
    struct text list = text_of(reading->facts->cordon);
    struct text entry;

    must(reading->out->problem == PROBLEM_NONE);
    must(reading->out->n_gpus <= GPUS_PER_NODE_MAX);
    /* Without GPUs no id can match: a restarting plugin shows none for a while. */
    while (reading->out->n_gpus > 0 && text_cut(&list, ',', &entry)) {
        entry = text_trim(entry);
        if (entry.len > 0)
            check_cordon_entry(reading, entry, slips);
    }
}

static void check_slips(struct inventory_reading *reading)
{
    struct slips slips = {0};
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&slips.text);
    strbuf_init(&text);
    must(reading->out->problem_text[0] == '\0');
    check_words(reading, &slips);
    check_nvlink(reading, &slips);
    check_cordon(reading, &slips);
    must((slips.count == 0) == (slips.text.len == 0));
    /* In front, so that clipping does not cut it off. */
    if (slips.count > 1)
        strbuf_printf(&text, "%u mistakes, the first: ", slips.count);
    strbuf_text(&text, (struct text){slips.text.data, slips.text.len});
    text_clip((struct text){text.data, text.len}, reading->out->problem_text,
              sizeof reading->out->problem_text);
    strbuf_done(&slips.text);
}

/* The milli to advertise without a device plugin, from all sources but the status. */
static uint32_t milli_to_advertise(const struct inventory *inventory)
{
    uint32_t milli = 0;
    if (inventory->source != SOURCE_LABEL && inventory->source != SOURCE_ANNOTATION)
        return 0;
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        milli += inventory->gpu[i].milli;
    must(milli <= GPU_MILLI * GPUS_PER_NODE_MAX);
    must(milli >= inventory->n_gpus);
    return milli;
}

/* Compares the amounts of whole GPUs with the chosen source. */
static void check_status(struct inventory_reading *reading)
{
    const struct whole whole = read_whole(reading->facts);
    const struct inventory *out = reading->out;

    must(out->plugin.state == PLUGIN_NONE);
    if (out->problem == PROBLEM_NONE)
        check_units(reading, &whole);
    if (out->problem == PROBLEM_NONE)
        check_no_source(reading, &whole);
    if (out->problem == PROBLEM_NONE)
        check_plugin(reading, &whole);
    must(out->plugin.state == PLUGIN_NONE || out->n_gpus > 0);
    must(out->problem == PROBLEM_NONE || out->n_gpus == 0);
}

void inventory_parse(const struct node_facts *facts, const struct inventory_rules *rules,
                     struct arena *arena, struct inventory *out)
{
    must(facts != NULL);
    must(facts->name != NULL);
    must(rules != NULL);

    *out = (struct inventory){.node = facts->name,
                              .uid = facts->uid,
                              .n_labels = facts->n_labels,
                              .label = facts->label,
                              .agent = facts->agent,
                              .taints = facts->taints};
    struct inventory_reading reading = {.facts = facts, .rules = rules, .arena = arena, .out = out};
    if (leave_out_given_away(&reading) || leave_out_partitioned(&reading))
        return;
    take_source(&reading);
    check_status(&reading);
    if (out->problem == PROBLEM_NONE)
        check_slips(&reading);
    if (rules->advertise)
        out->advertise_milli = milli_to_advertise(out);
    must(out->n_gpus <= GPUS_PER_NODE_MAX);
    must(out->problem == PROBLEM_NONE || out->n_gpus == 0);
    must(out->problem == PROBLEM_NONE || out->problem_text[0] != '\0');
    must(out->problem != PROBLEM_NONE || !out->silent);
}

struct plugin_report plugin_judged(const struct plugin_report *shown, enum plugin_state before)
{
    struct plugin_report judged = *shown;

    must(before != PLUGIN_ZERO);
    if (shown->state == PLUGIN_ZERO)
        judged.state = before == PLUGIN_NONE ? PLUGIN_NONE : PLUGIN_DOWN;
    must(judged.state != PLUGIN_ZERO);
    return judged;
}

const char *inventory_problem_name(enum inventory_problem problem)
{
    static const char *const name[] = {
#define X(code, word, text) [code] = (word),
        INVENTORY_PROBLEMS(X)
#undef X
    };
    static_assert(ARRAY_LEN(name) == PROBLEM_LIMIT + 1, "the last problem");
    must((unsigned)problem < ARRAY_LEN(name));
    must(name[problem] != NULL);
    return name[problem];
}

const char *inventory_source_name(enum inventory_source source)
{
    static const char *const name[] = {[SOURCE_NONE] = "none",
                                       [SOURCE_ANNOTATION] = "annotation",
                                       [SOURCE_LABEL] = "label",
                                       [SOURCE_ALLOCATABLE] = "allocatable"};
    must((unsigned)source < ARRAY_LEN(name));
    must(name[source] != NULL);
    return name[source];
}

uint32_t inventory_share_mib(uint32_t mib_total, uint32_t milli_total, uint32_t milli)
{
    if (milli_total == 0)
        return 0;
    const uint64_t mib = (uint64_t)mib_total * milli / milli_total;
    must(milli > milli_total || mib <= mib_total);
    /* An adopted pod may hold more than the GPU has. */
    return mib < UINT32_MAX ? (uint32_t)mib : UINT32_MAX;
}
