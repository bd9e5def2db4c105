#include <pthread.h>
#include <stdint.h>

#include "milligpu/run/clock.h"
#include "milligpu/run/wakeup.h"

#include "support/patience.h"
#include "support/test.h"

static const int64_t patience_ms = PATIENCE_S * INT64_C(1000);

TEST(bell__ends_one_wait_when_rung_before_it)
{
    struct wakeup *wakeup = wakeup_new();
    wakeup_signal(wakeup);
    wakeup_signal(wakeup);
    int64_t start = clock_ns();
    wakeup_wait(wakeup, patience_ms);
    assert_true(clock_ns() - start < patience_ms * 1000000);
    start = clock_ns();
    wakeup_wait(wakeup, 20); /* two rings were one */
    assert_true(clock_ns() - start >= 20000000);
    wakeup_wait(wakeup, 0);
    wakeup_free(wakeup);
    wakeup_free(NULL);
}

static void *ring(void *arg)
{
    wakeup_signal(arg);
    return NULL;
}

TEST(bell__wakes_a_thread_that_waits_without_a_deadline)
{
    struct wakeup *wakeup = wakeup_new();
    pthread_t thread;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(pthread_create(&thread, NULL, ring, wakeup), 0);
        wakeup_wait(wakeup, INT64_MAX); /* the test would hang */
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    wakeup_free(wakeup);
}
