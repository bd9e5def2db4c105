/*
 * The command top: one line with bars for each GPU, or for each node of a large cluster; once, or
 * with --watch after each change until a signal. With --watch, the output fits the height of the
 * terminal. Called by ctl.c in the only thread; lists.c has the other tables.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "milligpu/base/map.h"
#include "milligpu/core/facts/request.h"
#include "milligpu/run/clock.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"

enum {
    BAR_CELLS = 20,
    AGAIN_MS = 2000, /* poll interval without a stream of events */
    PAUSE_MS = 500,  /* minimum interval of redraws */
    QUIET_MS = 5000, /* maximum interval: waiting pods and readiness make no events */
};

/* With more GPUs, a terminal gets one line for each node, unless --by is given. */
enum { GPUS_LINES_MAX = 64 };

/* In the order of the words of --by. */
enum top_by { BY_AUTO, BY_GPU, BY_NODE };

enum { BAR_COLUMN = 3 }; /* in both tables; omitted if no bars are drawn */

static const struct table_column gpu_columns[] = {
    {"NODE", COLUMN_CUT | COLUMN_LABEL},
    {"GPU", COLUMN_RIGHT | COLUMN_LABEL},
    {"MODEL", COLUMN_MODEL | COLUMN_SPARE(2)},
    {"BAR", COLUMN_SPARE(3)},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},
    {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"FREE", COLUMN_RIGHT},
    {"FRAGMENT", COLUMN_RIGHT | COLUMN_WIDE},
    {"PODS", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"SIZE", COLUMN_RIGHT | COLUMN_WIDE},
    {"USEDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MEASUREDMIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"MIB", COLUMN_RIGHT | COLUMN_WIDE},
    {"ID", COLUMN_WIDE},
    {"STATE", 0},
    {"REASON", COLUMN_NOTE},
};

/* USED, RESERVED, FREE, HELD and CLOSED add up to TOTAL. */
static const struct table_column node_columns[] = {
    {"NODE", COLUMN_CUT | COLUMN_LABEL},
    {"GPUS", COLUMN_RIGHT | COLUMN_SPARE(1)},
    {"MODEL", COLUMN_MODEL | COLUMN_SPARE(4)},
    {"BAR", COLUMN_SPARE(3)},
    {"TOTAL", COLUMN_RIGHT | COLUMN_SPARE(2)},
    {"USED", COLUMN_RIGHT},
    {"RESERVED", COLUMN_RIGHT | COLUMN_ZERO},
    {"MEASURED", COLUMN_RIGHT | COLUMN_BLANK},
    {"FREE", COLUMN_RIGHT},
    {"HELD", COLUMN_RIGHT | COLUMN_ZERO},
    {"CLOSED", COLUMN_RIGHT | COLUMN_ZERO},
    {"STATE", 0},
    {"REASON", COLUMN_NOTE},
};

/* --- states --- */

const char *top_state_of(const struct document *node, const struct document *gpu)
{
    const char *state = document_shown(gpu, "state");

    must(node != NULL);
    return strcmp(state, "ok") == 0 ? document_shown(node, "state") : state;
}

bool gpu_is_sick(const struct document *gpu)
{
    return strcmp(document_shown(gpu, "state"), "unhealthy") == 0;
}

const char *gpu_why(const struct document *node, const struct document *gpu)
{
    const char *state = document_shown(gpu, "state");

    must(node != NULL);
    if (strcmp(state, "unhealthy") == 0)
        return document_shown(gpu, "healthText");
    if (strcmp(state, "held") == 0)
        return document_shown(gpu, "heldBy");
    if (strcmp(state, "ok") == 0 && strcmp(document_shown(node, "state"), "ok") != 0)
        return document_shown(node, "stateText");
    return "";
}

/* "2 of 8 GPUs unhealthy: XID 79, since ...", with the first known reason. */
static void put_sick(struct strbuf *out, const struct document *node)
{
    const struct document *gpus = document_get(node, "gpus");
    const char *why = "";
    size_t sick = 0;

    must(out->len == 0);
    document_each (gpu, gpus) {
        sick += gpu_is_sick(gpu);
        if (gpu_is_sick(gpu) && why[0] == '\0')
            why = document_shown(gpu, "healthText");
    }
    if (sick > 0)
        strbuf_printf(out, "%zu of %zu GPUs unhealthy%s%s", sick, (size_t)gpus->count,
                      why[0] != '\0' ? ": " : "", why);
}

