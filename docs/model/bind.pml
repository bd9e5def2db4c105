/*
 * bind.pml - one milligpud between kube-scheduler and the API server.
 *
 * README.md says which function each step stands for, and why what is left out may be left out.
 * Every pod asks for a whole GPU: a GPU has room for one.  A "row" is an allocation of the ledger,
 * a "call" is a Binding of ours in the outbox, "late" POSTs are in the network or inside the API
 * server and take effect whenever they like, also after we died.
 *
 * "twin" marks a line that is expanded for several callers and pods, of which some never reach it:
 * the first two pods are never fetched.
 *
 * Bounds (-D): UIDS pods (the third bears the name of the first), NODES x GPUS, TRIES binds per
 * pod, LOSSES messages lost or late, CRASHES, BAD_COMMITS, RELISTS, BATCH messages per COMMIT.
 * Faults (-D): see the list in README.md; each of them has to produce a counterexample.
 */
#ifndef UIDS
#define UIDS 2
#endif
#ifndef NODES
#define NODES 1
#endif
#ifndef GPUS
#define GPUS 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef BAD_COMMITS
#define BAD_COMMITS 1
#endif
#ifndef RELISTS
#define RELISTS 0
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef ENDS
#define ENDS 1
#endif

#define ALL (NODES * GPUS)
#define NODE(g) ((g) / GPUS)
#define NAME(u) ((u) % 2)
#define NONE 15

/* A row in one byte; an observed one is bound, and may be one too many. */
#define FREE 0
#define RESERVED(gpu) (1 + (gpu))
#define GRANTED(gpu) (3 + (gpu))
#define OBSERVED(gpu) (5 + (gpu))
#define IS_RESERVED(row) ((row) == 1 || (row) == 2)
#define IS_GRANT(row) ((row) > 0 && (row) < 5)
#define GPU(row) (((row) - 1) % 2)

/* --- the API server --- */

/* LEAVING: unbound, with a deletion timestamp.  GONE: ended or deleted. */
mtype = { ABSENT, PENDING, LEAVING, BOUND, TERMINATING, GONE };
mtype api[UIDS];
byte api_gpu[UIDS]; /* the annotation; stays readable after the end */

typedef per_gpu { byte on[ALL] };
per_gpu late[UIDS];

#define RUNS(u) (api[u] == BOUND || api[u] == TERMINATING)
#define EXISTS(state) ((state) != ABSENT && (state) != GONE)

/* --- the ledger --- */

byte row[UIDS];     /* in the writer's memory */
byte disk[UIDS];
byte view[UIDS];    /* in the snapshot that filter reads */
byte phantom[UIDS]; /* a batch whose COMMIT failed, and which may appear after a crash */
bool haunted;

/* --- the daemon --- */

mtype = { COLLECT, COMMIT };
mtype phase = COLLECT;
byte batched;
bool ready = true;
bool kept[UIDS]; /* its message was in a lost batch and waits to be tried again */

mtype record[UIDS]; /* the table of pods: by the watch or a GET */
byte mark[UIDS];    /* 0: older than the list that comes in; else a list spares it */
#define KNOWN(u) EXISTS(record[u])
#define KNOWN_AS_BOUND(u) (record[u] == BOUND || record[u] == TERMINATING)
mtype seen[UIDS];   /* how far the watch has come */
mtype taken[UIDS];  /* its news in this batch */
byte listing;       /* 1: the server has taken the snapshot, 2: we have begun to read it */
mtype listed[UIDS];
bool list_taken;

byte queued[UIDS]; /* a bind in the queue: 1 + node */
byte asked[UIDS];  /* a bind that waits for a GET of its pod */
mtype got[UIDS];   /* what the GET showed */

bool flight[UIDS]; /* an outcome will come */
bool waits[UIDS];  /* a call hangs on the flight */

mtype = { NOTHING, TO_BIND, TO_CHECK };
mtype effect[UIDS] = NOTHING;
bool again[UIDS]; /* the row was there before this bind */

mtype call[UIDS] = NOTHING; /* the outbox */
byte call_gpu[UIDS];
bool maybe_sent[UIDS];

mtype = { SAID_BOUND, SAID_VOID, SAID_UNKNOWN };
mtype outcome[UIDS] = NOTHING;
bool handled[UIDS];          /* in this batch */
mtype landed[UIDS] = NOTHING; /* to be answered after it */

