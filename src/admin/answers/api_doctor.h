/*
 * api_doctor - what the checks of doctor share.
 *
 * A check reads, and writes findings by api_doctor_say(); it changes nothing.
 *
 * In one admin thread.
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

/* Writes one finding. fix: what to do; empty exactly if nothing needs to be done. */
void api_doctor_say(struct doctor *doctor, const char *name, enum health health, const char *fix,
                    const char *fmt, ...) PRINTF_LIKE(5, 6);

/* When was the last backup made? Nothing for a ledger in memory. */
void check_backup(struct doctor *doctor);
/* When do the certificates of the listeners end? Nothing where none has one. */
void check_certificates(struct doctor *doctor);

#endif
