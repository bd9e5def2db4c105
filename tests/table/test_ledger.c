/* Runs tests/table/ledger.txt; the language is described at its top. */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/ledger/reconcile.h"

#include "support/core_fixture.h"
#include "support/test.h"

enum { WORDS_MAX = 64 };

struct line {
    const char *word[WORDS_MAX + 1]; /* NULL-terminated */
    int words;                       /* number of words without the last, which is the verdict */
    const char *expected;
};

struct table {
    struct core_fixture core;
    uint32_t met[VERDICT_REFUSED + 1];
    struct strbuf said; /* the answer to the line */
};

static void say(struct table *table, const char *text)
{
    if (table->said.len > 0)
        strbuf_char(&table->said, ',');
    strbuf_str(&table->said, text);
}

static void say_number(struct table *table, uint32_t number)
{
    strbuf_u64(&table->said, number);
}

static void say_verdict(struct table *table, enum verdict verdict)
{
    table->met[verdict]++;
    say(table,
        verdict == VERDICT_REFUSED ? reason_name(table->core.reason) : verdict_name(verdict));
}

static uint32_t number(const char *word)
{
    char *end = NULL;
    const unsigned long value = strtoul(word, &end, 10);
    if (*end != '\0' || *word == '\0')
        fail_msg("'%s' is no number", word);
    return (uint32_t)value;
}

static enum inventory_problem problem_of(const char *word)
{
    for (int i = 0; i <= PROBLEM_LIMIT; i++)
        if (strcmp(word, inventory_problem_name((enum inventory_problem)i)) == 0)
            return (enum inventory_problem)i;
    fail_msg("'%s' is no problem of an inventory", word);
    return PROBLEM_NONE;
}

/* plugin up OFFERED HEALTHY, plugin down, plugin zero; the next word is behind them. */
static struct plugin_report plugin_of(const struct line *line, int *at)
{
    const char *word = line->word[++*at];
    if (strcmp(word, "up") != 0) {
        assert_true(strcmp(word, "down") == 0 || strcmp(word, "zero") == 0);
        return (struct plugin_report){.state = word[0] == 'd' ? PLUGIN_DOWN : PLUGIN_ZERO};
    }
    assert_true(*at + 2 < line->words);
    const uint32_t offered = number(line->word[++*at]);
    return (struct plugin_report){PLUGIN_UP, offered, number(line->word[++*at])};
}

static enum vouch vouch_of(const char *word)
{
    for (int i = 0; i < VOUCHES; i++)
        if (strcmp(word, vouch_name((enum vouch)i)) == 0)
            return (enum vouch)i;
    fail_msg("'%s' is no word of agents.h", word);
    return VOUCH_NONE;
}

static void do_vouch(struct table *table, const struct line *line)
{
    const struct command command = {.kind = COMMAND_NODE,
                                    .node = line->word[1],
                                    .has_vouch = true,
                                    .vouch = vouch_of(line->word[2])};
    say_verdict(table, core_do(&table->core, &command));
}

static void do_node(struct table *table, const struct line *line)
{
    struct core_gpu gpu[16] = {{0}};
    uint32_t gpus = 0;
    const char *uid = "uid";
    enum inventory_problem problem = PROBLEM_NONE;
    bool silent = false;
    struct plugin_report plugin = {0};
    enum vouch vouch = VOUCH_NONE;
    for (int i = 2; i < line->words; i++) {
        const char *word = line->word[i];
        if (strcmp(word, "uid") == 0) {
            uid = line->word[++i];
        } else if (strcmp(word, "problem") == 0) {
            problem = problem_of(line->word[++i]);
        } else if (strcmp(word, "silent") == 0) {
            silent = true;
        } else if (strcmp(word, "gpu") == 0) {
            assert_true(gpus < ARRAY_LEN(gpu) && i + 3 < line->words);
            struct core_gpu *next = &gpu[gpus];
            next->index = gpus++;
            next->id = strcmp(line->word[i + 1], "-") == 0 ? NULL : line->word[i + 1];
            next->milli = number(line->word[i + 2]);
            next->mib = number(line->word[i + 3]);
            i += 3;
        } else if (strcmp(word, "plugin") == 0) {
            plugin = plugin_of(line, &i);
        } else if (strcmp(word, "vouch") == 0) {
            vouch = vouch_of(line->word[++i]);
        } else if (gpus > 0 && strcmp(word, "at") == 0) {
            gpu[gpus - 1].index = number(line->word[++i]);
        } else if (gpus > 0 && strcmp(word, "sick") == 0) {
            gpu[gpus - 1].sick = true;
        } else if (gpus > 0 && strcmp(word, "heldby") == 0) {
            gpu[gpus - 1].held = line->word[++i];
        } else if (gpus > 0 && strcmp(word, "cordoned") == 0) {
            gpu[gpus - 1].cordoned = true;
        } else {
            fail_msg("node: what is '%s'?", word);
        }
    }
    struct inventory *inventory = core_inventory(&table->core, line->word[1], uid, gpu, gpus);
    inventory->problem = problem;
    inventory->silent = silent;
    inventory->plugin = plugin;
    const struct command command = {.kind = COMMAND_NODE, .inventory = inventory, .vouch = vouch};
    say_verdict(table, core_do(&table->core, &command));
}

