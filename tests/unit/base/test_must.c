#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "milligpu/base/base.h"

#include "support/test.h"

/* Run the claim in a child whose stderr we read; its wait status is the result. */
static int run_in_child(void (*claim)(int), int argument, char *said, size_t size)
{
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(pipe_fd[1], STDERR_FILENO);
        claim(argument);
        _exit(0);
    }
    (void)close(pipe_fd[1]);
    size_t length = 0;
    ssize_t got = 0;
    while (length < size - 1 && (got = read(pipe_fd[0], said + length, size - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    (void)close(pipe_fd[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void claim_small(int value)
{
    must(value < 10);
}

static void claim_debug(int value)
{
    must_debug(value < 10);
}

static void claim_never(int value)
{
    if (value >= 10)
        must_not_reach("two candidates never tie");
}

TEST(must__passes_when_true)
{
    char said[256];
    const int status = run_in_child(claim_small, 9, said, sizeof said);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(said, "");
}

TEST(must__aborts_and_names_the_place)
{
    char said[256];
    const int status = run_in_child(claim_small, 10, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "tests/unit/base/test_must.c:"));
    assert_non_null(strstr(said, ": must: value < 10\n"));
    assert_true(said[0] == 't'); /* the path in the tree, not on this machine */
}

TEST(must_not_reach__names_the_rule)
{
    char said[256];
    const int status = run_in_child(claim_never, 10, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "two candidates never tie"));
}

TEST(must_debug__is_on_outside_release)
{
    char said[256];
    const int status = run_in_child(claim_debug, 10, said, sizeof said);
#ifdef MILLIGPU_MUST_DEBUG
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
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
