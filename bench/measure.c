#include "measure.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"

bool options_read(int argc, char **argv, struct options *out)
{
    *out = (struct options){.folder = ".", .daemon = "milligpud"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            out->quick = true;
        } else if (strcmp(argv[i], "--folder") == 0 && i + 1 < argc) {
            out->folder = argv[++i];
        } else if (strcmp(argv[i], "--daemon") == 0 && i + 1 < argc) {
            out->daemon = argv[++i];
        } else {
            (void)fprintf(stderr, "usage: %s [--quick] [--folder DIR] [--daemon FILE]\n", argv[0]);
            return false;
        }
    }
    return true;
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    must(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t wall_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

void say(const char *name, double value, const char *unit)
{
    const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;

    (void)printf("%-64s %10.*f %s\n", name, digits, value, unit);
    (void)fflush(stdout);
}

void series_init(struct series *series)
{
    *series = (struct series){0};
}

void series_done(struct series *series)
{
    xfree(series->ns);
    *series = (struct series){0};
}

void series_add(struct series *series, int64_t ns)
{
    series->ns = xgrow(series->ns, series->count, &series->capacity, sizeof *series->ns);
    series->ns[series->count++] = ns;
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void say_part(const char *name, const char *part, double ns)
{
    char full[128];

    (void)snprintf(full, sizeof full, "%s.%s", name, part);
    say(full, ns / 1000, "us");
}

void series_say(struct series *series, const char *name)
{
    double sum = 0;

    must(series->count > 0);
    qsort(series->ns, series->count, sizeof *series->ns, compare);
    for (size_t i = 0; i < series->count; i++)
        sum += (double)series->ns[i];
    say_part(name, "mean", sum / (double)series->count);
    const size_t half = series->count / 2;
    const size_t most = series->count * 99 / 100;
    say_part(name, "p50", (double)series->ns[half]);
    say_part(name, "p99", (double)series->ns[most]);
}

/* --- /proc --- */

static void read_proc(pid_t pid, const char *file, char *out, size_t bytes)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    FILE *in = fopen(path, "re");
    must(in != NULL);
    const size_t got = fread(out, 1, bytes - 1, in);
    out[got] = '\0';
    must(fclose(in) == 0);
}

int64_t process_kib(pid_t pid, const char *field)
{
    char status[4096];

    read_proc(pid, "status", status, sizeof status);
    const char *at = strstr(status, field);
    must(at != NULL);
    return strtoll(at + strlen(field) + 1, NULL, 10); /* after the colon */
}

int64_t process_cpu_ns(pid_t pid)
{
    struct timespec spent;
    clockid_t clock;

    must(clock_getcpuclockid(pid, &clock) == 0);
    must(clock_gettime(clock, &spent) == 0);
    return spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec;
}

/* How often a thread slept and went on. */
static int64_t thread_wakeups(pid_t pid, const char *task)
{
    static const char field[] = "\nvoluntary_ctxt_switches:";
    char file[64];
    char status[4096];

    (void)snprintf(file, sizeof file, "task/%.20s/status", task);
    read_proc(pid, file, status, sizeof status);
    const char *at = strstr(status, field);
    must(at != NULL);
    return strtoll(at + strlen(field), NULL, 10);
}

int64_t process_wakeups(pid_t pid)
{
    char path[64];
    int64_t all = 0;
    const struct dirent *entry;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    must(dir != NULL);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this stream */
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            all += thread_wakeups(pid, entry->d_name);
    must(closedir(dir) == 0);
    return all;
}

/* --- the disk --- */

void folder_make(const char *below, char *out, size_t bytes)
{
    must((size_t)snprintf(out, bytes, "%s/milligpu-bench-XXXXXX", below) < bytes);
    must(mkdtemp(out) != NULL);
}

void folder_drop(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    must(dir != NULL);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this stream */
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            must(unlinkat(dirfd(dir), entry->d_name, 0) == 0);
    must(closedir(dir) == 0);
    must(rmdir(folder) == 0);
}

double sync_rate(const char *folder, uint32_t writes)
{
    char path[4096];
    static const char block[4096];

    must((size_t)snprintf(path, sizeof path, "%s/sync", folder) < sizeof path);
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0);
    const int64_t begun = wall_ns();
    for (uint32_t i = 0; i < writes; i++) {
        must(write(fd, block, sizeof block) == (ssize_t)sizeof block);
        must(fdatasync(fd) == 0);
    }
    const double rate = writes * 1e9 / (double)(wall_ns() - begun);
    must(close(fd) == 0);
    must(unlink(path) == 0);
    return rate;
}

uint32_t draw(uint64_t *seed, uint32_t below)
{
    must(below > 0);
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(((*seed >> 33) * below) >> 31);
}
