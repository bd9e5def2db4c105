/* Reads tests/policy/documents.txt, whose top describes it, and what a text file cannot hold. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/document/policy/policy_document.h"

#include "support/test.h"
#include "support/zones.h"

#define HEAD "apiVersion: milligpu.io/v1\nkind: Policy\npolicy: rollout\n"

/* As zone_load() does, of which this layer knows nothing. */
static int load_zone(const char *name, struct zone **out, struct err *err)
{
    if (strcmp(name, "UTC") == 0)
        *out = zone_utc();
    else if (strcmp(name, "Europe/Berlin") == 0)
        *out = zones_of_rule(name, "CET-1CEST,M3.5.0,M10.5.0/3");
    else
        return err_set(err, ERR_NOT_FOUND,
                       "unknown time zone \"%s\": write it as tzdata does, such as Europe/Berlin",
                       name);
    return 0;
}

static int read_file(const char *file, size_t max, char **out, size_t *out_len, struct err *err)
{
    FILE *stream = fopen(file, "re");

    if (stream == NULL)
        return err_set(err, ERR_NOT_FOUND, "%s: no such file", file);
    char *bytes = xcalloc(max + 1, 1);
    *out_len = fread(bytes, 1, max, stream);
    *out = bytes;
    assert_int_equal(fclose(stream), 0);
    return 0;
}

static const struct policy_edges edges = {.load_zone = load_zone, .read_file = read_file};
static const struct policy_edges simulating = {
    .load_zone = load_zone, .read_file = read_file, .baselines = true};

/* --- the file of examples --- */

struct example {
    unsigned line;
    char says[1024]; /* "error: 4:3: ..." */
    bool whole;
    struct strbuf body;
};

/* The reader's report, in the words of the file; the warnings in one line. */
static void check(const struct example *example, struct strbuf *out)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book = NULL;
    struct err err;

    strbuf_init(&bytes);
    strbuf_init(&warnings);
    strbuf_str(&bytes, example->whole ? "" : HEAD);
    strbuf_str(&bytes, example->body.data);
    const int rc = policy_document_read((struct text){bytes.data, bytes.len}, "x", &edges, &book,
                                        &warnings, &err);
    const bool beyond = strncmp(example->says, "error beyond the schema: ", 25) == 0;
    if (rc < 0) {
        assert_memory_equal(err.text, "x:", 2);
        strbuf_printf(out, "error%s: %s", beyond ? " beyond the schema" : "", err.text + 2);
        return;
    }
    assert_int_equal(strlen(book->digest), 16);
    rulebook_unref(book);
    if (warnings.len == 0) {
        strbuf_str(out, "fine");
        return;
    }
    strbuf_str(out, "warning: ");
    strbuf_text(out, (struct text){warnings.data + 2, warnings.len - 3});
}

static bool is_said(struct example *example)
{
    CLEANUP(strbuf_done) struct strbuf says;

    strbuf_init(&says);
    check(example, &says);
    if (strcmp(says.data, example->says) == 0)
        return true;
    print_error("tests/policy/documents.txt:%u:\n## %s\n", example->line, says.data);
    return false;
}

