#include "support/core_fixture.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"

#include "support/valid.h"

void core_init(struct core_fixture *core)
{
    *core = (struct core_fixture){.ledger = ledger_new(), .now_ms = 1000};
    arena_init(&core->arena);
}

void core_forget_undo(struct core_fixture *core)
{
    while (core->n_done > 0)
        change_done(&core->done[--core->n_done]);
}

void core_done(struct core_fixture *core)
{
    core_forget_undo(core);
    xfree(core->done);
    ledger_free(core->ledger);
    arena_done(&core->arena);
}

int core_set_up(void **state)
{
    static struct core_fixture core;
    core_init(&core);
    *state = &core;
    return 0;
}

int core_tear_down(void **state)
{
    core_done(*state);
    return 0;
}

enum verdict core_do(struct core_fixture *core, const struct command *command)
{
    struct command mine = *command;
    struct change change;

    if (mine.at_ms == 0)
        mine.at_ms = ++core->now_ms;
    const enum verdict verdict = ledger_decide(core->ledger, &mine, &change);
    must(verdict == change.verdict);
    core->reason = change.reason;
    if (verdict == VERDICT_OK) {
        ledger_apply(core->ledger, &change);
        core->done = xgrow(core->done, core->n_done, &core->capacity, sizeof *core->done);
        core->done[core->n_done++] = change;
    }
    ledger_assert_valid(core->ledger);
    return verdict;
}

enum verdict core_do_quickly(struct core_fixture *core, const struct command *command)
{
    struct change change;
    const enum verdict verdict = ledger_decide(core->ledger, command, &change);

    core->reason = change.reason;
    if (verdict == VERDICT_OK)
        ledger_apply(core->ledger, &change);
    change_done(&change);
    return verdict;
}

void core_show_quickly(struct core_fixture *core, const char *node, const struct core_gpu *gpu,
                       uint32_t gpus)
{
    const struct command command = {.kind = COMMAND_NODE,
                                    .at_ms = core->now_ms,
                                    .node = node,
                                    .inventory = core_inventory(core, node, "uid", gpu, gpus)};
    const enum verdict verdict = core_do_quickly(core, &command);
    must(verdict == VERDICT_OK || verdict == VERDICT_SAME);
}

void core_undo(struct core_fixture *core)
{
    must(core->n_done > 0);
    struct change *change = &core->done[--core->n_done];
    ledger_undo(core->ledger, change);
    change_done(change);
    ledger_assert_valid(core->ledger);
}

struct inventory *core_inventory(struct core_fixture *core, const char *node, const char *uid,
                                 const struct core_gpu *gpu, uint32_t gpus)
{
    struct arena *arena = &core->arena;
    struct inventory *inventory = arena_alloc(arena, sizeof *inventory);

    inventory->node = arena_copy(arena, text_of(node));
    inventory->uid = arena_copy(arena, text_of(uid));
    inventory->source = SOURCE_ANNOTATION;
    inventory->n_gpus = gpus;
    inventory->gpu = arena_array(arena, gpus + 1, sizeof *inventory->gpu);
    for (uint32_t i = 0; i < gpus; i++) {
        const char *made_up = arena_printf(arena, "%s/gpu-%u", node, gpu[i].index);
        inventory->gpu[i] = (struct gpu_facts){
            .id = gpu[i].id != NULL ? arena_copy(arena, text_of(gpu[i].id)) : made_up,
            .alias = gpu[i].id != NULL ? made_up : NULL,
            .model = "NVIDIA A100",
            .index = gpu[i].index,
            .milli = gpu[i].milli > 0 ? gpu[i].milli : GPU_MILLI,
            .mib = gpu[i].mib,
            .numa = (int32_t)gpu[i].socket - 1,
            .peers = gpu[i].peers,
            .healthy = !gpu[i].sick,
            .cordoned = gpu[i].cordoned,
            .held = gpu[i].held,
            .ill = gpu[i].ill,
        };
    }
    return inventory;
}

enum verdict core_node(struct core_fixture *core, const char *node, const struct core_gpu *gpu,
                       uint32_t gpus)
{
    const struct command command = {
        .kind = COMMAND_NODE,
        .inventory = core_inventory(core, node, "node-uid", gpu, gpus),
    };
    return core_do(core, &command);
}

