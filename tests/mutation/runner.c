/*
 * Many test programs in one, each test alone in a child and under one mutant.
 *
 * Their mains are called once, with cmocka's runner replaced by one that only keeps the lists.
 * Then, a line on stdin for each mutant (0: none; a name of two files, or "-"), tests with their
 * bound of CPU time:
 *
 *     17 - 3:600 4:550          42 sql-42 9:900
 *
 * and a line on stdout for its fate.  The child ends with the first test that fails.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "milligpu/base.h"

enum { TESTS_MAX = 1024, FUNCTIONS_MAX = 2048, WALL_SECONDS = 60 };

/* Written by tests/mutation/run beside this file's object. */
struct program {
    const char *name;
    int (*main)(void);
};
extern const struct program programs[];
extern const size_t programs_count;

struct one_test {
    const char *program;
    struct CMUnitTest test;
    CMFixtureFunction set_up;
    CMFixtureFunction tear_down;
};

/* What the child tells its parent, however it ends. */
struct told {
    int test;
    bool must;
    unsigned char reached[FUNCTIONS_MAX];
};

/* Which mutant is on; 0: none.  The mutated files ask. */
int mutant_on;
/* Which functions were entered; the mutated files say so. */
unsigned char mutant_reached[FUNCTIONS_MAX];

static struct one_test tests[TESTS_MAX];
static int tests_count;
static const char *collecting;
static struct told *told;
static char *sql_before;
static char *sql_after;

int __real__cmocka_run_group_tests(const char *group, const struct CMUnitTest *given, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *given, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
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

int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *given, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    (void)group;
    for (size_t i = 0; i < count; i++) {
        must(tests_count < TESTS_MAX);
        tests[tests_count++] = (struct one_test){collecting, given[i], set_up, tear_down};
    }
    return 0;
}

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

_Noreturn static void be_the_child(const char *sql, const char *list)
{
    int test;
    long ms;
    int length;

    must(setpgid(0, 0) == 0);
    bound(RLIMIT_CORE, 0);
    bound(RLIMIT_FSIZE, 1 << 28);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow takes terabytes of addresses */
    bound(RLIMIT_AS, (rlim_t)1 << 31);
#endif
    if (strcmp(sql, "-") != 0) {
        sql_before = read_sql(sql, "before");
        sql_after = read_sql(sql, "after");
    }
    while (sscanf(list, " %d:%ld%n", &test, &ms, &length) == 2) {
        must(test >= 0 && test < tests_count);
        const struct one_test *one = &tests[test];
        told->test = test;
        bound_cpu(ms);
        (void)alarm(WALL_SECONDS);
        if (__real__cmocka_run_group_tests(one->test.name, &one->test, 1, one->set_up,
                                           one->tear_down) != 0)
            _exit(1);
        list += length;
    }
    memcpy(told->reached, mutant_reached, sizeof mutant_reached);
    free(sql_before);
    free(sql_after);
    sql_before = NULL;
    exit(0); /* leaks are looked for here */
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
    (void)kill(-child, SIGKILL); /* children of its own that it left behind */
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
    for (size_t i = 0; i < programs_count; i++) {
        collecting = programs[i].name;
        must(programs[i].main() == 0);
    }
    for (int i = 0; i < tests_count; i++)
        (void)fprintf(out, "%s %s\n", tests[i].program, tests[i].test.name);
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