void put_node_why(struct strbuf *out, const struct document *node)
{
    const char *state_text = document_shown(node, "stateText");

    must(out->len == 0);
    put_sick(out, node);
    if (state_text[0] != '\0')
        strbuf_printf(out, "%s%s", out->len > 0 ? "; " : "", state_text);
}

const char *node_word(const struct document *node)
{
    const char *state = document_shown(node, "state");

    must(state != NULL);
    if (strcmp(state, "ok") != 0)
        return state;
    document_each (gpu, document_get(node, "gpus"))
        if (gpu_is_sick(gpu))
            return "unhealthy";
    return document_true(node, "cordoned") ? "cordoned" : state;
}

/* --- rows --- */

static const char *bar_color(const struct document *amounts, bool bad)
{
    must(amounts != NULL);
    if (bad)
        return "red";
    if (document_int(amounts, "reservedMilli") > 0)
        return "yellow";
    return document_int(amounts, "usedMilli") > 0 ? "green" : "darkgray";
}

/* amounts: the object of a GPU or node. */
static void add_bar(struct table *table, const struct document *amounts, const char *size, bool bad)
{
    CLEANUP(strbuf_done) struct strbuf bar;

    must(amounts != NULL);
    strbuf_init(&bar);
    bar_format(&bar, table->screen, BAR_CELLS, document_int(amounts, "usedMilli"),
               document_int(amounts, "reservedMilli"), document_int(amounts, size));
    table_text(table, bar.data);
    table_color(table, bar_color(amounts, bad));
}

static void add_state(struct table *table, const char *state, bool bad, const char *why)
{
    must(state != NULL);
    table_text(table, state);
    if (bad)
        table_color(table, "red");
    table_text(table, why);
}

static void top_add_gpu(struct table *table, const struct document *node,
                        const struct document *gpu)
{
    const char *state = top_state_of(node, gpu);
    const bool bad = strcmp(state, "ok") != 0;

    must(table->n_cells % table->n_columns == 0);
    table_text(table, document_shown(node, "name"));
    table_number(table, document_int(gpu, "index"));
    table_text(table, document_shown(gpu, "model"));
    add_bar(table, gpu, "milli", bad);
    table_number(table, document_int(gpu, "usedMilli"));
    table_number(table, document_int(gpu, "reservedMilli"));
    table_measured(table, gpu);
    table_number(table, document_int(gpu, "freeMilli"));
    table_number(table, document_int(gpu, "fragmentMilli"));
    table_number(table, document_int(gpu, "pods"));
    table_number(table, document_int(gpu, "milli"));
    table_number(table, document_int(gpu, "usedMib"));
    table_known(table, gpu, "measuredMib");
    table_number(table, document_int(gpu, "mib"));
    table_text(table, document_shown(gpu, "id"));
    add_state(table, state, bad, gpu_why(node, gpu));
    must(table->n_cells % table->n_columns == 0);
}

/* True if the node needs attention; an excluded one does not: its GPUs are managed elsewhere. */
static bool node_is_bad(const struct document *node)
{
    const char *word = node_word(node);

    must(word != NULL);
    return strcmp(word, "ok") != 0 && strcmp(word, "excluded") != 0;
}

static void top_add_node(struct table *table, const struct document *node)
{
    CLEANUP(strbuf_done) struct strbuf why;
    const struct document *gpus = document_get(node, "gpus");
    const bool bad = node_is_bad(node);

    must(table->n_cells % table->n_columns == 0);
    strbuf_init(&why);
    put_node_why(&why, node);
    table_text(table, document_shown(node, "name"));
    table_number(table, gpus != NULL ? gpus->count : 0);
    table_text(table, document_shown(node, "model"));
    add_bar(table, node, "totalMilli", bad);
    table_number(table, document_int(node, "totalMilli"));
    table_number(table, document_int(node, "usedMilli"));
    table_number(table, document_int(node, "reservedMilli"));
    table_measured_sum(table, gpus);
    table_number(table, document_int(node, "freeMilli"));
    table_number(table, document_int(node, "heldMilli"));
    table_number(table, document_int(node, "closedMilli"));
    add_state(table, node_word(node), bad, why.data);
    must(table->n_cells % table->n_columns == 0);
}

/* --- the legend --- */

/* Appends an amount that is not 0; used and free always. */
static void add_part(struct strbuf *out, const struct document *summary, const char *field,
                     const char *word)
{
    const long long milli = (long long)document_int(summary, field);

    must(word[0] != '\0');
    if (milli > 0)
        strbuf_printf(out, ", %lld %s", milli, word);
}

