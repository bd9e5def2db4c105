#include <stdio.h>
#include <string.h>

#include "milligpu/core/node/node.h"

#include "support/aborts.h"
#include "support/atoms.h"
#include "support/test.h"

static const uint32_t indexes[] = {0, 1, 9, 10, 11, 99, 100, 4711, 9999, 10000, 65534, 65535};

/* A GPU of node "n1" that goes by this name. */
static struct gpu called(const char *alias)
{
    struct gpu gpu = {.id = atom("GPU-a")};

    gpu_set_alias(&gpu, atom("n1"), text_of(alias), atoms);
    assert_true(gpu_has_alias(&gpu));
    assert_true(gpu_alias_sound(&gpu, atom("n1")));
    return gpu;
}

static void assert_called(const struct gpu *gpu, const char *alias)
{
    char buffer[GPU_ALIAS_BYTES];

    memset(buffer, 'x', sizeof buffer);
    assert_string_equal(gpu_alias(gpu, atom("n1"), buffer), alias);
    assert_true(gpu_alias_is(gpu, atom("n1"), text_of(alias)));
}

TEST(alias__of_an_index_is_no_name_of_the_table)
{
    const struct atom *node = atom("n1");
    (void)atom("GPU-a");
    const size_t names = names_count(atoms);

    for (size_t i = 0; i < ARRAY_LEN(indexes); i++) {
        char alias[32];
        (void)snprintf(alias, sizeof alias, "n1/gpu-%u", indexes[i]);
        const struct gpu gpu = called(alias);
        assert_null(gpu.alias);
        assert_int_equal(gpu.alias_number, indexes[i] + 1);
        assert_int_equal(gpu_alias_number(node, text_of(alias)), indexes[i] + 1);
        assert_called(&gpu, alias);
        assert_false(gpu_alias_is(&gpu, node, TEXT("n1/gpu-7")));
        assert_false(gpu_alias_is(&gpu, node, TEXT("GPU-a")));
        assert_false(gpu_alias_is(&gpu, atom("n2"), text_of(alias)));
    }
    assert_int_equal(names_count(atoms), names + 1); /* n2 */
}

/* A name that would not be made again exactly as it is written is kept as it is written. */
TEST(alias__of_another_form_is_kept_as_written)
{
    static const char *const other[] = {
        "GPU-b",
        "n1/gpu-",
        "n1/gpu-00",
        "n1/gpu-01",
        "n1/gpu-007",
        "n1/gpu-65536",
        "n1/gpu-99999",
        "n1/gpu-100000",
        "n1/gpu-1x",
        "n1/gpu-x1",
        "n1/gpu-/",
        "n1/gpu-:",
        "n1/gpu-1/",
        "n1/gpu-1:",
        "n1/gpu-+1",
        "n1/gpu- 1",
        "n1/gqu-1",
        "n1:gpu-1",
        "n2/gpu-1",
        "xn1/gpu-1",
        "n11/gpu-1",
        "n/gpu-1",
        "n1/gpu.1",
        "N1/gpu-1",
        "n1",
        "n1/",
        "1",
        "n1/gpu-4294967296",
        "n1/gpu-0123456789",
    };

    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        const struct gpu gpu = called(other[i]);
        assert_int_equal(gpu_alias_number(atom("n1"), text_of(other[i])), 0);
        assert_ptr_equal(gpu.alias, atom(other[i]));
        assert_int_equal(gpu.alias_number, 0);
        assert_called(&gpu, other[i]);
        assert_false(gpu_alias_is(&gpu, atom("n1"), TEXT("n1/gpu-1")));
    }
}

TEST(alias__is_read_up_to_the_end_of_the_text)
{
    static const char text[] = "n1/gpu-123";

    assert_int_equal(gpu_alias_number(atom("n1"), (struct text){text, 7}), 0);
    assert_int_equal(gpu_alias_number(atom("n1"), (struct text){text, 8}), 2);
    assert_int_equal(gpu_alias_number(atom("n1"), (struct text){text, 9}), 13);
    assert_int_equal(gpu_alias_number(atom("n1"), (struct text){0}), 0);
}

