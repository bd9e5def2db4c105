/*
 * The command simulate: plays arrivals of pods on a cluster under policies. Called by ctl.c in the
 * only thread. Works without a server: nodes or a cluster, and arrivals, are files; decisions are
 * made by the code that answers kube-scheduler.
 */
#include "lab/simulate/simulate.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "lab/backtest/backtest.h"

enum { SIMULATE_EVENTS = 40000 };

struct simulate_call {
    struct ctl *ctl;
    struct simulate_options options;
    struct policy_choices policies;
    int64_t at_ms;         /* UTC time that decides which rules of policies hold */
    uint32_t rounds;       /* 0 if not given */
    FILE *csv;             /* NULL if not requested */
    FILE *plot;            /* NULL if not requested */
    struct past_span span; /* with --ledger */
};

/* --- options --- */

struct simulate_range {
    size_t option;
    uint32_t least;
    uint32_t most;
};

/* *out is unchanged if the option is not given. */
static int simulate_read_number(const struct ctl *ctl, const struct simulate_range *range,
                                uint32_t *out, struct err *err)
{
    const char *given = ctl->options.given[range->option];
    uint64_t number = 0;

    must(range->option < OPTIONS && range->least <= range->most);
    if (given == NULL)
        return 0;
    const size_t digits = strspn(given, "0123456789");
    for (size_t i = 0; i < digits && number <= UINT32_MAX; i++)
        number = 10 * number + (uint64_t)(given[i] - '0');
    if (digits == 0 || given[digits] != '\0' || number < range->least || number > range->most)
        return err_set(err, ERR_INVALID, "--%s is %.60s: write a whole number from %u to %u",
                       option_info(range->option)->name, given, range->least, range->most);
    *out = (uint32_t)number;
    return 0;
}

/* Refuses options that conflict with --ledger (it has nodes and pods itself) or require it. */
static int simulate_check_ledger(const struct ctl *ctl, struct err *err)
{
    static const size_t others[] = {OPTION_nodes,  OPTION_cluster, OPTION_arrivals,
                                    OPTION_pods,   OPTION_count,   OPTION_churn,
                                    OPTION_events, OPTION_plot,    OPTION_at};
    const char *const *given = ctl->options.given;

    for (size_t i = 0; given[OPTION_ledger] != NULL && i < ARRAY_LEN(others); i++)
        if (given[others[i]] != NULL)
            return err_set(err, ERR_INVALID,
                           "--ledger and --%s exclude each other: the ledger says which nodes "
                           "there were, which pods came, and when they ended",
                           option_info(others[i])->name);
    if (given[OPTION_ledger] == NULL && (given[OPTION_from] != NULL || given[OPTION_to] != NULL))
        return err_set(err, ERR_INVALID, "--%s is for --ledger: it says which time is played again",
                       given[OPTION_from] != NULL ? "from" : "to");
    return 0;
}

static int simulate_check_files(const struct ctl *ctl, struct err *err)
{
    const char *const *given = ctl->options.given;

    must(ctl->options.n_arguments == 0);
    if (given[OPTION_ledger] != NULL)
        return 0;
    if (given[OPTION_nodes] != NULL && given[OPTION_cluster] != NULL)
        return err_set(err, ERR_INVALID,
                       "--nodes and --cluster exclude each other: either says which nodes there "
                       "are");
    if (given[OPTION_arrivals] != NULL && given[OPTION_pods] != NULL)
        return err_set(err, ERR_INVALID,
                       "--arrivals and --pods exclude each other: either says which pods arrive");
    if ((given[OPTION_nodes] == NULL && given[OPTION_cluster] == NULL) ||
        (given[OPTION_arrivals] == NULL && given[OPTION_pods] == NULL))
        return err_set(err, ERR_INVALID,
                       "simulate wants --nodes FILE or --cluster FILE, and --arrivals FILE or "
                       "--pods FILE; or --ledger FILE");
    return 0;
}

/* Refuses options about the order of arrivals with --pods, and --count without it. */
static int simulate_check_pods(const struct ctl *ctl, struct err *err)
{
    static const size_t others[] = {OPTION_churn,      OPTION_events, OPTION_learn,
                                    OPTION_placements, OPTION_csv,    OPTION_plot};
    const char *const *given = ctl->options.given;

    must(given[OPTION_arrivals] == NULL || given[OPTION_pods] == NULL);
    if (given[OPTION_pods] == NULL && given[OPTION_count] != NULL)
        return err_set(err, ERR_INVALID,
                       "--count is for --pods: it says how often the pods of the manifest arrive");
    for (size_t i = 0; given[OPTION_pods] != NULL && i < ARRAY_LEN(others); i++)
        if (given[others[i]] != NULL)
            return err_set(err, ERR_INVALID,
                           "--%s is for --arrivals: --pods only asks how many more of them fit",
                           option_info(others[i])->name);
    return 0;
}

