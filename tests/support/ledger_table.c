#include "support/ledger_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/core/ledger/reconcile.h"

#include "support/sentences.h"

/*
 * Words
 */

bool ledger_table_has_more(const struct table *table)
{
    return table->word[table->next] != NULL;
}

bool ledger_table_next_is(struct table *table, const char *word)
{
    if (!ledger_table_has_more(table) || strcmp(table->word[table->next], word) != 0)
        return false;
    table->next++;
    return true;
}

const char *ledger_table_next(struct table *table)
{
    if (!ledger_table_has_more(table))
        ledger_table_fail(table, "a word is missing");
    return table->word[table->next++];
}

uint32_t ledger_table_number(struct table *table)
{
    const char *word = ledger_table_next(table);
    char *end = NULL;
    const unsigned long value = strtoul(word, &end, 10);

    if (*end != '\0' || end == word)
        ledger_table_fail(table, "'%s' is no number", word);
    return (uint32_t)value;
}

static struct text next_text(struct table *table)
{
    return text_of(ledger_table_next(table));
}

/*
 * Answers
 */

void ledger_table_say(struct table *table, const char *word)
{
    ledger_table_print(table, "%s%s", table->said.len > 0 ? "," : "", word);
}

void ledger_table_say_verdict(struct table *table, enum verdict verdict)
{
    const struct core_fixture *core = &table->core;

    table->met[verdict]++;
    ledger_table_say(table, verdict == VERDICT_REFUSED ? reason_name(core->reason)
                                                       : verdict_name(verdict));
    if (strchr(table->expected, ',') != NULL && core->n_done > 0)
        ledger_table_say(table,
                         change_gives_room(&core->done[core->n_done - 1]) ? "room" : "no_room");
}

static void do_command(struct table *table, const struct command *command)
{
    ledger_table_say_verdict(table, core_do(&table->core, command));
}

/*
 * Nodes
 */

/* plugin up OFFERED HEALTHY, plugin down, plugin zero */
static struct plugin_report next_plugin(struct table *table)
{
    struct plugin_report plugin = {.state = PLUGIN_UP};

    if (ledger_table_next_is(table, "down"))
        return (struct plugin_report){.state = PLUGIN_DOWN};
    if (ledger_table_next_is(table, "zero"))
        return (struct plugin_report){.state = PLUGIN_ZERO};
    if (!ledger_table_next_is(table, "up"))
        ledger_table_fail(table, "a device plugin is up, down or zero");
    plugin.offered = ledger_table_number(table);
    plugin.healthy = ledger_table_number(table);
    return plugin;
}

static enum vouch next_vouch(struct table *table)
{
    const char *word = ledger_table_next(table);

    for (int i = 0; i < VOUCHES; i++)
        if (strcmp(word, vouch_name((enum vouch)i)) == 0)
            return (enum vouch)i;
    ledger_table_fail(table, "'%s' is no word of agents.h", word);
    return VOUCH_NONE;
}

static enum inventory_problem next_problem(struct table *table)
{
    const char *word = ledger_table_next(table);

    for (int i = 0; i <= PROBLEM_LIMIT; i++)
        if (strcmp(word, inventory_problem_name((enum inventory_problem)i)) == 0)
            return (enum inventory_problem)i;
    ledger_table_fail(table, "'%s' is no problem of an inventory", word);
    return PROBLEM_NONE;
}

/* Parses the words behind "gpu". */
static void read_gpu(struct table *table, struct core_gpu *gpu, const char **model)
{
    const char *id = ledger_table_next(table);

    gpu->id = strcmp(id, "-") == 0 ? NULL : id;
    gpu->milli = ledger_table_number(table);
    gpu->mib = ledger_table_number(table);
    for (;;) {
        if (ledger_table_next_is(table, "at"))
            gpu->index = ledger_table_number(table);
        else if (ledger_table_next_is(table, "sick"))
            gpu->sick = true;
        else if (ledger_table_next_is(table, "cordoned"))
            gpu->cordoned = true;
        else if (ledger_table_next_is(table, "heldby"))
            gpu->held = ledger_table_next(table);
        else if (ledger_table_next_is(table, "of"))
            *model = ledger_table_next(table);
        else if (ledger_table_next_is(table, "numa"))
            gpu->socket = 1 + ledger_table_number(table);
        else if (ledger_table_next_is(table, "linked"))
            gpu->peers |= UINT64_C(1) << ledger_table_number(table);
        else
            return;
    }
}

