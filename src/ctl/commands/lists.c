/*
 * The commands that list: nodes, allocations, waiting, drift, and the table of history. Called by
 * ctl.c in the only thread. Each list consists of columns, a function that makes a row (one cell
 * for each column, in order), one for the name with -o name, and show_X(). command_X() requests the
 * answer and show_X() draws it, so that tests can draw recorded answers.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "gpu_name.h"

/* --- pieces --- */

/*
 * "0:300,1:300": without blanks, so that scripts can count columns. A GPU without an index is shown
 * by its id, and an unknown GPU as "?".
 */
void put_charges(struct strbuf *out, const struct document *allocation)
{
    bool first = true;

    must(out != NULL);
    document_each (charge, document_get(allocation, "charges")) {
        strbuf_str(out, first ? "" : ",");
        if (document_get(charge, "index") != NULL)
            strbuf_printf(out, "%lld", (long long)document_int(charge, "index"));
        else
            strbuf_str(out, document_shown(charge, "gpu"));
        strbuf_printf(out, ":%lld", (long long)document_int(charge, "milli"));
        first = false;
    }
    if (document_int(allocation, "unplacedMilli") > 0)
        strbuf_printf(out, "%s?:%lld", first ? "" : ",",
                      (long long)document_int(allocation, "unplacedMilli"));
}

/* Sums charges, not shares: containers can use the same part of a GPU one after the other. */
static int64_t sum_of(const struct document *allocation, const char *field)
{
    int64_t sum = 0;

    must(field[0] != '\0');
    document_each (charge, document_get(allocation, "charges"))
        sum += document_int(charge, field);
    return sum;
}

/* Memory reported by agents; blank if not known for any share. */
static void add_measured_mib(struct table *table, const struct document *allocation)
{
    bool known = false;
    int64_t sum = 0;

    must(table->n_columns > 0);
    document_each (share, document_get(allocation, "shares")) {
        known = known || document_get(share, "measuredMib") != NULL;
        sum += document_int(share, "measuredMib");
    }
    if (known)
        table_number(table, sum);
    else
        table_text(table, "");
}

/* The idle time of the share that is idle longest; compares times as texts of one form. */
static void add_idle(struct table *table, const struct document *allocation)
{
    const char *since = "";

    document_each (share, document_get(allocation, "shares")) {
        const char *of_share = document_shown(share, "idleSince");
        if (of_share[0] != '\0' && (since[0] == '\0' || strcmp(of_share, since) < 0))
            since = of_share;
    }
    if (since[0] != '\0')
        table_age(table, since);
    else
        table_text(table, "");
}

/* Appends marks to the state as in kubectl's STATUS, so that one column can be searched for all. */
static void add_state(struct table *table, const struct document *item)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(table != NULL);
    strbuf_init(&text);
    strbuf_str(&text, document_shown(item, "state"));
    if (document_true(item, "inDoubt"))
        strbuf_str(&text, ",in-doubt");
    if (document_true(item, "presumed"))
        strbuf_str(&text, ",presumed");
    if (document_get(item, "terminatingSince") != NULL)
        strbuf_str(&text, ",terminating");
    table_text(table, text.data);
}

static void add_pod(struct table *table, const struct document *item)
{
    table_text(table, document_shown(item, "namespace"));
    table_text(table, document_shown(item, "name"));
}

static void pod_name(struct strbuf *out, const struct document *item)
{
    strbuf_printf(out, "pod/%s/%s", document_shown(item, "namespace"),
                  document_shown(item, "name"));
}

/* The time in seconds, for comparison with other records. */
static void add_time(struct table *table, const char *rfc3339)
{
    const char *dot = strchr(rfc3339, '.');

    must(rfc3339 != NULL);
    if (dot == NULL)
        table_text(table, rfc3339);
    else
        table_printf(table, "%.*sZ", (int)(dot - rfc3339), rfc3339);
}

