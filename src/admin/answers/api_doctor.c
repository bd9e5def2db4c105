/*
 * GET /api/v1/doctor and /api/v1/settings. Called by the router in an admin thread. doctor_dates.c
 * checks backups and certificates. Each check writes one finding, a state and its remedy, and
 * changes nothing. Checks are in order of dependence (daemon and ledger, API server with watches
 * and permissions, kube-scheduler and webhooks), so that the first failure explains later ones.
 * Sources are one snapshot, the atomics of struct app, and tables with a lock of their own;
 * check_ledger_file() reads the database, and check_rights() waits for at most three seconds.
 */
#include "api_doctor.h"

#include <stdio.h>
#include <string.h>

#include "milligpu/base/annotations.h"
#include "milligpu/base/strbuf.h"
#include "milligpu/core/answer/unschedulable.h"
#include "milligpu/run/metric.h"
#include "milligpu/selfcheck/verifier.h"
#include "milligpu/spine/policy_reload.h"
#include "milligpu/sync/key_publisher.h"
#include "milligpu/sync/outbox.h"
#include "milligpu/sync/pod_cache.h"
#include "milligpu/sync/rights.h"
#include "milligpu/usage/usage_table.h"
#include "milligpu/waiting/waiting_pods.h"

#include "api_unserved.h"
#include "milligpu_version.h"

enum {
    WATCH_LATE_MS = 180000, /* twice the time after which a watch without events is restarted */
    ERROR_FRESH_MS = 60000,
    WAL_LATE_BYTES = 256 * 1024 * 1024,
};

/* --- the daemon and its ledger --- */

/* Draining comes first: a milligpud that stops is not ready on purpose and needs no fix. */
static void check_daemon(struct doctor *doctor)
{
    const char *why = NULL;

    must(doctor->snapshot != NULL);
    if (atomic_load(&doctor->app->draining))
        api_doctor_say(doctor, "daemon", HEALTH_WARNING, "wait until the next milligpud is ready",
                       "milligpud is stopping");
    else if (!app_ready(doctor->app, &why))
        api_doctor_say(doctor, "daemon", HEALTH_FAILED,
                       "fix the failed checks below; until then, webhooks answer with errors",
                       "not ready: %s", why);
    else
        api_doctor_say(doctor, "daemon", HEALTH_OK, "",
                       "milligpud %s (%s), ready, %u nodes, generation %llu", MILLIGPU_VERSION,
                       MILLIGPU_COMMIT, doctor->snapshot->nodes,
                       (unsigned long long)doctor->snapshot->generation);
}

/* Not ready for lack of room, with the remedy. */
static void check_room(struct doctor *doctor)
{
    const struct app *app = doctor->app;
    const bool is_disk = store_space(app->store) == SPACE_DISK;

    must(store_space(app->store) != SPACE_ENOUGH);
    api_doctor_say(
        doctor, "ledger", HEALTH_FAILED,
        is_disk
            ? "free 32 MiB on the volume of the ledger, or enlarge it; milligpud then recreates "
              "the ballast and grants again"
            : "raise ledger_max_bytes, on a larger volume if need be, and restart milligpud; "
              "live allocations alone take this much, or a reader of the file keeps its log "
              "growing",
        "%s", app_space_why(app));
}

/* Called if the size limit cut the history shorter than retention_days. */
static void check_reach(struct doctor *doctor, const struct store_facts *facts)
{
    const int64_t day_ms = INT64_C(24) * 60 * 60 * 1000;
    const struct clock_ops *clock = &doctor->app->clock;
    struct store_reach reach;
    struct err err;

    must(facts->trimmed_ms > 0);
    if (store_reach(doctor->app->store, &reach, &err) < 0) {
        api_doctor_say(doctor, "ledger-size", HEALTH_FAILED,
                       "check the disk, and read the log of milligpud", "%s", err.text);
        return;
    }
    const int64_t back_ms = reach.oldest_ms > 0 ? clock->wall_ms(clock->ctx) - reach.oldest_ms : 0;
    api_doctor_say(doctor, "ledger-size", HEALTH_WARNING,
                   "raise ledger_max_bytes (on a larger volume if need be), or lower "
                   "retention_days to what fits",
                   "the ledger is at its maximum size (%lld of %lld MiB), so its history goes back "
                   "%lld days and %lld hours only; namespace %s has most of it, %lld of %lld MiB",
                   (long long)facts->used_bytes >> 20, (long long)facts->max_bytes >> 20,
                   (long long)(back_ms / day_ms), (long long)(back_ms % day_ms / 3600000),
                   reach.most[0] != '\0' ? reach.most : "(any of many)",
                   (long long)reach.most_bytes >> 20, (long long)reach.bytes >> 20);
}

/* SQLite reuses its WAL only up to the oldest reader: a large WAL means a long-lived reader. */
static void check_ledger_file(struct doctor *doctor)
{
    struct store_facts facts;
    struct err err;

    if (store_facts(doctor->app->store, &facts, &err) < 0) {
        api_doctor_say(doctor, "ledger", HEALTH_FAILED,
                       "check the disk, and read the log of milligpud", "%s", err.text);
        return;
    }
    must(facts.bytes >= 0 && facts.wal_bytes >= 0);
    const bool in_memory = strcmp(facts.path, ":memory:") == 0;
    if (facts.wal_bytes > WAL_LATE_BYTES)
        api_doctor_say(
            doctor, "ledger", HEALTH_WARNING,
            "close every other program that has the file open: a reader keeps its log growing",
            "%s: its log has grown to %lld MiB", facts.path, (long long)facts.wal_bytes / 1048576);
    else
        api_doctor_say(doctor, "ledger", HEALTH_OK, "",
                       "%s: %lld KiB and %lld KiB of log, %llu journal entries, schema %u",
                       in_memory ? "in memory, lost when milligpud stops" : facts.path,
                       (long long)facts.bytes / 1024, (long long)facts.wal_bytes / 1024,
                       (unsigned long long)facts.journal_rows, facts.schema);
    if (facts.trimmed_ms > 0)
        check_reach(doctor, &facts);
}

/*
 * safe->text can name pods, so it is shown here but never to kube-scheduler or on a probe. It is
 * written before app->health.safe_mode is set, and constant from then on.
 */
