/*
 * rules - a policy with rules, which change while milligpud runs.
 *
 * Half of the nodes are in the pool "even", the others in "odd", for good. A rule is about a pool,
 * or all nodes; about the namespace of all pods, or another one; and holds always, or in a window
 * of minutes. Which rule wins, whether its window is open, and what it demands, is counted here,
 * from the wall clock and from what was drawn. What is judged is each grant when it is written: by
 * the rules that the journal named last.
 */
#include <string.h>

#include "milligpu/core/rules/window.h"
#include "milligpu/core/rules/zone.h"

#include "sim_run.h"
#include "support/rules.h"

/* The models of sim_cluster.c, one of them by a glob. */
static const char *const model_names[SIM_PRICES] = {"A100-*", "H100-PCIE-80GB"};

enum { DAY_MIN = 24 * 60, MINUTE_MS = 60000, WHOLE = 1000, RESERVE = 3 };

static const struct label even = {"sim/pool", "even"};
static const struct label odd = {"sim/pool", "odd"};
static const char *const ours[] = {"def*"};
static const char *const others[] = {"other-*", "default-*"};

static bool is_even_name(const char *node)
{
    return (node[strlen(node) - 1] & 1) == 0;
}

bool rules_even(const struct model_node *node)
{
    return is_even_name(node->name);
}

/* --- drawn --- */

static void draw_window(const struct sim *sim, struct draw *draw, struct sim_rule *out)
{
    const int64_t minute = sim->wall_ms / MINUTE_MS % DAY_MIN;

    out->from_min = (uint32_t)((minute + draw_below(draw, 3)) % DAY_MIN);
    out->minutes = 1 + draw_below(draw, 2);
}

static void draw_rule(const struct sim *sim, struct draw *draw, struct sim_rule *out)
{
    static const uint32_t min[] = {60, 300, 500};
    static const uint32_t step[] = {50, 100, 250};

    *out = (struct sim_rule){.pool = draw_below(draw, 3), .others = draw_chance(draw, 200)};
    if (draw_chance(draw, 400))
        draw_window(sim, draw, out);
    switch (sim->rules.taints && draw_chance(draw, 500) ? RESERVE : draw_below(draw, 5)) {
    case 0:
        out->whole = true;
        break;
    case 1:
        out->min_milli = min[draw_below(draw, ARRAY_LEN(min))];
        break;
    case 2:
        out->step_milli = step[draw_below(draw, ARRAY_LEN(step))];
        break;
    case RESERVE:
        out->reserve = 1 + draw_below(draw, 2);
        break;
    default:
        break; /* exempts from the rules after it */
    }
    if (sim->rules.raises)
        out->memory = draw_below(draw, SIM_MEMORY_RAISE + 1);
    if (sim->rules.linked && draw_chance(draw, 300))
        out->lie = draw_chance(draw, 500) ? LIE_ON_NUMA : LIE_LINKED;
}

/* By itself, so that the other draws stay what they are. */
static void draw_prices(const struct sim *sim, struct sim_book *book)
{
    static const uint32_t price[] = {50, 100, 700};
    struct draw draw = {.state = sim->seed ^ 0x9121CE5 ^ (uint64_t)book->number << 32};

    if (!sim->rules.priced || draw_chance(&draw, 200))
        return;
    for (uint32_t i = 0; i < SIM_PRICES; i++)
        book->price[i] = price[draw_below(&draw, ARRAY_LEN(price))];
    sim_met(book->price[0] == book->price[1] ? "rules/same_prices" : "rules/prices");
}

/* The other two are for rulebooks that still decide, and that are on their way. */
static struct sim_book *next_book(struct sim *sim)
{
    sim->n_books++;
    return &sim->book[sim->n_books % SIM_BOOKS];
}

void rules_draw(struct sim *sim, struct draw *draw)
{
    struct sim_book *book = next_book(sim);

    *book = (struct sim_book){.number = sim->n_books,
                              .n_rules = sim->rules.ruled ? draw_below(draw, SIM_RULES + 1) : 0};
    for (uint32_t i = 0; i < book->n_rules; i++)
        draw_rule(sim, draw, &book->rule[i]);
    book->raise = sim->rules.raises && draw_chance(draw, 700);
    draw_prices(sim, book);
    sim->changes++;
}

/* --- as the document of milligpud --- */

static struct zone *utc;