/* Shows amounts beyond the size of GPUs separately. */
static void put_amounts(struct strbuf *out, const struct document *summary)
{
    const long long total = (long long)document_int(summary, "totalMilli");
    const long long beyond = (long long)document_int(summary, "beyondMilli");
    const long long fragment = (long long)document_int(summary, "fragmentMilli");

    must(summary != NULL);
    strbuf_printf(out, "%lld nodes, %lld GPUs: %lld used, %lld reserved, %lld free",
                  (long long)document_int(summary, "nodes"),
                  (long long)document_int(summary, "gpus"),
                  (long long)document_int(summary, "usedMilli"),
                  (long long)document_int(summary, "reservedMilli"),
                  (long long)document_int(summary, "freeMilli"));
    if (fragment > 0)
        strbuf_printf(out, " (%lld of it of no use to the pods that come)", fragment);
    add_part(out, summary, "heldMilli", "held whole");
    add_part(out, summary, "closedMilli", "closed");
    strbuf_printf(out, " of %lld milli", total - beyond);
    if (beyond > 0)
        strbuf_printf(out, "; %lld of what is used exceeds the size of its GPU", beyond);
}

/* The totals come from a second request and can be newer than the table. */
static void put_legend(const struct ctl *ctl, const struct document *summary)
{
    CLEANUP(strbuf_done) struct strbuf text;
    const long long waiting = (long long)document_int(summary, "waitingPods");

    must(summary != NULL);
    strbuf_init(&text);
    put_amounts(&text, summary);
    if (waiting > 0)
        strbuf_printf(&text, "; %lld %s", waiting, waiting == 1 ? "pod waits" : "pods wait");
    if (!document_true(summary, "ready"))
        strbuf_str(&text, "; NOT READY");
    if (ctl->screen.bars)
        strbuf_str(&text, ctl->screen.utf8 ? "   (█ used  ▒ reserved  ░ free)"
                                           : "   (# used  + reserved  . free)");
    (void)fputc('\n', ctl->screen.out); /* errors are checked in ctl_finish() */
    text_fill(&ctl->screen, text.data, 0, 0);
}

static void put_gpu_names(const struct ctl *ctl, const struct document *nodes)
{
    must(ctl->format == FORMAT_NAME);
    document_each (node, document_get(nodes, "items"))
        document_each (gpu, document_get(node, "gpus"))
            (void)fprintf(ctl->screen.out, "gpu/%s\n", document_shown(gpu, "id"));
}

/* --- the table --- */

/* True if options select GPUs or one node; then GPUs are shown. */
static bool chooses_gpus(const struct ctl *ctl)
{
    const char *const *given = ctl->options.given;

    must(ctl->screen.out != NULL);
    return given[OPTION_node] != NULL || given[OPTION_state] != NULL ||
           given[OPTION_namespace] != NULL;
}

/*
 * True for one line per node: with --by node, or on a terminal with more than GPUS_LINES_MAX GPUs.
 * Without a terminal, GPUs are the default.
 */
static bool is_by_node(struct ctl *ctl, const struct document *nodes)
{
    size_t by = BY_AUTO;
    size_t gpus = 0;
    struct err err;

    if (ctl->options.given[OPTION_by] != NULL)
        must(options_choice(&ctl->options, OPTION_by, &by, &err) == 0); /* already checked */
    if (by != BY_AUTO)
        return by == BY_NODE;
    document_each (node, document_get(nodes, "items"))
        gpus += document_get(node, "gpus") != NULL ? document_get(node, "gpus")->count : 0;
    return ctl->screen.terminal && !ctl->screen.wide && !chooses_gpus(ctl) && gpus > GPUS_LINES_MAX;
}

/* bad_first: nodes that need attention come first, so that they are shown if lines are left out. */
static void add_nodes(struct table *table, const struct document *nodes, bool bad_first)
{
    for (int turn = 0; turn < (bad_first ? 2 : 1); turn++)
        document_each (node, document_get(nodes, "items"))
            if (!bad_first || node_is_bad(node) == (turn == 0))
                top_add_node(table, node);
}

static void add_gpus(struct table *table, const struct document *nodes, bool bad_first)
{
    must(table->n_columns > 0);
    for (int turn = 0; turn < (bad_first ? 2 : 1); turn++)
        document_each (node, document_get(nodes, "items"))
            document_each (gpu, document_get(node, "gpus"))
                if (!bad_first || (strcmp(top_state_of(node, gpu), "ok") != 0) == (turn == 0))
                    top_add_gpu(table, node, gpu);
}

