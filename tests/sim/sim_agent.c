/*
 * agent - what milligpu-node writes into its Node, and when.
 *
 * It reads the GPUs every ten seconds, hears of containers at once, and writes when that says
 * something new, as the real one does: one write after the other, a failed one again after a pause,
 * the same again now and then. A write may be late, or lost, or take effect although its answer was
 * lost, also after a later one. While the agent is dead, its last words stay. An agent that is
 * installed again begins to read anew; its removal removes its annotations.
 */
#include "sim_agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim_run.h"

enum {
    LOOK_MS = 1000,
    READ_MS = 10000,
    PATCH_MS = 4000, /* until it gives up waiting for the answer */
    AGAIN_MS = 1000, /* after a failure, doubled each time */
    AGAIN_MAX_MS = 8000,
    LATE_MS = 40000,
};

/* health as gpus_annotation.h writes it; NULL: well. */
static const struct {
    const char *health;
    const char *reason;
} illness[] = {
    {NULL, NULL},
    {"failed", "XID 79: the GPU has fallen off the bus"},
    {"degraded", "2 memory errors that were not corrected"},
    {"failed", "it must be reset"},
    {"unknown", "NVML says nothing"},
};

static struct sim_agent *agent_of(struct sim *sim, const struct model_node *node)
{
    return &sim->agent[node - sim->model.node];
}

static int64_t later(struct sim *sim, int64_t least, int64_t most)
{
    return sim->now_ms + draw_between(&sim->agents_draw, least, most);
}

bool agent_serves(const struct sim *sim, const struct model_node *node)
{
    return sim->agent[node - sim->model.node].up;
}

/* --- what it says --- */

static void copy_text(char *out, size_t bytes, const char *text)
{
    (void)snprintf(out, bytes, "%s", text);
}

static bool is_taken(const struct agent_words *words, uint32_t gpus, uint32_t index)
{
    for (uint32_t i = 0; i < gpus; i++)
        if (!words->gpu[i].missing && words->gpu[i].index == index)
            return true;
    return false;
}

/* kubelet's word comes before a variable's, and both before a process. */
static void say_holder(const struct sim *sim, const struct model_node *node, uint32_t at,
                       struct model_gpu *out)
{
    const struct sim_agent *agent = &sim->agent[node - sim->model.node];
    const struct true_gpu *read = &agent->read[at];
    const struct model_pod *pod = stay_holder(sim, node, at);
    const uint32_t claims = agent->gpu[at].claims;

    out->held[0] = '\0';
    if (pod != NULL && (!agent->by_variable || claims == 0))
        (void)snprintf(out->held, sizeof out->held, "%s:%s", agent->by_variable ? "env" : "pod",
                       pod->uid);
    else if (claims > 0)
        (void)snprintf(out->held, sizeof out->held, "env:%s", sim->model.pod[claims - 1].uid);
    else if (read->process)
        copy_text(out->held, sizeof out->held, "process");
}

/* As NVML said at the last reading; containers are known as they are. */
static void say_gpu(const struct sim *sim, const struct model_node *node, uint32_t at,
                    struct model_gpu *out)
{
    const struct sim_agent *agent = &sim->agent[node - sim->model.node];
    const struct true_gpu *read = &agent->read[at];

    *out = node->is.gpu[at];
    out->missing = true; /* until its index is found */
    out->index = read->index;
    out->ill = read->gone || read->ill != 0;
    out->health = read->gone ? "lost" : illness[read->ill].health;
    out->reason = read->gone ? "NVML does not find it any more" : illness[read->ill].reason;
    out->since_ms = out->ill ? read->since_ms : 0;
    say_holder(sim, node, at, out);
}

