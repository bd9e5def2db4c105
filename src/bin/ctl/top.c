/*
 * The command top: one line for each GPU, with bars, once or with --watch after each change until a
 * signal. Called by ctl.c; lists.c has the other tables.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/clock.h"
#include "milligpu/map.h"
#include "milligpu/request.h"

#include "ctl.h"

enum {
    BAR_CELLS = 20,
    AGAIN_MS = 2000, /* without a stream of events */
    PAUSE_MS = 500,  /* between two pictures, however much changes */
    QUIET_MS = 5000, /* for what is not in the ledger: pods that wait, readiness */
};

static const struct table_column with_bars[] = {
    {"NODE", 0},
    {"GPU", COLUMN_RIGHT},
    {"MODEL", 0},
    {"BAR", 0},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT},
    {"MEASURED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"FRAGMENT", COLUMN_RIGHT | COLUMN_WIDE},
    {"PODS", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT | COLUMN_WIDE},
    {"USEDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MEASUREDMIB", COLUMN_RIGHT | COLUMN_WIDE},
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
    {"MEASURED", COLUMN_RIGHT},
    {"FREE", COLUMN_RIGHT},
    {"FRAGMENT", COLUMN_RIGHT | COLUMN_WIDE},
    {"PODS", COLUMN_RIGHT},
    {"SIZE", COLUMN_RIGHT | COLUMN_WIDE},
    {"USEDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MEASUREDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"ID", COLUMN_WIDE},
    {"STATE", 0},
};

const char *top_state_of(const struct doc *node, const struct doc *gpu)
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
    table_known(table, gpu, "measuredMilli");
    table_number(table, doc_int(gpu, "freeMilli"));
    table_number(table, doc_int(gpu, "fragmentMilli"));
    table_number(table, doc_int(gpu, "pods"));
    table_number(table, doc_int(gpu, "milli"));
    table_number(table, doc_int(gpu, "usedMib"));
    table_known(table, gpu, "measuredMib");
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
    (void)fprintf(out, "\n%lld nodes, %lld GPUs: %lld used, %lld reserved, %lld free",
                  (long long)doc_int(summary, "nodes"), (long long)doc_int(summary, "gpus"),
                  (long long)doc_int(summary, "usedMilli"),
                  (long long)doc_int(summary, "reservedMilli"),
                  (long long)doc_int(summary, "freeMilli"));
    if (doc_int(summary, "fragmentMilli") > 0)
        (void)fprintf(out, " (%lld fragment)", (long long)doc_int(summary, "fragmentMilli"));
    if (doc_int(summary, "heldMilli") > 0)
        (void)fprintf(out, ", %lld held whole", (long long)doc_int(summary, "heldMilli"));
    if (doc_int(summary, "closedMilli") > 0)
        (void)fprintf(out, ", %lld closed", (long long)doc_int(summary, "closedMilli"));
    (void)fprintf(out, " of %lld milli", (long long)doc_int(summary, "totalMilli"));
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

/* summary NULL: only some GPUs were asked for, so totals of the cluster would mislead. */
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
        (void)fputs(ctl_is_filtered(ctl) ? "nothing matches\n" : "no GPUs: no node shows any\n",
                    ctl->err);
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

/* --- only some GPUs --- */

/* The filters of milligpud choose nodes; these choose among the GPUs of each. */
struct top_filter {
    struct request models; /* none: any */
    const char *state;     /* NULL: any */
    bool by_holder;
    struct map held; /* "node/gpu" of what pods of the namespace hold */
};

static const char *key_of(struct ctl *ctl, const char *node, const char *gpu)
{
    must(gpu[0] != '\0');
    return arena_printf(&ctl->arena, "%s/%s", node, gpu);
}

/* The allocations of the namespace say which GPUs its pods hold; a list of nodes does not. */
static int find_held(struct ctl *ctl, struct top_filter *filter, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct doc *list;

    must(filter->by_holder);
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/allocations");
    url_query(&path, "namespace", ctl->options.given[OPTION_namespace]);
    url_query(&path, "node", ctl->options.given[OPTION_node]);
    if (ctl_list(ctl, path.data, &list, err) < 0)
        return -1;
    doc_each (allocation, doc_get(list, "items"))
        doc_each (charge, doc_get(allocation, "charges")) {
            const char *key = key_of(ctl, doc_shown(allocation, "node"), doc_shown(charge, "gpu"));
            (void)map_put(&filter->held, text_of(key), list);
        }
    return 0;
}

/* closed and open are about the column STATE; any other word may be the node's or the GPU's. */
static bool has_state(const struct doc *node, const struct doc *gpu, const char *state)
{
    const bool ok = strcmp(top_state_of(node, gpu), "ok") == 0;

    must(state[0] != '\0');
    if (strcmp(state, "open") == 0 || strcmp(state, "ok") == 0)
        return ok;
    return strcmp(state, "closed") == 0 ? !ok
                                        : strcmp(doc_shown(gpu, "state"), state) == 0 ||
                                              strcmp(doc_shown(node, "state"), state) == 0;
}

static bool top_is_wanted(struct ctl *ctl, const struct top_filter *filter, const struct doc *node,
                          const struct doc *gpu)
{
    if (!request_takes_model(&filter->models, text_of(doc_str(gpu, "model"))))
        return false;
    if (filter->state != NULL && !has_state(node, gpu, filter->state))
        return false;
    return !filter->by_holder ||
           map_find(&filter->held,
                    text_of(key_of(ctl, doc_shown(node, "name"), doc_shown(gpu, "id")))) != NULL;
}

/* Nodes with the GPUs that match; a node without any is left out. */
static struct doc *keep_wanted(struct ctl *ctl, const struct top_filter *filter,
                               const struct doc *nodes)
{
    struct doc *answer = doc_new(&ctl->arena, DOC_OBJECT);
    struct doc *items = doc_new(&ctl->arena, DOC_ARRAY);

    must(nodes != NULL);
    doc_each (node, doc_get(nodes, "items")) {
        struct doc *gpus = doc_new(&ctl->arena, DOC_ARRAY);
        doc_each (gpu, doc_get(node, "gpus"))
            if (top_is_wanted(ctl, filter, node, gpu))
                doc_append(gpus, doc_copy(&ctl->arena, gpu));
        if (gpus->count == 0)
            continue;
        struct doc *copy = doc_copy(&ctl->arena, node);
        doc_set(&ctl->arena, copy, TEXT("gpus"), gpus);
        doc_append(items, copy);
    }
    doc_set(&ctl->arena, answer, TEXT("items"), items);
    return answer;
}

/* The arguments were checked by command_top(). */
static int top_choose(struct ctl *ctl, const struct doc *nodes, struct doc **out, struct err *err)
{
    const char *const *given = ctl->options.given;
    struct top_filter filter = {.state = given[OPTION_state],
                                .by_holder = given[OPTION_namespace] != NULL};

    if (given[OPTION_model] != NULL)
        must(request_read_models(text_of(given[OPTION_model]), &ctl->arena, &filter.models) ==
             NULL);
    map_init(&filter.held);
    const int status = filter.by_holder ? find_held(ctl, &filter, err) : 0;
    if (status == 0)
        *out = keep_wanted(ctl, &filter, nodes);
    map_done(&filter.held);
    return status;
}

/*
 * The state is not asked of milligpud: a closed GPU may be on an open node. The filters that are
 * asked only make the answer shorter.
 */
static int top_ask(struct ctl *ctl, struct doc **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;
    const char *const *given = ctl->options.given;

    strbuf_init(&path);
    must(out != NULL);
    if (given[OPTION_node] != NULL && get_one_node(ctl, given[OPTION_node], out, err) < 0)
        return err_same(err);
    if (given[OPTION_node] != NULL)
        return ctl_select(ctl, SELECT_NODES, out, err);
    strbuf_str(&path, "/api/v1/nodes");
    url_query(&path, "namespace", given[OPTION_namespace]);
    url_query(&path, "model", given[OPTION_model]);
    if (ctl_list(ctl, path.data, out, err) < 0)
        return err_same(err);
    return ctl_select(ctl, SELECT_NODES, out, err);
}

/* The screen is cleared only when both answers are there: a slow server leaves the last picture. */
static int top_ask_and_show(struct ctl *ctl, bool clear)
{
    struct doc *summary = NULL;
    struct doc *nodes = NULL;
    struct err err;

    must(ctl->screen.out != NULL);
    if (top_ask(ctl, &nodes, &err) < 0)
        return ctl_fail(ctl, &err);
    if (ctl_is_filtered(ctl) ? top_choose(ctl, nodes, &nodes, &err) < 0
                             : ctl_get(ctl, "/api/v1/summary", &summary, &err) < 0)
        return ctl_fail(ctl, &err);
    if (clear)
        (void)fputs("\033[H\033[2J", ctl->screen.out);
    return show_top(ctl, nodes, summary);
}

/*
 * Returns when it is time for the next picture; a signal ends the program, or it is drawn early. A
 * milligpud without streams, or with too many, is asked every two seconds.
 */
static void top_wait(struct ctl *ctl, struct client_stream **stream)
{
    enum client_news news = CLIENT_OVER;
    long status = 0;

    if (*stream != NULL)
        news = client_stream_wait(*stream, QUIET_MS, &status);
    if (news == CLIENT_OVER && *stream != NULL) {
        client_stream_free(STEAL(*stream));
        if (status != 200) /* else it has ended, and the next question says why */
            (void)fprintf(
                ctl->err,
                "milligpuctl: no stream of events here (HTTP status %ld): asking every %d "
                "seconds\n",
                status, AGAIN_MS / 1000);
    }
    if (news != CLIENT_QUIET)
        (void)poll(NULL, 0, news == CLIENT_NEWS ? PAUSE_MS : AGAIN_MS);
    must(news == CLIENT_OVER || *stream != NULL);
}

/* From now on: the event at its beginning makes up for changes since the first picture. */
static struct client_stream *top_follow(struct ctl *ctl)
{
    struct client_request call = {.method = "GET", .path = "/api/v1/events"};
    struct err err;

    must(ctl->options.given[OPTION_watch] != NULL);
    return ctl_base(ctl, &call.base, &err) < 0 ? NULL : client_stream_new(&call);
}

/*
 * --watch ends at the first failure, so a lost connection is not a frozen picture. The arena is
 * emptied each time; what must outlive that is in ctl->kept.
 */
int command_top(struct ctl *ctl)
{
    const bool watch = ctl->options.given[OPTION_watch] != NULL;
    struct client_stream *stream = NULL;
    struct clock_ops clock;
    struct err err;
    int status;

    clock_real(&clock);
    must(ctl->options.command != NULL);
    if (ctl_check_filters(ctl, &err) < 0)
        return ctl_misused(ctl, &err);
    for (bool first = true;; first = false) {
        status = top_ask_and_show(ctl, watch && ctl->screen.terminal);
        if (status != CTL_FINE || !watch || fflush(ctl->screen.out) != 0)
            break;
        if (first)
            stream = top_follow(ctl);
        top_wait(ctl, &stream);
        arena_reset(&ctl->arena);
        ctl->screen.now_ms = clock.wall_ms(clock.ctx);
    }
    client_stream_free(stream);
    return status;
}
