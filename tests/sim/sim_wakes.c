/*
 * wakes - why milligpud wakes kube-scheduler, and how often.
 *
 * Each wake-up makes a scheduler ask about all of its waiting pods. So a wake-up needs a reason,
 * newer than the decision to send the one before it, and follows that one after a pause. The
 * reasons:
 *
 *   a node        changed, and takes shares now; or it lost an allocation, and whole GPUs may fit;
 *                 while a pod waits
 *   an agent      vouched, though a batch of news may show it Ready and not Ready at once
 *   the policy    has other rules, prices or idle hosts
 *   an offer      was made to a pod, which may be bound nowhere
 *   milligpud     was not ready, or its last wake-up failed
 *
 * An agent that is not Ready any more is no reason, because its node takes no shares. So an agent
 * that flaps causes one wake-up at most for each time that it vouches, and four at most in a
 * second. A wake-up that is missing is noticed by sim_waits.c.
 */
#include "milligpu/sync/outbox.h"
#include "milligpu/waiting/waiting_pods.h"

#include "sim_run.h"

/* An offer is late after a second; its wake-up may wait for the pause and for the disk. */
enum { PAUSE_MS = 250, READY_TURNS = 2, OFFER_MS = 4000 };

void wakes_booted(struct sim *sim)
{
    sim->wakes = (struct sim_wakes){.reason_ms = sim->now_ms};
}

static void has_reason(struct sim *sim)
{
    sim->wakes.reason_ms = sim->now_ms;
}

/* The wake-up at the beginning of readiness is decided by the next turn at the latest. */
void wakes_turn(struct sim *sim)
{
    struct sim_wakes *wakes = &sim->wakes;

    wakes->ready_turns = daemon_ready(sim) ? wakes->ready_turns + 1 : 0;
    if (wakes->ready_turns <= READY_TURNS)
        has_reason(sim);
    if (waiting_pods_count(sim->daemon.app.waiting_pods) > 0 ||
        waiting_pods_overflowed(sim->daemon.app.waiting_pods, sim->now_ms))
        wakes->waiting_ms = sim->now_ms;
}

void wakes_offered(struct sim *sim)
{
    sim->wakes.offered_ms = sim->now_ms;
}

void wakes_vouched(struct sim *sim)
{
    sim->wakes.vouched_ms = sim->now_ms;
}

/* A node without shares has room for whole GPUs, with or without an agent. */
static bool may_have_room(const struct node *before, const struct node *now)
{
    return !vouch_closes(now->vouch) || before == NULL || before->gone ||
           now->n_allocations < before->n_allocations;
}

void wakes_shown(struct sim *sim, const struct snapshot *before, const struct snapshot *now)
{
    const struct node *node_before;
    const struct node *node;
    uint32_t at = 0;
    bool opens = false;

    while (!opens && snapshot_next_change(before, now, &at, &node_before, &node))
        opens = node != NULL && may_have_room(node_before, node);
    if (opens)
        sim->wakes.room_ms = sim->now_ms;
    if (before == NULL || before->context != now->context)
        has_reason(sim);
}

static bool has_failed(const struct sim *sim)
{
    struct outbox_stats stats;

    outbox_stats(sim->daemon.app.outbox, &stats);
    return stats.wake_failing;
}

static bool is_due(const struct sim *sim)
{
    const struct sim_wakes *wakes = &sim->wakes;
    const int64_t since_ms = wakes->decided_ms;
    const bool room = wakes->room_ms >= since_ms || wakes->vouched_ms >= since_ms;
    const bool helps = room && wakes->waiting_ms >= since_ms;

    return helps || wakes->reason_ms >= since_ms || sim->now_ms - wakes->offered_ms <= OFFER_MS ||
           has_failed(sim);
}

static bool any_flaps(const struct sim *sim)
{
    bool any = false;

    for (uint32_t n = 0; n < sim->model.n_nodes; n++)
        any = any || sim->vouch[n].flap_ms != 0;
    return any;
}

void wakes_sent(struct sim *sim)
{
    struct sim_wakes *wakes = &sim->wakes;
    const int64_t passed_ms = sim->now_ms - wakes->sent_ms;

    sim_met(any_flaps(sim) ? "wake_up/while_an_agent_flaps" : "wake_up/sent");
    if (wakes->sent && passed_ms < PAUSE_MS)
        sim_violation(sim, "a wake-up %lld ms after the one before", (long long)passed_ms);
    if (!is_due(sim))
        sim_violation(sim, "a wake-up without a reason, %lld ms after the one before",
                      (long long)passed_ms);
    wakes->sent = true;
    wakes->sent_ms = sim->now_ms;
    wakes->decided_ms = sim->now_ms - (waits_for_faults(sim) ? SIM_FAULTY_MS : 0);
}
