#include <stdint.h>

#include "milligpu/run/sole_thread.h"

#include "support/test.h"

struct visit {
    struct sole_thread *sole;
    bool is_admitted; /* before it enters */
    bool has_entered;
};

static void *visit_main(void *arg)
{
    struct visit *visit = arg;

    visit->is_admitted = sole_thread_admits(visit->sole);
    visit->has_entered = sole_thread_enter(visit->sole);
    return NULL;
}

static struct visit visit_of_another(struct sole_thread *sole)
{
    struct visit visit = {.sole = sole};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, visit_main, &visit), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return visit;
}

TEST(sole_thread__admits_only_the_first_thread_that_enters)
{
    struct sole_thread sole = {0};
    assert_true(sole_thread_enter(&sole));
    assert_true(sole_thread_enter(&sole));
    assert_true(sole_thread_admits(&sole));
    const struct visit other = visit_of_another(&sole);
    assert_false(other.is_admitted);
    assert_false(other.has_entered);
    assert_true(sole_thread_enter(&sole));
}

TEST(sole_thread__admits_every_thread_before_the_first_enters)
{
    struct sole_thread sole = {0};
    assert_true(sole_thread_admits(&sole));
    const struct visit other = visit_of_another(&sole);
    assert_true(other.is_admitted); /* being admitted claims nothing */
    assert_true(other.has_entered);
    assert_false(sole_thread_admits(&sole));
    assert_false(sole_thread_enter(&sole));
}
