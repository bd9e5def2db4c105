#include <pthread.h>
#include <stdint.h>

#include "milligpu/run/bell.h"
#include "milligpu/run/clock.h"

#include "support/patience.h"
#include "support/test.h"

static const int64_t patience_ms = PATIENCE_S * INT64_C(1000);

TEST(bell__ends_one_wait_when_rung_before_it)
{
    struct bell *bell = bell_new();
    bell_ring(bell);
    bell_ring(bell);
    int64_t start = clock_ns();
    bell_wait(bell, patience_ms);
    assert_true(clock_ns() - start < patience_ms * 1000000);
    start = clock_ns();
    bell_wait(bell, 20); /* two rings were one */
    assert_true(clock_ns() - start >= 20000000);
    bell_wait(bell, 0);
    bell_free(bell);
    bell_free(NULL);
}

static void *ring(void *arg)
{
    bell_ring(arg);
    return NULL;
}

TEST(bell__wakes_a_thread_that_waits_without_a_deadline)
{
    struct bell *bell = bell_new();
    pthread_t thread;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(pthread_create(&thread, NULL, ring, bell), 0);
        bell_wait(bell, INT64_MAX); /* the test would hang */
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    bell_free(bell);
}
