/*
 * sim_api - the API server of the simulator: the fake API server, behind a network that lies.
 *
 * The state of the cluster lives in a fake API server, and every change of it, by any actor, goes
 * through sim_api; the observer is called as each takes effect.  News for milligpud
 * goes through two kube_ops (watch, calls) in virtual time: requests take time, may be lost before
 * or after their effect, or take effect after any time; streams are delayed, torn, cut, repeated.
 *
 * Nothing here draws from anything but its own generator: the same seed and the same calls give
 * the same bytes.  Answers keep the promises a real API server keeps: within one resource events
 * come in order of their resourceVersion; a watch gets no event twice unless it asked from an
 * older version (SIM_REPEAT is then a server that starts the watch a little early); two resources
 * are reordered against each other freely.
 */
#ifndef MILLIGPU_TESTS_SIM_API_H
#define MILLIGPU_TESTS_SIM_API_H

#include "milligpu/fake_apiserver/fake_apiserver.h"
#include "milligpu/kube/kube.h"

/* Everything that can go wrong between milligpud and the API server; each is counted. */
#define SIM_FAULT_TABLE(X)                                                                         \
    X(SIM_SLOW, "slow")                   /* an answer that takes seconds */                       \
    X(SIM_LATE_EFFECT, "late_effect")     /* timeout; takes effect later, perhaps by hours */      \
    X(SIM_LOST_REQUEST, "lost_request")   /* timeout; never takes effect */                        \
    X(SIM_LOST_ANSWER, "lost_answer")     /* took effect; timeout */                               \
    X(SIM_BROKEN_ANSWER, "broken_answer") /* took effect; connection lost in the body */           \
    X(SIM_REFUSED, "refused")             /* no connection: FAILED with unsent */                  \
    X(SIM_ERROR_BEFORE, "error_before")   /* 500 or 503 or 504, nothing happened */                \
    X(SIM_ERROR_AFTER, "error_after")     /* 500 or 504, and it did happen */                      \
    X(SIM_THROTTLED, "throttled")         /* 429, with or without Retry-After */                   \
    X(SIM_UNAUTHORIZED, "unauthorized")   /* 401 once */                                           \
    X(SIM_WATCH_DELAY, "watch_delay")     /* events of one resource held back for seconds */       \
    X(SIM_WATCH_CUT, "watch_cut")         /* stream ends in the middle of an event */              \
    X(SIM_WATCH_END, "watch_end")         /* stream ends cleanly */                                \
    X(SIM_WATCH_SILENT, "watch_silent")   /* half open: no more bytes */                           \
    X(SIM_REPEAT, "repeat")               /* a watch that begins a little too early */             \
    X(SIM_GONE_HTTP, "gone_http")         /* 410 as the answer to a watch */                       \
    X(SIM_GONE_EVENT, "gone_event")       /* 410 as an ERROR event in the stream */                \
    X(SIM_GONE_CONTINUE, "gone_continue") /* 410 for the next page of a list */                    \
    X(SIM_BOOKMARK, "bookmark")           /* not a fault: bookmarks were sent */                   \
    X(SIM_CHUNKS, "chunks")               /* bytes arrive in small random pieces */                \
    X(SIM_OUTAGE, "outage")               /* the whole API server down for a while */

enum sim_fault {
#define X(code, word) code,
    SIM_FAULT_TABLE(X)
#undef X
        SIM_FAULTS
};

struct sim_api;

/* A request of any client that reached the API server, at the moment of its effect. */
struct sim_effect {
    const char *method;
    const char *path;
    struct text body;
    int status;         /* the API server's answer */
    struct text answer; /* its body */
    bool ours;          /* milligpud's, else an actor's */
};

struct sim_api_rules {
    uint64_t seed;
    struct fake_apiserver *fake;
    uint32_t faults_per_mille; /* of requests; watches: faults per second, roughly */
    void *user;
    /*
     * Not called for watches: they change nothing. Both functions may call sim_api_request() and
     * nothing else of this module.
     */
    void (*effect)(void *user, const struct sim_effect *effect);
    /* milligpud sends a request, which may be lost. May call nothing here; may be NULL. */
    void (*sent)(void *user, const char *method, const char *path);
    /*
     * milligpud was handed a line of a watch (an event or a bookmark) or the last page of a list of
     * this whole resource ("pods", "nodes"): everything up to resourceVersion version is delivered,
     * as far as it was requested. Called right after deliver returned from the last byte of the
     * line, or from the DONE of the list. Earlier pages prove nothing yet: an object may be on one
     * that is still to come. A watch that repeats reports older versions again.
     */
    void (*told)(void *user, const char *resource, uint64_t version);
};

struct sim_api *sim_api_new(const struct sim_api_rules *rules);
void sim_api_free(struct sim_api *api);

/*
 * Sets the rate of faults from now on. 0 also ends an outage and releases what is held back within
 * milliseconds, but an effect that is more than a minute late stays so, and its time begins anew. A
 * request that was lost before stays lost: its client waits until it times out.
 */
void sim_api_faults(struct sim_api *api, uint32_t per_mille);
/*
 * A request on its way takes effect within this time, or never: for callers that cannot know of it.
 */
void sim_api_late_within(struct sim_api *api, int64_t ms);
/*
 * The API server is down until then: connections are refused, streams end; a request that was on
 * its way may or may not have taken effect. Actors, inside the cluster, notice nothing.
 */
void sim_api_outage(struct sim_api *api, int64_t until_ms);
/* etcd compacts: older watches and continue tokens get 410. */
void sim_api_compact(struct sim_api *api);

/* The two handles that milligpud gets; both live until sim_api_gone(). */
void sim_api_ops(struct sim_api *api, struct kube_ops *watch, struct kube_ops *calls);
/*
 * The process died: its streams and requests have no listener any more, but what was on its way may
 * still take effect. The handles are dead; sim_api_ops() makes new ones. free() and cancel() of the
 * old ones may still be called before sim_api_free(), which frees what is left. May be called
 * inside deliver, which may also have been left by longjmp.
 */
void sim_api_gone(struct sim_api *api);

/*
 * Virtual time is now now_ms (never less than before): what is due takes effect, answers become
 * ready for poll(). A poll never waits.
 */
void sim_api_now(struct sim_api *api, int64_t now_ms);
/*
 * When something here is due next, perhaps now; INT64_MAX: nothing. Answers that only wait for
 * poll() are not due any more.
 */
int64_t sim_api_next(const struct sim_api *api);
/*
 * Has the sleeper in a poll() been woken since it was last awake? A poll here never sleeps, but a
 * woken thread has its turn at once.
 */
bool sim_api_woken(const struct sim_api *api);
void sim_api_awake(struct sim_api *api);
/*
 * Nothing on its way: no late effect (except those more than a minute late), no event not yet
 * delivered; each resource that milligpud asked to watch since sim_api_ops(), even in vain, is
 * being watched now.
 */
bool sim_api_quiet(const struct sim_api *api);

/* An actor's own request, at once and without faults: schedulers, kubelets, operators. */
int sim_api_request(struct sim_api *api, const char *method, const char *path, const char *body,
                    struct strbuf *out);

/* How often each was met, since sim_api_new(). */
const uint64_t *sim_api_met(const struct sim_api *api); /* [SIM_FAULTS] */
/* When a caller last timed out: a fault is felt as late as that. 0: never. */
int64_t sim_api_felt_ms(const struct sim_api *api);

#endif
