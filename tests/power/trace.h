/*
 * trace - a load on the real store, and every operation that it made on the disk.
 *
 * The load does all that can happen to a ledger: it is made, claimed, written in batches of one to
 * a dozen commands, given the learned workload and the remembered agents, checkpointed, folded,
 * read meanwhile, copied, closed, opened and migrated. The same seed records the same operations.
 */
#ifndef MILLIGPU_TESTS_POWER_TRACE_H
#define MILLIGPU_TESTS_POWER_TRACE_H

#include "milligpu/base/strbuf.h"
#include "milligpu/store/store.h"

#include "support/disk.h"

/* The ledger after a commit. */
struct trace_state {
    uint64_t digest; /* of its dump */
    uint64_t seq;    /* of its newest journal entry */
};

struct trace_event {
    enum disk_event_kind kind;
    uint32_t file;
    size_t at;
    size_t len;
    size_t from; /* offset of its bytes or its name in trace.bytes */
    size_t other;
    /* The last commit acknowledged before this operation, and the last that may be on the disk. */
    uint32_t acknowledged;
    uint32_t begun;
    /* The same for the learned workload: 1 and up, or 0. */
    uint32_t learned;
    uint32_t learning;
    uint32_t copies; /* backups acknowledged so far */
    bool claimed;
    bool migrates; /* from now on, only the next version opens the ledger */
};

/* A backup: its name, and the state that it holds. */
struct trace_copy {
    char *name;
    uint32_t state;
};

struct trace {
    char folder[64];
    char path[96];
    struct trace_event *event;
    size_t n_events;
    size_t event_room;
    struct strbuf bytes;
    struct trace_state *state; /* state[0]: nothing is written yet */
    size_t n_states;
    size_t state_room;
    struct trace_copy *copy;
    size_t n_copies;
    size_t copy_room;
    uint32_t checkpoints;
    uint32_t folds;
    uint32_t reopenings;
    uint32_t versions; /* pods that were judged again in a later version */
};

struct trace_rules {
    uint64_t seed;
    uint32_t commits;
    bool unsynced; /* an open ledger syncs nothing: the check must find the loss */
};

void trace_record(struct trace *trace, const struct trace_rules *rules);
void trace_done(struct trace *trace);

/* The version that the load migrates to, one ahead of ours. */
const struct store_schema *trace_next_schema(void);

uint64_t trace_digest(const struct ledger *ledger);

/* The nth workload that was learned, the same each time. */
struct tally *trace_tally(uint32_t nth) MUST_USE;

#endif
