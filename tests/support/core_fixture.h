/*
 * core_fixture - a small ledger for tests, with short functions for what happens to it.
 *
 * core_do() decides, applies and verifies; what it applied can be undone, newest first. core_dump()
 * writes a ledger or a snapshot as text in one fixed order, so that two of them can be compared.
 */
#ifndef MILLIGPU_TESTS_CORE_FIXTURE_H
#define MILLIGPU_TESTS_CORE_FIXTURE_H

#include "milligpu/core/facts/pod.h"
#include "milligpu/core/ledger/ledger.h"

struct core_fixture {
    struct ledger *ledger;
    struct arena arena; /* requests, pods, inventories: freed at the end */
    int64_t now_ms;
    enum reason reason;  /* of the last verdict */
    struct change *done; /* newest last */
    size_t n_done;
    size_t capacity;
};

void core_init(struct core_fixture *core);
void core_done(struct core_fixture *core);
/* Before and after a cmocka test: an empty fixture of its own. */
int core_set_up(void **state);
int core_tear_down(void **state);
#define CORE_TEST(name) TEST_WITH(name, struct core_fixture *core, core_set_up, core_tear_down)

enum verdict core_do(struct core_fixture *core, const struct command *command);
/* The same without the verification and without undo, for tests with very many commands. */
enum verdict core_do_quickly(struct core_fixture *core, const struct command *command);
void core_undo(struct core_fixture *core);        /* the newest change that is not undone yet */
void core_forget_undo(struct core_fixture *core); /* what was done stays: forget how to undo it */

/* One GPU of an inventory. id NULL: made up. milli 0: the whole GPU; mib as given. */
struct core_gpu {
    const char *id;
    uint32_t index;
    uint32_t milli;
    uint32_t mib;
    bool sick;
    bool cordoned;
    const char *ill;  /* why it is sick */
    const char *held; /* by whom it is held whole, as in inventory.h; NULL: it is not */
    uint32_t socket;  /* NUMA node + 1; 0: not known */
    uint64_t peers;   /* bit i: linked with the GPU at this place of the array */
};

struct inventory *core_inventory(struct core_fixture *core, const char *node, const char *uid,
                                 const struct core_gpu *gpu, uint32_t gpus);
enum verdict core_node(struct core_fixture *core, const char *node, const struct core_gpu *gpu,
                       uint32_t gpus);
/* A Node object in one call: a new one, or another inventory. */
void core_show_quickly(struct core_fixture *core, const char *node, const struct core_gpu *gpu,
                       uint32_t gpus);

/* "300", "2000", "600x2" (two parts of 600), "i700" (init), "s100" (sidecar), joined by '+'. */
struct request *core_request(struct core_fixture *core, const char *words);

/* A bound pod without an annotation; node "" means unbound. */
struct pod *core_pod(struct core_fixture *core, const char *uid, const char *node);
/*
 * Gives it an annotation: "c0 GPU-a 300 4915 0" lines, joined by ','; container, gpu, milli, mib,
 * index and asked (0 if they are omitted).
 */
void core_note(struct core_fixture *core, struct pod *pod, const char *lines);

enum verdict core_reserve(struct core_fixture *core, const char *uid, const char *node,
                          const char *words);
/* In a namespace, at the time of the fixture; the uid is the pod's name, too. */
enum verdict core_reserve_in(struct core_fixture *core, const char *namespace, const char *uid,
                             const char *node, const char *words);
enum verdict core_reserve_for(struct core_fixture *core, const char *uid, const char *node,
                              const struct request *request);
enum verdict core_adopt(struct core_fixture *core, const struct pod *pod, const char *words);
/* Pods pod-0, pod-1, ... on a node, each with 100 milli of a GPU of its own: GPU-made-up-0, ... */
void core_make_up_gpus(struct core_fixture *core, const char *node, uint32_t count);
/* CONFIRM, DOUBT, RELEASE */
enum verdict core_step(struct core_fixture *core, enum command_kind kind, const char *uid);

/* Puts a rulebook in force, with the rules that hold. workload: NULL if no policy needs one. */
void core_obey(struct core_fixture *core, struct rulebook *take_book, rule_set holding,
               const struct workload *workload);

const struct gpu *core_gpu(const struct core_fixture *core, const char *node, const char *id);

/* Yours to xfree. */
char *core_dump(const struct ledger *ledger);
char *core_dump_snapshot(const struct snapshot *snapshot);

/* The same by the path that a database takes: node rows, then allocation rows. */
struct ledger *core_copy(const struct ledger *ledger);

#endif