static void check_safe_mode(struct doctor *doctor)
{
    const struct safe_mode *safe = &doctor->app->health.safe;
    const bool there = safe->folder[0] != '\0';
    char at[TIME_TEXT_BYTES];

    must(atomic_load(&doctor->app->health.safe_mode));
    time_format(safe->since_ms, at);
    api_doctor_say(
        doctor, "ledger", HEALTH_FAILED,
        "keep the diagnostics and the log for the bug report; run milligpuctl verify LEDGER for "
        "details; then restart milligpud: it loads the ledger from disk and compares it with the "
        "pods",
        "%s; nothing has been granted or written since %s: %s (diagnostics: %s)",
        safe_mode_why(doctor->app), at, safe->text, there ? safe->folder : safe->why_none);
}

/* Safe mode takes precedence over a broken disk, because the ledger file must stay unchanged. */
static void check_ledger(struct doctor *doctor)
{
    const struct app *app = doctor->app;

    must(app->store != NULL);
    if (atomic_load(&app->health.safe_mode))
        check_safe_mode(doctor);
    else if (atomic_load(&app->health.disk_broken))
        api_doctor_say(doctor, "ledger", HEALTH_FAILED,
                       "free space on the disk, or repair it; milligpud retries automatically",
                       "the ledger cannot be written");
    else if (store_space(app->store) != SPACE_ENOUGH)
        check_room(doctor);
    else
        check_ledger_file(doctor);
}

static void say_verified(struct doctor *doctor)
{
    struct verifier_facts facts;
    char at[TIME_TEXT_BYTES];

    must(doctor->app->verifier != NULL);
    verifier_facts(doctor->app->verifier, &facts);
    time_format(facts.at_ms, at);
    api_doctor_say(doctor, "history", HEALTH_OK, "",
                   "verified with the rest of the ledger at %s, in %lld ms", at,
                   (long long)facts.took_ms);
}

/*
 * Damage to ended allocations is a finding of its own, because no grant depends on it
 * (docs/why/008). The first verification begins when milligpud is ready and takes a while in a
 * large ledger.
 */
static void check_history(struct doctor *doctor)
{
    const struct app *app = doctor->app;

    must(app->store != NULL);
    if (atomic_load(&app->health.history_broken))
        api_doctor_say(doctor, "history", HEALTH_FAILED,
                       "restore an older backup if you need the history; granting is not affected",
                       "the history in the ledger is damaged: see the log");
    else if (!atomic_load(&app->health.history_checked))
        api_doctor_say(doctor, "history", HEALTH_OK, "",
                       "the verification in the background has not ended yet");
    else if (app->verifier != NULL)
        say_verified(doctor);
    else
        api_doctor_say(doctor, "history", HEALTH_OK, "", "verified at the start");
}

/*
 * After an edit that broke the policy document, the last valid one stays in force, also after a
 * restart (the ledger stores it).
 */
static void check_policy(struct doctor *doctor)
{
    const struct policy_context *context = doctor->snapshot->context;
    const struct rulebook *book = context->rulebook;
    char failed[ERR_TEXT_MAX];
    char at[TIME_TEXT_BYTES];
    uint32_t holding = 0;
    int64_t since_ms;

    must(book != NULL);
    for (uint32_t i = 0; i < book->n_rules; i++)
        holding += (context->holding & one_rule(i)) != 0;
    if (policy_reload_failed(doctor->app->policy_reload, failed, &since_ms)) {
        time_format(since_ms, at);
        api_doctor_say(
            doctor, "policy", HEALTH_FAILED,
            "correct the document (milligpuctl check-policy FILE); it is read again when "
            "it changes",
            "the policy could not be read since %s, so the last good one decides: %s", at, failed);
    } else {
        api_doctor_say(doctor, "policy", HEALTH_OK, "", "%s orders by %s; of its %u rules %u hold",
                       book->name, policy_name(book->policy), book->n_rules, holding);
    }
}

/* A rule with a typing error never applies, which goes unnoticed. */
static void check_rules(struct doctor *doctor)
{
    CLEANUP(strbuf_done) struct strbuf unmatched;

    must(doctor->snapshot->context->rulebook != NULL);
    strbuf_init(&unmatched);
    cluster_unmatched_rules(doctor->snapshot, &unmatched);
    if (unmatched.len == 0)
        return;
    for (size_t i = 0; i < unmatched.len; i++)
        if (unmatched.data[i] == '\n')
            unmatched.data[i] = ';';
    api_doctor_say(doctor, "rules", HEALTH_WARNING,
                   "correct the labels and models in the policy document (milligpuctl "
                   "check-policy FILE --cluster DUMP), unless such nodes come later",
                   "%s", unmatched.data);
}

/* --- the API server --- */

static int64_t api_doctor_later(int64_t a, int64_t b)
{
    must(a >= 0 && b >= 0);
    return a > b ? a : b;
}

/*
 * Judged by the last traffic of the watches, because an idle cluster makes no other calls. A failed
 * call counts only while it is newer than the last success and less than a minute old.
 */
static void check_api(struct doctor *doctor)
{
    const struct app *app = doctor->app;
    const int64_t seen_ms = api_doctor_later(atomic_load(&app->watch.nodes_seen_ms),
                                             atomic_load(&app->watch.pods_seen_ms));
    const int64_t error_ms = atomic_load(&app->watch.api_error_ms);
    const int64_t error_age_s = (doctor->now_ms - error_ms) / 1000;

    must(app->instance.server != NULL);
    if (seen_ms == 0)
        api_doctor_say(
            doctor, "api", HEALTH_FAILED,
            "check --kubeconfig, the network and the certificate; the log has each error",
            "%s has not answered yet", app->instance.server);
    else if (error_ms > seen_ms && doctor->now_ms - error_ms < ERROR_FRESH_MS)
        api_doctor_say(doctor, "api", HEALTH_WARNING,
                       "read the log: it says which call failed, and why",
                       "%s: a call failed %lld s ago, and no call succeeded since",
                       app->instance.server, (long long)error_age_s);
    else
        api_doctor_say(doctor, "api", HEALTH_OK, "", "%s, last answer %lld s ago",
                       app->instance.server, (long long)(doctor->now_ms - seen_ms) / 1000);
}

/*
 * The grace period of a new ledger delays the sync of pods on purpose (docs/why/009), so it comes
 * before the finding of a missing list. A quiet watch is restarted after 90 s, so the age grows
 * further only while the connection is broken.
 */
