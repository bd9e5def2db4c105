/*
 * The commands that list: nodes, allocations, waiting, drift, and the table of history.  Called by
 * ctl.c.  command_X() asks, show_X() draws, so that tests can draw recorded answers.
 */
#include <stdio.h>
#include <string.h>

#include "ctl.h"

/* --- pieces --- */

void put_charges(struct strbuf *out, const struct value *allocation)
{
    bool first = true;

    must(out != NULL);
    value_each(charge, value_get(allocation, "charges"))
    {
        strbuf_str(out, first ? "" : ",");
        if (value_get(charge, "index") != NULL)
            strbuf_printf(out, "%lld", (long long)value_int(charge, "index"));
        else
            strbuf_str(out, value_str(charge, "gpu"));
        strbuf_printf(out, ":%lld", (long long)value_int(charge, "milli"));
        first = false;
    }
    if (value_int(allocation, "unplacedMilli") > 0)
        strbuf_printf(out, "%s?:%lld", first ? "" : ",",
                      (long long)value_int(allocation, "unplacedMilli"));
}

static int64_t sum_of(const struct value *allocation, const char *field)
{
    int64_t sum = 0;

    must(field[0] != '\0');
    value_each(charge, value_get(allocation, "charges")) sum += value_int(charge, field);
    return sum;
}

static void add_state(struct table *table, const struct value *item)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(table != NULL);
    strbuf_init(&text);
    strbuf_str(&text, value_str(item, "state"));
    if (value_true(item, "inDoubt"))
        strbuf_str(&text, ",in-doubt");
    if (value_true(item, "presumed"))
        strbuf_str(&text, ",presumed");
    if (value_get(item, "terminatingSince") != NULL)
        strbuf_str(&text, ",terminating");
    table_text(table, text.data);
}

static void add_pod(struct table *table, const struct value *item)
{
    must(item != NULL);
    table_text(table, value_str(item, "namespace"));
    table_text(table, value_str(item, "name"));
}

static void pod_name(struct strbuf *out, const struct value *item)
{
    must(item != NULL);
    strbuf_printf(out, "pod/%s/%s", value_str(item, "namespace"), value_str(item, "name"));
}

/* Up to the second: what people compare with their own notes. */
static void add_time(struct table *table, const char *rfc3339)
{
    const char *dot = strchr(rfc3339, '.');

    must(rfc3339 != NULL);
    if (dot == NULL)
        table_text(table, rfc3339);
    else
        table_printf(table, "%.*sZ", (int)(dot - rfc3339), rfc3339);
}

static const char *since_of(const struct value *item)
{
    const char *reserved = value_str(item, "reservedAt");

    must(item != NULL);
    return reserved[0] != '\0' ? reserved : value_str(item, "boundAt");
}

static int ask_and_show(struct ctl *ctl, const char *path,
                        int (*show)(struct ctl *ctl, const struct value *list))
{
    struct value *list;
    struct err err;

    must(show != NULL);
    if (ctl_list(ctl, path, &list, &err) < 0)
        return ctl_fail(ctl, &err);
    return show(ctl, list);
}

/* --- nodes --- */

static const struct column node_columns[] = {
    {"NAME", 0},
    {"MODEL", 0},
    {"GPUS", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"LARGEST", COLUMN_RIGHT},
    {"HELD", COLUMN_RIGHT | COLUMN_WIDE},
    {"SOURCE", COLUMN_WIDE},
    {"UID", COLUMN_WIDE},
    {"STATE", 0},
    {"REASON", COLUMN_WIDE | COLUMN_WRAP},
};

