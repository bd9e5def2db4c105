#include <stdint.h>
#include <string.h>

#include "store/store_internal.h"
#include "support/test.h"
#include "support_fixture.h"

/* In the order of precedence: each is made to fail beside those before it in this list. */
APP_TEST(ready__reports_the_first_need_that_is_not_met)
{
    struct app *app = &fixture->app;
    struct app_need need[APP_NEEDS];
    const char *why = "stale";
    static const char *const names[APP_NEEDS] = {"api-server", "nodes",       "pods",
                                                 "ledger",     "ledger-size", "consistency"};
    atomic_bool *const flag[APP_NEEDS] = {&app->identified,
                                          &app->watch.nodes_synced,
                                          &app->watch.pods_synced,
                                          &app->health.disk_broken,
                                          NULL,
                                          &app->health.safe_mode};

    assert_true(app_ready(app, &why));
    assert_null(why);
    for (size_t failing = APP_NEEDS; failing-- > 0;) {
        if (flag[failing] != NULL)
            atomic_store(flag[failing], failing > 2);
        else
            atomic_store(&app->store->space, SPACE_LIMIT);
        app_needs(app, need);
        for (size_t i = 0; i < APP_NEEDS; i++) {
            assert_string_equal(need[i].name, names[i]);
            assert_int_equal(need[i].is_met, i < failing);
        }
        assert_false(app_ready(app, &why));
        assert_string_equal(why, need[failing].why);
        assert_false(app_ready(app, NULL));
    }
    assert_string_equal(why, "the API server has not been reached yet");
}

APP_TEST(ready__has_a_reason_for_each_need)
{
    struct app *app = &fixture->app;
    struct app_need need[APP_NEEDS];

    app_needs(app, need);
    for (size_t i = 0; i < APP_NEEDS; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(need[i].why, need[k].why);
    assert_string_equal(need[2].why, "the list of pods is not complete yet");
    assert_says(need[4].why, "ledger_max_bytes");
    atomic_store(&app->store->space, SPACE_DISK);
    atomic_store(&app->grace.grace_ends_ms, 1);
    app_needs(app, need);
    assert_says(need[2].why, "grace_period_s");
    assert_says(need[4].why, "disk");
    atomic_store(&app->grace.grace_ends_ms, 0);
}
