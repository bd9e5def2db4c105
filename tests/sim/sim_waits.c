/*
 * waits - who waits, and who would never be woken.
 *
 * A scheduler asks about a refused pod again when anything happens in the cluster, else after 330
 * s. Its news is often ahead of milligpud's: then it asks, is refused by what milligpud knows, and
 * milligpud owes it a wake-up. So when all news has arrived and nothing is on its way, a pod that
 * fits, was refused and has not been woken since would wait for nothing.
 *
 * In a busy cluster something happens every other second and wakes everybody, owed or not. So now
 * and then, when a pod that fits was refused, the cluster stops: nothing acts but milligpud and the
 * API server, until a pod is woken or enough time has passed. Sometimes milligpud is killed at that
 * very moment; the next one owes what the former did not say. And it stops until a window of the
 * policy opens or closes, if that alone lets a refused pod fit.
 */
#include <string.h>

#include "sim_run.h"

enum {
    OWED_MS = 3000, /* a wake-up may be this late: there is a pause between two of them */
    LOOK_MS = 250,
    BREATH_MS = 25000,
};

bool waits_for_faults(struct sim *sim)
{
    const uint64_t *met = sim_api_met(sim->api);
    uint64_t faults = 0;

    for (uint32_t i = 0; i < SIM_FAULTS; i++)
        if (i != SIM_BOOKMARK && i != SIM_CHUNKS)
            faults += met[i];
    if (faults != sim->faults)
        sim->faults_ms = sim->now_ms;
    if (sim_api_felt_ms(sim->api) > sim->faults_ms)
        sim->faults_ms = sim_api_felt_ms(sim->api);
    sim->faults = faults;
    return sim->now_ms - sim->faults_ms < SIM_FAULTY_MS;
}

/* All news has arrived, nothing is on its way. */
static bool is_quiet(struct sim *sim)
{
    if (waits_for_faults(sim) || !daemon_ready(sim) || queue_depth(sim->daemon.app.queue) > 0 ||
        scheduler_binding(sim) > 0 || !sim_api_quiet(sim->api))
        return false;
    const struct snapshot *snapshot = daemon_view(sim);
    const uint32_t open = snapshot->n_opens;
    snapshot_unref(snapshot);
    return open == 0;
}

/* On a node that the scheduler did not exclude by itself. */
static bool fits(const struct sim *sim, struct view_of_pod *view, const struct model_pod *pod)
{
    if (view->looked == sim->changes)
        return view->fits;
    view->looked = sim->changes;
    view->fits = false;
    for (uint32_t n = 0; n < sim->model.n_nodes && !view->fits; n++)
        view->fits = (view->withheld & 1U << n) == 0 && oracle_fits(sim, pod, n);
    return view->fits;
}

/* If two schedulers have the pod, one of them will ask about it by itself. */
static bool is_asked_about(const struct sim *sim, const struct model_pod *pod)
{
    for (uint32_t s = 0; s < sim->rules.schedulers; s++) {
        const enum view_state state = sim->scheduler[s].view[pod - sim->model.pod].state;
        if ((pod->schedulers & 1U << s) != 0 &&
            (state == VIEW_QUEUED || state == VIEW_BACKOFF || state == VIEW_BINDING))
            return true;
    }
    return false;
}

/* Refused by milligpud, and nothing has happened since after which it would be asked again. */
static bool is_left_alone(const struct sim *sim, const struct view_of_pod *view,
                          const struct model_pod *pod)
{
    return !is_asked_about(sim, pod) && view->state == VIEW_REFUSED && view->ours &&
           view->events == sim->events && model_alive(pod) && pod->node[0] == '\0' &&
           !pod->terminating;
}

static bool is_owed(const struct sim *sim, struct view_of_pod *view, const struct model_pod *pod)
{
    return is_left_alone(sim, view, pod) && fits(sim, view, pod);
}

