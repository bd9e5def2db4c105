/*
 * The wall clock as a file tells it to be: to be preloaded (LD_PRELOAD) into a program.
 *
 *     FAKE_CLOCK=file      seconds by which it is ahead; negative: behind; no file: it is right
 *
 * The file is read at each question. All other clocks are the kernel's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static long ahead_s(void)
{
    const char *file = getenv("FAKE_CLOCK"); /* NOLINT(concurrency-mt-unsafe) */
    char text[24] = "";

    if (file == NULL)
        return 0;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    return len > 0 ? strtol(text, NULL, 10) : 0;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *out)
{
    const int rc = (int)syscall(SYS_clock_gettime, id, out);

    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        out->tv_sec += ahead_s();
    return rc;
}

EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t seconds_now(time_t *out) __asm__("time"); /* whose name is banned */
EXPORT time_t seconds_now(time_t *out)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
