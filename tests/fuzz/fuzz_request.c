/*
 * The annotations and amounts that people write become a request that keeps its invariants, or a
 * refusal with a text; and a glob matches what a plain recursive matcher says.
 *
 * Input: lines: count, model and memory of the pod, then for each container its kind letter, its
 * own count up to a blank, and its amount.
 */
#include <string.h>

#include "milligpu/core/facts/request.h"

#include "support.h"

enum { CONTAINERS = 12, GLOB_MAX = 40 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Exponential in the number of stars, so only for short globs. */
static bool matches(struct text glob, struct text text)
{
    if (glob.len == 0)
        return text.len == 0;
    const struct text rest = {glob.at + 1, glob.len - 1};
    if (glob.at[0] == '*') {
        for (size_t i = 0; i <= text.len; i++)
            if (matches(rest, (struct text){text.at + i, text.len - i}))
                return true;
        return false;
    }
    return text.len > 0 && (glob.at[0] == '?' || lower(glob.at[0]) == lower(text.at[0])) &&
           matches(rest, (struct text){text.at + 1, text.len - 1});
}

static void compare_globs(struct text glob, struct text text)
{
    size_t stars = 0;
    for (size_t i = 0; i < glob.len; i++)
        stars += glob.at[i] == '*';
    if (stars <= 3 && glob.len <= GLOB_MAX && text.len <= GLOB_MAX)
        must(text_glob(glob, text) == matches(glob, text));
}

/* NULL for an empty piece: the field is absent. */
static const char *given(struct arena *arena, struct text text)
{
    const char *copy = arena_copy(arena, text);
    return copy[0] != '\0' ? copy : NULL;
}

static void read_container(struct arena *arena, struct text line, struct pod_container *out)
{
    struct pieces pieces = pieces_of((const uint8_t *)line.at, line.len);
    const uint8_t kind = pieces_byte(&pieces);
    out->kind = kind == 'i' ? CONTAINER_INIT : kind == 's' ? CONTAINER_SIDECAR : CONTAINER_APP;
    out->count = given(arena, pieces_until(&pieces, ' '));
    out->amount = given(arena, pieces_rest(&pieces));
}

static void check_request(const struct request *request)
{
    uint32_t parts = 0;
    uint32_t amount[CONTAINERS] = {0};
    char text[64];
    must(request->n_wants > 0 && request->n_wants <= CONTAINERS && request->n_models <= MODELS_MAX);
    for (uint32_t i = 0; i < request->n_wants; i++) {
        const struct want *want = &request->want[i];
        must(want->parts >= 1 && want->parts <= GPUS_PER_NODE_MAX);
        must(want->milli >= 1 && want->milli <= GPU_MILLI);
        parts += want->parts;
        amount[i] = want->milli;
    }
    must(parts <= PARTS_MAX);
    must(request_peak(request, amount) >= amount[0]);
    request_format(request, text, sizeof text);
    must(text[0] != '\0' && strlen(text) < sizeof text);
    struct request *copy = request_clone(request);
    must(request_eq(request, copy) && request_hash(request) == request_hash(copy));
    free(copy);
}

/* Small whole amounts without a count: the rule of inventory_share_mib(), written differently. */
static void check_amount(const struct pod *pod, enum request_verdict verdict)
{
    const struct pod_container *only = &pod->container[0];
    if (pod->n_containers != 1 || only->amount == NULL || only->count != NULL ||
        pod->count != NULL || pod->model != NULL || pod->memory != NULL)
        return;
    const size_t len = strlen(only->amount);
    if (len > 9 || strspn(only->amount, "0123456789") != len)
        return;
    const long amount = strtol(only->amount, NULL, 10);
    const bool good = amount <= 1000 || (amount % 1000 == 0 && amount <= 64000);
    must(verdict == (amount == 0 ? REQUEST_ZERO : good ? REQUEST_OK : REQUEST_REFUSED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    const struct request_rules rules = {"nvidia.com/vgpu", 1, 1};
    struct pieces pieces = pieces_of(data, size);
    struct pod_container container[CONTAINERS] = {{.name = "a"}};
    struct pod pod = {.uid = "u", .namespace = "ns", .name = "p", .node = "", .ours = false};
    struct request request = {.n_wants = 0};
    struct refusal refusal = {.why = REASON_NONE};
    SCOPED_ARENA(arena);
    pod.count = given(&arena, pieces_until(&pieces, '\n'));
    const struct text model = pieces_until(&pieces, '\n');
    pod.model = given(&arena, model);
    const struct text memory = pieces_until(&pieces, '\n');
    pod.memory = given(&arena, memory);
    compare_globs(model, memory);
    pod.container = container;
    for (; pieces.left > 0 && pod.n_containers < CONTAINERS; pod.n_containers++) {
        container[pod.n_containers].name = names[pod.n_containers];
        read_container(&arena, pieces_until(&pieces, '\n'), &container[pod.n_containers]);
        pod.ours |= container[pod.n_containers].amount != NULL;
    }
    const enum request_verdict verdict = request_parse(&pod, &rules, &arena, &request, &refusal);
    must(pod.ours == (verdict != REQUEST_NOT_OURS));
    check_amount(&pod, verdict);
    if (verdict == REQUEST_OK) {
        check_request(&request);
        must(text_glob(text_of("*"), model));
    }
    if (verdict == REQUEST_REFUSED)
        must(refusal.why != REASON_NONE && refusal.text[0] != '\0');
    if (verdict == REQUEST_OK && request.n_models > 0)
        (void)request_takes_model(&request, memory);
    return 0;
}