/* The time of the reservation; of an adopted allocation, which has none, of its binding. */
static const char *since_of(const struct document *item)
{
    const char *reserved = document_shown(item, "reservedAt");

    return reserved[0] != '\0' ? reserved : document_shown(item, "boundAt");
}

/* --- filters --- */

static int lists_filter_and_show(struct ctl *ctl, const char *path, enum ctl_selects what,
                                 int (*show)(struct ctl *ctl, const struct document *list))
{
    CLEANUP(strbuf_done) struct strbuf target;
    struct document *list;
    struct err err;

    must(path[0] == '/');
    strbuf_init(&target);
    if (ctl_check_filters(ctl, &err) < 0)
        return ctl_misused(ctl, &err);
    strbuf_str(&target, path);
    ctl_add_filters(ctl, &target);
    if (ctl_list(ctl, target.data, &list, &err) < 0)
        return ctl_fail(ctl, &err);
    if (what != SELECT_NOTHING && ctl_select(ctl, what, &list, &err) < 0)
        return ctl_fail(ctl, &err);
    return show(ctl, list);
}

/* --- nodes --- */

/* USED, RESERVED, FREE, HELD and CLOSED add up to TOTAL, which is SIZE and BEYOND. */
static const struct table_column node_columns[] = {
    {"NAME", COLUMN_CUT | COLUMN_LABEL},
    {"MODEL", COLUMN_MODEL | COLUMN_SPARE(3)},
    {"GPUS", COLUMN_RIGHT | COLUMN_SPARE(4)},
    {"TOTAL", COLUMN_RIGHT},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},
    {"FREE", COLUMN_RIGHT},
    {"HELD", COLUMN_RIGHT | COLUMN_ZERO},
    {"CLOSED", COLUMN_RIGHT | COLUMN_ZERO},
    {"BEYOND", COLUMN_RIGHT | COLUMN_ZERO | COLUMN_SPARE(2)},
    {"LARGEST", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"FRAGMENT", COLUMN_RIGHT | COLUMN_WIDE},
    {"SIZE", COLUMN_RIGHT | COLUMN_WIDE},
    {"WHOLE", COLUMN_RIGHT | COLUMN_WIDE},
    {"SOURCE", COLUMN_WIDE},
    {"UID", COLUMN_WIDE},
    {"STATE", 0},
    {"REASON", COLUMN_NOTE},
};

static void put_node_state(struct table *table, const struct document *node)
{
    const char *state = node_word(node);

    must(state != NULL);
    table_text(table, state);
    if (strcmp(state, "ok") != 0 && strcmp(state, "excluded") != 0)
        table_color(table, "red");
}

static void node_row(struct table *table, const struct document *node)
{
    CLEANUP(strbuf_done) struct strbuf why;
    const struct document *gpus = document_get(node, "gpus");

    must(table->n_columns == ARRAY_LEN(node_columns));
    strbuf_init(&why);
    put_node_why(&why, node);
    table_text(table, document_shown(node, "name"));
    table_text(table, document_shown(node, "model"));
    table_number(table, gpus != NULL ? gpus->count : 0);
    table_number(table, document_int(node, "totalMilli"));
    table_number(table, document_int(node, "usedMilli"));
    table_number(table, document_int(node, "reservedMilli"));
    table_number(table, document_int(node, "freeMilli"));
    table_number(table, document_int(node, "heldMilli"));
    table_number(table, document_int(node, "closedMilli"));
    table_number(table, document_int(node, "beyondMilli"));
    table_number(table, document_int(node, "largestFreeMilli"));
    table_number(table, document_int(node, "fragmentMilli"));
    table_number(table, document_int(node, "capacityMilli"));
    table_number(table, document_int(node, "heldGpus"));
    table_text(table, document_shown(node, "source"));
    table_text(table, document_shown(node, "uid"));
    put_node_state(table, node);
    table_text(table, why.data);
}

static void node_name(struct strbuf *out, const struct document *node)
{
    must(node != NULL);
    strbuf_printf(out, "node/%s", document_shown(node, "name"));
}

