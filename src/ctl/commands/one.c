/*
 * The commands about one object: node, pod, summary, version. Called by ctl.c in the only thread.
 * command_X() requests the answer and show_X() draws it, so that tests can draw recorded answers.
 * Each view is a block of "Name: text" lines with a table below; -o json and yaml print the
 * server's answer instead, and -o name one line. Absent fields read as "" or 0, so views work with
 * other versions of milligpud.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "ctl/row_groups.h"
#include "gpu_name.h"
#include "milligpu_version.h"

enum { FIELD_BEGIN = 14 }; /* column of the texts */

/* name: at most 12 characters, so that the texts are aligned. */
void put_field(struct ctl *ctl, const char *name, const char *fmt, ...)
{
    char text[4096];
    va_list args;

    must(name[0] != '\0');
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* truncated if too long */
    va_end(args);
    (void)fprintf(ctl->screen.out, "%s:%*s", name, (int)(FIELD_BEGIN - 1 - strlen(name)), "");
    text_fill(&ctl->screen, text, FIELD_BEGIN, FIELD_BEGIN);
}

static int show_name(const struct ctl *ctl, const char *kind, const char *name)
{
    must(ctl->format == FORMAT_NAME);
    (void)fprintf(ctl->screen.out, "%s/%s\n", kind, name);
    return CTL_FINE;
}

static const char *or_unknown(const char *text)
{
    return text[0] != '\0' ? text : "unknown";
}

/* --- node --- */

static const struct table_column gpu_columns[] = {
    {"GPU", COLUMN_RIGHT | COLUMN_LABEL},
    {"ID", COLUMN_ID | COLUMN_CUT},
    {"MODEL", COLUMN_MODEL | COLUMN_SPARE(3)},
    {"MIB", COLUMN_RIGHT | COLUMN_SPARE(2)},
    {"SIZE", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},
    {"FREE", COLUMN_RIGHT},
    {"FRAGMENT", COLUMN_RIGHT | COLUMN_SPARE(4)},
    {"NUMA", COLUMN_RIGHT | COLUMN_WIDE},
    {"NVLINK", COLUMN_WIDE},
    {"STATE", 0},
    {"REASON", COLUMN_NOTE},
};

/* The indexes of its peers: "1,2,3". */
static void put_peers(struct ctl *ctl, struct table *table, const struct document *node,
                      const struct document *gpu)
{
    CLEANUP(strbuf_done) struct strbuf peers;

    strbuf_init(&peers);
    must(gpu != NULL);
    document_each (other, document_get(node, "gpus"))
        document_each (id, document_get(gpu, "nvlink"))
            if (text_is(id->text, document_str(other, "id")))
                strbuf_printf(&peers, "%s%lld", peers.len > 0 ? "," : "",
                              (long long)document_int(other, "index"));
    table_text(table, peers.len > 0 ? arena_copy(&ctl->arena, text_of(peers.data)) : "-");
}

static void gpu_row(struct ctl *ctl, struct table *table, const struct document *node,
                    const struct document *gpu)
{
    const char *state = top_state_of(node, gpu);

    must(table->n_columns == ARRAY_LEN(gpu_columns));
    table_number(table, document_int(gpu, "index"));
    table_text(table, document_shown(gpu, "id"));
    table_text(table, document_shown(gpu, "model"));
    table_number(table, document_int(gpu, "mib"));
    table_number(table, document_int(gpu, "milli"));
    table_number(table, document_int(gpu, "usedMilli"));
    table_number(table, document_int(gpu, "reservedMilli"));
    table_number(table, document_int(gpu, "freeMilli"));
    table_number(table, document_int(gpu, "fragmentMilli"));
    table_text(table, document_get(gpu, "numa") != NULL
                          ? arena_printf(&ctl->arena, "%lld", (long long)document_int(gpu, "numa"))
                          : "-");
    put_peers(ctl, table, node, gpu);
    table_text(table, state);
    if (strcmp(state, "ok") != 0)
        table_color(table, "red");
    /* The state of the node is shown above the table. */
    table_text(table, strcmp(document_shown(gpu, "state"), "ok") != 0 ? gpu_why(node, gpu) : "");
}