static void do_again(struct table *table, const struct line *line)
{
    const struct command command = {.kind = COMMAND_NODE, .node = line->word[1]};
    say_verdict(table, core_do(&table->core, &command));
}

static void do_gone(struct table *table, const struct line *line)
{
    const struct command command = {.kind = COMMAND_NODE_GONE, .node = line->word[1]};
    say_verdict(table, core_do(&table->core, &command));
}

/* What the word asks for; NULL: nothing. */
static const char *words_of(const char *word)
{
    return strcmp(word, "-") == 0 ? NULL : word;
}

static void do_reserve(struct table *table, const struct line *line)
{
    struct request *request = core_request(&table->core, words_of(line->word[3]));
    uint64_t version = 1;
    for (int i = 4; i + 1 < line->words; i += 2) {
        const bool whole = strcmp(line->word[i], "whole") == 0;
        assert_true(whole || strcmp(line->word[i], "at") == 0);
        if (whole)
            request->whole = number(line->word[i + 1]);
        else
            version = number(line->word[i + 1]);
    }
    const struct command command = {.kind = COMMAND_RESERVE,
                                    .uid = line->word[1],
                                    .namespace = "default",
                                    .name = "pod",
                                    .node = line->word[2],
                                    .request = request,
                                    .version = version};
    say_verdict(table, core_do(&table->core, &command));
}

/* The pod is judged again, in a later version with this request. */
static void do_version(struct table *table, const struct line *line)
{
    struct request *request = core_request(&table->core, words_of(line->word[3]));
    if (line->words > 5 && strcmp(line->word[4], "whole") == 0)
        request->whole = number(line->word[5]);
    const struct command command = {.kind = COMMAND_VERSION,
                                    .uid = line->word[1],
                                    .request = request,
                                    .version = number(line->word[2])};
    say_verdict(table, core_do(&table->core, &command));
}

/* The pod is seen unbound in this version, and nothing is being sent. */
static void do_unbound(struct table *table, const struct line *line)
{
    struct core_fixture *core = &table->core;
    struct command command[RECONCILE_MAX];
    const size_t count = reconcile_unbound(core->ledger, line->word[1], number(line->word[2]),
                                           core->now_ms, command);
    if (count == 0)
        say(table, "same");
    else
        say_verdict(table, core_do(core, &command[0]));
}

static void see_version(struct table *table, const struct line *line)
{
    const struct allocation *held = ledger_find(table->core.ledger, text_of(line->word[1]));
    assert_non_null(held);
    say_number(table, (uint32_t)held->facts.version);
}

static void do_observe(struct table *table, const struct line *line)
{
    struct core_fixture *core = &table->core;
    struct pod *pod = core_pod(core, line->word[1], line->word[2]);
    for (int i = 4; i + 1 < line->words; i += 2) {
        if (strcmp(line->word[i], "whole") == 0) {
            pod->whole_gpus = number(line->word[i + 1]);
        } else {
            assert_string_equal(line->word[i], "note");
            char *note = arena_copy(&core->arena, text_of(line->word[i + 1]));
            for (char *at = strchr(note, ':'); at != NULL; at = strchr(at, ':'))
                *at = ' ';
            core_note(core, pod, note);
        }
    }
    say_verdict(table, core_adopt(core, pod, words_of(line->word[3])));
}

