/*
 * usage_sender - sends what the pods of this node used to milligpud (usage_report.h).
 *
 * A thread of its own: a milligpud that is slow or away delays nothing else. A report is due every
 * every_ms, the first after a random part of that, so that the agents of a cluster that start
 * together do not report together; and within a second when urgent() says so. One that was not
 * taken is made anew after 1 s, then twice as long each time, up to a minute, each time less a
 * random part.
 *
 * Numbers begin with the wall clock's milliseconds, so that they rise over restarts. Where the
 * clock was set back meanwhile, milligpud answers 409, and the numbers are raised by a day, then by
 * two, until they are taken.
 */
#ifndef MILLIGPU_AGENT_USAGE_SENDER_H
#define MILLIGPU_AGENT_USAGE_SENDER_H

#include "milligpu/kube/kube.h"
#include "milligpu/sign/signing.h"
#include "milligpu/wire/usage/usage_report.h"

struct usage_sender;

struct usage_sender_rules {
    const char *node; /* borrowed until usage_sender_stop(), like all pointers here */
    const struct signing_key *key;
    const struct kube_ops *ops; /* of the server; the sender's thread uses it, and nobody else */
    int64_t every_ms;
    void *user;
    /*
     * Fills in pods and seconds, from the arena where it needs memory. Called in the sender's
     * thread for each try: it tells of the last seconds, and not of those since it was called last.
     * False: nothing is known yet, and nothing is sent.
     */
    bool (*fill)(void *user, struct usage_report *out, struct arena *arena);
    /*
     * Is there something that milligpud should know at once? Asked each second, also while a report
     * waits to be tried again. NULL: never.
     */
    bool (*urgent)(void *user);
    void (*taken)(void *user); /* what fill() told last. NULL: nobody wants to know */
};

int usage_sender_start(const struct usage_sender_rules *rules, struct usage_sender **out,
                       struct err *err) MUST_USE;
void usage_sender_stop(struct usage_sender *sender); /* NULL is fine; within 11 s */

#endif