static struct inventory *next_inventory(struct table *table)
{
    struct core_gpu gpu[16] = {{0}};
    const char *model[ARRAY_LEN(gpu)] = {NULL};
    const char *name = ledger_table_next(table);
    const char *uid = ledger_table_next_is(table, "uid") ? ledger_table_next(table) : "uid";
    const enum inventory_problem problem =
        ledger_table_next_is(table, "problem") ? next_problem(table) : PROBLEM_NONE;
    const bool silent = ledger_table_next_is(table, "silent");
    uint32_t gpus = 0;

    while (ledger_table_next_is(table, "gpu")) {
        assert_true(gpus < ARRAY_LEN(gpu));
        gpu[gpus].index = gpus;
        read_gpu(table, &gpu[gpus], &model[gpus]);
        gpus++;
    }
    struct inventory *inventory = core_inventory(&table->core, name, uid, gpu, gpus);
    inventory->problem = problem;
    inventory->silent = silent;
    for (uint32_t i = 0; i < gpus; i++)
        if (model[i] != NULL)
            inventory->gpu[i].model = model[i];
    if (ledger_table_next_is(table, "pool")) {
        struct label *label = arena_alloc(&table->core.arena, sizeof *label);
        *label = (struct label){"pool", ledger_table_next(table)};
        inventory->label = label;
        inventory->n_labels = 1;
    }
    if (ledger_table_next_is(table, "plugin"))
        inventory->plugin = next_plugin(table);
    return inventory;
}

static void do_node(struct table *table)
{
    struct command command = {.kind = COMMAND_NODE, .inventory = next_inventory(table)};

    if (ledger_table_next_is(table, "vouch"))
        command.vouch = next_vouch(table);
    do_command(table, &command);
}

/* A command that names a node. */
static void do_node_again(struct table *table)
{
    const char *what = table->word[0];
    struct command command = {.kind = COMMAND_NODE, .node = ledger_table_next(table)};

    command.has_vouch = strcmp(what, "vouch") == 0;
    if (command.has_vouch)
        command.vouch = next_vouch(table);
    else if (strcmp(what, "give_way") == 0)
        command.first_owner = next_inventory(table);
    else if (strcmp(what, "gone") == 0)
        command.kind = COMMAND_NODE_GONE;
    do_command(table, &command);
}

/*
 * Pods
 */

/* AMOUNT; NULL: nothing */
static const char *next_amount(struct table *table)
{
    return ledger_table_next_is(table, "-") ? NULL : ledger_table_next(table);
}

struct request *ledger_table_request(struct table *table)
{
    struct request *request = core_request(&table->core, next_amount(table));

    if (ledger_table_next_is(table, "whole"))
        request->whole = ledger_table_number(table);
    if (ledger_table_next_is(table, "mib"))
        request->memory_mib = ledger_table_number(table);
    if (ledger_table_next_is(table, "on")) {
        request->model = arena_array(&table->core.arena, 1, sizeof *request->model);
        request->model[request->n_models++] =
            arena_copy(&table->core.arena, text_of(ledger_table_next(table)));
    }
    if (ledger_table_next_is(table, "host")) {
        request->host.cpu_milli = ledger_table_number(table);
        request->host.memory_mib = ledger_table_number(table);
    }
    return request;
}

static enum verdict reserve(struct table *table, const char *uid)
{
    struct command command = {.kind = COMMAND_RESERVE,
                              .uid = arena_copy(&table->core.arena, text_of(uid)),
                              .namespace = "default",
                              .name = "pod",
                              .version = 1};

    command.node = ledger_table_next(table);
    command.request = ledger_table_request(table);
    if (ledger_table_next_is(table, "at"))
        command.version = ledger_table_number(table);
    assert_true(table->n_asked < TABLE_PODS_MAX);
    table->asked[table->n_asked].uid = command.uid;
    table->asked[table->n_asked++].request = command.request;
    return core_do(&table->core, &command);
}

