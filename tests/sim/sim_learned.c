/*
 * learned - the workload that milligpud has learned survives as it was stored.
 *
 * After a kill or a stop milligpud goes on with what store_ops.learn() stored last, or with what it
 * was storing when it died; after the loss of the ledger, with nothing. That
 * very workload is in the policy context of its first snapshot. At every quiet moment the file can
 * be loaded.
 */
#include "milligpu/core/rules/tally.h"

#include "sim_run.h"

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 0x9E3779B97F4A7C15U;
    *hash ^= *hash >> 29;
}

static uint64_t hash_of(const struct sim *sim, const struct tally *tally)
{
    uint64_t hash = 1;

    if (tally == NULL)
        return 0;
    if (tally_classes(tally) > WORKLOAD_CLASSES_MAX)
        sim_violation(sim, "%u classes of pods are learned, more than %d", tally_classes(tally),
                      WORKLOAD_CLASSES_MAX);
    mix(&hash, tally_pods(tally));
    for (uint32_t i = 0; i < tally_classes(tally); i++) {
        const struct workload_class *class = tally_class(tally, i);
        mix(&hash, class->host.cpu_milli);
        mix(&hash, class->host.memory_mib);
        mix(&hash, class->parts);
        mix(&hash, class->milli);
        mix(&hash, class->share_mib);
        mix(&hash, class->count);
        for (uint32_t m = 0; m < class->n_models; m++)
            mix(&hash, text_hash_by(text_of(class->model[m]), 0));
    }
    return hash;
}

void learned_written(struct sim *sim, const struct tally *tally, bool stored)
{
    struct sim_learned *learned = &sim->learned;
    const uint64_t hash = hash_of(sim, tally);

    sim_met(stored ? "learned/stored" : "learned/not_stored");
    if (stored)
        *learned = (struct sim_learned){.stored = hash};
    else if (learned->tries < SIM_TRIED)
        learned->tried[learned->tries++] = hash;
}

void learned_lost(struct sim *sim)
{
    sim->learned = (struct sim_learned){.stored = 0};
}

static struct tally *load(const struct sim *sim)
{
    struct tally *tally = NULL;
    int64_t until_ms = 0;
    struct err err;

    if (store_learned(sim->daemon.app.store, &tally, &until_ms, &err) < 0)
        sim_violation(sim, "the learned workload cannot be loaded: %s", err.text);
    return tally;
}

static bool may_be(const struct sim_learned *learned, uint64_t hash)
{
    bool is = hash == learned->stored || learned->tries == SIM_TRIED;

    for (uint32_t i = 0; i < learned->tries; i++)
        is = is || hash == learned->tried[i];
    return is;
}

/* Nothing has been counted since the start, so milligpud uses what is in the file. */
static void oracle_used(const struct sim *sim, struct tally *tally)
{
    const struct snapshot *snapshot = daemon_view(sim);
    const struct workload *used = snapshot->context->workload;
    struct workload *stored = tally_workload(tally);

    if (used->n_classes != stored->n_classes || used->count != stored->count)
        sim_violation(sim, "%u classes of %llu pods are used after a start, %u of %llu are stored",
                      used->n_classes, (unsigned long long)used->count, stored->n_classes,
                      (unsigned long long)stored->count);
    for (uint32_t i = 0; i < used->n_classes; i++)
        if (!workload_alike(&used->class[i], &stored -> class[i]) ||
            used->class[i].count != stored->class[i].count)
            sim_violation(sim, "class %u that is used after a start is another one than is stored",
                          i);
    workload_unref(stored);
    snapshot_unref(snapshot);
    sim_met("learned/used");
}

/* A disk that still fails may keep milligpud from reading: then it learns anew. */
void learned_loaded(struct sim *sim)
{
    if (sim->daemon.disk_heals_ms != 0)
        return;
    struct tally *tally = load(sim);
    const uint64_t hash = hash_of(sim, tally);

    if (!may_be(&sim->learned, hash))
        sim_violation(sim, "the workload of %llu pods that is found at the start was never stored",
                      (unsigned long long)(tally != NULL ? tally_pods(tally) : 0));
    if (hash != sim->learned.stored)
        sim_met("learned/in_a_crash");
    sim->learned = (struct sim_learned){.stored = hash};
    if (tally != NULL)
        oracle_used(sim, tally);
    tally_free(tally);
}

void oracle_learned(struct sim *sim)
{
    struct tally *tally = load(sim);

    if (!may_be(&sim->learned, hash_of(sim, tally)))
        sim_violation(sim, "the learned workload that is stored is another one than was written");
    tally_free(tally);
    sim_met("learned/quiet");
}
