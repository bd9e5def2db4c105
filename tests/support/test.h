/*
 * A test registers itself, so none can be forgotten.
 *
 *     TEST(name) { assert_true(...); }
 *     CORE_TEST(name) { core_reserve(core, ...); }
 *
 * The main() of support/test_main.c runs the tests of a program in the order of their file. An
 * argument selects by name, with * and ?: `build/asan/tests/unit.core.place 'rank__*'`.
 */
#ifndef MILLIGPU_TESTS_TEST_H
#define MILLIGPU_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct test {
    struct CMUnitTest unit;
    const char *file;
    int line;
    struct test *next;
};

/* Runs before the first and after the last test of a file; either may be NULL. */
struct test_group {
    const char *file;
    CMFixtureFunction set_up;
    CMFixtureFunction tear_down;
    struct test_group *next;
};

/* Both keep the pointer. */
void test_register(struct test *test);
void test_register_group(struct test_group *group);

/* A set_up of a group. */
int test_ignore_sigpipe(void **state);

/* The tests by file and line. */
const struct test *test_first(void);
/* The group of a file, or NULL. */
const struct test_group *test_group_of(const char *file);

#define TEST_REGISTER(name, run, set_up, tear_down)                                                \
    static void run(void **state);                                                                 \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        static struct test test = {                                                                \
            {#name, run, set_up, tear_down, NULL}, __FILE__, __LINE__, NULL};                      \
        test_register(&test);                                                                      \
    }

/* A test between set_up and tear_down, either may be NULL; its parameter is void **state. */
#define TEST_BETWEEN(name, set_up, tear_down)                                                      \
    TEST_REGISTER(name, name, set_up, tear_down)                                                   \
    static void name(void **state __attribute__((unused)))

#define TEST(name) TEST_BETWEEN(name, NULL, NULL)

/* Registers a function with a typed parameter, which set_up stores in *state, as a test. */
#define TEST_CALL(function, name, set_up, tear_down)                                               \
    TEST_REGISTER(name, run_##name, set_up, tear_down)                                             \
    static void run_##name(void **state)                                                           \
    {                                                                                              \
        function(*state);                                                                          \
    }

/* The same with a typed parameter, such as `struct shelf *shelf`: set_up has stored it in *state.
 * A file, or the header of a fixture, gives this a name of its own: SHELF_TEST(name). */
#define TEST_WITH(name, parameter, set_up, tear_down)                                              \
    static void name(parameter);                                                                   \
    TEST_CALL(name, name, set_up, tear_down)                                                       \
    static void name(parameter __attribute__((unused)))

/* The same test after each of two set_ups; the second has `again` behind its name. */
#define TEST_TWICE(name, parameter, set_up, again, set_up_again, tear_down)                        \
    static void name(parameter);                                                                   \
    TEST_CALL(name, name, set_up, tear_down)                                                       \
    TEST_CALL(name, name##again, set_up_again, tear_down)                                          \
    static void name(parameter __attribute__((unused)))

/* Registers the group of the file in which it stands. */
#define TEST_GROUP(set_up, tear_down)                                                              \
    __attribute__((constructor)) static void register_group(void)                                  \
    {                                                                                              \
        static struct test_group group = {__FILE__, set_up, tear_down, NULL};                      \
        test_register_group(&group);                                                               \
    }

#endif