static void check_watch(struct doctor *doctor, const char *resource, bool synced, int64_t seen_ms)
{
    const int64_t age_ms = doctor->now_ms - seen_ms;

    must(resource[0] != '\0');
    const int64_t grace_ends_ms = atomic_load(&doctor->app->grace.grace_ends_ms);
    if (!synced && grace_ends_ms != 0)
        api_doctor_say(
            doctor, resource, HEALTH_WARNING, "wait: it ends automatically", "%s; %lld s are left",
            app_grace_why(doctor->app),
            (long long)(grace_ends_ms > doctor->now_ms ? grace_ends_ms - doctor->now_ms : 0) /
                1000);
    else if (!synced)
        api_doctor_say(
            doctor, resource, HEALTH_FAILED,
            "check that the ServiceAccount may list and watch nodes and pods (see manifests); "
            "the log has the API server's answer",
            "no complete list of %s has arrived yet", resource);
    else if (age_ms > WATCH_LATE_MS)
        api_doctor_say(doctor, resource, HEALTH_WARNING,
                       "read the log; milligpud retries automatically",
                       "the API server has not answered a watch of %s for %lld s", resource,
                       (long long)age_ms / 1000);
    else
        api_doctor_say(doctor, resource, HEALTH_OK, "",
                       "complete and watched, last answer %lld s ago",
                       (long long)(age_ms > 0 ? age_ms : 0) / 1000);
}

/* Counts of the API server's answers to our calls. */
struct calls {
    int64_t all;
    int64_t denied;
    char words[256]; /* denied calls by kind, as text */
};

/*
 * Reads the labels of a series, as in call="bind",code="403": the kind of call, and the status, of
 * which 401 and 403 mean a missing permission.
 */
static void api_doctor_count_call(void *user, const char *labels, int64_t value)
{
    struct calls *calls = user;
    const char *call = strchr(labels, '"');
    const size_t used = strlen(calls->words);

    must(value >= 0);
    calls->all += value;
    if (call == NULL ||
        (strstr(labels, "code=\"401\"") == NULL && strstr(labels, "code=\"403\"") == NULL))
        return;
    calls->denied += value;
    (void)snprintf(calls->words + used, sizeof calls->words - used, "%s%.*s", used > 0 ? ", " : "",
                   (int)strcspn(call + 1, "\""), call + 1);
}

/* All permissions are granted now; denied calls are older, or met a starting kube-apiserver. */
static void say_rights_given(struct doctor *doctor, const struct rights_facts *facts)
{
    struct calls calls = {.all = 0};

    must(facts->asked > 0 && facts->denied == 0);
    metric_each(M_API_REQUESTS, &calls, api_doctor_count_call);
    must(calls.denied <= calls.all);
    if (calls.denied > 0)
        api_doctor_say(
            doctor, "rights", HEALTH_OK, "",
            "the API server grants all %u needed permissions; since the start, it denied %lld of "
            "%lld calls: %s",
            facts->asked, (long long)calls.denied, (long long)calls.all, calls.words);
    else
        api_doctor_say(
            doctor, "rights", HEALTH_OK, "",
            "the API server grants all %u needed permissions; since the start, it denied none of "
            "%lld calls",
            facts->asked, (long long)calls.all);
}

/*
 * The only check that waits: unless the last outcome is fresh, the informer's thread asks the API
 * server first. A missing answer is a finding of its own.
 */
static void check_rights(struct doctor *doctor)
{
    struct rights_facts facts;

    if (doctor->app->rights == NULL) {
        api_doctor_say(doctor, "rights", HEALTH_OK, "", "a cluster file needs no permissions");
        return;
    }
    rights_ask(doctor->app->rights, RIGHTS_WAIT_MS, &facts);
    if (facts.at_ms == 0)
        api_doctor_say(doctor, "rights", HEALTH_WARNING,
                       "fix the check of the API server, then run doctor again",
                       "the API server has not answered yet which permissions milligpud has");
    else if (facts.error[0] != '\0')
        api_doctor_say(
            doctor, "rights", HEALTH_WARNING,
            "fix the check of the API server; if it is ok, allow the ServiceAccount to create "
            "selfsubjectaccessreviews, as the ClusterRole system:basic-user does for every account",
            "the API server could not be asked which permissions milligpud has: %s", facts.error);
    else if (facts.denied > 0)
        api_doctor_say(doctor, "rights", HEALTH_FAILED, "apply the roles in manifests again",
                       "the API server denies %u of %u needed permissions: %s", facts.denied,
                       facts.asked, facts.words);
    else
        say_rights_given(doctor, &facts);
}

/* The keys that a check is about. */
struct keys_seen {
    struct all_keys all;
    struct strbuf others; /* clause about all keys except the signing one */
    struct strbuf stale;  /* ids of keys that outlive their pods: their removal is overdue */
};

/* A key that no pod needs is removed by the next publication or the one after it. */
static bool outlives_pods(const struct app *app, const struct key_entry *key, size_t pods)
{
    const int64_t wait_ms = (int64_t)atomic_load(&app->settings)->key_wait_s * 1000;

    must(wait_ms > 0);
    return key->state == KEY_RETIRING && pods == 0 &&
           app->clock.now_ms(app->clock.ctx) > key->due_ms + 2 * wait_ms;
}

static void add_stale(struct keys_seen *seen, const char *id)
{
    must(id[0] != '\0');
    strbuf_printf(&seen->stale, "%s%s", seen->stale.len > 0 ? ", " : "", id);
}

/* All keys except the signing one: "; 2 former keys stay for 7 pods". */
static void add_other_keys(const struct app *app, struct keys_seen *seen)
{
    size_t retiring = 0;
    size_t pods = 0;

    for (size_t i = 1; i < seen->all.count; i++) {
        const struct key_entry *key = &seen->all.key[i];
        if (key->state == KEY_NEXT)
            strbuf_printf(&seen->others, "; key %s will sign %d s after it is published", key->id,
                          (int)atomic_load(&app->settings)->key_wait_s);
        if (key->state != KEY_RETIRING)
            continue;
        retiring++;
        pods += seen->all.pods[i].needing;
        if (outlives_pods(app, key, seen->all.pods[i].needing))
            add_stale(seen, key->id);
    }
    if (retiring > 0)
        strbuf_printf(&seen->others, "; %zu former key%s stay%s for %zu pods", retiring,
                      retiring == 1 ? "" : "s", retiring == 1 ? "s" : "", pods);
}