/*
 * Lines of a terminal that are not for rows: headings, blank lines, the cursor, and the sentences
 * below the table, which take more lines on a narrow terminal. A low one gets no sentences.
 */
enum { LINES_APART = 6, COLUMNS_APART = 400, LINES_LEAST = 8, LINES_APART_LOW = 5 };

static bool is_paged(const struct ctl *ctl)
{
    return ctl->options.given[OPTION_watch] != NULL && ctl->screen.terminal && ctl->screen.rows > 0;
}

static void top_begin(struct ctl *ctl, struct table *table, bool by_node)
{
    const struct screen *screen = &ctl->screen;

    if (by_node)
        table_init(table, screen, &ctl->arena, node_columns, ARRAY_LEN(node_columns));
    else
        table_init(table, screen, &ctl->arena, gpu_columns, ARRAY_LEN(gpu_columns));
    table->omitted = screen->bars ? 0 : UINT32_C(1) << BAR_COLUMN;
    must(table->n_columns > 0);
    if (!is_paged(ctl))
        return;
    const size_t apart = LINES_APART + (COLUMNS_APART + screen->width - 1) / screen->width;
    table->rows_only = screen->rows < apart + LINES_LEAST;
    const size_t taken = table->rows_only ? LINES_APART_LOW : apart;
    table->lines_max = screen->rows > taken ? screen->rows - taken : 1;
}

static void say_left_out(struct ctl *ctl, const struct table *table, bool by_node)
{
    must(table->left_out > 0);
    text_fill(&ctl->screen,
              arena_printf(&ctl->arena, "... and %zu more %s; %s", table->left_out,
                           by_node ? "nodes" : "GPUs",
                           ctl->screen.sort_by != NULL
                               ? "--node, --model and --state choose"
                               : "what needs a look comes first, --sort-by -USED the fullest"),
              0, 0);
}

/* summary: NULL if only some GPUs are shown, because totals of the cluster would mislead. */
int show_top(struct ctl *ctl, const struct document *nodes, const struct document *summary)
{
    CLEANUP(table_done) struct table table = {0};
    const bool by_node = is_by_node(ctl, nodes);
    struct err err;

    must(nodes != NULL);
    if (ctl_document(ctl, nodes))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME) {
        put_gpu_names(ctl, nodes);
        return CTL_FINE;
    }
    top_begin(ctl, &table, by_node);
    if (by_node)
        add_nodes(&table, nodes, is_paged(ctl));
    else
        add_gpus(&table, nodes, is_paged(ctl));
    if (table.n_cells == 0)
        (void)fputs(ctl_is_filtered(ctl) ? "nothing matches\n" : "no GPUs: no node shows any\n",
                    ctl->err);
    if (table_print(&table, &err) < 0)
        return ctl_misused(ctl, &err);
    if (table.left_out > 0)
        say_left_out(ctl, &table, by_node);
    if (summary != NULL && ctl->screen.headers && !table.rows_only)
        put_legend(ctl, summary);
    return CTL_FINE;
}

/* Requests one node, as a list of one. */
static int get_one_node(struct ctl *ctl, const char *name, struct document **out, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct document *items = document_new(&ctl->arena, DOCUMENT_ARRAY);
    struct document *node;

    must(name[0] != '\0');
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/nodes/");
    url_escape(&path, name);
    const int status = ctl_get(ctl, path.data, &node, err);
    if (status < 0)
        return status;
    document_append(items, node);
    *out = document_new(&ctl->arena, DOCUMENT_OBJECT);
    document_set(&ctl->arena, *out, TEXT("items"), items);
    return 0;
}

/* --- only some GPUs --- */

/* Filters for the GPUs of each node; milligpud's filters choose only nodes. */
struct top_filter {
    struct request models; /* no names for any model */
    const char *state;     /* NULL for any */
    bool by_holder;
    struct map held; /* GPUs that pods of the namespace hold, by "node/gpu" */
};

static const char *key_of(struct ctl *ctl, const char *node, const char *gpu)
{
    must(gpu[0] != '\0');
    return arena_printf(&ctl->arena, "%s/%s", node, gpu);
}

/* Collects the GPUs from the allocations of the namespace; a list of nodes has no pods. */
static int find_held(struct ctl *ctl, struct top_filter *filter, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct document *list;

    must(filter->by_holder);
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/allocations");
    url_query(&path, "namespace", ctl->options.given[OPTION_namespace]);
    url_query(&path, "node", ctl->options.given[OPTION_node]);
    if (ctl_list(ctl, path.data, &list, err) < 0)
        return -1;
    document_each (allocation, document_get(list, "items"))
        document_each (charge, document_get(allocation, "charges")) {
            const char *key =
                key_of(ctl, document_shown(allocation, "node"), document_shown(charge, "gpu"));
            (void)map_put(&filter->held, text_of(key), list);
        }
    return 0;
}