static void say(const struct sim *sim, const struct model_node *node, struct agent_words *out)
{
    const struct sim_agent *agent = &sim->agent[node - sim->model.node];

    *out = (struct agent_words){.gpus = agent->has_read};
    vouch_says(sim, node, &out->claim);
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        out->gpu[i].missing = true;
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (!agent->read[i].gone) {
            say_gpu(sim, node, i, &out->gpu[i]);
            out->gpu[i].missing = false;
        }
    /* One that is lost was there once; its index may be another's now. */
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        if (!agent->read[i].gone)
            continue;
        say_gpu(sim, node, i, &out->gpu[i]);
        while (is_taken(out, node->is.n_gpus, out->gpu[i].index))
            out->gpu[i].index++;
        out->gpu[i].missing = (agent->known >> i & 1) == 0;
    }
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_gpu(const struct model_gpu *a, const struct model_gpu *b)
{
    if (a->missing || b->missing)
        return a->missing == b->missing;
    return a->index == b->index && a->ill == b->ill && strcmp(a->held, b->held) == 0 &&
           same_text(a->health, b->health) && same_text(a->reason, b->reason) &&
           a->since_ms == b->since_ms;
}

static bool same_claim(const struct vouch_claim *a, const struct vouch_claim *b)
{
    return strcmp(a->pod, b->pod) == 0 && strcmp(a->node, b->node) == 0 &&
           strcmp(a->boot, b->boot) == 0 && strcmp(a->leaving, b->leaving) == 0;
}

static bool same_words(const struct agent_words *a, const struct agent_words *b, uint32_t gpus)
{
    bool same = a->gpus == b->gpus && same_claim(&a->claim, &b->claim);

    for (uint32_t i = 0; same && a->gpus && i < gpus; i++)
        same = same_gpu(&a->gpu[i], &b->gpu[i]);
    return same;
}

/* --- what is written --- */

static bool shows_gpus(const struct model_node *node)
{
    bool shows = false;

    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        shows = shows || !(node->odd ? node->hidden[i] : node->is.gpu[i].missing);
    return shows;
}

/* The words become those of the Node; of an odd one they are found when it can be read again. */
static void take_words(struct model_node *node, const struct agent_words *words)
{
    if (node->is.stripped && words->gpus)
        sim_met("vouch/says_it_again");
    node->is.agent = true;
    /* Before it has read them, those stay that the Node showed before, if milligpud knows. */
    node->is.stripped = !words->gpus && !shows_gpus(node);
    for (uint32_t i = 0; words->gpus && i < node->is.n_gpus; i++) {
        node->is.gpu[i] = words->gpu[i];
        if (!node->odd)
            continue;
        node->hidden[i] = words->gpu[i].missing;
        node->is.gpu[i].missing = true;
    }
}

/* The annotation's value. */
static json_t *agent_note(const struct sim *sim, const struct vouch_claim *claim)
{
    char text[SIM_AGENT_BYTES];

    usage_agent(sim, text);
    json_t *note = json_loads(text, 0, NULL);
    vouch_tells(claim, note);
    char *value = json_dumps(note, JSON_COMPACT);
    json_t *out = json_string(value);
    free(value);
    json_decref(note);
    return out;
}

static void land(struct sim *sim, struct model_node *node, const struct agent_words *words)
{
    const uint64_t before = core_version(sim);
    struct model_node shown = *node;

    if (!node->is.there) {
        sim_met("agent/no_node");
        return;
    }
    shown.odd = false;
    take_words(&shown, words);
    json_t *notes = json_pack("{s:o}", "milligpu.io/agent", agent_note(sim, &words->claim));
    if (words->gpus)
        json_object_set_new(notes, "milligpu.io/gpus", core_gpus(&shown));
    core_change_node(sim, node, "", json_pack("{s:{s:o}}", "metadata", "annotations", notes));
    take_words(node, words);
    if (core_version(sim) == before) {
        sim_met("agent/repeats");
        return;
    }
    model_node_is(sim, node, core_version(sim));
    sim_met(words->gpus ? "agent/tells" : "agent/is_there");
    sim_say(sim, "the agent of %s has told", node->name);
}

static void fly(struct sim_agent *agent, int64_t due_ms)
{
    for (uint32_t i = 0; i < AGENT_CALLS_MAX; i++)
        if (agent->call[i].due_ms == 0) {
            agent->call[i] = (struct agent_call){.due_ms = due_ms, .words = agent->sending};
            return;
        }
    sim_met("agent/lost"); /* as many as that are on their way already */
}

