/*
 * Checks of doctor for the age of the last backup and the expiry of certificates. Called by
 * api_doctor.c in an admin thread. Both read the metrics that the alerts use, and the wall clock.
 */
#include <stdio.h>
#include <string.h>

#include "milligpu/base/strbuf.h"
#include "milligpu/run/metric.h"

#include "api_doctor.h"

enum {
    HOUR_MS = 60 * 60 * 1000,
    BACKUP_OLD_MS = 7 * 24 * 60 * 60 * 1000, /* as in the alert MilligpuBackupOld */
    /* a week earlier than the alert MilligpuCertificateExpires */
    CERTIFICATE_SOON_S = 14 * 24 * 60 * 60,
};

static const char backup_fix[] =
    "run milligpuctl backup FILE; the component backup of the manifests makes one each night";

/* "3 hours", "12 days"; "0 hours" if the wall clock stepped back. */
static void age_format(int64_t age_ms, char *out, size_t bytes)
{
    const int64_t hours = age_ms > 0 ? age_ms / HOUR_MS : 0;
    const int64_t count = hours < 48 ? hours : hours / 24;

    must(bytes > 0);
    (void)snprintf(out, bytes, "%lld %s%s", (long long)count, hours < 48 ? "hour" : "day",
                   count == 1 ? "" : "s");
}

/*
 * Backups of a previous process are not known, so a milligpud that has just been restarted does not
 * warn.
 */
static void say_no_backup(struct doctor *doctor, int64_t wall_ms)
{
    const int64_t age_ms = wall_ms - doctor->app->instance.began_wall_ms;
    char age[32];

    age_format(age_ms, age, sizeof age);
    if (age_ms > BACKUP_OLD_MS)
        api_doctor_say(doctor, "backup", HEALTH_WARNING, backup_fix,
                       "none was made since milligpud started, %s ago", age);
    else
        api_doctor_say(doctor, "backup", HEALTH_OK, "",
                       "none since milligpud started, %s ago; a week without one is a warning",
                       age);
}

void check_backup(struct doctor *doctor)
{
    const int64_t wall_ms = doctor->app->clock.wall_ms(doctor->app->clock.ctx);
    struct store_facts facts;
    struct err ignored; /* reported by check_ledger() */
    const int64_t last_s = metric_value(M_BACKUP);
    char age[32];

    if (store_facts(doctor->app->store, &facts, &ignored) < 0 ||
        strcmp(facts.path, ":memory:") == 0)
        return;
    if (last_s == 0) {
        say_no_backup(doctor, wall_ms);
        return;
    }
    const int64_t age_ms = wall_ms - last_s * 1000;
    age_format(age_ms, age, sizeof age);
    if (age_ms > BACKUP_OLD_MS)
        api_doctor_say(doctor, "backup", HEALTH_WARNING, backup_fix, "the last one was made %s ago",
                       age);
    else
        api_doctor_say(doctor, "backup", HEALTH_OK, "", "the last one was made %s ago", age);
}

struct ends {
    struct strbuf words;
    int64_t now_s;
    int64_t first_s; /* UTC time of the earliest expiry; 0 if no certificate */
};

/* Reads the label port="NAME". */
static void add_end(void *user, const char *labels, int64_t ends_s)
{
    struct ends *ends = user;
    const char *name = strchr(labels, '"');
    char at[TIME_TEXT_BYTES];

    must(name != NULL);
    time_format(ends_s * 1000, at);
    strbuf_printf(&ends->words, "%s%.*s certificate %s at %s", ends->words.len > 0 ? ", " : "",
                  (int)strcspn(name + 1, "\""), name + 1, ends_s <= ends->now_s ? "ended" : "ends",
                  at);
    if (ends->first_s == 0 || ends_s < ends->first_s)
        ends->first_s = ends_s;
}

void check_certificates(struct doctor *doctor)
{
    static const char fix[] =
        "renew it, by manifests/overlays/default-scheduler/README.md (webhook) or docs/NODE.md "
        "(report); milligpud reloads a replaced file automatically";
    const struct clock_ops *clock = &doctor->app->clock;
    struct ends ends = {.now_s = clock->wall_ms(clock->ctx) / 1000};

    strbuf_init(&ends.words);
    metric_each(M_CERTIFICATE_ENDS, &ends, add_end);
    const bool soon = ends.first_s - ends.now_s < CERTIFICATE_SOON_S;
    const enum health ending = ends.first_s <= ends.now_s ? HEALTH_FAILED : HEALTH_WARNING;
    if (ends.first_s != 0)
        api_doctor_say(doctor, "tls", soon ? ending : HEALTH_OK, soon ? fix : "", "%s",
                       ends.words.data);
    strbuf_done(&ends.words);
}
