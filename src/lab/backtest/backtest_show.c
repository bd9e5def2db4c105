/*
 * Output of a back-test: a line for the recorded result and for each policy, and the pods whose
 * waits differ most. All numbers go through one document, so that JSON and tables show the same.
 * The files with a line for each pod follow at the end.
 */
#include <inttypes.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/wire/kube/wire_kube.h"

#include "backtest.h"
#include "ctl/ctl.h"

static const char *backtest_name(const struct backtest_result *result)
{
    return result->recorded ? "recorded" : result->policy->word;
}

/* RFC 3339 without fractions of a second. */
static void backtest_time(int64_t ms, char out[TIME_TEXT_BYTES])
{
    time_format(ms, out);
    char *point = strchr(out, '.');
    if (point != NULL)
        (void)snprintf(point, 2, "Z");
    must(out[0] != '\0');
}

/* --- areas --- */

static void backtest_set_percent(struct arena *arena, struct document *object, const char *key,
                                 backtest_area part, backtest_area whole)
{
    while (part > UINT64_MAX / 100 || whole > UINT64_MAX / 100) {
        part >>= 1;
        whole >>= 1;
    }
    must(whole > 0 || part == 0);
    simulate_set_percent(arena, object, key, (uint64_t)part, (uint64_t)whole);
}

