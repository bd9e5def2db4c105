#include "support/aborts.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

int run_in_child(void (*claim)(void *), void *argument, char *said, size_t size)
{
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(pipe_fd[1], STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
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

bool aborts(void (*claim)(void *), void *argument)
{
    char said[4096];
    const int status = run_in_child(claim, argument, said, sizeof said);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
