/*
 * api_doctor - the state of one run of doctor, shared by its checks.
 *
 * A check only reads, and writes findings by api_doctor_say().
 *
 * One admin thread.
 */
#ifndef MILLIGPU_ADMIN_API_DOCTOR_H
#define MILLIGPU_ADMIN_API_DOCTOR_H

#include "api_unbound.h"

enum health { HEALTH_OK, HEALTH_WARNING, HEALTH_FAILED };

struct doctor {
    struct api_call *call;
    struct app *app;
    const struct settings *settings;
    const struct snapshot *snapshot;
    int64_t now_ms;
    struct unbound_pods unbound;
    struct json_writer json;
};

/* Writes one finding. fix: the remedy; empty exactly if health is HEALTH_OK. */
void api_doctor_say(struct doctor *doctor, const char *name, enum health health, const char *fix,
                    const char *fmt, ...) PRINTF_LIKE(5, 6);

/* The age of the last backup; nothing for a ledger in memory. */
void check_backup(struct doctor *doctor);
/* When the certificates of the listeners expire; nothing if no listener has one. */
void check_certificates(struct doctor *doctor);

#endif
