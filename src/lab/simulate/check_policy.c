/*
 * The command check-policy: reads a policy document as milligpud does, and describes it. Called by
 * ctl.c in the only thread. The description goes through one document, so that JSON and tables show
 * the same.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/core/facts/model.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "ctl/commands.h"
#include "ctl/policies.h"
#include "simulate.h"

struct policy_check {
    struct ctl *ctl;
    const struct rulebook *book;
    const char *warnings;
    int64_t at_ms; /* UTC time of --at */
};

static void policy_set_int(struct arena *arena, struct document *object, const char *key,
                           int64_t number)
{
    must(key[0] != '\0');
    document_set(arena, object, text_of(key), document_new_int(arena, number));
}

static struct document *policy_list(struct arena *arena, const char *const *text, uint32_t count)
{
    struct document *list = document_new(arena, DOCUMENT_ARRAY);

    must(count == 0 || text != NULL);
    for (uint32_t i = 0; i < count; i++)
        document_append(list, document_new_str(arena, text_of(text[i])));
    return list;
}

/* --- prices --- */

static void policy_add_price(struct arena *arena, struct document *list,
                             const struct model_price *price, const char *source)
{
    struct document *item = document_new(arena, DOCUMENT_OBJECT);

    must(price->price > 0);
    document_set_str(arena, item, "model", price->model);
    policy_set_int(arena, item, "price", price->price);
    document_set_str(arena, item, "source", source);
    document_append(list, item);
}

/* The prices in the order in which they are matched. */
static struct document *policy_prices(struct arena *arena, const struct rulebook *book)
{
    struct document *list = document_new(arena, DOCUMENT_ARRAY);
    const struct product *known;

    must(book->n_prices <= PRICES_MAX);
    for (uint32_t i = 0; i < book->n_prices; i++)
        policy_add_price(arena, list, &book->price[i], "document");
    for (uint32_t i = 0; book->prices_by == PRICES_KNOWN && (known = product_at(i)) != NULL; i++) {
        const struct model_price price = {known->model, known->price};
        policy_add_price(arena, list, &price, "known");
    }
    return list;
}

/* --- shapes that are expected --- */

static struct document *policy_shapes(struct arena *arena, const struct rulebook *book)
{
    struct document *list = document_new(arena, DOCUMENT_ARRAY);

    must(book->n_shapes <= RULEBOOK_SHAPES_MAX);
    for (uint32_t i = 0; i < book->n_shapes; i++) {
        const struct workload_class *class = &book->shape[i].class;
        struct document *item = document_new(arena, DOCUMENT_OBJECT);
        policy_set_int(arena, item, "gpus", class->parts);
        policy_set_int(arena, item, "milli", class->milli);
        if (class->n_models > 0)
            document_set(arena, item, TEXT("models"),
                         policy_list(arena, (const char *const *)class->model, class->n_models));
        if (class->host.cpu_milli > 0)
            policy_set_int(arena, item, "cpuMilli", class->host.cpu_milli);
        if (class->host.memory_mib > 0)
            policy_set_int(arena, item, "memoryMiB", class->host.memory_mib);
        policy_set_int(arena, item, "weight", book->shape[i].weight);
        document_append(list, item);
    }
    return list;
}

/* --- rules --- */

static void policy_set_window(const struct policy_check *check, const struct rule *rule,
                              struct document *item)
{
    CLEANUP(strbuf_done) struct strbuf text;
    struct arena *arena = &check->ctl->arena;
    char time[TIME_TEXT_BYTES];

    must(rule->window != NULL);
    strbuf_init(&text);
    window_format(rule->window, &text);
    document_set_str(arena, item, "when", text.data);
    const int64_t next_ms = window_next_ms(rule->window, rule->zone, check->at_ms);
    if (next_ms == INT64_MAX)
        return;
    time_format(next_ms, time);
    document_set_str(arena, item, "changesAt", time);
}