static void do_reserve(struct table *table)
{
    ledger_table_say_verdict(table, reserve(table, ledger_table_next(table)));
}

static void do_bind(struct table *table)
{
    do {
        const char *uid = ledger_table_next(table);
        assert_int_equal(reserve(table, uid), VERDICT_OK);
        assert_int_equal(core_step(&table->core, COMMAND_CONFIRM, uid), VERDICT_OK);
    } while (ledger_table_next_is(table, "and"));
    ledger_table_say(table, "ok");
}

/* The pod is judged again, in a later version with this request. */
static void do_version(struct table *table)
{
    struct command command = {.kind = COMMAND_VERSION, .uid = ledger_table_next(table)};

    command.version = ledger_table_number(table);
    command.request = ledger_table_request(table);
    do_command(table, &command);
}

/* The pod is seen unbound in this version, and nothing is being sent. */
static void do_unbound(struct table *table)
{
    struct core_fixture *core = &table->core;
    struct command command[RECONCILE_MAX];
    const char *uid = ledger_table_next(table);
    const size_t count =
        reconcile_unbound(core->ledger, uid, ledger_table_number(table), core->now_ms, command);

    if (count == 0)
        ledger_table_say(table, "same");
    else
        do_command(table, &command[0]);
}

static void do_observe(struct table *table)
{
    struct core_fixture *core = &table->core;
    const char *uid = ledger_table_next(table);
    struct pod *pod = core_pod(core, uid, ledger_table_next(table));
    const char *amount = next_amount(table);

    if (ledger_table_next_is(table, "note")) {
        char *note = arena_copy(&core->arena, next_text(table));
        for (char *at = strchr(note, ':'); at != NULL; at = strchr(at, ':'))
            *at = ' ';
        core_note(core, pod, note);
    }
    if (ledger_table_next_is(table, "whole"))
        pod->whole_gpus = ledger_table_number(table);
    ledger_table_say_verdict(table, core_adopt(core, pod, amount));
}

/* A command that names no more than a pod, and its attributes. */
static void do_step(struct table *table)
{
    struct command command = {.why = "ended"};

    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(table->word[0], command_name((enum command_kind)i)) == 0)
            command.kind = (enum command_kind)i;
    if (command.kind != COMMAND_CLOCK && command.kind != COMMAND_POLICY)
        command.uid = ledger_table_next(table);
    if (command.kind == COMMAND_CONFIRM && ledger_table_has_more(table))
        command.node = ledger_table_next(table);
    if (command.kind == COMMAND_TERMINATING)
        command.terminating_ms = ledger_table_number(table);
    if (command.kind == COMMAND_NOTE) {
        command.differs = ledger_table_next_is(table, "yes");
        if (!command.differs && !ledger_table_next_is(table, "no"))
            ledger_table_fail(table, "an annotation differs or not: yes or no");
    }
    do_command(table, &command);
}

/*
 * The whole ledger
 */

static void do_start(struct table *table)
{
    core_done(&table->core);
    core_init(&table->core);
    table->n_asked = 0;
}

static void do_undo(struct table *table)
{
    core_undo(&table->core);
    ledger_table_say(table, "ok");
}

static void do_restart(struct table *table)
{
    struct core_fixture *core = &table->core;
    struct ledger *copy = core_copy(core->ledger);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    CLEANUP(xfreep) char *after = core_dump(copy);
    struct snapshot *snapshot = ledger_publish(copy, NULL, 0);

    assert_string_equal(before, after);
    assert_int_equal(snapshot->capacity_generation, 0); /* no capacity is new */
    snapshot_unref(snapshot);
    core_forget_undo(core);
    ledger_free(core->ledger);
    core->ledger = copy;
    ledger_table_say(table, "ok");
}

static void see_stale(struct table *table)
{
    const struct node *node = ledger_stale_duplicate(table->core.ledger);

    ledger_table_say(table, node != NULL ? node->name->text : "-");
}

/*
 * Questions about the present ledger
 */

