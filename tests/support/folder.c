#include "folder.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

enum { DEPTH_MAX = 16 };

void folder_make(char *out, size_t bytes)
{
    assert_true(snprintf(out, bytes, "%s", "/tmp/milligpu-test-XXXXXX") < (int)bytes);
    assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *st __attribute__((unused)),
                      int kind __attribute__((unused)), struct FTW *where __attribute__((unused)))
{
    return remove(path);
}

void folder_remove(const char *folder)
{
    assert_int_equal(nftw(folder, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS), 0);
}

void file_put(const char *folder, const char *name, const char *text)
{
    char path[256];
    struct err err;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_replace(path, text_of(text), &err), 0);
}

char *file_text(const char *folder, const char *name)
{
    char path[256];
    char *text;
    size_t len;
    struct err err;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_read(path, 1 << 20, &text, &len, &err) == 0 ? text : xstrdup("");
}