static int show_gpus(struct ctl *ctl, const struct document *node)
{
    CLEANUP(table_done) struct table table;
    struct err err;

    table_init(&table, &ctl->screen, &ctl->arena, gpu_columns, ARRAY_LEN(gpu_columns));
    document_each (gpu, document_get(node, "gpus"))
        gpu_row(ctl, &table, node, gpu);
    must(table.n_cells > 0);
    return table_print(&table, &err) < 0 ? ctl_misused(ctl, &err) : CTL_FINE;
}

static const struct table_column holder_columns[] = {
    {"NAMESPACE", COLUMN_CUT}, {"NAME", COLUMN_CUT},  {"GPU", COLUMN_RIGHT},
    {"MILLI", COLUMN_RIGHT},   {"MIB", COLUMN_RIGHT}, {"STATE", 0},
};

/* --sort-by names a column of the first table and does not apply to this one. */
static int show_holders(struct ctl *ctl, const struct document *node)
{
    CLEANUP(table_done) struct table table;
    struct err err;
    struct screen plain = ctl->screen;

    must(node != NULL);
    plain.sort_by = NULL; /* applies to the GPUs only */
    table_init(&table, &plain, &ctl->arena, holder_columns, ARRAY_LEN(holder_columns));
    document_each (gpu, document_get(node, "gpus")) {
        document_each (holder, document_get(gpu, "holders")) {
            table_text(&table, document_shown(holder, "namespace"));
            table_text(&table, document_shown(holder, "name"));
            table_number(&table, document_int(gpu, "index"));
            table_number(&table, document_int(holder, "milli"));
            table_number(&table, document_int(holder, "mib"));
            table_text(&table, document_shown(holder, "state"));
        }
    }
    (void)fputs(table.n_cells > 0 ? "\n" : "\nno pod holds a share of them\n", ctl->screen.out);
    return table_print(&table, &err) < 0 ? ctl_misused(ctl, &err) : CTL_FINE;
}

/* Prints used and free, other parts if not 0, then the amount beyond the size. */
static void put_node_milli(struct ctl *ctl, const struct document *node)
{
    CLEANUP(strbuf_done) struct strbuf text;
    const long long beyond = (long long)document_int(node, "beyondMilli");
    static const struct {
        const char *field;
        const char *word;
    } part[] = {
        {"reservedMilli", "reserved"},
        {"heldMilli", "held whole"},
        {"closedMilli", "closed"},
    };

    must(node != NULL);
    strbuf_init(&text);
    strbuf_printf(
        &text, "%lld: %lld used, %lld free", (long long)document_int(node, "capacityMilli"),
        (long long)document_int(node, "usedMilli"), (long long)document_int(node, "freeMilli"));
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        if (document_int(node, part[i].field) > 0)
            strbuf_printf(&text, ", %lld %s", (long long)document_int(node, part[i].field),
                          part[i].word);
    if (beyond > 0)
        strbuf_printf(&text, "; %lld of what is used exceeds the size of its GPU", beyond);
    put_field(ctl, "Milli", "%s", text.data);
    put_field(ctl, "Largest", "%lld milli free in one piece",
              (long long)document_int(node, "largestFreeMilli"));
    if (document_int(node, "fragmentMilli") > 0)
        put_field(ctl, "Fragment", "%lld of %lld free milli: of no use to the pods that come",
                  (long long)document_int(node, "fragmentMilli"),
                  (long long)document_int(node, "freeMilli"));
}

/*
 * Beside "ok", the text is a remark and not a reason. Sick GPUs are only counted, because the table
 * shows them.
 */
static void put_state(struct ctl *ctl, const struct document *node)
{
    CLEANUP(strbuf_done) struct strbuf text;
    const char *state = document_shown(node, "state");
    const char *state_text = document_shown(node, "stateText");
    long long sick = 0;

    must(node != NULL);
    strbuf_init(&text);
    document_each (gpu, document_get(node, "gpus"))
        sick += gpu_is_sick(gpu);
    strbuf_str(&text, state);
    if (document_true(node, "cordoned"))
        strbuf_str(&text, ", cordoned");
    if (sick > 0)
        strbuf_printf(&text, ", %lld unhealthy %s", sick, sick == 1 ? "GPU" : "GPUs");
    if (state_text[0] != '\0')
        strbuf_printf(&text, "%s%s", strcmp(state, "ok") == 0 ? "; " : ": ", state_text);
    put_field(ctl, "State", "%s", text.data);
}

