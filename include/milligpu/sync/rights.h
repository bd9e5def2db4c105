/*
 * rights - does milligpud have the permissions that it needs? The API server is asked on request.
 *
 *   doctor (admin thread): rights_ask(), waits a little --> informer's thread: one
 *   SelfSubjectAccessReview after another --> doctor: the answers
 *
 * After a denial or an error the reviews are repeated once, a second later, because a
 * kube-apiserver that has just started denies everything to everyone. The result is good for some
 * seconds, however often it is requested. Every authenticated account may send reviews
 * (system:basic-user); no role of ours is needed.
 *
 * One lock for the request and the result; everything else belongs to the informer's thread.
 */
#ifndef MILLIGPU_RIGHTS_H
#define MILLIGPU_RIGHTS_H

#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"

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

/* Any thread: the last outcome, after a new round if it is old. Waits at most wait_ms. */
void rights_ask(struct rights *rights, int64_t wait_ms, struct rights_facts *out);

#endif
