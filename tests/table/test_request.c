/* Runs request.txt; the language is described at its top. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/facts/request.h"

#include "support/sentences.h"
#include "support/test.h"

enum { CONTAINERS = 8, SENTENCES_MIN = 180 };

struct table {
    struct arena arena;         /* of all words */
    struct arena request_arena; /* of the request */
    const char *at;             /* rest of the sentence */
    const char *wrong;          /* first error in the sentence, or NULL */
    struct request_rules rules;
    struct pod pod;
    struct pod_container container[CONTAINERS];
    struct pod_share line[CONTAINERS];
    bool judged; /* a sentence says something about the pod */
    enum request_verdict verdict;
    struct request request;
    struct refusal refusal;
    struct request *remembered;
    const char *refused[REASONS]; /* the latest text, or NULL */
};

#define WRONG(table, ...)                                                                          \
    do {                                                                                           \
        if ((table)->wrong == NULL)                                                                \
            (table)->wrong = arena_printf(&(table)->arena, __VA_ARGS__);                           \
    } while (0)

/*
 * Words
 */

static bool has_more(struct table *table)
{
    table->at += strspn(table->at, " ");
    return *table->at != '\0';
}

/* Returns the next word without its quotation marks; "" at the end. A comma or colon is a word. */
static const char *word(struct table *table)
{
    const bool quoted = has_more(table) && *table->at == '"';
    const char *at = table->at + quoted;
    const size_t length = strcspn(at, quoted ? "\"" : " ,:");
    const char *const end = at + (length == 0 && !quoted && *at != '\0' ? 1 : length);
    char *out = arena_alloc(&table->arena, strlen(table->at) + 1);
    unsigned code = 0;

    for (char *to = out; at < end; to++) {
        const bool escaped = quoted && sscanf(at, "\\x%2x", &code) == 1;
        *to = escaped ? (char)code : *at;
        at += escaped ? strlen("\\x0A") : 1;
    }
    table->at = end + (quoted && *end == '"');
    return out;
}

static bool next_is(struct table *table, const char *expected)
{
    const char *before = table->at;

    if (strcmp(word(table), expected) == 0)
        return true;
    table->at = before;
    return false;
}

static int64_t number(struct table *table)
{
    const char *digits = word(table);
    char *end = NULL;
    const int64_t value = strtoll(digits, &end, 10);

    if (end == digits || *end != '\0')
        WRONG(table, "'%s' is no number", digits);
    return value;
}

/*
 * Pods
 */

static void read_container(struct table *table)
{
    if (table->pod.n_containers == CONTAINERS) {
        WRONG(table, "more than %d containers", CONTAINERS);
        return;
    }
    const uint32_t i = table->pod.n_containers++;
    struct pod_container *container = &table->container[i];

    *container = (struct pod_container){.name = arena_printf(&table->arena, "c%u", i)};
    if (next_is(table, "init"))
        container->kind = CONTAINER_INIT;
    else if (next_is(table, "sidecar"))
        container->kind = CONTAINER_SIDECAR;
    container->amount = next_is(table, "none") ? NULL : word(table);
    container->count = next_is(table, "over") ? word(table) : NULL;
}

static void read_line(struct table *table)
{
    if (table->pod.n_shares == CONTAINERS) {
        WRONG(table, "more than %d lines", CONTAINERS);
        return;
    }
    const uint32_t i = table->pod.n_shares++;
    struct pod_share *line = &table->line[i];

    *line = (struct pod_share){.container = word(table), .milli = (uint32_t)number(table)};
    if (next_is(table, "asked"))
        line->asked = (uint32_t)number(table);
    line->gpu = next_is(table, "on") ? word(table) : arena_printf(&table->arena, "GPU-%u", i);
}

/* Returns whether a setting of the pod was read. */
static bool read_setting(struct table *table)
{
    struct pod *pod = &table->pod;
    const struct {
        const char *key;
        const char **value;
    } setting[] = {{"count", &pod->count},
                   {"model", &pod->model},
                   {"memory", &pod->memory},
                   {"topology", &pod->topology},
                   {"unreadable", &pod->unreadable}};

    for (size_t i = 0; i < ARRAY_LEN(setting); i++)
        if (next_is(table, setting[i].key)) {
            *setting[i].value = word(table);
            return true;
        }
    if (next_is(table, "cpu")) {
        pod->cpu_milli = number(table);
    } else if (next_is(table, "bytes")) {
        pod->memory_bytes = number(table);
    } else if (next_is(table, "whole")) {
        pod->whole_gpus = (uint32_t)number(table);
    } else if (next_is(table, "allocation")) {
        pod->annotation = next_is(table, "broken") ? NOTE_BROKEN : NOTE_OK;
        do
            read_line(table);
        while (next_is(table, ","));
    } else {
        return false;
    }
    return true;
}