/* The fate of a write is drawn when it is sent. */
static void send(struct sim *sim, struct sim_agent *agent)
{
    const uint32_t fate = draw_below(&sim->agents_draw, 1000);

    agent->fails = fate >= 800 && !sim->settling;
    agent->busy_ms = sim->now_ms + PATCH_MS;
    if (!agent->fails) {
        agent->busy_ms = later(sim, 1, draw_chance(&sim->agents_draw, 200) ? 3000 : 100);
        fly(agent, agent->busy_ms);
    } else if (fate < 870) {
        sim_met("agent/lost");
    } else if (fate < 940) {
        fly(agent, later(sim, 1, PATCH_MS / 2));
        sim_met("agent/answer_lost");
    } else {
        fly(agent, later(sim, PATCH_MS, LATE_MS));
        sim_met("agent/late");
    }
}

/* The answer has come, or none did. */
static void answered(struct sim *sim, const struct model_node *node, struct sim_agent *agent)
{
    agent->busy_ms = 0;
    if (!agent->fails) {
        agent->sent = agent->sending;
        vouch_answered(sim, node);
        agent->has_sent = true;
        agent->wait_ms = 0;
        agent->again_ms = later(sim, 20000, sim->rules.vouches ? 60000 : 600000);
        agent->look_ms = sim->now_ms + LOOK_MS;
        return;
    }
    agent->wait_ms = agent->wait_ms == 0 ? AGAIN_MS : 2 * agent->wait_ms;
    agent->wait_ms = agent->wait_ms < AGAIN_MAX_MS ? agent->wait_ms : AGAIN_MAX_MS;
    agent->look_ms = sim->now_ms + agent->wait_ms;
}

static void look(struct sim *sim, const struct model_node *node, struct sim_agent *agent)
{
    agent->look_ms = INT64_MAX;
    say(sim, node, &agent->sending);
    const bool same = agent->has_sent && agent->wait_ms == 0 && sim->now_ms < agent->again_ms &&
                      same_words(&agent->sending, &agent->sent, node->is.n_gpus);
    if (!same)
        send(sim, agent);
}

void agent_looks(struct sim *sim, const struct model_node *node)
{
    struct sim_agent *agent = agent_of(sim, node);
    const int64_t at = later(sim, 5, LOOK_MS);

    if (agent->up && agent->wait_ms == 0 && at < agent->look_ms)
        agent->look_ms = at;
}

static void read_gpus(struct sim *sim, const struct model_node *node, struct sim_agent *agent)
{
    memcpy(agent->read, agent->gpu, sizeof agent->read);
    agent->has_read = true;
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        if (!agent->gpu[i].gone)
            agent->known |= 1U << i;
    agent->read_ms = later(sim, READ_MS - 500, READ_MS + 500);
    agent_looks(sim, node);
}

/* --- it comes and goes --- */

static void stop(struct sim *sim, struct sim_agent *agent, int64_t down_ms)
{
    agent->up = false;
    agent->boot_ms = sim->now_ms + down_ms;
    agent->busy_ms = 0; /* what is on its way may still take effect */
}

void agent_stops(struct sim *sim, const struct model_node *node, int64_t down_ms)
{
    stop(sim, agent_of(sim, node), down_ms);
}

static void start(struct sim *sim, const struct model_node *node, struct sim_agent *agent)
{
    agent->up = true;
    vouch_starts(sim, node);
    agent->has_read = agent->has_sent = agent->fails = false;
    agent->known = 0;
    agent->wait_ms = agent->busy_ms = 0;
    agent->look_ms = later(sim, 5, LOOK_MS);
    agent->read_ms = later(sim, 100, 4000);
    sim_met("agent/starts");
    sim_say(sim, "the agent of %s starts", node->name);
}

