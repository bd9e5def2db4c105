#include "logged.h"

#include <stdio.h>
#include <unistd.h>

#include "milligpu/base/base.h"

const char *logged(enum log_level level, void (*act)(void *user), void *user)
{
    static char text[65536];
    FILE *caught = tmpfile();
    const int kept = dup(STDERR_FILENO);

    must(caught != NULL && kept >= 0 && dup2(fileno(caught), STDERR_FILENO) >= 0);
    log_set(level, false);
    act(user);
    log_set(LOG_ERROR, false);
    must(dup2(kept, STDERR_FILENO) == STDERR_FILENO && close(kept) == 0);
    must(fseek(caught, 0, SEEK_SET) == 0);
    text[fread(text, 1, sizeof text - 1, caught)] = '\0';
    must(fclose(caught) == 0);
    return text;
}