static void node_row(struct table *table, const struct value *node)
{
    const struct value *gpus = value_get(node, "gpus");
    const char *state = value_str(node, "state");
    const bool cordoned = strcmp(state, "ok") == 0 && value_true(node, "cordoned");

    must(table->columns == ARRAY_LEN(node_columns));
    table_text(table, value_str(node, "name"));
    table_text(table, value_str(node, "model"));
    table_number(table, gpus != NULL ? gpus->count : 0);
    table_number(table, value_int(node, "capacityMilli"));
    table_number(table, value_int(node, "usedMilli"));
    table_number(table, value_int(node, "reservedMilli"));
    table_number(table, value_int(node, "freeMilli"));
    table_number(table, value_int(node, "largestFreeMilli"));
    table_number(table, value_int(node, "heldGpus"));
    table_text(table, value_str(node, "source"));
    table_text(table, value_str(node, "uid"));
    table_text(table, cordoned ? "cordoned" : state);
    if (cordoned || strcmp(state, "ok") != 0)
        table_color(table, "red");
    table_text(table, value_str(node, "stateText"));
}

static void node_name(struct strbuf *out, const struct value *node)
{
    must(node != NULL);
    strbuf_printf(out, "node/%s", value_str(node, "name"));
}

int show_nodes(struct ctl *ctl, const struct value *nodes)
{
    static const struct list_view view = {
        node_columns, ARRAY_LEN(node_columns), node_row, node_name, "no nodes: none shows GPUs",
    };
    must(nodes != NULL);
    return ctl_show_list(ctl, nodes, &view);
}

int command_nodes(struct ctl *ctl)
{
    must(ctl->options.command != NULL);
    return ask_and_show(ctl, "/api/v1/nodes", show_nodes);
}

/* --- allocations --- */

static const struct column allocation_columns[] = {
    {"NAMESPACE", 0},
    {"NAME", 0},
    {"NODE", 0},
    {"GPU:MILLI", 0},
    {"MILLI", COLUMN_RIGHT},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"ORIGIN", COLUMN_WIDE},
    {"UID", COLUMN_WIDE},
    {"STATE", 0},
    {"AGE", COLUMN_RIGHT},
};

static void allocation_row(struct table *table, const struct value *item)
{
    CLEANUP(strbuf_done) struct strbuf charges;

    must(table->columns == ARRAY_LEN(allocation_columns));
    strbuf_init(&charges);
    put_charges(&charges, item);
    add_pod(table, item);
    table_text(table, value_str(item, "node"));
    table_text(table, charges.data);
    table_number(table, sum_of(item, "milli") + value_int(item, "unplacedMilli"));
    table_number(table, sum_of(item, "mib"));
    table_text(table, value_str(item, "origin"));
    table_text(table, value_str(item, "uid"));
    add_state(table, item);
    table_age(table, since_of(item));
}

int show_allocations(struct ctl *ctl, const struct value *list)
{
    static const struct list_view view = {
        allocation_columns,
        ARRAY_LEN(allocation_columns),
        allocation_row,
        pod_name,
        "no allocations: nobody holds a GPU here",
    };
    must(list != NULL);
    return ctl_show_list(ctl, list, &view);
}

int command_allocations(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    const char *const *given = ctl->options.given;
    const char *state = given[OPTION_state];
    struct err err;

    must(ctl->options.command != NULL);
    strbuf_init(&path);
    if (given[OPTION_namespace] != NULL && given[OPTION_all_namespaces] != NULL) {
        (void)err_set(&err, ERR_INVALID, "--namespace and --all-namespaces contradict each other");
        return ctl_misused(ctl, &err);
    }
    if (state != NULL && strcmp(state, "reserved") != 0 && strcmp(state, "bound") != 0 &&
        strcmp(state, "released") != 0) {
        (void)err_set(&err, ERR_INVALID, "--state is %.60s: it is reserved, bound or released",
                      state);
        return ctl_misused(ctl, &err);
    }
    strbuf_str(&path, "/api/v1/allocations");
    url_query(&path, "node", given[OPTION_node]);
    url_query(&path, "namespace", given[OPTION_namespace]);
    url_query(&path, "state", state);
    return ask_and_show(ctl, path.data, show_allocations);
}

/* --- waiting --- */