static struct document *policy_rule(const struct policy_check *check, const struct rule *rule,
                                    rule_set holding)
{
    CLEANUP(strbuf_done) struct strbuf says;
    struct arena *arena = &check->ctl->arena;
    struct document *item = document_new(arena, DOCUMENT_OBJECT);
    const uint32_t number = rulebook_number(check->book, rule);
    struct document *holds = document_new(arena, DOCUMENT_BOOL);

    must(number > 0);
    strbuf_init(&says);
    policy_set_int(arena, item, "number", number);
    document_set_str(arena, item, "name", rule->name);
    rule_add_nodes(&says, rule);
    document_set_str(arena, item, "nodes", says.data);
    strbuf_reset(&says);
    rule_add_namespaces(&says, rule);
    document_set_str(arena, item, "namespaces", says.data);
    holds->text = (holding & one_rule(number - 1)) != 0 ? TEXT("true") : TEXT("false");
    holds->shown = holds->text.at;
    document_set(arena, item, TEXT("holds"), holds);
    if (rule->window != NULL)
        policy_set_window(check, rule, item);
    strbuf_reset(&says);
    rule_add_demands(&says, rule);
    document_set_str(arena, item, "says", says.data);
    return item;
}

static struct document *policy_rules(const struct policy_check *check)
{
    const rule_set holding = rulebook_holding(check->book, check->at_ms);
    struct document *list = document_new(&check->ctl->arena, DOCUMENT_ARRAY);

    must(check->book->n_rules <= RULES_MAX);
    for (uint32_t i = 0; i < check->book->n_rules; i++)
        document_append(list, policy_rule(check, &check->book->rule[i], holding));
    return list;
}

/* --- the document --- */

static struct document *policy_warnings(struct arena *arena, const char *warnings)
{
    struct document *list = document_new(arena, DOCUMENT_ARRAY);
    struct text rest = text_of(warnings);
    struct text line;

    must(warnings != NULL);
    while (text_cut(&rest, '\n', &line))
        if (line.len > 0)
            document_append(list, document_new_str(arena, line));
    return list;
}

static struct document *policy_answer(const struct policy_check *check)
{
    const struct rulebook *book = check->book;
    struct arena *arena = &check->ctl->arena;
    struct document *answer = document_new(arena, DOCUMENT_OBJECT);
    char at[TIME_TEXT_BYTES];

    must(book->name[0] != '\0');
    time_format(check->at_ms, at);
    document_set_str(arena, answer, "name", book->name);
    document_set_str(arena, answer, "digest", book->digest);
    document_set_str(arena, answer, "policy", policy_name(book->policy));
    policy_set_int(arena, answer, "seed", book->seed);
    document_set_str(arena, answer, "memory", book->raise ? "raise" : "filter");
    document_set_str(arena, answer, "prices", book->prices_by == PRICES_OFF ? "off" : "known");
    document_set(arena, answer, TEXT("models"), policy_prices(arena, book));
    document_set(arena, answer, TEXT("workload"), policy_shapes(arena, book));
    document_set_str(arena, answer, "at", at);
    document_set(arena, answer, TEXT("rules"), policy_rules(check));
    document_set(arena, answer, TEXT("warnings"), policy_warnings(arena, check->warnings));
    return answer;
}

/* --- for people --- */

static const struct table_column price_columns[] = {
    {"MODEL", 0}, {"PRICE", COLUMN_RIGHT}, {"SOURCE", 0}};

static void policy_price_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(price_columns));
    table_text(table, document_shown(item, "model"));
    table_number(table, document_int(item, "price"));
    table_text(table, document_shown(item, "source"));
}

static const struct table_column expected_columns[] = {
    {"GPUS", COLUMN_RIGHT},      {"MILLI", COLUMN_RIGHT},      {"MODELS", 0},
    {"CPU-MILLI", COLUMN_RIGHT}, {"MEMORY-MIB", COLUMN_RIGHT}, {"OF-1000-PODS", COLUMN_RIGHT},
};