/* --- kube-scheduler --- */

byte tries[UIDS];
bool promised[UIDS]; /* we have answered success */

byte losses, crashes, bad_commits, relists;
byte i; /* for loops inside atomic steps */

#define FOR_PODS for (i : 0 .. UIDS - 1)

/* ---------------------------------------------------------------- what must hold */

/* The charges of the API server's pods: at most one pod on a GPU. */
#define DOUBLE(a, b) (RUNS(a) && RUNS(b) && api_gpu[a] == api_gpu[b])
#define DOUBLE_ROW(a, b) (IS_GRANT(disk[a]) && IS_GRANT(disk[b]) && GPU(disk[a]) == GPU(disk[b]))

/* Every pod that runs with a GPU of ours is in the ledger, on that GPU. */
#define COVERED(u) (!RUNS(u) || (disk[u] != FREE && GPU(disk[u]) == api_gpu[u]))

/* An answered success was one. */
#define KEPT_WORD(u) (!promised[u] || RUNS(u) || api[u] == GONE)

/* Readers never see room that the disk does not have. */
#define HONEST(u) (disk[u] == FREE || view[u] != FREE)

proctype Invariants()
{
end:
    do
    :: DOUBLE(0, 1) -> assert(false)
    :: DOUBLE_ROW(0, 1) -> assert(false)
#if UIDS > 2
    :: DOUBLE(1, 2) || DOUBLE(0, 2) -> assert(false)
    :: DOUBLE_ROW(1, 2) || DOUBLE_ROW(0, 2) -> assert(false)
    :: !COVERED(2) || !KEPT_WORD(2) || !HONEST(2) -> assert(false)
#endif
    :: !COVERED(0) || !COVERED(1) -> assert(false)
    :: !KEPT_WORD(0) || !KEPT_WORD(1) -> assert(false)
    :: !HONEST(0) || !HONEST(1) -> assert(false)
    :: timeout -> /* nothing can move any more: everything has to be settled */
       atomic {
           FOR_PODS {
               assert(!IS_RESERVED(disk[i]));           /* every reservation has ended */
               assert(api[i] != GONE || disk[i] == FREE); /* no share stays for ever */
               /* every bind was answered */
               assert(!flight[i] && !waits[i] && queued[i] == 0 && asked[i] == 0);
               assert(row[i] == disk[i] && view[i] == disk[i]) /* I3 */
           }
           break
       }
    od
}

/* ---------------------------------------------------------------- kube-scheduler */

#define TAKEN(rows, gpu) \
    (GPU(rows[0]) == (gpu) && rows[0] != FREE || GPU(rows[1]) == (gpu) && rows[1] != FREE || \
     UIDS > 2 && GPU(rows[UIDS - 1]) == (gpu) && rows[UIDS - 1] != FREE)

/* filter: the node of the reservation alone, else a node with room, by the snapshot. */
#define FITS(u, gpu) \
    ((IS_RESERVED(view[u]) && NODE(GPU(view[u])) == NODE(gpu)) || \
     (view[u] == FREE && !TAKEN(view, gpu)))

/* It gives up at httpTimeout and asks again: the last bind may still be on its way. */
inline ask(u, gpu)
{
    d_step {
        api[u] == PENDING && queued[u] == 0 && asked[u] == 0 && tries[u] < TRIES && ready &&
        FITS(u, gpu);
        printf("scheduler: bind pod %d to node %d\n", u, NODE(gpu));
        tries[u]++;
        queued[u] = 1 + NODE(gpu)
    }
}

proctype Scheduler()
{
end:
    do
    :: ask(0, 0)
    :: ask(1, 0)
#if NODES > 1
    :: ask(0, ALL - 1)
    :: ask(1, ALL - 1)
#endif
#if UIDS > 2
    :: ask(2, 0)
#endif
    od
}

inline answer(u, success)
{
    printf("answer: pod %d: %d\n", u, success);
    promised[u] = promised[u] || success
}

/* ---------------------------------------------------------------- the writer */

inline refuse_bind(u)
{
    answer(u, false)
}

inline launch(u)
{
    flight[u] = true;
    waits[u] = true;
    effect[u] = TO_BIND /* twin */
}

