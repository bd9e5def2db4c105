#include "support/other_thread.h"

#include <pthread.h>

#include "support/aborts.h"

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

static void run_in_thread(void *arg)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, attempt_main, arg) == 0)
        (void)pthread_join(thread, NULL);
}

bool other_thread_aborts(void (*tried)(void *arg), void *arg)
{
    struct attempt attempt = {tried, arg};

    return aborts(run_in_thread, &attempt);
}