/* closed and open match the column STATE; other words the state of the node or the GPU. */
static bool has_state(const struct document *node, const struct document *gpu, const char *state)
{
    const bool ok = strcmp(top_state_of(node, gpu), "ok") == 0;

    must(state[0] != '\0');
    if (strcmp(state, "open") == 0 || strcmp(state, "ok") == 0)
        return ok;
    return strcmp(state, "closed") == 0 ? !ok
                                        : strcmp(document_shown(gpu, "state"), state) == 0 ||
                                              strcmp(document_shown(node, "state"), state) == 0;
}

static bool top_is_wanted(struct ctl *ctl, const struct top_filter *filter,
                          const struct document *node, const struct document *gpu)
{
    if (!request_takes_model(&filter->models, text_of(document_str(gpu, "model"))))
        return false;
    if (filter->state != NULL && !has_state(node, gpu, filter->state))
        return false;
    return !filter->by_holder ||
           map_find(&filter->held, text_of(key_of(ctl, document_shown(node, "name"),
                                                  document_shown(gpu, "id")))) != NULL;
}

/* The nodes with the GPUs that match, without empty nodes. */
static struct document *keep_wanted(struct ctl *ctl, const struct top_filter *filter,
                                    const struct document *nodes)
{
    struct document *answer = document_new(&ctl->arena, DOCUMENT_OBJECT);
    struct document *items = document_new(&ctl->arena, DOCUMENT_ARRAY);

    must(nodes != NULL);
    document_each (node, document_get(nodes, "items")) {
        struct document *gpus = document_new(&ctl->arena, DOCUMENT_ARRAY);
        document_each (gpu, document_get(node, "gpus"))
            if (top_is_wanted(ctl, filter, node, gpu))
                document_append(gpus, document_copy(&ctl->arena, gpu));
        if (gpus->count == 0)
            continue;
        struct document *copy = document_copy(&ctl->arena, node);
        document_set(&ctl->arena, copy, TEXT("gpus"), gpus);
        document_append(items, copy);
    }
    document_set(&ctl->arena, answer, TEXT("items"), items);
    return answer;
}

/* The arguments have been checked by command_top(). */
static int top_choose(struct ctl *ctl, const struct document *nodes, struct document **out,
                      struct err *err)
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
 * The state is filtered here only, since a closed GPU can be on an open node. Filters in the
 * request only shorten the answer.
 */
static int top_ask(struct ctl *ctl, struct document **out, struct err *err)
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

/* Clears the screen only after both answers, so a slow server leaves the last output visible. */
static int top_ask_and_show(struct ctl *ctl, bool clear)
{
    struct document *summary = NULL;
    struct document *nodes = NULL;
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
 * Waits for the next redraw; a signal ends the program, or the wait. Without a stream (older
 * milligpud, or too many streams), polls every AGAIN_MS.
 */
static void top_wait(struct ctl *ctl, struct client_stream **stream)
{
    enum client_news news = CLIENT_OVER;
    long status = 0;

    if (*stream != NULL)
        news = client_stream_wait(*stream, QUIET_MS, &status);
    if (news == CLIENT_OVER && *stream != NULL) {
        client_stream_free(STEAL(*stream));
        if (status != 200) /* 200: the stream ended, and the next request fails with the reason */
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

/* Streams from now on; its first event triggers a redraw with earlier changes. */
static struct client_stream *top_follow(struct ctl *ctl)
{
    struct client_request call = {.method = "GET", .path = "/api/v1/events"};
    struct err err;

    must(ctl->options.given[OPTION_watch] != NULL);
    return ctl_base(ctl, &call.base, &err) < 0 ? NULL : client_stream_new(&call);
}

/*
 * --watch ends at the first failure, so that a lost connection is noticed. ctl->arena is reset
 * after each output; longer-lived data is in ctl->kept.
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
    size_t by = BY_AUTO;
    if (ctl_check_filters(ctl, &err) < 0 ||
        (ctl->options.given[OPTION_by] != NULL &&
         options_choice(&ctl->options, OPTION_by, &by, &err) < 0))
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
        if (ctl->measure != NULL)
            ctl->measure(&ctl->screen.width, &ctl->screen.rows);
    }
    client_stream_free(stream);
    return status;
}
