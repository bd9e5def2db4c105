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
    RIGHTS_FRESH_MS = 10000, /* no second round before */
    RIGHTS_WAIT_MS = 3000,   /* nobody waits longer */
};

struct rights;

/* ops are the informer's thread's. */
struct rights *rights_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void rights_free(struct rights *rights); /* NULL is fine */

/* For the informer's thread: start what is due; how long it may be left alone, in ms. */
int64_t rights_step(struct rights *rights, int64_t now_ms);
/* False if the id is not ours. */
bool rights_answer(struct rights *rights, int64_t now_ms, const struct kube_answer *answer);

struct rights_facts {
    int64_t at_ms;   /* monotonic; 0: nothing has been asked to its end yet */
    uint32_t asked;  /* rights that we need, as we are set up */
    uint32_t denied; /* of those */
    char words[512]; /* those denied, with what each is for */
    char error[256]; /* why they could not be asked; "": they could */
};

/* Any thread: the last outcome, after a new round where that is old.  Waits at most wait_ms. */
void rights_ask(struct rights *rights, int64_t wait_ms, struct rights_facts *out);

#endif
