/*
 * rights - may we do what we have to do?  The API server says so, when somebody asks.
 *
 *   doctor (admin thread): rights_ask, waits a little --> informer's thread: one
 *   SelfSubjectAccessReview after the other --> doctor: what each was answered
 *
 * A denial is asked about twice, a second apart: a kube-apiserver that has just started denies
 * everybody everything.  What was answered is good for some seconds, however often it is asked for.
 * Every authenticated account may ask (system:basic-user); nothing here needs a role of ours.
 *
 * One lock, for the wish and the outcome; the rest is the informer's thread's.
 */
#ifndef MILLIGPU_RIGHTS_H
#define MILLIGPU_RIGHTS_H

#include "milligpu/app.h"
#include "milligpu/kube.h"

enum {
    RIGHTS_FRESH_MS = 10000, /* no new round before this time */
    RIGHTS_WAIT_MS = 3000,   /* the longest wait */
};

struct rights;

/* ops belong to the informer's thread. */
struct rights *rights_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void rights_free(struct rights *rights); /* NULL is fine */

/* For the informer's thread: starts what is due; returns how long it may be left alone, in ms. */
int64_t rights_step(struct rights *rights, int64_t now_ms);
/* False if the id is not ours. */
bool rights_answer(struct rights *rights, int64_t now_ms, const struct kube_answer *answer);

struct rights_facts {
    int64_t at_ms;   /* monotonic; 0: no round has been completed yet */
    uint32_t asked;  /* rights that are needed with the present settings */
    uint32_t denied; /* of those */
    char words[512]; /* the denied ones, and what each is for */
    char error[256]; /* why the API server could not be asked; "": it could */
};

/* Any thread: the last outcome, after a new round if that is old. Waits at most wait_ms. */
void rights_ask(struct rights *rights, int64_t wait_ms, struct rights_facts *out);

#endif