/* One for all windows: it lives as long as the process. */
static const struct zone *zone_of_sim(void)
{
    if (utc == NULL)
        utc = zone_utc();
    return utc;
}

static const struct window *window_of(struct rulebook *book, const struct sim_rule *is)
{
    struct window *window = arena_alloc(&book->arena, sizeof *window);

    if (is->minutes == 0)
        return NULL;
    *window = (struct window){.days = 0x7f,
                              .from_min = (int32_t)is->from_min,
                              .minutes = (int32_t)is->minutes,
                              .zone = "UTC"};
    return window;
}

static void tell_prices(struct rulebook *book, const struct sim_book *is)
{
    if (is->price[0] == 0)
        return;
    struct model_price *price = arena_array(&book->arena, SIM_PRICES, sizeof *price);
    for (uint32_t i = 0; i < SIM_PRICES; i++)
        price[i] = (struct model_price){.model = model_names[i], .price = is->price[i]};
    book->prices_by = PRICES_KNOWN;
    book->n_prices = SIM_PRICES;
    book->price = price;
}

struct rulebook *rules_document(const struct sim *sim)
{
    static const enum topology topology[] = {[LIE_ANYWHERE] = TOPOLOGY_ANY,
                                             [LIE_ON_NUMA] = TOPOLOGY_NUMA,
                                             [LIE_LINKED] = TOPOLOGY_NVLINK};
    static const enum memory_mode memory[] = {[SIM_MEMORY_UNSAID] = MEMORY_UNSAID,
                                              [SIM_MEMORY_FILTER] = MEMORY_FILTER,
                                              [SIM_MEMORY_RAISE] = MEMORY_RAISE};
    const struct sim_book *is = &sim->book[sim->n_books % SIM_BOOKS];
    struct rule rule[SIM_RULES];
    enum policy_kind kind = POLICY_BINPACK;
    char name[32];

    must(policy_of_name(text_of(sim->policy.order), &kind));
    (void)snprintf(name, sizeof name, "book %u", is->number);
    memset(rule, 0, sizeof rule);
    struct rulebook *book = rulebook_with(kind, name, rule, is->n_rules);
    struct rule *own = (struct rule *)(uintptr_t)book->rule;
    book->raise = is->raise;
    tell_prices(book, is);
    for (uint32_t i = 0; i < is->n_rules; i++) {
        const struct sim_rule *from = &is->rule[i];
        own[i].n_labels = from->pool > 0;
        own[i].label = from->pool == 1 ? &even : &odd;
        own[i].n_namespaces = from->others ? 2 : from->pool == 2;
        own[i].namespace = from->others ? others : ours;
        own[i].window = window_of(book, from);
        own[i].zone = own[i].window != NULL ? zone_of_sim() : NULL;
        own[i].whole = from->whole;
        own[i].min_milli = from->min_milli;
        own[i].step_milli = from->step_milli;
        own[i].reserve = from->reserve;
        own[i].memory = memory[from->memory];
        own[i].topology = topology[from->lie];
    }
    return book;
}

/* Somebody edits the document; a process that is down reads it at its start. */
void rules_change(struct sim *sim, struct draw *draw)
{
    rules_draw(sim, draw);
    if (!sim->daemon.up)
        return;
    struct message *message = message_new(MESSAGE_POLICY);
    message->rulebook = rules_document(sim);
    if (!queue_put(sim->daemon.app.queue, message)) {
        message_free(message);
        sim->n_books--;
        return;
    }
    sim_met("rules/changed");
    sim_say(sim, "the policy is book %u, of %u rules", sim->n_books,
            sim->book[sim->n_books % SIM_BOOKS].n_rules);
}

/* --- what decides --- */

static bool is_open(const struct sim_rule *rule, int64_t wall_ms)
{
    const int64_t minute = wall_ms / MINUTE_MS % DAY_MIN;

    return rule->minutes == 0 ||
           (minute + DAY_MIN - rule->from_min) % DAY_MIN < (int64_t)rule->minutes;
}

static uint64_t open_rules(const struct sim_book *book, int64_t wall_ms)
{
    uint64_t open = 0;

    for (uint32_t i = 0; i < book->n_rules; i++)
        open |= is_open(&book->rule[i], wall_ms) ? UINT64_C(1) << i : 0;
    return open;
}

bool rules_match(const struct sim_rule *rule, bool is_even)
{
    return rule->pool == 0 || is_even == (rule->pool == 1);
}

