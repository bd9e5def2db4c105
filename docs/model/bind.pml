/*
 * bind.pml - one milligpud between kube-scheduler and the API server.
 *
 * README.md says which function each step stands for, and why what is left out may be left out.
 * Every pod asks for a whole GPU: a GPU has room for one. A "row" is an allocation in the ledger,
 * a "call" is a Binding of ours in the outbox, "late" POSTs are in the network or inside the API
 * server and may take effect after any time, also after milligpud died.
 *
 * Versions are counted per pod: each write to an unbound pod makes the next one, and the version in
 * which it is bound is the last that matters. A Binding names the version that was evaluated, and
 * applies to that version only. A list is "not older than version v" if it shows the pod's v or a
 * later one, or was taken after the pod was gone.
 *
 * "twin" marks a line that is expanded for several callers and pods, some of which never reach it:
 * the first two pods are never fetched.
 *
 * Bounds (-D): UIDS pods (the third has the name of the first), NODES x GPUS, TRIES binds per pod
 * and one more while it is in doubt, LOSSES messages lost or late, MOVES writes of others,
 * CONFLICTS (409s for another reason than the pod), CRASHES, LOST_LEDGERS among them, BAD_COMMITS,
 * RELISTS, BATCH messages per COMMIT, ENDS pods that may end among the first two.
 * Faults (-D): README.md lists them; each must produce a counterexample.
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
#ifndef MOVES
#define MOVES 1
#endif
#ifndef CONFLICTS
#define CONFLICTS 0
#endif
#ifndef LOST_LEDGERS
#define LOST_LEDGERS 0
#endif

#define ALL (NODES * GPUS)
#define NODE(g) ((g) / GPUS)
#define NAME(u) ((u) % 2)
#define NONE 15

/* A row in one byte; an adopted one is bound, and may be one too many on its GPU. */
#define FREE 0
#define RESERVED(gpu) (1 + (gpu))
#define GRANTED(gpu) (3 + (gpu))
#define ADOPTED(gpu) (5 + (gpu))
#define IS_RESERVED(row) ((row) == 1 || (row) == 2)
#define IS_GRANT(row) ((row) > 0 && (row) < 5)
#define GPU(row) (((row) - 1) % 2)

/* --- the API server --- */

/* LEAVING: unbound, with a deletion timestamp. GONE: ended or deleted. */
mtype = { ABSENT, PENDING, LEAVING, BOUND, TERMINATING, GONE };
mtype api[UIDS];
byte api_gpu[UIDS]; /* the annotation; stays readable after the end */
byte ver[UIDS];     /* the last version in which it is unbound; 0: not created yet */

/* Late Bindings that name the current version. Those of earlier versions can never take effect and
   are left out. */
typedef per_gpu { bool on[ALL] };
per_gpu late[UIDS];

#define RUNS(u) (api[u] == BOUND || api[u] == TERMINATING)
#define EXISTS(state) ((state) != ABSENT && (state) != GONE)
#define UNBOUND(state) ((state) == PENDING || (state) == LEAVING)

/* --- the ledger --- */

byte row[UIDS];     /* in the writer's memory */
byte disk[UIDS];
byte view[UIDS];    /* in the snapshot that filter reads */
byte phantom[UIDS]; /* a batch whose COMMIT failed; may be on disk after a crash */
bool phantom_on_disk;

/* Of a reservation: the highest version that any of its Bindings named; otherwise 0. */
byte rv[UIDS];
byte disk_rv[UIDS];
byte phantom_rv[UIDS];

/* --- the daemon --- */

mtype = { COLLECT, COMMIT };
mtype phase = COLLECT;
byte batched;
bool ready = true;
bool kept_news[UIDS]; /* messages of a lost batch wait to be tried again, in order */
bool kept_outcome[UIDS];

mtype record[UIDS]; /* the pod cache: by the watch or a GET */
byte record_ver[UIDS];
#define KNOWN(u) EXISTS(record[u])
#define KNOWN_AS_BOUND(u) (record[u] == BOUND || record[u] == TERMINATING)
mtype seen[UIDS];   /* how far the watch has come */
byte seen_ver[UIDS];
mtype taken[UIDS];  /* what it delivered in this batch */
byte taken_ver[UIDS];
bool listing;       /* the API server has taken the snapshot */
mtype listed[UIDS];
byte listed_ver[UIDS];
bool list_taken;
bool new_ledger;    /* because the old one is lost */