/* The Node shows no GPUs until an agent says which there are. */
void agent_shows_nothing(struct model_node *node)
{
    node->is.agent = node->is.stripped = false;
    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        struct model_gpu *gpu = &node->is.gpu[i];
        gpu->missing = node->hidden[i] = true;
        gpu->ill = false;
        gpu->held[0] = '\0';
        gpu->health = gpu->reason = NULL;
        gpu->since_ms = 0;
    }
}

void agent_begin(struct sim *sim, struct model_node *node)
{
    struct sim_agent *agent = agent_of(sim, node);
    struct draw *draw = &sim->agents_draw;

    node->by_agent = true;
    *agent = (struct sim_agent){.installed = draw_chance(draw, 900),
                                .by_variable = draw_chance(draw, 250),
                                .boot_ms = later(sim, 0, 3000),
                                .look_ms = INT64_MAX};
    for (uint32_t i = 0; i < node->is.n_gpus; i++)
        agent->gpu[i].index = i;
}

void agent_node_comes(struct sim *sim, struct model_node *node)
{
    agent_shows_nothing(node);
    if (agent_of(sim, node)->boot_ms < sim->now_ms)
        agent_of(sim, node)->boot_ms = later(sim, 100, 5000);
}

/* The agent's pod is removed with its Node. */
void agent_node_goes(struct sim *sim, const struct model_node *node)
{
    if (!vouch_node_goes(sim, node))
        stop(sim, agent_of(sim, node), 0);
}

static void uninstall(struct sim *sim, struct model_node *node)
{
    agent_of(sim, node)->installed = false;
    stop(sim, agent_of(sim, node), 0);
    sim_met("agent/uninstalled");
    sim_say(sim, "the agent of %s is removed", node->name);
    vouch_leaves(sim, node);
    if (!node->is.there)
        return;
    core_change_node(sim, node, "",
                     json_pack("{s:{s:{s:s,s:n}}}", "metadata", "annotations", "milligpu.io/agent",
                               "{\"leaving\":\"uninstalled\"}", "milligpu.io/gpus"));
    agent_shows_nothing(node);
    model_node_is(sim, node, core_version(sim));
}

/* --- what happens to its node --- */

/* Everything starts again, and GPUs may have other indexes. */
static void reboot(struct sim *sim, struct model_node *node, struct draw *draw)
{
    struct sim_agent *agent = agent_of(sim, node);
    const uint32_t turn = draw_below(draw, node->is.n_gpus);

    for (uint32_t i = 0; i < node->is.n_gpus; i++) {
        const uint32_t index = (i + turn) % node->is.n_gpus;
        agent->gpu[i] =
            (struct true_gpu){.index = index, .gone = agent->gpu[i].gone && draw_chance(draw, 300)};
    }
    stop(sim, agent, draw_between(draw, 1000, 20000));
    stay_reboots(sim, node);
    vouch_reboots(sim, node);
}

static void sicken(const struct sim *sim, struct true_gpu *gpu, struct draw *draw)
{
    gpu->ill = gpu->ill != 0 ? 0 : 1 + draw_below(draw, ARRAY_LEN(illness) - 1);
    gpu->since_ms = sim->wall_ms;
}

static void fall_off(const struct sim *sim, struct true_gpu *gpu)
{
    gpu->gone = !gpu->gone;
    gpu->since_ms = sim->wall_ms;
}

/* A variable that its author wrote, whatever it requests. */
static void claim(struct sim *sim, const struct model_node *node, struct true_gpu *gpu,
                  struct draw *draw)
{
    const uint32_t from = draw_below(draw, sim->model.n_pods);

    gpu->claims = 0;
    for (uint32_t k = 0; k < sim->model.n_pods && draw_chance(draw, 950); k++) {
        const uint32_t i = (from + k) % sim->model.n_pods;
        if (sim->stay[i].here && sim->stay[i].runs && sim->model.pod[i].n_shares == 0 &&
            strcmp(sim->model.pod[i].node, node->name) == 0) {
            gpu->claims = i + 1;
            break;
        }
    }
    agent_looks(sim, node);
}