/* The rule among the open ones; NULL if none. */
static const struct sim_rule *winner(const struct sim_book *book, bool is_even, uint64_t open)
{
    for (uint32_t i = 0; i < book->n_rules; i++) {
        const struct sim_rule *rule = &book->rule[i];
        if ((open >> i & 1) != 0 && !rule->others && rules_match(rule, is_even))
            return rule;
    }
    return NULL;
}

static bool allows(const struct sim_rule *rule, uint32_t milli)
{
    return (!rule->whole || milli == WHOLE) && milli >= rule->min_milli &&
           (rule->step_milli == 0 || milli % rule->step_milli == 0);
}

bool rules_take(const struct sim_rule *rule, const struct shape *shape)
{
    for (uint32_t w = 0; w < shape->n_wants; w++) {
        const uint32_t parts = model_parts(&shape->want[w]);
        if (parts > 0 && !allows(rule, shape->want[w].milli / parts))
            return false;
    }
    return true;
}

/*
 * How the GPUs of each container must lie: as the rule (NULL: none) demands, or more, as the pod
 * does. Linked is more than on one NUMA node, wherever the links go (rulebook.h).
 */
enum model_lie rules_demand(const struct sim_rule *rule, const struct shape *shape)
{
    return rule != NULL && rule->lie > shape->lie ? rule->lie : shape->lie;
}

static const struct sim_book *book_of(const struct sim *sim, uint32_t number)
{
    const struct sim_book *book = &sim->book[number % SIM_BOOKS];

    if (book->number != number)
        sim_violation(sim, "rules of book %u decide, and book %u is the policy", number,
                      sim->n_books);
    return book;
}

const struct sim_rule *rules_granting(const struct sim *sim, const struct command *command,
                                      const char *node)
{
    const struct sim_book *book = book_of(sim, sim->deciding_book);

    return winner(book, is_even_name(node), open_rules(book, command->at_ms));
}

static struct lay_raise raise_by(const struct sim_book *book, const struct sim_rule *rule)
{
    if (rule == NULL)
        return (struct lay_raise){.may = book->raise};
    return (struct lay_raise){
        .may = rule->memory == SIM_MEMORY_UNSAID ? book->raise : rule->memory == SIM_MEMORY_RAISE,
        .whole = rule->whole,
        .min_milli = rule->min_milli,
        .step_milli = rule->step_milli};
}

struct lay_raise rules_raise_granting(const struct sim *sim, const struct command *command,
                                      const char *node)
{
    return raise_by(book_of(sim, sim->deciding_book), rules_granting(sim, command, node));
}

/* A GPU without a known model comes last. */
uint32_t rules_price_granting(const struct sim *sim, const char *model)
{
    const struct sim_book *book = book_of(sim, sim->deciding_book);

    if (book->price[0] == 0)
        return 0;
    return model[0] == 'A' ? book->price[0] : model[0] == 'H' ? book->price[1] : PRICE_MAX;
}

static uint32_t number_of(const char *name)
{
    return (uint32_t)strtoul(name + strlen("book "), NULL, 10);
}

const struct sim_rule *rules_shown(const struct sim *sim, const struct snapshot *snapshot,
                                   const struct model_node *node)
{
    const struct policy_context *context = snapshot->context;

    return winner(book_of(sim, number_of(context->rulebook->name)), rules_even(node),
                  context->holding);
}

struct lay_raise rules_raise_shown(const struct sim *sim, const struct snapshot *snapshot,
                                   const struct model_node *node)
{
    return raise_by(book_of(sim, number_of(snapshot->context->rulebook->name)),
                    rules_shown(sim, snapshot, node));
}

/* From its COMMIT on, the entry that the journal got decides. */
void rules_written(struct sim *sim, const struct command *command, const struct change *change)
{
    if (command->kind == COMMAND_POLICY) {
        sim->told_book = number_of(command->rulebook->name);
        if (command->holding != open_rules(book_of(sim, sim->told_book), command->at_ms))
            sim_violation(sim, "the journal says that rules %llx of book %u hold",
                          (unsigned long long)command->holding, sim->told_book);
        sim_met(command->holding != 0 ? "rules/hold" : "rules/none_holds");
        return;
    }
    if (command->kind != COMMAND_RESERVE)
        return;
    const struct sim_book *book = book_of(sim, sim->deciding_book);
    const char *node = change->after->facts.node->text;
    const struct sim_rule *rule = rules_granting(sim, command, node);
    if (rule == NULL)
        return;
    for (uint32_t i = 0; i < change->after->facts.n_shares; i++)
        if (!allows(rule, change->after->facts.share[i].milli))
            sim_violation(sim, "%s was granted %u milli on %s, against rule %u of book %u",
                          command->name, change->after->facts.share[i].milli, node,
                          (uint32_t)(rule - book->rule) + 1, book->number);
    sim_met("rules/granted");
}

