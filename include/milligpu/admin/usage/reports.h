/*
 * reports - accepts usage reports of agents (usage_report.h), on a listener of its own.
 *
 *     POST /v1/usage  ->  204      accepted
 *                         400 413  invalid; the text names the member
 *                         401      not signed with the key that the Node shows
 *                         404      no such Node
 *                         409      replayed: a report of this number was accepted before
 *                         503      the lists of nodes and pods are not complete yet
 *
 * Reports are not queued and grant nothing; the agent retries one that was not accepted. The first
 * report that a container holds more memory than its share makes an Event on its pod, and a
 * journal entry through the writer; either is dropped rather than waited for.
 */
#ifndef MILLIGPU_REPORTS_H
#define MILLIGPU_REPORTS_H

#include "milligpu/spine/app.h"

struct http_call;
struct reports;

struct reports *reports_new(struct app *app) MUST_USE;
void reports_free(struct reports *reports); /* NULL is fine */

/* Answers a call on the report listener. One thread at a time. */
void reports_handle(struct reports *reports, struct http_call *call);
bool reports_takes_body(const char *method, const char *path);

#endif