/* The GPU "n1/GPU-a"; NULL if there is no such GPU now. */
static const struct gpu *next_gpu(struct table *table)
{
    char node[64];
    const char *word = ledger_table_next(table);
    const char *slash = strchr(word, '/');

    assert_non_null(slash);
    (void)snprintf(node, sizeof node, "%.*s", (int)(slash - word), word);
    return core_gpu(&table->core, node, slash + 1);
}

static void see_amount(struct table *table)
{
    const char *what = table->word[0];
    const struct gpu *gpu = next_gpu(table);

    assert_non_null(gpu);
    if (strcmp(what, "size") == 0)
        ledger_table_print(table, "%u,%u", gpu->milli, gpu->mib);
    else
        ledger_table_print(table, "%u",
                           strcmp(what, "used") == 0       ? gpu->used_milli
                           : strcmp(what, "reserved") == 0 ? gpu->reserved_milli
                                                           : gpu->used_mib);
}

static void see_flags(struct table *table)
{
    static const char *const name[] = {"absent", "unhealthy", "cordoned", "duplicate",
                                       "over",   "contested", "unsure",   "held"};
    const struct gpu *gpu = next_gpu(table);

    for (size_t i = 0; gpu != NULL && i < ARRAY_LEN(name); i++)
        if ((gpu->flags & (1 << i)) != 0)
            ledger_table_say(table, name[i]);
    if (gpu == NULL)
        ledger_table_say(table, "none");
    else if (gpu->flags == 0)
        ledger_table_say(table, "-");
}

static const struct node *next_node(struct table *table)
{
    const struct node *node = ledger_node(table->core.ledger, next_text(table));

    assert_non_null(node);
    return node;
}

static void see_node(struct table *table)
{
    const char *what = table->word[0];
    const struct node *node = next_node(table);

    ledger_table_print(table, "%u",
                       strcmp(what, "free") == 0       ? node->free_milli
                       : strcmp(what, "unplaced") == 0 ? node->unplaced_milli
                       : strcmp(what, "held") == 0     ? node->held_gpus
                       : strcmp(what, "claims") == 0   ? node->n_owned_ids
                                                       : node->unnamed_gpus);
}

static void see_gpus(struct table *table)
{
    const struct node *node = next_node(table);

    for (uint32_t i = 0; i < node->n_gpus; i++) {
        const struct gpu *gpu = &node->gpu[i];
        ledger_table_print(table, "%s%s%s%s %u", i > 0 ? ", " : "", gpu->id->text,
                           (gpu->flags & GPU_ABSENT) != 0 ? " absent" : "",
                           (gpu->flags & GPU_UNSURE) != 0 ? " unsure" : "",
                           gpu->used_milli + gpu->reserved_milli);
    }
}

static const struct allocation *next_pod(struct table *table)
{
    const struct allocation *pod = ledger_find(table->core.ledger, next_text(table));

    assert_non_null(pod);
    return pod;
}

static void see_pod(struct table *table)
{
    const bool version = strcmp(table->word[0], "at_version") == 0;
    const struct allocation_facts *facts = &next_pod(table)->facts;

    if (version)
        ledger_table_print(table, "%u", (uint32_t)facts->version);
    else
        ledger_table_say(table, facts->presumed ? "yes" : "no");
}

static void see_state(struct table *table)
{
    const struct allocation *pod = ledger_find(table->core.ledger, next_text(table));

    ledger_table_say(table, pod == NULL ? "none" : allocation_state_name(pod->facts.state));
}

static void see_on(struct table *table)
{
    const struct allocation *pod = next_pod(table);

    for (uint32_t i = 0; i < pod->n_charges; i++)
        ledger_table_say(table, allocation_charge(pod, i).gpu->text);
}

static void note_kind(void *user, const struct drift *drift)
{
    bool *seen = user;
    seen[drift_kind_find(text_of(drift->kind))] = true;
}

static void see_drift(struct table *table)
{
    bool seen[DRIFT_KIND_COUNT + 1] = {false};

    drift_of(next_node(table), seen, note_kind);
    assert_false(seen[DRIFT_KIND_COUNT]);
    for (size_t kind = 0; kind < DRIFT_KIND_COUNT; kind++)
        if (seen[kind])
            ledger_table_say(table, drift_kind_name(kind));
    if (table->said.len == 0)
        ledger_table_say(table, "-");
}