static void do_step(struct table *table, const struct line *line)
{
    struct command command = {.uid = line->word[1], .why = "ended"};
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(line->word[0], command_name((enum command_kind)i)) == 0)
            command.kind = (enum command_kind)i;
    if (command.kind == COMMAND_TERMINATING)
        command.terminating_ms = number(line->word[2]);
    if (command.kind == COMMAND_NOTE)
        command.differs = strcmp(line->word[2], "yes") == 0;
    say_verdict(table, core_do(&table->core, &command));
}

static void do_start(struct table *table, const struct line *line)
{
    (void)line;
    core_done(&table->core);
    core_init(&table->core);
}

static void do_undo(struct table *table, const struct line *line)
{
    (void)line;
    core_undo(&table->core);
    say(table, "ok");
}

static void do_restart(struct table *table, const struct line *line)
{
    (void)line;
    struct core_fixture *core = &table->core;
    struct ledger *copy = core_copy(core->ledger);
    CLEANUP(xfreep) char *before = core_dump(core->ledger);
    CLEANUP(xfreep) char *after = core_dump(copy);
    assert_string_equal(before, after);
    core_forget_undo(core);
    ledger_free(core->ledger);
    core->ledger = copy;
    say(table, "ok");
}

/* "n1/GPU-a"; NULL if there is no such GPU now. */
static const struct gpu *gpu_of(const struct table *table, const char *word)
{
    char node[64];
    const char *slash = strchr(word, '/');
    assert_non_null(slash);
    (void)snprintf(node, sizeof node, "%.*s", (int)(slash - word), word);
    return core_gpu(&table->core, node, slash + 1);
}

static void see_amount(struct table *table, const struct line *line)
{
    const struct gpu *gpu = gpu_of(table, line->word[1]);
    assert_non_null(gpu);
    const char *what = line->word[0];
    say_number(table, strcmp(what, "used") == 0       ? gpu->used_milli
                      : strcmp(what, "reserved") == 0 ? gpu->reserved_milli
                                                      : gpu->used_mib);
}

static void see_flags(struct table *table, const struct line *line)
{
    static const char *const name[] = {"absent", "unhealthy", "cordoned", "duplicate",
                                       "over",   NULL,        NULL,       "held"};
    const struct gpu *gpu = gpu_of(table, line->word[1]);
    for (size_t i = 0; gpu != NULL && i < ARRAY_LEN(name); i++)
        if (name[i] != NULL && (gpu->flags & (1 << i)) != 0)
            say(table, name[i]);
    if (gpu == NULL)
        say(table, "none");
    else if (gpu->flags == 0)
        say(table, "-");
}

static const struct node *node_of(const struct table *table, const struct line *line)
{
    const struct node *node = ledger_node(table->core.ledger, text_of(line->word[1]));
    assert_non_null(node);
    return node;
}

static void see_free(struct table *table, const struct line *line)
{
    say_number(table, node_of(table, line)->free_milli);
}

static void see_unplaced(struct table *table, const struct line *line)
{
    say_number(table, node_of(table, line)->unplaced_milli);
}

static void see_held(struct table *table, const struct line *line)
{
    say_number(table, node_of(table, line)->held_gpus);
}

static void see_unnamed(struct table *table, const struct line *line)
{
    say_number(table, node_of(table, line)->unnamed_gpus);
}

static const struct allocation *pod_of(const struct table *table, const struct line *line)
{
    return ledger_find(table->core.ledger, text_of(line->word[1]));
}

static void see_state(struct table *table, const struct line *line)
{
    const struct allocation *pod = pod_of(table, line);
    say(table, pod == NULL ? "none" : allocation_state_name(pod->facts.state));
}

static void see_presumed(struct table *table, const struct line *line)
{
    const struct allocation *pod = pod_of(table, line);
    assert_non_null(pod);
    say(table, pod->facts.presumed ? "yes" : "no");
}

static void see_on(struct table *table, const struct line *line)
{
    const struct allocation *pod = pod_of(table, line);
    assert_non_null(pod);
    for (uint32_t i = 0; i < pod->charges; i++)
        say(table, pod->charge[i].gpu->text);
}

struct kinds {
    const char *kind[16];
    size_t kinds;
};

