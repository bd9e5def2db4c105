/*
 * meter_table - usage of containers, evaluated once per reading.
 *
 * A table is computed from the previous one, a reading, and the containers. Its arena holds all its
 * pointers.
 *
 * Pure.
 */
#ifndef MILLIGPU_AGENT_METER_TABLE_H
#define MILLIGPU_AGENT_METER_TABLE_H

#include "meter.h"

/* One GPU of one container. */
struct meter_cell {
    struct meter_gpu gpu;
    uint32_t readings; /* consecutive readings in which it was over its memory */
    int64_t from_ms;   /* monotonic time of the first of them */
    bool is_due;       /* to be killed */
};

struct meter_row {
    struct meter_container container; /* its gpu and gpus are unset */
    uint32_t n_cells;
    struct meter_cell *cell;
};

/* A GPU with processes of no container. */
struct meter_stray {
    const char *uuid;
    uint32_t readings; /* consecutive readings with such processes */
    /* Monotonic times of the first and the last of them. */
    int64_t from_ms;
    int64_t last_ms;
};

struct meter_table {
    struct arena arena;
    bool is_complete;
    bool is_metering;
    uint64_t reading; /* number of the reading; 0 if none */
    uint32_t unread;  /* consecutive readings without a readable process */
    int64_t taken_ms; /* monotonic time of the reading */
    uint32_t count;
    struct meter_row *row;
    uint32_t n_strays;
    struct meter_stray *stray;
};

void meter_table_init(struct meter_table *table);
void meter_table_done(struct meter_table *table);

struct meter_facts {
    const struct gpu_reading *reading;
    const struct containers_copy *containers;
    /*
     * For each process of the reading: an index into containers, OWNER_NONE, or OWNER_DISPUTED
     * (also if unknown). NULL: no process could be read; all have ended, or the host's processes
     * are hidden.
     */
    const int32_t *owner;
    bool sees_host; /* false: the host's processes are known to be hidden */
    enum meter_policy policy;
    int64_t grace_ms;
    int64_t wall_ms; /* UTC, now */
};

/* Fills next, which must be empty. Cells are due only in the first table of a reading. */
void meter_table_check(const struct meter_table *before, const struct meter_facts *facts,
                       struct meter_table *next);

/*
 * True if the process at this index of the reading is an earlier one of the GPU, too. An MPS client
 * can be in both process lists of its GPU.
 */
bool meter_is_repeated(const struct gpu_reading *reading, const struct gpu_state *gpu, uint32_t at);

/* Copies the public part of a table. */
void meter_table_copy(const struct meter_table *table, struct arena *arena, struct meter_copy *out);
/* True if the stray was seen long enough for meter_outside(). */
bool meter_stray_counts(const struct meter_stray *stray);

#endif
