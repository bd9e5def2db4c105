#include "sim_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "milligpu/base/alloc.h"
#include "milligpu/base/random.h"
#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/run/log.h"

#include "support/disk.h"

enum {
    QUIET_MS = 110000,
    WAIT_MS = 420000,
    EVENTS_MAX = 2000000,
    START_MS = 1000000,
    YIELD_MAX = 3,
    LOOK_MS = 250,
    WAIT_WITHIN_MS = 8,
    LONG_WAIT_MS = 400,
};

/* --- chance --- */

uint64_t draw_next(struct draw *draw)
{
    return random_next(&draw->state);
}

uint32_t draw_below(struct draw *draw, uint32_t below)
{
    const uint64_t number = draw_next(draw);

    return below == 0 ? 0 : (uint32_t)(number % below);
}

int64_t draw_between(struct draw *draw, int64_t least, int64_t most)
{
    must(least <= most);
    return least + (int64_t)(draw_next(draw) % (uint64_t)(most - least + 1));
}

bool draw_chance(struct draw *draw, uint32_t per_mille)
{
    return draw_below(draw, 1000) < per_mille;
}

uint32_t draw_any(void *draw, uint32_t below)
{
    return draw_below(draw, below);
}

/* --- words --- */

/* Only the folder's name differs from process to process. */
static void forget_folder(const struct sim *sim, char *line)
{
    char *at;

    while ((at = strstr(line, sim->ledger)) != NULL)
        memmove(at, at + strlen(sim->ledger), strlen(at + strlen(sim->ledger)) + 1);
}

void sim_say(const struct sim *sim, const char *format, ...)
{
    char line[1024];
    va_list args;

    const int length = snprintf(line, sizeof line, "%4u %8.3f s  ", sim->step,
                                (double)(sim->now_ms - START_MS) / 1000);
    va_start(args, format);
    (void)vsnprintf(line + length, sizeof line - (size_t)length, format, args);
    va_end(args);
    forget_folder(sim, line);
    sim_digest(line);
    if (sim->trace)
        (void)puts(line);
}

void sim_violation(const struct sim *sim, const char *format, ...)
{
    va_list args;

    (void)fprintf(stderr, "violation: seed %llu, step %u, %.3f s: ", (unsigned long long)sim->seed,
                  sim->step, (double)(sim->now_ms - START_MS) / 1000);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    (void)fflush(NULL);
    _exit(3);
}

