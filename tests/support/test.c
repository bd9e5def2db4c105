/* The list of the tests of a program. */
#include "support/test.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>

static struct test *tests;
static struct test_group *groups;

static bool comes_before(const struct test *a, const struct test *b)
{
    const int by_file = strcmp(a->file, b->file);

    return by_file != 0 ? by_file < 0 : a->line < b->line;
}

/* Sorted by insertion: the list of a program is short. */
void test_register(struct test *test)
{
    struct test **at = &tests;

    while (*at != NULL && comes_before(*at, test))
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

void test_register_group(struct test_group *group)
{
    group->next = groups;
    groups = group;
}

const struct test *test_first(void)
{
    return tests;
}

const struct test_group *test_group_of(const char *file)
{
    const struct test_group *group = groups;

    while (group != NULL && strcmp(group->file, file) != 0)
        group = group->next;
    return group;
}

int test_ignore_sigpipe(void **state)
{
    (void)state;
    return signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -1 : 0;
}
