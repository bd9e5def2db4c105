/*
 * Output of the command simulate: a line for each policy, then the shapes that were refused most
 * often. Called by simulate.c. All numbers go through one document, so that JSON and tables show
 * the same.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "ctl/ctl.h"
#include "simulate.h"

/* --- the document --- */

void simulate_set_int(struct arena *arena, struct document *object, const char *key,
                      uint64_t number)
{
    must(number <= INT64_MAX);
    document_set(arena, object, text_of(key), document_new_int(arena, (int64_t)number));
}

/* Sets a number with a decimal point: documents keep the digits of numbers. */
void simulate_set_digits(struct arena *arena, struct document *object, const char *key,
                         const char *digits)
{
    struct document *number = document_new(arena, DOCUMENT_NUMBER);

    must(digits[0] >= '0' && digits[0] <= '9');
    number->text = text_of(arena_copy(arena, text_of(digits)));
    number->shown = number->text.at;
    document_set(arena, object, text_of(key), number);
}

void simulate_set_percent(struct arena *arena, struct document *object, const char *key,
                          uint64_t part, uint64_t whole)
{
    char percent[SIMULATE_PERCENT_BYTES];

    must(key[0] != '\0');
    simulate_percent(part, whole, percent);
    simulate_set_digits(arena, object, key, percent);
}

static void simulate_set_micros(struct arena *arena, struct document *object, const char *key,
                                uint64_t ns)
{
    char micros[32];

    must(key[0] != '\0');
    (void)snprintf(micros, sizeof micros, "%" PRIu64 ".%" PRIu64, ns / 1000, ns % 1000 / 100);
    simulate_set_digits(arena, object, key, micros);
}

struct simulate_refused_shape {
    uint32_t refused;
    uint32_t shape;
};

static int simulate_by_refused(const void *left, const void *right)
{
    const struct simulate_refused_shape *a = left;
    const struct simulate_refused_shape *b = right;

    must(a->refused > 0 && b->refused > 0);
    if (a->refused != b->refused)
        return a->refused > b->refused ? -1 : 1;
    return (a->shape > b->shape) - (a->shape < b->shape);
}

static struct document *simulate_worst(struct arena *arena, const struct simulate_report *report,
                                       const struct simulate_result *result)
{
    const uint32_t shapes = report->world->n_shapes;
    struct simulate_refused_shape *refused = xcalloc(shapes, sizeof *refused);
    struct document *list = document_new(arena, DOCUMENT_ARRAY);
    uint32_t count = 0;

    for (uint32_t i = 0; i < shapes; i++)
        if (result->shape_refused[i] > 0)
            refused[count++] = (struct simulate_refused_shape){result->shape_refused[i], i};
    must(count <= shapes);
    qsort(refused, count, sizeof *refused, simulate_by_refused);
    for (uint32_t i = 0; i < count && i < SIMULATE_WORST; i++) {
        struct document *item = document_new(arena, DOCUMENT_OBJECT);
        document_set_str(arena, item, "shape", report->world->shape[refused[i].shape].text);
        simulate_set_int(arena, item, "arrived", result->shape_arrived[refused[i].shape]);
        simulate_set_int(arena, item, "refused", refused[i].refused);
        document_append(list, item);
    }
    xfree(refused);
    return list;
}

/* Adds the policy's document and its rules that hold. */
static void simulate_set_policy(struct arena *arena, struct document *item,
                                const struct policy_choice *policy)
{
    struct document *holding = document_new(arena, DOCUMENT_ARRAY);

    must(policy->book->n_rules <= RULES_MAX);
    document_set_str(arena, item, "policy", policy->word);
    if (policy->bare)
        return;
    document_set_str(arena, item, "digest", policy->book->digest);
    for (uint32_t rule = 0; rule < policy->book->n_rules; rule++)
        if ((policy->holding & one_rule(rule)) != 0)
            document_append(holding, document_new_int(arena, rule + 1));
    document_set(arena, item, TEXT("rulesHolding"), holding);
}

