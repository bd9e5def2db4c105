/* Runs tests/table/filter.txt; the language is described at its top. */
#include <string.h>

#include "milligpu/core/answer/filter.h"
#include "milligpu/core/answer/unschedulable.h"

#include "support/ledger_table.h"

enum { NAMES_MAX = 16, OFFERS_MAX = 4 };

/* One question, with what it borrows. */
struct asked {
    struct arena arena;
    struct snapshot *snapshot;
    struct text name[NAMES_MAX];
    struct offer offer[OFFERS_MAX];
    struct filter_question question;
    struct filter_answer answer;
};

/* AMOUNT... of NAME... [for POD] [shortlist N] {offer NODE GPU MILLI} */
static void read_question(struct table *table, struct asked *asked)
{
    struct filter_question *question = &asked->question;

    *asked = (struct asked){.snapshot = ledger_publish(table->core.ledger, NULL, 0)};
    arena_init(&asked->arena);
    *question = (struct filter_question){.snapshot = asked->snapshot,
                                         .request = ledger_table_request(table),
                                         .uid = TEXT("asking"),
                                         .name = asked->name,
                                         .offer = asked->offer};
    if (ledger_table_next_is(table, "of"))
        do {
            assert_true(question->n_names < NAMES_MAX);
            asked->name[question->n_names++] = text_of(ledger_table_next(table));
        } while (ledger_table_next_is(table, "and"));
    if (ledger_table_next_is(table, "for"))
        question->uid =
            ledger_table_next_is(table, "-") ? (struct text){0} : text_of(ledger_table_next(table));
    if (ledger_table_next_is(table, "shortlist"))
        question->shortlist = ledger_table_number(table);
    while (ledger_table_next_is(table, "offer")) {
        assert_true(question->n_offers < OFFERS_MAX);
        const struct node *node = snapshot_node(asked->snapshot, text_of(ledger_table_next(table)));
        const struct node *of = snapshot_node(asked->snapshot, text_of(ledger_table_next(table)));
        assert_true(node != NULL && of != NULL);
        asked->offer[question->n_offers++] =
            (struct offer){node->name, of->gpu[0].id, ledger_table_number(table)};
    }
}

static void asked_done(struct asked *asked)
{
    snapshot_unref(asked->snapshot);
    arena_done(&asked->arena);
}

/* A name that is given twice is listed in the order of the question. */
static void assert_name(const struct asked *asked, uint32_t at)
{
    const struct candidate *candidate = &asked->answer.candidate[at];
    uint32_t before = 0;

    for (uint32_t i = 0; i < at; i++)
        before += asked->answer.candidate[i].node == candidate->node;
    for (uint32_t i = 0; i < candidate->name; i++)
        if (text_is(asked->name[i], candidate->node->name->text))
            before--;
    assert_int_equal(before, 0);
    assert_true(text_is(asked->name[candidate->name], candidate->node->name->text));
}

static void say_candidates(struct table *table, const struct asked *asked)
{
    const bool held = asked->answer.verdict == FILTER_RESERVED;

    for (uint32_t i = 0; i < asked->answer.n_candidates; i++) {
        const struct candidate *candidate = &asked->answer.candidate[i];
        const struct placement *placement = candidate->placement;
        assert_name(asked, i);
        assert_int_equal(placement != NULL, i == 0);
        if (placement != NULL)
            assert_int_equal(placement->n_parts > 0, !held);
        ledger_table_print(table, " %s %u%s", candidate->node->name->text,
                           held ? placement->charge_milli : candidate->rank.left_milli,
                           candidate->rank.behind ? " behind" : "");
    }
}

static void ask(struct table *table)
{
    static const char *const verdict[] = {"fits", "none", "reserved", "elsewhere", "unbound"};
    struct asked asked;
    uint32_t fitting = 0;

    read_question(table, &asked);
    filter_ask(&asked.question, &asked.arena, &asked.answer);
    ledger_table_print(table, "%s", verdict[asked.answer.verdict]);
    if (asked.answer.held != NULL)
        ledger_table_print(table, " (%s on %s)", asked.answer.held->facts.uid,
                           asked.answer.held->facts.node->text);
    say_candidates(table, &asked);
    for (uint32_t i = 0; i < asked.question.n_names; i++)
        if (asked.answer.cause[i].why == REASON_NONE)
            fitting++;
        else
            ledger_table_print(table, ", %.*s %s", TEXT_ARG(asked.name[i]),
                               reason_name(asked.answer.cause[i].why));
    if (asked.answer.verdict != FILTER_RESERVED)
        assert_int_equal(asked.answer.fitting, fitting);
    asked_done(&asked);
}

