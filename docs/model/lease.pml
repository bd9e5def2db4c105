/*
 * lease.pml - two replicas of milligpud, and the ways to keep them apart. None of this is in src:
 * the model says what a design with replicas needs. README.md has the verdicts.
 *
 * One GPU with room for one pod. Each replica has a ledger of its own, built from the pods'
 * annotations when it begins to lead. A pause (of the process, its VM, its network) is any number
 * of steps of the others between two steps of one.
 *
 * A design is a choice of:
 *   CHECK   look at the lease after the decision, before the POST
 *   WAIT    a new leader waits until the API server has given up on every POST sent to it
 *   PROMPT  no pause between CHECK and POST is longer than that wait: an assumption about the world
 *   TOUCH   a Binding carries the resourceVersion that the decision saw, and a new leader writes
 *           to every pod that is not bound before it grants anything
 *   RECORD  reservations are in one object of the API server, written by compare-and-swap before
 *           the POST; a new leader takes them over, and gives one up only after touching its pod
 * and, of the world:
 *   DRIFT   clocks run at any speed: the lease can be taken while its holder still relies on it
 */
#ifndef TAKEOVERS
#define TAKEOVERS 2
#endif
#ifndef TRIES
#define TRIES 2
#endif
#define UIDS 3

mtype = { ABSENT, PENDING, BOUND, GONE };
mtype api[UIDS]; /* the third is created at any time */
byte version[UIDS];

typedef replica {
    bool leads;   /* it believes that it leads */
    bool valid;   /* the lease, by its own clock */
    bool listed;  /* its ledger is built */
    byte row[UIDS]; /* 0 free, 1 reserved, 2 bound */
    bool due[UIDS]; /* decided, lease not checked yet */
    bool checked[UIDS]; /* about to be sent */
    bool sent[UIDS]; /* in the network, or inside the API server */
    byte saw[UIDS]; /* the version that the decision saw */
    byte knows /* the version of the record */
};
replica r[2];

byte holder; /* of the Lease object */
byte takeovers;
byte record_version;
bool record[UIDS];
byte tries[UIDS];
byte i;

#define OTHER(me) (1 - (me))
#define FOR_PODS for (i : 0 .. UIDS - 1)
#define FULL(me) (r[me].row[0] + r[me].row[1] + r[me].row[2] > 0)
#define IN_NETWORK(me) (r[me].sent[0] || r[me].sent[1] || r[me].sent[2])
#define ABOUT_TO_SEND(me) (r[me].checked[0] || r[me].checked[1] || r[me].checked[2])

/* The one whose compare-and-swap would succeed. */
#ifdef RECORD
#define IS_LEADER_FOR_SURE(me) (r[me].knows == record_version)
#else
#define IS_LEADER_FOR_SURE(me) true
#endif

proctype Invariants()
{
end:
    do
    :: (api[0] == BOUND) + (api[1] == BOUND) + (api[2] == BOUND) > 1 -> assert(false)
    :: timeout ->
       atomic { /* every reservation of the leader has ended */
           FOR_PODS {
               assert(!r[holder].leads || !r[holder].valid || !IS_LEADER_FOR_SURE(holder) ||
                      r[holder].row[i] != 1)
           };
           break
       }
    od
}

inline step_down(me)
{
    FOR_PODS {
        r[me].row[i] = 0;
        r[me].due[i] = false
    };
    r[me].leads = false;
    r[me].valid = false;
    r[me].listed = false
}

/* Its clock says that the renew deadline has passed; it has not noticed yet. */
inline run_out(me)
{
    atomic {
        r[me].valid && takeovers < TAKEOVERS;
        printf("replica %d: its lease runs out\n", me);
        r[me].valid = false
    }
}

#ifdef DRIFT
#define MAY_BE_TAKEN(me) true
#else
#define MAY_BE_TAKEN(me) (!r[me].valid)
#endif

inline take(me)
{
    d_step {
        holder == OTHER(me) && !r[me].leads && takeovers < TAKEOVERS && MAY_BE_TAKEN(OTHER(me));
        printf("replica %d: takes the lease\n", me);
        takeovers++;
        holder = me;
        r[me].leads = true;
        r[me].valid = true
    }
}

#ifdef WAIT
#ifdef PROMPT
#define QUIET(me) (!IN_NETWORK(OTHER(me)) && !ABOUT_TO_SEND(OTHER(me)) && \
                   !IN_NETWORK(me) && !ABOUT_TO_SEND(me))
#else
#define QUIET(me) (!IN_NETWORK(OTHER(me)) && !IN_NETWORK(me))
#endif
#else
#define QUIET(me) true
#endif

/* The new ledger: fence first, then a consistent list. */
inline rebuild(me)
{
    d_step {
        r[me].leads && !r[me].listed && QUIET(me);
        printf("replica %d: lists the pods, rebuilds its ledger\n", me);
#ifdef RECORD
        record_version++;
        r[me].knows = record_version;
#endif
        FOR_PODS {
#ifdef TOUCH
            version[i] = (api[i] == PENDING -> version[i] + 1 : version[i]);
#endif
            r[me].row[i] = (api[i] == BOUND -> 2 : 0);
#ifdef RECORD
            r[me].row[i] = (record[i] && api[i] == PENDING -> 1 : r[me].row[i])
#endif
        };
        r[me].listed = true
    }
}