static int simulate_read_span(struct simulate_call *call, struct err *err)
{
    struct past_span *span = &call->span;

    *span = (struct past_span){INT64_MIN, INT64_MAX};
    if (at_read(call->ctl, OPTION_from, &span->from_ms, err) < 0 ||
        at_read(call->ctl, OPTION_to, &span->to_ms, err) < 0)
        return err_same(err);
    if (span->from_ms >= span->to_ms)
        return err_set(err, ERR_INVALID, "--from is not before --to: nothing is in between");
    return 0;
}

static int simulate_read_options(struct simulate_call *call, struct err *err)
{
    static const struct simulate_range seed = {OPTION_seed, 0, UINT32_MAX};
    static const struct simulate_range churn = {OPTION_churn, 1, 100};
    static const struct simulate_range events = {OPTION_events, 1, SIMULATE_EVENTS_MAX};
    static const struct simulate_range count = {OPTION_count, 1, SIMULATE_ARRIVALS_MAX};
    const char *const *given = call->ctl->options.given;
    struct simulate_options *options = &call->options;

    must(options->churn_percent == 0);
    options->events = SIMULATE_EVENTS;
    options->learn = given[OPTION_learn] != NULL;
    if (simulate_check_ledger(call->ctl, err) < 0 || simulate_read_span(call, err) < 0)
        return err_same(err);
    if (simulate_check_files(call->ctl, err) < 0 || simulate_check_pods(call->ctl, err) < 0 ||
        simulate_read_number(call->ctl, &count, &call->rounds, err) < 0)
        return err_same(err);
    if (simulate_read_number(call->ctl, &seed, &options->seed, err) < 0 ||
        simulate_read_number(call->ctl, &churn, &options->churn_percent, err) < 0 ||
        simulate_read_number(call->ctl, &events, &options->events, err) < 0 ||
        policies_read_at(call->ctl, &call->at_ms, err) < 0)
        return err_same(err);
    if (given[OPTION_events] != NULL && options->churn_percent == 0)
        return err_set(err, ERR_INVALID,
                       "--events is for --churn: without it, each pod of the "
                       "arrivals comes once");
    if (options->churn_percent > 0 && (given[OPTION_placements] != NULL ||
                                       given[OPTION_csv] != NULL || given[OPTION_plot] != NULL))
        return err_set(err, ERR_INVALID,
                       "--churn writes no --placements, --csv or --plot: these are about the "
                       "arrivals in their order");
    return 0;
}

/* The seed of a document counts if the command line has none. Returns the exit status. */
static int simulate_choose(struct simulate_call *call)
{
    struct policy_choices *policies = &call->policies;
    const char *const *given = call->ctl->options.given;
    struct err err;

    const int status = policies_choose_all(call->ctl, call->at_ms, policies);
    if (status != CTL_FINE)
        return status;
    must(policies->count > 0);
    for (size_t i = 0; i < policies->count; i++)
        if (policies->choice[i].bare || given[OPTION_seed] != NULL)
            policies->choice[i].book->seed = call->options.seed;
    if (given[OPTION_placements] == NULL || policies->count == 1)
        return CTL_FINE;
    (void)err_set(&err, ERR_INVALID, "--placements wants one --policy: the file is about one run");
    return ctl_misused(call->ctl, &err);
}

/* --- output files --- */

