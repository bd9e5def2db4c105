/*
 * Rows of a ledger, as the store delivers them, are restored, or refused with the name of the node
 * or pod. A restored ledger passes the verification, accepts commands, and is unchanged after every
 * decision was undone. There is no SQLite here, so the search is a hundred times as fast as in
 * fuzz_ledger_rows.
 *
 * Input: one letter per row or command, then its fields, one byte each.
 */
#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/core/ledger/ledger.h"

#include "support.h"
#include "support/valid.h"

enum { ROWS_MAX = 40, GPUS = 4, SHARES = 4, DONE_MAX = 16 };

static const char *const node_names[] = {"n1", "n2", "n3", ""};
static const char *const gpu_names[] = {"GPU-a",    "GPU-b",    "GPU-c",    "n1/gpu-0",
                                        "n1/gpu-1", "n2/gpu-0", "n2/gpu-1", ""};
static const char *const uids[] = {"u1", "u2", "u3", "u4", "u5", ""};

struct rows {
    struct ledger *ledger;
    struct pieces pieces;
    struct change done[DONE_MAX];
    uint32_t count;
};

static uint8_t next(struct rows *rows)
{
    return pieces_byte(&rows->pieces);
}

static const struct atom *atom(struct rows *rows, const char *const *names, size_t count)
{
    return names_intern(ledger_names(rows->ledger), text_of(names[next(rows) % count]));
}

static uint32_t milli_of(uint8_t byte)
{
    return byte == 0 ? GPU_MILLI : byte * 4U;
}

/* The store's SQL refuses it: one name for two GPUs, a present GPU on a lost node. */
static bool is_known_fault(const struct node_build *build)
{
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        const struct gpu *gpu = &build->gpu[i];
        if (gpu_alias_is(gpu, build->name, atom_text(gpu->id)) ||
            (build->gone && (gpu->flags & GPU_ABSENT) == 0))
            return true;
        for (uint32_t j = 0; j < build->n_gpus; j++)
            if (i != j && gpu_alias_is(gpu, build->name, atom_text(build->gpu[j].id)))
                return true;
    }
    return false;
}

/* The order of node.h, by which the store's query sorts. */
static bool comes_before(const struct gpu *a, const struct gpu *b)
{
    if ((a->flags & GPU_ABSENT) != (b->flags & GPU_ABSENT))
        return (a->flags & GPU_ABSENT) == 0;
    return a->index != b->index ? a->index < b->index : atom_cmp(a->id, b->id) < 0;
}

static void restore_node(struct rows *rows)
{
    struct gpu gpu[GPUS];
    const struct atom *empty = names_intern(ledger_names(rows->ledger), TEXT(""));
    struct node_build build = {.name = atom(rows, node_names, ARRAY_LEN(node_names)),
                               .uid = empty,
                               .source = SOURCE_ANNOTATION,
                               .problem_text = empty,
                               .gpu = gpu};
    struct err err;
    build.gone = next(rows) % 4 == 1;
    const uint32_t count = next(rows) % (GPUS + 1);
    for (uint32_t i = 0; i < count; i++) {
        struct gpu one = {.id = atom(rows, gpu_names, ARRAY_LEN(gpu_names)), .model = empty};
        const struct atom *alias = atom(rows, gpu_names, ARRAY_LEN(gpu_names));
        if (alias->len > 0)
            gpu_set_alias(&one, build.name, atom_text(alias), ledger_names(rows->ledger));
        one.milli = milli_of(next(rows));
        one.mib = next(rows) * 100U;
        one.index = next(rows) % 8;
        one.flags = next(rows) & (GPU_ABSENT | GPU_UNHEALTHY | GPU_CORDONED | GPU_DUPLICATE);
        uint32_t at = build.n_gpus++;
        for (; at > 0 && comes_before(&one, &gpu[at - 1]); at--)
            gpu[at] = gpu[at - 1];
        gpu[at] = one;
    }
    const struct atom *identity[2];
    build.owned_id = identity;
    for (uint8_t owned_ids = next(rows) % 4;
         build.n_owned_ids < 2 && owned_ids > build.n_owned_ids;)
        identity[build.n_owned_ids++] = atom(rows, gpu_names, ARRAY_LEN(gpu_names));
    if (!is_known_fault(&build) && ledger_restore_node(rows->ledger, &build, &err) < 0)
        must(strncmp(err.text, "node", strlen("node")) == 0);
}