static void see_keys(const struct app *app, struct keys_seen *seen)
{
    must(app->key_publisher != NULL);
    strbuf_init(&seen->others);
    strbuf_init(&seen->stale);
    all_keys_read(app, &seen->all);
    const size_t n_others = seen->all.facts.n_others;
    add_other_keys(app, seen);
    for (size_t i = 0; i < n_others; i++)
        if (seen->all.pods[seen->all.count + i].naming == 0)
            add_stale(seen, seen->all.facts.other[i]);
    if (n_others > 0)
        strbuf_printf(&seen->others, "; %zu key%s in it %s not in this keyring", n_others,
                      n_others == 1 ? "" : "s", n_others == 1 ? "is" : "are");
}

/* Finding about keys that are published and replaceable. */
static void say_published_keys(struct doctor *doctor, const struct keys_seen *seen)
{
    const char *id = seen->all.key[0].id;

    const bool has_stale = seen->stale.len > 0;

    must(seen->all.facts.published);
    if (seen->all.count > KEYRING_MAX - KEYRING_SPARE)
        api_doctor_say(
            doctor, "signing", HEALTH_WARNING,
            "restart the pods of the oldest key, or revoke it: milligpuctl keys, "
            "milligpuctl revoke-key KEYID",
            "%zu of %d keys are in use; with %d, none can be replaced; key %s signs%s%s%s",
            seen->all.count, KEYRING_MAX, KEYRING_MAX, id, seen->others.data,
            has_stale ? "; no running pod needs " : "", seen->stale.data);
    else if (has_stale)
        api_doctor_say(doctor, "signing", HEALTH_WARNING,
                       "if no other milligpud signs with it: milligpuctl revoke-key KEYID",
                       "agents still trust keys that no running pod needs: %s; key %s signs%s",
                       seen->stale.data, id, seen->others.data);
    else
        api_doctor_say(doctor, "signing", HEALTH_OK, "",
                       "signing key %s is published in ConfigMap %s of namespace %s%s", id,
                       KEYS_CONFIGMAP, keys_namespace(doctor->app), seen->others.data);
}

static void say_keys(struct doctor *doctor, const struct keys_seen *seen)
{
    const struct key_facts *facts = &seen->all.facts;

    must(seen->all.count > 0);
    if (facts->error[0] != '\0')
        api_doctor_say(
            doctor, "signing", HEALTH_FAILED,
            "allow the ServiceAccount to create configmaps in that namespace and to patch "
            "milligpu-keys (see manifests)",
            "the signing keys cannot be published in ConfigMap %s of namespace %s: %s",
            KEYS_CONFIGMAP, keys_namespace(doctor->app), facts->error);
    else if (facts->trouble[0] != '\0' && seen->all.count == KEYRING_MAX)
        api_doctor_say(doctor, "signing", HEALTH_WARNING,
                       "milligpuctl keys shows how many pods need each key; milligpuctl revoke-key "
                       "KEYID removes one",
                       "key %s signs, and cannot be replaced: %s%s", seen->all.key[0].id,
                       facts->trouble, seen->others.data);
    else if (facts->trouble[0] != '\0')
        api_doctor_say(doctor, "signing", HEALTH_WARNING,
                       "let milligpud write the folder of the signing key; a key that is mounted "
                       "from a Secret is replaced there, and milligpud restarted",
                       "key %s signs, and keys cannot be replaced: %s%s", seen->all.key[0].id,
                       facts->trouble, seen->others.data);
    else if (!facts->published)
        api_doctor_say(doctor, "signing", HEALTH_WARNING, "run doctor again in a moment",
                       "the signing key is not published yet");
    else
        say_published_keys(doctor, seen);
}

/*
 * Without the public key an agent trusts no allocation, so pods are not bound to its node or do not
 * start there.
 */
static void check_signing(struct doctor *doctor)
{
    struct keys_seen seen;

    if (doctor->app->key_publisher == NULL) {
        api_doctor_say(doctor, "signing", HEALTH_OK, "",
                       "allocations are not signed: no agent reads a cluster file");
        return;
    }
    see_keys(doctor->app, &seen);
    say_keys(doctor, &seen);
    strbuf_done(&seen.others);
    strbuf_done(&seen.stale);
}

/* Only if a node has an agent: only agents report. */
static void check_usage(struct doctor *doctor)
{
    struct app *app = doctor->app;
    const int64_t wall_ms = app->clock.wall_ms(app->clock.ctx);
    struct usage_totals totals;
    const struct node *node;
    uint32_t agents = 0;

    for (uint32_t at = 0; (node = snapshot_next(doctor->snapshot, &at)) != NULL;)
        agents += node->agent && !node->gone;
    usage_table_totals(app->usage_table, wall_ms, &totals);
    if (agents == 0)
        api_doctor_say(doctor, "usage", HEALTH_OK, "", "no node has an agent that could report");
    else if (doctor->settings->report_listen[0] == '\0')
        api_doctor_say(doctor, "usage", HEALTH_WARNING,
                       "set report_listen, report_cert and report_key, and report_url of the "
                       "agents (docs/NODE.md, Usage)",
                       "%u nodes have an agent, and none can report usage of its pods", agents);
    else if (totals.reporting == 0)
        api_doctor_say(doctor, "usage", HEALTH_WARNING,
                       "set report_url of the agents, and read their log for what milligpud "
                       "answered (docs/NODE.md, Usage)",
                       "%u nodes have an agent, and none has reported for 15 minutes", agents);
    else
        api_doctor_say(
            doctor, "usage", HEALTH_OK, "",
            "%u of %u nodes with an agent reported in the last 15 minutes; %u shares are "
            "measured",
            totals.reporting, agents, totals.shares);
}

/*
 * Without wake-ups everything works, only later: kube-scheduler retries a refused pod within 330 s.
 * A wake-up that fails is a failure; wake-ups that are switched off are a choice.
 */
static void check_wake_up(struct doctor *doctor)
{
    struct outbox_stats stats;

    must(doctor->app->outbox != NULL);
    outbox_stats(doctor->app->outbox, &stats);
    if (strcmp(doctor->settings->wake, "off") == 0)
        api_doctor_say(doctor, "wake", HEALTH_WARNING, "set wake to object",
                       "wake is off: a refused pod may wait up to 330 s after room becomes free");
    else if (stats.wake_failing)
        api_doctor_say(
            doctor, "wake", HEALTH_FAILED,
            "allow the ServiceAccount to create and patch csistoragecapacities in that namespace "
            "(see manifests)",
            "milligpud cannot wake kube-scheduler through namespace %s: %s",
            doctor->app->instance.wake_namespace, stats.wake_error);
    else if (waiting_pods_overflowed(doctor->app->waiting_pods, doctor->now_ms))
        api_doctor_say(
            doctor, "wake", HEALTH_WARNING, "run milligpuctl waiting to see which pods wait",
            "more than %d pods wait, or the table of their requests is full: any room that becomes "
            "free wakes kube-scheduler, whether it helps or not",
            WAITING_MAX);
    else
        api_doctor_say(doctor, "wake", HEALTH_OK, "",
                       "%llu wake-up%s since the start, through namespace %s",
                       (unsigned long long)stats.wake_ups, stats.wake_ups == 1 ? "" : "s",
                       doctor->app->instance.wake_namespace);
}

