#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "milligpu/base/base.h"

#include "support/aborts.h"
#include "support/test.h"

static void claim_small(void *value)
{
    must(*(int *)value < 10);
}

static void claim_debug(void *value)
{
    must_debug(*(int *)value < 10);
}

static void claim_never(void *value)
{
    if (*(int *)value >= 10)
        must_not_reach("two candidates never tie");
}

static char said[256]; /* on stderr */

static bool survives(void (*claim)(void *), int value)
{
    const int status = run_in_child(claim, &value, said, sizeof said);
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGABRT);
    return WIFEXITED(status);
}

TEST(must__passes_when_true)
{
    assert_true(survives(claim_small, 9));
    assert_string_equal(said, "");
}

TEST(must__aborts_and_names_the_place)
{
    assert_false(survives(claim_small, 10));
    assert_non_null(strstr(said, "tests/unit/base/test_must.c:"));
    assert_non_null(strstr(said, ": must: *(int *)value < 10\n"));
    assert_true(said[0] == 't'); /* the path in the tree, not on this machine */
}

TEST(must_not_reach__names_the_rule)
{
    assert_false(survives(claim_never, 10));
    assert_non_null(strstr(said, "two candidates never tie"));
}

TEST(must_debug__is_on_outside_release)
{
#ifdef MILLIGPU_MUST_DEBUG
    assert_false(survives(claim_debug, 10));
#else
    assert_true(survives(claim_debug, 10));
#endif
}

static int closed;

static void counted_close(int *what)
{
    closed += *what;
}
DEFINE_FREEP(int, counted_close);

static int *hand_out(int *what, bool keep)
{
    CLEANUP(counted_closep) int *mine = what;
    return keep ? STEAL(mine) : NULL;
}

TEST(cleanup__runs_unless_stolen)
{
    int seven = 7;
    closed = 0;
    assert_ptr_equal(hand_out(&seven, true), &seven);
    assert_int_equal(closed, 0);
    assert_null(hand_out(&seven, false));
    assert_int_equal(closed, 7);
    assert_null(hand_out(NULL, false));
    assert_int_equal(closed, 7);
}

TEST(freep__frees_and_array_len_counts)
{
    CLEANUP(freep) char *text = strdup("freed at the end, or the leak check says so");
    const int numbers[5] = {0};
    assert_non_null(text);
    assert_int_equal(ARRAY_LEN(numbers), 5);
}