static struct document *simulate_item(struct arena *arena, const struct simulate_report *report,
                                      const struct simulate_result *result)
{
    const uint64_t capacity = report->world->gpu_milli;
    struct document *item = document_new(arena, DOCUMENT_OBJECT);
    const uint64_t decisions = result->decisions > 0 ? result->decisions : 1;

    must(capacity > 0);
    simulate_set_policy(arena, item, result->policy);
    simulate_set_percent(arena, item, "allocatedPercent", result->allocated_milli, capacity);
    must(result->allocated_milli + result->stranded_milli <= capacity);
    simulate_set_percent(arena, item, "idlePercent", capacity - result->allocated_milli, capacity);
    simulate_set_percent(arena, item, "strandedPercent", result->stranded_milli, capacity);
    simulate_set_int(arena, item, "arrived", result->arrived);
    simulate_set_int(arena, item, "refused", result->refused);
    simulate_set_int(arena, item, "multiArrived", result->multi_arrived);
    simulate_set_int(arena, item, "multiRefused", result->multi_refused);
    if (result->multi_was_refused && report->options->churn_percent == 0)
        simulate_set_percent(arena, item, "firstMultiRefusalLoadPercent", result->first_multi_milli,
                             capacity);
    simulate_set_percent(arena, item, "demandRefusedPercent", result->refused_milli,
                         result->arrived_milli);
    simulate_set_percent(arena, item, "multiRefusedPercent", result->multi_refused,
                         result->multi_arrived);
    simulate_set_micros(arena, item, "decisionMeanUs", result->decision_ns / decisions);
    simulate_set_micros(arena, item, "decisionP99Us", simulate_p99(result));
    simulate_set_micros(arena, item, "decisionLastMeanUs", simulate_last_mean(result));
    document_set(arena, item, TEXT("refusedShapes"), simulate_worst(arena, report, result));
    return item;
}

static void simulate_set_target(struct arena *arena, struct document *answer,
                                const struct simulate_report *report, const char *source)
{
    struct document *target = document_object(arena, answer, "targetWorkload");

    must(report->workload != NULL);
    document_set_str(arena, target, "source", source);
    simulate_set_int(arena, target, "shapes", report->workload->n_classes);
    simulate_set_int(arena, target, "shapesLeftOut", report->dropped);
}

static void simulate_set_world(struct arena *arena, struct document *answer,
                               const struct simulate_report *report)
{
    const struct world *world = report->world;

    must(world->n_nodes > 0);
    simulate_set_int(arena, answer, "nodes", world->n_nodes);
    simulate_set_int(arena, answer, "gpus", world->n_gpus);
    if (!world->is_cluster)
        return;
    simulate_set_int(arena, answer, "heldPods", world->n_held);
    simulate_set_percent(arena, answer, "heldPercent", report->result[0].held_milli,
                         world->gpu_milli);
}

static struct document *simulate_document(struct arena *arena, const struct simulate_report *report)
{
    const struct world *world = report->world;
    struct document *answer = document_new(arena, DOCUMENT_OBJECT);
    struct document *items = document_new(arena, DOCUMENT_ARRAY);

    must(report->n_results > 0);
    simulate_set_target(arena, answer, report, report->options->learn ? "learned" : "arrivals");
    simulate_set_world(arena, answer, report);
    simulate_set_int(arena, answer, "arrivals", world->n_pods);
    simulate_set_int(arena, answer, "seed", report->options->seed);
    if (report->options->churn_percent > 0) {
        simulate_set_int(arena, answer, "churnPercent", report->options->churn_percent);
        simulate_set_int(arena, answer, "events", report->options->events);
    } else {
        simulate_set_percent(arena, answer, "loadPercent", report->result[0].arrived_milli,
                             world->gpu_milli);
    }
    for (size_t i = 0; i < report->n_results; i++)
        document_append(items, simulate_item(arena, report, &report->result[i]));
    document_set(arena, answer, TEXT("items"), items);
    return answer;
}

/* --- the tables --- */

static const struct table_column simulate_columns[] = {
    {"POLICY", 0},
    {"ALLOCATED-%", COLUMN_RIGHT},
    {"IDLE-%", COLUMN_RIGHT},
    {"STRANDED-%", COLUMN_RIGHT},
    {"REFUSED", COLUMN_RIGHT},
    {"REFUSED-%", COLUMN_RIGHT},
    {"MULTI", COLUMN_RIGHT},
    {"MULTI-%", COLUMN_RIGHT},
    {"MULTI-FROM-%", COLUMN_RIGHT},
    {"MEAN-US", COLUMN_RIGHT},
    {"P99-US", COLUMN_RIGHT},
};

