/*
 * rights - asks the API server, on request, whether milligpud has the permissions that it needs.
 *
 *   doctor (admin thread): rights_ask(), waits up to a timeout --> informer's thread: one
 *   SelfSubjectAccessReview after another --> doctor: the answers
 *
 * After a denial or an error all reviews are repeated once, a second later, because a
 * kube-apiserver that has just started denies everything to everyone. The result is cached for
 * RIGHTS_FRESH_MS. Every authenticated account may send reviews (system:basic-user), so they need
 * no role of ours.
 *
 * One lock guards the request and the result; everything else belongs to the informer's thread.
 */
#ifndef MILLIGPU_RIGHTS_H
#define MILLIGPU_RIGHTS_H

#include "milligpu/kube/kube.h"
#include "milligpu/spine/app.h"

enum {
    RIGHTS_FRESH_MS = 10000, /* maximum age of a cached result */
    RIGHTS_WAIT_MS = 3000,   /* timeout that doctor uses */
};

struct rights;

/* ops belong to the informer's thread. */
struct rights *rights_new(struct app *app, const struct kube_ops *ops) MUST_USE;
void rights_free(struct rights *rights); /* NULL is fine */

/* Informer's thread. Starts the review that is due; returns the ms until the next step. */
int64_t rights_step(struct rights *rights, int64_t now_ms);
/* Returns false if the answer's id is not ours. */
bool rights_answer(struct rights *rights, int64_t now_ms, const struct kube_answer *answer);

struct rights_facts {
    int64_t at_ms;   /* time of the round, monotonic; 0: none completed yet */
    uint32_t asked;  /* number of rights needed with the present settings */
    uint32_t denied; /* number of these that were denied */
    char words[512]; /* list of the denied rights, each with its purpose */
    char error[256]; /* error that ended the round; "" if none */
};

/* Returns the last result, renewed if it is old; waits at most wait_ms for that. Any thread. */
void rights_ask(struct rights *rights, int64_t wait_ms, struct rights_facts *out);

#endif
