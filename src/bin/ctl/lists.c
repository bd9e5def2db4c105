/*
 * The commands that list: nodes, allocations, waiting, drift, and the table of history. Called by
 * ctl.c in the only thread. Each list has the same four parts: its columns, a function that makes a
 * row of an item, one that gives the name for -o name, and show_X(). command_X() asks, show_X()
 * draws, so that tests can draw recorded answers. A row has one cell for each column, in their
 * order.
 */
#include <stdio.h>
#include <string.h>

#include "ctl.h"

/* --- pieces --- */

/*
 * "0:300,1:300": one cell without blanks, so that scripts can count columns. A GPU without an index
 * is shown by its id, and what has no known place as "?".
 */
void put_charges(struct strbuf *out, const struct doc *allocation)
{
    bool first = true;

    must(out != NULL);
    doc_each (charge, doc_get(allocation, "charges")) {
        strbuf_str(out, first ? "" : ",");
        if (doc_get(charge, "index") != NULL)
            strbuf_printf(out, "%lld", (long long)doc_int(charge, "index"));
        else
            strbuf_str(out, doc_shown(charge, "gpu"));
        strbuf_printf(out, ":%lld", (long long)doc_int(charge, "milli"));
        first = false;
    }
    if (doc_int(allocation, "unplacedMilli") > 0)
        strbuf_printf(out, "%s?:%lld", first ? "" : ",",
                      (long long)doc_int(allocation, "unplacedMilli"));
}

/* Charges and not shares: containers may use the same part of a GPU one after the other. */
static int64_t sum_of(const struct doc *allocation, const char *field)
{
    int64_t sum = 0;

    must(field[0] != '\0');
    doc_each (charge, doc_get(allocation, "charges"))
        sum += doc_int(charge, field);
    return sum;
}

/* Marks follow the state as in kubectl's STATUS, so one column can be searched for each of them. */
static void add_state(struct table *table, const struct doc *item)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(table != NULL);
    strbuf_init(&text);
    strbuf_str(&text, doc_shown(item, "state"));
    if (doc_true(item, "inDoubt"))
        strbuf_str(&text, ",in-doubt");
    if (doc_true(item, "presumed"))
        strbuf_str(&text, ",presumed");
    if (doc_get(item, "terminatingSince") != NULL)
        strbuf_str(&text, ",terminating");
    table_text(table, text.data);
}

static void add_pod(struct table *table, const struct doc *item)
{
    table_text(table, doc_shown(item, "namespace"));
    table_text(table, doc_shown(item, "name"));
}

