/*
 * Many test programs in one; each test runs alone in a child, under one mutant.
 *
 * The tests have registered themselves (support/test.h). stdin has a line for each mutant: its
 * number (0: none), the name of two SQL files or "-", and the tests, each with its limit of CPU
 * time:
 *
 *     17 - 3:600 4:550          42 sql-42 9:900
 *
 * Each gets a line on stdout that tells its fate. The child ends at the first test that fails.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "milligpu/base/base.h"

#include "support/test.h"

/* CPU time tells what is endless; the wall clock, which runs on while others compute, what hangs */
enum { TESTS_MAX = 1024, FUNCTIONS_MAX = 2048, WALL_SECONDS = 300 };

/* The child's report to its parent, however it ends. */
struct told {
    int test;
    bool must;
    unsigned char reached[FUNCTIONS_MAX];
};

/* The active mutant; 0: none. The mutated files read it. */
int mutant_on;
/* The functions that were entered; the mutated files mark them. */
unsigned char mutant_reached[FUNCTIONS_MAX];

static const struct test *tests[TESTS_MAX];
static int n_tests;
static struct told *told;
static char *sql_before;
static char *sql_after;

_Noreturn void __real_must_fail(const char *file, int line, const char *what);
_Noreturn void __wrap_must_fail(const char *file, int line, const char *what);
int __real_sqlite3_exec(sqlite3 *db, const char *sql, int (*each)(void *, int, char **, char **),
                        void *user, char **error);
int __wrap_sqlite3_exec(sqlite3 *db, const char *sql, int (*each)(void *, int, char **, char **),
                        void *user, char **error);
int __real_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int bytes, unsigned flags,
                              sqlite3_stmt **out, const char **tail);
int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int bytes, unsigned flags,
                              sqlite3_stmt **out, const char **tail);

_Noreturn void __wrap_must_fail(const char *file, int line, const char *what)
{
    told->must = true;
    __real_must_fail(file, line, what);
}

static const char *sql_as_mutated(const char *sql)
{
    return sql_before != NULL && strcmp(sql, sql_before) == 0 ? sql_after : sql;
}

int __wrap_sqlite3_exec(sqlite3 *db, const char *sql, int (*each)(void *, int, char **, char **),
                        void *user, char **error)
{
    return __real_sqlite3_exec(db, sql_as_mutated(sql), each, user, error);
}

int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int bytes, unsigned flags,
                              sqlite3_stmt **out, const char **tail)
{
    return __real_sqlite3_prepare_v3(db, sql_as_mutated(sql), bytes, flags, out, tail);
}

static char *read_sql(const char *name, const char *which)
{
    char path[4096];
    size_t length = 0;

    must((size_t)snprintf(path, sizeof path, "%s.%s", name, which) < sizeof path);
    FILE *file = fopen(path, "re");
    must(file != NULL);
    char *text = calloc(1, 1 << 20);
    must(text != NULL);
    length = fread(text, 1, (1 << 20) - 1, file);
    must(length > 0 && feof(file) != 0);
    (void)fclose(file);
    return text;
}

static void bound(int what, rlim_t most)
{
    const struct rlimit limit = {most, most};
    must(setrlimit(what, &limit) == 0);
}

static void bound_cpu(long ms)
{
    const struct itimerval timer = {.it_value = {ms / 1000, ms % 1000 * 1000}};
    must(ms > 0);
    must(setitimer(ITIMER_PROF, &timer, NULL) == 0);
}

/* After 1, 2, 4, ... tests, since it takes long; all others at exit. */
static void check_leaks(int done)
{
#ifdef __SANITIZE_ADDRESS__
    if ((done & (done - 1)) == 0 && __lsan_do_recoverable_leak_check() != 0)
        _exit(1);
#else
    (void)done;
#endif
}

_Noreturn static void be_the_child(const char *sql, const char *list)
{
    int test;
    long ms;
    int length;
    int done = 0;

    must(setpgid(0, 0) == 0);
    bound(RLIMIT_CORE, 0);
    bound(RLIMIT_FSIZE, 1 << 28);
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory takes terabytes of address space */
    bound(RLIMIT_AS, (rlim_t)1 << 31);
#endif
    if (strcmp(sql, "-") != 0) {
        sql_before = read_sql(sql, "before");
        sql_after = read_sql(sql, "after");
    }
    while (sscanf(list, " %d:%ld%n", &test, &ms, &length) == 2) {
        must(test >= 0 && test < n_tests);
        const struct CMUnitTest *unit = &tests[test]->unit;
        const struct test_group *group = test_group_of(tests[test]->file);
        told->test = test;
        bound_cpu(ms);
        (void)alarm(WALL_SECONDS);
        if (_cmocka_run_group_tests(unit->name, unit, 1, group == NULL ? NULL : group->set_up,
                                    group == NULL ? NULL : group->tear_down) != 0)
            _exit(1);
        check_leaks(++done);
        list += length;
    }
    memcpy(told->reached, mutant_reached, sizeof mutant_reached);
    free(sql_before);
    free(sql_after);
    sql_before = NULL;
    exit(0); /* leaks are checked at exit */
}

static const char *fate_of(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status) == 0 ? "survived" : "test";
    const int signal = WTERMSIG(status);
    if (signal == SIGPROF || signal == SIGALRM || signal == SIGXCPU)
        return "endless";
    if (signal == SIGABRT)
        return told->must ? "must" : "test";
    return "crash";
}

static void answer(FILE *out, int status, long us)
{
    (void)fprintf(out, "%s %d %ld", fate_of(status), told->test, us);
    for (int i = 0; i < FUNCTIONS_MAX; i++)
        if (told->reached[i] != 0)
            (void)fprintf(out, " %d", i);
    (void)fprintf(out, "\n");
    (void)fflush(out);
}

static void try_one(FILE *out, int mutant, const char *sql, const char *list)
{
    struct rusage usage;
    int status;

    *told = (struct told){.test = -1};
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        mutant_on = mutant;
        be_the_child(sql, list);
    }
    must(wait4(child, &status, 0, &usage) == child);
    (void)kill(-child, SIGKILL); /* child processes that it left behind */
    answer(out, status,
           (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
               usage.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    FILE *out = fdopen(dup(STDOUT_FILENO), "w");
    char *line = NULL;
    size_t capacity = 0;
    char sql[4096];
    int mutant;
    int length;

    must(out != NULL);
    must(freopen("/dev/null", "w", stdout) != NULL);
    if (argc < 2 || strcmp(argv[1], "aloud") != 0)
        must(freopen("/dev/null", "w", stderr) != NULL);
    must(setenv("CMOCKA_TEST_ABORT", "1", 1) == 0);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(told != MAP_FAILED);
    for (const struct test *test = test_first(); test != NULL; test = test->next) {
        must(n_tests < TESTS_MAX);
        tests[n_tests++] = test;
        (void)fprintf(out, "%s %s\n", test->file, test->unit.name);
    }
    (void)fprintf(out, "\n");
    (void)fflush(out);
    while (getline(&line, &capacity, stdin) > 0) {
        must(sscanf(line, "%d %4095s%n", &mutant, sql, &length) == 2);
        try_one(out, mutant, sql, line + length);
    }
    free(line);
    (void)fclose(out);
    return 0;
}
