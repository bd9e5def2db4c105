#include "support.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DEPTH_MAX = 16 };

void folder_make(char *out, size_t bytes)
{
    assert_true(snprintf(out, bytes, "%s", "/tmp/milligpu-agent-XXXXXX") < (int)bytes);
    assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is;
    (void)kind;
    (void)where;
    return remove(path);
}

void folder_remove(const char *folder)
{
    assert_int_equal(nftw(folder, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS), 0);
}
