/*
 * support - shared by the wire tests: an arena, an error, and helpers for their input.
 */
#ifndef MILLIGPU_TESTS_UNIT_WIRE_SUPPORT_H
#define MILLIGPU_TESTS_UNIT_WIRE_SUPPORT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/wire/extender/wire_extender.h"

#include "support/test.h"

extern const struct wire_rules rules; /* nvidia.com/vgpu, nvidia.com/gpu */

enum { BENCH_INPUTS = 4096 };

/* One per test; it owns the borrowed texts. */
struct fixture {
    struct arena arena;
    struct err err;
    struct strbuf out;
    size_t n_inputs;
    void *input[BENCH_INPUTS];
};

int bench_setup(void **state);
int bench_teardown(void **state);

#define WIRE_TEST(name) TEST_WITH(name, struct fixture *fixture, bench_setup, bench_teardown)

/* A heap copy of exactly these bytes, kept until the test ends, so that ASan catches overreads. */
struct text exact(struct fixture *fixture, struct text bytes);

/* The same of JSON that has ' for ". */
struct text exact_json(struct fixture *fixture, const char *json);

/* A row of a table: the input, and a part of the error. */
struct wire_case {
    const char *bytes;
    const char *says;
};

/* JSON, or a part of it, has ' for ". */
void assert_json(const char *is, const char *json);
void assert_has(const char *is, const char *part);
void assert_lacks(const char *is, const char *part);

#define assert_says(fixture, part)                                                                 \
    do {                                                                                           \
        if (strstr((fixture)->err.text, (part)) == NULL)                                           \
            fail_msg("\"%s\" does not say \"%s\"", (fixture)->err.text, (part));                   \
    } while (0)

/* Reads a file below the source folder into the arena. */
struct text read_file(struct fixture *fixture, const char *path);

/* A copy of text with every `from` replaced. */
struct text replaced(struct fixture *fixture, const char *text, const char *from, const char *to);

#endif
