/*
 * ports - how many connections the listeners may have, and the open files that these need.
 *
 * The soft limit of open files is raised to what all listeners need together, and to what the rest
 * of the daemon does, up to the hard one.  Where that is too low the limits shrink, all alike, with
 * one warning that names the numbers: what is promised is there.
 */
#ifndef MILLIGPU_APP_PORTS_H
#define MILLIGPU_APP_PORTS_H

#include "milligpu/clock.h"
#include "milligpu/http.h"

enum {
    PORTS_MAX = 3,
    PORTS_CONNECTIONS_LEAST = 16,
    PORTS_OWN_FILES = 128, /* ledger and its log, a backup, 16 connections to the API server and 16
                              for its watches, credential plugins, standard streams */
};

/* Limits in number and time, by where it listens; the rest is the caller's. */
void ports_limits(struct http_rules *rules, uint32_t connections);

/* ERR_INVALID with a sentence where not even the least is there. */
int ports_fit(struct http_rules *rules, size_t count, struct err *err) MUST_USE;

/* What the listeners tell of connections that they closed; a line of the log a minute for each. */
struct ports_news {
    int64_t told_ms[PORTS_MAX][HTTP_CAUSES]; /* monotonic; 0: never */
    uint64_t untold[PORTS_MAX][HTTP_CAUSES];
};
/* From one thread for each port. */
void ports_dropped(struct ports_news *news, size_t port, const char *name, enum http_cause cause,
                   uint32_t count);

#endif