static void trouble(struct sim *sim, struct model_node *node, struct draw *draw)
{
    static const char *const word[] = {"ill_or_well", "ill_or_well", "process",  "process",
                                       "restarts",    "restarts",    "dead",     "reboots",
                                       "gone",        "claimed",     "installed"};
    const uint32_t what = draw_below(draw, ARRAY_LEN(word));
    struct sim_agent *agent = agent_of(sim, node);
    struct true_gpu *gpu = &agent->gpu[draw_below(draw, node->is.n_gpus)];

    switch (what) {
    case 0:
    case 1:
        sicken(sim, gpu, draw);
        break;
    case 2:
    case 3:
        gpu->process = !gpu->process;
        break;
    case 4:
    case 5:
        stop(sim, agent, draw_between(draw, 50, 3000));
        break;
    case 6:
        stop(sim, agent, draw_between(draw, 20000, 90000));
        break;
    case 7:
        reboot(sim, node, draw);
        break;
    case 8:
        fall_off(sim, gpu);
        break;
    case 9:
        claim(sim, node, gpu, draw);
        break;
    default:
        if (!agent->installed) {
            agent->installed = true;
            agent->boot_ms = sim->now_ms + draw_between(draw, 0, 3000);
        } else if (draw_chance(draw, 400)) {
            uninstall(sim, node);
        }
    }
    sim_met("agent_node/%s", word[what]);
    sim_say(sim, "node %s, which has an agent: %s", node->name, word[what]);
}

void agents_trouble(struct sim *sim, uint32_t step)
{
    struct draw draw = {.state = ~(sim->seed * 0x9E3779B97F4A7C15U + step)};

    if (!sim->rules.agents || !draw_chance(&draw, sim->rules.agent_per_mille))
        return;
    struct model_node *node = &sim->model.node[draw_below(&draw, sim->model.n_nodes)];
    if (node->by_agent && !vouch_trouble(sim, node, &draw))
        trouble(sim, node, &draw);
}

/* --- its turn --- */

static void turn(struct sim *sim, struct model_node *node, struct sim_agent *agent)
{
    for (uint32_t i = 0; i < AGENT_CALLS_MAX; i++) {
        struct agent_call *call = &agent->call[i];
        if (call->due_ms == 0 || sim->now_ms < call->due_ms)
            continue;
        call->due_ms = 0;
        land(sim, node, &call->words);
    }
    vouch_turn(sim, node);
    if (!agent->up && agent->installed && node->is.there && sim->now_ms >= agent->boot_ms &&
        vouch_can_start(sim, node))
        start(sim, node, agent);
    if (!agent->up)
        return;
    if (sim->now_ms >= agent->read_ms)
        read_gpus(sim, node, agent);
    if (agent->busy_ms != 0 && sim->now_ms >= agent->busy_ms)
        answered(sim, node, agent);
    if (agent->busy_ms == 0 && sim->now_ms >= agent->look_ms)
        look(sim, node, agent);
}

void agents_turn(struct sim *sim)
{
    if (!sim->rules.agents)
        return;
    stay_turn(sim);
    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        if (sim->model.node[n].by_agent)
            turn(sim, &sim->model.node[n], &sim->agent[n]);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_of(const struct sim *sim, const struct model_node *node,
                       const struct sim_agent *agent)
{
    int64_t next = vouch_next(sim, node);

    for (uint32_t i = 0; i < AGENT_CALLS_MAX; i++)
        if (agent->call[i].due_ms != 0)
            next = sooner(next, agent->call[i].due_ms);
    if (!agent->up)
        return agent->installed && node->is.there && vouch_can_start(sim, node)
                   ? sooner(next, agent->boot_ms)
                   : next;
    next = sooner(next, agent->read_ms);
    return sooner(next, agent->busy_ms != 0 ? agent->busy_ms : agent->look_ms);
}

int64_t agents_next(const struct sim *sim)
{
    int64_t next = INT64_MAX;

    if (!sim->rules.agents)
        return next;
    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        if (sim->model.node[n].by_agent)
            next = sooner(next, next_of(sim, &sim->model.node[n], &sim->agent[n]));
    return sooner(next, stay_next(sim));
}
