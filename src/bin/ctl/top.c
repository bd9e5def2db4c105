/*
 * The command top: one line for each GPU, with bars, once or with --watch every two seconds until a
 * signal. Called by ctl.c; lists.c has the other tables.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/clock.h"

#include "ctl.h"

enum { BAR_CELLS = 20, AGAIN_MS = 2000 };

static const struct table_column with_bars[] = {
    {"NODE", 0},
    {"GPU", COLUMN_RIGHT},
    {"MODEL", 0},
    {"BAR", 0},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"PODS", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT | COLUMN_WIDE},
    {"USEDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"ID", COLUMN_WIDE},
    {"STATE", 0},
};

/* The same without the bar. */
static const struct table_column without_bars[] = {
    {"NODE", 0},
    {"GPU", COLUMN_RIGHT},
    {"MODEL", 0},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"PODS", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT | COLUMN_WIDE},
    {"USEDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"ID", COLUMN_WIDE},
    {"STATE", 0},
};

/* Why no share is placed here: the GPU's reason takes precedence over the node's. */
static const char *top_state_of(const struct doc *node, const struct doc *gpu)
{
    const char *state = doc_shown(gpu, "state");

    must(node != NULL);
    return strcmp(state, "ok") == 0 ? doc_shown(node, "state") : state;
}

static const char *bar_color(const struct doc *gpu, const char *state)
{
    must(gpu != NULL);
    if (strcmp(state, "ok") != 0)
        return "red";
    if (doc_int(gpu, "reservedMilli") > 0)
        return "yellow";
    return doc_int(gpu, "usedMilli") > 0 ? "green" : "darkgray";
}

static void add_bar(struct table *table, const struct doc *gpu, const char *state)
{
    CLEANUP(strbuf_done) struct strbuf bar;

    must(table->screen->bars);
    strbuf_init(&bar);
    bar_format(&bar, table->screen, BAR_CELLS, doc_int(gpu, "usedMilli"),
               doc_int(gpu, "reservedMilli"), doc_int(gpu, "milli"));
    table_text(table, bar.data);
    table_color(table, bar_color(gpu, state));
}

static void top_add_gpu(struct table *table, const struct doc *node, const struct doc *gpu)
{
    const char *state = top_state_of(node, gpu);

    must(table->cells % table->columns == 0);
    table_text(table, doc_shown(node, "name"));
    table_number(table, doc_int(gpu, "index"));
    table_text(table, doc_shown(gpu, "model"));
    if (table->screen->bars)
        add_bar(table, gpu, state);
    table_number(table, doc_int(gpu, "usedMilli"));
    table_number(table, doc_int(gpu, "reservedMilli"));
    table_number(table, doc_int(gpu, "freeMilli"));
    table_number(table, doc_int(gpu, "pods"));
    table_number(table, doc_int(gpu, "milli"));
    table_number(table, doc_int(gpu, "usedMib"));
    table_number(table, doc_int(gpu, "mib"));
    table_text(table, doc_shown(gpu, "id"));
    table_text(table, state);
    if (strcmp(state, "ok") != 0)
        table_color(table, "red");
    must(table->cells % table->columns == 0);
}

/* The totals come from a second request and may be of a later moment than the table. */
static void put_legend(const struct ctl *ctl, const struct doc *summary)
{
    FILE *out = ctl->screen.out;
    const long long waiting = (long long)doc_int(summary, "waitingPods");

    must(summary != NULL);
    (void)fprintf(
        out, "\n%lld nodes, %lld GPUs: %lld used, %lld reserved, %lld free of %lld milli",
        (long long)doc_int(summary, "nodes"), (long long)doc_int(summary, "gpus"),
        (long long)doc_int(summary, "usedMilli"), (long long)doc_int(summary, "reservedMilli"),
        (long long)doc_int(summary, "freeMilli"), (long long)doc_int(summary, "capacityMilli"));
    if (waiting > 0)
        (void)fprintf(out, "; %lld %s", waiting, waiting == 1 ? "pod waits" : "pods wait");
    if (!doc_true(summary, "ready"))
        (void)fputs("; NOT READY", out);
    if (ctl->screen.bars)
        (void)fputs(ctl->screen.utf8 ? "   (█ used  ▒ reserved  ░ free)"
                                     : "   (# used  + reserved  . free)",
                    out);
    (void)fputc('\n', out); /* judged at the end, as all output is */
}

