/*
 * ports - the connection limits of the listeners, and the open files that they need.
 *
 * The soft limit of open files is raised to the needs of all listeners and the rest of the daemon,
 * at most to the hard limit. If the hard limit is too low, all connection limits shrink in
 * proportion, with one warning, so that the remaining connections always have their files.
 */
#ifndef MILLIGPU_APP_PORTS_H
#define MILLIGPU_APP_PORTS_H

#include "milligpu/http/http.h"
#include "milligpu/run/clock.h"

enum {
    PORTS_MAX = 5,
    PORTS_CONNECTIONS_LEAST = 16,
    /*
     * open files besides the listeners': ledger and its log, a backup, 16 connections to the API
     * server and 16 for its watches, standard streams
     */
    PORTS_OWN_FILES = 128,
};

/* Sets connection limits and timeouts depending on the address; the caller sets the rest. */
void ports_limits(struct http_rules *rules, uint32_t connections);

/* Returns ERR_INVALID if not even the minimum fits. */
int ports_fit(struct http_rules *rules, size_t count, struct err *err) MUST_USE;

/* Connections closed by the listeners, logged at most once a minute per port and cause. */
struct ports_news {
    int64_t reported_ms[PORTS_MAX][HTTP_CAUSES]; /* time of the last log line, monotonic; or 0 */
    uint64_t n_unreported[PORTS_MAX][HTTP_CAUSES];
};
/* To be called by one thread per port. */
void ports_dropped(struct ports_news *news, size_t port, const char *name, enum http_cause cause,
                   uint32_t count);

#endif
