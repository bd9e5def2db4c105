/*
 * Parses the limits and annotations of a pod, and formats refusals. Called by webhooks.c in HTTP
 * threads, by the pod cache and by the writer. All input is from tenants: nothing is trusted, and
 * messages are clipped. A waiting pod is refused with a text that says how to correct it. A bound
 * pod (parser.bound) already runs, so its amounts count and invalid annotations are ignored. The
 * text of a refusal depends on the request alone (docs/why/005-constant-texts.md). Parts: amounts,
 * counts, splitting, policy, wants, models and memory, whole pods, copies, texts, models and peaks.
 */
#include "milligpu/core/facts/request.h"

#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/facts/model.h"
#include "milligpu/core/facts/quantity.h"

static_assert(PARTS_MAX >= GPUS_PER_NODE_MAX, "one container may ask for a whole node");
static_assert(MODEL_BYTES_MAX < REASON_BYTES_MAX, "a refusal can name a model");

/* Limit of the bytes of foreign text quoted in a message. */
enum { QUOTE_MAX = 48 };

/* The input of a parse, and the destination of a refusal. */
struct parser {
    const struct pod *pod;
    const struct request_rules *rules;
    const struct pod_container *container;
    bool several; /* several containers request GPUs: texts must name the container */
    bool bound;   /* the pod is bound: invalid annotations are ignored, not refused */
    struct refusal *refusal;
};

/* Clips: an annotation may have 256 KiB, a refusal has 256 bytes. */
static void request_quote(struct strbuf *buf, const char *text)
{
    char shown[QUOTE_MAX];
    must(buf != NULL);
    must(text != NULL);

    text_clip(text_of(text), shown, sizeof shown);
    strbuf_char(buf, '"');
    strbuf_str(buf, shown);
    strbuf_char(buf, '"');
}

/* Completes the text in buf and refuses with it. Returns false, for `return`. */
static bool request_say_refusal(const struct parser *parser, enum reason why, struct strbuf *buf)
{
    must(reason_class(why) == REASON_CLASS_REQUEST);
    must(buf->len > 0);

    parser->refusal->why = why;
    text_clip((struct text){buf->data, buf->len}, parser->refusal->text,
              sizeof parser->refusal->text);
    strbuf_done(buf);
    return false;
}

/* A character of a valid amount: digit, point, sign or suffix. */
static bool is_amount_letter(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '+';
}

/* Appends the amount as written, quoted unless it consists of plain characters. */
static void add_amount(struct strbuf *buf, const char *amount)
{
    size_t plain = 0;
    must(buf->len > 0);
    must(amount != NULL);

    while (plain < QUOTE_MAX && is_amount_letter(amount[plain]))
        plain++;
    must(plain <= QUOTE_MAX);
    if (plain > 0 && plain < QUOTE_MAX && amount[plain] == '\0')
        strbuf_str(buf, amount);
    else
        request_quote(buf, amount);
}

/* "container web: nvidia.com/vgpu: 1500 " */
static void begin_amount(const struct parser *parser, struct strbuf *buf)
{
    must(parser->rules->resource != NULL);
    must(parser->container->amount != NULL);

    strbuf_init(buf);
    if (parser->several)
        strbuf_printf(buf, "container %s: ", parser->container->name);
    strbuf_printf(buf, "%s: ", parser->rules->resource);
    add_amount(buf, parser->container->amount);
    strbuf_char(buf, ' ');
}

static const char amount_hint[] = "ask for 1 to 1000 (1000 is one whole GPU) or a multiple of 1000";

/* The amount is neither a part of one GPU nor whole GPUs: suggests the two nearest multiples. */
static bool refuse_uneven(const struct parser *parser, int64_t amount)
{
    must(amount > GPU_MILLI);
    must(amount % GPU_MILLI != 0);

    const int64_t most = (int64_t)GPU_MILLI * GPUS_PER_NODE_MAX;
    const int64_t below = amount / GPU_MILLI * GPU_MILLI;
    struct strbuf buf;
    begin_amount(parser, &buf);
    strbuf_str(&buf, "is neither at most 1000 nor a multiple of 1000; ask for ");
    if (below < most)
        strbuf_printf(&buf, "%lld or %lld", (long long)below, (long long)(below + GPU_MILLI));
    else
        strbuf_printf(&buf, "at most %lld", (long long)most);
    return request_say_refusal(parser, REASON_AMOUNT, &buf);
}

/* "0.5" and "500m" clearly mean half a GPU: suggests 500. */
static bool refuse_fraction(const struct parser *parser)
{
    int64_t milli = 0;
    const struct text text = text_of(parser->container->amount);
    const bool guessed =
        quantity_parse(text, 3, &milli) == QUANTITY_OK && milli > 0 && milli < GPU_MILLI;
    must(!guessed || milli > 0);
    must(!guessed || milli < GPU_MILLI);

    struct strbuf buf;
    begin_amount(parser, &buf);
    strbuf_str(&buf, "is not a whole number; the unit is a thousandth of a GPU: ");
    if (guessed)
        strbuf_printf(&buf, "ask for %lld", (long long)milli);
    else
        strbuf_str(&buf, amount_hint);
    return request_say_refusal(parser, REASON_AMOUNT, &buf);
}