/* Rounds four decimals to two, half up. */
void simulate_short_percent(struct text percent, char out[SIMULATE_PERCENT_BYTES])
{
    uint64_t digits = 0;

    must(percent.len > 5 && percent.at[percent.len - 5] == '.');
    for (size_t i = 0; i < percent.len; i++)
        if (percent.at[i] != '.')
            digits = 10 * digits + (uint64_t)(percent.at[i] - '0');
    digits = (digits + 50) / 100;
    (void)snprintf(out, SIMULATE_PERCENT_BYTES, "%" PRIu64 ".%02" PRIu64, digits / 100,
                   digits % 100);
}

void simulate_add_percent(struct table *table, const struct document *item, const char *key)
{
    const struct document *number = document_get(item, key);
    char shown[SIMULATE_PERCENT_BYTES] = "";

    must(number == NULL || number->kind == DOCUMENT_NUMBER);
    if (number != NULL)
        simulate_short_percent(number->text, shown);
    table_text(table, shown);
}

static void simulate_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(simulate_columns));
    table_text(table, document_shown(item, "policy"));
    simulate_add_percent(table, item, "allocatedPercent");
    simulate_add_percent(table, item, "idlePercent");
    simulate_add_percent(table, item, "strandedPercent");
    table_number(table, document_int(item, "refused"));
    simulate_add_percent(table, item, "demandRefusedPercent");
    table_number(table, document_int(item, "multiRefused"));
    simulate_add_percent(table, item, "multiRefusedPercent");
    simulate_add_percent(table, item, "firstMultiRefusalLoadPercent");
    table_printf(table, "%.*s", TEXT_ARG(document_get(item, "decisionMeanUs")->text));
    table_printf(table, "%.*s", TEXT_ARG(document_get(item, "decisionP99Us")->text));
}

static void simulate_name(struct strbuf *out, const struct document *item)
{
    must(item != NULL);
    strbuf_str(out, document_shown(item, "policy"));
}

static const struct table_column shape_columns[] = {
    {"POLICY", 0},
    {"SHAPE", 0},
    {"ARRIVED", COLUMN_RIGHT},
    {"REFUSED", COLUMN_RIGHT},
};

static void simulate_shape_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(shape_columns));
    table_text(table, document_shown(item, "policy"));
    table_text(table, document_shown(item, "shape"));
    table_number(table, document_int(item, "arrived"));
    table_number(table, document_int(item, "refused"));
}

/* Keeps the order of the policies; --sort-by applies to the first table only. */
static int simulate_show_shapes(struct ctl *ctl, const struct document *answer)
{
    static const struct list_view view = {
        shape_columns, ARRAY_LEN(shape_columns), simulate_shape_row, simulate_name, "",
    };
    struct document *rows = document_new(&ctl->arena, DOCUMENT_ARRAY);

    must(answer->kind == DOCUMENT_OBJECT);
    document_each (item, document_get(answer, "items"))
        document_each (shape, document_get(item, "refusedShapes")) {
            struct document *row = document_copy(&ctl->arena, shape);
            document_set_str(&ctl->arena, row, "policy", document_shown(item, "policy"));
            document_append(rows, row);
        }
    if (rows->count == 0)
        return CTL_FINE;
    (void)fputs(ctl->screen.headers ? "\nrefused most often:\n" : "\n", ctl->screen.out);
    const char *sort_by = ctl->screen.sort_by;
    ctl->screen.sort_by = NULL;
    const int status = ctl_show_rows(ctl, rows, &view);
    ctl->screen.sort_by = sort_by;
    return status;
}

static void simulate_load(uint64_t part, uint64_t whole, char out[SIMULATE_PERCENT_BYTES])
{
    char percent[SIMULATE_PERCENT_BYTES];

    must(part == 0 || whole > 0);
    simulate_percent(part, whole, percent);
    simulate_short_percent(text_of(percent), out);
}

