#include "support_visit.h"

#include <unistd.h>

struct site site;
struct strbuf answer;

int set_up(void **state)
{
    (void)state;
    site_init(&site);
    strbuf_init(&answer);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    site_stop(&site);
    strbuf_done(&answer);
    return 0;
}

void ask_once(const char *request)
{
    const int fd = client_open(&site);

    must(fd >= 0);
    client_ask(fd, request, &answer);
    (void)close(fd);
}