int show_nodes(struct ctl *ctl, const struct document *nodes)
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
    return lists_filter_and_show(ctl, "/api/v1/nodes", SELECT_NODES, show_nodes);
}

/* --- allocations --- */

static const struct table_column allocation_columns[] = {
    {"NAMESPACE", COLUMN_CUT},
    {"NAME", COLUMN_CUT},
    {"NODE", COLUMN_CUT},
    {"GPU:MILLI", COLUMN_CUT},
    {"MILLI", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MEASUREDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"IDLE", COLUMN_RIGHT | COLUMN_BLANK},
    {"ORIGIN", COLUMN_WIDE},
    {"UID", COLUMN_WIDE},
    {"STATE", COLUMN_CUT},
    {"AGE", COLUMN_RIGHT},
};

static void allocation_row(struct table *table, const struct document *item)
{
    CLEANUP(strbuf_done) struct strbuf charges;

    must(table->n_columns == ARRAY_LEN(allocation_columns));
    strbuf_init(&charges);
    put_charges(&charges, item);
    add_pod(table, item);
    table_text(table, document_shown(item, "node"));
    table_text(table, charges.data);
    table_number(table, sum_of(item, "milli") + document_int(item, "unplacedMilli"));
    table_measured_sum(table, document_get(item, "shares"));
    table_number(table, sum_of(item, "mib"));
    add_measured_mib(table, item);
    add_idle(table, item);
    table_text(table, document_shown(item, "origin"));
    table_text(table, document_shown(item, "uid"));
    add_state(table, item);
    table_age(table, since_of(item));
}

int show_allocations(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {
        allocation_columns, ARRAY_LEN(allocation_columns), allocation_row, pod_name,
        "no allocations",
    };
    return ctl_show_list(ctl, list, &view);
}

int command_allocations(struct ctl *ctl)
{
    must(ctl->options.command != NULL);
    return lists_filter_and_show(ctl, "/api/v1/allocations", SELECT_PODS, show_allocations);
}

/* --- waiting --- */

static const struct table_column waiting_columns[] = {
    {"NAMESPACE", COLUMN_CUT}, {"NAME", COLUMN_CUT},
    {"REQUEST", COLUMN_WRAP},  {"ASKS", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"REASON", COLUMN_WRAP},   {"UID", COLUMN_WIDE},
    {"AGE", COLUMN_RIGHT},
};

/* kube-scheduler's reason takes precedence if another filter refuses the pod. */
static const char *waiting_reason(const struct document *item)
{
    const char *condition = document_shown(item, "condition");

    must(item != NULL);
    const bool others = document_int(item, "offered") > 0 ||
                        strcmp(document_shown(item, "by"), "kube-scheduler") == 0;
    return others && condition[0] != '\0' ? condition : document_shown(item, "text");
}

static void waiting_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(waiting_columns));
    add_pod(table, item);
    table_text(table, document_shown(item, "request"));
    table_number(table, document_int(item, "asks"));
    table_text(table, waiting_reason(item));
    table_text(table, document_shown(item, "uid"));
    table_age(table, document_shown(item, "since"));
}

/* "7 room", "2 refused by kube-scheduler: taint" */
static void put_count(struct strbuf *out, const struct document *count)
{
    const char *by = document_shown(count, "by");
    const char *reason = document_shown(count, "reason");

    strbuf_printf(out, "%s%lld ", out->len > 0 ? ", " : "", (long long)document_int(count, "pods"));
    if (strcmp(by, "kube-scheduler") == 0)
        strbuf_printf(out, "refused by kube-scheduler: %s", reason);
    else if (strcmp(reason, "unasked") == 0)
        strbuf_str(out, "not asked about yet");
    else if (strcmp(reason, "scheduler") == 0)
        strbuf_str(out, "of a scheduler that never asked");
    else
        strbuf_str(out, reason);
}