/* Prints the rules of policies with calendar windows, and which of them do not hold now. */
static void simulate_put_rules(FILE *out, const struct simulate_report *report)
{
    char at[TIME_TEXT_BYTES];

    must(report->n_results > 0);
    time_format(report->at_ms, at);
    for (size_t i = 0; i < report->n_results; i++) {
        const struct policy_choice *policy = report->result[i].policy;
        if (!rulebook_has_windows(policy->book))
            continue;
        (void)fprintf(out, "rules of %s as of %s:", policy->word, at);
        for (uint32_t rule = 0; rule < policy->book->n_rules; rule++)
            (void)fprintf(out, "%s %" PRIu32 " (%s)%s", rule > 0 ? "," : "", rule + 1,
                          policy->book->rule[rule].name,
                          (policy->holding & one_rule(rule)) != 0 ? "" : " does not hold");
        (void)fputc('\n', out); /* errors are checked in ctl_finish() */
    }
}

static void simulate_put_cluster(FILE *out, const struct simulate_report *report)
{
    const struct world *world = report->world;
    char held[SIMULATE_PERCENT_BYTES];

    must(report->n_results > 0);
    (void)fprintf(out, "%" PRIu32 " nodes with %" PRIu64 " GPUs", world->n_nodes, world->n_gpus);
    simulate_load(report->result[0].held_milli, world->gpu_milli, held);
    if (world->is_cluster)
        (void)fprintf(out, ", of which %" PRIu32 " %s %s %%", world->n_held,
                      world->n_held == 1 ? "pod holds" : "pods hold", held);
    (void)fputs("; ", out); /* errors are checked in ctl_finish() */
}

static void simulate_put_head(const struct ctl *ctl, const struct simulate_report *report)
{
    const struct world *world = report->world;
    const struct simulate_options *options = report->options;
    char load[SIMULATE_PERCENT_BYTES];
    FILE *out = ctl->screen.out;

    must(report->n_results > 0);
    simulate_load(report->result[0].arrived_milli, world->gpu_milli, load);
    simulate_put_cluster(out, report);
    if (options->churn_percent > 0)
        (void)fprintf(out,
                      "%" PRIu32 " pods drawn from %" PRIu32 " arrivals, others end above %" PRIu32
                      " %%; the second half of them is counted\n",
                      options->events, world->n_pods, options->churn_percent);
    else
        (void)fprintf(out, "%" PRIu32 " arrivals ask for %s %% of the GPU capacity\n",
                      world->n_pods, load);
    (void)fprintf(out, "target workload: %" PRIu32 " shapes of the arrivals file",
                  report->workload->n_classes);
    if (report->dropped > 0)
        (void)fprintf(out, "; %" PRIu32 " rare ones are left out", report->dropped);
    if (report->options->learn)
        (void)fputs("; fgd and rollout know what has arrived so far", out);
    (void)fputc('\n', out); /* errors are checked in ctl_finish() */
    simulate_put_rules(out, report);
    (void)fputc('\n', out);
}

int simulate_show(struct ctl *ctl, const struct simulate_report *report)
{
    static const struct list_view view = {
        simulate_columns, ARRAY_LEN(simulate_columns), simulate_row, simulate_name, "",
    };
    const struct document *answer = simulate_document(&ctl->arena, report);
    const bool table = ctl->format == FORMAT_TABLE || ctl->format == FORMAT_WIDE;

    must(answer->kind == DOCUMENT_OBJECT);
    if (table && ctl->screen.headers)
        simulate_put_head(ctl, report);
    const int status = ctl_show_list(ctl, answer, &view);
    return status == CTL_FINE && table ? simulate_show_shapes(ctl, answer) : status;
}

/* --- how many more fit --- */

static struct document *rounds_refused(struct arena *arena, const struct simulate_report *report,
                                       struct simulate_result *result)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct document *refused = document_new(arena, DOCUMENT_OBJECT);

    must(result->refused > 0);
    strbuf_init(&text);
    reasons_write(&result->reasons, &text);
    /* The reasons already contain that no node has the model. */
    const char *nearest = strstr(result->never, "; the nearest ");
    if (result->never[0] != '\0')
        strbuf_printf(&text, "%s%s", nearest != NULL ? "" : "; ",
                      nearest != NULL ? nearest : result->never);
    document_set_str(arena, refused, "pod", report->world->shape[result->first_shape].text);
    document_set_str(arena, refused, "text", arena_copy(arena, (struct text){text.data, text.len}));
    document_set(arena, refused, TEXT("reasons"), reasons_document(&result->reasons, arena));
    if (result->never[0] != '\0')
        document_set_str(arena, refused, "never", result->never);
    return refused;
}

