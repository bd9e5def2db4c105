/* file - a file is replaced as a whole, or stays as it was. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

#include "support/test.h"

static char folder[64];
static char file[80];
static char next[96];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/milligpu-file-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/file", folder);
    (void)snprintf(next, sizeof next, "%s.next", file);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(file);
    (void)rmdir(next);
    return rmdir(folder);
}

#define FIXTURE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

static void holds(const char *text)
{
    CLEANUP(xfreep) char *data = NULL;
    struct err err;
    size_t len;

    assert_int_equal(file_read(file, 1000, &data, &len, &err), 0);
    assert_string_equal(data, text);
}

FIXTURE_TEST(file_replace__replaces_the_whole_file)
{
    struct stat st;
    struct err err;

    assert_int_equal(file_replace(file, TEXT("first, and longer"), &err), 0);
    holds("first, and longer");
    assert_int_equal(file_replace(file, TEXT("second"), &err), 0);
    holds("second");
    assert_int_equal(file_replace(file, TEXT(""), &err), 0);
    holds("");
    assert_int_equal(stat(next, &st), -1);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777 & ~0644U, 0);
}

FIXTURE_TEST(file_replace__keeps_the_old_file_on_failure)
{
    struct err err;

    assert_int_equal(file_replace(file, TEXT("old"), &err), 0);
    assert_int_equal(mkdir(next, 0700), 0);
    assert_int_equal(file_replace(file, TEXT("new"), &err), -(int)ERR_IO);
    assert_non_null(strstr(err.text, next));
    holds("old");
}

FIXTURE_TEST(file_write__sets_errno_on_failure)
{
    int end[2];

    assert_int_equal(pipe(end), 0);
    assert_true(file_write(end[1], TEXT("all of it")));
    assert_false(file_write(end[0], TEXT("x"))); /* it is for reading */
    assert_int_equal(errno, EBADF);
    (void)close(end[0]);
    (void)close(end[1]);
}