TEST(policy_document__reports_what_the_examples_say)
{
    const char *source = getenv("MILLIGPU_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    struct example example = {0};
    char path[4096];
    char line[16384];
    unsigned lines = 0;
    unsigned wrong = 0;
    (void)snprintf(path, sizeof path, "%s/tests/policy/documents.txt", source ? source : ".");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    strbuf_init(&example.body);
    while (fgets(line, sizeof line, file) != NULL) {
        lines++;
        if (strcmp(line, "## whole\n") == 0) {
            example.whole = true;
        } else if (strncmp(line, "## ", 3) == 0) {
            wrong += example.line > 0 && !is_said(&example);
            strbuf_reset(&example.body);
            example.line = lines;
            example.whole = false;
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(example.says, sizeof example.says, "%.1000s", line + 3);
        } else if (example.line > 0) {
            strbuf_str(&example.body, line);
        }
    }
    assert_int_equal(fclose(file), 0);
    wrong += !is_said(&example);
    strbuf_done(&example.body);
    assert_in_range(lines, 300, 3000);
    assert_int_equal(wrong, 0);
}

/* --- what is read --- */

struct reading {
    struct rulebook *book;
    struct strbuf warnings;
};

static void done(struct reading *reading)
{
    rulebook_unref(reading->book);
    strbuf_done(&reading->warnings);
}

static struct reading reading_of(const char *document)
{
    struct reading reading = {0};
    struct err err;

    strbuf_init(&reading.warnings);
    if (policy_document_read(text_of(document), "own.yaml", &edges, &reading.book,
                             &reading.warnings, &err) < 0)
        fail_msg("%s", err.text);
    return reading;
}

TEST(policy_document__has_defaults)
{
    CLEANUP(done) struct reading reading = reading_of(HEAD);
    const struct rulebook *book = reading.book;
    assert_string_equal(book->name, "own.yaml");
    assert_int_equal(book->policy, POLICY_ROLLOUT);
    assert_int_equal(book->seed, 0);
    assert_int_equal(book->prices_by, PRICES_OFF);
    assert_false(book->raise);
    assert_int_equal(book->n_prices + book->n_shapes + book->n_rules + book->n_zones, 0);
}

TEST(policy_document__has_the_digest_of_its_bytes)
{
    CLEANUP(done) struct reading one = reading_of(HEAD);
    CLEANUP(done) struct reading same = reading_of(HEAD);
    CLEANUP(done) struct reading other = reading_of(HEAD "\n");
    assert_string_equal(one.book->digest, same.book->digest);
    assert_string_not_equal(one.book->digest, other.book->digest);
}

TEST(policy_document__reads_the_keys_of_the_document)
{
    CLEANUP(done)
    struct reading reading =
        reading_of(HEAD "seed: 7\nprices: {NVIDIA-H100*: 900, Tesla T4: 40}\nmemory: raise\n"
                        "workload:\n"
                        "  - {gpus: 8, milli: 500, cpu: 1500m, memory: 1025Ki, weight: 5,\n"
                        "     models: [A100*, 'GeForce RTX*']}\n"
                        "  - {gpus: 2, weight: 495}\n");
    const struct rulebook *book = reading.book;
    const struct workload_class *class = &book->shape[0].class;
    assert_int_equal(book->seed, 7);
    assert_true(book->raise);
    assert_int_equal(book->prices_by, PRICES_KNOWN);
    assert_int_equal(book->n_prices, 2);
    assert_string_equal(book->price[0].model, "H100*");
    assert_int_equal(book->price[0].price, 900);
    assert_string_equal(book->price[1].model, "Tesla-T4");
    assert_int_equal(book->price[1].price, 40);
    assert_int_equal(book->n_shapes, 2);
    assert_int_equal(class->parts, 8);
    assert_int_equal(class->milli, 500);
    assert_int_equal(class->host.cpu_milli, 1500);
    assert_int_equal(class->host.memory_mib, 2);
    assert_int_equal(class->n_models, 2);
    assert_string_equal(class->model[1], "GeForce-RTX*");
    assert_int_equal(book->shape[0].weight, 5);
    assert_int_equal(book->shape[1].class.milli, 1000);
    assert_int_equal(book->shape[1].class.n_models, 0);
}

static const char rules[] = HEAD
    "rules:\n"
    "  - name: night\n"
    "    when: Mon-Fri 20:00-08:00 Europe/Berlin\n"
    "    nodes: {pool: training, nvidia.com/gpu.product: A100*}\n"
    "    namespaces: [ml-*, research]\n"
    "    policy: spread\n"
    "    whole: true\n"
    "    reserve: 2\n"
    "    min: 100\n"
    "    step: 50\n"
    "    sizes: [250, 1000, 500]\n"
    "    models: [A100*, NVIDIA-H100*]\n"
    "    memory: raise\n"
    "    topology: nvlink\n"
    "  - {when: Sat 00:00-24:00 Europe/Berlin, sizes: 3 equal, topology: numa, memory: filter}\n"
    "  - {when: Sun, min: 5}\n";

TEST(policy_document__reads_the_keys_of_a_rule)
{
    CLEANUP(done) struct reading reading = reading_of(rules);
    const struct rule *rule = &reading.book->rule[0];
    assert_string_equal(rule->name, "night");
    assert_int_equal(rule->window->from_min, 20 * 60);
    assert_string_equal(zone_name(rule->zone), "Europe/Berlin");
    assert_int_equal(rule->n_labels, 2);
    assert_string_equal(rule->label[1].key, "nvidia.com/gpu.product");
    assert_string_equal(rule->label[1].value, "A100*");
    assert_int_equal(rule->n_namespaces, 2);
    assert_string_equal(rule->namespace[1], "research");
    assert_true(rule->has_order);
    assert_int_equal(rule->policy, POLICY_SPREAD);
    assert_true(rule->whole);
    assert_int_equal(rule->reserve, 2);
    assert_int_equal(rule->min_milli, 100);
    assert_int_equal(rule->step_milli, 50);
    assert_int_equal(rule->n_sizes, 3);
    assert_int_equal(rule->size[0], 250);
    assert_int_equal(rule->size[1], 500);
    assert_int_equal(rule->size[2], 1000);
    assert_int_equal(rule->n_models, 2);
    assert_string_equal(rule->model[1], "H100*");
    assert_int_equal(rule->memory, MEMORY_RAISE);
    assert_int_equal(rule->topology, TOPOLOGY_NVLINK);
}

TEST(rule__has_defaults)
{
    CLEANUP(done) struct reading reading = reading_of(rules);
    const struct rule *rule = &reading.book->rule[1];
    assert_string_equal(rule->name, "rule 2");
    assert_int_equal(rule->n_labels + rule->n_namespaces + rule->n_models, 0);
    assert_false(rule->has_order || rule->whole);
    assert_int_equal(rule->reserve + rule->min_milli + rule->step_milli, 0);
    assert_int_equal(rule->n_sizes, 1);
    assert_int_equal(rule->size[0], 333);
    assert_int_equal(rule->topology, TOPOLOGY_NUMA);
    assert_int_equal(rule->memory, MEMORY_FILTER);
    assert_int_equal(rule[1].memory, MEMORY_UNSAID);
    assert_null(rule[1].label);
}

TEST(zone__is_loaded_once)
{
    CLEANUP(done) struct reading reading = reading_of(rules);
    assert_int_equal(reading.book->n_zones, 2);
    assert_ptr_equal(reading.book->rule[0].zone, reading.book->rule[1].zone);
    assert_string_equal(zone_name(reading.book->rule[2].zone), "UTC");
}

/* --- what a text file cannot hold --- */

static void refuses(struct text bytes, const char *says)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book = NULL;
    struct err err;

    strbuf_init(&warnings);
    assert_true(policy_document_read(bytes, "x", &edges, &book, &warnings, &err) < 0);
    assert_string_equal(err.text, says);
    assert_null(book);
}