/* What a lost batch left comes first: until it is written no bind is decided. */
#ifdef BINDS_PASS_KEPT_NEWS
#define BINDS_WAIT_FOR_NEWS false
#else
#define BINDS_WAIT_FOR_NEWS (kept[0] || kept[1] || kept[UIDS - 1])
#endif

/* handle_bind(): the pod is known, n is the node that is asked for. */
inline bind_known(u, n)
{
    if
    :: flight[u] && NODE(call_gpu[u]) == n -> waits[u] = true /* flight_join() */
    :: flight[u] && NODE(call_gpu[u]) != n -> refuse_bind(u) /* elsewhere */
    :: !flight[u] && KNOWN_AS_BOUND(u) && NODE(api_gpu[u]) != n -> refuse_bind(u) /* changed */
    :: !flight[u] && KNOWN_AS_BOUND(u) && NODE(api_gpu[u]) == n && !IS_RESERVED(row[u]) ->
       answer(u, true) /* the same bind again */
    :: !flight[u] && !(KNOWN_AS_BOUND(u) && (NODE(api_gpu[u]) != n || !IS_RESERVED(row[u]))) ->
       if /* COMMAND_RESERVE */
       :: row[u] != FREE && NODE(GPU(row[u])) != n -> refuse_bind(u) /* VERDICT_ELSEWHERE */
       :: row[u] != FREE && NODE(GPU(row[u])) == n -> /* VERDICT_SAME */
          again[u] = true;
          launch(u);
          call_gpu[u] = GPU(row[u]) /* twin */
       :: row[u] == FREE && !TAKEN(row, n * GPUS) -> /* VERDICT_OK */
          row[u] = RESERVED(n * GPUS);
          again[u] = false; /* twin */
          launch(u);
          call_gpu[u] = n * GPUS
#if GPUS > 1
       :: row[u] == FREE && !TAKEN(row, n * GPUS + 1) ->
          row[u] = RESERVED(n * GPUS + 1);
          again[u] = false;
          launch(u);
          call_gpu[u] = n * GPUS + 1
#endif
       :: row[u] == FREE && TAKEN(row, n * GPUS) && TAKEN(row, n * GPUS + GPUS - 1) ->
          refuse_bind(u) /* VERDICT_REFUSED */
       fi
    fi
}

inline handle_bind(u)
{
    atomic {
        phase == COLLECT && batched < BATCH && queued[u] > 0;
        printf("writer: handle_bind of pod %d\n", u);
        if
        :: !ready || BINDS_WAIT_FOR_NEWS -> refuse_bind(u)
        :: ready && !BINDS_WAIT_FOR_NEWS && !KNOWN(u) -> asked[u] = queued[u] /* outbox_fetch() */
        :: ready && !BINDS_WAIT_FOR_NEWS && KNOWN(u) ->
           bind_known(u, (queued[u] - 1));
           batched++
        fi;
        queued[u] = 0
    }
}

/*
 * A fetched pod is judged by resourceVersion: a list whose snapshot is older spares it.  Two ways
 * to judge it by the epoch in which the list begins for the writer were wrong.
 */
#if defined(GET_IS_OF_THIS_LIST) || defined(GET_IS_OF_NEXT_LIST)
#define EPOCHS
#endif
#ifdef GET_IS_OF_NEXT_LIST
#define GET_MARK 2
#else
#define GET_MARK 1
#endif

inline handle_fetched(u)
{
    atomic {
        phase == COLLECT && batched < BATCH && got[u] != 0;
        printf("writer: handle_fetched of pod %d: %e\n", u, got[u]);
        if
        :: EXISTS(got[u]) && ready && !BINDS_WAIT_FOR_NEWS -> /* twin */
           record[u] = got[u];
           mark[u] = GET_MARK; /* twin */
           bind_known(u, (asked[u] - 1))
        :: else -> refuse_bind(u)
        fi;
        asked[u] = 0;
        got[u] = 0;
        batched++ /* twin */
    }
}