/* Accepts 0. Returns false if refused. */
static bool parse_amount(const struct parser *parser, int64_t *out)
{
    must(out != NULL);
    must(parser->container->amount != NULL);

    struct strbuf buf;
    switch (quantity_parse(text_of(parser->container->amount), 0, out)) {
    case QUANTITY_OK:
        if (*out >= 0)
            return true;
        begin_amount(parser, &buf);
        strbuf_printf(&buf, "is negative; %s", amount_hint);
        return request_say_refusal(parser, REASON_AMOUNT, &buf);
    case QUANTITY_FRACTION:
        return refuse_fraction(parser);
    case QUANTITY_RANGE:
        begin_amount(parser, &buf);
        strbuf_printf(&buf, "is out of range; %s", amount_hint);
        return request_say_refusal(parser, REASON_AMOUNT, &buf);
    case QUANTITY_SYNTAX:
        begin_amount(parser, &buf);
        strbuf_printf(&buf, "is not a number; %s", amount_hint);
        return request_say_refusal(parser, REASON_AMOUNT, &buf);
    }
    must_not_reach("quantity_parse has four verdicts");
}

/* "container web: annotation gpu-count.milligpu.io/web: " */
static void begin_count(const struct parser *parser, struct strbuf *buf)
{
    must(parser->container->count != NULL || parser->pod->count != NULL);

    strbuf_init(buf);
    if (parser->container->count != NULL)
        strbuf_printf(buf, "annotation gpu-count.milligpu.io/%s: ", parser->container->name);
    else
        strbuf_str(buf, "annotation milligpu.io/gpu-count: ");
    must(buf->len > 0);
}

/* Sets *out to the container's count, else the pod's, else 0. Returns false if refused. */
static bool request_parse_count(const struct parser *parser, uint32_t *out)
{
    const char *given =
        parser->container->count != NULL ? parser->container->count : parser->pod->count;
    *out = 0;
    if (given == NULL)
        return true;

    must(out != NULL);
    const struct text text = text_trim(text_of(given));
    uint32_t value = 0;
    size_t digits = 0;
    /* Stops at the limit, so that no number of digits overflows. */
    while (digits < text.len && text.at[digits] >= '0' && text.at[digits] <= '9') {
        value = value * 10 + (uint32_t)(text.at[digits++] - '0');
        if (value > GPUS_PER_NODE_MAX)
            value = GPUS_PER_NODE_MAX + 1;
    }
    struct strbuf buf;
    if (digits == 0 || digits < text.len || value == 0) {
        begin_count(parser, &buf);
        request_quote(&buf, given);
        strbuf_printf(&buf, " is not a number of GPUs; write 1 to %d", GPUS_PER_NODE_MAX);
        return request_say_refusal(parser, REASON_COUNT, &buf);
    }
    if (value > GPUS_PER_NODE_MAX) {
        begin_count(parser, &buf);
        request_quote(&buf, given);
        strbuf_printf(&buf, " is more than the %d GPUs that a container may ask for",
                      GPUS_PER_NODE_MAX);
        return request_say_refusal(parser, REASON_COUNT, &buf);
    }
    must(value >= 1 && value <= GPUS_PER_NODE_MAX);
    *out = value;
    return true;
}

/* Refuses amount / count, and suggests possible amounts or counts. */
static bool refuse_split(const struct parser *parser, int64_t amount, uint32_t count)
{
    must(count > 0 && count <= GPUS_PER_NODE_MAX);
    must(amount > 0);
    must(amount % count != 0 || amount / count > GPU_MILLI);

    struct strbuf buf;
    begin_amount(parser, &buf);
    const int64_t most = (int64_t)count * GPU_MILLI;
    if (amount > most) {
        strbuf_printf(&buf,
                      "on %u GPUs (gpu-count) is more than 1000 on each; ask for at most %lld",
                      count, (long long)most);
        return request_say_refusal(parser, REASON_COUNT, &buf);
    }
    const int64_t below = amount / count * count;
    must(below < amount && below + count <= most);
    strbuf_printf(&buf, "cannot be split evenly over %u GPUs (gpu-count); ask for ", count);
    if (below > 0)
        strbuf_printf(&buf, "%lld or ", (long long)below);
    strbuf_printf(&buf, "%lld", (long long)(below + count));
    return request_say_refusal(parser, REASON_COUNT, &buf);
}

/*
 * With gpu-count, the amount is the sum of equal parts. Without it, an amount up to 1000 is one
 * part, and a larger amount is a number of whole GPUs.
 */
static bool request_split(const struct parser *parser, int64_t amount, uint32_t count,
                          struct want *want)
{
    must(amount > 0);
    must(count <= GPUS_PER_NODE_MAX);
    must(want != NULL);

    if (count > 0) {
        if (amount % count != 0 || amount / count > GPU_MILLI)
            return refuse_split(parser, amount, count);
        want->parts = count;
        want->milli = (uint32_t)(amount / count);
        return true;
    }
    if (amount > GPU_MILLI && amount % GPU_MILLI != 0)
        return refuse_uneven(parser, amount);
    if (amount > (int64_t)GPU_MILLI * GPUS_PER_NODE_MAX) {
        struct strbuf buf;
        begin_amount(parser, &buf);
        strbuf_printf(&buf, "is more than the %d GPUs that a container may ask for; %d is the most",
                      GPUS_PER_NODE_MAX, GPU_MILLI * GPUS_PER_NODE_MAX);
        return request_say_refusal(parser, REASON_LIMIT, &buf);
    }
    want->parts = amount > GPU_MILLI ? (uint32_t)(amount / GPU_MILLI) : 1;
    want->milli = amount > GPU_MILLI ? GPU_MILLI : (uint32_t)amount;
    must((int64_t)want->parts * want->milli == amount);
    return true;
}