static void add_want(struct arena *arena, struct request *request, const char *word)
{
    struct want *want = &request->want[request->n_wants];
    char *end = NULL;

    want->kind = *word == 'i' ? CONTAINER_INIT : *word == 's' ? CONTAINER_SIDECAR : CONTAINER_APP;
    if (want->kind != CONTAINER_APP)
        word++;
    want->container = arena_printf(arena, "c%u", request->n_wants);
    want->milli = (uint32_t)strtoul(word, &end, 10);
    want->parts = 1;
    if (*end == 'x') {
        want->parts = (uint32_t)strtoul(end + 1, &end, 10);
    } else if (want->milli > GPU_MILLI) {
        must(want->milli % GPU_MILLI == 0);
        want->parts = want->milli / GPU_MILLI;
        want->milli = GPU_MILLI;
    }
    must(want->milli > 0 && want->milli <= GPU_MILLI && want->parts > 0);
    must(*end == '\0' || *end == '+');
    request->n_wants++;
}

struct request *core_request(struct core_fixture *core, const char *words)
{
    struct request *request = arena_alloc(&core->arena, sizeof *request);
    request->want = arena_array(&core->arena, CONTAINERS_MAX, sizeof *request->want);
    for (const char *word = words; word != NULL; word = strchr(word, '+')) {
        word += *word == '+';
        add_want(&core->arena, request, word);
    }
    return request;
}

struct pod *core_pod(struct core_fixture *core, const char *uid, const char *node)
{
    struct arena *arena = &core->arena;
    struct pod *pod = arena_alloc(arena, sizeof *pod);

    pod->uid = arena_copy(arena, text_of(uid));
    pod->namespace = "default";
    pod->name = arena_printf(arena, "pod-%s", uid);
    pod->resource_version = "1";
    pod->node = arena_copy(arena, text_of(node));
    pod->phase = node[0] != '\0' ? POD_RUNNING : POD_PENDING;
    return pod;
}

void core_note(struct core_fixture *core, struct pod *pod, const char *lines)
{
    struct arena *arena = &core->arena;

    pod->annotation = NOTE_OK;
    pod->note_text = arena_copy(arena, text_of(lines));
    pod->n_shares = 0;
    pod->share = arena_array(arena, strlen(lines) + 1, sizeof *pod->share);
    for (const char *line = lines; line != NULL && *line != '\0'; line = strchr(line, ',')) {
        char container[64];
        char gpu[300];
        struct pod_share *share = &pod->share[pod->n_shares++];
        line += *line == ',';
        must(sscanf(line, "%63s %299s %u %u %u %u", container, gpu, &share->milli, &share->mib,
                    &share->index, &share->asked) >= 4);
        share->container = arena_copy(arena, text_of(container));
        share->gpu = arena_copy(arena, text_of(gpu));
    }
}

enum verdict core_reserve_for(struct core_fixture *core, const char *uid, const char *node,
                              const struct request *request)
{
    const struct command command = {
        .kind = COMMAND_RESERVE,
        .uid = uid,
        .namespace = "default",
        .name = "pod",
        .node = node,
        .request = request,
    };
    return core_do(core, &command);
}

enum verdict core_reserve(struct core_fixture *core, const char *uid, const char *node,
                          const char *words)
{
    return core_reserve_for(core, uid, node, core_request(core, words));
}

enum verdict core_reserve_in(struct core_fixture *core, const char *namespace, const char *uid,
                             const char *node, const char *words)
{
    const struct command command = {
        .kind = COMMAND_RESERVE,
        .uid = uid,
        .namespace = namespace,
        .name = uid,
        .node = node,
        .at_ms = core->now_ms,
        .request = core_request(core, words),
    };
    return core_do(core, &command);
}

/* The containers of a pod with this request; and the request as the daemon reads it. */
static const struct request *request_of_bound(struct core_fixture *core, struct pod *pod,
                                              const char *words)
{
    static const struct request_rules rules = {.resource = "nvidia.com/vgpu"};
    struct arena *arena = &core->arena;
    const struct request *asked = core_request(core, words);
    struct request *request = arena_alloc(arena, sizeof *request);
    struct refusal refusal;

    pod->ours = true;
    pod->n_containers = asked->n_wants;
    pod->container = arena_array(arena, asked->n_wants, sizeof *pod->container);
    for (uint32_t i = 0; i < asked->n_wants; i++) {
        const struct want *want = &asked->want[i];
        pod->container[i] = (struct pod_container){
            .name = want->container,
            .kind = want->kind,
            .amount = arena_printf(arena, "%u", want->parts * want->milli),
            .count = arena_printf(arena, "%u", want->parts),
        };
    }
    if (request_parse_bound(pod, &rules, arena, request, &refusal) != REQUEST_OK)
        must_fail(__FILE__, __LINE__, refusal.text);
    return request;
}

