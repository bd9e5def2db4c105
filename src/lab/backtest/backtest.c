/*
 * The back-test of the command simulate: reads the past of a ledger file, replays it under each
 * policy, and shows the results beside the recorded one. Called by simulate.c with parsed options.
 */
#include "backtest.h"

#include "milligpu/base/alloc.h"

#include "ctl/ctl.h"

static void backtest_write(const struct backtest_call *call, const struct backtest_report *report)
{
    must(report->n_results > 1);
    if (call->csv != NULL)
        backtest_write_waits(call->csv, report);
    if (call->placements != NULL)
        backtest_write_placements(call->placements, report->past, &report->result[1]);
}

static int backtest_all(struct ctl *ctl, const struct backtest_call *call, const struct past *past)
{
    struct backtest_result result[1 + POLICY_CHOICES_MAX];
    struct backtest_report report = {
        .file = call->file,
        .past = past,
        .options = &call->options,
        .result = result,
    };
    struct err err;
    int status = 0;

    must(call->policies->count > 0 && call->policies->count <= POLICY_CHOICES_MAX);
    struct workload *workload = world_manifest_workload(&past->world, &report.dropped);
    report.workload = workload;
    backtest_record(past, &result[report.n_results++]);
    for (size_t i = 0; status == 0 && i < call->policies->count; i++)
        status = backtest_run(past, &call->policies->choice[i], workload, &call->options,
                              &result[report.n_results++], &err);
    if (status < 0) {
        (void)err_wrap(&err, "%.200s", call->file);
        status = ctl_fail(ctl, &err);
    } else {
        status = backtest_show(ctl, &report);
        backtest_write(call, &report);
    }
    for (size_t i = 0; i < report.n_results; i++)
        backtest_result_done(&result[i]);
    workload_unref(workload);
    return status;
}

int backtest(struct ctl *ctl, const struct backtest_call *call)
{
    struct past past;
    struct err err;

    must(call->placements == NULL || call->policies->count == 1);
    past_init(&past);
    const int status = past_read(&past, call->file, &call->span, &err) < 0
                           ? ctl_fail(ctl, &err)
                           : backtest_all(ctl, call, &past);
    past_done(&past);
    return status;
}