byte queued[UIDS]; /* a bind in the queue: 1 + node */
byte asked[UIDS];  /* a bind that waits for a GET of its pod */
mtype got[UIDS];   /* what the GET showed */
byte got_ver[UIDS];

bool inflight[UIDS]; /* an outcome will come */
bool waits[UIDS];  /* a bind call waits for the outcome */

mtype = { NOTHING, TO_BIND, TO_CHECK };
mtype action[UIDS] = NOTHING;
bool again[UIDS]; /* the row was there before this bind */

mtype call[UIDS] = NOTHING; /* the outbox */
byte call_gpu[UIDS];
byte call_ver[UIDS];
bool maybe_sent[UIDS];

/* SAID_MOVED: unbound, in a later version than the Binding named. */
mtype = { SAID_BOUND, SAID_VOID, SAID_UNKNOWN, SAID_MOVED };
mtype outcome[UIDS] = NOTHING;
byte moved_to[UIDS];
bool handled[UIDS];          /* in this batch */
mtype landed[UIDS] = NOTHING; /* to be answered after this batch */

/* --- kube-scheduler --- */

byte tries[UIDS];
bool promised[UIDS]; /* we have answered success */

#define NEWS_KEPT (kept_news[0] || kept_news[1] || kept_news[UIDS - 1])
#define OUTCOME_KEPT (kept_outcome[0] || kept_outcome[1] || kept_outcome[UIDS - 1])

/* Messages of a lost batch come first: until they are written, no bind is decided. */
#ifdef BINDS_PASS_KEPT_NEWS
#define BINDS_WAIT_FOR_NEWS false
#else
#define BINDS_WAIT_FOR_NEWS (NEWS_KEPT || OUTCOME_KEPT)
#endif

byte losses, moves, conflicts, crashes, lost_ledgers, bad_commits, relists;
byte i; /* for loops inside atomic steps */

#define FOR_PODS for (i : 0 .. UIDS - 1)

/* ---------------------------------------------------------------- what must hold */

/* Two running pods, or two grants on disk, on one GPU. */
#define DOUBLE(a, b) (RUNS(a) && RUNS(b) && api_gpu[a] == api_gpu[b])
#define DOUBLE_ROW(a, b) (IS_GRANT(disk[a]) && IS_GRANT(disk[b]) && GPU(disk[a]) == GPU(disk[b]))

/* Every running pod has a row on its GPU, except until a new ledger has listed. */
#define COVERED(u) (!RUNS(u) || new_ledger || (disk[u] != FREE && GPU(disk[u]) == api_gpu[u]))