/* "on each of 3 GPUs ", if there are several parts */
static void add_each(const struct want *want, struct strbuf *buf)
{
    must(want->parts > 0);
    must(buf->len > 0);

    if (want->parts > 1)
        strbuf_printf(buf, "(%u on each of %u GPUs) ", want->milli, want->parts);
}

/* "; did you mean 2000?", if the amount looks like a number of whole GPUs */
static void add_meant(const struct want *want, struct strbuf *buf)
{
    const uint32_t amount = want->parts * want->milli;
    must(amount > 0);
    must(buf->len > 0);

    if (amount <= MEANT_GPUS_MAX)
        strbuf_printf(buf, "; did you mean %u?", amount * GPU_MILLI);
}

/* Applies to each part, not to the sum: the setting limits how finely a GPU is divided. */
static bool check_minimum(const struct parser *parser, const struct want *want)
{
    must(want->milli > 0);
    must(want->milli <= GPU_MILLI);

    if (want->milli >= parser->rules->min_milli)
        return true;
    struct strbuf buf;
    begin_amount(parser, &buf);
    add_each(want, &buf);
    strbuf_printf(&buf, "is below the minimum of %u; 1000 is one whole GPU",
                  parser->rules->min_milli);
    add_meant(want, &buf);
    return request_say_refusal(parser, REASON_MINIMUM, &buf);
}

/* A whole GPU is a multiple of every step. */
static bool check_step(const struct parser *parser, const struct want *want)
{
    const uint32_t step = parser->rules->step_milli;
    must(want->parts > 0);

    if (step <= 1 || want->milli == GPU_MILLI || want->milli % step == 0)
        return true;
    const uint32_t below = want->milli / step * step;
    const uint32_t above = below + step < GPU_MILLI ? below + step : GPU_MILLI;
    must(below < want->milli);
    must(above > want->milli);
    struct strbuf buf;
    begin_amount(parser, &buf);
    add_each(want, &buf);
    strbuf_printf(&buf, "is not a multiple of %u; ask for ", step);
    if (below > 0 && below >= parser->rules->min_milli)
        strbuf_printf(&buf, "%u or ", below * want->parts);
    strbuf_printf(&buf, "%u", above * want->parts);
    add_meant(want, &buf);
    return request_say_refusal(parser, REASON_STEP, &buf);
}

/* The text depends on the pod alone: wire omits byte positions. */
static bool refuse_unreadable(const struct parser *parser)
{
    must(parser->pod->unreadable != NULL);

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf, "the pod cannot be read: %s", parser->pod->unreadable);
    return request_say_refusal(parser, REASON_UNREADABLE, &buf);
}

/* The number of equal parts, on as many GPUs, of the amount in the allocation; 0: not split so. */
static uint32_t count_noted(const struct parser *parser, int64_t amount)
{
    const struct pod *pod = parser->pod;
    uint32_t parts = 0;
    uint32_t milli = 0;

    must(amount > 0);
    if (pod->annotation != NOTE_OK)
        return 0;
    for (uint32_t i = 0; i < pod->n_shares; i++) {
        const struct pod_share *line = &pod->share[i];
        if (strcmp(line->container, parser->container->name) != 0)
            continue;
        const uint32_t asked = pod_share_asked(line);
        if ((parts > 0 && asked != milli) || pod_share_repeats(pod, i))
            return 0;
        milli = asked;
        parts++;
    }
    must(parts <= pod->n_shares);
    return parts <= GPUS_PER_NODE_MAX && (int64_t)parts * milli == amount ? parts : 0;
}

/*
 * The amount is in the immutable spec. Its split is taken from the allocation first: the
 * annotations that requested it may have been edited since.
 */
static bool parse_bound_want(const struct parser *parser, int64_t amount, struct want *want)
{
    struct refusal passed_over;
    struct parser lenient = *parser;
    uint32_t count = count_noted(parser, amount);

    must(parser->bound);
    lenient.refusal = &passed_over;
    if (count > 0 && request_split(&lenient, amount, count, want))
        return true;
    if (parser->pod->unreadable != NULL)
        return refuse_unreadable(parser);
    if (request_parse_count(&lenient, &count) && count > 0 &&
        request_split(&lenient, amount, count, want))
        return true;
    return request_split(parser, amount, 0, want);
}

/* Parses a container that requests GPUs. Returns false if refused. */
static bool parse_want(const struct parser *parser, int64_t amount, struct want *want)
{
    must(amount > 0);
    must(parser->container->name != NULL);

    uint32_t count = 0;
    want->container = parser->container->name;
    want->kind = parser->container->kind;
    /* Minimum and step apply to new grants only. */
    if (parser->bound)
        return parse_bound_want(parser, amount, want);
    if (!request_parse_count(parser, &count) || !request_split(parser, amount, count, want))
        return false;
    must(want->parts >= 1 && want->parts <= GPUS_PER_NODE_MAX);
    must(want->milli >= 1 && want->milli <= GPU_MILLI);
    return check_minimum(parser, want) && check_step(parser, want);
}

