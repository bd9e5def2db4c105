/*
 * simulate - runs of the simulator: one, a range, or as many as fit into a time.
 *
 *   simulate --seeds 1-200 [--strict]     these; strict: everything has to be met at least once
 *   simulate --seconds 60                 fresh ones
 *   simulate --operations 10000000        fresh ones, until so many operations were simulated
 *   simulate --seed 17 [--steps N] [--skip 3-9,12] [--trace]
 *   simulate --seeds 1-300 --quick        a run that fails is printed, and not shortened
 *   simulate --seed 17 --twice            is it the same run, to the byte of its trace?
 *
 * A run that fails ends its process, so runs are made by workers; the first failure is shortened
 * (steps are left out while it still fails) and printed with the command that replays it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

#include "sim_run.h"
#include "support/disk.h"

enum { JOBS_MAX = 16, TRIALS_MAX = 300, TRIALS_S = 90, VIOLATION = 3 };

/* A worker's report, in memory that its parent sees. */
struct board {
    uint64_t seed; /* the seed in progress */
    uint64_t runs;
    uint64_t operations;
    uint64_t digest; /* of all reports */
    uint32_t n_words;
    struct {
        char word[SIM_WORD];
        uint64_t times;
    } met[SIM_WORDS];
    volatile bool over; /* of the last one: a run has failed */
};

struct options {
    uint64_t first;
    uint64_t last; /* inclusive */
    uint64_t operations;
    uint32_t seconds;
    uint32_t jobs;
    uint32_t steps;
    bool one;
    bool trace;
    bool strict;
    bool twice;
    bool quick; /* report the failure and do not shorten it */
    bool skip[SIM_STEPS_MAX];
};

static struct board *board; /* of this process */
static char folder[256];

/* Everything that a fixed set of seeds has to meet; anything else that is met is printed, too. */
static const char *const required[] = {
#include "sim_required.inc"
};

/* --- words --- */

static void met(uint64_t times, const char *word)
{
    for (uint32_t i = 0; i < board->n_words; i++)
        if (strcmp(board->met[i].word, word) == 0) {
            board->met[i].times += times;
            return;
        }
    if (board->n_words == SIM_WORDS) {
        (void)fprintf(stderr, "the table of words is full\n");
        _exit(VIOLATION);
    }
    (void)snprintf(board->met[board->n_words].word, SIM_WORD, "%s", word);
    board->met[board->n_words++].times = times;
}

void sim_digest(const char *text)
{
    for (; *text != '\0'; text++)
        board->digest = (board->digest ^ (unsigned char)*text) * 0x100000001b3U;
}

void sim_met(const char *format, ...)
{
    char word[SIM_WORD];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(word, sizeof word, format, args);
    va_end(args);
    met(1, word);
}

void sim_met_many(uint64_t times, const char *format, ...)
{
    char word[SIM_WORD];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(word, sizeof word, format, args);
    va_end(args);
    met(times, word);
}

/* --- workers --- */

static double seconds_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void make_folder(uint32_t job)
{
    const char *base = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */

    (void)snprintf(folder, sizeof folder, "%s/simulate-%d-%u", base != NULL ? base : "/tmp",
                   (int)getpid(), job);
    /* A failed run leaves its folder, and process ids are reused. */
    if (mkdir(folder, 0700) < 0 && errno != EEXIST) {
        perror(folder);
        exit(2);
    }
}

