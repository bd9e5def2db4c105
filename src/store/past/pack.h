/*
 * pack - allocations that have ended, in few bytes: what the history tells of them.
 *
 * A pack has the texts of its allocations once and refers to them by number. Times and ids are
 * distances. An allocation with one GPU takes about 50 bytes, beside its texts.
 *
 *   pack       = 1 (the version), count of words, words, count of allocations, allocations
 *   word       = 2 * length + has_uuid, bytes, if has_uuid 16 bytes: 8-4-4-4-12 digits at its end
 *   allocation = distance of the id from the one before, uid (like a word), the numbers of
 *                namespace, node, node's uid and first part of the name, length and bytes of the
 *                rest of the name, released_ms (distance from the one before), bound_ms and
 *                reserved_ms (0, or 1 + distance from released_ms), count of charges,
 *                unplaced_milli if there is none, charges
 *   charge     = at, number of the GPU, milli, mib
 *
 * Numbers are unsigned LEB128; a distance that can be negative is written as 2n or -2n-1 (zigzag).
 */
#ifndef MILLIGPU_STORE_PACK_H
#define MILLIGPU_STORE_PACK_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/map.h"
#include "milligpu/base/strbuf.h"

struct packed_charge {
    uint32_t at; /* its position within the allocation */
    const char *gpu;
    uint32_t milli;
    uint32_t mib;
};

/* What the history tells of one allocation. Texts are borrowed. */
struct packed {
    int64_t id;
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const char *node_uid;
    int64_t reserved_ms; /* UTC, like the next two; 0: never */
    int64_t bound_ms;
    int64_t released_ms;
    uint32_t unplaced_milli; /* 0 if there are charges */
    uint32_t charges;
    struct packed_charge charge[PARTS_MAX];
};

/* What is known of a pack without reading it. */
struct pack_facts {
    uint32_t rows; /* allocations */
    int64_t first; /* id */
    int64_t last;
    int64_t began_ms;  /* when the earliest of them began */
    int64_t oldest_ms; /* when the first of them ended */
    int64_t ended_ms;  /* when the last of them ended */
};

struct packer {
    struct arena arena;
    struct map number; /* of each word */
    struct strbuf words;
    struct strbuf rows;
    struct pack_facts facts;
    int64_t released_ms; /* of the one before */
    uint32_t n_words;
};

void packer_init(struct packer *packer);
void packer_done(struct packer *packer);
/* In ascending order of id. */
void packer_add(struct packer *packer, const struct packed *allocation);
/* Adds the pack to out. At least one allocation was added. */
void packer_finish(const struct packer *packer, struct strbuf *out);

/* Reads a pack: bytes of a file, so anything may be in it. */
struct unpacker {
    const uint8_t *at;
    const uint8_t *end;
    struct arena arena; /* the words */
    const char **word;
    uint64_t n_words;
    uint64_t n_rows;      /* that are left */
    struct strbuf uid;    /* of the current allocation */
    struct strbuf name;   /* likewise */
    struct packed packed; /* the current allocation, until the next call */
};

void unpacker_init(struct unpacker *unpacker);
void unpacker_done(struct unpacker *unpacker);
/* The bytes must outlive the reading. CORRUPT: no pack. */
int unpacker_open(struct unpacker *unpacker, struct text bytes, struct err *err) MUST_USE;
/* 1: is has the next allocation, 0: there is none, CORRUPT: not what a packer writes. */
int unpacker_next(struct unpacker *unpacker, struct err *err) MUST_USE;

#endif