enum verdict core_adopt(struct core_fixture *core, const struct pod *pod, const char *words)
{
    struct pod asking = *pod;
    const struct command command = {
        .kind = COMMAND_ADOPT,
        .uid = pod->uid,
        .namespace = pod->namespace,
        .name = pod->name,
        .node = pod->node,
        .pod = &asking,
        .request = words != NULL ? request_of_bound(core, &asking, words) : NULL,
    };
    return core_do(core, &command);
}

void core_make_up_gpus(struct core_fixture *core, const char *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct pod *pod = core_pod(core, arena_printf(&core->arena, "pod-%u", i), node);
        core_note(core, pod, arena_printf(&core->arena, "c0 GPU-made-up-%u 100 1", i));
        must(core_adopt(core, pod, "100") == VERDICT_OK);
    }
}

enum verdict core_step(struct core_fixture *core, enum command_kind kind, const char *uid)
{
    const struct command command = {.kind = kind, .uid = uid, .why = "test"};
    return core_do(core, &command);
}

const struct gpu *core_gpu(const struct core_fixture *core, const char *node, const char *id)
{
    const struct node *at = ledger_node(core->ledger, text_of(node));
    return at == NULL ? NULL : node_gpu(at, text_of(id));
}

static void dump_gpu(struct strbuf *out, const struct atom *node, const struct gpu *gpu)
{
    char buffer[GPU_ALIAS_BYTES];
    const char *alias = gpu_alias(gpu, node, buffer);

    strbuf_printf(out, "  gpu %s alias %s model %s milli %u mib %u used %u reserved %u mib %u",
                  gpu->id->text, alias != NULL ? alias : "-", gpu->model->text, gpu->milli,
                  gpu->mib, gpu->used_milli, gpu->reserved_milli, gpu->used_mib);
    strbuf_printf(out, " index %d charges %d numa %d peers %llx flags %d\n", gpu->index,
                  gpu->charges, gpu->numa, (unsigned long long)gpu->peers,
                  gpu->flags & ~(GPU_CONTESTED | GPU_HELD)); /* nobody keeps them */
}

static void dump_allocation(struct strbuf *out, const struct allocation *allocation)
{
    const struct allocation_facts *facts = &allocation->facts;

    strbuf_printf(out, "  pod %s %s/%s node %s %s %s %s presumed %d doubt %d differs %d",
                  facts->uid, facts->namespace, facts->name, facts->node->text,
                  facts->node_uid->text, allocation_state_name(facts->state),
                  allocation_origin_name(facts->origin), facts->presumed, facts->in_doubt,
                  facts->annotation_differs);
    strbuf_printf(out, " held %u unplaced %u at %lld %lld %lld %lld version %llu\n",
                  facts->held_gpus, facts->unplaced_milli, (long long)facts->reserved_ms,
                  (long long)facts->bound_ms, (long long)facts->released_ms,
                  (long long)facts->terminating_ms, (unsigned long long)facts->version);
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        const struct share *share = &facts->share[i];
        strbuf_printf(out, "    share %s %s %d %s %u %u", share->container,
                      container_kind_name(share->kind), share->order, share->gpu->text,
                      share->milli, share->mib);
        if (share->asked != share->milli)
            strbuf_printf(out, " asked %u", share->asked);
        strbuf_char(out, '\n');
    }
}

static void dump_node(struct strbuf *out, const struct node *node)
{
    strbuf_printf(out, "node %s uid %s %s %s '%s' gone %d held %u unplaced %u free %u since %lld\n",
                  node->name->text, node->uid->text, inventory_source_name(node->source),
                  inventory_problem_name(node->problem), node->problem_text->text, node->gone,
                  node->held_gpus, node->unplaced_milli, node->free_milli,
                  (long long)node->since_ms);
    for (uint32_t i = 0; i < node->n_gpus; i++)
        dump_gpu(out, node->name, &node->gpu[i]);
    for (uint32_t i = 0; i < node->n_owned_ids; i++)
        strbuf_printf(out, "  claim %s\n", node->owned_id[i]->text);
    for (uint32_t i = 0; i < node->n_allocations; i++)
        dump_allocation(out, node->allocation[i]);
}

static int by_name(const void *a, const void *b)
{
    const struct node *const *node_a = a;
    const struct node *const *node_b = b;
    return strcmp((*node_a)->name->text, (*node_b)->name->text);
}

static char *dump(const struct node **node, size_t nodes)
{
    struct strbuf out;
    strbuf_init(&out);
    if (nodes > 0)
        qsort(node, nodes, sizeof(struct node *), by_name);
    for (size_t i = 0; i < nodes; i++)
        dump_node(&out, node[i]);
    xfree(node);
    return strbuf_steal(&out);
}