/* "12 wait: 7 room, 3 model, 2 refused by kube-scheduler: taint"; for people only. */
static void put_counts(struct ctl *ctl, const struct document *list)
{
    CLEANUP(strbuf_done) struct strbuf counts;
    long long pods = 0;

    strbuf_init(&counts);
    if ((ctl->format != FORMAT_TABLE && ctl->format != FORMAT_WIDE) ||
        ctl->options.given[OPTION_no_headers] != NULL ||
        ctl->options.given[OPTION_selector] != NULL)
        return;
    document_each (count, document_get(list, "counts")) {
        pods += (long long)document_int(count, "pods");
        put_count(&counts, count);
    }
    if (pods > 0)
        (void)fprintf(ctl->screen.out, "%lld %s: %s\n\n", pods, pods == 1 ? "waits" : "wait",
                      counts.data);
}

/* Counts go to standard error, so that standard output stays parsable. */
int show_waiting(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {
        waiting_columns, ARRAY_LEN(waiting_columns), waiting_row, pod_name, "no pod waits",
    };

    put_counts(ctl, list);
    const int status = ctl_show_list(ctl, list, &view);
    if (document_true(list, "overflow"))
        (void)fprintf(ctl->err,
                      "More pods wait than milligpud remembers; this is a part of them.\n");
    return status;
}

int command_waiting(struct ctl *ctl)
{
    return lists_filter_and_show(ctl, "/api/v1/waiting", SELECT_PODS, show_waiting);
}

/* --- usage --- */

static const struct table_column usage_columns[] = {
    {"NAMESPACE", COLUMN_CUT},
    {"MODEL", COLUMN_MODEL | COLUMN_CUT},
    {"PODS", COLUMN_RIGHT},
    {"GPUS", COLUMN_RIGHT},
    {"BOUND", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},
    {"MIB", COLUMN_RIGHT},
    {"WHOLE", COLUMN_RIGHT | COLUMN_ZERO},
    {"UNPLACED", COLUMN_RIGHT | COLUMN_WIDE},
};

static void usage_row(struct table *table, const struct document *item)
{
    const char *model = document_shown(item, "model");

    must(table->n_columns == ARRAY_LEN(usage_columns));
    table_text(table, document_shown(item, "namespace"));
    table_text(table, model[0] != '\0' ? model : "unknown");
    table_number(table, document_int(item, "pods"));
    table_number(table, document_int(item, "gpus"));
    table_number(table, document_int(item, "boundMilli"));
    table_number(table, document_int(item, "reservedMilli"));
    table_number(table, document_int(item, "mib"));
    table_number(table, document_int(item, "heldGpus"));
    table_number(table, document_int(item, "unplacedMilli"));
}

static void usage_name(struct strbuf *out, const struct document *item)
{
    must(item != NULL);
    strbuf_printf(out, "%s/%s", document_shown(item, "namespace"), document_shown(item, "model"));
}

/* Printed below the table, and not with --no-headers, which is for scripts. */
static void put_usage_total(const struct ctl *ctl, const struct document *total)
{
    FILE *out = ctl->screen.out;

    must(total != NULL);
    (void)fprintf(
        out, "\ntotal: pods %lld, GPUs %lld, %lld bound + %lld reserved = %lld milli",
        (long long)document_int(total, "pods"), (long long)document_int(total, "gpus"),
        (long long)document_int(total, "boundMilli"),
        (long long)document_int(total, "reservedMilli"),
        (long long)(document_int(total, "boundMilli") + document_int(total, "reservedMilli")));
    if (document_int(total, "heldGpus") > 0)
        (void)fprintf(out, "; %lld held whole", (long long)document_int(total, "heldGpus"));
    if (document_int(total, "unplacedMilli") > 0)
        (void)fprintf(out, "; %lld milli of GPUs that are not known",
                      (long long)document_int(total, "unplacedMilli"));
    (void)fputc('\n', out); /* errors are checked in ctl_finish() */
}