/* GPU hours, rounded to a tenth. */
static void backtest_set_hours(struct arena *arena, struct document *object, const char *key,
                               backtest_area area)
{
    static const uint64_t tenth = UINT64_C(360) * 1000 * GPU_MILLI;
    const uint64_t tenths = (uint64_t)((area + tenth / 2) / tenth);
    char digits[32];

    must(key[0] != '\0');
    (void)snprintf(digits, sizeof digits, "%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
    simulate_set_digits(arena, object, key, digits);
}

static void backtest_set_more(struct arena *arena, struct document *object,
                              const struct backtest_result *result,
                              const struct backtest_result *recorded)
{
    const bool more = result->granted >= recorded->granted;
    const backtest_area by =
        more ? result->granted - recorded->granted : recorded->granted - result->granted;

    if (recorded->granted == 0)
        return;
    must(!result->recorded);
    backtest_set_percent(arena, object, more ? "moreGpuHoursPercent" : "fewerGpuHoursPercent", by,
                         recorded->granted);
}

/* --- pods that wait otherwise than recorded --- */

struct backtest_difference {
    uint32_t pod;
    int64_t by_ms; /* largest difference of the waits under any policy */
};

/* The wait in ms; to the end if the pod was never placed. */
static int64_t backtest_waited(const struct past *past, const struct backtest_result *result,
                               uint32_t pod)
{
    must(past->pod[pod].role == PAST_ARRIVED);
    return result->wait[pod] >= 0 ? result->wait[pod] : past->to_ms - past->pod[pod].arrived_ms;
}

/* The difference to the recorded wait in ms; 0 if it is the same. */
static int64_t backtest_differs(const struct backtest_report *report,
                                const struct backtest_result *result, uint32_t pod)
{
    const struct backtest_result *recorded = &report->result[0];
    const int64_t by =
        backtest_waited(report->past, result, pod) - backtest_waited(report->past, recorded, pod);

    must(recorded->recorded && !result->recorded);
    /* A pod that is never placed counts as waiting longer, also if it arrived near the end. */
    if (result->wait[pod] < 0 && recorded->wait[pod] >= 0)
        return by > 1 ? by : 1;
    if (result->wait[pod] >= 0 && recorded->wait[pod] < 0)
        return by < -1 ? by : -1;
    return by > -BACKTEST_AT_ONCE_MS && by < BACKTEST_AT_ONCE_MS ? 0 : by;
}

static void backtest_set_counts(struct arena *arena, struct document *item,
                                const struct backtest_report *report,
                                const struct backtest_result *result)
{
    const struct past *past = report->past;
    uint64_t less = 0;
    uint64_t no_more = 0;
    uint64_t longer = 0;

    for (uint32_t i = past->held; i < past->n_pods; i++) {
        if (past->pod[i].role != PAST_ARRIVED)
            continue;
        const int64_t by = backtest_differs(report, result, i);
        less += by < 0;
        no_more += by < 0 && result->wait[i] < BACKTEST_AT_ONCE_MS;
        longer += by > 0;
    }
    must(no_more <= less);
    simulate_set_int(arena, item, "waitLess", less);
    simulate_set_int(arena, item, "waitNoMore", no_more);
    simulate_set_int(arena, item, "waitLonger", longer);
}

static int backtest_by_difference(const void *left, const void *right)
{
    const struct backtest_difference *a = left;
    const struct backtest_difference *b = right;

    must(a->by_ms > 0 && b->by_ms > 0);
    if (a->by_ms != b->by_ms)
        return a->by_ms > b->by_ms ? -1 : 1;
    return (a->pod > b->pod) - (a->pod < b->pod);
}

static uint32_t backtest_find_differences(const struct backtest_report *report,
                                          struct backtest_difference *out)
{
    const struct past *past = report->past;
    uint32_t count = 0;

    for (uint32_t i = past->held; i < past->n_pods; i++) {
        int64_t most = 0;
        for (size_t r = 1; r < report->n_results && past->pod[i].role == PAST_ARRIVED; r++) {
            const int64_t by = backtest_differs(report, &report->result[r], i);
            most = by > most ? by : -by > most ? -by : most;
        }
        if (most > 0)
            out[count++] = (struct backtest_difference){i, most};
    }
    must(count <= past->arrived);
    if (count > 0)
        qsort(out, count, sizeof *out, backtest_by_difference);
    return count;
}

static struct document *backtest_pod(struct arena *arena, const struct backtest_report *report,
                                     uint32_t pod)
{
    struct document *item = document_new(arena, DOCUMENT_OBJECT);
    struct document *waits = document_new(arena, DOCUMENT_ARRAY);
    char arrived[TIME_TEXT_BYTES];

    must(report->past->pod[pod].role == PAST_ARRIVED);
    backtest_time(report->past->pod[pod].arrived_ms, arrived);
    document_set_str(arena, item, "pod", report->past->pod[pod].name);
    document_set_str(arena, item, "arrived", arena_copy(arena, text_of(arrived)));
    for (size_t r = 0; r < report->n_results; r++) {
        struct document *wait = document_new(arena, DOCUMENT_OBJECT);
        document_set_str(arena, wait, "policy", backtest_name(&report->result[r]));
        /* Without the member if the pod was never placed. */
        if (report->result[r].wait[pod] >= 0)
            simulate_set_int(arena, wait, "seconds", (uint64_t)report->result[r].wait[pod] / 1000);
        document_append(waits, wait);
    }
    document_set(arena, item, TEXT("waits"), waits);
    return item;
}

static void backtest_set_pods(struct arena *arena, struct document *answer,
                              const struct backtest_report *report)
{
    struct backtest_difference *all = xcalloc(report->past->n_pods, sizeof *all);
    struct document *list = document_new(arena, DOCUMENT_ARRAY);
    const uint32_t count = backtest_find_differences(report, all);

    for (uint32_t i = 0; i < count && i < BACKTEST_LISTED; i++)
        document_append(list, backtest_pod(arena, report, all[i].pod));
    must(list->count <= BACKTEST_LISTED);
    simulate_set_int(arena, answer, "podsThatDiffer", count);
    document_set(arena, answer, TEXT("pods"), list);
    xfree(all);
}

/* --- the document --- */

static struct document *backtest_item(struct arena *arena, const struct backtest_report *report,
                                      const struct backtest_result *result)
{
    struct document *item = document_new(arena, DOCUMENT_OBJECT);
    const uint64_t waiting = (uint64_t)result->waited + result->never;
    char peak[SIMULATE_PERCENT_BYTES];

    must(result->at_once + waiting == report->past->arrived);
    document_set_str(arena, item, "policy", backtest_name(result));
    simulate_set_int(arena, item, "atOnce", result->at_once);
    simulate_set_int(arena, item, "waited", result->waited);
    simulate_set_int(arena, item, "never", result->never);
    simulate_set_int(arena, item, "meanWaitSeconds",
                     waiting > 0 ? result->wait_ms / waiting / 1000 : 0);
    simulate_set_int(arena, item, "waitSeconds", result->wait_ms / 1000);
    backtest_set_hours(arena, item, "gpuHours", result->granted);
    backtest_set_percent(arena, item, "meanPercent", result->granted, result->capacity);
    (void)snprintf(peak, sizeof peak, "%" PRIu64 ".%04" PRIu64, result->peak / 10000,
                   result->peak % 10000);
    simulate_set_digits(arena, item, "peakPercent", peak);
    if (result->recorded)
        return item;
    backtest_set_more(arena, item, result, &report->result[0]);
    simulate_set_int(arena, item, "displaced", result->displaced);
    backtest_set_counts(arena, item, report, result);
    return item;
}

static struct document *backtest_document(struct arena *arena, const struct backtest_report *report)
{
    const struct past *past = report->past;
    struct document *answer = document_new(arena, DOCUMENT_OBJECT);
    struct document *items = document_new(arena, DOCUMENT_ARRAY);
    struct document *target = document_object(arena, answer, "targetWorkload");
    char from[TIME_TEXT_BYTES];
    char to[TIME_TEXT_BYTES];

    must(report->n_results > 1 && report->result[0].recorded);
    document_set_str(arena, target, "source", report->options->learn ? "learned" : "arrivals");
    simulate_set_int(arena, target, "shapes", report->workload->n_classes);
    simulate_set_int(arena, target, "shapesLeftOut", report->dropped);
    backtest_time(past->from_ms, from);
    backtest_time(past->to_ms, to);
    document_set_str(arena, answer, "ledger", report->file);
    document_set_str(arena, answer, "from", arena_copy(arena, text_of(from)));
    document_set_str(arena, answer, "to", arena_copy(arena, text_of(to)));
    simulate_set_int(arena, answer, "seed", report->options->seed);
    simulate_set_int(arena, answer, "arrivals", past->arrived);
    simulate_set_int(arena, answer, "heldPods", past->held);
    simulate_set_int(arena, answer, "boundByOthers", past->adopted);
    simulate_set_int(arena, answer, "neverRan", past->dropped);
    simulate_set_int(arena, answer, "unknownArrivals", past->unknown_arrivals);
    simulate_set_int(arena, answer, "unknownEnds", past->unknown_ends);
    for (size_t i = 0; i < report->n_results; i++)
        document_append(items, backtest_item(arena, report, &report->result[i]));
    document_set(arena, answer, TEXT("items"), items);
    backtest_set_pods(arena, answer, report);
    return answer;
}

/* --- the tables --- */

static const struct table_column backtest_columns[] = {
    {"POLICY", 0},
    {"AT-ONCE", COLUMN_RIGHT},
    {"WAITED", COLUMN_RIGHT},
    {"NEVER", COLUMN_RIGHT},
    {"MEAN-WAIT", COLUMN_RIGHT},
    {"SUM-WAIT", COLUMN_RIGHT},
    {"GPU-HOURS", COLUMN_RIGHT},
    {"MEAN-%", COLUMN_RIGHT},
    {"PEAK-%", COLUMN_RIGHT},
};

static void backtest_add_wait(struct table *table, int64_t seconds)
{
    char wait[AGE_BYTES];

    must(seconds >= 0);
    age_format(1000 * seconds, wait);
    table_text(table, wait);
}

static void backtest_row(struct table *table, const struct document *item)
{
    must(table->n_columns == ARRAY_LEN(backtest_columns));
    table_text(table, document_shown(item, "policy"));
    table_number(table, document_int(item, "atOnce"));
    table_number(table, document_int(item, "waited"));
    table_number(table, document_int(item, "never"));
    backtest_add_wait(table, document_int(item, "meanWaitSeconds"));
    backtest_add_wait(table, document_int(item, "waitSeconds"));
    table_printf(table, "%.*s", TEXT_ARG(document_get(item, "gpuHours")->text));
    simulate_add_percent(table, item, "meanPercent");
    simulate_add_percent(table, item, "peakPercent");
}

static void backtest_item_name(struct strbuf *out, const struct document *item)
{
    must(item != NULL);
    strbuf_str(out, document_shown(item, "policy"));
}

static void backtest_pod_row(struct table *table, const struct document *item)
{
    must(table->n_columns == 2 + document_get(item, "waits")->count);
    table_text(table, document_shown(item, "pod"));
    table_text(table, document_shown(item, "arrived"));
    document_each (wait, document_get(item, "waits")) {
        if (document_get(wait, "seconds") != NULL)
            backtest_add_wait(table, document_int(wait, "seconds"));
        else
            table_text(table, "never");
    }
}

/* RECORDED, BINPACK ... */
static const char *backtest_heading(struct arena *arena, const struct backtest_result *result)
{
    char *name = arena_copy(arena, text_of(backtest_name(result)));

    for (char *at = name; *at != '\0'; at++)
        if (*at >= 'a' && *at <= 'z')
            *at = (char)(*at - 'a' + 'A');
    must(name[0] != '\0');
    return name;
}

/* One column for each policy, in their order; --sort-by applies to the table of policies only. */
static int backtest_show_pods(struct ctl *ctl, const struct document *answer,
                              const struct backtest_report *report)
{
    struct table_column columns[2 + 1 + POLICY_CHOICES_MAX] = {{"POD", 0},
                                                               {"ARRIVED", COLUMN_WIDE}};
    const struct list_view view = {
        columns, 2 + report->n_results, backtest_pod_row, backtest_item_name, "",
    };
    const struct document *rows = document_get(answer, "pods");

    must(report->n_results <= 1 + POLICY_CHOICES_MAX);
    if (rows->count == 0)
        return CTL_FINE;
    for (size_t r = 0; r < report->n_results; r++)
        columns[2 + r] =
            (struct table_column){backtest_heading(&ctl->arena, &report->result[r]), COLUMN_RIGHT};
    (void)fputs("\n", ctl->screen.out);
    if (ctl->screen.headers)
        (void)fprintf(ctl->screen.out, "waits that differ most, %u of %" PRId64 "%s:\n",
                      rows->count, document_int(answer, "podsThatDiffer"),
                      rows->count < document_int(answer, "podsThatDiffer") ? " (--csv writes all)"
                                                                           : "");
    const char *sort_by = ctl->screen.sort_by;
    ctl->screen.sort_by = NULL;
    const int status = ctl_show_rows(ctl, rows, &view);
    ctl->screen.sort_by = sort_by;
    return status;
}

/* --- sentences --- */

static void backtest_put_head(const struct ctl *ctl, const struct backtest_report *report)
{
    const struct past *past = report->past;
    FILE *out = ctl->screen.out;
    char from[TIME_TEXT_BYTES];
    char to[TIME_TEXT_BYTES];
    char length[AGE_BYTES];

    must(report->n_results > 1);
    backtest_time(past->from_ms, from);
    backtest_time(past->to_ms, to);
    age_format(past->to_ms - past->from_ms, length);
    (void)fprintf(out, "%s\nfrom %s to %s (%s): %" PRIu32 " %s\n", report->file, from, to, length,
                  past->arrived, past->arrived == 1 ? "pod arrives" : "pods arrive");
    (void)fprintf(out,
                  "not played again: %" PRIu32 " %s at the beginning, %" PRIu32 " bound by others",
                  past->held, past->held == 1 ? "pod that stands there" : "pods that stand there",
                  past->adopted);
    if (past->dropped > 0)
        (void)fprintf(out, ", %" PRIu32 " that never ran", past->dropped);
    (void)fprintf(out, "\ntarget workload: %" PRIu32 " %s", report->workload->n_classes,
                  report->workload->n_classes == 1 ? "shape of these pods"
                                                   : "shapes of these pods");
    if (report->dropped > 0)
        (void)fprintf(out, "; %" PRIu32 " rare ones are left out", report->dropped);
    if (report->options->learn)
        (void)fputs("; fgd and rollout know what has arrived so far", out);
    (void)fputs("\n\n", out); /* errors are checked in ctl_finish() */
}

static void backtest_put_hours(FILE *out, const struct document *item)
{
    const struct document *more = document_get(item, "moreGpuHoursPercent");
    const struct document *fewer = document_get(item, "fewerGpuHoursPercent");
    char percent[SIMULATE_PERCENT_BYTES];

    must(more == NULL || fewer == NULL);
    if (more == NULL && fewer == NULL)
        return;
    simulate_short_percent(more != NULL ? more->text : fewer->text, percent);
    if (strcmp(percent, "0.00") == 0)
        (void)fputs("; as many GPU hours", out);
    else
        (void)fprintf(out, "; %s %% %s GPU hours", percent, more != NULL ? "more" : "fewer");
}

static void backtest_put_item(FILE *out, const struct document *item)
{
    const int64_t less = document_int(item, "waitLess");
    const int64_t longer = document_int(item, "waitLonger");
    const int64_t displaced = document_int(item, "displaced");

    must(less >= 0 && longer >= 0);
    (void)fprintf(out, "%-8s  ", document_shown(item, "policy"));
    if (less == 0 && longer == 0)
        (void)fputs("every pod waits as it did", out);
    else
        (void)fprintf(out,
                      "%" PRId64 " wait less (%" PRId64 " not at all), %" PRId64 " wait longer",
                      less, document_int(item, "waitNoMore"), longer);
    backtest_put_hours(out, item);
    if (displaced > 0)
        (void)fprintf(out, "; %" PRId64 " on nodes that went away", displaced);
    (void)fputc('\n', out); /* errors are checked in ctl_finish() */
}

static void backtest_put_differences(const struct ctl *ctl, const struct document *answer)
{
    must(answer->kind == DOCUMENT_OBJECT);
    (void)fputs(ctl->screen.headers ? "\ncompared with what was recorded:\n" : "\n",
                ctl->screen.out);
    document_each (item, document_get(answer, "items"))
        if (document_get(item, "waitLess") != NULL)
            backtest_put_item(ctl->screen.out, item);
}

static void backtest_put_unknown(const struct ctl *ctl, const struct past *past)
{
    FILE *out = ctl->screen.out;
    char set[AGE_BYTES];

    must(past->arrived > 0);
    (void)fputs("\na ledger does not record:\n"
                "- CPU, memory, labels, taints and affinity: every node is asked about every pod,\n"
                "  and rules of a policy document about nodes match none\n"
                "- pods that never got a place, or that nobody created because there was none\n",
                out);
    if (past->set_ms != 0) {
        age_format(past->set_ms > 0 ? past->set_ms : -past->set_ms, set);
        (void)fprintf(out,
                      "- the true time: its clock was set %s by %s, and times before are moved\n",
                      past->set_ms > 0 ? "forward" : "back", set);
    }
    if (past->unknown_arrivals > 0)
        (void)fprintf(out,
                      "- how long %" PRIu32 " of the %" PRIu32
                      " pods had waited: they arrive when they got their place\n",
                      past->unknown_arrivals, past->arrived);
    if (past->unknown_ends > 0)
        (void)fprintf(out, "- when %" PRIu32 " %s still ran: here, to the end\n",
                      past->unknown_ends,
                      past->unknown_ends == 1 ? "pod ends that" : "pods end that");
}

int backtest_show(struct ctl *ctl, const struct backtest_report *report)
{
    static const struct list_view view = {
        backtest_columns, ARRAY_LEN(backtest_columns), backtest_row, backtest_item_name, "",
    };
    const struct document *answer = backtest_document(&ctl->arena, report);
    const bool table = ctl->format == FORMAT_TABLE || ctl->format == FORMAT_WIDE;

    must(answer->kind == DOCUMENT_OBJECT);
    if (table && ctl->screen.headers)
        backtest_put_head(ctl, report);
    int status = ctl_show_list(ctl, answer, &view);
    if (status != CTL_FINE || !table)
        return status;
    backtest_put_differences(ctl, answer);
    status = backtest_show_pods(ctl, answer, report);
    if (status == CTL_FINE && ctl->screen.headers)
        backtest_put_unknown(ctl, report->past);
    return status;
}

/* --- files --- */

void backtest_write_waits(FILE *out, const struct backtest_report *report)
{
    const struct past *past = report->past;
    char arrived[TIME_TEXT_BYTES];

    must(report->n_results > 1);
    (void)fputs("pod,arrived", out);
    for (size_t r = 0; r < report->n_results; r++)
        (void)fprintf(out, ",%s_wait_ms", backtest_name(&report->result[r]));
    for (uint32_t i = past->held; i < past->n_pods; i++) {
        if (past->pod[i].role != PAST_ARRIVED)
            continue;
        time_format(past->pod[i].arrived_ms, arrived);
        (void)fprintf(out, "\n%s,%s", past->pod[i].name, arrived);
        for (size_t r = 0; r < report->n_results; r++) {
            const int64_t wait = report->result[r].wait[i];
            if (wait < 0)
                (void)fputc(',', out);
            else
                (void)fprintf(out, ",%" PRId64, wait);
        }
    }
    (void)fputc('\n', out);
}

void backtest_write_placements(FILE *out, const struct past *past,
                               const struct backtest_result *result)
{
    must(result->placement != NULL);
    for (uint32_t i = past->held; i < past->n_pods; i++) {
        const struct backtest_placement *place = &result->placement[i];
        if (past->pod[i].role == PAST_ARRIVED)
            (void)fprintf(out, "%s,%s,%s\n", past->pod[i].name,
                          place->node != NULL ? place->node : "",
                          place->node != NULL ? place->gpus : "");
    }
}