/* handle_outcome() */
inline handle_outcome(u)
{
    d_step {
        phase == COLLECT && batched < BATCH && outcome[u] != NOTHING && !handled[u];
        printf("writer: handle_outcome of pod %d: %e\n", u, outcome[u]);
        handled[u] = true;
        landed[u] = outcome[u];
        if
        :: outcome[u] == SAID_BOUND && IS_RESERVED(row[u]) -> row[u] = GRANTED(GPU(row[u]))
        :: outcome[u] == SAID_VOID && IS_RESERVED(row[u]) -> row[u] = FREE
#ifdef UNKNOWN_IS_RELEASED
        :: outcome[u] == SAID_UNKNOWN && IS_RESERVED(row[u]) -> row[u] = FREE
#endif
        :: else /* COMMAND_DOUBT changes no room */
        fi;
        batched++
    }
}

/* pods_put(), pods_remove() */
#define remember(u, state) record[u] = state; mark[u] = (state == ABSENT -> 0 : 1)

/* reconcile_pod(), reconcile_gone() */
inline reconcile(u, state)
{
    if
    :: state == GONE || state == ABSENT ->
       remember(u, ABSENT);
       row[u] = FREE
    :: EXISTS(state) ->
       remember(u, state);
       if
       :: (state == BOUND || state == TERMINATING) && row[u] == FREE ->
          row[u] = OBSERVED(api_gpu[u]) /* COMMAND_OBSERVE */
       :: (state == BOUND || state == TERMINATING) && IS_RESERVED(row[u]) &&
          NODE(GPU(row[u])) == NODE(api_gpu[u]) ->
          row[u] = GRANTED(GPU(row[u])) /* COMMAND_CONFIRM; a row wins over an annotation */
       :: (state == BOUND || state == TERMINATING) && row[u] != FREE &&
          NODE(GPU(row[u])) != NODE(api_gpu[u]) ->
          row[u] = OBSERVED(api_gpu[u]) /* COMMAND_RELEASE "elsewhere", then OBSERVE */
#ifdef UNBOUND_IS_RELEASED
       :: state == PENDING && IS_RESERVED(row[u]) && !flight[u] -> row[u] = FREE
#endif
       :: else /* an unbound pod says nothing */
       fi;
#ifdef DELETION_TIMESTAMP_RELEASES
       if
       :: state == TERMINATING -> row[u] = FREE
       :: else
       fi
#endif
    fi
}

/* The watch, in order, as late as it likes. */
inline handle_pod(u)
{
    d_step {
        phase == COLLECT && batched < BATCH && listing == 0 && ready && seen[u] != api[u] &&
        taken[u] == 0;
        if
        :: seen[u] == ABSENT -> taken[u] = PENDING
        :: (seen[u] == PENDING || seen[u] == LEAVING) && api_gpu[u] != NONE -> taken[u] = BOUND
        :: seen[u] == BOUND || seen[u] == TERMINATING ||
           ((seen[u] == PENDING || seen[u] == LEAVING) && api_gpu[u] == NONE) -> taken[u] = api[u]
        fi;
        printf("writer: handle_pod of pod %d: %e\n", u, taken[u]);
        reconcile(u, taken[u]);
        batched++
    }
}

#ifdef FLIGHTS_SURVIVE_LISTS
#define RELEASES(u) (!flight[u])
#else
#define RELEASES(u) true
#endif

/* begin_list(), end_list(): the snapshot was taken when the server liked. */
inline handle_list()
{
    atomic {
        phase == COLLECT && batched == 0 && listing == 1;
        printf("writer: begin_list\n");
#ifdef EPOCHS
        FOR_PODS { mark[i] = (mark[i] > 0 -> mark[i] - 1 : 0) };
#endif
        listing = 2
    }
}

inline handle_list_end()
{
    d_step {
        phase == COLLECT && batched == 0 && listing == 2;
        printf("writer: end_list\n");
        FOR_PODS {
            if
            :: EXISTS(listed[i]) -> reconcile(i, listed[i])
            :: else ->
               record[i] = (mark[i] == 0 -> ABSENT : record[i]); /* pods_sweep() */
               if
               :: record[i] == ABSENT && RELEASES(i) -> row[i] = FREE /* release_orphans() */
               :: else
               fi
            fi
        };
        list_taken = true;
        batched = BATCH
    }
}

/* "for 90 s": no POST of it can land any more, since the API server gives up after 60. */
#ifdef NO_TIMING
#define DOUBT_IS_OLD(u) true
#else
#define NO_LATE(u, gpu) (late[u].on[gpu] == 0)
#define DOUBT_IS_OLD(u) (NO_LATE(u, 0) && NO_LATE(u, ALL - 1))
#endif