inline decide(me, u)
{
    d_step {
        r[me].listed && api[u] == PENDING && !FULL(me) && !r[me].checked[u] &&
        tries[u] < TRIES;
        tries[u]++;
#ifdef RECORD
        if
        :: r[me].knows != record_version -> /* the compare-and-swap fails */
           printf("replica %d: is not the leader any more\n", me);
           step_down(me)
        :: else ->
           record_version++;
           r[me].knows = record_version;
           record[u] = true;
           printf("replica %d: records and reserves the GPU for pod %d\n", me, u);
           r[me].row[u] = 1;
           r[me].due[u] = true;
           r[me].saw[u] = version[u]
        fi
#else
        printf("replica %d: reserves the GPU for pod %d\n", me, u);
        r[me].row[u] = 1;
        r[me].due[u] = true;
        r[me].saw[u] = version[u]
#endif
    }
}

inline check(me, u)
{
    d_step {
        r[me].due[u];
#ifdef CHECK
        if
        :: !r[me].valid ->
           printf("replica %d: finds its lease run out\n", me);
           step_down(me)
        :: else ->
           printf("replica %d: its lease is good, pod %d may be sent\n", me, u);
           r[me].checked[u] = true
        fi;
#else
        r[me].checked[u] = true;
#endif
        r[me].due[u] = false
    }
}

/* The POST, in time or late; then it arrives or is lost. */
inline send(me, u)
{
    d_step {
        r[me].checked[u];
        printf("replica %d: POSTs the Binding of pod %d\n", me, u);
        r[me].checked[u] = false;
        r[me].sent[u] = true
    }
}

inline arrive(me, u)
{
    d_step {
        r[me].sent[u];
        r[me].sent[u] = false;
        if
#if defined(TOUCH) || defined(RECORD)
        :: api[u] == PENDING && version[u] == r[me].saw[u] ->
#else
        :: api[u] == PENDING ->
#endif
           printf("api server: pod %d is bound by replica %d\n", u, me);
           version[u]++;
           api[u] = BOUND
        :: else -> printf("api server: 409 for the Binding of pod %d by replica %d\n", u, me)
        fi;
        r[me].saw[u] = 0
    }
}

inline get_lost(me, u)
{
    d_step {
        r[me].sent[u];
        printf("network: the Binding of pod %d by replica %d is lost\n", u, me);
        r[me].sent[u] = false;
        r[me].saw[u] = 0
    }
}

#define IN_FLIGHT(me, u) (r[me].due[u] || r[me].checked[u] || r[me].sent[u])

/* The watch: bound, or gone. */
inline see(me, u)
{
    d_step {
        r[me].listed && IS_LEADER_FOR_SURE(me) &&
        (api[u] == BOUND && r[me].row[u] != 2 || api[u] == GONE && r[me].row[u] != 0);
        r[me].row[u] = (api[u] == BOUND -> 2 : 0);
        record[u] = false
    }
}

/* A reservation of our own whose POST has certainly ended, or one that was taken over. */
inline give_up(me, u)
{
    d_step {
        r[me].listed && r[me].row[u] == 1 && api[u] == PENDING && !IN_FLIGHT(me, u) &&
        IS_LEADER_FOR_SURE(me);
        printf("replica %d: gives up the reservation of pod %d\n", me, u);
#ifdef RECORD
#ifndef NO_TOUCH_BEFORE_RELEASE
        version[u]++;
#endif
        record[u] = false;
#endif
        r[me].row[u] = 0
    }
}

inline all_of(me, u)
{
    if
    :: decide(me, u)
    :: check(me, u)
    :: send(me, u)
    :: see(me, u)
    :: give_up(me, u)
    fi
}

proctype Replica(byte me)
{
end:
    do
    :: run_out(me)
    :: take(me)
    :: rebuild(me)
    :: d_step { r[me].leads && !r[me].valid; step_down(me) }
    :: all_of(me, 0)
    :: all_of(me, 1)
    :: all_of(me, 2)
    od
}

inline life(u)
{
    atomic {
        if
        :: api[u] == BOUND -> api[u] = GONE
        :: api[u] == ABSENT -> api[u] = PENDING
        fi;
        printf("api server: pod %d is %e\n", u, api[u])
    }
}

proctype ApiServer()
{
end:
    do
    :: arrive(0, 0)
    :: arrive(0, 1)
    :: arrive(0, 2)
    :: arrive(1, 0)
    :: arrive(1, 1)
    :: arrive(1, 2)
    :: get_lost(0, 0)
    :: get_lost(1, 1)
    :: life(0)
    :: life(2)
    od
}

init
{
    atomic {
        api[0] = PENDING;
        api[1] = PENDING;
        api[2] = ABSENT;
        holder = 0;
        r[0].leads = true;
        r[0].valid = true;
        r[0].listed = true;
        run Invariants();
        run Replica(0);
        run Replica(1);
        run ApiServer()
    }
}