static bool request_container_asks(const struct pod_container *container)
{
    int64_t amount = 0;
    if (container->amount == NULL)
        return false;
    /* An invalid amount counts as a request, to be refused later. */
    return quantity_parse(text_of(container->amount), 0, &amount) != QUANTITY_OK || amount != 0;
}

/* Does not use begin_amount(), because no single container is at fault. */
static bool refuse_limit(const struct parser *parser, uint32_t number, const char *what,
                         uint32_t most)
{
    must(number > most);
    must(what != NULL);

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf, "the pod has %u %s; at most %u may ask for %s", number, what, most,
                  parser->rules->resource);
    return request_say_refusal(parser, REASON_LIMIT, &buf);
}

/* A container that requests 0 or does not name the resource gets no want. */
static bool parse_wants(struct parser *parser, struct arena *arena, struct request *out)
{
    must(out->n_wants > 0);
    must(out->n_wants <= parser->pod->n_containers);

    uint32_t parts = 0;
    uint32_t filled = 0;
    out->want = arena_array(arena, out->n_wants, sizeof *out->want);
    for (uint32_t i = 0; i < parser->pod->n_containers; i++) {
        parser->container = &parser->pod->container[i];
        int64_t amount = 0;
        if (!request_container_asks(parser->container))
            continue;
        must(filled < out->n_wants);
        struct want *want = &out->want[filled++];
        if (!parse_amount(parser, &amount) || !parse_want(parser, amount, want))
            return false;
        parts += want->parts;
    }
    must(filled == out->n_wants);
    must(parts >= out->n_wants);
    if (parts > PARTS_MAX)
        return refuse_limit(parser, parts, "parts of GPUs over all containers", PARTS_MAX);
    return true;
}

static bool refuse_others(const struct parser *parser, uint32_t others)
{
    must(others > CONTAINERS_MAX);
    must(!parser->bound);

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_printf(&buf,
                  "the pod has %u containers that ask for no %s; at most %d may be in a pod "
                  "that asks for it",
                  others, parser->rules->resource, CONTAINERS_MAX);
    return request_say_refusal(parser, REASON_LIMIT, &buf);
}

/* For the Binding, which also names containers without a want; a bound pod needs none. */
static bool parse_others(const struct parser *parser, struct arena *arena, struct request *out)
{
    const struct pod *pod = parser->pod;

    must(out->n_others == 0);
    must(out->n_wants <= pod->n_containers);
    const uint32_t others = parser->bound ? 0 : pod->n_containers - out->n_wants;
    if (others > CONTAINERS_MAX)
        return refuse_others(parser, others);
    if (others == 0)
        return true;
    out->other = arena_array(arena, others, sizeof *out->other);
    for (uint32_t i = 0; i < pod->n_containers; i++)
        if (!request_container_asks(&pod->container[i]))
            out->other[out->n_others++] = pod->container[i].name;
    must(out->n_others == others);
    return true;
}

/* Refusals quote the globs, and kube-scheduler writes refusals into pods. */
static bool request_is_printable(struct text text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < 0x20 || text.at[i] > 0x7E)
            return false;
    return true;
}

static bool refuse_model(const struct parser *parser, const char *what)
{
    must(parser->pod->model != NULL);
    must(what != NULL);

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_str(&buf, "annotation milligpu.io/gpu-model: ");
    request_quote(&buf, parser->pod->model);
    strbuf_printf(&buf, " %s; write models or globs, comma separated: A100-SXM4-80GB,H100*", what);
    return request_say_refusal(parser, REASON_MODEL_SYNTAX, &buf);
}

const char *request_read_models(struct text list, struct arena *arena, struct request *out)
{
    struct text piece;

    must(out->n_models == 0);
    static_assert(MODELS_MAX == 32 && MODEL_BYTES_MAX == 128, "the texts below say these numbers");
    out->model = arena_array(arena, MODELS_MAX, sizeof *out->model);
    while (text_cut(&list, ',', &piece)) {
        piece = text_trim(piece);
        if (out->n_models == MODELS_MAX)
            return "names more than 32 models";
        if (piece.len > MODEL_BYTES_MAX)
            return "has an entry of more than 128 characters";
        if (!request_is_printable(piece))
            return "has characters that no model has";
        if (memchr(piece.at, ';', piece.len) != NULL || memchr(piece.at, '|', piece.len) != NULL)
            return "joins models by ; or |";
        char dashed[MODEL_BYTES_MAX];
        const struct text glob = model_bare(piece, dashed);
        if (glob.len == 0)
            return "has an empty entry";
        out->model[out->n_models++] = arena_copy(arena, glob);
    }
    must(out->n_models > 0); /* an empty list has one empty entry */
    must(out->n_models <= MODELS_MAX);
    return NULL;
}

static bool parse_models(const struct parser *parser, struct arena *arena, struct request *out)
{
    if (parser->pod->model == NULL)
        return true;
    const char *fault = request_read_models(text_of(parser->pod->model), arena, out);
    must(fault != NULL || out->n_models > 0);
    return fault == NULL || refuse_model(parser, fault);
}

