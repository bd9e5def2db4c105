/*
 * pack - a compact encoding of released allocations, for the history.
 *
 * A pack has each text once and refers to it by number. Times and ids are delta-encoded. An
 * allocation with one GPU takes about 50 bytes, beside its texts.
 *
 *   pack       = 1 (the version), count of words, words, count of allocations, allocations
 *   word       = 2 * length + has_uuid, bytes, if has_uuid 16 bytes: 8-4-4-4-12 digits at its end
 *   allocation = delta of the id, uid (like a word), the numbers of namespace, node, node's uid
 *                and first part of the name, length and bytes of the rest of the name, delta of
 *                released_ms, bound_ms and reserved_ms (0, or 1 + delta from released_ms), count
 *                of charges, unplaced_milli if there is none, charges
 *   charge     = at, number of the GPU, milli, mib
 *
 * Numbers are unsigned LEB128; a delta that can be negative is zigzag-encoded (2n or -2n-1). Deltas
 * are from the previous allocation.
 */
#ifndef MILLIGPU_STORE_PACK_H
#define MILLIGPU_STORE_PACK_H

#include "milligpu/base/arena.h"
#include "milligpu/base/err.h"
#include "milligpu/base/limits.h"
#include "milligpu/base/map.h"
#include "milligpu/base/strbuf.h"

struct packed_charge {
    uint32_t at; /* position within the allocation */
    const char *gpu;
    uint32_t milli;
    uint32_t mib;
};

/* One allocation of the history. Texts are borrowed. */
struct packed {
    int64_t id;
    const char *uid;
    const char *namespace;
    const char *name;
    const char *node;
    const char *node_uid;
    /* UTC times; 0: never. */
    int64_t reserved_ms;
    int64_t bound_ms;
    int64_t released_ms;
    uint32_t unplaced_milli; /* 0 if there are charges */
    uint32_t n_charges;
    struct packed_charge charge[PARTS_MAX];
};

/* Columns of table pack: facts for a query without decoding the pack. */
struct pack_facts {
    uint32_t rows;     /* number of allocations */
    int64_t first;     /* lowest allocation id */
    int64_t last;      /* highest allocation id */
    int64_t began_ms;  /* UTC time of the earliest begin */
    int64_t oldest_ms; /* UTC time of the earliest release */
    int64_t ended_ms;  /* UTC time of the latest release */
};

struct packer {
    struct arena arena;
    struct map number; /* struct pack_word, by text */
    struct strbuf words;
    struct strbuf rows;
    struct pack_facts facts;
    int64_t released_ms; /* of the previous allocation */
    uint32_t n_words;
};

void packer_init(struct packer *packer);
void packer_done(struct packer *packer);
/* Adds an allocation, in ascending order of id. */
void packer_add(struct packer *packer, const struct packed *allocation);
/* Appends the pack to out. At least one allocation must have been added. */
void packer_finish(const struct packer *packer, struct strbuf *out);

/* Decodes a pack. The bytes come from a file and are untrusted. */
struct unpacker {
    const uint8_t *at; /* the next byte; NULL after a fault */
    const uint8_t *end;
    struct arena arena; /* the words */
    const char **word;
    uint64_t n_words;
    uint64_t n_rows;      /* number of remaining allocations */
    struct strbuf uid;    /* of the current allocation */
    struct strbuf name;   /* of the current allocation */
    struct packed packed; /* the current allocation, until the next call */
};

void unpacker_init(struct unpacker *unpacker);
void unpacker_done(struct unpacker *unpacker);
/* The bytes must outlive the reading. CORRUPT: not a pack. */
int unpacker_open(struct unpacker *unpacker, struct text bytes, struct err *err) MUST_USE;
/* Returns 1 and sets packed, 0 at the end, CORRUPT for bytes that no packer writes. */
int unpacker_next(struct unpacker *unpacker, struct err *err) MUST_USE;

#endif
