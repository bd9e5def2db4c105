#include "support/other_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct attempt {
    void (*tried)(void *arg);
    void *arg;
};

static void *attempt_main(void *arg)
{
    const struct attempt *attempt = arg;

    attempt->tried(attempt->arg);
    return NULL;
}

bool other_thread_aborts(void (*tried)(void *arg), void *arg)
{
    struct attempt attempt = {tried, arg};
    pthread_t thread;
    int status = 0;
    const pid_t child = fork();

    must(child >= 0);
    if (child == 0) {
        (void)fclose(stderr);
        (void)signal(SIGABRT, SIG_DFL);
        if (pthread_create(&thread, NULL, attempt_main, &attempt) == 0)
            (void)pthread_join(thread, NULL);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