void rules_committed(struct sim *sim)
{
    if (sim->deciding_book == sim->told_book)
        return;
    sim->deciding_book = sim->told_book;
    sim->changes++;
}

void rules_lost(struct sim *sim)
{
    sim->told_book = sim->deciding_book;
}

/* --- for what fits --- */

/* A window that has just opened or closed may not have been noticed. */
static bool is_settled(const struct sim *sim, const struct sim_book *book)
{
    return sim->deciding_book == sim->n_books &&
           open_rules(book, sim->wall_ms) == open_rules(book, sim->wall_ms - MINUTE_MS / 4);
}

/* Other nodes may fit as soon as other rules hold, and every thread has noticed. */
void rules_watch(struct sim *sim)
{
    const struct sim_book *book = &sim->book[sim->n_books % SIM_BOOKS];
    const uint64_t open = is_settled(sim, book) ? open_rules(book, sim->wall_ms) : UINT64_MAX;

    sim->changes += open != sim->open;
    sim->open = open;
}

/* How long until that, if a window opens or closes within minutes; 0: none does. */
int64_t rules_wait_ms(const struct sim *sim)
{
    const struct sim_book *book = &sim->book[sim->n_books % SIM_BOOKS];
    const int64_t minute_ms = sim->wall_ms - sim->wall_ms % MINUTE_MS;

    if (!is_settled(sim, book))
        return 0;
    for (int64_t at_ms = minute_ms + MINUTE_MS; at_ms <= minute_ms + 2 * MINUTE_MS;
         at_ms += MINUTE_MS)
        if (open_rules(book, at_ms) != open_rules(book, sim->wall_ms))
            return at_ms + MINUTE_MS / 4 - sim->wall_ms;
    return 0;
}

const struct sim_rule *rules_now(const struct sim *sim, const struct model_node *node)
{
    const struct sim_book *book = &sim->book[sim->n_books % SIM_BOOKS];

    return winner(book, rules_even(node), open_rules(book, sim->wall_ms));
}

struct lay_raise rules_raise_now(const struct sim *sim, const struct model_node *node)
{
    return raise_by(&sim->book[sim->n_books % SIM_BOOKS], rules_now(sim, node));
}

enum rules_fit rules_fit(const struct sim *sim, const struct shape *shape,
                         const struct model_node *node, const bool *victim)
{
    static const enum rules_fit kept[] = {
        [FIT_NO] = RULES_FIT, [FIT_YES] = RULES_NOT, [FIT_UNSURE] = RULES_UNSURE};
    const struct sim_rule *rule = rules_now(sim, node);

    if (!is_settled(sim, &sim->book[sim->n_books % SIM_BOOKS]))
        return RULES_UNSURE;
    if (rule == NULL)
        return RULES_FIT;
    if (!rules_take(rule, shape))
        return RULES_NOT;
    if (rule->reserve == 0 || !reserve_is_small(shape))
        return RULES_FIT;
    return kept[reserve_keeps(sim, rule, node, victim)];
}

/* All is quiet: what decides is what was drawn last, and what the clock says. */
void oracle_rules(const struct sim *sim, const struct snapshot *snapshot)
{
    const struct sim_book *book = &sim->book[sim->n_books % SIM_BOOKS];
    char name[32];

    (void)snprintf(name, sizeof name, "book %u", sim->n_books);
    if (strcmp(snapshot->context->rulebook->name, name) != 0)
        sim_violation(sim, "%s decides when everything is quiet, and %s is the policy",
                      snapshot->context->rulebook->name, name);
    if (snapshot->context->holding != open_rules(book, sim->wall_ms) &&
        open_rules(book, sim->wall_ms) == open_rules(book, sim->wall_ms - MINUTE_MS / 4))
        sim_violation(sim, "rules %llx hold when everything is quiet, %llx are due",
                      (unsigned long long)snapshot->context->holding,
                      (unsigned long long)open_rules(book, sim->wall_ms));
}