/* The name of the option whose input is the same file, under any name; NULL if none. */
static const char *simulate_input(const struct ctl *ctl, const char *file)
{
    static const size_t inputs[] = {OPTION_nodes, OPTION_cluster, OPTION_arrivals, OPTION_pods,
                                    OPTION_ledger};
    struct stat out;
    struct stat in;

    if (stat(file, &out) != 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        const char *input = ctl->options.given[inputs[i]];
        if (input != NULL && stat(input, &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return option_info(inputs[i])->name;
    }
    return NULL;
}

static int simulate_open(const struct ctl *ctl, const char *file, FILE **out, struct err *err)
{
    must(*out == NULL);
    if (file == NULL)
        return 0;
    const char *input = simulate_input(ctl, file);
    if (input != NULL)
        return err_set(err, ERR_INVALID, "%.200s is the file of --%s: write another one", file,
                       input);
    *out = fopen(file, "we");
    return *out != NULL ? 0 : err_set(err, ERR_IO, "%.200s: cannot be written: %m", file);
}

/* Detects write errors such as a full disk; keeps the first error. */
static void simulate_close(const char *file, FILE *stream, struct err *err)
{
    if (stream == NULL)
        return;
    must(file != NULL);
    const bool failed = ferror(stream) != 0;
    if ((fclose(stream) != 0 || failed) && err->text[0] == '\0')
        (void)err_set(err, ERR_IO, "%.200s: cannot be written: %m", file);
}

/* --- the runs --- */

static int simulate_backtest(struct simulate_call *call)
{
    const struct backtest_call backtest_call = {
        .file = call->ctl->options.given[OPTION_ledger],
        .span = call->span,
        .policies = &call->policies,
        .options = {.seed = call->options.seed,
                    .learn = call->options.learn,
                    .placements = call->options.placements != NULL},
        .placements = call->options.placements,
        .csv = call->csv,
    };

    must(call->plot == NULL);
    return backtest(call->ctl, &backtest_call);
}

static int simulate_all(struct simulate_call *call, const struct world *world)
{
    const struct policy_choices *policies = &call->policies;
    struct simulate_result result[POLICY_CHOICES_MAX];
    struct simulate_report report = {
        .world = world,
        .at_ms = call->at_ms,
        .options = &call->options,
        .n_results = policies->count,
        .result = result,
    };

    if (world == NULL)
        return simulate_backtest(call);
    must(policies->count > 0 && policies->count <= POLICY_CHOICES_MAX);
    struct workload *workload = world->rounds > 0 ? world_manifest_workload(world, &report.dropped)
                                                  : world_workload(world, &report.dropped);
    report.workload = workload;
    for (size_t i = 0; i < policies->count; i++)
        simulate_run(world, &policies->choice[i], workload, &call->options, &result[i]);
    const int status = world->rounds > 0 ? simulate_show_rounds(call->ctl, &report)
                                         : simulate_show(call->ctl, &report);
    if (call->csv != NULL)
        simulate_write_curve(call->csv, &report);
    if (call->plot != NULL)
        simulate_write_plot(call->plot, &report);
    for (size_t i = 0; i < policies->count; i++)
        simulate_result_done(&result[i]);
    workload_unref(workload);
    return status;
}

/* world: NULL for a back-test. */
static int simulate_write_all(struct simulate_call *call, const struct world *world)
{
    const char *const *given = call->ctl->options.given;
    struct simulate_options *options = &call->options;
    int status = CTL_NO;
    struct err err = {0};

    must(world == NULL || world->n_pods > 0);
    options->curve = given[OPTION_csv] != NULL || given[OPTION_plot] != NULL;
    if (simulate_open(call->ctl, given[OPTION_placements], &options->placements, &err) == 0 &&
        simulate_open(call->ctl, given[OPTION_csv], &call->csv, &err) == 0 &&
        simulate_open(call->ctl, given[OPTION_plot], &call->plot, &err) == 0)
        status = simulate_all(call, world);
    simulate_close(given[OPTION_placements], options->placements, &err);
    simulate_close(given[OPTION_csv], call->csv, &err);
    simulate_close(given[OPTION_plot], call->plot, &err);
    return err.text[0] != '\0' ? ctl_fail(call->ctl, &err) : status;
}

static int simulate_read_world(const struct simulate_call *call, struct world *world,
                               struct err *err)
{
    const struct ctl *ctl = call->ctl;
    const char *const *given = ctl->options.given;

    must(given[OPTION_nodes] == NULL || given[OPTION_cluster] == NULL);
    const int status = given[OPTION_cluster] != NULL
                           ? world_read_cluster(world, given[OPTION_cluster], ctl->err, err)
                           : world_read_nodes(world, given[OPTION_nodes], err);
    if (status < 0)
        return err_same(err);
    return given[OPTION_pods] != NULL
               ? world_read_manifest(world, given[OPTION_pods], call->rounds, ctl->err, err)
               : world_read_arrivals(world, given[OPTION_arrivals], ctl->err, err);
}

static int simulate_world(struct simulate_call *call)
{
    struct world world;
    struct err err;

    must(call->policies.count > 0);
    world_init(&world);
    int status = simulate_read_world(call, &world, &err) < 0 ? ctl_fail(call->ctl, &err)
                                                             : simulate_write_all(call, &world);
    if (status == CTL_FINE && world.wrong > 0)
        status = CTL_NO;
    world_done(&world);
    return status;
}

int command_simulate(struct ctl *ctl)
{
    struct simulate_call call = {.ctl = ctl};
    struct err err;

    must(ctl->options.n_arguments == 0);
    if (simulate_read_options(&call, &err) < 0)
        return ctl_misused(ctl, &err);
    const int fd = fileno(ctl->err);
    if (fd >= 0 && isatty(fd) == 1)
        call.options.progress = ctl->err;
    int status = simulate_choose(&call);
    if (status == CTL_FINE)
        status = ctl->options.given[OPTION_ledger] != NULL ? simulate_write_all(&call, NULL)
                                                           : simulate_world(&call);
    policies_done(&call.policies);
    return status;
}