/* --- the scheduler --- */

struct asked {
    int64_t filters;
    int64_t passed; /* filters that found capacity */
    int64_t binds;
    int64_t errors;
};

static void count_webhook(void *user, const char *labels, int64_t value)
{
    struct asked *asked = user;
    const bool filter = strstr(labels, "verb=\"filter\"") != NULL &&
                        strstr(labels, "outcome=\"simulated\"") == NULL;

    must(value >= 0);
    if (filter)
        asked->filters += value;
    if (filter && strstr(labels, "outcome=\"ok\"") != NULL)
        asked->passed += value;
    if (strstr(labels, "verb=\"bind\"") != NULL)
        asked->binds += value;
    if (strstr(labels, "outcome=\"error\"") != NULL)
        asked->errors += value;
}

/* Checks pods that ask for a share and have not been bound for a while. */
struct lot {
    bool any_served; /* some scheduler asks; check_unserved is about the others */
    /* pods without a filter call, explained by neither a condition nor an unknown scheduler */
    size_t unasked;
    const struct unbound_pod *unasked_pod;
    size_t refused; /* pods with scheduling gates, or no node left by kube-scheduler's filters */
    const struct unbound_pod *refused_pod;
    const char *refused_word;
    size_t strange; /* pods of another scheduler, which has never asked */
    const struct unbound_pod *strange_pod;
    size_t offered; /* pods for which filter found capacity, but which no scheduler bound */
    const struct unbound_pod *offered_pod;
};

/*
 * Any tenant can make a pod that no scheduler asks about: by a selector that no node matches, a
 * gate, or the name of an unknown scheduler. These are no configuration errors. It is an error if a
 * scheduler tries the pod and counts our resource itself or fails, or if the default scheduler does
 * not try it, while that scheduler has never asked about any pod.
 */
static void sort_unasked(const struct doctor *doctor, const struct unbound_pod *pod,
                         struct lot *lot)
{
    struct unasked unasked;

    api_unasked(doctor->app, &pod->scheduling, &unasked);
    if (unasked.is_explained) {
        lot->refused++;
        lot->refused_pod = pod;
        lot->refused_word = unasked.word;
    } else if (unasked.can_serve || lot->any_served) {
        return; /* still queued at its scheduler, or milligpud has just started */
    } else if (unasked.has_condition ||
               strcmp(unbound_scheduler(&pod->scheduling), SCHEDULER_DEFAULT) == 0) {
        lot->unasked++;
        lot->unasked_pod = pod;
    } else {
        lot->strange++;
        lot->strange_pod = pod;
    }
}

/*
 * Collects pods under the pod cache's lock, then looks each up in the table of waiting pods, so two
 * locks are never held together. Young pods are left out: kube-scheduler possibly has not tried
 * them yet.
 */
static void look_at_unbound(struct doctor *doctor, struct lot *lot)
{
    struct waiting_pods *waiting_pods = doctor->app->waiting_pods;
    const int64_t wall_ms = doctor->app->clock.wall_ms(doctor->app->clock.ctx);
    const bool overflow = waiting_pods_overflowed(waiting_pods, doctor->now_ms);
    struct waiting waiting;
    size_t served;

    (void)api_served_names(doctor->app, &doctor->call->arena, &served);
    lot->any_served = served > 0;
    for (size_t i = 0; i < doctor->unbound.count; i++) {
        const struct unbound_pod *pod = &doctor->unbound.pod[i];
        const struct text uid = text_of(pod->uid);
        if (wall_ms - pod->created_ms < ASKED_LATE_MS)
            continue;
        if (!waiting_pods_has_asked(waiting_pods, uid)) {
            if (!overflow) /* else its question was possibly dropped from the full table */
                sort_unasked(doctor, pod, lot);
        } else if (waiting_pods_find(waiting_pods, uid, &doctor->call->arena, &waiting) &&
                   waiting.reason == REASON_NONE) {
            lot->offered++;
            lot->offered_pod = pod;
        }
    }
    must(lot->offered + lot->unasked + lot->refused + lot->strange <= doctor->unbound.count);
}

/* "; 2 waiting pods are refused before an extender is asked, among them default/a (taint)" */
static const char *lot_words(struct doctor *doctor, const struct lot *lot)
{
    struct arena *arena = &doctor->call->arena;
    const char *refused = "";
    const char *strange = "";

    if (lot->refused > 0)
        refused = arena_printf(
            arena, "; %zu waiting %s before an extender is asked, among them %s/%s (%s)",
            lot->refused, lot->refused == 1 ? "pod is refused" : "pods are refused",
            lot->refused_pod->namespace, lot->refused_pod->name, lot->refused_word);
    if (lot->strange > 0)
        strange = arena_printf(
            arena, "; %zu waiting %s a scheduler that has never asked, among them %s/%s (%s)",
            lot->strange, lot->strange == 1 ? "pod names" : "pods name",
            lot->strange_pod->namespace, lot->strange_pod->name,
            unbound_scheduler(&lot->strange_pod->scheduling));
    return arena_printf(arena, "%s%s", refused, strange);
}

