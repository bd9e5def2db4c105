/* The main() of a program whose tests register themselves. */
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/single_threaded.h>

#include "support/test.h"

#ifdef __SANITIZE_THREAD__
static const bool has_own_thread = true; /* of the sanitizer */
#else
static const bool has_own_thread = false;
#endif

/* The thread sanitizer runs the tests with threads only, so none may be forgotten there. */
static bool is_unlisted_thread(void)
{
    if (__libc_single_threaded || has_own_thread || getenv("MILLIGPU_ONE_THREAD") == NULL)
        return false;
    (void)fprintf(stderr, "%s made a thread, and is not in WITH_THREADS of tests/CMakeLists.txt\n",
                  program_invocation_short_name);
    return true;
}

int main(int argc, char **argv)
{
    const char *pattern = argc > 1 ? argv[1] : "*";
    size_t count = 0;
    size_t n_all = 0;

    for (const struct test *test = test_first(); test != NULL; test = test->next)
        n_all++;
    struct CMUnitTest *units = calloc(n_all + 1, sizeof *units);
    if (units == NULL)
        return EXIT_FAILURE;
    for (const struct test *test = test_first(); test != NULL; test = test->next) {
        if (fnmatch(pattern, test->unit.name, 0) == 0)
            units[count++] = test->unit;
    }
    if (count == 0) {
        (void)fprintf(stderr, "%s: no test of %zu matches %s\n", program_invocation_short_name,
                      n_all, pattern);
        free(units);
        return EXIT_FAILURE;
    }
    const struct test_group *group = test_group_of(test_first()->file);
    const int failed = _cmocka_run_group_tests(program_invocation_short_name, units, count,
                                               group == NULL ? NULL : group->set_up,
                                               group == NULL ? NULL : group->tear_down);
    free(units);
    return failed != 0 ? failed : is_unlisted_thread();
}
