/*
 * usage_sender - sends the usage of this node's pods to milligpud (usage_report.h).
 *
 * Runs in a thread of its own, so that a slow or unreachable milligpud delays nothing else. A
 * report is due every every_ms, the first one after a random part of that, so that agents started
 * together do not report together; and within a second when urgent() returns true. After a failure
 * a new report is made, with exponential backoff from 1 s to a minute, less a random part.
 *
 * Report numbers start with the wall clock's milliseconds, so that they increase over restarts. If
 * the clock was set back in between, milligpud answers 409, and the numbers are raised by a day,
 * then by two, and so on until a report is accepted.
 */
#ifndef MILLIGPU_AGENT_USAGE_SENDER_H
#define MILLIGPU_AGENT_USAGE_SENDER_H

#include "milligpu/kube/kube.h"
#include "milligpu/sign/signing.h"
#include "milligpu/wire/usage/usage_report.h"

struct usage_sender;

/* Pointers are borrowed until usage_sender_stop(). Callbacks run in the sender's thread. */
struct usage_sender_rules {
    const char *node;
    const struct signing_key *key;
    const struct kube_ops *ops; /* connection to milligpud; used by the sender's thread only */
    int64_t every_ms;           /* interval between reports */
    void *user;
    /*
     * Fills in pods and seconds, with memory from arena. Called for each attempt: it covers a
     * window up to now, not the time since the last call. Returns false if nothing is known yet;
     * then nothing is sent.
     */
    bool (*fill)(void *user, struct usage_report *out, struct arena *arena);
    /* True if a report is urgent. Called every second, also before a retry. Can be NULL. */
    bool (*urgent)(void *user);
    /* Called when milligpud has accepted the last report. Can be NULL. */
    void (*taken)(void *user);
};

int usage_sender_start(const struct usage_sender_rules *rules, struct usage_sender **out,
                       struct err *err) MUST_USE;
void usage_sender_stop(struct usage_sender *sender); /* takes up to 11 s; NULL is fine */

#endif
