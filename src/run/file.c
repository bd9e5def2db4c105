#include "milligpu/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "milligpu/strbuf.h"

/*
 * Does not trust a size from stat(): /proc and pipes show none, and a file may grow meanwhile. At
 * most one block more than max is read.
 */
static int file_read_all(int fd, size_t max, struct strbuf *out, struct err *err)
{
    must(max > 0);
    char bytes[16384];

    for (;;) {
        const ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, ERR_IO, "%m");
        if (got == 0)
            return 0;
        strbuf_add(out, bytes, (size_t)got);
        if (out->len > max)
            return err_set(err, ERR_TOO_LARGE, "more than %zu bytes", max);
    }
}

int file_read(const char *file, size_t max, char **out, size_t *out_len, struct err *err)
{
    must(file != NULL);
    struct strbuf text;

    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%m");
        return err_wrap(err, "%s", file);
    }
    strbuf_init(&text);
    const int rc = file_read_all(fd, max, &text, err);
    (void)close(fd); /* only read */
    if (rc < 0) {
        strbuf_done(&text);
        return err_wrap(err, "%s", file);
    }
    *out_len = text.len;
    *out = strbuf_steal(&text);
    return 0;
}
