/*
 * desk - webhooks without sockets: calls are records, and who asked is told of the answer.
 *
 * The functions of web.h that webhooks call are defined here.
 */
#ifndef MILLIGPU_BENCH_DESK_H
#define MILLIGPU_BENCH_DESK_H

#include "app/app.h"
#include "app/webhooks.h"

struct web_call {
    const char *path;
    struct text body;
    int64_t began_ns;
    struct strbuf answer;
    int status; /* 0: not answered yet */
    void *user;
    void (*answered)(struct web_call *call); /* from any thread; may be NULL */
};

void web_call_init(struct web_call *call, const char *path);
void web_call_done(struct web_call *call);

/* The parts of an app that are the same in every benchmark; it is ready to grant. */
struct desk {
    struct app app;
    struct settings settings;
    struct webhooks *webhooks;
};
void desk_init(struct desk *desk);
void desk_done(struct desk *desk);

/* Ask, and be answered at once. */
void desk_ask(struct desk *desk, struct web_call *call, struct text body);

#endif