static void pod_name(struct strbuf *out, const struct doc *item)
{
    strbuf_printf(out, "pod/%s/%s", doc_shown(item, "namespace"), doc_shown(item, "name"));
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

/* An adopted allocation was never reserved here. */
static const char *since_of(const struct doc *item)
{
    const char *reserved = doc_shown(item, "reservedAt");

    return reserved[0] != '\0' ? reserved : doc_shown(item, "boundAt");
}

static int lists_ask_and_show(struct ctl *ctl, const char *path,
                              int (*show)(struct ctl *ctl, const struct doc *list))
{
    struct doc *list;
    struct err err;

    must(show != NULL);
    if (ctl_list(ctl, path, &list, &err) < 0)
        return ctl_fail(ctl, &err);
    return show(ctl, list);
}

/* --- nodes --- */

static const struct table_column node_columns[] = {
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

static void node_row(struct table *table, const struct doc *node)
{
    const struct doc *gpus = doc_get(node, "gpus");
    const char *state = doc_shown(node, "state");
    const bool cordoned = strcmp(state, "ok") == 0 && doc_true(node, "cordoned");

    must(table->columns == ARRAY_LEN(node_columns));
    table_text(table, doc_shown(node, "name"));
    table_text(table, doc_shown(node, "model"));
    table_number(table, gpus != NULL ? gpus->count : 0);
    table_number(table, doc_int(node, "capacityMilli"));
    table_number(table, doc_int(node, "usedMilli"));
    table_number(table, doc_int(node, "reservedMilli"));
    table_number(table, doc_int(node, "freeMilli"));
    table_number(table, doc_int(node, "largestFreeMilli"));
    table_number(table, doc_int(node, "heldGpus"));
    table_text(table, doc_shown(node, "source"));
    table_text(table, doc_shown(node, "uid"));
    table_text(table, cordoned ? "cordoned" : state);
    if (cordoned || strcmp(state, "ok") != 0)
        table_color(table, "red");
    table_text(table, doc_shown(node, "stateText"));
}

static void node_name(struct strbuf *out, const struct doc *node)
{
    must(node != NULL);
    strbuf_printf(out, "node/%s", doc_shown(node, "name"));
}

int show_nodes(struct ctl *ctl, const struct doc *nodes)
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
    return lists_ask_and_show(ctl, "/api/v1/nodes", show_nodes);
}

/* --- allocations --- */

static const struct table_column allocation_columns[] = {
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

static void allocation_row(struct table *table, const struct doc *item)
{
    CLEANUP(strbuf_done) struct strbuf charges;

    must(table->columns == ARRAY_LEN(allocation_columns));
    strbuf_init(&charges);
    put_charges(&charges, item);
    add_pod(table, item);
    table_text(table, doc_shown(item, "node"));
    table_text(table, charges.data);
    table_number(table, sum_of(item, "milli") + doc_int(item, "unplacedMilli"));
    table_number(table, sum_of(item, "mib"));
    table_text(table, doc_shown(item, "origin"));
    table_text(table, doc_shown(item, "uid"));
    add_state(table, item);
    table_age(table, since_of(item));
}

int show_allocations(struct ctl *ctl, const struct doc *list)
{
    static const struct list_view view = {
        allocation_columns, ARRAY_LEN(allocation_columns), allocation_row, pod_name,
        "no allocations",
    };
    return ctl_show_list(ctl, list, &view);
}

/*
 * The state is checked here, so that a typing error is wrong usage and not a refusal of the server.
 */
int command_allocations(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    const char *const *given = ctl->options.given;
    const char *state = given[OPTION_state];
    struct err err;

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
    return lists_ask_and_show(ctl, path.data, show_allocations);
}

/* --- waiting --- */

static const struct table_column waiting_columns[] = {
    {"NAMESPACE", 0},        {"NAME", 0},          {"REQUEST", 0},        {"ASKS", COLUMN_RIGHT},
    {"REASON", COLUMN_WRAP}, {"UID", COLUMN_WIDE}, {"AGE", COLUMN_RIGHT},
};

static void waiting_row(struct table *table, const struct doc *item)
{
    must(table->columns == ARRAY_LEN(waiting_columns));
    add_pod(table, item);
    table_text(table, doc_shown(item, "request"));
    table_number(table, doc_int(item, "asks"));
    table_text(table, doc_shown(item, "text"));
    table_text(table, doc_shown(item, "uid"));
    table_age(table, doc_shown(item, "since"));
}

/* On standard error, so that the table and its -o json form stay readable for programs. */
int show_waiting(struct ctl *ctl, const struct doc *list)
{
    static const struct list_view view = {
        waiting_columns, ARRAY_LEN(waiting_columns), waiting_row, pod_name, "no pod waits",
    };
    const int status = ctl_show_list(ctl, list, &view);

    if (doc_true(list, "overflow"))
        (void)fprintf(ctl->err,
                      "More pods wait than milligpud remembers; this is a part of them.\n");
    return status;
}

int command_waiting(struct ctl *ctl)
{
    return lists_ask_and_show(ctl, "/api/v1/waiting", show_waiting);
}

/* --- drift --- */

static const struct table_column drift_columns[] = {
    {"KIND", 0}, {"NODE", 0}, {"GPU", 0}, {"POD", 0}, {"WHAT", COLUMN_WRAP}, {"AGE", COLUMN_RIGHT},
};

static void drift_row(struct table *table, const struct doc *item)
{
    const char *name = doc_shown(item, "name");

    must(table->columns == ARRAY_LEN(drift_columns));
    table_text(table, doc_shown(item, "kind"));
    table_text(table, doc_shown(item, "node"));
    table_text(table, doc_shown(item, "gpu"));
    if (name[0] != '\0')
        table_printf(table, "%s/%s", doc_shown(item, "namespace"), name);
    else
        table_text(table, "");
    table_text(table, doc_shown(item, "text"));
    table_age(table, doc_shown(item, "since"));
}

static void drift_name(struct strbuf *out, const struct doc *item)
{
    strbuf_printf(out, "%s/%s", doc_shown(item, "kind"), doc_shown(item, "node"));
}

int show_drift(struct ctl *ctl, const struct doc *list)
{
    static const struct list_view view = {
        drift_columns,
        ARRAY_LEN(drift_columns),
        drift_row,
        drift_name,
        "no drift: ledger and cluster agree",
    };
    return ctl_show_list(ctl, list, &view);
}

int command_drift(struct ctl *ctl)
{
    return lists_ask_and_show(ctl, "/api/v1/drift", show_drift);
}

/* --- history --- */

static const struct table_column history_columns[] = {
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

static void history_row(struct table *table, const struct doc *item)
{
    must(table->columns == ARRAY_LEN(history_columns));
    add_pod(table, item);
    table_text(table, doc_shown(item, "node"));
    table_text(table, doc_shown(item, "gpu"));
    table_number(table, doc_int(item, "milli"));
    table_number(table, doc_int(item, "mib"));
    add_state(table, item);
    add_time(table, since_of(item));
    add_time(table, doc_shown(item, "releasedAt"));
    table_text(table, doc_shown(item, "uid"));
    table_text(table, doc_shown(item, "nodeUid"));
    table_age(table, since_of(item));
}

int show_history(struct ctl *ctl, const struct doc *list)
{
    static const struct list_view view = {
        history_columns, ARRAY_LEN(history_columns),           history_row,
        pod_name,        "no history: nothing was held there",
    };
    return ctl_show_list(ctl, list, &view);
}