static const struct column waiting_columns[] = {
    {"NAMESPACE", 0},        {"NAME", 0},          {"REQUEST", 0},        {"ASKS", COLUMN_RIGHT},
    {"REASON", COLUMN_WRAP}, {"UID", COLUMN_WIDE}, {"AGE", COLUMN_RIGHT},
};

static void waiting_row(struct table *table, const struct value *item)
{
    must(table->columns == ARRAY_LEN(waiting_columns));
    add_pod(table, item);
    table_text(table, value_str(item, "request"));
    table_number(table, value_int(item, "asks"));
    table_text(table, value_str(item, "text"));
    table_text(table, value_str(item, "uid"));
    table_age(table, value_str(item, "since"));
}

int show_waiting(struct ctl *ctl, const struct value *list)
{
    static const struct list_view view = {
        waiting_columns, ARRAY_LEN(waiting_columns), waiting_row, pod_name, "no pod waits",
    };
    must(list != NULL);
    return ctl_show_list(ctl, list, &view);
}

int command_waiting(struct ctl *ctl)
{
    must(ctl->options.command != NULL);
    return ask_and_show(ctl, "/api/v1/waiting", show_waiting);
}

/* --- drift --- */

static const struct column drift_columns[] = {
    {"KIND", 0}, {"NODE", 0}, {"GPU", 0}, {"POD", 0}, {"WHAT", COLUMN_WRAP}, {"AGE", COLUMN_RIGHT},
};

static void drift_row(struct table *table, const struct value *item)
{
    const char *name = value_str(item, "name");

    must(table->columns == ARRAY_LEN(drift_columns));
    table_text(table, value_str(item, "kind"));
    table_text(table, value_str(item, "node"));
    table_text(table, value_str(item, "gpu"));
    if (name[0] != '\0')
        table_printf(table, "%s/%s", value_str(item, "namespace"), name);
    else
        table_text(table, "");
    table_text(table, value_str(item, "text"));
    table_age(table, value_str(item, "since"));
}

static void drift_name(struct strbuf *out, const struct value *item)
{
    must(item != NULL);
    strbuf_printf(out, "%s/%s", value_str(item, "kind"), value_str(item, "node"));
}

int show_drift(struct ctl *ctl, const struct value *list)
{
    static const struct list_view view = {
        drift_columns,
        ARRAY_LEN(drift_columns),
        drift_row,
        drift_name,
        "no drift: ledger and cluster agree",
    };
    must(list != NULL);
    return ctl_show_list(ctl, list, &view);
}

int command_drift(struct ctl *ctl)
{
    must(ctl->options.command != NULL);
    return ask_and_show(ctl, "/api/v1/drift", show_drift);
}

/* --- history --- */

static const struct column history_columns[] = {
    {"NAMESPACE", 0},
    {"NAME", 0},
    {"NODE", 0},
    {"GPU", 0},
    {"MILLI", COLUMN_RIGHT},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"STATE", 0},
    {"FROM", 0},
    {"UNTIL", 0},
    {"UID", COLUMN_WIDE},
    {"NODEUID", COLUMN_WIDE},
    {"AGE", COLUMN_RIGHT},
};

static void history_row(struct table *table, const struct value *item)
{
    must(table->columns == ARRAY_LEN(history_columns));
    add_pod(table, item);
    table_text(table, value_str(item, "node"));
    table_text(table, value_str(item, "gpu"));
    table_number(table, value_int(item, "milli"));
    table_number(table, value_int(item, "mib"));
    add_state(table, item);
    add_time(table, since_of(item));
    add_time(table, value_str(item, "releasedAt"));
    table_text(table, value_str(item, "uid"));
    table_text(table, value_str(item, "nodeUid"));
    table_age(table, since_of(item));
}

int show_history(struct ctl *ctl, const struct value *list)
{
    static const struct list_view view = {
        history_columns, ARRAY_LEN(history_columns),           history_row,
        pod_name,        "no history: nothing was held there",
    };
    must(list != NULL);
    return ctl_show_list(ctl, list, &view);
}