/* tick_doubts() */
inline expire_doubt(u)
{
    d_step {
        phase == COLLECT && batched < BATCH && ready && IS_RESERVED(row[u]) && !flight[u] &&
        outcome[u] == NOTHING && DOUBT_IS_OLD(u);
        printf("writer: expire_doubt of pod %d\n", u);
#ifdef EXPIRY_DOES_NOT_ASK
        row[u] = FREE;
#else
        flight[u] = true;
        waits[u] = false;
        call_gpu[u] = GPU(row[u]);
        effect[u] = TO_CHECK;
#endif
        batched++
    }
}

/* act() */
inline act()
{
    FOR_PODS {
        if
        :: effect[i] != NOTHING ->
           call[i] = effect[i];
#ifdef DOUBT_OF_THIS_CALL_ONLY
           maybe_sent[i] = false;
#else
           maybe_sent[i] = again[i];
#endif
           again[i] = false;
           effect[i] = NOTHING
        :: else
        fi
    }
}

/* answer_landed() */
inline reply()
{
    FOR_PODS {
        if
        :: landed[i] != NOTHING ->
           if
           :: waits[i] -> answer(i, landed[i] == SAID_BOUND)
           :: else
           fi;
           flight[i] = false;
           waits[i] = false;
           landed[i] = NOTHING
        :: else
        fi
    }
}

/* batch_end(), first half: filter sees less room before the COMMIT, never more. */
inline publish_less()
{
    d_step {
        phase == COLLECT && batched > 0;
        FOR_PODS {
#ifdef PUBLISH_BEFORE_COMMIT
            view[i] = row[i]
#else
            view[i] = (row[i] == FREE -> view[i] : row[i])
#endif
        };
#ifdef ACT_BEFORE_COMMIT
        act();
#endif
        phase = COMMIT
    }
}

/*
 * COMMIT -> publish more room -> act -> reply.  One step here: what comes after the COMMIT is lost
 * in a crash, and nobody else writes what it writes.
 */
inline commit()
{
    d_step {
        phase == COMMIT;
        printf("writer: COMMIT; rows %d %d\n", row[0], row[1]);
        FOR_PODS {
            disk[i] = row[i];
            view[i] = row[i];
            phantom[i] = FREE;
            kept[i] = kept[i] && taken[i] == 0 && !handled[i];
            seen[i] = (taken[i] != 0 -> taken[i] : seen[i]);
            seen[i] = (list_taken -> listed[i] : seen[i]);
            taken[i] = 0;
            outcome[i] = (handled[i] -> NOTHING : outcome[i]);
            handled[i] = false;
            listed[i] = (list_taken -> ABSENT : listed[i])
        };
        haunted = false;
        listing = (list_taken -> 0 : listing);
        ready = ready || list_taken;
        list_taken = false;
        act();
        reply();
        batched = 0;
        phase = COLLECT
    }
}

/* undo(), act_lost(), keep_or_refuse(); answer_landed() all the same. */
inline commit_fails()
{
    d_step {
        phase == COMMIT && bad_commits < BAD_COMMITS;
        printf("writer: COMMIT fails; rows %d %d\n", row[0], row[1]);
        bad_commits++;
        FOR_PODS {
            phantom[i] = row[i];
            row[i] = disk[i];
            view[i] = disk[i];
            kept[i] = kept[i] || handled[i] || taken[i] != 0;
            handled[i] = false;
            taken[i] = 0;
            if
            :: effect[i] != NOTHING ->
               if
               :: waits[i] -> refuse_bind(i)
               :: else
               fi;
               effect[i] = NOTHING;
               again[i] = false;
               flight[i] = false;
               waits[i] = false
            :: else
            fi
        };
        list_taken = false;
        haunted = true;
        reply();
        batched = 0;
        phase = COLLECT
    }
}

