/* Claims a part for the first thread by compare-and-exchange. Any thread. */
#include "milligpu/run/sole_thread.h"

bool sole_thread_enter(struct sole_thread *sole)
{
    pthread_t id = 0;

    return atomic_compare_exchange_strong(&sole->id, &id, pthread_self()) ||
           pthread_equal(id, pthread_self()) != 0;
}

bool sole_thread_admits(const struct sole_thread *sole)
{
    const pthread_t id = atomic_load(&sole->id);

    return id == 0 || pthread_equal(id, pthread_self()) != 0;
}
