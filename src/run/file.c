/* Reads and writes whole files, with errors that name the file. Any thread. */
#include "milligpu/run/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

/*
 * Does not use the size of stat(): /proc and pipes have none, and a file may grow meanwhile. Reads
 * at most one block more than max.
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

bool file_write(int fd, struct text bytes)
{
    must(fd >= 0);
    for (size_t done = 0; done < bytes.len;) {
        const ssize_t wrote = write(fd, bytes.at + done, bytes.len - done);
        if (wrote < 0 && errno != EINTR)
            return false;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

int file_replace(const char *file, struct text content, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf next;

    must(file[0] != '\0');
    strbuf_init(&next);
    strbuf_printf(&next, "%s.next", file);
    const int fd = open(next.data, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set(err, ERR_IO, "%s: %m", next.data);
    int rc = 0;
    if (!file_write(fd, content) || fsync(fd) != 0)
        rc = err_set(err, ERR_IO, "%s: %m", next.data);
    if (close(fd) != 0 && rc == 0)
        rc = err_set(err, ERR_IO, "%s: %m", next.data);
    if (rc == 0 && rename(next.data, file) != 0)
        rc = err_set(err, ERR_IO, "%s: %m", file);
    if (rc < 0)
        (void)unlink(next.data); /* the first error is reported */
    return rc;
}

int file_make_above(const char *file, struct err *err)
{
    CLEANUP(xfreep) char *path = xstrdup(file);

    must(file[0] != '\0');
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return err_set(err, ERR_IO, "%s: %m", path);
        *at = '/';
    }
    return 0;
}