struct sighting {
    const char *kind;
    uint32_t count;
    char text[REASON_BYTES_MAX + 64];
};

static void note_text(void *user, const struct drift *drift)
{
    struct sighting *sighting = user;

    if (strcmp(drift->kind, sighting->kind) != 0)
        return;
    sighting->count++;
    const char *of = drift->gpu != NULL          ? drift->gpu->id->text
                     : drift->allocation != NULL ? drift->allocation->facts.uid
                                                 : "node";
    (void)snprintf(sighting->text, sizeof sighting->text, "%s: %s", of, drift->text);
}

static void see_why(struct table *table)
{
    const struct node *node = next_node(table);
    struct sighting sighting = {.kind = ledger_table_next(table)};

    drift_of(node, &sighting, note_text);
    ledger_table_print(table, "%u %s", sighting.count, sighting.text);
}

/*
 * Lines
 */

static const struct table_request requests[] = {
    {"start", do_start},
    {"node", do_node},
    {"again vouch gone give_way", do_node_again},
    {"reserve", do_reserve},
    {"bind", do_bind},
    {"version", do_version},
    {"unbound", do_unbound},
    {"observe", do_observe},
    {"confirm doubt release note terminating clock policy", do_step},
    {"undo", do_undo},
    {"restart", do_restart},
    {"stale", see_stale},
    {"used reserved mib size", see_amount},
    {"flags", see_flags},
    {"free unplaced held unnamed claims", see_node},
    {"gpus", see_gpus},
    {"state", see_state},
    {"at_version presumed", see_pod},
    {"on", see_on},
    {"drift", see_drift},
    {"why", see_why},
    {NULL, NULL},
};

/* Cuts the line into words and the expected answer; false: it has none. */
static bool split(struct table *table, char *text)
{
    uint32_t words = 0;
    char *rest = NULL;

    char *answer = strchr(text, '|');
    if (answer != NULL) {
        *answer++ = '\0';
        answer += strspn(answer, " ");
        for (size_t end = strlen(answer); end > 0 && answer[end - 1] == ' '; end--)
            answer[end - 1] = '\0';
    }
    for (char *word = strtok_r(text, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest)) {
        assert_true(words < TABLE_WORDS_MAX);
        table->word[words++] = word;
    }
    if (words == 0)
        return false;
    table->expected = answer != NULL ? answer : words > 1 ? table->word[--words] : "";
    table->word[words] = NULL;
    return true;
}

static bool is_among(const char *words, const char *word)
{
    const size_t bytes = strlen(word);

    for (const char *at = words; (at = strstr(at, word)) != NULL; at += bytes)
        if ((at == words || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

static const struct table_request *find(const struct table_request *request, const char *word)
{
    while (request->words != NULL && !is_among(request->words, word))
        request++;
    return request->words != NULL ? request : NULL;
}

static void run_line(struct table *table, const struct table_request *own)
{
    const struct table_request *request = find(requests, table->word[0]);

    if (request == NULL)
        request = find(own, table->word[0]);
    if (request == NULL) {
        ledger_table_fail(table, "there is no request '%s'", table->word[0]);
        return;
    }
    strbuf_reset(&table->said);
    table->next = 1;
    request->run(table);
    if (ledger_table_has_more(table))
        ledger_table_fail(table, "'%s' is one word too many", ledger_table_next(table));
    if (strcmp(table->said.data, table->expected) != 0)
        fail_msg("%s:%u: %s, not %s", table->file, table->line, table->said.data, table->expected);
    table->requests++;
}

struct run {
    struct table *table;
    const struct table_request *own;
};

static void run_sentence(void *user, uint32_t line, char *sentence)
{
    const struct run *run = user;

    run->table->line = line;
    if (split(run->table, sentence))
        run_line(run->table, run->own);
}

void ledger_table_run(struct table *table, const char *file, const struct table_request *own)
{
    struct run run = {table, own};

    *table = (struct table){.file = file};
    core_init(&table->core);
    strbuf_init(&table->said);
    (void)sentences_each(file, &run, run_sentence);
    strbuf_done(&table->said);
    core_done(&table->core);
}