int show_node(struct ctl *ctl, const struct document *node)
{
    const struct document *gpus = document_get(node, "gpus");
    const long long held = (long long)document_int(node, "heldGpus");

    must(node != NULL);
    if (ctl_document(ctl, node))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME)
        return show_name(ctl, "node", document_shown(node, "name"));
    put_field(ctl, "Node", "%s", document_shown(node, "name"));
    put_field(ctl, "Model", "%s", or_unknown(document_shown(node, "model")));
    put_field(ctl, "Inventory", "%s", or_unknown(document_shown(node, "source")));
    if (document_true(node, "agent"))
        put_field(ctl, "Agent", "milligpu-node gives containers their GPUs");
    put_state(ctl, node);
    put_node_milli(ctl, node);
    if (held > 0)
        put_field(ctl, "Held", "%lld whole %s by pods of another resource", held,
                  held == 1 ? "GPU" : "GPUs");
    (void)fputc('\n', ctl->screen.out);
    /* Pods can still hold shares here, on unknown GPUs. */
    if (gpus == NULL || gpus->count == 0) {
        (void)fprintf(ctl->screen.out,
                      "no GPUs are known here; what its pods hold: allocations --node %s\n",
                      document_shown(node, "name"));
        return CTL_FINE;
    }
    const int status = show_gpus(ctl, node);
    return status == CTL_FINE ? show_holders(ctl, node) : status;
}

int command_node(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct document *node;
    struct err err;

    must(ctl->options.n_arguments == 1);
    strbuf_init(&path);
    const char *name = ctl->options.argument[0];
    if (node_name_check(name, &err) < 0)
        return ctl_misused(ctl, &err);
    strbuf_str(&path, "/api/v1/nodes/");
    url_escape(&path, name);
    return ctl_get(ctl, path.data, &node, &err) < 0 ? ctl_fail(ctl, &err) : show_node(ctl, node);
}

/* --- pod --- */

static const struct table_column share_columns[] = {
    {"CONTAINER", COLUMN_CUT},
    {"KIND", 0},
    {"GPU", 0},
    {"ID", COLUMN_ID | COLUMN_CUT},
    {"MILLI", COLUMN_RIGHT},
    {"MIB", COLUMN_RIGHT},
    {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"MEASUREDMIB", COLUMN_RIGHT | COLUMN_BLANK},
};

/* The use of the share in the last minutes, if an agent reports it. */
static void add_measured(struct table *table, const struct document *share)
{
    table_measured(table, share);
    table_known(table, share, "measuredMib");
}

static void share_row(struct table *table, const struct document *share)
{
    must(table->n_columns == ARRAY_LEN(share_columns));
    table_text(table, document_shown(share, "container"));
    table_text(table, document_shown(share, "kind"));
    table_number(table, document_int(share, "index"));
    table_text(table, document_shown(share, "gpu"));
    table_number(table, document_int(share, "milli"));
    table_number(table, document_int(share, "mib"));
    add_measured(table, share);
}

/* The same columns for raised shares, with the requested amount. */
static const struct table_column raised_columns[] = {
    {"CONTAINER", COLUMN_CUT},
    {"KIND", 0},
    {"GPU", 0},
    {"ID", COLUMN_ID | COLUMN_CUT},
    {"ASKED", COLUMN_RIGHT},
    {"MILLI", COLUMN_RIGHT},
    {"MIB", COLUMN_RIGHT},
    {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"MEASUREDMIB", COLUMN_RIGHT | COLUMN_BLANK},
};

static void raised_row(struct table *table, const struct document *share)
{
    const bool raised = document_get(share, "asked") != NULL;

    must(table->n_columns == ARRAY_LEN(raised_columns));
    table_text(table, document_shown(share, "container"));
    table_text(table, document_shown(share, "kind"));
    table_number(table, document_int(share, "index"));
    table_text(table, document_shown(share, "gpu"));
    table_number(table, document_int(share, raised ? "asked" : "milli"));
    table_number(table, document_int(share, "milli"));
    table_number(table, document_int(share, "mib"));
    add_measured(table, share);
}

