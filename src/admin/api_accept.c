/*
 * Chooses the format of the metrics by the header Accept (RFC 9110). Called by the router in an
 * admin thread or the probe thread; stateless.
 *
 * OpenMetrics is only for clients that name it: a browser or curl, which accept anything, get plain
 * text. Clients that accept neither get plain text, too, because a page helps more than a refusal.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api_internal.h"

enum { Q_MAX = 1000 }; /* q in thousandths: it has up to three digits */

/* The weight of one format, from the most specific range of the header that matches. */
struct accept_weight {
    const char *type;
    const char *version;
    int rank; /* of the matching range: 0 none, 1 any, 2 the kind, 3 the type, 4 its version */
    int q;
};

/* "0.333" in thousandths; an invalid value counts as 1, like an absent one. */
static int accept_q(struct text value)
{
    int q = 0;

    if (value.len == 0 || (value.at[0] != '0' && value.at[0] != '1') ||
        (value.len > 1 && value.at[1] != '.'))
        return Q_MAX;
    for (size_t i = 0, digits = 0; digits < 4; i++) {
        if (i == 1)
            continue;
        const char c = i < value.len ? value.at[i] : '0';
        if (c < '0' || c > '9')
            return Q_MAX;
        q = q * 10 + (c - '0');
        digits++;
    }
    return q < Q_MAX ? q : Q_MAX;
}

static struct text accept_unquoted(struct text value)
{
    must(value.at != NULL || value.len == 0);
    if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
        return (struct text){value.at + 1, value.len - 2};
    return value;
}

static bool accept_same(struct text have, const char *want)
{
    must(want[0] != '\0');
    return have.len == strlen(want) && strncasecmp(have.at, want, have.len) == 0;
}

static int accept_rank(struct text range, const char *type, bool versioned)
{
    const size_t kind = strcspn(type, "/");

    must(type[kind] == '/');
    if (accept_same(range, type))
        return versioned ? 4 : 3;
    if (range.len == kind + 2 && strncasecmp(range.at, type, kind + 1) == 0 &&
        range.at[kind + 1] == '*')
        return 2;
    return accept_same(range, "*/*") ? 1 : 0;
}

/* Reads "text/plain;version=0.0.4;q=0.3"; ignores other parameters, such as escaping. */
static void accept_range(struct accept_weight *weight, struct text rest)
{
    struct text range;
    struct text piece;
    struct text version = TEXT("");
    int q = Q_MAX;

    if (!text_cut(&rest, ';', &range))
        return;
    while (text_cut(&rest, ';', &piece)) {
        struct text name;
        if (!text_cut(&piece, '=', &name))
            continue;
        const struct text value = accept_unquoted(text_trim(piece));
        if (accept_same(text_trim(name), "q"))
            q = accept_q(value);
        else if (accept_same(text_trim(name), "version"))
            version = value;
    }
    if (version.len > 0 && !text_is(version, weight->version))
        return;
    const int rank = accept_rank(text_trim(range), weight->type, version.len > 0);
    must(rank >= 0 && q >= 0);
    if (rank == 0 || rank < weight->rank || (rank == weight->rank && q <= weight->q))
        return;
    weight->rank = rank;
    weight->q = q;
}

static void accept_weigh(struct accept_weight *weight, const char *accept)
{
    struct text rest = text_of(accept);
    struct text range;

    must(weight->rank == 0);
    while (text_cut(&rest, ',', &range))
        accept_range(weight, text_trim(range));
}

enum metric_format api_accept_metrics(const char *accept)
{
    struct accept_weight open = {.type = "application/openmetrics-text", .version = "1.0.0"};
    struct accept_weight plain = {.type = "text/plain", .version = "0.0.4"};

    if (accept == NULL)
        return METRIC_PLAIN;
    accept_weigh(&open, accept);
    accept_weigh(&plain, accept);
    must(open.q <= Q_MAX && plain.q <= Q_MAX);
    return open.rank >= 3 && open.q > 0 && open.q >= plain.q ? METRIC_OPEN : METRIC_PLAIN;
}
