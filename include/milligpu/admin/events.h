/*
 * events - streams of what changes in the ledger, as server-sent events (/api/v1/events).
 *
 *   the writer: COMMIT, publish, commits_post() -> events_main(): the journal's new entries, once
 *   -> each stream that has room
 *
 * One thread feeds all streams; it reads the journal at most 20 times a second, however often the
 * writer commits. A stream is fed no faster than its client reads, so its memory is bounded: a slow
 * client falls behind, and the journal holds the entries that it has not received.
 */
#ifndef MILLIGPU_EVENTS_H
#define MILLIGPU_EVENTS_H

#include "milligpu/spine/app.h"

struct http_call;

enum { EVENTS_STREAMS_MAX = 16 };

struct events *events_new(struct app *app) MUST_USE;
void events_free(struct events *events); /* after events_main() has returned; NULL is fine */

/*
 * Answers the call with a stream of the entries after this number. Returns false, with the call
 * unanswered, if EVENTS_STREAMS_MAX streams are open or milligpud is stopping. Any thread.
 */
bool events_open(struct events *events, struct http_call *call, uint64_t after) MUST_USE;

/* Feeds the streams until events_stop(), and ends them all before it returns. */
void events_main(struct events *events);
void events_stop(struct events *events);

#endif