/* Stuck pods come first, then counters, which start at zero with the process. */
static void check_scheduler(struct doctor *doctor)
{
    static const char wire[] = "check the extender in kube-scheduler's configuration (urlPrefix, "
                               "filterVerb, managedResources) and the schedulerName of the pods";
    /* Only `play` ever asks, so waiting pods of the file are no fault. */
    static const char standalone[] =
        "milligpud is standalone, so no scheduler is there; milligpuctl "
        "play schedules the pods of a manifest";
    const bool alone = doctor->app->fake != NULL;
    struct asked asked = {0};
    struct lot lot = {0};

    look_at_unbound(doctor, &lot);
    const char *words = lot_words(doctor, &lot);
    metric_each(M_WEBHOOK_REQUESTS, &asked, count_webhook);
    must(asked.passed <= asked.filters);
    if (lot.unasked > 0)
        api_doctor_say(doctor, "scheduler",
                       asked.filters == 0 && !alone ? HEALTH_FAILED : HEALTH_WARNING,
                       alone ? standalone : wire,
                       "no scheduler named %s has asked since the start, and %zu %s, among them "
                       "%s/%s%s",
                       unbound_scheduler(&lot.unasked_pod->scheduling), lot.unasked,
                       lot.unasked == 1 ? "pod waits for one" : "pods wait for one",
                       lot.unasked_pod->namespace, lot.unasked_pod->name, words);
    else if (asked.filters == 0 && lot.refused > 0 && !alone)
        api_doctor_say(doctor, "scheduler", HEALTH_OK, "",
                       "no scheduler has asked since the start, and no pod needs that%s", words);
    else if (asked.filters == 0)
        api_doctor_say(doctor, "scheduler", HEALTH_WARNING, alone ? standalone : wire,
                       "no scheduler has asked since the start%s",
                       words[0] != '\0' ? words : ", and no pod waits");
    else if (asked.passed > 2 && asked.binds == 0)
        api_doctor_say(
            doctor, "scheduler", HEALTH_FAILED,
            "set bindVerb: bind in the extender, and put no other bind plugin in front of it",
            "filter found room %lld times, but bind was never called", (long long)asked.passed);
    else if (lot.offered > 0)
        api_doctor_say(
            doctor, "scheduler", HEALTH_WARNING,
            "run kubectl describe pod: it says what else refuses these nodes, for example another "
            "extender, taints or volumes",
            "%zu %s offered nodes with room and not bound, among them %s/%s%s", lot.offered,
            lot.offered == 1 ? "pod was" : "pods were", lot.offered_pod->namespace,
            lot.offered_pod->name, words);
    else
        api_doctor_say(
            doctor, "scheduler", HEALTH_OK, "", "%lld filter calls, %lld bind calls, %lld errors%s",
            (long long)asked.filters, (long long)asked.binds, (long long)asked.errors, words);
}

/* "default/a (default-scheduler on g1), default/b (made-up), and 3 more" */
static void put_unserved(struct arena *arena, const struct unserved *unserved, struct strbuf *out)
{
    enum { NAMED_MAX = 500 }; /* bytes; the text of a check has 1023 */
    size_t named = 0;

    must(unserved->count > 0);
    for (; named < unserved->count; named++) {
        const struct unserved_pod *pod = &unserved->pod[named];
        const char *where = pod->node != NULL ? arena_printf(arena, " on %s", pod->node) : "";
        const char *entry = arena_printf(arena, "%s%s/%s (%s%s)", named > 0 ? ", " : "",
                                         pod->namespace, pod->name, pod->scheduler, where);
        if (named > 0 && out->len + strlen(entry) > NAMED_MAX)
            break;
        strbuf_str(out, entry);
    }
    if (named < unserved->count)
        strbuf_printf(out, ", and %zu more", unserved->count - named);
}

/*
 * Pods whose scheduler never calls, while another one does. Before the first call of any scheduler,
 * check_scheduler() reports them.
 */
static void check_unserved(struct doctor *doctor)
{
    CLEANUP(strbuf_done) struct strbuf names;
    const char *resource = doctor->settings->resource;
    struct unserved unserved;

    strbuf_init(&names);
    api_unserved(doctor->call, doctor->snapshot, &doctor->unbound, &unserved);
    if (unserved.served[0] == '\0') {
        api_doctor_say(doctor, "unserved", HEALTH_OK, "", "no scheduler has asked since the start");
        return;
    }
    if (unserved.count == 0) {
        api_doctor_say(doctor, "unserved", HEALTH_OK, "",
                       "each pod that asks for %s names a scheduler that asks milligpud", resource);
        return;
    }
    put_unserved(&doctor->call->arena, &unserved, &names);
    const bool one = unserved.count == 1;
    api_doctor_say(doctor, "unserved", unserved.alarms > 0 ? HEALTH_WARNING : HEALTH_OK,
                   unserved.alarms > 0
                       ? "set spec.schedulerName to one that milligpud serves, and create the pods "
                         "again; milligpuctl pod says more of each, milligpuctl waiting and drift "
                         "--kind adopted list them"
                       : "",
                   "%zu %s for %s and %s that %s not asked milligpud since its start, which serves "
                   "%s: %s",
                   unserved.count, one ? "pod asks" : "pods ask", resource,
                   one ? "names a scheduler" : "name schedulers", one ? "has" : "have",
                   unserved.served, names.data);
}

static bool api_doctor_is_loopback(const char *address)
{
    must(address != NULL);
    return strncmp(address, "127.", strlen("127.")) == 0 ||
           strncmp(address, "[::1]:", strlen("[::1]:")) == 0 ||
           strncmp(address, "localhost:", strlen("localhost:")) == 0;
}

/* A client that reaches the webhooks binds pods with our permissions. */
static void check_webhooks(struct doctor *doctor)
{
    const struct settings *settings = doctor->settings;
    const char *bound = doctor->app->instance.webhook_address;
    const char *address = bound[0] != '\0' ? bound : settings->webhook_listen;
    const bool tls = settings->webhook_cert[0] != '\0';

    must(address[0] != '\0');
    const bool asks = tls && settings->webhook_client_ca[0] != '\0';
    if (asks && settings->webhook_client_names[0] == '\0')
        api_doctor_say(
            doctor, "webhooks", HEALTH_WARNING,
            "set webhook_client_names to the CN or a DNS name of kube-scheduler's certificate",
            "%s, TLS; any client with a certificate of %s can bind pods", address,
            settings->webhook_client_ca);
    else if (asks)
        api_doctor_say(
            doctor, "webhooks", HEALTH_OK, "",
            "%s, TLS; only for client certificates of %s that contain one of these names: %s",
            address, settings->webhook_client_ca, settings->webhook_client_names);
    else if (api_doctor_is_loopback(address))
        api_doctor_say(doctor, "webhooks", HEALTH_OK, "",
                       "%s%s; only this machine or pod can reach it", address, tls ? ", TLS" : "");
    else
        api_doctor_say(
            doctor, "webhooks", HEALTH_FAILED,
            "set webhook_cert, webhook_key and webhook_client_ca, or listen on 127.0.0.1",
            "%s%s; anyone who can reach it can bind pods with the permissions of milligpud",
            address, tls ? ", TLS without client certificates" : ", plain HTTP");
}