static void parse(struct table *table, bool bound)
{
    /* request_parse() must set every field. */
    memset(&table->request, 0xA5, sizeof table->request);
    memset(&table->refusal, 0xA5, sizeof table->refusal);
    /* Not zeroed: the new request may lie where a longer one was. */
    arena_reset(&table->request_arena);
    table->verdict = (bound ? request_parse_bound : request_parse)(
        &table->pod, &table->rules, &table->request_arena, &table->request, &table->refusal);
    table->judged = false;
    if (table->verdict != REQUEST_REFUSED &&
        (table->refusal.why != REASON_NONE || table->refusal.text[0] != '\0'))
        WRONG(table, "not refused, but there is a reason: %s", table->refusal.text);
    if (table->verdict != REQUEST_REFUSED &&
        request_asks(&table->request) != (table->verdict <= REQUEST_WHOLE))
        WRONG(table, "request_asks() differs from the verdict");
}

static void read_pod(struct table *table, bool bound)
{
    if (!table->judged)
        WRONG(table, "no sentence is about the previous pod");
    table->pod = (struct pod){.uid = "u", .node = bound ? "n1" : ""};
    table->pod.container = table->container;
    table->pod.share = table->line;
    if (!next_is(table, "nothing"))
        do
            read_container(table);
        while (next_is(table, ","));
    while (read_setting(table))
        continue;
    parse(table, bound);
}

static void read_rules(struct table *table)
{
    table->rules = (struct request_rules){"nvidia.com/vgpu", 1, 1};
    if (next_is(table, "minimum"))
        table->rules.min_milli = (uint32_t)number(table);
    if (next_is(table, "step"))
        table->rules.step_milli = (uint32_t)number(table);
}

/*
 * Sentences about the pod
 */

static void write_wants(const struct table *table, struct strbuf *out)
{
    static const char *const kind[] = {"", "init ", "sidecar "};

    for (uint32_t i = 0; i < table->request.n_wants; i++) {
        const struct want *want = &table->request.want[i];
        strbuf_str(out, i > 0 ? " + " : " ");
        if (table->pod.n_containers > 1)
            strbuf_printf(out, "%s ", want->container);
        strbuf_str(out, kind[want->kind]);
        if (want->parts > 1)
            strbuf_printf(out, "%u x ", want->parts);
        strbuf_printf(out, "%u", want->milli);
    }
}

static void write_request(const struct table *table, struct strbuf *out)
{
    const struct request *request = &table->request;

    strbuf_str(out, "asks for");
    write_wants(table, out);
    for (uint32_t i = 0; i < request->n_models; i++)
        strbuf_printf(out, "%s%s", i > 0 ? " or " : " model ", request->model[i]);
    if (request->memory_mib > 0)
        strbuf_printf(out, " memory %u", request->memory_mib);
    if (request->topology != TOPOLOGY_ANY)
        strbuf_printf(out, " topology %s", topology_name(request->topology));
    if (request->whole > 0)
        strbuf_printf(out, " whole %u", request->whole);
    if (request->host.cpu_milli > 0 || request->host.memory_mib > 0)
        strbuf_printf(out, " host %u %u", request->host.cpu_milli, request->host.memory_mib);
    for (uint32_t i = 0; i < request->n_others; i++)
        strbuf_printf(out, "%s%s", i > 0 ? " " : " beside ", request->other[i]);
}

static void compare(struct table *table, const char *actual)
{
    (void)has_more(table);
    if (strcmp(actual, table->at) != 0)
        WRONG(table, "\n  actual: %s\n  said:   %s", actual, table->at);
    table->at = "";
}

/* Replaces "..." at the end of the sentence by what the previous refusal says after its "; ". */
static void complete(struct table *table)
{
    const char *dots = strstr(table->at, "; ...");
    const char *const previous = table->refused[table->refusal.why];
    const char *const rest = previous != NULL ? strstr(previous, "; ") : NULL;

    if (dots != NULL && rest != NULL)
        table->at = arena_printf(&table->arena, "%.*s%s", (int)(dots - table->at), table->at, rest);
}

static void expect_refused(struct table *table)
{
    const enum reason why = table->refusal.why;
    const char *text = arena_printf(&table->arena, "%s", table->refusal.text);

    complete(table);
    table->refused[why] = text;
    compare(table, arena_printf(&table->arena, "is refused %s: %s", reason_name(why), text));
}

static void expect_verdict(struct table *table)
{
    CLEANUP(strbuf_done) struct strbuf actual;

    strbuf_init(&actual);
    if (table->verdict == REQUEST_ZERO || table->verdict == REQUEST_NOT_OURS)
        strbuf_str(&actual, table->verdict == REQUEST_ZERO ? "asks for zero" : "asks for nothing");
    else
        write_request(table, &actual);
    compare(table, actual.data);
}

static void expect_models(struct table *table, bool taken)
{
    while (has_more(table)) {
        const char *model = word(table);
        if (request_takes_model(&table->request, text_of(model)) != taken)
            WRONG(table, "'%s' is %s", model, taken ? "not taken" : "taken");
    }
}

static enum reason reason_named(struct table *table, const char *name)
{
    for (enum reason why = REASON_AMOUNT; why < REASONS; why++)
        if (strcmp(reason_name(why), name) == 0)
            return why;
    WRONG(table, "there is no reason '%s'", name);
    return REASON_ROOM;
}

