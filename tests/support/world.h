/*
 * world - a small ledger with the words to play with it, for tests.
 *
 * world_do() decides, applies and verifications; what it applied can be undone, newest first.
 * world_dump() writes a ledger or a snapshot as text in one fixed order, so that two of them
 * can be compared.
 */
#ifndef MILLIGPU_TESTS_WORLD_H
#define MILLIGPU_TESTS_WORLD_H

#include "milligpu/ledger.h"
#include "milligpu/pod.h"

struct world {
    struct ledger *ledger;
    struct arena arena; /* requests, pods, inventories: dropped at the end */
    int64_t now_ms;
    enum reason reason;  /* of the last verdict */
    struct change *done; /* newest last */
    size_t dones;
    size_t capacity;
};

void world_init(struct world *world);
void world_done(struct world *world);
/* Before and after a test of cmocka: an empty world of its own. */
int world_set_up(void **state);
int world_tear_down(void **state);

enum verdict world_do(struct world *world, const struct command *command);
/* The same without the verification, and for good: where there are too many for that. */
enum verdict world_do_quickly(struct world *world, const struct command *command);
void world_undo(struct world *world);           /* the newest change that is not undone yet */
void world_run_until_idle(struct world *world); /* what was done stays: forget how to undo it */

/* One GPU of an inventory.  id NULL: made up.  milli 0: the whole GPU; mib as it is. */
struct world_gpu {
    const char *id;
    uint32_t index;
    uint32_t milli;
    uint32_t mib;
    bool sick;
    bool cordoned;
};

struct inventory *world_inventory(struct world *world, const char *node, const char *uid,
                                  const struct world_gpu *gpu, uint32_t gpus);
enum verdict world_node(struct world *world, const char *node, const struct world_gpu *gpu,
                        uint32_t gpus);
/* A Node object quickly: a new one, or another inventory. */
void world_show_quickly(struct world *world, const char *node, const struct world_gpu *gpu,
                        uint32_t gpus);

/* "300", "2000", "600x2" (two parts of 600), "i700" (init), "s100" (sidecar), joined by '+'. */
struct request *world_request(struct world *world, const char *words);

/* A bound pod without an annotation; node "" is an unbound one. */
struct pod *world_pod(struct world *world, const char *uid, const char *node);
/* Give it an annotation: "c0 GPU-a 300 4915 0" lines, joined by ','; container, gpu, milli, mib,
   index (0 if it is left out). */
void world_note(struct world *world, struct pod *pod, const char *lines);

enum verdict world_reserve(struct world *world, const char *uid, const char *node,
                           const char *words);
enum verdict world_reserve_for(struct world *world, const char *uid, const char *node,
                               const struct request *request);
enum verdict world_adopt(struct world *world, const struct pod *pod, const char *words);
/* CONFIRM, DOUBT, RELEASE */
enum verdict world_step(struct world *world, enum command_kind kind, const char *uid);

const struct gpu *world_gpu(const struct world *world, const char *node, const char *id);

/* Yours to xfree. */
char *world_dump(const struct ledger *ledger);
char *world_dump_snapshot(const struct snapshot *snapshot);

/* The same through the door that a database comes in by: node rows, then allocation rows. */
struct ledger *world_copy(const struct ledger *ledger);

#endif