int show_usage(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {
        usage_columns, ARRAY_LEN(usage_columns), usage_row, usage_name, "nobody holds anything",
    };
    const struct document *items = document_get(list, "items");
    const struct document *total = document_get(list, "total");
    const bool table = ctl->format == FORMAT_TABLE || ctl->format == FORMAT_WIDE;
    const int status = ctl_show_list(ctl, list, &view);

    if (status == CTL_FINE && table && ctl->screen.headers && total != NULL && items != NULL &&
        items->count > 0)
        put_usage_total(ctl, total);
    return status;
}

/* --- usage since a time --- */

static const struct table_column usage_past_columns[] = {
    {"NAMESPACE", COLUMN_CUT},
    {"MODEL", COLUMN_MODEL | COLUMN_CUT},
    {"PODS", COLUMN_RIGHT},
    {"GPU-HOURS", COLUMN_RIGHT},
    {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"USED", COLUMN_RIGHT | COLUMN_BLANK},
    {"COVERED", COLUMN_RIGHT | COLUMN_ZERO},
    {"GIB-HOURS", COLUMN_RIGHT},
};

static void add_hours(struct table *table, int64_t milli_hours)
{
    table_printf(table, "%lld.%03lld", (long long)milli_hours / 1000,
                 (long long)milli_hours % 1000);
}

/* Blank if `of` is 0. */
static void add_percent(struct table *table, int64_t part, int64_t whole)
{
    if (whole <= 0)
        table_text(table, "");
    else
        table_printf(table, "%.0f%%", 100.0 * (double)part / (double)whole);
}

/*
 * USED is the percentage of the granted amount during measurement; COVERED is the measured part of
 * the whole. After a clock step, the measured amount can exceed the granted one.
 */
static void add_usage_measured(struct table *table, const struct document *item)
{
    const int64_t granted = document_int(item, "grantedMilliHours");
    const int64_t measured = document_int(item, "measuredMilliHours");
    const int64_t whole = document_int(item, "measuredOfMilliHours");

    if (document_get(item, "measuredMilliHours") == NULL)
        table_text(table, "");
    else
        add_hours(table, measured);
    add_percent(table, measured, whole);
    add_percent(table, whole < granted ? whole : granted, whole > 0 ? granted : 0);
}

static void usage_past_row(struct table *table, const struct document *item)
{
    const char *model = document_shown(item, "model");

    must(table->n_columns == ARRAY_LEN(usage_past_columns));
    table_text(table, document_shown(item, "namespace"));
    table_text(table, model[0] != '\0' ? model : "unknown");
    table_number(table, document_int(item, "pods"));
    add_hours(table, document_int(item, "grantedMilliHours"));
    add_usage_measured(table, item);
    table_number(table, document_int(item, "grantedMibHours") / 1024);
}

int show_usage_past(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {
        usage_past_columns, ARRAY_LEN(usage_past_columns),    usage_past_row,
        usage_name,         "nothing was granted since then",
    };
    return ctl_show_list(ctl, list, &view);
}

static int usage_since(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    char since[AGE_BYTES + 32];
    int64_t ms;
    struct err err;

    strbuf_init(&path);
    if (at_read(ctl, OPTION_since, &ms, &err) < 0)
        return ctl_misused(ctl, &err);
    at_format(ctl->options.given[OPTION_since], ctl->screen.now_ms, since);
    strbuf_str(&path, "/api/v1/usage/past");
    url_query(&path, "since", since);
    return lists_filter_and_show(ctl, path.data, SELECT_NOTHING, show_usage_past);
}

int command_usage(struct ctl *ctl)
{
    must(ctl->options.command != NULL);
    if (ctl->options.given[OPTION_since] != NULL)
        return usage_since(ctl);
    return lists_filter_and_show(ctl, "/api/v1/usage", SELECT_NOTHING, show_usage);
}

/* --- drift --- */