static void put_gpu_names(const struct ctl *ctl, const struct doc *nodes)
{
    must(ctl->format == FORMAT_NAME);
    doc_each (node, doc_get(nodes, "items"))
        doc_each (gpu, doc_get(node, "gpus"))
            (void)fprintf(ctl->screen.out, "gpu/%s\n", doc_shown(gpu, "id"));
}

/* summary NULL: only one node was asked for, so totals of the cluster would mislead. */
int show_top(struct ctl *ctl, const struct doc *nodes, const struct doc *summary)
{
    CLEANUP(table_done) struct table table = {0};
    struct err err;

    must(nodes != NULL);
    if (ctl_document(ctl, nodes))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME) {
        put_gpu_names(ctl, nodes);
        return CTL_FINE;
    }
    if (ctl->screen.bars)
        table_init(&table, &ctl->screen, &ctl->arena, with_bars, ARRAY_LEN(with_bars));
    else
        table_init(&table, &ctl->screen, &ctl->arena, without_bars, ARRAY_LEN(without_bars));
    doc_each (node, doc_get(nodes, "items"))
        doc_each (gpu, doc_get(node, "gpus"))
            top_add_gpu(&table, node, gpu);
    if (table.cells == 0)
        (void)fputs("no GPUs: no node shows any\n", ctl->err);
    if (table_print(&table, &err) < 0)
        return ctl_misused(ctl, &err);
    if (summary != NULL && ctl->screen.headers)
        put_legend(ctl, summary);
    return CTL_FINE;
}

/* One node as a list of one, to be printed like many. */
static int get_one_node(struct ctl *ctl, const char *name, struct doc **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct doc *items = doc_new(&ctl->arena, DOC_ARRAY);
    struct doc *node;

    must(name[0] != '\0');
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/nodes/");
    url_escape(&path, name);
    const int status = ctl_get(ctl, path.data, &node, err);
    if (status < 0)
        return status;
    doc_append(items, node);
    *out = doc_new(&ctl->arena, DOC_OBJECT);
    doc_set(&ctl->arena, *out, TEXT("items"), items);
    return 0;
}

/* The screen is cleared only when both answers are there: a slow server leaves the last picture. */
static int top_ask_and_show(struct ctl *ctl, bool clear)
{
    const char *name = ctl->options.given[OPTION_node];
    struct doc *summary = NULL;
    struct doc *nodes;
    struct err err;

    must(ctl->screen.out != NULL);
    if (name != NULL && get_one_node(ctl, name, &nodes, &err) < 0)
        return ctl_fail(ctl, &err);
    if (name == NULL && (ctl_list(ctl, "/api/v1/nodes", &nodes, &err) < 0 ||
                         ctl_get(ctl, "/api/v1/summary", &summary, &err) < 0))
        return ctl_fail(ctl, &err);
    if (clear)
        (void)fputs("\033[H\033[2J", ctl->screen.out);
    return show_top(ctl, nodes, summary);
}

/*
 * --watch ends at the first failure, so a lost connection is not a frozen picture. The arena is
 * emptied each time; what must outlive that is in ctl->kept.
 */
int command_top(struct ctl *ctl)
{
    const bool watch = ctl->options.given[OPTION_watch] != NULL;
    struct clock_ops clock;

    clock_real(&clock);
    must(ctl->options.command != NULL);
    for (;;) {
        const int status = top_ask_and_show(ctl, watch && ctl->screen.terminal);
        if (status != CTL_FINE || !watch || fflush(ctl->screen.out) != 0)
            return status;
        /* a signal ends the program, or it is drawn early */
        (void)poll(NULL, 0, AGAIN_MS);
        arena_reset(&ctl->arena);
        ctl->screen.now_ms = clock.wall_ms(clock.ctx);
    }
}
