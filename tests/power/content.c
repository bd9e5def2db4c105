#include "content.h"

#include <stdio.h>
#include <string.h>

#include "support/seen.h"

enum {
    PAGE = 1024,
    PAGES_MAX = 4096,
    LOG_HEAD = 32,
    FRAME_HEAD = 24,
    FRAME = FRAME_HEAD + PAGE,
    MAGIC_LITTLE = 0x377f0682,
};

struct sum {
    uint32_t a;
    uint32_t b;
};

/* The log as read so far: the newest hash of each page in it. */
struct reading {
    const struct disk_image_file *log;
    size_t frame; /* number of the next frame */
    struct sum sum;
    size_t n_pages;              /* pages of the database at the last commit; 0: no commit */
    uint64_t page[PAGES_MAX];    /* hash at the last commit; 0: not in the log */
    uint64_t pending[PAGES_MAX]; /* hash after the last commit */
    size_t touched[PAGES_MAX];   /* pages that are pending */
    size_t touches;
    size_t last; /* highest page in the log */
};

static uint32_t big(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

static struct sum add(struct sum sum, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i += 8) {
        uint32_t word[2];
        memcpy(word, at + i, 8); /* little-endian, as the magic number says */
        sum.a += word[0] + sum.b;
        sum.b += word[1] + sum.a;
    }
    return sum;
}

static bool sum_is(struct sum sum, const char *at)
{
    return sum.a == big(at) && sum.b == big(at + 4);
}

static bool read_head(struct reading *reading)
{
    const struct disk_image_file *log = reading->log;
    if (log == NULL || log->now_len < LOG_HEAD || big(log->now) != MAGIC_LITTLE ||
        big(log->now + 8) != PAGE)
        return false;
    reading->sum = add((struct sum){0, 0}, log->now, 24);
    return sum_is(reading->sum, log->now + 24);
}

static void commit(struct reading *reading, size_t pages)
{
    for (size_t i = 0; i < reading->touches; i++) {
        const size_t page = reading->touched[i];
        reading->page[page] = reading->pending[page];
        reading->pending[page] = 0;
    }
    reading->touches = 0;
    reading->n_pages = pages;
}

static bool read_frame(struct reading *reading)
{
    const struct disk_image_file *log = reading->log;
    const size_t at = LOG_HEAD + reading->frame * FRAME;
    if (at + FRAME > log->now_len)
        return false;
    const char *frame = log->now + at;
    const size_t page = big(frame);
    if (page == 0 || memcmp(frame + 8, log->now + 16, 8) != 0)
        return false;
    struct sum sum = add(reading->sum, frame, 8);
    sum = add(sum, frame + FRAME_HEAD, PAGE);
    if (!sum_is(sum, frame + 16))
        return false;
    must(page < PAGES_MAX);
    reading->sum = sum;
    if (reading->pending[page] == 0)
        reading->touched[reading->touches++] = page;
    reading->pending[page] = hash_bytes(frame + FRAME_HEAD, PAGE, ~page) | 1;
    if (page > reading->last)
        reading->last = page;
    reading->frame++;
    if (big(frame + 4) != 0)
        commit(reading, big(frame + 4));
    return true;
}

/* The result of reading the synced part of the log, kept while that part stays the same. */
static const struct reading *read_synced(const struct disk_image_file *log)
{
    static struct reading kept;
    static uint32_t number;
    static uint64_t version;
    static size_t lowest;
    const size_t low = log->lowest < log->base_len ? log->lowest : log->base_len;

    if (kept.log != NULL && number == log->number && version == log->version && lowest == low)
        return &kept;
    memset(&kept, 0, sizeof kept);
    kept.log = log;
    number = log->number;
    version = log->version;
    lowest = low;
    if (low < LOG_HEAD || !read_head(&kept))
        return &kept;
    while (LOG_HEAD + (kept.frame + 1) * FRAME <= low && read_frame(&kept))
        continue;
    return &kept;
}

static void read_on(struct reading *reading, const struct disk_image_file *log)
{
    const struct reading *kept = read_synced(log);
    memcpy(reading->page, kept->page, (kept->last + 1) * sizeof kept->page[0]);
    memcpy(reading->pending, kept->pending, (kept->last + 1) * sizeof kept->pending[0]);
    memset(reading->page + kept->last + 1, 0, (PAGES_MAX - kept->last - 1) * sizeof kept->page[0]);
    memset(reading->pending + kept->last + 1, 0,
           (PAGES_MAX - kept->last - 1) * sizeof kept->page[0]);
    memcpy(reading->touched, kept->touched, kept->touches * sizeof kept->touched[0]);
    reading->touches = kept->touches;
    reading->log = log;
    reading->frame = kept->frame;
    reading->sum = kept->sum;
    reading->n_pages = kept->n_pages;
    reading->last = kept->last;
    if (!read_head(reading))
        return;
    if (kept->frame > 0)
        reading->sum = kept->sum;
    while (read_frame(reading))
        continue;
}

static uint64_t page_of_file(const struct disk_image_file *file, size_t page)
{
    const size_t at = (page - 1) * PAGE;
    uint64_t hash = page;
    if (at + PAGE > file->now_len)
        return 3;
    for (size_t i = at; i < at + PAGE; i += DISK_IMAGE_SECTOR) {
        const size_t block = i / DISK_IMAGE_SECTOR;
        const uint64_t one = file->touched[block]
                                 ? hash_bytes(file->now + i, DISK_IMAGE_SECTOR, block + 1)
                                 : file->block[block];
        hash = hash_bytes(&one, sizeof one, hash);
    }
    return hash;
}

static const struct disk_image_file *side_file(const struct disk_image *image, const char *path,
                                               const char *suffix)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return disk_image_find(image, name);
}

bool content_hash(const struct disk_image *image, const char *path, uint64_t *out)
{
    static struct reading reading;
    const struct disk_image_file *file = disk_image_find(image, path);
    const struct disk_image_file *journal = side_file(image, path, "-journal");
    const struct disk_image_file *log = side_file(image, path, "-wal");

    if (file == NULL || file->now_len == 0 || (journal != NULL && journal->now_len > 0))
        return false;
    reading.n_pages = 0;
    if (log != NULL)
        read_on(&reading, log);
    const bool logged = reading.n_pages > 0;
    const size_t pages = logged ? reading.n_pages : file->now_len / PAGE;
    must(pages < PAGES_MAX);
    uint64_t hash = logged ? pages : file->now_len;
    for (size_t page = 1; page <= pages; page++) {
        const uint64_t one =
            logged && reading.page[page] != 0 ? reading.page[page] : page_of_file(file, page);
        hash = hash_bytes(&one, sizeof one, hash);
    }
    *out = hash;
    return true;
}
