/*
 * The command defrag: requests a plan of moves from milligpud and shows it. Called by ctl.c in the
 * only thread. It never moves pods and requires --plan, so that no user expects it to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/core/answer/defrag.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"

enum { GAIN_MAX = 1000000 };

/* --- moves --- */

static const struct table_column move_columns[] = {
    {"NAMESPACE", 0}, {"NAME", 0},          {"SHARE", 0},           {"FROM", 0},
    {"TO", 0},        {"UID", COLUMN_WIDE}, {"GAIN", COLUMN_RIGHT},
};

/* "500", or "500,500" for two GPUs; without blanks, so that scripts can count columns. */
static void add_shares(struct table *table, const struct document *charges)
{
    CLEANUP(strbuf_done) struct strbuf text;

    must(table != NULL);
    strbuf_init(&text);
    document_each (charge, charges)
        strbuf_printf(&text, "%s%lld", text.len > 0 ? "," : "",
                      (long long)document_int(charge, "milli"));
    table_text(table, text.data);
}

/* "n1/0", or "n1/0,3". */
static void add_move_place(struct table *table, const struct document *place)
{
    CLEANUP(strbuf_done) struct strbuf text;
    bool first = true;

    must(table != NULL);
    strbuf_init(&text);
    strbuf_str(&text, document_shown(place, "node"));
    document_each (charge, document_get(place, "charges")) {
        strbuf_printf(&text, "%s%lld", first ? "/" : ",", (long long)document_int(charge, "index"));
        first = false;
    }
    table_text(table, text.data);
}

static void move_row(struct table *table, const struct document *move)
{
    must(table->n_columns == ARRAY_LEN(move_columns));
    table_text(table, document_shown(move, "namespace"));
    table_text(table, document_shown(move, "name"));
    add_shares(table, document_at(move, "from.charges"));
    add_move_place(table, document_get(move, "from"));
    add_move_place(table, document_get(move, "to"));
    table_text(table, document_shown(move, "uid"));
    table_number(table, document_int(move, "gainMilli"));
}

/* --- what the moves come to --- */

/* "pods of 2 x 500 milli (A100*): 3 more fit now, 4 after" */
static void put_shape(struct ctl *ctl, const struct document *shape)
{
    const char *models = document_shown(shape, "models");
    FILE *out = ctl->screen.out;

    must(out != NULL);
    (void)fprintf(out, "pods of ");
    if (document_int(shape, "gpus") > 1)
        (void)fprintf(out, "%lld x ", (long long)document_int(shape, "gpus"));
    (void)fprintf(out, "%lld milli", (long long)document_int(shape, "milli"));
    if (models[0] != '\0')
        (void)fprintf(out, " (%s)", models);
    (void)fprintf(out, ": %lld more fit now, %lld after\n",
                  (long long)document_int(shape, "before"),
                  (long long)document_int(shape, "after"));
}

static void put_totals(struct ctl *ctl, const struct document *plan)
{
    const struct document *moves = document_get(plan, "moves");
    FILE *out = ctl->screen.out;

    must(out != NULL);
    (void)fprintf(out,
                  "%sfragment: %lld of %lld free milli now, %lld after; moves %u, pods looked "
                  "at %lld\n",
                  moves != NULL && moves->count > 0 ? "\n" : "",
                  (long long)document_int(plan, "fragmentMilli"),
                  (long long)document_int(plan, "freeMilli"),
                  (long long)document_int(plan, "fragmentMilliAfter"),
                  moves != NULL ? moves->count : 0, (long long)document_int(plan, "pods"));
    document_each (shape, document_get(plan, "shapes"))
        put_shape(ctl, shape);
    if (document_true(plan, "cutShort"))
        (void)fprintf(out, "The search ended at its bound: there may be better or more moves.\n");
    if (document_true(plan, "leftOut"))
        (void)fprintf(out, "There are more pods or different requests than were looked at.\n");
    if (moves != NULL && moves->count > 0)
        (void)fprintf(out, "Nothing was moved. Evict one pod after the other, in this order; TO is "
                           "where each fits by GPU,\nand kube-scheduler decides where it goes.\n");
}

static const char *why_none(const struct document *plan)
{
    must(plan != NULL);
    if (!document_true(plan, "learned"))
        return "no moves: the workload is not known yet, so nothing is a fragment";
    if (document_int(plan, "fragmentMilli") == 0)
        return "no moves: nothing that is free is a fragment";
    return "no moves: none gains as much as --min-gain, 100 milli unless it is given";
}

int show_defrag(struct ctl *ctl, const struct document *plan)
{
    static const struct list_view view = {move_columns, ARRAY_LEN(move_columns), move_row, NULL,
                                          ""};
    const struct document *moves = document_get(plan, "moves");
    const bool none = moves == NULL || moves->count == 0;
    int status = CTL_FINE;

    must(ctl->err != NULL);
    if (ctl_document(ctl, plan))
        return CTL_FINE;
    if (ctl->format == FORMAT_NAME) {
        document_each (move, moves)
            (void)fprintf(ctl->screen.out, "pod/%s/%s\n", document_shown(move, "namespace"),
                          document_shown(move, "name"));
        return CTL_FINE;
    }
    if (!none)
        status = ctl_show_rows(ctl, moves, &view);
    if (status == CTL_FINE && ctl->screen.headers)
        put_totals(ctl, plan);
    if (none)
        (void)fprintf(ctl->err, "%s\n", why_none(plan));
    return status;
}

/* --- the question --- */

/* Adds a parameter to the query if its option is given. */
static int add_number(const struct ctl *ctl, size_t option, uint32_t most, struct strbuf *path,
                      const char *parameter, struct err *err)
{
    const char *given = ctl->options.given[option];

    must(option < OPTIONS);
    if (given == NULL)
        return 0;
    const size_t digits = strspn(given, "0123456789");
    const unsigned long number = digits > 0 && digits < 10 ? strtoul(given, NULL, 10) : 0;
    if (given[digits] != '\0' || number == 0 || number > most)
        return err_set(err, ERR_INVALID, "--%s is %.60s: write a whole number from 1 to %u",
                       option_info(option)->name, given, most);
    strbuf_printf(path, "%c%s=%lu", strchr(path->data, '?') == NULL ? '?' : '&', parameter, number);
    return 0;
}

int command_defrag(struct ctl *ctl)
{
    CLEANUP(strbuf_done) struct strbuf path;
    struct document *plan;
    struct err err;

    must(ctl->options.command != NULL);
    strbuf_init(&path);
    strbuf_str(&path, "/api/v1/defrag");
    if (ctl->options.given[OPTION_plan] == NULL) {
        (void)err_set(&err, ERR_INVALID,
                      "defrag moves nothing, it only proposes moves: write defrag --plan");
        return ctl_misused(ctl, &err);
    }
    if (add_number(ctl, OPTION_moves, DEFRAG_MOVES_MAX, &path, "limit", &err) < 0 ||
        add_number(ctl, OPTION_min_gain, GAIN_MAX, &path, "minGain", &err) < 0)
        return ctl_misused(ctl, &err);
    if (ctl_get(ctl, path.data, &plan, &err) < 0)
        return ctl_fail(ctl, &err);
    return show_defrag(ctl, plan);
}
