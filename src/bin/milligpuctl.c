/* milligpuctl - the operator's command, and as kubectl-milligpu a plugin of kubectl. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/ctl.h"

enum { WIDTH_UNKNOWN = 80 };

/* 0 columns is what a serial line or an editor's shell reports. */
static size_t terminal_width(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return WIDTH_UNKNOWN;
}

/* An empty variable counts as unset, as NO_COLOR demands. */
static const char *milligpuctl_variable(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): the only thread */
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* All that depends on the environment is read here, so that tests can call ctl_main() with any. */
int main(int argc, char **argv)
{
    static_assert(CTL_USAGE == 2, "as kubectl and getopt have it");
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread */
    const bool utf8 = setlocale(LC_CTYPE, "") != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    const struct ctl_environment environment = {
        .server = milligpuctl_variable("MILLIGPU_SERVER"),
        .no_color = milligpuctl_variable("NO_COLOR") != NULL,
        .terminal = isatty(STDOUT_FILENO) == 1,
        .utf8 = utf8,
        .width = terminal_width(),
    };

    return ctl_main(argc, argv, &environment, stdout, stderr);
}