static bool refuse_memory(const struct parser *parser, const char *what)
{
    must(parser->pod->memory != NULL);
    must(what != NULL);

    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_str(&buf, "annotation milligpu.io/gpu-memory: ");
    request_quote(&buf, parser->pod->memory);
    strbuf_printf(&buf, " %s; write a quantity of bytes, such as 16Gi", what);
    return request_say_refusal(parser, REASON_MEMORY_SYNTAX, &buf);
}

static bool parse_memory(const struct parser *parser, struct request *out)
{
    static const int64_t mib_bytes = INT64_C(1024) * 1024;

    if (parser->pod->memory == NULL)
        return true;
    int64_t bytes = 0;
    switch (quantity_ceil(text_trim(text_of(parser->pod->memory)), 0, &bytes)) {
    case QUANTITY_OK:
        break;
    case QUANTITY_RANGE:
        return refuse_memory(parser, "is out of range");
    case QUANTITY_SYNTAX:
    case QUANTITY_FRACTION:
        return refuse_memory(parser, "is not a quantity");
    }
    if (bytes < 0)
        return refuse_memory(parser, "is negative");
    /* Rounded up: a minimum. */
    const int64_t mib = bytes / mib_bytes + (bytes % mib_bytes != 0);
    must(bytes >= 0);
    if (mib > UINT32_MAX)
        return refuse_memory(parser, "is out of range");
    must(mib >= 0);
    must(mib - 1 <= bytes / mib_bytes);
    out->memory_mib = (uint32_t)mib;
    return true;
}

const char *topology_name(enum topology topology)
{
    static const char *const name[] = {
#define X(code, word, text) [code] = (word),
        TOPOLOGY_TABLE(X)
#undef X
    };
    must(topology < TOPOLOGIES);
    must(name[topology] != NULL);
    return name[topology];
}

const char *topology_text(enum topology topology)
{
    static const char *const texts[] = {
#define X(code, word, text) [code] = (text),
        TOPOLOGY_TABLE(X)
#undef X
    };
    must(topology > TOPOLOGY_ANY);
    must(topology < TOPOLOGIES);
    return texts[topology];
}

static uint32_t most_parts_of(const struct request *request)
{
    uint32_t most = 0;

    must(request->n_wants > 0);
    must(request->want != NULL);
    for (uint32_t i = 0; i < request->n_wants; i++)
        most = request->want[i].parts > most ? request->want[i].parts : most;
    must(most > 0);
    return most;
}

/* Case-insensitive: "NVLink" is accepted. */
static bool parse_topology(const struct parser *parser, struct request *out)
{
    const char *given = parser->pod->topology;

    must(out->topology == TOPOLOGY_ANY);
    must(!parser->bound);
    if (given == NULL)
        return true;
    for (enum topology topology = TOPOLOGY_NUMA; topology < TOPOLOGIES; topology++) {
        if (!text_glob(text_of(topology_name(topology)), text_trim(text_of(given))))
            continue;
        out->topology = most_parts_of(out) > 1 ? topology : TOPOLOGY_ANY;
        return true;
    }
    struct strbuf buf;
    strbuf_init(&buf);
    strbuf_str(&buf, "annotation milligpu.io/topology: ");
    request_quote(&buf, given);
    strbuf_str(&buf, " is no topology; write nvlink (GPUs that NVLink joins) or numa (GPUs of one "
                     "NUMA node)");
    return request_say_refusal(parser, REASON_TOPOLOGY_SYNTAX, &buf);
}

/* On a bound pod, invalid preferences count as absent. */
static bool parse_preferences(const struct parser *parser, struct arena *arena, struct request *out)
{
    struct refusal passed_over;
    struct parser lenient = *parser;

    must(out->n_models == 0 && out->memory_mib == 0);
    must(out->n_wants > 0);
    if (!parser->bound)
        return parse_models(parser, arena, out) && parse_memory(parser, out) &&
               parse_topology(parser, out);
    lenient.refusal = &passed_over;
    if (!parse_models(&lenient, arena, out))
        out->n_models = 0;
    (void)parse_memory(&lenient, out);
    return true;
}

/* Rounded up, so that the free amounts of a node are not overestimated. */
static struct host host_of_pod(const struct pod *pod)
{
    must(pod->cpu_milli >= 0);
    must(pod->memory_bytes >= 0);

    const int64_t mib = pod->memory_bytes / HOST_MIB_BYTES;
    const bool more = pod->memory_bytes % HOST_MIB_BYTES != 0;
    return (struct host){host_amount(pod->cpu_milli), host_amount(mib + more)};
}

/* The verdicts exclude each other in this order: whole GPUs alone, not ours, zero, refused, OK. */
static enum request_verdict request_parse_pod(struct parser *parser, struct arena *arena,
                                              struct request *out)
{
    const struct pod *pod = parser->pod;

    must(pod != NULL);
    must(parser->rules != NULL && parser->rules->resource != NULL);
    must(out != NULL && parser->refusal != NULL);
    *out = (struct request){.host = host_of_pod(pod)};
    *parser->refusal = (struct refusal){0};
    bool named = false;
    for (uint32_t i = 0; i < pod->n_containers; i++) {
        named |= pod->container[i].amount != NULL;
        out->n_wants += request_container_asks(&pod->container[i]);
    }
    out->whole = pod->whole_gpus;
    /* Pods with whole GPUs matter on nodes with shares, even without our resource. */
    if (out->n_wants == 0 && out->whole > 0)
        return REQUEST_WHOLE;
    if (!named)
        return REQUEST_NOT_OURS;
    if (out->n_wants == 0)
        return REQUEST_ZERO;

