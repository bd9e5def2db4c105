/*
 * ports - the connection limits of the listeners, and the open files that they need.
 *
 * The soft limit of open files is raised to the needs of all listeners and of the rest of the
 * daemon, at most to the hard limit. If that is too low, all connection limits shrink alike, with
 * one warning that contains the numbers: the files for the remaining connections are guaranteed.
 */
#ifndef MILLIGPU_APP_PORTS_H
#define MILLIGPU_APP_PORTS_H

#include "milligpu/http/http.h"
#include "milligpu/run/clock.h"

enum {
    PORTS_MAX = 5,
    PORTS_CONNECTIONS_LEAST = 16,
    /*
     * ledger and its log, a backup, 16 connections to the API server and 16 for its watches,
     * standard streams
     */
    PORTS_OWN_FILES = 128,
};

/* Sets limits in number and time, depending on the address; the caller sets the rest. */
void ports_limits(struct http_rules *rules, uint32_t connections);

/* ERR_INVALID with a sentence if not even the minimum is available. */
int ports_fit(struct http_rules *rules, size_t count, struct err *err) MUST_USE;

/* Reports of the listeners about connections that they closed; one log line a minute for each. */
struct ports_news {
    int64_t reported_ms[PORTS_MAX][HTTP_CAUSES]; /* monotonic; 0: never */
    uint64_t n_unreported[PORTS_MAX][HTTP_CAUSES];
};
/* From one thread per port. */
void ports_dropped(struct ports_news *news, size_t port, const char *name, enum http_cause cause,
                   uint32_t count);

#endif
