/*
 * The metrics process_...: CPU time, memory, open files and start time of this process. Called by
 * the metrics page on any thread. Only the start time is stored, so that it is the same on every
 * page although it is computed from clocks.
 */
#include "process_metrics.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/run/file.h"

/* Fields of /proc/self/stat after the program's name, numbered as in proc(5). */
enum { STAT_FIRST = 3, STAT_UTIME = 14, STAT_STIME, STAT_START = 22, STAT_VSIZE, STAT_RSS };

static const char stat_file[] = "/proc/self/stat";
static const char files_folder[] = "/proc/self/fd";

static void process_put(struct strbuf *out, enum metric_id id, enum metric_format format,
                        uint64_t number)
{
    metric_head(out, id, format);
    metric_sample(out, id, NULL, number);
}

/* Writes ms as seconds. */
static void process_put_ms(struct strbuf *out, enum metric_id id, enum metric_format format,
                           uint64_t ms)
{
    metric_head(out, id, format);
    metric_sample_milli(out, id, NULL, ms);
}

/* The program's name is in parentheses and may contain parentheses: the last one ends it. */
static bool stat_read(uint64_t field[STAT_RSS + 1])
{
    char *text;
    size_t bytes;
    struct err err;

    if (file_read(stat_file, 4096, &text, &bytes, &err) < 0)
        return false;
    const char *at = strrchr(text, ')');
    int have = STAT_FIRST - 1;
    for (; at != NULL && have < STAT_RSS; have++) {
        at = strchr(at, ' ');
        if (at == NULL)
            break;
        at++;
        field[have + 1] = strtoull(at, NULL, 10);
    }
    xfree(text);
    must(have <= STAT_RSS);
    return have == STAT_RSS;
}

/* The kernel reports the start in clock ticks since boot, suspend included. */
static uint64_t process_start_ms(uint64_t since_boot_ms)
{
    static atomic_uint_fast64_t started_ms;
    struct timespec wall;
    struct timespec boot;
    uint_fast64_t nothing = 0;

    must(clock_gettime(CLOCK_REALTIME, &wall) == 0);
    must(clock_gettime(CLOCK_BOOTTIME, &boot) == 0);
    const int64_t booted_ms =
        ((int64_t)wall.tv_sec - boot.tv_sec) * 1000 + (wall.tv_nsec - boot.tv_nsec) / 1000000;
    (void)atomic_compare_exchange_strong(&started_ms, &nothing,
                                         (uint_fast64_t)(booted_ms + (int64_t)since_boot_ms));
    return atomic_load(&started_ms);
}

static void process_put_stat(struct strbuf *out, enum metric_format format)
{
    const uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t field[STAT_RSS + 1];

    must(ticks > 0 && page > 0);
    if (!stat_read(field))
        return;
    process_put_ms(out, M_PROCESS_CPU, format,
                   (field[STAT_UTIME] + field[STAT_STIME]) * 1000 / ticks);
    process_put(out, M_PROCESS_RESIDENT, format, field[STAT_RSS] * page);
    process_put(out, M_PROCESS_VIRTUAL, format, field[STAT_VSIZE]);
    process_put_ms(out, M_PROCESS_START, format,
                   process_start_ms(field[STAT_START] * 1000 / ticks));
}

/* Does not count ".", ".." and the descriptor of the folder itself. */
static void process_put_files(struct strbuf *out, enum metric_format format)
{
    DIR *folder = opendir(files_folder);
    uint64_t count = 0;
    struct rlimit limit;

    if (folder != NULL) {
        while (readdir(folder) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of its own */
            count++;
        (void)closedir(folder);
    }
    if (count > 3)
        process_put(out, M_PROCESS_FILES, format, count - 3);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        process_put(out, M_PROCESS_FILES_MAX, format, limit.rlim_cur);
    must(out != NULL);
}

void process_metrics(struct strbuf *out, enum metric_format format)
{
    must(out != NULL);
    process_put_stat(out, format);
    process_put_files(out, format);
}
