#include "support_visit.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

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
    client_close_all();
    site_stop(&site);
    strbuf_done(&answer);
    return 0;
}

void ask_once(const char *request)
{
    const int fd = client_open(&site);

    must(fd >= 0);
    client_ask(fd, request, &answer);
    client_close(fd);
}

char *post_text(size_t bytes, size_t held)
{
    struct strbuf text;

    strbuf_init(&text);
    strbuf_printf(&text, "POST /echo HTTP/1.1\r\nContent-Length: %zu\r\n" HEAD, bytes);
    for (size_t i = 0; i < held; i++)
        strbuf_char(&text, 'x');
    return strbuf_steal(&text);
}

void assert_status(int status)
{
    char line[32];
    (void)snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(answer.data, line, strlen(line)) != 0)
        fail_msg("not %d: \"%s\"", status, answer.data);
}

void assert_contains(const char *part)
{
    if (strcasestr(answer.data, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, answer.data);
}