static int show_shares(struct ctl *ctl, const struct document *shares)
{
    static const struct list_view plain = {share_columns, ARRAY_LEN(share_columns), share_row, NULL,
                                           ""};
    static const struct list_view with_asked = {raised_columns, ARRAY_LEN(raised_columns),
                                                raised_row, NULL, ""};
    bool raised = false;

    must(shares->count > 0);
    document_each (share, shares)
        raised = raised || document_get(share, "asked") != NULL;
    return ctl_show_rows(ctl, shares, raised ? &with_asked : &plain);
}

/* --- a pod that waits, node by node --- */

/* A row for each node, for scripts and with -o wide. */
static const struct table_column verdict_columns[] = {
    {"NODE", 0},
    {"FITS", 0},
    {"WHY NOT", COLUMN_WRAP},
    {"DETAIL", COLUMN_WRAP},
};

static void verdict_row(struct table *table, const struct document *verdict)
{
    const bool fits = document_true(verdict, "fits");

    must(table->n_columns == ARRAY_LEN(verdict_columns));
    table_text(table, document_shown(verdict, "name"));
    table_text(table, fits ? "yes" : "no");
    table_color(table, fits ? "green" : "red");
    table_text(table, document_shown(verdict, "text"));
    table_text(table, document_shown(verdict, "detail"));
}

static const struct table_column group_columns[] = {
    {"NODES", COLUMN_RIGHT},
    {"FITS", 0},
    {"WHICH", COLUMN_WRAP},
    {"WHY NOT", COLUMN_WRAP | COLUMN_BLANK},
    {"DETAIL", COLUMN_WRAP | COLUMN_BLANK},
};

/* Adds a node to the group with its answer; nodes come in the order of their names. */
static void group_add(struct ctl *ctl, struct row_groups *groups, const struct document *verdict)
{
    const char *key =
        arena_printf(&ctl->arena, "%d\n%s\n%s", document_true(verdict, "fits"),
                     document_shown(verdict, "text"), document_shown(verdict, "detail"));
    struct strbuf *names = row_groups_add(groups, key, verdict);

    if (names != NULL)
        strbuf_str(names, document_shown(verdict, "name"));
}

static void group_row(struct table *table, const struct row_group *group)
{
    CLEANUP(strbuf_done) struct strbuf which;
    const struct document *first = group->said;
    const bool fits = document_true(first, "fits");

    must(table->n_columns == ARRAY_LEN(group_columns));
    strbuf_init(&which);
    strbuf_str(&which, group->names.data);
    row_group_more(group, &which);
    table_number(table, (int64_t)group->rows);
    table_text(table, fits ? "yes" : "no");
    table_color(table, fits ? "green" : "red");
    table_text(table, which.data);
    table_text(table, document_shown(first, "text"));
    table_text(table, document_shown(first, "detail"));
}

/* Prints each answer once, with its nodes: 184 nodes with the same answer are one row. */
static int show_groups(struct ctl *ctl, const struct document *nodes)
{
    CLEANUP(table_done) struct table table;
    CLEANUP(row_groups_done) struct row_groups groups;
    struct err err;

    must(nodes != NULL);
    row_groups_init(&groups);
    table_init(&table, &ctl->screen, &ctl->arena, group_columns, ARRAY_LEN(group_columns));
    document_each (verdict, nodes)
        group_add(ctl, &groups, verdict);
    for (size_t i = 0; i < groups.count; i++)
        group_row(&table, &groups.group[i]);
    return table_print(&table, &err) < 0 ? ctl_misused(ctl, &err) : CTL_FINE;
}

static int show_verdicts(struct ctl *ctl, const struct document *nodes)
{
    static const struct list_view view = {verdict_columns, ARRAY_LEN(verdict_columns), verdict_row,
                                          NULL, ""};

    must(nodes != NULL);
    return ctl->screen.terminal && !ctl->screen.wide ? show_groups(ctl, nodes)
                                                     : ctl_show_rows(ctl, nodes, &view);
}

static const struct table_column reason_columns[] = {
    {"NODES", COLUMN_RIGHT},
    {"REASON", 0},
    {"WHY NOT", COLUMN_WRAP},
    {"NOW", COLUMN_WRAP},
};