static void note_kind(void *user, const struct drift *drift)
{
    struct kinds *kinds = user;
    size_t at = 0;
    while (at < kinds->kinds && strcmp(kinds->kind[at], drift->kind) < 0)
        at++;
    if (at < kinds->kinds && strcmp(kinds->kind[at], drift->kind) == 0)
        return;
    assert_true(kinds->kinds < ARRAY_LEN(kinds->kind));
    memmove(&kinds->kind[at + 1], &kinds->kind[at], (kinds->kinds++ - at) * sizeof(char *));
    kinds->kind[at] = drift->kind;
}

static void see_drift(struct table *table, const struct line *line)
{
    struct kinds kinds = {.kinds = 0};
    drift_of(node_of(table, line), &kinds, note_kind);
    for (size_t i = 0; i < kinds.kinds; i++)
        say(table, kinds.kind[i]);
    if (kinds.kinds == 0)
        say(table, "-");
}

static void see_stale(struct table *table, const struct line *line)
{
    (void)line;
    const struct node *node = ledger_stale_duplicate(table->core.ledger);
    say(table, node != NULL ? node->name->text : "-");
}

static const struct {
    const char *word;
    int words; /* at least this many, without the verdict */
    void (*run)(struct table *table, const struct line *line);
} request[] = {
    {"start", 0, do_start},         {"node", 2, do_node},        {"again", 2, do_again},
    {"vouch", 3, do_vouch},         {"gone", 2, do_gone},        {"reserve", 4, do_reserve},
    {"observe", 4, do_observe},     {"version", 4, do_version},  {"unbound", 3, do_unbound},
    {"at_version", 2, see_version}, {"confirm", 2, do_step},     {"doubt", 2, do_step},
    {"release", 2, do_step},        {"note", 3, do_step},        {"terminating", 3, do_step},
    {"clock", 1, do_step},          {"undo", 1, do_undo},        {"restart", 1, do_restart},
    {"used", 2, see_amount},        {"mib", 2, see_amount},      {"reserved", 2, see_amount},
    {"flags", 2, see_flags},        {"free", 2, see_free},       {"unplaced", 2, see_unplaced},
    {"state", 2, see_state},        {"on", 2, see_on},           {"presumed", 2, see_presumed},
    {"drift", 2, see_drift},        {"stale", 1, see_stale},     {"held", 2, see_held},
    {"policy", 1, do_step},         {"unnamed", 2, see_unnamed},
};

/* Cut the line into words; false if there are none. */
static bool split(char *text, struct line *line)
{
    *line = (struct line){.words = 0};
    text[strcspn(text, "#\n")] = '\0';
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest)) {
        assert_true(line->words < WORDS_MAX);
        line->word[line->words++] = word;
    }
    if (line->words == 0)
        return false;
    if (strcmp(line->word[0], "start") == 0) {
        line->expected = "";
    } else {
        line->expected = line->word[--line->words];
        line->word[line->words] = NULL;
    }
    return true;
}

static void run_line(struct table *table, const struct line *line, const char *file, int at)
{
    for (size_t i = 0; i < ARRAY_LEN(request); i++) {
        if (line->words == 0 || strcmp(line->word[0], request[i].word) != 0)
            continue;
        if (line->words < request[i].words)
            break;
        strbuf_reset(&table->said);
        request[i].run(table, line);
        if (strcmp(table->said.data, line->expected) != 0)
            fail_msg("%s:%d: %s, not %s", file, at, table->said.data, line->expected);
        return;
    }
    fail_msg("%s:%d: no such request, or words are missing", file, at);
}

TEST(every_line_of_the_table_holds)
{
    const char *file = "tests/table/ledger.txt";
    FILE *in = fopen(file, "r");
    if (in == NULL)
        fail_msg("%s: run me in the source tree", file);

    struct table table = {.met = {0}};
    core_init(&table.core);
    strbuf_init(&table.said);
    char text[512];
    int lines = 0;
    for (int at = 1; fgets(text, sizeof text, in) != NULL; at++) {
        struct line line;
        assert_non_null(strchr(text, '\n')); /* the line is complete */
        if (!split(text, &line))
            continue;
        run_line(&table, &line, file, at);
        lines++;
    }
    (void)fclose(in);
    assert_true(lines > 100);
    for (size_t i = 0; i < ARRAY_LEN(table.met); i++)
        assert_true(table.met[i] > 0); /* every verdict is reached */
    strbuf_done(&table.said);
    core_done(&table.core);
}