    must(out->n_wants <= pod->n_containers);
    parser->several = out->n_wants > 1;
    /* Only after the check that the pod is ours: other pods never depend on milligpu. */
    if (pod->unreadable != NULL && !parser->bound) {
        (void)refuse_unreadable(parser);
        return REQUEST_REFUSED;
    }
    if (out->n_wants > CONTAINERS_MAX) {
        (void)refuse_limit(parser, out->n_wants, "containers that ask", CONTAINERS_MAX);
        return REQUEST_REFUSED;
    }
    if (!parse_wants(parser, arena, out) || !parse_others(parser, arena, out) ||
        !parse_preferences(parser, arena, out))
        return REQUEST_REFUSED;
    return REQUEST_OK;
}

enum request_verdict request_parse(const struct pod *pod, const struct request_rules *rules,
                                   struct arena *arena, struct request *out,
                                   struct refusal *out_refusal)
{
    struct parser parser = {.pod = pod, .rules = rules, .refusal = out_refusal};

    return request_parse_pod(&parser, arena, out);
}

enum request_verdict request_parse_bound(const struct pod *pod, const struct request_rules *rules,
                                         struct arena *arena, struct request *out,
                                         struct refusal *out_refusal)
{
    struct parser parser = {.pod = pod, .rules = rules, .bound = true, .refusal = out_refusal};

    must(pod->node[0] != '\0');
    return request_parse_pod(&parser, arena, out);
}

/* The block of request_clone(): wants, then pointers, then strings, so each part is aligned. */
struct layout {
    struct request request;
    struct want want[];
};
static_assert(sizeof(struct want) % _Alignof(const char *) == 0, "pointers follow the wants");

static size_t request_strings_of(const struct request *request)
{
    must(request->n_wants == 0 || request->want != NULL);

    size_t bytes = 0;
    for (uint32_t i = 0; i < request->n_wants; i++)
        bytes += strlen(request->want[i].container) + 1;
    for (uint32_t i = 0; i < request->n_others; i++)
        bytes += strlen(request->other[i]) + 1;
    for (uint32_t i = 0; i < request->n_models; i++)
        bytes += strlen(request->model[i]) + 1;
    must(bytes >= request->n_wants); /* one terminator each */
    return bytes;
}

size_t request_bytes(const struct request *request)
{
    const size_t names = (size_t)request->n_models + request->n_others;

    return sizeof(struct layout) + request->n_wants * sizeof(struct want) +
           names * sizeof(const char *) + request_strings_of(request);
}