static void reason_row(struct table *table, const struct document *reason)
{
    const char *word = document_shown(reason, "reason");

    must(table->n_columns == ARRAY_LEN(reason_columns));
    table_number(table, document_int(reason, "nodes"));
    table_text(table, word);
    table_color(table, strcmp(word, "fits") == 0 ? "green" : "red");
    table_text(table, document_shown(reason, "text"));
    table_text(table, document_shown(reason, "detail"));
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

/* Shows the latest known event: released, else bound, else reserved. */
static int show_allocation(struct ctl *ctl, const struct document *allocation)
{
    CLEANUP(strbuf_done) struct strbuf charges;
    const struct document *shares = document_get(allocation, "shares");
    const char *bound = document_shown(allocation, "boundAt");
    const char *released = document_shown(allocation, "releasedAt");
    const char *since = released[0] != '\0' ? released : bound;

    must(allocation != NULL);
    strbuf_init(&charges);
    put_charges(&charges, allocation);
    put_since(ctl, "State", document_shown(allocation, "state"),
              since[0] != '\0' ? since : document_shown(allocation, "reservedAt"));
    if (document_true(allocation, "presumed"))
        put_field(ctl, "Presumed", "it was bound without us, and its place is a guess");
    if (document_true(allocation, "inDoubt"))
        put_field(ctl, "In doubt", "a Binding was sent and its outcome is not known yet");
    if (document_get(allocation, "terminatingSince") != NULL)
        put_since(ctl, "Terminating", "frees nothing before it has ended,",
                  document_shown(allocation, "terminatingSince"));
    put_field(ctl, "GPU:milli", "%s", charges.len > 0 ? charges.data : "-");
    if (document_int(allocation, "heldGpus") > 0)
        put_field(ctl, "Whole GPUs", "%lld of another resource",
                  (long long)document_int(allocation, "heldGpus"));
    if (shares == NULL || shares->count == 0)
        return CTL_FINE;
    (void)fputc('\n', ctl->screen.out);
    return show_shares(ctl, shares);
}

/* The number of nodes that fit and that the pod is permitted to use. */
static long long count_usable(const struct document *pod)
{
    long long nodes = 0;

    must(pod != NULL);
    document_each (reason, document_get(pod, "reasons"))
        if (strcmp(document_shown(reason, "reason"), "fits") == 0)
            nodes += (long long)document_int(reason, "nodes");
    return nodes;
}

/* "2 nodes fit, the pod may use none: 2 tainted nvidia.com/gpu (g1, g2)" */
static void put_unusable(struct ctl *ctl, const struct document *pod)
{
    CLEANUP(strbuf_done) struct strbuf why;
    const struct document *unusable = document_get(pod, "unusable");
    const long long usable = count_usable(pod);
    long long nodes = usable;

    must(usable >= 0);
    strbuf_init(&why);
    if (unusable == NULL || unusable->count == 0)
        return;
    document_each (bar, unusable) {
        const char *taint = document_shown(bar, "taint");
        const long long count = (long long)document_int(bar, "nodes");
        uint32_t named = 0;
        nodes += count;
        strbuf_printf(&why, "%s%lld %s%s%s (", why.len > 0 ? ", " : "", count,
                      document_shown(bar, "reason"), taint[0] != '\0' ? " " : "", taint);
        document_each (name, document_get(bar, "names")) {
            strbuf_str(&why, named++ > 0 ? ", " : "");
            strbuf_shown(&why, name->text);
        }
        strbuf_str(&why, count > named ? ", ...)" : ")");
    }
    if (usable == 0)
        put_field(ctl, "Usable", "%lld %s, the pod may use none: %s", nodes,
                  nodes == 1 ? "node fits" : "nodes fit", why.data);
    else
        put_field(ctl, "Usable", "%lld %s, the pod may use %lld: not %s", nodes,
                  nodes == 1 ? "node fits" : "nodes fit", usable, why.data);
}

/* Since when the pod waits, and why: milligpud refused it, or its scheduler has not asked. */
static void put_waiting(struct ctl *ctl, const struct document *pod)
{
    const struct document *waiting = document_get(pod, "waiting");
    const struct document *scheduling = document_get(pod, "scheduling");
    const char *unasked = document_shown(scheduling, "text");
    const char *condition = document_shown(scheduling, "condition");
    const long long asks = (long long)document_int(waiting, "asks");
    char age[AGE_BYTES];

    must(pod != NULL);
    if (waiting != NULL) {
        age_of(&ctl->screen, document_shown(waiting, "since"), age);
        put_field(ctl, "Waiting", "since %s (%s), asked %lld %s", document_shown(waiting, "since"),
                  age, asks, asks == 1 ? "time" : "times");
        put_field(ctl, "Why", "%s", document_shown(waiting, "text"));
    } else if (document_true(scheduling, "asked")) {
        put_field(ctl, "Waiting", "a bind is in progress");
    } else {
        put_field(ctl, "Waiting", "%s",
                  unasked[0] != '\0' ? unasked : "kube-scheduler has not asked about it yet");
    }
    if (condition[0] != '\0')
        put_since(ctl, "Condition", condition, document_shown(scheduling, "since"));
    if (document_get(pod, "predecessor") != NULL)
        put_field(ctl, "Predecessor", "%s", document_shown(pod, "predecessor.text"));
}

/*
 * An older milligpud sends no counts of reasons; then nodes are shown one by one. The answers are
 * milligpud's, which include taints and node affinity but no other plugins of kube-scheduler.
 */
static int show_why_not(struct ctl *ctl, const struct document *pod)
{
    static const struct list_view counted = {reason_columns, ARRAY_LEN(reason_columns), reason_row,
                                             NULL, ""};
    const struct document *reasons = document_get(pod, "reasons");
    const struct document *nodes = document_get(pod, "nodes");
    const bool each = reasons == NULL || ctl->options.given[OPTION_verbose] != NULL;

    must(pod != NULL);
    put_waiting(ctl, pod);
    if (document_shown(pod, "never")[0] != '\0')
        put_field(ctl, "Never", "%s", document_shown(pod, "never"));
    put_unusable(ctl, pod);
    if (reasons != NULL && reasons->count > 0) {
        (void)fputc('\n', ctl->screen.out);
        const int status = ctl_show_rows(ctl, reasons, &counted);
        if (status != CTL_FINE)
            return status;
    }
    if (!each || nodes == NULL || nodes->count == 0)
        return CTL_FINE;
    (void)fputc('\n', ctl->screen.out);
    return show_verdicts(ctl, nodes);
}

/* A placed pod is Pending until its containers have started. */
static void put_phase(struct ctl *ctl, const struct document *pod)
{
    const char *phase = or_unknown(document_shown(pod, "phase"));
    const char *state = document_shown(pod, "allocation.state");

    must(pod != NULL);
    if (strcmp(phase, "Pending") != 0 || strcmp(state, "bound") != 0)
        put_field(ctl, "Phase", "%s", phase);
    else
        put_field(ctl, "Phase", "placed; its containers have not started (Pending)");
}

/* The models that a name matches, or the name that was probably meant. */
static void show_hints(struct ctl *ctl, const struct document *pod)
{
    must(pod != NULL);
    document_each (entry, document_get(pod, "models")) {
        CLEANUP(strbuf_done) struct strbuf models;
        strbuf_init(&models);
        document_each (model, document_get(entry, "standsFor"))
            strbuf_printf(&models, "%s%s", models.len > 0 ? ", " : "", model->shown);
        put_field(ctl, "Model", "%s %s%s", document_shown(entry, "name"),
                  models.len > 0 ? "stands for " : "stands for no GPU of the cluster", models.data);
    }
    document_each (line, document_get(pod, "advice"))
        put_field(ctl, "Advice", "%s", line->shown);
}

int show_pod(struct ctl *ctl, const struct document *pod)
{
    const struct document *allocation = document_get(pod, "allocation");
    const char *node = document_shown(pod, "node");

    must(pod != NULL);
    if (ctl_document(ctl, pod))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME)
        return show_name(ctl, "pod",
                         arena_printf(&ctl->arena, "%s/%s", document_shown(pod, "namespace"),
                                      document_shown(pod, "name")));
    if (node[0] == '\0')
        node = document_shown(allocation, "node");
    put_field(ctl, "Pod", "%s/%s", document_shown(pod, "namespace"), document_shown(pod, "name"));
    put_field(ctl, "Request", "%s", or_unknown(document_shown(pod, "request")));
    show_hints(ctl, pod);
    put_phase(ctl, pod);
    put_field(ctl, "Node", "%s", node[0] != '\0' ? node : "none");
    if (document_shown(pod, "otherScheduler")[0] != '\0')
        put_field(ctl, "Scheduler", "%s", document_shown(pod, "otherScheduler"));
    if (allocation != NULL)
        return show_allocation(ctl, allocation);
    return node[0] == '\0' ? show_why_not(ctl, pod) : CTL_FINE;
}