/* A pod whose bind was answered with success runs or has ended. */
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
    :: timeout -> /* nothing can move any more: everything must have ended */
       atomic {
           FOR_PODS {
               assert(!IS_RESERVED(disk[i]));           /* every reservation has ended */
               assert(api[i] != GONE || disk[i] == FREE); /* no share stays forever */
               /* every bind was answered */
               assert(!inflight[i] && !waits[i] && queued[i] == 0 && asked[i] == 0);
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

/* filter, by the snapshot: only the reservation's node, otherwise any node with room. */
#define FITS(u, gpu) \
    ((IS_RESERVED(view[u]) && NODE(GPU(view[u])) == NODE(gpu)) || \
     (view[u] == FREE && !TAKEN(view, gpu)))

/*
 * It gives up at httpTimeout and asks again, while the last bind may still be on its way. It goes
 * on forever while the pod is unbound; the model asks TRIES times, once more if a reservation
 * waits for it, and again after a kill or a lost batch.
 */
#define IN_DOUBT(u) (IS_RESERVED(disk[u]) && IS_RESERVED(row[u]) && !inflight[u] && outcome[u] == NOTHING)
#define ASKS(u) (tries[u] < TRIES || (tries[u] == TRIES && IN_DOUBT(u) && !BINDS_WAIT_FOR_NEWS))
inline ask_for_ever_again()
{
    FOR_PODS { tries[i] = (tries[i] > TRIES -> TRIES : tries[i]) }
}

inline ask(u, gpu)
{
    d_step {
        api[u] == PENDING && queued[u] == 0 && asked[u] == 0 && ready && FITS(u, gpu) && ASKS(u);
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

/* The row has the evaluated version and is on disk before the POST: writer_run_actions(). */
inline send_binding(u, gpu, version, sent_before)
{
    inflight[u] = true;
    waits[u] = true;
    row[u] = RESERVED(gpu); /* twin */
    rv[u] = version; /* twin */
    again[u] = sent_before; /* twin */
    call_gpu[u] = gpu; /* twin */
    action[u] = TO_BIND /* twin */
}

/* Seen unbound in a later version than any of its Bindings named: none can take effect. */
#define IS_VOID(u) (UNBOUND(record[u]) && record_ver[u] > rv[u])

inline void_row(u)
{
    row[u] = FREE; /* twin */
    rv[u] = 0
}

/* COMMAND_RESERVE, on any GPU of node n with room. */
inline reserve_anew(u, n)
{
    if
    :: !TAKEN(row, n * GPUS) -> /* VERDICT_OK */
       send_binding(u, n * GPUS, record_ver[u], false) /* twin */
#if GPUS > 1
    :: !TAKEN(row, n * GPUS + 1) -> send_binding(u, n * GPUS + 1, record_ver[u], false) /* twin */
#endif
    :: TAKEN(row, n * GPUS) && TAKEN(row, n * GPUS + GPUS - 1) -> refuse_bind(u) /* VERDICT_REFUSED */
    fi
}

/* bind_pod(): the pod is known, n is the requested node. */
inline bind_known(u, n)
{
    if
    :: inflight[u] && NODE(call_gpu[u]) == n -> waits[u] = true /* inflight_join() */
    :: inflight[u] && NODE(call_gpu[u]) != n -> refuse_bind(u) /* elsewhere */
    :: !inflight[u] && KNOWN_AS_BOUND(u) && NODE(api_gpu[u]) != n -> refuse_bind(u) /* changed */
    :: !inflight[u] && KNOWN_AS_BOUND(u) && NODE(api_gpu[u]) == n && !IS_RESERVED(row[u]) ->
       answer(u, true) /* the same bind again */
    :: !inflight[u] && !(KNOWN_AS_BOUND(u) && (NODE(api_gpu[u]) != n || !IS_RESERVED(row[u]))) ->
       if
       :: IS_RESERVED(row[u]) && IS_VOID(u) -> void_row(u) /* twin */
       :: else
       fi;
       if /* COMMAND_RESERVE */
       :: row[u] != FREE && NODE(GPU(row[u])) != n -> refuse_bind(u) /* VERDICT_ELSEWHERE */ /* twin */
       :: IS_RESERVED(row[u]) && NODE(GPU(row[u])) == n -> /* VERDICT_SAME: the same bytes */
          send_binding(u, GPU(row[u]), rv[u], true) /* twin */
       :: row[u] != FREE && !IS_RESERVED(row[u]) && NODE(GPU(row[u])) == n ->
          answer(u, true) /* confirmed by the outcome, not yet by the watch */
       :: row[u] == FREE -> reserve_anew(u, n)
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

inline handle_fetched(u)
{
    atomic {
        phase == COLLECT && batched < BATCH && got[u] != 0;
        printf("writer: handle_fetched of pod %d: %e\n", u, got[u]);
        if
        :: EXISTS(got[u]) && ready && !BINDS_WAIT_FOR_NEWS -> /* twin */
           record[u] = (KNOWN(u) -> record[u] : got[u]);
           record_ver[u] = (record_ver[u] > got_ver[u] -> record_ver[u] : got_ver[u]); /* twin */
           bind_known(u, (asked[u] - 1))
        :: else -> refuse_bind(u)
        fi;
        asked[u] = 0;
        got[u] = 0;
        got_ver[u] = 0; /* twin */
        batched++ /* twin */
    }
}


/*
 * handle_moved(): the request may have changed, too. The new version is on disk before its POST.
 */
inline evaluate_again(u)
{
    record[u] = (KNOWN_AS_BOUND(u) -> record[u] : PENDING);
    record_ver[u] = (record_ver[u] > moved_to[u] -> record_ver[u] : moved_to[u]);
    if
    :: waits[u] && ready && IS_RESERVED(row[u]) && !KNOWN_AS_BOUND(u) -> /* COMMAND_VERSION */
#ifdef SENDS_BEFORE_IT_IS_WRITTEN
       call[u] = TO_BIND;
       call_ver[u] = record_ver[u];
#endif
       send_binding(u, GPU(row[u]), record_ver[u], false);
       landed[u] = NOTHING
    :: IS_RESERVED(row[u]) -> void_row(u) /* no call waits, or it is refused now */
    :: else
    fi
}

/* writer_handle_outcome() */
inline handle_outcome(u)
{
    atomic {
        phase == COLLECT && batched < BATCH && outcome[u] != NOTHING && !handled[u];
        printf("writer: handle_outcome of pod %d: %e\n", u, outcome[u]);
        handled[u] = true;
        landed[u] = outcome[u];
        if
        :: outcome[u] == SAID_BOUND && IS_RESERVED(row[u]) ->
           row[u] = GRANTED(GPU(row[u]));
           rv[u] = 0
        :: outcome[u] == SAID_VOID && IS_RESERVED(row[u]) -> void_row(u)
        :: outcome[u] == SAID_MOVED -> evaluate_again(u)
#ifdef UNKNOWN_IS_RELEASED
        :: outcome[u] == SAID_UNKNOWN && IS_RESERVED(row[u]) -> void_row(u)
#else
        :: outcome[u] == SAID_UNKNOWN && IS_RESERVED(row[u]) && IS_VOID(u) -> void_row(u)
#endif
        :: else /* COMMAND_DOUBT changes no room */
        fi;
        batched++
    }
}

/*
 * writer_answer_bound(): the answer comes before the batch that confirms the row. That batch may be
 * any later one (writer_put_off()), and a kill or a lost COMMIT may come in between.
 */
#ifdef ANSWERS_WHEN_SENT
#define IS_PROVEN(u) (call[u] == TO_BIND)
#else
#define IS_PROVEN(u) (outcome[u] == SAID_BOUND && !handled[u])
#endif

inline answer_bound(u)
{
    d_step {
        phase == COLLECT && batched == 0 && waits[u] && IS_PROVEN(u);
        answer(u, true);
        waits[u] = false
    }
}

/* pod_cache_put(): a record never becomes older. pod_cache_remove(). */
#define OLD_NEWS(u, state, version) \
    (UNBOUND(state) && (KNOWN_AS_BOUND(u) || (KNOWN(u) && (version) < record_ver[u])))

inline forget_pod(u)
{
    record[u] = ABSENT;
    record_ver[u] = 0
}

#ifdef UNBOUND_IS_RELEASED
#define LATER(u, version) true
#else
#define LATER(u, version) ((version) > rv[u])
#endif

/* reconcile_pod(), reconcile_gone() */
inline reconcile(u, state, version)
{
    if
    :: state == GONE || state == ABSENT ->
       forget_pod(u);
       void_row(u)
    :: EXISTS(state) && OLD_NEWS(u, state, version) /* twin */
    :: EXISTS(state) && !OLD_NEWS(u, state, version) ->
       record[u] = state;
       record_ver[u] = version;
       if
       :: !UNBOUND(state) && row[u] == FREE ->
          row[u] = ADOPTED(api_gpu[u]) /* COMMAND_ADOPT */
       :: !UNBOUND(state) && IS_RESERVED(row[u]) && NODE(GPU(row[u])) == NODE(api_gpu[u]) ->
          row[u] = GRANTED(GPU(row[u])); /* COMMAND_CONFIRM; a row wins over an annotation */
          rv[u] = 0
       :: !UNBOUND(state) && row[u] != FREE && NODE(GPU(row[u])) != NODE(api_gpu[u]) ->
          void_row(u);
          row[u] = ADOPTED(api_gpu[u]) /* COMMAND_RELEASE "elsewhere", then ADOPT */
       :: UNBOUND(state) && IS_RESERVED(row[u]) && !inflight[u] && LATER(u, version) ->
          void_row(u) /* evidence that no Binding can take effect */
       :: else /* unbound in a version that may still be bound: no evidence */
       fi;
#ifdef DELETION_TIMESTAMP_RELEASES
       if
       :: state == TERMINATING -> void_row(u)
       :: else
       fi
#endif
    fi
}

/* The watch delivers versions in order, with any delay. */
inline handle_pod(u)
{
    d_step {
        phase == COLLECT && batched < BATCH && !listing && ready && taken[u] == 0 &&
        !OUTCOME_KEPT && (kept_news[u] || !NEWS_KEPT) &&
        (seen[u] != api[u] || seen_ver[u] < ver[u]);
        taken_ver[u] = seen_ver[u];
        if
        :: seen_ver[u] < ver[u] ->
           taken_ver[u]++;
           taken[u] = (api[u] == LEAVING && taken_ver[u] == ver[u] -> LEAVING : PENDING)
        :: seen_ver[u] == ver[u] && UNBOUND(seen[u]) && api_gpu[u] != NONE -> taken[u] = BOUND
        :: else -> taken[u] = api[u]
        fi;
        printf("writer: handle_pod of pod %d: %e, version %d\n", u, taken[u], taken_ver[u]);
        reconcile(u, taken[u], taken_ver[u]);
        batched++
    }
}

#ifdef BINDINGS_SURVIVE_LISTS
#define RELEASES(u) (!inflight[u])
#else
#define RELEASES(u) true
#endif

/* A list says nothing about versions newer than itself. */
#ifdef OLD_LIST_IS_TAKEN
#define NEWER(u, version) false
#else
#ifdef SPARES_WHAT_IS_NOT_NEWER
#define NEWER(u, version) ((version) >= listed_ver[u])
#else
#define NEWER(u, version) ((version) > listed_ver[u])
#endif
#endif

/* writer_begin_list(), writer_end_list(): the snapshot was taken at any earlier time. */
inline handle_list_end()
{
    d_step {
        phase == COLLECT && batched == 0 && listing;
        printf("writer: end_list\n");
        FOR_PODS {
            if
            :: EXISTS(listed[i]) -> reconcile(i, listed[i], listed_ver[i])
            :: else ->
               if /* pod_cache_remove_stale() */
               :: KNOWN(i) && !NEWER(i, record_ver[i]) -> forget_pod(i)
               :: else
               fi;
               if /* release_orphans() */
               :: record[i] == ABSENT && !NEWER(i, rv[i]) && RELEASES(i) -> void_row(i)
               :: else
               fi
            fi
        };
        list_taken = true;
        batched = BATCH
    }
}

/*
 * writer_check_doubts(): time only decides when to ask. A GET that would show nothing new is left
 * out, because it would change nothing.
 */
#ifdef VOID_BY_TIME
#define WORTH_ASKING(u) true
#else
#define WORTH_ASKING(u) (!UNBOUND(api[u]) || ver[u] > rv[u])
#endif

inline ask_about_doubt(u)
{
    d_step {
        phase == COLLECT && batched < BATCH && ready && IS_RESERVED(row[u]) && !inflight[u] &&
        outcome[u] == NOTHING && WORTH_ASKING(u);
        printf("writer: ask_about pod %d\n", u);
#ifdef EXPIRY_DOES_NOT_ASK
        void_row(u);
#else
        inflight[u] = true;
        waits[u] = false;
        call_gpu[u] = GPU(row[u]);
        again[u] = true;
        action[u] = TO_CHECK;
#endif
        batched++
    }
}

/* writer_run_actions() */
inline writer_run_actions()
{
    FOR_PODS {
        if
        :: action[i] != NOTHING ->
           call[i] = action[i];
           call_ver[i] = rv[i];
#ifdef DOUBT_OF_THIS_CALL_ONLY
           maybe_sent[i] = false;
#else
           maybe_sent[i] = again[i];
#endif
           again[i] = false;
           action[i] = NOTHING
        :: else
        fi
    }
}

/* replies_send() */
inline reply()
{
    FOR_PODS {
        if
        :: landed[i] != NOTHING ->
           if /* MOVED and refused: row[i] may be bound by now; or the call came after answer_bound() */
           :: waits[i] -> answer(i, landed[i] == SAID_BOUND)
           :: else
           fi;
           inflight[i] = false;
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
#ifdef ACTIONS_BEFORE_COMMIT
        writer_run_actions();
#endif
        phase = COMMIT
    }
}

/*
 * COMMIT -> publish more room -> actions -> reply. One step here: a crash loses everything after
 * the COMMIT as a whole, and nothing else writes what these write.
 */
inline commit()
{
    d_step {
        phase == COMMIT;
        printf("writer: COMMIT; rows %d %d\n", row[0], row[1]);
        FOR_PODS {
            disk[i] = row[i];
            disk_rv[i] = rv[i];
            view[i] = row[i];
            phantom[i] = FREE;
            phantom_rv[i] = 0;
            kept_news[i] = kept_news[i] && taken[i] == 0;
            kept_outcome[i] = kept_outcome[i] && !handled[i];
            seen[i] = (taken[i] != 0 -> taken[i] : seen[i]);
            seen_ver[i] = (taken[i] != 0 -> taken_ver[i] : seen_ver[i]);
            seen[i] = (list_taken -> listed[i] : seen[i]);
            seen_ver[i] = (list_taken -> listed_ver[i] : seen_ver[i]);
            taken[i] = 0;
            taken_ver[i] = 0;
            outcome[i] = (handled[i] -> NOTHING : outcome[i]);
            moved_to[i] = (handled[i] -> 0 : moved_to[i]);
            handled[i] = false;
            listed[i] = (list_taken -> ABSENT : listed[i]);
            listed_ver[i] = (list_taken -> 0 : listed_ver[i])
        };
        phantom_on_disk = false;
        listing = listing && !list_taken;
        new_ledger = new_ledger && !list_taken;
        ready = ready || list_taken;
        list_taken = false;
        writer_run_actions();
        reply();
        batched = 0;
        phase = COLLECT
    }
}

/* batch_undo(), writer_batch_lost(), writer_drop_actions(); then replies_send(), too. */
inline commit_fails()
{
    d_step {
        phase == COMMIT && bad_commits < BAD_COMMITS;
        printf("writer: COMMIT fails; rows %d %d\n", row[0], row[1]);
        bad_commits++;
        FOR_PODS {
            phantom[i] = row[i];
            phantom_rv[i] = rv[i];
            row[i] = disk[i];
            rv[i] = disk_rv[i];
            view[i] = disk[i];
            kept_news[i] = kept_news[i] || taken[i] != 0;
            kept_outcome[i] = kept_outcome[i] || handled[i];
            handled[i] = false;
            taken[i] = 0;
            taken_ver[i] = 0;
            if
            :: action[i] != NOTHING ->
               if
               :: waits[i] -> refuse_bind(i)
               :: else
               fi;
               action[i] = NOTHING;
               again[i] = false;
               inflight[i] = false;
               waits[i] = false
            :: else
            fi
        };
        list_taken = false;
        phantom_on_disk = true;
        ask_for_ever_again();
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
    :: answer_bound(0)
    :: answer_bound(1)
    :: handle_outcome(0)
    :: handle_outcome(1)
    :: handle_pod(0)
    :: handle_pod(1)
    :: ask_about_doubt(0)
    :: ask_about_doubt(1)
#if UIDS > 2
    :: handle_bind(2)
    :: handle_fetched(2)
    :: answer_bound(2)
    :: handle_outcome(2)
    :: handle_pod(2)
    :: ask_about_doubt(2)
#endif
    :: handle_list_end()
    :: publish_less()
    :: commit()
    :: commit_fails()
    od
}

/* ---------------------------------------------------------------- the API server */

/* The pod that has the name now: the third, once the first is gone. */
#define BEARER(u) (UIDS > 2 && NAME(u) == 0 -> (api[0] == GONE -> UIDS - 1 : 0) : (u))

#define FOUND(u) EXISTS(api[BEARER(u)])
#ifdef NO_UID_CHECK
#define IS_IT(u) true
#else
#define IS_IT(u) (BEARER(u) == (u))
#endif
#define TAKES(u) (IS_IT(u) && api[BEARER(u)] == PENDING)
#ifdef NO_VERSION_CHECK
#define TAKES_CALL(u) TAKES(u)
#else
#define TAKES_CALL(u) (TAKES(u) && (BEARER(u) != (u) || call_ver[u] == ver[u]))
#endif
#define OURS(u) (BEARER(u) == (u) && RUNS(u) && NODE(api_gpu[u]) == NODE(call_gpu[u]))

/* The whole Binding is one write: node and annotation. */
inline take_binding(u, gpu)
{
    api[BEARER(u)] = BOUND;
    api_gpu[BEARER(u)] = gpu;
    printf("api server: pod %d is bound to GPU %d\n", BEARER(u), gpu)
}

/* It arrives after any time, or is lost on the way. */
inline late_post(u, gpu)
{
    atomic {
        late[u].on[gpu];
        late[u].on[gpu] = false;
        if
        :: TAKES(u) ->
           printf("api server: a late Binding of pod %d to GPU %d arrives\n", u, gpu);
           take_binding(u, gpu)
        :: printf("network: a late Binding of pod %d to GPU %d comes to nothing\n", u, gpu)
        fi
    }
}

/* A write to an unbound pod: no Binding of an earlier version can take effect any more. */
inline move(u)
{
    ver[u]++;
#ifndef NO_VERSION_CHECK
    late[u].on[0] = false;
    late[u].on[ALL - 1] = false;
#endif
    printf("api server: pod %d is in version %d\n", u, ver[u])
}

/* For example kube-scheduler's condition or nominatedNodeName, or a tenant's annotation. */
inline others_write(u)
{
    d_step {
        api[u] == PENDING && moves < MOVES;
        moves++;
        move(u)
    }
}

inline live(u)
{
    atomic {
        if
        :: api[u] == PENDING ->
           api[u] = LEAVING;
           move(u)
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
    :: others_write(0)
    :: others_write(1)
#if NODES * GPUS > 1
    :: late_post(0, 1)
    :: late_post(1, 1)
#endif
#if UIDS > 2
    :: late_post(2, 0)
    :: others_write(2)
    :: live(2)
    :: atomic { api[0] == GONE && api[2] == ABSENT -> api[2] = PENDING; ver[2] = 1 }
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
    call_ver[u] = 0;
    maybe_sent[u] = false
}

/* This copy takes no effect. That ends the reservation unless another copy may have been sent. */
inline definite(u)
{
#ifdef ONE_REFUSAL_ENDS_IT
    ends(u, SAID_VOID)
#else
    if
    :: maybe_sent[u] -> ends(u, SAID_UNKNOWN)
    :: else -> ends(u, SAID_VOID)
    fi
#endif
}

/* A POST whose answer arrives. */
inline post(u)
{
    d_step {
        call[u] == TO_BIND;
        if
        :: !FOUND(u) && !maybe_sent[u] -> ends(u, SAID_VOID) /* 404 */
        :: !FOUND(u) && maybe_sent[u] -> call[u] = TO_CHECK
        :: FOUND(u) && TAKES_CALL(u) -> take_binding(u, call_gpu[u]); ends(u, SAID_BOUND) /* 201 */
        :: FOUND(u) && !TAKES_CALL(u) -> call[u] = TO_CHECK /* 409: start_check() */
        fi
    }
}

/* A 409 for another reason than the pod: an admission webhook. */
inline post_conflicts(u)
{
    d_step {
        call[u] == TO_BIND && conflicts < CONFLICTS && tries[u] <= TRIES && TAKES_CALL(u);
        conflicts++;
        printf("outbox: POST of pod %d: a webhook says 409\n", u);
        call[u] = TO_CHECK
    }
}

inline post_and_lose_the_answer(u)
{
    d_step {
        call[u] == TO_BIND && losses < LOSSES && TAKES_CALL(u);
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
#ifdef NO_VERSION_CHECK
        late[u].on[call_gpu[u]] = true;
#else
        late[u].on[call_gpu[u]] = (call_ver[u] == ver[u]);
#endif
        maybe_sent[u] = true
    }
}

/*
 * The deadline; also 400, 401, 403, 422, and an API server that cannot be reached. Not at the last
 * ask, which stands for all that kube-scheduler makes until one succeeds.
 */
inline give_up_post(u)
{
    d_step { call[u] == TO_BIND && tries[u] <= TRIES; definite(u) }
}

/* Unbound in a later version: the writer evaluates it again, never the outbox. */
inline check_moved(u)
{
#ifdef OUTBOX_EVALUATES
    call_ver[u] = ver[u];
    call[u] = TO_BIND
#else
    moved_to[u] = ver[u];
    ends(u, SAID_MOVED)
#endif
}

/* check_pod(), by a quorum GET */
inline check_pod(u)
{
    d_step {
        call[u] == TO_CHECK;
        if
        :: OURS(u) -> ends(u, SAID_BOUND)
        :: BEARER(u) != (u) || !UNBOUND(api[u]) && !OURS(u) -> ends(u, SAID_VOID)
        :: BEARER(u) == (u) && UNBOUND(api[u]) && ver[u] > call_ver[u] -> check_moved(u)
        :: BEARER(u) == (u) && UNBOUND(api[u]) && ver[u] <= call_ver[u] ->
#if defined(VOID_BY_TIME) || defined(UNMOVED_IS_VOID)
           ends(u, SAID_VOID)
#else
           definite(u)
#endif
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
        :: BEARER(u) == u && api[u] != ABSENT ->
           got[u] = api[u];
           got_ver[u] = ver[u]
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
    :: post_conflicts(0)
    :: post_conflicts(1)
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

/* ---------------------------------------------------------------- the informer */

/*
 * A consistent list, at start and after a 410. The API server takes its snapshot; it arrives later.
 * A new ledger does not know what was sent, so it waits until nothing can be on its way.
 */
#define NONE_LATE(u) (!late[u].on[0] && !late[u].on[ALL - 1])
#ifdef NEW_LEDGER_DOES_NOT_WAIT
#define GRACE_OVER true
#else
#define GRACE_OVER (!new_ledger || NONE_LATE(0) && NONE_LATE(1) && NONE_LATE(UIDS - 1))
#endif

proctype Informer()
{
end:
    do
    :: d_step {
           !listing && phase == COLLECT && batched == 0 && (!ready || relists < RELISTS) && GRACE_OVER;
           relists = (ready -> relists + 1 : relists);
           printf("api server: takes a snapshot for a list\n");
           FOR_PODS {
               listed[i] = api[i];
               listed_ver[i] = ver[i]
           };
           listing = true
       }
    od
}

/* ---------------------------------------------------------------- kill -9 */

/* Everything in memory is gone; calls on their way to the API server are not. */
inline forget(u)
{
    row[u] = disk[u];
    rv[u] = disk_rv[u];
    view[u] = disk[u];
    phantom[u] = FREE;
    phantom_rv[u] = 0;
    kept_news[u] = false;
    kept_outcome[u] = false;
    forget_pod(u);
    seen[u] = ABSENT;
    seen_ver[u] = 0;
    taken[u] = 0;
    taken_ver[u] = 0;
    listed[u] = ABSENT;
    listed_ver[u] = 0;
    queued[u] = 0;
    asked[u] = 0;
    got[u] = 0;
    got_ver[u] = 0;
    inflight[u] = false;
    waits[u] = false;
    action[u] = NOTHING;
    again[u] = false;
    call[u] = NOTHING;
    call_gpu[u] = 0;
    call_ver[u] = 0;
    maybe_sent[u] = false;
    outcome[u] = NOTHING;
    moved_to[u] = 0;
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
           :: phantom_on_disk -> FOR_PODS { disk[i] = phantom[i]; disk_rv[i] = phantom_rv[i] }
           :: true
           fi;
           if
           :: lost_ledgers < LOST_LEDGERS ->
              printf("the ledger is lost\n");
              lost_ledgers++;
              new_ledger = true;
              FOR_PODS { disk[i] = FREE; disk_rv[i] = 0 }
           :: lost_ledgers == 0
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
           phantom_on_disk = false;
           batched = 0;
           ready = false;
           listing = false;
           ask_for_ever_again();
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
            record[i] = api[i];
            ver[i] = (i < 2 -> 1 : 0);
            seen_ver[i] = ver[i];
            record_ver[i] = ver[i];
            listed[i] = ABSENT
        };
        run Invariants();
        run Scheduler();
        run Writer();
        run ApiServer();
        run Outbox();
        run Informer();
        run Crash()
    }
}