static const char *put_string(char **at, const char *text)
{
    must(at != NULL && *at != NULL);
    must(text != NULL);

    const size_t bytes = strlen(text) + 1;
    char *copy = *at;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

struct request *request_clone(const struct request *request)
{
    const size_t bytes = request_bytes(request);
    char *block = xmalloc(bytes);
    struct layout *layout = (struct layout *)(void *)block;
    struct request *copy = &layout->request;

    *copy = *request;
    copy->want = layout->want;
    copy->model = (const char **)(void *)(layout->want + copy->n_wants);
    copy->other = copy->model + copy->n_models;
    char *at = (char *)(void *)(copy->other + copy->n_others);
    for (uint32_t i = 0; i < copy->n_wants; i++) {
        copy->want[i] = request->want[i];
        copy->want[i].container = put_string(&at, request->want[i].container);
    }
    for (uint32_t i = 0; i < copy->n_models; i++)
        copy->model[i] = put_string(&at, request->model[i]);
    for (uint32_t i = 0; i < copy->n_others; i++)
        copy->other[i] = put_string(&at, request->other[i]);
    must(at == block + bytes);
    must_debug(request_eq(copy, request));
    return copy;
}

bool request_eq(const struct request *a, const struct request *b)
{
    must(a != NULL);
    must(b != NULL);

    if (a->n_wants != b->n_wants || a->n_models != b->n_models || a->memory_mib != b->memory_mib ||
        a->topology != b->topology || a->whole != b->whole || a->rules != b->rules)
        return false;
    for (uint32_t i = 0; i < a->n_wants; i++) {
        const struct want *x = &a->want[i];
        const struct want *y = &b->want[i];
        if (x->kind != y->kind || x->parts != y->parts || x->milli != y->milli)
            return false;
    }
    for (uint32_t i = 0; i < a->n_models; i++)
        if (strcmp(a->model[i], b->model[i]) != 0)
            return false;
    return true;
}

/*
 * request_hash() covers no field that request_eq() ignores, so that equal requests have equal
 * hashes.
 */
static uint32_t request_mix(uint32_t hash, uint32_t number)
{
    hash = (hash ^ number) * 0x85EBCA6BU;
    return hash ^ (hash >> 15);
}

uint32_t request_hash(const struct request *request)
{
    must(request != NULL);
    must(request->n_wants == 0 || request->want != NULL);

    uint32_t hash = request_mix(request_mix(request->n_wants, request->memory_mib), request->whole);
    hash = request_mix(hash, (uint32_t)request->topology);
    hash =
        request_mix(request_mix(hash, (uint32_t)request->rules), (uint32_t)(request->rules >> 32));
    for (uint32_t i = 0; i < request->n_wants; i++) {
        const struct want *want = &request->want[i];
        hash = request_mix(hash, (uint32_t)want->kind);
        hash = request_mix(hash, want->parts);
        hash = request_mix(hash, want->milli);
    }
    for (uint32_t i = 0; i < request->n_models; i++)
        hash = request_mix(hash, text_hash(text_of(request->model[i])));
    return hash;
}

void request_add_models(struct strbuf *buf, const struct request *request)
{
    must(request->n_models > 0);
    must(request->model != NULL);

    for (uint32_t i = 0; i < request->n_models; i++) {
        if (i > 0)
            strbuf_str(buf, " or ");
        strbuf_str(buf, request->model[i]);
    }
}

void request_add_comma_hint(struct strbuf *buf, const struct request *request)
{
    must(buf->len > 0);
    must(request->n_models == 0 || request->model != NULL);
    for (uint32_t i = 0; i < request->n_models; i++)
        if (model_names_several(text_of(request->model[i]))) {
            strbuf_str(buf, " (several models? separate them by commas)");
            return;
        }
}

static void add_kind(struct strbuf *buf, enum container_kind kind)
{
    must(buf->len > 0);
    if (kind == CONTAINER_INIT)
        strbuf_str(buf, " (init)");
    else if (kind == CONTAINER_SIDECAR)
        strbuf_str(buf, " (sidecar)");
    else
        must(kind == CONTAINER_APP);
}

/* "300 milli", "2 x 300 milli", "2 whole GPUs" */
static void add_want(struct strbuf *buf, const struct want *want)
{
    must(want->parts > 0);
    must(want->milli > 0);

    if (want->milli == GPU_MILLI)
        strbuf_printf(buf, "%u whole GPU%s", want->parts, want->parts > 1 ? "s" : "");
    else if (want->parts > 1)
        strbuf_printf(buf, "%u x %u milli", want->parts, want->milli);
    else
        strbuf_printf(buf, "%u milli", want->milli);
}

/* "2 x 300 milli, 500 milli and 700 milli (init)" */
static void add_wants(struct strbuf *buf, const struct request *request)
{
    must(request->n_wants > 0);
    must(request->want != NULL);

    for (uint32_t i = 0; i < request->n_wants; i++) {
        if (i > 0)
            strbuf_str(buf, i + 1 == request->n_wants ? " and " : ", ");
        add_want(buf, &request->want[i]);
        add_kind(buf, request->want[i].kind);
    }
}

void request_format(const struct request *request, char *out, size_t bytes)
{
    must(request != NULL);
    must(out != NULL);

    CLEANUP(strbuf_done) struct strbuf buf;
    strbuf_init(&buf);
    if (request->n_wants > 0)
        add_wants(&buf, request);
    if (request->n_wants == 1 && request->want[0].parts == 1 && request->want[0].milli < GPU_MILLI)
        strbuf_str(&buf, " of one GPU");
    if (request->n_models > 0) {
        strbuf_str(&buf, ", model ");
        request_add_models(&buf, request);
    }
    if (request->memory_mib > 0)
        strbuf_printf(&buf, ", at least %u MiB in each share", request->memory_mib);
    if (request->topology != TOPOLOGY_ANY)
        strbuf_printf(&buf, ", %s", topology_text(request->topology));
    if (request->whole > 0)
        strbuf_printf(&buf, "%s%u whole GPU%s of the other resource",
                      request->n_wants > 0 ? ", beside " : "", request->whole,
                      request->whole > 1 ? "s" : "");
    text_clip((struct text){buf.data, buf.len}, out, bytes);
}

/* The numbers in texts about the kind of a node. */
struct extremes {
    uint32_t parts;       /* maximum of one container */
    uint32_t parts_milli; /* size of each of its parts */
    uint32_t most;        /* milli of a part */
    uint32_t least;
};

static struct extremes extremes_of(const struct request *request)
{
    struct extremes x = {.least = GPU_MILLI};
    for (uint32_t i = 0; i < request->n_wants; i++) {
        const struct want *want = &request->want[i];
        if (want->parts > x.parts) {
            x.parts = want->parts;
            x.parts_milli = want->milli;
        }
        if (want->milli > x.most)
            x.most = want->milli;
        if (want->milli < x.least)
            x.least = want->milli;
    }
    must(request->n_wants == 0 || x.least <= x.most);
    must(x.most <= GPU_MILLI);
    must(request->n_wants == 0 || x.parts > 0);
    return x;
}

/* The one text of all moment reasons. */
static void request_add_moment(struct strbuf *buf, const struct request *request)
{
    const struct want *want = request->want;
    must(request->n_wants > 0);

    if (request->n_wants > 1) {
        strbuf_str(buf, "no GPUs with room for ");
        add_wants(buf, request);
    } else if (want->parts > 1) {
        strbuf_printf(buf, "no %u GPUs with %u milli free each", want->parts, want->milli);
    } else {
        strbuf_printf(buf, "no GPU with %u milli free", want->milli);
    }
    if (request->topology != TOPOLOGY_ANY)
        strbuf_printf(buf, ", %s", topology_text(request->topology));
    if (request->n_models > 0) {
        strbuf_str(buf, ", model ");
        request_add_models(buf, request);
    }
    must(buf->len > 0);
}

/* A pod with whole GPUs does not fit on a node with shares. */
static void add_whole(struct strbuf *buf, const struct request *request)
{
    if (request->n_wants == 0)
        strbuf_str(buf, "the node's GPUs are shared");
    else if (request->whole > 0)
        strbuf_printf(buf, ", beside %u whole GPU%s and no other pod's shares", request->whole,
                      request->whole > 1 ? "s" : "");
    must(buf->len > 0);
}

/* The kind of a node hardly changes, so that the text may name the mismatching property. */
static void add_kind_text(struct strbuf *buf, const struct request *request, enum reason why)
{
    const struct extremes x = extremes_of(request);
    must(reason_class(why) == REASON_CLASS_KIND);

    if (why == REASON_MODEL && request->n_models > 0) {
        strbuf_str(buf, "no GPU of model ");
        request_add_models(buf, request);
        request_add_comma_hint(buf, request);
    } else if (why == REASON_SMALL) {
        strbuf_printf(buf, "no GPU of %u milli", x.most);
    } else if (why == REASON_MEMORY && x.least == x.most) {
        strbuf_printf(buf, "no GPU on which %u milli come with %u MiB", x.least,
                      request->memory_mib);
    } else if (why == REASON_MEMORY_UNKNOWN) {
        strbuf_printf(buf, "no GPU whose memory is known, and gpu-memory asks for %u MiB",
                      request->memory_mib);
    } else if (why == REASON_MEMORY) {
        strbuf_printf(buf, "no GPU on which %u to %u milli come with %u MiB each", x.least, x.most,
                      request->memory_mib);
    } else if (why == REASON_FEW) {
        strbuf_printf(buf, "fewer than %u suitable GPUs for %u milli each", x.parts, x.parts_milli);
    } else if (why == REASON_TOPOLOGY && request->topology != TOPOLOGY_ANY) {
        strbuf_printf(buf, "no %u suitable GPUs for one container, %s", x.parts,
                      topology_text(request->topology));
    } else if (why == REASON_NO_GPU) {
        strbuf_str(buf, "no GPUs");
    } else {
        strbuf_str(buf, reason_help(why));
    }
    must(buf->len > 0);
}

void request_refuse(const struct request *request, enum reason why, struct refusal *out)
{
    must(request != NULL);
    must(request_asks(request));
    must(why > REASON_NONE && why < REASONS);

    CLEANUP(strbuf_done) struct strbuf buf;
    strbuf_init(&buf);
    switch (reason_class(why)) {
    case REASON_CLASS_MOMENT:
        if (request->n_wants > 0)
            request_add_moment(&buf, request);
        add_whole(&buf, request);
        break;
    case REASON_CLASS_KIND:
        add_kind_text(&buf, request, why);
        break;
    case REASON_CLASS_REQUEST:
    case REASON_CLASS_STATE:
        strbuf_str(&buf, reason_help(why));
        break;
    }
    must(buf.len > 0);
    out->why = why;
    text_clip((struct text){buf.data, buf.len}, out->text, sizeof out->text);
}

bool request_name_takes(const struct request *request, uint32_t name, struct text model)
{
    char dashed[MODEL_BYTES_MAX];

    must(name < request->n_models);
    must(model.at != NULL || model.len == 0);
    if (model.len > sizeof dashed)
        return false; /* rejected by inventory, but a database may contain any value */
    return model_takes(text_of(request->model[name]), model_bare(model, dashed));
}

bool request_takes_model(const struct request *request, struct text model)
{
    must(request->n_models <= MODELS_MAX);
    must(model.at != NULL || model.len == 0);

    for (uint32_t i = 0; i < request->n_models; i++)
        if (request_name_takes(request, i, model))
            return true;
    return request->n_models == 0;
}

uint32_t request_peak(const struct request *request, const uint32_t *amount)
{
    must(request != NULL);
    must(amount != NULL);

    uint64_t running = 0;  /* app containers and sidecars, which run concurrently */
    uint64_t sidecars = 0; /* sidecars started so far */
    uint64_t starting = 0; /* peak while init containers run */
    for (uint32_t i = 0; i < request->n_wants; i++) {
        const enum container_kind kind = request->want[i].kind;
        if (kind == CONTAINER_INIT) {
            const uint64_t now = amount[i] + sidecars;
            starting = now > starting ? now : starting;
            continue;
        }
        running += amount[i];
        if (kind == CONTAINER_SIDECAR)
            sidecars += amount[i];
    }
    must(sidecars <= running);
    const uint64_t peak = running > starting ? running : starting;
    must(peak <= UINT32_MAX);
    return (uint32_t)peak;
}

bool request_is_of_several(const struct request *request)
{
    uint32_t milli[CONTAINERS_MAX];
    const uint32_t touched = request->n_wants > 0 ? 1 : 0;

    must(request->n_wants <= CONTAINERS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++) {
        must(request->want[i].parts > 0);
        if (request->want[i].parts > 1)
            return true;
        milli[i] = request->want[i].milli;
    }
    /* A whole GPU has no shares, not even of this pod. */
    return request->whole + touched > 1 || request_peak(request, milli) > GPU_MILLI;
}