static const struct table_column drift_columns[] = {
    {"KIND", 0},
    {"NODE", COLUMN_CUT},
    {"GPU", COLUMN_ID | COLUMN_CUT | COLUMN_BLANK},
    {"POD", COLUMN_CUT | COLUMN_BLANK},
    {"WHAT", COLUMN_WRAP | COLUMN_BLANK},
    {"AGE", COLUMN_RIGHT | COLUMN_SPARE(1)},
};

static const struct table_column count_columns[] = {
    {"KIND", 0},
    {"WARNINGS", COLUMN_RIGHT},
    {"INFORMATION", COLUMN_RIGHT | COLUMN_ZERO},
    {"MEANING", COLUMN_WRAP},
};

/* True for a kind with possibly hundreds of items, whose text adds nothing to the counts. */
static bool counts_say(const struct screen *screen, const struct document *item)
{
    must(screen != NULL);
    return screen->terminal && screen->headers && !screen->wide &&
           strcmp(document_shown(item, "kind"), "adopted") == 0;
}

static void drift_row(struct table *table, const struct document *item)
{
    const char *name = document_shown(item, "name");

    must(table->n_columns == ARRAY_LEN(drift_columns));
    table_text(table, document_shown(item, "kind"));
    table_text(table, document_shown(item, "node"));
    table_text(table, document_shown(item, "gpu"));
    if (name[0] != '\0')
        table_printf(table, "%s/%s", document_shown(item, "namespace"), name);
    else
        table_text(table, "");
    table_text(table, counts_say(table->screen, item) ? "" : document_shown(item, "text"));
    table_age(table, document_shown(item, "since"));
}

static void drift_name(struct strbuf *out, const struct document *item)
{
    strbuf_printf(out, "%s/%s", document_shown(item, "kind"), document_shown(item, "node"));
}

static void count_row(struct table *table, const struct document *count)
{
    must(table->n_columns == ARRAY_LEN(count_columns));
    table_text(table, document_shown(count, "kind"));
    table_number(table, document_int(count, "warnings"));
    table_number(table, document_int(count, "information"));
    table_text(table, document_shown(count, "meaning"));
}

/*
 * Prints the kinds that occur, before the list; not for scripts, like headings. An older milligpud
 * sends no counts.
 */
static int show_counts(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {count_columns, ARRAY_LEN(count_columns), count_row, NULL,
                                          ""};
    struct document *some = document_new(&ctl->arena, DOCUMENT_ARRAY);
    const char *sort_by = ctl->screen.sort_by;

    must(list != NULL);
    document_each (count, document_get(list, "counts"))
        if (document_int(count, "warnings") + document_int(count, "information") > 0)
            document_append(some, document_copy(&ctl->arena, count));
    if (some->count == 0 || !ctl->screen.headers)
        return CTL_FINE;
    ctl->screen.sort_by = NULL; /* applies to the list only */
    const int status = ctl_show_rows(ctl, some, &view);
    ctl->screen.sort_by = sort_by;
    (void)fputc('\n', ctl->screen.out); /* errors are checked in ctl_finish() */
    return status;
}

int show_drift(struct ctl *ctl, const struct document *list)
{
    static const struct list_view view = {
        drift_columns,
        ARRAY_LEN(drift_columns),
        drift_row,
        drift_name,
        "no drift: ledger and cluster agree",
    };
    const struct document *items = document_get(list, "items");
    const bool table = ctl->format == FORMAT_TABLE || ctl->format == FORMAT_WIDE;
    const int status = table ? show_counts(ctl, list) : CTL_FINE;
    int64_t information = 0;

    must(list != NULL);
    document_each (count, document_get(list, "counts"))
        information += document_int(count, "information");
    /* No hint about kinds that the user excluded; the counts have shown them. */
    if (status != CTL_FINE || !table || information == 0 || (items != NULL && items->count > 0) ||
        ctl->options.given[OPTION_kind] != NULL)
        return status != CTL_FINE ? status : ctl_show_list(ctl, list, &view);
    (void)fputs("no drift that needs a look; --kind lists what is information\n", ctl->err);
    return CTL_FINE;
}