static void score(struct table *table)
{
    struct asked asked;
    uint8_t score[NAMES_MAX + 1];

    memset(score, 77, sizeof score);
    read_question(table, &asked);
    filter_score(&asked.question, &asked.arena, score);
    for (uint32_t i = 0; i < asked.question.n_names; i++)
        ledger_table_print(table, "%s%u", i > 0 ? " " : "", score[i]);
    assert_int_equal(score[asked.question.n_names], 77);
    asked_done(&asked);
}

static const struct node *next_node(struct table *table)
{
    const struct node *node = ledger_node(table->core.ledger, text_of(ledger_table_next(table)));

    assert_non_null(node);
    return node;
}

/* AMOUNT... NODE [for POD] [without POD ...] */
static void preempt(struct table *table)
{
    const struct request *request = ledger_table_request(table);
    const struct node *node = next_node(table);
    const struct allocation *held = NULL;
    struct text victim[NAMES_MAX];
    uint32_t victims = 0;

    if (ledger_table_next_is(table, "for")) {
        held = ledger_find(table->core.ledger, text_of(ledger_table_next(table)));
        assert_non_null(held);
    }
    if (ledger_table_next_is(table, "without"))
        while (ledger_table_has_more(table) && victims < NAMES_MAX) {
            const char *uid = ledger_table_next(table);
            victim[victims++] = text_of(strcmp(uid, "-") == 0 ? "" : uid);
        }
    const enum reason why = preempt_ask(NULL, node, request, held, victim, victims);
    ledger_table_say(table, why == REASON_NONE ? "fits" : reason_name(why));
}

/* AMOUNT... NODE [within BYTES] */
static void explain(struct table *table)
{
    const struct request *request = ledger_table_request(table);
    const struct node *node = next_node(table);
    char text[256];
    const uint32_t bytes =
        ledger_table_next_is(table, "within") ? ledger_table_number(table) : sizeof text;

    assert_true(bytes <= sizeof text);
    filter_explain(NULL, node, request, text, bytes);
    ledger_table_say(table, text);
}

static void summarize(struct table *table)
{
    static const char always[] = "no node of this cluster, as it is, can ever serve it: ";
    const struct node_demands anywhere = {0};
    const struct unschedulable_question question = {ledger_table_request(table), &anywhere};
    struct snapshot *snapshot = ledger_publish(table->core.ledger, NULL, 0);
    const bool numbers = ledger_table_next_is(table, "numbers");
    struct unschedulable summary;
    uint32_t nodes = 0;

    unschedulable_of(snapshot, &question, &table->core.arena, &summary);
    for (uint32_t why = 0; why < REASONS; why++) {
        const struct moment *moment = &summary.moment[why];
        if (summary.nodes[why] == 0)
            continue;
        ledger_table_print(table, "%s%s %u", nodes > 0 ? ", " : "", reason_name((enum reason)why),
                           summary.nodes[why]);
        if (numbers)
            ledger_table_print(table, " (%u free on %u GPUs, %u in one, %u closed)",
                               (uint32_t)moment->free_milli, (uint32_t)moment->gpus,
                               moment->piece_milli, (uint32_t)moment->closed[why]);
        nodes += summary.nodes[why];
    }
    assert_int_equal(nodes, snapshot->nodes);
    assert_int_equal(summary.never, summary.never_text[0] != '\0');
    if (summary.never) {
        const bool known = strncmp(summary.never_text, always, sizeof always - 1) == 0;
        ledger_table_print(table, "%snever: %s%s", nodes > 0 ? "; " : "", known ? "... " : "",
                           summary.never_text + (known ? sizeof always - 1 : 0));
    }
    snapshot_unref(snapshot);
}

static void list_unbound(struct table *table)
{
    const struct command note = {
        .kind = COMMAND_NOTE, .uid = ledger_table_next(table), .unbound = true};

    ledger_table_say_verdict(table, core_do(&table->core, &note));
}

TEST(filter__answers_each_request_of_the_table)
{
    static const struct table_request own[] = {
        {"filter", ask},      {"score", score},       {"preempt", preempt},
        {"explain", explain}, {"summary", summarize}, {"listed_unbound", list_unbound},
        {NULL, NULL},
    };
    struct table table;

    ledger_table_run(&table, "tests/table/filter.txt", own);
    assert_true(table.requests > 80);
}
