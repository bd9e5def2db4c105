/*
 * Writes states and commands as JSON: for the journal, for its replay, and for the comparison of
 * file and memory. Canonical: keys in a fixed order, and no key for a default (0, false, "", NULL),
 * so that equal states are equal texts. The keys are part of the file's format, like the columns,
 * and do not follow renames of struct members (note_differs, claims). Pure; any thread.
 */
#include <string.h>

#include "store/store_internal.h"

/* One append, because a bind writes some twenty keys. */
static void state_key(struct strbuf *out, const char *name)
{
    const size_t len = strlen(name);

    must(out->len > 0);
    const bool is_first = out->data[out->len - 1] == '{';
    char *at = strbuf_room(out, len + (is_first ? 3 : 4));
    if (!is_first)
        *at++ = ',';
    *at++ = '"';
    memcpy(at, name, len);
    memcpy(at + len, "\":", 2);
}

static void add_text(struct strbuf *out, const char *name, const char *text)
{
    must(name[0] != '\0');
    if (text == NULL || text[0] == '\0')
        return;
    state_key(out, name);
    strbuf_json(out, text_of(text));
}

static void add_number(struct strbuf *out, const char *name, int64_t number)
{
    must(name[0] != '\0');
    if (number == 0)
        return;
    state_key(out, name);
    if (number < 0)
        strbuf_char(out, '-');
    /* Negates as unsigned, because INT64_MIN has no positive counterpart. */
    strbuf_u64(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

static void add_flag(struct strbuf *out, const char *name, bool is_set)
{
    if (!is_set)
        return;
    state_key(out, name);
    strbuf_str(out, "true");
}

static void state_add_share(struct strbuf *out, const struct share *share)
{
    must(share->milli > 0);
    strbuf_char(out, '{');
    add_text(out, "container", share->container);
    add_text(out, "kind", container_kind_name(share->kind));
    add_number(out, "order", share->order);
    add_text(out, "gpu", share->gpu->text);
    add_number(out, "milli", share->milli);
    add_number(out, "mib", share->mib);
    add_number(out, "asked", share->asked == share->milli ? 0 : share->asked);
    strbuf_char(out, '}');
}

/* The keys of STATE_STEP_PATHS, in this order. */
static void state_add_step(struct strbuf *out, const struct allocation_facts *facts)
{
    must(facts->uid[0] != '\0');
    add_text(out, "uid", facts->uid);
    add_text(out, "namespace", facts->namespace);
    add_text(out, "name", facts->name);
    add_text(out, "node", facts->node->text);
    add_text(out, "state", allocation_state_name(facts->state));
    add_flag(out, "in_doubt", facts->in_doubt);
    add_flag(out, "note_differs", facts->annotation_differs);
    add_number(out, "reserved_ms", facts->reserved_ms);
    add_number(out, "bound_ms", facts->bound_ms);
    add_number(out, "released_ms", facts->released_ms);
    add_number(out, "terminating_ms", facts->terminating_ms);
    add_number(out, "version", (int64_t)facts->version);
}

static void state_add_kept(struct strbuf *out, const struct allocation_facts *facts)
{
    must(out->len > 0);
    add_text(out, "node_uid", facts->node_uid->text);
    add_text(out, "origin", allocation_origin_name(facts->origin));
    add_flag(out, "presumed", facts->presumed);
    add_number(out, "held_gpus", facts->held_gpus);
    add_number(out, "unplaced_milli", facts->unplaced_milli);
    state_key(out, "shares");
    strbuf_char(out, '[');
    for (uint32_t i = 0; i < facts->n_shares; i++) {
        if (i > 0)
            strbuf_char(out, ',');
        state_add_share(out, &facts->share[i]);
    }
    strbuf_char(out, ']');
}

void state_allocation(struct strbuf *out, const struct allocation_facts *facts)
{
    must(facts->n_shares <= PARTS_MAX);
    strbuf_char(out, '{');
    state_add_step(out, facts);
    state_add_kept(out, facts);
    strbuf_char(out, '}');
}

void state_step(struct strbuf *out, const struct allocation_facts *facts)
{
    must(facts->n_shares <= PARTS_MAX);
    strbuf_char(out, '{');
    state_add_step(out, facts);
    strbuf_char(out, '}');
}

void state_kept(struct strbuf *out, const struct allocation_facts *facts)
{
    must(facts->n_shares <= PARTS_MAX);
    strbuf_char(out, '{');
    state_add_kept(out, facts);
    strbuf_char(out, '}');
}

/* Without derived values: a GPU's use, and the flags that the ledger recomputes. */
static void state_add_gpu(struct strbuf *out, const struct atom *node, const struct gpu *gpu)
{
    UNSET char alias[GPU_ALIAS_BYTES];

    must(gpu->milli > 0);
    strbuf_char(out, '{');
    add_text(out, "id", gpu->id->text);
    add_text(out, "alias", gpu_alias(gpu, node, alias));
    add_text(out, "model", gpu->model->text);
    add_number(out, "milli", gpu->milli);
    add_number(out, "mib", gpu->mib);
    add_number(out, "index", gpu->index);
    add_number(out, "numa", gpu->numa);
    add_number(out, "flags", gpu->flags & (unsigned)GPU_FLAGS_KEPT);
    add_number(out, "peers", (int64_t)gpu->peers);
    strbuf_char(out, '}');
}

void state_node(struct strbuf *out, const struct node_build *build)
{
    must(build->name->len > 0);

    strbuf_char(out, '{');
    add_text(out, "name", build->name->text);
    add_text(out, "uid", build->uid->text);
    add_text(out, "source", inventory_source_name(build->source));
    add_text(out, "problem", inventory_problem_name(build->problem));
    add_text(out, "problem_text", build->problem_text->text);
    add_flag(out, "gone", build->gone);
    add_number(out, "since_ms", build->since_ms);
    for (uint32_t i = 0; i < build->n_owned_ids; i++) {
        if (i == 0)
            state_key(out, "claims");
        strbuf_char(out, i == 0 ? '[' : ',');
        strbuf_json(out, atom_text(build->owned_id[i]));
    }
    if (build->n_owned_ids > 0)
        strbuf_char(out, ']');
    state_key(out, "gpus");
    strbuf_char(out, '[');
    for (uint32_t i = 0; i < build->n_gpus; i++) {
        if (i > 0)
            strbuf_char(out, ',');
        state_add_gpu(out, build->name, &build->gpu[i]);
    }
    strbuf_str(out, "]}");
}

/* The last state of a node: replay and fold then drop the node. */
void state_node_removed(struct strbuf *out, const struct atom *name)
{
    must(name->len > 0);
    strbuf_char(out, '{');
    add_text(out, "name", name->text);
    add_flag(out, "removed", true);
    strbuf_char(out, '}');
}

struct node_build state_build_of(const struct node *node)
{
    must(node != NULL);
    return (struct node_build){
        .name = node->name,
        .uid = node->uid,
        .source = node->source,
        .problem = node->problem,
        .problem_text = node->problem_text,
        .gone = node->gone,
        .since_ms = node->since_ms,
        .n_gpus = node->n_gpus,
        .gpu = node->gpu,
        .n_owned_ids = node->n_owned_ids,
        .owned_id = node->owned_id,
    };
}

/* The wants as requested; the assigned GPUs are in the result. */
static void add_request(struct strbuf *out, const struct request *request)
{
    if (request == NULL)
        return;
    state_key(out, "wants");
    strbuf_char(out, '[');
    for (uint32_t i = 0; i < request->n_wants; i++) {
        const struct want *want = &request->want[i];
        must(want->parts > 0);
        if (i > 0)
            strbuf_char(out, ',');
        strbuf_char(out, '{');
        add_text(out, "container", want->container);
        add_text(out, "kind", container_kind_name(want->kind));
        add_number(out, "parts", want->parts);
        add_number(out, "milli", want->milli);
        strbuf_char(out, '}');
    }
    strbuf_char(out, ']');
    if (request->n_models > 0) {
        state_key(out, "models");
        for (uint32_t i = 0; i < request->n_models; i++) {
            strbuf_char(out, i == 0 ? '[' : ',');
            strbuf_json(out, text_of(request->model[i]));
        }
        strbuf_char(out, ']');
    }
    add_number(out, "memory_mib", request->memory_mib);
    if (request->topology != TOPOLOGY_ANY)
        add_text(out, "topology", topology_name(request->topology));
}

/* Rules in force by their numbers; no key for a policy without rules. */
static void add_policy(struct strbuf *out, const struct command *command)
{
    const struct rulebook *book = command->rulebook;
    bool first = true;

    if (book == NULL)
        return;
    add_text(out, "policy", book->name);
    add_text(out, "digest", book->digest);
    if (book->n_rules == 0)
        return;
    state_key(out, "holding");
    strbuf_char(out, '[');
    for (uint32_t i = 0; i < book->n_rules; i++) {
        if ((command->holding & one_rule(i)) == 0)
            continue;
        strbuf_printf(out, first ? "%u" : ",%u", i + 1);
        first = false;
    }
    strbuf_char(out, ']');
}

/* For people and for journal_file.h; check_replay() reads results only. */
void state_command(struct strbuf *out, const struct command *command)
{
    must((unsigned)command->kind < COMMANDS);

    strbuf_char(out, '{');
    add_text(out, "kind", command_name(command->kind));
    add_text(out, "uid", command->uid);
    add_text(out, "namespace", command->namespace);
    add_text(out, "name", command->name);
    add_text(out, "node", command->node);
    add_request(out, command->request);
    add_number(out, "version", (int64_t)command->version);
    add_number(out, "created_ms", command->created_ms);
    add_text(out, "elder", command->first_owner != NULL ? command->first_owner->node : NULL);
    add_text(out, "why", command->why);
    add_number(out, "terminating_ms", command->terminating_ms);
    add_flag(out, "differs", command->differs);
    add_number(out, "clock_from_ms", command->clock_from_ms);
    add_text(out, "container", command->container);
    add_text(out, "gpu", command->gpu);
    add_number(out, "mib", command->mib);
    add_number(out, "peak_mib", command->peak_mib);
    add_policy(out, command);
    strbuf_char(out, '}');
}
