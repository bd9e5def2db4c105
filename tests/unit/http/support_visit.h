/*
 * support_visit - one site, and its last answer.
 */
#ifndef MILLIGPU_TESTS_UNIT_HTTP_SUPPORT_VISIT_H
#define MILLIGPU_TESTS_UNIT_HTTP_SUPPORT_VISIT_H

#include "support.h"

extern struct site site;
extern struct strbuf answer;

/* Before and after each test: the usual rules, not started yet; no answer. */
int set_up(void **state);
int tear_down(void **state);
#define SITE_TEST(name) TEST_WITH(name, void *state, set_up, tear_down)

#define HOST "Host: localhost\r\n"
#define HEAD HOST "Content-Type: application/json\r\n\r\n"

/* One request on a connection of its own. */
void ask_once(const char *request);

/* A POST of so many bytes, of which it holds the first. The caller xfrees it. */
char *post_text(size_t bytes, size_t held);

/* The status of the last answer. */
void assert_status(int status);
void assert_contains(const char *part); /* in any case */

#endif
