/*
 * The commands about one thing: node, pod, summary.  Called by ctl.c.  command_X() asks, show_X()
 * draws, so that tests can draw recorded answers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

void put_field(struct ctl *ctl, const char *name, const char *fmt, ...)
{
    va_list args;

    must(name[0] != '\0');
    (void)fprintf(ctl->screen.out, "%s:%*s", name, (int)(13 - strlen(name)), "");
    va_start(args, fmt);
    (void)vfprintf(ctl->screen.out, fmt, args); /* judged at the end */
    va_end(args);
    (void)fputc('\n', ctl->screen.out);
}

static int show_name(const struct ctl *ctl, const char *kind, const char *name)
{
    must(ctl->format == FORMAT_NAME);
    (void)fprintf(ctl->screen.out, "%s/%s\n", kind, name);
    return CTL_FINE;
}

static const char *or_unknown(const char *text)
{
    must(text != NULL);
    return text[0] != '\0' ? text : "unknown";
}

/* --- node --- */

static const struct column gpu_columns[] = {
    {"GPU", COLUMN_RIGHT},
    {"ID", 0},
    {"MODEL", 0},
    {"MIB", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"STATE", 0},
};

static void gpu_row(struct table *table, const struct value *gpu)
{
    const char *state = value_str(gpu, "state");

    must(table->columns == ARRAY_LEN(gpu_columns));
    table_number(table, value_int(gpu, "index"));
    table_text(table, value_str(gpu, "id"));
    table_text(table, value_str(gpu, "model"));
    table_number(table, value_int(gpu, "mib"));
    table_number(table, value_int(gpu, "milli"));
    table_number(table, value_int(gpu, "usedMilli"));
    table_number(table, value_int(gpu, "reservedMilli"));
    table_number(table, value_int(gpu, "freeMilli"));
    table_text(table, state);
    if (strcmp(state, "ok") != 0)
        table_color(table, "red");
}

static const struct column holder_columns[] = {
    {"NAMESPACE", 0},        {"NAME", 0},           {"GPU", COLUMN_RIGHT},
    {"MILLI", COLUMN_RIGHT}, {"MIB", COLUMN_RIGHT}, {"STATE", 0},
};

static int show_holders(struct ctl *ctl, const struct value *node)
{
    CLEANUP(table_done) struct table table;
    struct err err;
    struct screen plain = ctl->screen;

    must(node != NULL);
    plain.sort_by = NULL; /* that is about the GPUs */
    table_init(&table, &plain, &ctl->arena, holder_columns, ARRAY_LEN(holder_columns));
    value_each(gpu, value_get(node, "gpus")){value_each(holder, value_get(gpu, "holders")){
        table_text(&table, value_str(holder, "namespace"));
    table_text(&table, value_str(holder, "name"));
    table_number(&table, value_int(gpu, "index"));
    table_number(&table, value_int(holder, "milli"));
    table_number(&table, value_int(holder, "mib"));
    table_text(&table, value_str(holder, "state"));
}
}
(void)fputs(table.cells > 0 ? "\n" : "\nnobody holds a part of them\n", ctl->screen.out);
return table_print(&table, &err) < 0 ? ctl_misused(ctl, &err) : CTL_FINE;
}

int show_node(struct ctl *ctl, const struct value *node)
{
    static const struct list_view view = {gpu_columns, ARRAY_LEN(gpu_columns), gpu_row, NULL, ""};
    const char *state_text = value_str(node, "stateText");

    must(node != NULL);
    if (ctl_document(ctl, node))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME)
        return show_name(ctl, "node", value_str(node, "name"));
    put_field(ctl, "Node", "%s", value_str(node, "name"));
    put_field(ctl, "Model", "%s", or_unknown(value_str(node, "model")));
    put_field(ctl, "Inventory", "%s", or_unknown(value_str(node, "source")));
    put_field(ctl, "State", "%s%s%s%s", value_str(node, "state"), state_text[0] != '\0' ? ": " : "",
              state_text, value_true(node, "cordoned") ? ", cordoned" : "");
    put_field(ctl, "Milli", "%lld used, %lld reserved, %lld free of %lld; largest free piece %lld",
              (long long)value_int(node, "usedMilli"), (long long)value_int(node, "reservedMilli"),
              (long long)value_int(node, "freeMilli"), (long long)value_int(node, "capacityMilli"),
              (long long)value_int(node, "largestFreeMilli"));
    if (value_int(node, "heldGpus") > 0)
        put_field(ctl, "Held", "%lld whole GPUs by pods of another resource",
                  (long long)value_int(node, "heldGpus"));
    (void)fputc('\n', ctl->screen.out);
    const int status = ctl_show_rows(ctl, value_get(node, "gpus"), &view);
    return status == CTL_FINE ? show_holders(ctl, node) : status;
}

