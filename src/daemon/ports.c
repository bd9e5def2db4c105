/*
 * Connection limits of the listeners, and the open files that they need (docs/why/015). Called by
 * the main thread, except for ports_dropped(), which each listener's watch thread calls.
 */
#include "ports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "milligpu/http/http.h"
#include "milligpu/run/log.h"
#include "milligpu/run/metric.h"

enum {
    /* from accept to the first byte, and for the whole TLS handshake */
    FIRST_MS = 5000,
    IDLE_MS = 120000, /* longer than Go's 90 s, so that the client closes first */
    REQUEST_MS = 10000,
    SHRINK_PART = 16,
    /* interval between log lines of one port and cause */
    REPORT_MS = 60000,
};

/*
 * The limit per address is below the total, so that a flood from one address does not lock out
 * others, even if no connection is closed. It must allow one kube-scheduler with 3,000 binds.
 */
static uint32_t each_of(uint32_t strangers)
{
    must(strangers >= PORTS_CONNECTIONS_LEAST);
    return strangers - strangers / 4;
}

/*
 * A client is authenticated by a certificate, or on loopback by a complete request; elsewhere all
 * clients stay unauthenticated and share one limit.
 */
void ports_limits(struct http_rules *rules, uint32_t connections)
{
    must(connections >= PORTS_CONNECTIONS_LEAST);
    rules->has_request_proof =
        rules->client_ca_file == NULL && http_address_is_loopback(rules->listen);
    rules->connections =
        rules->has_request_proof || rules->client_ca_file != NULL ? connections : 0;
    rules->strangers = connections;
    rules->strangers_each = each_of(connections);
    rules->first_ms = FIRST_MS;
    rules->idle_ms = IDLE_MS;
    rules->request_ms = REQUEST_MS;
}

static uint64_t files_of(const struct http_rules *rules, size_t count)
{
    uint64_t files = PORTS_OWN_FILES;

    must(count <= PORTS_MAX);
    for (size_t i = 0; i < count; i++)
        files += http_files(&rules[i]);
    return files;
}

/* Returns false if the listener already is at its minimum. */
static bool ports_shrink(struct http_rules *rules)
{
    const uint32_t before = rules->strangers;
    uint32_t after = before - before / SHRINK_PART - 1;

    must(before >= PORTS_CONNECTIONS_LEAST);
    if (after < PORTS_CONNECTIONS_LEAST)
        after = PORTS_CONNECTIONS_LEAST;
    ports_limits(rules, after);
    return after < before;
}

static void ports_warn(const struct http_rules *rules, size_t count, uint64_t wanted, uint64_t hard)
{
    char of[100] = "";
    size_t len = 0;

    for (size_t i = 0; i < count && len < sizeof of; i++) {
        const int more = snprintf(of + len, sizeof of - len, "%s%s %u", i > 0 ? ", " : "",
                                  rules[i].name, (unsigned)rules[i].strangers);
        must(more > 0);
        len += (size_t)more;
    }
    log_write(
        LOG_WARN,
        "the limit of open files allows fewer connections than the settings: raise the hard limit",
        log_i64("open_files", hard), log_i64("wanted", wanted), log_str("connections", of));
}

/*
 * Shrinks all listeners in proportion, in small steps. The daemon does not start below their
 * minimum, because accept() would fail under load.
 */
static int make_fit(struct http_rules *rules, size_t count, uint64_t hard, struct err *err)
{
    const uint64_t wanted = files_of(rules, count);
    bool smaller = true;

    must(wanted > hard);
    while (smaller && files_of(rules, count) > hard) {
        smaller = false;
        for (size_t i = 0; i < count; i++)
            smaller = ports_shrink(&rules[i]) || smaller;
    }
    const uint64_t least = files_of(rules, count);
    if (least > hard)
        return err_set(
            err, ERR_INVALID,
            "the hard limit of open files is %llu: raise it to %llu at least, or to %llu for "
            "as many connections as the settings allow",
            (unsigned long long)hard, (unsigned long long)least, (unsigned long long)wanted);
    ports_warn(rules, count, wanted, hard);
    return 0;
}

/*
 * Raises only the soft limit, which needs no privilege, and never lowers it.
 */
int ports_fit(struct http_rules *rules, size_t count, struct err *err)
{
    struct rlimit limit;

    must(count > 0 && count <= PORTS_MAX);
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max < files_of(rules, count) && make_fit(rules, count, limit.rlim_max, err) < 0)
        return -(int)err->code;
    const uint64_t need = files_of(rules, count);
    must(need <= limit.rlim_max);
    if (limit.rlim_cur >= need)
        return 0;
    limit.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return err_set(err, ERR_IO, "the limit of open files cannot be raised to %llu: %s",
                       (unsigned long long)need, strerrordesc_np(errno));
    return 0;
}

/*
 * Without a lock: each element of news belongs to one port, and each port to one thread. The first
 * event is logged at once, later ones in totals; the metric counts all.
 */
void ports_dropped(struct ports_news *news, size_t port, const char *name, enum http_cause cause,
                   uint32_t count)
{
    const int64_t now_ms = clock_ms();

    must(port < PORTS_MAX && cause < HTTP_CAUSES);
    metric_add(M_HTTP_DROPPED, LABEL_VALUES(name, http_cause_word(cause)), count);
    news->n_unreported[port][cause] += count;
    if (news->reported_ms[port][cause] != 0 && now_ms - news->reported_ms[port][cause] < REPORT_MS)
        return;
    news->reported_ms[port][cause] = now_ms;
    log_write(LOG_WARN, "connections were closed", log_str("port", name),
              log_str("cause", http_cause_word(cause)),
              log_i64("count", news->n_unreported[port][cause]));
    news->n_unreported[port][cause] = 0;
}
