#include "patience.h"

#include <time.h>

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

bool patience_left(int64_t *until_ms)
{
    static const struct timespec pause = {.tv_nsec = 5000000};

    if (*until_ms == 0)
        *until_ms = now_ms() + PATIENCE_MS;
    (void)nanosleep(&pause, NULL);
    return now_ms() < *until_ms;
}