int command_node(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct value *node;
    struct err err;

    must(ctl->options.arguments == 1);
    strbuf_init(&path);
    if (ctl->options.argument[0][0] == '\0') {
        (void)err_set(&err, ERR_INVALID, "the name of the node is empty; `nodes` lists them");
        return ctl_misused(ctl, &err);
    }
    strbuf_str(&path, "/api/v1/nodes/");
    url_escape(&path, ctl->options.argument[0]);
    return ctl_get(ctl, path.data, &node, &err) < 0 ? ctl_fail(ctl, &err) : show_node(ctl, node);
}

/* --- pod --- */

static const struct column share_columns[] = {
    {"CONTAINER", 0},        {"KIND", 0},           {"GPU", 0}, {"ID", 0},
    {"MILLI", COLUMN_RIGHT}, {"MIB", COLUMN_RIGHT},
};

static void share_row(struct table *table, const struct value *share)
{
    must(table->columns == ARRAY_LEN(share_columns));
    table_text(table, value_str(share, "container"));
    table_text(table, value_str(share, "kind"));
    table_number(table, value_int(share, "index"));
    table_text(table, value_str(share, "gpu"));
    table_number(table, value_int(share, "milli"));
    table_number(table, value_int(share, "mib"));
}

static const struct column verdict_columns[] = {
    {"NODE", 0},
    {"FITS", 0},
    {"WHY NOT", COLUMN_WRAP},
    {"AT THIS MOMENT", COLUMN_WRAP},
};

static void verdict_row(struct table *table, const struct value *verdict)
{
    const bool fits = value_true(verdict, "fits");

    must(table->columns == ARRAY_LEN(verdict_columns));
    table_text(table, value_str(verdict, "name"));
    table_text(table, fits ? "yes" : "no");
    table_color(table, fits ? "green" : "red");
    table_text(table, value_str(verdict, "text"));
    table_text(table, value_str(verdict, "detail"));
}

static void put_since(struct ctl *ctl, const char *name, const char *what, const char *rfc3339)
{
    char age[AGE_BYTES];

    must(what != NULL);
    age_of(&ctl->screen, rfc3339, age);
    if (rfc3339[0] != '\0')
        put_field(ctl, name, "%s since %s (%s)", what, rfc3339, age);
    else
        put_field(ctl, name, "%s", what);
}

static int show_allocation(struct ctl *ctl, const struct value *allocation)
{
    static const struct list_view view = {share_columns, ARRAY_LEN(share_columns), share_row, NULL,
                                          ""};
    CLEANUP(strbuf_done) struct strbuf charges;
    const struct value *shares = value_get(allocation, "shares");
    const char *bound = value_str(allocation, "boundAt");
    const char *released = value_str(allocation, "releasedAt");
    const char *since = released[0] != '\0' ? released : bound;

    must(allocation != NULL);
    strbuf_init(&charges);
    put_charges(&charges, allocation);
    put_since(ctl, "State", value_str(allocation, "state"),
              since[0] != '\0' ? since : value_str(allocation, "reservedAt"));
    if (value_true(allocation, "presumed"))
        put_field(ctl, "Presumed", "it was bound without us, and its place is a guess");
    if (value_true(allocation, "inDoubt"))
        put_field(ctl, "In doubt", "a Binding was sent and its outcome is not known yet");
    if (value_get(allocation, "terminatingSince") != NULL)
        put_since(ctl, "Terminating", "frees nothing before it has ended,",
                  value_str(allocation, "terminatingSince"));
    put_field(ctl, "GPU:milli", "%s", charges.len > 0 ? charges.data : "-");
    if (value_int(allocation, "heldGpus") > 0)
        put_field(ctl, "Whole GPUs", "%lld of another resource",
                  (long long)value_int(allocation, "heldGpus"));
    if (shares == NULL || shares->count == 0)
        return CTL_FINE;
    (void)fputc('\n', ctl->screen.out);
    return ctl_show_rows(ctl, shares, &view);
}

static int show_why_not(struct ctl *ctl, const struct value *pod)
{
    static const struct list_view view = {verdict_columns, ARRAY_LEN(verdict_columns), verdict_row,
                                          NULL, ""};
    const struct value *waiting = value_get(pod, "waiting");
    const struct value *nodes = value_get(pod, "nodes");
    const long long asks = (long long)value_int(waiting, "asks");
    char age[AGE_BYTES];

    must(pod != NULL);
    if (waiting != NULL) {
        age_of(&ctl->screen, value_str(waiting, "since"), age);
        put_field(ctl, "Waiting", "since %s (%s), asked %lld %s", value_str(waiting, "since"), age,
                  asks, asks == 1 ? "time" : "times");
        put_field(ctl, "Why", "%s", value_str(waiting, "text"));
    } else {
        put_field(ctl, "Waiting", "kube-scheduler has not been refused yet");
    }
    if (nodes == NULL || nodes->count == 0)
        return CTL_FINE;
    (void)fputc('\n', ctl->screen.out);
    return ctl_show_rows(ctl, nodes, &view);
}