/* Nodes of one kind, and the first of them. */
struct node_count {
    const struct node *first;
    uint32_t nodes;
};

static void count_doctor_node(struct node_count *count, const struct node *node)
{
    must(node->name != NULL);
    if (count->nodes++ == 0)
        count->first = node;
    must(count->first != NULL);
}

/* GPUs that are not shared, because no source names their ids. */
static void check_sources(struct doctor *doctor)
{
    struct node_count count = {0};
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(doctor->snapshot, &at)) != NULL;)
        if (node->problem == PROBLEM_NO_SOURCE && !node->gone)
            count_doctor_node(&count, node);
    if (count.nodes > 0)
        api_doctor_say(doctor, "sources", HEALTH_WARNING,
                       "install gpu-feature-discovery or milligpu-node there (README, How nodes "
                       "report their GPUs); milligpuctl nodes --state no_source lists them",
                       "%u %s GPUs and nothing to share; node %s: %s", count.nodes,
                       count.nodes == 1 ? "node has" : "nodes have", count.first->name->text,
                       count.first->problem_text->text);
    else
        api_doctor_say(doctor, "sources", HEALTH_OK, "", "no node has GPUs that nothing names");
}

/* kubelet leaves a capacity of 0, so a restarting plugin looks like a removed one. */
static void check_plugin(struct doctor *doctor)
{
    struct node_count down = {0};
    struct node_count up = {0};
    const struct node *node;

    for (uint32_t at = 0; (node = snapshot_next(doctor->snapshot, &at)) != NULL;)
        if (node->plugin.state != PLUGIN_NONE)
            count_doctor_node(node->plugin.state == PLUGIN_DOWN ? &down : &up, node);
    if (down.nodes > 0)
        api_doctor_say(doctor, "plugin", HEALTH_WARNING,
                       "start the device plugin again; if it was uninstalled for good, set plugin "
                       "to ignore, since kubelet leaves the amount of 0 behind",
                       "the device plugin of %u %s (%s first) offers 0 %s, so no share is granted "
                       "there",
                       down.nodes, down.nodes == 1 ? "node" : "nodes", down.first->name->text,
                       doctor->settings->whole_resource);
    else if (up.nodes > 0)
        api_doctor_say(doctor, "plugin", HEALTH_OK, "", "a device plugin offers %s on %u %s",
                       doctor->settings->whole_resource, up.nodes,
                       up.nodes == 1 ? "node" : "nodes");
    else
        api_doctor_say(doctor, "plugin", HEALTH_OK, "",
                       strcmp(doctor->settings->plugin, "ignore") == 0
                           ? "what device plugins offer is ignored"
                           : "no device plugin is known");
}

#define SEE_NODES                                                                                  \
    "run milligpuctl doctor --nodes, which shows the fix for each node; milligpuctl nodes "        \
    "--state not_vouched lists them (docs/NODE.md)"

/* Finding about nodes that are closed because of agents. lacking: those that never had one. */
static void say_closed(struct doctor *doctor, const struct node_count *closed, uint32_t lacking)
{
    const bool selects = doctor->app->rules.agents_rules.required == REQUIRE_WHERE_SELECTED;

    must(lacking <= closed->nodes);
    api_doctor_say(
        doctor, "agents", HEALTH_WARNING,
        lacking == 0 ? SEE_NODES
        : selects ? SEE_NODES "; for nodes that are to have no agent, set agent_nodes to a label "
                              "that they lack (docs/operate/nodes.md)"
                  : SEE_NODES "; if some nodes are to have no agent, set require_agent to "
                              "where-selected",
        "the agents of %u %s do not vouch for their GPUs, which take no new shares; node %s: %s",
        closed->nodes, closed->nodes == 1 ? "node" : "nodes", closed->first->name->text,
        vouch_help(closed->first->vouch));
}

/* Judged by the agent states of agents.h; "leaving" is intended and no fault. */
static void check_agents(struct doctor *doctor)
{
    CLEANUP(strbuf_done) struct strbuf left;
    struct node_count closed = {0};
    uint32_t vouched = 0;
    uint32_t leaving = 0;
    uint32_t lacking = 0;
    const struct node *node;

    strbuf_init(&left);
    for (uint32_t at = 0; (node = snapshot_next(doctor->snapshot, &at)) != NULL;) {
        vouched += node->vouch == VOUCH_GOOD;
        leaving += node->vouch == VOUCH_LEAVING;
        if (!node_misses_agent(node))
            continue;
        lacking += node->vouch == VOUCH_NO_AGENT;
        count_doctor_node(&closed, node);
    }
    if (leaving > 0)
        strbuf_printf(&left, "; those of %u %s were told to let go of them", leaving,
                      leaving == 1 ? "node" : "nodes");
    if (closed.nodes > 0)
        say_closed(doctor, &closed, lacking);
    else if (vouched + leaving > 0)
        api_doctor_say(doctor, "agents", HEALTH_OK, "",
                       "the agents of %u %s vouch for their GPUs%s", vouched,
                       vouched == 1 ? "node" : "nodes", left.data);
    else
        api_doctor_say(doctor, "agents", HEALTH_OK, "", "no node needs an agent");
}

/* A warning, not a failure: operators decide about drift, milligpud does not repair it. */
static void check_drift(struct doctor *doctor)
{
    CLEANUP(strbuf_done) struct strbuf kinds;
    CLEANUP(strbuf_done) struct strbuf old;
    struct drift_counts drift;

    must(doctor->snapshot != NULL);
    strbuf_init(&kinds);
    strbuf_init(&old);
    api_drift_count(doctor->app, doctor->snapshot, &drift);
    api_drift_put_kinds(&kinds, drift.warnings_of);
    if (drift.information > 0)
        strbuf_printf(&old, "; %u adopted %s more than a day ago, which is information",
                      drift.information,
                      drift.information == 1 ? "pod was bound" : "pods were bound");
    if (drift.warnings > 0)
        api_doctor_say(
            doctor, "drift", HEALTH_WARNING,
            drift.warnings_of[drift_kind_find(TEXT("unbound"))] > 0
                ? "delete the pods that milligpuctl drift --kind unbound lists: etcd was "
                  "restored to a time before they were bound, and their containers may run "
                  "still; or restore an etcd that has them bound. Run milligpuctl drift "
                  "to list the rest"
                : "run milligpuctl drift to list them",
            "ledger and cluster disagree in %u %s: %s%s", drift.warnings,
            drift.warnings == 1 ? "place" : "places", kinds.data, old.data);
    else
        api_doctor_say(doctor, "drift", HEALTH_OK, "", "ledger and cluster agree%s", old.data);
}