TEST(policy_document__refuses_invalid_bytes)
{
    static const char nul[] = HEAD "rules: [{name: a\0b, min: 5}]\n";
    refuses(TEXT(""), "x:1:1: is empty; a policy document begins with "
                      "\"apiVersion: milligpu.io/v1\"");
    refuses(TEXT("# nothing\n"), "x:1:1: is empty; a policy document begins with "
                                 "\"apiVersion: milligpu.io/v1\"");
    refuses((struct text){nul, sizeof nul - 1}, "x:4:17: control characters are not allowed");
    refuses(TEXT(HEAD "\xff\n"), "x:4:1: invalid leading UTF-8 octet");
    refuses(TEXT("{\"a\":"), "x:1:6: JSON.a: expected a value, found the end at byte 5");
}

TEST(policy_document__refuses_more_than_a_mebibyte)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    struct reading reading;
    strbuf_init(&bytes);
    strbuf_str(&bytes, HEAD "#");
    while (bytes.len < POLICY_BYTES_MAX)
        strbuf_char(&bytes, '#');
    reading = reading_of(bytes.data);
    done(&reading);
    strbuf_char(&bytes, '#');
    refuses((struct text){bytes.data, bytes.len},
            "x:1:1: is larger than 1 MiB; is it a policy document?");
}

TEST(policy_document__refuses_deep_nesting)
{
    CLEANUP(strbuf_done) struct strbuf bytes;
    strbuf_init(&bytes);
    strbuf_str(&bytes, HEAD "seed: ");
    for (int i = 0; i < 100000; i++)
        strbuf_char(&bytes, '[');
    refuses((struct text){bytes.data, bytes.len}, "x:4:102: nested deeper than 96");
}

/* --- the choice of a policy --- */

static struct reading chosen_by(const struct policy_edges *by, const char *word)
{
    struct reading reading = {0};
    struct err err;

    strbuf_init(&reading.warnings);
    if (policy_choose(word, by, &reading.book, &reading.warnings, &err) < 0)
        fail_msg("%s", err.text);
    return reading;
}

static struct reading chosen(const char *word)
{
    return chosen_by(&edges, word);
}

TEST(policy_choice__of_a_name_is_an_empty_rulebook)
{
    for (size_t i = 0; i < POLICIES; i++) {
        const char *name = policy_name((enum policy_kind)i);
        CLEANUP(done) struct reading reading = chosen_by(&simulating, name);
        assert_int_equal(reading.book->policy, i);
        assert_string_equal(reading.book->name, name);
        assert_string_equal(reading.warnings.data, "");
        assert_int_equal(reading.book->prices_by, PRICES_OFF);
        assert_int_equal(reading.book->n_rules + reading.book->n_shapes, 0);
    }
}