/* The name is of a Node object: nothing else has a node's name. */
TEST(alias__of_the_longest_name_has_room)
{
    char name[NAME_BYTES_MAX + 2];
    char alias[NAME_BYTES_MAX + 16];
    char buffer[GPU_ALIAS_BYTES];

    for (size_t bytes = NAME_BYTES_MAX; bytes <= NAME_BYTES_MAX + 1; bytes++) {
        struct gpu gpu = {.id = atom("GPU-a")};
        memset(name, 'n', bytes);
        name[bytes] = '\0';
        (void)snprintf(alias, sizeof alias, "%s/gpu-65535", name);
        gpu_set_alias(&gpu, atom(name), text_of(alias), atoms);
        assert_int_equal(gpu.alias_number, bytes == NAME_BYTES_MAX ? 65536 : 0);
        assert_string_equal(gpu_alias(&gpu, atom(name), buffer), alias);
        assert_true(gpu_alias_is(&gpu, atom(name), text_of(alias)));
    }
}

TEST(alias__may_be_none)
{
    char buffer[GPU_ALIAS_BYTES];
    struct gpu gpu = {.id = atom("GPU-a")};

    assert_false(gpu_has_alias(&gpu));
    assert_null(gpu_alias(&gpu, atom("n1"), buffer));
    assert_false(gpu_alias_is(&gpu, atom("n1"), TEXT("")));
    assert_false(gpu_alias_is(&gpu, atom("n1"), TEXT("n1/gpu-0")));
    assert_true(gpu_alias_sound(&gpu, atom("n1")));
    static const char *const each[] = {"n1/gpu-0", "GPU-b"};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        gpu = called(each[i]);
        gpu_drop_alias(&gpu);
        assert_false(gpu_has_alias(&gpu));
        assert_null(gpu_alias(&gpu, atom("n1"), buffer));
        assert_false(gpu_alias_is(&gpu, atom("n1"), text_of(each[i])));
    }
}

TEST(aliases__are_the_same_if_their_texts_are)
{
    static const char *const alias[] = {"n1/gpu-0", "n1/gpu-1", "n1/gpu-01", "GPU-a", "GPU-b"};
    const struct gpu none = {.id = atom("GPU-a")};

    assert_true(gpu_alias_same(&none, &none));
    for (size_t i = 0; i < ARRAY_LEN(alias); i++) {
        const struct gpu one = called(alias[i]);
        struct gpu copy = none;
        assert_false(gpu_alias_same(&one, &none));
        assert_false(gpu_alias_same(&none, &one));
        gpu_copy_alias(&copy, &one);
        assert_true(gpu_alias_same(&copy, &one));
        assert_called(&copy, alias[i]);
        for (size_t k = 0; k < ARRAY_LEN(alias); k++) {
            const struct gpu other = called(alias[k]);
            assert_int_equal(gpu_alias_same(&one, &other), i == k);
            gpu_copy_alias(&copy, &other);
            assert_called(&copy, alias[k]);
        }
    }
}

TEST(alias__of_the_wrong_form_is_not_sound)
{
    const struct gpu wrong[] = {
        {.id = atom("GPU-a"), .alias = atom("n1/gpu-0")},
        {.id = atom("GPU-a"), .alias = atom("GPU-b"), .alias_number = 1},
        {.id = atom("GPU-a"), .alias_number = 65537},
    };
    const struct gpu right[] = {
        {.id = atom("GPU-a"), .alias = atom("n2/gpu-0")},
        {.id = atom("GPU-a"), .alias_number = 65536},
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(gpu_alias_sound(&wrong[i], atom("n1")));
    for (size_t i = 0; i < ARRAY_LEN(right); i++)
        assert_true(gpu_alias_sound(&right[i], atom("n1")));
}

TEST_GROUP(atoms_set_up, atoms_tear_down)