static void policy_add_known(struct table *table, const struct document *item, const char *key)
{
    must(key[0] != '\0');
    if (document_get(item, key) != NULL)
        table_number(table, document_int(item, key));
    else
        table_text(table, "");
}

static void policy_shape_row(struct table *table, const struct document *item)
{
    CLEANUP(strbuf_done) struct strbuf models;

    must(table->n_columns == ARRAY_LEN(expected_columns));
    strbuf_init(&models);
    document_each (model, document_get(item, "models"))
        strbuf_printf(&models, "%s%s", models.len > 0 ? ", " : "", model->shown);
    table_number(table, document_int(item, "gpus"));
    table_number(table, document_int(item, "milli"));
    table_text(table, models.data);
    policy_add_known(table, item, "cpuMilli");
    policy_add_known(table, item, "memoryMiB");
    table_number(table, document_int(item, "weight"));
}

static const struct table_column rule_columns[] = {
    {"RULE", COLUMN_RIGHT}, {"NAME", 0},  {"NODES", COLUMN_WRAP}, {"NAMESPACES", COLUMN_WRAP},
    {"WHEN", COLUMN_WRAP},  {"HOLDS", 0}, {"SAYS", COLUMN_WRAP},
};

static void policy_rule_row(struct table *table, const struct document *item)
{
    const bool holds = document_true(item, "holds");
    const char *changes = document_shown(item, "changesAt");

    must(table->n_columns == ARRAY_LEN(rule_columns));
    table_number(table, document_int(item, "number"));
    table_text(table, document_shown(item, "name"));
    table_text(table, document_shown(item, "nodes"));
    table_text(table, document_shown(item, "namespaces"));
    table_text(table, document_get(item, "when") != NULL ? document_shown(item, "when") : "always");
    if (changes[0] != '\0')
        table_printf(table, "%s %s", holds ? "until" : "from", changes);
    else
        table_text(table, holds ? "yes" : "no");
    table_text(table, document_shown(item, "says"));
}

/* Prints a table below a blank line and a heading. */
static int policy_put_table(struct ctl *ctl, const struct document *rows, const char *heading,
                            const struct list_view *view)
{
    must(rows != NULL && rows->kind == DOCUMENT_ARRAY);
    if (rows->count == 0)
        return CTL_FINE;
    (void)fputc('\n', ctl->screen.out);
    if (ctl->screen.headers)
        (void)fprintf(ctl->screen.out, "%s:\n", heading); /* checked in ctl_finish() */
    return ctl_show_rows(ctl, rows, view);
}

static void policy_put_head(struct ctl *ctl, const struct document *answer,
                            const struct rulebook *book)
{
    const char *digest = document_shown(answer, "digest");

    must(answer->kind == DOCUMENT_OBJECT);
    put_field(ctl, "Policy", "%s%s%s%s", document_shown(answer, "name"),
              digest[0] != '\0' ? " (digest " : " (bare)", digest, digest[0] != '\0' ? ")" : "");
    put_field(ctl, "Order", "%s: %s", policy_name(book->policy), policy_help(book->policy));
    put_field(ctl, "Seed", "%" PRIu32, book->seed);
    put_field(ctl, "Memory", "%s",
              book->raise ? "raise: the share grows to what gpu-memory needs"
                          : "filter: gpu-memory says which GPUs do");
    put_field(
        ctl, "Prices", "%s",
        book->prices_by == PRICES_OFF
            ? "off: all models cost the same"
            : "known: an exact name, else the first model that matches; of others, the memory");
}

int policies_put_rules(struct ctl *ctl, const struct document *rules)
{
    static const struct list_view view = {rule_columns, ARRAY_LEN(rule_columns), policy_rule_row,
                                          NULL, ""};

    return policy_put_table(
        ctl, rules, "rules; of those that hold, the first that matches node and namespace counts",
        &view);
}