void sim_time(int64_t utc_ms, char out[SIM_TIME_BYTES])
{
    const time_t seconds = (time_t)(utc_ms / 1000);
    struct tm tm;

    must(gmtime_r(&seconds, &tm) != NULL);
    must(strftime(out, SIM_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
}

/* --- time --- */

static void told(void *user, const char *resource, uint64_t version)
{
    struct sim *sim = user;

    sim->operations++;
    if (strcmp(resource, "nodes") == 0 && version > sim->daemon.told_nodes)
        sim->daemon.told_nodes = version;
    if (strcmp(resource, "pods") == 0 && version > sim->daemon.told_pods)
        sim->daemon.told_pods = version;
}

static void effect(void *user, const struct sim_effect *effect)
{
    model_effect(user, effect);
}

static void sent(void *user, const char *method, const char *path)
{
    if (strcmp(method, "PATCH") == 0 && strstr(path, "csistoragecapacities") != NULL)
        wakes_sent(user);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_event(const struct sim *sim, int64_t until_ms)
{
    int64_t next = least(until_ms, sim_api_next(sim->api));

    next = least(next, sim->daemon.up ? sim->daemon.next_ms : sim->daemon.boot_ms);
    if (sim->daemon.disk_heals_ms != 0)
        next = least(next, sim->daemon.disk_heals_ms);
    for (uint32_t i = 0; i < sim->rules.schedulers; i++)
        next = least(next, scheduler_next(sim, &sim->scheduler[i]));
    if (!sim_is_still(sim))
        next = least(next, least(core_next(sim), agents_next(sim)));
    return next > sim->now_ms ? next : sim->now_ms + 1;
}

static void heal_disk(struct sim *sim)
{
    if (sim->daemon.disk_heals_ms == 0 || sim->now_ms < sim->daemon.disk_heals_ms)
        return;
    sim->daemon.disk_heals_ms = 0;
    disk_fail(0, 0, 0, false);
    sim_say(sim, "the disk is well");
}

static void heal_clock(struct sim *sim)
{
    if (sim->clock_heals_ms == 0 || sim->now_ms < sim->clock_heals_ms)
        return;
    sim->clock_heals_ms = 0;
    sim->wall_ms -= sim->clock_ahead_ms;
    sim_say(sim, "the clock is right again");
}

void sim_pass(struct sim *sim, int64_t ms)
{
    const int64_t until = sim->now_ms + ms;
    uint32_t events = 0;

    while (sim->now_ms < until) {
        const int64_t next = next_event(sim, until);
        sim->wall_ms += next - sim->now_ms;
        sim->now_ms = next;
        sim_api_now(sim->api, next);
        keys_now(sim);
        heal_disk(sim);
        heal_clock(sim);
        if (!sim_is_still(sim)) {
            core_kubelets(sim);
            agents_turn(sim);
        }
        daemon_step(sim);
        for (uint32_t i = 0; i < sim->rules.schedulers; i++)
            scheduler_step(sim, &sim->scheduler[i]);
        oracle_waiting(sim);
        if (++events > EVENTS_MAX)
            sim_violation(sim, "time does not pass");
    }
}

static void wait_within(struct sim *sim, int64_t ms)
{
    sim->now_ms += ms;
    sim->wall_ms += ms;
    sim_api_now(sim->api, sim->now_ms);
    keys_now(sim);
    if (sim_is_still(sim))
        return;
    core_kubelets(sim);
    agents_turn(sim);
}

/* A thread is in the middle of something; it was preempted for a while. */
void sim_interleave(struct sim *sim)
{
    struct sim_daemon *daemon = &sim->daemon;

    usage_between(sim);
    if (daemon->yield >= YIELD_MAX || !draw_chance(&sim->draw, sim->pressing ? 800 : 300))
        return;
    daemon->yield++;
    const uint32_t pieces = 1 + draw_below(&sim->draw, 6);
    for (uint32_t i = 0; i < pieces && !disk_is_cut(); i++) {
        const bool news = draw_chance(&sim->draw, 500);
        if (draw_chance(&sim->draw, news ? 700 : 300))
            wait_within(sim, draw_between(&sim->draw, 1, news ? LONG_WAIT_MS : WAIT_WITHIN_MS));
        if (news)
            daemon_hears(sim);
        else if (draw_chance(&sim->draw, 600))
            daemon_turn(sim);
        else
            scheduler_step(sim, &sim->scheduler[draw_below(&sim->draw, sim->rules.schedulers)]);
    }
    daemon->yield--;
}

/* --- a run --- */

/*
 * The same: by itself. In most of these runs ledgers are lost, and what runs was signed: then
 * its tenant may edit what he likes.
 */
static void draw_raises(struct sim_rules *rules, const struct sim_plan *plan)
{
    struct draw draw = {.state = plan->seed ^ 0x3A15E5};

    rules->raises = draw_chance(&draw, 300);
    rules->raise_per_mille = 50 + draw_below(&draw, 250);
    if (!rules->raises || !draw_chance(&draw, 600))
        return;
    rules->loses = rules->agents = true;
    rules->copies = false;
    rules->tenant_per_mille = rules->node_per_mille = 0;
    rules->raise_per_mille = 250 + draw_below(&draw, 500);
    rules->crash_per_mille = 20 + draw_below(&draw, 60);
    rules->faults_per_mille = 50 + draw_below(&draw, 250);
}

/* Unusable nodes matter where a rule keeps idle hosts. */
static void draw_taints(struct sim_rules *rules, const struct sim_plan *plan)
{
    struct draw draw = {.state = plan->seed ^ 0x7A1275};

    rules->taints = draw_chance(&draw, 250);
    rules->taint_per_mille = 20 + draw_below(&draw, 200);
    rules->ruled = rules->ruled || rules->taints;
}

static void draw_reports(struct sim_rules *rules, const struct sim_plan *plan)
{
    struct draw draw = {.state = plan->seed ^ 0x05A6E5};

    rules->reports = rules->agents && draw_chance(&draw, 500);
}

/* Pods of agents vouch for nodes. The setting is mostly the default. */
static void draw_vouches(struct sim_rules *rules, const struct sim_plan *plan)
{
    struct draw draw = {.state = plan->seed ^ 0x0B0CE5};
    const uint32_t setting = draw_below(&draw, 100);

    rules->vouches = rules->agents && draw_chance(&draw, 500);
    rules->required = REQUIRE_WHERE_SELECTED;
    if (!rules->vouches)
        return;
    rules->agent_per_mille += 100;
    if (setting < 8)
        rules->required = REQUIRE_ALWAYS;
    else if (setting < 14)
        rules->required = REQUIRE_NEVER;
    rules->by_annotation = draw_chance(&draw, 60);
}

/* Prices, and policies that judge nodes by the learned workload. */
static void draw_prices(struct sim_rules *rules, const struct sim_plan *plan)
{
    static const char *const orders[] = {"fgd", "rollout"};
    struct draw draw = {.state = plan->seed ^ 0x9121CE5};

    rules->priced = draw_chance(&draw, 250);
    rules->order =
        draw_chance(&draw, 250) ? orders[draw_below(&draw, ARRAY_LEN(orders))] : "binpack";
}

static void draw_rules(struct sim *sim, const struct sim_plan *plan)
{
    static const uint32_t faults[] = {0, 5, 30, 100, 250};
    static const uint32_t lists[] = {0, 1, 2, 16};
    struct draw *draw = &sim->draw;
    struct sim_rules *rules = &sim->rules;

    rules->steps = 60 + draw_below(draw, 240);
    if (plan->steps != 0)
        rules->steps = plan->steps;
    rules->nodes = 1 + draw_below(draw, 5);
    rules->schedulers = 1 + draw_below(draw, SIM_SCHEDULERS);
    rules->faults_per_mille = faults[draw_below(draw, ARRAY_LEN(faults))];
    rules->crash_per_mille = draw_chance(draw, 700) ? 5 + draw_below(draw, 60) : 0;
    rules->disk_per_mille = draw_chance(draw, 400) ? 5 + draw_below(draw, 30) : 0;
    rules->node_per_mille = draw_chance(draw, 700) ? 20 + draw_below(draw, 100) : 0;
    rules->tenant_per_mille = draw_chance(draw, 500) ? 20 + draw_below(draw, 100) : 0;
    rules->shortlist = lists[draw_below(draw, ARRAY_LEN(lists))];
    rules->full_nodes = draw_chance(draw, 150);
    rules->both = draw_chance(draw, 400);
    rules->power = draw_chance(draw, 500);
    rules->idle_pods = draw_chance(draw, 40) ? 700 : 0;
    rules->picky = draw_chance(draw, 250);
    rules->odd_per_mille = draw_chance(draw, 400) ? 10 + draw_below(draw, 50) : 0;
    /* The current state is rebuilt from annotations and nodes, so it is as good as they are. */
    rules->loses =
        rules->tenant_per_mille == 0 && rules->node_per_mille == 0 && draw_chance(draw, 700);
    if (rules->loses) {
        rules->crash_per_mille = 20 + draw_below(draw, 60);
        rules->faults_per_mille = 50 + draw_below(draw, 250);
    }
    rules->resets = draw_chance(draw, rules->loses ? 700 : 300);
    rules->ruled = draw_chance(draw, 400);
    rules->copies = draw_chance(draw, 250);
    if (rules->copies && rules->nodes == 1)
        rules->nodes = 2;
    if (rules->copies && !rules->loses)
        rules->node_per_mille = 100 + draw_below(draw, 100);
    /* By itself: without it a seed is the run that it was before there was any. */
    struct draw linked = {.state = ~plan->seed};
    rules->linked = draw_chance(&linked, 350);
    if (rules->linked && !rules->loses && rules->node_per_mille < 60)
        rules->node_per_mille = 60 + draw_below(&linked, 100);
    struct draw agents = {.state = plan->seed ^ 0xA9E275};
    rules->agents = draw_chance(&agents, 400);
    rules->agent_per_mille = draw_chance(&agents, 850) ? 50 + draw_below(&agents, 250) : 0;
    rules->key_per_mille = draw_chance(&agents, 750) ? 10 + draw_below(&agents, 50) : 0;
    /* Most of those are the runs that they were before any of them had agents. */
    if (rules->copies || rules->loses)
        rules->agents = rules->agents && draw_chance(&agents, 500);
    draw_raises(rules, plan);
    draw_taints(rules, plan);
    draw_prices(rules, plan);
    draw_reports(rules, plan);
    draw_vouches(rules, plan);
    struct draw scarce = {.state = plan->seed ^ 0x5CA2CE};
    rules->scarce = rules->idle_pods == 0 && draw_chance(&scarce, 250);
}

uint32_t sim_steps(uint64_t seed)
{
    struct sim *sim = xcalloc(1, sizeof *sim);

    sim->draw.state = seed;
    draw_rules(sim, &(struct sim_plan){.seed = seed});
    const uint32_t steps = sim->rules.steps;
    xfree(sim);
    return steps;
}

static int64_t wall_of(void *ctx)
{
    return ((const struct sim *)ctx)->wall_ms;
}

static struct sim *sim_new(const struct sim_plan *plan)
{
    struct sim *sim = xcalloc(1, sizeof *sim);

    log_set(LOG_ERROR, false);
    text_seed(plan->seed);
    sim->seed = plan->seed;
    sim->trace = plan->trace;
    sim->draw.state = plan->seed;
    sim->agents_draw.state = ~(plan->seed ^ 0xA9E275);
    sim->now_ms = START_MS;
    sim->wall_ms = 1700000000000;
    draw_rules(sim, plan);
    (void)snprintf(sim->ledger, sizeof sim->ledger, "%s/ledger.db", plan->folder);
    disk_clear();
    if (sim->rules.agents)
        keys_begin(sim, plan->folder);
    if (sim->rules.reports)
        usage_begin(sim, plan->folder);
    sim->fake = fake_apiserver_new("sim");
    fake_apiserver_set_clock(sim->fake, wall_of, sim);
    core_add_idle_pods(sim);
    const uint64_t api_seed = draw_next(&sim->draw);
    sim->api = sim_api_new(&(struct sim_api_rules){.seed = api_seed,
                                                   .fake = sim->fake,
                                                   .faults_per_mille = sim->rules.faults_per_mille,
                                                   .user = sim,
                                                   .effect = effect,
                                                   .sent = sent,
                                                   .told = told});
    sim_api_now(sim->api, sim->now_ms);
    for (uint32_t i = 0; i < SIM_CALLS; i++) {
        strbuf_init(&sim->call[i].body);
        http_call_init(&sim->call[i].http, "/");
    }
    for (uint32_t i = 0; i < SIM_SCHEDULERS; i++) {
        sim->scheduler[i].id = i;
        strbuf_init(&sim->scheduler[i].asking.body);
        strbuf_init(&sim->scheduler[i].asking.seen);
        http_call_init(&sim->scheduler[i].asking.http, "/");
        sim->scheduler[i].lag_ms =
            draw_between(&sim->draw, 1, draw_chance(&sim->draw, 200) ? 3000 : 30);
    }
    return sim;
}

static void sim_free(struct sim *sim)
{
    if (sim->daemon.up)
        daemon_stop(sim);
    for (uint32_t i = 0; i < SIM_CALLS; i++) {
        strbuf_done(&sim->call[i].body);
        http_call_done(&sim->call[i].http);
    }
    for (uint32_t i = 0; i < SIM_SCHEDULERS; i++) {
        strbuf_done(&sim->scheduler[i].asking.body);
        strbuf_done(&sim->scheduler[i].asking.seen);
        http_call_done(&sim->scheduler[i].asking.http);
    }
    sim_api_free(sim->api);
    fake_apiserver_free(sim->fake);
    model_done(&sim->model);
    vouched_end(sim);
    keys_end(sim);
    usage_end(sim);
    disk_clear();
    xfree(sim);
}

/* Nothing acts until everything on its way has arrived or timed out. */
static void be_quiet(struct sim *sim)
{
    sim->frozen = true;
    core_calm(sim);
    sim_pass(sim, QUIET_MS);
    oracle_quiet(sim);
    sim->frozen = false;
}

static void step(struct sim *sim, uint32_t i)
{
    struct draw draw = {.state = sim->seed * 0x2545F4914F6CDD1DU + i};
    static const int64_t pauses[] = {0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 60000};

    sim->step = i;
    sim->operations++;
    core_step(sim, &draw);
    agents_trouble(sim, i);
    raise_trouble(sim, i);
    taints_trouble(sim, i);
    keys_trouble(sim, i);
    const bool quiet = usage_trouble(sim, i);
    /* Short pauses are frequent, long ones are rare. */
    const uint32_t a = draw_below(&draw, ARRAY_LEN(pauses));
    const uint32_t b = draw_below(&draw, ARRAY_LEN(pauses));
    sim_pass(sim, pauses[a < b ? a : b] + draw_below(&draw, 5));
    while (sim->breath_ms != 0)
        sim_pass(sim, LOOK_MS);
    if (draw_chance(&draw, 3) || quiet)
        be_quiet(sim);
}

void sim_run(const struct sim_plan *plan, uint64_t *out_operations)
{
    struct sim *sim = sim_new(plan);

    core_begin(sim);
    daemon_boot(sim);
    sim_pass(sim, 2000);
    for (uint32_t i = 0; i < sim->rules.steps; i++)
        if (plan->skip == NULL || !plan->skip[i])
            step(sim, i);
    sim->step = sim->rules.steps;
    sim_say(sim, "no more trouble");
    be_quiet(sim);
    sim->settling = true;
    odd_mend_all(sim);
    taints_mend_all(sim);
    vouch_calm(sim);
    for (uint32_t i = 0; i < sim->model.n_pods; i++)
        sim->model.pod[i].kubelet_ms = 0; /* a running pod goes on running */
    sim_pass(sim, WAIT_MS);
    oracle_nobody_waits(sim);
    core_end_all(sim);
    sim_pass(sim, QUIET_MS);
    oracle_empty(sim);
    oracle_keys_gone(sim);
    for (uint32_t i = 0; i < SIM_FAULTS; i++) {
        static const char *const word[] = {
#define X(code, name) [code] = (name),
            SIM_FAULT_TABLE(X)
#undef X
        };
        sim_met_many(sim_api_met(sim->api)[i], "api/%s", word[i]);
    }
    *out_operations = sim->operations;
    sim_free(sim);
}
