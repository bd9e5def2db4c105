/*
 * support_visit - one site, and what it answered last.
 */
#ifndef MILLIGPU_TESTS_UNIT_HTTP_SUPPORT_VISIT_H
#define MILLIGPU_TESTS_UNIT_HTTP_SUPPORT_VISIT_H

#include "support.h"

extern struct site site;
extern struct strbuf answer;

/* Before and after each test: the usual rules, not started yet; no answer. */
int set_up(void **state);
int tear_down(void **state);

/* One request on a connection of its own. */
void ask_once(const char *request);

#endif