proctype Writer()
{
end:
    do
    :: handle_bind(0)
    :: handle_bind(1)
    :: handle_fetched(0)
    :: handle_fetched(1)
    :: handle_outcome(0)
    :: handle_outcome(1)
    :: handle_pod(0)
    :: handle_pod(1)
    :: expire_doubt(0)
    :: expire_doubt(1)
#if UIDS > 2
    :: handle_bind(2)
    :: handle_fetched(2)
    :: handle_outcome(2)
    :: handle_pod(2)
    :: expire_doubt(2)
#endif
    :: handle_list()
    :: handle_list_end()
    :: publish_less()
    :: commit()
    :: commit_fails()
    od
}

/* ---------------------------------------------------------------- the API server */

/* Who bears the name now: the third pod, once the first is gone. */
#define BEARER(u) (UIDS > 2 && NAME(u) == 0 -> (api[0] == GONE -> UIDS - 1 : 0) : (u))

#define FOUND(u) EXISTS(api[BEARER(u)])
#ifdef NO_UID_CHECK
#define TAKES(u) (api[BEARER(u)] == PENDING)
#else
#define TAKES(u) (BEARER(u) == (u) && api[u] == PENDING)
#endif
#define OURS(u) (BEARER(u) == (u) && RUNS(u) && NODE(api_gpu[u]) == NODE(call_gpu[u]))

/* The whole Binding is one write: node and annotation. */
inline take_binding(u, gpu)
{
    api[BEARER(u)] = BOUND;
    api_gpu[BEARER(u)] = gpu;
    printf("api server: pod %d is bound to GPU %d\n", BEARER(u), gpu)
}

inline late_post(u, gpu)
{
    d_step {
        late[u].on[gpu] > 0;
        late[u].on[gpu]--;
        printf("api server: a late Binding of pod %d to GPU %d arrives\n", u, gpu);
        if
        :: TAKES(u) -> take_binding(u, gpu)
        :: else
        fi
    }
}

inline drop_post(u, gpu)
{
    d_step {
        late[u].on[gpu] > 0;
        printf("network: a late Binding of pod %d to GPU %d is lost\n", u, gpu);
        late[u].on[gpu]--
    }
}

inline live(u)
{
    atomic {
        if
        :: api[u] == PENDING -> api[u] = LEAVING
        :: api[u] == BOUND -> api[u] = TERMINATING
        :: EXISTS(api[u]) -> api[u] = GONE
        fi;
        printf("api server: pod %d is %e\n", u, api[u])
    }
}

proctype ApiServer()
{
end:
    do
    :: late_post(0, 0)
    :: late_post(1, 0)
    :: drop_post(0, 0)
    :: drop_post(1, 0)
#if NODES * GPUS > 1
    :: late_post(0, 1)
    :: late_post(1, 1)
    :: drop_post(0, 1)
    :: drop_post(1, 1)
#endif
#if UIDS > 2
    :: late_post(2, 0)
    :: drop_post(2, 0)
    :: live(2)
    :: atomic { api[0] == GONE && api[2] == ABSENT -> api[2] = PENDING }
#endif
    :: live(0)
#if ENDS > 1
    :: live(1)
#endif
    od
}

/* ---------------------------------------------------------------- the outbox */

inline ends(u, what)
{
    printf("outbox: pod %d: %e\n", u, what);
    outcome[u] = what;
    call[u] = NOTHING;
    maybe_sent[u] = false
}

inline definite(u)
{
    if
    :: maybe_sent[u] -> ends(u, SAID_UNKNOWN)
    :: else -> ends(u, SAID_VOID)
    fi
}

/* One POST whose answer comes. */
inline post(u)
{
    d_step {
        call[u] == TO_BIND;
        if
        :: !FOUND(u) -> ends(u, SAID_VOID) /* 404 */
        :: FOUND(u) && TAKES(u) -> take_binding(u, call_gpu[u]); ends(u, SAID_BOUND) /* 201 */
        :: FOUND(u) && !TAKES(u) -> call[u] = TO_CHECK /* 409: start_check() */
        fi
    }
}

inline post_and_lose_the_answer(u)
{
    d_step {
        call[u] == TO_BIND && losses < LOSSES && TAKES(u);
        losses++;
        printf("outbox: POST of pod %d; its answer is lost\n", u);
        take_binding(u, call_gpu[u]);
        maybe_sent[u] = true
    }
}

inline post_late(u)
{
    d_step {
        call[u] == TO_BIND && losses < LOSSES;
        losses++;
        printf("outbox: POST of pod %d; it is late\n", u);
        late[u].on[call_gpu[u]]++;
        maybe_sent[u] = true
    }
}

