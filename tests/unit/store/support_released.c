#include "support_released.h"

#include <stdio.h>
#include <stdlib.h>

#include "milligpu/base/alloc.h"

#include "support_shelf.h"

char *released_file(uint32_t version, const char *rest, size_t *out_bytes)
{
    const char *source = getenv("MILLIGPU_SOURCE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    char path[512];
    const int length = snprintf(path, sizeof path, "%s/tests/released/%u%s",
                                source != NULL ? source : ".", version, rest);
    must(length > 0 && (size_t)length < sizeof path);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    must(fseek(file, 0, SEEK_END) == 0);
    const long bytes = ftell(file);
    must(bytes >= 0 && fseek(file, 0, SEEK_SET) == 0);
    char *content = xmalloc((size_t)bytes + 1);
    *out_bytes = fread(content, 1, (size_t)bytes, file);
    must(*out_bytes == (size_t)bytes);
    content[bytes] = '\0';
    must(fclose(file) == 0);
    return content;
}

const char *const released_forms[2] = {"", "-killed"};

void released_put(const char *path, uint32_t version, const char *form)
{
    static const char *const suffixes[] = {"", "-wal"};
    char rest[64];
    char name[256];

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        size_t bytes = 0;
        (void)snprintf(rest, sizeof rest, "%s.db%s", form, suffixes[i]);
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        CLEANUP(xfreep) char *content = released_file(version, rest, &bytes);
        must(i > 0 || content != NULL); /* tests/released/README.md */
        if (content != NULL)
            put_file(name, content, bytes);
    }
}