static void drop_folder(void)
{
    static const char *const name[] = {
        "/ledger.db",   "/ledger.db.lock",   "/ledger.db.id",     "/log",
        "/signing.key", "/signing.key.next", "/signing.key.keys", "/agent.key"};
    char path[300];

    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        (void)snprintf(path, sizeof path, "%s%s", folder, name[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void log_to_folder(void)
{
    char path[300];

    (void)snprintf(path, sizeof path, "%s/log", folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        exit(2);
    (void)close(fd);
}

static void show_log(void)
{
    char path[300];
    char line[1024];

    (void)snprintf(path, sizeof path, "%s/log", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    /* Only the end matters: a broken disk reports at every turn. */
    if (fseek(file, -6000, SEEK_END) == 0)
        (void)fgets(line, sizeof line, file);
    else
        rewind(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (strstr(line, "level=error") == NULL)
            (void)fputs(line, stdout);
    (void)fclose(file);
}

static void run_one(const struct options *options, uint64_t seed, bool trace)
{
    const struct sim_plan plan = {.seed = seed,
                                  .steps = options->steps,
                                  .skip = options->skip,
                                  .folder = folder,
                                  .trace = trace};
    uint64_t operations;

    board->seed = seed;
    board->digest = 0;
    sim_run(&plan, &operations);
    board->operations += operations;
    board->runs++;
}

static bool enough(const struct options *options, const struct board *boards, double start)
{
    uint64_t sum = 0;

    if (boards[options->jobs].over)
        return true;
    for (uint32_t i = 0; i < options->jobs; i++)
        sum += boards[i].operations;
    if (options->operations > 0)
        return sum >= options->operations;
    return options->seconds > 0 && seconds_now() - start >= options->seconds;
}

static void work(const struct options *options, struct board *boards, uint32_t job)
{
    const double start = seconds_now();

    disk_install();
    log_to_folder();
    for (uint64_t seed = options->first + job; seed <= options->last; seed += options->jobs) {
        if (enough(options, boards, start))
            break;
        run_one(options, seed, false);
    }
    (void)fflush(NULL);
    exit(0); /* not _exit: the leak check is part of it */
}

/* True if a run without these steps still fails. */
static bool fails(const struct options *options, uint64_t seed, bool trace)
{
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        disk_install();
        log_to_folder();
        run_one(options, seed, trace);
        (void)fflush(NULL);
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return status != 0;
}

/* --- shortening a failing run --- */

static void print_skips(const struct options *options)
{
    const char *between = " --skip ";

    for (uint32_t i = 0; i < options->steps; i++) {
        if (!options->skip[i])
            continue;
        uint32_t end = i;
        while (end + 1 < options->steps && options->skip[end + 1])
            end++;
        (void)printf("%s%u-%u", between, i, end);
        between = ",";
        i = end;
    }
}

/* Leave out ever smaller pieces, as long as it still fails. */
static void shorten(struct options *options, uint64_t seed)
{
    const double start = seconds_now();
    uint32_t trials = 0;

    for (uint32_t piece = options->steps / 2; piece > 0; piece /= 2)
        for (uint32_t at = 0; at < options->steps; at += piece) {
            bool before[SIM_STEPS_MAX];
            if (++trials > TRIALS_MAX || seconds_now() - start > TRIALS_S)
                return;
            memcpy(before, options->skip, sizeof before);
            bool any = false;
            for (uint32_t i = at; i < at + piece && i < options->steps; i++) {
                any = any || !options->skip[i];
                options->skip[i] = true;
            }
            if (!any || !fails(options, seed, false))
                memcpy(options->skip, before, sizeof before);
        }
}

static void explain(struct options *options, uint64_t seed)
{
    (void)printf("seed %llu fails%s\n", (unsigned long long)seed,
                 options->quick ? "" : "; shortening");
    if (options->steps == 0)
        options->steps = sim_steps(seed);
    if (!fails(options, seed, false)) {
        (void)printf("it does not fail when it is run alone: simulate --seed %llu\n",
                     (unsigned long long)seed);
        return;
    }
    if (!options->quick) {
        shorten(options, seed);
        (void)fails(options, seed, true);
    }
    show_log();
    (void)printf("replay: tests/sim/run --seed %llu --steps %u", (unsigned long long)seed,
                 options->steps);
    print_skips(options);
    (void)printf(" --trace\n");
}

/* --- the end --- */

static int by_word(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void gather(const struct board *boards, uint32_t jobs)
{
    for (uint32_t j = 0; j < jobs; j++) {
        board->runs += boards[j].runs;
        board->operations += boards[j].operations;
        for (uint32_t i = 0; i < boards[j].n_words; i++)
            met(boards[j].met[i].times, boards[j].met[i].word);
    }
    qsort(board->met, board->n_words, sizeof board->met[0], by_word);
}

static bool all_met(void)
{
    bool all = true;

    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        bool found = false;
        for (uint32_t k = 0; k < board->n_words; k++)
            found =
                found || (strcmp(board->met[k].word, required[i]) == 0 && board->met[k].times > 0);
        if (!found)
            (void)printf("never met: %s\n", required[i]);
        all = all && found;
    }
    return all;
}

static void report(double took)
{
    for (uint32_t i = 0; i < board->n_words; i++)
        (void)printf("%-32s %12llu times\n", board->met[i].word,
                     (unsigned long long)board->met[i].times);
    (void)printf("sim_runs %llu runs\nsim_operations %llu operations\nsim_seconds %.1f s\n"
                 "sim_violations 0 violations\n",
                 (unsigned long long)board->runs, (unsigned long long)board->operations, took);
}

static struct board *new_boards(uint32_t count)
{
    struct board *boards = mmap(NULL, count * sizeof *boards, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    must(boards != MAP_FAILED);
    return boards;
}

static int many(struct options *options)
{
    struct board *boards = new_boards(options->jobs + 1);
    pid_t worker[JOBS_MAX];
    const double start = seconds_now();
    uint64_t failed = 0;
    bool bad = false;

    (void)fflush(NULL);
    for (uint32_t j = 0; j < options->jobs; j++) {
        worker[j] = fork();
        if (worker[j] != 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no worker without a parent */
        board = &boards[j];
        make_folder(j);
        (void)atexit(drop_folder);
        work(options, boards, j);
    }
    for (uint32_t left = options->jobs; left > 0; left--) {
        int status = 0;
        const pid_t ended = wait(&status);
        if (status == 0 || bad)
            continue;
        bad = true;
        boards[options->jobs].over = true; /* the others need not go on */
        for (uint32_t j = 0; j < options->jobs; j++)
            if (worker[j] == ended)
                failed = boards[j].seed;
    }
    board = &boards[options->jobs];
    make_folder(0);
    if (bad)
        explain(options, failed);
    drop_folder();
    if (bad)
        return 1;
    gather(boards, options->jobs);
    report(seconds_now() - start);
    return options->strict && !all_met() ? 1 : 0;
}

static int twice(struct options *options)
{
    bool bad = fails(options, options->first, false);
    const uint64_t digest = board->digest;

    bad = fails(options, options->first, false) || bad;
    (void)printf("seed %llu: %s\n", (unsigned long long)options->first,
                 bad                       ? "fails"
                 : digest == board->digest ? "the same run twice"
                                           : "two different runs");
    return bad || digest != board->digest ? 1 : 0;
}

static int one(struct options *options)
{
    board = new_boards(1);
    make_folder(0);
    if (options->twice) {
        const int rc = twice(options);
        drop_folder();
        return rc;
    }
    if (options->steps == 0)
        options->steps = sim_steps(options->first);
    const bool bad = fails(options, options->first, options->trace);
    if (bad)
        show_log();
    drop_folder();
    (void)printf("seed %llu: %s\n", (unsigned long long)options->first, bad ? "fails" : "holds");
    return bad ? 1 : 0;
}

/* --- the command line --- */

static _Noreturn void usage(void)
{
    (void)fputs("usage: simulate [--seeds A-B] [--seconds N] [--operations N] [--jobs N] "
                "[--strict] [--quick]\n"
                "       simulate --seed N [--steps N] [--skip A-B,C] [--trace] [--twice]\n",
                stderr);
    exit(2);
}

static void parse_skip(struct options *options, char *text)
{
    char *rest = text;

    while (*rest != '\0') {
        const unsigned long first = strtoul(rest, &rest, 10);
        const unsigned long last = *rest == '-' ? strtoul(rest + 1, &rest, 10) : first;
        for (unsigned long i = first; i <= last && i < SIM_STEPS_MAX; i++)
            options->skip[i] = true;
        rest += *rest == ',';
    }
}

static bool parse_flag(struct options *options, const char *flag)
{
    if (strcmp(flag, "--trace") == 0)
        options->trace = true;
    else if (strcmp(flag, "--strict") == 0)
        options->strict = true;
    else if (strcmp(flag, "--twice") == 0)
        options->twice = true;
    else if (strcmp(flag, "--quick") == 0)
        options->quick = true;
    else
        return false;
    return true;
}

static bool parse_value(struct options *options, const char *flag, char *value)
{
    char *rest;

    if (strcmp(flag, "--seed") == 0) {
        options->first = options->last = strtoull(value, NULL, 10);
        options->one = true;
    } else if (strcmp(flag, "--seeds") == 0) {
        options->first = strtoull(value, &rest, 10);
        options->last = *rest == '-' ? strtoull(rest + 1, NULL, 10) : options->first;
    } else if (strcmp(flag, "--steps") == 0) {
        options->steps = (uint32_t)strtoul(value, NULL, 10) % SIM_STEPS_MAX;
    } else if (strcmp(flag, "--skip") == 0) {
        parse_skip(options, value);
    } else if (strcmp(flag, "--seconds") == 0) {
        options->seconds = (uint32_t)strtoul(value, NULL, 10);
    } else if (strcmp(flag, "--operations") == 0) {
        options->operations = strtoull(value, NULL, 10);
    } else if (strcmp(flag, "--jobs") == 0) {
        options->jobs = (uint32_t)strtoul(value, NULL, 10);
    } else {
        return false;
    }
    return true;
}

static void parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){.jobs = 1};
    for (int i = 1; i < argc; i++) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (parse_flag(options, argv[i]))
            continue;
        if (value == NULL || !parse_value(options, argv[i], value))
            usage();
        i++;
    }
    if (options->jobs == 0 || options->jobs > JOBS_MAX)
        usage();
}

int main(int argc, char **argv)
{
    struct options options;

    parse(&options, argc, argv);
    if (options.one)
        return one(&options);
    if (options.last == 0) {
        if (options.seconds == 0 && options.operations == 0)
            usage();
        struct clock_ops clock;
        clock_real(&clock);
        options.first = (uint64_t)clock.wall_ms(clock.ctx) * 1000;
        options.last = UINT64_MAX / 2;
        (void)printf("fresh seeds from %llu on\n", (unsigned long long)options.first);
    }
    return many(&options);
}