char *core_dump(const struct ledger *ledger)
{
    const struct node **node = NULL;
    size_t nodes = 0;
    size_t capacity = 0;
    size_t at = 0;
    const struct node *next;
    while ((next = ledger_next_node(ledger, &at)) != NULL) {
        node = xgrow(node, nodes, &capacity, sizeof(struct node *));
        node[nodes++] = next;
    }
    return dump(node, nodes);
}

char *core_dump_snapshot(const struct snapshot *snapshot)
{
    const struct node **node = NULL;
    size_t nodes = 0;
    size_t capacity = 0;
    uint32_t at = 0;
    const struct node *next;
    while ((next = snapshot_next(snapshot, &at)) != NULL) {
        node = xgrow(node, nodes, &capacity, sizeof(struct node *));
        node[nodes++] = next;
    }
    return dump(node, nodes);
}

static const struct atom *translate(struct ledger *ledger, const struct atom *atom)
{
    return atom == NULL ? NULL : names_intern(ledger_names(ledger), atom_text(atom));
}

static void copy_node(struct ledger *copy, const struct node *node)
{
    struct err err;
    struct gpu *gpu = xcalloc(node->n_gpus + 1, sizeof *gpu);
    const struct atom **owned_id = xcalloc(node->n_owned_ids + 1, sizeof(struct atom *));
    struct gpu_note note[GPUS_PER_NODE_MAX];
    for (uint32_t i = 0; i < node->n_owned_ids; i++)
        owned_id[i] = translate(copy, node->owned_id[i]);
    for (uint32_t i = 0; i < node->n_gpus; i++) {
        gpu[i] = node->gpu[i];
        gpu[i].id = translate(copy, gpu[i].id);
        gpu[i].alias = translate(copy, gpu[i].alias);
        gpu[i].model = translate(copy, gpu[i].model);
        gpu[i].flags = (uint16_t)(gpu[i].flags & ~(unsigned)GPU_CONTESTED);
    }
    /* No store keeps these; the first list of Nodes says them again, before anybody is answered. */
    for (uint32_t i = 0; i < node->n_notes; i++)
        note[i] = (struct gpu_note){translate(copy, node->note[i].gpu), node->note[i].held,
                                    node->note[i].ill};
    const struct node_build build = {
        .name = translate(copy, node->name),
        .uid = translate(copy, node->uid),
        .source = node->source,
        .problem = node->problem,
        .problem_text = translate(copy, node->problem_text),
        .gone = node->gone,
        .since_ms = node->since_ms,
        .n_gpus = node->n_gpus,
        .gpu = gpu,
        .n_owned_ids = node->n_owned_ids,
        .owned_id = owned_id,
        .n_notes = node->n_notes,
        .note = note,
    };
    if (ledger_restore_node(copy, &build, &err) != 0)
        must_fail(__FILE__, __LINE__, err.text);
    xfree(gpu);
    xfree(owned_id);
}

static void copy_allocation(struct ledger *copy, const struct allocation *allocation)
{
    struct err err;
    struct allocation_facts facts = allocation->facts;
    struct share *share = xcalloc(facts.n_shares + 1, sizeof *share);
    for (uint32_t i = 0; i < facts.n_shares; i++) {
        share[i] = facts.share[i];
        share[i].gpu = translate(copy, share[i].gpu);
    }
    facts.node = translate(copy, facts.node);
    facts.node_uid = translate(copy, facts.node_uid);
    facts.share = share;
    if (ledger_restore(copy, &facts, &err) != 0)
        must_fail(__FILE__, __LINE__, err.text);
    xfree(share);
}

void core_obey(struct core_fixture *core, struct rulebook *take_book, rule_set holding,
               const struct workload *workload)
{
    struct policy_context *context = policy_context_of_rulebook(take_book, holding, workload);

    ledger_set_policy_context(core->ledger, context);
    policy_context_unref(context);
    rulebook_unref(take_book);
}

struct ledger *core_copy(const struct ledger *ledger)
{
    struct ledger *copy = ledger_new();
    const struct node *node;
    const struct allocation *allocation;
    size_t at = 0;
    while ((node = ledger_next_node(ledger, &at)) != NULL)
        copy_node(copy, node);
    at = 0;
    while ((allocation = ledger_next(ledger, &at)) != NULL)
        copy_allocation(copy, allocation);
    ledger_assert_valid(copy);
    return copy;
}