TEST(policy_choice__replaces_a_baseline)
{
    CLEANUP(done) struct reading fgd = chosen("fgd");
    assert_int_equal(fgd.book->policy, POLICY_ROLLOUT);
    assert_string_equal(fgd.book->name, "rollout");
    assert_string_equal(fgd.warnings.data,
                        "fgd is only a baseline of milligpuctl simulate: milligpud orders by "
                        "rollout instead, and its next version refuses the name\n");
    CLEANUP(done) struct reading firstfit = chosen("firstfit");
    assert_int_equal(firstfit.book->policy, POLICY_BINPACK);
    assert_string_equal(firstfit.book->name, "binpack");
    assert_non_null(strstr(firstfit.warnings.data, "binpack instead"));
    CLEANUP(done) struct reading rollout = chosen("rollout");
    assert_int_equal(rollout.book->policy, POLICY_ROLLOUT);
    assert_string_equal(rollout.warnings.data, "");
}

TEST(simulate__may_name_a_baseline)
{
    struct reading reading = {0};
    struct err err;
    strbuf_init(&reading.warnings);
    assert_int_equal(policy_document_read(TEXT("apiVersion: milligpu.io/v1\nkind: Policy\n"
                                               "policy: firstfit\n"),
                                          "own.yaml", &simulating, &reading.book, &reading.warnings,
                                          &err),
                     0);
    assert_int_equal(reading.book->policy, POLICY_FIRSTFIT);
    assert_string_equal(reading.warnings.data, "");
    done(&reading);
}

TEST(built_in_policies__are_valid)
{
    struct policy_ready ready;
    size_t count = 0;
    for (; policy_ready(count, &ready); count++) {
        CLEANUP(done) struct reading reading = chosen(ready.name);
        assert_ptr_equal(policy_document_find(text_of(ready.name)), ready.bytes.at);
        assert_string_equal(reading.warnings.data, "");
        assert_string_equal(reading.book->name, ready.name);
        assert_int_equal(reading.book->prices_by, PRICES_KNOWN);
        assert_false(reading.book->raise);
        assert_string_not_equal(reading.book->digest, "");
        assert_int_equal(reading.book->document.len, 0); /* built in, so it is not kept */
    }
    assert_int_equal(count, 3);
    assert_null(policy_document_find(TEXT("mix")));
}

TEST(policy_choice__reads_a_path)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book = NULL;
    struct err err;
    char path[] = "/tmp/milligpu-policy-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "we");
    assert_non_null(stream);
    assert_true(fputs(HEAD "seed: 9\nrules: [{min: 5}, {min: 6}]\n", stream) >= 0);
    assert_int_equal(fclose(stream), 0);
    CLEANUP(done) struct reading reading = chosen(path);
    assert_int_equal(remove(path), 0);
    assert_int_equal(reading.book->seed, 9);
    assert_string_equal(reading.book->name, path);
    assert_true(text_is(reading.book->document, HEAD "seed: 9\nrules: [{min: 5}, {min: 6}]\n"));
    assert_non_null(strstr(reading.warnings.data, ":5:19: rules[1]: never applies"));
    strbuf_init(&warnings);
    assert_int_equal(policy_choose(path, &edges, &book, &warnings, &err), -ERR_NOT_FOUND);
}

TEST(policy_choice__reads_kept_bytes_like_the_file)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    const struct text good = TEXT(HEAD "seed: 9\n");
    struct rulebook *book = NULL;
    struct err err;
    strbuf_init(&warnings);
    assert_int_equal(policy_keep_document(good, "/a.yaml", &edges, &book, &warnings, &err), 0);
    assert_string_equal(book->name, "/a.yaml");
    assert_true(text_eq(book->document, good));
    assert_ptr_not_equal(book->document.at, good.at);
    rulebook_unref(book);
    book = NULL;
    assert_int_equal(
        policy_keep_document(TEXT(HEAD "sed: 9\n"), "/a.yaml", &edges, &book, &warnings, &err),
        -ERR_INVALID);
    assert_null(book);
}

TEST(policy_path__has_a_slash_or_a_known_suffix)
{
    assert_true(policy_is_path("./mixed"));
    assert_true(policy_is_path("a.yaml"));
    assert_true(policy_is_path("a.yml"));
    assert_true(policy_is_path("a.json"));
    assert_false(policy_is_path("mixed"));
    assert_false(policy_is_path(".yaml"));
    assert_false(policy_is_path("yaml"));
    assert_false(policy_is_path(""));
}

TEST(policy_choice__lists_the_known_names_for_an_unknown_one)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct rulebook *book = NULL;
    struct err err;
    strbuf_init(&warnings);
    assert_int_equal(policy_choose("best\nfit", &edges, &book, &warnings, &err), -ERR_INVALID);
    assert_string_equal(err.text,
                        "there is no policy \"best\\nfit\"; there are inference, mixed, training, "
                        "binpack, spread, rollout, and files, whose names contain "
                        "'/' or end in .yaml");
    assert_null(book);
}
