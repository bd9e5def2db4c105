/*
 * usage_kills - containers killed for their memory, until each kill is reported to milligpud.
 *
 * The meter shows a killed container only until its next life begins, and milligpud can be
 * unreachable for longer. So each kill is kept here, and reported with the container's next life
 * until a report is accepted. A kill is lost if its pod is not in that report.
 *
 * Pure; used by the thread of the sender only.
 */
#ifndef MILLIGPU_AGENT_USAGE_KILLS_H
#define MILLIGPU_AGENT_USAGE_KILLS_H

#include "milligpu/wire/usage/usage_report.h"

#include "meter.h"

/* Kills kept at a time; more are in the agent's log and metrics only. */
enum { USAGE_KILLS_MAX = 64 };

struct usage_kill {
    /* Identity of the container and its pod; owned. */
    char *id;
    char *uid;
    char *name;
    bool is_taken; /* reported; kept while the meter shows it, so that it is reported once */
};

struct usage_kills {
    uint32_t count;
    struct usage_kill kill[USAGE_KILLS_MAX];
};

void usage_kills_done(struct usage_kills *kills);

/* Adds the new kills of copy. */
void usage_kills_note(struct usage_kills *kills, const struct meter_copy *copy);
/* True if a kill is not reported yet. */
bool usage_kills_are_news(const struct usage_kills *kills);
/* Marks the killed containers in a report. Drops the peaks of lives other than the killed one. */
void usage_kills_put(const struct usage_kills *kills, const struct usage_report *out);
/* Marks all kills as reported, after milligpud has accepted a report. */
void usage_kills_taken(struct usage_kills *kills);

#endif
