/*
 * meter_table - what containers use, judged once for each reading.
 *
 * A table is made of the one before, a reading, and the containers; it owns all that it points to.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_METER_TABLE_H
#define MILLIGPU_AGENT_METER_TABLE_H

#include "meter.h"

/* One GPU of one container. */
struct meter_cell {
    struct meter_gpu gpu;
    uint32_t readings; /* one after another, in which it was over its memory */
    int64_t from_ms;   /* monotonic, of the first of them */
    bool is_due;       /* to be killed */
};

struct meter_row {
    struct meter_container container; /* without its GPUs */
    uint32_t cells;
    struct meter_cell *cell;
};

/* A GPU on which processes of no container are. */
struct meter_stray {
    const char *uuid;
    uint32_t readings;
    int64_t from_ms; /* monotonic */
    int64_t last_ms;
};

struct meter_table {
    struct arena arena;
    bool is_complete;
    bool is_metering;
    uint64_t reading; /* its number; 0: none */
    uint32_t unread;  /* readings, one after another, of which no process could be read */
    int64_t taken_ms; /* monotonic */
    uint32_t count;
    struct meter_row *row;
    uint32_t strays;
    struct meter_stray *stray;
};

void meter_table_init(struct meter_table *table);
void meter_table_done(struct meter_table *table);

struct meter_facts {
    const struct gpu_reading *reading;
    const struct containers_copy *containers;
    /*
     * Of each process of the reading: a place in containers, OWNER_NONE, or OWNER_DISPUTED, also if
     * it cannot be told. NULL: none of them could be read, which is the end of them, or a sign
     * that those of the host cannot be seen.
     */
    const int32_t *owner;
    bool sees_host; /* false: it is known that those of the host cannot be seen */
    enum meter_policy policy;
    int64_t grace_ms;
    int64_t wall_ms;
};

/* Fills next, which is empty. Cells are due only in the first table of a reading. */
void meter_table_check(const struct meter_table *before, const struct meter_facts *facts,
                       struct meter_table *next);

/*
 * True: the process at this place of the reading is listed for the GPU before, too. A client of MPS
 * may be in both lists of its GPU.
 */
bool meter_is_repeated(const struct gpu_reading *reading, const struct gpu_state *gpu, uint32_t at);

/* Copies, without what is only ours. */
void meter_table_copy(const struct meter_table *table, struct arena *arena, struct meter_copy *out);
bool meter_stray_counts(const struct meter_stray *stray);

#endif