int show_pod(struct ctl *ctl, const struct value *pod)
{
    const struct value *allocation = value_get(pod, "allocation");
    const char *node = value_str(pod, "node");

    must(pod != NULL);
    if (ctl_document(ctl, pod))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME)
        return show_name(ctl, "pod",
                         arena_printf(&ctl->arena, "%s/%s", value_str(pod, "namespace"),
                                      value_str(pod, "name")));
    if (node[0] == '\0')
        node = value_str(allocation, "node");
    put_field(ctl, "Pod", "%s/%s", value_str(pod, "namespace"), value_str(pod, "name"));
    put_field(ctl, "Request", "%s", or_unknown(value_str(pod, "request")));
    put_field(ctl, "Phase", "%s", or_unknown(value_str(pod, "phase")));
    put_field(ctl, "Node", "%s", node[0] != '\0' ? node : "none");
    if (allocation != NULL)
        return show_allocation(ctl, allocation);
    return node[0] == '\0' ? show_why_not(ctl, pod) : CTL_FINE;
}

int command_pod(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct pod_name name;
    struct value *pod;
    struct err err;

    must(ctl->options.arguments == 1);
    strbuf_init(&path);
    if (ctl_pod_name(ctl, ctl->options.argument[0], &name, &err) < 0)
        return ctl_misused(ctl, &err);
    strbuf_str(&path, "/api/v1/pods/");
    url_escape(&path, name.namespace);
    strbuf_char(&path, '/');
    url_escape(&path, name.name);
    return ctl_get(ctl, path.data, &pod, &err) < 0 ? ctl_fail(ctl, &err) : show_pod(ctl, pod);
}

/* --- summary --- */

static const struct column model_columns[] = {
    {"MODEL", 0},
    {"GPUS", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"LARGEST", COLUMN_RIGHT},
};

static void model_row(struct table *table, const struct value *model)
{
    must(table->columns == ARRAY_LEN(model_columns));
    table_text(table, or_unknown(value_str(model, "model")));
    table_number(table, value_int(model, "gpus"));
    table_number(table, value_int(model, "capacityMilli"));
    table_number(table, value_int(model, "usedMilli"));
    table_number(table, value_int(model, "reservedMilli"));
    table_number(table, value_int(model, "freeMilli"));
    table_number(table, value_int(model, "largestFreeMilli"));
}

int show_summary(struct ctl *ctl, const struct value *summary)
{
    static const struct list_view view = {model_columns, ARRAY_LEN(model_columns), model_row, NULL,
                                          ""};
    const char *cluster = or_unknown(value_str(summary, "cluster"));

    must(summary != NULL);
    if (ctl_document(ctl, summary))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME)
        return show_name(ctl, "cluster", cluster);
    put_field(ctl, "Cluster", "%s, %s", cluster, value_str(summary, "mode"));
    put_field(ctl, "milligpud", "%s, %s%s", value_str(summary, "version"),
              value_true(summary, "ready") ? "ready" : "NOT READY",
              value_true(summary, "safeMode") ? ", SAFE MODE: nothing is granted" : "");
    put_field(ctl, "Nodes", "%lld with %lld GPUs", (long long)value_int(summary, "nodes"),
              (long long)value_int(summary, "gpus"));
    put_field(
        ctl, "Milli", "%lld used, %lld reserved, %lld free of %lld; largest free piece %lld",
        (long long)value_int(summary, "usedMilli"), (long long)value_int(summary, "reservedMilli"),
        (long long)value_int(summary, "freeMilli"), (long long)value_int(summary, "capacityMilli"),
        (long long)value_int(summary, "largestFreeMilli"));
    put_field(ctl, "Allocations", "%lld bound, %lld reserved",
              (long long)value_int(summary, "allocations.bound"),
              (long long)value_int(summary, "allocations.reserved"));
    put_field(ctl, "Waiting pods", "%lld", (long long)value_int(summary, "waitingPods"));
    put_field(ctl, "Drift", "%lld", (long long)value_int(summary, "drift"));
    (void)fputc('\n', ctl->screen.out);
    return ctl_show_rows(ctl, value_get(summary, "models"), &view);
}

int command_summary(struct ctl *ctl)
{
    struct value *summary;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/summary", &summary, &err) < 0)
        return ctl_fail(ctl, &err);
    return show_summary(ctl, summary);
}
