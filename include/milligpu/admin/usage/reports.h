/*
 * reports - takes what agents report of usage (usage_report.h), on a listener of its own.
 *
 *     POST /v1/usage  ->  204 taken
 *                         400 413  the report cannot be right, and which member is not
 *                         401      nobody whom the Node names signed it
 *                         404      there is no such Node
 *                         409      its number was taken
 *                         503      the lists of nodes and pods are not complete yet
 *
 * No report is queued and nothing is granted by it: the agent sends again what was not taken.
 * The first report of a container that holds more memory than its share makes an Event on its pod,
 * and an entry in the journal through the writer; either is dropped rather than waited for.
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
