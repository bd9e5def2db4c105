/* main() of milligpuctl, the operator's command, and as kubectl-milligpu a plugin of kubectl. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command_table.h"
#include "ctl/ctl.h"

enum { WIDTH_UNKNOWN = 80, SIZE_MOST = 10000 };

/* A number of columns or lines from the environment; 0 if none. */
static size_t size_of_variable(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): the only thread */
    size_t size = 0;

    for (; value != NULL && *value >= '0' && *value <= '9' && size < SIZE_MOST; value++)
        size = size * 10 + (size_t)(*value - '0');
    return value == NULL || *value != '\0' || size >= SIZE_MOST ? 0 : size;
}

/*
 * COLUMNS and LINES count where the terminal reports size 0, as serial lines and shells in editors
 * do.
 */
static void measure(size_t *width, size_t *rows)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    *width = size.ws_col > 0 ? size.ws_col : size_of_variable("COLUMNS");
    *rows = size.ws_row > 0 ? size.ws_row : size_of_variable("LINES");
    if (*width == 0)
        *width = WIDTH_UNKNOWN;
}

/* An empty variable counts as unset, as NO_COLOR requires. */
static const char *milligpuctl_variable(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): the only thread */
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Reads the whole environment here, so that tests can pass their own to ctl_main(). */
int main(int argc, char **argv)
{
    static_assert(CTL_USAGE == 2, "as kubectl and getopt have it");
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread */
    const bool utf8 = setlocale(LC_CTYPE, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    struct ctl_environment environment = {
        .commands = &milligpuctl_commands,
        .server = milligpuctl_variable("MILLIGPU_SERVER"),
        .no_color = milligpuctl_variable("NO_COLOR") != NULL,
        .terminal = isatty(STDOUT_FILENO) == 1,
        .utf8 = utf8,
        .measure = measure,
    };

    measure(&environment.width, &environment.rows);
    return ctl_main(argc, argv, &environment, stdout, stderr);
}