/* Kinds are not checked here, because a newer milligpud has more of them. */
int command_drift(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    const char *const *given = ctl->options.given;
    struct document *list;
    struct err err;

    must(ctl->options.command != NULL);
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/drift");
    url_query(&path, "node", given[OPTION_node]);
    url_query(&path, "kind", given[OPTION_kind]);
    if (given[OPTION_kind] == NULL)
        url_query(&path, "severity", "warning");
    if (given[OPTION_node] != NULL && node_name_check(given[OPTION_node], &err) < 0)
        return ctl_misused(ctl, &err);
    if (ctl_list(ctl, path.data, &list, &err) < 0)
        return err.code == ERR_INVALID ? ctl_misused(ctl, &err) : ctl_fail(ctl, &err);
    return show_drift(ctl, list);
}

/* --- history --- */

static const struct table_column history_columns[] = {
    {"NAMESPACE", COLUMN_CUT | COLUMN_SPARE(1)},
    {"NAME", COLUMN_CUT},
    {"NODE", COLUMN_CUT},
    {"GPU", COLUMN_ID},
    {"MILLI", COLUMN_RIGHT},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"STATE", COLUMN_SPARE(2)},
    {"FROM", 0},
    {"UNTIL", COLUMN_BLANK},
    {"UID", COLUMN_WIDE},
    {"NODEUID", COLUMN_WIDE},
    {"AGE", COLUMN_RIGHT | COLUMN_SPARE(3)},
    {"OVER", COLUMN_BLANK}, /* only in a pod's history */
};

/* "killed:6000/4915:2026-01-02T14:05:00Z,+2": the newest event, and the number of others. */
static void add_over(struct table *table, const struct document *item)
{
    const struct document *overs = document_get(item, "over");
    const struct document *over = overs != NULL ? overs->first : NULL;
    CLEANUP(strbuf_done) struct strbuf text;

    strbuf_init(&text);
    if (over != NULL) {
        const char *at = document_shown(over, "at");
        strbuf_printf(&text, "%s:", document_shown(over, "how"));
        if (document_get(over, "peakMib") != NULL)
            strbuf_printf(&text, "%lld", (long long)document_int(over, "peakMib"));
        else
            strbuf_char(&text, '?');
        strbuf_printf(&text, "/%lld:%.*s", (long long)document_int(over, "mib"),
                      (int)strcspn(at, "."), at);
        strbuf_str(&text, strchr(at, '.') != NULL ? "Z" : "");
        if (overs->count > 1)
            strbuf_printf(&text, ",+%zu", (size_t)overs->count - 1);
    }
    table_text(table, text.data);
}

static void history_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(history_columns) ||
         table->n_columns == ARRAY_LEN(history_columns) - 1);
    add_pod(table, item);
    table_text(table, document_shown(item, "node"));
    table_text(table, document_shown(item, "gpu"));
    table_number(table, document_int(item, "milli"));
    table_number(table, document_int(item, "mib"));
    add_state(table, item);
    add_time(table, since_of(item));
    add_time(table, document_shown(item, "releasedAt"));
    table_text(table, document_shown(item, "uid"));
    table_text(table, document_shown(item, "nodeUid"));
    table_age(table, since_of(item));
    if (table->n_columns == ARRAY_LEN(history_columns))
        add_over(table, item);
}

int show_history(struct ctl *ctl, const struct document *list)
{
    const struct document *items = document_get(list, "items");
    const bool overs = items != NULL && document_get(items->first, "over") != NULL;
    const struct list_view view = {
        .column = history_columns,
        .n_columns = ARRAY_LEN(history_columns) - (overs ? 0 : 1),
        .row = history_row,
        .name = pod_name,
        .none = ctl->options.given[OPTION_at] != NULL ? "no history: nothing was held at that time"
                                                      : "no history: nothing was ever held",
    };

    return ctl_show_list(ctl, list, &view);
}
