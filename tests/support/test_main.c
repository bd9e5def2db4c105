/* The main() of a program whose tests register themselves. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/test.h"

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
    return failed;
}