static void expect_node_refusals(struct table *table)
{
    const char *text = strstr(table->at, ": ");

    while (text != NULL && table->wrong == NULL && !next_is(table, ":")) {
        const enum reason why = reason_named(table, word(table));
        request_refuse(&table->request, why, &table->refusal);
        if (table->refusal.why != why || strcmp(table->refusal.text, text + 2) != 0)
            WRONG(table, "the refusal for %s is: %s", reason_name(why), table->refusal.text);
    }
    if (text == NULL)
        WRONG(table, "a text is missing");
    table->at = "";
}

/* Requests with equal hashes would make each look-up a comparison, so different ones differ. */
static void expect_same(struct table *table, bool same)
{
    if (table->remembered == NULL)
        WRONG(table, "no request is remembered");
    else if (request_eq(table->remembered, &table->request) != same ||
             (request_hash(table->remembered) == request_hash(&table->request)) != same)
        WRONG(table, "it is %s request", same ? "another" : "the same");
}

static void expect_display(struct table *table)
{
    char text[REASON_BYTES_MAX];

    request_format(&table->request, text, sizeof text);
    compare(table, text);
}

static void remember(struct table *table)
{
    xfree(table->remembered);
    table->remembered = request_clone(&table->request);
    expect_same(table, true);
}

/* Goes past the words if they come next. */
static bool says(struct table *table, const char *words)
{
    const size_t length = strlen(words);
    const bool found = strncmp(table->at, words, length) == 0;

    table->at += found ? length : 0;
    return found;
}

static void judge(struct table *table)
{
    table->judged = true;
    if (says(table, "takes "))
        expect_models(table, true);
    else if (says(table, "leaves "))
        expect_models(table, false);
    else if (says(table, "for "))
        expect_node_refusals(table);
    else if (says(table, "reads "))
        expect_display(table);
    else if (says(table, "is another request"))
        expect_same(table, false);
    else if (says(table, "is the same request"))
        expect_same(table, true);
    else if (says(table, "is remembered"))
        remember(table);
    else if (table->verdict == REQUEST_REFUSED)
        expect_refused(table);
    else
        expect_verdict(table);
}

/* Returns NULL if the sentence holds. */
static const char *check(struct table *table, const char *sentence)
{
    table->at = sentence;
    table->wrong = NULL;
    if (next_is(table, "rules")) {
        read_rules(table);
    } else {
        const bool bound = next_is(table, "bound");
        if (next_is(table, "pod"))
            read_pod(table, bound);
        if (has_more(table))
            judge(table);
    }
    if (has_more(table))
        WRONG(table, "too much at the end: %s", table->at);
    return table->wrong;
}

static void table_init(struct table *table)
{
    *table = (struct table){.judged = true, .at = ""};
    arena_init(&table->arena);
    arena_init(&table->request_arena);
    read_rules(table);
}

static void table_done(struct table *table)
{
    xfree(table->remembered);
    arena_done(&table->request_arena);
    arena_done(&table->arena);
}

static const char file[] = "tests/table/request.txt";

static void check_sentence(void *user, uint32_t line, char *sentence)
{
    const char *wrong = check(user, sentence);

    if (wrong != NULL)
        fail_msg("%s:%u: %s", file, line, wrong);
}

TEST(request__is_as_each_sentence_says)
{
    static struct table table;

    table_init(&table);
    assert_true(sentences_each(file, &table, check_sentence) >= SENTENCES_MIN);
    assert_true(table.judged);
    for (enum reason why = REASON_AMOUNT; why <= REASON_UNREADABLE; why++) {
        assert_non_null(table.refused[why]);
        assert_int_equal(reason_class(why), REASON_CLASS_REQUEST);
    }
    table_done(&table);
}

TEST(request_table__refuses_wrong_sentences)
{
    static const char *const wrong[] = {
        "asks for 301",
        "asks for 300",
        "asks for 2 x 300",
        "asks for init 300",
        "asks for zero",
        "is refused amount: nvidia.com/vgpu: 300 is negative",
        "takes T4 A100",
        "leaves A100 T4",
        "for room: no GPU with 300 milli free",
        "for room",
        "for rooms: no GPU with 300 milli free, model T4",
        "reads 300 milli of one GPU",
        "is another request",
        "is the same request",
        "frobs",
        "pod 300 asks for 300 memory 5",
        ("pod 1500 is refused step: nvidia.com/vgpu: 1500 is neither at most 1000 nor a multiple "
         "of 1000; ask for 1000 or 2000"),
        "pod 1500 is refused amount: nvidia.com/vgpu",
        "pod 300 cpu x",
        "pod 0, 0, 0, 0, 0, 0, 0, 0, 0 asks for zero",
        "rules minimum 5 x",
    };
    static struct table table;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        table_init(&table);
        assert_null(check(&table, "pod 300 model T4"));
        assert_null(check(&table, "asks for 300 model T4"));
        if (check(&table, wrong[i]) == NULL)
            fail_msg("not refused: %s", wrong[i]);
        table_done(&table);
    }
    table_init(&table);
    assert_null(check(&table, "pod 300"));
    assert_non_null(check(&table, "pod 400")); /* no sentence is about the first */
    table_done(&table);
}