static struct document *rounds_document(struct arena *arena, const struct simulate_report *report)
{
    const struct world *world = report->world;
    struct document *answer = document_new(arena, DOCUMENT_OBJECT);
    struct document *items = document_new(arena, DOCUMENT_ARRAY);

    must(world->rounds > 0);
    simulate_set_target(arena, answer, report, "pods");
    simulate_set_world(arena, answer, report);
    simulate_set_int(arena, answer, "podsOfOneRound", world->n_pods);
    simulate_set_int(arena, answer, "rounds", world->rounds);
    simulate_set_int(arena, answer, "seed", report->options->seed);
    for (size_t i = 0; i < report->n_results; i++) {
        struct simulate_result *result = &report->result[i];
        struct document *item = document_new(arena, DOCUMENT_OBJECT);
        simulate_set_policy(arena, item, result->policy);
        simulate_set_int(arena, item, "fittedBeforeRefusal", result->fitted_before);
        simulate_set_int(arena, item, "fitted", result->arrived - result->refused);
        simulate_set_percent(arena, item, "allocatedPercent", result->allocated_milli,
                             world->gpu_milli);
        if (result->refused > 0)
            document_set(arena, item, TEXT("firstRefused"), rounds_refused(arena, report, result));
        document_append(items, item);
    }
    document_set(arena, answer, TEXT("items"), items);
    return answer;
}

static const struct table_column rounds_columns[] = {
    {"POLICY", 0},
    {"BEFORE", COLUMN_RIGHT},
    {"IN-ALL", COLUMN_RIGHT},
    {"ALLOCATED-%", COLUMN_RIGHT},
};

static void rounds_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(rounds_columns));
    table_text(table, document_shown(item, "policy"));
    table_number(table, document_int(item, "fittedBeforeRefusal"));
    table_number(table, document_int(item, "fitted"));
    simulate_add_percent(table, item, "allocatedPercent");
}

static void rounds_put_head(const struct ctl *ctl, const struct simulate_report *report)
{
    const struct world *world = report->world;
    FILE *out = ctl->screen.out;

    must(world->rounds > 0);
    simulate_put_cluster(out, report);
    (void)fprintf(out,
                  "the pods of the manifest (%" PRIu32 ") arrive again and again, at most %" PRIu32
                  " times\ntarget workload: the pods of the manifest\n",
                  world->n_pods, world->rounds); /* errors are checked in ctl_finish() */
    simulate_put_rules(out, report);
    (void)fputc('\n', out);
}

/* Prints reasons as sentences, because they are too long for a column. */
static void rounds_put_refused(const struct ctl *ctl, const struct document *answer)
{
    FILE *out = ctl->screen.out;

    must(answer->kind == DOCUMENT_OBJECT);
    (void)fputs(ctl->screen.headers ? "\nrefused first:\n" : "\n", out);
    document_each (item, document_get(answer, "items")) {
        const struct document *refused = document_get(item, "firstRefused");
        (void)fprintf(out, "%-8s  ", document_shown(item, "policy"));
        if (refused != NULL)
            (void)fprintf(out, "%s: %s\n", document_shown(refused, "pod"),
                          document_shown(refused, "text"));
        else
            (void)fputs("nothing: all of them fit\n", out);
    }
}

int simulate_show_rounds(struct ctl *ctl, const struct simulate_report *report)
{
    static const struct list_view view = {
        rounds_columns, ARRAY_LEN(rounds_columns), rounds_row, simulate_name, "",
    };
    const struct document *answer = rounds_document(&ctl->arena, report);
    const bool table = ctl->format == FORMAT_TABLE || ctl->format == FORMAT_WIDE;

    must(answer->kind == DOCUMENT_OBJECT);
    if (table && ctl->screen.headers)
        rounds_put_head(ctl, report);
    const int status = ctl_show_list(ctl, answer, &view);
    if (status == CTL_FINE && table)
        rounds_put_refused(ctl, answer);
    return status;
}