int command_pod(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct pod_name name;
    struct document *pod;
    struct err err;

    must(ctl->options.n_arguments == 1);
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

static const struct table_column model_columns[] = {
    {"MODEL", COLUMN_MODEL | COLUMN_CUT | COLUMN_LABEL},
    {"GPUS", COLUMN_RIGHT},
    {"TOTAL", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},
    {"FREE", COLUMN_RIGHT},
    {"HELD", COLUMN_RIGHT | COLUMN_ZERO},
    {"CLOSED", COLUMN_RIGHT | COLUMN_ZERO},
    {"LARGEST", COLUMN_RIGHT | COLUMN_SPARE(2)},
    {"CLOSED BY", COLUMN_NOTE},
};

/* "500 unhealthy, 200 cordoned": the closed parts that are not 0. */
static void put_closed_by(struct strbuf *out, const struct document *amounts)
{
    must(out != NULL);
    document_each (part, document_get(amounts, "closed")) {
        if (part->kind != DOCUMENT_NUMBER || text_is(part->text, "0"))
            continue;
        strbuf_printf(out, "%s%.*s ", out->len > 0 ? ", " : "", TEXT_ARG(part->text));
        strbuf_shown(out, part->key);
    }
}

static void model_row(struct table *table, const struct document *model)
{
    CLEANUP(strbuf_done) struct strbuf closed_by;

    must(table->n_columns == ARRAY_LEN(model_columns));
    strbuf_init(&closed_by);
    put_closed_by(&closed_by, model);
    table_text(table, or_unknown(document_shown(model, "model")));
    table_number(table, document_int(model, "gpus"));
    table_number(table, document_int(model, "totalMilli"));
    table_number(table, document_int(model, "usedMilli"));
    table_number(table, document_int(model, "reservedMilli"));
    table_number(table, document_int(model, "freeMilli"));
    table_number(table, document_int(model, "heldMilli"));
    table_number(table, document_int(model, "closedMilli"));
    table_number(table, document_int(model, "largestFreeMilli"));
    table_text(table, closed_by.data);
}

/* "2 with 3 GPUs: 1 ok, 1 mixed" */
static void put_nodes(struct ctl *ctl, const struct document *summary)
{
    CLEANUP(strbuf_done) struct strbuf states;

    must(summary != NULL);
    strbuf_init(&states);
    document_each (state, document_get(summary, "nodeStates"))
        if (document_int(state, "nodes") > 0)
            strbuf_printf(&states, "%s%lld %s", states.len > 0 ? ", " : ": ",
                          (long long)document_int(state, "nodes"), document_shown(state, "state"));
    put_field(ctl, "Nodes", "%lld with %lld GPUs%s", (long long)document_int(summary, "nodes"),
              (long long)document_int(summary, "gpus"), states.data);
}

/* Each milli is counted in one of five numbers, which add up to the total. */
static void put_milli(struct ctl *ctl, const struct document *summary)
{
    CLEANUP(strbuf_done) struct strbuf closed_by;

    must(summary != NULL);
    strbuf_init(&closed_by);
    put_closed_by(&closed_by, summary);
    put_field(ctl, "Milli",
              "%lld = %lld used + %lld reserved + %lld free + %lld held whole + %lld closed",
              (long long)document_int(summary, "totalMilli"),
              (long long)document_int(summary, "usedMilli"),
              (long long)document_int(summary, "reservedMilli"),
              (long long)document_int(summary, "freeMilli"),
              (long long)document_int(summary, "heldMilli"),
              (long long)document_int(summary, "closedMilli"));
    if (document_int(summary, "beyondMilli") > 0)
        put_field(ctl, "Beyond", "%lld of what is held exceeds the size of its GPU",
                  (long long)document_int(summary, "beyondMilli"));
    if (closed_by.len > 0)
        put_field(ctl, "Closed", "%s", closed_by.data);
    if (document_int(summary, "heldGpus") > 0)
        put_field(ctl, "Held whole", "%lld %s by pods of another resource",
                  (long long)document_int(summary, "heldGpus"),
                  document_int(summary, "heldGpus") == 1 ? "GPU" : "GPUs");
    if (document_int(summary, "unplacedMilli") > 0)
        put_field(ctl, "Unplaced", "%lld milli of pods whose GPUs are not known",
                  (long long)document_int(summary, "unplacedMilli"));
    put_field(ctl, "Largest", "%lld milli free in one piece",
              (long long)document_int(summary, "largestFreeMilli"));
    put_field(ctl, "Fragment", "%lld of %lld free milli: of no use to the pods that come",
              (long long)document_int(summary, "fragmentMilli"),
              (long long)document_int(summary, "freeMilli"));
}

int show_summary(struct ctl *ctl, const struct document *summary)
{
    static const struct list_view view = {model_columns, ARRAY_LEN(model_columns), model_row, NULL,
                                          ""};
    const char *cluster = or_unknown(document_shown(summary, "cluster"));

    must(summary != NULL);
    if (ctl_document(ctl, summary))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME)
        return show_name(ctl, "cluster", cluster);
    put_field(ctl, "Cluster", "%s, %s", cluster, document_shown(summary, "mode"));
    put_field(ctl, "milligpud", "%s, %s%s", document_shown(summary, "version"),
              document_true(summary, "ready") ? "ready" : "NOT READY",
              document_true(summary, "safeMode") ? ", SAFE MODE: nothing is granted" : "");
    put_field(ctl, "Policy", "%s", or_unknown(document_shown(summary, "policy")));
    put_nodes(ctl, summary);
    put_milli(ctl, summary);
    put_field(ctl, "Allocations", "%lld bound, %lld reserved",
              (long long)document_int(summary, "allocations.bound"),
              (long long)document_int(summary, "allocations.reserved"));
    put_field(ctl, "Waiting pods", "%lld", (long long)document_int(summary, "waitingPods"));
    if (document_int(summary, "driftInformation") > 0)
        put_field(ctl, "Drift", "%lld, and %lld as information",
                  (long long)document_int(summary, "drift"),
                  (long long)document_int(summary, "driftInformation"));
    else
        put_field(ctl, "Drift", "%lld", (long long)document_int(summary, "drift"));
    (void)fputc('\n', ctl->screen.out);
    return ctl_show_rows(ctl, document_get(summary, "models"), &view);
}

