/*
 * usage_kills - containers that were killed for their memory, until milligpud knows of each.
 *
 * The meter shows a killed container only until its next life begins, and milligpud may be away for
 * longer. So each kill is kept here, and told with the reports of the next life, until one of them
 * was taken. A container whose pod is not in such a report is told of no more.
 *
 * Pure; used by the thread of the sender only.
 */
#ifndef MILLIGPU_AGENT_USAGE_KILLS_H
#define MILLIGPU_AGENT_USAGE_KILLS_H

#include "milligpu/wire/usage/usage_report.h"

#include "meter.h"

/* At a time; beyond, a kill is in the agent's log and metrics only. */
enum { USAGE_KILLS_MAX = 64 };

struct usage_kill {
    char *id; /* owned, like the others */
    char *uid;
    char *name;
    bool is_taken; /* kept while the meter shows it, so that it is told once */
};

struct usage_kills {
    uint32_t count;
    struct usage_kill kill[USAGE_KILLS_MAX];
};

void usage_kills_done(struct usage_kills *kills);

/* Keeps what copy shows and was not seen before. */
void usage_kills_note(struct usage_kills *kills, const struct meter_copy *copy);
bool usage_kills_are_news(const struct usage_kills *kills);
/* The peaks of a life that was not the killed one are left out. */
void usage_kills_tell(const struct usage_kills *kills, const struct usage_report *out);
/* milligpud has taken a report that told of all of them. */
void usage_kills_taken(struct usage_kills *kills);

#endif
