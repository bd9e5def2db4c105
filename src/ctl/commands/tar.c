/* Writes archives in the format ustar. Called by command_diagnostics.c in the only thread. */
#include "tar.h"

#include <string.h>

#include "milligpu/base/base.h"

enum { BLOCK_BYTES = 512 };

/* A header of ustar; numbers are octal digits with a final NUL. */
struct tar_header {
    char name[100];
    char mode[8], uid[8], gid[8];
    char size[12], time[12];
    char sum[8];
    char type, link[100];
    char magic[6], version[2];
    char user[32], group[32];
    char major[8], minor[8];
    char prefix[155], rest[12];
};
static_assert(sizeof(struct tar_header) == BLOCK_BYTES, "a header is one block");

static void put_octal(char *field, size_t bytes, uint64_t number)
{
    char digits[24];

    const int length =
        snprintf(digits, sizeof digits, "%0*llo", (int)bytes - 1, (unsigned long long)number);
    must(length == (int)bytes - 1);
    memcpy(field, digits, bytes);
}

/* Writes the sum of all bytes (blanks for itself) as six octal digits, a NUL and a blank. */
static void put_sum(struct tar_header *header)
{
    uint32_t sum = 0;

    memset(header->sum, ' ', sizeof header->sum);
    for (size_t i = 0; i < sizeof *header; i++)
        sum += ((const unsigned char *)header)[i];
    put_octal(header->sum, sizeof header->sum - 1, sum);
}

static int tar_write(FILE *tar, const void *bytes, size_t count, struct err *err)
{
    must(count > 0);
    if (fwrite(bytes, 1, count, tar) != count)
        return err_set(err, ERR_IO, "the archive cannot be written: %m");
    return 0;
}

static int tar_write_header(FILE *tar, const char *name, int64_t bytes, int64_t at_s,
                            struct err *err)
{
    struct tar_header header = {
        .type = '0', .magic = "ustar", .version = {'0', '0'}, .user = "", .group = ""};

    must(strlen(name) < sizeof header.name);
    must(bytes >= 0 && bytes < 1LL << 33);
    memcpy(header.name, name, strlen(name));
    put_octal(header.mode, sizeof header.mode, 0600);
    put_octal(header.uid, sizeof header.uid, 0);
    put_octal(header.gid, sizeof header.gid, 0);
    put_octal(header.size, sizeof header.size, (uint64_t)bytes);
    put_octal(header.time, sizeof header.time, at_s > 0 ? (uint64_t)at_s : 0);
    put_sum(&header);
    return tar_write(tar, &header, sizeof header, err);
}

int tar_add(FILE *tar, const char *name, FILE *content, int64_t at_s, struct err *err)
{
    char block[64 * BLOCK_BYTES];
    size_t got = 0;

    if (fseeko(content, 0, SEEK_END) < 0)
        return err_set(err, ERR_IO, "%s: %m", name);
    const int64_t bytes = ftello(content);
    rewind(content);
    if (tar_write_header(tar, name, bytes, at_s, err) < 0)
        return err_same(err);
    for (int64_t left = bytes; left > 0; left -= (int64_t)got) {
        got = fread(block, 1, sizeof block, content);
        if (got == 0)
            return err_set(err, ERR_IO, "%s: its content became shorter", name);
        const size_t filled = (got + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        memset(block + got, 0, filled - got);
        if (tar_write(tar, block, filled, err) < 0)
            return err_same(err);
    }
    return 0;
}

int tar_end(FILE *tar, struct err *err)
{
    static const char empty[2 * BLOCK_BYTES];

    must(tar != NULL);
    return tar_write(tar, empty, sizeof empty, err);
}