static void restore_allocation(struct rows *rows)
{
    static const char *const containers[] = {"c", "d", ""};
    struct share share[SHARES];
    struct allocation_facts facts = {.uid = uids[next(rows) % ARRAY_LEN(uids)],
                                     .namespace = "ns",
                                     .name = "p",
                                     .node = atom(rows, node_names, ARRAY_LEN(node_names)),
                                     .share = share};
    struct err err;
    facts.node_uid = names_intern(ledger_names(rows->ledger), TEXT(""));
    const uint8_t bits = next(rows);
    facts.state = (enum allocation_state)(bits % 3);
    facts.origin = (bits & 4) != 0 ? ORIGIN_ADOPTED : ORIGIN_GRANTED;
    facts.in_doubt = (bits & 8) != 0 && facts.state == STATE_RESERVED;
    facts.presumed = (bits & 16) != 0;
    facts.held_gpus = bits >> 6;
    facts.unplaced_milli = (bits & 32) != 0 ? 300 : 0;
    facts.n_shares = next(rows) % (SHARES + 1);
    for (uint32_t i = 0; i < facts.n_shares; i++) {
        share[i] = (struct share){.container = containers[next(rows) % ARRAY_LEN(containers)],
                                  .gpu = atom(rows, gpu_names, ARRAY_LEN(gpu_names))};
        share[i].kind = (enum container_kind)(next(rows) % 3);
        share[i].order = next(rows) % 4;
        share[i].milli = milli_of(next(rows));
        share[i].mib = next(rows) * 100U;
    }
    if (ledger_restore(rows->ledger, &facts, &err) < 0)
        must(strncmp(err.text, "allocation", strlen("allocation")) == 0 ||
             strncmp(err.text, "node", strlen("node")) == 0);
}

static void decide(struct rows *rows, enum command_kind kind)
{
    struct want want = {.container = "c", .parts = 1 + next(rows) % 2, .milli = 100};
    const struct request request = {.n_wants = 1, .want = &want};
    struct command command = {.kind = kind,
                              .at_ms = 1000,
                              .uid = uids[next(rows) % 5],
                              .namespace = "ns",
                              .name = "p",
                              .node = node_names[next(rows) % 3],
                              .why = "ended"};
    if (kind == COMMAND_RESERVE)
        command.request = &request;
    else if (kind != COMMAND_NODE_GONE)
        command.node = NULL;
    if (rows->count == DONE_MAX)
        return;
    struct change *change = &rows->done[rows->count];
    if (ledger_decide(rows->ledger, &command, change) != VERDICT_OK)
        return;
    ledger_apply(rows->ledger, change);
    ledger_assert_valid(rows->ledger);
    rows->count++;
}

static void describe(const struct ledger *ledger, struct strbuf *out)
{
    const struct node *node;
    for (size_t at = 0; (node = ledger_next_node(ledger, &at)) != NULL;) {
        strbuf_printf(out, "%s %d %u %u\n", node->name->text, node->gone, node->n_gpus,
                      node->n_allocations);
        for (uint32_t i = 0; i < node->n_gpus; i++)
            strbuf_printf(out, " %s %u %u %u %u\n", node->gpu[i].id->text, node->gpu[i].milli,
                          node->gpu[i].used_milli, node->gpu[i].reserved_milli, node->gpu[i].flags);
        for (uint32_t i = 0; i < node->n_allocations; i++)
            strbuf_printf(out, " %s %d\n", node->allocation[i]->facts.uid,
                          node->allocation[i]->facts.state);
    }
}

static void play(struct rows *rows)
{
    static const enum command_kind kinds[] = {COMMAND_RESERVE, COMMAND_CONFIRM, COMMAND_DOUBT,
                                              COMMAND_RELEASE, COMMAND_NODE_GONE};
    for (int i = 0; i < DONE_MAX && rows->pieces.left > 0; i++)
        decide(rows, kinds[next(rows) % ARRAY_LEN(kinds)]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rows rows = {.ledger = ledger_new(), .pieces = pieces_of(data, size)};
    SCOPED_STRBUF(before);
    SCOPED_STRBUF(after);
    uint8_t letter = next(&rows);
    /* Nodes first, then the allocations on them, then commands. */
    for (int i = 0; i < ROWS_MAX && letter == 'n'; i++, letter = next(&rows))
        restore_node(&rows);
    for (int i = 0; i < ROWS_MAX && letter == 'a'; i++, letter = next(&rows))
        restore_allocation(&rows);
    ledger_assert_valid(rows.ledger);
    describe(rows.ledger, &before);
    play(&rows);
    while (rows.count > 0) {
        struct change *change = &rows.done[--rows.count];
        ledger_undo(rows.ledger, change);
        change_done(change);
        ledger_assert_valid(rows.ledger);
    }
    describe(rows.ledger, &after);
    must(strcmp(before.data, after.data) == 0);
    ledger_free(rows.ledger);
    return 0;
}