static int policy_show(struct ctl *ctl, const struct document *answer, const struct rulebook *book)
{
    static const struct list_view prices = {price_columns, ARRAY_LEN(price_columns),
                                            policy_price_row, NULL, ""};
    static const struct list_view shapes = {expected_columns, ARRAY_LEN(expected_columns),
                                            policy_shape_row, NULL, ""};

    must(book->n_rules <= RULES_MAX);
    if (ctl_document(ctl, answer))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME) {
        (void)fprintf(ctl->screen.out, "policy/%s\n", document_shown(answer, "name"));
        return CTL_FINE;
    }
    policy_put_head(ctl, answer, book);
    int status = policy_put_table(ctl, document_get(answer, "models"), "prices", &prices);
    if (status == CTL_FINE)
        status = policy_put_table(ctl, document_get(answer, "workload"), "shapes that are expected",
                                  &shapes);
    if (status == CTL_FINE)
        status = policies_put_rules(ctl, document_get(answer, "rules"));
    return status;
}

/* --- the nodes of a cluster --- */

static void policy_match_node(const struct rule *rule, const struct inventory *inventory,
                              struct names *names, struct rule_matches *out)
{
    const struct labels *labels = labels_new(inventory->label, inventory->n_labels, names);
    const struct atom *model[GPUS_PER_NODE_MAX];

    must(inventory->n_gpus <= GPUS_PER_NODE_MAX);
    for (uint32_t i = 0; i < inventory->n_gpus; i++)
        model[i] = names_intern(names, text_of(inventory->gpu[i].model));
    rule_match_node(rule, labels, model, inventory->n_gpus, out);
    labels_unref(labels);
}

static void policy_match_world(const struct rulebook *book, const struct world *world,
                               struct strbuf *warnings)
{
    struct names *names = names_new();

    for (uint32_t at = 0; at < book->n_rules; at++) {
        CLEANUP(strbuf_done) struct strbuf lines;
        struct rule_matches matches = {0};
        strbuf_init(&lines);
        for (uint32_t i = 0; i < world->n_nodes; i++)
            policy_match_node(&book->rule[at], world->node[i].inventory, names, &matches);
        rule_add_unmatched(&lines, book, &book->rule[at], &matches);
        if (lines.len > 0)
            strbuf_printf(warnings, "%s\n", lines.data);
    }
    names_free(names);
}

/* With --cluster: warnings about parts of rules that match none of its nodes. */
static int policy_match_cluster(const struct ctl *ctl, const struct rulebook *book,
                                struct strbuf *warnings, struct err *err)
{
    const char *file = ctl->options.given[OPTION_cluster];
    struct world world;

    must(book->n_rules <= RULES_MAX);
    if (file == NULL)
        return 0;
    world_init(&world);
    const int rc = world_read_cluster(&world, file, NULL, err);
    if (rc >= 0)
        policy_match_world(book, &world, warnings);
    world_done(&world);
    return rc;
}

/* Warnings do not change the exit status, because milligpud accepts the document. */
int command_check_policy(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf warnings;
    struct policy_check check = {.ctl = ctl};
    struct rulebook *book = NULL;
    struct err err;

    must(ctl->options.n_arguments == 1);
    strbuf_init(&warnings);
    if (policies_read_at(ctl, &check.at_ms, &err) < 0)
        return ctl_misused(ctl, &err);
    int rc = policies_choose(ctl->options.argument[0], &book, &warnings, &err);
    if (rc >= 0)
        rc = policy_match_cluster(ctl, book, &warnings, &err);
    (void)fputs(warnings.data, ctl->err);
    if (rc < 0) {
        rulebook_unref(book);
        return ctl_fail(ctl, &err);
    }
    check.book = book;
    check.warnings = warnings.data;
    const int status = policy_show(ctl, policy_answer(&check), book);
    rulebook_unref(book);
    return status;
}