/* --- GPUs --- */

/* Appends "gpu-a/3 (XID 79, since ...)" if the text has room; else counts in *unnamed. */
static void add_sick(struct strbuf *out, const struct node *node, const struct gpu *gpu,
                     uint32_t *unnamed)
{
    enum { NAMED_MAX = 700 }; /* bytes; the text of a check has 1023 */
    const struct gpu_note *note = node_note_of(node, gpu);
    const char *ill = note != NULL ? note->ill : NULL;

    must(node->name->len > 0);
    if (out->len > NAMED_MAX) {
        (*unnamed)++;
        return;
    }
    strbuf_printf(out, "%s%s/%u", out->len > 0 ? "; " : "", node->name->text, (unsigned)gpu->index);
    if (ill != NULL)
        strbuf_printf(out, " (%s)", ill);
}

/* Sick GPUs get no pods; only this finding says that they need repair. */
static void check_gpus(struct doctor *doctor)
{
    CLEANUP(strbuf_done) struct strbuf names;
    const struct node *node;
    uint32_t gpus = 0;
    uint32_t sick = 0;
    uint32_t unnamed = 0;

    strbuf_init(&names);
    for (uint32_t at = 0; (node = snapshot_next(doctor->snapshot, &at)) != NULL;)
        for (uint32_t i = 0; i < node->n_gpus && !node->gone; i++) {
            const struct gpu *gpu = &node->gpu[i];
            if ((gpu->flags & GPU_ABSENT) != 0)
                continue;
            gpus++;
            if (!gpu_reported_unhealthy(gpu))
                continue;
            sick++;
            add_sick(&names, node, gpu, &unnamed);
        }
    must(unnamed <= sick && sick <= gpus);
    if (unnamed > 0)
        strbuf_printf(&names, "; and %u more: milligpuctl nodes --state unhealthy", unnamed);
    if (sick > 0)
        api_doctor_say(doctor, "gpus", HEALTH_WARNING,
                       "repair or replace them, or restart the node; milligpuctl node NODE shows "
                       "the pods that have shares there",
                       "%u of %u GPUs %s unhealthy, and get no new shares: %s", sick, gpus,
                       sick == 1 ? "is" : "are", names.data);
    else
        api_doctor_say(doctor, "gpus", HEALTH_OK, "", "none of %u GPUs is reported unhealthy",
                       gpus);
}

/* All checks use one snapshot, so that findings about the ledger never contradict each other. */
void api_doctor(struct api_call *call)
{
    CLEANUP(snapshot_unrefp) const struct snapshot *snapshot = api_snapshot(call);
    struct app *app = call->app;
    struct doctor doctor = {
        .call = call,
        .app = app,
        .settings = atomic_load(&app->settings),
        .snapshot = snapshot,
        .now_ms = app->clock.now_ms(app->clock.ctx),
    };

    if (snapshot == NULL)
        return;
    api_unbound(call, snapshot, &doctor.unbound);
    json_writer_init(&doctor.json, &call->body);
    json_write_object(&doctor.json);
    json_write_key(&doctor.json, "checks");
    json_write_array(&doctor.json);
    check_daemon(&doctor);
    check_ledger(&doctor);
    check_history(&doctor);
    check_backup(&doctor);
    check_policy(&doctor);
    check_rules(&doctor);
    check_api(&doctor);
    check_watch(&doctor, "nodes", atomic_load(&app->watch.nodes_synced),
                atomic_load(&app->watch.nodes_seen_ms));
    check_watch(&doctor, "pods", atomic_load(&app->watch.pods_synced),
                atomic_load(&app->watch.pods_seen_ms));
    check_rights(&doctor);
    check_usage(&doctor);
    check_signing(&doctor);
    check_wake_up(&doctor);
    check_scheduler(&doctor);
    check_unserved(&doctor);
    check_webhooks(&doctor);
    check_certificates(&doctor);
    check_sources(&doctor);
    check_plugin(&doctor);
    check_agents(&doctor);
    check_gpus(&doctor);
    check_drift(&doctor);
    json_write_array_end(&doctor.json);
    json_write_object_end(&doctor.json);
    must(call->body.len > 0);
}

/* --- settings --- */

static const char *const setting_help[] = {
#define SETTING(id, type, fallback, low, high, reload, unit, help) help,
#include "milligpu/settings/settings.def"
#undef SETTING
};

struct doctor_setting {
    const struct settings_set *set;
    enum setting_id id;
};

/* The value as in the YAML file, without quotes. */
static struct text api_doctor_bare(const char *value)
{
    const struct text text = text_of(value);
    const bool quoted = text.len > 1 && text.at[0] == '"' && strchr(value, '\\') == NULL;

    must(!quoted || text.at[text.len - 1] == '"');
    return quoted ? (struct text){text.at + 1, text.len - 2} : text;
}

/* No setting is secret: for keys and tokens, settings have only file names. */
static void encode_setting(struct json_writer *json, const struct api_item *item)
{
    const struct doctor_setting *setting = item->what;
    char value[4096];

    must((size_t)setting->id < ARRAY_LEN(setting_help));
    settings_value(setting->set, setting->id, value, sizeof value);
    json_write_object(json);
    json_write_key(json, "name");
    json_write_str(json, settings_name(setting->id));
    json_write_key(json, "value");
    json_write_text(json, api_doctor_bare(value));
    json_write_key(json, "source");
    json_write_str(json, settings_source_name(settings_source(setting->set, setting->id)));
    json_write_key(json, "text");
    json_write_str(json, setting_help[setting->id]);
    json_write_object_end(json);
}

/* Loads the set once: a SIGHUP in between must not mix two configurations in one answer. */
void api_settings(struct api_call *call)
{
    const struct settings_set *set = atomic_load(&call->app->set);
    struct doctor_setting *setting = arena_array(&call->arena, SETTINGS, sizeof *setting);
    struct api_list list = {0};

    must(set != NULL);
    for (int id = 0; id < SETTINGS; id++) {
        setting[id] = (struct doctor_setting){set, (enum setting_id)id};
        /* The key keeps the order of the table instead of the alphabet. */
        api_list_add(call, &list, arena_printf(&call->arena, "%03d", id), &setting[id], NULL);
    }
    api_list_write(call, &list, encode_setting);
}