int command_summary(struct ctl *ctl)
{
    struct document *summary;
    struct err err;

    must(ctl->options.command != NULL);
    if (ctl_get(ctl, "/api/v1/summary", &summary, &err) < 0)
        return ctl_fail(ctl, &err);
    return show_summary(ctl, summary);
}

/* --- version --- */

static int show_version(struct ctl *ctl, const char *server)
{
    must(server != NULL);
    if (ctl->format == FORMAT_JSON)
        (void)fprintf(ctl->screen.out,
                      "{\n  \"milligpuctl\": \"%s\",\n  \"milligpud\": \"%s\"\n}\n",
                      MILLIGPU_VERSION, server);
    else if (ctl->format == FORMAT_YAML)
        (void)fprintf(ctl->screen.out, "milligpuctl: %s\nmilligpud: %s\n", MILLIGPU_VERSION,
                      server);
    else
        (void)fprintf(ctl->screen.out, "milligpuctl  %s (%s)\nmilligpud    %s\n", MILLIGPU_VERSION,
                      MILLIGPU_COMMIT, server);
    return CTL_FINE;
}

/* Shows the own version even if milligpud does not answer, with a failing exit status. */
int command_version(struct ctl *ctl)
{
    struct document *summary;
    struct err err;

    if (ctl_get(ctl, "/api/v1/summary", &summary, &err) >= 0)
        return show_version(ctl, document_shown(summary, "version"));
    (void)show_version(ctl, "unknown"); /* the status of the failure is returned instead */
    return ctl_fail(ctl, &err);
}