static void look(struct sim *sim, struct view_of_pod *view, const struct model_pod *pod, bool quiet)
{
    if (!quiet || !is_owed(sim, view, pod)) {
        view->owed_ms = 0;
        return;
    }
    if (view->owed_ms == 0)
        view->owed_ms = sim->now_ms;
    sim_met("wake_up/owed");
    if (sim->now_ms - view->owed_ms >= OWED_MS)
        sim_violation(sim, "p%u (%s) was refused, fits since %lld ms, and nobody wakes it",
                      pod->name, pod->shape->word, (long long)(sim->now_ms - view->owed_ms));
}

static void breathe(struct sim *sim)
{
    if (sim->breath_ms == 0 || (sim->events == sim->breath_events && sim->now_ms < sim->breath_ms))
        return;
    sim_say(sim, "the cluster goes on");
    sim->breath_ms = 0;
}

/* By the rules that hold then, if nothing else changes. */
static bool fits_at(struct sim *sim, const struct view_of_pod *view, const struct model_pod *pod,
                    int64_t wall_ms)
{
    struct view_of_pod then = {.withheld = view->withheld, .looked = UINT64_MAX};
    const int64_t now_ms = sim->wall_ms;

    sim->wall_ms = wall_ms;
    const bool is = fits(sim, &then, pod);
    sim->wall_ms = now_ms;
    return is;
}

/* A window opens or closes soon, and that alone makes it fit: the cluster stops until then. */
static void wait_for_window(struct sim *sim, const struct view_of_pod *view,
                            const struct model_pod *pod)
{
    struct draw draw = {.state = sim->seed ^ ((uint64_t)sim->now_ms << 24)};
    const int64_t wait_ms = rules_wait_ms(sim);

    if (wait_ms == 0 || sim->clock_heals_ms != 0 || !is_left_alone(sim, view, pod) ||
        !draw_chance(&draw, 300) || !fits_at(sim, view, pod, sim->wall_ms + wait_ms))
        return;
    sim->breath_ms = sim->now_ms + wait_ms + OWED_MS + BREATH_MS;
    sim->breath_events = sim->events;
    sim_met("wake_up/window");
    sim_say(sim, "p%u (%s) fits when a window has ended: the cluster holds its breath", pod->name,
            pod->shape->word);
}

void waits_refused(struct sim *sim, struct view_of_pod *view, const struct model_pod *pod,
                   uint64_t room)
{
    if (sim->settling || sim_is_still(sim) || !sim->daemon.up)
        return;
    if (!is_owed(sim, view, pod)) {
        wait_for_window(sim, view, pod);
        return;
    }
    const bool overtaken = view_capacity_generation(sim->daemon.app.view) != room;
    if (overtaken)
        sim_met("wake_up/overtaken");
    if (!overtaken && !draw_chance(&sim->draw, 300))
        return;
    sim->breath_ms = sim->now_ms + BREATH_MS;
    sim->breath_events = sim->events;
    sim->daemon.doomed =
        !overtaken && sim->rules.crash_per_mille > 0 && draw_chance(&sim->draw, 400);
    sim_met(sim->daemon.doomed ? "wake_up/dies_with_it" : "wake_up/breath");
    sim_say(sim, "p%u (%s) was refused and fits: the cluster holds its breath", pod->name,
            pod->shape->word);
}

void oracle_waiting(struct sim *sim)
{
    breathe(sim);
    if (sim->now_ms < sim->look_ms)
        return;
    sim->look_ms = sim->now_ms + LOOK_MS;
    rules_watch(sim);
    const bool quiet = is_quiet(sim);
    for (uint32_t s = 0; s < sim->rules.schedulers; s++)
        for (uint32_t i = 0; i < sim->model.n_pods; i++)
            look(sim, &sim->scheduler[s].view[i], &sim->model.pod[i], quiet);
    if (quiet)
        sim_met("wake_up/looked");
}
