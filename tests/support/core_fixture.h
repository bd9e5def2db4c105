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

struct core_fixture {
    struct ledger *ledger;
    struct arena arena; /* requests, pods, inventories: dropped at the end */
    int64_t now_ms;
    enum reason reason;  /* of the last verdict */
    struct change *done; /* newest last */
    size_t dones;
    size_t capacity;
};

void core_init(struct core_fixture *core);
void core_done(struct core_fixture *core);
/* Before and after a test of cmocka: an empty world of its own. */
int core_set_up(void **state);
int core_tear_down(void **state);

enum verdict core_do(struct core_fixture *core, const struct command *command);
/* The same without the verification, and for good: where there are too many for that. */
enum verdict core_do_quickly(struct core_fixture *core, const struct command *command);
void core_undo(struct core_fixture *core); /* the newest change that is not undone yet */
void core_run_until_idle(
    struct core_fixture *core); /* what was done stays: forget how to undo it */

/* One GPU of an inventory.  id NULL: made up.  milli 0: the whole GPU; mib as it is. */
struct core_gpu {
    const char *id;
    uint32_t index;
    uint32_t milli;
    uint32_t mib;
    bool sick;
    bool cordoned;
};

struct inventory *core_inventory(struct core_fixture *core, const char *node, const char *uid,
                                 const struct core_gpu *gpu, uint32_t gpus);
enum verdict core_node(struct core_fixture *core, const char *node, const struct core_gpu *gpu,
                       uint32_t gpus);
/* A Node object quickly: a new one, or another inventory. */
void core_show_quickly(struct core_fixture *core, const char *node, const struct core_gpu *gpu,
                       uint32_t gpus);

/* "300", "2000", "600x2" (two parts of 600), "i700" (init), "s100" (sidecar), joined by '+'. */
struct request *core_request(struct core_fixture *core, const char *words);

/* A bound pod without an annotation; node "" is an unbound one. */
struct pod *core_pod(struct core_fixture *core, const char *uid, const char *node);
/* Give it an annotation: "c0 GPU-a 300 4915 0" lines, joined by ','; container, gpu, milli, mib,
   index (0 if it is left out). */
void core_note(struct core_fixture *core, struct pod *pod, const char *lines);

enum verdict core_reserve(struct core_fixture *core, const char *uid, const char *node,
                          const char *words);
enum verdict core_reserve_for(struct core_fixture *core, const char *uid, const char *node,
                              const struct request *request);
enum verdict core_adopt(struct core_fixture *core, const struct pod *pod, const char *words);
/* CONFIRM, DOUBT, RELEASE */
enum verdict core_step(struct core_fixture *core, enum command_kind kind, const char *uid);

const struct gpu *core_gpu(const struct core_fixture *core, const char *node, const char *id);

/* Yours to xfree. */
char *core_dump(const struct ledger *ledger);
char *core_dump_snapshot(const struct snapshot *snapshot);

/* The same through the door that a database comes in by: node rows, then allocation rows. */
struct ledger *core_copy(const struct ledger *ledger);

#endif
