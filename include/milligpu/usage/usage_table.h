/*
 * usage_table - public key and last usage report of each agent.
 *
 *   informer --nodes, public keys--> [ table ] <--reports-- report listener
 *                                       |
 *                                       v  REST, metrics, doctor: a counted struct measured
 *
 * One entry for each existing Node that has a key, or whose agent has reported: the agent's public
 * key (annotation milligpu.io/agent), the number of the last report, and the usage of the shares.
 * A Node without an agent takes no memory, so the table does not know whether it exists. A key that
 * is taken away before the first report takes the entry with it; after that, the usage stays until
 * the Node is gone. An entry takes about 200 bytes and each bound share 40 (measured.h): 15 MB for
 * 15,000 agents with 20 shares each. Only in memory: after a restart the table fills within one
 * report interval.
 *
 * Idle times of MEASURED_KEPT_MS and more are persistent: the writer stores their begin and end
 * (usage_table_idle()) and restores them at the start (usage_table_resume()). The first report of a
 * share after a restart continues its idle time if the previous process took its last report within
 * MEASURED_FRESH_MS; otherwise the idle time begins anew. The time of the last report is stored for
 * all agents together, not for each, so an agent that was silent before and after a restart may
 * have been silent for twice as long. Nothing stays stored for agents that are silent for longer.
 *
 * Usage is also summed by hour, namespace and model (usage_table_sums()), and the writer stores the
 * sums. Reports overlap: each covers the last five to ten minutes. No second of a node is counted
 * twice: a report counts only from the previous report on, and not before the Node's entry began,
 * because the previous process or an earlier entry may have counted that time. A restart therefore
 * leaves at most one report interval unmeasured, a new agent the time until the table has its key,
 * and lost reports the time that no later report covers. These times are monotonic; the hours are
 * those of the wall clock as it is at the report.
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
void usage_table_free(struct usage_table *table); /* NULL is fine */

/*
 * Called by the informer for each Node, with the key in its annotation (NULL: none), within and
 * outside of a list. The end of a complete list drops the entries of Nodes that it did not contain.
 */
void usage_table_list_begin(struct usage_table *table);
void usage_table_list_end(struct usage_table *table);
void usage_table_node(struct usage_table *table, const char *name, const char *key);
void usage_table_node_gone(struct usage_table *table, const char *name);

/*
 * Restores the stored idle times of a node (measured_resume()), before the first list, once for
 * each node. reported_ms: UTC time of the last report that the previous process took; 0: none. The
 * entry has no key until the informer shows the Node with one.
 */
void usage_table_resume(struct usage_table *table, const char *name,
                        const struct measured *take_measured, int64_t reported_ms);

/* The key of a Node. False: it has no valid key, or there is no such Node. Any thread. */
bool usage_table_key(struct usage_table *table, struct text node,
                     char out[PUBLIC_KEY_TEXT_BYTES]) MUST_USE;

/*
 * Takes a report with a valid signature by this key. node: from a snapshot. False: ignored, because
 * its number is not above the last one of this node and key. One thread at a time.
 */
bool usage_table_take(struct usage_table *table, const struct node *node, const char *key,
                      const struct usage_report *report, const struct measured_how *how,
                      uint32_t *out_unknown) MUST_USE;

/* Owned by the table, valid while it lives. Any thread. */
struct measured_sums *usage_table_sums(struct usage_table *table);
struct idle_changes *usage_table_idle(struct usage_table *table);

/* UTC time of the last report, included in the idle changes; 0 if none. */
int64_t usage_table_last(struct usage_table *table);

/* A reference, for measured_unref(); NULL: no report yet. Any thread. */
const struct measured *usage_table_measured(struct usage_table *table, struct text node) MUST_USE;

struct usage_totals {
    uint64_t version;   /* grows whenever an answer of usage_table_measured() may change */
    uint32_t reporting; /* nodes with a report not older than MEASURED_FRESH_MS */
    uint32_t shares;
    int64_t last_ms; /* UTC time of the last report; 0 if none */
};
/* Walks over all entries. Any thread. */
void usage_table_totals(struct usage_table *table, int64_t now_ms, struct usage_totals *out);
/* usage_totals.version without the walk. */
uint64_t usage_table_version(struct usage_table *table);

#endif