/* The deadline; also 400, 401, 403, 422, and a server that cannot be reached at all. */
inline give_up_post(u)
{
    d_step { call[u] == TO_BIND; definite(u) }
}

/* check_pod() */
inline check_pod(u)
{
    d_step {
        call[u] == TO_CHECK;
        if
        :: OURS(u) -> ends(u, SAID_BOUND)
        :: else -> ends(u, SAID_VOID)
        fi
    }
}

inline give_up_check(u)
{
    d_step { call[u] == TO_CHECK && losses < LOSSES; losses++; ends(u, SAID_UNKNOWN) }
}

inline fetch(u)
{
    d_step {
        asked[u] > 0 && got[u] == 0;
        if
        :: BEARER(u) == u && api[u] != ABSENT -> got[u] = api[u]
        :: else -> got[u] = GONE
        fi
    }
}


proctype Outbox()
{
end:
    do
    :: post(0)
    :: post(1)
    :: post_and_lose_the_answer(0)
    :: post_and_lose_the_answer(1)
    :: post_late(0)
    :: post_late(1)
    :: give_up_post(0)
    :: give_up_post(1)
    :: check_pod(0)
    :: check_pod(1)
    :: give_up_check(0)
    :: give_up_check(1)
    :: fetch(0)
    :: fetch(1)
#if UIDS > 2
    :: post(2)
    :: post_and_lose_the_answer(2)
    :: post_late(2)
    :: give_up_post(2)
    :: check_pod(2)
    :: give_up_check(2)
    :: fetch(2)
#endif
    od
}

/* ---------------------------------------------------------------- the watcher */

/* A list: at start, and after 410.  The server takes its snapshot; it arrives later. */
proctype Watcher()
{
end:
    do
    :: d_step {
           listing == 0 && phase == COLLECT && batched == 0 && (!ready || relists < RELISTS);
           relists = (ready -> relists + 1 : relists);
           printf("api server: takes a snapshot for a list\n");
           FOR_PODS {
#ifndef EPOCHS
               mark[i] = (mark[i] > 0 -> mark[i] - 1 : 0);
#endif
               listed[i] = api[i]
           };
           listing = 1
       }
    od
}

/* ---------------------------------------------------------------- kill -9 */

/* Everything in memory is gone; calls on their way to the API server are not. */
inline forget(u)
{
    row[u] = disk[u];
    view[u] = disk[u];
    phantom[u] = FREE;
    kept[u] = false;
    remember(u, ABSENT);
    seen[u] = ABSENT;
    taken[u] = 0;
    queued[u] = 0;
    asked[u] = 0;
    got[u] = 0;
    flight[u] = false;
    waits[u] = false;
    effect[u] = NOTHING;
    again[u] = false;
    call[u] = NOTHING;
    call_gpu[u] = 0;
    maybe_sent[u] = false;
    outcome[u] = NOTHING;
    handled[u] = false;
    landed[u] = NOTHING
}

#define OTHER(gpu) (ALL - 1 - (gpu))

proctype Crash()
{
end:
    do
    :: atomic {
           crashes < CRASHES;
           crashes++;
           printf("kill -9\n");
           if
           :: haunted -> FOR_PODS { disk[i] = phantom[i] }
           :: true
           fi;
#ifdef RESERVES_ANEW_AFTER_RESTART
           FOR_PODS {
               if
               :: IS_RESERVED(disk[i]) && !TAKEN(disk, OTHER(GPU(disk[i]))) ->
                  disk[i] = RESERVED(OTHER(GPU(disk[i])))
               :: else
               fi
           };
#endif
           FOR_PODS { forget(i) };
           haunted = false;
           batched = 0;
           ready = false;
           listing = 0;
           list_taken = false;
           phase = COLLECT
       }
    od
}

init
{
    atomic {
        FOR_PODS {
            api[i] = (i < 2 -> PENDING : ABSENT);
            api_gpu[i] = NONE;
            seen[i] = api[i];
            remember(i, api[i]);
            listed[i] = ABSENT
        };
        run Invariants();
        run Scheduler();
        run Writer();
        run ApiServer();
        run Outbox();
        run Watcher();
        run Crash()
    }
}
