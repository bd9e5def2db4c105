/*
 * usage_table - what the agents of the cluster report: who may, and what they said last.
 *
 *   informer --nodes, public keys--> [ book ] <--reports-- report listener
 *                                       |
 *                                       v  REST, metrics, doctor: a counted struct measured
 *
 * One entry for each Node that exists: its agent's public key (of annotation milligpu.io/agent),
 * the number of the last report, and what its shares used. An entry goes with its Node. A node
 * takes about 200 bytes and each of its bound shares 40 (measured.h): 15 MB for 15,000 nodes with
 * 20 shares each. That is not on disk: after a restart it fills within one interval of the agents.
 *
 * But since when a share is idle is on disk once that is MEASURED_KEPT_MS: the book tells the
 * writer when it becomes so, and when not any more (usage_table_idle()). At the start the writer
 * gives back what is stored (usage_table_resume()), and to the first report of a share that is as
 * if this process had taken the last report of the one before: it goes on if that was not longer
 * than MEASURED_FRESH_MS ago, and else begins anew. What is known of that time is when any report
 * was taken, so an agent that was silent before and after a restart may have been silent for twice
 * as long. Of an agent that is silent for longer nothing stays stored.
 *
 * What reports say is also added up by hour, namespace and model (usage_table_sums()), and stored
 * by the writer. Reports overlap: each tells of the last five to ten minutes. No second of a node
 * is counted twice: of each report only what follows the last one that was taken counts, and
 * nothing before the book knew the Node, since the process before this one may have counted it. So
 * a restart leaves at most one interval of the agents unmeasured, and of lost reports the time that
 * no later report covers. That is judged by the monotonic clock; hours are those of the wall clock,
 * which may step: then the seconds count in the hours that it shows now.
 *
 * One lock guards the table. It is held for look-ups and for exchanging a pointer; reports are
 * merged outside, one at a time.
 */
#ifndef MILLIGPU_USAGE_TABLE_H
#define MILLIGPU_USAGE_TABLE_H

#include "milligpu/run/clock.h"
#include "milligpu/sign/signing.h"
#include "milligpu/wire/usage/measured.h"

struct idle_changes;
struct measured_sums;
struct usage_table;

struct usage_table *usage_table_new(const struct clock_ops *clock) MUST_USE;
void usage_table_free(struct usage_table *book); /* NULL is fine */

/*
 * The informer's: each Node that it sees, with the key as the Node shows it (NULL: none), between
 * begin and end of a complete list, and outside. What a list lacked is dropped at its end.
 */
void usage_table_list_begin(struct usage_table *book);
void usage_table_list_end(struct usage_table *book);
void usage_table_node(struct usage_table *book, const char *name, const char *key);
void usage_table_node_gone(struct usage_table *book, const char *name);

/*
 * Before the first list: what is stored of a node (measured_resume()), and when the process before
 * took its last report (UTC; 0: never). Once for each node; until a Node shows it has no key.
 */
void usage_table_resume(struct usage_table *book, const char *name,
                        const struct measured *take_measured, int64_t reported_ms);

/* Of any thread. */
enum sender_state {
    USAGE_SENDER_UNKNOWN, /* there is no such Node */
    USAGE_SENDER_KEYLESS, /* it shows no key that could be one */
    USAGE_SENDER_KEYED,
};
enum sender_state usage_table_key(struct usage_table *book, struct text node,
                                  char out[PUBLIC_KEY_TEXT_BYTES]);

/*
 * Takes a report whose signature by this key is good. node: of a snapshot. False, and nothing is
 * taken: the number is not above the last one of that node and key. One thread at a time.
 */
bool usage_table_take(struct usage_table *book, const struct node *node, const char *key,
                      const struct usage_report *report, const struct measured_how *how,
                      uint32_t *out_unknown) MUST_USE;

/* What was added up: the book's for as long as it lives. Any thread. */
struct measured_sums *usage_table_sums(struct usage_table *book);

/* Which shares became idle, and are so no more, likewise. */
struct idle_changes *usage_table_idle(struct usage_table *book);
/* UTC, of the last report that was taken, of which the changes above tell; 0: there was none. */
int64_t usage_table_last(struct usage_table *book);

/* A reference, for measured_unref(); NULL: its agent has reported nothing. Any thread. */
const struct measured *usage_table_measured(struct usage_table *book, struct text node) MUST_USE;

struct usage_totals {
    uint64_t version;   /* grows whenever an answer of usage_table_measured() may change */
    uint32_t reporting; /* nodes whose last report is not older than MEASURED_FRESH_MS */
    uint32_t shares;
    int64_t last_ms; /* UTC, of the last report; 0: there was none */
};
/* Goes through all nodes. Any thread. */
void usage_table_totals(struct usage_table *book, int64_t now_ms, struct usage_totals *out);
/* The first of them alone. */
uint64_t usage_table_version(struct usage_table *book);

#endif
